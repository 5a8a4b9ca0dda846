"""Summaries of a fit for reports: small, however large the graph is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csgraph, triu
from scipy.special import softmax

from nodeproof.auto.held_out import Blind
from nodeproof.errors import InputError
from nodeproof.evidence import node_evidence
from nodeproof.problem import Models, Problem
from nodeproof.solvers.memberships import OneHot

if TYPE_CHECKING:
    from nodeproof.fitted import Fitted

__all__ = [
    "Findings",
    "find",
    "lay_out",
]

Array = NDArray[np.float64]

# Nodes that a reader can pick, and numbers that they may come with.
_MOST_SHOWN, _MOST_NUMBERS = 5_000, 400_000

# Of a graph with more nodes than that: shares for the suspects and for those in doubt.
_SUSPECTS, _DOUBTFUL = 0.25, 0.25

# A graph up to this size is drawn.
_DRAWN_NODES, _DRAWN_LINKS = 250, 2_500

# Labelled nodes that the reliability of probabilities is judged by.
_MOST_JUDGED = 20_000


@dataclass(frozen=True)
class Findings:
    """What a report shows beside the probabilities and models of a fit.

    Attributes
    ----------
    n_links, n_features : int
        What was given.
    weighted : bool
        Whether links have weights.
    nodes : ndarray of shape (s,)
        The nodes that a reader can pick, ascending: all, or those that are suspect or in doubt
        and an even choice of the others.
    even : ndarray of bool, shape (s,)
        Which of them stand for all nodes.
    evidence : dict of ndarray of shape (s, K)
        What each source adds to the score of each class, in nats.
    linked : ndarray of shape (s, K), or None without a graph
        The weight of a node's links to each class, by the probabilities of the other ends.
    blocks, chance : ndarray of shape (K, K), or None without a graph
        Weight of the links from class to class, and what the null model would expect.
    positions, links : ndarray of shape (n, 2) and (m, 2), or None
        The picture of a small graph.
    judged, told, blind : ndarray of shape (h,), (h,) and (h, K)
        Labelled nodes, their labels as class numbers, and their probabilities without them.
    held_back : bool
        Whether those are by fits that did not see the labels; else each node's own label was
        left out afterwards.
    noise : float
        Share of these labels that is wrong, as far as one can tell.
    command : str
        What was typed to get all this, if anything was.
    notes : list of str
        What was noticed on the way.
    """

    n_links: int
    n_features: int
    weighted: bool
    nodes: NDArray[np.int64]
    even: NDArray[np.bool_]
    evidence: dict[str, NDArray[np.float32]]
    linked: NDArray[np.float32] | None
    blocks: Array | None
    chance: Array | None
    positions: NDArray[np.float32] | None
    links: NDArray[np.int64] | None
    judged: NDArray[np.int64]
    told: NDArray[np.int64]
    blind: NDArray[np.float32]
    held_back: bool
    noise: float
    command: str = ""
    notes: list[str] = field(default_factory=list)

    _PLAIN: ClassVar = (
        "n_links",
        "n_features",
        "weighted",
        "held_back",
        "noise",
        "command",
        "notes",
    )
    _ARRAYS: ClassVar = (
        *("nodes", "even", "linked", "blocks", "chance", "positions", "links"),
        *("judged", "told", "blind"),
    )

    def to_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return all of it as what JSON can hold and named arrays."""
        arrays = {name: getattr(self, name) for name in self._ARRAYS}
        arrays |= {f"evidence_{source}": scores for source, scores in self.evidence.items()}
        plain = {name: getattr(self, name) for name in self._PLAIN}
        return plain, {name: array for name, array in arrays.items() if array is not None}

    @classmethod
    def from_parts(cls, plain: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Self:
        """Return what `to_parts` has taken apart."""
        prefix = "evidence_"
        evidence = {
            name.removeprefix(prefix): array
            for name, array in arrays.items()
            if name.startswith(prefix)
        }
        parts: dict[str, Any] = {name: plain[name] for name in cls._PLAIN}
        parts |= {name: arrays.get(name) for name in cls._ARRAYS}
        return cls(**parts, evidence=evidence)


def find(fitted: Fitted) -> Findings:
    """Return what a report shows of a fit.

    Parameters
    ----------
    fitted : Fitted
        With its data: a model file has its findings in it.
    """
    if fitted.data is None:
        raise InputError("this model was saved without what a report shows: fit and save it again")
    problem, held_out = fitted.data.problem, fitted.data.held_out
    W = np.ascontiguousarray(fitted.proba, dtype=np.float32)
    nodes, even = _choose_nodes(W, fitted.suspects.node)
    graph = problem.graph
    evidence, linked = _evidence(problem, fitted.models, W, nodes)
    blocks = chance = positions = links = None
    if graph is not None:
        found = OneHot(W.argmax(axis=1).astype(np.int32), W.shape[1])
        blocks = found.link_mass(graph, matrix=True)
        chance = graph.density * found.sums(graph.eta, matrix=True).pairs
        if graph.n_nodes <= _DRAWN_NODES and graph.n_entries <= 2 * _DRAWN_LINKS:
            positions, links = lay_out(graph.adjacency)
    judged = held_out or _left_out(fitted, problem)
    return Findings(
        n_links=0 if graph is None else graph.n_entries // 2,
        n_features=fitted.n_features or 0,
        weighted=graph is not None and graph.weighted,
        nodes=nodes,
        even=even,
        evidence=evidence,
        linked=linked,
        blocks=blocks,
        chance=chance,
        positions=positions,
        links=links,
        judged=judged.nodes,
        told=judged.codes,
        blind=judged.proba,
        held_back=held_out is not None,
        noise=judged.noise,
    )


def _choose_nodes(
    W: NDArray[np.float32], suspects: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the nodes to show, and which of them stand for all."""
    n, K = W.shape
    most = min(_MOST_SHOWN, max(_MOST_NUMBERS // (5 * K), 100))
    if n <= most:
        return np.arange(n), np.ones(n, dtype=bool)
    most_doubtful = np.argsort(W.max(axis=1), kind="stable")[: int(_DOUBTFUL * most)]
    special = np.union1d(suspects[: int(_SUSPECTS * most)], most_doubtful)
    even = np.linspace(0, n - 1, most - len(special)).astype(np.int64)
    nodes = np.union1d(special, even)
    return nodes, np.isin(nodes, even)


def _evidence(
    problem: Problem, models: Models, W: NDArray[np.float32], nodes: NDArray[np.int64]
) -> tuple[dict[str, NDArray[np.float32]], NDArray[np.float32] | None]:
    graph = problem.graph
    totals = None if graph is None else graph.null_totals(W)
    parts: list[dict[str, Array]] = []
    linked = None if graph is None else np.empty((len(nodes), W.shape[1]), dtype=np.float32)
    # Stretches of neighbours in one go.
    for stretch in np.split(np.arange(len(nodes)), np.flatnonzero(np.diff(nodes) != 1) + 1):
        lo, hi = int(nodes[stretch[0]]), int(nodes[stretch[-1]]) + 1
        parts.append(node_evidence(problem, W, models, totals, lo, hi))
        if graph is not None and linked is not None:
            linked[stretch] = graph.times_rows(W, lo, hi)
    sources = parts[0]
    joined = {
        source: np.concatenate([part[source] for part in parts]).astype(np.float32)
        for source in sources
    }
    return joined, linked


def _left_out(fitted: Fitted, problem: Problem) -> Blind:
    """Return labelled nodes and their probabilities as if their own label were not there."""
    models = fitted.models
    labels, K = problem.labels, problem.n_classes
    if labels is None or fitted.settings.temperature == 0 or K < 2:
        nothing = np.empty(0, np.int64)
        return Blind(nothing, nothing, np.empty((0, K), np.float32), 0.0)
    labelled = np.flatnonzero(labels >= 0)
    nodes = labelled[:: -(-len(labelled) // _MOST_JUDGED)]
    codes = labels[nodes]
    others = [k for k, term in enumerate(problem.terms) if term.source != "labels"]
    costs = np.zeros((K, K))
    for label, first in zip(*np.unique(labels[labelled], return_index=True), strict=True):
        v = int(labelled[first])
        costs[label] = problem.costs(models, v, v + 1, others)[0]
    proba = fitted.proba[nodes].astype(np.float64)
    noise = 1.0 - float(proba[np.arange(len(nodes)), codes].mean())
    # What is left when its label's factor is taken out of a node's probabilities.
    blind = softmax(np.log(np.maximum(proba, 1e-30)) + costs[codes], axis=1)
    return Blind(nodes, codes, blind.astype(np.float32), noise)


_STEPS = 60


# How far apart, in links, nodes are drawn that no path joins.
_APART = 2.0


def lay_out(adjacency: Any) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return positions whose distances are close to numbers of links, and the links.

    Minimises ``Σ (‖x_u − x_v‖ − d_uv)² / d_uv²`` by majorisation.

    Parameters
    ----------
    adjacency : sparse matrix of shape (n, n)
        Symmetric; for some hundred nodes.

    Returns
    -------
    positions : ndarray of shape (n, 2)
        Centred, the farthest node within the unit circle.
    links : ndarray of shape (m, 2)
        Each once.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import csr_array
    >>> path = csr_array(np.diag([1, 1], 1) + np.diag([1, 1], -1))
    >>> positions, links = lay_out(path)
    >>> np.linalg.norm(positions, axis=1).round(1).tolist(), links.tolist()
    ([1.0, 0.0, 1.0], [[0, 1], [1, 2]])
    """
    n = adjacency.shape[0]
    links = np.column_stack(triu(adjacency, k=1).nonzero()).astype(np.int64)
    if n == 1:
        return np.zeros((1, 2), dtype=np.float32), links
    # Dense, as the distances are: scipy before 1.13 takes no indices of 64 bits.
    hops = csgraph.shortest_path(adjacency.toarray(), unweighted=True, directed=False)
    finite = np.isfinite(hops)
    hops[~finite] = hops[finite].max() + _APART
    weights = np.divide(1.0, hops**2, out=np.zeros_like(hops), where=hops > 0)
    laplacian = np.diag(weights.sum(axis=1)) - weights
    inverse = np.linalg.pinv(laplacian)
    positions = _spread(hops)
    for _ in range(_STEPS):
        apart = np.linalg.norm(positions[:, None] - positions[None], axis=2)
        pull = weights * np.divide(hops, apart, out=np.zeros_like(hops), where=apart > 1e-9)
        step = np.diag(pull.sum(axis=1)) - pull
        positions = inverse @ (step @ positions)
    positions -= positions.mean(axis=0)
    farthest = np.linalg.norm(positions, axis=1).max()
    return (positions / (farthest or 1.0)).astype(np.float32), links


def _spread(hops: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a start: the two directions in which distances differ most, and a little noise."""
    n = len(hops)
    centre = np.eye(n) - 1.0 / n
    values, vectors = np.linalg.eigh(-0.5 * centre @ (hops**2) @ centre)
    start = vectors[:, -2:] * np.sqrt(np.maximum(values[-2:], 1e-6))
    # An eigenvector may come with either sign.
    start *= np.where(start[np.abs(start).argmax(axis=0), [0, 1]] < 0, -1.0, 1.0)
    return np.asarray(start + 0.05 * np.random.default_rng(0).standard_normal((n, 2)))
