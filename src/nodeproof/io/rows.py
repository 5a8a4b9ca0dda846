"""Features and labels files: what they say of each node."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof.errors import InputError
from nodeproof.io.columns import (
    LABELS,
    NODES,
    Column,
    features_have_header,
    find_column,
    find_index,
    is_index_name,
    is_name,
    labels_have_header,
    note_on_index,
    position,
)
from nodeproof.io.files import BadNumberError, TableFile, count_of, unnamed
from nodeproof.io.keys import Keys
from nodeproof.io.link_columns import refuse_header_below
from nodeproof.io.links import notes_on_text
from nodeproof.io.names import refuse_long

__all__ = ["FeatureRows", "Known", "LabelRows", "read_features", "read_labels", "some"]

#: tells whether links have all of some ids
Known = Callable[[Sequence[str]], bool]

# As many as feature hashing gives by default. A sparse matrix may declare any number.
_MOST_COLUMNS = 1 << 20
# Rows by which is told whether a column has the ids of nodes.
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


def read_features(
    file: TableFile,
    known: Known,
    header: bool | None,
    node: Column,
    fitted: Collection[str] = (),
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
        Names that are known to be those of features.
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
    id_column, index = _find_node(file, node, known, features, notes)
    others = [i for i in range(len(file.names)) if i not in (id_column, index)]
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
    names = [file.names[i] for i in others]
    return FeatureRows(keys, X, names, notes + notes_on_text(file))


def read_labels(
    file: TableFile,
    known: Known,
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
    known : callable
        Tells whether links have all of some ids, which helps to tell nodes from headers and the
        numbers of rows.
    header : bool or None
        Whether the first line names the columns; None: find out.
    node, label : str, int or None
        The columns, where the user says.
    unknown : collection of str
        What stands for an unknown label.
    """
    notes: list[str] = []
    asked = header
    if file.head is not None:
        if header is None:
            header = is_name(node) or is_name(label)
            if not header:
                header, notes = _guess_label_header(file, known, node, label, unknown)
        if header:
            file.use_header()
    # What is asked for is settled first, so that a default never takes it.
    taken = () if label is None else (find_column(file, label),)
    id_column, index = _find_node(file, node, known, taken, notes)
    label_column = taken[0] if taken else find_column(
        file, None, LABELS, [i for i in (id_column, index) if i is not None]
    )  # fmt: skip
    (ids, texts), _ = file.read([id_column, label_column], [])
    keys = Keys.of_texts(file.path, ids, file.place)
    if file.head is not None and asked is None:
        _refuse_header_below(keys, texts, known)
    used = (id_column, label_column, index)
    others = [name for i, name in enumerate(file.names) if i not in used]
    if others:
        shown = ", ".join(others[:5]) + (", …" if len(others) > 5 else "")
        notes.append(f"not used of {file.path.name}: {shown}")
    return LabelRows(keys, texts, notes + notes_on_text(file))


def some(ids: NDArray[Any]) -> str:
    """Return the first few ids, for messages.

    Examples
    --------
    >>> some(np.array(["a", "b"])), some(np.arange(9))
    ("'a', 'b'", '0, 1, 2, 3, 4, …')
    """
    return ", ".join(map(repr, ids[:5].tolist())) + (", …" if len(ids) > 5 else "")


def _guess_label_header(
    file: TableFile,
    known: Known,
    node: Column,
    label: Column,
    unknown: Collection[str],
) -> tuple[bool, list[str]]:
    """Tell whether there is a header, with a note if that is a guess."""
    assert file.head is not None
    first = file.head[0]
    id_at = position(file, node, 0)
    label_at = position(file, label, 0 if id_at else 1)
    if not labels_have_header(file.head, id_at, label_at, lambda found: known([found]), unknown):
        return False, []
    if first[id_at].lower() in NODES or (id_at == 0 and is_index_name(first[0])):
        return True, []
    return True, [
        f"the first line of {file.path.name} ({', '.join(first[:5])}) is read as the names of "
        "the columns; if it is a label, use --no-header"
    ]


def _find_node(
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
    # Of two columns, the other one is what the table is for.
    if len(file.names) > 2 and others:
        rows, _ = file.read([index, others[0]], [])
        counts, names = (known(row[:_LOOKED_AT].to_pylist()) for row in rows)
        if names and not counts:
            notes.append(note_on_index(file, index))
            return others[0], index
        if names or not counts:
            raise InputError(
                f"{file.path}: are the nodes in its first column, which has no name, or in "
                f"{file.names[others[0]]!r}? Say so with --node 0 or --node {others[0]}"
            )
    which = "first column" if index == 0 else f"column {file.names[index]!r}"
    notes.append(f"the {which} of {file.path.name}, which has no name, is read as the node")
    return index, None


def _refuse_header_below(keys: Keys, labels: Any, known: Known) -> None:
    """Refuse well-known names of columns in the middle of a file that was joined from several."""
    for name in NODES:
        for code in np.flatnonzero(pc.equal(pc.utf8_lower(keys.distinct), name).to_numpy(False)):
            row = int(np.argmax(keys.codes == code))
            label = labels[row].as_py()
            if label.lower() in LABELS and not known([keys.id_of(row)]):
                raise refuse_header_below(keys.place(row), [keys.id_of(row), label])


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
