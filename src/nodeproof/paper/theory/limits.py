"""What no method can beat: when classes can be recovered without a single error.

The genie, who knows all other classes, takes a node v of class i for one of class j if the
likelihood of j is larger. Given v's own label y (or that it has none),

    P[j beats i | y] ≤ min_{0≤s≤1} (π_j P_j(y) / (π_i P_i(y)))^s exp(−C_ij(s)),
    C_ij(s) = −Σ_k n_k log Σ_{a∈{0,1}} p_ik(a)^{1−s} p_jk(a)^s − log ∫ N_i(x)^{1−s} N_j(x)^s dx,

links to class k and features x being independent given the class; n_i does not count v itself.
Summed over y with weights P_i(y) this is exp(−E_ij), E_ij the *exponent*. The label is not part of
C: with labels that are almost always right, a node errs either with a wrong label or with links
that outweigh the right one, and the best s is another in each case.

Known results: for p = a·log n/n, q = b·log n/n, a fixed number of classes of proportional sizes
and no side information, exact recovery is possible if all ``E_ij > log n`` and impossible if one
is below, asymptotically: E/log n tends to the Chernoff–Hellinger divergence D₊ (Abbe and Sandon,
arXiv 1503.00609), for two equal classes ``(√a − √b)²/2``. With labels of which n^−β are wrong, or
all but n^−β revealed, it tends to the limits of Saad and Nosratinia (arXiv 1805.08901) for two
equal classes; for features see Dreveton, Fernandes and Figueiredo (arXiv 2310.19854).

At finite n: the bound on the genie's errors is rigorous. If classes are drawn independently, no
method is error-free more often than the genie: a node that the genie gets wrong makes another
labelling more probable than the true one. That methods reach the genie is proven in the limit only,
so `possible`, which compares exponents with log n, is a rule of thumb.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import xlog1py, xlogy

from nodeproof.errors import InputError
from nodeproof.paper.theory.models import maximise

__all__ = ["Recovery", "chernoff_hellinger", "exact_recovery", "genie_errors"]

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
    """Estimate by Monte Carlo how many nodes the genie gets wrong, and the standard error.

    It knows the parameters and all other classes, and sees a node's links, its features and its
    own label. The expected number is a sum over nodes, so they can be drawn one by one: no graph is
    needed, and the time does not depend on their number.

    Parameters
    ----------
    sizes, p, q, label_ratio, label_accuracy, features
        As for :func:`nodeproof.paper.theory.exact_recovery`.
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
    >>> from nodeproof.paper import theory
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


@dataclass(frozen=True)
class Recovery:
    """Whether exact recovery is possible, and how many errors the genie makes at most.

    Attributes
    ----------
    n_nodes : int
        n.
    exponents : ndarray of shape (K, K)
        E_ij: nodes of class i look more like class j with probability at most exp(−E_ij), at equal
        proportions; infinite on the diagonal.
    expected_errors : float
        Upper bound of the number of nodes that the genie gets wrong, class proportions as prior.
    """

    n_nodes: int
    exponents: Array
    expected_errors: float

    @property
    def exponent(self) -> float:
        """The least E_ij; infinite for one class."""
        return float(self.exponents.min())

    @property
    def margin(self) -> float:
        """``E/log n − 1``: above 0 recovery is possible, below impossible, as n grows."""
        return self.exponent / float(np.log(self.n_nodes)) - 1.0

    @property
    def possible(self) -> bool:
        """Whether the least exponent is above log n."""
        return self.margin > 0


