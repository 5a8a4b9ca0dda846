"""Counts, Regression and Categorical: planted models are found, whatever is missing."""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment

from cli_helpers import run, write
from nodeproof import NodeClassifier
from nodeproof.arrangement import canonical_order
from nodeproof.datasets import make_planted
from nodeproof.errors import InputError
from nodeproof.solvers import CANO
from nodeproof.terms import Categorical, Counts, Gaussian, Labels, NodeData, Regression

pytestmark = pytest.mark.numeric

K = 3
SLOPES = np.array([[2.0, 0.0, 1.0], [0.0, 2.0, -1.0], [-2.0, -2.0, 0.0]])
RATES = np.array([[5.0, 12.0, 20.0], [12.0, 20.0, 5.0], [20.0, 5.0, 12.0]])
SHARES = np.array([
    [[0.85, 0.05, 0.05, 0.05], [0.05, 0.85, 0.05, 0.05], [0.05, 0.05, 0.05, 0.85]],
    [[0.05, 0.85, 0.05, 0.05], [0.05, 0.05, 0.85, 0.05], [0.85, 0.05, 0.05, 0.05]],
    [[0.05, 0.05, 0.05, 0.85], [0.85, 0.05, 0.05, 0.05], [0.05, 0.05, 0.85, 0.05]],
])  # fmt: skip


def draw_target(z, rng, missing=0.5):
    """Return three covariates and a target that is missing at this share of the nodes."""
    x = rng.standard_normal((len(z), 3))
    y = (x * SLOPES[z]).sum(axis=1) + 0.1 * rng.standard_normal(len(z))
    return np.column_stack([x, np.where(rng.random(len(z)) < missing, np.nan, y)])


def draw_counts(z, rng, missing=0.25):
    X = rng.poisson(RATES[z]).astype(float)
    return np.where(rng.random(X.shape) < missing, np.nan, X)


def draw_categories(z, rng, missing=0.1):
    columns = [(rng.random(len(z))[:, None] > SHARES[z, j].cumsum(axis=1)).sum(axis=1)
               for j in range(3)]  # fmt: skip
    X = np.stack(columns, axis=1).astype(float)
    return np.where(rng.random(X.shape) < missing, np.nan, X)


def weak_links(seed):
    """Return nodes whose links alone leave about one node of four in doubt."""
    return make_planted(cluster_size=300, p=0.076, label_ratio=0.1, random_state=seed)


def matched(labels, truth):
    """Return labels, renamed to agree best with the truth, and which of them is each class."""
    table = np.zeros((K, K))
    np.add.at(table, (labels, truth), 1)
    rows, columns = linear_sum_assignment(-table)
    return columns[labels], rows[np.argsort(columns)]


@cache
def accuracy_of_links(seed, labelled):
    """Return how many nodes are right by the links alone, without or with labels."""
    data = weak_links(seed)
    y = data.y if labelled else None
    clf = NodeClassifier(K, weights="calibrated", random_state=0)
    labels = clf.fit(y=y, graph=data.graph).labels_
    return (matched(labels, data.y_true)[0] == data.y_true).mean()


def fit(term, X, data, y):
    """Return right nodes and the models in the order of the true classes."""
    terms = [term] if y is None else [term, Labels()]
    clf = NodeClassifier(K, terms=terms, random_state=0).fit(X, y, graph=data.graph)
    labels, order = matched(clf.labels_, data.y_true)
    return labels == data.y_true, clf.models_.terms[0][order]


@pytest.mark.filterwarnings("ignore:the data do not tell")
@pytest.mark.parametrize("labelled", [True, False], ids=["labels", "no labels"])
@pytest.mark.parametrize("seed", range(3))
def test_a_regression_per_class_is_found_with_targets_at_half_of_the_nodes(seed, labelled):
    data = weak_links(seed)
    y = data.y if labelled else None
    X = draw_target(data.y_true, np.random.default_rng(seed))
    known = ~np.isnan(X[:, -1])
    right, models = fit(Regression(), X, data, y)
    assert accuracy_of_links(seed, labelled) <= 0.82
    assert right[known].mean() >= 0.97
    np.testing.assert_allclose(models[:, :3], SLOPES, atol=0.05)
    np.testing.assert_allclose(models[:, 3], 0.0, atol=0.05)  # constants
    np.testing.assert_allclose(np.sqrt(models[:, 4]), 0.1, rtol=0.5)


