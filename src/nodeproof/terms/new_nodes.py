"""Nodes that were not fitted, and what a fitted term charges them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import log_softmax, softmax

from nodeproof.runtime.caching import cached_property
from nodeproof.smoothing import Reduction

if TYPE_CHECKING:
    from nodeproof.terms.softmax import Softmax

__all__ = ["FittedSoftmax", "NewNodeCosts", "NewNodes"]

Array = NDArray[np.float64]
Rows = NDArray[np.float32]

# Rounds in which new nodes that are linked among each other average their features, per hop, and
# the relative change that ends them.
_ROUNDS, _SETTLED = 4, 1e-4

# Of a FittedSoftmax, beside those of its reduction.
_ARRAYS = ("coefficients", "lagged", "normaliser", "alone")


@dataclass(frozen=True)
class NewNodes:
    """Nodes that were not fitted.

    Attributes
    ----------
    X : ndarray or csr_array of shape (n_new, m), or None
        Their features.
    links : csr_array of shape (n_new, n)
        Their links to fitted nodes, in the unit of a mean link.
    among : csr_array of shape (n_new, n_new)
        Their links among each other, symmetric, without self loops, in the same unit.
    feature_names : ndarray of shape (m,), or None
        Names of the features.
    leaving, arriving : csr_array of shape (n_new, n), or None
        Of links with a direction, those that lead to fitted nodes, and those from them.
    kinds : dict of NewNodes
        The same nodes with their links of each kind alone, if there are several.
    """

    X: Any
    links: sp.csr_array
    among: sp.csr_array
    feature_names: NDArray[Any] | None = None
    leaving: sp.csr_array | None = None
    arriving: sp.csr_array | None = None
    kinds: Mapping[str, NewNodes] = field(default_factory=dict)

    @cached_property
    def degrees(self) -> Array:
        """Sums of the weights of all links of each node, shape (n_new,)."""
        return np.asarray(self.links.sum(axis=1)) + np.asarray(self.among.sum(axis=1))

    def links_of(self, unit: float) -> tuple[sp.csr_array, sp.csr_array]:
        """Return links to fitted nodes and among each other, as weighted in the fitted graph.

        Parameters
        ----------
        unit : float
            The mean weight of its links. Those of several kinds were added up in their own units.
        """
        unit = 1.0 if len(self.kinds) > 1 else unit
        return unit * self.links, unit * self.among


class NewNodeCosts(ABC):
    """What new nodes cost by one term of a fitted model."""

    @abstractmethod
    def costs(self, new: NewNodes) -> Array:
        """Return what new nodes cost in each class, shape (n_new, K)."""

    @property
    def needs_links(self) -> bool:
        """Whether nodes without links seem surer of their class than they should be."""
        return False

    def to_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the settings and arrays to save, as `Term.restored` takes them."""
        return {}, {}