def exact_recovery(
    sizes: ArrayLike,
    p: ArrayLike,
    q: float | None = None,
    label_ratio: float = 0.0,
    label_accuracy: float = 1.0,
    features: ArrayLike | None = None,
) -> Recovery:
    """Tell whether planted classes can be recovered without error.

    Parameters
    ----------
    sizes : array of shape (K,)
        Nodes in each class.
    p : float, or array of shape (K, K)
        Probability of a link inside a class; or all probabilities, then without q.
    q : float, optional
        Probability of a link across classes.
    label_ratio, label_accuracy : float
        Share of the nodes with a label, and of the labels that are right; a wrong one is uniform
        over the other classes.
    features : array of shape (K, m, m), optional
        Covariances of centred Gaussian features, such as ``params["covariances"]`` of
        :func:`nodeproof.datasets.make_planted`.

    Examples
    --------
    >>> from nodeproof.paper import theory
    >>> theory.exact_recovery([300, 300, 300], 0.1, 0.05).possible
    False
    >>> found = theory.exact_recovery([300, 300, 300], 0.2, 0.05)
    >>> found.possible, found.expected_errors < 0.1
    (True, True)
    """
    counts, densities = check_model(sizes, p, q)
    check_shares(label_ratio=label_ratio, label_accuracy=label_accuracy)
    K, n = len(counts), int(counts.sum())
    spectra = None if features is None else _spectra(check_covariances(features, K))
    labels = label_probabilities(K, label_ratio, label_accuracy)
    exponents, errors = np.full((K, K), np.inf), 0.0
    for i in range(K):
        others = counts - (np.arange(K) == i)
        wrong = 0.0
        for j in range(K):
            if j == i:
                continue

            def separation(s: Array, i: int = i, j: int = j, others: Array = others) -> Array:
                total = _link_exponent(densities[i], densities[j], others, s)
                return total if spectra is None else total + _gauss_exponent(spectra[i, j], s)

            exponents[i, j] = _exponent(separation, labels[i], labels[j], 0.0)
            prior = float(np.log(counts[j] / counts[i]))
            wrong += float(np.exp(-_exponent(separation, labels[i], labels[j], prior)))
        errors += float(counts[i]) * min(1.0, wrong)
    return Recovery(n, exponents, errors)


def chernoff_hellinger(sizes: ArrayLike, p: ArrayLike, q: float | None = None) -> Array:
    """Return D₊ of each two classes, shape (K, K): the limit of E_ij/log n for links alone.

        D₊(i, j) = max_s Σ_k n_k ((1 − s) p_ik + s p_jk − p_ik^{1−s} p_jk^s) / log n

    Exact recovery is possible in the limit if all are above 1. The diagonal is infinite.

    Examples
    --------
    >>> import numpy as np
    >>> from nodeproof.paper import theory
    >>> n, a, b = 10_000, 9.0, 4.0
    >>> theory.chernoff_hellinger([n // 2] * 2, a * np.log(n) / n, b * np.log(n) / n).round(6)
    array([[inf, 0.5],
           [0.5, inf]])
    """
    counts, densities = check_model(sizes, p, q)
    first, second = np.nonzero(~np.eye(len(counts), dtype=bool))

    def divergence(s: Array) -> Array:
        s = s[:, None]
        own, other = densities[first], densities[second]
        return np.asarray(
            ((1 - s) * own + s * other - _geometric(own, other, s)) @ counts.astype(np.float64)
        )

    result = np.full((len(counts),) * 2, np.inf)
    result[first, second] = maximise(divergence, first.shape)[1] / np.log(counts.sum())
    return result


def _exponent(
    separation: Callable[[Array], Array], own: Array, other: Array, prior: float
) -> float:
    """Return ``−log Σ_y min_s P_i(y)^{1−s} P_j(y)^s exp(s·prior − C(s))``, y over all labels."""
    seen = (own > 0) & (other > 0)  # a label that class j never has gives class i away
    if not seen.any():
        return float(np.inf)
    log_own, log_other = np.log(own[seen]), np.log(other[seen])

    def value(s: Array) -> Array:
        return np.asarray(separation(s) - (1 - s) * log_own - s * (log_other + prior))

    best = maximise(value, log_own.shape)[1]
    return float(-np.logaddexp.reduce(-best))


def label_probabilities(K: int, ratio: float, accuracy: float) -> Array:
    """Return the probability of each label in each class, the last for none: (K, K + 1)."""
    wrong = (1.0 - accuracy) / (K - 1) if K > 1 else 0.0
    table = np.full((K, K + 1), ratio * wrong)
    np.fill_diagonal(table, ratio * accuracy)
    table[:, K] = 1.0 - ratio
    return table


