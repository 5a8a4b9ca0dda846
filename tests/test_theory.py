"""The recovery theory: what is measured, and what is promised of it."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.spatial.distance import cdist

from nodeproof import Problem
from nodeproof.convex.program import Program, polytope_bound
from nodeproof.datasets import make_planted
from nodeproof.errors import InputError
from nodeproof.graph import Graph
from nodeproof.paper import theory
from nodeproof.paper.theory import centred, models
from nodeproof.paper.theory.counterexamples import Prices
from nodeproof.sets import Box, Product, Simplex, SpectralBox
from nodeproof.solvers import BlockADMM, ExactSDP
from nodeproof.terms import Covariance, Labels, NodeData

pytestmark = [pytest.mark.numeric, pytest.mark.usefixtures("one_thread")]

GRAPH_ONLY = (1.0, 0.0, 0.0)


def graph_problem(A, t=0.5, null_model="uniform"):
    return Problem(Graph(A, null_model), [], 1, GRAPH_ONLY, threshold=t)


def flipped_cliques(rng, share):
    """Return a few cliques with some pairs flipped, and which is which."""
    z = np.repeat(np.arange(3), rng.integers(4, 10, size=3))[: rng.integers(14, 27)]
    flips = np.triu(rng.random((len(z), len(z))) < share, 1)
    A = np.where(flips | flips.T, z[:, None] != z, z[:, None] == z).astype(float)
    np.fill_diagonal(A, 0.0)
    return A, z


def many_small_clusters(K, size, links, seed=0):
    """Return cliques whose every node has the same number of links to each other clique."""
    rng = np.random.default_rng(seed)
    A = np.kron(np.eye(K), 1.0 - np.eye(size))
    for i, j in combinations(range(K), 2):
        rows, columns = rng.permutation(size), rng.permutation(size)
        for s in range(links):
            A[i * size + rows, j * size + np.roll(columns, s)] = 1.0
    return np.maximum(A, A.T), np.repeat(np.arange(K), size)


def ideal_value(problem, z, centroids=None):
    theta = np.zeros((len(z), 0)) if centroids is None else centroids[z]
    return Program(problem).value((z[:, None] == z).astype(float), theta)


# Assumptions 1 to 3. ----------------------------------------------------------------------


def dense_pieces(A, z):
    """Return the centred adjacency, the projection and the class means, all dense."""
    E = np.eye(z.max() + 1)[z] / np.sqrt(np.bincount(z))
    return A - E @ (E.T @ A @ E) @ E.T, np.eye(len(z)) - E @ E.T


@pytest.mark.parametrize("sizes", [(9, 14, 20), (1, 8, 12), (30,)])
def test_link_assumptions_are_those_of_dense_matrices(sizes):
    data = make_planted(len(sizes), cluster_size=list(sizes), p=0.7, q=0.2, random_state=1)
    A, z = data.graph.toarray(), data.y_true
    found = theory.measure(graph_problem(A), z).links
    n_of = np.bincount(z)
    K = len(n_of)
    for v in range(len(z)):
        for j in range(K):
            missed = A[v, z == j].sum()
            missed = n_of[j] - missed if z[v] == j else missed
            assert found.missed[v, j] == missed
    rho = np.array([[found.missed[z == i, j].mean() / n_of[j] for j in range(K)] for i in range(K)])
    np.testing.assert_allclose(found.rho_plus, rho)
    assert found.delta == pytest.approx(np.abs(found.missed / n_of - rho[z]).max())
    assert found.visibility == pytest.approx(0.5 - found.delta - rho.max())
    centred_A, P = dense_pieces(A, z)
    for i in range(K):
        own = z == i
        np.testing.assert_allclose(found.links[i].sum(), A[own].sum())
        for norm, block in (
            (found.norms_inside, centred_A[own][:, own]),
            (found.norms_outside, centred_A[~own][:, ~own]),
            (found.norms_between, centred_A[own][:, ~own]),
        ):
            assert norm[i] == pytest.approx(np.linalg.norm(block, 2) if block.size else 0.0)
        inner = np.linalg.eigvalsh((P @ A @ P)[own][:, own])[-1]
        assert found.noise_inside[i] == pytest.approx(max(0.0, inner), abs=1e-9)
    scaled = P @ (A * found.discount[z][:, z]) @ P
    assert found.noise == pytest.approx(max(0.0, np.linalg.eigvalsh(scaled)[-1]), abs=1e-9)
    shares = A @ np.eye(K)[z] / n_of
    x = shares[:, z] + shares[:, z].T - (found.links / np.outer(n_of, n_of))[z][:, z]
    for i, j in np.ndindex(K, K):
        pairs = x[np.ix_(z == i, z == j)]
        if i != j:
            assert found.highest[i, j] == pytest.approx(pairs.max())
        elif n_of[i] > 1:
            assert found.lowest[i] == pytest.approx(pairs[~np.eye(n_of[i], dtype=bool)].min())


def test_sparse_norms_are_the_dense_ones(monkeypatch):
    data = make_planted(3, cluster_size=50, p=0.4, q=0.1, random_state=0)
    problem = graph_problem(data.graph)
    dense = theory.measure(problem, data.y_true).links
    monkeypatch.setattr(centred, "DENSE_BLOCK", 5)
    monkeypatch.setattr(centred, "DENSE_GRAPH", 5)
    sparse = theory.measure(problem, data.y_true).links
    assert dense.exact
    assert not sparse.exact
    for name in ("norms_inside", "norms_outside", "norms_between", "noise", "noise_inside"):
        np.testing.assert_allclose(getattr(sparse, name), getattr(dense, name), rtol=1e-3)


@pytest.mark.parametrize("kind", ["uniform", "degree", "weighted"])
def test_the_margins_inside_and_across_are_those_of_the_certificate_itself(kind, random_graph):
    """Z − B is at least as far from 0 as the margins say, and Z ⪯ 0."""
    signs = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        A, z = flipped_cliques(rng, 0.03)
        A = A * (rng.uniform(0.9, 1.1, A.shape) if kind == "weighted" else 1.0)
        A = np.triu(A) + np.triu(A).T
        problem = graph_problem(A, *((1.0, "degree") if kind == "degree" else (0.5, "uniform")))
        found = theory.measure(problem, z).links
        s, (_, P) = found.scale, dense_pieces(A, z)
        same = z[:, None] == z
        S = s * np.where(same, A - 1.0, found.discount[z][:, z] * A)
        Z = P @ (S - s * found.noise * np.eye(len(z))) @ P
        B = Program(problem).B
        off = ~np.eye(len(z), dtype=bool)
        assert np.linalg.eigvalsh(Z)[-1] < 1e-9
        assert ((B - Z)[same & off] / s).min() >= found.inside - 1e-9
        if kind == "uniform":
            assert ((B - Z)[same & off] / s).min() == pytest.approx(found.inside)
        if found.across >= 0:
            assert ((Z - B)[~same]).min() >= -1e-9
        signs.append(found.across >= 0)
    assert any(signs)


@pytest.mark.parametrize("size", [50, 100, 150])
def test_the_dual_bound_of_the_certificate_is_the_ideal_value_where_it_is_promised(size):
    for p, q in ((0.95, 0.05), (0.85, 0.15)):
        data = make_planted(3, cluster_size=size, p=p, q=q, random_state=0)
        A, z, problem = data.graph.toarray(), data.y_true, graph_problem(data.graph)
        found = theory.measure(problem, z)
        s, (_, P) = found.links.scale, dense_pieces(A, z)
        S = s * np.where(z[:, None] == z, A - 1.0, found.links.discount[z][:, z] * A)
        Z = P @ (S - s * found.links.noise * np.eye(len(z))) @ P
        B = Program(problem).B
        bound = polytope_bound(B, np.zeros((len(z), 1)), np.diag(Z), Z - B)
        promised = theory.theorem(found).graph.promised
        assert (bound > ideal_value(problem, z) - 1e-3) == promised
        assert promised or (p, size) == (0.85, 50)


def test_visibility_corrected_is_enough_for_the_signs():
    for seed in range(10):
        data = make_planted(2, cluster_size=40, p=0.8, q=0.1, random_state=seed)
        found = theory.measure(graph_problem(data.graph), data.y_true).links
        assert found.inside >= found.visibility_inside - 1e-12
        assert found.across >= found.visibility_across - 1e-12


# Theorem 1, part 3. -----------------------------------------------------------------------


def test_the_graph_part_never_promises_what_a_solver_refutes():
    promised = refuted = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        A, z = flipped_cliques(rng, rng.choice([0.01, 0.015, 0.08]))
        problem = graph_problem(A, rng.choice([0.4, 0.5, 0.6]))
        verdict = theory.theorem(theory.measure(problem, z)).graph
        found = BlockADMM(tol=1e-3, max_iter=60, random_state=0).solve(problem)
        better = found.program_value < ideal_value(problem, z) - 1e-6
        assert not (verdict.promised and better)
        promised += verdict.promised
        refuted += better
    assert promised >= 30
    assert refuted >= 10


def all_partitions(n):
    """Return every partition of n nodes as a labelling."""
    labellings = [[0]]
    for _ in range(n - 1):
        labellings = [[*z, k] for z in labellings for k in range(max(z) + 2)]
    return np.array(labellings)


def test_what_the_graph_part_promises_no_partition_beats():
    partitions = all_partitions(8)
    together = partitions[:, :, None] == partitions[:, None, :]
    z, kept = np.repeat([0, 1], 4), 0
    for seed in range(40):
        flips = np.triu(np.random.default_rng(seed).random((8, 8)) < 0.04, 1)
        A = np.where(flips | flips.T, z[:, None] != z, z[:, None] == z) * (1.0 - np.eye(8))
        problem = graph_problem(A)
        values = -np.einsum("puv,uv->p", together, Program(problem).B)
        if theory.theorem(theory.measure(problem, z)).graph.promised:
            kept += 1
            assert ideal_value(problem, z) <= values.min() + 1e-9
    assert kept >= 10


def test_the_exact_program_agrees_with_a_promise():
    A, z = flipped_cliques(np.random.default_rng(5), 0.01)
    problem = graph_problem(A)
    assert theory.theorem(theory.measure(problem, z)).graph.margin > 0.01
    found = ExactSDP().solve(problem)
    np.testing.assert_allclose(found.point.L, z[:, None] == z, atol=1e-3)


def test_dense_and_well_separated_classes_are_promised_from_some_size_on():
    def margins(size, p, q):
        found = []
        for seed in range(3):
            data = make_planted(3, cluster_size=size, p=p, q=q, random_state=seed)
            found.append(
                theory.theorem(theory.measure(graph_problem(data.graph), data.y_true)).graph
            )
        return [each.margin for each in found], [each.claimed for each in found]

    assert min(margins(30, 0.95, 0.05)[0]) > 0
    assert min(margins(150, 0.8, 0.2)[0]) > 0
    # As printed, with constants of 1, the theorem claims much smaller ones.
    small, claimed = margins(15, 0.9, 0.1)
    assert max(small) < 0
    assert any(claimed)


# Assumptions 4 and 5. ---------------------------------------------------------------------


def separation_by_programs(normals, theta, vertices):
    """Return R by one linear program for each two classes, over weights of the vertices."""
    least = np.inf
    for i, j in combinations(range(len(theta)), 2):
        rows = np.array([(vertices - theta[k]) @ normals[k] for k in (i, j)])
        found = linprog(
            np.append(np.zeros(len(vertices)), 1.0),
            A_ub=np.hstack([rows, -np.ones((2, 1))]),
            b_ub=np.zeros(2),
            A_eq=np.append(np.ones(len(vertices)), 0.0)[None],
            b_eq=[1.0],
            bounds=[(0, None)] * len(vertices) + [(None, None)],
        )
        least = min(least, found.fun)
    return least


@given(st.integers(0, 10_000), st.integers(2, 4), st.integers(2, 4))
@settings(max_examples=25, deadline=None)
def test_separation_over_a_polytope_is_that_of_linear_programs(seed, K, dim):
    rng = np.random.default_rng(seed)
    both = Product([Simplex(dim), Simplex(2)])
    normals, theta = rng.normal(size=(K, dim + 2)), both.project(rng.normal(size=(K, dim + 2)))
    expected = separation_by_programs(normals, theta, both.vertices())
    assert models.separation(normals, theta, both) == pytest.approx(expected, abs=1e-6)


def test_separation_over_spectral_boxes_is_undercut_by_no_member():
    rng = np.random.default_rng(0)
    box = Product([SpectralBox(0.5, 2.0, 2), Box([0.0], [1.0])])
    normals, theta = rng.normal(size=(2, 3, 5))
    theta = box.project(theta)
    R = models.separation(normals, theta, box)
    members = box.project(3.0 * rng.normal(size=(100_000, 5)))
    rises = members @ normals.T - (normals * theta).sum(axis=1)
    second = np.sort(rises, axis=1)[:, 1].min()
    assert -1e-9 <= second - R < 0.15


def test_the_spread_of_many_gradients_is_bounded_from_both_sides(monkeypatch):
    points = np.random.default_rng(0).normal(size=(200, 4))
    exact = cdist(points, points).max()
    assert models.spread(points) == pytest.approx((exact, exact))
    monkeypatch.setattr(models, "_EXACT_PAIRS", 50)
    lower, upper = models.spread(points)
    assert lower <= exact <= upper <= 2 * lower
    assert (
        models.spread(np.repeat(points[:5], 40, axis=0))[1] == cdist(points[:5], points[:5]).max()
    )


@pytest.mark.parametrize("son", [0.0, 0.02])
def test_model_assumptions_are_those_of_the_definitions(son):
    data = make_planted(3, cluster_size=20, p=0.5, q=0.1, n_features=2, n_noise=1, random_state=0)
    nodes, z = NodeData(3, X=data.X, y=data.y), data.y_true
    terms = [Covariance().bind(nodes), Labels().bind(nodes)]
    problem = Problem(Graph(data.graph), terms, 3, (1.0, 2.5, 13.0), son=son)
    found = theory.measure(problem, z).models
    # μ is the sum of the weights, f the weighted mean of the losses.
    assert (found.mu, found.gamma) == (15.5, pytest.approx(60 * son / 15.5))
    program = Program(problem)
    gradients = program.loss_gradient(found.centroids[z]) / 15.5
    for i in range(3):
        own = gradients[z == i]
        assert found.rho_classes[i] == pytest.approx(cdist(own, own).max())
        normal = own.mean(axis=0)
        for j in {0, 1, 2} - {i}:
            apart = found.centroids[i] - found.centroids[j]
            normal = normal + son / 15.5 * 20 * apart / np.linalg.norm(apart)
        np.testing.assert_allclose(found.normals[i], normal, atol=1e-9)
    assert found.stationary > 0
    assert found.distinct
    assert found.slopes is None  # spectral boxes have no list of vertices
    single = Problem(None, [terms[1]], 3, (1.0, 0.0, 13.0), son=son)
    assert theory.measure(single, z).models.gamma == pytest.approx(60 * son / 13.0)


# Theorem 1, parts 1 and 2. ----------------------------------------------------------------


def priced(seed):
    """Return a problem of dense links and prices that mostly agree with the classes."""
    rng = np.random.default_rng(seed)
    A, z = flipped_cliques(rng, rng.choice([0.0, 0.02]))
    K, beta = z.max() + 1, rng.choice([0.5, 3.0])
    noise = rng.choice([0.02, 0.5, 8.0])
    prices = -3.0 * np.eye(K)[z] + noise * rng.normal(size=(len(z), K))
    son = rng.choice([0.0, 0.3, 1.0]) * beta / len(z)
    return A, z, [Prices().of(prices)], beta, son


@pytest.mark.parametrize("graph_weight", [0.0, 1.0])
def test_the_other_parts_never_promise_what_a_solver_refutes(graph_weight):
    promised = refuted = beyond = 0
    for seed in range(24):
        A, z, terms, beta, son = priced(seed)
        weights = (graph_weight, 0.0, beta)
        problem = Problem(Graph(A, "uniform"), terms, z.max() + 1, weights, son=son)
        measured = theory.measure(problem, z)
        found = theory.theorem(measured)
        verdict = found.combined if graph_weight else found.nodes
        solved = BlockADMM(tol=1e-3, max_iter=30, random_state=0).solve(problem)
        ideal = ideal_value(problem, z, measured.models.centroids)
        better = solved.program_value < ideal - verdict.slack - 1e-6
        assert not (verdict.promised and better)
        promised += verdict.promised
        beyond += verdict.promised and measured.models.spread < 0
        refuted += better
    assert min(promised, refuted, beyond) >= 3  # at vertices of Θ more than γ n_i/n is allowed


def test_nodes_lift_many_small_clusters_over_noise_that_beats_the_graph():
    """The paper's main point, n_i ≤ √n: both together recover what the graph alone does not."""
    A, z = many_small_clusters(12, 5, links=2)
    prices = Prices().of(-3.0 * np.eye(12)[z])
    problem = Problem(Graph(A, "uniform"), [prices], 12, (1.0, 0.0, 10.0))
    measured = theory.measure(problem, z)
    found = theory.theorem(measured)
    assert found.combined.promised
    assert not found.graph.promised
    graph_only = graph_problem(A)
    solved = BlockADMM(tol=1e-2, max_iter=100, random_state=0).solve(graph_only)
    assert solved.program_value < ideal_value(graph_only, z) - 10
    ideal = ideal_value(problem, z, measured.models.centroids)
    solved = BlockADMM(tol=1e-3, max_iter=60, random_state=0).solve(problem)
    assert solved.lower_bound > ideal - 1.0
    assert not theory.theorem(
        theory.measure(Problem(Graph(A, "uniform"), [prices], 12, (1.0, 0.0, 1.0)), z)
    ).combined.promised


