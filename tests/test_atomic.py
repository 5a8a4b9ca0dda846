"""Outputs are whole or not there."""

import errno
import os
import re
import shutil
import signal
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nodeproof.errors import InputError
from nodeproof.storage.atomic import atomic_folder, atomic_path

pytestmark = pytest.mark.numeric


def listing(folder: Path) -> list[str]:
    return sorted(found.relative_to(folder).as_posix() for found in folder.rglob("*"))


def test_a_file_appears_only_when_it_is_complete(tmp_path: Path) -> None:
    with atomic_path(tmp_path / "out.csv") as temporary:
        temporary.write_text("whole")
        assert temporary.parent.parent == tmp_path
        assert not (tmp_path / "out.csv").exists()
    assert (tmp_path / "out.csv").read_text() == "whole"
    assert listing(tmp_path) == ["out.csv"]


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt, SystemExit])
def test_after_a_failure_the_old_file_is_as_it_was(
    tmp_path: Path, failure: type[BaseException]
) -> None:
    path = tmp_path / "out.csv"
    path.write_text("old")

    def fail_halfway() -> None:
        with atomic_path(path) as temporary:
            temporary.write_text("half of the n")
            raise failure

    with pytest.raises(failure):
        fail_halfway()
    assert path.read_text() == "old"
    assert listing(tmp_path) == ["out.csv"]


def test_a_block_that_fails_before_writing_keeps_its_error(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), atomic_path(tmp_path / "out.csv"):
        _ = 1 / 0
    assert listing(tmp_path) == []


def test_savez_finds_the_suffix_it_wants(tmp_path: Path) -> None:
    with atomic_path(tmp_path / "model.npz") as temporary:
        np.savez(temporary, x=np.arange(3))
    assert listing(tmp_path) == ["model.npz"]


