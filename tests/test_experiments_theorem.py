"""The recovery theorem as an experiment: what is asked, how it is judged, drawn and told."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiment_helpers import good_answers, make_answers, make_results
from nodeproof.datasets import make_planted
from nodeproof.errors import InputError
from nodeproof.paper import theory
from nodeproof.paper.experiments import (
    PANELS,
    Axis,
    Cell,
    Curve,
    Panel,
    register,
    reproduce,
    run_cell,
)
from nodeproof.paper.experiments.claims import CLAIMS, Verdict, check
from nodeproof.paper.experiments.claims.theorem_and_targets import THEOREM
from nodeproof.paper.experiments.panels import Point
from nodeproof.paper.experiments.recovery import _scores
from nodeproof.paper.experiments.registry import ANSWERS
from nodeproof.paper.experiments.summary import write_summary

# Six classes of twelve, so clear that everybody says yes; and links that tell nothing.
NOISE = {"n_features": 6, "n_noise": 0, "label_ratio": 1.0}
CLEAR = {"n_clusters": 6, "cluster_size": 12, "p": 1.0, "q": 0.01, **NOISE}
BLURRED = {**CLEAR, "p": 0.3, "q": 0.3}

YES = {
    "theorem": "promised",
    "program": "certified",
    "proof": "certified",
    "recovery": "recovered",
    "possible": "possible",
}


def answers(method: str, data: dict[str, Any], sources: str = "GL", **options: float) -> Any:
    record = run_cell(Cell(method, sources, 0, data, options))
    json.dumps(record, allow_nan=False)
    return record["answers"]


# What is asked


@pytest.mark.parametrize(("method", "answer"), YES.items())
def test_clear_classes_are_promised_proven_found_and_possible(method: str, answer: str) -> None:
    for sources in ("GL", "G"):
        assert answers(method, CLEAR, sources, rho=0.5)[answer] == 1


@pytest.mark.parametrize(("method", "answer"), YES.items())
def test_what_nothing_tells_is_none_of_it(method: str, answer: str) -> None:
    assert answers(method, BLURRED, rho=8.0)[answer] == 0
    assert answers(method, BLURRED, "G")[answer] == 0


@pytest.mark.parametrize("method", ["theorem", "recovery", "possible"])
def test_nodes_alone_do_not_look_at_links(method: str) -> None:
    options = {"rho": 0.5}
    # As many nodes, so that the weights are the same.
    first, second = (answers(method, data, "L", **options) for data in (CLEAR, BLURRED))
    assert {**first, "rho": 0} == {**second, "rho": 0}
    assert first[YES[method]] == 1
    assert answers(method, CLEAR, "L", rho=8.0)[YES[method]] == 0


@pytest.mark.parametrize("rho", [0.1, 0.5, 3.0])
def test_the_variability_measured_is_the_one_asked_for(rho: float) -> None:
    assert answers("theorem", CLEAR, rho=rho)["rho"] == pytest.approx(rho)


def test_the_answer_is_that_of_the_part_of_the_theorem() -> None:
    # Nodes alone are promised where every score is right; as printed, only where ρ ≤ γ n_i/n.
    assert answers("theorem", CLEAR, "L", rho=0.5) == {
        "promised": 1, "claimed": 0, "rho": pytest.approx(0.5)
    }  # fmt: skip
    tiny = 0.9 * 0.1 / 6
    assert answers("theorem", CLEAR, "L", rho=tiny)["claimed"] == 1
    assert "rho" not in answers("theorem", CLEAR, "G")


def test_scores_are_the_label_and_noise() -> None:
    data = make_planted(**CLEAR, random_state=3)
    scores, deviation = _scores(data, 0.5)
    noise = scores - np.eye(6)[data.y]
    assert noise.std() == pytest.approx(deviation, rel=0.1)
    apart = np.linalg.norm(noise[:, None] - noise, axis=2)
    assert apart[data.y_true[:, None] == data.y_true].max() == pytest.approx(0.5)


def test_a_node_without_a_label_has_noise_alone() -> None:
    data = make_planted(**{**CLEAR, "label_ratio": 0.5}, random_state=3)
    scores, _ = _scores(data, 1e-9)
    assert scores[data.y < 0].max() < 1e-8
    assert scores[data.y >= 0].max(axis=1) == pytest.approx(1.0)


def test_the_limits_are_those_of_the_theory() -> None:
    for p in (0.3, 0.9):
        data = {**CLEAR, "p": p, "q": 0.1}
        limit = theory.exact_recovery([12] * 6, p, 0.1)
        assert answers("possible", data, "G")["possible"] == limit.possible


def test_what_cannot_be_asked_is_said() -> None:
    with pytest.raises(InputError, match="3 features for 6 classes"):
        run_cell(Cell("recovery", "GL", 0, {**CLEAR, "n_features": 3}))
    with pytest.raises(InputError, match="one size"):
        run_cell(Cell("possible", "G", 0, {**CLEAR, "cluster_size": [12, 12, 12, 12, 12, 9]}))


# The panels


def test_graph_alone_is_asked_once_whatever_the_scores() -> None:
    points = [p for p in PANELS["variability"].points(1) if p.curve.sources == "G"]
    places = {(p.cell.method, p.y) for p in points}
    assert len({p.cell.key for p in points}) == len(places) < len(points)


def test_both_regimes_are_run_and_proofs_not_beyond_their_size() -> None:
    panel = PANELS["regimes"]
    points = list(panel.points(10))
    assert {p.y**2 < p.x for p in points} == {True, False}
    assert {p.cell.seed for p in points} == {0, 1, 2}
    assert max(p.x for p in points) > max(p.x for p in points if p.cell.method == "program")
    assert max(p.x for p in points if p.cell.method == "proof") == 288
    for point in points:
        n = point.cell.settings["n_clusters"] * point.cell.settings["cluster_size"]
        assert n == pytest.approx(point.x, rel=0.15)


# The claims


def verdicts(name: str, answers: Callable[[Point], dict[str, Any]] | None = None) -> list[Verdict]:
    found = check(make_results(CLAIMS[name].panels, answers=answers))
    return [verdict for verdict in found if verdict.name == name]


def unless(
    here: Callable[[Point], bool], yes: bool = False, **others: bool
) -> Callable[[Point], dict[str, Any]]:
    return lambda point: make_answers(yes, **others) if here(point) else good_answers(point)


def at(x: float, y: float, *methods: str, sources: str = "GL") -> Callable[[Point], bool]:
    return lambda p: (
        (p.x, p.y, p.cell.sources) == (x, y, sources) and (p.cell.method in methods or not methods)
    )


SOLVERS = ("program", "proof", "recovery")
# For every claim, a change after which it does not hold for any solver.
BREAKS = {
    "promise-proven": unless(at(1.0, 0.9, *SOLVERS)),
    "promise-kept": unless(at(1.0, 0.9, *SOLVERS)),
    "printed-conditions-suffice": unless(at(3.0, 0.9, "theorem"), claimed=True),
    "graph-suffices-above-root": unless(at(128, 48, sources="G")),
    "graph-fails-below-root": unless(at(288, 8, sources="G"), yes=True),
    "together-below-root": unless(lambda p: p.cell.sources == "GL" and p.x > 1 and p.cell.seed > 0),
}  # fmt: skip


def test_every_claim_of_the_theorem_is_tested() -> None:
    named = {name for name, known in CLAIMS.items() if known.where.startswith(THEOREM)}
    assert named == {*BREAKS, "printed-theorem-holds"}


@pytest.mark.parametrize("name", BREAKS)
def test_a_claim_holds_where_the_world_is_as_claimed(name: str) -> None:
    assert [v.holds for v in verdicts(name)] == [True] * len(CLAIMS[name].solvers)


@pytest.mark.parametrize(("name", "change"), BREAKS.items())
def test_a_claim_does_not_hold_where_the_world_is_otherwise(name: str, change: Any) -> None:
    found = verdicts(name, change)
    assert [v.holds for v in found] == [False] * len(CLAIMS[name].solvers), found


def test_a_promise_that_is_not_kept_is_named() -> None:
    found = verdicts("promise-kept", unless(at(1.0, 0.9, "recovery")))[0]
    assert found.exceptions == tuple(f"ρ = 1, p = 0.9, seed {s} (graph and nodes)" for s in (0, 1))


def test_where_nothing_is_promised_nothing_is_judged() -> None:
    silent = unless(lambda p: p.cell.method == "theorem")
    assert {v.holds for v in verdicts("promise-kept", silent)} == {None}


def test_either_source_alone_is_not_together() -> None:
    for sources in "GL":
        alone = unless(lambda p, s=sources: p.cell.sources == s, yes=True)
        assert {v.holds for v in verdicts("together-below-root", alone)} == {False}


def test_the_printed_theorem_falls_by_the_counterexample(monkeypatch: pytest.MonkeyPatch) -> None:
    found = verdicts("printed-theorem-holds")[0]
    example = theory.counterexample()
    assert found.holds is False
    assert f"{example.ideal_value:.6g}" in found.by
    assert f"{example.better_value:.6g}" in found.by
    harmless = theory.counterexample(c=0.95)
    monkeypatch.setattr(theory, "counterexample", lambda: harmless)
    assert verdicts("printed-theorem-holds")[0].holds is True


# From the command to the page


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> Panel:
    own: dict[str, Panel] = {}
    monkeypatch.setattr("nodeproof.paper.experiments.panels.PANELS", own)
    monkeypatch.setattr("nodeproof.paper.experiments.reproduction.PANELS", own)
    return register(Panel(
        "variability", "theorem", "Tiny",
        Axis(r"gradient variability, $\rho$", (0.5, 2, 8), (0.5, 8)),
        lambda rho, p: {**CLEAR, "p": p},
        ANSWERS, y=Axis("links, $p$", (0.4, 1.0), (1.0,)),
        options=lambda rho: {"rho": rho}, kind="answers",
        seeds=lambda x, curve, seeds: seeds if x < 8 or curve.method != "proof" else 0,
    ))  # fmt: skip


def test_a_run_ends_in_tables_pictures_and_claims(tiny: Panel, tmp_path: Path) -> None:
    done = reproduce(["theorem"], tmp_path, seeds=1, quick=True, jobs=1)
    assert {path.name for path in done.figures} == {"theorem.png", "theorem.svg", "theorem.pdf"}
    shares = done.results.answers(
        "variability", Curve("recovery", "GL", title=_title()), "recovered", 1.0
    )
    assert shares.mean.tolist() == [1.0, 0.0]
    table = (tmp_path / "answers.csv").read_text()
    assert table.count('"promised"') == 3 * 2
    judged = {v.name: v.holds for v in done.verdicts if v.holds is not None}
    assert judged["promise-kept"] is True
    page = (tmp_path / "summary.md").read_text()
    assert "The recovery theorem" in page
    assert "better" in page
    again = reproduce(
        ["theorem"],
        tmp_path,
        seeds=1,
        quick=True,
        jobs=1,
        finished=lambda _: pytest.fail("ran twice"),
    )
    assert again.verdicts == done.verdicts


def _title() -> str:
    return next(c.title for c in ANSWERS if (c.method, c.sources) == ("recovery", "GL"))


def test_maps_show_every_question_and_the_root() -> None:
    pytest.importorskip("matplotlib")
    from nodeproof.paper.experiments.figures import compose, settings

    with settings():
        figure = compose(make_results(["regimes", "variability"]), "theorem")
        renderer = figure.canvas.get_renderer()
        boxes = [
            *(axes.get_tightbbox(renderer) for axes in figure.axes),
            *(legend.get_window_extent(renderer) for legend in figure.legends),
            *(text.get_window_extent(renderer) for text in figure.texts),
        ]
    titles = [axes.get_title() for axes in figure.axes if axes.get_title()]
    assert len(titles) == 2 * 6
    assert len(set(titles)) == 6
    assert sum(bool(axes.lines) for axes in figure.axes) == 6  # n_i = √n, where n varies
    named = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    assert named == [
        "graph alone",
        "nodes alone",
        r"$n_i = \sqrt{n}$",
        "graph alone",
        "nodes alone",
    ]
    for k, box in enumerate(boxes):
        assert figure.bbox.x0 <= box.x0 <= box.x1 <= figure.bbox.x1
        assert not any(box.overlaps(other) for other in boxes[:k])


def test_without_the_theorem_its_section_is_left_out(tmp_path: Path) -> None:
    for panels, there in ((["p"], False), (["variability"], True)):
        results = make_results(panels)
        write_summary(results, check(results), [], tmp_path)
        assert ("## The recovery theorem" in (tmp_path / "summary.md").read_text()) == there
