"""Kinds of links in files: a column of one table, or several tables; also for new nodes."""

import json
import shutil

import numpy as np
import pytest
from click.testing import CliRunner

from nodeproof import NodeClassifier
from nodeproof.cli import cli

pytestmark = pytest.mark.numeric

N, K, NEW = 180, 3, 12


@pytest.fixture(scope="module")
def truth():
    return np.random.default_rng(0).permutation(np.repeat(np.arange(K), N // K))


@pytest.fixture(scope="module")
def drawn(truth):
    """Return the links of each kind as pairs of nodes u < v."""
    rng = np.random.default_rng(1)
    told = np.where(truth[:, None] == truth, 0.35, 0.08)
    chance = np.full((N, N), 0.15)
    each = {"told": told, "noise": chance}
    return {kind: np.argwhere(np.triu(rng.random((N, N)) < P, 1)) for kind, P in each.items()}


def table(path, kinds):
    """Write the links of these kinds, with a column of their kind if there are several."""
    several = len(kinds) > 1
    lines = ["source,target,kind" if several else "source,target"]
    for kind, links in kinds.items():
        lines += [f"n{u},n{v},{kind}" if several else f"n{u},n{v}" for u, v in links]
    path.write_text("\n".join(lines))
    return str(path)


@pytest.fixture(scope="module")
def folder(drawn, truth, tmp_path_factory):
    """Return a folder with links of all nodes but the last, of these, and labels."""
    found = tmp_path_factory.mktemp("kinds")
    (found / "new").mkdir()
    for place, keep in ((found, np.less), (found / "new", np.greater_equal)):
        parts = {kind: own[keep(own[:, 1], N - NEW)] for kind, own in drawn.items()}
        table(place / "all.csv", parts)
        for kind, links in parts.items():
            table(place / f"{kind}.csv", {kind: links})
    labels = [f"n{v},class {truth[v]}" for v in range(60)]
    (found / "labels.csv").write_text("\n".join(["node,label", *labels]))
    return found


def run(*arguments):
    found = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    assert found.exit_code == 0, found.exception or found.output
    return found.output


def refusal(*arguments):
    found = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    assert found.exit_code != 0
    return str(found.exception) + found.output


@pytest.fixture(scope="module")
def fitted(folder):
    """Return the folders of fits to the same links: in one table, and in two."""
    labels = ["--labels", folder / "labels.csv", "--json", "--out"]
    one, two = folder / "one", folder / "two"
    run("fit", folder / "all.csv", "--edge-type", "kind", *labels, one)
    run("fit", folder / "told.csv", folder / "noise.csv", *labels, two)
    return one, two


def test_a_column_of_the_table_of_links_tells_kinds_apart(fitted):
    summary = json.loads((fitted[0] / "summary.json").read_text())
    assert summary["sources"]["told"] > 0.5
    assert summary["sources"]["noise"] < 0.1
    assert set(summary["choices"]["kinds"]["value"]) == {"told", "noise"}
    assert not any("not distinguished" in note for note in summary["notes"])


def test_tables_of_links_are_kinds_named_after_their_files(fitted):
    one, two = fitted
    summary = json.loads((two / "summary.json").read_text())
    assert list(summary["choices"]["kinds"]["value"]) == ["told", "noise"]
    assert summary["links"] == json.loads((one / "summary.json").read_text())["links"]
    found = NodeClassifier.load(two / "model.npz")
    other = NodeClassifier.load(one / "model.npz")
    assert (found.node_ids_ == other.node_ids_).all()
    np.testing.assert_allclose(found.proba_, other.proba_, atol=0.02)


def test_nodes_of_any_table_and_links_of_their_own_weight_count(tmp_path):
    (tmp_path / "met.csv").write_text(
        "source,target\n" + "\n".join(f"a{i},a{i + 1}" for i in range(9))
    )
    weighted = "\n".join(f"b{i},b{i + 1},{i + 1}" for i in range(9))
    (tmp_path / "paid.csv").write_text(f"source,target,weight\n{weighted}\na0,b0,2\na0,b0,3")
    out = ["--classes", "2", "--out", tmp_path / "out", "--json"]
    summary = json.loads(run("fit", tmp_path / "met.csv", tmp_path / "paid.csv", *out))
    assert summary["nodes"] == 20
    kinds = summary["choices"]["kinds"]["value"]
    assert kinds["met"]["links"] == 9
    assert kinds["paid"]["links"] == 10
    assert any("repeated link in paid.csv" in note for note in summary["notes"])


def test_new_nodes_bring_links_of_several_kinds(fitted, folder, truth):
    out = folder / "out.csv"
    found = {}
    for name, given in {
        "tables": ["--edges", folder / "new" / "told.csv", "--edges", folder / "new" / "noise.csv"],
        "column": ["--edges", folder / "new" / "all.csv", "--edge-type", "kind"],
        "one kind": ["--edges", folder / "new" / "told.csv"],
    }.items():
        run("predict", fitted[1], *given, "--out", out)
        rows = [line.replace('"', "").split(",") for line in out.read_text().splitlines()[1:]]
        found[name] = {node: (label, float(p)) for node, label, p in rows}
    assert found["tables"] == found["column"]
    assert found["tables"].keys() == {f"n{v}" for v in range(N - NEW, N)}
    for each in found.values():
        right = [each[f"n{v}"][0] == f"class {truth[v]}" for v in range(N - NEW, N)]
        assert np.mean(right) > 0.8


@pytest.mark.parametrize(
    ("files", "options", "problem"),
    [
        (["told.csv", "noise.csv"], ["--edge-type", "kind"], "one kind of links each"),
        (["told.csv", "new/told.csv"], [], "would be the kind of links 'told'"),
        (["told.csv", "labels.csv"], [], "cannot be called 'labels'"),
        (["told.csv", "given.csv"], [], "give it as --labels"),
        (["told.csv", "graph.npz"], [], "is not a table of links"),
        (["told.csv", "nowhere.csv"], [], "does not exist"),
        (["told.csv", "noise.csv"], ["--target-column", "x", "--nodes", "labels.csv"], "one kind"),
        (["told.csv", "noise.csv"], ["--knn", "5", "--features", "labels.csv"], "omit"),
        (["all.csv"], ["--edge-type", "sort"], "has no column 'sort'"),
    ],
)
def test_tables_that_are_no_kinds_are_refused(folder, files, options, problem):
    shutil.copy(folder / "labels.csv", folder / "given.csv")
    np.savez(folder / "graph.npz", a=np.eye(3))
    paths = [folder / file for file in files]
    options = [folder / "labels.csv" if option == "labels.csv" else option for option in options]
    assert problem in refusal("fit", *paths, *options, "--out", folder / "never")
    assert not (folder / "never").exists()


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (["--edges", "new/all.csv"], "is not named after one of them"),
        (["--edges", "new/told.csv", "--edges", "told.csv"], "would be the kind of links 'told'"),
        (["--edges", "new/told.csv", "--edge-type", "sort"], "has no column 'sort'"),
        (["--edges", "other.csv", "--edge-type", "kind"], "links of the kind 'heard'"),
        (
            ["--edges", "new/told.csv", "--edges", "new/noise.csv", "--edge-type", "kind"],
            "one table of links",
        ),
    ],
)
def test_new_links_of_unknown_kinds_are_refused(fitted, folder, given, problem):
    (folder / "other.csv").write_text("source,target,kind\nn0,new,heard\n")
    given = [folder / part if part.endswith(".csv") else part for part in given]
    assert problem in refusal("predict", fitted[1], *given, "--out", folder / "never.csv")
    assert not (folder / "never.csv").exists()


