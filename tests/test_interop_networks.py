"""networkx and igraph: in, back with what was found, and the names of nodes on the way."""

from __future__ import annotations

import csv
import warnings

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

from interop_helpers import KINDS, assert_same, fit, kinds, names, planted, reference
from nodeproof import NodeClassifier
from nodeproof.cli import main
from nodeproof.errors import InputError
from nodeproof.inputs.graph_objects import check_adjacency
from nodeproof.interop import to_igraph, to_networkx

igraph = pytest.importorskip("igraph", reason="igraph is not installed")


def links() -> list[tuple[int, int]]:
    rows, columns = sp.triu(planted().graph).nonzero()
    return list(zip(rows.tolist(), columns.tolist(), strict=True))


def network(kind=nx.Graph) -> nx.Graph:
    graph = kind()
    graph.add_nodes_from(names())
    graph.add_edges_from((names()[u], names()[v]) for u, v in links())
    return graph


def vertices() -> igraph.Graph:
    graph = igraph.Graph(n=120, edges=links())
    graph.vs["name"] = list(names())
    return graph


@pytest.mark.parametrize("kind", [nx.Graph, nx.MultiGraph])
def test_rows_follow_the_order_of_a_networkx_graphs_nodes(kind):
    clf = fit(planted().X, planted().y, graph=network(kind))
    assert_same(clf)
    assert clf.node_ids_.tolist() == list(network().nodes)


@pytest.mark.parametrize("kind", [nx.DiGraph, nx.MultiDiGraph])
def test_a_directed_networkx_graph_is_taken_both_ways_with_a_warning(kind):
    with pytest.warns(UserWarning, match="directed"):
        assert_same(fit(planted().X, planted().y, graph=network(kind)))


def test_rows_follow_the_order_of_an_igraph_graphs_vertices():
    clf = fit(planted().X, planted().y, graph=vertices())
    assert_same(clf)
    assert clf.node_ids_.tolist() == list(names())
    del (plain := vertices()).vs["name"]
    assert not hasattr(fit(planted().X, planted().y, graph=plain), "node_ids_")


def test_a_directed_igraph_graph_is_taken_both_ways_with_a_warning():
    with pytest.warns(UserWarning, match="directed"):
        assert_same(fit(planted().X, planted().y, graph=igraph.Graph(edges=links(), directed=True)))


def test_parallel_links_count_once_by_the_largest_weight():
    multi = nx.MultiGraph()
    multi.add_weighted_edges_from([("a", "b", 1.0), ("b", "a", 4.0), ("b", "c", 2.0)])
    expected = [[0, 4, 0], [4, 0, 2], [0, 2, 0]]
    parallel = igraph.Graph(edges=[(0, 1), (1, 0), (1, 2), (2, 2)])
    parallel.es["weight"] = [1.0, 4.0, 2.0, 9.0]
    for graph in (multi, parallel):
        with pytest.warns(UserWarning, match="1 entry repeats another in the list of links"):
            np.testing.assert_array_equal(check_adjacency(graph).toarray(), expected)


@pytest.mark.parametrize("weight", ["strong", None, [1]])
def test_weights_that_are_no_numbers_are_refused_by_their_link(weight):
    graph = nx.path_graph(3)
    graph[1][2]["weight"] = weight
    with pytest.raises(InputError, match=r"link \(1, 2\) is no"):
        check_adjacency(graph)
    graph = igraph.Graph(edges=[(0, 1), (1, 2)])
    graph.es["weight"] = [1.0, weight]
    with pytest.raises(InputError, match=r"link \(1, 2\) is no"):
        check_adjacency(graph)
    graph = nx.Graph([("ann", "bob", {"weight": weight})])
    with pytest.raises(InputError, match=r"link \('ann', 'bob'\) is no"):
        check_adjacency(graph)


@pytest.mark.filterwarnings("ignore:the data do not tell")
def test_nodes_that_are_positions_have_no_names():
    assert not hasattr(fit(y=[0, -1, -1, 1], graph=nx.path_graph(4)), "node_ids_")


@pytest.mark.filterwarnings("ignore:the data do not tell")
@pytest.mark.parametrize(
    "nodes", [[0, 10, 20, 30], [(0, 0), (0, 1), (1, 0), (1, 1)], [0, "a", 2, 3]]
)
def test_nodes_may_be_called_by_anything(nodes):
    graph = nx.relabel_nodes(nx.path_graph(4), dict(enumerate(nodes)))
    assert fit(y=[0, -1, -1, 1], graph=graph).node_ids_.tolist() == nodes


# Rows in another order. -----------------------------------------------------------------


def test_labels_without_names_between_two_orders_are_refused():
    table = pd.DataFrame(planted().X, index=list(names()))
    assert_same(fit(table, planted().y, graph=network()))
    turned = table.iloc[::-1]
    for graph in (network(), vertices()):
        with pytest.raises(InputError, match=r"X and graph list .* row 0 is 'node 113' in X"):
            fit(turned, planted().y, graph=graph)
        assert_same(fit(turned.loc[list(names())], planted().y, graph=graph))


def shuffled() -> nx.Graph:
    """Return the graph with numbers for names, as links come."""
    return nx.Graph(links()[::-1])


