"""Assumptions 1 to 5 of the paper, measured on a problem and a labelling.

Assumptions 4 and 5, on the models, are measured in `models`; 1 to 3, on the links, here. With
``m_ij`` the share of the pairs between classes i and j that are linked and ``d_vj`` the links of
node v to class j, let

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
from unicodedata import combining

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nodeproof.errors import InputError
from nodeproof.graph import Graph
from nodeproof.paper.theory import centred
from nodeproof.paper.theory.models import ModelAssumptions, measure_models
from nodeproof.problem import PAPER_WEIGHTS, Problem

__all__ = ["Assumptions", "LinkAssumptions", "measure"]

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


def _measure_links(graph: Graph, z: NDArray[np.int64], t: float, scale: float) -> LinkAssumptions:
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


@dataclass(frozen=True)
class Assumptions:
    """The assumptions of the paper's recovery theorem, in numbers.

    Attributes
    ----------
    n_nodes : int
        n.
    classes : ndarray of shape (K,)
        The classes of the labelling that have nodes; everything else is in their order.
    sizes : ndarray of shape (K,)
        n_i.
    links : LinkAssumptions or None
        Assumptions 1 to 3: homogeneity, visibility, noise. None without a graph.
    models : ModelAssumptions or None
        Assumptions 4 and 5: separability, variability. None without a weighted term.
    """

    n_nodes: int
    classes: NDArray[np.int64]
    sizes: NDArray[np.int64]
    links: LinkAssumptions | None
    models: ModelAssumptions | None

    def table(self) -> str:
        """Return a table with one line per quantity: its name, its value, what it means."""
        lines = [("nodes", f"{self.n_nodes:,}", f"in {len(self.sizes)} classes")]
        lines.append(("n_i", _span(self.sizes), f"√n = {np.sqrt(self.n_nodes):.4g}"))
        if self.links is not None:
            lines += _link_lines(self.links)
        if self.models is not None:
            lines += _model_lines(self.models)
        # A tilde on a B takes no room of its own.
        widths = [22 + sum(combining(letter) > 0 for letter in name) for name, _, _ in lines]
        return "\n".join(
            f"{name:<{width}}{value:>20}  {word}".rstrip()
            for width, (name, value, word) in zip(widths, lines, strict=True)
        )

    def __str__(self) -> str:
        return self.table()


def measure(problem: Problem, labels: ArrayLike, threshold: float | None = None) -> Assumptions:
    """Measure Assumptions 1 to 5 of the paper on a problem and a labelling.

    Parameters
    ----------
    problem : Problem
        With fixed weights (β_g, β_f, β_l); `son` is μ1.
    labels : array of shape (n,)
        A class for every node, 0, 1, …; classes without nodes are left out.
    threshold : float, optional
        t ≥ 0; by default the problem's.

    Examples
    --------
    >>> from nodeproof import Problem
    >>> from nodeproof.datasets import make_planted
    >>> from nodeproof.graph import Graph
    >>> from nodeproof.paper import theory
    >>> data = make_planted(2, cluster_size=50, p=0.9, q=0.1, random_state=0)
    >>> problem = Problem(Graph(data.graph), [], 2, weights=(1.0, 0.0, 0.0))
    >>> print(theory.measure(problem, data.y_true))
    nodes                                  100  in 2 classes
    n_i                                     50  √n = 10
    t, s                                0.5, 2
    density inside               0.8864…0.8872
    density across                      0.0984
    δ (homogeneity)                     0.1216
    1/2 − δ − ρ⁺                        0.2648  visibility as printed, > 0
    p − 2δ − κ/n_i − t                 0.06185  visibility inside, ≥ 0
    t − q − 2δ                          0.1584  visibility across, ≥ 0
    κ                                    4.067
    ‖Ã_i‖/√n_i                    0.6332…0.708
    ‖Ã^i‖/√n                     0.4477…0.5006
    ‖B̃_i‖/√n                            0.4333
    """
    if isinstance(problem.weights, str):
        raise InputError(
            "the theory is about fixed weights: build the problem with "
            f"weights=(β_g, β_f, β_l), for example the paper's {PAPER_WEIGHTS}"
        )
    given = np.asarray(labels)
    if given.shape != (problem.n_nodes,) or not np.issubdtype(given.dtype, np.integer):
        raise InputError(
            f"labels must be {problem.n_nodes} integers, one per node; got shape {given.shape} of "
            f"{given.dtype}"
        )
    if (given < 0).any():
        v = int(np.flatnonzero(given < 0)[0])
        raise InputError(f"the theory needs a class for every node; that of node {v} is {given[v]}")
    t = problem.threshold if threshold is None else threshold
    if not 0 <= t < np.inf:
        raise InputError(f"threshold must be a number ≥ 0, got {t}")
    classes, z = np.unique(given, return_inverse=True)
    graph, beta = problem.graph, float(problem.weights[0])
    return Assumptions(
        problem.n_nodes,
        classes.astype(np.int64),
        np.bincount(z),
        _measure_links(graph, z, t, 2.0 * beta) if graph is not None and beta > 0 else None,
        measure_models(problem, z),
    )


def _span(values: NDArray[np.generic]) -> str:
    """Return the smallest and the largest of some numbers, or their common value."""
    form = ",d" if np.issubdtype(values.dtype, np.integer) else ".4g"
    lo, hi = (f"{value:{form}}" for value in (values.min(), values.max()))
    return lo if lo == hi else f"{lo}…{hi}"


def _link_lines(a: LinkAssumptions) -> list[tuple[str, str, str]]:
    apart = ~np.eye(len(a.sizes), dtype=bool)
    inside, outside, between = a.ratios
    proof = "" if a.exact else "by Lanczos iterations: not proven"
    lines = [
        ("t, s", f"{a.threshold:.4g}, {a.scale:.4g}", ""),
        ("density inside", _span(np.diag(a.density)), ""),
    ]
    if apart.any():
        lines.append(("density across", _span(a.density[apart]), ""))
    return [
        *lines,
        ("δ (homogeneity)", f"{a.delta:.4g}", ""),
        ("1/2 − δ − ρ⁺", f"{a.visibility:.4g}", "visibility as printed, > 0"),
        ("p − 2δ − κ/n_i − t", f"{a.visibility_inside:.4g}", "visibility inside, ≥ 0"),
        ("t − q − 2δ", f"{a.visibility_across:.4g}", "visibility across, ≥ 0"),
        ("κ", f"{a.noise:.4g}", proof),
        ("‖Ã_i‖/√n_i", _span(inside), proof),
        ("‖Ã^i‖/√n", _span(outside), proof),
        ("‖B̃_i‖/√n", _span(between), proof),
    ]


def _model_lines(a: ModelAssumptions) -> list[tuple[str, str, str]]:
    equal = "" if a.distinct else "some centroids are equal"
    exact = "" if a.rho_lower == a.rho else f"an upper bound; at least {a.rho_lower:.4g}"
    return [
        ("μ, μ1", f"{a.mu:.4g}, {a.son:.4g}", ""),
        ("γ = nμ1/μ", f"{a.gamma:.4g}", ""),
        ("R (separability)", f"{a.R:.4g}", equal),
        ("ρ (variability)", f"{a.rho:.4g}", exact),
        ("γ n_i/n − ρ_i", f"{a.spread:.4g}", "needed by nodes alone, ≥ 0"),
        ("gap of the centroids", f"{a.gaps.max():.2g}", ""),
    ]
