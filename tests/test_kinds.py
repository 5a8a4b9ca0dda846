"""Kinds of links, each with its own affinity, links with a direction, and links with a sign."""

import dataclasses
import itertools
import warnings
from types import SimpleNamespace

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

import nodeproof
from nodeproof import NodeClassifier, Problem, kinds, terms
from nodeproof.auto import sampling
from nodeproof.certificate import audit
from nodeproof.certificate.labelling.certify import certify_instance
from nodeproof.certificate.labelling.instance import Instance
from nodeproof.directed import DirectedGraph
from nodeproof.distributed import DaskEngine
from nodeproof.errors import InputError
from nodeproof.fit_graph import read_graph
from nodeproof.graph import Graph
from nodeproof.inputs.unpacking import unpack
from nodeproof.solvers import CADO, BlockCADO, starts
from nodeproof.solvers.beliefs import marginals
from nodeproof.solvers.kind_starts import informative, with_better_names
from nodeproof.tables.convert import convert

pytestmark = pytest.mark.numeric

N, K = 180, 3


def draw(z, P, seed, directed=False):
    """Return links between nodes of classes z with the densities P."""
    found = np.random.default_rng(seed).random((len(z),) * 2) < np.asarray(P)[np.ix_(z, z)]
    np.fill_diagonal(found, False)
    if not directed:
        found = np.triu(found)
        found |= found.T
    return sp.csr_array(found.astype(np.float32))


def inside(p, q):
    return np.where(np.eye(K) > 0, p, q)


#: links i → i + 1 are denser; both directions together are as dense as inside
CYCLE = np.full((K, K), 0.15) + 0.12 * (np.roll(np.eye(K), 1, axis=1) - np.roll(np.eye(K), -1, 1))
#: one tells class 0 from the others, the other class 2
FIRST = np.array([[0.3, 0.05, 0.05], [0.05, 0.3, 0.3], [0.05, 0.3, 0.3]])
SECOND = FIRST[::-1, ::-1]


