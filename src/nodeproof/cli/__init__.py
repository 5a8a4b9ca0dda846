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
from nodeproof.cli.terminal import (
    announce_on_terminal,
    check_limit,
    command_of,
    discard_output,
    fail,
    find_model,
    lacks_memory,
    prepare_output,
)
from nodeproof.cli.terms import term_options
from nodeproof.errors import InputError, MissingExtraError
from nodeproof.runtime.logs import announced_by

__all__ = ["cli", "main"]


_HEADER = click.option(
    "--header/--no-header", default=None, help="Whether files have a header.", show_default="guess"
)

_SAFE_CSV = click.option(
    "--safe-csv", is_flag=True, help="Put ' before texts that a spreadsheet would evaluate."
)

_TERM = click.option(
    "--term", "terms", multiple=True, metavar="MODULE:NAME",
    help="Custom term, from an installed module or one in this folder; may be repeated.",
)  # fmt: skip

_EXPERT = click.option(
    "--expert", "own_experts", multiple=True, metavar="MODULE:NAME",
    help="Custom expert, from an installed module or one in this folder; may be repeated.",
)  # fmt: skip


class _Command(click.Command):
    """A command that checks the memory limit first, but not before showing its help."""

    def invoke(self, ctx: click.Context) -> Any:
        check_limit()
        return super().invoke(ctx)


class _Group(click.Group):
    command_class = _Command
    group_class = type


@click.group(
    cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="nodeproof")
def cli() -> None:
    """Label every node of a graph from its links, its features and a few labels."""


@cli.command()
@click.option("--out", type=click.Path(path_type=Path), default=Path("demo"), show_default=True,
              help="Folder for the picture and the results.")  # fmt: skip
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True,
              help="Seed of the data.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def demo(out: Path, seed: int, as_json: bool) -> None:
    """Compare six combinations of sources with the best possible, on planted data."""
    from nodeproof.cli.demo import run_demo
    from nodeproof.cli.terminal import check_folder

    check_folder(out, ("demo.json", "demo.png"))
    run_demo(out, seed, as_json)


@cli.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON, nothing else.")
def warmup(as_json: bool) -> None:
    """Compile what fits need, so that the first one does not wait for it."""
    from nodeproof.cli.warmup import run_warmup

    run_warmup(as_json)


@cli.command()
@click.argument("edges", type=click.Path(path_type=Path))
@click.option("--features", type=click.Path(path_type=Path), help="Table: node, then features.")
@click.option("--labels", type=click.Path(path_type=Path), help="Table: node, label.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("nodeproof-out"),
              show_default=True, help="Folder for predictions, summary and model.")  # fmt: skip
@click.option(
    "--classes",
    type=click.IntRange(min=1),
    help="Number of classes.",
    show_default="from the labels; without labels, chosen from the data",
)
@_HEADER
@click.option("--source", help="Column of EDGES with one end: a name, or a 0-based position.")
@click.option("--target", help="Column of EDGES with the other end.")
@click.option("--weight", help="Column of EDGES with the weight.")
@click.option("--node", help="Column of the other files with the node.")
@click.option("--label", help="Column of the labels file, or node attribute of EDGES.")
@click.option(
    "--unknown", multiple=True, metavar="TOKEN", help="Label that means unknown; may be repeated."
)
@click.option("--strict", is_flag=True, help="Refuse nodes without links.")
@term_options
@_TERM
@click.option("--experts", metavar="NAMES",
              help="What to pool, such as propagation,links; or what to leave out: -trees.",
              show_default="auto")  # fmt: skip
@_EXPERT
@click.option("--null-model", type=click.Choice(["auto", "uniform", "degree"]), default="auto",
              show_default=True, help="Null model of the links.")  # fmt: skip
@click.option("--weights", default="auto", show_default=True, metavar="auto|G,F,L",
              help="Fixed weights of graph, features and labels, as in the paper.")  # fmt: skip
@click.option("--threshold", type=float, help="Neutral density of links, with fixed weights.")
@click.option("--temperature", type=click.FloatRange(min=0), default=1.0, show_default=True,
              help="1 gives probabilities, 0 hard assignments.")  # fmt: skip
@click.option("--n-init", type=click.IntRange(min=1), help="Number of starts.")
@click.option("--max-iter", type=click.IntRange(min=1), default=300, show_default=True,
              help="Maximum number of sweeps per start.")  # fmt: skip
@click.option("--tol", type=click.FloatRange(min=0), default=1e-3, show_default=True,
              help="Stop when memberships change by less on average.")  # fmt: skip
@click.option("--query", type=click.IntRange(min=1), metavar="K",
              help="Also write query.csv: the K nodes to label next.")  # fmt: skip
@click.option("--report", is_flag=True, help="Also write report.html, a page for the browser.")
@click.option("--proof-budget", type=click.FloatRange(min=0), metavar="SECONDS",
              show_default="3 up to 1,000 nodes, 0 above",
              help="For the report: seconds to search for a proof (0: skip).")  # fmt: skip
@click.option("--checkpoint", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
              help="Save the state there every minute, to resume an interrupted fit.")  # fmt: skip
@click.option("--time-budget", type=click.FloatRange(min=0), metavar="SECONDS",
              help="Stop at the end of a sweep after this time; write results.")  # fmt: skip
@click.option("--scheduler", metavar="ADDRESS", help="Run the sweeps on a Dask cluster.")
@click.option("--jobs", type=click.IntRange(min=1), help="Threads.", show_default="all cores")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True,
              help="Seed of the starts.")  # fmt: skip
