"""The benchmark on real data: its protocols, its peers, and how these are judged."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

from benchmark_helpers import published, small_set, write_set
from nodeproof.errors import InputError
from peers import PEERS, choosing, linear, nets, registry, sets, slimg
from peers.protocols import PROTOCOLS, draw
from peers.registry import Data, Split
from peers.scoring import judge, judge_claims

pytestmark = pytest.mark.filterwarnings("ignore:stopped after")

PEER_NAMES = [
    name
    for name, peer in PEERS.items()
    if not name.startswith("nodeproof") and (peer.needs is None or find_spec(peer.needs))
]


@pytest.fixture(autouse=True)
def no_long_training(monkeypatch):
    monkeypatch.setattr(nets, "limit", 0.05)
    monkeypatch.setattr(slimg, "STEPS", 50)


# Protocols


@pytest.fixture
def known_set(tmp_path):
    """A set that allows every protocol."""
    write_set(tmp_path / "known.npz", small_set(), **published(small_set(), several=False))
    return sets.read_set(str(tmp_path / "known.npz"))


@pytest.mark.parametrize("name", PROTOCOLS)
def test_no_node_is_in_two_parts_and_methods_see_no_label_beyond_theirs(name, known_set):
    split, test = draw(known_set, PROTOCOLS[name], 0)
    parts = [split.train, split.validation, test]
    assert len(np.unique(np.concatenate(parts))) == sum(map(len, parts))
    assert (split.y[split.train] == known_set.y[split.train]).all()
    assert min(len(split.train), len(test)) > 0
    assert (len(split.validation) > 0) == PROTOCOLS[name].validation
    assert "y" not in vars(PROTOCOLS[name].given(known_set).data)


def test_nodes_without_a_class_are_in_no_part():
    graph_set = small_set()
    y = np.where(np.arange(150) < 9, -1, graph_set.y)
    for name in ("20-per-class", "60/20/20", "graph", "features"):
        split, test = draw(sets.GraphSet(graph_set.data, y), PROTOCOLS[name], 0)
        assert min([*split.train, *split.validation, *test]) >= 9


def test_twenty_labels_per_class_and_of_a_small_class_half():
    y = np.repeat([0, 1, 2], [100, 9, 1])
    graph_set = sets.GraphSet(Data("three", None, np.zeros((110, 1)), 3), y)
    split, test = draw(graph_set, PROTOCOLS["20-per-class"], 0)
    assert np.bincount(split.y[split.train], minlength=3).tolist() == [20, 4, 0]
    assert len(test) == 86


def test_shares_of_every_class():
    graph_set = small_set()
    split, test = draw(graph_set, PROTOCOLS["60/20/20"], 0)
    assert np.bincount(graph_set.y[split.train]).tolist() == [30, 30, 30]
    assert np.bincount(graph_set.y[split.validation]).tolist() == [10, 10, 10]
    assert np.bincount(graph_set.y[test]).tolist() == [10, 10, 10]
    split, _ = draw(graph_set, PROTOCOLS["features"], 0)
    assert np.bincount(split.y[split.train]).tolist() == [5, 5, 5]


def test_the_same_number_gives_the_same_split_and_another_number_another():
    first, again, other = (
        draw(small_set(), PROTOCOLS["20-per-class"], number)[0].train.tolist()
        for number in (0, 0, 1)
    )
    assert first == again
    assert first != other


def test_links_or_features_are_hidden(known_set):
    assert PROTOCOLS["graph"].given(known_set).data.X is None
    assert PROTOCOLS["features"].given(known_set).data.graph is None
    assert PROTOCOLS["published"].given(known_set).data.X is not None


def test_validation_labels_are_fitted_too(known_set):
    split, test = draw(known_set, PROTOCOLS["all-labels"], 0)
    assert (split.train % 3 < 2).all()
    assert len(split.train) == 100
    assert (test % 3 == 2).all()


def test_a_published_split_is_repeated_and_several_are_run_through(tmp_path, known_set):
    protocol = PROTOCOLS["published"]
    assert list(protocol.numbers(known_set, None)) == [0, 1, 2, 3, 4]
    assert (draw(known_set, protocol, 4)[1] % 3 == 2).all()

    write_set(tmp_path / "two.npz", small_set(), **published(small_set(), several=True))
    two = sets.read_set(str(tmp_path / "two.npz"))
    assert list(protocol.numbers(two, None)) == list(protocol.numbers(two, 7)) == [0, 1]
    assert (draw(two, protocol, 0)[1] != draw(two, protocol, 1)[1]).all()
    assert not PROTOCOLS["all-labels"].allows(two)
    assert not protocol.allows(small_set())


def test_a_share_of_the_training_labels_is_flipped_and_no_other():
    graph_set, protocol = small_set(), PROTOCOLS["60/20/20"]
    right, _ = draw(graph_set, protocol, 0)
    flipped, _ = draw(graph_set, protocol, 0, flip=0.3)
    changed = right.y != flipped.y
    assert changed.sum() == round(0.3 * len(right.train))
    assert (right.train == flipped.train).all()
    assert (flipped.y[flipped.train] < 3).all()
    assert (flipped.validation_labels == graph_set.y[flipped.validation]).all()


def test_hidden_validation_nodes_are_not_given_as_test_nodes():
    graph_set, protocol = small_set(), PROTOCOLS["60/20/20"]
    split, test = draw(graph_set, protocol, 0, validation=False)
    assert len(split.validation) == 0
    assert (test == draw(graph_set, protocol, 0)[1]).all()


@pytest.mark.parametrize("name", sets.BUILT_IN)
def test_tables_of_scikit_learn_have_features_and_no_links(name):
    table = sets.read_set(sets.find_sets(None)[name])
    assert table.data.graph is None
    assert len(table.data.X) == len(table.y)
    assert [p.name for p in PROTOCOLS.values() if p.usual and p.allows(table)] == ["features"]


def test_a_file_of_another_layout_is_named(tmp_path):
    np.savez(tmp_path / "odd.npz", a=1)
    with pytest.raises(InputError, match=r"odd\.npz is not a graph"):
        sets.read_set(str(tmp_path / "odd.npz"))


# Peers


def accuracy_of(name, graph_set, protocol):
    given = protocol.given(graph_set)
    split, test = draw(given, protocol, 0)
    proba = PEERS[name].fit(given.data, split, 0)
    assert np.allclose(proba.sum(axis=1), 1)
    return judge(proba, graph_set.y, test, graph_set.data.n_classes)["accuracy"]


def can_use(name, protocol):
    links, features = protocol.hides != "links", protocol.hides != "features"
    return PEERS[name].can_use(links=links, features=features, validation=protocol.validation)


# Two classes are a case of their own to models of one class against another, whatever is given.
@pytest.mark.parametrize(
    ("name", "protocol", "n_classes"),
    [
        pytest.param(name, PROTOCOLS[protocol], n_classes, id=f"{name}-{protocol}-{n_classes}")
        for name in PEER_NAMES
        for protocol, n_classes in (
            ("60/20/20", 3),
            ("20-per-class", 3),
            ("20-per-class", 2),
            ("graph", 3),
            ("features", 3),
        )
        if can_use(name, PROTOCOLS[protocol])
    ],
)
def test_every_peer_returns_probabilities_better_than_chance(name, protocol, n_classes):
    reached = accuracy_of(name, small_set(n_classes), protocol)
    # How much nets learn in the time that a test has depends on the machine.
    assert PEERS[name].needs == "torch" or reached > 1.3 / n_classes


@pytest.mark.parametrize("name", PEER_NAMES)
def test_dense_features_of_any_scale_will_do(name):
    graph_set = small_set()
    X = graph_set.data.X.toarray() * 1000.0 - 500.0
    dense = sets.GraphSet(Data("small", graph_set.data.graph, X, 3), graph_set.y)
    reached = accuracy_of(name, dense, PROTOCOLS["20-per-class"])
    assert PEERS[name].needs == "torch" or reached > 1.3 / 3


@pytest.mark.parametrize("name", PEER_NAMES)
def test_a_class_without_a_label_and_a_node_without_a_link_do_no_harm(name):
    graph_set = small_set()
    alone = graph_set.data.graph.toarray()
    alone[:5] = alone[:, :5] = 0
    data = Data("small", sp.csr_array(alone), graph_set.data.X, 3)
    for protocol in (PROTOCOLS["60/20/20"], PROTOCOLS["20-per-class"]):
        split, _ = draw(graph_set, protocol, 0)
        labels = np.where(split.y == 2, -1, split.y)
        proba = PEERS[name].fit(data, Split(labels, split.validation, split.validation_labels), 0)
        assert proba.shape == (150, 3)
        assert np.allclose(proba.sum(axis=1), 1)


def test_smoothed_features_are_what_the_formula_says():
    graph_set = small_set()
    for name in ("features", "60/20/20"):  # fewer labels than features, and more
        split, _ = draw(graph_set, PROTOCOLS[name], 0)
        found = linear.fit_smoothed(graph_set.data, split, 0, (30.0,))

        A = registry.normalised(graph_set.data.graph).toarray().astype(float)
        X = graph_set.data.X.toarray().astype(float)
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        powers = [np.linalg.matrix_power(A, k) @ X for k in range(1, 17)]
        smooth = np.mean([0.9 * power + 0.1 * X for power in powers], axis=0)
        smooth /= np.sqrt((smooth[split.train] ** 2).sum(axis=1).mean())
        reference = LogisticRegression(C=30.0, max_iter=5000, tol=1e-8)
        reference.fit(smooth[split.train], split.y[split.train])
        assert np.abs(found - reference.predict_proba(smooth)).max() < 5e-3


def test_peers_choose_on_the_validation_nodes():
    graph_set = small_set()
    split, _ = draw(graph_set, PROTOCOLS["60/20/20"], 0)
    good = np.eye(3)[graph_set.y] * 0.8 + 0.2 / 3
    bad = np.roll(good, 1, axis=1)
    found, place = choosing.fit_best(lambda part: [bad, good], graph_set.data, split, 0)
    assert found is good
    assert place == 1


def test_without_validation_nodes_peers_choose_on_labels_they_have_not_seen():
    graph_set = small_set()
    split, _ = draw(graph_set, PROTOCOLS["20-per-class"], 0)
    weak = np.eye(3)[graph_set.y] * 0.5 + 0.5 / 3
    seen = []

    def fit(part):
        """Return what repeats the labels that it is given, and what knows a little."""
        seen.append(part.train)
        repeating = np.full((150, 3), 1 / 3)
        repeating[part.train] = np.eye(3)[part.y[part.train]]
        return [repeating, weak]

    assert choosing.fit_best(fit, graph_set.data, split, 0)[0] is weak
    assert max(map(len, seen)) == len(split.train)


def test_every_training_label_is_held_out_once_and_no_class_is_lost():
    y = np.full(60, -1)
    y[:30], y[30:32], y[32] = 0, 1, 2
    parts = choosing.folds(Split(y, np.arange(0), np.arange(0)), seed=0)
    assert sorted(np.concatenate([part.validation for part in parts])) == list(range(32))
    for part in parts:
        assert set(part.y[part.train]) == {0, 1, 2}
        assert (part.validation_labels == y[part.validation]).all()
        assert (part.y[part.validation] == -1).all()


def test_networks_that_stop_early_hold_out_labels_where_there_is_no_validation():
    split, _ = draw(small_set(), PROTOCOLS["20-per-class"], 0)
    held = choosing.with_validation(split, 0)
    assert len(held.validation) == len(split.train) // choosing.FOLDS
    assert not np.intersect1d(held.train, held.validation).size
    given, _ = draw(small_set(), PROTOCOLS["60/20/20"], 0)
    assert choosing.with_validation(given, 0) is given


def test_what_is_not_probabilities_is_refused():
    with pytest.raises(ValueError, match="not probabilities"):
        judge(np.full((4, 2), np.nan), np.array([0, 1, 0, 1]), np.arange(4), 2)


def test_figures_of_the_test_nodes_are_what_they_are_called():
    y = np.array([0, 0, 0, 1, 0])
    proba = np.array([[0.9, 0.1], [0.8, 0.2], [0.4, 0.6], [0.3, 0.7], [0.0, 1.0]])
    figures = judge(proba, y, np.arange(4), 2)
    assert figures["accuracy"] == 0.75
    assert figures["balanced_accuracy"] == pytest.approx((2 / 3 + 1) / 2)
    assert figures["roc_auc"] == 1.0
    assert figures["mean_probability"] == pytest.approx(0.75)
    assert judge(np.eye(3)[[0, 1, 2]], np.arange(3), np.arange(3), 3)["roc_auc"] is None


def test_claims_are_held_against_the_truth():
    split = Split(np.array([0, 1, 1, -1]), np.arange(0), np.arange(0))
    about = {"estimate": (0.8, 0.7, 0.9), "suspects": [1, 2]}
    found = judge_claims(about, 0.75, split, np.array([0, 1, 0, 1]))
    assert found["covered"] is True
    assert found["suspected"] == pytest.approx(2 / 3)
    assert found["suspects_wrong"] == 0.5
    assert judge_claims(about, 0.65, split, np.zeros(4, int))["covered"] is False
    none = judge_claims({"estimate": None, "suspects": []}, 0.7, split, np.zeros(4, int))
    assert none == {"estimate": None, "covered": None, "suspected": 0.0, "suspects_wrong": None}
    assert judge_claims({}, 0.7, split, np.zeros(4, int)) == {}
