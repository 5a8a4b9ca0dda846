"""Label every node of a graph from its links, its features and a few labels.

>>> from nodeproof import NodeClassifier
>>> from nodeproof.datasets import make_planted
>>> data = make_planted(random_state=0)
>>> clf = NodeClassifier(random_state=0).fit(data.X, data.y, graph=data.graph)
>>> bool((clf.labels_ == data.y_true).mean() > 0.99)
True
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

__all__ = [
    "Directed",
    "NodeClassifier",
    "NodeRegressor",
    "Problem",
    "atoms",
    "certificate",
    "certify",
    "datasets",
    "experts",
    "interop",
    "knn_graph",
    "metrics",
    "model_selection",
    "paper",
    "path",
    "plot",
    "sets",
    "solvers",
    "terms",
]

if TYPE_CHECKING:
    from nodeproof import (
        atoms,
        certificate,
        datasets,
        experts,
        interop,
        metrics,
        model_selection,
        paper,
        path,
        plot,
        sets,
        solvers,
        terms,
    )
    from nodeproof.certificate import certify
    from nodeproof.estimator import NodeClassifier
    from nodeproof.inputs.knn import knn_graph
    from nodeproof.inputs.link_kinds import Directed
    from nodeproof.problem import Problem
    from nodeproof.regressor import NodeRegressor

_HOMES = {
    "Directed": "nodeproof.inputs.link_kinds",
    "NodeClassifier": "nodeproof.estimator",
    "NodeRegressor": "nodeproof.regressor",
    "Problem": "nodeproof.problem",
    "certify": "nodeproof.certificate",
    "knn_graph": "nodeproof.inputs.knn",
}


def __getattr__(name: str) -> Any:
    # Names are looked up on first use, so that `import nodeproof` and `nodeproof --help`
    # do not wait for scipy and numba.
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in __all__:
        return import_module(f"nodeproof.{name}")
    raise AttributeError(f"module 'nodeproof' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
