"""Saved models: one `.npz` file, no pickle.

Layout, version 10. ``meta`` holds JSON in UTF-8 as bytes: the format's name and version, the
version of nodeproof that wrote it, the parameters of the classifier, its terms, what it reports
(choices, sources, history, status) and, if features were made from a table of nodes, medians,
means, scales and texts of its columns (``preparation``). Beside it lie plain arrays:

==================  =======================  ===================================================
``classes``         (K,)                     names of the classes
``proba``           (n, K) float64           class probabilities
``given``           (n,) int64, maybe empty  given labels as class numbers, −1 where unknown
``log_prior``       (K,) float64             log proportions of the classes
``ell``, ``ell_t``  (1, 1) or (K, K)         affinities, if there was a graph; of R kinds of links
                                             or with a direction, (R, 1, 1) or (R, K, K)
``term_0``, …       (K, ...) float64         class models, term by term
``shift, scale``    (m,) float64             unit of the features, if they were extreme
``feature_names``   (m,) str                 if the features had names
``node_ids``        (n,)                     if the nodes had names
``null_pairs``      (K,) float64             `FittedGraph.pairs`, if there was a graph; or
                                             (R, 2, K), of `FittedKinds`
``knn_widths``      (n,) float64             kernel widths, if the graph was made of the features;
                                             then their rows, too, as ``knn_X`` (n, m) or as the
                                             parts of a sparse matrix, and perhaps ``knn_scale``
==================  =======================  ===================================================

What a term keeps for new nodes lies beside that (`Term.kept_arrays`). A `Softmax` at position k
has, named ``softmax_k_…``: ``coefficients`` (K, r + 1); the parts of its `Reduction`, as far as
there are any: ``shift`` and ``scale`` (m,), ``directions`` (m, r); and if it averages over hops,
``lagged`` (n, r), ``normaliser`` (n,) and, of features, ``alone`` (K, r + 1). A pool of experts at
position k has its weights and calibration as ``pool_k_…``, and what its expert number e keeps as
``pool_k_e_…`` (`Expert.kept_layout`). Arrays of other terms are named ``term_k_…``.

A model that can be certified also has its labelling problem, the arrays of
`Instance.to_arrays` as ``problem_…``; or the header says why there is none.

Held-out labels, which prediction sets rest on, are there as ``held_…``: the fields of
`CrossFitted`.

What a report shows beside all that lies there as ``findings_…``, the arrays of
`Findings.to_parts`.

Links and features of the fit, which updates need, are there as ``data_…`` (`saving.data`), those
of kind number k as ``data_kind_k_…``; links that the labelling problem has already are not written
twice. Sums over the memberships, and these,
if they are not the probabilities, are there as ``sums_…``, where updates can be local.

What a file may hold is listed in `saving.header` (entries of the JSON), in `saving.arrays`
(arrays with their shapes) and by each term. A file that holds anything else is refused, by its
directory and its headers before its arrays are read.

Version 1 had neither `Softmax` nor anything about links of new nodes, version 2 no labelling
problem, version 3 no findings, version 4 no pool, version 5 no held-out labels, version 6 no data,
version 7 one kind of links, version 8 no sums, version 9 no data of several kinds of links; all
are still read.
"""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from nodeproof import __version__
from nodeproof.affinity import Affinity
from nodeproof.certificate.labelling.instance import Instance
from nodeproof.errors import InputError
from nodeproof.fitted import Fitted
from nodeproof.inputs import Unit
from nodeproof.inputs.preparation import Preparation
from nodeproof.prediction import is_calibrated
from nodeproof.problem import Models
from nodeproof.saving.arrays import (
    Arrays,
    check_arrays,
    check_values,
    describe_kept,
    rebuild_findings,
    rebuild_held_out,
    rebuild_kept,
    rebuild_problem,
    to_arrays,
)
from nodeproof.saving.data import data_parts, rebuild_data
from nodeproof.saving.header import (
    FORMAT,
    FORMAT_VERSION,
    LARGEST,
    REPORTED,
    check_header,
    check_version,
    decode,
    decode_settings,
    encode,
    encode_settings,
)
from nodeproof.settings import Settings
from nodeproof.storage.atomic import atomic_path
from nodeproof.storage.npz import Archive, open_npz, write_npz

__all__ = ["FORMAT_VERSION", "load_model", "save_model"]


