"""Sweeps and time of a default fit, compared with one A @ M, on graphs of several kinds.

    python benchmarks/sweeps.py [KIND ...] [--links 1e6,1e7] [--repeats 3] [--data FOLDER]

The kinds, of mean degree 20, half of the links inside a class, 10 classes and 1 % labels:

- library      drawn by `nodeproof.datasets.make_planted`: classes of one size, nodes in order
- independent  the class of each node drawn on its own, and the ends of each link
- features     the same, with 16 features whose variances differ from class to class
- power-law    the same as independent, with degrees of a power law (exponent 2.5)
- unequal      the same as independent, class i of a size ∝ 1/(i + 1)
- many         the same as independent, with 40 classes
- weights      the same as independent, links of random weights, larger inside classes
- real         the graphs in FOLDER (default: $NODEPROOF_DATA), 20 labels per class, no features

`sweeps` are those of all fits to the whole graph, the ones that settings are chosen by included.
`A @ M` is scipy's product of the links with an n × K matrix in float32, the fastest of all repeats,
in turn with the fits. Loops are compiled before by a fit of a small graph. Accuracy, mean
probability (p) and expected calibration error (ECE) are those of the unlabelled nodes; `memory` is
the peak of a fit, data included, relative to data and memberships.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof import NodeClassifier
from nodeproof.datasets import load, make_planted
from nodeproof.metrics import expected_calibration_error
from nodeproof.solvers import BlockCADO
from processes import PeakMemory

DEGREE, INSIDE, LABELLED, CLASSES, FEATURES = 20, 0.5, 0.01, 10, 16
SMALL = 20_000
LARGE = 1 << 24  # bytes; where data are smaller, other allocations count as much
REAL = ("cora", "citeseer", "pubmed", "amazon_photo", "amazon_computers")
HEADER = (
    "graph", "nodes", "links", "sweeps", "fit", "A @ M", "ratio", "accuracy", "p", "ECE", "memory",
)  # fmt: skip


@dataclass(frozen=True)
class Drawn:
    """A graph with its classes; `y` is −1 where the label is not known."""

    graph: sp.csr_array
    y_true: NDArray[np.int64]
    y: NDArray[np.int64]
    X: NDArray[np.float32] | None = None

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return int(self.y_true.max()) + 1

    @property
    def nbytes(self) -> int:
        """Bytes of links and features."""
        arrays = [self.graph.data, self.graph.indices, self.graph.indptr]
        arrays += [] if self.X is None else [self.X]
        return sum(array.nbytes for array in arrays)


def independent(
    links: int,
    seed: int,
    n_classes: int = CLASSES,
    *,
    unequal: bool = False,
    power_law: bool = False,
    weighted: bool = False,
    features: bool = False,
) -> Drawn:
    """Draw classes node by node, and both ends of every link."""
    rng = np.random.default_rng(seed)
    n = 2 * links // DEGREE
    shares = 1.0 / np.arange(1, n_classes + 1) if unequal else np.ones(n_classes)
    y = rng.choice(n_classes, n, p=shares / shares.sum())
    sizes = rng.pareto(1.5, n) + 1.0 if power_law else np.ones(n)
    sizes = np.minimum(sizes, np.sqrt(links))
    u = _ends(rng, sizes, np.arange(n), links)
    inside = rng.random(links) < INSIDE
    v = np.empty(links, dtype=np.int64)
    v[~inside] = _ends(rng, sizes, np.arange(n), int((~inside).sum()))
    for i in range(n_classes):
        here = np.flatnonzero(inside & (y[u] == i))
        v[here] = _ends(rng, sizes, np.flatnonzero(y == i), len(here))
    again = ~inside  # links across classes that are none
    while len(bad := np.flatnonzero(again & (y[u] == y[v]))):
        v[bad] = _ends(rng, sizes, np.arange(n), len(bad))
    weights = np.ones(links, dtype=np.float32)
    if weighted:
        weights = rng.gamma(2.0, np.where(inside, 1.0, 0.5)).astype(np.float32)
    kept = u != v
    ends = np.minimum(u, v)[kept].astype(np.int32), np.maximum(u, v)[kept].astype(np.int32)
    upper = sp.coo_array((weights[kept], ends), shape=(n, n)).tocsr()
    if not weighted:
        upper.data[:] = 1.0  # repeated links count once
    graph = sp.csr_array(upper + upper.T)
    graph.sort_indices()
    X = None
    if features:
        spread = 1.0 + 0.6 * rng.random((n_classes, FEATURES), dtype=np.float32)
        X = rng.standard_normal((n, FEATURES), dtype=np.float32) * spread[y]
    return Drawn(graph, y, np.where(rng.random(n) < LABELLED, y, -1), X)


def _ends(
    rng: np.random.Generator, sizes: NDArray[Any], nodes: NDArray[Any], count: int
) -> NDArray[np.int64]:
    """Draw nodes with probability ∝ their sizes."""
    if (sizes == 1.0).all():
        return np.asarray(nodes[rng.integers(len(nodes), size=count)])
    ahead = np.cumsum(sizes[nodes])
    return np.asarray(nodes[np.searchsorted(ahead, rng.random(count) * ahead[-1], side="right")])


def library(links: int, seed: int) -> Drawn:
    """Draw a graph as the library does."""
    size = 2 * links // DEGREE // CLASSES
    p, q = INSIDE * DEGREE / size, (1 - INSIDE) * DEGREE / (size * (CLASSES - 1))
    data = make_planted(
        CLASSES, size, p=p, q=q, n_features=2, n_noise=0, label_ratio=LABELLED, random_state=seed
    )
    return Drawn(sp.csr_array(data.graph, dtype=np.float32), data.y_true, data.y)


KINDS: dict[str, Callable[[int, int], Drawn]] = {
    "library": library,
    "independent": independent,
    "features": lambda links, seed: independent(links, seed, features=True),
    "power-law": lambda links, seed: independent(links, seed, power_law=True),
    "unequal": lambda links, seed: independent(links, seed, unequal=True),
    "many": lambda links, seed: independent(links, seed, 40),
    "weights": lambda links, seed: independent(links, seed, weighted=True),
}


def real(name: str) -> Drawn:
    """Read a real graph, with the labels of 20 nodes per class."""
    data = load(name)
    y, rng = np.asarray(data.y), np.random.default_rng(0)
    known = np.full(len(y), -1)
    for i in range(int(y.max()) + 1):
        members = np.flatnonzero(y == i)
        known[rng.choice(members, min(20, len(members) // 2), replace=False)] = i
    return Drawn(sp.csr_array(data.graph, dtype=np.float32), y, known)


class Sweeps:
    """Counts the sweeps over graphs of `n_nodes` nodes while it is entered."""

    def __init__(self, n_nodes: int) -> None:
        self.n_nodes, self.count = n_nodes, 0

    def __enter__(self) -> Sweeps:
        self._solve = solve = BlockCADO.solve

        def counted(solver: BlockCADO, problem: Any, *args: Any, **options: Any) -> Any:
            result = solve(solver, problem, *args, **options)
            if problem.n_nodes == self.n_nodes:
                self.count += result.n_iter
            return result

        BlockCADO.solve = counted  # type: ignore[method-assign]
        return self

    def __exit__(self, *_: object) -> None:
        BlockCADO.solve = self._solve  # type: ignore[method-assign]


def measure(title: str, data: Drawn, repeats: int) -> tuple[str, ...]:
    """Return a row of the table."""
    n = len(data.y)
    M = np.random.default_rng(0).random((n, data.n_classes), dtype=np.float32)
    fits, products = [], []
    for _ in range(repeats):
        for _ in range(3):
            began = time.perf_counter()
            data.graph @ M
            products.append(time.perf_counter() - began)
        with Sweeps(n) as sweeps, PeakMemory() as memory:
            began = time.perf_counter()
            clf = NodeClassifier(n_classes=data.n_classes, random_state=0)
            clf.fit(data.X, data.y, graph=data.graph)
            fits.append(time.perf_counter() - began)
    hidden = (data.y < 0) & (data.y_true >= 0)
    right = (clf.labels_ == data.y_true)[hidden]
    p = clf.proba_[hidden]
    fit, product = min(fits), min(products)
    memberships = 4 * data.n_classes * n
    peak = data.nbytes + (memory.peak or 0)
    needed = data.nbytes + memberships
    return (
        title, f"{n:,}", f"{data.graph.nnz // 2:,}", str(sweeps.count), f"{fit:.3g} s",
        f"{product:.3g} s", f"{fit / product:.1f}", f"{right.mean():.3f}",
        f"{p.max(axis=1).mean():.3f}",
        f"{expected_calibration_error(data.y_true[hidden], p):.3f}",
        f"{peak / needed:.2f}" if needed >= LARGE else "",
    )  # fmt: skip


def graphs(kinds: list[str], sizes: list[int], seed: int) -> Iterator[tuple[str, Drawn]]:
    """Yield the graphs to fit, with their titles."""
    for kind in kinds:
        if kind != "real":
            for links in sizes:
                yield kind, KINDS[kind](links, seed)
        elif "NODEPROOF_DATA" not in os.environ:
            print("| real graphs left out: give --data FOLDER, or set NODEPROOF_DATA |")
        else:
            for name in REAL:
                yield name, real(name)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kinds", nargs="*", metavar="KIND", help="all by default")
    parser.add_argument("--links", default="1e6,1e7", help="sizes (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=3, help="fits, of which the fastest counts")
    parser.add_argument("--seed", type=int, default=0, help="of the graphs")
    parser.add_argument("--data", metavar="FOLDER", help="where real graphs are")
    options = parser.parse_args()
    known = [*KINDS, "real"]
    kinds = options.kinds or known
    if unknown := sorted(set(kinds) - set(known)):
        parser.error(f"unknown: {', '.join(unknown)}; known are {', '.join(known)}")
    if options.data:
        os.environ["NODEPROOF_DATA"] = options.data
    sizes = [int(float(size)) for size in options.links.split(",")]
    warnings.simplefilter("ignore")
    print("| " + " | ".join(HEADER) + " |\n|---|" + "--:|" * (len(HEADER) - 1))
    compiled: set[tuple[bool, bool]] = set()
    for title, data in graphs(kinds, sizes, options.seed):
        kind = (data.X is None, bool((data.graph.data == 1).all()))
        if kind not in compiled:
            small = independent(SMALL, 0, weighted=not kind[1], features=not kind[0])
            measure("", small, 1)
            compiled.add(kind)
        print("| " + " | ".join(measure(title, data, options.repeats)) + " |", flush=True)


if __name__ == "__main__":
    main()
