"""Saved models and certificates."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from hostile.archives import DEFLATED, HUGE
from hostile.making import (
    CASES,
    Seeds,
    add,
    certify,
    verify,
)
from hostile.packing import Trap, bomb, letters, npy, npz, patched, zipped


def arrays_of(content: bytes, header: str = "meta") -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the JSON header and the arrays of a model or certificate."""
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    return json.loads(arrays.pop(header).tobytes()), arrays


def with_header(meta: Any, arrays: dict[str, Any]) -> bytes:
    text = meta if isinstance(meta, bytes) else json.dumps(meta).encode()
    return npz(meta=np.frombuffer(text, dtype=np.uint8), **arrays)


Change = Callable[[dict[str, Any], dict[str, Any]], Any]


def _settings(**values: Any) -> Change:
    return lambda meta, arrays: meta["params"].update(values)


def _entry(**values: Any) -> Change:
    return lambda meta, arrays: meta.update(values)


def _array(**values: Any) -> Change:
    return lambda meta, arrays: arrays.update(values)


def _without(*names: str) -> Change:
    def change(meta: dict[str, Any], arrays: dict[str, Any]) -> None:
        for name in names:
            (meta if name in meta else arrays).pop(name)

    return change


def _set(name: str, at: Any, value: Any) -> Change:
    return lambda meta, arrays: arrays[name].__setitem__(at, value)


def _as(name: str, kind: Any) -> Change:
    return lambda meta, arrays: arrays.__setitem__(name, arrays[name].astype(kind))


def _deep(levels: int) -> Any:
    found: Any = 0
    for _ in range(levels):
        found = [found]
    return found


MODELS: dict[str, Change] = {
    "a newer version": _entry(version=99),
    "a newer version with nothing else": lambda meta, arrays: (
        meta.clear(), meta.update(format="nodeproof-model", version=99), arrays.clear(),
    ),
    "version zero": _entry(version=0),
    "a version in words": _entry(version="three"),
    "version true": _entry(version=True),
    "another format": _entry(format="other"),
    "an unknown entry": _entry(surprise=1),
    "no settings": _without("params"),
    "no terms": _without("terms"),
    "settings in a list": _entry(params=[1]),
    "terms in a dict": _entry(terms={}),
    "a term that is a module": _entry(terms=[{"class": "os.system"}] * 2),
    "a term without a class": _entry(terms=[{}, {}]),
    "a solver among terms": _entry(terms=[{"class": "CADO"}] * 2),
    "a term with unknown settings": _entry(terms=[{"class": "Labels", "hook": 1}] * 2),
    "a term with a word for a number": _entry(terms=[{"class": "Labels", "accuracy": "x"}] * 2),
    "a million terms": _entry(terms=[{"class": "Labels"}] * 1_000_000),
    "an unknown setting": _settings(hook="os.system"),
    "a solver that is a module": _settings(solver={"class": "os.system"}),
    "a solver of no name": _settings(solver="magic"),
    "a solver with a bad setting": _settings(solver={"class": "BlockCADO", "max_iter": 0}),
    "weights of words": _settings(weights=["a", "b", "c"]),
    "four weights": _settings(weights=[1, 2, 3, 4]),
    "a temperature of NaN": _settings(temperature=float("nan")),
    "a negative number of classes": _settings(n_classes=-3),
    "a huge random state": _settings(random_state=10**400),
    "deep nesting": _settings(weights=_deep(900)),
    "features in words": _entry(n_features_in="four"),
    "other features": _entry(n_features_in=99),
    "a status that is a list": lambda meta, arrays: meta["reported"].update(status_=[]),
    "a history of words": lambda meta, arrays: meta["reported"].update(history_={"a": ["b"]}),
    "nothing kept": _without("kept"),
    "a link's mean weight of zero": lambda meta, arrays: meta["kept"]["graph"].update(unit=0),
    "a null model of no name": lambda meta, arrays: meta["kept"]["graph"].update(null_model="x"),
    "no probabilities": _without("proba"),
    "no classes": _without("classes"),
    "no given labels": _without("given"),
    "no class models": _without("term_0"),
    "an array too many": _array(surprise=np.ones(3)),
    "probabilities of NaN": _set("proba", (0, 0), np.nan),
    "negative probabilities": _set("proba", 0, [-1.0, 1.0, 1.0]),
    "probabilities that do not add up": _set("proba", 0, 0.9),
    "flat probabilities": _array(proba=np.ones(60)),
    "probabilities of no node": _array(proba=np.ones((0, 3))),
    "probabilities of no class": _array(proba=np.ones((60, 0))),
    "probabilities in words": _array(proba=np.full((60, 3), "a")),
    "complex probabilities": _as("proba", complex),
    "a class more": _array(classes=np.arange(4)),
    "the same class twice": _array(classes=np.array([0, 0, 1])),
    "a label of no class": _set("given", 0, 99),
    "a label below −1": _set("given", 0, -2),
    "labels of other nodes": _array(given=np.zeros(7, dtype=int)),
    "labels as floats": _as("given", float),
    "proportions of NaN": _set("log_prior", 0, np.nan),
    "half an affinity": _without("ell_t"),
    "affinities of other classes": _array(ell=np.ones((2, 2)), ell_t=np.ones((2, 2))),
    "class models of NaN": lambda meta, arrays: arrays["term_0"].fill(np.nan),
    "class models of other features": _array(term_0=np.ones((3, 9, 9))),
    "names of too few nodes": _array(node_ids=np.array(["a", "b"])),
    "names of half a letter": _array(node_ids=letters(0xD800, 60)),
    "names of no letter": _array(node_ids=letters(0xFFFFFFFF, 60)),
    "classes of half a letter": _array(classes=letters(0xDFFF)),
    "classes of no letter": _array(classes=letters(0x110000)),
    "pairs of other classes": _array(null_pairs=np.ones(7)),
    "no pairs": _without("null_pairs"),
    "half a labelling problem": _without("problem_eta"),
    "a link to nowhere": _set("problem_indices", 0, 10**6),
    "a link to a negative node": _set("problem_indices", 0, -5),
    "links that decrease": _set("problem_indptr", 5, 10**6),
    "links that begin late": _set("problem_indptr", 0, 3),
    "links that end early": _set("problem_indptr", -1, 3),
    "links as floats": _as("problem_indices", float),
    "links in one direction": lambda meta, arrays: arrays.update(
        problem_indptr=np.minimum(arrays["problem_indptr"], 2),
        problem_indices=np.array([1, 2], dtype=np.int32),
    ),
    "links of other nodes": _array(problem_indptr=np.zeros(9, dtype=int)),
    "too few weights of links": _array(problem_weights=np.ones(3)),
    "costs of other classes": _array(problem_costs=np.ones((60, 4))),
    "three scales": _array(problem_scales=np.ones(3)),
}  # fmt: skip

