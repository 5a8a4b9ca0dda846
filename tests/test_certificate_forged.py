"""Whatever the file of a certificate says, nothing that is false is confirmed."""

import itertools
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

from certificate_helpers import (
    KINDS,
    Tally,
    changed,
    check_never_wrong,
    draw_instance,
    enumerate_all,
    make_proof,
    planted_instance,
    refused,
    why_false,
)
from drawn_proofs import draw_labelling, draw_proof
from forged_certificates import GENUINE, forgeries, genuine, read, write
from nodeproof import NodeClassifier
from nodeproof.certificate import Certificate, audit
from nodeproof.certificate.labelling.certify import certify_instance
from nodeproof.certificate.labelling.instance import Instance
from nodeproof.errors import InputError

pytestmark = pytest.mark.usefixtures("one_thread")

# What a forger changes, he changes by far more than last bits: only what is about rounding, and
# what has to be confirmed, is asked again with the instructions of other CPUs.


@pytest.fixture(params=["compared", "not compared"])
def left(request, monkeypatch):
    """Let the labellings that are left be compared one by one, or not."""
    if request.param == "not compared":
        monkeypatch.setattr(audit, "ENUMERATED", 1)


def is_confirmed(path, model) -> bool:
    """Whether a file is read and its claim confirmed."""
    try:
        return bool(Certificate.load(path).verify(model))
    except InputError:
        return False


@pytest.mark.numeric
@pytest.mark.usefixtures("left")
@pytest.mark.parametrize("kind", GENUINE)
def test_what_is_genuine_is_confirmed(kind, tmp_path):
    proof = genuine(kind)
    proof.save(tmp_path / "proof.npz")
    check = Certificate.load(tmp_path / "proof.npz").verify(proof.instance)
    assert check, check.reason


@pytest.mark.usefixtures("left")
@pytest.mark.parametrize("kind", GENUINE)
def test_a_hundred_forged_files_are_refused(kind, tmp_path):
    proof, path = genuine(kind), tmp_path / "proof.npz"
    proof.save(path)
    arrays, meta = read(path)
    forged = dict(forgeries(arrays, meta))
    assert len(forged) >= 100
    confirmed = []
    for name, change in forged.items():
        write(path, arrays | {x: a for x, a in change.items() if x != "meta"},
              meta | change.get("meta", {}))  # fmt: skip
        if is_confirmed(path, proof.instance):
            confirmed.append(name)
    assert not confirmed


# Steps that are steps, but not of this proof. ---------------------------------------------


def rearranged(arrays):
    """Yield a proof with steps left out, in another order, or with other flags."""
    steps = [x.removesuffix("_open") for x in arrays if x.endswith("_open")]
    rest = {x: a for x, a in arrays.items() if not x.startswith("step")}
    parts = [
        {x.removeprefix(f"{step}_"): a for x, a in arrays.items() if x.startswith(f"{step}_")}
        for step in steps
    ]

    def joined(chosen):
        named = ({f"step{k}_{x}": a for x, a in own.items()} for k, own in enumerate(chosen))
        return rest | {x: a for own in named for x, a in own.items()}

    for k in range(len(parts)):
        yield joined(parts[:k] + parts[k + 1 :])
        for flag in ("free", "plain"):
            flipped = parts[k] | {flag: np.array(not parts[k].get(flag, False))}
            yield joined([*parts[:k], flipped, *parts[k + 1 :]])
        for name in set(parts[k]) & {"nu", "r", "sigma", "a", "y"}:
            for other in (-parts[k][name], 1.5 * parts[k][name], parts[k][name] + 0.5,
                          np.roll(parts[k][name], 1)):  # fmt: skip
                yield joined([*parts[:k], parts[k] | {name: other}, *parts[k + 1 :]])
        if "kappa" in parts[k]:
            for factor in (1e-9, 0.5, 2.0, 1e9):
                other = parts[k] | {"kappa": parts[k]["kappa"] * factor}
                yield joined([*parts[:k], other, *parts[k + 1 :]])
            bare = {x: a for x, a in parts[k].items() if x not in ("kappa", "raised")}
            yield joined([*parts[:k], bare, *parts[k + 1 :]])
    yield joined(parts[::-1])
    yield joined([])
    n = len(arrays["labels"])
    for anchors in itertools.islice(itertools.permutations(range(n), 2), 12):
        yield arrays | {"anchors": np.array(anchors)}
    yield arrays | {"anchors": np.zeros(2, dtype=np.int64)}
    yield {x: a for x, a in arrays.items() if x != "anchors"}


