"""Parquet files as tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from nodeproof.errors import InputError
from nodeproof.storage.atomic import check_regular
from nodeproof.storage.npz import reading
from nodeproof.tables.files import finite_matrix, not_numbers

__all__ = ["ParquetFile"]


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
        self, texts: Sequence[int], numbers: Sequence[int]
    ) -> tuple[list[Any], NDArray[np.float64]]:
        """Return some columns as text and others as numbers.

        Parameters
        ----------
        texts, numbers : sequences of int
            Positions of the columns.

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
        return text_columns, finite_matrix(self, number_columns, numbers)

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
