"""The report: what it finds, what it says, and that a saved model tells the same."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from cli_helpers import run, write
from excluded_helpers import Excluding
from nodeproof import NodeClassifier
from nodeproof import findings as findings_module
from nodeproof.auto.held_out import CrossFitted
from nodeproof.datasets import make_planted
from nodeproof.errors import InputError, MissingExtraError
from nodeproof.findings import lay_out
from nodeproof.node_evidence import graph_totals, node_evidence
from nodeproof.report import page as report_page
from nodeproof.report.data import ReportData, reliability_of
from nodeproof.report.sections import judged_nodes
from nodeproof.terms import Covariance, Gaussian, Labels

HOSTILE = '</script><script>alert("x")</script>'


def render_report(clf, **options):
    return report_page.render_report(clf.fitted_, **options)


@pytest.fixture(scope="module")
def data():
    return make_planted(3, 60, p=0.3, q=0.1, omega=0.2, label_accuracy=0.8, random_state=0)


@pytest.fixture(scope="module")
def clf(data):
    return NodeClassifier(random_state=0).fit(data.X, data.y, graph=data.graph)


@pytest.fixture(scope="module")
def proof(clf):
    return clf.certify(time_budget=0.5)


@pytest.fixture(scope="module")
def page(clf):
    return render_report(clf)


def embedded(page: str) -> dict:
    """Return the data that the script of a page reads."""
    text = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    return json.loads(text.group(1))


def test_evidence_of_every_node_is_that_of_the_fit(clf):
    found = clf.fitted_.findings
    W = np.ascontiguousarray(clf.proba_)
    totals = graph_totals(clf.fitted_.data.problem, W)
    expected = node_evidence(clf.fitted_.data.problem, W, clf.models_, totals, 0, len(W))
    assert found.nodes.tolist() == list(range(len(W)))
    assert set(found.evidence) == {"graph", "features", "labels"}
    for source, scores in expected.items():
        np.testing.assert_allclose(found.evidence[source], scores, rtol=1e-5, atol=1e-5)


def test_evidence_explains_the_probabilities(clf):
    """Scores of all sources and the prior, added up, order the classes as the fit does."""
    found = clf.fitted_.findings
    total = sum(found.evidence.values()) + clf.models_.log_prior
    assert (total.argmax(axis=1) == clf.proba_.argmax(axis=1)).mean() > 0.97


def test_links_between_classes_are_counted(clf, data):
    found = clf.fitted_.findings
    codes = clf.proba_.argmax(axis=1)
    A = data.graph.toarray() > 0
    for i in range(3):
        for j in range(3):
            assert found.blocks[i, j] == A[np.ix_(codes == i, codes == j)].sum()
    assert found.chance.sum() == pytest.approx(found.blocks.sum())
    np.testing.assert_allclose(found.linked, data.graph @ clf.proba_, rtol=1e-4)


def test_of_a_large_graph_suspects_doubtful_nodes_and_an_even_choice_are_shown(clf, monkeypatch):
    monkeypatch.setattr(findings_module, "_MOST_SHOWN", 60)
    nodes, even = findings_module._choose_nodes(clf.proba_, clf.suspects_.node)
    assert len(nodes) <= 60
    assert (np.diff(nodes) > 0).all()
    assert set(clf.suspects_.node[:15]) <= set(nodes)
    doubtful = np.argsort(clf.proba_.max(axis=1), kind="stable")[:15]
    assert set(doubtful) <= set(nodes)
    assert np.diff(nodes[even]).max() <= 2 * np.diff(nodes[even]).mean()


def test_scattered_nodes_have_the_evidence_of_the_whole(clf, monkeypatch):
    whole = clf.fitted_.findings
    monkeypatch.setattr(findings_module, "_MOST_SHOWN", 60)
    some = findings_module.find(clf.fitted_)
    for source, scores in some.evidence.items():
        np.testing.assert_allclose(scores, whole.evidence[source][some.nodes], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(some.linked, whole.linked[some.nodes], rtol=1e-5)


def test_judged_probabilities_exclude_the_own_label():
    data = make_planted(3, 60, p=0.15, q=0.1, omega=0.6, label_accuracy=0.8, random_state=0)
    clf = NodeClassifier(weights="calibrated", random_state=0).fit(data.X, data.y, graph=data.graph)
    found = clf.fitted_.findings
    assert not found.held_out
    assert found.judged_nodes.tolist() == np.flatnonzero(data.y >= 0).tolist()
    # Bayes' rule, undone.
    without = clf.proba_[found.judged_nodes] / clf.models_.terms[-1][:, found.judged_labels].T
    without /= without.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found.judged_proba, without, rtol=1e-3, atol=1e-6)
    assert np.abs(found.judged_proba - clf.proba_[found.judged_nodes]).max() > 0.1


def test_held_out_labels_judge_where_there_are_any():
    rng = np.random.default_rng(0)
    words = sp.csr_array(rng.poisson(0.3, (120, 30)).astype(float))
    data = make_planted(2, 60, p=0.3, q=0.05, label_ratio=0.5, random_state=0)
    clf = NodeClassifier(random_state=0).fit(words, data.y, graph=data.graph)
    found = clf.fitted_.findings
    assert found.held_out
    assert found.judged_nodes.tolist() == np.flatnonzero(data.y >= 0).tolist()
    assert "held-out labels" in render_report(clf)


def test_wrong_labels_do_not_count_against_the_probabilities():
    rng = np.random.default_rng(1)
    n, K, noise = 40_000, 4, 0.3
    p = rng.uniform(0.4, 1.0, n)
    proba = np.column_stack([p, *[(1 - p) / 3] * 3])
    truth = np.where(rng.uniform(size=n) < p, 0, rng.integers(1, K, n))
    told = np.where(rng.uniform(size=n) < noise, (truth + rng.integers(1, K, n)) % K, truth)
    nodes = np.arange(n)
    assert reliability_of(CrossFitted(nodes, told, proba, 0.0)).error > 0.1
    assert reliability_of(CrossFitted(nodes, told, proba, noise)).error < 0.02


def test_few_labels_or_meaningless_ones_judge_nothing():
    proba, told = np.tile([0.8, 0.2], (50, 1)), np.zeros(50, int)
    assert reliability_of(CrossFitted(np.arange(5), told[:5], proba[:5], 0.0)) is None
    assert reliability_of(CrossFitted(np.arange(50), told, proba, 0.45)) is None
    assert reliability_of(CrossFitted(np.arange(50), told, proba, 0.35)) is not None


def test_a_drawing_keeps_what_is_linked_together():
    graph = nx.to_scipy_sparse_array(nx.barbell_graph(8, 3), weight=None)
    positions, links = lay_out(graph)
    assert positions.shape == (19, 2)
    assert len(links) == graph.nnz // 2
    assert np.linalg.norm(positions, axis=1).max() == pytest.approx(1.0, abs=1e-5)
    apart = np.linalg.norm(positions[:, None] - positions[None], axis=2)
    dense = graph.toarray() > 0
    assert apart[dense].mean() < 0.5 * apart[~dense].mean()


def test_parts_that_no_path_joins_are_drawn_apart():
    graph = sp.block_diag([np.ones((4, 4)) - np.eye(4)] * 2, format="csr")
    positions, _ = lay_out(graph)
    assert np.linalg.norm(positions[:4].mean(axis=0) - positions[4:].mean(axis=0)) > 0.5
    assert np.isfinite(lay_out(sp.csr_array((3, 3)))[0]).all()


def test_the_page_says_what_was_given_and_found(page, clf, data):
    links = data.graph.nnz // 2
    assert f"From {links:,} links, 6 features and {(data.y >= 0).sum()} labels" in page
    assert f"{len(clf.suspects_)} of the given labels look wrong." in page
    for k, size in zip(*np.unique(clf.labels_, return_counts=True), strict=True):
        assert re.search(rf"</span>{k}</span></th>\s*<td class=\"n\" data-value=\"{size}\"", page)
    assert "NodeClassifier(random_state=0).fit(X, y, graph=graph)" in page
    assert "No proof was searched for" in page


def test_the_page_is_self_contained(page):
    assert not re.search(r"https?://", page)
    assert "default-src 'none'" in page
    assert not re.search(r"\son\w+=", page)  # no handlers in attributes


def test_the_data_of_the_page_are_those_of_the_classifier(page, clf):
    found = embedded(page)
    np.testing.assert_allclose(
        np.array(found["proba"]).reshape(-1, 3) / 1e4, clf.proba_, atol=0.6e-4
    )
    assert found["given"] == clf.fitted_.given.tolist()
    assert found["suspect"] == sorted(clf.suspects_.node.tolist())


def test_names_from_outside_stay_text(data):
    names = np.array([HOSTILE, "b & c", "<img src=x onerror=alert(1)>"])
    y = np.where(data.y >= 0, names[data.y], "")
    clf = NodeClassifier(random_state=0).fit(data.X, y, graph=data.graph)
    clf.fitted_ = replace(clf.fitted_, node_ids=np.array([f"{HOSTILE}{v}" for v in range(len(y))]))
    page = render_report(clf, title=HOSTILE)
    assert "<img" not in page
    assert "<script>alert" not in page
    assert len(re.findall(r"<script", page)) == 2
    assert embedded(page)["classes"] == clf.classes_.tolist()


def test_what_is_proven_is_said_in_a_sentence():
    data = make_planted(2, 20, p=0.8, q=0.05, random_state=0)
    clf = NodeClassifier(terms=[Covariance(), Labels()], random_state=0)
    clf.fit(data.X, data.y, graph=data.graph)
    proof = clf.certify()
    assert proof.certified
    page = render_report(clf, certificate=proof)
    assert proof.explain() in page
    assert "optimal labelling" in page
    assert embedded(page)["sure"] == np.where(proof.certified_nodes, proof.labels, -1).tolist()


@pytest.mark.parametrize(
    ("missing", "gap", "said"),
    [
        (0.0, 0.0, "none"),
        (5.16, 0.0123, "5.2 nats (1.3 %)"),
        (1234.1, 0.0999, "1,235 nats (10.0 %)"),
        (1234.1, 0.101, "no proof"),
        (np.inf, np.inf, "no proof"),
    ],
)
def test_a_gap_is_said_in_nats_and_per_cent_or_is_no_proof(clf, proof, missing, gap, said):
    objective = -missing / gap if 0 < gap < np.inf else -10.0
    proof = replace(proof, objective=objective, lower_bound=objective - missing, tolerance=0.0)
    page = render_report(clf, certificate=proof)
    assert f"<dt>Gap</dt><dd>{said}</dd>" in page
    tiles = {what: value for value, what in re.findall(r"<b[^>]*>(.*?)</b><span>(.*?)<", page)}
    assert tiles.get("that the labelling is optimal") == ("no proof" if gap > 0.1 else None)
    assert ("from the optimal labelling" in tiles) == (0 < gap <= 0.1)


def test_labels_that_no_optimal_labelling_keeps_are_marked():
    data = make_planted(3, 40, p=0.5, label_ratio=0.5, label_accuracy=0.8, random_state=0)
    clf = NodeClassifier(random_state=0).fit(data.X, data.y, graph=data.graph)
    first, second = clf.suspects_.node[:2]
    proof = clf.certify(time_budget=0.5)
    one = Excluding(proof, data.y, [first])
    page = render_report(clf, certificate=one)
    assert "No optimal labelling keeps 1 of them." in page
    assert "proven for the fitted models. It does not prove the label wrong." in page
    rows = re.search(r'id="suspect-table".*?</table>', page, re.DOTALL)[0].split("<tr>")[2:]
    said = ["no optimal labelling keeps this label" in row for row in rows]
    assert said == [True] + [False] * (len(rows) - 1)
    shown = embedded(page)
    assert [shown["names"][at] for at in shown["excluded"]] == [str(first)]
    assert str(second) in [shown["names"][at] for at in shown["suspect"]]
    for silent in (Excluding(proof, data.y, []), Excluding(proof, data.y, [first], renaming=True)):
        page = render_report(clf, certificate=silent)
        assert "no optimal labelling keeps" not in page.lower().split("<script")[0]
        assert embedded(page)["excluded"] == []


def test_a_node_says_what_every_optimal_labelling_makes_of_it(clf):
    proof = clf.certify(time_budget=0.5)
    codes = clf.fitted_.codes
    other = np.where(np.arange(len(codes)) == 3, (codes + 1) % 3, codes)
    sure = np.arange(len(codes)) < 5
    possible = np.where(sure[:, None], np.eye(3, dtype=bool)[other], True)
    moved = replace(proof, labels=other, possible=possible, renaming=False)
    shown = embedded(render_report(clf, certificate=moved))["sure"]
    assert shown[:5] == other[:5].tolist()
    assert set(shown[5:]) == {-1}
    renamed = replace(moved, renaming=True)
    assert embedded(render_report(clf, certificate=renamed))["sure"][:5] == codes[:5].tolist()


@pytest.mark.parametrize(
    ("estimate", "said"),
    [
        (
            (0.999999, 0.7614, 1.0),
            "100\xa0% of the unlabelled nodes are classified correctly (76\xa0% to 100\xa0%)",
        ),
        (
            (0.8765, 0.851, 0.902),
            "88\xa0% of the unlabelled nodes are classified correctly (85\xa0% to 90\xa0%)",
        ),
        ((0.9962, 0.9951, 0.9973), "An estimated 99.6\xa0% of"),
    ],
)
def test_an_estimate_is_no_finer_than_its_interval(clf, estimate, said):
    other = replace(clf.fitted_, estimated_accuracy=estimate)
    assert said in report_page.render_report(other)


def test_a_certificate_of_other_nodes_is_refused(clf):
    data = make_planted(2, 20, random_state=0)
    other = NodeClassifier(random_state=0).fit(data.X, data.y, graph=data.graph)
    with pytest.raises(InputError, match="40 nodes, but the model has 180"):
        render_report(clf, certificate=other.certify(time_budget=1.0))


def test_true_labels_judge_nodes_that_had_none(clf, data):
    page = render_report(clf, y_true=data.y_true)
    unlabelled = int((data.y < 0).sum())
    assert f"true labels of unlabelled nodes ({unlabelled} nodes)" in page
    with pytest.raises(InputError, match="3 entries for 180 nodes"):
        render_report(clf, y_true=[0, 1, 2])


def test_true_labels_are_matched_by_name(clf, data):
    X = pd.DataFrame(data.X).set_axis([f"node {v}" for v in range(180)])
    named = NodeClassifier(random_state=0).fit(X, data.y, graph=data.graph)
    truth = pd.Series(data.y_true, index=X.index)
    assert render_report(named, y_true=truth[::-1]) == render_report(named, y_true=truth)
    with pytest.raises(
        InputError, match="the fit and y_true list the same nodes in different orders"
    ):
        render_report(clf, y_true=pd.Series(data.y_true)[::-1])


def on_probabilities(page: str) -> str:
    """Return what a page says of the probabilities."""
    return re.search(r"Reliability of the probabilities</h2>\s*<p>(.*?)</p>", page)[1]


@pytest.fixture(scope="module")
def lettered(data):
    y = np.where(data.y >= 0, np.array(["a", "b", "c"])[data.y], "")
    return NodeClassifier(random_state=0).fit(data.X, y, graph=data.graph)


def test_nodes_of_classes_that_were_not_fitted_count_as_wrong(lettered, data):
    truth = np.array(["a", "b", "c"])[data.y_true].astype("<U2")
    assert "well calibrated" in on_probabilities(render_report(lettered, y_true=truth))
    truth[::3] = "zz"
    said = on_probabilities(render_report(lettered, y_true=truth))
    hidden = data.y < 0
    strange = int((truth[hidden] == "zz").sum())
    assert "overconfident" in said
    assert f"true class of {strange} nodes of {hidden.sum()} is not among the fitted ones" in said
    curve = reliability_of(judged_nodes(ReportData.of(lettered.fitted_, None), truth))
    right = (lettered.labels_ == truth)[hidden].mean()
    assert curve.right @ curve.counts / curve.counts.sum() == pytest.approx(right)
    sure = lettered.proba_[hidden].max(axis=1).mean()
    assert curve.error >= sure - right - 1e-6


@pytest.mark.filterwarnings("ignore:.* labels name the class")
def test_the_only_class_can_be_wrong(data):
    clf = NodeClassifier(random_state=0).fit(data.X, np.where(data.y == 0, 0, -1), graph=data.graph)
    truth = np.where(np.arange(180) % 2, 0, 7)
    said = on_probabilities(render_report(clf, y_true=truth))
    assert "overconfident" in said
    assert "not among the fitted ones" in said
    said = on_probabilities(render_report(clf, y_true=np.zeros(180, int)))
    assert "All labels name one class" in said


def test_true_labels_by_other_names_are_refused(lettered, clf, data):
    with pytest.raises(InputError, match=r"y_true is one .* has 0, 1, 2, .* are 'a', 'b', 'c'$"):
        render_report(lettered, y_true=data.y_true)
    with pytest.raises(InputError, match=r"has '0', '1', '2', the classes are 0, 1, 2$"):
        render_report(clf, y_true=data.y_true.astype(str))


def test_a_page_that_cannot_judge_says_the_true_reason(clf, data):
    for truth in (data.y, np.full(180, -1)):
        said = on_probabilities(render_report(clf, y_true=truth))
        assert said.startswith("No true label was given for an unlabelled node")
    deaf = NodeClassifier(terms=[Gaussian()], random_state=0).fit(data.X, data.y, graph=data.graph)
    said = on_probabilities(render_report(deaf))
    assert said.startswith("The fit did not use the given labels")
    bare = NodeClassifier(3, random_state=0).fit(data.X, graph=data.graph)
    assert on_probabilities(render_report(bare)).startswith("No labels were given")


def test_the_last_certificate_is_shown_without_being_given(tmp_path):
    data = make_planted(2, 20, p=0.8, q=0.05, random_state=0)
    clf = NodeClassifier(terms=[Covariance(), Labels()], random_state=0)
    proof = clf.fit(data.X, data.y, graph=data.graph).certify()
    clf.report(tmp_path / "r.html")
    assert proof.explain() in (tmp_path / "r.html").read_text(encoding="utf-8")


CALLS = {
    "G": "graph=graph",
    "F": "X",
    "L": "y=y",
    "GF": "X, graph=graph",
    "GL": "y=y, graph=graph",
    "FL": "X, y",
    "GFL": "X, y, graph=graph",
}


@pytest.mark.filterwarnings("ignore:the data do not tell")
@pytest.mark.parametrize(
    ("sources", "temperature"), [*((sources, 1.0) for sources in CALLS), ("F", 0.0), ("GFL", 0.0)]
)
def test_any_sources_have_a_report_that_names_them(data, sources, temperature, tmp_path):
    clf = NodeClassifier(3, random_state=0, temperature=temperature).fit(
        data.X if "F" in sources else None,
        data.y if "L" in sources else None,
        graph=data.graph if "G" in sources else None,
    )
    page = render_report(clf)
    assert f".fit({CALLS[sources]})</code>" in page
    assert "nan" not in re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL).lower().split()
    clf.save(tmp_path / "m.npz")
    assert render_report(NodeClassifier.load(tmp_path / "m.npz")) == page


@pytest.mark.filterwarnings("ignore:.* labels name the class")
@pytest.mark.parametrize("n_classes", [1, 2, 45])
def test_few_and_many_classes_have_a_report(n_classes):
    data = make_planted(max(n_classes, 2), 6, p=0.5, q=0.01, label_ratio=0.5, random_state=0)
    y = data.y if n_classes > 1 else np.zeros_like(data.y)
    page = render_report(NodeClassifier(random_state=0).fit(data.X, y, graph=data.graph))
    assert ("one class" if n_classes == 1 else f"{n_classes} classes") in page
    if n_classes == 45:
        assert "The 30 largest classes are shown" in page


@pytest.mark.filterwarnings("ignore:the only label names the class")
def test_one_node_has_a_report():
    page = render_report(NodeClassifier(random_state=0).fit([[1.0, 2.0]], ["a"]))
    assert "1 node were" not in page
    assert "one class" in page


def test_a_saved_model_tells_the_same(clf, page, tmp_path):
    clf.save(tmp_path / "m.npz")
    again = NodeClassifier.load(tmp_path / "m.npz")
    assert render_report(again) == page
    again.save(tmp_path / "n.npz")
    assert render_report(NodeClassifier.load(tmp_path / "n.npz")) == page


def test_a_model_saved_without_links_says_that_it_has_no_report(data, tmp_path):
    clf = NodeClassifier(random_state=0).fit(data.X, data.y, graph=data.graph)
    clf.save(tmp_path / "m.npz", certifiable=False)
    with pytest.raises(InputError, match="saved without data for a report"):
        NodeClassifier.load(tmp_path / "m.npz").report(tmp_path / "r.html")
    assert not (tmp_path / "r.html").exists()


def test_without_jinja_one_line_says_how_to_install_it(clf, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'nodeproof\[report\]'"):
        clf.report(tmp_path / "r.html")


@pytest.fixture
def files(tmp_path, data):
    A = sp.triu(data.graph).tocoo()
    links = [[f"n{u}", f"n{v}"] for u, v in zip(A.row, A.col, strict=True)]
    write(tmp_path / "edges.csv", [["a", "b"], *links])
    labels = [[f"n{v}", f"c{data.y[v]}"] for v in np.flatnonzero(data.y >= 0)]
    write(tmp_path / "labels.csv", [["node", "label"], *labels])
    return tmp_path


def test_the_command_writes_a_page_that_says_how_to_repeat_it(capsys, files, monkeypatch):
    monkeypatch.chdir(files)
    arguments = ["fit", "edges.csv", "--labels", "labels.csv", "--out", "my results", "--report",
                 "--proof-budget", "1", "--json"]  # fmt: skip
    code, out, err = run(capsys, *arguments)
    assert (code, err) == (0, "")
    json.loads(out)
    page = (files / "my results" / "report.html").read_text(encoding="utf-8")
    assert "nodeproof fit edges.csv --labels labels.csv --out &#39;my results&#39; --report" in page
    assert (files / "my results" / "certificate.npz").is_file()
    code, out, err = run(capsys, "report", "my results", "--out", "again.html", "--json")
    assert code == 0
    assert json.loads(out)["certificate"] is True
    assert (files / "again.html").read_text(encoding="utf-8") == page


def test_no_proof_is_looked_for_without_a_budget(capsys, files, monkeypatch):
    monkeypatch.chdir(files)
    run(capsys, "fit", "edges.csv", "--labels", "labels.csv", "--out", "o", "--report",
        "--proof-budget", "0")  # fmt: skip
    assert "No proof was searched for" in (files / "o" / "report.html").read_text(encoding="utf-8")
    assert not (files / "o" / "certificate.npz").exists()


@pytest.mark.parametrize(("most", "searched"), [(10**6, True), (2, False)])
def test_proofs_of_large_graphs_are_on_request(capsys, files, monkeypatch, most, searched):
    monkeypatch.chdir(files)
    monkeypatch.setattr("nodeproof.cli.fit._PROVEN_NODES", most)
    monkeypatch.setattr("nodeproof.cli.fit._PROOF_SECONDS", 0.1)
    run(capsys, "fit", "edges.csv", "--labels", "labels.csv", "--out", "o", "--report")
    page = (files / "o" / "report.html").read_text(encoding="utf-8")
    assert ("No proof was searched for" not in page) == searched
    assert (files / "o" / "certificate.npz").exists() == searched


def test_a_certificate_of_another_fit_is_left_out(capsys, files, monkeypatch):
    monkeypatch.chdir(files)
    run(capsys, "fit", "edges.csv", "--labels", "labels.csv", "--out", "o", "--report",
        "--proof-budget", "0.1")  # fmt: skip
    kept = (files / "o" / "certificate.npz").read_bytes()
    run(capsys, "fit", "edges.csv", "--classes", "2", "--out", "o")
    (files / "o" / "certificate.npz").write_bytes(kept)
    code, _, err = run(capsys, "report", "o")
    assert code == 0
    assert "another fit" in err
    assert "No proof was searched for" in (files / "o" / "report.html").read_text(encoding="utf-8")


def test_missing_jinja_is_said_before_the_work(capsys, files, monkeypatch):
    monkeypatch.chdir(files)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    code, out, err = run(capsys, "fit", "edges.csv", "--out", "o", "--report")
    assert (code, out) == (2, "")
    assert "nodeproof[report]" in err
    assert not (files / "o").exists()


def test_a_folder_without_a_model_is_refused(capsys, tmp_path):
    code, _, err = run(capsys, "report", tmp_path)
    assert code == 2
    assert "there is no model" in err
