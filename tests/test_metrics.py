"""Scores of probabilities: what they take for the truth, and what they refuse."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import balanced_accuracy_score, roc_auc_score

from nodeproof.errors import InputError
from nodeproof.metrics import (
    brier,
    class_scores,
    expected_calibration_error,
    is_skewed,
    matched_accuracy,
    reliability_curve,
)

SCORES = [brier, expected_calibration_error, lambda *given: reliability_curve(*given).error]
PROBA = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize(
    ("truth", "entry"),
    [
        (["a", "b", "c"], "entry 0 is 'a'"),
        (["0", "1", "2"], "entry 0 is '0'"),
        (np.array([0, "b", 2], dtype=object), "entry 1 is 'b'"),
        (np.array([0, 1, None], dtype=object), "entry 2 is None"),
        ([0, 1, 3], "entry 2 is 3"),
        ([0, -1, 2], "entry 1 is -1"),
        ([0.0, 0.5, 1.0], "entry 1 is 0.5"),
        ([0.0, 1.0, np.nan], "entry 2 is nan"),
        (pd.Series([0, pd.NA, 2], dtype="Int64"), "entry 1 is"),
    ],
)
def test_truth_must_be_column_numbers(score, truth, entry):
    with pytest.raises(InputError, match=f"column numbers of proba, 0 to 2, but {entry}"):
        score(truth, PROBA)


@pytest.mark.parametrize("score", SCORES)
def test_column_numbers_may_be_held_in_any_way(score):
    expected = score([0, 1, 1], PROBA)
    whole = np.array([0, 1, 1])
    for truth in (whole.astype(np.uint8), whole.astype(float), whole.astype(bool),
                  whole.astype(object), pd.Series(whole, dtype="Int64")):  # fmt: skip
        assert score(truth, PROBA) == expected


@pytest.mark.parametrize("score", SCORES)
def test_truth_has_one_entry_per_node(score):
    for truth in (0, [0, 1], [[0, 1, 2]] * 3):
        with pytest.raises(InputError, match=r"one (entry|row) per node"):
            score(truth, PROBA)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -0.5, 2.0])
def test_probabilities_must_be_some(score, bad):
    with pytest.raises(InputError, match=r"0 to 1, but is .* at row 0, column 1"):
        score([0], [[0.5, bad]])


@pytest.mark.parametrize(("truth", "found"), [([0, 1], [0]), ([], []), ([[0]], [[0]])])
def test_classes_are_matched_at_the_same_nodes(truth, found):
    with pytest.raises(InputError, match="one entry per node, of the same nodes"):
        matched_accuracy(truth, found)


@pytest.mark.parametrize("digits", [1, 9])  # with ties, and without
def test_scores_by_class_are_those_of_scikit_learn(digits):
    rng = np.random.default_rng(0)
    truth = rng.choice(4, size=300, p=[0.7, 0.2, 0.07, 0.03])
    proba = rng.dirichlet(np.ones(4), size=300) + 0.5 * np.eye(4)[truth]
    proba = (proba / proba.sum(axis=1, keepdims=True)).round(digits)
    found = class_scores(truth, proba)
    right = balanced_accuracy_score(truth, proba.argmax(axis=1))
    areas = [roc_auc_score(truth == k, proba[:, k]) for k in range(4)]
    assert found.balanced_accuracy == pytest.approx(right)
    assert found.roc_auc == pytest.approx(np.mean(areas))
    assert found.largest_class == pytest.approx((truth == 0).mean())
    assert found.n_classes == 4


def test_classes_that_are_absent_or_too_small_are_not_scored():
    truth = np.array([0, 0, 0, 1, 1, 1, 2])
    proba = np.full((7, 4), 0.25)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert class_scores(truth, proba).n_classes == 3
        some = class_scores(truth, proba, fewest=2)
        nothing = class_scores(truth[:3], proba[:3])
        empty = class_scores(truth[:0], proba[:0])
    assert (some.n_classes, some.balanced_accuracy, some.roc_auc) == (2, 0.5, 0.5)
    assert (nothing.n_classes, nothing.balanced_accuracy, nothing.roc_auc) == (1, None, None)
    assert (empty.n_classes, empty.largest_class) == (0, 0.0)


def test_classes_are_skewed_by_share_or_by_ratio():
    assert is_skewed([67, 33])
    assert is_skewed([6, 1, 6])
    assert is_skewed([3, 0])
    assert not is_skewed([10, 10])
    assert not is_skewed([50, 30, 20])
    assert not is_skewed([7])


def test_quantile_bins_hold_as_many_nodes_each():
    rng = np.random.default_rng(0)
    confidence = rng.beta(5, 1, size=200) / 2 + 0.5
    proba = np.column_stack([confidence, 1 - confidence])
    truth = (rng.random(200) > confidence).astype(int)
    curve = reliability_curve(truth, proba, 8, strategy="quantile")
    assert curve.counts.tolist() == [25] * 8
    assert (np.diff(curve.confidence) > 0).all()
    order = rng.permutation(200)
    again = reliability_curve(truth[order], proba[order], 8, strategy="quantile")
    np.testing.assert_allclose(again.right, curve.right)
    # Nodes of the same confidence stay together.
    same = reliability_curve([0, 1, 0, 0], [[0.7, 0.3]] * 4, 3, strategy="quantile")
    assert same.counts.tolist() == [4]
    with pytest.raises(InputError, match="strategy must be"):
        reliability_curve(truth, proba, strategy="equal")
