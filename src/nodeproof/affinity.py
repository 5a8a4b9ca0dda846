"""Affinities: how strongly links bind classes, first assumed and then estimated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import logsumexp

from nodeproof.csr import find_twins
from nodeproof.directed import DirectedGraph
from nodeproof.graph import Graph
from nodeproof.runtime import threads

__all__ = ["Affinity", "FittedGraph", "charge_rows", "memberships_at"]

Array = NDArray[np.float64]
AnyGraph = Graph | DirectedGraph

# How many links the initial guess of the densities is worth.
_GUESS_LINKS = 20.0

# The most labelled nodes, evenly spaced, whose links are counted.
_MOST_ASKED = 20_000

# Rounds of beliefs along links among new nodes, and the share of each message that is kept.
_ROUNDS, _DAMPING = 20, 0.3

# Keeps estimated densities off 0 and 1, where log-odds are infinite.
_TINY = 1e-12


@dataclass(frozen=True)
class Affinity:
    """How strongly links, and missing links, bind classes: ``ℓ`` and ``ℓt``, scalars or K×K.

    A link between classes i and j adds ``ℓ_ij`` to a node's score, a pair of weight N subtracts
    ``(ℓt)_ij · N``. Scalars hold for i = j, and the rest is zero. The product ℓt is stored as one
    number, because t alone is 0/0 if links are uninformative.

    Attributes
    ----------
    ell, ell_t : ndarray of shape (1, 1) or (K, K)
        Both symmetric.
    constant : float
        Part of the −log-likelihood that is not a sum over pairs, so that estimates can be
        compared; 0 for fixed weights.
    """

    ell: Array
    ell_t: Array
    constant: float = 0.0

    @classmethod
    def fixed(cls, s: float, t: float) -> Affinity:
        """Return the scalars of the paper's objective with scale s and threshold t: ℓ = 2s."""
        return cls(np.array([[2.0 * s]]), np.array([[2.0 * s * t]]))

    @classmethod
    def assumed(
        cls,
        graph: Graph,
        labels: NDArray[np.int64] | None = None,
        masses: tuple[Array, Array] | None = None,
    ) -> Affinity:
        """Return the scalars to start with, from the labelled nodes and a guess.

        The guess is that links are twice as dense inside classes, at the graph's mean density; or
        half as dense, if the start is significantly so. It counts as ``_GUESS_LINKS`` links inside
        and across; links among labelled nodes are added.

        Parameters
        ----------
        labels : ndarray of shape (n,), optional
            Given labels, −1 where there is none.
        masses : pair of ndarray of shape (1, 1), optional
            Link mass and pair mass of the memberships that a solver starts from.
        """
        links, pairs = np.zeros(2), np.zeros(2)
        if labels is not None and (labels >= 0).any():
            links, pairs = _labelled_mass(graph, labels)
        guess = graph.density * np.array([np.sqrt(2.0), np.sqrt(0.5)])
        if masses is not None and _avoids_itself(graph, *masses):
            guess = guess[::-1]
        weight = _GUESS_LINKS * graph.unit / graph.density if graph.density > 0 else 1.0
        rates = _bounded((links + weight * guess) / (pairs + weight), graph)
        worth, price = _worth_and_price(rates, graph)
        return cls(np.array([[worth[0] - worth[1]]]), np.array([[price[0] - price[1]]]))

    @classmethod
    def estimate(cls, graph: AnyGraph, links: Array, pairs: Array) -> Affinity:
        """Return the most likely affinities, given the links and pairs that classes share.

        Parameters
        ----------
        graph : Graph
            Determines the likelihood: Bernoulli for 0/1 links under the uniform null model,
            Poisson otherwise.
        links, pairs : ndarray of shape (1, 1) or (K, K)
            Results of :meth:`Graph.link_mass` and :meth:`Graph.pair_mass`: one affinity for all
            classes, or one per pair of classes.
        """
        if links.shape == (1, 1):
            inside = np.array([links[0, 0], graph.total - links[0, 0]])
            within = np.array([pairs[0, 0], graph.all_pairs - pairs[0, 0]])
            worth, price = _worth_and_price(_rates(inside, within, graph), graph)
            constant = 0.5 * (price[1] * graph.all_pairs - worth[1] * graph.total)
            return cls(
                np.array([[worth[0] - worth[1]]]),
                np.array([[price[0] - price[1]]]),
                constant + _rate_penalty(worth, price, graph),
            )
        if not graph.directed:
            links = 0.5 * (links + links.T)
        worth, price = _worth_and_price(_rates(links, pairs, graph), graph)
        # A common offset of all worths changes only the size of the numbers.
        offset = float(worth.mean())
        constant = _rate_penalty(worth, price, graph) - 0.5 * offset * graph.total
        return cls(worth - offset, price, constant)

    def times(self, factor: float) -> Affinity:
        """Return the affinities multiplied by a factor."""
        if factor == 1.0:
            return self
        if factor == 0.0:  # not −0 anywhere
            return Affinity(np.zeros(self.ell.shape), np.zeros(self.ell_t.shape))
        return Affinity(factor * self.ell, factor * self.ell_t, factor * self.constant)

    @property
    def t(self) -> float:
        """The threshold (scalars only); nan if ℓ is 0."""
        ell = float(self.ell[0, 0])
        return float(self.ell_t[0, 0]) / ell if ell else float("nan")

    def energy(self, links: Array, pairs: Array) -> float:
        """Return ``−½ Σ_ij (ℓ_ij M_ij − (ℓt)_ij P_ij)`` plus the constant.

        Parameters
        ----------
        links, pairs : ndarray of the shape of ℓ
            Results of :meth:`Graph.link_mass` and :meth:`Graph.pair_mass`.
        """
        bound = np.vdot(self.ell, links) - np.vdot(self.ell_t, pairs)
        return float(self.constant - 0.5 * bound)


