"""Planted graphs too large for memory: links drawn part by part into Parquet files."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from nodeproof.errors import InputError
from nodeproof.storage.atomic import atomic_path

__all__ = ["write_planted"]

Progress = Callable[[str, int, int], None]

# Links in a file: large enough for the disk, small enough for a few hundred megabytes of memory.
_PART = 10_000_000
# Links drawn at a time: what they need stays near the processor.
_BLOCK = 1 << 18


def write_planted(
    folder: str | os.PathLike[str],
    n_links: int,
    *,
    n_clusters: int = 10,
    degree: float = 20,
    inside: float = 0.5,
    label_ratio: float = 0.01,
    random_state: int = 0,
    progress: Progress | None = None,
) -> Path:
    """Write a sparse planted graph of any size to files, with a few labels.

    Each link is drawn on its own: one end uniformly from all nodes, the other from the same
    class or from all others. So there are no loops, and very few duplicates, which readers count
    once. Memory is a few bytes per node. Every part of the links depends on the seed and its own
    number alone: after a kill the same call writes what is missing.

    Parameters
    ----------
    folder : path
        Gets ``edges/part-00000.parquet`` and so on (``source``, ``target``: row positions),
        ``labels.parquet`` (``node``, ``label``), ``truth.npy`` (the class of each node, shape
        (n,)) and ``planted.json`` (these parameters). It is created if it does not exist; its
        parent must exist.
    n_links : int
        Number of links.
    n_clusters : int
        Number of classes K, of equal size (or one node apart).
    degree : float
        Mean number of links of a node: there are n = 2·n_links/degree nodes, in random order.
    inside : float
        Share of the links that are inside a class.
    label_ratio : float
        Share of each class that has a label. All labels are right.
    random_state : int
        Seed.
    progress : callable, optional
        Called with ``("links", written, n_links)`` after each part.

    Returns
    -------
    pathlib.Path
        The folder.

    Examples
    --------
    >>> import tempfile
    >>> import pyarrow.parquet as pq
    >>> from nodeproof.datasets import write_planted
    >>> with tempfile.TemporaryDirectory() as place:
    ...     folder = write_planted(Path(place, "planted"), 10_000)
    ...     truth = np.load(folder / "truth.npy")
    ...     links = pq.read_table(folder / "edges")
    >>> truth.shape, links.num_rows
    ((1000,), 10000)
    >>> inside = truth[links["source"].to_numpy()] == truth[links["target"].to_numpy()]
    >>> float(inside.mean())
    0.5
    """
    n = _check(n_links, n_clusters, degree, inside, label_ratio, random_state)
    given = {
        "n_links": n_links,
        "n_nodes": n,
        "n_clusters": n_clusters,
        "degree": degree,
        "inside": inside,
        "label_ratio": label_ratio,
        "random_state": random_state,
        "links_in_a_part": _PART,
    }
    folder = Path(folder)
    _claim(folder, given)
    # The nodes of class k are place[starts[k] : starts[k + 1]].
    place = np.arange(n, dtype=np.int32 if n < 2**31 else np.int64)
    np.random.default_rng([random_state, 0]).shuffle(place)
    starts = np.arange(n_clusters + 1) * n // n_clusters
    with _unless_there(folder / "truth.npy") as path:
        if path is not None:
            np.save(path, _truth(place, starts), allow_pickle=False)
    with _unless_there(folder / "labels.parquet") as path:
        if path is not None:
            pq.write_table(_labels(place, starts, label_ratio), path)
    for part, first in enumerate(range(0, n_links, _PART)):
        size = min(_PART, n_links - first)
        with _unless_there(folder / "edges" / f"part-{part:05d}.parquet") as path:
            if path is not None:
                rng = np.random.default_rng([random_state, 1, part])
                _write_links(path, size, place, starts, inside, rng)
        if progress is not None:
            progress("links", first + size, n_links)
    return folder


def _check(
    n_links: int,
    n_clusters: int,
    degree: float,
    inside: float,
    label_ratio: float,
    random_state: int,
) -> int:
    """Return the number of nodes, if there can be such a graph."""
    for name, value, least in (("n_links", n_links, 1), ("random_state", random_state, 0)):
        if not isinstance(value, int | np.integer) or value < least:
            raise InputError(f"{name} must be an integer from {least}, got {value!r}")
    if not 1 <= n_clusters <= 2**16:
        raise InputError(f"n_clusters must lie in 1…{2**16}, got {n_clusters}")
    if not 0 < degree < np.inf:
        raise InputError(f"degree must be positive, got {degree}")
    for name, share in (("inside", inside), ("label_ratio", label_ratio)):
        if not 0 <= share <= 1:
            raise InputError(f"{name} must lie in 0…1, got {share}")
    if n_clusters == 1 and inside < 1:
        raise InputError("with one class all links are inside: give inside=1")
    n = int(2 * n_links / degree)
    if n < 2 * n_clusters:
        raise InputError(
            f"{n_links} links at a mean degree of {degree} make {n} nodes, too few for "
            f"{n_clusters} classes of at least two; give more links"
        )
    return n


def _claim(folder: Path, given: dict[str, Any]) -> None:
    """Create the folder, or continue with one of the same parameters."""
    given = json.loads(json.dumps(given, default=lambda number: number.item()))
    if not folder.resolve().parent.is_dir():
        raise InputError(f"cannot write {folder}: the folder {folder.parent} does not exist")
    file = folder / "planted.json"
    if file.exists():
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
        except ValueError:
            found = None
        if found != given:
            raise InputError(
                f"{folder} holds a planted graph with other parameters (see planted.json there); "
                "give another folder, or delete it"
            )
    elif folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} exists and holds no planted graph; give another folder")
    (folder / "edges").mkdir(parents=True, exist_ok=True)
    if not file.exists():
        with atomic_path(file) as temporary:
            temporary.write_text(json.dumps(given, indent=2) + "\n", encoding="utf-8")


@contextmanager
def _unless_there(path: Path) -> Iterator[Path | None]:
    """Yield where to write the file, or None if it exists already."""
    if path.exists():
        yield None
        return
    with atomic_path(path) as temporary:
        yield temporary


def _truth(place: NDArray[Any], starts: NDArray[np.int64]) -> NDArray[Any]:
    K = len(starts) - 1
    truth = np.empty(len(place), dtype=np.uint8 if K <= 2**8 else np.uint16)
    for k in range(K):
        truth[place[starts[k] : starts[k + 1]]] = k
    return truth


def _labels(place: NDArray[Any], starts: NDArray[np.int64], label_ratio: float) -> pa.Table:
    counts = np.round(label_ratio * np.diff(starts)).astype(np.int64)
    # Nodes are in random order, so the first of a class are a random choice of it.
    chosen = [place[start : start + count] for start, count in zip(starts, counts, strict=False)]
    nodes = np.concatenate(chosen)
    labels = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    order = np.argsort(nodes)
    return pa.table({"node": nodes[order], "label": labels[order]})


def _write_links(
    path: Path,
    size: int,
    place: NDArray[Any],
    starts: NDArray[np.int64],
    inside: float,
    rng: np.random.Generator,
) -> None:
    kind = pa.from_numpy_dtype(place.dtype)
    schema = pa.schema([("source", kind), ("target", kind)])
    source, target = np.empty(size, dtype=place.dtype), np.empty(size, dtype=place.dtype)
    # Which of the links are inside is spread evenly, so that no block is all of one kind.
    for lo in range(0, size, _BLOCK):
        hi = min(lo + _BLOCK, size)
        n_inside = round(inside * hi) - round(inside * lo)
        source[lo:hi], target[lo:hi] = _draw(hi - lo, n_inside, place, starts, rng)
    # Ends are random: neither a dictionary nor compression would make them smaller.
    with pq.ParquetWriter(path, schema, use_dictionary=False, compression="none") as file:
        file.write_table(pa.table({"source": source, "target": target}, schema=schema))


def _draw(
    size: int,
    n_inside: int,
    place: NDArray[Any],
    starts: NDArray[np.int64],
    rng: np.random.Generator,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Draw links, those inside a class first; their first ends are uniform over all nodes."""
    n, K = len(place), len(starts) - 1
    u = rng.integers(0, n, size=size)
    # starts[k] = ⌊kn/K⌋, so this is the class of a position.
    k = ((u + 1) * K - 1) // n
    low, high = starts[k], starts[k + 1]
    share = rng.random(size)
    v = np.empty(size, dtype=np.int64)
    own, other = slice(None, n_inside), slice(n_inside, None)
    # The other members of the class, or of all other classes, counted on from the node itself.
    width = (high - low)[own]
    step = 1 + (share[own] * (width - 1)).astype(np.int64)
    v[own] = low[own] + (u[own] - low[own] + step) % width
    step = (share[other] * (n - (high - low)[other])).astype(np.int64)
    v[other] = (high[other] + step) % n
    return place[u], place[v]
