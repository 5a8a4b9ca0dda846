"""Experts that users name, leave out or add, in Python and on the command line."""

from __future__ import annotations

import json
import sys
from importlib.metadata import EntryPoint
from typing import ClassVar

import numpy as np
import pytest
from sklearn.base import clone

from cli_helpers import run, write
from nodeproof import NodeClassifier, experts
from nodeproof.auto.experts import registry
from nodeproof.auto.experts.registry import as_experts
from nodeproof.errors import InputError
from nodeproof.experts import BlockModel, Expert, Learnt, Links, Propagation, register
from nodeproof.storage.schema import number
from nodeproof.terms import Covariance, Labels
from pool_helpers import FOLDER, LearntNeighbours, Neighbours, make_uneven


@pytest.fixture(scope="module")
def data():
    return make_uneven(200, labelled=0.3)


def fit(data, given, **settings):
    clf = NodeClassifier(experts=given, random_state=0, **settings)
    return clf.fit(data.X, data.y, graph=data.graph)


def pooled(clf) -> set[str]:
    """Return the names of the experts that were weighed."""
    return {row["expert"] for row in clf.choices_["experts"]["value"]}


# Names. ---------------------------------------------------------------------------------

ALL = ["propagation", "block model", "links", "smoothed features", "own features", "trees"]


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("auto", ALL),
        (["auto"], ALL),
        (["links", "propagation"], ["propagation", "links"]),
        (["-trees"], ALL[:-1]),
        (["-trees", "-block model"], ["propagation", *ALL[2:-1]]),
        (["own-features", "Block_Model"], ["block model", "own features"]),
        (["trees", "neighbours"], ["neighbours", "trees"]),
        (["auto", "-trees", "neighbours"], [*ALL[:-1], "neighbours"]),
        (["auto", "-links", Links()], ALL),
        ((Propagation(), "links"), ["propagation", "links"]),
    ],
    ids=str,
)
def test_experts_are_named_left_out_and_added(given, found):
    assert [expert.name for expert in as_experts(given)] == found


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["link"], r"no expert 'link'; there are: propagation, block model, links, smoothed"),
        (["-link"], r"no expert 'link'; there are: propagation"),
        ("links", r"'auto' or a list .* write experts=\['links'\]"),
        (Links(), r"write experts=\[Links\(\)\]"),
        (None, "'auto' or a list of names and experts, got None"),
        ([], "none is left"),
        ([f"-{name}" for name in ALL], "none is left"),
        (["links", "-trees"], "'-trees' leaves out what is not among them"),
        (["links", Links()], "two of the name 'links'"),
        (["auto", "links"], "two of the name 'links'"),
        ([Links], r"got the class Links: write Links\(\)"),
        ([3], "got 3: derive its class from nodeproof.experts.Expert"),
        ([["links"]], "derive its class"),
    ],
    ids=str,
)
def test_what_names_no_experts_is_refused_in_one_line(data, given, message):
    with pytest.raises(InputError, match=message) as refused:
        fit(data, given)
    assert "\n" not in str(refused.value)


def test_only_the_named_experts_are_pooled(data):
    clf = fit(data, ["propagation", "own features"])
    assert pooled(clf) == {"propagation", "own features"}
    assert "links" not in clf.choices_["experts"]["why"]
    assert pooled(fit(data, ["-block model", "-links"])).isdisjoint({"block model", "links"})


def test_all_experts_by_name_are_the_default(data):
    named = [expert.name for expert in as_experts("auto")]
    np.testing.assert_array_equal(fit(data, named).proba_, fit(data, "auto").proba_)


