"""Features that take the same value at many nodes: densities must not run away with them."""

from __future__ import annotations

import numpy as np
import pytest

from nodeproof import NodeClassifier
from nodeproof.datasets import make_planted
from nodeproof.metrics import matched_accuracy
from nodeproof.terms import Covariance, NodeData
from nodeproof.terms.covariance import repeated_share

KINDS = {
    "integers": lambda X, rng: X.astype(int),
    "cut off at zero": lambda X, rng: np.maximum(X, 0.0),
    "mostly zero": lambda X, rng: np.where(rng.uniform(size=X.shape) < 0.9, 0.0, X),
    "flags that mean nothing": lambda X, rng: (rng.uniform(size=X.shape) < 0.15).astype(bool),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("labelled", "seed"), [(True, 0), (False, 1)])
def test_links_that_tell_all_are_not_overruled(kind, labelled, seed):
    data = make_planted(cluster_size=60, p=0.3, q=0.05, random_state=seed)
    X = KINDS[kind](data.X, np.random.default_rng(seed))
    clf = NodeClassifier(3, random_state=0).fit(X, data.y if labelled else None, graph=data.graph)
    assert matched_accuracy(data.y_true, clf.labels_) > 0.95


def test_values_that_do_not_repeat_leave_the_covariance_alone():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3))
    term = Covariance().bind(NodeData(2, X))
    assert repeated_share(X).tolist() == [0.0, 0.0, 0.0]
    assert (term.ridge < 1e-8).all()


def test_the_share_of_the_commonest_value_is_counted():
    X = np.column_stack([np.repeat([1.0, 2.0, 3.0], [5, 14, 2]), np.arange(21.0), np.zeros(21)])
    assert repeated_share(X).tolist() == [13 / 20, 0.0, 1.0]
    assert repeated_share(X[:1]).tolist() == [0.0, 0.0, 0.0]
    order = np.random.default_rng(0).permutation(21)
    assert repeated_share(X[order]).tolist() == [13 / 20, 0.0, 1.0]
