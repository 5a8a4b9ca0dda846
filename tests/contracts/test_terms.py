"""What every term keeps to. A term added to TERMS is covered, and one given by ``--term``."""

import copy
import dataclasses
import inspect

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import multivariate_normal

from nodeproof import terms
from nodeproof.errors import InputError
from nodeproof.graph import Graph
from nodeproof.runtime import threads
from nodeproof.terms import (
    Categorical,
    Counts,
    Covariance,
    Gaussian,
    Labels,
    Multinomial,
    NodeData,
    Regression,
    Softmax,
    Term,
)
from nodeproof.terms.class_loss import ClassLoss, NodewiseLoss
from nodeproof.terms.summable import tells_all
from own_terms import Visits, Waits, given_terms

TERMS = [
    Categorical(),
    Categorical(columns=[2, 0], shrinkage=4.0),
    Counts(),
    Counts(columns=[1], shrinkage=0.2),
    Covariance(),
    Covariance(intercept=True),
    Covariance(lo=0.4, hi=1.1, shrinkage=7.0),
    Gaussian(),
    Gaussian(covariance="shared"),
    Gaussian(covariance="full", shrinkage=4.0),
    Labels(),
    Labels(accuracy=0.6, strength=5.0),
    Labels(logistic=True),
    Labels(accuracy=0.6, logistic=True),
    Multinomial(),
    Multinomial(smoothing=3.0, trust=0.4),
    Softmax(),
    Softmax(rounds=1, confidence=0.0, sharpness=1.0, folds=0),
    Softmax(hops=2, of="links"),
    Regression(),
    Regression(target=0, features=[2], shrinkage=3.0),
    Visits(),
    Waits(),
]

#: terms whose features are counts
COUNTING: set[type[Term]] = {Categorical, Counts, Multinomial, Visits, Waits}

K = 3
N_MEMBERS = 300

pytestmark = [pytest.mark.numeric, pytest.mark.usefixtures("one_thread")]


def draw_nodes(n: int, seed: int = 0) -> NodeData:
    """Return features of three spreads and a mean each, and labels at two nodes of three."""
    rng = np.random.default_rng(seed)
    z = rng.integers(0, K, size=n)
    spreads = np.array([[1, 0.5, 2], [2, 1, 0.5], [0.5, 2, 1]])
    X = rng.standard_normal((n, 3)) * spreads[z] + z[:, None]
    y = np.where(rng.random(n) < 0.8, z, (z + 1) % K)
    return NodeData(K, X, np.where(rng.random(n) < 0.67, y, -1))


def nodes_for(term: Term, n: int) -> NodeData:
    """Return nodes with features of the kind that the term takes."""
    nodes = draw_nodes(n)
    X = np.floor(2.0 * np.abs(nodes.X)) if type(term) in COUNTING else nodes.X
    if isinstance(term, Categorical):
        X = np.minimum(X, 2.0)
    if term.as_given:
        X = np.where(np.random.default_rng(9).random(X.shape) < 0.2, np.nan, X)
    return dataclasses.replace(nodes, X=X, graph=draw_graph(n))


def draw_graph(n: int, seed: int = 3) -> Graph:
    """Return four links a node, at random."""
    ends = np.random.default_rng(seed).integers(0, n, size=(2, 2 * n))
    links = sp.csr_array((np.ones(2 * n), ends), shape=(n, n))
    return Graph(links + links.T)


def draw_rows(n: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.ones(K), size=n)


def one_hot(z: np.ndarray) -> np.ndarray:
    return np.eye(K)[z]


def members(term: Term, count: int, seed: int = 2) -> np.ndarray:
    """Return random members of the term's set, shape (count, ...)."""
    rng = np.random.default_rng(seed)
    shape = term.refit(np.full((term.n_nodes, K), 1 / K)).shape[1:]
    return term.models_set.project(1.5 * rng.standard_normal((count, *shape)))


def inner_models(term: Term, seed: int = 2) -> np.ndarray:
    """Return different models a class, away from the border of the set."""
    middle = term.refit(np.full((term.n_nodes, K), 1 / K))
    return 0.5 * (middle + members(term, K, seed))


