"""Memberships distributed over several workers have the same bits as on one machine."""

from __future__ import annotations

from uuid import uuid4

import numpy as np
import pytest
import scipy.sparse as sp

from cluster_helpers import FakeClient, same_bits, wait_for_fakes
from nodeproof import Problem, kernels
from nodeproof.datasets import make_planted
from nodeproof.distributed import DaskEngine, as_engine
from nodeproof.distributed import engine as dask_engine
from nodeproof.distributed import layout as dask_layout
from nodeproof.distributed import memberships as dask_memberships
from nodeproof.distributed.engine import DaskWorkspace
from nodeproof.distributed.exchange import Peers
from nodeproof.distributed.layout import Layout, Part, cut_block
from nodeproof.distributed.worker import State, connect, make_part, place
from nodeproof.errors import InputError
from nodeproof.graph import Graph
from nodeproof.problem import PAPER_WEIGHTS
from nodeproof.runtime import threads
from nodeproof.solvers import BlockCADO, sweep
from nodeproof.solvers.memberships import LocalWorkspace
from nodeproof.storage.graph_files import read_header
from nodeproof.storage.graph_folder import write_graph_folder
from nodeproof.storage.row_files import mapped_file
from nodeproof.terms import (
    Categorical,
    Counts,
    Covariance,
    Gaussian,
    Labels,
    Multinomial,
    NodeData,
    Regression,
    Softmax,
)

K = 3
PARTS = [1, 2, 3, 5]


@pytest.fixture(autouse=True)
def small_ranges(monkeypatch):
    """Let graphs of some hundred nodes have many ranges and cells, and fakes be waited for."""
    monkeypatch.setattr(threads, "ROWS", 64)
    monkeypatch.setattr(sweep, "_CELL", 16)
    monkeypatch.setattr(DaskWorkspace, "wait", wait_for_fakes)


@pytest.fixture(scope="module")
def data():
    return make_planted(
        K, 130, p=0.06, q=0.02, omega=0.5, label_ratio=0.1, label_accuracy=0.9, random_state=0
    )


@pytest.fixture(scope="module")
def words(data):
    rng = np.random.default_rng(1)
    shares = rng.dirichlet(np.ones(20), size=K)
    return sp.csr_array(np.stack([rng.multinomial(15, shares[c]) for c in data.y_true]))


def weighted(data) -> sp.csr_array:
    upper = sp.triu(data.graph, 1).tocsr()
    upper.data = np.random.default_rng(2).uniform(0.3, 3.0, size=upper.nnz)
    return sp.csr_array(upper + upper.T)


def with_isolated(data) -> sp.csr_array:
    keep = np.ones(data.graph.shape[0])
    keep[np.r_[0, 5:9, 60:70, 200:290, -1]] = 0.0
    kept = sp.diags_array(keep) @ data.graph @ sp.diags_array(keep)
    kept.eliminate_zeros()
    return sp.csr_array(kept)


def make_problem(name: str, data, words) -> Problem:
    nodes = NodeData(K, data.X, data.y, Graph(data.graph))
    labels = Labels().bind(nodes)
    graph = Graph(data.graph, "uniform")
    counts = Multinomial(trust=0.3).bind(NodeData(K, words, data.y))
    missing = np.random.default_rng(4).random((len(data.y), 6)) < 0.2
    holes = NodeData(K, np.where(missing, np.nan, np.round(np.abs(3.0 * data.X))))
    columns = [Counts([0, 1]), Categorical([2, 3]), Regression(4, [5, 0])]
    return {
        "graph": lambda: Problem(graph, [], K),
        "graph, labels": lambda: Problem(graph, [labels], K),
        "covariance": lambda: Problem(graph, [Covariance().bind(nodes), labels], K),
        "intercept": lambda: Problem(graph, [Covariance(intercept=True).bind(nodes), labels], K),
        "diagonal": lambda: Problem(graph, [Gaussian("diagonal").bind(nodes), labels], K),
        "full": lambda: Problem(graph, [Gaussian("full").bind(nodes), labels], K),
        "shared": lambda: Problem(graph, [Gaussian("shared").bind(nodes), labels], K),
        "sparse": lambda: Problem(graph, [Gaussian().bind(NodeData(K, words)), labels], K),
        "missing": lambda: Problem(graph, [*(term.bind(holes) for term in columns), labels], K),
        "words": lambda: Problem(graph, [counts, labels], K),
        "softmax": lambda: Problem(graph, [Softmax(hops=2).bind(nodes), labels], K),
        "several": lambda: Problem(
            graph, [Softmax(hops=1, rounds=1).bind(nodes), counts, labels], K, trust=0.5
        ),
        "weighted": lambda: Problem(Graph(weighted(data), "uniform"), [labels], K),
        "degree": lambda: Problem(Graph(weighted(data), "degree"), [labels], K),
        "isolated": lambda: Problem(Graph(with_isolated(data)), [labels], K),
        "no graph": lambda: Problem(None, [Covariance().bind(nodes), labels], K),
        "fixed weights": lambda: Problem(
            graph, [Covariance().bind(nodes), labels], K, weights=PAPER_WEIGHTS, threshold=0.05
        ),
    }[name]()


