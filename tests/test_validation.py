"""Labels to choose settings by: how they are given, and that nothing is fitted to them."""

import numpy as np
import pandas as pd
import pytest

from citation_helpers import draw_citations
from nodeproof import NodeClassifier
from nodeproof.errors import InputError
from nodeproof.inputs import check_validation, encode_labels
from nodeproof.terms import Labels, Softmax

K = 3


def fit(texts, y, validation, **settings):
    clf = NodeClassifier(random_state=0, n_jobs=1, **settings)
    return clf.fit(texts.X, y, graph=texts.graph, validation=validation)


@pytest.fixture(scope="module")
def few():
    return draw_citations((1 / 3,) * K, n=120, n_words=60, topical=0.6)


@pytest.fixture(scope="module")
def judged(few):
    """Return labels to fit to, and nodes to choose by."""
    y = few.labels(6)
    return y, np.flatnonzero(y < 0)[::3]


def test_labels_to_choose_by_can_be_given_in_three_ways(few, judged):
    y, nodes = judged
    mask = np.isin(np.arange(120), nodes)
    order = np.random.default_rng(0).permutation(len(nodes))
    ways = [
        (nodes[order], few.z[nodes[order]]),
        (mask, few.z[mask]),
        np.where(mask, few.z, -1),
    ]
    found = [fit(few, y, validation=way) for way in ways]
    assert len({clf.proba_.tobytes() for clf in found}) == 1
    assert f"{len(nodes)} held-out labels" in found[0].choices_["experts"]["why"]


def test_labels_to_choose_by_are_never_fitted_to(few, judged, monkeypatch):
    y, nodes = judged
    seen = []
    for term in (Labels, Softmax):
        bind = term.bind
        monkeypatch.setattr(
            term, "bind", lambda self, to, bind=bind: seen.append(to.y) or bind(self, to)
        )
    fit(few, y, validation=(nodes, few.z[nodes]))
    assert len(seen) > 2
    # In whatever order; labels to fit to are held out in turn as well.
    for labels in seen:
        assert (np.bincount(labels + 1)[1:] <= np.bincount(y + 1)[1:]).all()


def test_labels_to_choose_by_are_refused_where_there_is_nothing_to_choose(few, judged):
    y, nodes = judged
    with pytest.raises(InputError, match="validation is not used"):
        fit(few, y, validation=(nodes, few.z[nodes]), terms=[Softmax(hops=2), Labels()])


def encoded(*labels):
    return encode_labels(np.array(labels), None)


def test_nodes_and_class_numbers_are_returned():
    labels = encoded("b", "a", "", "", "", "c")
    nodes, codes = check_validation(([4, 2], ["c", "a"]), labels)
    assert (nodes.tolist(), codes.tolist()) == ([4, 2], [2, 0])
    nodes, codes = check_validation(["", "", None, "b", "", ""], labels)
    assert (nodes.tolist(), codes.tolist()) == ([3], [1])
    nodes, codes = check_validation(([2, 3, 4], ["a", None, "b"]), labels)
    assert (nodes.tolist(), codes.tolist()) == ([2, 4], [0, 1])
    assert check_validation(None, labels) is None


@pytest.mark.parametrize(
    ("validation", "message"),
    [
        (([2], [0], [1]), "3 parts"),
        (([2.5], [0]), "must be positions .* or a mask"),
        (([[2, 3]], [0, 1]), "must be positions .* or a mask"),
        (([2, 9], [0, 1]), "names node 9, but there are nodes 0 to 5"),
        (([2, -1], [0, 1]), "validation names node"),
        (([2, 3], [0]), "2 nodes, but 1 labels"),
        (([2, 2], [0, 0]), "names a node twice"),
        (([0, 2], [0, 1]), "node 0 is in validation and has a label in y"),
        (([2, 3], [0, 7]), "has the label 7, which y does not have"),
        (([2, 3], [-1, -1]), "holds no label"),
        (([], []), "validation"),
        ([-1] * 6, "holds no label"),
        ([-1, -1, 0], "one label per node, 6 in all; got 3"),
        ((np.array([True, False, True]), [0, 1]), "must be positions .* or a mask"),
    ],
)
def test_labels_to_choose_by_that_make_no_sense_are_refused(validation, message):
    with pytest.raises(InputError, match=message):
        check_validation(validation, encoded(0, 1, -1, -1, -1, 1))


def test_labels_to_choose_by_need_labels_to_fit(few):
    with pytest.raises(InputError, match="validation needs labels to fit"):
        fit(few, None, n_classes=K, validation=([0], [1]))


@pytest.mark.parametrize("called", ["v{}", None])
def test_labels_to_choose_by_are_matched_by_name(few, judged, called):
    y, nodes = judged
    ids = [called.format(v) if called else v for v in range(120)]
    truth = pd.Series(np.where(np.isin(np.arange(120), nodes), few.z, -1), index=ids)
    expected = fit(few, y, truth.to_numpy()).estimated_accuracy_
    named = pd.Series(y, index=ids)
    assert fit(few, named, truth).estimated_accuracy_ == expected
    pairs = (nodes, truth.iloc[nodes][::-1])
    assert fit(few, named, pairs).estimated_accuracy_ == expected
    if called:
        assert fit(few, named, truth.iloc[nodes][::-1]).estimated_accuracy_ == expected
        with pytest.raises(InputError, match="validation names the node 'w', which the fit"):
            fit(few, named, truth.rename({"v7": "w"}))
    else:  # a default index counts as none, but numbers in another order are hardly meant
        with pytest.raises(InputError, match="the fit and validation list the same nodes in diff"):
            fit(few, named, truth[::-1])


def test_labels_to_choose_by_may_be_counted_from_zero():
    labels = encoded(-1, -1, 0, 1)
    nodes, codes = check_validation(([1, 0], pd.Series([0, 1])), labels)
    assert (nodes.tolist(), codes.tolist()) == ([1, 0], [0, 1])
