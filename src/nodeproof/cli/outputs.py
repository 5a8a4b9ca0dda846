"""Whether results can be written where they shall be, asked before the work."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

from nodeproof.errors import InputError
from nodeproof.io.regular import check_writable, resolved

__all__ = ["check_file", "check_folder", "check_places"]

# What lies beside a model, and says the same as it; a report can be made anew from the others.
_RESULTS = (
    *("predictions.csv", "summary.json", "query.csv", "certificate.npz", "certificate.json"),
    *("certificate.csv", "certificate.png"),
)


def check_file(out: Path, model: Path, read: Iterable[Path | None] = ()) -> None:
    """Fail before the work where a file could not be written, or must not be.

    Parameters
    ----------
    out : path
        The file for the results.
    model : path
        The model that they are made from: neither it nor what lies beside it is replaced.
    read : iterable of path
        What else they are made from.
    """
    if out.is_dir():
        raise InputError(f"--out {out} is a folder; give a file")
    if not resolved(out).parent.is_dir():
        raise InputError(f"--out {out}: the folder {resolved(out).parent} does not exist")
    check_writable(resolved(out).parent)
    written = [resolved(model)]
    if model.name == "model.npz":
        written += [resolved(model.with_name(name)) for name in _RESULTS]
    if resolved(out) in written:
        raise InputError(f"--out {out} would overwrite what the fit has written; give another name")
    _check_inputs(out, [out], read)


def check_folder(out: Path, names: Iterable[str] = (), read: Iterable[Path | None] = ()) -> None:
    """Fail before the work, not after it, where the results could not be written.

    Parameters
    ----------
    out : path
        The folder for the results.
    names : iterable of str
        Files that will be written there.
    read : iterable of path
        What they are made from: it is not replaced.
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
    _check_inputs(out, [out / name for name in names], read)


def check_places(folder: Path, names: Iterable[str]) -> None:
    """Refuse a folder in which another folder has the name of a file to be written."""
    for name in names:
        if (folder / name).is_dir():
            raise InputError(f"cannot write the file {folder / name}: it is a folder; move it away")


def _check_inputs(out: Path, written: list[Path], read: Iterable[Path | None]) -> None:
    there = [place for place in written if place.exists()]
    for path in read:
        if path is not None and path.exists() and any(path.samefile(place) for place in there):
            raise InputError(f"--out {out} would overwrite {path}, which is read; give another")
