"""The Potts bound, against all labellings of tiny problems, and the search for labellings."""

import itertools
import time

import numpy as np
import pytest
import scipy.sparse as sp

from certificate_helpers import draw_instance
from nodeproof.certificate.labelling.exclusion import exclude_labels
from nodeproof.certificate.labelling.flows import PottsDual, has_potts_bound
from nodeproof.certificate.labelling.instance import Instance
from nodeproof.certificate.labelling.labellings import improve_labelling
from nodeproof.certificate.labelling.potts import PottsAscent
from nodeproof.errors import InputError
from nodeproof.runtime import threads

pytestmark = pytest.mark.numeric

# Rounding is a millionth of this.
TINY = 1e-9


def draw(seed, n=None, K=None) -> tuple[Instance, np.ndarray]:
    """Return a tiny problem that has a Potts bound, and which labels are open."""
    rng = np.random.default_rng([23, seed])
    n, K = n or int(rng.integers(1, 7)), K or int(rng.integers(1, 5))
    A = np.triu(rng.random((n, n)) < rng.choice([0.0, 0.4, 0.8]), 1) * 1.0
    if rng.random() < 0.5:
        A *= rng.exponential(size=(n, n))
    A = A + A.T
    eta = np.ones(n) if rng.random() < 0.5 else A.sum(axis=1) / np.sqrt(max(A.sum(), 1.0))
    w, wt = rng.choice([0.0, 0.3, 2.0]), rng.choice([0.0, 0.2, 1.5])
    costs = rng.choice([0.0, 1.0, 4.0]) * rng.normal(size=(n, K))
    open_labels = rng.random((n, K)) < rng.choice([0.6, 1.0])
    open_labels[np.arange(n), rng.integers(K, size=n)] = True
    return Instance(sp.csr_array(A), eta, float(w), float(wt), costs), open_labels


def all_labellings(n, K):
    every = list(itertools.product(range(K), repeat=n))
    return np.array(every, dtype=np.int64).reshape(len(every), n)


def allowed(instance, open_labels):
    """Return all labellings of open labels, and their objectives."""
    n, K = instance.costs.shape
    every = all_labellings(n, K)
    every = every[open_labels[np.arange(n), every].all(axis=1)]
    return every, np.array([instance.value(z) for z in every])


def upper_links(instance):
    """Return first and second ends, in row-major order, and what links cost if cut."""
    A = sp.triu(instance.adjacency, 1).tocsr().tocoo()
    return A.row, A.col, 2.0 * instance.w * A.data


def formula(instance, dual, open_labels):
    """Return the bound, written out."""
    first, second, c = upper_links(instance)
    b = np.where(open_labels, instance.costs, np.inf)
    b = b + 2.0 * instance.wt * np.outer(instance.eta, dual.a)
    np.add.at(b, first, dual.y)
    np.subtract.at(b, second, dual.y)
    reach = np.ptp(dual.y, axis=1) if len(dual.y) else np.zeros(0)
    squares = (dual.a**2).sum() + (instance.eta**2).sum()
    links = np.minimum(0.0, c - reach).sum() - c.sum()
    return links - instance.wt * squares + b.min(axis=1).sum()


@pytest.mark.parametrize("steps", [0, 1, 7, 60])
@pytest.mark.parametrize("part", range(5))
def test_no_labelling_is_below_the_bound(part, steps):
    for seed in range(30 * part, 30 * part + 30):
        instance, open_labels = draw(seed)
        ascent = PottsAscent(instance, open_labels)
        ascent.sweep(steps)
        every, values = allowed(instance, open_labels)
        size = TINY * (1.0 + instance.span)
        assert ascent.value <= values.min() + size
        assert ascent.value <= ascent.relaxed + size
        assert ascent.value == pytest.approx(formula(instance, ascent.dual, open_labels), abs=size)
        reduced = ascent.reduced
        assert (reduced.min(axis=1) == 0.0).all()
        assert (np.isfinite(reduced) == open_labels).all()
        extra = reduced[np.arange(instance.n_nodes), every].sum(axis=1)
        assert (values >= ascent.value + extra - size).all()


