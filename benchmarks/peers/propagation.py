"""Methods that use links and labels alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from peers.registry import Data, Split, as_proba, in_columns, normalised, peer


@peer("label propagation", quick=True)
def label_propagation(data: Data, split: Split, seed: int) -> Any:
    """Zhou et al. (NIPS 2003): 50 steps, α = .9, symmetric normalisation."""
    adjacency = normalised(data.graph, self_loops=False)
    given = np.zeros((len(split.y), data.n_classes), dtype=np.float32)
    given[split.train, split.y[split.train]] = 1.0
    scores = given
    for _ in range(50):
        scores = 0.9 * (adjacency @ scores) + 0.1 * given
    return as_proba(scores, split)


@peer("scikit-network Propagation", needs="sknetwork", quick=True)
def sknetwork_propagation(data: Data, split: Split, seed: int) -> Any:
    """Classify by majority vote among the neighbours, in sweeps."""
    from sknetwork.classification import Propagation

    return _sknetwork(Propagation(), data, split)


@peer("scikit-network Diffusion", needs="sknetwork", quick=True)
def sknetwork_diffusion(data: Data, split: Split, seed: int) -> Any:
    """Classify by heat diffusion from the labels."""
    from sknetwork.classification import DiffusionClassifier

    return _sknetwork(DiffusionClassifier(), data, split)


def _sknetwork(classifier: Any, data: Data, split: Split) -> Any:
    import scipy.sparse as sp

    classifier.fit(sp.csr_matrix(data.graph), split.y)
    found = np.asarray(classifier.predict_proba())
    # One column a label up to the largest that was given.
    return as_proba(in_columns(found, range(found.shape[1]), data.n_classes), split)
