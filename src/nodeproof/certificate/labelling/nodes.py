"""Nodes that keep their class in every optimal labelling, and the problem that is left.

A labelling that puts node v elsewhere has yᵢ = [1; 1_{C_i}] with a given entry at v, so it costs at
least ``Σν − Σσ + Σ_i min yᵢᵀ N_i yᵢ`` over the yᵢ with that entry. If this is above the objective
of the given labelling, no optimal labelling does so. With ``G = (N_i + s)⁻¹`` each minimum is that
of a matrix of two or three rows. Where class names are arbitrary, the same is asked relative to one
node per class, its anchor: in every optimal labelling, v is in the class of its anchor, and anchors
are in different classes.

Certain nodes can be fixed: their links become costs of the others, and the smaller problem has a
tighter bound, by which more nodes may become certain. Where few are left, all of their labellings
are compared.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cholesky, lapack
from scipy.optimize import linear_sum_assignment

from nodeproof.certificate.labelling.bound import Judgement
from nodeproof.certificate.labelling.dual import Dual, Matrix
from nodeproof.certificate.labelling.instance import (
    Instance,
    dot_exact,
    relative_error,
    total_down,
    total_up,
)
from nodeproof.certificate.labelling.spectrum import DENSE_MOST

__all__ = ["NodeCertificates", "Reduced", "Step", "certify_nodes", "reduce"]

Labels = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Step:
    """A step of a proof: nodes that are certain by then, and dual variables for the others.

    Attributes
    ----------
    sure : ndarray of bool, shape (n,)
        Nodes that are fixed.
    dual : Dual
        For the labelling problem of the others.
    bound : float
        The bound that they prove.
    """

    sure: Flags
    dual: Dual
    bound: float


@dataclass(frozen=True)
class Reduced:
    """The labelling problem of the nodes that are not certain.

    Attributes
    ----------
    instance : Instance
        With links to certain nodes turned into costs.
    loose : ndarray of int
        Which nodes these are.
    error : float
        Objectives of the two problems differ by a constant, up to this rounding error.
    """

    instance: Instance
    loose: NDArray[np.int64]
    error: float

    def objective(self, z: Labels) -> float:
        """Return an upper bound of the objective of z here, rounding allowed for."""
        return self.instance.value_between(z[self.loose])[1] + 2.0 * self.error

    def lift(self, whole: Instance, z: Labels, lower_bound: float) -> float:
        """Return the bound of the whole problem that one here gives; z has the certain labels."""
        here = self.instance.value_between(z[self.loose])[1]
        return total_down([whole.value_between(z)[0], -here, lower_bound, -2.0 * self.error])

    def most(self, whole: Instance, z: Labels, lower_bound: float) -> float:
        """Return the most that `lift` can give, for any labelling of the loose nodes."""
        low, high = self.instance.value_between(z[self.loose])
        at_least, at_most = whole.value_between(z)
        rounding = (high - low) + (at_most - at_least) + 8.0 * self.error
        return total_up([at_most, -low, lower_bound, 2.0 * rounding])


def reduce(instance: Instance, z: Labels, sure: Flags) -> Reduced:
    """Return the problem that is left when the certain nodes keep their class in z."""
    loose = np.flatnonzero(~sure)
    K = instance.n_classes
    fixed = np.eye(K)[z] * sure[:, None]
    rows = instance.links[loose]
    eta = instance.eta[loose][:, None]
    linked = np.asarray(rows @ fixed)
    whole = dot_exact(instance.eta, fixed)
    costs = instance.costs[loose] - 2.0 * (instance.w * linked - instance.wt * (eta * whole))
    size = np.abs(instance.costs[loose])
    size = size + 2.0 * (abs(instance.w) * linked + abs(instance.wt) * (eta * whole))
    error = 4.0 * relative_error(instance.roundings + 8) * float(size.max(axis=1).sum())
    costs -= costs.min(axis=1, keepdims=True)
    left = Instance(rows[:, loose], instance.eta[loose], instance.w, instance.wt, costs)
    return Reduced(left, loose, error)


Array = NDArray[np.float64]

# Shifted matrices are this many times further from singular than rounding errors.
_CLEAR = 400.0
# Nodes that are certain up to class names count less than those that are certain.
_NAMES_COUNT = 2
# Small matrices are shifted by this share of their diagonal: far more than rounding errors.
_RAISED = 1e-11


@dataclass(frozen=True)
class NodeCertificates:
    """Nodes that no optimal labelling puts elsewhere.

    Attributes
    ----------
    certified : ndarray of bool, shape (n,)
        Whether a node keeps its class in every optimal labelling.
    renaming : bool
        Whether that holds up to the names of the classes only.
    """

    certified: Flags
    renaming: bool


def certify_nodes(
    instance: Instance, dual: Dual, z: Labels, judgement: Judgement, objective: float
) -> NodeCertificates:
    """Return which nodes keep their label in every optimal labelling.

    Parameters
    ----------
    judgement : Judgement
        The judgement of the dual variables.
    objective : float
        No less than P(z).
    """
    n, K = instance.n_nodes, instance.n_classes
    if K == 1:
        return NodeCertificates(np.ones(n, dtype=bool), renaming=False)
    if not instance.linked:  # nodes are independent: the cheapest class, if it is unique
        cheapest = instance.costs == instance.costs.min(axis=1, keepdims=True)
        alone = cheapest.sum(axis=1) == 1
        return NodeCertificates(alone & cheapest[np.arange(n), z], renaming=False)
    if not judgement.spectra or not math.isfinite(judgement.lower_bound):
        return NodeCertificates(np.zeros(n, dtype=bool), renaming=False)
    if n + 1 > DENSE_MOST:
        return _by_distance(instance, z, judgement, objective)
    inverses = [_Inverse.of(instance, dual, i, judgement) for i in range(K)]
    usable = [inverse for inverse in inverses if inverse is not None]
    if len(usable) < K:
        return NodeCertificates(np.zeros(n, dtype=bool), renaming=False)
    shifts = np.array([inverse.shift for inverse in usable])
    losses = (1.0 + 1e-14) * np.append(shifts * (n / K), n * shifts.max())
    base = total_down(dual.nu, -dual.sigma, -losses)
    named = _by_name(usable, z, base, objective)
    if named.all():
        return NodeCertificates(named, renaming=False)
    anchored = _by_anchor(instance, usable, z, base, objective)
    # Nodes in the class of their anchor share the name of any of them that has one.
    known = np.zeros(K, dtype=bool)
    known[z[anchored & named]] = True
    named |= anchored & known[z]
    if anchored.sum() > _NAMES_COUNT * named.sum():
        return NodeCertificates(anchored, renaming=True)
    return NodeCertificates(named, renaming=False)


@dataclass(frozen=True)
class _Inverse:
    """``(D N_i D + s)⁻¹`` as ``XᵀX``, rounded up in size."""

    X: Array
    shift: float
    first: float

    @classmethod
    def of(cls, instance: Instance, dual: Dual, i: int, judgement: Judgement) -> _Inverse | None:
        matrix = Matrix(instance, dual, i)
        N = matrix.dense()
        size = matrix.size
        margin = 4.0 * relative_error(size + 2) * float(np.abs(N.diagonal()).sum())
        norm = float(matrix.absolute_times(np.ones((size, 1))).max())
        margin += 4.0 * relative_error(matrix.roundings + 64) * norm
        shift = max(0.0, -judgement.spectra[i].least) + _CLEAR * margin
        np.einsum("vv->v", N)[:] += shift
        try:
            R = cholesky(N, lower=True, check_finite=False)
        except LinAlgError:
            return None
        X, info = lapack.dtrtri(R, lower=1)
        if info != 0:
            return None
        X = np.tril(X)
        residual = X @ R
        np.einsum("vv->v", residual)[:] -= 1.0
        off = float(np.linalg.norm(residual))
        off += 2.0 * relative_error(size) * float(np.linalg.norm(R) * np.linalg.norm(X))
        if not off < 0.01:
            return None
        # N + s is no less than (1 − 1/(clear − 1)) R Rᵀ; and from XR = I + F it follows that
        # R⁻¹ = (I + F)⁻¹X, so that ‖R⁻¹y‖ is no more than ‖Xy‖/(1 − ‖F‖).
        X /= (1.0 - off) * math.sqrt(1.0 - 2.0 / _CLEAR)
        return cls(X, shift, 1.0 / matrix.corner_scale)

    def least(self, fixed: tuple[NDArray[np.int64], ...], values: tuple[float, ...]) -> Array:
        """Return a lower bound of yᵀ(N + s)y, with y_0 = 1 and these entries at these nodes.

        Parameters
        ----------
        fixed : tuple of ndarray of shape (m,)
            Nodes whose entries are given; m questions at once.
        values : tuple of float
            Their entries.
        """
        m = len(fixed[0])
        columns = [np.broadcast_to(self.X[:, :1], (len(self.X), m))]
        columns += [self.X[:, nodes + 1] for nodes in fixed]
        k = len(columns)
        G = np.empty((m, k, k))
        for a in range(k):
            for b in range(a, k):
                G[:, a, b] = G[:, b, a] = np.einsum("xm,xm->m", columns[a], columns[b])
        scale = np.sqrt(np.einsum("maa->ma", G))
        G /= scale[:, :, None] * scale[:, None, :]
        np.einsum("maa->ma", G)[:] += _RAISED + 8 * relative_error(len(self.X))
        y = np.array([self.first, *values]) / scale
        solved = np.linalg.solve(np.linalg.cholesky(G), y[:, :, None])[:, :, 0]
        return np.asarray((solved**2).sum(axis=1) * (1.0 - 1e-12))


def _by_name(inverses: list[_Inverse], z: Labels, base: float, objective: float) -> Flags:
    """Return the nodes that no optimal labelling gives another label."""
    n, K = len(z), len(inverses)
    every = np.arange(n)
    outside = np.stack([inverse.least((every,), (0.0,)) for inverse in inverses], axis=1)
    inside = np.stack([inverse.least((every,), (1.0,)) for inverse in inverses], axis=1)
    forced = base + outside.sum(axis=1, keepdims=True) - outside + inside
    forced -= 1e-13 * K * (abs(base) + np.abs(forced))
    forced[every, z] = np.inf
    return np.asarray(forced.min(axis=1) > objective)


def _by_anchor(
    instance: Instance, inverses: list[_Inverse], z: Labels, base: float, objective: float
) -> Flags:
    """Return the nodes that every optimal labelling puts with the anchor of their class."""
    n, K = len(z), len(inverses)
    H = instance.gains(z)
    every = np.arange(n)
    own = H[every, z]
    ahead = own - np.where(np.eye(K, dtype=bool)[z], -np.inf, H).max(axis=1)
    filled = [i for i in range(K) if (z == i).any()]
    anchors = {i: int(np.flatnonzero(z == i)[ahead[z == i].argmax()]) for i in filled}
    certified = np.zeros(n, dtype=bool)
    certified[list(anchors.values())] = True
    others = np.flatnonzero(~certified)
    apart = _apart(inverses, np.array([anchors[i] for i in z[others].tolist()]), others)
    certified[others] = base + apart - 1e-12 * (abs(base) + apart) > objective
    pairs = np.array(list(itertools.combinations(filled, 2))).reshape(-1, 2)
    if len(pairs):
        ends = np.vectorize(anchors.__getitem__)(pairs)
        together = _together(inverses, ends[:, 0], ends[:, 1])
        shared = base + together - 1e-12 * (abs(base) + together) <= objective
        # Two anchors that could share a class: neither class is certain.
        certified[np.isin(z, pairs[shared])] = False
    return certified


def _apart(inverses: list[_Inverse], u: NDArray[np.int64], v: NDArray[np.int64]) -> Array:
    """Return lower bounds of the matrices where u and v are in different classes."""
    if not len(u):
        return np.empty(0)
    none = np.stack([inverse.least((u, v), (0.0, 0.0)) for inverse in inverses])
    with_u = np.stack([inverse.least((u, v), (1.0, 0.0)) for inverse in inverses]) - none
    with_v = np.stack([inverse.least((u, v), (0.0, 1.0)) for inverse in inverses]) - none
    K = len(inverses)
    best = np.full(len(u), np.inf)
    for i in range(K):
        for j in range(K):
            if i != j:
                best = np.minimum(best, with_u[i] + with_v[j])
    return np.asarray(none.sum(axis=0) + best)


def _together(inverses: list[_Inverse], u: NDArray[np.int64], v: NDArray[np.int64]) -> Array:
    """Return lower bounds of the matrices where u and v share a class."""
    none = np.stack([inverse.least((u, v), (0.0, 0.0)) for inverse in inverses])
    both = np.stack([inverse.least((u, v), (1.0, 1.0)) for inverse in inverses])
    return np.asarray(none.sum(axis=0) + (both - none).min(axis=0))


def _by_distance(
    instance: Instance, z: Labels, judgement: Judgement, objective: float
) -> NodeCertificates:
    """Return the nodes by how far yᵢ is from the null vectors.

    Beyond them N_i has at least δ_i. With one set apart, the class itself, an entry that differs
    costs δ_i/(1 + K/n). With more, no class can be split for less than δ·(2 − 2/m), m the size
    of the smallest, and none left empty for less than δ·hn/(hK + n), 1/h = Σ 1/|C_j|.

    Null vectors are so but for rounding: of xᵀNx ≥ −κ‖Va‖² − 2ρ‖Va‖‖y‖ + δ‖y‖² at least
    .999 δ‖y‖² is left if the rest is counted a thousand times.
    """
    n, K = instance.n_nodes, instance.n_classes
    missing = objective - judgement.lower_bound + 1000.0 * judgement.loss
    beyond = np.array([spectrum.beyond for spectrum in judgement.spectra])
    none = NodeCertificates(np.zeros(n, dtype=bool), renaming=False)
    if not (beyond > 0).all():
        return none
    if all(spectrum.n_deflated == 1 for spectrum in judgement.spectra):
        rest = np.where(np.eye(K, dtype=bool), np.inf, beyond).min(axis=1)
        worth = 0.999 * (beyond + rest) / (1.0 + K / n)
        return NodeCertificates(np.asarray((worth > missing)[z]), renaming=False)
    sizes = np.bincount(z, minlength=K)
    if not (sizes > 0).all() or sizes.min() < 2:
        return none
    h = 1.0 / float((1.0 / sizes).sum())
    cheapest = min(2.0 - 2.0 / float(sizes.min()), h * n / (h * K + n))
    if not 0.999 * cheapest * float(beyond.min()) > missing:
        return none
    named = np.eye(K)[z].T @ instance.costs
    return NodeCertificates(np.ones(n, dtype=bool), not _names_matter(named, missing))


def _names_matter(named: Array, missing: float) -> bool:
    """Return whether every renaming of the classes costs more than the gap."""
    now = float(np.trace(named))
    slack = missing + 1e-12 * float(np.abs(named).sum())
    for j in range(len(named)):
        barred = named.copy()
        barred[j, j] = np.inf
        try:
            rows, columns = linear_sum_assignment(barred)
        except ValueError:
            continue
        if float(barred[rows, columns].sum()) - now <= slack:
            return False
    return True
