"""Iterative refinement: fit models to a hard partition, re-assign every node at once, repeat."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax

from nodeproof.paper.baselines.evidence import Evidence, Rule, bernoulli, least_squares
from nodeproof.paper.baselines.single_source import spectral_clustering
from nodeproof.runtime import threads
from nodeproof.solvers.base import check_count
from nodeproof.terms import Covariance

__all__ = ["bregman_clustering", "ir_ls", "ir_map"]

Array = NDArray[np.float64]
Classes = NDArray[np.int64]

# Starts are compared after so many rounds: at once, one that is merely tidy can win.
_TRIAL = 3

# Mixtures without labels start from several random memberships; after a short run the best goes on.
_TRIES = 4
_SHORT, _LONG = 10, 100

# Mean gain in log-likelihood per node below which a mixture has converged: the refinement finds
# the rest.
_START_TOLERANCE = 1e-3

# How many pairs the rates inside and across all classes are worth beside those of two classes.
_PAIRS = 20.0


def ir_ls(
    graph: Any,
    X: Any = None,
    y: Any = None,
    *,
    n_classes: int,
    max_iter: int = 100,
    n_starts: int = 1,
    random_state: int | np.random.Generator | None = None,
) -> NDArray[np.int64]:
    """Refine a partition by weighted least squares on links and features (IR-LS).

    Braun, Tyagi and Biernacki, "An iterative clustering algorithm for the Contextual Stochastic
    Block Model with optimality guarantees", ICML 2022. With Π_kl the share of linked pairs
    between the classes k and l, and d_vl the links of node v to the n_l others in l, every node
    goes to the class with the smallest

        ½ Σ_l (d_vl − n_l Π_kl)² / (n_l Π_kl (1 − Π_kl)) − log N(x_v; 0, R_k),

    the models are fitted again, and so on until nothing changes. Beyond the paper: features
    have one covariance per class instead of a mean; the logarithms of the variances and of the
    class proportions are added, which matters where classes differ in density or size; labels.

    Parameters
    ----------
    graph : object or None
        Anything that :func:`nodeproof.inputs.graph_objects.check_adjacency` reads; only which
        nodes are linked counts, not the weights.
    X : array of shape (n, m), optional
        Features.
    y : array of shape (n,), optional
        Labels 0…K−1, −1 where unknown. Labelled nodes keep their label; the names of the
        classes follow from them.
    n_classes : int
        Number of classes K.
    max_iter : int
        Maximum number of rounds.
    n_starts : int
        How many starts are refined to the end; the one with the best complete log-likelihood is
        kept. There is a start from each kind of evidence (labels; spectral clusters; a Gaussian
        mixture), the most promising after three rounds comes first; further ones are random.
    random_state : int, Generator or None
        Seed.

    Returns
    -------
    ndarray of shape (n,)
        Classes: the likeliest partition on the way.

    Examples
    --------
    >>> from nodeproof.paper.baselines import ir_ls
    >>> from nodeproof.datasets import make_planted
    >>> data = make_planted(random_state=0)
    >>> found = ir_ls(data.graph, data.X, data.y, n_classes=3, random_state=0)
    >>> bool((found == data.y_true).mean() > 0.99)
    True
    """
    rule = Rule(least_squares, proportions=True)
    return _search(graph, X, y, n_classes, rule, max_iter, n_starts, random_state)


def ir_map(
    graph: Any,
    X: Any = None,
    y: Any = None,
    *,
    n_classes: int,
    max_iter: int = 100,
    n_starts: int = 1,
    random_state: int | np.random.Generator | None = None,
) -> NDArray[np.int64]:
    """Refine a partition by the posterior of each node given all others (IR-MAP).

    As `ir_ls`, with the exact likelihood of the links (Bernoulli) in the place of its Gaussian
    approximation.

    Parameters
    ----------
    graph, X, y, n_classes, max_iter, n_starts, random_state
        As for `ir_ls`.

    Returns
    -------
    ndarray of shape (n,)
        Classes: the likeliest partition on the way.

    Examples
    --------
    >>> from nodeproof.paper.baselines import ir_map
    >>> from nodeproof.datasets import make_planted
    >>> from nodeproof.metrics import matched_accuracy
    >>> data = make_planted(p=0.2, cluster_size=100, random_state=0)
    >>> found = ir_map(data.graph, n_classes=3, random_state=0)  # neither features nor labels
    >>> matched_accuracy(data.y_true, found) > 0.95
    True
    """
    rule = Rule(bernoulli, proportions=True)
    return _search(graph, X, y, n_classes, rule, max_iter, n_starts, random_state)


def bregman_clustering(
    graph: Any,
    X: Any = None,
    y: Any = None,
    *,
    n_classes: int,
    max_iter: int = 100,
    n_starts: int = 1,
    random_state: int | np.random.Generator | None = None,
) -> NDArray[np.int64]:
    """Cluster by the sum of the Bregman divergences of links and features from their means.

    Dreveton, Fernandes and Figueiredo, "Exact recovery and Bregman hard clustering of
    node-attributed Stochastic Block Model", NeurIPS 2023. For 0/1 links the divergence from Π_kl
    is Kullback and Leibler's, which is their −log-likelihood. Features enter by ``xxᵀ``, whose
    mean in a class is R_k; the divergence is Stein's loss (Burg's matrix divergence), of which
    ``xᵀR_k⁻¹x + log det R_k`` depends on the class: twice the −log-likelihood of a centred
    Gaussian, and it is halved to count as much as in the joint likelihood. So a node moves as
    in `ir_map`, except that class proportions do not enter.

    The paper starts from clusters of the links or of the features, whichever are more
    informative by their Chernoff divergence. Here that is the start with the smallest sum of
    divergences (links *and* features) after three rounds: on planted graphs with ten classes
    this chose better. Where there are labels, what they say is a third candidate.

    Parameters
    ----------
    graph, X, y, n_classes, max_iter, n_starts, random_state
        As for `ir_ls`.

    Returns
    -------
    ndarray of shape (n,)
        Classes: the partition with the smallest sum of divergences on the way.
    """
    rule = Rule(bernoulli, proportions=False)
    return _search(graph, X, y, n_classes, rule, max_iter, n_starts, random_state)


def _search(
    graph: Any,
    X: Any,
    y: Any,
    n_classes: int,
    rule: Rule,
    max_iter: int,
    n_starts: int,
    random_state: int | np.random.Generator | None,
) -> Classes:
    """Return the likeliest of the partitions that the starts are refined to."""
    check_count("max_iter", max_iter)
    check_count("n_starts", n_starts)
    evidence = Evidence.gather(graph, X, y, n_classes)
    rng = np.random.default_rng(random_state)
    with threads.using(1):
        tried = [
            refine(evidence, start, rule, min(_TRIAL, max_iter))
            for start in informed_starts(evidence, rng)
        ]
        tried.sort(key=lambda each: -each[1])
        starts = [classes for classes, _ in tried[:n_starts]]
        while len(starts) < n_starts:
            starts.append(evidence.clamp(rng.integers(evidence.n_classes, size=len(evidence.y))))
        ends = [_settle(evidence, start, rule, max_iter) for start in starts]
    return max(ends, key=lambda end: end[1])[0]


def refine(
    evidence: Evidence, classes: Classes, rule: Rule, max_iter: int
) -> tuple[Classes, float]:
    """Return the likeliest partition on the way from a start, and its log-likelihood.

    All nodes move at once, so the likelihood may fall, and two partitions may lead to each other
    for ever; it ends when one of the last two comes again.
    """
    best, best_value = classes, -np.inf
    before = classes
    for _ in range(max_iter):
        costs, value = evidence.judge(classes, rule)
        if value > best_value:
            best, best_value = classes, value
        moved = evidence.clamp(costs.argmin(axis=1))
        if np.array_equal(moved, classes) or np.array_equal(moved, before):
            break
        before, classes = classes, moved
    return best, best_value


def _settle(
    evidence: Evidence, classes: Classes, rule: Rule, max_iter: int
) -> tuple[Classes, float]:
    """Refine; if permuted classes fit the labels better, try whether refining them pays."""
    classes, value = refine(evidence, classes, rule, max_iter)
    if len(evidence.known) == 0:
        return classes, value
    # A few clamped nodes do not hold a class that all others have left: where would they move?
    freed = evidence.judge(classes, rule)[0].argmin(axis=1)
    renamed = evidence.align(classes, freed)
    if renamed is classes:
        return classes, value
    again = refine(evidence, evidence.clamp(renamed), rule, max_iter)
    return max((classes, value), again, key=lambda each: each[1])


def informed_starts(evidence: Evidence, rng: np.random.Generator) -> list[Classes]:
    """Return one partition for each kind of evidence there is, labelled nodes at their label."""
    starts: list[Callable[[Evidence, np.random.Generator], Classes]] = []
    if len(evidence.known):
        starts.append(from_labels)
    if evidence.adjacency is not None and evidence.adjacency.nnz:
        starts.append(from_links)
    if evidence.features is not None:
        starts.append(from_features)
    return [evidence.clamp(start(evidence, rng)) for start in starts]


def from_labels(evidence: Evidence, rng: np.random.Generator) -> Classes:
    """Return the likeliest classes given models of the labelled nodes and links to them alone."""
    K, known = evidence.n_classes, evidence.known
    costs = np.zeros((len(evidence.y), K))
    if evidence.features is not None:
        costs += evidence.labelled_costs
    if evidence.adjacency is not None:
        W = np.zeros_like(costs)
        W[known, evidence.y[known]] = 1.0
        sizes = W.sum(axis=0)
        links = evidence.adjacency @ W
        mass, pairs = W.T @ links, np.outer(sizes, sizes) - np.diag(sizes)
        # Two classes with a few labels each share hardly a pair: classes borrow from each other.
        guess = np.empty((K, K))
        for block in (np.eye(K, dtype=bool), ~np.eye(K, dtype=bool)):
            guess[block] = evidence.rates(mass[block].sum(), pairs[block].sum())
        rates = evidence.rates(mass + _PAIRS * guess, pairs + _PAIRS)
        costs += bernoulli(links, sizes - W, rates)
    return costs.argmin(axis=1)


def from_links(evidence: Evidence, rng: np.random.Generator) -> Classes:
    """Return spectral clusters, named by the labels."""
    found = spectral_clustering(evidence.adjacency, evidence.n_classes, random_state=rng)
    return evidence.align(found)


def from_features(evidence: Evidence, rng: np.random.Generator) -> Classes:
    """Return the likeliest parts of a Gaussian mixture, labelled nodes held at their label."""
    term, K = evidence.features, evidence.n_classes
    assert term is not None
    if len(evidence.known):
        rows = [softmax(-evidence.labelled_costs, axis=1)]
    else:
        rows = [rng.dirichlet(np.ones(K), size=len(evidence.y)) for _ in range(_TRIES)]
    tries = [_fit_mixture(term, W, evidence, _SHORT) for W in rows]
    W, _ = _fit_mixture(term, max(tries, key=lambda each: each[1])[0], evidence, _LONG)
    return W.argmax(axis=1)


def _fit_mixture(
    term: Covariance, W: Array, evidence: Evidence, max_iter: int
) -> tuple[Array, float]:
    """Return the rows after some rounds of EM, and their log-likelihood."""
    n, K = W.shape
    known = evidence.known
    fixed = np.zeros((len(known), K))
    fixed[np.arange(len(known)), evidence.y[known]] = 1.0
    value = -np.inf
    for _ in range(max_iter):
        W[known] = fixed
        prior = np.log((W.sum(axis=0) + 1.0) / (n + K))
        joint = prior - term.cost(term.estimate(W), 0, n)
        evidences = logsumexp(joint, axis=1)
        W = np.exp(joint - evidences[:, None])
        evidences[known] = (joint[known] * fixed).sum(axis=1)
        before, value = value, float(evidences.sum())
        if value - before < _START_TOLERANCE * n:
            break
    return W, value
