"""Whatever a graph is held in, the same checked matrix comes out."""

import warnings
from types import SimpleNamespace

import networkx as nx
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from nodeproof import kernels
from nodeproof.csr import _inspect, from_edges, unless_all_one
from nodeproof.errors import InputError
from nodeproof.inputs.graph_objects import check_adjacency

N = 6  # node 5 has no links
SOURCE = np.array([0, 0, 1, 3, 2])
TARGET = np.array([1, 2, 2, 4, 3])
WEIGHT = np.array([0.5, 2.0, 1.25, 3.0, 1.0])


def dense(weighted: bool) -> np.ndarray:
    matrix = np.zeros((N, N))
    matrix[SOURCE, TARGET] = WEIGHT if weighted else 1.0
    return matrix + matrix.T


def as_networkx(weighted: bool) -> nx.Graph:
    graph = nx.Graph()
    graph.add_nodes_from("abcdef")
    for u, v, w in zip(SOURCE, TARGET, WEIGHT, strict=True):
        graph.add_edge("abcdef"[u], "abcdef"[v], **({"weight": w} if weighted else {}))
    return graph


def as_igraph(weighted: bool):
    igraph = pytest.importorskip("igraph")
    graph = igraph.Graph(n=N, edges=list(zip(SOURCE.tolist(), TARGET.tolist(), strict=True)))
    if weighted:
        graph.es["weight"] = WEIGHT.tolist()
    return graph


def as_pyg(weighted: bool, both_ways: bool) -> SimpleNamespace:
    ends, weight = [SOURCE, TARGET], WEIGHT
    if both_ways:
        ends = [np.concatenate(ends), np.concatenate(ends[::-1])]
        weight = np.concatenate([weight, weight])
    data = SimpleNamespace(edge_index=np.array(ends), num_nodes=N)
    if weighted:
        data.edge_weight = weight
    return data


def as_columns(weighted: bool, names: tuple[str, str, str]) -> dict[str, np.ndarray]:
    columns = {names[0]: SOURCE, names[1]: TARGET}
    return columns | {names[2]: WEIGHT} if weighted else columns


def as_polars(weighted: bool):
    polars = pytest.importorskip("polars")
    return polars.DataFrame(as_columns(weighted, ("source", "target", "weight")))


PLAIN = ("source", "target", "weight")
KINDS = {
    "csr_array": lambda w: sp.csr_array(dense(w)),
    "csr_matrix": lambda w: sp.csr_matrix(dense(w)),
    "csc_array": lambda w: sp.csc_array(dense(w)),
    "csc_matrix": lambda w: sp.csc_matrix(dense(w)),
    "coo_array": lambda w: sp.coo_array(dense(w)),
    "coo_matrix": lambda w: sp.coo_matrix(dense(w)),
    "lil_array": lambda w: sp.lil_array(dense(w)),
    "dense array": dense,
    "dense list": lambda w: dense(w).tolist(),
    "networkx": as_networkx,
    "igraph": as_igraph,
    "PyG": lambda w: as_pyg(w, both_ways=False),
    "PyG, both ways": lambda w: as_pyg(w, both_ways=True),
    "dict": lambda w: as_columns(w, PLAIN),
    "dict of lists": lambda w: {k: v.tolist() for k, v in as_columns(w, PLAIN).items()},
    "dict src dst w": lambda w: as_columns(w, ("src", "dst", "w")),
    "dict From To Weight": lambda w: as_columns(w, ("From", "To", "Weight")),
    "dict u v": lambda w: as_columns(w, ("u", "v", "weight")),
    "pandas": lambda w: pd.DataFrame(as_columns(w, PLAIN)),
    "pyarrow": lambda w: pa.table(as_columns(w, PLAIN)),
    "polars": as_polars,
}


def assert_checked(matrix: sp.csr_array) -> None:
    assert isinstance(matrix, sp.csr_array)
    assert matrix.dtype in (np.float32, np.float64)
    assert matrix.has_canonical_format
    assert (matrix.data > 0).all()
    assert (matrix.diagonal() == 0).all()
    assert (matrix != matrix.T).nnz == 0


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_input_gives_the_same_matrix(kind, weighted):
    held = KINDS[kind](weighted)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        matrix = check_adjacency(held, n_nodes=N)
    assert_checked(matrix)
    np.testing.assert_array_equal(matrix.toarray(), dense(weighted))


