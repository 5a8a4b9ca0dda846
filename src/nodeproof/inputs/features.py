"""Features that are finite, and in a unit that their squares stand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof.errors import InputError

__all__ = ["Unit", "check_features", "check_reach", "with_short_indices"]

# So many rows, evenly spaced, tell where the middle of a feature lies.
_SAMPLE = 10_000

# Squares of larger features, divided by a small variance, would not be floats.
_REACH = 1e100


@dataclass(frozen=True)
class Unit:
    """A shift and a scale of each feature that keep its squares well within float64.

    Attributes
    ----------
    shift, scale : ndarray of shape (m,)
        Features are taken as ``(X − shift) / scale``.
    """

    shift: NDArray[np.float64]
    scale: NDArray[np.float64]

    @classmethod
    def needed(cls, X: NDArray[Any]) -> Unit | None:
        """Return the unit of extreme features (far from zero, huge or tiny), else None."""
        # Quarters: the distance between the largest floats is beyond them.
        center = np.median(0.25 * X[:: -(-len(X) // _SAMPLE)], axis=0).astype(np.float64)
        top, bottom = 0.25 * X.max(axis=0).astype(np.float64), 0.25 * X.min(axis=0)
        spread = np.maximum(top - center, center - bottom)
        far = 1e-3 * np.abs(center) > spread
        odd = (spread > 0) & ((spread > 1e50) | (spread < 1e-50))
        beyond = far & ((spread > 0) | (np.abs(center) > 1e50))
        if not beyond.any() and not odd.any():
            return None
        return cls(np.where(far, 4.0 * center, 0.0), np.where(odd, spread, 1.0))

    def apply(self, X: NDArray[Any]) -> NDArray[np.float64]:
        """Return the features in this unit, shape (n, m)."""
        with np.errstate(over="ignore"):  # of new nodes; `check_reach` names them
            return np.asarray((X.astype(np.float64) - self.shift) / self.scale)


def check_reach(X: Any) -> None:
    """Raise an error that names the first entry whose square is out of the range of floats."""
    entries = X.data if sp.issparse(X) else X
    if entries.dtype == np.float32 or not entries.size:
        return
    if max(entries.max(), -entries.min()) <= _REACH:
        return
    beyond = np.abs(entries) > _REACH
    if sp.issparse(X):
        listed = sp.coo_array(X)
        row, column = listed.row[beyond.argmax()], listed.col[beyond.argmax()]
    else:
        row, column = np.argwhere(beyond)[0]
    raise InputError(
        f"X is {X[row, column]:g} at row {row}, column {column}, too large to be squared; give "
        "features in a larger unit"
    )


def check_features(X: Any, names: NDArray[Any] | None = None) -> None:
    """Raise an error that names the first entry that is not finite."""
    finite = np.isfinite(X.data if sp.issparse(X) else X)
    if finite.all():
        return
    if sp.issparse(X):
        entry = int((~finite).argmax())
        row = int(np.searchsorted(X.indptr, entry, side="right")) - 1
        column = int(X.indices[entry])
    else:
        row, column = np.argwhere(~finite)[0]
    name = f"{column} ({names[column]!r})" if names is not None else str(column)
    what = "NaN" if np.isnan(X[row, column]) else "infinity"
    raise InputError(
        f"Input X contains {what} at row {row}, column {name}; fill missing features in or drop "
        "them first"
    )


def with_short_indices(X: sp.csr_array) -> sp.csr_array:
    """Return the same matrix with indices of 32 bits, as scikit-learn needs them, if they fit."""
    if X.indices.dtype == np.int32 or max(X.nnz, *X.shape) > np.iinfo(np.int32).max:
        return X
    parts = X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return sp.csr_array(parts, shape=X.shape)
