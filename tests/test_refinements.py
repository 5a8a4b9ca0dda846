"""The iterative refinements and Bregman clustering: what a node pays, and where they end."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import bernoulli as coin
from scipy.stats import multivariate_normal, norm

from nodeproof.datasets import make_planted
from nodeproof.metrics import matched_accuracy
from nodeproof.paper import baselines
from nodeproof.paper.baselines import refinement
from nodeproof.paper.baselines.evidence import Evidence, Rule, bernoulli, least_squares

pytestmark = pytest.mark.numeric

REFINEMENTS = [baselines.ir_ls, baselines.ir_map, baselines.bregman_clustering]
MAP = Rule(bernoulli, proportions=True)
RULES = {
    "ir_ls": Rule(least_squares, proportions=True),
    "ir_map": MAP,
    "bregman": Rule(bernoulli, proportions=False),
}

refinements = pytest.mark.parametrize("method", REFINEMENTS, ids=lambda method: method.__name__)
rules = pytest.mark.parametrize("rule", RULES.values(), ids=list(RULES))


def tiny_evidence(labelled: bool = True) -> tuple[Evidence, np.ndarray]:
    """Return three classes of 5, 4 and 3 nodes with everything, and a partition of them."""
    data = make_planted(
        n_clusters=3, cluster_size=[5, 4, 3], p=0.6, q=0.3, n_features=2, n_noise=1, omega=0.4,
        random_state=3,
    )  # fmt: skip
    y = np.where(np.arange(12) % 4 == 0, data.y_true, -1) if labelled else None
    return Evidence.gather(data.graph, data.X, y, 3), data.y_true


def slow_models(evidence: Evidence, z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rates, covariances and log-proportions of a partition, counted pair by pair."""
    n, K = len(z), evidence.n_classes
    A, X = evidence.adjacency.toarray(), evidence.features.X
    density = A.sum() / (n * (n - 1))
    rates = np.empty((K, K))
    for k in range(K):
        for j in range(K):
            pairs = [(u, v) for u in range(n) for v in range(n) if u != v]
            ours = [A[u, v] for u, v in pairs if z[u] == k and z[v] == j]
            rates[k, j] = (sum(ours) + 1) / (len(ours) + 1 / density)
    pooled = X.T @ X / n
    covariances = np.stack(
        [(X[z == k].T @ X[z == k] + pooled) / ((z == k).sum() + 1) for k in range(K)]
    )
    prior = np.log((np.bincount(z, minlength=K) + 1) / (n + K))
    return rates, covariances, prior


# What a node pays, and what a partition is worth. --------------------------------------


@pytest.mark.parametrize("empty", [False, True], ids=["full", "one class empty"])
@pytest.mark.parametrize("name", ["ir_map", "bregman"])
def test_a_node_pays_its_log_likelihood_link_by_link(name, empty):
    evidence, z = tiny_evidence()
    z = np.where(z == 2, 1, z) if empty else z
    rates, covariances, prior = slow_models(evidence, z)
    A, X = evidence.adjacency.toarray(), evidence.features.X
    costs, _ = evidence.judge(z, RULES[name])
    for v in range(12):
        for k in range(3):
            rest = [u for u in range(12) if u != v]
            slow = -sum(coin.logpmf(A[v, u], rates[k, z[u]]) for u in rest)
            slow -= multivariate_normal(np.zeros(2), covariances[k]).logpdf(X[v])
            slow -= prior[k] if name == "ir_map" else 0.0
            assert costs[v, k] == pytest.approx(slow, rel=1e-6)


def test_a_node_pays_its_bregman_divergences_up_to_what_no_class_changes():
    evidence, z = tiny_evidence()
    rates, covariances, _ = slow_models(evidence, z)
    A, X = evidence.adjacency.toarray(), evidence.features.X
    costs, _ = evidence.judge(z, RULES["bregman"])

    def kullback_leibler(a, rate):
        return -np.log(rate) if a else -np.log1p(-rate)

    def stein(moment, R):
        product = moment @ np.linalg.inv(R)
        return np.trace(product) - np.linalg.slogdet(product)[1] - len(R)

    for v in range(12):
        rest = [u for u in range(12) if u != v]
        # A single xxᵀ is singular and infinitely far from every R: by the same amount.
        moment = np.outer(X[v], X[v]) + 1e-9 * np.eye(2)
        slow = [
            sum(kullback_leibler(A[v, u], rates[k, z[u]]) for u in rest)
            + 0.5 * stein(moment, covariances[k])
            for k in range(3)
        ]
        np.testing.assert_allclose(costs[v] - costs[v, 0], slow - slow[0], atol=1e-5)