def _geometric(own: Array, other: Array, s: Array) -> Array:
    """Return ``own^{1−s} other^s``, 0 where one of them is 0."""
    return np.asarray(np.where((own > 0) & (other > 0), own ** (1 - s) * other**s, 0.0))


def _link_exponent(own: Array, other: Array, counts: Array, s: Array) -> Array:
    """Return ``−Σ_k n_k log(p^{1−s} q^s + (1−p)^{1−s} (1−q)^s)`` at each s.

    Written as log(1 + small), because densities are small in large graphs.
    """
    s = np.asarray(s)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        none = np.expm1((1 - s) * np.log1p(-own) + s * np.log1p(-other))
        none = np.where((own < 1) & (other < 1), none, -1.0)
        logs = np.log1p(np.maximum(_geometric(own, other, s) + none, -1.0))
        parts = np.where((own == other) | (counts == 0), 0.0, -counts * logs)
    return np.asarray(np.maximum(parts, 0.0).sum(axis=1))


def _spectra(covariances: Array) -> Array:
    """Return the eigenvalues of ``R_i R_j⁻¹`` for each two classes, shape (K, K, m)."""
    K, m = covariances.shape[:2]
    spectra = np.ones((K, K, m))
    for j in range(K):
        factor = np.linalg.cholesky(covariances[j])
        for i in range(K):
            half = np.linalg.solve(factor, covariances[i])
            spectra[i, j] = np.linalg.eigvalsh(np.linalg.solve(factor, half.T))
    return spectra


def _gauss_exponent(spectrum: Array, s: Array) -> Array:
    """Return ``½ Σ_m log(1 − s + s·λ_m) − s log λ_m`` at each s."""
    s = np.asarray(s)[:, None]
    return np.asarray(0.5 * (np.log1p(s * (spectrum - 1.0)) - s * np.log(spectrum)).sum(axis=1))


def check_model(sizes: ArrayLike, p: ArrayLike, q: float | None) -> tuple[NDArray[np.int64], Array]:
    """Return the sizes of the classes and the densities of links, shapes (K,) and (K, K)."""
    counts = np.asarray(sizes)
    if counts.ndim != 1 or not np.issubdtype(counts.dtype, np.integer) or (counts < 1).any():
        raise InputError(f"sizes must list the nodes of each class, all at least 1; got {sizes!r}")
    K = len(counts)
    densities = np.asarray(p, dtype=np.float64)
    if (densities.ndim == 0) == (q is None):
        raise InputError("give p and q, or all densities as p, shape (K, K), and no q")
    if q is not None:
        densities = np.where(np.eye(K, dtype=bool), densities, q)
    if densities.shape != (K, K) or not np.array_equal(densities, densities.T):
        raise InputError(f"densities must be symmetric, one for each two of {K} classes")
    if not ((densities >= 0) & (densities <= 1)).all():
        raise InputError(f"p and q must lie in 0…1, got {p!r} and {q!r}")
    return counts.astype(np.int64), densities


def check_covariances(features: ArrayLike, K: int) -> Array:
    """Return the covariances, shape (K, m, m)."""
    covariances = np.asarray(features, dtype=np.float64)
    if (
        covariances.ndim != 3
        or len(covariances) != K
        or covariances[0].shape[0] != (covariances[0].shape[1])
    ):
        raise InputError(
            f"features must hold a covariance for each of {K} classes, shape ({K}, m, m); got "
            f"shape {covariances.shape}"
        )
    if not (np.linalg.eigvalsh(covariances) > 0).all():
        raise InputError("features must hold positive definite covariances")
    return covariances


def check_shares(**values: float) -> None:
    """Raise an error for values outside [0, 1]."""
    for name, value in values.items():
        if not 0 <= value <= 1:
            raise InputError(f"{name} must lie in 0…1, got {value}")
