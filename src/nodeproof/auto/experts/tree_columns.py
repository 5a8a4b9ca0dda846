"""What boosted trees are told of a node: its features, its surroundings, its neighbours' labels.

Columns of numbers instead of labels override `values_of`, `check_values`, `shares_of` and `told`.

Columns that depend on labels never hold a node's own. Those of its neighbours are counted as they
are, because a graph has no loops. Everything that reaches further (two hops, propagation,
regressions) would see a node's own label, or, with that subtracted, would tell it by what is
lacking: such columns are cross-fitted, that is, the labels of a whole fold are hidden from the
columns of its nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import solve

from nodeproof.auto.experts.base import NewNodes
from nodeproof.auto.experts.surroundings import FEW_LINKS, HOPS, Surroundings, divided, own_columns
from nodeproof.smoothing import Reduction
from nodeproof.storage.schema import Expected
from nodeproof.terms.logistic import assign_folds

__all__ = ["Columns"]

Array = NDArray[np.float64]
Rows = NDArray[np.float32]

# Of the regressions; features have length one.
_PENALTY = 1.0

# Folds of cross-fitted columns: fewer where the columns of all of them would be too large.
_FOLDS, _MOST_ENTRIES = 8, 2e7

# The restart and the steps of propagated labels.
_RESTART, _STEPS = 0.1, 10

# Arrays of a reduction.
_REDUCTION = ("shift", "scale", "directions")

# Arrays with one row per node.
_PER_NODE = ("few", "once", "degrees", "eigenvectors", "labels", "targets", "nearby", "spread")

# Steps in which new nodes that are linked among each other settle.
_SETTLING = 6


def _crossfit_scores(
    Z: Rows, targets: Array, train: NDArray[np.int64], folds: NDArray[np.int64]
) -> tuple[Rows, Rows]:
    """Return scores of all nodes, those of training rows by others' labels, and coefficients.

    Ridge regression: the sums over a fold are subtracted from those over all, which costs next to
    nothing.

    Returns
    -------
    scores : ndarray of shape (n, k)
    theta : ndarray of shape (r + 1, k)
        By all labels; the constant is the last.
    """
    Zt = np.hstack([Z[train], np.ones((len(train), 1), dtype=np.float32)]).astype(np.float64)
    products, sums = Zt.T @ Zt, Zt.T @ targets
    penalty = np.diag(np.append(np.full(Z.shape[1], _PENALTY), 1e-3))
    theta = solve(products + penalty, sums, assume_a="pos")
    scores = (Z @ theta[:-1].astype(np.float32) + theta[-1]).astype(np.float32)
    for fold in range(int(folds.max()) + 1):
        here = folds == fold
        hidden = Zt[here]
        without = products - hidden.T @ hidden + penalty
        others = solve(without, sums - hidden.T @ targets[here], assume_a="pos")
        scores[train[here]] = hidden @ others
    return scores, theta.astype(np.float32)


@dataclass(frozen=True)
class Columns:
    """What the trees are told of fitted nodes, and what is needed to tell it of new ones.

    Attributes
    ----------
    rows : ndarray of shape (n, d)
        The columns of fitted nodes; nan is what is not known. Empty if restored from a file.
    n_classes : int
        Number of classes.
    alpha : float
        Share of a node's own features in averaged ones.
    arrays : dict of ndarray
        What new nodes need, by name.
    """

    rows: Rows
    n_classes: int
    alpha: float
    arrays: dict[str, NDArray[Any]]

    @classmethod
    def of_labels(
        cls, around: Surroundings, y: NDArray[np.int64], train: NDArray[np.int64]
    ) -> Columns:
        """Return the columns for the labels seen, cross-fitted for the nodes to learn from.

        Parameters
        ----------
        y : ndarray of shape (n,)
            Labels 0…K−1, −1 where there is none.
        train : ndarray of shape (l,)
            Labelled nodes that the trees will learn from.
        """
        K = around.n_classes
        targets = np.eye(K)[y[train]]
        arrays = {} if around.graph is None else {"labels": np.where(y >= 0, y, K)}
        return cls.of_values(around, arrays, y[train], targets[:, 1:] if K == 2 else targets, train)

    @classmethod
    def of_values(
        cls,
        around: Surroundings,
        given: dict[str, NDArray[Any]],
        strata: NDArray[np.int64],
        targets: Array,
        train: NDArray[np.int64],
    ) -> Self:
        """Return the columns for values of any kind.

        Parameters
        ----------
        given : dict of ndarray
            What `values_of` makes values of.
        strata : ndarray of shape (l,)
            What is spread evenly over the folds.
        targets : ndarray of shape (l, k)
            What regressions learn.
        train : ndarray of shape (l,)
            Nodes that the trees will learn from.
        """
        n_folds = np.clip(_MOST_ENTRIES // (around.n_nodes * around.n_classes), 2, _FOLDS)
        folds = assign_folds(strata, int(min(n_folds, len(train))))
        tables, arrays = list(around.tables), dict(around.arrays) | given
        if around.graph is not None:
            values = cls.values_of(given, around.n_classes)
            found, kept = _label_columns(around, values, train, folds, cls)
            tables, arrays = tables + found, arrays | kept
        if around.regressors:
            fits = [_crossfit_scores(Z, targets, train, folds) for Z in around.regressors]
            tables += [scores for scores, _ in fits]
            arrays["coefficients"] = np.stack([theta for _, theta in fits])
            if around.graph is not None:
                thetas = arrays["coefficients"][1:, :-1]
                passed_on = zip(around.passed_on, thetas, strict=True)
                arrays["passed_on"] = np.stack([T @ theta for T, theta in passed_on])
        return cls(np.hstack(tables), around.n_classes, around.alpha, arrays)

    @staticmethod
    def values_of(arrays: Mapping[str, NDArray[Any]], n_classes: int) -> Rows:
        """Return what each node tells its neighbours: one-hot its label, else zeros, (n, K)."""
        return np.eye(n_classes + 1, n_classes, dtype=np.float32)[arrays["labels"]]

    @staticmethod
    def check_values(arrays: Mapping[str, NDArray[Any]], n_classes: int) -> None:
        """Raise a ValueError if what nodes have told cannot be."""
        labels = arrays["labels"]
        if not (labels.min(initial=0) >= 0 and labels.max(initial=0) <= n_classes):
            raise ValueError("the labels that the trees were told cannot be")
        if min(arrays[name].min(initial=0.0) for name in ("nearby", "spread")) < 0:
            raise ValueError("the mass of a class is negative")

    @staticmethod
    def shares_of(mass: NDArray[Any]) -> Rows:
        """Return each row divided by its sum, without the first of two classes, nan if it is 0."""
        shares = divided(mass, mass.sum(axis=1))
        return shares[:, 1:] if mass.shape[1] == 2 else shares

    @staticmethod
    def told(mass: NDArray[Any]) -> NDArray[Any]:
        """Return how many neighbours have told something, shape (n,)."""
        return np.asarray(mass.sum(axis=1))

    @classmethod
    def of_parts(
        cls, settings: Mapping[str, Any], arrays: dict[str, NDArray[Any]], n_classes: int
    ) -> Self:
        """Return what :meth:`to_parts` has taken apart, without rows.

        Raises
        ------
        ValueError
            If the numbers are not those of nodes and their links.
        """
        for name in {"coefficients", "passed_on"} & set(arrays):
            if arrays[name].shape[2] != (1 if n_classes == 2 else n_classes):
                raise ValueError("the regressions that the trees were told are of other classes")
        if settings["linked"]:
            cls.check_values(arrays, n_classes)
            if not (arrays["tau"] > 0 and (arrays["eigenvalues"] > 0).all()):
                raise ValueError("the positions that the trees were told cannot be")
            if arrays["degrees"].min(initial=0.0) < 0:
                raise ValueError("a degree is negative")
        rows = np.empty((0, settings["n_columns"]), dtype=np.float32)
        columns = cls(rows, n_classes, settings["alpha"], arrays)
        columns.of_new(_nobody(arrays))  # has as many columns
        return columns

    def to_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the settings and arrays that new nodes need."""
        settings = {
            "n_columns": self.n_columns,
            "alpha": self.alpha,
            "features": "coefficients" in self.arrays,
            "linked": "degrees" in self.arrays,
            "counts": "shift" not in self.arrays,
            "reduced": "directions" in self.arrays,
            "leading": "leading" in self.arrays,
        }
        return settings, dict(self.arrays)

    @staticmethod
    def layout(settings: Mapping[str, Any]) -> dict[str, Expected]:
        """Return which arrays :meth:`to_parts` has taken apart: e eigenvectors, f columns means."""
        linked, r = settings["linked"], "r{0}" if settings["reduced"] else "m"
        shapes: dict[str, str] = {}
        if settings["features"]:
            h = len(HOPS) if linked else 1
            shapes["coefficients"] = f"{h} {r}+1 1 | {h} {r}+1 K"
            shapes |= {} if settings["counts"] else {"shift": "m", "scale": "m"}
            shapes |= {"directions": f"m {r}"} if settings["reduced"] else {}
            few = "f{0}" if settings["leading"] else r
            shapes |= {"leading": f"{r} {few}"} if settings["leading"] else {}
            if linked:
                averaged = f"{few}+1" if settings["counts"] else few
                shapes |= {"few": f"n {averaged}", "once": f"n {averaged}"}
                shapes["passed_on"] = f"{h - 1} n 1 | {h - 1} n K"
        if linked:
            shapes |= {"degrees": "n", "tau": "", "eigenvalues": "e{0}", "eigenvectors": "n e{0}"}
            shapes |= {"nearby": "n K", "spread": "n K"}
        found = {name: Expected("f", shape, required=True) for name, shape in shapes.items()}
        return found | ({"labels": Expected("i", "n", required=True)} if linked else {})

    def reordered(self, position: NDArray[np.int64]) -> Self:
        """Return the same for reordered nodes; `position` is where each was before."""
        moved = {name: self.arrays[name][position] for name in _PER_NODE if name in self.arrays}
        if "passed_on" in self.arrays:
            moved["passed_on"] = self.arrays["passed_on"][:, position]
        return replace(self, rows=self.rows[position], arrays=self.arrays | moved)

    @property
    def n_columns(self) -> int:
        """How many columns there are."""
        return int(self.rows.shape[1])

    def of_new(self, new: NewNodes) -> Rows:
        """Return the columns of new nodes, shape (n_new, d), in the order of `rows`."""
        arrays, joined = self.arrays, _Joined(new)
        tables: list[Rows] = []
        base: Rows = np.zeros((new.links.shape[0], 0), dtype=np.float32)
        if "coefficients" in arrays:
            parts = {name: arrays[name] for name in _REDUCTION if name in arrays}
            reduction = Reduction.of_parts(parts)
            base = reduction.apply(new.X)
            own, few = own_columns(new.X, reduction, base, arrays.get("leading"))
            tables.append(own)
            if "few" in arrays:
                tables += joined.means(few, arrays["few"], arrays["once"], arrays["degrees"])
        if "degrees" in arrays:
            tables += self._of_links(joined)
        if "coefficients" in arrays:
            thetas = arrays["coefficients"]
            tables.append(base @ thetas[0, :-1] + thetas[0, -1])
            for at, hops in enumerate(HOPS[1 : len(thetas)]):
                theta = thetas[at + 1]
                tables.append(self._averaged(joined, hops, base @ theta[:-1], at) + theta[-1])
        rows = np.hstack(tables).astype(np.float32)
        if rows.shape[1] != self.n_columns:
            raise ValueError(
                f"{rows.shape[1]} columns of new nodes, {self.n_columns} of fitted ones"
            )
        return rows

    def _of_links(self, joined: _Joined) -> list[Rows]:
        """Return degrees, positions and neighbours' labels of new nodes."""
        arrays, K = self.arrays, self.n_classes
        degrees, values = joined.degrees, arrays["eigenvalues"]
        logs = np.log1p(degrees)[:, None]
        around = joined.with_weights(
            np.log1p(arrays["degrees"][joined.links.indices] + joined.links.data)
        )
        tables = [logs, divided(around + joined.among @ logs, degrees)]
        slope = 1.0 / np.outer(degrees + arrays["tau"], values)
        tables.append(joined.settle(arrays["eigenvectors"], slope))
        nearby = joined.links @ self.values_of(arrays, K)
        told = divided(self.told(nearby)[:, None], degrees)
        further = joined.links @ arrays["nearby"] + joined.among @ np.nan_to_num(
            divided(nearby, degrees)
        )
        slope = (1.0 - _RESTART) / np.maximum(degrees, 1e-12)[:, None]
        spread = joined.settle(arrays["spread"], slope)
        shares = [self.shares_of(mass) for mass in (nearby, further, spread)]
        return [*tables, shares[0], told, *shares[1:]]

    def _averaged(self, joined: _Joined, hops: int, own: Rows, at: int) -> Rows:
        """Return scores of new nodes by features averaged over hops, without the constant.

        See :meth:`nodeproof.terms.new_nodes.FittedSoftmax.sums`; neighbours are left as they are.
        """
        scale = 1.0 / np.sqrt(1.0 + joined.degrees)[:, None]
        fitted = self.arrays["passed_on"][at] / np.sqrt(1.0 + self.arrays["degrees"])[:, None]
        received = joined.links @ fitted
        rho = 1.0 - 1.0 / hops
        sums = np.zeros_like(own)
        for _ in range(_SETTLING):
            passed_on = own + rho * sums
            sums = scale * (received + joined.among @ (scale * passed_on) + scale * passed_on)
        return np.asarray(self.alpha * own + (1.0 - self.alpha) / hops * sums, dtype=np.float32)