@pytest.mark.skipif(os.name == "nt", reason="POSIX permissions")
@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_a_new_file_has_the_permissions_that_open_gives(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        with atomic_path(tmp_path / "out") as temporary:
            temporary.write_text("x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o666 & ~mask


@pytest.mark.skipif(os.name == "nt", reason="POSIX permissions")
def test_an_overwritten_file_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("old")
    path.chmod(0o640)
    with atomic_path(path) as temporary:
        temporary.write_text("new")
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.skipif(os.name == "nt", reason="POSIX permissions")
def test_what_replaces_a_private_file_is_private_from_the_first_byte_on(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    path = tmp_path / "out" / "model.npz"
    path.write_text("old")
    path.chmod(0o600)

    def seen_by_others(file: Path) -> bool:
        folders = [folder for folder in file.parents if tmp_path in folder.parents]
        modes = [found.stat().st_mode for found in (file, *folders)]
        return all(mode & 0o077 for mode in modes)

    with atomic_path(path) as temporary:
        temporary.write_text("new")
        assert not seen_by_others(temporary)
    with atomic_folder(tmp_path / "out") as folder:
        (folder / "model.npz").write_text("newer")
        assert not seen_by_others(folder / "model.npz")
    assert path.read_text() == "newer"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert listing(tmp_path) == ["out", "out/model.npz"]


@pytest.mark.skipif(os.name == "nt", reason="POSIX permissions")
def test_a_new_folder_has_the_permissions_that_mkdir_gives(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with atomic_folder(tmp_path / "out"):
        pass
    assert (tmp_path / "out").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_a_block_that_writes_nothing_leaves_the_old_file(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("old")
    with pytest.raises(FileNotFoundError), atomic_path(tmp_path / "out"):
        pass
    assert (tmp_path / "out").read_text() == "old"
    assert listing(tmp_path) == ["out"]


def test_all_files_of_a_folder_are_replaced_or_none(tmp_path: Path) -> None:
    (tmp_path / "b.json").mkdir()
    (tmp_path / "a.csv").write_text("old")
    (tmp_path / "other").write_text("old")

    def write() -> None:
        with atomic_folder(tmp_path, without=["other"]) as temporary:
            for name in ("a.csv", "b.json"):
                (temporary / name).write_text("new")

    with pytest.raises(InputError, match=re.escape(f"{tmp_path / 'b.json'}: it is a folder")):
        write()
    assert (tmp_path / "a.csv").read_text() == "old"
    assert listing(tmp_path) == ["a.csv", "b.json", "other"]


@pytest.mark.skipif(os.name == "nt", reason="links need rights on Windows")
def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with atomic_path(tmp_path / "link") as temporary:
        temporary.write_text("new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(InputError, match="nowhere does not exist"),
        atomic_path(tmp_path / "nowhere" / "out.csv"),
    ):
        pass


def test_a_folder_is_no_file_and_a_file_is_no_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="it is a folder"), atomic_path(tmp_path):
        pass
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="it is a file"), atomic_folder(tmp_path / "file"):
        pass


def test_a_new_folder_appears_with_all_its_files(tmp_path: Path) -> None:
    with atomic_folder(tmp_path / "out") as temporary:
        (temporary / "a").write_text("1")
        (temporary / "sub").mkdir()
        (temporary / "sub" / "b").write_text("2")
        assert not (tmp_path / "out").exists()
    assert listing(tmp_path) == ["out", "out/a", "out/sub", "out/sub/b"]


def test_other_files_of_the_folder_stay(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "a").write_text("old")
    (out / "mine").write_text("mine")
    with atomic_folder(out) as temporary:
        (temporary / "a").write_text("new")
        (temporary / "sub").mkdir()
        (temporary / "sub" / "b").write_text("2")
    assert (out / "a").read_text() == "new"
    assert listing(tmp_path) == ["out", "out/a", "out/mine", "out/sub", "out/sub/b"]


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt])
def test_after_a_failure_no_file_of_the_folder_has_changed(
    tmp_path: Path, failure: type[BaseException]
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "a").write_text("old")

    def fail_halfway() -> None:
        with atomic_folder(out) as temporary:
            (temporary / "a").write_text("new")
            raise failure

    with pytest.raises(failure):
        fail_halfway()
    assert (out / "a").read_text() == "old"
    assert listing(tmp_path) == ["out", "out/a"]


@pytest.mark.skipif(os.name == "nt", reason="POSIX permissions")
def test_nothing_is_ever_for_all_to_write(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with atomic_path(tmp_path / "out") as temporary:
            temporary.write_text("x")
            assert stat.S_IMODE(temporary.parent.stat().st_mode) == 0o700
        with atomic_folder(tmp_path / "folder") as temporary:
            (temporary / "a").write_text("x")
    finally:
        os.umask(before)
    for path in (tmp_path / "out", tmp_path / "folder", tmp_path / "folder" / "a"):
        assert not path.stat().st_mode & stat.S_IWOTH


NO_PLACE = [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES]


@pytest.mark.parametrize("number", NO_PLACE, ids=errno.errorcode.get)
def test_a_place_that_takes_nothing_is_named_and_the_old_file_kept(
    tmp_path: Path, number: int
) -> None:
    (tmp_path / "out").write_text("old")

    def fail() -> None:
        with atomic_path(tmp_path / "out") as temporary:
            temporary.write_text("half")
            raise OSError(number, os.strerror(number))

    message = f"cannot write {tmp_path / 'out'}: {os.strerror(number)}"
    with pytest.raises(InputError, match=re.escape(message)):
        fail()
    assert (tmp_path / "out").read_text() == "old"
    assert listing(tmp_path) == ["out"]


def test_a_disk_that_fills_at_the_last_moment_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some file systems find out only when the content is to be on the disk."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a").write_text("old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    for open_it, path in ((atomic_path, tmp_path / "out" / "a"), (atomic_folder, tmp_path / "out")):
        with pytest.raises(InputError, match="No space left"), open_it(path) as temporary:
            (temporary if open_it is atomic_path else temporary / "a").write_text("new")
    assert (tmp_path / "out" / "a").read_text() == "old"
    assert listing(tmp_path) == ["out", "out/a"]


@pytest.mark.parametrize("open_it", [atomic_path, atomic_folder])
def test_a_place_without_room_for_a_temporary_folder_is_called_by_its_own_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, open_it: Any
) -> None:
    def refuse(self: Path, *_: object, **__: object) -> None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self))

    monkeypatch.setattr(Path, "mkdir", refuse)
    message = f"cannot write {tmp_path / 'out'}: No such file or directory"
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"), open_it(tmp_path / "out"):
        pass


