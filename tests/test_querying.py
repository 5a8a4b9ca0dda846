"""What to label next."""

import json

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from nodeproof import NodeClassifier
from nodeproof.cli import main
from nodeproof.errors import InputError
from nodeproof.query import most_informative, most_uncertain
from nodeproof.terms import Labels


def two_clumps(size=12):
    """Two cliques with a bridge; one labelled node in each."""
    block = np.ones((size, size)) - np.eye(size)
    graph = sp.lil_array(sp.block_diag([block, block]))
    graph[0, size] = graph[size, 0] = 1.0
    return sp.csr_array(graph)


@pytest.fixture(scope="module")
def fitted():
    y = np.full(24, -1)
    y[[1, 13]] = 0, 1
    return NodeClassifier(random_state=0).fit(y=y, graph=two_clumps())


@pytest.mark.parametrize("strategy", ["informative", "uncertainty"])
def test_queries_are_distinct_nodes_without_a_label(fitted, strategy):
    asked = fitted.query(10, strategy=strategy)
    assert len(set(asked.tolist())) == 10
    assert not {1, 13} & set(asked.tolist())
    np.testing.assert_array_equal(asked, fitted.query(10, strategy=strategy))


@pytest.mark.parametrize("strategy", ["informative", "uncertainty"])
def test_more_than_there_are_gives_all(fitted, strategy):
    asked = fitted.query(1000, strategy=strategy)
    assert sorted(asked) == [v for v in range(24) if v not in (1, 13)]


def test_the_first_queries_are_the_best_of_more(fitted):
    np.testing.assert_array_equal(fitted.query(3), fitted.query(8)[:3])


def test_candidates_limit_the_choice(fitted):
    assert set(fitted.query(5, candidates=[1, 3, 3, 20])) == {3, 20}
    mask = np.zeros(24, dtype=bool)
    mask[[5, 6]] = True
    assert set(fitted.query(5, candidates=mask)) == {5, 6}
    assert len(fitted.query(3, candidates=[])) == 0


@pytest.mark.parametrize(
    ("k", "options", "word"),
    [
        (0, {}, "k must be"),
        (2.5, {}, "k must be"),
        (1, {"strategy": "best"}, "strategy must be"),
        (1, {"candidates": [99]}, "node 99"),
        (1, {"candidates": [-1]}, "node -1"),
        (1, {"candidates": [0.5]}, "positions of nodes"),
    ],
)
def test_bad_queries_are_refused(fitted, k, options, word):
    with pytest.raises(InputError, match=word):
        fitted.query(k, **options)


def test_two_queries_are_in_two_places():
    """The unsure nodes form two clumps; the two surest gains lie in the same one."""
    rows = np.repeat([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], [8, 6, 6], axis=0)
    proba = np.full((20, 2), 0.5)
    asked, gains = most_informative(proba, rows, np.array([14]), 3, np.arange(14))
    assert asked[0] < 8 <= asked[1] < 14
    assert gains[0] >= gains[1] >= gains[2] >= 0.0
    assert gains.sum() < 1.0


def test_a_node_that_is_nearly_known_is_not_asked_for():
    proba = np.array([[0.999999, 0.000001]] * 5 + [[0.5, 0.5]])
    asked, _ = most_informative(proba, np.ones((6, 1)), np.arange(0), 1, np.arange(6))
    assert asked.tolist() == [5]


def test_what_is_near_a_label_tells_less():
    rows = np.repeat(np.eye(2), 5, axis=0)
    asked, _ = most_informative(np.full((10, 2), 0.5), rows, np.array([0, 1]), 1, np.arange(2, 10))
    assert asked[0] >= 5


