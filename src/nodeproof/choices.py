"""What is chosen for the user where the user said "auto", each choice with its reason."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import log_softmax
from sklearn.feature_selection import f_classif

from nodeproof.counting import Counted, count_classes
from nodeproof.errors import InputError
from nodeproof.graph import Graph
from nodeproof.merging import Family
from nodeproof.problem import PAPER_WEIGHTS, Problem
from nodeproof.solvers import CADO, CANO, BlockADMM, BlockCADO, ExactSDP, Result, Status
from nodeproof.solvers.base import LARGEST, Callback, check_at_least
from nodeproof.solvers.marginals import affordable, without_echo
from nodeproof.terms import Covariance, Gaussian, Labels, Multinomial, NodeData, Softmax, Term
from nodeproof.terms.covariance import MOST_FEATURES, repeated_share
from nodeproof.tuning import HeldBack, Tuned, tune_links, tune_softmax

__all__ = [
    "Choices",
    "Plan",
    "choose_n_classes",
    "choose_null_model",
    "choose_plan",
    "choose_probabilities",
    "choose_solver",
    "choose_weights",
]

#: by what was chosen: its value and why
Choices = dict[str, dict[str, Any]]

#: the solvers of the convex program, by name
CONVEX_SOLVERS: dict[str, Any] = {"sdp": ExactSDP, "admm": BlockADMM, "cano": CANO}

# A mean so many standard errors from zero, or a class difference this unlikely by chance.
_SIGMAS = 4.0
_P_VALUE = 1e-3

# Means and spreads are taken over no more than so many nodes, evenly spaced.
_MANY = 50_000

# A column in which more nodes than this share have the same value is not normal in any class.
_MOSTLY = 0.5

_CENTRED = "features are centred: a covariance a class, as in the paper"

# So many labels a class would show it if means differed.
_PLENTY = 50

# Where these do not decide, so many nodes are fitted with and without means.
_SAMPLE = 1000

# Entries of rows below this count as this.
_LEAST_ROW = 1e-9

# Without features, trust in the graph is tuned where a sweep has at most so many products.
_CHEAP = 5_000_000


@dataclass(frozen=True)
class Plan:
    """The terms to fit, how far the graph is trusted, and how that was found.

    Attributes
    ----------
    terms : list of Term
        Bound to the data.
    trust : float
        What the graph's evidence is multiplied by.
    tuned : Tuned or None
        What labels held back had to say, if they were asked.
    """

    terms: list[Term]
    trust: float = 1.0
    tuned: Tuned | None = None


def choose_plan(
    terms: Any,
    nodes: NodeData,
    weights: Any,
    trust: float | None,
    held: HeldBack | None,
    solver: Any,
    choices: Choices,
) -> Plan:
    """Return the bound terms and the trust in the graph; "auto" takes what fits the data.

    Parameters
    ----------
    terms : "auto" or list of Term
        What was asked for.
    nodes : NodeData
        The data.
    weights : "calibrated" or tuple
        Fixed weights leave nothing to tune.
    trust : float or None
        Given, or to be chosen.
    held : HeldBack or None
        Labels to choose by, if there are enough.
    solver : object
        What the fits are made with.
    """
    if not (isinstance(terms, str) and terms == "auto"):
        return Plan(_given_terms(terms, nodes, choices), _trust_in(terms, trust, choices))
    tunable = isinstance(solver, BlockCADO) and weights == "calibrated" and trust is None
    tunable = tunable and held is not None
    chosen: list[Term] = []
    reasons = []
    tuned = None
    if nodes.X is not None:
        term, reason, rivals = _feature_term(nodes, held)
        if isinstance(term, Softmax) and tunable:
            assert held is not None
            tuned = tune_softmax(nodes, held, solver, rivals)
        else:
            chosen.append(term)
        reasons.append(reason)
    elif tunable and nodes.graph is not None and _names_all(nodes) and _is_cheap(nodes):
        assert held is not None
        tuned = tune_links(nodes, held, solver)
    if tuned is not None and tuned.setting.term is not None:
        chosen.append(tuned.setting.term)
    if nodes.y is not None:
        chosen.append(Labels() if tuned is None else tuned.labels())
        reasons.append(f"{int((nodes.y >= 0).sum())} labels")
    why = "; ".join(reasons) or "neither features nor labels"
    choices["terms"] = {"value": [repr(term) for term in chosen], "why": why}
    bound = [term.bind(nodes) for term in chosen]
    if tuned is None:
        return Plan(bound, _trust_in(chosen, trust, choices))
    losses = "; ".join(f"{name}: {loss:.3f}" for name, loss in tuned.losses.items())
    judged = f"log-loss of {len(tuned.held.nodes)} labels held back: {losses}"
    choices["trust"] = {"value": tuned.setting.trust, "why": judged}
    choices["affinities"] = {
        "value": tuned.setting.affinities,
        "why": "one contrast of links for all classes, or one for each two, by the same labels",
    }
    return Plan(bound, tuned.setting.trust, tuned)


def _given_terms(terms: Any, nodes: NodeData, choices: Choices) -> list[Term]:
    if not isinstance(terms, list | tuple):
        raise InputError(f"terms must be 'auto' or a list of terms, got {terms!r}")
    for term in terms:
        if not isinstance(term, Term):
            raise InputError(f"terms must be 'auto' or a list of terms, got {term!r} in it")
    if nodes.X is not None and all(term.source != "features" for term in terms):
        raise InputError(f"X is given, but none of the terms uses features: {list(terms)}")
    choices["terms"] = {"value": [repr(term) for term in terms], "why": "given"}
    return [term.bind(nodes) for term in terms]


def _trust_in(terms: Sequence[Term], trust: float | None, choices: Choices) -> float:
    """Return what was given; else full trust, or none where links were used for features."""
    if trust is not None:
        return trust
    if any(isinstance(term, Softmax) and term.hops for term in terms):
        choices["trust"] = {"value": 0.0, "why": "features are averaged over the links already"}
        return 0.0
    return 1.0


def _feature_term(nodes: NodeData, held: HeldBack | None) -> tuple[Term, str, tuple[Term, ...]]:
    """Return a term for the features, why, and what else to try if it is a classifier.

    A classifier needs labels of every class, and some to hold back.
    """
    X = nodes.X
    assert X is not None
    taught = held is not None and len(np.unique(held.codes)) > 1 and _names_all(nodes)
    if sp.issparse(X):
        if taught:
            return Softmax(), "sparse features: a classifier on averages over links", ()
        if np.asarray(X.data).min(initial=0.0) >= 0:
            return Multinomial(trust=0.1), "sparse features, few labels: dependent words", ()
        return Gaussian(), "sparse features, few labels: a mean and spreads a class", ()
    if X.shape[1] > MOST_FEATURES:
        if taught:
            return Softmax(), "many features: a classifier on averages over links", ()
        return Gaussian(), "many features, few labels: a mean and spreads a class", ()
    intercept, reason = _means_matter(X, nodes.y, nodes.n_classes)
    term = Covariance(intercept=intercept)
    # A density does not describe values that most nodes share.
    often = repeated_share(X)
    lumpy = bool(((often > _MOSTLY) & (often < 1.0)).any())
    if (intercept or lumpy) and taught and nodes.graph is not None:
        if lumpy:
            reason = f"many nodes share values, and {reason}"
        return Softmax(), f"{reason}, or a classifier on averages over links", (term,)
    return term, reason, ()


def _names_all(nodes: NodeData) -> bool:
    """Tell whether every class has a label."""
    return nodes.y is not None and len(np.unique(nodes.y[nodes.y >= 0])) == nodes.n_classes


def _is_cheap(nodes: NodeData) -> bool:
    assert nodes.graph is not None
    return (nodes.graph.n_entries + nodes.graph.n_nodes) * nodes.n_classes <= _CHEAP


def _means_matter(X: NDArray[Any], y: NDArray[np.int64] | None, n_classes: int) -> tuple[bool, str]:
    """Tell whether classes may differ in their mean features, not only in covariance."""
    rows = X[:: -(-len(X) // _MANY)]
    mean, spread = rows.mean(axis=0, dtype=np.float64), rows.std(axis=0, dtype=np.float64)
    varying = spread > 1e-9 * np.abs(mean)  # the rest is rounding
    if not varying.any():
        return False, "features are constant"
    off_zero = np.abs(mean[varying]) / spread[varying]
    if (off_zero * np.sqrt(len(rows)) > _SIGMAS).any():
        return True, "features are not centred: a mean and a covariance a class"
    whole = np.abs(X.mean(axis=0, dtype=np.float64)[varying]) / spread[varying]
    if (whole < 1e-6).all() and len(X) > 1:
        # Chance does not make means this small: someone has subtracted them.
        return True, "features were standardised: a mean and a covariance a class"
    if y is not None:
        known = y >= 0
        if known.sum() > len(np.unique(y[known])) > 1:
            with np.errstate(divide="ignore", invalid="ignore"), warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Features .* are constant")
                _, p_values = f_classif(X[known][:, varying].astype(np.float64), y[known])
            if np.nanmin(p_values, initial=1.0) * varying.sum() < _P_VALUE:
                return True, "class means of the labelled nodes differ: a mean a class"
            if known.sum() >= _PLENTY * n_classes:
                return False, _CENTRED
    if n_classes > 1 and _means_pay(X, y, n_classes):
        return True, "features fall into groups with means of their own: a mean a class"
    return False, _CENTRED


def _means_pay(X: NDArray[Any], y: NDArray[np.int64] | None, n_classes: int) -> bool:
    """Tell whether class means lower the free energy of a sample by more than they cost (BIC)."""
    step = -(-len(X) // _SAMPLE)
    sample = NodeData(n_classes, X[::step], None if y is None else y[::step])
    labels = [Labels().bind(sample)] if sample.y is not None else []
    solver = BlockCADO(n_init=2, max_iter=30, tol=1e-2, random_state=0)
    values = []
    for intercept in (False, True):
        term = Covariance(intercept=intercept).bind(sample)
        values.append(solver.solve(Problem(None, [term, *labels], n_classes)).value)
    n, m = sample.X.shape  # type: ignore[union-attr]
    return values[0] - values[1] > 0.5 * n_classes * m * np.log(n)


def choose_null_model(graph: Graph, asked: str, choices: Choices) -> None:
    """Note which null model the graph was given, and why."""
    why = "given"
    if asked == "auto":
        why = (
            f"degrees spread {max(graph.degree_dispersion(), 0.0):.2f} beyond chance "
            "(squared coefficient of variation)"
        )
    choices["null_model"] = {"value": graph.null_model, "why": why}


def is_convex(solver: Any) -> bool:
    """Tell whether a solver, by name or as an object, solves the convex program."""
    named = isinstance(solver, str) and solver in CONVEX_SOLVERS
    return named or isinstance(solver, tuple(CONVEX_SOLVERS.values()))


def choose_weights(
    weights: Any, threshold: Any, solver: Any, graph: Graph | None, choices: Choices
) -> tuple[Any, float, float | None]:
    """Return the weights, the threshold, and the trust in the graph (None: to be chosen)."""
    convex = is_convex(solver)
    fixed = convex or solver == "cado" or isinstance(solver, CADO)
    why, trust = "given", None
    if isinstance(weights, str) and weights == "auto":
        weights = PAPER_WEIGHTS if fixed else "calibrated"
        why = "the paper's" if fixed else "likelihoods, re-estimated from the rows"
    elif isinstance(weights, str) and weights == "calibrated":
        trust = 1.0
    elif isinstance(weights, Real) and not isinstance(weights, bool):
        check_at_least("weights", weights, 0.0, LARGEST)
        weights, trust = "calibrated", float(weights)
        choices["trust"] = {"value": trust, "why": "given"}
    if isinstance(weights, str):
        if weights != "calibrated":
            raise InputError(
                "weights must be 'auto', 'calibrated', a trust in the graph such as 0.5, or three "
                f"numbers (graph, features, labels), got {weights!r}"
            )
        if fixed:
            what = "the convex program" if convex else "CADO as published"
            raise InputError(f"{what} needs fixed weights, for example (1, 2.5, 13)")
        if threshold != "auto":
            raise InputError("calibrated weights estimate the threshold; leave it at 'auto'")
    else:
        weights = _three_weights(weights)
    choices["weights"] = {"value": weights, "why": why}
    if threshold == "auto":
        if not convex or graph is None:
            return weights, 0.5, trust
        # With 1/2, classes that are sparser than that would fall apart into single nodes.
        why = "the density of the graph, which lies between those inside and across classes"
        choices["threshold"] = {"value": graph.density, "why": why}
        return weights, graph.density, trust
    if not isinstance(threshold, Real) or not abs(float(threshold)) <= LARGEST:
        raise InputError(f"threshold must be 'auto' or a finite number, got {threshold!r}")
    return weights, float(threshold), trust


def _three_weights(weights: Any) -> tuple[float, ...]:
    try:
        three = tuple(float(weight) for weight in weights)
    except TypeError:
        three = (weights,)
    if len(three) != 3 or not all(
        isinstance(weight, float) and 0 <= weight <= LARGEST for weight in three
    ):
        raise InputError(
            f"weights must be three numbers ≥ 0 (graph, features, labels), none above {LARGEST:g}, "
            f"got {three}"
        )
    return three


def choose_solver(solver: Any, choices: Choices, **settings: Any) -> Any:
    """Return the solver: a name's, with the classifier's settings, or the object given."""
    common = {key: settings[key] for key in ("max_iter", "tol", "n_jobs", "random_state")}
    if isinstance(solver, str):
        if solver in ("auto", "block"):
            chosen: Any = BlockCADO(
                temperature=settings["temperature"],
                n_init=settings["n_init"],
                **common,
            )
        elif solver == "cado":
            chosen = CADO(**common)
        elif solver in CONVEX_SOLVERS:
            chosen = CONVEX_SOLVERS[solver](random_state=settings["random_state"])
        else:
            names = ", ".join(repr(name) for name in ("auto", "block", "cado", *CONVEX_SOLVERS))
            raise InputError(f"solver must be one of {names} or a solver object, got {solver!r}")
    elif hasattr(solver, "solve"):
        chosen = solver
    else:
        raise InputError(f"solver must be a name or have a method solve, got {solver!r}")
    why = "the default" if solver == "auto" else "given"
    choices["solver"] = {"value": type(chosen).__name__, "why": why}
    return chosen


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
        warnings.warn(f"at the threshold {t:g} all is one class: {advice}", stacklevel=6)


def choose_probabilities(
    problem: Problem, result: Result, solver: Any, tuned: Tuned | None, choices: Choices
) -> NDArray[Any]:
    """Return the rows to report: scaled as labels held back bear out, or without echo."""
    rows: NDArray[Any] | None = None
    if not problem.calibrated or getattr(solver, "temperature", None) != 1.0:
        why = "weights are not likelihoods, or the temperature is not 1"
    elif result.status is Status.INTERRUPTED:
        why = "the fit was interrupted"
    elif isinstance(problem.terms[0] if problem.terms else None, Softmax):
        why = "a classifier's, its sharpness by labels held back"
    elif problem.graph is None or problem.trust == 0:
        why = "without links they are exact given the class models"
    elif not affordable(problem):
        why = "belief propagation would need more memory than the graph"
    else:
        rows = without_echo(problem, result, solver)
        why = (
            "belief propagation did not settle" if rows is None else "nodes do not hear their echo"
        )
    value = "the solver's rows" if rows is None else "belief propagation"
    reported = np.asarray(result.W if rows is None else rows)
    if tuned is not None and getattr(solver, "temperature", None) == 1.0:
        scale = tuned.scale
        reported = np.exp(log_softmax(scale * np.log(np.maximum(reported, _LEAST_ROW)), axis=1))
        why += f"; scores × {scale:.2f}, as {len(tuned.held.nodes)} labels held back bear out"
    choices["probabilities"] = {"value": value, "why": why}
    return reported
