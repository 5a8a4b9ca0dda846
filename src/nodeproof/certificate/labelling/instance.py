"""The labelling problem for fixed models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from nodeproof import kernels
from nodeproof.affinity import Affinity
from nodeproof.certificate import audit
from nodeproof.csr import check_csr, unless_all_one
from nodeproof.errors import InputError
from nodeproof.graph import Graph
from nodeproof.problem import Models, Problem
from nodeproof.runtime import threads
from nodeproof.runtime.caching import cached_property

__all__ = ["Instance", "not_applicable"]

Array = NDArray[np.float64]

Labels = NDArray[np.int64]

# Moves must gain this much, relative to a node's costs, so that ties cannot cycle.
_GAIN = 1e-12
_SWEEPS = 1000

# Largest number in a file: sums of squares must stay finite. Its inverse is the least.
_LARGEST = 1e100


@dataclass(frozen=True)
class Instance:
    """Minimise ``P(z) = −Σ_{u≠v} B_uv 1[z_u = z_v] + Σ_v c[v, z_v]`` over labellings z.

    ``B = w·A − wt Σ_η ηηᵀ`` off the diagonal, and zero on it; never formed. Numbers are
    taken as exact: proofs are about their binary values. All arithmetic is in float64,
    whatever type they come in. Costs below 1e-100 are none.

    Attributes
    ----------
    adjacency : scipy.sparse.csr_array of shape (n, n)
        A: symmetric, zero diagonal, weights ≥ 0.
    eta : ndarray of shape (n,) or (n, R)
        η ≥ 0 of the null model, or of several.
    w, wt : float
        The gain of a link at each of its ends, and the cost of a pair.
    costs : ndarray of shape (n, K)
        The cost of each node in each class.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> from nodeproof.certificate.labelling.instance import Instance
    >>> pair = Instance(sp.csr_array([[0.0, 1.0], [1.0, 0.0]]), np.ones(2), 1.0, 0.5, np.eye(2))
    >>> pair.value(np.array([1, 0])), pair.value(np.array([0, 0]))  # apart; together
    (0.0, 0.0)
    """

    adjacency: sp.csr_array
    eta: Array
    w: float
    wt: float
    costs: Array

    def __post_init__(self) -> None:
        for name in ("eta", "costs"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=np.float64))
        tiny = (np.abs(self.costs) < 1.0 / _LARGEST) & (self.costs != 0.0)
        if tiny.any():  # the auditor would refuse them
            object.__setattr__(self, "costs", np.where(tiny, 0.0, self.costs))

    @classmethod
    def of(cls, problem: Problem, models: Models) -> Instance:
        """Return the labelling problem of a problem with these models.

        Each node's least cost is subtracted: that changes no labelling, only the objective, by
        the same for all.
        """
        if reason := not_applicable(problem, models):
            raise InputError(reason)
        n, K = problem.n_nodes, problem.n_classes

        def part(lo: int, hi: int) -> Array:
            costs = problem.costs(models, lo, hi) - models.log_prior
            return np.asarray(costs - costs.min(axis=1, keepdims=True))

        costs = np.concatenate(threads.map_rows(part, n)) if n else np.zeros((0, K))
        graph, affinity = problem.graph, models.affinity
        if graph is not None and graph.kinds and affinity is not None:
            return cls(*_of_kinds(graph, affinity), 1.0, 1.0, costs)
        if graph is None or affinity is None:
            return cls(sp.csr_array((n, n), dtype=np.float64), np.zeros(n), 0.0, 0.0, costs)
        w, wt = 0.5 * float(affinity.ell[0, 0]), 0.5 * float(affinity.ell_t[0, 0])
        return cls(graph.adjacency, graph.eta, w, wt, costs)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return it as named arrays, for files; no weights where all are one."""
        A = self.adjacency
        return {
            "indptr": A.indptr, "indices": A.indices, "weights": self.weights, "eta": self.eta,
            "costs": self.costs, "scales": np.array([self.w, self.wt]),
        }  # fmt: skip

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Instance:
        """Return the instance of named arrays.

        Raises
        ------
        ValueError
            If they are invalid: loops over links would read beyond the arrays.
        """
        n, _ = arrays["costs"].shape
        weights, indices, indptr = arrays["weights"], arrays["indices"], arrays["indptr"]
        if weights.dtype not in (np.float32, np.float64):  # kernels know no others
            weights = weights.astype(np.float64)
        if not len(weights):
            weights = np.ones(len(indices), dtype=np.float32)
        if indptr.dtype.kind != "i" or indices.dtype.kind != "i" or indptr.shape != (n + 1,):
            raise ValueError("invalid CSR structure of its links")
        if not indices.shape == weights.shape == (indptr[-1],):
            raise ValueError("its links and their weights do not fit together")
        A = sp.csr_array((weights, indices, indptr), shape=(n, n))
        check_csr(A)
        if not ((arrays["eta"] >= 0).all() and (weights > 0).all()):
            raise ValueError("invalid CSR structure of its links")
        for part in (weights, arrays["eta"], arrays["scales"], arrays["costs"]):
            if not float(np.abs(part).max(initial=0.0)) <= _LARGEST:
                raise ValueError("its links or costs are not finite, or too large")
        w, wt = (float(x) for x in arrays["scales"])
        return cls(A, arrays["eta"], w, wt, arrays["costs"])

    @cached_property
    def audited(self) -> audit.Problem:
        """The same problem, as the auditor knows it."""
        return audit.Problem(self.links, self.eta, self.w, self.wt, self.costs)

    @classmethod
    def of_audited(cls, problem: audit.Problem) -> Instance:
        """Return the same problem for the search."""
        return cls(problem.A, problem.eta, problem.w, problem.wt, problem.costs)

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.costs)

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return self.costs.shape[1]

    @cached_property
    def weights(self) -> NDArray[Any]:
        """The links' weights for kernels; none where all are one."""
        return unless_all_one(self.adjacency.data)

    @property
    def linked(self) -> bool:
        """Whether it matters which nodes are together."""
        return bool(self.w or self.wt)

    @cached_property
    def symmetric(self) -> bool:
        """Whether all classes cost every node the same, so that their names are arbitrary."""
        return bool((self.costs == self.costs[:, :1]).all())

    @cached_property
    def links(self) -> sp.csr_array:
        """A with weights in float64: scipy would convert them for every product."""
        return self.adjacency.astype(np.float64, copy=False)

    def times(self, X: Array) -> Array:
        """Return ``B X``, for X of shape (n, m)."""
        if self.several:
            null = self.eta @ (self.eta.T @ X) - (self.eta**2).sum(axis=1, keepdims=True) * X
            return np.asarray(self.w * (self.links @ X) - self.wt * null)
        eta = self.eta[:, None]
        null = eta * (self.eta @ X) - eta**2 * X
        return np.asarray(self.w * (self.links @ X) - self.wt * null)

    def absolute_times(self, X: Array) -> Array:
        """Return ``(|w|A + |wt|ηηᵀ + |wt|diag η²) X`` for X ≥ 0: the absolute sums of `times`."""
        if self.several:
            null = self.eta @ (self.eta.T @ X) + (self.eta**2).sum(axis=1, keepdims=True) * X
            return np.asarray(abs(self.w) * (self.links @ X) + abs(self.wt) * null)
        eta = self.eta[:, None]
        null = eta * (self.eta @ X) + eta**2 * X
        return np.asarray(abs(self.w) * (self.links @ X) + abs(self.wt) * null)

    def dense(self) -> Array:
        """Return B, shape (n, n)."""
        B = self.w * self.adjacency.toarray().astype(np.float64)
        if self.several:
            B -= self.wt * (self.eta @ self.eta.T)
        else:
            B -= np.outer(self.wt * self.eta, self.eta)
        np.fill_diagonal(B, 0.0)
        return np.asarray(B)

    def gains(self, z: Labels) -> Array:
        """Return ``H[v, i] = Σ_{u ∈ C_i, u ≠ v} B_uv``, shape (n, K)."""
        return self.times(np.eye(self.n_classes)[z])

    def value(self, z: Labels) -> float:
        """Return P(z), but for rounding."""
        A = self.links
        inside = np.repeat(z, np.diff(A.indptr)) == z[A.indices]
        totals = self.totals(z)
        null = float(np.vdot(totals, totals) - np.vdot(self.eta, self.eta))
        paid = float(self.costs[np.arange(len(z)), z].sum())
        return paid - self.w * float(A.data[inside].sum()) + self.wt * null

    @property
    def several(self) -> bool:
        """Whether there are several null models."""
        return self.eta.ndim > 1

    def totals(self, z: Labels) -> Array:
        """Return the sums of η over classes, shape (K,); of several null models, (R, K)."""
        if self.several:
            return np.asarray(self.eta.T @ np.eye(self.n_classes)[z])
        return np.asarray(np.bincount(z, weights=self.eta, minlength=self.n_classes), np.float64)

    def linearised(self, z: Labels) -> tuple[Instance, Array]:
        """Return the problem with tangents in place of all null models but the first, at z.

        No labelling costs more than before, and z costs the same.

        Returns
        -------
        Instance
            With one null model.
        ndarray of shape (R − 1, K)
            Where the tangents are: class totals of z.
        """
        a, rest = self.totals(z)[1:], self.eta[:, 1:]
        paid = self.wt * float(np.vdot(a, a) + np.vdot(rest, rest)) / max(self.n_nodes, 1)
        costs = self.costs + 2.0 * self.wt * (rest @ a) - paid
        return replace(self, eta=np.ascontiguousarray(self.eta[:, 0]), costs=costs), a

    def same_as(self, other: Instance) -> bool:
        """Return whether links and costs are the same, to the last bit."""
        mine, theirs = self.to_arrays(), other.to_arrays()
        return all(np.array_equal(mine[name], theirs[name]) for name in mine)

    @cached_property
    def span(self) -> float:
        """The size of the numbers that any objective can sum up."""
        dearest = float(np.abs(self.costs).max(axis=1).sum())
        links = float(self.adjacency.data.sum(dtype=np.float64))
        return (
            dearest + abs(self.w) * links + abs(self.wt) * float((self.eta.sum(axis=0) ** 2).sum())
        )

    def settle(self, z: Labels, max_rounds: int = 100) -> Labels:
        """Move single nodes and rename classes while that gains; return the labelling."""
        z = np.array(z, dtype=np.int64)
        A = self.adjacency
        for _ in range(max_rounds):
            settle = kernels.settle_several if self.several else kernels.settle
            settle(
                A.indptr, A.indices, self.weights, self.eta, self.costs, 2.0 * self.w,
                2.0 * self.wt, z, _SWEEPS, _GAIN,
            )  # fmt: skip
            renamed = self._rename(z)
            if renamed is None:
                break
            z = renamed
        return z

    def _rename(self, z: Labels) -> Labels | None:
        """Return the labelling with cheaper names for its classes, or None where there are none."""
        named = np.eye(self.n_classes)[z].T @ self.costs
        _, names = linear_sum_assignment(named)
        now = float(np.trace(named))
        cheapest = float(named[np.arange(len(named)), names].sum())
        if now - cheapest <= _GAIN * float(np.abs(named).max(initial=0.0)) * len(named):
            return None
        return np.asarray(names[z])


