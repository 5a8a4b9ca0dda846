"""Data sets in the layouts of OGB, DGL (Reddit) and Planetoid (Cora, Citeseer, Pubmed)."""

from __future__ import annotations

import re
import shutil
import tempfile
import zipfile
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof.datasets.archives import matrix_of_archive
from nodeproof.datasets.dataset import (
    MASKS,
    Dataset,
    assemble,
    check_matrix,
    graph_of_edges,
    mask_of,
)
from nodeproof.datasets.pickles import read_pickle
from nodeproof.errors import InputError, count_of
from nodeproof.storage.npz import open_npz, reading
from nodeproof.tables.arrays import as_features, as_labels

__all__ = [
    "PARTS",
    "find_ogb",
    "find_planetoid",
    "find_reddit",
    "open_folder",
    "read_ogb",
    "read_planetoid",
    "read_reddit",
]

_OGB_MASKS = dict(zip(MASKS, ("train", "valid", "test"), strict=True))
_REDDIT = ("reddit_data.npz", "reddit_graph.npz")

#: what follows ``ind.<name>.`` in the names of the eight files
PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")

_NAME = re.compile(rf"ind\.(.+?)(?:\.(?:{'|'.join(map(re.escape, PARTS))}))?")

# Nodes for validation, after those for training: the usual public split.
_VALIDATION = 500


def open_folder(path: Path) -> Any:
    """Return a folder, or the contents of a ``.zip`` file, which has the same interface."""
    if path.is_dir():
        return path
    with reading(path):
        return zipfile.Path(zipfile.ZipFile(path))


def find_ogb(folder: Any) -> Any:
    """Return the folder with ``raw/edge.csv.gz``: this one or one below it, or None."""
    return _find(folder, "raw/edge.csv.gz")


def find_reddit(folder: Any) -> Any:
    """Return the folder with ``reddit_data.npz``: this one or one below it, or None."""
    return _find(folder, _REDDIT[0])


def read_ogb(path: Path, split: str | None = None) -> Dataset:
    """Read a node data set in the layout of the Open Graph Benchmark.

    That is ``raw/`` with ``edge.csv.gz``, ``num-node-list.csv.gz``, ``node-feat.csv.gz`` and
    ``node-label.csv.gz`` (the last two may be missing), and ``split/<scheme>/`` with
    ``train.csv.gz``, ``valid.csv.gz`` and ``test.csv.gz``.

    Parameters
    ----------
    path : pathlib.Path
        The folder, or the ``.zip`` file that holds it.
    split : str, optional
        The scheme; needed only if there are several.
    """
    folder = find_ogb(open_folder(path))
    if folder is None:
        raise InputError(f"{path} holds no raw/edge.csv.gz")
    raw = folder / "raw"
    sizes = _table(raw / "num-node-list.csv.gz", pa.int64())
    if sizes.shape != (1, 1):
        raise InputError(f"{path} holds {len(sizes)} graphs; only a single one can be read")
    n = int(sizes[0, 0])
    edges = _table(raw / "edge.csv.gz", pa.int64())
    if edges.shape[1] != 2:
        raise InputError(f"{raw / 'edge.csv.gz'} must have two columns, got {edges.shape[1]}")
    graph, notes = graph_of_edges(raw / "edge.csv.gz", edges[:, 0], edges[:, 1], n)
    X = y = None
    if (place := raw / "node-feat.csv.gz").exists():
        X = as_features(place, _table(place, pa.float32()))
    if (place := raw / "node-label.csv.gz").exists():
        y = as_labels(place, _table(place, pa.float64()))
    masks = _ogb_masks(folder, n, split)
    return assemble(path, graph, X, y, masks=masks, notes=notes)


