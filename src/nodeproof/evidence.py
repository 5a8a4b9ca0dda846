"""Given labels that look wrong, and what is proven of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from nodeproof.certificate import Certificate

__all__ = ["excluded_labels", "find_suspects", "mark_excluded"]


def find_suspects(
    proba: NDArray[Any], codes: NDArray[np.int64] | None, classes: NDArray[Any]
) -> np.recarray[Any, Any]:
    """Return the labelled nodes whose label is probably wrong, worst first.

    The label is more likely wrong than right, and another class is the most likely one.

    Parameters
    ----------
    proba : ndarray of shape (n, K)
        Class probabilities, with all labels taken into account.
    codes : ndarray of shape (n,), or None
        Given labels as class numbers, −1 where there is none.
    classes : ndarray of shape (K,)
        Names of the classes.

    Returns
    -------
    numpy record array with the fields node, given, suggested, p_wrong, excluded
        The last is False until a proof says otherwise, see `mark_excluded`.
    """
    fields = [
        ("node", np.int64),
        ("given", classes.dtype),
        ("suggested", classes.dtype),
        ("p_wrong", np.float64),
        ("excluded", np.bool_),
    ]
    if codes is None:
        return np.recarray(0, dtype=fields)
    known = np.flatnonzero(codes >= 0)
    p_wrong = np.clip(1.0 - proba[known, codes[known]].astype(np.float64), 0.0, 1.0)
    order = np.argsort(-p_wrong, kind="stable")
    doubted = (p_wrong > 0.5) & (proba[known].argmax(axis=1) != codes[known])
    order = order[doubted[order]]
    suspects = np.recarray(len(order), dtype=fields)
    nodes = known[order]
    suspects.node = nodes
    suspects.given = classes[codes[nodes]]
    suspects.suggested = classes[proba[nodes].argmax(axis=1)]
    suspects.p_wrong = p_wrong[order]
    suspects.excluded = False
    return suspects


def excluded_labels(
    proof: Certificate | None, codes: NDArray[np.int64] | None, n_nodes: int
) -> NDArray[np.bool_]:
    """Return the nodes whose given label no optimal labelling keeps, shape (n,).

    That is proven for the fitted models, and does not prove the label wrong. Where a proof does
    not tell the names of the classes apart, it says nothing of labels.

    Parameters
    ----------
    codes : ndarray of shape (n,), or None
        Given labels as class numbers, −1 where there is none.
    """
    excluded = np.zeros(n_nodes, dtype=bool)
    if proof is None or codes is None or proof.renaming or proof.status == "not applicable":
        return excluded
    known = np.flatnonzero(codes >= 0)
    excluded[known] = ~proof.possible[known, codes[known]]
    return excluded


def mark_excluded(
    suspects: np.recarray[Any, Any], proof: Certificate | None, codes: NDArray[np.int64] | None
) -> np.recarray[Any, Any]:
    """Return a copy of the suspects with what a proof says of their labels in `excluded`.

    Parameters
    ----------
    codes : ndarray of shape (n,), or None
        Given labels as class numbers, −1 where there is none.
    """
    marked = suspects.copy()
    n_nodes = 0 if codes is None else len(codes)
    marked.excluded = excluded_labels(proof, codes, n_nodes)[suspects.node]
    return marked
