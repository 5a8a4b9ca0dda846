"""CADO as published: Algorithms 1 and 2 of the paper, in each reading that its text allows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.sparse import csr_array

from nodeproof.errors import InputError
from nodeproof.problem import Models, Problem
from nodeproof.runtime import threads
from nodeproof.runtime.memory import check_free
from nodeproof.sets import Simplex
from nodeproof.solvers.base import (
    Callback,
    Progress,
    Result,
    Status,
    check_at_least,
    check_count,
    check_one_kind,
)
from nodeproof.solvers.starts import STARTS, as_memberships, named_start

__all__ = ["CADO"]

Array = NDArray[np.float64]

# Iterations before the objective, and before the classes, may count as settled.
_LEAST, _LEAST_CLASSES = 20, 100

# Up to this share of the rows, what they change in a product is cheaper than the product.
_FEW = 0.1


@dataclass(frozen=True)
class CADO:
    """Alternate one conditional-gradient step in all embeddings with one in all class models.

    The paper describes it twice, and the two differ. *Algorithm 1* takes the gradient with
    respect to the embeddings ē and moves each row towards the one-hot row at its smallest entry,
    the oracle of (14): ``CADO()``. *Algorithm 2*, with Appendix D, takes the gradient with respect
    to ``W = ē²``: ``CADO(gradient="W", model_step="projection")``.

    **In ē** it works from a random start, given labels: where links inside classes are sparser
    than 1/2, every entry of the gradient is positive, so the one-hot row is the exact minimiser
    over ē ≥ 0. Embeddings first become uniform, a saddle that labels take them away from after
    one or two hundred iterations, or later the more the graph weighs beside the labels. On the
    paper's default data (p = 0.1, all three sources, its weights, t = 1/2): .975, .978, .976,
    .986, .982 on seeds 0 to 4, settled after 414 to 614 iterations, about half a second. Without
    labels nothing breaks the symmetry, and it stays at chance (.33), from any start: the first
    step, of length 1, forgets the start. Averages of W do as well as averages of ē (.986).

    **In W** it does not leave a random start (.33 to .37), in any variant of step, average and
    model update:

    - Where links inside a class are sparser than 1/2, the graph's gradient
      ``−Σ_u Ā_uv √W_ui/√W_vi`` is positive, and smallest where W is *largest*: each step only
      hardens what there is.
    - The step ``2/(t + 2)`` is 1 at t = 0, so the first iterate is the start, rounded to
      one-hot rows; from then on that gradient divides by zero, and no row moves again.

    It is as good as its start: .79 to .82 from the labels, .95 to .97 from a spectral start, 1.0
    from the features.

    :class:`BlockCADO` minimises the same objective, faster, and in all source combinations.

    Parameters
    ----------
    gradient : {"e", "W"}
        What the gradient is taken with respect to: Algorithm 1 or Algorithm 2.
    average : {"e", "W"}
        Average the embeddings ē, as both algorithms print, or the memberships W = ē². Averages of
        ē break ``L_vv = 1``; averages of W keep it.
    diagonal : bool
        Whether to keep the diagonal of Ā, ``Ā_vv = −1``, in the gradient and in the objective, as
        printed. It is a constant where ``L_vv = 1``, and adds ``s t η_v² ‖ē_v‖²`` where averages of
        ē break that. φ, and the value of the result, leave it out.
    start : str
        Where to start: "random", "labels", "features", "spectral" or "opposed".
    step : {"open-loop", "line-search"}
        ``2/(t + 2)``, or the best step by the objective, for embeddings and models each.
    model_step : {"lmo", "projection"}
        Move models to the minimiser of the linearised objective, or to the projection of its
        negative gradient, which the box of Algorithm 2 prints for the covariances. (Distributions
        over labels always move to the minimiser, in both.)
    max_iter : int
        Most iterations.
    tol : float
        Stop when the second half of all iterations so far has changed the objective by at most
        this share, or no node's class; 0 to go on to `max_iter`. (Steps shrink like 1/t, so the
        change of a single iteration would be small anywhere.)
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
    >>> result = solvers.CADO(random_state=0).solve(problem)
    >>> bool((result.W.argmax(axis=1) == data.y_true).all())
    True
    """

    gradient: Literal["e", "W"] = "e"
    average: Literal["e", "W"] = "e"
    diagonal: bool = True
    start: str = "random"
    step: Literal["open-loop", "line-search"] = "open-loop"
    model_step: Literal["lmo", "projection"] = "lmo"
    max_iter: int = 1000
    tol: float = 1e-6
    n_jobs: int | None = None
    random_state: int | None = None

    def __post_init__(self) -> None:
        for name, allowed in (
            ("gradient", ("e", "W")),
            ("average", ("e", "W")),
            ("diagonal", (False, True)),
            ("start", tuple(STARTS)),
            ("step", ("open-loop", "line-search")),
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
        """Return the last iterate, its memberships divided by their sums.

        That makes it feasible: averages of ē have ``L_vv = Σ_i W_vi < 1``. ``history["value"]``
        has the objective of the iterates as they are, and so has the callback.

        Parameters
        ----------
        problem : Problem
            With fixed weights: it is φ that is minimised.
        start : ndarray of shape (n, K) or str, optional
            Memberships, or the name of a start; the solver's own by default.
        callback : callable, optional
            Called after every iteration; a true answer stops the solver.
        """
        check_one_kind(problem.graph, "CADO as published")
        rng = np.random.default_rng(self.random_state)
        if start is None or isinstance(start, str):
            start = named_start(start or self.start, problem, rng)
        W = as_memberships(start, problem.n_nodes, problem.n_classes).astype(np.float64)
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
        classes, classes_since = W.argmax(axis=1), 0
        links = _Links(problem, np.sqrt(W))
        gradient = self._value_and_gradient(problem, W, models, links)[1]
        try:
            for iteration in range(1, self.max_iter + 1):
                open_loop = 2.0 / (iteration + 1)  # 2/(t + 2) at t = iteration − 1

                # Embedding update.
                target = rows.lmo(gradient)
                gamma = self._row_step(problem, W, target, models, open_loop)
                moved = self._moved_rows(W, target, gamma)
                if self.average == "e":
                    links.move(target, gamma)
                else:
                    links = _Links(problem, np.sqrt(moved))
                change = float(np.abs(moved - W).max(axis=1).mean())
                W = moved

                # Model update, at the new embeddings.
                targets = self._model_targets(problem, W, models)
                models = self._move_models(problem, W, models, targets, open_loop)

                value, gradient = self._value_and_gradient(problem, W, models, links)
                lmo_calls += 1 + problem.n_classes * len(problem.terms)
                history["value"].append(value)
                history["change"].append(change)
                history["lmo_calls"].append(lmo_calls)
                if not np.array_equal(W.argmax(axis=1), classes):
                    classes, classes_since = W.argmax(axis=1), iteration
                if callback and callback(Progress(iteration, 1, 1, change, W)):
                    status = Status.STOPPED
                    break
                if self._has_settled(history["value"], classes_since):
                    status = Status.CONVERGED
                    break
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
        W = W / W.sum(axis=1, keepdims=True)
        return Result(W, models, problem.value(W, models), status, iteration, dict(history))

    def _has_settled(self, values: list[float], classes_since: int) -> bool:
        count = len(values)
        if not self.tol or count < _LEAST:
            return False
        half = values[count // 2 :]
        flat = max(half) - min(half) <= self.tol * abs(values[-1])
        return flat or (count >= _LEAST_CLASSES and classes_since <= count // 2)

    def _value_and_gradient(
        self, problem: Problem, W: Array, models: Models, links: _Links
    ) -> tuple[float, Array]:
        """Return the objective and its gradient in ē or in W, shape (n, K)."""
        value, by_nodes = problem.value_and_gradient_terms(W, models)
        embeddings, slopes, own = np.sqrt(W), links.slopes, self._diagonal(problem)
        value += float(np.vdot(embeddings, slopes)) + float(own @ W.sum(axis=1))
        by_nodes += own[:, None]
        if self.gradient == "e":
            return value, 2.0 * (slopes + embeddings * by_nodes)
        # 0/0 (no link mass towards an empty class) counts as a gradient of zero.
        with np.errstate(divide="ignore", invalid="ignore"):
            by_links = np.nan_to_num(slopes / embeddings, nan=0.0, posinf=np.inf, neginf=-np.inf)
        return value, by_links + by_nodes

    def _diagonal(self, problem: Problem) -> Array:
        """Return what the diagonal of Ā adds to the objective, per unit of L_vv, shape (n,)."""
        if not self.diagonal or problem.graph is None:
            return np.zeros(problem.n_nodes)
        return np.asarray(problem.scale * problem.threshold * problem.graph.eta**2)

    def _value(self, problem: Problem, W: Array, models: Models) -> float:
        return problem.value(W, models) + float(self._diagonal(problem) @ W.sum(axis=1))

    def _model_targets(self, problem: Problem, W: Array, models: Models) -> tuple[Array, ...]:
        gradients = problem.gradient_models(W, models)
        targets = []
        for term, gradient in zip(problem.terms, gradients, strict=True):
            project = self.model_step == "projection" and not isinstance(term.models_set, Simplex)
            move = term.models_set.project if project else term.models_set.lmo
            targets.append(move(-gradient if project else gradient))
        return tuple(targets)

    def _moved_rows(self, W: Array, target: Array, gamma: float) -> Array:
        if self.average == "W":
            return (1.0 - gamma) * W + gamma * target
        return np.asarray(((1.0 - gamma) * np.sqrt(W) + gamma * target) ** 2)

    def _row_step(
        self, problem: Problem, W: Array, target: Array, models: Models, open_loop: float
    ) -> float:
        if self.step == "open-loop":
            return open_loop
        return _best_step(
            lambda gamma: self._value(problem, self._moved_rows(W, target, gamma), models)
        )

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
        return at(_best_step(lambda gamma: self._value(problem, W, at(gamma))))


def _best_step(value: Callable[[float], float]) -> float:
    """Return the step in 0…1 of least value, among the ends and one bounded search."""
    inside = float(minimize_scalar(value, bounds=(0.0, 1.0), method="bounded").x)
    return min((0.0, inside, 1.0), key=value)


class _Links:
    """The graph's part of the gradient, ``−s(A − tN)ē``, kept while one-hot rows are averaged in.

    Parameters
    ----------
    problem : Problem
        With or without a graph.
    embeddings : ndarray of shape (n, K)
        ē.
    """

    def __init__(self, problem: Problem, embeddings: Array) -> None:
        self.graph = problem.graph
        self.slopes = np.zeros(embeddings.shape)
        self._target: Array | None = None
        if self.graph is None:
            return
        self._scale, self._threshold = problem.scale, problem.threshold
        self.slopes = self._slopes(self.graph.times(embeddings), embeddings)

    def _slopes(self, products: Any, embeddings: Array) -> Array:
        """Return ``−s(A − tN)ē``, given Aē."""
        assert self.graph is not None
        eta = self.graph.eta[:, None]
        null = eta * (self.graph.eta @ embeddings - eta * embeddings)
        return np.asarray(-self._scale * (products - self._threshold * null))

    def move(self, target: Array, gamma: float) -> None:
        """Replace ē by ``(1 − γ)ē + γ target``; rows of `target` are one-hot."""
        if self.graph is None:
            return
        if self._target is None:
            moved = np.arange(len(target))
        else:
            moved = np.flatnonzero((self._target != target).any(axis=1))
        # One-hot rows as a sparse matrix: a product costs one addition per link, not K.
        if len(moved) > _FEW * len(target):
            products = (self.graph.adjacency @ csr_array(target)).toarray()
            self._target_slopes = self._slopes(products, target)
        elif len(moved):
            assert self._target is not None
            steps = np.zeros(target.shape)
            steps[moved] = target[moved] - self._target[moved]
            products = self.graph.adjacency[moved].T @ steps[moved]
            self._target_slopes = self._target_slopes + self._slopes(products, steps)
        self._target = target
        self.slopes = (1.0 - gamma) * self.slopes + gamma * self._target_slopes