PROBLEMS = [
    "graph", "graph, labels", "covariance", "intercept", "diagonal", "full", "shared", "sparse",
    "missing", "words", "softmax", "several", "weighted", "degree", "isolated", "no graph",
    "fixed weights",
]  # fmt: skip


def draw_rows(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.ones(K), size=n).astype(np.float32)


def everything(rows, problem: Problem, matrix: bool, temperature: float) -> list:
    """Do with rows all that a solver does; return all answers, in order."""
    terms = rows.fit_terms(None, 1e-4)
    sums = rows.sums(matrix)
    answers = [terms, sums.totals, sums.sizes, sums.squares, sums.pairs]
    if problem.graph is not None:
        answers += [rows.link_mass(), rows.link_mass(True)]
        for look in (False, True):
            affinity = rows.assumed(problem.labels, look)
            answers += [affinity.ell, affinity.ell_t]
    models = problem.fit_models(np.asarray(rows.W), matrix)
    answers.append(rows.energy(models, temperature))
    for totals in (None, sums.totals):
        change, links = rows.sweep(models, temperature, totals)
        answers += [change, links, np.asarray(rows.W).copy()]
    answers.append(rows.fit_terms(terms, 1e-4))
    if problem.labels is not None:
        answers.append(rows.agreement(problem.labels))
    rows.reorder(np.array([2, 0, 1]))
    answers += [rows.fetch().copy(), *rows.sweep(models, temperature)]
    answers += [rows.sums(True).pairs, rows.energy(models, temperature), rows.fetch()]
    return answers


def same_in_parts(problem: Problem, n_parts: int, matrix: bool = False, temperature: float = 1.0):
    start = draw_rows(problem.n_nodes)
    with threads.using(1):
        here = everything(LocalWorkspace(problem).place(start.copy()), problem, matrix, temperature)
        spread = DaskEngine(FakeClient(n_parts)).open(problem).place(start)
        there = everything(spread, problem, matrix, temperature)
    differ = [k for k, (a, b) in enumerate(zip(here, there, strict=True)) if not same_bits(a, b)]
    assert differ == []


@pytest.mark.parametrize(
    ("name", "n_parts"),
    [
        *((name, 3) for name in PROBLEMS),
        *((name, n_parts) for name in ("several", "degree") for n_parts in PARTS if n_parts != 3),
    ],
)
def test_parts_do_all_that_one_machine_does(name, n_parts, data, words):
    same_in_parts(make_problem(name, data, words), n_parts)


@pytest.mark.parametrize(
    ("name", "temperature", "matrix"),
    [
        ("graph, labels", 0.0, False),
        ("graph, labels", 0.4, True),
        ("covariance", 0.0, True),
        ("covariance", 0.4, False),
        ("degree", 0.0, True),
        ("degree", 0.4, True),
    ],
)
def test_parts_do_so_for_other_affinities_and_temperatures(name, temperature, matrix, data, words):
    same_in_parts(make_problem(name, data, words), 3, matrix, temperature)


