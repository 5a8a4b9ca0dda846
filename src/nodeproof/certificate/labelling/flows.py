"""The variables of the Potts bound, and the costs of nodes after flows along links.

The formulas are in `potts`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodeproof import kernels
from nodeproof.certificate.labelling.instance import Instance
from nodeproof.errors import InputError
from nodeproof.runtime import threads

__all__ = ["FlowCosts", "PottsDual", "has_potts_bound"]

Array = NDArray[np.float64]
Labels = NDArray[np.int64]


def has_potts_bound(instance: Instance) -> bool:
    """Tell whether the bound holds: it needs w ≥ 0 and wt ≥ 0."""
    return instance.w >= 0.0 and instance.wt >= 0.0


@dataclass(frozen=True)
class PottsDual:
    """What a Potts bound is computed from.

    Attributes
    ----------
    a : ndarray of shape (K,), or (R, K) of several null models
        Where the squares of the class totals have their tangents.
    y : ndarray of shape (E, K)
        The flow over each link (u, v), u < v, in row-major order of the upper triangle.
    """

    a: Array
    y: Array

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return it as the arrays that the auditor reads."""
        return {"a": self.a, "y": self.y}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> PottsDual:
        """Return the dual of named arrays."""
        return cls(arrays["a"], arrays["y"])

    def restrict(self, instance: Instance, labels: Labels, fixed: NDArray[np.bool_]) -> PottsDual:
        """Return the dual of what is left when some nodes keep their label.

        Parameters
        ----------
        instance : Instance
            The problem of all nodes.
        labels : array of int, shape (n,)
            A labelling; only those of fixed nodes count.
        fixed : array of bool, shape (n,)
            The nodes that are left out; their links are costs of the others then.
        """
        A = instance.adjacency
        loose = ~fixed

        def is_kept(lo: int, hi: int) -> NDArray[np.bool_]:
            first = np.repeat(np.arange(lo, hi), np.diff(A.indptr[lo : hi + 1]))
            second = A.indices[A.indptr[lo] : A.indptr[hi]]
            both = loose[first] & loose[second]
            return np.asarray(both[first < second])

        kept = np.concatenate([np.zeros(0, bool), *threads.map_rows(is_kept, len(loose))])
        eta, own = instance.eta[fixed], labels[fixed]
        if instance.several:
            return PottsDual(self.a - eta.T @ np.eye(instance.n_classes)[own], self.y[kept])
        gone = np.bincount(own, weights=eta, minlength=instance.n_classes)
        return PottsDual(self.a - gone, self.y[kept])


class FlowCosts:
    """The bound and the reduced costs of a labelling problem, for any a and y.

    Parameters
    ----------
    instance : Instance
        The labelling problem; w ≥ 0 and wt ≥ 0.
    open_labels : array of bool, shape (n, K), optional
        Labels that nodes may have, at least one each; by default all.

    Attributes
    ----------
    costs : ndarray of shape (n, K)
        The costs of labels, inf where they are closed.
    link_of : ndarray of int
        The number of the link of each entry of the adjacency matrix.
    constant : float
        What every labelling pays: ``−Σ_e c_e − wt·Σ_v η_v²``.
    """

    def __init__(self, instance: Instance, open_labels: NDArray[np.bool_] | None = None) -> None:
        if not has_potts_bound(instance):
            raise InputError("the Potts bound needs links that attract (w ≥ 0) and wt ≥ 0")
        self._instance = instance
        self.costs = instance.costs
        if open_labels is not None:
            self.costs = np.where(open_labels, instance.costs, np.inf)
        A, eta = instance.adjacency, instance.eta
        self.link_of = np.empty(A.nnz, dtype=np.int32 if A.nnz < 2**32 else np.int64)
        kernels.number_links(A.indptr, A.indices, self.link_of)
        self.constant = -instance.w * float(A.sum(dtype=np.float64))
        self.constant -= instance.wt * float(eta @ eta)

    def bound(self, a: Array, y: Array) -> float:
        """Return the bound for flows that no link is too cheap for."""
        tangent = self.constant - self._instance.wt * float(a @ a)
        return tangent + self._least(a, y, np.empty((0, len(a))))

    def reduced(self, dual: PottsDual) -> Array:
        """Return what each label costs above the cheapest of its node, shape (n, K)."""
        out = np.empty(self.costs.shape)
        self._least(dual.a, dual.y, out)
        return out

    def _least(self, a: Array, y: Array, out: Array) -> float:
        """Return ``Σ_v min_i b'_v(i)``, and write the reduced costs where there is room."""
        instance, A = self._instance, self._instance.adjacency
        slope = 2.0 * instance.wt * a

        def part(lo: int, hi: int) -> float:
            least: float = kernels.reduce_costs(
                lo, hi, A.indptr, A.indices, self.link_of, self.costs, instance.eta, slope, y, out
            )
            return least

        return float(sum(threads.map_rows(part, instance.n_nodes)))
