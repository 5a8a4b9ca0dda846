"""Labelling problems small enough to go through all labellings, in rational numbers."""

import itertools
import json
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np
import scipy.sparse as sp

from nodeproof import Problem
from nodeproof.certificate.labelling.certify import certify_instance
from nodeproof.certificate.labelling.dual import Dual, Factors
from nodeproof.certificate.labelling.instance import Instance
from nodeproof.certificate.labelling.result import Certificate
from nodeproof.graph import Graph
from nodeproof.terms import Covariance, Gaussian, Labels, NodeData

KINDS = ("random", "ties", "near")


# All labellings. ------------------------------------------------------------------------


@dataclass(frozen=True)
class Truth:
    """The least objective, exactly, and every labelling that has it."""

    best: Fraction
    optimal: np.ndarray

    def agrees(self, labels, nodes, renaming) -> bool:
        """Whether every optimal labelling is as `labels` at these nodes."""
        if not renaming:
            return bool((self.optimal[:, nodes] == labels[nodes]).all())
        wanted = np.equal.outer(labels[nodes], labels[nodes])
        return all((np.equal.outer(z[nodes], z[nodes]) == wanted).all() for z in self.optimal)

    def within(self, possible, renaming=False) -> bool:
        """Whether every optimal labelling has possible classes only, with other names perhaps."""
        n, K = possible.shape
        if not renaming:
            return bool(possible[np.arange(n), self.optimal].all())
        fits = np.zeros(len(self.optimal), dtype=bool)
        for names in itertools.permutations(range(K)):
            fits |= possible[np.arange(n), np.array(names)[self.optimal]].all(axis=1)
        return bool(fits.all())


def exact_value(instance: Instance, z) -> Fraction:
    """Return P(z) in rational numbers, from the definition."""
    A, eta = instance.adjacency.toarray(), [Fraction(float(x)) for x in instance.eta]
    w, wt = Fraction(instance.w), Fraction(instance.wt)
    total = sum((Fraction(float(instance.costs[v, i])) for v, i in enumerate(z)), Fraction(0))
    for u, v in itertools.combinations(range(len(z)), 2):
        if z[u] == z[v]:
            total -= 2 * (w * Fraction(float(A[u, v])) - wt * eta[u] * eta[v])
    return total


def enumerate_all(instance: Instance) -> Truth:
    """Return the truth: all labellings roughly, and those that may be best exactly."""
    n, K = instance.costs.shape
    B = instance.w * instance.adjacency.toarray() - instance.wt * np.outer(
        instance.eta, instance.eta
    )
    every = np.array(list(itertools.product(range(K), repeat=n)), dtype=np.int64).reshape(-1, n)
    values = instance.costs[np.arange(n), every].sum(axis=1)
    for u, v in itertools.combinations(range(n), 2):
        values -= 2.0 * B[u, v] * (every[:, u] == every[:, v])
    size = 2.0 * np.abs(B).sum() + np.abs(instance.costs).max(axis=1).sum()
    # Rounding does a millionth of this.
    near = every[values <= values.min() + 1e-9 * size]
    exact = _exact_values(instance, near)
    best = min(exact)
    return Truth(best, near[[value == best for value in exact]])


def _exact_values(instance: Instance, labellings) -> list[Fraction]:
    """Return P of some labellings as rational numbers over one denominator."""
    n = instance.n_nodes
    A, eta = instance.adjacency.toarray(), [Fraction(float(x)) for x in instance.eta]
    w, wt = Fraction(instance.w), Fraction(instance.wt)
    pairs = [
        [2 * (w * Fraction(float(A[u, v])) - wt * eta[u] * eta[v]) for v in range(u)]
        for u in range(n)
    ]
    costs = [[Fraction(float(x)) for x in row] for row in instance.costs]
    # Numbers in binary have powers of two below the line: the largest serves all.
    line = max(x.denominator for row in pairs + costs for x in row)
    total = np.zeros(len(labellings), dtype=object)
    for u in range(n):
        paid = np.array([int(x * line) for x in costs[u]], dtype=object)
        total = total + paid[labellings[:, u]]
        for v in range(u):
            together = (labellings[:, u] == labellings[:, v]).astype(object)
            total = total - int(pairs[u][v] * line) * together
    return [Fraction(int(value), line) for value in total]