@pytest.mark.usefixtures("left")
@pytest.mark.parametrize("kind", GENUINE)
def test_steps_of_another_proof_prove_nothing_false(kind):
    proof = genuine(kind)
    arrays, claim, n = proof.to_arrays(), proof.claim(), len(proof.labels)
    truth, tried = enumerate_all(proof.instance), 0
    moved = changed(proof.labels, 0, 1 - proof.labels[0])
    for other, z in itertools.product(rearranged(arrays), (proof.labels, moved)):
        low, high = proof.instance.audited.value(z)
        sure = np.eye(proof.instance.n_classes, dtype=bool)[z]
        for possible, renaming in itertools.product((arrays["possible"], sure), (False, True)):
            said = claim | {"lower_bound": low, "objective": high, "renaming": renaming,
                            "unique": bool((possible.sum(axis=1) == 1).all())}  # fmt: skip
            for each in (claim, said, said | {"exact": True}):
                forged = other | {"possible": possible, "labels": z}
                if why_false(each, forged, truth):
                    tried += 1
                    assert not audit.audit(each, forged)
    assert tried > 10 * n


# Whatever comes to mind. ------------------------------------------------------------------


def is_problem(arrays) -> bool:
    """Whether arrays are a labelling problem, a labelling and classes, by their definition."""
    try:
        n, K = arrays["costs"].shape
        indptr, indices = (arrays[x].astype(np.int64) for x in ("indptr", "indices"))
        weights = arrays["weights"] if len(arrays["weights"]) else np.ones(len(indices))
        A = np.zeros((n, n))
        assert indptr.shape == (n + 1,)
        assert indptr[0] == 0
        assert indptr[-1] == len(indices) == len(weights)
        for u in range(n):
            assert indptr[u] <= indptr[u + 1]
            for e in range(indptr[u], indptr[u + 1]):
                assert 0 <= indices[e] < n
                assert A[u, indices[e]] == 0
                A[u, indices[e]] = weights[e]
        numbers = (A, arrays["eta"], arrays["scales"], arrays["costs"])
        assert all(np.isfinite(x.astype(float)).all() for x in numbers)
        assert (A == A.T).all()
        assert (weights > 0).all()
        assert not A.diagonal().any()
        assert (arrays["eta"] >= 0).all()
        assert arrays["eta"].shape == (n,)
        assert arrays["scales"].shape == (2,)
        z, possible = arrays["labels"], arrays["possible"]
        assert z.shape == (n,)
        assert ((z >= 0) & (z < K)).all()
        assert z.dtype.kind == "i"
        assert possible.shape == (n, K)
        assert possible.dtype == bool
    except (AssertionError, KeyError, ValueError, TypeError, IndexError, AttributeError):
        return False
    return True


def draw_genuine(seed) -> tuple[dict, dict]:
    """Return the arrays and the claim of a proof of a small problem, drawn at random."""
    rng = np.random.default_rng([211, seed])
    instance = draw_instance(rng, KINDS[seed % 3])
    instance = replace(instance, w=abs(instance.w), wt=abs(instance.wt))
    truth = enumerate_all(instance)
    z = draw_labelling(rng, instance, truth)
    free, groups = bool(rng.integers(2)), bool(rng.integers(2))
    arrays = draw_proof(rng, instance, z, "any", int(rng.integers(1, 4)), free, groups)
    p, _, found = audit.examine(arrays)
    known = found.unnamed if free else found.possible
    claim = {
        "objective": found.objective, "lower_bound": found.lower_bound, "renaming": free,
        "tolerance": p.tolerance(z), "exact": found.exact,
        "unique": bool((known.sum(axis=1) == 1).all()),
    }  # fmt: skip
    return arrays | {"possible": known}, claim


