"""Convex sets that class models live in, each with its linear minimisation oracle.

All methods are batched: the leading axes of an array count its points, and results have the same
leading axes. May import nothing but `errors`.
"""

from nodeproof.sets.balls import Box, Similarities, Simplex, SpectralBox
from nodeproof.sets.base import ConvexSet, Product

__all__ = ["Box", "ConvexSet", "Product", "Similarities", "Simplex", "SpectralBox"]