@dataclass
class Tally:
    """How often something was proven, so that a proof of nothing is noticed."""

    instances: int = 0
    optimal: int = 0
    certified: int = 0
    unique: int = 0
    nodes: int = 0
    all_nodes: int = 0
    steps: int = 0
    methods: set = field(default_factory=set)


def check_never_wrong(proof: Certificate, tally: Tally, exactly: bool = True) -> None:
    """Assert that nothing that a certificate of a small instance says is false.

    With `exactly`, what is certified must be the best without any tolerance.
    """
    instance = proof.instance
    truth = enumerate_all(instance)
    mine = exact_value(instance, proof.labels)
    said = why_false(proof.claim(), proof.to_arrays(), truth)
    assert not said, said
    assert not np.isnan(proof.lower_bound)
    if proof.certified:
        assert mine <= truth.best + Fraction(proof.tolerance)
        assert mine == truth.best or not exactly
    assert truth.agrees(proof.labels, proof.certified_nodes, proof.renaming)
    assert proof.verify(), proof.verify().reason
    tally.instances += 1
    tally.optimal += mine == truth.best
    tally.certified += proof.certified and mine == truth.best
    tally.unique += proof.unique
    tally.nodes += int(proof.certified_nodes.sum())
    tally.all_nodes += len(proof.labels)
    tally.steps += len(proof.steps)
    tally.methods.update(proof.method.split(", "))


def why_false(claim, arrays, truth: Truth | None = None) -> str:
    """Return what is false of a claim about a small problem, by all labellings; "" if nothing."""
    instance, z = instance_of(arrays), np.asarray(arrays["labels"])
    truth = enumerate_all(instance) if truth is None else truth
    mine, possible = exact_value(instance, z), np.asarray(arrays["possible"])
    objective, bound = float(claim["objective"]), float(claim["lower_bound"])
    rounding = Fraction(1e-13 * instance.span + 1e-280)
    if not np.isfinite(objective) or abs(Fraction(objective) - mine) > rounding:
        return f"its objective is {float(mine)!r}, not {objective!r}"
    if not bound <= objective or (np.isfinite(bound) and Fraction(bound) > truth.best):
        return f"the least objective is {float(truth.best)!r}, below {bound!r}"
    if claim["exact"] and mine != truth.best:
        return "it is not the best"
    if not truth.within(possible, bool(claim["renaming"])):
        return "an optimal labelling has a class that is not possible"
    every = np.ones(len(z), dtype=bool)
    if claim["unique"] and not truth.agrees(z, every, bool(claim["renaming"])):
        return "it is not the only one"
    return ""


def instance_of(arrays) -> Instance:
    """Return the labelling problem of named arrays, unchecked."""
    n, weights = len(arrays["costs"]), np.asarray(arrays["weights"], dtype=np.float64)
    weights = weights if len(weights) else np.ones(len(arrays["indices"]))
    A = sp.csr_array((weights, arrays["indices"], arrays["indptr"]), shape=(n, n))
    w, wt = (float(x) for x in arrays["scales"])
    return Instance(A, arrays["eta"], w, wt, arrays["costs"])


def claim_of(found, tolerance=0.0, renaming=False) -> dict:
    """Return all that the auditor has found as a claim; `possible` belongs to the arrays."""
    known = found.unnamed if renaming else found.possible
    return {
        "objective": found.objective, "lower_bound": found.lower_bound, "tolerance": tolerance,
        "exact": found.exact, "unique": bool((known.sum(axis=1) == 1).all()), "renaming": renaming,
    }  # fmt: skip


# Instances. -----------------------------------------------------------------------------


