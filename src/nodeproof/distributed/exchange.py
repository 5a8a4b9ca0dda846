"""How workers ask each other for memberships: directly, not by way of the scheduler.

Every worker process lists what it holds under a key of the fit and the number of the part, for as
long as the part or its memberships exist. Other workers ask for it by a message of their own, or,
where they are threads of the same process, by looking.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from threading import Lock
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

__all__ = ["Peers", "WorkerLostError", "hold"]

# What this process holds: parts, and memberships of parts, by key and number of the part.
_held: WeakValueDictionary[tuple[str, int], Any] = WeakValueDictionary()
_lock = Lock()

# Under this name workers answer each other.
_NAME = "nodeproof_ask"


class WorkerLostError(Exception):
    """A worker that held a part is gone."""


def hold(key: str, number: int, thing: Any) -> None:
    """List a part, or its memberships, for other workers to ask."""
    with _lock:
        _held[key, number] = thing
    worker = _this_worker()
    if worker is not None:
        worker.handlers[_NAME] = _answer


def _look_up(key: str, number: int) -> Any:
    with _lock:
        return _held.get((key, number))


async def _answer(key: str, number: int, what: str, arguments: Sequence[Any]) -> dict[str, Any]:
    from distributed.protocol.serialize import to_serialize

    thing = _look_up(key, number)
    if thing is None:
        return {"status": "gone"}
    found = await asyncio.to_thread(getattr(thing, what), *arguments)
    return {"status": "found", "found": to_serialize(np.ascontiguousarray(found))}


def _this_worker() -> Any:
    """Return the Dask worker that runs this task; None where there is none."""
    try:
        from distributed import get_worker

        return get_worker()
    except (ImportError, ValueError):
        return None


class Peers:
    """The workers that hold the parts of a problem.

    Parameters
    ----------
    homes : sequence of str
        Their addresses, by part.
    """

    def __init__(self, homes: Sequence[str]) -> None:
        self.homes = list(homes)

    def ask(
        self, key: str, what: str, calls: dict[int, tuple[Any, ...]]
    ) -> dict[int, NDArray[Any]]:
        """Return what parts answer.

        Parameters
        ----------
        key : str
            Under which they list what is asked.
        what : str
            A method of it that returns an array.
        calls : dict of tuple
            By number of the part: its arguments.
        """
        found: dict[int, NDArray[Any]] = {}
        for number, arguments in calls.items():
            thing = _look_up(key, number)
            if thing is not None:
                found[number] = getattr(thing, what)(*arguments)
        away = {number: calls[number] for number in calls if number not in found}
        if not away:
            return found
        worker = _this_worker()
        if worker is None:
            raise WorkerLostError
        from distributed.utils import sync

        return found | sync(worker.loop, self._ask, worker, key, what, away)

    async def _ask(
        self, worker: Any, key: str, what: str, calls: dict[int, tuple[Any, ...]]
    ) -> dict[int, NDArray[Any]]:
        answers = await asyncio.gather(
            *(self._ask_one(worker, key, number, what, calls[number]) for number in calls)
        )
        return dict(zip(calls, answers, strict=True))

    async def _ask_one(
        self, worker: Any, key: str, number: int, what: str, arguments: tuple[Any, ...]
    ) -> NDArray[Any]:
        message = {"key": key, "number": number, "what": what, "arguments": arguments}
        try:
            reply = await getattr(worker.rpc(self.homes[number]), _NAME)(**message)
        except OSError:  # the connection is gone, or none is to be had
            raise WorkerLostError from None
        if reply.get("status") != "found":
            raise WorkerLostError
        return np.asarray(reply["found"])
