"""The Gaussian term against textbook formulas, on awkward features, and in a fit."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import multivariate_normal, norm

from nodeproof import Problem
from nodeproof.errors import InputError
from nodeproof.runtime import threads
from nodeproof.solvers import BlockCADO
from nodeproof.terms import Covariance, Gaussian, Labels, NodeData, gaussian

pytestmark = pytest.mark.numeric

K = 3
KINDS = ["diagonal", "shared", "full"]

every_kind = pytest.mark.parametrize("kind", KINDS)


def draw(n=60, m=4, seed=0, offset=0.0):
    """Return features of three classes with a mean each, and soft rows that know a little."""
    rng = np.random.default_rng(seed)
    z = rng.integers(0, K, size=n)
    mixing = np.eye(m) + 0.4 * rng.standard_normal((m, m))
    X = offset + rng.standard_normal((n, m)) @ mixing + 2.0 * z[:, None] * (np.arange(m) % 2)
    W = 0.7 * np.eye(K)[z] + 0.3 * rng.dirichlet(np.ones(K), size=n)
    return X, W


def fit(X, W, kind="diagonal", shrinkage=1.0):
    """Return the bound term, the models and what they charge."""
    term = Gaussian(kind, shrinkage).bind(NodeData(K, X))
    models = term.estimate(W)
    return term, models, term.cost(models, 0, X.shape[0])


def margins(costs):
    """Return by how much each class is dearer than the first."""
    return costs - costs[:, :1]


# The formulas. --------------------------------------------------------------------------


def test_a_node_costs_its_normal_density_in_each_column():
    X, W = draw()
    _, models, costs = fit(X, W)
    for i, (mean, variance) in enumerate(models):
        expected = -norm(mean, np.sqrt(variance)).logpdf(X).sum(axis=1)
        np.testing.assert_allclose(costs[:, i], expected, rtol=1e-10)


@pytest.mark.parametrize("kind", ["shared", "full"])
def test_a_node_costs_its_multivariate_normal_density(kind):
    X, W = draw()
    _, models, costs = fit(X, W, kind)
    for i, model in enumerate(models):
        expected = -multivariate_normal(model[0], model[1:]).logpdf(X)
        np.testing.assert_allclose(costs[:, i], expected, rtol=1e-10)


@every_kind
@pytest.mark.parametrize("shrinkage", [0.0, 1.0, 12.0])
def test_the_prior_is_so_many_nodes_worth_of_all_nodes(kind, shrinkage):
    """So the estimate is that of a sample to which every node was added once more, lightly."""
    X, W = draw()
    n = len(X)
    _, models, _ = fit(X, W, kind, shrinkage)
    both, weights = np.vstack([X, X]), np.vstack([W, np.full((n, K), shrinkage / n)])
    means = [np.average(both, axis=0, weights=weights[:, i]) for i in range(K)]
    spreads = [np.cov(both.T, aweights=weights[:, i], ddof=0) for i in range(K)]
    if kind == "shared":
        spreads = [np.average(spreads, axis=0, weights=weights.sum(axis=0))] * K
    for model, mean, spread in zip(models, means, spreads, strict=True):
        np.testing.assert_allclose(model[0], mean, rtol=1e-9)
        expected = np.diag(spread) if kind == "diagonal" else spread
        np.testing.assert_allclose(np.squeeze(model[1:]), expected, rtol=1e-9, atol=1e-12)


@every_kind
def test_models_are_a_mean_with_its_variances_or_covariance_below(kind):
    X, W = draw(m=4)
    _, models, _ = fit(X, W, kind)
    assert models.shape == ((K, 2, 4) if kind == "diagonal" else (K, 5, 4))
    if kind != "diagonal":
        np.testing.assert_array_equal(models[:, 1:], np.swapaxes(models[:, 1:], 1, 2))
    assert (kind == "shared") == (np.ptp(models[:, 1:], axis=0).max() == 0.0)


def test_a_full_gaussian_is_the_covariance_with_an_intercept():
    X, W = draw()
    other = Covariance(shrinkage=2.0, intercept=True).bind(NodeData(K, X))
    _, _, costs = fit(X, W, "full", shrinkage=2.0)
    np.testing.assert_allclose(costs, other.cost(other.estimate(W), 0, len(X)), rtol=1e-5)


def test_the_loss_is_the_squared_distance_in_pooled_units():
    X, W = draw()
    term = Gaussian().bind(NodeData(K, X))
    models = term.refit(W)
    for i, (mean, scale) in enumerate(models):
        np.testing.assert_allclose(mean, np.average(X, axis=0, weights=W[:, i]), rtol=1e-12)
        np.testing.assert_allclose(scale, X.var(axis=0), rtol=1e-12)
        expected = 0.5 * ((X - mean) ** 2 / X.var(axis=0)).mean(axis=1)
        np.testing.assert_allclose(term.loss(models[i][None], 0, 60), expected, rtol=1e-12)
        np.testing.assert_allclose(term.vertex_costs(models, 0, 60)[:, i], expected, rtol=1e-10)


@every_kind
def test_the_loss_keeps_means_within_the_range_of_each_column(kind):
    X, _ = draw()
    box = Gaussian(kind).bind(NodeData(K, X)).models_set
    np.testing.assert_array_equal(box.lo[0], X.min(axis=0))
    np.testing.assert_array_equal(box.hi[0], X.max(axis=0))
    np.testing.assert_array_equal(box.lo[1], box.hi[1])


@every_kind
def test_the_unit_of_a_feature_does_not_matter(kind):
    X, W = draw()
    unit = np.array([1.0, 1e3, 1e-4, 7.0])
    term, _, costs = fit(X, W, kind)
    other, _, scaled = fit(X * unit, W, kind)
    np.testing.assert_allclose(scaled, costs + np.log(unit).sum(), rtol=1e-9)
    losses = [each.vertex_costs(each.refit(W), 0, 60) for each in (term, other)]
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-9)


@every_kind
def test_new_nodes_are_judged_by_the_models_alone(kind):
    """Whatever nodes they come with: `predict` binds the term to them."""
    X, W = draw()
    term, models, costs = fit(X, W, kind)
    losses = term.vertex_costs(term.refit(W), 0, 60)
    alone = Gaussian(kind).bind(NodeData(K, X[7:8]))
    np.testing.assert_allclose(alone.cost(models, 0, 1), costs[7:8], rtol=1e-10)
    np.testing.assert_allclose(alone.vertex_costs(term.refit(W), 0, 1), losses[7:8], rtol=1e-10)


# Awkward features. ----------------------------------------------------------------------


@every_kind
@pytest.mark.parametrize("constant", [0.0, 0.1, -3e7])
def test_a_constant_column_says_nothing(kind, constant):
    X, W = draw()
    _, _, plain = fit(X, W, kind)
    term, models, costs = fit(np.column_stack([X, np.full(60, constant)]), W, kind)
    np.testing.assert_allclose(margins(costs), margins(plain), rtol=1e-6, atol=1e-6)
    assert np.isfinite(term.penalty(models))
    assert np.isfinite(term.value(W, term.refit(W)))
    new = Gaussian(kind).bind(NodeData(K, np.append(X[0], constant + 5.0)[None]))
    np.testing.assert_allclose(margins(new.cost(models, 0, 1)), margins(plain[:1]), atol=1e-4)


@pytest.mark.parametrize("kind", ["shared", "full"])
def test_a_repeated_column_is_not_heard_twice(kind):
    X, W = draw()
    _, _, plain = fit(X, W, kind)
    term, models, costs = fit(np.column_stack([X, X[:, 0], 3.0 * X[:, 1]]), W, kind)
    np.testing.assert_allclose(margins(costs), margins(plain), rtol=1e-5, atol=1e-5)
    assert np.isfinite(term.penalty(models))


@every_kind
@pytest.mark.parametrize("shrinkage", [0.0, 1.0])
def test_more_features_than_nodes_are_no_obstacle(kind, shrinkage):
    X, W = draw(n=12, m=40)
    term, models, costs = fit(X, W, kind, shrinkage)
    assert np.isfinite(models).all()
    assert np.isfinite(costs).all()
    assert np.isfinite(term.penalty(models))


@every_kind
@pytest.mark.parametrize("mass", [0.0, 1e-12, 1e-300])
@pytest.mark.parametrize("shrinkage", [0.0, 1.0])
def test_a_class_of_almost_no_mass_is_that_of_all_nodes(kind, mass, shrinkage):
    X, _ = draw()
    W = np.eye(K)[np.arange(60) % 2]
    W[0] = [1.0 - mass, 0.0, mass]
    term, models, costs = fit(X, W, kind, shrinkage)
    assert np.isfinite(costs).all()
    assert np.isfinite(term.penalty(models))
    if shrinkage:
        np.testing.assert_allclose(models[2, 0], X.mean(axis=0), rtol=1e-9)
    assert term.models_set.contains(term.refit(W)).all()


@every_kind
def test_a_single_node_has_no_spread_but_a_cost(kind):
    term = Gaussian(kind).bind(NodeData(K, np.array([[1.0, -2.0]])))
    W = np.full((1, K), 1 / K)
    costs = term.cost(term.estimate(W), 0, 1)
    np.testing.assert_allclose(margins(costs), 0.0, atol=1e-9)
    assert np.isfinite(costs).all()


@pytest.mark.parametrize("kind", KINDS)
def test_the_floor_is_where_the_optimum_over_larger_spreads_lies(kind):
    """Twelve nodes in forty columns leave most directions without any spread of their own."""
    X, W = draw(n=12, m=40)
    term, models, costs = fit(X, W, kind, shrinkage=0.5)
    reached = np.vdot(W, costs) + term.penalty(models)
    scale = np.sqrt(X.var(axis=0))
    if kind != "diagonal":
        in_units = models[:, 1:] / np.outer(scale, scale)
        least = np.linalg.eigvalsh(in_units).min()
        assert least == pytest.approx(gaussian.FLOOR, rel=1e-3)
    rng = np.random.default_rng(1)
    # Spreads of columns are above the floor: of a step only the square counts, beside rounding.
    for size in (1e-4, 1e-2) if kind == "diagonal" else (1e-10, 1e-9, 1e-6, 1e-2):
        more = models.copy()
        if kind == "diagonal":
            more[:, 1] += size * rng.random((K, 40)) * scale**2
        else:
            root = rng.standard_normal((40, 40)) * np.sqrt(size / 40)
            more[:, 1:] += root @ root.T * np.outer(scale, scale)
        other = np.vdot(W, term.cost(more, 0, 12)) + term.penalty(more)
        assert other > reached


@every_kind
def test_features_far_from_zero_are_told_apart_as_well(kind):
    X, W = draw()
    _, _, costs = fit(X, W, kind)
    _, _, moved = fit(X + 1e6, W, kind)
    np.testing.assert_allclose(moved, costs, rtol=1e-7)


@every_kind
def test_features_in_float32_are_summed_in_float64(kind):
    X, W = draw()
    narrow = X.astype(np.float32)
    for one, two in zip(
        fit(narrow, W, kind)[1:], fit(narrow.astype(np.float64), W, kind)[1:], strict=True
    ):
        np.testing.assert_array_equal(one, two)


@every_kind
def test_sparse_features_give_the_same_bits(kind):
    X, W = draw()
    X[np.abs(X) < 1.0] = 0.0
    term, models, costs = fit(X, W, kind)
    for X_sparse in (sp.csr_array(X), sp.coo_matrix(X)):
        other, sparse_models, sparse_costs = fit(X_sparse, W, kind)
        np.testing.assert_array_equal(sparse_models, models)
        np.testing.assert_array_equal(sparse_costs, costs)
        np.testing.assert_array_equal(other.refit(W), term.refit(W))
        assert other.value(W, other.refit(W)) == term.value(W, term.refit(W))


@every_kind
def test_stretches_of_rows_do_not_change_the_result(kind, monkeypatch):
    X, W = draw(n=100)
    term, models, costs = fit(X, W, kind)
    losses = term.vertex_costs(term.refit(W), 10, 90)
    monkeypatch.setattr(gaussian, "_MOST_ENTRIES", 7 * X.shape[1])
    cut, cut_models, cut_costs = fit(X, W, kind)
    np.testing.assert_allclose(cut_models, models, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(cut_costs, costs, rtol=1e-10)
    np.testing.assert_allclose(cut.vertex_costs(cut.refit(W), 10, 90), losses, rtol=1e-10)
    np.testing.assert_array_equal(cut.models_set.lo[0], X.min(axis=0))


def test_thousands_of_features_are_taken_with_variances_alone():
    X, W = draw(n=20, m=3000)
    _, models, costs = fit(X, W)
    assert models.shape == (K, 2, 3000)
    assert np.isfinite(costs).all()
    for kind in ("shared", "full"):
        with pytest.raises(InputError, match=f"a {kind} covariance takes at most 512 .* got 3000"):
            Gaussian(kind).bind(NodeData(K, X))


@pytest.mark.parametrize(
    ("term", "message"),
    [
        (Gaussian("spherical"), "must be 'diagonal', 'shared' or 'full', got 'spherical'"),
        (Gaussian(shrinkage=-1.0), "shrinkage ≥ 0, got -1"),
        (Gaussian(shrinkage=np.nan), "shrinkage ≥ 0, got nan"),
    ],
)
def test_settings_that_cannot_be_are_refused(term, message):
    with pytest.raises(InputError, match=message):
        term.bind(NodeData(K, np.ones((3, 2))))


# In a fit. ------------------------------------------------------------------------------


def mixture(kind, n=600, seed=0):
    """Return three overlapping clouds, the share that the true densities get right, and labels."""
    rng = np.random.default_rng(seed)
    z = rng.integers(0, K, size=n)
    means = np.array([[0.0, 0.0, 0.0], [2.5, 0.0, 1.0], [0.0, 2.5, -1.0]])
    spreads = np.array([[1.0, 1.0, 1.0]] * 3 if kind == "shared" else np.eye(3) * 1.5 + 0.5)
    X = means[z] + spreads[z] * rng.standard_normal((n, 3))
    true = np.stack([norm(means[i], spreads[i]).logpdf(X).sum(axis=1) for i in range(K)])
    return X, z, (true.argmax(axis=0) == z).mean()


@every_kind
def test_block_cado_finds_a_mixture_as_well_as_its_true_densities(kind):
    X, z, best = mixture(kind)
    y = np.where(np.arange(600) < 15, z, -1)
    nodes = NodeData(K, X, y)
    terms = [Gaussian(kind).bind(nodes), Labels().bind(nodes)]
    result = BlockCADO(random_state=0).solve(Problem(None, terms, K))
    assert best > 0.85
    assert (result.W.argmax(axis=1) == z).mean() > best - 0.02


def test_the_paper_s_weights_find_separate_means():
    rng = np.random.default_rng(0)
    z = rng.integers(0, K, size=300)
    X = 8.0 * np.eye(K)[z] + rng.standard_normal((300, K))
    nodes = NodeData(K, X * [1.0, 100.0, 0.01], np.where(np.arange(300) < 9, z, -1))
    terms = [Gaussian().bind(nodes), Labels().bind(nodes)]
    problem = Problem(None, terms, K, weights=(1.0, 2.5, 13.0))
    result = BlockCADO(temperature=0.0, random_state=0).solve(problem)
    assert (result.W.argmax(axis=1) == z).mean() > 0.99


@every_kind
def test_every_sweep_lowers_the_free_energy(kind):
    """Rows given the models, models given the rows: each is the best there is."""
    X, _, _ = mixture(kind)
    problem = Problem(None, [Gaussian(kind).bind(NodeData(K, X))], K)
    W = np.random.default_rng(3).dirichlet(np.ones(K), size=600)
    values = []
    with threads.using(1):
        for _ in range(8):
            models = problem.fit_models(W)
            values.append(problem.free_energy(W, models))
            scores = models.log_prior - problem.costs(models, 0, 600)
            W = np.exp(scores - scores.max(axis=1, keepdims=True))
            W /= W.sum(axis=1, keepdims=True)
            values.append(problem.free_energy(W, models))
    assert (np.diff(values) < 1e-9).all()
