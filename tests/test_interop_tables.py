"""Tables of pandas, polars and pyarrow: features, labels, links and what was found."""

from __future__ import annotations

import sys
from datetime import date

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

from interop_helpers import KINDS, assert_same, fit, kinds, names, planted, reference
from nodeproof import NodeClassifier
from nodeproof.errors import InputError, MissingExtraError
from nodeproof.inputs.graph_objects import check_adjacency
from nodeproof.interop import from_tables, to_table
from nodeproof.terms import Covariance, Labels

pl = pytest.importorskip("polars", reason="polars is not installed")

COLUMNS = list("abcdef")


def columns() -> dict[str, np.ndarray]:
    return {name: planted().X[:, k] for k, name in enumerate(COLUMNS)}


def ends() -> tuple[np.ndarray, np.ndarray]:
    rows, other = sp.triu(planted().graph).nonzero()
    return rows, other


def named_links() -> dict[str, list[str]]:
    return {
        side: [names()[v] for v in rows]
        for side, rows in zip(("source", "target"), ends(), strict=True)
    }


def fit_features(X):
    return fit(X, planted().y, graph=planted().graph)


# Features. ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame(columns()),
        pd.DataFrame(columns()).astype("Float64"),
        pd.DataFrame(columns()).astype("double[pyarrow]"),
        pd.DataFrame(columns()).astype(object),
        pl.DataFrame(columns()),
    ],
    ids=["pandas", "nullable", "pandas on arrow", "objects", "polars"],
)
def test_a_table_of_features_keeps_their_names(table):
    clf = fit_features(table)
    assert_same(clf)
    assert clf.feature_names_in_.tolist() == COLUMNS


def test_an_arrow_table_holds_features():
    assert_same(fit_features(pa.table(columns())))


def test_booleans_and_whole_numbers_are_features():
    plain = pd.DataFrame(columns()) > 0
    clf = NodeClassifier(terms=[Covariance(), Labels()], n_init=1, random_state=0)
    expected = clf.fit(plain.to_numpy(float), planted().y).proba_
    for table in (plain, plain.astype("boolean"), plain.astype("Int8"), pl.DataFrame(plain)):
        np.testing.assert_array_equal(clf.fit(table, planted().y).proba_, expected)


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (pd.Series(["x"] * 120, dtype=object), "object"),
        (pd.Series(["x"] * 120, dtype="string"), "string"),
        (pd.Series([1, 2] * 60, dtype="category"), "category"),
        (pd.Series(pd.Timestamp(2020, 1, 1), index=range(120)), "datetime64"),
        (pd.Series(pd.Timedelta(days=1), index=range(120)), "timedelta64"),
    ],
    ids=["objects", "strings", "categories", "dates", "durations"],
)
def test_columns_of_pandas_that_are_no_numbers_are_refused_by_name(column, kind):
    table = pd.DataFrame(columns()).assign(**{"kind of node": column})
    with pytest.raises(InputError, match=rf"1 of the columns .* 'kind of node' \({kind}"):
        fit_features(table)
    with pytest.raises(InputError, match="'kind of node'"):
        fit_features(table[["kind of node"]])


@pytest.mark.parametrize("column", [["x"] * 120, [date(2020, 1, 1)] * 120, [[1.0, 2.0]] * 120])
def test_columns_of_polars_and_arrow_that_are_no_numbers_are_refused_by_name(column):
    for table in (pl.DataFrame(columns() | {"odd": column}), pa.table(columns() | {"odd": column})):
        with pytest.raises(InputError, match=r"1 of the columns of X are not numbers: 'odd'"):
            fit_features(table)


def test_of_many_bad_columns_some_are_listed():
    table = pd.DataFrame({f"c{k}": ["x"] * 120 for k in range(9)})
    with pytest.raises(InputError, match=r"9 of the columns .*'c4' \(\w+\), …; encode"):
        fit_features(table)


def test_missing_features_are_named():
    for table in (
        pd.DataFrame(columns()).astype("Float64").mask(planted().X > 1.0),
        pl.DataFrame(columns()).with_columns(pl.when(pl.col("b") < 9).then(None).alias("b")),
    ):
        with pytest.raises(InputError, match=r"contains NaN at row \d+, column \d+ \('\w'\)"):
            fit_features(table)


