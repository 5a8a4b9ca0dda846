"""The Dask engine: a problem distributed over the workers of a cluster.

Every worker holds one part (see :mod:`nodeproof.distributed.layout`): a share of the graph's rows,
of the features, and the memberships of the nodes that it has links to. Class totals and models are
sent to the workers, a few numbers per cell come back, and after each batch the new memberships of a
part's boundary go from worker to worker.

A worker that is lost takes its part with it. The parts are then redistributed over the remaining
workers, starting from the memberships that were fetched last, and what was done since is repeated:
with the same bits.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodeproof.distributed.layout import (
    Block,
    Layout,
    Part,
    boundary_of,
    cut_block,
    cut_links,
    halo_of,
)
from nodeproof.distributed.memberships import DaskMemberships, WorkerLostError
from nodeproof.errors import InputError, MissingExtraError
from nodeproof.problem import Problem
from nodeproof.solvers.memberships import Engine, OneHot
from nodeproof.storage.graph_files import read_header
from nodeproof.storage.graph_folder import GraphFolder

__all__ = ["DaskEngine", "DaskWorkspace", "as_engine"]

# Seconds that a fit waits: for workers before it begins; and for another one after all were lost,
# or for a scheduler that went away.
_PATIENCE_AT_FIRST = 120.0
_PATIENCE = 20.0

# Seconds between checks for lost workers while there is no answer.
_WATCH = 2.0


@dataclass(frozen=True)
class DaskEngine:
    """Works on the memberships of a problem on a Dask cluster: ``BlockCADO(engine=DaskEngine())``.

    Parameters
    ----------
    client : distributed.Client, optional
        The cluster; by default the client that was created last.
    """

    client: Any = None

    def open(self, problem: Problem) -> DaskWorkspace:
        """Return a workspace for a problem; its parts are distributed on first use."""
        return DaskWorkspace(problem, _current_client() if self.client is None else self.client)


def as_engine(engine: Any) -> Engine | None:
    """Return an engine for what users may give as one, or raise an error.

    Parameters
    ----------
    engine : None, "dask", distributed.Client or Engine
        This machine, the Dask cluster that was connected to last, this one, or another engine.
    """
    if engine is None or isinstance(engine, Engine):
        return engine
    if isinstance(engine, str) and engine == "dask":
        return DaskEngine()
    if hasattr(engine, "scheduler_info"):
        return DaskEngine(engine)
    raise InputError(
        f"engine must be None (this machine), 'dask' or a distributed.Client, got {engine!r}"
    )


class DaskWorkspace:
    """A problem distributed over the workers of a cluster.

    Parameters
    ----------
    problem : Problem
        What to solve. A graph in a folder on disk is read by the workers themselves, where they
        see the folder; everything else is sent to them.
    client : distributed.Client
        The cluster.
    """

    def __init__(self, problem: Problem, client: Any) -> None:
        self.problem, self.client = problem, client
        self.eta = np.ones(problem.n_nodes) if problem.graph is None else problem.graph.eta
        self.layout: Layout
        self._patience = _PATIENCE_AT_FIRST
        self.homes: list[str] = []
        self.parts: list[Any] = []

    def place(self, W: NDArray[Any], hard: bool = False) -> DaskMemberships:
        """Return memberships (n, K), distributed over the workers; hard ones are one-hot."""
        if hard:
            W = np.asarray(OneHot.of(W))
        return DaskMemberships(self, np.asarray(W, dtype=np.float32))

    def close(self) -> None:
        """Release what the workers hold of the problem."""
        self.parts, self.homes = [], []

    @property
    def lost(self) -> bool:
        """Whether a worker that holds a part is gone."""
        return not set(self.homes) <= set(self._workers())

    def _workers(self) -> list[str]:
        """Return the addresses of the workers that the scheduler knows."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            # The client reconnects by itself, and knows no workers meanwhile.
            if self.client.status == "running":
                info = self.client.scheduler_info(n_workers=-1)
                if "workers" in info:
                    return sorted(info["workers"])
            if self.client.status == "closed" or time.monotonic() > deadline:
                raise InputError("the scheduler of the Dask cluster is gone; the fit was abandoned")
            time.sleep(0.1)

    def spread(self) -> None:
        """Distribute the parts over the current workers."""
        self.parts = []
        workers = self._workers()
        if not workers:
            self._wait_for_a_worker()
            workers = self._workers()
        problem, graph = self.problem, self.problem.graph
        self.homes, self._patience = workers, _PATIENCE
        self.layout = Layout(problem.n_nodes, problem.n_classes, len(workers))
        blocks = []
        folder = None if graph is None else graph.folder
        if folder is not None and not self._see(folder.path):
            folder = None
        for p, home in enumerate(workers):
            given = cut_block(None if folder else graph, problem, self.layout, p)
            if folder is not None:
                eta = np.concatenate(
                    [self.eta[:0], *(self.eta[lo:hi] for lo, hi in self.layout.ranges(p))]
                )
                given = Block(given.indptr, given.indices, given.weights, eta, given.terms)
            sent = self.client.scatter(given, workers=[home], hash=False)
            if folder is not None:
                ranges = self.layout.ranges(p)
                sent = self._submit(home, _read_block, sent, str(folder.path), ranges)
            blocks.append(sent)
        numbers = range(len(workers))
        halos = [self._submit(workers[p], halo_of, blocks[p], self.layout, p) for p in numbers]
        edges = [self._submit(workers[p], boundary_of, halos, self.layout, p) for p in numbers]
        self.parts = [
            self._submit(workers[p], Part, self.layout, p, blocks[p], halos[p], edges)
            for p in numbers
        ]
        self.wait(self.parts)

    def _wait_for_a_worker(self) -> None:
        try:
            self.client.wait_for_workers(1, timeout=self._patience)
        except TimeoutError:
            raise InputError(
                "the Dask cluster has no workers, and none joined within "
                f"{self._patience:g} seconds"
            ) from None

    def _see(self, path: Path) -> bool:
        """Tell whether all workers find this very graph at its path."""
        seen = self.client.run(_read_header, str(path), workers=self.homes)
        header = _read_header(str(path))
        return all(found is not None and found == header for found in seen.values())

    def _submit(self, home: str, function: Callable[..., Any], *arguments: Any) -> Any:
        return self.client.submit(function, *arguments, workers=[home], pure=False)

    def wait(self, futures: list[Any]) -> None:
        """Wait for futures; raise an error if a worker is lost meanwhile."""
        from distributed import wait

        while True:
            try:
                with self.client.as_current():  # a client need not be the default
                    wait(futures, timeout=_WATCH)
            except TimeoutError:
                if self.lost:
                    raise WorkerLostError from None
            else:
                return

    def gather(self, futures: list[Any]) -> list[Any]:
        """Return the results of futures."""
        self.wait(futures)
        if any(future.status in ("lost", "cancelled") for future in futures):
            raise WorkerLostError
        return list(self.client.gather(futures))


def _read_block(block: Block, path: str, ranges: list[tuple[int, int]]) -> Block:
    return Block(*cut_links(GraphFolder.open(path), ranges), block.eta, block.terms)


def _read_header(path: str) -> dict[str, Any] | None:
    """Return the header of a graph folder, with its checksums; None where there is none."""
    try:
        return read_header(Path(path))
    except (InputError, OSError):
        return None


def _current_client() -> Any:
    try:
        from distributed import Client
    except ImportError:
        raise MissingExtraError("distributed", "dask") from None
    try:
        return Client.current()
    except ValueError:
        raise InputError(
            "engine='dask' found no cluster: make a distributed.Client first, or pass one as engine"
        ) from None
