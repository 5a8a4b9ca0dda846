"""The result of a fit, as one frozen object.

Prediction for new nodes, certificates, queries, reports, saved models and the command line read
it; `NodeClassifier` exposes it as attributes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodeproof.auto.held_out import CrossFitted
from nodeproof.certificate import Certificate, Stage
from nodeproof.certificate.labelling.certify import certify_instance, labelling_problem
from nodeproof.certificate.labelling.instance import Instance
from nodeproof.errors import InputError
from nodeproof.evidence import excluded_labels, find_suspects, mark_excluded
from nodeproof.findings import Findings, find
from nodeproof.inputs import Unit
from nodeproof.inputs.preparation import Preparation
from nodeproof.inputs.untouched import Untouched
from nodeproof.metrics import most_probable
from nodeproof.prediction import PredictionState
from nodeproof.problem import Models, Problem
from nodeproof.runtime import threads
from nodeproof.runtime.caching import cached_property
from nodeproof.settings import Settings
from nodeproof.solvers.sums import Sums
from nodeproof.terms import NodeData, Term

__all__ = ["Fitted", "FittedData"]


@dataclass(frozen=True)
class FittedData:
    """The data that a model was fitted to, while they are in memory.

    Attributes
    ----------
    nodes : NodeData
        Features, labels and links.
    problem : Problem
        The problem that was solved.
    held_out : CrossFitted or None
        Labelled nodes with their cross-fitted probabilities, if settings were chosen by them.
    untouched : Untouched
        Digests to detect changes in place.
    sums : Sums or None
        What the memberships of the solution come to, where updates can be local.
    memberships : ndarray of shape (n, K), float32, or None
        These memberships; None if they are the probabilities.
    """

    nodes: NodeData
    problem: Problem
    held_out: CrossFitted | None
    untouched: Untouched
    sums: Sums | None = None
    memberships: NDArray[np.float32] | None = None


@dataclass(frozen=True, eq=False)
class Fitted:
    """The result of a fit.

    Attributes
    ----------
    settings : Settings
        The settings of the fit.
    classes : ndarray of shape (K,)
        Names of the classes.
    proba : ndarray of shape (n, K), float32
        Class probabilities of every node.
    given : ndarray of shape (n,), or None
        Given labels as class numbers, −1 where there is none; None without labels.
    terms : tuple of Term
        The terms for features and labels.
    models : Models
        The class models of the terms, affinities and class proportions.
    on_graph : bool
        Whether there was a graph.
    sources : dict of float
        Shares of the sources in the decisions.
    choices : dict
        The record of automatic choices: by name, the value and the reason.
    estimated_accuracy : (float, float, float) or None
        Estimate on held-out labels, and its 95 % interval.
    status, n_iter, history, objective
        How the solver ended.
    new_nodes : PredictionState
        What predictions for new nodes need in addition to terms and models.
    unit : Unit or None
        Shift and scale of features that were extreme.
    n_features : int or None
        Number of features; None without any.
    feature_names : ndarray of shape (m,), or None
        Names of the features.
    node_ids : ndarray of shape (n,), or None
        Names of the nodes; None: their positions.
    data : FittedData or None
        The data, unless the model was loaded from a file without them.
    saved_problem : Instance, str or None
        The labelling problem of a loaded model, or why there is none to certify.
    saved_findings : Findings or None
        The findings of a loaded model, for reports.
    saved_held_out : CrossFitted or None
        The held-out labels of a loaded model, for prediction sets.
    preparation : Preparation or None
        How a table of nodes became features, for the tables of new nodes.
    command : str
        The command line that made the fit, if any.
    notes : tuple of str
        Notes on the data and the fit.
    """

    settings: Settings
    classes: NDArray[Any]
    proba: NDArray[Any]
    given: NDArray[np.int64] | None
    terms: tuple[Term, ...]
    models: Models
    on_graph: bool
    sources: dict[str, float]
    choices: dict[str, dict[str, Any]]
    estimated_accuracy: tuple[float, float, float] | None
    status: str
    n_iter: int
    history: dict[str, list[float]]
    objective: float
    new_nodes: PredictionState
    unit: Unit | None = None
    n_features: int | None = None
    feature_names: NDArray[Any] | None = None
    node_ids: NDArray[Any] | None = None
    data: FittedData | None = None
    saved_problem: Instance | str | None = None
    saved_findings: Findings | None = None
    saved_held_out: CrossFitted | None = None
    preparation: Preparation | None = None
    command: str = ""
    notes: tuple[str, ...] = ()

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.proba)

    @property
    def codes(self) -> NDArray[np.int64]:
        """The class number of every node, shape (n,)."""
        return most_probable(self.proba)

    @cached_property
    def labels(self) -> NDArray[Any]:
        """The class of every node, shape (n,)."""
        return np.asarray(self.classes[self.codes])

    @cached_property
    def suspects(self) -> np.recarray[Any, Any]:
        """Labelled nodes whose label is probably wrong, most suspect first; none `excluded` yet."""
        return find_suspects(self.proba, self.given, self.classes)

    def suspects_by(self, proof: Certificate | None) -> np.recarray[Any, Any]:
        """Return the suspects, `excluded` where the proof says that no optimal labelling keeps it.

        That is for the fitted models, and does not prove a label wrong.
        """
        return mark_excluded(self.suspects, proof, self.given)

    def excluded_by(self, proof: Certificate | None) -> NDArray[np.bool_]:
        """Return the nodes whose given label no optimal labelling keeps, shape (n,)."""
        return excluded_labels(proof, self.given, self.n_nodes)

    @property
    def held_out(self) -> CrossFitted | None:
        """Labelled nodes with their cross-fitted probabilities, if there are any."""
        return self.saved_held_out if self.data is None else self.data.held_out

    @property
    def labelled(self) -> NDArray[np.int64]:
        """The nodes with a given label, ascending."""
        return np.flatnonzero(self.given >= 0) if self.given is not None else np.arange(0)

    @property
    def lower_bound(self) -> float | None:
        """Lower bound on the objective of every labelling, from the convex solvers."""
        return self.choices.get("lower_bound", {}).get("value")

    @property
    def names(self) -> NDArray[Any]:
        """Names of the nodes, or their positions; shape (n,)."""
        return np.arange(self.n_nodes) if self.node_ids is None else self.node_ids

    @property
    def n_links(self) -> int | None:
        """Number of links; None without a graph, or if unknown for a loaded model."""
        if self.data is not None:
            graph = self.data.nodes.graph if self.on_graph else None
            return None if graph is None else graph.n_entries // 2
        if self.saved_findings is None or not self.on_graph:
            return None
        return self.saved_findings.n_links

    @property
    def known_findings(self) -> Findings | None:
        """The findings, if they were computed already or loaded from a file."""
        return self.saved_findings or vars(self).get("findings")

    @cached_property
    def findings(self) -> Findings:
        """What a report shows in addition; computed once."""
        if self.saved_findings is not None:
            return self.saved_findings
        self.check_untouched()
        with threads.using(self.settings.n_jobs):
            found = find(self)
        return replace(found, command=self.command, notes=list(self.notes))

    def check_untouched(self) -> None:
        """Raise an error if the caller has changed the fitted data."""
        if self.data is not None:
            with threads.using(self.settings.n_jobs):
                self.data.untouched.check()

    def labelling_problem(self) -> Instance | str:
        """Return the labelling problem of the fitted models, or why there is none to certify.

        For a pool of experts that is what `auto.joint.Joint` says; of a pool in which links have
        no weight of their own, there is none.
        """
        if self.saved_problem is not None:
            return self.saved_problem
        if self.data is None:
            raise InputError(
                "this model was saved without the links and costs that a certificate needs: fit "
                "and save it again"
            )
        self.check_untouched()
        joint = _jointly(self.data.problem, self.models)
        return joint if isinstance(joint, str) else labelling_problem(*joint)

    def certify(
        self,
        *,
        tolerance: float | None = None,
        time_budget: float = 45.0,
        callback: Callable[[Stage], bool | None] | None = None,
    ) -> Certificate:
        """Prove that the labelling is optimal, or bound its gap; as :func:`nodeproof.certify`."""
        seed = self.settings.seed()
        return certify_instance(
            self.labelling_problem(),
            self.codes,
            tolerance=tolerance,
            time_budget=time_budget,
            callback=callback,
            random_state=0 if seed is None else seed,
            n_jobs=self.settings.n_jobs,
        )


def _jointly(problem: Problem, models: Models) -> tuple[Problem, Models] | str:
    """Return the problem with links that a term stands for apart from it, or why it has none."""
    for k, term in enumerate(problem.terms):
        found = term.jointly()
        if isinstance(found, str):
            return found
        if found is not None:
            beside, affinity = found
            terms = (*problem.terms[:k], beside, *problem.terms[k + 1 :])
            return Problem(problem.graph, terms, problem.n_classes), replace(
                models, affinity=affinity
            )
    return problem, models
