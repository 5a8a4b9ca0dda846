"""Counts: how often each customer came last month, with one Poisson rate per class."""

import numpy as np

from nodeproof.sets import Box
from nodeproof.terms import SummableTerm, register


@register  # so that saved models can name it
class Visits(SummableTerm):
    """Counts; the model of class i is their rate λ_i, shape (K, 1)."""

    source = "features"  # which of the three sources it counts as

    def bind(self, nodes):
        """Return a copy that holds the data."""
        bound = self.copy_for(nodes)
        bound.X = nodes.X[:, :1]
        bound.mean = bound.X.mean() or 1.0
        bound.models_set = Box([1e-3], [1.0 + bound.X.max()])
        return bound

    # As a likelihood: what calibrated weights use.

    def cost(self, models, lo, hi):
        """Return the −log-likelihood of the nodes lo…hi in each class, shape (hi − lo, K)."""
        return models.T - self.X[lo:hi] * np.log(models.T)

    def sums(self, W, lo, hi):
        """Return all that an estimate needs to know of these nodes: shape (K, 2)."""
        return np.column_stack([W.sum(axis=0, dtype=float), W.T @ self.X[lo:hi]])

    def estimate_from(self, sums):
        """Return the mean of each class, with one node of the overall mean added to it."""
        return (sums[:, 1:] + self.mean) / (sums[:, :1] + 1)

    def penalty(self, models):
        """Return the −log-prior that stands for these added nodes."""
        return float((models - self.mean * np.log(models)).sum())

    # As a loss f(x; θ), convex in θ: what fixed weights, as in the paper, use.

    def loss(self, theta, lo, hi):
        """Return f at one model per node, shape (hi − lo,)."""
        return (theta - self.X[lo:hi] * np.log(theta))[:, 0]

    def loss_gradient(self, theta, lo, hi):
        """Return its gradient in θ, shape (hi − lo, 1)."""
        return 1 - self.X[lo:hi] / theta

    def refit(self, W):
        """Return the models of least loss: the means, within the box."""
        sizes, totals = np.split(self.sums(W, 0, self.n_nodes), 2, axis=1)
        means = np.where(sizes > 0, totals / np.maximum(sizes, 1e-12), self.mean)
        return self.models_set.project(means)
