"""Kinds of links, each with its own null model and affinity, and links with a direction.

A `Graph` that brings several kinds is the graph of all links together; `Graph.kinds` has each of
them. What they add to the objective is added up:

    −½ Σ_k (⟨ℓ_k, M_k⟩ − ⟨(ℓt)_k, P_k⟩),    M_k, P_k: masses of links and of pairs, (K, K).

A kind with a direction is seen from both ends: a link u → v between classes i and j adds ℓ_ij,
which need not be symmetric, to the scores of both nodes. Its masses count every link twice, at
either end, as those of an undirected graph do.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof import kernels
from nodeproof.affinity import Affinity
from nodeproof.directed import DirectedGraph
from nodeproof.graph import Graph, RowSums, Side
from nodeproof.runtime import threads

__all__ = [
    "Coupling",
    "KindSums",
    "assumed",
    "estimate",
    "far_totals",
    "link_mass",
    "pair_mass",
    "pull_of",
    "stacked",
    "together",
    "turned",
]

Array = NDArray[np.float64]

# Beside other kinds, one whose links between classes are within so many standard deviations of what
# chance brings says nothing.
_BY_CHANCE = 3.0

# Links that the guess of equal densities is worth, where directions are estimated from labels.
_GUESS_LINKS = 20.0


def together(kinds: Sequence[Graph | DirectedGraph], null_model: str = "auto") -> Graph:
    """Return the graph of all links, whatever their kind, with the kinds in `Graph.kinds`.

    Each kind counts with weights of mean one; where two nodes are linked in several ways, weights
    are added up.

    Examples
    --------
    >>> import numpy as np
    >>> from nodeproof.graph import Graph
    >>> from nodeproof.kinds import together
    >>> cites, wrote = Graph([[0, 1, 0], [1, 0, 0], [0, 0, 0]]), Graph(np.eye(3)[::-1])
    >>> cites.name, wrote.name = "cites", "wrote"
    >>> together([cites, wrote]).adjacency.toarray().tolist()
    [[0.0, 1.0, 1.0], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
    """
    undirected = [kind.undirected for kind in kinds]
    if len(undirected) == 1:
        whole = copy.copy(undirected[0])
    else:
        total = undirected[0].adjacency / np.float32(undirected[0].unit)
        for kind in undirected[1:]:
            total = total + kind.adjacency / np.float32(kind.unit)
        whole = Graph(sp.csr_array(total.astype(np.float32)), null_model)
    whole.kinds, whole.sorts = tuple(kinds), tuple(kind.name for kind in kinds)
    return whole


def turned(affinity: Array, side: Side) -> Array:
    """Return an affinity with the class of a node first and that at the other end second."""
    return affinity.T if side.turned else affinity


def stacked(affinities: Sequence[Affinity], n_classes: int) -> Affinity:
    """Return the affinities of several kinds as one, of shape (kinds, 1, 1) or (kinds, K, K)."""
    constant = sum(affinity.constant for affinity in affinities)
    if all(affinity.ell.shape == (1, 1) for affinity in affinities):
        shape = (1, 1)
    else:
        shape = (n_classes, n_classes)

    def spread(own: Array) -> Array:
        return own if own.shape == shape else own[0, 0] * np.eye(n_classes)

    return Affinity(
        np.stack([spread(affinity.ell) for affinity in affinities]),
        np.stack([spread(affinity.ell_t) for affinity in affinities]),
        constant,
    )


def link_mass(graph: Graph, W: NDArray[Any], matrix: bool = False) -> Array:
    """Return :meth:`Graph.link_mass`; of several kinds, (kinds, 1, 1) or (kinds, K, K)."""
    if not graph.kinds:
        return graph.link_mass(W, matrix)
    return np.stack([kind.link_mass(W, matrix) for kind in graph.kinds])


def pair_mass(graph: Graph, W: NDArray[Any], matrix: bool = False) -> Array:
    """Return :meth:`Graph.pair_mass`; of several kinds, (kinds, 1, 1) or (kinds, K, K)."""
    if not graph.kinds:
        return graph.pair_mass(W, matrix)
    return np.stack([kind.pair_mass(W, matrix) for kind in graph.kinds])


def estimate(graph: Graph, links: Array, pairs: Array) -> Affinity:
    """Return the most likely affinities, given the masses of all kinds."""
    if not graph.kinds:
        return Affinity.estimate(graph, links, pairs)
    found = []
    for kind, own, within in zip(graph.kinds, links, pairs, strict=True):
        if len(graph.kinds) > 1 and _tells_nothing(kind, own, within):
            none = np.zeros(own.shape)
            even = kind.density * within
            constant = Affinity.estimate(kind, even, within).energy(even, within)
            found.append(Affinity(none, none, constant))
        else:
            found.append(Affinity.estimate(kind, own, within))
    return stacked(found, links.shape[-1])


def _tells_nothing(kind: Graph | DirectedGraph, links: Array, pairs: Array) -> bool:
    """Tell whether classes share about as many links as by chance: tests of χ².

    One is of links inside classes and between them; where masses are K×K, another one of all of
    them.
    """
    half = 0.5 / kind.unit  # links have two ends
    if links.shape == (1, 1):
        inside = np.array([links[0, 0], kind.total - links[0, 0]])
        within = np.array([pairs[0, 0], kind.all_pairs - pairs[0, 0]])
        return _are_by_chance(half * inside, half * within)
    each = (half * links).ravel(), (half * pairs).ravel()
    if not kind.directed:
        upper = np.triu_indices(len(links))
        twice = 2.0 - np.eye(len(links))  # between two classes, both halves count
        each = tuple((half * twice * (x + x.T) / 2.0)[upper] for x in (links, pairs))  # type: ignore[assignment]
    whole = [np.array([np.trace(x), x.sum() - np.trace(x)]) for x in (links, pairs)]
    return _are_by_chance(*each) and _are_by_chance(half * whole[0], half * whole[1])


def _are_by_chance(links: Array, pairs: Array) -> bool:
    """Tell whether all pairs may be linked alike, by the links that each kind of pairs has."""
    by_chance = pairs * links.sum() / max(float(pairs.sum()), 1e-300)
    freedom = links.size - 1
    off = float(((links - by_chance) ** 2 / np.maximum(by_chance, 1.0)).sum())
    return off <= freedom + _BY_CHANCE * np.sqrt(2.0 * freedom) + _BY_CHANCE**2


def assumed(
    graph: Graph,
    n_classes: int,
    labels: NDArray[np.int64] | None = None,
    masses: tuple[Array, Array] | None = None,
) -> Affinity:
    """Return the affinities to start with; see :meth:`nodeproof.affinity.Affinity.assumed`.

    Of a kind with a direction nothing is guessed: densities between classes are those among
    labelled nodes or, without any, of the memberships that a solver starts from, drawn towards one
    density for all.

    Parameters
    ----------
    masses : pair of ndarray, optional
        Masses of links and of pairs of the memberships to start from.
    """
    if not graph.kinds:
        return Affinity.assumed(graph, labels, masses)
    found = []
    quiet = _quiet(graph, n_classes, labels, masses)
    for k, kind in enumerate(graph.kinds):
        own = None if masses is None else (masses[0][k], masses[1][k])
        if quiet[k]:
            found.append(Affinity(np.zeros((1, 1)), np.zeros((1, 1))))
            continue
        if isinstance(kind, DirectedGraph):
            found.append(_assumed_directions(kind, n_classes, labels, own))
            continue
        if own is not None and own[0].shape != (1, 1):
            own = np.full((1, 1), np.trace(own[0])), np.full((1, 1), np.trace(own[1]))
        found.append(Affinity.assumed(kind, labels, own))
    return stacked(found, n_classes)


def _quiet(
    graph: Graph,
    n_classes: int,
    labels: NDArray[np.int64] | None,
    masses: tuple[Array, Array] | None,
) -> list[bool]:
    """Return which kinds say nothing at first, where others say something.

    Memberships would follow them anywhere. Once they have settled by the others, it shows whether
    these kinds say something, too.
    """
    if labels is not None and (labels >= 0).any():
        W = _known_memberships(labels, n_classes)
        each = [(kind.link_mass(W, True), kind.pair_mass(W, True)) for kind in graph.kinds]
    elif masses is not None:
        each = list(zip(*masses, strict=True))
    else:
        return [False] * len(graph.kinds)
    quiet = [_tells_nothing(kind, *own) for kind, own in zip(graph.kinds, each, strict=True)]
    return [False] * len(quiet) if all(quiet) else quiet


def _known_memberships(labels: NDArray[np.int64], n_classes: int) -> NDArray[np.float32]:
    known = np.flatnonzero(labels >= 0)
    W = np.zeros((len(labels), n_classes), dtype=np.float32)
    W[known, labels[known]] = 1.0
    return W


def _assumed_directions(
    kind: DirectedGraph,
    n_classes: int,
    labels: NDArray[np.int64] | None,
    masses: tuple[Array, Array] | None,
) -> Affinity:
    if labels is not None and (labels >= 0).any():
        W = _known_memberships(labels, n_classes)
        masses = kind.link_mass(W, True), kind.pair_mass(W, True)
    if masses is None or kind.density == 0:
        return Affinity(np.zeros((n_classes,) * 2), np.zeros((n_classes,) * 2))
    weight = _GUESS_LINKS * kind.unit / kind.density / n_classes
    links, pairs = masses[0] + weight * kind.density, masses[1] + weight
    return Affinity.estimate(kind, links, pairs)


def pull_of(
    kind: Graph | DirectedGraph,
    W: NDArray[np.float32],
    ell: Array,
    ell_t: Array,
    totals: Sequence[Array],
    lo: int,
    hi: int,
) -> Array:
    """Return what the links and pairs of a kind add to the scores of nodes lo…hi, (hi − lo, K).

    Parameters
    ----------
    totals : sequence of ndarray of shape (K,)
        ``Σ_u η_u W_ui`` over the far ends, one per side of the kind.
    """
    found = np.zeros((hi - lo, W.shape[1]))
    for side, total in zip(kind.sides, totals, strict=True):
        near = side.near(W, lo, hi)
        own = side.far[lo:hi, None] * W[lo:hi]
        pairs = side.eta[lo:hi, None] * (total - own)
        if ell.shape == (1, 1):
            found += ell[0, 0] * near - ell_t[0, 0] * pairs
        else:
            found += near @ turned(ell, side).T - pairs @ turned(ell_t, side).T
    return found


class Coupling:
    """What several kinds of links add to the scores of nodes during one sweep.

    Parameters
    ----------
    kinds : sequence of Graph and DirectedGraph
        The kinds.
    affinity : Affinity
        Of all of them, stacked.
    W : ndarray of shape (n, K), float32
        The memberships, which are updated in place between calls.
    batch : int
        How many nodes are updated from the same state.
    """

    def __init__(
        self,
        kinds: Sequence[Graph | DirectedGraph],
        affinity: Affinity,
        W: NDArray[np.float32],
        batch: int,
    ) -> None:
        self.W = W
        self._old = np.empty((batch, W.shape[1]))
        self._sides: list[_CoupledSide] = []
        for k, kind in enumerate(kinds):
            ell, ell_t = affinity.ell[k], affinity.ell_t[k]
            # Kinds that say nothing cost nothing: a pool has taken them into account already.
            if ell.any() or ell_t.any():
                for side, totals in zip(kind.sides, far_totals(kind, W), strict=True):
                    self._sides.append(_CoupledSide(side, ell, ell_t, totals))

    def charge(self, costs: Array, charged: int, first: int, last: int) -> None:
        """Subtract what links add to the scores of nodes first…last from their costs.

        Parameters
        ----------
        costs : ndarray of shape (any, K)
            Its first row is that of node `charged`.
        """
        self._old[: last - first] = self.W[first:last]
        for own in self._sides:
            own.charge(self.W, costs, charged, first, last)

    def update(self, first: int, last: int) -> None:
        """Take note of the new memberships of nodes first…last."""
        for own in self._sides:
            step = self.W[first:last] - self._old[: last - first]
            own.totals += own.side.far[first:last] @ step


class _CoupledSide:
    """One side of a kind: its affinity, and sums that change with every batch."""

    def __init__(self, side: Side, ell: Array, ell_t: Array, totals: Array) -> None:
        self.side, self.totals = side, np.array(totals, dtype=np.float64)
        self.ell = np.ascontiguousarray(turned(ell, side))
        self.ell_t = np.ascontiguousarray(turned(ell_t, side))

    def charge(
        self, W: NDArray[np.float32], costs: Array, charged: int, first: int, last: int
    ) -> None:
        """Subtract what the links of this side add to the scores of nodes first…last."""
        side = self.side

        def part(lo: int, hi: int) -> None:
            kernels.couple_rows(
                lo, hi, charged, side.indptr, side.indices, side.weights, W, side.eta, side.far,
                self.totals, self.ell, self.ell_t, costs, np.empty(W.shape[1]),
            )  # fmt: skip

        if last - first <= threads.ROWS:
            part(first, last)
        else:
            threads.share(part, first, last, threads.ROWS)


def far_totals(kind: Graph | DirectedGraph, W: NDArray[Any]) -> list[Array]:
    """Return ``Σ_u η_u W_ui`` over the far ends of links, one per side of the kind."""

    def sums(side: Side) -> Array:
        return threads.sum_rows(lambda lo, hi: side.far[lo:hi] @ W[lo:hi], len(W))

    return [sums(side) for side in kind.sides]


@dataclass(frozen=True)
class KindSums:
    """Sums over the rows of W that do not involve links, as `RowSums`, for several kinds.

    Attributes
    ----------
    sizes : ndarray of shape (K,)
        ``Σ_v W_vi``.
    pairs : ndarray of shape (kinds, 1, 1) or (kinds, K, K)
        ``Σ_{u≠v} N_uv W_ui W_vj`` of each kind: its trace, or all of it.
    totals : None
        They are of single kinds, and the sweep has them.
    """

    sizes: Array
    pairs: Array
    totals: None = None

    @classmethod
    def of(cls, graph: Graph, W: NDArray[Any], matrix: bool = False) -> KindSums:
        """Return the sums over all rows."""
        return cls(RowSums.of(W, graph.eta).sizes, pair_mass(graph, W, matrix))
