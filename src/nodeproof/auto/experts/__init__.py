"""Experts: kinds of evidence that the pool weighs by held-out labels.

`base` says what an expert is; `registry` finds experts by name, `guarded` checks those of users;
the other modules hold one family each. May import what is below `auto`, and of `auto` only
`held_out`, `likelihoods` and `pooling`. `nodeproof.experts` is the public name.
"""

from nodeproof.auto.experts.base import Candidate, Expert, Learnt, NewNodes
from nodeproof.auto.experts.block import BlockModel
from nodeproof.auto.experts.propagation import Propagation
from nodeproof.auto.experts.registry import as_experts, register
from nodeproof.auto.experts.regression import Features, Links, OwnFeatures
from nodeproof.auto.experts.trees import Trees

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
    "as_experts",
    "register",
]
