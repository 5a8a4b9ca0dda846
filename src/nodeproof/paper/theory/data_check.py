"""Theorem 1 on a user's own data, answered in sentences and as a picture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from html import escape
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import svds

from nodeproof.errors import InputError
from nodeproof.fitting import FitData
from nodeproof.inputs import encode_labels, encode_truth, read_features
from nodeproof.inputs.node_names import align_rows
from nodeproof.inputs.unpacking import unpack
from nodeproof.outcome_warnings import explaining_split_graphs
from nodeproof.paper.theory import verdicts
from nodeproof.paper.theory.advice import Advice
from nodeproof.paper.theory.assumptions import Assumptions, LinkAssumptions, measure
from nodeproof.paper.theory.link_advice import LinkAdvice
from nodeproof.paper.theory.model_advice import ModelAdvice
from nodeproof.paper.theory.models import ModelAssumptions, measure_models
from nodeproof.paper.theory.pictures import draw_margins
from nodeproof.paper.theory.verdicts import NAMES, Theorem, Verdict, Version, number, theorem
from nodeproof.problem import PAPER_WEIGHTS, Problem
from nodeproof.runtime import threads
from nodeproof.runtime.axes import axes_or_new, shorten
from nodeproof.terms import Covariance, Labels, NodeData, Term

__all__ = ["Check", "check"]

# More features than this are reduced to so many: gradients hold the squares of both.
_MOST_FEATURES, _COMPONENTS = 20, 10

# How often γ is halved in search of one that keeps the classes apart.
_HALVINGS = 20

_PARTS = {"(1)": "graph and node data together", "(2)": "node data alone", "(3)": "graph alone"}
_STATUS = {
    (True, True): "the theorem as printed claims that these classes are optimal, and the corrected "
    "conditions prove it.",
    (
        True,
        False,
    ): "the theorem as printed claims that these classes are optimal, but the corrected "
    "conditions do not hold, so nothing is proven.",
    (False, True): "the theorem as printed does not claim that these classes are optimal, but the "
    "corrected conditions prove it.",
    (False, False): "not covered, neither by the theorem as printed nor as corrected.",
}


@dataclass(frozen=True)
class Check:
    """Theorem 1 on given data: printed, it answers in sentences.

    Attributes
    ----------
    sentences : tuple of str
        The answer: first the data and settings, then each part of the theorem.
    theorem : Theorem
        The verdict of each part, with all margins.
    assumptions : Assumptions
        All that was measured.
    classes : tuple of str
        Names of the classes, in the order of `assumptions`.
    problem : Problem
        The paper's problem that was judged, for example for
        :func:`nodeproof.certificate.certify_program`.
    """

    sentences: tuple[str, ...]
    theorem: Theorem
    assumptions: Assumptions
    classes: tuple[str, ...]
    problem: Problem

    def __str__(self) -> str:
        return "\n".join(self.sentences)

    def _repr_html_(self) -> str:
        return "".join(f"<p>{escape(sentence.strip())}</p>" for sentence in self.sentences)

    def plot(self, ax: Any = None) -> Any:
        """Draw the margin of every condition, printed and corrected, part by part.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Axes to draw on; by default new ones.

        Returns
        -------
        matplotlib Axes
        """
        parts = [(f"{each.part[:3]} {_PARTS[each.part[:3]]}", each) for each in self.theorem]
        rows = sum(1 + len(each.printed) + len(each.corrected) for _, each in parts)
        return draw_margins(axes_or_new(ax, (8.0, 0.6 + 0.28 * rows)), parts)


def check(
    graph: Any = None,
    X: Any = None,
    y: Any = None,
    *,
    labels: Any = None,
    weights: tuple[float, float, float] | None = None,
    gamma: float | None = None,
    threshold: float = 0.5,
) -> Check:
    """Say whether Theorem 1 of the paper covers given classes, and if not, what is missing.

    Parameters
    ----------
    graph : object, optional
        Links, in any form that :meth:`nodeproof.NodeClassifier.fit` takes.
    X : array, sparse matrix or table of shape (n, m), optional
        Features, judged by the paper's covariances. Of more than 20 features the 10 leading
        singular vectors are taken.
    y : array of shape (n,)
        The class of every node: true classes, or those of a fit (`clf.labels_`).
    labels : array of shape (n,), optional
        Labels that are known to the program, −1 where unknown; may be wrong. By default none.
    weights : tuple of three floats, optional
        (β_g, β_f, β_l). By default β_g is 1, β_f and β_l are in the proportion of the paper's
        experiments, and their sum is the μ of Theorem 1, n/√n_i or n/n_i.
    gamma : float, optional
        γ = nμ1/μ, the relative weight of the sum of norms. By default 0 where gradients are alike
        enough without, else the largest power of two that leaves R at least half of that at 0.
    threshold : float
        t: links are worth 2(A − t). The paper's is 1/2.

    Returns
    -------
    Check
        Prints as sentences; `plot` draws the margins.

    Examples
    --------
    >>> from nodeproof.datasets import make_planted
    >>> from nodeproof.paper import theory
    >>> data = make_planted(3, cluster_size=60, p=0.95, q=0.05, random_state=0)
    >>> found = theory.check(data.graph, y=data.y_true)
    >>> print(found.sentences[0])  # doctest: +NORMALIZE_WHITESPACE
    180 nodes in 3 classes of 60 nodes: all have more than √n = 13.4, so the regime of few large
    classes (n_i ≥ √n) of Theorem 1 applies.
    >>> found.theorem.graph.promised
    True
    """
    with explaining_split_graphs(graph):
        X, y, graph, node_names = unpack(X, y, graph)
    encoded = encode_labels(y, None)
    data = FitData.build(
        None if X is None else read_features(X), encoded, graph, "uniform", node_names
    )
    z = _all_known(encoded.codes, data.n_nodes)
    classes = encoded.classes
    notes: list[str] = []
    terms: list[Term] = []
    if data.X is not None:
        features, note = _few_features(data.X)
        notes += note
        terms.append(Covariance().bind(NodeData(len(classes), X=features)))
    if labels is not None:
        codes = _read_labels(labels, classes, node_names, len(z))
        terms.append(Labels().bind(NodeData(len(classes), y=codes)))
    if data.graph is None and not terms:
        raise InputError("there is nothing to judge the classes by: give graph, X or labels")
    if gamma is not None and not 0 <= gamma < np.inf:
        raise InputError(f"gamma must be a finite number ≥ 0, got {gamma!r}")
    with threads.using(None):
        return _judge(data, terms, z, weights, gamma, threshold, notes)


def _judge(
    data: FitData,
    terms: list[Term],
    z: NDArray[np.int64],
    weights: tuple[float, float, float] | None,
    gamma: float | None,
    threshold: float,
    notes: list[str],
) -> Check:
    sizes, K = np.bincount(z), len(data.labels.classes)
    if isinstance(weights, str):
        raise InputError(
            f"the theory is about fixed weights (β_g, β_f, β_l), for example the paper's "
            f"{PAPER_WEIGHTS}; got {weights!r}"
        )
    fixed = _default_weights(terms, sizes) if weights is None else weights
    plain = Problem(data.graph, terms, K, fixed, threshold)
    weighed = list(zip(terms, plain.term_weights, strict=True))
    mu = float(sum(beta for _, beta in weighed))
    terms = [term for term, beta in weighed if beta]
    if not terms and (data.graph is None or not fixed[0]):
        raise InputError(f"all that was given has weight 0 in weights={weights!r}")

    @cache
    def at_gamma(gamma: float) -> ModelAssumptions:
        found = measure_models(Problem(None, terms, K, fixed, son=gamma * mu / len(z)), z)
        assert found is not None
        return found

    chosen = ""
    if gamma is None:
        gamma = _largest_gamma(at_gamma) if mu > 0 else 0.0
        if gamma > 0:
            chosen = ", the largest power of two that leaves R at least half of what it is without"
        elif mu > 0:
            alike = at_gamma(0.0).gradients >= 0
            chosen = ", as " + (
                "gradients are alike enough without" if alike else "no larger one keeps them apart"
            )
    problem = Problem(data.graph, terms, K, fixed, threshold, son=gamma * mu / len(z))
    measured = measure(problem, z)
    names = tuple(shorten(name, 40).replace(r"\$", "$") for name in data.labels.classes.tolist())

    @cache
    def at_threshold(t: float) -> LinkAssumptions:
        found = measure(Problem(data.graph, [], K, fixed), z, threshold=t).links
        assert found is not None
        return found

    has_labels = any(term.source == "labels" for term in terms)
    links, models = measured.links, measured.models
    advice = Advice(
        sizes,
        names,
        None if links is None else LinkAdvice(links, names, at_threshold),
        None if models is None else ModelAdvice(models, names, at_gamma, has_labels),
    )
    found = theorem(measured)
    sentences = [_say_size(sizes), _say_settings(measured, terms, chosen), *notes]
    said: set[str] = set()
    for verdict in found:
        sentences += _say_part(verdict, advice, said)
    return Check(tuple(sentences), found, measured, names, problem)


def _all_known(codes: NDArray[np.int64] | None, n: int) -> NDArray[np.int64]:
    advice = (
        "the theory judges a labelling of all nodes: pass the true classes as y, or those of a "
        "fit, clf.labels_; labels that are known to the program go into labels="
    )
    if codes is None:
        raise InputError(f"y holds no classes: {advice}")
    unknown = np.flatnonzero(codes < 0)
    if len(unknown):
        raise InputError(
            f"y has no class for {len(unknown):,} of {n:,} nodes, first node {unknown[0]}: {advice}"
        )
    return codes


def _read_labels(
    labels: Any, classes: NDArray[Any], names: NDArray[Any] | None, n: int
) -> NDArray[np.int64]:
    codes = encode_truth(align_rows(labels, names, "labels", "y"), classes, "labels")
    if len(codes) != n:
        raise InputError(f"labels must have one entry per node: got {len(codes)} for {n} nodes")
    other = np.flatnonzero(codes >= len(classes))
    if len(other):
        raise InputError(
            f"the label of node {other[0]} is not among the classes in y: y and labels must call "
            "classes alike"
        )
    return codes


def _few_features(X: Any) -> tuple[NDArray[np.float64], list[str]]:
    """Return at most 20 dense features, and what to say about that."""
    m = X.shape[1]
    if m <= _MOST_FEATURES:
        return np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64), []
    start = np.random.default_rng(0).standard_normal(min(X.shape))
    left, values, _ = svds(sp.csr_array(X, dtype=np.float64), k=_COMPONENTS, v0=start)
    return left * values, [
        f"X has {m:,} features; covariances are those of its {_COMPONENTS} leading singular "
        "vectors."
    ]


def _default_weights(terms: list[Term], sizes: NDArray[np.int64]) -> tuple[float, float, float]:
    """Return β_g = 1 and the paper's β_f : β_l, scaled to the μ of Theorem 1."""
    wanted = float(np.median(verdicts.wanted_weights(sizes)))
    own = [PAPER_WEIGHTS[1 if term.source == "features" else 2] for term in terms]
    scale = wanted / sum(own) if own else 1.0
    return 1.0, scale * PAPER_WEIGHTS[1], scale * PAPER_WEIGHTS[2]


