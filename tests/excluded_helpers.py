"""Certificates by which no optimal labelling keeps some of the given labels."""

from typing import Any

import numpy as np

__all__ = ["Excluding"]


class Excluding:
    """A certificate that also excludes the given labels of some nodes."""

    def __init__(self, proof: Any, given: Any, nodes: Any, renaming: bool = False) -> None:
        self.proof, self.renaming = proof, renaming
        self.possible = np.ones((len(given), int(np.max(given)) + 1), dtype=bool)
        self.possible[nodes, given[nodes]] = False

    def __getattr__(self, name: str) -> Any:
        return getattr(vars(self)["proof"], name)