def test_lemma_2_and_the_room_of_the_signs_make_the_combined_certificate():
    """At λ = s·room the signs inside are tight, and D(θ) − Z ⪰ 0 at every vertex if promised."""
    outcomes = []
    for seed, beta in ((0, 1.0), (0, 4.0), (1, 6.0), (1, 8.0), (2, 10.0), (2, 12.0)):
        A, z = many_small_clusters(9, 6, links=2, seed=seed)
        problem = Problem(
            Graph(A, "uniform"), [Prices().of(-3.0 * np.eye(9)[z])], 9, (1.0, 0.0, beta)
        )
        measured = theory.measure(problem, z)
        links, s = measured.links, 2.0
        centred_A, P = dense_pieces(A, z)
        same, off = z[:, None] == z, ~np.eye(len(z), dtype=bool)
        S = s * np.where(same, A - 1.0, links.discount[z][:, z] * A)
        Z = P @ (S - s * links.room * np.eye(len(z))) @ P
        assert (Program(problem).B - Z)[same & off].min() == pytest.approx(0.0, abs=1e-9)
        assert measured.models.lifted == pytest.approx(3.0)
        lifts = [3.0 * beta * (z != k) for k in range(9)]
        least = min(np.linalg.eigvalsh(np.diag(lift) - Z)[0] for lift in lifts)

        alone = links.room - np.linalg.eigvalsh(P @ (S / s) @ P)[-1]
        rest = 3.0 * beta / s + min(0.0, alone)
        margins = []
        for i in range(9):
            own = z == i
            alpha = links.room - max(0.0, np.linalg.eigvalsh((P @ A @ P)[own][:, own])[-1])
            sigma = np.linalg.norm(centred_A[own][:, ~own], 2)
            margins.append(
                np.sqrt(alpha * rest) - links.discount[0, 1] * sigma if rest > 0 else rest
            )
        verdict = theory.theorem(measured).combined
        margin = verdict.corrected["λ P⊥ and R against the noise"]
        assert margin == pytest.approx(max(alone, min(margins)), abs=1e-9)
        assert least >= -1e-9 or not verdict.promised
        outcomes.append((verdict.promised, least >= -1e-9))
    assert (True, True) in outcomes
    assert (False, False) in outcomes


