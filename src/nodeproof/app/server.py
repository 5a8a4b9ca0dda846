"""The server of the app: for this machine alone, and for whoever has the token.

Requests must come to 127.0.0.1 under a name of this machine (`Host`), from a page of this server
(`Origin`), with the token that was printed at the start (in the address once, then in a cookie that
scripts cannot read). Files are served by name from a fixed list.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import secrets
from collections.abc import Callable
from contextlib import suppress
from importlib import resources
from typing import Any

from nodeproof.app.session import Session
from nodeproof.errors import InputError, MissingExtraError

try:
    import tornado.httpserver
    import tornado.iostream
    import tornado.netutil
    import tornado.web
except ImportError:
    raise MissingExtraError("tornado", "app") from None

__all__ = ["Server"]

_HOST = "127.0.0.1"

# Bytes of a request: labels for all nodes of a map fit.
_MOST_BYTES = 4_000_000

# Seconds between two looks at the journal, and two signs of life to a window.
_LOOK, _SIGN = 0.4, 15.0

# What can be served, with the package that it lies in.
_FILES = {
    "app.js": ("nodeproof.app", "text/javascript"),
    "views.js": ("nodeproof.app", "text/javascript"),
    "app.css": ("nodeproof.app", "text/css"),
    "node_map.js": ("nodeproof.report", "text/javascript"),
}

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Server:
    """The app on a port of this machine.

    Parameters
    ----------
    session : Session
        What the windows share.
    port : int
        0: any free one.

    Attributes
    ----------
    address : str
        Where the app is, token included.
    """

    def __init__(self, session: Session, port: int = 0) -> None:
        self.session = session
        self.token = secrets.token_urlsafe(24)
        try:
            self._sockets = tornado.netutil.bind_sockets(port, _HOST)
        except OSError as error:
            reason = error.strerror or error
            raise InputError(f"--port {port} cannot be used ({reason}): give another") from None
        self.port = self._sockets[0].getsockname()[1]
        self.cookie = f"nodeproof-{self.port}"
        self.hosts = {f"{name}:{self.port}" for name in (_HOST, "localhost")}
        self.address = f"http://{_HOST}:{self.port}/?token={self.token}"
        self.ended = False
        self._waiting: set[asyncio.Event] = set()

    async def run(self, ready: Callable[[str], None], stop: asyncio.Event | None = None) -> None:
        """Answer requests until the task is cancelled or `stop` is set.

        Parameters
        ----------
        ready : callable
            Called with the address once requests are answered.
        """
        loop = asyncio.get_running_loop()

        def done(finish: Callable[[], None]) -> None:
            loop.call_soon_threadsafe(finish)

        self.done = done
        self.session.changed = self.notify
        application = tornado.web.Application(
            [
                (r"/", _Page, {"server": self}),
                (r"/static/([a-z_.]+)", _Static, {"server": self}),
                (r"/api/events", _Events, {"server": self}),
                (r"/api/labels\.csv", _Table, {"server": self}),
                (r"/api/node/([0-9]{1,12})", _Node, {"server": self}),
                (r"/api/([a-z]+)", _Call, {"server": self}),
            ],
            default_handler_class=_Missing,
            default_handler_args={"server": self},
            log_function=lambda handler: None,
            compress_response=True,
        )
        http = tornado.httpserver.HTTPServer(
            application, max_body_size=_MOST_BYTES, max_header_size=16_384, body_timeout=20.0
        )
        http.add_sockets(self._sockets)
        looking = asyncio.create_task(self._look())
        try:
            if self.session.asking:
                self.session.ask(done)
            ready(self.address)
            await (stop or asyncio.Event()).wait()
        finally:
            looking.cancel()
            http.stop()
            # Streams end by themselves: a cancelled `wait_for` whose event is set goes on waiting.
            self.ended = True
            self.notify()

    def notify(self) -> None:
        """Tell all windows that something has changed."""
        for event in self._waiting:
            event.set()

    async def _look(self) -> None:
        """Watch the journal for labels of other processes, and a job for its progress."""
        while True:
            await asyncio.sleep(_LOOK)
            # A journal that cannot be read is told to whoever asks for the state.
            with suppress(InputError, OSError):
                if self.session.labels.catch_up() or self.session.job.what:
                    self.notify()


class _Handler(tornado.web.RequestHandler):
    """Checks who asks before anything else."""

    def initialize(self, server: Server) -> None:
        self.server = server
        self.session = server.session

    def set_default_headers(self) -> None:
        for name, value in _HEADERS.items():
            self.set_header(name, value)
        self.clear_header("Server")

    def prepare(self) -> None:
        request, server = self.request, self.server
        if request.headers.get_list("Host") != [request.host] or request.host not in server.hosts:
            raise tornado.web.HTTPError(403, reason="Wrong host")
        origins = request.headers.get_list("Origin")
        own = {f"http://{host}" for host in server.hosts}
        if any(origin not in own for origin in origins):
            raise tornado.web.HTTPError(403, reason="Wrong origin")
        if request.method == "POST" and not origins:
            raise tornado.web.HTTPError(403, reason="No origin")
        if not self.has_token():
            raise tornado.web.HTTPError(403, reason="No token")

    def has_token(self) -> bool:
        return self._is_token(self.get_cookie(self.server.cookie) or "")

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self.server.token.encode())

    def write_error(self, status_code: int, **details: Any) -> None:
        error = details.get("exc_info", (None, None))[1]
        if isinstance(error, InputError):
            self.set_status(400)
            self.finish({"error": str(error)})
            return
        texts = {403: "Open the address that nodeproof has printed, with its token."}
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(f"{status_code} {self._reason}. {texts.get(status_code, '')}\n")

    def log_exception(self, typ: Any, value: Any, tb: Any) -> None:
        if not isinstance(value, InputError | tornado.web.HTTPError):
            super().log_exception(typ, value, tb)

    @property
    def window(self) -> str:
        """What a window calls itself."""
        return self.request.headers.get("X-Window", "")[:40]


class _Missing(_Handler):
    def prepare(self) -> None:
        super().prepare()
        raise tornado.web.HTTPError(404)


class _Page(_Handler):
    def has_token(self) -> bool:
        # The page of the first request sets the cookie: after a redirect from elsewhere, browsers
        # would not send it.
        if self._is_token(self.get_query_argument("token", "")):
            self.set_cookie(
                self.server.cookie, self.server.token, httponly=True, samesite="Strict", path="/"
            )
            return True
        return super().has_token()

    def get(self) -> None:
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.finish(_read("nodeproof.app", "page.html"))


class _Static(_Handler):
    def get(self, name: str) -> None:
        if name not in _FILES:
            raise tornado.web.HTTPError(404)
        package, kind = _FILES[name]
        try:
            text = _read(package, name)
        except FileNotFoundError:
            raise tornado.web.HTTPError(404) from None
        self.set_header("Content-Type", f"{kind}; charset=utf-8")
        self.finish(text)


class _Table(_Handler):
    def get(self) -> None:
        self.set_header("Content-Type", "text/csv; charset=utf-8")
        self.set_header("Content-Disposition", 'attachment; filename="labels.csv"')
        self.finish(self.session.table())


class _Node(_Handler):
    def get(self, row: str) -> None:
        self.finish(self.session.describe(int(row)))


class _Call(_Handler):
    """Questions by GET, actions by POST with JSON."""

    def get(self, name: str) -> None:
        session = self.session
        if name == "start":
            self.finish(session.start(self.window))
        elif name == "state":
            self.finish(session.state(self.window))
        elif name == "map":
            self.finish(session.map_state())
        else:
            raise tornado.web.HTTPError(404)

    def post(self, name: str) -> None:
        given = self._body()
        session, done = self.session, self.server.done
        answer: dict[str, Any] = {}
        if name == "label":
            kind = str(given.get("kind", ""))
            session.label(given.get("nodes"), given.get("labels"), kind, self.window)
        elif name == "undo":
            answer["nodes"] = session.undo(self.window)
        elif name == "refit":
            answer["started"] = session.refit(done)
        elif name == "write":
            answer["started"] = session.write(done)
        else:
            raise tornado.web.HTTPError(404)
        self.finish({**answer, "state": session.state(self.window)})

    def _body(self) -> dict[str, Any]:
        kind = self.request.headers.get("Content-Type", "")
        if kind.partition(";")[0].strip() != "application/json":
            raise tornado.web.HTTPError(415, reason="Only JSON")
        try:
            given = json.loads(self.request.body)
        except (ValueError, RecursionError):
            given = None
        if not isinstance(given, dict):
            raise InputError("the request is not a JSON object")
        return given


class _Events(_Handler):
    """A stream of short events: the version of the labels, the round of fits, and the job."""

    async def get(self) -> None:
        self.set_header("Content-Type", "text/event-stream")
        event = asyncio.Event()
        self.server._waiting.add(event)
        self._gone = False
        try:
            with suppress(tornado.iostream.StreamClosedError):
                while not (self._gone or self.server.ended):
                    session = self.session
                    job = session.job
                    news = {
                        "version": session.labels.version,
                        "round": session.round,
                        "job": job.what,
                        "sweep": job.sweep,
                    }
                    self.write(f"data: {json.dumps(news)}\n\n")
                    await self.flush()
                    with suppress(TimeoutError):
                        await asyncio.wait_for(event.wait(), _SIGN)
                    event.clear()
        finally:
            self.server._waiting.discard(event)

    def on_connection_close(self) -> None:
        self._gone = True
        for event in self.server._waiting:
            event.set()


def _read(package: str, name: str) -> bytes:
    return resources.files(package).joinpath(name).read_bytes()
