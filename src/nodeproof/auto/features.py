"""What is made of the features."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.feature_selection import f_classif

from nodeproof.auto.held_out import HeldBack
from nodeproof.problem import Problem
from nodeproof.solvers import BlockCADO
from nodeproof.terms import Covariance, Gaussian, Labels, Multinomial, NodeData, Softmax, Term
from nodeproof.terms.covariance import MOST_FEATURES, repeated_share

__all__ = ["choose_feature_term", "names_all"]

# A mean so many standard errors from zero, or a class difference this unlikely by chance.
_SIGMAS = 4.0
_P_VALUE = 1e-3

# Means and spreads are taken over no more than so many nodes, evenly spaced.
_MANY = 50_000

# A column in which more nodes than this share have the same value is not normal in any class.
_MOSTLY = 0.5

_CENTRED = "features are centred: a covariance a class, as in the paper"

# So many labels a class would show it if means differed.
_PLENTY = 50

# Where these do not decide, so many nodes are fitted with and without means.
_SAMPLE = 1000


def choose_feature_term(
    nodes: NodeData, held: HeldBack | None
) -> tuple[Term, str, tuple[Term, ...]]:
    """Return a term for the features, why, and what else to try if it is a classifier.

    A classifier needs labels of every class, and some to hold back.
    """
    X = nodes.X
    assert X is not None
    taught = held is not None and len(np.unique(held.codes)) > 1 and names_all(nodes)
    if sp.issparse(X):
        if taught:
            return Softmax(), "sparse features: a classifier on averages over links", ()
        if np.asarray(X.data).min(initial=0.0) >= 0:
            return Multinomial(trust=0.1), "sparse features, few labels: dependent words", ()
        return Gaussian(), "sparse features, few labels: a mean and spreads a class", ()
    if X.shape[1] > MOST_FEATURES:
        if taught:
            return Softmax(), "many features: a classifier on averages over links", ()
        return Gaussian(), "many features, few labels: a mean and spreads a class", ()
    intercept, reason = _means_matter(X, nodes.y, nodes.n_classes)
    term = Covariance(intercept=intercept)
    # A density does not describe values that most nodes share.
    often = repeated_share(X)
    lumpy = bool(((often > _MOSTLY) & (often < 1.0)).any())
    linked = nodes.graph is not None and nodes.graph.n_entries > 0
    if (intercept or lumpy) and taught and linked:
        if lumpy:
            reason = f"many nodes share values, and {reason}"
        return Softmax(), f"{reason}, or a classifier on averages over links", (term,)
    return term, reason, ()


def names_all(nodes: NodeData) -> bool:
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
        return True, "features are not centred: a mean and a covariance a class"
    whole = np.abs(X.mean(axis=0, dtype=np.float64)[varying]) / spread[varying]
    if (whole < 1e-6).all() and len(X) > 1:
        # Chance does not make means this small: someone has subtracted them.
        return True, "features were standardised: a mean and a covariance a class"
    if y is not None:
        known = y >= 0
        if known.sum() > len(np.unique(y[known])) > 1:
            with np.errstate(divide="ignore", invalid="ignore"), warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Features .* are constant")
                _, p_values = f_classif(X[known][:, varying].astype(np.float64), y[known])
            if np.nanmin(p_values, initial=1.0) * varying.sum() < _P_VALUE:
                return True, "class means of the labelled nodes differ: a mean a class"
            if known.sum() >= _PLENTY * n_classes:
                return False, _CENTRED
    if n_classes > 1 and _means_pay(X, y, n_classes):
        return True, "features fall into groups with means of their own: a mean a class"
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
