"""Biased centroids against a general convex solver, and what is known of them in closed form."""

from dataclasses import dataclass

import numpy as np
import pytest

from nodeproof import Problem
from nodeproof.convex.characteristic import biased_centroids
from nodeproof.runtime import threads
from nodeproof.sum_of_norms.centroids import group_equal
from nodeproof.terms import Covariance, Gaussian, Labels, Multinomial, NodeData, Softmax
from nodeproof.terms.base import Term

WEIGHTS = (1.0, 2.5, 13.0)
SONS = (0.0, 1e-3, 1e-2, 0.05, 0.2, 1.0, 10.0)

pytestmark = [pytest.mark.numeric, pytest.mark.usefixtures("one_thread")]


def draw(seed: int, kinds: tuple[type[Term], ...], son: float | None = None):
    """Return a problem without a graph and rows: hard or soft, perhaps with an empty class."""
    rng = np.random.default_rng(seed)
    K, m = int(rng.integers(2, 7)), int(rng.integers(2, 5))
    n = int(rng.integers(8 * K, 20 * K))
    z = rng.integers(0, K, size=n)
    if seed % 5 == 1:
        z[z == K - 1] = 0
    W = rng.dirichlet(np.full(K, 0.3), size=n) if seed % 4 == 3 else np.eye(K)[z]
    X = rng.standard_normal((n, m)) * rng.uniform(0.2, 2.0, (K, m))[z] + rng.normal(size=(K, m))[z]
    if Multinomial in kinds:
        X = np.floor(3.0 * np.abs(X))
    y = np.where(rng.random(n) < 0.8, z, rng.integers(0, K, size=n))
    nodes = NodeData(K, X, np.where(rng.random(n) < 0.6, y, -1))
    if son is None:
        son = SONS[int(rng.integers(0, len(SONS)))] * 10 / n
    return Problem(None, [kind().bind(nodes) for kind in kinds], K, WEIGHTS, son=son), W


def objective(problem: Problem, W: np.ndarray, models: tuple[np.ndarray, ...]) -> float:
    """Σ_i Σ_k β_k Σ_v W_vi f_k(z_v; θ_i) + μ1 Σ_{i<j} n_i n_j ‖θ_i − θ_j‖, as it is written."""
    n, total = W.sum(axis=0), 0.0
    for beta, term, theta in zip(problem.term_weights, problem.terms, models, strict=True):
        total += beta * (W * term.vertex_costs(theta, 0, len(W))).sum()
    flat = np.hstack([theta.reshape(len(n), -1) for theta in models])
    for i in range(len(n)):
        for j in range(i):
            total += problem.son * n[i] * n[j] * np.linalg.norm(flat[i] - flat[j])
    return float(total)


@dataclass
class Reference:
    """The same problem, left to cvxpy."""

    problem: Problem
    W: np.ndarray

    def solve(self) -> tuple[float, list[np.ndarray]]:
        cp = pytest.importorskip("cvxpy")
        n = self.W.sum(axis=0)
        K = len(n)
        limits, total, variables = [], 0.0, []
        parts: list[list] = [[] for _ in n]
        for beta, term in zip(self.problem.term_weights, self.problem.terms, strict=True):
            build = {Covariance: self.covariance, Gaussian: self.gaussian}.get(type(term))
            if build is None:
                build = self.labels if isinstance(term, Labels) else self.words
            kept, loss, models, flat = build(cp, term)
            limits += kept
            total += beta * loss
            variables.append(models)
            for i in range(K):
                parts[i].append(flat(i))
        for i in range(K):
            for j in range(i):
                weight = self.problem.son * n[i] * n[j]
                total += weight * cp.norm(cp.hstack(parts[i]) - cp.hstack(parts[j]))
        program = cp.Problem(cp.Minimize(total), limits)
        tight = {"tol_gap_abs": 1e-9, "tol_gap_rel": 1e-9, "tol_feas": 1e-9}
        program.solve(solver=cp.CLARABEL, **tight)
        found = [np.stack([v.value for v in models]) for models in variables]
        return float(program.value), found

    def labels(self, cp, term):
        K = self.W.shape[1]
        models = [cp.Variable(K) for _ in range(K)]
        limits = [c for pi in models for c in (pi >= 0, cp.sum(pi) == 1)]
        counts = np.array([self.W[term.y == j].sum(axis=0) for j in range(K)])
        return limits, -sum(counts[:, i] @ models[i] for i in range(K)), models, models.__getitem__

    def covariance(self, cp, term):
        m, box = term.dim, term.models_set
        models = [cp.Variable((m, m), symmetric=True) for _ in range(self.W.shape[1])]
        limits, loss = [], 0.0
        for i, R in enumerate(models):
            limits += [R >> box.lo * np.eye(m), box.hi * np.eye(m) - R >> 0]
            root = (term.X * np.sqrt(self.W[:, i])[:, None]).T
            values, vectors = np.linalg.eigh(root @ root.T)
            half = vectors * np.sqrt(values.clip(min=0))
            loss += (cp.matrix_frac(half, R) + self.W[:, i].sum() * cp.trace(R)) / m
        return limits, loss, models, lambda i: cp.vec(models[i], order="C")

    def gaussian(self, cp, term):
        K, m, box = self.W.shape[1], term.dim, term.models_set
        models = [cp.Variable((2, m)) for _ in range(K)]
        limits, loss = [], 0.0
        for i, model in enumerate(models):
            limits += [model[0] >= box.lo[0], model[0] <= box.hi[0], model[1] == box.lo[1]]
            weights = np.sqrt(self.W[:, i, None] / box.lo[1] / m)
            off = cp.multiply(weights, term.X) - cp.multiply(
                weights, np.ones((len(term.X), 1)) @ cp.reshape(model[0], (1, m), order="C")
            )
            loss += 0.5 * cp.sum_squares(off)
        return limits, loss, models, lambda i: models[i][0]

    def words(self, cp, term):
        K, m = self.W.shape[1], term.X.shape[1]
        models = [cp.Variable(m) for _ in range(K)]
        limits = [c for t in models for c in (t >= term.models_set.floor, cp.sum(t) == 1)]
        shares = term.X / np.maximum(term.X.sum(axis=1, keepdims=True), 1)
        counts = self.W.T @ shares
        loss = -sum(counts[i] @ cp.log(models[i]) for i in range(K))
        return limits, loss, models, models.__getitem__


