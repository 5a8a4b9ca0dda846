"""Saved pools of experts: new nodes get the same bits, and forged files are refused."""

from __future__ import annotations

import json
import shutil
import warnings
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from nodeproof import NodeClassifier
from nodeproof.auto import pooled
from nodeproof.auto.experts.regression import Setting
from nodeproof.auto.pooled import Pooled, PooledCosts, Verdict
from nodeproof.auto.pooling import Pool
from nodeproof.errors import InputError
from nodeproof.experts import (
    BlockModel,
    Features,
    Links,
    NewNodes,
    OwnFeatures,
    Propagation,
    Trees,
)
from nodeproof.terms import Covariance, Labels
from pool_helpers import make_uneven
from test_saved_models import rewrite

K = 3

pytestmark = pytest.mark.filterwarnings("ignore:predict")


@pytest.fixture(scope="module")
def data():
    return make_uneven(250, K, labelled=0.3)


@pytest.fixture(scope="module")
def many():
    return make_uneven(300, K, labelled=0.8)


def same_bits(clf, again, X, graph) -> None:
    """Assert that both judge nodes the same, with and without links."""
    for links in (graph, None):
        if X is not None or links is not None:
            before, after = (model.predict_proba(X, graph=links) for model in (clf, again))
            np.testing.assert_array_equal(before, after)
            np.testing.assert_allclose(after.sum(axis=1), 1.0, atol=1e-5)


def save_and_load(clf, path):
    clf.save(path)
    return NodeClassifier.load(path)


# What is kept. --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sources", "labels"),
    [
        *((sources, "few") for sources in ("graph", "features", "both", "counts")),
        *((sources, "many") for sources in ("graph", "features", "counts")),  # with trees
    ],
)
def test_a_loaded_pool_judges_new_nodes_with_the_same_bits(data, many, tmp_path, sources, labels):
    nodes = data if labels == "few" else many
    X = {"graph": None, "counts": nodes.counts}.get(sources, nodes.X)
    graph = None if sources == "features" else nodes.graph
    clf = NodeClassifier(experts=["-block model"], random_state=0).fit(X, nodes.y, graph=graph)
    assert isinstance(clf.terms_[0], Pooled)
    again = save_and_load(clf, tmp_path / "m.npz")
    links = None if graph is None else graph[:9]
    same_bits(clf, again, None if X is None else X[:9], links)
    assert again.choices_ == clf.choices_
    assert again.experts == ["-block model"]
    assert again.estimated_accuracy_ == pytest.approx(clf.estimated_accuracy_)
    third = save_and_load(again, tmp_path / "again.npz")
    same_bits(clf, third, None if X is None else X[:9], links)


def all_experts(nodes, settings) -> Verdict:
    """Return a verdict to which every expert has contributed the same."""
    y = np.asarray(nodes.y)
    learnt = [kind.bind(nodes).learn(y, setting) for kind, setting in settings]
    E, shares = len(learnt), np.full(K, 1.0 / K)
    balanced = np.array([kind.balanced for kind, _ in settings])
    pool = Pool(
        np.ones(E), balanced, np.full(E, 1.0 / E), np.zeros(K), shares, np.ones(E), 1.2, shares
    )
    names, sources = (tuple(getattr(kind, x) for kind, _ in settings) for x in ("name", "source"))
    costs = np.full((len(y), K), np.log(K), dtype=np.float32)
    return Verdict(pool, names, sources, tuple(learnt), costs)


@pytest.fixture(scope="module")
def complete(many, tmp_path_factory):
    """A pool in which every expert has a weight: the model, and its file."""
    clf = NodeClassifier(experts=["propagation", "links"], random_state=0)
    clf.fit(many.X, many.y, graph=many.graph)
    nodes = clf.fitted_.data.nodes
    spread = Setting(16, 0.3, 1.0, rounds=1, spread=True)
    block = BlockModel([Covariance(intercept=True)])
    verdict = all_experts(
        nodes,
        [
            (Propagation(), 0.1),
            (block, block.bind(nodes).settings()[-1]),
            (Links(), Setting(4, 0.3, 1.0)),
            (Features(), spread),
            (OwnFeatures(), Setting(0, 0.3, 1.0)),
            (Trees(), 20),
        ],
    )
    state = replace(clf.fitted_.new_nodes, terms=(PooledCosts(verdict), None))
    term = Pooled(verdict).bind(nodes)
    clf._show(replace(clf.fitted_, new_nodes=state, terms=(term, clf.fitted_.terms[1])))
    path = tmp_path_factory.mktemp("complete") / "model.npz"
    clf.save(path)
    return clf, path