@pytest.mark.filterwarnings("ignore:the data do not tell")
def test_a_block_model_may_have_terms_of_its_own(data, tmp_path):
    clf = fit(data, [BlockModel([Covariance(shrinkage=3.0)]), "links"])
    (block,) = [row for row in clf.choices_["experts"]["value"] if row["expert"] == "block model"]
    assert "features by Covariance" in block["setting"]
    clf.save(tmp_path / "m.npz")
    again = NodeClassifier.load(tmp_path / "m.npz").experts
    assert repr(again) == repr(clf.experts)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"terms": [Covariance(), Labels()]}, "terms are given"),
        ({"weights": (1.0, 2.5, 13.0)}, "weights are given"),
        ({"weights": 0.3}, "weights are given"),
        ({"weights": "calibrated"}, "weights are given"),
        ({"solver": "cado"}, "the solver is not block CADO"),
        ({"n_classes": 4}, "there is a class without a label"),
    ],
    ids=["terms", "fixed", "trust", "calibrated", "solver", "no label"],
)
def test_experts_that_would_be_ignored_are_refused(data, settings, reason):
    with pytest.raises(InputError, match=f"experts are not used: {reason}; omit experts"):
        fit(data, ["-trees"], **settings)


def test_experts_without_labels_or_data_are_refused(data):
    few = np.where(np.arange(len(data.y)) < 1, 0, -1)
    for X, y, given, reason in (
        (data.X, None, ["links"], "there are no labels to weigh them by"),
        (data.X, few, ["links"], "there are too few labels to hold any out"),
        (None, data.y, ["own features"], "own features: there are no features"),
    ):
        with pytest.raises(InputError, match=f"experts are not used: {reason}"):
            NodeClassifier(experts=given).fit(X, y, graph=data.graph)


def test_trees_on_links_alone_count_as_graph():
    many = make_uneven(250, labelled=0.8)
    clf = NodeClassifier(experts=["trees"], random_state=0).fit(y=many.y, graph=many.graph)
    assert clf.sources_["graph"] > 0
    assert clf.sources_.get("features", 0.0) == 0.0
    assert clf.predict(graph=many.graph[:4]).shape == (4,)


def test_a_classifier_with_experts_can_be_cloned():
    clf = NodeClassifier(experts=["auto", Neighbours()])
    assert repr(clone(clf).experts) == "['auto', Neighbours()]"


# Experts of users. ----------------------------------------------------------------------


def test_an_expert_in_a_file_of_its_own_is_pooled_saved_and_asked(data, tmp_path):
    clf = fit(data, ["links", Neighbours()])
    assert pooled(clf) == {"links", "neighbours"}
    clf.save(tmp_path / "m.npz")
    again = NodeClassifier.load(tmp_path / "m.npz")
    X, links = data.X[:9] + 0.1, data.graph[:9]
    np.testing.assert_array_equal(
        clf.predict_proba(X, graph=links), again.predict_proba(X, graph=links)
    )
    assert repr(again.experts) == "['links', Neighbours()]"
    with pytest.raises(InputError, match="give X"):
        again.predict(graph=links)
    again.report(tmp_path / "report.html")
    assert "nothing joint to prove" in again.certify().explain()  # without the block model


def test_an_expert_that_helps_gets_a_weight(data):
    class Oracle(Expert):
        """Knows all classes, and is nearly sure."""

        name = "oracle"

        def learn(self, y, setting):
            return known(data.y_true, 0.9)

    clf = fit(data, ["auto", Oracle()])
    assert clf.choices_["experts"]["value"][0]["expert"] == "oracle"
    assert (clf.labels_ == data.y_true).mean() > 0.95


def known(z, p) -> Learnt:
    """Return what says these classes with a probability."""
    learnt = Learnt()
    learnt.log_proba = np.log(np.where(np.eye(3)[z] > 0, p, (1 - p) / 2)).astype(np.float32)
    return learnt


class Bad(Expert):
    """An expert with one method that does not keep to the contract."""

    name = "bad"

    def learn(self, y, setting):
        return known(np.zeros(len(y), dtype=int), 0.5)


def of(**methods):
    """Return an expert with these methods, of itself or of what it has learnt."""
    own = {name: method for name, method in methods.items() if hasattr(Expert, name)}
    rest = {name: method for name, method in methods.items() if name not in own}
    if rest:
        learnt = type("Odd", (Learnt,), rest)

        def learn(self, y, setting):
            found = learnt()
            found.log_proba = known(np.zeros(len(y), dtype=int), 0.5).log_proba
            return found

        own["learn"] = learn
    return type("Odd", (Bad,), own)()


def stop(*given):
    raise KeyError("mine")


