"""Both directions of each link, shared out to files by ranges of rows."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from nodeproof.storage.graph_header import index_type
from nodeproof.storage.growing import GrowingArray

__all__ = ["Buckets", "RowFiles", "choose_shift"]


# So many files a folder takes without complaint.
_MOST = 4096
# Rows of a bucket: their counts stay small beside what is sorted.
_LARGEST_SHIFT = 24


def choose_shift(n_nodes: int, n_entries: int, wanted: int) -> int:
    """Return the binary logarithm of how many rows a bucket has.

    Parameters
    ----------
    n_nodes, n_entries : int
        Number of rows, and of entries in all of them.
    wanted : int
        Entries that a bucket should have at most, if they are spread evenly.
    """
    rows = max(1, wanted * n_nodes // max(n_entries, 1))
    shift = min(rows.bit_length() - 1, _LARGEST_SHIFT)
    shift = max(shift, (-(-n_nodes // _MOST) - 1).bit_length())
    # Row and column together are one key of 63 bits.
    return min(shift, 63 - (n_nodes - 1).bit_length())


class Buckets:
    """Files of entries: of bucket k, those of the rows k·2^shift … (k + 1)·2^shift − 1.

    An entry is kept as one key, the row within the bucket before the column, so that to sort
    keys is to sort entries.

    Parameters
    ----------
    folder : pathlib.Path
        Where the files are.
    n_nodes : int
        Number of rows.
    shift : int
        Binary logarithm of how many rows a bucket has.
    weighted : bool
        Whether entries have weights.
    sizes : list of int, optional
        How many entries each has, where they are filled already.

    Attributes
    ----------
    loops, zeros : int
        Links that were left out: from a node to itself, and of weight zero.
    """

    def __init__(
        self, folder: Path, n_nodes: int, shift: int, weighted: bool, sizes: list[int] | None = None
    ) -> None:
        self.folder, self.n_nodes, self.shift, self.weighted = folder, n_nodes, shift, weighted
        self.bits = (n_nodes - 1).bit_length()
        count = ((n_nodes - 1) >> shift) + 1
        self.sizes = np.zeros(count, np.int64) if sizes is None else np.array(sizes, np.int64)
        self.loops = self.zeros = 0

    def __len__(self) -> int:
        return len(self.sizes)

    def clear(self) -> None:
        """Begin with an empty folder."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()

    def add(self, source: NDArray[Any], target: NDArray[Any], weights: NDArray[np.float64]) -> None:
        """Add links to the files, in both directions.

        Parameters
        ----------
        source, target : ndarrays of shape (m,)
            Positions of their ends.
        weights : ndarray of shape (m,), or (0,) where links have none
            Weights that are finite in float32.
        """
        strengths = weights.astype(np.float32)
        counts = np.zeros(len(self), dtype=np.int64)
        loops, zeros = _count(source, target, strengths, self.shift, counts)
        self.loops += loops
        self.zeros += zeros
        ends = np.cumsum(counts)
        keys = np.empty(counts.sum(), dtype=np.int64)
        shares = np.empty(len(keys) if self.weighted else 0, dtype=np.float32)
        _share_out(source, target, strengths, self.shift, self.bits, ends - counts, keys, shares)
        for k in map(int, np.flatnonzero(counts)):
            part = slice(ends[k] - counts[k], ends[k])
            with self._file("keys", k).open("ab") as file:
                file.write(keys[part].data)
            if self.weighted:
                with self._file("weights", k).open("ab") as file:
                    file.write(shares[part].data)
        self.sizes += counts

    def rows(self, k: int) -> tuple[int, int]:
        """Return the first row of a bucket, and the one after its last."""
        return k << self.shift, min((k + 1) << self.shift, self.n_nodes)

    def table(self, k: int) -> pa.Table:
        """Return a bucket as an Arrow table that maps its files: ``key`` and perhaps ``weight``."""
        columns = {"key": self._map("keys", k, pa.int64())}
        if self.weighted:
            columns["weight"] = self._map("weights", k, pa.float32())
        return pa.table(columns)

    def whole(self, k: int) -> bool:
        """Tell whether the files of a bucket have the sizes that they should have."""
        kinds = [("keys", 8), ("weights", 4)][: 2 if self.weighted else 1]
        files = [(self._file(kind, k), width * self.sizes[k]) for kind, width in kinds]
        return all((file.stat().st_size if file.exists() else 0) == size for file, size in files)

    def delete(self, k: int) -> None:
        """Delete the files of a bucket."""
        for kind in ("keys", "weights"):
            self._file(kind, k).unlink(missing_ok=True)

    def _file(self, kind: str, k: int) -> Path:
        return self.folder / f"{kind}-{k:04d}.bin"

    def _map(self, name: str, k: int, kind: Any) -> pa.Array:
        if self.sizes[k] == 0:
            return pa.array([], kind)
        buffer = pa.memory_map(str(self._file(name, k))).read_buffer()
        return pa.Array.from_buffers(kind, int(self.sizes[k]), [None, buffer])


