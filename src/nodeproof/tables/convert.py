"""From files of links to a graph folder, whatever their size: within a memory limit, resumable.

Three stages: the ids of the nodes are collected and sorted (`convert_ids`), both directions of
each link are sorted by DuckDB and written as rows (`convert_rows`), and the header is written and
the folder moved to its place. Finished stages are kept: a kill costs no more than one of them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from nodeproof.errors import InputError
from nodeproof.runtime.memory import available_memory, parse_size
from nodeproof.runtime.threads import count_threads
from nodeproof.storage.atomic import resolved
from nodeproof.storage.graph_files import (
    NPY_HEADER,
    file_crc32,
    is_checksum,
    is_count,
    write_header,
)
from nodeproof.storage.graph_folder import GraphFolder, Progress, is_graph_folder, refuse_occupied
from nodeproof.storage.locking import WorkFolder
from nodeproof.storage.schema import dict_of, entries, text
from nodeproof.tables.columns import Column
from nodeproof.tables.convert_ids import IS_POSITIONS, NodePositions, find_positions
from nodeproof.tables.convert_rows import RowFiles, sorted_entries
from nodeproof.tables.duck import connect
from nodeproof.tables.duck_edges import LinkFiles, open_links
from nodeproof.tables.keys import lookalikes_in_file

__all__ = ["convert", "work_folder"]

PathLike = str | os.PathLike[str]

_LEAST_MEMORY = 128 * 2**20
# Links, or entries, that are handled at a time.
_BATCH = 1 << 20
# What DuckDB takes to sort an entry: a key of 16 bytes.
_BYTES_PER_KEY = 16


def convert(
    edges: PathLike,
    out: PathLike,
    *,
    nodes: PathLike | None = None,
    header: bool | None = None,
    source: Column = None,
    target: Column = None,
    weight: Column = None,
    memory: int | str | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    note: Callable[[str], None] | None = None,
    fresh: bool = False,
) -> GraphFolder:
    r"""Convert links in files to a graph folder, out of core.

    A link listed more than once, or in both directions, counts once, with its largest weight;
    loops and links of weight zero are dropped. The same input gives the same bytes, whatever
    memory and threads. After a kill or Ctrl-C, the same call goes on from the last finished stage.

    Parameters
    ----------
    edges : path
        Parquet files, or delimited text: a file, a folder, or a pattern such as
        ``"links/*.parquet"``. Ids of nodes are integers or text.
    out : path
        The folder to write; it appears once it is complete. Until then the work lies beside it,
        in a folder of the same name and ``.partial``.
    nodes : path, optional
        A table whose column ``node`` lists further nodes, which may have no link.
    header : bool, optional
        Whether the first line of every text file names its columns. Default: find out.
    source, target, weight : str or int, optional
        Columns of the links, by name or by position from 0. Default: as `nodeproof fit` finds
        them.
    memory : int or str, optional
        Bytes to use, or a text such as "4GB". Default: half of what is available.
    threads : int, optional
        Default: every core.
    progress : callable, optional
        Called with the stage ("columns" where that takes long, then "ids", "links" while they are
        read and sorted, and "rows" while these are written), how much of it is done, and how
        much there is.
    note : callable, optional
        Called with each line that the user should know of the files: columns that are not used,
        a third column that is taken for the weight, a first line that may be a header.
    fresh : bool
        Whether to forget what was begun, and to replace a graph folder that is there.

    Returns
    -------
    GraphFolder

    Raises
    ------
    InputError
        If anything is wrong with the input; the message names the file.
    MissingExtraError
        If DuckDB is not installed.

    Examples
    --------
    >>> import tempfile
    >>> from nodeproof.tables.convert import convert
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     links = Path(folder, "links.csv")
    ...     _ = links.write_text("source,target\nann,bob\nbob,eve\neve,bob\n")
    ...     graph = convert(links, Path(folder, "graph"))
    ...     graph, graph.ids.tolist(), graph.degrees.tolist()
    (GraphFolder(n=3, links=2), ['ann', 'bob', 'eve'], [1.0, 2.0, 1.0])
    """
    out = Path(out)
    if not is_graph_folder(out):
        refuse_occupied(out)
    elif not fresh:
        raise InputError(f"{out} is a graph folder already; to replace it, add --fresh")
    limit = available_memory() // 2 if memory is None else parse_size(memory)
    if limit < _LEAST_MEMORY:
        raise InputError(f"a conversion needs at least 128MiB of memory, got {limit:,} bytes")
    place, tell, say = work_folder(out), progress or _silent, note or _silent
    with connect(place / "spill", limit * 3 // 4, count_threads(threads)) as connection:
        links, notes = open_links(
            connection,
            edges,
            nodes,
            header,
            source,
            target,
            weight,
            lambda share: tell("columns", int(100 * share), 100),
        )
        for line in notes:
            say(line)
        with WorkFolder(place, links.signature(), _is_state, fresh) as work:
            positions = _find_ids(connection, links, limit // 2, work, tell)
            if positions.ids == "text":
                for line in lookalikes_in_file(connection, positions.file, links.table.path.name):
                    say(line)
            rows = _write_rows(connection, links, positions, limit // 2, work, tell)
            _complete(work, positions, rows, out)
    return GraphFolder.open(out)


def work_folder(out: PathLike) -> Path:
    """Return the folder of an unfinished conversion."""
    path = resolved(out)
    return path.with_name(f"{path.name}.partial")


def _find_ids(
    connection: Any, links: LinkFiles, memory: int, work: WorkFolder, progress: Progress
) -> NodePositions:
    """Collect the ids of the nodes, unless an earlier run has done so."""
    file = work.path / "graph" / "ids.parquet"
    if "ids" in work.state:
        return NodePositions.resume(file, work.state["ids"])
    total = links.n_links
    progress("ids", 0, total)
    positions = find_positions(
        connection, links, file, memory, _BATCH, lambda read: progress("ids", read, total)
    )
    work.save(ids=positions.state())
    return positions


def _write_rows(
    connection: Any,
    links: LinkFiles,
    positions: NodePositions,
    memory: int,
    work: WorkFolder,
    progress: Progress,
) -> dict[str, Any]:
    """Sort the links and write the arrays, unless an earlier run has done so.

    Returns
    -------
    dict
        ``n_entries``, ``files`` and ``read``, for the header.
    """
    graph = work.path / "graph"
    if "rows" in work.state:
        found: dict[str, Any] = work.state["rows"]
        for name, entry in found["files"].items():
            if file_crc32(graph / name, skip=NPY_HEADER) != entry["crc32"]:
                raise InputError(
                    f"{graph / name} is not as it was left; add --fresh to convert from the "
                    "beginning"
                )
        return found
    weighted, total = links.weight is not None, links.n_links
    # The arrays, and of the sorted keys what does not stay in memory.
    spilled = max(0, 2 * total * _BYTES_PER_KEY - memory)
    _refuse_full_disk(graph, 2 * total * (8 if weighted else 4) + spilled)
    progress("links", 0, total)
    done = 0

    def waiting(share: float) -> None:
        if done:
            progress("rows", done, 2 * total)
        else:
            progress("links", int(share * total), total)

    entries = sorted_entries(connection, links, positions, _BATCH, waiting)
    with RowFiles(graph, positions.n_nodes, weighted) as rows, closing(entries) as arrived:
        for part in arrived:
            rows.add(*part)
            done += len(part[0])
            progress("rows", done, 2 * total)
        if done != 2 * total:
            raise InputError(f"{links.table.path} has changed while it was read; convert again")
        read = {
            "links": total,
            "loops": rows.loops // 2,
            "zeros": rows.zeros // 2,
            "repeats": rows.repeats // 2,
        }
        found = {"files": rows.finish(), "n_entries": rows.n_entries, "read": read}
    work.save(rows=found)
    return found


def _is_state(value: Any) -> bool:
    """Tell whether a value of JSON can be the state of an unfinished conversion."""
    array = entries({"dtype": text, "length": is_count, "size": is_count, "crc32": is_checksum})
    counts = dict.fromkeys(("links", "loops", "zeros", "repeats"), is_count)
    rows = entries({"files": dict_of(array), "n_entries": is_count, "read": entries(counts)})
    stages = entries({"ids": IS_POSITIONS, "rows": rows}, optional=("ids", "rows"))
    # The rows build on the ids.
    return stages(value) and ("ids" in value or "rows" not in value)


def _complete(work: WorkFolder, positions: NodePositions, rows: dict[str, Any], out: Path) -> None:
    """Write the header, and move the folder to its place."""
    graph, files = work.path / "graph", dict(rows["files"])
    if positions.entry is not None:
        files["ids.parquet"] = positions.entry
    write_header(graph, positions.n_nodes, rows["n_entries"], positions.ids, files, rows["read"])
    GraphFolder.open(graph)  # a damaged one must not replace another
    if is_graph_folder(out):
        out.rename(work.path / "replaced")
    elif out.exists():
        out.rmdir()
    graph.rename(out)
    work.delete()


def _refuse_full_disk(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise InputError(
            f"the disk of {folder.parent} has {free / 1e9:,.1f} GB free, but the conversion needs "
            f"{needed / 1e9:,.1f} GB; free some, or write elsewhere"
        )


def _silent(*_: Any) -> None:
    pass
