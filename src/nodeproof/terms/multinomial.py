"""Words, or other counts: in each class, a distribution over them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from nodeproof.errors import InputError
from nodeproof.runtime import threads
from nodeproof.runtime.caching import cached_property
from nodeproof.sets import Simplex
from nodeproof.storage.schema import Check, number
from nodeproof.terms.base import Array, NodeData, Term
from nodeproof.terms.class_loss import ClassLoss
from nodeproof.terms.registry import register

__all__ = ["EVEN_SHARE", "Multinomial", "WordLoss", "fit_above"]

#: share of the words that the paper's loss spreads evenly over all of them, in every class
EVEN_SHARE = 0.01


@register
class Multinomial(Term):
    """Counts of words; the model of class i is ``θ_i``, how often each word is used there.

    Any features that are not negative will do; sparse ones stay sparse. Calibrated, a node costs
    ``−Σ_j x_j log θ_ij``: its −log-likelihood but for the multinomial coefficient, which is the
    same in every class, so that costs compare between classes. A node without words costs 0.
    Each class is taken to have had some words already (a Dirichlet prior), as frequent as among
    all nodes.

    The paper's loss is the same for the shares of the words in a node,
    ``f(x; θ) = −Σ_j (x_j / Σx) log θ_j``, over the simplex with a floor of 0.01/m, which keeps
    its gradient finite.

    Parameters
    ----------
    smoothing : float
        Calibrated only: how many nodes' worth of words each class is taken to have had already,
        positive. Their frequencies are those among all nodes, each word counted once more than
        it occurs.
    trust : float
        Calibrated only: what a word is worth, positive. Below 1, words that come in bouts (who
        writes a word once writes it again) are not counted as so many independent witnesses.
        The models do not depend on it.

    Examples
    --------
    >>> import numpy as np
    >>> from nodeproof.terms import Multinomial, NodeData
    >>> X = np.array([[3.0, 1.0], [2.0, 2.0], [0.0, 4.0], [0.0, 0.0]])
    >>> W = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    >>> term = Multinomial(smoothing=1.0).bind(NodeData(n_classes=2, X=X))
    >>> theta = term.estimate(W)
    >>> theta.round(3)
    array([[0.571, 0.429],
           [0.184, 0.816]])
    >>> term.cost(theta, 2, 4).round(2)  # the last node has no words
    array([[3.39, 0.81],
           [0.  , 0.  ]])
    """

    source: ClassVar[str] = "features"
    takes_sparse: ClassVar[bool] = True
    models_shape: ClassVar[str] = "K m"

    def __init__(self, smoothing: float = 1.0, trust: float = 1.0) -> None:
        self.smoothing, self.trust = smoothing, trust

    def __repr__(self) -> str:
        return f"Multinomial(smoothing={self.smoothing:g}, trust={self.trust:g})"

    @classmethod
    def settings(cls) -> Mapping[str, Check]:
        """Return what makes it up, with what a saved file may say of it."""
        return {"smoothing": number, "trust": number}

    models_set: Simplex
    X: NDArray[Any] | csr_array
    #: words in each node, shape (n,)
    lengths: Array

    def bind(self, nodes: NodeData) -> Self:
        """Return a copy that holds the counts."""
        if not (0 < self.smoothing < np.inf and 0 < self.trust < np.inf):
            raise InputError(
                "Multinomial needs a positive smoothing and a positive trust, got "
                f"{self.smoothing} and {self.trust}"
            )
        bound = self.copy_for(nodes)
        X = nodes.X if isinstance(nodes.X, np.ndarray) else csr_array(nodes.X)
        _check_counts(X)
        m = X.shape[1]
        bound.X = X
        bound.lengths = np.asarray(X.sum(axis=1, dtype=np.float64))
        bound.models_set = Simplex(m, floor=EVEN_SHARE / m)
        return bound

    # The paper's loss. ------------------------------------------------------------------

    def loss(self, theta: Array, lo: int, hi: int) -> Array:
        """Return ``−Σ_j (x_j / Σx) log θ_j``, 0 at nodes without words."""
        x, log = self._rows(lo, hi), np.log(theta)
        if len(theta) == 1:
            sums = x @ log[0]
        elif isinstance(x, np.ndarray):
            sums = np.einsum("vj,vj->v", x, log)
        else:
            sums = x.multiply(log).sum(axis=1)
        return -np.asarray(sums) * self._shares[lo:hi]

    def loss_gradient(self, theta: Array, lo: int, hi: int) -> Array:
        """Return ``−x_j / (Σx θ_j)``, 0 at nodes without words."""
        x = self._rows(lo, hi)
        dense = x if isinstance(x, np.ndarray) else x.toarray()
        return np.asarray(-dense * self._shares[lo:hi, None] / theta)

    def refit(self, W: NDArray[Any]) -> Array:
        """Return the mean shares of the words in each class, raised to the floor."""
        shares = self._counts(W * self._shares[:, None])
        empty = shares.sum(axis=1) == 0
        if empty.any():
            shares[empty] = self._frequencies
        return fit_above(shares, self.models_set.floor)

    def class_loss(self, W: NDArray[Any]) -> WordLoss:
        """Return ``−Σ_j c_ij log θ_ij``, c_ij the shares of word j in the class, summed."""
        return WordLoss(self.models_set, self._counts(W * self._shares[:, None]))

    def vertex_costs(self, models: Array, lo: int, hi: int) -> Array:
        """Return ``f(x_v; θ_i)`` for the nodes lo…hi and each class, shape (hi − lo, K)."""
        return self._weigh(-np.log(models), lo, hi) * self._shares[lo:hi, None]

    # The likelihood. --------------------------------------------------------------------

    def estimate(self, W: NDArray[Any]) -> Array:
        """Return the frequencies of the words in each class, believed ones included."""
        counts = self._counts(W) + self._believed
        return np.asarray(counts / counts.sum(axis=1, keepdims=True))

    def cost(self, models: Array, lo: int, hi: int) -> Array:
        """Return ``−Σ_j x_vj log θ_ij`` for the nodes lo…hi, times the trust in them."""
        return self._weigh(-self.trust * np.log(models), lo, hi)

    def penalty(self, models: Array) -> float:
        """Return the −log of the Dirichlet prior that stands for the words believed."""
        return -self.trust * float((self._believed * np.log(models)).sum())

    def _log_sharpening(self, models: Array, empty: Array, sizes: Array) -> Array:
        # A word is as well known as it is frequent, in units of how often it was believed to be.
        seen = 1.0 + sizes / self.smoothing
        return np.asarray(np.log(seen[:, None] * models / empty).sum(axis=1))

    @cached_property
    def _frequencies(self) -> Array:
        """How often each word is used among all nodes, one more of each, shape (m,)."""
        counts = 1.0 + self._counts(np.ones((self.n_nodes, 1)))[0]
        return np.asarray(counts / counts.sum())

    @cached_property
    def _believed(self) -> Array:
        """The words that each class is taken to have had already, shape (m,)."""
        length = self.lengths.mean() or 1.0
        return self.smoothing * length * self._frequencies

    @cached_property
    def _shares(self) -> Array:
        """What one word is of a node's words, shape (n,); 0 where it has none."""
        return np.divide(1.0, self.lengths, out=np.zeros_like(self.lengths), where=self.lengths > 0)

    def _weigh(self, weights: Array, lo: int, hi: int) -> Array:
        """Return ``Σ_j x_vj w_ij``, shape (hi − lo, K)."""
        return np.asarray(self._rows(lo, hi) @ weights.T)

    def _counts(self, W: NDArray[Any]) -> Array:
        """Return ``Σ_v W_vi x_vj``, shape (K, m)."""

        def part(lo: int, hi: int) -> Array:
            return np.asarray(self._rows(lo, hi).T @ W[lo:hi].astype(np.float64)).T

        return np.ascontiguousarray(threads.sum_rows(part, self.n_nodes))

    def _rows(self, lo: int, hi: int) -> Any:
        return self.X[lo:hi].astype(np.float64, copy=False)


