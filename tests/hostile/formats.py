"""MatrixMarket, GraphML, GML, edge lists, zip files and pickles."""

from __future__ import annotations

import gzip
import pickle
from pathlib import Path
from typing import Any

import numpy as np

from hostile.making import (
    Seeds,
    add,
    fit_into,
    fit_text,
)
from hostile.packing import Trap, npz, zipped

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
    fit_text(_name, _content, _file)

PICKLES = {
    "a function to run": pickle.dumps(Trap()),
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
