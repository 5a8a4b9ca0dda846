"""The header of a graph folder, ``graph.json``."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np

from nodeproof.errors import InputError
from nodeproof.storage.npz import reading

__all__ = ["FORMAT", "index_type", "is_checksum", "is_count", "read_header", "write_header"]

FORMAT = "nodeproof graph"
_VERSION = 1
# A header has a few hundred bytes; what is larger is none.
_LARGEST = 1 << 20


def index_type(n_nodes: int) -> Any:
    """Return the type of positions: int32 while they fit."""
    return np.int32 if n_nodes < 2**31 else np.int64


def read_header(folder: Path) -> dict[str, Any]:
    """Read ``graph.json``, of which anything may be wrong."""
    path = folder / "graph.json"
    if not path.is_file():
        raise InputError(
            f"{folder} is no graph folder: it has no graph.json; see `nodeproof convert`"
        )
    with reading(path):
        data = path.read_bytes() if path.stat().st_size <= _LARGEST else b""
    try:
        header = json.loads(data)
    except (ValueError, RecursionError):
        raise InputError(f"{path} is not JSON; the folder is damaged, convert again") from None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise InputError(f"{path} is not the header of a graph folder; see `nodeproof convert`")
    version = header.get("version")
    if version != _VERSION:
        newer = isinstance(version, int) and version > _VERSION
        raise InputError(
            f"{path} has the format version {version!r}; this is nodeproof for version {_VERSION}"
            + ("; upgrade it with: pip install --upgrade nodeproof" if newer else "")
        )
    _check_header(path, header)
    return header


def _check_header(path: Path, header: dict[str, Any]) -> None:
    right = {
        "n_nodes": is_count(header.get("n_nodes")) and header["n_nodes"] > 0,
        "n_entries": is_count(header.get("n_entries")),
        "weighted": isinstance(header.get("weighted"), bool),
        "ids": header.get("ids") in ("positions", "integer", "text"),
        "files": isinstance(header.get("files"), dict),
        "read": isinstance(header.get("read"), dict),
    }
    for field, holds in right.items():
        if not holds:
            raise InputError(
                f"{path}: {field} is missing or wrong; the folder is damaged, convert again"
            )


def is_count(value: Any) -> bool:
    """Tell whether a value of the header can be a number of things."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**62


def is_checksum(value: Any) -> bool:
    """Tell whether a value of the header can be the CRC-32 of a file."""
    return isinstance(value, str) and re.fullmatch("[0-9a-f]{8}", value) is not None


def write_header(
    folder: Path,
    n_nodes: int,
    n_entries: int,
    ids: str,
    files: dict[str, dict[str, Any]],
    read: dict[str, int],
) -> None:
    """Write ``graph.json``.

    Parameters
    ----------
    folder : pathlib.Path
        Where to.
    n_nodes, n_entries : int
        See `GraphFolder`.
    ids : {"positions", "integer", "text"}
        What nodes are called by.
    files : dict
        What the ``finish`` of each file returned, by its name.
    read : dict
        See `GraphFolder`.
    """
    header = {
        "format": FORMAT,
        "version": _VERSION,
        "n_nodes": n_nodes,
        "n_entries": n_entries,
        "weighted": "weights.npy" in files,
        "ids": ids,
        "files": files,
        "read": read,
    }
    text = json.dumps(header, indent=2) + "\n"
    with (folder / "graph.json").open("w", encoding="utf-8", newline="\n") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
