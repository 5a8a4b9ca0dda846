"""The registry of public data sets, and how their files are fetched once and checked ever after.

A file is kept only if its sha256 is the one in the registry, which lists those on which independent
public sources agree. Where none is listed, the first download is trusted: its sha256 is written
beside the file (``<file>.sha256``), and from then on the file, and any later download of it, must
match. That protects against later changes and damage, but not against a first download that was
already wrong. No download is redirected away from https, and its size and duration are limited.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import Any, BinaryIO
from urllib.parse import urljoin

from rich.filesize import decimal

from nodeproof.datasets.published import PARTS
from nodeproof.errors import InputError, MissingExtraError
from nodeproof.storage.atomic import atomic_path
from nodeproof.storage.npz import reading

__all__ = ["REGISTRY", "Source", "cache_folder", "fetch", "find_source", "forget", "record_of"]


@dataclass(frozen=True)
class Source:
    """A public data set.

    Attributes
    ----------
    name : str
        Its name.
    nodes : int
        Number of nodes.
    format : str
        How its files are read, see `read_graph`; "networkx" if they come with that package.
    home : str
        Address of the folder that holds the files.
    files : dict of str to (str or None)
        Their names and sha256 checksums; None: not known.
    cite : str
        The paper to cite.
    megabytes : float or None
        Size of the download; None: not known.
    """

    name: str
    nodes: int
    format: str
    home: str
    cite: str
    files: dict[str, str | None] = field(default_factory=dict)
    megabytes: float | None = None

    @property
    def checked(self) -> bool:
        """Whether the checksum of every file is known, or nothing needs to be fetched."""
        return None not in self.files.values()


_PLANETOID = (
    "https://raw.githubusercontent.com/kimiyoung/planetoid/"
    "af6abf468a772cc055bec88c52e4d6f51b7c37e3/data"
)
_BENCHMARK = "https://github.com/shchur/gnn-benchmark/raw/master/data/npz"
_NETTACK = (
    "https://raw.githubusercontent.com/danielzuegner/nettack/"
    "6ebfd3ea4d3986795f1a8a3a074fb0a37bb4c02a/data"
)
_HETEROPHILOUS = (
    "https://raw.githubusercontent.com/yandex-research/heterophilous-graphs/"
    "a431395582e929d88271309716bea4fe24ce6318/data"
)
_OGB = "https://snap.stanford.edu/ogb/data/nodeproppred"
_SEN = "Sen et al., Collective classification in network data, AI Magazine 2008"
_NAMATA = "Namata et al., Query-driven active surveying for collective classification, MLG 2012"
_SHCHUR = "Shchur et al., Pitfalls of graph neural network evaluation, 2018"
_PLATONOV = (
    "Platonov et al., A critical look at the evaluation of GNNs under heterophily, ICLR 2023"
)
_HU = "Hu et al., Open Graph Benchmark, NeurIPS 2020"
_HAMILTON = "Hamilton et al., Inductive representation learning on large graphs, NeurIPS 2017"
_ADAMIC = "Adamic and Glance, The political blogosphere and the 2004 U.S. election, LinkKDD 2005"
_ZACHARY = "Zachary, An information flow model for conflict and fission in small groups, 1977"


def _planetoid(
    name: str, nodes: int, megabytes: float | None, cite: str, *checksums: str
) -> Source:
    files = dict(zip((f"ind.{name}.{part}" for part in PARTS), checksums, strict=True))
    return Source(name, nodes, "planetoid", _PLANETOID, cite, {**files}, megabytes)


def _heterophilous(name: str, nodes: int, megabytes: float | None, checksum: str | None) -> Source:
    files = {f"{name.replace('-', '_')}.npz": checksum}
    return Source(name, nodes, "npz", _HETEROPHILOUS, _PLATONOV, files, megabytes)


_SOURCES = (
    _planetoid(
        "cora", 2708, None, _SEN,
        "23cfa55d91c6f624233f5eb7b6e3f141f1bd2b2ae39608a63cf5d084bb27baab",
        "b9afbaa4a400df991f6f02ef677e1e44da55ffc04801fd02f9e673987829226a",
        "9419ba2f26f5c35243db64aba110e0f35a04851609e0dc5433450676ca6b8543",
        "94465c14eb53e04ca262198dcbb2521ee8af60fb3f3d546cd6ca24a511b0e7d1",
        "41f5ac76596a1699cc33f53084a2419e92961c42bb75f36fc38e616d348532ad",
        "2b998f5cc7fedc86e7f97ca2498f47a1ffc1462c29e2d578b23bf3f62b6e7d71",
        "58f13302f39dde8852dad6fe6d15b89b077b6d7f837626bce671ef80344b383d",
        "297ce89af2b51a6a194181c7dbe1796c6a1cf9cd9349a88383b1b1e227867875",
    ),
    _planetoid(
        "citeseer", 3327, 1.0, _SEN,
        "d20de19150741e555de0ed037195630fc194114ebc7fd72ced62810148aa22f6",
        "539a8906a2da97628d212f2fdd668c109a8b3f0d36574b59e5d3fd5b5303da21",
        "2ac30345d95c9ec933a817ee0bdd6a5f077f8c184a20e696910192d534414668",
        "8ba87e515d8e3ee3cf52f6d2c5b86aa73f11ecad825a808455209ec26cd54924",
        "55e5bd1ba1e733a04598753ad1a8d57957f4b8f89e74519f41f4f4938767e4ce",
        "f704b2d986dde6c2669934de1f3ae5696a6cf9455c0f6b2646a2d135ea0a1c95",
        "d79a4ef9d3e7169aee8946145f6b7306e35bc79bffad26346cfb94e10e9912a7",
        "2af990671580b6b2df5d158d1038f8292e30c9cd821b5453f399659b25b723d4",
    ),
    _planetoid(
        "pubmed", 19717, 8.7, _NAMATA,
        "fbe9cb5c47200d1b7769a26e579be3b7130b556831f9d850e77c4c74f2599b33",
        "4eb5f5d0f30f26497eb0ac6ac9719d09c67e284f1ed0385c93f3ef27a671da3d",
        "508e538e2abdccdd54c4d3e9f49d638b4af7107d85845f66ddea5a5152658b7e",
        "e6c807633307a07ed659249006536a147c7999c797f11a2560752990181b41b3",
        "ee2e0d4819d9fbcc403689c3bf2e49face401b605932f093bc58ab6461130fdd",
        "0c37bbe3b5014ec365e9d393cf4791925e5ed94fb194305d74f064a8d7b50f0e",
        "5b89f0036ca22909471f1e6558eb42fa06e0c730a577bde5b058b40638f81dc9",
        "b101d421688bbaecbd82e8a18f1e282378d6830f3a37666f28ebc47f844341b5",
    ),
    Source(
        "amazon_photo", 7650, "npz", _BENCHMARK, _SHCHUR, {"amazon_electronics_photo.npz": None}
    ),
    Source(
        "amazon_computers", 13752, "npz", _BENCHMARK, _SHCHUR,
        {"amazon_electronics_computers.npz": None},
    ),
    Source("coauthor_cs", 18333, "npz", _BENCHMARK, _SHCHUR, {"ms_academic_cs.npz": None}),
    Source("coauthor_physics", 34493, "npz", _BENCHMARK, _SHCHUR, {"ms_academic_phy.npz": None}),
    Source("polblogs", 1490, "npz", _NETTACK, _ADAMIC, {"polblogs.npz": None}),
    Source("karate", 34, "networkx", "https://networkx.org", _ZACHARY),
    _heterophilous(
        "roman-empire", 22662, 20.4,
        "a58ba741d123bf892fe5c872138d07463d75a2e9012360b8dd78ac2d4766d428",
    ),
    _heterophilous(
        "amazon-ratings", 24492, 27.7,
        "4c3a3e3b9d9f6cba0fede4625a00aad8c5721c1a36ed771367f446763241c7dd",
    ),
    _heterophilous(
        "minesweeper", 10000, 0.1,
        "e664c8dacf1e8ac466c2c09ed4b237bd2c5541f47a6eae9c6092cb87f16412b3",
    ),
    _heterophilous(
        "tolokers", 11758, 1.3, "dacf3ac94cec53d03cd2adb5255c08b33dee1656c33ca8164a464bd9450a1667"
    ),
    _heterophilous("questions", 48921, 47.4, None),
    _heterophilous(
        "chameleon-filtered", 890, 0.1,
        "bf46f07e1fb5249280447e5fe3100f3e82fc4b93ad1e13ffcfdec924b6ac0bb5",
    ),
    _heterophilous(
        "squirrel-filtered", 2223, None,
        "f06370ffb3116c5de8b7a600005400b2293c025e0ce2f6916d8201a825505ac7",
    ),
    Source(
        "reddit", 232965, "reddit", "https://data.dgl.ai/dataset", _HAMILTON,
        {"reddit.zip": "9a16353c28f8ddd07148fc5ac9b57b818d7911ea0fbe9052d66d49fc32b372bf"},
        1398.0,
    ),
    Source(
        "ogbn-arxiv", 169343, "ogb", _OGB, _HU,
        {"arxiv.zip": "49f85c801589ecdcc52cfaca99693aaea7b8af16a9ac3f41dd85a5f3193fe276"},
        83.1,
    ),
    Source("ogbn-products", 2449029, "ogb", _OGB, _HU, {"products.zip": None}, 1480.0),
)  # fmt: skip
REGISTRY = {source.name: source for source in _SOURCES}


def find_source(name: str) -> Source:
    """Return the data set of a name; capitals, "-" and "_" make no difference."""
    for source in REGISTRY.values():
        if _plain(source.name) == _plain(name):
            return source
    raise InputError(f"there is no data set {name!r}; there are {', '.join(REGISTRY)}")


def _plain(name: str) -> str:
    return name.lower().replace("_", "-")


# A file may have twice the size that is listed for the whole data set. These are the limits, in
# bytes, where that is little and where no size is listed.
_SMALL, _UNLISTED = 10_000_000, 500_000_000

# A download is given up when nothing comes for `_STALLED` seconds, and in any case after
# `_PATIENCE` seconds and what the largest file allowed takes at `_SLOWEST` bytes per second.
_STALLED, _PATIENCE, _SLOWEST = 30.0, 60.0, 100_000


def cache_folder(source: Source) -> Path:
    """Return the folder where the files of a data set are kept, in the user's cache."""
    return Path(_pooch().os_cache("nodeproof")) / source.name