def test_gains_are_what_the_variances_fall_by():
    rng = np.random.default_rng(0)
    rows, proba = rng.standard_normal((30, 4)), rng.dirichlet(np.ones(3), size=30)
    labelled, candidates = np.arange(5), np.arange(5, 30)
    asked, gains = most_informative(proba, rows, labelled, 3, candidates)
    Z = rows / np.sqrt((rows**2).sum() / 30)
    doubt = 1.0 - (proba**2).sum(axis=1)
    weights = np.where(np.arange(30) < 5, 0.0, doubt)

    def uncertainty(precision):
        return weights @ np.einsum("vi,ij,vj->v", Z, np.linalg.inv(precision), Z)

    precision = np.eye(4) + Z[:5].T @ Z[:5]
    whole = before = uncertainty(precision)
    for node, gain in zip(asked, gains, strict=True):
        precision = precision + doubt[node] / doubt.mean() * np.outer(Z[node], Z[node])
        after = uncertainty(precision)
        np.testing.assert_allclose(gain, (before - after) / whole, rtol=1e-9)
        before = after


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 30), st.integers(1, 40), st.integers(0, 5))
def test_uncertain_nodes_come_in_order(n, k, seed):
    proba = np.random.default_rng(seed).dirichlet(np.ones(3), size=n)
    asked, entropy = most_uncertain(proba, k, np.arange(n))
    assert len(asked) == min(n, k)
    assert (np.diff(entropy) <= 0).all()


@pytest.mark.filterwarnings("ignore:the data do not tell")
def test_isolated_nodes_and_features_alone_can_be_queried():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 2)) + 3 * (np.arange(40) % 2)[:, None]
    y = np.full(40, -1)
    y[:4] = np.arange(4) % 2
    assert len(NodeClassifier(random_state=0).fit(X, y).query(3)) == 3
    only_labels = NodeClassifier(terms=[Labels()], random_state=0).fit(y=y)
    assert len(only_labels.query(3)) == 3


def test_a_loaded_model_says_what_it_lacks(fitted, tmp_path):
    fitted.save(tmp_path / "model.npz")
    np.testing.assert_array_equal(
        NodeClassifier.load(tmp_path / "model.npz").query(2), fitted.query(2)
    )
    fitted.save(tmp_path / "model.npz", data=False)
    loaded = NodeClassifier.load(tmp_path / "model.npz")
    with pytest.raises(InputError, match="strategy='uncertainty'"):
        loaded.query(2)
    np.testing.assert_array_equal(
        loaded.query(2, strategy="uncertainty"), fitted.query(2, strategy="uncertainty")
    )


def test_the_command_line_writes_the_nodes_to_label_next(tmp_path):
    edges = sp.coo_array(two_clumps()).nonzero()
    lines = [f"n{u},n{v}" for u, v in zip(*edges, strict=True) if u < v]
    (tmp_path / "edges.csv").write_text("source,target\n" + "\n".join(lines) + "\n")
    (tmp_path / "labels.csv").write_text("node,label\nn1,a\nn13,b\n")
    out = tmp_path / "out"
    arguments = ["fit", str(tmp_path / "edges.csv"), "--labels", str(tmp_path / "labels.csv")]
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--out", str(out), "--query", "4", "--json"])
    assert ended.value.code == 0
    rows = (out / "query.csv").read_text().splitlines()
    asked = [line.split(",")[0].strip('"') for line in rows[1:]]
    assert len(set(asked)) == 4
    assert not {"n1", "n13"} & set(asked)
    assert json.loads((out / "summary.json").read_text())["query"] == asked


def test_the_greedy_choice_is_that_of_the_formula():
    rng = np.random.default_rng(0)
    n, d, k = 60, 5, 8
    Z, proba = rng.normal(size=(n, d)), rng.dirichlet(np.ones(3), size=n)
    labelled = np.array([3, 7])
    candidates = np.setdiff1d(np.arange(n), labelled)
    nodes, gains = most_informative(proba, Z, labelled, k, candidates)
    doubt = 1 - (proba**2).sum(axis=1)
    Z = Z / np.sqrt((Z**2).sum(axis=1).mean())
    weights = np.where(np.isin(np.arange(n), labelled), 0.0, doubt)
    M = Z.T @ (weights[:, None] * Z)
    S = np.linalg.inv(np.eye(d) + Z[labelled].T @ Z[labelled])
    total = np.trace(M @ S)
    for node, gain in zip(nodes, gains, strict=True):
        news = doubt[node] / doubt.mean()
        after = np.linalg.inv(np.linalg.inv(S) + news * np.outer(Z[node], Z[node]))
        assert gain == pytest.approx(np.trace(M @ (S - after)) / total)
        S = after
    assert len(set(nodes.tolist())) == k