def test_other_errors_of_a_block_stay_what_they_are(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), atomic_path(tmp_path / "out"):
        (tmp_path / "nowhere").read_text()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_or_a_device_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path(os.devnull)):
        with pytest.raises(InputError, match="a pipe or a device"), atomic_path(path):
            pass


@pytest.mark.skipif(os.name == "nt", reason="links need rights on Windows")
def test_a_loop_of_links_is_no_place(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(InputError, match="cannot write"), atomic_path(tmp_path / "loop"):
        pass
    assert listing(tmp_path) == ["loop"]


def test_names_of_temporary_files_cannot_be_foreseen(tmp_path: Path) -> None:
    seen = set()
    for _ in range(5):
        with atomic_path(tmp_path / "out") as temporary:
            temporary.write_text("x")
            seen.add(temporary.parent.name)
    assert len(seen) == 5


def test_ctrl_c_waits_until_all_files_have_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    for name in "abc":
        (out / name).write_text("old")
    replace = Path.replace

    def interrupted(self: Path, target: Path) -> Path:
        if self.name == "b":
            signal.raise_signal(signal.SIGINT)
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", interrupted)

    def write_all() -> None:
        with atomic_folder(out) as temporary:
            for name in "abc":
                (temporary / name).write_text("new")

    with pytest.raises(KeyboardInterrupt):
        write_all()
    assert {(out / name).read_text() for name in "abc"} == {"new"}
    assert listing(tmp_path) == ["out", "out/a", "out/b", "out/c"]


def test_a_second_ctrl_c_does_not_leave_a_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remove = shutil.rmtree

    def impatient(path: Path, **options: object) -> None:
        signal.raise_signal(signal.SIGINT)
        remove(path, **options)

    monkeypatch.setattr(shutil, "rmtree", impatient)

    def interrupt() -> None:
        with atomic_path(tmp_path / "out") as temporary:
            temporary.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupt()
    assert listing(tmp_path) == []


@pytest.mark.parametrize("there", [True, False])
def test_a_file_of_a_folder_is_called_by_the_name_that_it_would_have_had(
    tmp_path: Path, there: bool
) -> None:
    out = tmp_path / "out"
    if there:
        out.mkdir()
    with (
        pytest.raises(InputError) as caught,
        atomic_folder(out) as folder,
        atomic_path(folder / "model.npz"),
    ):
        raise OSError(errno.ENOSPC, "said at length by another library")
    assert str(caught.value) == f"cannot write {out / 'model.npz'}: No space left on device"


@pytest.mark.skipif(os.name == "nt", reason="folders cannot be opened there")
@pytest.mark.parametrize("there", [True, False])
def test_names_are_on_the_disk_before_anybody_relies_on_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    """Of the files inside before a new folder gets its name, and of what has been renamed."""
    synced: list[tuple[str, list[str]]] = []

    def note(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").resolve()
        if path.is_dir():
            synced.append((path.name, sorted(found.name for found in path.iterdir())))

    if not Path("/proc/self/fd").exists():
        pytest.skip("nothing tells which folder is meant")
    out = tmp_path / "out"
    if there:
        out.mkdir()
    monkeypatch.setattr(os, "fsync", note)
    with atomic_folder(out) as folder:
        (folder / "a.csv").write_text("a")
    assert any("a.csv" in names for _, names in synced)
    assert synced[-1][0] == (out if there else tmp_path).name
    with atomic_path(tmp_path / "b.csv") as file:
        file.write_text("b")
    assert "b.csv" in synced[-1][1]
