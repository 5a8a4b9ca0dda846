"""The command line: options here, what each command does in the module of its name.

`main` is what the program `nodeproof` runs; nothing else imports this room. A command reads files
by `tables` and `datasets`, calls the library as any user would, and prints; it decides nothing
about the method. May import everything.
"""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from nodeproof import __version__
from nodeproof.cli.terminal import (
    check_limit,
    command_of,
    fail,
    find_model,
    forget_output,
    lacks_memory,
    prepare_output,
)
from nodeproof.errors import InputError, MissingExtraError

__all__ = ["cli", "main"]


_SAFE_CSV = click.option(
    "--safe-csv", is_flag=True, help="Put ' before texts that a spreadsheet would evaluate."
)

_TERM = click.option(
    "--term", "terms", multiple=True, metavar="MODULE:NAME",
    help="Term of your own, from an installed module or one in this folder; may be repeated.",
)  # fmt: skip


class _Command(click.Command):
    """A command; its help is shown however little memory there is."""

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
              help="Folder for the picture and the figures.")  # fmt: skip
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True,
              help="Seed of the data.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def demo(out: Path, seed: int, as_json: bool) -> None:
    """Compare six combinations of sources on planted data with the best possible."""
    from nodeproof.cli.demo import run_demo
    from nodeproof.cli.terminal import check_folder

    check_folder(out, ("demo.json", "demo.png"))
    run_demo(out, seed, as_json)


@cli.command()
@click.argument("edges", type=click.Path(path_type=Path))
@click.option("--features", type=click.Path(path_type=Path), help="Table: node, then features.")
@click.option("--labels", type=click.Path(path_type=Path), help="Table: node, label.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("nodeproof-out"),
              show_default=True, help="Folder for predictions, summary and model.")  # fmt: skip
@click.option(
    "--classes",
    type=click.IntRange(min=1),
    help="Number of classes; else that of labels or, without, what the data say.",
)
@click.option("--header/--no-header", default=None, help="Files have a header line, or have not.")
@click.option("--source", help="Column of EDGES with one end: a name, or a position from 0.")
@click.option("--target", help="Column of EDGES with the other end.")
@click.option("--weight", help="Column of EDGES with the weight.")
@click.option("--node", help="Column of the other files with the node.")
@click.option("--label", help="Column of the labels file, or node attribute of EDGES.")
@click.option(
    "--unknown", multiple=True, metavar="TOKEN", help="Label that means unknown; may be repeated."
)
@click.option("--strict", is_flag=True, help="Refuse nodes that have no link.")
@_TERM
@click.option("--null-model", type=click.Choice(["auto", "uniform", "degree"]), default="auto",
              show_default=True, help="What chance would link.")  # fmt: skip
@click.option("--weights", default="auto", show_default=True, metavar="auto|G,F,L",
              help="Fixed weights of graph, features and labels, as in the paper.")  # fmt: skip
@click.option("--threshold", type=float, help="Neutral density of links, for fixed weights.")
@click.option("--temperature", type=click.FloatRange(min=0), default=1.0, show_default=True,
              help="1 gives probabilities, 0 hard assignments.")  # fmt: skip
@click.option("--n-init", type=click.IntRange(min=1), help="Number of starts.")
@click.option("--max-iter", type=click.IntRange(min=1), default=300, show_default=True,
              help="Most sweeps of a start.")  # fmt: skip
@click.option("--tol", type=click.FloatRange(min=0), default=1e-3, show_default=True,
              help="Stop when rows change by less, on average.")  # fmt: skip
@click.option("--query", type=click.IntRange(min=1), metavar="K",
              help="Also write query.csv: the K nodes to label next.")  # fmt: skip
@click.option("--report", is_flag=True, help="Also write report.html, a page to look at.")
@click.option("--proof-budget", type=click.FloatRange(min=0), default=10.0, show_default=True,
              metavar="SECONDS",
              help="For the report, look so long for a proof; 0 for none.")  # fmt: skip
@click.option("--checkpoint", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
              help="Save the state there every minute; after a kill the fit goes on.")  # fmt: skip
@click.option("--time-budget", type=click.FloatRange(min=0), metavar="SECONDS",
              help="Stop after the sweep in which so many have passed, and write.")  # fmt: skip
@click.option("--scheduler", metavar="ADDRESS", help="Let a Dask cluster do the sweeps.")
@click.option("--jobs", type=click.IntRange(min=1), help="Threads; every core by default.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True,
              help="Seed of the starts.")  # fmt: skip
