"""The state of a running app, which all its windows share."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from nodeproof import __version__
from nodeproof.app.journal import Journal
from nodeproof.app.labels import LabelState
from nodeproof.app.maps import choose_mapped, map_data, map_update
from nodeproof.app.nodes import Nodes
from nodeproof.app.refitting import can_refit, compare, refit
from nodeproof.errors import InputError, one_line
from nodeproof.fitted import Fitted
from nodeproof.query import query_nodes, smoothing_of
from nodeproof.report.charts import colours
from nodeproof.solvers.base import Progress

__all__ = ["Outputs", "Session"]

# How many nodes are proposed at a time.
_ASKED, _MOST_SUSPECTS = 100, 5_000

# Of larger graphs the least certain nodes are proposed until it is known which tell most.
_QUICK = 10_000


class Outputs(Protocol):
    """How results are written; the command line knows."""

    def write(self, fitted: Fitted) -> list[str]:
        """Write model, predictions and summary to the folder; return the names of the files."""

    def table(self, columns: dict[str, NDArray[Any]]) -> bytes:
        """Return columns as CSV."""


@dataclass
class _Job:
    """What runs in the background: nothing, a fit, or writing results."""

    what: str = ""
    began: float = 0.0
    sweep: int = 0
    error: str = ""


class Session:
    """Labels, the current fit, what to ask next, and the history of fits.

    Methods are called by the server's thread; fits run in another, one at a time.

    Parameters
    ----------
    fitted : Fitted
        The model that the app was started with.
    journal : Journal
        The journal of labels in its folder.
    outputs : Outputs
        Where results go.
    """

    def __init__(self, fitted: Fitted, journal: Journal, outputs: Outputs) -> None:
        if fitted.given is None or len(fitted.classes) < 2:
            raise InputError(
                "the app corrects and adds labels of two or more named classes, and this model "
                "was fitted without: fit again with a few labels"
            )
        self.fitted, self.outputs = fitted, outputs
        self.labels = LabelState(fitted, journal)
        self.nodes = Nodes(fitted)
        self.rounds: list[dict[str, Any]] = []
        self.asked: list[int] = []
        self.written: list[str] = []
        self.written_round = 0
        self.round = 0
        self.job = _Job()
        self.changed: Callable[[], None] = lambda: None
        self._background = ThreadPoolExecutor(1)
        self._mapped = choose_mapped(fitted)
        self._map: dict[str, Any] | None = None
        # Which nodes are alike does not depend on labels, and is found once.
        self._smoothing = smoothing_of(fitted)
        self.asking = fitted.n_nodes > _QUICK and fitted.data is not None
        self._query("uncertainty" if self.asking else None)()
        self._record(0.0, None)

    # ---- what a page asks for

    def start(self, window: str) -> dict[str, Any]:
        """Return what a window needs once."""
        fitted = self.fitted
        if self._map is None:
            self._map = {"data": map_data(self.nodes, self._mapped)}
        return {
            "version": __version__,
            "classes": [str(name) for name in self.labels.classes],
            "colours": colours(len(self.labels.classes)),
            "names": None
            if fitted.node_ids is None
            else [str(self.labels.names[row]) for row in self._mapped.tolist()],
            "n": fitted.n_nodes,
            "links": fitted.n_links,
            "map": self._map["data"],
            "refits": can_refit(fitted),
            "notes": self.labels.notes(),
            "state": self.state(window),
        }

    def state(self, window: str) -> dict[str, Any]:
        """Return what changes: counts, what is left to look at, the last fits and the job."""
        self.labels.catch_up()
        open_ = ~self.labels.reviewed
        suspects = self.fitted.suspects
        left = suspects[open_[suspects.node]][:_MOST_SUSPECTS]
        job = self.job
        return {
            "version": self.labels.version,
            "round": self.round,
            "counts": self.labels.counts(window),
            "pending": len(self.labels.changed_from(self._given())),
            "suspects": left.node.tolist(),
            "asked": [row for row in self.asked if open_[row] and self.labels.codes[row] < 0],
            "rounds": self._told_rounds(),
            "job": {
                "what": job.what,
                "seconds": round(time.monotonic() - job.began, 1) if job.what else 0.0,
                "sweep": job.sweep,
                "error": job.error,
            },
            "written": self.written if self.written_round == self.round else [],
        }

    def _told_rounds(self) -> list[dict[str, Any]]:
        """Return the history of fits; which nodes have moved is told of the last one alone."""
        earlier = [
            entry | {"changes": entry["changes"] and {"count": entry["changes"]["count"]}}
            for entry in self.rounds[:-1]
        ]
        return earlier + self.rounds[-1:]

    def map_state(self) -> dict[str, Any]:
        """Return the arrays of the map that change."""
        return map_update(self.fitted, self.labels, self._mapped)

    def describe(self, row: int) -> dict[str, Any]:
        """Return what speaks for the class of a node."""
        if not 0 <= row < self.fitted.n_nodes:
            raise InputError(f"there is no node {row}")
        return self.nodes.describe(row, self.labels)

    def label(self, rows: Any, codes: Any, kind: str, window: str) -> None:
        """Save labels at once."""
        if kind not in ("confirm", "label", "relabel"):
            raise InputError("kind must be confirm, label or relabel")
        self.labels.catch_up()
        self.labels.label(*self.labels.check(rows, codes), kind, window)
        self.changed()

    def undo(self, window: str) -> list[int]:
        """Undo the last action of a window."""
        rows = self.labels.undo(window)
        self.changed()
        return rows

    def table(self) -> bytes:
        """Return all labels as CSV."""
        self.labels.catch_up()
        return self.outputs.table(self.labels.columns())

    # ---- in the background

    def refit(self, done: Callable[[Callable[[], None]], None]) -> bool:
        """Start a fit with the labels as they are; False if a job is running already.

        Parameters
        ----------
        done : callable
            Called from the other thread with what the server's thread must do then.
        """
        if not can_refit(self.fitted):
            raise InputError(
                "this model was saved without the data of its fit: download the labels, and run "
                "`nodeproof fit` with them"
            )
        self.labels.catch_up()
        fitted, labels = self.fitted, self.labels.changed_from(self._given())

        def work() -> Callable[[], None]:
            began = time.perf_counter()
            after, notes = refit(fitted, labels, self._tell) if labels else (fitted, [])
            seconds = time.perf_counter() - began
            what = compare(fitted, after)
            nodes = Nodes(after)

            def finish() -> None:
                self.fitted, self.nodes = after, nodes
                self.round += 1
                self._record(seconds, what, len(labels), notes)

            return finish

        return self._run("refit", work, done)

    def write(self, done: Callable[[Callable[[], None]], None]) -> bool:
        """Start writing the results to the folder; False if a job is running already."""
        fitted, current = self.fitted, self.round

        def work() -> Callable[[], None]:
            written = self.outputs.write(fitted)

            def finish() -> None:
                self.written, self.written_round = written, current

            return finish

        return self._run("write", work, done)

    def ask(self, done: Callable[[Callable[[], None]], None]) -> None:
        """Choose the nodes to ask for next, in the background."""
        self._run("ask", self._query, done)

    def close(self) -> None:
        """Wait for what runs in the background."""
        self._background.shutdown(wait=True, cancel_futures=True)

    def _run(
        self,
        what: str,
        work: Callable[[], Callable[[], None]],
        done: Callable[[Callable[[], None]], None],
    ) -> bool:
        # Nobody waits for the choice of what to ask for.
        if self.job.what and (self.job.what != "ask" or what == "ask"):
            return False
        self.job = job = _Job(what, time.monotonic())
        self.changed()

        def run() -> None:
            try:
                finish = work()
                error = ""
            except Exception as failure:
                finish = lambda: None  # noqa: E731
                known = isinstance(failure, InputError)
                error = str(failure) if known else one_line(failure)

            def end() -> None:
                finish()
                if self.job is job:
                    self.job = _Job(error=error)
                self.changed()
                if what == "refit" and not error:
                    self.ask(done)

            done(end)

        self._background.submit(run)
        return True

    def _tell(self, progress: Progress) -> None:
        self.job.sweep += 1

    def _query(self, how: str | None = None) -> Callable[[], None]:
        """Return what sets the nodes to ask for: informative ones, or the least certain."""
        fitted = self.fitted
        open_ = np.flatnonzero((self.labels.codes < 0) & ~self.labels.reviewed)
        how = how or ("uncertainty" if fitted.data is None else "informative")
        found = open_
        if len(open_):
            found = query_nodes(fitted, _ASKED, how, open_, self._smoothing)[0]

        def finish() -> None:
            self.asked = found.tolist()

        return finish

    def _given(self) -> NDArray[np.int64]:
        given = self.fitted.given
        assert given is not None
        return given

    def _record(
        self,
        seconds: float,
        changes: dict[str, Any] | None,
        labels: int = 0,
        notes: Sequence[str] = (),
    ) -> None:
        fitted = self.fitted
        self.rounds.append(
            {
                "round": self.round,
                "accuracy": fitted.estimated_accuracy,
                "mean": round(float(fitted.proba.max(axis=1).mean(dtype=np.float64)), 5),
                "suspects": len(fitted.suspects),
                "labels": labels,
                "seconds": round(seconds, 2),
                "changes": changes,
                "notes": list(notes),
            }
        )
