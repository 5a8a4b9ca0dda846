"""Places where the paper's text cannot be followed to the letter: each test states one.

docs/convex.md has the list with the arguments. What other files show is not repeated here: of CADO
in test_cado.py, test_graph.py and test_problem.py, of equations (1) to (3) in test_clustering.py.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import sqrtm

from nodeproof import Problem
from nodeproof.convex.characteristic import biased_centroids
from nodeproof.convex.program import Program
from nodeproof.datasets import make_planted
from nodeproof.graph import Graph
from nodeproof.paper.theory import counterexample
from nodeproof.sets import SpectralBox
from nodeproof.solvers import BlockADMM
from nodeproof.sum_of_norms import sum_of_norms
from nodeproof.terms import Covariance, Labels, NodeData

pytestmark = pytest.mark.numeric

# Theorem 3.6, part 1. ---------------------------------------------------------------------


SIZE, GAMMA, MEAN = 12, 1.0, 5.0
CLUSTER = np.repeat([0, 1], SIZE)
TOGETHER = CLUSTER[:, None] == CLUSTER
MEMBERS = np.eye(2, dtype=bool)[:, CLUSTER]
CENTROIDS = np.array([[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5]])


def balanced_problem(c, graph_weight=1.0):
    """Two clusters, four labels; within each, half of the nodes lean to one of two labels.

    The biased centroids lie inside edges of Θ, and the gradients inside a cluster differ by
    ``ρ = c·γ·n_i/n``.
    """
    example = counterexample(c, graph_weight, SIZE)
    return example.problem, example.prices


def normal(prices, i):
    """Return n_i of (11); the centroids are one apart."""
    return prices[MEMBERS[i]].mean(axis=0) + 0.5 * GAMMA * (CENTROIDS[i] - CENTROIDS[1 - i])


def leaning(s):
    """Return the ideal solution with each node's model moved by s to the label it leans to."""
    return counterexample(size=SIZE, step=s).better


def test_the_example_meets_the_assumptions_of_the_recovery_theorem():
    problem, prices = balanced_problem(c=1.2)
    found = biased_centroids(problem, np.eye(4)[2 * CLUSTER])
    np.testing.assert_allclose(found.models[0][[0, 2]], CENTROIDS, atol=1e-4)
    A = problem.graph.adjacency.toarray()
    for i in (0, 1):
        for j in (0, 1):
            links = A[MEMBERS[i]][:, MEMBERS[j]].sum(axis=1)
            missed = SIZE - links if i == j else links
            assert np.ptp(missed) == 0  # 3.1 with δ = 0
            assert missed[0] / SIZE <= 0.25  # 3.2 with room for any δ < 1/8, even twice
    # 3.4: ⟨n_i, θ − θ̂_i⟩ is r times what θ gives to the other cluster's labels. Never are both
    # below r/2.
    normals = [normal(prices, i) for i in (0, 1)]
    rises = [n - n @ own for n, own in zip(normals, CENTROIDS, strict=True)]
    r = MEAN - 0.5 * GAMMA
    np.testing.assert_allclose(rises, [[0, 0, r, r], [r, r, 0, 0]], atol=1e-12)


@pytest.mark.parametrize("graph_weight", [1.0, 100.0])
def test_the_recovery_theorem_fails_where_a_centroid_is_inside_a_face_of_its_set(graph_weight):
    """No graph allows ρ > γ n_i/n there: similarities change by s², models by s."""
    program = Program(balanced_problem(1.2, graph_weight)[0])
    ideal = program.value(TOGETHER.astype(float), CENTROIDS[CLUSTER])
    point = leaning(0.05 / graph_weight)
    assert program.violation(point) < 1e-12
    assert program.value(point.L, point.models) < ideal - 1e-4
    np.testing.assert_allclose(leaning(0.0).L, TOGETHER, atol=1e-12)


