"""The header of a saved model: settings, terms and reports as JSON, none of it taken on trust.

What a file may say is listed here, entry by entry, with what its value must be. Settings of the
machine or the session (threads, clusters, checkpoints, progress) are not part of a model: they
are not written, and not taken from a file.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from nodeproof import __version__
from nodeproof.auto.settings import CONVEX_SOLVERS
from nodeproof.errors import InputError
from nodeproof.solvers import CADO, BlockCADO
from nodeproof.storage.schema import parse_object
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

Check = Callable[[Any], bool]

_HUGE = 1e308
_MOST_TERMS = 64

#: what belongs to the machine or the session, and what a loaded model has instead
_OWN = {"engine": None, "checkpoint": None, "n_jobs": None, "verbose": False}


def _number(value: Any) -> bool:
    # Integers may have any length; NaN is neither.
    return type(value) in (int, float) and -_HUGE < value < _HUGE


def _any_number(value: Any) -> bool:
    return type(value) is float or _number(value)


def _whole(value: Any) -> bool:
    return _number(value) and value == int(value) and 0 <= value < 2**62


def _flag(value: Any) -> bool:
    return type(value) is bool or (type(value) is int and value in (0, 1))


def _text(value: Any) -> bool:
    return type(value) is str


def _anything(value: Any) -> bool:
    return True


def _one_of(*words: str) -> Check:
    return lambda value: type(value) is str and value in words


def _either(*checks: Check) -> Check:
    return lambda value: any(check(value) for check in checks)


def _or_none(check: Check) -> Check:
    return lambda value: value is None or check(value)


def _list_of(check: Check, most: int | None = None) -> Check:
    return lambda value: (
        type(value) is list and (most is None or len(value) <= most) and all(map(check, value))
    )


def _dict_of(check: Check) -> Check:
    return lambda value: type(value) is dict and all(map(check, value.values()))


def _entries(checks: Mapping[str, Check], optional: tuple[str, ...] = ()) -> Check:
    def holds(value: Any) -> bool:
        return (
            type(value) is dict
            and set(checks) - set(optional) <= set(value) <= set(checks)
            and all(checks[name](found) for name, found in value.items())
        )

    return holds


_COUNT = _or_none(_whole)
_SOLVER = {"max_iter": _whole, "tol": _number, "n_jobs": _anything, "random_state": _COUNT}

#: what may appear in a file by name, with the attributes that make it up
_KNOWN: dict[str, tuple[type, dict[str, Check]]] = {
    "Covariance": (
        Covariance,
        {"lo": _or_none(_number), "hi": _or_none(_number), "shrinkage": _number,
         "intercept": _flag},
    ),
    "Gaussian": (
        Gaussian, {"covariance": _one_of("diagonal", "shared", "full"), "shrinkage": _number}
    ),
    "Labels": (Labels, {"accuracy": _number, "strength": _number}),
    "Multinomial": (Multinomial, {"smoothing": _number, "trust": _number}),
    "Softmax": (
        Softmax,
        {"hops": _whole, "l2": _number, "rounds": _whole, "confidence": _number,
         "sharpness": _or_none(_number), "folds": _whole, "of": _one_of("features", "links")},
    ),
    "BlockCADO": (
        BlockCADO,
        {**_SOLVER, "temperature": _number, "n_init": _either(_one_of("auto"), _whole),
         "hold": _whole, "affinities": _one_of("scalar", "matrix"), "engine": _anything,
         "checkpoint": _anything},
    ),
    "CADO": (
        CADO,
        {**_SOLVER, "step": _one_of("open-loop", "line-search"), "average": _one_of("W", "e"),
         "model_step": _one_of("lmo", "projection")},
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
_TERMS = _list_of(_TERM, _MOST_TERMS)
_WEIGHTS = _list_of(_number, 3)

_PARAMS: dict[str, Check] = {
    "n_classes": _COUNT,
    "terms": _either(_one_of("auto"), _TERMS),
    "null_model": _one_of("auto", "uniform", "degree"),
    "threshold": _either(_one_of("auto"), _number),
    "weights": _either(_one_of("auto", "calibrated"), _number, _WEIGHTS),
    "son": _number,
    "solver": _either(
        _one_of("auto", "block", "cado", *CONVEX_SOLVERS), _part("BlockCADO", "CADO")
    ),
    "temperature": _number,
    "n_init": _either(_one_of("auto"), _whole),
    "max_iter": _whole,
    "tol": _number,
    "engine": _anything,
    "n_jobs": _anything,
    "random_state": _COUNT,
    "verbose": _anything,
}

#: entries of `Kept` beside arrays
GRAPH_SETTINGS = ("null_model", "total", "unit")
SOFTMAX_SETTINGS = ("hops", "alpha", "of")

_KEPT = {
    "scale": _number,
    "graph": _or_none(
        _entries({"null_model": _one_of("uniform", "degree"), "total": _number, "unit": _number})
    ),
    "softmax": _dict_of(
        _entries({"hops": _whole, "alpha": _number, "of": _one_of("features", "links")}, ("of",))
    ),
}
_FINDINGS = {
    "n_links": _whole,
    "n_features": _whole,
    "weighted": _flag,
    "held_back": _flag,
    "noise": lambda value: _number(value) and 0 <= value <= 1,
    "command": _text,
    "notes": _list_of(_text),
}
_REPORTED: dict[str, Check] = {
    "choices_": _dict_of(_entries({"value": _anything, "why": _text})),
    "sources_": _dict_of(_any_number),
    "history_": _dict_of(_list_of(_any_number)),
    "status_": _text,
    "n_iter_": _whole,
    "objective_": _any_number,
}

#: every entry, with what it must be and the format version since when it must be there
_HEADER: dict[str, tuple[Check, float]] = {
    "format": (_text, 1),
    "version": (_whole, 1),
    "nodeproof": (_text, 1),
    "params": (lambda value: type(value) is dict, 1),
    "terms": (_TERMS, 1),
    "fitted_on_graph": (_flag, 1),
    "n_features_in": (_COUNT, 1),
    "reported": (_entries(_REPORTED), 1),
    "estimated_accuracy": (_or_none(_list_of(_number, 3)), np.inf),
    "kept": (_entries(_KEPT), 2),
    "not_applicable": (_or_none(_text), np.inf),
    "findings": (_or_none(_entries(_FINDINGS)), 4),
}


def check_version(data: bytes, path: Any) -> dict[str, Any]:
    """Return the header as it is, once it is known to be one that can be read."""
    meta = parse_object(data, LARGEST)
    if meta.get("format") != FORMAT:
        raise InputError(f"{path} is not a nodeproof model: its header is of another format")
    version = meta.get("version")
    if type(version) is not int or version < 1:
        raise ValueError(f"its format version is {_shown(version)}")
    if version > FORMAT_VERSION:
        raise InputError(
            f"{path} was written by nodeproof {str(meta.get('nodeproof'))[:20]} in format "
            f"{version}; this is nodeproof {__version__}, which reads up to format "
            f"{FORMAT_VERSION}: upgrade it"
        )
    return meta


def check_header(meta: dict[str, Any]) -> None:
    """Refuse a header with entries that are missing, unknown or of another kind."""
    for name, value in meta.items():
        if name not in _HEADER:
            raise ValueError(f"its header has an entry {_shown(name)}, which is unknown")
        if not _HEADER[name][0](value):
            raise ValueError(f"{name} in its header is {_shown(value)}")
    for name, (_, since) in _HEADER.items():
        if meta["version"] >= since and name not in meta:
            raise ValueError(f"its header has no entry {name}")
    for name, value in meta["params"].items():
        if name not in _PARAMS:
            raise ValueError(f"its header has a setting {_shown(name)}, which is unknown")
        if not _PARAMS[name](value):
            raise ValueError(f"the setting {name} in its header is {_shown(value)}")


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


def _shown(value: Any) -> str:
    text = reprlib.repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
