"""The program certificate: never too much, and as much as the constructions can."""

from functools import cache

import numpy as np
import pytest

from convex_helpers import labelled, small_problem
from nodeproof import Problem
from nodeproof.atoms import Decomposition
from nodeproof.certificate.program.bound import Dual, prove
from nodeproof.certificate.program.certify import CONSTRUCTIONS, certify_program
from nodeproof.certificate.program.ideal import Flows, Ideal
from nodeproof.certificate.program.links import TypedFlows
from nodeproof.certificate.program.paper import multiplicative
from nodeproof.convex.program import Program
from nodeproof.datasets import make_planted
from nodeproof.errors import InputError
from nodeproof.graph import Graph
from nodeproof.solvers import CANO, BlockADMM, BlockCADO, ExactSDP, Status
from nodeproof.terms import Covariance, NodeData
from test_paper_slips import CLUSTER, balanced_problem

pytestmark = [pytest.mark.numeric, pytest.mark.usefixtures("one_thread")]

SEEDS = range(24)
BALANCED = 2 * CLUSTER


@cache
def random_problem(seed) -> Problem:
    """Return a small problem: links, labels or both, any threshold, with a sum of norms or not."""
    rng = np.random.default_rng(seed)
    n, K, t = int(rng.integers(4, 11)), int(rng.integers(2, 4)), float(rng.uniform(0.2, 0.8))
    sources = ("GL", "G", "L", "GL")[seed % 4]
    son = (0.0, 0.02, 0.1, 0.5)[rng.integers(4)] if "L" in sources else 0.0
    weights = float(rng.uniform(0.2, 2.0)), 1.0, float(rng.uniform(0.5, 5.0))
    null_model = "degree" if seed % 8 == 3 else "uniform"
    return small_problem(n, K, sources, weights, t, son, null_model, seed)


@cache
def exact(seed):
    pytest.importorskip("cvxpy")
    return ExactSDP(tol=1e-6).solve(random_problem(seed))


def labellings(seed):
    """Return the planted labelling, the one that the solver found, and a random one."""
    n, K = random_problem(seed).n_nodes, random_problem(seed).n_classes
    found = exact(seed).W.argmax(axis=1)
    return np.arange(n) % K, found, np.random.default_rng(seed).integers(0, K, n)


def size(value):
    return max(1.0, abs(value))


def graph_problem(cluster_size, p, q, t=0.5, seed=0):
    data = make_planted(p=p, q=q, cluster_size=cluster_size, random_state=seed)
    graph = Graph(data.graph, "uniform")
    return Problem(graph, [], 3, weights=(1.0, 0.0, 0.0), threshold=t), data.y_true


def failing(certificate):
    return {name for name, (holds, _) in certificate.conditions.items() if not holds}


# Never too much. --------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_no_construction_proves_more_than_is_true(seed):
    problem, found = random_problem(seed), exact(seed)
    weighted = problem.graph is not None and problem.graph.null_model == "degree"
    for z in labellings(seed):
        certificate = certify_program(problem, z)
        assert certificate.objective >= found.lower_bound
        if certificate.certified:
            near = pytest.approx(found.program_value, abs=2e-6 * size(found.program_value))
            assert certificate.objective == near
        ideal = Ideal(problem, z)
        bounds = {"best": certificate.lower_bound}
        for name, build in CONSTRUCTIONS.items():
            if not (
                (problem.graph is None or weighted) and name.endswith(("graph-only", "combined"))
            ):
                bounds[name] = prove(ideal, build(ideal).dual, 0).bound
        assert max(bounds.values()) <= found.program_value + 1e-9 * size(found.program_value)
        assert max(bounds.values()) < certificate.objective
        tried = ["node-only"] if problem.graph is None else ["multiplicative", "optimised"]
        least = max(bounds[name] for name in tried) - certificate.tolerance
        assert certificate.lower_bound >= least


def test_whatever_is_optimal_among_these_is_certified():
    certified, optimal = [], []
    for seed in SEEDS:
        certificate = certify_program(random_problem(seed), labellings(seed)[1])
        certified.append(certificate.certified)
        optimal.append(certificate.objective <= exact(seed).lower_bound + 1e-5)
    assert certified == optimal
    assert sum(optimal) == 8


