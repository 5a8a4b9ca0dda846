"""What a fit found, as one frozen object.

Prediction for new nodes, certificates, queries, reports, saved models and the command line read
it; `NodeClassifier` shows it as attributes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodeproof.auto.held_out import Blind
from nodeproof.certificate import Certificate, Stage
from nodeproof.certificate.labelling.certify import certify_instance, labelling_problem
from nodeproof.certificate.labelling.instance import Instance
from nodeproof.errors import InputError
from nodeproof.evidence import find_suspects
from nodeproof.findings import Findings, find
from nodeproof.inputs import Unit
from nodeproof.prediction import PredictionState
from nodeproof.problem import Models, Problem
from nodeproof.runtime import threads
from nodeproof.runtime.caching import cached_property
from nodeproof.runtime.digests import Untouched
from nodeproof.settings import Settings
from nodeproof.terms import NodeData, Term

__all__ = ["Fitted", "FittedData"]


@dataclass(frozen=True)
class FittedData:
    """The data that a model was fitted to, as long as they are in memory.

    Attributes
    ----------
    nodes : NodeData
        Features, labels and links.
    problem : Problem
        What was solved.
    held_out : Blind or None
        Labelled nodes with their cross-fitted probabilities, where settings were chosen by them.
    untouched : Untouched
        Digests by which changes in place are noticed.
    """

    nodes: NodeData
    problem: Problem
    held_out: Blind | None
    untouched: Untouched


@dataclass(frozen=True, eq=False)
class Fitted:
    """What a fit found.

    Attributes
    ----------
    settings : Settings
        How it was asked for.
    classes : ndarray of shape (K,)
        Names of the classes.
    proba : ndarray of shape (n, K), float32
        Class probabilities of every node.
    given : ndarray of shape (n,), or None
        Given labels as class numbers, −1 where there is none; None without any label.
    terms : tuple of Term
        What was made of features and labels.
    models : Models
        The class models of the terms, affinities and class proportions.
    on_graph : bool
        Whether there was a graph.
    sources : dict of float
        Shares of the sources in the decisions.
    choices : dict
        The record of automatic choices: by name, the value and the reason.
    estimated_accuracy : (float, float, float) or None
        An estimate by held-out labels, and its 95 % interval.
    status, n_iter, history, objective
        How the solver ended.
    new_nodes : PredictionState
        What new nodes are judged by, beside terms and models.
    unit : Unit or None
        Shift and scale of features that were extreme.
    n_features : int or None
        Number of features; None without any.
    feature_names : ndarray of shape (m,), or None
        What the features are called.
    node_ids : ndarray of shape (n,), or None
        What the nodes are called; None: by position.
    data : FittedData or None
        The data, unless the model was loaded from a file.
    saved_problem : Instance, str or None
        The labelling problem of a loaded model, or why there is none to certify.
    saved_findings : Findings or None
        What a report on a loaded model shows.
    command : str
        The command line that led to this fit, if one did.
    notes : tuple of str
        What was noticed on the way.
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
    command: str = ""
    notes: tuple[str, ...] = ()

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.proba)

    @property
    def codes(self) -> NDArray[np.int64]:
        """The class number of every node, shape (n,)."""
        return np.asarray(self.proba.argmax(axis=1))

    @cached_property
    def labels(self) -> NDArray[Any]:
        """The class of every node, shape (n,)."""
        return np.asarray(self.classes[self.codes])

    @cached_property
    def suspects(self) -> np.recarray[Any, Any]:
        """Labelled nodes whose label is probably wrong, most suspect first."""
        return find_suspects(self.proba, self.given, self.classes)

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
        """What the nodes are called, or their positions; shape (n,)."""
        return np.arange(self.n_nodes) if self.node_ids is None else self.node_ids

    @property
    def n_links(self) -> int | None:
        """Number of links; None without a graph, or where a file does not say."""
        if self.data is not None:
            graph = self.data.problem.graph
            return None if graph is None else graph.n_entries // 2
        if self.saved_findings is None or not self.on_graph:
            return None
        return self.saved_findings.n_links

    @property
    def known_findings(self) -> Findings | None:
        """What a report shows, if it was found already or came with the file."""
        return self.saved_findings if self.data is None else vars(self).get("findings")

    @cached_property
    def findings(self) -> Findings:
        """What a report shows beside all this; found once."""
        if self.saved_findings is not None:
            return self.saved_findings
        self.check_untouched()
        with threads.using(self.settings.n_jobs):
            found = find(self)
        return replace(found, command=self.command, notes=list(self.notes))

    def check_untouched(self) -> None:
        """Raise an error if the caller has changed what was fitted."""
        if self.data is not None:
            with threads.using(self.settings.n_jobs):
                self.data.untouched.check()

    def labelling_problem(self) -> Instance | str:
        """Return the labelling problem of the fitted models, or why there is none to certify."""
        if self.saved_problem is not None:
            return self.saved_problem
        if self.data is None:
            raise InputError(
                "this model was saved without the links and costs that a certificate is about: "
                "fit and save it again"
            )
        self.check_untouched()
        return labelling_problem(self.data.problem, self.models)

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
