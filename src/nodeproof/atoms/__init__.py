"""Atomic sets, each with its linear minimisation oracle, its norm and its projection."""

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
