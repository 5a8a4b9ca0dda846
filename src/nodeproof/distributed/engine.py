"""The Dask engine: a problem distributed over the workers of a cluster.

Every worker holds one part (see :mod:`nodeproof.distributed.layout`): a share of the graph's rows,
of the features, and of the memberships. Class totals and models are sent to the workers, a few
numbers per cell come back, and before each step a worker asks the others for the memberships that
its nodes have links to.

A worker that is lost takes its part with it. The parts are then redistributed over the remaining
workers, starting from the memberships that were saved last, and what was done since is repeated:
with the same bits.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from nodeproof.distributed.exchange import Peers, WorkerLostError
from nodeproof.distributed.layout import Layout, cut_block
from nodeproof.distributed.memberships import DaskMemberships
from nodeproof.distributed.worker import connect, make_part, read_links
from nodeproof.errors import InputError, MissingExtraError
from nodeproof.problem import Problem
from nodeproof.solvers.base import check_one_kind
from nodeproof.solvers.memberships import Engine, OneHot
from nodeproof.solvers.starts import STARTS, Disposable, as_memberships
from nodeproof.storage.graph_files import read_header
from nodeproof.storage.row_files import FileRows, MembershipFiles, mapped_file, state_of, write_rows

__all__ = ["DaskEngine", "DaskWorkspace", "as_engine"]

# Seconds that a fit waits: for workers before it begins; and for another one after all were lost,
# or for a scheduler that went away.
_PATIENCE_AT_FIRST = 120.0
_PATIENCE = 20.0

# Entries of given memberships that are copied to a file at once.
_AT_ONCE = 2**22

# Seconds between checks for lost workers while there is no answer.
_WATCH = 2.0

# Seconds between two looks at futures.
_LEAST_NAP, _LONGEST_NAP = 2e-4, 0.02


@dataclass(frozen=True)
class DaskEngine:
    """Works on the memberships of a problem on a Dask cluster: ``BlockCADO(engine=DaskEngine())``.

    Parameters
    ----------
    client : distributed.Client, optional
        The cluster; by default the client that was created last.
    scratch : path, optional
        A folder that this process and all workers see. Memberships are then saved there by the
        workers, and mapped from there by this process, which holds none; otherwise they are sent
        to it: once in thirty seconds, and at the end.
    """

    client: Any = None
    scratch: str | os.PathLike[str] | None = None

    def open(self, problem: Problem) -> DaskWorkspace:
        """Return a workspace for a problem; its parts are distributed on first use."""
        check_one_kind(problem.graph, "a cluster")
        client = _current_client() if self.client is None else self.client
        return DaskWorkspace(problem, client, self.scratch)


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
        What to solve. A graph in a folder on disk, and features that are mapped from a file, are
        read by the workers themselves, where they see them; everything else is sent to them.
    client : distributed.Client
        The cluster.
    scratch : path, optional
        A folder for memberships; see :class:`DaskEngine`.
    """

    def __init__(
        self, problem: Problem, client: Any, scratch: str | os.PathLike[str] | None = None
    ) -> None:
        self.problem, self.client = problem, client
        self.layout: Layout
        self._patience = _PATIENCE_AT_FIRST
        self.homes: list[str] = []
        self.parts: list[Any] = []
        shape = problem.n_nodes, problem.n_classes
        #: where workers save memberships; None: they are sent to this process
        self.files = None if scratch is None else MembershipFiles(Path(scratch), shape)

    def start(
        self, given: NDArray[Any] | str | Disposable, rng: np.random.Generator
    ) -> NDArray[np.float32] | OneHot:
        """Return memberships to start from; with a folder for them, given ones go to a file."""
        n, K, known = self.problem.n_nodes, self.problem.n_classes, self.problem.labels
        if not isinstance(given, str):
            if self.files is not None and isinstance(given, Disposable):
                given = given.W  # maybe of an earlier file, which is kept as it is
            if self.files is None or isinstance(given, Disposable) or len(given) != n:
                return as_memberships(given, n, K)
            W = self.files.create()
            some = max(1, _AT_ONCE // K)
            for lo in range(0, n, some):
                rows = given[lo : lo + some]
                rows = as_memberships(rows, len(rows), K)
                write_rows(W.filename, (n, K), [(lo, lo + len(rows))], rows)
            self.files.keep(W)
            return W
        if given != "labels" or known is None:
            return STARTS[given](self.problem, rng)
        return OneHot(known.astype(np.int16 if K < 2**15 else np.int32), K)

    def place(self, W: NDArray[Any] | OneHot, hard: bool = False) -> DaskMemberships:
        """Return memberships (n, K), distributed over the workers; hard ones are one-hot."""
        if isinstance(W, OneHot):
            return DaskMemberships(self, W)
        if hard:
            return DaskMemberships(self, OneHot.of(W))
        return DaskMemberships(self, np.asarray(W, dtype=np.float32))

    def release(self) -> None:
        """Forget what the workers hold of the problem."""
        self.parts, self.homes = [], []

    def close(self) -> None:
        """Release what the workers hold, and the files; those that are mapped stay readable."""
        self.release()
        if self.files is not None:
            self.files.close()

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
        self.homes, self._patience = workers, _PATIENCE
        self.layout = Layout.of(self.problem, len(workers))
        self._check_files()
        key, peers = uuid4().hex, Peers(workers)
        blocks = [self._block(p) for p in range(len(workers))]
        parts = [
            self.submit(home, make_part, self.layout, p, blocks[p], key)
            for p, home in enumerate(workers)
        ]
        self.wait(parts)
        self.gather(
            [self.submit(home, connect, parts[p], key, peers) for p, home in enumerate(workers)]
        )
        self.parts = parts

    def _check_files(self) -> None:
        """Find out which files all workers see."""
        graph = self.problem.graph
        folder = None if graph is None else graph.folder
        self._folder = None
        if folder is not None and self._agree(_read_header, str(folder.path)):
            self._folder = str(folder.path)
        features = {k: mapped_file(getattr(t, "X", None)) for k, t in enumerate(self.problem.terms)}
        self._seen = {
            k: file is not None and self._agree(state_of, str(file.filename))
            for k, file in features.items()
        }
        if self.files is not None and not self._agree(state_of, str(self.files.begin())):
            warnings.warn(
                f"not all workers of the cluster see {self.files.folder.parent}: memberships are "
                "sent to this process",
                stacklevel=2,
            )
            self.files.close()
            self.files = None

    def _block(self, p: int) -> Any:
        """Return the block of a part: a future on its worker."""
        problem, layout, home = self.problem, self.layout, self.homes[p]
        graph, folder = problem.graph, self._folder
        block = cut_block(problem, layout, p, links=folder is None)
        self._fill(block.terms)
        sent = self.client.scatter(block, workers=[home], hash=False)
        if graph is None or folder is None:
            return sent
        null = graph.null_model, graph.total
        return self.submit(home, read_links, sent, layout, p, folder, null)

    def _fill(self, terms: dict[int, Any]) -> None:
        """Give shares of terms the features that the workers cannot read."""
        for k, term in terms.items():
            if isinstance(getattr(term, "X", None), FileRows) and not self._seen[k]:
                term.X = term.X.read()

    def _wait_for_a_worker(self) -> None:
        try:
            self.client.wait_for_workers(1, timeout=self._patience)
        except TimeoutError:
            raise InputError(
                "the Dask cluster has no workers, and none joined within "
                f"{self._patience:g} seconds"
            ) from None

    def _agree(self, look: Callable[[str], Any], path: str) -> bool:
        """Tell whether all workers find at a path what this process does."""
        here = look(path)
        found = self.client.run(look, path, workers=self.homes)
        return here is not None and all(there == here for there in found.values())

    def submit(self, home: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Submit a call to a worker; return its future."""
        return self.client.submit(function, *arguments, workers=[home], pure=False)

    def wait(self, futures: list[Any]) -> None:
        """Wait for futures; raise an error if a worker is lost meanwhile."""
        # Looked at again and again: a wait of Dask's that times out leaves cycles of frames, which
        # keep futures, and what workers hold for them, until the garbage collector comes by.
        start = seen = time.monotonic()
        while not all(future.done() for future in futures):
            now = time.monotonic()
            if now - seen > _WATCH:
                if self.lost:
                    raise WorkerLostError
                seen = now
            time.sleep(min(max((now - start) / 20, _LEAST_NAP), _LONGEST_NAP))

    def gather(self, futures: list[Any]) -> list[Any]:
        """Return the results of futures."""
        self.wait(futures)
        if any(future.status in ("lost", "cancelled") for future in futures):
            raise WorkerLostError
        return list(self.client.gather(futures))


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
