"""The auditor: an independent check of a certificate, from its numbers alone.

Nothing that found or judged the dual variables is used here. Matrices are built entry by entry
from the definition, the null space is split off by an orthogonal change of basis instead of a
shift, and for large graphs Lanczos starts from random numbers that nobody could know before.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof.certificate.labelling.audit_large import least_sparse
from nodeproof.certificate.labelling.dual import Dual, Factors
from nodeproof.certificate.labelling.instance import Instance

__all__ = ["Audit", "Check", "check_dual"]

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

_UNIT = 2.0**-53

# Sums of squares of larger numbers would not be finite.
_LARGEST = 1e140

_DENSE = 4001


@dataclass(frozen=True)
class Check:
    """What the auditor found.

    Attributes
    ----------
    holds : bool
        Whether all that the certificate claims of its labelling is confirmed.
    objective : float
        Of the labelling, rounded up.
    lower_bound : float
        What the dual variables prove.
    reason : str
        Why the claim is refused; empty where it holds.
    tolerance : float
        The largest accepted difference between objective and bound.
    failure : float
        Probability that the check itself is wrong, over its random numbers; 0 where it drew none.
    """

    holds: bool
    objective: float
    lower_bound: float
    reason: str = ""
    tolerance: float = math.nan
    failure: float = 0.0

    def __bool__(self) -> bool:
        return self.holds


@dataclass(frozen=True)
class Audit:
    """What dual variables and a labelling prove.

    Attributes
    ----------
    at_least, objective : float
        P(z) is between them.
    bound : float
        What the dual variables prove.
    failure : float
        Probability that they do not; 0 where the bound is rigorous.
    wrong : str
        What is wrong, if anything.
    """

    at_least: float
    objective: float
    bound: float
    failure: float = 0.0
    wrong: str = ""


def check_dual(
    instance: Instance,
    labels: Labels,
    dual: Dual,
    claimed: float,
    failure: float,
    seed: np.random.SeedSequence,
) -> Audit:
    """Return what dual variables prove.

    Parameters
    ----------
    claimed : float
        The claimed bound. It is wrong if they cannot prove it, however it is rounded.
    failure : float
        Probability of failure that is allowed, for more than some thousand nodes.
    seed : SeedSequence
        Seed of the Lanczos starts, in that case.
    """
    A = sp.csr_array(instance.adjacency, dtype=np.float64, copy=True)
    if wrong := _malformed(A, instance, labels, dual):
        return Audit(math.nan, math.nan, -math.inf, wrong=wrong)
    A.sum_duplicates()
    n, K = instance.costs.shape
    at_least, objective = _objective(A, instance, labels)
    g = math.sqrt(n / K)
    rngs = [np.random.default_rng(child) for child in seed.spawn(K)]
    # Lower bounds of the least eigenvalues and, where already known, upper bounds.
    least, most = np.empty(K), np.full(K, math.nan)
    drawn = 0.0
    for i in range(K):
        twin = next((j for j in range(i) if _same(instance, dual, i, j)), None)
        if twin is not None:
            least[i], most[i] = least[twin], most[twin]
        elif not (instance.w or instance.wt or dual.gamma is not None or dual.r[i].any()):
            # Nothing but a diagonal, and a difference has the right sign.
            diagonal = np.append(dual.sigma[i] / g**2, instance.costs[:, i] - dual.nu)
            lowest = min(0.0, float(diagonal.min()))
            least[i], most[i] = (1.0 + 1e-14) * lowest, (1.0 - 1e-14) * lowest
        elif n + 1 > _DENSE:
            drawn = failure
            least[i], most[i] = least_sparse(A, instance, labels, dual, i, failure / K, rngs[i])
        else:
            N, added = _build(A, instance, dual, i, g)
            least[i] = _least(N, added, labels, g, K)
            if least[i] >= -64.0 * K * (n + 2) * _UNIT * added:
                most[i] = 0.0  # up to rounding
    if not np.isfinite(least).all():
        wrong = "a matrix has eigenvalues of which nothing is known"
        return Audit(at_least, objective, -math.inf, drawn, wrong)
    bound, off = _sum_up(dual, least)
    bound -= off
    if not claimed <= bound:
        for i in np.flatnonzero(np.isnan(most)).tolist():
            most[i] = _most(*_build(A, instance, dual, i, g))
        if not claimed <= sum(_sum_up(dual, most)):
            wrong = f"the dual variables prove {bound:.12g}, not {claimed:.12g}"
    return Audit(at_least, objective, bound, drawn, wrong)


def _sum_up(dual: Dual, eigenvalues: Array) -> tuple[float, float]:
    """Return the bound that least eigenvalues give, and the rounding error of the sum."""
    K, n = dual.r.shape
    below = np.minimum(eigenvalues, 0.0)
    terms = [*dual.nu.tolist(), *(-dual.sigma).tolist()]
    terms += [x * n / K for x in below.tolist()] + [n * float(below.min())]
    bound = math.fsum(terms)
    return bound, 4.0 * _UNIT * (abs(bound) + abs(min(terms)))


def _same(instance: Instance, dual: Dual, i: int, j: int) -> bool:
    """Return whether two classes have the same matrix, to the last bit."""
    own = isinstance(dual.gamma, np.ndarray) and dual.gamma.ndim == 3
    return bool(
        not own
        and dual.sigma[i] == dual.sigma[j]
        and np.array_equal(dual.r[i], dual.r[j])
        and np.array_equal(instance.costs[:, i], instance.costs[:, j])
    )


def _malformed(A: sp.csr_array, instance: Instance, labels: Labels, dual: Dual) -> str:
    """Return why numbers are not valid dual variables of a labelling problem, or nothing."""
    if instance.costs.ndim != 2 or not instance.costs.size or labels.dtype.kind != "i":
        return "shapes do not fit together"
    n, K = instance.costs.shape
    scales = [instance.w, instance.wt]
    arrays = (instance.eta, instance.costs, scales, dual.nu, dual.r, dual.sigma, A.data)
    if not all((np.abs(np.asarray(x, dtype=np.float64)) <= _LARGEST).all() for x in arrays):
        return "some numbers are too large to check, or not finite"
    shapes = (A.shape, labels.shape, dual.nu.shape, dual.r.shape, dual.sigma.shape)
    if shapes != ((n, n), (n,), (n,), (K, n), (K,)) or instance.eta.shape != (n,):
        return "shapes do not fit together"
    if not ((labels >= 0) & (labels < K)).all():
        return "a label names no class"
    if (instance.eta < 0).any():
        return "the null model is negative somewhere"
    difference = A - A.T
    if difference.nnz and np.abs(difference.data).max(initial=0.0) != 0.0:
        return "the graph is not symmetric"
    if np.abs(A.diagonal()).max(initial=0.0) != 0.0 or (A.data < 0).any():
        return "the graph has links of a node with itself, or negative weights"
    return _malformed_signs(dual.gamma, n, K)


def _malformed_signs(gamma: Factors | Array | None, n: int, K: int) -> str:
    if gamma is None:
        return ""
    if isinstance(gamma, Factors):
        a, g = gamma.a, gamma.g
        if a.shape != (n, K) or g.shape != (K, K) or gamma.labels.shape != (n,):
            return "the prices of signs have wrong shapes"
        if not ((gamma.labels >= 0) & (gamma.labels < K)).all():
            return "the prices of signs name a class that there is not"
        if not all(((x >= 0) & (x <= _LARGEST ** (1 / 3))).all() for x in (a, g)):
            return "the prices of signs are negative somewhere, or too large to check"
        if not (np.array_equal(g, g.T) and not np.diagonal(g).any()):
            return "the prices of signs are not symmetric"
        return ""
    if gamma.shape not in ((n, n), (K, n, n)):
        return "the prices of signs have wrong shapes"
    for block in gamma.reshape(-1, n, n):
        if not ((block >= 0) & (block <= _LARGEST)).all():
            return "the prices of signs are negative somewhere, or too large to check"
        if not np.array_equal(block, block.T) or np.diagonal(block).any():
            return "the prices of signs are not symmetric"
    return ""


def _objective(A: sp.csr_array, instance: Instance, labels: Labels) -> tuple[float, float]:
    """Return two numbers with P(z) between them, by exact sums over links, pairs and nodes."""
    K = instance.costs.shape[1]
    coo = A.tocoo()
    inside = labels[coo.row] == labels[coo.col]
    linked = math.fsum(coo.data[inside].tolist())
    pairs, size = 0.0, 0.0
    for i in range(K):
        eta = instance.eta[labels == i]
        whole, own = math.fsum(eta.tolist()), math.fsum((eta * eta).tolist())
        pairs += whole * whole - own
        size += whole * whole + own
    paid = instance.costs[np.arange(len(labels)), labels].tolist()
    total = math.fsum([*paid, -instance.w * linked, instance.wt * pairs])
    error = abs(instance.w) * linked + abs(instance.wt) * (size + abs(pairs)) + abs(total)
    error *= (16.0 + 4.0 * K) * _UNIT
    return total - error, total + error


def _build(
    A: sp.csr_array, instance: Instance, dual: Dual, i: int, g: float
) -> tuple[Array, float]:
    """Return N_i with its first row and column divided by g, and the size of what it adds up."""
    n = len(instance.eta)
    N = np.zeros((n + 1, n + 1))
    coo = A.tocoo()
    N[coo.row + 1, coo.col + 1] = -instance.w * coo.data
    added = np.abs(N).sum(axis=1)[1:]
    N[1:, 1:] += instance.wt * np.outer(instance.eta, instance.eta)
    added += abs(instance.wt) * instance.eta * instance.eta.sum()
    gamma = np.zeros((n, n))
    if isinstance(dual.gamma, Factors):
        f = dual.gamma
        gamma = f.a[:, f.labels] * f.a[:, f.labels].T * f.g[np.ix_(f.labels, f.labels)]
    elif dual.gamma is not None:
        gamma = dual.gamma[i] if dual.gamma.ndim == 3 else dual.gamma
    N[1:, 1:] -= gamma
    added += gamma.sum(axis=1)
    added += np.abs(instance.costs[:, i]) + np.abs(dual.nu) + 2.0 * np.abs(dual.r[i])
    diagonal = instance.costs[:, i] - dual.nu - 2.0 * dual.r[i]
    N[np.arange(1, n + 1), np.arange(1, n + 1)] = diagonal
    N[0, 1:] = N[1:, 0] = dual.r[i] / g
    N[0, 0] = dual.sigma[i] / g**2
    return N, float(added.max()) + float(np.linalg.norm(N[0]))


def _least(N: Array, added: float, labels: Labels, g: float, K: int) -> float:
    """Return a lower bound of the least eigenvalue of N, rounding allowed for."""
    entries = 16.0 * _UNIT * added
    basis = _null_basis(N, labels, g, K, added)
    k = basis.shape[1]
    turned, moved = _turned(N, basis, added)
    corner = float(np.linalg.norm(turned[:k, :k])) + moved
    across = float(np.linalg.norm(turned[k:, :k])) + moved
    rest = turned[k:, k:]
    beyond = _cholesky_bound(rest) - moved if len(rest) else math.inf
    if k == 0:
        return beyond - entries
    if not math.isfinite(beyond):
        return -corner - entries if beyond > 0 else -math.inf
    # The least eigenvalue of [[−corner, −across], [−across, beyond]].
    middle, half = 0.5 * (beyond - corner), 0.5 * (beyond + corner)
    if half > 0:
        value = -corner - across**2 / (half + math.hypot(half, across))
    else:
        value = middle - math.hypot(half, across)
    value *= 1.0 + 1e-12 * (-1 if value > 0 else 1)
    if corner > 4.0 * moved:  # they are not null but to rounding: as a whole it may be better
        value = max(value, _cholesky_bound(N))
    return value - entries


def _most(N: Array, added: float) -> float:
    """Return an upper bound of the least eigenvalue of N: no Rayleigh quotient is lower."""
    x = sl.eigh(N, subset_by_index=(0, 0), check_finite=False)[1][:, 0]
    quotient = float(x @ (N @ x)) / float(x @ x)
    return quotient + (4.0 * len(N) + 32.0) * _UNIT * added


def _turned(N: Array, basis: Array, added: float) -> tuple[Array, float]:
    """Return N in a basis whose first vectors span these, and how far off that is in norm.

    One reflection I − 2uuᵀ a vector. With w = Nu, which is off by (n + 2)u‖|N|‖, it turns N into
    N − 2(uwᵀ + wuᵀ) + 4(uᵀw)uuᵀ, a few roundings an entry.
    """
    off = 0.0
    basis = sl.qr(basis, mode="economic", check_finite=False)[0] if basis.size else basis
    for k in range(basis.shape[1]):
        u = basis[:, k].copy()
        u[:k] = 0.0
        u[k] += math.copysign(float(np.linalg.norm(u)), u[k])
        u /= np.linalg.norm(u)
        w = N @ u
        a = float(u @ w)
        N = N - 2.0 * (np.outer(u, w) + np.outer(w, u)) + 4.0 * a * np.outer(u, u)
        basis = basis - 2.0 * np.outer(u, u @ basis)
        size = added + 8.0 * float(np.linalg.norm(w)) + off
        off += (12.0 * (len(N) + 2) * added + 64.0 * size) * _UNIT
    return N, off


def _null_basis(N: Array, labels: Labels, g: float, K: int, norm: float) -> Array:
    """Return the class vectors that N maps to almost zero, as columns."""
    found = []
    for j in range(K):
        y = np.concatenate([[g], (labels == j).astype(np.float64)])
        y /= np.linalg.norm(y)
        if np.linalg.norm(N @ y) <= 1e-10 * norm * math.sqrt(len(N)):
            found.append(y)
    basis = np.array(found).T if found else np.empty((len(N), 0))
    return basis if np.linalg.matrix_rank(basis, tol=1e-8) == len(found) else basis[:, :1]


def _cholesky_bound(C: Array) -> float:
    """Return a lower bound of the least eigenvalue: a shift whose factorisation succeeds."""
    size = len(C)
    low = float(sl.eigvalsh(C, subset_by_index=(0, 0), check_finite=False)[0])
    scale = float(np.abs(C.diagonal()).sum()) + size * abs(low) + 1e-300
    step = 4.0 * (size + 2) * _UNIT * scale
    for attempt in range(40):
        shift = low - step * 2.0**attempt
        G = C - shift * np.eye(size)
        if np.all(G.diagonal() > 0) and sl.lapack.dpotrf(G, lower=1)[1] == 0:
            trace = float(G.diagonal().sum())
            return shift - 2.0 * (size + 2) * _UNIT * trace
    return -math.inf
