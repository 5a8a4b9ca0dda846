"""States of a solve, saved now and then so that it can go on where it was cut off."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
import zlib
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from inspect import getattr_static
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from nodeproof.affinity import Affinity
from nodeproof.errors import InputError
from nodeproof.io.atomic import atomic_path
from nodeproof.io.files import UNREADABLE
from nodeproof.io.json_text import parse_object
from nodeproof.io.layout import Expected, check_layout
from nodeproof.io.npz import open_npz
from nodeproof.io.npz_writing import write_npz
from nodeproof.problem import Models, Problem
from nodeproof.solvers.base import Result, Status
from nodeproof.solvers.starts import STARTS
from nodeproof.terms.base import Term

__all__ = ["Checkpoint", "Saved", "Session", "fingerprint"]

_FORMAT = 1

# The header has the whole history.
_LARGEST_HEADER = 1 << 28

#: n nodes, K classes; of the descent under way, what it began with, and results before
_LAYOUT = {
    "header": Expected("u", "*", required=True),
    "W": Expected("f", "n K", required=True),
    r"\w+\.W": Expected("f", "n K"),
    r"\w+\.log_prior": Expected("f", "K"),
    r"\w+\.ell(?:_t)?": Expected("f", "1 1 | K K"),
    r"\w+\.\d+": Expected("f", "K | K * | K * *"),
}

# Bytes of an array that are looked at to tell it from others.
_SAMPLE = 2**22


@dataclass(frozen=True)
class Saved:
    """One descent between two sweeps."""

    round_number: int
    iteration: int
    models: Models
    held: bool
    begin: Affinity | None
    history: dict[str, list[float]]
    W: NDArray[np.float32]


@dataclass(frozen=True)
class Session:
    """All of a solve between two sweeps.

    Attributes
    ----------
    run_number : int
        Which start is under way, from 1.
    starts : list of str or None
        All of them; None is a start that was given as rows.
    rng_state : dict
        Of the generator, after this start was drawn.
    best : Result or None
        The best of the starts before.
    before : Result or None
        The round before the one under way.
    now : Saved
        The descent under way.
    """

    run_number: int
    starts: list[str | None]
    rng_state: dict[str, Any]
    best: Result | None
    before: Result | None
    now: Saved


class Checkpoint:
    """A folder that holds the last state.

    Parameters
    ----------
    folder : path
        Where the state lies, in one file that is replaced as a whole.
    purpose : str
        What is solved, with all settings and data: a state that was saved for anything else is
        refused.
    every : float
        Seconds between two saves; saving never takes more than a tenth of the time.
    """

    def __init__(self, folder: str | PathLike[str], purpose: str = "", every: float = 60.0) -> None:
        self.folder, self.purpose, self.every = Path(folder), purpose, every
        self._next = time.monotonic() + every

    @property
    def path(self) -> Path:
        """The file with the state."""
        return self.folder / "state.npz"

    def due(self) -> bool:
        """Tell whether it is time to save."""
        return time.monotonic() >= self._next

    def save(self, session: Session) -> None:
        """Replace the saved state."""
        began = time.monotonic()
        arrays: dict[str, NDArray[Any]] = {"W": session.now.W}
        header = {
            "format": _FORMAT,
            "purpose": self.purpose,
            "run_number": session.run_number,
            "starts": session.starts,
            "rng_state": session.rng_state,
            "best": _pack_result("best", session.best, arrays),
            "before": _pack_result("before", session.before, arrays),
            "round_number": session.now.round_number,
            "iteration": session.now.iteration,
            "models": _pack_models("now", session.now.models, arrays),
            "held": bool(session.now.held),
            "begin": _pack_affinity("begin", session.now.begin, arrays),
            "history": session.now.history,
        }
        header["checksum"] = _checksum(header, arrays)
        text = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
        with atomic_path(self.path) as temporary, Path(temporary).open("wb") as file:
            write_npz(file, {"header": text, **arrays})
        now = time.monotonic()
        self._next = now + max(self.every, 9.0 * (now - began))

    def load(self) -> Session | None:
        """Return the saved state; None where there is none.

        The folder is made if need be: what is wrong with it shows before a long solve.
        """
        self._prepare()
        if not self.path.exists():
            return None
        try:
            header, arrays = self._read()
            found = header["format"], header["purpose"]
            session = _unpack(header, arrays) if found == (_FORMAT, self.purpose) else None
        except (OSError, LookupError, TypeError, AttributeError, *UNREADABLE) as error:
            raise InputError(
                f"{self.path} is not a checkpoint that can be read: remove it ({error})"
            ) from None
        if session is None:
            raise InputError(
                f"{self.path} was saved by a fit of other data or settings: remove it, or give "
                "another folder"
            )
        return session

    def _read(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        with open_npz(self.path) as read:
            check_layout(read.headers(), _LAYOUT)
            arrays = {name: read[name] for name in read}
        header = parse_object(arrays.pop("header").tobytes(), _LARGEST_HEADER)
        if header.pop("checksum") != _checksum(header, arrays):
            raise ValueError("its checksum is wrong")
        for name, array in arrays.items():
            if name.endswith("W") and not ((array >= 0) & (array <= 1 + 1e-3)).all():
                raise ValueError(f"{name} holds no probabilities")
            # A class that is empty has the logarithm of zero.
            if name.endswith(".log_prior") and not (array < np.inf).all():
                raise ValueError(f"{name} holds no proportions of classes")
        return header, arrays

    def _prepare(self) -> None:
        try:
            self.folder.mkdir(exist_ok=True)
            for cut_off in self.folder.glob(f".*.{self.path.name}"):
                shutil.rmtree(cut_off)  # left by a process that was killed while it saved
        except OSError as error:
            raise InputError(
                f"checkpoints cannot be saved in the folder {self.folder}: {error.strerror}"
            ) from None
        if not os.access(self.folder, os.W_OK):
            raise InputError(f"checkpoints cannot be saved in the folder {self.folder}: read-only")

    def remove(self) -> None:
        """Forget the state: the solve is done."""
        self.path.unlink(missing_ok=True)


def _checksum(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> int:
    """Return a number that tells a state from what became of it."""
    found = zlib.crc32(json.dumps(header).encode())
    for name in sorted(arrays):
        flat = np.ascontiguousarray(arrays[name]).reshape(-1)
        found = zlib.crc32(flat.view(np.uint8).data, found)
    return found


def fingerprint(problem: Problem) -> str:
    """Return a text that tells one problem from another.

    It has all settings, a checksum of the labels, and checksums of samples of what is large.
    """
    parts = [
        f"{problem.n_nodes} nodes, {problem.n_classes} classes, weights {problem.weights}, "
        f"threshold {problem.threshold!r}, trust {problem.trust!r}, son {problem.son!r}"
    ]
    graph = problem.graph
    if graph is not None:
        arrays = (graph.indptr, graph.indices, graph.weights)
        parts.append(f"{graph.null_model} null model, links {' '.join(map(_digest, arrays))}")
    parts += map(_describe, problem.terms)
    return "; ".join(parts)


def _describe(term: Term) -> str:
    """Return a term's settings and checksums of its data; what it has worked out is left out."""
    found = [type(term).__name__]
    for name, value in sorted(vars(term).items()):
        if name.startswith("_") or isinstance(
            getattr_static(type(term), name, None), cached_property
        ):
            continue
        if isinstance(value, np.ndarray):
            found.append(f"{name} {_digest(value, whole=name == 'y')}")
        elif issparse(value):
            arrays = (value.indptr, value.indices, value.data)
            found.append(f"{name} {' '.join(map(_digest, arrays))}")
        elif value is None or isinstance(value, bool | int | float | str):
            found.append(f"{name} {value!r}")
    return ", ".join(found)


