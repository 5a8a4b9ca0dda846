"""What an unfinished conversion has kept, of which anything may be wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nodeproof.errors import InputError
from nodeproof.io.graph_header import is_checksum, is_count

__all__ = ["check_state"]

_STAGES = ("placing", "buckets", "rows")


def check_state(path: Path, state: dict[str, Any]) -> None:
    """Refuse a state that no run can have kept.

    Parameters
    ----------
    path : pathlib.Path
        Where it was read from, for the message.
    state : dict
        What is finished: see `nodeproof.io.converting`.
    """
    checks = {"placing": _is_placing, "buckets": _is_buckets, "rows": _is_rows}
    finished = [stage for stage in _STAGES if stage in state]
    # Each stage builds on those before it.
    right = finished == list(_STAGES[: len(finished)])
    if not (right and all(checks[stage](state[stage], state) for stage in finished)):
        raise InputError(f"{path} is damaged; add --fresh to convert from the beginning")


def _is_placing(found: Any, state: dict[str, Any]) -> bool:
    if not isinstance(found, dict) or set(found) != {
        "way", "n_nodes", "ids", "low", "high", "entry",
    }:  # fmt: skip
        return False
    entry = found["entry"]
    return (
        found["way"] in ("offset", "ranks", "names")
        and found["ids"] in ("positions", "integer", "text")
        and is_count(found["n_nodes"])
        and found["n_nodes"] > 0
        and all(_is_int(found[end]) and abs(found[end]) <= 2**63 for end in ("low", "high"))
        and (found["ids"] == "positions" if entry is None else _is_entry(entry))
    )


def _is_entry(found: Any) -> bool:
    return (
        isinstance(found, dict)
        and set(found) == {"length", "size", "crc32"}
        and is_count(found["length"])
        and is_count(found["size"])
        and is_checksum(found["crc32"])
    )


def _is_buckets(found: Any, state: dict[str, Any]) -> bool:
    if not isinstance(found, dict) or set(found) != {"shift", "sizes", "loops", "zeros"}:
        return False
    shift, sizes = found["shift"], found["sizes"]
    return (
        is_count(shift)
        and shift < 64
        and isinstance(sizes, list)
        and len(sizes) == ((state["placing"]["n_nodes"] - 1) >> shift) + 1
        and all(map(is_count, (*sizes, found["loops"], found["zeros"])))
    )


def _is_rows(found: Any, state: dict[str, Any]) -> bool:
    if not isinstance(found, dict) or set(found) != {"finished", "written"}:
        return False
    written = found["written"]
    return (
        is_count(found["finished"])
        and found["finished"] <= len(state["buckets"]["sizes"])
        and isinstance(written, dict)
        and set(written) == {"files", "repeats", "all_one"}
        and is_count(written["repeats"])
        and isinstance(written["all_one"], bool)
        and isinstance(written["files"], dict)
        and {"indptr", "indices", "degrees"} <= set(written["files"])
        and all(map(_is_file, written["files"].values()))
    )


def _is_file(found: Any) -> bool:
    return (
        isinstance(found, dict)
        and set(found) == {"size", "crc"}
        and all(map(is_count, found.values()))
    )


def _is_int(found: Any) -> bool:
    return isinstance(found, int) and not isinstance(found, bool)