def test_targets_help_nodes_without_one_about_as_much_as_their_neighbours_labels_would():
    data = weak_links(0)
    X = draw_target(data.y_true, np.random.default_rng(0))
    known = ~np.isnan(X[:, -1])
    right, _ = fit(Regression(), X, data, data.y)
    told = np.where(known, data.y_true, data.y)
    best = NodeClassifier(K, terms=[Labels()], random_state=0).fit(y=told, graph=data.graph)
    reachable = (best.labels_ == data.y_true)[~known].mean()
    assert right[~known].mean() >= reachable - 0.03


@pytest.mark.filterwarnings("ignore:the data do not tell")
@pytest.mark.parametrize("labelled", [True, False], ids=["labels", "no labels"])
@pytest.mark.parametrize("seed", range(3))
def test_rates_of_counts_are_found(seed, labelled):
    data = weak_links(seed)
    y = data.y if labelled else None
    right, rates = fit(Counts(), draw_counts(data.y_true, np.random.default_rng(seed)), data, y)
    assert accuracy_of_links(seed, labelled) <= 0.82
    assert right.mean() >= 0.97
    np.testing.assert_allclose(rates, RATES, rtol=0.1)


@pytest.mark.filterwarnings("ignore:the data do not tell")
@pytest.mark.parametrize("labelled", [True, False], ids=["labels", "no labels"])
@pytest.mark.parametrize("seed", range(3))
def test_shares_of_categories_are_found(seed, labelled):
    data = weak_links(seed)
    y = data.y if labelled else None
    X = draw_categories(data.y_true, np.random.default_rng(seed))
    right, shares = fit(Categorical(), X, data, y)
    assert accuracy_of_links(seed, labelled) <= 0.82
    assert right.mean() >= 0.95
    np.testing.assert_allclose(shares, SHARES, atol=0.08)
    np.testing.assert_allclose(shares.sum(axis=2), 1.0)


# What is missing. -----------------------------------------------------------------------

DRAWN = [(Regression(), draw_target), (Counts(), draw_counts), (Categorical(), draw_categories)]


@pytest.fixture(scope="module")
def data():
    return make_planted(cluster_size=40, p=0.3, label_ratio=0.2, random_state=0)


@pytest.fixture(params=DRAWN, ids=lambda pair: type(pair[0]).__name__)
def drawn(request, data):
    term, draw = request.param
    return term, draw(data.y_true, np.random.default_rng(1))


def test_a_node_without_values_costs_nothing_in_any_class(drawn, data):
    term, X = drawn
    X = X.copy()
    X[[0, 7]] = np.nan
    bound = term.bind(NodeData(K, X))
    W = np.eye(K)[data.y_true]
    for costs in (
        bound.cost(bound.estimate(W), 0, 120),
        bound.vertex_costs(bound.refit(W), 0, 120),
    ):
        assert (costs[[0, 7]] == 0).all()
        assert np.isfinite(costs).all()


def test_values_that_are_missing_do_not_move_the_models(drawn, data):
    term, X = drawn
    more = np.vstack([X, np.full((30, X.shape[1]), np.nan)])
    W = np.eye(K)[np.concatenate([data.y_true, np.zeros(30, dtype=int)])]
    for method in ("estimate", "refit"):
        alone = getattr(term.bind(NodeData(K, X)), method)(W[:120])
        joined = getattr(term.bind(NodeData(K, more)), method)(W)
        np.testing.assert_allclose(joined, alone, rtol=1e-9, atol=1e-12)


def test_values_that_are_missing_everywhere_are_refused(drawn, data):
    term, X = drawn
    with pytest.raises(InputError, match="nothing to learn from"):
        NodeClassifier(terms=[term, Labels()]).fit(np.full_like(X, np.nan), data.y)


def test_other_terms_still_refuse_what_is_missing(drawn, data):
    term, X = drawn
    for terms in ("auto", [Gaussian(), Labels()], [term, Gaussian(), Labels()]):
        with pytest.raises(InputError, match="contains NaN at row"):
            NodeClassifier(terms=terms).fit(X, data.y, graph=data.graph)
    X = np.where(np.isnan(X), np.inf, X)
    with pytest.raises(InputError, match="contains infinity"):
        NodeClassifier(terms=[term, Labels()]).fit(X, data.y, graph=data.graph)


def test_the_order_of_the_nodes_does_not_matter(drawn, data):
    term, X = drawn
    order = np.random.default_rng(5).permutation(120)
    first = NodeClassifier(terms=[term, Labels()], random_state=0)
    first.fit(X, data.y, graph=data.graph)
    second = NodeClassifier(terms=[term, Labels()], random_state=0)
    second.fit(X[order], data.y[order], graph=data.graph[order][:, order])
    np.testing.assert_array_equal(second.labels_, first.labels_[order])
    np.testing.assert_allclose(second.proba_, first.proba_[order], atol=1e-5)


