"""Public data sets by their names."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from nodeproof.datasets.dataset import Dataset
from nodeproof.datasets.fetching import (
    REGISTRY,
    Source,
    cache_folder,
    fetch,
    find_source,
    forget,
    record_of,
)
from nodeproof.datasets.networks import karate_club
from nodeproof.datasets.reading import read_graph, recognise
from nodeproof.errors import InputError
from nodeproof.runtime.logs import warn_caller

__all__ = ["available", "load"]

#: environment variable with a folder to look in
VARIABLE = "NODEPROOF_DATA"


def available() -> list[str]:
    """Return the names that `load` knows.

    Examples
    --------
    >>> from nodeproof.datasets import available
    >>> available()[:3]
    ['cora', 'citeseer', 'pubmed']
    """
    return list(REGISTRY)


def load(
    name: str,
    *,
    folder: str | os.PathLike[str] | None = None,
    split: int | str | None = None,
    progress: Any = None,
) -> Dataset:
    """Return a public data set, from a folder, from the cache or from the web.

    It is looked for in ``folder``, in the folder that the environment variable
    ``NODEPROOF_DATA`` names, and in the user's cache, in this order. A folder may hold
    ``<name>.npz`` or the published files, possibly in a folder of the data set's name. Otherwise it
    is fetched into the cache, which needs ``pip install 'nodeproof[data]'``.

    Every file in the cache is checked on every use. If the checksum of a file is not known
    (see `nodeproof data list`), the first download is trusted: its sha256 is kept
    beside it, a warning says so, and later reads and downloads must match it. That does not help
    if the first download was already wrong. Files in ``folder`` or ``NODEPROOF_DATA`` are not
    checked.

    Parameters
    ----------
    name : str
        One of `available`; capitals, "-" and "_" make no difference.
    folder : str or path, optional
        Folder to look in first.
    split : int or str, optional
        Which split to take if there are several, see `read_graph`.
    progress : object, optional
        Progress bar of the download, as for `pooch.HTTPDownloader`.

    Returns
    -------
    Dataset

    Raises
    ------
    InputError
        If there is no such data set, or it cannot be fetched or read.
    MissingExtraError
        If a package that is needed is not installed.
    """
    source = find_source(name)
    for place in (folder, os.environ.get(VARIABLE)):
        if place and (found := _find(source, Path(place))) is not None:
            return read_graph(found, split=split)
    if source.format == "networkx":
        return karate_club()
    return _from_cache(source, split, progress)


def _find(source: Source, folder: Path) -> Path | None:
    """Return the file or folder of a data set inside a folder, or None."""
    if not folder.is_dir():
        raise InputError(f"{folder}, where {source.name} is looked for, is not a folder")
    stems = [source.name, source.name.replace("-", "_"), source.name.replace("_", "-")]
    stems += [Path(file).stem for file in source.files if source.format != "planetoid"]
    places = [folder / f"{stem}{suffix}" for stem in stems for suffix in (".npz", ".zip", "")]
    if source.format == "planetoid":
        places.append(folder / f"ind.{source.name}")
    return next((place for place in places if _holds_data(place)), None)


def _holds_data(place: Path) -> bool:
    if place.is_file():
        return True
    try:
        recognise(place)
    except InputError:
        return False
    return True


def _from_cache(source: Source, split: int | str | None, progress: Any) -> Dataset:
    folder = cache_folder(source)
    fresh = fetch(source, folder, progress)
    trusted = [path for path in fresh if source.files[path.name] is None]
    name = f"ind.{source.name}" if source.format == "planetoid" else next(iter(source.files))
    try:
        data = read_graph(folder / name, format=source.format, split=split)
    except InputError as error:
        for path in trusted:
            forget(path)
        if trusted:
            raise InputError(f"what {source.home} sent cannot be read: {error}") from None
        raise
    for path in trusted:
        warn_caller(
            f"no checksum of {source.home}/{path.name} is known: this first download is trusted, "
            f"and its sha256 kept in {record_of(path)}"
        )
    return data
