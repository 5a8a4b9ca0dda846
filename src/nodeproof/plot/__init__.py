"""Pictures of a fitted classifier for notebooks, on matplotlib Axes.

Every function draws on the Axes it is given, or on new ones, and returns them; none shows a window
or changes settings. Needs ``pip install 'nodeproof[plot]'``. All that is listed here is public.
May import `report`, `estimator` and what is below them.
"""

from nodeproof.plot.classifier import block_matrix, node_map, reliability, sources

__all__ = [
    "block_matrix",
    "node_map",
    "reliability",
    "sources",
]
