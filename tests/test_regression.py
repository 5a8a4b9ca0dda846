"""Logistic regression on soft targets, and how far its scores are trusted."""

import numpy as np
import pytest
from scipy.special import log_softmax, logsumexp, softmax
from sklearn.linear_model import LogisticRegression

from nodeproof.runtime import threads
from nodeproof.terms import logistic as regression
from nodeproof.terms.logistic import (
    assign_folds,
    balance,
    crossfit,
    estimate_proportions,
    fit_logistic,
    fit_noise,
    fit_scale,
    held_out_scores,
    match_confidence,
    shares,
    with_noise,
)

K = 3
TIGHT = {"tol": 1e-9, "max_iter": 2000}

pytestmark = pytest.mark.usefixtures("one_thread")


def draw(n=60, d=4, seed=0):
    """Return features, classes that they tell to some extent, and soft targets."""
    rng = np.random.default_rng(seed)
    z = np.arange(n) % K
    Z = rng.standard_normal((n, d)) + 0.8 * rng.standard_normal((K, d))[z]
    targets = 0.6 * np.eye(K)[z] + 0.4 * rng.dirichlet(np.ones(K), size=n)
    return Z, z, targets


def judge(theta, Z, targets, l2, weights):
    """Return the objective as the docstring states it, term by term."""
    scores = Z @ theta[:, :-1].T + theta[:, -1]
    rows = (targets * (logsumexp(scores, axis=1)[:, None] - scores)).sum(axis=1)
    return weights @ rows + 0.5 * l2 * (theta[:, :-1] ** 2).sum()


def solve_exactly(Z, targets, l2, weights):
    """Return the minimiser by Newton's method with the whole Hessian."""
    n, d = Z.shape
    classes = targets.shape[1]
    padded = np.column_stack([Z, np.ones(n)])
    ridge = l2 * np.tile(np.append(np.ones(d), 0.0), classes)
    theta = np.zeros(classes * (d + 1))
    for _ in range(100):
        P = softmax(padded @ theta.reshape(classes, d + 1).T, axis=1)
        gradient = ((weights[:, None] * (P - targets)).T @ padded).ravel() + ridge * theta
        bends = weights[:, None, None] * (
            P[:, :, None] * np.eye(classes) - P[:, :, None] * P[:, None]
        )
        hessian = np.einsum("vij,va,vb->iajb", bends, padded, padded).reshape(len(theta), -1)
        # A constant common to all classes changes nothing: the smallest step leaves it out.
        step = np.linalg.lstsq(hessian + np.diag(ridge), gradient, rcond=1e-12)[0]
        theta = theta - step
        if np.abs(step).max() < 1e-12:
            return theta.reshape(classes, d + 1)
    raise AssertionError("Newton's method did not settle")


# The fit. -------------------------------------------------------------------------------


