"""Experts: kinds of evidence that a default fit pools, weighed by held-out labels.

An expert turns the labels that it sees into class probabilities of all nodes. With
``terms="auto"``, labels are held out in turn, every expert predicts them, and those that do so best
get the largest weights. `NodeClassifier(experts=...)` names, leaves out or adds experts; one of
your own derives from :class:`Expert`.
"""

from nodeproof.auto.experts import (
    BlockModel,
    Candidate,
    Expert,
    Features,
    Learnt,
    Links,
    NewNodes,
    OwnFeatures,
    Propagation,
    Trees,
    register,
)

__all__ = [
    "BlockModel",
    "Candidate",
    "Expert",
    "Features",
    "Learnt",
    "Links",
    "NewNodes",
    "OwnFeatures",
    "Propagation",
    "Trees",
    "register",
]
