"""`nodeproof data`: list the public data sets, and download one to a file."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from rich.status import Status
from rich.table import Table

from nodeproof.cli.console import errors, note, notes_from_warnings, screen
from nodeproof.cli.terminal import print_document
from nodeproof.datasets.archives import write_archive
from nodeproof.datasets.fetching import REGISTRY, find_source
from nodeproof.datasets.loading import load
from nodeproof.errors import InputError
from nodeproof.storage.atomic import resolved

__all__ = ["run_get", "run_list"]

# A download that ends sooner needs no progress line.
_PATIENCE = 2.0


def run_list(as_json: bool) -> None:
    """Print the public data sets."""
    if as_json:
        print_document([_entry(name) for name in REGISTRY])
        return
    table = Table("name", title="Public data sets")
    for column in ("nodes", "MB"):
        table.add_column(column, justify="right")
    for column in ("checksum", "cite"):
        table.add_column(column)
    for source in REGISTRY.values():
        size = "–" if source.megabytes is None else f"{source.megabytes:,.1f}"
        checksum = "known" if source.checked else "first use"
        if not source.files:
            checksum = "–"
        cite = f"{source.cite.split(',')[0]} {source.cite[-4:]}"
        table.add_row(source.name, f"{source.nodes:,}", size, checksum, cite)
    screen.print(table)


def run_get(name: str, out: Path | None, as_json: bool) -> None:
    """Load a data set, write it to one ``.npz`` file, and print a summary."""
    source = find_source(name)
    path = out or Path(f"{source.name}.npz")
    if path.is_dir() or not resolved(path).parent.is_dir():
        what = "is a folder" if path.is_dir() else "is in a folder that does not exist"
        raise InputError(f"--out {path} {what}; give a file name")
    notes: list[str] = []
    with DownloadLine(enabled=not as_json) as progress, notes_from_warnings(notes):
        data = load(source.name, progress=progress)
    write_archive(data, path)
    summary = {
        "name": source.name,
        "nodes": data.graph.shape[0],
        "links": data.graph.nnz // 2,
        "features": 0 if data.X is None else data.X.shape[1],
        "classes": data.n_classes,
        "masks": {part: int(mask.sum()) for part, mask in data.masks.items()},
        "cite": source.cite,
        "notes": notes + data.notes,
        "file": str(path),
    }
    if as_json:
        print_document(summary)
        return
    for line in notes + data.notes:
        note(line)
    table = Table(title=source.name, show_header=False)
    for key in ("nodes", "links", "features", "classes"):
        table.add_row(key, f"{summary[key]:,}")
    for part, count in summary["masks"].items():
        table.add_row(part, f"{count:,}")
    table.add_row("cite", source.cite)
    table.add_row("written", str(path))
    screen.print(table)


def _entry(name: str) -> dict[str, Any]:
    source = REGISTRY[name]
    return {
        "name": name,
        "nodes": source.nodes,
        "megabytes": source.megabytes,
        "home": source.home,
        "files": source.files,
        "cite": source.cite,
    }


class DownloadLine:
    """A live line on the terminal, shown once a download takes longer than two seconds."""

    def __init__(self, enabled: bool) -> None:
        self.enabled = enabled
        self.total = 0
        self.done = 0
        self.began = time.monotonic()
        self.line: Status | None = None

    def __enter__(self) -> DownloadLine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def reset(self) -> None:
        """Restart the count."""
        self.done = 0

    def update(self, size: int) -> None:
        """Count bytes received, and show the total."""
        self.done += size
        if not self.enabled or time.monotonic() - self.began < _PATIENCE:
            return
        of = f" of {self.total / 1e6:,.0f}" if self.total else ""
        text = f"downloading: {min(self.done, self.total or self.done) / 1e6:,.0f}{of} MB"
        if self.line is None:
            self.line = errors.status(text)
            self.line.start()
        self.line.update(text)

    def close(self) -> None:
        """Remove the line."""
        if self.line is not None:
            self.line.stop()
            self.line = None
        self.done = 0
