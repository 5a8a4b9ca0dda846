"""Whether results can be written where they shall be, asked before the work."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

from nodeproof.errors import InputError
from nodeproof.io.regular import check_writable, resolved

__all__ = ["check_folder", "check_places"]


def check_folder(out: Path, names: Iterable[str] = ()) -> None:
    """Fail before the work, not after it, where the results could not be written.

    Parameters
    ----------
    out : path
        The folder for the results.
    names : iterable of str
        Files that will be written there.
    """
    if out.exists() and not out.is_dir():
        raise InputError(f"--out {out} is a file; give a folder")
    if not resolved(out).parent.is_dir():
        raise InputError(f"--out {out}: the folder {resolved(out).parent} does not exist")
    folder = out if out.exists() else resolved(out).parent
    check_writable(folder)
    try:  # where rights say nothing, as in /proc
        Path(tempfile.mkdtemp(prefix=".", dir=folder)).rmdir()
    except OSError as error:
        reason = error.strerror or error
        raise InputError(f"--out {out}: cannot write into the folder {folder}: {reason}") from None
    check_places(out, names)


def check_places(folder: Path, names: Iterable[str]) -> None:
    """Refuse a folder in which another folder has the name of a file to be written."""
    for name in names:
        if (folder / name).is_dir():
            raise InputError(f"cannot write the file {folder / name}: it is a folder; move it away")
