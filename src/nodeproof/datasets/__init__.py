"""Data to learn and to measure on."""

from nodeproof.datasets.planted import Planted, make_planted

__all__ = ["Planted", "make_planted"]
