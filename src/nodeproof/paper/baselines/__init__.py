"""Baselines from the literature, implemented with care.

Each is one function that returns a class 0…K−1 for every node. Features are taken as centred,
with one covariance per class, as in `datasets.make_planted`; append a column of ones to give every
class a mean as well.

All that is listed here is public. May import `convex`, `solvers` and what is below them; only
`paper.experiments` and the command line import it.
"""

from nodeproof.paper.baselines.networks import graph_network
from nodeproof.paper.baselines.refinement import bregman_clustering, ir_ls, ir_map
from nodeproof.paper.baselines.single_source import (
    gaussian_classifier,
    label_propagation,
    sdp_clustering,
    spectral_clustering,
)

__all__ = [
    "bregman_clustering",
    "gaussian_classifier",
    "graph_network",
    "ir_ls",
    "ir_map",
    "label_propagation",
    "sdp_clustering",
    "spectral_clustering",
]
