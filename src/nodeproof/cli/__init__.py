"""The command line: options here, each command in the module of its name.

`main` is the entry point of the program `nodeproof`; nothing else imports this package. A command
reads files with `tables` and `datasets`, calls the library as any user would, and prints; it makes
no decisions about the method. May import everything.
"""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import Any

import click

from nodeproof import __version__
from nodeproof.cli.fit_options import check_together, fit_options
from nodeproof.cli.label_command import label
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
    TRUTH_LABEL,
    UNKNOWN,
    WEIGHT_COLUMN,
    Group,
    json_option,
    out_option,
    sections,
)
from nodeproof.cli.terminal import (
    announce_on_terminal,
    command_of,
    discard_output,
    fail,
    find_model,
    lacks_memory,
    prepare_output,
)
from nodeproof.cli.update_command import update
from nodeproof.errors import InputError, MissingExtraError
from nodeproof.runtime.logs import announced_by

__all__ = ["cli", "main"]


@click.group(
    cls=Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="nodeproof")
def cli() -> None:
    """Label every node of a graph from its links, its features and a few labels."""


@cli.command()
@out_option("Folder for the picture and the results.", Path("demo"))
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True,
              help="Seed of the data.")  # fmt: skip
@json_option("Print JSON instead of a table.")
def demo(out: Path, seed: int, as_json: bool) -> None:
    """Compare six combinations of sources with the best possible, on planted data."""
    from nodeproof.cli.demo import run_demo
    from nodeproof.cli.terminal import check_folder

    check_folder(out, ("demo.json", "demo.png"))
    run_demo(out, seed, as_json)


@cli.command()
@json_option("Print JSON, nothing else.")
def warmup(as_json: bool) -> None:
    """Compile what fits need, so that the first one does not wait for it."""
    from nodeproof.cli.warmup import run_warmup

    run_warmup(as_json)


@cli.command()
@click.argument("edges", type=FILE, nargs=-1, metavar="[EDGES]...")
@fit_options
def fit(edges: tuple[Path, ...], **options: Any) -> None:
    """Label every node of the graph in EDGES.

    One table of nodes is enough for all the rest: `nodeproof fit edges.csv --nodes nodes.csv
    --label segment`; `--target income` instead predicts numbers. Files are CSV, TSV, Parquet or
    .npz; EDGES may also be MatrixMarket, GraphML, GML, .h5ad, a folder of Planetoid or OGB files
    or, for a graph larger than memory, a folder written by `nodeproof convert`. Several tables of
    links are one kind of links each, named after its file. The nodes are the union of all files.
    Writes predictions.csv, summary.json and model.npz.
    """
    from nodeproof.cli.fit import run_fit

    context = click.get_current_context()
    options["command"] = command_of(context)
    check_together(edges, options, context)
    column = options.pop("target_column")
    if column is None and options["nodes"] is not None and options["source"] is None:
        column, options["target"] = options["target"], None
    if column is None:
        run_fit(edges, **options)
    else:
        from nodeproof.cli.targets import run_fit_targets

        run_fit_targets(edges, column, options)


@cli.command()
@click.argument("model", type=FILE, metavar="DIR")
@sections({
    "Data": (
        click.option("--nodes", type=FILE,
                     help="Table of the new nodes, for a model fitted with --nodes."),
        click.option("--features", type=FILE,
                     help="Table of the new nodes: node, then the features of the fit."),
        click.option("--edges", type=FILE, multiple=True,
                     help="Table of their links: new node, other node, optionally a weight; of "
                     "several kinds of links, once for each, with the names of the fit."),
        REPEATED,
    ),
    "Columns": (HEADER, SOURCE, TARGET, WEIGHT_COLUMN, EDGE_TYPE, ID),
    "Model": (TERM, EXPERT),
    "Results": (out_option("File for the predictions.", Path("predictions.csv")), COVERAGE,
                SAFE_CSV, json_option()),
})  # fmt: skip
def predict(model: Path, **options: Any) -> None:
    """Label new nodes with the model that `nodeproof fit` wrote to DIR.

    New nodes are those that the model does not know; nothing is refitted. Files are CSV, TSV or
    Parquet. Writes node, label and probability, and with --coverage a set of classes.
    """
    file = find_model(model)  # before the slow imports
    from nodeproof.cli.predict import run_predict

    run_predict(file, **options)


cli.add_command(update)


@cli.command()
@click.argument("model", type=FILE, metavar="DIR")
@click.option("--time-budget", type=click.FloatRange(min=0), default=45.0, show_default=True,
              metavar="SECONDS", help="Seconds to search for a proof.")  # fmt: skip
