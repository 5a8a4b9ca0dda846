"""Try the wheel in fresh environments: every supported Python, oldest and newest dependencies.

    python tools/try_wheel.py [dist/nodeproof-….whl] [--keep FOLDER] [--tests TEST ...]

For each Python in the classifiers of pyproject.toml that is installed here, two environments are
made: one with the oldest dependencies that the wheel allows and that this Python has wheels of,
one with the newest. In each, the wheel is installed as a user would install it, all public names
are imported, and a graph is fitted, reported, saved, loaded and certified, from Python and from
the command line. `--tests` runs these files of the test suite as well, against the wheel.

Needs uv (`pip install uv`), which finds the Pythons (those that neither it nor pyenv has are named)
and can resolve to the oldest versions.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from lowest import requirements

ROOT = Path(__file__).resolve().parents[1]
RESOLUTIONS = {"oldest": "lowest-direct", "newest": "highest"}

# Runs in the fresh environment, in an empty folder.
CHECK = """
import numpy as np
import nodeproof
from nodeproof import NodeClassifier
from nodeproof.datasets import make_planted

assert "site-packages" in nodeproof.__file__, nodeproof.__file__
for name in nodeproof.__all__:
    getattr(nodeproof, name)
data = make_planted(cluster_size=60, p=0.3, random_state=0)
clf = NodeClassifier(random_state=0).fit(data.X, data.y, graph=data.graph)
assert (clf.labels_ == data.y_true).mean() > 0.95
import nodeproof.app.server
clf.report("page.html")
clf.save("model.npz")
assert np.array_equal(NodeClassifier.load("model.npz").proba_, clf.proba_)
assert clf.certify(time_budget=5).explain()
links = zip(*data.graph.nonzero())
with open("edges.csv", "w") as file:
    file.write("source,target\\n" + "".join(f"n{u},n{v}\\n" for u, v in links if u < v))
with open("nodes.csv", "w") as file:
    file.write("node,size,kind\\n")
    file.writelines(f"n{v},{x},{'abc'[k] if k >= 0 else ''}\\n"
                    for v, (x, k) in enumerate(zip(data.X[:, 0], data.y)))
"""
COMMANDS = (
    ["--version"],
    ["fit", "edges.csv", "--nodes", "nodes.csv", "--label", "kind", "--out", "results", "--report"],
    ["report", "results"],
    ["evaluate", "results", "nodes.csv", "--label", "kind", "--all"],
    ["label", "results", "--export", "labels.csv"],
    ["demo", "--out", "demo"],
)


def pythons(versions: list[str]) -> dict[str, Path | None]:
    """Return the interpreter of each version, None where there is none.

    Parameters
    ----------
    versions : list of str
        Such as ["3.11", "3.12"].
    """
    return {version: _find_python(version) for version in versions}


def _find_python(version: str) -> Path | None:
    find = [_uv(), "python", "find", "--no-project", "--system", "--no-python-downloads", version]
    done = subprocess.run(find, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return Path(done.stdout.strip())
    # pyenv puts programs into PATH that run only the version that is chosen at the moment.
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    kept = (root / "versions").glob(f"{version}.*/bin/python")
    return max(
        kept,
        key=lambda path: [int(part) for part in re.findall(r"\d+", path.parts[-3])],
        default=None,
    )


def _uv() -> str:
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if uv is None:
        raise SystemExit("uv is not installed: pip install uv")
    return uv


def project() -> dict:
    """Return the table [project] of pyproject.toml."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        return tomllib.load(file)["project"]


def supported() -> list[str]:
    """Return the versions of Python in the classifiers of pyproject.toml."""
    listed = project()["classifiers"]
    minor = [line.removeprefix("Programming Language :: Python :: ") for line in listed]
    return [version for version in minor if version.startswith("3.")]


def install(wheel: Path, python: Path, resolution: str, folder: Path, extras: str) -> Path:
    """Make an environment with the wheel in it, and return its folder of programs."""
    uv = _uv()
    subprocess.run([uv, "venv", "--quiet", "--clear", "--python", python, folder], check=True)
    # Named one by one: "lowest-direct" is about what is named, and not about what that requires.
    direct = [str(one) for one in requirements(project(), extras.split(","))]
    subprocess.run(
        [uv, "pip", "install", "--quiet", "--python", folder, "--only-binary", ":all:",
         "--resolution", resolution, f"nodeproof[{extras}] @ {wheel.as_uri()}", *direct],
        check=True,
    )  # fmt: skip
    return folder / ("Scripts" if os.name == "nt" else "bin")


def try_out(programs: Path, folder: Path, tests: list[str]) -> None:
    """Run the checks with the programs of an environment, in an empty folder."""
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    clean["NUMBA_CACHE_DIR"] = str(folder / "numba")  # another numba's would be thrown away
    calls = [[programs / "python", "-W", "error::RuntimeWarning", "-c", CHECK]]
    calls += [[programs / "nodeproof", *words] for words in COMMANDS]
    if tests:
        calls.append([programs / "python", "-m", "pytest", "-q", "-c", ROOT / "pyproject.toml",
                      *(ROOT / test for test in tests)])  # fmt: skip
    for call in calls:
        done = subprocess.run(
            call, cwd=folder, env=clean, capture_output=True, text=True, check=False
        )
        if done.returncode:
            print(done.stdout + done.stderr, flush=True)
            done.check_returncode()


def versions_in(programs: Path) -> str:
    """Return the versions of what matters most, in one line."""
    names = ("numpy", "scipy", "scikit-learn", "numba", "pyarrow", "click", "rich")
    ask = f"from importlib.metadata import version as v; print(*[n+' '+v(n) for n in {names}])"
    done = subprocess.run(
        [programs / "python", "-c", ask], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def main(arguments: list[str] | None = None) -> int:
    """Try the wheel everywhere; return 1 if anything failed, or if no Python was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", nargs="?", type=Path, help="default: the newest in dist/")
    parser.add_argument("--keep", type=Path, help="folder for the environments, which stay")
    parser.add_argument("--tests", nargs="*", default=[], help="test files to run as well")
    given = parser.parse_args(arguments)
    wheels = sorted((ROOT / "dist").glob("*.whl"), key=lambda path: path.stat().st_mtime)
    if given.wheel is None and not wheels:
        raise SystemExit("no wheel in dist/: run `make dist` first")
    wheel = (given.wheel or wheels[-1]).resolve()
    lines, failed, tried = [], False, 0
    for version, python in pythons(supported()).items():
        for name, resolution in RESOLUTIONS.items() if python else ():
            tried += 1
            with tempfile.TemporaryDirectory() as temporary:
                place = (given.keep or Path(temporary, "environments")) / f"{version}-{name}"
                Path(temporary, "work").mkdir()
                try:
                    extras = "test" if given.tests else "app,plot,report"
                    programs = install(wheel, python, resolution, place, extras)
                    try_out(programs, Path(temporary, "work"), given.tests)
                    lines.append(f"{version} {name}: passed ({versions_in(programs)})")
                except subprocess.CalledProcessError as error:
                    failed = True
                    lines.append(f"{version} {name}: FAILED: {' '.join(map(str, error.cmd))[:300]}")
            print(lines[-1], flush=True)
        if python is None:
            print(f"{version}: not tried: no python{version} here", flush=True)
    return int(failed or not tried)


if __name__ == "__main__":
    sys.exit(main())
