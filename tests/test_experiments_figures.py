"""Figures drawn from made-up results: what is on them, and that they are always the same."""

import sys
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

mpl = pytest.importorskip("matplotlib")

from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: E402

from nodeproof.errors import InputError, MissingExtraError  # noqa: E402
from nodeproof.paper.experiments import Axis, Curve, Panel, Results, register, select  # noqa: E402
from nodeproof.paper.experiments.figures import compose, draw, settings  # noqa: E402
from nodeproof.paper.experiments.figures.printed import compose_printed  # noqa: E402

X = Axis("noise, $\\omega$  (of the features)", (0.0, 0.1, 1.0), (0.0, 1.0), scale="sqrt")
GENIE = tuple(Curve("genie", sources) for sources in ("G", "F", "GF"))
SIX = tuple(Curve("calibrated", sources) for sources in ("G", "F", "GF", "GL", "FL", "GFL"))
BASELINES = (Curve("spectral", "G"), Curve("bregman", "GFL"))


def curves(name: str, others: Iterable[Curve] = BASELINES, **settings: Any) -> Panel:
    return Panel(
        name, "fig", f"Panel {name}", X, lambda x: {"omega": x}, (*GENIE, *SIX, *others), **settings
    )


def heat(name: str = "heat") -> Panel:
    shown = tuple(Curve("calibrated", sources) for sources in ("G", "F", "GF"))
    return Panel(
        name, "heat", "A map", X, lambda x, y: {"omega": x, "p": y}, (*GENIE, *shown),
        y=Axis("p", (0.1, 0.2, 0.3), (0.1, 0.2)), kind="map",
    )  # fmt: skip


def followed() -> Panel:
    return Panel(
        "course", "course", "Runs", Axis("iteration", (0.0,), (0.0,)), lambda _: {},
        (
            Curve("trace", "GFL", {"solver": "cado"}, "published"),
            Curve("trace", "GFL", {"solver": "block"}, "block"),
            Curve("trace", "GFL", {"solver": "block", "weights": "calibrated"}, "calibrated"),
        ),
        kind="trace",
    )  # fmt: skip


def made_up(*panels: Panel, seeds: int = 3) -> Results:
    """Return results for the panels without running anything."""
    rng = np.random.default_rng(0)
    records: dict[str, dict[str, Any]] = {}
    for panel in panels:
        for point in panel.points(seeds):
            records[point.cell.key] = {"accuracy": float(rng.uniform(0.4, 1.0))}
            if panel.kind == "trace":
                length = int(rng.integers(2, 6))
                records[point.cell.key] |= {
                    "trace": {
                        "value": list(100 + 10 * 0.1 ** np.arange(length)),
                        "accuracy": list(rng.uniform(0.4, 1.0, length)),
                    },
                    "times": list(0.01 * np.arange(1, length + 1)),
                }
    return Results(panels, records, seeds)


def legends(figure: Any) -> list[str]:
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


DRAWN = (curves("a"), curves("b"), heat(), followed())


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return draw(made_up(*DRAWN), tmp_path_factory.mktemp("drawn"))


def test_every_figure_is_drawn_as_png_svg_and_pdf(drawn: list[Path]) -> None:
    names = [f"{figure}.{suffix}" for figure in ("fig", "heat", "course")
             for suffix in ("png", "svg", "pdf")]  # fmt: skip
    assert [path.name for path in drawn] == names
    assert sorted(path.name for path in drawn[0].parent.iterdir()) == sorted(names)


def test_the_same_bytes_are_drawn_again_whatever_the_settings_of_the_user(
    drawn: list[Path], tmp_path: Path
) -> None:
    with mpl.rc_context({"font.size": 20, "axes.facecolor": "red"}):
        again = draw(made_up(*DRAWN), tmp_path)
        assert (mpl.rcParams["font.size"], mpl.rcParams["axes.facecolor"]) == (20, "red")
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in drawn]


@pytest.mark.usefixtures("registry")
def test_a_new_entry_of_the_registry_is_drawn(tmp_path: Path) -> None:
    register(curves("mine"))
    results = made_up(*select(["mine"]))
    assert [path.name for path in draw(results, tmp_path)] == ["fig.png", "fig.svg", "fig.pdf"]
    texts = [text.get_text() for text in compose(results, "fig").texts]
    assert "Panel mine" in texts


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_the_bound_is_dashed_in_every_axes(count: int) -> None:
    results = made_up(*(curves(name) for name in "abcde"[:count]))
    figure = compose(results, "fig")
    assert len(figure.axes) == 2 * count  # our configurations; we beside the baselines
    bound = results.series("a", Curve("genie", "GF")).mean
    for axes in figure.axes:
        black = [line for line in axes.lines if line.get_color() == "black"]
        assert len(black) == 1
        assert black[0].is_dashed()
    drawn = next(line for line in figure.axes[0].lines if line.get_color() == "black")
    assert np.array_equal(drawn.get_ydata(), bound)


