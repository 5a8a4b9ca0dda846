"""The header of a saved model: settings, terms and reports as JSON, none of it taken on trust.

What a file may say is listed here, entry by entry, with what its value must be. Settings of the
machine or the session (threads, clusters, checkpoints, progress) are not part of a model: they
are not written, and not taken from a file.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from nodeproof import __version__
from nodeproof.auto.settings import CONVEX_SOLVERS
from nodeproof.errors import InputError
from nodeproof.solvers import CADO, BlockCADO
from nodeproof.storage.schema import (
    Check,
    any_number,
    anything,
    check_entries,
    dict_of,
    either,
    entries,
    flag,
    list_of,
    number,
    one_of,
    or_none,
    parse_object,
    shown,
    text,
    whole,
)
from nodeproof.terms import Covariance, Gaussian, Labels, Multinomial, Softmax

if TYPE_CHECKING:
    from nodeproof.settings import Settings

__all__ = [
    "FORMAT",
    "FORMAT_VERSION",
    "GRAPH_SETTINGS",
    "LARGEST",
    "REPORTED",
    "SOFTMAX_SETTINGS",
    "check_header",
    "check_version",
    "decode",
    "decode_settings",
    "encode",
    "encode_settings",
]

FORMAT = "nodeproof-model"
FORMAT_VERSION = 4

#: bytes of a header
LARGEST = 1 << 24

#: attributes of `Fitted` that the header holds; their names in it end with an underscore
REPORTED = ("choices", "sources", "history", "status", "n_iter", "objective")

_MOST_TERMS = 64

#: what belongs to the machine or the session, and what a loaded model has instead
_OWN = {"engine": None, "checkpoint": None, "n_jobs": None, "verbose": False}


_COUNT = or_none(whole)
_SOLVER = {"max_iter": whole, "tol": number, "n_jobs": anything, "random_state": _COUNT}

#: what may appear in a file by name, with the attributes that make it up
_KNOWN: dict[str, tuple[type, dict[str, Check]]] = {
    "Covariance": (
        Covariance,
        {"lo": or_none(number), "hi": or_none(number), "shrinkage": number,
         "intercept": flag},
    ),
    "Gaussian": (
        Gaussian, {"covariance": one_of("diagonal", "shared", "full"), "shrinkage": number}
    ),
    "Labels": (Labels, {"accuracy": number, "strength": number}),
    "Multinomial": (Multinomial, {"smoothing": number, "trust": number}),
    "Softmax": (
        Softmax,
        {"hops": whole, "l2": number, "rounds": whole, "confidence": number,
         "sharpness": or_none(number), "folds": whole, "of": one_of("features", "links")},
    ),
    "BlockCADO": (
        BlockCADO,
        {**_SOLVER, "temperature": number, "n_init": either(one_of("auto"), whole),
         "hold": whole, "affinities": one_of("scalar", "matrix"), "engine": anything,
         "checkpoint": anything},
    ),
    "CADO": (
        CADO,
        {**_SOLVER, "step": one_of("open-loop", "line-search"), "average": one_of("W", "e"),
         "model_step": one_of("lmo", "projection")},
    ),
}  # fmt: skip


def _part(*names: str) -> Check:
    """Check for a term or solver: the name of its class, and known settings only."""

    def holds(value: Any) -> bool:
        if type(value) is not dict or value.get("class") not in names:
            return False
        checks = _KNOWN[value["class"]][1]
        return all(
            name == "class" or (name in checks and checks[name](found))
            for name, found in value.items()
        )

    return holds


_TERM = _part("Covariance", "Gaussian", "Labels", "Multinomial", "Softmax")
_TERMS = list_of(_TERM, _MOST_TERMS)
_WEIGHTS = list_of(number, 3)

_PARAMS: dict[str, Check] = {
    "n_classes": _COUNT,
    "terms": either(one_of("auto"), _TERMS),
    "null_model": one_of("auto", "uniform", "degree"),
    "threshold": either(one_of("auto"), number),
    "weights": either(one_of("auto", "calibrated"), number, _WEIGHTS),
    "son": number,
    "solver": either(one_of("auto", "block", "cado", *CONVEX_SOLVERS), _part("BlockCADO", "CADO")),
    "temperature": number,
    "n_init": either(one_of("auto"), whole),
    "max_iter": whole,
    "tol": number,
    "engine": anything,
    "n_jobs": anything,
    "random_state": _COUNT,
    "verbose": anything,
}

#: entries of `Kept` beside arrays
GRAPH_SETTINGS = ("null_model", "total", "unit")
SOFTMAX_SETTINGS = ("hops", "alpha", "of")

_KEPT = {
    "scale": number,
    "graph": or_none(
        entries({"null_model": one_of("uniform", "degree"), "total": number, "unit": number})
    ),
    "softmax": dict_of(
        entries({"hops": whole, "alpha": number, "of": one_of("features", "links")}, ("of",))
    ),
}
_FINDINGS = {
    "n_links": whole,
    "n_features": whole,
    "weighted": flag,
    "held_back": flag,
    "noise": lambda value: number(value) and 0 <= value <= 1,
    "command": text,
    "notes": list_of(text),
}
_REPORTED: dict[str, Check] = {
    "choices_": dict_of(entries({"value": anything, "why": text})),
    "sources_": dict_of(any_number),
    "history_": dict_of(list_of(any_number)),
    "status_": text,
    "n_iter_": whole,
    "objective_": any_number,
}

#: every entry, with what it must be and the format version since when it must be there
_HEADER: dict[str, tuple[Check, float]] = {
    "format": (text, 1),
    "version": (whole, 1),
    "nodeproof": (text, 1),
    "params": (lambda value: type(value) is dict, 1),
    "terms": (_TERMS, 1),
    "fitted_on_graph": (flag, 1),
    "n_features_in": (_COUNT, 1),
    "reported": (entries(_REPORTED), 1),
    "estimated_accuracy": (or_none(list_of(number, 3)), np.inf),
    "kept": (entries(_KEPT), 2),
    "not_applicable": (or_none(text), np.inf),
    "findings": (or_none(entries(_FINDINGS)), 4),
}


def check_version(data: bytes, path: Any) -> dict[str, Any]:
    """Return the header as it is, once it is known to be one that can be read."""
    meta = parse_object(data, LARGEST)
    if meta.get("format") != FORMAT:
        raise InputError(f"{path} is not a nodeproof model: its header is of another format")
    version = meta.get("version")
    if type(version) is not int or version < 1:
        raise ValueError(f"its format version is {shown(version)}")
    if version > FORMAT_VERSION:
        raise InputError(
            f"{path} was written by nodeproof {str(meta.get('nodeproof'))[:20]} in format "
            f"{version}; this is nodeproof {__version__}, which reads up to format "
            f"{FORMAT_VERSION}: upgrade it"
        )
    return meta


def check_header(meta: dict[str, Any]) -> None:
    """Refuse a header with entries that are missing, unknown or of another kind."""
    checks = {name: check for name, (check, _) in _HEADER.items()}
    optional = [name for name, (_, since) in _HEADER.items() if since > meta["version"]]
    check_entries(meta, checks, optional)
    check_entries(meta["params"], _PARAMS, optional=_PARAMS, what="the settings in its header")


def encode_settings(settings: Settings) -> dict[str, Any]:
    """Return settings as JSON can hold them."""
    named = {setting.name: getattr(settings, setting.name) for setting in fields(settings)}
    return {name: _OWN[name] if name in _OWN else encode(value) for name, value in named.items()}


def encode(value: Any) -> Any:
    """Return a parameter as JSON can hold it."""
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufU":
        return value.tolist()
    if isinstance(value, list | tuple):
        return [encode(item) for item in value]
    name = type(value).__name__
    if name in _KNOWN and type(value) is _KNOWN[name][0]:
        settings = {
            key: _OWN[key] if key in _OWN else encode(getattr(value, key))
            for key in _KNOWN[name][1]
        }
        return {"class": name, **settings}
    if isinstance(value, np.random.RandomState):
        return None  # a stream that has moved on cannot be repeated
    raise InputError(
        f"cannot save {value!r}: a model file holds nodeproof's own terms and solvers only"
    )


def decode_settings(params: dict[str, Any]) -> dict[str, Any]:
    """Return settings of a classifier from those of a header that has been checked."""
    return {name: _OWN[name] if name in _OWN else decode(value) for name, value in params.items()}


def decode(value: Any) -> Any:
    """Return the part, or list of parts, that `encode` has made JSON of."""
    if isinstance(value, dict):
        kind, known = _KNOWN[value["class"]]
        settings = {name: found for name, found in value.items() if name in known}
        return kind(**{name: _OWN.get(name, found) for name, found in settings.items()})
    return [decode(item) for item in value] if isinstance(value, list) else value
