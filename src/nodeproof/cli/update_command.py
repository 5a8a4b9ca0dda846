"""The command `nodeproof update` and its options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from nodeproof.cli.options import (
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
    Command,
    json_option,
    out_option,
    sections,
)
from nodeproof.cli.terminal import command_of, find_model

__all__ = ["update"]


@click.command(cls=Command)
@click.argument("model", type=FILE, metavar="DIR")
@sections({
    "Data": (
        click.option("--edges", type=FILE, multiple=True,
                     help="Table of links to add, of new nodes and of others: node, other node, "
                     "optionally a weight; of several kinds of links, once for each, with the "
                     "names of the fit."),
        click.option("--remove", type=FILE, multiple=True,
                     help="Table of links to remove: node, other node; of several kinds, as "
                     "--edges."),
        click.option("--labels", type=FILE,
                     help="Table of new and corrected labels: node, label. An unknown one removes "
                     "the label that was there."),
        click.option("--features", type=FILE,
                     help="Table of the new nodes: node, then the features of the fit."),
        click.option("--nodes", type=FILE,
                     help="Table of the new nodes, for a model fitted with --nodes."),
        UNKNOWN,
        REPEATED,
    ),
    "Columns": (
        HEADER, SOURCE, TARGET, WEIGHT_COLUMN, EDGE_TYPE, ID,
        click.option("--label-column", "--label", "label", metavar="COLUMN",
                     help="Column of --labels with the labels."),
    ),
    "Model": (
        TERM, EXPERT,
        click.option("--jobs", type=click.IntRange(min=1), help="Threads.",
                     show_default="all cores"),
    ),
    "Results": (out_option("Folder for predictions, summary and model.", show_default="DIR"),
                SAFE_CSV, json_option()),
})  # fmt: skip
def update(model: Path, **options: Any) -> None:
    """Update the model that `nodeproof fit` wrote to DIR, without fitting again.

    Takes up new nodes, links that came or went, and new or corrected labels. What the fit has
    chosen is kept. Files are CSV, TSV or Parquet. Writes predictions.csv, summary.json and
    model.npz, by default in place of those in DIR.
    """
    file = find_model(model)  # before the slow imports
    options["command"] = command_of(click.get_current_context())
    from nodeproof.cli.update import run_update

    run_update(file, **options)
