"""Graphs on disk: plain ``.npy`` files that are memory-mapped, with a header and checksums.

A folder holds ``graph.json`` (the header), ``indptr.npy``, ``indices.npy``, ``weights.npy``
(absent where all weights are one), ``degrees.npy`` and ``ids.parquet`` (absent where the ids of
the nodes are their positions). The arrays are those of a symmetric CSR matrix with sorted rows,
without loops or duplicates.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from nodeproof.csr import (
    LARGEST_WEIGHT,
    LEAST_WEIGHT,
    check_symmetric,
    csr_of_entries,
    unless_all_one,
)
from nodeproof.errors import InputError
from nodeproof.runtime.caching import cached_property
from nodeproof.storage.atomic import atomic_folder, resolved
from nodeproof.storage.graph_files import (
    FORMAT,
    NPY_HEADER,
    ArrayFile,
    IdFile,
    as_integers,
    as_texts,
    index_type,
    is_checksum,
    is_count,
    npy_header,
    read_header,
    write_header,
)
from nodeproof.storage.npz import reading

__all__ = ["GraphFolder", "Progress", "is_graph_folder", "refuse_occupied", "write_graph_folder"]

Progress = Callable[[str, int, int], None]

# Bytes read at a time.
_BLOCK = 1 << 24

_FILES = {"indptr.npy", "indices.npy", "weights.npy", "degrees.npy", "ids.parquet"}


class GraphFolder:
    """A graph on disk, memory-mapped: nothing is read before it is asked for.

    Attributes
    ----------
    path : pathlib.Path
        The folder.
    n_nodes, n_entries : int
        Number of nodes n, and of stored links: each link is stored in both directions.
    indptr : ndarray of shape (n + 1,)
        int64: the links of node v are at ``indptr[v]:indptr[v + 1]``.
    indices : ndarray of shape (n_entries,)
        Their other ends, sorted; int32 while n < 2³¹, else int64.
    weights : ndarray of shape (n_entries,), or (0,) where all weights are one
        float32.
    degrees : ndarray of shape (n,)
        float64: sums of weights.
    read : dict
        What `nodeproof.tables.convert.convert` found in the links it read: how many ("links"),
        "loops" and links of weight zero ("zeros") that it dropped, and "repeats" of a link.
        Empty where the folder was written from memory.

    Examples
    --------
    >>> import tempfile
    >>> import scipy.sparse as sp
    >>> path_graph = sp.csr_array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    >>> with tempfile.TemporaryDirectory() as place:
    ...     write_graph_folder(Path(place, "graph"), path_graph, ids=["ann", "bob", "eve"])
    ...     graph = GraphFolder.open(Path(place, "graph"))
    ...     graph, graph.indices.tolist(), graph.positions(["eve", "joe"]).tolist()
    (GraphFolder(n=3, links=2), [1, 0, 2, 1], [2, -1])
    """

    def __init__(self, path: Path, header: dict[str, Any]) -> None:
        self.path = path
        self.n_nodes: int = header["n_nodes"]
        self.n_entries: int = header["n_entries"]
        self.read: dict[str, int] = header["read"]
        self._files: dict[str, dict[str, Any]] = header["files"]
        self._ids_are: str = header["ids"]
        self._checked = False
        if strangers := set(self._files) - _FILES:
            raise self._damaged("graph.json", f"lists {min(strangers)[:40]!r}, which is no part")
        index = index_type(self.n_nodes)
        self.indptr = self._map("indptr.npy", np.int64, self.n_nodes + 1)
        self.indices = self._map("indices.npy", index, self.n_entries)
        if header["weighted"]:
            self.weights = self._map("weights.npy", np.float32, self.n_entries)
        else:
            self.weights = np.empty(0, dtype=np.float32)
        self.degrees = self._map("degrees.npy", np.float64, self.n_nodes)
        if self._ids_are != "positions":
            self._check_size("ids.parquet", self._entry("ids.parquet")["size"])
        if self.indptr[0] != 0 or self.indptr[-1] != self.n_entries:
            raise self._damaged("indptr.npy", f"does not run from 0 to {self.n_entries}")

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> GraphFolder:
        """Open a folder; header, sizes and types are checked.

        Contents are not: see `check_links`, which a fit begins with, and `verify`.

        Parameters
        ----------
        path : path
            What `nodeproof convert` or `write_graph_folder` wrote.
        """
        return cls(Path(path), read_header(Path(path)))

    def __repr__(self) -> str:
        return f"GraphFolder(n={self.n_nodes}, links={self.n_entries // 2})"

    @cached_property
    def ids(self) -> NDArray[Any] | None:
        """The ids of the nodes, shape (n,), int64 or text; None where they are 0…n−1."""
        if self._ids_are == "positions":
            return None
        names = pa.concat_arrays(list(self._id_batches(_BLOCK)))
        if self._ids_are == "integer":
            return np.asarray(names.to_numpy())
        return names.to_numpy(zero_copy_only=False).astype(np.str_)

    def positions(self, names: Any) -> NDArray[np.int64]:
        """Return the positions of nodes, −1 where there is no such node.

        Parameters
        ----------
        names : array-like of shape (m,)
            Integers or text. An integer and its digits are the same id.

        Returns
        -------
        ndarray of shape (m,)
        """
        if self._ids_are == "positions":
            numbers = as_integers(names)
            inside = pc.and_(pc.greater_equal(numbers, 0), pc.less(numbers, self.n_nodes))
            known = pc.if_else(inside, numbers, -1)
            return np.asarray(pc.fill_null(known, -1).to_numpy(zero_copy_only=False))
        wanted = as_integers(names) if self._ids_are == "integer" else as_texts(names)
        encoded = wanted.dictionary_encode()
        # The few ids asked for are held, and the many of the graph pass by in batches.
        places = np.full(len(encoded.dictionary) + 1, -1, dtype=np.int64)
        start = 0
        for batch in self._id_batches(max(1 << 20, len(encoded.dictionary))):
            found = pc.index_in(batch, value_set=encoded.dictionary)
            known = np.flatnonzero(found.is_valid().to_numpy(zero_copy_only=False))
            places[found.drop_null().to_numpy()] = start + known
            start += len(batch)
        # The last place is for missing ids.
        return places[pc.fill_null(encoded.indices, len(encoded.dictionary)).to_numpy()]

    def verify(self, progress: Progress | None = None) -> None:
        """Read everything once; raise `InputError` for a file that is not as it was written.

        Parameters
        ----------
        progress : callable, optional
            Called with the name of the file, the bytes read so far and those of all files.
        """
        total = sum(entry["size"] for entry in self._files.values())
        done = 0
        for name, entry in self._files.items():
            crc = 0
            for block in self._blocks(name):
                crc = zlib.crc32(block.data, crc)
                self._check_values(name, block)
                done += block.nbytes
                if progress is not None:
                    progress(name, done, total)
            if f"{crc:08x}" != entry["crc32"]:
                raise self._damaged(name, "is not as it was written: its checksum is wrong")
        self._check_order()

    def check_links(self) -> None:
        """Read the links once; refuse what would make a loop over them read beyond the arrays."""
        if not self._checked:
            self._check_order()
            totals = dict.fromkeys(("indices.npy", "weights.npy", "degrees.npy"), 0.0)
            for name in totals:
                for block in self._blocks(name):
                    self._check_values(name, block)
                    totals[name] += float(block.sum(dtype=np.float64))
            links = totals["weights.npy"] if len(self.weights) else float(self.n_entries)
            if abs(totals["degrees.npy"] - links) > 1e-4 * links:
                raise self._damaged("degrees.npy", "does not add up to the links")
            self._checked = True

    def _check_order(self) -> None:
        previous = 0
        for block in self._blocks("indptr.npy"):
            if block[0] < previous or (np.diff(block) < 0).any():
                raise self._damaged("indptr.npy", "decreases")
            previous = int(block[-1])

    def _check_values(self, name: str, block: NDArray[Any]) -> None:
        """Refuse what would make a loop over links read beyond the arrays."""
        if name == "indices.npy" and (block.min() < 0 or block.max() >= self.n_nodes):
            raise self._damaged(name, f"names a node that is not in 0…{self.n_nodes - 1}")
        if name == "weights.npy" and not (
            block.min() >= LEAST_WEIGHT and block.max() <= LARGEST_WEIGHT
        ):
            raise self._damaged(
                name, f"holds a weight that is not from {LEAST_WEIGHT:g} to {LARGEST_WEIGHT:g}"
            )
        most = LARGEST_WEIGHT * self.n_nodes
        if name == "degrees.npy" and not (block.min() >= 0 and block.max() <= most):
            raise self._damaged(name, "holds a degree that is negative or not finite")

    def _blocks(self, name: str) -> Iterator[NDArray[Any]]:
        if name == "ids.parquet":
            array: NDArray[Any] = np.fromfile(self.path / name, dtype=np.uint8)
        else:
            array = getattr(self, name.removesuffix(".npy"))
        size = _BLOCK // array.itemsize
        for start in range(0, len(array), size):
            yield np.asarray(array[start : start + size])

    def _id_batches(self, size: int) -> Iterator[Any]:
        """Yield the ids as Arrow arrays, int64 or large_string."""
        path = self.path / "ids.parquet"
        kind = pa.int64() if self._ids_are == "integer" else pa.large_string()
        with reading(path), pq.ParquetFile(path) as file:
            if file.schema_arrow.names != ["node"] or file.metadata.num_rows != self.n_nodes:
                raise self._damaged("ids.parquet", f"has no column of {self.n_nodes} nodes")
            for batch in file.iter_batches(batch_size=size):
                names = batch.column(0).cast(kind)
                if names.null_count:
                    raise self._damaged("ids.parquet", "lacks the name of a node")
                yield names

    def _map(self, name: str, dtype: Any, length: int) -> NDArray[Any]:
        kind = np.dtype(dtype).newbyteorder("<")
        entry = self._entry(name)
        if (entry.get("dtype"), entry.get("length")) != (kind.str, length):
            raise self._damaged(
                "graph.json",
                f"lists {name} as {entry.get('length')} numbers of {entry.get('dtype')}; "
                f"expected {length} of {kind.str}",
            )
        self._check_size(name, NPY_HEADER + length * kind.itemsize)
        path = self.path / name
        with reading(path), path.open("rb") as file:
            if file.read(NPY_HEADER) != npy_header(kind, length):
                raise self._damaged(name, f"does not begin as {length} numbers of {kind.str} do")
        if length == 0:
            return np.empty(0, dtype=kind)
        return np.memmap(path, dtype=kind, mode="r", offset=NPY_HEADER, shape=(length,))

    def _entry(self, name: str) -> dict[str, Any]:
        entry = self._files.get(name)
        if (
            not isinstance(entry, dict)
            or not is_count(entry.get("size"))
            or not is_checksum(entry.get("crc32"))
        ):
            raise self._damaged("graph.json", f"does not list {name} with its size and checksum")
        return entry

    def _check_size(self, name: str, size: int) -> None:
        path = self.path / name
        with reading(path):
            found = path.stat().st_size
        if found != size or self._files[name]["size"] != size:
            raise self._damaged(name, f"has {found:,} bytes; expected {size:,}")

    def _damaged(self, name: str, what: str) -> InputError:
        return InputError(f"{self.path / name} {what}; the folder is damaged, convert again")


def is_graph_folder(path: str | os.PathLike[str]) -> bool:
    """Tell whether this is a graph folder, perhaps a damaged one."""
    header = Path(path) / "graph.json"
    try:
        if not header.is_file():
            return False
        with header.open("rb") as file:
            return json.dumps(FORMAT).encode() in file.read(1024)
    except OSError:
        return False


def write_graph_folder(path: str | os.PathLike[str], graph: Any, ids: Any = None) -> None:
    """Write a graph that is in memory to a folder; it appears once it is complete.

    Parameters
    ----------
    path : path
        The folder; there must be none yet, or an empty one. Its parent must exist.
    graph : scipy.sparse or dense array of shape (n, n)
        The links; a link in either direction counts. Weights are kept in float32.
    ids : array-like of shape (n,), optional
        The ids of the nodes, integers or text, all different. Default: 0…n−1.
    """
    path = Path(path)
    refuse_occupied(path)
    matrix = check_symmetric(csr_of_entries(graph))
    n = matrix.shape[0]
    with np.errstate(over="ignore"):
        weights = unless_all_one(matrix.data).astype(np.float32)
    if not (np.isfinite(weights) & (weights > 0)).all():
        raise InputError("weights of links must be positive and finite in float32; rescale them")
    degrees = np.diff(matrix.indptr).astype(np.float64)
    if len(weights):
        degrees = np.asarray(matrix.sum(axis=1, dtype=np.float64)).ravel()
    names = None if ids is None else _check_ids(ids, n)
    arrays = {
        "indptr": (np.int64, matrix.indptr),
        "indices": (index_type(n), matrix.indices),
        "weights": (np.float32, weights),
        "degrees": (np.float64, degrees),
    }
    if not len(weights):
        del arrays["weights"]
    with atomic_folder(path) as temporary:
        files = {}
        for name, (dtype, values) in arrays.items():
            with closing(ArrayFile(temporary / f"{name}.npy", dtype)) as array:
                for start in range(0, len(values), _BLOCK):
                    array.append(values[start : start + _BLOCK])
                files[f"{name}.npy"] = array.finish()
        kind = "positions"
        if names is not None:
            kind = "integer" if pa.types.is_integer(names.type) else "text"
            with closing(IdFile(temporary / "ids.parquet", names.type)) as file:
                file.append(names)
                files["ids.parquet"] = file.finish()
        write_header(temporary, n, matrix.nnz, kind, files, {})


def refuse_occupied(path: Path) -> None:
    """Refuse a path where something else would have to be overwritten."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise InputError(f"{path} exists already; give another name, or delete it")
    if not resolved(path).parent.is_dir():
        raise InputError(
            f"cannot write {path}: the folder {resolved(path).parent} does not exist; create it"
        )


def _check_ids(ids: Any, n_nodes: int) -> Any:
    """Return the ids as an Arrow array, or None where they are the positions."""
    if len(ids) != n_nodes:
        raise InputError(f"there are {len(ids)} ids for {n_nodes} nodes")
    names = as_integers(ids)
    if names.null_count:
        names = as_texts(ids)
    if names.null_count:
        raise InputError("every node needs an id; some are missing")
    if len(names.unique()) < n_nodes:
        counts = names.value_counts()
        twice = counts.filter(pc.greater(counts.field("counts"), 1))[0]["values"].as_py()
        raise InputError(f"two nodes have the id {twice!r}")
    if pa.types.is_integer(names.type) and names.equals(pa.array(np.arange(n_nodes))):
        return None
    return names
