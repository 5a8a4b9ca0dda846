"""Matrices of scipy and arrays of numpy, of every format and type."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp

from interop_helpers import assert_same, fit, planted, reference
from nodeproof import NodeClassifier
from nodeproof.errors import InputError
from nodeproof.inputs.graph_objects import check_adjacency
from nodeproof.terms import Labels, Multinomial

FORMATS = ["csr", "csc", "coo", "lil", "dok", "dia", "bsr"]


def converted(matrix, name: str):
    """Return a small sparse matrix as, say, a ``dia_array``."""
    return getattr(sp, name)(sp.coo_array(matrix))


@pytest.mark.parametrize("kind", ["array", "matrix"])
@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.filterwarnings("ignore:Constructing a DIA matrix")
def test_every_sparse_format_gives_the_same_graph(name, kind):
    graph = planted().graph
    matrix = check_adjacency(converted(graph, f"{name}_{kind}"))
    np.testing.assert_array_equal(matrix.toarray(), graph.toarray())
    assert_same(fit(planted().X, planted().y, graph=converted(graph, f"{name}_{kind}")))


@cache
def counted(name: str) -> NodeClassifier:
    """Return a fit to counts of words in one format; no settings are chosen, which takes time."""
    words = np.round(2 * np.abs(planted().X))
    clf = NodeClassifier(terms=[Multinomial(), Labels()], weights="calibrated", n_init=1)
    return clf.fit(converted(words, name), planted().y)


@pytest.mark.parametrize("name", [f"{name}_array" for name in FORMATS] + ["csr_matrix"])
@pytest.mark.filterwarnings("ignore:Constructing a DIA matrix", "ignore:the fit", "ignore:what was")
def test_every_sparse_format_gives_the_same_features(name):
    np.testing.assert_array_equal(counted(name).proba_, counted("csr_array").proba_)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint64, np.float32, np.longdouble])
def test_a_graph_without_weights_may_have_any_type(dtype):
    graph = planted().graph
    for held in (graph.astype(dtype), graph.toarray().astype(dtype)):
        np.testing.assert_array_equal(check_adjacency(held).toarray(), graph.toarray())


def test_a_sparse_graph_of_half_precision_is_read():
    held = sp.csr_array(planted().graph)
    held.data = held.data.astype(np.float16)
    assert check_adjacency(held).dtype == np.float32


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.longdouble])
def test_features_of_other_precision_give_the_same_labels(dtype):
    clf = fit(planted().X.astype(dtype), planted().y, graph=planted().graph)
    np.testing.assert_array_equal(clf.labels_, reference().labels_)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint16, np.int64])
def test_whole_numbers_are_features_as_floats_are(dtype):
    X = np.clip(np.round(4 * np.abs(planted().X)), 0, 100).astype(dtype)
    expected = fit(X.astype(np.float64), planted().y, graph=planted().graph)
    clf = fit(X, planted().y, graph=planted().graph)
    np.testing.assert_array_equal(clf.proba_, expected.proba_)


def laid_out(array: np.ndarray, layout: str) -> np.ndarray:
    if layout == "Fortran":
        return np.asfortranarray(array)
    if layout == "every second":
        return np.repeat(array, 2, axis=0)[::2]
    return array[::-1].copy()[::-1]


@pytest.mark.parametrize("layout", ["Fortran", "every second", "backwards"])
def test_the_layout_of_arrays_does_not_matter(layout):
    data = planted()
    X, y, graph = (laid_out(part, layout) for part in (data.X, data.y, data.graph.toarray()))
    for array in (X, y, graph):
        array.flags.writeable = False
    assert_same(fit(X, y, graph=graph))


@pytest.mark.filterwarnings("ignore:.*each link counts once")
def test_entries_that_are_zero_or_listed_twice_change_nothing():
    graph = planted().graph
    rows, columns = graph.nonzero()
    half = sp.coo_array(
        (
            np.concatenate([graph.data, graph.data / 2, np.zeros(2)]),
            (np.append(rows, [*rows, 0, 1]), np.append(columns, [*columns, 119, 118])),
        ),
        shape=graph.shape,
    )
    assert half.nnz == 2 * graph.nnz + 2
    assert_same(fit(planted().X, planted().y, graph=half))


def test_a_sparse_vector_is_no_graph():
    with pytest.raises(InputError, match="a graph needs a square"):
        check_adjacency(sp.coo_array(np.ones(4)))


def test_labels_may_be_numpys_own_strings():
    if not hasattr(np, "dtypes") or not hasattr(np.dtypes, "StringDType"):
        pytest.skip("numpy before 2.0 has no strings of variable width")
    words = np.array(["ant", "", "bee", "bee"], dtype=np.dtypes.StringDType())
    clf = fit([[0.0], [0.1], [1.0], [1.1]], words)
    assert clf.classes_.tolist() == ["ant", "bee"]
    assert clf.fitted_.given.tolist() == [0, -1, 1, 1]
