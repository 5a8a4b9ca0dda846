"""The data of a fit to numeric targets: features, targets and links, checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import check_array

from nodeproof.arrangement import canonical_order
from nodeproof.auto.neighbours import HeldOutLosses, choose_neighbours
from nodeproof.csr import warn_directed
from nodeproof.errors import InputError
from nodeproof.fit_data import FitData
from nodeproof.graph import Graph
from nodeproof.inputs import EncodedLabels, check_features, read_features
from nodeproof.inputs.knn import is_knn
from nodeproof.inputs.link_kinds import NEGATIVE
from nodeproof.inputs.node_tables import read_node_table
from nodeproof.inputs.preparation import Preparation
from nodeproof.inputs.pyg_data import is_pyg_data, read_labels
from nodeproof.inputs.targets import read_targets
from nodeproof.inputs.unpacking import unpack
from nodeproof.regression.held_out import hold_out_targets
from nodeproof.regression.propagation import PassedOn
from nodeproof.terms import NodeData

__all__ = ["TargetData"]

Array = NDArray[np.float64]

# Squares of larger targets would not be floats.
_REACH = 1e100

# Fewer targets cannot tell how many neighbours are best.
_ENOUGH = 10


@dataclass(frozen=True)
class TargetData:
    """The data of a fit: checked, with the same nodes in the same order.

    Attributes
    ----------
    parts : FitData
        Features, links and names; without labels.
    targets : ndarray of shape (n,)
        NaN where unknown.
    preparation : Preparation or None
        How a table became features.
    """

    parts: FitData
    targets: Array
    preparation: Preparation | None = None

    @classmethod
    def read(
        cls,
        X: Any,
        y: Any,
        graph: Any,
        prepare: Any = "auto",
        check: Callable[..., Any] = check_array,
    ) -> TargetData:
        """Read what users give, of any kind.

        Parameters
        ----------
        X, y, graph
            As in :meth:`nodeproof.NodeRegressor.fit`.
        prepare : "auto", bool or sequence of str
            What to do to a table of features.
        check : callable
            `check_array` of scikit-learn, or what does the same and keeps names of columns.
        """
        if y is None and is_pyg_data(graph):
            y = read_labels(graph, unknown=np.nan)
        if y is None:
            raise InputError(
                "NodeRegressor requires y to be passed, but the target y is None: give numbers, "
                "NaN where they are unknown"
            )
        X, y, graph, how = read_node_table(X, y, graph, prepare)
        X, y, graph, names = unpack(X, y, graph)
        X = None if X is None else read_features(X, check)
        columns = None if how is None else np.array(how.features, dtype=object)
        return cls.build(X, read_targets(y), graph, names, columns, how)

    @classmethod
    def build(
        cls,
        X: Any,
        targets: Array,
        graph: Any,
        node_ids: NDArray[Any] | None = None,
        feature_names: NDArray[Any] | None = None,
        preparation: Preparation | None = None,
    ) -> TargetData:
        """Check that all parts have the same nodes, and make a graph of neighbours if asked to."""
        known = ~np.isnan(targets)
        if not known.any():
            raise InputError("y has no known target: all are missing")
        if np.abs(targets[known]).max() > _REACH:
            node = int(np.argmax(np.where(known, np.abs(targets), 0.0)))
            raise InputError(
                f"the target of node {node} is {targets[node]:g}, beyond the range of ±1e100: "
                "change the unit"
            )
        n = len(targets)
        if X is None and graph is None:
            raise InputError(
                "fit needs features or a graph beside the targets: X and graph are None"
            )
        if X is not None and X.shape[0] != n:
            raise InputError(
                f"X has {X.shape[0]} rows and y has {n} entries; y needs one entry per node, NaN "
                "where the target is unknown"
            )
        made = None
        if is_knn(graph):
            if X is not None:
                check_features(X, feature_names)
            made = choose_neighbours(X, _ranks(targets), graph, _losses(X, targets))
            graph = made.graph
        none = EncodedLabels(np.empty(0, np.int64), None, n)
        parts = FitData.build(X, none, graph, "uniform", node_ids, feature_names)
        if made is not None:
            parts = replace(parts, made=made)
        if parts.graph is not None and parts.graph.kinds:
            _check_kinds(parts.graph)
        return cls(parts, targets, preparation)

    def with_feature_names(self, names: NDArray[Any]) -> TargetData:
        """Return the same with these names of the features, shape (m,)."""
        return replace(self, parts=replace(self.parts, feature_names=names))

    @property
    def ranks(self) -> NDArray[np.int64]:
        """The ranks of the targets, −1 where unknown, shape (n,): they depend on no unit."""
        return _ranks(self.targets)


def _ranks(targets: Array) -> NDArray[np.int64]:
    known = ~np.isnan(targets)
    ranks = np.full(len(targets), -1, dtype=np.int64)
    ranks[known] = np.unique(targets[known], return_inverse=True)[1]
    return ranks


def _losses(X: Any, targets: Array) -> HeldOutLosses | None:
    """Return squared errors of held-out targets by propagation, as shares of their variance."""
    known = ~np.isnan(targets)
    values = np.sort(targets[known])
    if X is None or len(values) < _ENOUGH or np.ptp(values) == 0:
        return None
    deviation = float((values - values[0]).std())
    in_unit = (targets - np.median(values)) / deviation
    order = canonical_order(NodeData(2, X, _ranks(targets)))
    held = hold_out_targets(in_unit[order], np.random.default_rng(0))
    assert held is not None

    def losses(links: sp.csr_array) -> Array:
        moved = sp.csr_array(links[order][:, order])
        nodes = NodeData(2, None, None, Graph(moved, "uniform"))
        found = [(held.targets - said) ** 2 for said in PassedOn().held_out(nodes, held).values()]
        return min(found, key=lambda squares: float(squares.mean()))

    return HeldOutLosses(losses, f"squared error (of variance 1) of {len(values)} held-out targets")


def _check_kinds(graph: Graph) -> None:
    """Refuse links of negative weight; warn that directions do not count."""
    if any(kind.name.startswith(NEGATIVE) for kind in graph.kinds):
        raise InputError(
            "NodeRegressor takes links of positive weight, which say that targets are alike: leave "
            "out those of negative weight"
        )
    if graph.directed:
        warn_directed("for numeric targets")
