"""The command line as it was typed, and how a command prints and ends on any terminal."""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from pathlib import Path
from shlex import join
from typing import Any

import click
from click.core import ParameterSource

__all__ = ["command_of", "fail", "forget_output", "prepare_output"]

# Options that say nothing of the data or the fit, but something of the machine.
_OF_THE_MACHINE = ("checkpoint", "scheduler", "jobs", "as_json")


def command_of(context: click.Context) -> str:
    """Return the command line that repeats this one, with the names of files, not their places.

    A model holds it, and reports show it.
    """
    words = ["nodeproof", context.info_name or ""]
    for parameter in context.command.params:
        name = parameter.name or ""
        typed = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if not typed or name in _OF_THE_MACHINE:
            continue
        value = context.params[name]
        for part in value if isinstance(value, tuple) else (value,):
            if not isinstance(parameter, click.Argument):
                words.append((parameter.opts if part is not False else parameter.secondary_opts)[0])
            if not isinstance(part, bool):
                words.append(_shown(part))
    return join(words)


def _shown(value: Any) -> str:
    return (value.name or str(value)) if isinstance(value, Path) else str(value)


def prepare_output() -> None:
    """Let all be printed: to nowhere if the output is closed, with ? for what it cannot show."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            # Before any file is opened: it would be the output, and take what others print.
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def forget_output() -> None:
    """Drop what is still to be printed: nobody can take it, and Python would try again."""
    with suppress(OSError, ValueError):  # in tests, the output is no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def fail(message: str, code: int = 2) -> None:
    """Say what is wrong, and end."""
    # One line that a terminal only shows, whatever the message holds: it may quote a file.
    line = " ".join(message.split())
    shown = "".join(
        letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in line
    )
    click.echo(f"nodeproof: {shown}", err=True)
    sys.exit(code)