def test_what_is_not_collected_is_refused():
    with pytest.raises(InputError, match=r"X.collect\(\)"):
        fit_features(pl.DataFrame(columns()).lazy())
    with pytest.raises(InputError, match=r"\.collect\(\)"):
        fit(graph=pl.DataFrame(named_links()).lazy())


# Labels. --------------------------------------------------------------------------------

WORDS = {
    "objects": lambda words: pd.Series(words, dtype=object),
    "strings": lambda words: pd.Series(words, dtype="string"),
    "arrow strings": lambda words: pd.Series(words, dtype=pd.ArrowDtype(pa.string())),
    "categories": lambda words: pd.Series(
        pd.Categorical(words, categories=["cat", "unused", "bee", "ant"])
    ),
    "polars": pl.Series,
    "polars categories": lambda words: pl.Series(words, dtype=pl.Categorical),
    "polars enum": lambda words: pl.Series(words, dtype=pl.Enum(["cat", "bee", "ant", "unused"])),
    "arrow": pa.array,
    "arrow dictionary": lambda words: pa.array(words).dictionary_encode(),
    "arrow chunks": lambda words: pa.chunked_array([pa.array(words[:7]), pa.array(words[7:])]),
}


@pytest.mark.parametrize("kind", WORDS)
def test_a_column_of_words_holds_labels_and_what_is_missing_is_unknown(kind):
    clf = fit(planted().X, WORDS[kind](kinds()), graph=planted().graph)
    assert_same(clf, words=True)
    assert clf.classes_.tolist() == KINDS.tolist()


@pytest.mark.parametrize(
    "make",
    [
        lambda codes: pd.Series(codes, dtype="Int64"),
        lambda codes: pd.Series(codes, dtype=pd.ArrowDtype(pa.int64())),
        lambda codes: pd.Series(pd.Categorical(codes)),
        pl.Series,
        pa.array,
    ],
    ids=["nullable", "pandas on arrow", "categories", "polars", "arrow"],
)
def test_a_column_of_numbers_holds_labels(make):
    codes = [None if code < 0 else int(code) for code in planted().y]
    clf = fit(planted().X, make(codes), graph=planted().graph)
    assert_same(clf)
    assert clf.classes_.dtype.kind == "i"


@pytest.mark.parametrize(
    "make",
    [
        lambda truths: pd.Series(truths, dtype="boolean"),
        lambda truths: pd.Series(truths, dtype=pd.ArrowDtype(pa.bool_())),
        lambda truths: pd.Series(truths, dtype=object),
        pl.Series,
    ],
    ids=["nullable", "pandas on arrow", "objects", "polars"],
)
def test_true_and_false_stay_what_they_are(make):
    clf = fit([[0.0], [0.1], [1.0], [1.1]], make([True, None, False, None]))
    assert clf.classes_.tolist() == [False, True]
    assert clf.classes_.dtype == bool
    assert clf.fitted_.given.tolist() == [1, -1, 0, -1]


# Links. ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        pd.DataFrame,
        lambda links: pd.DataFrame(links).astype("Int32"),
        lambda links: pd.DataFrame(links).astype(pd.ArrowDtype(pa.int64())),
        lambda links: pd.DataFrame(links).astype(object),
        pl.DataFrame,
        pa.table,
    ],
    ids=["pandas", "nullable", "pandas on arrow", "objects", "polars", "arrow"],
)
def test_a_table_links_positions(make):
    links = dict(zip(("source", "target"), ends(), strict=True))
    matrix = check_adjacency(make(links), n_nodes=120)
    np.testing.assert_array_equal(matrix.toarray(), planted().graph.toarray())


@pytest.mark.parametrize(
    "make",
    [
        pd.DataFrame,
        lambda links: pd.DataFrame(links, dtype="string"),
        lambda links: pd.DataFrame(links, dtype="category"),
        pl.DataFrame,
        pa.table,
        dict,
    ],
    ids=["pandas", "strings", "categories", "polars", "arrow", "dict"],
)
def test_a_table_links_names_that_the_index_of_features_has(make):
    X = pd.DataFrame(columns(), index=list(names()))
    clf = fit(X, planted().y, graph=make(named_links()))
    assert_same(clf)
    assert clf.node_ids_.tolist() == list(names())


