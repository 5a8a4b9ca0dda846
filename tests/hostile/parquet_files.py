"""Parquet files."""

from __future__ import annotations

import struct

import pyarrow as pa

from hostile.making import (
    fit_text,
)
from hostile.packing import parquet
from hostile.tables import GOOD

_PQ = parquet({"source": ["ann", "bob"] * 50, "target": ["bob", "eve"] * 50})
_NULL = pa.array([None, "eve"], pa.string())
PARQUET = {
    "empty": b"",
    "its first bytes only": b"PAR1",
    "its ends only": b"PAR1PAR1",
    "text": GOOD,
    "cut at its end": _PQ[:-10],
    "cut in its middle": _PQ[: len(_PQ) // 2],
    "another beginning and end": b"ORC1" + _PQ[4:-4] + b"ORC1",
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
    fit_text(f"parquet: {_name}", _content, "edges.parquet")
