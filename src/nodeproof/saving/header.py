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
from nodeproof.auto.experts import Expert
from nodeproof.auto.experts.registry import check_known, check_registered, find_expert
from nodeproof.auto.settings import CADO_SOLVERS, CONVEX_SOLVERS
from nodeproof.errors import InputError
from nodeproof.fitted_kinds import KIND_PARTS
from nodeproof.inputs.knn import METRICS
from nodeproof.inputs.preparation import STEPS
from nodeproof.saving.data import DATA_ENTRIES, OF_KINDS
from nodeproof.solvers import CADO, BlockCADO
from nodeproof.solvers.starts import STARTS
from nodeproof.storage.schema import (
    Check,
    any_number,
    anything,
    as_plain,
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
from nodeproof.terms import Term
from nodeproof.terms.registry import (
    arguments_of,
    describe_term,
    find_term,
    is_described,
    restore_term,
)

if TYPE_CHECKING:
    from nodeproof.settings import Settings

__all__ = [
    "FORMAT",
    "FORMAT_VERSION",
    "GRAPH_SETTINGS",
    "KEPT_BY_TERMS",
    "LARGEST",
    "PARAMS",
    "PREPARATION",
    "REPORTED",
    "TARGETS",
    "check_header",
    "check_version",
    "decode",
    "decode_settings",
    "encode",
    "encode_settings",
    "term_classes",
]

FORMAT = "nodeproof-model"

#: the format of models of numeric targets (`saving.targets`)
TARGETS = "nodeproof-targets"
FORMAT_VERSION = 10

#: bytes of a header
LARGEST = 1 << 24

#: attributes of `Fitted` that the header holds; their names in it end with an underscore
REPORTED = ("choices", "sources", "history", "status", "n_iter", "objective")

_MOST_TERMS = 64

#: what belongs to the machine or the session, and what a loaded model has instead
_OWN = {"engine": None, "checkpoint": None, "n_jobs": None, "verbose": False}

_COUNT = or_none(whole)
_SOLVER = {"max_iter": whole, "tol": number, "n_jobs": anything, "random_state": _COUNT}

#: solvers that may appear in a file by name, with the attributes that make them up
_SOLVERS: dict[str, tuple[type, dict[str, Check]]] = {
    "BlockCADO": (
        BlockCADO,
        {**_SOLVER, "temperature": number, "n_init": either(one_of("auto"), whole),
         "hold": whole, "affinities": one_of("scalar", "matrix"), "engine": anything,
         "checkpoint": anything},
    ),
    "CADO": (
        CADO,
        {**_SOLVER, "gradient": one_of("e", "W"), "average": one_of("e", "W"), "diagonal": flag,
         "start": one_of(*STARTS), "step": one_of("open-loop", "line-search"),
         "model_step": one_of("lmo", "projection")},
    ),
}  # fmt: skip


def _is_solver(value: Any) -> bool:
    """Tell whether a value names a solver, with settings that it knows."""
    if type(value) is not dict or _SOLVERS.get(str(value.get("class"))) is None:
        return False
    checks = _SOLVERS[value["class"]][1] | {"class": text}
    return entries(checks, optional=tuple(checks))(value)


def _term_name(value: Any) -> str | None:
    name = value.get("class") if type(value) is dict else None
    return name if type(name) is str else None


def _is_expert(value: Any) -> bool:
    """Tell whether a value names an expert, with arguments that it knows."""
    expert = _expert_of(value)
    if expert is None:
        return False
    checks = {**expert.arguments(), "expert": text}
    return entries(checks, optional=tuple(checks))(value)


def _expert_of(value: Any) -> type[Expert] | None:
    name = value.get("expert") if type(value) is dict else None
    return find_expert(name) if type(name) is str else None


_TERMS = list_of(is_described, _MOST_TERMS)
_WEIGHTS = list_of(number, 3)

#: settings of a classifier
PARAMS: dict[str, Check] = {
    "n_classes": _COUNT,
    "terms": either(one_of("auto"), _TERMS),
    "experts": either(one_of("auto"), list_of(either(text, _is_expert), _MOST_TERMS)),
    "null_model": one_of("auto", "uniform", "degree"),
    "threshold": either(one_of("auto"), number),
    "weights": either(one_of("auto", "calibrated"), number, _WEIGHTS),
    "son": number,
    "solver": either(one_of("auto", "block", *CADO_SOLVERS, *CONVEX_SOLVERS), _is_solver),
    "temperature": number,
    "n_init": either(one_of("auto"), whole),
    "max_iter": whole,
    "tol": number,
    "prepare": either(one_of("auto"), flag, list_of(one_of(*STEPS))),
    "engine": anything,
    "n_jobs": anything,
    "random_state": _COUNT,
    "verbose": anything,
    "positive_only": flag,
}

#: entries of `PredictionState` beside arrays; what terms keep is listed by their position, under
#: `Term.kept_as`
GRAPH_SETTINGS = ("null_model", "total", "unit")

#: what `Term.kept_as` may be
KEPT_BY_TERMS = ("softmax", "pool", "term")

_OF_TERMS = dict_of(lambda value: type(value) is dict)
_KEPT: dict[str, Check] = {
    "scale": number,
    "graph": or_none(
        either(
            entries({"null_model": one_of("uniform", "degree"), "total": number, "unit": number}),
            list_of(entries(KIND_PARTS), 64),
        )
    ),
    "kinds": list_of(entries(KIND_PARTS), 64),
    "labelled": lambda value: number(value) and 0 < value <= 1,
    "knn": entries({"k": lambda value: whole(value) and value > 0, "metric": one_of(*METRICS)}),
    **dict.fromkeys(KEPT_BY_TERMS, _OF_TERMS),
}
_FINDINGS = {
    "n_links": whole,
    "n_features": whole,
    "weighted": flag,
    "held_back": flag,
    "noise": lambda value: number(value) and 0 <= value <= 1,
    "command": text,
    "notes": list_of(text),
    "kinds": list_of(text),
}
_SCORE = or_none(number)
#: automatic choices that reports show as tables, and what their values must be
_SHOWN_CHOICES: dict[str, Check] = {
    "experts": list_of(
        entries({"expert": text, "about": text, "setting": text, "log_loss": or_none(number),
                 "weight": number, "why": text})
    ),
    "log_loss": entries(
        {"guessing": number, "pool": number, "block model": number}, optional=("block model",)
    ),
    "held_out": entries({"labels": whole, "folds": whole, "few": dict_of(whole), "wrong": number}),
    "proportions": entries({"labels": list_of(number), "unlabelled": list_of(number)}),
    "scores": entries({"balanced_accuracy": _SCORE, "roc_auc": _SCORE, "largest_class": number,
                       "classes": whole}),
}  # fmt: skip


def _are_choices(value: Any) -> bool:
    """Tell whether a value is a record of automatic choices that reports can show."""
    return dict_of(entries({"value": anything, "why": text}))(value) and all(
        check(value[name]["value"]) for name, check in _SHOWN_CHOICES.items() if name in value
    )


_REPORTED: dict[str, Check] = {
    "choices_": _are_choices,
    "sources_": dict_of(any_number),
    "history_": dict_of(list_of(any_number)),
    "status_": text,
    "n_iter_": whole,
    "objective_": any_number,
}

_COLUMN = entries(
    {"name": text, "texts": or_none(list_of(text)), "other": flag, "fill": or_none(number),
     "mean": number, "scale": lambda value: number(value) and value > 0}
)  # fmt: skip

#: how a table became features
PREPARATION = entries({"steps": list_of(one_of(*STEPS)), "node": text, "columns": list_of(_COLUMN)})

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
    "kept": (entries(_KEPT, optional=("kinds", "knn", "labelled", "pool", "term")), 2),
    "not_applicable": (or_none(text), np.inf),
    "findings": (or_none(entries(_FINDINGS, optional=("kinds",))), 4),
    "preparation": (PREPARATION, np.inf),
    "data": (entries(DATA_ENTRIES, optional=OF_KINDS), np.inf),
}


