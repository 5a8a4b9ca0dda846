"""Greedy merging of classes: the cost of merging each pair, without a pass over the links."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.special import gammaln, xlogy

from nodeproof.affinity import Affinity
from nodeproof.graph import Graph
from nodeproof.problem import Models, Problem
from nodeproof.terms import NodeData, Term

__all__ = ["CoupledMerges", "Family", "Merges", "merge_memberships"]

Array = NDArray[np.float64]

# Costs of features and memberships are estimated from this many nodes, evenly spaced.
_SAMPLE = 4000

# This many of the mergers that look best at the current affinity are evaluated at their own.
_CLOSER = 12

# Tolerance of models coupled by a sum of norms, to evaluate mergers.
_COUPLED_TOL = 1e-5


@dataclass(frozen=True)
class Family:
    """The same problem for any number of classes.

    Attributes
    ----------
    nodes : NodeData
        The data; its number of classes is ignored.
    terms : sequence of Term
        Bound or not.
    graph, weights, threshold, trust, son
        As :class:`Problem` takes them.
    """

    nodes: NodeData
    terms: tuple[Term, ...]
    graph: Graph | None = None
    weights: Any = "calibrated"
    threshold: float = 0.5
    trust: float = 1.0
    son: float = 0.0

    def problem(self, n_classes: int) -> Problem:
        """Return the problem with this many classes."""
        nodes = replace(self.nodes, n_classes=n_classes)
        terms = [term.bind(nodes) for term in self.terms]
        return Problem(
            self.graph, terms, n_classes, self.weights, self.threshold, self.trust, self.son
        )

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        if self.graph is not None:
            return self.graph.n_nodes
        assert self.nodes.X is not None
        return int(self.nodes.X.shape[0])

    def sample(self, n_classes: int) -> tuple[Term, ...]:
        """Return the terms of a sample of the features, with an independent model per class."""
        if self.nodes.X is None:
            return ()
        sample = NodeData(
            n_classes, self.nodes.X[:: self.step], feature_names=self.nodes.feature_names
        )
        return tuple(
            term.separate().bind(sample) for term in self.terms if term.source == "features"
        )

    @property
    def step(self) -> int:
        """Every step-th node is in the sample."""
        return -(-self.n_nodes // _SAMPLE)

    def naming(self, n_classes: int) -> float:
        """Return the description length of the class sizes that all classes share, in nats."""
        if self.weights != "calibrated":
            return 0.0
        n, K = self.n_nodes, n_classes
        return float(gammaln(n) - gammaln(K) - gammaln(n - K + 1.0) + gammaln(n + 1.0))


class Merges:
    """Merges two classes at a time, the pair whose merger costs least, down to one class.

    Parameters
    ----------
    family : Family
        The problem to solve.
    W : ndarray of shape (n, K)
        Memberships.

    Attributes
    ----------
    groups : ndarray of shape (K,)
        The class that each of the given classes is now part of, 0, 1, …
    """

    def __init__(self, family: Family, W: NDArray[Any]) -> None:
        self.family = family
        self.problem = family.problem(W.shape[1])
        self.W = np.asarray(W, dtype=np.float64).copy()
        graph = family.graph
        K = W.shape[1]
        self.links = np.zeros((K, K)) if graph is None else graph.link_mass(self.W, True)
        self.pairs = np.zeros((K, K)) if graph is None else graph.pair_mass(self.W, True)
        self.terms = family.sample(K)
        self.groups = np.arange(K)
        # Cost of each class, and of the union of each pair, without their links.
        self.own, self.unions = np.zeros(K), np.full((K, K), np.inf)
        self._begin()

    def _begin(self) -> None:
        self.own = self._charge(self.W)
        for i in range(1, self.n_classes):
            self._fill(i, i)

    def _fill(self, i: int, upto: int) -> None:
        unions = self._charge(self.W[:, [i]] + self.W[:, :upto])
        self.unions[i, :upto] = self.unions[:upto, i] = unions
        self.unions[i, i] = np.inf

    def _charge(self, W: NDArray[Any]) -> Array:
        """Return the cost of each class without its links: (c,) for columns of shape (n, c).

        Calibrated: the description length of which nodes it has, of their features, and of its
        model, to the precision that so many nodes allow. Fixed weights: the losses of its nodes.
        """
        sample = W[:: self.family.step]
        scale = len(W) / len(sample)
        total = np.zeros(W.shape[1])
        if self.problem.calibrated:
            sizes = scale * sample.sum(axis=0)
            total += scale * xlogy(sample, sample).sum(axis=0) - gammaln(sizes + 1.0)
        for term in self.terms:
            if self.problem.calibrated:
                models = term.estimate(sample)
                costs = term.cost(models, 0, len(sample))
                total += term.description_lengths(models, sizes)
            else:
                theta = term.refit(sample)
                costs = self.family.weights[1] * term.vertex_costs(theta, 0, len(sample))
            total += scale * np.einsum("vi,vi->i", sample, costs)
        return total

    @property
    def n_classes(self) -> int:
        """Number of classes left."""
        return self.W.shape[1]

    @property
    def total(self) -> float:
        """Total cost: the description length, or φ."""
        links, pairs = np.trace(self.links), np.trace(self.pairs)
        own = float(self.own.sum()) + self.family.naming(self.n_classes) + self._pull()
        return own + self._energy(self._affinity(links, pairs), links, pairs)

    def _pull(self) -> float:
        """Return the sum of norms between the classes' models."""
        return 0.0

    def __iter__(self) -> Iterator[tuple[float, NDArray[np.int64]]]:
        """Yield the total and the groups, first as they are, then after every merger."""
        yield self.total, self.groups
        while self.n_classes > 1:
            _, i, j = self.best()[0]
            self.merge(i, j)
            yield self.total, self.groups

    def best(self) -> list[tuple[float, int, int]]:
        """Return the mergers that look best and what each adds to the total, cheapest first."""
        K = self.n_classes
        rows, columns = np.tril_indices(K, -1)
        links, pairs = np.trace(self.links), np.trace(self.pairs)
        now = self._affinity(links, pairs)
        gained = self.links[rows, columns] + self.links[columns, rows]
        shared = self.pairs[rows, columns] + self.pairs[columns, rows]
        added = self.unions[rows, columns] - self.own[rows] - self.own[columns]
        added += self.family.naming(K - 1) - self.family.naming(K)
        if now is None:
            guess = added
        else:
            ell, ell_t = float(now.ell[0, 0]), float(now.ell_t[0, 0])
            guess = added - 0.5 * (ell * gained - ell_t * shared)
        before = self._energy(now, links, pairs)
        judged = []
        for k in np.argsort(guess, kind="stable")[:_CLOSER]:
            inside, within = links + gained[k], pairs + shared[k]
            energy = self._energy(self._affinity(inside, within), inside, within)
            judged.append((float(added[k] + energy - before), int(rows[k]), int(columns[k])))
        return sorted(judged)

    def merge(self, i: int, j: int) -> None:
        """Merge class i into class j."""
        keep = np.arange(self.n_classes) != i
        groups = np.where(self.groups == i, j, self.groups)
        self.groups = groups - (groups > i)
        self.W[:, j] += self.W[:, i]
        for mass in (self.links, self.pairs):
            mass[j] += mass[i]
            mass[:, j] += mass[:, i]
        self.own[j] = self.unions[i, j]
        self.W = np.ascontiguousarray(self.W[:, keep])
        self.own = self.own[keep]
        self.links, self.pairs, self.unions = (
            square[np.ix_(keep, keep)] for square in (self.links, self.pairs, self.unions)
        )
        self._merged(j - (i < j))

    def _merged(self, j: int) -> None:
        """Update the costs: class j has grown."""
        self._fill(j, self.n_classes)

    def _affinity(self, links: float, pairs: float) -> Affinity | None:
        if self.family.graph is None:
            return None
        if not self.problem.calibrated:
            return Affinity.fixed(2.0 * self.family.weights[0], self.family.threshold)
        return self.problem.fit_affinity(np.full((1, 1), links), np.full((1, 1), pairs))

    @staticmethod
    def _energy(affinity: Affinity | None, links: float, pairs: float) -> float:
        if affinity is None:
            return 0.0
        return affinity.energy(np.full((1, 1), links), np.full((1, 1), pairs))