def test_missing_values_leave_the_order_of_nearly_equal_nodes_to_their_data():
    X = np.array([[np.nan, 1.0], [np.nan, 1.0001], [np.nan, 1.0002], [3.0, np.nan]])
    back = X[::-1]
    ahead, again = (each[canonical_order(NodeData(2, each))] for each in (X, back))
    np.testing.assert_array_equal(ahead, again)


@pytest.mark.filterwarnings("ignore:the data do not tell")
def test_counts_far_from_zero_are_not_shifted(data):
    """As other features are, whose squares would lose digits."""
    X = np.random.default_rng(0).poisson(1e8, size=(120, 1)).astype(float)
    clf = NodeClassifier(terms=[Counts(), Labels()], random_state=0)
    clf.fit(X, data.y, graph=data.graph)
    np.testing.assert_allclose(clf.models_.terms[0], 1e8, rtol=1e-2)


# Columns. -------------------------------------------------------------------------------


def test_columns_have_names_or_positions(data):
    X = draw_target(data.y_true, np.random.default_rng(1))
    table = pd.DataFrame(X[:, [3, 0, 1, 2]], columns=["income", "age", "size", "rooms"])
    by_name = Regression("income", ["size", "age", "rooms"]).bind(
        NodeData(K, table.to_numpy(), feature_names=table.columns.to_numpy())
    )
    by_place = Regression(3, [1, 0, -2]).bind(NodeData(K, X))
    np.testing.assert_array_equal(by_name.X, by_place.X)
    clf = NodeClassifier(terms=[Regression("income"), Labels()], random_state=0)
    clf.fit(table, data.y, graph=data.graph)
    np.testing.assert_allclose(clf.models_.terms[0][:, :3], SLOPES, atol=0.2)


@pytest.mark.parametrize(
    ("term", "said"),
    [
        (Counts(["other"]), "asks for the column 'other', but those of X are 'a', 'b'"),
        (Counts([2]), "asks for column 2, but X has 2"),
        (Counts(["a", 0]), "given column 'a' twice"),
        (Counts("a"), r"needs a list of columns, got 'a': write \['a'\]"),
        (Counts([1.5]), "takes names and positions"),
        (Counts(shrinkage=0.0), "needs a positive shrinkage"),
        (Regression("a", ["a"]), "given column 'a' twice"),
        (Regression("a", []), "has no column"),
        (Categorical(["b"]), "needs whole numbers from 0 on.* column 'b' has 0.5"),
        (Counts(), "needs whole numbers from 0 on.* column 'b' has 0.5"),
    ],
)
def test_columns_that_cannot_be_used_are_refused(term, said):
    X = pd.DataFrame({"a": [1.0, 2.0, 3.0, 4.0], "b": [0.5, 1.0, 2.0, 3.0]})
    with pytest.raises(InputError, match=said):
        NodeClassifier(terms=[term, Labels()]).fit(X, [0, 1, 0, 1])


def test_a_name_needs_names():
    with pytest.raises(InputError, match="the columns of X have no names"):
        Counts(["visits"]).bind(NodeData(K, np.ones((4, 2))))


def test_sparse_columns_are_read_as_they_are(data):
    X = np.nan_to_num(draw_counts(data.y_true, np.random.default_rng(1)))
    dense, sparse = (Counts([2]).bind(NodeData(K, x)) for x in (X, sp.csr_array(X)))
    np.testing.assert_array_equal(dense.X, sparse.X)


def test_too_many_categories_are_refused():
    with pytest.raises(InputError, match="up to 10,000 categories"):
        Categorical().bind(NodeData(K, np.array([[94110.0], [1.0]])))


# New nodes, saved models. ---------------------------------------------------------------


def test_new_nodes_are_judged_by_what_they_have(drawn, data, tmp_path):
    term, X = drawn
    names = [f"c{j}" for j in range(X.shape[1])]
    table = pd.DataFrame(X, columns=names)
    clf = NodeClassifier(terms=[term, Labels()], random_state=0)
    clf.fit(table[:-20], data.y[:-20], graph=data.graph[:-20, :-20])
    links = data.graph[-20:, :-20]
    assert (clf.predict(table[-20:], graph=links) == data.y_true[-20:]).mean() >= 0.9
    nothing = clf.predict_proba(table[-1:] * np.nan)
    np.testing.assert_allclose(nothing[0], np.exp(clf.models_.log_prior), atol=1e-5)
    clf.save(tmp_path / "model.npz")
    again = NodeClassifier.load(tmp_path / "model.npz")
    assert repr(again.terms_) == repr(clf.terms_)
    np.testing.assert_array_equal(again.proba_, clf.proba_)
    np.testing.assert_array_equal(
        again.predict_proba(table[-20:], graph=links), clf.predict_proba(table[-20:], graph=links)
    )


