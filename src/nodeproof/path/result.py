"""What a path is, and what is told on the way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nodeproof.errors import MissingExtraError
from nodeproof.solvers import Status
from nodeproof.storage.atomic import atomic_path

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Path", "Point", "Stable"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Stable:
    """A range over which the number of classes does not change.

    Attributes
    ----------
    value : int
        The number of classes.
    lo, hi : float
        The first and the last threshold (or weight of the sum of norms) that gives it.
    """

    value: int
    lo: float
    hi: float


@dataclass(frozen=True)
class Point:
    """What a callback is told after every point.

    Attributes
    ----------
    done, total : int
        Visits to points so far, of how many.
    threshold, son : float
        Where it lies.
    n_classes : int
        How many classes were found there.
    """

    done: int
    total: int
    threshold: float
    son: float
    n_classes: int


@dataclass(frozen=True)
class Path:
    """Numbers of classes over a grid of thresholds and weights of the sum of norms.

    Attributes
    ----------
    thresholds : ndarray of shape (T,)
        Increasing.
    sons : ndarray of shape (S,)
        Increasing.
    n_classes : ndarray of shape (S, T)
        How many classes there are at each point; 0 where an interrupt came first.
    n_models : ndarray of shape (S, T)
        How many of them differ in their model of features: a sum of norms makes models equal
        where links may still tell classes apart.
    objective : ndarray of shape (S, T)
        φ there.
    labels : ndarray of shape (S, T, n), int32
        The class of every node, the largest class first; −1 where an interrupt came first.
    n_atoms : int
        The most classes there can be: where more than half of them are left, classes have fallen
        apart.
    status : Status
        How it ended.
    """

    thresholds: Array
    sons: Array
    n_classes: NDArray[np.int64]
    n_models: NDArray[np.int64]
    objective: Array
    labels: NDArray[np.int32]
    n_atoms: int
    status: Status

    @property
    def stable(self) -> Stable | None:
        """The widest range, on a log scale, with more than one class that have not fallen apart.

        It runs over the thresholds, at the weight of the sum of norms where it is widest; over
        these weights where there is one threshold only. None if there is none.
        """
        along, over = self.along
        grid = self.n_classes if over is self.sons else self.n_classes.T
        ranges = [found for counts in grid for found in _constant(along, counts, self.n_atoms)]
        return max(ranges, key=_width, default=None)

    @property
    def along(self) -> tuple[Array, Array]:
        """What the path runs along, and what it is repeated for."""
        if len(self.thresholds) == 1 < len(self.sons):
            return self.sons, self.thresholds
        return self.thresholds, self.sons

    def plot(self, path_or_ax: str | PathLike[str] | Axes | None = None) -> Axes:
        """Draw the number of classes as steps, the stable range shaded.

        Parameters
        ----------
        path_or_ax : path or Axes, optional
            A file to write, or axes to draw in; by default new ones.
        """
        try:
            from matplotlib.axes import Axes
            from matplotlib.figure import Figure

            from nodeproof.path.plot import draw_path
        except ImportError:
            raise MissingExtraError("matplotlib", "plot") from None
        if isinstance(path_or_ax, Axes):
            draw_path(self, path_or_ax)
            return path_or_ax
        if path_or_ax is None:
            from matplotlib import pyplot as plt

            _, axes = plt.subplots(figsize=(6.0, 3.6), layout="constrained")
            draw_path(self, axes)
            return axes
        figure = Figure(figsize=(6.0, 3.6), layout="constrained")
        axes = figure.subplots()
        draw_path(self, axes)
        with atomic_path(path_or_ax) as temporary:
            figure.savefig(temporary, dpi=150)
        return axes


def _constant(along: Array, counts: NDArray[np.int64], n_atoms: int) -> Iterator[Stable]:
    """Yield each stretch with the same number of classes, if it is neither one nor too many."""
    ends = np.flatnonzero(np.diff(counts)) + 1
    for stretch in np.split(np.arange(len(counts)), ends):
        value = int(counts[stretch[0]])
        if 1 < value <= n_atoms // 2:
            yield Stable(value, float(along[stretch[0]]), float(along[stretch[-1]]))


def _width(stable: Stable) -> float:
    return float(np.log(stable.hi / stable.lo)) if stable.lo > 0 else np.inf
