"""A picture of accuracy over time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nodeproof.storage.atomic import atomic_path
from peers.summary import Line

# Colour-blind safe, dark enough on white; with the marker they tell twenty methods apart.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8c6d1f", "#56b4e9", "#666666")
_MARKERS = "osD^vP<>Xh"


def draw_scatter(lines: Sequence[Line], out: Path) -> None:
    """Draw accuracy over time, one panel per set; nothing if matplotlib is missing.

    Parameters
    ----------
    lines : sequence of Line
    out : path
        Of the pictures, without their suffixes .png and .svg.
    """
    try:
        import matplotlib as mpl
    except ImportError:
        print("matplotlib is not installed, so no picture is drawn; run: pip install matplotlib")
        return
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    drawn = [line for line in lines if line.n]
    names = list(dict.fromkeys(line.set_name for line in drawn))
    if not names:
        return
    methods = list(dict.fromkeys(line.method for line in drawn))
    columns = min(len(names), 2)
    rows = -(-len(names) // columns)
    size = (5.2 * columns, 3.6 * rows + 0.28 * -(-len(methods) // (2 * columns)) + 0.3)
    fig, axes = plt.subplots(
        rows, columns, figsize=size, squeeze=False, layout="constrained", dpi=150
    )
    for ax, name in zip(axes.flat, names, strict=False):
        for line in (line for line in drawn if line.set_name == name):
            _draw_point(ax, line, methods.index(line.method))
        ax.set(xscale="log", title=name, xlabel="seconds a fit", ylabel="test accuracy %")
        ax.grid(color="0.92")
        ax.set_axisbelow(True)
        ax.spines[["top", "right"]].set_visible(False)
    for ax in axes.flat[len(names) :]:
        ax.set_axis_off()
    entries: dict[str, Any] = {}
    for ax in axes.flat[: len(names)]:
        handles, labels = ax.get_legend_handles_labels()
        entries.update(zip(labels, handles, strict=True))
    entries = {name: entries[name] for name in methods}
    fig.legend(
        entries.values(), entries.keys(), loc="outside lower center", ncols=2 * columns,
        frameon=False, fontsize=8,
    )  # fmt: skip
    for suffix in ("png", "svg"):
        with atomic_path(out.with_name(f"{out.name}.{suffix}")) as path:
            fig.savefig(path)
    plt.close(fig)


def _draw_point(ax: Any, line: Line, place: int) -> None:
    own = line.method.startswith("nodeproof")
    mean, spread = line.figures["accuracy"]
    ax.errorbar(
        line.seconds,
        100 * mean,
        yerr=100 * spread if spread else None,
        color="black" if own else _COLOURS[place % len(_COLOURS)],
        marker="*" if own else _MARKERS[place % len(_MARKERS)],
        markersize=12 if own else 6,
        markerfacecolor="white" if "(validation)" in line.method else None,
        linestyle="none",
        linewidth=1,
        label=line.method,
        zorder=3 if own else 2,
    )