def pytest_generate_tests(metafunc):
    if "unbound" in metafunc.fixturenames:
        own = given_terms(metafunc.config)
        if metafunc.config.getoption("--counts"):
            COUNTING.update(type(term) for term in own)
        metafunc.parametrize("unbound", own or TERMS, ids=repr)


@pytest.fixture
def term(unbound):
    return unbound.bind(nodes_for(unbound, 30))


def test_every_public_term_is_listed():
    public = [getattr(terms, name) for name in terms.__all__]
    classes = [c for c in public if inspect.isclass(c) and issubclass(c, Term)]
    concrete = {c for c in classes if not inspect.isabstract(c)}
    assert concrete == {type(unbound) for unbound in TERMS} - {Visits, Waits}


# Binding. -------------------------------------------------------------------------------


def test_binding_leaves_the_term_itself_as_it_was(unbound):
    before = copy.copy(vars(unbound))
    bound = unbound.bind(nodes_for(unbound, 12))
    assert bound is not unbound
    assert vars(unbound) == before
    assert (bound.n_nodes, bound.n_classes) == (12, K)


def test_a_bound_term_that_is_bound_again_forgets_the_first_nodes():
    def everything(term, n):
        W = draw_rows(n)
        models, estimates = term.refit(W), term.estimate(W)
        return models, estimates, term.cost(estimates, 0, n), term.vertex_costs(models, 0, n)

    for unbound in TERMS:
        first, second = nodes_for(unbound, 30), nodes_for(unbound, 24)
        used = unbound.bind(first)
        everything(used, 30)
        fresh, again = everything(unbound.bind(second), 24), everything(used.bind(second), 24)
        for one, two in zip(fresh, again, strict=True):
            np.testing.assert_array_equal(two, one)


def test_missing_data_are_refused(unbound):
    with pytest.raises(InputError, match=f"{type(unbound).__name__} needs .* is missing"):
        unbound.bind(NodeData(n_classes=K))


def test_the_source_picks_a_weight(unbound):
    assert unbound.source in ("features", "labels")


def test_data_are_left_as_they_were(unbound):
    nodes = nodes_for(unbound, 30)
    X, y = nodes.X.copy(), nodes.y.copy()
    bound, W = unbound.bind(nodes), draw_rows(30)
    rows = W.copy()
    bound.value(W, bound.refit(W))
    bound.cost(bound.estimate(W), 0, 30)
    for before, after in ((X, nodes.X), (y, nodes.y), (rows, W)):
        np.testing.assert_array_equal(after, before)


# The loss. ------------------------------------------------------------------------------


def test_the_value_is_the_sum_of_losses_at_the_mixture(term):
    W, models = draw_rows(30), inner_models(term)
    total = 0.0
    for v in range(30):
        theta = sum(W[v, i] * models[i] for i in range(K))
        total += float(term.loss(theta[None], v, v + 1)[0])
    np.testing.assert_allclose(term.value(W, models), total, rtol=1e-12)


def test_the_gradient_in_W_agrees_with_differences(term, slope):
    W, models = draw_rows(30), inner_models(term)
    gradient = term.gradient_W(W, models)
    assert gradient.shape == W.shape
    scale = np.abs(gradient).max()
    for v, i in np.ndindex(30, K):
        direction = np.zeros_like(W)
        direction[v, i] = 1.0
        expected = slope(lambda at: term.value(at, models), W, direction)
        np.testing.assert_allclose(gradient[v, i], expected, rtol=1e-5, atol=1e-6 * scale)


def test_the_gradient_in_the_models_agrees_with_differences(term, slope):
    W, models = draw_rows(30), inner_models(term)
    gradient = term.gradient_models(W, models)
    assert gradient.shape == models.shape
    for seed in range(10):
        direction = members(term, K, seed=100 + seed) - models
        expected = slope(lambda at: term.value(W, at), models, direction)
        np.testing.assert_allclose(np.vdot(gradient, direction), expected, rtol=1e-5, atol=1e-7)