@click.option("--tolerance", type=click.FloatRange(min=0),
              help="Largest gap that counts as proven; with --verify, the largest that you accept.",
              show_default="1e-9, relative to the size of the numbers")  # fmt: skip
@click.option("--verify", is_flag=True, help="Verify the certificate in DIR instead.")
@click.option("--model", "about", type=FILE, metavar="MODEL",
              help="With --verify: the model that was certified.",
              show_default="the one in the same folder")  # fmt: skip
@TERM
@EXPERT
@SAFE_CSV
@json_option()
def certify(model: Path, **options: Any) -> None:
    """Prove that the labelling in DIR is optimal, or bound its gap.

    DIR is the folder written by `nodeproof fit`. Writes certificate.npz (which anyone can verify),
    certificate.json, certificate.csv (whether each node is certified) and, with matplotlib,
    certificate.png. With --verify, DIR may also be a certificate file; it is checked against the
    links and costs of the model.
    """
    if not options["verify"]:
        find_model(model)
    from nodeproof.cli.certify import run_certify

    run_certify(model, **options)


@cli.command()
@click.argument("model", type=FILE, metavar="DIR")
@out_option("File to write.", show_default="report.html in DIR")
@click.option("--title", default="", help="Heading of the page.")
@TERM
@EXPERT
@json_option("Print JSON, nothing else.")
def report(model: Path, **options: Any) -> None:
    """Write an HTML report on the results of `nodeproof fit` in DIR.

    The page is one self-contained file. It includes the certificate if `nodeproof certify DIR` was
    run before.
    """
    file = find_model(model)  # before the slow imports
    from nodeproof.cli.report import run_report

    run_report(file, **options)


@cli.command()
@click.argument("folder", type=FILE, metavar="DIR")
@json_option("Print JSON, nothing else.")
def example(folder: Path, as_json: bool) -> None:
    """Write small real files to DIR, with the commands to try on them."""
    from nodeproof.cli.example import run_example

    run_example(folder, as_json)


@cli.command()
@click.argument("model", type=FILE, metavar="DIR")
@click.argument("truth", type=FILE)
@HEADER
@ID
@TRUTH_LABEL
@UNKNOWN
@click.option("--all", "every", is_flag=True,
              help="Count nodes that were labelled in the fit, too.")  # fmt: skip
@TERM
@EXPERT
@json_option("Print JSON, nothing else.")
def evaluate(model: Path, truth: Path, **options: Any) -> None:
    """Compare the results of `nodeproof fit` in DIR with true labels.

    TRUTH is a table: node, label. Prints accuracy, macro-F1, log loss, calibration error and
    confusion, of the nodes that were not labelled in the fit; and, if predictions.csv has sets, how
    many of them hold the true class.
    """
    file = find_model(model)  # before the slow imports
    from nodeproof.cli.evaluate import run_evaluate

    run_evaluate(file, truth, **options)


@cli.command()
@click.argument("runs", type=FILE, nargs=-1, required=True, metavar="RUN RUN...")
@click.option("--truth", type=FILE, metavar="TRUTH", help="Table of true labels: node, label.")
@HEADER
@ID
@TRUTH_LABEL
@UNKNOWN
@TERM
@EXPERT
@out_option("Picture to write, as PNG; needs matplotlib.", show_default=False)
@json_option("Print JSON, nothing else.")
def compare(runs: tuple[Path, ...], **options: Any) -> None:
    """Compare the results of several fits: each RUN is a folder written by `nodeproof fit`."""
    for run in runs:
        find_model(run)
    from nodeproof.cli.evaluate import run_compare

    run_compare(runs, **options)


@cli.command()
@click.argument("edges", type=FILE)
@click.argument("out", type=FILE, required=False)
@click.option("--nodes", type=FILE,
              help="Table with a column node that lists further nodes.")  # fmt: skip
@HEADER
@SOURCE
@TARGET
@WEIGHT_COLUMN
@click.option("--memory", metavar="SIZE",
              help="Memory to use, such as 4GB.",
              show_default="half of the free memory")  # fmt: skip
@click.option("--jobs", type=click.IntRange(min=1), help="Threads.", show_default="all cores")
@click.option("--fresh", is_flag=True, help="Start over, and replace OUT.")
@click.option("--verify", is_flag=True,
              help="Verify all checksums; without OUT, those of the folder EDGES.")  # fmt: skip
@json_option()
def convert(edges: Path, out: Path | None, **options: Any) -> None:
    """Convert the links in EDGES to a graph on disk, the folder OUT.

    EDGES is a Parquet, CSV or TSV file, a folder of them, or a quoted pattern; it may be far larger
    than memory. After Ctrl-C or a crash the same command resumes. `nodeproof convert --verify OUT`
    verifies a folder.
    """
    from nodeproof.cli.convert import run_convert

    run_convert(edges, out, **options)


