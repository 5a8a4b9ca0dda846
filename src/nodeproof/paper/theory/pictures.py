"""The margins of Theorem 1's conditions as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nodeproof.paper.theory.verdicts import NAMES, Verdict, number

__all__ = ["draw_margins"]

_HOLDS, _FAILS, _GREY = "#2f6f9f", "#c0392b", "#8794a3"

# Margins below this are drawn on a linear scale, others on a logarithmic one.
_LINEAR = 0.01


def draw_margins(ax: Any, parts: Sequence[tuple[str, Verdict]]) -> Any:
    """Draw one row per condition: where its margin is right of zero, it holds.

    Parameters
    ----------
    ax : matplotlib Axes
    parts : sequence of (title, verdict)
        The parts of the theorem, from top to bottom.
    """
    place, ticks, names = 0.0, [], []
    finite = [
        abs(margin)
        for _, verdict in parts
        for margin in (*verdict.printed.values(), *verdict.corrected.values())
        if np.isfinite(margin)
    ]
    end = 3.0 * max([1.0, *finite])
    for title, verdict in parts:
        ax.text(0.0, place, title, transform=ax.get_yaxis_transform(), va="center", weight="bold")
        place += 1.0
        for version, conditions in (
            ("printed", verdict.printed),
            ("corrected", verdict.corrected),
        ):
            failing = verdict.failing("printed" if version == "printed" else "corrected")
            for name, margin in conditions.items():
                colour = _FAILS if name in failing else _HOLDS
                at = float(np.clip(margin, -end, end))
                marker = "o" if version == "printed" else "D"
                ax.plot([0.0, at], [place, place], color=colour, lw=1.2, alpha=0.6)
                ax.plot(at, place, marker, color=colour, ms=6)
                ax.annotate(number(margin), (at, place), (7 if at >= 0 else -7, 0),
                            textcoords="offset points", va="center", fontsize="x-small",
                            ha="left" if at >= 0 else "right")  # fmt: skip
                ticks.append(place)
                names.append(f"{NAMES[name]}, {version}")
                place += 1.0
        place += 0.4
    ax.axvline(0.0, color=_GREY, lw=1.0, zorder=0)
    ax.set_xscale("symlog", linthresh=_LINEAR)
    ax.set(xlim=(-8 * end, 8 * end), ylim=(place - 0.4, -0.8))
    ax.set_yticks(ticks, names, fontsize="small")
    sizes = [0.01 * 100.0**k for k in range(8) if 0.01 * 100.0**k < 8 * end]
    marks = [*(-size for size in reversed(sizes)), 0.0, *sizes]
    ax.set_xticks(marks, [number(mark) for mark in marks], fontsize="small")
    ax.minorticks_off()
    ax.set_xlabel("margin, each in its own unit: a condition holds right of 0")
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
    return ax