def save_model(
    fitted: Fitted, path: str | PathLike[str], certifiable: bool = True, data: bool | None = None
) -> None:
    """Write a fitted model to ``path``; the file appears only when it is complete.

    Parameters
    ----------
    certifiable, data
        As in :meth:`nodeproof.NodeClassifier.save`.
    """
    problem: Instance | str | None = None
    if certifiable and (fitted.data is not None or fitted.saved_problem is not None):
        problem = fitted.labelling_problem()
    findings = fitted.known_findings
    if findings is None and certifiable and fitted.data is not None:
        findings = fitted.findings
    keep = certifiable if data is None else data
    described, parts = data_parts(fitted, problem) if keep else (None, {})
    meta = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "nodeproof": __version__,
        "params": encode_settings(fitted.settings),
        "terms": [encode(term) for term in fitted.terms],
        "fitted_on_graph": fitted.on_graph,
        "n_features_in": fitted.n_features,
        "reported": {f"{name}_": getattr(fitted, name) for name in REPORTED},
        "estimated_accuracy": fitted.estimated_accuracy,
        "kept": describe_kept(fitted.new_nodes, fitted.terms),
        "not_applicable": problem if isinstance(problem, str) else None,
        "findings": None if findings is None else findings.to_parts()[0],
    }
    if described is not None:
        meta["data"] = described
    if fitted.preparation is not None:
        meta["preparation"] = fitted.preparation.to_json()
    text = json.dumps(meta).encode()
    if len(text) > LARGEST:
        raise InputError(f"the history of this fit is too long for a model file ({len(text):,} B)")
    arrays = {"meta": np.frombuffer(text, dtype=np.uint8), **to_arrays(fitted, problem, findings)}
    arrays |= parts
    with atomic_path(path) as temporary, Path(temporary).open("wb") as file:
        write_npz(file, arrays)


def load_model(path: str | PathLike[str]) -> Fitted:
    """Read a model that :func:`save_model` has written."""
    if not Path(path).is_file():
        raise InputError(f"there is no model file {path}")
    with open_npz(path) as archive:
        meta = _read_meta(archive)
        check_header(meta)
        check_arrays(archive.headers(), meta)
        arrays = {name: archive[name] for name in archive if name != "meta"}
        check_values(arrays, meta)
        try:
            return _rebuild(meta, arrays)
        except (InputError, TypeError, LookupError) as error:
            raise ValueError(str(error)) from None


def _read_meta(archive: Archive) -> dict[str, Any]:
    if "meta" not in archive:
        raise InputError(f"{archive.path} is not a nodeproof model: it has no header")
    header = archive.header("meta")
    if header.dtype.kind != "u" or header.nbytes > LARGEST:
        raise ValueError(f"its header is {header.nbytes:,} bytes of {header.dtype}")
    return check_version(archive["meta"].tobytes(), archive.path)


def _rebuild(meta: dict[str, Any], arrays: Arrays) -> Fitted:
    terms = tuple(decode(spec) for spec in meta["terms"])
    models = tuple(arrays[f"term_{k}"] for k in range(len(terms)))
    for term, model in zip(terms, models, strict=True):
        term.check_models(model)
    affinity = Affinity(arrays["ell"], arrays["ell_t"]) if "ell" in arrays else None
    accuracy, names = meta.get("estimated_accuracy"), arrays.get("feature_names")
    reported = {name: meta["reported"][f"{name}_"] for name in REPORTED}
    settings = Settings(**decode_settings(meta["params"]))
    prepared = meta.get("preparation")
    problem, held_out = rebuild_problem(meta, arrays), rebuild_held_out(arrays)
    kept = rebuild_kept(meta, arrays, terms, models, is_calibrated(settings))
    return Fitted(
        settings=settings,
        classes=arrays["classes"],
        proba=arrays["proba"],
        given=arrays["given"] if len(arrays["given"]) else None,
        terms=terms,
        models=Models(affinity, models, arrays["log_prior"]),
        on_graph=bool(meta["fitted_on_graph"]),
        estimated_accuracy=None if accuracy is None else tuple(accuracy),
        new_nodes=kept,
        unit=Unit(arrays["shift"], arrays["scale"]) if "shift" in arrays else None,
        n_features=meta["n_features_in"],
        feature_names=None if names is None else names.astype(object),
        node_ids=arrays.get("node_ids"),
        data=rebuild_data(meta, arrays, terms, settings, problem, held_out),
        saved_problem=problem,
        saved_findings=rebuild_findings(meta, arrays),
        saved_held_out=held_out,
        preparation=None if prepared is None else Preparation.from_json(prepared),
        **reported,
    )
