"""Which labels are known, and what their classes are called, in every container."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.exceptions import DataConversionWarning

from nodeproof import NodeClassifier
from nodeproof.errors import InputError
from nodeproof.inputs import check_validation, encode_labels, encode_names, warn_of_typos
from nodeproof.inputs.pyg_data import read_labels

GRAPH = np.array([[0, 0, 1, 0], [0, 0, 0, 1], [1, 0, 0, 0], [0, 1, 0, 0]])

TEXTS = {
    "array": lambda texts: np.array(texts),
    "objects": lambda texts: np.array(texts, dtype=object),
    "bytes": lambda texts: np.array([text.encode() for text in texts]),
    "objects of bytes": lambda texts: np.array([text.encode() for text in texts], dtype=object),
    "list": list,
    "tuple": tuple,
    "list of bytes": lambda texts: [text.encode() for text in texts],
    "masked": lambda texts: np.ma.array(texts),
    "Series": lambda texts: pd.Series(texts, dtype=object),
    "Series of strings": lambda texts: pd.Series(texts, dtype="string"),
    "Series of categories": lambda texts: pd.Series(texts, dtype="category"),
    "Categorical": lambda texts: pd.Categorical(texts),
    "polars": lambda texts: pl.Series(texts),
    "polars categories": lambda texts: pl.Series(texts, dtype=pl.Categorical),
}
if hasattr(np.dtypes, "StringDType"):
    TEXTS["StringDType"] = lambda texts: np.array(texts, dtype=np.dtypes.StringDType())


def classes_of(y):
    """Return the names of the classes and the class number of each node."""
    encoded = encode_labels(y, None)
    codes = [-1] * encoded.n_nodes if encoded.codes is None else encoded.codes.tolist()
    return encoded.classes.tolist(), codes


@pytest.mark.parametrize("container", TEXTS)
def test_the_same_texts_are_unknown_in_every_container(container):
    unknown = ["", "-1", "-1.0", "nan", " ", "\t ", " -1"]
    y = TEXTS[container](["b", "None", "NaN", "é", "0", "b", *unknown])
    names = ["0", "NaN", "None", "b", "é"]
    assert classes_of(y) == (names, [3, 2, 1, 4, 0, 3] + [-1] * len(unknown))


def test_what_numpy_and_pandas_make_of_unknown_labels_is_unknown():
    assert classes_of(np.array(["a", -1])) == (["a"], [0, -1])
    assert classes_of(np.array(["a", np.nan])) == (["a"], [0, -1])
    assert classes_of(pd.Series(["a", np.nan], dtype=object).astype(str)) == (["a"], [0, -1])


@pytest.mark.parametrize(
    "values",
    [
        np.array([0, 1, 0, 1]),
        np.array([0.0, 1.0, 0.0, 1.0]),
        np.array([0.0, 1.0, np.inf, np.nan]),
        np.array([0.0, 1.0, 0.5, 1e300]),
        np.array([0, 1, -7, -1]),
        np.array([0, 1, 1, 1], dtype=np.uint8),
        np.array([False, True, True, True]),
        np.array(["a", "b", "c", "a"]),
        np.array([b"a", b"b", b"\xff", b"a"]),
        np.array(["a", "b", "c", None], dtype=object),
        np.array([0, 1, [2], 3], dtype=object),
    ],
    ids=lambda values: f"{values.dtype.kind} {values[2]}",
)
@pytest.mark.parametrize("column", [False, True])
@pytest.mark.filterwarnings("ignore:A column-vector")
def test_what_a_mask_hides_is_unknown_whatever_it_is(values, column):
    y = np.ma.array(values, mask=[False, False, True, True])
    names, codes = classes_of(y[:, None] if column else y)
    assert names == classes_of(values[:2])[0]
    assert codes == [0, 1, -1, -1]


def test_a_mask_hides_labels_from_a_fit_and_from_validation():
    y = np.ma.array([0, 1, 2, 2], mask=[False, False, True, True])
    clf = NodeClassifier(random_state=0).fit(y=y, graph=GRAPH)
    assert clf.classes_.tolist() == [0, 1]
    assert clf.fitted_.given.tolist() == [0, 1, -1, -1]
    encoded = encode_labels(y, None)
    hidden = np.ma.array([1, 1, 1, 0], mask=[True, True, False, True])
    nodes, codes = check_validation(hidden, encoded)
    assert (nodes.tolist(), codes.tolist()) == ([2], [1])
    nodes, codes = check_validation(([2, 3], hidden[1:3]), encoded)
    assert (nodes.tolist(), codes.tolist()) == ([3], [1])


def test_a_mask_that_hides_nothing_or_all_is_no_trouble():
    assert classes_of(np.ma.array([3, 4])) == ([3, 4], [0, 1])
    assert classes_of(np.ma.array([3, 4], mask=True)) == ([], [-1, -1])
    assert classes_of(np.array(["a", np.ma.masked], dtype=object)) == (["a"], [0, -1])


NUMBERS = {
    "None": [1.0, None, 2.0],
    "NaN": [1.0, np.nan, 2.0],
    "-1": [1.0, -1, 2.0],
    "NA": [1.0, pd.NA, 2.0],
    "empty": [1.0, "", 2.0],
    "numpy": [np.float32(1), None, np.float64(2)],
    "objects": np.array([1, None, 2.0], dtype=object),
    "categories": pd.Categorical([1.0, None, 2.0]),
    "Float64": pd.Series([1.0, None, 2.0], dtype="Float64"),
    "Int64": pd.Series([1, None, 2], dtype="Int64"),
    "polars": pl.Series([1.0, None, 2.0]),
    "polars objects": pl.Series([1.0, None, 2.0], dtype=pl.Object),
}


@pytest.mark.parametrize("case", NUMBERS)
def test_whole_numbers_name_classes_as_integers_whatever_is_missing(case):
    encoded = encode_labels(NUMBERS[case], None)
    assert encoded.classes.dtype.kind == "i"
    assert (encoded.classes.tolist(), encoded.codes.tolist()) == ([1, 2], [0, -1, 1])


TRUTHS = {
    "None": [True, None, False],
    "NaN": [True, np.nan, False],
    "-1": [True, -1, False],
    "numpy": [np.True_, None, np.False_],
    "both kinds": [np.True_, None, False],
    "objects": np.array([np.True_, -1, np.False_], dtype=object),
    "Series": pd.Series([np.True_, np.nan, np.False_], dtype=object),
    "boolean": pd.Series([True, None, False], dtype="boolean"),
    "categories": pd.Series(np.array([True, None, False], dtype=object), dtype="category"),
    "numpy categories": pd.Categorical.from_codes([1, -1, 0], np.array([False, True])),
    "polars": pl.Series([True, None, False]),
    "masked": np.ma.array([True, True, False], mask=[False, True, False]),
}


@pytest.mark.parametrize("case", TRUTHS)
def test_true_and_false_name_classes_whatever_is_missing(case):
    encoded = encode_labels(TRUTHS[case], None)
    assert encoded.classes.dtype == bool
    assert (encoded.classes.tolist(), encoded.codes.tolist()) == ([False, True], [1, -1, 0])


def test_bytes_and_text_may_stand_side_by_side():
    assert classes_of(["é".encode(), "b", None, b"-1", b"b"]) == (["b", "é"], [1, 0, -1, -1, 0])


REFUSED = {
    "latin-1": (np.array([b"a", "é".encode("latin-1")]), r"node 1 is b'\\xe9', .* UTF-8"),
    "latin-1 in objects": ([None, "a", b"\xe9"], r"node 2 is b'\\xe9', .* UTF-8"),
    "too large": ([0.0, 1e300], r"node 1 is 1e\+300; .* below 2\*\*63"),
    "just too large": ([np.nan, 2.0**63], r"node 1 is 9\.22337203685477\d*e\+18; "),
    "far below": ([-1e300, 0.0], r"node 0 is -1e\+300; labels must not be below -1"),
    "below": ([0.0, None, -2.0], "node 2 is -2; labels must not be below -1"),
    "many digits": ([0, None, 10**30], "node 2 is 1000000000000000000000000000000"),
    "list": (pd.Series([0, None, [1, 2]]), r"node 2 is \[1, 2\]"),
    "lists": (pd.Series([[0], None, [1, 2]]), r"node 0 is \[0\]"),
    "array": (np.array([0, None, np.arange(2)], dtype=object), r"node 2 is array\(\[0, 1\]\)"),
    "infinity": ([1.0, None, np.inf], "infinity at row 2"),
    "quantity": ([1.0, None, 0.25], "Unknown label type: .* node 2 is 0.25"),
    "date": ([None, np.datetime64("2020-01-01")], "Unknown label type: .* node 1 is "),
    "complex": ([None, 1j], "Unknown label type: .* node 1 is 1j"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_label_that_cannot_be_read_is_shown_with_its_node(case):
    y, message = REFUSED[case]
    with pytest.raises(InputError, match=message):
        encode_labels(y, None)


def test_a_mask_does_not_shift_the_node_that_is_shown():
    with pytest.raises(InputError, match="node 2 is -5"):
        encode_labels(np.ma.array([0, -9, -5], mask=[False, True, False]), None)


@pytest.mark.parametrize(
    "name", ["None", "NaN", "NA", "n/a", "#N/A", "<NA>", "null", "NULL", "?", "unknown"]
)
def test_a_class_that_is_called_as_if_unknown_is_asked_about_once(name):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        clf = NodeClassifier(random_state=0).fit(y=np.array([name, "Mild", "", ""]), graph=GRAPH)
    assert name in clf.classes_.tolist()
    asked = [warning for warning in caught if "a class is named" in str(warning.message)]
    assert [(w.category, w.filename) for w in asked] == [(UserWarning, __file__)]
    assert str(asked[0].message) == (
        f"a class is named {name!r}; if that means unknown, give None or -1 instead"
    )


def test_several_such_names_give_one_warning():
    with pytest.warns(UserWarning, match="classes are named 'NA', 'None'; if") as caught:
        warn_of_typos(encode_labels(["None", "NA", "a"], None))
    assert len(caught) == 1


def test_other_names_are_not_asked_about():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_typos(encode_labels(["nobody", "Nina", "nano", "", None], None))
        warn_of_typos(encode_labels([3, 4, None], None))
        # Whoever reads files has said what means unknown.
        warn_of_typos(encode_names(np.array(["NA", "a"]), np.array([0, 1, -1]), None))


def columns():
    """Return labels in a column, in several containers."""
    texts = [["a"], ["b"], [""], [""]]
    return [texts, np.array(texts), pd.DataFrame(texts), pl.DataFrame(texts, orient="row")]


@pytest.mark.parametrize("y", columns(), ids=lambda y: type(y).__name__)
def test_the_warning_about_a_column_points_to_the_caller(y):
    clf = NodeClassifier(random_state=0)
    with pytest.warns(DataConversionWarning, match="A column-vector y") as caught:
        clf.fit(y=y, graph=GRAPH)
    ours = [warning for warning in caught if warning.category is DataConversionWarning]
    assert [warning.filename for warning in ours] == [__file__]
    assert clf.classes_.tolist() == ["a", "b"]


def test_the_warning_about_a_column_of_validation_labels_points_to_the_caller():
    labels = encode_labels([0, 1, -1, -1], None)
    with pytest.warns(DataConversionWarning, match="A column-vector y") as caught:
        nodes, _ = check_validation(np.array([[-1], [-1], [0], [1]]), labels)
    assert [warning.filename for warning in caught] == [__file__]
    assert nodes.tolist() == [2, 3]


def test_labels_that_tell_single_nodes_apart_are_asked_about_at_the_caller():
    with pytest.warns(UserWarning, match="30 labels name 30 classes") as caught:
        encode_labels(np.arange(30), None)
    assert [warning.filename for warning in caught] == [__file__]


@pytest.mark.filterwarnings("ignore:the [0-9]+ labels name")
@pytest.mark.parametrize(
    ("labels", "n"), [(np.arange(60), 60), ([f"{v / 7:.4f}" for v in range(1, 60)], 600)]
)
def test_features_and_identifiers_are_refused_as_labels(labels, n):
    y = np.full(n, "", dtype="U9")
    y[: len(labels)] = labels
    with pytest.raises(InputError, match=r"different labels on \d+ nodes: are they features"):
        NodeClassifier().fit(y=y, graph=sp.eye_array(n, k=1) + sp.eye_array(n, k=-1))


@pytest.mark.filterwarnings("ignore:the fit reached max_iter", "ignore:the data do not")
def test_many_classes_may_have_a_label_each_where_most_nodes_have_none():
    y = np.full(600, -1)
    y[::10] = np.arange(60)
    links = sp.eye_array(600, k=1) + sp.eye_array(600, k=-1)
    with pytest.warns(UserWarning, match="60 labels name 60 classes"):
        clf = NodeClassifier(n_init=1, max_iter=2, random_state=0).fit(y=y, graph=links)
    assert len(clf.classes_) == 60


def test_names_that_differ_by_white_space_are_asked_about():
    with pytest.warns(UserWarning, match="'a' and 'a ' differ only by white space") as caught:
        warn_of_typos(encode_labels(["a", "a ", " b", "a", "a ", "c d"], None))
    assert len(caught) == 1


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.uint64])
@pytest.mark.parametrize(
    "container", [np.asarray, pd.Series, pl.Series], ids=["array", "pandas", "polars"]
)
def test_what_unknown_becomes_in_an_unsigned_type_is_no_class(dtype, container):
    wrapped = np.array([0, 1, -1, 1]).astype(dtype)
    largest = int(wrapped[2])
    with pytest.raises(InputError, match=rf"node 2 is {largest}, which is what -1 becomes in uint"):
        encode_labels(container(wrapped), None)
    repaired = np.where(wrapped == largest, -1, wrapped.astype(int))
    assert encode_labels(repaired, None).codes.tolist() == [0, 1, -1, 1]
    assert encode_labels(container(wrapped[:2]), None).classes.tolist() == [0, 1]


def test_the_type_of_labels_is_seen_where_some_are_matched_by_name():
    X = pd.DataFrame({"x": [0.0, 0.1, 1.0, 1.1]}, index=list("abcd"))
    y = pd.Series(np.array([0, 1, 255], dtype=np.uint8), index=list("dab"))
    with pytest.raises(InputError, match="node 1 is 255, which is what -1 becomes in uint8"):
        NodeClassifier().fit(X, y)


def test_what_unknown_becomes_in_an_unsigned_type_is_no_label_of_a_data():
    data = SimpleNamespace(
        edge_index=np.array([[0, 1], [2, 3]]),
        num_nodes=4,
        y=np.array([0, 1, 255, 255], dtype=np.uint8),
        train_mask=np.array([True, True, True, False]),
    )
    with pytest.raises(InputError, match="node 2 is 255, which is what -1 becomes in uint8"):
        read_labels(data)
    data.train_mask[2] = False
    assert read_labels(data).tolist() == [0, 1, -1, -1]


@pytest.mark.parametrize(
    ("names", "reason"), [(["Red", "red"], "case"), (["e\u0301", "\u00e9"], "Unicode normal form")]
)
def test_names_that_differ_by_how_they_are_written_are_asked_about(names, reason):
    with pytest.warns(UserWarning, match=f"differ only by {reason}") as caught:
        warn_of_typos(encode_labels([*names, *names, "other"], None))
    assert len(caught) == 1
    assert all(ascii(name) in str(caught[0].message) for name in names)
