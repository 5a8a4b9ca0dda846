"""`theory.check`: what is measured, computed again in plain NumPy, and what is said about it."""

from __future__ import annotations

import os
import re
from itertools import combinations

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog

from nodeproof import Problem
from nodeproof.datasets import load, make_planted
from nodeproof.errors import InputError
from nodeproof.graph import Graph
from nodeproof.paper import theory
from nodeproof.paper.theory import verdicts
from nodeproof.terms import Labels, NodeData

pytestmark = [pytest.mark.numeric, pytest.mark.usefixtures("one_thread")]


@pytest.fixture(scope="module")
def ideal():
    return make_planted(3, cluster_size=60, p=0.95, q=0.05, label_ratio=1.0, random_state=0)


@pytest.fixture(scope="module")
def usual():
    """The paper's default data."""
    return make_planted(random_state=0)


@pytest.fixture(scope="module")
def sparse():
    """Dense enough for some threshold, but not for 1/2."""
    return make_planted(2, cluster_size=300, p=0.4, q=0.05, random_state=0)


def between(text: str) -> tuple[float, float]:
    """Return the two numbers of "between … and …"."""
    found = re.search(r"between ([\d.,]+) and ([\d.,]*\d)", text)
    assert found, text
    return tuple(float(part.replace(",", "")) for part in found.groups())


# The quantities, independently. -----------------------------------------------------------


def plain_links(A, z):
    """Return δ, ρ⁺, visibility and the three norms from the definitions, pair by pair."""
    n, K = len(z), z.max() + 1
    sizes = [sum(1 for k in z if k == i) for i in range(K)]
    wrong = np.zeros((n, K))
    for v in range(n):
        for u in range(n):
            same = z[u] == z[v]
            if same != bool(A[u, v]):  # counts v itself, as n_j − n_vj does
                wrong[v, z[u]] += 1
    rho_plus = np.zeros((K, K))
    for v in range(n):
        for j in range(K):
            rho_plus[z[v], j] += wrong[v, j] / (sizes[z[v]] * sizes[j])
    delta = max(abs(wrong[v, j] / sizes[j] - rho_plus[z[v], j]) for v in range(n) for j in range(K))
    centred = A.astype(float)
    for i in range(K):
        for j in range(K):
            block = np.ix_(z == i, z == j)
            centred[block] -= A[block].sum() / (sizes[i] * sizes[j])
    norms = [
        [np.sqrt(np.linalg.eigvalsh(block @ block.T).max()) for block in blocks]
        for blocks in zip(
            *(
                (
                    centred[z == i][:, z == i],
                    centred[z != i][:, z != i],
                    centred[z == i][:, z != i],
                )
                for i in range(K)
            ),
            strict=True,
        )
    ]
    return delta, rho_plus, 0.5 - delta - rho_plus.max(), norms


@pytest.mark.parametrize("seed", range(3))
def test_link_quantities_are_those_of_the_definitions(seed):
    data = make_planted(3, cluster_size=[7, 9, 12], p=0.8, q=0.2, random_state=seed)
    found = theory.check(data.graph, y=data.y_true).assumptions.links
    delta, rho_plus, visibility, norms = plain_links(data.graph.toarray(), data.y_true)
    assert found.delta == pytest.approx(delta)
    assert found.visibility == pytest.approx(visibility)
    np.testing.assert_allclose(found.rho_plus, rho_plus)
    measured = found.norms_inside, found.norms_outside, found.norms_between
    np.testing.assert_allclose(measured, norms, rtol=1e-6)


def plain_gradients(X, y, models, weights):
    """Return ∇f_v(θ_v), shape (n, d): of f_feature and −π_y, weighted, by the paper's formulas."""
    n, m = X.shape
    K = len(models[0]) - m * m
    share = np.array(weights) / sum(weights)
    gradients = np.zeros((n, m * m + K))
    for v in range(n):
        inverse = np.linalg.inv(models[v, : m * m].reshape(m, m))
        moved = inverse @ X[v]
        gradients[v, : m * m] = share[0] * (np.eye(m) - np.outer(moved, moved)).ravel() / m
        if y[v] >= 0:
            gradients[v, m * m + y[v]] = -share[1]
    return gradients


@pytest.mark.parametrize("gamma", [0.0, 0.05])
def test_variability_is_that_of_the_papers_losses(gamma):
    data = make_planted(3, cluster_size=15, p=0.9, q=0.1, n_features=2, n_noise=1, random_state=1)
    weights = (1.0, 2.5, 13.0)
    found = theory.check(
        data.graph, data.X, data.y_true, labels=data.y, weights=weights, gamma=gamma
    )
    a, z = found.assumptions.models, data.y_true
    assert (a.mu, a.gamma) == (15.5, pytest.approx(gamma))
    gradients = plain_gradients(data.X, data.y, a.centroids[z], weights[1:])
    for i in range(3):
        own = gradients[z == i]
        largest = max(np.linalg.norm(one - other) for one in own for other in own)
        assert a.rho_classes[i] == pytest.approx(largest, rel=1e-6)
        normal = own.mean(axis=0)
        for j in range(3):
            if j != i:
                apart = a.centroids[i] - a.centroids[j]
                normal = normal + gamma / 3 * apart / np.linalg.norm(apart)
        np.testing.assert_allclose(a.normals[i], normal, atol=1e-7)


