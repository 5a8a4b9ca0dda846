"""What speaks for the class of a node: sources, neighbours and features."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof.app.labels import LabelState
from nodeproof.fitted import Fitted
from nodeproof.graph import Graph
from nodeproof.node_evidence import graph_totals, node_evidence
from nodeproof.report.map_data import links_of
from nodeproof.runtime.caching import cached_property

__all__ = ["Nodes"]

# The most neighbours and features that are listed.
_MOST_NEIGHBOURS, _MOST_FEATURES = 14, 8

# Rows that means and spreads of features are taken from.
_ROWS = 20_000


class Nodes:
    """Evidence on single nodes of one fit; what all of them need is computed once.

    Parameters
    ----------
    fitted : Fitted
        With its data, or as loaded from a file: then evidence is there for some nodes only.
    """

    def __init__(self, fitted: Fitted) -> None:
        self.fitted = fitted
        self.proba = np.ascontiguousarray(fitted.proba, dtype=np.float32)

    @cached_property
    def graph(self) -> Graph | None:
        """The links, if there are any."""
        return None if self.fitted.data is None else self.fitted.data.nodes.graph

    @cached_property
    def links(self) -> Any:
        """The links as a sparse matrix, or None."""
        return links_of(self.fitted)

    @cached_property
    def _totals(self) -> Any:
        data = self.fitted.data
        if data is None or data.problem.graph is None:
            return None
        return graph_totals(data.problem, self.proba)

    def describe(self, row: int, labels: LabelState) -> dict[str, Any]:
        """Return what a page shows about a node, ready for JSON."""
        fitted = self.fitted
        proba = self.proba[row].astype(np.float64)
        given = -1 if fitted.given is None else int(fitted.given[row])
        return {
            "row": row,
            "name": str(labels.names[row]),
            "proba": [round(p, 5) for p in proba.tolist()],
            "given": given,
            "label": int(labels.codes[row]),
            "reviewed": bool(labels.looked[row]),
            "evidence": self._evidence(row),
            "neighbours": self._neighbours(row, labels),
            "features": self._features(row),
        }

    def _evidence(self, row: int) -> dict[str, list[float]] | None:
        """Return what each source adds to the score of each class, in nats, on average 0."""
        fitted = self.fitted
        if fitted.data is not None:
            found = node_evidence(
                fitted.data.problem, self.proba, fitted.models, self._totals, row, row + 1
            )
            scores = {source: part[0] for source, part in found.items()}
        elif (findings := fitted.saved_findings) is not None and row in findings.nodes:
            at = int(np.searchsorted(findings.nodes, row))
            scores = {source: part[at] for source, part in findings.evidence.items()}
        else:
            return None
        return {
            source: [round(float(score), 2) for score in part - part.mean()]
            for source, part in scores.items()
        }

    def _neighbours(self, row: int, labels: LabelState) -> dict[str, Any] | None:
        A = self.links
        if A is None:
            return None
        lo, hi = int(A.indptr[row]), int(A.indptr[row + 1])
        others = np.asarray(A.indices[lo:hi], dtype=np.int64)
        weights = np.asarray(A.data[lo:hi], dtype=np.float64)
        others, weights = others[others != row], weights[others != row]
        best = self.proba[others].argmax(axis=1)
        top = self.proba[others].max(axis=1, initial=0.0)
        per_class = np.bincount(best, minlength=self.proba.shape[1])
        # The strongest links first, then labelled nodes, then the most certain ones.
        order = np.lexsort((-top, labels.codes[others] < 0, -weights))[:_MOST_NEIGHBOURS]
        weighted = len(weights) > 0 and float(np.ptp(weights)) > 0
        return {
            "count": len(others),
            "classes": per_class.tolist(),
            "weighted": weighted,
            "list": [
                {
                    "row": int(others[k]),
                    "name": str(labels.names[others[k]]),
                    "code": int(best[k]),
                    "p": round(float(top[k]), 4),
                    "label": int(labels.codes[others[k]]),
                    "weight": round(float(weights[k]), 4),
                }
                for k in order.tolist()
            ],
        }

    @cached_property
    def _spread(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Mean and standard deviation of each feature, shape (m,)."""
        X = self._X
        step = -(-X.shape[0] // _ROWS)
        rows = X[::step]
        rows = rows.toarray() if sp.issparse(rows) and X.shape[1] <= 512 else rows
        if sp.issparse(rows):
            mean = np.asarray(rows.mean(axis=0)).ravel()
            square = np.asarray(rows.multiply(rows).mean(axis=0)).ravel()
            return mean, np.sqrt(np.maximum(square - mean**2, 0.0))
        rows = np.asarray(rows, dtype=np.float64)
        known = np.isfinite(rows)
        count = np.maximum(known.sum(axis=0), 1)
        mean = np.where(known, rows, 0.0).sum(axis=0) / count
        return mean, np.sqrt(np.where(known, (rows - mean) ** 2, 0.0).sum(axis=0) / count)

    @property
    def _X(self) -> Any:
        return None if self.fitted.data is None else self.fitted.data.nodes.X

    def _features(self, row: int) -> list[dict[str, Any]] | None:
        """Return the features of a node that stand out, in standard deviations from the mean."""
        if self._X is None:
            return None
        values = self._X[[row]]
        values = (values.toarray() if sp.issparse(values) else np.asarray(values))[0]
        mean, spread = self._spread
        away = np.divide(values - mean, spread, out=np.zeros(len(mean)), where=spread > 0)
        away = np.nan_to_num(away)
        if sp.issparse(self._X):
            away = np.where(values != 0, away, 0.0)  # what is absent does not stand out
        order = np.argsort(-np.abs(away), kind="stable")[:_MOST_FEATURES]
        unit = self.fitted.unit
        if unit is not None:
            values = values * unit.scale + unit.shift
        names = self.fitted.feature_names
        return [
            {
                "name": f"feature {k}" if names is None else str(names[k]),
                "value": float(f"{float(values[k]):.4g}"),
                "away": round(float(away[k]), 2),
            }
            for k in order.tolist()
            if away[k] != 0
        ]