CLASSIFIERS: dict[str, Change] = {
    "no classifier": lambda meta, arrays: meta["kept"]["softmax"].clear(),
    "a classifier of no term": lambda meta, arrays: meta["kept"]["softmax"].update(
        {"7": {"hops": 1, "alpha": 0.1, "of": "features"}}
    ),
    "averages of other nodes": _array(softmax_0_lagged=np.ones((7, 4))),
    "averages of other columns": _array(softmax_0_lagged=np.ones((60, 9))),
    "no degrees": _without("softmax_0_normaliser"),
    "coefficients of NaN": lambda meta, arrays: arrays["softmax_0_coefficients"].fill(np.nan),
    "a million hops in words": lambda meta, arrays: meta["kept"]["softmax"]["0"].update(hops="9"),
}


def _changed(seed: str, change: Change) -> Callable[[Seeds], bytes]:
    def content(seeds: Seeds) -> bytes:
        meta, arrays = arrays_of(seeds[seed])
        change(meta, arrays)
        return with_header(meta, arrays)

    return content


def _member_of(seed: str, name: str, member: bytes, **options: Any) -> Callable[[Seeds], bytes]:
    def content(seeds: Seeds) -> bytes:
        with zipfile.ZipFile(io.BytesIO(seeds[seed])) as archive:
            members = {found: archive.read(found) for found in archive.namelist()}
        return zipped({**members, f"{name}.npy": member}, **options)

    return content


def _bytes(seed: str, change: Callable[[bytes], bytes]) -> Callable[[Seeds], bytes]:
    return lambda seeds: change(seeds[seed])


def _flipped(share: float) -> Callable[[bytes], bytes]:
    def change(content: bytes) -> bytes:
        at = int(share * len(content))
        return content[:at] + bytes([content[at] ^ 0x10]) + content[at + 1 :]

    return change


def _with_text(seed: str, text: bytes) -> Callable[[Seeds], bytes]:
    return lambda seeds: with_header(text, arrays_of(seeds[seed])[1])


