"""Where the nodes of a small graph are drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csgraph, triu

__all__ = ["lay_out"]

_STEPS = 60

# How far apart, in links, nodes are drawn that no path joins.
_APART = 2.0


def lay_out(adjacency: Any) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return positions whose distances are close to numbers of links, and the links.

    Minimises ``Σ (‖x_u − x_v‖ − d_uv)² / d_uv²`` by majorisation.

    Parameters
    ----------
    adjacency : sparse matrix of shape (n, n)
        Symmetric; for some hundred nodes.

    Returns
    -------
    positions : ndarray of shape (n, 2)
        Centred, the farthest node within the unit circle.
    links : ndarray of shape (m, 2)
        Each once.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import csr_array
    >>> path = csr_array(np.diag([1, 1], 1) + np.diag([1, 1], -1))
    >>> positions, links = lay_out(path)
    >>> np.linalg.norm(positions, axis=1).round(1).tolist(), links.tolist()
    ([1.0, 0.0, 1.0], [[0, 1], [1, 2]])
    """
    n = adjacency.shape[0]
    links = np.column_stack(triu(adjacency, k=1).nonzero()).astype(np.int64)
    if n == 1:
        return np.zeros((1, 2), dtype=np.float32), links
    # Dense, as the distances are: scipy before 1.13 takes no indices of 64 bits.
    hops = csgraph.shortest_path(adjacency.toarray(), unweighted=True, directed=False)
    finite = np.isfinite(hops)
    hops[~finite] = hops[finite].max() + _APART
    weights = np.divide(1.0, hops**2, out=np.zeros_like(hops), where=hops > 0)
    laplacian = np.diag(weights.sum(axis=1)) - weights
    inverse = np.linalg.pinv(laplacian)
    positions = _spread(hops)
    for _ in range(_STEPS):
        apart = np.linalg.norm(positions[:, None] - positions[None], axis=2)
        pull = weights * np.divide(hops, apart, out=np.zeros_like(hops), where=apart > 1e-9)
        step = np.diag(pull.sum(axis=1)) - pull
        positions = inverse @ (step @ positions)
    positions -= positions.mean(axis=0)
    farthest = np.linalg.norm(positions, axis=1).max()
    return (positions / (farthest or 1.0)).astype(np.float32), links


def _spread(hops: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a start: the two directions in which distances differ most, and a little noise."""
    n = len(hops)
    centre = np.eye(n) - 1.0 / n
    values, vectors = np.linalg.eigh(-0.5 * centre @ (hops**2) @ centre)
    start = vectors[:, -2:] * np.sqrt(np.maximum(values[-2:], 1e-6))
    # An eigenvector may come with either sign.
    start *= np.where(start[np.abs(start).argmax(axis=0), [0, 1]] < 0, -1.0, 1.0)
    return np.asarray(start + 0.05 * np.random.default_rng(0).standard_normal((n, 2)))