@pytest.mark.parametrize("seed", range(0, 24, 2))
def test_any_dual_variables_give_a_bound(seed):
    problem, rng = random_problem(seed), np.random.default_rng(seed)
    n = problem.n_nodes
    for z in labellings(seed)[::2]:
        ideal = Ideal(problem, z)
        k, d = ideal.theta.shape
        best = multiplicative(ideal).dual
        for far in (0.01, 1.0):
            gamma = best.gamma + far * rng.normal(size=(n, n))
            flows = Flows(
                best.flows.between + 3.0 * far * rng.normal(size=(k, k, d)),
                best.flows.rates + 10.0 * far * rng.random(k),
                summed=bool(rng.random() < 0.5),
            )
            types = rng.integers(0, 3, size=n)
            typed = TypedFlows(ideal.between, types, 3.0 * far * rng.normal(size=(3, 3, d)))
            for each in (flows, typed):
                dual = Dual(best.nu + far * rng.normal(size=n), gamma + gamma.T, each)
                assert prove(ideal, dual, 0).bound <= exact(seed).program_value + 1e-9


def test_flows_between_types_are_cut_as_well():
    ideal = Ideal(small_problem(n=9, K=3, son=0.1, seed=1), np.arange(9) % 3)
    rng = np.random.default_rng(0)
    types, among = np.arange(9) % 4, 2.0 * rng.normal(size=(4, 4, 3))
    flows = TypedFlows(ideal.between, types, among)
    g = among[types][:, types]
    np.testing.assert_allclose(flows.forces(ideal), g.sum(axis=1))
    assert flows.longest(ideal) == pytest.approx(np.linalg.norm(g, axis=2).max())
    both = np.linalg.norm(g + g.swapaxes(0, 1), axis=2)
    assert flows.asymmetry(ideal) == pytest.approx(both.max())
    g = 0.5 * (g - g.swapaxes(0, 1))
    g /= np.maximum(np.linalg.norm(g, axis=2, keepdims=True), 1.0)
    np.testing.assert_allclose(flows.valid_forces(ideal), g.sum(axis=1), atol=1e-9)


def test_it_agrees_with_block_admm_and_the_exact_solver():
    converged = 0
    for seed in SEEDS:
        problem, sdp = random_problem(seed), exact(seed)
        start = np.eye(problem.n_classes)[labellings(seed)[1]]
        admm = BlockADMM(tol=9e-5, max_iter=300, random_state=0).solve(problem, start)
        for z in labellings(seed)[:2]:
            bound = certify_program(problem, z).lower_bound
            assert bound <= min(admm.program_value, sdp.program_value) + 1e-9
        if admm.status is Status.CONVERGED:
            converged += 1
            near = pytest.approx(sdp.program_value, abs=1e-4 * size(sdp.program_value))
            assert admm.lower_bound == near
    assert converged >= 20


@pytest.mark.parametrize(("sources", "son", "n"), [("GF", 0.0, 6), ("GFL", 0.05, 4), ("F", 0.1, 6)])
def test_over_a_spectral_box_no_point_undercuts_the_bound(sources, son, n):
    problem = small_problem(n, sources=sources, weights=(1.0, 1.0, 1.0), son=son, seed=3)
    best = BlockCADO(temperature=0.0, random_state=0).solve(problem).value
    if not son:
        best = min(best, CANO(max_iter=20, random_state=0).solve(problem).program_value)
    names = ["best", "published combined"] if "G" in sources else ["best", "node-only"]
    for name in names:
        certificate = certify_program(problem, np.arange(n) % 2, name)
        assert -np.inf < certificate.lower_bound <= best
        assert certificate.lower_bound < certificate.objective