def draw_instance(rng: np.random.Generator, kind: str) -> Instance:
    """Return a small labelling problem: of real numbers, with exact ties, or all but tied."""
    n, K = int(rng.integers(1, 8)), int(rng.integers(1, 4))
    if rng.random() < 0.15:
        n, K = int(rng.integers(8, 11)), 2
    if rng.random() < 0.03:
        n, K = int(rng.integers(8, 11)), 3
    whole = kind != "random"
    A = np.triu(rng.random((n, n)) < rng.choice([0.3, 0.5, 0.8]), 1) * 1.0
    if rng.random() < 0.4:
        A *= rng.integers(1, 4, size=(n, n)) if whole else rng.exponential(size=(n, n))
    if rng.random() < 0.2:  # nodes without a link
        A[rng.random(n) < 0.4] = 0.0
    costs = _draw_costs(rng, n, K, whole)
    if rng.random() < 0.5:  # planted, so that something can be proven
        z = rng.integers(K, size=n)
        costs = costs + float(rng.choice([0, 1, 3, 6])) * (1.0 - np.eye(K)[z])
        A *= np.where(np.equal.outer(z, z), 1.0, rng.choice([0.0, 1.0, 0.5]))
    A = A + A.T
    if whole and n > 1 and rng.random() < 0.3:  # two nodes of which nothing tells one from another
        A, costs = _twin(A, costs, *rng.choice(n, 2, replace=False))
    eta = np.ones(n)
    if rng.random() < 0.5:
        d = A.sum(axis=1)
        eta = d if whole else d / np.sqrt(max(float(d.sum()), 1.0))
    w = float(rng.choice([1.0, 0.5, 2.0, -1.0])) if whole else float(rng.normal(0.7, 0.5))
    wt = w * (float(rng.choice([0.25, 0.5, 0.125])) if whole else float(rng.random()))
    if kind == "near":
        tiny = float(rng.choice([1e-11, 1e-13]))
        costs = costs + tiny * rng.integers(-2, 3, size=costs.shape)
        if rng.random() < 0.4:
            upper = np.triu(A * rng.choice([0.0, 1.0, -1.0], size=A.shape), 1)
            A = A + tiny * (upper + upper.T)
        if rng.random() < 0.3:
            w *= 1.0 + tiny
    return Instance(sp.csr_array(A), eta, w, wt, np.asarray(costs, dtype=np.float64))


def _draw_costs(rng, n, K, whole):
    style = int(rng.integers(6))
    drawn = rng.integers(0, 3, size=(n, K)) * 1.0 if whole else rng.exponential(size=(n, K))
    if style == 0:  # names mean nothing
        return np.zeros((n, K))
    if style == 1:
        return drawn
    if style == 2:  # a few labels
        return np.where(rng.random((n, 1)) < 0.4, drawn, 0.0)
    if style == 3:  # every node would rather be in the same class
        return np.tile(drawn[:1], (n, 1))
    if style == 4:  # a class that nobody can afford
        drawn[:, -1] += 50.0
        return drawn
    costs = drawn.copy()  # two classes that cost the same
    costs[:, -1] = costs[:, 0]
    return costs


def _twin(A, costs, u, v):
    A, costs = A.copy(), costs.copy()
    A[v], A[:, v] = A[u], A[u]
    A[u, v] = A[v, u] = A[v, v] = 0.0
    costs[v] = costs[u]
    return A, costs


def draw_problem(rng: np.random.Generator) -> Problem:
    """Return a small problem with real terms, of fixed or calibrated weights."""
    n, K = int(rng.integers(3, 9)), int(rng.integers(2, 4))
    z = rng.integers(K, size=n)
    dense, loose = rng.choice([0.5, 0.7, 0.9]), rng.choice([0.05, 0.2, 0.5])
    upper = np.triu(rng.random((n, n)) < np.where(np.equal.outer(z, z), dense, loose), 1) * 1.0
    if rng.random() < 0.4:
        upper *= rng.uniform(0.3, 3.0, size=(n, n))
    y = np.where(rng.random(n) < 0.8, z, rng.integers(K, size=n))
    y[rng.random(n) < 0.3] = -1
    X = rng.normal(size=(n, 2)) * np.where(z[:, None] % 2, [1.5, 0.3], [0.3, 1.5]) + z[:, None]
    nodes = NodeData(K, X, y)
    kinds = [[Labels()], [Covariance()], [Gaussian()], [Labels(), Gaussian()], []]
    chosen = kinds[int(rng.integers(len(kinds)))]
    calibrated = rng.random() < 0.5
    terms = [term.bind(nodes) for term in chosen]
    graph = Graph(upper + upper.T, str(rng.choice(["uniform", "degree"])))
    if terms and rng.random() < 0.1:
        graph = None
    weights = tuple(rng.choice([0.2, 1.0, 2.5], size=3))
    return Problem(graph, terms, K, "calibrated" if calibrated else weights, rng.uniform(0.1, 0.6))


