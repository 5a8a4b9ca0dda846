"""Nobody waits for numpy who only asks what there is. Times are in benchmarks/startup.py."""

from __future__ import annotations

import json
import subprocess
import sys

HEAVY = ("numpy", "scipy", "sklearn", "numba", "pyarrow", "rich", "pandas", "matplotlib", "jinja2")

HELP = """
import json, sys
from nodeproof.cli import cli

def commands(group, path=()):
    yield path
    for name, command in getattr(group, "commands", {}).items():
        yield from commands(command, (*path, name))

shown = []
for path in commands(cli):
    cli.main([*path, "--help"], prog_name="nodeproof", standalone_mode=False)
    shown.append([" ".join(path), sorted(set(sys.modules) & set(sys.argv[1:]))])
print(json.dumps(shown), file=sys.stderr)
"""


def run(code: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *HEAVY]
    return subprocess.run(command, check=True, capture_output=True, text=True)


def test_importing_the_package_imports_nothing_heavy():
    code = "import sys, nodeproof, json; print(json.dumps(sorted(sys.modules)))"
    assert set(HEAVY).isdisjoint(json.loads(run(code).stdout))


def test_help_of_every_command_imports_nothing_heavy():
    shown = dict(json.loads(run(HELP).stderr))
    assert {"", "fit", "predict", "certify", "convert", "data get"} <= set(shown)
    assert {name: heavy for name, heavy in shown.items() if heavy} == {}


def test_public_names_are_listed_without_being_imported():
    code = "import sys, nodeproof; names = dir(nodeproof); print('numpy' in sys.modules, *names)"
    numpy, *names = run(code).stdout.split()
    assert numpy == "False"
    assert {"NodeClassifier", "datasets", "certify", "__version__"} <= set(names)


def test_a_missing_model_is_named_before_anything_heavy_is_imported():
    code = """
import sys
from nodeproof.cli import main
for command in ("predict", "report", "certify"):
    try:
        main([command, "nowhere"])
    except SystemExit as ended:
        print(ended.code, *sorted(set(sys.modules) & set(sys.argv[1:])))
"""
    done = run(code)
    assert done.stdout == 3 * "2\n"
    assert done.stderr.count("there is no model nowhere") == 3


def test_ctrl_c_while_the_command_is_imported_gives_one_line():
    code = """
import sys
from nodeproof.__main__ import main

class Interrupting:
    def find_spec(self, name, path, target=None):
        if name == "click":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupting())
try:
    main()
except SystemExit as ended:
    print(ended.code)
"""
    done = run(code)
    assert (done.stdout, done.stderr) == ("130\n", "nodeproof: interrupted\n")
