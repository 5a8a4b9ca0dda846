"""Convex sets that class models live in, each with its linear minimisation oracle.

All methods are batched: leading axes of an array count its points, and what comes back has
the same leading axes.
"""

from nodeproof.sets.base import ConvexSet
from nodeproof.sets.matrices import Similarities, SpectralBox
from nodeproof.sets.product import Product
from nodeproof.sets.vectors import Box, Simplex

__all__ = ["Box", "ConvexSet", "Product", "Similarities", "Simplex", "SpectralBox"]
