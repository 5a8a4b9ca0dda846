"""Evaluation by held-out labels: nested pools, the estimated accuracy, what it may not use."""

from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

from nodeproof.auto import evaluation
from nodeproof.auto.evaluation import Evaluation, Member, _weigh, evaluate
from nodeproof.auto.experts.base import Candidate, Expert, Learnt
from nodeproof.auto.held_out import HeldOut, hold_out
from nodeproof.auto.pooling import Judge, fit_pool
from nodeproof.experts import BlockModel, Features, Links, OwnFeatures, Propagation
from nodeproof.graph import Graph
from nodeproof.terms import NodeData
from nodeproof.terms.logistic import assign_folds
from pool_helpers import make_uneven

K = 3

pytestmark = [pytest.mark.numeric, pytest.mark.usefixtures("one_thread")]


class Told(Expert):
    """An expert that says what it is told to, whatever the labels."""

    name = "told"

    def __init__(self, *logs: np.ndarray) -> None:
        self.logs = logs

    def settings(self):
        return range(len(self.logs))

    def learn(self, y, setting):
        learnt = Learnt()
        learnt.log_proba = self.logs[setting].astype(np.float32)
        return learnt


def held_of(codes, n_folds=5):
    """Return held-out labels at nodes 0, 1, …; what fits see of them does not matter here."""
    folds = assign_folds(codes, n_folds)
    seen = [np.where(folds == fold, -1, codes) for fold in range(n_folds)]
    return HeldOut(np.arange(len(codes)), codes, folds, seen)


def members_of(held, *experts):
    """Return members with one candidate per given array of log-probabilities, (h, K).

    They draw on links and features in turn.
    """
    found = []
    for k, logs in enumerate(experts):
        expert = Told(*logs).bind(NodeData(K, y=held.codes))
        expert.source = ("graph", "features")[k % 2]
        tried = [Candidate.judged(k, own, held, expert) for k, own in enumerate(logs)]
        best = Candidate.best_of(tried, [own.loss for own in tried], len(held.codes))
        found.append(Member(expert, tried, best))
    return found


def draw(n, sure=1.0, shares=(1.0,) * K, seed=0):
    """Return labels and log-probabilities, of which `sure` times would be calibrated.

    Classes have about these shares.
    """
    rng = np.random.default_rng(seed)
    scores = 2.0 * rng.standard_normal((n, K)) + np.log(shares)
    chances = softmax(sure * scores, axis=1)
    codes = (chances.cumsum(axis=1) < rng.random(n)[:, None]).sum(axis=1).clip(max=K - 1)
    return codes, log_softmax(scores, axis=1)


# Pools that have not seen the labels they are judged by. --------------------------------


def nested_of(held, experts):
    """Return what pools say that were chosen without a label's fold, no label taken for wrong."""
    with mock.patch.object(evaluation, "fit_noise", return_value=0.0):
        return _weigh(members_of(held, *experts), {}, held, K).nested


def test_pools_that_judge_a_fold_do_not_depend_on_its_labels():
    codes, first = draw(90)
    second, third = (draw(90, seed=seed)[1] for seed in (1, 2))
    experts = ([first, second, 0.5 * first + second], [third])
    held = held_of(codes)
    before = nested_of(held, experts)
    for fold in range(5):
        here = held.folds == fold
        changed = replace(held, codes=np.where(here, (codes + 1) % K, codes))
        after = nested_of(changed, experts)
        np.testing.assert_array_equal(before[here], after[here])
        assert (before[~here] != after[~here]).any()


def test_the_setting_of_a_fold_is_chosen_by_the_others():
    """One setting is right in one fold alone: there it must not be taken."""
    codes = np.arange(100) % K
    held = held_of(codes)
    here = held.folds == 2
    right, wrong = (log_softmax(4.0 * np.eye(K)[(codes + k) % K], axis=1) for k in (0, 1))
    mostly, once = np.where(here[:, None], wrong, right), np.where(here[:, None], right, wrong)
    nested = nested_of(held, ([mostly, once],))
    labels = nested.argmax(axis=1)
    assert (labels[~here] == codes[~here]).all()
    assert (labels[here] != codes[here]).all()


def test_every_pool_is_that_of_the_other_labels():
    codes, first = draw(60)
    second = draw(60, seed=1)[1]
    held = held_of(codes)
    nested = nested_of(held, ([first], [second]))
    for fold in range(5):
        here = held.folds == fold
        others = Judge.of(codes[~here], K)
        pool = fit_pool([first[~here], second[~here]], [False, False], others)
        np.testing.assert_array_equal(nested[here], pool.log_proba([first[here], second[here]]))


