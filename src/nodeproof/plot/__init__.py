"""Plots of a fitted classifier for notebooks, on matplotlib Axes.

Every function draws on the given Axes, or on new ones, and returns them; none opens a window or
changes settings. Needs ``pip install 'nodeproof[plot]'``. Everything listed here is public. May
import `interop`, `report`, `estimator` and what is below them.
"""

from nodeproof.plot.classifier import block_matrix, node_map, reliability, sources

__all__ = [
    "block_matrix",
    "node_map",
    "reliability",
    "sources",
]
