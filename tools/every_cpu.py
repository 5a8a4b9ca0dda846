"""Run the tests marked `numeric` with the instructions of other CPUs.

    python tools/every_cpu.py [PYTEST OPTION ...]

OpenBLAS and numba compute the same numbers on every CPU but for the last bits. The tests run once
with the kernels that OpenBLAS has for each core type that this CPU can run, the first time with
what numba compiles for any CPU. Left out are the kernels that OpenBLAS takes here by itself, with
which `make test` has run them. What cannot be run here is skipped with a word. Every test is run
with every target; the cases of a test that has many are dealt out (tests/dealt_cases.py).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1] / "tests"

CORE_TYPES = ("Sandybridge", "Haswell", "SkylakeX", "Zen")

# OpenBLAS obeys also where the CPU lacks the instructions: only using them tells.
PROBE = """
import json, numpy as np, scipy.linalg, threadpoolctl
A = np.random.default_rng(0).normal(size=(200, 200))
np.linalg.eigh(A @ A.T), scipy.linalg.eigh(A @ A.T), np.linalg.svd(A)
print(json.dumps([lib.get("architecture") for lib in threadpoolctl.threadpool_info()
                  if lib["user_api"] == "blas"]))
"""


def kernels(core_type: str = "") -> set[str] | None:
    """Return the core types whose kernels BLAS takes when asked for one; None where it crashes.

    Asked for none, it takes those for this CPU.
    """
    probed = subprocess.run(
        [sys.executable, "-c", PROBE],
        env=os.environ | {"OPENBLAS_CORETYPE": core_type},
        capture_output=True,
        text=True,
    )
    if "Traceback" in probed.stderr:  # no crash, but an error of Python
        raise SystemExit(probed.stderr)
    return None if probed.returncode else {str(name) for name in json.loads(probed.stdout)}


def targets() -> Iterator[tuple[str, dict[str, str] | str]]:
    """Yield the name of each target with its environment, or why it is skipped."""
    generic = {"NUMBA_CPU_NAME": "generic"}
    own = kernels()
    for core_type in CORE_TYPES:
        taken = kernels(core_type)
        if taken is None:
            yield core_type, "this CPU lacks its instructions"
        elif taken != {core_type}:
            instead = " and ".join(sorted(taken)) or "nothing"
            yield core_type, f"BLAS takes other kernels for it ({instead})"
        elif taken == own and not generic:
            yield core_type, "this CPU's own kernels, which `make test` runs"
        else:
            yield core_type, {"OPENBLAS_CORETYPE": core_type} | generic
            generic = {}
    if generic:
        yield "generic numba", generic


def numeric_files() -> list[str]:
    """Return the files with tests to run: to read all others takes longer than these tests."""
    files = sorted(TESTS.rglob("test_*.py"))
    return [str(path) for path in files if "pytest.mark.numeric" in path.read_text("utf-8")]


def main(options: list[str]) -> int:
    """Run every target, also after one has failed; return 1 where any has."""
    outcomes = {}
    found = list(targets())
    run = [name for name, target in found if not isinstance(target, str)]
    for name, target in found:
        if isinstance(target, str):
            outcomes[name] = f"skipped: {target}"
        else:
            print(f"== {name}", flush=True)
            command = [sys.executable, "-m", "pytest", "-m", "numeric and not slow and not any_cpu"]
            command += [f"--deal={run.index(name) + 1}/{len(run)}", *numeric_files(), *options]
            failed = subprocess.run(command, env=os.environ | target).returncode
            outcomes[name] = "failed" if failed else "passed"
        print(f"== {name}: {outcomes[name]}", flush=True)
    return int("failed" in outcomes.values())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
