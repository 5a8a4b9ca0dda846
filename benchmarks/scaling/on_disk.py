"""Graphs that stay on disk: written, converted and fitted."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet
from numpy.typing import NDArray

from nodeproof.storage.journal import Record
from processes import PeakMemory, Tell
from scaling.cells import Cell
from scaling.data import DEGREE, INSIDE, LABELLED, K, genie_accuracy, pass_over, planted
from scaling.measure import SMALL, Fit, judge, seconds_of

__all__ = ["MEASURES"]

# In the folder of a size: the links, and the graph made of them.
_PLANTED, _GRAPH = "planted", "graph"

# Bytes read at a time to measure the speed of the disk.
_CHUNK = 1 << 23


def _write(cell: Cell, folder: Path, tell: Tell) -> Record:
    """Write the links to files; return the time it took."""
    from nodeproof.datasets import write_planted

    resumed = (folder / _PLANTED).exists()
    with PeakMemory() as memory:
        began = time.perf_counter()
        write_planted(
            folder / _PLANTED, cell.links, n_clusters=K, degree=DEGREE, inside=INSIDE,
            label_ratio=LABELLED, random_state=cell.seed, progress=_progress(tell),
        )  # fmt: skip
        seconds = time.perf_counter() - began
    return {
        "seconds": seconds,
        "peak": memory.peak,
        "bytes": _size(folder / _PLANTED),
        "resumed": resumed,
    }


def _convert(cell: Cell, folder: Path, tell: Tell) -> Record:
    """Convert the links to a graph on disk; return the time it took."""
    from nodeproof.tables.convert import convert

    resumed = any(folder.glob(f"*{_GRAPH}*"))
    with PeakMemory() as memory:
        began = time.perf_counter()
        convert(
            folder / _PLANTED / "edges",
            folder / _GRAPH,
            threads=cell.threads,
            progress=_progress(tell),
        )
        seconds = time.perf_counter() - began
    return {
        "seconds": seconds,
        "peak": memory.peak,
        "bytes": _size(folder / _GRAPH),
        "resumed": resumed,
    }


def _stream(cell: Cell, folder: Path, tell: Tell) -> Record:
    """Fit the graph from disk; return the figures and the speed of the disk."""
    from nodeproof.storage.graph_folder import GraphFolder

    tell("compiling")
    compiled = _compile_from_disk()
    tell("measuring the speed of the disk")
    speed = _disk_speed(folder / _GRAPH / "indices.npy")
    # The cache must not help the fit.
    _forget(folder / _GRAPH / "indices.npy")
    began_at = time.perf_counter()

    def sweep(number: int) -> None:
        tell(f"sweep {number} ({time.perf_counter() - began_at:.0f} s)")

    with PeakMemory() as memory:
        graph = GraphFolder.open(folder / _GRAPH)
        y = _labels(folder / _PLANTED / "labels.parquet", graph.n_nodes)
        fit = Fit(graph, None, y, sweep)
    truth = np.load(folder / _PLANTED / "truth.npy", allow_pickle=False)
    tell("asking the genie")
    indices = np.asarray(graph.indices)
    stored = sum(array.nbytes for array in (graph.indptr, graph.indices, graph.weights))
    return {
        "compiled": compiled,
        "nodes": graph.n_nodes,
        "seconds": fit.seconds,
        "product": None,
        "pass": seconds_of(lambda: pass_over(indices)),
        "sweep": fit.sweep,
        "sweeps": fit.n_iter,
        "starts": fit.starts,
        "chosen": fit.chosen,
        "status": fit.status,
        **judge(fit.labels, truth, y),
        "genie": genie_accuracy(np.asarray(graph.indptr), indices, truth, y),
        "peak": memory.peak,
        "input": stored + 4 * K * graph.n_nodes,
        "disk_bytes_per_second": speed,
        "disk_pass": indices.nbytes / speed,
        "graph_bytes": stored,
    }


def _compile_from_disk() -> float:
    from nodeproof.storage.graph_folder import GraphFolder, write_graph_folder

    small = planted(SMALL, 0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, _GRAPH)
        write_graph_folder(folder, small.graph)
        graph = GraphFolder.open(folder)
        pass_over(np.asarray(graph.indices))
        return Fit(graph, None, small.y).seconds


def _labels(path: Path, n: int) -> NDArray[np.int8]:
    """Read a table of nodes and labels as one entry per node."""
    table = pyarrow.parquet.read_table(path)
    y = np.full(n, -1, dtype=np.int8)
    y[table["node"].to_numpy()] = table["label"].to_numpy()
    return y


def _disk_speed(path: Path) -> float:
    """Return the bytes per second with which an uncached file is read."""
    _forget(path)
    with path.open("rb", buffering=0) as file:
        buffer = bytearray(_CHUNK)
        read, began = 0, time.perf_counter()
        while count := file.readinto(buffer):
            read += count
        return read / (time.perf_counter() - began)


def _forget(path: Path) -> None:
    """Drop a file from the system's cache, if the system supports it."""
    if hasattr(os, "posix_fadvise"):
        with path.open("rb") as file:
            # Dirty pages would stay.
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _progress(tell: Tell) -> Callable[[str, int, int], None]:
    return lambda stage, done, total: tell(f"{stage} {done / max(total, 1):.0%}")


#: by the kind of the cell
MEASURES: dict[str, Callable[[Cell, Path, Tell], Record]] = {
    "write": _write,
    "convert": _convert,
    "stream": _stream,
}