def test_numbers_beside_a_default_index_in_another_order_are_refused():
    graph = shuffled()
    assert sorted(graph) == list(range(120)) != list(graph)
    labels = pd.Series(planted().y)
    for changed in (labels.sample(frac=1, random_state=0), labels[::-1]):
        with pytest.raises(InputError, match="X and y list the same nodes in different orders"):
            fit(pd.DataFrame(planted().X), changed)
        # Both in one order are taken as they come.
        order = changed.index
        fit(pd.DataFrame(planted().X).loc[order], changed)
    with pytest.raises(InputError, match="row 0 is 0 in y and 116 in graph"):
        fit(y=labels, graph=graph)
    clf = fit(y=labels[list(graph)], graph=graph)
    assert clf.node_ids_.tolist() == list(graph)


def test_rows_without_names_beside_numbered_nodes_in_another_order_are_asked_about():
    graph = shuffled()
    with pytest.warns(UserWarning, match=r"nodes 0 to 119 in another order, 116, .*are taken"):
        clf = fit(y=planted().y[list(graph)], graph=graph)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        to_networkx(clf, graph)
        fit(graph=graph)
        fit(y=planted().y, graph=nx.from_scipy_sparse_array(planted().graph))
    with pytest.warns(UserWarning, match="labels are written in that order"):
        to_networkx(reference(), graph)


def test_an_index_of_other_names_is_refused():
    table = pd.DataFrame(planted().X, index=[f"row {v}" for v in range(120)])
    with pytest.raises(InputError, match="graph names the node 'node 0', which X does not have"):
        fit(table, planted().y, graph=network())


# Out. -----------------------------------------------------------------------------------


def test_nodes_of_a_networkx_graph_get_plain_attributes(tmp_path):
    graph = network()
    clf = fit(planted().X, kinds(), graph=graph)
    assert to_networkx(clf, graph) is graph
    assert nx.get_node_attributes(graph, "nodeproof") == dict(
        zip(names(), KINDS[reference().labels_].tolist(), strict=True)
    )
    suspects = {node for node, doubt in graph.nodes(data="nodeproof_suspect") if doubt}
    assert suspects
    assert suspects == set(clf.node_ids_[clf.suspects_.node].tolist())
    nx.write_graphml(graph, tmp_path / "graph.graphml")
    read = nx.read_graphml(tmp_path / "graph.graphml")
    for name, value in graph.nodes["node 7"].items():
        assert type(read.nodes["node 7"][name]) is type(value)
        assert read.nodes["node 7"][name] == pytest.approx(value)


def test_vertices_of_an_igraph_graph_get_attributes():
    graph = vertices()
    assert to_igraph(reference(), graph, key="found") is graph
    assert graph.vs["found"] == reference().labels_.tolist()
    assert graph.vs["found_probability"] == reference().proba_.max(axis=1).tolist()
    assert np.flatnonzero(graph.vs["found_suspect"]).tolist() == sorted(reference().suspects_.node)


@pytest.mark.parametrize("write", [to_networkx, to_igraph])
def test_a_graph_of_other_nodes_is_refused(write):
    with pytest.raises(NotFittedError):
        write(NodeClassifier(), network() if write is to_networkx else vertices())
    named = fit(y=planted().y, graph=network())
    other = nx.Graph()
    other.add_nodes_from(f"vertex {v}" for v in range(120))
    small = nx.path_graph(7)
    if write is to_igraph:
        other, small = igraph.Graph.from_networkx(other), igraph.Graph.from_networkx(small)
        other.vs["name"] = other.vs["_nx_name"]
    with pytest.raises(InputError, match="the classifier names the node 'node 0', which the graph"):
        write(named, other)
    with pytest.raises(InputError, match="the graph has 7 nodes, but the classifier was fitted to"):
        write(named, small)


# Saved models. --------------------------------------------------------------------------


def test_a_saved_model_keeps_the_names_and_new_nodes_are_linked_by_them(tmp_path):
    clf = fit(y=kinds(), graph=network())
    clf.save(tmp_path / "model.npz")
    loaded = NodeClassifier.load(tmp_path / "model.npz")
    assert loaded.node_ids_.tolist() == list(names())
    to_networkx(loaded, network())
    # By position, as ever.
    pairs = np.array([[0, v] for v in np.flatnonzero(planted().y_true == 2)[:9]])
    np.testing.assert_array_equal(loaded.predict(graph=pairs), clf.predict(graph=pairs))
    assert loaded.predict(graph=pairs).tolist() == ["cat"]
    # By name, in files.
    lines = [f"new,{names()[v]}" for _, v in pairs]
    (tmp_path / "links.csv").write_text("\n".join(["source,target", *lines]) + "\n")
    out = tmp_path / "new.csv"
    arguments = ["--edges", str(tmp_path / "links.csv"), "--out", str(out)]
    with pytest.raises(SystemExit) as end:
        main(["predict", str(tmp_path / "model.npz"), *arguments])
    assert not end.value.code
    [row] = csv.DictReader(out.read_text().splitlines())
    assert (row["node"], row["label"]) == ("new", "cat")


@pytest.mark.parametrize("write", [to_networkx, to_igraph])
def test_what_is_no_network_is_not_written_to(write):
    with pytest.raises(InputError, match=r"expected an? \w+ graph, got csr_array"):
        write(reference(), sp.csr_array((3, 3)))
