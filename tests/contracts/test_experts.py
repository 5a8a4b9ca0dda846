"""What every expert keeps to. One added to EXPERTS is covered; so is one of ``--own-expert``."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import logsumexp

from nodeproof.auto.experts.guarded import guard, restore
from nodeproof.auto.experts.registry import BUILT_IN, find_expert
from nodeproof.auto.held_out import HeldOut, hold_out
from nodeproof.experts import (
    BlockModel,
    Expert,
    Features,
    Learnt,
    Links,
    NewNodes,
    OwnFeatures,
    Propagation,
    Trees,
)
from nodeproof.graph import Graph
from nodeproof.storage.npz import Header
from nodeproof.storage.schema import check_entries, check_layout
from nodeproof.terms import Covariance, Gaussian, NodeData
from pool_helpers import Neighbours, given_experts, make_uneven

EXPERTS = [
    Propagation(),
    BlockModel(),
    BlockModel([Covariance(intercept=True)]),
    BlockModel([Gaussian()]),
    Links(),
    Features(),
    OwnFeatures(),
    Trees(),
    Neighbours(),
]

K, N, NEW = 3, 300, 20

pytestmark = [pytest.mark.numeric, pytest.mark.usefixtures("one_thread")]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" in metafunc.fixturenames:
        experts = given_experts(metafunc.config) or EXPERTS
        metafunc.parametrize("case", experts, ids=repr, indirect=True, scope="module")


class Case(NamedTuple):
    """An expert as it was given, bound, and what it has learnt."""

    given: Expert
    expert: Expert
    nodes: NodeData
    held: HeldOut
    setting: object
    learnt: Learnt
    new: NewNodes


@cache
def draw_nodes() -> tuple[NodeData, NewNodes]:
    """Return nodes with enough labels for every expert, and others that are linked to them."""
    data = make_uneven(N + NEW, K, labelled=0.7)
    old, new = np.arange(N), np.arange(N, N + NEW)
    graph = Graph(data.graph[old][:, old])
    nodes = NodeData(K, data.X[old], data.y[old], graph)
    links, among = data.graph[new][:, old] / graph.unit, data.graph[new][:, new] / graph.unit
    return nodes, NewNodes(data.X[new], sp.csr_array(links), sp.csr_array(among))


@pytest.fixture(scope="module")
def case(request: pytest.FixtureRequest) -> Case:
    expert, (nodes, new) = request.param, draw_nodes()
    assert expert.why_not(nodes) is None
    bound = guard(expert).bind(nodes)
    held = hold_out(nodes.y)
    tried = bound.candidates(held)
    setting = min(tried, key=lambda candidate: candidate.loss).setting
    return Case(expert, bound, nodes, held, setting, bound.learn(nodes.y, setting), new)


def assert_log_probabilities(logs: np.ndarray, n: int) -> None:
    assert logs.shape == (n, K)
    assert np.isfinite(logs).all()
    np.testing.assert_allclose(logsumexp(logs.astype(float), axis=1), 0.0, atol=1e-3)


def test_every_expert_is_here_and_can_be_named():
    assert {type(expert) for expert in EXPERTS} >= set(BUILT_IN)
    for expert in EXPERTS:
        assert find_expert(expert.name) is type(expert)
        assert expert.source in ("graph", "features")


def test_it_returns_log_probabilities_of_all_nodes(case):
    assert_log_probabilities(case.learnt.log_proba, N)
    assert case.learnt.log_proba.dtype == np.float32
    assert isinstance(case.expert.describe(case.setting), str)


def test_it_tells_the_class_better_than_a_guess(case):
    z, unknown = make_uneven(N + NEW, K, labelled=0.7).y_true[:N], case.nodes.y < 0
    assert (case.learnt.log_proba.argmax(axis=1) == z)[unknown].mean() > 0.4


def test_what_it_is_bound_to_stays_as_it_was(case):
    before = dict(vars(case.given))
    assert case.given.bind(replace(case.nodes)) is not case.given
    assert vars(case.given).keys() == before.keys()
    assert all(vars(case.given)[name] is value for name, value in before.items())


def test_every_candidate_predicts_all_held_out_nodes(case):
    for candidate in case.expert.candidates(case.held):
        assert candidate.logs.shape == (len(case.held.nodes), K)
        assert np.isfinite(candidate.logs).all()
        assert 0 < candidate.loss < 2 * np.log(K)


def test_it_never_depends_on_labels_that_it_does_not_see(case):
    hidden = case.held.y[0]
    changed = np.where(hidden >= 0, hidden, (case.nodes.y + 1) % K)
    assert (changed != case.nodes.y).any()
    other = guard(case.given).bind(replace(case.nodes, y=changed))
    here, there = (expert.learn(hidden, case.setting) for expert in (case.expert, other))
    np.testing.assert_array_equal(here.log_proba, there.log_proba)


def test_a_held_out_node_never_sees_its_own_label(case):
    held, fold = case.held, case.held.folds == 0
    others = [y.copy() for y in held.y]
    for y in others[1:]:
        seen = held.nodes[fold & (y[held.nodes] >= 0)]
        y[seen] = (y[seen] + 1) % K
    codes = np.where(fold, (held.codes + 1) % K, held.codes)
    forged = replace(held, y=others, codes=codes)
    before = case.expert.held_out(held, case.setting)
    after = case.expert.held_out(forged, case.setting)
    np.testing.assert_array_equal(before[fold], after[fold])
    assert (before[~fold] != after[~fold]).any()


def test_the_same_labels_give_the_same_bits(case):
    again = case.expert.learn(case.nodes.y.copy(), case.setting)
    np.testing.assert_array_equal(again.log_proba, case.learnt.log_proba)


def test_new_nodes_are_judged(case):
    judged = case.learnt.judge(case.new)
    if judged is None:
        pytest.skip("it cannot judge new nodes")
    assert_log_probabilities(judged, NEW)
    apart = sp.csr_array((NEW, N)), sp.csr_array((NEW, NEW))
    assert_log_probabilities(case.learnt.judge(NewNodes(case.new.X, *apart)), NEW)
    if not case.learnt.needs_features:
        bare = NewNodes(None, case.new.links, case.new.among)
        np.testing.assert_array_equal(case.learnt.judge(bare), judged)


def test_reordered_nodes_keep_what_was_learnt(case):
    position = np.random.default_rng(0).permutation(N)
    moved = case.learnt.reordered(position)
    np.testing.assert_array_equal(moved.log_proba, case.learnt.log_proba[position])
    judged = case.learnt.judge(case.new)
    if judged is not None:
        new = replace(case.new, links=sp.csr_array(case.new.links[:, position]))
        np.testing.assert_allclose(moved.judge(new), judged, atol=1e-3)


def test_saved_parts_judge_with_the_same_bits(case, tmp_path):
    settings, arrays = case.learnt.to_parts()
    settings = json.loads(json.dumps(settings))
    np.savez(tmp_path / "parts.npz", **arrays)
    with np.load(tmp_path / "parts.npz", allow_pickle=False) as file:
        arrays = dict(file)
    kind = type(case.given)
    check_entries(settings, kind.kept_settings)
    headers = {name: Header(array.shape, array.dtype, 0) for name, array in arrays.items()}
    layout = kind.kept_layout(settings)
    own = {
        name: replace(expected, shapes=expected.shapes.format(0))
        for name, expected in layout.items()
    }
    check_layout(headers, own, n=N, K=K, m=case.nodes.X.shape[1])
    infinite = {name for name, expected in layout.items() if expected.infinite}
    for name in set(arrays) - infinite:
        assert np.isfinite(arrays[name]).all(), name
    judged = case.learnt.judge(case.new)
    restored = restore(kind, case.expert.source, settings, arrays)
    if restored is None:
        assert judged is None
    else:
        np.testing.assert_array_equal(restored.judge(case.new), judged)
        assert restored.needs_features == case.learnt.needs_features
