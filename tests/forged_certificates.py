"""Certificates that claim what is not proven, as files: all else fits together."""

import json
from collections.abc import Iterator

import numpy as np

from certificate_helpers import changed, planted_instance
from nodeproof.certificate import Certificate
from nodeproof.certificate.labelling.certify import certify_instance

Forgeries = Iterator[tuple[str, dict]]
GENUINE = ("costs", "graph", "partly", "steps")


def genuine(name: str) -> Certificate:
    """Return a true certificate of few nodes, proven in one of several ways."""
    if name == "costs":
        instance, z = planted_instance([5, 4], p=0.9, q=0.2, cost=3.0)
    elif name == "graph":
        instance, z = planted_instance([5, 5], p=1.0, q=0.1, t=0.4)
    elif name == "steps":
        instance, z = planted_instance([5, 4], p=0.7, q=0.4, cost=2.0, known=0.6, t=0.4, seed=5)
    else:  # of the whole, little is proven
        instance, z = planted_instance([5, 5], p=0.6, q=0.4, cost=0.5, known=0.4, t=0.4, seed=3)
    budget = 0.0 if name == "partly" else 1.0
    return certify_instance(instance, z, time_budget=budget, max_iter=0 if not budget else 40)


def read(path) -> tuple[dict, dict]:
    """Return the arrays of a saved certificate, and its header."""
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files}
    return arrays, json.loads(arrays.pop("meta").tobytes())


def write(path, arrays, meta) -> None:
    """Write a certificate, forged or not; arrays that are None are left out."""
    header = np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8)
    kept = {name: array for name, array in arrays.items() if array is not None}
    np.savez(path, meta=header, **kept)


def forgeries(arrays: dict, meta: dict) -> Forgeries:
    """Yield changes of arrays, and of the header by the name `meta`, that must be refused."""
    yield from _other_numbers(meta)
    yield from _other_words(arrays, meta)
    yield from _other_labels(arrays)
    yield from _other_problems(arrays)
    yield from _broken_links(arrays)
    yield from _other_anchors(arrays)
    for k in range(sum(name.endswith("_open") for name in arrays)):
        prefix = f"step{k}_"
        step = {x.removeprefix(prefix): a for x, a in arrays.items() if x.startswith(prefix)}
        for name, change in _other_steps(step, arrays):
            yield f"step {k}: {name}", {prefix + x: array for x, array in change.items()}


def _other_numbers(meta) -> Forgeries:
    size = abs(meta["objective"]) + 1.0
    for by in (1e-9, 1e-6, 1e-3, 1.0):
        yield f"objective lower by {by}", {"meta": {"objective": meta["objective"] - by * size}}
        yield f"objective higher by {by}", {"meta": {"objective": meta["objective"] + by * size}}
        higher = meta["lower_bound"] + by * size
        yield f"bound higher by {by}", {"meta": {"lower_bound": higher}}
        both = {"objective": meta["objective"] + by * size, "lower_bound": higher}
        yield f"both higher by {by}", {"meta": both}
    for number in (float("nan"), float("inf"), 10**400):
        for field in ("objective", "lower_bound", "tolerance"):
            yield (
                f"{field} {number:.5}" if number != 10**400 else f"{field} huge",
                {"meta": {field: number}},
            )
    yield "objective -inf", {"meta": {"objective": float("-inf")}}
    yield "tolerance negative", {"meta": {"tolerance": -1.0}}
    missing = meta["objective"] - meta["lower_bound"]
    for tolerance in (1.01 * missing + 1e-6, 1e6, 1e9, 1e300):
        yield f"tolerance {tolerance:.1g}", {"meta": {"tolerance": tolerance}}
    for field in ("objective", "lower_bound", "tolerance", "exact", "unique", "renaming"):
        yield f"{field} no number", {"meta": {field: "0"}}
        yield f"{field} none", {"meta": {field: None}}
        yield f"{field} a list", {"meta": {field: [0.0]}}
    yield "exact by number", {"meta": {"exact": 1}}


