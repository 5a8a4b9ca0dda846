"""Solvers: each takes a `Problem` and returns a `Result`, which the problem judges.

`BlockCADO` is the one of every fit: `block` alternates between models and `memberships`, `sweep`
updates these, `starts` proposes where to begin, `beliefs` makes probabilities, `checkpoint` saves
the state. Solvers of the convex program live in `nodeproof.convex` and are found here on first use.
May import `problem` and what is below it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from nodeproof.solvers.base import Progress, Result, Status
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