@pytest.mark.parametrize(
    ("n_batches", "charged", "shared"),
    [
        (1, 1, 0),
        (1, 2**18, 10**9),
        (4, 100, 0),
        (4, 1, 10**9),
        (11, 2**18, 0),
        (11, 100, 10**9),
        (1000, 100, 0),
        (1000, 1, 10**9),
    ],
)
def test_batches_may_end_anywhere(n_batches, charged, shared, data, words, monkeypatch):
    """Within ranges and cells, or beyond several; costs are charged for few rows or many."""
    monkeypatch.setattr(sweep, "_BATCHES", n_batches)
    monkeypatch.setattr(sweep, "_BATCHES_PER_CLASS", 0)
    monkeypatch.setattr(sweep, "_CHARGED", charged)
    monkeypatch.setattr(sweep, "_WORTH_SHARING", shared)
    same_in_parts(make_problem("diagonal", data, words), 3)


def test_cells_may_be_as_large_as_ranges(data, words, monkeypatch):
    monkeypatch.setattr(sweep, "_MANY_ROWS", 1)
    same_in_parts(make_problem("covariance", data, words), 3)


@pytest.mark.parametrize(
    "term",
    [
        Covariance(),
        Covariance(intercept=True),
        Gaussian("diagonal"),
        Gaussian("full"),
        Regression(),
    ],
    ids=str,
)
def test_costs_are_the_same_to_the_last_bit(term, random_graph, monkeypatch):
    """A product with few rows has other last bits than one with many, which rarely shows in W."""
    n, n_classes = 1060, 10  # 17 rows a batch
    rng = np.random.default_rng(0)
    nodes = NodeData(n_classes, rng.standard_normal((n, 16)))
    problem = Problem(Graph(random_graph(n, 0.01)), [term.bind(nodes)], n_classes)
    rows = rng.dirichlet(np.ones(n_classes), size=n).astype(np.float32)
    models = problem.fit_models(rows)
    charged: list[np.ndarray] = []
    solve, advance = kernels.sweep_batches, sweep.Charges.advance

    def spy_here(charges, begin, end):
        advance(charges, begin, end)
        charged.append(charges.costs[begin - charges.first : end - charges.first].copy())

    def spy_there(*arguments):
        lo, hi, costs, begin, in_place = (arguments[k] for k in (3, 4, 13, 14, 25))
        if not in_place:
            charged.append(costs[lo - begin : hi - begin].copy())
        solve(*arguments)

    monkeypatch.setattr(sweep.Charges, "advance", spy_here)
    monkeypatch.setattr(kernels, "sweep_batches", spy_there)
    monkeypatch.setattr(sweep, "_CHARGED", 3 * 17 * n_classes)
    found = []
    for engine in (LocalWorkspace(problem), DaskEngine(FakeClient(3)).open(problem)):
        with threads.using(1):
            engine.place(rows.copy()).sweep(models, 1.0)
        found.append(charged.copy())
        charged.clear()
    here, there = map(np.concatenate, found)
    assert here.shape == (n, n_classes)
    # Workers take turns within a batch: costs are compared in an order of their own.
    assert same_bits(here[np.lexsort(here.T)], there[np.lexsort(there.T)])


@pytest.mark.parametrize("n", [7, 64, 65, 129])
def test_some_parts_may_have_no_nodes(n, random_graph):
    rng = np.random.default_rng(3)
    nodes = NodeData(K, rng.standard_normal((n, 2)), rng.integers(-1, K, size=n))
    terms = [Covariance().bind(nodes), Gaussian("full").bind(nodes), Labels().bind(nodes)]
    same_in_parts(Problem(Graph(random_graph(n, 0.2)), terms, K), 5)


def same_solves(problem: Problem, client: FakeClient, **settings) -> None:
    here = BlockCADO(random_state=0, n_jobs=1, **settings).solve(problem)
    there = BlockCADO(random_state=0, n_jobs=1, engine=DaskEngine(client), **settings).solve(
        problem
    )
    assert there.status is here.status
    assert there.history == here.history
    assert there.value == here.value
    assert same_bits(there.W, here.W)
    assert same_bits(there.models.terms, here.models.terms)
    assert same_bits(there.models.log_prior, here.models.log_prior)
    if problem.graph is not None:
        assert same_bits(there.models.affinity.ell, here.models.affinity.ell)
        assert same_bits(there.models.affinity.ell_t, here.models.affinity.ell_t)


