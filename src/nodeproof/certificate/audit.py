"""The auditor of labelling certificates: this file alone decides what is proven.

The claim is about the objective of all labellings t of a problem (links A, null models η, scales w
and wt, costs c), in comparison with a given labelling z. With s_i = Σ_{t_v = i} η_v, it is

    P(t) = −w Σ_{u≠v} A_uv [t_u = t_v] + wt Σ_η (Σ_i s_i² − Σ_v η_v²) + Σ_v c[v, t_v].

The proof. For each node the auditor keeps its *possible* classes: no optimal labelling has another
one there. At first these are all but those that cost more than all links of the node can make up
for. Each step lists the classes that it leaves `open`, among them all possible ones. Nodes with one
open class are fixed, and dual variables of one of two kinds bound the problem of the others:

- a Potts dual (w, wt ≥ 0): tangents a, as s² ≥ 2as − a², and a flow y_e for each link e = (u, v),
  u < v. With c_e = 2wA_uv and b_v = c_v + 2wt Σ_η η_v·a + Σ_{e=(v,·)} y_e − Σ_{e=(·,v)} y_e,
  P ≥ −Σ c_e − wt Σ_η (Σ a_i² + Σ η_v²) + Σ_v min_i b_v(i) + Σ_e min(0, c_e − max y_e + min y_e);
- a spectral dual ν, r, σ, Γ_i ≥ 0: with B = wA − wt Σ_η ηηᵀ off the diagonal and
  N_i = [[σ_i, r_iᵀ], [r_i, diag(c_i − ν − 2r_i) − B − Γ_i]], P ≥ Σν − Σσ + Σ_i yᵢᵀ N_i yᵢ with
  yᵢ = [1; 1_{C_i}], and least eigenvalues bound the last sum.

Both also bound labellings with a given class at a node: above P(z), that class is not possible. A
step may raise the costs of some classes at m nodes by κ. A labelling with another class at one of
these pays at most κ(m − 1) more, so if the bound exceeds P(z) + κ(m − 1), only the raised classes
are possible at all m. If few labellings are left, all are compared in rational numbers. What holds
up to the names of classes is proven by steps that are `free`: about the problem with each node's
least cost for all classes, where names can be chosen. The first anchor has its class by choice,
each further one as soon as no class of those before it is possible for it.

Trusted are this file, numpy, scipy.sparse, IEEE double precision and, for spectral duals, the error
bound of a Cholesky factorisation that runs to its end. All rounding counts against the claim. It
imports nothing of the package, and runs alone: ``python audit.py certificate.npz graph.npz``.
"""

from __future__ import annotations

import itertools
import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

Array = np.ndarray[Any, np.dtype[Any]]
Arrays = Mapping[str, Array]
UNIT = 2.0**-53
LARGEST = 1e100  # squares, and sums of them, must stay finite
DENSE = 4000  # most nodes of a spectral dual
ENUMERATED = 200_000  # most labellings that are compared one by one
_COMPARED = 500  # most of these that are compared in rational numbers
_TINY = 1e-290  # more than underflow can cause


class Refused(ValueError):  # noqa: N818 - a verdict
    """What is presented is not valid, or does not prove what it claims."""


@dataclass(frozen=True)
class Check:
    """Whether all claims hold, else the `reason`; objective, bound and tolerance as audited."""

    holds: bool
    objective: float
    lower_bound: float
    reason: str = ""
    tolerance: float = math.nan

    def __bool__(self) -> bool:
        return self.holds


class Found(NamedTuple):
    """What is proven: `possible` and, up to names, `unnamed` are classes of optima, (n, K)."""

    objective: float
    lower_bound: float
    exact: bool
    possible: Array
    unnamed: Array


def _rounding(m: float) -> float:
    """Return the error of m roundings, relative to the sum of absolute values."""
    return 1.01 * m * UNIT if m * UNIT < 0.005 else math.inf


def _sum(*parts: Any) -> float:
    """Return the sum of all entries, rounded once."""
    return math.fsum(itertools.chain.from_iterable(np.ravel(part).tolist() for part in parts))


def _down(x: float) -> float:
    return math.nextafter(x, -math.inf)


def _require(holds: Any, reason: str) -> None:
    if not holds:
        raise Refused(reason)


