"""Rows on the workers of a Dask cluster.

Every worker holds one part (see :mod:`nodeproof.distributed.parts`): a share of the graph's rows,
of the features, and the rows of W that it has links to. What travels: class totals and models, a
few numbers a cell back, and after each batch the new rows of its boundary, from worker to worker.

A worker that is lost takes its part with it. The parts are then dealt out anew over the workers
that there are, from the last rows that were fetched, and what was done since is done again:
with the same bits.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodeproof.distributed.dask_rows import DaskRows, WorkerLostError
from nodeproof.distributed.layout import (
    Block,
    Layout,
    Part,
    boundary_of,
    cut_block,
    cut_links,
    halo_of,
)
from nodeproof.errors import InputError, MissingExtraError
from nodeproof.problem import Problem
from nodeproof.solvers.assignments import OneHot

__all__ = ["DaskEngine", "DaskRows"]

Array = NDArray[np.float64]


# Seconds that a fit waits: for workers before it begins; for another one after all were lost, or
# for a scheduler that went away.
_PATIENCE_AT_FIRST = 120.0
_PATIENCE = 20.0

# Lost workers are looked for so often while there is no answer, in seconds.
_WATCH = 2.0


class DaskEngine:
    """Spreads a problem over the workers of a cluster.

    Parameters
    ----------
    problem : Problem
        What to solve. A graph in a folder on disk is read by the workers themselves, where they
        see the folder; everything else is sent to them.
    client : distributed.Client, optional
        The cluster; by default the client that was made last.
    """

    def __init__(self, problem: Problem, client: Any = None) -> None:
        self.problem = problem
        self.client = _current_client() if client is None else client
        self.eta = np.ones(problem.n_nodes) if problem.graph is None else problem.graph.eta
        self.layout: Layout
        self._patience = _PATIENCE_AT_FIRST
        self.homes: list[str] = []
        self.parts: list[Any] = []

    def place(self, W: NDArray[Any], hard: bool = False) -> DaskRows:
        """Return these rows, spread over the workers; hard ones are one-hot."""
        if hard:
            W = np.asarray(OneHot.of(W))
        return DaskRows(self, np.asarray(W, dtype=np.float32))

    def close(self) -> None:
        """Let the workers forget the problem."""
        self.parts, self.homes = [], []

    @property
    def lost(self) -> bool:
        """Whether a worker that holds a part is gone."""
        return not set(self.homes) <= set(self._workers())

    def _workers(self) -> list[str]:
        """Return the addresses of the workers, as the scheduler tells."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            # The client tries to connect again by itself, and knows no workers meanwhile.
            if self.client.status == "running":
                info = self.client.scheduler_info(n_workers=-1)
                if "workers" in info:
                    return sorted(info["workers"])
            if self.client.status == "closed" or time.monotonic() > deadline:
                raise InputError("the scheduler of the Dask cluster is gone; the fit is given up")
            time.sleep(0.1)

    def spread(self) -> None:
        """Deal the parts out over the workers that there are now."""
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
                f"the Dask cluster has no workers, and none came within {self._patience:g} seconds"
            ) from None

    def _see(self, path: Path) -> bool:
        """Tell whether all workers find this graph, and no other, at its path."""
        seen = self.client.run(_read_header, str(path), workers=self.homes)
        header = _read_header(str(path))
        return all(found is not None and found == header for found in seen.values())

    def _submit(self, home: str, function: Callable[..., Any], *arguments: Any) -> Any:
        return self.client.submit(function, *arguments, workers=[home], pure=False)

    def wait(self, futures: list[Any]) -> None:
        """Wait for futures, and tell when a worker is lost meanwhile."""
        from distributed import wait

        while True:
            try:
                with self.client.as_current():  # else a client that is not the default is not found
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
    from nodeproof.storage.graph_folder import GraphFolder

    return Block(*cut_links(GraphFolder.open(path), ranges), block.eta, block.terms)


def _read_header(path: str) -> dict[str, Any] | None:
    """Return the header of a graph folder, with its checksums; None where there is none."""
    from nodeproof.storage.graph_files import read_header

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
            "engine='dask' found no cluster: make a distributed.Client first, or give one as engine"
        ) from None
