"""Pages of the documentation, block by block, and how each kind of block is run.

A block says what it is by its language; a block without one, or with one not listed here, is an
error. Comments before it say what the reader would not expect::

    <!-- not run: installs -->           it is only checked as far as that goes without running
    <!-- needs: torch_geometric -->      it is run where these packages are installed
    <!-- exits: 2 -->                    its last command ends with this code

A block of text after one that is run is what that one prints, ``…`` standing for anything.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import io
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from nodeproof.cli import cli, main
from nodeproof.datasets import make_planted

ROOT = Path(__file__).parents[1]

SHELL = {"bash", "console", "shell"}
#: blocks that are written to the file that they are titled after
FILES = {"csv", "tsv"}
#: blocks that are nothing to run: formulas, which the docs build renders, and settings
SHOWN = {"math", "toml"}

_FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,}|~{3,})(?P<info>.*)$")
_COMMENT = re.compile(r"^ *<!-- (?P<key>not run|needs|exits): (?P<value>.+?) -->$")
_LANGUAGE = re.compile(r"^ *(?:\{ *\.)?(?P<language>[\w+-]*)")
_TITLE = re.compile(r'title="([^"]*)"')
_ITEM = re.compile(r"^ *(?:[-*+]|\d+\.) +")
_OPENS = (":::", "!!!", "???", "===")


@dataclass
class Block:
    """One fenced block of a page."""

    page: Path
    line: int
    info: str
    text: str
    comments: dict[str, str]
    prints: str | None = field(default=None, compare=False)

    @property
    def language(self) -> str:
        return _LANGUAGE.match(self.info)["language"]

    @property
    def title(self) -> str | None:
        found = _TITLE.search(self.info)
        return found and found[1]

    @property
    def is_run(self) -> bool:
        return "not run" not in self.comments and self.language in {"python", *SHELL}

    @property
    def includes(self) -> list[str]:
        """Files of the repository that the docs build puts here."""
        return re.findall(r'^ *--8<-- "([^":]+)', self.text, re.MULTILINE)

    @property
    def missing(self) -> list[str]:
        """Packages that it needs and that are not there."""
        needed = re.split(r"[ ,]+", self.comments.get("needs", ""))
        return [name for name in needed if name and importlib.util.find_spec(name) is None]

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def read_blocks(page: Path, text: str | None = None) -> list[Block]:
    """Return the blocks of a page, each with what it is to print."""
    lines = (page.read_text() if text is None else text).splitlines()
    blocks: list[Block] = []
    comments: dict[str, str] = {}
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if comment := _COMMENT.match(line):
            comments[comment["key"]] = comment["value"]
        elif fence := _FENCE.match(line):
            began, indent = at, len(fence["indent"])
            while at < len(lines) and not _closes(lines[at], fence["fence"]):
                at += 1
            if at == len(lines):
                raise AssertionError(f"{page.name}:{began}: this block has no end")
            inside = "".join(row[indent:] + "\n" for row in lines[began:at])
            _append(blocks, Block(page, began, fence["info"], inside, comments))
            comments = {}
            at += 1
        elif line.strip():
            comments = {}
            blocks.append(Block(page, at, "prose", line, {}))
    return [block for block in blocks if block.info != "prose"]


def _closes(line: str, fence: str) -> bool:
    return line.strip().startswith(fence) and set(line.strip()) == {fence[0]}


def _append(blocks: list[Block], block: Block) -> None:
    """Add a block to a page, or to the one before it as what that one prints."""
    before = blocks[-1] if blocks else None
    if block.language == "text" and before and before.is_run and "not run" not in block.comments:
        before.prints = block.text
        return
    blocks.append(block)


def indented_code(text: str) -> Iterator[int]:
    """Yield the lines where code is marked by its indentation alone: nobody runs it."""
    lines, fence = text.splitlines(), None
    for at, line in enumerate(lines):
        if opened := _FENCE.match(line):
            if fence is None:
                fence = opened["fence"]
            elif _closes(line, fence):
                fence = None
            continue
        indent = _indent(line)
        if fence or not line.strip() or indent < 4 or (at and lines[at - 1].strip()):
            continue
        outer = (row for row in reversed(lines[:at]) if row.strip() and _indent(row) < indent)
        above = next(outer, "")
        item = _ITEM.match(above)
        if not above.lstrip().startswith(_OPENS) and (not item or indent >= item.end() + 4):
            yield at + 1


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def run(block: Block, namespace: dict[str, Any]) -> None:
    """Run a block in the folder that is the current one; fail where it does not do as it says."""
    if block.language == "python":
        printed = _run_python(block, namespace)
    else:
        printed = "".join(_run_commands(block))
    if block.prints is not None and not agrees(printed, block.prints):
        pytest.fail(f"{block} prints\n{printed}\nbut the page says\n{block.prints}")


def agrees(printed: str, expected: str) -> bool:
    """Tell whether this was printed; … stands for anything, and blanks then for any blanks."""
    printed, expected = _stripped(printed), _stripped(expected)
    if "…" not in expected:
        return printed == expected
    printed, expected = (re.sub(" +", " ", text) for text in (printed, expected))
    pattern = ".*?".join(re.escape(part) for part in expected.split("…"))
    return re.fullmatch(pattern, printed, re.DOTALL) is not None


def _stripped(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def _run_python(block: Block, namespace: dict[str, Any]) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        # Lines are counted as in the page, so that a traceback points there.
        exec(compile("\n" * block.line + block.text, str(block.page), "exec"), namespace)
    return printed.getvalue()


def _run_commands(block: Block) -> Iterator[str]:
    lines = commands(block)
    for number, line in enumerate(lines, start=1):
        words = _expanded(line)
        if not words or words[0] != "nodeproof":
            pytest.fail(f"{block}: only nodeproof is run; say why not: <!-- not run: … -->")
        with (
            contextlib.redirect_stdout(io.StringIO()) as printed,
            contextlib.redirect_stderr(printed),
            pytest.raises(SystemExit) as ended,
        ):
            main(words[1:])
        code = int(ended.value.code or 0)
        wanted = int(block.comments.get("exits", 0)) if number == len(lines) else 0
        if code != wanted:
            pytest.fail(f"{block}: {line} ends with exit code {code}\n{printed.getvalue()}")
        yield printed.getvalue()


def commands(block: Block) -> list[str]:
    """Return the commands of a block, a line each, without prompts and comments."""
    rows = block.text.replace("\\\n", " ").splitlines()
    rows = [row.strip().removeprefix("$ ") for row in rows]
    return [row for row in rows if row and not row.startswith("#")]


def _expanded(line: str) -> list[str]:
    """Return the words of a command as a shell makes them, patterns expanded."""
    if line.split()[0] != "nodeproof":
        return line.split()
    script = "nodeproof() { printf '%s\\0' nodeproof \"$@\"; }\n" + line
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    return done.stdout.split("\0")[:-1]


def unknown_words(line: str) -> list[str]:
    """Return what of a command that is not run does not exist: targets, commands, options."""
    words = line.split("  #")[0].split()
    if words[0] == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        return [word for word in words[1:] if "=" not in word and word not in targets][:1]
    if words[:1] == ["python"] and len(words) > 1 and words[1].endswith(".py"):
        return [] if (ROOT / words[1]).exists() else words[1:2]
    if words[0] != "nodeproof":
        return []
    command: Any = cli
    rest = words[1:]
    while rest and hasattr(command, "commands"):
        if rest[0] not in command.commands:
            return rest[:1]
        command, rest = command.commands[rest[0]], rest[1:]
    known = {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
    named = [word.strip("[]").split("=")[0] for word in rest if word.startswith(("-", "[-"))]
    return [word for word in named if word not in {*known, "--help", "-h"}]


def texts_of(path: Path) -> Iterator[str]:
    """Yield the texts in a source file, … where something is put in."""
    inner = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.JoinedStr):
            inner.update(node.values)
            parts = node.values
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else "…" for part in parts
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in inner:
            yield node.value


def is_part(message: str, text: str) -> bool:
    """Tell whether a message, … standing for anything, is this text or a part of it."""
    at = 0
    for part in message.split("…"):
        found = text.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return True


def write_included(block: Block) -> None:
    """Write a file that a page shows as the reader's own: it is called so in the title."""
    for path in block.includes:
        if block.title and path != block.title:
            Path(block.title).write_text((ROOT / path).read_text())