def test_flows_are_made_antisymmetric_and_no_longer_than_one():
    problem = small_problem(n=9, K=3, son=0.1, seed=1)
    ideal = Ideal(problem, np.arange(9) % 3)
    rng = np.random.default_rng(0)
    for summed in (False, True):
        between = 2.0 * rng.normal(size=(3, 3, 3)) * ~np.eye(3, dtype=bool)[:, :, None]
        flows = Flows(between, np.array([0.01, 1.0, 50.0]), summed)
        g = np.zeros((9, 9, 3))
        for v in range(9):
            for u in range(9):
                i, j = v % 3, u % 3
                if i != j:
                    g[v, u] = flows.between[i, j]
                elif summed:
                    g[v, u] = flows.rates[i] * 3 * (ideal.means[i] - ideal.gradients[v])
                else:
                    g[v, u] = flows.rates[i] * (ideal.gradients[u] - ideal.gradients[v])
        assert flows.longest(ideal) == pytest.approx(np.linalg.norm(g, axis=2).max())
        asymmetry = np.linalg.norm(g + g.swapaxes(0, 1), axis=2)
        assert flows.asymmetry(ideal) == pytest.approx(asymmetry.max())
        np.testing.assert_allclose(flows.forces(ideal), g.sum(axis=1), atol=1e-9)
        g = 0.5 * (g - g.swapaxes(0, 1))
        lengths = np.linalg.norm(g, axis=2)
        cut = np.where(lengths > 1.0, 1.0 / np.maximum(lengths, 1e-300), 1.0)
        for i in range(3):  # within a class, all are cut alike
            block = np.ix_(np.arange(9) % 3 == i, np.arange(9) % 3 == i)
            cut[block] = cut[block].min()
        expected = (g * cut[:, :, None]).sum(axis=1)
        np.testing.assert_allclose(flows.valid_forces(ideal), expected, atol=1e-9)


def test_the_objective_is_that_of_the_program():
    for seed in (0, 1, 2, 6):
        problem = random_problem(seed)
        z = np.arange(problem.n_nodes) % problem.n_classes
        program, ideal = Program(problem), Ideal(problem, z)
        point = Decomposition(np.eye(problem.n_classes)[z], ideal.theta)
        assert program.violation(point) < 1e-9
        assert ideal.value == pytest.approx(program.value(point.L, point.models), rel=1e-12)
        assert ideal.value >= program.value(point.L, point.models) - 1e-13 * ideal.scale
        W = np.eye(problem.n_classes)[z]
        assert ideal.value == pytest.approx(problem.value(W, problem.fit_models(W)), rel=1e-7)


# Not idle. --------------------------------------------------------------------------------


def test_a_dense_graph_is_certified_by_the_paper_and_by_less():
    problem, z = graph_problem(50, 0.9, 0.1)
    for name in ("best", "graph-only", "combined", "multiplicative"):
        certificate = certify_program(problem, z, name)
        assert certificate.status == "certified"
        assert not failing(certificate)
        assert certificate.gap < 1e-10
    z[0] = 1 - z[0] % 2
    assert certify_program(problem, z).status != "certified"


@pytest.mark.parametrize(("p", "q", "t"), [(0.7, 0.1, 0.4), (0.6, 0.05, 0.3), (0.5, 0.05, 0.2)])
def test_sparser_graphs_are_certified_where_the_paper_fails(p, q, t):
    problem, z = graph_problem(50, p, q, t)
    for name in ("graph-only", "published graph-only"):
        certificate = certify_program(problem, z, name)
        assert certificate.status != "certified"
        assert failing(certificate)
    assert certify_program(problem, z).construction == "multiplicative"
    assert certify_program(problem, z).certified


def test_shrinking_what_is_across_only_helps():
    """The matrix at κ < 1 is a mean of that at κ = 1 and of its diagonal blocks."""
    gains = []
    for seed in range(6):
        problem, z = graph_problem(20, 0.6, 0.05, 0.4, seed)
        ideal = Ideal(problem, z)
        dual = multiplicative(ideal).dual
        a = -ideal.held
        a[ideal.members == 1] = 0.0
        assert a.min() >= 0.0
        S = ideal.members.T @ a
        np.fill_diagonal(S, 1.0)
        plain = np.where(ideal.together, 0.0, a[:, z] * a[:, z].T / S[z][:, z])
        assert dual.gamma.min() >= 0.0
        for gamma in (plain, dual.gamma):  # indicators of classes stay in the kernel
            left = ((ideal.program.B + gamma) @ ideal.members)[ideal.members == 0]
            np.testing.assert_allclose(left, 0.0, atol=1e-9)
        full = prove(ideal, Dual(dual.nu, plain, dual.flows), 0).bound
        gains.append(prove(ideal, dual, 0).bound - full)
    assert min(gains) >= -1e-9
    assert max(gains) > 0.1


