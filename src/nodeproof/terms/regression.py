"""A target that depends linearly on covariates, in each class in another way."""

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
    COLUMN,
    COLUMNS,
    Column,
    Columns,
    check_some_known,
    find_columns,
    read_columns,
)
from nodeproof.terms.registry import register
from nodeproof.terms.summable import SummableTerm

__all__ = ["Regression"]

# No noise is believed to be below this share of the target's variance.
_FLOOR = 1e-9

# In the paper's loss, no covariate moves the target by more than this many of its standard
# deviations per standard deviation of the covariate.
_STEEPEST = 3.0

# Directions in which covariates vary by less than this share of their variance are not fitted.
_RANK = 1e-10


@register
class Regression(SummableTerm):
    """A target that is linear in covariates, ``y ≈ xᵀb_i + c_i``, with coefficients per class.

    The model of class i is ``(b_i, c_i, σ_i²)``: one coefficient per covariate, a constant, and
    the variance of the noise. Targets may be missing (NaN) at any node. A node without a target,
    or without one of the covariates, costs nothing in any class. How covariates are distributed
    is not modelled: only how the target depends on them.

    Calibrated, a node costs ``−log N(y; xᵀb_i + c_i, σ_i²)``. Each class is taken to have had κ
    nodes already, each a mean of all (their second moments, divided by their number).

    The paper's loss is the squared error in units of the target's variance d over all nodes,
    ``f(y, x; b, c, d) = ½ (y − xᵀb − c)²/d``; a class is (b, c, d) with d given, and b and c
    bounded: per standard deviation of a covariate the target moves by three of its own at most.
    It depends on the units of the covariates, as losses of fixed weights do: give them about the
    same scale, around zero.

    Parameters
    ----------
    target : str or int
        Name or position of the target's column in X; by default the last.
    features : list of str and int, optional
        Those of the covariates; by default all other columns.
    shrinkage : float
        Calibrated only: how many nodes' worth of all nodes each class is mixed with (κ),
        positive.

    Notes
    -----
    The convex solver "cano" takes about a minute for 36 nodes and two covariates (500
    iterations): the wider the bounds, the more atoms it takes to reach a model inside.

    Examples
    --------
    >>> import numpy as np
    >>> from nodeproof.terms import NodeData, Regression
    >>> x = np.array([0.0, 1.0, 2.0, 0.0, 1.0, 2.0, 1.0])
    >>> y = np.array([1.0, 3.0, 5.0, 4.0, 3.0, 2.0, np.nan])  # 1 + 2x, and 4 − x
    >>> W = np.eye(2)[[0, 0, 0, 1, 1, 1, 1]]
    >>> term = Regression(shrinkage=1e-6).bind(NodeData(2, np.column_stack([x, y])))
    >>> models = term.estimate(W)
    >>> models[:, :2].round(3)  # slope and constant of each class
    array([[ 2.,  1.],
           [-1.,  4.]])
    >>> term.cost(models, 6, 7)  # the last node has no target
    array([[0., 0.]])
    """

    source: ClassVar[str] = "features"
    as_given: ClassVar[bool] = True
    takes_sparse: ClassVar[bool] = True
    models_shape: ClassVar[str] = "K *"

    def __init__(
        self, target: Column = -1, features: Columns = None, shrinkage: float = 0.1
    ) -> None:
        self.target, self.features, self.shrinkage = target, features, shrinkage

    @classmethod
    def settings(cls) -> Mapping[str, Check]:
        """Return what makes it up, with what a saved file may say of it."""
        return {"target": COLUMN, "features": COLUMNS, "shrinkage": number}

    models_set: Box
    #: covariates, a constant and the target, zero in all columns where anything is missing;
    #: shape (n, d + 2)
    X: Array
    #: what to subtract from covariates and target, and what to divide by, shape (d + 2,)
    shift: Array
    scale: Array
    #: second moments of all nodes in these units, shape (d + 2, d + 2)
    pooled: Array
    n_known: float

    def bind(self, nodes: NodeData) -> Self:
        """Return a copy that holds covariates and targets."""
        if not 0 < self.shrinkage < np.inf:
            raise InputError(f"Regression needs a positive shrinkage, got {self.shrinkage}")
        bound = self.copy_for(nodes)
        target = find_columns("Regression", nodes, [self.target])
        columns = find_columns("Regression", nodes, self.features, but=target)
        values = read_columns(nodes, [*columns, *target])
        known = ~np.isnan(values).any(axis=1)
        rows = np.insert(values, -1, 1.0, axis=1)
        rows[~known] = 0.0
        bound.X, bound.n_known = rows, float(known.sum())
        bound._standardise()
        far = _STEEPEST * bound.scale[-1] / bound.scale[:-2]
        apart = _STEEPEST * bound.scale[-1] + far @ np.abs(bound.shift[:-2])
        middle, unit = bound.shift[-1], bound.scale[-1] ** 2
        bound.models_set = Box(
            np.concatenate([-far, [middle - apart, unit]]),
            np.concatenate([far, [middle + apart, unit]]),
        )
        return bound

    def _standardise(self) -> None:
        """Set the units in which sums are taken: means and standard deviations of all nodes."""
        n = max(self.n_known, 1.0)
        self.shift, self.scale = np.zeros(self.X.shape[1]), np.ones(self.X.shape[1])
        ones = np.ones((self.n_nodes, 1))
        shift = threads.sum_rows(lambda lo, hi: self.X[lo:hi].sum(axis=0), self.n_nodes) / n
        shift[-2] = 0.0
        self.shift = shift
        moments = self._moments(ones)[0] / n
        variances = np.diag(moments).copy()
        variances[-2] = 1.0
        # A mean is rounded: beside it, a variance like this is none.
        constant = variances <= 1e-26 * shift**2
        self.scale = np.sqrt(np.where(constant, 1.0, variances))
        self.pooled = moments / np.outer(self.scale, self.scale)
        # A share that keeps estimates of what does not vary finite, and off what does.
        self.pooled[np.diag_indices(len(self.pooled))] += _FLOOR

    def points(self) -> Array:
        """Return products of covariates and target: their means are as different as the slopes."""
        rows = self._units(0, self.n_nodes)
        return rows[:, :-1] * rows[:, -1:]

    # The paper's loss. ------------------------------------------------------------------

    def loss(self, theta: Array, lo: int, hi: int) -> Array:
        """Return ``½ (y − xᵀb − c)²/d``, 0 where something is missing."""
        off = self._residuals(theta, lo, hi)
        return np.asarray(0.5 * off * off / theta[:, -1])

    def loss_gradient(self, theta: Array, lo: int, hi: int) -> Array:
        """Return ``−(y − xᵀb − c)(x, 1)/d`` and ``−½ (y − xᵀb − c)²/d²``."""
        scaled = (self._residuals(theta, lo, hi) / theta[:, -1])[:, None]
        return np.hstack([-scaled * self.X[lo:hi, :-1], -0.5 * scaled * scaled])

    def refit(self, W: NDArray[Any]) -> Array:
        """Return the coefficients of least squares, within their bounds."""
        check_some_known("Regression", self.n_known)
        return self.class_loss(W).least()

    def class_loss(self, W: NDArray[Any]) -> SquaresLoss:
        """Return ``½ Σ_v W_vi (y_v − x_vᵀb_i − c_i)²/d_i``, the sums taken once."""
        moments = threads.sum_rows(lambda lo, hi: self.sums(W[lo:hi], lo, hi), self.n_nodes)
        return SquaresLoss(self, moments)

    # The likelihood. --------------------------------------------------------------------

    def sums(self, W: NDArray[Any], lo: int, hi: int) -> Array:
        """Return the second moments of x, 1 and y in each class, shape (K, d + 2, d + 2)."""
        rows = self._units(lo, hi)
        return np.stack([(rows.T * weights) @ rows for weights in W.T.astype(np.float64)])

    def estimate_from(self, sums: Array) -> Array:
        """Return coefficients and variances by these moments and those of the prior."""
        check_some_known("Regression", self.n_known)
        moments = sums + self.shrinkage * self.pooled
        b = solve(moments)
        left = moments[:, -1, -1] - (b * moments[:, :-1, -1]).sum(axis=1)
        # What is added to the diagonal of the prior is no node.
        totals = sums[:, -2, -2] + self.shrinkage
        variances = np.maximum(left / totals, _FLOOR) * self.scale[-1] ** 2
        return np.column_stack([self.from_units(b), variances])

    def cost(self, models: Array, lo: int, hi: int) -> Array:
        """Return ``−log N(y; xᵀb_i + c_i, σ_i²)``, 0 where something is missing."""
        if models.shape[1:] != (self.X.shape[1],):
            raise InputError(
                f"coefficients of shape {models.shape} do not fit {self.X.shape[1] - 2} covariates"
            )
        rows, variances = self.X[lo:hi], models[:, -1]
        off = rows[:, -1:] - rows[:, :-1] @ models[:, :-1].T
        return np.asarray(
            0.5 * off * off / variances + 0.5 * rows[:, -2:-1] * np.log(2.0 * np.pi * variances)
        )

    def vertex_costs(self, models: Array, lo: int, hi: int) -> Array:
        """Return ``f(y_v, x_v; θ_i)`` for the nodes lo…hi and each class, shape (hi − lo, K)."""
        off = self.X[lo:hi, -1:] - self.X[lo:hi, :-1] @ models[:, :-1].T
        return np.asarray(0.5 * off * off / models[:, -1])

    def penalty(self, models: Array) -> float:
        """Return what κ more nodes per class cost, each a mean of all: the prior."""
        b = np.column_stack([-self.to_units(models[:, :-1]), np.ones(len(models))])
        left = np.einsum("ia,ab,ib->i", b, self.pooled, b) * self.scale[-1] ** 2
        terms = left / models[:, -1] + np.log(2.0 * np.pi * models[:, -1])
        return 0.5 * self.shrinkage * float(terms.sum())

    @property
    def prior_nodes(self) -> float:
        """How many nodes the mean of all counts as."""
        return float(self.shrinkage)

    def check_models(self, models: Array) -> None:
        """Refuse variances that are not positive."""
        if models.shape[1] < 3 or not (models[:, -1] > 0).all():
            raise ValueError("a class has no coefficient, or its noise has no positive variance")

    # Units in which sums are taken. -----------------------------------------------------

    def to_units(self, b: Array) -> Array:
        """Return coefficients and constants (K, d + 1) in the units of the sums."""
        scaled = b * self.scale[:-1]
        scaled[:, -1] += b[:, :-1] @ self.shift[:-2] - self.shift[-1]
        return np.asarray(scaled / self.scale[-1])

    def from_units(self, b: Array) -> Array:
        """Return coefficients and constants (K, d + 1) in the units of the data."""
        given = b * self.scale[-1] / self.scale[:-1]
        given[:, -1] += self.shift[-1] - given[:, :-1] @ self.shift[:-2]
        return np.asarray(given)

    def _units(self, lo: int, hi: int) -> Array:
        rows = self.X[lo:hi]
        return np.asarray((rows - rows[:, -2:-1] * self.shift) / self.scale)

    def _moments(self, W: NDArray[Any]) -> Array:
        return threads.sum_rows(lambda lo, hi: self.sums(W[lo:hi], lo, hi), self.n_nodes)

    def _residuals(self, theta: Array, lo: int, hi: int) -> Array:
        """Return ``y − xᵀb − c`` at one model per node, shape (hi − lo,)."""
        return np.asarray(self.X[lo:hi, -1] - (self.X[lo:hi, :-1] * theta[:, :-1]).sum(axis=1))