def test_an_edge_index_gives_the_same_matrix():
    for edge_index in (np.array([SOURCE, TARGET]), np.array([TARGET, SOURCE], dtype=np.uint8)):
        matrix = check_adjacency(edge_index, n_nodes=N)
        assert_checked(matrix)
        np.testing.assert_array_equal(matrix.toarray(), dense(weighted=False))
    np.testing.assert_array_equal(
        check_adjacency([SOURCE.tolist(), TARGET.tolist()], n_nodes=N).toarray(),
        dense(weighted=False),
    )


def test_a_two_by_two_array_is_read_as_a_matrix_not_as_two_links():
    both = np.array([[0, 3], [3, 0]])
    np.testing.assert_array_equal(check_adjacency(both).toarray(), both)


@pytest.mark.parametrize("n_nodes", [None, 2, 4])
def test_two_rows_of_two_that_can_mean_one_thing_only_are_read_silently(n_nodes):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert check_adjacency(np.array([[0, 1], [1, 0]]), n_nodes)[0, 1] == 1


@pytest.mark.filterwarnings("ignore:the graph is directed")
def test_two_links_in_a_square_are_said_to_be_read_down_the_columns():
    pairs = np.array([(0, 1), (2, 3)])
    with pytest.warns(UserWarning, match="links 0–2 and 1–3; for .* 0–1 and 2–3 give its transp"):
        matrix = check_adjacency(pairs, 4)
    assert matrix[0, 2] == matrix[1, 3] == 1
    with pytest.warns(UserWarning, match=r"between two nodes; for .*'target': \[1, 3\]"):
        check_adjacency(pairs)


def test_without_a_number_of_nodes_the_last_position_counts():
    assert check_adjacency(np.array([SOURCE, TARGET])).shape == (5, 5)
    assert check_adjacency(as_columns(True, PLAIN)).shape == (5, 5)
    assert check_adjacency(as_networkx(True)).shape == (N, N)


@pytest.mark.parametrize(
    "dtype", [bool, np.int8, np.uint8, np.int16, np.int32, np.int64, np.longdouble]
)
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_other_number_types_become_floats_that_hold_them(kind, dtype):
    values = (4 * dense(weighted=True)).astype(dtype)
    matrix = check_adjacency(kind(values))
    assert_checked(matrix)
    np.testing.assert_array_equal(matrix.toarray(), values.astype(np.float64))


def test_a_dense_matrix_of_half_precision_is_read():
    matrix = check_adjacency(dense(weighted=True).astype(np.float16))
    np.testing.assert_array_equal(matrix.toarray(), dense(weighted=True))


def test_a_clean_matrix_is_returned_without_copying():
    for kind in (sp.csr_array, sp.csr_matrix):
        for dtype in (np.float32, np.float64):
            held = kind(dense(weighted=True).astype(dtype))
            matrix = check_adjacency(held)
            assert matrix.dtype == dtype
            for name in ("data", "indices", "indptr"):
                assert np.shares_memory(getattr(held, name), getattr(matrix, name))


# What is repaired. ----------------------------------------------------------------------


