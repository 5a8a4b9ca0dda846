"""The terms to fit, and how far the graph is trusted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nodeproof.auto.features import choose_feature_term, names_all
from nodeproof.auto.held_out import HeldBack
from nodeproof.auto.settings import Choices
from nodeproof.auto.tuning import Tuned, tune_links, tune_softmax
from nodeproof.errors import InputError
from nodeproof.solvers import BlockCADO
from nodeproof.terms import Labels, NodeData, Term
from nodeproof.terms.registry import bind_term, check_terms

__all__ = ["Plan", "choose_plan"]

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
        term, reason, rivals = choose_feature_term(nodes, held)
        if term.discriminative and tunable:
            assert held is not None
            tuned = tune_softmax(nodes, held, solver, rivals)
        else:
            chosen.append(term)
        reasons.append(reason)
    elif tunable and nodes.graph is not None and names_all(nodes) and _is_cheap(nodes):
        assert held is not None
        tuned = tune_links(nodes, held, solver)
    if tuned is not None and tuned.setting.term is not None:
        chosen.append(tuned.setting.term)
        if not tuned.setting.term.needs_features:
            left = "" if nodes.X is None else "; the features are left out"
            reasons = [f"a classifier of links does best on labels held back{left}"]
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
    check_terms(terms)
    if nodes.X is not None and all(term.source != "features" for term in terms):
        raise InputError(f"X is given, but none of the terms uses features: {list(terms)}")
    choices["terms"] = {"value": [repr(term) for term in terms], "why": "given"}
    return [bind_term(term, nodes) for term in terms]


def _trust_in(terms: Sequence[Term], trust: float | None, choices: Choices) -> float:
    """Return what was given; else full trust, or none where links were used for features."""
    if trust is not None:
        return trust
    if any(term.averages_links for term in terms):
        choices["trust"] = {"value": 0.0, "why": "features are averaged over the links already"}
        return 0.0
    return 1.0


def _is_cheap(nodes: NodeData) -> bool:
    assert nodes.graph is not None
    return (nodes.graph.n_entries + nodes.graph.n_nodes) * nodes.n_classes <= _CHEAP
