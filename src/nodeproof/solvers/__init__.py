"""Solvers: each takes a problem and returns a `Result`."""

from nodeproof.solvers.base import Progress, Result, Status
from nodeproof.solvers.block import BlockCADO
from nodeproof.solvers.cado import CADO

__all__ = ["CADO", "BlockCADO", "Progress", "Result", "Status"]