def fetch(source: Source, folder: Path, progress: Any = None) -> list[Path]:
    """Fetch the files of a data set that are missing in a folder, and return them.

    Parameters
    ----------
    source : Source
        The data set.
    folder : pathlib.Path
        Folder of its files; those that exist already are only checked.
    progress : object, optional
        Progress bar of the download, as for `pooch.HTTPDownloader`.

    Raises
    ------
    InputError
        If a file cannot be fetched, or is not what it must be. Nothing is kept of it.
    """
    most = _UNLISTED if source.megabytes is None else max(_SMALL, int(2e6 * source.megabytes))
    return [
        folder / name
        for name, checksum in source.files.items()
        if _fetch_file(f"{source.home}/{name}", folder / name, checksum, most, progress)
    ]


def forget(path: Path) -> None:
    """Delete a file, and the checksum that its first download left."""
    path.unlink(missing_ok=True)
    record_of(path).unlink(missing_ok=True)


def record_of(path: Path) -> Path:
    """Return the path of the checksum of a first download."""
    return path.with_name(f"{path.name}.sha256")


def _fetch_file(url: str, path: Path, checksum: str | None, most: int, progress: Any) -> bool:
    """Check or fetch one file; tell whether it was fetched."""
    known = checksum or _recorded(path)
    if path.exists():
        if known is None:
            _trust(path, path)
        elif known != _sha256(path):
            raise InputError(
                f"{path} has changed: its sha256 is not {known}; delete the file to fetch it again"
            )
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as temporary:
        _download(url, temporary, most, progress)
        if known is None:
            _trust(temporary, path)
        elif known != _sha256(temporary):
            raise InputError(
                f"{url} is not the file that it must be: its sha256 is not {known}; nothing is kept"
            )
    return True


