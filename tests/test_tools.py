"""The tools that pin the oldest versions and look for vulnerable ones."""

from __future__ import annotations

import importlib.util
import json
import tomllib
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

ROOT = Path(__file__).parents[1]


def tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


lowest = tool("lowest").lowest
audit = tool("audit")


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
