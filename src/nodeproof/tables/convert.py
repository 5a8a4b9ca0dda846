"""From files of links to a graph folder, whatever their size: in a memory limit, and resumable.

Three stages: ids become positions (`placing`), both directions of each link are shared out to
buckets of rows (`bucketing`), and the buckets are sorted one after the other and written as rows
(`row_files`). What is finished is kept, so that a kill costs a stage or a bucket at most.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from nodeproof.errors import InputError
from nodeproof.runtime.memory import available_memory, parse_size
from nodeproof.runtime.threads import count_threads
from nodeproof.storage.atomic import resolved
from nodeproof.storage.graph_folder import GraphFolder, Progress, is_graph_folder, refuse_occupied
from nodeproof.storage.graph_header import write_header
from nodeproof.storage.growing import check_kept
from nodeproof.storage.locking import WorkFolder
from nodeproof.tables.columns import Column
from nodeproof.tables.convert_ids import Placing, check_state, find_placing, placed_links
from nodeproof.tables.convert_rows import Buckets, RowFiles, choose_shift
from nodeproof.tables.duck import batches, connect, in_background, readable
from nodeproof.tables.duck_edges import LinkFiles, open_links
from nodeproof.tables.keys import lookalikes_in_file

__all__ = ["convert", "work_folder"]

PathLike = str | os.PathLike[str]

_LEAST_MEMORY = 128 * 2**20
# Links, or entries, that are handled at a time.
_BATCH = 1 << 20
# Entries of a bucket: no more are needed for long writes, and fewer are sorted faster.
_LARGEST_BUCKET = 1 << 25
# What DuckDB takes to sort an entry, with a margin.
_BYTES_AN_ENTRY = 64


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
    _bucket: int | None = None,
) -> GraphFolder:
    r"""Convert links in files to a graph folder, out of core.

    A link listed more than once, or in both directions, counts once, with its largest weight;
    loops and links of weight zero are dropped. The same input gives the same bytes, whatever
    memory and threads. After a kill or Ctrl-C, the same call goes on from what was finished.

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
        Called with the stage ("columns" where that takes long, then "ids", "links" and "rows"),
        how much of it is done, and how much there is.
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
    place = work_folder(out)
    n_threads = count_threads(threads)
    with connect(place / "spill", limit * 3 // 4, n_threads) as connection:
        tell = progress or _silent
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
        say = note or _silent
        for line in notes:
            say(line)
        with WorkFolder(place, links.signature(), fresh) as work:
            check_state(place / "state.json", work.state)
            stages = _Stages(connection, links, work, limit, tell)
            placing = stages.find_ids()
            if placing.ids == "text":
                ids = place / "graph" / "ids.parquet"
                for line in lookalikes_in_file(connection, ids, links.table.path.name):
                    say(line)
            buckets = stages.share_out(placing, _bucket or _bucket_size(limit))
            rows = stages.sort(placing, buckets)
            _complete(work, placing, buckets, rows, links.n_links, out)
    return GraphFolder.open(out)


def work_folder(out: PathLike) -> Path:
    """Return the folder of an unfinished conversion."""
    path = resolved(out)
    return path.with_name(f"{path.name}.partial")


class _Stages:
    """The stages of a conversion; what an earlier run has finished is taken from its state."""

    def __init__(
        self, connection: Any, links: LinkFiles, work: WorkFolder, memory: int, progress: Progress
    ) -> None:
        self.connection, self.links, self.work = connection, links, work
        self.memory, self.progress = memory, progress
        self.graph = work.path / "graph"

    def find_ids(self) -> Placing:
        if "placing" in self.work.state:
            kept = Placing(**self.work.state["placing"])
            if kept.entry is not None:
                file, crc = self.graph / "ids.parquet", int(kept.entry["crc32"], 16)
                check_kept(file, kept.entry["size"], crc)
            return kept
        total = self.links.n_links
        self.progress("ids", 0, total)
        placing = find_placing(
            self.connection,
            self.links,
            self.graph / "ids.parquet",
            self.memory // 2,
            _BATCH,
            lambda read: self.progress("ids", read, total),
        )
        self.work.save(placing=placing.as_dict())
        return placing

    def share_out(self, placing: Placing, wanted: int) -> Buckets:
        folder, weighted = self.work.path / "buckets", self.links.weight is not None
        n = placing.n_nodes
        if "buckets" in self.work.state:
            kept = self.work.state["buckets"]
            buckets = Buckets(folder, n, kept["shift"], weighted, kept["sizes"])
            buckets.loops, buckets.zeros = kept["loops"], kept["zeros"]
            first = self.work.state["rows"]["finished"] if "rows" in self.work.state else 0
            if all(buckets.whole(k) for k in range(first, len(buckets))):
                return buckets
            self._forget("buckets", "rows")
        total = self.links.n_links
        buckets = Buckets(folder, n, choose_shift(n, 2 * total, wanted), weighted)
        buckets.clear()
        _refuse_full_disk(folder, total * (24 if weighted else 16))
        done = 0
        self.progress("links", 0, total)
        batch = placed_links(
            self.connection,
            self.links,
            placing,
            self.graph / "ids.parquet",
            _BATCH,
            lambda _: self.progress("links", done, total),
        )
        with closing(batch) as arrived:
            for begins, ends, weights in arrived:
                buckets.add(begins, ends, weights)
                done += len(begins)
                self.progress("links", done, total)
        self.work.save(
            buckets={
                "shift": buckets.shift,
                "sizes": buckets.sizes.tolist(),
                "loops": buckets.loops,
                "zeros": buckets.zeros,
            }
        )
        return buckets

    def sort(self, placing: Placing, buckets: Buckets) -> RowFiles:
        kept = self.work.state.get("rows", {"finished": 0, "written": None})
        first = kept["finished"]
        for k in range(first):
            buckets.delete(k)
        total = int(buckets.sizes.sum())
        done = int(buckets.sizes[:first].sum())
        self.progress("rows", done, total)
        rows = RowFiles(self.graph, placing.n_nodes, buckets.weighted, kept["written"])
        results = in_background(
            self.connection,
            _sorted_entries(self.connection, buckets, first),
            lambda _: self.progress("rows", done, total),
        )
        with rows, readable(self.work.path), closing(results) as arrived:
            for k, entries in arrived:
                if entries is None:
                    rows.end()
                    self.work.save(rows={"finished": k + 1, "written": rows.state()})
                    buckets.delete(k)
                elif entries == "begin":
                    start, stop = buckets.rows(k)
                    rows.begin(stop - start, buckets.bits)
                else:
                    rows.add(*(column.to_numpy() for column in entries.columns))
                    done += entries.num_rows
                self.progress("rows", done, total)
        return rows

    def _forget(self, *stages: str) -> None:
        for stage in stages:
            self.work.state.pop(stage, None)
        self.work.save()


def _sorted_entries(connection: Any, buckets: Buckets, first: int) -> Iterator[tuple[int, Any]]:
    """Yield each bucket's number with "begin", its entries in order, and None at its end."""
    order = "key, weight DESC" if buckets.weighted else "key"
    for k in range(first, len(buckets)):
        yield k, "begin"
        if buckets.sizes[k]:
            connection.register("entries", buckets.table(k))
            for part in batches(connection, f"SELECT * FROM entries ORDER BY {order}", _BATCH):
                if part.num_rows:
                    yield k, part
            connection.unregister("entries")
        yield k, None


def _complete(
    work: WorkFolder,
    placing: Placing,
    buckets: Buckets,
    rows: RowFiles,
    n_links: int,
    out: Path,
) -> None:
    """Write the header, and move the folder to its place."""
    files = rows.finish()
    if placing.entry is not None:
        files["ids.parquet"] = placing.entry
    read = {
        "links": n_links,
        "loops": buckets.loops,
        "zeros": buckets.zeros,
        "repeats": rows.repeats // 2,
    }
    graph = work.path / "graph"
    write_header(graph, placing.n_nodes, rows.n_entries, placing.ids, files, read)
    GraphFolder.open(graph)  # what is damaged takes no other's place
    if is_graph_folder(out):
        out.rename(work.path / "replaced")
    elif out.exists():
        out.rmdir()
    graph.rename(out)
    # Weights that turned out to be all one were kept until now, for a run that goes on.
    if "weights.npy" not in files:
        (out / "weights.npy").unlink(missing_ok=True)
    work.delete()


def _bucket_size(memory: int) -> int:
    return min(_LARGEST_BUCKET, memory // _BYTES_AN_ENTRY)


def _refuse_full_disk(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise InputError(
            f"the disk of {folder.parent} has {free / 1e9:,.1f} GB free, but the conversion needs "
            f"{needed / 1e9:,.1f} GB; free some, or write elsewhere"
        )


def _silent(*_: Any) -> None:
    pass
