"""What probabilities are worth: fits are as sure as they are right, whatever the data."""

import networkx as nx
import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from nodeproof import NodeClassifier
from nodeproof.datasets import make_planted
from nodeproof.metrics import expected_calibration_error

pytestmark = [pytest.mark.numeric, pytest.mark.usefixtures("one_thread")]


def fit(data, X=None, graph="own"):
    links = data.graph if isinstance(graph, str) else graph
    return NodeClassifier(random_state=0).fit(X, data.y, graph=links)


def at_unlabelled(clf, data):
    """Return accuracy and mean confidence at the nodes without a label."""
    hidden = data.y < 0
    right = (clf.predict() == data.y_true)[hidden].mean()
    return right, clf.proba_[hidden].max(axis=1).mean()


def gaps(draw, fit_to, seeds):
    """Return accuracies and confidences over several draws."""
    return np.array([at_unlabelled(fit_to(data), data) for data in map(draw, range(seeds))]).T


@pytest.mark.filterwarnings("ignore:the data do not tell")
def test_below_the_detection_threshold_probabilities_are_modest():
    def draw(seed):
        return make_planted(3, 150, p=0.04, q=0.03, label_ratio=0.1, random_state=seed)

    right, sure = gaps(draw, fit, seeds=4)
    assert abs(right.mean() - sure.mean()) < 0.1
    assert sure.max() < 0.65


@pytest.mark.filterwarnings("ignore:the data do not tell")
def test_features_without_signal_do_not_make_probabilities_sure():
    def draw(seed):
        return make_planted(3, 60, p=0.10, q=0.06, omega=1.0, label_ratio=0.2, random_state=seed)

    right, sure = gaps(draw, lambda data: fit(data, data.X), seeds=4)
    assert abs(right.mean() - sure.mean()) < 0.12
    assert sure.max() < 0.75


@pytest.mark.filterwarnings("ignore:the data do not tell")
def test_labels_at_random_are_not_believed():
    """Neither links nor features know anything of them."""
    data = make_planted(3, 60, p=0.2, q=0.05, omega=0.3, label_ratio=0.3, random_state=0)
    hidden = data.y < 0
    for seed in range(3):
        y = np.where(hidden, -1, np.random.default_rng(seed).integers(0, 3, len(data.y)))
        clf = NodeClassifier(random_state=0).fit(data.X, y, graph=data.graph)
        assert clf.proba_[hidden].max(axis=1).mean() < 0.65
        low = clf.estimated_accuracy_[1]
        assert low < 0.45


def test_features_alone_are_calibrated():
    def draw(seed):
        return make_planted(3, 80, omega=0.4, label_ratio=0.3, random_state=seed)

    right, sure = gaps(draw, lambda data: fit(data, data.X, graph=None), seeds=4)
    assert abs(right.mean() - sure.mean()) < 0.1


def test_clear_links_are_told_with_certainty():
    data = make_planted(3, 100, p=0.2, q=0.02, label_ratio=0.1, random_state=0)
    right, sure = at_unlabelled(fit(data), data)
    assert right > 0.98
    assert sure > 0.97


@pytest.mark.parametrize("right", [1.0, 0.9, 0.75])
def test_wrong_labels_do_not_make_links_look_uncertain(right):
    """Labels that contradict what links make certain are wrong; links are not doubted for it."""
    data = make_planted(
        *(4, 250), p=0.03, q=0.005, label_ratio=0.12, label_accuracy=right, random_state=0
    )
    clf = fit(data)
    hidden = data.y < 0
    accuracy = (clf.predict() == data.y_true)[hidden].mean()
    estimate, low, high = clf.estimated_accuracy_
    assert abs(estimate - accuracy) < 0.05
    assert low < accuracy < high
    assert expected_calibration_error(data.y_true[hidden], clf.proba_[hidden]) < 0.05


@pytest.mark.parametrize("seed", [1, 2])
def test_standardised_features_are_still_told_by_their_covariances(seed):
    """Some of the labels are wrong, and eighteen per fold are few."""
    data = make_planted(
        *(3, 300), p=0.02, q=0.01, omega=0.3, label_ratio=0.1, label_accuracy=0.8, random_state=seed
    )
    clf = fit(data, StandardScaler().fit_transform(data.X))
    assert (clf.predict() == data.y_true).mean() > 0.85


def test_the_block_model_alone_is_kept_where_it_is_right():
    data = make_planted(3, 100, p=0.1, q=0.03, label_ratio=0.2, random_state=0)
    clf = fit(data)
    weights = {row["expert"]: row["weight"] for row in clf.choices_["experts"]["value"]}
    assert weights["block model"] == 1.0
    assert sum(weights.values()) == 1.0


def test_one_class_against_the_rest_is_told():
    """The rest is two groups, which a model of two classes does not know of."""
    for seed in range(6):
        data = make_planted(3, 60, p=0.25, q=0.02, label_ratio=0.2, random_state=seed)
        z = (data.y_true == 0).astype(int)
        y = np.where(data.y >= 0, z, -1)
        clf = NodeClassifier(random_state=0).fit(y=y, graph=data.graph)
        assert (clf.predict() == z).mean() > 0.95
        assert len(clf.suspects_) <= 1


# What labels and links cannot tell. -----------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_labels_are_kept_where_likelier_groups_contradict_them(seed):
    data = make_planted(3, 60, p=0.25, q=0.02, random_state=seed)
    first = (data.y_true == 0).astype(int)
    y = np.where(data.y >= 0, first, -1)
    clf = NodeClassifier(random_state=0).fit(data.X, y, graph=data.graph)
    assert (clf.labels_ == first)[y < 0].mean() > 0.95
    assert len(clf.suspects_) == 0


def test_groups_of_a_clustered_graph_without_labels_are_not_certain():
    # Cliques in a ring: neighbours of a node are linked far more often than in a block model.
    graph = nx.to_scipy_sparse_array(nx.connected_caveman_graph(40, 6))
    clf = NodeClassifier(4, random_state=0).fit(graph=graph)
    sure = NodeClassifier(4, weights="calibrated", random_state=0).fit(graph=graph)
    assert "damped" in clf.choices_["probabilities"]["why"]
    assert clf.proba_.max(axis=1).mean() < sure.proba_.max(axis=1).mean()
    np.testing.assert_array_equal(clf.labels_, sure.labels_)
