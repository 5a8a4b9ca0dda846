"""Delimited text files: fast columns, and exact line numbers when something is wrong."""

from __future__ import annotations

import codecs
import csv
import re
import sys
import time
from collections.abc import Iterator, Sequence
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray

from nodeproof.errors import InputError
from nodeproof.runtime.memory import available_memory, check_free
from nodeproof.storage.atomic import check_regular
from nodeproof.storage.npz import reading
from nodeproof.tables.files import bad_cell, finite_matrix, is_packed, open_bytes, unnamed

__all__ = ["HEAD_ROWS", "TextFile", "find_delimiter", "is_number", "is_whole", "kind_of_cells"]

# In this order: names hold spaces and commas far more often than tabs.
_DELIMITERS = ("\t", ",", ";", " ")
#: how many rows the rules that look for a header may see
HEAD_ROWS = 1000
_MOST_COLUMNS = 1_000_000
_HEAD_CELLS = 100_000
_LEAST_BLOCK = 1 << 22
# Bytes that are unpacked at a time.
_PIECE = 1 << 24
# Seconds that Arrow's threads may take to release what they have read.
_PATIENCE = 1.0


class TextFile:
    """A file of delimited text: its first rows at once, its columns on demand.

    Blank lines and lines that begin with ``#`` are skipped; white space around a field does
    not count. The first of tab, comma, semicolon and space that the first line holds outside
    quotes is the delimiter; where it is the space, or where the line is all numbers between
    white space, any run of spaces and tabs separates.

    Parameters
    ----------
    path : pathlib.Path
        The file; a name that ends with ``.gz`` is unpacked.

    Attributes
    ----------
    head : list of list of str
        The fields of the first rows, a header among them.
    names : list of str
        The columns: "column 0", "column 1", … until `use_header` was called.
    comments : int
        How many lines were skipped because they begin with ``#``.
    repeats : int
        How many lines were skipped because they are the header once more: files were joined.
    """

    head: list[list[str]] | None

    def __init__(self, path: Path) -> None:
        self.path = self.first_file = path
        raw = _load(path)
        data, self.comments = _without_comments(raw)
        if not data:
            raise InputError(f"{path} is empty: it has only blank lines and comments")
        first = next(BytesIO(data))
        self._delimiter = find_delimiter(first.decode("latin-1"), runs=True)
        if first.count(self._delimiter.encode()) >= _MOST_COLUMNS:
            raise InputError(f"{path} has more than {_MOST_COLUMNS:,} columns; is it a table?")
        self._data = _squeeze(data) if self._delimiter == " " else data
        self._header: re.Pattern[bytes] | None = None
        self.repeats = 0
        lines = _lines(raw)
        head = [self._fields(*next(lines))]
        self.names = [unnamed(i) for i in range(len(head[0]))]
        more = min(HEAD_ROWS, max(1, _HEAD_CELLS // len(self.names)))
        for number, line in islice(lines, more):
            fields = self._fields(number, line)
            self._check_width(number, line, fields)
            head.append(fields)
        self.head = head

    def use_header(self) -> None:
        """Take the column names from the first line; lines that repeat it are skipped."""
        assert self.head is not None
        self.names = self.head[0]
        names = [name.replace('"', '""').encode() for name in self.names]
        self._header = _header_pattern(names, self._delimiter)
        # Few files repeat it, and to search for one word takes no time.
        start = self._first_length()
        if self._data.find(max(names, key=len), start) >= 0:
            body, self.repeats = self._header.subn(b"", self._data[start:])
            self._data = self._data[:start] + body if self.repeats else self._data

    def kind_of(self, column: int) -> str:
        """Return "whole", "number" or "text", by the first rows."""
        return kind_of_cells(self.head or [], column, self._header is not None)

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
        numbers : ndarray of shape (n, len(numbers))
        """
        types = dict.fromkeys(texts, pa.large_string()) | dict.fromkeys(numbers, pa.float64())
        if self._header and self.head and all(row == self.head[0] for row in self.head):
            raise InputError(f"{self.path} is empty: it has a header but no rows")
        problem = "it has quoted fields with line ends"
        try:
            table = self._parse(types)
        except pa.ArrowInvalid as error:
            table, problem = None, str(error)
        # Arrow would read on over a line end inside quotes, and lines could not be counted.
        if table is None or (b'"' in self._data and table.num_rows != self._count_rows()):
            self._raise_for_bad_line(numbers, missing)
            raise InputError(f"cannot read {self.path}: {problem}")
        columns = dict(zip(types, table.columns, strict=True))
        trimmed = [pc.utf8_trim(columns[i].combine_chunks(), characters=" \t") for i in texts]
        return trimmed, finite_matrix(self, [columns[i] for i in numbers], numbers, missing)

    def place(self, row: int) -> str:
        """Return where a row stands, for messages."""
        return f"{self.path}, line {self._line(row)[0]}"

    def cell(self, row: int, column: int) -> str:
        """Return what one cell holds, for messages."""
        return self._fields(*self._line(row))[column]

    def _parse(self, types: dict[int, Any]) -> pa.Table:
        references = sys.getrefcount(self._data)
        try:
            return self._parse_body(types)
        finally:
            # One of Arrow's threads may hold the bytes a moment longer. To release them it needs
            # the interpreter: if that were shutting down by then, the process would be aborted.
            given_up = time.monotonic() + _PATIENCE
            while sys.getrefcount(self._data) > references and time.monotonic() < given_up:
                time.sleep(1e-4)

    def _parse_body(self, types: dict[int, Any]) -> pa.Table:
        return pyarrow.csv.read_csv(
            pa.BufferReader(self._body()),
            read_options=pyarrow.csv.ReadOptions(
                autogenerate_column_names=True,
                # A block must hold at least one line, however many columns there are.
                block_size=min(max(16 * self._first_length(), _LEAST_BLOCK), 1 << 30),
            ),
            parse_options=pyarrow.csv.ParseOptions(delimiter=self._delimiter),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types={f"f{i}": kind for i, kind in types.items()},
                include_columns=[f"f{i}" for i in types],
            ),
        )

    def _body(self) -> pa.Buffer:
        """Return the rows below the header, without a copy."""
        start = self._first_length() if self._header else 0
        return pa.py_buffer(self._data).slice(start)

    def _first_length(self) -> int:
        end = self._data.find(b"\n")
        return len(self._data) if end < 0 else end + 1

    def _rows(self) -> Iterator[tuple[int, bytes]]:
        """Yield the rows below the header as the file on disk has them."""
        lines = islice(_lines(_load(self.path)), 1 if self._header else 0, None)
        return (
            (number, line)
            for number, line in lines
            if self._header is None or not self._header.fullmatch(line)
        )

    def _count_rows(self) -> int:
        return sum(1 for _ in self._rows())

    def _line(self, row: int) -> tuple[int, bytes]:
        return next(islice(self._rows(), row, None))

    def _fields(self, number: int, line: bytes) -> list[str]:
        """Return the fields of one line; an error names the line."""
        where = f"{self.path}, line {number}"
        try:
            text = (_squeeze(line) if self._delimiter == " " else line).decode()
        except UnicodeDecodeError:
            raise InputError(f"{where}: not valid UTF-8; save the file as UTF-8") from None
        reader = csv.reader([text, ""], delimiter=self._delimiter)
        try:
            fields = next(reader)
        except csv.Error as error:
            raise InputError(f"{where}: {error}") from None
        if reader.line_num > 1:
            raise InputError(f"{where}: a quoted field must end on the line where it begins")
        return [field.strip(" \t") for field in fields]

    def _check_width(self, number: int, line: bytes, fields: list[str]) -> None:
        width = len(self.names)
        if len(fields) != width:
            text = line.decode()
            shown = text if len(text) <= 80 else f"{text[:77]}..."
            raise InputError(
                f"{self.path}, line {number}: expected {width} fields as in the first row, "
                f"found {len(fields)}: {shown!r}"
            )

    def _raise_for_bad_line(self, numbers: Sequence[int], missing: bool) -> None:
        """Raise the error for the first bad line, if there is one."""
        for row, (number, line) in enumerate(self._rows()):
            fields = self._fields(number, line)
            self._check_width(number, line, fields)
            for column in numbers:
                if not is_number(fields[column]) and (fields[column] or not missing):
                    raise bad_cell(self, row, column)


def is_number(cell: str) -> bool:
    """Tell whether a field is a number, as files write them.

    Examples
    --------
    >>> is_number("-1.5e3"), is_number("12 apples"), is_number("")
    (True, False, False)
    """
    try:
        float(cell)
    except ValueError:
        return False
    return cell.isascii() and "_" not in cell


def _header_pattern(names: Sequence[bytes], delimiter: str) -> re.Pattern[bytes]:
    """Return a pattern for lines with these fields, quoted or padded or not."""
    # Possessive: a long run of white space is not tried in all its parts.
    around = rb"[ ]*+" if delimiter == "\t" else rb"[ \t]*+"
    apart = rb"[ \t]++" if delimiter == " " else around + re.escape(delimiter.encode()) + around
    fields = (rb'(?:%b|"%b")' % (escaped, escaped) for escaped in map(re.escape, names))
    return re.compile(rb"^%b%b%b$" % (around, apart.join(fields), around), re.MULTILINE)


def is_whole(cell: str) -> bool:
    """Tell whether a field is a whole number.

    Examples
    --------
    >>> is_whole("-12"), is_whole("1.0")
    (True, False)
    """
    return cell.removeprefix("-").isdecimal()


def kind_of_cells(head: Sequence[Sequence[str]], column: int, header: bool) -> str:
    """Return "whole", "number" or "text": what a column of text holds, by its first rows.

    Examples
    --------
    >>> kind_of_cells([["a", "b"], ["1", "2.5"], ["a", "b"]], 1, header=True)
    'number'
    """
    rows = [row for row in head if row != head[0]] if header else head
    cells = [row[column] for row in rows]
    if not cells or not all(map(is_number, cells)):
        return "text"
    return "whole" if all(map(is_whole, cells)) else "number"


def _load(path: Path) -> bytes:
    """Return the bytes of the file, unpacked, with every line end as a newline."""
    check_regular(path)
    with reading(path):
        data = _unpack(path) if is_packed(path) else path.read_bytes()
    data = data.removeprefix(codecs.BOM_UTF8)
    if b"\0" in data:
        raise InputError(f"{path} is not UTF-8 text: it holds a zero byte; save it as UTF-8")
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return data


def _unpack(path: Path) -> bytes:
    """Return the content of a packed file, unless it exceeds free memory."""
    free = available_memory()
    remedy = "convert it with `nodeproof convert`, which needs little"
    pieces, size = [], 0
    with open_bytes(path) as file:
        while piece := file.read(_PIECE):
            pieces.append(piece)
            size += len(piece)
            # Twice: the pieces, then all of them in one.
            check_free(2 * size, f"{path}, unpacked,", remedy, free=free)
    return b"".join(pieces)


def _lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the rows, header included, with their line numbers."""
    for number, line in enumerate(BytesIO(data), 1):
        if line.strip(b" \t\n") and not line.startswith(b"#"):
            yield number, line.removesuffix(b"\n")


def _without_comments(data: bytes) -> tuple[bytes, int]:
    """Drop comments, and lines of white space (Arrow skips empty ones itself)."""
    comments = 0
    if data.startswith(b"#") or b"\n#" in data:
        data, comments = re.subn(rb"^#[^\n]*(?:\n|\Z)", b"", data, flags=re.MULTILINE)
    if data.startswith((b" ", b"\t")) or b"\n " in data or b"\n\t" in data:
        data = re.sub(rb"^[ \t]+$", b"", data, flags=re.MULTILINE)
    return data.lstrip(b"\n"), comments


def find_delimiter(line: str, *, runs: bool) -> str:
    r"""Return what separates the fields of a line: tab, comma, semicolon or space.

    Parameters
    ----------
    line : str
        The first line.
    runs : bool
        Whether a space stands for any run of spaces and tabs.

    Examples
    --------
    >>> find_delimiter('"a\tb",c d', runs=True), find_delimiter("1  2\t0.5", runs=True)
    (',', ' ')
    """
    unquoted = re.sub('"[^"]*"', "", line.strip(" \t\n"))
    if runs and "\t" in unquoted and all(map(is_number, unquoted.split())):
        return " "  # numbers hold no spaces, so "1  2<tab>0.5" has three fields
    return next((mark for mark in _DELIMITERS if mark in unquoted), ",")


def _squeeze(data: bytes) -> bytes:
    """Collapse runs of spaces and tabs outside quotes to one space, and strip line ends."""
    if b'"' in data:
        data = re.sub(rb'("[^"\n]*")|[ \t]+', lambda found: found[1] or b" ", data)
    else:
        data = data.replace(b"\t", b" ")
        while b"  " in data:
            data = data.replace(b"  ", b" ")
    return data.replace(b" \n", b"\n").replace(b"\n ", b"\n").strip(b" ")
