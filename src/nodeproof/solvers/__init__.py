"""Solvers: each takes a problem and returns a `Result`."""

from nodeproof.solvers.admm import BlockADMM
from nodeproof.solvers.base import Progress, Result, Status
from nodeproof.solvers.block import BlockCADO
from nodeproof.solvers.cado import CADO
from nodeproof.solvers.cano import CANO
from nodeproof.solvers.convex import ConvexResult
from nodeproof.solvers.lifted import LabellingResult
from nodeproof.solvers.sdp import ExactSDP

__all__ = [
    "CADO",
    "CANO",
    "BlockADMM",
    "BlockCADO",
    "ConvexResult",
    "ExactSDP",
    "LabellingResult",
    "Progress",
    "Result",
    "Status",
]
