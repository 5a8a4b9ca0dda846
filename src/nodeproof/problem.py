"""The problem to solve, and the judge of every solution: φ, its gradients and F.

Everything here is computed in float64 from ``(W, models)`` alone, independently of any solver.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from nodeproof import kinds
from nodeproof.affinity import Affinity, charge_rows
from nodeproof.errors import InputError
from nodeproof.graph import Graph
from nodeproof.models import Models
from nodeproof.runtime import threads
from nodeproof.sum_of_norms import SumOfNorms
from nodeproof.sum_of_norms.centroids import fit_centroids
from nodeproof.terms.base import Term
from nodeproof.terms.checks import checked_costs, checked_models
from nodeproof.terms.summable import is_summable

__all__ = ["PAPER_WEIGHTS", "Models", "Problem"]

Array = NDArray[np.float64]

#: (β_g, β_f, β_l) of the paper's experiments
PAPER_WEIGHTS = (1.0, 2.5, 13.0)


class Problem:
    """A graph, terms for its nodes' features and labels, and the weights of all of them.

    With weights (β_g, β_f, β_l) the objective is the paper's,

        φ(W, θ) = −s Σ_{u≠v} (A − tN)_uv (√W√Wᵀ)_uv + Σ_k β_k Σ_v f_k(z_v; Σ_i W_vi θ_i),

    with ``s = 2β_g``: its polarised adjacency is t = 1/2, and with ``son`` the sum of norms
    ``μ1 Σ_{u<v} ‖θ_u − θ_v‖`` over the models ``θ_v = Σ_i W_vi θ_i`` of all terms together. With
    "calibrated" weights every part is a −log-likelihood, the graph's included, and the objective
    is the free energy F.

    Parameters
    ----------
    graph : Graph or None
        The graph with its null model; its kinds of links, if it has any, add up.
    terms : sequence of Term
        Bound terms.
    n_classes : int
        Number of classes (atoms) K.
    weights : "calibrated" or tuple of three floats
        How the graph, features and labels are weighted.
    threshold : float
        t of the fixed weights; calibrated ones estimate it.
    trust : float
        Factor of the calibrated evidence of the graph: 1 if links are independent given the
        classes, less if they are not, as in most real graphs.
    son : float
        μ1 ≥ 0, the weight of the sum of norms; fixed weights only.

    Examples
    --------
    >>> import numpy as np
    >>> from nodeproof import Problem
    >>> from nodeproof.graph import Graph
    >>> two_pairs = np.array([[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]])
    >>> problem = Problem(Graph(two_pairs), [], n_classes=2, weights=(1.0, 0.0, 0.0))
    >>> W = np.eye(2)[[0, 0, 1, 1]]
    >>> problem.value(W, problem.fit_models(W))  # two pairs linked: −s·(1 − t)·4
    -4.0
    """

    def __init__(
        self,
        graph: Graph | None,
        terms: Sequence[Term],
        n_classes: int,
        weights: tuple[float, float, float] | Literal["calibrated"] = "calibrated",
        threshold: float = 0.5,
        trust: float = 1.0,
        son: float = 0.0,
    ) -> None:
        sizes = {term.n_nodes for term in terms}
        if graph is not None:
            sizes.add(graph.n_nodes)
        if len(sizes) != 1:
            raise InputError(
                "a problem needs a graph or a term"
                if not sizes
                else f"graph and terms must have the same nodes; got sizes {sorted(sizes)}"
            )
        for term in terms:
            if term.n_classes != n_classes:
                raise InputError(f"{term!r} has {term.n_classes} classes, the problem {n_classes}")
        if weights != "calibrated" and (isinstance(weights, str) or len(weights) != 3):
            named = "'calibrated' or three numbers (β_g, β_f, β_l)"
            raise InputError(f"weights must be {named}, got {weights!r}")
        if not isinstance(weights, str) and not all(0 <= weight < np.inf for weight in weights):
            raise InputError(f"weights (β_g, β_f, β_l) must be numbers ≥ 0, got {weights!r}")
        if not 0 <= trust < np.inf:
            raise InputError(f"trust in the graph must be a number ≥ 0, got {trust!r}")
        if not 0 <= son < np.inf:
            raise InputError(f"son must be a finite number ≥ 0, got {son!r}")
        if graph is not None and graph.directed and weights != "calibrated":
            raise InputError("links count with their direction only with calibrated weights")
        if son and weights == "calibrated":
            raise InputError(
                f"son={son} needs fixed weights: the sum of norms belongs to the paper's "
                "objective, give weights=(β_g, β_f, β_l)"
            )
        self.graph, self.terms = graph, tuple(terms)
        self.n_nodes, self.n_classes = sizes.pop(), n_classes
        self.weights, self.threshold, self.trust = weights, threshold, trust
        self.son = float(son)

    @property
    def calibrated(self) -> bool:
        """Whether all parts are likelihoods, re-estimated from W."""
        return self.weights == "calibrated"

    @property
    def directed(self) -> bool:
        """Whether links count with their direction: affinities are K×K then."""
        return self.graph is not None and self.graph.directed

    def _kinds(self) -> Sequence[Graph]:
        """Return the kinds of links, or the graph if there is one; they add up."""
        if self.graph is None:
            return ()
        return [kind.undirected for kind in self.graph.kinds] or [self.graph]

    def _betas(self) -> dict[str, float]:
        if isinstance(self.weights, str):
            raise InputError(
                "φ needs fixed weights: build the problem with weights=(β_g, β_f, β_l), "
                f"for example the paper's {PAPER_WEIGHTS}"
            )
        return dict(zip(("graph", "features", "labels"), self.weights, strict=True))

    @property
    def term_weights(self) -> tuple[float, ...]:
        """β of each term, fixed weights only."""
        betas = self._betas()
        return tuple(betas[term.source] for term in self.terms)

    def _norms(self, models: Models) -> SumOfNorms | None:
        return SumOfNorms(models.terms, self.son) if self.son and self.terms else None

    @property
    def scale(self) -> float:
        """``s = 2β_g``, fixed weights only."""
        return 2.0 * self._betas()["graph"]

    def value(self, W: NDArray[Any], models: Models) -> float:
        """Return φ(W, models)."""
        W = np.asarray(W, dtype=np.float64)
        total = sum(kind.phi(W, self.scale, self.threshold) for kind in self._kinds())
        for beta, term, theta in zip(self.term_weights, self.terms, models.terms, strict=True):
            if beta:
                total += beta * term.value(W, theta)
        if norms := self._norms(models):
            total += norms.value(W)
        return float(total)

    def gradient_W(self, W: NDArray[Any], models: Models) -> Array:
        """Return ∂φ/∂W, shape (n, K); infinite or nan where the graph's root is at 0.

        Norms of nodes that coincide count with the subgradient 0.
        """
        gradient = self.value_and_gradient_terms(W, models)[1]
        if self.graph and self.scale:
            W = np.asarray(W, dtype=np.float64)
            for kind in self._kinds():
                gradient += kind.phi_gradient(W, self.scale, self.threshold)
        return gradient

    def value_and_gradient_terms(self, W: NDArray[Any], models: Models) -> tuple[float, Array]:
        """Return the part of φ that is not about links, and its derivative ∂/∂W, shape (n, K)."""
        W = np.asarray(W, dtype=np.float64)
        total, gradient = 0.0, np.zeros(W.shape)
        for beta, term, theta in zip(self.term_weights, self.terms, models.terms, strict=True):
            if beta:
                value, slopes = term.value_and_gradient_W(W, theta)
                total += beta * value
                gradient += beta * slopes
        if norms := self._norms(models):
            total += norms.value(W)
            gradient += norms.gradient_W(W)
        return total, gradient

    def gradient_models(self, W: NDArray[Any], models: Models) -> tuple[Array, ...]:
        """Return ∂φ/∂θ for each term, each of shape (K, ...)."""
        W = np.asarray(W, dtype=np.float64)
        gradients = tuple(
            beta * term.gradient_models(W, theta)
            for beta, term, theta in zip(self.term_weights, self.terms, models.terms, strict=True)
        )
        if norms := self._norms(models):
            pulls = norms.gradient_models(W)
            gradients = tuple(own + pull for own, pull in zip(gradients, pulls, strict=True))
        return gradients

    # F, the free energy.
    def fit_models(self, W: NDArray[Any], matrix: bool = False) -> Models:
        """Return the best models for W: likeliest when calibrated, else of least loss.

        Parameters
        ----------
        W : ndarray of shape (n, K)
            Memberships: rows on the simplex.
        matrix : bool
            Estimate K×K affinities instead of one pair.
        """
        return self._fit_models(W, self._masses(W, matrix and self.calibrated))

    def _fit_models(self, W: NDArray[Any], masses: tuple[Array, Array] | None) -> Models:
        affinity, terms = self._affinity(masses), self.fit_terms(W)
        if not self.calibrated:
            return Models(affinity, terms, np.zeros(self.n_classes))
        sizes = threads.sum_rows(lambda lo, hi: W[lo:hi].sum(axis=0, dtype=np.float64), len(W))
        return Models(affinity, terms, self.fit_log_prior(sizes))

    def _affinity(self, masses: tuple[Array, Array] | None) -> Affinity | None:
        if not self.calibrated:
            return self.fixed_affinity()
        return self.fit_affinity(*masses) if masses else None

    @property
    def links_count(self) -> bool:
        """Whether links say anything: fixed weights know no trust in them."""
        return self.graph is not None and not (self.calibrated and self.trust == 0)

    def fixed_affinity(self) -> Affinity | None:
        """Return the affinity of fixed weights; None without a graph."""
        if self.graph is None:
            return None
        one = Affinity.fixed(self.scale, self.threshold)
        return kinds.stacked([one] * len(self.graph.kinds), 1) if self.graph.kinds else one

    def fit_affinity(self, links: Array, pairs: Array) -> Affinity:
        """Return the affinities, times the trust in the graph, given the masses of the classes."""
        assert self.graph is not None
        return kinds.estimate(self.graph, links, pairs).times(self.trust)

    def _masses(self, W: NDArray[Any], matrix: bool) -> tuple[Array, Array] | None:
        if self.graph is None:
            return None
        matrix = matrix or self.directed
        return kinds.link_mass(self.graph, W, matrix), kinds.pair_mass(self.graph, W, matrix)

    def fit_terms(
        self, W: NDArray[Any], kept: tuple[Array, ...] | None = None, tol: float = 1e-8
    ) -> tuple[Array, ...]:
        """Return the class models of every term, given W.

        Parameters
        ----------
        kept : tuple of ndarray, optional
            Models to keep for terms that are only refitted once memberships have converged. With a
            sum of norms, the start; the result is no worse.
        tol : float
            Relative gap to which a sum of norms is solved.
        """
        if self.son:
            return fit_centroids(self.terms, self.term_weights, self.son, W, kept, tol).models
        if not self.calibrated:
            return tuple(checked_models(term, term.refit(W), "refit") for term in self.terms)
        return tuple(
            checked_models(term, term.estimate(W), "estimate")
            if kept is None or term.rounds is None
            else kept[k]
            for k, term in enumerate(self.terms)
        )

    def terms_from(self, sums: Sequence[Array]) -> tuple[Array, ...]:
        """Return the class models, given the sums over all nodes that each term needs."""
        found = []
        for term, own in zip(self.terms, sums, strict=True):
            assert is_summable(term)
            found.append(checked_models(term, term.estimate_from(own), "estimate"))
        return tuple(found)

    @property
    def rounds(self) -> int:
        """How often to refit terms that are only fitted once memberships have converged."""
        return max((term.rounds or 0 for term in self.terms), default=0) if self.calibrated else 0

    def fit_log_prior(self, sizes: Array) -> Array:
        """Return the log proportions of classes of these sizes, one node added to each.

        Zeros if a term models them already.
        """
        if any(term.discriminative for term in self.terms):
            return np.zeros(self.n_classes)
        sizes = 1.0 + sizes
        return np.asarray(np.log(sizes / sizes.sum()))

    def costs(self, models: Models, lo: int, hi: int, skip: Collection[int] = ()) -> Array:
        """Return the terms' costs of nodes lo…hi in each class, shape (hi − lo, K).

        Parameters
        ----------
        skip : collection of int
            Positions of terms to leave out.
        """
        total: Array | None = None
        for _, costs in self.costs_by_term(models, lo, hi, skip):
            total = costs if total is None else total + costs
        return np.zeros((hi - lo, self.n_classes)) if total is None else total

    def charge(
        self, out: Array, models: Models, lo: int, hi: int, skip: Collection[int] = ()
    ) -> None:
        """Write what `costs` returns into an existing array."""
        first = next((k for k in range(len(self.terms)) if k not in skip), None)
        if first is None or not self.calibrated:
            out[:] = self.costs(models, lo, hi, skip)
            return
        self.terms[first].cost_into(out, models.terms[first], lo, hi)
        for _, costs in self.costs_by_term(models, lo, hi, {*skip, first}):
            out += costs

    def costs_by_term(
        self, models: Models, lo: int, hi: int, skip: Collection[int] = ()
    ) -> Iterator[tuple[Term, Array]]:
        """Yield each term of non-zero weight, with its costs of shape (hi − lo, K)."""
        betas = None if self.calibrated else self._betas()
        for k, (term, theta) in enumerate(zip(self.terms, models.terms, strict=True)):
            if k in skip:
                continue
            if betas is None:
                yield term, checked_costs(term, term.cost(theta, lo, hi), lo, hi, "cost")
            elif betas[term.source]:
                yield term, betas[term.source] * term.vertex_costs(theta, lo, hi)

    def pull(self, models: Models) -> Array | None:
        """Return ``μ1 ‖θ_i − θ_j‖``, the cost of each pair of nodes of two classes, shape (K, K).

        None without a sum of norms.
        """
        norms = self._norms(models)
        return None if norms is None else self.son * norms.distances

    def free_energy(self, W: NDArray[Any], models: Models, temperature: float = 1.0) -> float:
        """Return F(W), with normalisers and priors, so that any two fits can be compared.

        On one-hot rows with fixed weights it equals φ. The sum of norms counts there as
        ``μ1 Σ_{i<j} (N_i N_j − Σ_v W_vi W_vj) ‖θ_i − θ_j‖``, N_i = Σ_v W_vi, which is no less
        than that of the mixtures.
        """
        matrix = models.affinity is not None and models.affinity.ell.shape[-2:] != (1, 1)
        return self._free_energy(W, models, temperature, self._masses(W, matrix))

    def _free_energy(
        self,
        W: NDArray[Any],
        models: Models,
        temperature: float,
        masses: tuple[Array, Array] | None,
    ) -> float:
        total = self.row_energy(W, models, temperature)
        if masses is not None and models.affinity is not None:
            total += models.affinity.energy(*masses)
        return total

    def row_energy(self, W: NDArray[Any], models: Models, temperature: float = 1.0) -> float:
        """Return the free energy without the links: memberships, terms, priors."""

        def part(lo: int, hi: int) -> Array:
            costs = self.costs(models, lo, hi)
            return np.array([charge_rows(W[lo:hi], costs, models.log_prior, temperature)])

        total = float(threads.sum_rows(part, self.n_nodes)[0])
        if norms := self._norms(models):
            total += norms.energy(W)
        return total + self.penalty(models)

    def penalty(self, models: Models) -> float:
        """Return the free energy of the class models alone; 0 for fixed weights."""
        if not self.calibrated:
            return 0.0
        penalties = [term.penalty(m) for term, m in zip(self.terms, models.terms, strict=True)]
        return float(sum(penalties)) - float(models.log_prior.sum())

    def fit_and_judge(
        self, W: NDArray[Any], temperature: float = 1.0, matrix: bool = False
    ) -> tuple[Models, float]:
        """Return the best models for W and the free energy there, in one pass over the links."""
        masses = self._masses(W, matrix and self.calibrated)
        models = self._fit_models(W, masses)
        return models, self._free_energy(W, models, temperature, masses)

    @property
    def labels(self) -> NDArray[np.int64] | None:
        """The given labels, shape (n,), −1 where there is none; None without a label term."""
        return next((term.labels for term in self.terms if term.labels is not None), None)
