"""Full disks, read-only folders and Ctrl-C: one clear line, and nothing half-written."""

from __future__ import annotations

import csv
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cli_helpers import run
from hostile import Seeds, make_seeds
from nodeproof import NodeClassifier
from nodeproof.certificate import Certificate
from nodeproof.storage.graph_folder import GraphFolder

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}
COMMANDS = ("fit", "predict", "certify", "convert")


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> Seeds:
    return make_seeds(tmp_path_factory.mktemp("seeds"))


def snapshot(folder: Path) -> dict[str, bytes | None]:
    """Return all files, hidden ones too, with their content."""
    return {
        found.relative_to(folder).as_posix(): found.read_bytes() if found.is_file() else None
        for found in folder.rglob("*")
    }


def command_of(name: str, out: Path, seeds: Seeds) -> list[Any]:
    """Return a command that writes into a folder, as it is there already."""
    given = seeds.folder
    if name == "fit":
        tables = ["--features", given / "features.csv", "--labels", given / "labels.csv"]
        return ["fit", given / "edges.csv", *tables, "--out", out]
    if name == "predict":
        (given / "new.csv").write_text("node,x0,x1,x2\nnew,1,1,1\n")
        return ["predict", given, "--features", given / "new.csv", "--out", out / "new.csv"]
    if name == "certify":
        shutil.copy(given / "model.npz", out)
        return ["certify", out, "--time-budget", "0"]
    return ["convert", given / "edges.csv", out / "graph", "--fresh"]


def check_failed(code: int, out: str, err: str, word: str) -> None:
    assert code == 2, err
    assert err.startswith("nodeproof: ")
    assert word in err
    assert err.count("\n") == 1
    assert out == ""


# Disks that are full, folders that are not to be written to. ------------------------------------


@pytest.mark.parametrize("name", ["fit", "predict", "certify"])
@pytest.mark.parametrize("old", [False, True], ids=["first", "again"])
def test_a_full_disk_is_one_line_and_what_was_there_stays(
    name: str, old: bool, seeds: Seeds, tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = command_of(name, tmp_path, seeds)
    if old:
        assert run(capsys, *command)[0] == 0
    before = snapshot(tmp_path)

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    check_failed(*run(capsys, *command), "No space left on device")
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("name", ["fit", "predict", "certify"])
def test_a_read_only_folder_is_told_before_the_work(
    name: str, seeds: Seeds, tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = command_of(name, tmp_path, seeds)
    before = snapshot(tmp_path)
    monkeypatch.setattr(
        os, "access", lambda path, mode: Path(path) != tmp_path or not mode & os.W_OK
    )
    for work in ("fit", "certify", "predict_proba"):
        monkeypatch.delattr(NodeClassifier, work)
    check_failed(
        *run(capsys, *command), f"cannot write into the folder {tmp_path}: it is read-only"
    )
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("name", ["fit", "predict", "certify"])
def test_a_read_only_folder_is_one_line(
    name: str, seeds: Seeds, tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = command_of(name, tmp_path, seeds)
    before = snapshot(tmp_path)
    make = Path.mkdir

    def refuse(self: Path, *arguments: Any, **options: Any) -> None:
        if tmp_path in self.parents:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self))
        make(self, *arguments, **options)

    monkeypatch.setattr(Path, "mkdir", refuse)
    check_failed(*run(capsys, *command), "Permission denied")
    assert snapshot(tmp_path) == before


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write to any folder"
)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_folder_without_permission_is_one_line(
    name: str, seeds: Seeds, tmp_path: Path, capsys
) -> None:
    command = command_of(name, tmp_path, seeds)
    before = snapshot(tmp_path)
    tmp_path.chmod(0o500)
    try:
        code, out, err = run(capsys, *command)
    finally:
        tmp_path.chmod(0o700)
    assert (code, out) == (2, "")
    assert "read-only" in err or "Permission denied" in err
    assert err.count("\n") == 1
    assert snapshot(tmp_path) == before


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Make small disks, where that is permitted."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = []

    def make(*options: str) -> Path:
        tool = shutil.which("mount")
        words = [tool or "mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", str(place)]
        if tool is None or subprocess.run(words, capture_output=True, check=False).returncode:
            pytest.skip("a small disk cannot be mounted here")
        mounted.append(place)
        return place

    yield make
    for disk in mounted:
        subprocess.run(["umount", "-l", str(disk)], check=True)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_disk_that_is_really_full_is_one_line(
    name: str, seeds: Seeds, mount: Callable[..., Path], capsys
) -> None:
    pytest.importorskip("duckdb")
    disk = mount("size=16k" if name != "certify" else "size=64k")
    command = command_of(name, disk, seeds)
    shutil.copy(seeds.folder / "edges.csv", disk / "filler")
    for k in range(20):  # until there is no page left but a few
        if shutil.disk_usage(disk).free < 8192:
            break
        (disk / f"filler {k}").write_bytes(bytes(4096))
    if name == "predict":
        (disk / "rest").write_bytes(bytes(shutil.disk_usage(disk).free))
    before = snapshot(disk)
    code, out, err = run(capsys, *command)
    assert (code, out) == (2, "")
    assert err.startswith("nodeproof: ")
    assert err.count("\n") == 1
    left = snapshot(disk)
    # What a conversion has begun is kept for the next run.
    assert {name: left[name] for name in left if "partial" not in name} == before