@dataclass(frozen=True)
class FittedSoftmax(NewNodeCosts):
    """A fitted :class:`nodeproof.terms.Softmax`, as far as new nodes need it.

    Attributes
    ----------
    reduction : Reduction
        From features to few columns.
    coefficients : ndarray of shape (K, r + 1)
        Of the classifier.
    hops : int
        How far features are averaged; 0 without a graph.
    alpha : float
        Share of a node's own features.
    lagged : ndarray of shape (n, r), or None without hops
        ``T_u = Σ_{k=0…h−1} (Â^k B)_u``: what the fitted nodes pass on.
    normaliser : ndarray of shape (n,), or None without hops
        ``s_u = 1/√(d_u + 1)`` of the fitted nodes, degrees in the unit of a mean link.
    alone : ndarray of shape (K, r + 1), or None
        The same for nodes without links, where features are averaged.
    of : {"features", "links"}
        What is learnt from.
    label_models : ndarray of shape (K, K), or None
        Class models of the paper's loss; None where costs are −log p(class | features).
    """

    reduction: Reduction
    coefficients: Array
    hops: int
    alpha: float
    lagged: Rows | None = None
    normaliser: Rows | None = None
    alone: Array | None = None
    of: str = "features"
    label_models: Array | None = None

    @classmethod
    def of_term(cls, term: Softmax, theta: Array, calibrated: bool) -> FittedSoftmax:
        """Take what is needed from a bound term and its class models."""
        smoothing = term.smoothing
        width = term.Z.shape[1] + 1
        if calibrated:
            coefficients, alone = theta[:, :width].copy(), theta[:, width : 2 * width].copy()
        else:
            coefficients = term.first_sharpness * term.first
            alone = term.damping * coefficients
        hops = int(term.hops) if smoothing.graph is not None else 0
        return cls(
            smoothing.reduction,
            coefficients,
            hops,
            smoothing.alpha,
            smoothing.lagged(hops) if hops else None,
            smoothing.normaliser if hops else None,
            alone if term.averages else None,
            term.of,
            None if calibrated else theta,
        )

    @classmethod
    def of_parts(
        cls,
        settings: Mapping[str, Any],
        arrays: Mapping[str, NDArray[Any]],
        label_models: Array | None,
    ) -> FittedSoftmax:
        """Return what :meth:`to_parts` has taken apart."""
        parts = dict(arrays)
        own: dict[str, Any] = {name: parts.pop(name, None) for name in _ARRAYS}
        if settings["hops"] and (own["lagged"] is None or own["normaliser"] is None):
            raise ValueError("averaged features and degrees do not fit together")
        if ("shift" in parts) != ("scale" in parts):
            raise ValueError("shift and scale of features do not fit together")
        of = settings.get("of") or "features"
        return cls(
            Reduction.of_parts(parts),
            hops=settings["hops"],
            alpha=settings["alpha"],
            of=of,
            label_models=label_models,
            **own,
        )

    def to_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the settings and arrays to save; class models are saved anyway."""
        arrays = dict(self.reduction.parts)
        own = {name: getattr(self, name) for name in _ARRAYS}
        arrays |= {name: array for name, array in own.items() if array is not None}
        return {name: getattr(self, name) for name in ("hops", "alpha", "of")}, arrays

    def reordered(self, position: NDArray[np.int64]) -> FittedSoftmax:
        """Return the same for reordered fitted nodes; `position` is where each was before."""
        lagged, normaliser = self.lagged, self.normaliser
        reduction = self.reduction
        if self.of == "links":
            reduction = reduction.reordered(position)
        return replace(
            self,
            reduction=reduction,
            lagged=None if lagged is None else lagged[position],
            normaliser=None if normaliser is None else normaliser[position],
        )

    @property
    def needs_links(self) -> bool:
        """Whether features are averaged, and nothing is known of nodes without links."""
        return bool(self.hops) and self.alone is None

    def costs(self, new: NewNodes) -> Array:
        """Return what new nodes cost in each class, shape (n_new, K)."""
        Z = self.rows(new)
        slopes = self.coefficients[:, :-1].T.astype(np.float32)
        scores = (Z @ slopes).astype(np.float64) + self.coefficients[:, -1]
        if self.alone is not None:
            apart = new.degrees == 0
            scores[apart] = Z[apart] @ self.alone[:, :-1].T + self.alone[:, -1]
        if self.label_models is None:
            return -np.asarray(log_softmax(scores, axis=1))
        return -np.asarray(softmax(scores, axis=1) @ self.label_models.T)

    def rows(self, new: NewNodes) -> Rows:
        """Return the reduced and averaged features of new nodes, shape (n_new, r)."""
        # Where links are the words, new nodes are words that were never heard.
        base = self.reduction.apply(new.links if self.of == "links" else new.X)
        if self.hops == 0:
            return self.reduction.finish(base)
        share = np.float32((1.0 - self.alpha) / self.hops)
        return self.reduction.finish(np.float32(self.alpha) * base + share * self.sums(base, new))

    def sums(self, base: Rows, new: NewNodes) -> Rows:
        """Return ``S_v = Σ_{k=1…h} (Â^k B)_v`` as if v had joined the graph, shape (n_new, r).

        With ``s'_u`` counting the new link, v receives what its neighbours now pass on, and
        passes on its own features and what it has received, less the last hop:

            S_v = s_v² T_v + s_v Σ_u a_vu s'_u T'_u,    T_v = b_v + ρ S_v,    ρ = 1 − 1/h.

        New neighbours pass on their own T in the same way, round by round. A fitted neighbour u
        has more neighbours than before and hears v; what *its* other neighbours, fitted or new,
        tell it is left as it was:

            T'_u = T_u + g_u [(s'_u − s_u)(s'_u + 1/s_u) T_u + a_vu s'_u s_v T_v],
            g_u = ρ / (1 − ρ s'_u²).

        Sums that lack their first or last term are taken as ρ of the whole. That is exact for
        one hop and for a node without links.
        """
        assert self.lagged is not None
        assert self.normaliser is not None
        rho = 1.0 - 1.0 / self.hops
        links = new.links
        own = 1.0 / np.sqrt(1.0 + new.degrees)
        weight, before = links.data, self.normaliser[links.indices].astype(np.float64)
        after = 1.0 / np.sqrt(before**-2 + weight)
        heard = rho / (1.0 - rho * after**2)
        passed_on = weight * after * (1.0 + heard * (after - before) * (after + 1.0 / before))

        def with_weights(data: NDArray[Any]) -> sp.csr_array:
            return sp.csr_array((data, links.indices, links.indptr), shape=links.shape)

        # In float32, so that no copy of all that the fitted nodes pass on is made.
        received = with_weights(passed_on.astype(np.float32)) @ self.lagged
        echo = np.asarray(with_weights(heard * (weight * after) ** 2).sum(axis=1))
        kappa = own**2 * (1.0 + echo)
        over = 1.0 / (1.0 - rho * kappa)
        from_others = (over * own).astype(np.float32)[:, None]
        from_itself = (over * kappa).astype(np.float32)[:, None]
        alone = np.asarray(from_others * received + from_itself * base)
        if new.among.nnz == 0:
            return alone
        among = sp.diags_array(over * own) @ new.among @ sp.diags_array(own)
        among = among.astype(np.float32)
        found = alone
        for _ in range(_ROUNDS * self.hops):
            before, found = found, alone + among @ (base + np.float32(rho) * found)
            if np.abs(found - before).max() <= _SETTLED * np.abs(found).max():
                break
        return np.asarray(found)
