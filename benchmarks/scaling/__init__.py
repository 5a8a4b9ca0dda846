"""How time and memory grow with the graph: what `benchmarks/scale.py` runs."""

from scaling.report import Report
from scaling.rows import Row
from scaling.run import bench

__all__ = ["Report", "Row", "bench"]