def _numbers(x: Any, exactly: bool = False) -> Array:
    """Return finite numbers in double precision; tiny ones are zero, or refused if `exactly`."""
    x, known = np.asarray(x), np.asarray(x).dtype.str[1:] in ("f2", "f4", "f8", "i4")
    _require(known and (np.abs(x.astype(float)) <= LARGEST).all(), "some numbers are no numbers")
    kept = np.where(np.abs(x) < 1.0 / LARGEST, 0.0, x).astype(float)
    _require(not exactly or (kept == x).all(), "some numbers are too small to check")
    return kept


@dataclass(frozen=True)
class Problem:
    """A labelling problem: links, R null models (n, R), or one (n,), scales and costs (n, K)."""

    A: sp.csr_array
    eta: Array
    w: float
    wt: float
    costs: Array

    @property
    def null(self) -> Array:
        """The null models, shape (n, R)."""
        return self.eta.reshape(len(self.eta), -1)

    @classmethod
    def of(cls, arrays: Arrays) -> Problem:
        """Return the problem of named arrays."""
        need = ("costs", "eta", "scales", "weights", "indptr", "indices")
        _require(arrays.keys() >= set(need), "a part of the problem is missing")
        costs, eta, scales, weights = (_numbers(arrays[x], exactly=True) for x in need[:4])
        indptr, indices = (np.asarray(arrays[x]) for x in need[4:])
        n, E = len(costs), len(indices)
        weights = weights if len(weights) else np.ones(E)
        shapes = (eta.shape[:1], indptr.shape, indices.shape, weights.shape, scales.shape)
        fits = shapes == ((n,), (n + 1,), (E,), (E,), (2,)) and costs.ndim == 2 and costs.size
        _require(fits and indptr.dtype.kind == indices.dtype.kind == "i", "shapes do not fit")
        inside = ((indptr >= 0) & (indptr <= E)).all() and ((indices >= 0) & (indices < n)).all()
        whole = inside and (np.diff(indptr) >= 0).all() and indptr[0] == 0 and indptr[-1] == E
        _require(whole and (weights > 0).all() and (eta >= 0).all(), "invalid or negative links")
        rows = np.repeat(np.arange(n), np.diff(indptr))
        A = sp.csr_array((weights, indices, indptr), shape=(n, n))
        (back := A.T.tocsr()).sort_indices()
        mirrored = ((back.indices, indices), (back.indptr, indptr), (back.data, A.data))
        valid = all(np.array_equal(*both) for both in mirrored) and (indices != rows).all()
        valid &= ((np.diff(indices) > 0) | (np.diff(rows) > 0)).all()
        _require(valid, "links are not sorted, not symmetric, or of one node alone")
        return cls(A, eta, float(scales[0]), float(scales[1]), costs)

    def unnamed(self, z: Array) -> tuple[Problem, float]:
        """Return the problem with each node's least cost for all classes, and what z saves so."""
        least = np.broadcast_to(self.costs.min(axis=1, keepdims=True), self.costs.shape)
        free, same = replace(self, costs=least), bool((self.costs == least).all())
        return free, 0.0 if same else max(0.0, -_down(free.value(z)[0] - self.value(z)[1]))

    def _parts(self, z: Array) -> tuple[Array, Array, Array]:
        """Return costs, links inside classes and null model, with signs: P(z) is their sum."""
        inside = np.repeat(z, np.diff(self.A.indptr)) == z[self.A.indices]
        sums = np.array([_sum(e[z == i]) for e in self.null.T for i in range(self.costs.shape[1])])
        null = self.wt * np.concatenate([sums * sums, [-_sum(self.eta * self.eta)]])
        linked = np.array([-self.w * _sum(self.A.data[inside])])
        return self.costs[np.arange(len(z)), z], linked, null

    def value(self, z: Array) -> tuple[float, float]:
        """Return two numbers with P(z) between them, the same on every machine."""
        paid, linked, null = self._parts(z)
        total = _sum(paid, linked, null)
        error = 8.0 * UNIT * (abs(linked[0]) + _sum(np.abs(null))) + _TINY
        return _down(total - error), -_down(-total - error)

    def tolerance(self, z: Array) -> float:
        """Return the difference between objective and bound that counts as none by default."""
        paid = abs(self.w) * _sum(self.A.data) + _sum(np.abs(self.costs).max(axis=1))
        span = paid + abs(self.wt) * sum(_sum(e) ** 2 for e in self.null.T)
        return max(1e-9 * _sum(*map(np.abs, self._parts(z))), 1e-13 * span, 4.0 * _TINY)

    def reduced(self, z: Array, fixed: Array) -> tuple[Problem, float]:
        """Return the problem of the other nodes, and by how much rounding can change objectives."""
        if not fixed.any():
            return self, 0.0
        rows, eta, costs = self.A[~fixed], self.eta[~fixed], self.costs[~fixed]
        held = np.eye(self.costs.shape[1])[z] * fixed[:, None]
        linked = np.asarray(rows @ held)
        null = self.null[~fixed] @ [[_sum(e[x > 0]) for x in held.T] for e in self.null.T]
        size = np.abs(costs) + 2.0 * (abs(self.w) * linked + abs(self.wt) * null)
        rounded = int(np.diff(rows.indptr).max(initial=0)) + 23 + self.null.shape[1]
        error = _rounding(rounded) * _sum(size.max(axis=1))
        costs = costs - 2.0 * (self.w * linked - self.wt * null)
        costs -= costs.min(axis=1, keepdims=True)
        (left := rows[:, ~fixed]).sort_indices()
        return Problem(left, eta, self.w, self.wt, costs), error + _TINY


