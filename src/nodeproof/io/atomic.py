"""Write a file, or a folder of files, so that no half-written one is ever seen."""

from __future__ import annotations

import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nodeproof.errors import InputError

__all__ = ["atomic_folder", "atomic_path"]


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

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from nodeproof.io import atomic_path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with atomic_path(Path(folder, "labels.csv")) as temporary:
    ...         _ = temporary.write_text("node,label")
    ...     [found.name for found in Path(folder).iterdir()]
    ['labels.csv']
    """
    final = Path(path).resolve()
    if final.is_dir():
        raise InputError(f"cannot write the file {path}: it is a folder; give a file name")
    temporary = _temporary_sibling(final)
    try:
        if final.exists():
            # What is replaced may be for few eyes; so is what replaces it, from the first byte on.
            temporary.mkdir(mode=0o700)
            yield temporary / final.name
            _replace(temporary / final.name, final)
        else:
            yield temporary
            temporary.replace(final)
    finally:
        if temporary.is_dir():
            shutil.rmtree(temporary, ignore_errors=True)
        temporary.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary folder whose files move into ``path`` once the block has succeeded.

    No file appears before all of them are complete. A new folder appears in one step; into one
    that exists already the files are moved one by one, with the permissions of those that they
    replace, and its other files stay.

    Parameters
    ----------
    path : str or path
        The folder; it is made if it is not there, but its parent must exist.

    Yields
    ------
    pathlib.Path
        The folder where the block must write.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from nodeproof.io import atomic_folder
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with atomic_folder(Path(folder, "out")) as temporary:
    ...         _ = (temporary / "labels.csv").write_text("node,label")
    ...     [found.name for found in Path(folder, "out").iterdir()]
    ['labels.csv']
    """
    final = Path(path).resolve()
    if final.exists() and not final.is_dir():
        raise InputError(f"cannot write into the folder {path}: it is a file; give a folder")
    temporary = _temporary_sibling(final)
    temporary.mkdir(mode=0o700 if final.exists() else 0o777)
    try:
        yield temporary
        if final.exists():
            _move_files(temporary, final)
        else:
            temporary.rename(final)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _temporary_sibling(final: Path) -> Path:
    if not final.parent.is_dir():
        raise InputError(
            f"cannot write {final}: the folder {final.parent} does not exist; create it first"
        )
    # The suffix stays last: numpy.savez and others add theirs to a name that lacks it.
    return final.with_name(f".{secrets.token_hex(6)}.{final.name}")


def _move_files(folder: Path, final: Path) -> None:
    for file in sorted(found for found in folder.rglob("*") if found.is_file()):
        place = final / file.relative_to(folder)
        place.parent.mkdir(parents=True, exist_ok=True)
        _replace(file, place)


def _replace(file: Path, place: Path) -> None:
    """Move a file to its place, with the permissions of the one that is there."""
    if place.exists():
        file.chmod(stat.S_IMODE(place.stat().st_mode))
    file.replace(place)