def test_the_loss_is_convex_in_the_model(term):
    left, right = members(term, 30, seed=3), members(term, 30, seed=4)
    at_left, at_right = term.loss(left, 0, 30), term.loss(right, 0, 30)
    middle = term.loss(0.5 * (left + right), 0, 30)
    assert (middle <= 0.5 * (at_left + at_right) + 1e-12 * (1 + np.abs(at_left))).all()


def test_vertex_costs_are_the_value_at_one_hot_rows(term):
    models = inner_models(term)
    costs = term.vertex_costs(models, 0, 30)
    assert costs.shape == (30, K)
    for seed in range(5):
        z = np.random.default_rng(seed).integers(0, K, size=30)
        value = term.value(one_hot(z), models)
        np.testing.assert_allclose(costs[np.arange(30), z].sum(), value, rtol=1e-12)


@pytest.mark.parametrize("soft", [True, False], ids=["soft", "one-hot"])
def test_no_member_is_a_better_fit_than_refit(term, soft):
    W = draw_rows(30) if soft else one_hot(np.arange(30) % K)

    def charge(models):
        """Σ_v W_vi f(z_v; θ_j) for every class i and model j."""
        return W.T @ term.vertex_costs(models, 0, 30)

    best = term.refit(W)
    assert term.models_set.contains(best, tol=1e-8).all()
    reached = np.diag(charge(best))
    tolerance = 1e-9 * (1 + np.abs(reached))
    others = charge(members(term, N_MEMBERS))
    assert (reached <= others.min(axis=1) + tolerance).all()
    rng = np.random.default_rng(5)
    for size in (1e-3, 1e-2, 1e-1):
        for _ in range(20):
            near = term.models_set.project(best + size * rng.standard_normal(best.shape))
            assert (reached <= np.diag(charge(near)) + tolerance).all()


def test_refit_leaves_no_frank_wolfe_gap(term):
    """Convexity makes this exact: no member at all is better."""
    W = draw_rows(30)
    for i, theta in enumerate(term.refit(W)):
        slopes = term.loss_gradient(np.broadcast_to(theta, (30, *theta.shape)), 0, 30)
        gradient = np.tensordot(W[:, i], slopes, axes=1)
        gap = np.vdot(gradient, theta - term.models_set.lmo(gradient))
        assert -1e-9 <= gap <= 1e-9 * (1 + np.abs(gradient).sum())


# The loss of whole classes. --------------------------------------------------------------


def test_the_class_loss_is_the_sum_of_losses(term):
    W, models = draw_rows(30), inner_models(term)
    loss = term.class_loss(W)
    expected = (W * term.vertex_costs(models, 0, 30)).sum(axis=0)
    np.testing.assert_allclose(loss.value(models), expected, rtol=1e-10)
    np.testing.assert_allclose(NodewiseLoss(term, W).value(models), expected, rtol=1e-12)


def test_the_gradient_of_the_class_loss_agrees_with_differences(term, slope):
    W, models = draw_rows(30), inner_models(term)
    loss = term.class_loss(W)
    gradient = loss.gradient(models)
    assert gradient.shape == models.shape
    plain = NodewiseLoss(term, W).gradient(models)
    np.testing.assert_allclose(gradient, plain, rtol=1e-8, atol=1e-10 * np.abs(plain).max())
    for seed in range(5):
        direction = members(term, K, seed=100 + seed) - models
        expected = [slope(lambda at, i=i: loss.value(at)[i], models, direction) for i in range(K)]
        along = (gradient * direction).reshape(K, -1).sum(axis=1)
        np.testing.assert_allclose(along, expected, rtol=1e-5, atol=1e-7)


def test_a_class_loss_takes_any_number_of_classes(term):
    W = np.random.default_rng(4).random((30, K + 2)).astype(np.float32)
    models = members(term, K + 2)
    loss = term.class_loss(W)
    assert loss.value(models).shape == (K + 2,)
    assert loss.gradient(models).shape == models.shape


