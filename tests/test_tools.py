"""The tools that pin the oldest versions, look for vulnerable ones and test for other CPUs."""

from __future__ import annotations

import importlib.util
import json
import re
import tomllib
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

import dealt_cases

ROOT = Path(__file__).parents[1]


def tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


lowest = tool("lowest").lowest
audit = tool("audit")
every_cpu = tool("every_cpu")


def project(*dependencies: str, **extras: list[str]) -> dict:
    return {"name": "a", "dependencies": dependencies, "optional-dependencies": extras}


def test_pins_are_the_lower_bounds_of_the_package_and_its_extras():
    given = project("b>=1.2,<3", test=["c>=4", "a[more]"], more=["d[e]~=5.6", "a[test]"], no=["f"])
    assert lowest(given, ["test"]) == ["b==1.2", "c==4", "d[e]==5.6"]
    assert lowest(given, []) == ["b==1.2"]


def test_what_is_for_another_python_is_not_pinned():
    assert lowest(project("b>=1", 'c>=2; python_version < "3"'), []) == ["b==1"]


@pytest.mark.parametrize(
    ("given", "extras", "word"),
    [
        (project("b"), [], "lower bound"),
        (project("b<2"), [], "lower bound"),
        (project("b>=1", x=["B>=2"]), ["x"], "two bounds"),
        (project("b>=1"), ["y"], "no extra 'y'"),
    ],
)
def test_what_cannot_be_pinned_is_an_error(given, extras, word):
    with pytest.raises(SystemExit, match=word):
        lowest(given, extras)


def test_every_dependency_of_this_package_has_a_tested_lower_bound():
    with (ROOT / "pyproject.toml").open("rb") as file:
        own = tomllib.load(file)["project"]
    for_users = set(own["optional-dependencies"]) - {"test", "docs"}
    assert set(lowest(own, for_users)) <= set(lowest(own, ["test"]))


class Service:
    """Answers as pip-audit does."""

    def __init__(self, **packages: list[dict] | None) -> None:
        self.packages = packages
        self.asked: list[list[str]] = []

    def run(self, command: list[str], **_: object) -> SimpleNamespace:
        self.asked.append(command)
        if "--requirement" in command:
            known = Path(command[command.index("--requirement") + 1]).read_text().strip()
            listed = {"known": self.packages.get("known")}
            assert known == audit.KNOWN
        else:
            listed = {name: v for name, v in self.packages.items() if name != "known"}
        if None in self.packages.values() and "known" not in self.packages:
            return SimpleNamespace(stdout="", returncode=1)
        answers = [
            {"name": name, "skip_reason": "not found"}
            if vulns is None
            else {"name": name, "version": "1", "vulns": vulns}
            for name, vulns in listed.items()
        ]
        return SimpleNamespace(stdout=json.dumps({"dependencies": answers}), returncode=0)


CVE = [{"id": "CVE-1", "fix_versions": ["2"]}]


@pytest.mark.parametrize(
    ("packages", "code", "words"),
    [
        ({"known": CVE, "b": []}, 0, ["1 packages looked up, 0 known"]),
        ({"known": CVE, "b": CVE}, 1, ["b 1: CVE-1, repaired in 2"]),
        ({"known": CVE, "b": [], "c": None}, 0, ["not in the list: c", "1 packages looked up"]),
        # A mirror that knows the packages but no vulnerability must not pass for good news.
        ({"known": [], "b": []}, 3, ["not audited"]),
        ({"known": None, "b": None}, 3, ["not audited"]),
        ({"b": None}, 3, ["not audited"]),
    ],
)
def test_an_audit_says_what_it_found_or_that_it_could_not(
    monkeypatch, capsys, packages, code, words
):
    monkeypatch.setattr(audit.subprocess, "run", Service(**packages).run)
    assert audit.main(["site-packages"]) == code
    printed = capsys.readouterr().out
    assert all(word in printed for word in words)
    assert audit.main(["site-packages", "--unreachable-ok"]) == (0 if code == 3 else code)


