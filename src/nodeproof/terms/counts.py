"""Counts: in each class, one Poisson rate per column."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from nodeproof.errors import InputError
from nodeproof.runtime import threads
from nodeproof.sets import Box
from nodeproof.storage.schema import Check, number
from nodeproof.terms.base import Array, NodeData
from nodeproof.terms.class_loss import ClassLoss
from nodeproof.terms.node_data import (
    COLUMNS,
    Columns,
    check_some_known,
    check_whole,
    find_columns,
    read_columns,
)
from nodeproof.terms.registry import register
from nodeproof.terms.summable import SummableTerm

__all__ = ["Counts"]

# Rates of the paper's loss are no less than this share of the mean over all nodes: its gradient
# stays finite.
_LEAST_RATE = 1e-3


@register
class Counts(SummableTerm):
    """How often something happened at each node; the model of class i is its rates ``λ_i``.

    Counts are whole numbers, NaN where they are missing: a missing count costs nothing in any
    class. Calibrated, a node costs ``Σ_j λ_ij − x_j log λ_ij`` over the columns that it has, the
    −log-likelihood of Poisson but for what is the same in every class. Each class is taken to
    have had some nodes already, at the mean rate of all nodes (a gamma prior), so that

        λ_ij = (Σ_v W_vi x_vj + κ m_j) / (Σ_v W_vi + κ)    over the nodes that have column j.

    The paper's loss is the same, averaged over the columns, with rates between a thousandth of
    the mean and the largest count.

    Parameters
    ----------
    columns : list of str and int, optional
        Names or positions of the columns with counts; by default all.
    shrinkage : float
        Calibrated only: how many nodes at the mean rate each class is taken to have had already
        (κ), positive.

    Notes
    -----
    Counts that vary more than Poisson's do, such as words or page views, are better modelled as
    logarithms by :class:`Gaussian`, or as shares by :class:`Multinomial`.

    Examples
    --------
    >>> import numpy as np
    >>> from nodeproof.terms import Counts, NodeData
    >>> X = np.array([[2.0, 0.0], [4.0, np.nan], [9.0, 5.0], [np.nan, np.nan]])
    >>> W = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    >>> term = Counts(shrinkage=0.01).bind(NodeData(n_classes=2, X=X))
    >>> rates = term.estimate(W)
    >>> rates.round()
    array([[3., 0.],
           [9., 5.]])
    >>> term.cost(rates, 3, 4)  # the last node has no counts
    array([[0., 0.]])
    """

    source: ClassVar[str] = "features"
    as_given: ClassVar[bool] = True
    takes_sparse: ClassVar[bool] = True
    models_shape: ClassVar[str] = "K *"

    def __init__(self, columns: Columns = None, shrinkage: float = 1.0) -> None:
        self.columns, self.shrinkage = columns, shrinkage

    @classmethod
    def settings(cls) -> Mapping[str, Check]:
        """Return what makes it up, with what a saved file may say of it."""
        return {"columns": COLUMNS, "shrinkage": number}

    models_set: Box
    #: counts, and whether they are known, side by side, shape (n, 2 J)
    X: Array
    dim: int
    #: nodes that have each column, and the mean rate of these, shape (J,)
    n_known: Array
    mean: Array

    def bind(self, nodes: NodeData) -> Self:
        """Return a copy that holds the counts."""
        if not 0 < self.shrinkage < np.inf:
            raise InputError(f"Counts needs a positive shrinkage, got {self.shrinkage}")
        bound = self.copy_for(nodes)
        columns = find_columns("Counts", nodes, self.columns)
        values = read_columns(nodes, columns)
        check_whole("Counts", nodes, columns, values)
        known = ~np.isnan(values)
        bound.X = np.hstack([np.where(known, values, 0.0), known])
        bound.dim = len(columns)
        totals = threads.sum_rows(lambda lo, hi: bound.X[lo:hi].sum(axis=0), bound.n_nodes)
        bound.n_known = totals[bound.dim :]
        # Half a count more than there are, so that no rate is zero.
        bound.mean = (totals[: bound.dim] + 0.5) / (bound.n_known + 1.0)
        highest = bound.X[:, : bound.dim].max(axis=0, initial=0.0)
        bound.models_set = Box(_LEAST_RATE * bound.mean, np.maximum(highest, bound.mean))
        return bound

    def points(self) -> Array:
        """Return the roots of the counts, whose spread is about the same at any rate."""
        values, known = self._rows(0, self.n_nodes)
        return np.sqrt(np.where(known > 0, values, self.mean))

    # The paper's loss. ------------------------------------------------------------------

    def loss(self, theta: Array, lo: int, hi: int) -> Array:
        """Return ``Σ_j (λ_j − x_j log λ_j) / J`` over the known columns."""
        values, known = self._rows(lo, hi)
        return np.asarray((known * theta - values * np.log(theta)).sum(axis=1) / self.dim)

    def loss_gradient(self, theta: Array, lo: int, hi: int) -> Array:
        """Return ``(1 − x_j/λ_j) / J`` at the known columns, else 0."""
        values, known = self._rows(lo, hi)
        return np.asarray((known - values / theta) / self.dim)

    def refit(self, W: NDArray[Any]) -> Array:
        """Return the means of each class, within the bounds; those of all nodes without any."""
        totals, sizes = self._totals(W)
        means = np.divide(
            totals, sizes, out=np.broadcast_to(self.mean, totals.shape).copy(), where=sizes > 0
        )
        return self.models_set.project(means)

    def class_loss(self, W: NDArray[Any]) -> RateLoss:
        """Return ``Σ_j (N_ij λ_ij − c_ij log λ_ij) / J``, the sums taken once."""
        totals, sizes = self._totals(W)
        return RateLoss(self.models_set, totals / self.dim, sizes / self.dim)

    def vertex_costs(self, models: Array, lo: int, hi: int) -> Array:
        """Return ``f(x_v; λ_i)`` for the nodes lo…hi and each class, shape (hi − lo, K)."""
        return self.cost(models, lo, hi) / self.dim

    # The likelihood. --------------------------------------------------------------------

    def sums(self, W: NDArray[Any], lo: int, hi: int) -> Array:
        """Return counts and nodes of each class and column, shape (K, 2 J)."""
        return np.asarray(W.T.astype(np.float64) @ self.X[lo:hi])

    def estimate_from(self, sums: Array) -> Array:
        """Return the rates of each class, mixed with the mean of all nodes, shape (K, J)."""
        check_some_known("Counts", self.n_known.sum())
        totals, sizes = sums[:, : self.dim], sums[:, self.dim :]
        return np.asarray((totals + self.shrinkage * self.mean) / (sizes + self.shrinkage))

    def cost(self, models: Array, lo: int, hi: int) -> Array:
        """Return ``Σ_j λ_ij − x_vj log λ_ij`` over the columns that a node has."""
        if models.shape[1:] != (self.dim,):
            raise InputError(f"rates of shape {models.shape} do not fit {self.dim} columns")
        return np.asarray(self.X[lo:hi] @ np.hstack([-np.log(models), models]).T)

    def penalty(self, models: Array) -> float:
        """Return the −log of the gamma prior that stands for the nodes believed."""
        return self.shrinkage * float((models - self.mean * np.log(models)).sum())

    @property
    def prior_nodes(self) -> float:
        """How many nodes the mean rate counts as."""
        return float(self.shrinkage)

    def check_models(self, models: Array) -> None:
        """Refuse rates that are not positive."""
        if not (models > 0).all():
            raise ValueError("the rates of a class are not positive")

    def _rows(self, lo: int, hi: int) -> tuple[Array, Array]:
        """Return the counts of the nodes lo…hi, 0 where missing, and 1 where they are known."""
        return self.X[lo:hi, : self.dim], self.X[lo:hi, self.dim :]

    def _totals(self, W: NDArray[Any]) -> tuple[Array, Array]:
        """Return counts and nodes of each class and column, both of shape (K, J)."""
        sums = threads.sum_rows(lambda lo, hi: self.sums(W[lo:hi], lo, hi), self.n_nodes)
        return sums[:, : self.dim], sums[:, self.dim :]


class RateLoss(ClassLoss):
    """Losses ``Σ_j N_ij λ_ij − c_ij log λ_ij``.

    Parameters
    ----------
    models_set : Box
        Where the rates live, away from 0.
    counts, sizes : ndarray of shape (K, J)
        c_ij and N_ij, not negative.
    """

    models_set: Box

    def __init__(self, models_set: Box, counts: Array, sizes: Array) -> None:
        super().__init__(models_set)
        self.counts, self.sizes = counts, sizes

    def value(self, models: Array) -> Array:
        """Return the losses of the classes."""
        return np.asarray((self.sizes * models - self.counts * np.log(models)).sum(axis=1))

    def gradient(self, models: Array) -> Array:
        """Return ``N_ij − c_ij / λ_ij``."""
        return np.asarray(self.sizes - self.counts / models)

    def prox(
        self, points: Array, rho: float, start: Array, tol: float = 1e-12, max_iter: int = 500
    ) -> Array:
        """Return the positive roots of ``ρλ² + (N − ρp)λ = c``, within the bounds."""
        if rho == 0.0:
            return super().prox(points, rho, start, tol, max_iter)
        half = 0.5 * (points - self.sizes / rho)
        root = np.hypot(half, np.sqrt(self.counts / rho))
        # The sum of two of unlike sign would lose digits.
        near = self.counts / rho / np.maximum(root - half, np.finfo(float).tiny)
        return self.models_set.project(np.where(half > 0, half + root, near))