def test_probabilities_that_held_out_labels_get_are_nested():
    codes, first = draw(200)
    held = held_of(codes)
    members = members_of(held, [first])
    found = _weigh(members, {}, held, K)
    assert not found.block_alone
    assert found.noise == 0.0
    np.testing.assert_array_equal(found.nested, nested_of(held, ([first],)))
    np.testing.assert_allclose(found.cross_fitted().proba, np.exp(found.nested), rtol=1e-5)


def test_labels_for_validation_are_split_to_judge_pools():
    """No fit sees them; yet a pool that was weighed by all of them would be judged too well."""
    codes, first = draw(80)
    useless = [draw(80, seed=seed)[1] for seed in range(1, 9)]
    held = HeldOut(np.arange(80), codes, np.zeros(80, dtype=int), [np.full(80, -1)], own=False)
    found = _weigh(members_of(held, [first], *([own] for own in useless)), {}, held, K)
    judge = Judge.of(codes, K)
    plain = found.pool.log_proba([first, *useless])
    assert judge.loss(found.nested) > judge.loss(plain)


def real_nodes(seed=0):
    data = make_uneven(150, K, 0.5, seed)
    return NodeData(K, data.X, data.y, Graph(data.graph))


@pytest.mark.parametrize(
    "expert", [Propagation(), BlockModel(), Links(), Features(), OwnFeatures()], ids=repr
)
def test_labels_that_nothing_predicts_are_not_predicted(expert):
    """Any way from a held-out label to its own prediction would show here."""
    right, gained = [], []
    for seed in range(6):
        nodes = real_nodes(seed)
        rng = np.random.default_rng(seed + 100)
        y = np.where(nodes.y >= 0, rng.integers(0, K, len(nodes.y)), -1)
        found = evaluate([expert], replace(nodes, y=y), hold_out(y))
        judge = Judge.of(found.held.codes, K)
        guess = np.tile(np.log(judge.shares), (len(judge.codes), 1))
        gained.append(judge.loss(guess) - judge.loss(found.nested))
        right.append((found.nested.argmax(axis=1) == judge.codes).mean())
    assert 0.2 < np.mean(right) < 0.43
    assert np.mean(gained) < 0.02


# The accuracy to be expected. -----------------------------------------------------------


def judged(n, sure=1.0, shares=(1.0,) * K, seed=0):
    """Return the evaluation of one expert by n labels, finished as for nodes of the same mix."""
    codes, logs = draw(n, sure, shares, seed)
    return _weigh(members_of(held_of(codes), [logs]), {}, held_of(codes), K), codes, logs


def at_mix_of(found, more):
    """Return an evaluation for nodes whose log-probabilities by the expert are these."""
    plain = np.exp(found.pool.log_proba([more]))
    judge = Judge.of(found.held.codes, K)
    own = [found.members[0].best.logs]
    pool = found.pool.with_proportions(own, found.nested, judge, plain.mean(axis=0))
    return replace(found, pool=pool)


@pytest.mark.any_cpu
@pytest.mark.parametrize(
    "shares", [(1.0, 1.0, 1.0), (8.0, 1.5, 0.5)], ids=["equal classes", "skewed classes"]
)
@pytest.mark.parametrize(
    "sure", [0.3, 1.0, 3.0], ids=["over-confident", "calibrated", "under-confident"]
)
@pytest.mark.parametrize("n", [40, 150])
def test_the_interval_holds_the_accuracy_about_as_often_as_it_says(sure, shares, n):
    covered, estimates, truths = [], [], []
    for seed in range(60):
        found, _, _ = judged(n, sure, shares, seed)
        truth, more = draw(1000, sure, shares, seed + 1000)
        found = at_mix_of(found, more)
        proba = np.exp(found.pool.log_proba([more]))
        estimate, low, high = found.accuracy(proba)
        right = (proba.argmax(axis=1) == truth).mean()
        assert 0.0 <= low <= estimate <= high <= 1.0
        covered.append(low <= right <= high)
        estimates.append(estimate)
        truths.append(right)
    assert np.mean(covered) >= 0.87  # of 60 draws at 95 %
    assert np.mean(estimates) == pytest.approx(np.mean(truths), abs=0.03)


