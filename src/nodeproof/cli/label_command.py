"""The command `nodeproof label`; imports neither NumPy nor Arrow until it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from nodeproof.cli.options import EXPERT, FILE, SAFE_CSV, TERM, Command, json_option
from nodeproof.cli.terminal import find_model

__all__ = ["label"]


@click.command(cls=Command)
@click.argument("model", type=FILE, metavar="DIR")
@click.option("--port", type=click.IntRange(0, 65535), default=0,
              help="Port on this machine.", show_default="any that is free")  # fmt: skip
@click.option("--browser/--no-browser", default=True, show_default=True,
              help="Whether to open the app in a browser.")  # fmt: skip
@click.option("--export", type=FILE, metavar="FILE",
              help="Write all labels to a CSV file, and do not start the app.")  # fmt: skip
@TERM
@EXPERT
@SAFE_CSV
@json_option("Print JSON, nothing else.")
def label(model: Path, **options: Any) -> None:
    """Check and add labels in the browser, and fit again, with the fit in DIR.

    DIR is the folder written by `nodeproof fit`. The app shows labels that look wrong and nodes
    whose labels would tell most, one by one, and runs on this machine alone. Labels are saved at
    once, in labels.jsonl in DIR.
    """
    file = find_model(model)  # before the slow imports
    from nodeproof.cli.label import run_label

    run_label(file, **options)