@_SAFE_CSV
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON, nothing else.")
def fit(edges: Path, **options: Any) -> None:
    """Label every node of the graph in EDGES.

    Files are CSV, TSV, Parquet or .npz; EDGES may also be MatrixMarket, GraphML, GML, a folder of
    Planetoid or OGB files, or one that `nodeproof convert` wrote, for a graph larger than memory.
    Nodes are the union of all files. Writes predictions.csv, summary.json and model.npz.
    """
    from nodeproof.cli.fit import run_fit

    context = click.get_current_context()
    options["command"] = command_of(context)
    given = context.get_parameter_source("proof_budget") is not ParameterSource.DEFAULT
    if given and not options["report"]:
        raise InputError("--proof-budget is for the report: give --report, too, or leave it out")
    for path in (options["features"], options["labels"]):
        if path is not None and path.is_dir():
            raise InputError(f"{path} is a folder; give a file")
    run_fit(edges, **options)


@cli.command()
@click.argument("model", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--features", type=click.Path(path_type=Path),
              help="Table of the new nodes: node, then features as at the fit.")  # fmt: skip
@click.option("--edges", type=click.Path(path_type=Path),
              help="Table of their links: new node, fitted node, perhaps a weight.")  # fmt: skip
@click.option("--out", type=click.Path(path_type=Path), default=Path("predictions.csv"),
              show_default=True, help="File for the predictions.")  # fmt: skip
@click.option("--header/--no-header", default=None, help="Files have a header line, or have not.")
@click.option("--source", help="Column of the links with one end: a name, or a position from 0.")
@click.option("--target", help="Column of the links with the other end.")
@click.option("--weight", help="Column of the links with the weight.")
@click.option("--node", help="Column of the features file with the node.")
@_TERM
@_SAFE_CSV
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON, nothing else.")
def predict(model: Path, **options: Any) -> None:
    """Label new nodes with the model that `nodeproof fit` has written to DIR.

    New are the nodes that the model does not know; nothing is fitted again. Files are CSV, TSV
    or Parquet. Writes node, label and probability.
    """
    file = find_model(model)  # before all that is imported below
    from nodeproof.cli.predict import run_predict

    run_predict(file, **options)


@cli.command()
@click.argument("model", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--time-budget", type=click.FloatRange(min=0), default=45.0, show_default=True,
              help="Seconds that the search for a proof may take.")  # fmt: skip
@click.option("--tolerance", type=click.FloatRange(min=0),
              help="What may be missing; by default 1e-9 of the size of the numbers. With "
              "--verify, the most that you accept.")  # fmt: skip
@click.option("--verify", is_flag=True, help="Check the certificate that lies in DIR instead.")
@click.option("--model", "about", type=click.Path(path_type=Path), metavar="MODEL",
              help="With --verify: the model that the certificate is to be about; the one beside "
              "it by default.")  # fmt: skip
@_TERM
@_SAFE_CSV
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON, nothing else.")
def certify(model: Path, **options: Any) -> None:
    """Prove the labelling in DIR the best of all, or say how far from it it can be.

    DIR is what `nodeproof fit` wrote. Writes certificate.npz (which anybody can verify),
    certificate.json, certificate.csv (each node: is it certain) and, with matplotlib,
    certificate.png. With --verify, DIR may also be a certificate's file; it is confirmed only
    about the links and costs of a model.
    """
    if not options["verify"]:
        find_model(model)
    from nodeproof.cli.certify import run_certify

    run_certify(model, **options)


@cli.command()
@click.argument("model", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--out", type=click.Path(path_type=Path),
              help="File to write; report.html in DIR by default.")  # fmt: skip
@click.option("--title", default="", help="Heading of the page.")
@_TERM
@click.option("--json", "as_json", is_flag=True, help="Print JSON, nothing else.")
def report(model: Path, **options: Any) -> None:
    """Write a page that shows what `nodeproof fit` found, from what it wrote to DIR.

    The page is one HTML file that needs nothing else. It says what is proven if `nodeproof
    certify DIR` was run before.
    """
    file = find_model(model)  # before all that is imported below
    from nodeproof.cli.report import run_report

    run_report(file, **options)


@cli.command()
@click.argument("edges", type=click.Path(path_type=Path))
@click.argument("out", type=click.Path(path_type=Path), required=False)
@click.option("--nodes", type=click.Path(path_type=Path),
              help="Table whose column node lists further nodes.")  # fmt: skip
