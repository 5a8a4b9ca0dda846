"""Label values from any container, and what stands for "no label" in arrays and files."""

from __future__ import annotations

import reprlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.validation import column_or_1d

from nodeproof.errors import InputError
from nodeproof.inputs.tensors import plain
from nodeproof.runtime.logs import warn_caller

__all__ = ["UNKNOWN", "Unknown", "as_column", "find_several", "read_values", "refuse_wrapped"]


#: texts that are never the name of a class, in arrays and in files: this is how numpy
#: and pandas write −1 and NaN as text
_NO_LABEL = ("", "-1", "-1.0", "nan")

# Markers that programs write for missing values, and words that people use, in lower case.
_MARKS = (*_NO_LABEL, "?", "#n/a", "<na>", "nat")
_WORDS = ("na", "n/a", "none", "null", "unassigned", "unknown", "unlabeled", "unlabelled")

#: what stands for no label in files, in upper or lower case
UNKNOWN = (*_MARKS, *_WORDS)


@dataclass(frozen=True)
class Unknown:
    """Texts that mean "no label"; ask with ``text in unknown``.

    Attributes
    ----------
    tokens : frozenset of str, or None
        What the user says, exactly; None for `UNKNOWN`, in upper or lower case.
    """

    tokens: frozenset[str] | None = None

    @classmethod
    def of(cls, given: Collection[str] | None) -> Unknown:
        """Return what the user says, or the default; an empty text is never a label.

        Examples
        --------
        >>> "None" in Unknown.of(None), "None" in Unknown.of("?"), "?" in Unknown.of(["?", "x"])
        (True, False, True)
        """
        if given is None:
            return cls()
        return cls(frozenset(["", given] if isinstance(given, str) else ["", *given]))

    def __contains__(self, text: object) -> bool:
        return str(text).lower() in UNKNOWN if self.tokens is None else text in self.tokens

    def is_doubtful(self, text: str) -> bool:
        """Tell whether a text is read as no label although it may well name a class."""
        return self.tokens is None and text.lower() in _WORDS


def refuse_wrapped(values: NDArray[Any], nodes: NDArray[np.intp]) -> None:
    """Refuse the largest value of an unsigned type, which −1 wraps around to.

    Parameters
    ----------
    values : ndarray of shape (known,)
        Labels.
    nodes : ndarray of shape (known,)
        Whose they are.
    """
    if values.dtype.kind != "u":
        return
    largest = np.iinfo(values.dtype).max
    if (values == largest).any():
        raise InputError(
            f"the label of node {nodes[(values == largest).argmax()]} is {largest}, which is what "
            f"-1 becomes in {values.dtype}: where it means unknown give "
            f"np.where(y == {largest}, -1, y.astype(int)), where it names a class y.astype(int)"
        )


_ABOVE_INT64 = 2.0**63


