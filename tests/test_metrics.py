"""Scores of probabilities: what they take for the truth, and what they refuse."""

import numpy as np
import pandas as pd
import pytest

from nodeproof.errors import InputError
from nodeproof.metrics import brier, expected_calibration_error, matched_accuracy, reliability_curve

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
