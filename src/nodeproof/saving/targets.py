"""Saved models of numeric targets: one `.npz` file, no pickle.

``meta`` holds JSON in UTF-8 as bytes, as in `saving.model`, under a format name of its own. Beside
it lie ``given``, ``predictions`` and ``spread`` (n,), ``scores`` (h,), perhaps ``suspects`` (the
nodes), ``node_ids``, ``feature_names``, the unit of extreme features and the parts of neighbours;
and what the experts of the pool keep for new nodes, as ``stack_0_…``, ``stack_1_…``, and of
the widths of intervals as ``widths_0_…``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodeproof import __version__
from nodeproof.errors import InputError
from nodeproof.inputs import Unit
from nodeproof.inputs.knn import METRICS
from nodeproof.inputs.node_names import writable
from nodeproof.inputs.preparation import Preparation
from nodeproof.regression.fitted import Difficulty, ErrorEstimate, FittedTargets, find_suspects
from nodeproof.regression.settings import EXPERTS, RegressionSettings
from nodeproof.regression.stack import Stack
from nodeproof.saving.arrays import NEIGHBOURS_LAYOUT, of_neighbours, rebuild_neighbours
from nodeproof.saving.header import FORMAT, LARGEST, PARAMS, PREPARATION, TARGETS
from nodeproof.storage.atomic import atomic_path
from nodeproof.storage.npz import open_npz, write_npz
from nodeproof.storage.schema import (
    Check,
    Expected,
    anything,
    as_plain,
    check_entries,
    check_layout,
    dict_of,
    either,
    entries,
    flag,
    list_of,
    number,
    one_of,
    or_none,
    parse_object,
    text,
    whole,
)

__all__ = ["is_of_targets", "load_targets", "save_targets"]

_VERSION = 1

Arrays = Mapping[str, NDArray[Any]]

_STACK: Check = entries(
    {
        "mean": number,
        "names": list_of(one_of(*EXPERTS), len(EXPERTS)),
        "weights": list_of(lambda value: number(value) and value > 0, len(EXPERTS)),
        "settings": list_of(dict_of(either(number, flag, text)), len(EXPERTS)),
    }
)

_HEADER: dict[str, Check] = {
    "format": one_of(TARGETS),
    "version": lambda value: value == _VERSION,
    "nodeproof": text,
    "params": entries(
        {"experts": either(text, list_of(text)), "prepare": PARAMS["prepare"],
         "random_state": or_none(whole)}
    ),
    "choices": dict_of(entries({"value": anything, "why": text})),
    "estimated_error": or_none(list_of(number, len(ErrorEstimate._fields))),
    "centre": number,
    "scale": lambda value: number(value) and value >= 0,
    "stack": _STACK,
    "widths": or_none(_STACK),
    "on_graph": flag,
    "n_links": whole,
    "link_unit": lambda value: number(value) and value > 0,
    "n_features_in": or_none(whole),
    "kept": entries({"knn": or_none(entries({"k": whole, "metric": one_of(*METRICS)}))}),
    "preparation": or_none(PREPARATION),
    "notes": list_of(text),
    "command": text,
}  # fmt: skip

_LAYOUT = {
    "meta": Expected("u", "*", required=True),
    "given": Expected("f", "n", required=True),
    "predictions": Expected("f", "n", required=True),
    "spread": Expected("f", "n", required=True),
    "scores": Expected("f", "h", required=True),
    "shift": Expected("f", "m"),
    "scale": Expected("f", "m"),
    "feature_names": Expected("U", "m"),
    "node_ids": Expected("biufU", "n"),
    **NEIGHBOURS_LAYOUT,
}


def save_targets(fitted: FittedTargets, path: str | PathLike[str]) -> None:
    """Write a fitted model to ``path``; the file appears only when it is complete."""
    seed = fitted.settings.random_state
    seed = None if isinstance(seed, np.random.RandomState) else as_plain(seed)
    knn, error = fitted.neighbours, fitted.estimated_error
    arrays: dict[str, NDArray[Any]] = {
        "given": fitted.given,
        "predictions": fitted.predictions,
        "spread": fitted.spread,
        "scores": fitted.scores,
    }
    widths = None if fitted.difficulty is None else fitted.difficulty.stack
    meta = {
        "format": TARGETS,
        "version": _VERSION,
        "nodeproof": __version__,
        "params": {
            "experts": as_plain(fitted.settings.experts),
            "prepare": as_plain(fitted.settings.prepare),
            "random_state": seed,
        },
        "choices": fitted.choices,
        "estimated_error": None if error is None else list(error),
        "centre": fitted.centre,
        "scale": fitted.scale,
        "stack": _to_parts(fitted.stack, "stack", arrays),
        "widths": None if widths is None else _to_parts(widths, "widths", arrays),
        "on_graph": fitted.on_graph,
        "n_links": fitted.n_links,
        "link_unit": fitted.link_unit,
        "n_features_in": fitted.n_features,
        "kept": {"knn": None if knn is None else {"k": knn.k, "metric": knn.metric}},
        "preparation": None if fitted.preparation is None else fitted.preparation.to_json(),
        "notes": list(fitted.notes),
        "command": fitted.command,
    }
    data = json.dumps(meta).encode()
    arrays["meta"] = np.frombuffer(data, dtype=np.uint8)
    if fitted.unit is not None:
        arrays |= {"shift": fitted.unit.shift, "scale": fitted.unit.scale}
    if fitted.feature_names is not None:
        arrays["feature_names"] = fitted.feature_names.astype(str)
    if fitted.node_ids is not None:
        arrays["node_ids"] = writable(fitted.node_ids)
    if knn is not None:
        arrays |= of_neighbours(knn)
    with atomic_path(path) as temporary, Path(temporary).open("wb") as file:
        write_npz(file, arrays)


def load_targets(path: str | PathLike[str]) -> FittedTargets:
    """Read a model that :func:`save_targets` has written."""
    if not Path(path).is_file():
        raise InputError(f"there is no model file {path}")
    with open_npz(path) as archive:
        if "meta" not in archive or archive.header("meta").nbytes > LARGEST:
            raise InputError(f"{archive.path} is not a nodeproof model: it has no header")
        meta = parse_object(archive["meta"].tobytes(), LARGEST)
        if meta.get("format") == FORMAT:
            raise InputError(f"{path} is a model of classes: read it with NodeClassifier.load")
        if meta.get("format") != TARGETS:
            raise InputError(f"{path} is not a nodeproof model: its header is of another format")
        if meta.get("version") != _VERSION:
            raise InputError(
                f"{path} is in format {meta.get('version')!s:.20}, and this is nodeproof "
                f"{__version__}, which reads format {_VERSION}: upgrade it"
            )
        check_entries(meta, _HEADER)
        m = meta["n_features_in"]
        layout = _LAYOUT | _layout_of(meta["stack"], "stack")
        if meta["widths"] is not None:
            layout |= _layout_of(meta["widths"], "widths")
        check_layout(archive.headers(), layout, **{"K": 2, **({} if m is None else {"m": int(m)})})
        arrays = {name: archive[name] for name in archive if name != "meta"}
        try:
            return _rebuild(meta, arrays)
        except (InputError, TypeError, LookupError) as error:
            raise ValueError(str(error)) from None


def is_of_targets(path: str | PathLike[str]) -> bool:
    """Tell whether a file is a model of numeric targets, by its header."""
    with open_npz(path) as archive:
        if "meta" not in archive or archive.header("meta").nbytes > LARGEST:
            return False
        return parse_object(archive["meta"].tobytes(), LARGEST).get("format") == TARGETS


def _to_parts(stack: Stack, prefix: str, arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    """Return what the header says of a stack, and add its arrays."""
    described = []
    for k, learnt in enumerate(stack.learnt):
        settings, parts = learnt.to_parts()
        described.append(settings)
        arrays |= {f"{prefix}_{k}_{name}": np.asarray(part) for name, part in parts.items()}
    return {
        "mean": stack.mean,
        "names": list(stack.names),
        "weights": list(stack.weights),
        "settings": described,
    }


def _layout_of(said: Mapping[str, Any], prefix: str) -> dict[str, Expected]:
    """Return which arrays there must be of a stack."""
    names = said["names"]
    if not len(names) == len(said["weights"]) == len(said["settings"]) == len(set(names)):
        raise ValueError("the experts of its pool do not fit together")
    found = {}
    for k, (name, settings) in enumerate(zip(names, said["settings"], strict=True)):
        check_entries(settings, EXPERTS[name].kept_settings, what=f"what {name} keeps")
        for part, expected in EXPERTS[name].kept_layout(settings).items():
            shapes = expected.shapes.format(f"{prefix}{k}")
            found[f"{prefix}_{k}_{part}"] = replace(expected, shapes=shapes)
    return found


def _stack_of(said: Mapping[str, Any], prefix: str, arrays: Arrays) -> Stack:
    """Return a stack from its parts."""
    names, learnt = said["names"], []
    for k, (name, settings) in enumerate(zip(names, said["settings"], strict=True)):
        start = f"{prefix}_{k}_"
        parts = {a.removeprefix(start): array for a, array in arrays.items() if a.startswith(start)}
        learnt.append(EXPERTS[name].restored(settings, parts))
    return Stack(said["mean"], tuple(names), tuple(said["weights"]), tuple(learnt))


def _rebuild(meta: dict[str, Any], arrays: Arrays) -> FittedTargets:
    given, predictions, spread = (arrays[name] for name in ("given", "predictions", "spread"))
    known, scores = int((~np.isnan(given)).sum()), arrays["scores"]
    finite = [predictions, spread, scores, given[~np.isnan(given)]]
    if not all(np.isfinite(part).all() for part in finite):
        raise ValueError("its targets or predictions are not finite")
    if not ((spread > 0).all() and (scores >= 0).all() and len(scores) in (0, known) and known):
        raise ValueError("its targets and how far predictions are off do not fit together")
    if ("shift" in arrays) != ("scale" in arrays):
        raise ValueError("shift and scale do not fit together")
    for name, array in arrays.items():
        may = name.endswith(("_targets", "_threshold")) or name == "given"
        if array.dtype.kind == "f" and not may and not np.isfinite(array).all():
            raise ValueError(f"{name} holds numbers that are not finite")
    names, error = arrays.get("feature_names"), meta["estimated_error"]
    widths, prepared = meta["widths"], meta["preparation"]
    if error is not None:
        error = ErrorEstimate._make([*error[:-1], int(error[-1])])
    return FittedTargets(
        settings=RegressionSettings(**meta["params"]),
        given=given,
        predictions=predictions,
        spread=spread,
        scores=scores,
        centre=meta["centre"],
        scale=meta["scale"],
        stack=_stack_of(meta["stack"], "stack", arrays),
        difficulty=None if widths is None else Difficulty(_stack_of(widths, "widths", arrays)),
        choices=meta["choices"],
        estimated_error=error,
        suspects=find_suspects(given, predictions, scores),
        on_graph=bool(meta["on_graph"]),
        n_links=int(meta["n_links"]),
        link_unit=meta["link_unit"],
        neighbours=rebuild_neighbours(meta, arrays),
        unit=Unit(arrays["shift"], arrays["scale"]) if "shift" in arrays else None,
        n_features=meta["n_features_in"],
        feature_names=None if names is None else names.astype(object),
        node_ids=arrays.get("node_ids"),
        preparation=None if prepared is None else Preparation.from_json(prepared),
        notes=tuple(meta["notes"]),
        command=meta["command"],
    )
