"""The paper's model of links, features and labels, solved by block CADO."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from nodeproof.affinity import FittedGraph
from nodeproof.auto.experts.base import Array, Candidate, Expert, Learnt, NewNodes
from nodeproof.auto.held_out import HeldOut
from nodeproof.auto.likelihoods import describes_links
from nodeproof.auto.pooling import Judge
from nodeproof.problem import Models, Problem
from nodeproof.solvers import BlockCADO, Status
from nodeproof.solvers.beliefs import reported_probabilities
from nodeproof.terms import Labels, NewNodeCosts, NodeData, Term

__all__ = ["BlockModel"]

# Memberships are clipped from below, to take their logarithm.
_LEAST = 1e-6

# Log-loss, as a share of that of guessing, below which other experts could add nothing.
_CERTAIN = 0.05


class Setting(NamedTuple):
    """The term of the features, if any, and whether contrasts of links differ between classes."""

    term: Term | None
    affinities: Literal["scalar", "matrix"] = "scalar"


@dataclass(frozen=True)
class LearntBlocks(Learnt):
    """A solved problem, as far as new nodes need it.

    Attributes
    ----------
    models : Models
        Of the classes.
    graph : FittedGraph or None
        Summary of the links.
    terms : tuple of NewNodeCosts or None
        What new nodes cost by each term.
    """

    log_proba: NDArray[np.float32]
    models: Models
    graph: FittedGraph | None
    terms: tuple[NewNodeCosts | None, ...]

    def reordered(self, position: NDArray[np.int64]) -> Self:
        """Return the same for reordered nodes."""
        return replace(self, log_proba=self.log_proba[position])

    def judge(self, new: NewNodes) -> Array:
        """Return log-probabilities of new nodes, shape (n_new, K)."""
        scores = np.tile(self.models.log_prior, (new.links.shape[0], 1))
        for term in self.terms:
            if term is not None:
                scores -= term.costs(new)
        if self.graph is not None and self.models.affinity is not None:
            unit, W = self.graph.unit, np.exp(self.log_proba)
            scores = self.graph.settle(
                scores, unit * new.links, unit * new.among, W, self.models.affinity
            )
        return np.asarray(log_softmax(scores, axis=1))


class BlockModel(Expert):
    """Likelihoods of links, features and labels given the classes."""

    name: ClassVar[str] = "block model"

    def __init__(
        self, terms: tuple[Term | None, ...] = (None,), solver: BlockCADO | None = None
    ) -> None:
        self.terms = terms
        self.solver = BlockCADO(n_init=1, random_state=0) if solver is None else solver

    def why_not(self, nodes: NodeData) -> str | None:
        """Return why it does not apply: no features that it describes, and no links."""
        return None if self.terms else "no likelihood suits the features, and there are no links"

    def settings(self) -> list[Setting]:
        """Return the candidates."""
        linked = self.nodes.graph is not None and self.nodes.graph.n_entries > 0
        found = [Setting(term) for term in self.terms]
        if linked:
            found += [Setting(term, "matrix") for term in self.terms[:1]]
        return found

    def problem(self, y: NDArray[np.int64], setting: Setting) -> Problem:
        """Return the problem to solve."""
        nodes: NodeData = replace(self.nodes, y=y)
        terms = [Labels()] if setting.term is None else [setting.term, Labels()]
        return Problem(nodes.graph, [term.bind(nodes) for term in terms], nodes.n_classes)

    def learn(self, y: NDArray[np.int64], setting: Any) -> LearntBlocks:
        """Return the solution for the labels seen."""
        problem = self.problem(y, setting)
        solver = replace(self.solver, affinities=setting.affinities)
        result = solver.solve(problem)
        if result.status is Status.INTERRUPTED:
            raise KeyboardInterrupt  # half-finished candidates cannot be compared
        beliefs, _ = reported_probabilities(problem, result, solver)
        W = np.asarray(result.W if beliefs is None else beliefs)
        graph = None if problem.graph is None else FittedGraph.of_graph(problem.graph, W)
        costs = tuple(
            term.for_new_nodes(theta, calibrated=True)
            for term, theta in zip(problem.terms, result.models.terms, strict=True)
        )
        logs = np.log(np.maximum(W, _LEAST)).astype(np.float32)
        return LearntBlocks(logs, result.models, graph, costs)

    def candidates(self, held: HeldOut, than: Array | None = None) -> list[Candidate]:
        """Return what was tried, up to a setting that predicts all labels but a few."""
        found = []
        for setting in self.settings():
            logs = self.held_out(held, setting, than)
            if logs is not None:
                found.append(Candidate.judged(setting, logs, held, self))
                if self.is_certain(logs, held):
                    break
        return found

    def is_certain(self, logs: Array, held: HeldOut) -> bool:
        """Tell whether held-out labels are predicted almost without doubt or error, with links."""
        K, graph = self.nodes.n_classes, self.nodes.graph
        if graph is None or graph.n_entries == 0:
            return False
        return Judge.of(held.codes, K).loss(logs) < _CERTAIN * np.log(K)

    def describes_links(self, held: HeldOut, setting: Setting) -> bool:
        """Tell whether there are links, and whether they are as the model has them."""
        graph = self.nodes.graph
        if graph is None or graph.n_entries == 0:
            return False
        codes = self.learn(held.y[0], setting).log_proba.argmax(axis=1)
        return describes_links(graph, codes, self.nodes.n_classes)

    def describe(self, setting: Setting) -> str:
        """Return a setting in words."""
        term = "" if setting.term is None else repr(setting.term)
        kind = "one contrast per pair of classes" if setting.affinities == "matrix" else ""
        return ", ".join(part for part in (term, kind) if part)
