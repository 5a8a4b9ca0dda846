"""A cluster of make-believe workers: everything a client is asked for is done at once, here.

What a real one would send over the wire is copied, so that nothing is shared by accident.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(eq=False)
class FakeFuture:
    home: str
    value: Any = None
    status: str = "finished"


class FakeClient:
    """Has the methods of `distributed.Client` that the engine needs.

    Parameters
    ----------
    n_workers : int
        How many there are.
    lose_at : collection of int
        When so many things have been asked for, the worker that is asked is lost; a new one comes.
    """

    def __init__(self, n_workers: int, lose_at: tuple[int, ...] = ()) -> None:
        self.workers = [f"worker-{k}" for k in range(n_workers)]
        self.lose_at = set(lose_at)
        self.comes = True
        self.status = "running"
        self.n_tasks = self.n_lost = 0
        self.futures: list[FakeFuture] = []

    def scheduler_info(self, n_workers: int = 5) -> dict[str, Any]:
        return {"workers": dict.fromkeys(self.workers)}

    def wait_for_workers(self, n_workers: int, timeout: float) -> None:
        if len(self.workers) < n_workers:
            raise TimeoutError("no worker came")

    def scatter(self, data: Any, workers: list[str], hash: bool) -> FakeFuture:  # noqa: A002
        assert not isinstance(data, dict | list | tuple | set), "entries would be sent one by one"
        self._count(workers[0])
        if workers[0] not in self.workers:
            raise KeyError(workers[0])  # as the scheduler has it
        return self._future(workers[0], lambda: copy.deepcopy(data))

    def submit(self, function: Callable, *arguments: Any, workers: list[str], pure: bool) -> Any:
        assert not pure, "the same call twice must be made twice: it changes what is held"
        home = workers[0]
        self._count(home)
        return self._future(home, lambda: function(*(self._there(home, a) for a in arguments)))

    def gather(self, futures: list[FakeFuture]) -> list[Any]:
        for future in futures:
            if future.status == "error":
                raise future.value
        return [copy.deepcopy(future.value) for future in futures]

    def run(self, function: Callable, *arguments: Any, workers: list[str]) -> dict[str, Any]:
        return {worker: function(*arguments) for worker in workers}

    def _count(self, home: str) -> None:
        self.n_tasks += 1
        if self.n_tasks in self.lose_at:
            self.lose(home)

    def lose(self, worker: str) -> None:
        """Kill a worker: all it holds is gone, and what is asked of it is never done."""
        if worker in self.workers:
            self.workers.remove(worker)
            self.n_lost += 1
            if self.comes:
                self.workers.append(f"worker-{len(self.workers)}-after-{self.n_lost}")
            for future in self.futures:
                if future.home == worker:
                    future.status, future.value = "lost", None

    def _future(self, home: str, work: Callable[[], Any]) -> FakeFuture:
        future = FakeFuture(home)
        self.futures.append(future)
        if home not in self.workers:
            future.status = "lost"
            return future
        try:
            future.value = work()
        except LookupError as lost:
            future.status, future.value = (
                ("lost", None) if lost.args == (LOST,) else ("error", lost)
            )
        except Exception as error:
            future.status, future.value = "error", error
        return future

    def _there(self, home: str, argument: Any) -> Any:
        """Return an argument as the worker sees it."""
        if isinstance(argument, list):
            return [self._there(home, entry) for entry in argument]
        if not isinstance(argument, FakeFuture):
            return copy.deepcopy(argument)
        if argument.status == "lost":
            raise LookupError(LOST)
        if argument.status == "error":
            raise argument.value
        if argument.home == home:
            return argument.value
        return copy.deepcopy(argument.value)


LOST = "a worker that was asked for something is gone"


def wait_for_fakes(engine: Any, futures: list[FakeFuture]) -> None:
    """Stand in for `DaskWorkspace.wait`."""
    if any(future.status == "lost" for future in futures):
        raise CancelledError


def same_bits(one: Any, two: Any) -> bool:
    """Tell whether arrays, numbers, or tuples of them agree to the last bit."""
    if isinstance(one, tuple | list):
        return len(one) == len(two) and all(map(same_bits, one, two))
    one, two = np.asarray(one), np.asarray(two)
    return one.shape == two.shape and one.dtype == two.dtype and one.tobytes() == two.tobytes()


def links_held(dask_worker: Any) -> int:
    """Return how many links a worker holds: those of its part, if it has one."""
    from nodeproof.distributed.layout import Block, Part
    from nodeproof.distributed.worker import Done

    found: dict[int, Any] = {}
    for thing in dask_worker.data.values():
        part = thing.state.part if isinstance(thing, Done) else thing
        if isinstance(part, Part | Block):
            found[id(part)] = part
    return sum(len(part.indices) for part in found.values())


def rows_held(dask_worker: Any) -> int:
    """Return how many memberships a worker holds: of its own nodes, and copies of others."""
    from nodeproof.distributed.worker import Done

    done = (thing for thing in dask_worker.data.values() if isinstance(thing, Done))
    return sum({id(thing.state): len(thing.state.W) for thing in done}.values())
