"""Memberships on a Dask cluster: parts of the graph, each swept where it lies.

Used by `BlockCADO` where an engine is given, and gives the same bits as one machine does. Nothing
here is public. May import `solvers`, `problem`, `graph` and what is below them.
"""
