"""Saved models: one `.npz` file, no pickle.

Layout, version 4. ``meta`` holds JSON in UTF-8 as bytes: the format's name and version, the
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

What a term keeps for new nodes lies beside that (`Term.kept_arrays`). A `Softmax` at position k
has, named ``softmax_k_…``: ``coefficients`` (K, r + 1); the parts of its `Reduction`, as far as
there are any: ``shift`` and ``scale`` (m,), ``directions`` (m, r); and if it averages over hops,
``lagged`` (n, r), ``normaliser`` (n,) and, of features, ``alone`` (K, r + 1). Arrays of other
terms are named ``term_k_…``.

A model that can be certified also has its labelling problem, the arrays of
`Instance.to_arrays` as ``problem_…``; or the header says why there is none.

What a report shows beside all that lies there as ``findings_…``, the arrays of
`Findings.to_parts`.

What a file may hold is listed in `saving.header` (entries of the JSON), in `saving.arrays`
(arrays with their shapes) and by each term. A file that holds anything else is refused, by its
directory and its headers before its arrays are read.

Version 1 had neither `Softmax` nor anything about links of new nodes, version 2 no labelling
problem, version 3 no findings; all are still read.
"""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from nodeproof import __version__
from nodeproof.affinity import Affinity
from nodeproof.certificate.labelling.instance import Instance
from nodeproof.errors import InputError
from nodeproof.evidence import find_suspects
from nodeproof.inputs import Unit
from nodeproof.prediction import is_calibrated
from nodeproof.problem import Models
from nodeproof.saving.arrays import (
    Arrays,
    check_arrays,
    check_values,
    describe_kept,
    rebuild_findings,
    rebuild_kept,
    rebuild_problem,
    to_arrays,
)
from nodeproof.saving.header import (
    FORMAT,
    FORMAT_VERSION,
    LARGEST,
    REPORTED,
    check_header,
    check_version,
    decode,
    decode_params,
    encode,
    encode_params,
)
from nodeproof.storage.atomic import atomic_path
from nodeproof.storage.npz import Archive, open_npz, write_npz

if TYPE_CHECKING:
    from nodeproof.estimator import NodeClassifier

C = TypeVar("C", bound="NodeClassifier")

__all__ = ["FORMAT_VERSION", "load_model", "save_model"]


def save_model(clf: NodeClassifier, path: str | PathLike[str], certifiable: bool = True) -> None:
    """Write a fitted classifier to ``path``; the file appears only when it is complete."""
    problem = _problem_to_save(clf) if certifiable else None
    findings = clf._findings
    if findings is None and certifiable and clf._problem is not None:
        findings = clf._find()
    meta = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "nodeproof": __version__,
        "params": encode_params(clf),
        "terms": [encode(term) for term in clf.terms_],
        "fitted_on_graph": clf.fitted_on_graph_,
        "n_features_in": getattr(clf, "n_features_in_", None),
        "reported": {name: getattr(clf, name) for name in REPORTED},
        "estimated_accuracy": clf.estimated_accuracy_,
        "kept": describe_kept(clf._kept, clf.terms_),
        "not_applicable": problem if isinstance(problem, str) else None,
        "findings": None if findings is None else findings.to_parts()[0],
    }
    text = json.dumps(meta).encode()
    if len(text) > LARGEST:
        raise InputError(f"the history of this fit is too long for a model file ({len(text):,} B)")
    arrays = {"meta": np.frombuffer(text, dtype=np.uint8), **to_arrays(clf, problem, findings)}
    with atomic_path(path) as temporary, Path(temporary).open("wb") as file:
        write_npz(file, arrays)


def load_model(cls: type[C], path: str | PathLike[str]) -> C:
    """Read a classifier that :func:`save_model` has written."""
    if not Path(path).is_file():
        raise InputError(f"there is no model file {path}")
    with open_npz(path) as archive:
        meta = _read_meta(archive)
        check_header(meta)
        check_arrays(archive.headers(), meta)
        arrays = {name: archive[name] for name in archive if name != "meta"}
        check_values(arrays)
        try:
            return _rebuild(cls, meta, arrays)
        except (InputError, TypeError, LookupError) as error:
            raise ValueError(str(error)) from None


def _read_meta(archive: Archive) -> dict[str, Any]:
    if "meta" not in archive:
        raise InputError(f"{archive.path} is not a nodeproof model: it has no header")
    header = archive.header("meta")
    if header.dtype.kind != "u" or header.nbytes > LARGEST:
        raise ValueError(f"its header is {header.nbytes:,} bytes of {header.dtype}")
    return check_version(archive["meta"].tobytes(), archive.path)


def _rebuild(cls: type[C], meta: dict[str, Any], arrays: Arrays) -> C:
    clf = cls(**decode_params(meta["params"]))
    classes, proba, given = arrays["classes"], arrays["proba"], arrays["given"]
    terms = tuple(decode(spec) for spec in meta["terms"])
    models = tuple(arrays[f"term_{k}"] for k in range(len(terms)))
    for term, model in zip(terms, models, strict=True):
        term.check_models(model)
    affinity = Affinity(arrays["ell"], arrays["ell_t"]) if "ell" in arrays else None
    clf.classes_, clf.proba_ = classes, proba
    clf.labels_ = classes[proba.argmax(axis=1)]
    clf.models_ = Models(affinity, models, arrays["log_prior"])
    clf.terms_ = terms
    clf._nodes = clf._problem = None
    clf._saved_problem = rebuild_problem(meta, arrays)
    clf.fitted_on_graph_ = bool(meta["fitted_on_graph"])
    clf._given = given if len(given) else None
    clf.suspects_ = find_suspects(proba, clf._given, classes)
    clf.unit_ = Unit(arrays["shift"], arrays["scale"]) if "shift" in arrays else None
    if meta["n_features_in"] is not None:
        clf.n_features_in_ = meta["n_features_in"]
    if "feature_names" in arrays:
        clf.feature_names_in_ = arrays["feature_names"].astype(object)
    if "node_ids" in arrays:
        clf.node_ids_ = arrays["node_ids"]
    for name in REPORTED:
        setattr(clf, name, meta["reported"][name])
    accuracy = meta.get("estimated_accuracy")
    clf.estimated_accuracy_ = None if accuracy is None else tuple(accuracy)
    clf._kept = rebuild_kept(meta, arrays, terms, models, is_calibrated(clf))
    clf._findings, clf._certificate, clf._held_back = rebuild_findings(meta, arrays), None, None
    return clf


def _problem_to_save(clf: NodeClassifier) -> Instance | str | None:
    if clf._problem is None and clf._saved_problem is None:
        return None  # it was loaded without one
    return clf._labelling_problem()
