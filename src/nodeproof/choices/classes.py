"""The number of classes, where nothing says it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nodeproof.callers import warn_caller
from nodeproof.choices.base import Choices
from nodeproof.choices.settings import is_convex
from nodeproof.counting import Counted, count_classes
from nodeproof.errors import InputError
from nodeproof.merging import Family
from nodeproof.problem import Problem
from nodeproof.solvers import BlockCADO, Result, Status
from nodeproof.solvers.base import Callback

__all__ = ["choose_n_classes"]


def choose_n_classes(
    family: Family, solver: Any, seed: int | None, callback: Callback | None, choices: Choices
) -> tuple[Problem, Result]:
    """Return the problem with as many classes as the data ask for, and its solution."""
    fixed = family.weights != "calibrated"
    if family.son and not fixed:
        family.problem(1)  # which says what is wrong
    linked = family.graph is not None and family.weights[0] != 0
    if fixed and not linked and not family.son:
        raise InputError(
            "without labels, fixed weights need a graph or a sum of norms to tell how many classes "
            "there are: give n_classes"
        )
    counted = count_classes(family, seed, callback)
    ended = counted.result.status in (Status.STOPPED, Status.INTERRUPTED)
    if fixed and linked and not ended:
        _check_threshold(family, counted)
    choices["n_classes"] = {"value": counted.n_classes, "why": _why_so_many(family, counted)}
    if ended:
        return counted.problem, counted.result
    if isinstance(solver, BlockCADO):
        solver = replace(solver, hold=0)  # the rows say already how links bind
    start = None if is_convex(solver) else counted.result.W
    return counted.problem, solver.solve(counted.problem, start, callback)


def _why_so_many(family: Family, counted: Counted) -> str:
    K, tried = counted.n_classes, f"up to {counted.surplus} classes were tried"
    if family.weights != "calibrated":
        return f"others merge or empty out at the threshold {family.threshold:g}; {tried}"
    if K == 1:
        return f"no classes make the description of the data shorter; {tried}"
    saved = counted.one_class - counted.length
    what = "the links" if counted.by_links else "the data"
    why = f"describes {what} in {saved:.0f} nats less than one class would; {tried}"
    if counted.by_links:
        why += "; features of their own would take more to describe than they tell"
    return why


def _check_threshold(family: Family, counted: Counted) -> None:
    """Say so where the threshold does not lie between the densities across and inside classes."""
    graph, t, K = family.graph, family.threshold, counted.n_classes
    assert graph is not None
    advice = (
        "give a threshold between the densities of links across and inside classes (that of the "
        f"whole graph is {graph.density:.3g}), or n_classes"
    )
    if 2 * K > counted.surplus > 1:
        raise InputError(f"at the threshold {t:g} classes fall apart, into {K} and more: {advice}")
    if K == 1 and t < graph.density:
        warn_caller(f"at the threshold {t:g} all is one class: {advice}")
