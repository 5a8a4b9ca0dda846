"""The pool's verdict as a term of the problem: what every node costs in each class."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from nodeproof.affinity import Affinity
from nodeproof.auto.experts.base import Changed, Expert, Learnt, no_logs
from nodeproof.auto.experts.guarded import restore
from nodeproof.auto.experts.learnt_blocks import LearntBlocks
from nodeproof.auto.experts.registry import check_known, check_registered
from nodeproof.auto.joint import NOTHING_JOINT, Joint
from nodeproof.auto.pooling import Pool
from nodeproof.errors import InputError
from nodeproof.sets import Simplex
from nodeproof.storage.npz import Header
from nodeproof.storage.schema import (
    Check,
    Expected,
    anything,
    check_entries,
    check_layout,
    dict_of,
    entries,
    list_of,
    number,
    one_of,
    or_none,
    text,
)
from nodeproof.terms import NewNodeCosts, NewNodes, NodeData, Term, register
from nodeproof.terms.class_loss import LinearLoss

__all__ = ["Pooled", "PooledCosts"]

Array = NDArray[np.float64]

_MOST_EXPERTS = 64

# Of a `Pool`.
_POOL_ARRAYS = ("scales", "balanced", "weights", "bias", "learnt", "losses", "proportions")

# What an expert says of all nodes, beside what it keeps for new ones.
_LOGS = "says_of_all"

_any_dict = dict_of(anything)


@dataclass(frozen=True)
class Verdict:
    """What the experts say of all nodes, and the pool that weighs it.

    Attributes
    ----------
    pool : Pool
        Weights and calibration.
    names, sources : tuple of str
        What the experts are called, and what they draw on.
    learnt : tuple of Learnt or None
        What they have learnt; None for those without a weight.
    costs : ndarray of shape (n, K)
        −log p(class), labelled nodes by pools that have not seen their labels.
    joint : Joint or None
        What they say of all nodes together; None if links have no weight of their own.
    """

    pool: Pool
    names: tuple[str, ...]
    sources: tuple[str, ...]
    learnt: tuple[Learnt | None, ...]
    costs: NDArray[np.float32]
    joint: Joint | None = None

    def reordered(self, position: NDArray[np.int64]) -> Verdict:
        """Return the same for reordered nodes; `position` is where each was before."""
        learnt = tuple(None if own is None else own.reordered(position) for own in self.learnt)
        joint = None if self.joint is None else self.joint.reordered(position)
        return replace(self, learnt=learnt, costs=self.costs[position], joint=joint)


@register
class Pooled(Term):
    """Class probabilities by a pool of experts, which held-out labels have weighed.

    A fit with ``terms="auto"`` makes it; it cannot be given by hand, because it is about the nodes
    of one fit. Calibrated, a node costs ``−log p(class)``; the paper's loss is ``−⟨p_v, θ⟩`` over
    the simplex.
    """

    source: ClassVar[str] = "features"
    takes_sparse: ClassVar[bool] = True
    discriminative: ClassVar[bool] = True
    light: ClassVar[bool] = True
    models_shape: ClassVar[str] = "K K"
    kept_as: ClassVar[str] = "pool"
    kept_settings: ClassVar[Mapping[str, Check]] = {
        "scale": lambda value: number(value) and value > 0,
        "noise": lambda value: number(value) and 0 <= value < 1,
        "at_labels": or_none(lambda value: number(value) and value > 0),
        "experts": list_of(
            entries(
                {"name": text, "source": one_of("graph", "features"), "kept": or_none(_any_dict)}
            ),
            _MOST_EXPERTS,
        ),
    }

    def __init__(self, verdict: Verdict | None = None) -> None:
        self.verdict = verdict

    def __repr__(self) -> str:
        return "Pooled()"

    @classmethod
    def settings(cls) -> Mapping[str, Check]:
        """Return what makes it up: nothing that a file could say."""
        return {}

    @property
    def needs_features(self) -> bool:
        """Whether any expert has learnt from features."""
        return self.verdict is not None and any(
            own is not None and own.needs_features for own in self.verdict.learnt
        )

    def bind(self, nodes: NodeData) -> Self:
        """Return a copy for the nodes of the fit.

        Raises
        ------
        InputError
            If it was made by an earlier fit.
        """
        own = self.verdict is not None and len(self.verdict.costs) == nodes.n_nodes
        if not own or "n_nodes" in vars(self):
            raise InputError("Pooled belongs to the fit that made it: use terms='auto'")
        return self._bound(nodes)

    def _bound(self, nodes: NodeData) -> Self:
        bound = self.copy_for(nodes)
        bound.models_set = Simplex(nodes.n_classes)
        return bound

    def rebound(self, nodes: NodeData) -> Self:
        """Return the same, restored from a file, for the nodes that it was fitted to."""
        return self._bound(nodes)

    def reordered(self, nodes: NodeData, position: NDArray[np.int64]) -> Self:
        """Return the same for reordered nodes."""
        bound = self._bound(nodes)
        assert self.verdict is not None
        bound.verdict = self.verdict.reordered(position)
        return bound

    def updated(self, changed: Changed, given: NDArray[np.int64] | None) -> Self:
        """Return the same for the nodes after an update, by the same pool."""
        from nodeproof.auto.updating import update_verdict  # which needs this module

        assert self.verdict is not None
        assert given is not None
        bound = self._bound(changed.nodes)
        bound.verdict = update_verdict(self.verdict, changed, given)
        return bound

    def foretold(self, changed: Changed, nodes: NDArray[np.int64]) -> Array:
        """Return what the pool says of nodes before an update."""
        from nodeproof.auto.updating import unseen_log_proba

        assert self.verdict is not None
        return unseen_log_proba(self.verdict, changed, nodes)

    @property
    def costs(self) -> NDArray[np.float32]:
        """−log p(class), shape (n, K)."""
        assert self.verdict is not None
        return self.verdict.costs

    def loss(self, theta: Array, lo: int, hi: int) -> Array:
        """Return ``−⟨p_v, θ⟩``."""
        return -np.asarray((np.exp(-self.costs[lo:hi]) * theta).sum(axis=1), dtype=np.float64)

    def loss_gradient(self, theta: Array, lo: int, hi: int) -> Array:
        """Return ``−p_v``."""
        return -np.exp(-self.costs[lo:hi]).astype(np.float64)

    def refit(self, W: NDArray[Any]) -> Array:
        """Put each class on the one that the pool sees most of in it."""
        return self.models_set.lmo(self.class_loss(W).slopes)

    def class_loss(self, W: NDArray[Any]) -> LinearLoss:
        """Return ``−⟨Σ_v W_vi p_v, θ_i⟩``."""
        return LinearLoss(self.models_set, -(W.T.astype(np.float64) @ np.exp(-self.costs)))

    def estimate(self, W: NDArray[Any]) -> Array:
        """Return nothing that depends on the memberships: the identity."""
        return np.eye(self.n_classes)

    def cost(self, models: Array, lo: int, hi: int) -> Array:
        """Return ``−log p(class)``."""
        return np.asarray(self.costs[lo:hi], dtype=np.float64)

    def attribute(self, models: Array, scores: Array, lo: int, hi: int) -> dict[str, Array]:
        """Return what the experts of each source add to the scores."""
        verdict = self.verdict
        assert verdict is not None
        found: dict[str, Array] = {}
        for k, own in enumerate(verdict.learnt):
            if own is None:
                continue
            weight = verdict.pool.scale * verdict.pool.weights[k]
            part = weight * verdict.pool.part(k, own.log_proba[lo:hi])
            for source, share in (
                own.attribute(part, lo, hi) or {verdict.sources[k]: part}
            ).items():
                found[source] = found.get(source, 0.0) + share
        return found

    def jointly(self) -> tuple[Self, Affinity] | str:
        """Return what nodes cost beside their links, and the weight of these in the pool."""
        assert self.verdict is not None
        joint = self.verdict.joint
        if joint is None:
            return NOTHING_JOINT
        beside = copy.copy(self)
        beside.verdict = replace(self.verdict, costs=joint.costs)
        return beside, joint.affinity

    def for_new_nodes(self, models: Array, calibrated: bool) -> PooledCosts:
        """Return what new nodes are judged by."""
        assert self.verdict is not None
        return PooledCosts(self.verdict)

    @classmethod
    def kept_layout(cls, settings: Mapping[str, Any]) -> Mapping[str, Expected]:
        """Return the arrays of the pool, and, numbered, those of the experts with a weight."""
        E, K = str(len(settings["experts"])), "K"
        shapes = {"scales": E, "weights": E, "losses": E, "bias": K, "learnt": K, "proportions": K}
        found = {name: Expected("f", shape, required=True) for name, shape in shapes.items()}
        found["balanced"] = Expected("b", E, required=True)
        found |= {name: Expected("f", "n K") for name in ("costs", "joint_costs")}
        for e, member in enumerate(settings["experts"]):
            if member["kept"] is None:
                continue
            kept = member["kept"]
            found[f"{e}_{_LOGS}"] = Expected("f", "n K")
            for name, expected in _class_of(member["name"], kept).kept_layout(kept).items():
                # Sides of the expert's own are called by its number and the term's.
                shapes_of = expected.shapes.replace("{0}", f"{{0}}_{e}")
                found[f"{e}_{name}"] = replace(expected, shapes=shapes_of)
        return found

    def restored(
        self,
        models: Array,
        calibrated: bool,
        settings: Mapping[str, Any],
        arrays: Mapping[str, NDArray[Any]],
    ) -> PooledCosts:
        """Return what new nodes are judged by from what was saved of it, and keep it."""
        own = {name: arrays[name] for name in _POOL_ARRAYS}
        pool = Pool(
            scale=settings["scale"],
            noise=settings["noise"],
            at_labels=settings.get("at_labels"),
            **own,
        )
        _check_pool(pool)
        learnt: list[Learnt | None] = []
        for e, member in enumerate(settings["experts"]):
            prefix, kept = f"{e}_", member["kept"]
            parts = {
                name.removeprefix(prefix): array
                for name, array in arrays.items()
                if name.startswith(prefix)
            }
            if kept is None:
                learnt.append(None)
            else:
                expert = _class_of(member["name"], kept)
                logs = parts.pop(_LOGS, None)
                found = restore(expert, member["source"], kept, parts)
                if found is not None and logs is not None:
                    found = found.with_logs(logs)
                learnt.append(found)
        joint = None
        if "joint_costs" in arrays:
            joint = joint_of(learnt, pool, arrays["joint_costs"])
        self.verdict = Verdict(
            pool,
            tuple(member["name"] for member in settings["experts"]),
            tuple(member["source"] for member in settings["experts"]),
            tuple(learnt),
            arrays.get("costs", no_logs(len(pool.bias))),
            joint,
        )
        # It is bound to the nodes of its fit, even if others are as many.
        self.n_nodes, self.n_classes = len(self.verdict.costs), len(pool.bias)
        return PooledCosts(self.verdict)


@dataclass(frozen=True)
class PooledCosts(NewNodeCosts):
    """What new nodes cost by the pool.

    Experts that cannot judge new nodes are left out, and the others count for more, as
    `Pool.only` says. If none can, nodes cost what the proportions of the classes say.
    """

    verdict: Verdict

    def to_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the settings and arrays to save, as `Pooled.restored` takes them."""
        verdict, pool = self.verdict, self.verdict.pool
        arrays = {name: getattr(pool, name) for name in _POOL_ARRAYS} | {"costs": verdict.costs}
        if verdict.joint is not None:
            arrays["joint_costs"] = verdict.joint.costs
        experts = []
        for e, own in enumerate(verdict.learnt):
            kept = None
            if own is not None:
                kept, parts = _parts_of(verdict.names[e], own, len(pool.bias))
                arrays |= {f"{e}_{name}": array for name, array in parts.items()}
                arrays[f"{e}_{_LOGS}"] = own.log_proba
            experts.append({"name": verdict.names[e], "source": verdict.sources[e], "kept": kept})
        settings = {name: getattr(pool, name) for name in ("scale", "noise", "at_labels")}
        return settings | {"experts": experts}, arrays

    def costs(self, new: NewNodes) -> Array:
        """Return what new nodes cost in each class, shape (n_new, K)."""
        pool = self.verdict.pool
        logs = [None if own is None else own.judge(new) for own in self.verdict.learnt]
        judges = np.array([own is not None for own in logs])
        if not judges.any():
            return -np.log(np.tile(pool.proportions, (new.links.shape[0], 1)))
        return -pool.only(judges).log_proba(logs)