@njit(cache=True, nogil=True)
def _count(source, target, weights, shift, counts):  # type: ignore[no-untyped-def]
    """Count the entries of each bucket; return how many links are loops and of weight zero."""
    loops = 0
    zeros = 0
    for e in range(len(source)):
        if source[e] == target[e]:
            loops += 1
        elif len(weights) > 0 and weights[e] == 0.0:
            zeros += 1
        else:
            counts[source[e] >> shift] += 1
            counts[target[e] >> shift] += 1
    return loops, zeros


@njit(cache=True, nogil=True)
def _share_out(source, target, weights, shift, bits, starts, keys, shares):  # type: ignore[no-untyped-def]
    """Put the entries of each bucket side by side, each beginning at its start."""
    within = (1 << shift) - 1
    for e in range(len(source)):
        u = np.int64(source[e])
        v = np.int64(target[e])
        if u == v or (len(weights) > 0 and weights[e] == 0.0):
            continue
        for row, column in ((u, v), (v, u)):
            k = row >> shift
            at = starts[k]
            keys[at] = ((row & within) << bits) | column
            if len(weights) > 0:
                shares[at] = weights[e]
            starts[k] = at + 1


# ------------------------------------------------------------------------------
# Sorted entries in, the arrays of a CSR matrix out, bucket by bucket.


class RowFiles:
    """The files ``indptr``, ``indices``, ``weights`` and ``degrees``, as far as they are.

    Parameters
    ----------
    folder : pathlib.Path
        Where they are.
    n_nodes : int
        Number of rows n.
    weighted : bool
        Whether entries have weights.
    state : dict, optional
        What `state` returned earlier, to go on from there.

    Attributes
    ----------
    repeats : int
        Entries that were dropped because the same one is there already.
    """

    def __init__(
        self, folder: Path, n_nodes: int, weighted: bool, state: dict[str, Any] | None = None
    ) -> None:
        self.folder = folder
        kinds = {"indptr": "<i8", "indices": np.dtype(index_type(n_nodes)).newbyteorder("<")}
        kinds |= {"weights": "<f4", "degrees": "<f8"} if weighted else {"degrees": "<f8"}
        kept = state or {"files": {}, "repeats": 0, "all_one": True}
        self.files = {
            name: GrowingArray(folder / f"{name}.npy", kind, kept["files"].get(name))
            for name, kind in kinds.items()
        }
        self.weighted, self.repeats, self.all_one = weighted, kept["repeats"], kept["all_one"]
        if state is None:
            self.files["indptr"].append(np.zeros(1))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:  # left as they are, to go on later
            for file in self.files.values():
                file.close()

    def begin(self, n_rows: int, bits: int) -> None:
        """Begin with so many rows, and keys with so many bits for the column."""
        self.bits = bits
        self.counts = np.zeros(n_rows, dtype=np.int64)
        self.sums = np.zeros(n_rows if self.weighted else 0)
        self.start = self.files["indices"].length
        self.last = -1

    def add(self, keys: NDArray[np.int64], weights: NDArray[np.float32] | None = None) -> None:
        """Add entries in the order of their keys; of equal ones, the first counts.

        Parameters
        ----------
        keys : ndarray of shape (m,)
            Row (from 0) and column.
        weights : ndarray of shape (m,), optional
            Weights; omitted where entries have none.
        """
        fresh = np.empty(len(keys), dtype=bool)
        fresh[0] = keys[0] != self.last
        np.not_equal(keys[1:], keys[:-1], out=fresh[1:])
        self.last = int(keys[-1])
        kept = int(np.count_nonzero(fresh))
        if kept < len(keys):
            self.repeats += len(keys) - kept
            keys = keys[fresh]
            weights = None if weights is None else weights[fresh]
        rows = keys >> self.bits
        self.counts += np.bincount(rows, minlength=len(self.counts))
        self.files["indices"].append(keys & ((1 << self.bits) - 1))
        if weights is not None:
            self.files["weights"].append(weights)
            self.all_one = self.all_one and bool((weights == 1).all())
            # One after the other, so that sums do not depend on where a batch ends.
            np.add.at(self.sums, rows, weights.astype(np.float64))

    def end(self) -> None:
        """End the rows that were begun."""
        self.files["indptr"].append(self.start + np.cumsum(self.counts))
        self.files["degrees"].append(self.sums if self.weighted else self.counts)

    def state(self) -> dict[str, Any]:
        """Return what is needed to go on after a kill."""
        files = {name: file.state() for name, file in self.files.items()}
        return {"files": files, "repeats": self.repeats, "all_one": self.all_one}

    def finish(self) -> dict[str, dict[str, Any]]:
        """Complete the files; return how the header of a graph folder lists them."""
        entries = {f"{name}.npy": file.finish() for name, file in self.files.items()}
        if self.all_one:
            entries.pop("weights.npy", None)
        return entries

    @property
    def n_entries(self) -> int:
        """How many entries there are."""
        return self.files["indices"].length
