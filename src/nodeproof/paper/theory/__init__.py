"""The paper's recovery theory as a tool: its assumptions measured, its theorem checked.

`check` says in sentences whether Theorem 1 covers a user's data, and what is missing. `measure`
computes every quantity of Assumptions 1 to 5 on a problem and a labelling, `theorem` says which
part of Theorem 1 holds there, as printed and as corrected, `exact_recovery` gives limits that no
method can beat, and `counterexample` makes instances where the theorem's first part fails.

All that is listed here is public. May import `fitting`, `convex`, `problem` and what is below them.

>>> from nodeproof import Problem
>>> from nodeproof.datasets import make_planted
>>> from nodeproof.graph import Graph
>>> from nodeproof.paper import theory
>>> data = make_planted(3, cluster_size=60, p=0.95, q=0.05, random_state=0)
>>> problem = Problem(Graph(data.graph), [], 3, weights=(1.0, 0.0, 0.0))
>>> theory.theorem(theory.measure(problem, data.y_true)).graph.promised
True
"""

from nodeproof.paper.theory.assumptions import Assumptions, LinkAssumptions, measure
from nodeproof.paper.theory.counterexamples import Counterexample, counterexample
from nodeproof.paper.theory.data_check import Check, check
from nodeproof.paper.theory.lemmas import AtomsLemma, BlocksLemma, lemma_atoms, lemma_blocks
from nodeproof.paper.theory.limits import Recovery, chernoff_hellinger, exact_recovery, genie_errors
from nodeproof.paper.theory.models import ModelAssumptions
from nodeproof.paper.theory.verdicts import Theorem, Verdict, theorem

__all__ = [
    "Assumptions",
    "AtomsLemma",
    "BlocksLemma",
    "Check",
    "Counterexample",
    "LinkAssumptions",
    "ModelAssumptions",
    "Recovery",
    "Theorem",
    "Verdict",
    "check",
    "chernoff_hellinger",
    "counterexample",
    "exact_recovery",
    "genie_errors",
    "lemma_atoms",
    "lemma_blocks",
    "measure",
    "theorem",
]