def write_example_files(folder: Path) -> None:
    """Write the files that pages speak of: links, features and labels of named nodes."""
    data = make_planted(3, 60, p=0.3, omega=0.3, label_accuracy=0.9, random_state=0)
    names = np.array([f"node {v:03d}" for v in range(180)], dtype=object)
    kinds = np.array(["bronze", "silver", "gold", ""], dtype=object)
    links = np.argwhere(np.triu(data.graph.toarray()))
    ends = pa.table({"source": names[links[:, 0]], "target": names[links[:, 1]]})
    features = pa.table({"node": names, **{f"f{j}": data.X[:, j] for j in range(6)}})
    labels = pa.table({"node": names, "label": kinds[data.y]})
    new = np.array(["Zoe", "Zack"], dtype=object)
    tables = {
        "edges.csv": ends,
        "features.csv": features,
        "labels.csv": labels,
        "new.csv": features.slice(0, 2).set_column(0, "node", pa.array(new)),
        "links.csv": pa.table({"source": np.repeat(new, 8), "target": names[links[:16, 1]]}),
    }
    for name, table in tables.items():
        pyarrow.csv.write_csv(table, folder / name)
    (folder / "links").mkdir()
    for part in range(2):
        pyarrow.parquet.write_table(
            ends.slice(part * len(ends) // 2, len(ends) // 2), folder / f"links/{part}.parquet"
        )
    pyarrow.parquet.write_table(labels, folder / "labels.parquet")
