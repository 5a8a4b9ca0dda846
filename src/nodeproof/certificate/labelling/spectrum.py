"""Lower bounds of the least eigenvalue of a large symmetric matrix.

A computed eigenvalue is no proof: a Ritz value lies above the least eigenvalue, never below.
Known null vectors V are set apart first. With x = Va + y, y ⟂ V,

    xᵀNx ≥ −κ‖Va‖² − 2ρ‖Va‖‖y‖ + δ‖y‖²,    κ ≥ ‖VᵀNV‖,  ρ ≥ ‖NV‖,

and δ is what N has at least on the complement: by a Cholesky factorisation that runs to its end
(rigorous, rounding allowed for), or for large matrices by Lanczos from a random start, with a
probability of failure that is stated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cholesky, eigh_tridiagonal, eigvalsh
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from nodeproof.certificate.labelling.instance import relative_error

__all__ = ["DENSE_MOST", "Spectrum", "lanczos_slack", "least_dense", "least_lanczos", "of_diagonal"]

Array = NDArray[np.float64]

#: largest number of rows for which a matrix is factorised
DENSE_MOST = 4001

# Number of lowest eigenvalues to estimate, for plots and for the nullity.
_SHOWN = 12
# Up to this many rows all eigenvalues are computed.
_ALL = 500
# A vector counts as null where its image is this short, relative to the size of the matrix.
_NULL = 1e-9
# Full reorthogonalisation leaves Ritz values of about this relative accuracy.
_RITZ = 1e-11
# Lanczos checks after these numbers of steps whether it has converged.
_LOOKS = (48, 96, 192)


class Operator(Protocol):
    """A symmetric matrix that is known by its products."""

    size: int

    @property
    def roundings(self) -> int: ...

    def times(self, X: Array) -> Array: ...

    def absolute_times(self, X: Array) -> Array: ...

    def image_size(self, V: Array) -> Array: ...


@dataclass(frozen=True)
class Spectrum:
    """The low end of a matrix's spectrum.

    Attributes
    ----------
    least : float
        Lower bound of the least eigenvalue.
    beyond : float
        Lower bound of the least one on the complement of the null vectors.
    n_deflated : int
        Number of null vectors.
    lowest : ndarray
        Estimates of the lowest eigenvalues on the complement: for plots, not a proof.
    failure : float
        Probability that `least` and `beyond` are wrong; 0 where they are rigorous.
    """

    least: float
    beyond: float
    n_deflated: int
    lowest: Array
    failure: float = 0.0


def of_diagonal(diagonal: Array) -> Spectrum:
    """Return the spectrum of a diagonal matrix, each entry of which was rounded once."""
    lowest = np.sort(diagonal)[:_SHOWN]
    least = float(lowest[0])  # rounding keeps the sign
    return Spectrum(least if least >= 0 else least * (1.0 + 1e-15), least, 0, lowest)


def least_dense(matrix: Operator, N: Array, candidates: Array) -> Spectrum:
    """Return a lower bound of the least eigenvalue, by Cholesky.

    Parameters
    ----------
    matrix : Operator
        The matrix, for products with bounds of their rounding.
    N : ndarray of shape (size, size)
        The same matrix; overwritten.
    candidates : ndarray of shape (size, k)
        Candidates for null vectors.
    """
    V, kappa, rho = _set_apart(matrix, candidates)
    ones = np.ones((matrix.size, 1))
    norm = float(matrix.absolute_times(ones).max())
    if not (np.isfinite(norm) and np.isfinite(N).all()):
        return Spectrum(-math.inf, -math.inf, 0, np.empty(0))
    raised = float(np.abs(N.diagonal()).max(initial=0.0))
    N += raised * (V @ V.T)
    # Entries were computed by a few operations each.
    assembled = 2.0 * relative_error(matrix.roundings) * float(np.abs(N.diagonal()).max())
    assembled += 2.0 * relative_error(32 + V.shape[1]) * (norm + raised * _row_sums(V))
    lowest = _lowest(matrix, N, raised, V)
    least = float(lowest[0])
    beyond = -math.inf
    slack = relative_error(matrix.size + 2) * float(np.abs(N.diagonal()).sum())
    slack += 16.0 * _smallest(matrix.size)  # of a matrix of zeros too
    for attempt in range(16):
        if least > 8.0 * slack and attempt < 2:
            shift = (0.98, 0.5)[attempt] * least
        else:
            shift = least - (slack + 1e-6 * abs(least)) * 4.0**attempt
        if (found := _above(N, shift)) > -math.inf:
            beyond = found - assembled
            break
    return Spectrum(_combine(kappa, rho, beyond), beyond, V.shape[1], lowest)


def _above(N: Array, shift: float) -> float:
    """Return a lower bound of N's least eigenvalue, near `shift`, or −inf.

    If the factorisation of a matrix G runs to its end, G is semidefinite but for
    ``(n + 1)u/(1 − (n + 1)u)`` of its trace (Higham, Accuracy and Stability, Theorem 10.3).
    """
    G = N.copy()
    np.einsum("vv->v", G)[:] -= shift
    trace = float(np.abs(G.diagonal()).sum())
    try:
        cholesky(G, lower=True, overwrite_a=True, check_finite=False)
    except LinAlgError:
        return -math.inf
    return shift - 2.0 * relative_error(len(N) + 2) * trace - _smallest(len(N))


def _smallest(n: int) -> float:
    """Return a bound of the effect of underflow in a factorisation of n rows."""
    return n**2 * float(np.finfo(float).tiny)


def least_lanczos(
    matrix: Operator, candidates: Array, failure: float, seed: int | np.random.SeedSequence
) -> Spectrum:
    """Return a lower bound of the least eigenvalue, up to a stated probability, by Lanczos.

    Parameters
    ----------
    failure : float
        Probability that the answer may be wrong, over the seeds.
    seed : int or SeedSequence
        Of the start; chosen independently of the matrix.
    """
    V, kappa, rho = _set_apart(matrix, candidates)

    def times(x: Array) -> Array:
        x = matrix.times(x[:, None])[:, 0]
        return np.asarray(x - V @ (V.T @ x))

    start = np.random.default_rng(seed).standard_normal(matrix.size)
    start -= V @ (V.T @ start)
    ritz, beyond = np.empty(0), -math.inf
    for ritz in lanczos(times, start, _LOOKS, V):
        low, high = float(ritz[0]), float(ritz[-1])
        # Both ends of the spectrum, at any of the checks: each has its share of the probability.
        eta = lanczos_slack(matrix.size, len(ritz), 0.5 * failure / len(_LOOKS))
        width = (high - low) / (1.0 - 2.0 * eta) if eta < 0.5 else math.inf
        beyond = low - eta * width - _RITZ * max(abs(low), abs(high))
        if beyond > 0.25 * low > 0:
            break
    return Spectrum(_combine(kappa, rho, beyond), beyond, V.shape[1], ritz[:_SHOWN], failure)


def lanczos_slack(n: int, n_steps: int, failure: float) -> float:
    """Return η: Ritz values reach the spectrum's ends to η of its width, up to a probability.

    For a start b uniform on the sphere, Ritz values of k steps satisfy

        P[θ − λ_min > η(λ_max − λ_min)] ≤ √(2n/π) / cosh((2k − 1) artanh √η).

    (Were θ further off, then with T_{2k−1} as the test polynomial b would have a component
    below 1/cosh(…) along the extreme eigenvector, whose density at 0 is at most √(n/2π). It
    implies the bound 1.648 √n exp(−√η (2k − 1)) of Kuczyński and Woźniakowski, 1992.)
    """
    ratio = math.sqrt(2.0 * n / math.pi) / failure
    return math.tanh(math.acosh(max(ratio, 1.0)) / (2 * n_steps - 1)) ** 2


def lanczos(
    times: Callable[[Array], Array], start: Array, looks: tuple[int, ...], V: Array
) -> Iterator[Array]:
    """Yield the Ritz values of Lanczos on the complement of V, in increasing order.

    Parameters
    ----------
    looks : tuple of int
        After how many steps; the last is the maximum.
    """
    n = len(start)
    n_steps = max(1, min(looks[-1], n - V.shape[1]))
    Q = np.empty((n_steps, n))
    Q[0] = start / np.linalg.norm(start)
    alpha, beta = np.zeros(n_steps), np.zeros(n_steps)
    for k in range(n_steps):
        x = times(Q[k])
        alpha[k] = Q[k] @ x
        x -= alpha[k] * Q[k]
        if k:
            x -= beta[k - 1] * Q[k - 1]
        x -= Q[: k + 1].T @ (Q[: k + 1] @ x)  # against all, or ghosts of eigenvalues appear
        x -= V @ (V.T @ x)
        beta[k] = np.linalg.norm(x)
        ended = beta[k] <= 1e-13 * np.abs(alpha[: k + 1]).max(initial=1e-300)
        if k + 1 in looks or k + 1 == n_steps or ended:
            yield (
                alpha[:1]
                if k == 0
                else eigh_tridiagonal(alpha[: k + 1], beta[:k], eigvals_only=True)
            )
        if ended or k + 1 == n_steps:
            return
        Q[k + 1] = x / beta[k]


def _set_apart(matrix: Operator, candidates: Array) -> tuple[Array, float, float]:
    """Return orthonormal null vectors V, and bounds of ``‖VᵀNV‖`` and ``‖NV‖``."""
    images = matrix.times(candidates)
    sizes = matrix.absolute_times(np.abs(candidates))
    null = np.linalg.norm(images, axis=0) <= _NULL * np.linalg.norm(sizes, axis=0)
    V = np.linalg.qr(candidates[:, null])[0]
    if not V.shape[1]:
        return V, 0.0, 0.0
    images = matrix.image_size(V)
    # V is orthonormal up to rounding.
    slightly = 1.0 + 1e-8
    rho = slightly * float(np.linalg.norm(images))
    kappa = slightly * float(np.linalg.norm(np.abs(V).T @ images))
    return V, kappa, rho


def _combine(kappa: float, rho: float, beyond: float) -> float:
    """Return the least eigenvalue of ``[[−κ, −ρ], [−ρ, δ]]``, rounded down; δ without κ and ρ."""
    if rho == 0.0 and kappa == 0.0:
        return beyond
    if not math.isfinite(beyond):
        return -math.inf
    half = 0.5 * (beyond + kappa)
    root = math.hypot(half, rho)
    value = 0.5 * (beyond - kappa) - root
    if half > 0:  # the same without cancellation
        value = -kappa - rho * (rho / (half + root))
    return value - 1e-14 * abs(value)


def _row_sums(V: Array) -> float:
    """Return a bound of the row sums of |V||V|ᵀ."""
    return float((np.abs(V) @ np.abs(V).sum(axis=0)).max(initial=0.0))


def _lowest(matrix: Operator, N: Array, raised: float, V: Array) -> Array:
    """Return estimates of the lowest eigenvalues of N, which is the matrix and raised on V."""
    if len(N) > _ALL:
        start = np.random.default_rng(0).standard_normal(len(N))

        def times(x: Array) -> Array:
            x = x.reshape(-1, 1)
            return (matrix.times(x) + raised * (V @ (V.T @ x)))[:, 0]

        try:
            found = eigsh(
                LinearOperator(N.shape, matvec=times, dtype=np.float64), k=_SHOWN, which="SA",
                v0=start, tol=1e-4, maxiter=60, ncv=48, return_eigenvectors=False,
            )  # fmt: skip
            return np.sort(found)
        except ArpackError:
            pass
    return np.asarray(eigvalsh(N, check_finite=False)[:_SHOWN])