def test_the_index_of_labels_has_names_too():
    y = pd.Series(planted().y, index=list(names()))
    assert_same(fit(planted().X, y, graph=named_links()))


def test_names_alone_are_sorted():
    clf = fit(graph={"source": ["d", "b", "a"], "target": ["c", "a", "b"]})
    assert clf.node_ids_.tolist() == ["a", "b", "c", "d"]


def test_a_name_that_is_no_node_is_refused_by_its_row():
    X = pd.DataFrame({"x": [0.0, 1.0]}, index=["ann", "bob"])
    with pytest.raises(InputError, match="row 1 of the target column names 'eve'"):
        fit(X, [0, 1], graph={"source": ["ann", "bob"], "target": ["bob", "eve"]})


def test_names_without_an_index_are_refused_with_what_to_do():
    with pytest.raises(InputError, match=r"for names use nodeproof\.interop"):
        fit(planted().X, planted().y, graph=named_links())


def test_numbers_that_could_be_positions_or_names_are_refused():
    X = pd.DataFrame({"x": [0.0, 1.0, 1.1]}, index=[2, 0, 1])
    links = {"source": [0, 1], "target": [1, 2]}
    with pytest.raises(InputError, match=r"names or positions: use reset_index\(drop=True\)"):
        fit(X, [0, 1, 1], graph=links)
    fit(X.reset_index(drop=True), [0, 1, 1], graph=links)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"source": pd.array([0, None], dtype="Int64")}, "row 1 of the source column is empty"),
        ({"target": ["a", None]}, "row 1 of the target column is empty"),
        ({"weight": ["x", "y"]}, "the weight column must hold numbers"),
        ({"weight": [1.0, "y"]}, "the weight column must hold numbers"),
        ({"weight": pd.array([1.0, None], dtype="Float64")}, "not finite: nan"),
        ({"source": [0.5, 1.0]}, "must contain row positions"),
    ],
)
def test_tables_with_gaps_are_refused_by_row(changes, message):
    table = pd.DataFrame({"source": [0, 1], "target": [1, 2]} | changes)
    with pytest.raises(InputError, match=message):
        fit(y=[0, 1, 1], graph=table)
    with pytest.raises(InputError, match=message):
        check_adjacency(table)


def test_a_square_table_with_the_same_names_both_ways_is_a_matrix():
    table = pd.DataFrame(planted().graph.toarray(), index=list(names()), columns=list(names()))
    clf = fit(planted().X, planted().y, graph=table)
    assert_same(clf)
    assert clf.node_ids_.tolist() == list(names())
    with pytest.raises(InputError, match=r"the columns .* same names in a different order"):
        check_adjacency(table.iloc[::-1])
    with pytest.raises(InputError, match=r"source and target .* node 0, .*node 49, …: rename"):
        check_adjacency(table.reset_index(drop=True))


# Both tables. ---------------------------------------------------------------------------

LIBRARIES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table, "dict": dict}


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_table_of_links_and_a_table_of_nodes(library):
    make = LIBRARIES[library]
    nodes = make({"who": list(names()), "kind": kinds()} | columns())
    given = from_tables(
        nodes, make(named_links()), node="who", label="kind", features=COLUMNS, prepare=False
    )
    clf = fit(**given)
    assert_same(clf, words=True)
    assert clf.node_ids_.tolist() == list(names())
    if library in ("pandas", "polars"):
        assert clf.feature_names_in_.tolist() == COLUMNS


def test_names_may_be_numbers():
    numbers = [(v * 7) % 120 for v in range(120)]
    links = {side: [numbers[v] for v in rows] for side, rows in zip("uv", ends(), strict=True)}
    nodes = pd.DataFrame(columns() | {"node": numbers, "kind": kinds()})
    # What is left of another order is no name.
    nodes = nodes.set_index(pd.Index(range(119, -1, -1)))
    clf = fit(**from_tables(nodes, links, label="kind", features=COLUMNS, prepare=False))
    assert_same(clf, words=True)
    assert clf.node_ids_.tolist() == numbers


