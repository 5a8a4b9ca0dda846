"""What a user is shown of experts, class mix, skewed classes and labels that cannot tell."""

import dataclasses
import json
import re
import warnings
from html import unescape

import numpy as np
import pytest
from scipy.stats import entropy
from sklearn.metrics import balanced_accuracy_score, roc_auc_score

from cli_helpers import run, write
from nodeproof import NodeClassifier
from nodeproof.auto.evaluation import evaluate
from nodeproof.auto.experts import BlockModel, OwnFeatures
from nodeproof.auto.held_out import hold_out
from nodeproof.auto.records import record_experts
from nodeproof.datasets import make_planted
from nodeproof.graph import Graph
from nodeproof.report.experts import caveats, class_mix, expert_table, meaning_of_accuracy, scores
from nodeproof.report.page import render_report
from nodeproof.storage.npz import open_npz, write_npz
from nodeproof.terms import Gaussian, Labels, NodeData

HOSTILE = "<img src=x onerror=alert(1)>"


def blobs(sizes, label_ratio=0.3, spread=1.5, seed=0):
    """Return features of classes of these sizes, some labels, and the truth."""
    rng = np.random.default_rng(seed)
    truth = np.repeat(np.arange(len(sizes)), sizes)
    X = rng.normal(size=(len(truth), 4)) + spread * np.eye(4)[truth]
    return X, np.where(rng.random(len(truth)) < label_ratio, truth, -1), truth


def fitted(X, y, graph=None, **options):
    return NodeClassifier(random_state=0, **options).fit(X, y, graph=graph)


def flat(text: str) -> str:
    """Return a text with plain single spaces."""
    return " ".join(text.split())


def text_of(html: str) -> str:
    return flat(unescape(re.sub(r"<[^>]+>", " ", html)))


def section(page: str, name: str) -> str:
    found = re.search(rf'<section id="{name}">.*?</section>', page, re.DOTALL)
    return text_of(found.group(0)) if found else ""


@pytest.fixture(scope="module")
def pooled():
    X, y, _ = blobs([120, 100, 80])
    return fitted(X, y)


@pytest.fixture(scope="module")
def planted():
    return make_planted(cluster_size=60, p=0.3, omega=0.2, random_state=0)


@pytest.fixture(scope="module")
def alone():
    """Features and links that only the block model understands."""
    data = make_planted(random_state=0)
    return fitted(data.X, data.y, data.graph)


@pytest.fixture(scope="module")
def skewed():
    X, y, truth = blobs([400, 60])
    return fitted(X, y), truth


def test_the_record_of_the_experts_is_plain_data(pooled, alone, skewed):
    for clf in (pooled, alone, skewed[0]):
        assert json.loads(json.dumps(clf.choices_)) == clf.choices_


def test_every_expert_has_a_weight_and_a_loss_or_a_reason(pooled):
    rows = pooled.choices_["experts"]["value"]
    assert sum(row["weight"] for row in rows) == pytest.approx(1.0, abs=1e-3)
    for row in rows:
        if row["log_loss"] is None:
            assert row["weight"] == 0
            assert row["why"]
        else:
            assert row["log_loss"] > 0
            assert row["about"]
            assert bool(row["weight"]) != bool(row["why"])
    by_name = {row["expert"]: row for row in rows}
    assert by_name["propagation"]["why"] == "there are no links"
    assert by_name["own features"]["log_loss"] is not None


def test_guessing_scores_the_entropy_of_the_class_frequencies(pooled):
    losses = pooled.choices_["log_loss"]["value"]
    labels = pooled.fitted_.given
    assert losses["guessing"] == pytest.approx(entropy(np.bincount(labels[labels >= 0])), abs=0.02)
    assert 0 < losses["pool"] < losses["guessing"]
    assert "block model" not in losses


