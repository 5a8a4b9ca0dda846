"""Rows that belong together: names match them, wherever they meet, and positions do otherwise."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pandas as pd
import pytest

from interop_helpers import assert_same, fit, kinds, names, planted, reference
from nodeproof import NodeClassifier
from nodeproof.errors import InputError
from nodeproof.interop import to_networkx, to_table
from nodeproof.model_selection import cross_validate
from nodeproof.storage.graph_folder import write_graph_folder

N = 120

INDICES = {
    "text": pd.Index(list(names())),
    "integers": pd.Index([1000 - 3 * v for v in range(N)]),
    "another range": pd.RangeIndex(7, 7 + N),
    "floats": pd.Index([v + 0.5 for v in range(N)]),
    "dates": pd.date_range("2020-01-01", periods=N)[::-1],
    "several levels": pd.MultiIndex.from_product([["a", "b", "c"], range(40)]),
    "categories": pd.CategoricalIndex(list(names())),
}
ORDER = np.random.default_rng(0).permutation(N)


def table(index) -> pd.DataFrame:
    return pd.DataFrame(planted().X, index=index)


def labels(index) -> pd.Series:
    return pd.Series(planted().y, index=index)


def network(index) -> nx.Graph:
    graph = nx.Graph()
    called = index.tolist()
    graph.add_nodes_from(called)
    graph.add_edges_from(
        (called[u], called[v]) for u, v in zip(*planted().graph.nonzero(), strict=True)
    )
    return graph


def shuffled_network(index) -> nx.Graph:
    graph = nx.Graph()
    graph.add_nodes_from(index[ORDER].tolist())
    graph.add_edges_from(network(index).edges)
    return graph


# Labels and features. -------------------------------------------------------------------


@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
def test_labels_in_another_order_are_matched_by_name(index):
    clf = fit(table(index), labels(index).iloc[ORDER], graph=planted().graph)
    assert_same(clf)
    assert clf.node_ids_.tolist() == index.tolist()


@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
def test_labels_of_some_nodes_leave_the_others_unknown(index):
    known = labels(index).iloc[ORDER]
    known = known[known >= 0]
    assert 0 < len(known) < N
    assert_same(fit(table(index), known, graph=planted().graph))
    words = pd.Series(kinds(), index=index).iloc[ORDER].dropna()
    assert_same(fit(table(index), words, graph=planted().graph), words=True)


@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
def test_a_name_without_a_match_is_refused(index):
    with pytest.raises(InputError, match=r"y names the node .*, which X does not have") as caught:
        fit(table(index).drop(index[5]), labels(index))
    assert repr(index.tolist()[5]) in str(caught.value)


def test_a_single_other_name_is_refused():
    other = labels(INDICES["text"]).rename({"node 21": "node 21 "})
    with pytest.raises(InputError, match="y names the node 'node 21 ', which X does not have"):
        fit(table(INDICES["text"]), other)


def test_a_number_is_no_text():
    numbers, texts = pd.Index(range(5, 125)), pd.Index([str(v) for v in range(5, 125)])
    message = r"names the node '5', .*names are text in y and numbers in X.*index\.map\(str\)"
    with pytest.raises(InputError, match=message):
        fit(table(numbers), labels(texts))
    assert_same(fit(table(numbers.map(str)), labels(texts)[::-1], graph=planted().graph))


@pytest.mark.parametrize("part", ["X", "y"])
def test_names_that_two_rows_share_are_refused(part):
    index = pd.Index([*names()[:-1], names()[3]])
    given = {"X": planted().X, "y": planted().y}
    given[part] = table(index) if part == "X" else labels(index)
    with pytest.raises(InputError, match=f"{part} gives 'node 21' as the name of more .* row 119"):
        fit(**given)


def test_missing_names_are_refused():
    with pytest.raises(InputError, match="X has no name for row 2"):
        fit(table(pd.Index([0.5, 1.5, np.nan, *range(3, N)])), planted().y)


def test_rows_without_names_go_by_position():
    for index in INDICES.values():
        clf = fit(table(index), planted().y, graph=planted().graph)
        assert_same(clf)
        assert clf.node_ids_.tolist() == index.tolist()
        assert_same(fit(table(index), pd.Series(planted().y), graph=planted().graph))
        assert_same(fit(pd.DataFrame(planted().X), labels(index), graph=planted().graph))
        assert_same(fit(planted().X, labels(index), graph=planted().graph))


def test_names_of_some_rows_need_names_of_all():
    known = labels(INDICES["integers"])[:20]
    for X in (planted().X, pd.DataFrame(planted().X)):
        with pytest.raises(InputError, match="y names 20 nodes, but X has 120 rows without names"):
            fit(X, known, graph=planted().graph)


def test_labels_keep_their_type_when_some_are_missing():
    large = pd.Series([2**60 + 1, 2**60 + 2], index=["a", "d"])
    X = pd.DataFrame({"x": [0.0, 0.1, 1.0, 1.1]}, index=list("abcd"))
    assert fit(X, large).classes_.tolist() == large.tolist()
    assert fit(X, large > 2**60 + 1).classes_.dtype == bool


# The graph as a third party. ------------------------------------------------------------


@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
def test_the_nodes_of_a_graph_are_matched_too(index):
    clf = fit(table(index), labels(index)[::-1], graph=shuffled_network(index))
    assert_same(clf)
    known = labels(index)[labels(index) >= 0]
    by_graph = fit(y=known, graph=network(index))
    expected = fit(y=planted().y, graph=planted().graph)
    np.testing.assert_array_equal(by_graph.proba_, expected.proba_)
    assert by_graph.node_ids_.tolist() == index.tolist()


def test_the_numbers_of_a_graph_match_numbers_and_are_positions_beside_other_names():
    club = nx.karate_club_graph()
    clf = fit(y=pd.Series({33: "Officer", 0: "Mr. Hi"}), graph=club)
    expected = fit(y=["Mr. Hi", *[None] * 32, "Officer"], graph=club)
    np.testing.assert_array_equal(clf.proba_, expected.proba_)
    assert not hasattr(clf, "node_ids_")
    with pytest.raises(InputError, match="y names the node 34, which graph does not have"):
        fit(y=pd.Series({34: "Officer", 1: "Mr. Hi"}), graph=club)
    graph = nx.from_scipy_sparse_array(planted().graph)
    assert_same(fit(table(INDICES["text"]), labels(INDICES["text"])[::-1], graph=graph))


def test_a_default_index_of_a_square_table_counts_as_none():
    dense = pd.DataFrame(planted().graph.toarray())
    assert_same(fit(planted().X, labels(INDICES["another range"]), graph=dense))
    with pytest.raises(InputError, match="graph and y list the same nodes in different orders"):
        fit(y=pd.Series(planted().y)[::-1], graph=dense)


def test_a_node_that_only_one_part_has_is_refused():
    index = INDICES["text"]
    small = network(index)
    small.remove_node("node 35")
    with pytest.raises(InputError, match="X names the node 'node 35', which graph does not have"):
        fit(table(index), planted().y, graph=small)
    with pytest.raises(InputError, match="graph names the node 'node 35', which X does not have"):
        fit(table(index).drop("node 35"), graph=network(index))
    with pytest.raises(InputError, match="y names the node 'node 35', which graph does not have"):
        fit(y=labels(index), graph=small)


def test_rows_that_could_follow_either_order_are_refused():
    index = INDICES["text"]
    with pytest.raises(InputError, match="y has no names, and X and graph list the same nodes in"):
        fit(table(index), planted().y, graph=shuffled_network(index))
    with pytest.raises(InputError, match="X has no names, and y and graph list the same nodes in"):
        fit(planted().X, labels(index), graph=shuffled_network(index))
    # Labels of some nodes are in no order of all.
    known = labels(index)[labels(index) >= 0]
    assert_same(fit(planted().X, known, graph=network(index)))


def test_a_square_table_is_brought_into_the_order_of_features():
    index = INDICES["text"]
    dense = pd.DataFrame(planted().graph.toarray(), index=index, columns=index)
    turned = dense.iloc[ORDER, ORDER]
    assert_same(fit(table(index), labels(index), graph=turned))


@pytest.mark.parametrize("kind", ["text", "dates", "several levels"])
def test_links_between_names_of_any_kind(kind):
    index = INDICES[kind]
    rows, columns = planted().graph.nonzero()
    called = pd.Series(index.tolist())
    links = pd.DataFrame({"source": called[rows].tolist(), "target": called[columns].tolist()})
    assert_same(fit(table(index), labels(index)[::-1], graph=links))
    by_links = fit(y=labels(index)[labels(index) >= 0], graph=links)
    assert sorted(map(str, by_links.node_ids_)) == sorted(map(str, index.tolist()))


def test_labels_and_links_that_each_have_a_node_of_their_own_are_refused():
    links = {"source": ["a", "b"], "target": ["b", "c"]}
    with pytest.raises(InputError, match=r"y names the node 'd', which is in no link, .* as 'c'"):
        fit(y=pd.Series([0, 1, 1], index=["a", "b", "d"]), graph=links)


def test_the_names_of_a_folder_are_matched(tmp_path):
    index = INDICES["text"]
    write_graph_folder(tmp_path / "graph", planted().graph, ids=list(index))
    expected = fit(y=planted().y, graph=planted().graph)
    clf = fit(y=labels(index).iloc[ORDER][lambda known: known >= 0], graph=tmp_path / "graph")
    np.testing.assert_array_equal(clf.labels_, expected.labels_)
    assert clf.node_ids_.tolist() == index.tolist()
    with pytest.raises(InputError, match=r"a different order than X: give X\.loc"):
        fit(table(index)[::-1], graph=tmp_path / "graph")


# Labels to choose and to judge by. ------------------------------------------------------


def test_folds_are_made_of_matched_rows():
    index, clf = INDICES["text"], NodeClassifier(n_init=1, random_state=0)
    plain = cross_validate(clf, planted().X, planted().y, graph=planted().graph, cv=2)
    named = cross_validate(
        clf, table(index), labels(index).iloc[ORDER], graph=shuffled_network(index), cv=2
    )
    np.testing.assert_array_equal(named["test_accuracy"], plain["test_accuracy"])


def test_folds_of_links_in_a_folder_are_made_of_matched_rows(tmp_path):
    index, clf = INDICES["text"], NodeClassifier(n_init=1, random_state=0)
    write_graph_folder(tmp_path / "graph", planted().graph, ids=list(index))
    plain = cross_validate(clf, None, planted().y, graph=planted().graph, cv=2)
    named = cross_validate(clf, None, labels(index).iloc[ORDER], graph=tmp_path / "graph", cv=2)
    np.testing.assert_array_equal(named["test_accuracy"], plain["test_accuracy"])


def test_the_truth_of_a_report_is_matched(tmp_path):
    index = INDICES["dates"]
    clf = fit(table(index), labels(index), graph=planted().graph)
    truth = pd.Series(planted().y_true, index=index)
    clf.report(tmp_path / "plain.html", y_true=truth.to_numpy())
    clf.report(tmp_path / "named.html", y_true=truth.iloc[ORDER])
    assert (tmp_path / "named.html").read_text() == (tmp_path / "plain.html").read_text()
    with pytest.raises(InputError, match=r"y_true names the node .* the fit does not have"):
        clf.report(tmp_path / "other.html", y_true=truth.set_axis(range(5, 125)))


# Out. -----------------------------------------------------------------------------------


def test_labels_are_written_to_the_node_of_that_name():
    index = INDICES["several levels"]
    clf = fit(table(index), labels(index), graph=network(index))
    turned = to_networkx(clf, shuffled_network(index))
    found = nx.get_node_attributes(turned, "nodeproof")
    assert [found[name] for name in index.tolist()] == reference().labels_.tolist()
    other = nx.relabel_nodes(network(index), {("a", 7): ("z", 7)})
    with pytest.raises(InputError, match=r"the classifier names the node \('a', 7\), which the gr"):
        to_networkx(clf, other)


@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
def test_saved_models_and_tables_keep_names_as_numbers_or_text(index, tmp_path):
    clf = fit(table(index), labels(index), graph=planted().graph)
    clf.save(tmp_path / "model.npz")
    loaded = NodeClassifier.load(tmp_path / "model.npz")
    native = index.tolist() if clf.node_ids_.dtype.kind in "ifU" else list(map(str, index))
    assert loaded.node_ids_.tolist() == native
    assert to_table(loaded)["node"].tolist() == to_table(clf)["node"].tolist() == native
