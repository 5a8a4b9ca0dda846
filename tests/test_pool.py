"""Weights of experts: what they minimise, against references, and what they must not depend on."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, logsumexp, softmax

from nodeproof.auto.pool_weights import chances_of_best, fit_weights, penalised_loss
from nodeproof.auto.pooling import Judge, Pool, estimate_mix, fit_pool

K = 3

pytestmark = pytest.mark.numeric


def draw(n=200, sure=1.0, n_classes=K, seed=0):
    """Return labels and scores of shape (n, K); labels follow the softmax of ``sure × scores``."""
    rng = np.random.default_rng(seed)
    scores = 2.0 * rng.standard_normal((n, n_classes))
    chances = softmax(sure * scores, axis=1)
    codes = (chances.cumsum(axis=1) < rng.random(n)[:, None]).sum(axis=1)
    return codes.clip(max=n_classes - 1), scores


def draw_experts(n=150, n_classes=K, noises=(0.5, 1.0, 3.0), seed=0):
    """Return labels and the log-probabilities of experts that see them through more and more noise.

    What they say is of different confidence, which a pool has to correct.
    """
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, n_classes, n)
    heard = [
        2.0 * np.eye(n_classes)[codes] + noise * rng.standard_normal((n, n_classes))
        for noise in noises
    ]
    return codes, [log_softmax((1.0 + e) * own, axis=1) for e, own in enumerate(heard)]


def random_weights(n, seed=0):
    weights = np.random.default_rng(seed).uniform(0.2, 3.0, n)
    return weights / weights.mean()


# The measure. ---------------------------------------------------------------------------


def test_losses_are_minus_log_probabilities_of_the_labels():
    codes = np.array([0, 2, 1, 1])
    judge = replace(Judge.of(codes, K), weights=np.array([1.0, 1.0, 2.0, 0.0]))
    scores = np.random.default_rng(0).standard_normal((4, K))
    losses = judge.losses(scores)
    np.testing.assert_allclose(losses, -np.log(softmax(scores, axis=1)[range(4), codes]))
    assert judge.loss(scores) == pytest.approx((losses[0] + losses[1] + 2 * losses[2]) / 4)


def test_wrong_labels_bound_the_loss_of_a_contradiction():
    judge = replace(Judge.of(np.array([0]), K), noise=0.3)
    assert judge.loss(np.array([[-50.0, 0.0, 0.0]])) == pytest.approx(-np.log(0.15))
    assert judge.loss(np.array([[50.0, 0.0, 0.0]])) == pytest.approx(-np.log(0.7))


def test_some_of_the_labels_are_judged_by_their_own_weights():
    codes, scores = draw(40)
    judge = replace(Judge.of(codes, K), weights=random_weights(40))
    kept = np.arange(40) % 3 == 0
    expected = np.average(judge.losses(scores)[kept], weights=judge.weights[kept])
    assert judge.only(kept).loss(scores[kept]) == pytest.approx(expected)
    assert judge.only(np.flatnonzero(kept)).loss(scores[kept]) == pytest.approx(expected)


@pytest.mark.parametrize("noise", [0.0, 0.2])
@pytest.mark.parametrize("sure", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("n_classes", [2, 5])
def test_the_temperature_is_the_minimum_that_scipy_finds(noise, sure, n_classes):
    for seed in range(5):
        codes, scores = draw(60, sure, n_classes, seed)
        offset = np.random.default_rng(seed).standard_normal(n_classes)
        weights = random_weights(60, seed)
        judge = Judge(codes, n_classes, weights, noise, missed=0.5)

        def loss(log_scale, judge=judge, scores=scores, offset=offset):
            proba = softmax(np.exp(log_scale) * scores + offset, axis=1)
            elsewhere = judge.noise / (judge.n_classes - 1)
            heard = np.log((1.0 - judge.noise - elsewhere) * proba + elsewhere)
            prior = 0.5 * (log_scale / 0.5) ** 2 if judge.noise else 0.0
            return -float(judge.weights @ (judge.targets() * heard).sum(axis=1)) + prior

        reference = minimize_scalar(loss, bounds=np.log([0.03, 50.0]), method="bounded")
        found = np.log(judge.temperature(scores, offset))
        # The minimum is flat: what counts is how high the loss is.
        assert loss(found) <= reference.fun + 1e-4


def test_a_temperature_undoes_any_factor_of_the_scores():
    codes, scores = draw(200, sure=2.0)
    judge = Judge.of(codes, K)
    losses = [judge.best_loss(factor * scores, balanced=False) for factor in (1.0, 7.0, 0.4)]
    np.testing.assert_allclose(losses, losses[0], rtol=1e-4)


def test_labels_that_are_all_predicted_do_not_make_probabilities_extreme():
    codes = np.arange(9) % K
    scores = np.eye(K)[codes]
    proba = softmax(Judge.of(codes, K).temperature(scores) * scores, axis=1)
    assert 0.5 < proba.max() < 0.999


def test_scores_that_contradict_every_label_count_for_next_to_nothing():
    codes = np.arange(90) % K
    scores = np.eye(K)[(codes + 1) % K]
    assert Judge.of(codes, K).temperature(scores) < 0.05


# Weights. -------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "n_classes"), [(25, 2), (150, 3), (1200, 4)])
def test_the_slope_of_the_pool_loss_is_that_of_finite_differences(slope, n, n_classes):
    codes, held = draw_experts(n, n_classes)
    judge = replace(Judge.of(codes, n_classes), weights=random_weights(n))
    columns, best = np.stack(held).swapaxes(1, 2), np.array([0.0, 1.0, 0.0])
    rng = np.random.default_rng(1)
    for _ in range(5):
        x = np.concatenate([rng.uniform(0.0, 1.5, 3), rng.standard_normal(n_classes)])
        direction = rng.standard_normal(len(x))
        gradient = penalised_loss(x, columns, best, judge)[1]
        expected = slope(lambda at: penalised_loss(at, columns, best, judge)[0], x, direction)
        assert gradient @ direction == pytest.approx(expected, rel=1e-5, abs=1e-8)


def test_no_other_weights_near_the_fitted_ones_have_a_lower_loss():
    codes, held = draw_experts(100)
    judge, parts, best = Judge.of(codes, K), np.stack(held), np.array([1.0, 0.0, 0.0])
    weights, bias = fit_weights(parts, best, judge)
    assert (weights > 0).sum() > 1
    value = penalised_loss(np.concatenate([weights, bias]), parts.swapaxes(1, 2), best, judge)[0]
    rng = np.random.default_rng(0)
    for size in (0.01, 0.1, 1.0):
        for _ in range(20):
            other = np.maximum(weights + size * rng.standard_normal(3), 0.0)
            moved = np.concatenate([other, bias + size * rng.standard_normal(K)])
            # Weights that are next to nothing are left out, which may cost next to nothing.
            assert penalised_loss(moved, parts.swapaxes(1, 2), best, judge)[0] >= value - 1e-4


def test_an_expert_is_not_used_backwards():
    """What one hears is the noise of the other: to subtract it would be best, but is not sound."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, K, 3000)
    noise = 2.0 * rng.standard_normal((3000, K))
    heard = [3.0 * np.eye(K)[codes] + noise, 0.3 * np.eye(K)[codes] + noise]
    parts, best = np.stack([log_softmax(own, axis=1) for own in heard]), np.array([1.0, 0.0])
    judge = Judge.of(codes, K)
    subtracted = np.concatenate([[1.3, -0.5], np.zeros(K)])
    plain = np.concatenate([best, np.zeros(K)])
    losses = [penalised_loss(x, parts.swapaxes(1, 2), best, judge)[0] for x in (subtracted, plain)]
    assert losses[0] < losses[1] - 0.01
    weights, bias = fit_weights(parts, best, judge)
    assert weights[1] == 0.0
    found = penalised_loss(np.concatenate([weights, bias]), parts.swapaxes(1, 2), best, judge)[0]
    for w in np.linspace(0.5, 2.0, 61):
        at = np.concatenate([[w, 0.0], bias])
        assert penalised_loss(at, parts.swapaxes(1, 2), best, judge)[0] >= found - 1e-5


