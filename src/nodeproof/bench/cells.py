"""A cell: one thing that is measured, in a process of its own. The smallest unit that is kept."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import nodeproof
from nodeproof.bench.peers import PEERS

__all__ = ["PREPARING", "Cell", "machine", "plan", "preparations"]

#: what makes data, in memory and on disk; it is repeated only where the data are gone
PREPARING = ("draw", "write", "convert")

_ROOT = Path(nodeproof.__file__).parent

_PACKAGES = (
    "nodeproof", "numpy", "scipy", "scikit-learn", "numba", "pyarrow", "duckdb", "scikit-network",
    "torch", "torch_geometric",
)  # fmt: skip

# What a measurement depends on beside the packages, below the root.
_MEASURING = (
    "bench/data.py", "bench/loops.py", "bench/measuring.py", "bench/memory.py", "bench/on_disk.py",
    "bench/timing.py",
)  # fmt: skip
_SOURCES = {
    "draw": ("bench/data.py", "bench/loops.py", "datasets/planted.py"),
    "write": ("datasets/planted_files.py",),
    "convert": ("io/*.py",),
    "peer": (*_MEASURING, "bench/peers.py"),
}
_ELSEWHERE = ("bench", "certificate", "cli", "experiments", "theory")


@dataclass(frozen=True)
class Cell:
    """One measurement.

    Attributes
    ----------
    kind : str
        "draw" (data in memory), "write" and "convert" (data on disk), "fit" (in memory),
        "stream" (a fit from disk) or "peer".
    name : str
        What is fitted: "GL" or "GFL", or a name in `PEERS`; of data, nothing.
    links : int
        Size of the graph.
    seed : int
        Of the data.
    repeats : int
        The best of so many counts.
    threads : int
        That the fit may use.
    """

    kind: str
    name: str
    links: int
    seed: int
    repeats: int
    threads: int

    @property
    def title(self) -> str:
        """What it does, for people."""
        doing = {
            "draw": "drawing the graph",
            "write": "writing links",
            "convert": "converting",
            "fit": f"fit {self.name}",
            "stream": f"fit {self.name} from disk",
        }
        return doing.get(self.kind, self.name)

    @property
    def key(self) -> str:
        """What is measured, by which code, on which machine, as one line of text."""
        described = asdict(self)
        if self.kind in PREPARING:
            described["repeats"] = 0
        if self.kind in ("draw", "write"):
            described["threads"] = 0
        described["code"] = _digest(self.kind)
        found = machine()
        described["machine"] = {name: found[name] for name in ("cpu", "cores", "versions")}
        return json.dumps(described, sort_keys=True)


def plan(
    sizes: list[int],
    *,
    disk_from: int,
    peers: bool,
    peers_up_to: int,
    seed: int,
    repeats: int,
    threads: int,
) -> list[Cell]:
    """Return what is to be measured at these sizes, smallest first; peers only if installed."""
    cells = []
    for links in sorted(set(sizes)):
        fit = Cell("fit", "GL", links, seed, repeats, threads)
        if links >= disk_from:
            cells.append(replace(fit, kind="stream"))
            continue
        cells += [fit, replace(fit, name="GFL")]
        if peers and links <= peers_up_to:
            able = [peer.name for peer in PEERS.values() if not peer.missing]
            cells += [replace(fit, kind="peer", name=name) for name in able]
    return cells


def preparations(cell: Cell) -> list[Cell]:
    """Return what has to be done, in order, before the cell can be measured."""
    kinds = ("write", "convert") if cell.kind == "stream" else ("draw",)
    return [replace(cell, kind=kind, name="") for kind in kinds]


@cache
def machine() -> dict[str, Any]:
    """Return what the figures were measured with."""
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "memory_gb": _memory_gb(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "versions": _versions(),
    }


def _versions() -> dict[str, str]:
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.machine()


def _memory_gb() -> float | None:
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
    return round(total / 1e9, 1)


@cache
def _digest(kind: str) -> str:
    """Return a digest of the source that cells of a kind are measured with."""
    if kind in _SOURCES:
        places = [path for name in _SOURCES[kind] for path in _ROOT.glob(name)]
    else:
        skipped = _ELSEWHERE if kind == "stream" else (*_ELSEWHERE, "io")
        places = [p for p in _ROOT.rglob("*.py") if p.relative_to(_ROOT).parts[0] not in skipped]
        places += [_ROOT / name for name in _MEASURING]
    digest = hashlib.sha256()
    for path in sorted(places):
        digest.update(path.relative_to(_ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]
