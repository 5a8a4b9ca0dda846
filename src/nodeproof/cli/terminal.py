"""What a limit of memory (``ulimit -v``) does to a command: one line, never a traceback."""

from __future__ import annotations

import io
import json
import math
import os
import sys
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from shlex import join
from typing import Any

import click
from click.core import ParameterSource

from nodeproof.errors import InputError
from nodeproof.runtime.memory import address_space_limit
from nodeproof.storage.atomic import check_writable, resolved

__all__ = [
    "as_text",
    "check_file",
    "check_folder",
    "check_limit",
    "check_places",
    "command_of",
    "fail",
    "find_model",
    "forget_output",
    "lacks_memory",
    "prepare_output",
    "print_document",
]


# Bytes of address space that the libraries take for themselves, and for each core: below,
# OpenBLAS ends the process itself, or waits for ever for threads that could not be started.
_LEAST, _LEAST_PER_CORE = 1_750_000_000, 125_000_000

# What libraries say that do not raise a MemoryError.
_SIGNS = (
    "cannot allocate memory",
    "failed to map segment",
    "can't start new thread",
    "failed to launch worker thread",
)


def check_limit() -> None:
    """Refuse a limit of address space below what is needed without any data.

    To be called before NumPy and Arrow are imported, which take much of it on import.
    """
    limit = address_space_limit()
    if limit is None:
        return
    least = _LEAST + _LEAST_PER_CORE * (os.cpu_count() or 1)
    if limit < least:
        raise InputError(
            f"not enough memory: this process may use {limit / 1e9:.2g} GB of address space "
            f"(ulimit -v), and without any data {least / 1e9:.2g} GB are needed on this machine"
        )
    # Arrow's own allocator would set a gigabyte of the address space aside, used or not.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")


def lacks_memory(error: BaseException | None) -> bool:
    """Tell whether an error, or what it came from, is due to a lack of memory."""
    while error is not None:
        said = str(error).lower()
        if isinstance(error, MemoryError) or any(sign in said for sign in _SIGNS):
            return True
        error = error.__cause__ or error.__context__
    return False


# ------------------------------------------------------------------------------
# The command line as it was typed, and how a command prints and ends on any terminal.


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


# ------------------------------------------------------------------------------
# JSON for machines: one document, by the standard, and nothing else.


def print_document(document: Any) -> None:
    """Print a document to the standard output."""
    print(as_text(document, ascii_only=True), end="")


def as_text(document: Any, *, ascii_only: bool = False) -> str:
    r"""Return a document as JSON; numbers that are none are null, which the standard has.

    Examples
    --------
    >>> as_text({"gap": float("inf"), "moved": [1]})
    '{\n  "gap": null,\n  "moved": [\n    1\n  ]\n}\n'
    """
    return json.dumps(_plain(document), indent=2, ensure_ascii=ascii_only, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {name: _plain(found) for name, found in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


# ------------------------------------------------------------------------------
# Where the model that a command is given lies.


def find_model(model: Path) -> Path:
    """Return the file of a model: the one given, or that of the folder given."""
    file = model / "model.npz" if model.is_dir() else model
    if not file.is_file():
        raise InputError(f"there is no model {file}; give the folder that `nodeproof fit` wrote")
    return file


# ------------------------------------------------------------------------------
# Whether results can be written where they shall be, asked before the work.


# What lies beside a model, and says the same as it; a report can be made anew from the others.
_RESULTS = (
    *("predictions.csv", "summary.json", "query.csv", "certificate.npz", "certificate.json"),
    *("certificate.csv", "certificate.png"),
)


def check_file(out: Path, model: Path, read: Iterable[Path | None] = ()) -> None:
    """Fail before the work where a file could not be written, or must not be.

    Parameters
    ----------
    out : path
        The file for the results.
    model : path
        The model that they are made from: neither it nor what lies beside it is replaced.
    read : iterable of path
        What else they are made from.
    """
    if out.is_dir():
        raise InputError(f"--out {out} is a folder; give a file")
    if not resolved(out).parent.is_dir():
        raise InputError(f"--out {out}: the folder {resolved(out).parent} does not exist")
    check_writable(resolved(out).parent)
    written = [resolved(model)]
    if model.name == "model.npz":
        written += [resolved(model.with_name(name)) for name in _RESULTS]
    if resolved(out) in written:
        raise InputError(f"--out {out} would overwrite what the fit has written; give another name")
    _check_inputs(out, [out], read)


def check_folder(out: Path, names: Iterable[str] = (), read: Iterable[Path | None] = ()) -> None:
    """Fail before the work, not after it, where the results could not be written.

    Parameters
    ----------
    out : path
        The folder for the results.
    names : iterable of str
        Files that will be written there.
    read : iterable of path
        What they are made from: it is not replaced.
    """
    if out.exists() and not out.is_dir():
        raise InputError(f"--out {out} is a file; give a folder")
    if not resolved(out).parent.is_dir():
        raise InputError(f"--out {out}: the folder {resolved(out).parent} does not exist")
    folder = out if out.exists() else resolved(out).parent
    check_writable(folder)
    try:  # where rights say nothing, as in /proc
        Path(tempfile.mkdtemp(prefix=".", dir=folder)).rmdir()
    except OSError as error:
        reason = error.strerror or error
        raise InputError(f"--out {out}: cannot write into the folder {folder}: {reason}") from None
    check_places(out, names)
    _check_inputs(out, [out / name for name in names], read)


def check_places(folder: Path, names: Iterable[str]) -> None:
    """Refuse a folder in which another folder has the name of a file to be written."""
    for name in names:
        if (folder / name).is_dir():
            raise InputError(f"cannot write the file {folder / name}: it is a folder; move it away")


def _check_inputs(out: Path, written: list[Path], read: Iterable[Path | None]) -> None:
    there = [place for place in written if place.exists()]
    for path in read:
        if path is not None and path.exists() and any(path.samefile(place) for place in there):
            raise InputError(f"--out {out} would overwrite {path}, which is read; give another")
