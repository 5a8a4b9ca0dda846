"""The documentation builds, and its pages need nothing but themselves."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

pytest.importorskip("mkdocs", reason="without nodeproof[docs]")
pytest.importorskip("latex2mathml", reason="without nodeproof[docs]")


@pytest.fixture
def hooks(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs/hooks"))
    yield
    for name in ("formulas", "offline", "roles"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    "loading",
    [
        '<script src="https://cdn.org/a.js"></script>',
        '<img alt="" src="//cdn.org/a.png">',
        '<img src="a.png" srcset="a.png 1x, https://cdn.org/b.png 2x">',
        '<link rel="stylesheet" href="https://fonts.org/css">',
        '<p style="background: url(http://cdn.org/a.png)">',
        "<style>@import 'https://cdn.org/a.css';</style>",
        "@font-face { src: url( 'https://cdn.org/a.woff' ); }",
    ],
)
def test_what_a_page_loads_from_elsewhere_is_found(hooks, loading):
    from offline import loads

    [address] = loads(loading)
    assert "cdn.org" in address or "fonts.org" in address


@pytest.mark.parametrize(
    "harmless",
    [
        '<a href="https://docs.dask.org">Dask</a>',
        '<link rel="canonical" href="https://example.org">',
        '<script src="assets/a.js"></script><img src="img/a.png">',
        '<svg xmlns="http://www.w3.org/2000/svg"></svg>',
        "a { background: url(data:image/png;base64,AAAA) }",
    ],
)
def test_links_and_files_of_its_own_are_no_loads(hooks, harmless):
    from offline import loads

    assert loads(harmless) == []


def test_a_site_that_loads_from_elsewhere_is_not_built(hooks, tmp_path):
    from mkdocs.exceptions import PluginError
    from offline import on_post_build

    (tmp_path / "index.html").write_text("<p>fine</p>")
    on_post_build({"site_dir": str(tmp_path)})
    (tmp_path / "page.html").write_text('<img src="https://cdn.org/a.png">')
    with pytest.raises(PluginError, match=r"page\.html loads https://cdn\.org"):
        on_post_build({"site_dir": str(tmp_path)})


def test_formulas_become_mathml(hooks):
    from formulas import on_page_content

    page = r'so <span class="arithmatex">\(x_v &lt; 1\)</span> <code>$y$</code>'
    drawn = on_page_content(page)
    assert '<math xmlns="http://www.w3.org/1998/Math/MathML" display="inline">' in drawn
    assert "&lt;" in drawn or "&#x0003C;" in drawn
    assert drawn.startswith("so ")
    assert drawn.endswith("<code>$y$</code>")
    with pytest.raises(ValueError, match="not known"):
        on_page_content(r'<span class="arithmatex">\(\nonsense x\)</span>')


def test_the_font_has_what_formulas_need(hooks):
    from io import BytesIO

    from fontTools.ttLib import TTFont
    from formulas import font_of

    font = TTFont(BytesIO(font_of({"x", "∑", "2"})))
    assert "MATH" in font
    assert {ord("x"), ord("∑"), ord("2"), 0x1D465, ord("√")} <= set(font.getBestCmap())
    assert ord("q") not in font.getBestCmap()


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Build all pages, as `make docs` does."""
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    folder = tmp_path_factory.mktemp("site")
    with contextlib.chdir(ROOT):
        build(load_config(str(ROOT / "mkdocs.yml"), strict=True, site_dir=str(folder)))
    return folder


@pytest.mark.slow  # renders every page: half a minute
def test_every_page_is_built(site):
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")}
    assert pages <= {path.stem for path in site.glob("*.html")}
    for path in site.rglob("*.html"):
        assert 'class="arithmatex"' not in path.read_text(), path.name


@pytest.mark.slow  # needs what the test above has built
@pytest.mark.parametrize("name", ["index", "method", "api"])
def test_pages_open_from_a_disk_without_errors(site, browser_page, name):
    browser_page.open(site / f"{name}.html")
    assert browser_page.errors == []
    assert browser_page.fetched == []


@pytest.mark.slow  # needs what the test above has built
def test_the_search_works_from_a_disk(site, browser_page):
    page = browser_page.open(site / "index.html")
    page.click("input[name=query]")
    page.keyboard.type("suspects", delay=20)
    page.wait_for_selector(".md-search-result__item")
    assert "Wrong labels" in page.locator(".md-search-result").inner_text()
    assert browser_page.errors == []
