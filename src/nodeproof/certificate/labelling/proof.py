"""A proof in the making: steps that the auditor has accepted, and what they prove together."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodeproof.certificate import audit
from nodeproof.certificate.labelling.dual import Dual
from nodeproof.certificate.labelling.flows import PottsDual
from nodeproof.certificate.labelling.instance import Instance

__all__ = ["Part", "Proof", "Step"]

Labels = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Step:
    """Dual variables that bound the problem of the nodes whose class is not yet certain.

    Attributes
    ----------
    open : ndarray of bool, shape (n, K)
        The classes that it allows; nodes with one are fixed.
    dual : Dual or PottsDual
        For the problem of the other nodes.
    raised : ndarray of bool, shape (n, K), or None
        Classes whose cost is higher by `kappa`: if the bound is high enough, the nodes have no
        other class.
    kappa : float
        By how much.
    free : bool
        Whether it is about the problem where names of classes are free.
    plain : bool
        Whether it is for its bound alone, and single nodes are not asked about.
    """

    open: Flags
    dual: Dual | PottsDual
    raised: Flags | None = None
    kappa: float = 0.0
    free: bool = False
    plain: bool = False

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return it as the arrays that the auditor reads."""
        arrays: dict[str, NDArray[Any]] = {"open": self.open, **self.dual.to_arrays()}
        if self.raised is not None:
            arrays |= {"raised": self.raised, "kappa": np.array(self.kappa)}
        for name in ("free", "plain"):
            if getattr(self, name):
                arrays[name] = np.array(True)
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Step:
        """Return the step of named arrays."""
        kind: Any = PottsDual if "y" in arrays else Dual
        kappa = float(arrays["kappa"]) if "kappa" in arrays else 0.0
        flags = {name: bool(arrays.get(name, False)) for name in ("free", "plain")}
        return cls(arrays["open"], kind.from_arrays(arrays), arrays.get("raised"), kappa, **flags)


@dataclass(frozen=True)
class Part:
    """The labelling problem of the nodes whose class is not certain.

    Attributes
    ----------
    instance : Instance
        With links to the other nodes turned into costs.
    loose : ndarray of int, shape (m,)
        Which nodes these are.
    z : ndarray of int, shape (m,)
        Their labels.
    open : ndarray of bool, shape (m, K)
        Their possible classes.
    n_nodes : int
        Number of all nodes.
    """

    instance: Instance
    loose: NDArray[np.int64]
    z: Labels
    open: Flags
    n_nodes: int

    def with_raised(self, raised: Flags, kappa: float) -> Instance:
        """Return the problem with some costs, shape (m, K), higher by κ."""
        return replace(self.instance, costs=self.instance.costs + kappa * raised)

    def spread(self, raised: Flags) -> Flags:
        """Return what is so of these nodes as a table of all nodes, shape (n, K)."""
        whole = np.zeros((self.n_nodes, raised.shape[1]), dtype=bool)
        whole[self.loose] = raised
        return whole


