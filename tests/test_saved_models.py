"""Saved models: the same predictions bit for bit, and a clear word on what is no model."""

from __future__ import annotations

import io
import json
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from inductive_helpers import make_texts
from nodeproof import NodeClassifier
from nodeproof.datasets import make_planted
from nodeproof.errors import InputError
from nodeproof.saving.model import FORMAT_VERSION
from nodeproof.solvers import BlockCADO
from nodeproof.terms import Covariance, Gaussian, Labels, Multinomial, Softmax

pytestmark = pytest.mark.filterwarnings("ignore:the fit averaged features")


@pytest.fixture(scope="module")
def data():
    return make_planted(cluster_size=60, p=0.2, label_accuracy=0.8, random_state=0)


def fit(data, **settings):
    names = np.array(["red", "blue", "<script>"])
    y = np.where(data.y >= 0, names[data.y], "")
    return NodeClassifier(random_state=0, **settings).fit(data.X, y, graph=data.graph)


@pytest.fixture(scope="module")
def kept(data, tmp_path_factory):
    path = tmp_path_factory.mktemp("kept") / "model.npz"
    fit(data, terms=[Covariance(), Labels()]).save(path)
    return path


@pytest.fixture
def saved(kept, tmp_path):
    return Path(shutil.copy(kept, tmp_path))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"weights": (1.0, 2.5, 13.0), "temperature": 0.0},
        {"weights": np.array([1, 2.5, 13])},
        {"terms": [Covariance(shrinkage=2.0, intercept=True), Labels(accuracy=0.8, strength=2.0)]},
        {"terms": [Gaussian(covariance="shared", shrinkage=2.0), Labels()]},
        {"terms": [Gaussian(shrinkage=3.0), Labels()], "weights": (1.0, 2.5, 13.0)},
        {"solver": BlockCADO(affinities="matrix", random_state=1)},
        {"random_state": None} | {"verbose": False},
    ],
    ids=["default", "paper", "an array", "terms", "means", "paper means", "matrix", "no seed"],
)
@pytest.mark.filterwarnings("ignore:predict")
def test_a_loaded_model_predicts_the_same_bits(data, tmp_path, settings):
    if "random_state" in settings:
        clf = NodeClassifier(**settings).fit(data.X, data.y, graph=data.graph)
    else:
        clf = fit(data, **settings)
    clf.save(tmp_path / "m.npz")
    again = NodeClassifier.load(tmp_path / "m.npz")
    np.testing.assert_array_equal(again.predict(), clf.predict())
    np.testing.assert_array_equal(again.proba_, clf.proba_)
    np.testing.assert_array_equal(again.predict_proba(data.X), clf.predict_proba(data.X))
    links = data.graph[::9]
    np.testing.assert_array_equal(
        again.predict_proba(data.X[::9], graph=links), clf.predict_proba(data.X[::9], graph=links)
    )
    np.testing.assert_array_equal(again.suspects_, clf.suspects_)
    assert again.sources_ == clf.sources_
    assert again.choices_ == json.loads(json.dumps(clf.choices_))
    assert (again.n_iter_, again.status_, again.objective_, again.history_) == (
        clf.n_iter_, clf.status_, clf.objective_, clf.history_,
    )  # fmt: skip
    assert repr(again.get_params()["terms"]) == repr(clf.get_params()["terms"])