@click.option("--header/--no-header", default=None, help="Files have a header line, or have not.")
@click.option("--source", help="Column of EDGES with one end: a name, or a position from 0.")
@click.option("--target", help="Column of EDGES with the other end.")
@click.option("--weight", help="Column of EDGES with the weight.")
@click.option("--memory", metavar="SIZE",
              help="Memory to use, such as 4GB; half of what is free by default.")  # fmt: skip
@click.option("--jobs", type=click.IntRange(min=1), help="Threads; every core by default.")
@click.option("--fresh", is_flag=True, help="Forget what was begun, and replace OUT.")
@click.option("--verify", is_flag=True,
              help="Check the sums of all files; given alone, of a folder there is.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON, nothing else.")
def convert(edges: Path, out: Path | None, **options: Any) -> None:
    """Convert the links in EDGES to a graph on disk, the folder OUT.

    EDGES is a Parquet, CSV or TSV file, a folder of them, or a quoted pattern; it may be far larger
    than memory. After Ctrl-C or a crash the same command goes on. `nodeproof convert --verify OUT`
    checks a folder.
    """
    from nodeproof.cli.convert import run_convert

    run_convert(edges, out, **options)


@cli.command()
@click.argument("names", nargs=-1, required=True, metavar="{fig1|fig2|fig3|theorem|all|…}...")
@click.option("--seeds", type=click.IntRange(min=1), default=None,
              help="Draws of the data at each place; 10 by default, 2 with --quick.")  # fmt: skip
@click.option("--jobs", type=click.IntRange(min=1), help="Processes; every core by default.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("reproduction"),
              show_default=True, help="Folder; what is finished there is not redone.")  # fmt: skip
@click.option(
    "--quick", is_flag=True, help="A few places of each panel: a minute and a half, not 40 minutes."
)
@click.option("--fresh", is_flag=True, help="Forget what is finished in the folder.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, nothing else.")
def reproduce(
    names: tuple[str, ...],
    seeds: int | None,
    jobs: int | None,
    out: Path,
    quick: bool,
    fresh: bool,
    as_json: bool,
) -> None:
    """Run the paper's experiments: figures, tables and whether each claim holds.

    NAMES are figures (fig1, fig2, fig3, beyond, phase, theorem, convergence), panels, or all.
    Every finished cell is kept at once; after Ctrl-C or a crash the same command goes on.
    """
    from nodeproof.cli.reproduce import run_reproduce
    from nodeproof.cli.terminal import check_folder

    check_folder(out)
    run_reproduce(
        names,
        out,
        as_json,
        seeds=seeds or (2 if quick else 10),
        quick=quick,
        jobs=jobs or -1,
        fresh=fresh,
    )


@cli.group()
def data() -> None:
    """Public data sets."""


@data.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def data_list(as_json: bool) -> None:
    """List the public data sets that there are."""
    from nodeproof.cli.data import run_list

    run_list(as_json)


@data.command("get")
@click.argument("name")
@click.option("--out", type=click.Path(path_type=Path), help="File to write; else NAME.npz.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, nothing else.")
def data_get(name: str, out: Path | None, as_json: bool) -> None:
    """Write the data set NAME to one .npz file, which `nodeproof fit` takes.

    It is looked for in the folder that NODEPROOF_DATA names, then in the cache, then fetched.
    """
    from nodeproof.cli.data import run_get

    run_get(name, out, as_json)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; bad input ends with one line and exit code 2."""
    given = sys.argv[1:] if arguments is None else arguments
    prepare_output()
    # With colours, numba would let a terminal's colours be reset at the end: behind the JSON.
    os.environ.setdefault("NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING", "1")
    try:
        _check_text(given)
        status = cli.main(given, prog_name="nodeproof", standalone_mode=False)
        sys.stdout.flush()  # a full disk shows here, not after the end
    except click.exceptions.NoArgsIsHelpError as asked:
        click.echo(asked.ctx.get_help() if asked.ctx else "")
        sys.exit(2)
    except click.ClickException as error:
        fail(error.format_message())
    except (InputError, MissingExtraError) as error:
        fail(str(error))
    except BrokenPipeError:
        forget_output()
        sys.exit(1)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            forget_output()
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
    """Refuse names that are not UTF-8: what reads and writes tables cannot take them."""
    for name in given:
        try:
            name.encode()
        except UnicodeEncodeError:
            raise InputError(f"{name} is not UTF-8; give a name that is") from None