@pytest.fixture
def saved(complete, tmp_path):
    return Path(shutil.copy(complete[1], tmp_path))


def test_every_kind_of_expert_is_kept(many, complete):
    clf, path = complete
    again = NodeClassifier.load(path)
    same_bits(clf, again, many.X[:9], many.graph[:9])
    assert again.terms_[0].verdict.names == clf.terms_[0].verdict.names
    with pytest.raises(InputError, match="fitted with features: give X"):
        again.predict(graph=many.graph[:9])


def test_all_that_makes_up_a_pool_is_kept():
    kept = {*pooled._POOL_ARRAYS, "scale", "noise", "at_labels"}
    assert kept == {field.name for field in fields(Pool)}


def test_a_pool_cannot_be_fitted_to_other_nodes(many, complete):
    for model in (complete[0], NodeClassifier.load(complete[1])):
        with pytest.raises(InputError, match="Pooled belongs to the fit that made it"):
            NodeClassifier(terms=model.terms_).fit(many.X, many.y, graph=many.graph)


def test_a_pool_without_features_needs_none_after_loading(data, tmp_path):
    clf = NodeClassifier(experts=["propagation", "links"], random_state=0)
    again = save_and_load(clf.fit(data.X, data.y, graph=data.graph), tmp_path / "m.npz")
    same_bits(clf, again, None, data.graph[:9])


def test_a_loaded_pool_certifies_and_reports_the_same(data, tmp_path):
    clf = NodeClassifier(experts=["-trees", "-block model"], random_state=0)
    clf.fit(data.X, data.y, graph=data.graph)
    again = save_and_load(clf, tmp_path / "m.npz")
    proof, found = clf.certify(time_budget=1), again.certify(time_budget=1)
    assert (found.status, found.reason) == ("not applicable", proof.reason)
    np.testing.assert_array_equal(again.map_labels_, clf.map_labels_)
    for model, name in ((clf, "before.html"), (again, "after.html")):
        model.report(tmp_path / name, certificate=proof)
    assert (tmp_path / "after.html").read_text() == (tmp_path / "before.html").read_text()


def test_new_links_among_each_other_count_the_same_after_loading(many, complete):
    clf, path = complete
    new = NewNodes(many.X[:9], many.graph[:9], many.graph[:9][:, :9])
    before, after = (
        model.fitted_.new_nodes.terms[0].costs(new) for model in (clf, NodeClassifier.load(path))
    )
    np.testing.assert_array_equal(before, after)


def test_a_file_of_the_format_before_is_still_read(data, tmp_path):
    clf = NodeClassifier(terms=[Covariance(), Labels()], random_state=0)
    clf.fit(data.X, data.y, graph=data.graph).save(tmp_path / "m.npz")

    def older(meta, arrays):
        meta["version"] = 4
        del meta["params"]["experts"]

    rewrite(tmp_path / "m.npz", older)
    again = NodeClassifier.load(tmp_path / "m.npz")
    same_bits(clf, again, data.X[:9], data.graph[:9])
    assert again.experts == "auto"


# Forged files. --------------------------------------------------------------------------


def member(meta, name):
    """Return an expert in the header."""
    return next(found for found in kept(meta)["experts"] if found["name"] == name)


def kept(meta):
    return meta["kept"]["pool"]["0"]


def edit(name, change):
    """Return damage to one array of the pool, written as expert:array or as array."""

    def damage(meta, arrays):
        expert, _, part = name.rpartition(":")
        names = [found["name"] for found in kept(meta)["experts"]]
        key = f"pool_0_{names.index(expert)}_{part}" if expert else f"pool_0_{part}"
        found = change(arrays.pop(key))
        if found is not None:
            arrays[key] = found

    return damage