def _download(url: str, path: Path, most: int, progress: Any) -> None:
    """Download an address, at most `most` bytes, to a file."""
    downloader = _pooch().HTTPDownloader(
        progressbar=progress or False,
        chunk_size=1 << 16,
        timeout=_STALLED,
        hooks={"response": partial(_check_response, most)},
    )
    try:
        with path.open("wb") as file:
            _within(
                _PATIENCE + most / _SLOWEST,
                partial(downloader, url, _Limited(file, most), None),
            )
    except (OSError, ValueError) as error:  # all that requests raises
        raise InputError(f"cannot fetch {url}: {error}") from None


def _within(seconds: float, work: Callable[[], None]) -> None:
    """Do some work, and give up after a number of seconds.

    A server that sends a byte now and then keeps whoever reads from it waiting, for a header or
    for a full block, without ever being silent for long. So it is read by another thread; when
    that is given up, it ends at the next thing it writes, or with the process.
    """
    failed: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            failed.append(error)

    thread = Thread(target=run, name="nodeproof-download", daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise OSError(f"it was not complete after {seconds:.0f} seconds")
    if failed:
        raise failed[0]


class _Limited:
    """A file that takes a limited number of bytes."""

    def __init__(self, file: BinaryIO, most: int) -> None:
        self._file, self._most, self._taken = file, most, 0

    def write(self, data: bytes) -> None:
        """Write some more bytes, up to the limit."""
        self._taken += len(data)
        _check_size(self._taken, self._most)
        self._file.write(data)

    def flush(self) -> None:
        """Do nothing: an incomplete file is of no use on disk."""


def _check_size(size: int, most: int) -> None:
    if size > most:
        raise OSError(f"it is larger than {decimal(most)}, far more than this file should have")


def _check_response(most: int, response: Any, **_: Any) -> None:
    """Refuse responses that are too large, and redirects away from https."""
    place = urljoin(response.url, response.headers.get("location", ""))
    if response.url.startswith("https:") and not place.startswith("https:"):
        raise OSError(f"it leads to {place}, which is not https")
    if response.is_redirect:
        response.close()  # else its own content would be read, whatever its size
        return
    declared = response.headers.get("content-length", "")
    if declared.isdecimal():
        _check_size(int(declared), most)


def _trust(content: Path, path: Path) -> None:
    """Write the checksum of a file beside its final path."""
    with atomic_path(record_of(path)) as temporary:
        temporary.write_text(f"{_sha256(content)}  {path.name}\n", encoding="utf-8")


def _recorded(path: Path) -> str | None:
    record = record_of(path)
    if not record.exists():
        return None
    with reading(record):
        found = re.match(rb"[0-9a-f]{64}(?=\s)", record.read_bytes())
    if found is None:
        raise InputError(
            f"{record} is damaged: it does not begin with a sha256; delete it and {path.name} to "
            "fetch the file again"
        )
    return found[0].decode()


def _sha256(path: Path) -> str:
    with reading(path), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _pooch() -> Any:
    try:
        return import_module("pooch")
    except ImportError:
        raise MissingExtraError("pooch", "data") from None
