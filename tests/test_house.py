"""How the source is laid out: what must not come back, and the tools that look for it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import house  # noqa: E402
import layers  # noqa: E402
import sources  # noqa: E402


@pytest.fixture(scope="module")
def modules():
    return sources.read_modules(ROOT)


def test_rooms_do_not_import_each_other_in_circles(modules):
    assert house.find_cycles(sources.room_imports(modules)) == []


def test_private_attributes_of_a_classifier_are_read_by_their_own_modules_alone(modules):
    assert house.private_reads(modules) == []


def test_no_room_but_terms_asks_which_term_it_has(modules):
    assert house.term_checks(modules) == []


def test_no_source_file_is_too_long(modules):
    assert house.long_files(modules) == []


def test_the_auditor_alone_may_be_longer(tmp_path):
    files = {"certificate/audit": "x = 1\n" * 500, "a": "x = 1\n" * 401}
    assert house.long_files(tree(tmp_path, files)) == ["nodeproof.a: 401 lines"]
    longer = tree(tmp_path, {"certificate/audit": "x = 1\n" * 501})
    assert house.long_files(longer)[0] == "nodeproof.certificate.audit: 501 lines"


def test_every_room_is_in_the_picture_of_the_layers(modules):
    rooms = dict.fromkeys(name for layer in layers.read_layers(ROOT) for name in layer)
    # Only the root package, and a package whose rooms are listed, belong to no layer.
    left = {name for name in modules if layers.room_of(name, rooms) is None}
    assert left == {"nodeproof", "nodeproof.certificate"}
    drawn = layers.OUT.read_text(encoding="utf-8")
    missing = [n for n in rooms if f"nodeproof.{n}" in modules and f">{n}<" not in drawn]
    assert missing == [], "draw the picture again: make layers"


def test_every_file_that_newcomers_are_sent_to_is_there():
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = re.findall(r"`([\w./]+(?:\.py|/))`", page)
    assert len(named) > 30
    beside = [ROOT, *(ROOT / "src" / "nodeproof" / room for room in ("", "inputs"))]
    assert [name for name in named if not any((at / name).exists() for at in beside)] == []


def test_every_function_that_newcomers_are_sent_to_is_in_its_file():
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = page.split("## Where it is decided")[1].split("##")[0].splitlines()
    cells = [row.split("|")[2:4] for row in rows if row.startswith("|") and "`" in row]
    assert len(cells) > 10
    for files, functions in cells:
        paths = [ROOT / "src" / "nodeproof" / name for name in re.findall(r"`(.+?)`", files)]
        text = "".join(path.read_text(encoding="utf-8") for path in paths)
        assert [f for f in re.findall(r"`(.+?)`", functions) if f"\ndef {f}(" not in text] == []


def tree(folder: Path, files: dict[str, str]) -> dict[str, sources.Module]:
    """Return the modules of a package with these files, by their paths in it."""
    for name, text in files.items():
        path = folder / "src" / "nodeproof" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return sources.read_modules(folder)


def test_blank_lines_comments_and_docstrings_are_no_code(tmp_path):
    text = '"""Doc.\n\nMore.\n"""\n\n# why\nx = """a\n\nb"""\n\n\ndef f():\n    """Doc."""\n'
    modules = tree(tmp_path, {"a": text + "    return x\n"})
    assert modules["nodeproof.a"].n_code_lines == 5


def test_imports_for_type_checkers_make_no_cycle_and_those_in_functions_do(tmp_path):
    back = "if TYPE_CHECKING:\n    from nodeproof.a.x import f\n"
    modules = tree(tmp_path, {"a/x": "from nodeproof.b import g\n", "b": back})
    assert sources.room_imports(modules) == {"a": {"b"}, "b": set()}
    modules = tree(tmp_path, {"b": "def g():\n    from nodeproof.a import x\n"})
    assert house.find_cycles(sources.room_imports(modules)) == [["a", "b"]]


def test_a_package_whose_rooms_lie_in_different_layers_is_no_cycle(tmp_path):
    modules = tree(
        tmp_path,
        {
            "certificate/__init__": "from importlib import import_module\n",
            "certificate/labelling/__init__": "",
            "certificate/program/x": "from nodeproof import convex\n",
            "convex": "from nodeproof.certificate import labelling\n",
        },
    )
    assert sources.room_imports(modules)["convex"] == {"certificate.labelling"}
    assert house.find_cycles(sources.room_imports(modules)) == []


def test_private_reads_are_found_however_the_classifier_is_reached(tmp_path):
    text = (
        "clf._x\nself.clf._x = 1\ngetattr(model, '_x')\nmy.estimator._x()\n"
        "clf.x\nother._x\nclf.__class__\ngetattr(clf, 'x')\n"
    )
    files = {"a": text, "estimator": text, "fitting": text}
    found = house.private_reads(tree(tmp_path, files))
    assert [place.split(": ")[0] for place in found] == [f"nodeproof.a:{k}" for k in (1, 2, 3, 4)]


def test_checks_of_terms_are_found_however_they_are_written(tmp_path):
    terms = "class Term: ...\nclass Own(Term): ...\nclass Deep(Own): ...\nisinstance(t, Own)\n"
    text = (
        "isinstance(t, Own)\nisinstance(t, int | Deep)\n_ALL = (Own, Deep)\nisinstance(t, _ALL)\n"
        "type(t) is terms.Deep\nmatch t:\n    case Own(): ...\n"
        "isinstance(t, Term)\nisinstance(t, int)\nOwn()\n"
    )
    found = house.term_checks(tree(tmp_path, {"terms/base": terms, "a": text}))
    assert [place.split(":")[1] for place in found] == ["1", "2", "4", "5", "7"]


DATASETS = """
import numpy as np

