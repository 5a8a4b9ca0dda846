"""Sorted entries in, the arrays of a CSR matrix out, bucket by bucket."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from nodeproof.io.graph_header import index_type
from nodeproof.io.growing import GrowingArray

__all__ = ["RowFiles"]


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