@pytest.mark.parametrize(
    ("links", "nodes", "options", "message"),
    [
        ({}, {"who": ["a"]}, {}, "which column of nodes names them.* there are who"),
        ({}, {"who": ["a"]}, {"node": "id"}, "nodes has no column 'id', only 'who'"),
        ({}, {"node": ["a"]}, {"source": "payer", "target": "b"}, "edges has no column 'payer'"),
        ({}, {"node": ["a"]}, {"source": "source"}, "name both ends"),
        ({}, {"node": ["a", "a"]}, {}, "the node column names 'a' twice"),
        ({}, {"node": ["a", None]}, {}, "row 1 of the node column is None: names must be text"),
        ({}, {"node": ["a", "b"]}, {"label": "kind"}, "no column 'kind'"),
        ({}, {"node": ["a", "b"]}, {"features": "node"}, "must be a list of columns"),
        ({"source": [0]}, {"node": ["a", "b"]}, {}, "source column names 0, which is not one"),
        ({"source": ["c"]}, {"node": ["a", "b"]}, {}, "source column names 'c', which is not one"),
        ({"source": ["a"]}, {"node": [1, 2]}, {}, "source column names 'a', which is not one"),
    ],
)  # fmt: skip
def test_tables_that_do_not_fit_together_are_refused(links, nodes, options, message):
    links = {"source": ["a"], "target": ["b"]} | links
    with pytest.raises(InputError, match=message):
        from_tables(pd.DataFrame(nodes, dtype=object), pd.DataFrame(links), **options)


def test_what_is_no_table_is_refused():
    with pytest.raises(InputError, match="nodes must be a table with named columns, got list"):
        from_tables(["a"], {"source": [], "target": []})


def test_tables_in_the_other_order_are_refused():
    links = pd.DataFrame({"source": ["a"], "target": ["b"]})
    nodes = pd.DataFrame({"node": ["a", "b"], "size": [1, 2], "kind": ["x", "y"]})
    with pytest.raises(InputError, match="the first table is that of the nodes"):
        from_tables(links, nodes)


# Out. -----------------------------------------------------------------------------------


def test_what_was_found_is_a_table_of_any_library():
    clf = fit(pd.DataFrame(columns(), index=list(names())), kinds(), graph=planted().graph)
    frame, other, arrow = (to_table(clf, kind) for kind in ("pandas", "polars", "arrow"))
    assert isinstance(other, pl.DataFrame)
    assert isinstance(arrow, pa.Table)
    assert frame.columns.tolist() == ["node", "label", "probability", "given_label", "suspect"]
    assert frame["node"].tolist() == list(names())
    assert frame["label"].tolist() == clf.labels_.tolist()
    np.testing.assert_array_equal(frame["probability"], clf.proba_.max(axis=1))
    assert [None if pd.isna(word) else word for word in frame["given_label"]] == kinds()
    assert np.flatnonzero(frame["suspect"]).tolist() == sorted(clf.suspects_.node)
    assert other.to_dict(as_series=False) == arrow.to_pydict()
    assert arrow["given_label"].to_pylist() == kinds()


@pytest.mark.filterwarnings("ignore:the data do not tell")
def test_labels_that_are_numbers_stay_so():
    frame = to_table(reference())
    assert frame["node"].tolist() == list(range(120))
    assert frame["label"].dtype == np.int64
    assert frame["given_label"].dtype == "Int64"
    assert frame["given_label"].fillna(-1).tolist() == planted().y.tolist()
    unlabelled = NodeClassifier(n_classes=2, n_init=1).fit([[0.0], [0.1], [5.0]])
    assert to_table(unlabelled)["given_label"].isna().all()


def test_what_cannot_be_made_a_table_of_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'nodeproof\[io\]'"):
        to_table(reference(), "polars")
    with pytest.raises(InputError, match="got 'excel'"):
        to_table(reference(), "excel")
    with pytest.raises(NotFittedError):
        to_table(NodeClassifier())


def test_columns_of_objects_of_one_name_are_refused_in_a_clear_word():
    X = pd.DataFrame([[0.5, "high"], [2.0, 3.0]], columns=["f", "f"], dtype=object)
    with pytest.raises(InputError, match=r"1 of the columns .* not numbers: 'f' \(object\)"):
        NodeClassifier().fit(X, [0, 1])
