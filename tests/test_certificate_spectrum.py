"""Eigenvalues from below: never above the truth, near it, and with an honest probability."""

import math
from fractions import Fraction

import numpy as np
import pytest

from certificate_helpers import KINDS, draw_dual, draw_instance
from nodeproof.certificate.labelling.dual import Matrix
from nodeproof.certificate.labelling.instance import relative_error
from nodeproof.certificate.labelling.spectrum import (
    _combine,
    lanczos,
    lanczos_slack,
    least_dense,
    least_lanczos,
)

pytestmark = [pytest.mark.numeric, pytest.mark.usefixtures("one_thread")]

FORMS = ["none", "factors", "one", "each"]


class Plain:
    """A dense symmetric matrix, as an operator."""

    def __init__(self, N):
        self.N = np.asarray(N, dtype=np.float64)
        self.size = len(self.N)
        self.roundings = self.size + 4

    def times(self, X):
        return self.N @ X

    def absolute_times(self, X):
        return np.abs(self.N) @ X

    def image_size(self, V):
        error = 2.0 * relative_error(self.roundings) * self.absolute_times(np.abs(V))
        return np.abs(self.N @ V) + error


def dense(N, candidates=None):
    N = np.asarray(N, dtype=np.float64)
    if candidates is None:
        candidates = np.empty((len(N), 0))
    return least_dense(Plain(N), N.copy(), np.asarray(candidates, dtype=np.float64))


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
        spectrum = dense(N)
        assert semidefinite(N, spectrum.least)
        assert spectrum.failure == 0.0
        true = float(np.linalg.eigvalsh(N)[0])
        assert spectrum.least >= true - 0.021 * max(true, 0.0) - 1e-5 * abs(true) - 1e-12
        np.testing.assert_allclose(spectrum.lowest, np.linalg.eigvalsh(N), atol=1e-12)


def test_a_singular_matrix_of_integers_is_known_to_rounding():
    # A path's Laplacian, scaled so that entries are far from one.
    for scale in (1e-8, 1.0, 1e8):
        L = scale * (np.diag([1.0, 2, 2, 2, 1]) - np.diag(np.ones(4), 1) - np.diag(np.ones(4), -1))
        assert semidefinite(L, 0.0)
        assert not semidefinite(L, 1e-12 * scale)
        ones = np.ones((5, 1))
        for candidates in (None, ones):
            spectrum = dense(L, candidates)
            assert -1e-13 * scale < spectrum.least < 0.0
        gap = 4.0 * scale * math.sin(math.pi / 10) ** 2
        assert 0.9 * gap < spectrum.beyond < gap
        assert spectrum.n_deflated == 1


def test_zeros_and_a_single_row_have_a_spectrum():
    for n in (1, 5):
        assert -1e-290 < dense(np.zeros((n, n))).least <= 0.0
    assert 2.9 < dense([[3.0]]).least < 3.0
    assert dense([[-3.0]]).least < -3.0


def test_a_diagonal_that_spreads_far_is_bounded():
    for seed in range(10):
        rng = np.random.default_rng(seed)
        N = symmetric(rng, 6) * np.multiply.outer(*[10.0 ** rng.uniform(-6, 6, size=6)] * 2)
        N = np.triu(N) + np.triu(N, 1).T
        spectrum = dense(N)
        assert semidefinite(N, spectrum.least)
        assert spectrum.least >= -1e-12 * np.trace(N)


def test_what_is_no_null_vector_is_not_set_apart():
    rng = np.random.default_rng(0)
    N = symmetric(rng, 6) - 2.0 * np.eye(6)
    spectrum = dense(N, rng.normal(size=(6, 3)))
    assert spectrum.n_deflated == 0
    assert semidefinite(N, spectrum.least)
    lowest = np.linalg.eigh(N)[1][:, :1]  # an eigenvector, but of a low eigenvalue
    assert dense(N, lowest).n_deflated == 0