def test_separability_is_the_best_of_a_linear_program_and_of_a_fine_grid():
    """R of labels alone: the least second smallest ⟨n_i, π − π̂_i⟩ over the simplex."""
    data = make_planted(3, cluster_size=20, p=0.9, q=0.1, label_ratio=0.5, random_state=0)
    z, y = data.y_true, data.y
    found = theory.check(y=z, labels=y, gamma=0.0).assumptions.models
    # Without a sum of norms each class is at its most frequent label.
    shares = np.array([[np.mean(y[z == i] == k) for k in range(3)] for i in range(3)])
    np.testing.assert_array_equal(found.centroids, np.eye(3)[shares.argmax(axis=1)])
    rises = np.array([shares[i, i] - shares[i] for i in range(3)])  # at the vertices
    programs = []
    for i, j in combinations(range(3), 2):
        solved = linprog(
            [0, 0, 0, 1],
            A_ub=np.hstack([rises[[i, j]], -np.ones((2, 1))]),
            b_ub=[0, 0],
            A_eq=[[1, 1, 1, 0]],
            b_eq=[1],
            bounds=[(0, None)] * 3 + [(None, None)],
        )
        programs.append(solved.fun)
    np.testing.assert_allclose(found.R, min(programs), atol=1e-7)
    steps = np.arange(201)
    grid = np.array([(a, b, 200 - a - b) for a in steps for b in steps[: 201 - a]]) / 200
    second = np.sort(grid @ rises.T, axis=1)[:, 1]
    assert found.R - 1e-9 <= second.min() <= found.R + 0.01


def test_cora_is_measured_and_far_from_covered():
    if not os.environ.get("NODEPROOF_DATA"):
        pytest.skip("set NODEPROOF_DATA to a folder with the data sets")
    data = load("cora", folder=os.environ["NODEPROOF_DATA"])
    A, z = data.graph.toarray() > 0, np.asarray(data.y)
    found = theory.check(data.graph, data.X, z)
    links = found.assumptions.links
    sizes = np.bincount(z)
    to = np.array([A[:, z == j].sum(axis=1) for j in range(7)]).T
    wrong = np.where(z[:, None] == np.arange(7), sizes - to, to) / sizes
    rho_plus = np.array([wrong[z == i].mean(axis=0) for i in range(7)])
    delta = np.abs(wrong - rho_plus[z]).max()
    np.testing.assert_allclose(links.rho_plus, rho_plus)
    assert links.delta == pytest.approx(delta)
    assert links.visibility == pytest.approx(0.5 - delta - rho_plus.max())
    for i in range(7):
        own = A[z == i][:, z == i].astype(float)
        norm = np.abs(np.linalg.eigvalsh(own - own.mean())).max()
        assert links.norms_inside[i] == pytest.approx(norm, rel=1e-3)
    text = str(found)
    assert "2,708 nodes in 7 classes of 180 to 818 nodes" in text
    assert "X has 1,433 features" in text
    assert not any(verdict.claimed or verdict.promised for verdict in found.theorem)
    assert_readable(text)


# What is said. ----------------------------------------------------------------------------


def assert_readable(text: str) -> None:
    """No arrays, no numbers that are none, no −0, and every line a sentence."""
    assert not re.search(r"[−-]0(?![.\d])", text)
    assert not re.search(r"\bnan\b|\binf\b|array|\[|\]|\be[+-]\d", text)
    assert all(line.rstrip().endswith(".") for line in text.splitlines())


def test_ideal_data_are_covered(ideal):
    found = theory.check(ideal.graph, y=ideal.y_true, labels=ideal.y)
    assert all(verdict.claimed and verdict.promised for verdict in found.theorem)
    assert "regime of few large classes" in found.sentences[0]
    assert "the corrected conditions prove it" in str(found)
    assert "fail" not in str(found)
    assert_readable(str(found))


def test_default_data_are_not_and_what_is_missing_is_said(usual):
    found = theory.check(usual.graph, usual.X, usual.y_true, labels=usual.y)
    text = str(found)
    assert not any(verdict.claimed or verdict.promised for verdict in found.theorem)
    links = found.assumptions.links
    i = int(np.diag(links.rho_plus).argmax())
    rise = f"rise from {links.density[i, i]:.3g} to above {0.5 + links.delta:.3g}"
    assert f"the density within class {i} would have to {rise}" in text
    assert "gradients within class" in text
    assert "no threshold alone would do" in text
    assert_readable(text)


