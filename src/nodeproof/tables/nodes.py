"""One table of nodes: ids, attributes of any kind, and perhaps labels."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodeproof.errors import InputError, count_of
from nodeproof.inputs.attributes import Attribute, attribute_of_texts
from nodeproof.inputs.label_values import Unknown
from nodeproof.inputs.preparation import STEPS, Preparation, prepare
from nodeproof.tables.columns import (
    NODES,
    Column,
    find_column,
    find_index,
    list_names,
    note_on_index,
    notes_on_skipped,
)
from nodeproof.tables.features import Known, refuse_repeats, some
from nodeproof.tables.files import TableFile
from nodeproof.tables.keys import Keys
from nodeproof.tables.labels import LabelRows, find_determining

__all__ = ["NodeColumns", "NodeRows", "PreparedRows", "read_nodes", "read_prepared"]

# Names of a column that is taken for the labels if nothing else is said.
_LABELS = ("label", "labels", "class")
# A column of at most so many texts, on fewer than half of the nodes, may hold the labels.
_FEW_LABELS = 30
# Rows that decide which column has the ids of nodes, and the share of them that links must have.
_LOOKED_AT, _ENOUGH = 100, 0.5


@dataclass(frozen=True)
class NodeColumns:
    """What a user says about a table of nodes.

    Attributes
    ----------
    label : str, int or None
        The column with the labels.
    drop : collection of str
        Columns that are not features.
    steps : sequence of str
        How the others are prepared, see `nodeproof.inputs.preparation.STEPS`.
    other_labels : bool
        Whether the labels are in another file.
    target : str, int or None
        The column with numbers to predict; there are no labels then.
    """

    label: Column = None
    drop: Collection[str] = ()
    steps: Sequence[str] = STEPS
    other_labels: bool = False
    target: Column = None


@dataclass(frozen=True)
class NodeRows:
    """A table of nodes as its file lists them.

    Attributes
    ----------
    keys : Keys
        The node of each row.
    attributes : list of Attribute
        The other columns.
    labels : LabelRows or None
        The column with the labels, if there is one.
    node : str
        The name of the column with the ids.
    steps : sequence of str
        How the attributes are prepared.
    notes : list of str
        What the user should know.
    target : Attribute or None
        The column with numbers to predict.
    """

    keys: Keys
    attributes: list[Attribute]
    labels: LabelRows | None
    node: str
    steps: Sequence[str] = STEPS
    notes: list[str] = field(default_factory=list)
    target: Attribute | None = None

    def prepared(
        self, nodes: NDArray[Any], ids: NDArray[Any], codes: NDArray[np.int64] | None
    ) -> PreparedRows:
        """Return the features of all nodes, in the order of the ids.

        Parameters
        ----------
        nodes : ndarray of shape (rows,)
            The node of each row.
        ids : ndarray of shape (n,)
            All nodes.
        codes : ndarray of shape (n,), or None
            The label of each node, −1 where it is unknown.
        """
        name = self.keys.path.name
        notes = self._notes_on_missing(nodes, ids)
        placed = [attribute.placed(nodes, len(ids)) for attribute in self.attributes]
        kept = []
        for attribute in placed:
            told = "" if codes is None else _repeats_labels(attribute, codes, name)
            if told:
                notes.append(told)
            if not told.endswith("not used"):
                kept.append(attribute)
        X, preparation, line = prepare(kept, self.steps, name)
        if "impute" not in self.steps:
            _refuse_gaps(kept, preparation, ids, name)
        return PreparedRows(X, replace(preparation, node=self.node), [line, *notes])

    def _notes_on_missing(self, nodes: NDArray[Any], ids: NDArray[Any]) -> list[str]:
        """Return a note on nodes without a row; too many of them are an error."""
        missing = np.ones(len(ids), dtype=bool)
        missing[nodes] = False
        if not missing.any():
            return []
        found = f"{count_of(missing.sum(), 'node')} without a row in {self.keys.path}"
        if 2 * int(missing.sum()) > len(ids):
            raise InputError(
                f"{found}: {some(ids[missing])}; it has names like {some(ids[~missing])}: do the "
                "links name nodes the same way? --id says which column has the names"
            )
        return [f"{found.replace(str(self.keys.path), self.keys.path.name)}: nothing known of them"]


@dataclass(frozen=True)
class PreparedRows:
    """The features of a table of nodes.

    Attributes
    ----------
    X : ndarray of shape (n, m), or None
        Features; None if no column is one.
    preparation : Preparation
        How they were made.
    notes : list of str
        What was done, and what the user should know.
    """

    X: NDArray[np.float64] | None
    preparation: Preparation
    notes: list[str]


def read_nodes(
    file: TableFile,
    known: Known,
    header: bool | None,
    node: Column,
    asked: NodeColumns,
    unknown: Unknown,
) -> NodeRows:
    """Read a table of nodes.

    Parameters
    ----------
    file : TableFile
        The file; its first line names the columns, unless the user says otherwise.
    known : callable
        Tells whether links have all of some ids.
    header : bool or None
        Whether the first line names the columns.
    node : str, int or None
        The column of the ids, where the user says.
    asked : NodeColumns
        What the user says of the other columns.
    unknown : Unknown
        What stands for an unknown label.
    """
    if file.head is not None and header is not False:
        file.use_header()
    notes: list[str] = []
    target = None if asked.target is None else find_column(file, asked.target)
    label = _find_label(file, asked, notes)
    dropped = {find_column(file, name) for name in asked.drop}
    if label is not None and label in dropped:
        raise InputError(f"{file.path}: the label column {file.names[label]!r} is also dropped")
    if target is not None and target in dropped:
        raise InputError(f"{file.path}: the target {file.names[target]!r} is also dropped")
    taken = [i for i in (label, target, *dropped) if i is not None]
    index = find_index(file)
    rows = _read_texts(file, [i for i in range(len(file.names)) if i not in dropped])
    ids = _find_ids(file, rows, node, known, taken, index, notes)
    if index is not None and index != ids:
        dropped.add(index)
        notes.append(note_on_index(file, index))
    keys = Keys.of_texts(file.path, rows[ids], file.place)
    refuse_repeats(keys)
    _refuse_same_names(file)
    where = f"{file.path}: "
    attributes = [
        attribute_of_texts(file.names[i], cells, where)
        for i, cells in rows.items()
        if i not in (ids, label, target) and i not in dropped
    ]
    numbers = None
    if target is not None:
        numbers = attribute_of_texts(file.names[target], rows[target], where)
        if numbers.numbers is None:
            raise InputError(
                f"{where}the target {file.names[target]!r} holds text, not numbers: predict "
                f"classes with --label {file.names[target]}"
            )
    found = None
    if label is not None:
        found = LabelRows.of_texts(keys, rows[label], unknown, column=file.names[label])
    elif not asked.other_labels:
        notes.append(_note_on_no_labels(file.path.name, attributes))
    notes += notes_on_skipped(file)
    return NodeRows(keys, attributes, found, file.names[ids], asked.steps, notes, numbers)


def read_prepared(
    file: TableFile, known: Known, header: bool | None, node: Column, preparation: Preparation
) -> tuple[Keys, NDArray[np.float64], list[str]]:
    """Read the nodes of a table as features, prepared as a model says; and notes.

    Parameters
    ----------
    file, known, header, node
        As in `read_nodes`.
    preparation : Preparation
        That of the model.
    """
    if file.head is not None and header is not False:
        file.use_header()
    lacking = [name for name in preparation.names if name not in file.names]
    if lacking:
        raise InputError(
            f"{file.path} lacks {count_of(len(lacking), 'column')} that the model was fitted to: "
            f"{some(np.array(lacking))}; its columns are {list_names(file.names)}"
        )
    notes: list[str] = []
    columns = [file.names.index(name) for name in preparation.names]
    rows = _read_texts(file, range(len(file.names)))
    node = preparation.node if node is None and preparation.node in file.names else node
    ids = _find_ids(file, rows, node, known, columns, find_index(file), notes)
    keys = Keys.of_texts(file.path, rows[ids], file.place)
    refuse_repeats(keys)
    where = f"{file.path}: "
    attributes = [attribute_of_texts(file.names[i], rows[i], where) for i in columns]
    X = preparation.apply(attributes)
    notes += preparation.note_on_unknown(attributes, file.path.name)
    if "impute" not in preparation.steps:
        _refuse_gaps(attributes, preparation, np.array(rows[ids].to_pylist()), file.path.name)
    return keys, X, notes + notes_on_skipped(file)


def _read_texts(file: TableFile, columns: Sequence[int]) -> dict[int, Any]:
    """Return columns as text, by position."""
    texts, _ = file.read(list(columns), [])
    return dict(zip(columns, texts, strict=True))


def _find_label(file: TableFile, asked: NodeColumns, notes: list[str]) -> int | None:
    """Return the position of the labels, where there are any."""
    if asked.other_labels or asked.target is not None:
        return None
    if asked.label is not None:
        return find_column(file, asked.label)
    named = [i for i, name in enumerate(file.names) if name.lower() in _LABELS]
    if len(named) != 1:
        return None
    name = file.names[named[0]]
    notes.append(f"the column {name!r} of {file.path.name} is read as the labels")
    return named[0]


def _find_ids(
    file: TableFile,
    rows: dict[int, Any],
    asked: Column,
    known: Known,
    taken: Sequence[int],
    index: int | None,
    notes: list[str],
) -> int:
    """Return the position of the ids: the column that links know, by its name if several do."""
    if asked is not None:
        return find_column(file, asked, taken=taken)
    free = [i for i in rows if i not in taken]
    if not free:
        raise InputError(f"{file.path} has no column with the names of nodes")
    named = [i for i in free if file.names[i].lower() in NODES]
    matching = [i for i in free if _match(rows[i], known)]
    naming = [i for i in taken if not matching and i in rows and _match(rows[i], known)]
    if naming:
        raise InputError(
            f"{file.path}: the column {file.names[naming[0]]!r} names the nodes, as far as the "
            "links tell, so it cannot hold their labels"
        )
    likely = [i for i in named if i in matching] or matching
    if len(likely) > 1 and index in likely:
        likely = [i for i in likely if i != index]
    if not likely and len(named) == 1:
        return named[0]  # compared with the links later on, name by name
    if not likely:
        likely = free[:1]
    if len(likely) > 1 and likely[0] != 0:
        listed = list_names([file.names[i] for i in likely])
        raise InputError(
            f"{file.path}: which column names the nodes? {listed} do as far as the links tell: say "
            "so with --id"
        )
    if likely[0] not in named:
        notes.append(
            f"the column {file.names[likely[0]]!r} of {file.path.name} is read as the node"
        )
    return likely[0]


def _note_on_no_labels(name: str, attributes: Sequence[Attribute]) -> str:
    """Return the note that there are no labels, with the column that may well hold some."""
    likely = [
        attribute.name
        for attribute in attributes
        if attribute.codes is not None
        and 2 <= len(attribute.texts) <= _FEW_LABELS
        and attribute.missing.mean() >= _ENOUGH
    ]
    hint = f", such as {' or '.join(map(repr, likely))}," if likely else ""
    return f"no labels: if a column of {name}{hint} holds them, say so with --label"


def _match(cells: Any, known: Known) -> bool:
    """Tell whether links have most of the ids of a column."""
    distinct = cells[:_LOOKED_AT].unique().to_pylist()
    if 2 * len(distinct) < min(len(cells), _LOOKED_AT):  # ids do not repeat
        return False
    return sum(known([cell]) for cell in distinct) > _ENOUGH * len(distinct)


def _refuse_same_names(file: TableFile) -> None:
    twice = [name for name in file.names if file.names.count(name) > 1]
    if twice:
        raise InputError(f"{file.path} has more than one column {twice[0]!r}; rename one of them")


def _repeats_labels(attribute: Attribute, codes: NDArray[np.int64], name: str) -> str:
    """Return a note if an attribute determines the labels; it ends with "not used" if it is one."""
    if attribute.useless:
        return ""
    raw = np.nan_to_num(attribute.raw, nan=-1.0)[:, None]
    if not find_determining(raw, codes):
        return ""
    elsewhere = raw[codes < 0, 0]
    if len(elsewhere) and (elsewhere == elsewhere[0]).all():
        return f"the column {attribute.name!r} of {name} repeats the labels: not used"
    return (
        f"the column {attribute.name!r} of {name} determines the label of each of the "
        f"{int((codes >= 0).sum())} labelled nodes; if it was made from the labels, leave it out: "
        f"--drop {attribute.name}"
    )


def _refuse_gaps(
    attributes: Sequence[Attribute], preparation: Preparation, ids: NDArray[Any], name: str
) -> None:
    """Raise an error that names the first value that is missing."""
    used = set(preparation.names)
    for attribute in attributes:
        if attribute.name in used and attribute.missing.any():
            raise InputError(
                f"{name}: the column {attribute.name!r} has no value for "
                f"{ids[int(attribute.missing.argmax())].item()!r}; fill it in, or leave out "
                "--no-impute"
            )