def test_self_loops_are_dropped():
    looped = dense(weighted=True) + np.diag([0, 7.0, 0, 0, 1.0, 2.0])
    for held in (looped, sp.csr_array(looped), sp.coo_array(looped)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            matrix = check_adjacency(held)
        assert_checked(matrix)
        np.testing.assert_array_equal(matrix.toarray(), dense(weighted=True))
    loop = {"source": [0, 1], "target": [0, 0], "weight": [9.0, 2.0]}
    np.testing.assert_array_equal(check_adjacency(loop).toarray(), [[0, 2], [2, 0]])


def test_weights_of_zero_are_no_links():
    held = sp.csr_array(dense(weighted=True))
    held.data[np.isin(held.data, [3.0])] = 0.0
    matrix = check_adjacency(held)
    assert_checked(matrix)
    assert matrix.nnz == held.nnz - 2
    table = as_columns(True, PLAIN) | {"weight": [0.0, 1.0, 1.0, 1.0, 1.0]}
    assert check_adjacency(table).nnz == 8


def listed_twice() -> dict[str, object]:
    """Return the links 0–1 of weight 1 and again of weight 2, and 1–2 of weight 3."""
    source, target = np.array([0, 0, 1]), np.array([1, 1, 2])
    weight = np.array([1.0, 2.0, 3.0])
    both = np.append(source, target), np.append(target, source)
    coo = sp.coo_array((np.append(weight, weight), both), shape=(3, 3))
    multi = nx.MultiGraph()
    multi.add_weighted_edges_from(zip("aab", "bbc", weight, strict=True))
    data = SimpleNamespace(edge_index=np.array(both), edge_weight=coo.data, num_nodes=3)
    order = np.lexsort((coo.col, coo.row))
    parts = coo.data[order], coo.col[order], np.array([0, 2, 5, 6])
    return {
        "coo": coo,
        "csr": sp.csr_array(parts, shape=(3, 3)),
        "csc": sp.csc_array(parts, shape=(3, 3)),
        "table": pd.DataFrame({"source": source, "target": target, "weight": weight}),
        "networkx": multi,
        "Data": data,
    }


@pytest.mark.parametrize("held", listed_twice().values(), ids=listed_twice())
def test_links_that_are_given_twice_count_once_by_the_largest_weight_and_that_is_said(held):
    entries = getattr(held, "nnz", None)
    with pytest.warns(UserWarning, match=r"repeats? .*: each link counts once, with its largest"):
        matrix = check_adjacency(held)
    np.testing.assert_array_equal(matrix.toarray(), [[0, 2, 0], [2, 0, 3], [0, 3, 0]])
    assert_checked(matrix)
    assert getattr(held, "nnz", None) == entries


def test_links_in_both_directions_are_not_given_twice():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table = {"source": [0, 1], "target": [1, 0], "weight": [1.0, 5.0]}
        np.testing.assert_array_equal(check_adjacency(table).toarray(), [[0, 5], [5, 0]])
        matrix = check_adjacency(np.array([[0, 1, 1, 2], [1, 0, 2, 1]]))
    assert matrix.data.tolist() == [1.0] * 4


def test_a_matrix_whose_entries_were_added_up_stays_so():
    held = listed_twice()["coo"]
    held.sum_duplicates()
    np.testing.assert_array_equal(check_adjacency(held).toarray()[0], [0, 3, 0])


def test_a_bad_weight_is_refused_even_where_a_good_one_repeats_it():
    held = sp.coo_array(([-1.0, 2.0, 2.0], ([0, 0, 1], [1, 1, 0])), shape=(2, 2))
    with pytest.raises(InputError, match="negative"):
        check_adjacency(held)


def test_unsorted_rows_are_sorted():
    clean = sp.csr_array(dense(weighted=True))
    turned = clean.copy()
    for v in range(N):
        row = slice(*turned.indptr[v : v + 2])
        turned.indices[row] = turned.indices[row][::-1].copy()
        turned.data[row] = turned.data[row][::-1].copy()
    turned.has_sorted_indices = False
    matrix = check_adjacency(turned)
    assert_checked(matrix)
    np.testing.assert_array_equal(matrix.toarray(), dense(weighted=True))


def test_a_directed_matrix_is_made_symmetric_by_maximum_with_a_warning():
    directed = np.array([[0, 2.0, 0], [1.0, 0, 4.0], [0, 0, 0]])
    for held in (directed, sp.csr_array(directed), sp.csc_matrix(directed)):
        with pytest.warns(UserWarning, match="directed") as caught:
            matrix = check_adjacency(held)
        assert len(caught) == 1
        assert_checked(matrix)
        np.testing.assert_array_equal(matrix.toarray(), [[0, 2, 0], [2, 0, 4], [0, 4, 0]])


def test_a_directed_matrix_made_to_cancel_in_a_known_sum_is_not_taken_for_symmetric():
    """Found by a birthday search against a sum whose multipliers were constants of the source."""
    hub, incoming, outgoing = 116_476, [36_472, 51_998], [41_250, 47_220]
    n = hub + 1
    rows, columns = [hub, hub, *incoming], [*outgoing, hub, hub]
    forged = sp.csr_array((np.ones(4), (rows, columns)), shape=(n, n))
    for matrix in (forged, sp.csr_array(forged.T)):
        with pytest.warns(UserWarning, match="directed"):
            assert check_adjacency(matrix).nnz == 8


def test_nobody_can_know_what_symmetry_is_checked_with(monkeypatch):
    used = []
    inspect = kernels.inspect_links

    def look(*arguments):
        used.append(arguments[-1])
        return inspect(*arguments)

    monkeypatch.setattr(kernels, "inspect_links", look)
    for _ in range(2):
        np.random.seed(0)  # noqa: NPY002 - a seed that others set must not reach it
        check_adjacency(sp.csr_array(dense(False)))
    assert len({bits for marks in used for bits in marks.tolist()}) == 2 * N


@pytest.mark.filterwarnings("ignore:the graph is directed")
def test_a_directed_networkx_graph_is_made_symmetric_by_maximum():
    directed = nx.DiGraph()
    directed.add_weighted_edges_from([(0, 1, 2.0), (1, 0, 1.0), (1, 2, 4.0)])
    matrix = check_adjacency(directed)
    np.testing.assert_array_equal(matrix.toarray(), [[0, 2, 0], [2, 0, 4], [0, 4, 0]])


def test_a_directed_networkx_graph_warns_as_a_directed_matrix_does():
    with pytest.warns(UserWarning, match="directed"):
        check_adjacency(nx.DiGraph([(0, 1), (1, 2)]))


def dirty_matrices():
    looped = dense(weighted=True) + np.eye(N)
    directed = np.triu(dense(weighted=True))
    twice = sp.csr_array((np.ones(4), np.array([1, 1, 0, 0]), np.array([0, 2, 4])), shape=(2, 2))
    unsorted = sp.csr_array(
        (np.array([2.0, 1.0, 1.0, 2.0]), np.array([2, 1, 0, 0]), np.array([0, 2, 3, 4])),
        shape=(3, 3),
    )
    zeros = sp.csr_array((np.zeros(2), np.array([1, 0]), np.array([0, 1, 2])), shape=(2, 2))
    yield from (sp.csr_array(looped), sp.csr_matrix(looped), sp.csr_array(directed))
    yield from (twice, unsorted, zeros, sp.csr_array(dense(weighted=True)))
    yield sp.csr_array(looped.astype(np.int32))


@pytest.mark.filterwarnings("ignore:the graph is directed", "ignore:.*each link counts once")
@pytest.mark.parametrize(
    "held", list(dirty_matrices()), ids=lambda m: f"{m.nnz} entries, {m.dtype}"
)
def test_a_sparse_input_is_never_modified(held):
    before = [array.copy() for array in (held.data, held.indices, held.indptr)]
    matrix = check_adjacency(held)
    assert_checked(matrix)
    for old, new in zip(before, (held.data, held.indices, held.indptr), strict=True):
        np.testing.assert_array_equal(old, new)


def test_other_inputs_are_never_modified():
    array, looped = dense(weighted=True), dense(weighted=True) + np.eye(N)
    check_adjacency(looped)
    np.testing.assert_array_equal(looped, array + np.eye(N))
    columns = {name: values.copy() for name, values in as_columns(True, PLAIN).items()}
    check_adjacency(columns)
    np.testing.assert_array_equal(columns["source"], SOURCE)
    np.testing.assert_array_equal(columns["target"], TARGET)
    np.testing.assert_array_equal(columns["weight"], WEIGHT)
    edge_index = np.array([SOURCE, TARGET])
    check_adjacency(edge_index)
    np.testing.assert_array_equal(edge_index, [SOURCE, TARGET])


def test_a_read_only_matrix_is_accepted():
    held = sp.csr_array(dense(weighted=True) + np.eye(N))
    for array in (held.data, held.indices, held.indptr):
        array.flags.writeable = False
    np.testing.assert_array_equal(check_adjacency(held).toarray(), dense(weighted=True))


# What is refused. -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "what"),
    [(np.nan, "not finite: nan"), (np.inf, "not finite: inf"), (-2.0, "negative")],
)
def test_weights_that_cannot_be_are_refused_by_their_link(value, what):
    broken = dense(weighted=True)
    broken[2, 3] = value
    for held in (broken, sp.csr_array(broken), sp.coo_array(broken)):
        with pytest.raises(InputError, match=rf"link \(2, 3\) is {what}"):
            check_adjacency(held)
    table = as_columns(True, PLAIN) | {"weight": [1.0, 1.0, value, 1.0, 1.0]}
    with pytest.raises(InputError, match=rf"link \(1, 2\) is {what}"):
        check_adjacency(table)
    graph = as_networkx(True)
    graph["a"]["b"]["weight"] = value
    with pytest.raises(InputError, match=rf"link \(0, 1\) is {what}"):
        check_adjacency(graph)