def test_an_accuracy_is_estimated_for_the_mix_of_the_unlabelled_nodes():
    """Labels are as many of each class; nodes are mostly of the class that is hard to tell."""
    covered = []
    for seed in range(40):
        rng = np.random.default_rng(seed)

        def draw_at(mix, n, rng=rng):
            codes = rng.choice(K, n, p=mix)
            clear = np.array([3.0, 3.0, 0.7])[codes][:, None]
            scores = clear * np.eye(K)[codes] + rng.standard_normal((n, K))
            return codes, log_softmax(scores, axis=1)

        codes, logs = draw_at(np.full(K, 1 / K), 120)
        held = held_of(codes)
        found = _weigh(members_of(held, [logs]), {}, held, K)
        truth, more = draw_at([0.2, 0.2, 0.6], 1500)
        found = at_mix_of(found, more)
        proba = np.exp(found.pool.log_proba([more]))
        _, low, high = found.accuracy(proba)
        covered.append(low <= (proba.argmax(axis=1) == truth).mean() <= high)
    assert np.mean(covered) >= 0.85


def test_many_labels_correct_the_confidence():
    found, codes, logs = judged(20_000, 0.3)
    proba = np.exp(at_mix_of(found, logs).pool.log_proba([logs]))
    truth = (logs.argmax(axis=1) == codes).mean()
    assert found.accuracy(proba)[0] == pytest.approx(truth, abs=0.01)


def test_there_is_nothing_to_estimate_where_every_node_has_a_label():
    assert judged(20)[0].accuracy(np.empty((0, K))) is None


def certain(n):
    """Return an evaluation in which n labels were all predicted with confidence."""
    codes = np.arange(n) % K
    held = held_of(codes, min(n, 5))
    return _weigh(members_of(held, [np.log(0.97 * np.eye(K)[codes] + 0.01)]), {}, held, K)


def test_more_labels_make_the_interval_narrower_and_none_certain():
    widths = []
    for n in (6, 60, 600):
        _, low, high = certain(n).accuracy(np.full((10, K), 1 / K))
        widths.append(high - low)
    assert widths[0] > widths[1] > widths[2] > 0.02


def test_a_mix_that_is_not_that_of_the_labels_makes_the_interval_wider():
    """Classes are not recognised equally well, so it matters how many nodes there are of each."""
    codes = np.arange(3000) % K
    logs = log_softmax(3.0 * np.eye(K)[codes], axis=1)
    wrong = (codes == 2) & (np.arange(3000) % 2 == 0)
    logs[wrong] = np.roll(logs[wrong], 1, axis=1)
    held = held_of(codes)
    found = _weigh(members_of(held, [logs]), {}, held, K)
    widths = []
    for mix in ([1 / 3, 1 / 3, 1 / 3], [0.15, 0.15, 0.7]):
        moved = replace(found, pool=replace(found.pool, proportions=np.array(mix)))
        _, low, high = moved.accuracy(np.full((10, K), 1 / K))
        widths.append(high - low)
    # So many labels leave nothing else to be unsure of.
    assert widths[1] > 2.0 * widths[0]


def test_labels_that_are_wrong_are_not_held_against_the_predictions():
    """Two sources tell half of the nodes clearly; three in ten labels contradict them."""
    n = 400
    for seed in range(3):
        rng = np.random.default_rng(seed)
        truth = rng.integers(0, K, n)
        codes = np.where(rng.random(n) < 0.3, (truth + rng.integers(1, K, n)) % K, truth)
        experts = []
        for _ in range(2):
            clear = np.where(rng.random(n) < 0.5, 1.0, 8.0)[:, None]
            scores = clear * np.eye(K)[truth] + rng.standard_normal((n, K))
            experts.append(log_softmax(scores, axis=1))
        held = held_of(codes)
        found = _weigh(members_of(held, *([own] for own in experts)), {}, held, K)
        assert 0.15 < found.noise < 0.45
        proba = np.exp(found.pool.log_proba(experts))
        estimate, low, high = found.accuracy(proba)
        labels = proba.argmax(axis=1)
        assert low < (labels == truth).mean() < high
        assert estimate > (labels == codes).mean() + 0.05


def test_an_evaluation_without_an_expert_that_applies_is_none():
    codes = np.arange(12) % K
    nodes = NodeData(K, y=codes)
    assert evaluate([Propagation(), OwnFeatures()], nodes, held_of(codes)) is None


def test_what_was_left_out_is_stated():
    nodes = real_nodes()
    found = evaluate([Propagation(), OwnFeatures()], replace(nodes, X=None), hold_out(nodes.y))
    assert isinstance(found, Evaluation)
    assert found.left_out == {"own features": "there are no features"}
    assert [member.expert.name for member in found.members] == ["propagation"]
