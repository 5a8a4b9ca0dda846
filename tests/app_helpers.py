"""The labelling app for tests: a fitted model in memory, served by a thread, and its page."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nodeproof.app.journal import JOURNAL, Journal
from nodeproof.app.server import Server
from nodeproof.app.session import Session
from nodeproof.fitted import Fitted


class Kept:
    """Outputs that are only remembered."""

    def __init__(self) -> None:
        self.written: list[Fitted] = []

    def write(self, fitted: Fitted) -> list[str]:
        self.written.append(fitted)
        return ["model.npz"]

    def table(self, columns: dict[str, Any]) -> bytes:
        lines = [
            ",".join(columns),
            *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True)),
        ]
        return "\n".join(lines).encode()


class RunningApp:
    """An app that answers until the block ends."""

    def __init__(self, fitted: Fitted, folder: Path, outputs: Any = None) -> None:
        self.outputs = outputs or Kept()
        self.session = Session(fitted, Journal(folder / JOURNAL), self.outputs)
        self.server = Server(self.session)
        self.journal = folder / JOURNAL
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> RunningApp:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)
        self.session.close()

    def _run(self) -> None:
        async def main() -> None:
            self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
            await self.server.run(lambda address: self._ready.set(), self._stop)

        asyncio.run(main())

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.server.port}"

    def ask(
        self, path: str, body: Any = None, method: str | None = None, **headers: str | None
    ) -> tuple[int, Any, dict[str, str]]:
        """Send a request as a page would, but for these headers; None leaves one out.

        Returns
        -------
        status, body (as JSON if it is), headers
        """
        sent: dict[str, str | None] = {
            "Cookie": f"{self.server.cookie}={self.server.token}",
            "Origin": self.origin,
            "X-Window": "test",
            "Content-Type": "application/json",
        } | {name.replace("_", "-"): value for name, value in headers.items()}
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        kept = {name: value for name, value in sent.items() if value is not None}
        connection.request(method or ("GET" if body is None else "POST"), path, data, kept)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        found = dict(answer.getheaders())
        is_json = "json" in found.get("Content-Type", "")
        return answer.status, json.loads(text) if is_json else text, found


class AppPage:
    """A window of the app in a browser, used by keyboard.

    Attributes
    ----------
    errors : list of str
        What the console was told as an error or a warning, and exceptions that nothing caught.
    foreign : list of str
        Addresses of other servers that the page asked for.
    """

    def __init__(
        self, page: Any, app: Any, width: int = 1280, height: int = 900, scheme: str = "light"
    ) -> None:
        self.page = page
        self.errors: list[str] = []
        self.foreign: list[str] = []
        page.on("console", self._told)
        page.on("pageerror", lambda error: self.errors.append(f"uncaught: {error}"))
        page.on("request", self._requested)
        address = app if isinstance(app, str) else app.server.address
        self.origin = address.partition("/?")[0]
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme=scheme)
        page.goto(address)
        self.ready()

    def _told(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(f"{message.type}: {message.text}")

    def _requested(self, request: Any) -> None:
        if not request.url.startswith((self.origin + "/", "data:", "blob:")):
            self.foreign.append(request.url)

    def ready(self) -> None:
        """Wait until the first node is shown."""
        self.page.wait_for_selector("html[data-app=ready]")
        self.settle()

    def settle(self) -> None:
        """Wait until a node, or that none is left, is shown."""
        self.page.wait_for_selector("html[data-node]:not([data-node=''])")

    @property
    def node(self) -> int:
        """The position of the node that is shown."""
        self.settle()
        return int(self.page.evaluate("document.documentElement.dataset.node"))

    def text(self, selector: str) -> str:
        """Return what an element says."""
        return str(self.page.inner_text(selector))

    def press(self, key: str) -> None:
        """Press a key."""
        self.page.keyboard.press(key)

    def answer(self, code: int | None = None) -> None:
        """Label the node as a class, or keep what is there; wait until that is saved."""
        saved = self._saved()
        self.settle()
        self.press("Enter" if code is None else str(code + 1))
        self.wait_saved(saved + 1)
        self.settle()

    def undo(self) -> None:
        """Undo the last label; wait until that is saved."""
        saved = self._saved()
        self.press("u")
        self.wait_saved(saved + 1)
        self.settle()

    def refit(self) -> None:
        """Fit again; wait for the end."""
        rounds = int(self.page.evaluate("document.documentElement.dataset.round"))
        self.press("r")
        self.wait_round(rounds + 1)

    def wait_node(self, until: Callable[[int], bool]) -> int:
        """Wait for a node that meets a condition."""
        for _ in range(200):
            if until(self.node):
                return self.node
            self.page.wait_for_timeout(25)
        raise AssertionError(f"still node {self.node}")

    def wait_saved(self, count: int) -> None:
        """Wait until so many labels of this window are saved."""
        self.page.wait_for_function(
            "count => Number(document.documentElement.dataset.saved ?? 0) >= count", arg=count
        )

    def wait_round(self, number: int) -> None:
        """Wait for the end of a refit."""
        self.page.wait_for_selector(f"html[data-round='{number}'][data-job=none]")

    def wait_counted(self, reviewed: int) -> None:
        """Wait until the page counts so many nodes as looked at, by all windows."""
        self.page.wait_for_function(
            "text => document.getElementById('tiles').innerText.includes(text)",
            arg=f"{reviewed}\nlooked at",
        )

    def _saved(self) -> int:
        return int(self.page.evaluate("document.documentElement.dataset.saved ?? 0"))
