"""`nodeproof convert`: files of links in, a graph on disk out."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from nodeproof import __version__
from nodeproof.cli.console import StageLine, note, notes_from_warnings, screen
from nodeproof.cli.terminal import print_document
from nodeproof.errors import count_of
from nodeproof.storage.graph_folder import GraphFolder
from nodeproof.tables.convert import convert, work_folder

__all__ = ["run_convert"]


def run_convert(
    edges: Path, out: Path | None, *, verify: bool, jobs: int | None, as_json: bool, **options: Any
) -> None:
    """Convert, or only verify a folder written earlier."""
    if out is None and not verify:
        raise click.UsageError("Missing argument 'OUT': the folder to write.")
    began = time.perf_counter()
    notes: list[str] = []
    with StageLine(enabled=not as_json) as line:
        if out is None:
            graph = GraphFolder.open(edges)
        else:
            if work_folder(out).exists() and not options["fresh"]:
                notes.append("resuming an earlier run (--fresh starts over)")
            try:
                with notes_from_warnings(notes):
                    graph = convert(
                        edges, out, threads=jobs, progress=line, note=notes.append, **options
                    )
            except KeyboardInterrupt:
                line.__exit__()
                if work_folder(out).exists():
                    note(f"finished work is kept in {work_folder(out)}; the same command resumes")
                raise
            notes += _notes(graph)
        if verify:
            graph.verify(line)
    summary = {
        "nodeproof": __version__,
        "folder": str(graph.path),
        "nodes": graph.n_nodes,
        "links": graph.n_entries // 2,
        "weighted": len(graph.weights) > 0,
        "read": graph.read,
        "bytes": sum(file.stat().st_size for file in graph.path.iterdir()),
        "verified": verify,
        "seconds": round(time.perf_counter() - began, 3),
        "notes": notes,
    }
    if as_json:
        print_document(summary)
        return
    for text in notes:
        note(text)
    _show(summary)


def _notes(graph: GraphFolder) -> list[str]:
    """Return notes on links that were dropped or merged."""
    read, notes = graph.read, []
    if read["loops"]:
        notes.append(f"{count_of(read['loops'], 'self loop')} dropped")
    if read["zeros"]:
        notes.append(f"{count_of(read['zeros'], 'link')} with weight 0 dropped")
    if read["repeats"]:
        largest = " with its largest weight" if len(graph.weights) else ""
        notes.append(
            f"{count_of(read['repeats'], 'duplicate')} of a link, in the same or the other "
            f"direction; each link counts once{largest}"
        )
    alone = int((graph.degrees[:] == 0).sum())
    if alone:
        notes.append(f"{count_of(alone, 'node')} without a link: isolated")
    return notes


def _show(summary: dict[str, Any]) -> None:
    table = Table(title="Graph folder", show_header=False)
    for key in ("nodes", "links"):
        table.add_row(key, f"{summary[key]:,}")
    table.add_row("weights", "yes" if summary["weighted"] else "none")
    table.add_row("size", f"{summary['bytes'] / 1e6:,.1f} MB")
    table.add_row("checksums", "verified" if summary["verified"] else "written")
    table.add_row("time", f"{summary['seconds']:.1f} s")
    table.add_row("folder", summary["folder"])
    screen.print(table)