@pytest.mark.parametrize("n", [30, 300])
@pytest.mark.parametrize("first", [True, False])
def test_a_useless_expert_beside_a_perfect_one_has_no_weight(n, first):
    rng = np.random.default_rng(0)
    codes = rng.integers(0, K, n)
    perfect = log_softmax(4.0 * np.eye(K)[codes], axis=1)
    useless = log_softmax(rng.standard_normal((n, K)), axis=1)
    held = [perfect, useless] if first else [useless, perfect]
    pool = fit_pool(held, [False, False], Judge.of(codes, K))
    weights = pool.weights if first else pool.weights[::-1]
    assert weights[0] > 0.8
    assert weights[1] < 0.1 * weights[0]
    assert pool.losses[0 if first else 1] < 0.2 < 0.9 < pool.losses[1 if first else 0]


def test_experts_that_err_in_different_places_share_the_weight_and_beat_each_alone():
    codes, held = draw_experts(600, noises=(1.0, 1.0, 1.0))
    judge = Judge.of(codes, K)
    pool = fit_pool(held, [False] * 3, judge)
    assert (pool.weights > 0.2).all()
    assert judge.loss(pool.log_proba(held)) < pool.losses.min() - 0.05


@pytest.mark.parametrize("seed", range(8))
def test_weights_are_never_negative_and_probabilities_sum_to_one(seed):
    rng = np.random.default_rng(seed)
    n, E = int(rng.integers(4, 80)), int(rng.integers(1, 6))
    codes, held = draw_experts(n, noises=rng.uniform(0.1, 9.0, E), seed=seed)
    held[0] = -held[0]  # the worst of all: it says the opposite
    pool = fit_pool(held, rng.random(E) < 0.5, Judge.of(codes, K))
    assert (pool.weights >= 0).all()
    assert pool.weights.max() > 0
    assert pool.scale > 0
    assert (pool.scales > 0).all()
    new = [rng.normal(0.0, 30.0, (50, K)) for _ in range(E)]
    logs = pool.log_proba(new)
    assert np.isfinite(logs).all()
    np.testing.assert_allclose(logsumexp(logs, axis=1), 0.0, atol=1e-9)
    np.testing.assert_allclose(logsumexp(pool.part(0, new[0]), axis=1), 0.0, atol=1e-9)


