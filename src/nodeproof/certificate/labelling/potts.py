"""The Potts bound: flows along links and a tangent of the null model, found by first-order steps.

With ``s_i = Σ_{v∈C_i} η_v`` and ``c_e = 2w·A_uv``, where w, wt ≥ 0,

    P(z) = −Σ_e c_e 1[z_u = z_v] + wt(Σ_i s_i² − Σ_v η_v²) + Σ_v c[v, z_v].

For any a, ``s_i² ≥ 2a_i s_i − a_i²``; for any flow y_e, of which the first end of a link receives
y_e and the other −y_e, no labelling changes its sum. So for

    b'_v(i) = c[v, i] + 2wt·a_i·η_v + Σ_{e=(v,·)} y_e(i) − Σ_{e=(·,v)} y_e(i),

every labelling has, as long as ``max y_e − min y_e ≤ c_e``,

    P(z) ≥ −Σ_e c_e − wt(Σ_i a_i² + Σ_v η_v²) + Σ_v min_i b'_v(i).

The best a and y are the dual of a convex program over memberships x_v in the simplex,

    min_x Σ_v ⟨c_v, x_v⟩ + Σ_e c_e ½‖x_u − x_v‖₁ + wt‖Σ_v η_v x_v‖²,  less constants,

a saddle point in x and (a, y), linear in each but for ``−wt‖a‖²``. `PottsAscent` finds it by the
primal-dual hybrid gradient method with diagonal steps (Pock and Chambolle 2011), restarted from
averages and with balanced steps as in PDLP (Applegate et al. 2021). Block updates of the flows
alone (TRW-S) are faster at first but stop at kinks of a: 70 nats below on Cora. Numbers here are
estimates in float64; the bounds are proven elsewhere.
"""

from __future__ import annotations

import math
import time

import numpy as np
from numpy.typing import NDArray

from nodeproof import kernels
from nodeproof.certificate.labelling.flows import FlowCosts, PottsDual
from nodeproof.certificate.labelling.instance import Instance
from nodeproof.runtime import threads

__all__ = ["PottsAscent", "PottsDual"]

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

# Steps between two looks at the bound.
_LOOK = 20
# Restart when the duality gap has fallen this far, or after this share of all steps.
_FALLEN = 0.3
_SHARE = 0.3
# Ratio of dual to primal steps, in units of the links' costs, at first; it stays within a factor.
_BALANCE = 0.75
_WITHIN = 16.0
# Share of a node's step that the tangent takes beside its links.
_TANGENT = 0.1
# Least strength of a node, relative to the mean: isolated ones take long steps.
_WEAKEST = 0.1
# Relative to the numbers that the bound sums up: a smaller gap, or gain, is none.
_NEGLIGIBLE = 1e-9
_PATIENCE = 20