def test_vectors_that_are_nearly_null_do_not_raise_the_bound():
    # The image counts: a candidate that N makes a little of must cost as much.
    for size in (1e-10, 1e-11, 1e-13):
        rng = np.random.default_rng(3)
        Q = np.linalg.qr(rng.normal(size=(6, 6)))[0]
        for low in (-size, size):
            N = Q @ np.diag([low, 1.0, 1.0, 2.0, 3.0, 4.0]) @ Q.T
            N = np.triu(N) + np.triu(N, 1).T
            spectrum = dense(N, Q[:, :1])
            assert spectrum.n_deflated == 1
            assert semidefinite(N, spectrum.least)
            assert spectrum.least > -2.0 * size - 1e-13
            assert 0.9 < spectrum.beyond < 1.0


def test_null_vectors_that_say_the_same_are_harmless():
    rng = np.random.default_rng(1)
    y = rng.normal(size=6)
    y /= np.linalg.norm(y)
    N = np.eye(6) - np.outer(y, y)
    N = np.triu(N) + np.triu(N, 1).T
    spectrum = dense(N, np.stack([y, y, 2 * y], axis=1))
    assert semidefinite(N, spectrum.least)


def test_negative_eigenvalues_beside_null_vectors_are_seen():
    rng = np.random.default_rng(5)
    Q = np.linalg.qr(rng.normal(size=(7, 7)))[0]
    N = Q @ np.diag([0.0, 0.0, -0.3, 1.0, 1.0, 2.0, 3.0]) @ Q.T
    N = np.triu(N) + np.triu(N, 1).T
    spectrum = dense(N, Q[:, :2])
    assert spectrum.n_deflated == 2
    assert -0.30001 < spectrum.least < -0.3 + 1e-12
    assert -0.30001 < spectrum.beyond < -0.3 + 1e-12


@pytest.mark.parametrize("n", [60, 700])
def test_large_matrices_are_bounded_near_the_truth(n):
    rng = np.random.default_rng(n)
    values = np.r_[0.0, 0.0, rng.uniform(0.05, 9.0, size=n - 2)]
    Q = np.linalg.qr(rng.normal(size=(n, n)))[0]
    N = (Q * values) @ Q.T
    N = 0.5 * (N + N.T)
    spectrum = dense(N, Q[:, :2])
    assert spectrum.n_deflated == 2
    assert -1e-10 < spectrum.least < 0.0
    assert 0.97 * values[2:].min() < spectrum.beyond < values[2:].min()


def test_what_is_not_finite_proves_nothing():
    assert dense(np.diag([1.0, np.inf])).least == -np.inf
    assert dense(np.diag([1.0, np.nan])).least == -np.inf


def test_the_two_parts_are_combined_from_below():
    rng = np.random.default_rng(0)
    for _ in range(300):
        kappa, rho = 10.0 ** rng.uniform(-18, 2, size=2)
        delta = float(rng.choice([-1, 1])) * 10.0 ** rng.uniform(-12, 3)
        found = _combine(kappa, rho, delta)
        assert semidefinite([[-kappa, -rho], [-rho, delta]], found)
        exact = np.linalg.eigvalsh([[-kappa, -rho], [-rho, delta]])[0]
        assert found >= exact - 1e-12 * (kappa + rho + abs(delta))
    assert _combine(0.0, 0.0, 2.0) == 2.0
    assert _combine(1.0, 1.0, -np.inf) == -np.inf


# By Lanczos. ----------------------------------------------------------------------------


def spectra(n):
    """Return spectra that are hard for Lanczos, all of width one, lowest first."""
    isolated = np.r_[0.0, np.linspace(0.97, 1.0, n - 1)]
    near = np.r_[0.0, np.linspace(0.02, 0.021, n - 2), 1.0]
    chebyshev = 0.5 - 0.5 * np.cos(np.pi * np.arange(n) / (n - 1))
    ramp = np.linspace(0.0, 1.0, n)
    grouped = np.r_[0.0, np.linspace(0.05, 1.0, n - 1)]
    return {
        "isolated": isolated,
        "near": near,
        "chebyshev": chebyshev,
        "ramp": ramp,
        "grouped": grouped,
    }


@pytest.mark.parametrize("name", ["isolated", "near", "chebyshev", "ramp", "grouped"])
@pytest.mark.parametrize(("failure", "n_steps"), [(0.2, 3), (0.05, 6), (0.2, 12)])
def test_ritz_values_miss_no_more_often_than_is_claimed(name, failure, n_steps):
    values, trials = spectra(80)[name], 300
    eta = lanczos_slack(80, n_steps, failure)
    missed = 0
    for seed in range(trials):
        start = np.random.default_rng(seed).standard_normal(80)
        *_, ritz = lanczos(lambda x: values * x, start, (n_steps,), np.empty((80, 0)))
        missed += ritz[0] - values[0] > eta * (values[-1] - values[0])
    # Three standard deviations of a coin that fails as often as may be.
    assert missed <= trials * failure + 3.0 * math.sqrt(trials * failure * (1 - failure))