def test_a_model_of_words_predicts_the_same_bits(data, tmp_path):
    words = np.floor(2.0 * np.abs(data.X))
    terms = [Multinomial(smoothing=2.0, trust=0.5), Labels()]
    clf = NodeClassifier(terms=terms, random_state=0).fit(words, data.y)
    clf.save(tmp_path / "m.npz")
    again = NodeClassifier.load(tmp_path / "m.npz")
    assert repr(again.get_params()["terms"]) == repr(terms)
    np.testing.assert_array_equal(again.predict_proba(words[:9]), clf.predict_proba(words[:9]))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"terms": [Softmax(hops=3, l2=0.1, rounds=1, confidence=0.8, sharpness=2.0), Labels()]},
        {"terms": [Softmax(hops=0, folds=3), Labels()], "weights": (1.0, 2.5, 13.0)},
        {"terms": [Softmax(hops=2, of="links"), Labels()], "null_model": "degree"},
    ],
    ids=["auto", "given", "paper", "links"],
)
@pytest.mark.parametrize("dense", [False, True], ids=["counts", "dense"])
def test_a_classifier_predicts_the_same_bits_for_new_nodes(tmp_path, settings, dense):
    texts = make_texts(150)
    out = np.arange(0, 150, 10)
    rest, links = texts.without(out), 0.7 * texts.links(out)
    X, X_new = rest.X, texts.X[out]
    if dense:
        X, X_new = X.toarray() - 0.2, X_new.toarray() - 0.2
    clf = NodeClassifier(random_state=0, **settings).fit(X, rest.y, graph=rest.graph)
    clf.save(tmp_path / "m.npz")
    again = NodeClassifier.load(tmp_path / "m.npz")
    for arguments in ({}, {"graph": links}):
        np.testing.assert_array_equal(
            again.predict_proba(X_new, **arguments), clf.predict_proba(X_new, **arguments)
        )
    assert repr(again.terms_) == repr(clf.terms_)
    assert again.estimated_accuracy_ == clf.estimated_accuracy_
    assert (again.estimated_accuracy_ is None) == bool(settings)
    again.save(tmp_path / "again.npz")
    third = NodeClassifier.load(tmp_path / "again.npz")
    np.testing.assert_array_equal(
        third.predict_proba(X_new, graph=links), clf.predict_proba(X_new, graph=links)
    )


def test_a_model_without_features_or_graph_is_saved_too(data, tmp_path):
    for number, arguments in enumerate(({"graph": data.graph}, {"X": data.X})):
        clf = NodeClassifier(n_classes=3, random_state=0).fit(**arguments)
        clf.save(tmp_path / f"{number}.npz")
        again = NodeClassifier.load(tmp_path / f"{number}.npz")
        np.testing.assert_array_equal(again.labels_, clf.labels_)
        assert len(again.suspects_) == 0


def test_the_unit_of_extreme_features_is_kept(data, tmp_path):
    clf = NodeClassifier(random_state=0).fit(data.X + 1e9, data.y)
    clf.save(tmp_path / "m.npz")
    again = NodeClassifier.load(tmp_path / "m.npz")
    np.testing.assert_array_equal(
        again.predict_proba(data.X + 1e9), clf.predict_proba(data.X + 1e9)
    )


def test_names_of_features_are_kept(data, tmp_path):
    table = pd.DataFrame(data.X, columns=[f"x{k}" for k in range(6)])
    clf = NodeClassifier(random_state=0).fit(table, data.y)
    clf.save(tmp_path / "m.npz")
    again = NodeClassifier.load(tmp_path / "m.npz")
    np.testing.assert_array_equal(again.predict(table), clf.predict(table))
    with pytest.raises(ValueError, match="feature names"):
        again.predict(table.rename(columns={"x0": "other"}))


def test_a_loaded_model_can_be_saved_again(saved, tmp_path):
    NodeClassifier.load(saved).save(tmp_path / "again.npz")
    assert NodeClassifier.load(tmp_path / "again.npz").labels_.shape == (180,)


def test_nothing_in_the_file_is_pickled(saved):
    with np.load(saved, allow_pickle=False) as archive:
        assert all(archive[name].dtype.kind != "O" for name in archive.files)


def test_saving_replaces_an_older_file_only_when_complete(data, saved):
    before = saved.read_bytes()
    clf = fit(data)
    clf.fitted_ = replace(clf.fitted_, terms=(object(),))
    with pytest.raises(InputError, match="holds terms, and nodeproof's own solvers only"):
        clf.save(saved)
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == ["model.npz"]


def rewrite(path, change):
    """Change the arrays of a model file."""
    with np.load(path, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    meta = json.loads(arrays["meta"].tobytes())
    change(meta, arrays)
    arrays["meta"] = np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8)
    np.savez(path, **arrays)