@pytest.mark.parametrize("empty", [False, True], ids=["full", "one class empty"])
def test_least_squares_takes_links_into_a_class_as_gaussian(empty):
    evidence, z = tiny_evidence()
    z = np.where(z == 2, 1, z) if empty else z
    rates, covariances, prior = slow_models(evidence, z)
    A, X = evidence.adjacency.toarray(), evidence.features.X
    costs, _ = evidence.judge(z, RULES["ir_ls"])
    for v in range(12):
        slow = np.zeros(3)
        for k in range(3):
            for j in range(3):
                others = [u for u in range(12) if u != v and z[u] == j]
                if not others:
                    slow[k] += 0.5 * np.log(rates[k, j] * (1 - rates[k, j]))
                    continue
                spread = np.sqrt(len(others) * rates[k, j] * (1 - rates[k, j]))
                mean = len(others) * rates[k, j]
                slow[k] -= norm.logpdf(A[v, others].sum(), mean, spread)
            slow[k] -= multivariate_normal(np.zeros(2), covariances[k]).logpdf(X[v]) + prior[k]
        # √(2π n_l) is the same in every class.
        np.testing.assert_allclose(costs[v] - costs[v, 0], slow - slow[0], rtol=1e-6, atol=1e-6)


def test_the_value_of_a_partition_is_its_complete_log_likelihood():
    evidence, z = tiny_evidence()
    rates, covariances, prior = slow_models(evidence, z)
    A, X = evidence.adjacency.toarray(), evidence.features.X
    links = sum(
        coin.logpmf(A[u, v], rates[z[u], z[v]]) for u in range(12) for v in range(u + 1, 12)
    )
    features = sum(
        multivariate_normal(np.zeros(2), covariances[z[v]]).logpdf(X[v]) for v in range(12)
    )
    for rule in RULES.values():
        proportions = prior[z].sum() if rule.proportions else 0.0
        _, value = evidence.judge(z, rule)
        assert value == pytest.approx(links + features + proportions, rel=1e-6)


@rules
def test_refining_moves_every_node_to_its_cheapest_class_at_once(rule):
    evidence, z = tiny_evidence(labelled=False)
    costs, _ = evidence.judge(z, rule)
    moved = costs.argmin(axis=1)
    assert (moved != z).any()
    values = [evidence.judge(each, rule)[1] for each in (z, moved)]
    best = z if values[0] >= values[1] else moved
    np.testing.assert_array_equal(refinement.refine(evidence, z, rule, 2)[0], best)


@rules
def test_refining_returns_the_likeliest_partition_on_the_way(rule, random_graph):
    # On noise the likelihood falls now and then, because all nodes move at once.
    evidence = Evidence.gather(random_graph(20), None, None, 3)
    rng = np.random.default_rng(0)
    fell = 0
    for _ in range(50):
        start = z = rng.integers(3, size=20)
        values = []
        for _ in range(8):
            costs, value = evidence.judge(z, rule)
            values.append(value)
            z = costs.argmin(axis=1)
        end, value = refinement.refine(evidence, start, rule, 8)
        assert value == max(values) == evidence.judge(end, rule)[1]
        fell += max(values) > values[-1]
    assert fell > 0


# Refinements. --------------------------------------------------------------------------


@refinements
@pytest.mark.parametrize("sources", ["GFL", "GF", "GL", "FL", "G", "F"])
def test_planted_classes_are_found_from_whatever_is_given(method, sources, easy):
    found = method(
        easy.graph if "G" in sources else None,
        easy.X if "F" in sources else None,
        easy.y if "L" in sources else None,
        n_classes=3,
        random_state=0,
    )
    assert found.dtype == np.int64
    assert found.shape == (300,)
    best = easy.genie_accuracy("".join(set(sources) - {"L"}))
    assert matched_accuracy(easy.y_true, found) > best - 0.02
    if "L" in sources:
        assert (found == easy.y_true).mean() > best - 0.02


