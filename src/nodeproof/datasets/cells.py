"""AnnData files (``.h5ad``): cells with their neighbours, as scanpy writes them."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from nodeproof.datasets.dataset import Dataset, assemble, check_matrix
from nodeproof.errors import InputError, MissingExtraError
from nodeproof.interop.anndata import from_anndata

__all__ = ["read_h5ad"]

# Coordinates that are taken for features, the first that there are.
_FEATURES = ("X_pca", "X_scVI", "X_lsi")


def read_h5ad(path: Path, label: str | None = None) -> Dataset:
    """Read cells, their graph of neighbours and, if there are any, their principal components.

    Parameters
    ----------
    path : pathlib.Path
        The file.
    label : str, optional
        The column of ``obs`` with the labels; none by default.
    """
    try:
        anndata = import_module("anndata")
    except ImportError:
        raise MissingExtraError("anndata", "io") from None
    try:
        adata = anndata.read_h5ad(path)
    except Exception as error:  # whatever the libraries below make of a broken file
        raise InputError(f"cannot read {path}: {error}; is it an .h5ad file?") from None
    features = next((key for key in _FEATURES if key in adata.obsm), None)
    try:
        parts = from_anndata(adata, labels=label, features=features)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    matrix = getattr(parts["graph"], "matrix", parts["graph"])
    graph, notes = check_matrix(path, matrix)
    if features is not None:
        notes.append(f"the features of {path.name} are obsm[{features!r}]")
    if label is None and len(adata.obs.columns):
        listed = ", ".join(map(str, adata.obs.columns[:8]))
        notes.append(f"no labels of {path.name} are used; --label takes a column of obs: {listed}")
    names = np.asarray(adata.obs_names.tolist(), dtype=str)
    X: Any = None if parts["X"] is None else np.asarray(parts["X"])
    return assemble(path, graph, X, parts["y"], names, notes=notes)
