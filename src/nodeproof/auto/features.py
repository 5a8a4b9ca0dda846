"""Choice of a term for the features."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.feature_selection import f_classif

from nodeproof.auto.held_out import HeldOut
from nodeproof.problem import Problem
from nodeproof.solvers import BlockCADO
from nodeproof.terms import Covariance, Gaussian, Labels, Multinomial, NodeData, Softmax, Term
from nodeproof.terms.covariance import MOST_FEATURES, repeated_share

__all__ = ["choose_feature_term", "every_class_has_labels"]

# Means matter if one is this many standard errors from zero, or differs between classes with a
# p-value below this.
_SIGMAS = 4.0
_P_VALUE = 1e-3

# Means and standard deviations are taken over at most this many nodes, evenly spaced.
_MANY = 50_000

# A column in which more than this share of the nodes have the same value is not normally
# distributed in any class.
_MOSTLY = 0.5

_CENTRED = "features are centred: one covariance per class, as in the paper"

# With this many labels per class, a difference of means would show.
_PLENTY = 50

# Otherwise a sample of this many nodes is fitted with and without means.
_SAMPLE = 1000


def choose_feature_term(
    nodes: NodeData, held: HeldOut | None
) -> tuple[Term, str, tuple[Term, ...]]:
    """Return a term for the features, the reason, and alternatives if it is a classifier.

    A classifier needs labels of every class, and enough to hold some out.
    """
    X = nodes.X
    assert X is not None
    enough = held is not None and len(np.unique(held.codes)) > 1
    learnable = enough and every_class_has_labels(nodes)
    if sp.issparse(X):
        if learnable:
            return Softmax(), "sparse features: a classifier on averages over links", ()
        if np.asarray(X.data).min(initial=0.0) >= 0:
            reason = "sparse features, few labels: counts of dependent words"
            return Multinomial(trust=0.1), reason, ()
        return Gaussian(), "sparse features, few labels: means and variances per class", ()
    if X.shape[1] > MOST_FEATURES:
        if learnable:
            return Softmax(), "many features: a classifier on averages over links", ()
        return Gaussian(), "many features, few labels: means and variances per class", ()
    intercept, reason = _means_matter(X, nodes.y, nodes.n_classes)
    term = Covariance(intercept=intercept)
    # A density does not describe values that many nodes share.
    often = repeated_share(X)
    lumpy = bool(((often > _MOSTLY) & (often < 1.0)).any())
    linked = nodes.graph is not None and nodes.graph.n_entries > 0
    if (intercept or lumpy) and learnable and linked:
        if lumpy:
            reason = f"many nodes share values, and {reason}"
        return Softmax(), f"{reason}, or a classifier on averages over links", (term,)
    return term, reason, ()


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
