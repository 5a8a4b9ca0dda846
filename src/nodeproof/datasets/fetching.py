"""Fetch the files of a public data set once, and check them ever after.

A file is kept only if its sha256 is the one in the registry. Where none is listed there, the first
download is trusted: its sha256 is written beside the file (``<file>.sha256``), and from then on
the file, and any later download of it, must match. That protects from later changes and damage,
but not from a first download that was already wrong. No download is led away from https.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

from nodeproof.datasets.registry import Source
from nodeproof.errors import InputError, MissingExtraError
from nodeproof.io.atomic import atomic_path
from nodeproof.io.files import reading

__all__ = ["cache_folder", "fetch", "forget", "record_of"]


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
    return [
        folder / name
        for name, checksum in source.files.items()
        if _fetch_file(f"{source.home}/{name}", folder / name, checksum, progress)
    ]


def forget(path: Path) -> None:
    """Delete a file, and the checksum that its first download left."""
    path.unlink(missing_ok=True)
    record_of(path).unlink(missing_ok=True)


def record_of(path: Path) -> Path:
    """Return where the checksum of a first download is kept."""
    return path.with_name(f"{path.name}.sha256")


def _fetch_file(url: str, path: Path, checksum: str | None, progress: Any) -> bool:
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
        _download(url, temporary, known, progress)
        if known is None:
            _trust(temporary, path)
    return True


def _download(url: str, path: Path, known: str | None, progress: Any) -> None:
    pooch = _pooch()
    with _silent(pooch.get_logger()):
        try:
            pooch.retrieve(
                url,
                known_hash=None if known is None else f"sha256:{known}",
                fname=path.name,
                path=path.parent,
                downloader=pooch.HTTPDownloader(
                    progressbar=progress or False,
                    chunk_size=1 << 16,
                    hooks={"response": _stay_secure},
                ),
            )
        except OSError as error:  # all that requests raises
            raise InputError(f"cannot fetch {url}: {error}") from None
        except ValueError:
            raise InputError(
                f"{url} is not the file that it must be: its sha256 is not {known}; nothing is kept"
            ) from None


def _stay_secure(response: Any, **_: Any) -> None:
    """Refuse to be led from https to where anybody on the way could change the file."""
    place = urljoin(response.url, response.headers.get("location", ""))
    if response.url.startswith("https:") and not place.startswith("https:"):
        raise OSError(f"it leads to {place}, which is not https")


def _trust(content: Path, path: Path) -> None:
    """Write the checksum of a file beside where it will lie."""
    with atomic_path(record_of(path)) as temporary:
        temporary.write_text(f"{_sha256(content)}  {path.name}\n", encoding="utf-8")


def _recorded(path: Path) -> str | None:
    record = record_of(path)
    if not record.exists():
        return None
    with reading(record):
        return record.read_text(encoding="utf-8").split()[0]


def _sha256(path: Path) -> str:
    with reading(path), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _silent(logger: logging.Logger) -> Iterator[None]:
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)


def _pooch() -> Any:
    try:
        return import_module("pooch")
    except ImportError:
        raise MissingExtraError("pooch", "data") from None
