"""Multinomial logistic regression on soft targets, and how far to trust its scores."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize, minimize_scalar
from scipy.special import log_softmax, softmax

from nodeproof.runtime import threads

__all__ = [
    "assign_folds",
    "balance",
    "crossfit",
    "estimate_proportions",
    "fit_logistic",
    "fit_noise",
    "fit_scale",
    "from_basis",
    "held_out_scores",
    "match_confidence",
    "principal_axes",
    "shares",
    "with_noise",
]

Array = NDArray[np.float64]

# Scores are scaled by no less and no more.
_LEAST_SCALE, _MOST_SCALE = 0.1, 50.0

# Shares of wrong labels, and scales, that are compared; on clean labels the likelihood gains
# less than a factor of e² by any.
_NOISES = np.linspace(0.0, 0.6, 21)
_SCALES = np.geomspace(0.5, 20.0, 16)
_WORTH_TELLING = 12.0

# Typical curvature of a softmax in one score, p(1 − p).
_CURVATURE = 0.1

# A gradient of length g is about so many g² above the least loss.
_SLACK = 30.0

# Squares of singular values below this share of the largest are zero.
_NO_VALUE = 1e-12

# Shares of wrong labels that are called few.
_FEW = 0.1


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
    weights : ndarray of shape (n,) or (n, F), optional
        How much each row counts; one by default. With F columns, F regressions are fitted at
        once: one product then serves them all.
    start : ndarray of shape (K, d + 1) or (F, K, d + 1), optional
        Coefficients to start from.
    tol : float
        Largest entry of the gradient of the mean loss at the end, in units of the curvature.
    max_iter : int
        Most steps of L-BFGS.

    Returns
    -------
    ndarray of shape (K, d + 1) or (F, K, d + 1)
    """
    n, d = Z.shape
    if n < d:  # no solution leaves the span of the rows
        basis, coordinates = principal_axes(Z)
        inside = None if start is None else _in_basis(start, basis)
        found = _fit(coordinates, targets, l2, weights, inside, tol, max_iter)
        return from_basis(found, basis)
    return _fit(Z, targets, l2, weights, start, tol, max_iter)


def _fit(
    Z: NDArray[np.floating],
    targets: Array,
    l2: float,
    weights: Array | None,
    start: Array | None,
    tol: float,
    max_iter: int,
) -> Array:
    (n, d), K = Z.shape, targets.shape[1]
    mass = np.ones((1, n)) if weights is None else np.ascontiguousarray(weights.reshape(n, -1).T)
    F, total = len(mass), mass.sum(axis=1).mean()
    # Classes come before rows: what is summed over classes then are long rows.
    share = mass[:, None, :].astype(Z.dtype)
    charged = (share * targets.T.astype(Z.dtype)).reshape(F * K, n)
    told = np.empty((F * K, d + 1))
    told[:, :d], told[:, d] = charged @ Z, charged.sum(axis=1, dtype=np.float64)
    # In units of their own curvature, columns of any length are found in a few steps.
    squares = np.einsum("vj,vj,v->j", Z, Z, mass.mean(axis=0).astype(Z.dtype), dtype=np.float64)
    unit = np.append(np.sqrt(total / (_CURVATURE * squares + l2)), np.sqrt(1.0 / _CURVATURE))

    def objective(flat: Array) -> tuple[float, Array]:
        theta = unit * flat.reshape(F * K, d + 1)
        slopes, constants = theta[:, :d].astype(Z.dtype), theta[:, d:].astype(Z.dtype)

        def part(lo: int, hi: int) -> Array:
            scores = slopes @ Z[lo:hi].T
            scores += constants
            by_class = scores.reshape(F, K, hi - lo)
            top = by_class.max(axis=1, keepdims=True)
            by_class -= top
            np.exp(scores, out=scores)
            norm = by_class.sum(axis=1, keepdims=True)
            by_class *= share[:, :, lo:hi] / norm
            out = np.empty(F * K * (d + 1) + 1)
            gradient = out[:-1].reshape(F * K, d + 1)
            gradient[:, :d] = scores @ Z[lo:hi]
            gradient[:, d] = scores.sum(axis=1, dtype=np.float64)
            out[-1] = np.vdot(mass[:, lo:hi], top[:, 0] + np.log(norm[:, 0]))
            return out

        out = threads.sum_rows(part, n)
        gradient = out[:-1].reshape(F * K, d + 1) - told
        gradient[:, :d] += l2 * theta[:, :d]
        value = out[-1] - np.vdot(told, theta) + 0.5 * l2 * np.vdot(theta[:, :d], theta[:, :d])
        return float(value) / total, (gradient * unit).ravel() / total

    begin = np.zeros((F, K, d + 1)) if start is None else np.broadcast_to(start, (F, K, d + 1))
    found = minimize(
        objective,
        (begin / unit).ravel(),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": max_iter, "gtol": tol, "ftol": max(_SLACK * tol**2, 1e-12)},
    )
    theta = unit * found.x.reshape(F, K, d + 1)
    return np.asarray(theta[0] if weights is None or weights.ndim == 1 else theta)