def _of_kinds(graph: Graph, affinity: Affinity) -> tuple[sp.csr_array, Array]:
    """Return links and null models of several kinds with w = wt = 1, as they add up."""
    n = graph.n_nodes
    total, null = sp.csr_array((n, n)), []
    for kind, ell, ell_t in zip(graph.kinds, affinity.ell, affinity.ell_t, strict=True):
        w, wt = 0.5 * float(ell[0, 0]), 0.5 * float(ell_t[0, 0])
        if w > 0.0:
            total = total + w * kind.undirected.adjacency.astype(np.float64)
        if wt > 0.0:
            null.append(np.sqrt(wt) * kind.undirected.eta)
    total = sp.csr_array(total)
    total.sort_indices()
    return total, np.stack(null, axis=1) if len(null) > 1 else [*null, np.zeros(n)][0]


def not_applicable(problem: Problem, models: Models) -> str | None:
    """Return why no labelling certificate exists for such a problem, or None."""
    affinity, graph = models.affinity, problem.graph
    if graph is not None and graph.directed and affinity is not None:
        return (
            "a certificate needs links without a direction; here links count from their source to "
            "their target, and the bound does not hold for them"
        )
    if graph is not None and graph.kinds and affinity is not None and affinity.ell.shape[-1] == 1:
        for kind, ell, ell_t in zip(graph.kinds, affinity.ell, affinity.ell_t, strict=True):
            if min(ell[0, 0], ell_t[0, 0]) < 0.0:
                return (
                    "a certificate of several kinds of links needs links that attract; here those "
                    f"of the kind {kind.name!r} repel, and the bound does not hold for them"
                )
    elif affinity is not None and affinity.ell.shape != (1, 1):
        return (
            "a certificate needs one affinity for all classes; here each two classes have their "
            "own (K × K), so links between classes count too, and the bound does not hold for them"
        )
    if problem.son:
        return (
            f"a certificate needs costs of single nodes; with son={problem.son:g} each pair of "
            "nodes pays for the distance of its models"
        )
    return None
