"""Evidence of each source on each node, and how much each has contributed to the decisions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodeproof.kinds import far_totals, pull_of
from nodeproof.problem import Models, Problem

__all__ = ["ALL_LINKS", "graph_totals", "node_evidence", "source_shares"]

Array = NDArray[np.float64]

#: the source of what is known from links of several kinds together
ALL_LINKS = "all links"

# Shares are averages over nodes; this many runs of this many nodes are enough.
_RUNS, _RUN_LENGTH = 20, 500


def graph_totals(problem: Problem, W: NDArray[Any]) -> Any:
    """Return ``Σ_v η_v W_vi``, shape (K,); of several kinds of links, for each of their ends."""
    graph = problem.graph
    if graph is None:
        return None
    return [far_totals(kind, W) for kind in graph.kinds] or graph.null_totals(W)


def node_evidence(
    problem: Problem, W: NDArray[Any], models: Models, totals: Any, lo: int, hi: int
) -> dict[str, Array]:
    """Return what each source adds to the score of each class, in nats, for nodes lo…hi.

    Parameters
    ----------
    W : ndarray of shape (n, K)
        Memberships of all nodes.
    totals : ndarray of shape (K,), or None without a graph
        `graph_totals` of W.

    Returns
    -------
    dict of ndarray of shape (hi − lo, K)
        By source: "graph" or the kinds of links, "features", "labels".
    """
    evidence: dict[str, Array] = {}
    graph, affinity = problem.graph, models.affinity
    if graph is not None and graph.kinds and affinity is not None:
        rows = np.ascontiguousarray(W, dtype=np.float32)
        for kind, far, ell, ell_t in zip(
            graph.kinds, totals or (), affinity.ell, affinity.ell_t, strict=True
        ):
            evidence[kind.name or "graph"] = pull_of(kind, rows, ell, ell_t, far, lo, hi)
    elif graph is not None and affinity is not None and totals is not None:
        eta = graph.eta[lo:hi, None]
        links = graph.times_rows(np.ascontiguousarray(W, dtype=np.float32), lo, hi)
        pairs = eta * (totals - eta * W[lo:hi])
        if affinity.ell.shape == (1, 1):
            evidence["graph"] = affinity.ell[0, 0] * links - affinity.ell_t[0, 0] * pairs
        else:
            evidence["graph"] = links @ affinity.ell - pairs @ affinity.ell_t
    for term, theta in zip(problem.terms, models.terms, strict=True):
        skip = [k for k, other in enumerate(problem.terms) if other is not term]
        scores = -problem.costs(models, lo, hi, skip)
        for source, part in term.attribute(theta, scores, lo, hi).items():
            evidence[source] = evidence.get(source, 0.0) + part
    if problem.graph is not None and len(problem.graph.sorts) > 1 and "graph" in evidence:
        evidence[ALL_LINKS] = evidence.pop("graph")
    return evidence


def source_shares(problem: Problem, W: NDArray[Any], models: Models) -> dict[str, float]:
    """Return how much each source contributed to the decisions; the shares sum to one.

    A node's decision is between its best and its second-best class. What a source adds to that
    margin is averaged over the nodes (in a large graph, over evenly spaced runs of nodes).
    """
    n = problem.n_nodes
    if problem.n_classes == 1:
        return {}
    margins: dict[str, float] = {}
    W = np.ascontiguousarray(W, dtype=np.float32)
    totals = graph_totals(problem, W)
    for lo, hi in _runs(n):
        evidence = node_evidence(problem, W, models, totals, lo, hi)
        second, first = np.argsort(W[lo:hi], axis=1)[:, -2:].T
        rows = np.arange(hi - lo)
        for source, scores in evidence.items():
            margin = float((scores[rows, first] - scores[rows, second]).sum())
            margins[source] = margins.get(source, 0.0) + margin
    helpful = {source: max(margin, 0.0) for source, margin in margins.items()}
    whole = sum(helpful.values())
    return {source: margin / whole if whole else 0.0 for source, margin in helpful.items()}


def _runs(n: int) -> list[tuple[int, int]]:
    """Return ranges that cover all nodes, or `_RUNS` evenly spaced ones of a large graph."""
    if n <= _RUNS * _RUN_LENGTH:
        return [(0, n)]
    starts = np.linspace(0, n - _RUN_LENGTH, _RUNS).astype(int).tolist()
    return [(lo, lo + _RUN_LENGTH) for lo in starts]