def merge_memberships(W: NDArray[Any], groups: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return the memberships with the classes of each group merged, shape (n, groups)."""
    return np.asarray(W @ np.eye(groups.max() + 1, dtype=np.float32)[groups], dtype=np.float32)


class CoupledMerges(Merges):
    """The same with a sum of norms, which couples the models of all classes.

    All models are refitted after every merger. The cost of a merger is estimated with the other
    models unchanged and, for the union, the mean of the two models.
    """

    def _begin(self) -> None:
        family, K = self.family, self.n_classes
        problem = family.problem(K)
        models = Models(None, problem.fit_terms(self.W, tol=_COUPLED_TOL), np.zeros(K))
        pull = problem.pull(models)
        self.apart = np.zeros((K, K)) if pull is None else pull
        sizes = self.W.sum(axis=0)
        self.sizes = sizes
        self.own = self._losses(models.terms, self.W)
        for i in range(1, K):
            share = sizes[i] / np.maximum(sizes[i] + sizes[:i], 1e-300)
            means = tuple(_between(theta[i], theta[:i], share) for theta in models.terms)
            self.unions[i, :i] = self._losses(means, self.W[:, [i]] + self.W[:, :i])
            self.unions[i, :i] += self._closer(models.terms, means, i)
            self.unions[:i, i] = self.unions[i, :i]

    def _merged(self, j: int) -> None:
        self._begin()

    def _losses(self, models: Sequence[Array], W: Array) -> Array:
        """Return the loss of each class's nodes under its model, shape (c,)."""
        sample = W[:: self.family.step]
        total = np.zeros(W.shape[1])
        for term, theta in zip(self.terms, models, strict=True):
            costs = term.vertex_costs(theta, 0, len(sample))
            total += self.family.weights[1] * np.einsum("vi,vi->i", sample, costs)
        return total * len(W) / len(sample)

    def _closer(self, models: Sequence[Array], means: Sequence[Array], i: int) -> Array:
        """Return what merging class i with each earlier class adds to the sum of norms, (i,)."""
        sizes, apart = self.sizes, self.apart
        here, there = (
            np.hstack([theta.reshape(len(theta), -1) for theta in thetas])
            for thetas in (models, means)
        )
        after = self.family.son * cdist(there, here)
        added = np.empty(i)
        for j in range(i):
            others = sizes.copy()
            others[[i, j]] = 0.0
            before = sizes[i] * apart[i] + sizes[j] * apart[j]
            added[j] = others @ ((sizes[i] + sizes[j]) * after[j] - before)
            added[j] -= sizes[i] * sizes[j] * apart[i, j]
        return added

    def _pull(self) -> float:
        return 0.5 * float(self.sizes @ self.apart @ self.sizes)


def _between(one: Array, others: Array, share: Array) -> Array:
    """Return the weighted means of one model with each of the others; `share` is its weight."""
    weight = share.reshape(-1, *[1] * one.ndim)
    return np.asarray(weight * one + (1.0 - weight) * others)