def test_a_newer_file_is_refused_with_what_to_do(saved):
    rewrite(saved, lambda meta, arrays: meta.update(version=FORMAT_VERSION + 1, nodeproof="9.9"))
    with pytest.raises(
        InputError, match=rf"nodeproof 9\.9 in format {FORMAT_VERSION + 1}.*upgrade"
    ):
        NodeClassifier.load(saved)


@pytest.mark.parametrize("sources", ["G", "GL", "GFL", "FL"])
def test_a_loaded_model_certifies_to_the_same_certificate(data, tmp_path, sources):
    # By itself, a fit of features and labels would be a pool, with nothing joint to prove.
    terms = [Covariance(), Labels()] if sources == "FL" else "auto"
    clf = NodeClassifier(n_classes=3, terms=terms, random_state=0).fit(
        data.X if "F" in sources else None,
        data.y if "L" in sources else None,
        graph=data.graph if "G" in sources else None,
    )
    clf.save(tmp_path / "m.npz")
    again = NodeClassifier.load(tmp_path / "m.npz")
    again.save(tmp_path / "again.npz")
    third = NodeClassifier.load(tmp_path / "again.npz")
    proof = clf.certify(time_budget=0)
    for loaded in (again, third):
        found = loaded.certify(time_budget=0)
        assert found.verify()
        assert (found.status, found.objective, found.lower_bound, found.method) == (
            proof.status, proof.objective, proof.lower_bound, proof.method,
        )  # fmt: skip
        for mine, theirs in (
            (found.labels, proof.labels),
            (found.possible, proof.possible),
            (loaded.map_labels_, clf.map_labels_),
            (loaded.certified_nodes_, clf.certified_nodes_),
        ):
            np.testing.assert_array_equal(mine, theirs)


def test_why_there_is_no_certificate_is_saved_too(data, tmp_path):
    solver = BlockCADO(affinities="matrix", random_state=1)
    clf = fit(data, terms=[Covariance(), Labels()], solver=solver)
    clf.save(tmp_path / "m.npz")
    found = NodeClassifier.load(tmp_path / "m.npz").certify()
    assert found.status == "not applicable"
    assert found.reason == clf.certify().reason


def test_a_model_saved_without_its_links_is_smaller_and_not_certified(data, saved, tmp_path):
    terms = [Covariance(), Labels()]
    fit(data, terms=terms).save(tmp_path / "small.npz", certifiable=False)
    assert (tmp_path / "small.npz").stat().st_size < saved.stat().st_size
    clf = NodeClassifier.load(tmp_path / "small.npz")
    np.testing.assert_array_equal(clf.labels_, NodeClassifier.load(saved).labels_)
    with pytest.raises(InputError, match=r"without the links and costs.*save it again"):
        clf.certify()


def make_second_version(meta, arrays):
    meta.pop("data", None)
    for name in [name for name in arrays if name.startswith(("data_", "sums_"))]:
        del arrays[name]
    meta["version"] = 2
    del meta["not_applicable"]
    for name in [name for name in arrays if name.startswith("problem_")]:
        del arrays[name]


@pytest.mark.filterwarnings("ignore:predict")
def test_files_of_the_second_version_are_read_but_not_certified(data, saved):
    before = NodeClassifier.load(saved)
    rewrite(saved, make_second_version)
    clf = NodeClassifier.load(saved)
    links = data.graph[:9]
    np.testing.assert_array_equal(
        clf.predict_proba(data.X[:9], graph=links), before.predict_proba(data.X[:9], graph=links)
    )
    with pytest.raises(InputError, match=r"without the links and costs.*save it again"):
        clf.certify()
    clf.save(saved)
    with pytest.raises(InputError, match="without the links and costs"):
        NodeClassifier.load(saved).certify()


def make_first_version(meta, arrays):
    make_second_version(meta, arrays)
    meta["version"] = 1
    for name in ("kept", "estimated_accuracy"):
        del meta[name]
    del arrays["null_pairs"]


