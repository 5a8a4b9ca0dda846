"""Kinds of links, direction and sign: what each adds, and what one that says nothing costs.

    python benchmarks/kinds.py [--data FOLDER] [--seeds 5]

Planted graphs have three classes of 300 nodes, 10 % of them labelled. "Genie": the accuracy of
whoever knows all densities and the classes of all other nodes. "Attainable": of whoever knows all
densities and the labels that the fit knows, by sampling from the true posterior; where links are
weak, doubt about other nodes costs points, and no method gets nearer to the genie. Cora, from the
folder or from NODEPROOF_DATA, has 20 labels per class; "random" links are as many, drawn evenly.
Seconds are of the processor, beside those of the first row of each part.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof import NodeClassifier
from nodeproof.datasets.reading import read_graph
from nodeproof.metrics import expected_calibration_error

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

SIZE, SHARE = 300, 0.1
PER_CLASS = 20

# Sweeps over all nodes to sample the posterior: left out, and averaged.
_BURNT, _SWEEPS = 30, 150


def draw(z: Labels, P: Array, seed: int, directed: bool = False) -> sp.csr_array:
    """Return links between nodes of classes z with the densities P."""
    found = np.random.default_rng(seed).random((len(z),) * 2) < P[np.ix_(z, z)]
    np.fill_diagonal(found, False)
    if not directed:
        found = np.triu(found)
        found |= found.T
    return sp.csr_array(found.astype(np.float32))


def genie(z: Labels, *kinds: tuple[sp.csr_array, Array, bool]) -> float:
    """Return the accuracy of whoever knows all but the class of one node at a time."""
    members = np.eye(z.max() + 1)[z]
    others = members.sum(axis=0) - members
    scores = np.zeros(members.shape)
    for A, P, directed in kinds:
        worth, price = np.log(P / (1.0 - P)), np.log1p(-P)
        scores += A @ members @ worth.T + others @ price.T
        if directed:
            scores += A.T @ members @ worth + others @ price
    return float((scores.argmax(axis=1) == z).mean())


def attainable(z: Labels, y: Labels, *kinds: tuple[sp.csr_array, Array, bool]) -> float:
    """Return the accuracy of the true posterior, given the densities and the labels.

    It is sampled node by node, from the truth on; labelled nodes keep their class.
    """
    n, K = len(z), int(z.max()) + 1
    rng, now = np.random.default_rng(0), z.copy()
    sides = []  # links as a node sees them and as their far ends do, and what they are worth
    for A, P, directed in kinds:
        worth, price = np.log(P / (1.0 - P)), np.log1p(-P)
        back = sp.csr_array(A.T)
        sides.append((A, back, worth, price))
        if directed:
            sides.append((back, A, worth.T, price.T))
    near = [side @ np.eye(K)[now] for side, *_ in sides]
    sizes, found = np.bincount(now, minlength=K).astype(np.float64), np.zeros((n, K))
    for sweep in range(_BURNT + _SWEEPS):
        for v in np.flatnonzero(y < 0):
            old = now[v]
            sizes[old] -= 1.0
            score = np.zeros(K)
            for (_, _, worth, price), links in zip(sides, near, strict=True):
                score += worth @ links[v] + price @ sizes
            p = np.exp(score - score.max())
            p /= p.sum()
            if sweep >= _BURNT:
                found[v] += p
            new = now[v] = min(int(np.searchsorted(np.cumsum(p), rng.random())), K - 1)
            sizes[new] += 1.0
            if new != old:
                for (_, back, _, _), links in zip(sides, near, strict=True):
                    seen = back.indices[back.indptr[v] : back.indptr[v + 1]]
                    links[seen, old] -= 1.0
                    links[seen, new] += 1.0
    return float((found.argmax(axis=1) == z)[y < 0].mean())


def bounds(z: Labels, y: Labels, *kinds: tuple[sp.csr_array, Array, bool]) -> tuple[float, float]:
    """Return the accuracy of the genie, and what is attainable."""
    return genie(z, *kinds), attainable(z, y, *kinds)


def inside(p: float, q: float) -> Array:
    """Return densities: p inside of classes, q between them."""
    return np.where(np.eye(3) > 0, p, q)


def planted(seed: int) -> Iterator[tuple[str, str, Any, Labels, Labels, tuple[float, float]]]:
    rng = np.random.default_rng(seed)
    z = rng.permutation(np.repeat(np.arange(3), SIZE))
    y = np.where(rng.random(len(z)) < SHARE, z, -1)
    P, even = inside(0.09, 0.05), inside(0.063, 0.063)
    A, noise = draw(z, P, seed), draw(z, even, seed + 100)
    best = bounds(z, y, (A, P, False))
    part = "informative and random"
    yield part, "informative", A, z, y, best
    yield part, "informative + random", {"told": A, "noise": noise}, z, y, best
    P = inside(0.075, 0.05)
    A, B = draw(z, P, seed + 200), draw(z, P, seed + 300)
    both = bounds(z, y, (A, P, False), (B, P, False))
    part = "two weak kinds"
    yield part, "first", A, z, y, bounds(z, y, (A, P, False))
    yield part, "both", {"first": A, "second": B}, z, y, both
    # One tells class 0 from the others, one class 2.
    P = np.array([[0.08, 0.05, 0.05], [0.05, 0.08, 0.08], [0.05, 0.08, 0.08]])
    Q = P[::-1, ::-1].copy()
    A, B = draw(z, P, seed + 400), draw(z, Q, seed + 500)
    both = bounds(z, y, (A, P, False), (B, Q, False))
    part = "complementary"
    yield part, "class 0 from others", A, z, y, bounds(z, y, (A, P, False))
    yield part, "class 2 from others", B, z, y, bounds(z, y, (B, Q, False))
    yield part, "both", {"first": A, "second": B}, z, y, both
    # Links i → i + 1 are denser, links back sparser: both together are as dense as inside.
    P = np.full((3, 3), 0.05)
    for i in range(3):
        P[i, (i + 1) % 3], P[(i + 1) % 3, i] = 0.065, 0.035
    A = draw(z, P, seed + 600, directed=True)
    part = "direction"
    yield part, "without", sp.csr_array(A.maximum(A.T)), z, y, (1.0 / 3.0, 1.0 / 3.0)
    yield part, "as it is", A, z, y, bounds(z, y, (A, P, True))
    P = inside(0.09, 0.05)
    A = draw(z, P, seed + 700)
    part = "no direction"
    yield part, "undirected", A, z, y, bounds(z, y, (A, P, False))
    yield part, "each link one way", one_way(A, seed), z, y, bounds(z, y, (A, P, False))
    P, Q = inside(0.075, 0.05), inside(0.03, 0.05)
    A, B = draw(z, P, seed + 800), draw(z, Q, seed + 900)
    B = sp.csr_array(B - B.multiply(A))  # a link has one sign
    B.eliminate_zeros()
    part = "sign"
    yield part, "positive", A, z, y, bounds(z, y, (A, P, False))
    yield part, "both signs", sp.csr_array(A - B), z, y, bounds(z, y, (A, P, False), (B, Q, False))


def one_way(A: Any, seed: int) -> sp.csr_array:
    """Return each link in one direction, at random."""
    links = sp.triu(A, 1).tocoo()
    back = np.random.default_rng(seed).random(links.nnz) < 0.5
    ends = np.where(back, links.col, links.row), np.where(back, links.row, links.col)
    return sp.csr_array((links.data, ends), shape=A.shape)


def real(data: Any, seed: int) -> Iterator[tuple[str, str, Any, Any, Labels, Labels]]:
    rng = np.random.default_rng(seed)
    truth, n = np.asarray(data.y), data.graph.shape[0]
    y = np.full(n, -1)
    for label in np.unique(truth[truth >= 0]):
        chosen = rng.choice(np.flatnonzero(truth == label), PER_CLASS, replace=False)
        y[chosen] = label
    A = sp.csr_array(data.graph)
    ends = rng.integers(n, size=(2, A.nnz // 2))
    noise = sp.csr_array((np.ones(len(ends[0]), np.float32), ends), shape=(n, n))
    noise = sp.csr_array(noise.maximum(noise.T).sign())
    noise.setdiag(0)
    noise.eliminate_zeros()
    for part, X in (("Cora, links", None), ("Cora, links and words", data.X)):
        yield part, "links", X, A, truth, y
        yield part, "links + random", X, {"cites": A, "noise": noise}, truth, y
        yield part, "each link one way", X, one_way(A, seed), truth, y


def judged(X: Any, graph: Any, y: Labels, truth: Labels) -> tuple[list[float], dict[str, float]]:
    """Return accuracy, mean probability, calibration error and seconds; and shares of sources."""
    began = time.process_time()
    clf = NodeClassifier(random_state=0).fit(X, y, graph=graph)
    spent = time.process_time() - began
    rest = (y < 0) & (truth >= 0)
    p = clf.proba_[rest].astype(np.float64)
    right = float((p.argmax(axis=1) == truth[rest]).mean())
    ece = float(expected_calibration_error(truth[rest], p))
    return [right, float(p.max(axis=1).mean()), ece, spent], clf.sources_


Runs = dict[tuple[str, str], list[tuple[list[float], dict[str, float], tuple[float, float]]]]


def show(rows: Runs) -> None:
    print("| | | accuracy | mean p | ECE | attainable | genie | seconds, × | shares |")
    print("|---|---|--:|--:|--:|--:|--:|--:|---|")
    first: dict[str, float] = {}
    for (part, name), runs in rows.items():
        means = np.mean([numbers for numbers, _, _ in runs], axis=0)
        best = np.mean([found for _, _, found in runs], axis=0)
        spent = means[3] / first.setdefault(part, means[3])
        sources = dict.fromkeys(source for _, shares, _ in runs for source in shares)
        shares = ", ".join(
            f"{source} {np.mean([own.get(source, 0.0) for _, own, _ in runs]):.2f}"
            for source in sources
        )
        shown = " | ".join("" if np.isnan(own) else f"{own:.3f}" for own in best[::-1])
        numbers = " | ".join(f"{mean:.3f}" for mean in means[:3])
        print(f"| {part} | {name} | {numbers} | {shown} | {spent:.1f} | {shares} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("NODEPROOF_DATA"))
    parser.add_argument("--seeds", type=int, default=5)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    z = np.arange(60) % 3
    judged(None, draw(z, inside(0.5, 0.1), 0), np.where(np.arange(60) < 30, z, -1), z)  # compiles
    rows: Runs = {}
    for seed in range(given.seeds):
        for part, name, graph, truth, y, best in planted(seed):
            rows.setdefault((part, name), []).append((*judged(None, graph, y, truth), best))
    path = None if given.data is None else Path(given.data) / "cora.npz"
    if path is None or not path.is_file():
        print("(no cora.npz: give --data FOLDER)")
    else:
        data = read_graph(path)
        for seed in range(given.seeds):
            for part, name, X, graph, truth, y in real(data, seed):
                found = judged(X, graph, y, truth)
                rows.setdefault((part, name), []).append((*found, (float("nan"), float("nan"))))
    show(rows)


if __name__ == "__main__":
    main()
