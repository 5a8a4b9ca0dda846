"""Tables of text: links, features, labels and new nodes."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any

import numpy as np

from hostile.making import (
    Seeds,
    add,
    case,
    fit,
    fit_beside,
    fit_text,
)

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


for _name, _content in EDGES.items():
    fit_text(f"edges: {_name}", _content, "edges.csv")
fit_text("edges: a line of ten megabytes", b"x" * 10_000_000, "edges.csv")
fit_text("edges: a line of ten million fields", b"1," * 5_000_000 + b"1", "edges.csv")
fit_text("edges: ten megabytes of quotes", b"source,target\n" + b'"' * 10_000_001, "edges.csv")
fit_text("edges: tabs in a file of spaces", b"source target\nann\tbob\tx\n", "edges.tsv")
fit_text("edges: Parquet named .csv", b"PAR1" + bytes(60) + b"PAR1", "edges.csv")
fit_text("edges: an archive named .csv", b"PK\x03\x04" + bytes(60), "edges.csv")
fit_text("edges: no such column", GOOD, "edges.csv", "--source", "from")
fit_text("edges: no such position", GOOD, "edges.csv", "--source", "7")
fit_text("edges: a negative position", GOOD, "edges.csv", "--target", "-1")
fit_text("edges: the same column twice", GOOD, "edges.csv", "--source", "0", "--target", "0")
fit_text("edges: a weight that is a name", GOOD, "edges.csv", "--weight-column", "target")
fit_text("edges: an unknown suffix", GOOD, "edges.xlsx")
fit_text("edges: no suffix", GOOD, "edges")
fit_text("edges: a name with a line end", b"", "edges\nof two lines.csv")
fit_text("edges: a name with an escape sequence", b"", "\x1b[31medges.csv")
fit_text("edges: a name that is not UTF-8", b"", os.fsdecode(b"edges\xff.csv"))
fit_text("edges: too many classes", GOOD, "edges.csv", "--classes", "999999")

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
    fit_text(f"gzip: {_name}", _content, "edges.csv.gz")


@case("gzip: a bomb of text")
def _(folder: Path, seeds: Seeds) -> list[Any]:
    with gzip.open(folder / "edges.csv.gz", "wb") as file:
        for _ in range(100):
            file.write(b"ann,bob\n" * 2**17)
    return fit(folder / "edges.csv.gz")


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


NEW = {
    "features: one column": ("--features", b"node\nnew\n"),
    "features: a column less": ("--features", b"node,x0\nnew,1\n"),
    "features: fitted nodes only": ("--features", b"node,x0,x1,x2\nv00,1,1,1\n"),
    "features: NaN": ("--features", b"node,x0,x1,x2\nnew,1,nan,1\n"),
    "features: a node twice": ("--features", b"node,x0,x1,x2\nnew,1,1,1\nnew,1,1,1\n"),
    "features: a zero byte": ("--features", b"node,x0,x1,x2\nnew,1,1,\0\n"),
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
