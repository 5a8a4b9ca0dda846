"""Biased centroids together with the flows between classes that prove them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodeproof.characteristic import biased_centroids
from nodeproof.problem import Models
from nodeproof.program import Program
from nodeproof.pulling import Pulled, minimise

__all__ = ["Proven", "prove_centroids"]

Array = NDArray[np.float64]

# How near value and bound are to come, as a share of the loss, and for how long.
_TOLERANCE, _STEPS = 1e-13, 20_000


@dataclass(frozen=True)
class Proven:
    """Biased centroids, and what proves that they are.

    Attributes
    ----------
    theta : ndarray of shape (k, d)
        The centroids.
    tangents : ndarray of shape (k, d)
        Where losses are replaced by their tangents: at the centroids or next to them.
    between : ndarray of shape (k, k, d)
        Flows ``g_ij = −g_ji`` between the classes, no longer than one.
    """

    theta: Array
    tangents: Array
    between: Array


class _Remembering(Pulled):
    """The pulled losses, which remember the multipliers that proved most."""

    best = -np.inf
    at: Array
    duals: Array

    def bound(self, theta: Array, duals: Array) -> float:
        """Return the bound, and keep in mind what it was proven by."""
        proven = super().bound(theta, duals)
        if proven > self.best:
            self.best, self.at, self.duals = proven, theta, duals
        return proven


def prove_centroids(program: Program, W: NDArray[Any]) -> Proven:
    """Return the biased centroids of classes that all have nodes, and flows between them.

    A value that is exact to many digits has centroids, and so directions between them, to half
    as many. The multipliers that prove the value are better than those.

    Parameters
    ----------
    program : Program
        The convex program.
    W : ndarray of shape (n, K)
        One-hot rows; classes without nodes are left out of what is returned.

    Examples
    --------
    >>> import numpy as np
    >>> from nodeproof import Problem
    >>> from nodeproof.certificate.program_centroids import prove_centroids
    >>> from nodeproof.program import Program
    >>> from nodeproof.terms import Labels, NodeData
    >>> labels = Labels().bind(NodeData(n_classes=2, y=np.array([0, 0, 1])))
    >>> program = Program(Problem(None, [labels], 2, weights=(0.0, 0.0, 1.0), son=0.1))
    >>> found = prove_centroids(program, np.eye(2)[[0, 0, 1]])
    >>> found.theta
    array([[1., 0.],
           [0., 1.]])
    >>> found.between[0, 1].round(6)
    array([ 0.707107, -0.707107])
    """
    filled = W.any(axis=0)
    models = biased_centroids(program.problem, W).models
    theta = program.class_models(Models(None, models, np.zeros(W.shape[1])))[filled]
    k, d = theta.shape
    if not program.son or not d or k == 1:
        return Proven(theta, theta, np.zeros((k, k, d)))
    W = W[:, filled]
    terms = [term for term, _ in program.terms]
    pulled = _Remembering(terms, [beta for _, beta in program.terms], W, W.sum(axis=0), program.son)
    start = pulled.pack(program.models_set.split(theta))
    alone = pulled.pack([term.refit(W) for term in terms])
    even = np.repeat(W.mean(axis=1, keepdims=True), k, axis=1)
    merged = np.repeat(pulled.pack([term.refit(even)[:1] for term in terms]), k, axis=0)
    found = minimise(pulled, start, alone, merged, _TOLERANCE, _STEPS)
    return Proven(found.theta, pulled.at, pulled.duals / pulled.gamma)
