"""What NodeClassifier takes, and what it refuses and how."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from nodeproof import NodeClassifier
from nodeproof.errors import InputError
from nodeproof.solvers import CADO
from nodeproof.terms import Covariance, Labels

BAD_INPUT = {
    "nothing": ({}, {}, "all None"),
    "nan": ({}, {"X": [[0.0], [np.nan]], "y": [0, 1]}, "NaN at row 1, column 0"),
    "inf": ({}, {"X": [[0.0], [np.inf]], "y": [0, 1]}, "infinity at row 1, column 0"),
    "masked": (
        {},
        {"X": np.ma.masked_array([[0], [1]], mask=[[False], [True]]), "y": [0, 1]},
        "NaN at row 1, column 0",
    ),
    "lengths": ({}, {"X": [[0.0], [1.0]], "y": [0, 1, 1]}, "X has 2, y has 3"),
    "lengths, nothing known": (
        {"n_classes": 2},
        {"X": [[0.0], [1.0]], "y": [-1, -1, -1]},
        "X has 2, y has 3",
    ),
    "graph size": ({}, {"y": [0, 1, 1], "graph": np.eye(2)}, "2 nodes but .* 3 rows"),
    "labels by name": (
        {},
        {"X": [[0.0], [1.0]], "y": {"a": 0}},
        "neither X nor the graph names its nodes",
    ),
    "label range": ({}, {"X": [[0.0], [1.0]], "y": [0, -2]}, "node 1 is -2"),
    "too many labels": (
        {"n_classes": 2},
        {"X": [[0.0], [1.0], [2.0]], "y": [0, 1, 5]},
        "name 3 classes .* n_classes=2",
    ),
    "nothing to count classes by": (
        {"weights": (1, 1, 1)},
        {"X": [[0.0], [1.0]], "y": [-1, -1]},
        "with a graph .* give n_classes",
    ),
    "nothing known": ({"n_classes": 2}, {"y": [-1, -1]}, "neither features nor a graph"),
    "empty graph": ({"n_classes": 1}, {"graph": np.zeros((0, 0))}, "no nodes"),
    "class without nodes": (
        {"n_classes": 3},
        {"X": [[0.0], [1.0]]},
        "exceeds the number of nodes, 2",
    ),
    "negative weight": (
        {"n_classes": 1},
        {"graph": np.array([[0, -1], [-1, 0]])},
        r"\(0, 1\) is negative",
    ),
    "too many features": (
        {"terms": [Covariance()]},
        {"X": np.ones((3, 600)), "y": [0, 1, -1]},
        "at most 512 features",
    ),
    "unused features": ({"terms": [Labels()]}, {"X": [[0.0]], "y": [0]}, "none of the terms uses"),
    "no terms": ({"terms": None}, {"X": [[0.0]], "y": [0]}, "list of terms, got None"),
    "one weight": ({"weights": -5}, {"X": [[0.0]], "y": [0]}, "weights must be"),
    "nothing to validate": (
        {"terms": [Labels()]},
        {"y": [0, 1, -1], "validation": ([2], [0])},
        "validation is not used",
    ),
    "seed": ({"random_state": -1}, {"X": [[0.0]], "y": [0]}, "random_state must be .*, got -1"),
    "seed of words": ({"random_state": "a"}, {"X": [[0.0]], "y": [0]}, "random_state must be"),
    "n_jobs": ({"n_jobs": 0}, {"X": [[0.0]], "y": [0]}, "n_jobs must not be 0"),
    "max_iter whole": ({"max_iter": 2.5}, {"X": [[0.0]], "y": [0]}, "max_iter"),
    "edge list": ({"n_classes": 1}, {"graph": np.full((5, 2), 0.5)}, r"positions of nodes"),
    "n_classes": ({"n_classes": 0}, {"X": [[0.0]]}, "positive integer"),
    "weights": ({"weights": (1, 2)}, {"X": [[0.0]], "y": [0]}, "three numbers"),
    "weights name": ({"weights": "best"}, {"X": [[0.0]], "y": [0]}, "'best'"),
    "threshold": ({"threshold": 0.1}, {"X": [[0.0]], "y": [0]}, "leave it at 'auto'"),
    "solver": ({"solver": "magic"}, {"X": [[0.0]], "y": [0]}, "'magic'"),
    "cado calibrated": (
        {"solver": CADO(), "weights": "calibrated"},
        {"X": [[0.0]], "y": [0]},
        "needs fixed weights",
    ),
    "terms": ({"terms": "magic"}, {"X": [[0.0]], "y": [0]}, "'magic'"),
    "term": ({"terms": ["labels"]}, {"X": [[0.0]], "y": [0]}, "must hold terms, got 'labels'"),
    "null model": ({"null_model": "x"}, {"y": [0, 1], "graph": np.ones((2, 2))}, "null_model"),
    "temperature": ({"temperature": -1}, {"X": [[0.0]], "y": [0]}, "temperature"),
    "max_iter": ({"max_iter": 0}, {"X": [[0.0]], "y": [0]}, "max_iter"),
    "n_init": ({"n_init": 0}, {"X": [[0.0]], "y": [0]}, "n_init"),
    "huge n_init": ({"n_init": 10**21}, {"X": [[0.0]], "y": [0]}, "n_init must be at most"),
    "broken n_jobs": ({"n_jobs": 1.5}, {"X": [[0.0]], "y": [0]}, "n_jobs must be an integer"),
    "son": ({"son": -1.0}, {"X": [[0.0]], "y": [0]}, "son must be a finite number ≥ 0"),
    "son without fixed weights": ({"son": 1.0}, {"X": [[0.0]], "y": [0]}, "son=1.0 needs fixed"),
    "engine": ({"engine": "dask"}, {"X": [[0.0]], "y": [0]}, "engine"),
    "validation": ({}, {"X": [[0.0]], "y": [0], "validation": [0]}, "validation"),
}


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input_is_refused_in_a_clear_word(case):
    settings, arguments, message = BAD_INPUT[case]
    with pytest.raises(InputError, match=message):
        NodeClassifier(**settings).fit(**arguments)


@pytest.mark.parametrize(
    "unknown",
    [
        np.array(["a", "b", "", "-1"]),
        np.array(["a", "b", None, float("nan")], dtype=object),
        ["a", "b", -1, None],
    ],
)
def test_unknown_labels_may_be_written_in_several_ways(unknown):
    graph = np.array([[0, 0, 1, 0], [0, 0, 0, 1], [1, 0, 0, 0], [0, 1, 0, 0]])
    clf = NodeClassifier(random_state=0).fit(y=unknown, graph=graph)
    assert clf.classes_.tolist() == ["a", "b"]
    assert clf.fitted_.given.tolist() == [0, 1, -1, -1]


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        (pd.Series(["a", None, "b", "None"], dtype="string"), ["None", "a", "b"]),
        (np.array([0.0, 1.0, np.nan, 1.0]), [0, 1]),
        (np.array([3, 1, 254, 1], dtype=np.uint8), [1, 3, 254]),
        ([True, False, True, True], [False, True]),
        (np.array([["a"], ["b"], [""], ["a"]]), ["a", "b"]),
    ],
    ids=["pandas", "floats", "unsigned", "bool", "column"],
)
@pytest.mark.filterwarnings("ignore")
def test_labels_of_any_type_keep_their_names(y, classes):
    clf = NodeClassifier(random_state=0).fit(np.arange(4.0)[:, None], y)
    assert clf.classes_.tolist() == classes


def test_fresh_names_fit_beside_small_integers():
    y = np.full(300, -1, dtype=np.int8)
    y[:2] = 0, 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = NodeClassifier(n_classes=200, n_init=1, max_iter=2, random_state=0)
        clf.fit(np.random.default_rng(0).standard_normal((300, 2)), y)
    assert clf.classes_.tolist() == list(range(200))


def test_a_name_that_occurs_once_and_is_almost_another_is_asked_about():
    y = ["family"] * 5 + ["student"] * 5 + ["familly"] + ["pensioner"]
    X = np.random.default_rng(0).standard_normal((12, 2))
    with pytest.warns(UserWarning, match=r"the class 'familly' .* did you mean 'family'"):
        NodeClassifier(random_state=0).fit(X, y)


def test_names_that_differ_by_their_number_are_no_typos(recwarn):
    X = np.random.default_rng(0).standard_normal((15, 2))
    NodeClassifier(random_state=0).fit(
        X, ["group 1"] * 5 + ["group 2"] * 5 + ["group 3"] * 4 + ["group 4"]
    )
    assert not any("meant" in str(warning.message) for warning in recwarn)
