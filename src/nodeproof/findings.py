"""Summary of a fit for reports: small, however large the graph is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csgraph, triu
from scipy.special import softmax

from nodeproof.auto.held_out import CrossFitted
from nodeproof.errors import InputError
from nodeproof.node_evidence import graph_totals, node_evidence
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

# The most nodes that a reader can pick, and the most numbers stored for them.
_MOST_SHOWN, _MOST_NUMBERS = 5_000, 400_000

# In larger graphs: shares of suspects and of the least certain nodes among those shown.
_SUSPECTS, _DOUBTFUL = 0.25, 0.25

# A graph up to this size is drawn.
_DRAWN_NODES, _DRAWN_LINKS = 250, 2_500

# The most labelled nodes used to judge the reliability of probabilities.
_MOST_JUDGED = 20_000


@dataclass(frozen=True)
class Findings:
    """What a report shows in addition to the probabilities and models of a fit.

    Attributes
    ----------
    n_links, n_features : int
        Size of the data.
    weighted : bool
        Whether links have weights.
    nodes : ndarray of shape (s,)
        The nodes that a reader can pick, ascending: all, or the suspects, the least certain ones
        and an evenly spaced sample of the others.
    sampled : ndarray of bool, shape (s,)
        Which of them are in the evenly spaced sample, which represents all nodes.
    evidence : dict of ndarray of shape (s, K)
        What each source adds to the score of each class, in nats.
    linked : ndarray of shape (s, K), or None without a graph
        The weight of a node's links to each class, by the probabilities of the other ends.
    blocks, chance : ndarray of shape (K, K), or None without a graph
        Weight of the links from class to class, and what the null model expects.
    positions, links : ndarray of shape (n, 2) and (m, 2), or None
        Drawing of a small graph.
    judged_nodes, judged_labels, judged_proba : ndarray of shape (h,), (h,) and (h, K)
        Labelled nodes, their labels as class numbers, and their probabilities without them.
    held_out : bool
        Whether these are by cross-fitted models; otherwise each node's own label was removed
        from its probabilities afterwards.
    noise : float
        Estimated share of wrong labels among them.
    command : str
        The command line that made the fit, if any.
    notes : list of str
        Notes on the data and the fit.
    """

    n_links: int
    n_features: int
    weighted: bool
    nodes: NDArray[np.int64]
    sampled: NDArray[np.bool_]
    evidence: dict[str, NDArray[np.float32]]
    linked: NDArray[np.float32] | None
    blocks: Array | None
    chance: Array | None
    positions: NDArray[np.float32] | None
    links: NDArray[np.int64] | None
    judged_nodes: NDArray[np.int64]
    judged_labels: NDArray[np.int64]
    judged_proba: NDArray[np.float32]
    held_out: bool
    noise: float
    command: str = ""
    notes: list[str] = field(default_factory=list)

    # Names in model files, and the attributes that are called differently.
    _SOURCES: ClassVar = ("graph", "features", "labels")
    _PLAIN: ClassVar = (
        "n_links", "n_features", "weighted", "held_back", "noise", "command", "notes",
    )  # fmt: skip
    _ARRAYS: ClassVar = (
        *("nodes", "even", "linked", "blocks", "chance", "positions", "links"),
        *("judged", "told", "blind"),
    )
    _ATTRIBUTES: ClassVar = {
        "held_back": "held_out",
        "even": "sampled",
        "judged": "judged_nodes",
        "told": "judged_labels",
        "blind": "judged_proba",
    }

    def to_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the parts of a model file: JSON values and named arrays."""
        arrays = {name: getattr(self, self._attribute(name)) for name in self._ARRAYS}
        plain = {name: getattr(self, self._attribute(name)) for name in self._PLAIN}
        # Kinds of links may have any name: in files they are numbered.
        kinds = [source for source in self.evidence if source not in self._SOURCES]
        if kinds:
            plain["kinds"] = kinds
        for source, scores in self.evidence.items():
            named = f"kind{kinds.index(source)}" if source in kinds else source
            arrays[f"evidence_{named}"] = scores
        return plain, {name: array for name, array in arrays.items() if array is not None}

    @classmethod
    def from_parts(cls, plain: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Self:
        """Return findings from the result of `to_parts`."""
        prefix = "evidence_"
        kinds = {f"kind{k}": name for k, name in enumerate(plain.get("kinds", []))}
        evidence = {
            kinds.get(name.removeprefix(prefix), name.removeprefix(prefix)): array
            for name, array in arrays.items()
            if name.startswith(prefix)
        }
        parts: dict[str, Any] = {cls._attribute(name): plain[name] for name in cls._PLAIN}
        parts |= {cls._attribute(name): arrays.get(name) for name in cls._ARRAYS}
        return cls(**parts, evidence=evidence)

    @classmethod
    def _attribute(cls, name: str) -> str:
        return cls._ATTRIBUTES.get(name, name)


def find(fitted: Fitted) -> Findings:
    """Return the findings of a fit.

    Parameters
    ----------
    fitted : Fitted
        With its data; a model read from a file has its findings already.
    """
    if fitted.data is None:
        raise InputError("this model was saved without data for a report: fit and save it again")
    problem, held_out = fitted.data.problem, fitted.data.held_out
    W = np.ascontiguousarray(fitted.proba, dtype=np.float32)
    nodes, sampled = _choose_nodes(W, fitted.suspects.node)
    graph = problem.graph
    evidence, linked = _evidence(problem, fitted.models, W, nodes)
    blocks = chance = positions = links = None
    if graph is not None:
        found = OneHot(W.argmax(axis=1).astype(np.int32), W.shape[1])
        blocks = found.link_mass(graph, matrix=True)
        chance = graph.density * found.sums(graph.eta, matrix=True).pairs
        if graph.n_nodes <= _DRAWN_NODES and graph.n_entries <= 2 * _DRAWN_LINKS:
            positions, links = lay_out(graph.adjacency)
    if fitted.settings.temperature == 0:
        held_out = None  # labels judge probabilities, and hard assignments have none
    judged = held_out or _without_own_labels(fitted, problem)
    return Findings(
        n_links=0 if graph is None else graph.n_entries // 2,
        n_features=fitted.n_features or 0,
        weighted=graph is not None and graph.weighted,
        nodes=nodes,
        sampled=sampled,
        evidence=evidence,
        linked=linked,
        blocks=blocks,
        chance=chance,
        positions=positions,
        links=links,
        judged_nodes=judged.nodes,
        judged_labels=judged.codes,
        judged_proba=judged.proba,
        held_out=held_out is not None,
        noise=judged.noise,
    )


def _choose_nodes(
    W: NDArray[np.float32], suspects: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the nodes to show, and which of them are in the evenly spaced sample."""
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
    totals = graph_totals(problem, W)
    parts: list[dict[str, Array]] = []
    linked = None if graph is None else np.empty((len(nodes), W.shape[1]), dtype=np.float32)
    # Consecutive nodes together.
    for run in np.split(np.arange(len(nodes)), np.flatnonzero(np.diff(nodes) != 1) + 1):
        lo, hi = int(nodes[run[0]]), int(nodes[run[-1]]) + 1
        parts.append(node_evidence(problem, W, models, totals, lo, hi))
        if graph is not None and linked is not None:
            linked[run] = graph.times_rows(W, lo, hi)
    sources = parts[0]
    joined = {
        source: np.concatenate([part[source] for part in parts]).astype(np.float32)
        for source in sources
    }
    return joined, linked


def _without_own_labels(fitted: Fitted, problem: Problem) -> CrossFitted:
    """Return labelled nodes with their probabilities without their own labels."""
    models = fitted.models
    labels, K = problem.labels, problem.n_classes
    if labels is None or fitted.settings.temperature == 0 or K < 2:
        nothing = np.empty(0, np.int64)
        return CrossFitted(nothing, nothing, np.empty((0, K), np.float32), 0.0)
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
    # Divide the label's factor out of each node's probabilities.
    without = softmax(np.log(np.maximum(proba, 1e-30)) + costs[codes], axis=1)
    return CrossFitted(nodes, codes, without.astype(np.float32), noise)


_STEPS = 60

# Distance of unconnected nodes in a drawing, in links beyond the largest distance.
_APART = 2.0


def lay_out(adjacency: Any) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return a drawing in which distances are close to graph distances, and the links.

    Minimises the stress ``Σ (‖x_u − x_v‖ − d_uv)² / d_uv²`` by majorisation.

    Parameters
    ----------
    adjacency : sparse matrix of shape (n, n)
        Symmetric; of at most a few hundred nodes.

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
    # Dense, as the distances are: scipy before 1.13 does not take 64-bit indices.
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
    """Return a start: classical multidimensional scaling, and a little noise."""
    n = len(hops)
    centre = np.eye(n) - 1.0 / n
    values, vectors = np.linalg.eigh(-0.5 * centre @ (hops**2) @ centre)
    start = vectors[:, -2:] * np.sqrt(np.maximum(values[-2:], 1e-6))
    # The sign of an eigenvector is arbitrary.
    start *= np.where(start[np.abs(start).argmax(axis=0), [0, 1]] < 0, -1.0, 1.0)
    return np.asarray(start + 0.05 * np.random.default_rng(0).standard_normal((n, 2)))
