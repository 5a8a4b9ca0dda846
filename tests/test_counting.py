"""The number of classes is found where nobody says it."""

from __future__ import annotations

import warnings

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import adjusted_rand_score

from nodeproof import NodeClassifier
from nodeproof.auto import counting
from nodeproof.auto.counting import count_classes, description_length
from nodeproof.auto.merging import Family, Merges, merge_memberships
from nodeproof.datasets import make_planted
from nodeproof.errors import InputError
from nodeproof.graph import Graph
from nodeproof.solvers import BlockCADO, Status
from nodeproof.terms import Covariance, Gaussian, Multinomial, NodeData


def planted(n_clusters, seed=0, **changes):
    settings = {"cluster_size": 100, "p": 0.3, "q": 0.05, "omega": 0.1, "label_ratio": 0}
    return make_planted(n_clusters, random_state=seed, **settings | changes)


def find(data, sources="GF", **settings):
    return NodeClassifier(random_state=0, **settings).fit(
        data.X if "F" in sources else None, graph=data.graph if "G" in sources else None
    )


def family_of(data, terms=None, **settings):
    terms = (Covariance(),) if terms is None else terms
    return Family(NodeData(1, data.X), terms, Graph(data.graph), **settings)


@pytest.mark.parametrize("sources", ["G", "F", "GF"])
@pytest.mark.parametrize("n_clusters", [2, 5])
def test_planted_classes_are_counted(n_clusters, sources):
    data = planted(n_clusters)
    clf = find(data, sources)
    assert clf.choices_["n_classes"]["value"] == n_clusters
    assert clf.classes_.tolist() == list(range(n_clusters))
    least = 0.8 if sources == "F" else 0.999
    assert adjusted_rand_score(data.y_true, clf.labels_) > least


def test_many_classes_are_counted():
    data = planted(12, cluster_size=40)
    clf = find(data)
    assert len(clf.classes_) == 12
    assert adjusted_rand_score(data.y_true, clf.labels_) == 1.0


def test_classes_of_unequal_sizes_are_counted_and_the_largest_comes_first():
    data = planted(3, cluster_size=[200, 80, 40])
    clf = find(data, "G")
    assert np.bincount(clf.labels_).tolist() == [200, 80, 40]


def test_classes_that_avoid_links_inside_are_counted():
    data = planted(3, p=0.05, q=0.3)
    assert len(find(data, "G").classes_) == 3


@pytest.mark.parametrize("sources", ["G", "F", "GF"])
def test_where_there_are_no_classes_one_is_found(sources):
    data = planted(1, cluster_size=300, p=0.1)
    clf = find(data, sources)
    assert clf.classes_.tolist() == [0]
    assert (clf.labels_ == 0).all()
    assert "more classes do not" in clf.choices_["n_classes"]["why"]


def test_features_count_classes_where_links_say_nothing():
    assert len(find(planted(3, p=0.05, q=0.05, cluster_size=200)).classes_) == 3


def test_the_unit_of_the_features_does_not_matter():
    data = planted(3, cluster_size=40)
    small, large = (
        NodeClassifier(random_state=0).fit(unit * data.X, graph=data.graph).labels_
        for unit in (1e-4, 1e4)
    )
    assert (small == large).all()


def test_hubs_are_no_class():
    rng = np.random.default_rng(0)
    strength = rng.pareto(2.5, 400) + 0.3
    chance = np.minimum(0.04 * np.outer(strength, strength), 1.0)
    half = np.arange(400) < 200
    chance[half[:, None] != half] *= 0.1
    upper = np.triu(rng.random((400, 400)) < chance, 1)
    clf = NodeClassifier(random_state=0).fit(graph=(upper + upper.T).astype(float))
    assert clf.choices_["null_model"]["value"] == "degree"
    assert len(clf.classes_) == 2


def test_the_karate_club_falls_into_two():
    assert len(NodeClassifier(random_state=0).fit(graph=nx.karate_club_graph()).classes_) == 2


def test_words_count_classes():
    rng = np.random.default_rng(0)
    frequencies = rng.dirichlet(np.full(40, 0.3), size=3)
    X = np.stack([rng.multinomial(60, frequencies[v % 3]) for v in range(150)]).astype(float)
    found = count_classes(Family(NodeData(1, X), (Multinomial(),)), random_state=0)
    assert found.n_classes == 3
    assert count_classes(
        Family(NodeData(1, X[::3]), (Multinomial(),)), random_state=0
    ).n_classes == 1  # fmt: skip


@pytest.mark.parametrize("covariance", ["diagonal", "shared", "full"])
def test_means_count_classes(covariance):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((240, 4)) + 6.0 * np.eye(4)[np.arange(240) % 4]
    family = Family(NodeData(1, X), (Gaussian(covariance=covariance),))
    assert count_classes(family, random_state=0).n_classes == 4