@refinements
def test_all_evidence_on_easy_data_leaves_no_errors(method):
    data = make_planted(cluster_size=100, p=0.4, random_state=0)
    found = method(data.graph, data.X, data.y, n_classes=3, random_state=0)
    assert (found == data.y_true).all()


@refinements
def test_the_same_seed_gives_the_same_bits(method, hard):
    def run(seed):
        return method(hard.graph, hard.X, n_classes=3, max_iter=5, n_starts=3, random_state=seed)

    first = run(7)
    np.testing.assert_array_equal(run(7), first)
    np.testing.assert_array_equal(run(np.random.default_rng(7)), first)


@refinements
def test_labelled_nodes_keep_their_label_even_a_wrong_one(method):
    data = make_planted(cluster_size=60, p=0.3, label_accuracy=0.7, random_state=0)
    known = data.y >= 0
    assert (data.y[known] != data.y_true[known]).any()
    found = method(data.graph, data.X, data.y, n_classes=3, random_state=0)
    np.testing.assert_array_equal(found[known], data.y[known])
    assert (found == data.y_true)[~known].mean() > 0.97


@refinements
def test_y_without_any_label_is_as_no_y(method, easy):
    def run(y):
        return method(easy.graph, easy.X, y, n_classes=3, random_state=0)

    np.testing.assert_array_equal(run(np.full(300, -1)), run(None))


@rules
def test_classes_that_were_permuted_get_the_names_of_the_labels(rule):
    data = make_planted(cluster_size=100, p=0.25, omega=0.1, label_ratio=0.02, random_state=0)
    evidence = Evidence.gather(data.graph, data.X, data.y, 3)
    permuted = evidence.clamp((data.y_true + 1) % 3)
    # Two clamped nodes a class do not turn it around by themselves.
    stuck, _ = refinement.refine(evidence, permuted, rule, 50)
    assert (stuck == data.y_true).mean() < 0.1
    settled, _ = refinement._settle(evidence, permuted, rule, 50)
    assert (settled == data.y_true).mean() > 0.99


@refinements
def test_more_links_across_than_inside_are_evidence_too(method):
    data = make_planted(cluster_size=100, p=0.05, q=0.25, omega=0.3, random_state=0)
    alone = baselines.gaussian_classifier(data.X, data.y, 3)
    found = method(data.graph, data.X, data.y, n_classes=3, random_state=0)
    assert (found == data.y_true).mean() > 0.99 > (alone == data.y_true).mean()
    found = method(data.graph, None, data.y, n_classes=3, random_state=0)
    assert (found == data.y_true).mean() > 0.95


@refinements
def test_more_classes_than_there_are_do_no_harm(method, easy):
    found = method(easy.graph, easy.X, n_classes=7, n_starts=3, random_state=0)
    assert set(found) <= set(range(7))


@rules
def test_a_class_without_nodes_keeps_finite_models(rule, easy):
    evidence = Evidence.gather(easy.graph, easy.X, None, 3)
    for start in (np.where(easy.y_true == 2, 1, easy.y_true), np.zeros(300, dtype=int)):
        costs, value = evidence.judge(start, rule)
        assert np.isfinite(costs).all()
        assert np.isfinite(value)
        _, value = refinement.refine(evidence, start, rule, 50)
        assert np.isfinite(value)


@refinements
@pytest.mark.parametrize("n_classes", [1, 2, 28, 30])
def test_tiny_data_and_almost_as_many_classes_as_nodes(method, n_classes):
    data = make_planted(cluster_size=10, p=0.5, label_ratio=0.2, random_state=0)
    for y in (None, np.minimum(data.y, n_classes - 1)):
        found = method(data.graph, data.X, y, n_classes=n_classes, n_starts=4, random_state=0)
        assert found.min() >= 0
        assert found.max() < n_classes