@pytest.mark.parametrize("l2", [0.05, 1.0, 20.0])
def test_on_hard_targets_it_is_the_regression_of_scikit_learn(l2):
    Z, z, _ = draw()
    theta = fit_logistic(Z, np.eye(K)[z], l2, **TIGHT)
    reference = LogisticRegression(C=1.0 / l2, tol=1e-10, max_iter=10_000).fit(Z, z)
    np.testing.assert_allclose(theta[:, :-1], reference.coef_, rtol=1e-4, atol=1e-5)
    constants = reference.intercept_ - reference.intercept_.mean()
    np.testing.assert_allclose(theta[:, -1], constants, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
@pytest.mark.parametrize("l2", [0.1, 3.0])
def test_on_soft_targets_it_is_the_minimum(l2, weighted):
    Z, _, targets = draw()
    weights = np.random.default_rng(1).uniform(0.0, 3.0, len(Z)) if weighted else np.ones(len(Z))
    theta = fit_logistic(Z, targets, l2, weights if weighted else None, **TIGHT)
    exact = solve_exactly(Z, targets, l2, weights)
    np.testing.assert_allclose(theta, exact, rtol=1e-4, atol=1e-5)
    lowest = judge(exact, Z, targets, l2, weights)
    assert lowest <= judge(theta, Z, targets, l2, weights) <= lowest + 1e-8


def test_two_classes_are_no_special_case():
    Z, z, _ = draw()
    targets = np.eye(2)[(z > 0).astype(int)]
    exact = solve_exactly(Z, targets, 0.5, np.ones(len(Z)))
    np.testing.assert_allclose(fit_logistic(Z, targets, 0.5, **TIGHT), exact, atol=1e-5)


def test_the_default_tolerance_is_close_enough_to_act_on():
    Z, _, targets = draw()
    exact = solve_exactly(Z, targets, 0.3, np.ones(len(Z)))
    probabilities = [
        softmax(Z @ theta[:, :-1].T + theta[:, -1], axis=1)
        for theta in (fit_logistic(Z, targets, 0.3), exact)
    ]
    np.testing.assert_allclose(*probabilities, atol=2e-3)


def test_constants_are_not_penalised():
    """Without them, a heavy penalty would make classes equally probable."""
    Z, _, _ = draw()
    targets = np.tile([0.7, 0.2, 0.1], (len(Z), 1))
    theta = fit_logistic(Z, targets, 1e6, **TIGHT)
    np.testing.assert_allclose(theta[:, :-1], 0.0, atol=1e-6)
    np.testing.assert_allclose(softmax(theta[:, -1]), [0.7, 0.2, 0.1], atol=1e-5)


def test_a_weight_of_two_is_the_row_twice_and_of_zero_none():
    Z, _, targets = draw(20)
    weights = np.ones(20)
    weights[3], weights[4] = 2.0, 0.0
    rows = np.delete(np.append(np.arange(20), 3), 4)
    np.testing.assert_allclose(
        fit_logistic(Z, targets, 0.5, weights, **TIGHT),
        fit_logistic(Z[rows], targets[rows], 0.5, **TIGHT),
        atol=1e-5,
    )


def test_several_regressions_at_once_are_the_same_as_one_by_one():
    Z, _, targets = draw()
    weights = np.random.default_rng(2).uniform(0.0, 2.0, size=(len(Z), 4))
    together = fit_logistic(Z, targets, 0.3, weights, **TIGHT)
    assert together.shape == (4, K, Z.shape[1] + 1)
    for column, theta in zip(weights.T, together, strict=True):
        alone = fit_logistic(Z, targets, 0.3, column, **TIGHT)
        np.testing.assert_allclose(theta, alone, rtol=1e-3, atol=1e-4)


def test_one_column_of_weights_is_still_a_stack():
    Z, _, targets = draw(12)
    stack = fit_logistic(Z, targets, 1.0, np.ones((12, 1)))
    assert stack.shape == (1, K, Z.shape[1] + 1)
    np.testing.assert_array_equal(stack[0], fit_logistic(Z, targets, 1.0))


def test_the_start_shortens_the_way_and_does_not_move_the_end():
    Z, _, targets = draw()
    exact = solve_exactly(Z, targets, 0.3, np.ones(len(Z)))
    near = fit_logistic(Z, targets, 0.3, start=exact, max_iter=1)
    np.testing.assert_allclose(near, exact, atol=1e-4)
    far = fit_logistic(Z, targets, 0.3, start=exact + 5.0 * np.eye(K, exact.shape[1]), **TIGHT)
    np.testing.assert_allclose(far[:, :-1], exact[:, :-1], atol=1e-4)
    weights = np.ones((len(Z), 2))
    stack = fit_logistic(Z, targets, 0.3, weights, start=exact, max_iter=1)
    np.testing.assert_allclose(stack, [exact, exact], atol=1e-4)


@pytest.mark.parametrize("columns", [1, 3])
def test_the_gradient_agrees_with_differences(monkeypatch, slope, columns):
    """The objective is handed to scipy in units of its own; it is caught on the way."""
    caught = []

    def catch(objective, start, **settings):
        caught.append((objective, start))
        return minimize(objective, start, **settings)

    minimize = regression.minimize
    monkeypatch.setattr(regression, "minimize", catch)
    Z, _, targets = draw(20)
    weights = np.random.default_rng(3).uniform(0.2, 2.0, size=(20, columns))
    thetas = np.random.default_rng(4).standard_normal((columns, K, Z.shape[1] + 1))
    fit_logistic(Z, targets, 0.7, weights, start=thetas, max_iter=2)
    ((objective, at),) = caught
    value, gradient = objective(at)
    total = weights.sum(axis=0).mean()
    expected = sum(
        judge(theta, Z, targets, 0.7, column)
        for theta, column in zip(thetas, weights.T, strict=True)
    )
    assert value == pytest.approx(expected / total, rel=1e-12)
    for k in range(len(at)):
        direction = np.eye(len(at))[k]
        expected = slope(lambda point: objective(point)[0], at, direction)
        assert gradient[k] == pytest.approx(expected, rel=1e-5, abs=1e-7)


def test_features_in_float32_give_nearly_the_same_in_float64():
    Z, _, targets = draw()
    narrow = fit_logistic(Z.astype(np.float32), targets, 0.3)
    assert narrow.dtype == np.float64
    np.testing.assert_allclose(narrow, fit_logistic(Z, targets, 0.3), atol=2e-3)


def test_more_columns_than_rows_are_no_special_case():
    Z, z, _ = draw(12, d=30)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, size=(12, 2))
    found = fit_logistic(Z, np.eye(K)[z], 0.5, weights, **TIGHT)
    for theta, column in zip(found, weights.T, strict=True):
        np.testing.assert_allclose(theta, solve_exactly(Z, np.eye(K)[z], 0.5, column), atol=1e-4)
    for start in (found, found[0], 3.0 + found):
        again = fit_logistic(Z, np.eye(K)[z], 0.5, weights, start, **TIGHT)
        np.testing.assert_allclose(again[..., :-1], found[..., :-1], atol=1e-4)
    near = fit_logistic(Z, np.eye(K)[z], 0.5, weights, found, max_iter=1)
    np.testing.assert_allclose(near, found, atol=1e-4)


