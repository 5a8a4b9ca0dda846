"""`nodeproof example`: small real files to try the commands on."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

from nodeproof import __version__
from nodeproof.cli.terminal import check_folder, print_document
from nodeproof.errors import InputError
from nodeproof.storage.atomic import atomic_folder

__all__ = ["run_example"]

# Zachary's karate club (1977): 34 members, and in how many contexts two of them met. The club split
# in two; who joined which side is the truth. Members count from 1, as in the paper.
_LINKS = """
1-2:4 1-3:5 1-4:3 1-5:3 1-6:3 1-7:3 1-8:2 1-9:2 1-11:2 1-12:3 1-13:1 1-14:3 1-18:2 1-20:2 1-22:2
1-32:2 2-3:6 2-4:3 2-8:4 2-14:5 2-18:1 2-20:2 2-22:2 2-31:2 3-4:3 3-8:4 3-9:5 3-10:1 3-14:3 3-28:2
3-29:2 3-33:2 4-8:3 4-13:3 4-14:3 5-7:2 5-11:3 6-7:5 6-11:3 6-17:3 7-17:3 9-31:3 9-33:3 9-34:4
10-34:2 14-34:3 15-33:3 15-34:2 16-33:3 16-34:4 19-33:1 19-34:2 20-34:1 21-33:3 21-34:1 23-33:2
23-34:3 24-26:5 24-28:4 24-30:3 24-33:5 24-34:4 25-26:2 25-28:3 25-32:2 26-32:7 27-30:4 27-34:2
28-34:4 29-32:2 29-34:2 30-33:4 30-34:2 31-33:3 31-34:3 32-33:4 32-34:4 33-34:5
"""
_INSTRUCTORS = {1: "Mr. Hi", 34: "John A."}
_WITH_HI = {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 17, 18, 20, 22}
_LABELLED = (1, 2, 33, 34)

_README = """\
Zachary's karate club: 34 members, and in how many contexts two of them met. The club split in
two. Of four members it is told which side they joined; of the others it is to be found out.

  edges.csv   one link per line: member, member, weight
  nodes.csv   one member per line, with the side that is known of four of them
  truth.csv   the side of every member

Try, in this folder:

  nodeproof fit edges.csv --nodes nodes.csv --label club --report -o results
  nodeproof evaluate results truth.csv
  nodeproof certify results
  nodeproof fit edges.csv --nodes nodes.csv --label club --experts propagation -o propagated
  nodeproof compare results propagated --truth truth.csv

and open results/report.html in a browser.

The data are from W. W. Zachary, An information flow model for conflict and fission in small groups,
Journal of Anthropological Research 33 (1977).
"""

_FILES = ("edges.csv", "nodes.csv", "truth.csv", "README.txt")


def run_example(folder: Path, as_json: bool) -> None:
    """Write the files; a folder that has one of them already is refused."""
    check_folder(folder, _FILES)
    there = [name for name in _FILES if (folder / name).exists()]
    if there:
        raise InputError(f"{folder / there[0]} exists already; choose another folder")
    links = [link.replace(":", "-").split("-") for link in _LINKS.split()]
    sides = {member: "Mr. Hi" if member in _WITH_HI else "Officers" for member in range(1, 35)}
    with atomic_folder(folder) as temporary:
        _write(temporary / "edges.csv", ("source", "target", "weight"),
               ((_name(int(u)), _name(int(v)), weight) for u, v, weight in links))  # fmt: skip
        _write(temporary / "nodes.csv", ("member", "club"),
               ((_name(m), sides[m] if m in _LABELLED else "") for m in sides))  # fmt: skip
        _write(temporary / "truth.csv", ("member", "club"),
               ((_name(m), side) for m, side in sides.items()))  # fmt: skip
        (temporary / "README.txt").write_text(_README, encoding="utf-8")
    if as_json:
        print_document({"nodeproof": __version__, "written": [str(folder / n) for n in _FILES]})
        return
    from nodeproof.cli.console import screen

    screen.print(f"written: {', '.join(str(folder / name) for name in _FILES)}", soft_wrap=True)
    screen.print("try:")
    screen.print(f"  cd {folder}", soft_wrap=True)
    screen.print("  nodeproof fit edges.csv --nodes nodes.csv --label club --report -o results")
    screen.print("  nodeproof evaluate results truth.csv")


def _name(member: int) -> str:
    return _INSTRUCTORS.get(member, f"member {member}")


def _write(path: Path, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)
