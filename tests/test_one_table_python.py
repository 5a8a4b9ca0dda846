"""One table of nodes is enough: in Python, in every kind of table."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.exceptions import NotFittedError

from nodeproof import NodeClassifier
from nodeproof.errors import InputError
from nodeproof.interop import from_networkx, from_tables
from one_table_helpers import customers

pytestmark = pytest.mark.filterwarnings("ignore:features of X:UserWarning")

LIBRARIES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table, "dict": dict}
FEATURES = ["age", "income", "town=(missing)", *(f"town={t}" for t in ("Lima", "Oslo", "Paris",
            "Rome")), "plan=basic", "plan=plus"]  # fmt: skip


@pytest.fixture(scope="module")
def data():
    return customers(60)


@pytest.fixture(scope="module")
def columns(data):
    """The columns as plain lists, which every library takes."""
    return {
        name: [None if value in (None, "") else value for value in values.tolist()]
        for name, values in data["columns"].items()
    }


@pytest.fixture(scope="module")
def links(data):
    source, target = zip(*data["edges"], strict=True)
    return {"from": list(map(str, source)), "to": list(map(str, target))}


def fit(*args, **kwargs) -> NodeClassifier:
    return NodeClassifier(random_state=0).fit(*args, **kwargs)


@pytest.fixture(scope="module")
def fitted(columns, links):
    return fit(pd.DataFrame(columns), y="segment", graph=pd.DataFrame(links))


def test_a_table_with_its_labels_is_all_that_a_fit_needs(fitted, data):
    assert (fitted.labels_ == data["truth"]).mean() > 0.9
    assert fitted.feature_names_in_.tolist() == FEATURES
    assert fitted.node_ids_.tolist() == data["columns"]["customer"].tolist()


@pytest.mark.parametrize("library", LIBRARIES)
def test_tables_of_all_libraries_give_the_same(fitted, columns, links, library):
    make = LIBRARIES[library]
    again = fit(make(columns), y="segment", graph=make(links))
    np.testing.assert_array_equal(again.proba_, fitted.proba_)


def test_tables_by_from_tables_give_the_same(fitted, columns, links):
    edges = {"payer": links["from"], "payee": links["to"], "amount": [1.0] * len(links["to"])}
    asked = {"node": "customer", "label": "segment", "source": "payer", "target": "payee"}
    parts = from_tables(pl.DataFrame(columns), pl.DataFrame(edges), weight="amount", **asked)
    np.testing.assert_array_equal(fit(**parts).proba_, fitted.proba_)
    fewer = from_tables(columns, edges, node="customer", label="segment", source="payer",
                        target="payee", drop=["email", "town", "plan"])  # fmt: skip
    assert [attribute.name for attribute in fewer["X"].attributes] == ["age", "income"]


def test_the_column_that_links_know_names_the_nodes(fitted, columns, links):
    edges = {"payer": links["from"], "payee": links["to"]}
    parts = from_tables(columns, edges, source="payer", target="payee", label="segment")
    assert parts["graph"].names.tolist() == columns["customer"]
    assert "town" in repr(parts["X"])
    assert len(repr(parts["X"])) < 200
    np.testing.assert_array_equal(fit(**parts).labels_, fitted.labels_)


def test_links_of_new_nodes_may_be_pairs_of_names(fitted, columns, data):
    new = pd.DataFrame(columns).head(2).assign(customer=["new 1", "new 2"])
    one, other = columns["customer"][:2]
    pairs = [("new 1", one), ("new 2", other), ("new 2", "new 1")]
    expected = pd.DataFrame(pairs, columns=["source", "target"])
    for links in (pairs, [list(pair) for pair in pairs], np.array(pairs)):
        np.testing.assert_array_equal(
            fitted.predict(new, graph=links), fitted.predict(new, graph=expected)
        )


def test_a_networkx_graph_with_attributes_gives_the_same(fitted, columns, links):
    graph = nx.Graph()
    for row in pd.DataFrame(columns).to_dict("records"):
        known = {key: value for key, value in row.items() if value is not None and value == value}
        graph.add_node(row["customer"], **known)
    graph.add_edges_from(zip(links["from"], links["to"], strict=True))
    parts = from_networkx(graph, labels="segment", features=["age", "income", "town", "plan"])
    again = fit(**parts)
    assert again.feature_names_in_.tolist() == FEATURES
    np.testing.assert_array_equal(again.proba_, fitted.proba_)
    named = dict(zip(columns["customer"], columns["segment"], strict=True))
    parts = from_networkx(graph, labels={k: v for k, v in named.items() if v}, features=["age"])
    assert set(fit(**parts).classes_) == {"gold", "silver", "bronze"}
    with pytest.raises(InputError, match="no node has the attribute 'colour'; there are 'age'"):
        from_networkx(graph, features=["colour"])


def test_labels_that_come_apart_need_a_word_on_the_features(fitted, columns, links):
    X = pd.DataFrame(columns).set_index("customer").drop(columns=["segment", "email"])
    y = pd.Series(columns["segment"], index=columns["customer"]).dropna()
    with pytest.raises(InputError, match=r"not numbers: 'town' .* NodeClassifier\(prepare=True\)"):
        NodeClassifier().fit(X, y, graph=pd.DataFrame(links))
    clf = NodeClassifier(prepare=True, random_state=0).fit(X, y, graph=pd.DataFrame(links))
    np.testing.assert_array_equal(clf.proba_, fitted.proba_)


def test_steps_can_be_chosen(columns, links):
    X = (
        pd.DataFrame(columns)
        .set_index("customer")[["income", "town"]]
        .fillna({"income": 3000.0, "town": "Oslo"})
    )
    clf = NodeClassifier(prepare=["one-hot"], random_state=0).fit(X, graph=pd.DataFrame(links))
    assert clf.fitted_.preparation.columns[0].scale == 1.0
    with pytest.raises(InputError, match="prepare must be True, False or some of"):
        NodeClassifier(prepare=["two-hot"]).fit(X)


def test_new_nodes_are_prepared_as_the_fit_was(fitted, data, tmp_path):
    new = pd.DataFrame({"customer": ["new"], "plan": ["basic"], "town": ["Berlin"], "age": [None],
                        "income": [3000.0]})  # fmt: skip
    gold = data["columns"]["customer"][data["truth"] == "gold"][:15]
    links = pd.DataFrame({"new": "new", "fitted": gold})
    proba = fitted.predict_proba(new, graph=links)
    assert fitted.classes_[proba.argmax()] == "gold"
    fitted.save(tmp_path / "model.npz")
    loaded = NodeClassifier.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(loaded.predict_proba(new, graph=links), proba)
    with pytest.raises(InputError, match="the table has no column 'town'"):
        fitted.predict(new.drop(columns="town"), graph=links)
    with pytest.raises(InputError, match="fitted to a table with the columns age, income"):
        fitted.predict(np.zeros((1, len(FEATURES))), graph=[])


def test_what_is_not_used_is_said(columns, links):
    with pytest.warns(UserWarning, match=r"not used: email \(180 different texts\)"):
        fit(pd.DataFrame(columns), y="segment", graph=pd.DataFrame(links))


# Links as pairs, labels by name. --------------------------------------------------------


@pytest.fixture(scope="module")
def pairs(data):
    place = {name: v for v, name in enumerate(data["columns"]["customer"])}
    return np.array([(place[u], place[v]) for u, v in data["edges"]])


@pytest.fixture(scope="module")
def by_index(data, pairs):
    y = np.where(data["columns"]["segment"] == "", None, data["columns"]["segment"])
    return y, fit(y=y, graph=pairs.T).proba_


def test_links_may_be_pairs(by_index, pairs):
    y, expected = by_index
    listed = [tuple(pair) for pair in pairs.tolist()]
    for graph in (pairs, listed, pairs.tolist(), pairs.astype(float), set(listed),
                  np.column_stack([pairs, np.ones(len(pairs))]),
                  [(u, v, 1.0) for u, v in listed]):  # fmt: skip
        np.testing.assert_array_equal(fit(y=y, graph=graph).proba_, expected)


def test_pairs_may_be_names(data, by_index):
    y, _ = by_index
    known = {name: label for name, label in zip(data["columns"]["customer"], y, strict=True)
             if label is not None}  # fmt: skip
    edges = [(str(u), str(v)) for u, v in data["edges"]]
    one, other = fit(y=known, graph=edges), fit(y=pd.Series(known), graph=np.array(edges))
    np.testing.assert_array_equal(one.proba_, other.proba_)
    truth = dict(zip(data["columns"]["customer"], data["truth"], strict=True))
    assert np.mean([truth[v] == k for v, k in zip(one.node_ids_, one.labels_, strict=True)]) > 0.8


def test_a_dict_of_labels_may_name_nodes_by_position(by_index, pairs):
    y, expected = by_index
    known = {v: label for v, label in enumerate(y) if label is not None}
    backwards = dict(reversed(known.items()))
    n = len(y)
    matrix = np.zeros((n, n), dtype=np.float32)
    matrix[pairs[:, 0], pairs[:, 1]] = matrix[pairs[:, 1], pairs[:, 0]] = 1
    for labels in (known, backwards):
        np.testing.assert_array_equal(fit(y=labels, graph=matrix).proba_, expected)
    np.testing.assert_array_equal(fit(y=known, graph=pairs).proba_, expected)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"graph": np.full((5, 2), 0.5)}, "is a list of links, whose ends must be positions"),
        ({"graph": np.array([[0, -1], [1, 2], [2, 3]])}, "got -1"),
        ({"X": np.zeros((5, 2)), "graph": np.array([[0, 1, 2], [1, 2, 1], [3, 4, 1]])},
         "a 3×3 array may be a matrix of three nodes, or three links with weights"),
        ({"graph": [(0, 1), (1, 2, 0.5)]}, r"pairs \(node, node\), or triples"),
        ({"y": {"ann": 1}, "graph": np.array([[0, 1], [1, 2], [2, 3]])}, "neither X nor the graph"),
        ({"y": {}, "graph": [(0, 1)]}, "y is an empty dict"),
        ({"y": {7: 1}, "graph": np.eye(3)}, "names the node 7"),
        ({"X": np.zeros((5, 2)), "y": "kind"}, "X must be a table that has it, got ndarray"),
        ({"X": {"a": [1, 2]}, "y": "kind"}, "X has no column 'kind' with the labels, only a"),
        ({"X": {"id": ["a", "a"], "kind": ["x", "y"]}, "y": "kind"}, "'a' as the name of more"),
        ({"X": {"a": ["x", "y"], "kind": [1, 2]}, "y": "kind", "graph": {"u": ["x"], "v": ["z"]}},
         "no column of X has all of them"),
    ],
)  # fmt: skip
def test_what_could_mean_two_things_is_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        NodeClassifier(n_classes=2).fit(**arguments)


@pytest.mark.parametrize(
    "texts",
    [
        ["a text"] * 4, np.array([["a text"]] * 4), pd.Series(["a text"] * 4),
        pd.DataFrame({"bio": ["a text that goes on for more than a few words"] * 4}),
    ],
)  # fmt: skip
def test_texts_are_answered_with_what_reads_them(texts):
    with pytest.raises(InputError, match="TfidfVectorizer"):
        NodeClassifier().fit(texts, [0, 1, 0, 1])


def test_a_report_says_where_it_is(fitted, tmp_path):
    assert fitted.report(tmp_path / "page.html") == tmp_path / "page.html"
    with pytest.raises(NotFittedError):
        NodeClassifier().report(tmp_path / "page.html")