@pytest.mark.parametrize(
    ("n_classes", "size", "c"),
    [
        *((2, 12, 1.2), (4, 12, None), (16, 20, None), (40, 42, None)),  # n_i ≥ √n
        *((16, 12, None), (40, 8, None), (40, 12, 6.0)),  # n_i ≤ √n, where n_i²/n is allowed
    ],
)
def test_the_counterexamples_are_claimed_and_refuted(n_classes, size, c):
    example = theory.counterexample(c, size=size, n_classes=n_classes)
    assert 1 < example.c <= example.c_printed
    measured = theory.measure(example.problem, example.labels)
    found = theory.theorem(measured)
    assert ("≥" if size > n_classes else "≤") in found.combined.part
    # The point is feasible, and the ideal solution, which is at the biased centroids, costs more.
    assert Program(example.problem).violation(example.better) < 1e-12
    assert example.gain > 1e-3
    np.testing.assert_allclose(measured.models.centroids, example.centroids, atol=1e-4)
    # Every printed assumption holds, as the paper defines them.
    assert (measured.links.delta, measured.models.gamma) == (0.0, pytest.approx(1.0))
    assert measured.models.rho == pytest.approx(example.c / n_classes)
    assert found.combined.claimed
    assert not found.combined.promised
    assert not found.nodes.claimed


