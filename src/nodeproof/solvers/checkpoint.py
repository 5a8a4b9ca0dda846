"""States of a solve, saved now and then so that it can resume where it was cut off."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import time
import zlib
from collections import defaultdict
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from nodeproof.affinity import Affinity
from nodeproof.errors import InputError
from nodeproof.problem import Models, Problem
from nodeproof.runtime.digests import digest_nested
from nodeproof.runtime.logs import warn_caller
from nodeproof.solvers.base import Result, Status
from nodeproof.solvers.starts import STARTS
from nodeproof.solvers.sums import Sums
from nodeproof.storage import schema
from nodeproof.storage.atomic import atomic_path
from nodeproof.storage.locking import lock_folder
from nodeproof.storage.npz import UNREADABLE, open_npz, write_npz

__all__ = ["Checkpoint", "Saved", "Session", "fingerprint"]

_FORMAT = 3

# The header has the whole history.
_LARGEST_HEADER = 1 << 28

#: n nodes, K classes; of the descent under way, what it began with, and results before
_LAYOUT = {
    "header": schema.Expected("u", "*", required=True),
    "W": schema.Expected("f", "n K"),
    r"\w+\.W": schema.Expected("f", "n K"),
    r"\w+\.log_prior": schema.Expected("f", "K"),
    r"\w+\.ell(?:_t)?": schema.Expected("f", "1 1 | K K"),
    r"\w+\.\d+": schema.Expected("f", "K | K * | K * *"),
    r"\w+\.sums_\w+": schema.Expected("f", "1 | 1 1 | K | K *"),
}

_MODELS = schema.entries({"terms": schema.count, "affinity": schema.or_none(schema.any_number)})
_HISTORY = schema.dict_of(schema.list_of(schema.any_number))
_RESULT = schema.entries(
    {"models": _MODELS, "value": schema.any_number, "status": schema.one_of(*Status.__members__),
     "n_iter": schema.count, "history": _HISTORY, "sums": schema.boolean}
)  # fmt: skip

_HEADER: dict[str, schema.Check] = {
    "format": schema.count,
    "purpose": schema.text,
    "finished": schema.boolean,
    "until_written": schema.boolean,
    "run_number": schema.count,
    "starts": schema.list_of(schema.or_none(schema.one_of(*STARTS))),
    "rng_state": schema.dict_of(schema.anything),
    "done": schema.list_of(_RESULT),
    "before": schema.or_none(_RESULT),
}

#: what there is besides while a descent is under way
_UNDER_WAY: dict[str, schema.Check] = {
    "round_number": schema.count,
    "iteration": schema.count,
    "models": _MODELS,
    "held": schema.boolean,
    "begin": schema.or_none(schema.any_number),
    "history": _HISTORY,
}


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
    """All of a solve between two sweeps, or at its end.

    Attributes
    ----------
    run_number : int
        Which start is under way, from 1.
    starts : list of str or None
        All of them; None is a start that was given as rows.
    rng_state : dict
        Of the generator, after this start was drawn.
    done : list of Result
        What the starts before have ended with, best first; at the end, all.
    before : Result or None
        The round before the one under way.
    now : Saved or None
        The descent under way; None at the end.
    """

    run_number: int
    starts: list[str | None]
    rng_state: dict[str, Any]
    done: list[Result]
    before: Result | None
    now: Saved | None


class Checkpoint:
    """A folder that holds the last state of one solve.

    The state of a solve that has ended stays: asked for again, the result is there at once. It is
    refused to any other solve unless it has ended and its result was handed over.

    Parameters
    ----------
    folder : path
        Where the state lies, in one file that is replaced as a whole. One process at a time works
        there.
    every : float
        Seconds between two saves; saving never takes more than a tenth of the time.
    until_written : bool
        Whether a result counts as handed over only when it has been written somewhere: who solves
        calls `remove` then, and `close` in any case.

    Attributes
    ----------
    purpose : str
        What is solved, and how: the solver sets it. A state that was saved for anything else is
        not taken up.
    """

    def __init__(
        self,
        folder: str | PathLike[str],
        every: float = 60.0,
        until_written: bool = False,
    ) -> None:
        self.folder, self.every, self.until_written = Path(folder), every, until_written
        self.purpose = ""
        self._next = time.monotonic() + every
        self._lock: IO[bytes] | None = None
        self._warned = False

    @property
    def path(self) -> Path:
        """The file with the state."""
        return self.folder / "state.npz"

    def due(self) -> bool:
        """Tell whether it is time to save."""
        return time.monotonic() >= self._next

    def save(self, session: Session) -> None:
        """Replace the saved state; where that cannot be done, warn, and keep the one before."""
        began = time.monotonic()
        try:
            self._write(session)
        except (OSError, InputError) as error:
            if not self._warned:
                warn_caller(f"a checkpoint was not saved, and the fit goes on without: {error}")
            self._warned = True
        now = time.monotonic()
        self._next = now + max(self.every, 9.0 * (now - began))

    def _write(self, session: Session) -> None:
        arrays: dict[str, NDArray[Any]] = {}
        header = {
            "format": _FORMAT,
            "purpose": self.purpose,
            "finished": session.now is None,
            "until_written": self.until_written,
            "run_number": session.run_number,
            "starts": session.starts,
            "rng_state": session.rng_state,
            "done": [
                _pack_result(f"done{k}", result, arrays) for k, result in enumerate(session.done)
            ],
            "before": session.before and _pack_result("before", session.before, arrays),
            **_pack_saved(session.now, arrays),
        }
        header["checksum"] = _checksum(header, arrays)
        encoded = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
        with atomic_path(self.path) as temporary, Path(temporary).open("wb") as file:
            write_npz(file, {"header": encoded, **arrays})

    def load(self) -> Session | None:
        """Return the saved state; None where there is none.

        The folder is made if need be, and locked: what is wrong with it shows before a long solve.
        """
        self._prepare()
        if not self.path.exists():
            return None
        try:
            header, arrays = self._read()
            known, ours = header["format"] == _FORMAT, header["purpose"] == self.purpose
            session = _unpack(header, arrays) if known and ours else None
            over = known and header["finished"] and not header["until_written"]
        except (OSError, LookupError, TypeError, AttributeError, *UNREADABLE) as error:
            raise InputError(
                f"{self.path} is not a checkpoint that can be read: remove it ({error})"
            ) from None
        if session is None and not over:
            by = "a fit of other data or settings" if known else "another version of nodeproof"
            raise InputError(f"{self.path} was saved by {by}: remove it, or give another folder")
        return session

    def _read(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        with open_npz(self.path) as read:
            schema.check_layout(read.headers(), _LAYOUT)
            arrays = {name: read[name] for name in read}
        header = schema.parse_object(arrays.pop("header").tobytes(), _LARGEST_HEADER)
        if header.pop("checksum") != _checksum(header, arrays):
            raise ValueError("its checksum is wrong")
        for name, array in arrays.items():
            if name.endswith("W") and not ((array >= 0) & (array <= 1 + 1e-3)).all():
                raise ValueError(f"{name} holds no probabilities")
            # A class that is empty has the logarithm of zero.
            if name.endswith(".log_prior") and not (array < np.inf).all():
                raise ValueError(f"{name} holds no proportions of classes")
            # At the end of a solve nothing is worked out from these again.
            last = re.fullmatch(r"done\d+\.(?:\d+|ell\w*|sums_\w+)", name)
            if last and not np.isfinite(array).all():
                raise ValueError(f"{name} holds numbers that are not finite")
        return header, arrays

    def _prepare(self) -> None:
        try:
            self.folder.mkdir(exist_ok=True)
            if not os.access(self.folder, os.W_OK):
                raise PermissionError(errno.EACCES, "read-only")
            if self._lock is None:
                self._lock = lock_folder(self.folder, "wait for it, or give another folder")
            for cut_off in self.folder.glob(f".*.{self.path.name}"):
                shutil.rmtree(cut_off)  # left by a process that was killed while it saved
        except OSError as error:
            raise InputError(
                f"checkpoints cannot be saved in the folder {self.folder}: {error.strerror}"
            ) from None

    def remove(self) -> None:
        """Forget the state: the result is where it is wanted."""
        self.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Let others work in the folder."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def fingerprint(problem: Problem, start: Any = None) -> str:
    """Return a digest that tells one problem from another: of all settings and all data.

    Parameters
    ----------
    problem : Problem
        Its links, and what its terms hold; what terms have worked out is left out.
    start : ndarray of shape (n, K), str or None
        What it is solved from.
    """
    graph = problem.graph
    parts: list[Any] = [
        problem.n_nodes, problem.n_classes, problem.weights, problem.threshold, problem.trust,
        problem.son, start,
    ]  # fmt: skip
    if graph is not None:
        parts += [graph.null_model, graph.indptr, graph.indices, graph.weights]
    return digest_nested([*parts, *problem.terms])


def _checksum(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> int:
    """Return a number that tells a state from what became of it."""
    found = zlib.crc32(json.dumps(header).encode())
    for name in sorted(arrays):
        flat = np.ascontiguousarray(arrays[name]).reshape(-1)
        found = zlib.crc32(flat.view(np.uint8).data, found)
    return found


def _check_header(header: dict[str, Any]) -> None:
    """Refuse entries that no solve can have saved."""
    finished = header["finished"] is True
    schema.check_entries(header, _HEADER if finished else _HEADER | _UNDER_WAY)
    if not 1 <= header["run_number"] <= len(header["starts"]):
        raise ValueError(f"run_number in its header is {header['run_number']}")
    if finished and not header["done"]:
        raise ValueError("its result is missing")


def _unpack(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Session:
    _check_header(header)
    return Session(
        header["run_number"],
        header["starts"],
        header["rng_state"],
        [_unpack_result(f"done{k}", found, arrays) for k, found in enumerate(header["done"])],
        None if header["before"] is None else _unpack_result("before", header["before"], arrays),
        None if header["finished"] else _unpack_saved(header, arrays),
    )


def _pack_saved(now: Saved | None, arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    if now is None:
        return {}
    arrays["W"] = now.W
    return {
        "round_number": now.round_number,
        "iteration": now.iteration,
        "models": _pack_models("now", now.models, arrays),
        "held": bool(now.held),
        "begin": _pack_affinity("begin", now.begin, arrays),
        "history": now.history,
    }


def _unpack_saved(packed: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Saved:
    return Saved(
        packed["round_number"],
        packed["iteration"],
        _unpack_models("now", packed["models"], arrays),
        packed["held"],
        _unpack_affinity("begin", packed["begin"], arrays),
        defaultdict(list, packed["history"]),
        arrays["W"],
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
    if packed["terms"] != listed:
        raise ValueError(f"its header says {packed['terms']} terms, and it has {listed}")
    return Models(
        _unpack_affinity(name, packed["affinity"], arrays),
        tuple(arrays[f"{name}.{k}"] for k in range(packed["terms"])),
        arrays[f"{name}.log_prior"],
    )


def _pack_result(name: str, result: Result, arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    arrays[f"{name}.W"] = result.W
    sums = {} if result.sums is None else result.sums.to_arrays()
    arrays |= {f"{name}.sums_{part}": own for part, own in sums.items()}
    packed = {key: getattr(result, key) for key in ("value", "n_iter", "history")}
    models = _pack_models(name, result.models, arrays)
    return packed | {"models": models, "status": result.status.name, "sums": bool(sums)}


def _unpack_result(name: str, packed: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Result:
    models, prefix, sums = _unpack_models(name, packed["models"], arrays), f"{name}.sums_", None
    if packed["sums"]:
        own = {part.removeprefix(prefix): array for part, array in arrays.items()}
        sums = Sums.from_arrays(own, len(models.terms))
    found = arrays[f"{name}.W"], models, packed["value"], Status[packed["status"]]
    return Result(*found, packed["n_iter"], packed["history"], sums=sums)
