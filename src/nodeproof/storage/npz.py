"""NumPy archives (``.npz``): written without pickle, and checked before any memory is taken.

The directory of an archive and the headers of its arrays state sizes and types. What does not add
up is refused by them alone; nothing is ever unpickled.
"""

from __future__ import annotations

import io
import math
import os
import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
from numpy.lib import format as npy
from numpy.typing import NDArray

from nodeproof.errors import InputError
from nodeproof.runtime.memory import check_free
from nodeproof.storage.atomic import check_regular

__all__ = [
    "UNREADABLE",
    "Archive",
    "Header",
    "open_npz",
    "read_npy_header",
    "reading",
    "write_npz",
]


#: what a damaged archive may raise, besides ValueError; zipfile raises RuntimeErrors for members
#: that are encrypted, or compressed in an unknown way
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError)
_SUFFIX = ".npy"
# Bytes of the directory: some thousand arrays.
_DIRECTORY = 1 << 20
# Bytes of an array's own header: numpy writes 128, more only for records.
_HEADER = 1 << 12
_DIMENSIONS = 8
# Deflate cannot compress more.
_RATIO = 1032
_PLAIN = "biufUS"
_LAST_LETTER = 0x10FFFF


@dataclass(frozen=True)
class Header:
    """The header of an array.

    Attributes
    ----------
    shape : tuple of int
        Its shape.
    dtype : numpy.dtype
        Booleans, integers, floats or text.
    offset : int
        Bytes before its first number.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    offset: int

    @property
    def nbytes(self) -> int:
        """Its size in memory."""
        return math.prod(self.shape) * self.dtype.itemsize


class Archive(Mapping[str, NDArray[Any]]):
    """Arrays by name, read on demand.

    Attributes
    ----------
    path : pathlib.Path
        The file.
    files : list of str
        Names of the arrays.
    """

    def __init__(self, path: Path, opened: zipfile.ZipFile, size: int) -> None:
        self.path, self._zip = path, opened
        self._members = _check_directory(opened, size)
        self.files = list(self._members)
        self._headers: dict[str, Header] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self.files)

    def __len__(self) -> int:
        return len(self.files)

    def __contains__(self, name: object) -> bool:
        return name in self._members

    def header(self, name: str) -> Header:
        """Return the header of an array; refuse an invalid one."""
        if name not in self._headers:
            member = self._members[name]
            try:
                with self._zip.open(member) as file:
                    header = read_npy_header(file)
            except ValueError as error:
                raise ValueError(f"the array {_shown(name)} {error}") from None
            if header.offset + header.nbytes != member.file_size:
                raise ValueError(
                    f"the array {_shown(name)} has {member.file_size:,} bytes, where its shape "
                    f"{_shape(header.shape)} takes {header.offset + header.nbytes:,}"
                )
            self._headers[name] = header
        return self._headers[name]

    def headers(self) -> dict[str, Header]:
        """Return the headers of all arrays; refuse arrays that do not fit into memory together."""
        found = {name: self.header(name) for name in self.files}
        self._check_memory(sum(header.nbytes for header in found.values()), "reading it")
        return found

    def __getitem__(self, name: str) -> NDArray[Any]:
        header = self.header(name)
        self._check_memory(header.nbytes, f"the array {_shown(name)}")
        with self._zip.open(self._members[name]) as file:
            array = npy.read_array(file, allow_pickle=False, max_header_size=_HEADER)
        if header.dtype.kind == "U":
            _check_text(name, array)
        return np.asarray(array)

    def _check_memory(self, n_bytes: int, what: str) -> None:
        check_free(n_bytes, f"cannot read {self.path}: {what}", "use a larger machine")


@contextmanager
def open_npz(path: str | os.PathLike[str]) -> Iterator[Archive]:
    """Open an archive; errors of a damaged one in the block become an error that names the file.

    Raises
    ------
    InputError
        If there is no such file, it is no archive, or its parts do not add up; or if anything
        in the block raises one of the errors that a damaged file leads to.
    """
    place = Path(path)
    check_regular(place)
    try:
        with _Guarded(io.FileIO(place)) as file:
            if file.read(4) not in (b"PK\3\4", b"PK\5\6"):
                raise ValueError("it is not a ZIP file")
            size = file.seek(0, os.SEEK_END)
            with zipfile.ZipFile(file) as opened:
                file.most = None
                yield Archive(place, opened, size)
    except InputError:
        raise
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None
    except MemoryError as error:
        raise InputError(f"cannot read {path}: not enough memory ({error})") from None
    except KeyError as error:
        raise InputError(f"cannot read {path}: it has no array {error}") from None
    except (ValueError, *_BROKEN) as error:
        raise InputError(
            f"cannot read {path}: {error}; it is damaged, or not a complete NumPy archive"
        ) from None


def read_npy_header(file: IO[bytes]) -> Header:
    """Read the header of one array; refuse anything but plain numbers or text."""
    try:
        version = npy.read_magic(file)
    except ValueError:
        raise ValueError("is not in NumPy's format") from None
    length = 2 if version == (1, 0) else 4
    prefix = file.read(length)
    size = int.from_bytes(prefix, "little")
    if len(prefix) < length or size > _HEADER:
        raise ValueError(f"has no valid header ({size:,} bytes)")
    text = file.read(size)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(
            f"has a header of version {version[0]}.{version[1]}, which only records need"
        )
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    try:
        shape, _, dtype = read(io.BytesIO(prefix + text), max_header_size=_HEADER)
    except (ValueError, TypeError, KeyError, SyntaxError, RecursionError, MemoryError,
            tokenize.TokenError) as error:  # fmt: skip
        raise ValueError(f"has a header that cannot be read ({_first_line(error)})") from None
    if dtype.hasobject:
        raise ValueError("holds Python objects, which are never loaded, not numbers or text")
    if dtype.kind not in _PLAIN or (dtype.kind in "iuf" and dtype.itemsize > 8):
        raise ValueError(f"holds {_first_line(dtype)}, not plain numbers or text")
    if dtype.itemsize == 0 and 0 not in shape:
        raise ValueError("holds text of length zero")
    if len(shape) > _DIMENSIONS or any(not 0 <= side < 2**48 for side in shape):
        raise ValueError(f"has the shape {_shape(shape)}")
    return Header(shape, dtype, 6 + 2 + length + size)


class _Guarded(io.BufferedReader):
    """A file that refuses large reads until its directory was read."""

    most: int | None = _DIRECTORY

    def read(self, size: int | None = -1, /) -> bytes:
        if self.most is not None and size is not None and size > self.most:
            raise ValueError(f"its directory has {size:,} bytes")
        return super().read(size)


def _check_directory(opened: zipfile.ZipFile, size: int) -> dict[str, zipfile.ZipInfo]:
    """Return the arrays that an archive lists."""
    listed = opened.infolist()
    members: dict[str, zipfile.ZipInfo] = {}
    for member in listed:
        name = _shown(member.filename)
        if member.filename in members:
            raise ValueError(f"it holds {name} twice")
        if member.flag_bits & 0x1:
            raise ValueError(f"{name} is encrypted")
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"{name} is compressed in a way that NumPy does not use")
        packed, whole = member.compress_size, member.file_size
        stored = member.compress_type == zipfile.ZIP_STORED
        if packed > size or (whole != packed if stored else whole > _RATIO * (packed + 1)):
            raise ValueError(f"{name} cannot have {whole:,} bytes if compressed to {packed:,}")
        members[member.filename] = member
    if sum(member.compress_size for member in listed) > size:
        raise ValueError("its parts overlap")
    return {
        name.removesuffix(_SUFFIX): member
        for name, member in members.items()
        if name.endswith(_SUFFIX)
    }


def _check_text(name: str, array: NDArray[Any]) -> None:
    """Refuse characters that are not Unicode, which could be neither used nor written."""
    if array.size:
        plain = np.ascontiguousarray(array).reshape(-1)
        codes = plain.view(np.dtype(np.uint32).newbyteorder(plain.dtype.byteorder))
        if codes.max() > _LAST_LETTER or ((codes >= 0xD800) & (codes <= 0xDFFF)).any():
            raise ValueError(f"the array {_shown(name)} holds characters that are not Unicode")


def _shape(shape: tuple[int, ...]) -> str:
    return _shown(str(shape))


def _shown(name: str) -> str:
    return repr(name if len(name) <= 60 else f"{name[:57]}...").strip("'")


def _first_line(found: object) -> str:
    text = str(found).partition("\n")[0]
    return text if len(text) <= 80 else f"{text[:77]}..."


def write_npz(file: IO[bytes], arrays: Mapping[str, Any], *, packed: bool = False) -> None:
    """Write arrays as `numpy.savez` does, but refuse what could only be pickled.

    Older versions of NumPy have no such option, and would write it as an array of that name.

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
            # The compressed size is not known in advance, and may be very large.
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                npy.write_array(member, np.asanyarray(array), allow_pickle=False)


#: what readers may raise on a file that is damaged, or not what its name says
UNREADABLE = (ValueError, KeyError, pa.ArrowException, *_BROKEN)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn any error of reading a file into an `InputError` that names it."""
    try:
        yield
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"{path} does not exist; check the path") from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None
    except UNREADABLE as error:
        raise InputError(f"cannot read {path}: {error}; is the file complete?") from None
