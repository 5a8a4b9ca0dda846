"""Read the pickles of the Planetoid files without running what is in them.

A pickle is a program: it may import any function and call it. Here the only things that it can
name are the small classes below. They stand in for the few of numpy, scipy and Python that
the files were written with; they take note of what they are given, and after the last
instruction it is checked and turned into arrays. No function of numpy or scipy is ever called by
the pickle itself. Any other name is refused before it is looked up, and instructions that these
files have no use for before the first one is followed.
"""

from __future__ import annotations

import io
import math
import pickle
import pickletools
import re
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof.csr import check_csr
from nodeproof.errors import InputError
from nodeproof.storage.npz import reading

__all__ = ["read_pickle"]

# Plain numbers of a fixed size: no objects, no records, no text.
_NUMBERS = re.compile(r"b1|[iu][1248]|f[248]")

# The instructions that write numbers, text, bytes, tuples, lists and dicts, name something, call
# it and give it a state.
_INSTRUCTIONS = re.compile(
    r"PROTO|FRAME|STOP|MARK|NONE|NEW(TRUE|FALSE)|(BIN)?INT[12]?|LONG[14]?"
    r"|(SHORT_)?(BIN)?STRING|(SHORT_)?(BIN)?UNICODE8?|(SHORT_)?BINBYTES8?|BYTEARRAY8"
    r"|(EMPTY_)?(TUPLE|LIST|DICT)|TUPLE[123]|APPENDS?|SETITEMS?|(LONG_)?(BIN)?(GET|PUT)|MEMOIZE"
    r"|(STACK_)?GLOBAL|REDUCE|NEWOBJ|BUILD"
)


class _RefusedError(Exception):
    """What the pickle asks for is not in Planetoid files."""


class _StandIn:
    """A class or function that the pickle may name; it may not be changed by it."""

    def __setstate__(self, state: object) -> None:
        raise _RefusedError(f"a state for {type(self).__name__}")


class _Object(_StandIn):
    """`object`, as `copyreg` names it."""


class _List(_StandIn):
    """`list`, as the factory of a defaultdict."""


class _NDArray(_StandIn):
    """`numpy.ndarray`, as `_reconstruct` names it."""


class _DType(_StandIn):
    """`numpy.dtype` of plain numbers."""

    found: np.dtype[Any] | None = None

    def __init__(self, code: object = None, align: object = 0, copy: object = 1) -> None:
        if not isinstance(code, str) or not _NUMBERS.fullmatch(code):
            raise _RefusedError("an array of anything but plain numbers")
        self.found = np.dtype(code)

    def __setstate__(self, state: object) -> None:
        if self.found is None or not isinstance(state, tuple) or len(state) < 5:
            raise _RefusedError("a malformed numpy.dtype")
        order = state[1]
        if order not in ("<", ">", "|", "=") or any(part is not None for part in state[2:5]):
            raise _RefusedError("a numpy.dtype of several parts")
        self.found = self.found.newbyteorder(order)


class _Array(_StandIn):
    """`numpy.core.multiarray._reconstruct`, and the array that it makes."""

    found: NDArray[Any] | None = None

    def __init__(self, kind: object = None, shape: object = (0,), code: object = "b") -> None:
        if kind is not _NDArray:
            raise _RefusedError("an array that is not a numpy.ndarray")

    def __setstate__(self, state: object) -> None:
        if not isinstance(state, tuple) or len(state) != 5:
            raise _RefusedError("a malformed numpy.ndarray")
        _, shape, dtype, fortran, content = state
        self.found = _array(content, dtype, shape, "F" if fortran else "C")


class _FromBuffer(_Array):
    """`numpy._core.numeric._frombuffer`, which newer pickles use."""

    def __init__(self, content: object, dtype: object, shape: object, order: object) -> None:
        self.found = _array(content, dtype, shape, "F" if order == "F" else "C")


class _CSR(_StandIn):
    """`scipy.sparse.csr_matrix`."""

    state: dict[Any, Any] | None = None

    def __init__(self) -> None:
        """Take no arguments: everything is in the state."""

    def __setstate__(self, state: object) -> None:
        if not isinstance(state, dict):
            raise _RefusedError("a malformed scipy.sparse.csr_matrix")
        self.state = state

    def matrix(self) -> sp.csr_array:
        """Return the matrix that the state describes."""
        state = self.state or {}
        parts = [state.get(key) for key in ("data", "indices", "indptr")]
        shape = _shape(state.get("_shape"))
        arrays = [part.found for part in parts if isinstance(part, _Array)]
        kinds = ["" if array is None else array.dtype.kind for array in arrays]
        if len(shape) != 2 or len(kinds) != 3 or not kinds[0] or kinds[1:] != ["i", "i"]:
            raise _RefusedError("a malformed scipy.sparse.csr_matrix")
        matrix = sp.csr_array(tuple(arrays), shape=shape)
        check_csr(matrix)
        return matrix


class _Reconstructor(_StandIn):
    """`copyreg._reconstructor`: an instance of a class without arguments."""

    def __new__(cls, kind: object = None, base: object = None, state: object = None) -> Any:
        if kind is not _CSR or base is not _Object or state is not None:
            raise _RefusedError("an object that is not a scipy.sparse.csr_matrix")
        return _CSR()


