"""A regularisation path, its stable range, and its plot."""

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

_SHADE, _LINE, _OTHER = "#cfe0ec", "#2f6f9f", "#b04a3a"


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
    """What a callback gets after every point.

    Attributes
    ----------
    done, total : int
        Number of visits so far, and in total.
    threshold, son : float
        The grid point.
    n_classes : int
        Number of classes found there.
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
        Number of classes at each grid point; 0 where the run was interrupted before.
    n_models : ndarray of shape (S, T)
        Number of different models of features among them: a sum of norms makes models equal
        where links may still separate classes.
    objective : ndarray of shape (S, T)
        φ at each grid point.
    labels : ndarray of shape (S, T, n), int32
        The class of every node, the largest class first; −1 where the run was interrupted before.
    n_atoms : int
        Maximum number of classes: where more than half of them are left, classes have broken up.
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
        """The widest range, on a log scale, with more than one class and none broken up.

        It runs over the thresholds, at the weight of the sum of norms where it is widest; over
        these weights if there is only one threshold. None if there is no such range.
        """
        along, over = self.along
        grid = self.n_classes if over is self.sons else self.n_classes.T
        ranges = [found for counts in grid for found in _constant(along, counts, self.n_atoms)]
        return max(ranges, key=_width, default=None)

    @property
    def along(self) -> tuple[Array, Array]:
        """The grid that the path runs along, and the one that it is repeated for."""
        if len(self.thresholds) == 1 < len(self.sons):
            return self.sons, self.thresholds
        return self.thresholds, self.sons

    def plot(self, path_or_ax: str | PathLike[str] | Axes | None = None) -> Axes:
        """Draw the number of classes as steps, the stable range shaded.

        Parameters
        ----------
        path_or_ax : path or Axes, optional
            File to write, or axes to draw on; by default new ones.
        """
        try:
            from matplotlib.axes import Axes
            from matplotlib.figure import Figure
        except ImportError:
            raise MissingExtraError("matplotlib", "plot") from None
        if isinstance(path_or_ax, Axes):
            _draw(self, path_or_ax)
            return path_or_ax
        if path_or_ax is None:
            from matplotlib import pyplot as plt

            _, axes = plt.subplots(figsize=(6.0, 3.6), layout="constrained")
            _draw(self, axes)
            return axes
        figure = Figure(figsize=(6.0, 3.6), layout="constrained")
        axes = figure.subplots()
        _draw(self, axes)
        with atomic_path(path_or_ax) as temporary:
            figure.savefig(temporary, dpi=150)
        return axes


def _constant(along: Array, counts: NDArray[np.int64], n_atoms: int) -> Iterator[Stable]:
    """Yield each range with the same number of classes, if that is neither one nor too many."""
    ends = np.flatnonzero(np.diff(counts)) + 1
    for stretch in np.split(np.arange(len(counts)), ends):
        value = int(counts[stretch[0]])
        if 1 < value <= n_atoms // 2:
            yield Stable(value, float(along[stretch[0]]), float(along[stretch[-1]]))


def _width(stable: Stable) -> float:
    return float(np.log(stable.hi / stable.lo)) if stable.lo > 0 else np.inf


def _draw(path: Path, axes: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    along, over = path.along
    by_threshold = along is path.thresholds
    grid = path.n_classes if by_threshold else path.n_classes.T
    name = "μ1" if by_threshold else "t"
    if not by_threshold and (path.n_models != path.n_classes).any():
        known = path.n_models[:, 0] > 0
        axes.step(
            along[known], path.n_models[known, 0], where="mid", color=_OTHER, lw=1.4, ls="--",
            label="different models",
        )  # fmt: skip
    shades = np.linspace(1.0, 0.35, len(over))
    for counts, fixed, shade in zip(grid, over, shades, strict=True):
        known = counts > 0
        axes.step(
            along[known], counts[known], where="mid", color=_LINE, alpha=shade, lw=1.8,
            marker="o", ms=3.0, label=f"classes at {name} = {fixed:.3g}",
        )  # fmt: skip
    stable = path.stable
    if stable is not None:
        axes.axvspan(stable.lo, stable.hi, color=_SHADE, lw=0, zorder=0)
        axes.annotate(
            f"{stable.value} classes", (np.sqrt(max(stable.lo, 1e-300) * stable.hi), 1.0),
            xycoords=("data", "axes fraction"), xytext=(0, -4), textcoords="offset points",
            ha="center", va="top",
        )  # fmt: skip
    if along.min() > 0 and len(along) > 1:
        axes.set_xscale("log")
    if path.n_classes.max() >= 16:
        axes.set_yscale("log", base=2)
        axes.yaxis.set_major_formatter("{x:g}")
    else:
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylim(0.85, 1.25 * max(2, int(path.n_classes.max())))
    axes.set_xlabel("threshold t" if by_threshold else "weight of the sum of norms μ1")
    axes.set_ylabel("number of classes")
    axes.spines[["top", "right"]].set_visible(False)
    if len(axes.get_lines()) > 1:
        axes.legend(frameon=False)
