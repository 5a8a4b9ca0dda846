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

from nodeproof.paper.experiments.cells import code_digest
from nodeproof.storage.journal import Record, source_digest
from peers import PEERS, nets
from peers.protocols import PROTOCOLS, draw
from peers.registry import Data, Split
from peers.scoring import judge, judge_claims
from peers.sets import digest, read_set, set_name
from processes import Tell, answer, run_process, versions

# A fit may take this many times the limit for training a network before it is ended.
_PATIENCE = 10

# Modules that every figure depends on.
_SHARED = ("registry", "sets", "protocols", "scoring")

# Seconds that the first fit, on a few nodes, may train a network.
_WARM_UP = 1.0


@dataclass(frozen=True)
class Cell:
    """One fit.

    Parameters
    ----------
    source : str
        Where the set is read from; see `peers.sets.find_sets`.
    protocol : str
        Name in `PROTOCOLS`.
    method : str
        Name in `PEERS`.
    number : int
        Number of the split; also the seed of the method.
    flip : float
        Share of the training labels that are flipped.
    validation : bool
        Whether methods may look at validation nodes.
    threads : int
    limit : float
        Seconds after which training of a network stops.
    """

    source: str
    protocol: str
    method: str
    number: int
    flip: float = 0.0
    validation: bool = True
    threads: int = 2
    limit: float = 120.0

    @property
    def set_name(self) -> str:
        """Name of the set."""
        return set_name(self.source)

    @property
    def key(self) -> str:
        """What is computed, with which code from which bytes, as one line of JSON."""
        trained = PEERS[self.method].needs == "torch"
        limit = self.limit if trained else 0.0
        described = asdict(replace(self, source=self.set_name, limit=limit))
        described["data"] = digest(self.source)
        described["code"] = _digest(self.method)
        return json.dumps(described, sort_keys=True)


def run_cell(cell: Cell) -> Record:
    """Run a cell in a new process and return its record: figures, or an error in one line."""
    return run_process(
        "peers.cells", asdict(cell), threads=cell.threads, timeout=_PATIENCE * cell.limit
    )


def measure(cell: Cell) -> Record:
    """Fit in this process and return the record."""
    protocol = PROTOCOLS[cell.protocol]
    graph_set = protocol.given(read_set(cell.source))
    split, test = draw(graph_set, protocol, cell.number, flip=cell.flip, validation=cell.validation)
    fit = PEERS[cell.method].fit
    _warm_up(cell.method, graph_set.data, len(split.validation) > 0)
    nets.limit = cell.limit
    before = _reset_peak()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        began, worked = time.perf_counter(), time.process_time()
        try:
            answered = fit(graph_set.data, split, cell.number)
        except Exception as error:
            return {"error": f"{type(error).__name__}: {error}".splitlines()[0]}
        seconds, cpu = time.perf_counter() - began, time.process_time() - worked
    peak = _peak() - before
    notes = sorted({str(each.message).splitlines()[0] for each in caught if _is_told(each)})
    proba, about = answered if isinstance(answered, tuple) else (answered, {})
    figures = judge(proba, graph_set.y, test, graph_set.data.n_classes)
    return {
        **figures,
        **judge_claims(about, figures["accuracy"], split, graph_set.y),
        "seconds": round(seconds, 4),
        "cpu_seconds": round(cpu, 4),
        "peak_mb": round(peak / 1e6, 1),
        "n_test": len(test),
        "notes": notes,
    }


def _warm_up(method: str, data: Data, validation: bool) -> None:
    """Fit a few nodes of the same kind once, so that compiling and importing are not counted."""
    rng = np.random.default_rng(0)
    classes = np.arange(120) % 3
    graph = X = None
    if data.graph is not None:
        linked = rng.random((120, 120)) < np.where(classes[:, None] == classes, 0.15, 0.02)
        graph = sp.csr_array(np.triu(linked, 1), dtype=np.float32)
        graph = sp.csr_array(graph + graph.T)
    if data.X is not None:
        X = rng.poisson(np.where(np.arange(12) % 3 == classes[:, None], 1.0, 0.2))
        X = X.astype(np.float32)
        X = sp.csr_array(X) if sp.issparse(data.X) else X
    held = np.arange(30, 60 if validation else 30)
    split = Split(np.where(np.arange(120) < 30, classes, -1), held, classes[held])
    nets.limit = _WARM_UP
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            PEERS[method].fit(Data(data.name, graph, X, 3), split, 0)
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
def _digest(method: str) -> str:
    """Return a digest of the code that a method's result depends on."""
    peer, folder = PEERS[method], Path(__file__).parent
    modules = [*_SHARED, peer.fit.__module__.removeprefix("peers.")]
    if not method.startswith("nodeproof"):
        modules += ["choosing", "views"]
    if peer.needs == "torch":
        modules += ["networks", "training"]
    own = source_digest((folder / f"{module}.py" for module in modules), folder)
    if method.startswith("nodeproof"):
        return own + code_digest()
    others = {name: known for name, known in versions().items() if name != "nodeproof"}
    return own + hashlib.sha256(json.dumps(others, sort_keys=True).encode()).hexdigest()[:12]


def _answer(order: dict[str, Any], tell: Tell) -> Record:
    return measure(Cell(**order))


if __name__ == "__main__":
    answer(_answer)