class _DefaultDict(_StandIn):
    """`collections.defaultdict(list)`, read as a plain dict."""

    def __new__(cls, factory: object = _List) -> Any:
        if factory is not _List:
            raise _RefusedError("a defaultdict of anything but lists")
        return {}


class _Encode(_StandIn):
    """`_codecs.encode`, by which Python 3 writes bytes for Python 2."""

    def __new__(cls, text: object = "", encoding: object = "") -> Any:
        if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
            raise _RefusedError("text in another encoding than latin1")
        return text.encode("latin1")


_MULTIARRAY = ("numpy.core.multiarray", "numpy._core.multiarray")
_NUMERIC = ("numpy.core.numeric", "numpy._core.numeric")
_ADMITTED: dict[tuple[str, str], type[_StandIn]] = {
    ("numpy", "ndarray"): _NDArray,
    ("numpy", "dtype"): _DType,
    **{(module, "_reconstruct"): _Array for module in _MULTIARRAY},
    **{(module, "_frombuffer"): _FromBuffer for module in _NUMERIC},
    **{(f"scipy.sparse.{module}", "csr_matrix"): _CSR for module in ("csr", "_csr")},
    ("scipy.sparse._csr", "csr_array"): _CSR,
    **{(module, "_reconstructor"): _Reconstructor for module in ("copy_reg", "copyreg")},
    **{(module, "object"): _Object for module in ("__builtin__", "builtins")},
    **{(module, "list"): _List for module in ("__builtin__", "builtins")},
    ("collections", "defaultdict"): _DefaultDict,
    ("_codecs", "encode"): _Encode,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> type[_StandIn]:
        """Return the stand-in for a name; nothing is imported, whatever the name."""
        try:
            return _ADMITTED[module, name]
        except KeyError:
            raise _RefusedError(repr(f"{module}.{name}"[:80])) from None


def read_pickle(path: Path) -> NDArray[Any] | sp.csr_array | dict[int, list[int]]:
    """Read an array, a sparse matrix or a dict of lists of integers.

    Parameters
    ----------
    path : pathlib.Path
        One of the ``ind.*`` files, as Python 2 or 3 wrote it.

    Returns
    -------
    ndarray, scipy.sparse.csr_array or dict

    Raises
    ------
    InputError
        If the file holds anything else, or is damaged. Nothing in it has been run.
    """
    with reading(path):
        content = path.read_bytes()
        try:
            _check_instructions(content)
            return _checked(_Unpickler(io.BytesIO(content), encoding="latin1").load())
        except _RefusedError as refused:
            raise InputError(
                f"{path} is refused: it asks for {refused}, which Planetoid files have no use for; "
                "get the file from a place that you trust"
            ) from None
        # A damaged or hostile file may fail in any way: a missing attribute, too much memory, …
        except Exception as error:
            raise InputError(
                f"cannot read {path}: {str(error) or type(error).__name__}; is the file complete?"
            ) from None


def _check_instructions(content: bytes) -> None:
    for instruction, argument, _ in pickletools.genops(content):
        if not _INSTRUCTIONS.fullmatch(instruction.name):
            raise _RefusedError(f"the instruction {instruction.name}")
        # Memory is set aside up to the place named here.
        if instruction.name in ("PUT", "LONG_BINPUT") and int(argument or 0) > len(content):
            raise _RefusedError(f"the place {argument} in {len(content)} bytes")


def _checked(found: object) -> NDArray[Any] | sp.csr_array | dict[int, list[int]]:
    if isinstance(found, _CSR):
        return found.matrix()
    if isinstance(found, _Array) and found.found is not None:
        return found.found
    if type(found) is dict:
        ends = (end for ends in found.values() for end in _plain_list(ends))
        if {int}.issuperset(map(type, found)) and {int}.issuperset(map(type, ends)):
            return found
    raise _RefusedError("something other than an array, a sparse matrix or lists of nodes")


def _plain_list(found: object) -> list[Any]:
    if type(found) is not list:
        raise _RefusedError("something other than lists of nodes")
    return found


def _array(content: object, dtype: object, shape: object, order: Any) -> NDArray[Any]:
    if not isinstance(dtype, _DType) or dtype.found is None:
        raise _RefusedError("an array without a numpy.dtype")
    if isinstance(content, str):
        content = content.encode("latin1")  # Python 2 had one type for text and bytes
    if not isinstance(content, bytes | bytearray):
        raise _RefusedError("an array of objects")
    sizes = _shape(shape)
    if len(content) != math.prod(sizes) * dtype.found.itemsize:
        raise _RefusedError(f"an array of shape {sizes} in {len(content)} bytes")
    flat = np.frombuffer(content, dtype.found).astype(dtype.found.newbyteorder("="))
    return flat.reshape(sizes, order=order)


def _shape(found: object) -> tuple[int, ...]:
    if not isinstance(found, tuple) or not all(type(size) is int and size >= 0 for size in found):
        raise _RefusedError("an array without a proper shape")
    return found
