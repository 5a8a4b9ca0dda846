"""Small data and numerical derivatives that several test files share."""

import signal
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np
import pytest
import scipy.sparse as sp

import compile_once
import dealt_cases
from browser_helpers import browser, browser_page  # noqa: F401 (fixtures)
from checkpoint_helpers import ask, kill  # noqa: F401 (fixtures)
from nodeproof.datasets import Planted, make_planted
from nodeproof.paper.experiments import PANELS, Panel
from nodeproof.runtime import threads

#: Files that take long, all or their slow tests: a worker that gets one last keeps the others
#: waiting.
LONGEST = {
    "test_certificate_mutants",
    "test_certificate_never_wrong",
    "test_dask",
    "test_docs",
    "test_estimator",
    "test_examples",
    "test_extremes",
    "test_regressor",
    "test_reproduce",
    "test_writing",
}


@pytest.fixture(scope="session")
def planted() -> Planted:
    """Three classes of 20 nodes; everything says something, nothing says it all."""
    return make_planted(
        cluster_size=20,
        p=0.4,
        q=0.1,
        n_features=3,
        n_noise=1,
        omega=0.4,
        label_ratio=0.3,
        label_accuracy=0.8,
        random_state=0,
    )


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Keep BLAS to one thread, as in a fit: on small matrices more are slower."""
    with threads.using(1):
        yield


@pytest.fixture
def registry() -> Iterator[dict[str, Panel]]:
    """Forget, after a test, the experiments that it registered."""
    with mock.patch.dict(PANELS):
        yield PANELS


@pytest.fixture(scope="session")
def random_graph() -> Callable[..., sp.csr_array]:
    """Return a maker of symmetric graphs without self loops, weighted or not."""

    def make(n: int, density: float = 0.4, weighted: bool = False, seed: int = 0) -> sp.csr_array:
        rng = np.random.default_rng(seed)
        upper = np.triu(rng.random((n, n)) < density, 1).astype(np.float64)
        if weighted:
            upper *= rng.uniform(0.2, 3.0, size=(n, n))
        return sp.csr_array(upper + upper.T)

    return make


@pytest.fixture(scope="session")
def slope() -> Callable[..., float]:
    """Return the central difference of a function along a direction."""

    def central(
        function: Callable[[Any], float], point: Any, direction: Any, step: float = 1e-5
    ) -> float:
        ahead = function(point + step * direction)
        behind = function(point - step * direction)
        return (ahead - behind) / (2.0 * step)

    return central


@pytest.fixture(scope="session")
def easy():
    """Planted data that every method should solve."""
    return make_planted(cluster_size=100, p=0.25, omega=0.1, random_state=0)


@pytest.fixture(scope="session")
def hard():
    """Planted data with few labels, weak links and weak features."""
    return make_planted(cluster_size=60, p=0.15, omega=0.4, label_ratio=0.05, random_state=1)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the contracts be run on a term or an expert of your own (docs/extend.md)."""
    group = parser.getgroup("nodeproof")
    group.addoption(
        "--term",
        action="append",
        default=[],
        metavar="MODULE:NAME",
        help="test this term instead of nodeproof's; made without arguments",
    )
    group.addoption(
        "--own-expert",
        action="append",
        default=[],
        metavar="MODULE:NAME",
        help="test this expert instead of nodeproof's; made without arguments",
    )
    group.addoption("--counts", action="store_true", help="its features are counts")
    group.addoption(
        "--deal",
        default="1/1",
        metavar="HAND/HANDS",
        help="run one hand of the cases of every test (tests/dealt_cases.py)",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the cases that another run of the same tests has; begin with the longest files."""
    kept, others = dealt_cases.deal(items, *dealt_cases.as_hand(config.getoption("--deal")))
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in others])
    items[:] = sorted(kept, key=lambda item: item.path.stem not in LONGEST)


def pytest_configure() -> None:
    """Share compiled loops among workers; hear Ctrl-C also in the background."""
    compile_once.install()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
