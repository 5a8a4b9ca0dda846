"""Distributed fits: the memberships of a problem on the workers of a Dask cluster.

`DaskEngine` is what solvers are given; `layout` says which worker holds what, `worker` what a
worker does with its part, and `memberships` drives the workers. It may import `solvers` and what
is below; the package `distributed` is imported on first use.
"""

from nodeproof.distributed.engine import DaskEngine, as_engine

__all__ = ["DaskEngine", "as_engine"]
