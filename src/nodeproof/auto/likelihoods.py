"""Choice of a likelihood for the features."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.feature_selection import f_classif

from nodeproof.problem import Problem
from nodeproof.solvers import BlockCADO
from nodeproof.terms import Covariance, Gaussian, Labels, Multinomial, NodeData, Term
from nodeproof.terms.covariance import MOST_FEATURES

__all__ = ["choose_likelihood", "every_class_has_labels"]

# Means matter if one is this many standard errors from zero, or differs between classes with a
# p-value below this.
_SIGMAS = 4.0
_P_VALUE = 1e-3

# Means and standard deviations are taken over at most this many nodes, evenly spaced.
_MANY = 50_000

_CENTRED = "features are centred: one covariance per class, as in the paper"

# With this many labels per class, a difference of means would show.
_PLENTY = 50

# Otherwise a sample of this many nodes is fitted with and without means.
_SAMPLE = 1000


def choose_likelihood(nodes: NodeData) -> tuple[Term, str]:
    """Return the likelihood that suits the features best, and the reason."""
    X = nodes.X
    assert X is not None
    if sp.issparse(X):
        if np.asarray(X.data).min(initial=0.0) >= 0:
            return Multinomial(trust=0.1), "sparse features: counts of dependent words"
        return Gaussian(), "sparse features: means and variances per class"
    if X.shape[1] > MOST_FEATURES:
        return Gaussian(), "many features: means and variances per class"
    intercept, reason = _means_matter(X, nodes.y, nodes.n_classes)
    return Covariance(intercept=intercept), reason


def every_class_has_labels(nodes: NodeData) -> bool:
    """Tell whether every class has a label."""
    return nodes.y is not None and len(np.unique(nodes.y[nodes.y >= 0])) == nodes.n_classes


def _means_matter(X: NDArray[Any], y: NDArray[np.int64] | None, n_classes: int) -> tuple[bool, str]:
    """Tell whether classes may differ in their mean features, not only in covariance."""
    rows = X[:: -(-len(X) // _MANY)]
    mean, spread = rows.mean(axis=0, dtype=np.float64), rows.std(axis=0, dtype=np.float64)
    varying = spread > 1e-9 * np.abs(mean)  # the rest is rounding
    if not varying.any():
        return False, "features are constant"
    off_zero = np.abs(mean[varying]) / spread[varying]
    if (off_zero * np.sqrt(len(rows)) > _SIGMAS).any():
        return True, "features are not centred: a mean and a covariance per class"
    whole = np.abs(X.mean(axis=0, dtype=np.float64)[varying]) / spread[varying]
    if (whole < 1e-6).all() and len(X) > 1:
        # Means this small are no accident: they were subtracted.
        return True, "features were standardised: a mean and a covariance per class"
    if y is not None:
        known = y >= 0
        if known.sum() > len(np.unique(y[known])) > 1:
            with np.errstate(divide="ignore", invalid="ignore"), warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Features .* are constant")
                _, p_values = f_classif(X[known][:, varying].astype(np.float64), y[known])
            if np.nanmin(p_values, initial=1.0) * varying.sum() < _P_VALUE:
                return True, "class means of the labelled nodes differ: a mean per class"
            if known.sum() >= _PLENTY * n_classes:
                return False, _CENTRED
    if n_classes > 1 and _means_pay(X, y, n_classes):
        return True, "features form groups with different means: a mean per class"
    return False, _CENTRED


def _means_pay(X: NDArray[Any], y: NDArray[np.int64] | None, n_classes: int) -> bool:
    """Tell whether class means lower the free energy of a sample by more than they cost (BIC)."""
    step = -(-len(X) // _SAMPLE)
    sample = NodeData(n_classes, X[::step], None if y is None else y[::step])
    labels = [Labels().bind(sample)] if sample.y is not None else []
    solver = BlockCADO(n_init=2, max_iter=30, tol=1e-2, random_state=0)
    values = []
    for intercept in (False, True):
        term = Covariance(intercept=intercept).bind(sample)
        values.append(solver.solve(Problem(None, [term, *labels], n_classes)).value)
    n, m = sample.X.shape  # type: ignore[union-attr]
    return values[0] - values[1] > 0.5 * n_classes * m * np.log(n)