def test_labels_of_all_nodes_are_certified_by_the_nodes_alone():
    problem = labelled(np.repeat([0, 1, 2], 6), K=3, son=0.1)
    certificate = certify_program(problem, np.repeat([0, 1, 2], 6))
    assert certificate.construction == "node-only"
    assert certificate.certified
    assert not failing(certificate)
    assert not certify_program(problem, np.repeat([0, 1, 1], 6)).certified


@pytest.mark.parametrize("graph_weight", [0.0, 1.0])
def test_the_limit_of_the_theorem_is_met_from_both_sides(graph_weight):
    for c, within in ((0.95, True), (1.05, False)):
        certificate = certify_program(balanced_problem(c, graph_weight)[0], BALANCED)
        assert certificate.certified == within
        nodes = certify_program(balanced_problem(c, 0.0)[0], BALANCED, "node-only")
        assert nodes.certified == within
        assert nodes.conditions["ρ ≤ γ nᵢ/n"][0] == within
        assert nodes.conditions["‖g‖ ≤ 1"][0] == within


@pytest.mark.parametrize("name", ["best", "combined"])
def test_links_and_labels_are_certified_together_with_a_sum_of_norms(name):
    data = make_planted(p=0.9, q=0.1, cluster_size=50, label_ratio=0.3, random_state=0)
    problem = labelled(data.y, data.graph.toarray(), K=3, weights=(1.0, 0.0, 2.0), son=0.001)
    assert certify_program(problem, data.y_true, name).certified


def test_flows_that_are_scaled_alike_leave_a_gap_where_optimised_ones_do_not():
    """Without links many labellings are optimal, so that these are written down, not searched."""
    optimal = {
        2: [0, 1, 1, 0, 1, 1, 0, 1, 1],
        10: [0, 1, 2, 0, 1, 1, 0, 1, 1],
        18: [0, 1, 1, 1, 1, 1, 1, 1, 1, 1],
        22: [0, 1, 0, 1, 1, 1, 0, 1, 1],
    }
    for seed, z in optimal.items():
        problem = random_problem(seed)
        assert certify_program(problem, z, "multiplicative").gap > 0.05
        certificate = certify_program(problem, z, "optimised")
        assert certificate.certified
        assert not failing(certificate)


@pytest.mark.parametrize("links", [False, True])
def test_covariances_are_certified_where_the_sum_of_norms_makes_them_one(links):
    """Otherwise they are inside Θ, where nodes of one class would rather differ."""
    z = np.repeat([0, 1], 4)
    X = np.random.default_rng(0).normal(size=(8, 2)) * [1.5, 0.5]
    known = [Covariance().bind(NodeData(2, X=X))]
    graph = Graph(np.kron(np.eye(2), np.ones((4, 4))) - np.eye(8), "uniform") if links else None
    for son, certified in ((5.0, True), (0.0, False)):
        problem = Problem(graph, known, 2, weights=(1.0, 1.0, 0.0), son=son)
        assert certify_program(problem, z).certified == certified


# The published formulas. ------------------------------------------------------------------


def test_the_limit_of_nodes_alone_is_printed_with_the_wrong_letter():
    problem, _ = balanced_problem(1.2, 0.0)
    conditions = certify_program(problem, BALANCED, "published node-only").conditions
    assert conditions["ρ ≤ β nᵢ/n"][0]
    assert not conditions["‖g‖ ≤ 1"][0]


def test_nodes_alone_lack_mu_and_have_their_indices_swapped():
    problem, _ = balanced_problem(0.9, 0.0)
    assert not failing(certify_program(problem, BALANCED, "node-only"))
    published = certify_program(problem, BALANCED, "published node-only")
    assert not published.certified
    assert {"(D − Z)_vv = ⟨n, θ − θ̂⟩", "g points apart"} <= failing(published)


def test_flows_of_both_together_are_too_long_and_F_is_too_large():
    problem, _ = balanced_problem(0.9)
    assert not failing(certify_program(problem, BALANCED, "combined"))
    published = certify_program(problem, BALANCED, "published combined")
    assert not published.certified
    assert {"‖g‖ ≤ 1", "g_vu = −g_uv", "g points apart", "⟨μn, θ − θ̂⟩ ≥ μF"} <= failing(published)
    assert published.conditions["‖g‖ ≤ 1"][1] < -4.0  # a sum over twelve nodes


