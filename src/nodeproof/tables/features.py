"""Features files, and which column of a table names its nodes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof.errors import InputError, count_of
from nodeproof.tables.columns import (
    LABELS,
    NODES,
    Column,
    features_have_header,
    find_column,
    find_index,
    is_name,
    list_names,
    note_on_index,
    notes_on_skipped,
    position,
)
from nodeproof.tables.files import BadNumberError, TableFile, unnamed
from nodeproof.tables.keys import Keys

__all__ = [
    "FeatureRows",
    "Known",
    "WhyMissing",
    "find_node",
    "note_on_others",
    "read_features",
    "refuse_repeats",
    "some",
]

#: tells whether links have all of some ids
Known = Callable[[Sequence[str]], bool]

#: returns what a message on missing rows should add, given which nodes have none
WhyMissing = Callable[[NDArray[np.bool_]], str]

# As many as feature hashing gives by default. A sparse matrix may declare any number.
_MOST_COLUMNS = 1 << 20
# Rows that decide whether a column has the ids of nodes.
_LOOKED_AT = 20


@dataclass(frozen=True)
class FeatureRows:
    """Features as a file lists them.

    Attributes
    ----------
    keys : Keys
        The node of each row.
    X : ndarray or scipy.sparse.csr_array of shape (rows, m)
        Features.
    names : list of m str
        Their names.
    notes : list of str
        What the user should know.
    aside : pair of str and pyarrow large_string array of length rows, or None
        The column that has the name of the labels, which is not a feature.
    missing : bool
        Whether nodes may lack a row: their features are NaN.
    """

    keys: Keys
    X: NDArray[Any] | sp.csr_array
    names: list[str]
    notes: list[str]
    aside: tuple[str, Any] | None = None
    missing: bool = False

    @classmethod
    def of_array(cls, keys: Keys, X: NDArray[Any] | sp.csr_array) -> FeatureRows:
        """Make rows from a matrix whose columns have no names; too many of them are an error."""
        if X.shape[1] > _MOST_COLUMNS:
            raise InputError(
                f"{keys.path}: features of {X.shape[1]:,} columns are too many ({_MOST_COLUMNS:,} "
                "at most); reduce the columns, e.g. with TruncatedSVD"
            )
        return cls(keys, X, [unnamed(column) for column in range(X.shape[1])], [])

    def placed(
        self,
        nodes: NDArray[Any],
        ids: NDArray[Any],
        why_missing: WhyMissing | None = None,
    ) -> NDArray[Any] | sp.csr_array:
        """Return the features in the order of the ids; each needs a row, unless it may be missing.

        Parameters
        ----------
        nodes : ndarray of shape (rows,)
            The node of each row.
        ids : ndarray of shape (n,)
            All nodes.
        why_missing : callable, optional
            Returns what the message on missing rows should add, given which nodes have none.

        Returns
        -------
        ndarray or scipy.sparse.csr_array of shape (n, m)
        """
        missing = np.ones(len(ids), dtype=bool)
        missing[nodes] = False
        self.refuse_missing(missing, ids, why_missing)
        if sp.issparse(self.X):
            return self.X[np.argsort(nodes)]
        X = np.full((len(ids), self.X.shape[1]), np.nan, dtype=self.X.dtype)
        X[nodes] = self.X
        return X

    def refuse_missing(
        self,
        missing: NDArray[np.bool_],
        ids: NDArray[Any],
        why_missing: WhyMissing | None,
        node: str = "node",
        others: str = "the other files",
    ) -> None:
        """Raise an error if any node has no row; the message names some and where else they are."""
        if missing.any() and not self.missing:
            why = "" if why_missing is None else why_missing(missing)
            raise InputError(
                f"{count_of(int(missing.sum()), node)} without a row in {self.keys.path}: "
                f"{some(ids[missing])}; features cannot be guessed: add the rows, or remove these "
                f"nodes from {others}{why}"
            )


def read_features(
    file: TableFile,
    known: Known,
    header: bool | None,
    node: Column,
    fitted: Collection[str] = (),
    label: str | None = None,
    missing: bool = False,
) -> FeatureRows:
    """Read a features file: an id column, and numbers in all the others.

    Parameters
    ----------
    file : TableFile
        The file.
    known : callable
        Tells whether links have all of some ids, which helps to tell nodes from headers and the
        numbers of rows.
    header : bool or None
        Whether the first line names the columns; None: find out.
    node : str, int or None
        The column of the ids, where the user says.
    fitted : collection of str
        The names of the features that a model knows: where the file has them all, no other
        column is read.
    label : str, optional
        The name of the label column, which is not a feature.
    missing : bool
        Whether fields may be empty, and nodes without a row.
    """
    if file.head is not None:
        if header is None:
            header = is_name(node) or features_have_header(
                file.head[0], position(file, node, 0), lambda found: known([found])
            )
        if header:
            file.use_header()
    notes: list[str] = []
    features = [i for i, name in enumerate(file.names) if name in fitted]
    id_column, index = find_node(file, node, known, features, notes)
    others = [i for i in range(len(file.names)) if i not in (id_column, index)]
    if fitted and set(fitted) <= {file.names[i] for i in others}:
        notes += note_on_others(file, [i for i in others if file.names[i] not in fitted])
        others = [i for i in others if file.names[i] in fitted]
    aside = [i for i in others if label is not None and file.names[i].lower() == label.lower()]
    others = [i for i in others if i not in aside]
    if not others:
        raise InputError(f"{file.path} has no feature: its columns are {list_names(file.names)}")
    try:
        (ids, *labels), X = file.read([id_column, *aside[:1]], others, missing=missing)
    except BadNumberError as error:
        if not error.unexplained:
            raise
        raise InputError(
            f"{error}; if this column names the nodes, say so with --id, otherwise remove it"
        ) from None
    keys = Keys.of_texts(file.path, ids, file.place)
    refuse_repeats(keys)
    names = [file.names[i] for i in others]
    for name in names if not fitted else ():
        if name.lower() in LABELS and name.lower() != "y":  # often a coordinate
            notes.append(
                f"the feature {name!r} of {file.path.name} has a name that labels often have; "
                "if it holds them, remove it, or give the file to --labels as well"
            )
    labelled = (file.names[aside[0]], labels[0]) if aside else None
    return FeatureRows(keys, X, names, notes + notes_on_skipped(file), labelled, missing)


def some(ids: NDArray[Any]) -> str:
    """Return the first few ids, for messages.

    Examples
    --------
    >>> some(np.array(["a", "b"])), some(np.arange(9))
    ("'a', 'b'", '0, 1, 2, 3, 4, …')
    """
    return ", ".join(map(repr, ids[:5].tolist())) + (", …" if len(ids) > 5 else "")


def note_on_others(file: TableFile, others: Sequence[int]) -> list[str]:
    """Return a note on the columns that are not used, if there are any."""
    if not others:
        return []
    shown = ", ".join(file.names[i] for i in others[:5]) + (", …" if len(others) > 5 else "")
    return [f"unused columns of {file.path.name}: {shown}"]


def find_node(
    file: TableFile,
    asked: Column,
    known: Known,
    taken: Sequence[int],
    notes: list[str],
) -> tuple[int, int | None]:
    """Return the positions of the ids and of an index that is not used.

    The index that pandas and R write numbers the rows, or names the nodes: that is for the links
    to say.
    """
    index = find_index(file)
    named = asked is not None or any(
        name.lower() in NODES for i, name in enumerate(file.names) if i not in taken
    )
    if index is None or index in taken or named:
        column = find_column(file, asked, NODES, taken)
        if index is None or index in taken or index == column:
            return column, None
        notes.append(note_on_index(file, index))
        return column, index
    if file.kind_of(index) != "whole":
        return index, None
    others = [i for i in range(len(file.names)) if i != index and i not in taken]
    # If there are only two columns, the other one holds the values.
    if len(file.names) > 2 and others:
        rows, _ = file.read([index, others[0]], [])
        counts, names = (known(row[:_LOOKED_AT].to_pylist()) for row in rows)
        if names and not counts:
            notes.append(note_on_index(file, index))
            return others[0], index
        if names or not counts:
            raise InputError(
                f"{file.path}: are the nodes in its first column, which has no name, or in "
                f"{file.names[others[0]]!r}? Say so with --id 0 or --id {others[0]}"
            )
    which = "first column" if index == 0 else f"column {file.names[index]!r}"
    notes.append(f"the {which} of {file.path.name}, which has no name, is read as the node")
    return index, None


def refuse_repeats(keys: Keys) -> None:
    """Refuse a table with two rows for one node."""
    if len(keys.distinct) == len(keys.codes):
        return
    _, first = np.unique(keys.codes, return_index=True)
    repeated = np.ones(len(keys.codes), dtype=bool)
    repeated[first] = False
    row = int(np.argmax(repeated))
    before = int(np.argmax(keys.codes == keys.codes[row]))
    raise InputError(
        f"{keys.place(row)}: the node {keys.id_of(row)!r} already has a row, "
        f"{keys.short_place(before)}; keep one of them"
    )