@_SAFE_CSV
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON, nothing else.")
def fit(edges: Path, **options: Any) -> None:
    """Label every node of the graph in EDGES.

    Files are CSV, TSV, Parquet or .npz; EDGES may also be MatrixMarket, GraphML, GML, a folder of
    Planetoid or OGB files or, for a graph larger than memory, a folder written by `nodeproof
    convert`. The nodes are the union of all files. Writes predictions.csv, summary.json and
    model.npz.
    """
    from nodeproof.cli.fit import run_fit

    context = click.get_current_context()
    options["command"] = command_of(context)
    if options["proof_budget"] is not None and not options["report"]:
        raise InputError("--proof-budget is only used with --report: add --report or omit it")
    for path in (options["features"], options["labels"]):
        if path is not None and path.is_dir():
            raise InputError(f"{path} is a folder; give a file")
    run_fit(edges, **options)


@cli.command()
@click.argument("model", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--features", type=click.Path(path_type=Path),
              help="Table of the new nodes: node, then the features of the fit.")  # fmt: skip
@click.option("--edges", type=click.Path(path_type=Path),
              help="Table of their links: new node, other node, optionally a weight.")  # fmt: skip
@click.option("--out", type=click.Path(path_type=Path), default=Path("predictions.csv"),
              show_default=True, help="File for the predictions.")  # fmt: skip
@_HEADER
@click.option("--source", help="Column of the links with one end: a name, or a 0-based position.")
@click.option("--target", help="Column of the links with the other end.")
@click.option("--weight", help="Column of the links with the weight.")
@click.option("--node", help="Column of the features file with the node.")
@_TERM
@_EXPERT
@_SAFE_CSV
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON, nothing else.")
def predict(model: Path, **options: Any) -> None:
    """Label new nodes with the model that `nodeproof fit` wrote to DIR.

    New nodes are those that the model does not know; nothing is refitted. Files are CSV, TSV or
    Parquet. Writes node, label and probability.
    """
    file = find_model(model)  # before the slow imports
    from nodeproof.cli.predict import run_predict

    run_predict(file, **options)


@cli.command()
@click.argument("model", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--time-budget", type=click.FloatRange(min=0), default=45.0, show_default=True,
              metavar="SECONDS", help="Seconds to search for a proof.")  # fmt: skip
@click.option("--tolerance", type=click.FloatRange(min=0),
              help="Largest gap that counts as proven; with --verify, the largest that you accept.",
              show_default="1e-9, relative to the size of the numbers")  # fmt: skip
@click.option("--verify", is_flag=True, help="Verify the certificate in DIR instead.")
@click.option("--model", "about", type=click.Path(path_type=Path), metavar="MODEL",
              help="With --verify: the model that was certified.",
              show_default="the one in the same folder")  # fmt: skip
@_TERM
@_EXPERT
@_SAFE_CSV
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON, nothing else.")
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
@click.argument("model", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--out", type=click.Path(path_type=Path),
              help="File to write.", show_default="report.html in DIR")  # fmt: skip
@click.option("--title", default="", help="Heading of the page.")
@_TERM
@_EXPERT
@click.option("--json", "as_json", is_flag=True, help="Print JSON, nothing else.")
def report(model: Path, **options: Any) -> None:
    """Write an HTML report on the results of `nodeproof fit` in DIR.

    The page is one self-contained file. It includes the certificate if `nodeproof certify DIR` was
    run before.
    """
    file = find_model(model)  # before the slow imports
    from nodeproof.cli.report import run_report

    run_report(file, **options)


@cli.command()
@click.argument("edges", type=click.Path(path_type=Path))
@click.argument("out", type=click.Path(path_type=Path), required=False)
@click.option("--nodes", type=click.Path(path_type=Path),
              help="Table with a column node that lists further nodes.")  # fmt: skip
@_HEADER
@click.option("--source", help="Column of EDGES with one end: a name, or a 0-based position.")
@click.option("--target", help="Column of EDGES with the other end.")
@click.option("--weight", help="Column of EDGES with the weight.")
@click.option("--memory", metavar="SIZE",
              help="Memory to use, such as 4GB.",
              show_default="half of the free memory")  # fmt: skip
@click.option("--jobs", type=click.IntRange(min=1), help="Threads.", show_default="all cores")
@click.option("--fresh", is_flag=True, help="Start over, and replace OUT.")
@click.option("--verify", is_flag=True,
              help="Verify all checksums; without OUT, those of the folder EDGES.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON, nothing else.")
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
@click.option("--out", type=click.Path(path_type=Path), default=Path("reproduction"),
              show_default=True, help="Results folder; finished cells are reused.")  # fmt: skip
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
@click.option("--json", "as_json", is_flag=True, help="Print JSON, nothing else.")
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
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def data_list(as_json: bool) -> None:
    """List the public data sets."""
    from nodeproof.cli.data import run_list

    run_list(as_json)


@data.command("get")
@click.argument("name")
@click.option(
    "--out", type=click.Path(path_type=Path), help="File to write.", show_default="NAME.npz"
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, nothing else.")
def data_get(name: str, out: Path | None, as_json: bool) -> None:
    """Write the data set NAME to one .npz file, which `nodeproof fit` can read.

    It is looked up in the folder NODEPROOF_DATA, then in the cache, and otherwise downloaded.
    """
    from nodeproof.cli.data import run_get

    run_get(name, out, as_json)


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


def _check_text(given: list[str]) -> None:
    """Refuse names that are not UTF-8: tables cannot be read or written under them."""
    for name in given:
        try:
            name.encode()
        except UnicodeEncodeError:
            raise InputError(f"{name} is not valid UTF-8; use a name that is") from None
