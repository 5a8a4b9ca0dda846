"""Labels of any kind as class numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from nodeproof.errors import InputError
from nodeproof.inputs.label_values import UNKNOWN, read_values
from nodeproof.inputs.node_names import align_rows, find_order, names_of_rows
from nodeproof.runtime.logs import warn_caller
from nodeproof.runtime.memory import check_free

__all__ = [
    "EncodedLabels",
    "check_distinct",
    "check_validation",
    "encode_labels",
    "encode_names",
    "encode_truth",
    "warn_of_typos",
]

# How many rare names are compared with the others.
_MOST_TYPOS = 20

# Up to this many labels may each be of a class of their own.
_FEW_LABELS = 20


# Up to this many classes may have as few as one labelled node each.
_FEW_CLASSES = 50


@dataclass(frozen=True)
class EncodedLabels:
    """Labels as class numbers.

    Attributes
    ----------
    classes : ndarray of shape (K,)
        Names of the classes: the given labels, sorted, and after them the classes without a
        label; none where neither labels nor n_classes say how many there are.
    codes : ndarray of shape (n,), or None
        0…K−1, −1 where there is no label; None if no label was given at all.
    n_nodes : int or None
        Length of y; None if there was none.
    chosen : bool
        Whether the user has said which names mean unknown.
    """

    classes: NDArray[Any]
    codes: NDArray[np.int64] | None
    n_nodes: int | None
    chosen: bool = False


def encode_labels(y: Any, n_classes: int | None) -> EncodedLabels:
    """Return labels as class numbers.

    Parameters
    ----------
    y : array of shape (n,), or None
        Integers, booleans or strings, as :func:`read_values` takes them: −1, None, NaN, what a
        mask hides, blank text, and the texts "-1", "-1.0" and "nan" mean unknown.
    n_classes : int or None
        Number of classes; by default that of the distinct labels.
    """
    if n_classes is not None and (
        isinstance(n_classes, bool) or not isinstance(n_classes, int | np.integer) or n_classes < 1
    ):
        raise InputError(f"n_classes must be a positive integer, got {n_classes!r}")
    if y is None:
        return EncodedLabels(_extend(np.empty(0, np.int64), n_classes), None, None)
    values, known = read_values(y)
    named, codes_known = np.unique(values, return_inverse=True)
    if n_classes is not None and len(named) > n_classes:
        raise InputError(
            f"the labels name {len(named)} classes ({_listed(named)}), but n_classes={n_classes}"
        )
    if len(values) > _FEW_LABELS and len(named) > round(0.5 * len(values)):
        warn_caller(
            f"the {len(values)} labels name {len(named)} classes: are they classes, or "
            "names of nodes?"
        )
    if not known.any():
        return EncodedLabels(_extend(np.empty(0, np.int64), n_classes), None, len(known))
    codes = np.full(len(known), -1, dtype=np.int64)
    codes[known] = codes_known
    return EncodedLabels(_extend(named, n_classes), codes, len(known))


def encode_names(
    names: NDArray[Any], codes: NDArray[np.int64], n_classes: int | None
) -> EncodedLabels:
    """Return labels that are class numbers already, −1 where unknown.

    Parameters
    ----------
    names : ndarray of shape (labels,)
        Sorted, each of them the label of some node.
    codes : ndarray of shape (n,)
        Which of them each node has.
    n_classes : int or None
        Number of classes, if there are more.
    """
    if n_classes is not None and len(names) > n_classes:
        raise InputError(
            f"the labels name {len(names)} classes ({_listed(names)}), but n_classes={n_classes}"
        )
    known = bool(len(names))
    classes = names if known else np.empty(0, np.int64)
    return EncodedLabels(_extend(classes, n_classes), codes if known else None, len(codes), True)


def encode_truth(y_true: Any, classes: NDArray[Any], part: str) -> NDArray[np.int64]:
    """Return true labels as class numbers, shape (n,): −1 where unknown, K for any other class.

    Parameters
    ----------
    y_true : array of shape (n,)
        As :func:`encode_labels` takes labels.
    classes : ndarray of shape (K,)
        The names of the classes.
    part : str
        What the labels are called in an error.
    """
    truth = encode_labels(y_true, None)
    assert truth.n_nodes is not None
    if truth.codes is None:
        return np.full(truth.n_nodes, -1, dtype=np.int64)
    K = len(classes)
    places = {name: code for code, name in enumerate(classes.tolist())}
    known = np.array([*(places.get(name, K) for name in truth.classes.tolist()), -1])
    if (known[:-1] == K).all():
        raise InputError(
            f"no label of {part} is one of the classes: it has {_examples(truth.classes)}, the "
            f"classes are {_examples(classes)}"
        )
    return np.asarray(known[truth.codes])


def _examples(names: NDArray[Any]) -> str:
    return ", ".join(map(repr, names[:3].tolist())) + (", …" if len(names) > 3 else "")


def check_validation(
    validation: Any, labels: EncodedLabels, names: NDArray[Any] | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """Return the held-out nodes that settings are chosen by, and their class numbers.

    Parameters
    ----------
    validation : pair of arrays, array of shape (n,), or None
        As :meth:`NodeClassifier.fit` takes it.
    names : ndarray of shape (n,), optional
        What the nodes are called; by default by their positions.
    """
    if validation is None:
        return None
    assert labels.codes is not None
    n = len(labels.codes)
    if isinstance(validation, list) and len(validation) == 2 and np.ndim(validation[0]) == 1:
        validation = tuple(validation)
    if isinstance(validation, tuple):
        if len(validation) != 2:
            raise InputError(
                "validation must be (nodes, labels) or one label per node, got "
                f"{len(validation)} parts"
            )
        nodes, given = np.asarray(validation[0]), validation[1]
        if nodes.dtype == bool and len(nodes) == n:
            nodes = np.flatnonzero(nodes)
        if nodes.ndim != 1 or nodes.dtype.kind not in "iu":
            raise InputError("the nodes of validation must be positions (integers) or a mask")
        if len(nodes) and not 0 <= nodes.min() <= nodes.max() < n:
            wrong = nodes[(nodes < 0) | (nodes >= n)][0]
            raise InputError(f"validation names node {wrong}, but there are nodes 0 to {n - 1}")
        values, known = read_values(_align_pairs(nodes, given, names))
        if len(known) != len(nodes):
            raise InputError(f"validation has {len(nodes)} nodes, but {len(known)} labels")
        nodes = nodes[known].astype(np.int64)
    else:
        called = range(n) if names is None else names
        values, known = read_values(align_rows(validation, called, "validation", "the fit"))
        if len(known) != n:
            raise InputError(
                f"validation must be (nodes, labels) or one label per node, {n} in all; got "
                f"{len(known)}"
            )
        nodes = np.flatnonzero(known)
    if len(nodes) == 0:
        raise InputError("validation holds no label")
    if len(np.unique(nodes)) != len(nodes):
        raise InputError("validation names a node twice")
    if (labels.codes[nodes] >= 0).any():
        v = nodes[labels.codes[nodes] >= 0][0]
        raise InputError(
            f"node {v} is in validation and has a label in y: it can only be in one of them"
        )
    position = {name: code for code, name in enumerate(labels.classes.tolist())}
    unknown = [name for name in values.tolist() if name not in position]
    if unknown:
        raise InputError(f"validation has the label {unknown[0]!r}, which y does not have")
    return nodes, np.array([position[name] for name in values.tolist()], dtype=np.int64)


def _align_pairs(nodes: NDArray[Any], given: Any, names: NDArray[Any] | None) -> Any:
    """Return the labels of these nodes in their order, by name where both have names."""
    index = names_of_rows(given, "the labels of validation")
    if not isinstance(index, np.ndarray):
        return given  # it counts the labels
    called = nodes if names is None else names[nodes]
    if names is None and set(index.tolist()).isdisjoint(called.tolist()):
        return given
    order = find_order(index, called, "the labels of validation", "its list of nodes")
    return given.iloc[order]


def check_distinct(labels: EncodedLabels) -> None:
    """Refuse labels that are hardly classes, but features or identifiers of nodes.

    One label per class may be enough if most nodes have none, but fractions are never classes.
    """
    if labels.codes is None:
        return
    given, named = int((labels.codes >= 0).sum()), int(labels.codes.max()) + 1
    if named <= _FEW_CLASSES or 10 * named <= 9 * given:
        return
    if 2 * given > len(labels.codes) or _are_fractions(labels.classes[:named]):
        raise InputError(
            f"there are {named:,} different labels on {given:,} nodes: are they features, or "
            "identifiers of nodes? Labels must be classes; predict numbers with "
            "nodeproof.NodeRegressor"
        )


def _are_fractions(names: NDArray[Any]) -> bool:
    try:
        numbers = names.astype(np.float64)
    except ValueError:
        return False
    return bool((numbers != np.round(numbers)).mean() > 0.5)


def warn_of_typos(labels: EncodedLabels) -> None:
    """Warn of classes that may be typos.

    They are those with a name that often means unknown, those whose names differ only by white
    space, case or Unicode normal form, and those with a single label and almost the name of
    another class.
    """
    _warn_of_doubtful(labels)
    _warn_of_lookalikes(labels)
    if labels.codes is None or labels.classes.dtype.kind != "U" or len(labels.classes) < 3:
        return
    counts = np.bincount(labels.codes[labels.codes >= 0], minlength=len(labels.classes))
    often = labels.classes[counts > 1].tolist()
    for name in labels.classes[counts == 1].tolist()[:_MOST_TYPOS]:
        # Names that differ only by a number differ on purpose.
        others = [other for other in often if _letters(other) != _letters(name)]
        if meant := get_close_matches(name, others, 1, cutoff=0.85):
            warn_caller(f"the class {name!r} has a single label; did you mean {meant[0]!r}?")


def _warn_of_doubtful(labels: EncodedLabels) -> None:
    if labels.chosen or labels.classes.dtype.kind != "U":
        return
    doubtful = [repr(name) for name in labels.classes.tolist() if name.lower() in UNKNOWN]
    if doubtful:
        named = "a class is named" if len(doubtful) == 1 else "classes are named"
        warn_caller(
            f"{named} {', '.join(doubtful)}; if that means unknown, give None or -1 instead"
        )


def _warn_of_lookalikes(labels: EncodedLabels) -> None:
    if labels.classes.dtype.kind != "U":
        return
    first: dict[str, str] = {}
    for name in labels.classes.tolist():
        other = first.setdefault(normalize("NFC", name.strip()).casefold(), name)
        if other != name:
            reason = "case"
            if other.strip() == name.strip():
                reason = "white space"
            elif normalize("NFC", other) == normalize("NFC", name):
                reason = "Unicode normal form"
            warn_caller(
                f"the classes {other!a} and {name!a} differ only by {reason}; if they are the "
                "same, write the labels the same way"
            )
            return


def _letters(name: str) -> str:
    return re.sub(r"\d+", "", name)


def _extend(named: NDArray[Any], n_classes: int | None) -> NDArray[Any]:
    """Return the names, extended by new ones to n_classes."""
    missing = (n_classes or len(named)) - len(named)
    if missing == 0:
        return named
    check_free(100.0 * missing, f"names of {missing:,} classes", "use a smaller n_classes")
    if named.dtype.kind in "iu":
        fresh = np.setdiff1d(np.arange(len(named) + missing), named)[:missing]
        return np.concatenate(
            [named, fresh.astype(np.promote_types(named.dtype, np.min_scalar_type(fresh.max())))]
        )
    taken = set(named.tolist())
    candidates = (f"unnamed {k}" for k in range(1, len(named) + missing + 1))
    return np.concatenate(
        [named.astype(str), [name for name in candidates if name not in taken][:missing]]
    )


def _listed(names: NDArray[Any]) -> str:
    return ", ".join(map(str, names[:5])) + (", …" if len(names) > 5 else "")
