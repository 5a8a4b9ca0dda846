"""Atomic sets, each with its linear minimisation oracle, its norm and its projection.

`joint` has the paper's own atoms and `cogent` the projection on their ball. May import `sets`,
`solvers.semidefinite` and what is below them.
"""

from nodeproof.atoms.joint import JointAtoms
from nodeproof.atoms.sets import (
    AtomicSet,
    Calls,
    Counted,
    Decomposition,
    RankOne,
    SignedBasis,
    SymmetricPositive,
    SymmetricSigned,
)

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