def test_few_labels_leave_open_which_of_two_experts_is_better():
    sure = []
    for n in (20, 2000):
        drawn = [draw_experts(n, noises=(1.0, 1.3), seed=seed) for seed in range(8)]
        chances = [chances_of_best(np.stack(held), Judge.of(codes, K)) for codes, held in drawn]
        sure.append(np.mean([own.max() for own in chances]))
    assert sure[0] < 0.9
    assert sure[1] > 0.97


def test_experts_are_the_best_as_often_as_labels_drawn_anew_would_say():
    rng = np.random.default_rng(0)
    for n in (20, 200):
        codes, held = draw_experts(n, noises=(1.0, 1.3))
        judge, parts = Judge.of(codes, K), np.stack(held)
        chances = chances_of_best(parts, judge)
        assert chances.sum() == pytest.approx(1.0)
        drawn = rng.integers(0, n, (4000, n))  # labels, some of them several times
        losses = np.stack([judge.losses(part)[drawn].mean(axis=1) for part in parts])
        assert chances[0] == pytest.approx((losses[0] < losses[1]).mean(), abs=0.1)


def test_experts_that_say_the_same_are_as_likely_the_best():
    codes, held = draw_experts(50, noises=(1.0, 1.3))
    chances = chances_of_best(np.stack([held[0], held[1], held[0]]), Judge.of(codes, K))
    assert chances[0] == chances[2]


def test_experts_that_know_the_same_are_pooled_more_evenly():
    codes, held = draw_experts(60, noises=(1.0, 1.3, 1.6))
    judge = Judge.of(codes, K)
    apart, alike = (fit_pool(held, [False] * 3, judge, alike) for alike in (False, True))
    least = [pool.weights.min() / pool.weights.sum() for pool in (apart, alike)]
    assert least[0] < least[1]
    chances = chances_of_best(np.stack(held), judge, alike=True)
    assert (chances >= 0.5 / 3).all()  # with as few labels
    assert chances.sum() == pytest.approx(1.0)


