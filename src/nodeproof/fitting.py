"""From checked data to a fitted model: what `NodeClassifier.fit` and `nodeproof fit` do.

In order: nodes are put into a canonical order (`arrangement`), terms and settings are chosen
(`auto`), the problem is solved (`solvers`), probabilities are chosen (`auto`), and the results are
put back into the given order and returned as one frozen `Fitted`.
"""

from __future__ import annotations

from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np
import scipy.sparse as sp

from nodeproof.arrangement import Arrangement
from nodeproof.auto.counting import FEWEST, choose_n_classes
from nodeproof.auto.evaluation import Evaluation
from nodeproof.auto.experts import as_experts
from nodeproof.auto.experts.guarded import Guarded
from nodeproof.auto.merging import Family
from nodeproof.auto.plans import Plan, choose_plan
from nodeproof.auto.records import record_engine, record_held_out, record_outcome
from nodeproof.auto.sampling import Sample, sample_to_judge
from nodeproof.auto.settings import (
    Choices,
    choose_null_model,
    choose_probabilities,
    choose_solver,
    choose_weights,
    most_certain,
)
from nodeproof.convex.results import ConvexResult
from nodeproof.distributed import as_engine
from nodeproof.errors import InputError
from nodeproof.fit_data import FitData
from nodeproof.fit_graph import arrays_of_kinds, record_direction, record_kinds
from nodeproof.fitted import Fitted, FittedData
from nodeproof.graph import Graph
from nodeproof.inputs import Unit, check_reach, check_validation, warn_of_typos
from nodeproof.inputs.untouched import Untouched
from nodeproof.node_evidence import source_shares
from nodeproof.outcome_warnings import warn_of_outcome
from nodeproof.positive_only import as_labelled_or_not, with_probabilities
from nodeproof.prediction import PredictionState
from nodeproof.problem import Problem
from nodeproof.runtime import threads
from nodeproof.runtime.logs import level_of, logger, reporter, shown, warn_caller
from nodeproof.settings import Settings
from nodeproof.smoothing import Smoothing
from nodeproof.solvers import BlockCADO, Result, Status
from nodeproof.solvers.base import Callback, align_with_labels, check_one_kind, solve_with
from nodeproof.solvers.checkpoint import Checkpoint
from nodeproof.solvers.needs import check_rows, needs_of
from nodeproof.solvers.starts import few_starts
from nodeproof.solvers.sums import kept_for_updates
from nodeproof.terms import NodeData

__all__ = ["FitData", "fit_nodes"]


def fit_nodes(
    data: FitData,
    settings: Settings,
    *,
    validation: Any = None,
    checkpoint: str | PathLike[str] | Checkpoint | None = None,
) -> Fitted:
    """Label every node.

    Parameters
    ----------
    data : FitData
        Features, labels and links.
    settings : Settings
        How to fit.
    validation, checkpoint
        As in :meth:`nodeproof.NodeClassifier.fit`.

    Returns
    -------
    Fitted
        Its status is "interrupted" if Ctrl-C ended the solve.
    """
    settings.check()
    with threads.using(settings.n_jobs), shown(settings.verbose):
        if not settings.positive_only:
            return _Fit(data, settings, validation, checkpoint).run()
        if validation is not None:
            raise InputError("validation is not used with positive_only=True: leave it out")
        two, fitting = as_labelled_or_not(data, settings)
        return with_probabilities(_Fit(two, fitting, None, checkpoint).run(), settings)


