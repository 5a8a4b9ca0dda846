"""The labelling app in a real browser: labels by keyboard, refits, two windows."""

from __future__ import annotations

import re

import numpy as np
import pytest

pytest.importorskip("tornado", reason="the app needs tornado: pip install 'nodeproof[app]'")

from app_helpers import AppPage, RunningApp
from nodeproof import NodeClassifier
from nodeproof.app.journal import JOURNAL, Journal
from nodeproof.app.labels import LabelState
from nodeproof.datasets import make_planted


@pytest.fixture(scope="module")
def data():
    return make_planted(
        cluster_size=60, p=0.3, q=0.03, label_ratio=0.3, label_accuracy=0.8, random_state=0
    )


@pytest.fixture(scope="module")
def fitted(data):
    return NodeClassifier(random_state=0).fit(data.X, data.y, graph=data.graph).fitted_


@pytest.fixture
def app(fitted, tmp_path):
    with RunningApp(fitted, tmp_path) as running:
        yield running


@pytest.fixture
def window(browser, app):
    """Open windows of the app; none may have told an error or asked another server."""
    opened = []

    def open_window(running=app, **size):
        context = browser.new_context()
        context.set_default_timeout(20_000)
        opened.append((context, AppPage(context.new_page(), running, **size)))
        return opened[-1][1]

    yield open_window
    for context, page in opened:
        assert page.errors == []
        assert page.foreign == []
        context.close()


def test_a_wrong_label_is_corrected_by_one_key(window, app, data):
    page = window()
    row = page.node
    truth = int(data.y_true[row])
    page.answer(truth)
    assert page.node != row
    assert app.session.labels.codes[row] == truth
    assert LabelState(app.session.fitted, Journal(app.journal)).codes[row] == truth


def test_enter_keeps_a_label_and_the_suspect_is_settled(window, app, fitted):
    page = window()
    row = page.node
    assert row == fitted.suspects.node[0]
    page.answer()
    assert app.session.labels.codes[row] == fitted.given[row]
    assert row not in app.session.state("")["suspects"]


def test_skipped_nodes_come_last_and_back_returns(window, app):
    page = window()
    first = page.node
    page.press("s")
    second = page.wait_node(lambda row: row != first)
    page.press("b")
    page.wait_node(lambda row: row == first)
    page.press("s")
    page.wait_node(lambda row: row == second)
    assert not app.journal.exists()
    for _ in range(len(app.session.state("")["suspects"]) - 1):
        page.press("s")
        page.settle()
    assert "skipped nodes left" in page.text("#node-name")
    page.press("s")
    page.wait_node(lambda row: row == first)


def test_undo_takes_the_last_label_back_and_shows_its_node(window, app, fitted):
    page = window()
    row = page.node
    page.answer((int(fitted.given[row]) + 1) % 3)
    page.undo()
    assert page.node == row
    assert app.session.labels.codes[row] == fitted.given[row]
    assert not app.session.labels.reviewed.any()
    page.page.click("#undo", force=True)  # nothing is left to undo
    assert len(Journal(app.journal).read()) == 2


def test_keys_typed_before_a_node_is_there_label_nothing(window, app):
    page = window()
    first = page.node
    # Two keys at once: the second comes before the next node.
    page.page.evaluate(
        """() => ["1", "2"].forEach((key) => document.body.dispatchEvent(
             new KeyboardEvent("keydown", {key, bubbles: true})))"""
    )
    page.wait_node(lambda row: row != first)
    page.wait_saved(1)
    (action,) = Journal(app.journal).read()
    assert action.nodes == (first,)
    assert action.labels == (0,)


def test_keys_in_fields_and_with_modifiers_label_nothing(window, app):
    page = window()
    row = page.node
    page.page.focus("#auto")
    page.page.keyboard.press("Control+1")
    page.page.keyboard.press("Alt+1")
    page.press("?")
    assert page.page.evaluate("document.getElementById('help').open")
    page.press("1")
    page.press("Escape")
    assert page.node == row
    assert not app.journal.exists()


def test_queried_nodes_are_labelled_and_a_refit_says_what_has_changed(window, app, data):
    page = window()
    before = page.text("#rounds")
    assert "at the start" in before
    while page.text("#count-suspects") != "0":
        page.answer(int(data.y_true[page.node]))
    assert "No label looks wrong" in page.text("#node-name")
    page.press("t")
    page.settle()
    for _ in range(10):
        assert "No label" in page.text("#said")
        page.answer(int(data.y_true[page.node]))
    page.refit()
    assert "refit 1" in page.text("#rounds")
    assert "The fit has all labels" in page.text("#job")
    assert "estimated accuracy" in page.text("#tiles")
    assert "at the start" in page.text("#tiles")
    assert "The last refit" in page.text("#changes")
    labels = app.session.labels.codes
    assert np.array_equal(app.session.fitted.given, labels)