def check_against_reference(problem: Problem, W: np.ndarray) -> None:
    found = biased_centroids(problem, W)
    expected, models = Reference(problem, W).solve()
    scale = max(abs(expected), abs(found.value))
    assert found.converged
    assert found.value == pytest.approx(objective(problem, W, found.models), rel=1e-9)
    assert abs(found.value - expected) <= 1e-6 * scale
    assert found.lower_bound <= expected + 1e-6 * scale
    assert found.value - found.lower_bound <= 1e-6 * scale
    filled = W.sum(axis=0) > 0
    for term, mine, theirs in zip(problem.terms, found.models, models, strict=True):
        assert term.models_set.contains(mine, tol=1e-8).all()
        if isinstance(term, Covariance | Gaussian):  # others are not strongly convex
            np.testing.assert_allclose(mine[filled], theirs[filled], atol=2e-4)


KINDS = [(Labels,), (Covariance,), (Covariance, Labels)]


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
@pytest.mark.parametrize("seed", range(9))
def test_centroids_agree_with_a_convex_solver(seed):
    check_against_reference(*draw(seed, KINDS[seed % 3]))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
@pytest.mark.parametrize("seed", range(9, 60))
def test_more_centroids_agree_with_a_convex_solver(seed):
    check_against_reference(*draw(seed, KINDS[seed % 3]))


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
@pytest.mark.parametrize("son", [1e-4, 3e-3, 1.0])
@pytest.mark.parametrize("kinds", [(Gaussian,), (Multinomial,), (Gaussian, Labels)])
def test_other_terms_agree_with_a_convex_solver(kinds, son):
    check_against_reference(*draw(2, kinds, son))


def test_a_term_that_only_knows_its_losses_gives_the_same():
    class Plain(Covariance):
        """A covariance without sums taken beforehand."""

        def class_loss(self, W):
            return Term.class_loss(self, W)

    problem, W = draw(4, (Covariance,), 2e-3)
    term = problem.terms[0]
    plain = Plain().bind(NodeData(problem.n_classes, term.X))
    other = Problem(None, [plain], problem.n_classes, WEIGHTS, son=problem.son)
    one, two = biased_centroids(problem, W, tol=1e-6), biased_centroids(other, W, tol=1e-6)
    assert two.converged
    np.testing.assert_allclose(one.models[0], two.models[0], atol=1e-4)


def test_without_norms_each_class_is_refitted_exactly():
    for kinds in (*KINDS, (Gaussian,), (Multinomial, Labels)):
        problem, W = draw(6, kinds, 0.0)
        found = biased_centroids(problem, W)
        assert found.converged
        assert (
            found.value == found.lower_bound == pytest.approx(objective(problem, W, found.models))
        )
        for term, models in zip(problem.terms, found.models, strict=True):
            np.testing.assert_array_equal(models, term.refit(W))


def test_a_large_weight_merges_all_classes_into_the_pooled_model():
    problem, W = draw(4, (Covariance,), 100.0)
    found = biased_centroids(problem, W)
    pooled = problem.terms[0].refit(np.full_like(W, 1 / problem.n_classes))
    np.testing.assert_array_equal(found.groups, 0)
    np.testing.assert_allclose(found.models[0], pooled, atol=1e-5)


