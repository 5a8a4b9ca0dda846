"""Updates of a fitted model: new nodes, other links and other labels, without starting over.

The plan of the fit is kept: terms, experts with their weights and settings, calibration. What
depends on the data goes on from where it was: memberships, class models, what experts say.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted, validate_data

from nodeproof.auto.experts.base import Changed
from nodeproof.auto.held_out import CrossFitted
from nodeproof.auto.settings import choose_probabilities, most_certain
from nodeproof.changes import name_all, read_labels
from nodeproof.drift import joined_labels, record_accuracy, record_update
from nodeproof.errors import InputError
from nodeproof.fit_graph import record_kinds
from nodeproof.fitted import Fitted, FittedData
from nodeproof.inputs import check_features, check_reach, read_features
from nodeproof.inputs.features import as_sparse_as, stacked
from nodeproof.inputs.node_names import Names, names_of_rows
from nodeproof.inputs.untouched import Untouched
from nodeproof.link_changes import LinkChanges
from nodeproof.metrics import most_probable
from nodeproof.node_evidence import source_shares
from nodeproof.prediction import PredictionState, check_parts, judge_read
from nodeproof.problem import Problem
from nodeproof.rewiring import Rewired
from nodeproof.runtime import threads
from nodeproof.runtime.logs import shown
from nodeproof.smoothing import dense_rows
from nodeproof.solvers import BlockCADO, Result, Status
from nodeproof.solvers.beliefs import affordable
from nodeproof.solvers.nearby import Change, Nearby, solve_nearby
from nodeproof.solvers.nearby_beliefs import beliefs_nearby
from nodeproof.solvers.sums import kept_for_updates
from nodeproof.terms.registry import allow_missing

__all__ = ["Updates", "update_fitted"]

Array = NDArray[np.float64]


class Updates:
    """Mixin that updates a fitted classifier; goes before `BaseEstimator`."""

    fitted_: Fitted

    def update(
        self,
        X: Any = None,
        y: Any = None,
        *,
        graph: Any = None,
        add: Any = None,
        remove: Any = None,
    ) -> Self:
        """Take up new nodes, other links and other labels, without starting over.

        Names and order of nodes and classes stay as they are; new nodes come last. What the fit
        has chosen on held-out labels (experts and their weights, calibration) is kept, and
        ``choices_["update"]`` says how far the model is from its last fit; a warning says when it
        should be fitted again.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_new, m), optional
            Features of new nodes.
        y : dict, Series or array, optional
            Labels. A dict or a Series, from nodes to labels, changes these nodes only. An array
            has one entry per node, n + n_new in all, and replaces all labels; or, if there are new
            nodes, one per new node. −1, None or NaN means no label, and removes one that was
            there. Nodes are called by their names (`node_ids_`), or by their positions if they
            have none.
        graph : object, optional
            Links of new nodes, as in :meth:`predict`; without `X`, it says how many there are. If
            the fit has linked nodes to their nearest neighbours, new ones are linked to theirs.
        add, remove : pairs, or dict of these, optional
            Links to add and to remove: an array of shape (E, 2), a list of pairs or a table with
            the columns source and target, of nodes by name, or by position if they have none. A
            third column holds weights of added links; a link that is there already gets the new
            one, and of a pair listed twice the largest weight counts. To a fit with several kinds
            of links give a dict of these by kind, or a table with a column type. Links with a
            direction lead from the first node to the second. To a fit with weights of both signs,
            weights may be negative.

        Raises
        ------
        InputError
            If `y` names a class that the fit did not have, or the fit cannot be updated: fit
            again.
        """
        check_is_fitted(self)
        fitted = self.fitted_
        names = names_of_rows(X, "X")
        if X is not None:
            X = read_features(X, partial(validate_data, self, reset=False))
            check_features(X, fitted.feature_names, allow_missing(fitted.terms))
        with threads.using(fitted.settings.n_jobs), shown(fitted.settings.verbose):
            self._show(  # type: ignore[attr-defined]
                update_fitted(fitted, X, y, graph, add, remove, names)
            )
        return self


def update_fitted(
    fitted: Fitted,
    X: Any = None,
    y: Any = None,
    graph: Any = None,
    add: Any = None,
    remove: Any = None,
    names: Names = None,
) -> Fitted:
    """Return a fitted model after an update; the given one stays as it is.

    Parameters
    ----------
    X : ndarray or csr_array of shape (n_new, m), or None
        Features of new nodes, checked.
    y, graph, add, remove
        As in :meth:`nodeproof.NodeClassifier.update`.
    names : ndarray of shape (n_new,), range or None
        Names of the new nodes.
    """
    if all(part is None for part in (X, y, graph, add, remove)):
        raise InputError("update needs new nodes, links or labels: all of them are None")
    before = _before(fitted)
    return _Update(fitted, before, X, y, graph, add, remove, names).run()


def _before(fitted: Fitted) -> FittedData:
    settings = fitted.settings
    solver = settings.solver
    if not (solver in ("auto", "block") if isinstance(solver, str) else type(solver) is BlockCADO):
        raise InputError("only fits by block CADO can be updated: fit again")
    if settings.son:
        raise InputError("fits with a sum of norms cannot be updated: fit again")
    if settings.positive_only:
        raise InputError("a fit with positive_only=True cannot be updated: fit again")
    data = fitted.data
    if data is None:
        raise InputError(
            "this model was saved without the data that an update needs: fit and save it again"
        )
    fitted.check_untouched()
    return data


class _Update:
    """The state that the steps of one update share."""

    def __init__(
        self,
        fitted: Fitted,
        before: FittedData,
        X: Any,
        y: Any,
        graph: Any,
        add: Any,
        remove: Any,
        names: Names,
    ) -> None:
        self.fitted, self.before = fitted, before
        if X is not None or graph is not None:
            check_parts(fitted, X, graph)
        self.neighbours = fitted.new_nodes.neighbours
        if X is not None and self.neighbours is not None:
            nearest, self.neighbours = self.neighbours.joined_by(X)
            graph = nearest if graph is None else graph
        n_new = None if X is None else X.shape[0]
        self.links = LinkChanges(fitted, before.nodes.graph, graph, n_new, names)
        self.names = name_all(fitted, names, self.links.n_new)
        self.rewired: Rewired = self.links.rewire(add, remove, self.names)
        self.X = self._features(X)
        self._read_labels(y, self.links.n_new)
        self.changed = self._changed(self.links.n_new)

    def _features(self, X: Any) -> Any:
        """Return the features of new nodes in the unit of the fit."""
        if X is None:
            return None
        X = as_sparse_as(self.before.nodes.X, X)
        if self.fitted.unit is not None:
            X = self.fitted.unit.apply(dense_rows(X))
        check_reach(X)
        return X

    def _read_labels(self, y: Any, n_new: int) -> None:
        fitted = self.fitted
        given = fitted.given
        if given is None and y is not None:
            raise InputError(
                "this model was fitted without labels, so it has no names for its classes: to use "
                "labels, fit again"
            )
        self.given = given if given is None else np.concatenate([given, np.full(n_new, -1)])
        self.y = None
        if given is not None:
            self.y = read_labels(y, fitted.classes, given, self.names, n_new)
            if not (self.y >= 0).any():
                raise InputError("this update would leave no label at all: fit again without y")

    def _changed(self, n_new: int) -> Changed:
        nodes = self.before.nodes
        relabelled = self.y is not None and bool((self.y != self.given).any())
        X = nodes.X
        if n_new and X is not None:
            X = stacked(X, self.X)
        rewired = n_new > 0 or len(self.rewired.touched) > 0
        after = replace(
            nodes,
            X=X,
            y=self.y,
            graph=self.rewired.graph,
            smoothing=None if rewired else nodes.smoothing,
            links=None if rewired else nodes.links,
        )
        new = self.links.new_nodes(self.X, nodes.feature_names)
        return Changed(after, nodes.graph, new, self.rewired.touched, relabelled)

    def run(self) -> Fitted:
        """Return the model after the update."""
        fitted = self.fitted
        start, solver = self._start(), self._solver()
        near = self._nearby(start, solver.tol)
        solved = self._swept(start, solver) if near is None else self._solved_nearby(near)
        after, result = solved
        choices = dict(fitted.choices)
        most = most_certain(fitted.settings.n_classes, self.y, len(fitted.classes))
        judged = "held_out" in fitted.choices or self.before.held_out is not None
        found, scale = None, 1.0
        believed_before = self.before.memberships is not None
        if near is not None and most == 1.0 and believed_before and affordable(after):
            believed = beliefs_nearby(after, near, fitted.proba, solver.tol)
            if believed is not None:
                found, _, left_out = believed
                near = replace(near, left_out=max(near.left_out, left_out))
        if found is None:
            found, scale = choose_probabilities(after, result, solver, None, most, {}, not judged)
        proba = np.asarray(found, dtype=np.float32)
        sums, memberships = kept_for_updates(result, found, scale * most)
        held_out = self._held_out(start)
        accuracy = None
        if held_out is not None and self.y is not None:
            accuracy = record_accuracy(held_out, proba, self.y < 0, choices)
        models = result.models
        data = FittedData(self.changed.nodes, after, held_out, self._untouched(), sums, memberships)
        updated = replace(
            fitted,
            proba=proba,
            given=self.y,
            terms=after.terms,
            models=models,
            sources=source_shares(after, proba, models),
            choices=choices,
            estimated_accuracy=accuracy,
            status=str(result.status),
            n_iter=result.n_iter,
            history=result.history,
            objective=result.value,
            new_nodes=PredictionState.of_fit(
                after, models, proba, scale, self.neighbours, self.changed.nodes.graph
            ),
            node_ids=self.names,
            data=data,
            saved_problem=None,
            saved_findings=None,
        )
        if near is not None and result.W is found and self.before.memberships is None:
            # Probabilities of all others are what they were.
            labels = np.concatenate([fitted.labels, fitted.labels[: self.changed.n_new]])
            labels[near.nodes] = fitted.classes[most_probable(proba[near.nodes])]
            vars(updated)["labels"] = labels
        if self.changed.rewired and self.changed.nodes.graph is not None:
            record_kinds(self.changed.nodes.graph, choices)
        named = 0 if self.y is None else int((self.y != self.given).sum())
        links = self.rewired.added + self.rewired.removed
        record_update(fitted, updated, self.changed.n_new, links, named, held_out, near)
        return updated

    def _nearby(self, start: NDArray[np.float32], tol: float) -> Nearby | None:
        """Return memberships that were solved near the change; None if that does not do."""
        before, fitted, n = self.before, self.fitted, self.fitted.n_nodes
        if before.sums is None or self.links.kinds is not None:
            return None
        steps, n_new = self.rewired.steps, self.changed.n_new
        relabelled = np.empty(0, dtype=np.int64)
        if self.y is not None:
            relabelled = np.flatnonzero(self.y != self.given)
        nodes = np.concatenate([relabelled[relabelled < n], np.arange(n, n + n_new)])
        change = Change(n, self.rewired.touched, nodes, steps.rows, steps.columns, steps.weights)
        return solve_nearby(
            before.problem, before.nodes, self.changed.nodes, change, start, fitted.models,
            before.sums, tol,
        )  # fmt: skip

    def _solved_nearby(self, near: Nearby) -> tuple[Problem, Result]:
        result = Result(
            near.W, near.models, near.value, Status.CONVERGED, near.n_iter,
            {"change": [near.left_out]}, sums=near.sums,
        )  # fmt: skip
        return near.problem, result

    def _swept(self, start: NDArray[np.float32], solver: BlockCADO) -> tuple[Problem, Result]:
        """Return the problem after the update, solved by sweeps over all nodes."""
        problem, graph = self.before.problem, self.changed.nodes.graph
        if graph is not None:
            graph = None if problem.graph is None else graph.view(problem.graph.viewed)
        after = Problem(
            graph,
            [term.updated(self.changed, self.given) for term in self.fitted.terms],
            problem.n_classes,
            problem.weights,
            problem.threshold,
            problem.trust,
            problem.son,
        )
        return after, solver.solve(after, start)

    def _start(self) -> NDArray[np.float32]:
        """Return memberships to start from: as they were, of new nodes as predicted."""
        fitted, new = self.fitted, self.changed.new
        W = fitted.proba if self.before.memberships is None else self.before.memberships
        if self.before.sums is None:
            W = np.asarray(W, dtype=np.float32)
            W = W / W.sum(axis=1, keepdims=True)
        if not self.changed.n_new:
            return W
        found = judge_read(fitted, new)
        return np.vstack([W, (found / found.sum(axis=1, keepdims=True)).astype(np.float32)])

    def _solver(self) -> BlockCADO:
        settings, affinity = self.fitted.settings, self.fitted.models.affinity
        solver = settings.solver
        if isinstance(solver, str):
            solver = BlockCADO(
                temperature=settings.temperature,
                max_iter=settings.max_iter,
                tol=settings.tol,
                random_state=settings.seed(),
            )
        matrix = affinity is not None and affinity.ell.shape[-1] != 1
        return replace(
            solver,
            n_init=1,
            hold=0,
            n_jobs=settings.n_jobs,
            engine=None,
            checkpoint=None,
            affinities="matrix" if matrix else "scalar",
        )

    def _held_out(self, start: NDArray[Any]) -> CrossFitted | None:
        """Return held-out labels: those of the fit that still hold, and new ones.

        New labels were unknown to the model until now: what it said of their nodes is held out.
        """
        held, y = self.before.held_out, self.y
        if held is None or y is None or self.given is None:
            return None
        named = np.setdiff1d(np.flatnonzero((y >= 0) & (self.given < 0)), held.nodes)
        proba = start[named]
        for term in self.fitted.terms:
            foretold = term.foretold(self.changed, named)
            if foretold is not None:
                proba = np.exp(foretold).astype(np.float32)
        return joined_labels(held, y, named, proba)

    def _untouched(self) -> Untouched:
        """Return digests of what belongs to the caller: what was changed is a copy."""
        untouched = self.before.untouched
        if self.changed.n_new:
            return untouched.only()
        return untouched.only("X") if self.changed.rewired else untouched