def first(value):
    """Return a change of the first entry of an array."""

    def change(array):
        array = array.copy()
        array.reshape(-1)[0] = value
        return array

    return change


def remove(array):
    return None


def shorter(array):
    return array[:-1]


def narrower(array):
    return array[..., :-1]


DAMAGE = {
    "a negative weight": edit("weights", first(-1.0)),
    "a weight that is no number": edit("weights", first(np.nan)),
    "an infinite weight": edit("weights", first(np.inf)),
    "a weight too few": edit("weights", shorter),
    "no weights": edit("weights", remove),
    "a scale of zero": edit("scales", first(0.0)),
    "flags that are numbers": edit("balanced", lambda array: array.astype(float)),
    "a class too few": edit("bias", shorter),
    "a class of no labels": edit("learnt", first(0.0)),
    "proportions of more than one": edit("proportions", first(3.0)),
    "a final scale below zero": lambda meta, arrays: kept(meta).update(scale=-1.0),
    "noise above one": lambda meta, arrays: kept(meta).update(noise=1.5),
    "a final scale that is text": lambda meta, arrays: kept(meta).update(scale="1"),
    "no list of experts": lambda meta, arrays: kept(meta).update(experts={}),
    "an expert too few": lambda meta, arrays: kept(meta)["experts"].pop(),
    "experts in another order": lambda meta, arrays: kept(meta)["experts"].reverse(),
    "an expert that draws on nothing": lambda meta, arrays: member(meta, "links").update(
        source="x"
    ),
    "an expert with more to say": lambda meta, arrays: member(meta, "links").update(more=1),
    "an expert without what it keeps": lambda meta, arrays: member(meta, "links").update(kept=None),
    "a setting too few": lambda meta, arrays: member(meta, "propagation")["kept"].clear(),
    "a setting too many": lambda meta, arrays: member(meta, "links")["kept"].update(more=1),
    "a restart of zero": lambda meta, arrays: member(meta, "propagation")["kept"].update(restart=0),
    "no mass": edit("propagation:mass", remove),
    "negative mass": edit("propagation:mass", first(-1.0)),
    "mass of fewer nodes": edit("propagation:mass", shorter),
    "mass that is no number": edit("propagation:mass", first(np.nan)),
    "degrees of fewer nodes": edit("propagation:inverse_degrees", shorter),
    "negative degrees": edit("propagation:inverse_degrees", first(-1.0)),
    "affinities of other classes": edit("block model:ell", narrower),
    "no pairs": edit("block model:pairs", remove),
    "a model of fewer features": edit("block model:term_0", narrower),
    "no model": edit("block model:term_0", remove),
    "a covariance below zero": edit("block model:term_0", lambda array: -array),
    "probabilities of fewer nodes": edit("block model:log_proba", shorter),
    "a prior that is no number": edit("block model:log_prior", first(np.nan)),
    "an unknown term": lambda meta, arrays: member(meta, "block model")["kept"].update(
        terms=[{"class": "Unknown"}]
    ),
    "a term that is a solver": lambda meta, arrays: member(meta, "block model")["kept"].update(
        terms=[{"class": "BlockCADO"}]
    ),
    "links without a unit": lambda meta, arrays: member(meta, "block model")["kept"][
        "graph"
    ].update(unit=0.0),
    "coefficients of fewer columns": edit("own features:coefficients", narrower),
    "features of fewer columns": edit("own features:shift", shorter),
    "what is passed on by fewer nodes": edit("smoothed features:lagged", shorter),
    "nothing passed on": edit("smoothed features:lagged", remove),
    "degrees of zero": edit("smoothed features:normaliser", first(0.0)),
    "no probabilities to spread": edit("smoothed features:log_proba", remove),
    "directions of fewer nodes": edit("links:directions", shorter),
    "features in place of links": lambda meta, arrays: member(meta, "links")["kept"].update(
        of="features"
    ),
    "a share above one": lambda meta, arrays: member(meta, "links")["kept"].update(alpha=7.0),
    "hops without end": lambda meta, arrays: member(meta, "links")["kept"].update(hops=1e300),
    "a tree in circles": edit("trees:forest_children", lambda array: np.zeros_like(array)),
    "a tree that leads elsewhere": edit("trees:forest_children", lambda array: array + 10**6),
    "a tree of other columns": edit("trees:forest_feature", first(10**6)),
    "a leaf that is no number": edit("trees:forest_value", first(np.nan)),
    "a threshold that is no number": edit("trees:forest_threshold", first(np.nan)),
    "thresholds of fewer nodes": edit("trees:forest_threshold", shorter),
    "roots that are not there": edit("trees:forest_roots", lambda array: array + 1),
    "no roots": edit("trees:forest_roots", lambda array: array[:0]),
    "trees of other classes": edit("trees:known", first(False)),
    "labels of no class": edit("trees:labels", first(99)),
    "eigenvalues of zero": edit("trees:eigenvalues", first(0.0)),
    "eigenvectors of fewer nodes": edit("trees:eigenvectors", shorter),
    "a column too many": lambda meta, arrays: member(meta, "trees")["kept"].update(
        n_columns=member(meta, "trees")["kept"]["n_columns"] + 1
    ),
    "columns without end": lambda meta, arrays: member(meta, "trees")["kept"].update(
        n_columns=2**62 - 1
    ),
    "a leading column too few": edit("trees:few", narrower),
    "regressions of other columns": edit("trees:coefficients", lambda array: array[:, :-1]),
    "an array that nobody keeps": lambda meta, arrays: arrays.update(pool_0_0_more=np.zeros(3)),
    "an array of an expert that is not there": lambda meta, arrays: arrays.update(
        pool_0_9_mass=np.zeros(3)
    ),
    "a pool of another term": lambda meta, arrays: meta["kept"].update(
        pool={"1": meta["kept"]["pool"].pop("0")}
    ),
    "no pool": lambda meta, arrays: meta["kept"].pop("pool"),
    "experts that are no list": lambda meta, arrays: meta["params"].update(experts={"a": 1}),
    "experts with arguments of others": lambda meta, arrays: meta["params"].update(
        experts=[{"expert": "links", "terms": []}]
    ),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_forged_pool_is_refused_in_one_line(saved, kind):
    rewrite(saved, DAMAGE[kind])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InputError, match="damaged") as refused:
            NodeClassifier.load(saved)
    assert str(saved) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_file_as_it_was_is_not_refused(many, complete, saved):
    rewrite(saved, lambda meta, arrays: None)
    same_bits(complete[0], NodeClassifier.load(saved), many.X[:5], many.graph[:5])


