"""Folders as OGB and DGL publish them, also still inside their ``.zip``."""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

from nodeproof.datasets.archives import matrix_of_archive
from nodeproof.datasets.dataset import MASKS, Dataset, assemble
from nodeproof.datasets.parts import check_matrix, graph_of_edges, mask_of
from nodeproof.errors import InputError
from nodeproof.storage.npz import open_npz, reading
from nodeproof.tables.arrays import as_features, as_labels

__all__ = ["find_ogb", "find_reddit", "open_folder", "read_ogb", "read_reddit"]

_OGB_MASKS = dict(zip(MASKS, ("train", "valid", "test"), strict=True))
_REDDIT = ("reddit_data.npz", "reddit_graph.npz")


def open_folder(path: Path) -> Any:
    """Return a folder, or the inside of a ``.zip`` file, which works alike."""
    if path.is_dir():
        return path
    with reading(path):
        return zipfile.Path(zipfile.ZipFile(path))


def find_ogb(folder: Any) -> Any:
    """Return where ``raw/edge.csv.gz`` lies: in the folder or in one below; None: nowhere."""
    return _find(folder, "raw/edge.csv.gz")


def find_reddit(folder: Any) -> Any:
    """Return where ``reddit_data.npz`` lies: in the folder or in one below; None: nowhere."""
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
        The scheme; needed only where there are several.
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
    """Return the path of a file that lies in a folder; from a ``.zip`` it is copied out first."""
    if isinstance(path, Path):
        return path
    with reading(path), path.open("rb") as packed, (temporary / path.name).open("wb") as file:
        shutil.copyfileobj(packed, file, 1 << 24)
    return temporary / path.name
