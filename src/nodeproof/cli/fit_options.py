"""The options of `nodeproof fit`, in the sections of its help."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from nodeproof.cli.options import (
    COVERAGE,
    EDGE_TYPE,
    EXPERT,
    FILE,
    HEADER,
    ID,
    REPEATED,
    SAFE_CSV,
    SOURCE,
    TARGET,
    TERM,
    UNKNOWN,
    WEIGHT_COLUMN,
    json_option,
    out_option,
    sections,
)
from nodeproof.cli.terms import TERM_OPTIONS
from nodeproof.errors import InputError

__all__ = ["check_together", "fit_options"]

_DATA = (
    click.option("--nodes", type=FILE,
                 help="One table for all: node, attributes of any kind and, in the column given by "
                 "--label, labels."),
    click.option("--features", type=FILE, help="Table: node, then features, all of them numbers."),
    click.option("--labels", type=FILE, help="Table: node, label."),
    click.option("--knn", metavar="K|auto",
                 help="Without EDGES: link nodes to their K nearest by features."),
    UNKNOWN,
    click.option("--strict", is_flag=True, help="Refuse nodes without links."),
    REPEATED,
)  # fmt: skip

_COLUMNS = (
    HEADER,
    SOURCE,
    TARGET,
    WEIGHT_COLUMN,
    ID,
    EDGE_TYPE,
    click.option("--label-column", "--label", "label", metavar="COLUMN",
                 help="Column of --nodes or --labels with the labels, or node attribute of EDGES."),
    click.option("--target-column", metavar="COLUMN",
                 help="Column of --nodes with numbers to predict. --target without --source means "
                 "the same."),
    click.option("--drop", multiple=True, metavar="COLUMN",
                 help="Column of --nodes to leave out; may be repeated."),
)  # fmt: skip

_PREPARATION = (
    click.option("--one-hot/--no-one-hot", default=True, show_default=True,
                 help="Of --nodes: turn text columns into one column per value, or leave them "
                 "out."),
    click.option("--impute/--no-impute", default=True, show_default=True,
                 help="Of --nodes: fill missing numbers with the median, or refuse them."),
    click.option("--scale/--no-scale", default=True, show_default=True,
                 help="Of --nodes: bring numbers to mean 0 and deviation 1, or leave them as they "
                 "are."),
)  # fmt: skip

_MODEL = (
    click.option("--classes", type=click.IntRange(min=1), help="Number of classes.",
                 show_default="from the labels; without labels, chosen from the data"),
    click.option("--positive-only", is_flag=True,
                 help="The labels are of one class: tell it from all others."),
    *TERM_OPTIONS,
    TERM,
    click.option("--experts", metavar="NAMES", show_default="auto",
                 help="What to pool, such as propagation,links; or what to leave out: -trees."),
    EXPERT,
    click.option("--null-model", type=click.Choice(["auto", "uniform", "degree"]), default="auto",
                 show_default=True, help="Null model of the links."),
    click.option("--source-weights", "weights", default="auto", show_default=True,
                 metavar="auto|G,F,L",
                 help="Fixed weights of graph, features and labels, as in the paper."),
    click.option("--threshold", type=float, help="Neutral density of links, with fixed weights."),
    click.option("--temperature", type=click.FloatRange(min=0), default=1.0, show_default=True,
                 help="1 gives probabilities, 0 hard assignments."),
)  # fmt: skip

_SOLVER = (
    click.option("--n-init", type=click.IntRange(min=1), help="Number of starts."),
    click.option("--max-iter", type=click.IntRange(min=1), default=300, show_default=True,
                 help="Maximum number of sweeps per start."),
    click.option("--tol", type=click.FloatRange(min=0), default=1e-3, show_default=True,
                 help="Stop when memberships change by less on average."),
    click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True,
                 help="Seed of the starts."),
    click.option("--checkpoint", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
                 help="Save the state there every minute, to resume an interrupted fit."),
    click.option("--time-budget", type=click.FloatRange(min=0), metavar="SECONDS",
                 help="Stop at the end of a sweep after this time; write results."),
    click.option("--scheduler", metavar="ADDRESS", help="Run the sweeps on a Dask cluster."),
    click.option("--jobs", type=click.IntRange(min=1), help="Threads.", show_default="all cores"),
)  # fmt: skip

_RESULTS = (
    out_option("Folder for predictions, summary and model.", Path("nodeproof-out")),
    click.option("--query", type=click.IntRange(min=1), metavar="K",
                 help="Also write query.csv: the K nodes to label next."),
    COVERAGE,
    click.option("--report", is_flag=True, help="Also write report.html, a page for the browser."),
    click.option("--proof-budget", type=click.FloatRange(min=0), metavar="SECONDS",
                 show_default="3 up to 1,000 nodes, 0 above",
                 help="For the report: seconds to search for a proof (0: skip)."),
    SAFE_CSV,
    json_option(),
)  # fmt: skip

#: adds all options of `nodeproof fit` to a command
fit_options = sections(
    {
        "Data": _DATA,
        "Columns": _COLUMNS,
        "Preparation of --nodes": _PREPARATION,
        "Model": _MODEL,
        "Solver": _SOLVER,
        "Results": _RESULTS,
    }
)


def check_together(edges: Sequence[Path], options: dict[str, Any], context: click.Context) -> None:
    """Refuse options that do not go together, and folders in place of files."""
    if not edges and options["knn"] is None:
        raise click.UsageError(
            "give EDGES, or --knn auto to link nodes by their --features or --nodes", context
        )
    if options["proof_budget"] is not None and not options["report"]:
        raise click.UsageError(
            "--proof-budget is only used with --report: add --report or omit it", context
        )
    for path in (options["nodes"], options["features"], options["labels"]):
        if path is not None and path.is_dir():
            raise InputError(f"{path} is a folder; give a file")