def test_card_and_page_show_the_table(pooled):
    table = expert_table(pooled.choices_)
    for shown in (section(render_report(pooled.fitted_), "experts"), text_of(pooled._repr_html_())):
        assert table.verdict in shown
        assert table.reading in shown
        for row in table.rows:
            assert f"{row.log_loss} {flat(row.weight)}" in shown
            assert row.about in shown
            assert row.setting in shown
        for names, why in table.left_out:
            assert f"{names} ({why})" in shown
    guessing = pooled.choices_["log_loss"]["value"]["guessing"]
    assert f"guessing by class frequencies scores {guessing:.2f}" in table.reading


def test_where_the_block_model_decides_alone_no_weights_of_a_pool_are_shown(alone):
    rows = alone.choices_["experts"]["value"]
    assert [row["weight"] for row in rows] == [1.0] + [0.0] * (len(rows) - 1)
    assert rows[0]["expert"] == "block model"
    table = expert_table(alone.choices_)
    assert "decides alone" in table.verdict
    assert [row.weight for row in table.rows] == ["alone"] + ["–"] * (len(table.rows) - 1)
    assert "share in the decision" not in table.reading
    assert "block model alone" in text_of(alone._repr_html_())


def test_given_terms_have_no_table_and_no_caveats(planted):
    clf = fitted(planted.X, planted.y, planted.graph, terms=[Gaussian(), Labels()])
    assert expert_table(clf.choices_) is None
    assert caveats(clf.fitted_) == []
    assert 'id="experts"' not in render_report(clf.fitted_)


def test_the_accuracy_is_said_to_be_that_of_the_unlabelled_nodes(pooled):
    rest = int((pooled.fitted_.given < 0).sum())
    assert f"{rest} unlabelled nodes" in meaning_of_accuracy(pooled.fitted_)
    assert meaning_of_accuracy(pooled.fitted_) in section(render_report(pooled.fitted_), "accuracy")


def test_a_class_mix_unlike_that_of_the_labels_is_shown():
    X, _, _ = blobs([300, 60], spread=3.0)
    y = np.full(360, -1)
    y[:30], y[300:330] = 0, 1
    clf = fitted(X, y)
    mix = clf.choices_["proportions"]["value"]
    assert mix["labels"] == [0.5, 0.5]
    assert sum(mix["unlabelled"]) == pytest.approx(1.0, abs=1e-3)
    assert mix["unlabelled"][0] > 0.7
    assert "(labels 50\xa0%)" in class_mix(clf.fitted_)
    assert "class mix differs" in meaning_of_accuracy(clf.fitted_)
    assert "0 50 %" in section(render_report(clf.fitted_), "accuracy")


def test_a_class_mix_like_that_of_the_labels_is_not_mentioned(alone):
    assert class_mix(alone.fitted_) == ""
    assert "mix" not in meaning_of_accuracy(alone.fitted_)


def test_of_skewed_classes_more_than_the_accuracy_is_estimated(skewed):
    clf, truth = skewed
    rest = clf.fitted_.given < 0
    value = clf.choices_["scores"]["value"]
    right = balanced_accuracy_score(truth[rest], clf.labels_[rest])
    assert value["balanced_accuracy"] == pytest.approx(right, abs=0.15)
    area = roc_auc_score(truth[rest], clf.proba_[rest, 1])
    assert value["roc_auc"] == pytest.approx(area, abs=0.1)
    assert value["largest_class"] == pytest.approx((truth[rest] == 0).mean(), abs=0.05)
    page = render_report(clf.fitted_)
    for score in scores(clf.fitted_):
        for shown in (section(page, "accuracy"), text_of(clf._repr_html_())):
            assert score.name in shown
            assert flat(score.value) in shown


def test_of_classes_of_like_sizes_the_accuracy_is_enough(pooled):
    assert "scores" not in pooled.choices_
    assert "balanced accuracy" not in render_report(pooled.fitted_)


