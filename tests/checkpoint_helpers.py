"""Fits with checkpoints that are killed: ``python checkpoint_helpers.py`` runs them.

It reads lines of JSON, ``[case, folder, moment]``. For each it forks a process that fits, saves
after every sweep, and is killed at that moment; then it writes how that process ended.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from nodeproof import NodeClassifier
from nodeproof.datasets import make_planted
from nodeproof.solvers import BlockCADO, checkpoint
from nodeproof.solvers.checkpoint import Checkpoint, Session
from nodeproof.terms import Covariance, Gaussian, Labels, Multinomial, Softmax

K = 3


class EverySweep(Checkpoint):
    """Saves after every sweep; small fits would spend all their time on it."""

    def due(self) -> bool:
        return True


class Deadly(EverySweep):
    """Kills its own process at a moment: a start, a round, a sweep, or half way through a save."""

    def __init__(self, folder: Path, moment: dict[str, int]) -> None:
        super().__init__(folder)
        self.moment = moment

    def save(self, session: Session) -> None:
        now = session.now
        at = {"run": session.run_number, "round": now.round_number, "sweep": now.iteration}
        reached = all(at[name] == self.moment[name] for name in at if name in self.moment)
        if reached and "bytes" in self.moment:
            write = checkpoint.write_npz

            def write_some(file: Any, arrays: Any) -> None:
                write(file, arrays)
                file.truncate(self.moment["bytes"])
                file.flush()
                os.kill(os.getpid(), signal.SIGKILL)

            checkpoint.write_npz = write_some
        super().save(session)
        if reached:
            os.kill(os.getpid(), signal.SIGKILL)


def make_fit(case: str) -> tuple[NodeClassifier, dict[str, Any]]:
    """Return a classifier, and what to fit it to."""
    data = make_planted(
        K, 120, p=0.09, q=0.03, omega=0.5, label_ratio=0.1, label_accuracy=0.9, random_state=0
    )
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.ones(12), size=K)
    words = sp.csr_array(np.stack([rng.multinomial(9, shares[c]) for c in data.y_true]))
    given = {"X": data.X, "y": data.y, "graph": data.graph}
    settings: dict[str, Any] = {"random_state": 0, "n_jobs": 1, "n_init": 1}
    settings["weights"] = "calibrated"
    terms: list[Any] = [Covariance(), Labels()]
    if case == "links":
        del given["X"]
        terms = [Labels()]
    elif case == "no labels":
        del given["X"], given["y"]
        terms = []
        settings["n_classes"] = K
    elif case in ("features", "starts"):
        terms = [Covariance(intercept=True), Gaussian("full"), Labels()]
    elif case == "softmax":
        terms = [Softmax(hops=2, rounds=2), Labels()]
    elif case == "words":
        given["X"] = words
        terms = [Multinomial(trust=0.5), Labels()]
    elif case == "matrix":
        settings["solver"] = BlockCADO(affinities="matrix", n_init=1, random_state=0)
    elif case == "hard":
        settings["temperature"] = 0.0
    elif case == "fixed":
        settings["weights"], settings["threshold"] = (1.0, 2.5, 13.0), 0.05
    elif case == "auto":
        return NodeClassifier(random_state=0, n_jobs=1), given
    if case == "starts":
        settings["n_init"] = 3
    return NodeClassifier(terms=terms, **settings), given


def found(clf: NodeClassifier) -> list[Any]:
    """Return all that a fit found."""
    return [
        clf.labels_.tobytes(), clf.proba_.tobytes(), clf.objective_, clf.history_, clf.n_iter_,
        clf.status_,
    ]  # fmt: skip


def _die_fitting(case: str, folder: str, moment: dict[str, int]) -> None:
    clf, given = make_fit(case)
    clf.fit(**given, checkpoint=Deadly(Path(folder), moment))


if __name__ == "__main__":
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _die_fitting(*json.loads(line))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)
