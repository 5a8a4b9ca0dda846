"""CSV files that commands write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

__all__ = ["made_safe", "write_csv"]

# What a spreadsheet takes for the beginning of a formula, or passes over before one; in some
# languages, letters of full width are the same.
_FORMULA = "^[=+\\-@\t\r\n\N{FULLWIDTH EQUALS SIGN}\N{FULLWIDTH PLUS SIGN}" + (
    "\N{FULLWIDTH HYPHEN-MINUS}\N{FULLWIDTH COMMERCIAL AT}]"
)


def write_csv(columns: dict[str, Any], path: Path, safe: bool) -> None:
    """Write columns to a file.

    Parameters
    ----------
    columns : dict of str to arrays of length n
        Arrow or NumPy.
    path : pathlib.Path
        The file.
    safe : bool
        See `made_safe`.
    """
    table = pa.table(columns)
    pyarrow.csv.write_csv(made_safe(table) if safe else table, path)


def made_safe(table: pa.Table) -> pa.Table:
    """Return a table with an apostrophe before every text that a spreadsheet would evaluate.

    Examples
    --------
    >>> made_safe(pa.table({"node": ["=1+1", "ann"], "gain": [-1, 2]})).to_pydict()
    {'node': ["'=1+1", 'ann'], 'gain': [-1, 2]}
    """
    for place, field in enumerate(table.schema):
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
            column = table.column(place)
            marked = pc.binary_join_element_wise(pa.scalar("'", field.type), column, "")
            risky = pc.match_substring_regex(column, _FORMULA)
            table = table.set_column(place, field.name, pc.if_else(risky, marked, column))
    return table
