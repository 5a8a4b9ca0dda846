"""`nodeproof predict`, as a person runs it."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from cli_helpers import run, without_advice, write
from nodeproof import NodeClassifier
from nodeproof.cli import main
from nodeproof.datasets import make_planted

NAMES = np.array(["cat", "dog", "eel"])
NEW = np.arange(0, 240, 12)


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def data():
    return make_planted(cluster_size=80, p=0.2, omega=0.3, random_state=0)


@pytest.fixture(scope="module")
def parts(data):
    """Rows of files: links, features and labels of the fitted nodes, and of twenty new ones."""
    ids = np.array([f"user {v:03d}" for v in range(240)])
    is_new = np.isin(np.arange(240), NEW)
    links = data.graph.tocoo()
    ends = [(u, v) for u, v in zip(links.row, links.col, strict=True) if u < v]
    return {
        "ids": ids,
        "edges": [[ids[u], ids[v]] for u, v in ends if not is_new[u] and not is_new[v]],
        "new edges": [[ids[u], ids[v]] for u, v in ends if is_new[u] != is_new[v]],
        "among new": [[ids[u], ids[v]] for u, v in ends if is_new[u] and is_new[v]],
        "features": [[ids[v], *data.X[v]] for v in range(240) if not is_new[v]],
        "new features": [[ids[v], *data.X[v]] for v in NEW],
        "labels": [[ids[v], NAMES[data.y[v]]] for v in range(240) if data.y[v] >= 0],
    }


@pytest.fixture(scope="module")
def folder(data, parts, tmp_path_factory):
    """Models with features and without, and files of new nodes."""
    folder = tmp_path_factory.mktemp("models")
    write(folder / "edges.csv", [["source", "target"], *parts["edges"]])
    write(folder / "features.csv", [["node", *"abcdef"], *parts["features"]])
    known = [row for row in parts["labels"] if row[0] not in set(parts["ids"][NEW])]
    write(folder / "labels.csv", [["node", "label"], *known])
    common = ["--labels", str(folder / "labels.csv"), "--json"]
    for arguments in (
        ["--features", str(folder / "features.csv"), "--out", str(folder / "model")],
        ["--out", str(folder / "links")],
    ):
        with pytest.raises(SystemExit) as ended:
            main(["fit", str(folder / "edges.csv"), *common, *arguments])
        assert not ended.value.code
    write(folder / "new_edges.csv", [["source", "target"], *parts["new edges"]])
    write(folder / "new_features.csv", [["node", *"abcdef"], *parts["new features"]])
    return folder


@pytest.fixture
def expected(data, folder):
    """What the library says of the new nodes."""
    clf = NodeClassifier.load(folder / "model" / "model.npz")
    del clf.feature_names_in_
    keep = np.setdiff1d(np.arange(240), NEW)
    return clf.predict_proba(data.X[NEW], graph=data.graph[NEW][:, keep])


@pytest.fixture
def expected_among(data, folder):
    """The same with links among the new nodes."""
    clf = NodeClassifier.load(folder / "model" / "model.npz")
    del clf.feature_names_in_
    nodes = np.concatenate([np.setdiff1d(np.arange(240), NEW), NEW])
    return clf.predict_proba(data.X[NEW], graph=data.graph[NEW][:, nodes])


def check(path, expected, parts, data):
    rows = read(path)
    assert list(rows[0]) == ["node", "label", "probability"]
    assert [row["node"] for row in rows] == parts["ids"][NEW].tolist()
    np.testing.assert_allclose(
        [float(row["probability"]) for row in rows], expected.max(axis=1), atol=1e-5
    )
    found = np.array([row["label"] for row in rows])
    assert (found == NAMES[expected.argmax(axis=1)]).all()
    assert (found == NAMES[data.y_true[NEW]]).mean() >= 0.9


def test_new_nodes_are_written_as_the_fit_writes_them(
    capsys, data, parts, folder, expected, tmp_path
):
    code, out, err = run(
        capsys, "predict", folder / "model", "--features", folder / "new_features.csv",
        "--edges", folder / "new_edges.csv", "--out", tmp_path / "p.csv",
    )  # fmt: skip
    assert code == 0, err
    check(tmp_path / "p.csv", expected, parts, data)
    assert "20 new nodes" in out
    assert [path.name for path in tmp_path.iterdir()] == ["p.csv"]


def test_json_is_all_that_is_printed(capsys, folder, parts, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(
        capsys, "predict", folder / "model" / "model.npz", "--features",
        folder / "new_features.csv", "--edges", folder / "new_edges.csv", "--json",
    )  # fmt: skip
    assert (code, err) == (0, "")
    summary = json.loads(out)
    assert (summary["nodes"], summary["links"]) == (20, len(parts["new edges"]))
    assert summary["features"] == 6
    assert sum(summary["classes"].values()) == 20
    assert summary["notes"] == []
    assert len(read(tmp_path / "predictions.csv")) == 20


def test_order_of_ends_rows_and_columns_does_not_matter(
    capsys, data, parts, folder, expected, tmp_path
):
    rng = np.random.default_rng(0)
    edges = [list(row)[:: rng.choice([-1, 1])] for row in parts["new edges"]]
    rng.shuffle(edges)
    write(tmp_path / "e.tsv", [["source", "target"], *edges])
    order = [3, 0, 5, 1, 4, 2]
    rows = [[row[0], "7", *(row[1 + j] for j in order)] for row in parts["new features"]]
    write(tmp_path / "f.csv", [["node", "shoe", *("abcdef"[j] for j in order)], *rows[::-1]])
    code, _, err = run(
        capsys, "predict", folder / "model", "--features", tmp_path / "f.csv",
        "--edges", tmp_path / "e.tsv", "--out", tmp_path / "p.csv",
    )  # fmt: skip
    assert code == 0, err
    assert "unused columns of f.csv: shoe" in err
    check(tmp_path / "p.csv", expected, parts, data)


def test_links_that_are_listed_again_count_once_with_a_note(
    capsys, data, parts, folder, expected, tmp_path
):
    first = parts["new edges"][0]
    write(tmp_path / "e.csv", [["source", "target"], *parts["new edges"], first, first[::-1]])
    code, _, err = run(
        capsys, "predict", folder / "model", "--features", folder / "new_features.csv",
        "--edges", tmp_path / "e.csv", "--out", tmp_path / "p.csv",
    )  # fmt: skip
    assert code == 0
    assert "1 repeated link in e.csv; each counts once" in err
    check(tmp_path / "p.csv", expected, parts, data)


def test_what_is_about_fitted_nodes_is_left_out_with_a_note(
    capsys, data, parts, folder, expected_among, tmp_path
):
    every = [*parts["edges"], *parts["new edges"], *parts["among new"]]
    write(tmp_path / "e.csv", [["source", "target"], *every])
    write(tmp_path / "f.csv", [["node", *"abcdef"], *parts["features"], *parts["new features"]])
    code, out, _ = run(
        capsys, "predict", folder / "model", "--features", tmp_path / "f.csv",
        "--edges", tmp_path / "e.csv", "--out", tmp_path / "p.csv", "--json",
    )  # fmt: skip
    assert code == 0
    assert json.loads(out)["notes"] == [
        f"{len(parts['edges']):,} links between fitted nodes in e.csv not used",
        "220 rows of f.csv about fitted nodes not used",
    ]
    check(tmp_path / "p.csv", expected_among, parts, data)


def test_links_between_new_nodes_are_used(
    capsys, data, parts, folder, expected, expected_among, tmp_path
):
    among = [ends[::-1] for ends in parts["among new"]]
    write(tmp_path / "e.csv", [["source", "target"], *among, *parts["new edges"]])
    code, out, err = run(
        capsys, "predict", folder / "model", "--features", folder / "new_features.csv",
        "--edges", tmp_path / "e.csv", "--out", tmp_path / "p.csv", "--json",
    )  # fmt: skip
    assert (code, err) == (0, "")
    summary = json.loads(out)
    assert (summary["links"], summary["notes"]) == (len(among) + len(parts["new edges"]), [])
    check(tmp_path / "p.csv", expected_among, parts, data)
    assert np.abs(expected - expected_among).max() > 1e-4


def test_files_without_a_header_and_parquet_are_read(
    capsys, data, parts, folder, expected, tmp_path
):
    write(tmp_path / "e.csv", parts["new edges"])
    write(tmp_path / "f.csv", parts["new features"])
    arguments = ["predict", folder / "model", "--edges", tmp_path / "e.csv", "--out"]
    code, _, err = run(
        capsys, *arguments, tmp_path / "p.csv", "--features", tmp_path / "f.csv", "--no-header"
    )
    assert code == 0, err
    assert "in the order of their columns" in err
    check(tmp_path / "p.csv", expected, parts, data)
    columns = list(zip(*parts["new features"], strict=True))
    table = pa.table(dict(zip(["who", *"abcdef"], columns, strict=True)))
    pyarrow.parquet.write_table(table, tmp_path / "f.parquet")
    code, _, err = run(
        capsys, *arguments, tmp_path / "q.csv", "--features", tmp_path / "f.parquet",
        "--id", "who", "--no-header",
    )  # fmt: skip
    assert code == 0, err
    check(tmp_path / "q.csv", expected, parts, data)


def test_links_alone_are_enough_for_a_model_without_features(capsys, data, parts, folder, tmp_path):
    strangers = [["new a", "new b"]]
    write(tmp_path / "e.csv", [["source", "target"], *parts["new edges"], *strangers])
    code, out, _ = run(
        capsys, "predict", folder / "links", "--edges", tmp_path / "e.csv", "--json",
        "--out", tmp_path / "p.csv",
    )  # fmt: skip
    assert code == 0
    assert json.loads(out)["notes"] == [
        "2 new nodes without a link to a fitted node",
    ]
    rows = {row["node"]: row["label"] for row in read(tmp_path / "p.csv")}
    assert len(rows) == 22
    found = np.array([rows[node] for node in parts["ids"][NEW]])
    assert (found == NAMES[data.y_true[NEW]]).mean() >= 0.9


def test_names_and_paths_are_not_taken_for_markup(capsys, data, tmp_path, monkeypatch):
    names = np.array(["[/x]", "[red]b", ":cat:"])
    y = np.where(data.y >= 0, names[data.y], "")
    monkeypatch.chdir(tmp_path)
    folder = Path("[o]")
    folder.mkdir()
    NodeClassifier(random_state=0).fit(y=y, graph=data.graph).save(folder / "model.npz")
    edges = write(Path("edges.csv"), [["u", "v"], ["new", 0], ["other", 1], ["third", 2]])
    code, out, err = run(capsys, "predict", folder, "--edges", edges, "--out", folder / "p.csv")
    assert code == 0, err
    labels = {row["label"] for row in read(folder / "p.csv")}
    assert all(f"{name}: " in out for name in labels)
    assert "[o]" in out


def test_features_alone_are_enough_too(capsys, data, folder, tmp_path):
    code, out, err = run(
        capsys, "predict", folder / "model", "--features", folder / "new_features.csv",
        "--out", tmp_path / "p.csv",
    )  # fmt: skip
    assert code == 0, err
    assert "0 links" in out
    found = np.array([row["label"] for row in read(tmp_path / "p.csv")])
    assert (found == NAMES[data.y_true[NEW]]).mean() > 0.6


def test_ids_may_be_numbers_beside_names_and_links_may_have_weights(capsys, data, tmp_path):
    """Fitted nodes are whole numbers; of the new ones some are, some are not."""
    links = data.graph.tocoo()
    is_new = np.isin(np.arange(240), NEW)
    names = {v: f"new{v}" if v % 24 == 0 else str(1000 + v) for v in NEW}
    ends = [(u, v) for u, v in zip(links.row, links.col, strict=True) if u < v]
    inside = [[u, v, 2.5] for u, v in ends if not is_new[u] and not is_new[v]]
    edges = write(tmp_path / "edges.csv", [["source", "target", "weight"], *inside])
    labels = [[v, y] for v, y in enumerate(data.y) if y >= 0 and not is_new[v]]
    write(tmp_path / "labels.csv", [["node", "label"], *labels])
    run(capsys, "fit", edges, "--labels", tmp_path / "labels.csv", "--out", tmp_path / "out")
    joining = [(u, v) if is_new[u] else (v, u) for u, v in ends if is_new[u] != is_new[v]]
    texts = []
    for weight in ([2.5], [], [0.0]):
        rows = [[names[u], v, *weight] for u, v in joining]
        head = ["from", "to", "weight"][: 2 + len(weight)]
        write(tmp_path / "new.csv", [head, *rows])
        code, _, err = run(
            capsys, "predict", tmp_path / "out", "--edges", tmp_path / "new.csv",
            "--out", tmp_path / "p.csv",
        )  # fmt: skip
        assert code == 0, err
        texts.append((tmp_path / "p.csv").read_text())
    # A link without a weight counts as a mean one; one with weight 0 does not count.
    assert texts[0] == texts[1] != texts[2]
    rows = read(tmp_path / "p.csv")
    assert sorted(row["node"] for row in rows) == sorted(names.values())
    assert "20 new nodes without a link" in err


@pytest.fixture(scope="module")
def weighted(parts, folder):
    """A model of weighted links."""
    rows = [[*ends, 1.5 + i % 2] for i, ends in enumerate(parts["edges"])]
    write(folder / "weighted.csv", [["source", "target", "amount"], *rows])
    arguments = ["--weight-column", "amount", "--labels", folder / "labels.csv"]
    with pytest.raises(SystemExit) as ended:
        main(["fit", *map(str, [folder / "weighted.csv", *arguments, "--out", folder / "w"])])
    assert not ended.value.code
    return folder / "w"


def notes_of(capsys, *arguments) -> list[str]:
    code, out, err = run(capsys, "predict", *arguments, "--json")
    assert code == 0, err
    return json.loads(out)["notes"]


def test_weights_are_asked_for_if_the_model_was_fitted_to_weights(
    capsys, parts, folder, weighted, tmp_path
):
    rows = [[*ends, 2.5] for ends in parts["new edges"]]
    edges = write(tmp_path / "e.csv", [["source", "target", "amount"], *rows])
    given = ["--edges", edges, "--out", tmp_path / "p.csv"]
    assert notes_of(capsys, weighted, *given) == [
        "unused columns of e.csv: amount; if it is the weight, use --weight-column amount",
        "the model was fitted to weighted links; if a column has the weights, use --weight-column",
    ]
    assert notes_of(capsys, weighted, *given, "--weight-column", "amount") == []
    # To a model without weights, amounts mean nothing.
    assert notes_of(capsys, folder / "links", *given) == ["unused columns of e.csv: amount"]


def test_links_without_weights_count_as_mean_ones_and_that_is_said(
    capsys, folder, weighted, tmp_path
):
    (note,) = notes_of(
        capsys, weighted, "--edges", folder / "new_edges.csv", "--out", tmp_path / "p.csv"
    )
    assert note.startswith(
        "the model was fitted to weighted links; those of new_edges.csv have no weights, so each "
        "counts as the mean, "
    )
    assert float(note.rpartition(" ")[2]) == pytest.approx(2, abs=0.01)


BAD = [
    (["nowhere"], "there is no model nowhere"),
    ([".", "--edges", "new_edges.csv"], "there is no model model.npz"),
    (["model"], "fitted with features: give --features"),
    (["model", "--edges", "new_edges.csv"], "fitted with features: give --features"),
    (["links", "--features", "new_features.csv"], "omit --features"),
    (["links"], "there are no new nodes: give"),
    (["links", "--edges", "edges.csv"], "the model knows all"),
    (["links", "--edges", "strangers.csv"], "do both name nodes the same way?"),
    (["links", "--edges", "none.csv"], "none.csv does not exist"),
    (["links", "--edges", "model"], "is a folder"),
    (["links", "--edges", "links/model.npz"], "new nodes need a table"),
    (["links", "--edges", "negative.csv"], "negative.csv, line 3"),
    (["model", "--features", "lacking.csv"], "lacking.csv lacks 1 feature"),
    (["model", "--features", "twice.csv"], "more than one column 'a'"),
    (["model", "--features", "short.csv", "--no-header"], "short.csv has 2 features"),
    (["model", "--features", "holes.csv"], "holes.csv, line 2"),
    (["model", "--features", "one.csv", "--edges", "new_edges.csv"], "without a row in one.csv"),
    (
        ["model", "--features", "new_features.csv", "--edges", "header.csv"],
        "if the first line of header.csv names the columns, use --header",
    ),
    (["links", "--edges", "new_edges.csv", "--out", "model"], "is a folder"),
    (["links", "--edges", "new_edges.csv", "--out", "a/b.csv"], "does not exist"),
    (["links", "--edges", "new_edges.csv", "--out", "links/predictions.csv"], "overwrite"),
    (["links", "--edges", "new_edges.csv", "--out", "links/model.npz"], "overwrite"),
    (["links", "--edges", "new_edges.csv", "--out", "links/certificate.npz"], "overwrite"),
    (["links", "--edges", "new_edges.csv", "--out", "new_edges.csv"], "would overwrite the input"),
    (["text.npz", "--edges", "new_edges.csv"], "it is not a ZIP file; it is damaged"),
    ([], "DIR"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD)
def test_bad_input_gives_one_line_and_exit_code_two(
    capsys, parts, folder, tmp_path, monkeypatch, arguments, message
):
    for name in ("model", "links", "edges.csv", "new_edges.csv", "new_features.csv"):
        (tmp_path / name).symlink_to(folder / name)
    write(tmp_path / "strangers.csv", [["source", "target"], ["ann", "bob"], ["bob", "eve"]])
    write(tmp_path / "negative.csv", [[*"uvw"], ["new", "user 001", 1], ["new", "user 002", -1]])
    write(tmp_path / "header.csv", [["Von", "Nach"], ["p", "q"], *parts["new edges"]])
    write(tmp_path / "lacking.csv", [["node", *"abcde"], ["new", *"12345"]])
    write(tmp_path / "twice.csv", [["node", *"abcdefa"], ["new", *"1234567"]])
    write(tmp_path / "short.csv", [["new", "1", "2"]])
    write(tmp_path / "holes.csv", [["node", *"abcdef"], ["new", *"12345", ""]])
    write(tmp_path / "one.csv", [["node", *"abcdef"], parts["new features"][0]])
    (tmp_path / "text.npz").write_text("hello")
    monkeypatch.chdir(tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())
    code, out, err = run(capsys, "predict", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("nodeproof: ")
    assert len(without_advice(err).splitlines()) == 1
    assert message in err
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_it_has_help(capsys):
    code, out, _ = run(capsys, "predict", "--help")
    assert code == 0
    assert "Usage: nodeproof predict" in out
