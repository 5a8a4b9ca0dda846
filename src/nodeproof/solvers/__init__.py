"""Solvers: each takes a problem and returns a `Result`."""

from nodeproof.solvers.base import Progress, Result, Status
from nodeproof.solvers.block import BlockCADO

__all__ = ["BlockCADO", "Progress", "Result", "Status"]
