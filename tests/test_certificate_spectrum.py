"""Eigenvalues from below: never above the truth, and near it."""

import math
from fractions import Fraction

import numpy as np
import pytest

from certificate_helpers import KINDS, draw_dual, draw_instance
from nodeproof.certificate import audit
from nodeproof.certificate.labelling.dual import Matrix

pytestmark = [pytest.mark.numeric, pytest.mark.usefixtures("one_thread")]

FORMS = ["none", "factors", "one", "each"]


def least(N) -> float:
    return audit.least_eigenvalue(np.asarray(N, dtype=np.float64), 0.0)[0]


def semidefinite(N, shift: float) -> bool:
    """Whether N − shift is semidefinite, in rational numbers."""
    G = [[Fraction(float(x)) for x in row] for row in N]
    for v in range(len(G)):
        G[v][v] -= Fraction(shift)
    rows = list(range(len(G)))
    while rows:
        k = max(rows, key=lambda v: G[v][v])
        rows.remove(k)
        pivot = G[k][k]
        if pivot < 0 or (pivot == 0 and any(G[k][v] for v in rows)):
            return False
        if pivot == 0:
            continue
        for u in rows:
            factor = G[u][k] / pivot
            if factor:
                for v in rows:
                    G[u][v] -= factor * G[k][v]
    return True


def symmetric(rng, n, rank=None):
    X = rng.normal(size=(n, n if rank is None else rank))
    N = X @ X.T
    return 0.5 * (N + N.T)


# By Cholesky. ---------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [0.0, 1.0, -1.0, 1e-9, -1e-9])
def test_least_is_below_the_least_eigenvalue_exactly(offset):
    for seed in range(10):
        rng = np.random.default_rng(seed)
        N = symmetric(rng, 6, rank=5 if seed % 2 else None) + offset * np.eye(6)
        found, true = least(N), float(np.linalg.eigvalsh(N)[0])
        assert semidefinite(N, found)
        # Where all are above zero, that is all there is to know.
        assert found >= min(true, 0.0) - 1e-12 * (1.0 + np.abs(N).sum())


def test_a_singular_matrix_of_integers_is_known_to_rounding():
    # A path's Laplacian, scaled so that entries are far from one.
    for scale in (1e-8, 1.0, 1e8):
        L = scale * (np.diag([1.0, 2, 2, 2, 1]) - np.diag(np.ones(4), 1) - np.diag(np.ones(4), -1))
        assert semidefinite(L, 0.0)
        assert not semidefinite(L, 1e-12 * scale)
        assert -1e-13 * scale < least(L) < 0.0


def test_zeros_and_a_single_row_have_a_least_eigenvalue():
    for n in (1, 5):
        assert -1e-280 < least(np.zeros((n, n))) <= 0.0
    assert -1e-14 < least([[3.0]]) <= 3.0
    assert -3.0 - 1e-12 < least([[-3.0]]) < -3.0


def test_a_diagonal_that_spreads_far_is_bounded():
    for seed in range(10):
        rng = np.random.default_rng(seed)
        N = symmetric(rng, 6) * np.multiply.outer(*[10.0 ** rng.uniform(-6, 6, size=6)] * 2)
        N = np.triu(N) + np.triu(N, 1).T
        found = least(N)
        assert semidefinite(N, found)
        assert found >= -1e-12 * np.trace(N)


def test_an_error_of_the_matrix_counts_against_it():
    N = symmetric(np.random.default_rng(0), 6)
    for error in (1e-9, 0.1, 3.0):
        assert audit.least_eigenvalue(N, error)[0] <= least(N) - 0.999 * error


def test_how_much_rounding_took_is_told():
    for seed in range(10):
        N = symmetric(np.random.default_rng(seed), 6) - 0.3 * np.eye(6)
        found, taken = audit.least_eigenvalue(N, 0.0)
        true = float(np.linalg.eigvalsh(N)[0])
        assert min(true, 0.0) - 2.0 * taken - 1e-14 <= found <= true
        assert 0.0 < taken < 1e-11


@pytest.mark.parametrize("n", [60, 700])
def test_large_matrices_are_bounded_near_the_truth(n):
    rng = np.random.default_rng(n)
    values = np.r_[0.0, 0.0, rng.uniform(0.05, 9.0, size=n - 2)]
    Q = np.linalg.qr(rng.normal(size=(n, n)))[0]
    N = (Q * values) @ Q.T
    assert -1e-9 < least(0.5 * (N + N.T)) < 1e-13


def test_what_is_not_finite_proves_nothing():
    with np.errstate(invalid="ignore"), pytest.raises(audit.Refused):
        least(np.diag([1.0, np.nan]))


# Products. ------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_products_are_those_of_the_definition(form):
    for seed in range(6):
        rng = np.random.default_rng([31, seed])
        instance = draw_instance(rng, KINDS[seed % 3])
        n, K = instance.n_nodes, instance.n_classes
        dual = draw_dual(rng, n, K, form)
        X = rng.normal(size=(n + 1, 3))
        A, d = instance.adjacency.toarray(), math.sqrt(K / n)
        B = instance.w * A - instance.wt * np.outer(instance.eta, instance.eta)
        np.fill_diagonal(B, 0.0)
        np.testing.assert_allclose(instance.dense(), B, atol=1e-13)
        np.testing.assert_allclose(instance.times(X[1:]), B @ X[1:], atol=1e-11)
        for i in range(K):
            gamma = dual.gamma_of(i)
            if form == "factors":
                z, a, g = gamma.labels, gamma.a, gamma.g
                G = np.array(
                    [[a[u, z[v]] * a[v, z[u]] * g[z[u], z[v]] for v in range(n)] for u in range(n)]
                )
                np.testing.assert_allclose(gamma.dense(), G, atol=1e-13)
                np.testing.assert_allclose(gamma.times(X[1:]), G @ X[1:], atol=1e-12)
            else:
                G = np.zeros((n, n)) if gamma is None else gamma
            N = np.zeros((n + 1, n + 1))
            N[1:, 1:] = np.diag(instance.costs[:, i] - dual.nu - 2 * dual.r[i]) - B - G
            N[0, 0], N[0, 1:], N[1:, 0] = d * d * dual.sigma[i], d * dual.r[i], d * dual.r[i]
            matrix = Matrix(instance, dual, i)
            np.testing.assert_allclose(matrix.dense(), N, atol=1e-12)
            np.testing.assert_allclose(matrix.times(X), N @ X, atol=1e-11)
            audited, error = audit.Spectral(instance.audited, dual.to_arrays()).matrix(i)
            np.testing.assert_allclose(audited, N, atol=1e-12)
            assert error <= 1e-12 * (1.0 + np.abs(N).sum())


@pytest.mark.parametrize("form", FORMS)
def test_the_identity_behind_the_bound_holds(form):
    for seed in range(12):
        rng = np.random.default_rng([37, seed])
        instance = draw_instance(rng, KINDS[seed % 3])
        n, K = instance.n_nodes, instance.n_classes
        dual = draw_dual(rng, n, K, form)
        z = rng.integers(K, size=n)
        total = dual.nu.sum() - dual.sigma.sum()
        for i in range(K):
            matrix = Matrix(instance, dual, i)
            y = np.r_[1.0 / matrix.corner_scale, z == i]
            total += y @ matrix.dense() @ y
            gamma = dual.gamma_of(i)
            if gamma is not None:
                G = gamma.dense() if form == "factors" else gamma
                total += G[np.ix_(z == i, z == i)].sum()
        assert total == pytest.approx(instance.value(z), rel=1e-11, abs=1e-11)