def _other_words(arrays, meta) -> Forgeries:
    possible = arrays["possible"]
    n = len(possible)
    for v in np.flatnonzero(possible.sum(axis=1) > 1):
        alone = possible[v] & (np.arange(possible.shape[1]) == arrays["labels"][v])
        yield f"possible at {v}", {"possible": changed(possible, v, alone)}
    for v in (0, n - 1):
        other = ~(np.arange(possible.shape[1]) == arrays["labels"][v])
        yield f"another class at {v}", {"possible": changed(possible, v, other)}
        yield f"no class at {v}", {"possible": changed(possible, v, False)}
    yield "possible of fewer", {"possible": possible[1:]}
    yield "possible as numbers", {"possible": possible.astype(np.int8)}
    yield "possible missing", {"possible": None}
    if not meta["exact"]:
        yield "exact", {"meta": {"exact": True}}
    if not meta["unique"]:
        yield "unique", {"meta": {"unique": True}}
        sure = np.eye(possible.shape[1], dtype=bool)[arrays["labels"]]
        yield "all sure", {"possible": sure, "meta": {"unique": True}}
    if meta["renaming"]:
        yield "names", {"meta": {"renaming": False}}
    yield "version 1", {"meta": {"version": 1}}
    yield "version 3", {"meta": {"version": 3}}
    yield "another format", {"meta": {"format": "proof"}}


def _other_labels(arrays) -> Forgeries:
    z, K = arrays["labels"], arrays["possible"].shape[1]
    for v in (0, len(z) - 1):
        yield f"label of {v}", {"labels": changed(z, v, (z[v] + 1) % K)}
        yield f"label of {v} out of range", {"labels": changed(z, v, K)}
        yield f"label of {v} negative", {"labels": changed(z, v, -1)}
    yield "labels of fewer", {"labels": z[1:]}
    yield "labels as floats", {"labels": z.astype(float)}
    yield "labels missing", {"labels": None}
    yield "labels unsigned", {"labels": z.astype(np.uint8)}


def _other_problems(arrays) -> Forgeries:
    """Yield other links and costs: what is proven of them is not about the problem at hand."""
    costs, eta, scales, n = arrays["costs"], arrays["eta"], arrays["scales"], len(arrays["costs"])
    yield "costs of one node", {"costs": changed(costs, (0, 0), costs[0, 0] + 1e-9)}
    yield "costs raised", {"costs": costs + 1.0}
    yield "costs doubled", {"costs": 2.0 * costs + 1.0}
    yield "costs narrow", {"costs": (costs + 0.1).astype(np.float16)}
    yield "costs nan", {"costs": changed(costs, (0, 0), np.nan)}
    yield "costs inf", {"costs": changed(costs, (0, 0), np.inf)}
    yield "costs huge", {"costs": changed(costs, (0, 0), 1e200)}
    yield "costs of fewer", {"costs": costs[1:]}
    yield "costs of more classes", {"costs": np.column_stack([costs, costs[:, 0]])}
    yield "costs flat", {"costs": costs.ravel()}
    yield "null model", {"eta": 1.5 * eta}
    yield "null model negative", {"eta": -eta}
    yield "null model nan", {"eta": eta * np.nan}
    yield "null model tiny", {"eta": np.full(n, 1e-170)}
    yield "null model of fewer", {"eta": eta[1:]}
    yield "scale of links", {"scales": scales * [1.5, 1.0]}
    yield "scale of the null model", {"scales": scales * [1.0, 1.0 + 1e-15]}
    yield "scales negative", {"scales": -scales}
    yield "scales nan", {"scales": scales * np.nan}
    yield "scales of one", {"scales": scales[:1]}
    for name in ("costs", "eta", "scales", "weights", "indptr", "indices"):
        yield f"{name} missing", {name: None}
        yield f"{name} as words", {name: arrays[name].astype("U8")}
    yield "extra arrays", {"surprise": np.ones(3)}
    yield "extra part of a step", {"step0_surprise": np.ones(3)}
    yield (
        "no proof",
        {name: None for name in arrays if name.startswith("step")} | {"meta": {"lower_bound": 1e9}},
    )


