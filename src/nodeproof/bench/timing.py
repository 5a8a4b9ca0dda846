"""One fit, timed; and what every measurement has in common."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodeproof import NodeClassifier
from nodeproof.bench.data import K
from nodeproof.solvers import Progress

__all__ = ["SMALL", "Fit", "Record", "Tell", "judge", "seconds_of"]

#: what is kept of a measurement, ready for JSON
Record = dict[str, Any]

#: told now and then how far the work is
Tell = Callable[[str], None]

#: links of the graph that a first fit compiles for
SMALL = 10_000


class Fit:
    """One fit as a user would make it, timed as a whole and by its sweeps.

    Attributes
    ----------
    seconds : float
        Of the whole fit.
    sweep : float or None
        The median time from one sweep to the next; None where there is only one.
    n_iter, status : int, str
        How it ended.
    starts : int
        How many starts there were.
    chosen : list of str
        What was chosen on the way, for which labels may have been held back.
    labels : ndarray of shape (n,)
        What was found.
    """

    def __init__(self, graph: Any, X: Any, y: Any, callback: Any = None) -> None:
        ends: list[tuple[int, float]] = []
        self.starts = 0

        def mark(progress: Progress) -> None:
            ends.append((progress.run, time.perf_counter()))
            self.starts = progress.n_runs
            if callback:
                callback(progress)

        clf = NodeClassifier(n_classes=K, random_state=0, verbose=mark)
        began = time.perf_counter()
        clf.fit(X, y, graph=graph)
        self.seconds = time.perf_counter() - began
        gaps = [
            after - before for (run, before), (next_run, after) in pairwise(ends) if run == next_run
        ]
        self.sweep = float(np.median(gaps)) if gaps else None
        self.n_iter = int(clf.n_iter_)
        self.status = str(clf.status_)
        self.chosen = sorted(clf.choices_)
        self.labels: NDArray[Any] = clf.labels_


def judge(labels: NDArray[Any], truth: NDArray[Any], y: NDArray[Any]) -> Record:
    """Return the accuracy at all nodes and at those without a label."""
    right = labels == truth
    return {"accuracy": float(right.mean()), "hidden": float(right[y < 0].mean())}


def seconds_of(work: Callable[[], object]) -> float:
    """Return how long some work takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