def test_a_graph_of_another_size_is_refused_with_both_numbers():
    with pytest.raises(InputError, match="graph has 6 nodes but features or labels have 7 rows"):
        check_adjacency(dense(weighted=False), n_nodes=7)


def test_a_matrix_that_is_not_square_is_refused():
    with pytest.raises(InputError, match=r"square adjacency matrix, got shape \(3, 4\)"):
        check_adjacency(np.ones((3, 4)))


@pytest.mark.parametrize(
    "held",
    [
        np.zeros((0, 0)),
        sp.csr_array((0, 0)),
        nx.Graph(),
        np.zeros((2, 0), dtype=int),
        {"source": np.zeros(0, int), "target": np.zeros(0, int)},
    ],
    ids=["dense", "sparse", "networkx", "edge_index", "table"],
)
def test_a_graph_without_nodes_is_refused(held):
    with pytest.raises(InputError, match="it has no nodes"):
        check_adjacency(held)


def test_a_graph_without_links_is_accepted():
    for held in (np.zeros((3, 3)), sp.csr_array((3, 3)), np.zeros((2, 0), dtype=int)):
        matrix = check_adjacency(held, n_nodes=3)
        assert matrix.shape == (3, 3)
        assert matrix.nnz == 0
    assert check_adjacency(nx.empty_graph(4)).shape == (4, 4)