@pytest.mark.parametrize("seed", range(20))
def test_steps_never_lower_the_bound(seed):
    instance, open_labels = draw(seed, n=6)
    ascent = PottsAscent(instance, open_labels)
    before = ascent.value
    for _ in range(30):
        ascent.sweep(3)
        assert ascent.value >= before
        before = ascent.value


@pytest.mark.parametrize("seed", range(40))
def test_the_best_tangent_is_found_for_two_classes(seed):
    instance, _ = draw(seed, K=2)
    ascent = PottsAscent(instance)
    ascent.sweep(2000)
    every = all_labellings(instance.n_nodes, 2)
    totals = np.stack([np.where(every == i, instance.eta, 0.0).sum(axis=1) for i in (0, 1)], 1)
    values = np.array([instance.value(z) for z in every])
    # Two classes: the relaxation has whole solutions once a is given, those of a minimum cut.
    apart = ((totals - ascent.dual.a) ** 2).sum(axis=1)
    cut = (values - instance.wt * apart).min()
    size = 1.0 + instance.span
    assert ascent.value - TINY * size <= cut <= ascent.relaxed + TINY * size
    assert ascent.relaxed - ascent.value <= 1e-3 * size


@pytest.mark.parametrize("seed", range(20))
def test_the_ascent_ends_by_itself(seed):
    instance, open_labels = draw(seed)
    ascent = PottsAscent(instance, open_labels)
    assert ascent.run() == ascent.value
    assert ascent.stalled
    assert PottsAscent(instance).run(deadline=time.perf_counter()) <= instance.value(
        np.zeros(instance.n_nodes, dtype=np.int64)
    ) + TINY * (1.0 + instance.span)


@pytest.mark.parametrize("seed", range(20))
def test_a_found_dual_is_a_start(seed):
    instance, open_labels = draw(seed)
    first = PottsAscent(instance, open_labels)
    first.sweep(50)
    second = PottsAscent(instance, open_labels, start=first.dual)
    assert second.value == pytest.approx(first.value, abs=TINY * (1.0 + instance.span))
    before = second.value
    second.sweep(50)
    assert second.value >= before


def without(instance, labels, fixed):
    """Return the problem of the loose nodes, and what the fixed ones pay beside it."""
    loose = ~fixed
    A = instance.adjacency.astype(np.float64)
    gone = np.eye(instance.n_classes)[labels] * fixed[:, None]
    costs = instance.costs - 2.0 * instance.w * (A @ gone)
    costs = costs + 2.0 * instance.wt * np.outer(instance.eta, instance.eta @ gone)
    left = Instance(A[loose][:, loose], instance.eta[loose], instance.w, instance.wt, costs[loose])
    return left, instance.value(labels) - left.value(labels[loose])


