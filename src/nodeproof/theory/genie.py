"""The genie's errors by Monte Carlo: nodes drawn one by one, everything else known."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import xlog1py, xlogy

from nodeproof.theory.recovery import (
    check_covariances,
    check_model,
    check_shares,
    label_probabilities,
)

__all__ = ["genie_errors"]

Array = NDArray[np.float64]


def genie_errors(
    sizes: ArrayLike,
    p: ArrayLike,
    q: float | None = None,
    label_ratio: float = 0.0,
    label_accuracy: float = 1.0,
    features: ArrayLike | None = None,
    n_draws: int = 2000,
    random_state: int | np.random.Generator | None = None,
) -> tuple[float, float]:
    """Estimate how many nodes the genie gets wrong, and the standard error of that.

    It knows the parameters and all other classes, and sees a node's links, its features and its
    own label. The expected number is a sum over nodes, so they need not be drawn together: that
    takes no graph, and no more time for more nodes.

    Parameters
    ----------
    sizes, p, q, label_ratio, label_accuracy, features
        As for :func:`nodeproof.theory.exact_recovery`.
    n_draws : int
        Nodes drawn of each class.
    random_state : int, Generator or None
        Seed.

    Returns
    -------
    expected, error : float
        Ties count as errors.

    Examples
    --------
    >>> from nodeproof import theory
    >>> errors, _ = theory.genie_errors([300] * 3, 0.1, 0.05, random_state=0)
    >>> bound = theory.exact_recovery([300] * 3, 0.1, 0.05).expected_errors
    >>> 0 < errors < bound
    True
    """
    counts, densities = check_model(sizes, p, q)
    check_shares(label_ratio=label_ratio, label_accuracy=label_accuracy)
    K = len(counts)
    covariances = None if features is None else check_covariances(features, K)
    labels = label_probabilities(K, label_ratio, label_accuracy)
    rng = np.random.default_rng(random_state)
    expected, variance = 0.0, 0.0
    for i in range(K):
        others = counts - (np.arange(K) == i)
        links = rng.binomial(others, densities[i], size=(n_draws, K)).astype(np.float64)
        scores = np.log(counts) + _link_scores(links, others - links, densities)
        with np.errstate(divide="ignore"):
            scores += np.log(labels.T)[rng.choice(K + 1, size=n_draws, p=labels[i])]
        if covariances is not None:
            root = np.linalg.cholesky(covariances[i])
            scores += _feature_scores(
                rng.standard_normal((n_draws, len(root))) @ root.T, covariances
            )
        own = scores[:, i].copy()
        scores[:, i] = -np.inf
        share = float(np.mean(scores.max(axis=1) >= own))
        expected += float(counts[i]) * share
        variance += float(counts[i]) ** 2 * share * (1.0 - share) / n_draws
    return expected, float(np.sqrt(variance))


def _link_scores(links: Array, missing: Array, densities: Array) -> Array:
    """Return the log-likelihood of the links in each class, shape (draws, K)."""
    scores = xlogy(links[:, None], densities) + xlog1py(missing[:, None], -densities)
    return np.asarray(scores.sum(axis=2))


def _feature_scores(X: Array, covariances: Array) -> Array:
    """Return the log-likelihood of centred Gaussian features in each class, up to a constant."""
    columns = []
    for covariance in covariances:
        factor = np.linalg.cholesky(covariance)
        white = np.linalg.solve(factor, X.T)
        columns.append(-0.5 * (white**2).sum(axis=0) - np.log(np.diag(factor)).sum())
    return np.stack(columns, axis=1)
