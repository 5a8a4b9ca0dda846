"""Active learning: the nodes whose labels would tell most about all nodes."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from nodeproof.errors import InputError
from nodeproof.fitted import Fitted
from nodeproof.runtime import threads
from nodeproof.smoothing import Smoothing
from nodeproof.solvers.base import check_count

__all__ = [
    "Queries",
    "check_candidates",
    "most_informative",
    "most_uncertain",
    "query_nodes",
    "smoothing_of",
]

Array = NDArray[np.float64]

# At most this many candidates, the least certain ones, are compared.
_MOST_CANDIDATES = 5000

# Hops that features are averaged over to tell which nodes are alike.
_HOPS = 16


class Queries:
    """Mixin that asks for labels: `NodeClassifier.query`."""

    fitted_: Fitted

    def query(
        self,
        k: int,
        *,
        strategy: Literal["informative", "uncertainty"] = "informative",
        candidates: Any = None,
    ) -> NDArray[np.int64]:
        """Return the nodes to label next, the most informative first.

        Parameters
        ----------
        k : int
            How many; all candidates if there are fewer.
        strategy : {"informative", "uncertainty"}
            By what a label would tell about all nodes, without redundancy; or by the node's own
            uncertainty.
        candidates : array of int, optional
            Positions of nodes that can be labelled; by default all unlabelled ones.
        """
        check_is_fitted(self)
        return query_nodes(self.fitted_, k, strategy, candidates)[0]


def query_nodes(
    fitted: Fitted,
    k: int,
    strategy: str = "informative",
    candidates: Any = None,
    smoothing: Smoothing | None = None,
) -> tuple[NDArray[np.int64], Array]:
    """Return the nodes to label next, best first, and the gain of each.

    Parameters
    ----------
    k, strategy, candidates
        As in :meth:`nodeproof.NodeClassifier.query`.
    smoothing : Smoothing, optional
        That of :func:`smoothing_of` for a fit to the same links and features: what it has
        computed once is kept.

    Returns
    -------
    nodes : ndarray of shape (k,)
        Positions.
    gains : ndarray of shape (k,)
        Those of :func:`most_informative`, or entropies.
    """
    check_count("k", k)
    if strategy not in ("informative", "uncertainty"):
        raise InputError(f"strategy must be 'informative' or 'uncertainty', got {strategy!r}")
    asked = check_candidates(candidates, fitted.n_nodes, fitted.labelled)
    if strategy == "uncertainty":
        return most_uncertain(fitted.proba, k, asked)
    if fitted.data is None:
        raise InputError(
            "a loaded model has neither a graph nor features to query by: use "
            "strategy='uncertainty', or fit again"
        )
    fitted.check_untouched()
    smoothing = smoothing or smoothing_of(fitted)
    if smoothing is None:
        return most_uncertain(fitted.proba, k, asked)
    with threads.using(fitted.settings.n_jobs):
        features = smoothing.over(_HOPS)
        return most_informative(fitted.proba, features, fitted.labelled, k, asked)


def smoothing_of(fitted: Fitted) -> Smoothing | None:
    """Return what tells which nodes of a fit are alike; None without its data, or links."""
    if fitted.data is None:
        return None
    nodes = fitted.data.nodes
    if nodes.smoothing is not None:
        return nodes.smoothing
    if nodes.X is not None:  # after an update, or loaded
        return Smoothing(nodes.X, nodes.graph)
    return None if nodes.graph is None else Smoothing.of_links(nodes.graph)


def check_candidates(
    candidates: Any, n_nodes: int, labelled: NDArray[np.int64], what: str = "candidates"
) -> NDArray[np.int64]:
    """Return the positions of candidates: distinct, and without a label."""
    known = np.zeros(n_nodes, dtype=bool)
    known[labelled] = True
    if candidates is None:
        return np.flatnonzero(~known)
    nodes = np.asarray(candidates)
    if nodes.dtype == bool and nodes.shape == (n_nodes,):
        nodes = np.flatnonzero(nodes)
    if nodes.ndim != 1 or (len(nodes) and nodes.dtype.kind not in "iu"):
        raise InputError(f"{what} must be positions of nodes (integers) or a mask")
    outside = nodes[(nodes < 0) | (nodes >= n_nodes)]
    if len(outside):
        raise InputError(f"{what} contain node {outside[0]}, but there are {n_nodes} nodes")
    nodes = np.unique(nodes).astype(np.int64)
    return np.asarray(nodes[~known[nodes]])


def most_uncertain(
    proba: NDArray[Any], k: int, candidates: NDArray[np.int64]
) -> tuple[NDArray[np.int64], Array]:
    """Return the k candidates of largest entropy, and it; ties go to the lower position."""
    p = proba[candidates].astype(np.float64)
    entropy = -(p * np.log(np.maximum(p, 1e-300))).sum(axis=1)
    order = np.argsort(-entropy, kind="stable")[:k]
    return candidates[order], np.asarray(entropy[order])


def most_informative(
    proba: NDArray[Any],
    features: NDArray[Any],
    labelled: NDArray[np.int64],
    k: int,
    candidates: NDArray[np.int64],
    ridge: float = 1.0,
) -> tuple[NDArray[np.int64], Array]:
    """Return the k candidates whose labels would reduce the uncertainty of all nodes most.

    A linear model of the features has the variance ``z_uᵀ(ρI + Z_LᵀZ_L)⁻¹z_u`` at node u. Greedily,
    the candidate is chosen that reduces most the sum of the variances, each node weighted by how
    uncertain its class is (1 − Σ p²). A chosen node counts as labelled, so the next one is
    elsewhere.

    Parameters
    ----------
    proba : ndarray of shape (n, K)
        Class probabilities.
    features : ndarray of shape (n, d)
        Features, averaged over links.
    labelled : ndarray of shape (l,)
        Nodes whose label is known.
    k : int
        How many to choose.
    candidates : ndarray of shape (c,)
        Nodes to choose from.
    ridge : float
        ρ, for features of length one on average.

    Returns
    -------
    nodes : ndarray of shape (k,)
        Best first.
    gains : ndarray of shape (k,)
        Relative reduction of the weighted sum of variances by each.
    """
    doubt = 1.0 - (proba.astype(np.float64) ** 2).sum(axis=1)
    if len(candidates) > _MOST_CANDIDATES:
        order = np.argsort(-doubt[candidates], kind="stable")[:_MOST_CANDIDATES]
        candidates = candidates[order]
    Z = np.asarray(features, dtype=np.float64)
    Z = Z / max(np.sqrt(np.einsum("vj,vj->", Z, Z) / len(Z)), 1e-12)
    weights = doubt.copy()
    weights[labelled] = 0.0
    spread = np.linalg.inv(ridge * np.eye(Z.shape[1]) + Z[labelled].T @ Z[labelled])
    wanted = (Z * weights[:, None]).T @ Z
    total = float(np.vdot(wanted, spread))
    # A label that is nearly certain already tells nothing, however central its node.
    news = doubt[candidates] / max(float(doubt.mean()), 1e-12)
    near = Z[candidates]
    left = np.ones(len(candidates), dtype=bool)
    chosen, gains = [], []
    # Of every candidate z: Sz, zᵀSz and zᵀSMSz, with S = `spread` and M = `wanted`. A choice
    # changes S by a matrix of rank one, and so each of these by a product with a vector.
    along = near @ spread
    variance = np.einsum("vj,vj->v", along, near)
    reduced = np.einsum("vj,vj->v", along @ wanted, along)
    for _ in range(min(k, len(candidates))):
        gain = news * reduced / (1.0 + news * variance)
        best = int(np.argmax(np.where(left, gain, -np.inf)))
        left[best] = False
        chosen.append(candidates[best])
        gains.append(gain[best] / total if total > 0 else 0.0)
        if news[best] > 0:
            step = along[best].copy()
            scale = 1.0 / news[best] + variance[best]
            share = near @ step / scale
            weighed = wanted @ step
            reduced += share * (share * float(step @ weighed) - 2.0 * (along @ weighed))
            np.maximum(reduced, 0.0, out=reduced)
            variance -= share**2 * scale
            along -= np.outer(share, step)
    return np.array(chosen, dtype=np.int64), np.array(gains)