@pytest.mark.parametrize("seed", range(40))
def test_a_dual_stays_valid_when_nodes_are_fixed(seed):
    instance, _ = draw(seed, n=6)
    rng = np.random.default_rng(seed)
    labels, fixed = rng.integers(instance.n_classes, size=6), rng.random(6) < 0.5
    whole = PottsAscent(instance)
    whole.sweep(60)
    start = whole.dual.restrict(instance, labels, fixed)
    left, constant = without(instance, labels, fixed)
    assert start.y.shape == (left.adjacency.nnz // 2, instance.n_classes)
    part = PottsAscent(left, start=start)
    size = TINY * (1.0 + instance.span)
    assert part.value + constant >= whole.value - size
    _, values = allowed(left, np.ones(left.costs.shape, dtype=bool))
    assert part.value <= values.min() + size


@pytest.mark.parametrize("part", range(4))
def test_no_closed_label_is_in_an_optimal_labelling(part):
    closed = 0
    for seed in range(40 * part, 40 * part + 40):
        instance, open_labels = draw(seed)
        ascent = PottsAscent(instance, open_labels)
        ascent.sweep(60)
        every, values = allowed(instance, open_labels)
        optimal = every[values <= values.min() + TINY * (1.0 + instance.span)]
        nodes, still_open = np.arange(instance.n_nodes), open_labels.copy()
        for step in exclude_labels(
            instance, ascent.dual, values.min(), seed=seed, open_labels=open_labels
        ):
            assert not step.closed[nodes, optimal].any()
            assert (step.closed <= still_open).all()
            # The dual alone proves it, given what was closed before.
            bound = formula(instance, step.dual, still_open)
            for v, i in np.argwhere(step.closed):
                only = still_open.copy()
                only[v] = np.arange(instance.n_classes) == i
                assert formula(instance, step.dual, only) > values.min()
            assert bound <= values.min() + TINY * (1.0 + instance.span)
            still_open &= ~step.closed
            closed += int(step.closed.sum())
        assert still_open.any(axis=1).all()
    assert closed > 0


def large_instance() -> Instance:
    rng = np.random.default_rng(0)
    n = 3 * threads.ROWS
    ends = rng.integers(n, size=(2, 3 * n))
    A = sp.coo_array((np.ones(3 * n), ends), shape=(n, n)).tocsr()
    A = sp.csr_array(A + A.T)
    A.setdiag(0.0)
    A.eliminate_zeros()
    A.sort_indices()
    eta = np.asarray(A.sum(axis=1)) / np.sqrt(A.sum())
    return Instance(A, eta, 1.0, 1.5, rng.exponential(size=(n, 3)))


@pytest.mark.any_cpu
def test_bits_do_not_depend_on_threads():
    instance = large_instance()
    found = []
    for n_jobs in (1, 2):
        with threads.using(n_jobs):
            ascent = PottsAscent(instance)
            ascent.sweep(45)
            found.append((ascent.value, ascent.relaxed, ascent.dual.y.tobytes(), ascent.decode()))
    assert found[0][:3] == found[1][:3]
    assert (found[0][3] == found[1][3]).all()


def test_repelling_links_have_no_potts_bound():
    instance, _ = draw(0, n=4, K=2)
    for w, wt in [(-1.0, 1.0), (1.0, -1.0)]:
        other = Instance(instance.adjacency, instance.eta, w, wt, instance.costs)
        assert not has_potts_bound(other)
        with pytest.raises(InputError, match="Potts"):
            PottsAscent(other)


def test_flows_of_a_start_may_be_shifted():
    instance, open_labels = draw(3, n=6, K=3)
    ascent = PottsAscent(instance, open_labels)
    ascent.sweep(40)
    moved = PottsDual(ascent.dual.a, ascent.dual.y + 5.0)
    again = PottsAscent(instance, open_labels, start=moved)
    assert again.value == pytest.approx(ascent.value, abs=TINY * (1.0 + instance.span))


@pytest.mark.parametrize("kind", ["random", "ties", "near"])
@pytest.mark.parametrize("seed", range(15))
def test_a_searched_labelling_is_never_worse(seed, kind):
    rng = np.random.default_rng([7, seed])
    instance = draw_instance(rng, kind)
    n, K = instance.costs.shape
    z, other = rng.integers(K, size=n), rng.integers(K, size=n)
    deadline = time.perf_counter() + 0.05
    found = improve_labelling(instance, z, seed=0, deadline=deadline, starts=[other])
    assert found.shape == (n,)
    assert set(found) <= set(range(K))
    assert instance.value(found) <= min(instance.value(z), instance.value(other))


@pytest.mark.parametrize("n_links", [0, 1])
@pytest.mark.parametrize(("w", "wt"), [(0.0, 0.0), (1.0, 0.5), (-1.0, 0.5), (1.0, -0.5)])
def test_the_search_takes_any_problem(w, wt, n_links):
    A = n_links * np.array([[0.0, 1.0], [1.0, 0.0]])
    for K in (1, 2):
        instance = Instance(sp.csr_array(A), np.ones(2), w, wt, np.zeros((2, K)))
        z = np.zeros(2, dtype=np.int64)
        found = improve_labelling(instance, z, seed=0, deadline=time.perf_counter() + 0.02)
        assert instance.value(found) <= instance.value(z)


@pytest.mark.any_cpu
def test_the_same_seed_finds_the_same_labelling():
    instance = draw(1, n=6, K=3)[0]
    z = np.zeros(6, dtype=np.int64)
    later = time.perf_counter() + 600.0
    found = [improve_labelling(instance, z, seed=4, deadline=later) for _ in range(2)]
    assert (found[0] == found[1]).all()
