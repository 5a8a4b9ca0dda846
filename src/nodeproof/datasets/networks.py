"""MatrixMarket files; GraphML, GML and edge lists, which networkx reads.

MatrixMarket is parsed by numpy: scipy's reader can crash on damaged files.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof.csr import csr_of_entries
from nodeproof.datasets.dataset import Dataset, assemble, check_node_count, sorted_names
from nodeproof.errors import InputError, MissingExtraError
from nodeproof.inputs.graph_objects import check_adjacency
from nodeproof.runtime.memory import check_free
from nodeproof.storage.npz import reading
from nodeproof.tables.arrays import as_labels
from nodeproof.tables.columns import KINDS, LABELS, note_on_kinds
from nodeproof.tables.files import is_packed, open_bytes, open_text

__all__ = ["karate_club", "read_matrix_market", "read_network"]

_BANNER = "%%MatrixMarket"
_FIELDS = ("real", "double", "integer", "pattern")
_SYMMETRIES = ("general", "symmetric")


def read_matrix_market(path: Path) -> sp.csr_array:
    """Return the square matrix in a file, ``.mtx`` or ``.mtx.gz``, of real numbers.

    Raises
    ------
    InputError
        If the file is damaged, or of a kind that cannot hold a graph.
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
    """Return exactly ``count`` lines of numbers."""
    check_free(40.0 * count * width, f"{path}: {count:,} entries", "convert it on another machine")
    told = (line for line in lines if line.strip())
    table = np.zeros((0, width))
    first = next(told, None)
    if first is not None:
        table = np.loadtxt(
            chain([first], told), dtype=np.float64, comments="%", ndmin=2, max_rows=count + 1
        )
    if table.shape != (count, width):
        found = f"{len(table)} of {table.shape[1]}" if len(table) <= count else f"more than {count}"
        raise InputError(f"{path}: expected {count} lines of {width} numbers, found {found}")
    return table


# Node attributes that hold the class; "value" is the one of Newman's collection of GML files.
_CLASSES = (*LABELS, "value")
_BROKEN = (SyntaxError, IndexError, TypeError, AttributeError, RecursionError, OverflowError)


def read_network(path: Path, format: str, label: str | None = None) -> Dataset:  # noqa: A002
    """Read a graph through networkx; a node attribute such as "label" or "class" becomes y.

    Parameters
    ----------
    path : pathlib.Path
        The file, perhaps compressed (``.gz``).
    format : {"graphml", "gml", "edgelist"}
        Its format.
    label : str, optional
        The node attribute that becomes y.
    """
    networkx = _networkx()
    read = {"graphml": _read_graphml, "gml": _read_gml, "edgelist": _read_edgelist}[format]
    try:
        with reading(path):
            return _dataset(path, read(path), label)
    # A broken XML file is a SyntaxError, a broken edge list an IndexError.
    except (networkx.NetworkXException, *_BROKEN) as error:
        raise InputError(f"cannot read {path}: {error}; is it a {format} file?") from None


def karate_club() -> Dataset:
    """Return Zachary's karate club as networkx has it, without weights.

    Class 0 is the instructor's side, 1 the officer's.
    """
    network = _networkx().karate_club_graph()
    for _, _, attributes in network.edges(data=True):
        attributes.clear()
    for _, attributes in network.nodes(data=True):
        attributes["label"] = int(attributes.pop("club") != "Mr. Hi")
    return replace(_dataset(Path("karate"), network), notes=[])


def _dataset(path: Path, network: Any, label: str | None = None) -> Dataset:
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            graph = check_adjacency(network)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    notes = [f"{path.name}: {warning.message}" for warning in caught]
    nodes = list(network.nodes)
    names, order = sorted_names(path, nodes)
    rows = [dict(network.nodes[nodes[v]]) for v in order]
    attributes = sorted(set().union(*rows))
    key = next((key for key in _CLASSES if key in attributes), None) if label is None else label
    if key is not None and key not in attributes:
        there = ", ".join(map(repr, attributes[:10])) or "none"
        raise InputError(f"{path} has no node attribute {key!r}; there are {there}")
    y = None
    if key is not None:
        y = _classes(path, [row.get(key) for row in rows])
        notes.append(f"the node attribute {key!r} of {path.name} is read as the label")
    if others := [name for name in attributes if name != key]:
        notes.append(f"unused node attributes of {path.name}: {', '.join(map(repr, others[:5]))}")
    spare = sorted({name for _, _, data in network.edges(data=True) for name in data} - {"weight"})
    kinds = next((name for name in spare if str(name).lower() in KINDS), None)
    if kinds is not None:
        remedy = "to use one kind, keep only its links"
        notes.append(note_on_kinds(path.name, kinds, remedy))
    if others := [name for name in spare if name != kinds]:
        listed = ", ".join(map(repr, others[:5]))
        notes.append(f"unused link attributes of {path.name}: {listed}")
    return assemble(path, graph[order][:, order], None, y, names, notes=notes)


def _classes(path: Path, found: list[Any]) -> NDArray[Any]:
    missing = [value is None or value == "" or value != value for value in found]
    given = [value for value, gone in zip(found, missing, strict=True) if not gone]
    if all(isinstance(value, int) for value in given):
        codes = [-1 if gone else int(value) for value, gone in zip(found, missing, strict=True)]
        return as_labels(path, np.array(codes, dtype=np.int64))
    if all(isinstance(value, int | float) for value in given):
        values = [
            float("nan") if gone else value for value, gone in zip(found, missing, strict=True)
        ]
        return as_labels(path, np.array(values, dtype=np.float64))
    texts = ["" if gone else str(value) for value, gone in zip(found, missing, strict=True)]
    return np.array(texts, dtype=np.str_)


def _read_graphml(path: Path) -> Any:
    return _networkx().read_graphml(_source(path))


def _read_gml(path: Path) -> Any:
    networkx = _networkx()
    try:
        return networkx.read_gml(_source(path))  # nodes are named by their labels
    except networkx.NetworkXError:
        # Labels are missing, or shared by nodes.
        return networkx.read_gml(_source(path), label="id")


def _read_edgelist(path: Path) -> Any:
    networkx = _networkx()
    try:
        return networkx.read_edgelist(_source(path))
    except TypeError:
        return networkx.read_weighted_edgelist(_source(path))


def _source(path: Path) -> Any:
    """Return what networkx is to read: it would decompress a file of any size."""
    return open_bytes(path) if is_packed(path) else path


def _networkx() -> Any:
    try:
        return import_module("networkx")
    except ImportError:
        raise MissingExtraError("networkx", "io") from None
