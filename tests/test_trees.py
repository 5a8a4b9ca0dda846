"""The expert of boosted trees: plain arrays, honest columns, the same answers everywhere."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.ensemble import HistGradientBoostingClassifier

from nodeproof.auto.experts import tree_columns
from nodeproof.auto.experts import trees as trees_module
from nodeproof.auto.experts.base import NewNodes
from nodeproof.auto.experts.forest import Forest
from nodeproof.auto.experts.surroundings import Surroundings
from nodeproof.auto.experts.tree_columns import Columns
from nodeproof.auto.experts.trees import Trees
from nodeproof.auto.held_out import hold_out
from nodeproof.datasets import make_planted
from nodeproof.graph import Graph
from nodeproof.runtime import threads
from nodeproof.terms import NodeData
from nodeproof.terms.logistic import assign_folds

pytestmark = pytest.mark.numeric

CASES = {
    "two classes": (2, 300, {}),
    "three classes": (3, 300, {}),
    "seven classes, stumps": (7, 500, {"max_depth": 1}),
    "few leaves": (3, 200, {"max_leaf_nodes": 4}),
    "nothing to split": (2, 30, {"min_samples_leaf": 20}),
    "more rows than a range": (3, 9000, {"max_depth": 5, "max_iter": 4}),
}


def table(n_classes: int, n: int, missing: float = 0.1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n_classes)
    rows = rng.normal(size=(n, 6)).astype(np.float32)
    codes = (np.abs(rows[:, 0] * 2 + rows[:, 1] ** 2) * 2).astype(np.int64) % n_classes
    codes[:n_classes] = np.arange(n_classes)
    rows[rng.random(rows.shape) < missing] = np.nan
    return rows, codes


@pytest.fixture(scope="module")
def data():
    """Three classes of 120 nodes, links and features that say something each."""
    drawn = make_planted(3, 120, p=0.12, q=0.05, n_features=4, label_ratio=1.0, random_state=0)
    return replace(drawn, X=drawn.X + np.eye(3, 4)[drawn.y_true])


def half_labels(data, seed: int = 0) -> np.ndarray:
    y = data.y_true.copy()
    y[np.random.default_rng(seed).random(len(y)) < 0.4] = -1
    return y


def nodes_of(data, y, features: bool = True, links: bool = True) -> NodeData:
    return NodeData(3, data.X if features else None, y, Graph(data.graph) if links else None)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_forest_says_what_the_estimator_says(case, missing):
    n_classes, n, settings = case
    rows, codes = table(n_classes, n, missing)
    fitted = HistGradientBoostingClassifier(
        **({"max_iter": 15, "early_stopping": False, "random_state": 0} | settings)
    ).fit(rows, codes)
    asked, _ = table(n_classes, n + 50, 0.3)  # also where no entry was missing before
    forest = Forest.of_estimators([fitted], rows[:1])
    np.testing.assert_allclose(
        np.exp(forest.log_proba(asked)), fitted.predict_proba(asked), rtol=1e-10, atol=1e-13
    )


def test_members_are_averaged():
    rows, codes = table(3, 400)
    fitted = [
        HistGradientBoostingClassifier(max_iter=6, max_features=0.5, random_state=seed)
        for seed in range(3)
    ]
    scores = [member.fit(rows, codes).decision_function(rows) for member in fitted]
    forest = Forest.of_estimators(fitted, rows[:1])
    np.testing.assert_allclose(forest.scores(rows), np.mean(scores, axis=0), atol=1e-12)
    alone = [Forest.of_estimators([member], rows[:1]).first(2).scores(rows) for member in fitted]
    np.testing.assert_allclose(forest.first(2).scores(rows), np.mean(alone, axis=0), atol=1e-12)


def test_first_rounds_are_those_of_a_shorter_fit():
    rows, codes = table(3, 400)

    def fit(rounds):
        made = HistGradientBoostingClassifier(
            max_iter=rounds, max_features=0.5, early_stopping=False, random_state=0
        )
        return Forest.of_estimators([made.fit(rows, codes)], rows[:1])

    np.testing.assert_allclose(fit(12).first(5).scores(rows), fit(5).scores(rows), atol=1e-12)
    assert len(fit(5).first(9).roots) == 5


def test_unknown_layout_is_named():
    rows, codes = table(2, 100)
    fitted = HistGradientBoostingClassifier(max_iter=2).fit(rows, codes)
    del fitted._predictors
    with pytest.raises(RuntimeError, match="leave the expert 'trees' out"):
        Forest.of_estimators([fitted], rows[:1])


@pytest.mark.parametrize(
    ("name", "entry"), [("feature", 99), ("children", 0), ("children", 10**6), ("value", np.nan)]
)
def test_forged_trees_are_refused(name, entry):
    rows, codes = table(2, 300)
    fitted = HistGradientBoostingClassifier(max_iter=2).fit(rows, codes)
    parts = Forest.of_estimators([fitted], rows[:1]).to_parts()
    forged = parts[name].copy()
    forged[0] = entry
    Forest.of_parts(parts, 6)
    with pytest.raises(ValueError, match="trees"):
        Forest.of_parts(parts | {name: forged}, 6)


@pytest.mark.parametrize(("features", "links"), [(True, True), (True, False), (False, True)])
def test_trees_learn(data, features, links):
    y = half_labels(data)
    nodes = nodes_of(data, y, features, links)
    trees = Trees()
    assert trees.why_not(nodes) is None
    learnt = trees.bind(nodes).learn(y, 20)
    hidden = y < 0
    proba = np.exp(learnt.log_proba)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, atol=1e-5)
    right = (proba.argmax(axis=1) == data.y_true)[hidden].mean()
    assert right > 0.6


def test_nothing_depends_on_a_nodes_own_label(data, monkeypatch):
    y = half_labels(data)
    around = Surroundings(nodes_of(data, y))
    train = np.flatnonzero(y >= 0)
    # Folds are drawn by class; the same for all, so that nothing but the label differs.
    folds = assign_folds(y[train], 8)
    monkeypatch.setattr(tree_columns, "assign_folds", lambda codes, n_folds: folds)
    before = Columns.of_labels(around, y, train).rows
    for v in train[:5]:
        changed = y.copy()
        changed[v] = (y[v] + 1) % 3
        after = Columns.of_labels(around, changed, train).rows
        np.testing.assert_allclose(after[v], before[v], rtol=1e-4, atol=1e-5)
        assert np.nanmax(np.abs(after - before)) > 0.01  # others do see it


def test_labels_without_meaning_are_not_learnt_from_their_columns():
    # The leaves of a star are twins: what two hops lack would name the label of a leaf.
    n = 401
    hub = np.zeros(n - 1, dtype=np.int64)
    star = sp.coo_array((np.ones(n - 1), (hub, np.arange(1, n))), shape=(n, n)).tocsr()
    y = np.random.default_rng(0).integers(0, 2, n)
    seen = y.copy()
    seen[::4] = -1
    nodes = NodeData(2, None, seen, Graph(star + star.T))
    learnt = Trees().bind(nodes).learn(seen, 20)
    hidden = seen < 0
    loss = -learnt.log_proba[hidden, y[hidden]].mean()
    assert loss < 0.85  # a coin has 0.69
    held = hold_out(seen)
    logs = Trees().bind(nodes).held_out(held, 20)
    assert -logs[np.arange(len(held.codes)), held.codes].mean() < 0.85


@pytest.mark.any_cpu
def test_held_out_predictions_have_not_seen_their_labels(data):
    y = half_labels(data)
    held = hold_out(y)
    trees = Trees().bind(nodes_of(data, y))
    before = trees.held_out(held, 20)
    # Labels of one fold are hidden from the fit that predicts them: changing them in the other
    # fits only changes the others' predictions.
    fold = held.folds == 0
    others = [labels.copy() for labels in held.y]
    for labels in others[1:]:
        seen = held.nodes[fold & (labels[held.nodes] >= 0)]
        labels[seen] = (labels[seen] + 1) % 3
    after = Trees().bind(nodes_of(data, y)).held_out(replace(held, y=others), 20)
    np.testing.assert_array_equal(after[fold], before[fold])
    assert np.abs(after[~fold] - before[~fold]).max() > 0.01


def test_new_nodes_are_judged_as_if_fitted(data):
    y = half_labels(data)
    n = len(y)
    rng = np.random.default_rng(1)
    new = np.flatnonzero((y < 0) & (rng.random(n) < 0.5))
    kept = np.setdiff1d(np.arange(n), new)
    A = sp.csr_array(data.graph).astype(np.float64)
    part = NodeData(3, data.X[kept], y[kept], Graph(A[kept][:, kept]))
    learnt = Trees().bind(part).learn(y[kept], 20)
    arrived = NewNodes(data.X[new], sp.csr_array(A[new][:, kept]), sp.csr_array(A[new][:, new]))
    judged = learnt.judge(arrived)
    assert judged.shape == (len(new), 3)
    whole = Trees().bind(nodes_of(data, y)).learn(y, 20).log_proba[new]
    right = (judged.argmax(axis=1) == data.y_true[new]).mean()
    assert right > (whole.argmax(axis=1) == data.y_true[new]).mean() - 0.1


def test_sparse_features_of_any_length_are_learnt(data):
    # Classes differ in how many words there are, not in which.
    y = half_labels(data)
    rng = np.random.default_rng(2)
    words = sp.csr_array(rng.poisson(0.2 * (1 + 2 * data.y_true)[:, None], size=(len(y), 30)))
    nodes = NodeData(3, words.astype(np.float64), y, Graph(data.graph))
    learnt = Trees().bind(nodes).learn(y, 20)
    right = (learnt.log_proba.argmax(axis=1) == data.y_true)[y < 0].mean()
    assert right > 0.8
    A = sp.csr_array(data.graph).astype(np.float64)
    judged = learnt.judge(NewNodes(nodes.X[:50], A[:50], sp.csr_array((50, 50))))
    assert (judged.argmax(axis=1) == data.y_true[:50]).mean() > 0.8


def test_a_fitted_node_that_comes_again_has_nearly_its_columns(data):
    y = half_labels(data)
    n = len(y)
    v = int(np.flatnonzero(y < 0)[0])
    kept = np.setdiff1d(np.arange(n), [v])
    A = sp.csr_array(data.graph).astype(np.float64)
    whole = Columns.of_labels(Surroundings(nodes_of(data, y)), y, np.flatnonzero(y >= 0))
    part = NodeData(3, data.X[kept], y[kept], Graph(A[kept][:, kept]))
    columns = Columns.of_labels(Surroundings(part), y[kept], np.flatnonzero(y[kept] >= 0))
    arrived = NewNodes(data.X[[v]], sp.csr_array(A[[v]][:, kept]), sp.csr_array((1, 1)))
    there, here = whole.rows[v], columns.of_new(arrived)[0]
    # Eigenvectors are of another graph, up to signs; all others are nearly the same.
    width = whole.n_columns - whole.arrays["eigenvalues"].size
    assert width > 20
    spread = np.nanstd(whole.rows, axis=0)
    close = np.abs(there - here) < 0.3 * spread
    assert close.sum() >= 0.95 * width


def test_saved_parts_judge_the_same(data, tmp_path):
    y = half_labels(data)
    learnt = Trees().bind(nodes_of(data, y)).learn(y, 10)
    settings, arrays = learnt.to_parts()
    np.savez(tmp_path / "trees.npz", **arrays)
    with np.load(tmp_path / "trees.npz", allow_pickle=False) as saved:
        restored = Trees.restored(settings, dict(saved))
    A = sp.csr_array(data.graph).astype(np.float64)
    new = NewNodes(data.X[:9], A[:9], sp.csr_array((9, 9)))
    np.testing.assert_array_equal(restored.judge(new), learnt.judge(new))


@pytest.mark.any_cpu
def test_answers_do_not_depend_on_threads(data):
    y = half_labels(data)
    held = hold_out(y)

    def answers(n_jobs):
        with threads.using(n_jobs):
            trees = Trees().bind(nodes_of(data, y))
            return trees.held_out(held, 20), trees.learn(y, 20).log_proba

    for one, two in zip(answers(1), answers(2), strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.any_cpu
def test_final_fit_is_the_one_that_ran_beside_the_folds(data):
    y = half_labels(data)
    trees = Trees().bind(nodes_of(data, y))
    alone = trees.learn(y, 20).log_proba
    trees.held_out(hold_out(y), 20)
    np.testing.assert_allclose(trees.learn(y, 20).log_proba, alone, atol=1e-6)


def test_positions_are_the_same_every_time():
    # Twins everywhere: eigenvalues coincide, and almost all are zero.
    n = 200
    star = sp.lil_array((n, n))
    star[0, 1:] = star[1:, 0] = 1.0
    nodes = NodeData(2, None, None, Graph(star.tocsr()))
    one, two = (Surroundings(nodes).arrays["eigenvectors"] for _ in range(2))
    np.testing.assert_array_equal(one, two)


def test_labels_beyond_the_limit_are_sampled(data, monkeypatch):
    monkeypatch.setattr(trees_module, "_MOST_LABELS", 120)
    y = half_labels(data)
    learnt = Trees().bind(nodes_of(data, y)).learn(y, 20)
    assert 60 <= learnt.n_labels <= 120
    assert (learnt.log_proba.argmax(axis=1) == data.y_true)[y < 0].mean() > 0.6


def test_classes_without_labels_are_possible_but_unlikely(data):
    y = half_labels(data)
    y[y == 1] = -1
    learnt = Trees().bind(nodes_of(data, y)).learn(y, 10)
    np.testing.assert_allclose(np.exp(learnt.log_proba).sum(axis=1), 1.0, atol=1e-5)
    assert np.isfinite(learnt.log_proba).all()
    assert np.exp(learnt.log_proba[:, 1]).max() < 0.02


def test_few_labels_are_refused(data):
    y = half_labels(data)
    assert "per class" in Trees().why_not(nodes_of(data, np.where(np.arange(len(y)) % 9, -1, y)))
    assert "two classes" in Trees().why_not(nodes_of(data, np.where(y == 0, 0, -1)))
    skewed = np.where(np.arange(len(y)) < 150, 0, -1)
    skewed[-3:] = 1
    assert "only one class" in Trees().why_not(nodes_of(data, skewed))
    assert Trees().why_not(NodeData(3, None, y, None)) is not None