def _largest_gamma(at_gamma: Callable[[float], ModelAssumptions]) -> float:
    """Return the largest useful power of two that leaves R at least half of what it is at 0.

    That is 0 where the corrected conditions on gradients hold without a sum of norms.
    """
    without = at_gamma(0.0)
    if without.gradients >= 0 or not without.distinct or len(without.sizes) == 1:
        return 0.0
    enough = float((without.rho_classes * without.sizes.sum() / without.sizes).max())
    gamma = float(2.0 ** np.ceil(np.log2(enough)))
    for _ in range(_HALVINGS):
        found = at_gamma(gamma)
        if found.distinct and found.R >= 0.5 * without.R:
            return gamma
        gamma /= 2.0
    return 0.0


def _say_size(sizes: NDArray[np.int64]) -> str:
    n, small = int(sizes.sum()), verdicts.are_small(sizes)
    root = f"√n = {number(np.sqrt(n))}"
    if small.all():
        regime = f"none has more than {root}, so the regime of many small classes (n_i ≤ √n)"
    elif not small.any():
        regime = f"all have more than {root}, so the regime of few large classes (n_i ≥ √n)"
    else:
        regime = f"some have more than {root} and some do not, so both regimes, class by class,"
    least, most = int(sizes.min()), int(sizes.max())
    span = f"{least:,}" if least == most else f"{least:,} to {most:,}"
    classes = f"{len(sizes):,} classes" if len(sizes) > 1 else "one class"
    return f"{n:,} nodes in {classes} of {span} nodes: {regime} of Theorem 1 applies."


