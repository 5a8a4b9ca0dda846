"""Features scaled, reduced and averaged over hops, against dense formulas."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

from nodeproof import smoothing
from nodeproof.graph import Graph
from nodeproof.runtime import threads
from nodeproof.smoothing import Reduction, Smoothing

pytestmark = pytest.mark.numeric


def draw_counts(n=30, m=12, seed=0):
    """Return sparse counts; the last row has none."""
    counts = np.random.default_rng(seed).poisson(0.6, size=(n, m)).astype(np.float64)
    counts[-1] = 0.0
    return sp.csr_array(counts)


def draw_dense(n=30, m=5, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, m)) * rng.uniform(0.1, 10.0, m) + rng.uniform(-5.0, 5.0, m)


def lengths(rows):
    return np.sqrt((np.asarray(rows, dtype=np.float64) ** 2).sum(axis=1))


def of_length_one(rows):
    size = lengths(rows)[:, None]
    return rows / np.where(size > 0, size, 1.0)


# The reduction. -------------------------------------------------------------------------


def test_rows_of_counts_get_length_one():
    X = draw_counts()
    reduction = Reduction(X)
    rows = reduction.apply(X)
    assert reduction.directions is None
    assert rows.dtype == np.float32
    np.testing.assert_allclose(rows, of_length_one(X.toarray()), rtol=1e-6)
    assert (rows[-1] == 0).all()


def test_dense_columns_are_standardised_and_rows_have_length_one_in_the_mean():
    X = draw_dense()
    rows = Reduction(X).apply(X)
    np.testing.assert_allclose(rows.mean(axis=0), 0.0, atol=1e-6)
    np.testing.assert_allclose(rows.std(axis=0), 1 / np.sqrt(X.shape[1]), rtol=1e-5)
    assert (lengths(rows) ** 2).mean() == pytest.approx(1.0, rel=1e-5)


@pytest.mark.parametrize("constant", [0.0, 3.0, -1e6, 0.1])
def test_columns_that_do_not_vary_are_left_out(constant):
    X = draw_dense()
    padded = np.column_stack([X[:, :2], np.full(len(X), constant), X[:, 2:]])
    rows = Reduction(padded).apply(padded)
    assert (rows[:, 2] == 0).all()
    np.testing.assert_allclose(np.delete(rows, 2, axis=1), Reduction(X).apply(X), rtol=1e-6)


def test_nothing_but_constant_columns_gives_zeros():
    X = np.tile([1.0, 0.0, -2.5], (10, 1))
    np.testing.assert_array_equal(Reduction(X).apply(X), np.zeros((10, 3)))


def test_neither_unit_nor_origin_of_dense_columns_matters():
    X = draw_dense()
    moved = 1e3 * X + 7.0
    np.testing.assert_allclose(Reduction(moved).apply(moved), Reduction(X).apply(X), atol=1e-5)


@pytest.mark.parametrize("unit", [1e-30, 1e-3, 1e30, 1e100])
def test_the_unit_of_counts_does_not_matter(unit):
    X = draw_counts()
    np.testing.assert_allclose(Reduction(unit * X).apply(unit * X), Reduction(X).apply(X), 1e-5)


@pytest.mark.parametrize("sparse", [True, False], ids=["sparse", "dense"])
def test_columns_up_to_the_rank_are_all_kept(sparse):
    X = draw_counts() if sparse else draw_dense()
    m = X.shape[1]
    assert Reduction(X, rank=m).directions is None
    assert Reduction(X, rank=m - 1).directions.shape == (m, m - 1)


def projection_error(rows, directions):
    rows, directions = rows.astype(np.float64), directions.astype(np.float64)
    return np.linalg.norm(rows - rows @ directions @ directions.T)


@pytest.mark.parametrize("few", [True, False], ids=["products", "probes"])
@pytest.mark.parametrize("sparse", [True, False], ids=["sparse", "dense"])
def test_the_projection_keeps_nearly_as_much_as_the_best_one(monkeypatch, sparse, few):
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(60, 0.05), size=8)
    X = rng.poisson(20 * rng.dirichlet(np.full(8, 0.3), size=100) @ topics).astype(np.float64)
    monkeypatch.setattr(smoothing, "_FEW_COLUMNS", 1000 if few else 10)
    given = sp.csr_array(X) if sparse else X
    whole = Reduction(given, rank=60).apply(given)
    reduction = Reduction(given, rank=10)
    kept = reduction.directions
    assert kept.shape == (60, 10)
    np.testing.assert_allclose(kept.T @ kept, np.eye(10), atol=1e-5)
    singular = np.linalg.svd(whole, compute_uv=False)
    best = np.sqrt((singular[10:] ** 2).sum())
    assert best * (1 - 1e-6) <= projection_error(whole, kept)
    assert projection_error(whole, kept) <= best * (1.001 if few else 1.05)
    np.testing.assert_allclose(reduction.apply(given), whole @ kept, atol=1e-5)


def test_fewer_rows_than_the_rank_are_no_obstacle():
    X = draw_dense(4, 20)
    reduction = Reduction(X, rank=10)
    assert reduction.directions.shape == (20, 4)
    whole = Reduction(X, rank=20).apply(X)
    assert projection_error(whole, reduction.directions) < 1e-5


@pytest.mark.parametrize("sparse", [True, False], ids=["sparse", "dense"])
@pytest.mark.parametrize("rank", [3, 100])
def test_new_rows_are_mapped_as_the_learnt_ones_were(sparse, rank):
    X = draw_counts() if sparse else draw_dense()
    reduction = Reduction(X, rank)
    np.testing.assert_allclose(reduction.apply(X[3:7]), reduction.apply(X)[3:7], atol=1e-6)
    np.testing.assert_allclose(reduction.apply(X[3:4]), reduction.apply(X)[3:4], atol=1e-6)


def test_it_does_not_matter_whether_new_rows_are_sparse():
    X, counts = draw_dense(), draw_counts()
    for reduction, rows in ((Reduction(X), X), (Reduction(counts, 4), counts.toarray())):
        np.testing.assert_allclose(
            reduction.apply(sp.csr_array(rows)), reduction.apply(rows), atol=1e-6
        )


@pytest.mark.parametrize("sparse", [True, False], ids=["sparse", "dense"])
@pytest.mark.parametrize("rank", [3, 100])
def test_a_reduction_is_made_up_of_its_parts(sparse, rank):
    X = draw_counts() if sparse else draw_dense()
    reduction = Reduction(X, rank)
    again = Reduction.of_parts(reduction.parts)
    assert again.apply(X).tobytes() == reduction.apply(X).tobytes()
    assert again.finish(again.apply(X)).tobytes() == reduction.finish(again.apply(X)).tobytes()
    assert set(again.parts) == set(reduction.parts)


@pytest.mark.parametrize("sparse", [True, False], ids=["sparse", "dense"])
def test_features_are_left_as_they_were(sparse):
    X = draw_counts() if sparse else draw_dense()
    before = X.copy()
    Smoothing(X, Graph(np.eye(30, k=1) + np.eye(30, k=-1)), rank=3).over(2)
    if sparse:
        X, before = X.toarray(), before.toarray()
    np.testing.assert_array_equal(X, before)


# Averages over hops. --------------------------------------------------------------------


def components(n=30, weighted=False, seed=0):
    """Return a graph in two parts, with a pair and isolated nodes beside them."""
    rng = np.random.default_rng(seed)
    A = np.triu(rng.random((n, n)) < 0.3, 1).astype(np.float64)
    if weighted:
        A *= rng.uniform(0.1, 20.0, size=(n, n))
    A[:12, 12:] = 0.0
    A[:, -4:] = 0.0
    A[-4, -3] = 1.0
    return A + A.T


def averaged(A, B, hops, alpha):
    """Return α B + (1 − α)/h Σ_{k=1…h} Â^k B; a link of mean weight counts as one."""
    linked = A[A > 0]
    A = A / (linked.mean() if len(linked) else 1.0)
    root = 1.0 / np.sqrt(A.sum(axis=1) + 1.0)
    smoother = root[:, None] * (A + np.eye(len(A))) * root
    powers = [np.linalg.matrix_power(smoother, k) @ B for k in range(1, hops + 1)]
    return alpha * B + (1.0 - alpha) * np.mean(powers, axis=0) if hops else B


@pytest.mark.parametrize("hops", [0, 1, 4, 16])
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("sparse", [True, False], ids=["sparse", "dense"])
def test_averages_are_those_of_the_dense_formula(hops, weighted, sparse):
    A = components(weighted=weighted)
    X = draw_counts() if sparse else draw_dense()
    found = Smoothing(X, Graph(A), alpha=0.25)
    B = (of_length_one(X.toarray()) if sparse else Reduction(X).apply(X)).astype(np.float64)
    expected = averaged(A, B, hops, 0.25)
    if sparse:
        expected = of_length_one(expected)
    assert found.over(hops).dtype == np.float32
    np.testing.assert_allclose(found.over(hops), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("hops", [1, 3, 16])
def test_what_a_node_passes_on_is_the_sum_without_the_last_hop(hops):
    A, X = components(weighted=True), draw_dense()
    found = Smoothing(X, Graph(A))
    B = found.base.astype(np.float64)
    expected = B + (hops - 1) * averaged(A, B, hops - 1, 0.0) if hops > 1 else B
    np.testing.assert_allclose(found.lagged(hops), expected, rtol=1e-4, atol=1e-4)


def test_a_node_without_links_keeps_its_own_features():
    for X in (draw_dense(), draw_counts()):
        found = Smoothing(X, Graph(components()))
        np.testing.assert_allclose(found.over(4)[-2:], found.over(0)[-2:], atol=1e-6)


def test_features_stay_within_their_part_of_the_graph():
    X = draw_dense()
    other = X.copy()
    other[:12] += 5.0
    # Standardised together, so that only the reach differs.
    whole = np.concatenate([X, other])
    A = sp.block_diag([components(), components()])
    rows = Smoothing(whole, Graph(A)).over(16)
    np.testing.assert_allclose(rows[12:30], rows[42:], atol=1e-6)
    assert np.abs(rows[:12] - rows[30:42]).max() > 0.1


def test_the_unit_of_the_links_does_not_matter():
    X, A = draw_dense(), components(weighted=True)
    small, large = (Smoothing(X, Graph(unit * A)).over(3) for unit in (1.0, 1e4))
    np.testing.assert_allclose(large, small, rtol=1e-4, atol=1e-6)


def test_without_a_graph_there_is_nothing_to_average_over():
    X = draw_counts()
    found = Smoothing(X)
    np.testing.assert_allclose(found.over(16), of_length_one(X.toarray()), rtol=1e-6)
    assert found.over(16) is found.over(0)


def test_rows_of_counts_have_length_one_after_projection_and_averages():
    X = draw_counts(30, 40)
    rows = Smoothing(X, Graph(components()), rank=5).over(3)
    size = lengths(rows)
    np.testing.assert_allclose(size[size > 0], 1.0, rtol=1e-5)
    assert (size[:-1] > 0).all()
    assert size[-1] == 0  # neither words nor links


@pytest.mark.parametrize("sparse", [True, False], ids=["sparse", "dense"])
def test_the_order_of_the_questions_does_not_matter(sparse):
    X = draw_counts() if sparse else draw_dense()
    graph = Graph(components(weighted=True))
    answers = []
    for order in itertools.permutations((0, 1, 4, 16)):
        found = Smoothing(X, graph)
        rows = {hops: found.over(hops).tobytes() for hops in order}
        again = {hops: found.over(hops).tobytes() for hops in order}
        assert rows == again
        answers.append((rows, {hops: found.lagged(hops).tobytes() for hops in order[:1] if hops}))
    assert all(rows == answers[0][0] for rows, _ in answers)
    lagged = [(hops, part) for _, parts in answers for hops, part in parts.items()]
    assert len(set(lagged)) == 3


@pytest.mark.parametrize("sparse", [True, False], ids=["sparse", "dense"])
def test_the_bits_do_not_depend_on_the_number_of_threads(sparse):
    n = 2 * threads.ROWS + 300
    rng = np.random.default_rng(0)
    ends = rng.integers(0, n, size=(2, 5 * n))
    links = sp.csr_array((rng.uniform(0.5, 2.0, 5 * n), ends), shape=(n, n))
    graph = Graph(links + links.T)
    X = draw_counts(n, 40) if sparse else draw_dense(n, 20)
    found = []
    for n_jobs in (1, 2, 3):
        with threads.using(n_jobs):
            each = Smoothing(X, graph, rank=10)
            found.append((each.over(3).tobytes(), each.lagged(3).tobytes()))
    assert found[0] == found[1] == found[2]