@pytest.mark.filterwarnings("ignore:predict")
def test_files_of_the_first_version_are_read(data, saved):
    before = NodeClassifier.load(saved)
    rewrite(saved, make_first_version)
    clf = NodeClassifier.load(saved)
    np.testing.assert_array_equal(clf.predict_proba(data.X), before.predict_proba(data.X))
    assert clf.estimated_accuracy_ is None
    with pytest.raises(InputError, match="saved by an older version"):
        clf.predict(data.X[:3], graph=data.graph[:3])
    clf.save(saved)
    NodeClassifier.load(saved)


DAMAGE = {
    "another format": lambda meta, arrays: meta.update(format="other"),
    "no version": lambda meta, arrays: meta.pop("version"),
    "no parameters": lambda meta, arrays: meta.pop("params"),
    "unknown parameter": lambda meta, arrays: meta["params"].update(nonsense=1),
    "unknown solver": lambda meta, arrays: meta["params"].update(solver={"class": "os.system"}),
    "a class too many": lambda meta, arrays: arrays.update(classes=np.arange(4)),
    "no probabilities": lambda meta, arrays: arrays.pop("proba"),
    "flat probabilities": lambda meta, arrays: arrays.update(proba=np.ones(5)),
    "labels for other nodes": lambda meta, arrays: arrays.update(given=np.zeros(7, int)),
    "a label too large": lambda meta, arrays: arrays.update(given=np.full(180, 99)),
    "a model missing": lambda meta, arrays: arrays.pop("term_1"),
    "nothing for new nodes": lambda meta, arrays: meta.pop("kept"),
    "no pairs": lambda meta, arrays: arrays.pop("null_pairs"),
    "pairs of other classes": lambda meta, arrays: arrays.update(null_pairs=np.ones(7)),
    "links of other nodes": lambda meta, arrays: arrays.update(problem_costs=np.ones((7, 3))),
    "costs of other classes": lambda meta, arrays: arrays.update(problem_costs=np.ones((180, 4))),
    "a link to nowhere": lambda meta, arrays: arrays["problem_indices"].__setitem__(0, 999),
    "covariances of less than nothing": lambda meta, arrays: np.negative(
        arrays["term_0"], out=arrays["term_0"]
    ),
    "half a labelling problem": lambda meta, arrays: arrays.pop("problem_eta"),
    "no findings": lambda meta, arrays: meta.update(findings=None),
    "half the findings": lambda meta, arrays: arrays.pop("findings_even"),
    "a picture without links": lambda meta, arrays: arrays.pop("findings_links"),
    "findings of other nodes": lambda meta, arrays: arrays["findings_nodes"].__setitem__(-1, 180),
    "findings out of order": lambda meta, arrays: arrays["findings_nodes"].__setitem__(0, 5),
    "findings of other classes": lambda meta, arrays: arrays["findings_told"].__setitem__(0, 3),
    "a drawn link to nowhere": lambda meta, arrays: arrays["findings_links"].fill(-1),
    "evidence that is no number": lambda meta, arrays: arrays["findings_evidence_graph"].fill(
        np.nan
    ),
    "blind probabilities above one": lambda meta, arrays: arrays["findings_blind"].fill(2.0),
    "noise that is no share": lambda meta, arrays: meta["findings"].update(noise=7.0),
    "choices without a reason": lambda meta, arrays: meta["reported"].update(choices_={"a": 1}),
    "a classifier missing": lambda meta, arrays: meta["kept"]["softmax"].update(
        {"0": {"hops": 1, "alpha": 0.1, "of": "features"}}
    ),
}