class Potts:
    """What a Potts dual proves, only open classes (n, K) being allowed."""

    def __init__(self, p: Problem, opened: Array, dual: Arrays, margin: float = 0.0) -> None:
        A, (n, K), a, y = p.A, p.costs.shape, _numbers(dual["a"]), _numbers(dual["y"])
        rows = np.repeat(np.arange(n), np.diff(A.indptr))
        upper = A.indices > rows
        c = 2.0 * p.w * A.data[upper]
        fits = min(p.w, p.wt) >= 0 and a.shape == (*p.eta.shape[1:], K) and y.shape == (len(c), K)
        _require(fits, "a Potts dual has wrong shapes, or is of links that repel")
        ends = np.concatenate([rows[upper], A.indices[upper]]), np.tile(np.arange(len(c)), 2)
        flows = sp.csr_array((np.repeat([1.0, -1.0], len(c)), ends), shape=(n, len(c)))
        tangent = (steep := 2.0 * p.wt * p.null) @ (a := a.reshape(-1, K))
        self.b = np.where(opened, p.costs + tangent + flows @ y, np.inf)
        self.size = (np.abs(p.costs) + steep @ np.abs(a) + abs(flows) @ np.abs(y)).max(axis=1)
        error = (1.0 + margin) * _rounding(int(np.diff(A.indptr).max()) + 15 + len(a)) * self.size
        self.least = self.b.min(axis=1)
        largest, smallest = y.max(axis=1, initial=-np.inf), y.min(axis=1, initial=np.inf)
        wide = 4.0 * UNIT * (c + np.abs(largest) + np.abs(smallest))
        link = np.minimum(0.0, c - (largest - smallest) - wide)
        # Each product has at most four roundings; a link that is exactly full loses `wide`.
        constant = np.append(c, p.wt * (flat := np.append(a, p.eta)) * flat) * (1.0 + 16.0 * UNIT)
        self.bound = _down(_sum(self.least, -error, link, -constant) - _TINY)

    def forced(self, named: Array, z: Array) -> Array:
        """Return lower bounds for labellings with node v in class i, shape (n, K)."""
        above = np.minimum(self.b - self.least[:, None], LARGEST)
        above -= 8.0 * UNIT * (self.size + np.abs(self.least))[:, None]
        return np.asarray(self.bound + above - 4.0 * UNIT * (abs(self.bound) + np.abs(above)))


