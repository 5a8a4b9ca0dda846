"""NodeRegressor: numeric targets from links, features and known numbers."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone, is_regressor

from nodeproof import NodeClassifier, NodeRegressor, knn_graph
from nodeproof.conformal import largest_score, least_probabilities
from nodeproof.errors import InputError
from nodeproof.regression.held_out import hold_out_targets
from nodeproof.regression.propagation import PassedOn
from nodeproof.regression.settings import EXPERTS
from nodeproof.regression.stack import fit_stack
from nodeproof.terms import NodeData

pytestmark = pytest.mark.numeric

N = 240
RNG = np.random.default_rng(0)
PLACE, X = RNG.random((N, 2)), RNG.normal(size=(N, 4))
LINKS = sp.csr_array((knn_graph(PLACE, 6) > 0).astype(float))
SMOOTH = np.sin(4 * PLACE[:, 0]) + np.cos(5 * PLACE[:, 1])
TRUTH = SMOOTH + X[:, 0] + 0.2 * RNG.normal(size=N)
KNOWN = RNG.random(N) < 0.5
Y = np.where(KNOWN, TRUTH, np.nan)
REST = np.where(KNOWN, np.nan, TRUTH)
QUICK = ["features", "propagation", "residuals"]


def fit(X=X, y=Y, graph=LINKS, experts=QUICK, seed=0, **settings) -> NodeRegressor:
    return NodeRegressor(experts=experts, random_state=seed, **settings).fit(X, y, graph=graph)


@pytest.fixture(scope="module")
def full() -> NodeRegressor:
    return fit(experts="auto")


@pytest.fixture(scope="module")
def quick() -> NodeRegressor:
    return fit()


def test_links_and_features_together_beat_each_alone(full):
    together = full.score(y=REST)
    assert together > 0.8
    assert together > fit(graph=None).score(y=REST) + 0.1
    assert together > fit(X=None).score(y=REST) + 0.1


def test_the_estimated_error_is_that_of_other_nodes(full):
    off = np.nanstd(REST - full.predictions_)
    found = full.estimated_error_
    assert found.rmse_low < found.rmse < found.rmse_high
    assert found.rmse_low < off < found.rmse_high * 1.2
    assert found.r2_low < found.r2 <= found.r2_high <= 1
    assert found.n_targets == KNOWN.sum()


def test_noise_is_not_taken_for_knowledge():
    rng = np.random.default_rng(5)
    y = np.where(KNOWN, rng.normal(size=N), np.nan)
    reg = fit(y=y, experts="auto")
    assert reg.estimated_error_.r2 < 0.15
    assert np.nanstd(reg.predictions_) < 0.5


def test_intervals_hold_as_many_targets_as_asked():
    covered = []
    for seed in range(12):
        known = np.random.default_rng(seed).random(N) < 0.5
        reg = fit(y=np.where(known, TRUTH, np.nan), experts=["residuals"], seed=seed)
        low, high = reg.predict_interval(0.8)[~known].T
        covered.append(((low <= TRUTH[~known]) & (TRUTH[~known] <= high)).mean())
    assert 0.75 < np.mean(covered) < 0.88


def test_the_limit_of_exchangeable_scores_is_exact():
    # The next of h + 1 exchangeable scores is within the limit with probability ⌈.9 (h + 1)⌉/(h+1).
    rng = np.random.default_rng(0)
    h, within = 24, []
    for _ in range(4000):
        scores = rng.exponential(size=h + 1)
        within.append(scores[-1] <= largest_score(scores[:-1], 0.9))
    assert abs(np.mean(within) - 23 / 25) < 0.015


def test_sets_and_intervals_have_the_same_limits():
    scores = np.random.default_rng(0).random(37)
    codes = np.zeros(37, dtype=int)
    proba = np.column_stack([1 - scores, scores])
    for coverage in (0.5, 0.8, 0.95):
        limit = least_probabilities(proba, codes, coverage)[0]
        assert limit == pytest.approx(1 - largest_score(scores, coverage))
    assert least_probabilities(proba, codes, 0.99)[0] == 0
    assert largest_score(scores, 0.99) == np.inf


def test_too_few_targets_for_a_coverage_give_infinite_intervals(quick):
    with pytest.warns(UserWarning, match="needs at least 999 targets, and there are"):
        assert np.isinf(quick.predict_interval(0.999)).all()


@pytest.mark.parametrize("coverage", [0, 1, -0.1, "0.9", None])
def test_a_coverage_is_a_share(quick, coverage):
    with pytest.raises(InputError, match="coverage must be a number between 0 and 1"):
        quick.predict_interval(coverage)


def test_intervals_are_wider_where_nodes_are_harder():
    rng = np.random.default_rng(1)
    n = 600
    X = rng.normal(size=(n, 3))
    hard = X[:, 1] > 0
    truth = X[:, 0] + rng.normal(size=n) * np.where(hard, 2.0, 0.1)
    known = rng.random(n) < 0.6
    reg = fit(X=X, y=np.where(known, truth, np.nan), graph=None, experts=["features"])
    low, high = reg.predict_interval(0.9)[~known].T
    assert reg.choices_["widths"]["value"] != "even"
    assert (high - low)[hard[~known]].mean() > 2 * (high - low)[~hard[~known]].mean()
    assert ((low <= truth[~known]) & (truth[~known] <= high)).mean() > 0.85


@pytest.mark.parametrize(("scale", "offset"), [(1e-30, 0.0), (4096.0, 0.0), (-3.0, 7.0)])
def test_predictions_scale_with_the_targets(quick, scale, offset):
    moved = fit(y=scale * Y + offset)
    if scale > 0:  # turned round, targets are held out in another order
        np.testing.assert_allclose(
            moved.predictions_, scale * quick.predictions_ + offset, rtol=1e-6, atol=1e-8 * scale
        )
        width = np.ptp(quick.predict_interval(0.9), axis=1)
        np.testing.assert_allclose(np.ptp(moved.predict_interval(0.9), axis=1), scale * width)
    assert moved.score(y=scale * REST + offset) == pytest.approx(quick.score(y=REST), abs=0.05)


def test_the_order_of_rows_does_not_matter(full):
    order = np.random.default_rng(2).permutation(N)
    moved = fit(X[order], Y[order], LINKS[order][:, order], experts="auto")
    np.testing.assert_array_equal(moved.predictions_, full.predictions_[order])
    np.testing.assert_array_equal(moved.predict_interval(0.9), full.predict_interval(0.9)[order])


def test_the_same_seed_gives_the_same_bits_on_any_number_of_threads(full):
    again = fit(experts="auto", n_jobs=1)
    np.testing.assert_array_equal(again.predictions_, full.predictions_)
    np.testing.assert_array_equal(again.predict_interval(0.9), full.predict_interval(0.9))


@pytest.mark.parametrize("name", EXPERTS)
def test_no_expert_sees_the_target_that_it_predicts(name):
    # With one target moved far away, what is said of its node stays as it was.
    expert = EXPERTS[name]
    nodes = data_of(X[:120], LINKS[:120, :120])
    rng = np.random.default_rng(0)
    held = hold_out_targets((Y[:120] - np.nanmean(Y)) / np.nanstd(Y), rng)
    targets = held.targets.copy()
    targets[7] += 3.0
    before = expert.held_out(nodes, held)
    after = expert.held_out(nodes, held.with_targets(targets))
    together = held.folds == held.folds[7]
    assert list(before) == list(after)
    for setting, said in before.items():
        np.testing.assert_allclose(after[setting][7], said[7], atol=1e-5)
        assert np.abs(after[setting] - said)[~together].max() > 1e-4


def data_of(X, links) -> NodeData:
    from nodeproof.graph import Graph
    from nodeproof.smoothing import Smoothing

    graph = Graph(links)
    return NodeData(2, X, None, graph, smoothing=Smoothing(X, graph))


def test_a_harmonic_function_is_the_mean_of_its_neighbours():
    path = sp.csr_array(np.diag(np.ones(4), 1) + np.diag(np.ones(4), -1))
    held = hold_out_targets(np.array([0.0, np.nan, np.nan, np.nan, 4.0]), np.random.default_rng(0))
    nodes = data_of(None, path)
    found = PassedOn().learn(nodes, held, (1e-6, 1.0)).predictions
    np.testing.assert_allclose(found, [0, 1, 2, 3, 4], atol=0.02)  # after 50 steps


def test_a_pool_is_no_worse_than_its_best_expert():
    nodes = data_of(X, LINKS)
    held = hold_out_targets(Y - np.nanmean(Y), np.random.default_rng(0))
    stack, judged = fit_stack(nodes, held, [EXPERTS[name] for name in QUICK])
    error = np.sqrt(np.mean((held.targets - judged.predictions) ** 2))
    assert error < 1.05 * min(said["rmse"] for said in judged.experts.values())
    assert min(stack.weights) > 0


def test_new_nodes_are_predicted_by_features_and_links(full):
    truth = TRUTH[:60]
    found = full.predict(X[:60], graph=LINKS[:60])
    assert np.corrcoef(found, truth)[0, 1] > 0.9
    low, high = full.predict_interval(0.9, X=X[:60], graph=LINKS[:60]).T
    assert ((low <= truth) & (truth <= high)).mean() > 0.8
    among = sp.hstack([LINKS[:60], 0 * LINKS[:60, :60]])
    np.testing.assert_allclose(full.predict(X[:60], graph=among), found)


def test_a_loaded_model_predicts_the_same(full, tmp_path):
    full.save(tmp_path / "m.npz")
    loaded = NodeRegressor.load(tmp_path / "m.npz")
    np.testing.assert_array_equal(loaded.predictions_, full.predictions_)
    np.testing.assert_array_equal(loaded.suspects_, full.suspects_)
    assert loaded.choices_ == full.choices_
    assert loaded.estimated_error_ == full.estimated_error_
    np.testing.assert_array_equal(
        loaded.predict_interval(0.9, X=X[:9], graph=LINKS[:9]),
        full.predict_interval(0.9, X=X[:9], graph=LINKS[:9]),
    )
    assert loaded.get_params()["experts"] == "auto"


def test_neighbours_are_chosen_and_saved(tmp_path):
    reg = fit(graph="knn")
    assert "held-out targets" in reg.choices_["graph"]["why"]
    reg.save(tmp_path / "m.npz")
    loaded = NodeRegressor.load(tmp_path / "m.npz")
    np.testing.assert_array_equal(loaded.predict(X[:9]), reg.predict(X[:9]))


def test_files_with_anything_else_in_them_are_refused(full, tmp_path):
    full.save(tmp_path / "m.npz")
    with np.load(tmp_path / "m.npz") as file:
        arrays = dict(file)
    meta = json.loads(arrays["meta"].tobytes())

    def refused(match, more=(), **changes):
        header = np.frombuffer(json.dumps({**meta, **dict(more)}).encode(), np.uint8)
        np.savez(tmp_path / "b.npz", **{**arrays, "meta": header, **changes})
        with pytest.raises(ValueError, match=match):
            NodeRegressor.load(tmp_path / "b.npz")

    refused("shape", given=arrays["given"][:-1])
    refused("not finite", predictions=np.full(N, np.inf))
    refused("no place", surplus=np.zeros(3))
    refused("scale", more={"scale": -1.0})
    refused("link_unit", more={"link_unit": 0})
    refused("stack", more={"stack": {**meta["stack"], "names": ["magic"]}})
    refused("fit together", more={"stack": {**meta["stack"], "weights": []}})
    for name, array in arrays.items():
        if name.startswith("stack_") and array.ndim and array.dtype.kind == "f":
            refused("shape|fit together|not those", **{name: array[:-1]})
    refused("another format", more={"format": "x"})


@pytest.mark.any_cpu
def test_each_estimator_refuses_the_models_of_the_other(quick, tmp_path):
    quick.save(tmp_path / "numbers.npz")
    with pytest.raises(InputError, match=r"NodeRegressor\.load"):
        NodeClassifier.load(tmp_path / "numbers.npz")
    clf = NodeClassifier(n_classes=2, random_state=0, n_init=1).fit(graph=LINKS)
    clf.save(tmp_path / "classes.npz")
    with pytest.raises(InputError, match=r"NodeClassifier\.load"):
        NodeRegressor.load(tmp_path / "classes.npz")


@pytest.mark.parametrize(
    ("y", "match"),
    [
        (np.eye(N), "it has 240 columns: fit one NodeRegressor per column"),
        (["a"] * N, "targets must be numbers"),
        ([None] * N, "no known target"),
        ([1.0] * (N - 1) + [np.inf], "node 239 is not finite"),
        ([1.0] * (N - 1) + [1e200], "node 239 is 1e.200, beyond the range"),
        ([1.0, [2.0, 3.0]] * (N // 2), r"that of node 1 is \[2\.0, 3\.0\]"),
        (np.array([1.0, "x"] * (N // 2), dtype=object), "that of node 1 is 'x'"),
        ([1.0] * 3, "X has 240 rows and y has 3 entries"),
        (None, "requires y to be passed"),
    ],
)  # fmt: skip
def test_other_targets_are_refused(y, match):
    with pytest.raises(InputError, match=match):
        fit(y=y)


@pytest.mark.parametrize(
    ("y", "match"),
    [
        (np.eye(N)[:, :5], "it has 5 columns: .* one model per label"),
        (sp.csr_array(np.eye(N)[:, :5]), "it has 5 columns: .* one model per label"),
        ([["a", "b"], ["c"]] * (N // 2), r"that of node 0 is \['a', 'b'\]: .*NodeRegressor"),
        (pd.DataFrame(np.eye(N)[:, :2]), "it has 2 columns"),
        (np.where(KNOWN, 0.5, -1), "continuous; .* nodeproof.NodeRegressor"),
    ],
)  # fmt: skip
def test_classifiers_name_what_to_use_for_other_targets(y, match):
    with pytest.raises(InputError, match=match):
        NodeClassifier().fit(X, y, graph=LINKS)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 6])
def test_few_targets_are_enough_for_an_answer(count):
    y = np.full(N, np.nan)
    y[:count] = TRUTH[:count]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        reg = fit(y=y)
    assert np.isfinite(reg.predictions_).all()
    assert any("too few to learn from" in str(warning.message) for warning in caught) == (count < 4)


def test_a_constant_target_is_predicted_everywhere():
    reg = fit(y=np.where(KNOWN, 7.5, np.nan))
    assert (reg.predictions_ == 7.5).all()
    assert (reg.predict_interval(0.9) == 7.5).all()
    assert reg.estimated_error_.rmse == 0


def test_a_typo_is_found_and_does_not_decide_the_rest(quick):
    y = Y.copy()
    node = int(np.flatnonzero(KNOWN)[3])
    y[node] = 1e9
    reg = fit(y=y)
    assert reg.suspects_.node.tolist() == [node]
    assert reg.suspects_.given.tolist() == [1e9]
    assert reg.score(y=REST) > quick.score(y=REST) - 0.03
    assert "not learnt from" in reg.choices_["targets"]["why"]


@pytest.mark.parametrize(
    ("X", "graph"),
    [
        (None, sp.csr_array((N, N))),
        (X, sp.csr_array((N, N))),
        (np.zeros((N, 2)), LINKS),
        (sp.csr_array(np.maximum(X, 0)), LINKS),
        (sp.csr_array((N, 3)), None),
        (1e60 * X, LINKS),
    ],
    ids=["nothing", "no links", "constant", "sparse", "empty", "huge"],
)
def test_odd_data_are_no_problem(X, graph):
    reg = fit(X=X, graph=graph, experts=[*QUICK, "smoothed"])
    assert np.isfinite(reg.predictions_).all()
    assert reg.score(y=REST) > -0.1


def test_isolated_nodes_are_predicted_by_their_features():
    alone = np.arange(N) < 40
    keep = sp.diags_array((~alone).astype(float))
    reg = fit(graph=keep @ LINKS @ keep)
    hidden = alone & ~KNOWN
    assert np.corrcoef(reg.predictions_[hidden], X[hidden, 0])[0, 1] > 0.8


def test_names_bring_targets_into_the_order_of_the_nodes(quick):
    names = [f"v{k}" for k in range(N)]
    table = pd.DataFrame(X, index=names, columns=list("abcd"))
    named = {name: y for name, y in zip(names, Y.tolist(), strict=True) if y == y}
    reg = fit(X=table, y=named)
    np.testing.assert_array_equal(reg.predictions_, quick.predictions_)
    assert reg.node_ids_.tolist() == names
    assert reg.feature_names_in_.tolist() == list("abcd")
    rows, columns = sp.triu(LINKS).nonzero()
    table = table.assign(income=Y, town=np.where(PLACE[:, 0] < 0.5, "Oslo", "Rome"))
    ends = pd.DataFrame({"source": np.array(names)[rows], "target": np.array(names)[columns]})
    prepared = fit(X=table, y="income", graph=ends)
    assert prepared.score(y=REST) > quick.score(y=REST) - 0.05
    new = table.drop(columns="income").iloc[:5]
    assert prepared.predict(new, graph=LINKS[:5]).shape == (5,)


def test_experts_are_chosen_by_name():
    assert set(fit(experts=["-trees", "-smoothed"]).choices_["experts"]["value"]) == set(QUICK)
    for experts in (["magic"], [], ["-features"] * 5 + [f"-{name}" for name in EXPERTS], 3):
        with pytest.raises(InputError, match="expert"):
            fit(experts=experts)


def test_it_is_a_regressor_of_scikit_learn(quick):
    again = clone(quick)
    assert again.get_params() == quick.get_params()
    assert not hasattr(again, "predictions_")
    assert is_regressor(quick)


def test_the_report_is_one_page_without_anything_from_elsewhere(full, tmp_path):
    text = full.report(tmp_path / "r.html", coverage=0.85, title="<b>").read_text()
    assert "&lt;b&gt;" in text
    assert "<b>" not in text.split("<h1>")[1].split("</h1>")[0]
    for word in ("residuals", "85", "Intervals", "Content-Security-Policy"):
        assert word in text
    assert "http://" not in text
    assert "https://" not in text
    assert "<script" not in text


def test_kinds_of_links_count_together_and_that_is_said():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = np.where(rng.random(60) < 0.5, X[:, 0], np.nan)
    links = np.ones((60, 60)) - np.eye(60)
    reg = NodeRegressor(experts=["features"], random_state=0)
    reg.fit(X, y, graph={"cites": links, "wrote": links})
    assert reg.choices_["kinds"]["value"] == ["cites", "wrote"]
    with pytest.raises(InputError, match="all kinds of links together"):
        reg.predict(X[:1], graph={"cites": links[:1]})
    with pytest.raises(InputError, match="positive weight"):
        reg.fit(X, y, graph=links - 3 * np.eye(60)[::-1])
    with pytest.warns(UserWarning, match="directed"):
        reg.fit(X, y, graph=rng.random((60, 60)) < 0.1)