@cli.command()
@click.argument("names", nargs=-1, required=True, metavar="{fig1|fig2|fig3|theorem|all|…}...")
@click.option("--seeds", type=click.IntRange(min=1), default=None,
              help="Random data sets per point.", show_default="10; 2 with --quick")  # fmt: skip
@click.option(
    "--jobs", type=click.IntRange(min=1), help="Number of processes.", show_default="all cores"
)
@out_option("Results folder; finished cells are reused.", Path("reproduction"))
@click.option(
    "--quick", is_flag=True, help="A few points per panel: a few minutes, not 40 minutes."
)
@click.option("--extended", is_flag=True, help="Also run what takes long.")
@click.option("--peers", is_flag=True, help="Also run graph neural networks; needs torch.")
@click.option("--style", type=click.Choice(["ours", "paper", "both"]), default="ours",
              show_default=True, help="Draw all curves, or what the paper prints.")  # fmt: skip
@click.option("--solver", default="cado", show_default=True, metavar="METHOD",
              help="Method whose curves `--style paper` draws.")  # fmt: skip
@click.option("--fresh", is_flag=True, help="Start over, ignoring finished cells.")
@json_option("Print JSON, nothing else.")
def reproduce(
    names: tuple[str, ...], out: Path, as_json: bool, seeds: int | None, jobs: int | None,
    quick: bool, **options: Any,
) -> None:  # fmt: skip
    """Run the paper's experiments: figures, tables, and a verdict on each claim.

    Names are figures (fig1, fig2, fig3, unprinted, beyond, phase, theorem, convergence), panels,
    or all.
    Finished cells are saved immediately; after Ctrl-C or a crash the same command resumes.
    """
    from nodeproof.cli.reproduce import run_reproduce
    from nodeproof.cli.terminal import check_folder

    check_folder(out)
    seeds = seeds or (2 if quick else 10)
    run_reproduce(names, out, as_json, seeds=seeds, jobs=jobs or -1, quick=quick, **options)


@cli.group()
def data() -> None:
    """Public data sets."""


@data.command("list")
@json_option("Print JSON instead of a table.")
def data_list(as_json: bool) -> None:
    """List the public data sets."""
    from nodeproof.cli.data import run_list

    run_list(as_json)


@data.command("get")
@click.argument("name")
@out_option("File to write.", show_default="NAME.npz")
@json_option("Print JSON, nothing else.")
def data_get(name: str, out: Path | None, as_json: bool) -> None:
    """Write the data set NAME to one .npz file, which `nodeproof fit` can read.

    It is looked up in the folder NODEPROOF_DATA, then in the cache, and otherwise downloaded.
    """
    from nodeproof.cli.data import run_get

    run_get(name, out, as_json)


cli.add_command(label)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; bad input ends with one line and exit code 2."""
    given = sys.argv[1:] if arguments is None else arguments
    prepare_output()
    # Otherwise numba would have the terminal's colours reset at exit, after the JSON.
    os.environ.setdefault("NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING", "1")
    try:
        _check_text(given)
        with announced_by(None if "--json" in given else announce_on_terminal):
            status = cli.main(given, prog_name="nodeproof", standalone_mode=False)
        sys.stdout.flush()  # a full disk fails here, not at exit
    except click.exceptions.NoArgsIsHelpError as asked:
        click.echo(asked.ctx.get_help() if asked.ctx else "")
        sys.exit(2)
    except click.UsageError as error:
        fail(error.format_message(), more=_try_help(error.ctx))
    except click.ClickException as error:
        fail(error.format_message())
    except (InputError, MissingExtraError) as error:
        fail(str(error))
    except BrokenPipeError:
        discard_output()
        sys.exit(1)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            discard_output()
        where = f": {error.filename}" if error.filename else ""
        fail(f"{error.strerror or error}{where}")
    except (KeyboardInterrupt, click.Abort):
        fail("interrupted", code=130)
    except Exception as error:
        if not lacks_memory(error):
            raise
        fail(f"not enough memory: {error}".rstrip(": "))
    else:
        sys.exit(status if isinstance(status, int) else 0)


def _try_help(context: click.Context | None) -> str:
    """Return where to read on after a mistake in the options of a command."""
    return f"Try '{context.command_path if context else 'nodeproof'} --help'."


def _check_text(given: list[str]) -> None:
    """Refuse names that are not UTF-8: tables cannot be read or written under them."""
    for name in given:
        try:
            name.encode()
        except UnicodeEncodeError:
            raise InputError(f"{name} is not valid UTF-8; use a name that is") from None
