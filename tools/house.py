"""Measure how easy the source is to find one's way in, and compare it with the targets.

    python tools/house.py [--json] [--no-fit] [--root DIR]

Counts the modules and the lines of code; traces what a fit calls; and lists what must not come
back: import cycles, reads of a classifier's private attributes, `isinstance` on concrete terms and
overlong files. Everything but the trace is read from the syntax tree: nothing is imported. The
trace is that of `calls.py`, in a process of its own, with the package from DIR/src.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sources import PACKAGE, ROOT, Module, read_modules, room_imports

LONGEST_FILE = 400
#: the auditor runs alone, so that it has to be one file
LONGER = {"nodeproof.certificate.audit": 500}

#: what a classifier, or what its fit returns, is called by those who read it
CLASSIFIERS = frozenset({"clf", "classifier", "estimator", "model", "fitted"})
#: the modules that a classifier's private attributes belong to
OWNERS = frozenset({f"{PACKAGE}.estimator", f"{PACKAGE}.fitting"})

# ----------------------------------------------------------------------------------------------
# What must not come back


def find_cycles(imports: dict[str, set[str]]) -> list[list[str]]:
    """Return the groups of rooms that import each other in a circle, the largest first.

    Examples
    --------
    >>> find_cycles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}})
    [['b', 'c']]
    """
    reached = {room: _reachable(room, imports) for room in imports}
    knots = {
        tuple(sorted({other for other in reached[room] if room in reached[other]}))
        for room in imports
        if room in reached[room]
    }
    return [list(knot) for knot in sorted(knots, key=lambda knot: (-len(knot), knot))]


def _reachable(start: str, imports: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = list(imports[start])
    while waiting:
        room = waiting.pop()
        if room not in found:
            found.add(room)
            waiting.extend(imports[room])
    return found


def private_reads(modules: dict[str, Module]) -> list[str]:
    """Return where private attributes of a classifier are used outside the modules they belong to.

    A classifier is whatever is called by one of `CLASSIFIERS`, be it a variable or an attribute
    (``self.clf``). Reading, setting and deleting count; so does ``getattr(clf, "_x")``. Names with
    two underscores at both ends are not private.
    """
    found: list[tuple[Module, Any]] = []
    for module in modules.values():
        if module.name in OWNERS:
            continue
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Attribute):
                owner, name = node.value, node.attr
            elif (
                isinstance(node, ast.Call)
                and _last_name(node.func) in ("getattr", "hasattr", "setattr", "delattr")
                and len(node.args) > 1
                and isinstance(node.args[1], ast.Constant)
            ):
                owner, name = node.args[0], str(node.args[1].value)
            else:
                continue
            if _last_name(owner) in CLASSIFIERS and name.startswith("_") and name[:2] != "__":
                found.append((module, node))
    return _places(found)


def term_checks(modules: dict[str, Module]) -> list[str]:
    """Return where code outside ``terms`` asks whether something is a particular kind of term.

    That is ``isinstance`` or ``issubclass`` with a subclass of `Term`, alone or among others or by
    a name that a module gives to several of them; ``type(x) is Softmax``; and ``case Softmax()``.
    """
    terms = subclasses(modules, "Term")
    found: list[tuple[Module, Any]] = []
    for module in modules.values():
        if module.room == "terms":
            continue
        named = terms | _aliases(module.tree, terms)
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Call) and _last_name(node.func) in ("isinstance", "issubclass"):
                asked = _names(node.args[1]) if len(node.args) > 1 else set()
            elif isinstance(node, ast.Compare) and "type" in _names(node):
                asked = _names(node)
            elif isinstance(node, ast.MatchClass):
                asked = _names(node.cls)
            else:
                continue
            if asked & named:
                found.append((module, node))
    return _places(found)


def subclasses(modules: dict[str, Module], base: str) -> set[str]:
    """Return the names of all classes of the package that derive from one, but for itself."""
    bases = {
        node.name: set().union(*map(_names, node.bases))
        for module in modules.values()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ClassDef)
    }
    found = {base}
    while more := {name for name, parents in bases.items() if parents & found} - found:
        found |= more
    return found - {base}


def _aliases(tree: ast.Module, names: set[str]) -> set[str]:
    """Return names that a module gives to a tuple, or a union, with one of these in it."""
    return {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple | ast.BinOp)
        if _names(node.value) & names
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _names(node: ast.AST) -> set[str]:
    """Return the last parts of all names in an expression: Softmax of ``terms.Softmax``."""
    inner = (child for child in ast.walk(node) if isinstance(child, ast.Name | ast.Attribute))
    return {name for child in inner if (name := _last_name(child))}


def _last_name(node: ast.AST) -> str | None:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else None


def _places(found: list[tuple[Module, Any]]) -> list[str]:
    found.sort(key=lambda place: (place[0].name, place[1].lineno, place[1].col_offset))
    return [f"{module.name}:{node.lineno}: {ast.unparse(node)}" for module, node in found]


def long_files(modules: dict[str, Module], most: int = LONGEST_FILE) -> list[str]:
    """Return the files that have more lines than that, the longest first."""
    over = [m for m in modules.values() if m.n_lines > LONGER.get(m.name, most)]
    over.sort(key=lambda m: -m.n_lines)
    return [f"{module.name}: {module.n_lines} lines" for module in over]


def public_names(modules: dict[str, Module]) -> int:
    """Return how many functions and classes stand in the ``__all__`` of the module they are in."""
    count = 0
    for module in modules.values():
        body = module.tree.body
        defined = {n.name for n in body if isinstance(n, ast.FunctionDef | ast.ClassDef)}
        lists = (n.value for n in body if isinstance(n, ast.Assign) and "__all__" in _names(n))
        listed = {
            name.value
            for value in lists
            if isinstance(value, ast.List | ast.Tuple)
            for name in value.elts
            if isinstance(name, ast.Constant)
        }
        count += len(defined & listed)
    return count


# ----------------------------------------------------------------------------------------------
# The table


@dataclass(frozen=True)
class Row:
    """A figure, what this script found before the tree was rebuilt, and the target."""

    name: str
    key: str
    before: str
    target: str


ROWS = (
    Row("modules in src", "modules", "320", "about 180"),
    Row("code lines in src", "code_lines", "33,153", "about 24,000"),
    Row("… of which paper", "code_lines_paper", "–", "about 4,000"),
    Row("modules / functions / depth of a fit", "plain_fit", "56 / 299 / 20", "28 / 150 / 12"),
    Row("… of a tuned fit", "tuned_fit", "56 / 332 / 23", "–"),
    Row("reads of clf._x elsewhere", "private_reads", "81", "0"),
    Row("isinstance on terms elsewhere", "term_checks", "17", "0"),
    Row("rooms in import cycles", "cycles", "34", "0"),
    Row("longest source file (lines)", "longest_file", "746", f"≤ {LONGEST_FILE}"),
    Row("public functions and classes", "public_names", "848", "–"),
)  # fmt: skip


def count_calls(traced: dict[str, Any]) -> list[int]:
    """Return how many modules and functions a fit calls, and how deep."""
    functions = traced["functions"].values()
    return [len(functions), sum(map(len, functions)), len(traced["deepest"])]


def _trace_fits(root: Path) -> dict[str, dict[str, Any]]:
    """Return what `calls.py` finds with the package of this tree."""
    run = subprocess.run(
        [sys.executable, "-W", "ignore", str(Path(__file__).with_name("calls.py")), "--json"],
        env={**os.environ, "PYTHONPATH": str(root / "src")},
        stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    found: dict[str, dict[str, Any]] = json.loads(run.stdout)
    return found


def measure(root: Path, fit: bool = True) -> dict[str, Any]:
    """Return the figures of a tree, and lists of what must not be there.

    Parameters
    ----------
    root : pathlib.Path
        The folder with ``src``.
    fit : bool
        Whether fits are traced, which takes some seconds.
    """
    modules = read_modules(root)
    traced = _trace_fits(root) if fit else {}
    return {
        "modules": len(modules),
        "code_lines": sum(module.n_code_lines for module in modules.values()),
        "code_lines_paper": sum(m.n_code_lines for m in modules.values() if m.room == "paper"),
        "plain_fit": count_calls(traced["plain"]) if fit else None,
        "tuned_fit": count_calls(traced["tuned"]) if fit else None,
        "private_reads": private_reads(modules),
        "term_checks": term_checks(modules),
        "cycles": find_cycles(room_imports(modules)),
        "longest_file": max(module.n_lines for module in modules.values()),
        "long_files": long_files(modules),
        "public_names": public_names(modules),
    }


def _shown(key: str, value: Any) -> str:
    if value is None:
        return "–"
    if key == "cycles":
        return str(sum(map(len, value)))
    if isinstance(value, list):
        fit = key.endswith("_fit")
        return " / ".join(map(str, value)) if fit else str(len(value))
    return f"{value:,}"


def print_table(figures: dict[str, Any], show: Callable[[str], Any] = print) -> None:
    """Print the figures beside the targets, then where what must not be there is."""
    cells = [("", "was", "is", "target")]
    cells += [(row.name, row.before, _shown(row.key, figures[row.key]), row.target) for row in ROWS]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for name, *values in cells:
        right = (f"{value:>{width}}" for value, width in zip(values, widths[1:], strict=True))
        show("  ".join([f"{name:<{widths[0]}}", *right]))
    for title in ("cycles", "private_reads", "term_checks", "long_files"):
        if figures[title]:
            show(f"\n{title.replace('_', ' ')}:")
        for entry in figures[title]:
            show("  " + (", ".join(entry) if isinstance(entry, list) else entry))


def main(arguments: list[str] | None = None) -> None:
    """Print the table, or the figures as JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--root", type=Path, default=ROOT, metavar="DIR", help="tree to measure")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--no-fit", action="store_true", help="do not trace fits")
    given = parser.parse_args(arguments)
    figures = measure(given.root.resolve(), fit=not given.no_fit)
    if given.json:
        print(json.dumps(figures, indent=2, ensure_ascii=False))
    else:
        print_table(figures)


if __name__ == "__main__":
    main()
