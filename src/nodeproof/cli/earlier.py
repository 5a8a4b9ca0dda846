"""What an earlier fit left in a folder and a new one makes untrue."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

__all__ = ["outdated_files"]

# What some fits write and others do not, or other commands add, with how it begins: people have
# files of such names, too.
_OUTPUTS = {
    "report.html": b'content="nodeproof ',
    "query.csv": b'"node","label","probability","gain"',
    "certificate.npz": b"PK",
    "certificate.json": b'"nodeproof"',
    "certificate.csv": b'"node","label","best_label","certified"',
    "certificate.png": b"\x89PNG",
}
_BEGINNING = 4096


def outdated_files(folder: Path, written: Iterable[str], read: Iterable[Path | None]) -> list[str]:
    """Return the names of files in a folder of results that a new fit makes untrue.

    Parameters
    ----------
    folder : path
        The folder that the fit is written to.
    written : iterable of str
        What it writes there.
    read : iterable of path
        What it is made from: that stays in any case.
    """
    if not (folder / "model.npz").is_file():
        return []
    kept = {path.resolve() for path in read if path is not None}
    return [
        name
        for name, sign in _OUTPUTS.items()
        if name not in written
        and (folder / name).is_file()
        and (folder / name).resolve() not in kept
        and sign in _beginning(folder / name)
    ]


def _beginning(file: Path) -> bytes:
    with file.open("rb") as opened:
        return opened.read(_BEGINNING)
