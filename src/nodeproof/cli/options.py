"""How commands present their options: in sections, with descriptions in full, and -q and -v.

Imports neither NumPy nor Arrow: it is loaded before a limit of memory is checked.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from nodeproof.cli.terminal import check_limit
from nodeproof.runtime.logs import logger

__all__ = [
    "COVERAGE",
    "EDGE_TYPE",
    "EXPERT",
    "FILE",
    "HEADER",
    "ID",
    "REPEATED",
    "SAFE_CSV",
    "SOURCE",
    "TARGET",
    "TERM",
    "TRUTH_LABEL",
    "UNKNOWN",
    "WEIGHT_COLUMN",
    "Command",
    "Group",
    "json_option",
    "out_option",
    "sections",
]

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

FILE = click.Path(path_type=Path)

HEADER = click.option(
    "--header/--no-header", default=None, help="Whether files have a header.", show_default="guess"
)
SOURCE = click.option("--source", metavar="COLUMN",
                      help="Column of the links with one end: a name, or a 0-based "
                      "position.")  # fmt: skip
TARGET = click.option("--target", metavar="COLUMN", help="Column of the links with the other end.")
WEIGHT_COLUMN = click.option(
    "--weight-column", "weight", metavar="COLUMN", help="Column of the links with the weight."
)
EDGE_TYPE = click.option(
    "--edge-type", metavar="COLUMN", help="Column of the links that says of which kind each is."
)
ID = click.option("--id", "node", metavar="COLUMN", help="Column of node tables with the node.")
REPEATED = click.option(
    "--repeated", type=click.Choice(["max", "sum"]), default="max", show_default=True,
    help="How a link that is listed more than once counts: with its largest weight, or with the "
    "sum of its weights.",
)  # fmt: skip
SAFE_CSV = click.option(
    "--safe-csv", is_flag=True, help="Put ' before texts that a spreadsheet would evaluate."
)
COVERAGE = click.option(
    "--coverage", metavar="SHARE",
    type=click.FloatRange(min=0, max=1, min_open=True, max_open=True),
    help="Add a column set: the classes that hold the true one this often, such as 0.9.",
)  # fmt: skip
TERM = click.option(
    "--term", "terms", multiple=True, metavar="MODULE:NAME",
    help="Custom term, from an installed module or one in this folder; may be repeated.",
)  # fmt: skip
EXPERT = click.option(
    "--own-expert", "own_experts", multiple=True, metavar="MODULE:NAME",
    help="Custom expert, from an installed module or one in this folder; may be repeated.",
)  # fmt: skip

TRUTH_LABEL = click.option("--label-column", "--label", "label", metavar="COLUMN",
                           help="Column of TRUTH with the labels.")  # fmt: skip
UNKNOWN = click.option("--unknown", multiple=True, metavar="TOKEN",
                       help="Label that means unknown; may be repeated.")  # fmt: skip


def json_option(text: str = "Print the summary as JSON, nothing else.") -> Decorator:
    """Return the option --json."""
    return click.option("--json", "as_json", is_flag=True, help=text)


def out_option(text: str, default: Path | None = None, **more: Any) -> Decorator:
    """Return the option --out, -o."""
    return click.option("--out", "-o", type=FILE, default=default, help=text,
                        **({"show_default": True} | more))  # fmt: skip


def sections(parts: dict[str, tuple[Decorator, ...]]) -> Decorator:
    """Return a decorator that adds options to a command, shown under these titles in its help."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for title, options in reversed(parts.items()):
            for option in reversed(options):
                command = option(command)
                _params_of(command)[-1].section = title  # type: ignore[attr-defined]
        return command

    return add


def _params_of(command: Callable[..., Any]) -> list[click.Parameter]:
    """Return the options that decorators have added so far, the last one first in the help."""
    found: list[click.Parameter] = vars(command)["__click_params__"]
    return found


class Command(click.Command):
    """A command whose help has sections; it checks the memory limit before it runs."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.params += [
            click.Option(["--quiet", "-q"], is_flag=True, expose_value=False,
                         callback=_remember, help="Print neither results nor notes."),
            click.Option(["--verbose", "-v"], is_flag=True, expose_value=False,
                         callback=_remember, help="Log every sweep to standard error."),
        ]  # fmt: skip

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options under the titles of their sections, those without one last."""
        found: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if record is not None:
                found.setdefault(getattr(param, "section", "Options"), []).append(record)
        for title in sorted(found, key="Options".__eq__):
            with formatter.section(title):
                formatter.write_dl(found[title])

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, quietly or verbosely if that was asked for."""
        check_limit()
        with _logging(bool(ctx.meta.get(_key("verbose")))):
            if ctx.meta.get(_key("quiet")):
                _silence()
            try:
                return super().invoke(ctx)
            finally:
                if ctx.meta.get(_key("quiet")):
                    _silence(False)


class Group(click.Group):
    """A group that shows the descriptions of its commands in full."""

    command_class = Command
    group_class = type

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write all commands; descriptions that do not fit on a line are wrapped."""
        commands = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        rows = [(name, found.get_short_help_str(500)) for name, found in commands if found]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def _key(name: str) -> str:
    return f"nodeproof.{name}"


def _remember(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    ctx.meta[_key(param.name or "")] = value


def _silence(quiet: bool = True) -> None:
    from nodeproof.cli import console

    console.screen.quiet = console.errors.quiet = quiet


@contextmanager
def _logging(verbose: bool) -> Iterator[None]:
    """Print what is logged to standard error, if that was asked for."""
    if not verbose:
        yield
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        logger.setLevel(level)
        logger.removeHandler(handler)
