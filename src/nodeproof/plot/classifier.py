"""Plots of a fitted classifier: node map, sources, block matrix and reliability."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from nodeproof.errors import InputError
from nodeproof.graph import Graph
from nodeproof.inputs.graph_objects import is_matrix_table, is_table, table_columns
from nodeproof.inputs.node_names import align_graph
from nodeproof.interop import from_tables
from nodeproof.metrics import ReliabilityCurve, reliability_curve
from nodeproof.query import check_candidates
from nodeproof.report.layout import map_nodes
from nodeproof.runtime.axes import axes_or_new, class_colours, shorten
from nodeproof.solvers.memberships import OneHot

if TYPE_CHECKING:
    from nodeproof.estimator import NodeClassifier

__all__ = ["block_matrix", "node_map", "reliability", "sources"]

_BLUE, _GREY = "#2f6f9f", "#8794a3"

# More nodes than this cannot be told apart in a plot.
_MOST_NODES = 20_000

# The most classes with room for numbers, and for names.
_NUMBERED, _NAMED = 12, 40


def node_map(
    clf: NodeClassifier, *, nodes: ArrayLike | None = None, suspects: bool = True, ax: Any = None
) -> Any:
    """Draw the nodes by their probabilities: certain ones at their class, uncertain ones between.

    Parameters
    ----------
    clf : NodeClassifier
        Fitted.
    nodes : array of int, or mask of shape (n,), optional
        Nodes to draw; by default all, or 20,000 evenly spaced ones.
    suspects : bool
        Whether to ring those whose given label looks wrong.
    ax : matplotlib Axes, optional
        Axes to draw on; by default new ones.

    Returns
    -------
    matplotlib Axes
    """
    check_is_fitted(clf)
    n, K = clf.proba_.shape
    shown = _nodes_to_draw(nodes, n)
    ax = axes_or_new(ax, (6.0, 6.0))
    anchors, positions = map_nodes(clf.proba_, shown)
    colours = np.array(class_colours(K))
    size = float(np.clip(12_000 / max(len(shown), 1), 1.5, 16.0))
    codes = clf.proba_[shown].argmax(axis=1)
    # Shuffled, so that no class is always on top.
    order = np.argsort((np.arange(len(shown)) * 0.618034) % 1.0)
    ax.scatter(*positions[order].T, s=size, c=colours[codes[order]], linewidths=0)
    if suspects:
        doubted = np.isin(shown, clf.suspects_.node)
        if doubted.any():
            ink = ax.yaxis.label.get_color()
            ax.scatter(*positions[doubted].T, s=3 * size + 12, facecolors="none", edgecolors=ink,
                       linewidths=1.0, label="given label looks wrong")  # fmt: skip
            ax.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, 0.02))
    reach = float(np.abs(positions).max(initial=np.abs(anchors).max()))
    longest = _name_corners(ax, anchors, reach, clf.classes_)
    beside = 0.06 * longest if K > _NUMBERED else max(0.0, 1.0 + 0.035 * longest - reach)
    wide = reach + 0.1 + beside
    everything = np.vstack([anchors, positions])[:, 1]
    low, high = everything.min() - 0.25, everything.max() + 0.25
    if K == 2:
        low, high = -0.4, 0.6
    ax.set(aspect="equal", xticks=[], yticks=[], xlim=(-wide, wide), ylim=(low, high))
    ax.spines[:].set_visible(False)
    some = "" if len(shown) == n else f" of {n:,}"
    ax.set_title(f"{len(shown):,}{some} nodes by their class probabilities")
    return ax


def _nodes_to_draw(nodes: ArrayLike | None, n: int) -> NDArray[np.int64]:
    """Return positions of distinct nodes."""
    if nodes is None:
        return np.linspace(0, n - 1, min(n, _MOST_NODES)).astype(np.int64)
    return check_candidates(nodes, n, labelled=np.arange(0), what="nodes")


def _name_corners(
    ax: Any, anchors: NDArray[np.float64], reach: float, classes: NDArray[Any]
) -> int:
    """Write the names of classes beyond their nodes; return the length of the longest."""
    K = len(classes)
    if K > _NAMED:
        return 0
    names = [shorten(name) for name in classes]
    pile = reach if K == 1 else reach - 1.0
    for (x, y), name in zip(anchors, names, strict=True):
        if K <= _NUMBERED:
            up = y > -0.1
            place = x, y + (pile + 0.06 if up else -pile - 0.06)
            ax.text(*place, name, ha="center", va="bottom" if up else "top", weight="bold")
            continue
        ha = "center" if abs(x) < 0.35 else "left" if x > 0 else "right"
        va = "center" if abs(y) < 0.35 else "bottom" if y > 0 else "top"
        ax.text(x * (reach + 0.06), y * (reach + 0.06), name, ha=ha, va=va, fontsize="x-small")
    return max(map(len, names))


def sources(clf: NodeClassifier, *, ax: Any = None) -> Any:
    """Draw how much graph, features and labels contributed to the decisions, as bars.

    Parameters
    ----------
    clf : NodeClassifier
        Fitted.
    ax : matplotlib Axes, optional
        Axes to draw on; by default new ones.

    Returns
    -------
    matplotlib Axes
    """
    check_is_fitted(clf)
    ax = axes_or_new(ax, (5.0, 1.9))
    names = list(clf.sources_)
    shares = [100 * clf.sources_[name] for name in names]
    places = np.arange(len(names))[::-1]
    ax.barh(places, shares, height=0.62, color=_BLUE)
    for place, share in zip(places, shares, strict=True):
        ax.text(share + 1, place, f"{share:.0f} %", va="center")
    if not names:
        ax.text(0.5, 0.5, "one class: nothing to decide", transform=ax.transAxes, ha="center")
    ax.set_yticks(places, names)
    ax.set(xlim=(0, 112), xlabel="share in the decisions, %")
    ax.set_xticks([0, 25, 50, 75, 100])
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def block_matrix(
    clf: NodeClassifier, *, graph: Any = None, relative: bool = False, ax: Any = None
) -> Any:
    """Draw the density of links between each pair of classes.

    Parameters
    ----------
    clf : NodeClassifier
        Fitted, to a graph unless one is given.
    graph : object, optional
        Links between the same nodes, as `fit` takes them; by default those that were fitted.
    relative : bool
        Whether to draw the density as a multiple of what the null model expects, instead of the
        weight of links per pair of nodes.
    ax : matplotlib Axes, optional
        Axes to draw on; by default new ones.

    Returns
    -------
    matplotlib Axes
    """
    check_is_fitted(clf)
    links, chance = _links_between(clf, graph)
    sizes = np.bincount(clf.proba_.argmax(axis=1), minlength=len(clf.classes_)).astype(np.float64)
    pairs = chance if relative else np.outer(sizes, sizes) - np.diag(sizes)
    density = np.full(links.shape, np.nan)
    np.divide(links, pairs, out=density, where=pairs > 0)
    ax = axes_or_new(ax, (5.4, 4.6))
    K = len(sizes)
    what = "links, as a multiple of chance" if relative else "links per pair of nodes"
    image = ax.imshow(density, **_shades(density, relative))
    ax.figure.colorbar(image, ax=ax, label=what)
    if K <= _NUMBERED:
        for i, j in np.ndindex(K, K):
            if np.isfinite(density[i, j]):
                dark = sum(image.cmap(image.norm(density[i, j]))[:3]) < 1.5
                ax.text(j, i, f"{density[i, j]:.2g}", ha="center", va="center",
                        color="white" if dark else "black", fontsize="small")  # fmt: skip
    if K <= _NAMED:
        names = [shorten(name, 14) for name in clf.classes_]
        turned = sum(map(len, names)) > 40
        ax.set_xticks(range(K), names, rotation=90 if turned else 0)
        ax.set_yticks(range(K), names)
    ax.tick_params(length=0)
    ax.set_title("Links between classes")
    return ax


def _links_between(
    clf: NodeClassifier, graph: Any
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the weight of links from class to class, and what the null model expects."""
    if graph is None:
        found = clf.fitted_.findings
        if found.blocks is None or found.chance is None:
            raise InputError("block_matrix needs a graph: this classifier was fitted without one")
        return found.blocks, found.chance
    network = Graph(_in_order(clf, graph), "auto", len(clf.labels_))
    assigned = OneHot(clf.proba_.argmax(axis=1).astype(np.int32), len(clf.classes_))
    links = assigned.link_mass(network, matrix=True)
    return links, network.density * assigned.sums(network.eta, matrix=True).pairs


