"""Cells: one method on one split of one graph, fitted and measured in a process of its own."""

from __future__ import annotations

import hashlib
import json
import sys
import time
import warnings
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.metrics import log_loss

from nodeproof.metrics import expected_calibration_error
from nodeproof.paper.experiments.cells import code_digest
from nodeproof.storage.journal import Record, source_digest
from peers import PEERS, nets
from peers.registry import Data, Split
from peers.sets import draw, read_set
from processes import Tell, answer, run_process, versions

# A fit may take this many times the limit for training a network before it is ended.
_PATIENCE = 10

# Seconds that the first fit, on a few nodes, may train a network.
_WARM_UP = 1.0


@dataclass(frozen=True)
class Cell:
    """One fit.

    Parameters
    ----------
    path : str
        The file of the set.
    method : str
        Name in `PEERS`.
    number : int
        Number of the split; also the seed of the method.
    random : bool
        Whether the split is random.
    flip : float
        Share of the training labels that are flipped.
    validation : bool
        Whether methods may look at validation nodes.
    threads : int
    limit : float
        Seconds after which training of a network stops.
    """

    path: str
    method: str
    number: int
    random: bool
    flip: float = 0.0
    validation: bool = True
    threads: int = 2
    limit: float = 120.0

    @property
    def set_name(self) -> str:
        """Name of the set."""
        return Path(self.path).stem

    @property
    def key(self) -> str:
        """What is computed, with which code from which bytes, as one line of JSON."""
        trained = PEERS[self.method].needs == "torch"
        described = asdict(replace(self, path=self.set_name, limit=self.limit if trained else 0.0))
        described["data"] = _file_digest(self.path)
        described["code"] = _digest(self.method)
        return json.dumps(described, sort_keys=True)


def run_cell(cell: Cell) -> Record:
    """Run a cell in a new process and return its record: figures, or an error in one line."""
    return run_process(
        "peers.cells", asdict(cell), threads=cell.threads, timeout=_PATIENCE * cell.limit
    )


def measure(cell: Cell) -> Record:
    """Fit in this process and return the record."""
    graph_set = read_set(Path(cell.path))
    split, test = draw(
        graph_set,
        random=cell.random,
        number=cell.number,
        flip=cell.flip,
        validation=cell.validation,
    )
    fit = PEERS[cell.method].fit
    _warm_up(cell, graph_set.data)
    nets.limit = cell.limit
    before = _reset_peak()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        began, worked = time.perf_counter(), time.process_time()
        try:
            proba = fit(graph_set.data, split, cell.number)
        except Exception as error:
            return {"error": f"{type(error).__name__}: {error}".splitlines()[0]}
        seconds, cpu = time.perf_counter() - began, time.process_time() - worked
    peak = _peak() - before
    notes = sorted({str(each.message).splitlines()[0] for each in caught if _is_told(each)})
    return {
        **judge(proba, graph_set.y, test),
        "seconds": round(seconds, 4),
        "cpu_seconds": round(cpu, 4),
        "peak_mb": round(peak / 1e6, 1),
        "n_test": len(test),
        "notes": notes,
    }


def judge(proba: Any, y: NDArray[np.int64], test: NDArray[np.int64]) -> dict[str, float]:
    """Return accuracy, log-loss and calibration error on the test nodes."""
    proba = np.asarray(proba, dtype=np.float64)
    K = int(y.max()) + 1
    if proba.shape != (len(y), K) or not np.isfinite(proba).all():
        raise ValueError(f"not probabilities of {len(y)} nodes in {K} classes: {proba.shape}")
    seen, truth = proba[test] / proba[test].sum(axis=1, keepdims=True), y[test]
    return {
        "accuracy": float((seen.argmax(axis=1) == truth).mean()),
        "log_loss": float(log_loss(truth, seen, labels=range(K))),
        "ece": expected_calibration_error(truth, seen),
    }


def _warm_up(cell: Cell, data: Data) -> None:
    """Fit a few nodes of the same kind once, so that compiling and importing are not counted."""
    rng = np.random.default_rng(0)
    classes = np.arange(120) % 3
    same = rng.random((120, 120)) < np.where(classes[:, None] == classes, 0.15, 0.02)
    graph = sp.csr_array(np.triu(same, 1), dtype=np.float32)
    X = None
    if data.X is not None:
        X = rng.poisson(np.where(np.arange(12) % 3 == classes[:, None], 1.0, 0.2))
        X = X.astype(np.float32)
        X = sp.csr_array(X) if sp.issparse(data.X) else X
    small = Data(data.name, sp.csr_array(graph + graph.T), X, 3)
    held = np.arange(30, 60 if cell.validation else 30)
    split = Split(np.where(np.arange(120) < 30, classes, -1), held, classes[held])
    nets.limit = _WARM_UP
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            PEERS[cell.method].fit(small, split, 0)
        except Exception:
            return  # the fit itself will report what is wrong


def _is_told(warning: warnings.WarningMessage) -> bool:
    return issubclass(warning.category, UserWarning) and "Sparse" not in str(warning.message)


def _reset_peak() -> int:
    """Return the memory held now in bytes; the peak counts from here (Linux)."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
        return _status("VmRSS")
    except OSError:
        return _peak()


def _peak() -> int:
    try:
        return _status("VmHWM")
    except OSError:
        import resource

        unit = 1 if sys.platform == "darwin" else 1024
        return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return 1024 * int(line.split()[1])
    return 0


@cache
def _file_digest(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()[:12]


@cache
def _digest(method: str) -> str:
    """Return a digest of the code that a method's result depends on."""
    peer, folder = PEERS[method], Path(__file__).parent
    modules = ["registry", "sets", peer.fit.__module__.removeprefix("peers.")]
    if peer.needs == "torch":
        modules.append("training")
    own = source_digest((folder / f"{module}.py" for module in modules), folder)
    if method.startswith("nodeproof"):
        return own + code_digest()
    others = {name: known for name, known in versions().items() if name != "nodeproof"}
    return own + hashlib.sha256(json.dumps(others, sort_keys=True).encode()).hexdigest()[:12]


def _answer(order: dict[str, Any], tell: Tell) -> Record:
    return measure(Cell(**order))


if __name__ == "__main__":
    answer(_answer)
