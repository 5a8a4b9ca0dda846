"""Features with one mean per class, and a spread about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, solve_triangular
from scipy.sparse import csr_array

from nodeproof.errors import InputError
from nodeproof.runtime import threads
from nodeproof.runtime.caching import cached_property
from nodeproof.sets import Box
from nodeproof.storage.schema import Check, number, one_of
from nodeproof.terms.base import Array, NodeData
from nodeproof.terms.class_loss import DistanceLoss
from nodeproof.terms.covariance import MOST_FEATURES, check_positive_definite
from nodeproof.terms.registry import register
from nodeproof.terms.summable import SummableTerm

__all__ = ["Gaussian"]

#: no variance is believed to be smaller than this share of the pooled one
FLOOR = 1e-9

_MOST_ENTRIES = 2**22


@register
class Gaussian(SummableTerm):
    """Features that are normal in each class, about a mean of its own.

    Calibrated, the model of class i is ``(μ_i, Σ_i)``, the mean in its first row and the
    variances (or the covariance) in the others, and a node costs its −log-likelihood. The prior
    is the conjugate one: κ nodes that each class is taken to have had already, with the mean m
    and the covariance S of all nodes. So with N_i nodes in the class

        μ_i = (Σ_v W_vi x_v + κ m) / (N_i + κ),
        Σ_i = (Σ_v W_vi (x_v − μ_i)(x_v − μ_i)ᵀ + κ (S + (m − μ_i)(m − μ_i)ᵀ)) / (N_i + κ);

    a shared Σ is the mean of these, each with its N_i + κ. No Σ is believed to be below 1e-9
    of the variances in S, in any direction: columns that are constant or repeat do no harm.

    The paper's loss is the squared distance to the mean in units of the pooled variances d,
    ``f(x; μ, d) = ½ Σ_j (x_j − μ_j)²/d_j / m``, whatever the covariance; a class is (μ, d) with
    μ between the least and the largest value of each column, and d given.

    Parameters
    ----------
    covariance : {"diagonal", "shared", "full"}
        Variances per class; one covariance for all classes; or one covariance per class. The last
        two take at most 512 features.
    shrinkage : float
        Calibrated only: how many nodes' worth of the pooled features each class is mixed with
        (κ).

    Notes
    -----
    Sparse features are made dense for a range of nodes at a time.

    Examples
    --------
    >>> import numpy as np
    >>> from nodeproof.terms import Gaussian, NodeData
    >>> X = np.array([[0.0, 5.0], [2.0, 7.0], [10.0, 5.0], [12.0, 7.0]])
    >>> W = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    >>> term = Gaussian(shrinkage=0.0).bind(NodeData(n_classes=2, X=X))
    >>> term.estimate(W).round(6)  # mean and variances of each class
    array([[[ 1.,  6.],
            [ 1.,  1.]],
    <BLANKLINE>
           [[11.,  6.],
            [ 1.,  1.]]])
    """

    source: ClassVar[str] = "features"
    takes_sparse: ClassVar[bool] = True
    models_shape: ClassVar[str] = "K 2 m | K m+1 m"
    of_all: ClassVar[tuple[str, ...]] = ("center", "pooled", "scale")

    def __init__(
        self,
        covariance: Literal["diagonal", "shared", "full"] = "diagonal",
        shrinkage: float = 1.0,
    ) -> None:
        self.covariance, self.shrinkage = covariance, shrinkage

    def __repr__(self) -> str:
        return f"Gaussian(covariance={self.covariance!r}, shrinkage={self.shrinkage:g})"

    @classmethod
    def settings(cls) -> Mapping[str, Check]:
        """Return what makes it up, with what a saved file may say of it."""
        return {"covariance": one_of("diagonal", "shared", "full"), "shrinkage": number}

    X: NDArray[Any] | csr_array
    dim: int

    def bind(self, nodes: NodeData) -> Self:
        """Return a copy that holds the features."""
        if self.covariance not in ("diagonal", "shared", "full"):
            raise InputError(
                "the covariance of Gaussian must be 'diagonal', 'shared' or 'full', got "
                f"{self.covariance!r}"
            )
        if not 0 <= self.shrinkage < np.inf:
            raise InputError(f"Gaussian needs a finite shrinkage ≥ 0, got {self.shrinkage}")
        bound = self.copy_for(nodes)
        bound.X = nodes.X if isinstance(nodes.X, np.ndarray) else csr_array(nodes.X)
        bound.dim = m = bound.X.shape[1]
        if self.covariance != "diagonal" and m > MOST_FEATURES:
            raise InputError(
                f"a {self.covariance} covariance takes at most {MOST_FEATURES} features, because "
                f"it holds their squares; got {m}: take covariance='diagonal', or reduce them first"
            )
        return bound

    @cached_property
    def center(self) -> Array:
        """The mean of all nodes, shape (m,)."""

        def part(lo: int, hi: int) -> Array:
            return np.sum([x.sum(axis=0) for x, _ in self._read(lo, hi)], axis=0)

        return threads.sum_rows(part, self.n_nodes) / self.n_nodes

    @cached_property
    def pooled(self) -> Array:
        """The variances of all nodes, shape (m,), or their covariance, shape (m, m)."""
        return self._squares(np.ones((self.n_nodes, 1)))[0] / self.n_nodes

    @cached_property
    def scale(self) -> Array:
        """The unit of each column's variance, shape (m,): the pooled one, unless it is constant."""
        variance = self.pooled if self.covariance == "diagonal" else np.diag(self.pooled)
        # A mean is rounded: beside it, a variance like this is none.
        constant = variance <= 1e-26 * self.center**2
        return np.where(constant, 1.0 + self.center**2, variance)

    @cached_property
    def models_set(self) -> Box:  # type: ignore[override]
        """Means within the range of each column; the pooled variances."""

        def part(lo: int, hi: int) -> Array:
            ends = [(x.min(axis=0), x.max(axis=0)) for x, _ in self._read(lo, hi)]
            return np.array([np.min([e[0] for e in ends], 0), np.max([e[1] for e in ends], 0)])

        ends = np.stack(threads.map_rows(part, self.n_nodes))
        least, largest = ends[:, 0].min(axis=0), ends[:, 1].max(axis=0)
        return Box(np.stack([least, self.scale]), np.stack([largest, self.scale]))

    # The paper's loss. ------------------------------------------------------------------

    def loss(self, theta: Array, lo: int, hi: int) -> Array:
        """Return ``½ Σ_j (x_j − μ_j)²/d_j / m``."""
        off = self._rows(lo, hi) - theta[:, 0]
        return np.asarray(0.5 * (off * off / theta[:, 1]).sum(axis=1) / self.dim)

    def loss_gradient(self, theta: Array, lo: int, hi: int) -> Array:
        """Return ``−(x − μ)/d`` and ``−½ (x − μ)²/d²``, both by m."""
        scaled = (self._rows(lo, hi) - theta[:, 0]) / theta[:, 1]
        return np.stack([-scaled, -0.5 * scaled * scaled], axis=1) / self.dim

    def refit(self, W: NDArray[Any]) -> Array:
        """Return the class means, with the pooled variances."""
        sizes, shifts = self._sums(W)
        filled = sizes > 0
        shifts[filled] /= sizes[filled, None]
        scales = np.broadcast_to(self.scale, shifts.shape)
        return self.models_set.project(np.stack([self.center + shifts, scales], axis=1))

    def class_loss(self, W: NDArray[Any]) -> DistanceLoss:
        """Return ``½ Σ_j (Q_ij − 2 s_ij (μ_ij − m_j) + N_i (μ_ij − m_j)²)/d_ij / m``.

        N_i, s_i and Q_i are the sums over the class of 1, x − m and (x − m)², m the mean of all.
        """
        sizes, shifts = self._sums(W)
        squares = self._squares(W)
        if squares.ndim == 3:
            squares = np.diagonal(squares, axis1=1, axis2=2)
        return DistanceLoss(self.models_set, self.center, sizes, shifts, squares)

    def vertex_costs(self, models: Array, lo: int, hi: int) -> Array:
        """Return ``f(x_v; θ_i)`` for the nodes lo…hi and each class, shape (hi − lo, K)."""
        return 0.5 * self._distances(models[:, 0], 1.0 / models[:, 1], lo, hi) / self.dim

    # The likelihood. --------------------------------------------------------------------

    @property
    def summable(self) -> bool:
        """Whether sums over the nodes suffice; a shared covariance takes two passes."""
        return self.covariance != "shared"

    def sums(self, W: NDArray[Any], lo: int, hi: int) -> Array:
        """Return ``Σ_v W_vi`` of 1, x − m, and its squares or products, one row per class."""
        moments = self._part_squares(W, lo, hi).reshape(W.shape[1], -1)
        return np.concatenate([self._part_sums(W, lo, hi), moments], axis=1)

    def estimate_from(self, sums: Array) -> Array:
        """Return means and covariances, shrunk to those of all nodes and kept off singularity."""
        squares = sums[:, 1 + self.dim :]
        if self.covariance == "full":
            squares = squares.reshape(len(sums), self.dim, self.dim)
        return self._estimate(sums[:, 0], sums[:, 1 : 1 + self.dim].copy(), squares)

    def estimate(self, W: NDArray[Any]) -> Array:
        """Return means and covariances, shrunk to those of all nodes and kept off singularity."""
        if self.summable:
            return super().estimate(W)
        together = self._squares(W.sum(axis=1, keepdims=True, dtype=np.float64))
        return self._estimate(*self._sums(W), together)

    def _estimate(self, sizes: Array, shifts: Array, squares: Array) -> Array:
        totals = sizes + self._kappa
        shifts /= totals[:, None]
        means = (self.center + shifts)[:, None, :]
        if self.covariance == "diagonal":
            believed = squares + self._kappa * self.pooled
            variances = believed / totals[:, None] - shifts**2
            return np.concatenate([means, self._raise(variances)[:, None, :]], axis=1)
        between = shifts[:, :, None] * shifts[:, None, :]
        if self.covariance == "full":
            believed = squares + self._kappa * self.pooled
            spreads = self._raise(believed / totals[:, None, None] - between)
        else:
            believed = squares + self.n_classes * self._kappa * self.pooled
            believed -= np.tensordot(totals, between, axes=1)
            shared = self._raise(believed / totals.sum())
            spreads = np.broadcast_to(shared, (self.n_classes, *shared.shape[1:]))
        return np.concatenate([means, spreads], axis=1)

    def cost(self, models: Array, lo: int, hi: int) -> Array:
        """Return the Gaussian −log-likelihood of the nodes in each class."""
        means, constant = models[:, 0], 0.5 * self.dim * np.log(2.0 * np.pi)
        if self.covariance == "diagonal":
            variances = models[:, 1]
            half_log_det = 0.5 * np.log(variances).sum(axis=1)
            forms = self._distances(means, 1.0 / variances, lo, hi)
            return np.asarray(0.5 * forms + half_log_det + constant)
        spreads = models[:1, 1:] if self.covariance == "shared" else models[:, 1:]
        factors = np.asarray(np.linalg.cholesky(spreads), dtype=np.float64)
        half_log_det = np.log(np.diagonal(factors, axis1=1, axis2=2)).sum(axis=1)
        return np.asarray(0.5 * self._forms(means, factors, lo, hi) + half_log_det + constant)

    def penalty(self, models: Array) -> float:
        """Return ``κ/2 Σ_i (log det Σ_i + tr Σ_i⁻¹ (S + (μ_i − m)(μ_i − m)ᵀ))``."""
        shifts = models[:, 0] - self.center
        if self.covariance == "diagonal":
            terms = np.log(models[:, 1]) + (self.pooled + shifts**2) / models[:, 1]
            return 0.5 * self._kappa * float(terms.sum())
        # By factors, which do not mind columns of very different units.
        factors = np.linalg.cholesky(models[:, 1:])
        half_log_dets = np.log(np.diagonal(factors, axis1=1, axis2=2)).sum()
        scatter = self.pooled + shifts[:, :, None] * shifts[:, None, :]
        solved = (cho_solve((f, True), s) for f, s in zip(factors, scatter, strict=True))
        traces = sum(float(np.trace(part)) for part in solved)
        return self._kappa * float(half_log_dets + 0.5 * traces)

    @property
    def prior_nodes(self) -> float:
        """How many nodes the pooled features count as."""
        return float(self.shrinkage)

    def n_parameters(self, models: Array) -> float:
        """Return how many numbers describe one class; a shared covariance counts for none."""
        m = self.dim
        return m + {"diagonal": m, "shared": 0, "full": m * (m + 1) / 2}[self.covariance]

    def separate(self) -> Gaussian:
        """Return the same with one covariance per class where one is shared."""
        return Gaussian("full", self.shrinkage) if self.covariance == "shared" else self

    def check_models(self, models: Array) -> None:
        """Refuse variances that are not positive, and covariances that are not definite."""
        spreads = models[:, 1:]
        if spreads.shape[1] == spreads.shape[2]:
            check_positive_definite(spreads)
        elif not (spreads > 0).all():
            raise ValueError("the covariances of a class are not positive definite")

    @property
    def _kappa(self) -> float:
        return max(self.shrinkage, 1e-12)

    def _raise(self, spreads: Array) -> Array:
        """Return the likeliest of the variances or covariances that are nowhere below the floor."""
        if self.covariance == "diagonal":
            return np.maximum(spreads, FLOOR * self.scale)
        unit = np.sqrt(np.outer(self.scale, self.scale))
        return np.stack([_raise_eigenvalues(spread / unit) * unit for spread in spreads])

    def _distances(self, means: Array, precisions: Array, lo: int, hi: int) -> Array:
        """Return ``Σ_j (x_j − μ_j)² p_j``, shape (hi − lo, K)."""
        origin = means.mean(axis=0)
        return np.concatenate(
            [_distances(x - origin, means - origin, precisions) for x, _ in self._read(lo, hi)]
        )

    def _forms(self, means: Array, factors: Array, lo: int, hi: int) -> Array:
        """Return ``(x − μ)ᵀ Σ⁻¹ (x − μ)`` for ``Σ = L Lᵀ``, shape (hi − lo, K)."""
        forms = np.empty((hi - lo, len(means)))
        origin = means.mean(axis=0)
        for x, rows in self._read(lo, hi):
            out = forms[rows]
            if self.covariance == "shared":
                white = _whiten(factors[0], x - origin)
                white_means = _whiten(factors[0], means - origin)
                out[:] = _distances(white, white_means, np.ones_like(means))
                continue
            for i, factor in enumerate(factors):
                white = _whiten(factor, x - means[i])
                out[:, i] = np.einsum("vj,vj->v", white, white)
        return forms

    # Sums over the nodes, about the mean of them all. -----------------------------------

    def _sums(self, W: NDArray[Any]) -> tuple[Array, Array]:
        """Return ``Σ_v W_vi`` and ``Σ_v W_vi (x_v − m)``, shapes (K,) and (K, m)."""
        totals = threads.sum_rows(lambda lo, hi: self._part_sums(W[lo:hi], lo, hi), self.n_nodes)
        return totals[:, 0], totals[:, 1:]

    def _part_sums(self, W: NDArray[Any], lo: int, hi: int) -> Array:
        total = np.zeros((W.shape[1], 1 + self.dim))
        for x, rows in self._read(lo, hi):
            weights = W[rows].astype(np.float64)
            total[:, 0] += weights.sum(axis=0)
            total[:, 1:] += weights.T @ (x - self.center)
        return total

    def _squares(self, W: NDArray[Any]) -> Array:
        """Return ``Σ_v W_vi (x_v − m)²``, shape (K, m), or the same of the products, (K, m, m)."""
        return threads.sum_rows(lambda lo, hi: self._part_squares(W[lo:hi], lo, hi), self.n_nodes)

    def _part_squares(self, W: NDArray[Any], lo: int, hi: int) -> Array:
        diagonal = self.covariance == "diagonal"
        total = np.zeros((W.shape[1], *[self.dim] * (1 if diagonal else 2)))
        for x, rows in self._read(lo, hi):
            weights, off = W[rows].astype(np.float64), x - self.center
            if diagonal:
                total += weights.T @ (off * off)
                continue
            for i, root in enumerate(np.sqrt(weights).T):
                weighted = off * root[:, None]
                total[i] += weighted.T @ weighted
        return total

    def _rows(self, lo: int, hi: int) -> Array:
        rows = self.X[lo:hi]
        dense = rows if isinstance(rows, np.ndarray) else rows.toarray()
        return np.asarray(dense.astype(np.float64, copy=False))

    def _read(self, lo: int, hi: int) -> Iterator[tuple[Array, slice]]:
        """Yield the features of lo…hi in stretches of some tens of megabytes, and where in it."""
        step = max(1, _MOST_ENTRIES // self.dim)
        for a in range(lo, hi, step):
            b = min(a + step, hi)
            yield self._rows(a, b), slice(a - lo, b - lo)


def _distances(x: Array, means: Array, precisions: Array) -> Array:
    """Return ``Σ_j (x_j − μ_j)² p_j``, shape (rows, K): products with all classes at once."""
    scaled = means * precisions
    return np.asarray(
        (x * x) @ precisions.T - 2.0 * (x @ scaled.T) + np.einsum("ij,ij->i", means, scaled)
    )


def _whiten(factor: Array, x: Array) -> Array:
    """Return ``L⁻¹ x_v`` for each row."""
    return np.asarray(solve_triangular(factor, x.T, lower=True, check_finite=False).T)


def _raise_eigenvalues(matrix: Array) -> Array:
    """Return the matrix with its eigenvalues no less than FLOOR."""
    try:
        np.linalg.cholesky(matrix - FLOOR * np.eye(len(matrix)))
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(matrix)
        return np.asarray((vectors * np.maximum(values, FLOOR)) @ vectors.T)
    return matrix
