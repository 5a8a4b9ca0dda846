"""Fits that are killed and resumed end with the same bits; other states are refused."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from checkpoint_helpers import EverySweep, found, make_fit
from cluster_helpers import FakeClient, wait_for_fakes
from nodeproof import NodeClassifier
from nodeproof.affinity import Affinity
from nodeproof.distributed.engine import DaskWorkspace
from nodeproof.errors import InputError
from nodeproof.problem import Models
from nodeproof.solvers import Result, Status, checkpoint
from nodeproof.solvers.checkpoint import Checkpoint, Saved, Session
from nodeproof.storage import locking

# Where each fit is killed: in the first start before any round, unless something else is said.
KILLS = {
    "links": {"sweep": 3},
    "no labels": {"sweep": 2},
    "features": {"sweep": 4},
    "starts": {"run": 2, "sweep": 2},
    "softmax": {"round": 1, "sweep": 1},
    "words": {"sweep": 2},
    "matrix": {"sweep": 2},
    "hard": {"sweep": 1},
    "fixed": {"sweep": 5},
    "auto": {"sweep": 3},
}


@pytest.fixture(scope="module")
def unbroken():
    """Return what a fit finds that nobody kills."""
    known: dict[str, list] = {}

    def fit(case: str) -> list:
        if case not in known:
            clf, given = make_fit(case)
            known[case] = found(clf.fit(**given))
        return known[case]

    return fit


def resume(case: str, folder: Path) -> list:
    clf, given = make_fit(case)
    return found(clf.fit(**given, checkpoint=EverySweep(folder)))


@pytest.mark.parametrize("case", KILLS)
def test_a_fit_that_was_killed_ends_with_the_same_bits(case, kill, unbroken, tmp_path):
    kill(case, tmp_path / "state", KILLS[case])
    with np.load(tmp_path / "state" / "state.npz") as state:
        header = json.loads(state["header"].tobytes())
    assert header["iteration"] == KILLS[case]["sweep"]
    assert resume(case, tmp_path / "state") == unbroken(case)


def test_it_may_be_killed_after_any_sweep(kill, unbroken, tmp_path):
    sweeps = unbroken("features")[4]
    for sweep in range(1, sweeps):
        kill("features", tmp_path / str(sweep), {"sweep": sweep})
        assert resume("features", tmp_path / str(sweep)) == unbroken("features"), sweep


def test_it_may_be_killed_again_and_again(kill, unbroken, tmp_path):
    """In the same process, or in others: what was begun from a state is as good as any."""
    for moment in ({"sweep": 2}, {"sweep": 3}, {"run": 2, "sweep": 1}, {"run": 3, "sweep": 4}):
        kill("starts", tmp_path, moment)
    assert resume("starts", tmp_path) == unbroken("starts")


@pytest.mark.parametrize("size", [0, 100, 5000])
def test_a_state_is_never_half_written(size, kill, unbroken, tmp_path):
    kill("links", tmp_path, {"sweep": 3})
    whole = (tmp_path / "state.npz").read_bytes()
    kill("links", tmp_path, {"sweep": 5, "bytes": size})
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    left = {str(path.relative_to(tmp_path)): path.stat().st_size for path in files}
    # That of sweep 4, which was saved whole, and what was to replace it.
    assert left.pop("state.npz") == pytest.approx(len(whole), abs=200)
    assert left.pop("lock") > 0
    assert list(left.values()) == [size]
    assert resume("links", tmp_path) == unbroken("links")
    assert {path.name for path in tmp_path.iterdir()} == {"lock", "state.npz"}


def test_a_fit_on_a_cluster_goes_on_here_and_the_other_way(kill, unbroken, tmp_path, monkeypatch):
    monkeypatch.setattr(DaskWorkspace, "wait", wait_for_fakes)
    kill("features", tmp_path, {"sweep": 3})
    clf, given = make_fit("features")
    clf.set_params(engine=FakeClient(2), n_jobs=2)
    assert found(clf.fit(**given, checkpoint=EverySweep(tmp_path))) == unbroken("features")


def test_the_state_is_kept_where_a_fit_is_interrupted(unbroken, tmp_path):
    clf, given = make_fit("features")

    def interrupt(progress):
        if progress.iteration == 4:
            raise KeyboardInterrupt

    clf.set_params(verbose=interrupt)
    with pytest.raises(KeyboardInterrupt):
        clf.fit(**given, checkpoint=EverySweep(tmp_path))
    assert (tmp_path / "state.npz").exists()
    assert resume("features", tmp_path) == unbroken("features")


def test_starts_that_come_after_are_drawn_as_they_would_have_been(tmp_path):
    clf, given = make_fit("no labels")

    def fit(verbose, checkpoint=None):
        clf.set_params(n_init=5, verbose=verbose).fit(**given, checkpoint=checkpoint)
        return found(clf)

    def tell(steps):
        return lambda progress: steps.append((progress.run, progress.iteration, progress.change))

    def interrupt(progress):
        if progress.run == 3 and progress.iteration == 2:
            raise KeyboardInterrupt

    straight: list[tuple] = []
    resumed: list[tuple] = []
    expected = fit(tell(straight))
    with pytest.raises(KeyboardInterrupt):
        fit(interrupt, EverySweep(tmp_path))
    assert fit(tell(resumed), EverySweep(tmp_path)) == expected
    assert resumed[0][:2] == (3, 2)
    assert resumed == straight[-len(resumed) :]


def test_a_fit_that_has_ended_is_there_at_once_when_it_is_called_again(unbroken, tmp_path):
    def fail(progress):
        raise AssertionError("a sweep was done")

    assert resume("starts", tmp_path) == unbroken("starts")
    clf, given = make_fit("starts")
    clf.set_params(verbose=fail).fit(**given, checkpoint=tmp_path)
    assert found(clf) == unbroken("starts")


def test_a_fit_of_something_else_replaces_one_that_has_ended(unbroken, tmp_path):
    for case in ("links", "features", "links"):
        assert resume(case, tmp_path) == unbroken(case)
    assert {path.name for path in tmp_path.iterdir()} == {"lock", "state.npz"}


def test_a_full_disk_costs_a_warning_and_keeps_the_state_before(unbroken, tmp_path, monkeypatch):
    write, saves = checkpoint.write_npz, []

    def full_from_the_third_on(file, arrays):
        saves.append(len(saves))
        if len(saves) < 3:
            write(file, arrays)
            return
        file.write(b"half of it")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(checkpoint, "write_npz", full_from_the_third_on)
    with pytest.warns(UserWarning, match="a checkpoint was not saved.*No space left") as warned:
        assert resume("features", tmp_path) == unbroken("features")
    assert len(saves) > 4
    assert len(warned) == 1
    assert {path.name for path in tmp_path.iterdir()} == {"lock", "state.npz"}
    with np.load(tmp_path / "state.npz") as state:
        assert json.loads(state["header"].tobytes())["iteration"] == 2
    monkeypatch.undo()
    assert resume("features", tmp_path) == unbroken("features")


def test_a_folder_that_vanishes_costs_a_warning(unbroken, tmp_path):
    clf, given = make_fit("features")
    clf.set_params(verbose=lambda _: shutil.rmtree(tmp_path / "state", ignore_errors=True))
    with pytest.warns(UserWarning, match="a checkpoint was not saved"):
        clf.fit(**given, checkpoint=EverySweep(tmp_path / "state"))
    assert found(clf) == unbroken("features")


def test_two_fits_at_a_time_do_not_share_a_folder(unbroken, tmp_path):
    """Even of the same process; the first goes on, and the folder is free when it ends."""
    clf, given = make_fit("links")
    refused = []

    def begin_another(progress):
        other, _ = make_fit("links")
        with pytest.raises(InputError) as caught:
            other.fit(**given, checkpoint=tmp_path)
        refused.append(str(caught.value))

    clf.set_params(verbose=begin_another).fit(**given, checkpoint=EverySweep(tmp_path))
    assert found(clf) == unbroken("links")
    expected = f"another run is working in {tmp_path}, process {os.getpid()}: wait for it"
    assert refused
    assert all(text.startswith(expected) for text in refused)
    assert resume("links", tmp_path) == unbroken("links")


def test_a_file_system_without_locks_is_a_warning(monkeypatch, unbroken, tmp_path):
    def refuse(file):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(locking, "_lock", refuse)
    clf, given = make_fit("links")
    with pytest.warns(UserWarning, match="cannot be locked .No locks available.: make sure that"):
        clf.fit(**given, checkpoint=tmp_path)
    assert found(clf) == unbroken("links")


# What is saved. -------------------------------------------------------------------------


def make_session(n: int = 5, K: int = 3) -> Session:
    """Return a session with everything in it."""
    rng = np.random.default_rng(0)

    def models(matrix: bool) -> Models:
        shape = (K, K) if matrix else (1, 1)
        affinity = Affinity(rng.standard_normal(shape), rng.standard_normal(shape), 0.1 + 0.2)
        terms = (rng.standard_normal((K, 2, 2)), np.asfortranarray(rng.standard_normal((K, 4))))
        return Models(affinity, terms, rng.standard_normal(K))

    def result(matrix: bool) -> Result:
        W = rng.dirichlet(np.ones(K), size=n).astype(np.float32)
        history = {"change": [1 / 3, 1e-300, 0.1], "ell": [float("inf")]}
        return Result(W, models(matrix), -1 / 7, Status.MAX_ITER, 17, history)

    generator = np.random.default_rng(5)
    generator.integers(10, dtype=np.int32)  # leaves half of a draw behind
    history = defaultdict(list, {"change": [0.3, 0.2]})
    begin = Affinity(np.array([[0.7]]), np.array([[0.01]]))
    rows = rng.dirichlet(np.ones(K), size=n).astype(np.float32)
    now = Saved(1, 12, models(True), True, begin, history, rows)
    starts = ["labels", "spectral", "random"]
    done = [result(False), result(True)]
    return Session(2, starts, generator.bit_generator.state, done, result(True), now)


def flat(thing) -> list:
    """Return all numbers, texts and bytes in it."""
    if isinstance(thing, np.ndarray):
        return [thing.dtype.str, thing.shape, thing.flags.f_contiguous, thing.tobytes()]
    if isinstance(thing, dict):
        return [(name, flat(thing[name])) for name in sorted(thing)]
    if isinstance(thing, list | tuple):
        return [flat(entry) for entry in thing]
    if hasattr(thing, "__dataclass_fields__"):
        return [flat(getattr(thing, name)) for name in thing.__dataclass_fields__]
    return [thing]


@pytest.mark.parametrize("whole", [True, False], ids=["all", "little"])
def test_a_session_comes_back_as_it_was(whole, tmp_path):
    session = make_session()
    if not whole:
        now = replace(session.now, begin=None, models=Models(None, (), np.zeros(3)), held=False)
        session = replace(session, run_number=1, done=[], before=None, starts=[None], now=now)
    Checkpoint(tmp_path).save(session)
    loaded = Checkpoint(tmp_path).load()
    assert flat(loaded) == flat(session)
    loaded.now.history["more"].append(1.0)  # a list where there was none, as in a solve
    generator = np.random.default_rng(0)
    generator.bit_generator.state = loaded.rng_state


def test_there_is_no_state_at_first_and_none_once_it_is_removed(tmp_path):
    checkpoint = Checkpoint(tmp_path / "state")
    assert checkpoint.load() is None
    checkpoint.save(make_session())
    assert checkpoint.load() is not None
    checkpoint.remove()
    checkpoint.remove()
    assert checkpoint.load() is None


def test_saving_takes_a_tenth_of_the_time_at_most(tmp_path, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("nodeproof.solvers.checkpoint.time.monotonic", lambda: clock[0])
    checkpoint = Checkpoint(tmp_path, every=60.0)
    monkeypatch.setattr(
        "nodeproof.solvers.checkpoint.write_npz",
        lambda *a, **k: clock.__setitem__(0, clock[0] + 20),
    )
    checkpoint.load()
    for now, due in [(0, False), (59, False), (60, True)]:
        clock[0] = now
        assert checkpoint.due() is due
    monkeypatch.setattr(
        "nodeproof.solvers.checkpoint.atomic_path", lambda path: (tmp_path / "x").open("wb")
    )
    monkeypatch.setattr("nodeproof.solvers.checkpoint.Path", lambda file: tmp_path / "y")
    checkpoint.save(make_session())  # from 60 to 80
    for now, due in [(140, False), (259, False), (260, True)]:
        clock[0] = now
        assert checkpoint.due() is due


def test_a_generator_given_as_seed_is_taken_up_again(unbroken, tmp_path):
    def fit(checkpoint=None, verbose=False):
        clf, given = make_fit("starts")
        clf.set_params(random_state=np.random.RandomState(3), verbose=verbose)
        return found(clf.fit(**given, checkpoint=checkpoint))

    def interrupt(progress):
        if progress.run == 3 and progress.iteration == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(EverySweep(tmp_path), interrupt)
    assert fit(EverySweep(tmp_path)) == fit()


def test_states_without_purpose_are_not_those_of_a_classifier(tmp_path):
    Checkpoint(tmp_path).save(make_session())
    _, given = make_fit("links")
    with pytest.raises(InputError, match="other data or settings"):
        NodeClassifier().fit(**given, checkpoint=tmp_path)