def _broken(seed: str) -> dict[str, Callable[[Seeds], bytes]]:
    """Damage that any archive with a header in JSON can have."""
    first = "proba" if seed == "model.npz" else "labels"
    return {
        "empty": lambda seeds: b"",
        "text": lambda seeds: b"hello",
        "a pickle": lambda seeds: pickle.dumps(Trap()),
        "a single array": lambda seeds: npy(np.eye(3)),
        "no header": _bytes(seed, lambda content: npz(x=np.ones(3))),
        "cut in its middle": _bytes(seed, lambda content: content[: len(content) // 2]),
        "cut at its end": _bytes(seed, lambda content: content[:-1]),
        "a bit flipped near its middle": _bytes(seed, _flipped(0.4)),
        "a header that is no JSON": _with_text(seed, b"{'format': 1}"),
        "a header that is a list": _with_text(seed, b"[]"),
        "a header in UTF-16": _with_text(seed, '{"format": 1}'.encode("utf-16")),
        "an empty header": _with_text(seed, b""),
        "a header of brackets": _with_text(seed, b"[" * 100_000),
        "a header that says things twice": _with_text(
            seed, b'{"format": "nodeproof-model", "format": "nodeproof-certificate"}'
        ),
        "a header of twenty megabytes": _with_text(seed, b" " * 20_000_000 + b"{}"),
        "a header in floats": lambda seeds: npz(
            **arrays_of(seeds[seed])[1], meta=np.zeros(10)
        ),
        "a header of objects": lambda seeds: npz(
            **arrays_of(seeds[seed])[1], meta=np.array([Trap()], dtype=object)
        ),
        "Python objects": lambda seeds: _objects(seeds[seed], first),
        "a huge shape": _member_of(seed, first, npy(np.ones(3), shape=(HUGE, 3))),
        "a bomb": _member_of(seed, first, bomb((2**43, 3), 2**22), **DEFLATED),
        "a bomb of text": _member_of(seed, first, npy(np.array(["a"]), descr=f"<U{2**30}")),
        "a header without end": _member_of(seed, first, b"\x93NUMPY\x02\x00\xff\xff\xff\x7f{"),
        "a path upwards": _member_of(seed, "../../evil", npy(np.ones(3))),
        "an absolute path": _member_of(seed, "/evil", npy(np.ones(3))),
        "encrypted": _bytes(seed, lambda content: patched(content, f"{first}.npy", flags=1)),
        "a size beyond the file": _bytes(
            seed, lambda content: patched(content, f"{first}.npy", size=2**31, packed=2**31)
        ),
    }  # fmt: skip


def _objects(content: bytes, name: str) -> bytes:
    meta, arrays = arrays_of(content)
    return with_header(meta, arrays | {name: np.array([Trap()], dtype=object)})


def _model(name: str, content: Callable[[Seeds], bytes]) -> None:
    turn = len(CASES) % 2  # either command reads it

    def make(folder: Path, seeds: Seeds) -> list[Any]:
        (folder / "model.npz").write_bytes(content(seeds))
        if turn:
            return certify(folder)
        features = seeds.folder / "features.csv"
        return ["predict", folder, "--features", features, "--out", folder / "predictions.csv"]

    add(name, make)


for _name, _change in MODELS.items():
    _model(f"model: {_name}", _changed("model.npz", _change))
for _name, _change in CLASSIFIERS.items():
    _model(f"model: {_name}", _changed("classifier.npz", _change))
for _name, _damage in _broken("model.npz").items():
    _model(f"model: {_name}", _damage)


CERTIFICATES: dict[str, Change] = {
    "a newer version": _entry(version=99),
    "a version in words": _entry(version="one"),
    "another format": _entry(format="nodeproof-model"),
    "a claim in words": _entry(exact="yes"),
    "an objective in words": _entry(objective="low"),
    "no possible classes": _without("possible"),
    "no labels": _without("labels"),
    "labels as floats": _as("labels", float),
    "labels of other nodes": _array(labels=np.zeros(7, dtype=int)),
    "an array too many": _array(surprise=np.ones(3)),
    "a step that allows nothing": _array(step0_open=np.ones((7, 3), dtype=bool)),
    "flows without their tangent": _array(step9_y=np.ones((7, 3))),
    "dual variables of other nodes": _array(step0_nu=np.ones(7)),
    "signs of another shape": _array(step0_gamma=np.ones((3, 4))),
    "a link to nowhere": _set("indices", 0, 10**6),
    "a link to a negative node": _set("indices", 0, -7),
    "links that decrease": _set("indptr", 5, 10**6),
    "links as floats": _as("indices", float),
    "half a labelling problem": _without("eta"),
    "a step without a proof": _array(step9_open=np.ones((60, 3), dtype=bool)),
    "what an older version kept": _array(history=np.ones((3, 3))),
}


def _certificate(name: str, content: Callable[[Seeds], bytes]) -> None:
    def make(folder: Path, seeds: Seeds) -> list[Any]:
        (folder / "certificate.npz").write_bytes(content(seeds))
        return verify(folder)

    add(name, make)


for _name, _change in CERTIFICATES.items():
    _certificate(f"certificate: {_name}", _changed("certificate.npz", _change))
for _name, _damage in _broken("certificate.npz").items():
    _certificate(f"certificate: {_name}", _damage)
