"""Table files of any kind: what they are, and one way to fail at reading them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nodeproof.errors import InputError
from nodeproof.io.npz import BROKEN

__all__ = [
    "UNREADABLE",
    "BadNumberError",
    "TableFile",
    "bad_number",
    "count_of",
    "file_kind",
    "finite_matrix",
    "reading",
    "unnamed",
]

_TEXT_SUFFIXES = (".csv", ".tsv", ".txt", ".edges")
# 1,20 and 1.234,50
_DECIMAL_COMMA = re.compile(r"[+-]?([0-9]*|[0-9]{1,3}(\.[0-9]{3})+),[0-9]+")


class TableFile(Protocol):
    """A file with named columns, as `TextFile` and `ParquetFile` offer it."""

    path: Path
    names: list[str]
    head: list[list[str]] | None
    """The first rows of text, which may begin with a header; None where columns have names."""

    def use_header(self) -> None:
        """Take the names of the columns from the first line of text."""

    def kind_of(self, column: int) -> str:
        """Return "whole", "number" or "text": what a column holds, by its type or first rows."""

    def read(self, texts: Sequence[int], numbers: Sequence[int]) -> tuple[list[Any], Any]:
        """Return the columns asked for: text as Arrow arrays, numbers as a float64 matrix."""

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


#: what a reader may end with on a file that is damaged, or not what its name says
UNREADABLE = (ValueError, KeyError, pa.ArrowException, *BROKEN)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn whatever goes wrong in reading a file into one `InputError` that names it."""
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


def finite_matrix(
    file: TableFile, columns: Sequence[Any], positions: Sequence[int]
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

    Returns
    -------
    ndarray of shape (n, m)
    """
    rows = len(columns[0]) if columns else 0
    matrix = np.empty((rows, len(columns)))
    for j, column in enumerate(columns):
        matrix[:, j] = column.to_numpy(zero_copy_only=False)
    finite = np.isfinite(matrix)
    if not finite.all():
        row, j = map(int, np.argwhere(~finite)[0])
        raise bad_number(file, row, positions[j])
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


def bad_number(file: TableFile, row: int, column: int) -> BadNumberError:
    """Return the error for a cell that should hold a finite number and does not."""
    found = file.cell(row, column)
    hint = ""
    if _DECIMAL_COMMA.fullmatch(found):
        hint = "if this is a decimal comma, write a point instead"
    elif row == 0 and file.names[column] == unnamed(column):
        hint = "if this line names the columns, use --header"
    place = f"{file.place(row)}, column {file.names[column]!r}"
    return BadNumberError(f"{place}: expected a finite number", found, hint)


def unnamed(column: int) -> str:
    """Return what a column without a name is called; positions count from 0."""
    return f"column {column}"


def count_of(count: int, thing: str) -> str:
    """Return a number with its noun.

    Examples
    --------
    >>> count_of(1, "node"), count_of(12000, "node")
    ('1 node', '12,000 nodes')
    """
    return f"{count:,} {thing}{'' if count == 1 else 's'}"
