"""Write NumPy archives (``.npz``) that hold no pickle."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

__all__ = ["write_npz"]


def write_npz(file: IO[bytes], arrays: Mapping[str, Any], *, packed: bool = False) -> None:
    """Write arrays as `numpy.savez` does; what could only be pickled is an error.

    Older versions of NumPy have no option for that, and take one for an array of that name.

    Parameters
    ----------
    file : binary file
        Where to write.
    arrays : mapping of str to array-like
        The arrays by name.
    packed : bool
        Whether to compress them, as `numpy.savez_compressed` does.

    Raises
    ------
    ValueError
        If an array holds Python objects.

    Examples
    --------
    >>> from io import BytesIO
    >>> file = BytesIO()
    >>> write_npz(file, {"degree": [2, 3]})
    >>> _ = file.seek(0)
    >>> np.load(file, allow_pickle=False)["degree"].tolist()
    [2, 3]
    """
    packing = zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED
    with zipfile.ZipFile(file, "w", packing) as archive:
        for name, array in arrays.items():
            # How large an array is compressed is not known before, and it may be very large.
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                npy.write_array(member, np.asanyarray(array), allow_pickle=False)
