"""Atomic sets: each has its linear minimisation oracle, its norm and its projection.

The convex solvers minimise over them; a new set derives from `AtomicSet` and is then covered by the
contract tests. The sets listed here are public; `cogent` belongs to `JointAtoms`.
May import `sets` and what is below it.
"""

from nodeproof.atoms.base import AtomicSet, Calls, Counted, Decomposition
from nodeproof.atoms.classic import RankOne, SignedBasis, SymmetricPositive, SymmetricSigned
from nodeproof.atoms.joint import JointAtoms

__all__ = [
    "AtomicSet",
    "Calls",
    "Counted",
    "Decomposition",
    "JointAtoms",
    "RankOne",
    "SignedBasis",
    "SymmetricPositive",
    "SymmetricSigned",
]
