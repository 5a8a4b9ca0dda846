"""Graphs of nearest neighbours: made of features, chosen by held-out labels, and for new nodes."""

from __future__ import annotations

import csv
import json
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_wine
from sklearn.neighbors import kneighbors_graph

from cli_helpers import run, write
from nodeproof import NodeClassifier, knn_graph
from nodeproof.errors import InputError
from nodeproof.inputs.knn import KnnGraph, nearest


@pytest.fixture(scope="module")
def wine():
    data = load_wine()
    order = np.random.default_rng(0).permutation(len(data.target))
    return data.data[order], data.target[order]


@pytest.fixture(scope="module")
def some_labels(wine):
    y = wine[1].copy()
    y[30:] = -1
    return y


@pytest.fixture(scope="module")
def fitted(wine, some_labels):
    return NodeClassifier(random_state=0).fit(wine[0][:150], some_labels[:150], graph="knn")


def test_weights_are_symmetric_and_every_node_has_its_neighbours(wine):
    graph = knn_graph(wine[0], k=6)
    assert (graph != graph.T).nnz == 0
    assert graph.diagonal().sum() == 0
    assert np.diff(graph.indptr).min() >= 6
    assert 0 < graph.data.min() <= graph.data.max() <= 1


def test_neighbours_are_those_of_scikit_learn(wine):
    X = wine[0]
    theirs = kneighbors_graph(X, 5)
    assert ((knn_graph(X, k=5) > 0) != (theirs.maximum(theirs.T) > 0)).nnz == 0


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_the_order_of_rows_makes_no_difference(kind):
    rng = np.random.default_rng(1)
    X = rng.integers(0, 4, (90, 5)).astype(float)  # with ties
    y = rng.integers(0, 3, 90)
    order = rng.permutation(90)
    X = sp.csr_array(X) if kind == "sparse" else X
    ahead, moved = (
        nearest(X, 8, "cosine", False, y),
        nearest(X[order], 8, "cosine", False, y[order]),
    )
    # Nodes with the same features and label are interchangeable.
    rows = np.column_stack([X.toarray() if kind == "sparse" else X, y])
    assert (rows[ahead.nodes[order]] == rows[order][moved.nodes]).all()
    np.testing.assert_array_equal(ahead.squares[order], moved.squares)


def test_copies_of_a_node_are_linked_to_each_other_first():
    graph = knn_graph(np.array([[0.0], [0.0], [0.0], [5.0], [6.0]]), k=2).toarray()
    assert graph[0, 1] == graph[0, 2] == graph[1, 2] == 1
    assert graph[3, 4] > 0


def test_units_do_not_matter_where_features_are_scaled(wine):
    X = wine[0]
    factors = 10.0 ** np.arange(X.shape[1])
    ahead, scaled = (knn_graph(rows, scaled=True) for rows in (X, X * factors))
    assert abs(ahead - scaled).max() < 1e-6


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"k": 0}, "k must be a whole number of neighbours, at least 1; got 0"),
        ({"k": 2.5}, "k must be a whole number"),
        ({"k": 178}, "k=178 neighbours need more than 178 nodes; there are 178"),
        ({"metric": "manhattan"}, "metric must be one of euclidean, cosine"),
    ],
)
def test_settings_that_cannot_be_are_refused(wine, given, said):
    with pytest.raises(InputError, match=said):
        knn_graph(wine[0], **given)


def test_a_graph_of_neighbours_needs_features():
    with pytest.raises(InputError, match='graph="knn" links nodes by their features: give X'):
        NodeClassifier().fit(y=[0, 1, -1], graph="knn")


def test_the_choice_is_recorded(fitted):
    chosen = fitted.choices_["graph"]
    assert chosen["value"]["k"] in (5, 10, 20, 40)
    assert chosen["value"]["scaled"]  # one feature is a hundred times as large as the others
    assert "held-out labels" in chosen["why"]
    assert fitted.score(y=load_wine_truth()) > 0.9


def load_wine_truth():
    data = load_wine()
    return data.target[np.random.default_rng(0).permutation(len(data.target))][:150]


def test_a_fit_does_not_depend_on_the_order_of_rows(wine, some_labels, fitted):
    order = np.random.default_rng(2).permutation(150)
    moved = NodeClassifier(random_state=0).fit(
        wine[0][:150][order], some_labels[:150][order], graph="knn"
    )
    assert moved.choices_["graph"]["value"] == fitted.choices_["graph"]["value"]
    np.testing.assert_allclose(moved.proba_, fitted.proba_[order], atol=1e-5)