def read_reddit(path: Path) -> Dataset:
    """Read Reddit as DGL publishes it: ``reddit_data.npz`` and ``reddit_graph.npz``.

    Parameters
    ----------
    path : pathlib.Path
        The folder, or the ``.zip`` file that holds it.
    """
    folder = find_reddit(open_folder(path))
    if folder is None or not (folder / _REDDIT[1]).exists():
        raise InputError(f"{path} must hold both {_REDDIT[0]} and {_REDDIT[1]}")
    with tempfile.TemporaryDirectory() as temporary:
        data, links = (_unpacked(folder / name, Path(temporary)) for name in _REDDIT)
        with open_npz(links) as archive:
            matrix = matrix_of_archive(links, archive)
        matrix.data = np.ones(len(matrix.data), dtype=np.float32)
        graph, notes = check_matrix(links, matrix)
        with open_npz(data) as archive:
            X = as_features(data, archive["feature"])
            y = as_labels(data, archive["label"])
            kinds = archive["node_types"]
    masks = {part: kinds == kind for kind, part in enumerate(MASKS, 1)}
    return assemble(path, graph, X, y, masks=masks, notes=notes)


def _find(folder: Any, file: str) -> Any:
    if (folder / file).exists():
        return folder
    below = [found for found in folder.iterdir() if found.is_dir() and (found / file).exists()]
    return below[0] if len(below) == 1 else None


def _ogb_masks(folder: Any, n: int, split: str | None) -> dict[str, NDArray[np.bool_]]:
    splits = folder / "split"
    schemes = {found.name: found for found in splits.iterdir()} if splits.exists() else {}
    schemes = {name: found for name, found in schemes.items() if (found / "train.csv.gz").exists()}
    if split is not None and split not in schemes:
        raise InputError(
            f"{folder} has no split {split!r}; there is {', '.join(schemes) or 'none'}"
        )
    if split is None and len(schemes) > 1:
        raise InputError(f"{folder} has several splits: choose one of {', '.join(sorted(schemes))}")
    if not schemes:
        return {}
    chosen = schemes[split or next(iter(schemes))]
    files = {part: chosen / f"{name}.csv.gz" for part, name in _OGB_MASKS.items()}
    return {part: mask_of(file, _table(file, pa.int64())[:, 0], n) for part, file in files.items()}


def _table(path: Any, kind: Any) -> NDArray[Any]:
    """Return a compressed table of numbers without a header, shape (rows, columns)."""
    with reading(path), path.open("rb") as file:
        width = _unzipped(file).read(1 << 20).split(b"\n")[0].count(b",") + 1
    names = [str(column) for column in range(width)]
    with reading(path), path.open("rb") as file:
        table = pyarrow.csv.read_csv(
            _unzipped(file),
            pyarrow.csv.ReadOptions(column_names=names),
            convert_options=pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(names, kind)),
        )
    rows = np.empty((len(table), width), dtype=kind.to_pandas_dtype())
    for column, values in enumerate(table.itercolumns()):
        if values.null_count and rows.dtype.kind == "i":
            row = int(np.argmax(values.is_null().to_numpy()))
            raise InputError(f"{path}, line {row + 1}: expected a whole number, got nothing")
        rows[:, column] = values.to_numpy()
    return rows


def _unzipped(file: Any) -> Any:
    return pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "gzip")


def _unpacked(path: Any, temporary: Path) -> Path:
    """Return the path of a file in a folder; from a ``.zip`` it is extracted first."""
    if isinstance(path, Path):
        return path
    with reading(path), path.open("rb") as packed, (temporary / path.name).open("wb") as file:
        shutil.copyfileobj(packed, file, 1 << 24)
    return temporary / path.name


def find_planetoid(path: Path) -> list[Path]:
    """Return the data sets at a path, as the common prefix ``…/ind.<name>`` of their files.

    Parameters
    ----------
    path : pathlib.Path
        A folder, one of the eight files, or ``ind.<name>`` in the folder.

    Returns
    -------
    list of pathlib.Path
        One per data set; empty if there is none.
    """
    if path.is_dir():
        return sorted(found.with_suffix("") for found in path.glob("ind.*.graph"))
    match = _NAME.fullmatch(path.name)
    if match is None or not path.with_name(f"ind.{match[1]}.graph").exists():
        return []
    return [path.with_name(f"ind.{match[1]}")]


