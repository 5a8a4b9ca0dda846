"""Logistic regression: on the features as they are, smoothed over the graph, and corrected by it.

The features' rows are brought to length one; the strength C of the penalty is chosen on the
validation nodes.
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
from sklearn.metrics import log_loss
from threadpoolctl import threadpool_limits

from peers.registry import Data, Split, as_proba, better, normalised, peer

Array = NDArray[Any]

#: penalties to choose from by accuracy and, finer, by log-loss (for rows of mean square length
#: one), and the one that is taken without validation nodes
PENALTIES = tuple(10.0 ** np.arange(-1.0, 5.0))
FINE = tuple(10.0 ** np.arange(-1.0, 4.5, 0.5))
FIXED = (30.0,)

#: hops, and the share of a node's own features, of simple spectral graph convolution
HOPS = 16
OWN = 0.1


@peer("LR", quick=True)
def logistic_regression(data: Data, split: Split, seed: int) -> Array:
    """Logistic regression on the features alone."""
    return _raw(data, split)


@peer("S²GC + LR", quick=True)
def s2gc(data: Data, split: Split, seed: int) -> Array:
    """Logistic regression on smoothed features, C chosen by validation accuracy."""
    return _smoothed(data, split, PENALTIES)


@peer("S²GC + LR (by log-loss)", quick=True)
def s2gc_by_loss(data: Data, split: Split, seed: int) -> Array:
    """Logistic regression on smoothed features, C chosen by validation log-loss."""
    return _smoothed(data, split, FINE, by_loss=True)


@peer("S²GC + LR (no search)", quick=True)
def s2gc_fixed(data: Data, split: Split, seed: int) -> Array:
    """Logistic regression on smoothed features, C fixed."""
    return _smoothed(data, split, FIXED)


@peer("Correct & Smooth", quick=True)
def correct_and_smooth(data: Data, split: Split, seed: int) -> Array:
    """Huang et al. (ICLR 2021) on logistic regression: spread its errors, then the labels.

    How far to spread, and whether to scale the errors, is chosen by validation accuracy.
    """
    adjacency = normalised(data.graph, self_loops=False)
    train, truth = split.train, np.eye(data.n_classes)[split.y[split.train]]
    proba = _raw(data, split)
    errors = np.zeros_like(proba)
    errors[train] = truth - proba[train]
    mean = np.abs(errors[train]).sum() / len(train)
    found = []
    for alpha in (0.8, 0.9):
        spread = _spread(adjacency, errors, alpha)
        # Far from the labels the spread errors are small: scaled, they have the mean size again.
        sizes = np.abs(spread).sum(axis=1, keepdims=True)
        scale = np.divide(mean, sizes, out=np.zeros_like(sizes), where=sizes > 1e-6)
        for correction in (scale * spread, spread):
            corrected = proba + correction
            corrected[train] = truth
            found.append(as_proba(_spread(adjacency, corrected, alpha), split))
    return _best(found, data, split)


def _raw(data: Data, split: Split) -> Array:
    if data.X is None:
        raise ValueError("the set has no features")
    X = _unit_rows(data.features)
    weights, offsets = _models(X[split.train].toarray(), data, split, PENALTIES)
    return _choose(X @ weights + offsets, data, split)


def _smoothed(data: Data, split: Split, penalties: Sequence[float], by_loss: bool = False) -> Array:
    """Fit on ``(1 − α)·S X + α·X``, S the mean of Â, Â², …, Â¹⁶ (Zhu and Koniusz, ICLR 2021).

    Only what is needed of S X is formed: the training rows, from the columns of S (it is
    symmetric) at the training nodes, and S (X w) of each model.
    """
    X, adjacency, train = _unit_rows(data.features), normalised(data.graph), split.train
    columns = np.zeros((len(split.y), len(train)), dtype=np.float32)
    columns[train, np.arange(len(train))] = 1.0
    rows = (X.T @ _smooth(adjacency, columns)).T
    weights, offsets = _models(rows, data, split, penalties)
    return _choose(_smooth(adjacency, X @ weights) + offsets, data, split, by_loss)


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
    penalties = penalties if len(split.validation) else FIXED
    weights = np.zeros((rows.shape[1], len(penalties), data.n_classes), dtype=np.float32)
    offsets = np.full(weights.shape[1:], -np.inf, dtype=np.float32)
    unit = max(np.sqrt((rows.astype(np.float64) ** 2).sum() / len(rows)), 1e-12)
    regression = LogisticRegression(max_iter=500, warm_start=True)
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


def _choose(scores: Array, data: Data, split: Split, by_loss: bool = False) -> Array:
    """Return the probabilities of the best of m models by their scores, shape (n, m·K)."""
    parts = np.hsplit(scores, scores.shape[1] // data.n_classes)
    probas = [softmax(part.astype(np.float64), axis=1) for part in parts]
    return _best(probas, data, split, by_loss)


def _best(probas: Sequence[Array], data: Data, split: Split, by_loss: bool = False) -> Array:
    """Return the best on the validation nodes; the first if there are none."""
    best, reached = probas[0], (-np.inf, np.inf)
    if len(probas) == 1 or len(split.validation) == 0:
        return best
    for proba in probas:
        seen, truth = proba[split.validation], split.validation_labels
        accuracy = float((seen.argmax(axis=1) == truth).mean())
        loss = float(log_loss(truth, seen, labels=range(data.n_classes)))
        found = (0.0 if by_loss else accuracy, loss)
        if better(found, reached):
            best, reached = proba, found
    return best


def _smooth(adjacency: sp.csr_array, columns: Array) -> Array:
    total, current = np.zeros_like(columns), columns
    for _ in range(HOPS):
        current = adjacency @ current
        total += current
    return (1 - OWN) / HOPS * total + OWN * columns


def _spread(adjacency: sp.csr_array, start: Array, alpha: float, steps: int = 50) -> Array:
    current = start
    for _ in range(steps):
        current = alpha * (adjacency @ current) + (1 - alpha) * start
    return current


def _unit_rows(X: sp.csr_array) -> sp.csr_array:
    lengths = np.sqrt(np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64))
    scale = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    return sp.csr_array(sp.diags_array(scale) @ X, dtype=np.float32)