def test_the_order_of_the_experts_does_not_matter():
    codes, held = draw_experts(120, noises=(0.8, 1.0, 1.2, 3.0))
    balanced, order = np.array([True, False, False, True]), np.array([2, 0, 3, 1])
    judge = Judge.of(codes, K)
    one = fit_pool(held, balanced, judge)
    other = fit_pool([held[k] for k in order], balanced[order], judge)
    np.testing.assert_allclose(one.weights[order], other.weights, atol=0.01)
    np.testing.assert_allclose(one.losses[order], other.losses, rtol=1e-9)
    here, there = one.log_proba(held), other.log_proba([held[k] for k in order])
    np.testing.assert_allclose(here, there, atol=0.02)


def test_renamed_classes_are_pooled_the_same():
    codes, held = draw_experts(120, noises=(0.8, 1.0))
    codes = np.where(np.arange(120) < 60, codes, 0)  # unequal frequencies
    order = np.array([2, 0, 1])
    renamed = np.argsort(order)[codes]
    one = fit_pool(held, [True, False], Judge.of(codes, K))
    other = fit_pool([own[:, order] for own in held], [True, False], Judge.of(renamed, K))
    np.testing.assert_allclose(one.learnt[order], other.learnt)
    np.testing.assert_allclose(one.bias[order], other.bias, atol=0.01)
    here = one.log_proba(held)[:, order]
    np.testing.assert_allclose(here, other.log_proba([own[:, order] for own in held]), atol=0.02)


def test_what_an_expert_without_a_weight_says_need_not_be_known():
    codes, held = draw_experts(100)
    pool = fit_pool(held, [False] * 3, Judge.of(codes, K))
    pool = replace(pool, weights=pool.weights * [1.0, 0.0, 1.0])
    missing = [held[0], None, held[2]]
    np.testing.assert_array_equal(pool.log_proba(missing), pool.log_proba(held))


def test_a_balanced_expert_is_told_how_frequent_classes_are():
    rng = np.random.default_rng(0)
    codes = rng.choice(K, 400, p=[0.8, 0.15, 0.05])
    balanced = log_softmax(np.eye(K)[codes] + 0.8 * rng.standard_normal((400, K)), axis=1)
    judge = Judge.of(codes, K)
    assert judge.best_loss(balanced, balanced=True) < judge.best_loss(balanced, balanced=False)
    pool = fit_pool([balanced], [True], judge)
    nothing = np.zeros((1, K))
    np.testing.assert_allclose(np.exp(pool.part(0, nothing))[0], pool.learnt)


# Pools with fewer experts. --------------------------------------------------------------


def pool_of(*weights):
    E, equal = len(weights), np.full(K, 1 / K)
    return Pool(
        np.ones(E), np.zeros(E, dtype=bool), np.array(weights), np.zeros(K), equal, np.ones(E),
        scale=1.0, proportions=equal,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("weights", "kept", "left"),
    [
        ((0.6, 0.4), (True, False), (1.0, 0.0)),
        ((0.3, 0.2), (True, False), (0.5, 0.0)),
        ((0.5, 0.5, 1.0), (True, True, False), (0.5, 0.5, 0.0)),
        ((1.2, 0.3), (True, False), (1.2, 0.0)),
        ((0.5, 0.0, 0.5), (True, True, False), (1.0, 0.0, 0.0)),
        ((0.5, 0.5), (False, False), (0.0, 0.0)),
        ((0.7, 0.2), (True, True), (0.7, 0.2)),
    ],
    ids=str,
)
def test_the_experts_that_are_left_count_for_those_that_are_not(weights, kept, left):
    before = pool_of(*weights)
    found = before.only(np.array(kept))
    np.testing.assert_allclose(found.weights, left)
    np.testing.assert_array_equal(before.weights, weights)
    assert found.scale == before.scale
    held = [np.random.default_rng(e).standard_normal((5, K)) for e in range(len(weights))]
    missing = [own if keep else None for own, keep in zip(held, kept, strict=True)]
    np.testing.assert_array_equal(found.log_proba(missing), found.log_proba(held))


# The class mix of unlabelled nodes. -----------------------------------------------------


def simplex_grid(n_classes, steps):
    """Return mixes in steps of 1/steps, shape (any, K)."""
    if n_classes == 2:
        first = np.arange(steps + 1)
        return np.stack([first, steps - first], axis=1) / steps
    a, b = np.meshgrid(np.arange(steps + 1), np.arange(steps + 1), indexing="ij")
    inside = a + b <= steps
    a, b = a[inside], b[inside]
    return np.stack([a, b, steps - a - b], axis=1) / steps


