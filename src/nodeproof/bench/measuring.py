"""Measure one cell; run as a module, in a process that does nothing else.

What is printed by libraries goes to the standard error stream; the standard output has one line
of JSON for each piece of news, the last of them the record.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
from numpy.typing import NDArray

from nodeproof import NodeClassifier
from nodeproof.bench.cells import Cell
from nodeproof.bench.data import (
    DEGREE,
    INSIDE,
    LABELLED,
    Data,
    K,
    draw,
    genie_accuracy,
    load,
    load_truth,
    planted,
    told_by_genie,
)
from nodeproof.bench.loops import pass_over
from nodeproof.bench.memory import PeakMemory
from nodeproof.bench.peers import PEERS
from nodeproof.solvers import Progress
from nodeproof.workers import serve

__all__ = ["DATA", "GRAPH", "PLANTED", "measure"]

#: in the folder of a size: the data in memory; the links on disk, and the graph made of them
DATA, PLANTED, GRAPH = "data", "planted", "graph"

Record = dict[str, Any]
Tell = Callable[[str], None]

# Links of the graph that a first fit compiles for.
_SMALL = 10_000

# A peer that has taken so many seconds is not repeated.
_PATIENCE = 30.0

# Bytes read at a time to see how fast the disk is.
_CHUNK = 1 << 23


def measure(cell: Cell, folder: Path, tell: Tell) -> Record:
    """Measure a cell in this process and return its record, ready for JSON.

    Parameters
    ----------
    cell : Cell
        What to measure.
    folder : path
        Where the data of its size are, or shall be; it exists.
    tell : callable
        Told now and then how far the work is.
    """
    with warnings.catch_warnings():
        # How a fit ended is in the record.
        warnings.simplefilter("ignore")
        return _MEASURES[cell.kind](cell, folder, tell)


def _draw(cell: Cell, folder: Path, tell: Tell) -> Record:
    began = time.perf_counter()
    record = draw(cell.links, cell.seed, folder / DATA)
    return {**record, "seconds": time.perf_counter() - began}


def _fit(cell: Cell, folder: Path, tell: Tell) -> Record:
    tell("compiling")
    compiled = _compile(cell.name)
    with PeakMemory() as memory:
        data = load(folder / DATA, cell.name)
        first = _Fit(data.graph, data.X, data.y)
    M = np.random.default_rng(0).random((len(data.y), K), dtype=np.float32)
    fits, products, passes = [first], [], []
    for number in range(1, cell.repeats + 1):
        tell(f"round {number} of {cell.repeats}")
        if number > 1:
            fits.append(_Fit(data.graph, data.X, data.y))
        products += [_seconds(lambda: data.graph @ M) for _ in range(3)]
        passes += [_seconds(lambda: pass_over(data.graph.indices)) for _ in range(3)]
    sweeps = [fit.sweep for fit in fits if fit.sweep is not None]
    truth = load_truth(folder / DATA)
    return {
        "compiled": compiled,
        "nodes": len(data.y),
        "seconds": min(fit.seconds for fit in fits),
        "product": min(products),
        "pass": min(passes),
        "sweep": min(sweeps) if sweeps else None,
        "sweeps": first.n_iter,
        "starts": first.starts,
        "chosen": first.chosen,
        "status": first.status,
        **_judge(first.labels, truth, data.y),
        "genie": told_by_genie(folder / DATA, cell.name),
        "peak": memory.peak,
        "input": data.nbytes,
    }


def _peer(cell: Cell, folder: Path, tell: Tell) -> Record:
    peer = PEERS[cell.name]
    tell("a first fit on a small graph")
    small = planted(_SMALL, cell.seed)
    compiled = _seconds(lambda: peer.fit(Data(small.graph, small.X.astype(np.float32), small.y)))
    with PeakMemory() as memory:
        data = load(folder / DATA, peer.sources)
        began = time.perf_counter()
        found = peer.fit(data)
        spent = time.perf_counter() - began
    M = np.random.default_rng(0).random((len(data.y), K), dtype=np.float32)
    fits, products = [spent if found.seconds is None else found.seconds], []
    for number in range(1, cell.repeats + 1):
        tell(f"round {number} of {cell.repeats}")
        if number > 1 and spent < _PATIENCE:
            began = time.perf_counter()
            again = peer.fit(data)
            took = time.perf_counter() - began
            fits.append(took if again.seconds is None else again.seconds)
            spent += took
        products += [_seconds(lambda: data.graph @ M) for _ in range(3)]
    record = {
        "compiled": compiled,
        "nodes": len(data.y),
        "seconds": min(fits),
        "product": min(products),
        "peak": memory.peak,
        "input": data.nbytes,
    }
    if found.labels is not None:
        record |= _judge(found.labels, load_truth(folder / DATA), data.y)
    return record


def _write(cell: Cell, folder: Path, tell: Tell) -> Record:
    from nodeproof.datasets.planted_files import write_planted

    resumed = (folder / PLANTED).exists()
    with PeakMemory() as memory:
        began = time.perf_counter()
        write_planted(
            folder / PLANTED, cell.links, n_clusters=K, degree=DEGREE, inside=INSIDE,
            label_ratio=LABELLED, random_state=cell.seed, progress=_progress(tell),
        )  # fmt: skip
        seconds = time.perf_counter() - began
    return {
        "seconds": seconds,
        "peak": memory.peak,
        "bytes": _size(folder / PLANTED),
        "resumed": resumed,
    }


def _convert(cell: Cell, folder: Path, tell: Tell) -> Record:
    from nodeproof.io.converting import convert

    resumed = any(folder.glob(f"*{GRAPH}*"))
    with PeakMemory() as memory:
        began = time.perf_counter()
        convert(
            folder / PLANTED / "edges",
            folder / GRAPH,
            threads=cell.threads,
            progress=_progress(tell),
        )
        seconds = time.perf_counter() - began
    return {
        "seconds": seconds,
        "peak": memory.peak,
        "bytes": _size(folder / GRAPH),
        "resumed": resumed,
    }


def _stream(cell: Cell, folder: Path, tell: Tell) -> Record:
    from nodeproof.io.graph_folder import GraphFolder

    tell("compiling")
    compiled = _compile_from_disk()
    tell("reading, to see how fast the disk is")
    speed = _disk_speed(folder / GRAPH / "indices.npy")
    began_at = time.perf_counter()

    def sweep(progress: Progress) -> None:
        tell(f"sweep {progress.iteration} ({time.perf_counter() - began_at:.0f} s)")

    with PeakMemory() as memory:
        graph = GraphFolder.open(folder / GRAPH)
        y = _labels(folder / PLANTED / "labels.parquet", graph.n_nodes)
        fit = _Fit(graph, None, y, sweep)
    truth = np.load(folder / PLANTED / "truth.npy", allow_pickle=False)
    tell("asking the genie")
    indices = np.asarray(graph.indices)
    stored = sum(array.nbytes for array in (graph.indptr, graph.indices, graph.weights))
    return {
        "compiled": compiled,
        "nodes": graph.n_nodes,
        "seconds": fit.seconds,
        "product": None,
        "pass": _seconds(lambda: pass_over(indices)),
        "sweep": fit.sweep,
        "sweeps": fit.n_iter,
        "starts": fit.starts,
        "chosen": fit.chosen,
        "status": fit.status,
        **_judge(fit.labels, truth, y),
        "genie": genie_accuracy(np.asarray(graph.indptr), indices, truth, y),
        "peak": memory.peak,
        "input": stored + 4 * K * graph.n_nodes,
        "disk_bytes_per_second": speed,
        "disk_pass": indices.nbytes / speed,
    }


_MEASURES: dict[str, Callable[[Cell, Path, Tell], Record]] = {
    "draw": _draw,
    "fit": _fit,
    "peer": _peer,
    "write": _write,
    "convert": _convert,
    "stream": _stream,
}


class _Fit:
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


def _compile(sources: str) -> float:
    """Fit a small graph of the same kind; return how long this first fit takes."""
    small = planted(_SMALL, 0)
    X = small.X.astype(np.float32) if "F" in sources else None
    pass_over(small.graph.indices)
    return _Fit(small.graph, X, small.y).seconds


def _compile_from_disk() -> float:
    from nodeproof.io.graph_folder import GraphFolder, write_graph_folder

    small = planted(_SMALL, 0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, GRAPH)
        write_graph_folder(folder, small.graph)
        graph = GraphFolder.open(folder)
        pass_over(np.asarray(graph.indices))
        return _Fit(graph, None, small.y).seconds


def _judge(labels: NDArray[Any], truth: NDArray[Any], y: NDArray[Any]) -> Record:
    """Return the accuracy at all nodes and at those without a label."""
    right = labels == truth
    return {"accuracy": float(right.mean()), "hidden": float(right[y < 0].mean())}


def _labels(path: Path, n: int) -> NDArray[np.int8]:
    """Read a table of nodes and labels as one entry a node."""
    table = pyarrow.parquet.read_table(path)
    y = np.full(n, -1, dtype=np.int8)
    y[table["node"].to_numpy()] = table["label"].to_numpy()
    return y


def _disk_speed(path: Path) -> float:
    """Return how many bytes a second a file is read with from its start, none of it cached."""
    with path.open("rb", buffering=0) as file:
        if hasattr(os, "posix_fadvise"):
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        buffer = bytearray(_CHUNK)
        read, began = 0, time.perf_counter()
        while count := file.readinto(buffer):
            read += count
        return read / (time.perf_counter() - began)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _progress(tell: Tell) -> Callable[[str, int, int], None]:
    return lambda stage, done, total: tell(f"{stage} {done / max(total, 1):.0%}")


def _main() -> None:
    order = json.loads(sys.argv[1])
    serve(order["parent"])
    # Nothing else may print between the lines of JSON.
    with os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1) as news:
        os.dup2(2, 1)

        def tell(text: str) -> None:
            print(json.dumps({"news": text}), file=news)

        record = measure(Cell(**order["cell"]), Path(order["folder"]), tell)
        print(json.dumps({"record": record}), file=news)


if __name__ == "__main__":
    _main()