def _say_settings(a: Assumptions, terms: list[Term], chosen: str) -> str:
    said = []
    if a.links is not None:
        said.append(f"threshold t = {number(a.links.threshold)}")
    if a.models is not None:
        sources = " and ".join(term.source for term in terms)
        said.append(f"{sources} with weight μ = {number(a.models.mu)}")
        said.append(f"sum of norms with γ = {number(a.models.gamma)}{chosen}")
    return f"Judged with {'; '.join(said)}."


def _say_part(verdict: Verdict, advice: Advice, said: set[str]) -> list[str]:
    part = verdict.part[:3]
    lines = [f"{part} {_PARTS[part].capitalize()}: {_STATUS[verdict.claimed, verdict.promised]}"]
    for version in ("printed", "corrected"):
        if verdict.failing(version):
            lines += _say_failing(version, verdict, advice, said)
    # Where gradients do not differ at all, a margin of 0 is not tight; accuracy is no condition.
    even = advice.models is not None and advice.models.measured.rho == 0
    beside = {verdicts.STATIONARY, *([verdicts.GRADIENTS] if even else [])}
    margins = {name: each for name, each in verdict.corrected.items() if name not in beside}
    if verdict.promised and margins:
        name, margin = min(margins.items(), key=lambda each: each[1])
        others = "" if margin > 0 else "; other solutions may be as good"
        lines.append(
            f"    The tightest corrected condition is {NAMES[name]}, by {number(margin)}{others}."
        )
    return lines


def _say_failing(version: Version, verdict: Verdict, advice: Advice, said: set[str]) -> list[str]:
    failing = verdict.failing(version)
    total = len(verdict.printed if version == "printed" else verdict.corrected)
    what, change = advice.explain(failing[0], verdict)
    count = f"one of {total} conditions fails"
    if len(failing) > 1:
        count = f"{len(failing)} of {total} conditions fail, first {NAMES[failing[0]]}"
    lines = [f"    As {version}, {count}: {what}."]
    if change not in said:
        lines.append(f"    For that to hold, {change}.")
    said.add(change)
    if failing[1:]:
        lines.append(f"    Also failing: {', '.join(NAMES[name] for name in failing[1:])}.")
    return lines
