"""NumPy archives: graphs, features and labels."""

from __future__ import annotations

import pickle
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from hostile.making import (
    Seeds,
    add,
    case,
    fit,
    fit_text,
)
from hostile.packing import Trap, bomb, doubled, letters, npy, npy_text, npz, patched, zipped
from hostile.tables import GOOD

_CSR = {
    "adj_indptr": np.array([0, 1, 3, 4]),
    "adj_indices": np.array([1, 0, 2, 1]),
    "n": np.array(3),
}
GRAPH = npz(**_CSR)
_MEMBERS = {f"{name}.npy": npy(array) for name, array in _CSR.items()}
_SAVED = {
    "format": np.array(b"csr"), "shape": np.array([3, 3]), "data": np.ones(4),
    "indices": np.array([1, 0, 2, 1]), "indptr": np.array([0, 1, 3, 4]),
}  # fmt: skip
HUGE = 2**40


def _with(**arrays: Any) -> bytes:
    return npz(**{**_CSR, **arrays})


def _saved(**arrays: Any) -> bytes:
    return npz(**{**_SAVED, **arrays})


def _member(name: str, content: bytes, **options: Any) -> bytes:
    return zipped({**_MEMBERS, f"{name}.npy": content}, **options)


DEFLATED = {"method": zipfile.ZIP_DEFLATED}
ARCHIVES: dict[str, bytes] = {
    "empty": b"",
    "text": GOOD,
    "an empty zip": zipped({}),
    "a single array": npy(np.eye(3)),
    "a pickle": pickle.dumps({"adj": [1]}),
    "cut in its middle": GRAPH[: len(GRAPH) // 2],
    "cut at its end": GRAPH[:-10],
    "its directory only": GRAPH[GRAPH.find(b"PK\x01\x02") :],
    "rubbish before it": b"rubbish" + GRAPH,
    "a directory of another place": GRAPH[:-6] + struct.pack("<I", 2**31) + GRAPH[-2:],
    "a directory without end": GRAPH[:-10] + struct.pack("<I", 2**31) + GRAPH[-6:],
    "a bit flipped": GRAPH.replace(npy(_CSR["adj_indices"])[-8:], b"\x03" + bytes(7), 1),
    "a wrong checksum": patched(GRAPH, "adj_indptr.npy", crc=1),
    "encrypted": patched(GRAPH, "adj_indptr.npy", flags=1),
    "another packing": patched(GRAPH, "adj_indptr.npy", method=99),
    "bzip2": zipped(_MEMBERS, zipfile.ZIP_BZIP2),
    "a size beyond the file": patched(GRAPH, "adj_indptr.npy", size=2**31, packed=2**31),
    "a size that is not its own": patched(GRAPH, "adj_indptr.npy", size=2**31),
    "parts over each other": patched(GRAPH, "adj_indices.npy", offset=0),
    "an array twice": doubled(_MEMBERS, "adj_indptr.npy"),
    "no arrays": zipped({"readme.txt": b"hello"}),
    "other arrays": npz(a=np.ones(3), b=np.ones(3)),
    "no indices": npz(adj_indptr=_CSR["adj_indptr"]),
    "Python objects": _with(adj_indices=np.array([Trap(), 1, 2, 3], dtype=object)),
    "objects as features": _with(x=np.array([[Trap()]], dtype=object)),
    "objects in place of n": _with(n=np.array(Trap(), dtype=object)),
    "records": _with(adj_indices=np.zeros(4, dtype=[("a", "i4"), ("b", "f8")])),
    "complex numbers": _with(adj_data=np.ones(4, dtype=complex)),
    "dates": _with(y=np.zeros(3, dtype="M8[s]")),
    "raw bytes": _with(adj_indices=np.zeros(4, dtype="V8")),
    "floats for indices": _with(adj_indices=np.array([1.0, 0.0, 2.0, 1.0])),
    "words for indices": _with(adj_indices=np.array(["a", "b", "c", "d"])),
    "a negative index": _with(adj_indices=np.array([1, 0, -2, 1])),
    "an index beyond": _with(adj_indices=np.array([1, 0, 10**6, 1])),
    "an index of 2^63": _with(adj_indices=np.array([1, 0, 2**63, 1], dtype=np.uint64)),
    "an indptr that decreases": _with(adj_indptr=np.array([0, 3, 1, 4])),
    "an indptr beyond": _with(adj_indptr=np.array([0, 1, 3, 10**9])),
    "an indptr from one": _with(adj_indptr=np.array([1, 1, 3, 4])),
    "an indptr of two dimensions": _with(adj_indptr=np.zeros((2, 2), dtype=int)),
    "an empty indptr": _with(adj_indptr=np.empty(0, dtype=int)),
    "another n": _with(n=np.array(4)),
    "a negative n": _with(n=np.array(-3)),
    "n in words": _with(n=np.array("three")),
    "several n": _with(n=np.array([3, 3])),
    "weights of NaN": _with(adj_data=np.full(4, np.nan)),
    "negative weights": _with(adj_data=-np.ones(4)),
    "too few weights": _with(adj_data=np.ones(2)),
    "features of other nodes": _with(x=np.ones((5, 2))),
    "features of NaN": _with(x=np.full((3, 2), np.nan)),
    "features of three dimensions": _with(x=np.ones((3, 2, 2))),
    "features in words": _with(x=np.array([["a"], ["b"], ["c"]])),
    "labels of other nodes": _with(y=np.zeros(9, dtype=int)),
    "labels below −1": _with(y=np.array([0, -7, 1])),
    "fractions for labels": _with(y=np.array([0.5, 1.5, 2.5])),
    "a mask of other nodes": _with(y=np.zeros(3, dtype=int), train_mask=np.ones(9, dtype=bool)),
    "a mask of fractions": _with(y=np.zeros(3, dtype=int), train_mask=np.full(3, 0.5)),
    "sparse features that are none": _with(
        x_data=np.ones(1), x_indices=np.array([10**9]), x_indptr=np.array([0, 1, 1, 1]),
        x_shape=np.array([3, 2]),
    ),
    "sparse features of a huge shape": _with(
        x_data=np.ones(1), x_indices=np.array([0]), x_indptr=np.array([0, 1, 1, 1]),
        x_shape=np.array([10**15, 2]),
    ),
    "names of too few nodes": _with(names=np.array(["a", "b"])),
    "names that repeat": _with(names=np.array(["a", "b", "a"])),
    "names of half a letter": _with(names=letters(0xD800)),
    "names of no letter": _with(names=letters(0xFFFFFFFF)),
    "labels of half a letter": _with(y=letters(0xDFFF)),
    "labels of no letter": _with(y=letters(0x110000)),
    "a name of 130,000 letters": _with(names=np.array(["a", "b", "c" * 130_000])),
    "a label of 130,000 letters": _with(y=np.array(["a", "b", "c" * 130_000])),
    "sparse features of ten million million columns": _with(
        x_data=np.ones(1), x_indices=np.array([0]), x_indptr=np.array([0, 1, 1, 1]),
        x_shape=np.array([3, 10**13]),
    ),
    "links by words": npz(edge_index=np.array([["a", "b"], ["b", "c"]])),
    "links of three ends": npz(edge_index=np.zeros((3, 3), dtype=int)),
    "links of a negative node": npz(edge_index=np.array([[0, 1], [1, -2]])),
    "links beyond n": npz(edge_index=np.array([[0, 1], [1, 5]]), n=np.array(3)),
    "links of a node of 2^60": npz(edge_index=np.array([[0, 1], [1, 2**60]])),
    "links of a node of 2^63 - 1": npz(edge_index=np.array([[0, 2**63 - 1], [1, 0]])),
    "links of a node of 2^64 - 1": npz(
        edge_index=np.array([[0, 2**64 - 1], [1, 0]], dtype=np.uint64)
    ),
    "a million million nodes": npz(edge_index=np.array([[0], [1]]), n=np.array(10**12)),
    "a huge shape": _member("adj_indptr", npy(np.arange(4), shape=(HUGE,))),
    "a shape that overflows": _member("adj_indptr", npy(np.arange(4), shape=(2**62, 2**62))),
    "a negative shape": _member("adj_indptr", npy(np.arange(4), shape=(-1,))),
    "a shape of words": _member("adj_indptr", npy(np.arange(4), shape=("a",))),
    "a shape of many dimensions": _member("adj_indptr", npy(np.arange(4), shape=(1,) * 60)),
    "a smaller shape than its size": _member("adj_indptr", npy(np.arange(9), shape=(4,))),
    "huge letters": _member("names", npy(np.array(["a"]), descr=f"<U{2**30}")),
    "no letters": _member("names", npy(np.array(["a"]), descr="<U0", shape=(HUGE,))),
    "an unknown type": _member("adj_indptr", npy(np.arange(4), descr="<q9")),
    "a header that is code": _member("adj_indptr", npy_text("__import__('os').mkdir('run')")),
    "a header of brackets": _member("adj_indptr", npy_text("(" * 2000)),
    "a header of signs": _member("adj_indptr", npy_text("-" * 3000 + "1")),
    "a header without end": _member("adj_indptr", b"\x93NUMPY\x02\x00\xff\xff\xff\x7f{"),
    "a header of version 9": _member("adj_indptr", b"\x93NUMPY\x09\x00" + bytes(120)),
    "no header": _member("adj_indptr", b"hello"),
    "an empty member": _member("adj_indptr", b""),
    "a bomb of features": _member("x", bomb((2**43, 3), 2**20), **DEFLATED),
    "a bomb cut short": _member("x", bomb((2**26,), 2**10), **DEFLATED),
    "saved: an index beyond": _saved(indices=np.array([1, 0, 99, 1])),
    "saved: an index beyond, by columns": _saved(
        format=np.array(b"csc"), indices=np.array([1, 0, 10**6, 1])
    ),
    "saved: an indptr beyond": _saved(indptr=np.array([0, 1, 3, 10**9])),
    "saved: a shape of a million million": _saved(shape=np.array([10**12, 10**12])),
    "saved: a shape that is not square": _saved(
        shape=np.array([3, 4]), indices=np.array([1, 0, 3, 1])
    ),
    "saved: a shape of three sides": _saved(shape=np.array([3, 3, 3])),
    "saved: a negative shape": _saved(shape=np.array([-3, -3])),
    "saved: an unknown format": _saved(format=np.array(b"xyz")),
    "saved: a format that is a number": _saved(format=np.array([1, 2])),
    "saved: a pickled format": _saved(format=np.array(Trap(), dtype=object)),
    "saved: places beyond": npz(
        format=np.array(b"coo"), shape=np.array([3, 3]), data=np.ones(2), row=np.array([0, 9]),
        col=np.array([1, 1]),
    ),
    "saved: too few places": npz(
        format=np.array(b"coo"), shape=np.array([3, 3]), data=np.ones(2), row=np.array([0]),
        col=np.array([1, 1]),
    ),
    "saved: words for links": _saved(data=np.array(["a", "b", "c", "d"])),
}  # fmt: skip
for _name, _content in ARCHIVES.items():
    fit_text(f"archive: {_name}", _content, "graph.npz")


@case("archive: a directory of a hundred thousand parts")
def _(folder: Path, seeds: Seeds) -> list[Any]:
    with zipfile.ZipFile(folder / "graph.npz", "w") as archive:
        for k in range(30_000):
            archive.writestr(f"{k}.npy", b"")
    return fit(folder / "graph.npz")


for _option, _contents in (
    ("--features", {
        "an archive without a matrix": npz(a=np.ones(3)),
        "an archive with two matrices": npz(a=np.eye(3), b=np.eye(3)),
        "an archive of objects": npz(x=np.array([[None]], dtype=object)),
        "an archive of a huge shape": zipped({"x.npy": npy(np.ones((1, 1)), shape=(HUGE, 2))}),
        "an archive that is a bomb": zipped({"x.npy": bomb((2**43, 3), 2**20)}, **DEFLATED),
    }),
    ("--labels", {
        "an archive without labels": npz(a=np.eye(3)),
        "an archive of objects": npz(y=np.array([None, 1], dtype=object)),
        "an archive of fractions": npz(y=np.array([0.1, 0.2, 0.3])),
    }),
):  # fmt: skip
    for _name, _content in _contents.items():

        def _make_archive(
            folder: Path, seeds: Seeds, option: str = _option, content: bytes = _content
        ) -> list[Any]:
            (folder / "graph.npz").write_bytes(GRAPH)
            (folder / "more.npz").write_bytes(content)
            return fit(folder / "graph.npz", option, folder / "more.npz")

        add(f"{_option[2:]}: {_name}", _make_archive)
