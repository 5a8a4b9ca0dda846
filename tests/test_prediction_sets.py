"""Prediction sets: coverage, wrong labels, too few labels, saved models."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodeproof import NodeClassifier
from nodeproof.conformal import estimate_noise, least_probabilities
from nodeproof.datasets import make_planted
from nodeproof.errors import InputError
from nodeproof.prediction_sets import limits_of

# Weak links and features: sets of one, two and three classes.
DATA = make_planted(3, 150, p=0.05, q=0.03, omega=0.7, label_ratio=0.3, random_state=0)


@pytest.fixture(scope="module")
def fitted():
    return NodeClassifier(random_state=0).fit(DATA.X, DATA.y, graph=DATA.graph)


def draw(rng, n, K, sharpness=1.0):
    """Return probabilities that are right, and classes drawn from them."""
    proba = rng.dirichlet(np.ones(K) / sharpness, n)
    return proba, (proba.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=K - 1)


@given(
    n=st.integers(1, 60),
    coverage=st.floats(0.05, 0.95),
    seed=st.integers(0, 10**6),
    conditional=st.booleans(),
)
@settings(max_examples=200, deadline=None)
def test_of_exchangeable_nodes_exactly_as_many_are_covered_as_asked(n, coverage, seed, conditional):
    # Each of n + 1 nodes takes its turn as the one to predict: that is what exchangeable means.
    # Without ties, at least a share `coverage` of the turns succeeds, and less than 1 / (n + 1)
    # more.
    rng = np.random.default_rng(seed)
    proba = rng.permutation(np.linspace(0.01, 0.99, n + 1))
    proba, codes = np.column_stack([proba, 1 - proba]), np.zeros(n + 1, dtype=np.int64)
    covered = []
    for v in range(n + 1):
        rest = np.arange(n + 1) != v
        least = least_probabilities(
            proba[rest], codes[rest], coverage, class_conditional=conditional
        )
        covered.append(proba[v, 0] >= least[0])
    needed = np.ceil(coverage * (n + 1) - 1e-9)
    assert sum(covered) == needed


@given(seed=st.integers(0, 10**6), K=st.integers(2, 5), n=st.integers(5, 80))
@settings(max_examples=50, deadline=None)
def test_sets_grow_with_the_coverage(seed, K, n):
    rng = np.random.default_rng(seed)
    proba, codes = draw(rng, n, K)
    noise = rng.choice([0.0, 0.2])
    for conditional in (False, True):
        least = [
            least_probabilities(
                proba, codes, c, ratio=rng.permutation(np.ones(K)), noise=noise,
                class_conditional=conditional,
            )
            for c in (0.3, 0.6, 0.8, 0.9, 0.99)
        ]  # fmt: skip
        assert (np.diff(least, axis=0) <= 0).all()


def test_every_class_is_covered_if_asked():
    rng = np.random.default_rng(0)
    proba, codes = draw(rng, 4000, 3)
    # One class is taken for too rare by the probabilities.
    tilted = proba * [1.0, 1.0, 0.3]
    tilted /= tilted.sum(axis=1, keepdims=True)
    cal, test = np.arange(2000), np.arange(2000, 4000)
    covered = {}
    for conditional in (False, True):
        least = least_probabilities(tilted[cal], codes[cal], 0.9, class_conditional=conditional)
        own = tilted[test, codes[test]] >= least[codes[test]]
        covered[conditional] = [own[codes[test] == k].mean() for k in range(3)]
    assert covered[False][2] < 0.85
    assert min(covered[True]) > 0.86


def test_labels_drawn_in_equal_numbers_are_reweighted():
    rng = np.random.default_rng(1)
    proba, codes = draw(rng, 30_000, 3)
    proba = proba * [4.0, 1.0, 1.0]
    proba /= proba.sum(axis=1, keepdims=True)
    # Class 0 is recognised best; it is rare among the labels and frequent among the nodes.
    test = rng.random(len(codes)) < np.where(codes == 0, 0.5, 0.1)
    cal = ~test & (rng.random(len(codes)) < np.where(codes == 0, 0.2, 1.0))
    ratio = np.bincount(codes[test]) / test.sum() / (np.bincount(codes[cal]) / cal.sum())
    least = least_probabilities(proba[cal], codes[cal], 0.9, ratio=ratio)
    assert (proba[test, codes[test]] >= least[codes[test]]).mean() >= 0.89


@pytest.mark.parametrize("K", [2, 4])
def test_wrong_labels_do_not_inflate_sets(K):
    rng = np.random.default_rng(2)
    proba, codes = draw(rng, 8000, K, 4.0)
    cal, test = np.arange(4000), np.arange(4000, 8000)
    told = codes[cal].copy()
    wrong = rng.random(len(cal)) < 0.3
    told[wrong] = (told[wrong] + rng.integers(1, K, wrong.sum())) % K
    noise = estimate_noise(proba[cal], told)
    assert 0.25 < noise < 0.33
    for conditional in (False, True):
        plain, aware = (
            least_probabilities(proba[cal], told, 0.9, noise=share, class_conditional=conditional)
            for share in (0.0, noise)
        )
        covered = (proba[test, codes[test]] >= aware[codes[test]]).mean()
        assert 0.88 < covered < 0.95
        assert (proba[test] >= plain).sum() > 1.2 * (proba[test] >= aware).sum()


def test_right_labels_are_not_taken_for_wrong():
    rng = np.random.default_rng(3)
    proba, codes = draw(rng, 2000, 3, 2.0)
    assert estimate_noise(proba, codes) == 0.0
    assert estimate_noise(proba[:50], codes[::-1][:50]) == 0.0  # too few to tell


def test_unlabelled_nodes_are_covered(fitted):
    hidden = DATA.y < 0
    for coverage in (0.8, 0.9):
        sets = fitted.predict_set(coverage)
        assert sets.dtype == bool
        assert sets.shape == fitted.proba_.shape
        assert abs(sets[hidden, DATA.y_true[hidden]].mean() - coverage) < 0.07
    assert fitted.predict_set(0.5).sum() < fitted.predict_set(0.9).sum()


def test_unassigned_nodes_have_no_or_several_classes(fitted):
    sizes = fitted.predict_set(0.9).sum(axis=1)
    unassigned = fitted.unassigned(0.9)
    assert 0 < unassigned.sum() < len(unassigned)
    assert (unassigned == (sizes != 1)).all()
    single = ~unassigned
    assert (fitted.predict_set(0.9)[single].argmax(axis=1) == fitted.proba_[single].argmax(1)).all()


def test_sets_of_new_nodes(fitted):
    links = DATA.graph[:5].toarray()
    sets = fitted.predict_set(0.9, X=DATA.X[:5], graph=links)
    proba = fitted.predict_proba(DATA.X[:5], graph=links)
    assert (sets == (proba >= limits_of(fitted.fitted_, 0.9).least)).all()


def test_a_loaded_model_has_the_same_sets(fitted, tmp_path):
    for certifiable in (True, False):
        fitted.save(tmp_path / "model.npz", certifiable=certifiable)
        loaded = NodeClassifier.load(tmp_path / "model.npz")
        for conditional in (False, True):
            expected = fitted.predict_set(0.8, class_conditional=conditional)
            assert (loaded.predict_set(0.8, class_conditional=conditional) == expected).all()
        loaded.save(tmp_path / "again.npz")
        again = NodeClassifier.load(tmp_path / "again.npz")
        assert (again.predict_set() == fitted.predict_set()).all()


def test_a_fit_that_makes_no_errors_leaves_no_set_empty():
    data = make_planted(2, 150, random_state=0)
    clf = NodeClassifier(random_state=0).fit(data.X, data.y, graph=data.graph)
    assert not clf.unassigned(0.9).any()


def test_too_few_labels_give_all_classes_and_a_warning():
    y = np.where(np.arange(len(DATA.y)) < 12, DATA.y_true, -1)
    clf = NodeClassifier(random_state=0).fit(DATA.X, y, graph=DATA.graph)
    with pytest.warns(UserWarning, match="needs at least 99 held-out labels"):
        assert clf.predict_set(0.99).all()
    with pytest.warns(UserWarning, match="in every class needs at least 9 held-out"):
        clf.predict_set(0.9, class_conditional=True)


def test_without_held_out_labels_there_are_no_sets(fitted):
    alone = NodeClassifier(2, random_state=0).fit(graph=DATA.graph)
    with pytest.raises(InputError, match="labels that were held out of fits"):
        alone.predict_set()
    hard = replace(fitted.fitted_, settings=replace(fitted.fitted_.settings, temperature=0.0))
    with pytest.raises(InputError, match="temperature=0"):
        limits_of(hard, 0.9)


@pytest.mark.parametrize("coverage", [0, 1, 1.5, -0.1, "0.9", None, float("nan")])
def test_a_coverage_is_between_0_and_1(fitted, coverage):
    with pytest.raises(InputError, match="coverage must be a number between 0 and 1"):
        fitted.predict_set(coverage)


def test_wrong_values_in_a_file_are_refused(fitted, tmp_path):
    fitted.save(tmp_path / "model.npz")
    with np.load(tmp_path / "model.npz") as file:
        arrays = dict(file)
    for name, value in (
        ("held_nodes", np.full_like(arrays["held_nodes"], len(DATA.y))),
        ("held_codes", np.full_like(arrays["held_codes"], 9)),
        ("held_proba", 2 * arrays["held_proba"]),
        ("held_noise", np.array([np.nan])),
    ):
        np.savez(tmp_path / "bad.npz", **arrays | {name: value})
        with pytest.raises(InputError, match="held_"):
            NodeClassifier.load(tmp_path / "bad.npz")


def test_nothing_is_said_where_all_is_well(fitted):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted.predict_set(0.9)
