"""What is asked of exact recovery, in the order of how little it takes to say yes."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["QUESTIONS", "Question"]


@dataclass(frozen=True)
class Question:
    """A question: who is asked, which of its answers it is, and what stands above the map."""

    method: str
    answer: str
    title: str


#: the maps of a panel of answers
QUESTIONS = (
    Question("theorem", "claimed", "Theorem 1 as printed claims it"),
    Question("theorem", "promised", "Theorem 1 as corrected promises it"),
    Question("program", "certified", "proven in the convex program"),
    Question("proof", "certified", "proven best of all labellings"),
    Question("recovery", "recovered", "found by block CADO"),
    Question("possible", "possible", "possible at all"),
)
