"""Certificates of pooled fits: which labelling problem they are about, and where there is none."""

import csv
import json
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest
from scipy.special import log_softmax

from cli_helpers import run
from nodeproof import NodeClassifier
from nodeproof.auto.experts.block import BlockModel, Setting
from nodeproof.auto.joint import NOTHING_JOINT
from nodeproof.auto.pooled import Pooled
from nodeproof.certificate.labelling.instance import Instance
from nodeproof.datasets import make_planted
from nodeproof.terms import Covariance, Labels
from pool_helpers import make_uneven

pytestmark = pytest.mark.numeric

EXPERTS = ["propagation", "block model", "own features"]
WEIGHTS = (0.6, 0.5, 0.3)


@contextmanager
def pooling(weights=WEIGHTS, affinities="scalar"):
    """Make fits pool their experts with these weights, whatever held-out labels say."""
    evaluation = import_module("nodeproof.auto.evaluation")
    fit_pool = evaluation.fit_pool

    def fit(*args):
        return replace(fit_pool(*args), weights=np.array(weights))

    def settings(expert):
        return [Setting(expert.choices[0], affinities)]  # with features, where there are any

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluation, "fit_pool", fit)
        patch.setattr(evaluation, "block_is_enough", lambda *_: False)
        patch.setattr(evaluation, "with_wrong_labels", lambda *_: (False, 0.0))
        patch.setattr(BlockModel, "settings", settings)
        patch.setattr(BlockModel, "is_certain", lambda *_: False)
        patch.setattr(evaluation, "_CLEARLY_BEST", -np.inf)
        yield


@pytest.fixture(scope="module")
def data():
    return make_uneven(n=150)


@pytest.fixture(scope="module")
def clf(data):
    """A pool in which links, features and labels count, and those of the block model."""
    with pooling():
        clf = NodeClassifier(experts=EXPERTS, random_state=0)
        clf.fit(data.X, data.y, graph=data.graph)
    assert isinstance(clf.terms_[0], Pooled)
    return clf


def learnt_by(clf, name):
    """Return an expert's weight, scale and what it has learnt."""
    verdict = clf.terms_[0].verdict
    k = verdict.names.index(name)
    return verdict.pool.weights[k], verdict.pool.scales[k], verdict.learnt[k]


def centred(costs):
    return costs - costs.min(axis=1, keepdims=True)


# What is certified. ---------------------------------------------------------------------


def test_links_count_as_often_as_the_pool_counts_the_block_model(clf):
    problem = clf.fitted_.labelling_problem()
    weight, scale, block = learnt_by(clf, "block model")
    counts = clf.terms_[0].verdict.pool.scale * weight * scale
    affinity, graph = block.models.affinity, clf.fitted_.data.problem.graph
    assert problem.w == pytest.approx(0.5 * counts * float(affinity.ell[0, 0]))
    assert problem.wt == pytest.approx(0.5 * counts * float(affinity.ell_t[0, 0]))
    np.testing.assert_array_equal(problem.eta, graph.eta)
    assert (problem.adjacency != graph.adjacency).nnz == 0


def test_nodes_without_a_label_cost_what_each_expert_says_by_itself(clf, data):
    pool = clf.terms_[0].verdict.pool
    expected = -np.log(pool.proportions / pool.learnt) - pool.scale * pool.bias
    for name in ("propagation", "own features"):
        weight, scale, own = learnt_by(clf, name)
        # Both take all classes for equally frequent.
        scores = scale * own.log_proba.astype(float) + np.log(pool.learnt)
        expected = expected - pool.scale * weight * log_softmax(scores, axis=1)
    weight, scale, block = learnt_by(clf, "block model")
    costs = block.terms[0]
    features = costs.term.bind(clf.fitted_.data.nodes).cost(costs.models, 0, len(data.y))
    expected = expected + pool.scale * weight * scale * (features - block.models.log_prior)
    found = clf.fitted_.labelling_problem().costs
    free = data.y < 0
    np.testing.assert_allclose(found[free], centred(expected)[free], rtol=1e-4, atol=1e-4)


