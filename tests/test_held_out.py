"""Which labels are held out of which fit."""

import numpy as np
import pytest

from nodeproof.auto.held_out import CrossFitted, hold_out


def labels_of(*counts, n=60, seed=0):
    """Return this many labels of each class, at random nodes."""
    codes = np.repeat(np.arange(len(counts)), counts)
    y = np.full(n, -1)
    y[np.random.default_rng(seed).choice(n, len(codes), replace=False)] = codes
    return y


@pytest.mark.parametrize("counts", [(5, 5, 5), (2, 9, 3), (2, 2), (20, 1, 4)])
def test_each_fit_misses_the_labels_of_its_fold_and_no_others(counts):
    y = labels_of(*counts)
    before = y.copy()
    held = hold_out(y)
    assert held.own
    assert len(held.nodes) == len(held.codes) == len(held.folds)
    np.testing.assert_array_equal(held.codes, y[held.nodes])
    assert (np.diff(held.nodes) > 0).all()
    assert set(held.folds.tolist()) <= set(range(len(held.y)))
    for fold, seen in enumerate(held.y):
        hidden = held.nodes[held.folds == fold]
        expected = y.copy()
        expected[hidden] = -1
        np.testing.assert_array_equal(seen, expected)
        # Every class can still be learnt.
        assert set(seen[seen >= 0].tolist()) == set(range(len(counts)))
    np.testing.assert_array_equal(y, before)


def test_every_label_is_held_out_once_except_those_alone_in_their_class():
    y = labels_of(6, 1, 4, 1)
    held = hold_out(y)
    alone = np.flatnonzero((y == 1) | (y == 3))
    assert set(held.nodes) == set(np.flatnonzero(y >= 0)) - set(alone)
    for seen in held.y:
        np.testing.assert_array_equal(seen[alone], y[alone])


@pytest.mark.parametrize("n_folds", [2, 5, 50])
def test_classes_are_spread_evenly_over_the_folds(n_folds):
    held = hold_out(labels_of(10, 13, 7), n_folds=n_folds)
    folds = min(n_folds, 30)
    assert len(held.y) == folds
    for code in range(3):
        counts = np.bincount(held.folds[held.codes == code], minlength=folds)
        assert counts.max() - counts.min() <= 1


@pytest.mark.parametrize("counts", [(1, 1, 1), (7,), (0, 9), (1,)])
def test_too_few_labels_to_hold_any_out_give_nothing(counts):
    assert hold_out(labels_of(*counts)) is None


def test_validation_labels_are_held_out_instead():
    y = labels_of(4, 4)
    nodes, codes = np.flatnonzero(y < 0)[[7, 2, 5]], np.array([1, 0, 1])
    held = hold_out(y, (nodes, codes))
    assert not held.own
    np.testing.assert_array_equal(held.nodes, np.sort(nodes))
    np.testing.assert_array_equal(held.codes, codes[np.argsort(nodes)])
    assert len(held.y) == 1
    np.testing.assert_array_equal(held.y[0], y)
    assert (held.folds == 0).all()


def test_renumbered_nodes_keep_their_labels_and_probabilities():
    proba = np.eye(3, dtype=np.float32)[[1, 2, 0]]
    found = CrossFitted(np.array([2, 5, 9]), np.array([1, 2, 0]), proba, 0.1)
    moved = found.at(np.array([7, 3, 4]))
    np.testing.assert_array_equal(moved.nodes, [3, 4, 7])
    np.testing.assert_array_equal(moved.codes, [2, 0, 1])
    np.testing.assert_array_equal(moved.proba, proba[[1, 2, 0]])
    assert moved.noise == 0.1
