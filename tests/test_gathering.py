"""Sums of neighbours' rows against a sparse product in float64, for every number of classes."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from nodeproof import kernels
from nodeproof.graph import Graph

pytestmark = pytest.mark.numeric

CLASSES = [1, 2, 3, 4, 5, 7, 8, 9, 10, 15, 16, 17, 23, 24, 25, 31, 32, 33, 40, 100]


def draw(n: int, density: float, seed: int = 0) -> sp.csr_array:
    half = sp.random(n, n, density, random_state=seed, dtype=np.float32, format="csr")
    both = sp.csr_array(sp.triu(half, 1) + sp.triu(half, 1).T)
    both.sort_indices()
    return both


@pytest.mark.parametrize("K", CLASSES)
@pytest.mark.parametrize("weights", ["none", "float32", "float64"])
@pytest.mark.parametrize("index", [np.int32, np.int64], ids=["int32", "int64"])
def test_products_agree_with_scipy(K, weights, index):
    A = draw(120, 0.1)
    A.data[:] = np.round(A.data, 1) + 0.1
    given = np.zeros(0, np.float32)
    if weights == "none":
        A.data[:] = 1.0
    else:
        given = A.data.astype(weights)
    M = np.random.default_rng(K).standard_normal((120, K)).astype(np.float32)
    out = np.full((90, K), np.nan)
    kernels.product_rows(
        20, 110, A.indptr.astype(index), A.indices.astype(index), given, M, out, np.empty(K)
    )
    expected = A.astype(np.float64) @ M.astype(np.float64)
    np.testing.assert_allclose(out, expected[20:110], atol=2e-5)


@pytest.mark.parametrize("K", [3, 6, 10, 20])
def test_sums_over_many_links_are_not_left_in_single_precision(K):
    """A hub with so many links that float32 would lose the last of them."""
    n = 300_001
    star = sp.csr_array(
        (np.ones(n - 1, np.float32), (np.zeros(n - 1, int), np.arange(1, n))), (n, n)
    )
    M = np.full((n, K), 0.1, dtype=np.float32)
    out = np.empty((1, K))
    kernels.product_rows(
        0, 1, star.indptr, star.indices, np.zeros(0, np.float32), M, out, np.empty(M.shape[1])
    )
    np.testing.assert_allclose(out, (n - 1) * np.float64(np.float32(0.1)), rtol=1e-5)


def test_rows_without_links_are_zero_and_the_last_row_reads_nothing_beyond():
    A = sp.csr_array((np.ones(2, np.float32), ([0, 4], [4, 0])), (5, 5))
    M = np.arange(50, dtype=np.float32).reshape(5, 10)
    out = np.full((5, 10), np.nan)
    kernels.product_rows(
        0, 5, A.indptr, A.indices, np.zeros(0, np.float32), M, out, np.empty(M.shape[1])
    )
    np.testing.assert_array_equal(out, A @ M)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_graph_multiplies_in_the_precision_it_is_given(dtype):
    A = draw(80, 0.1)
    A.data[:] = 1.0
    M = np.random.default_rng(0).random((80, 6)).astype(dtype)
    product = Graph(A).times(M)
    assert product.dtype == dtype
    np.testing.assert_allclose(product, A @ M, rtol=1e-5)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("K", [2, 5, 9])
def test_nodes_are_updated_side_by_side_as_one_after_the_other(K, weighted):
    """To rounding: sums over classes are taken in another order."""
    n, rng = 150, np.random.default_rng(K)
    A = draw(n, 0.05)
    indptr, indices = A.indptr.astype(np.int32), A.indices.astype(np.int32)
    weights = A.data.astype(np.float32) if weighted else np.zeros(0, np.float32)
    start = rng.dirichlet(np.ones(K), size=n).astype(np.float32)
    eta, costs = rng.uniform(0.5, 1.5, n), rng.uniform(0.0, 3.0, (n, K))
    found = []
    for beside in (kernels.lanes(K, 100), kernels.lanes(K, 1)):
        W, totals, changed = start.copy(), eta @ start.astype(np.float64), np.zeros(1)
        links = np.zeros((1, 1))
        kernels.sweep_batches(
            0, 1, np.zeros(1, np.int64), 0, n, 100, 64, indptr, indices, weights, eta, W, totals,
            costs, 0, np.log(np.full(K, 1 / K)), np.full((1, 1), 0.8), np.full((1, 1), 0.02), 1.0,
            np.empty((100, K), np.float32), np.zeros((3, K)), np.zeros((3, 1, 1)), np.zeros(3),
            links, changed, True, *kernels.workspace(K), *beside,
        )  # fmt: skip
        found.append((W, totals, links, changed))
    assert kernels.lanes(K, 1)[0] is None
    for side_by_side, in_turn in zip(*found, strict=True):
        np.testing.assert_allclose(side_by_side, in_turn, rtol=2e-5, atol=1e-6)
    assert not np.allclose(found[0][0], start, atol=1e-2)


def test_the_exponential_has_the_precision_of_the_rows():
    """Through a sweep without links: rows are the softmax of their costs."""
    rng = np.random.default_rng(0)
    costs = np.concatenate([rng.uniform(0, 40, (500, 7)), rng.uniform(600, 2000, (5, 7))])
    costs[:, 3] = 0.0
    n, K = costs.shape
    W, new = np.full((n, K), 1 / K, dtype=np.float32), np.empty((n, K), dtype=np.float32)
    kernels.sweep_batches(
        0, 1, np.zeros(1, np.int64), 0, n, n, 512, np.zeros(n + 1, np.int32), np.zeros(0, np.int32),
        np.zeros(0, np.float32), np.ones(n), W, np.zeros(K), costs, 0, np.zeros(K),
        np.zeros((1, 1)), np.zeros((1, 1)), 1.0, new, np.zeros((2, K)), np.zeros((2, 1, 1)),
        np.zeros(2), np.zeros((1, 1)), np.zeros(1), False, *kernels.workspace(K),
        *kernels.lanes(K, n),
    )  # fmt: skip
    expected = np.exp(-costs) / np.exp(-costs).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(new, expected, rtol=5e-6, atol=1e-36)