def test_no_weight_of_the_graph_mends_the_counterexample():
    for weight in (1.0, 5.0, 100.0):
        example = theory.counterexample(1.2, weight)
        found = theory.theorem(theory.measure(example.problem, example.labels)).combined
        assert example.gain > 1e-4
        assert not found.promised
        assert found.claimed == (weight <= 10)  # beyond, μ is not of the order of n/√n_i


def test_below_the_limit_of_nodes_alone_the_counterexample_is_none():
    within = theory.counterexample(0.95)
    found = theory.theorem(theory.measure(within.problem, within.labels))
    assert within.gain < 0
    assert found.combined.promised
    assert found.nodes.promised


# What comes out, and what goes in. --------------------------------------------------------


def test_tables_name_everything_and_parts_without_data_are_left_out(planted):
    labels = Labels().bind(NodeData(3, y=planted.y))
    both = Problem(Graph(planted.graph), [labels], 3, (1.0, 0.0, 13.0), son=0.1)
    text = str(theory.measure(both, planted.y_true))
    for name in ("δ", "κ", "‖B̃_i‖/√n", "γ = nμ1/μ", "R (sep", "ρ (var"):
        assert name in text
    assert len(list(theory.theorem(theory.measure(both, planted.y_true)))) == 3
    assert "(1) combined" in str(theory.theorem(theory.measure(both, planted.y_true)))
    nodes = Problem(None, [labels], 3, (1.0, 0.0, 13.0))
    found = theory.theorem(theory.measure(nodes, planted.y_true))
    assert found.combined is None
    assert found.graph is None


