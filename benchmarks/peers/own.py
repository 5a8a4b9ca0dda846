"""nodeproof itself, with its defaults."""

from __future__ import annotations

from typing import Any

from peers.registry import Data, Split, in_columns, peer


@peer("nodeproof", quick=True, sources="any")
def nodeproof(data: Data, split: Split, seed: int) -> Any:
    """Use the training labels alone."""
    return _fit(data, split, seed)


@peer("nodeproof (validation)", quick=True, sources="any", validation=True)
def nodeproof_validation(data: Data, split: Split, seed: int) -> Any:
    """Choose settings on the validation nodes, as the peers do."""
    return _fit(data, split, seed, validation=(split.validation, split.validation_labels))


def _fit(data: Data, split: Split, seed: int, **options: Any) -> Any:
    from nodeproof import NodeClassifier

    clf = NodeClassifier(random_state=seed).fit(data.X, split.y, graph=data.graph, **options)
    about = {
        "estimate": clf.estimated_accuracy_,
        "suspects": [int(node) for node in clf.suspects_.node],
    }
    return in_columns(clf.proba_, clf.classes_, data.n_classes), about
