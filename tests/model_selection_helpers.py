"""Classifiers whose answers are known, and what they are asked."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator

NAMES = np.array(["ant", "bee", "cow", "dog"])


def told():
    """Return features, labels and links of thirty nodes, ten a class; four have no label.

    The first feature tells the class.
    """
    codes = np.tile([0, 1, 2], 10)
    y = np.where(np.arange(30) < 4, -1, codes)
    return codes[:, None].astype(float), y, np.ones((30, 30))


class Spy(BaseEstimator):
    """Remembers what it was given; says the class that the first feature tells."""

    def __init__(self, confidence=0.8):
        self.confidence = confidence

    def fit(self, X, y, *, graph=None, validation=None):
        self.given = X, y, graph, validation
        self.classes_ = np.unique(y[y != ("" if y.dtype.kind == "U" else -1)])
        K = len(self.classes_)
        codes = X[:, 0].astype(int) % K
        self.labels_ = self.classes_[codes]
        rest = (1 - self.confidence) / (K - 1)
        self.proba_ = np.where(codes[:, None] == np.arange(K), self.confidence, rest)
        return self

    def predict(self, X=None, *, graph=None):
        return self.labels_

    def predict_proba(self, X=None, *, graph=None):
        return self.proba_
