"""Links that several kinds have in common: one piece of evidence, not several."""

import numpy as np
import pytest
import scipy.sparse as sp

from nodeproof import NodeClassifier
from nodeproof.auto.likelihoods import kinds_overlap
from nodeproof.graph import Graph
from nodeproof.kinds import together

pytestmark = pytest.mark.numeric

N, K = 450, 3


def draw(z, p, q, seed, popular=None):
    """Return links between nodes of the same class with density p, else q, as a matrix."""
    likely = np.where(z[:, None] == z, p, q)
    if popular is not None:
        likely = likely * np.outer(popular, popular)
    found = np.triu(np.random.default_rng(seed).random(likely.shape) < likely, 1)
    return sp.csr_array((found | found.T).astype(np.float32))


def some_of(A, share, seed=0):
    """Return so many of the links."""
    upper = sp.triu(A, 1).tocoo()
    kept = np.random.default_rng(seed).random(upper.nnz) < share
    found = sp.csr_array((upper.data[kept], (upper.row[kept], upper.col[kept])), shape=A.shape)
    return sp.csr_array(found + found.T)


@pytest.fixture(scope="module")
def truth():
    return np.random.default_rng(0).permutation(np.repeat(np.arange(K), N // K))


@pytest.fixture(scope="module")
def y(truth):
    return np.where(np.random.default_rng(1).random(N) < 0.15, truth, -1)


@pytest.fixture(scope="module")
def links(truth):
    return draw(truth, 0.08, 0.035, 0)


def of(*matrices):
    return together([Graph(A) for A in matrices])


def test_kinds_that_are_drawn_apart_do_not_overlap(truth):
    popular = np.random.default_rng(0).pareto(2.0, N) + 0.5
    popular /= popular.mean()
    pairs = [
        (draw(truth, 0.08, 0.035, 1), draw(truth, 0.06, 0.03, 2)),
        (draw(truth, 0.2, 0.001, 1), draw(truth, 0.2, 0.001, 2)),  # both along the classes
        (draw(truth, 0.6, 0.5, 1), draw(truth, 0.05, 0.01, 2)),  # one links half of all pairs
        (draw(truth, 0.04, 0.01, 1, popular), draw(truth, 0.03, 0.02, 2, popular)),
    ]
    for first, second in pairs:
        assert not kinds_overlap(of(first, second), truth, K)
        assert not kinds_overlap(of(first, second), None, K)


@pytest.mark.parametrize("share", [0.4, 0.8, 1.0])
def test_kinds_that_repeat_links_of_others_overlap(truth, links, share):
    popular = np.random.default_rng(0).pareto(2.0, N) + 0.5
    uneven = draw(truth, 0.04, 0.01, 1, popular / popular.mean())
    apart = draw(truth, 0.05, 0.05, 3)
    for whole in (links, 2.5 * links, uneven):
        for codes in (truth, None):
            assert kinds_overlap(of(whole, apart, some_of(whole, share)), codes, K)


def test_one_kind_overlaps_with_nothing(links):
    assert not kinds_overlap(Graph(links), None, K)
    assert not kinds_overlap(of(links), None, K)


@pytest.fixture(scope="module")
def fits(links, y):
    once = NodeClassifier(random_state=0).fit(None, y, graph=links)
    twice = NodeClassifier(random_state=0).fit(None, y, graph={"a": links, "b": links})
    return once, twice


def test_a_kind_that_is_given_twice_counts_once(fits, truth, y):
    hidden = y < 0
    right = [(clf.labels_ == truth)[hidden].mean() for clf in fits]
    sure = [clf.proba_[hidden].max(axis=1).mean() for clf in fits]
    assert right[1] > right[0] - 0.03
    assert abs(sure[1] - sure[0]) < 0.05


def test_links_in_common_count_once_for_new_nodes_too(fits, links, truth, y, tmp_path):
    once, twice = fits
    new = sp.csr_array(links[:40])
    given = {"a": new, "b": new}
    sure = [once.predict_proba(graph=new), twice.predict_proba(graph=given)]
    assert abs(sure[0].max(axis=1).mean() - sure[1].max(axis=1).mean()) < 0.06
    twice.save(tmp_path / "model.npz")
    loaded = NodeClassifier.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(loaded.predict_proba(graph=given), sure[1])
    assert loaded.sources_ == twice.sources_


def test_a_model_that_counts_links_twice_is_not_taken_at_its_word(links, y):
    kinds = {"a": links, "b": some_of(links, 0.7)}
    clf = NodeClassifier(random_state=0).fit(None, y, graph=kinds)
    settings = {entry["expert"]: entry["setting"] for entry in clf.choices_["experts"]["value"]}
    if "Pooled" not in str(clf.choices_["terms"]["value"]):
        assert "links of all kinds" in settings["block model"]


def test_an_update_goes_on_with_all_links_together(fits, links, truth, y):
    _, twice = fits
    more = y.copy()
    more[np.flatnonzero(y < 0)[:5]] = truth[y < 0][:5]
    twice.update(y=more)
    assert (twice.labels_ == truth)[more < 0].mean() > 0.6