@pytest.mark.parametrize("name", ["fit", "predict"])
def test_a_disk_that_is_really_read_only_is_one_line(
    name: str, seeds: Seeds, mount: Callable[..., Path], capsys
) -> None:
    disk = mount("size=64k", "ro")
    check_failed(*run(capsys, *command_of(name, disk, seeds)), "it is read-only")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_output_that_nobody_can_take_is_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "nodeproof", "data", "list", "--json"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert ended.returncode == 2
    assert ended.stderr == "nodeproof: No space left on device\n"


@pytest.mark.parametrize("place", ["file", "missing/out", "file/out", "loop"])
@pytest.mark.parametrize("name", ["fit", "convert"])
def test_a_place_where_no_folder_can_be_is_one_line(
    place: str, name: str, seeds: Seeds, tmp_path: Path, capsys
) -> None:
    pytest.importorskip("duckdb")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "loop").symlink_to("loop")
    before = sorted(path.name for path in tmp_path.iterdir())
    edges, out = seeds.folder / "edges.csv", tmp_path / place
    command = ["fit", edges, "--out", out] if name == "fit" else ["convert", edges, out]
    code, printed, err = run(capsys, *command)
    assert (code, printed) == (2, "")
    assert err.startswith("nodeproof: ")
    assert err.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert (tmp_path / "file").read_text() == "mine"


# Ctrl-C. ----------------------------------------------------------------------------------------


def check_fit(out: Path) -> None:
    with (out / "predictions.csv").open() as file:
        assert len(list(csv.reader(file))) == 61
    json.loads((out / "summary.json").read_text())
    assert len(NodeClassifier.load(out / "model.npz").labels_) == 60


def check_certify(out: Path) -> None:
    model = NodeClassifier.load(out / "model.npz")
    assert Certificate.load(out / "certificate.npz").verify(model)
    json.loads((out / "certificate.json").read_text())
    assert len((out / "certificate.csv").read_text().splitlines()) == 61


def check_predict(out: Path) -> None:
    assert len((out / "new.csv").read_text().splitlines()) == 2


def check_convert(out: Path) -> None:
    GraphFolder.open(out / "graph").verify()


def check_demo(out: Path) -> None:
    json.loads((out / "demo" / "demo.json").read_text())


WHOLE = {
    "fit": (check_fit, "summary.json"),
    "certify": (check_certify, "certificate.json"),
    "predict": (check_predict, "new.csv"),
    "convert": (check_convert, "graph/graph.json"),
    "demo": (check_demo, "demo/demo.json"),
}


def start(command: list[Any]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "nodeproof", *map(str, command)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=ENVIRONMENT,
        # Where tests run in the background, Ctrl-C is ignored, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", WHOLE)
def test_ctrl_c_at_any_moment_leaves_whole_files_or_none(
    name: str, seeds: Seeds, tmp_path: Path
) -> None:
    pytest.importorskip("duckdb")
    check, token = WHOLE[name]

    def prepared(folder: Path) -> list[Any]:
        folder.mkdir()
        if name == "demo":
            return ["demo", "--out", folder / "demo"]
        return command_of(name, folder, seeds)

    began = time.monotonic()
    assert start(prepared(tmp_path / "whole")).wait() == 0
    lasted = time.monotonic() - began
    check(tmp_path / "whole")
    expected = set(snapshot(tmp_path / "whole"))
    for k in range(4):
        folder = tmp_path / str(k)
        command = prepared(folder)
        before = set(snapshot(folder))
        process = start(command)
        # Most moments lie near the end, where files are written.
        time.sleep(lasted * (0.1 + 0.9 * (k / 3) ** 0.5))
        process.send_signal(signal.SIGINT)
        process.wait(timeout=120)
        left = {found for found in snapshot(folder) if ".partial" not in found}
        if (folder / token).exists():
            check(folder)
            assert left == expected
        else:
            assert left == before
