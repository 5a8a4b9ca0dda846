"""Small Planetoid files, as Python 2 or Python 3 would have written them."""

from __future__ import annotations

import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")


def python2(found: Any) -> bytes:
    """Pickle an array, a matrix or a dict of lists, byte for byte as Python 2 did."""
    return b"\x80\x02" + _python2(found) + b"."


def _python2(found: Any) -> bytes:
    if sp.issparse(found):
        state = {"format": "csr", "_shape": found.shape, "indptr": found.indptr,
                 "_cs_matrix__has_sorted_indices": True, "indices": found.indices,
                 "maxprint": 50, "data": found.data}  # fmt: skip
        items = b"".join(_python2(key) + _python2(value) for key, value in state.items())
        return b"cscipy.sparse.csr\ncsr_matrix\n)\x81}(" + items + b"ub"
    if isinstance(found, np.ndarray):
        dtype = (b"cnumpy\ndtype\n" + _python2(found.dtype.str[1:]) + b"K\x00K\x01\x87R(K\x03"
                 + _python2("<") + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb")  # fmt: skip
        return (
            b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R(K\x01"
            + _python2(found.shape) + dtype + b"\x89" + _python2(found.tobytes()) + b"tb"
        )  # fmt: skip
    if isinstance(found, dict):
        items = b"".join(_python2(key) + _python2(value) for key, value in found.items())
        return b"ccollections\ndefaultdict\nc__builtin__\nlist\n\x85R(" + items + b"u"
    if isinstance(found, list):
        return b"](" + b"".join(map(_python2, found)) + b"e"
    if isinstance(found, tuple):
        return b"(" + b"".join(map(_python2, found)) + b"t"
    if isinstance(found, bool):
        return b"\x88" if found else b"\x89"
    if isinstance(found, int):
        return b"J" + struct.pack("<i", found)
    raw = found.encode() if isinstance(found, str) else found
    return b"T" + struct.pack("<i", len(raw)) + raw


def citations(gap: bool = True) -> dict[str, Any]:
    """Seven nodes: two to train on, four described in all, test nodes 6 and 4; 5 is missing."""
    features = sp.csr_matrix(np.arange(1, 22, dtype=np.float32).reshape(7, 3) % 4)
    classes = np.eye(2, dtype=np.int32)[[0, 1, 1, 0, 1, 0, 0]]
    test = [6, 4] if gap else [6, 4, 5]
    return {
        "x": features[:2], "allx": features[:4], "tx": features[test],
        "y": classes[:2], "ally": classes[:4], "ty": classes[test],
        "graph": {0: [1, 2], 1: [0, 1], 2: [0, 5], 3: [], 4: [6, 6], 5: [2], 6: [4]},
        "test.index": test,
    }  # fmt: skip


def write_planetoid(folder: Path, parts: dict[str, Any], name: str = "tiny", protocol: int = -2):
    """Write the eight files; protocol −2 is Python 2. Return the folder."""
    folder.mkdir(exist_ok=True)
    for part, content in parts.items():
        path = folder / f"ind.{name}.{part}"
        if part == "test.index":
            path.write_text("".join(f"{v}\n" for v in content))
        elif isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_bytes(
                python2(content) if protocol == -2 else pickle.dumps(content, protocol)
            )
    return folder