def _avoids_itself(graph: Graph, links: Array, pairs: Array) -> bool:
    """Tell whether classes have fewer links inside than by chance, by four standard deviations."""
    inside = 0.5 * links[0, 0] / graph.unit
    by_chance = 0.5 * graph.density * pairs[0, 0] / graph.unit
    return bool(inside < by_chance - 4.0 * np.sqrt(by_chance))


def _is_bernoulli(graph: AnyGraph) -> bool:
    return graph.null_model == "uniform" and not graph.weighted


def _rates(links: Array, pairs: Array, graph: AnyGraph) -> Array:
    """Return links per pair, shrunk lightly (by one pair's worth) to the graph's density."""
    one = _one_pair(graph)
    rates = (np.maximum(links, 0.0) + one * graph.density) / (np.maximum(pairs, 0.0) + one)
    return _bounded(rates, graph)


def _one_pair(graph: AnyGraph) -> float:
    """Return what one pair is worth: under the degree null model, pairs are in weights."""
    return graph.unit if graph.null_model == "degree" else 1.0


def _bounded(rates: Array, graph: AnyGraph) -> Array:
    least = _TINY * (graph.density or 1.0)
    return np.asarray(np.clip(rates, least, 1 - _TINY if _is_bernoulli(graph) else np.inf))