class Data:
    X = y = graph = None
    y_true = np.zeros(3, int)

def make_planted(**options):
    return Data()
"""
FITTING = """
class NodeClassifier:
    def __init__(self, random_state): ...

    def fit(self, X, y, graph):
        from nodeproof import lazy
        def inner():
            return [x for x in (1, 2)]
        inner()
        return lazy.outer()
"""
LAZY = """
def decorate(function):
    return function

@decorate
def outer():
    return inner()

def inner():
    return 1
"""


def test_calls_of_a_fit_are_counted_in_the_tree_that_is_asked_about(tmp_path):
    first = "from nodeproof.fitting import NodeClassifier\n"
    tree(tmp_path, {"__init__": first, "datasets": DATASETS, "fitting": FITTING, "lazy": LAZY})
    run = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "house.py"), "--json", "--root", str(tmp_path)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    figures = json.loads(run.stdout)
    # __init__, fit, its inner, outer and the other inner; three of them on top of each other
    assert figures["plain_fit"] == [2, 5, 3]
    assert figures["modules"] == 4


def test_the_table_shows_each_figure_beside_its_target(tmp_path, capsys):
    tree(tmp_path, {"a": "clf._x\n" * 500, "paper/b": "x = 1\n"})
    house.main(["--no-fit", "--root", str(tmp_path)])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["was", "is", "target"]
    shown = {row.name: line.split() for row, line in zip(house.ROWS, lines[1:], strict=False)}
    assert shown["modules in src"] == ["modules", "in", "src", "320", "2", "about", "180"]
    assert shown["reads of clf._x elsewhere"][-2:] == ["500", "0"]
    assert "  nodeproof.a: 500 lines" in lines


def test_the_picture_shows_sizes_and_imports_that_point_upwards(tmp_path):
    contract = 'layers = ["top", "left | right", "(gone)"]\n'
    (tmp_path / "pyproject.toml").write_text(f"[[tool.importlinter.contracts]]\n{contract}")
    first = '"""Uses `left` & right.\n\nMore.\n"""\nfrom nodeproof.left import f\n'
    second = "from nodeproof import left\n"
    tree(tmp_path, {"top/__init__": first, "left": "x = 1\ny = 2\n", "right": second})
    rooms = layers.read_rooms(tmp_path)
    assert {name: (room.layer, room.n_code_lines) for name, room in rooms.items()} == {
        "top": (0, 1), "left": (1, 2), "right": (1, 1),
    }  # fmt: skip
    assert rooms["left"].imported_by == {"top", "right"}
    drawn = layers.draw(rooms)
    assert "Uses left &amp; right</text>" in drawn
    assert 'class="upward"' not in drawn
    tree(tmp_path, {"left": "def f():\n    from nodeproof import top\n"})
    assert 'class="upward"' in layers.draw(layers.read_rooms(tmp_path))
