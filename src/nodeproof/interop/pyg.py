"""PyTorch Geometric ``Data``: its parts for a fit, and what was found back into it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from nodeproof.errors import InputError
from nodeproof.interop.outcome import outcome_of
from nodeproof.pyg_data import (
    count_nodes,
    is_pyg_data,
    read_features,
    read_labels,
    read_links,
    refuse_other_kinds,
)

if TYPE_CHECKING:
    from nodeproof.estimator import NodeClassifier

__all__ = ["from_pyg", "to_pyg"]


def from_pyg(
    data: Any, *, split: int | None = None, validation: bool = False, weight: str | None = "auto"
) -> dict[str, Any]:
    """Return what `fit` needs of a ``Data``: ``clf.fit(**from_pyg(data))``.

    Labels count only inside ``train_mask``; a ``Data`` with labels and without one is refused.

    Parameters
    ----------
    data : torch_geometric.data.Data
        With ``edge_index`` or ``adj_t``, and perhaps ``x`` and ``y``.
    split : int, optional
        Which column of the masks counts, where they have several.
    validation : bool
        Whether labels inside ``val_mask`` choose the settings. They are not fitted to.
    weight : "auto", str or None
        The attribute that has the weights of links; "auto": ``edge_weight``, else ``edge_attr`` of
        one column. None: every link counts one.

    Returns
    -------
    dict
        ``X``, ``y``, ``graph`` and, if asked for, ``validation``.
    """
    _check_kind(data)
    parts = {
        "X": read_features(data),
        "y": read_labels(data, "train_mask", split),
        "graph": read_links(data, weight),
    }
    if validation:
        parts["validation"] = read_labels(data, "val_mask", split)
    return parts


def to_pyg(clf: NodeClassifier, data: Any) -> Any:
    """Write the labels of all nodes into a ``Data``, and return it.

    Parameters
    ----------
    clf : NodeClassifier
        Fitted to the nodes of `data`.
    data : torch_geometric.data.Data
        Gets ``y_pred`` of shape (n,), the labels as they were coded in ``y`` (or positions in
        `classes_`, if these are no integers); ``proba`` of shape (n, K), float32, columns in the
        order of `classes_`; and the mask ``suspect`` of shape (n,). All on the device of its
        links.
    """
    _check_kind(data)
    found = outcome_of(clf, count_nodes(data), "the Data")
    labels = found.labels
    if labels.dtype.kind not in "biu":
        labels = found.codes
    torch = import_module("torch")
    links = data.edge_index if data.edge_index is not None else data.adj_t
    data.y_pred = torch.from_numpy(labels.astype(np.int64)).to(links.device)
    data.proba = torch.from_numpy(found.proba).to(links.device)
    data.suspect = torch.from_numpy(found.suspect).to(links.device)
    return data


def _check_kind(data: Any) -> None:
    refuse_other_kinds(data)
    if not is_pyg_data(data):
        raise InputError(f"expected a torch_geometric.data.Data, got {type(data).__name__}")
