"""The multinomial term against textbook formulas, sparse as dense, and in a fit."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import multinomial as reference

from nodeproof import Problem
from nodeproof.errors import InputError
from nodeproof.sets import Simplex
from nodeproof.solvers import BlockCADO
from nodeproof.terms import Covariance, Labels, Multinomial, NodeData

pytestmark = pytest.mark.numeric

K = 3


def draw(n=80, m=25, seed=0, length=12.0):
    """Return word counts of three classes, the classes, and soft rows that know a little."""
    rng = np.random.default_rng(seed)
    z = rng.integers(0, K, size=n)
    theta = rng.dirichlet(np.full(m, 0.3), size=K)
    X = rng.poisson(length * theta[z]).astype(np.float64)
    W = 0.7 * np.eye(K)[z] + 0.3 * rng.dirichlet(np.ones(K), size=n)
    return X, z, W


def fit(X, W, smoothing=1.0, trust=1.0):
    """Return the bound term, the models and what they charge."""
    term = Multinomial(smoothing, trust).bind(NodeData(K, X))
    models = term.estimate(W)
    return term, models, term.cost(models, 0, X.shape[0])


# The formulas. --------------------------------------------------------------------------


def test_costs_differ_between_classes_as_the_log_probabilities_do():
    X, _, W = draw()
    _, models, costs = fit(X, W)
    exact = np.stack([-reference(X.sum(axis=1), theta).logpmf(X) for theta in models], axis=1)
    np.testing.assert_allclose(costs - costs[:, :1], exact - exact[:, :1], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("smoothing", [0.1, 1.0, 30.0])
def test_a_class_counts_its_words_and_so_many_nodes_of_the_usual_ones(smoothing):
    X, _, W = draw()
    _, models, _ = fit(X, W, smoothing)
    usual = (X.sum(axis=0) + 1.0) / (X.sum() + X.shape[1])
    length = X.sum() / len(X)
    for i, theta in enumerate(models):
        counts = sum(W[v, i] * X[v] for v in range(len(X))) + smoothing * length * usual
        np.testing.assert_allclose(theta, counts / counts.sum(), rtol=1e-12)


def test_trust_scales_the_costs_and_leaves_the_models():
    X, _, W = draw()
    _, models, costs = fit(X, W)
    term, same, scaled = fit(X, W, trust=0.25)
    np.testing.assert_array_equal(same, models)
    np.testing.assert_allclose(scaled, 0.25 * costs, rtol=1e-12)
    whole = Multinomial().bind(NodeData(K, X)).penalty(models)
    assert term.penalty(models) == pytest.approx(0.25 * whole)


def test_the_loss_is_the_cross_entropy_of_the_shares():
    X, _, W = draw()
    X[5] = 0.0
    term = Multinomial().bind(NodeData(K, X))
    models = term.refit(W)
    costs = term.vertex_costs(models, 0, 80)
    for i, theta in enumerate(models):
        shares = X / np.maximum(X.sum(axis=1, keepdims=True), 1.0)
        np.testing.assert_allclose(costs[:, i], -(shares * np.log(theta)).sum(axis=1), rtol=1e-12)
        np.testing.assert_allclose(term.loss(theta[None], 0, 80), costs[:, i], rtol=1e-12)


def test_refit_is_optimal_where_words_are_missing():
    """No member of the simplex above the floor is better: the Frank–Wolfe gap is zero."""
    X, _, W = draw(m=60, length=3.0)
    X[:, 30:] = 0.0
    # Two classes hardly have the last word of all, but not never.
    X[1:, 29], X[0, 29], W[0] = 0.0, 1.0, [1.0 - 2e-6, 1e-6, 1e-6]
    term = Multinomial().bind(NodeData(K, X))
    for i, theta in enumerate(term.refit(W)):
        assert term.models_set.contains(theta, tol=1e-12)
        assert (theta == term.models_set.floor).sum() >= 30
        slopes = term.loss_gradient(np.broadcast_to(theta, (80, 60)), 0, 80)
        gradient = W[:, i] @ slopes
        gap = np.vdot(gradient, theta - term.models_set.lmo(gradient))
        assert abs(gap) <= 1e-9 * np.abs(gradient).sum()


def test_the_loss_lives_on_the_simplex_above_a_floor():
    X, _, _ = draw(m=25)
    assert repr(Multinomial().bind(NodeData(K, X)).models_set) == repr(Simplex(25, floor=0.0004))


def test_new_nodes_are_judged_by_the_models_alone():
    X, _, W = draw()
    term, models, costs = fit(X, W)
    losses = term.vertex_costs(term.refit(W), 0, 80)
    alone = Multinomial().bind(NodeData(K, X[7:8]))
    np.testing.assert_allclose(alone.cost(models, 0, 1), costs[7:8], rtol=1e-12)
    np.testing.assert_allclose(alone.vertex_costs(term.refit(W), 0, 1), losses[7:8], rtol=1e-12)


# Awkward counts. ------------------------------------------------------------------------


@pytest.mark.parametrize("make", [np.array, sp.csr_array], ids=["dense", "sparse"])
def test_a_node_without_words_says_nothing(make):
    X, _, W = draw()
    X[[0, 40]] = 0.0
    term, models, costs = fit(make(X), W)
    np.testing.assert_array_equal(costs[[0, 40]], 0.0)
    theta = term.refit(W)
    np.testing.assert_array_equal(term.vertex_costs(theta, 0, 80)[[0, 40]], 0.0)
    np.testing.assert_array_equal(term.gradient_W(W, theta)[[0, 40]], 0.0)
    moved = W.copy()
    moved[[0, 40]] = 1 / K
    np.testing.assert_array_equal(term.estimate(moved), models)


def test_a_word_that_no_fitted_node_has_costs_about_the_same_everywhere():
    X, _, W = draw()
    X[:, 3] = 0.0
    _, models, _ = fit(X, W)
    new = np.zeros((1, 25))
    new[0, 3] = 1.0
    costs = Multinomial().bind(NodeData(K, new)).cost(models, 0, 1)
    assert np.isfinite(costs).all()
    assert np.ptp(costs) < 1.0


@pytest.mark.parametrize("make", [np.array, sp.csr_array], ids=["dense", "sparse"])
def test_nodes_that_all_lack_words_get_uniform_models(make):
    term, models, costs = fit(make(np.zeros((5, 4))), np.full((5, K), 1 / K))
    np.testing.assert_allclose(models, 0.25)
    np.testing.assert_allclose(term.refit(np.full((5, K), 1 / K)), 0.25)
    np.testing.assert_array_equal(costs, 0.0)


def test_a_class_of_almost_no_mass_uses_the_usual_words():
    X, _, _ = draw()
    usual = (X.sum(axis=0) + 1.0) / (X.sum() + X.shape[1])
    for mass in (0.0, 1e-12, 1e-300):
        W = np.eye(K)[np.arange(80) % 2]
        W[0] = [1.0 - mass, 0.0, mass]
        term, models, costs = fit(X, W)
        np.testing.assert_allclose(models[2], usual, rtol=1e-9)
        assert np.isfinite(costs).all()
        assert term.models_set.contains(term.refit(W)).all()


@pytest.mark.parametrize("make", [np.array, sp.csr_array, sp.coo_matrix])
def test_negative_counts_are_refused_by_node_and_column(make):
    X, _, _ = draw()
    X[:4] = 0.0
    X[4, 2] = X[9, 0] = -1.5
    message = "node 4 has -1.5 in column 2"
    with pytest.raises(InputError, match=message):
        Multinomial().bind(NodeData(K, make(X)))


@pytest.mark.parametrize(
    "term",
    [
        Multinomial(smoothing=0.0),
        Multinomial(smoothing=-1.0),
        Multinomial(trust=0.0),
        Multinomial(trust=np.nan),
        Multinomial(smoothing=np.inf),
    ],
    ids=repr,
)
def test_settings_that_cannot_be_are_refused(term):
    with pytest.raises(InputError, match="needs a positive smoothing and a positive trust, got"):
        term.bind(NodeData(K, np.ones((3, 2))))


# Sparse counts. -------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
@pytest.mark.parametrize("make", [sp.csr_array, sp.csc_array, sp.csr_matrix])
def test_sparse_counts_give_what_dense_ones_give(make, dtype):
    X, _, W = draw()
    dense, sparse = (
        Multinomial().bind(NodeData(K, kind(X.astype(dtype)))) for kind in (np.array, make)
    )
    models, theta = dense.estimate(W), dense.refit(W)
    results = [
        (
            term.estimate(W),
            term.refit(W),
            term.cost(models, 3, 70),
            term.vertex_costs(theta, 3, 70),
            term.value(W, theta),
            term.gradient_W(W, theta),
            term.gradient_models(W, theta),
            term.loss(theta[:1], 3, 70),
            term.penalty(models),
        )
        for term in (dense, sparse)
    ]
    for one, two in zip(*results, strict=True):
        np.testing.assert_allclose(two, one, rtol=1e-12, atol=1e-13)


def test_sparse_counts_stay_sparse(monkeypatch):
    X, _, W = draw()

    def refuse(*_args, **_kwargs):
        raise AssertionError("made dense")

    monkeypatch.setattr(sp.csr_array, "toarray", refuse)
    monkeypatch.setattr(sp.csr_array, "todense", refuse)
    term, models, _ = fit(sp.csr_array(X), W)
    term.vertex_costs(term.refit(W), 0, 80)
    term.value(W, term.refit(W))
    term.penalty(models)


def test_entries_that_are_stored_twice_count_twice():
    X = sp.csr_array(([1.0, 1.0, 3.0], [0, 0, 1], [0, 2, 3]), shape=(2, 2))
    W = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    np.testing.assert_allclose(fit(X, W)[2], fit(X.toarray(), W)[2], rtol=1e-12)


def test_covariances_take_dense_features_only():
    X, _, _ = draw()
    with pytest.raises(InputError, match="Covariance needs dense features, but X is sparse"):
        Covariance().bind(NodeData(K, sp.csr_array(X)))


# In a fit. ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "weights", ["calibrated", (1.0, 100.0, 100.0)], ids=["calibrated", "paper"]
)
def test_block_cado_finds_classes_of_words(weights):
    X, z, _ = draw(n=300, m=40, length=15.0)
    nodes = NodeData(K, sp.csr_array(X), np.where(np.arange(300) < 12, z, -1))
    terms = [Multinomial().bind(nodes), Labels().bind(nodes)]
    result = BlockCADO(random_state=0).solve(Problem(None, terms, K, weights=weights))
    assert (result.W.argmax(axis=1) == z).mean() > 0.97
