"""The auditor for more than some thousand nodes: by Lanczos, up to a stated probability."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof.certificate.labelling.dual import Dual, Factors
from nodeproof.certificate.labelling.instance import Instance

__all__ = ["least_sparse"]

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

_UNIT = 2.0**-53

# Numbers of steps after which Lanczos ends: the first if that proves the matrix semidefinite, else
# the second, more than were used to judge it, since each step tightens the bound.
_LOOKS = (112, 320)


class Times(Protocol):
    """Products with a matrix; with `absolute`, with the absolute values of its entries."""

    def __call__(self, x: Array, absolute: bool = False, exactly: bool = False) -> Array: ...


def _exact_sum(x: Array) -> float:
    return math.fsum(x.tolist())


def least_sparse(
    A: sp.csr_array,
    instance: Instance,
    labels: Labels,
    dual: Dual,
    i: int,
    failure: float,
    rng: np.random.Generator,
) -> tuple[float, float]:
    """Return a lower bound of the least eigenvalue of N_i, up to a probability of failure.

    The second number is what it would have been at most without an allowance for rounding.
    """
    n, K = instance.costs.shape
    g = math.sqrt(n / K)
    diagonal = instance.costs[:, i] - dual.nu - 2.0 * dual.r[i]
    diagonal = diagonal - instance.wt * instance.eta**2
    border, corner = dual.r[i] / g, float(dual.sigma[i]) / g**2
    links = instance.w * A
    groups = dual.gamma.labels if isinstance(dual.gamma, Factors) else labels
    members = sp.csr_array((np.ones(n), (groups, np.arange(n))), shape=(K, n))

    def times(x: Array, absolute: bool = False, exactly: bool = False) -> Array:
        sign = 1.0 if absolute else -1.0
        hidden = (abs if absolute else float)(instance.wt)
        out = np.empty_like(x)
        d, b = (np.abs(diagonal), np.abs(border)) if absolute else (diagonal, border)
        add = _exact_sum if exactly else np.sum
        out[0] = (abs(corner) if absolute else corner) * x[0] + add(b * x[1:])
        whole = add(instance.eta * x[1:])
        out[1:] = b * x[0] + d * x[1:] + hidden * instance.eta * whole
        out[1:] += sign * ((abs(links) if absolute else links) @ x[1:])
        if isinstance(dual.gamma, Factors):
            f = dual.gamma
            scaled = f.a * x[1:, None]
            if exactly:
                parts = [scaled[f.labels == j] for j in range(K)]
                sums = np.array([[_exact_sum(column) for column in part.T] for part in parts])
            else:
                sums = np.asarray(members @ scaled)
            out[1:] += sign * np.einsum("vj,vj,jv->v", f.a, f.g[f.labels], sums[:, f.labels])
        elif dual.gamma is not None:
            out[1:] += sign * ((dual.gamma[i] if dual.gamma.ndim == 3 else dual.gamma) @ x[1:])
        return out

    norm = float(np.abs(diagonal).max()) + float(np.linalg.norm(border)) + abs(corner)
    norm += float(np.asarray(abs(links).sum(axis=1)).max(initial=0.0))
    V = _null_vectors(times, labels, g, K, 1e-9 * norm)
    roundings = int(np.diff(A.indptr).max(initial=0)) + K + 64
    roundings += n if isinstance(dual.gamma, np.ndarray) else 0
    images = np.array([np.abs(times(v, exactly=True)) for v in V.T]).reshape(-1, n + 1)
    sizes = np.array([times(np.abs(v), absolute=True) for v in V.T]).reshape(-1, n + 1)
    rounded = 4.0 * roundings * _UNIT * sizes
    q = rng.standard_normal(n + 1)
    q -= V @ (V.T @ q)
    most = min(_LOOKS[-1], n + 1 - V.shape[1])
    Q = np.empty((most + 1, n + 1))
    Q[0] = q / np.linalg.norm(q)
    T = np.zeros((most, most))
    beyond = rounding = math.inf
    for k in range(most):
        x = times(Q[k])
        for _ in range(2):
            coefficients = Q[: k + 1] @ x
            T[: k + 1, k] += coefficients
            x -= coefficients @ Q[: k + 1]
            x -= V @ (V.T @ x)
        length = float(np.linalg.norm(x))
        ended = length <= 1e-12 * norm
        if k + 1 in _LOOKS or k + 1 == most or ended:
            beyond, rounding = _beyond(T[: k + 1, : k + 1], n + 1, failure)
            if beyond - rounding > 0 or ended:
                break
        Q[k + 1] = x / length
    if not math.isfinite(beyond):
        return -math.inf, -math.inf
    return (
        _combine(V, 1.000001 * (images + rounded), beyond - rounding),
        _combine(V, np.maximum(images - rounded, 0.0), beyond + rounding),
    )


def _null_vectors(times: Times, labels: Labels, g: float, K: int, null: float) -> Array:
    """Return an orthonormal basis of the class vectors that N maps to almost zero."""
    sizes = np.bincount(labels, minlength=K)
    kept = []
    for j in [*np.flatnonzero(sizes), *np.flatnonzero(sizes == 0)[:1]]:  # empty ones are equal
        y = np.concatenate([[g], (labels == j).astype(np.float64)])
        y /= np.linalg.norm(y)
        if np.linalg.norm(times(y)) <= null:
            kept.append(y)
    if not kept:
        return np.empty((len(labels) + 1, 0))
    return np.asarray(sl.qr(np.array(kept).T, mode="economic")[0])


def _combine(V: Array, images: Array, beyond: float) -> float:
    """Return the least eigenvalue, given what it is beyond V and how large N V is, entrywise."""
    across = float(np.linalg.norm(images))
    inner = float(np.linalg.norm(np.abs(V).T @ images.T))
    half = 0.5 * (beyond + inner)
    if half > 0:
        return -inner - across**2 / (half + math.hypot(half, across))
    return 0.5 * (beyond - inner) - math.hypot(half, across)


def _beyond(T: Array, size: int, failure: float) -> tuple[float, float]:
    """Return a lower bound of the spectrum, given the Ritz values of Lanczos.

    The second number is what rounding can have done to the first. Each end of the spectrum, at
    each look, has its share of the probability.
    """
    steps = len(T)
    ritz = np.linalg.eigvalsh(np.triu(T) + np.triu(T, 1).T)
    ratio = math.sqrt(2.0 * size / math.pi) * 2.0 * len(_LOOKS) / failure
    eta = math.tanh(math.acosh(max(ratio, 1.0)) / (2 * steps - 1)) ** 2
    if eta >= 0.5:
        return -math.inf, 0.0
    width = float(ritz[-1] - ritz[0]) / (1.0 - 2.0 * eta)
    return float(ritz[0]) - eta * width, 1e-10 * width
