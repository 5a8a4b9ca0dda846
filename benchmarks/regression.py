"""Numeric targets: `NodeRegressor` beside ridge, kNN regression and harmonic functions.

    python benchmarks/regression.py [--seeds 10] [--known 0.3] [--nodes 600]

Planted graphs link nodes that are near each other in a square that no method sees; features are
standard normal. Tables are those that scikit-learn brings along: diabetes, and columns of two
tables of classes that are predicted from the others; their graph is `graph="knn"`. The targets of
a share of the nodes, drawn at random, are known. Errors, coverage of the intervals and their mean
width are those of all other nodes; R² is of these, too. "Error at best" is that of the noise that
was added.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import spsolve
from sklearn import datasets
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from nodeproof import NodeRegressor, knn_graph

COVERAGE = 0.9

Array = NDArray[np.float64]


class Case(NamedTuple):
    """Features, links (None: nearest neighbours by the features), targets, noise that was added."""

    name: str
    X: Array
    links: Any
    target: Array
    noise: float | None = None


def planted(n: int, seed: int) -> Iterator[Case]:
    rng = np.random.default_rng(seed)
    place, X = rng.random((n, 2)), rng.normal(size=(n, 10))
    links = (knn_graph(place, k=8) > 0).astype(float)
    smooth = np.sin(4 * place[:, 0]) + np.cos(5 * place[:, 1])
    linear = X @ rng.normal(size=10) / np.sqrt(10)
    curved = np.abs(X[:, 0]) + X[:, 1] * X[:, 2]
    smooth, linear, curved = (
        (part - part.mean()) / part.std() for part in (smooth, linear, curved)
    )
    noise = 0.5 * rng.normal(size=n)
    # Three times the noise in one half of the square.
    uneven = noise * np.where(place[:, 0] < 0.5, 1.5, 0.5)
    yield Case("smooth over links", X, links, smooth + noise, 0.5)
    yield Case("linear in features", X, links, linear + noise, 0.5)
    yield Case("both", X, links, smooth + linear + noise, 0.5)
    yield Case("both, not linear", X, links, smooth + curved + noise, 0.5)
    yield Case("both, uneven noise", X, links, smooth + linear + uneven, float(np.sqrt(0.3125)))
    yield Case("noise alone", X, links, noise / 0.5, 1.0)


def tables() -> Iterator[Case]:
    diabetes = datasets.load_diabetes()
    yield Case("diabetes", diabetes.data, None, diabetes.target)
    for name, data, column in (
        ("wine: alcohol", datasets.load_wine(), "alcohol"),
        ("wine: proline", datasets.load_wine(), "proline"),
        ("breast cancer: worst smoothness", datasets.load_breast_cancer(), "worst smoothness"),
        ("breast cancer: mean texture", datasets.load_breast_cancer(), "mean texture"),
    ):
        at = list(data.feature_names).index(column)
        yield Case(name, np.delete(data.data, at, axis=1), None, data.data[:, at])


def ridge(case: Case, y: Array, links: Any) -> Array:
    known = ~np.isnan(y)
    model = make_pipeline(StandardScaler(), RidgeCV(np.geomspace(1e-3, 1e4, 22)))
    return np.asarray(model.fit(case.X[known], y[known]).predict(case.X))


def neighbours(case: Case, y: Array, links: Any) -> Array:
    known = ~np.isnan(y)
    model = make_pipeline(StandardScaler(), KNeighborsRegressor(weights="distance"))
    settings = {"kneighborsregressor__n_neighbors": [3, 5, 10, 20, 40]}
    found = GridSearchCV(model, settings, scoring="neg_mean_squared_error").fit(
        case.X[known], y[known]
    )
    return np.asarray(found.predict(case.X))


def harmonic(case: Case, y: Array, links: Any) -> Array:
    """Zhu, Ghahramani and Lafferty (2003); a trace of a link to the mean where no target is."""
    known = ~np.isnan(y)
    mean = y[known].mean()
    W = sp.csr_array(links)
    L = sp.diags_array(np.asarray(W.sum(axis=1)).ravel() + 1e-3) - W
    rest = ~known
    found = np.where(known, y - mean, 0.0)
    found[rest] = spsolve(sp.csc_array(L[rest][:, rest]), W[rest][:, known] @ found[known])
    return np.asarray(found + mean)


METHODS: dict[str, Callable[[Case, Array, Any], Array]] = {
    "ridge": ridge,
    "kNN regression": neighbours,
    "harmonic functions": harmonic,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--known", type=float, default=0.3)
    parser.add_argument("--nodes", type=int, default=600)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    found: dict[str, dict[str, list[list[float]]]] = {}
    at_best: dict[str, float | None] = {}
    for seed in range(given.seeds):
        for case in (*planted(given.nodes, seed), *tables()):
            rng = np.random.default_rng(1000 + seed)
            n = len(case.target)
            known = np.zeros(n, dtype=bool)
            known[rng.permutation(n)[: round(given.known * n)]] = True
            y = np.where(known, case.target, np.nan)
            links = case.links
            if links is None:
                links = knn_graph(StandardScaler().fit_transform(case.X))
            rows = found.setdefault(case.name, {})
            at_best[case.name] = case.noise
            for method, run in METHODS.items():
                rows.setdefault(method, []).append(_errors(case.target, run(case, y, links), known))
            graph = "knn" if case.links is None else case.links
            reg = NodeRegressor(random_state=seed).fit(case.X, y, graph=graph)
            low, high = reg.predict_interval(COVERAGE)[~known].T
            truth = case.target[~known]
            covered = float(((low <= truth) & (truth <= high)).mean())
            row = [
                *_errors(case.target, reg.predictions_, known),
                covered,
                float((high - low).mean()),
            ]
            rows.setdefault("nodeproof", []).append(row)
    print(f"{given.known:.0%} of the targets known, {given.seeds} seeds")
    print("| data | method | RMSE | R² | covered | width |\n|---|---|--:|--:|--:|--:|")
    for name, methods in found.items():
        for method, rows in methods.items():
            mean = np.mean(rows, axis=0)
            error = np.std([row[0] for row in rows]) / np.sqrt(len(rows))
            more = f"{mean[2]:.3f} | {mean[3]:.3g}" if len(mean) > 2 else "| "
            print(f"| {name} | {method} | {mean[0]:.4g} ± {error:.2g} | {mean[1]:.3f} | {more} |")
        if at_best[name] is not None:
            print(f"| {name} | error at best | {at_best[name]:.4g} | | | |")


def _errors(truth: Array, predictions: Array, known: NDArray[np.bool_]) -> list[float]:
    off, base = (truth - predictions)[~known], truth[~known] - truth[~known].mean()
    return [float(np.sqrt(np.mean(off**2))), float(1.0 - np.sum(off**2) / np.sum(base**2))]


if __name__ == "__main__":
    main()
