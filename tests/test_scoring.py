"""The accuracy of a classifier: it is said which nodes are judged."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_blobs
from sklearn.model_selection import GridSearchCV, cross_val_score

from interop_helpers import fit, planted, reference
from nodeproof import NodeClassifier
from nodeproof.errors import InputError
from nodeproof.model_selection import GridSearch


def accuracy_where(known) -> float:
    return float((reference().labels_ == planted().y_true)[known].mean())


def test_the_fitted_nodes_are_scored_links_and_all():
    assert reference().score(y=planted().y_true) == accuracy_where(slice(None))


def test_nodes_of_unknown_class_do_not_count():
    hidden = np.where(planted().y < 0, planted().y_true, -1)
    assert reference().score(y=hidden) == accuracy_where(planted().y < 0)
    missing = np.where(hidden < 0, np.nan, hidden)
    assert reference().score(y=missing) == accuracy_where(planted().y < 0)
    weights = np.where(np.arange(120) < 60, 2.0, 0.0)
    scored = reference().score(y=planted().y_true, sample_weight=weights)
    assert scored == accuracy_where(slice(60))


def test_rows_alone_are_not_taken_for_new_nodes_in_silence():
    for rows in (slice(None), slice(9)):
        with pytest.raises(InputError, match=r"score\(y=y\) .* score\(X, y, graph=links\)"):
            reference().score(planted().X[rows], planted().y_true[rows])


def test_new_nodes_are_scored_by_their_links():
    X, y, links = planted().X[:9], planted().y_true[:9], planted().graph[:9]
    expected = (reference().predict(X, graph=links) == y).mean()
    assert reference().score(X, y, graph=links) == expected
    assert 0 <= reference().score(X, y, graph=[]) <= 1
    named = pd.DataFrame(X, index=list("abcdefghi"))
    truth = pd.Series(y, index=named.index)
    assert reference().score(named, truth[::-1], graph=links) == expected


def test_a_classifier_of_features_alone_scores_new_rows():
    X, y = make_blobs(60, random_state=0)
    clf = NodeClassifier(random_state=0).fit(X[:40], y[:40])
    assert clf.score(X[40:], y[40:]) == (clf.predict(X[40:]) == y[40:]).mean()
    assert clf.score(y=y[:40]) == (clf.labels_ == y[:40]).mean()
    assert cross_val_score(NodeClassifier(random_state=0), X, y, cv=2).min() > 0.5


def test_names_say_which_nodes_the_truth_is_of():
    ids = pd.Index([f"v{v}" for v in range(120)])
    clf = fit(pd.DataFrame(planted().X, index=ids), planted().y, graph=planted().graph)
    truth = pd.Series(planted().y_true, index=ids)
    assert clf.score(y=truth[::-1]) == accuracy_where(slice(None))
    assert clf.score(y=truth[50:60][::-1]) == accuracy_where(slice(50, 60))
    with pytest.raises(InputError, match="y names the node 'w', which the fit does not have"):
        clf.score(y=truth.rename({"v3": "w"}))


def test_links_of_new_nodes_may_go_between_names():
    ids = pd.Index([f"v{v}" for v in range(120)])
    clf = fit(pd.DataFrame(planted().X, index=ids), planted().y, graph=planted().graph)
    new = pd.DataFrame(planted().X[:9], index=[f"new {v}" for v in range(9)])
    ends = planted().graph[:9].nonzero()
    links = {"new": new.index[ends[0]], "fitted": ids[ends[1]]}
    expected = clf.predict_proba(planted().X[:9], graph=np.column_stack(ends))
    np.testing.assert_array_equal(clf.predict_proba(new, graph=links), expected)
    with pytest.raises(InputError, match="'v120', which is neither a fitted nor a new node"):
        clf.predict(new, graph={"new": ["new 0"], "fitted": ["v120"]})
    numbered = fit(
        pd.DataFrame(planted().X, index=range(5, 125)), planted().y, graph=planted().graph
    )
    with pytest.raises(InputError, match="may be names or positions"):
        numbered.predict(planted().X[:1], graph={"new": [0], "fitted": [7]})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, r"score needs the true labels: score\(y=y\)"),
        ({"y": [0, 1]}, "y has 2 entries for 120 fitted nodes"),
        ({"y": [-1] * 120}, "y has no known labels"),
        ({"y": ["ant"] * 120}, "no label of y is one of the classes"),
    ],
)
def test_what_cannot_be_scored_is_said(given, message):
    with pytest.raises(InputError, match=message):
        reference().score(**given)


def test_a_search_scores_by_its_best_classifier():
    search = GridSearch(NodeClassifier(random_state=0), {"n_init": [1]}, cv=2, random_state=0)
    search.fit(planted().X, planted().y, graph=planted().graph)
    truth = planted().y_true
    assert search.score(y=truth) == search.best_estimator_.score(y=truth)


@pytest.mark.parametrize(
    "graph",
    [
        planted().graph,
        nx.from_scipy_sparse_array(planted().graph),
        np.array(planted().graph.nonzero()),
    ],
    ids=["matrix", "networkx", "edge_index"],
)
def test_cross_validation_that_cuts_the_graph_is_answered_with_ours(graph):
    clf = NodeClassifier(n_init=1, random_state=0)
    ours = "cross_validate or GridSearch of nodeproof.model_selection"
    for search in (
        lambda: cross_val_score(
            clf, planted().X, planted().y_true, cv=2, params={"graph": graph}, error_score="raise"
        ),
        lambda: GridSearchCV(clf, {"n_init": [1]}, cv=2).fit(
            planted().X, planted().y_true, graph=graph
        ),
    ):
        with pytest.raises(ValueError, match=ours):
            search()
    with pytest.raises(InputError) as caught:
        clf.fit(planted().X[:60], planted().y_true[:60], graph=planted().graph)
    assert "nodeproof.model_selection" not in str(caught.value)