@pytest.fixture
def few_batches(monkeypatch):
    """Fewer tasks: solves are about what follows on what."""
    monkeypatch.setattr(sweep, "_BATCHES", 8)
    monkeypatch.setattr(sweep, "_BATCHES_PER_CLASS", 0)


@pytest.mark.parametrize("name", PROBLEMS)
def test_whole_solves_have_the_same_bits(name, data, words, few_batches):
    same_solves(make_problem(name, data, words), FakeClient(3), n_init=2, max_iter=8)


@pytest.mark.parametrize("n_parts", [1, 5])
def test_whole_solves_have_the_same_bits_in_any_number_of_parts(n_parts, data, words):
    same_solves(make_problem("covariance", data, words), FakeClient(n_parts), n_init=1, max_iter=5)


@pytest.mark.parametrize(
    "settings",
    [{"affinities": "matrix"}, {"temperature": 0.0}, {"hold": 0}, {"n_init": 5}],
    ids=["matrix", "hard", "no hold", "five starts"],
)
def test_solves_with_other_settings_have_the_same_bits(settings, data, words, few_batches):
    problem = make_problem("graph, labels", data, words)
    same_solves(problem, FakeClient(3), **({"n_init": 2, "max_iter": 8} | settings))


@pytest.mark.parametrize("name", ["graph", "covariance", "shared", "words", "several", "degree"])
def test_hard_solves_find_the_same_labels(name, data, words, few_batches):
    """Sums of weights are added up in float64 here, in float32 there."""
    problem = make_problem(name, data, words)
    settings = {"random_state": 0, "n_init": 2, "max_iter": 8, "temperature": 0.0}
    here = BlockCADO(**settings).solve(problem)
    there = BlockCADO(engine=DaskEngine(FakeClient(3)), **settings).solve(problem)
    assert same_bits(there.W, here.W)
    assert there.n_iter == here.n_iter
    assert there.value == pytest.approx(here.value, rel=1e-6)


def test_callbacks_can_read_memberships_and_stop(data, words, few_batches):
    problem = make_problem("graph, labels", data, words)
    seen: dict[str, list] = {"here": [], "there": []}

    def watch(place):
        def callback(progress):
            seen[place].append(np.asarray(progress.W).tobytes())
            return progress.iteration == 3

        return callback

    BlockCADO(random_state=0, n_init=1).solve(problem, callback=watch("here"))
    engine = DaskEngine(FakeClient(2))
    BlockCADO(random_state=0, n_init=1, engine=engine).solve(problem, callback=watch("there"))
    assert len(seen["here"]) == 3
    assert seen["there"] == seen["here"]


# What travels. --------------------------------------------------------------------------


def make_parts(problem: Problem, n_parts: int) -> list[Part]:
    layout = Layout.of(problem, n_parts)
    key = uuid4().hex
    parts = [make_part(layout, p, cut_block(problem, layout, p), key) for p in range(n_parts)]
    for part in parts:
        connect(part, key, Peers([""] * n_parts))
    return parts


def states_of(rows) -> list[State]:
    return [done.value.state for done in rows._states]


@pytest.fixture
def path_of_ranges() -> Problem:
    """A path of 256 nodes in four ranges: only nodes at their ends are linked across."""
    steps = np.ones(255)
    return Problem(Graph(sp.diags_array([steps, steps], offsets=[-1, 1]).tocsr()), [], K)


def test_a_part_asks_for_the_far_ends_of_its_links_only(path_of_ranges):
    """Of four parts, the first is linked to the second only, the second to both neighbours."""
    parts = make_parts(path_of_ranges, 4)
    assert [part.rows_received for part in parts] == [1, 2, 2, 1]
    assert [len(part.asks[1]) for part in parts] == [1, 0, 1, 0]
    assert {q: w[0].tolist() for q, w in parts[1].wanted.items()} == {0: [0], 2: [63], 3: []}


def test_a_part_answers_with_its_memberships(path_of_ranges):
    W = draw_rows(256)
    _, second, *_ = make_parts(path_of_ranges, 4)
    answers = [second.answer(W[64:128], 2, step) for step in range(len(second.wanted[2][1]) - 1)]
    np.testing.assert_array_equal(np.concatenate(answers), W[[127]])


