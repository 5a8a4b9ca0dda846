"""Logistic regression: on the features as they are, smoothed over the graph, and corrected by it.

Sparse features' rows are brought to length one, dense features' columns are standardised. The
strength C of the penalty is chosen as `peers.choosing` says.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from peers.choosing import fit_best
from peers.registry import Data, Split, as_proba, normalised, peer
from peers.views import dense, scaled, structure

Array = NDArray[Any]

#: penalties to choose from by accuracy and, finer, by log-loss (for rows of mean square length one)
PENALTIES = tuple(10.0 ** np.arange(-1.0, 5.0))
FINE = tuple(10.0 ** np.arange(-1.0, 4.5, 0.5))

#: hops, and the share of a node's own features, of simple spectral graph convolution
HOPS = 16
OWN = 0.1

#: how far Correct & Smooth spreads errors and labels, and in how many steps
ALPHAS = (0.8, 0.95)
STEPS = 50

# Weak penalties on thousands of rows would take far more.
_ITERATIONS = 500


@peer("LR", quick=True, sources="features")
def logistic_regression(data: Data, split: Split, seed: int) -> Array:
    """Logistic regression on the features alone, C chosen by log-loss."""
    return _fit_raw(scaled(data), data, split, seed)[0]


@peer("S²GC + LR", quick=True)
def s2gc(data: Data, split: Split, seed: int) -> Array:
    """Logistic regression on smoothed features, C chosen by accuracy."""
    return fit_smoothed(data, split, seed, PENALTIES)


@peer("S²GC + LR (by log-loss)", quick=True)
def s2gc_by_loss(data: Data, split: Split, seed: int) -> Array:
    """Logistic regression on smoothed features, C chosen by log-loss."""
    return fit_smoothed(data, split, seed, FINE, by_loss=True)


@peer("Correct & Smooth", quick=True)
def correct_and_smooth(data: Data, split: Split, seed: int) -> Array:
    """Huang et al. (ICLR 2021) on logistic regression: spread its errors, then the labels.

    How far to spread each of them, and whether to scale the errors ("autoscale") or to hold those
    of labelled nodes ("FDiff"), is chosen. Where there are no features, the regression is on
    singular vectors of the graph.
    """
    adjacency = normalised(data.links, self_loops=False)
    X = structure(data.links, seed) if data.X is None else scaled(data)
    _, penalty = _fit_raw(X, data, split, seed)

    def fit(part: Split) -> list[Array]:
        (proba,) = _probas(X, data, part, (penalty,))
        return _corrected(proba, adjacency, part)

    return fit_best(fit, data, split, seed)[0]


def _corrected(proba: Array, adjacency: sp.csr_array, split: Split) -> list[Array]:
    """Return the probabilities after both steps, for every setting."""
    train, truth = split.train, np.eye(proba.shape[1])[split.y[split.train]]
    errors = np.zeros_like(proba)
    errors[train] = truth - proba[train]
    mean = np.abs(errors[train]).sum() / len(train)
    starts = []
    for alpha in ALPHAS:
        spread = _spread(adjacency, errors, alpha)
        # Far from the labels the spread errors are small: scaled, they have the mean size again.
        sizes = np.abs(spread).sum(axis=1, keepdims=True)
        scale = np.divide(mean, sizes, out=np.zeros_like(sizes), where=sizes > 1e-6)
        held = _spread(adjacency, errors, alpha, fixed=train)
        for correction in (scale * spread, held):
            corrected = proba + correction
            corrected[train] = truth
            starts.append(corrected)
    found = []
    for alpha in ALPHAS:
        smooth = _spread(adjacency, np.hstack(starts), alpha)
        found += [as_proba(part, split) for part in np.hsplit(smooth, len(starts))]
    return found


def _fit_raw(X: Any, data: Data, split: Split, seed: int) -> tuple[Array, float]:
    """Return the probabilities with the best penalty by log-loss, and that penalty.

    By accuracy, few labels leave many penalties equal, and the worst calibrated among the best.
    """
    proba, place = fit_best(
        lambda part: _probas(X, data, part, PENALTIES), data, split, seed, by_loss=True
    )
    return proba, PENALTIES[place]


def _probas(X: Any, data: Data, split: Split, penalties: Sequence[float]) -> list[Array]:
    weights, offsets = _models(dense(X[split.train]), data, split, penalties)
    return _as_probas(X @ weights + offsets, data)


def fit_smoothed(
    data: Data, split: Split, seed: int, penalties: Sequence[float], by_loss: bool = False
) -> Array:
    """Fit on ``(1 − α)·S X + α·X``, S the mean of Â, Â², …, Â¹⁶ (Zhu and Koniusz, ICLR 2021).

    Of S X only what is needed is formed: S (X w) of each model and the training rows, with fewer
    labels than features from the columns of S (it is symmetric) at the training nodes.
    """
    X, adjacency = scaled(data), normalised(data.links)
    known = split.train
    if len(known) < X.shape[1]:
        columns = np.zeros((len(split.y), len(known)), dtype=np.float32)
        columns[known, np.arange(len(known))] = 1.0
        rows = (X.T @ _smooth(adjacency, columns)).T
    else:
        rows = _smooth(adjacency, dense(X))[known]

    def fit(part: Split) -> list[Array]:
        chosen = rows[np.searchsorted(known, part.train)]
        weights, offsets = _models(chosen, data, part, penalties)
        return _as_probas(_smooth(adjacency, X @ weights) + offsets, data)

    return fit_best(fit, data, split, seed, by_loss=by_loss)[0]


def _models(
    rows: Array, data: Data, split: Split, penalties: Sequence[float]
) -> tuple[Array, Array]:
    """Fit one model per penalty to the rows of the training nodes.

    Returns
    -------
    weights : ndarray of shape (d, m·K)
        Side by side, those of m models.
    offsets : ndarray of shape (m·K,)
        Minus infinity for classes without a label.
    """
    weights = np.zeros((rows.shape[1], len(penalties), data.n_classes), dtype=np.float32)
    offsets = np.full(weights.shape[1:], -np.inf, dtype=np.float32)
    unit = max(np.sqrt((rows.astype(np.float64) ** 2).sum() / len(rows)), 1e-12)
    regression = LogisticRegression(max_iter=_ITERATIONS, warm_start=True)
    # Several threads make such small matrices slower.
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        # The optimum lies in the span of the rows: as many coordinates as rows suffice.
        basis, coordinates = np.linalg.qr(rows.T.astype(np.float64) / unit)
        for number, penalty in enumerate(penalties):
            regression.set_params(C=penalty).fit(coordinates.T, split.y[split.train])
            slopes, constants = regression.coef_, regression.intercept_
            if len(slopes) == 1:  # of two classes scikit-learn keeps the second one's
                slopes, constants = np.vstack([0 * slopes, slopes]), np.append(0, constants)
            weights[:, number, regression.classes_] = basis @ slopes.T / unit
            offsets[number, regression.classes_] = constants
    return weights.reshape(len(weights), -1), offsets.ravel()


def _as_probas(scores: Array, data: Data) -> list[Array]:
    """Return the probabilities of each of m models by their scores, shape (n, m·K)."""
    parts = np.hsplit(scores, scores.shape[1] // data.n_classes)
    return [softmax(part.astype(np.float64), axis=1) for part in parts]


def _smooth(adjacency: sp.csr_array, columns: Array) -> Array:
    total, current = np.zeros_like(columns), columns
    for _ in range(HOPS):
        current = adjacency @ current
        total += current
    return (1 - OWN) / HOPS * total + OWN * columns


def _spread(
    adjacency: sp.csr_array, start: Array, alpha: float, fixed: NDArray[np.int64] | None = None
) -> Array:
    """Return α Â-averages of what is around plus 1 − α of the start, which some nodes keep."""
    start = start.astype(np.float32)
    current = start
    for _ in range(STEPS):
        if fixed is None:
            current = alpha * (adjacency @ current) + (1 - alpha) * start
        else:
            current = alpha * (adjacency @ current)
            current[fixed] = start[fixed]
    return current
