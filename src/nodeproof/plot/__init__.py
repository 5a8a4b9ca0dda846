"""Pictures for notebooks, on matplotlib Axes: of a fitted classifier, and of experiments.

Every function draws on the Axes it is given, or on new ones, and returns them; none shows a window
or changes settings. Needs ``pip install 'nodeproof[plot]'``.
"""

from nodeproof.plot.classifier import block_matrix, node_map, reliability, sources

__all__ = [
    "block_matrix",
    "node_map",
    "reliability",
    "sources",
]
