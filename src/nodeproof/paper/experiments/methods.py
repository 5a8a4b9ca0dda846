"""The methods that are compared: the paper's configurations, ours, the baselines, the genie."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodeproof.datasets import Planted
from nodeproof.estimator import NodeClassifier
from nodeproof.graph import Graph
from nodeproof.paper import baselines
from nodeproof.paper.experiments import recovery
from nodeproof.paper.experiments.recovery import Outcome
from nodeproof.problem import PAPER_WEIGHTS, Problem
from nodeproof.solvers import CADO, BlockCADO, Progress, Status
from nodeproof.solvers.starts import promising_starts
from nodeproof.terms import Covariance, Labels, NodeData, Term

__all__ = ["METHODS", "READINGS", "SOURCES", "Method", "Outcome", "Reading"]

#: the paper's six configurations
SOURCES = {
    "G": "Graph",
    "F": "Feature",
    "GF": "Graph + Feature",
    "GL": "Graph + Label",
    "FL": "Feature + Label",
    "GFL": "Graph + Feature + Label",
}

# As in the paper; planted graphs are drawn from it.
_NULL_MODEL = "uniform"

# Maximum number of sweeps with fixed weights. Without labels a few runs (one in two hundred)
# never converge; the others need far fewer.
_SWEEPS = 100

# Maximum numbers of iterations of CADO: usually, where labels have little weight beside the graph
# (other weights than the paper's, or labels on less than a tenth of the nodes), and without links
# or without labels. The less labels weigh, the longer embeddings stay uniform: up to 1,200
# iterations at the weights of Figure 2. Without links there is no such saddle, and accuracy
# settles within a hundred; without labels it is never left.
_ITERATIONS, _ITERATIONS_MORE, _ITERATIONS_ALONE = 600, 1500, 300
_FEW_LABELS = 0.1


@dataclass(frozen=True)
class Reading:
    """A way to read the paper's text on CADO: what the gradient is taken in, and the start."""

    gradient: str
    start: str

    @property
    def title(self) -> str:
        """Name in legends."""
        of = {"e": "ē", "W": "W"}[self.gradient]
        return f"CADO, gradient in {of}" + (f", {self.start} start" * (self.start != "random"))

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of the solver."""
        return {"gradient": self.gradient, "start": self.start}


#: CADO as published, by name of the method: Algorithm 1 (gradient in ē) and Algorithm 2 with
#: Appendix D (gradient in W), from each start; the most charitable one first
READINGS = {
    ("cado" if gradient == "e" else "cado-W") + f"/{start}" * (start != "random"): Reading(
        gradient, start
    )
    for gradient in ("e", "W")
    for start in ("random", "spectral", "labels")
}


@dataclass(frozen=True)
class Method:
    """A method of the experiments.

    Attributes
    ----------
    title : str
        Name in legends.
    run : callable
        ``run(data, sources, seed, **options) -> Outcome``.
    needs_labels : bool
        Whether it needs at least one labelled node.
    weighted : bool
        Whether it takes what a panel varies beside the data, such as the weights of the paper's
        objective.
    """

    title: str
    run: Callable[..., Outcome]
    needs_labels: bool = False
    weighted: bool = False


def _classifier(data: Planted, sources: str, seed: int, **settings: Any) -> Outcome:
    """Fit the paper's terms; sources of weight zero are kept."""
    if settings.get("weights") is not None:
        settings["weights"] = tuple(settings["weights"])
    X, y, graph = _given(data, sources)
    if X is None and y is None and graph is None:
        return Outcome(np.zeros(len(data.y), dtype=np.int64), named=False)
    clf = NodeClassifier(
        n_classes=data.params["n_clusters"],
        terms=_terms(X, y),
        null_model=_NULL_MODEL,
        n_jobs=1,
        random_state=seed,
        **settings,
    ).fit(X, y, graph=graph)
    return Outcome(clf.labels_, y is not None, clf.n_iter_, clf.status_, clf.objective_)


def _problem(data: Planted, sources: str, weights: Any) -> Problem:
    """Return the paper's problem; sources of weight zero are kept."""
    X, y, graph = _given(data, sources)
    K = data.params["n_clusters"]
    nodes = NodeData(K, X, y)
    terms = [term.bind(nodes) for term in _terms(X, y)]
    weights = weights if isinstance(weights, str) else tuple(weights)
    return Problem(None if graph is None else Graph(graph, _NULL_MODEL), terms, K, weights)


def _available(start: str, problem: Problem) -> str:
    """Return the start, or "random" if the configuration does not have what it starts from."""
    return start if start in promising_starts(problem) else "random"


def _most_iterations(problem: Problem) -> int:
    if problem.graph is None or problem.labels is None:
        return _ITERATIONS_ALONE
    few = np.mean(problem.labels >= 0) < _FEW_LABELS
    return _ITERATIONS_MORE if few or problem.weights != PAPER_WEIGHTS else _ITERATIONS


def _cado(
    data: Planted,
    sources: str,
    seed: int,
    weights: Any = PAPER_WEIGHTS,
    start: str = "random",
    **settings: Any,
) -> Outcome:
    """Run CADO alone: its classes are named as it leaves them."""
    problem = _problem(data, sources, weights)
    solver = CADO(
        start=_available(start, problem),
        max_iter=_most_iterations(problem),
        n_jobs=1,
        random_state=seed,
        **settings,
    )
    result = solver.solve(problem)
    if result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt  # a solver returns what it has; here it would count as finished
    named = problem.labels is not None
    status = str(result.status)
    return Outcome(result.W.argmax(axis=1), named, result.n_iter, status, result.value)


