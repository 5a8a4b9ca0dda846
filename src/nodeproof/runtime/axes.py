"""What every plot starts from: matplotlib's Axes, and a colour per class."""

from __future__ import annotations

from typing import Any

import numpy as np

from nodeproof.errors import MissingExtraError

__all__ = ["axes_or_new", "class_colours", "shorten"]


def axes_or_new(ax: Any, size: tuple[float, float]) -> Any:
    """Return the Axes given, or those of a new figure of so many inches.

    Raises
    ------
    MissingExtraError
        Where matplotlib is not installed.
    """
    try:
        from matplotlib import pyplot as plt
    except ImportError:
        raise MissingExtraError("matplotlib", "plot") from None
    if ax is None:
        _, ax = plt.subplots(figsize=size, layout="constrained")
    return ax


def class_colours(n_classes: int) -> list[Any]:
    """Return a colour for each class, as far apart as there are few of them."""
    from matplotlib import colormaps

    if n_classes <= 10:
        return [colormaps["tab10"](k) for k in range(n_classes)]
    if n_classes <= 20:
        return [colormaps["tab20"](k) for k in range(n_classes)]
    # Neighbouring numbers should not have neighbouring colours.
    places = (np.arange(n_classes) * 0.618034) % 1.0
    return [colormaps["turbo"](place) for place in places]


def shorten(name: Any, most: int = 18) -> str:
    """Return a name as text that matplotlib takes literally, cut where it is long."""
    text = str(name)
    text = text if len(text) <= most else text[: most - 1] + "…"
    return text.replace("$", r"\$")
