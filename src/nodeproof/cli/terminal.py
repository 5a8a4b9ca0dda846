"""What the commands share: memory limits, terminal output, JSON, and checks of paths.

Imports neither NumPy nor Arrow: `check_limit` runs before they are loaded.
"""

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
    "announce_on_terminal",
    "as_text",
    "check_file",
    "check_folder",
    "check_limit",
    "check_places",
    "command_of",
    "discard_output",
    "fail",
    "find_model",
    "import_parts",
    "lacks_memory",
    "prepare_output",
    "print_document",
]


# Bytes of address space that the libraries need, in total and per core: with less, OpenBLAS
# aborts the process, or waits forever for threads that could not be started.
_LEAST, _LEAST_PER_CORE = 1_750_000_000, 125_000_000

# Messages of libraries that do not raise a MemoryError.
_SIGNS = (
    "cannot allocate memory",
    "failed to map segment",
    "can't start new thread",
    "failed to launch worker thread",
)


def check_limit() -> None:
    """Refuse a limit of address space (``ulimit -v``) below what is needed without any data.

    To be called before NumPy and Arrow are imported, which reserve much of it.
    """
    limit = address_space_limit()
    if limit is None:
        return
    least = _LEAST + _LEAST_PER_CORE * (os.cpu_count() or 1)
    if limit < least:
        raise InputError(
            f"not enough memory: this process may use {limit / 1e9:.2g} GB of address space "
            f"(ulimit -v), but {least / 1e9:.2g} GB are needed on this machine even without data"
        )
    # Arrow's own allocator would reserve a gigabyte of the address space, used or not.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")


def announce_on_terminal(text: str) -> None:
    """Print one line about a wait, as a note."""
    from nodeproof.cli.console import note

    note(text)


def import_parts(terms: Iterable[str], experts: Iterable[str]) -> None:
    """Import the terms and experts of users, so that a model which names them can be loaded."""
    from nodeproof.auto.experts.registry import import_expert
    from nodeproof.terms.registry import import_term

    for place in terms:
        import_term(place)
    for place in experts:
        import_expert(place)


def lacks_memory(error: BaseException | None) -> bool:
    """Tell whether an error, or its cause, is due to a lack of memory."""
    while error is not None:
        message = str(error).lower()
        if isinstance(error, MemoryError) or any(sign in message for sign in _SIGNS):
            return True
        error = error.__cause__ or error.__context__
    return False


# Options that concern the machine, not the data or the fit.
_OF_THE_MACHINE = ("checkpoint", "scheduler", "jobs", "as_json", "quiet", "verbose")


def command_of(context: click.Context) -> str:
    """Return the command line that repeats this one, with file names instead of full paths.

    It is saved with the model and shown in reports.
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
    """Make printing safe: to nowhere if the output is closed, ? for unprintable characters."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            # Before any file is opened: it would get the output's descriptor, and what is printed.
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def discard_output() -> None:
    """Discard buffered output: it cannot be written, and Python would try again at exit."""
    with suppress(OSError, ValueError):  # in tests, the output is not a file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def fail(message: str, code: int = 2, more: str = "") -> None:
    """Print an error message on one line, perhaps a line with advice, and exit."""
    # Without control characters: the message may quote a file.
    line = " ".join(message.split())
    shown = "".join(
        letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in line
    )
    click.echo(f"nodeproof: {shown}", err=True)
    if more:
        click.echo(more, err=True)
    sys.exit(code)


def print_document(document: Any) -> None:
    """Print a document to standard output as JSON."""
    print(as_text(document, ascii_only=True), end="")


def as_text(document: Any, *, ascii_only: bool = False) -> str:
    r"""Return a document as standard JSON: infinities and nan become null.

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


def find_model(model: Path) -> Path:
    """Return a model's file: the given file, or the one in the given folder."""
    file = model / "model.npz" if model.is_dir() else model
    if not file.is_file():
        raise InputError(f"there is no model {file}; give the folder written by `nodeproof fit`")
    return file


# Results that belong to a model in the same folder; a report can be made again from the others.
_RESULTS = (
    *("predictions.csv", "summary.json", "query.csv", "certificate.npz", "certificate.json"),
    *("certificate.csv", "certificate.png"),
)


def check_file(out: Path, model: Path, read: Iterable[Path | None] = ()) -> None:
    """Fail early if a file cannot be written, or must not be.

    Parameters
    ----------
    out : path
        The file for the results.
    model : path
        The model that they are made from: neither it nor its other results are replaced.
    read : iterable of path
        The other input files.
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
        raise InputError(f"--out {out} would overwrite a file written by the fit; choose another")
    _check_inputs(out, [out], read)


def check_folder(out: Path, names: Iterable[str] = (), read: Iterable[Path | None] = ()) -> None:
    """Fail early if the results cannot be written.

    Parameters
    ----------
    out : path
        The folder for the results.
    names : iterable of str
        Files that will be written there.
    read : iterable of path
        The input files, which are not replaced.
    """
    if out.exists() and not out.is_dir():
        raise InputError(f"--out {out} is a file; give a folder")
    if not resolved(out).parent.is_dir():
        raise InputError(f"--out {out}: the folder {resolved(out).parent} does not exist")
    folder = out if out.exists() else resolved(out).parent
    check_writable(folder)
    try:  # permissions alone are not enough, as in /proc
        Path(tempfile.mkdtemp(prefix=".", dir=folder)).rmdir()
    except OSError as error:
        reason = error.strerror or error
        raise InputError(f"--out {out}: cannot write into the folder {folder}: {reason}") from None
    check_places(out, names)
    _check_inputs(out, [out / name for name in names], read)


def check_places(folder: Path, names: Iterable[str]) -> None:
    """Refuse a folder that contains a folder with the name of a file to be written."""
    for name in names:
        if (folder / name).is_dir():
            raise InputError(f"cannot write the file {folder / name}: a folder has that name")


def _check_inputs(out: Path, written: list[Path], read: Iterable[Path | None]) -> None:
    there = [place for place in written if place.exists()]
    for path in read:
        if path is not None and path.exists() and any(path.samefile(place) for place in there):
            raise InputError(f"--out {out} would overwrite the input {path}; choose another")
