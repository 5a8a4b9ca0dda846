"""What the solvers of the convex program return, and how they finish."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from nodeproof.program import Decomposition, Program
from nodeproof.solvers.base import Result, Status
from nodeproof.solvers.rounding import round_point

__all__ = ["ConvexResult", "finish"]

Array = NDArray[np.float64]

# Models of classes may be off their sets by rounding.
_FEASIBLE = 1e-9


@dataclass(frozen=True)
class ConvexResult(Result):
    """A solution of the convex program, what it proves, and the labelling it is rounded to.

    `W`, `models` and `value` are those of the labelling.

    Attributes
    ----------
    point : Decomposition
        A feasible point: similarities ``point.L`` and models ``point.models`` of the nodes.
    program_value : float
        The program's objective there.
    lower_bound : float
        What no feasible point, and so no labelling, can undercut: rigorous.
    violation : float
        By how much the point breaks its worst constraint: rounding.
    calls : dict of int
        How often oracles were asked, of those that Theorem 2 counts.
    residuals : dict of float
        How far the optimality conditions are from holding.
    """

    point: Decomposition
    program_value: float
    lower_bound: float
    violation: float
    calls: dict[str, int] = field(default_factory=dict)
    residuals: dict[str, float] = field(default_factory=dict)

    @property
    def gap(self) -> float:
        """How far the point can be from optimal, relative to the size of the objective."""
        return relative_gap(self.program_value, self.lower_bound)


def relative_gap(value: float, bound: float) -> float:
    """Return the difference relative to the larger of the value's size and one."""
    return float((value - bound) / max(1.0, abs(value))) if np.isfinite(value) else np.inf


def finish(
    program: Program,
    point: Decomposition,
    lower_bound: float,
    status: Status,
    n_iter: int,
    history: dict[str, list[float]],
    random_state: int | None,
    calls: dict[str, int] | None = None,
    residuals: dict[str, float] | None = None,
) -> ConvexResult:
    """Make the point feasible, judge it, and round it to a labelling, which may be better."""
    point = program.repair(point)
    W, models, value = round_point(program, point, np.random.default_rng(random_state))
    program_value = float(program.value(point.L, point.models))
    labelling = Decomposition(W.astype(np.float64), program.class_models(models))
    rounded_value = float(program.value(labelling.L, labelling.models))
    if rounded_value < program_value and program.violation(labelling) <= _FEASIBLE:
        point, program_value = labelling, rounded_value
    return ConvexResult(
        W=W,
        models=models,
        value=value,
        status=status,
        n_iter=n_iter,
        history=history,
        point=point,
        program_value=program_value,
        lower_bound=float(lower_bound),
        violation=program.violation(point),
        calls=calls or {},
        residuals=residuals or {},
    )
