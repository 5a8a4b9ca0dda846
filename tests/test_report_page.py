"""The report in a real browser: it loads, sorts, searches and shows the evidence for a node."""

from __future__ import annotations

import csv
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from nodeproof import NodeClassifier
from nodeproof.datasets import make_planted
from nodeproof.report import write_report

HOSTILE = '<script>document.title="hacked"</script>'


@pytest.fixture(scope="module")
def clf():
    data = make_planted(3, 60, p=0.3, q=0.1, omega=0.2, label_accuracy=0.8, random_state=0)
    names = np.array(["alpha", HOSTILE, "gamma & co"])
    y = np.where(data.y >= 0, names[data.y], "")
    clf = NodeClassifier(random_state=0).fit(data.X, y, graph=data.graph)
    clf.fitted_ = replace(clf.fitted_, node_ids=np.array([f"n{v}" for v in range(179)] + [HOSTILE]))
    clf.certify(time_budget=1.0)
    return clf


@pytest.fixture(scope="module")
def report(clf, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    clf.report(path, title="A report")
    return path


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_loads_without_an_error_and_fits_the_window(browser_page, report, width, scheme):
    browser_page.page.emulate_media(color_scheme=scheme)
    page = browser_page.open(report, width=width)
    assert page.title() == "A report"
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert browser_page.errors == []
    assert browser_page.fetched == []


@pytest.mark.parametrize("width", [1280, 800, 400])
def test_tiles_hold_their_text(browser_page, clf, tmp_path, width):
    proba = np.eye(3, dtype=np.float32)[clf.fitted_.given % 3]
    proba[0] = [0.9999, 0.0001, 0.0]
    write_report(replace(clf.fitted_, estimated_accuracy=None, proba=proba), tmp_path / "r.html")
    page = browser_page.open(tmp_path / "r.html", width=width)
    assert ">\xa099.99\xa0%" in page.locator(".tiles b").all_inner_texts()
    over = page.evaluate(
        """() => [...document.querySelectorAll('.tiles b')].filter(value => {
        const text = document.createRange(); text.selectNodeContents(value);
        const tile = value.parentElement.getBoundingClientRect();
        return text.getBoundingClientRect().right > tile.right - 8;
        }).map(value => value.textContent)"""
    )
    assert over == []


def test_names_with_markup_stay_text(browser_page, report):
    page = browser_page.open(report)
    page.fill("#pick", HOSTILE)
    assert page.locator("#evidence b").inner_text() == HOSTILE
    assert page.title() == "A report"
    assert page.locator("#classes tbody th").all_inner_texts().count(HOSTILE) == 1


def test_tables_sort_by_numbers_and_by_names(browser_page, report, clf):
    page = browser_page.open(report)
    header = page.locator("#suspect-table thead th")
    cells = page.locator("#suspect-table tbody th")
    header.nth(3).locator("button").click()
    assert header.nth(3).get_attribute("aria-sort") == "descending"
    header.nth(3).locator("button").click()
    assert header.nth(3).get_attribute("aria-sort") == "ascending"
    least = clf.fitted_.node_ids[clf.suspects_.node[-1]]
    assert cells.first.inner_text() == least
    header.nth(0).locator("button").press("Enter")
    names = cells.all_inner_texts()
    assert names == sorted(names, key=lambda name: int(name[1:]))
    page.locator("#classes thead th").nth(1).locator("button").click()
    sizes = page.locator("#classes tbody tr td:nth-child(2)").all_inner_texts()
    assert [int(size) for size in sizes] == sorted(map(int, sizes), reverse=True)


def test_suspects_can_be_searched(browser_page, report, clf):
    page = browser_page.open(report)
    wanted = str(clf.fitted_.node_ids[clf.suspects_.node[2]])
    page.fill("#filter", wanted)
    shown = page.locator("#suspect-table tbody tr:visible th").all_inner_texts()
    assert wanted in shown
    assert all(wanted in name for name in shown)
    page.fill("#filter", "nobody")
    assert page.locator("#suspect-table tbody tr:visible").count() == 0
    assert page.locator("#matches").inner_text() == f"0 of {len(clf.suspects_)}"
    page.fill("#filter", "")
    assert page.locator("#suspect-table tbody tr:visible").count() == len(clf.suspects_)


def evidence(page) -> dict[str, list[str]]:
    rows = page.locator("#evidence tbody tr")
    return {
        row.locator("th").inner_text().strip(): row.locator("td").all_inner_texts()
        for row in rows.all()
    }


def test_picking_a_node_shows_its_evidence(browser_page, report, clf):
    page = browser_page.open(report)
    v = int(clf.suspects_.node[1])
    page.locator(f'[data-node="{v}"]').first.click()
    assert page.locator("#evidence b").inner_text() == clf.fitted_.node_ids[v]
    rows = evidence(page)
    assert set(rows) == set(clf.classes_)
    found = clf.fitted_.findings
    for k, name in enumerate(clf.classes_):
        for at, source in enumerate(found.evidence):
            scores = found.evidence[source][v]
            said = float(rows[name][1 + at].replace("−", "-").replace("+", ""))
            assert said == pytest.approx(scores[k] - scores.mean(), abs=0.06)
    text = page.locator("#evidence").inner_text()
    assert f"Its given label is {clf.classes_[clf.fitted_.given[v]]}, which looks wrong." in text


def test_the_legend_says_that_scores_are_not_all_of_a_probability(browser_page, report):
    page = browser_page.open(report)
    legend = page.locator("#evidence .fine").inner_text()
    assert "2.7 times as likely" in legend
    assert "sizes of the classes" in legend
    assert "can differ" in legend


@pytest.fixture(scope="module")
def plain_report(tmp_path_factory):
    """Short names, three sources, suspects: what fits into a narrow window."""
    data = make_planted(4, 40, p=0.3, q=0.1, omega=0.2, label_accuracy=0.8, random_state=0)
    names = np.array(["bronze", "gold", "silver", "tin"])
    y = np.where(data.y >= 0, names[data.y], "")
    clf = NodeClassifier(random_state=0).fit(data.X, y, graph=data.graph)
    clf.fitted_ = replace(clf.fitted_, node_ids=np.array([f"C-{v:05d}" for v in range(160)]))
    path = tmp_path_factory.mktemp("plain") / "report.html"
    clf.report(path)
    return path


@pytest.mark.parametrize("width", [1280, 400])
def test_a_swatch_stands_before_its_name(browser_page, report, plain_report, width):
    for path in (report, plain_report):
        page = browser_page.open(path, width=width)
        apart = page.evaluate(
            """() => [...document.querySelectorAll('th .swatch')].filter(swatch => {
            const text = document.createRange(); text.selectNode(swatch.nextSibling);
            const [first, mark] = [text.getClientRects()[0], swatch.getBoundingClientRect()];
            return first.left < mark.right || first.top > mark.bottom || first.bottom < mark.top;
            }).map(swatch => swatch.nextSibling.textContent)"""
        )
        assert apart == []
        assert page.locator("th .swatch").count() >= 6


def test_every_column_can_be_seen_in_a_narrow_window(browser_page, report, plain_report):
    boxes = """() => ['#evidence .scroll', '#suspects .scroll'].map(name => {
        const box = document.querySelector(name), last = box.querySelector('thead th:last-child');
        box.scrollLeft = 1e5;
        const hidden = last.getBoundingClientRect().right - box.getBoundingClientRect().right;
        return [box.scrollWidth - box.clientWidth, hidden, box.tabIndex]; })"""
    for _, hidden, tab in browser_page.open(report, width=400).evaluate(boxes):
        assert hidden < 1
        assert tab == 0  # by keys, too
    # Where names are short, there is little to scroll to, whatever the font.
    for beyond, _, _ in browser_page.open(plain_report, width=400).evaluate(boxes):
        assert beyond < 40


def report_on(path, names):
    """Write a report on a fit to as many classes, with all sources and wrong labels."""
    K = len(names)
    strength = {"p": 0.4, "q": 0.02, "omega": 0.2, "label_ratio": 0.8, "label_accuracy": 0.8}
    data = make_planted(K, 200 // K, **strength, random_state=0)
    y = np.where(data.y >= 0, np.array(names)[data.y], "")
    NodeClassifier(random_state=0).fit(data.X, y, graph=data.graph).report(path)
    return path


def test_one_node_fits_beside_the_map(browser_page, tmp_path):
    """All sources speak, names have 25 letters."""
    names = [f"{metal} customer, not paid" for metal in ("Gold", "Iron", "Lead", "Zinc")]
    page = browser_page.open(report_on(tmp_path / "r.html", names), width=1120)
    head = page.locator("#evidence thead th").all_inner_texts()
    assert head == ["class", "probability", "graph", "features", "labels", "links"]
    box = page.locator("#evidence .scroll")
    assert box.bounding_box()["width"] < 520
    assert box.evaluate("box => box.scrollWidth - box.clientWidth") == 0


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("K", [4, 25])
def test_matrices_show_names_whole_and_as_many_columns_as_fit(browser_page, tmp_path, width, K):
    names = [f"Class number {k:02d}" for k in range(1, K + 1)]
    page = browser_page.open(report_on(tmp_path / "r.html", names), width=width)
    boxes = page.locator("#graph .scroll").all()
    assert len(boxes) == 2
    for box in boxes:
        headers = box.locator("thead th").all()
        assert [header.inner_text().split() for header in headers] == [n.split() for n in names]
        cut = "e => e.scrollWidth > e.clientWidth || e.scrollHeight > e.clientHeight"
        assert not any(header.evaluate(cut) for header in headers)
        if K == 4 or width == 1280:
            assert box.evaluate("box => box.scrollWidth - box.clientWidth") == 0
        # Names of rows leave most of the room to columns, and stay in sight.
        box.evaluate("box => { box.scrollLeft = 1e5; }")
        row, whole = box.locator("tbody th").first.bounding_box(), box.bounding_box()
        assert row["width"] < 0.35 * whole["width"]
        assert row["x"] == pytest.approx(whole["x"], abs=1)
    first, second = (box.bounding_box() for box in boxes)
    assert (second["y"] > first["y"] + first["height"]) == (K > 8 or width < 800)


def test_a_node_is_found_by_its_name(browser_page, report, clf):
    page = browser_page.open(report)
    page.fill("#pick", "n17")
    assert page.locator("#evidence b").inner_text() == "n17"
    best = clf.classes_[clf.proba_[17].argmax()]
    assert f"n17 is {best}" in page.locator("#evidence").inner_text()
    assert "n17" in page.locator("#names option").evaluate_all("all => all.map(o => o.value)")
    for typed, found in (("N17", "n17"), ("n16", "n16"), (" N10", "n10"), ("hacked", HOSTILE)):
        page.fill("#pick", typed)
        page.press("#pick", "Enter")
        assert page.locator("#evidence b").inner_text() == found
        assert page.input_value("#pick") == found


def test_a_name_that_nothing_has_leaves_the_node_that_was_shown(browser_page, report):
    page = browser_page.open(report)
    page.fill("#pick", "n17")
    for name in ("nobody", "no one"):
        page.fill("#pick", name)
        page.press("#pick", "Enter")
        said = page.locator("#evidence[aria-live] > p").first.inner_text()
        assert said == f"There is no node {name}."
        assert page.locator("#evidence b").inner_text() == "n17"
        assert page.locator("#evidence tbody tr").count() == 3
    page.fill("#pick", "n18")
    assert "There is no node" not in page.locator("#evidence").inner_text()


def map_box(page) -> dict[str, float]:
    page.locator(".map-stage").scroll_into_view_if_needed()
    return page.locator(".map-stage").bounding_box()


def test_the_map_is_used_by_mouse_and_by_keys(browser_page, report):
    page = browser_page.open(report)
    box = map_box(page)
    shown = page.locator("#evidence b")
    for i in (3, 40, 90):
        x, y = page.evaluate("i => nodeMap.placeOf(i)", i)
        page.mouse.click(box["x"] + x, box["y"] + y)
        # Nodes may lie on top of each other: it is one at this place.
        picked = page.evaluate("nodeMap.picked")
        at = page.evaluate("i => nodeMap.placeOf(i)", picked)
        assert np.hypot(at[0] - x, at[1] - y) < 1
        assert shown.inner_text() == page.evaluate("i => nodeMap.nameOf(i)", picked)
    page.focus(".map-stage")
    seen = {shown.inner_text()}
    for key in ("ArrowDown", "ArrowLeft", "ArrowRight", "ArrowUp"):
        page.keyboard.press(key)
        seen.add(shown.inner_text())
    assert len(seen) >= 3
    before = page.evaluate("nodeMap.placeOf(0)")
    page.keyboard.press("+")
    page.keyboard.press("Shift+ArrowRight")
    assert page.evaluate("nodeMap.placeOf(0)") != before
    page.keyboard.press("0")
    assert page.evaluate("nodeMap.placeOf(0)") == before


def test_a_drag_moves_the_map_and_the_wheel_zooms_it(browser_page, report):
    page = browser_page.open(report)
    box = map_box(page)
    middle = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    before = page.evaluate("nodeMap.placeOf(7)")
    page.mouse.move(*middle)
    page.mouse.down()
    page.mouse.move(middle[0] + 40, middle[1] - 30, steps=4)
    page.mouse.up()
    x, y = page.evaluate("nodeMap.placeOf(7)")
    assert (x - before[0], y - before[1]) == pytest.approx((40, -30))

    def apart() -> float:
        (ax, ay), (bx, by) = page.evaluate("[nodeMap.placeOf(7), nodeMap.placeOf(70)]")
        return float(np.hypot(ax - bx, ay - by))

    before = apart()
    page.evaluate("document.activeElement.blur()")
    page.mouse.wheel(0, -100)  # the page scrolls: the map has not been asked for
    assert apart() == before
    page.focus(".map-stage")
    page.mouse.move(*middle)
    page.mouse.wheel(0, -100)
    page.wait_for_timeout(50)  # wheels are told to the page between frames
    assert apart() > before


def test_filters_show_the_nodes_that_are_asked_for(browser_page, report, clf):
    page = browser_page.open(report)
    fitted = clf.fitted_
    top, given = fitted.proba.max(axis=1), fitted.given
    n = len(top)

    def shown() -> int:
        text = page.locator("#shown").inner_text()
        return n if text.startswith("all") else int(text.split(" of ")[0].replace(",", ""))

    assert shown() == n
    page.locator("#chips input").nth(1).uncheck()
    assert shown() == (fitted.codes != 1).sum()
    page.select_option("#labelled", "given")
    assert shown() == ((fitted.codes != 1) & (given >= 0)).sum()
    page.click("#reset")
    page.locator("#shown", has_text="all ").wait_for()
    expected = {
        "none": given < 0,
        "suspect": np.isin(np.arange(n), fitted.suspects.node),
        "differs": (given >= 0) & (given != fitted.codes),
    }
    for what, which in expected.items():
        page.select_option("#labelled", what)
        assert shown() == which.sum()
    page.select_option("#labelled", "any")
    page.fill("#most", "90")
    assert shown() == (np.round(top.astype(float), 3) <= 0.9).sum()
    page.fill("#most", "")
    page.select_option("#proven", "yes")
    proven = shown()
    fact = page.locator("dt", has_text="Certified nodes").locator("xpath=..").inner_text()
    assert f"\n{proven} of {n}" in fact
    page.select_option("#proven", "no")
    assert shown() == n - proven
    assert browser_page.errors == []


def test_a_lasso_selects_nodes_that_are_listed_and_saved(browser_page, report, clf):
    page = browser_page.open(report)
    assert page.locator("#selection").is_hidden()
    box = map_box(page)
    page.click("text=Lasso")
    inset, corners = 4, [(0, 0), (1, 0), (1, 1), (0, 1)]
    points = [
        (box["x"] + inset + across * (box["width"] - 2 * inset),
         box["y"] + inset + down * (box["height"] - 2 * inset))
        for across, down in corners
    ]  # fmt: skip
    page.mouse.move(*points[0])
    page.mouse.down()
    for point in points[1:]:
        page.mouse.move(*point, steps=3)
    page.mouse.up()
    n = len(clf.labels_)
    assert page.locator("#selected").inner_text() == f"{n} selected nodes"
    assert page.locator("#selected-table tbody tr").count() == n
    with page.expect_download() as waiting:
        page.click("#save")
    assert waiting.value.suggested_filename == "selection.csv"
    with Path(waiting.value.path()).open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["node"] for row in rows] == clf.fitted_.node_ids.tolist()
    assert [row["class"] for row in rows] == clf.labels_.tolist()
    saved = np.array([float(row["probability"]) for row in rows])
    np.testing.assert_allclose(saved, clf.proba_.max(axis=1), atol=2e-5)
    given = np.array(["", *clf.classes_])[clf.fitted_.given + 1]
    assert [row["given_label"] for row in rows] == given.tolist()
    page.locator("#selected-table button").nth(5).click()
    assert page.locator("#evidence b").inner_text() == "n5"
    page.click("#clear")
    assert page.locator("#selection").is_hidden()
    assert browser_page.errors == []


def test_an_address_names_a_node(browser_page, report):
    page = browser_page.open(report)
    page.goto(f"{report.as_uri()}#node=n17")
    assert page.locator("#evidence b").inner_text() == "n17"
    page.evaluate("location.hash = '#node=n23'")
    page.locator("#evidence b", has_text="n23").wait_for()
    page.fill("#pick", HOSTILE)
    page.press("#pick", "Enter")
    address = page.evaluate("location.hash")
    assert address.startswith("#node=%3Cscript")
    page.goto("about:blank")
    page.goto(f"{report.as_uri()}{address}")
    assert page.locator("#evidence b").inner_text() == HOSTILE
    assert page.title() == "A report"
    assert browser_page.errors == []


def test_a_node_without_evidence_is_found_on_the_map(browser_page, clf, tmp_path):
    few = np.arange(0, 180, 2)
    found = clf.fitted_.findings
    evidence = {source: scores[few] for source, scores in found.evidence.items()}
    some = replace(found, nodes=few, sampled=found.sampled[few], evidence=evidence,
                   linked=found.linked[few], positions=None, links=None)  # fmt: skip
    write_report(replace(clf.fitted_, saved_findings=some), tmp_path / "r.html")
    page = browser_page.open(tmp_path / "r.html")
    page.fill("#pick", "n17")
    page.press("#pick", "Enter")
    text = page.locator("#evidence").inner_text()
    assert f"n17 is {clf.labels_[17]}" in text
    assert "for 90 of the 180 nodes" in text
    assert page.evaluate("nodeMap.picked") == 17
    assert browser_page.errors == []


@pytest.fixture(scope="module")
def club_report(tmp_path_factory):
    """A small graph with long names."""
    graph = nx.karate_club_graph()
    y = np.array([graph.nodes[v]["club"] if v in (0, 1, 32, 33) else "" for v in graph])
    clf = NodeClassifier(random_state=0).fit(y=y, graph=graph)
    clf.fitted_ = replace(
        clf.fitted_, node_ids=np.array([f"Müller, Hans {v:05d}" for v in range(34)])
    )
    path = tmp_path_factory.mktemp("club") / "report.html"
    clf.report(path)
    return path


def test_names_in_the_drawing_cover_neither_each_other_nor_nodes(browser_page, club_report):
    page = browser_page.open(club_report)
    names, nodes = page.evaluate(
        """() => ['text', 'circle'].map(what => [...document.querySelectorAll(`.vertex ${what}`)]
        .map(e => { const b = e.getBBox(); return [b.x, b.y, b.x + b.width, b.y + b.height]; }))"""
    )
    assert len(nodes) == 34
    assert 8 <= len(names) < 34
    # A line is higher than its letters.
    names = [[left, top + 3, right, bottom - 3] for left, top, right, bottom in names]
    boxes = np.array(names + nodes)
    for at, (left, top, right, bottom) in enumerate(names):
        meets = (boxes[:, 0] < right) & (boxes[:, 2] > left)
        meets &= (boxes[:, 1] < bottom) & (boxes[:, 3] > top)
        assert np.flatnonzero(meets).tolist() == [at]


def test_the_drawing_is_cut_to_what_is_drawn(browser_page, club_report):
    page = browser_page.open(club_report)
    above, below, height = page.evaluate(
        """() => { const svg = document.querySelector('.vertex').ownerSVGElement;
        const [view, box] = [svg.viewBox.baseVal, svg.getBBox()];
        return [box.y - view.y, view.y + view.height - box.y - box.height, view.height]; }"""
    )
    assert abs(above) < 8
    assert abs(below) < 8
    assert height < 440


def test_every_control_can_be_reached_by_keys_and_has_a_name(browser_page, report):
    page = browser_page.open(report)
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll('button, input, a, [tabindex="0"], svg')]
        .filter(e => !(e.textContent.trim() || e.getAttribute('aria-label') || e.labels?.length))
        .map(e => e.outerHTML.slice(0, 80))"""
    )
    assert unnamed == []
    headings = page.evaluate("[...document.querySelectorAll('h1,h2,h3')].map(h => +h.tagName[1])")
    assert headings[0] == 1
    assert all(b - a <= 1 for a, b in pairwise(headings))
    for anchor in page.locator("nav a").all():
        target = anchor.get_attribute("href")
        assert page.locator(target).count() == 1


def test_text_stands_out_in_light_and_dark(browser_page, report):
    for scheme in ("light", "dark"):
        browser_page.page.emulate_media(color_scheme=scheme)
        page = browser_page.open(report)
        worst = page.evaluate(
            """() => {
            const light = c => { const v = c.match(/[\\d.]+/g).slice(0, 3).map(x => {
                x /= 255; return x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4; });
                return 0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2]; };
            const behind = e => { for (; e; e = e.parentElement) {
                const c = getComputedStyle(e).backgroundColor;
                if (!c.endsWith(', 0)')) return c; } return 'rgb(255,255,255)'; };
            let least = [99, ''];
            const texts = 'p, li, li *, dt, dd, th, a, figcaption, label';
            for (const e of document.querySelectorAll(texts)) {
                if (!e.textContent.trim() || !e.offsetParent) continue;
                const [a, b] = [light(getComputedStyle(e).color), light(behind(e))];
                const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
                if (ratio < least[0]) least = [ratio, e.outerHTML.slice(0, 80)];
            } return least; }"""
        )
        assert worst[0] >= 4.5, worst


def test_it_prints_without_controls(browser_page, report):
    browser_page.page.emulate_media(media="print")
    page = browser_page.open(report)
    assert page.locator("#filter").is_hidden()
    assert page.locator("nav").is_hidden()
    assert page.locator("#suspect-table").is_visible()
    assert len(page.pdf()) > 10_000


def test_it_is_of_use_without_a_script(browser, report):
    with browser.new_context(java_script_enabled=False, offline=True) as context:
        page = context.new_page()
        page.goto(report.as_uri())
        assert page.locator("#suspect-table tbody tr").count() > 0
        assert "need JavaScript" in page.locator("#evidence").inner_text()