@dataclass
class Proof:
    """Steps of a proof for a labelling, each accepted by the auditor.

    Bounds are those that hold on every machine: the auditor's, less what rounding may take.

    Parameters
    ----------
    instance : Instance
        The labelling problem.
    z : ndarray of int, shape (n,)
        The labelling.
    free : bool
        Whether names of classes are free: costs are then each node's least.
    """

    instance: Instance
    z: Labels
    free: bool = False
    steps: list[Step] = field(default_factory=list)

    def __post_init__(self) -> None:
        audited = self.instance.audited
        self.problem = audited.unnamed(self.z)[0] if self.free else audited
        self.whole = Instance.of_audited(self.problem) if self.free else self.instance
        self._start(self.z)

    def _start(self, z: Labels) -> None:
        self.z = z
        self.low, self.objective = self.instance.audited.value(z)
        self.offset = self.instance.audited.unnamed(z)[1] if self.free else 0.0
        self.anchors = self._choose_anchors() if self.free else z[:0]
        self.state = audit.State(self.problem, z, self.anchors)
        self.state.name()
        self.slacks: list[float] = []
        self._useful: list[bool] = []
        self.last_slack = math.inf

    def _choose_anchors(self) -> NDArray[np.int64]:
        """Return the node of each class that is surest of it, largest classes first."""
        H = self.instance.gains(self.z)
        every = np.arange(len(self.z))
        own = H[every, self.z]
        H[every, self.z] = -np.inf
        ahead = own - H.max(axis=1)
        sizes = np.bincount(self.z, minlength=self.instance.n_classes)
        classes = [i for i in np.argsort(-sizes, kind="stable") if sizes[i]]
        members = [np.flatnonzero(self.z == i) for i in classes]
        return np.array([nodes[ahead[nodes].argmax()] for nodes in members], dtype=np.int64)

    @property
    def possible(self) -> Flags:
        """The classes that an optimal labelling can give each node, shape (n, K)."""
        return self.state.possible

    @property
    def sure(self) -> Flags:
        """Which nodes have one possible class, shape (n,)."""
        return np.asarray(self.possible.sum(axis=1) == 1)

    @property
    def slack(self) -> float:
        """How far the best bound is from the objective."""
        return 0.0 if self.sure.all() else min(self.slacks, default=math.inf)

    @property
    def lower_bound(self) -> float:
        """What no labelling is below."""
        return self.low - self.slack

    def opened(self, anchored: bool = False) -> Flags:
        """Return the classes that the next step leaves open, shape (n, K).

        Where nothing is certain but the names of anchors, all classes are, and the problem is as
        symmetric as it was; unless the step is to be about labellings with these names.
        """
        opened = self.possible.copy()
        if not anchored and int(self.sure.sum()) == self.state.named:
            opened[self.anchors[: self.state.named]] = True
        return opened

    def part(self, anchored: bool = False) -> Part:
        """Return the problem that is left when certain nodes keep their class."""
        opened = self.opened(anchored)
        fixed = opened.sum(axis=1) == 1
        left, _ = self.problem.reduced(self.z, fixed)
        loose = np.flatnonzero(~fixed)
        instance = Instance.of_audited(left) if fixed.any() else self.whole
        return Part(instance, loose, self.z[loose], opened[loose], len(self.z))

    def consider(
        self,
        dual: Dual | PottsDual,
        raised: Flags | None = None,
        kappa: float = 0.0,
        plain: bool = False,
    ) -> bool:
        """Take a step if it proves more; return whether it does.

        Parameters
        ----------
        dual : Dual or PottsDual
            For the problem of `part`, anchored where costs are raised.
        raised : ndarray of bool, shape (n, K), optional
            Classes whose costs were raised there by `kappa`, in terms of all nodes.
        plain : bool
            Whether only the bound is asked for.
        """
        step = Step(self.opened(anchored=raised is not None), dual, raised, kappa, self.free, plain)
        before, named = self.possible.copy(), self.state.named
        best = min(self.slacks, default=math.inf)
        try:
            slack = self._take(step)
        except (audit.Refused, np.linalg.LinAlgError):
            slack = math.inf
        except BaseException:  # what was excluded meanwhile has no step that proves it
            self.state.possible, self.state.named = before, named
            raise
        self.last_slack = slack
        self.state.name()
        excluded = bool((before & ~self.possible).any())
        if not excluded and not slack < best:
            self.state.possible, self.state.named = before, named
            return False
        if slack < best:  # an earlier bound is of use only where it excluded a class
            kept = [k for k, useful in enumerate(self._useful) if useful]
            self.steps = [self.steps[k] for k in kept]
            self.slacks = [self.slacks[k] for k in kept]
            self._useful = [True] * len(kept)
        self.steps.append(step)
        self.slacks.append(slack)
        self._useful.append(excluded)
        return True

    def _take(self, step: Step) -> float:
        """Let the auditor take a step; return how far its bound is from the objective."""
        return audit.take_step(self.problem, self.state, step.to_arrays(), 1.0, self.offset)

    def relabel(self, z: Labels) -> bool:
        """Take another labelling if it is better, with what the steps prove of it."""
        if not self.instance.audited.value(z)[1] < self.low:
            return False
        before = dict(vars(self))
        try:
            self._start(z)
            self.steps = []
            for step in before["steps"]:
                self._take_again(step)
        except audit.Refused:  # what follows relies on this step
            pass
        except BaseException:
            vars(self).update(before)
            raise
        return True

    def _take_again(self, step: Step) -> None:
        """Take a step that was taken before, for another labelling."""
        before = self.possible.copy()
        slack = self._take(step)
        self.steps.append(step)
        self.slacks.append(slack)
        self._useful.append(bool((before & ~self.possible).any()))


def proof_arrays(
    instance: Instance, z: Labels, anchors: NDArray[np.int64], steps: Any
) -> dict[str, NDArray[Any]]:
    """Return a problem, a labelling and the steps of a proof as named arrays."""
    arrays: dict[str, NDArray[Any]] = {**instance.to_arrays(), "labels": z}
    if len(anchors):
        arrays["anchors"] = anchors
    for k, step in enumerate(steps):
        arrays |= {f"step{k}_{name}": array for name, array in step.to_arrays().items()}
    return arrays
