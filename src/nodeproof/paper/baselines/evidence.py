"""What the baselines share: their checked input, and the likelihood of a partition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import log_softmax, logit

from nodeproof.errors import InputError
from nodeproof.inputs import check_features
from nodeproof.inputs.graph_objects import check_adjacency
from nodeproof.runtime.caching import cached_property
from nodeproof.solvers.base import check_count, match_labels
from nodeproof.terms import Covariance, NodeData

__all__ = [
    "Evidence",
    "Rule",
    "bernoulli",
    "check_classes",
    "check_given",
    "check_links",
    "check_points",
    "class_costs",
    "least_squares",
]

Array = NDArray[np.float64]
Classes = NDArray[np.int64]

#: the cost of a node's links in each class: ``cost(links, others, rates)``, shape (n, K), where
#: ``links`` (n, K) are a node's links into each class, ``others`` (n, K) how many other nodes
#: that class has, and ``rates`` (K, K) the shares of pairs that are linked
LinkCost = Callable[[Array, Array, Array], Array]

# Keeps estimated rates off 0 and 1, where log-odds are infinite.
_TINY = 1e-9

# How many nodes' worth of the pooled covariance a class may be mixed with.
_SHRINKAGES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)


def bernoulli(links: Array, others: Array, rates: Array) -> Array:
    """Return the −log-likelihood of each node's links, shape (n, K)."""
    return np.asarray(-(links @ logit(rates) + others @ np.log1p(-rates)))


def least_squares(links: Array, others: Array, rates: Array) -> Array:
    """Return the same with the links into a class taken as Gaussian, shape (n, K).

    ``½ Σ_l (d_l − n_l Π_kl)² / (n_l Π_kl (1 − Π_kl)) + log(Π_kl (1 − Π_kl))``, multiplied out.
    """
    variances = rates * (1.0 - rates)
    # Into a class without other nodes there are no links: 0/0 is 0.
    squares = links**2 / np.maximum(others, 1.0)
    distances = (
        squares @ (1.0 / variances)
        - 2.0 * links @ (rates / variances)
        + others @ (rates**2 / variances)
    )
    return np.asarray(0.5 * (distances + np.log(variances).sum(axis=0)))


@dataclass(frozen=True)
class Rule:
    """How a node is re-assigned.

    Attributes
    ----------
    link_cost : callable
        The cost of its links in each class.
    proportions : bool
        Whether class proportions enter as a prior.
    """

    link_cost: LinkCost
    proportions: bool


