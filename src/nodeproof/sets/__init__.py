"""Convex sets that class models live in, each with its linear minimisation oracle.

All methods are batched: leading axes of an array count its points, and what comes back has
the same leading axes.
"""

from nodeproof.sets.balls import Box, Similarities, Simplex, SpectralBox
from nodeproof.sets.base import ConvexSet, Product

__all__ = ["Box", "ConvexSet", "Product", "Similarities", "Simplex", "SpectralBox"]
