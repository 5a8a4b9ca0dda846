"""Time and memory of a fit on sparse planted graphs, as ratios within one run.

Mean degree 20, half of the links inside the class, K = 10, 1 % labels; with graph and labels,
and with 16 features on top. A fit is compared with one scipy product ``A @ M`` (float32, n×10)
timed in the same process; peak memory above that of the imported package with the size of
graph, features and W. Compilation is left out and printed.

    python benchmarks/scale.py [--links 1e5 1e6 1e7] [--repeats 3]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

K = 10
DEGREE = 20


def generate(links: int, folder: Path) -> dict[str, float]:
    """Draw the data, write them to the folder, return what the genie reaches."""
    from nodeproof.datasets import make_planted

    n0 = 2 * links // DEGREE // K
    n, inside = n0 * K, DEGREE / 2
    data = make_planted(
        K, n0, p=inside / (n0 - 1), q=inside / (n - n0), n_features=16, n_noise=10, omega=0.3,
        label_ratio=0.01, random_state=0,
    )  # fmt: skip
    arrays = {
        "data": data.graph.data, "indices": data.graph.indices, "indptr": data.graph.indptr,
        "X": data.X, "y": data.y, "y_true": data.y_true,
    }  # fmt: skip
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    return {"G": data.genie_accuracy("G"), "GF": data.genie_accuracy("GF")}


def measure(folder: Path, with_features: bool, repeats: int) -> dict[str, Any]:
    """Fit in this process and return its figures; run in a process of its own."""
    from nodeproof import NodeClassifier
    from nodeproof.datasets import make_planted

    small = make_planted(K, 30, label_ratio=0.1, random_state=0)
    began = time.perf_counter()
    _fit(NodeClassifier, small.graph, small.X if with_features else None, small.y)
    compiled = time.perf_counter() - began

    baseline = _status("VmRSS")
    read = {path.stem: np.load(path) for path in folder.glob("*.npy")}
    n = len(read["y"])
    graph = sp.csr_array((read.pop("data"), read.pop("indices"), read.pop("indptr")), shape=(n, n))
    X = read.pop("X")
    X = X if with_features else None
    input_bytes = graph.data.nbytes + graph.indices.nbytes + graph.indptr.nbytes + 4 * n * K
    input_bytes += 0 if X is None else X.nbytes
    _reset_peak()
    began = time.perf_counter()
    clf = _fit(NodeClassifier, graph, X, read["y"])
    fits = [time.perf_counter() - began]
    peak = _status("VmHWM") - baseline

    M = np.random.default_rng(0).random((n, K), dtype=np.float32)
    products = []
    for _ in range(repeats):
        for _ in range(3):
            began = time.perf_counter()
            graph @ M
            products.append(time.perf_counter() - began)
        began = time.perf_counter()
        _fit(NodeClassifier, graph, X, read["y"])
        fits.append(time.perf_counter() - began)
    right = clf.labels_ == read["y_true"]
    return {
        "compiled": compiled,
        "product": min(products),
        "fit": min(fits),
        "sweeps": clf.n_iter_,
        "accuracy": float(right.mean()),
        "hidden": float(right[read["y"] < 0].mean()),
        "memory": peak / input_bytes,
        "peak_mb": peak / 1e6,
    }


def _fit(classifier: Any, graph: Any, X: Any, y: Any) -> Any:
    return classifier(n_classes=K, random_state=0).fit(X, y, graph=graph)


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return 1024 * int(line.split()[1])
    return 0


def _reset_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--links", type=float, nargs="+", default=[1e5, 1e6, 1e7])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--measure", nargs=2, metavar=("FOLDER", "FEATURES"), help="(internal)")
    options = parser.parse_args()
    if options.measure:
        folder, features = options.measure
        print(json.dumps(measure(Path(folder), features == "yes", options.repeats)))
        return
    print(
        f"{'links':>9} {'sources':>8} {'A @ M s':>8} {'fit s':>7} {'ratio':>6} {'sweeps':>6} "
        f"{'accuracy':>8} {'hidden':>7} {'genie':>7} {'memory':>7} {'MB':>6} {'compile s':>9}"
    )
    for links in map(int, options.links):
        with tempfile.TemporaryDirectory() as name:
            genie = generate(links, Path(name))
            for features, sources in (("no", "GL"), ("yes", "GFL")):
                command = [sys.executable, __file__, "--repeats", str(options.repeats)]
                done = subprocess.run(
                    [*command, "--measure", name, features], capture_output=True, text=True
                )
                if done.returncode:
                    sys.exit(done.stderr)
                r = json.loads(done.stdout)
                print(
                    f"{links:9d} {sources:>8} {r['product']:8.4f} {r['fit']:7.3f} "
                    f"{r['fit'] / r['product']:6.1f} {r['sweeps']:6d} {r['accuracy']:8.4f} "
                    f"{r['hidden']:7.4f} {genie[sources.replace('L', '')]:7.4f} "
                    f"{r['memory']:7.2f} {r['peak_mb']:6.0f} {r['compiled']:9.1f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