def _digest(array: NDArray[Any], whole: bool = False) -> str:
    """Return a checksum of an array, or of a few hundred stretches of it, evenly spaced."""
    length = len(array)
    step = max(1, length // 256)
    width = step if whole else max(1, _SAMPLE // (256 * max(1, array[:1].nbytes)))
    total = 0
    for first in range(0, length, step):
        total = zlib.crc32(array[first : first + min(width, step)].tobytes(), total)
    return f"{array.dtype}{list(array.shape)} {total:08x}"


def _check_header(header: dict[str, Any]) -> None:
    """Refuse entries that no solve can have saved."""
    for name, least in (("run_number", 1), ("round_number", 0), ("iteration", 0)):
        _require(_is_count(header[name]) and header[name] >= least, name)
    starts = header["starts"]
    _require(isinstance(starts, list), "starts")
    _require(all(start is None or start in STARTS for start in starts), "starts")
    _require(header["run_number"] <= len(starts), "run_number")
    _require(isinstance(header["rng_state"], dict), "rng_state")
    _require(isinstance(header["held"], bool), "held")
    _require(header["begin"] is None or _is_number(header["begin"]), "begin")
    _check_models(header["models"])
    _check_history(header["history"])
    for name in ("best", "before"):
        if header[name] is not None:
            _check_models(header[name]["models"])
            _check_history(header[name]["history"])
            _require(_is_number(header[name]["value"]), f"the value of {name}")
            _require(_is_count(header[name]["n_iter"]), f"n_iter of {name}")


def _check_models(found: dict[str, Any]) -> None:
    _require(_is_count(found["terms"]), "the number of terms")
    _require(found["affinity"] is None or _is_number(found["affinity"]), "affinity")


def _check_history(found: dict[str, Any]) -> None:
    steps = found.values()
    _require(
        all(isinstance(step, list) and all(map(_is_number, step)) for step in steps), "history"
    )


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(f"its header is wrong about {what}")


def _is_count(found: Any) -> bool:
    return isinstance(found, int) and not isinstance(found, bool) and 0 <= found < 2**31


def _is_number(found: Any) -> bool:
    return isinstance(found, int | float) and not isinstance(found, bool)


def _unpack(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Session:
    _check_header(header)
    now = Saved(
        header["round_number"],
        header["iteration"],
        _unpack_models("now", header["models"], arrays),
        header["held"],
        _unpack_affinity("begin", header["begin"], arrays),
        defaultdict(list, header["history"]),
        arrays["W"],
    )
    return Session(
        header["run_number"],
        header["starts"],
        header["rng_state"],
        _unpack_result("best", header["best"], arrays),
        _unpack_result("before", header["before"], arrays),
        now,
    )


def _pack_affinity(
    name: str, affinity: Affinity | None, arrays: dict[str, NDArray[Any]]
) -> float | None:
    if affinity is None:
        return None
    arrays[f"{name}.ell"], arrays[f"{name}.ell_t"] = affinity.ell, affinity.ell_t
    return affinity.constant


def _unpack_affinity(
    name: str, constant: float | None, arrays: dict[str, NDArray[Any]]
) -> Affinity | None:
    if constant is None:
        return None
    return Affinity(arrays[f"{name}.ell"], arrays[f"{name}.ell_t"], constant)


def _pack_models(name: str, models: Models, arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    arrays[f"{name}.log_prior"] = models.log_prior
    for k, theta in enumerate(models.terms):
        arrays[f"{name}.{k}"] = theta
    return {"terms": len(models.terms), "affinity": _pack_affinity(name, models.affinity, arrays)}


def _unpack_models(name: str, packed: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Models:
    listed = sum(re.fullmatch(rf"{name}\.\d+", array) is not None for array in arrays)
    _require(packed["terms"] == listed, "the number of terms")
    return Models(
        _unpack_affinity(name, packed["affinity"], arrays),
        tuple(arrays[f"{name}.{k}"] for k in range(packed["terms"])),
        arrays[f"{name}.log_prior"],
    )


def _pack_result(
    name: str, result: Result | None, arrays: dict[str, NDArray[Any]]
) -> dict[str, Any] | None:
    if result is None:
        return None
    arrays[f"{name}.W"] = result.W
    return {
        "models": _pack_models(name, result.models, arrays),
        "value": result.value,
        "status": result.status.name,
        "n_iter": result.n_iter,
        "history": result.history,
    }


def _unpack_result(
    name: str, packed: dict[str, Any] | None, arrays: dict[str, NDArray[Any]]
) -> Result | None:
    if packed is None:
        return None
    return Result(
        arrays[f"{name}.W"],
        _unpack_models(name, packed["models"], arrays),
        packed["value"],
        Status[packed["status"]],
        packed["n_iter"],
        packed["history"],
    )
