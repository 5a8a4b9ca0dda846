"""How a search for a proof ends: when time is up, when asked to, and by Ctrl-C; nothing is lost."""

import numpy as np
import pytest

from certificate_helpers import planted_instance
from nodeproof.certificate.labelling import search as searching
from nodeproof.certificate.labelling.certify import certify_instance

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def unclear():
    """Return an instance that closed forms do not prove."""
    return planted_instance([20, 20, 20], p=0.45, q=0.25, t=0.35, seed=3)


class Clock:
    """A clock that moves on by a second at each look."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        self.now += 1.0
        return self.now


def test_without_time_little_is_tried(unclear, monkeypatch):
    # Whatever the clock says: what is tried is counted, not timed.
    instance, z = unclear
    monkeypatch.setattr(searching.time, "perf_counter", Clock())
    stages = []
    proof = certify_instance(instance, z, time_budget=0, callback=stages.append)
    assert {stage.method for stage in stages} <= {"potts", "F", "G", "nodes", "labelling"}
    assert len(stages) < 20
    assert not proof.interrupted
    assert np.isfinite(proof.lower_bound)
    assert proof.verify()


def test_a_search_ends_when_time_is_up(unclear, monkeypatch):
    instance, z = unclear
    stages, clock = [], Clock()
    monkeypatch.setattr(searching.time, "perf_counter", clock)
    proof = certify_instance(instance, z, time_budget=300, callback=stages.append)
    assert clock.now < 1000
    assert proof.verify()


def test_what_a_search_reports_fits_together(unclear):
    instance, z = unclear
    stages = []
    proof = certify_instance(instance, z, max_iter=20, callback=stages.append)
    assert all(stage.lower_bound <= stage.objective for stage in stages)
    objectives = [stage.objective for stage in stages]
    assert objectives == sorted(objectives, reverse=True)
    seconds = [row[0] for row in proof.history]
    assert seconds == sorted(seconds)
    assert proof.lower_bound >= max(row[2] for row in proof.history) - proof.tolerance


@pytest.mark.parametrize("after", [1, 3, 6])
def test_a_callback_can_end_the_search(unclear, after):
    instance, z = unclear
    seen = []

    def enough(stage):
        seen.append(stage)
        return len(seen) == after

    proof = certify_instance(instance, z, callback=enough)
    assert len(seen) == after
    assert not proof.interrupted
    # The best that was proven is kept.
    best = max((row[2] for row in proof.history), default=-np.inf)
    assert proof.lower_bound >= best - proof.tolerance
    assert proof.verify()


@pytest.mark.parametrize("after", [6, 9])
def test_an_interrupted_search_returns_what_it_has(unclear, after):
    instance, z = unclear
    seen = []

    def interrupt(stage):
        seen.append(stage)
        if len(seen) == after:
            raise KeyboardInterrupt

    proof = certify_instance(instance, z, callback=interrupt)
    assert proof.interrupted
    assert proof.lower_bound >= max(row[2] for row in proof.history) - proof.tolerance
    assert proof.verify()


def test_an_interrupt_at_once_is_passed_on_or_leaves_a_proof(unclear):
    instance, z = unclear

    def interrupt(stage):
        raise KeyboardInterrupt

    try:
        proof = certify_instance(instance, z, callback=interrupt)
    except KeyboardInterrupt:
        return
    assert proof.interrupted
    assert proof.verify()