def principal_axes(
    Z: NDArray[np.floating],
) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """Return orthonormal axes that rows lie in, (d, r), and their coordinates, (n, r)."""
    rows = Z.astype(np.float64)
    values, vectors = np.linalg.eigh(rows @ rows.T)
    kept = values > _NO_VALUE * max(values[-1], _NO_VALUE)
    lengths = np.sqrt(values[kept])
    coordinates = vectors[:, kept] * lengths
    axes = rows.T @ (vectors[:, kept] / lengths)
    return axes.astype(Z.dtype), coordinates.astype(Z.dtype)


def _in_basis(theta: Array, basis: NDArray[np.floating]) -> Array:
    return np.concatenate([theta[..., :-1] @ basis, theta[..., -1:]], axis=-1)


def from_basis(theta: Array, basis: NDArray[np.floating]) -> Array:
    """Return coefficients of features from those of coordinates in a basis, (d, r)."""
    return np.concatenate([theta[..., :-1] @ basis.T, theta[..., -1:]], axis=-1)


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
    weights: Array | None = None,
) -> Array:
    """Return regressions each of which has not seen the targets of a fold, (F, K, d + 1)."""
    seen = (folds[:, None] != np.arange(int(folds.max()) + 1)).astype(np.float64)
    if weights is not None:
        seen *= weights[:, None]
    # From nothing: a start that has seen all targets would shine through.
    return fit_logistic(Z, targets, l2, seen, tol=3e-4)


def held_out_scores(Z: NDArray[np.floating], theta: Array, folds: NDArray[np.int64]) -> Array:
    """Return the scores of each row by the regression of its fold, shape (n, K).

    Parameters
    ----------
    theta : ndarray of shape (F, K, d + 1)
        One regression a fold.
    """
    slopes, constants = theta[:, :, :-1], theta[:, :, -1]
    scores = np.empty((len(Z), theta.shape[1]))
    for fold in range(len(theta)):
        here = folds == fold
        scores[here] = Z[here] @ slopes[fold].T + constants[fold]
    return scores


def fit_scale(
    scores: Array,
    targets: Array,
    weights: Array | None = None,
    spread: float = np.inf,
    noise: float = 0.0,
) -> float:
    """Return the factor of the scores at which their softmax is nearest to the targets.

    Parameters
    ----------
    scores : ndarray of shape (n, K)
        Of nodes that the model was not fitted to, or fitted under a penalty that shrinks them.
    targets : ndarray of shape (n, K)
        Rows on the simplex.
    weights : ndarray of shape (n,), optional
        How much each row counts; one by default.
    spread : float
        The logarithm of the factor is believed to be 0, give or take this.
    noise : float
        Share of targets that name another class at random.
    """
    charged = targets if weights is None else weights[:, None] * targets

    def cross_entropy(log_scale: float) -> float:
        log_p = log_softmax(np.exp(log_scale) * scores, axis=1)
        fit = -float(np.vdot(charged, with_noise(log_p, noise)))
        return fit + 0.5 * (log_scale / spread) ** 2

    bounds = (np.log(_LEAST_SCALE), np.log(_MOST_SCALE))
    return float(np.exp(minimize_scalar(cross_entropy, bounds=bounds, method="bounded").x))


def with_noise(log_proba: Array, noise: float) -> Array:
    """Return log-probabilities of labels, a share of which name another class at random."""
    if noise == 0.0:
        return log_proba
    elsewhere = noise / (log_proba.shape[1] - 1)
    return np.asarray(np.log((1.0 - noise - elsewhere) * np.exp(log_proba) + elsewhere))


