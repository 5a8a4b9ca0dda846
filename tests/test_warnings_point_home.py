"""Warnings name the line that called the package, not a line inside it."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from nodeproof import NodeClassifier
from nodeproof.datasets import make_planted
from nodeproof.inputs.graph_objects import check_adjacency


@pytest.fixture(scope="module")
def data():
    return make_planted(cluster_size=40, random_state=0)


@pytest.fixture
def caught():
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        yield found


def test_fit_predict_and_predict_proba_point_to_their_caller(data, caught):
    clf = NodeClassifier(random_state=0, max_iter=1, weights="calibrated")
    clf.fit(data.X, data.y, graph=data.graph)
    clf.predict(data.X)
    clf.predict_proba(data.X)
    assert [warning.filename for warning in caught] == [__file__] * 3


def test_graphs_point_to_the_caller(data, caught):
    one_way = sp.triu(data.graph, format="csr")
    check_adjacency(one_way)
    NodeClassifier(random_state=0).fit(y=data.y, graph=one_way)
    nx = pytest.importorskip("networkx")
    check_adjacency(nx.path_graph(3, create_using=nx.DiGraph))
    directed = [w for w in caught if str(w.message).startswith("the graph is directed")]
    assert len(directed) == 3
    assert {warning.filename for warning in caught} == {__file__}


def test_edges_with_several_attributes_point_to_the_caller(caught):
    links = np.array([[0, 1, 1, 2], [1, 0, 2, 1]])
    check_adjacency(SimpleNamespace(edge_index=links, num_nodes=3, edge_attr=np.ones((4, 3))))
    assert "edge_attr has 3 columns" in str(caught[0].message)
    assert [warning.filename for warning in caught] == [__file__]


def test_a_threshold_that_joins_all_points_to_the_caller(data, caught):
    NodeClassifier(solver="block", weights=(1, 0, 0), threshold=1e-6, random_state=0).fit(
        graph=data.graph
    )
    assert any("all nodes form one class" in str(warning.message) for warning in caught)
    assert {warning.filename for warning in caught} == {__file__}
