"""Labels of the app: saved at once, by several processes, and never lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from nodeproof import NodeClassifier
from nodeproof.app.journal import JOURNAL, Action, Journal
from nodeproof.app.labels import LabelState
from nodeproof.datasets import make_planted
from nodeproof.errors import InputError


@pytest.fixture(scope="module")
def fitted():
    data = make_planted(cluster_size=20, p=0.6, label_ratio=0.3, random_state=0)
    return (
        NodeClassifier(random_state=0, experts=["links"])
        .fit(None, data.y, graph=data.graph)
        .fitted_
    )


@pytest.fixture
def state(fitted, tmp_path):
    return LabelState(fitted, Journal(tmp_path / JOURNAL))


def action(node="ann", label="red", **more):
    return Action("now", "a", "label", (node,), (label,), (None,), **more)


def test_what_was_appended_is_read_again(tmp_path):
    journal = Journal(tmp_path / JOURNAL)
    for node in ("ann", "bob"):
        journal.append(lambda node=node: action(node))
    assert Journal(tmp_path / JOURNAL).read() == journal.actions
    assert [found.nodes for found in journal.actions] == [("ann",), ("bob",)]


@pytest.mark.parametrize("cut", [1, 10, 60])
def test_a_last_line_that_was_cut_off_is_dropped_and_written_over(tmp_path, cut):
    path = tmp_path / JOURNAL
    journal = Journal(path)
    for node in ("ann", "bob"):
        journal.append(lambda node=node: action(node))
    path.write_bytes(path.read_bytes()[:-cut])
    again = Journal(path)
    assert [found.nodes for found in again.read()] == [("ann",)]
    again.append(lambda: action("eve"))
    assert [found.nodes for found in Journal(path).read()] == [("ann",), ("eve",)]


@pytest.mark.parametrize(
    "line",
    [
        "{}",
        "[1]",
        "nonsense",
        json.dumps(vars(action())).replace('"red"', '{"a": 1}'),
        json.dumps(vars(action(undoes=7))),
        json.dumps(vars(action())).replace('["ann"]', '["ann", "bob"]'),
    ],
)
def test_a_damaged_line_is_named(tmp_path, line):
    path = tmp_path / JOURNAL
    Journal(path).append(action)
    with path.open("a") as file:
        file.write(line + "\n")
    with pytest.raises(InputError, match="line 2 is not a label of the app"):
        Journal(path).read()


def test_processes_do_not_lose_each_others_labels(tmp_path):
    script = (
        "import sys; from pathlib import Path\n"
        "from nodeproof.app.journal import Action, Journal\n"
        "journal = Journal(Path(sys.argv[1]))\n"
        "for k in range(40):\n"
        "    node = f'{sys.argv[2]}{k}'\n"
        "    journal.append(lambda: Action('now', 'a', 'label', (node,), ('red',), (None,)))\n"
    )
    path = tmp_path / JOURNAL
    runs = [subprocess.Popen([sys.executable, "-c", script, path, name]) for name in "ab"]
    assert [run.wait(60) for run in runs] == [0, 0]
    found = [action.nodes[0] for action in Journal(path).read()]
    assert sorted(found) == sorted(f"{name}{k}" for name in "ab" for k in range(40))


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_a_kill_loses_no_label_that_was_confirmed(tmp_path):
    script = (
        "import sys; from pathlib import Path\n"
        "from nodeproof.app.journal import Action, Journal\n"
        "journal = Journal(Path(sys.argv[1]))\n"
        "for k in range(10**6):\n"
        "    journal.append(lambda: Action('now', 'a', 'label', (k,), ('red',), (None,)))\n"
        "    print(k, flush=True)\n"
    )
    path = tmp_path / JOURNAL
    run = subprocess.Popen([sys.executable, "-c", script, path], stdout=subprocess.PIPE, text=True)
    for _ in range(25):
        confirmed = int(run.stdout.readline())
    os.kill(run.pid, signal.SIGKILL)
    confirmed = max([confirmed, *map(int, run.stdout.read().split("\n")[:-1])])
    run.wait(10)
    found = [action.nodes[0] for action in Journal(path).read()]
    assert found[: confirmed + 1] == list(range(confirmed + 1))


def test_labels_are_set_removed_and_undone(state, fitted):
    row = int(fitted.labelled[0])
    before = int(state.codes[row])
    other = (before + 1) % 3
    state.label([row], [other], "label", "one")
    assert state.codes[row] == other
    assert state.reviewed[row]
    state.label([row], [-1], "label", "one")
    assert state.codes[row] == -1
    assert state.undo("one") == [row]
    assert state.codes[row] == other
    assert state.undo("one") == [row]
    assert state.codes[row] == before
    assert not state.reviewed[row]
    assert state.undo("one") == []


def test_windows_undo_their_own_labels_and_keep_those_of_others(fitted, tmp_path):
    one = LabelState(fitted, Journal(tmp_path / JOURNAL))
    other = LabelState(fitted, Journal(tmp_path / JOURNAL))
    a, b = np.flatnonzero(fitted.given < 0)[:2].tolist()
    one.label([a, b], [0, 0], "relabel", "one")
    other.label([b], [2], "label", "other")
    assert one.undo("one") == [a, b]
    other.catch_up()
    for state in (one, other, LabelState(fitted, Journal(tmp_path / JOURNAL))):
        assert state.codes[a] == -1
        assert state.codes[b] == 2
        assert state.reviewed[[a, b]].tolist() == [False, True]


def test_undo_works_after_the_results_were_written(fitted, tmp_path):
    from dataclasses import replace

    row = int(fitted.labelled[0])
    before = int(fitted.given[row])
    state = LabelState(fitted, Journal(tmp_path / JOURNAL))
    state.label([row], [(before + 1) % 3], "label", "one")
    refitted = replace(fitted, given=state.codes.copy())
    again = LabelState(refitted, Journal(tmp_path / JOURNAL))
    again.undo("one")
    assert again.codes[row] == before


def test_nodes_and_classes_that_the_model_lacks_are_counted(fitted, tmp_path):
    journal = Journal(tmp_path / JOURNAL)
    journal.append(lambda: action("nobody", "nothing"))
    state = LabelState(fitted, Journal(tmp_path / JOURNAL))
    assert state.unknown == 1
    assert "1 label in labels.jsonl" in state.notes()[0]


def test_the_export_has_every_label(state, fitted):
    row = int(np.flatnonzero(fitted.given < 0)[0])
    state.label([row], [1], "label", "one")
    columns = state.columns()
    assert len(columns["node"]) == len(fitted.labelled) + 1
    at = columns["node"].tolist().index(row)
    assert (columns["label"][at], bool(columns["reviewed"][at])) == ("1", True)
    assert int(columns["reviewed"].sum()) == 1


@pytest.mark.parametrize(
    ("rows", "codes"),
    [([], []), ([0], [7]), ([10**6], [0]), ([0, 0], [1, 1]), ([0], [1, 1]), ("0", "1"),
     ([0.5], [1]), ([True], [1]), ([None], [1]), ([-1], [0])],
)  # fmt: skip
def test_impossible_labels_are_refused(state, rows, codes):
    with pytest.raises(InputError):
        state.check(rows, codes)
