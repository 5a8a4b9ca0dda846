"""MatrixMarket files, read by numpy: scipy's reader can crash on files that are damaged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof.edges import csr_of_entries
from nodeproof.errors import InputError
from nodeproof.io.files import reading
from nodeproof.io.matrices import check_node_count
from nodeproof.io.packed import open_text
from nodeproof.memory import check_free

__all__ = ["read_matrix_market"]

_BANNER = "%%MatrixMarket"
_FIELDS = ("real", "double", "integer", "pattern")
_SYMMETRIES = ("general", "symmetric")


def read_matrix_market(path: Path) -> sp.csr_array:
    """Return the square matrix in a file, ``.mtx`` or ``.mtx.gz``, of real numbers.

    Raises
    ------
    InputError
        If the file is damaged, or of a kind that no graph is in.
    """
    with reading(path), open_text(path, "latin-1") as file:
        layout, field, symmetry = _read_banner(path, file)
        return _read_body(path, file, layout, field == "pattern", symmetry == "symmetric")


def _read_banner(path: Path, lines: Iterator[str]) -> tuple[str, str, str]:
    words = next(lines, "").lower().split()
    if len(words) != 5 or words[:2] != [_BANNER.lower(), "matrix"]:
        raise InputError(f"{path}, line 1: expected '{_BANNER} matrix', a layout, a field, a kind")
    layout, field, symmetry = words[2:]
    for word, known in (
        (layout, ("coordinate", "array")),
        (field, _FIELDS),
        (symmetry, _SYMMETRIES),
    ):
        if word not in known:
            raise InputError(f"{path}, line 1: expected one of {', '.join(known)}; got {word!r}")
    return layout, field, symmetry


def _read_body(
    path: Path, lines: Iterator[str], layout: str, pattern: bool, symmetric: bool
) -> sp.csr_array:
    sizes = next((line for line in lines if line.strip() and not line.startswith("%")), "").split()
    wanted = 3 if layout == "coordinate" else 2
    if len(sizes) != wanted or not all(size.isascii() and size.isdigit() for size in sizes):
        raise InputError(f"{path}: expected a line with {wanted} sizes, got {' '.join(sizes)!r}")
    rows, columns = int(sizes[0]), int(sizes[1])
    if rows != columns:
        raise InputError(f"{path}: a graph needs a square matrix, got {rows} × {columns}")
    check_node_count(path, rows)
    if layout == "array":
        return _read_array(path, lines, rows, symmetric)
    entries = int(sizes[2])
    table = _numbers(path, lines, entries, 2 if pattern else 3)
    ends = table[:, :2]
    if not ((ends >= 1) & (ends <= rows) & (ends == np.floor(ends))).all():
        raise InputError(f"{path}: an entry is outside of the {rows} × {rows} matrix")
    u, v = (ends - 1).astype(np.int64).T
    weight = np.ones(entries) if pattern else table[:, 2]
    if symmetric:
        other = u != v
        u, v = np.concatenate([u, v[other]]), np.concatenate([v, u[other]])
        weight = np.concatenate([weight, weight[other]])
    return csr_of_entries(sp.coo_array((weight, (u, v)), shape=(rows, rows)))


def _read_array(path: Path, lines: Iterator[str], n: int, symmetric: bool) -> sp.csr_array:
    """Read all entries, column after column; of a symmetric matrix those below the diagonal."""
    values = _numbers(path, lines, n * (n + 1) // 2 if symmetric else n * n, 1)[:, 0]
    if not symmetric:
        return sp.csr_array(values.reshape(n, n).T)
    dense = np.zeros((n, n))
    u, v = np.triu_indices(n)
    dense[u, v] = dense[v, u] = values
    return sp.csr_array(dense)


def _numbers(path: Path, lines: Iterator[str], count: int, width: int) -> NDArray[np.float64]:
    """Return so many lines of numbers, no more and no fewer."""
    check_free(40.0 * count * width, f"{path}: {count:,} entries", "convert it on another machine")
    told = (line for line in lines if line.strip())
    table = np.zeros((0, width))
    first = next(told, None)
    if first is not None:
        table = np.loadtxt(
            _chain(first, told), dtype=np.float64, comments="%", ndmin=2, max_rows=count + 1
        )
    if table.shape != (count, width):
        found = f"{len(table)} of {table.shape[1]}" if len(table) <= count else f"more than {count}"
        raise InputError(f"{path}: expected {count} lines of {width} numbers, found {found}")
    return table


def _chain(first: str, rest: Iterator[str]) -> Iterator[str]:
    yield first
    yield from rest
