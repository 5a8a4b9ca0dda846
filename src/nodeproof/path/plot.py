"""How a path is drawn; needs matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

if TYPE_CHECKING:
    from nodeproof.path.result import Path

__all__ = ["draw_path"]

_SHADE, _LINE, _OTHER = "#cfe0ec", "#2f6f9f", "#b04a3a"


def draw_path(path: Path, axes: Axes) -> None:
    """Draw the number of classes as steps, the stable range shaded."""
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
