"""The data of a saved model: links and features, which updates need after loading."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof.auto.held_out import CrossFitted
from nodeproof.certificate.labelling.instance import Instance
from nodeproof.csr import check_csr, unless_all_one
from nodeproof.directed import DirectedGraph
from nodeproof.fitted import FittedData
from nodeproof.graph import Graph
from nodeproof.inputs import check_features
from nodeproof.inputs.untouched import Untouched
from nodeproof.kinds import together
from nodeproof.problem import Problem
from nodeproof.runtime.caching import cached_property
from nodeproof.settings import Settings
from nodeproof.solvers.sums import Sums
from nodeproof.storage.npz import Header
from nodeproof.storage.schema import (
    Check,
    Expected,
    either,
    entries,
    flag,
    list_of,
    number,
    one_of,
    or_none,
    text,
)
from nodeproof.terms import NodeData, Term
from nodeproof.terms.registry import allow_missing

if TYPE_CHECKING:
    from nodeproof.fitted import Fitted

__all__ = [
    "DATA_ENTRIES",
    "DATA_LAYOUT",
    "OF_KINDS",
    "SUMS_LAYOUT",
    "check_parts_of_data",
    "data_parts",
    "rebuild_data",
]

Arrays = Mapping[str, NDArray[Any]]

#: what the header says of the data
DATA_ENTRIES: dict[str, Check] = {
    # those of the labelling problem, or apart from it; of several kinds, each apart
    "links": or_none(one_of("problem", "own", "kinds")),
    "features": or_none(one_of("dense", "sparse")),
    "null_model": or_none(one_of("uniform", "degree")),
    "weights": either(one_of("calibrated"), list_of(number, 3)),
    "threshold": number,
    "trust": number,
    "kinds": list_of(
        entries(
            {"name": text, "directed": flag, "null_model": one_of("uniform", "degree")},
        ),
        32,
    ),
    "view": or_none(one_of("directed", "kinds", "together")),
}

#: what is there only where links are of several kinds, or have a direction
OF_KINDS = ("kinds", "view")

_KIND = ("name", "directed", "null_model")
_LINKS = ("data_indptr", "data_indices", "data_weights")
_SPARSE = ("data_X_data", "data_X_indices", "data_X_indptr")

#: arrays of D entries of links and x entries of sparse features
DATA_LAYOUT = {
    "data_indptr": Expected("i", "n+1"),
    "data_indices": Expected("i", "D"),
    "data_weights": Expected("f", "D | 0"),
    r"data_kind_(\d+)_indptr": Expected("i", "n+1"),
    r"data_kind_(\d+)_indices": Expected("i", "D{0}"),
    r"data_kind_(\d+)_weights": Expected("f", "D{0} | 0"),
    "data_X": Expected("f", "n m"),
    "data_X_data": Expected("f", "x"),
    "data_X_indices": Expected("i", "x"),
    "data_X_indptr": Expected("i", "n+1"),
}

#: what the memberships of the solution come to, and these, if they are not the probabilities
SUMS_LAYOUT = {
    "sums_links": Expected("f", "1 1 | K K"),
    "sums_totals": Expected("f", "K"),
    "sums_sizes": Expected("f", "K"),
    "sums_squares": Expected("f", "1 1 | K K"),
    "sums_entropy": Expected("f", "1"),
    r"sums_term_(?:\d+)": Expected("f", "K *"),
    "sums_memberships": Expected("f", "n K"),
}

# Rounding of memberships in float32.
_ROUNDING = 1e-3


class LoadedData(FittedData):
    """The data of a model that was read from a file; the problem is put together when needed."""

    def __init__(
        self,
        nodes: NodeData,
        held_out: CrossFitted | None,
        terms: tuple[Term, ...],
        on_graph: bool,
        settings: dict[str, Any],
        sums: Sums | None,
        memberships: NDArray[np.float32] | None,
        view: str | None,
    ) -> None:
        vars(self).update(nodes=nodes, held_out=held_out, untouched=Untouched({}))
        vars(self).update(sums=sums, memberships=memberships)
        vars(self).update(_terms=terms, _on_graph=on_graph, _settings=settings)
        vars(self).update(_view=view)

    @cached_property
    def problem(self) -> Problem:
        """The problem that was solved."""
        own = vars(self)
        nodes: NodeData = own["nodes"]
        terms = [term.rebound(nodes) for term in own["_terms"]]
        graph = nodes.graph if own["_on_graph"] else None
        if graph is not None and own["_view"] is not None:
            graph = graph.view(own["_view"])
        return Problem(graph, terms, nodes.n_classes, **own["_settings"])


def data_parts(
    fitted: Fitted, problem: Instance | str | None
) -> tuple[dict[str, Any] | None, dict[str, NDArray[Any]]]:
    """Return what the header says of the data, and the arrays; None and {} without any.

    Links on disk stay there.
    """
    data = fitted.data
    graph = None if data is None else data.nodes.graph
    if data is None or (graph is not None and _are_on_disk(graph)):
        return None, {}
    X: Any = data.nodes.X
    solved = data.problem
    weights = solved.weights if isinstance(solved.weights, str) else list(solved.weights)
    meta: dict[str, Any] = {"links": None, "features": None, "null_model": None}
    meta |= {"weights": weights, "threshold": solved.threshold, "trust": solved.trust}
    arrays: dict[str, NDArray[Any]] = {}
    if graph is not None:
        meta["null_model"] = graph.null_model
    if graph is not None and graph.kinds:
        meta["links"] = "kinds"
        meta["view"] = None if solved.graph is None else solved.graph.viewed
        meta["kinds"] = [{name: getattr(kind, name) for name in _KIND} for kind in graph.kinds]
        for k, kind in enumerate(graph.kinds):
            arrays |= dict(zip(_links_of_kind(k), _parts_of_links(_matrix_of(kind)), strict=True))
    elif graph is not None:
        A = graph.adjacency
        shared = isinstance(problem, Instance) and problem.adjacency is A
        meta["links"] = "problem" if shared else "own"
        if not shared:
            arrays |= dict(zip(_LINKS, _parts_of_links(A), strict=True))
    if X is not None:
        meta["features"] = "sparse" if sp.issparse(X) else "dense"
        if sp.issparse(X):
            arrays |= dict(zip(_SPARSE, (X.data, X.indices, X.indptr), strict=True))
        else:
            arrays["data_X"] = np.asarray(X)
    return meta, arrays | _sums_parts(data)


def _are_on_disk(graph: Graph) -> bool:
    """Tell whether links, of any kind, are in a folder on disk."""
    parts = [graph, *(kind.undirected for kind in graph.kinds)]
    return any(part.folder is not None for part in parts)


def _matrix_of(kind: Graph | DirectedGraph) -> sp.csr_array:
    """Return the links of a kind; the source of a link is its row."""
    return kind.links if isinstance(kind, DirectedGraph) else kind.adjacency


def _parts_of_links(A: sp.csr_array) -> tuple[NDArray[Any], ...]:
    return A.indptr, A.indices, unless_all_one(A.data)


def _links_of_kind(k: int) -> tuple[str, ...]:
    """Return the names of the arrays of a kind of links."""
    return tuple(name.replace("data_", f"data_kind_{k}_") for name in _LINKS)


def _sums_parts(data: FittedData) -> dict[str, NDArray[Any]]:
    """Return what local updates start from, if they apply."""
    sums = data.sums
    if sums is None:
        return {}
    arrays: dict[str, NDArray[Any]] = {f"sums_{k}": own for k, own in sums.to_arrays().items()}
    if data.memberships is not None:
        arrays["sums_memberships"] = data.memberships
    return arrays


def check_parts_of_data(headers: Mapping[str, Header], meta: dict[str, Any]) -> None:
    """Refuse arrays of data that are not those that the header speaks of."""
    said = meta.get("data")
    wanted: set[str] = set()
    if said is not None:
        wanted |= set(_LINKS) if said["links"] == "own" else set()
        kinds = said.get("kinds", [])
        if (said["links"] == "kinds") != bool(kinds) or bool(kinds) != ("view" in said):
            raise ValueError("the kinds of the links of its data do not fit together")
        if len({kind["name"] for kind in kinds}) < len(kinds):
            raise ValueError("two kinds of links of its data have the same name")
        for k in range(len(kinds)):
            wanted |= set(_links_of_kind(k))
        wanted |= {"dense": {"data_X"}, "sparse": set(_SPARSE)}.get(said["features"], set())
        if (said["links"] is None) != (said["null_model"] is None):
            raise ValueError("links and null model of its data do not fit together")
        if said["links"] == "problem" and "problem_indptr" not in headers:
            raise ValueError("the links of its data are missing")
        if (said["features"] is None) != (meta["n_features_in"] is None):
            raise ValueError("features and their number do not fit together")
        if meta["fitted_on_graph"] and said["links"] is None:
            raise ValueError("the links of its data are missing")
    if {name for name in headers if name.startswith("data_")} != wanted:
        raise ValueError("the parts of its data do not fit together")
    sums = {name for name in headers if name.startswith("sums_")} - {"sums_memberships"}
    listed = {name for name in SUMS_LAYOUT if "(" not in name} - {"sums_memberships"}
    listed |= {f"sums_term_{k}" for k in range(len(meta["terms"]))}
    if (sums and (said is None or sums != listed)) or ("sums_memberships" in headers and not sums):
        raise ValueError("the sums of its memberships do not fit together")


def _rebuild_sums(arrays: Arrays, n_terms: int) -> tuple[Sums | None, NDArray[np.float32] | None]:
    """Return what local updates start from, if it is there.

    Raises
    ------
    ValueError
        If the numbers are not sums over memberships, or no memberships.
    """
    if "sums_links" not in arrays:
        return None, None
    parts = {name: array for name, array in arrays.items() if name.startswith("sums_")}
    if not all(np.isfinite(array).all() for array in parts.values()):
        raise ValueError("the sums of its memberships are not finite")
    if parts["sums_links"].shape != parts["sums_squares"].shape:
        raise ValueError("the sums of its memberships do not fit together")
    if abs(parts["sums_sizes"].sum() - len(arrays["proba"])) > _ROUNDING * len(arrays["proba"]):
        raise ValueError("the sizes of its classes do not add up to its nodes")
    W = parts.get("sums_memberships")
    if W is not None:
        W = W.astype(np.float32, copy=False)
        if W.min() < 0 or (np.abs(W.sum(axis=1, dtype=np.float64) - 1.0) > _ROUNDING).any():
            raise ValueError("its memberships are not shares that add up to 1")
    own = {name.removeprefix("sums_"): array for name, array in parts.items()}
    return Sums.from_arrays(own, n_terms), W


def rebuild_data(
    meta: dict[str, Any],
    arrays: Arrays,
    terms: tuple[Term, ...],
    settings: Settings,
    problem: Instance | str | None,
    held_out: CrossFitted | None,
) -> FittedData | None:
    """Return the data, if they are there.

    Raises
    ------
    ValueError, InputError
        If they are not links and features of the nodes of the model.
    """
    said = meta.get("data")
    if said is None:
        return None
    n, K = arrays["proba"].shape
    names, given = arrays.get("feature_names"), arrays["given"]
    names = None if names is None else names.astype(object)
    X: Any = arrays.get("data_X")
    if said["features"] == "sparse":
        X = sp.csr_array(tuple(arrays[name] for name in _SPARSE), (n, int(meta["n_features_in"])))
        check_csr(X)
    if X is not None:
        check_features(X, names, allow_missing(settings.terms))
    graph = None
    if said["links"] == "kinds":
        graph = _kinds(said, arrays, n)
    elif said["links"] is not None:
        graph = Graph(_links(said, arrays, n, problem), said["null_model"], n)
    nodes = NodeData(K, X, given if len(given) else None, graph, feature_names=names)
    weights = said["weights"]
    solved = {
        "weights": weights if isinstance(weights, str) else tuple(weights),
        "threshold": said["threshold"],
        "trust": said["trust"],
        "son": settings.son,
    }
    kept = _rebuild_sums(arrays, len(terms))
    on_graph, view = bool(meta["fitted_on_graph"]), said.get("view")
    return LoadedData(nodes, held_out, terms, on_graph, solved, *kept, view)


def _links(
    said: dict[str, Any], arrays: Arrays, n: int, problem: Instance | str | None
) -> sp.csr_array:
    if said["links"] == "problem":
        assert isinstance(problem, Instance)
        return problem.adjacency
    A = _read_links(arrays, _LINKS, n)
    if (A != A.T).nnz:
        raise ValueError("its links are not the same in both directions")
    return A


def _kinds(said: dict[str, Any], arrays: Arrays, n: int) -> Graph:
    """Return the graph of all links, with their kinds."""
    found: list[Graph | DirectedGraph] = []
    for k, kind in enumerate(said["kinds"]):
        A = both = _read_links(arrays, _links_of_kind(k), n)
        if kind["directed"]:
            both = sp.csr_array(A.maximum(A.T))
            both.sort_indices()
        elif (A != A.T).nnz:
            raise ValueError("its links are not the same in both directions")
        undirected = Graph(both, kind["null_model"], n)
        own = DirectedGraph(A, undirected) if kind["directed"] else undirected
        own.name = undirected.name = kind["name"]
        found.append(own)
    return together(found, said["null_model"])


def _read_links(arrays: Arrays, names: tuple[str, ...], n: int) -> sp.csr_array:
    indptr, indices, weights = (arrays[name] for name in names)
    if not len(weights):
        weights = np.ones(len(indices), dtype=np.float32)
    A = sp.csr_array((weights, indices, indptr), shape=(n, n))
    check_csr(A)
    if not (A.data > 0).all() or A.diagonal().any():
        raise ValueError("its links are not positive, or go to the node itself")
    return A
