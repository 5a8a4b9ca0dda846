"""Measure and choose classifiers by hiding labels, not rows.

scikit-learn's splitters cut rows out, and with them the links of the graph. Here every fit sees
the whole graph and all features; what a split takes away are the labels of its test nodes. All
that is listed here is public. May import `inputs`, `metrics` and what is below them; takes any
estimator, and imports none.
"""

from nodeproof.model_selection.cross_validation import cross_validate
from nodeproof.model_selection.search import GridSearch
from nodeproof.model_selection.splitters import LabelKFold, Masks, PerClass, RandomShare, Split

__all__ = [
    "GridSearch",
    "LabelKFold",
    "Masks",
    "PerClass",
    "RandomShare",
    "Split",
    "cross_validate",
]
