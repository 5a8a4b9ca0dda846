"""The convex program over a polytope, by a general solver for cone programs."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof.atoms import Decomposition
from nodeproof.convex.program import Array, Program, check_memory
from nodeproof.convex.results import ConvexResult, best_bound, finish, relative_gap
from nodeproof.errors import InputError, MissingExtraError
from nodeproof.problem import Problem
from nodeproof.runtime import threads
from nodeproof.runtime.caching import cached_property
from nodeproof.solvers.base import Callback, Progress, Status, check_at_least, check_count
from nodeproof.sum_of_norms.pairs import shorten

__all__ = ["ExactSDP"]

# An interior point method factors matrices over all entries of all blocks; measured in Clarabel.
_FACTORS = 3


@dataclass(frozen=True)
class ExactSDP:
    """Solve the convex program over a polytope by a solver that others wrote and proved.

    The program is that of `BlockADMM`, handed to Clarabel (an interior point method: most exact,
    minutes and gigabytes beyond some 60 nodes) or to SCS (a splitting method) by way of cvxpy.
    Their answer is not taken for granted: the value is computed at a feasible point near their
    blocks, and the lower bound from their multipliers, whatever these are.

    Parameters
    ----------
    backend : {"clarabel", "scs"}
        Who solves it.
    tol : float
        Relative gap between the objective and its lower bound.
    max_iter : int, optional
        Most iterations; the backend's own limit by default.
    verbose : bool
        Let the backend report.
    random_state : int, optional
        Seed of the rounding to a labelling.

    Notes
    -----
    The status is "converged" where the gap is proven to be `tol` at most, whatever the backend
    says of itself, and "reached max_iter" where it had to stop before: at its limit of
    iterations, or of what its arithmetic can resolve. SCS is asked again, from where it ended,
    for up to a thousandth of `tol`.

    Examples
    --------
    >>> from nodeproof import Problem, datasets, solvers
    >>> from nodeproof.graph import Graph
    >>> data = datasets.make_planted(p=0.9, q=0.1, cluster_size=5, random_state=0)
    >>> problem = Problem(Graph(data.graph), [], n_classes=3, weights=(1.0, 0.0, 0.0))
    >>> result = solvers.ExactSDP(random_state=0).solve(problem)
    >>> str(result.status), result.gap <= 1e-5
    ('converged', True)
    """

    backend: str = "clarabel"
    tol: float = 1e-5
    max_iter: int | None = None
    verbose: bool = False
    random_state: int | None = None

    def __post_init__(self) -> None:
        if self.backend not in ("clarabel", "scs"):
            raise InputError(f"backend must be 'clarabel' or 'scs', got {self.backend!r}")
        check_at_least("tol", self.tol, 0.0)
        if self.max_iter is not None:
            check_count("max_iter", self.max_iter)

    def solve(
        self,
        problem: Problem,
        start: NDArray[Any] | None = None,
        callback: Callback | None = None,
    ) -> ConvexResult:
        """Return a solution, its lower bound, and the labelling it is rounded to.

        Parameters
        ----------
        problem : Problem
            With fixed weights, and terms whose losses are linear on a polytope.
        start : None
            The program is convex: it does not matter where one begins.
        callback : callable, optional
            Told whenever the backend returns; a true answer ends the solve.
        """
        if start is not None:
            raise InputError("ExactSDP solves a convex program and takes no start")
        cp = _cvxpy(self.backend)
        with threads.using(1):  # matrices are small, and bits must not depend on BLAS threads
            return self._solve(cp, problem, callback)

    def _solve(self, cp: Any, problem: Problem, callback: Callback | None) -> ConvexResult:
        program = Program(problem)
        n, k = program.require_polytope("ExactSDP").costs.shape
        check_memory("ExactSDP", n, 12 * k + 6)
        if self.backend == "clarabel":
            _check_factors(n, k)
        model = _Model(cp, program)
        status, history = Status.MAX_ITER, defaultdict[str, list[float]](list)
        bound, iteration = -np.inf, 0
        try:
            for options in self._attempts():
                if self.max_iter is not None:
                    if (left := self.max_iter - iteration) < 1:
                        break
                    options["max_iter" if self.backend == "clarabel" else "max_iters"] = left
                iteration += model.solve(self.backend, verbose=self.verbose, **options)
                value, bound = model.value(), max(bound, model.bound())
                for key, seen in (("iteration", iteration), ("value", value), ("bound", bound)):
                    history[key].append(seen)
                gap = relative_gap(value, bound)
                if callback and callback(Progress(iteration, 1, 1, gap, model.shares)):
                    status = Status.STOPPED
                    break
                if gap <= self.tol:
                    status = Status.CONVERGED
                    break
        except KeyboardInterrupt:
            if not history:  # the backend has nothing to show yet
                raise
            status = Status.INTERRUPTED
        return finish(
            program,
            model.atoms(),
            bound,
            status,
            iteration,
            dict(history),
            self.random_state,
            residuals={"diagonal": model.off_diagonal()},
        )

    def _attempts(self) -> Iterator[dict[str, Any]]:
        """Yield what to ask of the backend, more exactly each time."""
        if self.backend == "clarabel":  # it cannot go on from where it ended
            eps = max(min(1e-8, 1e-2 * self.tol), 1e-12)
            yield {"tol_gap_abs": eps, "tol_gap_rel": eps, "tol_feas": eps}
            return
        for share in (1.0, 0.3, 0.1, 0.03, 1e-2, 3e-3, 1e-3):
            yield {"eps": max(share * self.tol, 1e-12), "warm_start": True}


class _Model:
    """The program in cvxpy: blocks L_j ⪰ 0 that share their diagonal and the signs of L."""

    def __init__(self, cp: Any, program: Program) -> None:
        self.cp, self.program = cp, program
        self.polytope = program.require_polytope("ExactSDP")
        self.n, self.k = self.polytope.costs.shape
        self.son = program.son if min(self.n, self.k) > 1 else 0.0
        n, costs, vertices = self.n, self.polytope.costs, self.polytope.vertices
        self.pairs = np.triu_indices(n, 1)
        self.blocks = [cp.Variable((n, n), PSD=True) for _ in range(self.k)]
        diagonals = [cp.diag(block) for block in self.blocks]
        L = sum(self.blocks)
        self.ones = sum(diagonals) == 1
        # A node alone has no pairs, and not every version of cvxpy knows empty expressions.
        self.signs = [L[self.pairs] >= 0] if n > 1 else []
        objective = -cp.sum(cp.multiply(program.B, L)) + sum(
            costs[:, j] @ diagonal for j, diagonal in enumerate(diagonals)
        )
        constraints = [self.ones, *self.signs]
        if self.son:
            theta = sum(
                cp.reshape(diagonal, (n, 1), order="F") @ vertex[None]
                for diagonal, vertex in zip(diagonals, vertices, strict=True)
            )
            lengths = cp.Variable(len(self.pairs[0]))
            self.cones = cp.SOC(lengths, self.apart @ theta, axis=1)
            objective += self.son * cp.sum(lengths)
            constraints.append(self.cones)
        self.problem = cp.Problem(cp.Minimize(objective), constraints)

    @cached_property
    def apart(self) -> sp.csr_array:
        """The matrix of differences ``θ_u − θ_v``, u < v, shape (pairs, n)."""
        u, v = self.pairs
        rows = np.arange(len(u))
        ends = np.concatenate([u, v])
        signs = np.repeat([1.0, -1.0], len(u))
        return sp.csr_array((signs, (np.tile(rows, 2), ends)), shape=(len(u), self.n))

    def solve(self, backend: str, **options: Any) -> int:
        """Run the backend; return its number of iterations."""
        try:
            with warnings.catch_warnings():
                # How exact it is will be computed.
                warnings.filterwarnings("ignore", message="Solution may be inaccurate")
                self.problem.solve(solver=backend.upper(), **options)
        except self.cp.error.SolverError as error:
            raise _failed(backend, str(error)) from None
        if any(block.value is None for block in self.blocks) or self.ones.dual_value is None:
            raise _failed(backend, f"it ended as {self.problem.status!r}")
        return int(self.problem.solver_stats.num_iters or 0)

    @property
    def shares(self) -> Array:
        """How much each node belongs to each vertex, shape (n, k)."""
        return np.stack([np.diag(block.value) for block in self.blocks], axis=1)

    def off_diagonal(self) -> float:
        """Return how far the backend's diagonal is from ones."""
        return float(np.abs(self.shares.sum(axis=1) - 1.0).max())

    def atoms(self) -> Decomposition:
        """Return the positive parts of the blocks as a sum of atoms."""
        blocks = (0.5 * (block.value + block.value.T) for block in self.blocks)
        return Decomposition.of_blocks(blocks, self.polytope.vertices)

    def value(self) -> float:
        """Return the objective of the feasible point near the blocks."""
        point = self.program.repair(self.atoms())
        return self.program.value(point.L, point.models)

    def bound(self) -> float:
        """Return the lower bound by the multipliers."""
        gamma = np.zeros((self.n, self.n))
        for constraint in self.signs:
            gamma[self.pairs] = 0.5 * constraint.dual_value
        gamma += gamma.T
        costs = self.polytope.costs
        if self.son:
            costs = costs + self.apart.T @ self.flows() @ self.polytope.vertices.T
        nu = -np.ravel(self.ones.dual_value)
        return best_bound(self.program.B, nu, np.maximum(gamma, 0.0), costs)

    def flows(self) -> Array:
        """Return ``g_uv`` by the multipliers of the cones, none longer than μ1, (pairs, d)."""
        g = -np.reshape(self.cones.dual_value[1], (len(self.pairs[0]), -1))
        return shorten(g, self.son)


def _check_factors(n: int, k: int) -> None:
    entries = k * n * (n + 1) // 2
    try:
        check_memory("Clarabel", n, _FACTORS * entries**2 // n**2)
    except InputError:
        needed = 8.0 * _FACTORS * entries**2 / 2**30
        raise InputError(
            f"{n} nodes × {k} vertices are too many for Clarabel, which factors matrices over "
            f"all {entries:,} entries ({needed:,.0f} GiB): use BlockADMM, or backend='scs'"
        ) from None


def _failed(backend: str, why: str) -> RuntimeError:
    first = " ".join(why.split())
    return RuntimeError(f"{backend} failed, {first}; use BlockADMM or the other backend")


def _cvxpy(backend: str) -> Any:
    try:
        cp = import_module("cvxpy")
    except ImportError:
        raise MissingExtraError("cvxpy", "convex") from None
    if backend.upper() not in cp.installed_solvers():
        raise MissingExtraError(backend, "convex")
    return cp