def _nobody(arrays: Mapping[str, NDArray[Any]]) -> NewNodes:
    """Return a new node without links, all of whose features are zero."""
    X: Any = None
    if "coefficients" in arrays:
        n_features = len(arrays.get("directions", arrays["coefficients"][0, :-1]))
        X = np.zeros((1, n_features))
    n_nodes = len(arrays.get("degrees", ()))
    return NewNodes(X, sp.csr_array((1, n_nodes)), sp.csr_array((1, 1)))


class _Joined:
    """New nodes with their links."""

    def __init__(self, new: NewNodes) -> None:
        self.links, self.among = new.links, new.among
        sums = np.asarray(new.links.sum(axis=1)).ravel() + np.asarray(new.among.sum(axis=1)).ravel()
        self.degrees = np.asarray(sums, dtype=np.float64)

    def with_weights(self, factors: NDArray[Any]) -> Array:
        """Return the sum over the links to fitted nodes of their weights times these factors."""
        data = self.links.data * factors
        matrix = sp.csr_array((data, self.links.indices, self.links.indptr), self.links.shape)
        return np.asarray(matrix.sum(axis=1), dtype=np.float64).reshape(-1, 1)

    def means(self, own: Rows, few: Rows, once: Rows, degrees: Rows) -> list[Rows]:
        """Return means over one and two hops; fitted neighbours average the new node, too."""
        links = self.links
        first = divided(links @ few + self.among @ own, self.degrees)
        stays = degrees[links.indices] / (degrees[links.indices] + links.data)
        weakened = sp.csr_array((links.data * stays, links.indices, links.indptr), links.shape)
        echo = self.with_weights(1.0 - stays) * own
        second = weakened @ once + echo + self.among @ np.nan_to_num(first)
        return [first, divided(second, self.degrees)]

    def settle(self, fitted: NDArray[Any], slope: Array) -> Rows:
        """Return x with ``x = slope · (sum of neighbours)``, iterated a few times."""
        received = self.links @ fitted
        x = slope * received
        if self.among.nnz:
            for _ in range(_SETTLING):
                x = slope * (received + self.among @ x)
        return np.asarray(x, dtype=np.float32)


