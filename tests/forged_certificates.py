"""Certificates that say what is not true, as a forger would make them: all else fits together."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from certificate_helpers import changed, claims_are_true, planted_instance, restated, with_dual
from nodeproof.certificate import Certificate
from nodeproof.certificate.labelling.certify import certify_instance
from nodeproof.certificate.labelling.dual import Dual
from nodeproof.certificate.labelling.instance import Instance

Forgeries = Iterator[tuple[str, Certificate]]


def genuine(name: str) -> Certificate:
    """Return a true certificate of few nodes, proven in one of several ways."""
    if name == "costs":
        instance, z = planted_instance([5, 4], p=0.9, q=0.2, cost=3.0)
    elif name == "graph":
        instance, z = planted_instance([5, 5], p=1.0, q=0.1, t=0.4)
    else:  # of the whole, little is proven
        instance, z = planted_instance([5, 5], p=0.6, q=0.4, cost=1.0, known=0.5, t=0.4, seed=3)
    proof = certify_instance(instance, z, time_budget=0, max_iter=0)
    assert proof.certified == (name != "partly")
    return proof


def forgeries(proof: Certificate, seed: int = 0) -> Forgeries:
    """Yield certificates of the same problem, or of another, that must not be confirmed."""
    yield from _other_labellings(proof)
    yield from _other_numbers(proof)
    yield from _other_words(proof)
    yield from _other_duals(proof)
    yield from _other_graphs(proof)
    yield from _drawn(proof, np.random.default_rng(seed))


def worse_labellings(proof: Certificate) -> Iterator[tuple[str, np.ndarray]]:
    """Yield labellings that cost more than the one that was proven, by far."""
    z, K = proof.labels, proof.instance.n_classes
    rng = np.random.default_rng(0)
    for name, other in (
        ("one node moved", changed(z, 0, (z[0] + 1) % K)),
        ("two nodes moved", changed(z, [0, -1], (z[[0, -1]] + 1) % K)),
        ("one class", np.zeros_like(z)),
        ("random", rng.integers(K, size=len(z))),
    ):
        if proof.instance.value(other) > proof.objective + 1e-3:
            yield name, other


def relabelled(proof: Certificate, z: np.ndarray, **changes) -> Certificate:
    """Return it for another labelling: its objective is right, and nothing is said of nodes."""
    plain = {
        "objective": proof.instance.value_between(z)[1],
        "tolerance": proof.instance.tolerance(z),
        "certified_nodes": np.zeros(len(z), dtype=bool),
        "moved": np.flatnonzero(z != proof.labels),
        "exact": False,
        "unique": False,
        "lower_bound": proof.dual_bound,
    }
    return restated(proof, labels=z, **(plain | changes))


def _other_labellings(proof: Certificate) -> Forgeries:
    for name, z in worse_labellings(proof):
        value = proof.instance.value_between(z)[1]
        for tolerance in (1.01 * (value - proof.dual_bound), 1e6, 1e9, 1e300):
            loose = relabelled(proof, z, tolerance=tolerance)
            assert loose.certified
            said = f"{name}, tolerance {tolerance:.0e}"
            yield said, loose
            yield f"{said}, not named", replace(loose, status="certified")
            yield f"{said}, exact", replace(loose, exact=True)
        raised = {"lower_bound": value, "dual_bound": value}
        yield f"{name}, bound raised", relabelled(proof, z, **raised)
        yield f"{name}, bound raised, unique", relabelled(proof, z, **raised, unique=True)
        sure = np.ones(len(z), dtype=bool)
        yield f"{name}, sure", relabelled(proof, z, certified_nodes=sure)
        if proof.certified:
            yield f"{name}, all else kept", replace(proof, labels=z)


def _other_numbers(proof: Certificate) -> Forgeries:
    size = max(abs(proof.objective), 1.0)
    for by in (1e-7, 1e-3, 1.0):
        yield f"objective lower by {by}", restated(proof, objective=proof.objective - by * size)
        yield f"objective higher by {by}", restated(proof, objective=proof.objective + by * size)
    room = max(proof.objective - proof.lower_bound, 0.0)
    for by in (5e-7 * abs(proof.lower_bound), 0.5 * room, room):
        if by > 1e-6 * proof.instance.span:
            higher = proof.lower_bound + by
            yield f"bound higher by {by:.0e}", restated(proof, lower_bound=higher)
            both = restated(proof, lower_bound=higher, dual_bound=higher)
            yield f"both bounds higher by {by:.0e}", both
    for number in (np.nan, np.inf, -np.inf):
        for field in ("objective", "lower_bound", "tolerance", "gap", "failure", "dual_bound"):
            if (field, number) == ("dual_bound", -np.inf):
                continue  # which says nothing, so it is true
            yield f"{field} {number}", replace(proof, **{field: number})
    yield "a negative tolerance", replace(proof, tolerance=-1.0)
    yield "a tolerance of 1e6", restated(proof, tolerance=1e6)
    yield "a tolerance of 1e9", restated(proof, tolerance=1e9)
    yield "a gap of none", replace(proof, gap=0.5 * proof.gap if proof.gap else -1.0)
    yield "a probability that nobody has", restated(proof, failure=1e-300)
    yield "a probability that is none", restated(proof, failure=1.5)


def _other_words(proof: Certificate) -> Forgeries:
    for status in ("certified", "certified by nature", "not certified", "gap ≤ 1e-9 %", ""):
        if status != proof.status:
            yield f"status {status!r}", replace(proof, status=status)
    yield "found by magic", replace(proof, method="magic")
    yield "moved beyond all nodes", replace(proof, moved=np.array([0, 99]))
    every = np.ones(len(proof.labels), dtype=bool)
    if not proof.certified:
        yield "all nodes", replace(proof, certified_nodes=every)
        yield "exact", replace(proof, exact=True)
        yield "unique", replace(proof, unique=True)
        certified = {"lower_bound": proof.objective, "dual_bound": proof.objective}
        yield "certified", restated(proof, **certified)
        yield "certified and exact", restated(proof, **certified, exact=True)
    if proof.renaming:
        yield "names", replace(proof, renaming=False)


def _other_duals(proof: Certificate) -> Forgeries:
    dual, n = proof.dual, len(proof.labels)
    above = proof.objective + 1.0
    claims = {"lower_bound": above, "dual_bound": above}
    for name, other in (
        ("raised", replace(dual, nu=dual.nu + 1.0 / n)),
        ("raised at one node", replace(dual, nu=changed(dual.nu, 0, dual.nu[0] + 1.0))),
        ("corners lowered", replace(dual, sigma=dual.sigma - 1.0)),
        ("doubled", Dual(2 * dual.nu, 2 * dual.r, 2 * dual.sigma, dual.gamma)),
        ("not a number", replace(dual, nu=dual.nu * np.nan)),
        ("negative signs", replace(dual, gamma=-np.ones((n, n)))),
        ("signs on the diagonal", replace(dual, gamma=10 * np.eye(n))),
    ):
        yield f"prices {name}", restated(replace(proof, dual=other), **claims)
    if proof.certified and not proof.exact:
        yield "classes swapped", with_dual(proof, r=dual.r[::-1], sigma=dual.sigma[::-1])
    broken = replace(dual, r=dual.r * np.nan)
    if proof.certified_nodes.any():
        yield "prices for nodes that are none", replace(proof, node_dual=broken)


def _other_graphs(proof: Certificate) -> Forgeries:
    """Yield true certificates, each of a problem that is not the one at hand."""
    i = proof.instance
    A = i.adjacency.toarray()
    u, v = np.argwhere(np.triu(A))[0]
    w, x = np.argwhere(np.triu(A == 0, 1))[0]
    more, less, heavy = A.copy(), A.copy(), A.copy()
    more[w, x] = more[x, w] = 1.0
    less[u, v] = less[v, u] = 0.0
    heavy[u, v] = heavy[v, u] = 2.0
    order = np.roll(np.arange(len(A)), 1)
    none = np.zeros_like(A)
    for name, parts in (
        ("a link more", {"adjacency": more}),
        ("a link less", {"adjacency": less}),
        ("a heavier link", {"adjacency": heavy}),
        ("no links", {"adjacency": none}),
        ("other nodes first", {"adjacency": A[np.ix_(order, order)]}),
        ("other costs", {"costs": i.costs + np.eye(i.n_classes)[0]}),
        ("costs of one node", {"costs": changed(i.costs, (0, 0), i.costs[0, 0] + 1e-9)}),
        ("another null model", {"eta": 1.5 * i.eta}),
        ("another weight", {"w": 1.5 * i.w}),
        ("another threshold", {"wt": np.nextafter(i.wt, 1.0)}),
    ):
        if "adjacency" in parts:
            parts = {"adjacency": sp.csr_array(parts["adjacency"])}
        other: Instance = replace(i, **parts)
        yield f"of a graph with {name}", certify_instance(other, proof.labels, time_budget=0)


def _drawn(proof: Certificate, rng: np.random.Generator) -> Forgeries:
    """Yield what chance makes of it, where that is false by all labellings."""
    n, K = proof.instance.costs.shape
    made = 0
    while made < 25:
        z = proof.labels.copy()
        for v in rng.choice(n, rng.integers(0, 3), replace=False):
            z[v] = rng.integers(K)
        by = float(rng.choice([1e-4, 0.1, 2.0])) * rng.random()
        claims = {
            "labels": z,
            "objective": proof.instance.value_between(z)[1] - by * rng.integers(2),
            "tolerance": proof.instance.tolerance(z) * float(rng.choice([1.0, 0.5])),
            "certified_nodes": rng.random(n) < rng.random(),
            "renaming": bool(rng.integers(2)),
            "unique": bool(rng.integers(2)),
            "exact": bool(rng.integers(2)),
        }
        claims["lower_bound"] = claims["objective"] - by * rng.integers(2)
        if rng.integers(2):
            claims["dual_bound"] = claims["lower_bound"]
        nu = proof.dual.nu + by * rng.normal(size=n) * rng.integers(2)
        drawn = restated(with_dual(proof, nu=nu), **claims)
        if not claims_are_true(drawn):
            made += 1
            yield f"drawn {made}", drawn
