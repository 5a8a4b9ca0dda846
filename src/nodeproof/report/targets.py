"""The report on a fit to numeric targets: one page, self-contained like that of classes."""

from __future__ import annotations

import warnings
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodeproof import __version__
from nodeproof.errors import count_of
from nodeproof.regression import FittedTargets
from nodeproof.report.charts import dots
from nodeproof.report.page import page_file, page_template
from nodeproof.report.sections import versions
from nodeproof.storage.atomic import atomic_path

__all__ = ["write_target_report"]

Array = NDArray[np.float64]

# Coverages that are shown, if there are enough targets for them.
_USUAL = (0.8, 0.9, 0.95, 0.99)

# The most dots and suspects shown, and bars of the histogram.
_DOTS, _SUSPECTS, _BARS = 2_000, 200, 30

# The frames of the charts: left, top, width and height.
_SCATTER, _HISTOGRAM = (40.0, 10.0, 370.0, 370.0), (10.0, 10.0, 400.0, 220.0)


def write_target_report(
    fitted: FittedTargets,
    path: str | PathLike[str],
    *,
    coverage: float | None = None,
    title: str = "",
) -> None:
    """Write the report; the file appears only when it is complete.

    Parameters
    ----------
    fitted : FittedTargets
        Just fitted, or loaded from a file.
    path, coverage, title
        As in :meth:`nodeproof.NodeRegressor.report`.
    """
    choices = dict(fitted.choices)
    experts = choices.pop("experts", {"value": {}})["value"]
    left_out = choices.pop("left_out", {"value": {}})["value"]
    base = choices.pop("mean", {"value": 0.0})["value"]
    even = fitted.difficulty is None
    text = page_template("targets.html").render(
        title=title or f"{fitted.n_nodes:,} nodes with numeric targets",
        summary=_summary(fitted),
        tiles=_tiles(fitted),
        notes=list(fitted.notes),
        scatter=_scatter(fitted),
        histogram=_histogram(fitted.predictions),
        n=fitted.n_nodes,
        intervals=_intervals(fitted, coverage),
        widths="All have the same width." if even else "They are wider where nodes are harder.",
        experts=experts,
        left_out=left_out,
        base=base,
        suspects=_suspects(fitted),
        choices=[(name, _shown(said["value"]), said["why"]) for name, said in choices.items()],
        versions=[("versions", versions())],
        command=fitted.command,
        version=__version__,
        style=page_file("page.css"),
    )
    with atomic_path(path) as temporary:
        Path(temporary).write_text(str(text), encoding="utf-8")


def _summary(fitted: FittedTargets) -> str:
    parts = [count_of(len(fitted.known), "target")]
    parts += [count_of(fitted.n_features, "feature")] if fitted.n_features else []
    parts += [count_of(fitted.n_links, "link")] if fitted.n_links else []
    return f"Predicted by {', '.join(parts[:-1])}{' and ' if parts[1:] else ''}{parts[-1]}."


def _tiles(fitted: FittedTargets) -> list[dict[str, str]]:
    error = fitted.estimated_error
    tiles = [
        {
            "value": f"{fitted.n_nodes - len(fitted.known):,}",
            "what": "nodes without a target",
            "note": f"of {fitted.n_nodes:,}",
        }
    ]
    if error is not None:
        tiles += [
            {
                "value": f"{error.rmse:.3g}",
                "what": "root mean squared error",
                "note": f"95 % interval {error.rmse_low:.3g} to {error.rmse_high:.3g}",
            },
            {
                "value": f"{error.r2:.2f}",
                "what": "R²",
                "note": f"95 % interval {error.r2_low:.2f} to {error.r2_high:.2f}",
            },
        ]
    count = len(fitted.suspects)
    tiles.append({"value": f"{count:,}", "what": "suspects", "note": "targets that look wrong"})
    return tiles


def _intervals(fitted: FittedTargets, asked: float | None) -> list[dict[str, Any]]:
    rows = []
    for coverage in sorted({*_USUAL} if asked is None else {*_USUAL, asked}):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what needs more targets is left out
            found = fitted.summary_of_intervals(coverage)
        if found["mean_width"] is not None:
            row = {"width": found["mean_width"], "covered": found["covered"]}
            rows.append({"coverage": coverage, "asked": coverage == asked, **row})
    return rows


def _scatter(fitted: FittedTargets) -> dict[str, str] | None:
    """Return given targets against predictions, as dots; suspects may be off the chart."""
    known = fitted.known
    if fitted.estimated_error is None or len(known) < 2:
        return None
    far = np.isin(known, fitted.suspects.node)
    given, predicted = fitted.given[known], fitted.predictions[known]
    near = np.concatenate([given[~far], predicted])
    low, high = float(near.min()), float(near.max())
    if not high > low:
        return None
    left, top, width, height = _SCATTER
    at = np.column_stack(
        [
            left + width * np.clip((predicted - low) / (high - low), 0.0, 1.0),
            top + height * (1.0 - np.clip((given - low) / (high - low), 0.0, 1.0)),
        ]
    )
    usual = np.flatnonzero(~far)
    some = usual[np.linspace(0, len(usual) - 1, min(len(usual), _DOTS)).astype(int)]
    shown_far = np.flatnonzero(far)[:_DOTS]
    return {
        "dots": dots(at[some]),
        "far": dots(at[shown_far]),
        "low": f"{low:.4g}",
        "high": f"{high:.4g}",
    }


def _histogram(values: Array) -> dict[str, str]:
    low, high = float(values.min()), float(values.max())
    left, top, width, height = _HISTOGRAM
    share = (values - low) / (high - low) if high > low else np.full(len(values), 0.5)
    counts = np.bincount(np.minimum((share * _BARS).astype(int), _BARS - 1), minlength=_BARS)
    step = width / _BARS
    bars = ""
    for k, count in enumerate(counts.tolist()):
        tall = height * count / max(counts.max(), 1)
        bars += f"M{left + k * step:.1f} {top + height:.1f}v{-tall:.1f}h{step - 1:.1f}v{tall:.1f}z"
    return {"bars": bars, "low": f"{low:.4g}", "high": f"{high:.4g}"}


def _suspects(fitted: FittedTargets) -> list[dict[str, Any]]:
    return [
        {"node": str(fitted.names[row.node]), "given": float(row.given),
         "predicted": float(row.predicted), "times": float(row.times_off)}
        for row in fitted.suspects[:_SUSPECTS]
    ]  # fmt: skip


def _shown(value: Any) -> str:
    """Return the value of a choice as text."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {_shown(part)}" for name, part in value.items())
    if isinstance(value, list):
        return " to ".join(map(_shown, value))
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)
