"""Evidence of each source on each node, and given labels that look wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nodeproof.problem import Models, Problem

if TYPE_CHECKING:
    from nodeproof.certificate import Certificate

__all__ = ["excluded_labels", "find_suspects", "mark_excluded", "node_evidence", "source_shares"]

Array = NDArray[np.float64]

# Shares are averages over nodes; this many runs of this many nodes are enough.
_RUNS, _RUN_LENGTH = 20, 500


def find_suspects(
    proba: NDArray[Any], codes: NDArray[np.int64] | None, classes: NDArray[Any]
) -> np.recarray[Any, Any]:
    """Return the labelled nodes whose label is probably wrong, worst first.

    The label is more likely wrong than right, and another class is the most likely one.

    Parameters
    ----------
    proba : ndarray of shape (n, K)
        Class probabilities, with all labels taken into account.
    codes : ndarray of shape (n,), or None
        Given labels as class numbers, −1 where there is none.
    classes : ndarray of shape (K,)
        Names of the classes.

    Returns
    -------
    numpy record array with the fields node, given, suggested, p_wrong, excluded
        The last is False until a proof says otherwise, see `mark_excluded`.
    """
    fields = [
        ("node", np.int64),
        ("given", classes.dtype),
        ("suggested", classes.dtype),
        ("p_wrong", np.float64),
        ("excluded", np.bool_),
    ]
    if codes is None:
        return np.recarray(0, dtype=fields)
    known = np.flatnonzero(codes >= 0)
    p_wrong = np.clip(1.0 - proba[known, codes[known]].astype(np.float64), 0.0, 1.0)
    order = np.argsort(-p_wrong, kind="stable")
    doubted = (p_wrong > 0.5) & (proba[known].argmax(axis=1) != codes[known])
    order = order[doubted[order]]
    suspects = np.recarray(len(order), dtype=fields)
    nodes = known[order]
    suspects.node = nodes
    suspects.given = classes[codes[nodes]]
    suspects.suggested = classes[proba[nodes].argmax(axis=1)]
    suspects.p_wrong = p_wrong[order]
    suspects.excluded = False
    return suspects


def excluded_labels(
    proof: Certificate | None, codes: NDArray[np.int64] | None, n_nodes: int
) -> NDArray[np.bool_]:
    """Return the nodes whose given label no optimal labelling keeps, shape (n,).

    That is proven for the fitted models, and does not prove the label wrong. Where a proof does
    not tell the names of the classes apart, it says nothing of labels.

    Parameters
    ----------
    codes : ndarray of shape (n,), or None
        Given labels as class numbers, −1 where there is none.
    """
    excluded = np.zeros(n_nodes, dtype=bool)
    if proof is None or codes is None or proof.renaming or proof.status == "not applicable":
        return excluded
    known = np.flatnonzero(codes >= 0)
    excluded[known] = ~proof.possible[known, codes[known]]
    return excluded


def mark_excluded(
    suspects: np.recarray[Any, Any], proof: Certificate | None, codes: NDArray[np.int64] | None
) -> np.recarray[Any, Any]:
    """Return a copy of the suspects with what a proof says of their labels in `excluded`.

    Parameters
    ----------
    codes : ndarray of shape (n,), or None
        Given labels as class numbers, −1 where there is none.
    """
    marked = suspects.copy()
    n_nodes = 0 if codes is None else len(codes)
    marked.excluded = excluded_labels(proof, codes, n_nodes)[suspects.node]
    return marked


def node_evidence(
    problem: Problem, W: NDArray[Any], models: Models, totals: Array | None, lo: int, hi: int
) -> dict[str, Array]:
    """Return what each source adds to the score of each class, in nats, for nodes lo…hi.

    Parameters
    ----------
    W : ndarray of shape (n, K)
        Memberships of all nodes.
    totals : ndarray of shape (K,), or None without a graph
        :meth:`nodeproof.graph.Graph.null_totals` of W.

    Returns
    -------
    dict of ndarray of shape (hi − lo, K)
        By source: "graph", "features", "labels".
    """
    evidence: dict[str, Array] = {}
    graph, affinity = problem.graph, models.affinity
    if graph is not None and affinity is not None and totals is not None:
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
    totals = problem.graph.null_totals(W) if problem.graph else None
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