def test_one_class_and_classes_without_nodes_are_no_trouble():
    A = 1.0 - np.eye(6)
    labels = Labels().bind(NodeData(9, y=np.full(6, 7)))
    problem = Problem(Graph(A), [labels], 9, (1.0, 0.0, 1.0))
    measured = theory.measure(problem, np.full(6, 7))
    np.testing.assert_array_equal(measured.classes, [7])
    assert np.isinf(measured.models.R)
    assert all(verdict.promised for verdict in theory.theorem(measured))
    assert str(measured)


def test_labels_that_cannot_be_used_are_refused(planted):
    problem = graph_problem(planted.graph)
    for labels, message in (
        (planted.y_true[:5], "60 integers"),
        (planted.y_true * 1.0, "60 integers"),
        (planted.y, "a class for every node"),
    ):
        with pytest.raises(InputError, match=message):
            theory.measure(problem, labels)
    with pytest.raises(InputError, match="threshold"):
        theory.measure(problem, planted.y_true, threshold=-0.1)
    with pytest.raises(InputError, match="fixed weights"):
        theory.measure(Problem(Graph(planted.graph), [], 3), planted.y_true)


def test_another_threshold_can_be_asked_for():
    data = make_planted(2, cluster_size=300, p=0.4, q=0.05, random_state=0)
    problem = graph_problem(data.graph)
    assert not theory.theorem(theory.measure(problem, data.y_true)).graph.promised
    assert theory.theorem(theory.measure(problem, data.y_true, threshold=0.15)).graph.promised
