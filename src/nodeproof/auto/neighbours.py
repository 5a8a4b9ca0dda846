"""The nearest-neighbour graph of a fit without links, its settings chosen by what is held out."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof.auto.experts import Propagation
from nodeproof.auto.held_out import hold_out
from nodeproof.auto.pooling import Judge
from nodeproof.errors import InputError
from nodeproof.graph import Graph
from nodeproof.inputs import EncodedLabels
from nodeproof.inputs.knn import (
    METRICS,
    USUAL_K,
    KnnGraph,
    Neighbours,
    check_k,
    link_nearest,
    nearest,
)
from nodeproof.terms import NodeData

__all__ = ["ChosenNeighbours", "HeldOutLosses", "choose_neighbours", "losses_of_labels"]

Array = NDArray[np.float64]

# Numbers of neighbours that are tried, and the most nodes times classes for which several are.
_TRIED = (5, 10, 20, 40)
_MOST_TRIED = 1_000_000

# Other settings than the usual are taken if they are better by this many standard errors.
_CLEARLY = 1.0


class ChosenNeighbours(NamedTuple):
    """A graph made of features, and how it was chosen.

    Attributes
    ----------
    graph : scipy.sparse.csr_array of shape (n, n)
        Its weights.
    neighbours : Neighbours
        What new nodes are linked by.
    choice : dict
        Value and reason, for the record of automatic choices.
    """

    graph: sp.csr_array
    neighbours: Neighbours
    choice: dict[str, Any]


class HeldOutLosses(NamedTuple):
    """How well held-out labels or targets are foretold along the links of a graph.

    Attributes
    ----------
    of : callable
        From a graph's weights, a matrix of shape (n, n), to the losses, shape (h,).
    name : str
        What they are, such as "log-loss of 30 held-out labels".
    n_columns : int
        Numbers per node that are passed on along links.
    """

    of: Callable[[sp.csr_array], Array]
    name: str
    n_columns: int = 1


class _Setting(NamedTuple):
    """How a graph is made of features."""

    metric: str
    scaled: bool
    k: int


def choose_neighbours(
    X: Any,
    codes: NDArray[np.int64] | None,
    asked: KnnGraph | str,
    losses: HeldOutLosses | None,
) -> ChosenNeighbours:
    """Return the graph that links nodes to their nearest neighbours.

    What is not asked for is chosen by labels or targets that are held out of a propagation over
    the graph, if there are enough; the usual setting stays unless another is clearly better.

    Parameters
    ----------
    X : ndarray or csr_array of shape (n, m), or None
        Features, checked.
    codes : ndarray of shape (n,), or None
        Labels as class numbers, or ranks of targets: they tell apart nodes with the same features.
    asked : KnnGraph or "knn"
        What is given.
    losses : HeldOutLosses or None
        What to choose by; None if nothing can be held out.
    """
    if X is None:
        raise InputError('graph="knn" links nodes by their features: give X, too')
    spec = asked if isinstance(asked, KnnGraph) else KnnGraph()
    n, sparse = X.shape[0], sp.issparse(X)
    if n < 2:
        raise InputError(f"a graph of nearest neighbours needs at least 2 nodes, got {n}")
    if spec.k is not None:
        check_k(spec.k, n)
    if spec.metric not in (None, *METRICS):
        raise InputError(f"metric must be one of {', '.join(METRICS)}; got {spec.metric!r}")
    usual = _Setting(
        spec.metric or ("cosine" if sparse else "euclidean"),
        not sparse if spec.scaled is None else spec.scaled,
        spec.k or min(USUAL_K, n - 1),
    )
    scales = (usual.scaled,) if sparse or spec.scaled is not None else (True, False)
    ks = (usual.k,) if spec.k is not None else tuple(k for k in _TRIED if k < n) or (usual.k,)
    large = losses is not None and n * losses.n_columns > _MOST_TRIED
    if losses is None or large or len(scales) * len(ks) == 1:
        found = nearest(X, usual.k, usual.metric, usual.scaled, codes)
        graph, neighbours = link_nearest(X, found, usual.k)
        why = "given" if usual.k == spec.k else "the usual number of neighbours: "
        if usual.k != spec.k:
            why += "the graph is large" if large else "no labels can be held out to choose by"
        return ChosenNeighbours(graph, neighbours, _record(usual, why))
    return _best_of(X, codes, usual, scales, ks, losses)


def _best_of(
    X: Any,
    codes: NDArray[np.int64] | None,
    usual: _Setting,
    scales: tuple[bool, ...],
    ks: tuple[int, ...],
    judged: HeldOutLosses,
) -> ChosenNeighbours:
    """Return the graph of the setting that held-out labels or targets prefer."""
    found = {scaled: nearest(X, max(ks), usual.metric, scaled, codes) for scaled in scales}
    made = {}
    losses: dict[_Setting, Array] = {}
    for scaled, k in product(scales, ks):
        setting = usual._replace(scaled=scaled, k=k)
        made[setting] = link_nearest(X, found[scaled], k)
        losses[setting] = judged.of(made[setting][0])
    base = losses.get(usual, next(iter(losses.values())))
    start = usual if usual in losses else next(iter(losses))

    def gain(setting: _Setting) -> float:
        """Return how much better a setting is, less what may be chance."""
        better = base - losses[setting]
        return float(better.mean() - _CLEARLY * better.std() / np.sqrt(len(better)))

    best = max(losses, key=gain)
    best = best if gain(best) > 0 else start
    tried = f"k of {', '.join(map(str, ks))}" + (", features scaled or not" * (len(scales) > 1))
    why = f"{tried}: {judged.name}, passed on along its links, {losses[best].mean():.3f}"
    if best != start:
        why += f", of {_words(start)} {losses[start].mean():.3f}"
    else:
        why += "; no other is clearly better"
    return ChosenNeighbours(*made[best], _record(best, why))


def losses_of_labels(labels: EncodedLabels, null_model: str) -> HeldOutLosses | None:
    """Return log-losses of held-out labels by propagation; None if none can be held out.

    Parameters
    ----------
    labels : EncodedLabels
        As class numbers.
    null_model : {"auto", "uniform", "degree"}
        Of the graph.
    """
    codes, K = labels.codes, len(labels.classes)
    held = None if codes is None else hold_out(codes)
    if held is None:
        return None
    judge = Judge.of(held.codes, K)
    offset = np.log(judge.shares)

    def losses(links: sp.csr_array) -> Array:
        expert = Propagation().bind(NodeData(K, None, codes, Graph(links, null_model)))
        found = []
        for candidate in expert.candidates(held):
            scale = judge.temperature(candidate.logs, offset)
            found.append(judge.losses(scale * candidate.logs + offset))
        return min(found, key=lambda losses: float(losses.mean()))

    return HeldOutLosses(losses, f"log-loss of {len(held.codes)} held-out labels", K)


def _words(setting: _Setting) -> str:
    how = "of scaled features" if setting.scaled else "of features as they are"
    return f"{setting.k} neighbours by {setting.metric} distance {how}"


def _record(setting: _Setting, why: str) -> dict[str, Any]:
    value = {"k": setting.k, "metric": setting.metric, "scaled": setting.scaled}
    return {"value": value, "why": why}
