"""CoGEnT: projection on an atomic ball by forward steps, re-fits and truncation."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nodeproof.atoms.joint import JointAtoms
from nodeproof.atoms.sets import Counted, Decomposition
from nodeproof.sets import Simplex

__all__ = ["Cogent"]

Array = NDArray[np.float64]

# Atoms below this share of the radius are dropped.
_TRUNCATION = 1e-7
_REFIT_STEPS, _REFIT_STEPS_SLIDING = 10, 50
_REFIT_PRECISION = 1e-10

# Of a set without a list of vertices: models to start the oracle from, models to take in at a
# time, and models to keep.
_LEADING, _TAKEN, _KEPT = 4, 2, 200
_SLIDES = 5


class Cogent:
    """Project points on ``{Σ λ_a a : λ ≥ 0, Σλ ≤ radius}`` over joint atoms, warm-started.

    Each forward step asks the oracle for atoms along the residual, re-fits all weights, and
    drops the atoms whose weight has become nothing. The re-fit is over *every* atom in the span
    of the embeddings that share a model: with an orthonormal basis Q_j of them, over all
    ``Q_j S_j Q_jᵀ``, S_j ⪰ 0. The eigenvectors of S_j then are the atoms. Where Θ has no list
    of vertices, the models of the atoms slide as well, so that few of them suffice.

    Parameters
    ----------
    atoms : JointAtoms
        Their set, or the same with its calls counted.
    radius : float
        τ > 0.
    each : int
        Eigenvectors to take for each model that the oracle returns.
    n_refit : int, optional
        Most gradient steps of a re-fit; few by default, as the next projection goes on.

    Attributes
    ----------
    models : ndarray of shape (k, d)
        The distinct models of the atoms.
    Q : ndarray of shape (k, n, r)
        Orthonormal embeddings of each model, padded with zeros.
    S : ndarray of shape (k, r, r)
        Their weights.
    gap : float
        The Frank–Wolfe gap before the last forward step: where the oracle is exact, it bounds
        half the squared distance from the projection.
    """

    def __init__(
        self,
        atoms: JointAtoms | Counted,
        radius: float,
        each: int = 8,
        n_refit: int | None = None,
    ) -> None:
        self.atoms, self.radius, self.each = atoms, radius, each
        self.n_refit = n_refit or (_REFIT_STEPS if atoms.exact else _REFIT_STEPS_SLIDING)
        n, d = atoms.n_nodes, atoms.models_set.dim
        self.models, self.Q, self.S = np.zeros((0, d)), np.zeros((0, n, 0)), np.zeros((0, 0, 0))
        self.gap = np.inf

    def point(self) -> tuple[Array, Array]:
        """Return the current sum of atoms: L (n, n) and the nodes' models (n, d)."""
        return self._point(self.S)

    def _point(self, S: Array) -> tuple[Array, Array]:
        QS = self.Q @ S
        L = np.einsum("jvr,jur->vu", QS, self.Q, optimize=True)
        shares = np.einsum("jvr,jvr->vj", QS, self.Q)
        return np.asarray(L), np.asarray(shares @ self.models)

    def decomposition(self) -> Decomposition:
        """Return the current sum of atoms as such."""
        values, vectors = np.linalg.eigh(self.S)
        scaled = (self.Q @ vectors) * np.sqrt(np.maximum(values, 0.0))[:, None]
        k, n, r = scaled.shape
        E, models = scaled.transpose(1, 0, 2).reshape(n, k * r), np.repeat(self.models, r, axis=0)
        used = values.ravel() > 0
        return Decomposition(E[:, used], models[used])

    def project(
        self,
        L: Array,
        theta: Array,
        n_forward: int = 1,
        tol: float = 0.0,
        n_starts: int | None = None,
    ) -> int:
        """Move towards the nearest point, and return how often the oracle was asked.

        Parameters
        ----------
        L, theta : ndarray of shapes (n, n) and (n, d)
            What to project.
        n_forward : int
            Most forward steps.
        tol : float
            Stop when the gap is below this times the squared size of the point.
        n_starts : int, optional
            Starts of the oracle where it alternates; its own by default.
        """
        size = tol * max(1.0, float(np.vdot(L, L) + np.vdot(theta, theta)))
        self._refit(L, theta)
        for asked in range(1, n_forward + 1):
            here = self.point()
            G, g = here[0] - L, here[1] - theta
            starts = None if self.atoms.exact else self._leading(_LEADING)
            E, models, values = self.atoms.find(
                G, g, starts=starts, n_starts=n_starts, each=self.each
            )
            self.gap = float(np.vdot(G, here[0]) + np.vdot(g, here[1]))
            self.gap -= self.radius * min(0.0, float(values.min()))
            if self.gap <= size:
                return asked
            good = values < 0
            if not self.atoms.exact:
                best = np.argsort(values[:: self.each], kind="stable")[:_TAKEN]
                good &= np.isin(np.arange(len(values)) // self.each, best)
            self._add(E[:, good], models[good])
            self._refit(L, theta)
            self._truncate()
        return n_forward

    def _leading(self, count: int) -> Array:
        """Return the models that carry most weight."""
        carried = np.trace(self.S, axis1=1, axis2=2)
        return self.models[np.argsort(-carried, kind="stable")[:count]]

    def _slide(self, theta: Array) -> None:
        """Move the models towards what the nodes they belong to ask for, within Θ."""
        shares = np.einsum("jvr,jvr->vj", self.Q @ self.S, self.Q)
        step = 1.0 / max(float(np.linalg.norm(shares, 2)) ** 2, 1e-12)
        for _ in range(_SLIDES):
            apart = shares @ self.models - theta
            self.models = self.atoms.models_set.project(self.models - step * shares.T @ apart)

    def _add(self, E: Array, models: Array) -> None:
        """Take in further embeddings, each with those that share its model.

        Models may have slid to the same point of Θ: their embeddings and weights are joined.
        """
        every, inverse = np.unique(np.vstack([self.models, models]), axis=0, return_inverse=True)
        n, old = len(E), len(self.models)
        bases = []
        for k in range(len(every)):
            of = np.flatnonzero(inverse[:old] == k)
            known = self.Q[of[0]] if len(of) else np.zeros((n, 0))
            known = known[:, (known != 0).any(axis=0)]
            fresh = np.hstack([*self.Q[of[1:]], E[:, inverse[old:] == k]])
            fresh = fresh - known @ (known.T @ fresh)
            fresh = fresh - known @ (known.T @ fresh)
            vectors, lengths, _ = np.linalg.svd(fresh, full_matrices=False)
            bases.append((known, vectors[:, lengths > 1e-8]))
        rank = max(known.shape[1] + fresh.shape[1] for known, fresh in bases)
        Q, S = np.zeros((len(every), n, rank)), np.zeros((len(every), rank, rank))
        for k, (known, fresh) in enumerate(bases):
            r = known.shape[1]
            Q[k, :, :r], Q[k, :, r : r + fresh.shape[1]] = known, fresh
            of = np.flatnonzero(inverse[:old] == k)
            if len(of):
                S[k, :r, :r] = self.S[of[0], :r, :r]
            for other in of[1:]:
                turned = Q[k].T @ self.Q[other]
                S[k] += turned @ self.S[other] @ turned.T
        self.models, self.Q, self.S = every, Q, S

    def _refit(self, L: Array, theta: Array) -> None:
        """Find the best weights within the span (accelerated projected gradients)."""
        if not self.S.size:
            return
        step = 1.0 / self._curvature()
        S = ahead = self.S
        momentum = 1.0
        for _ in range(self.n_refit):
            here = self._point(ahead)
            residual, pulls = here[0] - L, (here[1] - theta) @ self.models.T
            slope = self.Q.swapaxes(1, 2) @ (residual @ self.Q + pulls.T[:, :, None] * self.Q)
            new = self._onto_ball(ahead - step * slope)
            moved = new - S
            if np.vdot(ahead - new, moved) > 0:  # uphill: forget the momentum
                momentum = 1.0
            following = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
            ahead = new + (momentum - 1.0) / following * moved
            S, momentum = new, following
            if np.vdot(moved, moved) <= (_REFIT_PRECISION * self.radius) ** 2:
                break
        self.S = S
        if not self.atoms.exact:
            self._slide(theta)

    def _curvature(self) -> float:
        """Return the largest curvature of half the squared distance in S (power iterations)."""
        S = np.tile(np.eye(self.S.shape[1]), (len(self.S), 1, 1))
        size = 1.0
        for _ in range(12):
            S = S / np.linalg.norm(S)
            L, theta = self._point(S)
            pulls = theta @ self.models.T
            S = self.Q.swapaxes(1, 2) @ (L @ self.Q + pulls.T[:, :, None] * self.Q)
            size = float(np.linalg.norm(S))
        return 1.1 * size + 1e-12

    def _onto_ball(self, S: Array) -> Array:
        """Project weights on the semidefinite ones of total trace τ at most."""
        values, vectors = np.linalg.eigh(0.5 * (S + S.swapaxes(1, 2)))
        clipped = np.maximum(values, 0.0)
        if clipped.sum() > self.radius:
            clipped = self.radius * Simplex().project(values.ravel() / self.radius)
            clipped = clipped.reshape(values.shape)
        return np.asarray((vectors * clipped[:, None]) @ vectors.swapaxes(1, 2))

    def _truncate(self) -> None:
        """Drop embeddings and models of no weight."""
        values, vectors = np.linalg.eigh(self.S)
        values, vectors = values[:, ::-1], vectors[:, :, ::-1]  # what is kept comes first
        kept = values > _TRUNCATION * self.radius
        used = kept.any(axis=1)
        if not self.atoms.exact and used.sum() > _KEPT:
            used &= np.argsort(np.argsort(-np.maximum(values, 0.0).sum(axis=1))) < _KEPT
        rank = int(kept.sum(axis=1).max(initial=0))
        values, kept = values[used, :rank], kept[used, :rank]
        self.models = self.models[used]
        self.Q = (self.Q @ vectors)[used, :, :rank] * kept[:, None]
        self.S = np.where(kept, values, 0.0)[:, :, None] * np.eye(rank)
