"""Read new nodes for a fitted model: their features, and their links."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof.csr import largest_of_each
from nodeproof.errors import InputError, count_of
from nodeproof.inputs.new_links import NewLinks, links_from_pairs
from nodeproof.inputs.preparation import Preparation
from nodeproof.storage.graph_files import as_texts
from nodeproof.tables.columns import Column
from nodeproof.tables.edges import Links, read_links
from nodeproof.tables.features import FeatureRows, WhyMissing, read_features, some
from nodeproof.tables.files import TableFile, file_kind
from nodeproof.tables.keys import Keys, check_lookalikes, one_node_set
from nodeproof.tables.kinds import LinksOfKinds
from nodeproof.tables.nodes import read_prepared
from nodeproof.tables.reading import open_table

__all__ = [
    "NewNodes",
    "added_up",
    "no_node_is_known",
    "open_named",
    "place_features",
    "positions_among",
    "read_new_links",
    "read_new_nodes",
]

PathLike = str | os.PathLike[str]

_UNNAMED = re.compile(r"column [0-9]+")


@dataclass(frozen=True)
class NewNodes:
    """The new nodes of a user's files, n_new of them.

    Attributes
    ----------
    ids : ndarray of shape (n_new,)
        Node ids, sorted.
    X : ndarray of shape (n_new, m), or None
        Features, in the order of the model's.
    links : scipy.sparse.csr_array of shape (n_new, n + n_new), dict of these, or None
        Links to the fitted nodes, then those among new ones; of several kinds, by their names;
        None without a file of them.
    n_links : int
        Number of links.
    notes : list of str
        What the user should know, one line each.
    """

    ids: NDArray[Any]
    X: NDArray[Any] | None
    links: sp.csr_array | dict[str, sp.csr_array] | None
    n_links: int = 0
    notes: list[str] = field(default_factory=list)


def read_new_nodes(
    fitted: NDArray[Any],
    features: PathLike | None = None,
    edges: PathLike | LinksOfKinds | None = None,
    *,
    names: list[str] | None = None,
    unit: float | Mapping[str, float] = 1.0,
    header: bool | None = None,
    source: Column = None,
    target: Column = None,
    weight: Column = None,
    node: Column = None,
    missing: bool = False,
    nodes: PathLike | None = None,
    preparation: Preparation | None = None,
    repeated: str = "max",
) -> NewNodes:
    """Read the features of new nodes, their links, or both.

    Every node that is not among the fitted ones is new. The ends of a link may be in either
    order; links between two fitted nodes are left out with a note, and so are rows of features of
    fitted nodes.

    Parameters
    ----------
    fitted : ndarray of shape (n,)
        Ids of the fitted nodes: integers or text.
    features, edges : path, optional
        Delimited text or Parquet, as in `nodeproof.tables.reading.read_tables`. Links of several
        kinds have been read already.
    names : list of m str, optional
        The columns that the model was fitted to; without any, the features are not looked at.
    unit : float or dict
        Weight of links that come without one: 1, or the mean of the links fitted to where those
        have weights; of several kinds, by their names.
    header, source, target, weight, node, missing, repeated
        As in `nodeproof.tables.reading.read_tables`.
    nodes : path, optional
        A table of attributes instead of features, for a model with a preparation of them.
    preparation : Preparation, optional
        That of the model.
    """
    links, kinds = None, None
    if isinstance(edges, LinksOfKinds):
        links, kinds = edges.together, edges
    elif edges is not None:
        assert isinstance(unit, float)
        links = read_new_links(open_named(edges), header, source, target, weight, unit)
    rows, blank = None, None
    known = no_node_is_known if links is None else links.keys.has
    if nodes is not None and preparation is not None:
        keys, made, more = read_prepared(open_named(nodes), known, header, node, preparation)
        blank = preparation.blank()
        rows = FeatureRows(keys, made, preparation.features, more, missing=blank is not None)
    elif features is not None:
        rows = read_features(
            open_named(features), known, header, node, names or (), missing=missing
        )
    parts: list[Links | FeatureRows] = [part for part in (links, rows) if part is not None]
    if not parts:
        raise InputError(
            "there are no new nodes: give --nodes FILE or --features FILE, --edges FILE, or both"
        )
    notes = [note for part in parts for note in part.notes]
    model = Keys.of_texts(Path("the model"), as_texts(fitted), lambda row: "the model")
    check_lookalikes([model, *(part.keys for part in parts)])
    ids, places = one_node_set([part.keys for part in parts])
    position = positions_among(ids, fitted)
    fresh = position < 0
    if not fresh.any():
        raise InputError(
            f"there are no new nodes: the model knows all of {some(ids)}; its predictions are in "
            "the predictions.csv of the fit"
        )
    # Where each id stands among the new ones.
    place = np.cumsum(fresh) - 1
    matrix: sp.csr_array | dict[str, sp.csr_array] | None = None
    n_links = 0
    if links is not None:
        _check_joined(links, places[0], position, fitted)
        units = unit if isinstance(unit, Mapping) else {"": unit}
        parts_of = {"": links} if kinds is None else kinds.kinds
        ends = {"": places[0]} if kinds is None else kinds.split(places[0])
        found = {
            name: _find_links(
                own, ends[name], position, place, len(fitted), units[name], notes, repeated
            )
            for name, own in parts_of.items()
        }
        matrices = {name: sp.csr_array(sp.hstack(own)) for name, own in found.items()}
        matrix = matrices[""] if kinds is None else matrices
        n_links = sum(own.to_fitted.nnz + own.among.nnz // 2 for own in found.values())
        degrees = sum(np.diff(own.to_fitted.indptr) for own in found.values())
        if alone := int((np.asarray(degrees) == 0).sum()):
            notes.append(f"{count_of(alone, 'new node')} without a link to a fitted node")
    X = None
    if rows is not None and names is not None:
        why = None if links is None else partial(links.why_missing, places[0])
        X = place_features(rows, places[-1], ids, fresh, place, names, notes, why)
        if blank is not None:
            X[np.isnan(X).all(axis=1)] = blank
    return NewNodes(ids[fresh], X, matrix, n_links, notes)


def open_named(path: PathLike) -> TableFile:
    """Open a table that calls nodes by their ids."""
    file = Path(path)
    if file.is_dir():
        raise InputError(f"{file} is a folder; give a file")
    if file_kind(file) == "npz":
        raise InputError(f"{file} has no ids of nodes: new nodes need a table, such as .csv")
    return open_table(file)


def read_new_links(
    file: TableFile,
    header: bool | None,
    source: Column,
    target: Column,
    weight: Column,
    unit: float,
) -> Links:
    """Read the links, with a note if the model was fitted to weights and they have none."""
    weighted = unit != 1.0
    links = read_links(file, header, source, target, weight, suggest_weight=weighted)
    if weighted and links.weight is None:
        hint = f"those of {file.path.name} have no weights, so each counts as the mean, {unit:g}"
        if len(file.names) > 2:
            hint = "if a column has the weights, use --weight-column"
        links.notes.append(f"the model was fitted to weighted links; {hint}")
    return links


def no_node_is_known(nodes: Sequence[str]) -> bool:
    """Say that no id is known, where there are no links to know them from."""
    return False


def positions_among(ids: NDArray[Any], fitted: NDArray[Any]) -> NDArray[np.int64]:
    """Return the position of each id among the fitted ones, −1 if it is not there."""
    if ids.dtype.kind != "i" or fitted.dtype.kind != "i":
        ids, fitted = ids.astype(np.str_), fitted.astype(np.str_)
    order = np.argsort(fitted, kind="stable")
    at = np.searchsorted(fitted, ids, sorter=order)
    found = order[np.minimum(at, len(fitted) - 1)]
    return np.where(fitted[found] == ids, found, -1)


def _check_joined(
    links: Links, nodes: NDArray[Any], position: NDArray[np.int64], fitted: NDArray[Any]
) -> None:
    """Raise an error if no link joins a new node to a fitted one."""
    first, second = np.split(position[nodes] >= 0, 2)
    if not (first != second).any():
        raise InputError(
            f"no link of {links.keys.path} joins a new node to a fitted one; the fitted nodes have "
            f"names like {some(fitted)}: do both name nodes the same way?"
        )


def _find_links(
    links: Links,
    nodes: NDArray[Any],
    position: NDArray[np.int64],
    place: NDArray[np.int64],
    n_fitted: int,
    unit: float,
    notes: list[str],
    repeated: str,
) -> NewLinks:
    """Return the links of new nodes, with notes on the others."""
    first, second = np.split(nodes, 2)
    is_fitted = position >= 0
    swapped = is_fitted[first] & ~is_fitted[second]
    new, old = np.where(swapped, second, first), np.where(swapped, first, second)
    name = links.keys.path.name
    used = ~is_fitted[new]
    if among_fitted := int((~used).sum()):
        notes.append(f"{count_of(among_fitted, 'link')} between fitted nodes in {name} not used")
    weight = None if links.weight is None else links.weight[used]
    pairs = np.sort(first[used].astype(np.int64) * len(position) + second[used])
    if repeats := int(np.count_nonzero(pairs[1:] == pairs[:-1])):
        largest = "" if links.weight is None else " with its largest weight"
        how = "their weights are added" if repeated == "sum" else f"each counts once{largest}"
        notes.append(f"{count_of(repeats, 'repeated link')} in {name}; {how}")
    new, old = new[used], old[used]
    if repeated == "sum":
        new, old, weight = added_up(new, old, weight)
    found, _ = links_from_pairs(
        place[new],
        np.where(is_fitted[old], position[old], n_fitted + place[old]),
        weight,
        n_new=int(place[-1]) + 1,
        n_fitted=n_fitted,
        unit=unit,
    )
    return found


def added_up(
    new: NDArray[Any], old: NDArray[Any], weight: NDArray[np.float64] | None
) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.float64]]:
    """Return every pair of nodes once, with the sum of its weights; each counts one by default."""
    weight = np.ones(len(new)) if weight is None else weight
    order, first = largest_of_each(np.minimum(new, old), np.maximum(new, old), weight)
    kept = order[first]
    return new[kept], old[kept], np.add.reduceat(weight[order], np.flatnonzero(first))


def place_features(
    rows: FeatureRows,
    nodes: NDArray[Any],
    ids: NDArray[Any],
    fresh: NDArray[np.bool_],
    place: NDArray[np.int64],
    names: list[str],
    notes: list[str],
    why_missing: WhyMissing | None,
) -> NDArray[Any]:
    """Return the features of the new nodes in the order of the model's columns, (n_new, m)."""
    columns = _match_columns(rows, names, notes)
    about_new = fresh[nodes]
    if not about_new.all():
        others = count_of(int((~about_new).sum()), "row")
        notes.append(f"{others} of {rows.keys.path.name} about fitted nodes not used")
    missing = fresh.copy()
    missing[nodes] = False
    rows.refuse_missing(missing, ids, why_missing, "new node", "the links")
    X = np.full((int(fresh.sum()), len(columns)), np.nan)
    X[place[nodes[about_new]]] = rows.X[about_new][:, columns]
    return X


def _match_columns(rows: FeatureRows, names: list[str], notes: list[str]) -> list[int]:
    """Return the position of each of the model's columns: by name, or in order if unnamed."""
    path, found = rows.keys.path, rows.names
    if found == names:
        return list(range(len(names)))
    nameless = all(map(_UNNAMED.fullmatch, names)) or all(map(_UNNAMED.fullmatch, found))
    if nameless:
        if len(found) != len(names):
            raise InputError(
                f"{path} has {count_of(len(found), 'feature')}, but the model was fitted to "
                f"{len(names)}"
            )
        notes.append(f"the features of {path.name} are taken in the order of their columns")
        return list(range(len(names)))
    missing = [name for name in names if name not in found]
    if missing:
        raise InputError(
            f"{path} lacks {count_of(len(missing), 'feature')} that the model was fitted to: "
            f"{some(np.array(missing))}; its columns are {some(np.array(found))}"
        )
    twice = [name for name in names if found.count(name) > 1]
    if twice:
        raise InputError(f"{path} has more than one column {twice[0]!r}; keep one of them")
    return [found.index(name) for name in names]