def test_classes_that_look_alike_merge_to_the_last_bit():
    rng = np.random.default_rng(0)
    z = np.repeat(np.arange(4), 50)
    X = rng.standard_normal((200, 2)) * np.array([[1, 3], [1, 3], [3, 1], [3, 1]])[z]
    term, W = Covariance().bind(NodeData(4, X)), np.eye(4)[z]
    found = biased_centroids(Problem(None, [term], 4, WEIGHTS, son=1.2e-2), W)
    np.testing.assert_array_equal(found.groups, [0, 0, 1, 1])
    (models,) = found.models
    assert (models[0] == models[1]).all()
    assert (models[2] == models[3]).all()
    assert np.abs(models[0] - models[2]).max() > 0.4


def test_equal_models_share_a_number():
    models = [np.array([[1.0], [2.0], [1.0], [1.0]]), np.array([[0.0], [0.0], [0.0], [5.0]])]
    np.testing.assert_array_equal(group_equal(models), [0, 1, 0, 2])


@pytest.mark.parametrize("sizes", [(10, 10), (10, 30)])
def test_label_classes_part_where_the_labels_outweigh_the_norms(sizes):
    """Class 1 leaves class 2 while its 0.6 n_1 labels gain more than μ1 n_1 n_2 √2."""
    z = np.repeat([0, 1], sizes)
    y = np.where(np.arange(len(z)) % 5 < 3, z, -1)
    term = Labels().bind(NodeData(2, y=y))
    limit = 0.6 / (sizes[1] * np.sqrt(2))
    for factor, groups in ((0.99, [0, 1]), (1.01, [0, 0])):
        problem = Problem(None, [term], 2, (1.0, 1.0, 1.0), son=factor * limit)
        np.testing.assert_array_equal(biased_centroids(problem, np.eye(2)[z]).groups, groups)


def test_a_class_without_nodes_takes_the_centroid_of_the_largest():
    problem, W = draw(4, (Covariance, Labels), 1e-4)
    empty = np.zeros_like(W)
    empty[:, :3] = np.eye(3)[np.r_[np.zeros(20, int), np.arange(len(W) - 20) % 3]]
    found = biased_centroids(problem, empty)
    assert found.converged
    assert (found.groups[3:] == found.groups[0]).all()
    assert len(set(found.groups[:3])) == 3
    alone = np.zeros_like(W)
    alone[:, 1] = 1.0
    found = biased_centroids(problem, alone)
    np.testing.assert_array_equal(found.groups, 0)
    for term, models in zip(problem.terms, found.models, strict=True):
        np.testing.assert_array_equal(models[1], term.refit(alone)[1])


def test_classes_of_very_different_sizes_do_no_harm():
    problem, W = draw(4, (Covariance, Labels), 1e-3)
    W = W * np.logspace(-8, 0, problem.n_classes)
    found = biased_centroids(problem, W)
    assert found.converged
    assert found.value == pytest.approx(objective(problem, W, found.models), rel=1e-9)


def test_a_start_at_the_solution_ends_at_once():
    for son in (1e-3, 0.03, 10.0):
        problem, W = draw(4, (Covariance, Labels), son)
        found = biased_centroids(problem, W)
        again = biased_centroids(problem, W, found.models)
        assert again.n_iter <= min(10, found.n_iter)
        assert again.value <= found.value + 1e-12 * abs(found.value)


def test_what_is_found_is_never_worse_than_the_start():
    problem, W = draw(5, (Covariance, Labels), 1e-2)
    start = biased_centroids(problem, W, tol=1e-3).models
    for max_iter in (1, 2, 15):
        found = biased_centroids(problem, W, start, tol=0.0, max_iter=max_iter)
        assert not found.converged
        assert found.n_iter == max_iter
        assert found.value <= objective(problem, W, start) + 1e-10
        assert found.lower_bound <= found.value


def test_bounds_hold_from_the_first_iteration():
    problem, W = draw(8, (Covariance, Labels), 1e-2)
    best = biased_centroids(problem, W).value
    for max_iter in (1, 10, 30):
        found = biased_centroids(problem, W, max_iter=max_iter)
        assert found.lower_bound <= best + 1e-9 * abs(best) <= found.value + 2e-9 * abs(best)


def test_threads_do_not_change_a_bit():
    n = 2 * threads.ROWS + 50
    rng = np.random.default_rng(0)
    nodes = NodeData(3, rng.standard_normal((n, 2)), rng.integers(-1, 3, size=n))
    terms = [Covariance().bind(nodes), Labels().bind(nodes)]
    problem, W = Problem(None, terms, 3, WEIGHTS, son=1e-5), rng.dirichlet(np.ones(3), size=n)
    found = []
    for n_jobs in (1, 2):
        with threads.using(n_jobs):
            found.append(biased_centroids(problem, W, max_iter=20))
    for one, two in zip(found[0].models, found[1].models, strict=True):
        assert one.tobytes() == two.tobytes()


def test_a_softmax_term_is_pulled_like_soft_labels(planted):
    nodes = NodeData(3, planted.X, planted.y)
    problem = Problem(None, [Softmax(hops=0).bind(nodes)], 3, (0.0, 1.0, 0.0), son=1.0)
    found = biased_centroids(problem, np.eye(3)[planted.y_true])
    assert found.converged
    np.testing.assert_array_equal(found.groups, 0)
