"""The paper's model of links, features and labels, solved by block CADO."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from nodeproof.affinity import Affinity, FittedGraph
from nodeproof.auto.experts.base import (
    Array,
    Candidate,
    Expert,
    no_logs,
)
from nodeproof.auto.experts.learnt_blocks import GRAPH_PARTS, LearntBlocks, Setting
from nodeproof.auto.held_out import HeldOut
from nodeproof.auto.likelihoods import describes_links, has_no_triangles, kinds_overlap
from nodeproof.auto.pooling import Judge
from nodeproof.fitted_kinds import KIND_PARTS, FittedKinds, fitted_graph
from nodeproof.node_evidence import source_shares
from nodeproof.problem import Models, Problem
from nodeproof.runtime import threads
from nodeproof.runtime.caching import cached_property
from nodeproof.solvers import BlockCADO, Result, Status
from nodeproof.solvers.beliefs import reported_probabilities
from nodeproof.solvers.starts import few_starts
from nodeproof.storage.schema import (
    Check,
    Expected,
    either,
    entries,
    list_of,
    one_of,
    or_none,
)
from nodeproof.terms import Labels, NodeData, Term
from nodeproof.terms.base import BoundCosts
from nodeproof.terms.registry import find_term, is_described, restore_term

__all__ = ["BlockModel", "LearntBlocks"]

# Memberships are clipped from below, to take their logarithm.
_LEAST = 1e-6

# Share of the nodes that fits which see other labels must agree on.
_STABLE = 0.9

# Log-loss, as a share of that of guessing, below which other experts could add nothing.
_CERTAIN = 0.05

_MOST_TERMS = 16


class BlockModel(Expert):
    """Likelihoods of links, features and labels given the classes.

    Parameters
    ----------
    terms : sequence of Term or None, optional
        For the features, of which the best on held-out labels is taken; None stands for links and
        labels alone. By default chosen by the data.
    """

    name: ClassVar[str] = "block model"
    kept_settings: ClassVar[Mapping[str, Check]] = {
        "graph": or_none(either(entries(GRAPH_PARTS), list_of(entries(KIND_PARTS)))),
        "contrasts": or_none(one_of("scalar", "matrix")),
        "terms": list_of(is_described, 2),
    }
    about: ClassVar[str] = "a statistical model of each class"
    concurrent: ClassVar[bool] = True

    #: all nodes, if experts are judged on a sample: of this model, far links tell too much to judge
    #: it without them
    whole: NodeData | None = None

    #: memberships of all nodes to start from, shape (n, K), for settings (in words) that were
    #: judged on all nodes
    starts: Mapping[str, NDArray[Any]] = MappingProxyType({})

    #: what was tried, if it was judged on all nodes
    _judged: list[Candidate] | None = None

    #: of all its fits
    solver: BlockCADO = BlockCADO(n_init=1, random_state=0)

    def __init__(self, terms: Sequence[Term | None] | None = None) -> None:
        self.terms = terms

    def completed(
        self, terms: Sequence[Term | None], solver: BlockCADO, whole: NodeData | None = None
    ) -> BlockModel:
        """Return a copy with these terms, unless it was given others, and this solver.

        Parameters
        ----------
        whole : NodeData, optional
            All nodes, if other experts are judged on a sample of them.
        """
        found = BlockModel(terms if self.terms is None else self.terms)
        found.solver, found.whole = solver, whole
        return found

    @classmethod
    def arguments(cls) -> Mapping[str, Check]:
        """Return the arguments that make up an expert, with what a saved file may say of each."""
        return {"terms": or_none(list_of(or_none(is_described), _MOST_TERMS))}

    @property
    def choices(self) -> Sequence[Term | None]:
        """The terms of the features to choose from; None for links and labels alone."""
        return (None,) if self.terms is None else self.terms

    #: what was learnt from the labels of a fold: asked for again by those who doubt it
    _learnt: dict[tuple[bytes, int, str, str], LearntBlocks]

    def bind(self, nodes: NodeData) -> Self:
        """Return a copy that holds the data."""
        bound = super().bind(nodes)
        bound._learnt = {}
        return bound

    def why_not(self, nodes: NodeData) -> str | None:
        """Return why it does not apply: no features that it describes, and no links."""
        return None if self.choices else "no likelihood suits the features, and there are no links"

    def settings(self) -> list[Setting]:
        """Return the candidates."""
        view = "together" if self.overlapping else "kinds"
        found = [Setting(term, view=view) for term in self.choices]
        first = self.choices[: self.linked]
        found += [Setting(term, "matrix", view) for term in first]
        if self.overlapping:
            found += [Setting(term) for term in first]
        if self.nodes.graph is not None and self.nodes.graph.directed:
            found += [Setting(term, "matrix", "directed") for term in self.choices]
        return found

    def problem(self, y: NDArray[np.int64], setting: Setting) -> Problem:
        """Return the problem to solve."""
        nodes: NodeData = replace(self.nodes, y=y)
        terms = [Labels()] if setting.term is None else [setting.term, Labels()]
        graph = nodes.graph and nodes.graph.view(setting.view)
        return Problem(graph, [term.bind(nodes) for term in terms], nodes.n_classes)

    def _solve(
        self, y: NDArray[np.int64], setting: Setting
    ) -> tuple[Problem, Result, NDArray[np.float32]]:
        """Return the problem for the labels seen, its solution, and the probabilities by it."""
        problem = self.problem(y, setting)
        solver = replace(
            self.solver,
            affinities=setting.affinities,
            n_init=few_starts(problem),
            n_jobs=threads.available(),
        )
        start = self.starts.get(self.describe(setting))
        if start is not None:  # it already says how classes are linked
            solver = replace(solver, hold=0)
        result = solver.solve(problem, start)
        if result.status is Status.INTERRUPTED:
            raise KeyboardInterrupt  # half-finished candidates cannot be compared
        beliefs, _ = reported_probabilities(problem, result, solver)
        return problem, result, np.asarray(result.W if beliefs is None else beliefs)

    def learn(self, y: NDArray[np.int64], setting: Any) -> LearntBlocks:
        """Return the solution for the labels seen."""
        if self.whole is not None:  # asked for once
            return self._learn(y, setting)
        key = y.tobytes(), id(setting.term), setting.affinities, setting.view
        if key not in self._learnt:
            self._learnt[key] = self._learn(y, setting)
        return self._learnt[key]

    def _learn(self, y: NDArray[np.int64], setting: Setting) -> LearntBlocks:
        problem, result, W = self._solve(y, setting)
        graph = fitted_graph(problem.graph, W)
        costs = tuple(
            term.for_new_nodes(theta, calibrated=True)
            for term, theta in zip(problem.terms, result.models.terms, strict=True)
        )
        shares = _shares(problem, W, result) if isinstance(graph, FittedKinds) else {}
        return LearntBlocks(_logs(W), result.models, graph, costs, shares)

    def node_costs(self, learnt: LearntBlocks, setting: Setting) -> Callable[[int, int], Array]:
        """Return what nodes lo…hi cost in each class beside links and labels, a function of both.

        These are the −log-likelihood of their features, if there is a term for them, and the −log
        proportions of the classes.
        """
        assert self.nodes.y is not None
        problem, models = self.problem(self.nodes.y, setting), learnt.models
        labels = len(problem.terms) - 1

        def part(lo: int, hi: int) -> Array:
            return problem.costs(models, lo, hi, skip={labels}) - models.log_prior

        return part

    def candidates(self, held: HeldOut, than: Array | None = None) -> list[Candidate]:
        """Return what was tried, up to a setting that predicts all labels but a few."""
        if self.whole is not None:
            self._judged = self._judged or self._judged_on_all(held)
            return self._judged
        found: list[Candidate] = []
        for setting in self.settings():
            if found and not self._is_promising(setting, found[0], held):
                continue
            logs = self.held_out(held, setting, than)
            if logs is not None:
                found.append(Candidate.judged(setting, logs, held, self))
                if self.is_certain(logs, held):
                    break
        return found

    def _is_promising(self, setting: Setting, first: Candidate, held: HeldOut) -> bool:
        """Tell whether one fold is predicted better than by the first setting."""
        fold = int(held.folds[0])
        here = held.folds == fold
        logs = self.learn(held.y[fold], setting).log_proba[held.nodes[here]].astype(np.float64)
        judge = Judge.of(held.codes, self.nodes.n_classes).only(here)
        return judge.best_loss(logs, False) < judge.best_loss(first.logs[here], False)

    def _judged_on_all(self, held: HeldOut) -> list[Candidate]:
        """Return what was tried, judged by fits to the whole graph with all these labels hidden.

        The final fit starts from there, so that nothing is done twice. Where the first setting
        leaves doubt, links alone are tried, too, and one density of links per pair of classes.
        """
        nodes = self.whole
        assert nodes is not None
        assert nodes.y is not None
        y = nodes.y
        if held.own:
            y = y.copy()
            y[held.among_all] = -1
        whole = self.bind(nodes)
        found: list[Candidate] = []
        starts: dict[str, NDArray[Any]] = {}

        def is_certain(setting: Setting) -> bool:
            _, result, W = whole._solve(y, setting)
            logs = _logs(W[held.among_all]).astype(np.float64)
            found.append(Candidate.judged(setting, logs, held, self))
            starts[self.describe(setting)] = np.asarray(result.W)
            return self.is_certain(logs, held)

        first = Setting(self.choices[0], view="together" if self.overlapping else "kinds")
        certain = is_certain(first)
        if not certain and first.term is not None and None in self.choices:
            certain = is_certain(first._replace(term=None))
        if not certain and self.linked:
            best = min(found, key=lambda candidate: candidate.loss)
            is_certain(best.setting._replace(affinities="matrix"))
            if nodes.graph is not None and nodes.graph.directed:
                is_certain(best.setting._replace(affinities="matrix", view="directed"))
        self.starts = starts
        return found

    def is_certain(self, logs: Array, held: HeldOut) -> bool:
        """Tell whether held-out labels are predicted almost without doubt or error, with links."""
        K = self.nodes.n_classes
        return self.linked and Judge.of(held.codes, K).loss(logs) < _CERTAIN * np.log(K)

    @property
    def linked(self) -> bool:
        """Whether there are links."""
        return self.nodes.graph is not None and self.nodes.graph.n_entries > 0

    @cached_property
    def overlapping(self) -> bool:
        """Whether kinds of links have many links in common, which must not count twice."""
        graph = self.nodes.graph if self.whole is None else self.whole.graph
        return graph is not None and kinds_overlap(graph, None, self.nodes.n_classes)

    def counts_twice(self, setting: Setting) -> bool:
        """Tell whether links that kinds have in common count once for each of them."""
        return self.overlapping and setting.view != "together"

    def describes_links(self, held: HeldOut, setting: Setting) -> bool:
        """Tell whether there are links, and whether they are as the model has them."""
        graph = self.nodes.graph if self.whole is None else self.whole.graph
        if graph is None or not self.linked:
            return False
        seen = graph.view(setting.view)
        kinds = [kind.undirected for kind in seen.kinds] or [graph]
        if self.whole is not None:
            return all(map(has_no_triangles, kinds))
        codes = self.learn(held.y[0], setting).log_proba.argmax(axis=1)
        if kinds_overlap(seen, codes, self.nodes.n_classes):
            return False
        return all(describes_links(kind, codes, self.nodes.n_classes) for kind in kinds)

    def is_stable(self, held: HeldOut, setting: Setting) -> bool:
        """Tell whether fits that see other labels agree on almost all nodes.

        They do if links and features determine the groups. If they do not, groups follow whatever
        labels are seen.
        """
        if len(held.y) < 2 or self.whole is not None:
            return True
        first, second = (self.learn(y, setting).log_proba.argmax(axis=1) for y in held.y[:2])
        return bool((first == second).mean() >= _STABLE)

    @classmethod
    def kept_layout(cls, settings: Mapping[str, Any]) -> Mapping[str, Expected]:
        """Return which arrays are saved."""
        shapes = {"log_prior": "K"}
        if settings["graph"] is not None:
            contrasts, pairs = "1 1" if settings["contrasts"] == "scalar" else "K K", "K"
            if isinstance(settings["graph"], list):
                kinds = str(len(settings["graph"]))
                contrasts, pairs = f"{kinds} {contrasts}", f"{kinds} 2 K"
            shapes |= {"pairs": pairs, "log_proba": "n K", "ell": contrasts, "ell_t": contrasts}
        for k, described in enumerate(settings["terms"]):
            term = find_term(described["class"])
            assert term is not None
            shapes[f"term_{k}"] = term.models_shape
        found = {name: Expected("f", shape, required=True) for name, shape in shapes.items()}
        # A class that nobody is in has no share.
        return found | {"log_prior": Expected("f", "K", required=True, infinite=True)}

    @classmethod
    def restored(
        cls, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> LearntBlocks:
        """Return what was learnt from its saved parts; `log_proba` only with links."""
        terms = [restore_term(described) for described in settings["terms"]]
        models = tuple(arrays[f"term_{k}"] for k in range(len(terms)))
        for term, theta in zip(terms, models, strict=True):
            term.check_models(theta)
        prior = arrays["log_prior"]
        if not ((prior < np.inf).all() and prior.max() > -np.inf):
            raise ValueError("proportions of classes are no numbers")
        graph: FittedGraph | FittedKinds | None = None
        affinity = None
        if isinstance(settings["graph"], list):
            graph = FittedKinds.of_parts(settings["graph"], arrays["pairs"])
            affinity = Affinity(arrays["ell"], arrays["ell_t"])
        elif settings["graph"] is not None:
            graph = FittedGraph(**settings["graph"], pairs=arrays["pairs"])
            if not (graph.unit > 0 and graph.total >= 0):
                raise ValueError("the weights of its links are not positive")
            affinity = Affinity(arrays["ell"], arrays["ell_t"])
        costs = tuple(
            BoundCosts(term, theta, True) for term, theta in zip(terms, models, strict=True)
        )
        logs = arrays.get("log_proba", no_logs(len(prior)))
        return LearntBlocks(logs, Models(affinity, models, prior), graph, costs)

    def describe(self, setting: Setting) -> str:
        """Return a setting in words."""
        parts = ["links"] if self.linked else []
        if self.overlapping:
            parts = ["links of all kinds" if setting.view == "together" else "links of each kind"]
        if setting.term is not None:
            parts.append(f"features by {type(setting.term).__name__}")
        text = " and ".join(parts)
        if setting.view == "directed":
            text += ", with their direction"
        if setting.affinities == "matrix":
            text += ", one density of links per pair of classes"
        return text


def _shares(problem: Problem, W: NDArray[Any], result: Result) -> dict[str, float]:
    """Return how much kinds of links and features contribute to what the model says."""
    shares = source_shares(problem, W, result.models)
    shares.pop("labels", None)
    whole = sum(shares.values())
    return {name: share / whole if whole else 1.0 / len(shares) for name, share in shares.items()}


def _logs(W: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return log-probabilities, none of them infinite."""
    logs = np.empty_like(W)

    def part(lo: int, hi: int) -> None:
        np.log(np.maximum(W[lo:hi], np.float32(_LEAST)), out=logs[lo:hi])

    threads.map_rows(part, len(W))
    return logs