def test_a_label_counts_once_and_no_expert_has_seen_it(clf, data):
    fitted = clf.fitted_
    verdict, labels = fitted.terms[0].verdict, fitted.terms[1]
    by_label = labels.cost(fitted.models.terms[1], 0, len(data.y))
    found = fitted.labelling_problem().costs
    np.testing.assert_allclose(found, centred(verdict.joint.costs + by_label), rtol=1e-5, atol=1e-5)
    # Experts that have seen the labels would agree with almost all of them.
    known = data.y >= 0
    blind = (verdict.joint.costs[known].argmin(axis=1) == data.y[known]).mean()
    _, _, own = learnt_by(clf, "own features")
    seen = (own.log_proba[known].argmax(axis=1) == data.y[known]).mean()
    assert blind < seen


def test_an_optimal_labelling_is_no_dearer_than_the_labels(clf, data):
    problem, codes = clf.fitted_.labelling_problem(), clf.fitted_.codes
    best = problem.settle(codes)
    assert problem.value(best) <= problem.value(codes)
    assert (best == data.y_true).mean() > (codes == data.y_true).mean() - 0.05


def test_the_certificate_is_about_that_problem(clf):
    proof = clf.certify(time_budget=0.5)
    assert proof.instance.same_as(clf.fitted_.labelling_problem())
    assert proof.instance.linked
    assert proof.lower_bound <= proof.objective
    assert proof.verify(clf)
    np.testing.assert_array_equal(clf.map_labels_, clf.classes_[proof.labels])


def test_a_pool_of_nothing_but_the_block_model_is_that_model_at_its_weight(data):
    with pooling((0.0, 0.7, 0.0)):
        clf = NodeClassifier(experts=EXPERTS, random_state=0)
        clf.fit(data.X, data.y, graph=data.graph)
    problem = clf.fitted_.labelling_problem()
    weight, scale, block = learnt_by(clf, "block model")
    pool, costs = clf.terms_[0].verdict.pool, block.terms[0]
    features = costs.term.bind(clf.fitted_.data.nodes).cost(costs.models, 0, len(data.y))
    own = pool.scale * weight * scale * (features - block.models.log_prior)
    own = own - pool.scale * pool.bias - np.log(pool.proportions / pool.learnt)
    free = data.y < 0
    np.testing.assert_allclose(problem.costs[free], centred(own)[free], rtol=1e-4, atol=1e-4)


def test_the_order_of_the_nodes_does_not_matter(clf, data):
    order = np.random.default_rng(0).permutation(len(data.y))
    with pooling():
        again = NodeClassifier(experts=EXPERTS, random_state=0)
        again.fit(data.X[order], data.y[order], graph=data.graph[order][:, order])
    problem, other = clf.fitted_.labelling_problem(), again.fitted_.labelling_problem()
    np.testing.assert_allclose(other.costs, problem.costs[order], rtol=1e-3, atol=1e-3)
    z = np.random.default_rng(1).integers(0, 3, len(order))
    assert other.value(z[order]) == pytest.approx(problem.value(z), rel=1e-4)


def test_labels_to_choose_by_are_no_labels_of_the_problem(data):
    known = np.flatnonzero(data.y >= 0)
    y, told = data.y.copy(), known[::3]
    y[told] = -1
    with pooling():
        clf = NodeClassifier(experts=EXPERTS, random_state=0)
        clf.fit(data.X, y, graph=data.graph, validation=(told, data.y[told]))
    verdict = clf.terms_[0].verdict
    found = clf.fitted_.labelling_problem().costs
    np.testing.assert_allclose(
        found[told], centred(verdict.joint.costs[told].astype(float)), atol=1e-5
    )


