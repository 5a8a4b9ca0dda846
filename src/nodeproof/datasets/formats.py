"""Which format a file or folder has, by its content where that is clear, else by its name."""

from __future__ import annotations

import gzip
import zipfile
from pathlib import Path

from nodeproof.datasets.planetoid import find_planetoid
from nodeproof.datasets.published import find_ogb, find_reddit, open_folder
from nodeproof.errors import InputError
from nodeproof.io.files import file_kind, reading
from nodeproof.io.regular import check_regular

__all__ = ["FORMATS", "NETWORKS", "recognise"]

#: every format, with what it looks like
FORMATS = {
    "table": "an edge table (.csv, .tsv, .txt, .edges, also with .gz; .parquet)",
    "npz": "a NumPy archive (.npz)",
    "mtx": "MatrixMarket (.mtx, .mtx.gz)",
    "graphml": "GraphML (.graphml)",
    "gml": "GML (.gml)",
    "edgelist": "a networkx edge list (.edgelist)",
    "planetoid": "Planetoid files (ind.<name>.*)",
    "ogb": "a folder or .zip of OGB (raw/edge.csv.gz, …)",
    "reddit": "a folder or .zip with reddit_data.npz and reddit_graph.npz",
}

#: those whose nodes have attributes, read by networkx
NETWORKS = ("graphml", "gml", "edgelist")

_SUFFIXES = {
    ".npz": "npz", ".mtx": "mtx", ".graphml": "graphml", ".gml": "gml", ".edgelist": "edgelist"
}  # fmt: skip


def recognise(path: Path) -> str:
    """Return the format of a file or folder, a key of `FORMATS`.

    Raises
    ------
    InputError
        If it is not there, or of no known format.
    """
    if find_planetoid(path):
        return "planetoid"
    found = _folder_format(path) if path.is_dir() else _by_content(path) or _by_name(path)
    if found is None:
        what = "is a folder that holds no known data" if path.is_dir() else "is of no known format"
        raise InputError(f"{path} {what}; understood are {'; '.join(FORMATS.values())}")
    return found


def _folder_format(path: Path) -> str | None:
    folder = open_folder(path)
    if find_ogb(folder) is not None:
        return "ogb"
    return "reddit" if find_reddit(folder) is not None else None


def _by_content(path: Path) -> str | None:
    check_regular(path)
    with reading(path):
        with path.open("rb") as file:
            head = file.read(512)
        if head.startswith(b"\x1f\x8b"):
            with gzip.open(path) as file:
                head = file.read(512)
    if head.startswith(b"%%MatrixMarket"):
        return "mtx"
    if head.lstrip().startswith(b"<") and b"<graphml" in head:
        return "graphml"
    if head.startswith(b"PK") and zipfile.is_zipfile(path):
        with reading(path), zipfile.ZipFile(path) as archive:
            if any(name.endswith(".npy") for name in archive.namelist()):
                return "npz"
        return _folder_format(path)
    return None


def _by_name(path: Path) -> str | None:
    suffix = Path(path.name.lower().removesuffix(".gz")).suffix
    if suffix in _SUFFIXES:
        return _SUFFIXES[suffix]
    try:
        file_kind(path)
    except InputError:
        return None
    return "table"