@refinements
@pytest.mark.parametrize("links", [0.0, 1.0], ids=["no links", "all links"])
def test_graphs_that_say_nothing_are_not_in_the_way(method, links, easy):
    graph = sp.csr_array(np.full((300, 300), links))
    found = method(graph, easy.X, easy.y, n_classes=3, random_state=0)
    assert (found == easy.y_true).mean() > 0.9
    assert set(method(graph, n_classes=3, random_state=0)) <= {0, 1, 2}


@refinements
def test_constant_and_repeated_features_are_not_in_the_way(method, easy):
    X = np.column_stack([easy.X, easy.X[:, 0], np.ones(300), np.zeros(300)])
    found = method(easy.graph, X, easy.y, n_classes=3, random_state=0)
    assert (found == easy.y_true).mean() > 0.95


def test_a_column_of_ones_gives_classes_a_mean():
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1], 100)
    X = rng.standard_normal((200, 2)) + 4.0 * np.eye(2)[truth]
    found = baselines.ir_map(None, np.column_stack([X, np.ones(200)]), n_classes=2, random_state=0)
    assert matched_accuracy(truth, found) > 0.97


@rules
def test_weights_of_links_do_not_count(rule, random_graph):
    heavy = random_graph(30, weighted=True)
    light = (heavy > 0).astype(float)
    costs, other = (
        Evidence.gather(graph, None, None, 2).judge(np.arange(30) % 2, rule)[0]
        for graph in (heavy, light)
    )
    np.testing.assert_array_equal(costs, other)
    assert heavy.data.max() > 1.0


@refinements
def test_more_starts_are_never_less_likely(method, hard):
    evidence = Evidence.gather(hard.graph, hard.X, None, 3)
    rule = {"ir_ls": RULES["ir_ls"], "ir_map": MAP}.get(method.__name__, RULES["bregman"])
    values = [
        evidence.judge(
            method(hard.graph, hard.X, n_classes=3, n_starts=n_starts, random_state=2), rule
        )[1]
        for n_starts in (1, 2, 4)
    ]
    assert values == sorted(values)


def test_unequal_classes_are_told_apart_by_their_proportions():
    data = make_planted(
        cluster_size=[300, 60, 20], p=0.15, omega=0.4, label_ratio=0.1, random_state=0
    )
    hidden = data.y < 0
    for method in (baselines.ir_ls, baselines.ir_map):
        found = method(data.graph, data.X, data.y, n_classes=3, random_state=0)
        assert (found == data.y_true)[hidden].mean() > data.genie_accuracy() - 0.03


def test_starts_hold_labelled_nodes_and_know_more_than_chance(hard):
    evidence = Evidence.gather(hard.graph, hard.X, hard.y, 3)
    found = refinement.informed_starts(evidence, np.random.default_rng(0))
    assert len(found) == 3
    for start in found:
        np.testing.assert_array_equal(start[evidence.known], hard.y[evidence.known])
        assert (start == hard.y_true).mean() > 0.45


@refinements
def test_each_method_ends_where_its_own_rule_ends(method):
    """Another rule may end there now and then, but not always."""
    moved = dict.fromkeys(RULES, 0)
    for seed in (4, 5, 6, 7):
        data = make_planted(cluster_size=[100, 50, 20], p=0.1, omega=0.6, random_state=seed)
        evidence = Evidence.gather(data.graph, data.X, None, 3)
        found = method(data.graph, data.X, n_classes=3, random_state=0)
        for name, rule in RULES.items():
            moved[name] += (refinement.refine(evidence, found, rule, 100)[0] != found).sum()
    assert moved.pop(method.__name__.removesuffix("_clustering")) == 0
    assert min(moved.values()) > 0


def test_a_mixture_holds_labelled_nodes_at_their_label(hard):
    evidence = Evidence.gather(None, hard.X, hard.y, 3)
    rows = np.random.default_rng(0).dirichlet(np.ones(3), size=180)
    held = rows.copy()
    held[evidence.known] = np.eye(3)[hard.y[evidence.known]]
    prior = np.log((held.sum(axis=0) + 1) / 183)
    joint = prior - evidence.features.cost(evidence.features.estimate(held), 0, 180)
    slow = np.where(hard.y < 0, np.logaddexp.reduce(joint, axis=1), joint[range(180), hard.y])
    _, value = refinement._fit_mixture(evidence.features, rows, evidence, 1)
    assert value == pytest.approx(slow.sum())
