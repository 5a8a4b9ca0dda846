"""The browser of the page tests sees what it should."""

import pytest

from browser_helpers import find_chromium

PAGE = """<!doctype html><html lang="en"><title>A page</title><h1>One</h1>
<img alt="" src="data:image/gif;base64,R0lGODlhAQABAAAAACwAAAAAAQABAAA=">
<script>document.querySelector("h1").onclick = e => { e.target.textContent = "Two"; };</script>"""


@pytest.fixture
def show(tmp_path, browser_page):
    """Open a page of this text."""

    def opened(text, **size):
        path = tmp_path / "a page.html"
        path.write_text(text, encoding="utf-8")
        return browser_page.open(path, **size)

    return opened


def test_a_page_that_does_nothing_wrong_leaves_no_trace(browser_page, show):
    page = show(PAGE, width=400)
    page.click("h1")
    assert page.inner_text("h1") == "Two"
    assert page.evaluate("innerWidth") == 400
    assert browser_page.errors == []
    assert browser_page.fetched == []
    assert browser_page.requests


@pytest.mark.parametrize(
    ("script", "seen"),
    [
        ("console.error('told')", "error: told"),
        ("console.warn('warned')", "warning: warned"),
        ("throw Error('thrown')", "uncaught: thrown"),
    ],
)
def test_errors_of_a_page_are_seen(browser_page, show, script, seen):
    show(f"{PAGE}<script>{script}</script>")
    assert browser_page.errors == [seen]


def test_what_a_page_fetches_is_seen_and_gets_nothing(browser_page, show):
    show(f'{PAGE}<img alt="" src="https://example.org/pixel.png">')
    assert browser_page.fetched == ["https://example.org/pixel.png"]
    assert browser_page.errors


def test_without_chromium_none_is_found(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("NODEPROOF_CHROMIUM", raising=False)
    assert find_chromium() is None