@pytest.mark.parametrize("plain", [False, True], ids=["own", "any"])
def test_no_member_beats_the_prox_of_the_class_loss(term, plain):
    """By its Frank–Wolfe gap, which convexity makes exact."""
    W = draw_rows(30)
    if plain and isinstance(term, Multinomial):
        pytest.skip("curved by 1e8 at the floor: gradient steps are no match for it")
    loss = ClassLoss.prox if plain else type(term.class_loss(W)).prox
    points, start = inner_models(term, seed=6), inner_models(term, seed=7)
    for rho in (0.3, 5.0):
        which = term.class_loss(W)
        near = loss(which, points, rho, start, tol=1e-10)
        assert term.models_set.contains(near, tol=1e-8).all()
        gradient = which.gradient(near) + rho * (near - points)
        gap = (gradient * (near - term.models_set.lmo(gradient))).reshape(K, -1).sum(axis=1)
        assert (gap <= 1e-6 * (1 + np.abs(gradient).reshape(K, -1).sum(axis=1))).all()


# The likelihood. ------------------------------------------------------------------------


def posterior(term, W, models):
    return float(np.vdot(W, term.cost(models, 0, len(W)))) + term.penalty(models)


def is_model(term, models):
    """Beyond the estimate, frequencies may become negative."""
    try:
        term.check_models(models)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("soft", [True, False], ids=["soft", "one-hot"])
def test_the_estimate_is_the_most_probable(term, slope, soft):
    """Directions towards other estimates keep to what models can be: symmetric, sum one."""
    if isinstance(term, Softmax):
        # A labelled node is charged by a fit that has not seen its label, memberships without one
        # count by their confidence, and scores are scaled after the fit.
        pytest.skip("its estimate is not what `cost` and `penalty` add up to: test_softmax.py")
    W = draw_rows(30) if soft else one_hot(np.arange(30) % K)
    best = term.estimate(W)
    lowest = posterior(term, W, best)
    for seed in range(10):
        direction = term.estimate(draw_rows(30, seed=200 + seed)) - best

        def along(share, direction=direction):
            return posterior(term, W, best + share * direction)

        # The ridge that keeps Covariance off singularity moves the optimum by 1e-9 or so.
        curvature = (along(1e-3) - 2 * lowest + along(-1e-3)) / 1e-6
        assert curvature > 0
        assert abs(slope(along, 0.0, 1.0, step=1e-4)) < 1e-5 * curvature
        for share in (-0.1, -0.01, 0.01, 0.1, 0.5, 1.0):
            if is_model(term, best + share * direction):
                assert along(share) > lowest


def test_what_a_node_costs_does_not_depend_on_the_range_it_is_asked_in(term):
    W = draw_rows(30)
    models, estimates = inner_models(term), term.estimate(W)
    whole, cost = term.vertex_costs(models, 0, 30), term.cost(estimates, 0, 30)
    for lo, hi in ((0, 7), (7, 8), (8, 30)):
        np.testing.assert_allclose(term.vertex_costs(models, lo, hi), whole[lo:hi], rtol=1e-12)
        np.testing.assert_allclose(term.cost(estimates, lo, hi), cost[lo:hi], rtol=1e-12)


def test_what_all_nodes_cost_follows_from_sums_where_a_term_says_so(term):
    """And from sums over parts of the nodes, in any order."""
    if not tells_all(term):
        pytest.skip("its sums do not tell")
    W = draw_rows(term.n_nodes)
    sums = term.sums(W, 0, term.n_nodes)
    models = term.estimate_from(sums)
    costs = term.cost(models, 0, term.n_nodes)
    assert term.charged(sums, models) == pytest.approx((W * costs).sum(), rel=1e-9)
    nodes = np.random.default_rng(0).permutation(term.n_nodes)
    parts = [np.sort(nodes[:7]), np.sort(nodes[7:])]
    cut = [term.cut(part) for part in parts]
    for part, own in zip(parts, cut, strict=True):
        np.testing.assert_allclose(own.cost(models, 0, len(part)), costs[part], rtol=1e-9)
    found = sum(own.sums(W[part], 0, len(part)) for part, own in zip(parts, cut, strict=True))
    np.testing.assert_allclose(found, sums, rtol=1e-9, atol=1e-12)