def test_the_block_model_alone_is_certified_as_ever():
    data = make_planted(3, 40, p=0.5, random_state=0)
    clf = NodeClassifier(random_state=0).fit(data.X, data.y, graph=data.graph)
    assert not isinstance(clf.terms_[0], Pooled)
    fitted = clf.fitted_
    assert fitted.labelling_problem().same_as(Instance.of(fitted.data.problem, fitted.models))


# Where there is nothing to certify. -----------------------------------------------------


@pytest.mark.filterwarnings("ignore:the data do not tell")
@pytest.mark.parametrize("weights", [(0.6, 0.0, 0.3), (1.0, 0.0, 0.0)])
def test_a_pool_without_a_weight_of_links_has_nothing_joint_to_prove(data, weights):
    with pooling(weights):
        clf = NodeClassifier(experts=EXPERTS, random_state=0)
        clf.fit(data.X, data.y, graph=data.graph)
    proof = clf.certify()
    assert (proof.status, proof.reason) == ("not applicable", NOTHING_JOINT)
    assert "nothing joint to prove" in proof.explain()
    np.testing.assert_array_equal(clf.map_labels_, clf.labels_)


def test_without_links_there_is_nothing_joint_to_prove(data):
    with pooling((0.5, 0.5)):
        clf = NodeClassifier(
            experts=[BlockModel([Covariance(intercept=True)]), "own features"], random_state=0
        )
        clf.fit(data.X, data.y)
    assert clf.fitted_.labelling_problem() == NOTHING_JOINT


def test_affinities_of_each_two_classes_are_refused_with_the_reason(data):
    with pooling(affinities="matrix"):
        clf = NodeClassifier(experts=EXPERTS, random_state=0)
        clf.fit(data.X, data.y, graph=data.graph)
    proof = clf.certify()
    assert proof.status == "not applicable"
    assert "one affinity for all classes" in proof.reason


# Saved models. --------------------------------------------------------------------------


@pytest.mark.parametrize("weights", [WEIGHTS, (0.6, 0.0, 0.3)])
def test_a_saved_pool_has_the_same_labelling_problem(data, tmp_path, weights):
    with pooling(weights):
        clf = NodeClassifier(experts=EXPERTS, random_state=0)
        clf.fit(data.X, data.y, graph=data.graph).save(tmp_path / "model.npz")
    again = NodeClassifier.load(tmp_path / "model.npz")
    again.save(tmp_path / "again.npz")
    mine = clf.fitted_.labelling_problem()
    for loaded in (again, NodeClassifier.load(tmp_path / "again.npz")):
        theirs = loaded.fitted_.labelling_problem()
        assert theirs == mine if isinstance(mine, str) else theirs.same_as(mine)
        np.testing.assert_array_equal(loaded.labels_, clf.labels_)


def test_the_command_certifies_a_saved_pool_as_in_memory(clf, data, tmp_path, capsys):
    clf.save(tmp_path / "model.npz")
    code, out, err = run(capsys, "certify", tmp_path, "--time-budget", 0.5, "--json")
    assert code == 0, err
    found, proof = json.loads(out), clf.certify(time_budget=0.5)
    assert found["objective"] == pytest.approx(proof.objective, rel=0.01)
    assert found["status"] != "not applicable"
    with (tmp_path / "certificate.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(data.y)
    code, out, err = run(capsys, "certify", tmp_path, "--verify")
    assert code == 0, err
    assert out.startswith("confirmed")


def test_a_certificate_of_another_pool_is_refused(clf, data):
    proof = clf.certify(time_budget=0.1)
    with pooling((0.6, 0.4, 0.3)):
        other = NodeClassifier(experts=EXPERTS, random_state=0)
        other.fit(data.X, data.y, graph=data.graph)
    assert not proof.verify(other)


def test_terms_that_are_given_have_no_other_problem(data):
    clf = NodeClassifier(terms=[Covariance(), Labels()], random_state=0)
    fitted = clf.fit(data.X, data.y, graph=data.graph).fitted_
    assert all(term.jointly() is None for term in fitted.terms)
    assert fitted.labelling_problem().same_as(Instance.of(fitted.data.problem, fitted.models))
