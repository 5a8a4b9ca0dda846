"""The nearest labelled nodes: features tell a node's class by the labels of similar ones."""

from typing import ClassVar

import numpy as np
from sklearn.neighbors import NearestNeighbors

from nodeproof.experts import Expert, Learnt, register
from nodeproof.storage.schema import Expected, count


class LearntNeighbours(Learnt):
    """The labelled nodes, and how many of them are asked."""

    def __init__(self, points, targets, k):
        self.points, self.targets, self.k = points, targets, k

    def judge(self, new):
        """Return log-probabilities of nodes by their features, shape (n_new, K)."""
        nearest = NearestNeighbors(n_neighbors=min(self.k, len(self.points))).fit(self.points)
        votes = self.targets[nearest.kneighbors(new.X, return_distance=False)].sum(axis=1) + 0.5
        return np.log(votes / votes.sum(axis=1, keepdims=True))

    def to_parts(self):
        """Return the settings and arrays that `judge` needs, to save them."""
        return {"k": self.k}, {"points": self.points, "targets": self.targets}


@register  # so that fits, saved models and commands can name it
class Neighbours(Expert):
    """Votes of the k nearest labelled nodes; held-out labels choose k."""

    name = "neighbours"
    source = "features"  # which of the sources it counts as
    kept_settings: ClassVar = {"k": count}
    kept_arrays: ClassVar = {
        "points": Expected("f", "l{0} m", required=True),
        "targets": Expected("f", "l{0} K", required=True),
    }

    def why_not(self, nodes):
        """Return why it does not apply to the data; None if it does."""
        return None if isinstance(nodes.X, np.ndarray) else "there are no dense features"

    def settings(self):
        """Return candidates for k, the likeliest first."""
        return [5, 15]

    def learn(self, y, k):
        """Return what the labels y tell of all nodes; hidden and unknown ones are −1."""
        seen = np.flatnonzero(y >= 0)
        learnt = LearntNeighbours(self.nodes.X[seen], np.eye(self.nodes.n_classes)[y[seen]], k)
        learnt.log_proba = learnt.judge(self.nodes).astype(np.float32)
        return learnt

    @classmethod
    def restored(cls, settings, arrays):
        """Return what was learnt, from its saved parts."""
        return LearntNeighbours(arrays["points"], arrays["targets"], settings["k"])
