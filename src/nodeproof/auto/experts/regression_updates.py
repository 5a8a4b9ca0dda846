"""Regressions after an update: what nodes pass on to others is brought up to date where it changed.

A node's averaged features are ``Z = α B + (1 − α)/h Â T``, with ``T = Σ_{k=0…h−1} Â^k B`` what
nodes pass on. New nodes get a T as in predictions; that of fitted nodes moves where their links
have changed, and around them. So one product with the links gives the features of all nodes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import log_softmax

from nodeproof.auto.experts.base import Changed, Rows
from nodeproof.auto.experts.regression import (
    Features,
    LearntRegression,
    Links,
    OwnFeatures,
    Regression,
)
from nodeproof.graph import Graph
from nodeproof.smoothing import Reduction, Smoothing
from nodeproof.terms.new_nodes import FittedSoftmax

__all__ = ["update_regression"]

# How far a change of links is followed: links around it.
_ROUNDS = 2


def update_regression(
    learnt: LearntRegression, changed: Changed, log_proba: Rows
) -> LearntRegression:
    """Return a regression after an update.

    If labels have changed, it is fitted to them with the penalty and the hops that were chosen;
    otherwise its coefficients stay.

    Parameters
    ----------
    log_proba : ndarray of shape (n, K)
        Of all nodes: as they were, and new ones as it judges them.
    """
    nodes, fitted = changed.nodes, learnt.fitted
    relearn = changed.relabelled and learnt.setting is not None
    if not (relearn or (changed.rewired and fitted.hops)):
        return replace(_grown(learnt, fitted, changed), log_proba=log_proba)
    learnt = _grown(learnt, fitted, changed)
    fitted = learnt.fitted
    smoothing = _smoothing(fitted, changed)
    kind = Links if fitted.of == "links" else Features if fitted.hops else OwnFeatures
    links = smoothing if fitted.of == "links" else None
    own = smoothing if fitted.of == "features" else None
    expert: Regression = kind().bind(replace(nodes, smoothing=own, links=links))
    assert nodes.y is not None
    if relearn:
        return expert.learn(nodes.y, learnt.setting)
    Z = smoothing.over(fitted.hops)
    logs = log_softmax(-_costs(fitted, Z, nodes.graph) - learnt.shift, axis=1)
    if learnt.spread:
        logs = expert.spread(logs, nodes.y)
    # Labelled nodes were judged by the fit to labels alone: only what is new is worked out.
    kept = nodes.y >= 0
    kept[changed.touched] = False
    kept[len(kept) - changed.n_new :] = False
    logs[kept] = log_proba[kept]
    return replace(learnt, log_proba=logs.astype(np.float32))


def _costs(fitted: FittedSoftmax, Z: Rows, graph: Graph | None) -> NDArray[np.float64]:
    """Return what all nodes cost in each class by kept coefficients, shape (n, K)."""
    slopes = fitted.coefficients[:, :-1].T.astype(np.float32)
    scores = (Z @ slopes).astype(np.float64) + fitted.coefficients[:, -1]
    if fitted.alone is not None and graph is not None:
        apart = graph.degrees == 0
        scores[apart] = Z[apart] @ fitted.alone[:, :-1].T + fitted.alone[:, -1]
    return -np.asarray(log_softmax(scores, axis=1))


def _smoothing(fitted: FittedSoftmax, changed: Changed) -> Smoothing:
    """Return the features of all nodes as they are averaged now."""
    nodes, hops = changed.nodes, fitted.hops
    if fitted.of == "links":
        assert nodes.graph is not None
        smoothing = Smoothing.of_links(nodes.graph)
    else:
        smoothing = Smoothing(nodes.X, nodes.graph, alpha=fitted.alpha)
    smoothing.reduction = fitted.reduction
    if hops:
        assert fitted.lagged is not None
        smoothing.resume(hops, fitted.lagged)
    return smoothing


def _grown(learnt: LearntRegression, fitted: FittedSoftmax, changed: Changed) -> LearntRegression:
    """Return the regression with what nodes pass on after the change."""
    if not changed.rewired:
        return learnt
    new, graph = changed.new, changed.nodes.graph
    reduction = fitted.reduction
    if fitted.of == "links" and changed.n_new:
        # New nodes are words that were never heard.
        directions = reduction.directions
        if directions is None:
            directions = np.eye(new.links.shape[1], dtype=np.float32)
        unheard = np.zeros((changed.n_new, directions.shape[1]), dtype=np.float32)
        reduction = Reduction.of_parts(
            reduction.parts | {"directions": np.vstack([directions, unheard])}
        )
    if not fitted.hops or graph is None:
        return replace(learnt, fitted=replace(fitted, reduction=reduction))
    assert fitted.lagged is not None
    lagged = fitted.lagged
    if changed.n_new:
        base = fitted.reduction.apply(new.links if fitted.of == "links" else new.X)
        rho = np.float32(1.0 - 1.0 / fitted.hops)
        lagged = np.vstack([lagged, base + rho * fitted.sums(base, new)])
    lagged = _followed(lagged, fitted, changed)
    normaliser = np.asarray(1.0 / np.sqrt(graph.degrees / graph.unit + 1.0), np.float32)
    moved = replace(fitted, reduction=reduction, lagged=lagged, normaliser=normaliser)
    return replace(learnt, fitted=moved)


def _followed(lagged: Rows, fitted: FittedSoftmax, changed: Changed) -> Rows:
    """Return what nodes pass on, moved by how much more or less they now receive.

    With D the change of ``ÂT`` times ``1 − 1/h`` where links have changed, that is the sum of
    ``(ρÂ)^k D`` over a few k.
    """
    before, after, touched = changed.before, changed.nodes.graph, changed.touched
    if before is None or after is None or len(touched) == 0:
        return lagged
    rho = 1.0 - 1.0 / fitted.hops
    n_before = before.n_nodes
    received = _received(after, touched, lagged) - _received(before, touched, lagged[:n_before])
    moved, rows = lagged.copy(), touched
    step = sp.csr_array((rho * received).astype(np.float32))
    moved[rows] += step.toarray()
    for _ in range(_ROUNDS - 1):
        around = _averaging(after)[rows].T  # symmetric: columns of these rows
        spread = sp.csr_array(np.float32(rho) * (around @ step))
        rows = np.flatnonzero(np.diff(spread.indptr))
        step = spread[rows]
        moved[rows] += step.toarray()
    return moved


def _received(graph: Graph, rows: NDArray[np.int64], passed_on: Rows) -> NDArray[Any]:
    """Return rows of ``ÂT``."""
    scale = (1.0 / np.sqrt(graph.degrees / graph.unit + 1.0)).astype(np.float32)[:, None]
    near = graph.adjacency[rows] @ (scale * passed_on) / np.float32(graph.unit)
    return np.asarray(scale[rows] * (near + scale[rows] * passed_on[rows]))


def _averaging(graph: Graph) -> sp.csr_array:
    """Return ``Â = D^-½ (A + I) D^-½``."""
    scale = sp.diags_array((1.0 / np.sqrt(graph.degrees / graph.unit + 1.0)).astype(np.float32))
    own = sp.eye_array(graph.n_nodes, format="csr", dtype=np.float32)
    return sp.csr_array(scale @ (graph.adjacency / np.float32(graph.unit) + own) @ scale)
