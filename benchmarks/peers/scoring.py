"""The figures of a fit: what its probabilities and its claims are worth on the test nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import log_loss, roc_auc_score

from nodeproof.metrics import expected_calibration_error
from peers.registry import Split

#: suspects whose precision counts, from the most suspect on
FIRST = 20


def judge(
    proba: Any, y: NDArray[np.int64], test: NDArray[np.int64], n_classes: int
) -> dict[str, Any]:
    """Return what the probabilities are worth on the test nodes.

    Parameters
    ----------
    proba : array of shape (n, K)
        Class probabilities of all nodes.
    y : ndarray of shape (n,)
        True classes.
    test : ndarray of shape (m,)
        Nodes to judge by.
    n_classes : int
        Number of classes K.

    Returns
    -------
    dict
        Accuracy, balanced accuracy, ROC AUC (of two classes, otherwise None), expected
        calibration error, the mean of the largest probabilities, and log-loss.
    """
    proba = np.asarray(proba, dtype=np.float64)
    if proba.shape != (len(y), n_classes) or not np.isfinite(proba).all():
        raise ValueError(
            f"not probabilities of {len(y)} nodes in {n_classes} classes: {proba.shape}"
        )
    seen, truth = proba[test] / proba[test].sum(axis=1, keepdims=True), y[test]
    right = seen.argmax(axis=1) == truth
    both = n_classes == 2 and len(np.unique(truth)) == 2
    return {
        "accuracy": float(right.mean()),
        "balanced_accuracy": float(np.mean([right[truth == k].mean() for k in np.unique(truth)])),
        "roc_auc": float(roc_auc_score(truth, seen[:, 1])) if both else None,
        "ece": expected_calibration_error(truth, seen),
        "mean_probability": float(seen.max(axis=1).mean()),
        "log_loss": float(log_loss(truth, seen, labels=range(n_classes))),
    }


def judge_claims(
    about: dict[str, Any], accuracy: float, split: Split, y: NDArray[np.int64]
) -> dict[str, Any]:
    """Return what a method's claims about itself are worth.

    Parameters
    ----------
    about : dict
        "estimate", the accuracy that the method expects with its 95 % interval, or None; and
        "suspects", nodes whose training labels it holds wrong, most suspect first.
    accuracy : float
        On the test nodes.
    split : Split
        Training labels, of which some may have been flipped.
    y : ndarray of shape (n,)
        True classes.
    """
    found: dict[str, Any] = {}
    if "estimate" in about:
        estimate = about["estimate"]
        found["estimate"] = None if estimate is None else [float(each) for each in estimate]
        found["covered"] = (
            None if estimate is None else bool(estimate[1] <= accuracy <= estimate[2])
        )
    if "suspects" in about:
        nodes = np.asarray(about["suspects"][:FIRST], dtype=int)
        found["suspected"] = len(about["suspects"]) / len(split.train)
        wrong = split.y[nodes] != y[nodes]
        found["suspects_wrong"] = float(wrong.mean()) if len(nodes) else None
    return found