def _labelled_mass(graph: Graph, labels: NDArray[np.int64]) -> tuple[Array, Array]:
    """Return links and pairs of labelled nodes: (with equal labels, with different ones).

    From all labelled nodes, or an evenly spaced sample of them, to all others.
    """
    known = np.flatnonzero(labels >= 0)
    asked = known[:: -(-len(known) // _MOST_ASKED)]
    y, eta = labels[asked], graph.eta[asked]
    equal = linked = 0.0
    for nodes in np.array_split(asked, -(-len(asked) // threads.ROWS) or 1):
        counts = graph.indptr[nodes + 1] - graph.indptr[nodes]
        before = np.cumsum(counts) - counts
        entries = np.arange(counts.sum()) + np.repeat(graph.indptr[nodes] - before, counts)
        ends = labels[graph.indices[entries]]
        weights = graph.weights[entries] if graph.weighted else np.ones(len(entries))
        linked += float(weights.sum(where=ends >= 0, dtype=np.float64))
        own = np.repeat(labels[nodes], counts)
        equal += float(weights.sum(where=ends == own, dtype=np.float64))
    totals = np.bincount(labels[known], weights=graph.eta[known])
    pairs_equal = float(eta @ (totals[y] - eta))
    pairs_all = float(eta @ (totals.sum() - eta))
    return (
        np.array([equal, linked - equal]),
        np.array([pairs_equal, pairs_all - pairs_equal]),
    )


def _worth_and_price(rates: Array, graph: AnyGraph) -> tuple[Array, Array]:
    """Return what a link adds to the log-likelihood, and what a pair subtracts."""
    if _is_bernoulli(graph):
        return np.log(rates) - np.log1p(-rates), -np.log1p(-rates)
    return np.log(rates) / graph.unit, rates / graph.unit


def _rate_penalty(worth: Array, price: Array, graph: AnyGraph) -> float:
    """Return the −log-prior that shrinks the rates to the graph's density (see `_rates`)."""
    return 0.5 * _one_pair(graph) * float((price - graph.density * worth).sum())


@dataclass(frozen=True)
class FittedGraph:
    """What links of new nodes need of the fitted graph.

    Attributes
    ----------
    null_model : {"uniform", "degree"}
        Expected links between two nodes.
    total : float
        Sum of the degrees.
    unit : float
        Mean weight of a link.
    pairs : ndarray of shape (K,)
        ``Σ_u η_u W_ui`` over the fitted nodes.
    """

    null_model: str
    total: float
    unit: float
    pairs: Array

    @classmethod
    def of_graph(cls, graph: Graph, W: NDArray[Any]) -> FittedGraph:
        """Summarise a graph whose nodes have these memberships."""
        return cls(graph.null_model, graph.total, graph.unit, graph.null_totals(W))

    def settle(
        self,
        scores: Array,
        links: sp.csr_array,
        among: sp.csr_array,
        W: NDArray[Any],
        affinity: Affinity,
        temperature: float = 1.0,
    ) -> Array:
        """Return the scores of new nodes with what their links add, in nats, shape (n_new, K).

        Fitted nodes stay as they are. Along links among new nodes beliefs are propagated: a node's
        own influence does not return to it. Pairs of new nodes without a link count as if links
        among them were placed by chance, given how many of these each node has.

        Parameters
        ----------
        scores : ndarray of shape (n_new, K)
            Scores without links.
        links : csr_array of shape (n_new, n)
            Links to fitted nodes, weights as they were fitted.
        among : csr_array of shape (n_new, n_new)
            Links among new nodes, symmetric.
        W : ndarray of shape (n, K)
            Memberships of the fitted nodes.
        temperature : float
            Of the memberships; at 0, each node is in one class only.
        """
        alone = scores + self.evidence(links, W, affinity)
        linked = np.flatnonzero(np.diff(among.indptr))
        if len(linked):
            some = sp.csr_array(among[linked][:, linked])
            alone[linked] = self._propagated(alone[linked], some, affinity, temperature)
        return alone

    def _propagated(
        self, alone: Array, among: sp.csr_array, affinity: Affinity, temperature: float
    ) -> Array:
        """Return scores of nodes with what links among them add; each has at least one."""
        among.sort_indices()
        twins = find_twins(among.indptr, among.indices)
        sender = np.repeat(np.arange(among.shape[0]), np.diff(among.indptr))
        per_entry = sp.csr_array(
            (np.ones(among.nnz), np.arange(among.nnz), among.indptr), (among.shape[0], among.nnz)
        )
        degrees = np.asarray(among.sum(axis=1))
        # As many pairs as there are links, at the density of the fitted graph, if that has any.
        others = (degrees.sum() - degrees) * self.density
        expected = np.divide(degrees, others, out=np.zeros_like(degrees), where=others > 0)
        beliefs = memberships_at(alone, temperature)
        messages = beliefs[among.indices]  # to the row of the entry, from its column
        found = alone
        for _ in range(_ROUNDS):
            received = _received(messages, among.data, affinity.ell, temperature)
            pairs = degrees @ beliefs - degrees[:, None] * beliefs
            found = alone + per_entry @ received - _times(expected[:, None] * pairs, affinity.ell_t)
            sent = memberships_at(found[sender] - received, temperature)
            # Both are damped alike: what is received and what is expected must stay in balance.
            messages = (1.0 - _DAMPING) * sent[twins] + _DAMPING * messages
            beliefs = (1.0 - _DAMPING) * memberships_at(found, temperature) + _DAMPING * beliefs
        return found

    @property
    def density(self) -> float:
        """Links per pair of fitted nodes, by the null model."""
        return float(self.total / max(self.pairs.sum() ** 2, 1.0))

    def evidence(self, links: sp.csr_array, W: NDArray[Any], affinity: Affinity) -> Array:
        """Return what links and missing links to fitted nodes add to the scores, (n_new, K).

        As in a sweep, ``ℓ Σ_u a_vu W_ui − ℓt η_v Σ_u η_u W_ui``; zero for a node without links,
        because nothing is known about it, not even that it avoids others.
        """
        degrees = np.asarray(links.sum(axis=1))
        eta = (degrees > 0).astype(np.float64)
        if self.null_model == "degree" and self.total > 0:
            eta = degrees / np.sqrt(self.total)
        return _times(links @ W, affinity.ell) - _times(np.outer(eta, self.pairs), affinity.ell_t)


def memberships_at(scores: Array, temperature: float) -> Array:
    """Return the memberships of scores at a temperature, shape (n, K)."""
    if temperature == 0:
        return np.eye(scores.shape[1])[scores.argmax(axis=1)]
    with np.errstate(over="ignore"):  # to −∞ at a tiny temperature
        behind = (scores - scores.max(axis=1, keepdims=True)) / temperature
    shares = np.exp(behind)
    shares /= shares.sum(axis=1, keepdims=True)
    return np.asarray(shares)


def charge_rows(W: NDArray[Any], costs: Array, log_prior: Array, temperature: float) -> float:
    """Return ``Σ W (C − log π) + T Σ W log W`` over rows; where W is 0, nothing counts."""
    rows = np.asarray(W, dtype=np.float64)
    held = rows > 0
    charged = costs - log_prior
    if temperature != 0:
        charged += temperature * np.log(rows, out=np.zeros_like(rows), where=held)
    return float(np.multiply(rows, charged, out=np.zeros_like(rows), where=held).sum())


def _received(messages: Array, weights: Array, ell: Array, temperature: float) -> Array:
    """Return what links add to the scores, ``T log Σ_j exp(a ℓ_ij/T) m_j``, shape (E, K)."""
    if temperature == 0:
        return weights[:, None] * _times(messages, ell)
    gain = weights[:, None] / temperature
    with np.errstate(divide="ignore"):
        logs = np.log(messages)
        if ell.shape == (1, 1):
            logs = np.logaddexp(np.log1p(-np.minimum(messages, 1.0)), gain * ell[0, 0] + logs)
        else:
            logs = np.stack([logsumexp(gain * row + logs, axis=1) for row in ell], axis=1)
    return np.asarray(temperature * logs)


def _times(M: Array, affinity: Array) -> Array:
    """Return the matrix times an affinity, which may be a scalar."""
    return np.asarray(affinity[0, 0] * M if affinity.shape == (1, 1) else M @ affinity)
