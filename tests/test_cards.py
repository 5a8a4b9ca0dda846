"""What notebooks show: short, complete, and safe whatever the names are."""

import dataclasses
import math
import warnings
from html.parser import HTMLParser

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from nodeproof import NodeClassifier
from nodeproof.datasets import make_planted

EVIL = np.array(["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "&amp; 'b'"])


class Page(HTMLParser):
    """Reads a card: its tags, balanced, and its text."""

    def __init__(self, html):
        super().__init__()
        self.open, self.tags, self.text, self.attributes = [], [], "", []
        self.feed(html)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data

    def widths(self):
        styles = [value for name, value in self.attributes if name == "style"]
        return [float(s[6 : s.index("%")]) for s in styles if s.startswith("width:")]


@pytest.fixture(scope="module")
def data():
    return make_planted(cluster_size=60, p=0.3, omega=0.2, label_accuracy=0.8, random_state=0)


@pytest.fixture(scope="module")
def clf(data):
    y = np.where(data.y >= 0, EVIL[data.y], "")
    return NodeClassifier(random_state=0).fit(data.X, y, graph=data.graph)


def test_a_card_says_what_was_given_and_found(clf, data):
    page = Page(clf._repr_html_())
    links = data.graph.nnz // 2
    assert f"180 nodes, {links:,} links, 6 features, 36 labels → 3 classes" in page.text
    assert f"{len(clf.suspects_)} given labels look wrong" in page.text
    assert f"node {clf.suspects_[0].node}:" in page.text
    assert clf.status_ in page.text
    for source, share in clf.sources_.items():
        assert f"{source} {100 * share:.0f} %" in page.text
    for name, choice in clf.choices_.items():
        assert name.replace("_", " ") in page.text
        assert choice["why"] in page.text
    assert "details" in page.tags


def test_bars_are_as_long_as_classes_are_large_and_sources_strong(clf):
    widths = Page(clf._repr_html_()).widths()
    sizes = np.sort([(clf.labels_ == name).sum() for name in clf.classes_])[::-1]
    np.testing.assert_allclose(widths[:3], 100 * sizes / sizes.max(), atol=0.06)
    np.testing.assert_allclose(widths[3:], [100 * s for s in clf.sources_.values()], atol=0.06)


def test_names_stay_text_and_nothing_is_fetched(clf):
    page = Page(clf._repr_html_())
    assert not {"script", "img", "link", "iframe", "style"} & set(page.tags)
    assert not {name for name, _ in page.attributes} - {
        "style", "role", "aria-label", "aria-hidden", "title", "scope",
    }  # fmt: skip
    for name in EVIL:
        assert name in page.text
    assert "http" not in clf._repr_html_()
    assert "url(" not in clf._repr_html_()


def test_a_classifier_that_is_not_fitted_is_shown_as_scikit_learn_does(clf):
    assert "sk-" in NodeClassifier()._repr_html_()
    assert "sk-" in clone(clf)._repr_html_()
    assert "sk-" not in clf._repr_html_()


def test_both_ways_to_ask_give_the_same(clf):
    bundle = clf._repr_mimebundle_()
    assert bundle["text/html"] == clf._repr_html_()
    assert bundle["text/plain"] == repr(clf)
    with sklearn.config_context(display="text"):
        assert set(clf._repr_mimebundle_()) == {"text/plain"}
        assert not hasattr(clf, "_repr_html_")
        assert not hasattr(NodeClassifier(), "_repr_html_")


def test_a_pipeline_with_a_fitted_classifier_keeps_its_diagram(data):
    pipeline = make_pipeline(StandardScaler(), NodeClassifier(random_state=0))
    assert "sk-" in pipeline.fit(data.X, data.y)._repr_html_()


def test_a_loaded_model_has_a_card(clf, tmp_path):
    clf.save(tmp_path / "model.npz")
    page = Page(NodeClassifier.load(tmp_path / "model.npz")._repr_html_())
    assert "180 nodes" in page.text
    assert "→ 3 classes" in page.text


def test_cards_without_labels_features_or_a_second_class(data):
    card = Page(NodeClassifier(3, random_state=0).fit(graph=data.graph)._repr_html_()).text
    assert "label" not in card.split("→")[0]
    assert "look" not in card
    one = NodeClassifier(1, random_state=0).fit(np.eye(4))._repr_html_()
    assert "4 nodes, 4 features → 1 class" in Page(one).text
    assert "Decided by" not in one


def test_many_classes_are_summed_up(data):
    y = np.arange(180) % 30
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # there is nothing to be found
        clf = NodeClassifier(random_state=0, max_iter=3, n_init=1).fit(y=y, graph=data.graph)
    page = Page(clf._repr_html_())
    assert "22 more classes" in page.text
    long = NodeClassifier(random_state=0).fit(y=["x" * 5000, "b", "b", "x" * 5000])
    assert len(long._repr_html_()) < 20_000


def test_a_certificate_says_its_sentence_and_numbers(data):
    clf = NodeClassifier(random_state=0).fit(data.X, data.y, graph=data.graph)
    proof = clf.certify(time_budget=5)
    page = Page(proof._repr_html_())
    assert proof.status in page.text
    assert proof.explain() in page.text
    sure = int(proof.certified_nodes.sum())
    assert f"{sure} of 180" in page.text
    assert page.widths()[0] == pytest.approx(100 * sure / 180, abs=0.06)
    assert f"{proof.objective:,.6g}" in page.text
    assert f"{proof.lower_bound:,.6g}" in page.text
    nothing = dataclasses.replace(proof, lower_bound=-math.inf)
    assert "unknown" in Page(nothing._repr_html_()).text
    assert "no proof" in Page(nothing._repr_html_()).text
    refused = dataclasses.replace(proof, instance=None, reason="<b>no</b> links")
    page = Page(refused._repr_html_())
    assert "There is no certificate: <b>no</b> links." in page.text
    assert "objective" not in page.text