def with_logs(change):
    def learn(self, y, setting):
        learnt = known(np.zeros(len(y), dtype=int), 0.5)
        learnt.log_proba = change(learnt.log_proba)
        return learnt

    return learn


MISTAKES = {
    "why_not raises": (of(why_not=stop), "'bad' failed in why_not: KeyError: 'mine'"),
    "bind raises": (of(bind=stop), "'bad' failed in bind: KeyError"),
    "bind returns itself": (of(bind=lambda self, nodes: self), "'bad' must return a bound copy"),
    "no settings": (of(settings=lambda self: []), "settings of the expert 'bad' must return"),
    "learn raises": (of(learn=stop), "'bad' failed in learn: KeyError: 'mine'"),
    "learn returns nothing": (
        of(learn=lambda self, y, s: None), "learn of the expert 'bad' must return a Learnt"
    ),
    "learn without probabilities": (
        of(learn=lambda self, y, s: Learnt()), r"log_proba of the expert 'bad' .* got NoneType"
    ),
    "a class too few": (
        of(learn=with_logs(lambda logs: logs[:, 1:])), r"log_proba .*shape \(200, 3\), got .*200, 2"
    ),
    "a node too few": (of(learn=with_logs(lambda logs: logs[1:])), r"got shape \(199, 3\)"),
    "nan": (of(learn=with_logs(lambda logs: logs * np.nan)), "'bad' returned .* not finite"),
    "minus infinity": (of(learn=with_logs(lambda logs: logs - np.inf)), "not finite: clip"),
    "held_out raises": (of(held_out=stop), "'bad' failed in held_out: KeyError"),
    "held_out of one node": (
        of(held_out=lambda self, held, s, than=None: np.zeros((1, 3))), "held_out of .*'bad'"
    ),
    "candidates raises": (of(candidates=stop), "'bad' failed in candidates: KeyError"),
    "candidates of nothing": (
        of(candidates=lambda self, held, than=None: 3), "'bad' must return Candidates"
    ),
    "describe raises": (of(describe=stop), "'bad' failed in describe: KeyError"),
    "attribute raises": (of(attribute=stop), "'bad' failed in attribute: KeyError"),
}  # fmt: skip


@pytest.mark.parametrize("kind", MISTAKES)
def test_a_mistake_in_an_expert_is_one_error_that_names_it(data, kind):
    expert, message = MISTAKES[kind]
    with pytest.raises(InputError, match=message) as refused:
        fit(data, [expert])
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("judge", "message"),
    [
        (stop, "'bad' failed in judge: KeyError: 'mine'"),
        (
            lambda self, new: np.zeros((1, 3)),
            r"judge of .*'bad' .* shape \(4, K\), got shape \(1, 3",
        ),
        (lambda self, new: np.full((4, 3), np.nan), "judge of .*'bad' returned .* not finite"),
        (lambda self, new: "red", "judge of the expert 'bad' .* got str"),
    ],
    ids=["raises", "shape", "nan", "text"],
)
def test_a_mistake_about_new_nodes_is_one_error_that_names_it(data, judge, message):
    clf = fit(data, [of(judge=judge)])
    with pytest.raises(InputError, match=message):
        clf.predict(data.X[:4], graph=data.graph[:4])


def test_an_expert_that_cannot_judge_new_nodes_is_left_out_of_them(data, tmp_path):
    register(Bad)
    try:
        clf = fit(data, [Bad(), "links"])
        clf.save(tmp_path / "m.npz")
        again = NodeClassifier.load(tmp_path / "m.npz")
    finally:
        del registry._experts._known["bad"]
    np.testing.assert_array_equal(
        clf.predict_proba(graph=data.graph[:4]), again.predict_proba(graph=data.graph[:4])
    )


