"""What methods are given: how nodes are split, and whether links or features are hidden."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from nodeproof.errors import InputError
from peers.registry import Split
from peers.sets import GraphSet

Nodes = NDArray[np.int64]

#: training, validation and test nodes
Parts = tuple[Nodes, Nodes, Nodes]

#: from the size of a class to a number of its nodes
Count = Callable[[int], int]


@dataclass(frozen=True)
class Protocol:
    """A way to compare methods on a set.

    Parameters
    ----------
    name : str
    about : str
        What methods are given, for the reader of the tables.
    split : callable
        From a set and a number to training, validation and test nodes.
    allows : callable
        Whether a set has what is needed.
    hides : "links", "features" or None
    n_splits : int
        How many splits, or seeds on a single published one, unless asked otherwise.
    validation : bool
        Whether there are validation nodes.
    usual : bool
        Whether it is run unless others are named.
    """

    name: str
    about: str
    split: Callable[[GraphSet, int], Parts]
    allows: Callable[[GraphSet], bool]
    hides: str | None = None
    n_splits: int = 5
    validation: bool = False
    usual: bool = True

    @property
    def file_name(self) -> str:
        """The name with nothing that a file's name cannot have."""
        return self.name.replace("/", "-")

    def numbers(self, graph_set: GraphSet, n_splits: int | None) -> range:
        """Return the numbers of the splits: all that were published, if several were."""
        published = len(graph_set.published) if self.name == "published" else 0
        if published > 1:
            return range(min(n_splits or published, published))
        return range(n_splits or self.n_splits)

    def given(self, graph_set: GraphSet) -> GraphSet:
        """Return the set without what is hidden."""
        data = graph_set.data
        if self.hides == "links":
            data = replace(data, graph=None)
        elif self.hides == "features":
            data = replace(data, X=None)
        return replace(graph_set, data=data)


def per_class(y: Nodes, number: int, train: Count, validation: Count = lambda size: 0) -> Parts:
    """Draw training and validation nodes from every class; all others with a class are for testing.

    Parameters
    ----------
    y : ndarray of shape (n,)
        Classes, −1 where not known.
    number : int
        Seed.
    train, validation : callable
        From the size of a class to how many of its nodes to draw.

    Examples
    --------
    >>> import numpy as np
    >>> y = np.repeat([0, 1], [100, 9])
    >>> [len(nodes) for nodes in per_class(y, 0, lambda size: min(20, size // 2))]
    [24, 0, 85]
    """
    rng = np.random.default_rng(number)
    parts: list[list[Nodes]] = [[], [], []]
    for k in range(int(y.max()) + 1):
        nodes = rng.permutation(np.flatnonzero(y == k))
        first = train(len(nodes))
        ends = (first, first + validation(len(nodes)))
        for part, drawn in zip(parts, np.split(nodes, ends), strict=True):
            part.append(drawn)
    drawn_parts = (np.sort(np.concatenate(each)) for each in parts)
    return tuple(drawn_parts)  # type: ignore[return-value]


def _twenty(graph_set: GraphSet, number: int) -> Parts:
    return per_class(graph_set.y, number, lambda size: min(20, size // 2))


def _sixty(graph_set: GraphSet, number: int) -> Parts:
    return per_class(
        graph_set.y, number, lambda size: round(0.6 * size), lambda size: round(0.2 * size)
    )


def _tenth(graph_set: GraphSet, number: int) -> Parts:
    # At least one, for a class that nobody knows of cannot be found.
    return per_class(graph_set.y, number, lambda size: min(max(round(0.1 * size), 1), size // 2))


def _published(graph_set: GraphSet, number: int) -> Parts:
    return graph_set.published[number % len(graph_set.published)]


def _all_labels(graph_set: GraphSet, number: int) -> Parts:
    train, held, test = graph_set.published[0]
    return np.union1d(train, held), held[:0], test


def _has_links(graph_set: GraphSet) -> bool:
    return graph_set.data.graph is not None


def _has_features(graph_set: GraphSet) -> bool:
    return graph_set.data.X is not None


PROTOCOLS = {
    each.name: each
    for each in (
        Protocol(
            "20-per-class",
            "20 training labels per class (at most half of a class), no validation labels, all "
            "other nodes for testing; random splits",
            _twenty,
            _has_links,
        ),
        Protocol(
            "published",
            "the published split (repeated with other seeds) or splits; settings may be chosen on "
            "their validation labels",
            _published,
            lambda graph_set: bool(graph_set.published),
            validation=True,
        ),
        Protocol(
            "all-labels",
            "the published split, with the validation labels fitted too",
            _all_labels,
            lambda graph_set: len(graph_set.published) == 1,
        ),
        Protocol(
            "60/20/20",
            "60 % of every class for training, 20 % for validation, 20 % for testing; random "
            "splits",
            _sixty,
            _has_links,
            validation=True,
        ),
        Protocol(
            "graph",
            "links and labels alone: as 20-per-class, features hidden",
            _twenty,
            _has_links,
            hides="features",
        ),
        Protocol(
            "features",
            "features and labels alone: links hidden, 10 % of every class for training, all other "
            "nodes for testing; random splits",
            _tenth,
            _has_features,
            hides="links",
            n_splits=20,
        ),
        Protocol(
            "20-features",
            "features and labels alone: as 20-per-class, links hidden",
            _twenty,
            _has_features,
            hides="links",
            usual=False,
        ),
    )
}


def draw(
    graph_set: GraphSet,
    protocol: Protocol,
    number: int,
    *,
    flip: float = 0.0,
    validation: bool = True,
) -> tuple[Split, Nodes]:
    """Return the labels that methods may use, and the test nodes.

    Parameters
    ----------
    graph_set : GraphSet
    protocol : Protocol
    number : int
        Seed of a random split and of the labels that are flipped, or which published split.
    flip : float
        Share of the training labels that become another class at random; validation labels
        stay right.
    validation : bool
        Whether methods may look at validation nodes, if the protocol has any.
    """
    y = graph_set.y
    train, held, test = protocol.split(graph_set, number)
    if len(train) == 0 or len(test) == 0:
        raise InputError(f"{graph_set.data.name} has too few nodes for {protocol.name}")
    labels = np.full(len(y), -1)
    labels[train] = y[train]
    if flip:
        flip_labels(labels, flip, graph_set.data.n_classes, number)
    held = held if validation else held[:0]
    return Split(labels, held, y[held]), test


def flip_labels(labels: Nodes, share: float, n_classes: int, seed: int) -> None:
    """Turn this share of the labels, in place, into other classes, each equally often."""
    rng = np.random.default_rng([seed, 1])
    known = np.flatnonzero(labels >= 0)
    chosen = rng.choice(known, size=round(share * len(known)), replace=False)
    labels[chosen] = (labels[chosen] + rng.integers(1, n_classes, len(chosen))) % n_classes
