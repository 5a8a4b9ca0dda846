"""`nodeproof warmup`: compile what fits need before the first of them has to wait for it."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable

import numpy as np

from nodeproof import NodeClassifier, __version__, kernels
from nodeproof.cli.console import screen
from nodeproof.cli.terminal import print_document
from nodeproof.datasets import make_planted
from nodeproof.errors import count_of
from nodeproof.kernels.dispatch import Kernel
from nodeproof.runtime import logs
from nodeproof.terms import Covariance, Gaussian, Labels

__all__ = ["run_warmup"]


def run_warmup(as_json: bool) -> None:
    """Run one small fit of each kind; print what was compiled, and where it is kept."""
    steps: dict[str, Callable[[], object]] = {
        "fits": _fit,
        "hard assignments": lambda: _fit(temperature=0),
        "class covariances": lambda: _fit(terms=[Covariance(), Labels()]),
        "thousands of nodes": lambda: _fit(p=0.01, q=0.002, n=2000, terms=[Covariance(), Labels()]),
        "many labels": lambda: _fit(label_ratio=0.6, n=300),
        "classes to be counted": lambda: _fit(label_ratio=0.0, n_classes=None),
        "proofs": _certify,
        "new nodes": _predict,
    }
    began = time.perf_counter()
    with logs.announced_by(None), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about data that nobody has asked for
        for number, (name, step) in enumerate(steps.items(), start=1):
            if not as_json:
                screen.print(f"{number} of {len(steps)}: {name}")
            step()
    stats = [kernel.compiled.stats for kernel in _kernels()]
    folder = stats[0].cache_path if stats else None
    compiled, seconds = _count_compiled(), time.perf_counter() - began
    summary = {
        "nodeproof": __version__,
        "folder": folder,
        "compiled": compiled,
        "loaded": sum(sum(found.cache_hits.values()) for found in stats),
        "seconds": round(seconds, 3),
    }
    if as_json:
        print_document(summary)
        return
    screen.print(
        f"compiled {count_of(compiled, 'function')} in {seconds:.0f} s, "
        f"{summary['loaded']} were there already: {folder}",
        soft_wrap=True,
    )


def _kernels() -> list[Kernel]:
    """Return all kernels; none where nothing is compiled."""
    found = [kernel for kernel in vars(kernels).values() if isinstance(kernel, Kernel)]
    return [kernel for kernel in found if hasattr(kernel.compiled, "stats")]


def _fit(
    label_ratio: float = 0.2, p: float = 0.2, q: float = 0.05, n: int = 60, **settings: object
) -> NodeClassifier:
    """Fit planted data, large enough not to run as Python."""
    data = make_planted(3, n, p=p, q=q, omega=0.3, label_ratio=label_ratio, random_state=0)
    clf = NodeClassifier(random_state=0).set_params(**{"n_classes": 3, **settings})
    return clf.fit(data.X, data.y if label_ratio else None, graph=data.graph)


def _certify() -> None:
    """Search for proofs until that compiles nothing more: what comes first takes the time."""
    clf = _fit(p=0.15)
    for _ in range(5):
        before = _count_compiled()
        clf.certify(time_budget=2.0)
        if _count_compiled() == before:
            break


def _count_compiled() -> int:
    return sum(sum(kernel.compiled.stats.cache_misses.values()) for kernel in _kernels())


def _predict() -> None:
    """Label new nodes that are linked with each other."""
    data = make_planted(3, 60, p=0.2, omega=0.3, random_state=0)
    old, new = np.arange(120), np.arange(120, 180)
    clf = NodeClassifier(random_state=0)
    clf.set_params(terms=[Gaussian("full"), Labels()])
    clf.fit(data.X[old], data.y[old], graph=data.graph[old][:, old])
    clf.predict(data.X[new], graph=data.graph[new])
