"""Nothing that only Linux has is needed: what is known of other systems is imitated here."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nodeproof.storage.locking import WorkFolder

SOURCE = Path(__file__).parents[1] / "src"

# A Python as on Windows, as far as another system can imitate it: no fork, no fcntl or resource,
# locks by msvcrt, text in the code page of the country unless an encoding is named.
AS_ON_WINDOWS = """
import fcntl, importlib, os, sys, types, warnings
import joblib, numba, psutil, pyarrow, rich.console, sklearn  # which know this system

warnings.filterwarnings("error", category=EncodingWarning, module="nodeproof")
sys.modules["resource"] = None
for name in ("fork", "register_at_fork", "sched_getaffinity", "getuid", "umask"):
    if hasattr(os, name):
        delattr(os, name)

import nodeproof.storage.schema, nodeproof.storage.atomic, nodeproof.runtime.logs

msvcrt = types.ModuleType("msvcrt")
msvcrt.LK_NBLCK, held = 2, []
def locking(descriptor, mode, n_bytes):
    fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, n_bytes, 0, 1)
    held.append(descriptor)
msvcrt.locking = locking
sys.modules["msvcrt"], before, sys.platform = msvcrt, sys.platform, "win32"
import nodeproof.storage.locking
sys.platform = before
sys.modules["fcntl"] = None

import nodeproof
from nodeproof import NodeClassifier
from nodeproof.cli import main
from nodeproof.datasets import make_planted
from nodeproof.storage.locking import lock_folder

for name in nodeproof.__all__:
    getattr(nodeproof, name)
data = make_planted(2, 20, p=0.5, random_state=0)
with open("edges.csv", "w", encoding="utf-8", newline="\\r\\n") as file:
    file.write("source,target\\n")
    file.writelines(f"ä{u},ä{v}\\n" for u, v in zip(*data.graph.nonzero()) if u < v)
with open("labels.csv", "w", encoding="utf-8", newline="\\r\\n") as file:
    file.write("node,label\\nä0,groß\\nä39,κ\\n")
try:
    main(["fit", "edges.csv", "--labels", "labels.csv", "--out", "results", "--report",
          "--proof-budget", "0"])
except SystemExit as ended:
    assert not ended.code, ended.code
clf = NodeClassifier.load("results/model.npz")
assert set(clf.labels_) == {"groß", "κ"}
lock_folder(__import__("pathlib").Path("results"), "").close()
assert held
"""


@pytest.mark.skipif(os.name != "posix", reason="imitates another system on this one")
def test_fits_files_and_locks_work_without_what_windows_lacks(tmp_path):
    pytest.importorskip("jinja2")
    code_page = {"PYTHONIOENCODING": "cp1252", "PYTHONUTF8": "0", "PYTHONPATH": str(SOURCE)}
    done = subprocess.run(
        [sys.executable, "-X", "warn_default_encoding", "-c", AS_ON_WINDOWS],
        cwd=tmp_path,
        env=os.environ | code_page,
        capture_output=True,
        text=True,
        encoding="cp1252",
    )
    assert done.returncode == 0, done.stderr
    assert "40 nodes" in done.stdout
    written = (tmp_path / "results/predictions.csv").read_text("utf-8")
    assert "groß" in written
    assert "κ" in written


def test_a_finished_work_folder_is_unlocked_before_it_is_deleted_on_windows(tmp_path, monkeypatch):
    with WorkFolder(tmp_path / "work", {}, lambda state: True) as work:
        monkeypatch.setattr(sys, "platform", "win32")
        deleted = []
        monkeypatch.setattr(
            "shutil.rmtree", lambda path, **_: deleted.append((path, work._lock.closed))
        )
        work.delete()
    assert deleted == [(tmp_path / "work", True)]


# Modules that not every system has; they are imported inside functions, or behind a condition.
_NOT_EVERYWHERE = {"fcntl", "grp", "msvcrt", "posix", "pwd", "resource", "termios", "winreg"}


def test_no_module_needs_a_system_to_be_imported():
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.parse(path.read_text("utf-8")).body:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
            found = {name.partition(".")[0] for name in names} & _NOT_EVERYWHERE
            assert not found, f"{path} imports {found}"
