"""Ridge regression on features: a node's own, or averaged over links."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from nodeproof.regression.experts import LearntNumbers, NumberExpert
from nodeproof.regression.held_out import HeldTargets
from nodeproof.smoothing import Smoothing
from nodeproof.storage.schema import Check, Expected, count, number, one_of
from nodeproof.terms import NewNodes, NodeData
from nodeproof.terms.new_nodes import FittedSoftmax

__all__ = ["OwnFeatures", "SmoothedFeatures"]

Array = NDArray[np.float64]

# Rows have length one on average.
_PENALTIES = np.geomspace(1e-5, 1e3, 17)

# Those that are tried where each costs more.
_FEW = [6, 9, 11, 13]


@dataclass(frozen=True)
class LearntRidge(LearntNumbers):
    """A linear function of features, as `FittedSoftmax` reduces and averages those of new nodes."""

    predictions: Array
    fitted: FittedSoftmax

    @property
    def needs_features(self) -> bool:
        """Whether `judge` looks at the features of new nodes."""
        return True

    def judge(self, new: NewNodes) -> Array:
        """Return predictions for new nodes, shape (n_new,)."""
        theta = self.fitted.coefficients[0]
        return np.asarray(self.fitted.rows(new) @ theta[:-1] + theta[-1])

    def reordered(self, position: NDArray[np.int64]) -> LearntRidge:
        """Return the same for reordered nodes."""
        return LearntRidge(self.predictions[position], self.fitted.reordered(position))

    def to_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the settings and arrays that `judge` needs."""
        return self.fitted.to_parts()


class OwnFeatures(NumberExpert):
    """Ridge regression on a node's own features."""

    name: ClassVar[str] = "features"
    about: ClassVar[str] = "own features, by ridge regression"
    hops: ClassVar[tuple[int, ...]] = (0,)
    kept_settings: ClassVar[Mapping[str, Check]] = {
        "hops": count,
        "alpha": number,
        "of": one_of("features"),
    }

    def why_not(self, nodes: NodeData, n_targets: int) -> str | None:
        """Return why it does not apply."""
        return None if nodes.smoothing is not None else "there are no features"

    def held_out(self, nodes: NodeData, held: HeldTargets) -> dict[Any, Array]:
        """Return predictions by hops and penalty."""
        found: dict[Any, Array] = {}
        for hops in self.hops:
            Z = _rows(nodes, hops)[held.nodes].astype(np.float64)
            predicted = np.empty((len(Z), len(_PENALTIES)))
            for fold in range(held.n_folds):
                here = held.folds == fold
                theta = _path(Z[~here], held.targets[~here])
                predicted[here] = Z[here] @ theta[:-1] + theta[-1]
            found |= {(hops, k): predicted[:, k] for k in range(len(_PENALTIES))}
        return found

    def folds(self, nodes: NodeData, held: HeldTargets) -> dict[int, Array]:
        """Return, by a few penalties, what the regression of each fold says, shape (F, h)."""
        Z = _rows(nodes, 0)[held.nodes].astype(np.float64)
        found = np.empty((len(_FEW), held.n_folds, len(Z)))
        for fold in range(held.n_folds):
            seen = held.folds != fold
            theta = _path(Z[seen], held.targets[seen])[:, _FEW]
            found[:, fold] = (Z @ theta[:-1] + theta[-1]).T
        return dict(zip(_FEW, found, strict=True))

    def learn(self, nodes: NodeData, held: HeldTargets, setting: Any) -> LearntRidge:
        """Return the regression on all targets."""
        hops, k = setting
        Z, smoothing = _rows(nodes, hops), nodes.smoothing
        assert smoothing is not None
        theta = _path(Z[held.nodes].astype(np.float64), held.targets)[:, k]
        fitted = FittedSoftmax(
            smoothing.reduction,
            theta[None, :],
            hops,
            smoothing.alpha,
            smoothing.lagged(hops) if hops else None,
            smoothing.normaliser if hops else None,
        )
        return LearntRidge(Z @ theta[:-1] + theta[-1], fitted)

    def describe(self, setting: Any) -> str:
        """Return a setting in words."""
        return f"penalty {_PENALTIES[setting[1]]:.2g}"

    @classmethod
    def kept_layout(cls, settings: Mapping[str, Any]) -> Mapping[str, Expected]:
        """Return which arrays are saved: of r columns."""
        r = "r{0}"
        found = {"coefficients": f"1 {r}+1", "directions": f"m {r}", "shift": "m", "scale": "m"}
        found |= {"lagged": f"n {r}", "normaliser": "n"} if settings["hops"] else {}
        required = ("coefficients", "lagged", "normaliser")
        return {name: Expected("f", shape, name in required) for name, shape in found.items()}

    @classmethod
    def restored(
        cls, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> LearntRidge:
        """Return the regression from its saved parts."""
        width = arrays["coefficients"].shape[1] - 1
        if "directions" not in arrays and len(arrays.get("shift", range(width))) != width:
            raise ValueError("the coefficients of a regression are not those of its features")
        return LearntRidge(np.empty(0), FittedSoftmax.of_parts(settings, arrays, None))


class SmoothedFeatures(OwnFeatures):
    """Ridge regression on features averaged over hops."""

    name: ClassVar[str] = "smoothed"
    about: ClassVar[str] = "features averaged over links, by ridge regression"
    hops: ClassVar[tuple[int, ...]] = (1, 2, 4, 8)

    def why_not(self, nodes: NodeData, n_targets: int) -> str | None:
        """Return why it does not apply."""
        if nodes.graph is None or not nodes.graph.n_entries:
            return "there are no links"
        return super().why_not(nodes, n_targets)

    def describe(self, setting: Any) -> str:
        """Return a setting in words."""
        hops = setting[0]
        return f"{hops} hop{'s' if hops > 1 else ''}, {super().describe(setting)}"


def _rows(nodes: NodeData, hops: int) -> NDArray[np.float32]:
    smoothing: Smoothing | None = nodes.smoothing
    assert smoothing is not None
    return smoothing.over(hops)


def _path(Z: Array, t: Array) -> Array:
    """Return the ridge regressions of targets on rows, for all penalties, shape (r + 1, p).

    The last row holds constants, which are not penalised.

    Parameters
    ----------
    Z : ndarray of shape (l, r)
        Rows.
    t : ndarray of shape (l,)
        Targets.
    """
    middle, mean = Z.mean(axis=0), t.mean()
    centred, rest = Z - middle, t - mean
    # In whichever of the two spaces is smaller.
    by_rows = len(Z) < Z.shape[1]
    products = centred @ centred.T if by_rows else centred.T @ centred
    values, vectors = np.linalg.eigh(products)
    values = np.maximum(values, 0.0)
    told = vectors.T @ (rest if by_rows else centred.T @ rest)
    slopes = vectors @ (told[:, None] / (values[:, None] + _PENALTIES))
    if by_rows:
        slopes = centred.T @ slopes
    return np.vstack([slopes, mean - middle @ slopes])
