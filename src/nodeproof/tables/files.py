"""What every table file offers, messages that all share, Parquet files and ``.gz`` files."""

from __future__ import annotations

import gzip
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from nodeproof.errors import InputError
from nodeproof.storage.atomic import check_regular
from nodeproof.storage.npz import reading

__all__ = [
    "BadNumberError",
    "ParquetFile",
    "Table",
    "TableFile",
    "bad_cell",
    "bad_number",
    "file_kind",
    "finite_matrix",
    "is_packed",
    "not_numbers",
    "open_bytes",
    "open_text",
    "unnamed",
]

_TEXT_SUFFIXES = (".csv", ".tsv", ".txt", ".edges")
# 1,20 and 1.234,50
_DECIMAL_COMMA = re.compile(r"[+-]?([0-9]*|[0-9]{1,3}(\.[0-9]{3})+),[0-9]+")


class Table(Protocol):
    """A table with named columns, in one file or many."""

    path: Path
    names: list[str]
    head: list[list[str]] | None
    """The first rows of text, which may begin with a header; None where columns have names."""
    comments: int
    """How many lines were skipped because they begin with ``#``."""
    repeats: int
    """How many lines were skipped because they are the header once more: files were joined."""

    @property
    def first_file(self) -> Path:
        """The file that `head` is from."""

    def use_header(self) -> None:
        """Take the names of the columns from the first line of text; do nothing without text."""

    def kind_of(self, column: int) -> str:
        """Return "whole", "number" or "text": what a column holds, by its type or first rows."""


class TableFile(Table, Protocol):
    """A table in one file that is read into memory, as `TextFile` and `ParquetFile` offer it."""

    def read(
        self, texts: Sequence[int], numbers: Sequence[int], missing: bool = False
    ) -> tuple[list[Any], Any]:
        """Return the columns asked for: text as Arrow arrays, numbers as a float64 matrix.

        Numbers that are missing are an error, or NaN where they may be.
        """

    def place(self, row: int) -> str:
        """Return where a row stands in the file, for messages: "data.csv, line 7"."""

    def cell(self, row: int, column: int) -> str:
        """Return what the file says in one cell, for messages."""


def file_kind(path: Path) -> str:
    """Return "text", "parquet" or "npz", by the suffix.

    Examples
    --------
    >>> from pathlib import Path
    >>> file_kind(Path("links.TSV.gz")), file_kind(Path("links.parquet"))
    ('text', 'parquet')
    """
    name = path.name.lower()
    if name.removesuffix(".gz").endswith(_TEXT_SUFFIXES):
        return "text"
    if name.endswith((".parquet", ".npz")):
        return name.rpartition(".")[2]
    raise InputError(
        f"cannot tell the format of {path} by its name; it must end with "
        f"{', '.join(_TEXT_SUFFIXES)} (or one of these and .gz), .parquet or .npz"
    )


def finite_matrix(
    file: TableFile, columns: Sequence[Any], positions: Sequence[int], missing: bool = False
) -> NDArray[np.float64]:
    """Return float64 Arrow columns as a matrix; a missing or infinite value is an error.

    Parameters
    ----------
    file : TableFile
        Where the columns come from, for the message.
    columns : sequence of m pyarrow arrays of length n
        Nulls count as missing.
    positions : sequence of m ints
        Their positions in the file.
    missing : bool
        Whether values may be missing: they are NaN.

    Returns
    -------
    ndarray of shape (n, m)
    """
    rows = len(columns[0]) if columns else 0
    matrix = np.empty((rows, len(columns)))
    for j, column in enumerate(columns):
        matrix[:, j] = column.to_numpy(zero_copy_only=False)
    finite = ~np.isinf(matrix) if missing else np.isfinite(matrix)
    if not finite.all():
        row, j = map(int, np.argwhere(~finite)[0])
        raise bad_cell(file, row, positions[j])
    return matrix


class BadNumberError(InputError):
    """A cell that should hold a finite number and does not.

    Attributes
    ----------
    unexplained : bool
        Whether it holds something, and the message has no hint what that may be.
    """

    def __init__(self, problem: str, found: str, hint: str) -> None:
        shown = repr(found) if found else "nothing"
        super().__init__(f"{problem}, got {shown}" + (f"; {hint}" if hint else ""))
        self.unexplained = bool(found) and not hint


def bad_number(
    table: Table, place: str, column: int, found: str, *, first: bool = False
) -> BadNumberError:
    """Return the error for a cell that should hold a finite number and does not.

    Parameters
    ----------
    table : Table
        The table.
    place : str
        Where the row stands, for the message.
    column : int
        Position of the column.
    found : str
        What the cell holds.
    first : bool
        Whether it is in the first row.
    """
    hint = ""
    if _DECIMAL_COMMA.fullmatch(found):
        hint = "if this is a decimal comma, write a point instead"
    elif first and table.names[column] == unnamed(column):
        hint = "if this line names the columns, use --header"
    problem = f"{place}, column {table.names[column]!r}: expected a finite number"
    return BadNumberError(problem, found, hint)