def test_new_nodes_are_linked_to_their_nearest(wine, fitted, tmp_path):
    X, truth = wine[0][150:], wine[1][150:]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fitted.score(X, truth) > 0.85
        proba = fitted.predict_proba(X)
    alone = fitted.predict_proba(X, graph=[])
    assert not np.array_equal(proba, alone)
    fitted.save(tmp_path / "model.npz")
    loaded = NodeClassifier.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(loaded.predict_proba(X), proba)


def test_sparse_features_are_compared_by_cosine(tmp_path):
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1], 60)
    rates = np.where(np.arange(40)[None, :] // 20 == truth[:, None], 0.5, 0.1)
    X = sp.csr_array(rng.poisson(rates).astype(float))
    y = np.where(rng.random(120) < 0.3, truth, -1)
    clf = NodeClassifier(random_state=0).fit(X, y, graph="knn")
    assert clf.choices_["graph"]["value"]["metric"] == "cosine"
    assert clf.score(y=truth) > 0.8
    clf.save(tmp_path / "model.npz")
    loaded = NodeClassifier.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(loaded.predict_proba(X[:5]), clf.predict_proba(X[:5]))


def test_without_labels_the_usual_number_of_neighbours_is_taken(wine):
    clf = NodeClassifier(3, n_init=1, random_state=0).fit(wine[0], graph="knn")
    assert clf.choices_["graph"]["value"] == {"k": 10, "metric": "euclidean", "scaled": True}
    assert "no labels can be held out" in clf.choices_["graph"]["why"]


def test_a_number_that_is_given_is_taken(wine, some_labels):
    clf = NodeClassifier(experts=["propagation"], random_state=0)
    clf.fit(wine[0], some_labels, graph=KnnGraph(k=7, scaled=True))
    assert clf.choices_["graph"] == {
        "value": {"k": 7, "metric": "euclidean", "scaled": True},
        "why": "given",
    }


def test_distances_as_weights_are_warned_about(wine, some_labels):
    X = (wine[0] - wine[0].mean(axis=0)) / wine[0].std(axis=0)
    far = kneighbors_graph(X, 10, mode="distance")
    far = far.maximum(far.T)
    quick = NodeClassifier(experts=["propagation"], random_state=0)
    with pytest.warns(UserWarning, match="look like distances: the farther apart"):
        quick.fit(X, some_labels, graph=far)
    with pytest.warns(UserWarning, match="look like distances: links between labels of different"):
        quick.fit(None, wine[1], graph=far)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        quick.fit(X, some_labels, graph=knn_graph(X))
        quick.fit(None, wine[1], graph=knn_graph(X))


def test_the_command_line_makes_the_graph_and_predicts_with_it(wine, some_labels, tmp_path, capsys):
    names = [f"w{i}" for i in range(len(some_labels))]
    columns = [f"f{j}" for j in range(wine[0].shape[1])]
    rows = [[name, *row] for name, row in zip(names, wine[0].tolist(), strict=True)]
    features = write(tmp_path / "features.csv", [["node", *columns], *rows[:150]])
    new = write(tmp_path / "new.csv", [["node", *columns], *rows[150:]])
    known = [[name, f"c{label}"] for name, label in zip(names, some_labels, strict=True)][:30]
    labels = write(tmp_path / "labels.csv", [["node", "label"], *known])
    out = tmp_path / "out"
    code, printed, _ = run(
        capsys, "fit", "--knn", 10, "--features", features, "--labels", labels,
        "--out", out, "--json",
    )  # fmt: skip
    summary = json.loads(printed)
    assert code == 0
    assert summary["links"] > 750
    assert summary["choices"]["graph"]["value"]["k"] == 10
    assert not any("isolated" in note for note in summary["notes"])
    code, _, _ = run(capsys, "predict", out, "--features", new, "--out", tmp_path / "new-out.csv")
    assert code == 0
    with (tmp_path / "new-out.csv").open() as file:
        found = [row["label"] for row in csv.DictReader(file)]
    assert np.mean([label == f"c{k}" for label, k in zip(found, wine[1][150:], strict=True)]) > 0.85


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "give EDGES, or --knn auto to link nodes by their --features"),
        (["--knn", 3], "--knn links nodes by their features: give --features or --nodes FILE"),
        (["--knn", "few", "--features", "f.csv"], "--knn must be a number of neighbours or auto"),
        (["e.csv", "--knn", 3, "--features", "f.csv"], "--knn makes the links of the features"),
    ],
)
def test_the_command_line_says_what_a_graph_of_neighbours_needs(given, said, tmp_path, capsys):
    code, _, errors = run(capsys, "fit", *given, "--out", tmp_path / "out")
    assert code == 2
    assert said in errors
    assert not (tmp_path / "out").exists()
