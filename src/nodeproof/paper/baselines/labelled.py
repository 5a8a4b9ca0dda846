"""What labels tell with the graph alone, and with the features alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import cg
from scipy.special import log_softmax

from nodeproof.errors import InputError
from nodeproof.paper.baselines.inputs import check_classes, check_given, check_links, check_points
from nodeproof.runtime import threads
from nodeproof.solvers.base import check_count
from nodeproof.terms import Covariance, NodeData

__all__ = ["class_costs", "gaussian_classifier", "label_propagation"]

Array = NDArray[np.float64]

# How many nodes' worth of the pooled covariance a class may be mixed with.
_SHRINKAGES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)

# Relative residual at which the conjugate gradients stop: classes differ by more.
_TOLERANCE = 1e-6


def label_propagation(
    graph: Any, y: Any, n_classes: int, *, max_iter: int = 200
) -> NDArray[np.int64]:
    """Give each node the class that its neighbours hold on average, labels clamped.

    The harmonic function of Zhu, Ghahramani and Lafferty (ICML 2003), with class mass
    normalisation: each class's total over all nodes is brought to its share of the labels. On
    planted graphs this was about level with or above the local and global consistency of Zhou
    et al., whatever its α. The fixed point is found by conjugate gradients.

    Parameters
    ----------
    graph : object
        Anything that :func:`nodeproof.inputs.graph_objects.check_adjacency` reads; weights count.
    y : array of shape (n,)
        Labels 0…K−1, −1 where unknown; at least one must be known.
    n_classes : int
        Number of classes K.
    max_iter : int
        The most steps of conjugate gradients a class.

    Returns
    -------
    ndarray of shape (n,)
        Classes; labelled nodes keep their label. Nodes that no label reaches get the most
        frequent one.

    Examples
    --------
    >>> import numpy as np
    >>> from nodeproof.paper.baselines import label_propagation
    >>> path = np.diag(np.ones(5), 1) + np.diag(np.ones(5), -1)
    >>> label_propagation(path, [0, -1, -1, -1, -1, 1], 2)
    array([0, 0, 0, 1, 1, 1])
    """
    adjacency = check_links(graph)
    n = adjacency.shape[0]
    K = check_classes(n_classes, n)
    labels = _check_some(y, n, K)
    check_count("max_iter", max_iter)
    known = labels >= 0
    shares = np.bincount(labels[known], minlength=K) / known.sum()
    classes = np.where(known, labels, shares.argmax())
    degrees = adjacency.sum(axis=1)
    asked = np.flatnonzero(~known & (degrees > 0))
    if len(asked) == 0:
        return classes
    rows = adjacency[asked]
    laplacian = sp.diags_array(degrees[asked]) - rows[:, asked]
    scale = sp.diags_array(1.0 / degrees[asked])
    pull = rows @ (labels[:, None] == np.arange(K)).astype(np.float64)
    with threads.using(1):
        # In a part of the graph without labels the Laplacian is singular, but there nothing
        # pulls, and the solution stays at zero.
        columns = [
            cg(laplacian, b, rtol=_TOLERANCE, maxiter=max_iter, M=scale)[0] if b.any() else b
            for b in pull.T
        ]
    harmonic = np.stack(columns, axis=1)
    # Labelled nodes count, or a single node without a label would always be a tie.
    masses = harmonic.sum(axis=0) + np.bincount(labels[known], minlength=K)
    harmonic *= np.divide(shares, masses, out=np.zeros(K), where=masses > 0)
    reached = harmonic.max(axis=1) > 0
    classes[asked[reached]] = harmonic[reached].argmax(axis=1)
    return classes


def gaussian_classifier(X: Any, y: Any, n_classes: int) -> NDArray[np.int64]:
    """Classify the nodes by centred Gaussians, one a class, fitted to the labelled nodes.

    Quadratic discriminant analysis without means: a covariance a class, drawn to the pooled
    second moment of all nodes, and the shares of the labels as prior. How strongly it is drawn
    is chosen by the log-loss of the labelled nodes, each left out in turn.

    Parameters
    ----------
    X : array of shape (n, m)
        Features.
    y : array of shape (n,)
        Labels 0…K−1, −1 where unknown; at least one must be known.
    n_classes : int
        Number of classes K; one without a label is never predicted.

    Returns
    -------
    ndarray of shape (n,)
        Classes of all nodes; also those of labelled nodes are predicted.

    Examples
    --------
    >>> from nodeproof.paper.baselines import gaussian_classifier
    >>> from nodeproof.datasets import make_planted
    >>> data = make_planted(random_state=0)
    >>> found = gaussian_classifier(data.X, data.y, 3)
    >>> bool((found == data.y_true).mean() > 0.98)
    True
    """
    points = check_points(X)
    K = check_classes(n_classes, len(points))
    labels = _check_some(y, len(points), K)
    with threads.using(1):
        return class_costs(points, labels, K).argmin(axis=1)


def class_costs(X: Array, y: NDArray[np.int64], n_classes: int) -> Array:
    """Return −log(prior × density) of every node in each class, by the labelled nodes alone.

    Parameters
    ----------
    X : ndarray of shape (n, m)
        Features.
    y : ndarray of shape (n,)
        Labels, −1 where unknown; at least one is known.
    n_classes : int
        Number of classes K.

    Returns
    -------
    ndarray of shape (n, K)
        Infinite for classes without a label.
    """
    known = np.flatnonzero(y >= 0)
    given = y[known]
    W = np.zeros((len(X), n_classes))
    W[known, given] = 1.0
    sizes = W.sum(axis=0)
    prior = np.log((sizes + 1.0) / (len(known) + n_classes))
    prior[sizes == 0] = -np.inf
    best, least = np.empty(0), np.inf
    for shrinkage in _SHRINKAGES:
        term = Covariance(shrinkage=shrinkage).bind(NodeData(n_classes, X))
        models = term.estimate(W)
        costs = term.cost(models, 0, len(X)) - prior
        fair = costs[known]
        own = np.arange(len(known)), given
        fair[own] += _left_out(fair[own] + prior[given], models[given], sizes[given] + shrinkage)
        loss = -log_softmax(-fair, axis=1)[own].sum()
        if loss < least:
            best, least = costs, loss
    return best


def _left_out(costs: Array, models: Array, weights: Array) -> Array:
    """Return what leaving nodes out of the fit of their class adds to their −log-likelihood.

    Leaving x out of ``R = B/d`` turns it into ``(B − xxᵀ)/(d − 1)``; with ``q = xᵀB⁻¹x`` its
    inverse form at x is ``(d − 1)·q/(1 − q)``, and its determinant is smaller by ``1 − q``.

    Parameters
    ----------
    costs : ndarray of shape (l,)
        −log-likelihoods in the nodes' own classes.
    models : ndarray of shape (l, m, m)
        Covariances R of these classes.
    weights : ndarray of shape (l,)
        How many nodes each covariance was made from (d), the pooled ones included.
    """
    m = models.shape[1]
    offset = 0.5 * (np.linalg.slogdet(models)[1] + m * np.log(2.0 * np.pi))
    form = 2.0 * (costs - offset)
    q = np.clip(form / weights, 0.0, 1.0 - 1e-12)
    rest = weights - 1.0
    fair = rest * q / (1.0 - q) + np.log1p(-q) + m * np.log(weights / rest)
    return np.asarray(0.5 * (fair - form))


def _check_some(y: Any, n_nodes: int, n_classes: int) -> NDArray[np.int64]:
    labels = check_given(y, n_nodes, n_classes)
    if not (labels >= 0).any():
        raise InputError("y holds no label, only -1: at least one node must have one")
    return labels