@pytest.mark.parametrize("graph_weight", [0.0, 1.0])
def test_up_to_the_limit_without_a_graph_the_ideal_solution_is_optimal(graph_weight):
    """And from γ n_i/n on it is not, so that the limit has γ in it, and no c > 1."""
    for c, optimal in ((0.95, True), (1.05, False)):
        problem, _ = balanced_problem(c, graph_weight)
        program = Program(problem)
        ideal = program.value(TOGETHER.astype(float), CENTROIDS[CLUSTER])
        point = leaning(0.01)
        assert (program.value(point.L, point.models) > ideal) == optimal
        if optimal:
            bound = BlockADMM(tol=1e-6, random_state=0).solve(problem).lower_bound
            assert bound > ideal - 1e-3


# Its proof. -------------------------------------------------------------------------------


def test_the_certificate_of_nodes_alone_has_a_factor_mu():
    """(D(θ) − Z)_vv = μ⟨n_i, θ − θ̂_i⟩, with the g_vu of (41)."""
    problem, prices = balanced_problem(c=0.9)
    mu, mu1 = problem.weights[2], problem.son
    rng = np.random.default_rng(0)
    for theta in rng.dirichlet(np.ones(4), size=3):
        for v in (0, SIZE):
            i = CLUSTER[v]
            inner = (mu / mu1) * (prices[MEMBERS[i]] - prices[v]) / SIZE
            assert np.linalg.norm(inner, axis=1).max() <= 1
            outer = SIZE * (CENTROIDS[i] - CENTROIDS[1 - i])
            q = mu * prices[v] + mu1 * (inner.sum(axis=0) + outer)
            moved = theta - CENTROIDS[i]
            np.testing.assert_allclose(q @ moved, mu * (normal(prices, i) @ moved), atol=1e-9)
            assert not np.isclose(q @ moved, normal(prices, i) @ moved, rtol=0.5)


def test_the_flows_of_the_combined_proof_are_no_sums():
    """(47) sums over the u that it is indexed by: then ‖g_vu‖ > 1 and g_vu ≠ −g_uv."""
    gradients = np.random.default_rng(1).normal(size=(8, 3))
    apart = gradients[None] - gradients[:, None]  # [v, u]: ∇f_u − ∇f_v
    single = apart / np.linalg.norm(apart, axis=2).max()
    assert np.linalg.norm(single, axis=2).max() <= 1
    np.testing.assert_allclose(single, -single.swapaxes(0, 1))
    printed = np.repeat(single.sum(axis=1, keepdims=True), 8, axis=1)
    assert np.linalg.norm(printed, axis=2).max() > 1
    assert not np.allclose(printed, -printed.swapaxes(0, 1))


def test_subgradients_of_the_norms_point_away_from_the_other_cluster(slope):
    """(37) has v in C_j and u in C_i, and points from C_j to C_i; (38) needs the reverse."""
    own, other = np.array([3.0, 4.0]), np.zeros(2)
    for direction in np.eye(2):
        measured = slope(lambda theta: sum_of_norms(np.stack([theta, other])), own, direction)
        np.testing.assert_allclose(measured, (own - other) @ direction / 5.0, atol=1e-6)


def room(p, q, delta, t, s, pull):
    """Whether Step 3 leaves an a_ii and an a_ij, for a threshold t and scale s; pull is λ/n_i.

    Inside, ``Z_uv ≤ B_uv`` at links and elsewhere; across, ``Z_uv ≥ B_uv``.
    """
    missed, wrong = 1 - p + 2 * delta, q + 2 * delta
    inside = (s * t + pull) / (1 - missed), (s * (1 - t) - pull) / missed
    across = s * (1 - t) / (1 - wrong), s * t / wrong
    return inside[0] <= inside[1] and across[0] <= across[1]


def test_visibility_by_one_delta_leaves_no_room_for_the_certificate():
    delta = 0.1
    for rho, enough in ((0.5 - 1.5 * delta, False), (0.5 - 2.5 * delta, True)):
        assert rho < 0.5 - delta
        assert room(p=1 - rho, q=rho, delta=delta, t=0.5, s=2, pull=0.0) == enough


