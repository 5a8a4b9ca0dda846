"""Features whose covariance tells the class: the paper's feature term."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve
from scipy.linalg.lapack import dtrtri

from nodeproof import kernels
from nodeproof.errors import InputError
from nodeproof.runtime import threads
from nodeproof.runtime.caching import cached_property
from nodeproof.sets import SpectralBox
from nodeproof.storage.schema import Check, flag, number, or_none
from nodeproof.terms.base import Array, NodeData
from nodeproof.terms.class_loss import MomentLoss
from nodeproof.terms.registry import register
from nodeproof.terms.summable import SummableTerm

__all__ = ["Covariance", "check_positive_definite", "repeated_share"]

#: beyond this, class covariances are neither affordable nor well determined
MOST_FEATURES = 512

# Ranges of nodes are cut so that their products, or their features, stay near the processor.
_MOST_PRODUCTS, _MOST_NUMBERS = 2**16, 2**15

# Of fewer nodes, numpy is as fast as compiled loops; and where so few fit, because there are many
# features, moments are taken class by class.
_FEW_NODES = 256

# Memberships in float32 are rounded by more than this.
_NOTHING = 1e-12

# This many rows, evenly spaced, show how often a value repeats; up to this share it may.
_SAMPLE, _BY_CHANCE = 2_000, 0.2


@register
class Covariance(SummableTerm):
    """Features with one covariance per class.

    The paper's loss is ``f(x; R) = (xᵀR⁻¹x + tr R)/m`` over the spectral box. Its optimum for
    a class with second moment C is the *square root* ``C^{1/2}``, not C. Calibrated, the
    models are the covariances themselves and a node costs its Gaussian −log-likelihood.

    Parameters
    ----------
    lo, hi : float, optional
        The spectral box. By default it is taken from the pooled features, which the paper
        leaves open: with λ the largest eigenvalue of their second moment,
        ``[0.01 √λ, √(Kλ)]``: no class that holds 1/K of the nodes can exceed the upper end.
    shrinkage : float
        Calibrated only: how many nodes' worth of the pooled second moment each class is mixed
        with (κ).
    intercept : bool
        Add a constant feature, so that each class has a mean as well: the Gaussian with mean μ
        and covariance Σ on x is the centred one on (x, 1).

    Examples
    --------
    >>> import numpy as np
    >>> from nodeproof.terms import Covariance, NodeData
    >>> X = np.array([[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    >>> W = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    >>> term = Covariance(lo=0.1, hi=9.0).bind(NodeData(n_classes=2, X=X))
    >>> term.refit(W)  # square roots, within the box
    array([[[2. , 0. ],
            [0. , 0.1]],
    <BLANKLINE>
           [[0.1, 0. ],
            [0. , 1. ]]])
    """

    source: ClassVar[str] = "features"
    models_shape: ClassVar[str] = "K m m | K m+1 m+1"
    of_all: ClassVar[tuple[str, ...]] = ("pooled", "ridge")

    def __init__(
        self,
        lo: float | None = None,
        hi: float | None = None,
        shrinkage: float = 1.0,
        intercept: bool = False,
    ) -> None:
        self.lo, self.hi = lo, hi
        self.shrinkage, self.intercept = shrinkage, intercept

    def __repr__(self) -> str:
        box = "" if self.lo is None and self.hi is None else f"lo={self.lo}, hi={self.hi}, "
        return f"Covariance({box}shrinkage={self.shrinkage:g}, intercept={self.intercept})"

    @classmethod
    def settings(cls) -> Mapping[str, Check]:
        """Return what makes it up, with what a saved file may say of it."""
        numbers = {"lo": or_none(number), "hi": or_none(number), "shrinkage": number}
        return {**numbers, "intercept": flag}

    X: NDArray[Any]
    dim: int
    #: row and column of each entry of a symmetric matrix's upper triangle
    upper: tuple[NDArray[np.int64], NDArray[np.int64]]

    def bind(self, nodes: NodeData) -> Self:
        """Return a copy that holds the features."""
        bound = self.copy_for(nodes)
        assert isinstance(nodes.X, np.ndarray)
        if self.lo is not None and self.lo <= 0:
            raise InputError(f"Covariance needs lo > 0, because it inverts R; got lo={self.lo}")
        m = nodes.X.shape[1]
        if m > MOST_FEATURES:
            raise InputError(
                f"Covariance takes at most {MOST_FEATURES} features, because a covariance holds "
                f"their squares; got {m}: reduce them first, for example with TruncatedSVD"
            )
        bound.X = nodes.X
        bound.dim = m + self.intercept
        bound.upper = np.triu_indices(bound.dim)
        return bound

    @cached_property
    def pooled(self) -> Array:
        """The second moment of all nodes, shape (m, m)."""
        return self._moments(np.ones((len(self.X), 1)))[0] / len(self.X)

    @cached_property
    def models_set(self) -> SpectralBox:  # type: ignore[override]
        """The spectral box."""
        top = float(np.linalg.eigvalsh(self.pooled + np.diag(self.ridge))[-1])
        lo = 0.01 * np.sqrt(top) if self.lo is None else self.lo
        hi = np.sqrt(self.n_classes * top) if self.hi is None else self.hi
        return SpectralBox(lo, hi, self.dim)

    def loss(self, theta: Array, lo: int, hi: int) -> Array:
        """Return ``(xᵀR⁻¹x + tr R)/m``."""
        x = self._rows(lo, hi)
        solved = np.linalg.solve(theta[0], x.T).T if len(theta) == 1 else self._solved(theta, x)
        trace = np.trace(theta, axis1=1, axis2=2)
        return np.asarray((np.einsum("vi,vi->v", x, solved) + trace) / self.dim)

    def loss_gradient(self, theta: Array, lo: int, hi: int) -> Array:
        """Return ``(I − R⁻¹x xᵀR⁻¹)/m``."""
        solved = self._solved(theta, self._rows(lo, hi))
        return np.asarray((np.eye(self.dim) - solved[:, :, None] * solved[:, None, :]) / self.dim)

    def value_and_gradient_W(self, W: NDArray[Any], models: Array) -> tuple[float, Array]:
        """Return both from one solution of ``R_v s = x_v`` per node."""

        def part(lo: int, hi: int) -> tuple[Array, Array]:
            x, solved, traces = self._mixed_solutions(W, models, lo, hi)
            losses = np.einsum("vi,vi->v", x, solved) + W[lo:hi] @ traces
            # sᵀR_i s for each class, without the products of all pairs of features.
            forms = np.einsum("kvi,vi->vk", solved @ models, solved)
            return losses / self.dim, (traces - forms) / self.dim

        losses, gradients = zip(*threads.map_rows(part, self.n_nodes), strict=True)
        return float(sum(map(np.sum, losses))), np.concatenate(gradients)

    def gradient_W(self, W: NDArray[Any], models: Array) -> Array:
        """Return ``(tr R_i − sᵀR_i s)/m``, ``s = R_v⁻¹x_v``, shape (n, K)."""
        return self.value_and_gradient_W(W, models)[1]

    def gradient_models(self, W: NDArray[Any], models: Array) -> Array:
        """Return ``Σ_v W_vi (I − s_v s_vᵀ)/m``, shape (K, m, m)."""

        def part(lo: int, hi: int) -> Array:
            solved = self._mixed_solutions(W, models, lo, hi)[1]
            weights = W[lo:hi].T.astype(np.float64)
            sizes = weights.sum(axis=1)[:, None, None]
            return sizes * np.eye(self.dim) - (weights[:, None] * solved.T) @ solved

        return threads.sum_rows(part, self.n_nodes) / self.dim

    def _mixed_solutions(
        self, W: NDArray[Any], models: Array, lo: int, hi: int
    ) -> tuple[Array, Array, Array]:
        """Return x_v, ``(Σ_i W_vi R_i)⁻¹ x_v`` of nodes lo…hi, and the traces of the R_i."""
        x = self._rows(lo, hi)
        mixed = np.tensordot(W[lo:hi].astype(np.float64, copy=False), models, 1)
        return x, self._solved(mixed, x), np.trace(models, axis1=1, axis2=2)

    @staticmethod
    def _solved(theta: Array, x: Array) -> Array:
        """Return ``R_v⁻¹ x_v`` for each node."""
        out = np.empty_like(x)
        kernels.solve_each(theta, x, out)
        return out

    def refit(self, W: NDArray[Any]) -> Array:
        """Return the square roots of the class moments, eigenvalues clipped to the box."""
        moments, sizes = self._moments(W), W.sum(axis=0, dtype=np.float64)
        filled = sizes > 0
        moments[filled] /= sizes[filled, None, None]
        moments[~filled] = self.pooled
        return self._root(moments)

    def class_loss(self, W: NDArray[Any]) -> MomentLoss:
        """Return ``(tr C_i R_i⁻¹ + N_i tr R_i)/m``, C_i the class moment, N_i its size."""
        sizes = W.sum(axis=0, dtype=np.float64)
        return MomentLoss(self.models_set, self._moments(W), sizes)

    def sums(self, W: NDArray[Any], lo: int, hi: int) -> Array:
        """Return ``Σ_v W_vi`` and the upper triangle of ``Σ_v W_vi x_v x_vᵀ``, rows per class."""
        total = np.zeros((W.shape[1], 1 + len(self.upper[0])))
        step = _MOST_PRODUCTS // len(self.upper[0])
        by_class = min(step, hi - lo) < _FEW_NODES
        for a, b in _stretches(lo, hi, _MOST_NUMBERS // self.dim if by_class else step):
            weights = W[a - lo : b - lo].T.astype(np.float64)
            if by_class:
                total[:, 0] += weights.sum(axis=1)
                total[:, 1:] += self._class_moments(weights, a, b)
            else:
                total += weights @ self._products(a, b).T
        return total

    def estimate_from(self, sums: Array) -> Array:
        """Return the covariances, shrunk to the pooled one and kept off singularity."""
        sizes = sums[:, 0, None, None]
        kappa = max(self.shrinkage, 1e-12)
        shrunk = (self._unfolded(sums[:, 1:]) + kappa * self.pooled) / (sizes + kappa)
        return np.asarray(shrunk + np.diag(self.ridge))

    def charged(self, sums: Array, models: Array) -> float:
        """Return ``½ Σ_i (⟨R_i⁻¹, C_i⟩ + N_i log det 2πR_i)``, C_i the moment of a class."""
        factors, shifts, offset = self._whitening(models)
        if self.intercept:  # the constant feature is the last
            factors = np.concatenate([factors, -shifts[:, :, None]], axis=2)
        forms = np.vdot(factors @ self._unfolded(sums[:, 1:]), factors)
        return float(0.5 * forms + sums[:, 0] @ offset)

    def following(self, nodes: NodeData, sums: Array) -> Self:
        """Return this term for other nodes, the moment of all of them by the sums over classes."""
        bound, total = self.bind(nodes), sums.sum(axis=0, keepdims=True)
        vars(bound)["pooled"] = self._unfolded(total[:, 1:])[0] / total[0, 0]
        return bound

    def cost(self, models: Array, lo: int, hi: int) -> Array:
        """Return the Gaussian −log-likelihood of the nodes in each class."""
        costs = np.empty((hi - lo, len(models)))
        self.cost_into(costs, models, lo, hi)
        return costs

    def cost_into(self, out: Array, models: Array, lo: int, hi: int) -> None:
        """Write the same to `out`."""
        factors, shifts, offset = self._whitening(models)
        for a, b in _stretches(lo, hi, _MOST_NUMBERS // self.dim):
            x = np.ascontiguousarray(self.X[a:b].T, dtype=np.float64)
            if b - a < _FEW_NODES:
                out[a - lo : b - lo] = ((factors @ x - shifts[:, :, None]) ** 2).sum(axis=1).T
            else:
                part, total = np.empty(b - a), np.empty(b - a)
                kernels.squared_lengths(x, factors, shifts, part, total, out[a - lo : b - lo])
        out *= 0.5
        out += offset

    def _whitening(self, models: Array) -> tuple[Array, Array, Array]:
        """Return F, s and c for which a node costs ``½‖F_i x − s_i‖² + c_i`` in class i.

        They are kept for the ranges of nodes that follow.
        """
        kept = vars(self).get("_whitened")
        if kept is not None and kept[0] is models:
            return kept[1], kept[2], kept[3]
        # With the constant feature first, the inverse of the Cholesky factor is
        # [[1, 0], [−L⁻¹μ, L⁻¹]], L that of the covariance about the mean μ.
        first = int(self.intercept)
        order = np.roll(np.arange(self.dim), first)
        lower = np.linalg.cholesky(models[:, order][:, :, order])
        # Of so small matrices, what solve_triangular checks takes longer than what it solves.
        inverses = np.stack([dtrtri(factor, lower=1)[0] for factor in lower])
        factors = np.ascontiguousarray(inverses[:, first:, first:])
        shifts = -inverses[:, 1:, 0] if self.intercept else np.zeros(factors.shape[:2])
        offset = np.log(np.diagonal(lower, axis1=1, axis2=2)).sum(axis=1)
        offset += 0.5 * (self.dim - first) * np.log(2.0 * np.pi)
        self._whitened = models, factors, shifts, offset
        return factors, shifts, offset

    def penalty(self, models: Array) -> float:
        """Return ``κ/2 Σ_i (log det R_i + tr R_i⁻¹ R_pool)``, whose optimum is the shrinkage."""
        # By factors, which do not mind columns of very different units.
        factors = np.linalg.cholesky(models)
        half_log_dets = np.log(np.diagonal(factors, axis1=1, axis2=2)).sum()
        traces = sum(float(np.trace(cho_solve((f, True), self.pooled))) for f in factors)
        return self.shrinkage * float(half_log_dets + 0.5 * traces)

    @property
    def prior_nodes(self) -> float:
        """How many nodes the pooled second moment counts as."""
        return float(self.shrinkage)

    def n_parameters(self, models: Array) -> float:
        """Return how many numbers describe one class."""
        return self.dim * (self.dim + 1) / 2 - self.intercept

    def check_models(self, models: Array) -> None:
        """Refuse covariances that are not positive definite."""
        check_positive_definite(models)

    @cached_property
    def ridge(self) -> Array:
        """What keeps columns that are constant or repeat from making R singular, shape (m,).

        It is small beside the variance of a column, and above the rounding of its moment, which
        would be all that a column without a variance has to tell. Where many nodes have the very
        same value it is not small: a class of such nodes would have a density without bound. The
        constant feature gets none: it would be multiplied by the square of the means.
        """
        moment = np.diag(self.pooled)
        variance = moment.copy()
        if self.intercept:
            variance = np.maximum(moment - self.pooled[-1] ** 2, 0.0)
        ridge = np.maximum(1e-9 * variance, 1e-14 * moment)
        often = repeated_share(self.X)
        ridge[: len(often)] += np.maximum(often - _BY_CHANCE, 0.0) * variance[: len(often)]
        ridge = np.where(variance <= 1e-12 * moment, moment, ridge)
        ridge[ridge == 0.0] = 1.0
        if self.intercept:
            ridge[-1] = 0.0
        return ridge

    def _root(self, moments: Array) -> Array:
        values, vectors = np.linalg.eigh(moments)
        root = (vectors * np.sqrt(values.clip(min=0))[..., None, :]) @ np.swapaxes(vectors, -1, -2)
        return self.models_set.project(root)

    def _rows(self, lo: int, hi: int) -> Array:
        x = self.X[lo:hi].astype(np.float64, copy=False)
        return np.column_stack([x, np.ones(hi - lo)]) if self.intercept else x

    def _products(self, lo: int, hi: int) -> Array:
        """Return 1 and ``x_i x_j`` for i ≤ j, shape (1 + m(m + 1)/2, hi − lo)."""
        out = np.empty((1 + len(self.upper[0]), hi - lo))
        out[0] = 1.0
        kernels.pair_products(np.ascontiguousarray(self._rows(lo, hi).T), out[1:])
        return out

    def _class_moments(self, weights: Array, lo: int, hi: int) -> Array:
        """Return the upper triangle of ``Σ_v weights_iv x_v x_vᵀ``, shape (K, m(m + 1)/2)."""
        x, found = self._rows(lo, hi), np.empty((len(weights), len(self.upper[0])))
        for i, own in enumerate(weights):
            # With many features, most nodes are in one class only. Differences may be negative.
            held = np.flatnonzero(np.abs(own) > _NOTHING)
            found[i] = (x[held].T @ (own[held, None] * x[held]))[self.upper]
        return found

    def _moments(self, W: NDArray[Any]) -> Array:
        """Return ``Σ_v W_vi x_v x_vᵀ``, shape (K, m, m)."""
        sums = threads.sum_rows(lambda lo, hi: self.sums(W[lo:hi], lo, hi), len(self.X))
        return self._unfolded(sums[:, 1:])

    def _unfolded(self, folded: Array) -> Array:
        """Return symmetric matrices, given the upper triangle of each as a row."""
        moments, (i, j) = np.zeros((len(folded), self.dim, self.dim)), self.upper
        moments[:, i, j] = moments[:, j, i] = folded
        return moments


def _stretches(lo: int, hi: int, step: int) -> Iterator[tuple[int, int]]:
    """Cut a range of nodes into stretches of so many, the last of fewer."""
    yield from ((a, min(a + step, hi)) for a in range(lo, hi, step))


def check_positive_definite(covariances: Array) -> None:
    """Raise a ValueError if features would vary by less than nothing in some direction.

    Parameters
    ----------
    covariances : ndarray of shape (K, m, m)
        Of each class.
    """
    try:
        np.linalg.cholesky(covariances)
    except np.linalg.LinAlgError:
        raise ValueError("the covariances of a class are not positive definite") from None


def repeated_share(X: NDArray[Any]) -> Array:
    """Return the share of nodes that have the commonest value of each column, shape (m,).

    The first row with a value does not count, so that values that never repeat give 0.

    Examples
    --------
    >>> import numpy as np
    >>> repeated_share(np.array([[0.0, 1.5], [0.0, 2.5], [0.0, 3.5], [7.0, 4.5], [0.0, 5.5]]))
    array([0.75, 0.  ])
    """
    rows = np.sort(X[:: -(-len(X) // _SAMPLE)], axis=0)
    n, m = rows.shape
    if n < 2:
        return np.zeros(m)
    repeats = rows[1:] == rows[:-1]
    # Lengths of runs: counted up to here, less what had been counted when the run began.
    counted = np.cumsum(repeats, axis=0)
    before = np.maximum.accumulate(np.where(repeats, 0, counted), axis=0)
    return np.asarray((counted - before).max(axis=0) / (n - 1))