class Spectral:
    """What a spectral dual proves, from the arrays of a step."""

    def __init__(self, p: Problem, dual: Arrays, margin: float = 0.0) -> None:
        (n, K), real = p.costs.shape, ("nu", "r", "sigma", "g", "gamma", "a")
        d = {x: _numbers(dual[x]) if x in real else np.asarray(dual[x]) for x in dual}
        shapes: dict[str, list[Any]] = {"nu": [(n,)], "r": [(K, n)], "sigma": [(K,)], "g": [(K, K)]}
        shapes |= {"gamma": [(n, n), (K, n, n)], "groups": [(n,)], "a": [(n, K)]}
        fits = all(d[x].shape in shapes[x] for x in shapes if x in d) and n <= DENSE
        whole = {"nu", "r", "sigma"} <= d.keys() and len({"groups", "a", "g"} & d.keys()) in (0, 3)
        _require(fits and whole, "dual variables are missing, too many, or of wrong shapes")
        signs = np.zeros((1, n, n)) + d.get("gamma", 0.0)
        if "a" in d:
            _numbers([np.abs(d["a"]).max() ** 3, np.abs(d["g"]).max() ** 3])
            known = d["groups"].dtype.kind == "i" and np.isin(d["groups"], range(K)).all()
            positive = (d["a"] >= 0).all() and (d["g"] >= 0).all()
            _require(known and positive, "prices of signs are negative, or name no class")
            across = d["a"][:, d["groups"]]
            signs = signs + across * across.T * d["g"][np.ix_(d["groups"], d["groups"])]
        good = (signs >= 0).all() and np.array_equal(signs, signs.transpose(0, 2, 1))
        good = good and not np.diagonal(signs, axis1=1, axis2=2).any()
        _require(good, "prices of signs are negative, not symmetric, or not zero on the diagonal")
        self.nu, self.r, self.sigma = d["nu"], d["r"], d["sigma"]
        self.p, self.signs, self.least, self.margin = p, signs, np.empty(K), margin
        found: dict[Any, float] = {}
        for i in range(K):  # classes with the same matrix share its bound
            key = i if len(signs) > 1 else np.r_[self.r[i], self.sigma[i], p.costs[:, i]].tobytes()
            if key not in found:
                value, taken = least_eigenvalue(*self.matrix(i))
                found[key] = min(value - margin * taken, 0.0)
            self.least[i] = found[key]
        self.bound = self._bound(self.least)

    def _bound(self, least: Array) -> float:
        # The trace of D⁻¹yᵢyᵢᵀD⁻¹ (see `matrix`) is n/K + |C_i|, and sizes sum to n.
        n, K = self.p.costs.shape
        losses = (1.0 + 1e-14) * np.append(least * (n / K), n * least.min())
        finite = np.isfinite(losses).all()
        return _down(_sum(self.nu, -self.sigma, losses) - _TINY) if finite else -math.inf

    def matrix(self, i: int) -> tuple[Array, float]:
        """Return D N_i D with D = diag(√(K/n), 1, …, 1), and a bound of its error in norm."""
        p, null, (n, K) = self.p, self.p.null, self.p.costs.shape
        N, signs = np.zeros((n + 1, n + 1)), self.signs[i if len(self.signs) > 1 else 0]
        inner, scale = N[1:, 1:], math.sqrt(K / n)
        inner -= p.w * p.A.toarray()
        size = np.abs(inner).sum(axis=1) + abs(p.wt) * null @ null.sum(axis=0) + signs.sum(axis=1)
        size += np.abs(p.costs[:, i]) + np.abs(self.nu) + 2.0 * np.abs(self.r[i])
        inner += p.wt * (null @ null.T) - signs
        np.einsum("vv->v", inner)[:] = p.costs[:, i] - self.nu - 2.0 * self.r[i]
        N[0, 1:] = N[1:, 0] = scale * self.r[i]
        N[0, 0] = scale**2 * self.sigma[i]
        return N, (31.0 + len(null.T)) * UNIT * float(size.max() + np.abs(N[0]).sum()) + _TINY

    def forced(self, named: Array, z: Array) -> Array:
        """Return lower bounds for labellings with node v in class i and named nodes as in z.

        W = N_i + s is semidefinite, so yᵀWy ≥ 2xᵀWy − xᵀWx for any x. With G near W⁻¹ and x = Gf, f
        zero but at known entries of y, that is 2⟨f, y⟩ − ⟨f, Gf⟩ but for the residual E = WG − 1.
        """
        n, K = self.p.costs.shape
        first, losses, found = math.sqrt(n / K), np.empty(K), np.empty((2, n, K))
        k, given = len(named) + 2, np.append(0, named + 1)
        at = np.concatenate([np.tile(given, (n, 1)), np.arange(1, n + 1)[:, None]], axis=1)
        for i in range(K):
            W, error = self.matrix(i)
            shift = -2.0 * self.least[i] + 2.0 * error + 1e-7 * float(np.abs(W).max())
            np.einsum("vv->v", W)[:] += shift
            losses[i] = shift + 2.0 * error
            G = np.linalg.inv(W)
            E = np.abs(W @ G - np.eye(n + 1)) + _rounding(n + 4) * (np.abs(W) @ np.abs(G))
            E = (E.sum(axis=0) + first * E[0]) * (1.0 + 1e-9)  # |y| ≤ 1 but for its first entry
            block = G[at[:, :, None], at[:, None, :]] + 1e-14 * np.abs(G).max() * np.eye(k)
            for t in (0, 1):
                y = np.tile(np.concatenate([[first], z[named] == i, [t]]), (n, 1))
                f = np.linalg.solve(block, y[:, :, None])[:, :, 0]
                reach = np.abs(f).sum(axis=1) * float(np.abs(G).max())  # no entry of x is larger
                off = (np.abs(f) * E[at]).sum(axis=1) * (2.0 + reach)
                product, form = 2.0 * (f * y).sum(axis=1), np.einsum("va,vab,vb->v", f, block, f)
                off += 64.0 * k * UNIT * (np.abs(f * y).sum(axis=1) + reach * np.abs(f).sum(axis=1))
                found[t, :, i] = np.maximum(0.0, product - form - (1.0 + self.margin) * off)
        base, slop = self._bound(-losses), (1e-13 + 1e-10 * self.margin) * K
        out = base + found[0].sum(axis=1, keepdims=True) - found[0] + found[1]
        return np.asarray(out - slop * (abs(base) + found.sum(axis=(0, 2))[:, None]))