@dataclass(frozen=True)
class Evidence:
    """The data of the nodes: at least links or features.

    Attributes
    ----------
    n_classes : int
        Number of classes K.
    y : ndarray of shape (n,)
        Labels, −1 where unknown.
    adjacency : scipy.sparse.csr_array of shape (n, n), or None
        Symmetric, 0/1.
    features : Covariance or None
        Bound to the features.
    """

    n_classes: int
    y: Classes
    adjacency: sp.csr_array | None
    features: Covariance | None

    @classmethod
    def gather(cls, graph: Any, X: Any, y: Any, n_classes: Any) -> Evidence:
        """Check the input of a baseline and return it."""
        if graph is None and X is None:
            raise InputError("there are neither features nor a graph: give X, graph or both")
        features = adjacency = None
        if X is not None:
            points = check_points(X)
            n = len(points)
        if graph is not None:
            adjacency = check_links(graph, None if X is None else n)
            # In both papers links are 0/1: weights do not enter.
            adjacency.data[:] = 1.0
            n = adjacency.shape[0]
        K = check_classes(n_classes, n)
        if X is not None:
            features = Covariance().bind(NodeData(K, points))
        labels = np.full(n, -1) if y is None else check_given(y, n, K)
        return cls(K, labels, adjacency, features)

    @cached_property
    def known(self) -> Classes:
        """The labelled nodes, shape (l,)."""
        return np.flatnonzero(self.y >= 0)

    @cached_property
    def labelled_costs(self) -> Array:
        """Costs of the features by class, from the labelled nodes alone, shape (n, K)."""
        assert self.features is not None
        return class_costs(self.features.X, self.y, self.n_classes)

    @cached_property
    def density(self) -> float:
        """Share of the pairs of nodes that are linked."""
        assert self.adjacency is not None
        n = len(self.y)
        return float(self.adjacency.nnz / max(n * (n - 1), 1))

    def clamp(self, classes: Classes) -> Classes:
        """Return the classes with every labelled node at its label."""
        return np.where(self.y >= 0, self.y, classes)

    def one_hot(self, classes: Classes) -> Array:
        """Return the indicators of the classes, shape (n, K)."""
        W = np.zeros((len(classes), self.n_classes))
        W[np.arange(len(classes)), classes] = 1.0
        return W

    def align(self, classes: Classes, reference: Classes | None = None) -> Classes:
        """Return the classes renamed so that most labels agree with them (Hungarian method).

        Parameters
        ----------
        classes : ndarray of shape (n,)
            Classes to rename.
        reference : ndarray of shape (n,), optional
            Classes to compare with the labels, by default those to rename.
        """
        compared = classes if reference is None else reference
        order = match_labels(self.one_hot(compared), self.y)
        names = np.empty_like(order)
        names[order] = np.arange(self.n_classes)
        before, after = compared[self.known], names[compared[self.known]]
        given = self.y[self.known]
        # Renaming must gain something.
        return names[classes] if (after == given).sum() > (before == given).sum() else classes

    def judge(self, classes: Classes, rule: Rule) -> tuple[Array, float]:
        """Fit the models to a partition; return the costs of all classes, and its likelihood.

        A class without nodes gets the models of all nodes together.

        Returns
        -------
        costs : ndarray of shape (n, K)
            The cost of each node in each class, with all others fixed.
        value : float
            The complete log-likelihood, with Bernoulli links whatever the rule.
        """
        W = self.one_hot(classes)
        sizes = W.sum(axis=0)
        costs, value = np.zeros_like(W), 0.0
        if self.adjacency is not None:
            links = self.adjacency @ W
            mass = W.T @ links
            pairs = np.outer(sizes, sizes) - np.diag(sizes)
            rates = self.rates(mass, pairs)
            costs += rule.link_cost(links, sizes - W, rates)
            value += 0.5 * float(np.vdot(mass, logit(rates)) + np.vdot(pairs, np.log1p(-rates)))
        if self.features is not None:
            features = self.features.cost(self.features.estimate(W), 0, len(W))
            costs += features
            value -= float(np.vdot(W, features))
        if rule.proportions:
            prior = np.log((sizes + 1.0) / (len(W) + self.n_classes))
            costs -= prior
            value += float(sizes @ prior)
        return costs, value

    def rates(self, mass: Array, pairs: Array) -> Array:
        """Return links per pair, shrunk slightly (by one link's worth) to the graph's density.

        Parameters
        ----------
        mass, pairs : ndarray of shape (K, K)
            Links and pairs that classes share, each in both directions.
        """
        if self.density == 0.0:
            return np.full_like(pairs, _TINY)
        rates = (mass + 1.0) / (pairs + 1.0 / self.density)
        return np.asarray(np.clip(rates, min(_TINY, self.density), 1.0 - _TINY))


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


def check_links(graph: Any, n_nodes: int | None = None) -> sp.csr_array:
    """Return the graph as a symmetric CSR array of float64 without self loops."""
    return check_adjacency(graph, n_nodes).astype(np.float64)


def check_points(X: Any) -> NDArray[np.float64]:
    """Return the features as a finite array of shape (n, m)."""
    if sp.issparse(X):
        raise InputError("X must be a dense array, got a sparse matrix: use X.toarray()")
    points = np.asarray(X)
    if points.ndim != 2 or 0 in points.shape or points.dtype.kind not in "biuf":
        raise InputError(
            f"X must hold numbers, one row per node, got {points.dtype} of shape {points.shape}"
        )
    check_features(points)
    return np.ascontiguousarray(points, dtype=np.float64)


def check_classes(n_classes: Any, n_nodes: int) -> int:
    """Return the number of classes, which must be positive and no more than the nodes."""
    check_count("n_classes", n_classes)
    if n_classes > n_nodes:
        raise InputError(f"n_classes={n_classes} is more than the {n_nodes} nodes")
    return int(n_classes)


def check_given(y: Any, n_nodes: int, n_classes: int) -> NDArray[np.int64]:
    """Return the labels: 0…K−1 or −1, one per node."""
    given = np.asarray(y)
    if given.shape != (n_nodes,):
        raise InputError(
            f"y needs one entry per node, -1 where unknown: got shape {given.shape} for {n_nodes} "
            "nodes"
        )
    odd = np.ones(n_nodes, dtype=bool)
    if given.dtype.kind in "iu":
        odd = (given < -1) | (given >= n_classes)
    if odd.any():
        v = int(odd.argmax())
        raise InputError(
            f"y must hold the integers 0…{n_classes - 1}, or -1 where unknown: got {given[v]!r} "
            f"at node {v}"
        )
    return given.astype(np.int64)


def check_some_given(y: Any, n_nodes: int, n_classes: int) -> NDArray[np.int64]:
    """Return the labels, as `check_given`; at least one must be known."""
    labels = check_given(y, n_nodes, n_classes)
    if not (labels >= 0).any():
        raise InputError("y holds no label, only -1: at least one node must have one")
    return labels