def test_the_slack_is_of_the_stated_form():
    for n, k, failure in ((100, 10, 0.1), (10_000, 160, 1e-9), (50, 3, 0.3)):
        eta = lanczos_slack(n, k, failure)
        claimed = math.sqrt(2 * n / math.pi) / math.cosh((2 * k - 1) * math.atanh(math.sqrt(eta)))
        assert claimed == pytest.approx(failure, rel=1e-6)
        assert 1.648 * math.sqrt(n) * math.exp(-math.sqrt(eta) * (2 * k - 1)) >= failure
    assert lanczos_slack(100, 20, 0.1) < lanczos_slack(100, 10, 0.1)
    assert lanczos_slack(100, 10, 1e-9) > lanczos_slack(100, 10, 0.1)


@pytest.mark.parametrize("name", ["isolated", "near", "chebyshev", "ramp", "grouped"])
def test_lanczos_is_below_the_least_eigenvalue(name):
    n = 250
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.normal(size=(n, n)))[0]
    for shift in (0.0, 0.5, -0.5):
        values = spectra(n)[name] + shift
        N = (Q * values) @ Q.T
        matrix = Plain(0.5 * (N + N.T))
        for seed in range(5):
            spectrum = least_lanczos(matrix, np.empty((n, 0)), 1e-9, seed)
            assert spectrum.failure == 1e-9
            # It stops as soon as it knows that there is a quarter of what it sees.
            known = 0.25 * values[0] if values[0] > 0 else values[0] - 0.02
            assert known < spectrum.least < values[0] + 1e-14
            assert spectrum.beyond == spectrum.least


def test_lanczos_sets_null_vectors_apart():
    n = 250
    rng = np.random.default_rng(1)
    Q = np.linalg.qr(rng.normal(size=(n, n)))[0]
    N = (Q * np.r_[0.0, 0.0, np.linspace(0.3, 2.0, n - 2)]) @ Q.T
    spectrum = least_lanczos(Plain(0.5 * (N + N.T)), Q[:, :2], 1e-9, 0)
    assert spectrum.n_deflated == 2
    assert -1e-11 < spectrum.least < 0.0
    assert 0.07 < spectrum.beyond < 0.3
    unknown = least_lanczos(Plain(0.5 * (N + N.T)), Q[:, :1], 1e-9, 0)
    assert unknown.n_deflated == 1
    assert unknown.beyond < 1e-10


def test_lanczos_that_has_seen_too_little_says_nothing():
    values = np.linspace(0.0, 1.0, 4)
    assert least_lanczos(Plain(np.diag(values)), np.empty((4, 0)), 1e-9, 0).least <= 0.0
    assert least_lanczos(Plain(np.eye(9)), np.empty((9, 0)), 1e-9, 0).least <= 1.0


def test_lanczos_is_exact_on_a_small_matrix():
    N = symmetric(np.random.default_rng(2), 30)
    start = np.random.default_rng(3).standard_normal(30)
    *_, ritz = lanczos(lambda x: N @ x, start, (30,), np.empty((30, 0)))
    np.testing.assert_allclose(ritz, np.linalg.eigvalsh(N), atol=1e-10)


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
            assert (matrix.absolute_times(np.abs(X)) >= np.abs(N) @ np.abs(X) - 1e-13).all()
            assert (matrix.image_size(X) >= np.abs(N @ X) * (1 - 1e-12)).all()
            np.testing.assert_allclose(matrix.image_size(X), np.abs(N @ X), atol=1e-11)


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
            np.testing.assert_allclose(matrix.indicator(z == i), y / np.linalg.norm(y))
            gamma = dual.gamma_of(i)
            if gamma is not None:
                G = gamma.dense() if form == "factors" else gamma
                total += G[np.ix_(z == i, z == i)].sum()
        assert total == pytest.approx(instance.value(z), rel=1e-11, abs=1e-11)