def fit_noise(
    scores: Array,
    targets: Array,
    weights: Array | None = None,
    spread: float = np.inf,
    worth_telling: float = _WORTH_TELLING,
    few_worth_telling: float | None = None,
) -> float:
    """Return the share of labels that name another class at random, as far as can be told.

    The likeliest, together with the scale of the scores; 0 unless it is likelier by a factor
    of `worth_telling`. Confident scores that are sometimes plainly wrong ask for noise,
    unsure ones for a smaller scale.

    Parameters
    ----------
    scores : ndarray of shape (n, K)
        Of nodes that the model was not fitted to.
    targets : ndarray of shape (n, K)
        Labels, one-hot.
    spread : float
        The logarithm of the scale is believed to be 0, give or take this.
    worth_telling, few_worth_telling : float
        By what factor wrong labels must be likelier than none: in general, and if they are fewer
        than a tenth (the same by default).
    """
    K = scores.shape[1]
    if K < 2:
        return 0.0
    charged = targets if weights is None else weights[:, None] * targets
    best = np.full(len(_NOISES), -np.inf)
    scales = _SCALES if np.isinf(spread) else np.exp(spread * np.linspace(-3.0, 3.0, 13))
    for scale in scales:
        unlikely = 0.5 * float(np.log(scale) / spread) ** 2
        proba = np.exp(log_softmax(scale * scores, axis=1))
        for k, noise in enumerate(_NOISES):
            if noise >= (K - 1) / K:
                break
            elsewhere = noise / (K - 1)
            likely = np.log(np.maximum((1.0 - noise - elsewhere) * proba + elsewhere, 1e-300))
            best[k] = max(best[k], float(np.vdot(charged, likely)) - unlikely)
    few = worth_telling if few_worth_telling is None else few_worth_telling
    ahead = best - best[0] - np.log(np.where(_NOISES < _FEW, few, worth_telling))
    at = int(ahead[1:].argmax()) + 1
    return float(_NOISES[at]) if ahead[at] > 0 else 0.0


def match_confidence(scores: Array, standard: Array) -> float:
    """Return the factor at which scores are as confident, in the mean, as the standard ones.

    Confidence is the largest probability of a row.

    Parameters
    ----------
    scores, standard : ndarray of shape (n, K)
        Logarithms of probabilities, up to a constant a row.
    """
    wanted = _mean_confidence(_below_top(standard), 1.0)
    below = _below_top(scores)

    def excess(log_scale: float) -> float:
        return _mean_confidence(below, float(np.exp(log_scale))) - wanted

    low, high = np.log(_LEAST_SCALE), np.log(_MOST_SCALE)
    if excess(low) >= 0.0:
        return _LEAST_SCALE
    if excess(high) <= 0.0:
        return _MOST_SCALE
    return float(np.exp(brentq(excess, low, high, xtol=1e-3)))


def _below_top(scores: Array) -> Array:
    """Return scores less the largest of their row, classes before rows, shape (K, n)."""
    return np.ascontiguousarray((scores - scores.max(axis=1, keepdims=True)).T)


def _mean_confidence(below: Array, scale: float) -> float:
    """Return the mean of the largest probability at this factor of the scores."""
    return float((1.0 / np.exp(scale * below).sum(axis=0)).mean())


def balance(codes: NDArray[np.int64]) -> Array:
    """Return weights of labelled nodes that give every class the same total, mean one.

    A penalty shrinks scores and they are scaled back. The constants of the classes are scaled
    with them: what they say of how many labels a class has would be blown up.
    """
    counts = np.bincount(codes)
    return np.asarray(len(codes) / ((counts > 0).sum() * counts[codes]), dtype=np.float64)


def shares(rows: Array) -> Array:
    """Return the share of each class in rows, one row added to all of them, shape (K,)."""
    K = rows.shape[1]
    return np.asarray((rows.sum(axis=0) + 1.0 / K) / (rows.sum() + 1.0))


def estimate_proportions(
    scores: Array, learnt: Array, start: Array | None = None, steps: int = 1
) -> Array:
    """Return the proportions of the classes among nodes, by a classifier of known proportions.

    By expectation maximisation: each step takes the mean probability at the proportions of the
    step before. One step goes half of the way and more; where the classifier is not as
    calibrated as it should be, going on would empty its weakest classes.

    Parameters
    ----------
    scores : ndarray of shape (n, K)
        Logarithms of calibrated probabilities, up to a constant a row.
    learnt : ndarray of shape (K,)
        Proportions among the nodes that the classifier was fitted to.
    start : ndarray of shape (K,), optional
        Where to begin; there by default.
    """
    proportions = learnt if start is None else start
    for _ in range(steps):
        proportions = shares(softmax(scores + np.log(proportions / learnt), axis=1))
    return proportions
