"""Results that were never run: a world where every claim holds, and how to change it."""

from collections.abc import Callable, Iterable
from typing import Any

from nodeproof.paper.experiments import Panel, Results, select
from nodeproof.paper.experiments.panels import Point

#: (panel, x, method, sources, seed) -> accuracy, or None for what the world says
Change = Callable[[str, float, str, str, int], float | None]

_USUAL = {"G": 0.8, "F": 0.9, "GF": 0.95, "GL": 0.9, "FL": 0.95, "GFL": 0.995}
_NO_GRAPH = {"G": 0.4, "GL": 0.5, "GF": 0.93}
_MANY_CLUSTERS = {"G": 0.3, "F": 0.7, "GF": 0.7, "GL": 0.3, "FL": 0.7, "GFL": 0.9}
# What a configuration has at some weights; between them it has the usual.
_WEIGHTS = {
    ("beta_g", "GL", 0): 0.4,
    ("beta_g", "GF", 0): 0.8,
    ("beta_f", "GF", 0): 0.6,
    ("beta_f", "GF", 25): 0.93,
    ("beta_l", "GL", 0): 0.5,
    ("beta_l", "GL", 50): 0.87,
}


def as_claimed(panel: str, x: float, method: str, sources: str) -> float:
    """Return accuracies for which every claim, of the paper and of our own, holds."""
    if method == "genie":
        if panel == "omega" and sources == "F" and x >= 0.3:
            return 0.5
        return 0.92 if panel == "clusters" and x > 10 else 1.0
    usual = _USUAL[sources] if method != "bregman" else 0.95
    if panel == "p":
        near = abs(x - 0.05) < 0.011
        return _NO_GRAPH.get(sources, usual) if near else 0.9 if sources == "G" else usual
    if panel == "omega" and sources in ("F", "FL") and x >= 0.3:
        return 0.5
    if panel == "n" and x < 100:
        return usual - 0.1
    if panel == "m" and sources == "GF":
        return 0.97 if x == 3 else 0.9 if x == 27 else usual
    if panel == "clusters" and x > 10:
        return _MANY_CLUSTERS[sources]
    return _WEIGHTS.get((panel, sources, x), usual)


def make_results(
    panels: Iterable[str | Panel],
    change: Change = lambda *_: None,
    seeds: int = 2,
    quick: bool = False,
    trace: Callable[[Point], dict[str, Any]] | None = None,
    answers: Callable[[Point], dict[str, Any]] | None = None,
    extended: bool = True,
) -> Results:
    """Return results of registered panels, or of others, as claimed but for the changes."""
    chosen = [
        panel if isinstance(panel, Panel) else select([panel])[0].including(extended)
        for panel in panels
    ]
    records: dict[str, dict[str, Any]] = {}
    for panel in chosen:
        for point in panel.points(seeds, quick):
            if panel.kind == "trace":
                records[point.cell.key] = (trace or good_trace)(point)
                continue
            if panel.kind == "answers":
                records[point.cell.key] = (answers or good_answers)(point)
                continue
            method, sources = point.cell.method, point.cell.sources
            accuracy = change(panel.name, point.x, method, sources, point.cell.seed)
            usual = as_claimed(panel.name, point.x, method, sources)
            # Panels share cells: what is changed in one is changed in all.
            if accuracy is not None:
                records[point.cell.key] = {"accuracy": accuracy}
            else:
                records.setdefault(point.cell.key, {"accuracy": usual})
    return Results(chosen, records, seeds, quick)


def good_answers(point: Point) -> dict[str, Any]:
    """Return answers, the same of every method, for which what Theorem 1 says of draws holds."""
    sources, settings = point.cell.sources, point.cell.settings
    size = settings["cluster_size"]
    if point.panel == "regimes":
        yes = sources != "G" or size**2 >= size * settings["n_clusters"]
    else:
        yes = {"GL": point.x <= 2, "G": settings["p"] >= 0.9, "L": point.x <= 1}[sources]
    return make_answers(yes)


def make_answers(yes: bool, **others: bool) -> dict[str, Any]:
    """Return the record of a cell that answers every question alike, but for some."""
    names = ("claimed", "promised", "certified", "recovered", "possible", "faultless")
    answers = {**dict.fromkeys(names, yes), **others}
    return {"accuracy": None, "answers": {name: float(said) for name, said in answers.items()}}


def good_trace(point: Point) -> dict[str, Any]:
    """Return a followed run that falls to its lowest value in five iterations."""
    return make_trace([120.0, 110.0, 102.0, 100.0, 100.0])


def make_trace(
    value: list[float], accuracy: float = 0.995, status: str = "converged"
) -> dict[str, Any]:
    """Return the record of a followed run with these values of the objective."""
    return {
        "accuracy": accuracy,
        "objective": value[-1],
        "status": status,
        "trace": {"value": value, "accuracy": [accuracy] * len(value)},
        "times": [0.001 * k for k in range(len(value))],
    }