def test_scores_far_beyond_what_exp_can_hold_do_no_harm():
    Z, z, _ = draw()
    theta = fit_logistic(1e4 * Z, np.eye(K)[z], 1e-3, max_iter=20)
    assert np.isfinite(theta).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_bits_do_not_depend_on_the_number_of_threads(dtype):
    n = 2 * threads.ROWS + 500
    Z, _, targets = draw(n, d=6)
    Z = Z.astype(dtype)
    weights = np.random.default_rng(5).uniform(0.0, 1.0, size=(n, 2))
    found = []
    for n_jobs in (1, 2, 3):
        with threads.using(n_jobs):
            found.append(fit_logistic(Z, targets, 0.3, weights, max_iter=8).tobytes())
    assert found[0] == found[1] == found[2]


def test_the_data_are_left_as_they_were():
    Z, _, targets = draw(20)
    weights = np.ones((20, 2))
    start = np.zeros((K, Z.shape[1] + 1))
    given = Z, targets, weights, start
    before = [array.copy() for array in given]
    fit_logistic(Z, targets, 0.3, weights, start)
    for array, kept in zip(given, before, strict=True):
        np.testing.assert_array_equal(array, kept)


# Folds. ---------------------------------------------------------------------------------


@pytest.mark.parametrize("n_folds", [2, 3, 5])
@pytest.mark.parametrize("sizes", [(10, 10, 10), (2, 7, 13), (1, 2, 30)])
def test_folds_are_even_and_each_class_is_spread_evenly(sizes, n_folds):
    codes = np.random.default_rng(0).permutation(np.repeat(np.arange(3), sizes))
    folds = assign_folds(codes, n_folds)
    counts = np.stack([np.bincount(folds[codes == k], minlength=n_folds) for k in range(3)])
    assert counts.shape == (3, n_folds)
    assert np.ptp(counts.sum(axis=0)) <= 1
    assert (np.ptp(counts, axis=1) <= 1).all()


def test_folds_do_not_follow_the_order_of_the_nodes():
    folds = assign_folds(np.zeros(60, dtype=int), 3)
    assert len(set(np.diff(folds).tolist())) > 2
    np.testing.assert_array_equal(folds, assign_folds(np.zeros(60, dtype=int), 3))


@pytest.fixture
def to_the_end(monkeypatch):
    """Let every fit go on until it has settled: how early they may stop is another matter."""

    def settle(Z, targets, l2, weights=None, start=None, **_):
        return fit_logistic(Z, targets, l2, weights, start, **TIGHT)

    monkeypatch.setattr(regression, "fit_logistic", settle)


@pytest.mark.usefixtures("to_the_end")
def test_a_row_is_scored_by_a_regression_that_has_not_seen_its_target():
    Z, z, _ = draw()
    targets, folds = np.eye(K)[z], assign_folds(z, 5)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, len(Z))
    scores = held_out_scores(Z, crossfit(Z, targets, 0.3, folds, weights), folds)
    assert scores.shape == (len(Z), K)
    for fold in range(5):
        seen = folds != fold
        theta = fit_logistic(Z[seen], targets[seen], 0.3, weights[seen], **TIGHT)
        expected = Z[~seen] @ theta[:, :-1].T + theta[:, -1]
        np.testing.assert_allclose(scores[~seen], expected, atol=1e-3)


