"""A response, the last feature, that is linear in the others: y ≈ xᵀβ, with β per class."""

import numpy as np

from nodeproof.sets import Box
from nodeproof.terms import SummableTerm, register


@register
class Regression(SummableTerm):
    """The last feature given the others; class i has (β_i, σ_i²), shape (K, m + 1)."""

    source = "features"
    ridge = 1e-2  # of the loss; it bounds the coefficients

    def bind(self, nodes):
        """Return a copy that holds x, 1 and y, shape (n, m + 1)."""
        bound = self.copy_for(nodes)
        bound.X = np.insert(nodes.X, -1, 1.0, axis=1)
        far = np.full(bound.X.shape[1] - 1, np.abs(bound.X[:, -1]).max() / np.sqrt(self.ridge))
        bound.models_set = Box(np.append(-far, 1.0), np.append(far, 1.0))
        return bound

    def cost(self, models, lo, hi):
        """Return −log N(y; xᵀβ_i, σ_i²) for the nodes lo…hi, shape (hi − lo, K)."""
        off = self.X[lo:hi, -1:] - self.X[lo:hi, :-1] @ models[:, :-1].T
        return 0.5 * (off**2 / models[:, -1] + np.log(2 * np.pi * models[:, -1]))

    def penalty(self, models):
        """Return what one more node per class costs, a mean of all: the prior."""
        return float(self.cost(models, 0, self.n_nodes).mean(axis=0).sum())

    def sums(self, W, lo, hi):
        """Return the second moments of x, 1 and y in each class, shape (K, m + 1, m + 1)."""
        return np.stack([(self.X[lo:hi].T * w) @ self.X[lo:hi] for w in W.T.astype(float)])

    def estimate_from(self, sums):
        """Return coefficients and variances by these moments and those of the prior."""
        M = sums + self.X.T @ self.X / self.n_nodes
        beta = np.linalg.pinv(M[:, :-1, :-1]) @ M[:, :-1, -1:]
        left = M[:, -1, -1:] - (beta * M[:, :-1, -1:]).sum(axis=1)
        return np.hstack([beta[..., 0], np.maximum(left / M[:, -2, -2:-1], 1e-12)])

    def loss(self, theta, lo, hi):
        """Return ``½ ((y − xᵀβ)² + ρ‖β‖²)`` at one model per node, shape (hi − lo,)."""
        off = self.X[lo:hi, -1] - (self.X[lo:hi, :-1] * theta[:, :-1]).sum(axis=1)
        return 0.5 * (off**2 + self.ridge * (theta[:, :-1] ** 2).sum(axis=1))

    def loss_gradient(self, theta, lo, hi):
        """Return its gradient in (β, σ²), shape (hi − lo, m + 1)."""
        off = self.X[lo:hi, -1] - (self.X[lo:hi, :-1] * theta[:, :-1]).sum(axis=1)
        slopes = self.ridge * theta[:, :-1] - off[:, None] * self.X[lo:hi, :-1]
        return np.pad(slopes, ((0, 0), (0, 1)))

    def refit(self, W):
        """Return the coefficients of least loss; variances play no part in it."""
        M = self.sums(W, 0, self.n_nodes)
        ridge = self.ridge * M[:, -2:-1, -2:-1] * np.eye(M.shape[1] - 1)
        beta = np.linalg.pinv(M[:, :-1, :-1] + ridge) @ M[:, :-1, -1:]
        return self.models_set.project(np.pad(beta[..., 0], ((0, 0), (0, 1))))