def _in_order(clf: NodeClassifier, graph: Any) -> Any:
    """Return the links with nodes in the order of the fit."""
    names = getattr(clf, "node_ids_", None)
    if names is not None and is_table(graph) and not is_matrix_table(graph):
        source, target, _ = table_columns(graph)
        if source.dtype.kind not in "iu" or target.dtype.kind not in "iu":
            return from_tables({"node": names}, graph)["graph"]
        if names.dtype.kind in "if":
            raise InputError(
                "the node names are numbers other than 0, 1, 2, …, so the numbers in a table of "
                "links are ambiguous (names or positions); for names give "
                "nodeproof.interop.from_tables({'node': clf.node_ids_}, links)['graph']"
            )
    fitted = range(len(clf.labels_)) if names is None else names
    return align_graph(graph, fitted, "the fit")


def _shades(density: NDArray[np.float64], relative: bool) -> dict[str, Any]:
    """Return a colour map: from white, or diverging around chance."""
    from matplotlib.colors import TwoSlopeNorm

    highest = float(np.nanmax(density)) if np.isfinite(density).any() else 1.0
    if not relative:
        return {"cmap": "Blues", "vmin": 0.0, "vmax": highest or 1.0}
    return {"cmap": "RdBu", "norm": TwoSlopeNorm(1.0, 0.0, max(highest, 2.0))}


