"""The arrays of a saved model: what shapes they have, and what their numbers must be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof.affinity import FittedGraph
from nodeproof.auto.held_out import CrossFitted
from nodeproof.certificate.labelling.instance import Instance
from nodeproof.csr import check_csr
from nodeproof.findings import Findings
from nodeproof.fitted_kinds import FittedKinds
from nodeproof.inputs.knn import Neighbours
from nodeproof.inputs.node_names import writable
from nodeproof.prediction import PredictionState
from nodeproof.saving.data import DATA_LAYOUT, SUMS_LAYOUT, check_parts_of_data
from nodeproof.saving.header import GRAPH_SETTINGS, KEPT_BY_TERMS, term_classes
from nodeproof.storage.npz import Header
from nodeproof.storage.schema import Expected, check_layout
from nodeproof.terms import Term

if TYPE_CHECKING:
    from nodeproof.fitted import Fitted

__all__ = [
    "NEIGHBOURS_LAYOUT",
    "check_arrays",
    "check_values",
    "describe_kept",
    "of_neighbours",
    "rebuild_findings",
    "rebuild_held_out",
    "rebuild_kept",
    "rebuild_neighbours",
    "rebuild_problem",
    "to_arrays",
]

Arrays = Mapping[str, NDArray[Any]]

_PROBLEM, _FINDINGS, _HELD = "problem_", "findings_", "held_"
_PREFIXES = tuple(f"{kind}_" for kind in KEPT_BY_TERMS)

#: what links new nodes to their neighbours
NEIGHBOURS_LAYOUT = {
    "knn_X": Expected("f", "n m"),
    "knn_data": Expected("f", "e"),
    "knn_indices": Expected("i", "e"),
    "knn_indptr": Expected("i", "n+1"),
    "knn_scale": Expected("f", "m"),
    "knn_widths": Expected("f", "n"),
}

#: n nodes, K classes, m features, E entries of links, l held-out labels; of findings s nodes to
#: show, h that were cross-fitted and L links to draw
_LAYOUT = {
    "meta": Expected("u", "*", required=True),
    "proba": Expected("f", "n K", required=True),
    "classes": Expected("biufU", "K", required=True),
    "given": Expected("i", "n | 0", required=True),
    "log_prior": Expected("f", "K", required=True),
    "ell": Expected("f", "1 1 | K K | R 1 1 | R K K"),
    "ell_t": Expected("f", "1 1 | K K | R 1 1 | R K K"),
    "shift": Expected("f", "m"),
    "scale": Expected("f", "m"),
    "feature_names": Expected("U", "m"),
    "node_ids": Expected("biufU", "n"),
    "null_pairs": Expected("f", "K | R 2 K"),
    **NEIGHBOURS_LAYOUT,
    "problem_costs": Expected("f", "n K"),
    "problem_eta": Expected("f", "n | n Q"),
    "problem_scales": Expected("f", "2"),
    "problem_indptr": Expected("i", "n+1"),
    "problem_indices": Expected("i", "E"),
    "problem_weights": Expected("biuf", "E | 0"),
    "held_nodes": Expected("i", "l"),
    "held_codes": Expected("i", "l"),
    "held_proba": Expected("f", "l K"),
    "held_noise": Expected("f", "1"),
    "held_proportions": Expected("f", "K"),
    "findings_nodes": Expected("i", "s"),
    "findings_even": Expected("b", "s"),
    r"findings_evidence_(graph|features|labels|kind\d+)": Expected("f", "s K"),
    "findings_linked": Expected("f", "s K"),
    "findings_blocks": Expected("f", "K K"),
    "findings_chance": Expected("f", "K K"),
    "findings_positions": Expected("f", "n 2"),
    "findings_links": Expected("i", "L 2"),
    "findings_judged": Expected("i", "h"),
    "findings_told": Expected("i", "h"),
    "findings_blind": Expected("f", "h K"),
    **DATA_LAYOUT,
    **SUMS_LAYOUT,
}

# The parts of a sparse matrix.
_CSR = ("data", "indices", "indptr")

# Sums of float32, and of what float32 has rounded.
_ROUNDING = 1e-3


def to_arrays(
    fitted: Fitted, problem: Instance | str | None, findings: Findings | None
) -> dict[str, NDArray[Any]]:
    """Return all arrays of a fitted model, by their names in the file."""
    arrays = {
        "classes": fitted.classes,
        "proba": fitted.proba,
        "given": np.empty(0, np.int64) if fitted.given is None else fitted.given,
        "log_prior": fitted.models.log_prior,
    }
    if fitted.models.affinity is not None:
        arrays["ell"], arrays["ell_t"] = fitted.models.affinity.ell, fitted.models.affinity.ell_t
    for k, models in enumerate(fitted.models.terms):
        arrays[f"term_{k}"] = models
    if fitted.unit is not None:
        arrays["shift"], arrays["scale"] = fitted.unit.shift, fitted.unit.scale
    if fitted.feature_names is not None:
        arrays["feature_names"] = fitted.feature_names.astype(str)
    if fitted.node_ids is not None:
        arrays["node_ids"] = writable(fitted.node_ids)
    if isinstance(graph := fitted.new_nodes.graph, FittedKinds):
        arrays["null_pairs"] = graph.to_parts()[1]
    elif graph is not None:
        arrays["null_pairs"] = graph.pairs
    if fitted.new_nodes.neighbours is not None:
        arrays |= of_neighbours(fitted.new_nodes.neighbours)
    for k, (term, kept) in enumerate(zip(fitted.terms, fitted.new_nodes.terms, strict=True)):
        parts = {} if kept is None else kept.to_parts()[1]
        arrays |= {f"{term.kept_as}_{k}_{name}": part for name, part in parts.items()}
    if (held := fitted.held_out) is not None:
        parts = held._asdict() | {"noise": np.array([held.noise])}
        arrays |= {_HELD + name: part for name, part in parts.items() if part is not None}
    if isinstance(problem, Instance):
        arrays |= {_PROBLEM + name: array for name, array in problem.to_arrays().items()}
    if findings is not None:
        arrays |= {_FINDINGS + name: array for name, array in findings.to_parts()[1].items()}
    return arrays


def check_arrays(headers: Mapping[str, Header], meta: dict[str, Any]) -> None:
    """Refuse arrays that do not fit together or to the header, by their headers alone."""
    m = meta["n_features_in"]
    layout = _LAYOUT | _of_terms(meta)
    sizes = check_layout(headers, layout, **({} if m is None else {"m": int(m)}))
    _agree(sizes["n"] > 0 and sizes["K"] > 0, "nodes and classes")
    for pair in (("ell", "ell_t"), ("shift", "scale")):
        _agree(len(set(pair) & set(headers)) != 1, " and ".join(pair))
    if "ell" in headers:
        _agree(headers["ell"].shape == headers["ell_t"].shape, "affinities")
    held = {_HELD + name for name in ("nodes", "codes", "proba", "noise")} & set(headers)
    _agree(
        len(held) in (0, 4) and (bool(held) or f"{_HELD}proportions" not in headers),
        "held-out labels",
    )
    listed = {name for name in _LAYOUT if name.startswith(_PROBLEM)}
    _agree(not listed & set(headers) or listed <= set(headers), "parts of the labelling problem")
    required = {_FINDINGS + name for name in ("nodes", "even", "judged", "told", "blind")}
    there = {name for name in headers if name.startswith(_FINDINGS)}
    _agree(required <= there if meta.get("findings") else not there, "findings")
    for pair in (("linked", "blocks"), ("blocks", "chance"), ("positions", "links")):
        _agree(len({_FINDINGS + name for name in pair} & there) != 1, f"findings of {pair[0]}")
    rows = {"knn_X"} if "knn_X" in headers else {"knn_data", "knn_indices", "knn_indptr"}
    nearest = {name for name in headers if name.startswith("knn_")} - {"knn_scale"}
    asked = meta.get("kept", {}).get("knn") is not None
    _agree(nearest == ({"knn_widths"} | rows if asked else set()), "parts of the neighbours")
    check_parts_of_data(headers, meta)
    if meta["version"] > 1:
        kept = meta["kept"]["graph"]
        _agree((kept is None) == ("null_pairs" not in headers), "graph and pairs")
        several = isinstance(kept, list)
        for name, sides in (("null_pairs", 3 if several else 1), ("ell", 3 if several else 2)):
            _agree(name not in headers or len(headers[name].shape) == sides, "kinds of links")


def _of_terms(meta: dict[str, Any]) -> dict[str, Expected]:
    """Return what the arrays of the terms must look like."""
    found: dict[str, Expected] = {}
    for k, term in enumerate(term_classes(meta)):
        found[f"term_{k}"] = Expected("f", term.models_shape, required=True)
        if not (term.kept_settings or term.kept_arrays):
            continue
        kept = meta.get("kept", {}).get(term.kept_as, {}).get(str(k), {})
        for name, part in term.kept_layout(kept).items():
            shapes = part.shapes.format(k)
            found[f"{term.kept_as}_{k}_{name}"] = replace(part, shapes=shapes)
    return found


def check_values(arrays: Arrays, meta: dict[str, Any]) -> None:
    """Refuse numbers that no fit can have left."""
    proba, given = arrays["proba"], arrays["given"]
    sums = proba.sum(axis=1, dtype=np.float64)
    if proba.shape[1] == 1:
        sums = np.where((sums > 0) & (sums <= 1), 1.0, sums)  # of one class it may be less
    # NaN is not close to anything.
    if not ((proba >= 0).all() and (np.abs(sums - 1.0) <= _ROUNDING).all()):
        raise ValueError("its probabilities are not numbers from 0 to 1 that add up to 1")
    if len(given) and not (given.min() >= -1 and given.max() < proba.shape[1]):
        raise ValueError("a given label names no class")
    if len(np.unique(arrays["classes"])) < proba.shape[1]:
        raise ValueError("two classes have the same name")
    if not (arrays["log_prior"] < np.inf).all():
        raise ValueError("proportions of classes are no numbers")
    infinite = {name for name, expected in _of_terms(meta).items() if expected.infinite}
    for name, array in arrays.items():
        finite = name.startswith((*_PREFIXES, "ell", "null_", "knn_")) or name in ("shift", "scale")
        if finite and array.dtype.kind == "f":
            refused = np.isnan(array) if name in infinite else ~np.isfinite(array)
            if refused.any():
                raise ValueError(f"{name} holds numbers that are not finite")
    if "scale" in arrays and not (arrays["scale"] > 0).all():
        raise ValueError("the scale of a feature is not positive")
    if f"{_FINDINGS}nodes" in arrays:
        _check_findings(arrays)
    if f"{_HELD}nodes" in arrays:
        _check_held_out(arrays)


def rebuild_problem(meta: dict[str, Any], arrays: Arrays) -> Instance | str | None:
    """Return the labelling problem, why there is none to certify, or None where it is not there."""
    if reason := meta.get("not_applicable"):
        return str(reason)
    parts = _parts(arrays, _PROBLEM)
    if not parts:
        return None
    problem = Instance.from_arrays(parts)
    A = problem.adjacency
    if A.diagonal().any() or (A != A.T).nnz:
        raise ValueError("its links are not the same in both directions, or go to the node itself")
    return problem


def describe_kept(kept: PredictionState, terms: Sequence[Term]) -> dict[str, Any]:
    """Return what is kept for new nodes beside arrays."""
    graph = kept.graph
    described: dict[str, Any] = {
        "scale": kept.scale,
        "graph": graph.to_parts()[0]
        if isinstance(graph, FittedKinds)
        else graph and {name: getattr(graph, name) for name in GRAPH_SETTINGS},
        "softmax": {},  # readers expect it, whatever the terms
    }
    if kept.kinds is not None:
        described["kinds"] = kept.kinds.to_parts()[0]
    if kept.labelled is not None:
        described["labelled"] = kept.labelled
    if kept.neighbours is not None:
        described["knn"] = {"k": kept.neighbours.k, "metric": kept.neighbours.metric}
    for k, (term, costs) in enumerate(zip(terms, kept.terms, strict=True)):
        if costs is not None and (term.kept_settings or term.kept_arrays):
            described.setdefault(term.kept_as, {})[str(k)] = costs.to_parts()[0]
    return described


def rebuild_kept(
    meta: dict[str, Any],
    arrays: Arrays,
    terms: Sequence[Term],
    models: Sequence[NDArray[Any]],
    calibrated: bool,
) -> PredictionState:
    """Return what is kept for new nodes; of the graph, nothing of it was in the first version."""
    described = meta.get("kept") or {"graph": None, "scale": 1.0}
    graph: FittedGraph | FittedKinds | None = None
    if isinstance(described["graph"], list):
        graph = FittedKinds.of_parts(described["graph"], arrays["null_pairs"])
    elif described["graph"] is not None:
        graph = FittedGraph(**described["graph"], pairs=arrays["null_pairs"])
        if not (graph.unit > 0 and graph.total >= 0):
            raise ValueError("the weights of its links are not positive")
    costs = []
    for k, (term, theta) in enumerate(zip(terms, models, strict=True)):
        settings = described.get(term.kept_as, {}).get(str(k), {})
        parts = _parts(arrays, f"{term.kept_as}_{k}_")
        costs.append(term.restored(theta, calibrated, settings, parts))
    neighbours = rebuild_neighbours(meta, arrays)
    labelled, listed = described.get("labelled"), described.get("kinds")
    kinds = None
    if listed is not None:  # what links are read by; what they are worth is known of `graph`
        kinds = FittedKinds.of_parts(listed, np.zeros((len(listed), 2, arrays["proba"].shape[1])))
    return PredictionState(graph, tuple(costs), described["scale"], neighbours, labelled, kinds)


def of_neighbours(neighbours: Neighbours) -> dict[str, NDArray[Any]]:
    """Return the arrays that link new nodes to their neighbours."""
    X, arrays = neighbours.X, {"knn_widths": neighbours.widths}
    if neighbours.scale is not None:
        arrays["knn_scale"] = neighbours.scale
    if sp.issparse(X):
        return arrays | {f"knn_{part}": getattr(X, part) for part in _CSR}
    return arrays | {"knn_X": X}


def rebuild_neighbours(meta: dict[str, Any], arrays: Arrays) -> Neighbours | None:
    """Return what links new nodes to their neighbours, if it is there."""
    described = (meta.get("kept") or {}).get("knn")
    if described is None:
        return None
    widths, scale = arrays["knn_widths"], arrays.get("knn_scale")
    if (widths < 0).any() or (scale is not None and (scale <= 0).any()):
        raise ValueError("the widths of its neighbours are negative")
    X = arrays.get("knn_X")
    if X is None:
        shape = len(widths), int(meta["n_features_in"])
        X = sp.csr_array(tuple(arrays[f"knn_{part}"] for part in _CSR), shape)
        check_csr(X)
    if not described["k"] < len(widths):
        raise ValueError("it has fewer nodes than neighbours of each")
    return Neighbours(X, described["k"], described["metric"], scale, widths)


def rebuild_findings(meta: dict[str, Any], arrays: Arrays) -> Findings | None:
    """Return what a report shows, if it is there."""
    if meta.get("findings") is None:
        return None
    return Findings.from_parts(meta["findings"], _parts(arrays, _FINDINGS))


def _check_findings(arrays: Arrays) -> None:
    n, K = arrays["proba"].shape
    parts = _parts(arrays, _FINDINGS)
    for name, array in parts.items():
        if not np.isfinite(array).all():
            raise ValueError(f"{_FINDINGS}{name} holds numbers that are not finite")
    for name, end in (("nodes", n), ("judged", n), ("links", n), ("told", K)):
        found = parts.get(name, np.empty(0))
        if found.size and not (found.min() >= 0 and found.max() < end):
            raise ValueError(f"{_FINDINGS}{name} names something that is not there")
    if not len(parts["nodes"]) or (np.diff(parts["nodes"]) <= 0).any():
        raise ValueError(f"{_FINDINGS}nodes are not in their order")
    if parts["blind"].min(initial=0.0) < 0 or parts["blind"].max(initial=0.0) > 1 + _ROUNDING:
        raise ValueError(f"{_FINDINGS}blind holds no probabilities")


def rebuild_held_out(arrays: Arrays) -> CrossFitted | None:
    """Return the held-out labels, if they are there."""
    parts = _parts(arrays, _HELD)
    if not parts:
        return None
    noise = float(parts.pop("noise")[0])
    return CrossFitted(**parts, noise=noise)


def _check_held_out(arrays: Arrays) -> None:
    n, K = arrays["proba"].shape
    parts = _parts(arrays, _HELD)
    for name, end in (("nodes", n), ("codes", K)):
        found = parts[name]
        if found.size and not (found.min() >= 0 and found.max() < end):
            raise ValueError(f"{_HELD}{name} names something that is not there")
    sums = parts["proba"].sum(axis=1, dtype=np.float64)
    if not ((parts["proba"] >= 0).all() and (np.abs(sums - 1.0) <= _ROUNDING).all()):
        raise ValueError(f"{_HELD}proba holds no probabilities")
    if not 0 <= parts["noise"][0] < 1:
        raise ValueError(f"{_HELD}noise is not a share")
    mix = parts.get("proportions", np.ones(1))
    if not ((mix > 0).all() and abs(mix.sum() - 1.0) <= _ROUNDING):
        raise ValueError(f"{_HELD}proportions are not shares of one")


def _parts(arrays: Arrays, prefix: str) -> dict[str, NDArray[Any]]:
    """Return the arrays whose names begin so, by the rest of their names."""
    return {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }


def _agree(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(f"{what} do not fit together")
