"""Solvers: each takes a `Problem` and returns a `Result`, which the problem judges.

`base` says what a solver is: any object with the method of `Solver`, also one of your own.
`block` is the default, with its sweeps, starts, memberships and checkpoints in modules of their
own; `cado` is the paper's. The solvers of the convex program live in `nodeproof.convex` and are
imported here on first use. May import `problem` and what is below it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from nodeproof.solvers.base import Progress, Result, Solver, Status
from nodeproof.solvers.block import BlockCADO
from nodeproof.solvers.cado import CADO

if TYPE_CHECKING:
    from nodeproof.convex.admm import BlockADMM
    from nodeproof.convex.cano import CANO
    from nodeproof.convex.results import ConvexResult, LabellingResult
    from nodeproof.convex.sdp import ExactSDP

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
    "Solver",
    "Status",
]

_CONVEX = {
    "BlockADMM": "admm",
    "CANO": "cano",
    "ConvexResult": "results",
    "ExactSDP": "sdp",
    "LabellingResult": "results",
}


def __getattr__(name: str) -> Any:
    if name in _CONVEX:
        return getattr(import_module(f"nodeproof.convex.{_CONVEX[name]}"), name)
    raise AttributeError(f"module 'nodeproof.solvers' has no attribute {name!r}")