@pytest.fixture(scope="module")
def truth():
    return np.random.default_rng(0).permutation(np.repeat(np.arange(K), N // K))


@pytest.fixture(scope="module")
def y(truth):
    return np.where(np.random.default_rng(1).random(N) < 0.25, truth, -1)


def accuracy(clf, truth, y):
    return float((clf.labels_ == truth)[y < 0].mean())


def fit(y, graph, X=None, **settings):
    return NodeClassifier(random_state=0, **settings).fit(X, y, graph=graph)


# The objective. -------------------------------------------------------------------------


def memberships(seed=0):
    return np.random.default_rng(seed).dirichlet(np.ones(K), N).astype(np.float32)


def test_the_parts_of_several_kinds_add_up(truth):
    parts = [Graph(draw(truth, inside(0.3, 0.1), seed)) for seed in (1, 2)]
    W = (0.8 * np.eye(K)[truth] + 0.2 * memberships()).astype(np.float32)
    for weights in ("calibrated", (1.0, 0.0, 0.0)):
        alone = [Problem(part, [], K, weights) for part in parts]
        both = Problem(kinds.together(parts), [], K, weights)
        for matrix in (False, True):
            models = both.fit_models(W, matrix)
            apart = [problem.fit_models(W, matrix) for problem in alone]
            links = [
                p.free_energy(W, m) - p.row_energy(W, m) for p, m in zip(alone, apart, strict=True)
            ]
            total = both.free_energy(W, models) - both.row_energy(W, models)
            assert total == pytest.approx(sum(links), rel=1e-9)
            if weights != "calibrated":
                break
    assert both.value(W, models) == pytest.approx(
        sum(p.value(W, m) for p, m in zip(alone, apart, strict=True))
    )


def test_links_both_ways_say_what_links_without_a_direction_say(truth):
    A = draw(truth, inside(0.3, 0.1), 3)
    one, both = Graph(A), DirectedGraph(sp.csr_array(A), Graph(A))
    W = memberships()
    found = kinds.Affinity.estimate(both, both.link_mass(W), both.pair_mass(W))
    expected = kinds.Affinity.estimate(one, one.link_mass(W, True), one.pair_mass(W, True))
    assert found.ell == pytest.approx(expected.ell, abs=1e-5)
    assert found.ell_t == pytest.approx(expected.ell_t, abs=1e-5)


@pytest.mark.parametrize("null_model", ["uniform", "degree"])
def test_masses_of_directed_links_are_those_of_their_definition(truth, null_model):
    A = draw(truth, CYCLE, 4, directed=True)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, A.nnz)
    A = sp.csr_array((weights, A.indices, A.indptr), shape=A.shape)
    graph = DirectedGraph(A, Graph(A.maximum(A.T), null_model))
    W = memberships().astype(np.float64)
    eta, far = graph.sides[0].eta, graph.sides[0].far
    pairs = np.outer(eta, far)
    np.fill_diagonal(pairs, 0.0)
    assert graph.link_mass(W) == pytest.approx(2.0 * W.T @ A @ W)
    assert graph.pair_mass(W) == pytest.approx(2.0 * W.T @ pairs @ W)
    if null_model == "degree":
        assert pairs.sum() == pytest.approx(A.sum(), rel=0.05)


def test_a_sweep_takes_each_node_to_what_its_links_say(truth, y):
    A, B = draw(truth, inside(0.3, 0.1), 5), draw(truth, CYCLE, 6, directed=True)
    one, two = Graph(A), DirectedGraph(B, Graph(B.maximum(B.T)))
    one.name, two.name = "one", "two"
    graph = kinds.together([one, two])
    label = terms.Labels().bind(terms.NodeData(K, y=y, graph=graph))
    problem = Problem(graph, [label], K)
    result = BlockCADO(random_state=0, tol=1e-7, max_iter=2000).solve(problem, "labels")
    W, (ell, other), (ell_t, other_t) = (
        np.asarray(result.W, np.float64), result.models.affinity.ell, result.models.affinity.ell_t,
    )  # fmt: skip
    ones = np.ones((N, N)) - np.eye(N)
    scores = A @ W @ ell.T - ones @ W @ ell_t.T
    scores += B @ W @ other.T - ones @ W @ other_t.T + B.T @ W @ other - ones @ W @ other_t
    scores += result.models.log_prior - problem.costs(result.models, 0, N)
    expected = np.exp(scores - scores.max(axis=1, keepdims=True))
    expected /= expected.sum(axis=1, keepdims=True)
    assert np.abs(W - expected).max() < 1e-3


def test_beliefs_of_one_kind_given_twice_are_those_of_doubled_links(truth, y):
    A = draw(truth, inside(0.2, 0.1), 7)
    one, both = Graph(A), kinds.together([Graph(A), Graph(A)])
    label = terms.Labels().bind(terms.NodeData(K, y=y, graph=one))
    single = Problem(one, [label], K)
    result = BlockCADO(random_state=0).solve(single, "labels")
    half = result.models.affinity.times(0.5)
    models = result.models.__class__(
        kinds.stacked([half, half], K), result.models.terms, result.models.log_prior
    )
    found = marginals(
        Problem(both, [label], K), result.__class__(**{**vars(result), "models": models})
    )
    assert found is not None
    assert found.sum(axis=1) == pytest.approx(1.0, abs=1e-5)
    assert ((found.argmax(axis=1) == result.W.argmax(axis=1)).mean()) > 0.95


# Fits. ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def two(truth):
    return {"told": draw(truth, inside(0.3, 0.1), 8), "noise": draw(truth, inside(0.15, 0.15), 9)}


@pytest.fixture(scope="module")
def two_fitted(two, y):
    return fit(y, two)


def test_a_random_kind_costs_nothing_and_weighs_little(two, two_fitted, truth, y):
    alone = fit(y, two["told"])
    assert accuracy(two_fitted, truth, y) >= accuracy(alone, truth, y) - 0.03
    assert two_fitted.sources_["told"] > 0.5
    assert two_fitted.sources_["noise"] < 0.1
    assert set(two_fitted.choices_["kinds"]["value"]) == {"told", "noise"}


def test_complementary_kinds_find_what_neither_does_alone(truth, y):
    A, B = draw(truth, FIRST, 10), draw(truth, SECOND, 11)
    assert accuracy(fit(y, A), truth, y) < 0.8
    both = fit(y, {"first": A, "second": B})
    assert accuracy(both, truth, y) > 0.93
    assert min(both.sources_["first"], both.sources_["second"]) > 0.2


@pytest.fixture(scope="module")
def cycle(truth):
    return draw(truth, CYCLE, 12, directed=True)


@pytest.fixture(scope="module")
def cycle_fitted(cycle, y):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return fit(y, cycle)


def test_direction_is_kept_where_it_pays(cycle, cycle_fitted, truth, y):
    assert accuracy(cycle_fitted, truth, y) > 0.97
    assert cycle_fitted.choices_["direction"]["value"] is True
    flat = fit(y, sp.csr_array(cycle.maximum(cycle.T)))
    assert accuracy(flat, truth, y) < 0.7
    assert "direction" not in flat.choices_


def test_direction_is_left_out_with_a_warning_where_it_does_not_pay(two, truth, y):
    links = sp.triu(two["told"], 1).tocoo()
    back = np.random.default_rng(0).random(links.nnz) < 0.5
    ends = np.where(back, links.col, links.row), np.where(back, links.row, links.col)
    one_way = sp.csr_array((links.data, ends), shape=(N, N))
    with pytest.warns(UserWarning, match="the graph is directed; it is made symmetric"):
        clf = fit(y, one_way)
    assert clf.choices_["direction"]["value"] is False
    assert accuracy(clf, truth, y) >= accuracy(fit(y, two["told"]), truth, y) - 0.03


def test_links_of_negative_weight_repel(truth, y):
    good, bad = draw(truth, inside(0.2, 0.1), 13), draw(truth, inside(0.05, 0.2), 14)
    signed = sp.csr_array(good - bad)
    signed.eliminate_zeros()
    clf = fit(y, signed)
    assert list(clf.choices_["kinds"]["value"]) == ["links", "negative links"]
    assert "absolute weights" in clf.choices_["kinds"]["why"]
    assert accuracy(clf, truth, y) > max(0.95, accuracy(fit(y, good), truth, y))
    if clf.models_.affinity.ell.ndim == 3:
        assert clf.models_.affinity.ell[1].flat[0] < 0
    assert clf.certify(time_budget=0.0).status == "not applicable"


def test_the_order_of_rows_does_not_decide(two, two_fitted, cycle, cycle_fitted, y):
    order = np.random.default_rng(3).permutation(N)
    moved = {name: sp.csr_array(A[order][:, order]) for name, A in two.items()}
    assert np.array_equal(fit(y[order], moved).proba_, two_fitted.proba_[order])
    turned = fit(y[order], sp.csr_array(cycle[order][:, order]))
    assert np.array_equal(turned.proba_, cycle_fitted.proba_[order])


def test_threads_do_not_decide(two, two_fitted, y):
    assert np.array_equal(fit(y, two, n_jobs=1).proba_, two_fitted.proba_)


def test_features_are_smoothed_over_each_kind(two, truth, y):
    X = np.eye(K)[truth] + np.random.default_rng(4).normal(size=(N, K))
    clf = fit(y, two, X, experts=["smoothed features"])
    asked = [row["expert"] for row in clf.choices_["experts"]["value"]]
    assert {"smoothed features (told)", "smoothed features (noise)"} <= set(asked)


# New nodes, and files. ------------------------------------------------------------------


def saved(clf, tmp_path):
    clf.save(tmp_path / "model.npz")
    return NodeClassifier.load(tmp_path / "model.npz")


def test_new_nodes_come_with_links_of_each_kind(two, two_fitted, tmp_path):
    links = {name: sp.csr_array(A[:20]) for name, A in two.items()}
    found = two_fitted.predict(graph=links)
    assert (found == two_fitted.labels_[:20]).mean() > 0.8
    loaded = saved(two_fitted, tmp_path)
    assert np.array_equal(loaded.predict_proba(graph=links), two_fitted.predict_proba(graph=links))
    assert loaded.sources_ == two_fitted.sources_
    pairs = {"told": np.stack(links["told"].nonzero(), axis=1)}
    assert (two_fitted.predict(graph=pairs) == found[: pairs["told"][:, 0].max() + 1]).mean() > 0.8
    with pytest.raises(InputError, match="there is no 'other' among"):
        two_fitted.predict(graph={"other": links["told"]})
    with pytest.raises(InputError, match="give a dict with the links of each kind"):
        two_fitted.predict(graph=links["told"])


def test_new_nodes_come_with_links_of_both_directions(cycle, cycle_fitted, tmp_path):
    links = {"out": sp.csr_array(cycle[:20]), "in": sp.csr_array(cycle.T[:20])}
    expected = cycle_fitted.labels_[:20]
    assert (cycle_fitted.predict(graph=links) == expected).mean() > 0.9
    assert (cycle_fitted.predict(graph=links["out"]) == expected).mean() > 0.6
    loaded = saved(cycle_fitted, tmp_path)
    assert np.array_equal(loaded.predict(graph=links), cycle_fitted.predict(graph=links))
    with pytest.raises(InputError, match=r"{'out': ..., 'in': ...}"):
        cycle_fitted.predict(graph={"up": links["out"]})


def test_pools_of_kinds_survive_a_file(two, truth, y, tmp_path):
    experts = ["propagation", "links", "block model"]
    clf = fit(y, two, experts=experts)
    links = {name: sp.csr_array(A[:9]) for name, A in two.items()}
    loaded = saved(clf, tmp_path)
    assert np.array_equal(loaded.predict_proba(graph=links), clf.predict_proba(graph=links))
    assert loaded.report(tmp_path / "report.html") is None or (tmp_path / "report.html").exists()


@pytest.mark.filterwarnings("ignore:the graph is directed")
def test_experts_of_directions_survive_a_file(cycle, truth, y, tmp_path):
    clf = fit(y, cycle, experts=["links", "propagation"])
    weights = {row["expert"]: row["weight"] for row in clf.choices_["experts"]["value"]}
    assert weights["out-links"] + weights["in-links"] > 0.5
    links = {"out": sp.csr_array(cycle[:20]), "in": sp.csr_array(cycle.T[:20])}
    assert (clf.predict(graph=links) == clf.labels_[:20]).mean() > 0.8
    loaded = saved(clf, tmp_path)
    assert np.array_equal(loaded.predict_proba(graph=links), clf.predict_proba(graph=links))


# What takes one kind says so. -----------------------------------------------------------


def test_what_takes_one_kind_of_links_says_so(two, y):
    for solver in ("cado", "admm", CADO()):
        with pytest.raises(InputError, match="takes one kind of links"):
            fit(y, two, solver=solver)
    problem = Problem(kinds.together([Graph(A) for A in two.values()]), [], K, (1.0, 1.0, 1.0))
    with pytest.raises(InputError, match="takes one kind of links"):
        CADO().solve(problem)
    with pytest.warns(UserWarning, match="counted by all links together"):
        NodeClassifier(random_state=0, max_iter=5).fit(graph=two)


def test_a_change_in_place_of_one_kind_is_noticed(two, y):
    links = {name: A.copy() for name, A in two.items()}
    clf = fit(y, links, experts=["propagation"])
    links["noise"].data[0] = 2.0
    with pytest.raises(InputError, match=r"graph\['noise'\] was changed in place"):
        clf.certify()


# Inputs. --------------------------------------------------------------------------------

LINKS = [("a", "b", "x"), ("b", "c", "y"), ("c", "a", "x"), ("d", "a", "y")]


def read(graph, X=None, y=None):
    return read_graph(unpack(X, y, graph).graph, "auto", None)


def table(**more):
    source, target, kind = zip(*LINKS, strict=True)
    return {"source": list(source), "target": list(target), "type": list(kind)} | more


def multigraph(kind, attribute):
    graph = kind()
    for source, target, name in LINKS:
        if attribute:
            graph.add_edge(source, target, type=name)
        else:
            graph.add_edge(source, target, key=name)
    return graph


def of_tables():
    return {
        name: [(u, v) for u, v, kind in LINKS if kind == name] for name in ("x", "y")
    }  # fmt: skip


@pytest.mark.parametrize(
    "graph",
    [
        table(),
        of_tables(),
        multigraph(nx.MultiGraph, attribute=True),
        multigraph(nx.MultiGraph, attribute=False),
    ],
)
def test_kinds_come_in_many_forms(graph):
    found = read(graph)
    assert [kind.name for kind in found.kinds] == ["x", "y"]
    assert [kind.n_entries // 2 for kind in found.kinds] == [2, 2]
    assert found.n_nodes == 4
    assert sorted(found.degrees.astype(int).tolist()) == [1, 2, 2, 3]


def test_a_dict_of_one_kind_is_the_graph_itself(two):
    assert read({"told": two["told"]}).kinds == ()


def test_a_dict_of_columns_is_one_table():
    assert read({"source": ["a"], "target": ["b"]}).kinds == ()


def test_directed_links_are_kept_as_they_are():
    arcs = [(0, 1), (1, 2), (2, 0), (0, 2)]
    graphs = [nx.DiGraph(arcs), nodeproof.Directed(arcs)]
    graphs.append(nodeproof.Directed({"source": [u for u, _ in arcs], "target": [1, 2, 0, 2]}))
    for graph in graphs:
        (kind,) = read(graph).kinds
        assert kind.directed
        assert kind.links.toarray().tolist() == [[0, 1, 1], [0, 0, 1], [1, 0, 0]]
    assert [kind.directed for kind in read(multigraph(nx.MultiDiGraph, True)).kinds] == [True] * 2


def test_links_listed_once_have_no_direction(two):
    with pytest.warns(UserWarning, match="as where each is listed once"):
        assert read(sp.triu(two["told"], format="csr")).kinds == ()
    (kind,) = read(nodeproof.Directed(sp.triu(two["told"], format="csr"))).kinds
    assert kind.directed


@pytest.mark.parametrize(
    ("graph", "problem"),
    [
        ({"": np.eye(3)}, "kinds of links are named by short text"),
        ({1: np.eye(3), 2: np.eye(3)}, "kinds of links are named by short text"),
        ({"labels": np.eye(3), "b": np.eye(3)}, "cannot be called 'labels'"),
        ({"a": np.eye(3), "b": np.eye(4)}, "the same nodes|3|4"),
        ({"a": nx.path_graph(["u", "v"]), "b": nx.path_graph(["u", "w"])}, "names the node"),
    ],
)
def test_kinds_that_do_not_fit_are_refused(graph, problem):
    with pytest.raises(InputError, match=problem):
        NodeClassifier(2).fit(graph=graph)


# Certificates. --------------------------------------------------------------------------


def tiny(rng):
    """Return a tiny problem with several null models, by way of kinds of links."""
    n, k = int(rng.integers(3, 7)), int(rng.integers(2, 4))
    A = np.triu(rng.random((n, n)) < 0.6, 1) * rng.uniform(0.1, 1.5, (n, n))
    shape = (n, int(rng.integers(2, 4)))
    eta = rng.uniform(0, 0.8, shape) * (rng.random(shape) < 0.9)
    costs = rng.normal(size=(n, k)) * rng.choice([0.0, 0.3, 1.0])
    return Instance(sp.csr_array(A + A.T), eta, 1.0, 1.0, costs)


def all_labellings(instance):
    n, k = instance.costs.shape
    found = np.array(list(itertools.product(range(k), repeat=n)))
    B = instance.adjacency.toarray() - instance.eta @ instance.eta.T
    np.fill_diagonal(B, 0.0)
    same = found[:, :, None] == found[:, None, :]
    paid = instance.costs[np.arange(n), found].sum(axis=1)
    return found, paid - (B * same).sum(axis=(1, 2))


@pytest.mark.parametrize("enumerated", [200_000, 1])
def test_certificates_of_several_kinds_agree_with_enumeration(enumerated, monkeypatch):
    monkeypatch.setattr(audit, "ENUMERATED", enumerated)
    rng, certified = np.random.default_rng(enumerated), 0
    for _ in range(100):
        instance = tiny(rng)
        z, values = all_labellings(instance)
        start = z[rng.integers(len(z))]
        proof = certify_instance(instance, start, time_budget=0.02, max_iter=5)
        assert proof.lower_bound <= values.min() + 1e-9
        assert proof.objective >= values.min() - 1e-9
        assert proof.verify()
        if proof.status == "certified":
            certified += 1
            assert proof.objective <= values.min() + 1e-6
        if not proof.renaming:
            best = z[values <= values.min() + 1e-12]
            assert proof.possible[np.arange(z.shape[1]), best].all()
    assert certified > 30


def test_the_value_of_kinds_is_their_objective_but_for_a_constant(truth, y):
    parts = [Graph(draw(truth, inside(p, 0.1), s), m) for p, s, m in
             ((0.3, 15, "uniform"), (0.2, 16, "degree"))]  # fmt: skip
    graph = kinds.together(parts)
    label = terms.Labels().bind(terms.NodeData(K, y=y, graph=graph))
    problem = Problem(graph, [label], K)
    models = problem.fit_models(np.eye(K)[truth])
    instance = Instance.of(problem, models)
    rng = np.random.default_rng(0)
    offsets = []
    for _ in range(4):
        z = rng.integers(K, size=N)
        offsets.append(problem.free_energy(np.eye(K)[z], models) - instance.value(z))
    assert np.ptp(offsets) < 1e-6 * abs(offsets[0])


def test_a_fit_of_two_kinds_is_certified(truth, y, tmp_path):
    graph = {"a": draw(truth, inside(0.4, 0.05), 17), "b": draw(truth, inside(0.3, 0.1), 18)}
    clf = fit(y, graph)
    proof = clf.certify(time_budget=20.0)
    assert proof.status == "certified"
    assert proof.verify(clf)
    proof.save(tmp_path / "proof.npz")
    loaded = saved(clf, tmp_path)
    assert nodeproof.certificate.Certificate.load(tmp_path / "proof.npz").verify(loaded)


def test_links_with_a_direction_have_no_certificate(cycle_fitted):
    proof = cycle_fitted.certify(time_budget=0.0)
    assert proof.status == "not applicable"
    assert "direction" in proof.reason


# Starts. --------------------------------------------------------------------------------


def problem_of_two(truth, y, p=0.22):
    """Return a problem with two kinds of links: one tells classes apart, one is random."""
    graph = {
        "told": draw(truth, inside(p, 0.1), 0),
        "noise": draw(truth, inside(0.15, 0.15), 9),
    }
    nodes = terms.NodeData(K, None, y)
    return Problem(
        read_graph(unpack(None, y, graph).graph, "auto", N),
        [terms.Labels(1.0 - 1e-9, 1e4).bind(nodes)],
        K,
    )


def test_classes_that_few_labels_named_wrongly_get_their_names(truth):
    y = np.full(N, -1)
    known = np.concatenate([np.flatnonzero(truth == k)[:2] for k in range(K)])
    y[known] = truth[known]
    problem = problem_of_two(truth, y)
    wrong = np.eye(K, dtype=np.float32)[(truth + 1) % K]
    wrong[known] = np.eye(K)[truth[known]]  # as if the labels agreed with the names
    solver = BlockCADO(hold=0, random_state=0)
    stuck = solver.solve(problem, wrong)
    assert (stuck.W.argmax(axis=1) == truth).mean() < 0.2
    better = with_better_names(solver, problem, stuck)
    assert (better.W.argmax(axis=1) == truth).mean() > 0.8
    assert better.value < stuck.value
    again = with_better_names(solver, problem, better)
    assert again is better


def test_a_start_that_tells_nodes_apart_comes_before_one_that_does_not(truth, y):
    problem = problem_of_two(truth, y)
    telling = BlockCADO(random_state=0).solve(problem, "labels")
    even = np.exp(telling.models.log_prior)[None].repeat(N, 0).astype(np.float32)
    empty = dataclasses.replace(telling, W=even, value=telling.value - 100.0)
    assert informative(problem, [empty, telling]) == [telling]
    assert informative(problem, [empty]) == [empty]
    alone = Problem(problem.graph.view("together"), problem.terms, K)
    assert informative(alone, [empty, telling]) == [empty, telling]


def test_classes_that_stand_out_in_no_kind_may_do_so_in_all_links(truth, y, monkeypatch):
    problem = problem_of_two(truth, y, p=0.4)
    monkeypatch.setattr(starts, "_vectors_of_kinds", lambda *_: np.zeros((0, 0)))
    W = starts.spectral(problem, np.random.default_rng(0))
    found = W.argmax(axis=1)
    best = max(
        (np.array(names)[found] == truth).mean() for names in itertools.permutations(range(K))
    )
    assert best > 0.6


def test_few_labels_and_kinds_that_say_nothing_do_not_lead_astray():
    z = np.random.default_rng(3).permutation(np.repeat(np.arange(2), 200))
    told = {"told": draw(z, np.where(np.eye(2) > 0, 0.03, 0.09), 1)}
    noise = {f"noise {k}": draw(z, np.full((2, 2), 0.1), 10 + k) for k in range(4)}
    y = np.full(len(z), -1)
    for k in range(2):
        y[np.flatnonzero(z == k)[:5]] = k
    clf = fit(y, told | noise)
    assert accuracy(clf, z, y) > 0.9
    assert clf.sources_["told"] > 0.5


# Large graphs, folders and clusters. ------------------------------------------------------


def test_kinds_stay_apart_in_the_sample_of_a_large_graph(truth, y, monkeypatch):
    monkeypatch.setattr(sampling, "MANY_ENTRIES", 100)
    graph = {
        "told": draw(truth, inside(0.3, 0.1), 0),
        "noise": draw(truth, inside(0.15, 0.15), 9),
        "led": draw(truth, CYCLE, 3, directed=True),
    }
    nodes = terms.NodeData(K, None, y, read_graph(unpack(None, y, graph).graph, "auto", N))
    found = sampling.sample_to_judge(nodes, None).nodes.graph
    assert [kind.name for kind in found.kinds] == ["told", "noise", "led"]
    assert [kind.directed for kind in found.kinds] == [False, False, True]
    assert all(kind.n_entries for kind in found.kinds)
    clf = fit(y, {"told": graph["told"], "noise": graph["noise"]})
    assert "propagation (told)" in {row["expert"] for row in clf.choices_["experts"]["value"]}
    assert accuracy(clf, truth, y) > 0.8


def test_a_cluster_takes_one_kind_of_links(truth, y):
    graph = {"told": draw(truth, inside(0.3, 0.1), 0), "noise": draw(truth, inside(0.15, 0.15), 9)}
    engine = DaskEngine(SimpleNamespace())
    with pytest.raises(InputError, match="a cluster takes one kind of links"):
        fit(y, graph, engine=engine)


def test_graph_folders_are_kinds_of_links(truth, y, tmp_path):
    graph = {"told": draw(truth, inside(0.4, 0.1), 0), "noise": draw(truth, inside(0.15, 0.15), 9)}
    for kind, A in graph.items():
        links = "\n".join(f"{u},{v}" for u, v in np.argwhere(np.triu(A.toarray())))
        (tmp_path / f"{kind}.csv").write_text(f"source,target\n{links}")
        convert(tmp_path / f"{kind}.csv", tmp_path / kind)
    clf = fit(y, {kind: str(tmp_path / kind) for kind in graph})
    np.testing.assert_allclose(clf.proba_, fit(y, graph).proba_, atol=0.02)


def test_the_report_tells_kinds_apart(truth, y, tmp_path):
    graph = {"told": draw(truth, inside(0.3, 0.1), 0), "by post": draw(truth, inside(0.25, 0.1), 9)}
    page = fit(y, graph).report(tmp_path / "report.html").read_text()
    assert "told: " in page
    assert "null model uniform" in page
    assert "{&#39;links&#39;" not in page
    assert 'class="source-kind" style="--at:0;width' in page
    assert 'class="source-kind" style="--at:1;width' in page