def check_version(data: bytes, path: Any) -> dict[str, Any]:
    """Return the header as it is, once it is known to be one that can be read."""
    meta = parse_object(data, LARGEST)
    if meta.get("format") == TARGETS:
        raise InputError(
            f"{path} is a model of numeric targets: `nodeproof predict`, `nodeproof report` and "
            "NodeRegressor.load read it"
        )
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
    _check_parts_are_known(meta)
    checks = {name: check for name, (check, _) in _HEADER.items()}
    optional = [name for name, (_, since) in _HEADER.items() if since > meta["version"]]
    check_entries(meta, checks, optional)
    check_entries(meta["params"], PARAMS, optional=PARAMS, what="the settings in its header")
    if "kept" in meta:
        _check_kept(meta)


def _check_parts_are_known(meta: dict[str, Any]) -> None:
    """Say what to do about terms and experts that this session does not have."""
    params = meta.get("params")
    for listed in (meta.get("terms"), params.get("terms") if type(params) is dict else None):
        for name in map(_term_name, listed if type(listed) is list else ()):
            if name is not None and find_term(name) is None:
                raise InputError(
                    f"this model has a term {shown(name)}, which is unknown here: import the "
                    "module that defines it and register it with nodeproof.terms.register, or "
                    "give --term package.module:Name on the command line"
                )
    experts = params.get("experts") if type(params) is dict else None
    for item in experts if type(experts) is list else ():
        if type(item) is dict and type(item.get("expert")) is str:
            check_known(item["expert"])