def _label_columns(
    around: Surroundings,
    values: Rows,
    train: NDArray[np.int64],
    folds: NDArray[np.int64],
    kind: type[Columns],
) -> tuple[list[Rows], dict[str, NDArray[Any]]]:
    """Return the columns that neighbours' labels make, and what new nodes need of them."""
    n = len(values)
    graph = around.graph
    assert graph is not None
    F = int(folds.max()) + 1
    # One block of columns per fold, with the labels of the fold hidden, and one with all labels.
    seen = np.repeat(values[:, None], F + 1, axis=1)
    seen[train, folds] = 0.0

    def step(M: Rows) -> Rows:
        return np.nan_to_num(around.mean(M.reshape(n, -1))).reshape(M.shape)

    def own_fold(M: Rows) -> Rows:
        picked = M[:, F].copy()
        picked[train] = M[train, folds]
        return picked

    once = step(seen)
    twice = step(once)
    spread = (1.0 - _RESTART) * once + _RESTART * seen
    for _ in range(_STEPS - 1 if graph.n_entries <= 2 * FEW_LINKS else 1):
        spread = (1.0 - _RESTART) * step(spread) + _RESTART * seen
    nearby = once[:, F]
    told = np.where(graph.degrees > 0, kind.told(nearby), np.nan)[:, None]
    shares = [kind.shares_of(M) for M in (nearby, own_fold(twice), own_fold(spread))]
    tables = [shares[0], told, *shares[1:]]
    kept = {"nearby": nearby, "spread": spread[:, F]}
    return [np.asarray(table, np.float32) for table in tables], kept
