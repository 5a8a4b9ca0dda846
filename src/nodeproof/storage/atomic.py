"""Files that are complete or not there: checks of paths, and atomic writes of files and folders."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import signal
import stat
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from nodeproof.errors import InputError

__all__ = ["atomic_folder", "atomic_path", "check_regular", "check_writable", "resolved"]


def check_regular(path: str | os.PathLike[str]) -> None:
    """Refuse a path that is not a regular file: missing, a folder, or a pipe that would block.

    Examples
    --------
    >>> check_regular("/")
    Traceback (most recent call last):
    nodeproof.errors.InputError: / is a folder; give a file
    """
    try:
        mode = Path(path).stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"{path} does not exist; check the path") from None
    except (OSError, ValueError) as error:  # a loop of links; an invalid name
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot read {path}: {reason}") from None
    if stat.S_ISDIR(mode):
        raise InputError(f"{path} is a folder; give a file")
    if not stat.S_ISREG(mode):
        raise InputError(f"{path} is a pipe or a device; save what comes from it to a file first")


def resolved(path: str | os.PathLike[str]) -> Path:
    """Return where something is, or would be written, with links resolved."""
    try:
        return Path(path).resolve()
    except (OSError, RuntimeError, ValueError):  # a loop of links; an invalid name
        raise InputError(f"cannot write {path}: there can be no such file or folder") from None


def check_writable(folder: Path) -> None:
    """Refuse a read-only folder before any work is done."""
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"cannot write into the folder {folder}: it is read-only")


# The umask decides on new folders, but they are never writable for everybody.
# On Windows a private folder has an access list that files keep when they are moved elsewhere.
_PRIVATE, _FOLDER_MODE = 0o777 if os.name == "nt" else 0o700, 0o775

# Errors of the place, not of the work; numpy raises one without a number if a disk is full.
_NO_PLACE = (
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM),
    *(errno.EIO, errno.ENAMETOOLONG, None),
)


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path that takes the place of ``path`` once the block has succeeded.

    The temporary file lies in the same folder, or in one there that nobody else can open, and has
    the same suffix. If the block fails in any way, Ctrl-C included, it is deleted and what was at
    ``path`` before stays as it was. The file gets the permissions that ``open(path, "w")`` would
    give it: those of the file that it replaces, if there is one.

    Parameters
    ----------
    path : str or path
        Where the file shall be; its folder must exist. Of a link, the file it points to is
        replaced.

    Yields
    ------
    pathlib.Path
        Where the block must write the file.

    Raises
    ------
    InputError
        If it cannot be written: there is no folder, no permission, or no room on the disk.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from nodeproof.storage.atomic import atomic_path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with atomic_path(Path(folder, "labels.csv")) as temporary:
    ...         _ = temporary.write_text("node,label")
    ...     [found.name for found in Path(folder).iterdir()]
    ['labels.csv']
    """
    final = resolved(path)
    if final.is_dir():
        raise InputError(f"cannot write the file {path}: it is a folder; give a file name")
    if final.exists() and not final.is_file():
        raise InputError(f"cannot write the file {path}: it is a pipe or a device")
    temporary = _temporary_sibling(final)
    file = temporary / final.name
    with _naming(path), _removing(temporary):
        _make(temporary, _PRIVATE, path)
        yield file
        _finish(file)
        _replace(file, final)
        _fix_names(final.parent)