@pytest.mark.parametrize(
    ("edge_index", "named"),
    [
        (np.array([[0, 1, 2], [1, 2, 6]]), "node 6, but nodes run from 0 to 5"),
        (np.array([[0, -1, 2], [1, 2, 3]]), "node -1, but nodes run from 0 to 5"),
    ],
)
def test_links_to_nodes_that_are_not_there_are_refused(edge_index, named):
    with pytest.raises(InputError, match=named):
        check_adjacency(edge_index, n_nodes=N)


@pytest.mark.parametrize("column", ["source", "target"])
def test_ends_that_are_not_positions_are_refused_by_column(column):
    table = as_columns(False, PLAIN)
    for values in (table[column].astype(float), table[column].astype(str)):
        with pytest.raises(InputError, match=f"the {column} column must contain row positions"):
            check_adjacency(table | {column: values})


def test_a_table_without_the_columns_names_those_it_has():
    with pytest.raises(InputError, match=r"columns source and target .*, got a, b, c: rename"):
        check_adjacency({"a": [0], "b": [1], "c": [2]})
    with pytest.raises(InputError, match=r"source and target .*, got source, b"):
        check_adjacency(pd.DataFrame({"source": [0], "b": [1]}))


@pytest.mark.parametrize("held", [None, "edges.csv", np.arange(4), np.zeros((2, 2, 2)), 3])
def test_what_is_no_graph_is_refused_with_what_would_be(held):
    with pytest.raises(InputError, match=r"cannot read a graph from .* edge_index of shape"):
        check_adjacency(held)


@pytest.mark.filterwarnings("ignore:Casting complex")
def test_complex_weights_are_refused():
    with pytest.raises(InputError):
        check_adjacency(sp.csr_array(dense(weighted=True) * 1j))


@pytest.mark.parametrize(
    "table",
    [
        {"source": [0, 1], "target": [1, 2, 3]},
        {"source": [0, 1, 2], "target": [1, 2, 3], "weight": [1.0]},
    ],
)
def test_columns_of_different_lengths_are_refused(table):
    with pytest.raises(InputError):
        check_adjacency(table)


# The pieces. ----------------------------------------------------------------------------


def test_weights_that_are_all_one_are_left_out_for_the_kernels():
    assert len(unless_all_one(np.ones(3))) == 0
    assert len(unless_all_one(np.ones(0))) == 0
    np.testing.assert_array_equal(unless_all_one(np.array([1.0, 2.0])), [1.0, 2.0])
    np.testing.assert_array_equal(unless_all_one(np.array([2.0, 2.0])), [2.0, 2.0])


@st.composite
def nearly_symmetric(draw) -> np.ndarray:
    """Small whole-number matrices, self loops allowed; at most one entry breaks symmetry."""
    n = draw(st.integers(1, 8))
    entries = draw(st.lists(st.integers(0, 2), min_size=n * n, max_size=n * n))
    matrix = np.triu(np.array(entries, dtype=np.float64).reshape(n, n))
    matrix = matrix + np.triu(matrix, 1).T
    if draw(st.booleans()):
        u, v = draw(st.integers(0, n - 1)), draw(st.integers(0, n - 1))
        matrix[u, v] = draw(st.integers(0, 3))
    return matrix


