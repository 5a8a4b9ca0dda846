"""What links of new nodes need of a fit to several kinds of links, or to links with a direction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof.affinity import Affinity, FittedGraph
from nodeproof.graph import Graph
from nodeproof.storage.schema import Check, flag, number, one_of, text

__all__ = ["KIND_PARTS", "FittedKind", "FittedKinds", "fitted_graph"]

Array = NDArray[np.float64]

#: of a `FittedKind`, beside arrays
KIND_PARTS: dict[str, Check] = {
    "name": text,
    "directed": flag,
    "null_model": one_of("uniform", "degree"),
    "total": number,
    "unit": number,
}


class _NewLinks(Protocol):
    """Links of new nodes of one kind, in the unit of a mean link, as `NewNodes` has them."""

    @property
    def links(self) -> sp.csr_array: ...
    @property
    def among(self) -> sp.csr_array: ...
    @property
    def leaving(self) -> sp.csr_array | None: ...
    @property
    def arriving(self) -> sp.csr_array | None: ...


@dataclass(frozen=True)
class FittedKind:
    """What links of one kind need of the fitted graph.

    Attributes
    ----------
    name : str
        Of the kind.
    directed : bool
        Whether links count with their direction.
    null_model, total, unit
        As of a `FittedGraph`; the total is that of the links that leave nodes.
    pairs : ndarray of shape (2, K)
        ``Σ_u η_u W_ui`` over the fitted nodes that links may lead to, and may come from.
    """

    name: str
    directed: bool
    null_model: str
    total: float
    unit: float
    pairs: Array

    def evidence(self, new: _NewLinks, W: NDArray[Any], ell: Array, ell_t: Array) -> Array:
        """Return what links and missing links to fitted nodes add to the scores, (n_new, K)."""
        if not self.directed:
            return self.as_graph().evidence(self.unit * new.links, W, Affinity(ell, ell_t))
        leaving = self.unit * (new.links if new.leaving is None else new.leaving)
        arriving = self.unit * new.arriving if new.arriving is not None else 0.0 * leaving
        degrees = [np.asarray(links.sum(axis=1)) for links in (leaving, arriving)]
        known = (degrees[0] + degrees[1] > 0).astype(np.float64)
        found = np.zeros((leaving.shape[0], W.shape[1]))
        sides = (leaving, degrees[0], ell, ell_t), (arriving, degrees[1], ell.T, ell_t.T)
        for (links, degree, own, own_t), pairs in zip(sides, self.pairs, strict=True):
            eta = known
            if self.null_model == "degree" and self.total > 0:
                eta = degree / np.sqrt(self.total)
            found += (links @ W) @ own.T - np.outer(eta, pairs) @ own_t.T
        return found

    def as_graph(self) -> FittedGraph:
        """Return the same for links without a direction."""
        return FittedGraph(self.null_model, self.total, self.unit, self.pairs[0])


@dataclass(frozen=True)
class FittedKinds:
    """What links of new nodes need of all kinds.

    Attributes
    ----------
    kinds : tuple of FittedKind
        In the order of their affinities.
    """

    kinds: tuple[FittedKind, ...]

    #: weights of all links together have a mean of about one
    unit = 1.0

    @classmethod
    def of_graph(cls, graph: Graph, W: NDArray[Any]) -> FittedKinds:
        """Summarise a graph whose nodes have these memberships."""
        found = []
        for kind in graph.kinds:
            sides = kind.sides[0], kind.sides[-1]
            pairs = np.stack([side.far @ np.asarray(W, dtype=np.float64) for side in sides])
            total = kind.total / 2.0 if kind.directed else kind.total
            parts = kind.name, kind.directed, kind.null_model, total, kind.unit, pairs
            found.append(FittedKind(*parts))
        return cls(tuple(found))

    @classmethod
    def of_parts(cls, kinds: list[dict[str, Any]], pairs: Array) -> FittedKinds:
        """Return what :meth:`to_parts` has taken apart."""
        if len(pairs) != len(kinds) or len({kind["name"] for kind in kinds}) != len(kinds):
            raise ValueError("the kinds of its links do not fit together")
        found = [FittedKind(**kind, pairs=own) for kind, own in zip(kinds, pairs, strict=True)]
        if not all(kind.unit > 0 and kind.total >= 0 for kind in found):
            raise ValueError("the weights of its links are not positive")
        return cls(tuple(found))

    def to_parts(self) -> tuple[list[dict[str, Any]], Array]:
        """Return the settings of each kind, and their pairs, shape (kinds, 2, K)."""
        settings = [{name: getattr(kind, name) for name in KIND_PARTS} for kind in self.kinds]
        return settings, np.stack([kind.pairs for kind in self.kinds])

    def settle(
        self,
        scores: Array,
        new: Mapping[str, _NewLinks],
        W: NDArray[Any],
        affinity: Affinity,
        temperature: float = 1.0,
    ) -> Array:
        """Return the scores of new nodes with what their links add, shape (n_new, K).

        Fitted nodes stay as they are. Links among new nodes count kind by kind, each beside what
        all other links say.

        Parameters
        ----------
        scores : ndarray of shape (n_new, K)
            Scores without links.
        new : dict
            The links of each kind.
        W : ndarray of shape (n, K)
            Memberships of the fitted nodes.
        affinity : Affinity
            Of all kinds, stacked.
        """
        each = list(zip(self.kinds, affinity.ell, affinity.ell_t, strict=True))
        found = scores
        for kind, ell, ell_t in each:
            if kind.name in new:
                found = found + kind.evidence(new[kind.name], W, ell, ell_t)
        beside = found
        for kind, ell, ell_t in each:
            if kind.directed or kind.name not in new or not new[kind.name].among.nnz:
                continue
            among = kind.unit * new[kind.name].among
            none = sp.csr_array((among.shape[0], len(W)))  # counted already
            own = Affinity(ell, ell_t)
            settled = kind.as_graph().settle(beside, none, among, W, own, temperature)
            found = found + (settled - beside)
        return found


def fitted_graph(graph: Graph | None, W: NDArray[Any]) -> FittedGraph | FittedKinds | None:
    """Return what links of new nodes need of a graph, if there is one."""
    if graph is None:
        return None
    return FittedKinds.of_graph(graph, W) if graph.kinds else FittedGraph.of_graph(graph, W)
