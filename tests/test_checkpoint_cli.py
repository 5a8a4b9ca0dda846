"""`nodeproof fit --checkpoint` loses nothing, whenever it is killed or the disk is full."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import signal
import time
from collections import Counter
from contextlib import closing
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from cli_helpers import run, write
from nodeproof.cli import console
from nodeproof.datasets import make_planted
from nodeproof.solvers import checkpoint
from nodeproof.solvers.checkpoint import Checkpoint

# Of this name there is a command, too.
fit = import_module("nodeproof.cli.fit")

FILES = ("model.npz", "predictions.csv", "summary.json")


def write_data(folder: Path, size: int = 40) -> Path:
    """Write links and labels of a planted partition."""
    data = make_planted(3, size, p=0.3, q=0.05, label_ratio=0.2, random_state=0)
    links = np.argwhere(np.triu(data.graph.toarray()))
    write(folder / "edges.csv", [["source", "target"], *links.tolist()])
    labels = [[v, f"class {c}"] for v, c in enumerate(data.y) if c >= 0]
    write(folder / "labels.csv", [["node", "label"], *labels])
    return folder


def command(data: Path, *more: object) -> list[str]:
    """Return a command that fits, and writes to the folder ``out`` beside the data."""
    read = [
        "fit",
        data / "edges.csv",
        "--labels",
        data / "labels.csv",
        "--source-weights",
        "calibrated",
    ]
    write = ["--out", data / "out", "--checkpoint", data / "state", "--jobs", 1]
    return [str(part) for part in [*read, *write, *more]]


def written(data: Path) -> dict[str, object]:
    """Return what a command has written, but for the seconds it took."""
    found: dict[str, object] = {name: (data / "out" / name).read_bytes() for name in FILES}
    summary = json.loads(found["summary.json"])
    return found | {"summary.json": summary | {"seconds": 0}}


@pytest.fixture(scope="module")
def finished(ask, tmp_path_factory) -> tuple[Path, dict[str, object]]:
    """Return a folder with data, and what a command has written that nobody has killed."""
    data = write_data(tmp_path_factory.mktemp("data").resolve())
    assert ask("command", command(data)) == 0
    return data, written(data)


@pytest.fixture
def data(finished) -> Path:
    """Return a folder with data, an empty one for results, and no state."""
    shutil.rmtree(finished[0] / "out")
    shutil.rmtree(finished[0] / "state", ignore_errors=True)
    (finished[0] / "out").mkdir()
    return finished[0]


@pytest.fixture
def expected(finished) -> dict[str, object]:
    """Return what there shall be in the end."""
    return finished[1]


def state_of(data: Path) -> dict[str, object] | None:
    """Return the header of a state, if there is one."""
    if not (data / "state" / "state.npz").exists():
        return None
    with np.load(data / "state" / "state.npz") as state:
        return json.loads(state["header"].tobytes())


# Kills. ---------------------------------------------------------------------------------


def kill_while_writing(ask, data: Path, steps: range, expected: dict[str, object]) -> None:
    """Kill one command after the other, each before it changes the results at a later step."""
    kills = 0
    for step in steps:
        code = ask("command", command(data), data / "out", step)
        if code == 0:
            break
        assert code == -signal.SIGKILL
        kills += 1
        # The fit has ended: it is in its state, until all files are in their places.
        state = state_of(data)
        assert written(data) == expected if state is None else state["finished"], step
    else:
        raise AssertionError("there were more steps")
    assert kills >= 4
    assert written(data) == expected
    assert state_of(data) is None


def test_a_command_that_is_killed_while_it_writes_has_its_fit_kept(ask, data, expected):
    kill_while_writing(ask, data, range(3, 40, 4), expected)


@pytest.mark.slow
def test_a_command_may_be_killed_at_every_step_of_its_writing(ask, data, expected):
    kill_while_writing(ask, data, range(3, 40), expected)


@pytest.mark.slow
def test_forty_kills_at_random_lose_nothing(ask, tmp_path):
    """Half of them in the last second; every third command is killed twice."""
    data = write_data(tmp_path, 200)
    ask("command", command(data))
    began = time.monotonic()
    assert ask("command", command(data)) == 0
    takes = time.monotonic() - began
    expected = written(data)
    rng = random.Random(0)
    found: Counter[str] = Counter()
    while (kills := found.total()) < 40:
        if kills % 3 != 1:
            shutil.rmtree(data / "out", ignore_errors=True)
        least = max(takes - 1.0, 0.0) if kills % 2 else 0.0
        if ask("command", command(data), "", rng.uniform(least, takes)) != -signal.SIGKILL:
            continue
        state = state_of(data)
        how = "none" if state is None else "of the end" if state["finished"] else "under way"
        there = "there" if (data / "out" / "model.npz").exists() else "not there"
        found[f"state {how}, results {there}"] += 1
        if kills % 3 != 0:
            assert ask("command", command(data)) == 0
            assert written(data) == expected, kills
            assert state_of(data) is None
    print(f"one command takes {takes:.2f} s", *sorted(found.items()), sep="\n")


# Full disks. ----------------------------------------------------------------------------


def no_room(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_fit_is_kept_where_its_results_find_no_room(capsys, monkeypatch, data, expected):
    monkeypatch.setattr(fit, "write_predictions", no_room)
    code, out, err = run(capsys, *command(data))
    assert (code, out) == (2, "")
    assert len(err.strip().splitlines()) == 1
    assert "No space left on device" in err
    assert f"the fit is kept in {data / 'state'}: run the same command again" in err
    assert list((data / "out").iterdir()) == []
    assert state_of(data)["finished"]
    monkeypatch.undo()

    def fail(*_: object) -> None:
        raise AssertionError("a sweep was done again")

    monkeypatch.setattr(console.ProgressLine, "__call__", fail)
    assert run(capsys, *command(data))[0] == 0
    assert written(data) == expected
    assert state_of(data) is None


def test_results_that_find_no_room_are_not_said_to_be_kept_where_nothing_is(
    capsys, monkeypatch, data
):
    monkeypatch.setattr(checkpoint, "write_npz", no_room)
    monkeypatch.setattr(fit, "write_predictions", no_room)
    code, _, err = run(capsys, *command(data))
    assert code == 2
    assert "kept" not in err


def test_a_full_disk_under_the_checkpoint_is_a_note(capsys, monkeypatch, data, expected):
    monkeypatch.setattr(Checkpoint, "due", lambda self: True)
    monkeypatch.setattr(checkpoint, "write_npz", no_room)
    code, _, err = run(capsys, *command(data))
    assert code == 0
    assert err.count("a checkpoint was not saved, and the fit goes on without: ") == 1
    assert "No space left on device" in err
    assert [path.name for path in (data / "state").iterdir()] == ["lock"]
    assert written(data)["predictions.csv"] == expected["predictions.csv"]


def test_another_command_does_not_replace_results_that_were_not_written(capsys, monkeypatch, data):
    monkeypatch.setattr(fit, "write_predictions", no_room)
    run(capsys, *command(data))
    before = (data / "state" / "state.npz").read_bytes()
    code, _, err = run(capsys, *command(data, "--seed", 7))
    assert code == 2
    assert "was saved by a fit of other data or settings: remove it" in err
    assert (data / "state" / "state.npz").read_bytes() == before


def test_a_command_whose_time_is_spent_goes_on_when_it_is_called_again(
    capsys, monkeypatch, data, expected
):
    monkeypatch.setattr(Checkpoint, "due", lambda self: True)
    sweeps = iter([False, False, True])
    monkeypatch.setattr(console.ProgressLine, "__call__", lambda *_: next(sweeps))
    assert run(capsys, *command(data))[0] == 0
    assert json.loads((data / "out" / "summary.json").read_text())["status"] == "stopped early"
    assert state_of(data)["iteration"] == 2
    monkeypatch.undo()
    assert run(capsys, *command(data))[0] == 0
    assert written(data) == expected


# Two at a time. -------------------------------------------------------------------------


def test_a_second_command_in_the_same_folder_is_refused(capsys, data):
    with closing(Checkpoint(data / "state")) as other:
        other.load()
        code, _, err = run(capsys, *command(data))
    assert code == 2
    assert f"another run is working in {data / 'state'}, process {os.getpid()}: wait" in err
    assert list((data / "out").iterdir()) == []
    assert run(capsys, *command(data))[0] == 0