@settings(max_examples=300, deadline=None)
@given(nearly_symmetric())
def test_symmetry_is_told_as_by_comparison_with_the_transpose(matrix):
    csr = sp.csr_array(matrix)
    told = kernels.is_symmetric(csr.indptr, csr.indices, csr.data)
    assert told == (matrix == matrix.T).all()
    pattern = kernels.is_symmetric(csr.indptr, csr.indices, csr.data[:0])
    assert pattern == ((matrix > 0) == (matrix.T > 0)).all()
    assert _inspect(csr).symmetric == pattern


@pytest.mark.filterwarnings("ignore:.*each link counts once")
@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.integers(0, 5), st.sampled_from([0.5, 1.0, 2.0])),
        max_size=20,
    )
)
def test_an_edge_list_keeps_the_largest_weight_of_each_pair(edges):
    expected = np.zeros((N, N))
    for u, v, w in edges:
        if u != v:
            expected[u, v] = expected[v, u] = max(expected[u, v], w)
    ends = np.array([(u, v) for u, v, _ in edges], dtype=np.int64).reshape(-1, 2)
    weight = np.array([w for _, _, w in edges])
    matrix = from_edges(ends[:, 0], ends[:, 1], weight, N)
    assert matrix.has_canonical_format
    np.testing.assert_array_equal(matrix.toarray(), expected)


def test_the_first_bad_weight_is_found_wherever_it_is():
    for dtype in (np.float32, np.float64):
        data = np.array([0.0, 1.0, 2.0], dtype=dtype)
        assert kernels.first_bad_weight(data) == -1
        for position in range(3):
            for bad in (np.nan, np.inf, -1e-30):
                broken = data.copy()
                broken[position] = bad
                assert kernels.first_bad_weight(broken) == position
    assert kernels.first_bad_weight(np.zeros(0)) == -1


def test_links_that_a_mask_hides_are_no_links():
    matrix = np.ma.masked_array(np.where(dense(True) > 0, dense(True), 9.0), mask=dense(True) == 0)
    np.testing.assert_array_equal(check_adjacency(matrix).toarray(), dense(True))
    ends = np.array([np.append(SOURCE, [4, 5]), np.append(TARGET, [5, 0])])
    hidden = np.zeros_like(ends, dtype=bool)
    hidden[[0, 1], [5, 6]] = True
    edge_index = np.ma.masked_array(ends, mask=hidden)
    np.testing.assert_array_equal(check_adjacency(edge_index, N).toarray(), dense(False))


@pytest.mark.parametrize(("column", "message"), [("target", "row 1 .* empty"), ("weight", "nan")])
def test_what_a_mask_hides_in_a_table_of_links_is_missing(column, message):
    table = {"source": [0, 1], "target": [1, 2], "weight": [1, 2]}
    table[column] = np.ma.masked_array(table[column], mask=[False, True])
    with pytest.raises(InputError, match=message):
        check_adjacency(table)


def test_links_of_a_data_may_be_lists():
    data = SimpleNamespace(edge_index=[SOURCE.tolist(), TARGET.tolist()], num_nodes=N)
    np.testing.assert_array_equal(check_adjacency(data).toarray(), dense(False))


@pytest.mark.parametrize("weight", [WEIGHT * 1j, ["strong"] * 5])
def test_weights_of_a_data_that_are_no_real_numbers_are_refused(weight):
    ends = np.array([SOURCE, TARGET])
    data = SimpleNamespace(edge_index=ends, edge_weight=np.array(weight), num_nodes=N)
    with pytest.raises(InputError, match="weights of links must be real numbers"):
        check_adjacency(data)


@pytest.mark.parametrize("weight", [[1j, 1.0], [10**400, 1.0]])
def test_weights_of_a_table_that_are_no_floats_are_refused(weight):
    with pytest.raises(InputError, match="weight column must hold numbers"):
        check_adjacency({"source": [0, 1], "target": [1, 2], "weight": weight})


def test_a_weight_beyond_floats_is_refused_by_its_link():
    graph = nx.Graph()
    graph.add_edge("a", "b", weight=10**400)
    with pytest.raises(InputError, match=r"link \('a', 'b'\) is too large: 1000.*\.\.\."):
        check_adjacency(graph)


def test_links_in_rows_of_several_lengths_are_refused():
    with pytest.raises(InputError, match="rows of the graph differ in length"):
        check_adjacency([[0, 1], [2]])