def bad_cell(file: TableFile, row: int, column: int) -> BadNumberError:
    """Return the error for a cell of a file that should hold a finite number and does not."""
    return bad_number(file, file.place(row), column, file.cell(row, column), first=row == 0)


def not_numbers(table: Table, column: int, kind: Any) -> InputError:
    """Return the error for a column that should hold numbers, and is of another type."""
    return InputError(f"{table.path}, column {table.names[column]!r}: expected numbers, got {kind}")


def unnamed(column: int) -> str:
    """Return what a column without a name is called; positions count from 0."""
    return f"column {column}"


# A file that unpacks to more than this ratio, beyond that many bytes, is a zip bomb.
_RATIO, _BOMB = 200, 1 << 26
# Bytes that are unpacked at a time.
_PIECE = 1 << 20


def is_packed(path: Path) -> bool:
    """Tell whether a file is packed, by its name."""
    return path.suffix.lower() == ".gz"


def open_bytes(path: Path) -> IO[bytes]:
    """Open a file to read its bytes, unpacked if it is a ``.gz``; a zip bomb is an `InputError`."""
    return io.BufferedReader(_Unpacked(path), _PIECE) if is_packed(path) else path.open("rb")


def open_text(path: Path, encoding: str) -> IO[str]:
    """Open a file to read its text, unpacked if it is a ``.gz``; a zip bomb is an `InputError`."""
    return io.TextIOWrapper(open_bytes(path), encoding=encoding)


class _Unpacked(io.RawIOBase):
    """The content of a packed file, up to a plausible size."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = gzip.open(path)  # noqa: SIM115  # closed with this one
        self._room = max(_BOMB, _RATIO * path.stat().st_size)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        count = self._file.readinto(buffer)
        self._room -= count
        if self._room < 0:
            raise InputError(
                f"{self.path} unpacks to more than {_RATIO} times its size, as no table does; if "
                "it is one, unpack it first"
            )
        return count

    def close(self) -> None:
        if hasattr(self, "_file"):  # missing if there is no such file
            self._file.close()
        super().close()


class ParquetFile:
    """A Parquet file with its columns as text or as numbers.

    Parameters
    ----------
    path : pathlib.Path
        The file.

    Attributes
    ----------
    names : list of str
        The columns.
    head : None
        They have names.
    """

    head: list[list[str]] | None = None
    comments = repeats = 0

    def __init__(self, path: Path) -> None:
        self.path = self.first_file = path
        check_regular(path)
        with reading(path):
            self._file = pq.ParquetFile(path)
            self.names: list[str] = list(self._file.schema_arrow.names)
            if self._file.metadata.num_rows == 0:
                raise InputError(f"{path} is empty: it has no rows")

    def read(
        self, texts: Sequence[int], numbers: Sequence[int], missing: bool = False
    ) -> tuple[list[Any], NDArray[np.float64]]:
        """Return some columns as text and others as numbers.

        Parameters
        ----------
        texts, numbers : sequences of int
            Positions of the columns.
        missing : bool
            Whether numbers may be missing: they are NaN.

        Returns
        -------
        texts : list of pyarrow large_string arrays of length n
            Without nulls: what is missing is empty.
        numbers : ndarray of shape (n, len(numbers))
        """
        wanted = sorted({*texts, *numbers})
        with reading(self.path):
            table = self._file.read(columns=[self.names[i] for i in wanted])
            columns = dict(zip(wanted, table.columns, strict=True))
            text_columns = [_as_text(columns[i]) for i in texts]
        number_columns = [self._as_numbers(columns[i], i) for i in numbers]
        return text_columns, finite_matrix(self, number_columns, numbers, missing)

    def use_header(self) -> None:
        """Do nothing: the columns have names."""

    def kind_of(self, column: int) -> str:
        """Return "whole", "number" or "text", by the type of a column."""
        kind = self._file.schema_arrow.field(column).type
        if pa.types.is_integer(kind):
            return "whole"
        return "number" if pa.types.is_floating(kind) else "text"

    def place(self, row: int) -> str:
        """Return where a row stands, for messages."""
        return f"{self.path}, row {row + 1}"

    def cell(self, row: int, column: int) -> str:
        """Return what one cell holds, for messages."""
        value = self._file.read(columns=[self.names[column]]).column(0)[row].as_py()
        return "" if value is None else str(value)

    def _as_numbers(self, column: Any, position: int) -> Any:
        kind = column.type
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or kind == pa.bool_()):
            raise not_numbers(self, position, kind)
        # Arrow casts a boolean to a small integer only.
        column = column.cast(pa.int8()) if kind == pa.bool_() else column
        return column.cast(pa.float64(), safe=False)


def _as_text(column: Any) -> Any:
    column = column.combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_floating(column.type):
        column = _integers_if_whole(pc.if_else(pc.is_nan(column), None, column))
    column = column.cast(pa.large_string())
    column.validate(full=True)  # bytes that are no text
    return pc.fill_null(column, "")


def _integers_if_whole(column: Any) -> Any:
    # pandas turns integers into floats where some are missing: 3.0 stands for the node 3.
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid:
        return column