def _broken_links(arrays) -> Forgeries:
    indptr, indices, E = arrays["indptr"], arrays["indices"], len(arrays["indices"])
    ones = np.ones(E)
    rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    yield "weights zero", {"weights": changed(ones, 0, 0.0)}
    yield "weights negative", {"weights": changed(ones, 0, -1.0)}
    yield "weights nan", {"weights": changed(ones, 0, np.nan)}
    yield "weights lopsided", {"weights": changed(ones, 0, 2.0)}
    yield "weights doubled", {"weights": 2.0 * ones}
    yield "weights of fewer", {"weights": ones[1:]}
    yield "weights tiny", {"weights": 1e-200 * ones}
    first = np.flatnonzero(np.diff(indptr) > 1)[0]
    order = np.arange(E)
    order[indptr[first] : indptr[first + 1]] = order[indptr[first] : indptr[first + 1]][::-1]
    yield "links unsorted", {"indices": indices[order]}
    yield "links to oneself", {"indices": changed(indices, indptr[first], first)}
    yield "links twice", {"indices": changed(indices, indptr[first] + 1, indices[indptr[first]])}
    yield "links beyond", {"indices": changed(indices, 0, len(indptr))}
    yield "links negative", {"indices": changed(indices, 0, -1)}
    yield "links of one side", {"indices": changed(indices, 0, (indices[0] + 1) % len(indptr))}
    yield "links as floats", {"indices": indices.astype(float)}
    yield "rows beyond", {"indptr": changed(indptr, -1, E + 5)}
    yield "rows reversed", {"indptr": indptr[::-1].copy()}
    yield "rows negative", {"indptr": changed(indptr, 1, -1)}
    yield "rows that wrap", {"indptr": changed(indptr.astype(np.int64), 1, -(2**63))}
    yield "rows of fewer", {"indptr": indptr[:-1]}
    fewer = rows != 0
    fewer &= indices != 0
    counts = np.bincount(rows[fewer], minlength=len(indptr) - 1)
    yield "links of one node gone", {
        "indices": indices[fewer], "indptr": np.r_[0, np.cumsum(counts)].astype(indptr.dtype),
        "weights": np.ones(int(fewer.sum())),
    }  # fmt: skip


def _other_anchors(arrays) -> Forgeries:
    n = len(arrays["labels"])
    anchors = arrays.get("anchors", np.array([0], dtype=np.int64))
    yield "anchors beyond", {"anchors": changed(anchors, 0, n)}
    yield "anchors negative", {"anchors": changed(anchors, 0, -1)}
    yield "anchors as floats", {"anchors": anchors.astype(float)}
    yield "anchors in a table", {"anchors": anchors[:, None]}


def _other_steps(step, arrays) -> Forgeries:
    """Yield steps that are no steps, whatever they would prove."""
    opened, z = step["open"], arrays["labels"]
    K = opened.shape[1]
    yield "open of fewer", {"open": opened[1:]}
    yield "open as numbers", {"open": opened.astype(np.int8)}
    yield "nothing open", {"open": np.zeros_like(opened)}
    yield "all closed", {"open": np.eye(K, dtype=bool)[z]}
    loose = np.flatnonzero(opened.sum(axis=1) > 1)
    closed = changed(opened, loose[0], np.arange(K) == z[loose[0]])
    yield "a class closed unproven", {"open": closed}
    yield "its own class closed", {"open": changed(opened, (loose[0], z[loose[0]]), False)}
    yield "open missing", {"open": None}
    raised = np.zeros_like(opened)
    raised[loose] = np.eye(K, dtype=bool)[z[loose]]
    for kappa in (0.0, -1.0, np.nan, np.inf, 1e200):
        yield f"raised by {kappa}", {"raised": raised, "kappa": np.array(kappa)}
    yield "raised of fewer", {"raised": raised[1:], "kappa": np.array(1.0)}
    yield "raised as numbers", {"raised": raised.astype(float), "kappa": np.array(1.0)}
    yield "raised by nothing", {"raised": raised, "kappa": None}
    yield "raised twice", {"raised": raised, "kappa": np.ones(2)}
    yield "free of two", {"free": np.array([True, False])}
    for name in set(step) & {"nu", "r", "sigma", "a", "y", "g", "gamma", "groups"}:
        array = step[name]
        yield f"{name} missing", {name: None}
        yield f"{name} as words", {name: array.astype("U8")}
        yield f"{name} in a row more", {name: array[None]}
        if array.size:
            yield f"{name} of fewer", {name: array[1:]}
            if array.dtype.kind == "f":
                for number in (np.nan, np.inf, 1e200):
                    yield f"{name} {number}", {name: changed(array, (0,) * array.ndim, number)}
    if "nu" in step:
        m = len(step["nu"])
        lone = np.zeros((m, m))
        if m > 1:
            yield "signs lopsided", {"gamma": changed(lone, (0, 1), 1.0)}
            yield "signs negative", {"gamma": np.eye(m) - 1.0 - (step.get("gamma", 0) is None)}
        yield "signs on the diagonal", {"gamma": changed(lone, (0, 0), 1.0)}
        yield "signs narrow and negative", {"gamma": (-1.0 * np.eye(m)).astype(np.float16)}