def read_planetoid(path: Path) -> Dataset:
    """Read the eight files of a Planetoid data set, with the usual public split.

    Rows of ``tx`` belong to the nodes that ``test.index`` lists, in that order. Numbers that are
    missing among them (in Citeseer) are nodes without a row: they have links, but all
    their features are zero and their class is unknown.

    Parameters
    ----------
    path : pathlib.Path
        See `find_planetoid`.
    """
    found = find_planetoid(path)
    if len(found) != 1:
        names = ", ".join(one.name for one in found)
        raise InputError(
            f"{path} holds several data sets ({names}): name one of them, e.g. {found[0]}"
            if found
            else f"{path} holds no Planetoid files: expected ind.<name>.{{{','.join(PARTS)}}}"
        )
    begin = found[0]
    file = {part: begin.with_name(f"{begin.name}.{part}") for part in PARTS}
    X_train, X_test, X_all = (_matrix(file[part]) for part in ("x", "tx", "allx"))
    y_train, y_test, y_all = (_one_hot(file[part]) for part in ("y", "ty", "ally"))
    test = _test_index(file["test.index"])
    for part, rows, others in (
        ("y", y_train, X_train.shape[0]),
        ("ty", y_test, X_test.shape[0]),
        ("ally", y_all, X_all.shape[0]),
        ("test.index", test, X_test.shape[0]),
    ):
        if len(rows) != others:
            raise InputError(f"{file[part]} has {len(rows)} rows for {others} rows of features")
    if X_test.shape[1] != X_all.shape[1]:
        raise InputError(
            f"{file['tx']} has {X_test.shape[1]} features, but {file['allx']} {X_all.shape[1]}"
        )
    known = X_all.shape[0]
    if len(test) and (test.min() < known or len(np.unique(test)) < len(test)):
        raise InputError(
            f"{file['test.index']} lists a node twice, or one of the {known} that {file['allx']} "
            "describes"
        )
    n = max(known, int(test.max()) + 1 if len(test) else 0)

    source, target = _links(file["graph"])
    graph, notes = graph_of_edges(file["graph"], source, target, n)
    if blank := n - known - len(test):
        notes.append(f"{count_of(blank, 'node')} without features and class")
    # Row of the stacked features for each node; one row of zeros is for those without.
    row = np.full(n, known + len(test))
    row[:known] = np.arange(known)
    row[test] = known + np.arange(len(test))
    zeros = sp.csr_array((1, X_all.shape[1]), dtype=X_all.dtype)
    X = sp.csr_array(sp.vstack([X_all, X_test, zeros], format="csr"))[row]
    y = np.concatenate([y_all, y_test, [-1]])[row]
    first = len(y_train)
    masks = {
        "train": mask_of(begin, np.arange(first), n),
        "validation": mask_of(begin, np.arange(first, min(first + _VALIDATION, known)), n),
        "test": mask_of(begin, test, n),
    }
    return assemble(begin, graph, X, y, masks=masks, notes=notes)


def _matrix(path: Path) -> sp.csr_array:
    found = read_pickle(path)
    if isinstance(found, dict) or len(found.shape) != 2:
        raise InputError(f"{path} holds no matrix of features")
    with reading(path):
        return sp.csr_array(as_features(path, found))


def _one_hot(path: Path) -> NDArray[np.int64]:
    """Return the class of each row, −1 where none is marked."""
    found = read_pickle(path)
    if not isinstance(found, np.ndarray) or found.ndim != 2 or not np.isin(found, (0, 1)).all():
        raise InputError(f"{path} holds no 0/1 matrix of classes")
    marks = found.sum(axis=1)
    if (marks > 1).any():
        raise InputError(f"{path}: row {int((marks > 1).argmax())} is in several classes")
    return np.where(marks == 1, found.argmax(axis=1), -1)


def _links(path: Path) -> tuple[NDArray[Any], NDArray[Any]]:
    found = read_pickle(path)
    if not isinstance(found, dict):
        raise InputError(f"{path} holds no lists of neighbours")
    with reading(path):
        lengths = np.fromiter(map(len, found.values()), np.int64, len(found))
        source = np.repeat(np.fromiter(found, np.int64, len(found)), lengths)
        target = np.fromiter(chain.from_iterable(found.values()), np.int64, int(lengths.sum()))
    return source, target


def _test_index(path: Path) -> NDArray[np.int64]:
    with reading(path):
        return np.array(path.read_text(encoding="ascii").split(), dtype=np.int64)
