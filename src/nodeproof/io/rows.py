"""Features and labels files: what they say of each node."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof.errors import InputError
from nodeproof.io.columns import (
    LABELS,
    NODES,
    Column,
    features_have_header,
    find_column,
    is_name,
    labels_have_header,
    position,
)
from nodeproof.io.files import BadNumberError, TableFile, count_of, unnamed
from nodeproof.io.keys import Keys
from nodeproof.io.links import notes_on_text
from nodeproof.io.names import refuse_long
from nodeproof.io.text import TextFile

__all__ = ["FeatureRows", "LabelRows", "read_features", "read_labels", "some"]

# As many as feature hashing gives by default. A sparse matrix may declare any number.
_MOST_COLUMNS = 1 << 20


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
    """

    keys: Keys
    X: NDArray[Any] | sp.csr_array
    names: list[str]
    notes: list[str]

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
        why_missing: Callable[[NDArray[np.bool_]], str] | None = None,
    ) -> NDArray[Any] | sp.csr_array:
        """Return the features in the order of the ids; each must have one row.

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
        if missing.any():
            why = "" if why_missing is None else why_missing(missing)
            raise InputError(
                f"{count_of(missing.sum(), 'node')} without a row in {self.keys.path}: "
                f"{some(ids[missing])}; features cannot be guessed: add the rows, or remove "
                f"these nodes from the other files{why}"
            )
        if sp.issparse(self.X):
            return self.X[np.argsort(nodes)]
        X = np.empty_like(self.X)
        X[nodes] = self.X
        return X


@dataclass(frozen=True)
class LabelRows:
    """Labels as a file lists them.

    Attributes
    ----------
    keys : Keys
        The node of each row.
    texts : pyarrow large_string array of length rows
        Labels, some of them unknown.
    notes : list of str
        What the user should know.
    """

    keys: Keys
    texts: Any
    notes: list[str]

    @classmethod
    def of_array(cls, keys: Keys, y: NDArray[np.str_]) -> LabelRows:
        """Make rows from labels, empty where unknown."""
        return cls(keys, pa.array(y.tolist(), pa.large_string()), [])

    def placed(self, nodes: NDArray[Any], n_nodes: int, unknown: set[str]) -> NDArray[np.str_]:
        """Return one label a node, empty where unknown; two different ones are an error.

        Parameters
        ----------
        nodes, n_nodes, unknown
            As in `encoded`.

        Returns
        -------
        ndarray of shape (n,)
        """
        names, codes = self.encoded(nodes, n_nodes, unknown)
        return np.append(names, "")[codes]

    def encoded(
        self, nodes: NDArray[Any], n_nodes: int, unknown: set[str]
    ) -> tuple[NDArray[np.str_], NDArray[np.int64]]:
        """Return the labels that there are, and which of them each node has.

        Two different labels of one node are an error.

        Parameters
        ----------
        nodes : ndarray of shape (rows,)
            The node of each row.
        n_nodes : int
            Number of nodes n.
        unknown : set of str
            What stands for an unknown label.

        Returns
        -------
        names : ndarray of shape (labels,)
            In the order of the file, unknown ones among them.
        codes : ndarray of shape (n,)
            Position of each node's label in `names`, −1 where it is unknown.
        """
        encoded = self.texts.dictionary_encode()
        codes = encoded.indices.to_numpy()
        refuse_long(
            encoded.dictionary, "label", lambda k: self.keys.place(int(np.argmax(codes == k)))
        )
        labels = encoded.dictionary.to_pylist()
        known = ~np.isin(codes, [i for i, text in enumerate(labels) if text in unknown])
        rows = np.flatnonzero(known)
        first = np.full(n_nodes, -1)
        # The last assignment stays, so the rows are assigned backwards.
        first[nodes[rows[::-1]]] = rows[::-1]
        differs = codes[rows] != codes[first[nodes[rows]]]
        if differs.any():
            row = int(rows[np.argmax(differs)])
            before = int(first[nodes[row]])
            raise InputError(
                f"{self.keys.place(row)}: the node {self.keys.id_of(row)!r} has the label "
                f"{labels[codes[row]]!r}, but {labels[codes[before]]!r} in "
                f"{self.keys.short_place(before)}; give each node one label"
            )
        found = np.full(n_nodes, -1)
        found[nodes[rows]] = codes[rows]
        return np.array(labels, dtype=np.str_), found


def read_features(file: TableFile, links: Keys, header: bool | None, node: Column) -> FeatureRows:
    """Read a features file: an id column, and numbers in all the others.

    Parameters
    ----------
    file : TableFile
        The file.
    links : Keys
        The ids of the edges file, which help to tell a header from a node.
    header : bool or None
        Whether the first line names the columns; None: find out.
    node : str, int or None
        The column of the ids, where the user says.
    """
    if isinstance(file, TextFile):
        if header is None:
            header = is_name(node) or features_have_header(
                file.head[0], position(file, node, 0), lambda found: links.code(found) >= 0
            )
        if header:
            file.use_header()
    id_column = find_column(file, node, NODES)
    others = [i for i in range(len(file.names)) if i != id_column]
    try:
        (ids,), X = file.read([id_column], others)
    except BadNumberError as error:
        if not error.unexplained:
            raise
        raise InputError(
            f"{error}; if this column names the nodes, say so with --node, else take it out"
        ) from None
    keys = Keys.of_texts(file.path, ids, file.place)
    _refuse_repeats(keys)
    used = range(len(file.names))
    return FeatureRows(keys, X, [file.names[i] for i in others], notes_on_text(file, used))


def read_labels(
    file: TableFile,
    links: Keys,
    header: bool | None,
    node: Column,
    label: Column,
    unknown: Collection[str],
) -> LabelRows:
    """Read a labels file: an id column and a label column.

    Parameters
    ----------
    file : TableFile
        The file.
    links : Keys
        The ids of the edges file, which help to tell a header from a node.
    header : bool or None
        Whether the first line names the columns; None: find out.
    node, label : str, int or None
        The columns, where the user says.
    unknown : collection of str
        What stands for an unknown label.
    """
    notes: list[str] = []
    if isinstance(file, TextFile):
        if header is None:
            header = is_name(node) or is_name(label)
            if not header:
                header, notes = _guess_label_header(file, links, node, label, unknown)
        if header:
            file.use_header()
    id_column, label_column = _find_node_and_label(file, node, label)
    (ids, texts), _ = file.read([id_column, label_column], [])
    notes += notes_on_text(file, [id_column, label_column])
    return LabelRows(Keys.of_texts(file.path, ids, file.place), texts, notes)


def some(ids: NDArray[Any]) -> str:
    """Return the first few ids, for messages.

    Examples
    --------
    >>> some(np.array(["a", "b"])), some(np.arange(9))
    ("'a', 'b'", '0, 1, 2, 3, 4, …')
    """
    return ", ".join(map(repr, ids[:5].tolist())) + (", …" if len(ids) > 5 else "")


def _guess_label_header(
    file: TextFile, links: Keys, node: Column, label: Column, unknown: Collection[str]
) -> tuple[bool, list[str]]:
    """Tell whether there is a header, with a note if that is a guess."""
    first = file.head[0]
    id_at = position(file, node, 0)
    label_at = position(file, label, 0 if id_at else 1)
    if not labels_have_header(
        file.head, id_at, label_at, lambda found: links.code(found) >= 0, unknown
    ):
        return False, []
    if first[id_at].lower() in NODES:
        return True, []
    return True, [
        f"the first line of {file.path.name} ({', '.join(first[:5])}) is read as the names of "
        "the columns; if it is a label, use --no-header"
    ]


def _find_node_and_label(file: TableFile, node: Column, label: Column) -> tuple[int, int]:
    # What is asked for is settled first, so that a default never takes it.
    if node is None and label is not None:
        label_column = find_column(file, label)
        return find_column(file, None, NODES, (label_column,)), label_column
    id_column = find_column(file, node, NODES)
    return id_column, find_column(file, label, LABELS, (id_column,))


def _refuse_repeats(keys: Keys) -> None:
    if len(keys.distinct) == len(keys.codes):
        return
    _, first = np.unique(keys.codes, return_index=True)
    repeated = np.ones(len(keys.codes), dtype=bool)
    repeated[first] = False
    row = int(np.argmax(repeated))
    before = int(np.argmax(keys.codes == keys.codes[row]))
    raise InputError(
        f"{keys.place(row)}: the node {keys.id_of(row)!r} has a row already, "
        f"{keys.short_place(before)}; keep one of them"
    )
