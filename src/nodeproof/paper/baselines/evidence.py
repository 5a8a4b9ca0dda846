"""What links, features and labels say of a partition: the common ground of the refinements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import logit

from nodeproof.errors import InputError
from nodeproof.paper.baselines.inputs import check_classes, check_given, check_links, check_points
from nodeproof.paper.baselines.labelled import class_costs
from nodeproof.runtime.caching import cached_property
from nodeproof.solvers.align import match_labels
from nodeproof.terms import Covariance, NodeData

__all__ = ["Evidence", "Rule", "bernoulli", "least_squares"]

Array = NDArray[np.float64]
Classes = NDArray[np.int64]

#: what a node's links cost in each class: ``cost(links, others, rates)``, shape (n, K), where
#: ``links`` (n, K) are a node's links into each class, ``others`` (n, K) how many other nodes
#: that class has, and ``rates`` (K, K) the shares of pairs that are linked
LinkCost = Callable[[Array, Array, Array], Array]

# Keeps estimated rates off 0 and 1, where log-odds are infinite.
_TINY = 1e-9


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
        What its links cost in each class.
    proportions : bool
        Whether large classes are more probable before anything is seen.
    """

    link_cost: LinkCost
    proportions: bool


@dataclass(frozen=True)
class Evidence:
    """What is known of the nodes, at least links or features.

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
        """Return what was given, checked."""
        if graph is None and X is None:
            raise InputError("there are neither features nor a graph: give X, graph or both")
        features = adjacency = None
        if X is not None:
            points = check_points(X)
            n = len(points)
        if graph is not None:
            adjacency = check_links(graph, None if X is None else n)
            # Both papers' links are there or not; how heavy they are does not enter.
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
        """What the features cost in each class by the labelled nodes alone, shape (n, K)."""
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
            What is renamed.
        reference : ndarray of shape (n,), optional
            What is compared with the labels, where it is not the classes themselves.
        """
        compared = classes if reference is None else reference
        order = match_labels(self.one_hot(compared), self.y)
        names = np.empty_like(order)
        names[order] = np.arange(self.n_classes)
        before, after = compared[self.known], names[compared[self.known]]
        given = self.y[self.known]
        # Names are not changed for nothing.
        return names[classes] if (after == given).sum() > (before == given).sum() else classes

    def judge(self, classes: Classes, rule: Rule) -> tuple[Array, float]:
        """Fit the models to a partition; return the costs of all classes, and its likelihood.

        A class without nodes gets the models of all nodes together.

        Returns
        -------
        costs : ndarray of shape (n, K)
            What each node would pay in each class, all others staying where they are.
        value : float
            The complete log-likelihood: links as Bernoulli whatever the rule.
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
        """Return links per pair, drawn lightly (by one link's worth) to the graph's density.

        Parameters
        ----------
        mass, pairs : ndarray of shape (K, K)
            Links and pairs that classes share, each in both directions.
        """
        if self.density == 0.0:
            return np.full_like(pairs, _TINY)
        rates = (mass + 1.0) / (pairs + 1.0 / self.density)
        return np.asarray(np.clip(rates, min(_TINY, self.density), 1.0 - _TINY))