class _Fit:
    """The state that the steps of one fit share."""

    def __init__(self, data: FitData, settings: Settings, validation: Any, checkpoint: Any) -> None:
        warn_of_typos(data.labels)
        self.data, self.settings = data, settings
        self.labels, self.validation, self.checkpoint = data.labels, validation, checkpoint
        self.seed = settings.seed()
        self.choices: Choices = {} if data.made is None else {"graph": data.made.choice}
        self.weights, self.threshold, self.trust = choose_weights(
            settings.weights, settings.threshold, settings.solver, data.graph, self.choices
        )
        X = data.X
        # The paper's loss depends on the unit of the features. Likelihoods do not, nor do they on
        # the origin if classes have means; without means, features this far off say nothing anyway.
        # Some terms, such as those of counts, need them as they are.
        terms = settings.terms if isinstance(settings.terms, list | tuple) else ()
        as_given = any(getattr(term, "as_given", False) for term in terms)
        dense = X is not None and not sp.issparse(X) and not as_given
        self.unit = Unit.needed(X) if dense and self.weights == "calibrated" else None
        if self.unit is not None:
            X = self.unit.apply(X)
        if X is not None:
            check_reach(X)
        # Proofs, saved models and reports are about the data as they are now. Links on disk cannot
        # be changed by the caller.
        graph = data.graph
        links = None if graph is None or graph.folder is not None else graph.adjacency
        self.untouched = Untouched({"X": X, "the graph": links} | arrays_of_kinds(graph))
        if data.graph is not None:
            choose_null_model(data.graph, settings.null_model, self.choices)
            record_kinds(data.graph, self.choices)
        self.solver = choose_solver(
            settings.solver,
            self.choices,
            temperature=settings.temperature,
            n_init=settings.n_init,
            max_iter=settings.max_iter,
            tol=settings.tol,
            n_jobs=settings.n_jobs,
            random_state=self.seed,
        )
        if isinstance(self.solver, BlockCADO) and self.solver.checkpoint is not None:
            # For the final fit, not for the small ones that settings are chosen by.
            self.checkpoint = self.checkpoint or self.solver.checkpoint
            self.solver = replace(self.solver, checkpoint=None)
        self.K = len(self.labels.classes)
        self.given = NodeData(
            self.K or FEWEST, X, self.labels.codes, data.graph, feature_names=data.feature_names
        )
        self.arrangement = Arrangement.of(self.given) if self._is_built_in() else None

    def run(self) -> Fitted:
        """Choose, solve, and return the results."""
        settings, nodes = self.settings, self._arranged()
        sample = self._sample(nodes)
        if self.K and isinstance(self.solver, BlockCADO) and not self.settings.leaves_rows:
            check_rows(self.data.n_nodes, self.K)
        if sample is not None and sample.judged.sampled and settings.engine is not None:
            self.solver = replace(self.solver, engine=as_engine(settings.engine))
        plan = choose_plan(
            settings.terms, nodes, self.weights, self.trust, sample, self.solver, self.choices,
            settings.experts,
        )  # fmt: skip
        if plan.evaluation is not None:
            if plan.affinities == "matrix":
                self.solver = replace(self.solver, affinities="matrix")
        elif self.validation is not None:
            raise InputError(
                "validation is not used: terms or weights are given, or there is nothing to "
                "choose; omit it"
            )
        labels, held = self.labels, None if sample is None else sample.judged
        record_held_out(held, plan.evaluation, labels.codes, labels.classes, self.choices)
        record_direction(self.data.graph, plan, self.choices)
        problem, result = self._solve(nodes, plan)
        return self._collect(nodes, problem, result, plan.evaluation)

    def _check_kinds(self, graph: Graph | None) -> None:
        """Refuse several kinds of links where only one can be used."""
        several = graph is not None and bool(graph.kinds)
        block = isinstance(self.solver, BlockCADO)
        ours = type(self.solver).__module__.startswith("nodeproof.")
        engine = self.settings.engine
        if several and ours and not block:
            check_one_kind(graph, f"the solver {type(self.solver).__name__}")
        if several and engine is not None:
            check_one_kind(graph, "a cluster")

    def _is_built_in(self) -> bool:
        """Tell whether solver, terms and experts are ours, and use only the data they are given.

        Those of users may identify nodes by their order.
        """
        terms = self.settings.terms
        parts = [self.solver, *(terms if isinstance(terms, list | tuple) else [])]
        own = any(isinstance(expert, Guarded) for expert in as_experts(self.settings.experts))
        return not own and all(type(part).__module__.startswith("nodeproof.") for part in parts)

    def _arranged(self) -> NodeData:
        """Return the nodes in the order of the fit."""
        nodes = self.given if self.arrangement is None else self.arrangement.arrange(self.given)
        if nodes.X is None:
            return nodes
        return replace(nodes, smoothing=Smoothing(nodes.X, nodes.graph))

    def _sample(self, nodes: NodeData) -> Sample | None:
        """Return the nodes and held-out labels to choose settings by, if there are enough."""
        if nodes.y is None:
            if self.validation is not None:
                raise InputError("validation needs labels to fit, but y is None or has no labels")
            return None
        judged_by = check_validation(self.validation, self.labels, self.data.node_ids)
        if judged_by is not None and self.arrangement is not None:
            judged_by = self.arrangement.position[judged_by[0]], judged_by[1]
        return sample_to_judge(nodes, judged_by)

    def _solve(self, nodes: NodeData, plan: Plan) -> tuple[Problem, Result]:
        """Solve the planned problem; if the number of classes is not given, find it."""
        settings = self.settings
        callback = reporter(settings.verbose)
        if self.arrangement is not None and callable(settings.verbose):
            callback = self.arrangement.shown(callback)
        block = bool(self.K) and isinstance(self.solver, BlockCADO)
        for name, asked in (("checkpoint", self.checkpoint), ("engine", settings.engine)):
            if asked is not None and not block:
                raise InputError(f"{name} needs the solver 'block', and labels or n_classes")
        if not self.K:
            return self._count_classes(nodes, plan, callback)
        graph = nodes.graph and nodes.graph.view(plan.view)
        self._check_kinds(graph)
        problem = Problem(
            graph, plan.terms, self.K, self.weights, self.threshold, plan.trust, settings.son
        )
        if block:
            self._prepare_block(problem)
        # A start that is given already says how classes are linked.
        first = self.solver if plan.start is None else replace(self.solver, hold=0)
        result = solve_with(first, problem, plan.start, callback)
        judged, converged = plan.evaluation, result.status is Status.CONVERGED
        alone = converged and judged is not None and judged.block_alone
        if alone and judged.is_contradicted(result.W, nodes.y):  # type: ignore[union-attr, arg-type]
            self.solver = replace(self.solver, n_init=few_starts(problem))  # as it was judged
            result = solve_with(self.solver, problem, None, callback)
        if problem.labels is None or not block:  # else it has been done
            result = align_with_labels(result, nodes.y)
        return problem, result

    def _prepare_block(self, problem: Problem) -> None:
        """Report what the fit needs, check the memory, and set engine and checkpoint."""
        if self.settings.engine is not None:
            self.solver = replace(self.solver, engine=as_engine(self.settings.engine))
            record_engine(problem, self.solver.n_init, self.choices)
        solver, verbose, left = self.solver, self.settings.verbose, self.settings.leaves_rows
        hard, spread = solver.temperature == 0, solver.engine is not None
        needs = needs_of(problem, solver.n_init, hard=hard, spread=spread, on_disk=left)
        needs.check()
        if hasattr(verbose, "announce"):
            verbose.announce(needs)
        logger.log(level_of(verbose), "%d nodes: %s", problem.n_nodes, needs)
        checkpoint = self.checkpoint
        if isinstance(checkpoint, str | PathLike):
            checkpoint = Checkpoint(checkpoint)
        if checkpoint is not None:
            self.solver = replace(solver, checkpoint=checkpoint)

    def _count_classes(
        self, nodes: NodeData, plan: Plan, callback: Callback | None
    ) -> tuple[Problem, Result]:
        if nodes.graph is not None and len(nodes.graph.kinds) > 1:
            warn_caller(
                "without labels and n_classes, classes are counted by all links together, not "
                "kind by kind: give n_classes to tell them apart"
            )
        family = Family(
            nodes,
            tuple(plan.terms),
            nodes.graph and nodes.graph.view("together"),
            self.weights,
            self.threshold,
            plan.trust,
            self.settings.son,
        )
        problem, result = choose_n_classes(family, self.solver, self.seed, callback, self.choices)
        self.labels = replace(self.labels, classes=np.arange(problem.n_classes))
        return problem, result

    def _collect(
        self, nodes: NodeData, problem: Problem, result: Result, judged: Evaluation | None
    ) -> Fitted:
        """Return the results for the nodes in the given order."""
        settings, choices, codes = self.settings, self.choices, self.labels.codes
        most = most_certain(settings.n_classes, codes, problem.n_classes)
        doubted = all(
            isinstance(s, str) and s == "auto" for s in (settings.terms, settings.weights)
        )
        found, scale = choose_probabilities(
            problem, result, self.solver, judged, most, choices, doubted
        )
        proba = np.asarray(found, dtype=np.float32)
        sums, memberships = kept_for_updates(result, found, scale * most)
        held_out = None if judged is None else judged.cross_fitted()
        nodes = replace(nodes, n_classes=problem.n_classes)
        if self.arrangement is not None:
            order, position = self.arrangement.order, self.arrangement.position
            given = replace(self.given, n_classes=problem.n_classes)
            nodes = self.arrangement.restore_nodes(given, nodes)
            problem = self.arrangement.restore_problem(problem, nodes)
            proba = proba[position]
            memberships = None if memberships is None else memberships[position]
            held_out = held_out and held_out.at(order[held_out.nodes])
        accuracy = None
        if judged is not None and codes is not None:
            accuracy = record_outcome(judged, proba, codes, choices)
        if isinstance(result, ConvexResult):
            why = (
                f"no labelling has a lower objective; relative gap of the program {result.gap:.1e}"
            )
            choices["lower_bound"] = {"value": result.lower_bound, "why": why}
        data = self.data
        fitted = Fitted(
            settings=settings,
            classes=self.labels.classes,
            proba=proba,
            given=codes,
            terms=problem.terms,
            models=result.models,
            on_graph=problem.graph is not None,
            sources=source_shares(problem, proba, result.models),
            choices=choices,
            estimated_accuracy=accuracy,
            status=str(result.status),
            n_iter=result.n_iter,
            history=result.history,
            objective=result.value,
            new_nodes=PredictionState.of_fit(
                problem,
                result.models,
                proba,
                scale,
                data.made and data.made.neighbours,
                data.graph,
            ),
            unit=self.unit,
            n_features=None if data.X is None else int(data.X.shape[1]),
            feature_names=data.feature_names,
            node_ids=data.node_ids,
            data=FittedData(nodes, problem, held_out, self.untouched, sums, memberships),
        )
        if not settings.positive_only:
            warn_of_outcome(fitted, result)
        return fitted
