"""A generator of files that are hostile or broken, each with the command that is to refuse it."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import pickle
import shutil
import struct
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp

from nodeproof import NodeClassifier
from nodeproof.datasets import make_planted
from nodeproof.io.graph_folder import write_graph_folder

__all__ = ["CASES", "Case", "Seeds", "make_seeds"]


@dataclass(frozen=True)
class Seeds:
    """Files that are as they should be, to damage copies of.

    Attributes
    ----------
    folder : pathlib.Path
        Holds ``edges.csv``, ``features.csv`` and ``labels.csv``; ``model.npz``,
        ``classifier.npz`` and ``certificate.npz``; and the graph folder ``graph``.
    """

    folder: Path

    def __getitem__(self, name: str) -> bytes:
        return (self.folder / name).read_bytes()


@dataclass(frozen=True)
class Case:
    """A file, or several, that must be refused.

    Attributes
    ----------
    name : str
        What is wrong.
    make : callable
        Writes it into an empty folder; returns the command's arguments.
    """

    name: str
    make: Callable[[Path, Seeds], list[Any]]


def make_seeds(folder: Path) -> Seeds:
    """Fit a small model, and write it with all that goes in and out."""
    data = make_planted(cluster_size=20, p=0.4, q=0.1, n_features=3, n_noise=1, random_state=0)
    names = [f"v{k:02d}" for k in range(60)]
    links = sp.triu(data.graph).tocoo()
    rows = {
        "edges.csv": [["source", "target"]]
        + [[names[u], names[v]] for u, v in zip(links.row, links.col, strict=True)],
        "features.csv": [["node", *(f"x{j}" for j in range(data.X.shape[1]))]]
        + [[names[k], *np.round(data.X[k], 4).tolist()] for k in range(60)],
        "labels.csv": [["node", "label"]]
        + [[names[k], f"class {data.y[k]}"] for k in range(60) if data.y[k] >= 0],
    }
    for name, lines in rows.items():
        with (folder / name).open("w", newline="") as file:
            csv.writer(file).writerows(lines)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = NodeClassifier(random_state=0).fit(data.X, data.y, graph=data.graph)
        clf.node_ids_ = np.array(names)
        clf.save(folder / "model.npz")
        clf.certify(time_budget=0).save(folder / "certificate.npz")
        from nodeproof.terms import Labels, Softmax

        clf = NodeClassifier(terms=[Softmax(hops=2, rounds=0), Labels()], random_state=0)
        clf.fit(data.X, data.y, graph=data.graph).save(folder / "classifier.npz")
    write_graph_folder(folder / "graph", data.graph, names)
    return Seeds(folder)


CASES: list[Case] = []


def case(name: str) -> Callable[[Callable[[Path, Seeds], list[Any]]], None]:
    def add(make: Callable[[Path, Seeds], list[Any]]) -> None:
        CASES.append(Case(name, make))

    return add


def add(name: str, make: Callable[[Path, Seeds], list[Any]]) -> None:
    CASES.append(Case(name, make))


# Commands, each on a file that is already there. ------------------------------------------


def fit(path: Path, *options: Any) -> list[Any]:
    return ["fit", path, "--out", path.parent / "out", *options]


def fit_beside(path: Path, option: str, seeds: Seeds, *more: Any) -> list[Any]:
    """Fit good links with this file of features or labels."""
    return fit_into(path.parent, seeds.folder / "edges.csv", option, path, *more)


def fit_into(folder: Path, edges: Path, *options: Any) -> list[Any]:
    return ["fit", edges, "--out", folder / "out", *options]


def convert(path: Path, *options: Any) -> list[Any]:
    return ["convert", path, path.parent / "out", *options]


def certify(path: Path) -> list[Any]:
    return ["certify", path, "--time-budget", "0"]


def verify(path: Path) -> list[Any]:
    return ["certify", path, "--verify"]


# Text. --------------------------------------------------------------------------------------

GOOD = b"source,target,weight\nann,bob,1\nbob,eve,2\neve,joe,1\n"

EDGES: dict[str, bytes] = {
    "empty": b"",
    "only white space": b" \n\t\n  \n",
    "only comments": b"# nothing\n# here\n",
    "only a header": b"source,target\n",
    "only a mark of order": b"\xef\xbb\xbf",
    "one column": b"source\nann\nbob\n",
    "one cell": b"x",
    "a zero byte": b"source,target\nann,b\0b\n",
    "all zero bytes": bytes(4096),
    "UTF-16": "source,target\nann,bob\n".encode("utf-16"),
    "UTF-16 without a mark": "source,target\nann,bob\n".encode("utf-16-le"),
    "UTF-32": "source,target\nann,bob\n".encode("utf-32"),
    "Latin-1": "source,target\nJosé,bob\n".encode("latin-1"),
    "an overlong character": b"source,target\nann,\xc0\xaf\n",
    "half of a surrogate": b"source,target\nann,\xed\xa0\x80\n",
    "a character cut off": b"source,target\nann,bob\xe2\x82\n",
    "random bytes": np.random.default_rng(0).bytes(2000),
    "a quote that never closes": b'source,target\n"ann,bob\nbob,eve\n',
    "a quote that closes lines later": b'source,target\n"ann\nand bob",eve\nbob,eve\n',
    "a quote in the header that never closes": b'"source,target\nann,bob\n',
    "a long line in quotes": b'source,target\n"' + b"x" * 200_000 + b",bob\n",
    "a field more": b"source,target\nann,bob\nbob,eve,joe\n",
    "a field less": b"source,target,weight\nann,bob,1\nbob,eve\n",
    "fewer fields far below": b"source,target\n" + b"ann,bob\n" * 5000 + b"ann\n",
    "invalid UTF-8 far below": b"source,target\n" + b"ann,bob\n" * 5000 + b"ann,\xff\n",
    "the delimiter changes": b"source,target\nann,bob\nbob;eve\n",
    "the wrong kind of slash": b"source|target\nann|bob\n",
    "an id is missing": b"source,target\nann,\nbob,eve\n",
    "an id is blank": b'source,target\nann,"  "\nbob,eve\n',
    "both ids are missing": b"source,target\n,\n",
    "a weight is NaN": b"source,target,weight\nann,bob,nan\n",
    "a weight is infinite": b"source,target,weight\nann,bob,inf\n",
    "a weight is minus infinity": b"source,target,weight\nann,bob,-inf\n",
    "a weight overflows": b"source,target,weight\nann,bob,1e999\n",
    "a weight is negative": b"source,target,weight\nann,bob,-1\nbob,eve,1\n",
    "a weight is a word": b"source,target,weight\nann,bob,heavy\n",
    "a weight is missing": b"source,target,weight\nann,bob,\nbob,eve,1\n",
    "a weight is in hexadecimal": b"source,target,weight\nann,bob,0x10\n",
    "a weight has a comma": b'source,target,weight\nann,bob,"1,5"\n',
    "two columns of the same name": b"source,source,target\nann,bob,eve\n",
    "HTML": b"<html><head><title>404</title></head><body>Not found</body></html>",
    "JSON": b'{"source": "ann", "target": "bob"}',
    "PDF": b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\n<</Type/Catalog>>\nendobj\n",
    "PNG": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(40),
    "SQLite": b"SQLite format 3\0" + bytes(100),
    "a program": b"\x7fELF\x02\x01\x01" + bytes(100),
}


def _text(name: str, content: bytes, file: str, *options: Any) -> None:
    def make(folder: Path, seeds: Seeds) -> list[Any]:
        (folder / file).write_bytes(content)
        return fit(folder / file, *options)

    add(name, make)


for _name, _content in EDGES.items():
    _text(f"edges: {_name}", _content, "edges.csv")
_text("edges: a line of ten megabytes", b"x" * 10_000_000, "edges.csv")
_text("edges: a line of ten million fields", b"1," * 5_000_000 + b"1", "edges.csv")
_text("edges: ten megabytes of quotes", b"source,target\n" + b'"' * 10_000_001, "edges.csv")
_text("edges: tabs in a file of spaces", b"source target\nann\tbob\tx\n", "edges.tsv")
_text("edges: Parquet named .csv", b"PAR1" + bytes(60) + b"PAR1", "edges.csv")
_text("edges: an archive named .csv", b"PK\x03\x04" + bytes(60), "edges.csv")
_text("edges: no such column", GOOD, "edges.csv", "--source", "from")
_text("edges: no such position", GOOD, "edges.csv", "--source", "7")
_text("edges: a negative position", GOOD, "edges.csv", "--target", "-1")
_text("edges: the same column twice", GOOD, "edges.csv", "--source", "0", "--target", "0")
_text("edges: a weight that is a name", GOOD, "edges.csv", "--weight", "target")
_text("edges: an unknown suffix", GOOD, "edges.xlsx")
_text("edges: no suffix", GOOD, "edges")
_text("edges: a name with a line end", b"", "edges\nof two lines.csv")
_text("edges: a name with an escape sequence", b"", "\x1b[31medges.csv")
_text("edges: too many classes", GOOD, "edges.csv", "--classes", "999999")

_GZ = gzip.compress(GOOD)
GZIPPED = {
    "empty": b"",
    "not packed": GOOD,
    "cut in its header": _GZ[:6],
    "cut in its middle": _GZ[: len(_GZ) // 2],
    "cut at its end": _GZ[:-5],
    "a wrong checksum": _GZ[:-8] + bytes(4) + _GZ[-4:],
    "a wrong length": _GZ[:-4] + b"\xff\xff\xff\x7f",
    "a bit flipped": _GZ[:24] + bytes([_GZ[24] ^ 4]) + _GZ[25:],
    "rubbish behind it": _GZ + b"rubbish",
    "another method": b"\x1f\x8b\x07" + _GZ[3:],
    "nothing inside": gzip.compress(b""),
    "packed twice": gzip.compress(_GZ),
    "zeros": gzip.compress(bytes(10**6)),
}
for _name, _content in GZIPPED.items():
    _text(f"gzip: {_name}", _content, "edges.csv.gz")


@case("gzip: a bomb of text")
def _(folder: Path, seeds: Seeds) -> list[Any]:
    with gzip.open(folder / "edges.csv.gz", "wb") as file:
        for _ in range(100):
            file.write(b"ann,bob\n" * 2**17)
    return fit(folder / "edges.csv.gz")


# Features and labels. -------------------------------------------------------------------------

FEATURES = {
    "empty": b"",
    "only a header": b"node,x0\n",
    "no column but the node": b"node\nv00\n",
    "a node twice": b"node,x0\nv00,1\nv00,2\n",
    "one node of sixty": b"node,x0\nv00,1\n",
    "a missing value": b"node,x0\nv00,\n",
    "NaN": b"node,x0\nv00,nan\n",
    "infinity": b"node,x0\nv00,inf\n",
    "too large for a float": b"node,x0\nv00,1e400\n",
    "a word": b"node,x0\nv00,many\n",
    "a date": b"node,x0\nv00,2020-01-01\n",
    "nodes of another name": b"node,x0\nA,1\nB,2\nC,3\n",
    "no id": b"node,x0\n,1\n",
    "a zero byte": b"node,x0\nv00,1\0\n",
    "invalid UTF-8": b"node,x0\nv\xff,1\n",
    "a field more": b"node,x0\nv00,1\nv01,1,2\n",
    "a quote that never closes": b'node,x0\n"v00,1\n',
}
LABELS = {
    "empty": b"",
    "only a header": b"node,label\n",
    "one column": b"node\nv00\n",
    "two labels of a node": b"node,label\nv00,a\nv00,b\n",
    "nodes of another name": b"node,label\nA,1\nB,2\nC,3\n",
    "no id": b"node,label\n,a\nv00,b\n",
    "a zero byte": b"node,label\nv00,a\0\n",
    "invalid UTF-8": b"node,label\nv00,\xff\xfe\n",
    "a field more": b"node,label\nv00,a\nv01,a,b\n",
    "a quote that never closes": b'node,label\nv00,"a\n',
}
for _option, _contents in (("--features", FEATURES), ("--labels", LABELS)):
    for _name, _content in _contents.items():

        def _make(
            folder: Path, seeds: Seeds, option: str = _option, content: bytes = _content
        ) -> list[Any]:
            path = folder / "table.csv"
            path.write_bytes(content)
            return fit_beside(path, option, seeds)

        add(f"{_option[2:]}: {_name}", _make)


# Parquet. -------------------------------------------------------------------------------------


def parquet(columns: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


_PQ = parquet({"source": ["ann", "bob"] * 50, "target": ["bob", "eve"] * 50})
_NULL = pa.array([None, "eve"], pa.string())
PARQUET = {
    "empty": b"",
    "its first bytes only": b"PAR1",
    "its ends only": b"PAR1PAR1",
    "text": GOOD,
    "cut at its end": _PQ[:-10],
    "cut in its middle": _PQ[: len(_PQ) // 2],
    "another beginning and end": b"XXXX" + _PQ[4:-4] + b"XXXX",
    "a footer that is too long": _PQ[:-8] + struct.pack("<I", 2**31 - 1) + b"PAR1",
    "a footer of no length": _PQ[:-8] + struct.pack("<I", 0) + b"PAR1",
    "a footer of zeros": _PQ[: -8 - 400] + bytes(400) + _PQ[-8:],
    "encrypted": _PQ[:-4] + b"PARE",
    "pages of zeros": _PQ[:8] + bytes(60) + _PQ[68:],
    "no rows": parquet({"source": pa.array([], pa.string()), "target": pa.array([], pa.string())}),
    "no columns": parquet({}),
    "one column": parquet({"source": ["ann"]}),
    "lists": parquet({"source": [["ann"], ["bob"]], "target": ["bob", "eve"]}),
    "structs": parquet({"source": [{"id": "ann"}], "target": ["bob"]}),
    "maps": parquet(
        {"source": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())), "target": ["bob"]}
    ),
    "binary ids": parquet({"source": [b"\xff\xfe"], "target": [b"ok"]}),
    "a null id": parquet({"source": _NULL, "target": ["eve", "bob"]}),
    "an id of NaN": parquet({"source": [1.5, float("nan")], "target": [2.0, 3.0]}),
    "a null weight": parquet({"source": ["a", "b"], "target": ["b", "c"], "weight": [1.0, None]}),
    "a weight of NaN": parquet({"source": ["a"], "target": ["b"], "weight": [float("nan")]}),
    "a negative weight": parquet({"source": ["a"], "target": ["b"], "weight": [-1.0]}),
    "weights in words": parquet({"source": ["a"], "target": ["b"], "weight": ["heavy"]}),
    "weights in lists": parquet({"source": ["a"], "target": ["b"], "weight": [[1.0]]}),
}
for _name, _content in PARQUET.items():
    _text(f"parquet: {_name}", _content, "edges.parquet")


# Archives. ------------------------------------------------------------------------------------


def npy(array: Any, **header: Any) -> bytes:
    """Return an array as a file, perhaps with another header than its own."""
    file = io.BytesIO()
    np.lib.format.write_array(file, np.asarray(array), allow_pickle=True)
    content = file.getvalue()
    if not header:
        return content
    own = {
        "descr": np.asarray(array).dtype.str,
        "fortran_order": False,
        "shape": np.asarray(array).shape,
    }
    return npy_text(repr(own | header)) + content[128:]


def npy_text(text: str) -> bytes:
    padded = text + " " * (-(10 + len(text) + 1) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(padded)) + padded.encode()


def zipped(members: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def npz(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def bomb(declared: tuple[int, ...], packed: int) -> bytes:
    """Return an array of zeros that takes little room, of a declared shape."""
    header = npy_text(repr({"descr": "<f8", "fortran_order": False, "shape": declared}))
    return header + bytes(packed)


def patched(content: bytes, name: str, **fields: int) -> bytes:
    """Return a zip file whose directory says something else of a member."""
    data = bytearray(content)
    places = {"flags": (8, "<H"), "method": (10, "<H"), "packed": (20, "<I"), "size": (24, "<I"),
              "offset": (42, "<I"), "crc": (16, "<I")}  # fmt: skip
    at = data.find(b"PK\x01\x02")
    while at >= 0:
        length, extra, comment = struct.unpack_from("<HHH", data, at + 28)
        if bytes(data[at + 46 : at + 46 + length]) == name.encode():
            for field, value in fields.items():
                place, kind = places[field]
                struct.pack_into(kind, data, at + place, value)
        at = data.find(b"PK\x01\x02", at + 46 + length + extra + comment)
    return bytes(data)


def doubled(content: dict[str, bytes], name: str) -> bytes:
    file = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(file, "w") as archive:
        warnings.simplefilter("ignore")
        for key, value in content.items():
            archive.writestr(key, value)
        archive.writestr(name, content[name])
    return file.getvalue()


class _Trap:
    """What unpickling would run."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, ("pickled",))


