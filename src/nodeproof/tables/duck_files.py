"""One table in one or many files, as DuckDB reads it."""

from __future__ import annotations

import csv
import os
import re
from codecs import BOM_UTF8
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from nodeproof.errors import InputError, count_of
from nodeproof.storage.npz import reading
from nodeproof.tables.duck import quoted, quoted_file, readable
from nodeproof.tables.files import file_kind, open_bytes, open_text, unnamed
from nodeproof.tables.text import HEAD_ROWS, find_delimiter, kind_of_cells

__all__ = ["FLOATS", "INTEGERS", "FileTable", "find_files", "open_files"]

_SIGNED = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
#: DuckDB's names of types
INTEGERS = (*_SIGNED, *(f"U{kind}" for kind in _SIGNED))
FLOATS = ("FLOAT", "DOUBLE")

# How many characters the rules that look for a header may see.
_HEAD_CHARS = 1 << 24
# DuckDB's limit for a line.
_LONGEST_LINE = 2_000_000
# Bytes that are searched for comments at a time.
_PIECE = 1 << 22
_COMMENT = re.compile(rb"^#", re.MULTILINE)
# Neither at the beginning of a line nor in quotes.
_MARK_INSIDE = re.compile(rb'^(?:[^"#\n]++|"[^"\n]*+")++#', re.MULTILINE)
_TEXT_SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz")


@dataclass
class FileTable:
    """Files with the same columns.

    Attributes
    ----------
    path : pathlib.Path
        What the user gave: a file, a folder, or a pattern.
    files : tuple of pathlib.Path
        The files.
    names, types : list of str
        Columns, and DuckDB's types of them.
    reader, options : str
        Which function of DuckDB reads them, and how.
    head : list of list of str, or None
        The first rows of text, which may begin with a header.
    header : bool
        Whether rows like the first name the columns, in any file and line.
    comments : int
        Lines that begin with #, which are skipped.
    repeats : int
        Headers that are not the first line of a file, which are skipped, once they are counted.
    """

    path: Path
    files: tuple[Path, ...]
    names: list[str]
    types: list[str]
    reader: str
    options: str
    head: list[list[str]] | None = None
    header: bool = False
    comments: int = 0
    repeats: int = 0

    @property
    def first_file(self) -> Path:
        """The file that `head` is from."""
        return self.files[0]

    @property
    def is_text(self) -> bool:
        """Whether these are files of delimited text."""
        return self.reader == "read_csv"

    def sql(self, files: Sequence[Path] | None = None) -> str:
        """Return the source of a FROM clause, for all files or some: the rows without headers."""
        if not self.header:
            return self._all_rows(files)
        return f"(SELECT * FROM {self._all_rows(files)} WHERE NOT ({self._is_header()})) AS rows"

    def headers_sql(self) -> str:
        """Return a query for the number of headers that are not the first line of a file."""
        listed = f"SELECT count(*) AS n FROM {self._all_rows()} WHERE {self._is_header()}"
        return f"SELECT greatest(n - {len(self.files)}, 0) FROM ({listed})"

    def column(self, position: int) -> str:
        """Return a column as SQL; white space around the fields of text does not count."""
        if not self.is_text:
            return quoted(self.names[position])
        return f"nullif(trim({quoted(unnamed(position))}, ' \t'), '')"

    def use_header(self) -> None:
        """Take the names of the columns from the first line of text."""
        if self.head is not None:
            self.names, self.header = self.head[0], True

    def kind_of(self, column: int) -> str:
        """Return "whole", "number" or "text", by the type of a column or its first rows."""
        if self.head is not None:
            return kind_of_cells(self.head, column, self.header)
        kind = self.types[column].partition("(")[0]
        return "whole" if kind in INTEGERS else "number" if kind in FLOATS else "text"

    def _all_rows(self, files: Sequence[Path] | None = None) -> str:
        listed = ", ".join(map(quoted_file, files or self.files))
        return f"{self.reader}([{listed}], {self.options})"

    def _is_header(self) -> str:
        cells = (
            f"coalesce({self.column(i)}, '') = {quoted(name, chr(39))}"
            for i, name in enumerate(self.names)
        )
        return " AND ".join(cells)


