"""Targets passed on along links: harmonic functions, and means weighted by random walks.

Both are about what is above or below the mean of the targets seen. With P the mean over a node's
neighbours, r the restart and a node's trust s in its own target t, the harmonic function is

    f_v = s_v t_v + (1 − s_v) (1 − r) (P f)_v,

where s is 0 at nodes without a target: they are drawn to the mean, the more so the farther away
targets are. The means divide what walks collect of targets by how many targets they pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof.graph import Graph
from nodeproof.regression.experts import LearntNumbers, NumberExpert
from nodeproof.regression.held_out import HeldTargets
from nodeproof.storage.schema import Check, Expected, number
from nodeproof.terms import NewNodes, NodeData

__all__ = ["PassedOn"]

Array = NDArray[np.float64]
Rows = NDArray[np.float32]

# (restart, trust in a node's own target); a trust of 0 stands for the means.
_SETTINGS = (
    *((restart, trust) for restart in (0.01, 0.05, 0.2) for trust in (1.0, 0.5, 0.2)),
    *((restart, 0.0) for restart in (0.03, 0.1, 0.3, 0.6)),
)
_STEPS = 50

# The same for large graphs.
_MANY_ENTRIES = 1_500_000
_FEW_SETTINGS, _FEW_STEPS = ((0.05, 1.0), (0.05, 0.5), (0.1, 0.0), (0.3, 0.0)), 12

# Targets at the mean that every walk passes, as a share of how many a node passes on average.
_EVERYWHERE = 0.05

# Rounds in which new nodes that are linked among each other settle.
_SETTLING = 20


@dataclass(frozen=True)
class LearntPassedOn(LearntNumbers):
    """Values at the fitted nodes, which a new node hears from its neighbours.

    Attributes
    ----------
    values : ndarray of shape (n, 1) or (n, 2)
        The harmonic function; or sums of targets and their number.
    mean : float
        Of the targets.
    restart : float
        The restart.
    level : float
        Targets at the mean that every walk passes.
    """

    predictions: Array
    values: Rows
    mean: float
    restart: float
    level: float

    def judge(self, new: NewNodes) -> Array:
        """Return predictions for new nodes, shape (n_new,)."""
        share = (1.0 - self.restart) / np.where(new.degrees > 0, new.degrees, 1.0)
        step = sp.diags_array(share)
        received = np.asarray(step @ (new.links @ self.values), dtype=np.float64)
        found = received
        if new.among.nnz:
            for _ in range(_SETTLING):
                found = received + step @ (new.among @ found)
        return self.mean + _read(found, self.level)

    def reordered(self, position: NDArray[np.int64]) -> LearntPassedOn:
        """Return the same for reordered nodes."""
        moved = self.predictions[position], self.values[position]
        return LearntPassedOn(*moved, self.mean, self.restart, self.level)

    def to_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the settings and arrays that `judge` needs."""
        settings = {"mean": self.mean, "restart": self.restart, "level": self.level}
        return settings, {"values": self.values}


