"""Splitters hide labels: which, how many, and always the same for a seed."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from model_selection_helpers import NAMES
from nodeproof.datasets import Dataset
from nodeproof.errors import InputError
from nodeproof.inputs import encode_labels
from nodeproof.model_selection import LabelKFold, Masks, PerClass, RandomShare, Split


@st.composite
def labels(draw, least=1):
    """Labels of one to four classes, each on at least so many nodes; numbers or names."""
    counts = draw(st.lists(st.integers(least, least + 12), min_size=1, max_size=4))
    unknown = draw(st.integers(0, 5))
    codes = np.repeat(np.arange(-1, len(counts)), [unknown, *counts])
    codes = np.random.default_rng(draw(st.integers(0, 99))).permutation(codes)
    return codes if draw(st.booleans()) else np.where(codes < 0, "", NAMES[codes])


def parts(split):
    return split.train, split.validation, split.test


def assert_sound(splits, y, everyone=True):
    """No node twice, none without a label, and (where asked) none with a label left out."""
    known = np.flatnonzero(encode_labels(y, None).codes >= 0)
    for split in splits:
        together = np.concatenate(parts(split))
        assert len(np.unique(together)) == len(together)
        assert set(together) <= set(known)
        assert not everyone or len(together) == len(known)


def per_class(y, nodes):
    encoded = encode_labels(y, None)
    return np.bincount(encoded.codes[nodes], minlength=len(encoded.classes))


def assert_same(one, other):
    for a, b in zip(one, other, strict=True):
        assert all(map(np.array_equal, parts(a), parts(b)))


@given(labels(least=3), st.integers(1, 2), st.integers(0, 1), st.integers(0, 9))
@settings(max_examples=50, deadline=None)
def test_per_class_gives_exactly_so_many_labels(y, n_train, n_validation, seed):
    cv = PerClass(n_train, n_validation, n_splits=3, random_state=seed)
    splits = list(cv.split(y))
    assert len(splits) == cv.get_n_splits(y) == 3
    assert_sound(splits, y)
    for split in splits:
        assert (per_class(y, split.train) == n_train).all()
        assert (per_class(y, split.validation) == n_validation).all()
    assert_same(splits, cv.split(y))


@given(labels(), st.floats(0.01, 0.6), st.floats(0.0, 0.39), st.integers(0, 9))
@settings(max_examples=50, deadline=None)
def test_random_shares_are_those_of_each_class(y, train, validation, seed):
    cv = RandomShare(train, validation, n_splits=2, random_state=seed)
    splits = list(cv.split(y))
    assert len(splits) == cv.get_n_splits(y) == 2
    assert_sound(splits, y)
    sizes = per_class(y, np.flatnonzero(encode_labels(y, None).codes >= 0))
    for split in splits:
        given_labels = per_class(y, split.train)
        assert (given_labels >= 1).all()
        assert (abs(given_labels - train * sizes)[given_labels > 1] <= 0.5).all()
        kept = per_class(y, split.validation)
        assert (kept <= validation * sizes + 0.5).all()
        assert ((kept >= validation * sizes - 0.5) | (given_labels + kept == sizes)).all()
    assert_same(splits, cv.split(y))


@given(labels(least=1), st.integers(2, 6), st.integers(0, 9))
@settings(max_examples=100, deadline=None)
def test_folds_hide_each_label_once_and_keep_every_class(y, n_splits, seed):
    cv = LabelKFold(n_splits, random_state=seed)
    sizes = per_class(y, np.flatnonzero(encode_labels(y, None).codes >= 0))
    if sizes[sizes > 1].sum() < n_splits:
        with pytest.raises(InputError, match="lower n_splits"):
            list(cv.split(y))
        return
    splits = list(cv.split(y))
    assert len(splits) == cv.get_n_splits(y) == n_splits
    assert_sound(splits, y)
    tested = np.array([per_class(y, split.test) for split in splits])
    assert (tested.sum(axis=0) == np.where(sizes > 1, sizes, 0)).all()
    assert (np.ptp(tested, axis=0) <= 1).all()
    assert np.ptp(tested.sum(axis=1)) <= 1
    assert (sizes - tested >= 1).all()
    assert_same(splits, cv.split(y))


@pytest.mark.parametrize(
    "cv", [PerClass(n_train=3, n_splits=2), RandomShare(n_splits=2), LabelKFold(2)], ids=repr
)
def test_seeds_decide_the_splits(cv):
    y = np.repeat([0, 1], 50)
    first, second = (next(type(cv)(**{**vars(cv), "random_state": k}).split(y)) for k in (1, 2))
    assert not np.array_equal(first.train, second.train)
    if not isinstance(cv, LabelKFold):
        one, two = cv.split(y)
        assert not np.array_equal(one.train, two.train)


def test_a_class_with_too_few_labels_is_named():
    y = ["a"] * 5 + ["b"] * 3 + [""] * 9
    with pytest.raises(InputError, match=r"4 labels per class .*n_train=3.* but class b has 3$"):
        list(PerClass(n_train=3, n_validation=1).split(y))


@pytest.mark.parametrize(
    ("cv", "message"),
    [
        (PerClass(n_train=0), "n_train must be a positive integer"),
        (PerClass(n_train=1, n_validation=-1), "n_validation must be a positive"),
        (PerClass(n_train=1, n_splits=0), "n_splits must be a positive"),
        (RandomShare(train=20), "PerClass takes numbers"),
        (RandomShare(train=0), "above 0"),
        (RandomShare(train=0.5, validation=0.5), "together below 1"),
        (LabelKFold(1), "at least 2"),
        (Masks([0, 1, 1, 0]), "booleans"),
        (Masks([True, False]), "has 2 rows, but y has 4"),
        (Masks(np.ones((4, 2), bool), np.ones((4, 3), bool)), "train has 2, validation has 3"),
        (Masks([True] * 4, test=[False, False, True, False]), "node 2 is both in train and in te"),
    ],
)
def test_what_cannot_be_split_is_said(cv, message):
    with pytest.raises(InputError, match=message):
        list(cv.split([0, 0, 1, 1]))


def test_without_labels_there_is_nothing_to_split():
    with pytest.raises(InputError, match="no label"):
        list(LabelKFold().split([-1, -1]))


def test_given_masks_are_the_splits_without_nodes_that_have_no_label():
    train = np.array([[1, 0], [0, 1], [0, 0], [0, 0], [1, 1]], dtype=bool)
    test = np.array([0, 0, 1, 1, 0], dtype=bool)
    y = [0, 1, 0, -1, -1]
    splits = list(Masks(train, test=test).split(y))
    assert Masks(train, test=test).get_n_splits(y) == 2
    assert [split.train.tolist() for split in splits] == [[0], [1]]
    assert [split.test.tolist() for split in splits] == [[2], [2]]
    assert [split.test.tolist() for split in Masks(train).split(y)] == [[1, 2], [0, 2]]


def test_the_masks_of_a_dataset_are_taken():
    masks = {"train": np.array([True, False, False]), "test": np.array([False, False, True])}
    y = np.array([0, 1, 1])
    for dataset in (SimpleNamespace(masks=masks), Dataset(sp.csr_array((3, 3)), y=y, masks=masks)):
        (split,) = Masks.of(dataset).split(y)
        assert [part.tolist() for part in parts(split)] == [[0], [], [2]]
    with pytest.raises(InputError, match="has no split"):
        Masks.of(SimpleNamespace(masks={}))


@pytest.mark.parametrize(
    ("y", "hidden"),
    [
        ([7, 8, 9], [-1, 8, -1]),
        (np.array([0.0, 2.0, np.nan]), [-1.0, 2.0, -1.0]),
        (np.array([1, 2, 3], dtype=np.uint8), [-1, 2, -1]),
        ([True, False, True], [-1, 0, -1]),
        (np.array(["a", "b", ""]), ["", "b", ""]),
        (["a", "b", None], [None, "b", None]),
        (np.array(["a", "b", None], dtype=object), [None, "b", None]),
    ],
)
def test_only_training_labels_remain(y, hidden):
    split = Split(train=[1], validation=[2], test=[0])
    before = list(y)
    assert split.hide(y).tolist() == hidden
    assert (split.hide(y)[1]) == before[1]
    assert str(list(y)) == str(before)
    assert encode_labels(split.hide(y), None).codes.tolist() == [-1, 0, -1]


@pytest.mark.parametrize(
    ("train", "test", "message"),
    [
        ([0, 1], [1], "node 1 is both in train and in test"),
        ([True, False], [1], "train must be a list of node positions.*Masks"),
        ([-1], [1], "start at 0"),
    ],
)
def test_a_split_that_would_leak_is_refused(train, test, message):
    with pytest.raises(InputError, match=message):
        Split(train, [], test)


def test_a_split_of_other_nodes_is_refused():
    with pytest.raises(InputError, match="node 7, but y has 3"):
        Split([0], [], [7]).hide([0, 1, 1])


def test_what_a_mask_hides_stays_hidden():
    y = np.ma.array([0, 1, 2], mask=[False, True, True])
    assert Split([0, 1], [], [2]).hide(y).tolist() == [0, -1, -1]


def test_numbers_that_cannot_be_hidden_are_refused_as_they_were_given():
    y = np.array([1, 2**63 + 5], dtype=np.uint64)
    with pytest.raises(InputError, match=r"label 9223372036854775813; .* below 2\*\*63"):
        Split([0, 1], [], []).hide(y)
    assert Split([0], [], [1]).hide(y).tolist() == [1, -1]
