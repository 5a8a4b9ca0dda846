"""The package's modules as syntax trees: what `house.py` measures and `layers.py` draws.

Nothing is imported, so any tree can be read: an older one, too.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

PACKAGE = "nodeproof"
ROOT = Path(__file__).resolve().parents[1]

#: `convex` lies between the two rooms of this package, which imports neither
SPLIT = ("certificate",)


@dataclass(frozen=True)
class Module:
    """One source file.

    Attributes
    ----------
    name : str
        As it is imported: "nodeproof.solvers.block"; a package has the name of its folder.
    path : pathlib.Path
        The file.
    """

    name: str
    path: Path

    @cached_property
    def text(self) -> str:
        """The source."""
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree."""
        return ast.parse(self.text, str(self.path))

    @property
    def room(self) -> str:
        """The package or module directly under the root package; "" for the root itself.

        Packages in `SPLIT` are not one room: those inside them are.
        """
        package = self.path.name == "__init__.py"
        parts = self.name.split(".")[1:]
        inner = parts[:1] and parts[0] in SPLIT and len(parts) + package > 2
        return ".".join(parts[: 2 if inner else 1])

    @cached_property
    def n_lines(self) -> int:
        """Number of lines, whatever is on them."""
        return len(self.text.splitlines())

    @cached_property
    def n_code_lines(self) -> int:
        """Number of lines without blank ones, comments and docstrings."""
        skipped = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT}
        skipped |= {tokenize.DEDENT, tokenize.ENDMARKER}
        lines: set[int] = set()
        for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
            if token.type not in skipped:
                lines.update(range(token.start[0], token.end[0] + 1))
        documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        for node in ast.walk(self.tree):
            if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
                docstring = node.body[0]
                lines -= set(range(docstring.lineno, (docstring.end_lineno or 0) + 1))
        return len(lines)


def read_modules(root: Path) -> dict[str, Module]:
    """Return the modules under ``root/src``, by name."""
    source = root / "src"
    modules = {}
    for path in sorted((source / PACKAGE).rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        modules[name] = Module(name, path)
    return modules


def imported(module: Module, modules: dict[str, Module]) -> set[str]:
    """Return the modules of the package that one imports when it runs.

    Imports inside functions count; those for type checkers only do not. Imports are absolute.
    """
    found = set()
    for node in _running(module.tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                found.add(full if full in modules else node.module)
    return found & set(modules) - {module.name}


def _running(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the nodes of a tree but for the bodies of ``if TYPE_CHECKING``."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        typing_only = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        waiting.extend(node.orelse if typing_only else ast.iter_child_nodes(node))


def room_imports(modules: dict[str, Module]) -> dict[str, set[str]]:
    """Return which rooms each room imports; the root package is no room."""
    rooms: dict[str, set[str]] = {module.room: set() for module in modules.values() if module.room}
    for module in modules.values():
        if module.room:
            others = {modules[name].room for name in imported(module, modules)}
            rooms[module.room] |= others - {module.room, ""}
    return rooms
