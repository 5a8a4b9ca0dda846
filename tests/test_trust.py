"""How far the graph is trusted: a factor of all its evidence."""

import numpy as np
import pytest
from sklearn.base import clone

from nodeproof import NodeClassifier, Problem
from nodeproof.affinity import Affinity
from nodeproof.errors import InputError
from nodeproof.graph import Graph
from nodeproof.solvers import BlockCADO
from nodeproof.terms import Covariance, Labels, NodeData

K = 3

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def graph(planted):
    return Graph(planted.graph)


@pytest.fixture(scope="module")
def bound(planted):
    nodes = NodeData(K, planted.X, planted.y)
    return [Covariance().bind(nodes), Labels().bind(nodes)]


def rows(n=60, seed=0):
    return np.random.default_rng(seed).dirichlet(np.ones(K), size=n)


def affinities(graph, matrix):
    W = rows()
    return Affinity.estimate(graph, graph.link_mass(W, matrix), graph.pair_mass(W, matrix))


@pytest.mark.parametrize("matrix", [False, True], ids=["scalar", "matrix"])
@pytest.mark.parametrize("factor", [0.0, 0.25, 1.0, 2.0])
def test_a_multiple_of_an_affinity_multiplies_what_it_says_of_any_rows(graph, matrix, factor):
    affinity = affinities(graph, matrix)
    scaled = affinity.times(factor)
    assert scaled.ell.shape == affinity.ell.shape
    for seed in range(3):
        W = rows(seed=seed)
        masses = graph.link_mass(W, matrix), graph.pair_mass(W, matrix)
        expected = factor * affinity.energy(*masses)
        assert scaled.energy(*masses) == pytest.approx(expected, rel=1e-12, abs=1e-12)
    if factor:
        np.testing.assert_allclose(scaled.ell_t / scaled.ell, affinity.ell_t / affinity.ell)


@pytest.mark.parametrize("matrix", [False, True], ids=["scalar", "matrix"])
@pytest.mark.parametrize("trust", [0.0, 0.3, 1.0])
def test_the_free_energy_counts_the_graph_so_many_times(graph, bound, matrix, trust):
    W = rows()
    plain, without = Problem(graph, bound, K), Problem(None, bound, K)
    problem = Problem(graph, bound, K, trust=trust)
    models = problem.fit_models(W, matrix)
    np.testing.assert_allclose(
        models.affinity.ell, trust * plain.fit_models(W, matrix).affinity.ell
    )
    terms_alone = without.free_energy(W, without.fit_models(W))
    of_graph = plain.free_energy(W, plain.fit_models(W, matrix)) - terms_alone
    expected = terms_alone + trust * of_graph
    assert problem.free_energy(W, models) == pytest.approx(expected, rel=1e-9)
    assert problem.fit_and_judge(W, matrix=matrix)[1] == pytest.approx(expected, rel=1e-9)


def test_full_trust_is_the_default(graph, bound):
    given, default = (
        BlockCADO(random_state=0).solve(problem)
        for problem in (Problem(graph, bound, K, trust=1.0), Problem(graph, bound, K))
    )
    assert given.W.tobytes() == default.W.tobytes()
    assert given.value == default.value


@pytest.mark.parametrize("affinities", ["scalar", "matrix"])
def test_a_graph_that_is_not_trusted_is_as_good_as_none(graph, bound, affinities):
    solver = BlockCADO(random_state=0, affinities=affinities, tol=1e-6)
    ignored = solver.solve(Problem(graph, bound, K, trust=0.0), start="labels")
    absent = solver.solve(Problem(None, bound, K), start="labels")
    np.testing.assert_allclose(ignored.W, absent.W, atol=1e-3)


@pytest.mark.parametrize("affinities", ["scalar", "matrix"])
def test_less_trust_makes_links_say_less(graph, planted, affinities):
    labels = [Labels().bind(NodeData(K, y=planted.y))]
    hidden = planted.y < 0
    sure = [
        BlockCADO(random_state=0, affinities=affinities)
        .solve(Problem(graph, labels, K, trust=trust), start="labels")
        .W[hidden].max(axis=1).mean()
        for trust in (0.2, 1.0)
    ]  # fmt: skip
    assert sure[0] < sure[1] - 0.05


# As users say it. -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def fits(planted):
    """Return a function that fits with these weights, each only once."""
    known = {}

    def fit(weights):
        if repr(weights) not in known:
            clf = NodeClassifier(weights=weights, terms=[Covariance(), Labels()], random_state=0)
            known[repr(weights)] = clf.fit(planted.X, planted.y, graph=planted.graph)
        return known[repr(weights)]

    return fit


@pytest.mark.parametrize("weights", [1.0, 1, np.float32(1.0), np.int64(1)], ids=repr)
def test_a_weight_of_one_is_the_likelihood(fits, weights):
    assert fits(weights).proba_.tobytes() == fits("calibrated").proba_.tobytes()
    assert fits(weights).choices_["trust"] == {"value": 1.0, "why": "given"}


def test_a_number_is_how_far_links_are_trusted(fits):
    assert fits(0.25).choices_["trust"] == {"value": 0.25, "why": "given"}
    shares = [fits(weights).sources_["graph"] for weights in (0.0, 0.25, 1.0)]
    assert shares[0] == 0.0
    assert shares[0] < shares[1] < shares[2]


def test_links_that_are_not_trusted_do_not_matter(planted):
    clf = NodeClassifier(weights=0.0, terms=[Covariance(), Labels()], random_state=0)
    order = np.random.default_rng(0).permutation(60)
    shuffled = planted.graph[order][:, order]
    one = clone(clf).fit(planted.X, planted.y, graph=planted.graph)
    other = clone(clf).fit(planted.X, planted.y, graph=shuffled)
    assert (one.labels_ == other.labels_).mean() > 0.98


@pytest.mark.parametrize("weights", [-0.1, np.nan, np.inf, True, "none", (1.0, 2.0)], ids=repr)
def test_weights_that_say_nothing_are_refused(planted, weights):
    with pytest.raises(InputError, match="weights must be"):
        NodeClassifier(weights=weights).fit(planted.X, planted.y, graph=planted.graph)


def test_the_published_solver_takes_no_trust(planted):
    with pytest.raises(InputError, match="needs fixed weights"):
        NodeClassifier(weights=0.5, solver="cado").fit(planted.X, planted.y, graph=planted.graph)