def test_old_memberships_are_answered_with_until_the_turn_is_over(path_of_ranges):
    part, *_ = make_parts(path_of_ranges, 2)
    W = draw_rows(part.n_own)
    state = place(part, W, "key", Peers(["", ""])).state
    new = draw_rows(part.n_own, seed=1)
    state.pending = 7, [(0, new)]
    asked = part.wanted[1][0]
    steps = range(len(part.wanted[1][1]) - 1)
    for turn, rows in ((7, W), (8, new)):
        answers = np.concatenate([state.answer(turn, 1, step) for step in steps])
        np.testing.assert_array_equal(answers, rows[asked])


def test_workers_exchange_boundary_memberships_only(path_of_ranges):
    rows = DaskEngine(FakeClient(2)).open(path_of_ranges).place(draw_rows(256))
    rows.sums()
    models = path_of_ranges.fit_models(draw_rows(256))
    for _ in range(2):
        rows.sweep(models, 1.0)
    # Each of six ends goes to the one other part, in each sweep.
    assert [state.rows_received for state in states_of(rows)] == [2 * 3, 2 * 3]
    assert [state.part.rows_received for state in states_of(rows)] == [3, 3]
    rows.link_mass()
    assert [state.rows_received for state in states_of(rows)] == [3 * 3, 3 * 3]


@pytest.mark.parametrize("most", [1, 5, 40])
def test_a_step_has_few_links_to_other_parts(most, data, words, monkeypatch):
    monkeypatch.setattr(dask_layout, "_FEWEST", most)
    monkeypatch.setattr(dask_layout, "_COPIES", 10**6)
    problem = make_problem("degree", data, words)
    for part in make_parts(problem, 3):
        assert sum(step.hi - step.lo for step in part.steps) == part.n_own
        crowded = part.counts.sum(axis=1) > most
        assert all(part.steps[k].hi - part.steps[k].lo == 1 for k in np.flatnonzero(crowded))
    same_in_parts(problem, 3)


def test_links_to_all_nodes_need_copies_of_few_at_a_time(random_graph, monkeypatch):
    """In a random graph every part is linked to all nodes, but holds copies for one step."""
    monkeypatch.setattr(dask_layout, "_FEWEST", 1)
    n = 4000
    parts = make_parts(Problem(Graph(random_graph(n, 20 / n)), [], K), 4)
    for part in parts:
        assert part.rows_received > n / 2
        assert part.n_own + part.n_copies < n / 3


def test_parts_hold_their_own_links_once(data, words):
    problem = make_problem("weighted", data, words)
    parts = make_parts(problem, 3)
    held = [len(part.indices) for part in parts]
    assert sum(held) == problem.graph.n_entries
    assert max(held) < 0.45 * sum(held)
    assert all(len(part.block.indices) == 0 for part in parts)
    assert [len(part.block.weights) for part in parts] == held


@pytest.mark.parametrize("seen", [True, False, "another"], ids=["seen", "not seen", "another"])
def test_links_in_a_folder_are_read_by_workers_that_see_it(
    seen, data, words, tmp_path, monkeypatch, few_batches
):
    write_graph_folder(tmp_path / "graph", data.graph)
    problem = Problem(Graph(tmp_path / "graph"), make_problem("covariance", data, words).terms, K)
    client = FakeClient(3)
    read = []
    read_links = dask_engine.read_links
    monkeypatch.setattr(dask_engine, "read_links", lambda *a: read.append(a) or read_links(*a))
    if seen is not True:
        write_graph_folder(tmp_path / "other", data.graph[:200, :200])
        found = read_header(tmp_path / "other") if seen == "another" else None
        client.run = lambda function, *arguments, workers: dict.fromkeys(workers, found)
    same_solves(problem, client, n_init=1, max_iter=3)
    assert len(read) == (3 if seen is True else 0)


def test_memberships_are_left_in_files(data, words, tmp_path, few_batches, monkeypatch):
    """Those to start from, those saved on the way, and the result: all survive a loss."""
    problem = make_problem("covariance", data, words)
    start = 3.0 * draw_rows(problem.n_nodes)
    settings = {"n_init": 1, "max_iter": 4, "n_jobs": 1}
    here = BlockCADO(**settings).solve(problem, start)
    monkeypatch.setattr(dask_engine, "_AT_ONCE", 100)
    monkeypatch.setattr(dask_memberships, "_BACKUP_EVERY", -1.0)
    for lose_at in ((), (30, 90)):
        client = FakeClient(3, lose_at)
        there = BlockCADO(engine=DaskEngine(client, tmp_path), **settings).solve(problem, start)
        assert mapped_file(there.W) is not None
        assert same_bits(there.W, here.W)
        assert there.value == here.value
        assert client.n_lost == len(lose_at)
        assert not list(tmp_path.iterdir())