class PottsAscent:
    """Find the best a and y of the Potts bound, and a relaxed labelling.

    Parameters
    ----------
    instance : Instance
        The labelling problem; w ≥ 0 and wt ≥ 0.
    open_labels : array of bool, shape (n, K), optional
        Labels that nodes may have, at least one each; by default all.
    start : PottsDual, optional
        Where to begin; by default the bound without flows and with equal class totals.

    Attributes
    ----------
    memberships : ndarray of shape (n, K)
        The relaxed labelling x at present.
    relaxed : float
        The least value of a relaxed labelling so far: no a and y give a higher bound.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> from nodeproof.certificate.labelling.instance import Instance
    >>> pair = Instance(sp.csr_array([[0.0, 1.0], [1.0, 0.0]]), np.ones(2), 1.0, 0.5, 3 * np.eye(2))
    >>> ascent = PottsAscent(pair)
    >>> ascent.sweep(200)
    >>> round(ascent.value, 6), ascent.decode().tolist()
    (0.0, [1, 0])
    """

    def __init__(
        self,
        instance: Instance,
        open_labels: NDArray[np.bool_] | None = None,
        start: PottsDual | None = None,
    ) -> None:
        self._instance = instance
        self._flows = FlowCosts(instance, open_labels)
        n, K = instance.n_nodes, instance.n_classes
        n_links = instance.adjacency.nnz // 2
        self._set_steps()
        total = float(instance.eta.sum())
        self._a = np.full(K, total / max(K, 1)) if start is None else start.a.astype(np.float64)
        self._y = np.zeros((n_links, K)) if start is None else _centred(start.y)
        self._best = PottsDual(self._a, self._y.copy())
        self._value = self._flows.bound(self._a, self._y)
        self.memberships = self._first_memberships(warm=start is not None)
        self.relaxed = self._relaxed(self.memberships)
        self._ahead = np.empty((n, K))
        self._steps = self._idle = 0
        self._gap = self.relaxed - self._value
        self._mean_a: Array = self._a
        self._mean_x, self._mean_y = np.empty((n, K)), np.empty_like(self._y)
        self._start_averages()

    def _set_steps(self) -> None:
        """Set how strongly each node, and the tangent, are held: steps are their inverses."""
        instance = self._instance
        eta, wt = instance.eta, instance.wt
        held = 2.0 * instance.w * np.asarray(instance.adjacency.sum(axis=1, dtype=np.float64))
        spread = np.ptp(instance.costs, axis=1) if instance.n_nodes else np.zeros(0)
        mean = float(held.mean()) if held.any() else float(spread.mean()) if spread.any() else 1.0
        pull = 2.0 * wt * eta
        share = _TANGENT * mean / float(pull.mean()) if pull.any() else 0.0
        self._strength = np.maximum(held, _WEAKEST * mean) + share * pull
        self._tangent_step = share / float(pull.sum()) if pull.any() else 0.0
        self._balance = _BALANCE
        self._size = instance.span

    def _first_memberships(self, warm: bool) -> Array:
        """Return equal memberships in the open labels, or the cheapest label after a warm start."""
        if warm:
            return np.eye(self._flows.costs.shape[1])[self.reduced.argmin(axis=1)]
        x = np.isfinite(self._flows.costs).astype(np.float64)
        x /= x.sum(axis=1, keepdims=True)
        return x

    @property
    def value(self) -> float:
        """The highest bound so far."""
        return self._value

    @property
    def dual(self) -> PottsDual:
        """Where the highest bound is."""
        return self._best

    @property
    def reduced(self) -> Array:
        """What each label of a node adds to the highest bound, at least; shape (n, K)."""
        return self._flows.reduced(self._best)

    @property
    def stalled(self) -> bool:
        """Whether the bound is as high as it gets, or has not risen for long."""
        small = self.relaxed - self._value <= _NEGLIGIBLE * self._size
        return small or self._idle >= _PATIENCE

    def run(self, deadline: float = math.inf, target: float = math.inf) -> float:
        """Sweep until stalled, or the bound reaches a target, or `time.perf_counter` a deadline.

        Returns the bound.
        """
        while not self.stalled and self._value < target and time.perf_counter() < deadline:
            self.sweep(_LOOK)
        return self._value

    def sweep(self, count: int = 1) -> None:
        """Take so many steps of all memberships, flows and the tangent."""
        for _ in range(count):
            self._step()
            if self._steps % _LOOK == 0:
                self._look()
        if self._steps % _LOOK:
            self._keep(self._a, self._y)

    def decode(self) -> Labels:
        """Return the better of two labellings: from the memberships, and from the flows.

        Single nodes have settled, among all labels: it may have closed ones if that is better.
        """
        instance, A = self._instance, self._instance.adjacency
        labels = np.empty(instance.n_nodes, dtype=np.int64)
        kernels.decode_flows(
            A.indptr, A.indices, instance.weights, self._flows.link_of, self._flows.costs,
            instance.eta, 2.0 * instance.wt * self._best.a, 2.0 * instance.w, self._best.y, labels,
        )  # fmt: skip
        found = [labels, self.memberships.argmax(axis=1)]
        return min((instance.settle(z) for z in found), key=instance.value)

    def _step(self) -> None:
        instance, A = self._instance, self._instance.adjacency
        n, wt = instance.n_nodes, instance.wt
        share = 1.0 / (self._averaged + 1)
        steps = 1.0 / (self._balance * self._strength)
        slope = 2.0 * wt * self._a

        def nodes(lo: int, hi: int) -> tuple[Array, float]:
            found: tuple[Array, float] = kernels.step_nodes(
                lo, hi, A.indptr, A.indices, self._flows.link_of, self._flows.costs, instance.eta,
                slope, self._y, steps, share, self.memberships, self._ahead, self._mean_x,
            )  # fmt: skip
            return found

        def links(lo: int, hi: int) -> float:
            moved: float = kernels.step_links(
                lo, hi, A.indptr, A.indices, instance.weights, self._flows.link_of,
                2.0 * instance.w, 0.5 * self._balance, share, self._ahead, self._y, self._mean_y,
            )  # fmt: skip
            return moved

        parts = threads.map_rows(nodes, n)
        self._moved_x += sum(moved for _, moved in parts)
        self._moved_y += sum(threads.map_rows(links, n))
        self._step_tangent(sum((totals for totals, _ in parts), np.zeros(len(slope))), share)
        self._steps += 1
        self._averaged += 1

    def _step_tangent(self, totals: Array, share: float) -> None:
        """Move a towards the class totals: ``max_a 2wt⟨a, s⟩ − wt‖a‖²``, with a proximal term."""
        step = self._balance * self._tangent_step
        pull = 2.0 * self._instance.wt * step
        new = (self._a + pull * totals) / (1.0 + pull)
        if step > 0.0:
            self._moved_y += float(((new - self._a) ** 2).sum()) / step
        self._a = new
        self._mean_a = self._mean_a + share * (new - self._mean_a)

    def _look(self) -> None:
        """Keep the best bound; restart where that pays."""
        before = self._value
        now = self._relaxed(self.memberships), self._keep(self._a, self._y)
        mean = self._relaxed(self._mean_x), self._keep(self._mean_a, self._mean_y)
        self.relaxed = min(self.relaxed, now[0], mean[0])
        risen = self._value - before > _NEGLIGIBLE * self._size
        self._idle = 0 if risen else self._idle + 1
        gap = min(now[0] - now[1], mean[0] - mean[1])
        if gap <= _FALLEN * self._gap or self._averaged >= _SHARE * self._steps:
            self._restart(from_mean=mean[0] - mean[1] < now[0] - now[1])
            self._gap = gap

    def _restart(self, from_mean: bool) -> None:
        """Begin anew from here or from the averages, with steps that move both sides as far."""
        if from_mean:
            self.memberships[:] = self._mean_x
            self._y[:] = self._mean_y
            self._a = self._mean_a
        if self._moved_x > 0.0 and self._moved_y > 0.0:
            balance = self._balance * (self._moved_y / self._moved_x) ** 0.25
            self._balance = min(max(balance, _BALANCE / _WITHIN), _BALANCE * _WITHIN)
        self._start_averages()

    def _start_averages(self) -> None:
        self._averaged = 0
        self._moved_x = self._moved_y = 0.0
        self._mean_a = self._a
        self._mean_x[:] = self.memberships
        self._mean_y[:] = self._y

    def _keep(self, a: Array, y: Array) -> float:
        """Return the bound of these, and keep them if it is the highest."""
        value = self._flows.bound(a, y)
        if value > self._value:
            self._value = value
            self._best.y[:] = y
            self._best = PottsDual(a, self._best.y)
        return value

    def _relaxed(self, x: Array) -> float:
        """Return the objective of memberships."""
        instance, A = self._instance, self._instance.adjacency

        def part(lo: int, hi: int) -> tuple[float, Array]:
            found: tuple[float, Array] = kernels.relaxed_value(
                lo, hi, A.indptr, A.indices, instance.weights, self._flows.costs, instance.eta,
                2.0 * instance.w, x,
            )  # fmt: skip
            return found

        parts = threads.map_rows(part, instance.n_nodes)
        totals = sum((s for _, s in parts), np.zeros(x.shape[1]))
        return (
            self._flows.constant + sum(p for p, _ in parts) + instance.wt * float(totals @ totals)
        )


def _centred(y: Array) -> Array:
    """Return flows with the middle of their range at zero; shape (E, K)."""
    middle = 0.5 * (y.max(axis=1, initial=-np.inf) + y.min(axis=1, initial=np.inf))
    return np.asarray(y - middle[:, None])