# Dual variables. ------------------------------------------------------------------------


def draw_dual(rng: np.random.Generator, n: int, K: int, form: str, scale: float = 1.0) -> Dual:
    """Return dual variables of nothing in particular; Γ ≥ 0 in any of its forms."""
    return Dual(
        scale * rng.normal(size=n),
        scale * rng.normal(size=(K, n)),
        scale * rng.normal(size=K) * n / K,
        draw_gamma(rng, n, K, form, scale * 10.0 ** rng.uniform(-3, 0)),
    )


def draw_gamma(rng, n, K, form, scale):
    """Return prices of the signs: none, in factors, one matrix, or one a class."""
    if form == "none":
        return None
    if form == "factors":
        g = np.triu(rng.random((K, K)), 1)
        a = np.sqrt(scale) * rng.exponential(size=(n, K))
        return Factors(rng.integers(K, size=n), a, g + g.T)
    shape = (n, n) if form == "one" else (K, n, n)
    upper = np.triu(scale * rng.exponential(size=shape), 1)
    return upper + np.swapaxes(upper, -1, -2)


def planted_instance(sizes, p=0.4, q=0.05, cost=0.0, known=1.0, seed=0, t=0.2):
    """Return a planted instance and its classes; some nodes pay for another class."""
    rng = np.random.default_rng(seed)
    z = np.repeat(np.arange(len(sizes)), sizes)
    upper = np.triu(rng.random((len(z), len(z))) < np.where(np.equal.outer(z, z), p, q), 1)
    costs = cost * (1.0 - np.eye(len(sizes))[z]) * (rng.random(len(z)) < known)[:, None]
    A = sp.csr_array((upper + upper.T).astype(np.float64))
    return Instance(A, np.ones(len(z)), 1.0, t, costs), z


# Certificates, whole and damaged. --------------------------------------------------------


def make_proof(name) -> Certificate:
    """Return a certificate of a planted instance, proven in one of several ways."""
    if name == "small":  # few enough to compare all labellings
        instance, z = planted_instance([5, 4], p=0.9, q=0.2, cost=3.0)
        return certify_instance(instance, z, time_budget=0)
    if name == "costs":
        instance, z = planted_instance([40, 50, 60], p=0.4, cost=8.0)
        return certify_instance(instance, z, time_budget=0)
    if name == "graph":
        instance, z = planted_instance([50, 50, 50], p=0.5)
        return certify_instance(instance, z, time_budget=0)
    instance, z = planted_instance([8, 7, 6], p=0.9, q=0.2, cost=2.0, known=0.6, t=0.4)
    return certify_instance(instance, z, max_iter=300)


def changed(array, index, value):
    """Return an array with another entry."""
    out = np.array(array)
    out[index] = value
    return out


def with_step(proof, k, **changes) -> Certificate:
    """Return a certificate with another step; changes of dual variables belong to its dual."""
    step = proof.steps[k]
    own = {name: changes.pop(name) for name in list(changes) if hasattr(step.dual, name)}
    step = replace(step, dual=replace(step.dual, **own), **changes)
    return replace(proof, steps=(*proof.steps[:k], step, *proof.steps[k + 1 :]))


def with_instance(proof, **changes) -> Certificate:
    """Return a certificate of another instance."""
    i = proof.instance
    parts = {"adjacency": i.adjacency, "eta": i.eta, "w": i.w, "wt": i.wt, "costs": i.costs}
    return replace(proof, instance=Instance(**(parts | changes)))


def rewrite(path, **changes):
    """Change arrays of a saved certificate, or leave them out where the change is None."""
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files}
    meta = json.loads(arrays["meta"].tobytes())
    meta |= changes.pop("meta", {})
    arrays["meta"] = np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8)
    arrays |= changes
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})


def refused(proof, model=None, **accepted) -> str:
    """Assert that a certificate does not verify, and says why in one line; return that."""
    check = proof.verify(model, **accepted)
    assert not check
    assert check.reason
    assert "\n" not in check.reason
    return check.reason