def test_visibility_by_one_delta_leaves_no_room():
    problem, z = graph_problem(50, 0.88, 0.1)
    published = certify_program(problem, z, "published graph-only")
    assert published.conditions["ρᵢⱼ < ½ − δ"][0]
    assert "room for aᵢᵢ" in failing(published)
    assert certify_program(problem, z, "graph-only").certified


def test_the_published_constants_are_for_one_threshold():
    problem, z = graph_problem(50, 0.95, 0.1, t=0.4)
    assert certify_program(problem, z, "graph-only").certified
    published = certify_program(problem, z, "published graph-only")
    assert not published.certified
    assert "Z ≥ B across" in failing(published)


def test_the_inequality_of_step_4_is_reversed_and_its_opposite_suffices():
    problem, z = graph_problem(50, 0.95, 0.05)
    published = certify_program(problem, z, "published graph-only")
    assert failing(published) == {"a λ_max(Ã) ≤ λ_max(P⊥SP⊥)"}
    assert published.certified  # λ = a λ_max(Ã) is more than enough


# What people see. -------------------------------------------------------------------------


def test_it_says_what_is_proven_in_a_sentence():
    problem, z = graph_problem(50, 0.9, 0.1)
    assert certify_program(problem, z).explain().startswith("Proven: no point")
    near = certify_program(problem, np.where(np.arange(len(z)) == 0, 1, z))  # one node moved
    assert near.status.startswith("gap ≤ ")
    assert float(near.status.split()[2]) >= 100 * near.gap
    assert "at most" in near.explain()
    assert "nats" not in near.explain()  # weights are fixed
    weak = certify_program(problem, z, "node-only")
    assert weak.status == "no proof"
    assert weak.explain().startswith("Nothing useful")
    assert "Z ≤ B inside" in weak.explain()


def test_the_tolerance_decides():
    problem, z = graph_problem(50, 0.9, 0.1)
    strict = certify_program(problem, z, tolerance=0.0)
    assert not strict.certified  # rounding is allowed for
    loose = certify_program(problem, z, "node-only", tolerance=1e9)
    assert loose.certified
    assert loose.tolerance == 1e9
    left = loose.objective - loose.lower_bound
    for share, enough in ((0.99, False), (1.01, True)):
        near = certify_program(problem, z, "node-only", tolerance=share * left)
        assert near.certified == enough
    usual = certify_program(problem, z)
    assert usual.tolerance == pytest.approx(1e-9 * usual.scale)


def test_classes_without_nodes_and_single_nodes_do_not_matter():
    A = np.kron(np.eye(2), np.ones((3, 3))) - np.eye(6)
    problem = Problem(Graph(A, "uniform"), [], 5, weights=(1.0, 0.0, 0.0))
    assert certify_program(problem, [4, 4, 4, 1, 1, 1]).certified
    alone = Problem(Graph(np.zeros((3, 3)), "uniform"), [], 3, weights=(1.0, 0.0, 0.0))
    assert certify_program(alone, [0, 1, 2]).certified
    assert certify_program(labelled([1]), [0]).certified


def test_degrees_and_weights_take_the_multiplicative_construction():
    problem = small_problem(n=8, sources="G", null_model="degree", t=0.8, seed=5)
    assert certify_program(problem, np.arange(8) % 2).construction.startswith("multiplicative")
    with pytest.raises(InputError, match="without weights"):
        certify_program(problem, np.arange(8) % 2, "graph-only")


@pytest.mark.parametrize(
    ("labels", "options", "said"),
    [
        ([0, 1], {}, "4 whole numbers"),
        ([0.0, 1.0, 0.0, 1.0], {}, "whole numbers"),
        ([0, -1, 0, 1], {}, "label of node 1 is -1"),
        ([0, 1, 0, 2], {}, "label of node 3 is 2"),
        ([0, 1, 0, 1], {"construction": "mine"}, "'best' or one of 'node-only'"),
        ([0, 1, 0, 1], {"construction": "combined"}, "give a graph"),
        ([0, 1, 0, 1], {"tolerance": -1.0}, "tolerance"),
    ],
)
def test_errors_say_what_was_wrong(labels, options, said):
    with pytest.raises(InputError, match=said):
        certify_program(labelled([0, 1, 0, -1]), labels, **options)


def test_calibrated_weights_are_refused():
    with pytest.raises(InputError, match="fixed weights"):
        certify_program(Problem(Graph(np.eye(2)[::-1]), [], 2), [0, 1])