def test_with_a_threshold_there_is_room_from_q_and_2_delta_to_p_less_2_delta():
    rng = np.random.default_rng(0)
    for _ in range(300):
        q, p = np.sort(rng.uniform(0.2, 0.8, size=2))
        delta, pull, t, s = rng.uniform([0, 0, 0.05, 0.5], [0.09, 0.2, 0.95, 4])
        stated = q + 2 * delta <= t <= p - 2 * delta - pull / s
        assert room(p, q, delta, t, s, pull) == stated


def centred_graph(seed):
    data = make_planted(3, cluster_size=30, p=0.5, q=0.1, random_state=seed)
    A, z = data.graph.toarray(), data.y_true
    E = np.eye(3)[z] / np.sqrt(30)
    means = E @ (E.T @ A @ E) @ E.T
    return A, z, A - means, np.eye(90) - E @ E.T


def test_the_inequalities_of_step_4_are_reversed():
    """The norm of Ã bounds that of its projection from above, and λP⊥ has eigenvalues 0."""
    for seed in range(3):
        A, z, centred, P = centred_graph(seed)
        a, most = 1.5, np.linalg.eigvalsh(centred)[-1]
        S = a * np.where(z[:, None] == z, A - 1, A)
        projected = np.linalg.eigvalsh(P @ S @ P)[-1]
        np.testing.assert_allclose(P @ S @ P, a * P @ centred @ P, atol=1e-9)
        assert projected < a * most - 1e-6  # printed: a λ_max(Ã) ≤ λ_max(P⊥SP⊥)
        assert abs(np.linalg.eigvalsh(P)[0]) < 1e-9  # printed as if it were 1
        for pull in (0.5 * projected, a * most):
            Z = P @ (S - pull * np.eye(90)) @ P
            largest = np.linalg.eigvalsh(Z)[-1]
            np.testing.assert_allclose(largest, max(0.0, projected - pull), atol=1e-9)


def test_the_diagonal_of_S_counts_as_a_missing_link():
    """Row sums of S are −a·n⁺ only so: n⁺_v = n_i − n_v counts v itself."""
    A, z, _, _ = centred_graph(0)
    missed = np.where(z[:, None] == z, 1 - A, 0).sum(axis=1)
    S = -np.where(z[:, None] == z, 1 - A, 0)
    np.testing.assert_array_equal(np.diag(S), -1)
    np.testing.assert_array_equal(S.sum(axis=1), -missed)
    np.testing.assert_array_equal(missed, 30 - (A * (z[:, None] == z)).sum(axis=1))


def test_F_is_zero_at_every_node_of_one_cluster():
    """At θ = θ̂_0 the diagonal ⟨n_i, θ − θ̂_i⟩ vanishes on all of C_0, not at one entry."""
    _, prices = balanced_problem(c=0.9)
    diagonal = np.array([normal(prices, i) @ (CENTROIDS[0] - CENTROIDS[i]) for i in CLUSTER])
    R = 0.4 * (MEAN - 0.5 * GAMMA)
    np.testing.assert_allclose(diagonal[MEMBERS[0]], 0.0, atol=1e-12)
    assert (diagonal[MEMBERS[1]] > R).all()


def test_the_factor_c_of_case_2_falls_to_one_and_needs_the_mu_of_the_statement():
    """From ρμ − μ1 n_i ≤ λ/l: ρ/(γ n_i/n) ≤ 1 + λn/(l μ γ n_i), here with λ = √n_i, l = γ = 1."""
    size, count = np.array([1e2, 1e4, 1e6]), np.array([4, 16, 64])
    n = size * count
    by_statement = 1 + np.sqrt(size) * n / (n / np.sqrt(size) * size)
    by_text = 1 + np.sqrt(size) * n / (n * size)
    np.testing.assert_allclose(by_statement, 2.0)
    assert by_text[-1] < 1.002
    printed = 1 / (1 - np.sqrt(size / n))
    assert (np.diff(printed) < 0).all()
    assert printed[-1] < 1.15