def _check_kept(meta: dict[str, Any]) -> None:
    """Refuse what terms keep for new nodes unless it is what they ask for."""
    kept = {
        (kind, k): settings
        for kind in KEPT_BY_TERMS
        for k, settings in meta["kept"].get(kind, {}).items()
    }
    terms = {
        (term.kept_as, str(k)): term
        for k, term in enumerate(term_classes(meta))
        if term.kept_settings or term.kept_arrays
    }
    if set(kept) != set(terms):
        raise ValueError("terms and what they keep for new nodes do not fit together")
    for place, term in terms.items():
        optional = tuple(name for name, check in term.kept_settings.items() if check(None))
        if not entries(term.kept_settings, optional)(kept[place]):
            raise ValueError(f"{' '.join(place)} in its header keeps {shown(kept[place])}")


def term_classes(meta: dict[str, Any]) -> list[type[Term]]:
    """Return the class of each term of a header that has been checked."""
    found = (find_term(spec["class"]) for spec in meta["terms"])
    return [term for term in found if term is not None]


def encode_settings(settings: Settings) -> dict[str, Any]:
    """Return settings as JSON can hold them."""
    named = {setting.name: getattr(settings, setting.name) for setting in fields(settings)}
    return {name: _OWN[name] if name in _OWN else encode(value) for name, value in named.items()}


def encode(value: Any) -> Any:
    """Return a parameter as JSON can hold it."""
    if isinstance(value, list | tuple):
        return [encode(item) for item in value]
    name = type(value).__name__
    if name in _SOLVERS and type(value) is _SOLVERS[name][0]:
        known = _SOLVERS[name][1]
        return {"class": name} | {
            key: _OWN[key] if key in _OWN else encode(getattr(value, key)) for key in known
        }
    if isinstance(value, Term):
        return describe_term(value)
    if isinstance(value, Expert):
        return _encode_expert(value)
    if isinstance(value, np.random.RandomState):
        return None  # a stream that has moved on cannot be repeated
    try:
        return as_plain(value)
    except TypeError:
        raise InputError(
            f"cannot save {value!r}: a model file holds terms, and nodeproof's own solvers only"
        ) from None


def _encode_expert(expert: Expert) -> dict[str, Any]:
    check_registered(expert.name)
    arguments = arguments_of(expert, type(expert).arguments())
    return {"expert": expert.name} | {name: encode(found) for name, found in arguments.items()}


def decode_settings(params: dict[str, Any]) -> dict[str, Any]:
    """Return settings of a classifier from those of a header that has been checked."""
    return {name: _OWN[name] if name in _OWN else decode(value) for name, value in params.items()}


def decode(value: Any) -> Any:
    """Return the part, or list of parts, that `encode` has made JSON of."""
    if isinstance(value, list):
        return [decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    expert = _expert_of(value)
    if expert is not None:
        return expert(**{name: decode(found) for name, found in value.items() if name != "expert"})
    if value["class"] not in _SOLVERS:
        return restore_term(value)
    settings = {name: found for name, found in value.items() if name != "class"}
    own = {name: _OWN.get(name, found) for name, found in settings.items()}
    return _SOLVERS[value["class"]][0](**own)
