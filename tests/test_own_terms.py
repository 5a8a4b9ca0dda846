"""Terms that users wrote: they do all that the library's own do, in every part of it.

With ``--term`` and ``-k Name``, a term of your own does.
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import adjusted_rand_score

from cli_helpers import run, write
from nodeproof import NodeClassifier
from nodeproof.datasets import make_planted
from nodeproof.errors import InputError
from nodeproof.storage.schema import Expected, number
from nodeproof.terms import Labels, NewNodeCosts, Softmax, Term, register, registry
from own_terms import FOLDER, Visits, Waits, given_terms

COUNTING: set[type[Term]] = {Visits, Waits}


@pytest.fixture(scope="module")
def data():
    return make_planted(cluster_size=40, p=0.3, label_ratio=0.2, random_state=0)


def pytest_generate_tests(metafunc):
    if "kind" in metafunc.fixturenames:
        own = [type(term) for term in given_terms(metafunc.config)]
        if metafunc.config.getoption("--counts"):
            COUNTING.update(own)
        kinds = own or [Visits, Waits]
        metafunc.parametrize("kind", kinds, ids=lambda kind: kind.__name__, scope="module")


def features_for(term: Term, data) -> np.ndarray:
    """Return counts, or two features and a response to them, that tell the classes apart."""
    rng = np.random.default_rng(1)
    if isinstance(term, tuple(COUNTING)):
        return rng.poisson(np.array([2, 8, 20])[data.y_true])[:, None].astype(float)
    x = rng.standard_normal((len(data.y), 2))
    slopes = np.array([[3.0, 0.0], [0.0, 3.0], [-3.0, -3.0]])[data.y_true]
    return np.column_stack([x, (x * slopes).sum(axis=1) + 0.3 * rng.standard_normal(len(x))])


@pytest.fixture(scope="module")
def fitted(kind, data):
    """A fit with links and labels, and its features; the last ten nodes are left out."""
    term = kind()
    X = features_for(term, data)
    clf = NodeClassifier(terms=[term, Labels()], random_state=0)
    clf.fit(X[:-10], data.y[:-10], graph=data.graph[:-10, :-10])
    return clf, X


@pytest.mark.filterwarnings("ignore:the data do not tell")
@pytest.mark.parametrize("weights", ["calibrated", (1.0, 1.0, 13.0)], ids=["calibrated", "fixed"])
@pytest.mark.parametrize("linked", [True, False], ids=["links", "no links"])
def test_it_is_fitted_without_labels(data, kind, weights, linked):
    X = features_for(kind(), data)
    graph = data.graph if linked else None
    clf = NodeClassifier(3, terms=[kind()], weights=weights, random_state=0).fit(X, graph=graph)
    assert clf.proba_.shape == (120, 3)
    if linked:
        assert adjusted_rand_score(clf.labels_, data.y_true) > 0.8


def test_labels_name_its_classes_even_if_no_term_is_about_them(data):
    X = features_for(Visits(), data)
    clf = NodeClassifier(terms=[Visits()], random_state=0).fit(X, data.y, graph=data.graph)
    assert clf.score(y=data.y_true) > 0.9


def test_features_that_it_cannot_take_are_refused_in_one_line(data):
    X = sp.csr_array(features_for(Visits(), data))
    with pytest.raises(InputError, match="Visits needs dense features, but X is sparse"):
        NodeClassifier(terms=[Visits(), Labels()]).fit(X, data.y)
    with pytest.raises(InputError, match="Visits needs features: X is missing"):
        NodeClassifier(terms=[Visits(), Labels()]).fit(y=data.y, graph=data.graph)


def test_it_must_say_what_it_draws_on(data):
    class Sourceless(Visits):
        source = "hearsay"

    with pytest.raises(InputError, match=r"Sourceless\(\) must name its source"):
        NodeClassifier(terms=[Sourceless()]).fit(features_for(Visits(), data), data.y)


def test_it_is_fitted_where_the_number_of_classes_is_found(data):
    X = features_for(Visits(), data)
    clf = NodeClassifier(terms=[Visits()], random_state=0).fit(X, graph=data.graph)
    assert 1 <= len(clf.classes_) <= 6


def test_new_nodes_are_judged_by_it(fitted, data):
    clf, X = fitted
    links = data.graph[-10:, :-10]
    assert (clf.labels_ == data.y_true[:-10]).mean() > 0.9
    assert (clf.predict(X[-10:], graph=links) == data.y_true[-10:]).mean() >= 0.9
    with pytest.raises(InputError, match="give X"):
        clf.predict(graph=links)


def test_it_is_certified_reported_and_queried(fitted, tmp_path):
    clf, _ = fitted
    assert clf.certify(time_budget=5).lower_bound <= clf.certify(time_budget=0).objective
    clf.report(tmp_path / "report.html")
    assert "<html" in (tmp_path / "report.html").read_text()
    assert len(clf.query(3)) == 3


def test_a_saved_model_of_it_predicts_the_same(fitted, data, tmp_path):
    clf, X = fitted
    clf.save(tmp_path / "model.npz")
    again = NodeClassifier.load(tmp_path / "model.npz")
    assert [type(term) for term in again.terms_] == [type(term) for term in clf.terms_]
    np.testing.assert_array_equal(again.proba_, clf.proba_)
    links = data.graph[-10:, :-10]
    np.testing.assert_array_equal(
        again.predict_proba(X[-10:], graph=links), clf.predict_proba(X[-10:], graph=links)
    )
    assert again.certify(time_budget=0).objective == clf.certify(time_budget=0).objective
    again.report(tmp_path / "report.html")


def test_it_is_shown_with_its_settings():
    assert repr(Visits()) == "Visits()"
    assert repr(Scaled(2.0)) == "Scaled(factor=2.0)"


def test_the_contract_of_terms_can_be_run_on_it(tmp_path):
    source = (FOLDER / "visits.py").read_text().replace("class Visits", "class Calls")
    (tmp_path / "calls.py").write_text(source.replace("return 1 - self.X", "return 2 - self.X"))
    contract = Path(__file__).parent / "contracts" / "test_terms.py"
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(contract),
         "--term", "calls:Calls", "--counts", "-k", "Calls and (gradient_in_W or vertex_costs)"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "1 failed, 1 passed" in ended.stdout, ended.stdout + ended.stderr
    assert "test_the_gradient_in_W_agrees_with_differences[Calls()]" in ended.stdout


# What a term may keep. ------------------------------------------------------------------


class ScaledCosts(NewNodeCosts):
    def __init__(self, costs, factor, offsets):
        self.plain, self.factor, self.offsets = costs, factor, offsets

    def costs(self, new):
        return self.factor * self.plain.costs(new) + self.offsets

    def to_parts(self):
        return {"factor": self.factor}, {"offsets": self.offsets}


@register
class Scaled(Visits):
    """Settings, and what it keeps for new nodes."""

    kept_settings: ClassVar = {"factor": number}
    kept_arrays: ClassVar = {"offsets": Expected("f", "K", required=True)}

    def __init__(self, factor=1.0):
        self.factor = factor

    def for_new_nodes(self, models, calibrated):
        plain = super().for_new_nodes(models, calibrated)
        return ScaledCosts(plain, self.factor, np.arange(len(models), dtype=float))

    def restored(self, models, calibrated, settings, arrays):
        plain = super().for_new_nodes(models, calibrated)
        return ScaledCosts(plain, settings["factor"], arrays["offsets"])


def rewrite(path, change):
    with np.load(path, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    meta = json.loads(arrays["meta"].tobytes())
    change(meta, arrays)
    arrays["meta"] = np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8)
    np.savez(path, **arrays)


@pytest.fixture
def scaled(data, tmp_path):
    X = features_for(Visits(), data)
    clf = NodeClassifier(terms=[Scaled(0.5), Labels()], random_state=0)
    clf.fit(X, data.y, graph=data.graph).save(tmp_path / "model.npz")
    return clf, X, tmp_path / "model.npz"


def test_what_it_keeps_for_new_nodes_is_saved(scaled):
    clf, X, path = scaled
    again = NodeClassifier.load(path)
    assert again.terms_[0].factor == 0.5
    np.testing.assert_array_equal(again.predict_proba(X[:5]), clf.predict_proba(X[:5]))


DAMAGE = {
    "settings that it has not": lambda meta, arrays: meta["terms"][0].update(other=1),
    "a setting of another kind": lambda meta, arrays: meta["terms"][0].update(factor={}),
    "nothing kept": lambda meta, arrays: meta["kept"].pop("term"),
    "kept by another": lambda meta, arrays: meta["kept"].update(term={"1": {"factor": 1.0}}),
    "text for a number": lambda meta, arrays: meta["kept"]["term"]["0"].update(factor="1"),
    "an array missing": lambda meta, arrays: arrays.pop("term_0_offsets"),
    "an array too long": lambda meta, arrays: arrays.update(term_0_offsets=np.ones(9)),
    "an array too many": lambda meta, arrays: arrays.update(term_0_other=np.ones(3)),
    "no number": lambda meta, arrays: arrays.update(term_0_offsets=np.full(3, np.nan)),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_what_a_term_did_not_save_is_refused(scaled, damage):
    rewrite(scaled[2], DAMAGE[damage])
    with pytest.raises(InputError, match="damaged"):
        NodeClassifier.load(scaled[2])


# Names. ---------------------------------------------------------------------------------


class Unregistered(Visits):
    pass


def test_a_term_that_is_not_registered_is_not_saved(data, tmp_path):
    clf = NodeClassifier(terms=[Unregistered(), Labels()], random_state=0)
    clf.fit(features_for(Visits(), data), data.y, graph=data.graph)
    with pytest.raises(InputError, match=r"cannot save Unregistered\(\): .*register before it"):
        clf.save(tmp_path / "model.npz")
    assert not list(tmp_path.iterdir())


def test_a_term_that_nobody_knows_is_refused_in_one_line_and_nothing_imported(
    scaled, tmp_path, monkeypatch
):
    (tmp_path / "trap.py").write_text("raise AssertionError('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("Unknown", "trap", "trap:Visits", "trap.Visits", "os.system"):
        rewrite(scaled[2], lambda meta, arrays, name=name: meta["terms"][0].update({"class": name}))
        with pytest.raises(InputError, match=f"a term '{name}', which is unknown here") as refused:
            NodeClassifier.load(scaled[2])
        assert "register" in str(refused.value)
        assert "--term" in str(refused.value)
        assert "\n" not in str(refused.value)
    assert "trap" not in sys.modules


def test_a_term_of_an_installed_package_is_found_by_its_entry_point(monkeypatch, scaled):
    entry = EntryPoint("Visits", "visits:Visits", "nodeproof.terms")

    def listed(*, group, name):
        return [entry] if (group, name) == ("nodeproof.terms", entry.name) else []

    monkeypatch.setattr("nodeproof.runtime.registry.entry_points", listed)
    monkeypatch.setattr(registry._terms, "_known", {})
    assert registry.find_term("Visits") is Visits
    assert registry.find_term("Other") is None
    entry = EntryPoint("Other", "visits:Visits", "nodeproof.terms")
    with pytest.raises(InputError, match="must have the name of its class, Visits"):
        registry.find_term("Other")
    entry = EntryPoint("Broken", "no_such_module:Broken", "nodeproof.terms")
    with pytest.raises(InputError, match=r"Broken of an installed package .* cannot be imported"):
        registry.find_term("Broken")


def test_only_complete_terms_of_a_name_of_their_own_are_registered():
    class Half(Term):
        source = "features"

    another = type("Labels", (Labels,), {"__module__": "elsewhere"})
    with pytest.raises(InputError, match="Half is not complete: it lacks bind, cost"):
        register(Half)
    with pytest.raises(InputError, match=r"another term Labels, nodeproof\.terms\.labels\.Labels"):
        register(another)
    with pytest.raises(InputError, match="is not a term"):
        register(dict)
    again = type("Visits", (Visits,), {"__module__": Visits.__module__})
    try:
        assert register(again) is again  # as where a cell of a notebook is run again
    finally:
        register(Visits)


# The command line. ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def files(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("files")
    visits = features_for(Visits(), data)[:, 0]
    links = np.argwhere(np.triu(data.graph.toarray()))
    write(folder / "edges.csv", [["source", "target"], *([f"n{u}", f"n{v}"] for u, v in links)])
    write(
        folder / "visits.csv", [["node", "visits"], *([f"n{v}", x] for v, x in enumerate(visits))]
    )
    known = np.flatnonzero(data.y >= 0)
    write(folder / "labels.csv", [["node", "label"], *([f"n{v}", f"c{data.y[v]}"] for v in known)])
    write(folder / "new.csv", [["node", "visits"], ["a", 2], ["b", 20]])
    (folder / "visits.py").write_text((FOLDER / "visits.py").read_text())
    return folder


def test_the_command_line_takes_it(files, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(files)
    given = ["--features", "visits.csv", "--term", "visits:Visits"]
    for out, more in (
        ("with", ["--labels", "labels.csv", "--query", 3]),
        ("without", ["--classes", 3]),
    ):
        code, printed, err = run(
            capsys, "fit", "edges.csv", *given, *more, "--out", tmp_path / out, "--report", "--json"
        )
        assert code == 0, err
        chosen = json.loads(printed)["choices"]["terms"]["value"]
        named = ["Labels(accuracy=0.9, strength=3)"] if out == "with" else []
        assert chosen == ["Visits()", *named]
    monkeypatch.setattr(registry._terms, "_known", {**registry._terms._known})
    for command in (
        ["predict", tmp_path / "with", "--features", "new.csv", "--out", tmp_path / "new.csv"],
        ["certify", tmp_path / "with", "--time-budget", 1],
        ["certify", tmp_path / "with", "--verify"],
        ["report", tmp_path / "with"],
    ):
        registry._terms._known.pop("Visits", None)
        code, _, err = run(capsys, *command)
        assert code == 2
        assert "a term 'Visits', which is unknown here" in err
        code, _, err = run(capsys, *command, "--term", "visits:Visits")
        assert code in (0, 1) if "--verify" in command else code == 0, err
    assert (tmp_path / "new.csv").read_text().splitlines()[1].startswith('"a","c0"')


def test_a_module_of_the_current_folder_is_found_by_the_installed_command(files, tmp_path):
    script = "import sys; sys.path.remove('') if '' in sys.path else None\n"
    script += "from nodeproof.cli import main; main(sys.argv[1:])"
    ended = subprocess.run(
        [sys.executable, "-P", "-c", script, "fit", "edges.csv", "--features", "visits.csv",
         "--term", "visits:Visits", "--classes", "3", "--out", str(tmp_path / "out")],
        cwd=files, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("visits", "package.module:Name"),
        ("visits:", "package.module:Name"),
        (":Visits", "package.module:Name"),
        ("../visits:Visits", "package.module:Name"),
        ("nowhere.at_all:Visits", "there is no module nowhere"),
        ("visits:Nothing", "the module has no Nothing"),
        ("visits:np", "is not a term"),
        ("broken_term:Visits", "SyntaxError"),
        ("ending_term:Visits", "SystemExit"),
        ("asking_term:Asking", "without arguments"),
        ("nodeproof.terms:Term", "is not complete"),
    ],
)
def test_what_is_no_term_is_refused_in_one_line(files, tmp_path, monkeypatch, capsys, place, said):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "broken_term.py").write_text("class")
    (tmp_path / "ending_term.py").write_text("raise SystemExit(0)")
    (tmp_path / "asking_term.py").write_text(
        "from nodeproof.terms import Labels\n\nclass Asking(Labels):\n"
        "    def __init__(self, what):\n        pass\n"
    )
    code, out, err = run(capsys, "fit", files / "edges.csv", "--term", place, "--out", "out")
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert said in err
    assert not (tmp_path / "out").exists()


def test_a_fit_that_needs_labels_says_so_without(data):
    with pytest.raises(InputError, match="Softmax needs labels"):
        NodeClassifier(3, terms=[Softmax()]).fit(data.X, graph=data.graph)