@pytest.mark.parametrize("sizes", [(20, 20, 20), (10, 20, 40)])
def test_the_sum_of_norms_moves_label_models_off_their_labels_at_the_stated_limit(sizes):
    """γ(1 − n_i/n + n_j/n) ≤ √2 β f (π_ii − π_ji) for all j ≠ i; here three in ten are wrong."""
    n, z = sum(sizes), np.repeat(np.arange(3), sizes)
    place = np.concatenate([np.arange(size) for size in sizes]) % 10
    y = np.where(place < 5, z, np.where(place < 7, (z + 1) % 3, (z + 2) % 3))
    y[place == 9] = -1  # of ten: five right, two and two wrong, one without a label
    term = Labels().bind(NodeData(3, y=y))
    counts = np.array([np.bincount(y[(z == i) & (y >= 0)], minlength=3) for i in range(3)])
    shares = counts / np.array(sizes)[:, None]  # f·π
    beta, size = 2.0, np.array(sizes) / n
    gains = [
        np.sqrt(2) * beta * (shares[i, i] - shares[i, j]) / (1 - size[i] + size[j])
        for i in range(3)
        for j in range(3)
        if j != i
    ]
    for factor, kept in ((0.98, True), (1.02, False)):
        son = factor * min(gains) / n
        found = biased_centroids(Problem(None, [term], 3, (1, 1, beta), son=son), np.eye(3)[z])
        assert np.allclose(found.models[0], np.eye(3), atol=1e-6) == kept


# The threshold. ---------------------------------------------------------------------------


def test_a_threshold_between_the_densities_is_not_enough_where_degrees_stray():
    """A node with fewer than t·(n_i − 1) links inside its cluster is better off alone."""
    t, strays = 0.15, []
    for seed in range(10):
        data = make_planted(3, cluster_size=50, p=0.3, q=0.05, random_state=seed)
        z = data.y_true
        together = (z[:, None] == z).astype(float)
        own = (data.graph.toarray() * together).sum(axis=1)
        strays.append(int((own < t * 49).sum()))
        if not strays[-1]:
            continue
        problem = Problem(Graph(data.graph), [], 1, weights=(1.0, 0.0, 0.0), threshold=t)
        program = Program(problem)
        alone = together.copy()
        v = own.argmin()
        alone[v] = alone[:, v] = 0.0
        alone[v, v] = 1.0
        none = np.zeros((150, 0))
        assert program.value(alone, none) < program.value(together, none)
    assert sum(count > 0 for count in strays) == 6


# The case study and CADO. -----------------------------------------------------------------


def test_the_feature_loss_is_least_at_the_root_of_the_second_moment():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 4)) * [0.2, 0.5, 1.0, 3.0]
    C = X.T @ X / 500

    def mean_loss(R):
        return (np.einsum("vi,ij,vj->", X, np.linalg.inv(R), X) / 500 + np.trace(R)) / 4

    root = sqrtm(C).real
    assert mean_loss(root) < mean_loss(C) - 0.1
    for _ in range(20):
        D = rng.normal(size=(4, 4))
        assert mean_loss(root) < mean_loss(root + 0.01 * (D + D.T))


def test_an_average_of_embeddings_has_a_diagonal_below_one():
    rows = np.sqrt(np.random.default_rng(0).dirichlet(np.ones(3), size=50))
    steps = 2.0 / (np.arange(5) + 2.0)
    assert steps[0] == 1.0  # so that the first step leaves nothing of the start
    averaged = (1 - steps[1]) * rows + steps[1] * np.eye(3)[rows.argmin(axis=1)]
    assert ((averaged**2).sum(axis=1) < 1 - 1e-3).all()
    W = (1 - steps[1]) * rows**2 + steps[1] * np.eye(3)[rows.argmin(axis=1)]
    np.testing.assert_allclose(W.sum(axis=1), 1.0)


def test_the_printed_update_of_R_does_not_minimise_the_linear_model():
    """Where −∇ is small beside the box, its projection is the same whatever the gradient is."""
    box = SpectralBox(0.5, 2.0, 3)
    gradient = np.diag([-0.3, -0.2, 0.1])
    printed, oracle = box.project(-gradient), box.lmo(gradient)
    np.testing.assert_allclose(printed, 0.5 * np.eye(3), atol=1e-12)
    np.testing.assert_allclose(oracle, np.diag([2.0, 2.0, 0.5]), atol=1e-12)
    assert np.vdot(gradient, oracle) < np.vdot(gradient, printed)


