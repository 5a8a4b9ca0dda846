"""How time and memory grow with the graph: what `nodeproof bench` runs."""

from nodeproof.bench.report import Report
from nodeproof.bench.rows import Row
from nodeproof.bench.running import bench

__all__ = ["Report", "Row", "bench"]
