"""Warnings name the line that called the classifier, not a line inside it."""

from __future__ import annotations

import warnings

from nodeproof import NodeClassifier
from nodeproof.datasets import make_planted


def test_fit_predict_and_predict_proba_point_to_their_caller():
    data = make_planted(cluster_size=40, random_state=0)
    clf = NodeClassifier(random_state=0, max_iter=1, weights="calibrated")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        clf.fit(data.X, data.y, graph=data.graph)
        clf.predict(data.X)
        clf.predict_proba(data.X)
    assert [warning.filename for warning in caught] == [__file__] * 3
