"""What Assumptions 1 to 3 say of a graph and a labelling, in numbers.

With ``m_ij`` the share of the pairs between classes i and j that are linked and ``d_vj`` the links
of node v to class j, let

    x_uv = d_uj/n_j + d_vi/n_i − m_ij,    u ∈ C_i, v ∈ C_j.

The certificate of the paper's proof is ``Z = P⊥(S − λI)P⊥``, where S is ``s(A − J)`` inside
classes and ``s·r_ij·A`` across them. P⊥ takes away the class means, so that

    Z_uv = s·r_ij·(A_uv − x_uv) + λ/n_i·[i = j],    r_ii = 1,

off the diagonal, and the links cancel from ``Z − B``, B = s(A − tN), inside classes. What is
needed is ``Z_uv ≤ B_uv`` inside, ``Z_uv ≥ B_uv`` across and ``Z ⪯ 0``:

    x_uv ≥ tN_uv + λ/(s·n_i) inside,    x_uv ≤ tN_uv across,    λ ≥ s·κ,

with ``r_ij = (a − tN)/(a − x)`` at the worst of the block, a the largest weight of a link, and κ
the largest eigenvalue of ``P⊥(r∘A)P⊥``. As ``|x_uv − m_ij| ≤ 2δ``, this follows from

    q + 2δ ≤ t ≤ p − 2δ − λ/(s·n_i).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nodeproof.graph import Graph
from nodeproof.theory import centred

__all__ = ["LinkAssumptions", "measure_links"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class LinkAssumptions:
    """Assumptions 1 to 3, measured.

    Attributes
    ----------
    threshold, scale : float
        t and s: links are worth ``s(A − tN)``; the paper's are 1/2 and 2.
    sizes : ndarray of shape (K,)
        n_i.
    links : ndarray of shape (K, K)
        N_ij, ordered pairs.
    density : ndarray of shape (K, K)
        ``m_ij = N_ij/(n_i n_j)``; a node and itself count as a pair without a link.
    missed : ndarray of shape (n, K)
        n⁺_vj: links that v should not have to class j or, if it is its own, that it should have.
    rho_plus : ndarray of shape (K, K)
        ρ⁺_ij, the mean of ``n⁺_vj/n_j`` over class i.
    delta : float
        The least δ for which Assumption 1 (homogeneity) holds.
    lowest : ndarray of shape (K,)
        The least x_uv of two nodes of a class; infinite for one node.
    highest : ndarray of shape (K, K)
        The largest x_uv of two nodes of two classes; −∞ on the diagonal.
    needed : ndarray of shape (K,)
        The largest tN_uv inside each class.
    allowed : ndarray of shape (K, K)
        The least tN_uv of two classes.
    norms_inside, norms_outside, norms_between : ndarray of shape (K,)
        Operator norms of Assumption 3: of Ã_i, Ã^i and B̃_i.
    discount : ndarray of shape (K, K)
        r_ij.
    noise : float
        κ, the largest eigenvalue of ``P⊥(r∘A)P⊥``, at least 0.
    noise_inside : ndarray of shape (K,)
        The same for the links inside each class alone.
    largest_weight : float
        Of a link.
    exact : bool
        Whether κ is an upper bound for certain, from all eigenvalues. For large graphs norms and
        κ come from Lanczos iterations, which find them but do not prove them.
    """

    threshold: float
    scale: float
    sizes: NDArray[np.int64]
    links: Array
    density: Array
    missed: Array
    rho_plus: Array
    delta: float
    lowest: Array
    highest: Array
    needed: Array
    allowed: Array
    norms_inside: Array
    norms_outside: Array
    norms_between: Array
    discount: Array
    noise: float
    noise_inside: Array
    largest_weight: float
    exact: bool

    @property
    def visibility(self) -> float:
        """``1/2 − δ − max ρ⁺``: above 0, Assumption 2 holds as printed, with the δ above."""
        return 0.5 - self.delta - float(self.rho_plus.max())

    @property
    def visibility_inside(self) -> float:
        """``min_i p_i − 2δ − κ/n_i − t``, with the largest tN inside: Assumption 2 corrected."""
        own = np.diag(self.density) - 2 * self.delta - self.noise / self.sizes - self.needed
        return float(own.min())

    @property
    def visibility_across(self) -> float:
        """``t − q − 2δ`` at the worst pair of classes; infinite for one class."""
        apart = ~np.eye(len(self.sizes), dtype=bool)
        return float((self.allowed - self.density - 2 * self.delta)[apart].min(initial=np.inf))

    @property
    def room(self) -> float:
        """``min_i n_i (x − tN)``: the largest λ/s that the signs inside classes leave."""
        most = self.largest_weight * float(self.sizes.sum())  # also where no class has two nodes
        return float((self.sizes * (self.lowest - self.needed)).min(initial=most))

    @property
    def inside(self) -> float:
        """``min_i min_uv x_uv − tN_uv − κ/n_i``: what is left of the signs inside classes."""
        return float((self.lowest - self.needed - self.noise / self.sizes).min())

    @property
    def across(self) -> float:
        """``min_uv tN_uv − x_uv`` across classes; infinite for one class."""
        return float((self.allowed - self.highest).min())

    @property
    def ratios(self) -> tuple[Array, Array, Array]:
        """The norms over √n_i, √n and √n, which Assumption 3 takes as bounded."""
        whole = np.sqrt(self.sizes.sum())
        return (
            self.norms_inside / np.sqrt(self.sizes),
            self.norms_outside / whole,
            self.norms_between / whole,
        )


def measure_links(graph: Graph, z: NDArray[np.int64], t: float, scale: float) -> LinkAssumptions:
    """Measure Assumptions 1 to 3; z holds 0…K−1, every one of them."""
    n, K = len(z), int(z.max()) + 1
    sizes = np.bincount(z, minlength=K)
    one_hot = np.zeros((n, K))
    one_hot[np.arange(n), z] = 1.0
    links_to = np.asarray(graph.adjacency @ one_hot, dtype=np.float64)
    links = one_hot.T @ links_to
    density = links / np.outer(sizes, sizes)
    missed = np.where(one_hot > 0, sizes - links_to, links_to)
    rho_plus = (one_hot.T @ missed) / np.outer(sizes, sizes)
    shares = links_to / sizes
    delta = float(np.abs(missed / sizes - rho_plus[z]).max())

    top = np.stack([shares[z == i].max(axis=0) for i in range(K)])
    highest = top + top.T - density
    np.fill_diagonal(highest, -np.inf)
    lowest = np.array([_two_least(shares[z == i, i]) for i in range(K)]) - np.diag(density)
    least_eta = np.array([graph.eta[z == i].min() for i in range(K)])
    needed = np.array([_two_largest(graph.eta[z == i]) for i in range(K)]) * t
    allowed = t * np.outer(least_eta, least_eta)

    largest = float(graph.adjacency.data.max(initial=0.0)) or 1.0
    with np.errstate(divide="ignore", invalid="ignore"):
        discount = np.clip((largest - allowed) / (largest - highest), 0.0, 1.0)
    # Signs that fail across classes fail with any r; 1 keeps the certificate the paper's.
    discount[(highest > allowed) | ~np.isfinite(discount)] = 1.0
    np.fill_diagonal(discount, 1.0)
    noise, exact = centred.noise(graph.adjacency, z, discount)
    inside = [np.flatnonzero(z == i) for i in range(K)]
    noise_inside = [
        centred.noise(graph.adjacency[at][:, at], 0 * at, np.ones((1, 1))) for at in inside
    ]
    norms = centred.block_norms(graph.adjacency, z, density)
    return LinkAssumptions(
        threshold=float(t),
        scale=float(scale),
        sizes=sizes,
        links=links,
        density=density,
        missed=missed,
        rho_plus=rho_plus,
        delta=delta,
        lowest=lowest,
        highest=highest,
        needed=needed,
        allowed=allowed,
        norms_inside=norms[0],
        norms_outside=norms[1],
        norms_between=norms[2],
        discount=discount,
        noise=noise,
        noise_inside=np.array([largest for largest, _ in noise_inside]),
        largest_weight=largest,
        exact=exact,
    )


def _two_least(values: Array) -> float:
    """Return the sum of the two least values; infinite where there is one."""
    return float(np.partition(values, 1)[:2].sum()) if len(values) > 1 else np.inf


def _two_largest(values: Array) -> float:
    """Return the product of the two largest values, which are not negative."""
    return float(np.prod(np.sort(values)[-2:])) if len(values) > 1 else 0.0