def find_files(path: Path) -> tuple[Path, ...]:
    """Return the files that a path means: itself, those in the folder, or those that match."""
    if path.is_file():
        return (path,)
    if path.is_dir():
        # Names that begin with a dot or an underscore are bookkeeping of programs.
        files = [
            file
            for file in sorted(path.rglob("*"))
            if file.is_file() and not file.name.startswith((".", "_"))
        ]
        found = [file for file in files if file.suffix.lower() == ".parquet"]
        found = found or [file for file in files if file.name.lower().endswith(_TEXT_SUFFIXES)]
        if not found:
            raise InputError(f"the folder {path} holds no Parquet, CSV or TSV file")
        return tuple(found)
    if not any(mark in str(path) for mark in "*?["):
        raise InputError(f"{path} does not exist; check the path")
    root = Path(path.anchor)
    found = sorted(file for file in root.glob(str(path.relative_to(root))) if file.is_file())
    if not found:
        raise InputError(f"no file matches {path}")
    return tuple(found)


def open_files(connection: Any, path: str | os.PathLike[str]) -> FileTable:
    """Find the files of a table and its columns.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        What reads them.
    path : path
        Parquet or delimited text: a file, a folder, or a pattern.
    """
    files = find_files(Path(path))
    kinds = {file_kind(file) for file in files}
    if kinds == {"text"}:
        return _open_text(Path(path), files)
    if kinds != {"parquet"}:
        raise InputError(f"{path}: expected Parquet files, or files of delimited text")
    # Files may list the same columns in different orders.
    options = "union_by_name=true, hive_partitioning=false, binary_as_string=true"
    table = FileTable(Path(path), files, [], [], "read_parquet", options)
    with readable(path):
        rows = connection.execute(f"DESCRIBE SELECT * FROM {table.sql()}").fetchall()
    return replace(table, names=[row[0] for row in rows], types=[row[1] for row in rows])


def _open_text(path: Path, files: tuple[Path, ...]) -> FileTable:
    (head, delimiter), *others = (_read_head(file) for file in files)
    width = len(head[0])
    for file, (rows, mark) in zip(files[1:], others, strict=True):
        if mark != delimiter or len(rows[0]) != width:
            raise InputError(f"{file} has different columns than {files[0]}")
    names = [unnamed(i) for i in range(width)]
    columns = ", ".join(f"{quoted(name, chr(39))}: 'VARCHAR'" for name in names)
    comments = _count_comments(files)
    # Everything is text at first: "007" is not the node 7.
    options = (
        f"auto_detect=false, columns={{{columns}}}, delim={quoted(delimiter, chr(39))}, "
        "quote='\"', escape='\"', header=false"
    ) + ", comment='#'" * bool(comments)
    kinds = ["VARCHAR"] * width
    return FileTable(path, files, names, kinds, "read_csv", options, head, comments=comments)


def _count_comments(files: tuple[Path, ...]) -> int:
    """Return how many lines begin with #.

    DuckDB, once told of comments, cuts every line at a # that is not in quotes: names like
    "room#1" and "room#2" would become one. Files that have both are refused.
    """
    comments, inside = 0, None
    for path in files:
        with reading(path), open_bytes(path) as file:
            while piece := file.read(_PIECE):
                piece = piece.removeprefix(BOM_UTF8) + file.readline(_LONGEST_LINE)
                if b"#" in piece:
                    comments += len(_COMMENT.findall(piece))
                    inside = inside or (_MARK_INSIDE.search(piece) and path)
    if comments and inside:
        raise InputError(
            f"{inside}: names contain #, and the table has {count_of(comments, 'comment line')}, "
            "so DuckDB would cut the names off; put them in quotes, or remove the comments"
        )
    return comments


def _read_head(path: Path) -> tuple[list[list[str]], str]:
    """Return the fields of the first rows of a text file, and what separates them."""
    with reading(path), open_text(path, "utf-8-sig") as file:
        lines = _first_rows(path, file)
    if not lines:
        raise InputError(f"{path} is empty: it has only blank lines and comments")
    delimiter = find_delimiter(lines[0], runs=False)
    try:
        fields = [
            [cell.strip(" \t") for cell in row] for row in csv.reader(lines, delimiter=delimiter)
        ]
    except csv.Error as error:
        raise InputError(f"cannot read {path}: {error}") from None
    # Rows with a different number of fields are left to DuckDB, which names the line.
    return [row for row in fields if len(row) == len(fields[0])], delimiter


def _first_rows(path: Path, file: IO[str]) -> list[str]:
    """Return the first lines that are not blank or comments; refuse endless ones."""
    rows: list[str] = []
    n_chars = 0
    while len(rows) < HEAD_ROWS and n_chars < _HEAD_CHARS:
        line = file.readline(_LONGEST_LINE)
        if len(line) == _LONGEST_LINE:
            raise InputError(
                f"{path} has a line of more than {_LONGEST_LINE:,} characters; is it a table?"
            )
        if not line:
            break
        if line.strip() and not line.startswith("#"):
            rows.append(line)
            n_chars += len(line)
    return rows
