"""Labels files: the label of each node; and label leakage, features that repeat the labels."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof.errors import InputError, count_of
from nodeproof.inputs.label_values import Unknown
from nodeproof.tables.columns import (
    LABELS,
    NODES,
    Column,
    find_column,
    is_index_name,
    is_name,
    labels_have_header,
    list_names,
    note_on_known_names,
    notes_on_skipped,
    position,
    refuse_header_below,
)
from nodeproof.tables.features import FeatureRows, Known, find_node, note_on_others
from nodeproof.tables.files import TableFile, unnamed
from nodeproof.tables.keys import Keys, refuse_long

__all__ = ["LabelRows", "drop_label_columns", "find_determining", "name_numbers", "read_labels"]

_POINT_ZERO = re.compile(r"\.0*$")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)")
# More distinct numbers with fractions than this are measurements, not classes.
_MOST_FRACTIONS = 20


@dataclass(frozen=True)
class LabelRows:
    """Labels as a file lists them.

    Attributes
    ----------
    keys : Keys
        The node of each row.
    names : list of str
        The labels that there are.
    codes : ndarray of shape (rows,)
        Which of them each row has, −1 where it is unknown.
    unknown : Unknown
        What stands for an unknown label.
    notes : list of str
        What the user should know.
    column : str or None
        The name of their column, if it has one.
    """

    keys: Keys
    names: list[str]
    codes: NDArray[np.int64]
    unknown: Unknown
    notes: list[str]
    column: str | None = None

    @classmethod
    def of_texts(
        cls,
        keys: Keys,
        texts: Any,
        unknown: Unknown,
        notes: Sequence[str] = (),
        column: str | None = None,
    ) -> LabelRows:
        """Make rows from a large_string Arrow array of labels, some of them unknown."""
        encoded = texts.dictionary_encode()
        codes = encoded.indices.to_numpy().astype(np.int64)
        refuse_long(encoded.dictionary, "label", lambda k: keys.place(int(np.argmax(codes == k))))
        labels = encoded.dictionary.to_pylist()
        counts = dict(zip(labels, np.bincount(codes, minlength=len(labels)).tolist(), strict=True))
        known = {label: count for label, count in counts.items() if label not in unknown}
        doubtful = {label: count for label, count in counts.items() if unknown.is_doubtful(label)}
        called, more = name_numbers(keys.path, known)
        names = list(dict.fromkeys(called.values()))
        place = {name: k for k, name in enumerate(names)}
        numbers = [place[called[label]] if label in called else -1 for label in labels]
        codes = np.array([*numbers, -1])[codes]
        notes = [*notes, *_note_on_unknown(keys.path.name, doubtful), *more]
        return cls(keys, names, codes, unknown, notes, column)

    @classmethod
    def of_array(cls, keys: Keys, y: NDArray[np.str_], unknown: Unknown) -> LabelRows:
        """Make rows from labels, empty where unknown."""
        return cls.of_texts(keys, pa.array(y.tolist(), pa.large_string()), unknown)

    def placed(self, nodes: NDArray[Any], n_nodes: int) -> NDArray[np.int64]:
        """Return which label each node has; two different ones are an error.

        Parameters
        ----------
        nodes : ndarray of shape (rows,)
            The node of each row.
        n_nodes : int
            Number of nodes n.

        Returns
        -------
        ndarray of shape (n,)
            Positions in `names`, −1 where a node's label is unknown.
        """
        rows = np.flatnonzero(self.codes >= 0)
        first = np.full(n_nodes, -1)
        # The last assignment stays, so the rows are assigned backwards.
        first[nodes[rows[::-1]]] = rows[::-1]
        differs = self.codes[rows] != self.codes[first[nodes[rows]]]
        if differs.any():
            row = int(rows[np.argmax(differs)])
            before = int(first[nodes[row]])
            raise InputError(
                f"{self.keys.place(row)}: the node {self.keys.id_of(row)!r} has the label "
                f"{self.names[self.codes[row]]!r}, but {self.names[self.codes[before]]!r} in "
                f"{self.keys.short_place(before)}; give each node one label"
            )
        found = np.full(n_nodes, -1)
        found[nodes[rows]] = self.codes[rows]
        return found


def read_labels(
    file: TableFile,
    known: Known,
    header: bool | None,
    node: Column,
    label: Column,
    unknown: Unknown,
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
    unknown : Unknown
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
    # What the user gives is settled first, so that a default never takes it.
    taken = () if label is None else (find_column(file, label),)
    id_column, index = find_node(file, node, known, taken, notes)
    label_column = taken[0] if taken else find_column(
        file, None, LABELS, [i for i in (id_column, index) if i is not None]
    )  # fmt: skip
    (ids, texts), _ = file.read([id_column, label_column], [])
    if not taken and len(file.names) > 2 and len(texts) > _NAMING:
        _refuse_naming(file, label_column, texts)
    keys = Keys.of_texts(file.path, ids, file.place)
    if file.head is not None and asked is None:
        _refuse_header_below(keys, texts, known)
    used = (id_column, label_column, index)
    notes += note_on_others(file, [i for i in range(len(file.names)) if i not in used])
    column = file.names[label_column]
    return LabelRows.of_texts(
        keys,
        texts,
        unknown,
        notes + notes_on_skipped(file),
        None if column == unnamed(label_column) else column,
    )


def _refuse_naming(file: TableFile, column: int, texts: Any) -> None:
    """Refuse a column that was taken for the labels, but has another value in every row."""
    if len(texts.unique()) == len(texts):
        raise InputError(
            f"{file.path}: the column {file.names[column]!r} has another value in every row, so it "
            "does not hold labels: say which column does, with --label; its columns are "
            f"{list_names(file.names)}"
        )


def _note_on_unknown(name: str, doubtful: dict[str, int]) -> list[str]:
    """Return a note on words that are read as no label, with their counts, if there are any."""
    if not doubtful:
        return []
    listed = ", ".join(f"{label!r} ({count:,})" for label, count in doubtful.items())
    total = sum(doubtful.values())
    are = "is" if total == 1 else "are"
    return [
        f"{count_of(total, 'label')} of {name} {are} read as unknown: {listed}; where that is a "
        "class, say what means unknown instead, by --unknown TOKEN (--unknown '' for nothing)"
    ]


def _guess_label_header(
    file: TableFile,
    known: Known,
    node: Column,
    label: Column,
    unknown: Unknown,
) -> tuple[bool, list[str]]:
    """Tell whether there is a header, with a note if that is a guess."""
    assert file.head is not None
    first = file.head[0]
    id_at = position(file, node, 0)
    label_at = position(file, label, 0 if id_at else 1)
    if not labels_have_header(file.head, id_at, label_at, lambda found: known([found]), unknown):
        named = first[id_at].lower() in NODES and first[label_at].lower() in LABELS
        return False, [note_on_known_names(file, first[:5])] if named else []
    if first[id_at].lower() in NODES or (id_at == 0 and is_index_name(first[0])):
        return True, []
    return True, [
        f"the first line of {file.path.name} ({', '.join(first[:5])}) is read as the names of "
        "the columns; if it is a label, use --no-header"
    ]


def _refuse_header_below(keys: Keys, labels: Any, known: Known) -> None:
    """Refuse well-known column names in the middle of a file that was joined from several."""
    for name in NODES:
        for code in np.flatnonzero(pc.equal(pc.utf8_lower(keys.distinct), name).to_numpy(False)):
            row = int(np.argmax(keys.codes == code))
            label = labels[row].as_py()
            if label.lower() in LABELS and not known([keys.id_of(row)]):
                raise refuse_header_below(keys.place(row), [keys.id_of(row), label])


def name_numbers(path: Path, counts: dict[str, int]) -> tuple[dict[str, str], list[str]]:
    """Return the class that each label names, and notes: if all are numbers, 1.0 is the class 1.

    Measurements are refused: they do not name classes.

    Parameters
    ----------
    path : pathlib.Path
        The file, for messages.
    counts : dict of str to int
        Labels, and how often each occurs.

    Examples
    --------
    >>> name_numbers(Path("l.csv"), {"1.0": 3, "2": 4})[0]
    {'1.0': '1', '2': '2'}
    """
    same = {label: label for label in counts}
    if not all(map(_NUMBER.fullmatch, counts)):
        return same, []
    if all(float(label).is_integer() for label in counts):
        return {label: _without_point(label) for label in counts}, []
    total = sum(counts.values())
    shown = ", ".join(list(counts)[:5]) + (", …" if len(counts) > 5 else "")
    if len(counts) > _MOST_FRACTIONS or len(counts) > max(2, total // 2):
        raise InputError(
            f"{path}: {len(counts):,} different numbers in {total:,} labels ({shown}) are "
            "measurements, not classes; predict them with NodeRegressor (of a column of --nodes: "
            "--target COLUMN), bin them, or name the column of the classes with --label"
        )
    return same, [
        f"the labels of {path.name} are numbers with fractions, read as the names of "
        f"{len(counts)} classes: {shown}"
    ]


def _without_point(label: str) -> str:
    """Return a whole number without its decimal point and zeros; other text unchanged."""
    return _POINT_ZERO.sub("", label) if _NUMBER.fullmatch(label) else label


# Of more rows with as many labels, the labels are names.
_NAMING = 20

# With fewer labels, a feature may determine all of them by chance.
_FEWEST = 10


def drop_label_columns(
    rows: FeatureRows,
    nodes: NDArray[Any],
    X: NDArray[Any] | sp.csr_array,
    labels: LabelRows,
    codes: NDArray[np.int64],
) -> tuple[NDArray[Any] | sp.csr_array, list[str], list[str]]:
    """Return features without columns that repeat the labels, their names, and notes.

    Parameters
    ----------
    rows : FeatureRows
        The features as their file has them.
    nodes : ndarray of shape (rows,)
        The node of each row.
    X : ndarray or scipy.sparse.csr_array of shape (n, m)
        The features in the order of the nodes.
    labels : LabelRows
        The labels as their file has them.
    codes : ndarray of shape (n,)
        The label of each node, −1 where it is unknown.
    """
    notes = []
    if rows.aside is not None:
        notes.append(_note_on_label_column(rows, nodes, labels, codes))
    if sp.issparse(X):
        return X, rows.names, notes
    kept = list(range(X.shape[1]))
    for column in find_determining(X, codes):
        name, values = rows.names[column], X[codes < 0, column]
        if len(values) and (values == values[0]).all():
            kept.remove(column)
            notes.append(
                f"the column {name!r} of {rows.keys.path.name} repeats the labels of "
                f"{labels.keys.path.name}, and is constant elsewhere: not used as a feature"
            )
        else:
            notes.append(
                f"the feature {name!r} of {rows.keys.path.name} determines the label of each of "
                f"the {int((codes >= 0).sum())} labelled nodes; if it was made from the labels, "
                "remove it"
            )
    if not kept:
        raise InputError(f"{rows.keys.path} has no feature beside the labels: leave it out")
    if len(kept) < X.shape[1]:
        X = X[:, kept]
    return X, [rows.names[column] for column in kept], notes


def _note_on_label_column(
    rows: FeatureRows, nodes: NDArray[Any], labels: LabelRows, codes: NDArray[np.int64]
) -> str:
    """Return the note on a column with the name of the labels; refuse it if its values differ."""
    assert rows.aside is not None
    name, texts = rows.aside
    if not _agree(rows.keys, texts, nodes, labels, codes):
        raise InputError(
            f"{rows.keys.path}: the column {name!r} has the name of the labels in "
            f"{labels.keys.path}, but other values; rename it if it is a feature, otherwise remove "
            "it"
        )
    return (
        f"the column {name!r} of {rows.keys.path.name} is the label column of "
        f"{labels.keys.path.name}: not used as a feature"
    )


def _agree(
    keys: Keys, texts: Any, nodes: NDArray[Any], labels: LabelRows, codes: NDArray[np.int64]
) -> bool:
    """Tell whether a column agrees with the labels of most labelled nodes."""
    try:
        found = LabelRows.of_texts(keys, texts, labels.unknown)
    except InputError:  # measurements
        return False
    both = (found.codes >= 0) & (codes[nodes] >= 0)
    ours, theirs = (
        np.array([*map(_without_point, names), ""])[of_rows[both]]
        for names, of_rows in ((found.names, found.codes), (labels.names, codes[nodes]))
    )
    return bool(2 * np.count_nonzero(ours == theirs) >= len(ours))


def find_determining(X: NDArray[Any], codes: NDArray[np.int64]) -> list[int]:
    """Return the columns that have one value per class, different for every class."""
    labelled = np.flatnonzero(codes >= 0)
    classes, first = np.unique(codes[labelled], return_index=True)
    if len(labelled) < _FEWEST or len(classes) < 2:
        return []
    values = X[labelled[first]]  # (classes, m)
    sorted_values = np.sort(values, axis=0)
    columns = np.flatnonzero((sorted_values[1:] != sorted_values[:-1]).all(axis=0))
    # A few rows rule out most columns.
    for some in (labelled[: 5 * _FEWEST], labelled):
        expected = values[np.searchsorted(classes, codes[some])][:, columns]
        columns = columns[(X[np.ix_(some, columns)] == expected).all(axis=0)]
    return [int(column) for column in columns]