def test_true_labels_take_the_place_of_estimates(skewed):
    clf, truth = skewed
    rest = clf.fitted_.given < 0
    shown = section(render_report(clf.fitted_, y_true=truth), "accuracy")
    assert "true labels" in shown
    assert f"ROC AUC {roc_auc_score(truth[rest], clf.proba_[rest, 1]):.3f}" in shown
    right = balanced_accuracy_score(truth[rest], clf.labels_[rest])
    assert f"balanced accuracy {100 * right:.0f} %" in shown


def test_one_against_hundreds_is_too_few_to_score():
    X, y, truth = blobs([400, 2], label_ratio=0.5, spread=6.0)
    y[-2:] = 1
    y[0] = -1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clf = fitted(X, y)
        page = render_report(clf.fitted_, y_true=truth)
    value = clf.choices_["scores"]["value"]
    assert value["balanced_accuracy"] is None
    assert value["roc_auc"] is None
    assert [score.remark for score in scores(clf.fitted_)][:2] == ["not enough labels"] * 2
    assert "not enough labels" in section(page, "accuracy")


def test_a_class_with_one_label_is_named_and_the_others_are_scored(planted):
    y = planted.y.copy()
    y[np.flatnonzero(y == 2)[1:]] = -1
    names = np.array(["cat", "dog", HOSTILE])
    clf = fitted(planted.X, np.where(y >= 0, names[y], ""), planted.graph)
    held = clf.choices_["held_out"]["value"]
    assert held["labels"] == (y >= 0).sum() - 1
    assert held["few"] == {HOSTILE: 0}
    assert any(f"{HOSTILE} (none)" in said for said in caveats(clf.fitted_))
    assert all(said in unescape(render_report(clf.fitted_)) for said in caveats(clf.fitted_))
    assert HOSTILE not in render_report(clf.fitted_)
    assert HOSTILE not in clf._repr_html_()
    assert clf.choices_["scores"]["value"]["classes"] == 2


def test_one_label_per_class_tells_nothing_and_the_fit_says_so(planted):
    y = np.full(180, -1)
    y[[0, 60, 120]] = [0, 1, 2]
    clf = fitted(planted.X, y, planted.graph)
    assert clf.estimated_accuracy_ is None
    assert clf.choices_["held_out"]["value"]["labels"] == 0
    (said,) = caveats(clf.fitted_)
    assert "no class has more than one label" in said
    assert said in render_report(clf.fitted_)


def test_few_labels_are_said_to_tell_little():
    X, y, _ = blobs([60, 60], label_ratio=0.1)
    clf = fitted(X, y)
    assert any("only" in said and "rough" in said for said in caveats(clf.fitted_))


def test_validation_labels_are_recorded_as_the_ones_held_out():
    X, y, truth = blobs([100, 100])
    nodes = np.flatnonzero(y < 0)[::3]
    clf = NodeClassifier(random_state=0).fit(X, y, validation=(nodes, truth[nodes]))
    held = clf.choices_["held_out"]
    assert held["value"]["labels"] == len(nodes)
    assert held["value"]["folds"] == 0
    assert "validation" in held["why"]


def test_a_saved_model_shows_the_same_table(alone, tmp_path):
    alone.save(tmp_path / "model.npz")
    loaded = NodeClassifier.load(tmp_path / "model.npz")
    assert loaded.choices_ == alone.choices_
    assert expert_table(loaded.choices_) == expert_table(alone.choices_)
    assert section(render_report(loaded.fitted_), "experts")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("experts", "all of them"),
        ("experts", [{"expert": "x"}]),
        ("log_loss", {"guessing": None, "pool": 1}),
        ("held_out", {"labels": -1, "folds": 5, "few": {}, "wrong": 0}),
        ("proportions", {"labels": [0.5, "b"], "unlabelled": []}),
        ("scores", {"balanced_accuracy": "high"}),
    ],
)
def test_a_file_with_a_table_of_another_shape_is_refused(alone, tmp_path, name, value):
    path = tmp_path / "model.npz"
    alone.save(path)
    with open_npz(path) as archive:
        arrays = {key: archive[key] for key in archive}
    meta = json.loads(arrays["meta"].tobytes())
    meta["reported"]["choices_"][name] = {"value": value, "why": ""}
    arrays["meta"] = np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8)
    with path.open("wb") as file:
        write_npz(file, arrays)
    with pytest.raises(ValueError, match=r"model\.npz"):
        NodeClassifier.load(path)


