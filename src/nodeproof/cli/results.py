"""Result files: predictions, query and summary of a fit, and CSV that is safe in spreadsheets.

`outdated_files` names the results of an earlier fit that a new one invalidates.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray

from nodeproof import __version__
from nodeproof.certificate import Certificate, Stage
from nodeproof.cli.fit_files import FitFiles
from nodeproof.cli.sets import set_column
from nodeproof.fitted import Fitted
from nodeproof.prediction_sets import Limits
from nodeproof.report.wording import amount, gap

__all__ = [
    "MOST_NAMES",
    "listed_classes",
    "listed_features",
    "made_safe",
    "outdated_files",
    "progress_of",
    "summarise",
    "write_csv",
    "write_predictions",
    "write_query",
]


# Characters that start a formula in a spreadsheet, or are skipped before one; in some languages
# their full-width forms, too.
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


# Files that some fits write and others do not, or that other commands add, and a mark near their
# beginning: users may have files of the same names.
_OUTPUTS = {
    "report.html": b'content="nodeproof ',
    "query.csv": b'"node","label","probability","gain"',
    "certificate.npz": b"PK",
    "certificate.json": b'"nodeproof"',
    "certificate.csv": b'"node","label","best_label","certified"',
    "certificate.png": b"\x89PNG",
}
_BEGINNING = 4096


def outdated_files(folder: Path, written: Iterable[str], read: Iterable[Path | None]) -> list[str]:
    """Return the names of files in a results folder that a new fit invalidates.

    Parameters
    ----------
    folder : path
        The folder that the fit is written to.
    written : iterable of str
        The files it writes there.
    read : iterable of path
        Its input files, which are always kept.
    """
    if not (folder / "model.npz").is_file():
        return []
    kept = {path.resolve() for path in read if path is not None}
    return [
        name
        for name, sign in _OUTPUTS.items()
        if name not in written
        and (folder / name).is_file()
        and (folder / name).resolve() not in kept
        and sign in _beginning(folder / name)
    ]


def _beginning(file: Path) -> bytes:
    with file.open("rb") as opened:
        return opened.read(_BEGINNING)


# Lines of a file that are written at a time.
_LINES = 500_000
#: the most feature names in a summary
MOST_NAMES = 100
# The most features and classes shown.
_SHOWN = 8


def progress_of(stage: Stage) -> str:
    """Return how far objective and bound of a search have closed in."""
    missing = stage.objective - stage.lower_bound
    share = missing / abs(stage.objective) if stage.objective else math.inf
    found = gap(missing, share)
    closed = "no proof yet" if found == "no proof" else f"gap {found}"
    return f"objective {amount(stage.objective)}, bound {amount(stage.lower_bound)}, {closed}"


def write_predictions(
    fitted: Fitted,
    files: FitFiles,
    path: Path,
    safe: bool,
    proof: Certificate | None = None,
    limits: Limits | None = None,
) -> None:
    """Write one line per node, in chunks.

    Parameters
    ----------
    safe : bool
        As in `write_csv`.
    proof : Certificate, optional
        Where it applies, the column ``excluded`` says which given labels no optimal labelling
        keeps.
    limits : Limits, optional
        Of the prediction sets in the column ``set``.
    """
    n = files.n_nodes
    applies = proof is not None and proof.status != "not applicable"
    excluded = fitted.excluded_by(proof) if applies else None
    suspect = np.zeros(n, dtype=bool)
    suspect[fitted.suspects.node] = True
    # The last entry stands for no label.
    names = np.append(fitted.classes.astype(str), "")
    writer = None
    for lo in range(0, n, _LINES):
        hi = min(lo + _LINES, n)
        codes = np.full(hi - lo, -1) if fitted.given is None else fitted.given[lo:hi]
        proven = {} if excluded is None else {"excluded": pa.array(excluded[lo:hi])}
        table = pa.table(
            {
                "node": pa.array(files.names(lo, hi)),
                "label": pa.array(fitted.labels[lo:hi]),
                "probability": fitted.proba[lo:hi].max(axis=1).astype(np.float64).round(6),
                "given_label": pa.array(names[codes], type=pa.string()),
                "suspect": pa.array(suspect[lo:hi]),
                **proven,
                **set_column(limits, fitted.proba[lo:hi], fitted.classes),
            }
        )
        table = made_safe(table) if safe else table
        writer = writer or pyarrow.csv.CSVWriter(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def write_query(
    fitted: Fitted,
    files: FitFiles,
    nodes: NDArray[np.int64],
    gains: NDArray[np.float64],
    path: Path,
    safe: bool,
) -> None:
    """Write the nodes to label next, best first, and how much each reduces the uncertainty."""
    write_csv(
        {
            "node": pa.array(nodes if files.ids is None else files.ids[nodes]),
            "label": pa.array(fitted.labels[nodes]),
            "probability": fitted.proba[nodes].max(axis=1).astype(np.float64).round(6),
            "gain": gains.round(6),
        },
        path,
        safe,
    )


def summarise(
    fitted: Fitted, files: FitFiles, notes: list[str], seed: int, seconds: float
) -> dict[str, Any]:
    """Return the contents of summary.json."""
    names, sizes = np.unique(fitted.labels, return_counts=True)
    return {
        "nodeproof": __version__,
        "nodes": fitted.n_nodes,
        "links": files.n_links or fitted.n_links or 0,
        "features": 0 if files.X is None else files.X.shape[1],
        "feature_names": (files.feature_names or [])[:MOST_NAMES],
        "labels": len(fitted.labelled),
        "given_labels": _given_labels(fitted),
        "unlabelled": fitted.n_nodes - len(fitted.labelled),
        "classes": {str(name): int(size) for name, size in zip(names, sizes, strict=True)},
        "mean_probability": round(float(fitted.proba.max(axis=1).mean(dtype=np.float64)), 6),
        "suspects": len(fitted.suspects),
        "estimated_accuracy": _rounded(fitted.estimated_accuracy),
        "sources": {key: round(share, 4) for key, share in fitted.sources.items()},
        "choices": fitted.choices,
        "status": fitted.status,
        "sweeps": fitted.n_iter,
        "objective": fitted.objective,
        "notes": notes,
        "seed": seed,
        "seconds": round(seconds, 3),
    }


def listed_features(count: int, names: list[str]) -> str:
    """Return the number of features and the first names, for display."""
    if not count or not names:
        return f"{count:,}" if count else ""
    more = ", …" if count > _SHOWN else ""
    return f"{count:,}: {', '.join(names[:_SHOWN])}{more}"


def listed_classes(classes: dict[str, int]) -> str:
    """Return the sizes of the classes, or of the first of many, for display."""
    shown = ", ".join(f"{name}: {size}" for name, size in list(classes.items())[:_SHOWN])
    return shown + (f", … ({len(classes)} in total)" if len(classes) > _SHOWN else "")


def _given_labels(fitted: Fitted) -> dict[str, int]:
    """Return the number of given labels of each class that has any."""
    if fitted.given is None:
        return {}
    codes, counts = np.unique(fitted.given[fitted.given >= 0], return_counts=True)
    return {str(fitted.classes[k]): int(n) for k, n in zip(codes, counts, strict=True)}


def _rounded(numbers: tuple[float, float, float] | None) -> list[float] | None:
    return None if numbers is None else [round(number, 4) for number in numbers]