def test_a_model_of_one_kind_takes_one_table_of_new_links(folder):
    labels = ["--labels", folder / "labels.csv", "--out", folder / "plain"]
    run("fit", folder / "told.csv", *labels)
    edges = ["--edges", folder / "new" / "told.csv"]
    out = ["--out", folder / "plain.csv"]
    run("predict", folder / "plain", *edges, *out)
    assert "one kind" in refusal("predict", folder / "plain", *edges, *edges, *out)
    assert "one kind" in refusal("predict", folder / "plain", *edges, "--edge-type", "k", *out)


@pytest.mark.parametrize("how", ["tables", "column"])
def test_updates_take_links_of_several_kinds(fitted, folder, drawn, truth, tmp_path, how):
    new = folder / "new"
    edges = {
        "tables": ["--edges", new / "told.csv", "--edges", new / "noise.csv"],
        "column": ["--edges", new / "all.csv", "--edge-type", "kind"],
    }[how]
    out = tmp_path / "out"
    summary = json.loads(run("update", fitted[1], *edges, "--out", out, "--json"))
    assert summary["nodes"] == N
    kinds = summary["choices"]["kinds"]["value"]
    assert {name: kind["links"] for name, kind in kinds.items()} == {
        name: len(pairs) for name, pairs in drawn.items()
    }
    clf = NodeClassifier.load(out / "model.npz")
    added = [f"n{v}" for v in range(N - NEW, N)]
    labels = dict(zip(clf.node_ids_.tolist(), clf.labels_.tolist(), strict=True))
    right = [labels[node] == f"class {truth[int(node[1:])]}" for node in added]
    assert np.mean(right) > 0.8
    gone = [table(out / "told.csv", {"told": drawn["told"][:5]})]
    if how == "column":
        several = {"told": drawn["told"][:5], "noise": drawn["noise"][:1]}
        gone = [table(out / "gone.csv", several), "--edge-type", "kind"]
    summary = json.loads(run("update", out, "--remove", *gone, "--json"))
    kinds = summary["choices"]["kinds"]["value"]
    assert kinds["told"]["links"] == len(drawn["told"]) - 5
    assert kinds["noise"]["links"] == len(drawn["noise"]) - (how == "column")


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (["--edges", "new/all.csv"], "is not named after one of them"),
        (["--remove", "all.csv"], "such as --remove told.csv"),
        (["--remove", "other.csv", "--edge-type", "kind"], "links of the kind 'heard'"),
        (["--labels", "labels.csv", "--edge-type", "kind"], "give --edges or --remove"),
    ],
)
def test_updates_of_unknown_kinds_are_refused(fitted, folder, given, problem):
    (folder / "other.csv").write_text("source,target,kind\nn0,n1,heard\n")
    before = (fitted[1] / "model.npz").read_bytes()
    given = [folder / part if part.endswith(".csv") else part for part in given]
    assert problem in " ".join(refusal("update", fitted[1], *given).split())
    assert (fitted[1] / "model.npz").read_bytes() == before
