"""`nodeproof fit --checkpoint` loses nothing, whenever it is killed or the disk is full."""

from __future__ import annotations

import json
import random
import shutil
import signal
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from checkpoint_helpers import killer
from cli_helpers import write
from nodeproof.datasets import make_planted

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
    read = ["fit", data / "edges.csv", "--labels", data / "labels.csv", "--weights", "calibrated"]
    write = ["--out", data / "out", "--checkpoint", data / "state", "--jobs", 1]
    return [str(part) for part in [*read, *write, *more]]


def written(data: Path) -> dict[str, object]:
    """Return what a command has written, but for the seconds it took."""
    found: dict[str, object] = {name: (data / "out" / name).read_bytes() for name in FILES}
    summary = json.loads(found["summary.json"])
    return found | {"summary.json": summary | {"seconds": 0}}


@pytest.fixture(scope="module")
def ask():
    with killer() as ask:
        yield ask


@pytest.fixture(scope="module")
def finished(ask, tmp_path_factory) -> tuple[Path, dict[str, object]]:
    """Return a folder with data, and what a command has written that nobody has killed."""
    data = write_data(tmp_path_factory.mktemp("data"))
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
    for step in steps:
        code = ask("command", command(data), data / "out", step)
        if code == 0:
            break
        assert code == -signal.SIGKILL
        # The fit has ended: it is in its state, until all files are in their places.
        state = state_of(data)
        assert written(data) == expected if state is None else state["finished"], step
    else:
        raise AssertionError("there were more steps")
    assert written(data) == expected
    assert state_of(data) is None


def test_a_command_that_is_killed_while_it_writes_has_its_fit_kept(ask, data, expected):
    kill_while_writing(ask, data, range(3, 40, 4), expected)


@pytest.mark.slow
def test_a_command_may_be_killed_at_every_step_of_its_writing(ask, data, expected):
    kill_while_writing(ask, data, range(3, 40), expected)


@pytest.mark.slow
def test_a_hundred_kills_at_random_lose_nothing(ask, tmp_path):
    """Half of them in the last second; every third command is killed twice."""
    data = write_data(tmp_path, 300)
    ask("command", command(data))
    began = time.monotonic()
    assert ask("command", command(data)) == 0
    takes = time.monotonic() - began
    expected = written(data)
    rng = random.Random(0)
    ended: Counter[str] = Counter()
    for k in range(100):
        if k % 3 != 1:
            shutil.rmtree(data / "out")
        before = takes - 1.0 if k % 2 else 0.0
        code = ask("command", command(data), "", rng.uniform(max(before, 0.0), takes + 0.1))
        there = (data / "out" / "model.npz").exists()
        state = state_of(data)
        how = "none" if state is None else "finished" if state["finished"] else "under way"
        ended[f"killed {code != 0}, state {how}, model {'there' if there else 'not there'}"] += 1
        if k % 3 != 0:
            assert ask("command", command(data)) == 0
            assert written(data) == expected, k
            assert state_of(data) is None
    print(f"one command takes {takes:.2f} s", *sorted(ended.items()), sep="\n")