SOFTMAX_DAMAGE = {
    "no classifier": lambda meta, arrays: meta["kept"]["softmax"].clear(),
    "other nodes": lambda meta, arrays: arrays.update(softmax_0_lagged=np.ones((7, 60))),
    "other degrees": lambda meta, arrays: arrays.update(softmax_0_normaliser=np.ones(7)),
    "no degrees": lambda meta, arrays: arrays.pop("softmax_0_normaliser"),
    "other columns": lambda meta, arrays: arrays.update(softmax_0_coefficients=np.ones((3, 9))),
    "other classes": lambda meta, arrays: arrays.update(softmax_0_coefficients=np.ones((4, 61))),
    "other features": lambda meta, arrays: arrays.update(softmax_0_directions=np.ones((60, 9))),
    "other loners": lambda meta, arrays: arrays.update(softmax_0_alone=np.ones((3, 9))),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_file_is_refused(saved, kind):
    rewrite(saved, DAMAGE[kind])
    with pytest.raises(InputError, match=r"damaged|not a nodeproof model"):
        NodeClassifier.load(saved)


@pytest.mark.parametrize("kind", SOFTMAX_DAMAGE)
def test_a_damaged_classifier_is_refused(tmp_path, kind):
    texts = make_texts(60)
    clf = NodeClassifier(terms=[Softmax(hops=2, rounds=0), Labels()], random_state=0)
    clf.fit(texts.X, texts.y, graph=texts.graph).save(tmp_path / "m.npz")
    NodeClassifier.load(tmp_path / "m.npz")
    rewrite(tmp_path / "m.npz", lambda meta, arrays: SOFTMAX_DAMAGE[kind](meta, arrays))
    with pytest.raises(InputError, match="damaged"):
        NodeClassifier.load(tmp_path / "m.npz")


@pytest.mark.parametrize(
    ("term", "weights"),
    [
        (Covariance(), (1.0, 2.5, 13.0)),
        (Gaussian("shared"), "calibrated"),
        (Gaussian("diagonal"), (1.0, 2.5, 13.0)),
        (Gaussian("full"), "calibrated"),
    ],
)
def test_spreads_of_less_than_nothing_are_refused(data, tmp_path, term, weights):
    clf = NodeClassifier(terms=[term, Labels()], weights=weights, max_iter=5, random_state=0)
    clf.fit(data.X, data.y, graph=data.graph).save(tmp_path / "m.npz")
    new = NodeClassifier.load(tmp_path / "m.npz").predict_proba(data.X[:3])
    np.testing.assert_array_equal(new, clf.predict_proba(data.X[:3]))
    rewrite(
        tmp_path / "m.npz", lambda meta, arrays: arrays.update(term_0=-np.abs(arrays["term_0"]))
    )
    with pytest.raises(InputError, match="not positive definite"):
        NodeClassifier.load(tmp_path / "m.npz")


@pytest.mark.parametrize("keep", [0, 1, 100, 0.5, 0.99])
def test_a_truncated_file_is_refused(saved, keep):
    content = saved.read_bytes()
    saved.write_bytes(content[: keep if isinstance(keep, int) else int(keep * len(content))])
    with pytest.raises(InputError, match=r"damaged|not a nodeproof model"):
        NodeClassifier.load(saved)


def test_flipped_bytes_are_noticed(saved):
    """Every member of a zip file carries a checksum."""
    content = bytearray(saved.read_bytes())
    with zipfile.ZipFile(io.BytesIO(bytes(content))) as archive:
        proba = archive.getinfo("proba.npy")
    content[proba.header_offset + 400] ^= 0xFF
    saved.write_bytes(bytes(content))
    with pytest.raises(InputError, match="damaged"):
        NodeClassifier.load(saved)


def test_a_pickle_is_never_read(tmp_path):
    path = tmp_path / "m.npz"
    np.savez(path, meta=np.array([{"a": 1}], dtype=object))
    with pytest.raises(InputError, match="damaged"):
        NodeClassifier.load(path)
    plain = tmp_path / "m.npy"
    np.save(plain, np.array([object()]), allow_pickle=True)
    with pytest.raises(InputError, match="damaged"):
        NodeClassifier.load(plain)


def test_other_files_are_refused(tmp_path):
    with pytest.raises(InputError, match="no model file"):
        NodeClassifier.load(tmp_path / "missing.npz")
    with pytest.raises(InputError, match="no model file"):
        NodeClassifier.load(tmp_path)
    text = tmp_path / "text.npz"
    text.write_text("hello")
    with pytest.raises(InputError, match="damaged"):
        NodeClassifier.load(text)
    array = tmp_path / "array.npz"
    np.savez(array, x=np.ones(3))
    with pytest.raises(InputError, match="no header"):
        NodeClassifier.load(array)