def _trace(
    data: Planted,
    sources: str,
    seed: int,
    solver: str,
    weights: Any = PAPER_WEIGHTS,
    start: str = "random",
    **settings: Any,
) -> Outcome:
    """Trace one run: φ at fixed weights, else the free energy F."""
    problem = _problem(data, sources, weights)
    values: list[float] = []
    accuracies: list[float] = []
    times: list[float] = []
    measuring = 0.0

    def trace(progress: Progress) -> None:
        nonlocal measuring
        now = time.perf_counter()
        times.append(round(now - began - measuring, 6))
        W = np.array(progress.W, dtype=np.float64)
        # Averages of ē are not feasible; objectives are compared at points that are.
        W /= W.sum(axis=1, keepdims=True)
        models, free_energy = problem.fit_and_judge(W)
        values.append(free_energy if problem.calibrated else problem.value(W, models))
        accuracies.append(float(np.mean(W.argmax(axis=1) == data.y_true)))
        measuring += time.perf_counter() - now

    make = {"block": BlockCADO, "cado": CADO}[solver]
    began = time.perf_counter()
    result = make(n_jobs=1, random_state=seed, **settings).solve(
        problem, start=_available(start, problem), callback=trace
    )
    if result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt  # a solver returns what it has; here it would count as finished
    classes = result.W.argmax(axis=1)
    one_hot = np.eye(problem.n_classes)[classes]
    models, free_energy = problem.fit_and_judge(one_hot)
    return Outcome(
        classes,
        problem.labels is not None,
        result.n_iter,
        str(result.status),
        # Of the classes, whatever the solver averages on its way to them.
        free_energy if problem.calibrated else problem.value(one_hot, models),
        {"value": values, "accuracy": accuracies},
        times,
    )


def _genie(data: Planted, sources: str, seed: int) -> Outcome:
    return Outcome(data.genie_proba(sources).argmax(axis=1), named=True)


def _spectral(data: Planted, sources: str, seed: int) -> Outcome:
    K = data.params["n_clusters"]
    return Outcome(baselines.spectral_clustering(data.graph, K, random_state=seed), named=False)


def _sdp(data: Planted, sources: str, seed: int) -> Outcome:
    K = data.params["n_clusters"]
    return Outcome(baselines.sdp_clustering(data.graph, K, random_state=seed), named=False)


def _network(kind: str, data: Planted, sources: str, seed: int) -> Outcome:
    K = data.params["n_clusters"]
    found = baselines.graph_network(data.graph, data.X, data.y, K, kind, random_state=seed)
    return Outcome(found, named=True)


def _label_propagation(data: Planted, sources: str, seed: int) -> Outcome:
    K = data.params["n_clusters"]
    return Outcome(baselines.label_propagation(data.graph, data.y, K), named=True)


def _gaussian(data: Planted, sources: str, seed: int) -> Outcome:
    K = data.params["n_clusters"]
    return Outcome(baselines.gaussian_classifier(data.X, data.y, K), named=True)


def _refinement(
    function: Callable[..., NDArray[np.int64]],
    data: Planted,
    sources: str,
    seed: int,
    **settings: Any,
) -> Outcome:
    X, y, graph = _given(data, sources)
    K = data.params["n_clusters"]
    labels = function(graph, X, y, n_classes=K, random_state=seed, **settings)
    return Outcome(labels, y is not None)


def _given(data: Planted, sources: str) -> tuple[Any, Any, Any]:
    """Return features, labels and graph, each None if it is not used or does not exist."""
    return (
        data.X if "F" in sources else None,
        data.y if "L" in sources and (data.y >= 0).any() else None,
        data.graph if "G" in sources else None,
    )


def _terms(X: Any, y: Any) -> list[Term]:
    terms: list[Term] = [Covariance()] if X is not None else []
    return terms + ([Labels()] if y is not None else [])


#: all methods, by name
METHODS: dict[str, Method] = {
    "calibrated": Method("block CADO, calibrated", _classifier),
    "fixed": Method(
        "block CADO, the paper's weights and losses",
        partial(_classifier, weights=PAPER_WEIGHTS, max_iter=_SWEEPS),
        weighted=True,
    ),
    **{
        name: Method(reading.title, partial(_cado, **reading.settings), weighted=True)
        for name, reading in READINGS.items()
    },
    "trace": Method("one run, traced", _trace),
    "genie": Method("genie bound", _genie),
    "spectral": Method("spectral clustering", _spectral),
    "label propagation": Method("label propagation", _label_propagation, needs_labels=True),
    "gaussian": Method("Gaussian classifier", _gaussian, needs_labels=True),
    "ir-ls": Method("IR-LS", partial(_refinement, baselines.ir_ls)),
    "ir-map": Method("IR-MAP, four starts", partial(_refinement, baselines.ir_map, n_starts=4)),
    "bregman": Method("Bregman", partial(_refinement, baselines.bregman_clustering)),
    "sdp": Method("SDP of the graph", _sdp),
    "gcn": Method("GCN", partial(_network, "gcn"), needs_labels=True),
    "graphsage": Method("GraphSAGE", partial(_network, "graphsage"), needs_labels=True),
    "gat": Method("GAT", partial(_network, "gat"), needs_labels=True),
    "theorem": Method("Theorem 1", recovery.ask_theorem, weighted=True),
    "program": Method("certificate of the convex program", recovery.ask_program, weighted=True),
    "proof": Method("certificate of the labelling", recovery.ask_proof, weighted=True),
    "recovery": Method("block CADO, the theorem's weights", recovery.ask_solver, weighted=True),
    "possible": Method("limits of exact recovery", recovery.ask_theory, weighted=True),
}
