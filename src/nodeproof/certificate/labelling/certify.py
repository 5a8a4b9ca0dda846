"""The search for a proof that a labelling is optimal, for the given models."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodeproof.certificate.labelling.instance import Instance, not_applicable
from nodeproof.certificate.labelling.result import Certificate
from nodeproof.certificate.labelling.search import Search, Stage, Stop
from nodeproof.errors import InputError
from nodeproof.problem import Models, Problem
from nodeproof.runtime import threads
from nodeproof.solvers.base import check_at_least

__all__ = ["Stage", "certify", "certify_instance"]

Labels = NDArray[np.int64]

_NAMES_COUNT = 2


def certify(
    problem: Problem,
    labels: Any,
    *,
    models: Models | None = None,
    tolerance: float | None = None,
    time_budget: float = 45.0,
    max_iter: int | None = None,
    callback: Callable[[Stage], bool | None] | None = None,
    random_state: int = 0,
    n_jobs: int | None = None,
) -> Certificate:
    """Prove that a labelling is optimal, or bound its gap.

    Models stay fixed, so what is left is a labelling problem: links and the costs of classes.
    Better labellings are searched for, and the best one found is certified. Bounds of two kinds
    are tried: flows along links, for any number of nodes, and matrices whose eigenvalues are
    bounded, up to 4,000. Nodes that are proven to keep their class are fixed, and the rest is
    bounded again. All that is stated has been accepted by :mod:`nodeproof.certificate.audit` and
    holds for certain, rounding included.

    Parameters
    ----------
    problem : Problem
        With one affinity for all classes; fixed weights or calibrated ones.
    labels : array of int, shape (n,)
        The labelling, as class numbers 0…K−1.
    models : Models, optional
        By default those that fit the labelling best.
    tolerance : float, optional
        Largest difference between objective and bound that counts as certified; by default
        1e-9 of the size of the numbers that the objective is made of, or if that is more, 1e-13
        of all that it could be made of. The certificate states it if it is another, and is
        confirmed only by those who accept that (see `Certificate.verify`).
    time_budget : float
        Seconds that the search may take, give or take its last step; 0 for some steps of flows
        and for dual variables in closed form alone.
    max_iter : int, optional
        Most iterations of each method that improves dual variables.
    callback : callable, optional
        Called with every :class:`Stage`; a true answer ends the search at once.
    random_state : int
        Seed of the search for better labellings; what is proven holds whatever it is.
    n_jobs : int, optional
        Threads; by default every core, or as many as OMP_NUM_THREADS says.

    Returns
    -------
    Certificate
        With the best labelling found in `labels`.

    Examples
    --------
    >>> from nodeproof import NodeClassifier, datasets
    >>> data = datasets.make_planted(p=0.3, cluster_size=60, random_state=0)
    >>> clf = NodeClassifier(random_state=0).fit(data.X, data.y, graph=data.graph)
    >>> proof = clf.certify()
    >>> proof.status, int(proof.certified_nodes.sum()), bool(proof.verify())
    ('certified', 180, True)
    """
    z = _check_labels(labels, problem)
    if models is None:
        models = problem.fit_models(np.eye(problem.n_classes)[z])
    return certify_instance(
        labelling_problem(problem, models), z, tolerance=tolerance, time_budget=time_budget,
        max_iter=max_iter, callback=callback, random_state=random_state, n_jobs=n_jobs,
    )  # fmt: skip


def labelling_problem(problem: Problem, models: Models) -> Instance | str:
    """Return the labelling problem for fixed models, or why there is none."""
    return not_applicable(problem, models) or Instance.of(problem, models)


def certify_instance(
    instance: Instance | str,
    labels: Labels,
    *,
    tolerance: float | None = None,
    time_budget: float = 45.0,
    max_iter: int | None = None,
    callback: Callable[[Stage], bool | None] | None = None,
    random_state: int = 0,
    n_jobs: int | None = None,
) -> Certificate:
    """Do what `certify` does, for a labelling problem; the parameters are the same."""
    if tolerance is not None:
        check_at_least("tolerance", tolerance, 0.0)
    if isinstance(instance, str):
        return _nothing(labels, int(labels.max(initial=0)) + 1, instance)
    with threads.using(n_jobs):
        return _certify(instance, labels, tolerance, time_budget, max_iter, callback, random_state)


def _certify(
    instance: Instance,
    labels: Labels,
    tolerance: float | None,
    time_budget: float,
    max_iter: int | None,
    callback: Callable[[Stage], bool | None] | None,
    random_state: int,
) -> Certificate:
    began = time.perf_counter()
    search = Search(
        instance, instance.settle(labels), tolerance, began + time_budget, max_iter, callback,
        random_state,
    )  # fmt: skip
    interrupted = False
    try:
        search.run()
    except Stop:
        pass
    except KeyboardInterrupt:
        interrupted = True
    return _report(search, labels, interrupted, time.perf_counter() - began)


def _report(search: Search, given: Labels, interrupted: bool, seconds: float) -> Certificate:
    found = search.finish()
    instance, z = search.instance, search.proof.z
    named, free = (found.possible.sum(axis=1) == 1), (found.unnamed.sum(axis=1) == 1)
    # Nodes that are certain up to class names count less than those that are certain.
    renaming = bool(free.sum() - len(search.anchors) > _NAMES_COUNT * named.sum())
    return Certificate(
        objective=found.objective,
        lower_bound=found.lower_bound,
        tolerance=search.tolerance,
        exact=found.exact,
        unique=bool((free if renaming else named).all()),
        labels=z,
        possible=found.unnamed if renaming else found.possible,
        renaming=renaming,
        anchors=search.anchors,
        # The links may belong to the caller, who is free to change them later.
        instance=replace(instance, adjacency=instance.adjacency.copy()),
        steps=tuple(search.steps),
        method=search.method,
        seconds=seconds,
        moved=np.flatnonzero(z != given),
        interrupted=interrupted,
        history=search.history,
    )


def _nothing(z: Labels, n_classes: int, reason: str) -> Certificate:
    return Certificate(
        objective=math.nan, lower_bound=-math.inf, tolerance=0.0, exact=False, unique=False,
        labels=z, possible=np.ones((len(z), n_classes), dtype=bool), reason=reason, seconds=0.0,
    )  # fmt: skip


def _check_labels(labels: Any, problem: Problem) -> Labels:
    z = np.asarray(labels)
    n, K = problem.n_nodes, problem.n_classes
    if z.shape != (n,):
        raise InputError(f"labels must be one class number per node, shape ({n},); got {z.shape}")
    if z.dtype.kind not in "iu" or not ((z >= 0) & (z < K)).all():
        raise InputError(f"labels must be class numbers 0…{K - 1}; got {z.dtype} {z[:5]}")
    return z.astype(np.int64)