def test_an_expert_that_cannot_be_saved_says_why(data, tmp_path):
    clf = fit(data, [of(judge=lambda self, new: np.zeros((4, 3)))])
    with pytest.raises(
        InputError, match=r"nobody would know it; put @nodeproof\.experts\.register"
    ):
        clf.save(tmp_path / "m.npz")
    for method, message in (
        (Learnt.to_parts, "Forgetful has no to_parts"),
        (lambda self: ({}, {}), "kept_layout list, but the settings of to_parts has no entry k"),
        (lambda self: ({"k": "3"}, {}), "but k in the settings of to_parts is '3'"),
        (
            lambda self: ({"k": stop}, {}),
            "to_parts of the expert 'neighbours': .* neither a number",
        ),
        (lambda self: ({"k": 3}, {}), "but it has no array points"),
        (lambda self: ({"k": 3}, {"points": np.arange(3)}), "but points holds int"),
        (lambda self: ({"k": 3}, {"points": [1.0]}), "must return arrays of numpy"),
        (stop, "'neighbours' failed in to_parts: KeyError"),
        (lambda self: 3, "'neighbours' failed in to_parts: TypeError"),
    ):
        learnt = type("Forgetful", (LearntNeighbours,), {"to_parts": method})

        def learn(self, y, k, learnt=learnt):
            found = Neighbours.learn(self, y, k)
            found.__class__ = learnt
            return found

        own = type("Neighbours", (Neighbours,), {"learn": learn, "__module__": "neighbours"})
        with pytest.raises(InputError, match=message):
            fit(data, [own()]).save(tmp_path / "m.npz")
    assert not (tmp_path / "m.npz").exists()


def test_an_expert_keeps_the_arguments_that_made_it(data, tmp_path):
    class Scaled(Bad):
        name = "scaled"
        kept_settings: ClassVar = {"factor": number}

        def __init__(self, factor=2.0):
            self.factor = factor

        def learn(self, y, setting):
            learnt = super().learn(y, setting)
            learnt.to_parts = lambda: ({"factor": self.factor}, {})
            return learnt

    register(Scaled)
    try:
        fit(data, ["links", Scaled(factor=np.float64(7))]).save(tmp_path / "m.npz")
        again = NodeClassifier.load(tmp_path / "m.npz").experts
        assert again[1].factor == 7
    finally:
        del registry._experts._known["scaled"]
    with pytest.raises(InputError, match="an expert 'scaled', which is unknown here"):
        NodeClassifier.load(tmp_path / "m.npz")


def test_nodes_come_to_an_expert_in_the_order_that_was_given(data):
    seen = []

    class Watching(Bad):
        name = "watching"

        def bind(self, nodes):
            seen.append(nodes.X)
            return super().bind(nodes)

    fit(data, [Watching()])
    np.testing.assert_array_equal(seen[0], data.X)


# The registry. --------------------------------------------------------------------------


def test_only_complete_experts_of_a_name_of_their_own_are_registered():
    with pytest.raises(InputError, match="Half is not complete: it lacks learn"):
        register(type("Half", (Expert,), {"name": "half"}))
    for name in (None, "", "-trees", "two, three", " links", 3):
        with pytest.raises(InputError, match="must have a name that begins with a letter"):
            register(type("Nameless", (Bad,), {"name": name}))
    with pytest.raises(InputError, match=r"another expert links, nodeproof\.auto"):
        register(type("Mine", (Bad,), {"name": "links"}))
    with pytest.raises(InputError, match=r"another expert 'links', nodeproof\.auto"):
        as_experts([type("Mine", (Bad,), {"name": "links"})()])
    with pytest.raises(InputError, match=r"is not an expert: derive it from nodeproof\."):
        register(dict)
    with pytest.raises(InputError, match="must name its source"):
        as_experts([type("Odd", (Bad,), {"source": "labels"})()])


def test_an_expert_of_an_installed_package_is_found_by_its_entry_point(monkeypatch):
    entry = EntryPoint("neighbours", "neighbours:Neighbours", "nodeproof.experts")

    def listed(*, group, name=None):
        return [entry] if group == "nodeproof.experts" and name in (None, entry.name) else []

    monkeypatch.setattr("nodeproof.runtime.registry.entry_points", listed)
    own = {kind.name: kind for kind in registry.BUILT_IN}
    monkeypatch.setattr(registry._experts, "_known", own)
    assert [type(found.expert) for found in as_experts(["neighbours"])] == [Neighbours]


def test_all_public_names_are_there():
    for name in experts.__all__:
        assert getattr(experts, name).__doc__