class SquaresLoss(ClassLoss):
    """Losses ``½ Σ_v W_vi (y_v − x_vᵀb_i − c_i)²/d_i``.

    Parameters
    ----------
    term : Regression
        Whose units the moments are in.
    moments : ndarray of shape (K, d + 2, d + 2)
        Sums over the nodes of the products of x, 1 and y.
    """

    models_set: Box

    def __init__(self, term: Regression, moments: Array) -> None:
        super().__init__(term.models_set)
        self.term, self.moments = term, moments

    def value(self, models: Array) -> Array:
        """Return the losses of the classes."""
        return self._halved(models)[0]

    def gradient(self, models: Array) -> Array:
        """Return the gradients in coefficients, constants and units."""
        return self.value_gradient(models)[1]

    def value_gradient(self, models: Array) -> tuple[Array, Array]:
        """Return both."""
        value, slopes = self._halved(models)
        term = self.term
        # The chain rule of `to_units`.
        given = slopes * term.scale[:-1] / term.scale[-1]
        given[:, :-1] += slopes[:, -1:] * term.shift[:-2] / term.scale[-1]
        return value, np.column_stack([given, -value / models[:, -1]])

    def least(self) -> Array:
        """Return the members of least loss, shape (K, d + 2)."""
        free = self.term.from_units(solve(self.moments))
        unit = np.broadcast_to(self.models_set.lo[-1], (len(free), 1))
        found = np.hstack([free, unit])
        outside = ~self.models_set.contains(found, tol=0.0)
        if outside.any():
            start = self.models_set.project(found)
            found = np.where(outside[:, None], self.prox(start, 0.0, start), found)
        return found

    def _halved(self, models: Array) -> tuple[Array, Array]:
        """Return the losses (K,), and their slopes in coefficients of the units, (K, d + 1)."""
        b = np.column_stack([-self.term.to_units(models[:, :-1]), np.ones(len(models))])
        share = self.term.scale[-1] ** 2 / models[:, -1]
        pull = np.einsum("iab,ib->ia", self.moments, b)
        value = 0.5 * share * np.einsum("ia,ia->i", pull, b)
        return np.asarray(value), -share[:, None] * pull[:, :-1]


def solve(moments: Array) -> Array:
    """Return the least coefficients of least squares by moments of x, 1 and y, shape (K, d + 1)."""
    inverse = np.linalg.pinv(moments[:, :-1, :-1], rcond=_RANK, hermitian=True)
    return np.asarray((inverse @ moments[:, :-1, -1:])[..., 0])
