"""Methods that use links and labels alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from peers.choosing import fit_best
from peers.registry import Data, Split, as_proba, in_columns, normalised, peer

Array = NDArray[Any]

#: chances that a walk of personalised PageRank ends at a step, and shares of what is around in
#: label spreading
RESTARTS = (0.3, 0.1, 0.03)
SHARES = (0.7, 0.9, 0.99)

STEPS = 50


@peer("label propagation", quick=True)
def label_propagation(data: Data, split: Split, seed: int) -> Array:
    """Zhou et al. (NIPS 2003): 50 steps, α = .9, symmetric normalisation."""
    scores = _spread(normalised(data.links, self_loops=False), _given(data, split), 0.9)
    return as_proba(scores, split)


@peer("label propagation (grid)", quick=True)
def label_propagation_grid(data: Data, split: Split, seed: int) -> Array:
    """Choose the kind of propagation and how far it reaches.

    The kinds: personalised PageRank from the labels of each class, whose mass is divided by their
    number; label spreading (Zhou et al. 2003); and walks that end at a label (Zhu, Ghahramani and
    Lafferty, ICML 2003), which scikit-learn's `LabelPropagation` does for similarities.
    """
    symmetric = normalised(data.links, self_loops=False)
    degrees = np.asarray(data.links.sum(axis=1), dtype=np.float64)
    inverse = np.divide(1.0, degrees, out=np.zeros_like(degrees), where=degrees > 0)
    walk = sp.csr_array(sp.diags_array(inverse) @ data.links, dtype=np.float32)

    def fit(part: Split) -> list[Array]:
        given = _given(data, part)
        mass = given / np.maximum(given.sum(axis=0), 1)
        scores = [_spread(walk.T, mass, 1 - restart) for restart in RESTARTS]
        scores += [_spread(symmetric, given, share) for share in SHARES]
        scores.append(_first_label(walk, given, part.train))
        return [as_proba(each, part) for each in scores]

    return fit_best(fit, data, split, seed)[0]


@peer("scikit-network Propagation", needs="sknetwork", quick=True)
def sknetwork_propagation(data: Data, split: Split, seed: int) -> Array:
    """Classify by majority vote among the neighbours, in sweeps."""
    from sknetwork.classification import Propagation

    return _sknetwork(Propagation(), data, split)


@peer("scikit-network Diffusion", needs="sknetwork", quick=True)
def sknetwork_diffusion(data: Data, split: Split, seed: int) -> Array:
    """Classify by heat diffusion from the labels."""
    from sknetwork.classification import DiffusionClassifier

    return _sknetwork(DiffusionClassifier(), data, split)


def _given(data: Data, split: Split) -> Array:
    given = np.zeros((len(split.y), data.n_classes), dtype=np.float32)
    given[split.train, split.y[split.train]] = 1.0
    return given


def _spread(adjacency: sp.csr_array, given: Array, share: float) -> Array:
    scores = given = given.astype(np.float32)
    for _ in range(STEPS):
        scores = share * (adjacency @ scores) + (1 - share) * given
    return scores


def _first_label(walk: sp.csr_array, given: Array, train: NDArray[np.int64]) -> Array:
    """Return how likely the first label that a random walk meets is one of each class."""
    scores = given
    for _ in range(STEPS):
        scores = walk @ scores
        scores[train] = given[train]
    return scores


def _sknetwork(classifier: Any, data: Data, split: Split) -> Array:
    classifier.fit(sp.csr_matrix(data.links), split.y)
    found = np.asarray(classifier.predict_proba())
    # One column a label up to the largest that was given.
    return as_proba(in_columns(found, range(found.shape[1]), data.n_classes), split)
