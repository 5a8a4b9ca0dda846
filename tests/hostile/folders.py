"""Graph folders, conversions, and paths that are no files."""

from __future__ import annotations

import json
import os
import shutil
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hostile.archives import GRAPH, HUGE
from hostile.making import (
    CASES,
    Case,
    Seeds,
    add,
    certify,
    convert,
    fit,
    fit_beside,
    fit_into,
    verify,
)
from hostile.packing import Trap, npy
from hostile.parquet_files import PARQUET
from hostile.tables import EDGES, GOOD, GZIPPED


def _header(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    header = json.loads((folder / "graph.json").read_text())
    change(header)
    (folder / "graph.json").write_text(json.dumps(header))


def _values(name: str, change: Callable[[Any], None]) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        array = np.load(folder / f"{name}.npy")
        change(array)
        content = (folder / f"{name}.npy").read_bytes()
        offset = len(content) - array.nbytes
        (folder / f"{name}.npy").write_bytes(content[:offset] + array.tobytes())

    return damage


def _said(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    return lambda folder: _header(folder, change)


def _content(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        (folder / name).write_bytes(change((folder / name).read_bytes()))

    return damage


FOLDERS: dict[str, Callable[[Path], Any]] = {
    "an empty header": _content("graph.json", lambda content: b""),
    "a header that is no JSON": _content("graph.json", lambda content: b'"nodeproof graph" {'),
    "a header of brackets": _content(
        "graph.json", lambda content: b'{"format": "nodeproof graph", "a":' + b"[" * 10_000
    ),
    "a header of two megabytes": _content("graph.json", lambda content: content + b" " * 2**21),
    "a newer version": _said(lambda header: header.update(version=99)),
    "no version": _said(lambda header: header.pop("version")),
    "nodes in words": _said(lambda header: header.update(n_nodes="sixty")),
    "no nodes": _said(lambda header: header.update(n_nodes=0)),
    "negative nodes": _said(lambda header: header.update(n_nodes=-60)),
    "2^61 nodes": _said(lambda header: header.update(n_nodes=2**61)),
    "2^70 nodes": _said(lambda header: header.update(n_nodes=2**70)),
    "another number of links": _said(lambda header: header.update(n_entries=4)),
    "no list of files": _said(lambda header: header.pop("files")),
    "files in a list": _said(lambda header: header.update(files=[1])),
    "a file elsewhere": _said(
        lambda header: header["files"].update({"../../etc/passwd": {"size": 1, "crc32": "0"}})
    ),
    "ids of another kind": _said(lambda header: header.update(ids="colours")),
    "no indptr": lambda folder: (folder / "indptr.npy").unlink(),
    "no indices": lambda folder: (folder / "indices.npy").unlink(),
    "no ids": lambda folder: (folder / "ids.parquet").unlink(),
    "indices cut": _content("indices.npy", lambda content: content[:-8]),
    "indices with a tail": _content("indices.npy", lambda content: content + bytes(8)),
    "indices without a header": _content("indices.npy", lambda content: bytes(len(content))),
    "a link to nowhere": _values("indices", lambda array: array.__setitem__(3, 10**6)),
    "a link to a negative node": _values("indices", lambda array: array.__setitem__(3, -1)),
    "an indptr that decreases": _values("indptr", lambda array: array.__setitem__(5, 10**9)),
    "an indptr that is negative": _values("indptr", lambda array: array.__setitem__(5, -(2**40))),
    "degrees of NaN": _values("degrees", lambda array: array.__setitem__(0, np.nan)),
    "ids of rubbish": _content("ids.parquet", lambda content: bytes(len(content))),
    "ids that are numbers": lambda folder: _other_ids(folder, list(range(60)), "text"),
    "ids that are lists": lambda folder: _other_ids(folder, [[k] for k in range(60)], "text"),
    "ids that are missing": lambda folder: _other_ids(folder, [None] * 60, "text"),
    "ids of fewer nodes": lambda folder: _other_ids(folder, ["a", "b"], "text"),
}
# Numbers are as good as names.
del FOLDERS["ids that are numbers"]


def _other_ids(folder: Path, ids: list[Any], kind: str) -> None:
    table = pa.table({"node": pa.array(ids, pa.string() if ids[0] is None else None)})
    pq.write_table(table, folder / "ids.parquet")
    content = (folder / "ids.parquet").read_bytes()
    entry = {"size": len(content), "crc32": f"{zlib.crc32(content):08x}"}
    _header(folder, lambda header: (header["files"].update({"ids.parquet": entry}),
                                    header.update(ids=kind)))  # fmt: skip


for _name, _spoil in FOLDERS.items():

    def _make_folder(
        folder: Path, seeds: Seeds, spoil: Callable[[Path], Any] = _spoil
    ) -> list[Any]:
        shutil.copytree(seeds.folder / "graph", folder / "graph")
        spoil(folder / "graph")
        return fit(folder / "graph", "--classes", "3")

    add(f"graph folder: {_name}", _make_folder)

for _name in ("a link to nowhere", "indices cut", "a file elsewhere", "a newer version"):

    def _make_verified(
        folder: Path, seeds: Seeds, spoil: Callable[[Path], Any] = FOLDERS[_name]
    ) -> list[Any]:
        shutil.copytree(seeds.folder / "graph", folder / "graph")
        spoil(folder / "graph")
        return ["convert", folder / "graph", "--verify"]

    add(f"graph folder, verified: {_name}", _make_verified)

NPY = {
    "empty": b"",
    "text": b"node,x\n",
    "a pickle": npy(np.array([[Trap()]], dtype=object)),
    "other nodes": npy(np.ones((7, 2))),
    "three dimensions": npy(np.ones((60, 2, 2))),
    "a huge shape": npy(np.ones((60, 1)), shape=(60, HUGE)),
    "cut": npy(np.ones((60, 4)))[:-100],
    "words": npy(np.full((60, 2), "a")),
    "an archive": GRAPH,
    "NaN": npy(np.full((60, 2), np.nan)),
}
for _name, _content_of in NPY.items():

    def _make_npy(folder: Path, seeds: Seeds, content: bytes = _content_of) -> list[Any]:
        (folder / "x.npy").write_bytes(content)
        graph = seeds.folder / "graph"
        return fit_into(folder, graph, "--features", folder / "x.npy", "--classes", "3")

    add(f"array of features: {_name}", _make_npy)


CONVERTED = {
    **{name: ("edges.csv", EDGES[name]) for name in (
        "empty", "only a header", "one column", "UTF-16", "Latin-1", "random bytes",
        "two columns of the same name", "a quote that never closes", "a field more", "a field less",
        "an id is missing", "a weight is NaN", "a weight is infinite", "a weight is negative",
        "a weight is a word", "PNG",
    )},
    **{f"Parquet, {name}": ("edges.parquet", PARQUET[name]) for name in (
        "empty", "its first bytes only", "text", "cut at its end", "no rows", "one column",
        "lists", "structs", "a null id", "an id of NaN", "a weight of NaN", "a negative weight",
        "weights in words", "a footer that is too long",
    )},
    **{f"gzip, {name}": ("edges.csv.gz", GZIPPED[name]) for name in (
        "empty", "not packed", "cut in its middle", "a bit flipped", "nothing inside",
    )},
}  # fmt: skip
for _name, (_file, _content_of) in CONVERTED.items():

    def _make_converted(
        folder: Path, seeds: Seeds, file: str = _file, content: bytes = _content_of
    ) -> list[Any]:
        (folder / file).write_bytes(content)
        return convert(folder / file)

    add(f"conversion: {_name}", _make_converted)


def _fifo(path: Path) -> Path:
    os.mkfifo(path)
    return path


def _loop(path: Path) -> Path:
    path.symlink_to(path.name)
    return path


def _dangling(path: Path) -> Path:
    path.symlink_to("nowhere")
    return path


def _folder(path: Path) -> Path:
    path.mkdir()
    return path


def _device(path: Path) -> Path:
    path.symlink_to("/dev/zero")
    return path


def _nothing(path: Path) -> Path:
    return path


def _under_a_file(path: Path) -> Path:
    path.write_bytes(GOOD)
    return path / "edges.csv"


PATHS = {
    "a pipe": _fifo, "a loop of links": _loop, "a link to nothing": _dangling,
    "a folder": _folder, "a device": _device, "nothing": _nothing,
}  # fmt: skip


def _paths() -> Iterator[Case]:
    for name, put in {**PATHS, "below a file": _under_a_file}.items():
        for suffix in ("csv", "parquet", "npz"):
            yield Case(
                f"path: {name}, .{suffix}",
                lambda folder, seeds, put=put, suffix=suffix: fit_into(
                    folder, put(folder / f"edges.{suffix}")
                ),
            )
    for name, put in PATHS.items():
        for option in ("--features", "--labels"):
            yield Case(
                f"path: {name}, for {option[2:]}",
                lambda folder, seeds, put=put, option=option: fit_beside(
                    put(folder / "table.csv"), option, seeds
                ),
            )
        yield Case(
            f"path: {name}, for a model",
            lambda folder, seeds, put=put: certify(put(folder / "model.npz")),
        )
        yield Case(
            f"path: {name}, for a certificate",
            lambda folder, seeds, put=put: verify(put(folder / "certificate.npz")),
        )
        yield Case(
            f"path: {name}, for a header",
            lambda folder, seeds, put=put: fit_into(
                folder, put(_folder(folder / "graph") / "graph.json").parent
            ),
        )
        yield Case(
            f"path: {name}, for a conversion",
            lambda folder, seeds, put=put: [
                "convert", put(folder / "edges.csv"), folder / "out"
            ],
        )  # fmt: skip


CASES.extend(_paths())