def reliability(
    what: NodeClassifier | tuple[ArrayLike, ArrayLike], *, n_bins: int = 10, ax: Any = None
) -> Any:
    """Draw the reliability diagram: accuracy against confidence, and counts of nodes.

    Parameters
    ----------
    what : (y_true, proba), or a fitted NodeClassifier
        True classes as column numbers and probabilities, of shape (n,) and (n, K); or a
        classifier, whose probabilities are judged by its labels, each held out in turn.
    n_bins : int
        Bins of equal width over the confidence 0…1.
    ax : matplotlib Axes, optional
        Axes to draw on; by default new ones.

    Returns
    -------
    matplotlib Axes
    """
    if isinstance(what, tuple):
        y_true, proba = what
        curve = reliability_curve(y_true, proba, n_bins)
    else:
        check_is_fitted(what)
        found = what.fitted_.findings
        if len(found.judged_labels) == 0:
            raise InputError(f"{_why_unjudged(what)}; give (y_true, proba)")
        curve = reliability_curve(
            found.judged_labels, found.judged_proba, n_bins, noise=found.noise
        )
    ax = axes_or_new(ax, (5.0, 4.6))
    _draw_counts(ax, curve, n_bins)
    ax.plot([0, 1], [0, 1], ls="--", lw=1, color=_GREY, label="perfect calibration")
    off = np.abs([curve.right - curve.low, curve.high - curve.right])
    # Points at confidence 1 lie on the edge and are drawn whole.
    ax.errorbar(curve.confidence, curve.right, yerr=off, fmt="o-", color=_BLUE, ms=5, lw=1.4,
                elinewidth=1, clip_on=False,
                label="accuracy, 95 % interval")  # fmt: skip
    # At least half of the scale: on a few hundredths of it the diagonal cannot be seen to rise.
    left = min(0.5, np.floor(curve.confidence.min() * n_bins) / n_bins)
    ax.set(xlim=(left, 1), ylim=(0, 1.02), xlabel="confidence", ylabel="accuracy")
    ax.set_title(curve.explain().replace(": ", ":\n"), fontsize="medium")
    # Below the axes: inside, the curve may be anywhere.
    ax.legend(fontsize="small", loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=3,
              columnspacing=1.0, handletextpad=0.5, frameon=False)  # fmt: skip
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _why_unjudged(clf: NodeClassifier) -> str:
    """Say why a classifier's labels cannot be used to judge its probabilities."""
    if clf.fitted_.given is None:
        return "this classifier has no labels to judge its probabilities by"
    if len(clf.classes_) == 1:
        return "this classifier has only one class, and every node is certain"
    if clf.temperature == 0:
        return "this classifier has hard assignments (temperature=0), not probabilities"
    return "this classifier has no term that uses its labels"


def _draw_counts(ax: Any, curve: ReliabilityCurve, n_bins: int) -> None:
    """Draw bars for the counts of nodes in each bin along the bottom."""
    middles = (np.minimum(np.floor(curve.confidence * n_bins), n_bins - 1) + 0.5) / n_bins
    heights = 0.16 * curve.counts / curve.counts.max()
    ax.bar(middles, heights, width=0.9 / n_bins, color=_GREY, alpha=0.45, label="nodes")
    for x, height, count in zip(middles, heights, curve.counts, strict=True):
        ax.text(x, height + 0.008, f"{count:,}", ha="center", fontsize="x-small")
