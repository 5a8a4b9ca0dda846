"""Measure how easy the source is to find one's way in, and compare it with the targets.

    python tools/house.py [--json] [--root DIR] [--no-fit]

Counts the modules and the lines of code; traces what a fit calls; and lists what must not come
back: import cycles, reads of a classifier's private attributes, `isinstance` on concrete terms and
overlong files. Everything but the trace is read from the syntax tree: nothing is imported. The
trace runs in a process of its own, with the package from DIR/src.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from sources import PACKAGE, ROOT, Module, read_modules, room_imports

LONGEST_FILE = 400

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
    over = sorted((m for m in modules.values() if m.n_lines > most), key=lambda m: -m.n_lines)
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
# What a fit calls


class Trace:
    """Calls of the package's own Python functions in this thread, while the block runs.

    What an import runs is left out, and so are lambdas and comprehensions, which Python versions
    count differently.

    Attributes
    ----------
    modules, functions : set
        Those called.
    depth : int
        The most frames of the package on top of each other.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder) + os.sep
        self._open: list[tuple[bool, bool]] = []
        self._depth = self._importing = 0
        self.modules: set[str] = set()
        self.functions: set[tuple[str, str]] = set()
        self.depth = 0

    def __enter__(self) -> Trace:
        sys.setprofile(self._watch)
        return self

    def __exit__(self, *error: object) -> None:
        sys.setprofile(None)

    def _watch(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            counts = self._counts(frame.f_code)
            imports = frame.f_code.co_name == "<module>"
            self._open.append((counts, imports))
            self._depth += counts
            self._importing += imports
            if counts and not self._importing:
                self.modules.add(frame.f_code.co_filename)
                self.functions.add((frame.f_code.co_filename, frame.f_code.co_qualname))
                self.depth = max(self.depth, self._depth)
        elif event == "return" and self._open:
            counts, imports = self._open.pop()
            self._depth -= counts
            self._importing -= imports

    def _counts(self, code: CodeType) -> bool:
        own = code.co_filename.startswith(self._folder)
        # The body of a class or a module is no function.
        return own and bool(code.co_flags & inspect.CO_NEWLOCALS) and code.co_name[0] != "<"


def plain_data() -> tuple[Any, Any, Any]:
    """Return features, labels and graph of the example in the README."""
    from nodeproof.datasets import make_planted

    data = make_planted(p=0.08, omega=0.2, label_accuracy=0.8, random_state=0)
    return data.X, data.y, data.graph


def tuned_data() -> tuple[Any, Any, Any]:
    """Return sparse counts of words and labels, by which a fit tunes its settings."""
    import numpy as np
    import scipy.sparse as sp

    from nodeproof.datasets import make_planted

    data = make_planted(p=0.08, omega=0.2, label_accuracy=0.9, label_ratio=0.3, random_state=0)
    rng = np.random.default_rng(0)
    rates = rng.gamma(0.2, 1.0, (data.y_true.max() + 1, 200))
    counts = rng.poisson(0.2 * rates[data.y_true])
    return sp.csr_array(counts.astype(np.float64)), data.y, data.graph


def trace_fits() -> dict[str, list[int]]:
    """Return modules, functions and depth of each fit, with the package that is imported here."""
    import nodeproof

    folder = Path(nodeproof.__file__).parent
    found = {}
    for name, data in (("plain", plain_data), ("tuned", tuned_data)):
        X, y, graph = data()
        # The first fit compiles, or reads what was compiled: that is not counted.
        nodeproof.NodeClassifier(random_state=0).fit(X, y, graph=graph)
        with Trace(folder) as trace:
            nodeproof.NodeClassifier(random_state=0).fit(X, y, graph=graph)
        found[name] = [len(trace.modules), len(trace.functions), trace.depth]
    return found


def _trace_in_process(root: Path) -> dict[str, list[int]]:
    environment = {**os.environ, "PYTHONPATH": str(root / "src")}
    run = subprocess.run(
        [sys.executable, "-W", "ignore", __file__, "--trace"],
        env=environment, stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    return json.loads(run.stdout)


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
    traced = _trace_in_process(root) if fit else {}
    return {
        "modules": len(modules),
        "code_lines": sum(module.n_code_lines for module in modules.values()),
        "code_lines_paper": sum(m.n_code_lines for m in modules.values() if m.room == "paper"),
        "plain_fit": traced.get("plain"),
        "tuned_fit": traced.get("tuned"),
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
    parser.add_argument("--trace", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.trace:
        print(json.dumps(trace_fits()))
        return
    figures = measure(given.root.resolve(), fit=not given.no_fit)
    if given.json:
        print(json.dumps(figures, indent=2, ensure_ascii=False))
    else:
        print_table(figures)


if __name__ == "__main__":
    main()
