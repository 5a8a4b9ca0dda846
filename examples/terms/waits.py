"""Waiting times: how long each customer stayed away, unknown for some; one rate per class."""

import numpy as np

from nodeproof.sets import Box
from nodeproof.terms import SummableTerm, register


@register
class Waits(SummableTerm):
    """Exponential waiting times; the model of class i is their rate, shape (K, 1)."""

    source = "features"
    as_given = True  # NaN where unknown: such a node costs nothing in any class

    def __init__(self, column=0):
        self.column = column  # saved with the model, under its name

    def bind(self, nodes):
        """Return a copy that holds how many waits each node has, 0 or 1, and their length."""
        bound = self.copy_for(nodes)
        waits = nodes.X[:, self.column]
        known = ~np.isnan(waits)
        bound.X = np.column_stack([known, np.where(known, waits, 0.0)])
        bound.mean = bound.X[:, 1].sum() / max(known.sum(), 1) or 1.0
        bound.models_set = Box([1e-3 / bound.mean], [1e3 / bound.mean])
        return bound

    def points(self):
        """Return what to cluster where no labels are given: waits, the mean where unknown."""
        return np.where(self.X[:, :1] > 0, self.X[:, 1:], self.mean)

    def cost(self, models, lo, hi):
        """Return the −log-likelihood ``λ_i x − log λ_i``, shape (hi − lo, K)."""
        return self.X[lo:hi] @ np.hstack([-np.log(models), models]).T

    def sums(self, W, lo, hi):
        """Return the number and the length of the waits in each class, shape (K, 2)."""
        return W.T.astype(float) @ self.X[lo:hi]

    def estimate_from(self, sums):
        """Return the rates, one wait of mean length added to each class."""
        return (sums[:, :1] + 1) / (sums[:, 1:] + self.mean)

    def penalty(self, models):
        """Return the −log-prior that stands for these added waits."""
        return float((self.mean * models - np.log(models)).sum())

    def loss(self, theta, lo, hi):
        """Return the same as a loss, at one model per node, shape (hi − lo,)."""
        return self.X[lo:hi, 1] * theta[:, 0] - self.X[lo:hi, 0] * np.log(theta[:, 0])

    def loss_gradient(self, theta, lo, hi):
        """Return its gradient, shape (hi − lo, 1)."""
        return self.X[lo:hi, 1:] - self.X[lo:hi, :1] / theta

    def refit(self, W):
        """Return the rates of least loss, within the box; the mean where nothing is known."""
        number, length = np.split(self.sums(W, 0, self.n_nodes), 2, axis=1)
        rates = np.where(number > 0, number / np.maximum(length, 1e-12), 1 / self.mean)
        return self.models_set.project(rates)
