"""Reading users' files into one node set, and writing outputs that are whole or not there."""

from nodeproof.io.atomic import atomic_folder, atomic_path
from nodeproof.io.tables import Tables, read_tables

__all__ = ["Tables", "atomic_folder", "atomic_path", "read_tables"]