def test_auto_refit_follows_every_ten_labels(window, app, data):
    page = window()
    page.page.check("#auto")
    changed = 0
    while changed < 10:
        row = page.node
        truth = int(data.y_true[row])
        changed += truth != app.session.labels.codes[row]
        page.answer(truth)
        if page.page.evaluate("document.documentElement.dataset.node") == "none":
            page.press("t")
            page.settle()
    page.wait_round(1)


def test_two_windows_do_not_lose_each_others_labels(window, app, fitted):
    one, other = window(), window()
    rows = []
    for page in (one, other):
        page.press("t")  # the longer list
    for k in range(10):
        for page in (one, other):
            rows.append(page.node)
            page.answer(k % 3)
            page.settle()
    again = LabelState(fitted, Journal(app.journal))
    expected = {row: (k // 2) % 3 for k, row in enumerate(rows)}
    assert {row: int(again.codes[row]) for row in expected} == expected
    for page in (one, other):
        page.wait_counted(len(expected))


def test_a_window_undoes_its_own_labels_only(window, app, fitted):
    one, other = window(), window()
    first = one.node
    one.answer(0)
    other.wait_counted(1)
    other.settle()
    other.press("t")
    other.settle()
    second = other.node
    assert second != first
    other.answer(2)
    one.undo()
    again = LabelState(fitted, Journal(app.journal))
    assert again.codes[first] == fitted.given[first]
    assert again.codes[second] == 2


def test_a_node_that_another_window_has_labelled_is_shown_so(window, app):
    one, other = window(), window()
    row = one.node
    assert other.node == row
    one.answer(1)
    other.page.wait_for_function(
        "() => document.getElementById('said').innerText.startsWith('Looked at')"
    )
    assert other.node == row


def test_labels_that_cannot_be_saved_are_named(window, app, monkeypatch):
    page = window()
    row = page.node

    def fail(make):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(app.session.labels.journal, "_append", fail)
    page.press("1")
    page.page.wait_for_selector("#alert:not([hidden])")
    assert "No space left" in page.text("#alert")
    assert f"Not saved: the label of {row}." in page.text("#alert")
    monkeypatch.undo()
    page.settle()
    page.press("b")
    page.wait_node(lambda found: found == row)
    page.answer(0)
    page.page.wait_for_selector("#alert", state="hidden")
    assert app.session.labels.codes[row] == 0
    page.errors.clear()  # the refusal itself


def test_the_labels_can_be_downloaded(window, fitted):
    page = window()
    with page.page.expect_download() as waiting:
        page.page.click("#export")
    text = waiting.value.path().read_text()
    assert len(text.splitlines()) == 1 + len(fitted.labelled)


def test_the_token_leaves_the_address_and_the_page_loads_again(window, app):
    page = window()
    assert app.server.token not in page.page.url
    page.page.reload()
    page.ready()
    assert page.text("#title").startswith("180 nodes")


@pytest.mark.parametrize("width", [320, 400, 860, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_wider_than_the_window(window, width, scheme):
    page = window(width=width, scheme=scheme)
    assert page.page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.page.is_visible("#keys")
    assert page.page.is_visible("footer kbd")


def test_focus_is_visible(window):
    page = window()
    for _ in range(6):
        page.press("Tab")
        style = page.page.evaluate(
            "(({outlineStyle, outlineWidth}) => [outlineStyle, outlineWidth])"
            "(getComputedStyle(document.activeElement))"
        )
        assert style[0] != "none"
        assert float(re.match(r"[0-9.]+", style[1])[0]) >= 1


@pytest.mark.slow
def test_twenty_corrections_and_twenty_queries_at_thirty_thousand_nodes(browser, tmp_path):
    data = make_planted(
        cluster_size=10_000, p=0.0008, q=0.0003, omega=0.5, label_ratio=0.03,
        label_accuracy=0.85, random_state=0,
    )  # fmt: skip
    fitted = NodeClassifier(random_state=0).fit(data.X, data.y, graph=data.graph).fitted_
    wrong = int((fitted.given[fitted.labelled] != data.y_true[fitted.labelled]).sum())
    with RunningApp(fitted, tmp_path) as app, browser.new_context() as context:
        context.set_default_timeout(60_000)
        page = AppPage(context.new_page(), app)
        corrected = asked = 0
        while corrected < 20:
            row = page.node
            truth = int(data.y_true[row])
            corrected += truth != fitted.given[row]
            page.answer(truth)
        page.press("t")
        page.settle()
        while asked < 20:
            page.answer(int(data.y_true[page.node]))
            asked += 1
        page.refit()
        after = app.session.fitted
        labelled = after.labelled
        assert int((after.given[labelled] != data.y_true[labelled]).sum()) == wrong - corrected
        assert len(labelled) == len(fitted.labelled) + asked
        accuracy = [float((model.codes == data.y_true).mean()) for model in (fitted, after)]
        assert accuracy[1] >= accuracy[0] - 0.001
        assert "refit 1" in page.text("#rounds")
        assert page.errors == []
    assert LabelState(fitted, Journal(tmp_path / JOURNAL)).reviewed.sum() >= 40
