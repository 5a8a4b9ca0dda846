"""A generator of files that are hostile or broken, each with the command that is to refuse it."""

from hostile import archives, folders, formats, models, parquet_files, tables
from hostile.making import CASES, Case, Seeds, make_seeds

__all__ = [
    "CASES",
    "Case",
    "Seeds",
    "archives",
    "folders",
    "formats",
    "make_seeds",
    "models",
    "parquet_files",
    "tables",
]