@pytest.mark.usefixtures("to_the_end")
def test_another_target_of_a_row_moves_other_scores_but_not_its_own():
    Z, z, _ = draw()
    folds = assign_folds(z, 5)
    before = held_out_scores(Z, crossfit(Z, np.eye(K)[z], 0.3, folds), folds)
    for v in (0, 25, 59):
        changed = z.copy()
        changed[v] = (z[v] + 1) % K
        after = held_out_scores(Z, crossfit(Z, np.eye(K)[changed], 0.3, folds), folds)
        moved = np.abs(after - before).max(axis=1)
        assert moved[folds == folds[v]].max() < 1e-3
        assert moved[folds != folds[v]].max() > 0.1


def test_blind_scores_take_the_regression_of_the_fold():
    rng = np.random.default_rng(0)
    Z, theta, folds = rng.standard_normal((7, 2)), rng.standard_normal((3, K, 3)), np.arange(7) % 3
    scores = held_out_scores(Z, theta, folds)
    for v in range(7):
        expected = theta[folds[v], :, :2] @ Z[v] + theta[folds[v], :, 2]
        np.testing.assert_allclose(scores[v], expected, rtol=1e-12)


# Scales. --------------------------------------------------------------------------------


def noisy_scores(n=300, seed=0, scale=2.0):
    """Return scores, and classes drawn from their softmax at this scale."""
    rng = np.random.default_rng(seed)
    scores = rng.standard_normal((n, K))
    chances = softmax(scale * scores, axis=1)
    z = (chances.cumsum(axis=1) < rng.random(n)[:, None]).sum(axis=1)
    return scores, np.eye(K)[z]


@pytest.mark.parametrize("spread", [np.inf, 1.0, 0.1])
@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
def test_no_other_scale_is_nearer_to_the_targets(spread, weighted):
    scores, targets = noisy_scores()
    weights = np.random.default_rng(1).uniform(0, 4, len(scores)) if weighted else None
    charge = np.ones(len(scores)) if weights is None else weights

    def cost(scale):
        fit = charge @ -(targets * log_softmax(scale * scores, axis=1)).sum(axis=1)
        return fit + 0.5 * (np.log(scale) / spread) ** 2

    found = fit_scale(scores, targets, weights, spread)
    others = np.exp(np.linspace(np.log(0.1), np.log(50.0), 300))
    assert cost(found) <= min(map(cost, others)) + 1e-6


def test_the_scale_that_targets_were_drawn_at_is_found():
    for scale in (0.5, 2.0, 5.0):
        assert fit_scale(*noisy_scores(5000, scale=scale)) == pytest.approx(scale, rel=0.1)


def test_a_belief_in_one_draws_the_scale_there():
    scores, targets = noisy_scores(60, scale=4.0)
    free, drawn, fixed = (fit_scale(scores, targets, spread=s) for s in (np.inf, 0.2, 1e-4))
    assert free > drawn > fixed
    assert fixed == pytest.approx(1.0, abs=1e-3)


def test_scores_that_are_always_right_or_say_nothing_keep_to_bounds():
    z = np.arange(30) % K
    always_right = fit_scale(np.eye(K)[z], np.eye(K)[z])
    always_wrong = fit_scale(-np.eye(K)[z], np.eye(K)[z])
    nothing = fit_scale(np.zeros((30, K)), np.eye(K)[z])
    assert 0 < always_wrong < 1 < always_right < 100
    assert np.isfinite(nothing)


def flipped(targets, share, seed=0):
    """Return the targets with a share of them moved to another class at random."""
    rng = np.random.default_rng(seed)
    z = targets.argmax(axis=1)
    wrong = rng.random(len(z)) < share
    return np.eye(K)[np.where(wrong, (z + rng.integers(1, K, len(z))) % K, z)]


def test_noise_moves_a_share_of_labels_to_other_classes():
    log_p = log_softmax(np.random.default_rng(0).standard_normal((5, K)), axis=1)
    p, noisy = np.exp(log_p), np.exp(with_noise(log_p, 0.3))
    moved = 0.3 / 2 * (np.ones((K, K)) - np.eye(K)) + 0.7 * np.eye(K)
    np.testing.assert_allclose(noisy, p @ moved, rtol=1e-12)
    assert with_noise(log_p, 0.0) is log_p


@pytest.mark.parametrize("share", [0.15, 0.3, 0.45])
def test_wrong_labels_are_told_from_unsure_scores(share):
    scores, targets = noisy_scores(600, scale=6.0)
    assert fit_noise(scores, flipped(targets, share)) == pytest.approx(share, abs=0.1)


@pytest.mark.parametrize("scale", [0.5, 1.0, 2.0, 6.0])
def test_labels_that_follow_the_scores_are_not_called_wrong(scale):
    noises = [fit_noise(*noisy_scores(60, seed, scale)) for seed in range(20)]
    assert np.mean(np.array(noises) > 0.1) <= 0.15


