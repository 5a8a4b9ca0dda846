"""Convex sets that class models live in, each with its linear minimisation oracle.

All methods are batched: leading axes of an array count its points, and what comes back has the
same leading axes. A new set derives from `ConvexSet` and is then covered by the contract tests. All
that is listed here is public. Imports numpy and scipy only.
"""

from nodeproof.sets.balls import Box, Similarities, Simplex, SpectralBox
from nodeproof.sets.base import ConvexSet, Product

__all__ = ["Box", "ConvexSet", "Product", "Similarities", "Simplex", "SpectralBox"]
