"""What the tests of the command line share: running it, and writing its files."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from nodeproof.cli import main


def run(capsys, *arguments: object) -> tuple[int, str, str]:
    """Run the command line in this process; return exit code, output and errors."""
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    printed = capsys.readouterr()
    return int(ended.value.code or 0), printed.out, printed.err


def write(path: Path, rows: list[list[object]]) -> Path:
    """Write rows to a CSV file."""
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    return path


def without_advice(printed: str) -> str:
    """Return what was printed without the line that points to the help of a command."""
    lines = printed.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("Try 'nodeproof "))
