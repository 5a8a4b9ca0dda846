"""Experts against references: what they say of held-out nodes, and how they come by it."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import log_softmax

from citation_helpers import draw_citations
from nodeproof.auto.experts import penalty
from nodeproof.auto.experts.propagation import _RESTARTS, _STEPS
from nodeproof.auto.held_out import hold_out
from nodeproof.auto.pooling import Judge
from nodeproof.datasets import make_planted
from nodeproof.experts import BlockModel, Features, Links, OwnFeatures, Propagation
from nodeproof.graph import Graph
from nodeproof.smoothing import Smoothing
from nodeproof.solvers import BlockCADO
from nodeproof.terms import Covariance, NodeData
from nodeproof.terms.logistic import fit_logistic
from pool_helpers import make_uneven

K = 3

pytestmark = [pytest.mark.numeric, pytest.mark.usefixtures("one_thread")]


def nodes_of(n=150, labelled=0.4, seed=0, weighted=False):
    """Return nodes with features, links and labels that tell their class, but not surely."""
    data = make_uneven(n, K, labelled, seed)
    graph = data.graph
    if weighted:
        rng = np.random.default_rng(seed)
        upper = sp.triu(graph).tocsr()
        upper.data = rng.uniform(0.2, 5.0, upper.nnz)
        graph = sp.csr_array(upper + upper.T)
    return NodeData(K, data.X, data.y, Graph(graph))


def swap_labels_of(held, fold):
    """Return held-out labels with those of a fold changed, in every fit that sees them."""
    here = held.folds == fold
    other = (held.codes + 1) % K
    seen = [y.copy() for y in held.y]
    for y in seen:
        changed = held.nodes[here & (y[held.nodes] >= 0)]
        y[changed] = (y[changed] + 1) % K
    return replace(held, y=seen, codes=np.where(here, other, held.codes))


# Propagation. ---------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("seed", range(3))
def test_walks_are_those_of_linear_algebra(random_graph, weighted, seed):
    """They end after some steps: what is left of the mass by then is missing, and no more."""
    n = 25
    graph = Graph(random_graph(n, density=0.15, weighted=weighted, seed=seed))
    expert = Propagation().bind(NodeData(K, graph=graph))
    sources = np.random.default_rng(seed).random((n, K)).astype(np.float32)
    A = graph.adjacency.toarray().astype(np.float64)
    degrees = A.sum(axis=0)
    step = A / np.where(degrees > 0, degrees, 1.0)
    for restart, found in zip(_RESTARTS, expert._walk(sources, _RESTARTS), strict=True):
        exact = restart * np.linalg.solve(np.eye(n) - (1.0 - restart) * step, sources)
        missing = exact - found
        left = (1.0 - restart) ** (_STEPS + 1) * sources.sum(axis=0)
        assert (missing.sum(axis=0) <= left + 1e-4).all()
        assert (missing >= -1e-5).all()


def test_walks_do_not_depend_on_the_unit_of_the_weights():
    one = nodes_of(weighted=True)
    other = replace(one, graph=Graph(1000.0 * one.graph.adjacency))
    here, there = (Propagation().bind(nodes).learn(one.y, 0.1) for nodes in (one, other))
    np.testing.assert_allclose(here.mass, there.mass, rtol=1e-4, atol=1e-9)


def test_heavier_links_pass_on_more():
    """A node between two labels takes the class of the heavier link."""
    for left, right in ((5.0, 1.0), (1.0, 5.0)):
        links = np.array([[0.0, left, 0.0], [left, 0.0, right], [0.0, right, 0.0]])
        expert = Propagation().bind(NodeData(2, graph=Graph(links)))
        found = expert.learn(np.array([0, -1, 1]), 0.1)
        # Each end passes on everything; what comes back to it depends on the weights.
        assert (found.mass[0, 0] > found.mass[2, 1]) == (left > right)
        assert found.log_proba[0].argmax() == 0
        assert found.log_proba[2].argmax() == 1


def test_a_class_with_many_labels_has_as_much_mass_as_one_with_few():
    nodes = nodes_of()
    rng = np.random.default_rng(0)
    y = np.where((nodes.y == 0) & (rng.random(len(nodes.y)) < 0.8), -1, nodes.y)
    mass = Propagation().bind(nodes).learn(y, 0.3).mass
    connected = nodes.graph.degrees > 0
    # Labels of nodes without links keep their mass to themselves.
    lost = np.bincount(y[(y >= 0) & ~connected], minlength=K) / np.bincount(y[y >= 0])
    np.testing.assert_allclose(mass.sum(axis=0), 1.0 - 0.7 * lost, atol=1e-3)


def test_nodes_that_no_label_reaches_may_be_of_any_class():
    apart = sp.block_diag([np.ones((4, 4)) - np.eye(4)] * 2).tocsr()
    expert = Propagation().bind(NodeData(2, graph=Graph(apart)))
    found = expert.learn(np.array([0, 1, -1, -1, -1, -1, -1, -1]), 0.1)
    np.testing.assert_allclose(np.exp(found.log_proba[4:]), 0.5, atol=1e-6)


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("validation", [False, True], ids=["folds", "validation"])
def test_one_pass_over_all_folds_is_one_fit_per_fold(weighted, validation):
    nodes = nodes_of(weighted=weighted)
    nodes.y[nodes.y == 2] = np.where(np.arange((nodes.y == 2).sum()), -1, 2)  # one is alone
    rest = np.flatnonzero(nodes.y < 0)[:30]
    given = (rest, make_uneven(150, K, 0.4).y_true[rest]) if validation else None
    held = hold_out(nodes.y, given)
    expert = Propagation().bind(nodes)
    candidates = expert.candidates(held)
    assert sorted(candidate.setting for candidate in candidates) == sorted(_RESTARTS)
    for candidate in candidates:
        for fold, y in enumerate(held.y):
            here = held.folds == fold
            expected = expert.learn(y, candidate.setting).log_proba[held.nodes[here]]
            np.testing.assert_allclose(candidate.logs[here], expected, atol=1e-3)


# Regressions. ---------------------------------------------------------------------------


def regressions():
    texts = draw_citations((1 / 3,) * K, n=150, n_words=80, topical=0.4)
    sparse = NodeData(K, texts.X, texts.labels(12), Graph(texts.graph))
    return [
        pytest.param(Links(), nodes_of(), id="links"),
        pytest.param(Features(), nodes_of(), id="features"),
        pytest.param(OwnFeatures(), nodes_of(), id="own"),
        pytest.param(Features(), sparse, id="texts"),
    ]


@pytest.mark.parametrize(("expert", "nodes"), regressions())
def test_candidates_are_fits_to_the_labels_of_the_other_folds(monkeypatch, expert, nodes):
    """Those of all folds are fitted at once: with the same result, if they have one setting."""

    def fit_exactly(*given, **options):
        return fit_logistic(*given, **options | {"tol": 1e-7, "max_iter": 2000})

    monkeypatch.setattr(penalty, "fit_logistic", fit_exactly)
    monkeypatch.setattr(penalty, "_PENALTIES", (0.3,))
    monkeypatch.setattr(Judge, "temperature", lambda self, scores, offset=0.0: 2.0)
    held = hold_out(nodes.y)
    bound = expert.bind(nodes)
    bound.hops = bound.hops[:1]
    candidates = bound.candidates(held)
    assert len(candidates) >= 2
    for candidate in candidates:
        expected = bound.held_out(held, candidate.setting)
        here, there = (np.exp(log_softmax(logs, axis=1)) for logs in (candidate.logs, expected))
        # Refits end at a tolerance of their own.
        atol = 0.05 if candidate.setting.rounds else 0.002
        np.testing.assert_allclose(here, there, atol=atol)


@pytest.mark.parametrize(("expert", "nodes"), regressions())
def test_no_label_of_a_fold_changes_what_is_said_of_it_with_a_setting(expert, nodes):
    held = hold_out(nodes.y)
    bound = expert.bind(nodes)
    setting = bound.candidates(held)[-1].setting
    before = bound.held_out(held, setting)
    for fold in (0, 3):
        after = bound.held_out(swap_labels_of(held, fold), setting)
        here = held.folds == fold
        np.testing.assert_array_equal(before[here], after[here])
        assert (before[~here] != after[~here]).any()


def test_features_are_not_averaged_over_links_that_say_nothing():
    texts = draw_citations((1 / 3,) * K, n=300, n_words=150, topical=0.5, inside=1 / 3)
    y = texts.labels(20)
    nodes = NodeData(K, texts.X, y, Graph(texts.graph))
    held = hold_out(y)
    losses = [
        min(candidate.loss for candidate in expert.bind(nodes).candidates(held))
        for expert in (OwnFeatures(), Features())
    ]
    assert losses[0] < losses[1] - 0.05


def test_weak_features_are_averaged_over_links_that_stay_in_the_class():
    texts = draw_citations((1 / 3,) * K, n=300, n_words=150, topical=0.15, inside=0.9)
    y = texts.labels(15)
    nodes = NodeData(K, texts.X, y, Graph(texts.graph))
    held = hold_out(y)
    losses, right = [], []
    for expert in (OwnFeatures(), Features()):
        bound = expert.bind(nodes)
        best = min(bound.candidates(held), key=lambda candidate: candidate.loss)
        labels = bound.learn(y, best.setting).log_proba.argmax(axis=1)
        losses.append(best.loss)
        right.append((labels == texts.z)[y < 0].mean())
    assert losses[1] < losses[0] - 0.1
    assert right[1] > right[0] + 0.2


def test_what_is_shared_by_all_folds_does_not_depend_on_labels():
    """Experts are bound once: the same smoothing must serve any labels."""
    nodes = nodes_of()
    other = replace(nodes, y=np.roll(nodes.y, 7))
    for expert in (Links(), Features(), OwnFeatures()):
        one, two = expert.bind(nodes), expert.bind(other)
        hops = max(expert.hops)
        np.testing.assert_array_equal(one.smoothing.over(hops), two.smoothing.over(hops))


@pytest.mark.parametrize("expert", [Features(), OwnFeatures()], ids=repr)
def test_experts_take_a_smoothing_that_is_there_already(expert):
    nodes = nodes_of()
    shared = replace(nodes, smoothing=Smoothing(nodes.X, nodes.graph))
    assert expert.bind(shared).smoothing is shared.smoothing


# The block model. -----------------------------------------------------------------------


@pytest.mark.parametrize("terms", [None, [Covariance(), None]], ids=["links", "features"])
def test_held_out_probabilities_are_those_of_a_solution_without_their_labels(terms):
    data = make_planted(K, 40, p=0.3, q=0.1, omega=0.5, label_ratio=0.3, random_state=0)
    nodes = NodeData(K, data.X, data.y, Graph(data.graph))
    held = hold_out(data.y)
    expert = BlockModel(terms).bind(nodes)
    candidates = expert.candidates(held)
    assert candidates
    for candidate in candidates:
        for fold, y in enumerate(held.y):
            here = held.folds == fold
            hidden = np.where(np.isin(np.arange(len(y)), held.nodes[here]), -1, data.y)
            np.testing.assert_array_equal(y, hidden)
            alone = BlockModel(terms).bind(replace(nodes, y=hidden))
            expected = alone.learn(hidden, candidate.setting).log_proba[held.nodes[here]]
            np.testing.assert_array_equal(candidate.logs[here], expected)
        assert candidate.loss == pytest.approx(
            Judge.of(held.codes, K).best_loss(candidate.logs, balanced=False)
        )


def test_a_held_out_fold_does_not_change_its_own_block_model():
    data = make_planted(K, 40, p=0.3, q=0.1, label_ratio=0.3, random_state=0)
    nodes = NodeData(K, y=data.y, graph=Graph(data.graph))
    held = hold_out(data.y)
    expert = BlockModel().bind(nodes)
    setting = expert.settings()[0]
    before = expert.held_out(held, setting)
    after = expert.held_out(swap_labels_of(held, 1), setting)
    here = held.folds == 1
    np.testing.assert_array_equal(before[here], after[here])
    assert (before[~here] != after[~here]).any()


def test_links_that_seek_another_class_in_a_pattern_are_learnt():
    """Two classes seek each other, the third itself: one contrast for all cannot say that."""
    rng = np.random.default_rng(0)
    z = np.arange(240) % K
    density = np.array([[0.01, 0.1, 0.01], [0.1, 0.01, 0.01], [0.01, 0.01, 0.1]])
    upper = np.triu(rng.random((240, 240)) < density[z][:, z], 1)
    y = np.where(rng.random(240) < 0.25, z, -1)
    expert = BlockModel().bind(NodeData(K, y=y, graph=Graph(upper | upper.T)))
    found = {own.setting.affinities: own.loss for own in expert.candidates(hold_out(y))}
    assert found["matrix"] < found.get("scalar", np.inf)


def test_an_expert_that_is_clearly_worse_is_given_up():
    data = make_planted(K, 40, p=0.1, q=0.1, label_ratio=0.5, random_state=0)
    nodes = NodeData(K, y=data.y, graph=Graph(data.graph))
    held = hold_out(data.y)
    expert = BlockModel().completed((None,), BlockCADO(random_state=0)).bind(nodes)
    best = np.full(len(held.nodes), 0.01)  # of an expert that knows
    assert expert.candidates(held, than=best) == []
    worst = np.full(len(held.nodes), 5.0)
    found = expert.candidates(held, than=worst)  # further settings only if they are promising
    assert found[0].setting == expert.settings()[0]
