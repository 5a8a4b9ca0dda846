"""States of a solve, saved now and then so that it can go on where it was cut off."""

from __future__ import annotations

import json
import time
import zlib
from collections import defaultdict
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodeproof.errors import InputError
from nodeproof.graph import Affinity
from nodeproof.io.atomic import atomic_path
from nodeproof.problem import Models, Problem
from nodeproof.solvers.base import Result, Status

__all__ = ["Checkpoint", "Saved", "Session", "fingerprint"]

_FORMAT = 1

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
    starts : list of str
        All of them.
    rng_state : dict
        Of the generator, before this start was drawn.
    best : Result or None
        The best of the starts before.
    before : Result or None
        The round before the one under way.
    now : Saved
        The descent under way.
    """

    run_number: int
    starts: list[Any]
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
            "held": session.now.held,
            "begin": _pack_affinity("begin", session.now.begin, arrays),
            "history": session.now.history,
        }
        text = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
        self.folder.mkdir(exist_ok=True)
        with atomic_path(self.path) as temporary, Path(temporary).open("wb") as file:
            np.savez(file, allow_pickle=False, header=text, **arrays)
        now = time.monotonic()
        self._next = now + max(self.every, 9.0 * (now - began))

    def load(self) -> Session | None:
        """Return the saved state; None where there is none."""
        if not self.path.exists():
            return None
        try:
            with np.load(self.path, allow_pickle=False) as read:
                arrays = {name: read[name] for name in read.files}
            header = json.loads(arrays.pop("header").tobytes())
            found = header["format"], header["purpose"]
        except (OSError, ValueError, KeyError, TypeError, EOFError) as error:
            raise InputError(
                f"{self.path} is not a checkpoint that can be read: remove it ({error})"
            ) from None
        if found != (_FORMAT, self.purpose):
            raise InputError(
                f"{self.path} was saved by a fit of other data or settings: remove it, or give "
                "another folder"
            )
        history: dict[str, list[float]] = defaultdict(list, header["history"])
        now = Saved(
            header["round_number"],
            header["iteration"],
            _unpack_models("now", header["models"], arrays),
            header["held"],
            _unpack_affinity("begin", header["begin"], arrays),
            history,
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

    def remove(self) -> None:
        """Forget the state: the solve is done."""
        self.path.unlink(missing_ok=True)


def fingerprint(problem: Problem) -> str:
    """Return a text that tells one problem from another: its sizes, and what samples of it hold."""
    parts = [f"{problem.n_nodes} nodes", f"{problem.n_classes} classes"]
    graph = problem.graph
    if graph is not None:
        parts += [
            f"{graph.n_entries} links", graph.null_model,
            *(_digest(array) for array in (graph.indptr, graph.indices, graph.weights)),
        ]  # fmt: skip
    for term in problem.terms:
        kept = vars(term)
        arrays = [kept[name] for name in ("X", "y") if isinstance(kept.get(name), np.ndarray)]
        parts += [repr(term), *map(_digest, arrays)]
    return ", ".join(parts)


def _digest(array: NDArray[Any]) -> str:
    """Return a checksum of a few hundred stretches of an array, evenly spaced."""
    length = len(array)
    step = max(1, length // 256)
    width = max(1, _SAMPLE // (256 * max(1, array[:1].nbytes)))
    total = 0
    for first in range(0, length, step):
        total = zlib.crc32(array[first : first + min(width, step)].tobytes(), total)
    return f"{array.dtype}{list(array.shape)} {total:08x}"


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
