"""The terms to fit: as given, the block model's, or the verdict of the pool."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodeproof.auto.evaluation import NOTHING_TO_ADD, Evaluation, evaluate
from nodeproof.auto.experts import BlockModel, as_experts
from nodeproof.auto.experts.of_kind import experts_of_kinds
from nodeproof.auto.likelihoods import choose_likelihood, every_class_has_labels
from nodeproof.auto.pooled import Pooled
from nodeproof.auto.records import record_experts
from nodeproof.auto.sampling import Sample
from nodeproof.auto.settings import Choices
from nodeproof.errors import InputError
from nodeproof.solvers import BlockCADO
from nodeproof.solvers.starts import Disposable
from nodeproof.terms import Labels, NodeData, Term
from nodeproof.terms.registry import bind_term, check_terms

__all__ = ["Plan", "choose_plan"]

Array = NDArray[np.float64]

# Believed so firmly that what memberships say of the labels does not matter; and so loosely that a
# block model estimates how often labels are wrong.
_FIRMLY, _LOOSELY = 1e6, 3.0

# Labels may be wrong even where held-out labels do not show it.
_LEAST_NOISE = 0.005


@dataclass(frozen=True)
class Plan:
    """The terms to fit, how far the graph is trusted, and how that was chosen.

    Attributes
    ----------
    terms : list of Term
        Bound to the data.
    trust : float
        Factor of the graph's evidence.
    affinities : {"scalar", "matrix"}
        One contrast of links for all classes, or one per pair of classes.
    evaluation : Evaluation or None
        The choice made on held-out labels, if any.
    start : Disposable or None
        Memberships to start from, instead of several starts.
    view : str
        Of the links, see :meth:`nodeproof.graph.Graph.view`.
    """

    terms: list[Term]
    trust: float = 1.0
    affinities: str = "scalar"
    evaluation: Evaluation | None = None
    start: Disposable | None = None
    view: str = "kinds"


def choose_plan(
    terms: Any,
    nodes: NodeData,
    weights: Any,
    trust: float | None,
    sample: Sample | None,
    solver: Any,
    choices: Choices,
    experts: Any = "auto",
) -> Plan:
    """Return the bound terms and the trust in the graph; "auto" chooses by the data.

    Parameters
    ----------
    terms : "auto" or list of Term
        As the user gave them.
    nodes : NodeData
        The data.
    weights : "calibrated" or tuple
        Fixed weights leave nothing to choose.
    trust : float or None
        Given, or None to choose it.
    sample : Sample or None
        Nodes and held-out labels to choose by, if there are enough.
    solver : object
        Solver of the block model.
    experts : "auto", or list of str and Expert
        What the pool is made of.
    """
    if not (isinstance(terms, str) and terms == "auto"):
        _check_unused(experts, "terms are given")
        return Plan(_given_terms(terms, nodes, choices), _trust_in(terms, trust, choices))
    chosen: list[Term] = []
    reasons = []
    if nodes.X is not None:
        term, reason = choose_likelihood(nodes)
        chosen.append(term)
        reasons.append(reason)
    no_pool = _why_no_pool(nodes, weights, trust, sample, solver)
    if no_pool is None:
        assert sample is not None
        evaluation = _evaluate(chosen, sample, nodes, solver, experts)
        if evaluation is not None:
            return _judged_plan(evaluation, nodes, choices)
    _check_unused(experts, no_pool or _why_none(experts, nodes))
    if nodes.y is not None:
        chosen.append(Labels())
        reasons.append(f"{int((nodes.y >= 0).sum())} labels")
    why = "; ".join(reasons) or "neither features nor labels"
    choices["terms"] = {"value": [repr(term) for term in chosen], "why": why}
    return Plan([term.bind(nodes) for term in chosen], _trust_in(chosen, trust, choices))


def _why_no_pool(
    nodes: NodeData, weights: Any, trust: float | None, sample: Sample | None, solver: Any
) -> str | None:
    """Return why experts cannot be weighed by held-out labels; None if they can."""
    if not isinstance(solver, BlockCADO):
        return "the solver is not block CADO"
    if weights != "calibrated" or trust is not None:
        return "weights are given"
    if nodes.y is None:
        return "there are no labels to weigh them by"
    if not every_class_has_labels(nodes):
        return "there is a class without a label"
    return "there are too few labels to hold any out" if sample is None else None


def _why_none(experts: Any, nodes: NodeData) -> str:
    """Return why no expert applies to the data."""
    reasons = {expert.name: expert.why_not(nodes) for expert in as_experts(experts)}
    return "; ".join(f"{name}: {reason}" for name, reason in reasons.items() if reason)


def _check_unused(experts: Any, reason: str) -> None:
    """Raise an error if experts are given: they would be ignored."""
    if not (isinstance(experts, str) and experts == "auto"):
        raise InputError(f"experts are not used: {reason}; omit experts")


def _evaluate(
    likelihoods: list[Term], sample: Sample, all_nodes: NodeData, solver: BlockCADO, experts: Any
) -> Evaluation | None:
    graph, whole = all_nodes.graph, all_nodes if sample.judged.sampled else None
    linked = graph is not None and graph.n_entries > 0
    terms: tuple[Term | None, ...] = tuple(term for term in likelihoods if not term.takes_sparse)
    if linked:
        terms = (*terms, None)
    asked = [
        expert.completed(terms, solver, whole) if isinstance(expert, BlockModel) else expert
        for expert in experts_of_kinds(as_experts(experts), graph)
    ]
    if whole is None:
        return evaluate(asked, sample.nodes, sample.held)
    # The block model first: the final fit goes on from its fit, and it may leave nothing to add.
    asked.sort(key=lambda expert: not isinstance(expert, BlockModel))
    able = {expert.name: expert.for_large_graphs() for expert in asked}
    left_out = {name: "there are too many links" for name, expert in able.items() if expert is None}
    evaluation = None
    if asked and isinstance(asked[0], BlockModel) and not asked[0].why_not(whole):
        evaluation = evaluate(asked[:1], whole, sample.judged)
    if evaluation is not None:
        block = evaluation.members[0]
        assert isinstance(block.expert, BlockModel)
        if block.expert.is_certain(block.best.logs, sample.judged):
            left_out = dict.fromkeys(able, NOTHING_TO_ADD) | left_out
            left_out.pop(block.expert.name)
            evaluation.left_out.update(left_out)
            return evaluation
        able[block.expert.name] = block.expert  # it keeps what it has found
    evaluation = evaluate([expert for expert in able.values() if expert], sample.nodes, sample.held)
    if evaluation is not None:
        evaluation.left_out.update(left_out)
    return evaluation


def _judged_plan(evaluation: Evaluation, nodes: NodeData, choices: Choices) -> Plan:
    """Return the plan that held-out labels prefer: the block model alone, or the pool."""
    record_experts(evaluation, choices)
    block = evaluation.block
    if evaluation.block_alone:
        assert block is not None
        setting = block.best.setting
        # Firmly, where none looks wrong: likelier labellings may contradict many of them.
        labels = Labels(1.0 - _LEAST_NOISE, _FIRMLY)
        if evaluation.noise:
            labels = Labels(1.0 - evaluation.noise, _LOOSELY)
        found = [labels] if setting.term is None else [setting.term, labels]
        choices["terms"] = {
            "value": [repr(term) for term in found],
            "why": "the block model alone does as well on held-out labels as all experts together",
        }
        bound = [term.bind(nodes) for term in found]
        assert isinstance(block.expert, BlockModel)
        start = block.expert.starts.get(block.expert.describe(setting))
        block.expert.starts = {}  # the final fit works on them in place
        return Plan(
            bound, 1.0, setting.affinities, evaluation,
            None if start is None else Disposable(start), setting.view,
        )  # fmt: skip
    final = evaluation.finish(nodes)
    assert final.verdict is not None
    noise = max(final.noise, _LEAST_NOISE)
    found = [Pooled(final.verdict), Labels(accuracy=1.0 - noise, strength=_FIRMLY)]
    choices["terms"] = {
        "value": [repr(term) for term in found],
        "why": "a pool of experts, weighed by held-out labels",
    }
    view = "kinds"
    for member, learnt in zip(final.members, final.verdict.learnt, strict=True):
        if member is block and learnt is not None:
            view = block.best.setting.view
    return Plan([term.bind(nodes) for term in found], 0.0, "scalar", final, view=view)


def _given_terms(terms: Any, nodes: NodeData, choices: Choices) -> list[Term]:
    check_terms(terms)
    if nodes.X is not None and all(term.source != "features" for term in terms):
        raise InputError(f"X is given, but none of the terms uses features: {list(terms)}")
    choices["terms"] = {"value": [repr(term) for term in terms], "why": "given"}
    return [bind_term(term, nodes) for term in terms]


def _trust_in(terms: Sequence[Term], trust: float | None, choices: Choices) -> float:
    """Return the given trust; else full trust, or none if features are averaged over links."""
    if trust is not None:
        return trust
    if any(term.averages_links for term in terms):
        choices["trust"] = {"value": 0.0, "why": "features are averaged over the links already"}
        return 0.0
    return 1.0