def test_each_curve_is_named_once_and_looks_like_no_other() -> None:
    figure = compose(made_up(curves("a"), curves("b")), "fig")
    named = legends(figure)
    assert len(named) == len(set(named)) == 3 + 6 + 3
    for axes in figure.axes:
        looks = [
            (line.get_marker(), line.get_linestyle(), line._dash_pattern, line.get_color())
            for line in axes.lines
        ]
        assert len(looks) == len(set(map(str, looks)))


def test_curves_with_the_same_values_are_apart_sideways() -> None:
    panel = curves("a")
    records = {point.cell.key: {"accuracy": 1.0} for point in panel.points(1)}
    figure = compose(Results([panel], records, 1), "fig")
    FigureCanvasAgg(figure).draw()
    markers = [line for line in figure.axes[0].lines if line.get_marker() != "None"]
    places = [line.get_transform().transform(line.get_xydata())[0] for line in markers]
    assert len(places) == len(SIX)
    assert len({round(float(x), 6) for x, _ in places}) == len(SIX)
    assert len({round(float(y), 6) for _, y in places}) == 1


def test_a_remark_on_a_panel_is_below_the_figure() -> None:
    figure = compose(made_up(curves("a", note="Mind the gap.")), "fig")
    assert any("Panel a: Mind the gap." in text.get_text() for text in figure.texts)


def test_single_curves_of_a_solver_join_the_baselines() -> None:
    others = (Curve("fixed", "GFL"), Curve("cado", "GFL"), *BASELINES)
    figure = compose(made_up(curves("a", others)), "fig")
    assert len(figure.axes) == 2
    assert len(figure.axes[1].lines) == 1 + 1 + 4


def test_the_only_curve_of_its_kind_is_drawn_in_every_row() -> None:
    figure = compose(made_up(curves("a", [Curve("cado", "GFL")])), "fig")
    assert len(figure.axes) == 1
    assert "CADO, gradient in ē (G+F+L)" in legends(figure)


CROWDED = [
    curves(name, (*BASELINES, *(Curve("cado", sources) for sources in ("GF", "GFL"))))
    for name in "abc"
]


@pytest.mark.parametrize(
    "panels", [CROWDED, CROWDED[:1], [*CROWDED, curves("d")], [heat()], [followed()]]
)
def test_nothing_is_written_over_anything_else(panels: list[Panel]) -> None:
    with settings():
        figure = compose(made_up(*panels), panels[0].figure)
        renderer = figure.canvas.get_renderer()
        boxes = [
            *(axes.get_tightbbox(renderer) for axes in figure.axes),
            *(legend.get_window_extent(renderer) for legend in figure.legends),
            *(text.get_window_extent(renderer) for text in figure.texts),
        ]
    whole = figure.bbox
    for k, box in enumerate(boxes):
        assert whole.x0 <= box.x0 <= box.x1 <= whole.x1
        assert whole.y0 <= box.y0 <= box.y1 <= whole.y1
        assert not any(box.overlaps(other) for other in boxes[:k])


def test_a_mark_and_the_scale_of_the_axis_are_drawn() -> None:
    marked = Axis("n", (10, 100, 1000), (10,), scale="log", mark=(100, "here"))
    panel = Panel("a", "fig", "A", marked, lambda n: {}, GENIE + SIX[:1])
    axes = compose(made_up(panel), "fig").axes[0]
    assert axes.get_xscale() == "log"
    assert [text.get_text() for text in axes.texts] == ["here"]


def test_a_map_has_a_column_for_each_choice_of_sources_and_a_colour_bar() -> None:
    figure = compose(made_up(heat()), "heat")
    assert [axes.get_title() for axes in figure.axes if axes.get_title()] == [
        "Graph", "Feature", "Graph + Feature",
    ]  # fmt: skip
    assert len(figure.axes) == 2 * 3 + 1
    ticks = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert ticks == ["0.1", "0.2", "0.3"]


def test_runs_are_measured_from_the_best_of_their_own_objective() -> None:
    figure = compose(made_up(followed()), "course")
    phi, energy, _ = figure.axes[:3]
    for axes in (phi, energy):
        lowest = min(line.get_ydata().min() for line in axes.lines)
        assert lowest == 0
    assert "free energy" in energy.get_ylabel()
    assert {axes.get_xscale() for axes in figure.axes[3:]} == {"log"}


def test_without_matplotlib_one_line_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'nodeproof\[plot\]'"):
        draw(made_up(curves("a")), tmp_path)
    assert not list(tmp_path.iterdir())


# As the paper prints them

