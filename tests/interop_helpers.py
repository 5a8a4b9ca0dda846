"""Planted data, and a fit of it, that other libraries are compared with."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from nodeproof import NodeClassifier
from nodeproof.datasets import Planted, make_planted

KINDS = np.array(["ant", "bee", "cat"])


@cache
def planted() -> Planted:
    """Three classes of 40 nodes that are easy to tell; a fifth of the labels is wrong."""
    data = make_planted(cluster_size=40, p=0.4, q=0.05, label_accuracy=0.8, random_state=0)
    for array in (data.X, data.y, data.y_true, data.graph.data):
        array.flags.writeable = False
    return data


def fit(*args: Any, **kwargs: Any) -> NodeClassifier:
    """Fit all sources, without the pool of experts: what is given is read before these."""
    return NodeClassifier(n_init=1, weights="calibrated", random_state=0).fit(*args, **kwargs)


@cache
def reference() -> NodeClassifier:
    """Return the fit to plain arrays."""
    data = planted()
    return fit(data.X, data.y, graph=data.graph)


@cache
def names() -> tuple[str, ...]:
    """Return a name for every node, not in the order of the alphabet."""
    return tuple(f"node {(7 * v) % 120}" for v in range(120))


def kinds(missing: Any = None) -> list[Any]:
    """Return the labels as words."""
    return [missing if code < 0 else str(KINDS[code]) for code in planted().y]


def assert_same(clf: NodeClassifier, words: bool = False) -> None:
    """Check that a fit found what the one to plain arrays did, bit for bit."""
    expected = reference()
    labels = KINDS[expected.labels_] if words else expected.labels_
    np.testing.assert_array_equal(clf.labels_, labels)
    np.testing.assert_array_equal(clf.proba_, expected.proba_)
    np.testing.assert_array_equal(clf.fitted_.given, expected.fitted_.given)
    np.testing.assert_array_equal(clf.suspects_.node, expected.suspects_.node)
