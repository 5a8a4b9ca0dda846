"""The parts of a PyTorch Geometric ``Data``, without importing it."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof.csr import csr_of_entries, from_edges
from nodeproof.errors import InputError
from nodeproof.inputs.label_values import refuse_wrapped
from nodeproof.inputs.tensors import as_array, plain
from nodeproof.runtime.logs import warn_caller

__all__ = [
    "count_nodes",
    "is_pyg_data",
    "read_features",
    "read_labels",
    "read_links",
    "refuse_other_kinds",
]


def is_pyg_data(graph: Any) -> bool:
    """Tell whether this is a ``Data``: one graph of one kind of nodes."""
    # On the type: a Data without features would warn when asked for the number itself.
    counted = hasattr(type(graph), "num_nodes") or hasattr(graph, "num_nodes")
    return counted and hasattr(graph, "edge_index")


def refuse_other_kinds(graph: Any) -> None:
    """Refuse a ``HeteroData``, and a batch of several graphs."""
    if hasattr(graph, "node_types") and hasattr(graph, "edge_types"):
        raise InputError(
            "a HeteroData has several kinds of nodes or links; give one kind as a Data, or all as "
            "one with data.to_homogeneous()"
        )
    if is_pyg_data(graph):
        n_graphs = getattr(graph, "num_graphs", 1)
        if isinstance(n_graphs, int) and n_graphs > 1:
            raise InputError(
                f"this is a batch of {n_graphs} graphs; fit them one by one: "
                "for data in batch.to_data_list()"
            )


def count_nodes(data: Any) -> int:
    """Return the number of nodes: the number of rows of features or labels, else ``num_nodes``."""
    for name in ("x", "train_mask", "y"):
        rows = getattr(data, name, None)
        if rows is not None and np.ndim(rows) > 0:
            return len(rows)
    return int(data.num_nodes)


def read_links(data: Any, weight: str | None = "auto") -> sp.csr_array:
    """Return the adjacency matrix of shape (n, n).

    Parameters
    ----------
    weight : "auto", str or None
        The attribute that has the weights; "auto": ``edge_weight``, else ``edge_attr`` of one
        column. None: every link counts one.
    """
    if getattr(data, "edge_index", None) is None:
        return _read_matrix(data)
    edge_index = as_array(data.edge_index, "edge_index")
    if edge_index.ndim != 2 or len(edge_index) != 2:
        raise InputError(f"edge_index must have the shape (2, E), got {edge_index.shape}")
    weights = _read_weights(data, weight)
    return from_edges(edge_index[0], edge_index[1], weights, count_nodes(data))


def _read_matrix(data: Any) -> sp.csr_array:
    held = getattr(data, "adj_t", None)
    if held is None:
        raise InputError("this Data has no links: neither edge_index nor adj_t")
    if hasattr(held, "to_scipy"):
        raise InputError(
            "adj_t is a SparseTensor of torch_sparse; set data.edge_index, or pass "
            "graph=data.adj_t.to_scipy(layout='csr')"
        )
    return csr_of_entries(plain(held))  # transposed, which does not matter: it is made symmetric


def _read_weights(data: Any, name: str | None) -> NDArray[np.float64] | None:
    if name is None:
        return None
    held = getattr(data, "edge_weight" if name == "auto" else name, None)
    if held is None and name != "auto":
        raise InputError(f"this Data has no attribute {name!r} to take weights from")
    if held is None:
        held = getattr(data, "edge_attr", None)
        if held is not None and np.ndim(held) == 2 and held.shape[1] != 1:
            warn_caller(
                f"edge_attr has {held.shape[1]} columns, so none of them is taken as the "
                "weight, and every link counts one; put weights into data.edge_weight"
            )
            return None
    if held is None:
        return None
    weights = as_array(held, "the weights of links")
    if weights.ndim > 2 or (weights.ndim == 2 and weights.shape[1] != 1):
        raise InputError(f"weights of links need one number per link, got shape {weights.shape}")
    return weights.ravel()


def read_features(data: Any) -> Any:
    """Return ``x`` of shape (n, m), or None."""
    x = getattr(data, "x", None)
    return None if x is None else plain(x)


def read_labels(
    data: Any, mask: str = "train_mask", split: int | None = None, unknown: float = -1
) -> Any:
    """Return ``y`` inside a mask, shape (n,), or None where there is no ``y``.

    Parameters
    ----------
    mask : str
        The attribute that says whose labels count, of shape (n,) or (n, splits).
    split : int, optional
        Which of its columns, where it has several.
    unknown : float
        What to put outside.
    """
    y = getattr(data, "y", None)
    if y is None:
        return None
    inside = _read_mask(data, mask, split)
    labels = as_array(y, "y")
    if labels.ndim > 1 and labels.shape[1:] != (1,):
        raise InputError(
            f"y has the shape {labels.shape}: a node can have only one label; choose a column and "
            "pass it as y= with -1 at unknown nodes"
        )
    labels = labels.ravel()
    if len(labels) != len(inside):
        raise InputError(f"{mask} has {len(inside)} entries, but y has {len(labels)}")
    refuse_wrapped(labels[inside], np.flatnonzero(inside))
    if labels.dtype.kind in "bu":
        labels = labels.astype(np.int64)
    elif labels.dtype.kind in "UST":
        labels = labels.astype(object)  # text has no -1
    return np.where(inside, labels, unknown)


def _read_mask(data: Any, name: str, split: int | None) -> NDArray[np.bool_]:
    held = getattr(data, name, None)
    if held is None:
        raise InputError(
            f"this Data has labels but no {name}, so test labels could leak into the fit; set "
            f"data.{name}, or pass y= with -1 at unknown nodes"
        )
    mask = np.asarray(plain(held))
    n = count_nodes(data)
    if mask.dtype != bool:
        if mask.dtype.kind not in "iu" or len(mask) != n or not np.isin(mask, (0, 1)).all():
            raise InputError(
                f"{name} must have one boolean per node, {n} in all; got {mask.dtype} of shape "
                f"{mask.shape}"
            )
        mask = mask.astype(bool)
    if mask.ndim == 2 and mask.shape[1] == 1 and split is None:
        split = 0
    if mask.ndim == 2:
        columns = mask.shape[1]
        if split is None:
            raise InputError(
                f"{name} has {columns} columns, one per split: choose one with "
                "fit(**nodeproof.interop.from_pyg(data, split=0))"
            )
        if not isinstance(split, Integral) or not 0 <= split < columns:
            raise InputError(f"split must be 0 to {columns - 1}, got {split!r}")
        mask = mask[:, split]
    elif split is not None:
        raise InputError(f"{name} has only one split: leave out split={split!r}")
    if mask.ndim != 1:
        raise InputError(f"{name} must have one boolean per node, got shape {mask.shape}")
    if not mask.any():
        raise InputError(f"{name} is False everywhere: no label is known; remove data.y to cluster")
    return mask