def least_eigenvalue(N: Array, error: float) -> tuple[float, float]:
    """Return a lower bound of the least eigenvalue, and how much of it rounding took."""
    # A factorisation that ends proves G ≥ −(n + 1)u/(1 − (n + 1)u) of its trace (Higham, 10.3).
    n, low = len(N), 0.0
    slack = _rounding(n + 2) * float(np.abs(N.diagonal()).sum()) + n * n * _TINY
    for attempt in range(40):
        shift = low - slack * 4.0 ** max(0, attempt - 1)
        G = N - shift * np.eye(n)
        try:
            _require(np.isfinite(np.linalg.cholesky(G)).all(), "numbers are too far apart")
        except np.linalg.LinAlgError:
            if attempt == 0:  # an estimate of where to begin
                low = min(float(np.linalg.eigvalsh(N)[0]), 0.0)
            continue
        taken = 1.5 * _rounding(n + 2) * float(np.abs(G.diagonal()).sum()) + n * n * _TINY
        taken += 8.0 * UNIT * abs(shift) + error
        return shift - taken, taken + (low - shift)
    return -math.inf, 0.0


def optimal_labellings(p: Problem, possible: Array) -> Array | None:
    """Return all best labellings with possible classes only, shape (m, n); None if too many."""
    counts, base = possible.sum(axis=1), possible.argmax(axis=1)
    if np.log(counts).sum() > math.log(max(ENUMERATED, 0.5)):
        return None
    fixed, choices = counts == 1, [np.flatnonzero(x).tolist() for x in possible[counts != 1]]
    if not choices:
        return base[None]
    sub, error = p.reduced(base, fixed)
    every = np.array(list(itertools.product(*choices)), dtype=np.int64)
    pairs = 2.0 * (sub.w * sub.A.toarray() - sub.wt * (sub.null @ sub.null.T))
    values = sub.costs[np.arange(len(choices)), every].sum(axis=1)
    for u, v in itertools.combinations(range(len(choices)), 2):
        values -= pairs[u, v] * (every[:, u] == every[:, v])
    size = 2.0 * (abs(sub.w) * sub.A.sum() + abs(sub.wt) * (sub.null.sum(axis=0) ** 2).sum())
    size += np.abs(sub.costs).sum()
    near = every[values <= values.min() + 2.0 * error + 1e-11 * size]
    if len(near) > _COMPARED:
        return None
    found, exact = np.tile(base, (len(near), 1)), []
    found[:, ~fixed] = near
    for t in found:
        inside = np.repeat(t, np.diff(p.A.indptr)) == t[p.A.indices]
        total = sum(map(Fraction, p.costs[np.arange(len(t)), t].tolist()), Fraction())
        total -= Fraction(p.w) * sum(map(Fraction, p.A.data[inside].tolist()))
        for e, i in itertools.product(p.null.T, range(p.costs.shape[1])):
            eta = [Fraction(x) for x in e[t == i].tolist()]
            total += Fraction(p.wt) * (sum(eta) ** 2 - sum(x * x for x in eta))
        exact.append(total)
    return found[np.array([value == min(exact) for value in exact])]


