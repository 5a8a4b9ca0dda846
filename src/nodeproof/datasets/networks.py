"""GraphML, GML and the edge lists of networkx, read by networkx."""

from __future__ import annotations

import warnings
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodeproof.adjacency import check_adjacency
from nodeproof.datasets.dataset import Dataset, assemble
from nodeproof.datasets.parts import as_labels, sorted_names
from nodeproof.errors import InputError, MissingExtraError
from nodeproof.io.columns import LABELS
from nodeproof.io.files import reading
from nodeproof.io.link_columns import KINDS, note_on_kinds
from nodeproof.io.packed import is_packed, open_bytes

__all__ = ["karate_club", "read_network"]

# Node attributes that say the class; "value" is what Newman's collection of GML files has.
_CLASSES = (*LABELS, "value")

_BROKEN = (SyntaxError, IndexError, TypeError, AttributeError, RecursionError, OverflowError)


def read_network(path: Path, format: str, label: str | None = None) -> Dataset:  # noqa: A002
    """Read a graph through networkx; a node attribute such as "label" or "class" becomes y.

    Parameters
    ----------
    path : pathlib.Path
        The file, perhaps compressed (``.gz``).
    format : {"graphml", "gml", "edgelist"}
        What it is.
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
        notes.append(f"not used of {path.name}: {', '.join(map(repr, others[:5]))}")
    spare = sorted({name for _, _, data in network.edges(data=True) for name in data} - {"weight"})
    kinds = next((name for name in spare if str(name).lower() in KINDS), None)
    if kinds is not None:
        notes.append(note_on_kinds(path.name, kinds))
    if others := [name for name in spare if name != kinds]:
        listed = ", ".join(map(repr, others[:5]))
        notes.append(f"not used of the links of {path.name}: {listed}")
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
    """Return what networkx is to read: it would unpack a file whatever comes of it."""
    return open_bytes(path) if is_packed(path) else path


def _networkx() -> Any:
    try:
        return import_module("networkx")
    except ImportError:
        raise MissingExtraError("networkx", "io") from None
