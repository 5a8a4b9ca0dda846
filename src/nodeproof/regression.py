"""Multinomial logistic regression on soft targets, and how far to trust its scores."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize, minimize_scalar
from scipy.special import log_softmax, softmax

from nodeproof import threads

__all__ = ["assign_folds", "crossfit", "fit_logistic", "fit_scale", "match_confidence"]

Array = NDArray[np.float64]

# Scores are scaled by no less and no more.
_LEAST_SCALE, _MOST_SCALE = 0.1, 50.0


def fit_logistic(
    Z: NDArray[np.floating],
    targets: Array,
    l2: float,
    weights: Array | None = None,
    start: Array | None = None,
    tol: float = 1e-5,
    max_iter: int = 100,
) -> Array:
    """Return the coefficients that minimise the cross-entropy plus ``l2/2 ‖θ‖²``.

    The constant of each class, the last column, is not penalised.

    Parameters
    ----------
    Z : ndarray of shape (n, d)
        Features.
    targets : ndarray of shape (n, K)
        Rows on the simplex.
    l2 : float
        Penalty.
    weights : ndarray of shape (n,), optional
        How much each row counts; one by default.
    start : ndarray of shape (K, d + 1), optional
        Coefficients to start from.

    Returns
    -------
    ndarray of shape (K, d + 1)
    """
    n, d = Z.shape
    K = targets.shape[1]
    charged = targets if weights is None else weights[:, None] * targets
    mass = charged.sum(axis=1, keepdims=True)
    total = float(mass.sum())

    def objective(flat: Array) -> tuple[float, Array]:
        theta = flat.reshape(K, d + 1)
        slopes = theta[:, :d].T.astype(Z.dtype)

        def part(lo: int, hi: int) -> Array:
            log_p = log_softmax((Z[lo:hi] @ slopes).astype(np.float64) + theta[:, d], axis=1)
            residual = mass[lo:hi] * np.exp(log_p) - charged[lo:hi]
            out = np.empty(K * (d + 1) + 1)
            gradient = out[:-1].reshape(K, d + 1)
            gradient[:, :d] = residual.T.astype(Z.dtype) @ Z[lo:hi]
            gradient[:, d] = residual.sum(axis=0)
            out[-1] = -np.vdot(charged[lo:hi], log_p)
            return out

        out = threads.sum_rows(part, n)
        gradient = out[:-1].reshape(K, d + 1)
        gradient[:, :d] += l2 * theta[:, :d]
        value = out[-1] + 0.5 * l2 * float(np.vdot(theta[:, :d], theta[:, :d]))
        return value / total, out[:-1] / total

    begin = np.zeros(K * (d + 1)) if start is None else start.ravel()
    found = minimize(
        objective,
        begin,
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": max_iter, "gtol": tol, "ftol": 1e-12},
    )
    return np.asarray(found.x.reshape(K, d + 1))


def assign_folds(codes: NDArray[np.int64], n_folds: int) -> NDArray[np.int64]:
    """Return the fold of each labelled node, every class spread evenly over them.

    Parameters
    ----------
    codes : ndarray of shape (n,)
        Classes 0…K−1.
    """
    order = np.random.default_rng(0).permutation(len(codes))
    order = order[np.argsort(codes[order], kind="stable")]
    folds = np.empty(len(codes), dtype=np.int64)
    folds[order] = np.arange(len(codes)) % n_folds
    return folds


def crossfit(
    Z: NDArray[np.floating],
    targets: Array,
    l2: float,
    folds: NDArray[np.int64],
    start: Array | None = None,
) -> Array:
    """Return the scores of each row by a regression that has not seen its target, (n, K)."""
    scores = np.zeros_like(targets)
    for fold in range(int(folds.max()) + 1):
        held = folds == fold
        theta = fit_logistic(Z[~held], targets[~held], l2, start=start, tol=1e-4)
        scores[held] = Z[held] @ theta[:, :-1].T + theta[:, -1]
    return scores


def fit_scale(scores: Array, targets: Array, weights: Array | None = None) -> float:
    """Return the factor of the scores at which their softmax is nearest to the targets.

    Parameters
    ----------
    scores : ndarray of shape (n, K)
        Of rows that the model was not fitted to, or fitted under a penalty that shrinks them.
    targets : ndarray of shape (n, K)
        Rows on the simplex.
    """
    charged = targets if weights is None else weights[:, None] * targets

    def cross_entropy(log_scale: float) -> float:
        return -float(np.vdot(charged, log_softmax(np.exp(log_scale) * scores, axis=1)))

    bounds = (np.log(_LEAST_SCALE), np.log(_MOST_SCALE))
    return float(np.exp(minimize_scalar(cross_entropy, bounds=bounds, method="bounded").x))


def match_confidence(scores: Array, standard: Array) -> float:
    """Return the factor at which scores are as confident, in the mean, as the standard ones.

    Confidence is the largest probability of a row.

    Parameters
    ----------
    scores, standard : ndarray of shape (n, K)
        Logarithms of probabilities, up to a constant a row.
    """
    wanted = float(softmax(standard, axis=1).max(axis=1).mean())

    def excess(log_scale: float) -> float:
        return float(softmax(np.exp(log_scale) * scores, axis=1).max(axis=1).mean()) - wanted

    low, high = np.log(_LEAST_SCALE), np.log(_MOST_SCALE)
    if excess(low) >= 0.0:
        return _LEAST_SCALE
    if excess(high) <= 0.0:
        return _MOST_SCALE
    return float(np.exp(brentq(excess, low, high, xtol=1e-3)))
