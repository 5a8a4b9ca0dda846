"""What is chosen for the user where the user said "auto", each choice with its reason."""

from nodeproof.choices.base import Choices
from nodeproof.choices.classes import choose_n_classes
from nodeproof.choices.plans import Plan, choose_plan
from nodeproof.choices.probabilities import choose_probabilities, most_certain
from nodeproof.choices.settings import (
    CONVEX_SOLVERS,
    choose_null_model,
    choose_solver,
    choose_weights,
)

__all__ = [
    "CONVEX_SOLVERS",
    "Choices",
    "Plan",
    "choose_n_classes",
    "choose_null_model",
    "choose_plan",
    "choose_probabilities",
    "choose_solver",
    "choose_weights",
    "most_certain",
]