@contextmanager
def atomic_folder(path: str | os.PathLike[str], without: Iterable[str] = ()) -> Iterator[Path]:
    """Yield a temporary folder whose files move into ``path`` once the block has succeeded.

    No file appears before all of them are complete. A new folder appears in one step; into one
    that exists already the files are moved one by one, with the permissions of those that they
    replace, and its other files stay, but for those named.

    Parameters
    ----------
    path : str or path
        The folder; it is made if it is not there, but its parent must exist.
    without : iterable of str
        Names of files there that go when the others come.

    Yields
    ------
    pathlib.Path
        The folder where the block must write.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from nodeproof.storage.atomic import atomic_folder
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with atomic_folder(Path(folder, "out")) as temporary:
    ...         _ = (temporary / "labels.csv").write_text("node,label")
    ...     [found.name for found in Path(folder, "out").iterdir()]
    ['labels.csv']
    """
    final = resolved(path)
    if final.exists() and not final.is_dir():
        raise InputError(f"cannot write into the folder {path}: it is a file; give a folder")
    # Inside an existing folder: it may be a disk of its own, and its parent read-only.
    temporary = _temporary_sibling(final / final.name if final.exists() else final)
    with _naming(path, temporary), _removing(temporary):
        # What is replaced may be private, so what replaces it is from the first byte on.
        _make(temporary, _PRIVATE if final.exists() else _FOLDER_MODE, path)
        yield temporary
        for file in _files(temporary):
            _finish(file)
        if final.exists():
            _move_files(temporary, final, without)
        else:
            for folder in {temporary, *(file.parent for file in _files(temporary))}:
                _fix_names(folder)
            temporary.rename(final)
            _fix_names(final.parent)


def _temporary_sibling(final: Path) -> Path:
    if not final.parent.is_dir():
        raise InputError(
            f"cannot write {final}: the folder {final.parent} does not exist; create it first"
        )
    # The suffix stays last: numpy.savez and others add theirs to a name that lacks it.
    return final.with_name(f".{secrets.token_hex(6)}.{final.name}")


def _make(temporary: Path, mode: int, path: str | os.PathLike[str]) -> None:
    """Make a temporary folder; an error names what was to be written."""
    try:
        temporary.mkdir(mode)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from None


def _finish(path: Path) -> None:
    """Wait until a file is on the disk: after a power cut, a name without content is useless."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())
    path.chmod(stat.S_IMODE(path.stat().st_mode) & ~stat.S_IWOTH)


def _fix_names(folder: Path) -> None:
    """Wait until the names in a folder are on the disk: what they replace may only go then."""
    if os.name == "nt":
        return  # where folders cannot be opened
    try:
        opened = os.open(folder, os.O_RDONLY)
    except PermissionError:
        return  # one that can be written to and not read
    try:
        os.fsync(opened)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # not every file system can
            raise
    finally:
        os.close(opened)


def _files(folder: Path) -> list[Path]:
    return sorted(found for found in folder.rglob("*") if found.is_file())


def _move_files(folder: Path, final: Path, without: Iterable[str]) -> None:
    places = {file: final / file.relative_to(folder) for file in _files(folder)}
    for place in places.values():  # before the first is moved: all of them or none
        if place.is_dir():
            raise InputError(f"cannot write the file {place}: it is a folder; move it away")
    with _undisturbed():
        # These first: beside the new files they would seem to belong to them.
        for name in without:
            (final / name).unlink(missing_ok=True)
        for file, place in places.items():
            place.parent.mkdir(_FOLDER_MODE, parents=True, exist_ok=True)
            _replace(file, place)
        for changed in {final, *(place.parent for place in places.values())}:
            _fix_names(changed)


def _replace(file: Path, place: Path) -> None:
    """Move a file to its place, with the permissions of the file that it replaces."""
    if place.exists():
        file.chmod(stat.S_IMODE(place.stat().st_mode))
    file.replace(place)


@contextmanager
def _removing(temporary: Path) -> Iterator[None]:
    """Remove a folder at the end, if it is still there; a second Ctrl-C waits for that."""
    try:
        yield
    finally:
        with _undisturbed():
            shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def _naming(path: str | os.PathLike[str], temporary: Path | None = None) -> Iterator[None]:
    """Raise an error of one line on what could not be written, if the place is at fault.

    Nobody knows the temporary folder that a file was to be written to first.
    """
    try:
        yield
    except InputError as error:
        if temporary is None or str(temporary) not in str(error):
            raise
        raise InputError(str(error).replace(str(temporary), str(path))) from None
    except OSError as error:
        if error.errno not in _NO_PLACE:
            raise
        # The messages of other libraries are longer.
        reason = os.strerror(error.errno) if error.errno else error
        raise InputError(f"cannot write {path}: {reason}") from None


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Delay Ctrl-C until a few renames are done."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before or signal.SIG_DFL)
        if came:
            signal.raise_signal(signal.SIGINT)
