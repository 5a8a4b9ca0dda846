"""Measure one cell; run as a module, in a process that does nothing else.

What is printed by libraries goes to the standard error stream; the standard output has one line
of JSON for each piece of news, the last of them the record.
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

from nodeproof.bench.cells import Cell
from nodeproof.bench.data import Data, K, draw, load, load_truth, planted, told_by_genie
from nodeproof.bench.loops import pass_over
from nodeproof.bench.memory import PeakMemory
from nodeproof.bench.on_disk import measure_convert, measure_stream, measure_write
from nodeproof.bench.peers import PEERS
from nodeproof.bench.timing import SMALL, Fit, Record, Tell, judge, seconds_of
from nodeproof.runtime.threads import serve

__all__ = ["measure"]

# The data in memory, in the folder of their size.
_DATA = "data"

# A peer that has taken so many seconds is not repeated.
_PATIENCE = 30.0


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
    record = draw(cell.links, cell.seed, folder / _DATA)
    return {**record, "seconds": time.perf_counter() - began}


def _fit(cell: Cell, folder: Path, tell: Tell) -> Record:
    tell("compiling")
    compiled = _compile(cell.name)
    with PeakMemory() as memory:
        data = load(folder / _DATA, cell.name)
        first = Fit(data.graph, data.X, data.y)
    M = np.random.default_rng(0).random((len(data.y), K), dtype=np.float32)
    fits, products, passes = [first], [], []
    for number in range(1, cell.repeats + 1):
        tell(f"round {number} of {cell.repeats}")
        if number > 1:
            fits.append(Fit(data.graph, data.X, data.y))
        products += [seconds_of(lambda: data.graph @ M) for _ in range(3)]
        passes += [seconds_of(lambda: pass_over(data.graph.indices)) for _ in range(3)]
    sweeps = [fit.sweep for fit in fits if fit.sweep is not None]
    truth = load_truth(folder / _DATA)
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
        **judge(first.labels, truth, data.y),
        "genie": told_by_genie(folder / _DATA, cell.name),
        "peak": memory.peak,
        "input": data.nbytes,
    }


def _peer(cell: Cell, folder: Path, tell: Tell) -> Record:
    peer = PEERS[cell.name]
    tell("a first fit on a small graph")
    small = planted(SMALL, cell.seed)
    compiled = seconds_of(lambda: peer.fit(Data(small.graph, small.X.astype(np.float32), small.y)))
    with PeakMemory() as memory:
        data = load(folder / _DATA, peer.sources)
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
        products += [seconds_of(lambda: data.graph @ M) for _ in range(3)]
    record = {
        "compiled": compiled,
        "nodes": len(data.y),
        "seconds": min(fits),
        "product": min(products),
        "peak": memory.peak,
        "input": data.nbytes,
    }
    if found.labels is not None:
        record |= judge(found.labels, load_truth(folder / _DATA), data.y)
    return record


_MEASURES: dict[str, Callable[[Cell, Path, Tell], Record]] = {
    "draw": _draw,
    "fit": _fit,
    "peer": _peer,
    "write": measure_write,
    "convert": measure_convert,
    "stream": measure_stream,
}


def _compile(sources: str) -> float:
    """Fit a small graph of the same kind; return how long this first fit takes."""
    small = planted(SMALL, 0)
    X = small.X.astype(np.float32) if "F" in sources else None
    pass_over(small.graph.indices)
    return Fit(small.graph, X, small.y).seconds


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