class State:
    """The possible classes, shape (n, K), and how many anchors have their names."""

    def __init__(self, p: Problem, z: Array, anchors: Array) -> None:
        self.z, self.anchors, self.named, self.K = z, anchors, 0, p.costs.shape[1]
        most = abs(p.w) * np.asarray(p.A.sum(axis=1)) + abs(p.wt) * p.null @ p.null.sum(axis=0)
        self.possible = p.costs - p.costs.min(axis=1, keepdims=True) <= 2.00001 * most[:, None]
        self.possible[np.arange(len(z)), z] = True
        valid = anchors.ndim == 1 and anchors.dtype.kind == "i"
        _require(valid and np.isin(anchors, np.arange(len(z))).all(), "an anchor is no node")

    def name(self) -> bool:
        """Give further anchors their names where that is allowed; return whether any got one."""
        before = self.named
        while self.named < len(self.anchors):
            v, used = self.anchors[self.named], self.z[self.anchors[: self.named]]
            if self.z[v] in used or self.possible[v, used].any():
                break
            self.possible[v] = np.arange(self.K) == self.z[v]
            self.named += 1
        return self.named > before


def take_step(p: Problem, state: State, part: Arrays, margin: float, offset: float = 0.0) -> float:
    """Update what is possible by a step; return how far its bound is from P(z) + offset.

    With a margin of 1, bounds are lowered by what rounding may take on other machines.
    """
    z, opened, (n, K) = state.z, np.asarray(part["open"]), p.costs.shape
    state.name()
    _require(opened.shape == (n, K) and opened.dtype == bool, "a step has wrong shapes")
    _require(not (state.possible & ~opened).any(), "a step leaves out possible classes")
    fixed = opened.sum(axis=1) == 1
    _require(opened[np.arange(n), z].all() and not fixed.all(), "a step is about no node")
    sub, error = p.reduced(z, fixed)
    above, kappa = [sub.value(z[~fixed])[1], 2.0 * error, offset], 0.0
    raised = np.asarray(part.get("raised", np.zeros((n, K), dtype=bool)))
    if raised.any():
        kappa = float(part["kappa"])
        valid = 0 < kappa <= LARGEST and raised.shape == (n, K) and raised.dtype == bool
        _require(valid and not raised[fixed].any(), "a group of nodes to prove is none")
        sub = replace(sub, costs=sub.costs + kappa * raised[~fixed])
        above += [4.0 * UNIT * _sum(np.abs(sub.costs).max(axis=1)) + _TINY]
        above += [(1.0 + 4.0 * UNIT) * kappa * int(raised.any(axis=1).sum())]
    target = -_down(-_sum(above))
    dual = Potts(sub, opened[~fixed], part, margin) if "y" in part else Spectral(sub, part, margin)
    slack = max(0.0, -_down(dual.bound - target))
    if slack < kappa:
        state.possible[raised.any(axis=1)] &= raised[raised.any(axis=1)]
    while not kappa and slack < math.inf and not part.get("plain", False):
        known = np.flatnonzero(np.isin(np.flatnonzero(~fixed), state.anchors[: state.named]))
        state.possible[~fixed] &= ~(dual.forced(known, z[~fixed]) > target)
        if not state.name():
            break
    return slack


