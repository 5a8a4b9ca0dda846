"""`nodeproof demo`: planted data, six combinations of sources, bounds, certificates, a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from nodeproof import NodeClassifier, __version__
from nodeproof.certificate import Certificate
from nodeproof.cli.console import note, screen
from nodeproof.cli.terminal import as_text, print_document
from nodeproof.datasets import Planted, make_planted
from nodeproof.errors import MissingExtraError
from nodeproof.metrics import matched_accuracy
from nodeproof.paper import baselines
from nodeproof.paper.experiments.methods import SOURCES
from nodeproof.storage.atomic import atomic_folder, atomic_path

__all__ = ["run_demo"]

#: name and arguments of the data
DATA: dict[str, dict[str, Any]] = {
    "the paper's default": {},
    "a harder setting": {"p": 0.07, "omega": 0.3, "label_ratio": 0.05},
}

# Seconds to search for a proof, per data set.
_TIME_BUDGET = 5.0


def run_demo(out: Path, seed: int, as_json: bool) -> None:
    """Fit six configurations to planted data and certify the last; print tables, draw a picture."""
    drawn = {name: make_planted(random_state=seed, **asked) for name, asked in DATA.items()}
    fits = {name: _fit_all(data, seed) for name, data in drawn.items()}
    results = {name: _compare(data, fits[name], seed) for name, data in drawn.items()}
    proofs = {name: fits[name]["GFL"].certify(time_budget=_TIME_BUDGET) for name in drawn}
    figures = {
        "nodeproof": __version__,
        "seed": seed,
        "data": {name: {"drawn": repr(data), **DATA[name]} for name, data in drawn.items()},
        "results": results,
        "certificates": {name: proof.summary() for name, proof in proofs.items()},
    }
    default = "the paper's default"
    found = fits[default]["GFL"].map_labels_  # what is certified
    picture: Path | None = out / "demo.png"
    with atomic_folder(out) as temporary:
        (temporary / "demo.json").write_text(as_text(figures), encoding="utf-8")
        try:
            _draw(drawn[default], found, proofs[default], results, temporary / "demo.png")
        except MissingExtraError as missing:
            picture = None
            note(f"no picture: {missing}")
    if as_json:
        print_document({**figures, "picture": str(picture) if picture else None})
        return
    for name, data in drawn.items():
        screen.print(_table(name, data, results[name]))
        verdict = f"certificate of {SOURCES['GFL']}: {proofs[name].explain()}"
        screen.print(verdict, "", sep="\n", soft_wrap=True)
    screen.print("best possible: given the true parameters and every other node's class")
    if picture:
        screen.print(f"picture: {picture}")


def _fit_all(data: Planted, seed: int) -> dict[str, NodeClassifier]:
    """Return the six configurations, fitted."""
    return {
        sources: NodeClassifier(n_classes=data.params["n_clusters"], random_state=seed).fit(
            data.X if "F" in sources else None,
            data.y if "L" in sources else None,
            graph=data.graph if "G" in sources else None,
        )
        for sources in SOURCES
    }


def _compare(data: Planted, fits: dict[str, NodeClassifier], seed: int) -> list[dict[str, Any]]:
    """Return accuracy and bound of spectral clustering and of the six configurations."""
    K = data.params["n_clusters"]
    spectral = baselines.spectral_clustering(data.graph, K, random_state=seed)
    rows = [_row("Graph", "spectral clustering", data, "G", spectral)]
    for sources, clf in fits.items():
        rows.append(_row(SOURCES[sources], "nodeproof", data, sources, clf.labels_))
    return rows


def _row(
    name: str, method: str, data: Planted, sources: str, found: NDArray[Any]
) -> dict[str, Any]:
    hidden = data.y < 0
    if "L" in sources:
        accuracy = float((found[hidden] == data.y_true[hidden]).mean())
    else:  # without labels, class names are arbitrary
        accuracy = matched_accuracy(data.y_true[hidden], found[hidden])
    bound = data.genie_accuracy(sources)
    return {"sources": name, "method": method, "accuracy": accuracy, "bound": bound}


def _describe(data: Planted) -> str:
    asked = data.params
    return (
        f"p = {asked['p']:g}, q = {asked['q']:g}, ω = {asked['omega']:g}, "
        f"{int((data.y >= 0).sum())} of {len(data.y)} labels"
    )


def _table(name: str, data: Planted, rows: list[dict[str, Any]]) -> Table:
    table = Table(title=f"{name}: {_describe(data)}", min_width=72)
    for column in ("sources", "method"):
        table.add_column(column)
    for column in ("accuracy", "best possible"):
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(
            row["sources"], row["method"], f"{row['accuracy']:.3f}", f"{row['bound']:.3f}"
        )
    return table


def _draw(
    default: Planted,
    found: NDArray[Any],
    proof: Certificate,
    results: dict[str, list[dict[str, Any]]],
    path: Path,
) -> Path:
    try:
        import matplotlib as mpl
    except ImportError:
        raise MissingExtraError("matplotlib", "plot") from None
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(
        1, 3, figsize=(13, 4.4), width_ratios=(1, 1, 0.95), layout="constrained"
    )
    for k, (name, rows) in enumerate(results.items()):
        _draw_bars(axes[k], name, rows, named=k == 0)
    axes[0].legend(loc="upper left", bbox_to_anchor=(-0.02, -0.14), ncols=2, frameon=False)
    _draw_links(axes[2], default, found, proof)
    with atomic_path(path) as temporary:
        figure.savefig(temporary, dpi=150)
    plt.close(figure)
    return path


def _draw_bars(axes: Any, title: str, rows: list[dict[str, Any]], named: bool) -> None:
    place = np.arange(len(rows))[::-1]
    ours = [row["method"] == "nodeproof" for row in rows]
    colours = ["#2f6f9f" if own else "#8794a3" for own in ours]
    axes.barh(place, [row["accuracy"] for row in rows], color=colours, height=0.62)
    for y, row in zip(place, rows, strict=True):
        axes.plot([row["bound"]] * 2, [y - 0.38, y + 0.38], color="black", lw=2.5)
        axes.text(0.02, y, f"{row['accuracy']:.3f}", color="white", va="center", fontsize=9)
    axes.plot([], [], color="black", lw=2.5, label="best possible (genie)")
    axes.axvline(1 / 3, color="#b04a3a", ls=":", label="chance")
    axes.set(yticks=place, xlim=(0, 1.03), xlabel="accuracy on unlabelled nodes")
    names = [
        row["sources"] + ("" if own else "\n(spectral clustering)")
        for row, own in zip(rows, ours, strict=True)
    ]
    axes.set_yticklabels(names if named else [])
    axes.set_title(title)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_links(axes: Any, data: Planted, found: NDArray[Any], proof: Certificate) -> None:
    order = np.argsort(found, kind="stable")
    links = data.graph[order][:, order].tocoo()
    axes.scatter(links.col, links.row, s=0.35, lw=0, color="#2f6f9f", rasterized=True)
    for edge in np.cumsum(np.bincount(found))[:-1]:
        axes.axhline(edge, color="#b04a3a", lw=1)
        axes.axvline(edge, color="#b04a3a", lw=1)
    axes.set(
        xlim=(0, len(order)), ylim=(len(order), 0), aspect="equal", xticks=[], yticks=[],
        title=f"links of the default, by predicted class\n(certificate: {proof.status})",
    )  # fmt: skip