def test_a_class_without_nodes_gets_a_model_too(term):
    W = one_hot(np.zeros(30, dtype=int))
    assert term.models_set.contains(term.refit(W), tol=1e-8).all()
    estimates = term.estimate(W)
    assert np.isfinite(estimates).all()
    assert np.isfinite(term.cost(estimates, 0, 30)).all()
    assert np.isfinite(term.penalty(estimates))


def test_rows_in_float32_give_models_in_float64(term):
    W = draw_rows(30).astype(np.float32)
    for fit in (term.refit, term.estimate):
        models = fit(W)
        assert models.dtype == np.float64
        np.testing.assert_allclose(models, fit(W.astype(np.float64)), rtol=1e-5, atol=1e-7)


def test_results_do_not_depend_on_the_number_of_threads(unbound):
    n = 2 * threads.ROWS + 100
    nodes, W = nodes_for(unbound, n), draw_rows(n)

    def everything():
        term = unbound.bind(nodes)
        models, estimates = term.refit(W), term.estimate(W)
        return (
            models,
            estimates,
            np.array(term.value(W, models)),
            term.gradient_W(W, models),
            term.gradient_models(W, models),
            term.cost(estimates, 0, n),
        )

    with threads.using(1):
        alone = everything()
    with threads.using(2):
        together = everything()
    for one, two in zip(alone, together, strict=True):
        assert one.tobytes() == two.tobytes()


# Each term against its textbook formula. ------------------------------------------------


@pytest.mark.parametrize("intercept", [False, True])
def test_the_covariance_loss_is_the_papers(intercept):
    nodes = draw_nodes(30)
    term = Covariance(intercept=intercept).bind(nodes)
    x = np.column_stack([nodes.X, np.ones(30)]) if intercept else nodes.X
    m = x.shape[1]
    R = inner_models(term)
    for i in range(K):
        expected = [(x_v @ np.linalg.inv(R[i]) @ x_v + np.trace(R[i])) / m for x_v in x]
        np.testing.assert_allclose(term.loss(R[i][None], 0, 30), expected, rtol=1e-10)


def test_the_covariance_refit_is_the_square_root_of_the_class_moment():
    nodes, W = draw_nodes(30), draw_rows(30)
    term = Covariance(lo=1e-3, hi=1e3).bind(nodes)
    for i, root in enumerate(term.refit(W)):
        moment = (W[:, i] * nodes.X.T) @ nodes.X / W[:, i].sum()
        np.testing.assert_allclose(root @ root, moment, rtol=1e-10, atol=1e-12)


def test_the_default_box_holds_every_class_of_an_equal_share():
    nodes = draw_nodes(30)
    term = Covariance().bind(nodes)
    top = np.linalg.eigvalsh(nodes.X.T @ nodes.X / 30)[-1]
    assert term.models_set.hi == pytest.approx(np.sqrt(K * top))
    assert term.models_set.lo == pytest.approx(0.01 * np.sqrt(top))


@pytest.mark.parametrize("shrinkage", [0.0, 1.0, 20.0])
def test_the_covariance_estimate_is_shrunk_to_the_pooled_moment(shrinkage):
    nodes, W = draw_nodes(30), draw_rows(30)
    pooled = nodes.X.T @ nodes.X / 30
    for i, R in enumerate(Covariance(shrinkage=shrinkage).bind(nodes).estimate(W)):
        moment = (W[:, i] * nodes.X.T) @ nodes.X
        expected = (moment + shrinkage * pooled) / (W[:, i].sum() + shrinkage)
        np.testing.assert_allclose(R, expected, rtol=1e-6, atol=1e-8)


def test_a_covariance_costs_the_centred_gaussian():
    nodes = draw_nodes(30)
    term = Covariance().bind(nodes)
    models = term.estimate(draw_rows(30))
    for i, R in enumerate(models):
        expected = -multivariate_normal(np.zeros(3), R).logpdf(nodes.X)
        np.testing.assert_allclose(term.cost(models, 0, 30)[:, i], expected, rtol=1e-9)


