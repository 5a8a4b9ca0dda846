"""From dual variables to a lower bound: all that a certificate claims is computed here."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nodeproof.certificate.labelling.dual import Dual, Matrix
from nodeproof.certificate.labelling.instance import Instance, total_down
from nodeproof.certificate.labelling.spectrum import (
    DENSE_MOST,
    Spectrum,
    least_dense,
    least_lanczos,
    of_diagonal,
)

__all__ = ["FAILURE", "Judgement", "judge"]

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

#: probability that a certificate by Lanczos may be wrong
FAILURE = 1e-9

# A matrix below others replaces them where it is no further from semidefinite, relatively.
_GOOD_ENOUGH = 1e-9


@dataclass(frozen=True)
class Judgement:
    """What dual variables prove.

    Attributes
    ----------
    lower_bound : float
        No labelling has a lower objective.
    spectra : tuple of Spectrum
        Of the matrices, one per class; classes may share one.
    failure : float
        Probability that the bound is wrong; 0 where it is rigorous.
    loss : float
        How much of the bound is lost to matrices not known to be semidefinite; ≥ 0.
    late : bool
        Whether there was no time for a rigorous bound, which so few nodes allow.
    """

    lower_bound: float
    spectra: tuple[Spectrum, ...] = ()
    failure: float = 0.0
    loss: float = math.inf
    late: bool = False


def judge(
    instance: Instance,
    dual: Dual,
    z: Labels,
    seed: int | np.random.SeedSequence = 0,
    deadline: float = math.inf,
    failure: float = FAILURE,
) -> Judgement:
    """Return the lower bound that dual variables prove; −inf for invalid ones.

    Parameters
    ----------
    z : ndarray of shape (n,)
        The labelling whose classes may be null vectors. Any is allowed: it changes how tight
        the bound is, not whether it holds.
    seed : int or SeedSequence
        Seed of the Lanczos starts, for more than a few thousand nodes.
    deadline : float
        By `time.perf_counter`. Matrices that are not factorised by then go to Lanczos, too.
    failure : float
        Probability that the answer may be wrong, where Lanczos is used.
    """
    n, K = instance.n_nodes, instance.n_classes
    if not dual.valid(instance):
        return Judgement(-math.inf)
    spectra = _spectra(instance, dual, z, seed, deadline, failure)
    # The trace of the scaled Yᵢ is n/K + |Cᵢ|, and sizes sum to n.
    below = np.minimum([spectrum.least for spectrum in spectra], 0.0)
    if not np.isfinite(below).all():
        return Judgement(-math.inf, spectra)
    losses = (1.0 + 1e-14) * np.append(below * (n / K), n * below.min())
    failed = sum({id(spectrum): spectrum.failure for spectrum in spectra}.values())
    bound = total_down(dual.nu, -dual.sigma, losses)
    late = failed > 0 and n + 1 <= DENSE_MOST
    return Judgement(bound, spectra, failed, -float(losses.sum()), late)


def _spectra(
    instance: Instance,
    dual: Dual,
    z: Labels,
    seed: int | np.random.SeedSequence,
    deadline: float,
    failure: float,
) -> tuple[Spectrum, ...]:
    """Return one spectrum per class; a matrix below others gives that of all of them."""
    K = instance.n_classes
    if not isinstance(seed, np.random.SeedSequence):
        seed = np.random.SeedSequence(seed)
    seeds = seed.spawn(2 * K)
    off_diagonal = None
    own_gamma = isinstance(dual.gamma, np.ndarray) and dual.gamma.ndim == 3
    found: dict[int, Spectrum] = {}

    def least(matrix: Matrix, which: int) -> Spectrum:
        nonlocal off_diagonal
        if matrix.is_diagonal:
            return of_diagonal(np.append(matrix.corner, matrix.diagonal))
        candidates = _indicators(matrix, z, K)
        if matrix.size > DENSE_MOST or time.perf_counter() > deadline:
            return least_lanczos(matrix, candidates, failure / (2 * K), seeds[which])
        if off_diagonal is None or own_gamma:
            off_diagonal = matrix.off_diagonal()
        return least_dense(matrix, matrix.dense(off_diagonal), candidates)

    for i in range(K):
        if i in found:
            continue
        alike = [j for j in range(i, K) if (dual.r[j] == dual.r[i]).all()]
        if len(alike) > 1 and not own_gamma:
            below = _below(instance, dual, alike)
            lowest = least(below, K + i)
            if lowest.least > -_GOOD_ENOUGH * float(np.abs(below.diagonal).max(initial=0.0)):
                found |= dict.fromkeys(alike, lowest)
                continue
        found[i] = least(Matrix(instance, dual, i), i)
    return tuple(found[i] for i in range(K))


def _below(instance: Instance, dual: Dual, classes: list[int]) -> Matrix:
    """Return a matrix that is no larger than those of some classes with the same r."""
    matrix = Matrix(instance, dual, classes[0])
    costs = instance.costs[:, classes].min(axis=1)
    matrix.diagonal = costs - dual.nu - 2.0 * dual.r[classes[0]]
    size = np.abs(costs) + np.abs(dual.nu) + 2.0 * np.abs(dual.r[classes[0]])
    matrix.diagonal_size = size
    matrix.corner = float(dual.sigma[classes].min()) * matrix.corner_scale**2
    return matrix


def _indicators(matrix: Matrix, z: Labels, K: int) -> Array:
    """Return candidates for null vectors: the classes, and one of the empty ones."""
    sizes = np.bincount(z, minlength=K)
    empty = np.flatnonzero(sizes == 0)[:1]
    classes = np.append(np.flatnonzero(sizes), empty)
    return np.stack([matrix.indicator(z == i) for i in classes], axis=1)