_CSR = {
    "adj_indptr": np.array([0, 1, 3, 4]),
    "adj_indices": np.array([1, 0, 2, 1]),
    "n": np.array(3),
}
_NPZ = npz(**_CSR)
_MEMBERS = {f"{name}.npy": npy(array) for name, array in _CSR.items()}
_SAVED = {
    "format": np.array(b"csr"), "shape": np.array([3, 3]), "data": np.ones(4),
    "indices": np.array([1, 0, 2, 1]), "indptr": np.array([0, 1, 3, 4]),
}  # fmt: skip
_HUGE = 2**40


def _with(**arrays: Any) -> bytes:
    return npz(**{**_CSR, **arrays})


def _saved(**arrays: Any) -> bytes:
    return npz(**{**_SAVED, **arrays})


def _member(name: str, content: bytes, **options: Any) -> bytes:
    return zipped({**_MEMBERS, f"{name}.npy": content}, **options)


_DEFLATED = {"method": zipfile.ZIP_DEFLATED}
ARCHIVES: dict[str, bytes] = {
    "empty": b"",
    "text": GOOD,
    "an empty zip": zipped({}),
    "a single array": npy(np.eye(3)),
    "a pickle": pickle.dumps({"adj": [1]}),
    "cut in its middle": _NPZ[: len(_NPZ) // 2],
    "cut at its end": _NPZ[:-10],
    "its directory only": _NPZ[_NPZ.find(b"PK\x01\x02") :],
    "rubbish before it": b"rubbish" + _NPZ,
    "a directory of another place": _NPZ[:-6] + struct.pack("<I", 2**31) + _NPZ[-2:],
    "a directory without end": _NPZ[:-10] + struct.pack("<I", 2**31) + _NPZ[-6:],
    "a bit flipped": _NPZ.replace(npy(_CSR["adj_indices"])[-8:], b"\x03" + bytes(7), 1),
    "a wrong checksum": patched(_NPZ, "adj_indptr.npy", crc=1),
    "encrypted": patched(_NPZ, "adj_indptr.npy", flags=1),
    "another packing": patched(_NPZ, "adj_indptr.npy", method=99),
    "bzip2": zipped(_MEMBERS, zipfile.ZIP_BZIP2),
    "a size beyond the file": patched(_NPZ, "adj_indptr.npy", size=2**31, packed=2**31),
    "a size that is not its own": patched(_NPZ, "adj_indptr.npy", size=2**31),
    "parts over each other": patched(_NPZ, "adj_indices.npy", offset=0),
    "an array twice": doubled(_MEMBERS, "adj_indptr.npy"),
    "no arrays": zipped({"readme.txt": b"hello"}),
    "other arrays": npz(a=np.ones(3), b=np.ones(3)),
    "no indices": npz(adj_indptr=_CSR["adj_indptr"]),
    "Python objects": _with(adj_indices=np.array([_Trap(), 1, 2, 3], dtype=object)),
    "objects as features": _with(x=np.array([[_Trap()]], dtype=object)),
    "objects in place of n": _with(n=np.array(_Trap(), dtype=object)),
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
    "links by words": npz(edge_index=np.array([["a", "b"], ["b", "c"]])),
    "links of three ends": npz(edge_index=np.zeros((3, 3), dtype=int)),
    "links of a negative node": npz(edge_index=np.array([[0, 1], [1, -2]])),
    "links beyond n": npz(edge_index=np.array([[0, 1], [1, 5]]), n=np.array(3)),
    "links of a node of 2^60": npz(edge_index=np.array([[0, 1], [1, 2**60]])),
    "a million million nodes": npz(edge_index=np.array([[0], [1]]), n=np.array(10**12)),
    "a huge shape": _member("adj_indptr", npy(np.arange(4), shape=(_HUGE,))),
    "a shape that overflows": _member("adj_indptr", npy(np.arange(4), shape=(2**62, 2**62))),
    "a negative shape": _member("adj_indptr", npy(np.arange(4), shape=(-1,))),
    "a shape of words": _member("adj_indptr", npy(np.arange(4), shape=("a",))),
    "a shape of many dimensions": _member("adj_indptr", npy(np.arange(4), shape=(1,) * 60)),
    "a smaller shape than its size": _member("adj_indptr", npy(np.arange(9), shape=(4,))),
    "huge letters": _member("names", npy(np.array(["a"]), descr=f"<U{2**30}")),
    "no letters": _member("names", npy(np.array(["a"]), descr="<U0", shape=(_HUGE,))),
    "an unknown type": _member("adj_indptr", npy(np.arange(4), descr="<q9")),
    "a header that is code": _member("adj_indptr", npy_text("__import__('os').mkdir('run')")),
    "a header of brackets": _member("adj_indptr", npy_text("(" * 2000)),
    "a header of signs": _member("adj_indptr", npy_text("-" * 3000 + "1")),
    "a header without end": _member("adj_indptr", b"\x93NUMPY\x02\x00\xff\xff\xff\x7f{"),
    "a header of version 9": _member("adj_indptr", b"\x93NUMPY\x09\x00" + bytes(120)),
    "no header": _member("adj_indptr", b"hello"),
    "an empty member": _member("adj_indptr", b""),
    "a bomb of features": _member("x", bomb((2**43, 3), 2**20), **_DEFLATED),
    "a bomb cut short": _member("x", bomb((2**26,), 2**10), **_DEFLATED),
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
    "saved: a pickled format": _saved(format=np.array(_Trap(), dtype=object)),
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
    _text(f"archive: {_name}", _content, "graph.npz")


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
        "an archive of a huge shape": zipped({"x.npy": npy(np.ones((1, 1)), shape=(_HUGE, 2))}),
        "an archive that is a bomb": zipped({"x.npy": bomb((2**43, 3), 2**20)}, **_DEFLATED),
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
            (folder / "graph.npz").write_bytes(_NPZ)
            (folder / "more.npz").write_bytes(content)
            return fit(folder / "graph.npz", option, folder / "more.npz")

        add(f"{_option[2:]}: {_name}", _make_archive)


# Other formats. -------------------------------------------------------------------------------

_MTX = b"%%MatrixMarket matrix coordinate real general\n"
_GRAPHML = (
    b'<?xml version="1.0"?><graphml xmlns="http://graphml.graphdrawing.org/xmlns">'
    b'<graph edgedefault="undirected"><node id="a"/><node id="b"/>'
    b'<edge source="a" target="b"/></graph></graphml>'
)
_LAUGHS = (
    b'<?xml version="1.0"?><!DOCTYPE lolz [<!ENTITY a "ha">'
    + b"".join(b'<!ENTITY %c "%s">' % (98 + k, b"&%c;" % (97 + k) * 10) for k in range(12))
    + b']><graphml xmlns="http://graphml.graphdrawing.org/xmlns">'
    b'<graph edgedefault="undirected"><node id="&m;"/></graph></graphml>'
)
FORMATS: dict[str, tuple[str, bytes]] = {
    "mtx: empty": ("graph.mtx", b""),
    "mtx: text": ("graph.mtx", b"hello\n"),
    "mtx: a header only": ("graph.mtx", _MTX),
    "mtx: not square": ("graph.mtx", _MTX + b"2 3 1\n1 2 1\n"),
    "mtx: fewer entries than it says": ("graph.mtx", _MTX + b"3 3 5\n1 2 1\n"),
    "mtx: more entries than it says": ("graph.mtx", _MTX + b"3 3 1\n1 2 1\n2 3 1\n3 1 1\n"),
    "mtx: an index beyond": ("graph.mtx", _MTX + b"3 3 1\n1 9 1\n"),
    "mtx: an index of zero": ("graph.mtx", _MTX + b"3 3 1\n0 1 1\n"),
    "mtx: a word": ("graph.mtx", _MTX + b"3 3 1\n1 2 x\n"),
    "mtx: NaN": ("graph.mtx", _MTX + b"3 3 1\n1 2 nan\n"),
    "mtx: negative": ("graph.mtx", _MTX + b"3 3 1\n1 2 -1\n"),
    "mtx: a million million nodes": (
        "graph.mtx", _MTX + b"1000000000000 1000000000000 1\n1 2 1\n"
    ),
    "mtx: a million million entries": ("graph.mtx", _MTX + b"9 9 1000000000000\n1 2 1\n"),
    "mtx: a dense giant": (
        "graph.mtx",
        b"%%MatrixMarket matrix array real general\n10000000 10000000\n1\n",
    ),
    "mtx: an unknown kind": (
        "graph.mtx", b"%%MatrixMarket matrix coordinate quaternion general\n1 1 0\n"
    ),
    "mtx: cut gzip": ("graph.mtx.gz", gzip.compress(_MTX + b"3 3 1\n1 2 1\n")[:-12]),
    "graphml: empty": ("graph.graphml", b""),
    "graphml: text": ("graph.graphml", b"hello"),
    "graphml: cut": ("graph.graphml", _GRAPHML[:-30]),
    "graphml: no graph": ("graph.graphml", b"<graphml></graphml>"),
    "graphml: other XML": ("graph.graphml", b"<svg></svg>"),
    "graphml: entities": ("graph.graphml", _LAUGHS),
    "graphml: a weight that is a word": (
        "graph.graphml",
        _GRAPHML.replace(
            b"<graph ", b'<key id="w" for="edge" attr.name="weight" attr.type="double"/><graph '
        ).replace(b'target="b"/>', b'target="b"><data key="w">heavy</data></edge>'),
    ),
    "graphml: invalid UTF-8": ("graph.graphml", _GRAPHML.replace(b'"a"', b'"\xff"')),
    "gml: empty": ("graph.gml", b""),
    "gml: text": ("graph.gml", b"hello\n"),
    "gml: cut": ("graph.gml", b'graph [ node [ id 0 label "a" ] node [ id 1'),
    "gml: deep brackets": ("graph.gml", b"graph [ " + b"a [ " * 20_000),
    "gml: an edge to nowhere": (
        "graph.gml", b'graph [ node [ id 0 label "a" ] edge [ source 0 target 7 ] ]'
    ),
    "gml: a node twice": (
        "graph.gml", b'graph [ node [ id 0 label "a" ] node [ id 0 label "b" ] ]'
    ),
    "gml: no id": ("graph.gml", b'graph [ node [ label "a" ] ]'),
    "gml: a negative weight": (
        "graph.gml",
        b'graph [ node [ id 0 label "a" ] node [ id 1 label "b" ] '
        b"edge [ source 0 target 1 weight -5 ] ]",
    ),
    "edgelist: empty": ("graph.edgelist", b""),
    "edgelist: one word a line": ("graph.edgelist", b"a\nb\n"),
    "edgelist: attributes that are code": (
        "graph.edgelist", b"a b {'weight': __import__('os').mkdir('run')}\n"
    ),
    "edgelist: attributes that never close": ("graph.edgelist", b"a b {'weight': 1\n"),
    "zip: empty": ("graph.zip", zipped({})),
    "zip: other files": ("graph.zip", zipped({"readme.txt": b"hello", "data/x.csv": b"1,2"})),
    "zip: cut": ("graph.zip", zipped({"raw/edge.csv.gz": gzip.compress(b"0,1\n")})[:-9]),
    "zip: no nodes": ("graph.zip", zipped({"raw/edge.csv.gz": gzip.compress(b"0,1\n")})),
    "zip: a node beyond": ("graph.zip", zipped({
        "raw/edge.csv.gz": gzip.compress(b"0,1\n1,99\n"),
        "raw/num-node-list.csv.gz": gzip.compress(b"3\n"),
    })),
    "zip: a million million nodes": ("graph.zip", zipped({
        "raw/edge.csv.gz": gzip.compress(b"0,1\n"),
        "raw/num-node-list.csv.gz": gzip.compress(b"1000000000000\n"),
    })),
    "zip: links in words": ("graph.zip", zipped({
        "raw/edge.csv.gz": gzip.compress(b"a,b\n"),
        "raw/num-node-list.csv.gz": gzip.compress(b"3\n"),
    })),
    "zip: Reddit without links": ("graph.zip", zipped({"reddit_data.npz": npz(feature=np.eye(3))})),
    "zip: Reddit of rubbish": (
        "graph.zip", zipped({"reddit_data.npz": b"rubbish", "reddit_graph.npz": b"rubbish"})
    ),
}  # fmt: skip
for _name, (_file, _content) in FORMATS.items():
    _text(_name, _content, _file)

PICKLES = {
    "a function to run": pickle.dumps(_Trap()),
    "an unknown class": pickle.dumps(Path("x")),
    "cut": pickle.dumps(np.eye(3))[:-20],
    "text": b"hello",
    "empty": b"",
}
for _name, _content in PICKLES.items():

    def _make_pickle(folder: Path, seeds: Seeds, content: bytes = _content) -> list[Any]:
        for part in ("x", "tx", "allx", "y", "ty", "ally", "graph"):
            (folder / f"ind.cora.{part}").write_bytes(content)
        (folder / "ind.cora.test.index").write_text("0\n")
        return fit_into(folder, folder / "ind.cora")

    add(f"planetoid: {_name}", _make_pickle)


# Saved models. --------------------------------------------------------------------------------


def arrays_of(content: bytes, header: str = "meta") -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the JSON header and the arrays of a model or certificate."""
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    return json.loads(arrays.pop(header).tobytes()), arrays


def with_header(meta: Any, arrays: dict[str, Any]) -> bytes:
    text = meta if isinstance(meta, bytes) else json.dumps(meta).encode()
    return npz(meta=np.frombuffer(text, dtype=np.uint8), **arrays)


Change = Callable[[dict[str, Any], dict[str, Any]], Any]


def _settings(**values: Any) -> Change:
    return lambda meta, arrays: meta["params"].update(values)


def _entry(**values: Any) -> Change:
    return lambda meta, arrays: meta.update(values)


def _array(**values: Any) -> Change:
    return lambda meta, arrays: arrays.update(values)


def _without(*names: str) -> Change:
    def change(meta: dict[str, Any], arrays: dict[str, Any]) -> None:
        for name in names:
            (meta if name in meta else arrays).pop(name)

    return change


def _set(name: str, at: Any, value: Any) -> Change:
    return lambda meta, arrays: arrays[name].__setitem__(at, value)


def _as(name: str, kind: Any) -> Change:
    return lambda meta, arrays: arrays.__setitem__(name, arrays[name].astype(kind))


def _deep(levels: int) -> Any:
    found: Any = 0
    for _ in range(levels):
        found = [found]
    return found


MODELS: dict[str, Change] = {
    "a newer version": _entry(version=99),
    "a newer version with nothing else": lambda meta, arrays: (
        meta.clear(), meta.update(format="nodeproof-model", version=99), arrays.clear(),
    ),
    "version zero": _entry(version=0),
    "a version in words": _entry(version="three"),
    "version true": _entry(version=True),
    "another format": _entry(format="other"),
    "an unknown entry": _entry(surprise=1),
    "no settings": _without("params"),
    "no terms": _without("terms"),
    "settings in a list": _entry(params=[1]),
    "terms in a dict": _entry(terms={}),
    "a term that is a module": _entry(terms=[{"class": "os.system"}] * 2),
    "a term without a class": _entry(terms=[{}, {}]),
    "a solver among terms": _entry(terms=[{"class": "CADO"}] * 2),
    "a term with unknown settings": _entry(terms=[{"class": "Labels", "hook": 1}] * 2),
    "a term with a word for a number": _entry(terms=[{"class": "Labels", "accuracy": "x"}] * 2),
    "a million terms": _entry(terms=[{"class": "Labels"}] * 1_000_000),
    "an unknown setting": _settings(hook="os.system"),
    "a solver that is a module": _settings(solver={"class": "os.system"}),
    "a solver of no name": _settings(solver="magic"),
    "a solver with a bad setting": _settings(solver={"class": "BlockCADO", "max_iter": 0}),
    "weights of words": _settings(weights=["a", "b", "c"]),
    "four weights": _settings(weights=[1, 2, 3, 4]),
    "a temperature of NaN": _settings(temperature=float("nan")),
    "a negative number of classes": _settings(n_classes=-3),
    "a huge random state": _settings(random_state=10**400),
    "deep nesting": _settings(weights=_deep(900)),
    "features in words": _entry(n_features_in="four"),
    "other features": _entry(n_features_in=99),
    "a status that is a list": lambda meta, arrays: meta["reported"].update(status_=[]),
    "a history of words": lambda meta, arrays: meta["reported"].update(history_={"a": ["b"]}),
    "nothing kept": _without("kept"),
    "a link's mean weight of zero": lambda meta, arrays: meta["kept"]["graph"].update(unit=0),
    "a null model of no name": lambda meta, arrays: meta["kept"]["graph"].update(null_model="x"),
    "no probabilities": _without("proba"),
    "no classes": _without("classes"),
    "no given labels": _without("given"),
    "no class models": _without("term_0"),
    "an array too many": _array(surprise=np.ones(3)),
    "probabilities of NaN": _set("proba", (0, 0), np.nan),
    "negative probabilities": _set("proba", 0, [-1.0, 1.0, 1.0]),
    "probabilities that do not add up": _set("proba", 0, 0.9),
    "flat probabilities": _array(proba=np.ones(60)),
    "probabilities of no node": _array(proba=np.ones((0, 3))),
    "probabilities of no class": _array(proba=np.ones((60, 0))),
    "probabilities in words": _array(proba=np.full((60, 3), "a")),
    "complex probabilities": _as("proba", complex),
    "a class more": _array(classes=np.arange(4)),
    "the same class twice": _array(classes=np.array([0, 0, 1])),
    "a label of no class": _set("given", 0, 99),
    "a label below −1": _set("given", 0, -2),
    "labels of other nodes": _array(given=np.zeros(7, dtype=int)),
    "labels as floats": _as("given", float),
    "proportions of NaN": _set("log_prior", 0, np.nan),
    "half an affinity": _without("ell_t"),
    "affinities of other classes": _array(ell=np.ones((2, 2)), ell_t=np.ones((2, 2))),
    "class models of NaN": lambda meta, arrays: arrays["term_0"].fill(np.nan),
    "class models of other features": _array(term_0=np.ones((3, 9, 9))),
    "names of too few nodes": _array(node_ids=np.array(["a", "b"])),
    "pairs of other classes": _array(null_pairs=np.ones(7)),
    "no pairs": _without("null_pairs"),
    "half a labelling problem": _without("problem_eta"),
    "a link to nowhere": _set("problem_indices", 0, 10**6),
    "a link to a negative node": _set("problem_indices", 0, -5),
    "links that decrease": _set("problem_indptr", 5, 10**6),
    "links that begin late": _set("problem_indptr", 0, 3),
    "links that end early": _set("problem_indptr", -1, 3),
    "links as floats": _as("problem_indices", float),
    "links in one direction": lambda meta, arrays: arrays.update(
        problem_indptr=np.minimum(arrays["problem_indptr"], 2),
        problem_indices=np.array([1, 2], dtype=np.int32),
    ),
    "links of other nodes": _array(problem_indptr=np.zeros(9, dtype=int)),
    "too few weights of links": _array(problem_weights=np.ones(3)),
    "costs of other classes": _array(problem_costs=np.ones((60, 4))),
    "three scales": _array(problem_scales=np.ones(3)),
}  # fmt: skip

CLASSIFIERS: dict[str, Change] = {
    "no classifier": lambda meta, arrays: meta["kept"]["softmax"].clear(),
    "a classifier of no term": lambda meta, arrays: meta["kept"]["softmax"].update(
        {"7": {"hops": 1, "alpha": 0.1, "of": "features"}}
    ),
    "averages of other nodes": _array(softmax_0_lagged=np.ones((7, 4))),
    "averages of other columns": _array(softmax_0_lagged=np.ones((60, 9))),
    "no degrees": _without("softmax_0_normaliser"),
    "coefficients of NaN": lambda meta, arrays: arrays["softmax_0_coefficients"].fill(np.nan),
    "a million hops in words": lambda meta, arrays: meta["kept"]["softmax"]["0"].update(hops="9"),
}


def _changed(seed: str, change: Change) -> Callable[[Seeds], bytes]:
    def content(seeds: Seeds) -> bytes:
        meta, arrays = arrays_of(seeds[seed])
        change(meta, arrays)
        return with_header(meta, arrays)

    return content


def _member_of(seed: str, name: str, member: bytes, **options: Any) -> Callable[[Seeds], bytes]:
    def content(seeds: Seeds) -> bytes:
        with zipfile.ZipFile(io.BytesIO(seeds[seed])) as archive:
            members = {found: archive.read(found) for found in archive.namelist()}
        return zipped({**members, f"{name}.npy": member}, **options)

    return content


def _bytes(seed: str, change: Callable[[bytes], bytes]) -> Callable[[Seeds], bytes]:
    return lambda seeds: change(seeds[seed])


def _flipped(share: float) -> Callable[[bytes], bytes]:
    def change(content: bytes) -> bytes:
        at = int(share * len(content))
        return content[:at] + bytes([content[at] ^ 0x10]) + content[at + 1 :]

    return change


def _with_text(seed: str, text: bytes) -> Callable[[Seeds], bytes]:
    return lambda seeds: with_header(text, arrays_of(seeds[seed])[1])


def _broken(seed: str) -> dict[str, Callable[[Seeds], bytes]]:
    """Damage that any archive with a header in JSON can have."""
    first = "proba" if seed == "model.npz" else "labels"
    return {
        "empty": lambda seeds: b"",
        "text": lambda seeds: b"hello",
        "a pickle": lambda seeds: pickle.dumps(_Trap()),
        "a single array": lambda seeds: npy(np.eye(3)),
        "no header": _bytes(seed, lambda content: npz(x=np.ones(3))),
        "cut in its middle": _bytes(seed, lambda content: content[: len(content) // 2]),
        "cut at its end": _bytes(seed, lambda content: content[:-1]),
        "a bit flipped near its middle": _bytes(seed, _flipped(0.4)),
        "a header that is no JSON": _with_text(seed, b"{'format': 1}"),
        "a header that is a list": _with_text(seed, b"[]"),
        "a header in UTF-16": _with_text(seed, '{"format": 1}'.encode("utf-16")),
        "an empty header": _with_text(seed, b""),
        "a header of brackets": _with_text(seed, b"[" * 100_000),
        "a header that says things twice": _with_text(
            seed, b'{"format": "nodeproof-model", "format": "nodeproof-certificate"}'
        ),
        "a header of twenty megabytes": _with_text(seed, b" " * 20_000_000 + b"{}"),
        "a header in floats": lambda seeds: npz(
            **arrays_of(seeds[seed])[1], meta=np.zeros(10)
        ),
        "a header of objects": lambda seeds: npz(
            **arrays_of(seeds[seed])[1], meta=np.array([_Trap()], dtype=object)
        ),
        "Python objects": lambda seeds: _objects(seeds[seed], first),
        "a huge shape": _member_of(seed, first, npy(np.ones(3), shape=(_HUGE, 3))),
        "a bomb": _member_of(seed, first, bomb((2**43, 3), 2**22), **_DEFLATED),
        "a bomb of text": _member_of(seed, first, npy(np.array(["a"]), descr=f"<U{2**30}")),
        "a header without end": _member_of(seed, first, b"\x93NUMPY\x02\x00\xff\xff\xff\x7f{"),
        "a path upwards": _member_of(seed, "../../evil", npy(np.ones(3))),
        "an absolute path": _member_of(seed, "/evil", npy(np.ones(3))),
        "encrypted": _bytes(seed, lambda content: patched(content, f"{first}.npy", flags=1)),
        "a size beyond the file": _bytes(
            seed, lambda content: patched(content, f"{first}.npy", size=2**31, packed=2**31)
        ),
    }  # fmt: skip


def _objects(content: bytes, name: str) -> bytes:
    meta, arrays = arrays_of(content)
    return with_header(meta, arrays | {name: np.array([_Trap()], dtype=object)})


def _model(name: str, content: Callable[[Seeds], bytes]) -> None:
    def make(folder: Path, seeds: Seeds) -> list[Any]:
        (folder / "model.npz").write_bytes(content(seeds))
        if len(CASES) % 2:  # either command reads it
            return certify(folder)
        features = seeds.folder / "features.csv"
        return ["predict", folder, "--features", features, "--out", folder / "predictions.csv"]

    add(name, make)


for _name, _change in MODELS.items():
    _model(f"model: {_name}", _changed("model.npz", _change))
for _name, _change in CLASSIFIERS.items():
    _model(f"model: {_name}", _changed("classifier.npz", _change))
for _name, _damage in _broken("model.npz").items():
    _model(f"model: {_name}", _damage)


# Certificates. --------------------------------------------------------------------------------

CERTIFICATES: dict[str, Change] = {
    "a newer version": _entry(version=99),
    "a version in words": _entry(version="one"),
    "another format": _entry(format="nodeproof-model"),
    "a status that is a number": _entry(status=3),
    "an objective in words": _entry(objective="low"),
    "no gap": _without("gap"),
    "no labels": _without("labels"),
    "labels as floats": _as("labels", float),
    "labels of other nodes": _array(labels=np.zeros(7, dtype=int)),
    "an array too many": _array(surprise=np.ones(3)),
    "no dual variables": _without("nu"),
    "half the dual variables": _without("sigma"),
    "dual variables of other nodes": _array(nu=np.ones(7)),
    "signs of another shape": _array(gamma=np.ones((3, 3))),
    "a link to nowhere": _set("indices", 0, 10**6),
    "a link to a negative node": _set("indices", 0, -7),
    "links that decrease": _set("indptr", 5, 10**6),
    "links as floats": _as("indices", float),
    "half a labelling problem": _without("eta"),
    "a step without a proof": _array(step9_sure=np.ones(60, dtype=bool)),
    "a history of two columns": _array(history=np.ones((3, 2))),
}


def _certificate(name: str, content: Callable[[Seeds], bytes]) -> None:
    def make(folder: Path, seeds: Seeds) -> list[Any]:
        (folder / "certificate.npz").write_bytes(content(seeds))
        return verify(folder)

    add(name, make)


for _name, _change in CERTIFICATES.items():
    _certificate(f"certificate: {_name}", _changed("certificate.npz", _change))
for _name, _damage in _broken("certificate.npz").items():
    _certificate(f"certificate: {_name}", _damage)


# Graph folders. -------------------------------------------------------------------------------


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
    "a pickle": npy(np.array([[_Trap()]], dtype=object)),
    "other nodes": npy(np.ones((7, 2))),
    "three dimensions": npy(np.ones((60, 2, 2))),
    "a huge shape": npy(np.ones((60, 1)), shape=(60, _HUGE)),
    "cut": npy(np.ones((60, 4)))[:-100],
    "words": npy(np.full((60, 2), "a")),
    "an archive": _NPZ,
    "NaN": npy(np.full((60, 2), np.nan)),
}
for _name, _content_of in NPY.items():

    def _make_npy(folder: Path, seeds: Seeds, content: bytes = _content_of) -> list[Any]:
        (folder / "x.npy").write_bytes(content)
        graph = seeds.folder / "graph"
        return fit_into(folder, graph, "--features", folder / "x.npy", "--classes", "3")

    add(f"array of features: {_name}", _make_npy)


# New nodes. -----------------------------------------------------------------------------------

NEW = {
    "features: one column": ("--features", b"node\nnew\n"),
    "features: a column less": ("--features", b"node,x0\nnew,1\n"),
    "features: fitted nodes only": ("--features", b"node,x0,x1,x2,x3\nv00,1,1,1,1\n"),
    "features: NaN": ("--features", b"node,x0,x1,x2,x3\nnew,1,nan,1,1\n"),
    "features: a node twice": ("--features", b"node,x0,x1,x2,x3\nnew,1,1,1,1\nnew,1,1,1,1\n"),
    "features: a zero byte": ("--features", b"node,x0,x1,x2,x3\nnew,1,1,1,\0\n"),
    "links: to no fitted node": ("--edges", b"source,target\nnew,newer\n"),
    "links: a negative weight": ("--edges", b"source,target,weight\nnew,v00,-1\n"),
    "links: a weight of NaN": ("--edges", b"source,target,weight\nnew,v00,nan\n"),
    "links: a quote that never closes": ("--edges", b'source,target\n"new,v00\n'),
}
for _name, (_option, _content_of) in NEW.items():

    def _make_new(
        folder: Path, seeds: Seeds, option: str = _option, content: bytes = _content_of
    ) -> list[Any]:
        (folder / "new.csv").write_bytes(content)
        command = ["predict", seeds.folder / "model.npz", "--out", folder / "out.csv"]
        return [*command, option, folder / "new.csv"]

    add(f"new nodes: {_name}", _make_new)


# Conversion. ----------------------------------------------------------------------------------

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


# Paths that are no files. ---------------------------------------------------------------------


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
