"""Data to learn and to measure on: planted, public, or in a user's files.

`make_planted` and `write_planted` make graphs with known classes, `load` fetches public ones,
`read_graph` reads files of any supported kind; all return a `Dataset` or `Planted`. What is listed
here is public. May import `tables`, `inputs` and what is below them; only `paper` and `cli` import
this room.
"""

from nodeproof.datasets.dataset import Dataset
from nodeproof.datasets.loading import available, load
from nodeproof.datasets.planted import Planted, make_planted
from nodeproof.datasets.planted_files import write_planted
from nodeproof.datasets.reading import read_graph

__all__ = ["Dataset", "Planted", "available", "load", "make_planted", "read_graph", "write_planted"]
