"""Whatever is wrong with what finds proofs, the auditor confirms nothing false."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from finder_mutants import FINDERS

SCRIPT = Path(__file__).with_name("finder_mutants.py")
_JUDGES = {"__init__", "display", "result", "verify"}


def source_of(name) -> Path:
    return Path(importlib.util.find_spec(name).origin)


def damage(first, step, *names) -> dict:
    """Damage modules in a process of its own; return what became of them."""
    package = source_of("nodeproof").parents[1]
    env = os.environ | {"NUMBA_DISABLE_JIT": "1", "OMP_NUM_THREADS": "1"}
    env["PYTHONPATH"] = os.pathsep.join([str(package), str(SCRIPT.parent)])
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(first), str(step), *names],
        env=env, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_every_module_that_finds_proofs_is_damaged():
    folder = source_of("nodeproof.certificate.labelling").parent
    found = {path.stem for path in folder.glob("*.py")} - _JUDGES
    damaged = {name.rsplit(".", 1)[1] for name in FINDERS if ".labelling." in name}
    assert found == damaged


def test_a_finder_with_a_slip_has_nothing_false_confirmed():
    found = damage(2, 0, *FINDERS)
    assert list(found) == FINDERS
    assert all(each["confirmed"] == [] for each in found.values())
    assert all(each["in_use"] for each in found.values())
    assert sum(each["mutants"] for each in found.values()) >= 36
    assert sum(each["changed"] + each["failed"] for each in found.values()) >= 6
    assert sum(each["refused"] for each in found.values()) >= 36


@pytest.mark.slow
@pytest.mark.parametrize("name", FINDERS)
def test_no_slip_of_a_finder_has_anything_false_confirmed(name):
    found = damage(0, 20, name)[name]
    print(name, {key: n for key, n in found.items() if key != "confirmed"})
    assert found["confirmed"] == []
    # Not idle: the damaged module is the one that runs, and not all slips are failures.
    assert found["in_use"]
    assert found["genuine"] > 0
    assert found["refused"] > 0