# The command line. ----------------------------------------------------------------------


@pytest.fixture
def files(data, tmp_path, monkeypatch):
    """Tables in the current folder, and the expert beside them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    links = data.graph.tocoo()
    write(tmp_path / "edges.csv", [[f"n{u}", f"n{v}"] for u, v in zip(*links.coords, strict=True)])
    rows = [[f"n{v}", *row] for v, row in enumerate(data.X.round(3).tolist())]
    write(tmp_path / "features.csv", [["node", *"abcdefgh"], *rows])
    labels = [[f"n{v}", f"c{data.y[v]}"] for v in np.flatnonzero(data.y >= 0)]
    write(tmp_path / "labels.csv", [["node", "label"], *labels])
    write(tmp_path / "new.csv", [["node", *"abcdefgh"], ["x", *data.X[3].tolist()]])
    (tmp_path / "near.py").write_text(
        (FOLDER / "neighbours.py").read_text().replace('"neighbours"', '"near"')
    )
    return tmp_path


def fit_files(capsys, *options):
    given = ["--features", "features.csv", "--labels", "labels.csv", "--out", "out", "--json"]
    return run(capsys, "fit", "edges.csv", *given, *options)


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (["--experts", "propagation,links"], {"propagation", "links"}),
        (["--experts", "block-model, own features"], {"block model", "own features"}),
        (
            ["--experts", "-trees,-block model"],
            {"propagation", "links", "smoothed features", "own features"},
        ),
    ],
    ids=["named", "words", "left out"],
)
def test_the_command_line_names_and_leaves_out_experts(capsys, files, options, found):
    code, printed, err = fit_files(capsys, *options)
    assert code == 0, err
    rows = json.loads(printed)["choices"].get("experts", {}).get("value", [])
    assert {row["expert"] for row in rows} == found


def test_the_command_line_takes_an_expert_of_a_user(capsys, files):
    code, printed, err = fit_files(
        capsys, "--experts", "links", "--own-expert", "near:Neighbours", "--report"
    )
    assert code == 0, err
    rows = json.loads(printed)["choices"]["experts"]["value"]
    assert {row["expert"] for row in rows} == {"links", "near"}
    for command in (
        ["predict", "out", "--features", "new.csv", "--out", "predicted.csv"],
        ["certify", "out", "--time-budget", 1],
        ["report", "out"],
    ):
        registry._experts._known.pop("near")
        code, _, err = run(capsys, *command)
        assert code == 2
        assert "an expert 'near', which is unknown here" in err
        code, _, err = run(capsys, *command, "--own-expert", "near:Neighbours")
        assert code == 0, err
    registry._experts._known.pop("near")


def test_an_expert_of_a_user_is_added_to_all_or_to_those_left(capsys, files):
    for options, found in (([], True), (["--experts", "-links"], False)):
        code, printed, err = fit_files(capsys, "--own-expert", "near:Neighbours", *options)
        assert code == 0, err
        rows = json.loads(printed)["choices"]["experts"]["value"]
        names = {row["expert"] for row in rows}
        assert names >= {"near", "own features"}
        assert ("links" in names) == found
    registry._experts._known.pop("near")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--experts", "link"], "there is no expert 'link'; there are: propagation"),
        (["--experts", ""], "--experts must be names with commas between them"),
        (["--experts", "links,,trees"], "--experts must be names with commas between them"),
        (
            ["--experts", "links", "--source-weights", "1,2,3"],
            "experts are not used: weights are given",
        ),
        (
            ["--experts", "links", "--term", "nodeproof.terms:Covariance"],
            "experts are not used: terms are given",
        ),
        (["--own-expert", "near"], "an expert is given as package.module:Name"),
        (["--own-expert", "near:Gone"], "the module has no Gone"),
        (["--own-expert", "gone:Near"], "there is no module gone"),
        (["--own-expert", "near:np"], "is not an expert"),
    ],
    ids=str,
)
def test_bad_options_end_with_one_line(capsys, files, options, message):
    code, _, err = fit_files(capsys, *options)
    assert code == 2
    assert message in err
    assert "Traceback" not in err
    assert not (files / "out").exists()