def test_core_types_that_cannot_be_run_are_skipped_with_a_word(monkeypatch):
    taken = {"Sandybridge": {"Sandybridge"}, "Haswell": {"Haswell", "Zen"}, "Zen": set()}
    monkeypatch.setattr(every_cpu, "kernels", lambda core_type="": taken.get(core_type))
    found = dict(every_cpu.targets())
    assert found["Sandybridge"] == {
        "OPENBLAS_CORETYPE": "Sandybridge",
        "NUMBA_CPU_NAME": "generic",
    }
    assert "Haswell and Zen" in found["Haswell"]
    assert "lacks its instructions" in found["SkylakeX"]
    assert "nothing" in found["Zen"]
    taken["Haswell"] = {"Haswell"}
    assert dict(every_cpu.targets())["Haswell"] == {"OPENBLAS_CORETYPE": "Haswell"}
    taken[""] = {"Haswell"}  # with these kernels `make test` has run
    assert "make test" in dict(every_cpu.targets())["Haswell"]
    taken[""] = {"Sandybridge"}  # but not with what is compiled for any CPU
    assert isinstance(dict(every_cpu.targets())["Sandybridge"], dict)
    taken.clear()
    assert dict(every_cpu.targets())["generic numba"] == {"NUMBA_CPU_NAME": "generic"}


def test_all_numeric_tests_are_run():
    tests = Path(__file__).parent
    marked = re.compile(r"^(pytestmark = .*|@)pytest\.mark\.numeric", re.MULTILINE)
    files = {str(path) for path in tests.rglob("*.py") if marked.search(path.read_text("utf-8"))}
    assert len(files) > 20
    assert files <= set(every_cpu.numeric_files())


def test_a_core_type_is_probed_by_using_it(monkeypatch):
    assert every_cpu.kernels("") is not None  # whatever this CPU has by itself
    monkeypatch.setattr(every_cpu, "PROBE", "import os; os.abort()")
    assert every_cpu.kernels("") is None
    monkeypatch.setattr(every_cpu, "PROBE", "import no_such_module")
    with pytest.raises(SystemExit, match="no_such_module"):
        every_cpu.kernels("")


def test_every_target_is_run_though_one_has_failed(monkeypatch, capsys):
    ways = [("a", {"X": "1"}), ("b", "lacking"), ("c", {"X": "2"})]
    monkeypatch.setattr(every_cpu, "targets", lambda: iter(ways))
    ran = []

    def run(command, env):
        ran.append((command[-1], env["X"], next(x for x in command if "--deal" in x)))
        return SimpleNamespace(returncode=int(env["X"] == "1"))

    monkeypatch.setattr(every_cpu.subprocess, "run", run)
    assert every_cpu.main(["-q"]) == 1
    assert ran == [("-q", "1", "--deal=1/2"), ("-q", "2", "--deal=2/2")]
    printed = capsys.readouterr().out
    for word in ("a: failed", "b: skipped: lacking", "c: passed"):
        assert word in printed


def test_every_test_is_in_every_hand_and_every_case_in_one():
    cases = [f"test_a.py::test_few[{k}]" for k in range(2)]
    cases += [f"test_a.py::test_many[{k}]" for k in range(7)] + ["test_a.py::test_one"]
    contract = "contracts/test_b.py::test_all[1]", "contracts/test_b.py::test_all[2]"
    items = [
        SimpleNamespace(nodeid=name, path=Path(name.split("::")[0])) for name in [*cases, *contract]
    ]
    hands = [dealt_cases.deal(items, hand, 3) for hand in (1, 2, 3)]
    kept = [[item.nodeid for item in hand] for hand, _ in hands]
    for names, (_, others) in zip(kept, hands, strict=True):
        assert set(names).isdisjoint(others)
        assert names == sorted(names, key=[*cases, *contract].index)
        assert {name.split("[")[0] for name in names} == {x.nodeid.split("[")[0] for x in items}
        assert {*contract, *cases[:2]} <= set(names)  # as few as two are not dealt to three
    many = [name for names in kept for name in names if "many" in name]
    assert sorted(many) == cases[2:9]
    assert len(dealt_cases.deal(items, 1, 1)[0]) == len(items)


@pytest.mark.parametrize("text", ["1", "0/2", "3/2", "a/b", "-1/2"])
def test_a_hand_that_is_none_is_named(text):
    with pytest.raises(pytest.UsageError, match="HAND/HANDS"):
        dealt_cases.as_hand(text)
