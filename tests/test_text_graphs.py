"""NodeClassifier on graphs of texts: sparse counts, hubs, settings chosen on held-out labels."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from citation_helpers import draw_citations
from nodeproof import NodeClassifier
from nodeproof.errors import InputError
from nodeproof.metrics import matched_accuracy
from nodeproof.solvers.sweep import Sweeper
from nodeproof.terms import Labels, Softmax

K = 3
THIRDS = (1 / 3,) * K

pytestmark = pytest.mark.filterwarnings("ignore:no node was assigned:UserWarning")


def fit(texts, y, graph=True, validation=None, **settings):
    clf = NodeClassifier(random_state=0, n_jobs=1, **settings)
    return clf.fit(texts.X, y, graph=texts.graph if graph else None, validation=validation)


def accuracy(clf, texts, y):
    """Return the accuracy at the nodes without a label."""
    return (clf.labels_ == texts.z)[y < 0].mean()


@pytest.fixture(scope="module")
def texts():
    return draw_citations(THIRDS, n=300, n_words=200)


@pytest.fixture(scope="module")
def y(texts):
    return texts.labels(12)


@pytest.fixture(scope="module")
def fitted(texts, y):
    return fit(texts, y)


@pytest.fixture(scope="module")
def few():
    """Return a smaller graph that is easier to tell."""
    return draw_citations(THIRDS, n=120, n_words=60, topical=0.6)


# What it finds. -------------------------------------------------------------------------


def test_links_and_words_together_tell_the_classes(texts, y, fitted):
    together = accuracy(fitted, texts, y)
    assert together > 0.8  # the largest class has a third of the nodes
    assert together > accuracy(fit(texts, y, graph=False), texts, y) + 0.1
    assert fitted.proba_.shape == (300, K)
    np.testing.assert_allclose(fitted.proba_.sum(axis=1), 1.0, rtol=1e-6)
    assert sum(fitted.sources_.values()) == pytest.approx(1.0)


@pytest.mark.parametrize("inside", [0.05, 1 / 3], ids=["to other classes", "at random"])
def test_links_that_do_not_stay_in_the_class_do_no_harm(inside):
    texts = draw_citations(THIRDS, n=240, n_words=100, topical=0.5, inside=inside)
    y = texts.labels(20)
    with_links, without = fit(texts, y), fit(texts, y, graph=False)
    assert accuracy(with_links, texts, y) > accuracy(without, texts, y) - 0.04


def test_an_accuracy_is_estimated_and_what_was_chosen_is_told(texts, y, fitted):
    estimate, low, high = fitted.estimated_accuracy_
    assert estimate == pytest.approx(accuracy(fitted, texts, y), abs=0.12)
    assert 0.5 < low <= estimate <= high <= 1.0
    assert fitted.choices_["accuracy"]["value"] == pytest.approx(estimate, abs=1e-3)
    assert "36 held-out labels" in fitted.choices_["experts"]["why"]
    assert all(set(choice) == {"value", "why"} for choice in fitted.choices_.values())


def test_without_held_out_labels_no_accuracy_is_estimated(few):
    y = few.labels(5)
    assert fit(few, y, terms=[Softmax(), Labels()]).estimated_accuracy_ is None
    assert fit(few, y, weights="calibrated").estimated_accuracy_ is None
    assert fit(few, few.labels(1)).estimated_accuracy_ is None


def test_counts_without_labels_are_grouped(few):
    clf = fit(few, None, n_classes=K)
    assert matched_accuracy(few.z, clf.labels_) > 0.85


def test_wrong_labels_are_found_among_texts():
    found = wrong_ones = suspected = 0
    right = []
    for seed in (0, 4):
        texts = draw_citations(THIRDS, n=300, n_words=200, topical=0.5, seed=seed)
        y = texts.labels(30, seed)
        rng = np.random.default_rng(seed)
        flipped = rng.choice(np.flatnonzero(y >= 0), 27, replace=False)
        y[flipped] = (y[flipped] + rng.integers(1, K, 27)) % K
        clf = fit(texts, y)
        wrong = y[clf.suspects_.node] != texts.z[clf.suspects_.node]
        found, suspected = found + wrong.sum(), suspected + len(wrong)
        wrong_ones += len(flipped)
        right.append(accuracy(clf, texts, y))
    assert np.mean(right) > 0.8
    assert found > 0.7 * suspected  # by chance: 0.3
    assert found > 0.25 * wrong_ones


# Few labels. ----------------------------------------------------------------------------


def test_one_label_a_class_is_enough_for_a_fit(few):
    clf = fit(few, few.labels(1))
    assert clf.proba_.shape == (120, K)
    assert np.isfinite(clf.proba_).all()
    assert set(clf.labels_) <= set(range(K))


def test_one_label_a_class_tells_more_than_chance(texts):
    """Links alone reach 0.8, words as counts and links 0.9."""
    y = texts.labels(1)
    assert accuracy(fit(texts, y), texts, y) > 0.5


def one_of_the_last(texts, per_class=10):
    y = texts.labels(per_class)
    last = np.flatnonzero(y == K - 1)
    y[last[1:]] = -1
    return y, last[0]


def test_a_class_with_a_single_label_is_no_obstacle(few):
    y, _ = one_of_the_last(few)
    clf = fit(few, y)
    assert np.isfinite(clf.proba_).all()
    assert accuracy(clf, few, y) > 0.5


def test_the_only_label_of_a_class_is_not_suspected_for_being_alone(few):
    y, alone = one_of_the_last(few)
    assert alone not in fit(few, y).suspects_.node


def test_every_node_may_have_a_label(few):
    clf = fit(few, few.z)
    assert (clf.labels_ == few.z).mean() > 0.9


# What is given. -------------------------------------------------------------------------


def test_names_of_classes_may_be_words(few):
    y, names = few.labels(6), np.array(["ant", "bee", "cow"])
    terms = [Softmax(hops=2), Labels()]
    numbered, named = (
        fit(few, labels, terms=terms) for labels in (y, np.where(y >= 0, names[y], ""))
    )
    assert named.proba_.tobytes() == numbered.proba_.tobytes()
    np.testing.assert_array_equal(named.labels_, names[numbered.labels_])


def test_any_sparse_format_will_do(few):
    y = few.labels(6)
    clf = NodeClassifier(terms=[Softmax(hops=2), Labels()], random_state=0, n_jobs=1)
    rows = {clf.fit(few.X, y, graph=few.graph).proba_.tobytes()}
    for convert in (sp.csc_array, sp.coo_matrix, lambda X: sp.csr_array(X, dtype=np.int64)):
        rows.add(clf.fit(convert(few.X), y, graph=few.graph).proba_.tobytes())
    assert len(rows) == 1


def test_rows_without_a_word_and_nodes_without_a_link_are_labelled_too(few):
    X, graph = few.X.tolil(), few.graph.tolil()
    X[:5], graph[3:8], graph[:, 3:8] = 0, 0, 0
    clf = NodeClassifier(random_state=0, n_jobs=1)
    y = few.labels(8)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        clf.fit(X.tocsr(), y, graph=graph.tocsr())
    assert np.isfinite(clf.proba_).all()
    assert (clf.labels_ == few.z)[8:][y[8:] < 0].mean() > 0.8


@pytest.mark.parametrize(("value", "name"), [(np.nan, "NaN"), (np.inf, "infinity")])
def test_an_entry_that_is_not_finite_is_named(few, value, name):
    X = few.X.copy()
    X.data[X.indptr[7] + 1] = value
    column = X.indices[X.indptr[7] + 1]
    with pytest.raises(InputError, match=f"contains {name} at row 7, column {column};"):
        NodeClassifier().fit(X, few.labels(5), graph=few.graph)


def test_the_bits_do_not_depend_on_the_number_of_threads():
    texts = draw_citations(THIRDS, n=4200, n_words=20, topical=0.6, degree=2.0)
    y = texts.labels(6)
    judged = np.flatnonzero(y < 0)[:30]
    found = [
        NodeClassifier(random_state=0, n_jobs=n_jobs).fit(
            texts.X, y, graph=texts.graph, validation=(judged, texts.z[judged])
        )
        for n_jobs in (1, 2)
    ]
    assert found[0].proba_.tobytes() == found[1].proba_.tobytes()
    assert found[0].estimated_accuracy_ == found[1].estimated_accuracy_


def test_an_interrupt_while_settings_are_chosen_ends_the_fit(few, monkeypatch):
    sweep = Sweeper.sweep
    count = []

    def interrupted(self, *arguments):
        count.append(0)
        if len(count) == 2:
            raise KeyboardInterrupt
        return sweep(self, *arguments)

    monkeypatch.setattr(Sweeper, "sweep", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fit(few, few.labels(6))
