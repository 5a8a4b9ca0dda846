"""Read what has changed since a fit: new nodes, links that came or went, and labels."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof.csr import largest_of_each
from nodeproof.errors import InputError, count_of
from nodeproof.inputs.label_values import Unknown
from nodeproof.inputs.new_links import links_from_pairs
from nodeproof.inputs.preparation import Preparation
from nodeproof.storage.graph_files import as_texts
from nodeproof.tables.columns import Column
from nodeproof.tables.edges import Links, read_links
from nodeproof.tables.features import FeatureRows, read_features, some
from nodeproof.tables.keys import Keys, check_lookalikes, one_node_set
from nodeproof.tables.kinds import LinksOfKinds
from nodeproof.tables.labels import LabelRows, read_labels
from nodeproof.tables.new_nodes import (
    added_up,
    no_node_is_known,
    open_named,
    place_features,
    positions_among,
    read_new_links,
)
from nodeproof.tables.nodes import read_prepared

__all__ = ["Changes", "read_changes"]

PathLike = str | os.PathLike[str]


class Added(NamedTuple):
    """Links to add.

    Attributes
    ----------
    first, second : ndarray of shape (E,)
        Their ends, as positions.
    weight : ndarray of shape (E,)
        Their weights.
    """

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    weight: NDArray[np.float64]


@dataclass(frozen=True)
class Changes:
    """What a user's files change, with n nodes before and n_new new ones.

    Nodes are called by positions; new ones are counted on from those before.

    Attributes
    ----------
    ids : ndarray of shape (n_new,)
        Ids of the new nodes, sorted.
    X : ndarray of shape (n_new, m), or None
        Their features.
    links : dict of scipy.sparse.csr_array of shape (n_new, n + n_new)
        Their links, by kind; those of one kind as that of "".
    added : dict of Added
        Links to add among the nodes that were there before, by kind.
    removed : dict of ndarray of shape (R, 2)
        Links to remove, by kind.
    labelled, labels : ndarray of shape (l,)
        Nodes with another label, and which; "" removes it.
    notes : list of str
        What the user should know, one line each.
    """

    ids: NDArray[Any]
    X: NDArray[Any] | None
    links: dict[str, sp.csr_array]
    added: dict[str, Added]
    removed: dict[str, NDArray[np.int64]]
    labelled: NDArray[np.int64]
    labels: NDArray[Any]
    notes: list[str]


def read_changes(
    fitted: NDArray[Any],
    features: PathLike | None = None,
    edges: PathLike | LinksOfKinds | None = None,
    labels: PathLike | None = None,
    remove: PathLike | LinksOfKinds | None = None,
    *,
    names: list[str] | None = None,
    unit: float | Mapping[str, float] = 1.0,
    header: bool | None = None,
    source: Column = None,
    target: Column = None,
    weight: Column = None,
    node: Column = None,
    label: Column = None,
    unknown: Sequence[str] = (),
    missing: bool = False,
    nodes: PathLike | None = None,
    preparation: Preparation | None = None,
    repeated: str = "max",
) -> Changes:
    """Read new nodes, links to add and to remove, and labels.

    Every node that links or features name, and that is not among the fitted ones, is new.

    Parameters
    ----------
    fitted : ndarray of shape (n,)
        Ids of the fitted nodes: integers or text.
    features, nodes, names, unit, missing, preparation
        As in `nodeproof.tables.new_nodes.read_new_nodes`.
    edges, remove : path, optional
        Tables of links to add, of new nodes or of others, and of links to remove. Links of several
        kinds have been read already.
    labels : path, optional
        Table of labels that are new or corrected; an unknown one removes what was there.
    header, source, target, weight, node, label, unknown, repeated
        As in `nodeproof.tables.reading.read_tables`.
    """
    parts: dict[str, Links | FeatureRows | LabelRows] = {}
    kinds = {
        part: given
        for part, given in (("edges", edges), ("remove", remove))
        if isinstance(given, LinksOfKinds)
    }
    known, blank = no_node_is_known, None
    if edges is not None:
        if isinstance(edges, LinksOfKinds):
            links = edges.together
        else:
            assert isinstance(unit, float)
            links = read_new_links(open_named(edges), header, source, target, weight, unit)
        parts["edges"] = links
        known = links.keys.has
    if nodes is not None and preparation is not None:
        keys, made, more = read_prepared(open_named(nodes), known, header, node, preparation)
        blank = preparation.blank()
        parts["features"] = FeatureRows(
            keys, made, preparation.features, more, missing=blank is not None
        )
    elif features is not None:
        parts["features"] = read_features(
            open_named(features), known, header, node, names or (), missing=missing
        )
    model = Keys.of_texts(Path("the model"), as_texts(fitted), lambda row: "the model")
    if labels is not None:
        parts["labels"] = read_labels(
            open_named(labels), model.has, header, node, label, Unknown.of(unknown or None)
        )
    if isinstance(remove, LinksOfKinds):
        parts["remove"] = remove.together
    elif remove is not None:
        parts["remove"] = read_links(
            open_named(remove), header, source, target, None, suggest_weight=False
        )
    if not parts:
        raise InputError(
            "there is nothing to update: give --edges, --remove, --labels, --features or --nodes"
        )
    check_lookalikes([model, *(part.keys for part in parts.values())])
    ids, rows = one_node_set([part.keys for part in parts.values()])
    units = unit if isinstance(unit, Mapping) else {"": unit}
    return _Placed(fitted, ids, dict(zip(parts, rows, strict=True)), parts, kinds).read(
        names, units, repeated, blank
    )


class _Placed:
    """The nodes of the files, and where they stand among those before and the new ones."""

    def __init__(
        self,
        fitted: NDArray[Any],
        ids: NDArray[Any],
        rows: dict[str, NDArray[Any]],
        parts: dict[str, Any],
        kinds: dict[str, LinksOfKinds],
    ) -> None:
        self.fitted, self.ids, self.rows, self.parts = fitted, ids, rows, parts
        self.kinds = kinds
        position = positions_among(ids, fitted)
        bringing = [rows[name] for name in ("edges", "features") if name in rows]
        self.fresh = np.zeros(len(ids), dtype=bool)
        for found in bringing:
            self.fresh[found] = True
        self.fresh &= position < 0
        self.place = np.cumsum(self.fresh) - 1
        #: positions among all nodes, −1 for those that are nowhere
        self.position = np.where(self.fresh, len(fitted) + self.place, position)
        self.notes = [note for part in parts.values() for note in part.notes]
        new = ids[self.fresh]
        if len(new) and (new.dtype.kind == "i") != (fitted.dtype.kind == "i"):
            self._refuse_other_names(new)

    def _refuse_other_names(self, new: NDArray[Any]) -> None:
        if self.fitted.dtype.kind == "i":
            raise InputError(
                f"new nodes have names like {some(new)}, but the nodes of the model are called by "
                f"integers, such as {some(self.fitted)}: call new ones by integers, too"
            )

    def read(
        self,
        names: list[str] | None,
        units: Mapping[str, float],
        repeated: str,
        blank: NDArray[Any] | None,
    ) -> Changes:
        """Return what the files change."""
        n, n_new = len(self.fitted), int(self.fresh.sum())
        links: dict[str, sp.csr_array] = {}
        added: dict[str, Added] = {}
        for name, (first, second, weight) in self._links(units, repeated).items():
            old = (first < n) & (second < n)
            found, _ = links_from_pairs(
                np.maximum(first, second)[~old] - n, np.minimum(first, second)[~old],
                weight[~old], n_new=n_new, n_fitted=n, unit=units[name],
            )  # fmt: skip
            links[name] = sp.csr_array(sp.hstack([found.to_fitted, found.among]))
            if old.any():
                added[name] = Added(first[old], second[old], weight[old])
        degrees = np.zeros(n_new)
        for own in links.values():
            degrees += np.diff(own[:, :n].indptr)
        if alone := int((degrees == 0).sum()):
            self.notes.append(f"{count_of(alone, 'new node')} without a link to a fitted node")
        removed = {}
        if "remove" in self.rows:
            ends = self._known("remove", "links to remove are among nodes that are there")
            for name, own in self._split("remove", ends).items():
                removed[name] = np.stack(np.split(own, 2), axis=1)
        labelled, labels = self._labels()
        return Changes(
            self.ids[self.fresh],
            self._features(names, blank, n_new),
            links,
            added,
            removed,
            labelled,
            labels,
            self.notes,
        )

    def _split(self, part: str, ends: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
        """Return the ends of links by kind."""
        return self.kinds[part].split(ends) if part in self.kinds else {"": ends}

    def _links(
        self, units: Mapping[str, float], repeated: str
    ) -> dict[str, tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]:
        """Return the ends of the links to add, and their weights, by kind."""
        if "edges" not in self.rows:
            return {}
        kinds = {"": self.parts["edges"]}
        if "edges" in self.kinds:
            kinds = self.kinds["edges"].kinds
        ends = self._split("edges", self.position[self.rows["edges"]])
        return {
            name: self._of_kind(links, ends[name], units[name], repeated)
            for name, links in kinds.items()
        }

    def _of_kind(
        self, links: Links, ends: NDArray[np.int64], unit: float, repeated: str
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        first, second = np.split(ends, 2)
        weight = np.full(len(first), unit) if links.weight is None else links.weight
        loops = first == second
        if loops.any():
            name = links.keys.path.name
            self.notes.append(f"{count_of(int(loops.sum()), 'self loop')} in {name} not used")
        first, second, weight = first[~loops], second[~loops], weight[~loops]
        if repeated == "sum" and len(first):
            return added_up(first, second, weight)
        order, fresh = largest_of_each(np.minimum(first, second), np.maximum(first, second), weight)
        kept = order[fresh]
        return first[kept], second[kept], weight[kept]

    def _known(self, part: str, what: str) -> NDArray[np.int64]:
        """Return the positions of the nodes of a file, all of which must be there."""
        places = self.position[self.rows[part]]
        strange = np.flatnonzero(places < 0)
        if len(strange):
            keys, row = self.parts[part].keys, int(strange[0])
            raise InputError(
                f"{keys.place(row % len(self._ends(part)))}: there is no node "
                f"{keys.id_of(row)!r} in the model; {what}, which have names like "
                f"{some(self.fitted)}"
            )
        return np.asarray(places, dtype=np.int64)

    def _ends(self, part: str) -> NDArray[Any]:
        rows = self.rows[part]
        return rows[: len(rows) // 2] if part == "remove" else rows

    def _labels(self) -> tuple[NDArray[np.int64], NDArray[Any]]:
        if "labels" not in self.rows:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.str_)
        listed = self.parts["labels"]
        places = self._known("labels", "labels are of its nodes, or of new ones")
        codes = listed.placed(places, int(places.max()) + 1)
        labelled = np.unique(places)
        names = np.array([*listed.names, ""], dtype=object)
        return labelled, names[codes[labelled]]

    def _features(
        self, names: list[str] | None, blank: NDArray[Any] | None, n_new: int
    ) -> NDArray[Any] | None:
        if names is None or not n_new:
            return None
        rows = self.parts.get("features")
        if rows is None:
            raise InputError(
                f"there are no features of new nodes, such as {some(self.ids[self.fresh])}, but "
                "the model was fitted with features: give --features FILE (or --nodes FILE)"
            )
        why = None
        if "edges" in self.parts:
            why = partial(self.parts["edges"].why_missing, self.rows["edges"])
        X = place_features(
            rows, self.rows["features"], self.ids, self.fresh, self.place, names, self.notes, why
        )
        if blank is not None:
            X[np.isnan(X).all(axis=1)] = blank
        return X