def test_a_suggested_threshold_works_at_both_of_its_ends(sparse):
    found = theory.check(sparse.graph, y=sparse.y_true)
    assert not found.theorem.graph.promised
    assert "the threshold t be set to between" in str(found)
    lo, hi = between(str(found))
    assert lo < hi < 0.4
    for t, promised in ((lo + 1e-3, True), (hi - 1e-3, True), (lo - 5e-3, False), (0.4, False)):
        again = theory.check(sparse.graph, y=sparse.y_true, threshold=t)
        assert again.theorem.graph.promised == promised


def test_a_threshold_that_is_too_low_is_said_to_be(sparse):
    text = str(theory.check(sparse.graph, y=sparse.y_true, threshold=0.06))
    assert "density of links between classes 0 and 1 is too large" in text
    assert "would have to fall from 0.05" in text


def test_a_suggested_size_of_classes_is_about_right():
    sizes = {}
    for size in (20, 100):
        data = make_planted(2, cluster_size=size, p=0.6, q=0.1, random_state=0)
        text = str(theory.check(data.graph, y=data.y_true))
        if "instead of" in text:
            sizes[size] = int(re.search(r"about ([\d,]+) nodes instead", text)[1].replace(",", ""))
    assert 20 in sizes  # too small for any threshold
    large = make_planted(2, cluster_size=2 * sizes[20], p=0.6, q=0.1, random_state=0)
    found = theory.check(large.graph, y=large.y_true)
    lo, hi = (0.5, 0.5) if found.theorem.graph.promised else between(str(found))
    again = theory.check(large.graph, y=large.y_true, threshold=(lo + hi) / 2)
    assert again.theorem.graph.promised


def test_a_suggested_weight_of_the_sum_of_norms_works():
    rng = np.random.default_rng(0)
    z = np.repeat([0, 1], 30)
    signs = rng.choice([-1.0, 1.0], size=(60, 1))
    X = signs * np.eye(2)[z] + 0.001 * rng.normal(size=(60, 2))
    found = theory.check(None, X, z, labels=z, gamma=0.0)
    assert not found.theorem.nodes.claimed
    gamma = float(re.search(r"sum of norms, γ ≥ ([\d.]+) instead of 0, would do", str(found))[1])
    again = theory.check(None, X, z, labels=z, gamma=1.01 * gamma)
    assert again.theorem.nodes.claimed
    assert again.theorem.nodes.promised


def test_a_suggested_weight_of_the_node_data_is_of_the_right_order(ideal):
    light = theory.check(ideal.graph, y=ideal.y_true, labels=ideal.y, weights=(1, 0, 1e-3))
    assert light.theorem.combined.failing("printed") == [verdicts.WEIGHED]
    lo, hi = between(str(light))
    for weight, claimed in ((1.01 * lo, True), (0.99 * hi, True), (0.9 * lo, False)):
        again = theory.check(ideal.graph, y=ideal.y_true, labels=ideal.y, weights=(1, 0, weight))
        assert again.theorem.combined.claimed == claimed


def cliques(sizes):
    z = np.repeat(np.arange(len(sizes)), sizes)
    return sp.csr_array((z[:, None] == z) & ~np.eye(len(z), dtype=bool), dtype=float), z


def test_the_other_printed_conditions_are_named_where_they_fail():
    A, z = cliques([200, 15])
    text = str(theory.check(A, y=z))
    assert "class 0 has 200 nodes and class 1 15" in text
    assert "the smallest class would need at least 20 nodes" in text
    A, z = cliques([6] * 30)
    text = str(theory.check(A, y=z))
    assert "regime of many small classes" in text
    assert "every class would need at least 14 nodes" in text
    two_sided = np.kron(np.eye(2), np.kron(1 - np.eye(2), np.ones((40, 40))))
    z = np.repeat([0, 1], 80)
    found = theory.check(two_sided, y=z)
    assert verdicts.QUIET in found.theorem.graph.failing("printed")
    assert found.assumptions.links.ratios[0] == pytest.approx(40 / np.sqrt(80))


def test_separability_that_is_missing_is_said(usual):
    text = str(theory.check(None, usual.X, usual.y_true))
    assert "R is 0" in text
    assert "labels of some nodes" in text
    merged = theory.check(None, usual.X, usual.y_true, labels=usual.y, gamma=50.0)
    assert "have the same biased centroid" in str(merged)
    assert "a smaller weight γ" in str(merged)
    assert_readable(str(merged))


# The verdicts. ----------------------------------------------------------------------------