CONFIGURATIONS = {
    "p": ["G", "GF", "GL", "GFL"],
    "omega": ["F", "FL", "GF", "GFL"],
    "labels": ["GL", "FL", "GFL"],
    "beta_g": ["GF", "GL", "GFL"],
    "beta_f": ["GF", "GL", "GFL"],
    "beta_l": ["GF", "GL", "GFL"],
    "n": ["G", "GF", "GL", "GFL"],
    "m": ["GF", "GFL"],
    "clusters": ["GL", "GF", "FL", "GFL"],
}
RANGES = {
    "p": ((0, 0.16), (0.3, 1.05)),
    "omega": ((0, 5), (0.3, 1.05)),
    "labels": ((0, 0.57), (0.6, 0.95)),
    "n": ((30, 1500), (0.3, 1.0)),
    "m": ((3, 27), (0.75, 1.0)),
    "clusters": ((2, 60), (0.0, 1.0)),
}


@pytest.fixture(scope="module")
def papers() -> Results:
    return made_up(*select(["fig1", "fig2", "fig3"]), seeds=2)


@pytest.mark.parametrize("solver", ["cado", "fixed"])
@pytest.mark.parametrize("name", ["fig1", "fig2", "fig3"])
def test_the_papers_figures_have_its_panels_ranges_and_curves(
    papers: Results, name: str, solver: str
) -> None:
    figure = compose_printed(papers, name, solver)
    assert figure is not None
    panels = select([name])
    assert len(figure.axes) == len(panels) == 3
    assert {axes.get_position().y0 for axes in figure.axes} == {figure.axes[0].get_position().y0}
    for axes, panel in zip(figure.axes, panels, strict=True):
        assert (axes.get_xscale(), axes.get_yscale()) == ("linear", "linear")
        if panel.name in RANGES:
            assert (axes.get_xlim(), axes.get_ylim()) == RANGES[panel.name]
        lines = [line for line in axes.lines if line.get_linestyle() == "-"]
        asked = CONFIGURATIONS[panel.name]
        assert len(lines) == len(asked)
        for line, sources in zip(lines, asked, strict=True):
            curve = Curve("spectral" if sources == "G" else solver, sources)
            series = papers.series(panel.name, curve)
            np.testing.assert_array_equal(line.get_xydata(), np.c_[series.x, series.mean])
        # Every value has a marker: a square inside the frame, a triangle at its edge.
        marked = [line for line in axes.lines if line.get_marker() in ("s", "^", "v")]
        assert sum(len(line.get_xdata()) for line in marked) == sum(
            len(line.get_xdata()) for line in lines
        )


def test_a_value_outside_the_papers_range_is_a_triangle_at_the_edge() -> None:
    panel = select(["labels"])[0]
    records = {point.cell.key: {"accuracy": 0.99} for point in panel.points(1)}
    figure = compose_printed(Results([panel], records, 1), "fig1")
    assert figure is not None
    markers = [
        (line.get_marker(), set(line.get_ydata()))
        for line in figure.axes[0].lines
        if line.get_linestyle() == "None" and len(line.get_xdata())
    ]
    assert markers == [("^", {0.95})] * 3


def test_the_caption_of_figure_2_names_its_colours(papers: Results) -> None:
    figure = compose_printed(papers, "fig2")
    assert figure is not None
    handles = figure.legends[0].get_lines()
    assert dict(zip(legends(figure), (line.get_color() for line in handles), strict=True)) == {
        "Graph + Feature": "#ff00ff",
        "Graph + Label": "#800000",
        "Graph + Feature + Label": "#00ffff",
    }


def test_nothing_is_cut_off_as_the_paper_prints_it(papers: Results) -> None:
    for name in ("fig1", "fig2", "fig3"):
        figure = compose_printed(papers, name)
        assert figure is not None
        FigureCanvasAgg(figure).draw()
        renderer = figure.canvas.get_renderer()
        boxes = [*(axes.get_tightbbox(renderer) for axes in figure.axes),
                 figure.legends[0].get_window_extent(renderer)]  # fmt: skip
        for box in boxes:
            assert figure.bbox.x0 <= box.x0 <= box.x1 <= figure.bbox.x1
            assert figure.bbox.y0 <= box.y0 <= box.y1 <= figure.bbox.y1
        for label in figure.axes[0], figure.axes[2]:
            shown = [text.get_window_extent(renderer) for text in label.get_xticklabels()]
            assert not any(a.overlaps(b) for a, b in pairwise(shown))


def test_figures_of_both_styles_are_drawn_side_by_side(tmp_path: Path) -> None:
    results = made_up(*select(["fig3"]), seeds=2)
    ours, printed = ({f"fig3{end}.{suffix}" for suffix in ("png", "svg", "pdf")}
                     for end in ("", "_paper"))  # fmt: skip
    assert {path.name for path in draw(results, tmp_path, "paper")} == printed
    first = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert {path.name for path in draw(results, tmp_path, "both")} == ours | printed
    assert {name: (tmp_path / name).read_bytes() for name in printed} == first


def test_what_the_paper_does_not_print_is_not_drawn_in_its_style(tmp_path: Path) -> None:
    assert draw(made_up(curves("a")), tmp_path, "paper") == []
    with pytest.raises(InputError, match="style must be"):
        draw(made_up(curves("a")), tmp_path, "papers")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no method 'magic'"):
        draw(made_up(curves("a")), tmp_path, "paper", "magic")