@pytest.mark.parametrize("n", range(1, 8))
def test_tiny_graphs_work(n):
    clf = NodeClassifier(random_state=0).fit(graph=nx.path_graph(n))
    assert 1 <= len(clf.classes_) <= max(1, n // 2)


def test_nodes_without_links_are_one_class():
    assert len(NodeClassifier(random_state=0).fit(graph=sp.csr_array((20, 20))).classes_) == 1


def test_two_cliques_are_two_classes():
    two = nx.disjoint_union(nx.complete_graph(5), nx.complete_graph(5))
    clf = NodeClassifier(random_state=0).fit(graph=two)
    assert np.bincount(clf.labels_).tolist() == [5, 5]


def test_labels_or_a_number_leave_nothing_to_count():
    data = make_planted(cluster_size=40, p=0.4, random_state=0)
    for clf in (
        NodeClassifier(random_state=0).fit(data.X, data.y, graph=data.graph),
        NodeClassifier(3, random_state=0).fit(data.X, graph=data.graph),
    ):
        assert "n_classes" not in clf.choices_


def test_y_without_a_label_is_no_label():
    data = planted(3, cluster_size=40)
    clf = NodeClassifier(random_state=0).fit(data.X, data.y, graph=data.graph)
    assert len(clf.classes_) == 3
    assert clf.suspects_.size == 0


def test_the_same_seed_counts_the_same_bits():
    data = planted(4, cluster_size=40, p=0.15)
    first, second = find(data), find(data, n_jobs=2)
    assert (first.proba_ == second.proba_).all()


def test_a_counted_model_can_be_saved_and_judges_new_nodes(tmp_path):
    data = planted(3, cluster_size=40)
    clf = find(data)
    clf.save(tmp_path / "model.npz")
    loaded = NodeClassifier.load(tmp_path / "model.npz")
    assert loaded.choices_ == clf.choices_
    again = loaded.predict(data.X[:30], graph=data.graph[:30])
    assert (again == clf.labels_[:30]).mean() > 0.95


# Fixed weights: a threshold between the densities. -----------------------------------------


@pytest.mark.parametrize("weights", [(1.0, 0.0, 0.0), (1.0, 2.5, 13.0)])
def test_a_threshold_between_the_densities_counts_classes(weights):
    data = planted(4, cluster_size=60)
    clf = find(data, weights=weights, threshold=0.15)
    assert len(clf.classes_) == 4
    assert adjusted_rand_score(data.y_true, clf.labels_) == 1.0
    assert "0.15" in clf.choices_["n_classes"]["why"]


def test_a_threshold_above_the_densities_is_refused():
    with pytest.raises(InputError, match=r"at the threshold 0\.5 classes fall apart"):
        find(planted(2, cluster_size=20, p=0.2), weights=(1, 2.5, 13))


def test_a_threshold_below_the_densities_is_noted():
    with pytest.warns(UserWarning, match=r"at the threshold 0\.01 all nodes form one class"):
        clf = find(planted(2, cluster_size=40), "G", weights=(1, 0, 0), threshold=0.01)
    assert len(clf.classes_) == 1


def test_cado_as_published_takes_the_number_that_was_counted():
    data = planted(2, cluster_size=40, p=0.9, q=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = find(data, solver="cado")
    assert len(clf.classes_) == 2


# The search. ---------------------------------------------------------------------------------


def test_an_interrupt_keeps_what_was_found():
    data = planted(3, cluster_size=40)

    def interrupt(progress):
        if progress.W.shape[1] >= 8:
            raise KeyboardInterrupt

    clf = NodeClassifier(random_state=0, verbose=interrupt)
    with pytest.raises(KeyboardInterrupt):
        clf.fit(data.X, graph=data.graph)
    assert clf.status_ == Status.INTERRUPTED
    assert len(clf.classes_) == 3


def test_an_interrupt_between_sweeps_keeps_what_was_found(monkeypatch):
    class Interrupted(Merges):
        def __iter__(self):
            raise KeyboardInterrupt

    monkeypatch.setattr(counting, "Merges", Interrupted)
    found = count_classes(family_of(planted(3, cluster_size=40)), random_state=0)
    assert found.result.status is Status.INTERRUPTED
    assert found.n_classes == 1


def test_a_callback_may_end_the_search():
    data = planted(3, cluster_size=40)
    clf = find(data, verbose=lambda progress: progress.W.shape[1] >= 4)
    assert clf.status_ == Status.STOPPED
    assert 1 <= len(clf.classes_) <= 4


def test_surplus_classes_are_limited_on_large_graphs(monkeypatch):
    monkeypatch.setattr(counting, "_PRODUCTS", 1)
    monkeypatch.setattr(counting, "_AFFORDED", 4)
    found = count_classes(family_of(planted(6, cluster_size=40)), random_state=0)
    assert found.surplus == 4
    assert found.n_classes == 4


@pytest.mark.parametrize("terms", [(), (Covariance(),)])
@pytest.mark.parametrize("weights", ["calibrated", (1.0, 2.5, 13.0)])
def test_the_total_of_the_mergers_is_the_length_of_the_description(terms, weights):
    family = family_of(planted(3, cluster_size=40), terms, weights=weights, threshold=0.15)
    temperature = 1.0 if weights == "calibrated" else 0.0
    problem = family.problem(5)
    result = BlockCADO(temperature=temperature, random_state=0).solve(problem)
    merges = Merges(family, result.W)
    assert merges.total == pytest.approx(description_length(problem, result), rel=1e-6)
    for added, i, j in merges.best()[:1]:
        before = merges.total
        merges.merge(i, j)
        assert merges.total - before == pytest.approx(added, abs=1e-6 * abs(before))
    levels = [groups for _, groups in merges]
    assert [groups.max() + 1 for groups in levels] == [4, 3, 2, 1]
    assert merge_memberships(result.W, levels[1]).sum(axis=1) == pytest.approx(1.0)
    assert np.abs(merges.W - merge_memberships(result.W, levels[-1])).max() < 1e-6


def test_a_sample_of_many_nodes_judges_mergers_about_as_well(monkeypatch):
    family = family_of(planted(3, cluster_size=200))
    W = np.eye(6, dtype=np.float32)[np.random.default_rng(0).integers(0, 6, 600)]
    whole = Merges(family, W).total
    monkeypatch.setattr("nodeproof.auto.merging._SAMPLE", 300)
    sampled = Merges(family_of(planted(3, cluster_size=200)), W).total
    assert sampled == pytest.approx(whole, rel=0.02)
