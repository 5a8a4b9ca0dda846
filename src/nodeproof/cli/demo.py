"""`nodeproof demo`: the paper's default data, six combinations of sources, the bound."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table
from sklearn.cluster import SpectralClustering

from nodeproof import NodeClassifier, __version__
from nodeproof.cli.console import note, screen
from nodeproof.datasets import Planted, make_planted
from nodeproof.errors import MissingExtraError
from nodeproof.io import atomic_path
from nodeproof.metrics import matched_accuracy

__all__ = ["run_demo"]

#: the paper's six configurations: name, sources
CONFIGURATIONS = [
    ("Graph", "G"),
    ("Feature", "F"),
    ("Graph + Feature", "GF"),
    ("Graph + Label", "GL"),
    ("Feature + Label", "FL"),
    ("Graph + Feature + Label", "GFL"),
]


def run_demo(out: Path, seed: int, as_json: bool) -> None:
    """Fit the six configurations on planted data; print a table, draw a picture."""
    data = make_planted(random_state=seed)
    rows = [_spectral(data, seed)]
    fitted: dict[str, NodeClassifier] = {}
    for name, sources in CONFIGURATIONS:
        fitted[sources] = _fit(data, sources, seed)
        rows.append(_row(name, "nodeproof", data, sources, fitted[sources].labels_))
    figures = {"nodeproof": __version__, "data": repr(data), "seed": seed, "results": rows}
    out.mkdir(parents=True, exist_ok=True)
    with atomic_path(out / "demo.json") as temporary:
        temporary.write_text(json.dumps(figures, indent=2) + "\n")
    try:
        picture: Path | None = _draw(data, rows, fitted["GFL"], out / "demo.png")
    except MissingExtraError as missing:
        picture = None
        note(f"no picture: {missing}")
    if as_json:
        print(json.dumps({**figures, "picture": str(picture) if picture else None}, indent=2))
        return
    screen.print(_table(data, rows))
    if picture:
        screen.print(f"picture: {picture}")


def _fit(data: Planted, sources: str, seed: int) -> NodeClassifier:
    clf = NodeClassifier(n_classes=data.params["n_clusters"], random_state=seed)
    return clf.fit(
        data.X if "F" in sources else None,
        data.y if "L" in sources else None,
        graph=data.graph if "G" in sources else None,
    )


def _spectral(data: Planted, seed: int) -> dict[str, Any]:
    K = data.params["n_clusters"]
    clustering = SpectralClustering(K, affinity="precomputed", random_state=seed)
    return _row("Graph", "spectral clustering", data, "G", clustering.fit_predict(data.graph))


def _row(name: str, method: str, data: Planted, sources: str, found: np.ndarray) -> dict[str, Any]:
    hidden = data.y < 0
    if "L" in sources:
        accuracy = float((found[hidden] == data.y_true[hidden]).mean())
    else:  # names mean nothing without labels
        accuracy = matched_accuracy(data.y_true[hidden], found[hidden])
    bound = data.genie_accuracy(sources)
    return {"sources": name, "method": method, "accuracy": accuracy, "bound": bound}


def _table(data: Planted, rows: list[dict[str, Any]]) -> Table:
    n, K = len(data.y), data.params["n_clusters"]
    table = Table(
        title=f"{n} nodes in {K} classes, {data.graph.nnz // 2} links, "
        f"{int((data.y >= 0).sum())} labels: accuracy on the nodes without a label",
        caption="best possible: told the true parameters and every other node's class",
    )
    for column in ("sources", "method"):
        table.add_column(column)
    for column in ("accuracy", "best possible"):
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(
            row["sources"], row["method"], f"{row['accuracy']:.3f}", f"{row['bound']:.3f}"
        )
    return table


def _draw(data: Planted, rows: list[dict[str, Any]], clf: NodeClassifier, path: Path) -> Path:
    try:
        import matplotlib as mpl
    except ImportError:
        raise MissingExtraError("matplotlib", "plot") from None
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, (bars, matrix) = plt.subplots(
        1, 2, figsize=(11, 4.6), width_ratios=(1.35, 1), layout="constrained"
    )
    names = [
        row["sources"] + ("\n(spectral clustering)" if row["method"] != "nodeproof" else "")
        for row in rows
    ]
    place = np.arange(len(rows))[::-1]
    colours = ["#9aa5b1" if row["method"] != "nodeproof" else "#2f6f9f" for row in rows]
    bars.barh(place, [row["accuracy"] for row in rows], color=colours, height=0.62)
    for y, row in zip(place, rows, strict=True):
        bars.plot([row["bound"]] * 2, [y - 0.38, y + 0.38], color="black", lw=2)
        bars.text(0.015, y, f"{row['accuracy']:.3f}", color="white", va="center", fontsize=9)
    bars.plot([], [], color="black", lw=2, label="best possible (genie)")
    bars.axvline(1 / data.params["n_clusters"], color="#b04a3a", ls=":", label="chance")
    bars.set(yticks=place, xlim=(0, 1.03), xlabel="accuracy on the nodes without a label")
    bars.set_yticklabels(names)
    bars.set_title("What each source gives, and all of them together")
    bars.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2, frameon=False)
    bars.spines[["top", "right"]].set_visible(False)

    order = np.argsort(clf.labels_, kind="stable")
    links = data.graph[order][:, order].tocoo()
    matrix.scatter(links.col, links.row, s=0.35, lw=0, color="#2f6f9f", rasterized=True)
    for edge in np.cumsum(np.bincount(clf.labels_))[:-1]:
        matrix.axhline(edge, color="#b04a3a", lw=1)
        matrix.axvline(edge, color="#b04a3a", lw=1)
    matrix.set(
        xlim=(0, len(order)), ylim=(len(order), 0), aspect="equal", xticks=[], yticks=[],
        title="The links, nodes sorted by the class found",
    )  # fmt: skip
    with atomic_path(path) as temporary:
        figure.savefig(temporary, dpi=150)
    plt.close(figure)
    return path