def test_one_hot_rows_do_not_solve_the_embedding_step_as_it_is_stated():
    """(14) is linear in ē. Over signed unit rows it is least at −∇/‖∇‖, which is not one-hot.

    Over rows ē ≥ 0, with a gradient g ≥ 0, the one-hot row at its smallest entry is exact:
    ⟨g, ē⟩ ≥ min g · Σ_i ē_i ≥ min g · ‖ē‖ = min g, because (Σ_i ē_i)² ≥ Σ_i ē_i² where no product
    ē_i ē_j is negative; and the one-hot row attains min g.
    """
    rng = np.random.default_rng(0)
    gradient = rng.normal(size=(20, 3))
    unit = -gradient / np.linalg.norm(gradient, axis=1, keepdims=True)
    one_hot = np.eye(3)[gradient.argmin(axis=1)]
    assert ((gradient * unit).sum(axis=1) < (gradient * one_hot).sum(axis=1)).all()

    positive = rng.exponential(size=(20, 3))
    one_hot = np.eye(3)[positive.argmin(axis=1)]
    # The whole octant in steps of a degree, its borders included.
    polar, azimuth = np.meshgrid(*2 * [np.linspace(0.0, np.pi / 2, 91)])
    rows = [np.sin(polar) * np.cos(azimuth), np.sin(polar) * np.sin(azimuth), np.cos(polar)]
    others = positive @ np.stack(rows).reshape(3, -1)
    least = (positive * one_hot).sum(axis=1)
    assert (others >= least[:, None] - 1e-12).all()
    np.testing.assert_allclose(others.min(axis=1), least, atol=1e-12)
    # Signed rows do better even there, so that ē ≥ 0 has to be said.
    unit = -positive / np.linalg.norm(positive, axis=1, keepdims=True)
    assert ((positive * unit).sum(axis=1) < least).all()
    # And with a negative entry a mixed row ē ≥ 0 can do better, so that g ≥ 0 has to be said.
    mixed = np.array([0.6, 0.8, 0.0])
    assert np.array([-0.6, -0.8, 1.0]) @ mixed < -0.8


# Theorem 4.3. -----------------------------------------------------------------------------


def test_the_sum_of_norms_has_no_lipschitz_continuous_gradient():
    """However close two models are, their gradients can be 2 apart; 4.3's rate forbids that."""

    def norms(x):
        return sum_of_norms(np.array([[x, 0.0], [0.0, 0.0]]))

    for distance in (1.0, 1e-3, 1e-6):
        step = 1e-3 * distance
        slopes = [(norms(x + step) - norms(x - step)) / (2 * step) for x in (distance, -distance)]
        np.testing.assert_allclose(slopes, [1.0, -1.0], rtol=1e-6)
    # Where the models of two nodes are equal, as in the ideal solution, there is no gradient.
    at_equal = [(norms(step) - norms(0.0)) / step for step in (1e-6, -1e-6)]
    np.testing.assert_allclose(at_equal, [1.0, -1.0], rtol=1e-6)


def test_the_gradient_of_the_feature_loss_is_lipschitz_on_a_box_above_zero_only():
    """∇f = (I − R⁻¹xxᵀR⁻¹)/m: its modulus is 2‖x‖²/(m ρ₋³), without end as ρ₋ → 0."""
    X = np.array([[1.0, 0.5]])

    def gradient(r):
        term = Covariance(lo=1e-9, hi=10.0).bind(NodeData(1, X=X))
        return term.loss_gradient(r * np.eye(2)[None], 0, 1)

    moduli = []
    for lo in (1.0, 0.1, 0.01):
        near = np.linalg.norm(gradient(lo) - gradient(1.0001 * lo))
        moduli.append(near / (1e-4 * lo * np.sqrt(2)))
        assert moduli[-1] <= 2 * (X**2).sum() / (2 * lo**3)
    np.testing.assert_allclose(np.array(moduli[1:]) / moduli[:-1], 1000.0, rtol=1e-6)
