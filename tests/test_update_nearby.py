"""Updates that solve only what is near a change, beside sweeps over all nodes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from nodeproof import NodeClassifier
from nodeproof.datasets import make_planted
from nodeproof.graph import Graph
from nodeproof.inputs.new_links import NewLinks
from nodeproof.rewiring import Pairs, rewire
from nodeproof.solvers import BlockCADO
from nodeproof.solvers.sums import entropy
from nodeproof.terms import Covariance, Labels

pytestmark = pytest.mark.numeric

SIZE = 400


@pytest.fixture(scope="module")
def data():
    return make_planted(4, SIZE, p=0.02, q=0.002, label_ratio=0.3, random_state=0)


def fit(data, features=True, **options):
    """Return a fitted classifier that updates can be local of."""
    terms = [Covariance(), Labels()] if features else [Labels()]
    clf = NodeClassifier(terms=terms, weights="calibrated", random_state=0, **options)
    return clf.fit(data.X if features else None, data.y, graph=data.graph)


@pytest.fixture(scope="module", params=[True, False], ids=["features", "links alone"])
def fitted(request, data):
    return fit(data, request.param)


def swept(fitted):
    """Return the same model, as one that knows no sums: its updates sweep over all nodes."""
    return replace(fitted, data=replace(fitted.data, sums=None, memberships=None))


def shown(fitted, **options):
    clf = NodeClassifier(random_state=0, **options)
    clf._show(fitted)
    return clf


def some_links(data):
    links = sp.triu(data.graph).tocoo()
    return [[int(u), int(v)] for u, v in zip(links.row[:6], links.col[:6], strict=True)]


def changes_of(data):
    """Return several kinds of changes."""
    known, rest = np.flatnonzero(data.y >= 0), np.flatnonzero(data.y < 0)
    return {
        "labels": {"y": {int(v): int(data.y_true[v]) for v in rest[:4]}},
        "corrected labels": {"y": {int(v): int(data.y[v] + 1) % 4 for v in known[:3]}},
        "removed labels": {"y": {int(v): None for v in known[:4]}},
        "added links": {"add": [[0, SIZE + 3], [5, 2 * SIZE], [7, 9]]},
        "removed links": {"remove": some_links(data)},
        "both": {"add": [[0, SIZE + 3]], "remove": some_links(data)[:3]},
    }


@pytest.mark.parametrize(
    "kind",
    ["labels", "corrected labels", "removed labels", "added links", "removed links", "both"],
)
def test_it_ends_where_sweeps_over_all_nodes_do(data, fitted, kind):
    change = changes_of(data)[kind]
    near, far = (
        shown(fitted.fitted_).update(**change),
        shown(swept(fitted.fitted_)).update(**change),
    )
    said = near.choices_["update"]["value"]
    assert said["solved"] < len(data.y) / 2
    assert far.choices_["update"]["value"]["solved"] == len(data.y)
    assert np.abs(near.proba_ - far.proba_).max(axis=1).mean() <= 1e-3
    assert (near.labels_ == far.labels_).mean() >= 0.999
    assert near.objective_ == pytest.approx(far.objective_, rel=1e-5)


def test_new_nodes_end_where_sweeps_over_all_nodes_put_them(data):
    n = len(data.y) - 8
    terms = [Covariance(), Labels()]
    order = np.random.default_rng(0).permutation(len(data.y))
    A, X, y = sp.csr_array(data.graph)[order][:, order], data.X[order], data.y[order]
    clf = NodeClassifier(terms=terms, weights="calibrated", random_state=0)
    fitted = clf.fit(X[:n], y[:n], graph=A[:n][:, :n]).fitted_
    near, far = (
        shown(model).update(X[n:], y[n:], graph=A[n:]) for model in (fitted, swept(fitted))
    )
    assert near.choices_["update"]["value"]["solved"] < n / 2
    assert np.abs(near.proba_ - far.proba_).max(axis=1).mean() <= 1e-3
    assert near.objective_ == pytest.approx(far.objective_, rel=1e-5)


@pytest.mark.parametrize("affinities", ["scalar", "matrix"])
def test_sums_and_objective_are_those_of_the_memberships_after_many_updates(affinities):
    data = make_planted(4, SIZE, p=0.015, q=0.005, omega=0.2, label_ratio=0.3, random_state=0)
    solver = BlockCADO(affinities=affinities, random_state=0)
    clf = shown(fit(data, solver=solver).fitted_)
    assert clf.fitted_.data.sums.links.shape == ((1, 1) if affinities == "scalar" else (4, 4))
    before = clf.fitted_.data.sums.entropy
    rng = np.random.default_rng(0)
    for _ in range(6):
        pairs = rng.choice(len(data.y), size=(2, 2), replace=False).tolist()
        node = int(rng.integers(len(data.y)))
        clf.update(y={node: int(data.y_true[node])}, add=pairs)
    kept = clf.fitted_.data
    W = clf.proba_ if kept.memberships is None else kept.memberships
    problem, sums = kept.problem, kept.sums
    matrix = affinities == "matrix"
    models, value = problem.fit_and_judge(W.astype(np.float64), matrix=matrix)
    assert clf.objective_ == pytest.approx(value, rel=1e-6)
    assert sums.entropy == pytest.approx(entropy(W), abs=1e-3)
    assert abs(sums.entropy - before) > 1e-2
    np.testing.assert_allclose(sums.rows.sizes, W.sum(axis=0, dtype=np.float64), rtol=1e-6)
    mass = problem.graph.link_mass(W, matrix)
    np.testing.assert_allclose(sums.links, mass, rtol=1e-6)
    np.testing.assert_allclose(
        clf.fitted_.models.affinity.ell, models.affinity.ell, rtol=1e-5, atol=1e-8
    )


def test_a_change_that_reaches_far_is_swept_over_all_nodes(data, fitted):
    everyone = {int(v): int(data.y_true[v]) for v in range(len(data.y))}
    with pytest.warns(UserWarning, match="fit again"):
        clf = shown(fitted.fitted_).update(y=everyone)
    assert clf.choices_["update"]["value"]["solved"] == len(data.y)


def test_all_nodes_are_swept_over_where_those_left_out_would_move_by_more_than_allowed(data):
    fitted = fit(data).fitted_
    strict = replace(fitted, settings=replace(fitted.settings, tol=1e-15))
    clf = shown(strict).update(add=[[0, SIZE + 3]])
    assert clf.choices_["update"]["value"]["solved"] == len(data.y)


def test_what_was_left_out_is_said(data, fitted):
    clf = shown(fitted.fitted_).update(add=[[0, SIZE + 3]])
    said = clf.choices_["update"]
    assert 0 <= said["value"]["left_out"] <= 1e-3
    assert "all others by at most" in said["why"]


@pytest.mark.parametrize("change", ["labels", "both"])
def test_the_number_of_threads_changes_no_bit(data, fitted, change):
    """Nor does saving the model in between."""
    given, found = changes_of(data)[change], []
    for n_jobs in (1, 2):
        model = replace(fitted.fitted_, settings=replace(fitted.fitted_.settings, n_jobs=n_jobs))
        found.append(shown(model).update(**given))
    assert (found[0].proba_ == found[1].proba_).all()
    assert found[0].objective_ == found[1].objective_


def test_a_loaded_model_goes_on_to_the_same_bits_after_an_update(data, fitted, tmp_path):
    clf = shown(fitted.fitted_).update(add=[[0, SIZE + 3]])
    clf.save(tmp_path / "model.npz")
    loaded = NodeClassifier.load(tmp_path / "model.npz")
    for model in (clf, loaded):
        model.update(y={1: 2}, remove=[[0, SIZE + 3]])
    assert (clf.proba_ == loaded.proba_).all()
    assert clf.objective_ == loaded.objective_


@pytest.mark.parametrize("weighted", [False, True])
def test_links_are_merged_as_a_matrix_would_be(weighted):
    rng = np.random.default_rng(0)
    upper = np.triu(rng.random((30, 30)) < 0.3, 1) * (
        rng.integers(2, 9, (30, 30)) if weighted else 1
    )
    A = (upper + upper.T).astype(float)
    u, v = np.nonzero(np.triu(A))
    gone, heavier = slice(0, 5), slice(5, 8)
    free = np.argwhere(np.triu(A == 0, 1))[:4]
    weight = 3.0 if weighted else 1.0
    first = np.concatenate([u[heavier], free[:, 0], [30]])
    second = np.concatenate([v[heavier], free[:, 1], [4]])
    add = Pairs(first, second, np.full(len(first), weight))
    none = np.ones(5)
    new = NewLinks(sp.csr_array(([weight], ([1], [7])), shape=(2, 30)), sp.csr_array((2, 2)))
    moved = rewire(Graph(A), new, add, Pairs(u[gone], v[gone], none))
    wanted = np.zeros((32, 32))
    wanted[:30, :30] = A
    for a, b in [*zip(first, second, strict=True), (31, 7)]:
        wanted[a, b] = wanted[b, a] = weight
    wanted[u[gone], v[gone]] = wanted[v[gone], u[gone]] = 0.0
    graph, steps = moved.graph, moved.steps
    np.testing.assert_array_equal(graph.adjacency.toarray(), wanted)
    assert graph.adjacency.has_sorted_indices
    np.testing.assert_allclose(graph.degrees, wanted.sum(axis=1))
    before = np.zeros((32, 32))
    before[:30, :30] = A
    np.add.at(before, (steps.rows, steps.columns), steps.weights)
    np.testing.assert_allclose(before, wanted)


def test_messages_follow_the_links_through_several_updates(data):
    """Where each link is as its far end sees it is found anew."""
    clf = shown(fit(data).fitted_)
    for _ in range(2):
        clf.update(add=[[0, SIZE + 3], [5, 2 * SIZE]])
        clf.update(remove=[[0, SIZE + 3], [5, 2 * SIZE]])
    again = fit(data)
    assert (clf.labels_ == again.labels_).all()
    assert np.abs(clf.proba_ - again.proba_).max(axis=1).mean() <= 2e-3


def test_labels_are_the_most_probable_classes_after_an_update(data, fitted):
    n = len(data.y)
    clf = shown(fitted.fitted_)
    X = data.X[:2] if clf.fitted_.n_features else None
    clf.update(X, graph=[[0, 5], [1, n]], add=[[0, SIZE + 3]])
    assert (clf.labels_ == clf.classes_[clf.proba_.argmax(axis=1)]).all()
    assert len(clf.labels_) == n + 2
