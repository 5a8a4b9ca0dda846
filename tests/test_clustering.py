"""Convex clustering of a graph alone, equations (1) to (3) of the paper."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

from nodeproof import Problem, datasets
from nodeproof.convex.clustering import Clustering, cluster_graph
from nodeproof.convex.program import Program
from nodeproof.errors import InputError
from nodeproof.graph import Graph
from nodeproof.sets import Similarities
from nodeproof.solvers import Status

pytestmark = pytest.mark.numeric

# Equations (1), (2) and (3), and the linear loss with the norm of (1).
FORMS = [
    {"loss": "absolute"},
    {"loss": "absolute", "positive": True},
    {"loss": "linear"},
    {"loss": "linear", "positive": False},
]
every_form = pytest.mark.parametrize(
    "form", FORMS, ids=lambda form: "-".join(map(str, form.values()))
)


def planted(size=8, p=0.8, q=0.2, seed=0, K=3) -> tuple[np.ndarray, np.ndarray]:
    """Return a graph, dense, and which pairs are of one class."""
    data = datasets.make_planted(n_clusters=K, cluster_size=size, p=p, q=q, random_state=seed)
    together = data.y_true[:, None] == data.y_true[None]
    return data.graph.toarray().astype(float), together.astype(float)


def weighted(n=8, seed=0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    A = np.triu(rng.uniform(0.0, 1.5, (n, n)) * (rng.random((n, n)) < 0.6), 1)
    return A + A.T


def nuclear(L: np.ndarray) -> float:
    return float(np.abs(np.linalg.eigvalsh(L)).sum())


def absolute(L: np.ndarray, A: np.ndarray) -> float:
    return float(np.abs(L - A).sum())


def linear(L: np.ndarray, A: np.ndarray, t: float = 0.5) -> float:
    return -float((2.0 * (A - t) * L).sum())


# What is solved. ------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")  # it is, to 1e-5
@every_form
@pytest.mark.parametrize("A", [planted(4, seed=1)[0], weighted(seed=1)], ids=["links", "weights"])
def test_it_solves_what_cvxpy_solves(form, A):
    cp = pytest.importorskip("cvxpy")
    n, mu0 = len(A), 1.7
    positive = form.get("positive", form["loss"] == "linear")
    L = cp.Variable((n, n), PSD=True) if positive else cp.Variable((n, n), symmetric=True)
    loss = (
        cp.sum(cp.abs(L - A)) if form["loss"] == "absolute" else -cp.sum(cp.multiply(2 * A - 1, L))
    )
    objective = loss + mu0 * (cp.trace(L) if positive else cp.normNuc(L))
    reference = cp.Problem(cp.Minimize(objective), [cp.diag(L) == 1, L >= 0, L <= 1])
    optimum = reference.solve(solver=cp.CLARABEL)
    found = cluster_graph(A, mu0=mu0, tol=1e-5, **form)
    assert found.converged
    assert found.value == pytest.approx(optimum, abs=5e-4)
    assert found.lower_bound <= optimum + 1e-5


@every_form
def test_the_value_is_that_of_the_paper_at_a_member_of_the_set(form):
    A, _ = planted()
    found = cluster_graph(A, mu0=3.0, **form)
    loss = absolute if form["loss"] == "absolute" else linear
    assert Similarities().contains(found.L, tol=1e-12)
    assert found.value == pytest.approx(loss(found.L, A) + 3.0 * nuclear(found.L), rel=1e-9)
    if form.get("positive", form["loss"] == "linear"):
        assert np.linalg.eigvalsh(found.L)[0] >= -1e-9
    assert found.constant == 3.0 * len(A)
    assert 0.0 <= found.gap <= 1e-4


@every_form
def test_every_bound_is_below_every_value(form):
    A, _ = planted(5, 0.6, 0.3, seed=2)
    coarse = cluster_graph(A, tol=1e-1, **form)
    fine = cluster_graph(A, tol=1e-6, **form)
    bounds, values = (coarse.history[key] + fine.history[key] for key in ("bound", "value"))
    assert max(bounds) <= min(values) + 1e-9
    partitions = itertools.product(range(2), repeat=len(A))
    loss = absolute if form["loss"] == "absolute" else linear
    for z in itertools.islice(partitions, 0, None, 97):
        L = np.equal.outer(z, z).astype(float)
        assert fine.lower_bound <= loss(L, A) + len(A) * nuclear(L)


def test_values_compare_with_those_of_a_problem():
    """A problem leaves the diagonal out: 2t·n, and the constant μ0·n."""
    A, _ = planted(size=5, seed=3)
    for t in (0.5, 0.3):
        found = cluster_graph(A, mu0=2.0, threshold=t)
        problem = Problem(Graph(A, "uniform"), [], 1, weights=(1.0, 0.0, 0.0), threshold=t)
        own = Program(problem).value(found.L, np.zeros((15, 0)))
        assert found.value == pytest.approx(own + (2 * t + 2.0) * 15, rel=1e-12)


# What is true of the three equations. -----------------------------------------------------


def test_for_links_of_weight_one_the_losses_differ_by_a_constant():
    A, _ = planted()
    rng = np.random.default_rng(0)
    for _ in range(5):
        L = Similarities().project(rng.random(A.shape))
        assert absolute(L, A) == pytest.approx(A.sum() + linear(L, A))
    second = cluster_graph(A, loss="absolute", positive=True, tol=1e-6)
    third = cluster_graph(A, tol=1e-6)
    assert second.value == pytest.approx(third.value + A.sum(), rel=1e-5)
    np.testing.assert_allclose(second.L, third.L, atol=0.02)


def test_for_other_weights_they_are_two_problems():
    """A clique of weight 0.6: the absolute loss wants 0.6, the linear one to be together."""
    A = 0.6 * (np.ones((4, 4)) - np.eye(4))
    kept = cluster_graph(A, loss="absolute", positive=True, tol=1e-6)
    together = cluster_graph(A, tol=1e-6)
    apart = cluster_graph(A, threshold=0.7, tol=1e-6)
    np.testing.assert_allclose(kept.L, A + np.eye(4), atol=1e-3)
    np.testing.assert_allclose(together.L, 1.0, atol=1e-3)
    np.testing.assert_allclose(apart.L, np.eye(4), atol=1e-3)


def test_the_nuclear_norm_is_the_trace_just_for_semidefinite_similarities():
    rng = np.random.default_rng(1)
    for _ in range(20):
        L = Similarities().project(rng.random((6, 6)) * rng.integers(2, size=(6, 6)))
        negative = np.maximum(-np.linalg.eigvalsh(L), 0.0).sum()
        assert nuclear(L) == pytest.approx(6.0 + 2.0 * negative)
    E = np.abs(rng.standard_normal((6, 3)))
    E /= np.linalg.norm(E, axis=1, keepdims=True)
    assert nuclear(E @ E.T) == pytest.approx(6.0)


def test_without_a_penalty_the_solution_is_the_graph_itself():
    A, _ = planted()
    found = cluster_graph(A, mu0=0.0, loss="absolute")
    np.testing.assert_array_equal(found.L, A + np.eye(len(A)))
    assert found.value == len(A)
    assert found.lower_bound == pytest.approx(len(A), rel=1e-9)


@pytest.mark.parametrize("form", FORMS[1:3], ids=["2", "3"])
def test_mu0_changes_nothing_where_atoms_are_positive(form):
    A, _ = planted()
    some, more = (cluster_graph(A, mu0=mu0, **form) for mu0 in (0.0, 50.0))
    np.testing.assert_array_equal(some.L, more.L)
    assert more.value == pytest.approx(some.value + 50.0 * len(A), rel=1e-12)


def test_mu0_is_a_penalty_on_negative_eigenvalues_that_becomes_exact():
    A, _ = planted(size=10)
    semidefinite = cluster_graph(A, loss="absolute", positive=True, tol=1e-5)
    optimum = semidefinite.value - semidefinite.constant
    lowest, values = [], []
    for mu0 in (0.5, 2.0, 5.0, 20.0, 200.0):
        found = cluster_graph(A, mu0=mu0, loss="absolute", tol=1e-5)
        lowest.append(np.linalg.eigvalsh(found.L)[0])
        values.append(found.value - found.constant)
    assert lowest[0] < -1.0
    assert lowest[2] < -0.1
    assert np.all(np.diff(values) >= -1e-4 * optimum)
    assert values[2] < 0.995 * optimum
    assert values[3] == pytest.approx(optimum, rel=1e-4)
    assert values[4] == pytest.approx(optimum, rel=1e-4)
    np.testing.assert_allclose(found.L, semidefinite.L, atol=0.02)


# What it recovers. ------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 9])
def test_ideal_clusters_are_the_solution(seed):
    A, together = planted(size=50, p=0.9, q=0.1, seed=seed)
    found = cluster_graph(A)
    assert found.converged
    assert np.abs(found.L - together).max() < 1e-3
    assert np.array_equal(found.labels[:, None] == found.labels[None], together == 1)


def test_a_threshold_between_the_densities_recovers_what_one_half_cannot():
    A, together = planted(size=50, p=0.5, q=0.05, seed=0)
    assert np.abs(cluster_graph(A, threshold=0.2).L - together).max() < 1e-3
    half = cluster_graph(A, tol=1e-3)
    assert np.abs(half.L - together).max() > 0.9
    assert np.abs(half.L - together).mean() > 0.2


def test_where_links_are_few_one_half_leaves_hardly_more_than_singletons():
    """At this size some nodes have too few links for any threshold; 0.15 is near, one half not."""
    A, together = planted(size=50, p=0.3, q=0.05, seed=1)
    off = ~np.eye(150, dtype=bool)
    half = cluster_graph(A, tol=1e-3)
    assert half.L[off].mean() < 0.05
    assert half.labels.max() + 1 > 40
    between = cluster_graph(A, threshold=0.15, tol=1e-3)
    assert np.abs(between.L - together).mean() < 0.03
    assert 0.28 < between.L[off].mean() < 0.33


# Edges and errors. ------------------------------------------------------------------------


@every_form
def test_nodes_without_links_stay_apart(form):
    A = np.zeros((5, 5))
    A[0, 1] = A[1, 0] = 1.0
    found = cluster_graph(A, tol=1e-6, **form)
    np.testing.assert_allclose(found.L, A + np.eye(5), atol=1e-3)
    assert found.labels.tolist() == [0, 0, 1, 2, 3]


def test_a_threshold_below_zero_puts_all_together_nodes_without_links_included():
    A = np.zeros((5, 5))
    A[0, 1] = A[1, 0] = 1.0
    np.testing.assert_allclose(cluster_graph(A, threshold=-0.5, tol=1e-6).L, 1.0, atol=1e-3)


@every_form
def test_one_node_is_a_cluster(form):
    found = cluster_graph(np.zeros((1, 1)), **form)
    assert found.L.tolist() == [[1.0]]
    assert found.converged


@every_form
def test_an_early_end_is_told(form):
    A, _ = planted(seed=4)
    found = cluster_graph(A, mu0=10.0, tol=1e-9, max_iter=7, **form)
    assert isinstance(found, Clustering)
    assert found.status is Status.MAX_ITER
    assert not found.converged
    assert found.n_iter == 7
    assert -np.inf < found.lower_bound < found.value < np.inf
    assert Similarities().contains(found.L)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "square"}, "loss must be 'linear' or 'absolute', got 'square'"),
        ({"mu0": -1.0}, "mu0 must be a finite number ≥ 0"),
        ({"mu0": np.inf}, "mu0 must be a finite number ≥ 0"),
        ({"tol": "small"}, "tol must be a finite number ≥ 0"),
        ({"max_iter": 0}, "max_iter must be a positive integer"),
        ({"threshold": np.nan}, "threshold must be a finite number"),
        ({"loss": "absolute", "threshold": 0.2}, "the absolute loss has no threshold"),
    ],
)
def test_unfit_options_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        cluster_graph(np.ones((2, 2)), **options)


def test_matrices_beyond_the_memory_are_refused():
    with pytest.raises(InputError, match="convex clustering holds"):
        cluster_graph(sp.csr_array((10**6, 10**6)))


@pytest.mark.slow
def test_a_threshold_of_one_half_breaks_up_what_one_between_the_densities_recovers():
    """At p = .3 and 150 nodes a class; in smaller classes single nodes stray across t = .15."""
    A, together = planted(size=150, p=0.3, q=0.05)
    broken = cluster_graph(A, threshold=0.5, tol=1e-3)
    assert broken.labels.max() + 1 > 100
    assert broken.L[together > 0].mean() < 0.2
    found = cluster_graph(A, threshold=0.15)
    np.testing.assert_allclose(found.L, together, atol=1e-2)
