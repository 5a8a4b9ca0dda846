"""Where the refinements start from: what each kind of evidence says by itself."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax

from nodeproof.baselines.evidence import Evidence, bernoulli
from nodeproof.baselines.spectral import spectral_clustering
from nodeproof.terms import Covariance

__all__ = ["informed_starts"]

Array = NDArray[np.float64]
Classes = NDArray[np.int64]

# Mixtures without labels start from so many random rows; after so many rounds the best goes on.
_TRIES = 4
_SHORT, _LONG = 10, 100

# Mean gain in log-likelihood of a node below which a mixture has settled: what remains is the
# refinement's to find.
_TOLERANCE = 1e-3

# How many pairs the rates inside and across all classes are worth beside those of two classes.
_PAIRS = 20.0


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
        if value - before < _TOLERANCE * n:
            break
    return W, value
