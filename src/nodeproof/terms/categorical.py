"""Categories: in each class, one distribution per column."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import xlogy

from nodeproof.errors import InputError
from nodeproof.runtime import threads
from nodeproof.sets import Product, Simplex
from nodeproof.storage.schema import Check, number
from nodeproof.terms.base import Array, NodeData
from nodeproof.terms.class_loss import ClassLoss
from nodeproof.terms.multinomial import EVEN_SHARE, WordLoss, fit_above
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

__all__ = ["Categorical"]

# Categories of one column; larger numbers are names or measurements.
_MOST = 10_000

# Columns of ones and zeros that are clustered to start a fit.
_MOST_POINTS = 256


@register
class Categorical(SummableTerm):
    """Categories of nodes; the model of class i is how frequent each is there, column by column.

    Categories are numbered 0, 1, … in each column, NaN or −1 where they are missing: a missing
    one costs nothing in any class, and neither does one of a new node that no fitted node has.
    Calibrated, a node costs ``−Σ_j log θ_ij[x_j]`` over the columns that it has, as if columns
    were independent within a class. Each class is taken to have had κ nodes already, with
    categories as frequent as among all nodes (a Dirichlet prior). Models have the shape
    (K, J, C), for J columns of at most C categories.

    The paper's loss is the same, averaged over the columns, over simplices with a floor of
    0.01/C, which keeps its gradient finite; its models are flat, (K, J·C).

    Parameters
    ----------
    columns : list of str and int, optional
        Names or positions of the columns with categories; by default all.
    shrinkage : float
        Calibrated only: κ, positive.

    Examples
    --------
    >>> import numpy as np
    >>> from nodeproof.terms import Categorical, NodeData
    >>> X = np.array([[0.0], [0.0], [2.0], [1.0], [np.nan]])
    >>> W = np.eye(2)[[0, 0, 1, 1, 1]]
    >>> term = Categorical(shrinkage=0.01).bind(NodeData(n_classes=2, X=X))
    >>> theta = term.estimate(W)
    >>> theta.round(2)
    array([[[1. , 0. , 0. ]],
    <BLANKLINE>
           [[0. , 0.5, 0.5]]])
    >>> term.cost(theta, 4, 5)  # the last node has no category
    array([[0., 0.]])
    """

    source: ClassVar[str] = "features"
    as_given: ClassVar[bool] = True
    takes_sparse: ClassVar[bool] = True
    models_shape: ClassVar[str] = "K * * | K *"

    def __init__(self, columns: Columns = None, shrinkage: float = 1.0) -> None:
        self.columns, self.shrinkage = columns, shrinkage

    @classmethod
    def settings(cls) -> Mapping[str, Check]:
        """Return what makes it up, with what a saved file may say of it."""
        return {"columns": COLUMNS, "shrinkage": number}

    models_set: Product
    #: categories, −1 where missing, shape (n, J)
    X: NDArray[np.int32]
    dim: int
    #: how frequent each is among all nodes, shape (J, C); 0 throughout in columns without any
    shares: Array

    def bind(self, nodes: NodeData) -> Self:
        """Return a copy that holds the categories."""
        if not 0 < self.shrinkage < np.inf:
            raise InputError(f"Categorical needs a positive shrinkage, got {self.shrinkage}")
        bound = self.copy_for(nodes)
        columns = find_columns("Categorical", nodes, self.columns)
        values = read_columns(nodes, columns)
        check_whole("Categorical", nodes, columns, values, least=-1)
        if (values >= _MOST).any():
            raise InputError(
                f"Categorical takes up to {_MOST:,} categories per column, numbered from 0 on; got "
                f"{np.nanmax(values):g}"
            )
        bound.X = np.where(np.isnan(values), -1.0, values).astype(np.int32)
        bound.dim = J = len(columns)
        C = max(int(bound.X.max(initial=-1)) + 1, 2)
        bound.shares = np.zeros((J, C))
        bound.shares = bound._totals(np.ones((bound.n_nodes, 1)))[0]
        bound.shares /= np.maximum(bound.shares.sum(axis=1, keepdims=True), 1.0)
        bound.models_set = Product([Simplex(C, floor=EVEN_SHARE / C)] * J)
        return bound

    def points(self) -> Array | None:
        """Return a column of ones and zeros per category, its share where missing."""
        if self.shares.size > _MOST_POINTS:
            return None
        ones = self._ones(0, self.n_nodes, self.shares.shape[1]).toarray()
        missing = np.repeat(self.X < 0, self.shares.shape[1], axis=1)
        return np.where(missing, self.shares.ravel(), ones)

    # The paper's loss. ------------------------------------------------------------------

    def loss(self, theta: Array, lo: int, hi: int) -> Array:
        """Return ``−Σ_j log θ_j[x_j] / J`` over the columns that a node has."""
        ones = self._ones(lo, hi, theta.shape[1] // self.dim)
        log = np.log(theta)
        sums = ones @ log[0] if len(theta) == 1 else ones.multiply(log).sum(axis=1)
        return -np.asarray(sums) / self.dim

    def loss_gradient(self, theta: Array, lo: int, hi: int) -> Array:
        """Return ``−1/θ_j / J`` at the node's categories, else 0."""
        ones = self._ones(lo, hi, theta.shape[1] // self.dim)
        return np.asarray(-ones.toarray() / theta / self.dim)

    def refit(self, W: NDArray[Any]) -> Array:
        """Return the frequencies in each class, raised to the floor; those of all without any."""
        check_some_known("Categorical", self.shares.sum())
        totals = self._totals(W)
        empty = totals.sum(axis=2) == 0
        totals[empty] = np.broadcast_to(self.shares, totals.shape)[empty]
        totals[totals.sum(axis=2) == 0] = 1.0
        J, C = self.shares.shape
        return fit_above(totals.reshape(-1, C), EVEN_SHARE / C).reshape(-1, J * C)

    def class_loss(self, W: NDArray[Any]) -> CategoryLoss:
        """Return ``−Σ_jc n_ijc log θ_ijc / J``, n_ijc the nodes of the class with category c."""
        return CategoryLoss(self.models_set, self._totals(W) / self.dim)

    def vertex_costs(self, models: Array, lo: int, hi: int) -> Array:
        """Return ``f(x_v; θ_i)`` for the nodes lo…hi and each class, shape (hi − lo, K)."""
        return self.cost(models.reshape(len(models), self.dim, -1), lo, hi) / self.dim

    # The likelihood. --------------------------------------------------------------------

    def sums(self, W: NDArray[Any], lo: int, hi: int) -> Array:
        """Return how many nodes of each class have each category, shape (K, J, C)."""
        ones = self._ones(lo, hi, self.shares.shape[1])
        found = np.asarray(ones.T @ W.astype(np.float64)).T
        return np.ascontiguousarray(found).reshape(-1, *self.shares.shape)

    def estimate_from(self, sums: Array) -> Array:
        """Return the frequencies in each class, mixed with those of all nodes, (K, J, C)."""
        check_some_known("Categorical", self.shares.sum())
        sizes = sums.sum(axis=2, keepdims=True)
        return np.asarray((sums + self.shrinkage * self.shares) / (sizes + self.shrinkage))

    def cost(self, models: Array, lo: int, hi: int) -> Array:
        """Return ``−Σ_j log θ_ij[x_vj]`` over the columns that a node has."""
        if models.ndim != 3 or models.shape[1] != self.dim:
            raise InputError(f"frequencies of shape {models.shape} do not fit {self.dim} columns")
        prices = -np.log(np.where(models > 0, models, 1.0)).reshape(len(models), -1)
        return np.asarray(self._ones(lo, hi, models.shape[2]) @ prices.T)

    def penalty(self, models: Array) -> float:
        """Return the −log of the Dirichlet prior that stands for the nodes believed."""
        return -self.shrinkage * float(xlogy(self.shares, models).sum())

    @property
    def prior_nodes(self) -> float:
        """How many nodes the shares of all count as."""
        return float(self.shrinkage)

    def n_parameters(self, models: Array) -> float:
        """Return how many frequencies can be chosen: one less than there are categories."""
        return float(np.maximum((self.shares > 0).sum(axis=1) - 1, 0).sum())

    def check_models(self, models: Array) -> None:
        """Refuse what are no frequencies."""
        if not ((models >= 0).all() and (models <= 1 + 1e-6).all()):
            raise ValueError("the frequencies of a class are not between 0 and 1")

    def _totals(self, W: NDArray[Any]) -> Array:
        return threads.sum_rows(lambda lo, hi: self.sums(W[lo:hi], lo, hi), self.n_nodes)

    def _ones(self, lo: int, hi: int, n_categories: int) -> csr_array:
        """Return ones at the known categories below this number, shape (hi − lo, J·C)."""
        rows, J = self.X[lo:hi], self.dim
        known = (rows >= 0) & (rows < n_categories)
        places = (rows + n_categories * np.arange(J, dtype=np.int32))[known]
        starts = np.concatenate([[0], np.cumsum(known.sum(axis=1))])
        ones = np.ones(len(places))
        return csr_array((ones, places, starts), shape=(hi - lo, J * n_categories))


class CategoryLoss(ClassLoss):
    """Losses ``−Σ_jc n_ijc log θ_ijc`` of flat models.

    Parameters
    ----------
    models_set : Product
        Of one simplex per column, all alike, away from 0.
    counts : ndarray of shape (K, J, C)
        n_ijc ≥ 0.
    """

    def __init__(self, models_set: Product, counts: Array) -> None:
        super().__init__(models_set)
        K, J, C = self.shape = counts.shape
        simplex = models_set.sets[0]
        assert isinstance(simplex, Simplex)
        self.columns = WordLoss(simplex, counts.reshape(K * J, C))

    def value(self, models: Array) -> Array:
        """Return the losses of the classes."""
        found = self.columns.value(self._apart(models))
        return np.asarray(found.reshape(self.shape[:2]).sum(axis=1))

    def gradient(self, models: Array) -> Array:
        """Return ``−n_ijc / θ_ijc``."""
        return self.columns.gradient(self._apart(models)).reshape(models.shape)

    def prox(
        self, points: Array, rho: float, start: Array, tol: float = 1e-12, max_iter: int = 500
    ) -> Array:
        """Return that of each column."""
        if rho == 0.0:
            return super().prox(points, rho, start, tol, max_iter)
        near = self.columns.prox(self._apart(points), rho, self._apart(start), tol, max_iter)
        return near.reshape(points.shape)

    def _apart(self, models: Array) -> Array:
        return models.reshape(-1, self.shape[2])
