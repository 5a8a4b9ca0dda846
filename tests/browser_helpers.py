"""A real browser for tests of pages: Chromium without a window, driven by Playwright.

Tests take the fixture `browser_page`. Where there is no Chromium or no Playwright, they skip.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

FLAGS = [
    "--no-sandbox",  # Chromium has none for root, as in a container
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
#: What a page may load without a network.
LOCAL = ("file:", "data:", "blob:", "about:")


def find_chromium() -> str | None:
    """Return the path of Chromium: what NODEPROOF_CHROMIUM names, or the first in PATH."""
    names = (os.environ.get("NODEPROOF_CHROMIUM"), "chromium", "chromium-browser", "google-chrome")
    return next((path for name in names if name and (path := shutil.which(name))), None)


@dataclass
class BrowserPage:
    """A fresh page, and what went on in it.

    Attributes
    ----------
    page : playwright.sync_api.Page
        Clicks, keys, locators, `screenshot`, `emulate_media(color_scheme="dark")`, `pdf` and so on.
    errors : list of str
        What the console was told as an error or a warning, and exceptions that nothing caught.
    requests : list of str
        Addresses that the page asked for, its own file included.
    """

    page: Any
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def open(self, path: Path, width: int = 1280, height: int = 900) -> Any:
        """Load a file in a window of this size; return the page."""
        self.page.set_viewport_size({"width": width, "height": height})
        self.page.goto(Path(path).resolve().as_uri(), wait_until="load")
        return self.page

    @property
    def fetched(self) -> list[str]:
        """What was asked for over a network; empty for a page that is self-contained."""
        return [address for address in self.requests if not address.startswith(LOCAL)]

    def watch(self) -> None:
        """Keep what happens from now on."""
        self.page.on("console", self._told)
        self.page.on("pageerror", lambda error: self.errors.append(f"uncaught: {error}"))
        self.page.on("request", lambda request: self.requests.append(request.url))

    def _told(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(f"{message.type}: {message.text}")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium, one for a module: Playwright's event loop must not outlast it."""
    driver = pytest.importorskip(
        "playwright.sync_api", reason="page tests need Playwright: pip install 'nodeproof[test]'"
    )
    path = find_chromium()
    if path is None:
        pytest.skip("page tests need Chromium: apt-get install chromium, or set NODEPROOF_CHROMIUM")
    with driver.sync_playwright() as running:
        chromium = running.chromium.launch(executable_path=path, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture
def browser_page(browser: Any) -> Iterator[BrowserPage]:
    """Return a page of its own, without a network, as `BrowserPage`."""
    with browser.new_context(offline=True) as context:
        context.set_default_timeout(10_000)
        watched = BrowserPage(context.new_page())
        watched.watch()
        yield watched