@pytest.fixture
def edges(planted, tmp_path):
    links = planted.graph.tocoo()
    pairs = [[u, v] for u, v in zip(links.row, links.col, strict=True) if u < v]
    return write(tmp_path / "edges.csv", [["source", "target"], *pairs])


def test_the_command_prints_the_table_in_eighty_columns(
    capsys, planted, edges, tmp_path, monkeypatch
):
    monkeypatch.setenv("COLUMNS", "80")
    labels = [[v, f"c{k}"] for v, k in enumerate(planted.y) if k >= 0]
    write(tmp_path / "labels.csv", [["node", "label"], *labels])
    code, out, _ = run(capsys, "fit", edges, "--labels", tmp_path / "labels.csv",
                       "--out", tmp_path / "o")  # fmt: skip
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    plain = flat(re.sub(r"[│┃]", " ", out))
    choices = json.loads((tmp_path / "o" / "summary.json").read_text())["choices"]
    table = expert_table(choices)
    assert table.verdict in plain
    assert table.reading in plain
    for row in table.rows:
        assert row.expert in plain
        assert row.log_loss in plain
    assert "unlabelled nodes" in plain


def test_the_command_notes_what_labels_cannot_tell(capsys, edges, tmp_path):
    write(tmp_path / "labels.csv", [["node", "label"], [0, "a"], [60, "b"], [120, "c"]])
    code, out, err = run(capsys, "fit", edges, "--labels", tmp_path / "labels.csv",
                         "--out", tmp_path / "o")  # fmt: skip
    assert code == 0
    assert "no class has more than one label" in err
    assert "estimated accuracy" not in out
    notes = json.loads((tmp_path / "o" / "summary.json").read_text())["notes"]
    assert any("no class has more than one label" in note for note in notes)


def test_weights_of_a_pool_that_is_not_used_are_not_recorded():
    data = make_planted(2, 60, p=0.1, q=0.06, random_state=0)
    nodes = NodeData(2, data.X, data.y, Graph(data.graph))
    found = evaluate([BlockModel((None,)), OwnFeatures()], nodes, hold_out(data.y))
    pool = dataclasses.replace(found.pool, weights=np.array([0.3, 0.9]))
    rows = {}
    for block_alone in (False, True):
        choices = {}
        record_experts(dataclasses.replace(found, pool=pool, block_alone=block_alone), choices)
        rows[block_alone] = {row["expert"]: row for row in choices["experts"]["value"]}
    assert rows[False]["block model"]["weight"] == pytest.approx(0.25)
    assert rows[False]["own features"]["weight"] == pytest.approx(0.75)
    assert rows[True]["block model"]["weight"] == 1.0
    assert rows[True]["own features"]["weight"] == 0.0
    assert rows[True]["own features"]["why"]


def test_wrong_labels_are_mentioned_because_they_add_to_every_loss():
    data = make_planted(label_accuracy=0.7, random_state=0)
    table = expert_table(fitted(data.X, data.y, data.graph).choices_)
    assert "Some of the labels seem wrong" in table.reading


def test_without_links_nothing_is_decided_by_the_graph(pooled):
    assert "graph" not in pooled.sources_
    X, y, _ = blobs([60, 60])
    expert = BlockModel((Gaussian(),)).bind(NodeData(2, X, y))
    learnt = expert.learn(y, expert.settings()[0])
    assert set(learnt.attribute(learnt.log_proba, 0, 120)) == {"features"}