def test_a_category_that_no_fitted_node_has_costs_nothing(data):
    X = draw_categories(data.y_true, np.random.default_rng(1))
    clf = NodeClassifier(terms=[Categorical(), Labels()], random_state=0)
    clf.fit(X, data.y, graph=data.graph)
    unseen = clf.predict_proba(np.array([[9.0, np.nan, -1.0]]), graph=[])
    np.testing.assert_allclose(unseen[0], np.exp(clf.models_.log_prior), atol=1e-5)


FORGED = {
    "columns that are no columns": (Counts([0]), {"columns": {"a": 1}}),
    "a column that is no column": (Counts([0]), {"columns": [1.5]}),
    "a target that is no column": (Regression(), {"target": [0]}),
    "text for a number": (Categorical(), {"shrinkage": "1"}),
    "text for a flag": (Labels(logistic=True), {"logistic": "yes"}),
}


@pytest.mark.parametrize("forged", FORGED)
def test_settings_that_no_fit_has_left_are_refused(forged, data, tmp_path):
    term, change = FORGED[forged]
    X = None if isinstance(term, Labels) else np.ones((120, 2))
    terms = [term] if X is None else [term, Labels()]
    path = tmp_path / "model.npz"
    NodeClassifier(terms=terms, random_state=0).fit(X, data.y, graph=data.graph).save(path)
    with np.load(path) as archive:
        arrays = dict(archive)
    meta = json.loads(arrays["meta"].tobytes())
    meta["terms"][0] |= change
    arrays["meta"] = np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8)
    np.savez(path, **arrays)
    with pytest.raises(InputError, match="damaged"):
        NodeClassifier.load(path)


def test_models_that_no_fit_has_left_are_refused(drawn, data, tmp_path):
    term, X = drawn
    path = tmp_path / "model.npz"
    clf = NodeClassifier(terms=[term, Labels()], random_state=0)
    clf.fit(X, data.y, graph=data.graph).save(path)
    with np.load(path) as archive:
        arrays = dict(archive)
    for wrong in (-arrays["term_0"], np.full_like(arrays["term_0"], np.nan)):
        np.savez(path, **(arrays | {"term_0": wrong}))
        with pytest.raises(InputError, match="damaged"):
            NodeClassifier.load(path)


# Fixed weights. -------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["block", "cado"])
def test_fixed_weights_use_their_losses(drawn, data, solver):
    term, X = drawn
    clf = NodeClassifier(
        terms=[term, Labels()], weights=(1.0, 1.0, 13.0), solver=solver, random_state=0
    )
    clf.fit(X, data.y, graph=data.graph)
    assert np.isfinite(clf.objective_)
    if solver == "block":
        assert clf.score(y=data.y_true) > 0.9


@pytest.mark.parametrize("solver", ["block", "cado"])
def test_fixed_weights_use_the_logistic_loss_of_labels(data, solver, tmp_path):
    term = Labels(logistic=True)
    clf = NodeClassifier(terms=[term], weights=(1.0, 1.0, 13.0), solver=solver, random_state=0)
    clf.fit(y=data.y, graph=data.graph).save(tmp_path / "model.npz")
    assert np.isfinite(clf.objective_)
    if solver == "block":
        assert clf.score(y=data.y_true) > 0.9
    again = NodeClassifier.load(tmp_path / "model.npz")
    assert again.terms_[0].logistic
    np.testing.assert_array_equal(again.proba_, clf.proba_)


def test_calibrated_fits_do_not_depend_on_the_loss_of_labels(data):
    found = [
        NodeClassifier(terms=[Labels(logistic=logistic)], random_state=0)
        .fit(y=data.y, graph=data.graph)
        .proba_
        for logistic in (False, True)
    ]
    np.testing.assert_array_equal(*found)


