"""MatrixMarket files are read as scipy reads them, and refused in a clear word where damaged."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from nodeproof.datasets import read_graph
from nodeproof.datasets.networks import read_matrix_market
from nodeproof.errors import InputError

BANNER = "%%MatrixMarket matrix coordinate real general\n"


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.booleans(), st.sampled_from(["real", "integer", "pattern"]))
def test_what_scipy_writes_is_read(tmp_path_factory, seed, symmetric, field):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 7))
    A = rng.integers(0, 4, size=(n, n)) * (rng.random((n, n)) < 0.6)
    A = np.triu(A) + np.triu(A, 1).T if symmetric else A
    A = (A > 0) * 1 if field == "pattern" else A * (0.25 if field == "real" else 1)
    path = tmp_path_factory.mktemp("mtx") / "a.mtx"
    scipy.io.mmwrite(path, sp.coo_array(A), comment="a word", field=field)
    np.testing.assert_array_equal(read_matrix_market(path).toarray(), A)
    scipy.io.mmwrite(path, A * 1.0)  # dense
    np.testing.assert_array_equal(read_matrix_market(path).toarray(), A)


@pytest.mark.parametrize("name", ["graph.mtx", "graph.npz"])
def test_entries_that_a_file_lists_twice_count_once_by_the_largest(tmp_path, name):
    path = tmp_path / name
    listed = sp.coo_array(([1.0, 2.0, 2.0], ([0, 0, 1], [1, 1, 0])), shape=(2, 2))
    if name.endswith(".mtx"):
        path.write_text(BANNER + "2 2 3\n1 2 1.0\n1 2 2.0\n2 1 2.0\n")
    else:
        sp.save_npz(path, listed)
    data = read_graph(path)
    assert data.graph.toarray().tolist() == [[0.0, 2.0], [2.0, 0.0]]
    assert any("1 entry repeats another" in note for note in data.notes)


def test_a_packed_file_is_read(tmp_path):
    path = tmp_path / "a.mtx.gz"
    path.write_bytes(gzip.compress((BANNER + "% a word\n\n2 2 2\n1 2 1.5\n2 1 1.5\n\n").encode()))
    data = read_graph(path)
    assert data.graph.toarray().tolist() == [[0.0, 1.5], [1.5, 0.0]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1"),
        ("%%MatrixMarket matrix coordinate complex general\n1 1 0\n", "'complex'"),
        ("%%MatrixMarket matrix coordinate real skew-symmetric\n1 1 0\n", "'skew-symmetric'"),
        ("%%MatrixMarket vector coordinate real general\n1 1 0\n", "line 1"),
        (BANNER, "3 sizes"),
        (BANNER + "2 2\n", "3 sizes"),
        (BANNER + "2 -2 1\n", "3 sizes"),
        (BANNER + "2 3 1\n1 3 1\n", "square matrix, got 2 × 3"),
        (BANNER + "2 2 2\n1 2 1\n", "expected 2 lines of 3 numbers, found 1 of 3"),
        (BANNER + "2 2 1\n1 2 1\n2 1 1\n", "found more than 1"),
        (BANNER + "2 2 1\n1 2\n", "expected 1 lines of 3 numbers, found 1 of 2"),
        (BANNER + "2 2 1\n1 3 1\n", "outside of the 2 × 2"),
        (BANNER + "2 2 1\n0 1 1\n", "outside of the 2 × 2"),
        (BANNER + "2 2 1\n1.5 1 1\n", "outside of the 2 × 2"),
        (BANNER + "2 2 1\n1 w 1\n", "cannot read"),
        (BANNER + "99999999999999 99999999999999 1\n1 2 1\n", "memory"),
        (BANNER + "2 2 99999999999999\n1 2 1\n", "memory"),
        # This one crashes scipy's reader.
        (
            "%%MatrixMarket matrix coordinate real symmetric\n%\n4 4 2\n"
            "2 1 1\1\t\0\0010 1 {'\n3 w\0\0002 2.5\n\n",
            "cannot read",
        ),
    ],
)
def test_damaged_files_are_refused(tmp_path, text, message):
    path = tmp_path / "a.mtx"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(InputError, match=message) as error:
        read_graph(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)