def test_a_covariance_with_intercept_costs_the_gaussian_with_the_class_mean():
    nodes, W = draw_nodes(30), draw_rows(30)
    models = Covariance(intercept=True, shrinkage=0.0).bind(nodes).estimate(W)
    costs = Covariance(intercept=True, shrinkage=0.0).bind(nodes).cost(models, 0, 30)
    for i in range(K):
        share = W[:, i] / W[:, i].sum()
        mean = share @ nodes.X
        spread = (share * (nodes.X - mean).T) @ (nodes.X - mean)
        expected = -multivariate_normal(mean, spread).logpdf(nodes.X)
        np.testing.assert_allclose(costs[:, i], expected, rtol=1e-6)


def test_with_an_intercept_it_does_not_matter_where_features_are_centred():
    nodes, W = draw_nodes(30), draw_rows(30)
    term = Covariance(intercept=True).bind(nodes)
    moved = Covariance(intercept=True).bind(NodeData(K, nodes.X + 1e4))
    costs = [each.cost(each.estimate(W), 0, 30) for each in (term, moved)]
    np.testing.assert_allclose(costs[1], costs[0], rtol=1e-2)


def test_features_that_repeat_or_vanish_do_no_harm():
    X = np.random.default_rng(0).standard_normal((30, 2))
    nodes = NodeData(K, np.column_stack([X, X[:, 0], np.zeros(30)]))
    term, W = Covariance().bind(nodes), draw_rows(30)
    assert np.isfinite(term.cost(term.estimate(W), 0, 30)).all()
    assert np.isfinite(term.value(W, term.refit(W)))


def test_features_in_float32_are_summed_in_float64():
    nodes, W = draw_nodes(30), draw_rows(30)
    rounded = nodes.X.astype(np.float32)
    narrow = Covariance().bind(NodeData(K, rounded)).estimate(W)
    wide = Covariance().bind(NodeData(K, rounded.astype(np.float64))).estimate(W)
    np.testing.assert_array_equal(narrow, wide)


@pytest.mark.parametrize(("lo", "hi"), [(0.0, 1.0), (-1.0, 1.0)])
def test_a_box_that_allows_singular_matrices_is_refused(lo, hi):
    with pytest.raises(InputError, match="needs lo > 0"):
        Covariance(lo=lo, hi=hi).bind(draw_nodes(10))


def test_the_label_loss_is_minus_the_probability_of_the_given_label():
    term = Labels().bind(NodeData(K, y=np.array([2, -1, 0])))
    losses = term.loss(np.array([[0.2, 0.3, 0.5]]), 0, 3)
    np.testing.assert_allclose(losses, [-0.5, 0.0, -0.2])


def test_a_label_costs_its_log_frequency_in_the_class_with_the_believed_ones():
    nodes, W = draw_nodes(30), draw_rows(30)
    term = Labels(accuracy=0.8, strength=5.0).bind(nodes)
    costs = term.cost(term.estimate(W), 0, 30)
    for i in range(K):
        counts = np.array([W[nodes.y == j, i].sum() for j in range(K)])
        counts += np.where(np.arange(K) == i, 4.0, 0.5)
        share = counts / counts.sum()
        for v in range(30):
            expected = -np.log(share[nodes.y[v]]) if nodes.y[v] >= 0 else 0.0
            np.testing.assert_allclose(costs[v, i], expected, rtol=1e-12)


def test_label_models_are_uniform_where_no_label_is_held():
    term = Labels().bind(NodeData(K, y=np.array([0, 1, -1])))
    models = term.refit(one_hot(np.array([0, 1, 2])))
    np.testing.assert_array_equal(models[2], np.full(K, 1 / K))


@pytest.mark.parametrize("label", [3, -2])
def test_labels_out_of_range_are_refused_by_node(label):
    with pytest.raises(InputError, match=f"label of node 1 is {label}"):
        Labels().bind(NodeData(K, y=np.array([0, label, 2])))
