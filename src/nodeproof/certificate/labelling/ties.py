"""Exact arithmetic for objectives that floating point cannot distinguish.

A bound proves a labelling optimal up to a tolerance. Where only a few nodes are left that an
optimal labelling could put elsewhere, all of their labellings are compared in rational numbers,
and the best is the best without any tolerance.
"""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from nodeproof.certificate.labelling.instance import Instance

__all__ = ["countable", "resolve", "resolve_ties"]

Labels = NDArray[np.int64]

# Most labellings that are enumerated.
_MOST = 200_000
# Objectives within this share of the size of the numbers are compared exactly.
_NEAR = 1e-9
_MOST_EXACT = 2_000
# All renamings of up to this many classes are compared exactly, for up to this many nodes.
_MOST_NAMED = 5
_MOST_NODES = 20_000


def resolve_ties(
    instance: Instance, z: Labels, certified: NDArray[np.bool_], renaming: bool
) -> Labels | None:
    """Return the best labelling of all, where z is known to be right at the certified nodes.

    None where too many are left to compare. With `renaming` they are right but for names.
    """
    if not renaming:
        return resolve(instance, z, certified)
    if certified.all():
        return _resolve_names(instance, z)
    if instance.symmetric:
        return resolve(instance, z, certified)
    if not countable(instance, certified, renaming):
        return None
    # The remaining nodes are compared for every naming of the certain nodes.
    found = [z]
    for names in itertools.permutations(range(instance.n_classes)):
        best = resolve(instance, np.array(names)[z], certified)
        if best is None:
            return None
        found.append(best)
    return min(found, key=lambda labels: _value(instance, labels))


def _value(instance: Instance, z: Labels) -> Fraction:
    """Return P(z) exactly."""
    A = instance.adjacency.tocoo()
    inside = z[A.row] == z[A.col]
    linked = sum(map(Fraction, A.data[inside].astype(np.float64).tolist()), Fraction(0))
    pairs = Fraction(0)
    for i in range(instance.n_classes):
        eta = [Fraction(x) for x in instance.eta[z == i].tolist()]
        pairs += sum(eta, Fraction(0)) ** 2 - sum((x * x for x in eta), Fraction(0))
    paid = instance.costs[np.arange(len(z)), z].tolist()
    total = Fraction(instance.wt) * pairs - Fraction(instance.w) * linked
    return total + sum(map(Fraction, paid), Fraction(0))


def countable(instance: Instance, sure: NDArray[np.bool_], renaming: bool = False) -> bool:
    """Return whether all labellings of the uncertain nodes can be enumerated.

    With `renaming`, for all names of the classes.
    """
    K = instance.n_classes
    few = K ** min(int((~sure).sum()), 64) <= _MOST
    if not renaming or instance.symmetric:
        return few
    return few and K <= _MOST_NAMED and instance.n_nodes <= _MOST_NODES


def resolve(instance: Instance, z: Labels, sure: NDArray[np.bool_]) -> Labels | None:
    """Return the best labelling that agrees with z at the certain nodes; None if too many.

    Of labellings that are exactly as good, z is kept if it is among them.
    """
    K = instance.n_classes
    loose = np.flatnonzero(~sure)
    if len(loose) == 0:
        return z
    if not countable(instance, sure):
        return None
    costs, pairs = _reduced(instance, z, loose)
    rough = np.array([[float(x) for x in row] for row in costs])
    rough_pairs = np.array([[float(x) for x in row] for row in pairs])
    every = np.array(list(itertools.product(range(K), repeat=len(loose))))
    values = rough[np.arange(len(loose)), every].sum(axis=1)
    for a in range(len(loose)):
        for b in range(a):
            values -= rough_pairs[a, b] * (every[:, a] == every[:, b])
    size = np.abs(rough).max(initial=0.0) * len(loose) + np.abs(rough_pairs).sum()
    near = np.flatnonzero(values <= values.min() + _NEAR * size)
    if len(near) > _MOST_EXACT:
        return None
    now = tuple(int(label) for label in z[loose])
    # z comes first, so that it wins among equals.
    candidates = [now, *(tuple(int(x) for x in every[k]) for k in near)]
    best = min(candidates, key=lambda labels: _exact(costs, pairs, labels))
    out = z.copy()
    out[loose] = best
    return out


def _resolve_names(instance: Instance, z: Labels) -> Labels | None:
    """Return z with the best names for its classes; None where there are too many to compare."""
    K = instance.n_classes
    if instance.symmetric or K == 1:
        return z
    if K > _MOST_NAMED or len(z) > _MOST_NODES:
        return None
    named = [
        [sum(map(Fraction, instance.costs[z == j, i].tolist()), Fraction(0)) for i in range(K)]
        for j in range(K)
    ]
    identity = tuple(range(K))
    best = min(
        [identity, *itertools.permutations(range(K))],
        key=lambda names: sum((named[j][names[j]] for j in range(K)), Fraction(0)),
    )
    return np.asarray(np.array(best)[z])


def _exact(
    costs: list[list[Fraction]], pairs: list[list[Fraction]], labels: tuple[int, ...]
) -> Fraction:
    total = sum((costs[a][label] for a, label in enumerate(labels)), Fraction(0))
    for a, label in enumerate(labels):
        for b in range(a):
            if labels[b] == label:
                total -= pairs[a][b]
    return total


def _reduced(
    instance: Instance, z: Labels, loose: NDArray[np.int64]
) -> tuple[list[list[Fraction]], list[list[Fraction]]]:
    """Return what loose nodes pay in each class, the others at z, and what their pairs gain."""
    K, A = instance.n_classes, instance.adjacency
    w, wt = Fraction(instance.w), Fraction(instance.wt)
    place = {int(v): a for a, v in enumerate(loose)}
    eta = [Fraction(x) for x in instance.eta[loose].tolist()]
    fixed = np.ones(len(z), dtype=bool)
    fixed[loose] = False
    totals = [
        sum(map(Fraction, instance.eta[fixed & (z == i)].tolist()), Fraction(0)) for i in range(K)
    ]
    costs, pairs = [], [[Fraction(0)] * len(loose) for _ in loose]
    for a, v in enumerate(loose):
        linked = [Fraction(0)] * K
        for e in range(A.indptr[v], A.indptr[v + 1]):
            u, weight = int(A.indices[e]), Fraction(float(A.data[e]))
            if u in place:
                pairs[a][place[u]] += 2 * w * weight
            else:
                linked[z[u]] += weight
        for b in range(len(loose)):
            if b != a:
                pairs[a][b] -= 2 * wt * eta[a] * eta[b]
        costs.append(
            [
                Fraction(float(instance.costs[v, i]))
                - 2 * w * linked[i]
                + 2 * wt * eta[a] * totals[i]
                for i in range(K)
            ]
        )
    return costs, pairs
