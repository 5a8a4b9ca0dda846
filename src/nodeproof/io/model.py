"""Saved models: one `.npz` file, no pickle.

Layout, version 3. ``meta`` holds JSON in UTF-8 as bytes: the format's name and version, the
version of nodeproof that wrote it, the parameters of the classifier, its terms, and what it
reports (choices, sources, history, status). Beside it lie plain arrays:

==================  =======================  ===================================================
``classes``         (K,)                     names of the classes
``proba``           (n, K) float64           class probabilities
``given``           (n,) int64, maybe empty  given labels as class numbers, −1 where unknown
``log_prior``       (K,) float64             log proportions of the classes
``ell``, ``ell_t``  (1, 1) or (K, K)         affinities, if there was a graph
``term_0``, …       (K, ...) float64         class models, term by term
``shift, scale``    (m,) float64             unit of the features, if they were extreme
``feature_names``   (m,) str                 if the features had names
``node_ids``        (n,)                     if the nodes had names
``null_pairs``      (K,) float64             `FittedGraph.pairs`, if there was a graph
==================  =======================  ===================================================

A term `Softmax` at position k has more, named ``softmax_k_…``: ``coefficients`` (K, r + 1); the
parts of its `Reduction`, as far as there are any: ``shift`` and ``scale`` (m,), ``directions``
(m, r); and if it averages over hops, ``lagged`` (n, r) and ``normaliser`` (n,).

A model that can be certified also has its labelling problem, the arrays of
`Instance.to_arrays` as ``problem_…``; or the header says why there is none.

Version 1 had neither `Softmax` nor anything about links of new nodes, version 2 no labelling
problem; both are still read.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import zipfile
import zlib
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from nodeproof import __version__
from nodeproof.affinity import Affinity
from nodeproof.certificate.instance import Instance
from nodeproof.errors import InputError
from nodeproof.evidence import find_suspects
from nodeproof.inductive import FittedGraph, FittedSoftmax, Kept
from nodeproof.inputs import Unit
from nodeproof.io.atomic import atomic_path
from nodeproof.problem import Models
from nodeproof.smoothing import Reduction
from nodeproof.solvers import CADO, BlockCADO
from nodeproof.terms import Covariance, Gaussian, Labels, Multinomial, Softmax

if TYPE_CHECKING:
    from nodeproof.estimator import NodeClassifier

C = TypeVar("C", bound="NodeClassifier")

__all__ = ["FORMAT_VERSION", "load_model", "save_model"]

FORMAT = "nodeproof-model"
FORMAT_VERSION = 3

#: what may appear in a file by name, with the attributes that make it up
_KNOWN: dict[str, tuple[type, tuple[str, ...]]] = {
    "Covariance": (Covariance, ("lo", "hi", "shrinkage", "intercept")),
    "Gaussian": (Gaussian, ("covariance", "shrinkage")),
    "Labels": (Labels, ("accuracy", "strength")),
    "Multinomial": (Multinomial, ("smoothing", "trust")),
    "Softmax": (Softmax, tuple(inspect.signature(Softmax).parameters)),
    "BlockCADO": (BlockCADO, tuple(field.name for field in dataclasses.fields(BlockCADO))),
    "CADO": (CADO, tuple(field.name for field in dataclasses.fields(CADO))),
}

_GRAPH_SETTINGS = ("null_model", "total", "unit")
_SOFTMAX_SETTINGS = ("hops", "alpha", "of")
_SOFTMAX_ARRAYS = ("coefficients", "lagged", "normaliser")

_REPORTED = ("choices_", "sources_", "history_", "status_", "n_iter_", "objective_")


def save_model(clf: NodeClassifier, path: str | PathLike[str], certifiable: bool = True) -> None:
    """Write a fitted classifier to ``path``; the file appears only when it is complete."""
    problem = _problem_to_save(clf) if certifiable else None
    meta = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "nodeproof": __version__,
        "params": _encode_params(clf),
        "terms": [_encode(term) for term in clf.terms_],
        "fitted_on_graph": clf.fitted_on_graph_,
        "n_features_in": getattr(clf, "n_features_in_", None),
        "reported": {name: getattr(clf, name) for name in _REPORTED},
        "estimated_accuracy": clf.estimated_accuracy_,
        "kept": _describe_kept(clf._kept),
        "not_applicable": problem if isinstance(problem, str) else None,
    }
    arrays = {
        "meta": np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8),
        "classes": clf.classes_,
        "proba": clf.proba_,
        "given": np.empty(0, np.int64) if clf._given is None else clf._given,
        "log_prior": clf.models_.log_prior,
    }
    if clf.models_.affinity is not None:
        arrays["ell"], arrays["ell_t"] = clf.models_.affinity.ell, clf.models_.affinity.ell_t
    for k, models in enumerate(clf.models_.terms):
        arrays[f"term_{k}"] = models
    if clf.unit_ is not None:
        arrays["shift"], arrays["scale"] = clf.unit_.shift, clf.unit_.scale
    if hasattr(clf, "feature_names_in_"):
        arrays["feature_names"] = clf.feature_names_in_.astype(str)
    if hasattr(clf, "node_ids_"):
        arrays["node_ids"] = clf.node_ids_
    arrays |= _kept_arrays(clf._kept)
    if isinstance(problem, Instance):
        arrays |= {f"problem_{name}": array for name, array in problem.to_arrays().items()}
    with atomic_path(path) as temporary, Path(temporary).open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)


def load_model(cls: type[C], path: str | PathLike[str]) -> C:
    """Read a classifier that :func:`save_model` has written."""
    file = Path(path)
    if not file.is_file():
        raise InputError(f"there is no model file {path}")
    try:
        with np.load(file, allow_pickle=False) as archive:
            meta = _read_meta(archive, path)
            arrays = {name: archive[name] for name in archive.files if name != "meta"}
        return _rebuild(cls, meta, arrays)
    except InputError:
        raise
    except ValueError as error:
        # numpy's own words on pickles would suggest to load the file unsafely.
        reason = "it holds no plain arrays" if "pickle" in str(error) else str(error)
        raise InputError(f"{path} is damaged, or not a nodeproof model: {reason}") from None
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, KeyError, TypeError,
            AttributeError, IndexError) as error:  # fmt: skip
        raise InputError(f"{path} is damaged, or not a nodeproof model: {error}") from None


def _read_meta(archive: Any, path: str | PathLike[str]) -> dict[str, Any]:
    if not hasattr(archive, "files") or "meta" not in archive.files:
        raise InputError(f"{path} is not a nodeproof model: it has no header")
    meta = json.loads(archive["meta"].tobytes().decode())
    if not isinstance(meta, dict) or meta.get("format") != FORMAT:
        raise InputError(f"{path} is not a nodeproof model: its header is of another format")
    version = meta.get("version")
    if not isinstance(version, int) or version < 1:
        raise InputError(f"{path} is damaged: its format version is {version!r}")
    if version > FORMAT_VERSION:
        raise InputError(
            f"{path} was written by nodeproof {meta.get('nodeproof')} in format {version}; this "
            f"is nodeproof {__version__}, which reads up to format {FORMAT_VERSION}: upgrade it"
        )
    return meta


def _rebuild(cls: type[C], meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> C:
    clf = cls(**{name: _decode(value) for name, value in meta["params"].items()})
    classes, proba, given = arrays["classes"], arrays["proba"], arrays["given"]
    terms = tuple(_decode(spec) for spec in meta["terms"])
    models = tuple(arrays[f"term_{k}"] for k in range(len(terms)))
    n, K = proba.shape
    _agree(classes.shape == (K,), "class names and probabilities")
    _agree(len(given) in (0, n), "labels and probabilities")
    _agree(arrays["log_prior"].shape == (K,), "class proportions and probabilities")
    _agree(all(len(theta) == K for theta in models), "class models and probabilities")
    affinity = Affinity(arrays["ell"], arrays["ell_t"]) if "ell" in arrays else None
    clf.classes_, clf.proba_ = classes, proba
    clf.labels_ = classes[proba.argmax(axis=1)]
    clf.models_ = Models(affinity, models, arrays["log_prior"])
    clf.terms_ = terms
    clf._nodes = clf._problem = None
    clf._saved_problem = _rebuild_problem(meta, arrays, (n, K))
    clf.fitted_on_graph_ = bool(meta["fitted_on_graph"])
    clf._given = given if len(given) else None
    clf.suspects_ = find_suspects(proba, clf._given, classes)
    clf.unit_ = Unit(arrays["shift"], arrays["scale"]) if "shift" in arrays else None
    if meta["n_features_in"] is not None:
        clf.n_features_in_ = meta["n_features_in"]
    if "feature_names" in arrays:
        clf.feature_names_in_ = arrays["feature_names"].astype(object)
    if "node_ids" in arrays:
        _agree(len(arrays["node_ids"]) == n, "node names and probabilities")
        clf.node_ids_ = arrays["node_ids"]
    for name in _REPORTED:
        setattr(clf, name, meta["reported"][name])
    accuracy = meta.get("estimated_accuracy")
    clf.estimated_accuracy_ = None if accuracy is None else tuple(accuracy)
    clf._kept = Kept() if meta["version"] == 1 else _rebuild_kept(meta["kept"], arrays, (n, K))
    classifiers = {k for k, term in enumerate(terms) if isinstance(term, Softmax)}
    _agree(classifiers == set(clf._kept.softmax), "terms and classifiers")
    return clf


def _problem_to_save(clf: NodeClassifier) -> Instance | str | None:
    if clf._problem is None and clf._saved_problem is None:
        return None  # it was loaded without one
    return clf._labelling_problem()


def _rebuild_problem(
    meta: dict[str, Any], arrays: dict[str, NDArray[Any]], shape: tuple[int, int]
) -> Instance | str | None:
    if reason := meta.get("not_applicable"):
        return str(reason)
    prefix = "problem_"
    parts = {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }
    if not parts:
        return None
    problem = Instance.from_arrays(parts)
    _agree(problem.costs.shape == shape, "costs and probabilities")
    _agree(problem.eta.shape == shape[:1], "the null model and probabilities")
    return problem


def _describe_kept(kept: Kept) -> dict[str, Any]:
    """Return what is kept for new nodes beside arrays."""
    graph = kept.graph
    return {
        "scale": kept.scale,
        "graph": graph and {name: getattr(graph, name) for name in _GRAPH_SETTINGS},
        "softmax": {
            str(k): {name: getattr(softmax, name) for name in _SOFTMAX_SETTINGS}
            for k, softmax in kept.softmax.items()
        },
    }


def _kept_arrays(kept: Kept) -> dict[str, NDArray[Any]]:
    arrays = {} if kept.graph is None else {"null_pairs": kept.graph.pairs}
    for k, softmax in kept.softmax.items():
        parts: dict[str, NDArray[Any] | None] = dict(softmax.reduction.parts)
        parts |= {name: getattr(softmax, name) for name in _SOFTMAX_ARRAYS}
        for name, array in parts.items():
            if array is not None:
                arrays[f"softmax_{k}_{name}"] = array
    return arrays


def _rebuild_kept(
    described: dict[str, Any], arrays: dict[str, NDArray[Any]], shape: tuple[int, int]
) -> Kept:
    graph = None
    if described["graph"] is not None:
        graph = FittedGraph(**described["graph"], pairs=arrays["null_pairs"])
        _agree(graph.pairs.shape == shape[1:], "the graph and the class names")
    softmax = {}
    for k, settings in described["softmax"].items():
        prefix = f"softmax_{k}_"
        parts = {
            name.removeprefix(prefix): array
            for name, array in arrays.items()
            if name.startswith(prefix)
        }
        own: dict[str, Any] = {name: parts.pop(name, None) for name in _SOFTMAX_ARRAYS}
        softmax[int(k)] = FittedSoftmax(Reduction.of_parts(parts), **own, **settings)
        _check_softmax(softmax[int(k)], *shape)
    return Kept(graph, softmax, described["scale"])


def _check_softmax(softmax: FittedSoftmax, n: int, K: int) -> None:
    r = softmax.coefficients.shape[1] - 1
    directions, shift = softmax.reduction.directions, softmax.reduction.shift
    _agree(softmax.coefficients.shape == (K, r + 1), "coefficients and class names")
    _agree(directions is None or directions.shape[1] == r, "coefficients and features")
    _agree(shift is None or directions is None or len(shift) == len(directions), "features")
    if softmax.hops:
        _agree(softmax.lagged is not None and softmax.lagged.shape == (n, r), "averaged features")
        _agree(softmax.normaliser is not None and len(softmax.normaliser) == n, "degrees")


def _agree(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(f"{what} do not fit together")


def _encode_params(clf: NodeClassifier) -> dict[str, Any]:
    params = clf.get_params(deep=False)
    params["verbose"] = bool(params["verbose"])  # may be a callback, which is not part of a model
    return {name: _encode(value) for name, value in params.items()}


def _encode(value: Any) -> Any:
    """Return a parameter as JSON can hold it."""
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_encode(item) for item in value]
    name = type(value).__name__
    if name in _KNOWN and type(value) is _KNOWN[name][0]:
        return {"class": name, **{key: _encode(getattr(value, key)) for key in _KNOWN[name][1]}}
    if isinstance(value, np.random.RandomState):
        return None  # a stream that has moved on cannot be repeated
    raise InputError(
        f"cannot save {value!r}: a model file holds nodeproof's own terms and solvers only"
    )


def _decode(value: Any) -> Any:
    if isinstance(value, dict):
        settings = dict(value)
        name = settings.pop("class")
        if name not in _KNOWN:
            raise ValueError(f"unknown part {name!r}")
        return _KNOWN[name][0](**settings)
    return [_decode(item) for item in value] if isinstance(value, list) else value