NUMBERS = st.one_of(
    st.sampled_from([0.0, -1.0, 1.0, 1e-9, 1e-300, 1e99, 1e308, np.nan, np.inf, -np.inf]),
    st.floats(allow_nan=False, width=32),
)
TYPES = ("f2", "f4", "f8", ">f8", "i1", "i4", "i8", "u1", "?", "c16", "U4")


@st.composite
def mutations(draw):
    """Return a change of arrays and claim: its kind, a place, and a number."""
    return (
        draw(st.sampled_from(["entry", "scale", "add", "type", "roll", "cut", "drop", "copy",
                              "flip", "claim", "claim", "word", "label", "close"])),
        draw(st.integers(0, 10**6)),
        draw(st.integers(0, 10**6)),
        draw(NUMBERS),
    )  # fmt: skip


def mutate(arrays, claim, kind, where, place, number) -> tuple[dict, dict]:
    arrays, claim = dict(arrays), dict(claim)
    name = sorted(arrays)[where % len(arrays)]
    array = np.array(arrays[name])
    with np.errstate(all="ignore"):
        if kind == "entry" and array.size:
            flat = array.ravel()
            flat[place % flat.size] = number if np.isfinite(number) or flat.dtype.kind == "f" else 0
            arrays[name] = flat.reshape(array.shape)
        elif kind == "scale" and array.dtype.kind == "f":
            arrays[name] = array * number
        elif kind == "add" and array.dtype.kind == "f":
            arrays[name] = array + number
        elif kind == "type":
            arrays[name] = array.astype(TYPES[place % len(TYPES)])
        elif kind == "roll" and array.ndim:
            arrays[name] = np.roll(array, 1, axis=place % array.ndim)
        elif kind == "cut" and array.ndim:
            arrays[name] = array[1:]
        elif kind == "drop":
            del arrays[name]
        elif kind == "copy":
            arrays[name] = np.array(arrays[sorted(arrays)[place % len(arrays)]])
        elif kind == "flip" and array.dtype == bool:
            arrays[name] = ~array
    if kind == "claim":
        field = ("objective", "lower_bound", "tolerance")[place % 3]
        claim[field] = number if where % 2 else claim[field] + abs(claim[field]) * 1e-9
    elif kind == "word":
        field = ("exact", "unique", "renaming")[place % 3]
        claim[field] = not claim[field]
    elif kind == "label" and "labels" in arrays and np.size(arrays["labels"]):
        z = np.array(arrays["labels"])
        arrays["labels"] = changed(z, place % z.size, where % 3) if z.ndim == 1 else z
    elif kind == "close" and np.ndim(arrays.get("possible")) == 2:
        possible = np.array(arrays["possible"])
        if possible.size:
            possible[np.unravel_index(place % possible.size, possible.shape)] = False
        arrays["possible"] = possible
    return arrays, claim


def check_forged(seed, changes):
    arrays, claim = draw_genuine(seed)
    for change in changes:
        with suppress(ValueError, TypeError, OverflowError):  # numbers that an array cannot hold
            arrays, claim = mutate(arrays, claim, *change)
    with np.errstate(all="ignore"):
        check = audit.audit(claim, arrays)
    assert isinstance(check.reason, str)
    if check:
        assert is_problem(arrays)
        said = why_false(claim, arrays)
        assert not said, said


