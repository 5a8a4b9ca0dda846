"""CADO as published: Algorithms 1 and 2 of the paper, to see what its text does."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from nodeproof.errors import InputError
from nodeproof.problem import Models, Problem
from nodeproof.runtime import threads
from nodeproof.runtime.memory import check_free
from nodeproof.sets import Simplex
from nodeproof.solvers.base import Callback, Progress, Result, Status, check_at_least, check_count
from nodeproof.solvers.starts import STARTS

__all__ = ["CADO"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class CADO:
    """Alternate one conditional-gradient step in all rows of W with one in all class models.

    Algorithm 1 of the paper for any terms, with the gradients and oracles of its Appendix D.
    With ``average="e"`` and ``model_step="projection"`` it is Algorithm 2 to the letter. It is
    here for comparison, not for use: **on the paper's own default data it does not leave its
    start**. Why:

    - Where links inside a class are sparser than 1/2, the graph's gradient
      ``−Σ_u Ā_uv √W_ui/√W_vi`` is positive, and smallest where W is *largest*: each step only
      hardens what there is.
    - The step ``2/(t + 2)`` is 1 at t = 0, so the first iterate is the start, rounded to
      one-hot rows; from then on that gradient divides by zero, and no row moves again.
    - All rows are judged from the same state, so where they do move, a balance term sends them
      all to the smallest class.
    - Averaging ``ē`` instead of W breaks ``L_vv = 1``; averaging W keeps it.
    - The algorithm box projects the negative gradient where the text takes the minimiser over
      the set; the two differ.

    :class:`BlockCADO` minimises the same objective and does not have these problems.

    Parameters
    ----------
    step : {"open-loop", "line-search"}
        ``2/(t + 2)``, or the best step by the objective, for W and for the models each.
    average : {"W", "e"}
        Average the rows of W, or their roots ē as in the algorithm box.
    model_step : {"lmo", "projection"}
        Move models to the minimiser of the linearised objective, or to the projection of its
        negative gradient, which the algorithm box prints for the covariances. (Distributions
        over labels always move to the minimiser, in both.)
    max_iter : int
        Most iterations.
    tol : float
        Stop when the largest change of a node's memberships is below this, on average.
    n_jobs : int, optional
        Threads; every core by default.
    random_state : int, optional
        Seed of the start.

    Examples
    --------
    >>> from nodeproof import Problem, datasets, solvers, terms
    >>> from nodeproof.graph import Graph
    >>> data = datasets.make_planted(p=0.9, q=0.1, cluster_size=20, random_state=0)
    >>> labels = terms.Labels().bind(terms.NodeData(n_classes=3, y=data.y))
    >>> problem = Problem(Graph(data.graph), [labels], n_classes=3, weights=(1.0, 0.0, 13.0))
    >>> result = solvers.CADO(max_iter=50, random_state=0).solve(problem)
    >>> result.history["value"][-1] <= result.history["value"][0]
    True
    """

    step: Literal["open-loop", "line-search"] = "open-loop"
    average: Literal["W", "e"] = "W"
    model_step: Literal["lmo", "projection"] = "lmo"
    max_iter: int = 200
    tol: float = 1e-4
    n_jobs: int | None = None
    random_state: int | None = None

    def __post_init__(self) -> None:
        for name, allowed in (
            ("step", ("open-loop", "line-search")),
            ("average", ("W", "e")),
            ("model_step", ("lmo", "projection")),
        ):
            if getattr(self, name) not in allowed:
                raise InputError(f"{name} must be one of {allowed}, got {getattr(self, name)!r}")
        check_count("max_iter", self.max_iter)
        check_at_least("tol", self.tol, 0.0)

    def solve(
        self,
        problem: Problem,
        start: NDArray[Any] | str | None = None,
        callback: Callback | None = None,
    ) -> Result:
        """Return the last iterate; with ``average="e"`` its rows may sum to less than one.

        Parameters
        ----------
        problem : Problem
            With fixed weights: it is φ that is minimised.
        start : ndarray of shape (n, K) or str, optional
            Rows on the simplex, or the name of a start; "random" by default.
        callback : callable, optional
            Called after every iteration; a true answer stops the solver.
        """
        rng = np.random.default_rng(self.random_state)
        if start is None or isinstance(start, str):
            start = STARTS[start or "random"](problem, rng)
        W = np.array(start, dtype=np.float64)
        W /= W.sum(axis=1, keepdims=True)
        with threads.using(self.n_jobs):
            return self._run(problem, W, callback)

    def _run(self, problem: Problem, W: Array, callback: Callback | None) -> Result:
        rows = Simplex(problem.n_classes)
        models = problem.fit_models(W)
        # A model per node, its inverse and its gradient, in ranges of nodes.
        held = min(problem.n_nodes, threads.ROWS * threads.default_threads())
        entries = max((theta[0].size for theta in models.terms), default=0)
        check_free(
            32.0 * held * entries, "one model per node", "reduce the features, or use 'block'"
        )
        history = defaultdict[str, list[float]](list)
        status, iteration, lmo_calls = Status.MAX_ITER, 0, 0
        try:
            for iteration in range(1, self.max_iter + 1):
                open_loop = 2.0 / (iteration + 1)  # 2/(t + 2) at t = iteration − 1

                # Embedding update.
                # 0/0 (no link mass towards an empty class) counts as a gradient of zero.
                gradient = np.nan_to_num(
                    problem.gradient_W(W, models), nan=0.0, posinf=np.inf, neginf=-np.inf
                )
                target = rows.lmo(gradient)
                moved = self._move_rows(problem, W, target, models, open_loop)
                change = float(np.abs(moved - W).max(axis=1).mean())
                W = moved

                # Model update, at the new rows.
                targets = self._model_targets(problem, W, models)
                models = self._move_models(problem, W, models, targets, open_loop)

                lmo_calls += 1 + problem.n_classes * len(problem.terms)
                history["value"].append(problem.value(W, models))
                history["change"].append(change)
                history["lmo_calls"].append(lmo_calls)
                if callback and callback(Progress(iteration, 1, 1, change, W)):
                    status = Status.STOPPED
                    break
                if change <= self.tol:
                    status = Status.CONVERGED
                    break
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
        return Result(W, models, problem.value(W, models), status, iteration, dict(history))

    def _model_targets(self, problem: Problem, W: Array, models: Models) -> tuple[Array, ...]:
        gradients = problem.gradient_models(W, models)
        targets = []
        for term, gradient in zip(problem.terms, gradients, strict=True):
            project = self.model_step == "projection" and not isinstance(term.models_set, Simplex)
            move = term.models_set.project if project else term.models_set.lmo
            targets.append(move(-gradient if project else gradient))
        return tuple(targets)

    def _move_rows(
        self, problem: Problem, W: Array, target: Array, models: Models, open_loop: float
    ) -> Array:
        def at(gamma: float) -> Array:
            if self.average == "W":
                return (1.0 - gamma) * W + gamma * target
            return np.asarray(((1.0 - gamma) * np.sqrt(W) + gamma * target) ** 2)

        if self.step == "open-loop":
            return at(open_loop)
        return at(_best_step(lambda gamma: problem.value(at(gamma), models)))

    def _move_models(
        self,
        problem: Problem,
        W: Array,
        models: Models,
        targets: tuple[Array, ...],
        open_loop: float,
    ) -> Models:
        def at(gamma: float) -> Models:
            moved = tuple(
                (1.0 - gamma) * theta + gamma * target
                for theta, target in zip(models.terms, targets, strict=True)
            )
            return replace(models, terms=moved)

        if self.step == "open-loop":
            return at(open_loop)
        return at(_best_step(lambda gamma: problem.value(W, at(gamma))))


def _best_step(value: Callable[[float], float]) -> float:
    """Return the step in 0…1 of least value, among the ends and one bounded search."""
    inside = float(minimize_scalar(value, bounds=(0.0, 1.0), method="bounded").x)
    return min((0.0, inside, 1.0), key=value)
