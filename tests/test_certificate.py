"""What a certificate tells a user: of planted graphs, of errors, and how a search ends."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from certificate_helpers import (
    planted_instance,
    refused,
)
from nodeproof import NodeClassifier, Problem, certify
from nodeproof.certificate import audit
from nodeproof.certificate.labelling.certify import certify_instance
from nodeproof.certificate.labelling.families import FAMILIES
from nodeproof.certificate.labelling.proof import Step
from nodeproof.datasets import make_planted
from nodeproof.errors import InputError
from nodeproof.graph import Graph
from nodeproof.runtime import threads
from nodeproof.terms import Labels, NodeData

pytestmark = [pytest.mark.numeric, pytest.mark.usefixtures("one_thread")]


@pytest.fixture(scope="module")
def strong():
    """Three classes of 80 that links alone tell apart."""
    return make_planted(p=0.3, cluster_size=80, omega=0.1, random_state=0)


@pytest.fixture(scope="module")
def problem(strong):
    known = Labels().bind(NodeData(3, y=strong.y))
    return Problem(Graph(strong.graph, "uniform"), [known], 3)


@pytest.fixture(scope="module")
def models(strong, problem):
    return problem.fit_models(np.eye(3)[strong.y_true])


# Planted graphs. ------------------------------------------------------------------------


@pytest.mark.parametrize("sources", ["G", "GL", "GF", "GFL"])
def test_planted_classes_are_certified(strong, sources):
    clf = NodeClassifier(n_classes=3, random_state=0).fit(
        strong.X if "F" in sources else None,
        strong.y if "L" in sources else None,
        graph=strong.graph,
    )
    proof = clf.certify()
    assert proof.status == "certified"
    assert proof.exact or sources == "G"  # where names are free, they may cost a little
    assert proof.unique
    assert proof.gap <= 1e-8
    assert proof.lower_bound <= proof.objective <= proof.lower_bound + proof.tolerance
    assert proof.verify()
    np.testing.assert_array_equal(clf.map_labels_, clf.classes_[proof.labels])
    np.testing.assert_array_equal(clf.certified_nodes_, proof.certified_nodes)
    assert clf.certified_nodes_.all()
    if "L" in sources:
        np.testing.assert_array_equal(clf.map_labels_, strong.y_true)
    assert "proven to be optimal" in proof.explain()
    assert "only one" in proof.explain()
    assert proof.renaming == (sources == "G")


def test_classes_of_other_sizes_are_certified():
    data = make_planted(p=0.6, cluster_size=(50, 30, 20), random_state=2)
    proof = NodeClassifier(n_classes=3, random_state=0).fit(graph=data.graph).certify()
    assert proof.status == "certified"
    assert proof.verify()
    assert sorted(np.bincount(proof.labels)) == [20, 30, 50]


def test_labels_flipped_by_hand_are_put_right(strong, problem, models):
    rng = np.random.default_rng(0)
    right = certify(problem, strong.y_true, models=models)
    assert right.certified
    assert len(right.moved) == 0
    flips = np.sort(rng.choice(240, size=5, replace=False))
    flipped = strong.y_true.copy()
    flipped[flips] = (flipped[flips] + 1) % 3
    found = certify(problem, flipped, models=models)
    np.testing.assert_array_equal(found.moved, flips)
    np.testing.assert_array_equal(found.labels, strong.y_true)
    assert found.certified
    # As it is, no family proves it, and a certificate that names it is refused.
    instance = right.instance
    for name in FAMILIES:
        dual = FAMILIES[name](instance, flipped)
        low, high = instance.audited.value(flipped)
        assert dual.bound(instance) < right.objective < low
        step = Step(np.ones((240, 3), dtype=bool), dual)
        forged = replace(right, labels=flipped, objective=high, lower_bound=high, steps=(step,))
        refused(forged)


def test_a_weak_graph_has_a_gap_and_says_so():
    data = make_planted(p=0.25, q=0.1, cluster_size=30, random_state=1)
    clf = NodeClassifier(n_classes=3, random_state=0).fit(graph=data.graph)
    proof = clf.certify(time_budget=0)
    assert not proof.certified
    assert proof.status == "no proof"
    assert proof.gap > 0.1
    assert proof.lower_bound < proof.objective
    assert not proof.exact
    assert not proof.unique
    assert "There is no proof of how good" in proof.explain()
    assert proof.verify()
    better = certify_instance(proof.instance, proof.labels, max_iter=20)
    assert better.lower_bound > proof.lower_bound
    assert better.verify()


def test_a_small_gap_is_told_in_nats_and_per_cent(strong, problem, models):
    proof = certify(problem, strong.y_true, models=models)
    lower = replace(proof, lower_bound=proof.objective - 0.05 * abs(proof.objective))
    assert lower.status.startswith("gap ≤ 5")
    assert lower.status.endswith(" nats)")
    assert lower.gap_nats == pytest.approx(0.05 * abs(proof.objective))
    assert "cannot be improved by more than" in lower.explain()
    assert " nats (5" in lower.explain()


def test_a_summary_is_ready_for_json(strong, problem, models):
    proof = certify(problem, strong.y_true, models=models)
    shown = json.loads(json.dumps(proof.summary()))
    assert shown["status"] == "certified"
    assert shown["certified_nodes"] == shown["nodes"] == 240
    assert shown["explanation"] == proof.explain()
    assert "certified" in repr(proof)


# Where there is no certificate. ---------------------------------------------------------


def test_affinities_of_pairs_of_classes_have_no_certificate(strong, problem):
    each = problem.fit_models(np.eye(3)[strong.y_true], matrix=True)
    proof = certify(problem, strong.y_true, models=each)
    assert proof.status == "not applicable"
    assert "one affinity for all classes" in proof.explain()
    assert not proof.certified_nodes.any()
    refused(proof)


def test_a_sum_of_norms_has_no_certificate(strong):
    known = Labels().bind(NodeData(3, y=strong.y))
    graph = Graph(strong.graph, "uniform")
    problem = Problem(graph, [known], 3, weights=(1.0, 1.0, 1.0), son=0.25)
    proof = certify(problem, strong.y_true)
    assert proof.status == "not applicable"
    assert "son=0.25" in proof.explain()
    assert not proof.certified


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.zeros(7, dtype=int), r"shape \(240,\); got \(7,\)"),
        (np.zeros((240, 1), dtype=int), r"got \(240, 1\)"),
        (np.zeros(240), "class numbers 0…2; got float64"),
        (np.full(240, 3), "class numbers 0…2"),
        (np.full(240, -1), "class numbers 0…2"),
        (["a"] * 240, "class numbers 0…2"),
    ],
)
def test_labels_that_are_none_are_refused(problem, labels, message):
    with pytest.raises(InputError, match=message):
        certify(problem, labels)


# How a search ends. ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def unclear():
    """Return an instance that closed forms do not prove."""
    return planted_instance([20, 20, 20], p=0.45, q=0.25, t=0.35, seed=3)


def test_without_time_quick_methods_are_all(unclear):
    instance, z = unclear
    stages = []
    proof = certify_instance(instance, z, time_budget=0, callback=stages.append)
    assert {stage.method for stage in stages} <= {"potts", "labelling", "F", "G", "nodes", "groups"}
    assert not proof.certified
    assert not proof.interrupted
    assert proof.verify()


def test_a_callback_can_end_the_search(unclear):
    instance, z = unclear
    seen = []

    def enough(stage):
        seen.append(stage)
        assert stage.lower_bound <= stage.objective
        return stage.method == "blocks"

    proof = certify_instance(instance, z, callback=enough)
    assert [stage.method for stage in seen].count("blocks") == 1
    assert proof.lower_bound == pytest.approx(max(row[2] for row in proof.history), rel=1e-12)
    assert not proof.interrupted
    assert proof.verify()


@pytest.mark.any_cpu
@pytest.mark.parametrize("after", [6, 8, 12])
def test_an_interrupted_search_returns_what_it_has(unclear, after):
    instance, z = unclear
    seen = []

    def interrupt(stage):
        seen.append(stage)
        if len(seen) == after:
            raise KeyboardInterrupt

    proof = certify_instance(instance, z, callback=interrupt)
    assert proof.interrupted
    assert len(seen) == after
    assert proof.lower_bound == pytest.approx(max(row[2] for row in proof.history), rel=1e-12)
    assert proof.verify()


def test_an_interrupt_while_a_step_is_judged_loses_nothing(unclear, monkeypatch):
    instance, z = unclear
    taken, calls = audit.take_step, []

    def interrupt(p, state, *rest):
        calls.append(taken(p, state, *rest))
        if len(calls) == 4:
            state.possible[:] = np.eye(3, dtype=bool)[state.z]  # of which no step knows
            raise KeyboardInterrupt
        return calls[-1]

    monkeypatch.setattr(audit, "take_step", interrupt)
    proof = certify_instance(instance, z)
    assert proof.interrupted
    assert np.isfinite(proof.lower_bound)
    assert not proof.certified_nodes.any()
    monkeypatch.setattr(audit, "take_step", taken)
    assert proof.verify()


def test_a_search_can_find_a_better_labelling(unclear):
    instance, _ = unclear
    start = np.arange(60) % 3  # settles in a labelling that is not the best
    closed = certify_instance(instance, start, time_budget=0)
    best = certify_instance(instance, start, max_iter=200)
    assert best.objective <= closed.objective
    assert best.lower_bound >= closed.lower_bound
    assert best.verify()
    np.testing.assert_array_equal(best.moved, np.flatnonzero(best.labels != start))


def test_a_tolerance_can_be_asked_for(unclear):
    instance, z = unclear
    closed = certify_instance(instance, z, time_budget=0)
    missing = closed.objective - closed.lower_bound
    loose = certify_instance(instance, z, time_budget=0, tolerance=1.01 * missing)
    assert loose.certified
    assert not loose.exact  # nothing says that it is the best
    assert not loose.unique
    assert not certify_instance(instance, z, time_budget=0, tolerance=0.9 * missing).certified


SCRIPT = """
import sys
sys.path.insert(0, {tests!r})
from certificate_helpers import planted_instance
from nodeproof.certificate.labelling.certify import certify_instance
instance, z = planted_instance([20, 20, 20], p=0.45, q=0.25, t=0.35, seed=3)
proof = certify_instance(instance, z, max_iter=30)
print(proof.lower_bound.hex(), proof.objective.hex(), proof.labels.tolist(),
      proof.certified_nodes.tolist(), len(proof.steps))
"""


@pytest.mark.any_cpu
def test_the_same_seed_gives_the_same_bits_with_any_threads(capsys):
    """Here BLAS has one thread, in the other process two."""
    script = SCRIPT.format(tests=str(Path(__file__).parent))
    exec(script, {})
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == capsys.readouterr().out


def test_the_number_of_jobs_changes_nothing(strong, problem, models):
    bounds = set()
    for jobs in (1, 2):
        with threads.using(jobs):
            bounds.add(certify(problem, strong.y_true, models=models).lower_bound)
    assert len(bounds) == 1
