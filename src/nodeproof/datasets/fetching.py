"""Fetch the files of a public data set once, and check them ever after.

A file is kept only if its sha256 is the one in the registry. Where none is listed there, the first
download is trusted: its sha256 is written beside the file (``<file>.sha256``), and from then on
the file, and any later download of it, must match. That protects from later changes and damage,
but not from a first download that was already wrong. No download is redirected away from https,
and its size and duration are limited.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import Any, BinaryIO
from urllib.parse import urljoin

from nodeproof.datasets.registry import Source
from nodeproof.errors import InputError, MissingExtraError
from nodeproof.io.atomic import atomic_path
from nodeproof.io.files import reading
from nodeproof.memory import size_text

__all__ = ["cache_folder", "fetch", "forget", "record_of"]

# A file may have twice the size that is listed for the whole data set. These are the limits, in
# bytes, where that is little and where no size is listed.
_SMALL, _UNLISTED = 10_000_000, 500_000_000

# A download is given up when nothing comes for `_STALLED` seconds, and in any case after
# `_PATIENCE` seconds and what the largest file allowed takes at `_SLOWEST` bytes per second.
_STALLED, _PATIENCE, _SLOWEST = 30.0, 60.0, 100_000


def cache_folder(source: Source) -> Path:
    """Return the folder where the files of a data set are kept, in the user's cache."""
    return Path(_pooch().os_cache("nodeproof")) / source.name


def fetch(source: Source, folder: Path, progress: Any = None) -> list[Path]:
    """Return the files of a data set in a folder that were fetched just now.

    Parameters
    ----------
    source : Source
        The data set.
    folder : pathlib.Path
        Where its files are kept; those that are there already are only checked.
    progress : object, optional
        Is shown the download, as `pooch.HTTPDownloader` does it.

    Raises
    ------
    InputError
        If a file cannot be fetched, or is not what it must be. Nothing is kept of it.
    """
    most = _UNLISTED if source.megabytes is None else max(_SMALL, int(2e6 * source.megabytes))
    return [
        folder / name
        for name, checksum in source.files.items()
        if _fetch_file(f"{source.home}/{name}", folder / name, checksum, most, progress)
    ]


def forget(path: Path) -> None:
    """Delete a file, and the checksum that its first download left."""
    path.unlink(missing_ok=True)
    record_of(path).unlink(missing_ok=True)


def record_of(path: Path) -> Path:
    """Return where the checksum of a first download is kept."""
    return path.with_name(f"{path.name}.sha256")


def _fetch_file(url: str, path: Path, checksum: str | None, most: int, progress: Any) -> bool:
    """Make sure of one file; tell whether it was fetched just now."""
    known = checksum or _recorded(path)
    if path.exists():
        if known is None:
            _trust(path, path)
        elif known != _sha256(path):
            raise InputError(
                f"{path} is not what it was: its sha256 is not {known}; delete the file to fetch "
                "it again"
            )
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as temporary:
        _download(url, temporary, most, progress)
        if known is None:
            _trust(temporary, path)
        elif known != _sha256(temporary):
            raise InputError(
                f"{url} is not the file that it must be: its sha256 is not {known}; nothing is kept"
            )
    return True


def _download(url: str, path: Path, most: int, progress: Any) -> None:
    """Fetch what an address holds, `most` bytes or less, to a file."""
    downloader = _pooch().HTTPDownloader(
        progressbar=progress or False,
        chunk_size=1 << 16,
        timeout=_STALLED,
        hooks={"response": partial(_check_response, most)},
    )
    try:
        with path.open("wb") as file:
            _within(
                _PATIENCE + most / _SLOWEST,
                partial(downloader, url, _Limited(file, most), None),
            )
    except (OSError, ValueError) as error:  # all that requests raises
        raise InputError(f"cannot fetch {url}: {error}") from None


def _within(seconds: float, work: Callable[[], None]) -> None:
    """Do some work, and give it up after a number of seconds.

    A server that sends a byte now and then keeps whoever reads from it waiting, for a header or
    for a full block, without ever being silent for long. So it is read by another thread; when
    that is given up, it ends at the next thing it writes, or with the process.
    """
    failed: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            failed.append(error)

    thread = Thread(target=run, name="nodeproof-download", daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise OSError(f"it was not complete after {seconds:.0f} seconds")
    if failed:
        raise failed[0]


class _Limited:
    """A file that takes a limited number of bytes."""

    def __init__(self, file: BinaryIO, most: int) -> None:
        self._file, self._most, self._taken = file, most, 0

    def write(self, data: bytes) -> None:
        """Write some more, unless it is too much."""
        self._taken += len(data)
        _check_size(self._taken, self._most)
        self._file.write(data)

    def flush(self) -> None:
        """Do nothing: what is not complete is of no use on the disk."""


def _check_size(size: int, most: int) -> None:
    if size > most:
        raise OSError(f"it is larger than {size_text(most)}, far more than this file should have")


def _check_response(most: int, response: Any, **_: Any) -> None:
    """Refuse what is too large, and to be led from https to where others could change the file."""
    place = urljoin(response.url, response.headers.get("location", ""))
    if response.url.startswith("https:") and not place.startswith("https:"):
        raise OSError(f"it leads to {place}, which is not https")
    if response.is_redirect:
        response.close()  # else its own content would be read, whatever its size
        return
    declared = response.headers.get("content-length", "")
    if declared.isdecimal():
        _check_size(int(declared), most)


def _trust(content: Path, path: Path) -> None:
    """Write the checksum of a file beside where it will lie."""
    with atomic_path(record_of(path)) as temporary:
        temporary.write_text(f"{_sha256(content)}  {path.name}\n", encoding="utf-8")


def _recorded(path: Path) -> str | None:
    record = record_of(path)
    if not record.exists():
        return None
    with reading(record):
        found = re.match(rb"[0-9a-f]{64}(?=\s)", record.read_bytes())
    if found is None:
        raise InputError(
            f"{record} is damaged: it does not begin with a sha256; delete it and {path.name} to "
            "fetch the file again"
        )
    return found[0].decode()


def _sha256(path: Path) -> str:
    with reading(path), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _pooch() -> Any:
    try:
        return import_module("pooch")
    except ImportError:
        raise MissingExtraError("pooch", "data") from None