def read_values(y: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return the labels that are known, and which nodes have them.

    Parameters
    ----------
    y : array of shape (n,)
        Integers, whole floats, booleans or text, in any container. Unknown are −1, None,
        NaN, NA, what a mask hides, blank text, and the texts "-1", "-1.0" and "nan", with
        or without white space around them.

    Returns
    -------
    values : ndarray of shape (known,)
        Integers, booleans or text, of the type they have where none is unknown.
    known : ndarray of shape (n,)
        Whether a node has a label.
    """
    y = plain(y)
    if several := find_several(y):
        raise InputError(
            f"Unknown label type: y must hold one label per node, but {several}: for several "
            "labels per node, fit one model per label, to a column of zeros and ones each "
            "(sklearn.preprocessing.MultiLabelBinarizer makes these of lists); for numbers, one "
            "nodeproof.NodeRegressor per column"
        )
    labels, shown = as_column(y)
    values, nodes = labels[shown], np.flatnonzero(shown)
    if values.dtype.kind in "OST":
        values, nodes = _from_objects(values.tolist(), nodes)
    if values.dtype.kind not in "biufU":
        raise InputError(f"Unknown label type: y must hold integers or strings, got {values.dtype}")
    given = _are_known(values)
    values, nodes = values[given], nodes[given]
    if values.dtype.kind == "f":
        values = _as_integers(values, nodes)
    if values.dtype.kind == "i" and (values < -1).any():
        _refuse_below(values, nodes)
    refuse_wrapped(values, nodes)
    known = np.zeros(len(labels), dtype=bool)
    known[nodes] = True
    return values, known


def find_several(y: Any) -> str | None:
    """Return where there are several values per node: columns, or a list; None if nowhere."""
    values = getattr(y, "values", y)  # of pandas, which keeps lists as objects
    objects = isinstance(values, np.ndarray) and values.dtype == object
    listed: Any = values if objects or isinstance(values, list | tuple) else ()
    lists = [k for k, value in enumerate(listed) if isinstance(value, list | tuple | set)]
    if any(len(listed[k]) != 1 for k in lists):  # else they are a column
        return f"that of node {lists[0]} is {reprlib.repr(listed[lists[0]])}"
    shape: tuple[int, ...] = getattr(y, "shape", ())
    return f"it has {shape[1]} columns" if len(shape) == 2 and shape[1] > 1 else None


def as_column(y: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return labels or targets as a 1-D array, and which of them are not masked."""
    y = plain(y)
    if sp.issparse(y):
        raise InputError("y must be a dense array of labels, got a sparse matrix")
    if isinstance(y, Mapping):
        raise InputError(
            "y must be a list of labels, one per node, got a dict: give them in the order of the "
            "graph's nodes, for example [y.get(node) for node in graph.nodes]"
        )
    mask = None
    if isinstance(y, np.ma.MaskedArray):
        mask, y = np.ma.getmaskarray(y), np.ma.getdata(y)
    if str(getattr(y, "dtype", "")) in ("boolean", "bool[pyarrow]", "category"):
        y = np.asarray(y, dtype=object)  # else pandas would take 0.0 and 1.0 for names
    if isinstance(y, list | tuple) and any(isinstance(v, str | bytes | bool | np.bool_) for v in y):
        y = np.asarray(y, dtype=object)  # else numpy would take -1 and None for names, True for 1
    try:
        labels = column_or_1d(y)
    except ValueError as error:
        raise InputError(str(error)) from error
    if np.asarray(y).ndim == 2:
        warn_caller(
            "A column-vector y was passed when a 1d array was expected: give one entry per node, "
            "for example y.ravel()",
            DataConversionWarning,
        )
    shown = np.ones(len(labels), dtype=bool)
    if mask is not None and mask.dtype == bool:  # that of a structured array is refused with it
        shown = ~mask.ravel()
    return labels, shown


def _from_objects(
    labels: list[Any], nodes: NDArray[np.intp]
) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return the labels of a list that are not missing as an array, and their nodes."""
    kept = [k for k, label in enumerate(labels) if not _is_missing(label)]
    labels, nodes = [labels[k] for k in kept], nodes[kept]
    if any(isinstance(label, str | bytes) for label in labels):
        texts = [_as_text(label, v) for label, v in zip(labels, nodes.tolist(), strict=True)]
        return np.array(texts, dtype=str), nodes
    try:
        values = np.array(labels)
    except ValueError:  # lists of several lengths
        values = np.array(None)
    if values.ndim != 1 or values.dtype.kind not in "biuf":
        k = next((k for k, label in enumerate(labels) if not _is_number(label)), 0)
        raise InputError(
            "Unknown label type: y must hold integers or strings, but the label of node "
            f"{nodes[k]} is {reprlib.repr(labels[k])}"
        )
    return values, nodes


def _is_missing(label: Any) -> bool:
    if label is None or isinstance(label, str):
        return label is None or label.strip() in _NO_LABEL
    same = label == label
    if isinstance(same, bool | np.bool_):
        return not same or bool(label == -1)
    # pandas' NA is neither equal to itself nor different, nor is what numpy masks.
    return same is label


def _is_number(label: Any) -> bool:
    plain_number = isinstance(label, int | float | np.number | np.bool_)
    return plain_number and np.asarray(label).dtype.kind in "biuf"


def _as_text(label: Any, node: int) -> str:
    if not isinstance(label, bytes):
        return str(label)
    try:
        return label.decode()
    except UnicodeDecodeError:
        raise InputError(
            f"the label of node {node} is {reprlib.repr(label)}, which is not UTF-8 text"
        ) from None


def _are_known(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which labels of an array of numbers or text are known."""
    if values.dtype.kind == "U":
        return ~np.isin(np.char.strip(values), _NO_LABEL)
    if values.dtype.kind in "if":
        return np.asarray((values == values) & (values != -1))
    return np.ones(len(values), dtype=bool)


def _as_integers(values: NDArray[Any], nodes: NDArray[np.intp]) -> NDArray[np.int64]:
    """Return whole floats as integers."""
    if np.isinf(values).any():
        raise InputError(f"Input y contains infinity at row {nodes[np.isinf(values).argmax()]}")
    broken = values != np.round(values)
    if broken.any():
        k = broken.argmax()
        raise InputError(
            f"Unknown label type: continuous; the label of node {nodes[k]} is "
            f"{float(values[k])!r}, but labels must be integers or text: predict numbers with "
            "nodeproof.NodeRegressor"
        )
    if (values < -_ABOVE_INT64).any():
        _refuse_below(values, nodes)
    if (values >= _ABOVE_INT64).any():
        k = (values >= _ABOVE_INT64).argmax()
        raise InputError(
            f"the label of node {nodes[k]} is {float(values[k])!r}; numbers that name classes must "
            "be below 2**63: give it as text"
        )
    return values.astype(np.int64)


def _refuse_below(values: NDArray[Any], nodes: NDArray[np.intp]) -> None:
    k = (values < -1).argmax()
    raise InputError(
        f"the label of node {nodes[k]} is {values[k].item()!r}; labels must not be below -1, which "
        "means unknown"
    )