QUIET = {
    "deadline": None, "derandomize": True, "database": None,
    "suppress_health_check": list(HealthCheck),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("left")
@settings(max_examples=60, **QUIET)
@given(st.integers(0, 400), st.lists(mutations(), min_size=1, max_size=4))
def test_no_change_of_a_proof_confirms_what_is_false(seed, changes):
    check_forged(seed, changes)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("left")
@settings(max_examples=1500, **QUIET)
@given(st.integers(0, 10**6), st.lists(mutations(), min_size=1, max_size=6))
def test_no_change_of_thousands_of_proofs_confirms_what_is_false(seed, changes):
    check_forged(seed, changes)


# Tolerance. -----------------------------------------------------------------------------


@pytest.fixture
def loose_proof(monkeypatch):
    """Return a certificate with a gap."""
    monkeypatch.setattr(audit, "ENUMERATED", 1)
    proof = genuine("partly")
    assert not proof.certified
    assert np.isfinite(proof.lower_bound)
    return proof


@pytest.mark.numeric
def test_a_tolerance_is_the_verifiers_to_accept(loose_proof):
    proof = loose_proof
    tolerance = 2.0 * (proof.objective - proof.lower_bound)
    loose = replace(proof, tolerance=tolerance)
    assert loose.certified
    assert f"tolerance {tolerance:.3g}" in loose.status
    assert f"up to a tolerance of {tolerance:.3g}" in loose.explain()
    assert f"{tolerance:.3g}" in refused(loose)
    check = loose.verify(tolerance=tolerance)
    assert check, check.reason
    assert check.tolerance == tolerance
    refused(loose, tolerance=0.95 * tolerance)


@pytest.mark.numeric
def test_accepting_a_tolerance_does_not_accept_what_is_above_it(loose_proof):
    missing = loose_proof.objective - loose_proof.lower_bound
    raised = replace(loose_proof, lower_bound=loose_proof.objective, tolerance=0.9 * missing)
    refused(raised, tolerance=1e9)


def test_the_default_tolerance_is_not_mentioned():
    for kind in ("costs", "graph"):
        proof = genuine(kind)
        assert proof.special_tolerance is None
        assert proof.status == "certified"
        assert "tolerance" not in proof.explain()


@pytest.mark.parametrize("tolerance", [-1.0, np.nan, np.inf, "1"])
def test_a_tolerance_that_is_none_is_named(tolerance):
    proof = make_proof("small")
    with pytest.raises(InputError, match="tolerance must be"):
        proof.verify(tolerance=tolerance)
    with pytest.raises(InputError, match="tolerance must be"):
        certify_instance(proof.instance, proof.labels, tolerance=tolerance)


# Types of numbers. ----------------------------------------------------------------------


@pytest.mark.numeric
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_narrow_numbers_are_computed_with_as_wide_ones(dtype):
    tally = Tally()
    for seed in range(40):
        rng = np.random.default_rng([83, seed])
        drawn = draw_instance(rng, "random")
        narrow = replace(drawn, eta=drawn.eta.astype(dtype), costs=drawn.costs.astype(dtype))
        z = rng.integers(narrow.n_classes, size=narrow.n_nodes)
        check_never_wrong(certify_instance(narrow, z, time_budget=0), tally, exactly=False)
    assert tally.certified > 20


@pytest.mark.numeric
@pytest.mark.parametrize("dtype", [np.float16, np.float32, ">f8"])
def test_genuine_numbers_may_be_stored_in_any_type(dtype, tmp_path, monkeypatch):
    monkeypatch.setattr(audit, "ENUMERATED", 1)
    # Whole numbers, so that no type changes them.
    pairs = np.zeros((4, 4))
    pairs[0, 1] = pairs[1, 0] = pairs[2, 3] = pairs[3, 2] = 1.0
    costs = np.array([[0.0, 8.0], [0.0, 8.0], [8.0, 0.0], [8.0, 0.0]])
    instance = Instance(sp.csr_array(pairs), np.ones(4), 1.0, 0.5, costs)
    proof, path = certify_instance(instance, np.array([0, 0, 1, 1]), time_budget=0), None
    path = tmp_path / "proof.npz"
    proof.save(path)
    arrays, meta = read(path)
    wide = {"costs": costs, "eta": instance.eta, "scales": np.array([1.0, 0.5])}
    assert all((array.astype(dtype) == array).all() for array in wide.values())
    arrays |= {name: array.astype(dtype) for name, array in wide.items()}
    arrays["weights"] = np.ones(4, dtype=np.float32)
    arrays["labels"] = arrays["labels"].astype(np.int8)
    write(path, arrays, meta)
    loaded = Certificate.load(path)
    assert loaded.instance.costs.dtype == np.float64
    assert loaded.labels.dtype == np.int64
    check = loaded.verify(instance)
    assert check, check.reason
    write(path, arrays | {"labels": np.array([0, 0, 1, 0], dtype=np.int8)}, meta)
    refused(Certificate.load(path), instance)


@pytest.mark.numeric
def test_narrow_dual_variables_prove_what_they_are(tmp_path, monkeypatch):
    # Rounded or raised, they may prove less; what they do not prove is refused.
    monkeypatch.setattr(audit, "ENUMERATED", 1)
    proof, path = genuine("partly"), tmp_path / "proof.npz"
    proof.save(path)
    arrays, meta = read(path)
    for dtype in ("f2", "f4"):
        narrow = {
            name: array.astype(dtype)
            for name, array in arrays.items()
            if name.startswith("step") and array.dtype.kind == "f"
        }
        found = audit.examine(arrays | narrow)[2]
        assert not why_false(meta | {"lower_bound": found.lower_bound, "unique": False},
                             arrays | {"possible": found.possible})  # fmt: skip


# Another graph. -------------------------------------------------------------------------


def test_a_file_alone_is_checked_against_nothing(tmp_path):
    proof = make_proof("small")
    assert proof.verify()  # what was made here is about what it was made for
    proof.save(tmp_path / "proof.npz")
    loaded = Certificate.load(tmp_path / "proof.npz")
    assert "nothing to check it against" in refused(loaded)
    assert "nothing to check it against" in refused(replace(loaded, seconds=1.0))
    assert loaded.verify(loaded.instance)  # for whatever is in it, by whoever asks for that
    assert "another fit" in refused(loaded, genuine("graph").instance)


def test_what_is_no_model_is_named():
    proof = make_proof("small")
    with pytest.raises(InputError, match="model must be a NodeClassifier"):
        proof.verify(proof.instance.adjacency)
    with pytest.raises(NotFittedError):
        proof.verify(NodeClassifier())


# Rounding. ------------------------------------------------------------------------------


@pytest.mark.numeric
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_no_bound_is_confirmed_beyond_rounding(scale, monkeypatch):
    monkeypatch.setattr(audit, "ENUMERATED", 1)
    instance, z = planted_instance([8, 7], p=0.6, q=0.4, cost=0.5, known=0.5, t=0.4, seed=3)
    i = replace(instance, w=scale, wt=0.4 * scale, costs=scale * instance.costs)
    proof = certify_instance(i, z, time_budget=0, max_iter=0)
    assert not proof.certified
    proven = proof.verify().lower_bound
    for by in (1e-12, 1e-9, 1e-7):
        refused(replace(proof, lower_bound=proven + by * i.span))
        refused(replace(proof, objective=proof.objective - by * i.span))
        refused(replace(proof, objective=proof.objective + by * i.span))


@pytest.mark.numeric
def test_what_the_search_proves_the_auditor_does_not_call_impossible():
    # Costs that dwarf the links: of the numbers, rounding leaves more than of the objective.
    for seed in range(12):
        rng = np.random.default_rng(seed)
        drawn, z = planted_instance(
            [12, 14], p=0.6, q=0.1, cost=10.0 ** rng.uniform(3, 7), known=0.3, seed=seed
        )
        check = certify_instance(drawn, z, time_budget=0, max_iter=0).verify()
        assert check, check.reason
