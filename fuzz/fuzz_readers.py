"""Read files of every kind that nodeproof reads, whole and damaged.

A reader ends with a documented error, or what it returns hangs together: a symmetric graph
without loops, one name, one row of features and one label a node. Simple lists of links are
compared with what a few lines of Python make of them.
"""

from __future__ import annotations

import gzip
import io
import re
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.io
import scipy.sparse as sp

from harness import is_documented, run
from nodeproof.datasets import read_graph
from nodeproof.datasets.reading import read_with_tables
from nodeproof.tables.new_nodes import read_new_nodes
from nodeproof.tables.reading import read_tables

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from planetoid_helpers import citations, write_planetoid

# What separates the files in an input of several.
_NEXT = b"\n%%%%\n"

_SUFFIXES = (
    ".csv", ".txt", ".tsv", ".csv.gz", ".parquet", ".npz", ".mtx", ".graphml", ".gml", ".edgelist",
    ".zip", ".mtx.gz", ".edges",
)  # fmt: skip

_PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")

_SIMPLE = re.compile(rb"(?:(?:[a-z]|[1-9])[a-z0-9]{0,3},(?:[a-z]|[1-9])[a-z0-9]{0,3}\n)+")

FOLDER = Path(tempfile.mkdtemp(prefix="nodeproof-fuzz-"))


def check_graph(graph: Any, n: int) -> None:
    assert graph.shape == (n, n), "shape"
    assert np.isfinite(graph.data).all(), "weights are not finite"
    assert (graph.data > 0).all(), "weights are not positive"
    assert not graph.diagonal().any(), "loops"
    assert abs(graph - graph.T).nnz == 0, "not symmetric"


def check_tables(tables: Any) -> None:
    n = len(tables.ids)
    check_graph(tables.graph, n)
    assert len(set(tables.ids.tolist())) == n, "ids repeat"
    if tables.X is not None:
        assert tables.X.shape[0] == n, "features"
        entries = tables.X.data if sp.issparse(tables.X) else tables.X
        assert np.isfinite(entries).all(), "features are not finite"
        assert tables.feature_names is None or len(tables.feature_names) == tables.X.shape[1]
    if tables.y is not None:
        assert len(tables.y) == n, "labels"
    repr(tables)


def check_dataset(data: Any) -> None:
    n = data.graph.shape[0]
    check_graph(data.graph, n)
    for part in (data.X, data.y, data.names):
        assert part is None or part.shape[0] == n, "lengths"
    repr(data)


def check_links(path: Path, content: bytes) -> None:
    """Compare a simple list of links with what Python makes of it."""
    pairs = [tuple(line.split(",")) for line in content.decode().splitlines()]
    names = {name for pair in pairs for name in pair}
    if any(name.lower() in ("source", "target", "weight", "node", "id") for name in names):
        return
    tables = read_tables(path, header=False)
    assert {str(name) for name in tables.ids.tolist()} == names, "names"
    matrix = sp.coo_array(tables.graph)
    found = {
        frozenset((str(tables.ids[u]), str(tables.ids[v])))
        for u, v in zip(*matrix.coords, strict=True)
    }
    assert found == {frozenset(pair) for pair in pairs if len(set(pair)) == 2}, "links"


def write(name: str, content: bytes) -> Path:
    path = FOLDER / name
    path.write_bytes(gzip.compress(content, 1) if name.endswith("csv.gz") else content)
    return path


def read(options: bytes, content: bytes) -> None:
    """Read the content as the options say; they are four bytes."""
    kind, suffix, header, more = options
    header_given = (None, True, False)[header % 3]
    parts = content.split(_NEXT)
    if kind % 5 == 0:  # up to three tables
        names = [_SUFFIXES[(suffix >> shift) % 6] for shift in (0, 2, 4)]
        paths = [write(f"{k}{names[k]}", part) for k, part in enumerate(parts[:3])]
        tables = read_with_tables(*paths, header=header_given, strict=more % 7 == 0)
        check_tables(tables)
        if names[0] in (".csv", ".txt") and _SIMPLE.fullmatch(parts[0]):
            check_links(paths[0], parts[0])
    elif kind % 5 == 1:
        path = write(f"graph{_SUFFIXES[suffix % len(_SUFFIXES)]}", content)
        check_dataset(read_graph(path))
    elif kind % 5 == 2:
        for name, part in zip(_PARTS, parts, strict=False):
            write(f"ind.some.{name}", part)
        check_dataset(read_graph(FOLDER))
    elif kind % 5 == 3:
        name = _SUFFIXES[suffix % 6]
        edges = write(f"edges{name}", parts[0])
        features = write(f"features{name}", parts[1]) if len(parts) > 1 else None
        fitted = np.array(["a", "b", "c"]) if more % 2 else np.arange(3)
        names = ["u", "v"] if features is not None else None
        given = read_new_nodes(fitted, features, edges, names=names, header=header_given)
        assert len(set(given.ids.tolist())) == len(given.ids), "new ids repeat"
    else:
        columns: dict[str, Any] = {"source": (None, 0, "a", 5)[more % 4], "target": more % 3}
        check_tables(read_tables(write("t.csv", content), header=header_given, **columns))