def conclude(p: Problem, named: State, free: State, slacks: Sequence[float]) -> Found:
    """Return what the steps prove together; if few labellings are left, compare them all."""
    z, (n, K) = named.z, p.costs.shape
    free.name()
    kept = (named.possible & free.possible)[np.arange(n), z]
    _require(kept.all(), "the steps contradict each other")
    state = free if len(free.anchors) and (p.costs == p.costs[:, :1]).all() else named
    best = optimal_labellings(p, state.possible)
    exact = best is not None and bool((best == z).all(axis=1).any())
    while exact and best is not None:
        state.possible = np.stack([(best == i).any(axis=0) for i in range(K)], axis=1)
        if not state.name():
            break
        best = best[(best[:, state.anchors] == z[state.anchors])[:, : state.named].all(axis=1)]
    low, objective = p.value(z)
    bound = low if exact else _down(low - min(slacks, default=math.inf))
    return Found(objective, bound, exact, named.possible, free.possible)


def examine(arrays: Arrays, margin: float = 0.0) -> tuple[Problem, Array, Found]:
    """Return the problem, the labelling, and what the steps prove; `margin` as in `take_step`."""
    p, z, none = Problem.of(arrays), np.asarray(arrays["labels"]), np.empty(0, dtype=np.int64)
    labels = z.shape == p.costs.shape[:1] and z.dtype.kind == "i"
    _require(labels and ((z >= 0) & (z < p.costs.shape[1])).all(), "a label names no class")
    unnamed, offset = p.unnamed(z)
    named, free = State(p, z, none), State(unnamed, z, np.asarray(arrays.get("anchors", none)))
    slacks: list[float] = []
    while f"step{len(slacks)}_open" in arrays:
        prefix = f"step{len(slacks)}_"
        part = {x.removeprefix(prefix): a for x, a in arrays.items() if x.startswith(prefix)}
        of, state, saved = (unnamed, free, offset) if part.pop("free", False) else (p, named, 0.0)
        slacks.append(take_step(of, state, part, margin, saved))
    return p, z, conclude(p, named, free, slacks)


def audit(claim: Mapping[str, Any], arrays: Arrays, tolerance: float | None = None) -> Check:
    """Return whether all that is claimed is proven, up to a tolerance, by default 1e-9 of P(z)."""
    try:
        p, z, found = examine(arrays)
        accepted = p.tolerance(z) if tolerance is None else tolerance
        objective, bound = float(claim["objective"]), float(claim["lower_bound"])
        known = found.unnamed if claim["renaming"] else found.possible
        possible, (low, high) = np.asarray(arrays["possible"]), p.value(z)
        _require(possible.shape == known.shape and possible.dtype == bool, "shapes do not fit")
        _require(low <= objective <= high, f"the objective is {high:.12g}, not {objective:.12g}")
        proven, most = found.lower_bound, float(claim["tolerance"])
        _require(bound <= proven, f"the dual variables prove {proven:.12g}, not {bound:.12g}")
        _require(most >= 0.0 and math.isfinite(most), "its tolerance is none")
        loose = f"its tolerance is {most:.3g}; to accept it, verify with a tolerance of {most:.3g}"
        _require(objective - bound > most or most <= (1.0 + 1e-9) * accepted, loose)
        _require(not (known & ~possible).any(), "nodes are not proven to keep their class")
        _require(found.exact or not claim["exact"], "it is not proven best without a tolerance")
        several = (known.sum(axis=1) > 1).any()
        _require(not (several and claim["unique"]), "it is not proven to be the only one")
    except (KeyError, IndexError, TypeError, ValueError, ArithmeticError, MemoryError) as error:
        said = str(error) if isinstance(error, Refused) else f"it cannot be read: {error!s:.80}"
        return Check(False, math.nan, -math.inf, said)
    return Check(True, found.objective, found.lower_bound, "", accepted)


def main(certificate: str = "", graph: str = "") -> int:
    """Print whether a certificate holds for a graph saved by `scipy.sparse.save_npz`."""
    try:
        arrays, A = dict(np.load(certificate, allow_pickle=False)), sp.csr_array(sp.load_npz(graph))
        claim = json.loads(arrays.pop("meta").tobytes())
    except Exception as error:  # whatever numpy, json and zip files raise
        print(f"cannot be read as a certificate and a graph: {error!r:.200}")
        return 2
    found = audit(claim, arrays)
    mine = Problem.of(arrays).A if found else A
    if mine.shape != A.shape or (mine != A).nnz:
        found = replace(found, holds=False, reason="it is about another graph")
    said = f"confirmed: objective {found.objective:.12g}, lower bound {found.lower_bound:.12g}"
    print(said if found else f"refused: {found.reason}")
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
