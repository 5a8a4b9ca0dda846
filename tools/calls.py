"""List what a fit calls: the package's own functions, module by module, and the longest chain.

    python tools/calls.py [--json]

Of a plain fit, that of the example in the README; as JSON, also of a fit that tunes its settings.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import sys
from pathlib import Path
from types import CodeType, FrameType
from typing import Any


class Trace:
    """Calls of the package's own functions in this thread, while the block runs.

    Compiled kernels count. What an import runs is left out, and so are lambdas and comprehensions,
    which Python versions count differently.

    Attributes
    ----------
    functions : dict of str to list of str
        Those called, by file, in the order of their first calls.
    deepest : list of code
        The longest chain of calls.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder) + os.sep
        self._open: list[tuple[bool, bool]] = []
        self._chain: list[CodeType] = []
        self._importing = 0
        self.functions: dict[str, list[str]] = {}
        self.deepest: list[CodeType] = []

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
            self._importing += imports
            if counts:
                self._chain.append(frame.f_code)
            if counts and not self._importing:
                known = self.functions.setdefault(frame.f_code.co_filename, [])
                if frame.f_code.co_qualname not in known:
                    known.append(frame.f_code.co_qualname)
                if len(self._chain) > len(self.deepest):
                    self.deepest = list(self._chain)
        elif event == "return" and self._open:
            counts, imports = self._open.pop()
            self._importing -= imports
            if counts:
                self._chain.pop()

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


def trace_fits() -> dict[str, dict[str, Any]]:
    """Return the functions that each fit calls, by module, and its longest chain of calls."""
    import nodeproof

    folder = Path(nodeproof.__file__).parent
    found = {}
    for name, data in (("plain", plain_data), ("tuned", tuned_data)):
        X, y, graph = data()
        # The first fit compiles, or reads what was compiled: that is not counted.
        nodeproof.NodeClassifier(random_state=0).fit(X, y, graph=graph)
        with Trace(folder) as trace:
            nodeproof.NodeClassifier(random_state=0).fit(X, y, graph=graph)

        def module(path: str) -> str:
            return ".".join(Path(path).relative_to(folder).with_suffix("").parts)

        chain = [f"{module(code.co_filename)}.{code.co_qualname}" for code in trace.deepest]
        called = {module(path): functions for path, functions in trace.functions.items()}
        found[name] = {"functions": called, "deepest": chain}
    return found


def print_calls(traced: dict[str, Any]) -> None:
    """Print the functions of a fit, module by module, and its longest chain of calls."""
    for module, functions in traced["functions"].items():
        print(f"{module}: {', '.join(functions)}")
    print("\nthe longest chain of calls:")
    for depth, function in enumerate(traced["deepest"], 1):
        print(f"{depth:3} {function}")


def main() -> None:
    """Print what was traced."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print JSON, of a tuned fit as well")
    given = parser.parse_args()
    if given.json:
        print(json.dumps(trace_fits()))
    else:
        print_calls(trace_fits()["plain"])


if __name__ == "__main__":
    main()