@pytest.mark.parametrize("name", ["unknown", "os.system", "__class__", "nodeproof.experts:Links"])
def test_an_unknown_expert_is_refused_with_what_to_do(saved, name):
    rewrite(saved, lambda meta, arrays: member(meta, "links").update(name=name))
    with pytest.raises(InputError, match=f"an expert '{name}', which is unknown here") as refused:
        NodeClassifier.load(saved)
    assert "nodeproof.experts.register" in str(refused.value)
    assert "--own-expert" in str(refused.value)


def test_an_unknown_expert_without_a_weight_does_not_matter(many, complete, saved):
    def silence(meta, arrays):
        names = [found["name"] for found in kept(meta)["experts"]]
        e = names.index("links")
        kept(meta)["experts"][e].update(name="gone", kept=None)
        for name in [name for name in arrays if name.startswith(f"pool_0_{e}_")]:
            del arrays[name]
        arrays["pool_0_weights"][e] = 0.0

    rewrite(saved, silence)
    assert NodeClassifier.load(saved).predict(many.X[:5], graph=many.graph[:5]).shape == (5,)


def test_the_header_holds_plain_settings_only(complete):
    with np.load(complete[1], allow_pickle=False) as archive:
        meta = json.loads(archive["meta"].tobytes())
    described = member(meta, "block model")["kept"]
    assert [term["class"] for term in described["terms"]] == ["Covariance"]
    assert {type(term) for term in described["graph"].values()} <= {str, float, int}