def test_the_printed_theorem_asks_for_strict_visibility():
    A, z = np.array([[0.0, 1.0], [1.0, 0.0]]), np.zeros(2, dtype=int)
    found = theory.check(A, y=z)
    assert found.assumptions.links.visibility == 0.0
    assert verdicts.VISIBLE in found.theorem.graph.failing("printed")
    assert not found.theorem.graph.claimed


def test_the_printed_theorem_asks_for_classes_of_one_order():
    labels = {}
    for small in (8, 6):  # 10 or more times as many nodes in the other class
        A, z = cliques([75, small])
        term = Labels().bind(NodeData(2, y=z))
        problem = Problem(Graph(A, "uniform"), [term], 2, (1.0, 0.0, 9.0))
        labels[small] = theory.theorem(theory.measure(problem, z))
    assert all(verdict.claimed for verdict in labels[8] if verdict is not labels[8].graph)
    assert not any(verdict.claimed for verdict in labels[6])
    assert all(verdict.promised for verdict in labels[6])  # as corrected it does not matter


def test_separability_of_zero_is_not_claimed(usual):
    found = theory.check(None, usual.X, usual.y_true, gamma=1e6)
    assert not found.theorem.nodes.claimed
    still = theory.check(None, usual.X, usual.y_true, gamma=0.0).assumptions.models
    assert still.R == 0.0  # in the interior of Θ, n_i = 0
    exact = theory.check(None, y=usual.y_true, labels=usual.y_true).assumptions
    assert re.search(r"gap of the centroids +0\n?$", str(exact))


# What goes in, and how it is shown. -------------------------------------------------------


def test_graphs_of_other_libraries_and_names_are_taken(ideal):
    names = [f"node {v}" for v in range(180)]
    graph = nx.relabel_nodes(nx.from_scipy_sparse_array(ideal.graph), dict(enumerate(names)))
    shuffled = np.random.default_rng(0).permutation(180)
    y = pd.Series([f"class {k}" for k in ideal.y_true], index=names).iloc[shuffled]
    found = theory.check(graph, y=y, labels=y)
    plain = theory.check(ideal.graph, y=ideal.y_true, labels=ideal.y_true)
    assert found.classes == ("class 0", "class 1", "class 2")
    assert found.assumptions.links.delta == pytest.approx(plain.assumptions.links.delta)
    assert found.assumptions.models.rho == plain.assumptions.models.rho == 0


def test_classes_that_are_unknown_are_asked_for(usual):
    with pytest.raises(InputError, match=r"no class for 7\d\d of 900 nodes.*clf.labels_"):
        theory.check(usual.graph, y=usual.y)
    with pytest.raises(InputError, match=r"y holds no classes.*clf\.labels_"):
        theory.check(usual.graph, usual.X)
    with pytest.raises(InputError, match="give graph, X or labels"):
        theory.check(y=usual.y_true)
    with pytest.raises(InputError, match="not among the classes in y"):
        theory.check(usual.graph, y=usual.y_true, labels=np.where(usual.y == 0, 7, usual.y))
    with pytest.raises(InputError, match="one entry per node: got 5 for 900"):
        theory.check(usual.graph, y=usual.y_true, labels=usual.y_true[:5])
    with pytest.raises(InputError, match="gamma must be a finite number ≥ 0"):
        theory.check(usual.graph, usual.X, usual.y_true, gamma=-1.0)
    with pytest.raises(InputError, match="three numbers"):
        theory.check(usual.graph, y=usual.y_true, weights=(1.0, 2.0))
    with pytest.raises(InputError, match="fixed weights"):
        theory.check(usual.graph, y=usual.y_true, weights="calibrated")
    with pytest.raises(InputError, match="weight 0"):
        theory.check(usual.graph, y=usual.y_true, weights=(0.0, 1.0, 1.0))


def test_one_class_is_no_trouble():
    A, z = cliques([9])
    found = theory.check(A, y=z, labels=z)
    assert "9 nodes in one class" in str(found)
    assert_readable(str(found))
    found.plot()


def test_the_page_of_a_notebook_holds_the_sentences_escaped(ideal):
    y = np.array(["<b>a</b>", "b", "c"])[ideal.y_true]
    page = theory.check(ideal.graph, y=y, threshold=0.99)._repr_html_()
    assert "<b>" not in page
    assert "&lt;b&gt;a" in page


def test_the_picture_shows_every_condition(usual):
    from matplotlib import pyplot as plt

    found = theory.check(usual.graph, usual.X, usual.y_true, labels=usual.y, gamma=50.0)
    ax = found.plot()
    assert ax is found.plot(ax)
    conditions = sum(len(each.printed) + len(each.corrected) for each in found.theorem)
    assert len(ax.get_yticks()) == conditions
    ax.figure.canvas.draw()  # also margins of −∞, of centroids that coincide
    assert "−∞" in {text.get_text() for text in ax.texts}
    plt.close("all")