def joint_of(learnt: Sequence[Learnt | None], pool: Pool, costs: NDArray[Any]) -> Joint:
    """Return what a pool says of all nodes together, from what they cost beside their links."""
    for k, own in enumerate(learnt):
        if isinstance(own, LearntBlocks) and own.models.affinity is not None:
            counts = float(pool.scale * pool.weights[k] * pool.scales[k])
            return Joint(np.asarray(costs, np.float32), own.models.affinity.times(counts))
    raise ValueError("there are costs beside links, but no block model of links")


def _parts_of(
    name: str, learnt: Learnt, n_classes: int
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return what is saved of an expert; raise an error if it could not be read again."""
    expert = check_registered(name)
    settings, arrays = learnt.to_parts()
    try:
        check_entries(settings, expert.kept_settings, what="the settings of to_parts")
        layout = {
            part: replace(expected, shapes=expected.shapes.format(0))
            for part, expected in expert.kept_layout(settings).items()
        }
        headers = {part: Header(array.shape, array.dtype, 0) for part, array in arrays.items()}
        check_layout(headers, layout, K=n_classes)
    except ValueError as error:
        raise InputError(
            f"cannot save the expert {name!r}: to_parts must return what kept_settings and "
            f"kept_layout list, but {error}"
        ) from None
    return settings, arrays


def _class_of(name: str, kept: Mapping[str, Any]) -> type[Expert]:
    """Return the expert that a file names; raise an error unless it can keep these settings."""
    expert = check_known(name)
    what = f"what its expert {name} keeps"
    check_entries(kept, expert.kept_settings, expert.kept_since, what)
    return expert


def _check_pool(pool: Pool) -> None:
    """Raise a ValueError if these finite numbers are not those of a pool."""
    if not ((pool.weights >= 0).all() and (pool.scales > 0).all()):
        raise ValueError("the weights or scales of its experts are negative")
    for shares in (pool.learnt, pool.proportions):
        if not ((shares > 0).all() and abs(shares.sum() - 1.0) <= 1e-3):
            raise ValueError("the class proportions of its pool are not shares of one")
