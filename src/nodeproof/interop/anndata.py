"""AnnData: its parts for a fit, and results as its columns."""

from __future__ import annotations

from collections.abc import Collection
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nodeproof import __version__
from nodeproof.errors import InputError
from nodeproof.inputs.graph_objects import NamedGraph, connectivities, is_anndata, to_csr
from nodeproof.inputs.label_values import UNKNOWN
from nodeproof.inputs.node_names import names_of_graph
from nodeproof.interop.networks import node_results

if TYPE_CHECKING:
    from nodeproof.estimator import NodeClassifier

__all__ = ["from_anndata", "to_anndata"]


def from_anndata(
    adata: Any,
    *,
    labels: str | None = None,
    features: str | None = None,
    graph: str = "connectivities",
    unknown: Collection[str] = UNKNOWN,
) -> dict[str, Any]:
    """Return the arguments of `fit`: ``clf.fit(**from_anndata(adata, labels="type"))``.

    Parameters
    ----------
    adata : anndata.AnnData
        Cells, in the order of `labels_`. It is not changed.
    labels : str, optional
        The column of ``obs`` with labels; none by default.
    features : str, optional
        The key of ``obsm`` with features, such as "X_pca", or "X" for ``adata.X``; none by
        default.
    graph : str
        The key of ``obsp`` with the links.
    unknown : collection of str
        Labels that mean unknown, ignoring case; missing values always do.

    Returns
    -------
    dict
        ``X``, ``y`` and ``graph``.
    """
    if not is_anndata(adata):
        raise InputError(f"expected an AnnData, got {type(adata).__name__}")
    if isinstance(unknown, str):
        raise InputError(f"unknown must be a collection of labels, such as [{unknown!r}]")
    matrix = to_csr(connectivities(adata, graph), adata.n_obs)
    names = names_of_graph(adata)
    return {
        "X": _read_features(adata, features),
        "y": None if labels is None else _read_labels(adata, labels, unknown),
        "graph": NamedGraph(matrix, names) if isinstance(names, np.ndarray) else matrix,
    }


def _read_features(adata: Any, key: str | None) -> Any:
    if key is None:
        return None
    if key in adata.obsm:
        return adata.obsm[key]
    if key != "X":
        raise InputError(f"adata.obsm has no {key!r}, only {_keys(adata.obsm)}; or give 'X'")
    if adata.isbacked:
        raise InputError("adata.X is in a file: read it first, adata = adata.to_memory()")
    if adata.X is None:
        raise InputError("adata.X is None: it has no features")
    return adata.X


def _read_labels(adata: Any, column: str, unknown: Collection[str]) -> NDArray[Any]:
    if column not in adata.obs:
        raise InputError(f"adata.obs has no column {column!r}, only {_keys(adata.obs)}")
    values = adata.obs[column]
    known = values.notna().to_numpy()
    labels = values.astype(object).to_numpy()
    unknown_words = {str(text).lower() for text in unknown}
    for row in np.flatnonzero(known):
        known[row] = str(labels[row]).lower() not in unknown_words
    labels[~known] = None
    return np.asarray(labels)


def _keys(mapping: Any) -> str:
    return ", ".join(map(repr, mapping)) or "nothing"


def to_anndata(clf: NodeClassifier, adata: Any, *, key: str = "nodeproof") -> Any:
    """Write the labels of all cells into an AnnData, and return it.

    Parameters
    ----------
    clf : NodeClassifier
        Fitted to the cells of `adata`.
    adata : anndata.AnnData
        Gets the columns ``obs[key]`` (the label, categorical, as text), ``obs[key_probability]``
        and ``obs[key_suspect]``; the class probabilities ``obsm[key_proba]`` of shape (n, K); and
        ``uns[key]`` with the names of the classes and the settings of the fit. If it is backed by
        a file, they are in memory until it is written.
    key : str
        Name, and prefix of names, of what is written.
    """
    if not is_anndata(adata):
        raise InputError(f"expected an AnnData, got {type(adata).__name__}")
    if adata.is_view:
        raise InputError("this AnnData is a view of another one: call .copy() first")
    results = node_results(clf, adata.n_obs, "adata", names_of_graph(adata))
    classes = clf.classes_.astype(str)
    categorical = import_module("pandas").Categorical
    adata.obs[key] = categorical.from_codes(results.codes, categories=classes)
    adata.obs[f"{key}_probability"] = results.probability
    adata.obs[f"{key}_suspect"] = results.suspect
    adata.obsm[f"{key}_proba"] = results.proba
    adata.uns[key] = _describe(clf, classes)
    return adata


def _describe(clf: NodeClassifier, classes: NDArray[np.str_]) -> dict[str, Any]:
    """Return a description of the fit, in plain values that every version can write."""
    settings = clf.get_params(deep=False)
    del settings["verbose"]  # may be a callback
    described: dict[str, Any] = {
        "version": __version__,
        "classes": classes.astype(object),
        "status": clf.status_,
        "settings": {
            name: value if isinstance(value, bool | int | float | str) else str(value)
            for name, value in settings.items()
            if value is not None
        },
        "sources": {name: float(share) for name, share in clf.sources_.items()},
    }
    if clf.estimated_accuracy_ is not None:
        described["estimated_accuracy"] = np.array(clf.estimated_accuracy_)
    return described
