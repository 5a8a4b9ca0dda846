"""Assumptions 1 to 5 of the paper, measured on a problem and a labelling."""

from __future__ import annotations

from dataclasses import dataclass
from unicodedata import combining

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nodeproof.errors import InputError
from nodeproof.problem import PAPER_WEIGHTS, Problem
from nodeproof.theory.links import LinkAssumptions, measure_links
from nodeproof.theory.models import ModelAssumptions, measure_models

__all__ = ["Assumptions", "measure"]


@dataclass(frozen=True)
class Assumptions:
    """What the paper's recovery theorem assumes, in numbers.

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
        """Return all of it in lines: what it is, the number, what it means."""
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
    >>> from nodeproof import Problem, theory
    >>> from nodeproof.datasets import make_planted
    >>> from nodeproof.graph import Graph
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
            "the theory speaks of fixed weights: build the problem with "
            f"weights=(β_g, β_f, β_l), for example the paper's {PAPER_WEIGHTS}"
        )
    given = np.asarray(labels)
    if given.shape != (problem.n_nodes,) or not np.issubdtype(given.dtype, np.integer):
        raise InputError(
            f"labels must be {problem.n_nodes} integers, one a node; got shape {given.shape} of "
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
        measure_links(graph, z, t, 2.0 * beta) if graph is not None and beta > 0 else None,
        measure_models(problem, z),
    )


def _span(values: NDArray[np.generic]) -> str:
    """Return the least and the largest of some numbers, or the one that they all are."""
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
        ("γ n_i/n − ρ_i", f"{a.spread:.4g}", "what nodes alone need, ≥ 0"),
        ("gap of the centroids", f"{a.gaps.max():.2g}", ""),
    ]
