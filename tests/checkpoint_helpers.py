"""Fits with checkpoints that are killed: ``python checkpoint_helpers.py`` runs them.

It reads lines of JSON, ``[case, folder, moment]`` or ``["command", arguments, folder, step]``. For
each it forks a process that fits, saves after every sweep, and is killed at that moment, before it
changes files in the folder for so many times, or after so many seconds (a float); then it writes
how that process ended.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from nodeproof import NodeClassifier
from nodeproof.cli import main
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
        settings["tol"] = 1e-9  # every round takes several sweeps
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


# What changes files, as Python tells its auditors.
_STEPS = ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.chmod")
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def _die_at(step: int, folder: str) -> None:
    """Kill this process before it changes files in a folder for so many times."""
    left = [step]

    def look(event: str, arguments: tuple[Any, ...]) -> None:
        if event not in _STEPS or not str(arguments[0]).startswith(folder):
            return
        if event != "open" or arguments[2] & _WRITES:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(look)


def _run_command(arguments: list[str], folder: str = "", step: float = 0) -> None:
    Checkpoint.due = lambda self: True  # type: ignore[method-assign]
    if isinstance(step, int):
        _die_at(step, folder)
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):
        main(arguments)


def serve() -> None:
    """Let what is asked for begin, each in a process of its own, and tell how it ended."""
    clf, given = make_fit("links")
    # What it compiles, no fit after it has to load again.
    clf.set_params(terms="auto", weights="auto").fit(**given)
    for line in sys.stdin:
        case, *asked = json.loads(line)
        child = os.fork()
        if child == 0:
            if case == "command":
                try:
                    _run_command(*asked)
                except SystemExit as ended:
                    os._exit(ended.code)
            _die_fitting(case, *asked)
            os._exit(0)
        if isinstance(asked[-1], float):
            time.sleep(asked[-1])
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


@contextmanager
def killer() -> Iterator[Callable[..., int]]:
    """Yield a function that asks for a process, and returns how it ended."""
    with subprocess.Popen(
        [sys.executable, __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        text=True,
    ) as process:

        def ask(*asked: Any) -> int:
            print(json.dumps(asked, default=str), file=process.stdin, flush=True)
            return int(process.stdout.readline())

        yield ask
        process.stdin.close()


@pytest.fixture(scope="session")
def ask() -> Iterator[Callable[..., int]]:
    """Return a function that asks for a process, and returns how it ended."""
    with killer() as ask:
        yield ask


@pytest.fixture(scope="session")
def kill(ask: Callable[..., int]) -> Callable[..., None]:
    """Return a function that lets a fit begin in another process, and be killed."""

    def run(case: str, folder: Path, moment: dict[str, int]) -> None:
        assert ask(case, folder, moment) == -signal.SIGKILL

    return run


if __name__ == "__main__":
    serve()