def test_one(data: bytes) -> None:
    if len(data) < 4:
        return
    for old in FOLDER.iterdir():
        old.unlink() if old.is_file() else shutil.rmtree(old)
    try:
        read(data[:4], data[4:])
    except Exception as error:
        if not is_documented(error):
            raise


def seeds() -> list[bytes]:
    """Return a file of every kind."""
    edges = [b"a,b\nb,c\nc,a\n", b"source\ttarget\tweight\n1\t2\t0.5\n2\t3\t1e3\n", b"1 2\n2 3\n"]
    features = b"node,u,v\na,1,2\nb,3.5,-4\nc,0,1e3\n"
    labels = b'node,label\na,"red, dark"\nb,?\nc,blue\n'
    found = [bytes([0, 0, h, 1]) + text for h in range(3) for text in edges]
    found += [bytes([0, 0, 0, 1]) + _NEXT.join([edges[0], features, labels])]
    found += [bytes([4, 0, 0, k]) + edges[0] for k in range(4)]
    found += [bytes([3, 0, 0, 1]) + _NEXT.join([b"x,a\ny,b\nx,y\n", b"node,u,v\nx,1,2\ny,3,4\n"])]
    matrix = sp.csr_array(np.array([[0, 1.0, 0], [1, 0, 2.5], [0, 2.5, 0]]))
    table = pa.table({"source": ["a", "b"], "target": ["b", "c"], "weight": [1.0, 2.0]})
    integers = pa.table({"source": [1, 2], "target": [2, 3]})
    for rows in (table, integers):
        file = io.BytesIO()
        pq.write_table(rows, file, compression="none")
        found += [bytes([0, 4, 0, 1]) + file.getvalue(), bytes([1, 4, 0, 1]) + file.getvalue()]
    for arrays in (
        {"adj_indptr": matrix.indptr, "adj_indices": matrix.indices, "adj_data": matrix.data},
        {"edge_index": np.array([[0, 1], [1, 2]]), "x": np.eye(3), "y": np.arange(3)},
        {"edges": np.array([[0, 1], [1, 2]]), "node_features": np.eye(3), "node_labels": [0, 1, 1]},
    ):
        file = io.BytesIO()
        np.savez(file, **arrays)
        found += [bytes([0, 5, 0, 1]) + file.getvalue(), bytes([1, 5, 0, 1]) + file.getvalue()]
    file = io.BytesIO()
    sp.save_npz(file, matrix)
    found.append(bytes([1, 5, 0, 1]) + file.getvalue())
    file = io.BytesIO()
    scipy.io.mmwrite(file, matrix)
    found.append(bytes([1, 6, 0, 1]) + file.getvalue())
    found.append(bytes([1, 11, 0, 1]) + gzip.compress(file.getvalue()))
    found += [bytes([1, k, 0, 1]) + text for k, text in _network_files().items()]
    found += _published()
    return found


def _network_files() -> dict[int, bytes]:
    gml = b'graph [ node [ id 0 label "a" ] node [ id 1 label "b" ] edge [ source 0 target 1 ] ]'
    graphml = (
        b'<graphml><key id="d" for="node" attr.name="label" attr.type="string"/><graph edgedefault='
        b'"undirected"><node id="a"><data key="d">x</data></node><node id="b"/>'
        b'<edge source="a" target="b"/></graph></graphml>'
    )
    return {7: graphml, 8: gml, 9: b"0 1 {'weight': 2.0}\n1 2\n"}


def _published() -> list[bytes]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_planetoid(folder, citations(), "some")
        planetoid = _NEXT.join((folder / f"ind.some.{part}").read_bytes() for part in _PARTS)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("arxiv/raw/edge.csv.gz", gzip.compress(b"0,1\n1,2\n"))
        archive.writestr("arxiv/raw/num-node-list.csv.gz", gzip.compress(b"3\n"))
        archive.writestr("arxiv/raw/node-feat.csv.gz", gzip.compress(b"1,2\n3,4\n5,6\n"))
        archive.writestr("arxiv/raw/node-label.csv.gz", gzip.compress(b"0\n1\n1\n"))
    return [bytes([2, 0, 0, 0]) + planetoid, bytes([1, 10, 0, 0]) + file.getvalue()]


if __name__ == "__main__":
    run(test_one, "readers", seeds())
