"""How results of several starts are compared where links are of several kinds.

Starts from the labels and from eigenvectors end in different places more often than with one kind:
kinds that say nothing lead memberships astray.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from nodeproof.kinds import far_totals, pull_of
from nodeproof.problem import Problem
from nodeproof.runtime import threads
from nodeproof.solvers.base import Result, Status, match_labels
from nodeproof.solvers.sweep import uninformative

if TYPE_CHECKING:
    from nodeproof.solvers.block import BlockCADO

__all__ = ["informative", "with_better_names"]


def informative(problem: Problem, results: list[Result]) -> list[Result]:
    """Return the results that tell nodes apart, or all if none does.

    The free energy bounds the likelihood less tightly where nodes are told apart with doubt, so
    that memberships that say nothing may seem the best.
    """
    if problem.graph is None or len(problem.graph.kinds) < 2:
        return results
    labels = problem.labels
    return [r for r in results if not uninformative(r.W, r.models, labels)] or results


def with_better_names(solver: BlockCADO, problem: Problem, result: Result) -> Result:
    """Return the result, or a better one in which classes have other names.

    A start that does not know the labels has its classes named by them, and by chance a few labels
    name them wrongly. Each labelled node then follows its label, all others follow the links, and
    the labels seem to agree with the names. So names are compared with what labelled nodes would
    be without their own label, and nodes are updated again under better ones.
    """
    graph, labels = problem.graph, problem.labels
    if graph is None or len(graph.kinds) < 2 or labels is None or not (labels >= 0).any():
        return result
    if result.models.affinity is None or result.status in (Status.STOPPED, Status.INTERRUPTED):
        return result
    order = match_labels(_without_own_labels(problem, result), labels)
    if (order == np.arange(len(order))).all():
        return result
    W = np.ascontiguousarray(result.W[:, order], dtype=np.float32)
    known = np.flatnonzero(labels >= 0)
    W[known] = np.eye(len(order), dtype=np.float32)[labels[known]]
    again = replace(solver, n_init=1, hold=0, checkpoint=None).solve(problem, W)
    return again if again.value < result.value else result


def _without_own_labels(problem: Problem, result: Result) -> NDArray[Any]:
    """Return what each node would be without its own label, shape (n, K)."""
    models, graph = result.models, problem.graph
    assert graph is not None
    assert models.affinity is not None
    W = np.ascontiguousarray(result.W, dtype=np.float32)
    own = {k for k, term in enumerate(problem.terms) if term.source == "labels"}
    kinds = list(zip(graph.kinds, models.affinity.ell, models.affinity.ell_t, strict=True))
    totals = [far_totals(kind, W) for kind in graph.kinds]

    def part(lo: int, hi: int) -> NDArray[np.float64]:
        scores = models.log_prior - problem.costs(models, lo, hi, skip=own)
        for (kind, ell, ell_t), far in zip(kinds, totals, strict=True):
            scores = scores + pull_of(kind, W, ell, ell_t, far, lo, hi)
        return np.asarray(softmax(scores, axis=1))

    return np.concatenate(threads.map_rows(part, problem.n_nodes))
