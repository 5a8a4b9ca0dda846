"""Data to learn and to measure on: planted, public, or in a user's files."""

from nodeproof.datasets.dataset import Dataset
from nodeproof.datasets.loading import available, load
from nodeproof.datasets.planted import Planted, make_planted
from nodeproof.datasets.planted_files import write_planted
from nodeproof.datasets.reading import read_graph

__all__ = [
    "Dataset",
    "Planted",
    "available",
    "load",
    "make_planted",
    "read_graph",
    "write_planted",
]
