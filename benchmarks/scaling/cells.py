"""Cells of the benchmark: one measurement each, in a process of its own."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path

import nodeproof
from nodeproof.storage.journal import source_digest
from processes import machine
from scaling.peers import PEERS

__all__ = ["PREPARING", "Cell", "plan", "preparations"]

#: steps that create the data, in memory and on disk; repeated only if the data are gone
PREPARING = ("draw", "write", "convert")

_PACKAGE, _HERE = Path(nodeproof.__file__).parent, Path(__file__).parent

# What each kind of measurement is computed with; fits depend on all the rest of the package.
_SOURCES = {
    "draw": ("datasets/planted.py",),
    "write": ("datasets/planted_files.py",),
    "convert": ("tables/*.py", "storage/*.py"),
    "peer": (),
}
_MEASURING = {
    "draw": ("data.py",),
    "write": (),
    "convert": (),
    "peer": ("data.py", "measure.py", "peers.py"),
    "fit": ("data.py", "measure.py"),
    "stream": ("data.py", "measure.py", "on_disk.py"),
}
_UNRELATED = ("app", "certificate", "cli", "paper", "plot", "report")


@dataclass(frozen=True)
class Cell:
    """One measurement.

    Attributes
    ----------
    kind : str
        "draw" (data in memory), "write" and "convert" (data on disk), "fit" (in memory),
        "stream" (a fit from disk) or "peer".
    name : str
        What is fitted: "GL" or "GFL", or a name in `PEERS`; empty for data.
    links : int
        Size of the graph.
    seed : int
        Seed of the data.
    repeats : int
        Number of fits, of which the fastest counts.
    threads : int
        Threads of the fit.
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
        """What is measured, with which code, on which machine, as one line of JSON."""
        described = asdict(self)
        if self.kind in PREPARING:
            described["repeats"] = 0
        if self.kind in ("draw", "write"):
            described["threads"] = 0
        described["code"] = _digest(self.kind)
        described["machine"] = {name: machine()[name] for name in ("cpu", "cores", "versions")}
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
def _digest(kind: str) -> str:
    """Return a digest of the source that cells of a kind are measured with."""
    if kind in _SOURCES:
        used = [path for pattern in _SOURCES[kind] for path in _PACKAGE.glob(pattern)]
    else:
        everything = _PACKAGE.rglob("*.py")
        used = [p for p in everything if p.relative_to(_PACKAGE).parts[0] not in _UNRELATED]
    measuring = [_HERE / name for name in _MEASURING[kind]]
    return source_digest(used, _PACKAGE) + source_digest(measuring, _HERE)