class WordLoss(ClassLoss):
    """Losses ``−Σ_j c_ij log θ_ij``.

    Parameters
    ----------
    models_set : Simplex
        Where the models live, away from 0.
    counts : ndarray of shape (K, m)
        c_ij ≥ 0.
    """

    models_set: Simplex

    def __init__(self, models_set: Simplex, counts: Array) -> None:
        super().__init__(models_set)
        self.counts = counts

    def value(self, models: Array) -> Array:
        """Return ``−Σ_j c_ij log θ_ij``."""
        return -np.asarray((self.counts * np.log(models)).sum(axis=1))

    def gradient(self, models: Array) -> Array:
        """Return ``−c_ij / θ_ij``."""
        return np.asarray(-self.counts / models)

    def prox(
        self, points: Array, rho: float, start: Array, tol: float = 1e-12, max_iter: int = 500
    ) -> Array:
        """Return ``max(floor, root of θ − c/(ρθ) = point − τ)``, τ such that it sums to one."""
        weights, floor = self.counts / rho, self.models_set.floor

        def at(tau: Array) -> Array:
            off = points - tau
            root = np.hypot(off, 2.0 * np.sqrt(weights))
            # The sum of two of unlike sign would lose digits.
            near = 2.0 * weights / np.maximum(root - off, np.finfo(float).tiny)
            return np.maximum(floor, np.where(off > 0, 0.5 * (off + root), near))

        top = points.max(axis=1, keepdims=True)
        low, high = top - 1.0, top + weights.sum(axis=1, keepdims=True) / floor
        for _ in range(200):
            tau = 0.5 * (low + high)
            over = at(tau).sum(axis=1, keepdims=True) > 1.0
            low, high = np.where(over, tau, low), np.where(over, high, tau)
            if (high - low <= 1e-15 * (1.0 + np.abs(high))).all():
                break
        return self.models_set.project(at(0.5 * (low + high)))


def _check_counts(X: NDArray[Any] | csr_array) -> None:
    """Raise an error that names the first negative entry."""
    entries = X if isinstance(X, np.ndarray) else X.data
    if entries.size == 0 or entries.min() >= 0:
        return
    node, column = np.argwhere(X < 0)[0] if isinstance(X, np.ndarray) else _first_below_zero(X)
    raise InputError(
        f"Multinomial needs counts, which are not negative; node {node} has {X[node, column]:g} in "
        f"column {column}"
    )


def _first_below_zero(X: csr_array) -> tuple[int, int]:
    at = int(np.flatnonzero(X.data < 0)[0])
    return int(np.searchsorted(X.indptr, at, side="right")) - 1, int(X.indices[at])


def fit_above(counts: Array, floor: float) -> Array:
    """Minimise ``−Σ_j c_j log θ_j`` over θ ≥ floor, Σθ = 1, for each row of counts.

    The optimum is ``θ_j = max(floor, c_j / τ)``. With the k largest above the floor, τ is their
    sum over what the others leave; the largest k that is true to itself is right.
    """
    m = counts.shape[1]
    down = -np.sort(-counts, axis=1)
    left = 1.0 - floor * np.arange(m - 1, -1, -1)
    tau = np.cumsum(down, axis=1) / left
    above = np.sum(down > floor * tau, axis=1, keepdims=True)
    return np.maximum(floor, counts / np.take_along_axis(tau, above - 1, axis=1))