def test_with_noise_allowed_for_the_scale_is_that_of_the_right_labels():
    scores, targets = noisy_scores(3000, scale=5.0)
    wrong = flipped(targets, 0.3)
    assert fit_scale(scores, wrong, noise=0.3) == pytest.approx(5.0, rel=0.25)
    assert fit_scale(scores, wrong) < 3.0


def test_one_class_has_no_other_to_be_taken_for():
    assert fit_noise(np.zeros((5, 1)), np.ones((5, 1))) == 0.0


@pytest.mark.parametrize("factor", [0.3, 1.0, 3.0])
def test_scores_are_made_as_confident_as_the_standard(factor):
    rng = np.random.default_rng(0)
    standard, scores = rng.standard_normal((200, K)), rng.standard_normal((200, K))
    assert match_confidence(standard, factor * standard) == pytest.approx(factor, rel=0.01)
    found = match_confidence(scores, factor * standard)
    confidence = [
        softmax(rows, axis=1).max(axis=1).mean() for rows in (found * scores, factor * standard)
    ]
    assert confidence[0] == pytest.approx(confidence[1], abs=1e-3)


def test_confidence_out_of_reach_gives_the_bound():
    standard = 1e4 * np.eye(K)
    flat = match_confidence(np.zeros((K, K)), standard)
    assert flat == match_confidence(1e-9 * np.eye(K), standard) > 10
    sharp = match_confidence(1e4 * np.eye(K), np.zeros((K, K)))
    assert 0 < sharp < 1


@pytest.mark.parametrize("codes", [[0, 0, 0, 1], [2, 0, 2, 2, 0], [1], [0, 1, 2]])
def test_balanced_classes_have_the_same_total(codes):
    codes = np.array(codes)
    weights = balance(codes)
    totals = np.bincount(codes, weights=weights)
    assert weights.mean() == pytest.approx(1.0)
    np.testing.assert_allclose(totals[totals > 0], len(codes) / len(set(codes.tolist())))


# Proportions. ---------------------------------------------------------------------------


def test_shares_are_those_of_the_rows_and_one_row_more():
    rows = np.array([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [1.0, 0.0, 0.0]])
    np.testing.assert_allclose(shares(rows), (np.array([2.5, 0.5, 0.0]) + 1 / 3) / 4)
    assert shares(rows).sum() == pytest.approx(1.0)
    np.testing.assert_allclose(shares(np.empty((0, 3))), 1 / 3)


def toy_classifier(proportions, n=4000, seed=0):
    """Return log-probabilities under equal proportions, of nodes of these proportions."""
    rng = np.random.default_rng(seed)
    z = rng.choice(K, size=n, p=proportions)
    centres = 2.0 * np.eye(K)
    x = centres[z] + rng.standard_normal((n, K))
    return -0.5 * ((x[:, None] - centres) ** 2).sum(axis=2)


@pytest.mark.parametrize("proportions", [(1 / 3, 1 / 3, 1 / 3), (0.6, 0.3, 0.1), (0.1, 0.1, 0.8)])
def test_proportions_among_all_nodes_are_found(proportions):
    scores, learnt = toy_classifier(proportions), np.full(K, 1 / K)
    found = estimate_proportions(scores, learnt)
    assert found.sum() == pytest.approx(1.0)
    # One step goes most of the way.
    assert np.abs(found - proportions).max() <= 0.5 * np.abs(learnt - proportions).max() + 0.01
    long_run = estimate_proportions(scores, learnt, steps=100)
    np.testing.assert_allclose(long_run, proportions, atol=0.03)
    again = estimate_proportions(scores, learnt, start=long_run, steps=1)
    np.testing.assert_allclose(again, long_run, atol=1e-3)


def test_it_matters_what_proportions_the_classifier_has_learnt():
    """Scores that hold unequal proportions already are put right."""
    learnt = np.array([0.7, 0.2, 0.1])
    scores = toy_classifier((0.2, 0.5, 0.3)) + np.log(learnt)
    found = estimate_proportions(scores, learnt, steps=10)
    np.testing.assert_allclose(found, (0.2, 0.5, 0.3), atol=0.05)


def test_a_constant_a_row_changes_no_proportion():
    scores = toy_classifier((0.6, 0.3, 0.1), n=50)
    moved = scores + np.random.default_rng(1).standard_normal((50, 1))
    learnt = np.full(K, 1 / K)
    np.testing.assert_allclose(
        estimate_proportions(moved, learnt), estimate_proportions(scores, learnt), rtol=1e-10
    )
