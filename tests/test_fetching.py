"""Public data sets: where they are looked for, and how a download is checked and kept."""

from __future__ import annotations

import hashlib
import io
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nodeproof.datasets import Dataset, available, fetching, load, loading
from nodeproof.datasets.archives import write_archive
from nodeproof.datasets.fetching import REGISTRY, Source, find_source
from nodeproof.datasets.reading import FORMATS
from nodeproof.errors import InputError
from planetoid_helpers import citations, write_planetoid


class Server:
    """A server on this machine: ``files`` are sent, ``cut`` ones only in part.

    What is asked of a server with `answer` is left to that function, which gets the handler.
    """

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.cut: set[str] = set()
        self.asked: list[str] = []
        self.answer: Callable[[BaseHTTPRequestHandler], None] | None = None
        self.closing = threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                name = self.path.rpartition("/")[2]
                server.asked.append(name)
                if server.answer is not None:
                    with suppress(OSError):  # whoever asked has gone
                        server.answer(self)
                    return
                if name not in server.files:
                    self.send_error(404)
                    return
                content = server.files[name]
                self.send_response(200)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content[: len(content) // 2] if name in server.cut else content)

            def log_message(self, *_: Any) -> None:
                """Stay silent."""

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.home = f"http://127.0.0.1:{self.http.server_address[1]}/data"
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.closing.set()
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    found = Server()
    yield found
    found.close()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache is a fresh folder, and nothing else is looked at."""
    monkeypatch.delenv("NODEPROOF_DATA", raising=False)
    monkeypatch.setattr(loading, "cache_folder", lambda source: tmp_path / "cache" / source.name)
    return tmp_path / "cache"


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def register(monkeypatch: pytest.MonkeyPatch, source: Source) -> None:
    monkeypatch.setitem(REGISTRY, source.name, source)


def archive(tmp_path: Path, n: int = 3) -> bytes:
    graph = np.triu(np.ones((n, n)), 1)
    path = tmp_path / "made.npz"
    write_archive(Dataset(__import__("scipy.sparse").sparse.csr_array(graph + graph.T)), path)
    return path.read_bytes()


@pytest.fixture
def tiny(server: Server, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Source:
    """A data set in one file whose checksum is known."""
    server.files["tiny.npz"] = archive(tmp_path)
    files: dict[str, str | None] = {"tiny.npz": sha256(server.files["tiny.npz"])}
    source = Source("tiny", 3, "npz", server.home, "Nobody 2020", files)
    register(monkeypatch, source)
    return source


@pytest.fixture
def unlisted(tiny: Source, monkeypatch: pytest.MonkeyPatch) -> Source:
    """The same without a known checksum."""
    source = replace(tiny, files={"tiny.npz": None})
    register(monkeypatch, source)
    return source


def content_of(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.rglob("*") if path.is_file())


def refusal(name: str, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        load(name, **options)
    assert caught.value.__context__ is None or caught.value.__suppress_context__
    return str(caught.value)


# Files with a known checksum


def test_a_good_file_is_fetched_once(server: Server, tiny: Source, cache: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load("tiny").graph.shape == (3, 3)
        assert load("tiny").graph.shape == (3, 3)
    assert server.asked == ["tiny.npz"]
    assert content_of(cache) == ["tiny.npz"]
    assert (cache / "tiny" / "tiny.npz").read_bytes() == server.files["tiny.npz"]


def test_a_changed_file_is_refused_and_not_kept(server: Server, tiny: Source, cache: Path) -> None:
    good = server.files["tiny.npz"]
    server.files["tiny.npz"] = good + b"x"
    message = refusal("tiny")
    assert f"{server.home}/tiny.npz is not the file that it must be" in message
    assert str(tiny.files["tiny.npz"]) in message
    assert content_of(cache) == []
    server.files["tiny.npz"] = good
    assert load("tiny").graph.shape == (3, 3)


def test_a_file_that_was_cut_off_is_not_kept(server: Server, tiny: Source, cache: Path) -> None:
    server.cut.add("tiny.npz")
    assert f"cannot fetch {server.home}/tiny.npz" in refusal("tiny")
    assert content_of(cache) == []
    server.cut.clear()
    server.files["tiny.npz"] = server.files["tiny.npz"][:-50]
    assert "is not the file that it must be" in refusal("tiny")
    assert content_of(cache) == []


def test_what_is_not_there_or_not_reached_is_named(
    server: Server, tiny: Source, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = server.files.pop("tiny.npz")
    assert f"cannot fetch {server.home}/tiny.npz: 404" in refusal("tiny")
    server.files["tiny.npz"] = content
    register(monkeypatch, replace(tiny, home="http://127.0.0.1:9/data"))
    assert "cannot fetch http://127.0.0.1:9/data/tiny.npz" in refusal("tiny")
    assert content_of(cache) == []


def test_a_file_that_changed_in_the_cache_is_refused(
    server: Server, tiny: Source, cache: Path
) -> None:
    load("tiny")
    path = cache / "tiny" / "tiny.npz"
    path.write_bytes(path.read_bytes() + b"x")
    message = refusal("tiny")
    assert str(path) in message
    assert "delete the file to fetch it again" in message
    assert server.asked == ["tiny.npz"]
    path.unlink()
    load("tiny")
    assert len(server.asked) == 2


def test_sets_of_several_files_are_fetched_whole(
    server: Server, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_planetoid(tmp_path / "raw", citations())
    server.files = {path.name: path.read_bytes() for path in folder.iterdir()}
    files: dict[str, str | None] = {name: sha256(found) for name, found in server.files.items()}
    register(monkeypatch, Source("tiny", 7, "planetoid", server.home, "Nobody", files))
    server.files["ind.tiny.graph"] += b"."
    assert "ind.tiny.graph is not the file that it must be" in refusal("tiny")
    assert "ind.tiny.graph" not in content_of(cache)
    server.files["ind.tiny.graph"] = server.files["ind.tiny.graph"][:-1]
    assert load("tiny").graph.shape == (7, 7)
    assert sorted(set(server.asked)) == content_of(cache) == sorted(files)
    assert len(server.asked) == 8 + 1  # what was good is not fetched again
    server.asked.clear()
    load("tiny")
    assert server.asked == []


# Files without one


def test_a_first_download_is_trusted_and_says_so(
    server: Server, unlisted: Source, cache: Path
) -> None:
    with pytest.warns(UserWarning, match="this first download is trusted") as caught:
        load("tiny")
    assert len(caught) == 1
    record = cache / "tiny" / "tiny.npz.sha256"
    assert str(record) in str(caught[0].message)
    assert "\n" not in str(caught[0].message)
    assert caught[0].filename == __file__
    assert record.read_text() == f"{sha256(server.files['tiny.npz'])}  tiny.npz\n"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load("tiny")
    assert server.asked == ["tiny.npz"]


@pytest.mark.filterwarnings("ignore:no checksum")
def test_later_reads_and_downloads_must_match_the_first(
    server: Server, unlisted: Source, cache: Path, tmp_path: Path
) -> None:
    load("tiny")
    path = cache / "tiny" / "tiny.npz"
    good = path.read_bytes()
    path.write_bytes(archive(tmp_path, n=4))
    assert "has changed" in refusal("tiny")
    path.unlink()
    server.files["tiny.npz"] = archive(tmp_path, n=4)
    assert "is not the file that it must be" in refusal("tiny")
    assert content_of(cache) == ["tiny.npz.sha256"]
    server.files["tiny.npz"] = good
    assert load("tiny").graph.shape == (3, 3)


@pytest.mark.filterwarnings("ignore:no checksum")
def test_a_first_download_that_cannot_be_read_is_not_kept(
    server: Server, unlisted: Source, cache: Path
) -> None:
    good = server.files["tiny.npz"]
    server.cut.add("tiny.npz")
    assert "cannot fetch" in refusal("tiny")
    assert content_of(cache) == []
    server.cut.clear()
    for bad in (good[:-50], b"<html>no such page</html>", b""):
        server.files["tiny.npz"] = bad
        assert "cannot be read" in refusal("tiny")
        assert content_of(cache) == []
    server.files["tiny.npz"] = good
    assert load("tiny").graph.shape == (3, 3)


def test_a_file_that_someone_put_into_the_cache_is_trusted_from_then_on(
    server: Server, unlisted: Source, cache: Path
) -> None:
    (cache / "tiny").mkdir(parents=True)
    (cache / "tiny" / "tiny.npz").write_bytes(server.files["tiny.npz"])
    load("tiny")
    assert server.asked == []
    assert content_of(cache) == ["tiny.npz", "tiny.npz.sha256"]


def test_downloads_can_be_watched(server: Server, tiny: Source) -> None:
    class Watch:
        total = 0
        seen = 0

        def update(self, size: int) -> None:
            self.seen += size

        def reset(self) -> None:
            self.seen = 0

        def close(self) -> None:
            self.closed = True

    watch = Watch()
    load("tiny", progress=watch)
    assert watch.seen == watch.total == len(server.files["tiny.npz"])
    assert watch.closed


def test_without_pooch_the_install_command_is_named(
    tiny: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(ImportError, match=r"pip install 'nodeproof\[data\]'"):
        load("tiny")


def test_the_cache_is_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = fetching.cache_folder(find_source("cora"))
    assert folder.parts[-2:] == ("nodeproof", "cora")


@pytest.mark.parametrize(
    "damage", [b"", b"\n", b"23cfa55d91c6", b"no sum  tiny.npz\n", b"\xff\x00"]
)
@pytest.mark.filterwarnings("ignore:no checksum")
def test_a_damaged_record_of_a_checksum_vouches_for_nothing(
    server: Server, unlisted: Source, cache: Path, damage: bytes
) -> None:
    load("tiny")
    path = cache / "tiny" / "tiny.npz"
    record = fetching.record_of(path)
    record.write_bytes(damage)
    for _ in range(2):  # with the file and without
        message = refusal("tiny")
        assert f"{record} is damaged" in message
        assert "delete it and tiny.npz to fetch the file again" in message
        path.unlink(missing_ok=True)
    record.unlink()
    assert load("tiny").graph.shape == (3, 3)


# Downloads that do not end by themselves


def send_for_ever(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    while True:
        handler.wfile.write(bytes(1 << 16))


def redirect_for_ever(handler: BaseHTTPRequestHandler) -> None:
    if handler.path.endswith("elsewhere"):
        handler.send_error(404)
        return
    handler.send_response(302)
    handler.send_header("Location", "/elsewhere")
    handler.end_headers()
    while True:
        handler.wfile.write(bytes(1 << 16))


def promise_too_much(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", str(10**15))
    handler.end_headers()
    handler.wfile.write(bytes(1000))


@pytest.mark.parametrize("megabytes", [None, 0.001, 0.2])
@pytest.mark.parametrize("answer", [send_for_ever, promise_too_much])
def test_a_download_brings_no_more_than_the_data_set_should_have(
    server: Server, tiny: Source, cache: Path, monkeypatch: pytest.MonkeyPatch, megabytes, answer
) -> None:
    monkeypatch.setattr(fetching, "_UNLISTED", 3 * 2**20)
    monkeypatch.setattr(fetching, "_SMALL", 2**20)
    register(monkeypatch, replace(tiny, megabytes=megabytes))
    server.answer = answer
    message = refusal("tiny")
    assert f"cannot fetch {server.home}/tiny.npz: it is larger than " in message
    assert f"larger than {'3.1' if megabytes is None else '1.0'} MB" in message
    assert content_of(cache) == []


def test_what_a_redirect_brings_along_is_not_read(
    server: Server, tiny: Source, cache: Path
) -> None:
    server.answer = redirect_for_ever
    assert "404" in refusal("tiny")
    assert content_of(cache) == []


@pytest.mark.parametrize("what", ["header", "content"])
def test_a_download_that_trickles_is_given_up(
    server: Server, tiny: Source, cache: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Every byte comes soon after the one before: only the whole takes too long."""
    monkeypatch.setattr(fetching, "_PATIENCE", 0.3)
    monkeypatch.setattr(fetching, "_SLOWEST", 10**12)

    def trickle(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
        if what == "content":
            handler.wfile.write(b"Content-Length: 100000\r\n\r\n")
        while not server.closing.wait(0.01):
            handler.wfile.write(b"x")

    server.answer = trickle
    assert "it was not complete after 0 seconds" in refusal("tiny")
    assert content_of(cache) == []


def test_a_download_that_stalls_is_given_up(
    server: Server, tiny: Source, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "_STALLED", 0.1)
    server.answer = lambda handler: server.closing.wait() and None
    assert "timed out" in refusal("tiny")
    assert content_of(cache) == []


# Folders that are looked at first


def test_a_folder_comes_before_the_variable_and_the_cache(
    server: Server, tiny: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = {}
    for name, n in (("folder", 5), ("variable", 4)):
        places[name] = tmp_path / name
        places[name].mkdir()
        (places[name] / "tiny.npz").write_bytes(archive(tmp_path, n))
    monkeypatch.setenv("NODEPROOF_DATA", str(places["variable"]))
    assert load("tiny", folder=places["folder"]).graph.shape == (5, 5)
    assert load("tiny").graph.shape == (4, 4)
    (places["folder"] / "tiny.npz").unlink()
    assert load("tiny", folder=str(places["folder"])).graph.shape == (4, 4)
    (places["variable"] / "tiny.npz").unlink()
    assert server.asked == []
    assert load("tiny", folder=places["folder"]).graph.shape == (3, 3)
    assert "is not a folder" in refusal("tiny", folder=tmp_path / "missing")


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("roman-empire", "roman-empire.npz"),
        ("roman-empire", "roman_empire.npz"),
        ("amazon_photo", "amazon-photo.npz"),
        ("amazon_photo", "amazon_electronics_photo.npz"),
        ("ogbn-arxiv", "ogbn_arxiv.npz"),
    ],
)
def test_published_names_and_ours_are_found(
    tmp_path: Path, cache: Path, name: str, file: str
) -> None:
    (tmp_path / file).write_bytes(archive(tmp_path))
    assert load(name, folder=tmp_path).graph.shape == (3, 3)


@pytest.mark.parametrize("below", ["", "cora"])
def test_raw_files_in_a_folder_are_found(tmp_path: Path, cache: Path, below: str) -> None:
    write_planetoid(tmp_path / below, citations(), name="cora")
    write_planetoid(tmp_path, citations(), name="another")
    assert load("Cora", folder=tmp_path).graph.shape == (7, 7)


def test_a_folder_of_that_name_without_data_is_passed_over(
    tmp_path: Path, server: Server, tiny: Source
) -> None:
    (tmp_path / "tiny").mkdir()
    assert load("tiny", folder=tmp_path).graph.shape == (3, 3)
    assert server.asked == ["tiny.npz"]


def test_a_broken_file_in_a_folder_is_named(tmp_path: Path, tiny: Source) -> None:
    (tmp_path / "tiny.npz").write_bytes(b"broken")
    assert str(tmp_path / "tiny.npz") in refusal("tiny", folder=tmp_path)


# The registry


def test_names_are_found_however_they_are_written() -> None:
    assert find_source("Amazon-Photo").name == "amazon_photo"
    assert find_source("OGBN_arxiv").name == "ogbn-arxiv"
    with pytest.raises(InputError, match="there is no data set 'nonsense'; there are cora, "):
        load("nonsense")


def test_the_registry_is_sound() -> None:
    assert available() == list(REGISTRY)
    for name, source in REGISTRY.items():
        assert source.name == name
        assert source.format in {*FORMATS, "networkx"}
        assert source.home.startswith("https://")
        assert bool(source.files) == (source.format != "networkx")
        for checksum in source.files.values():
            assert checksum is None or (len(checksum) == 64 and int(checksum, 16))
    assert REGISTRY["cora"].checked
    assert len(REGISTRY["cora"].files) == 8
    every = [known for source in REGISTRY.values() for known in source.files.values() if known]
    assert len(set(every)) == len(every)


def test_the_karate_club_needs_no_download(cache: Path) -> None:
    data = load("karate")
    assert repr(data) == "Dataset(n=34, edges=78, n_features=None, n_classes=2, masks=[])"
    assert data.y is not None
    assert data.y[0] == 0
    assert data.y[33] == 1
    assert np.bincount(data.y).tolist() == [17, 17]
    assert set(data.graph.data) == {1.0}


@pytest.mark.parametrize(
    ("place", "reason"),
    [("http://example.org/tiny.npz", "not https"), ("https://example.org/tiny.npz", "too far")],
)
def test_a_download_never_leaves_https(unlisted, cache, monkeypatch, place, reason):
    requests = pytest.importorskip("requests")
    urllib3 = pytest.importorskip("urllib3")

    def send(self: Any, request: Any, **_: Any) -> Any:
        if "example.org" in request.url:
            raise requests.ConnectionError("too far")
        response = requests.Response()
        response.status_code, response.url, response.request = 302, request.url, request
        response.headers["location"] = place
        response.raw = urllib3.HTTPResponse(io.BytesIO(), preload_content=False)
        return response

    monkeypatch.setattr(requests.adapters.HTTPAdapter, "send", send)
    register(monkeypatch, replace(unlisted, home="https://home.example/data"))
    assert reason in refusal("tiny")
    assert content_of(cache) == []