def test_the_logistic_loss_is_the_cross_entropy_of_the_given_label():
    term = Labels(accuracy=0.9, logistic=True).bind(NodeData(K, y=np.array([2, -1, 0])))
    omega = np.array([0.2, -0.3, 0.5])
    losses = term.loss(omega[None], 0, 3)
    p = np.exp(omega) / np.exp(omega).sum()
    np.testing.assert_allclose(losses, [-np.log(p[2]), 0.0, -np.log(p[0])])
    # The surest scores give the label its accuracy.
    sure = term.refit(np.eye(K)[[0, 1, 2]])[0]
    np.testing.assert_allclose(np.exp(sure[2]) / np.exp(sure).sum(), 0.9)
    assert repr(term) == "Labels(accuracy=0.9, strength=3, logistic=True)"


@pytest.mark.parametrize(
    "terms",
    [[Regression(), Labels()], [Counts(), Labels()], [Categorical(), Labels()],
     [Labels(logistic=True)]],
    ids=str,
)  # fmt: skip
def test_the_convex_program_takes_them_and_ends(terms):
    data = make_planted(cluster_size=12, p=0.6, q=0.1, label_ratio=0.3, random_state=0)
    draw = {type(term): draw for term, draw in DRAWN}.get(type(terms[0]))
    X = None if draw is None else draw(data.y_true, np.random.default_rng(0))
    weights = (1.0, 0.0 if draw is None else 1.0, 5.0)
    solver = CANO(max_iter=40, random_state=0)
    with pytest.warns(UserWarning, match="max_iter"):
        clf = NodeClassifier(K, terms=terms, weights=weights, solver=solver).fit(
            X, data.y, graph=data.graph
        )
    assert clf.lower_bound_ <= clf.objective_
    assert clf.score(y=data.y_true) > 0.6  # it was cut off


# The command line. ----------------------------------------------------------------------


@pytest.fixture
def files(data, tmp_path, monkeypatch):
    rng = np.random.default_rng(1)
    X = np.column_stack([
        draw_target(data.y_true, rng), draw_counts(data.y_true, rng),
        draw_categories(data.y_true, rng),
    ])  # fmt: skip
    names = ["age", "size", "rooms", "income", "calls", "visits", "mails", "colour", "shape", "way"]
    rows = [["" if np.isnan(x) else f"{x:g}" for x in row] for row in X]
    links = np.argwhere(np.triu(data.graph.toarray()))
    write(tmp_path / "edges.csv", [["source", "target"], *([f"n{u}", f"n{v}"] for u, v in links)])
    known = np.flatnonzero(~np.isnan(X).all(axis=1))[5:]  # some nodes have no row
    write(tmp_path / "features.csv", [["node", *names], *([f"n{v}", *rows[v]] for v in known)])
    labelled = np.flatnonzero(data.y >= 0)
    write(
        tmp_path / "labels.csv",
        [["node", "label"], *([f"n{v}", f"c{data.y[v]}"] for v in labelled)],
    )
    write(tmp_path / "new.csv", [["node", *names], ["a", *[""] * 4, 5, 12, 20, *[""] * 3]])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_command_line_says_which_columns_are_what(files, capsys):
    code, out, err = run(
        capsys, "fit", "edges.csv", "--features", "features.csv", "--labels", "labels.csv",
        "--counts", "calls,visits,mails", "--regress", "income~age,size,rooms",
        "--categories", "colour, shape", "--out", "out", "--json",
    )  # fmt: skip
    assert code == 0, err
    assert json.loads(out)["choices"]["terms"]["value"] == [
        "Counts(columns=['calls', 'visits', 'mails'], shrinkage=1.0)",
        "Regression(target='income', features=['age', 'size', 'rooms'], shrinkage=0.1)",
        "Categorical(columns=['colour', 'shape'], shrinkage=1.0)",
        "Labels(accuracy=0.9, strength=3)",
    ]
    code, _, err = run(capsys, "predict", "out", "--features", "new.csv", "--out", "new_out.csv")
    assert code == 0, err
    assert (files / "new_out.csv").read_text().splitlines()[1].startswith('"a","c0"')


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--counts", "calls,other"], "asks for the column 'other'"),
        (["--counts", "calls,,visits"], "--counts takes names with commas"),
        (["--counts", "income"], "Counts needs whole numbers"),
        (["--regress", "a,b~age"], "--regress takes one target"),
        (["--regress", "income~"], "--regress takes names"),
        ([], "expected a finite number, got nothing"),
    ],
)
def test_columns_that_cannot_be_are_refused_in_one_line(files, capsys, options, said):
    code, out, err = run(
        capsys, "fit", "edges.csv", "--features", "features.csv", "--labels", "labels.csv",
        *options, "--out", "out",
    )  # fmt: skip
    assert (code, out) == (2, ""), err
    assert said in err
    assert "Traceback" not in err
