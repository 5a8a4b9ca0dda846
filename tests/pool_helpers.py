"""Graphs that no block model describes, so that experts are pooled; and experts of users."""

import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp

from nodeproof.auto.experts.registry import make_expert
from nodeproof.experts import Expert

FOLDER = Path(__file__).parents[1] / "examples/experts"
sys.path.insert(0, str(FOLDER))

from neighbours import LearntNeighbours, Neighbours  # noqa: E402

__all__ = ["FOLDER", "LearntNeighbours", "Neighbours", "Uneven", "given_experts", "make_uneven"]


class Uneven(NamedTuple):
    """Nodes of very uneven degrees, with features of heavy tails."""

    X: np.ndarray
    y: np.ndarray
    graph: sp.csr_array
    y_true: np.ndarray

    @property
    def counts(self) -> sp.csr_array:
        """Sparse features."""
        return sp.csr_array(np.floor(np.abs(self.X)))


def make_uneven(n: int = 300, n_classes: int = 3, labelled: float = 0.3, seed: int = 0) -> Uneven:
    """Return nodes whose links and features tell their class, but not surely."""
    rng = np.random.default_rng(seed)
    z = rng.integers(0, n_classes, n)
    popular = rng.pareto(1.5, n) + 0.5
    popular /= popular.mean()
    likely = np.where(z[:, None] == z, 9.0, 3.0) / n * np.outer(popular, popular)
    upper = np.triu(rng.random((n, n)) < likely, 1)
    X = rng.standard_normal((n, 8))
    X[:, :n_classes] += 1.2 * np.eye(n_classes)[z]
    X = np.sign(X) * np.abs(X) ** 1.7
    y = np.where(rng.random(n) < labelled, z, -1)
    return Uneven(X, y, sp.csr_array((upper | upper.T).astype(float)), z)


def given_experts(config: pytest.Config) -> list[Expert]:
    """Return the experts that the command line names; none where it does not."""
    return [make_expert(place) for place in config.getoption("--own-expert")]