def test_a_folder_that_workers_do_not_see_is_not_used(data, words, tmp_path, few_batches):
    problem = make_problem("graph, labels", data, words)
    client = FakeClient(2)
    client.run = lambda function, *arguments, workers: dict.fromkeys(workers)
    solver = BlockCADO(engine=DaskEngine(client, tmp_path), n_init=1, max_iter=2)
    with pytest.warns(UserWarning, match="not all workers of the cluster see"):
        result = solver.solve(problem)
    assert mapped_file(result.W) is None
    assert not list(tmp_path.iterdir())


def test_models_are_sent_once_per_sweep(data, words, monkeypatch):
    sent = []
    order = dask_memberships.DaskMemberships._order

    def spy(self, p, action, *arguments):
        sent.extend(action for argument in arguments if hasattr(argument, "log_prior"))
        return order(self, p, action, *arguments)

    monkeypatch.setattr(dask_memberships.DaskMemberships, "_order", spy)
    problem = make_problem("covariance", data, words)
    rows = DaskEngine(FakeClient(3)).open(problem).place(draw_rows(problem.n_nodes))
    rows.sweep(problem.fit_models(draw_rows(problem.n_nodes)), 1.0)
    assert sent == ["adopt"] * 3


# Losses. --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["covariance", "several", "degree"])
def test_a_worker_lost_at_any_time_changes_nothing(name, data, words, few_batches):
    problem = make_problem(name, data, words)
    settings = {"random_state": 0, "n_jobs": 1, "n_init": 2, "max_iter": 3}
    client = FakeClient(3)
    undisturbed = BlockCADO(engine=DaskEngine(client), **settings).solve(problem)
    for number in range(1, client.n_tasks, client.n_tasks // 11):
        losing = FakeClient(3, lose_at=(number,))
        result = BlockCADO(engine=DaskEngine(losing), **settings).solve(problem)
        assert losing.n_lost == 1
        assert same_bits(result.W, undisturbed.W), number
        assert result.value == undisturbed.value, number
        assert result.history == undisturbed.history, number


def test_workers_may_be_lost_during_recovery(data, words, few_batches):
    problem = make_problem("covariance", data, words)
    client = FakeClient(3, lose_at=(40, 45, 60, 62, 100))
    same_solves(problem, client, n_init=1, max_iter=3)
    assert client.n_lost >= 4


def test_fewer_workers_do_where_none_comes(data, words, few_batches):
    problem = make_problem("graph, labels", data, words)
    client = FakeClient(3, lose_at=(50, 120))
    client.comes = False
    same_solves(problem, client, n_init=1, max_iter=4)
    assert len(client.workers) == 1


def test_memberships_that_were_fetched_are_not_recomputed(data, words, few_batches, monkeypatch):
    problem = make_problem("graph, labels", data, words)
    models = problem.fit_models(draw_rows(problem.n_nodes))
    swept = []
    step = dask_memberships.DaskMemberships._sweep
    monkeypatch.setattr(
        dask_memberships.DaskMemberships,
        "_sweep",
        lambda self, *a: swept.append(1) or step(self, *a),
    )
    client = FakeClient(3)
    rows = DaskEngine(client).open(problem).place(draw_rows(problem.n_nodes))
    for _ in range(3):
        rows.sweep(models, 1.0)
    rows.fetch()
    rows.sweep(models, 1.0)
    client.lose(client.workers[0])
    assert len(swept) == 4
    rows.sums()
    assert len(swept) == 5
    monkeypatch.setattr(dask_memberships, "_BACKUP_EVERY", -1.0)  # fetched after every sweep
    rows.sweep(models, 1.0)
    client.lose(client.workers[0])
    rows.sums()
    assert len(swept) == 6


def test_no_worker_at_all_is_one_line(data, words):
    problem = make_problem("graph", data, words)
    with pytest.raises(InputError, match="no workers"):
        BlockCADO(engine=DaskEngine(FakeClient(0)), n_init=1).solve(problem)


def test_after_all_workers_are_lost_a_fit_ends_within_half_a_minute(data, words, few_batches):
    problem = make_problem("graph", data, words)
    client, waited = FakeClient(2), []

    def wait_for_workers(n_workers, timeout):
        waited.append(timeout)
        raise TimeoutError("no worker came")

    client.comes, client.wait_for_workers = False, wait_for_workers
    rows = DaskEngine(client).open(problem).place(draw_rows(problem.n_nodes))
    rows.sums()
    for worker in list(client.workers):
        client.lose(worker)
    with pytest.raises(InputError, match="has no workers, and none joined within 20 seconds"):
        rows.sums()
    assert waited == [20]


@pytest.mark.parametrize("status", ["connecting", "closed"])
def test_a_lost_scheduler_is_one_line(data, words, few_batches, monkeypatch, status):
    monkeypatch.setattr(dask_engine, "_PATIENCE", 0.0)
    problem = make_problem("graph", data, words)
    client = FakeClient(2)
    rows = DaskEngine(client).open(problem).place(draw_rows(problem.n_nodes))
    rows.sums()
    for worker in list(client.workers):
        client.lose(worker)  # with the scheduler, all that was asked for is cancelled
    client.status = status
    monkeypatch.setattr(client, "scheduler_info", lambda n_workers: {})
    with pytest.raises(InputError, match="scheduler of the Dask cluster is gone"):
        rows.sums()


def test_a_scheduler_that_answers_again_in_time_goes_on(data, words, few_batches, monkeypatch):
    problem = make_problem("graph", data, words)
    client = FakeClient(2)
    rows = DaskEngine(client).open(problem).place(draw_rows(problem.n_nodes))
    expected = rows.sums().totals
    client.lose(client.workers[0])
    silent, tell = [{}, {}], client.scheduler_info
    monkeypatch.setattr(
        client, "scheduler_info", lambda n_workers: silent.pop() if silent else tell()
    )
    np.testing.assert_array_equal(rows.sums().totals, expected)
    assert silent == []


def test_workers_that_are_lost_forever_end_the_fit(data, words, few_batches):
    problem = make_problem("graph", data, words)
    client = FakeClient(2, lose_at=tuple(range(1, 10_000)))
    with pytest.raises(InputError, match="lost 20 times"):
        BlockCADO(engine=DaskEngine(client), n_init=1).solve(problem)


def test_an_error_of_a_healthy_worker_is_not_taken_for_a_loss(data, words, monkeypatch):
    monkeypatch.setattr(dask_memberships, "_CERTAINTY", 0.2)
    problem = make_problem("covariance", data, words)
    problem.terms[0].cut = lambda ranges: _failing(problem.terms[0])
    client = FakeClient(2)
    with pytest.raises(PermissionError, match="no way"):
        BlockCADO(engine=DaskEngine(client), n_init=1).solve(problem)


def _failing(term):
    failing = Covariance().bind(NodeData(K, term.X))
    failing.sums = _fail
    return failing


def _fail(*arguments):
    raise PermissionError("no way")


def test_clients_and_names_become_engines():
    client, own = FakeClient(2), DaskEngine(FakeClient(1))
    assert as_engine(None) is None
    assert as_engine("dask") == DaskEngine()
    assert as_engine(client).client is client
    assert as_engine(own) is own
    for wrong in ("spark", 4, object()):
        with pytest.raises(InputError, match="engine must be None"):
            as_engine(wrong)


def test_a_solver_takes_engines_only():
    for wrong in ("dask", FakeClient(2), 4):
        with pytest.raises(InputError, match="DaskEngine"):
            BlockCADO(engine=wrong)


def test_a_sum_of_norms_is_refused(data, words):
    nodes = NodeData(K, data.X, data.y)
    problem = Problem(
        Graph(data.graph), [Covariance().bind(nodes)], K, weights=PAPER_WEIGHTS, son=0.1
    )
    with pytest.raises(InputError, match="sum of norms"):
        BlockCADO(engine=DaskEngine(FakeClient(2)), n_init=1).solve(problem)
