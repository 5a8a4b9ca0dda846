"""Torch tensors as numpy arrays and scipy matrices, without importing torch."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof.errors import InputError

__all__ = ["as_array", "plain", "without_hidden"]


def plain(value: Any) -> Any:
    """Return a torch tensor as a numpy array or scipy matrix; anything else unchanged.

    Gradients are dropped, and tensors on other devices are copied. Half precision becomes float32.

    Examples
    --------
    >>> from nodeproof.inputs.tensors import plain
    >>> plain([1, 2])
    [1, 2]
    """
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor):
        return value
    if value.is_meta:
        raise InputError("a tensor on the device 'meta' has a shape but no numbers: fill it first")
    if value.is_floating_point() and value.element_size() < 4:
        value = value.float()
    if value.layout is torch.strided:
        return value.numpy(force=True)
    if value.layout is not torch.sparse_coo:
        value = value.to_sparse()
    if value.sparse_dim() != 2 or value.dense_dim():
        raise InputError(f"a sparse tensor must have rows and columns, got {tuple(value.shape)}")
    # Duplicate entries are kept: the caller decides what they mean.
    entries, ends = value._values().numpy(force=True), value._indices().numpy(force=True)
    listed = sp.coo_array((entries, (ends[0], ends[1])), shape=tuple(value.shape))
    return sp.csr_array(listed) if value.is_coalesced() else listed


def as_array(value: Any, what: str) -> NDArray[Any]:
    """Return a tensor or nested lists as an array; raise an error where rows differ in length.

    Parameters
    ----------
    what : str
        What it is called in an error.
    """
    try:
        return np.asanyarray(plain(value))
    except ValueError:
        raise InputError(
            f"the rows of {what} differ in length: give all of them equally many entries"
        ) from None


def without_hidden(array: NDArray[Any], listed: int | None = None) -> NDArray[Any]:
    """Return an array without a mask: hidden entries are zero, hidden links are left out.

    Parameters
    ----------
    listed : int, optional
        The axis along which links are listed, if it is not a matrix.
    """
    if not isinstance(array, np.ma.MaskedArray):
        return np.asarray(array)
    if listed is None:
        return np.asarray(array.filled(0))
    hidden = np.ma.getmaskarray(array).any(axis=1 - listed)
    return np.compress(~hidden, np.ma.getdata(array), axis=listed)
