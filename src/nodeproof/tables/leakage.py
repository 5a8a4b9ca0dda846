"""Label leakage: feature columns that repeat the labels, and are left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof.errors import InputError
from nodeproof.tables.features import FeatureRows
from nodeproof.tables.keys import Keys
from nodeproof.tables.labels import LabelRows, without_point

__all__ = ["drop_label_columns"]

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
    for column in _determining(X, codes):
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
        np.array([*map(without_point, names), ""])[of_rows[both]]
        for names, of_rows in ((found.names, found.codes), (labels.names, codes[nodes]))
    )
    return bool(2 * np.count_nonzero(ours == theirs) >= len(ours))


def _determining(X: NDArray[Any], codes: NDArray[np.int64]) -> list[int]:
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