@pytest.mark.parametrize("per_class", [4, 20, 60])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_mix_is_the_best_of_all_on_the_simplex(n_classes, per_class):
    for seed in range(4):
        rng = np.random.default_rng(seed)
        codes = np.repeat(np.arange(n_classes), per_class)
        proba = softmax(2.0 * np.eye(n_classes)[codes] + rng.standard_normal((len(codes), 1)), 1)
        proba = 0.7 * proba + 0.3 * rng.dirichlet(np.ones(n_classes), len(codes))
        mean, learnt = rng.dirichlet(np.ones(n_classes)), np.full(n_classes, 1 / n_classes)
        found = estimate_mix(proba, codes, mean, learnt)
        assert found.sum() == pytest.approx(1.0)

        means = np.stack([proba[codes == k].mean(axis=0) for k in range(n_classes)])
        ridge = 0.1 * max(1.0, 20.0 / per_class) ** 2
        grid = simplex_grid(n_classes, 400)
        losses = ((grid @ means - mean) ** 2).sum(axis=1)
        losses += ridge * ((grid - learnt) ** 2).sum(axis=1)
        best = np.maximum(grid[losses.argmin()], 0.2 * learnt)
        np.testing.assert_allclose(found, best / best.sum(), atol=0.01)


def test_a_mix_like_that_of_the_labels_is_left_as_it_is():
    codes, scores = draw(600)
    proba, learnt = softmax(scores, axis=1), np.bincount(codes) / 600
    np.testing.assert_allclose(
        estimate_mix(proba, codes, proba.mean(axis=0), learnt), learnt, atol=0.01
    )


def test_a_mix_that_moved_is_found_by_good_probabilities_and_not_by_a_few_labels():
    proba, codes = np.eye(K)[np.arange(90) % K], np.arange(90) % K
    mean, learnt = np.array([0.7, 0.2, 0.1]), np.full(K, 1 / K)
    np.testing.assert_allclose(estimate_mix(proba, codes, mean, learnt), mean, atol=0.05)
    few = estimate_mix(proba[:6], codes[:6], mean, learnt)
    assert np.abs(few - learnt).max() < 0.05


def test_no_class_is_left_without_a_share():
    proba, codes = np.eye(K)[np.arange(300) % K], np.arange(300) % K
    found = estimate_mix(proba, codes, np.array([1.0, 0.0, 0.0]), np.full(K, 1 / K))
    assert found.min() > 0.05
    assert found.argmax() == 0


def test_a_class_without_held_out_labels_is_taken_to_be_recognised():
    proba, codes = np.eye(K)[np.arange(60) % 2], np.arange(60) % 2
    learnt = np.array([0.45, 0.45, 0.1])
    found = estimate_mix(proba, codes, np.array([0.3, 0.3, 0.4]), learnt)
    assert 0.1 < found[2] <= 0.41


def test_a_pool_for_another_mix_counts_labels_by_the_share_of_their_class():
    codes, held = draw_experts(300, noises=(1.0, 1.2))
    judge = Judge.of(codes, K)
    pool = fit_pool(held, [False, False], judge)
    nested = pool.log_proba(held)
    moved = pool.with_proportions(held, nested, judge, np.array([0.7, 0.2, 0.1]))
    assert moved.proportions.argmax() == 0
    assert moved.proportions[0] > pool.learnt[0] + 0.1
    np.testing.assert_array_equal(moved.learnt, pool.learnt)
    np.testing.assert_array_equal(moved.weights, pool.weights)
    # All odds are those of the experts times the change of the proportions.
    odds = moved.log_proba(held) - moved.scale * moved.pooled(held)
    ratio = np.log(moved.proportions / moved.learnt)
    expected = np.broadcast_to(ratio - ratio[0], odds.shape)
    np.testing.assert_allclose(odds - odds[:, :1], expected, atol=1e-9)
    same = pool.with_proportions(held, nested, judge, softmax(nested, axis=1).mean(axis=0))
    np.testing.assert_allclose(same.proportions, pool.learnt, atol=0.02)