class PassedOn(NumberExpert):
    """Targets of neighbours and theirs."""

    name: ClassVar[str] = "propagation"
    about: ClassVar[str] = "targets, passed on along links"
    kept_settings: ClassVar[Mapping[str, Check]] = dict.fromkeys(
        ("mean", "restart", "level"), number
    )

    def why_not(self, nodes: NodeData, n_targets: int) -> str | None:
        """Return why it does not apply."""
        linked = nodes.graph is not None and nodes.graph.n_entries
        return None if linked else "there are no links"

    def held_out(self, nodes: NodeData, held: HeldTargets) -> dict[Any, Array]:
        """Return predictions by restart and trust."""
        seen = np.broadcast_to(held.targets, (held.n_folds, len(held.nodes)))
        return self.spread_folds(nodes, held, seen)

    def spread_folds(
        self, nodes: NodeData, held: HeldTargets, seen_by: Array
    ) -> dict[tuple[float, float], Array]:
        """Return the same where each fold sees targets of its own, shape (F, h); as columns."""
        graph = _graph(nodes)
        hidden = held.folds == np.arange(held.n_folds)[:, None]
        means = np.ma.masked_array(seen_by, hidden).mean(axis=1).filled(0.0)
        T = np.zeros((graph.n_nodes, held.n_folds), dtype=np.float32)
        T[held.nodes] = np.where(hidden, 0.0, seen_by - means[:, None]).T
        seen = np.zeros_like(T)
        seen[held.nodes] = 1.0
        seen[held.nodes, held.folds] = 0.0
        at = held.nodes, held.folds
        few = graph.n_entries > _MANY_ENTRIES
        return {
            setting: means[held.folds] + _spread(graph, T, seen, setting)[0][at]
            for setting in (_FEW_SETTINGS if few else _SETTINGS)
        }

    def learn(self, nodes: NodeData, held: HeldTargets, setting: Any) -> LearntPassedOn:
        """Return what all targets make of the nodes."""
        graph, mean = _graph(nodes), float(held.targets.mean())
        T, seen = np.zeros((2, graph.n_nodes, 1), dtype=np.float32)
        T[held.nodes, 0] = held.targets - mean
        seen[held.nodes] = 1.0
        found, values, level = _spread(graph, T, seen, setting)
        return LearntPassedOn(mean + found[:, 0], values, mean, setting[0], level)

    def describe(self, setting: Any) -> str:
        """Return a setting in words."""
        restart, trust = setting
        if not trust:
            return f"means about {1.0 / restart:.0f} links far"
        kept = "" if trust == 1.0 else f", {trust:.0%} of it from a node's own target"
        return f"harmonic, {restart:.0%} to the mean per link{kept}"

    @classmethod
    def kept_layout(cls, settings: Mapping[str, Any]) -> Mapping[str, Expected]:
        """Return which arrays are saved."""
        return {"values": Expected("f", "n 1 | n 2", required=True)}

    @classmethod
    def restored(
        cls, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> LearntPassedOn:
        """Return what was learnt from its saved parts."""
        mean, restart, level = (float(settings[name]) for name in ("mean", "restart", "level"))
        passed = arrays["values"][:, 1:]
        if not (0 < restart <= 1 and level >= 0 and (passed + level > 0).all()):
            raise ValueError("what was passed on along links cannot be")
        return LearntPassedOn(np.empty(0), arrays["values"], mean, restart, level)


def _graph(nodes: NodeData) -> Graph:
    assert nodes.graph is not None
    return nodes.graph


def _spread(
    graph: Graph, T: Rows, seen: Rows, setting: tuple[float, float]
) -> tuple[Array, Rows, float]:
    """Return what is passed on to each node, from several sets of targets at once.

    Parameters
    ----------
    T : ndarray of shape (n, c)
        Targets less their mean, 0 where not seen.
    seen : ndarray of shape (n, c)
        1 where targets are seen, else 0.
    setting : (restart, trust)
        As in `_SETTINGS`.

    Returns
    -------
    found : ndarray of shape (n, c)
        Predictions less the mean.
    values : ndarray of shape (n, 1 or 2)
        For new nodes, of the first set.
    level : float
        For new nodes.
    """
    restart, trust = setting
    steps = _FEW_STEPS if graph.n_entries > _MANY_ENTRIES else _STEPS
    degrees = graph.degrees.astype(np.float64)
    inverse = np.divide(1.0 - restart, degrees, out=np.zeros_like(degrees), where=degrees > 0)
    pull = inverse.astype(np.float32)[:, None]
    if trust:
        own = np.float32(trust) * seen
        start, others = own * T, np.float32(1.0) - own
        f = start
        for _ in range(steps):
            f = start + others * (pull * graph.times(f))
        return f.astype(np.float64), f[:, :1], 0.0
    walk = np.hstack([T, seen])
    total = walk.copy()
    for _ in range(steps):
        walk = pull * graph.times(walk)
        total += walk
    total *= np.float32(restart)
    c = T.shape[1]
    sums, passed = total[:, :c], total[:, c:]
    level = _EVERYWHERE * float(seen.mean())
    found = np.stack([sums, passed], axis=-1)
    return _read(found, level), found[:, 0], level


def _read(values: NDArray[Any], level: float) -> Array:
    """Return predictions less the mean from values, whose last axis has 1 or 2 entries."""
    values = values.astype(np.float64)
    if values.shape[-1] == 1:
        return np.asarray(values[..., 0])
    return np.asarray(values[..., 0] / (values[..., 1] + level))
