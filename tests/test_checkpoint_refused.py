"""States of other data, other settings, or of nothing are refused, and so is a place for none."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass
from datetime import date
from enum import Enum
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from checkpoint_helpers import EverySweep, make_fit
from cluster_helpers import same_bits
from nodeproof import Problem
from nodeproof.errors import InputError
from nodeproof.graph import Graph
from nodeproof.solvers import BlockCADO, checkpoint
from nodeproof.solvers.checkpoint import fingerprint
from nodeproof.terms import Covariance, Gaussian, Labels, NodeData, Softmax


@pytest.fixture(scope="module")
def begun(kill, tmp_path_factory):
    """Return a function that gives a folder with the state of a fit that was killed."""
    kept: dict[str, Path] = {}

    def copy(case: str, folder: Path) -> Path:
        if case not in kept:
            kept[case] = tmp_path_factory.mktemp("begun")
            kill(case, kept[case], {"sweep": 2})
        return Path(shutil.copytree(kept[case], folder / "state"))

    return copy


def other_label(given):
    given["y"] = given["y"].copy()
    given["y"][np.flatnonzero(given["y"] == 1)[0]] = 2


def other_feature(given):
    given["X"] = given["X"].copy()
    given["X"][-1, -1] += 0.01


def other_words(given):
    """Two counts of a node change places: the length of its text does not tell."""
    X = given["X"] = given["X"].copy()
    at = next(k for k in range(X.indptr[1] - 1) if X.data[k] != X.data[k + 1])
    X.data[[at, at + 1]] = X.data[[at + 1, at]]


def one_link_less(given):
    graph = given["graph"].tolil(copy=True)
    row, column = (int(place[0]) for place in graph.nonzero())
    graph[row, column] = graph[column, row] = 0
    given["graph"] = graph.tocsr()


def other_weights(given):
    given["graph"] = given["graph"] * 2.0


@pytest.mark.parametrize(
    ("case", "change"),
    [
        ("links", other_label), ("links", one_link_less), ("links", other_weights),
        ("features", other_feature), ("words", other_words), ("softmax", other_feature),
    ],
)  # fmt: skip
def test_the_state_of_other_data_is_refused(case, change, begun, tmp_path):
    folder = begun(case, tmp_path)
    before = (folder / "state.npz").read_bytes()
    clf, given = make_fit(case)
    change(given)
    with pytest.raises(InputError, match="other data or settings: remove it"):
        clf.fit(**given, checkpoint=folder)
    assert (folder / "state.npz").read_bytes() == before


@pytest.mark.parametrize(
    "settings",
    [
        {"tol": 1e-4}, {"temperature": 0.5}, {"n_init": 2}, {"max_iter": 50}, {"random_state": 1},
        {"null_model": "degree"}, {"weights": 0.5}, {"weights": (1.0, 2.5, 13.0)},
        {"terms": [Covariance(), Labels(accuracy=0.8)]},
        {"terms": [Softmax(hops=2, confidence=0.9), Labels()]},
    ],
    ids=str,
)  # fmt: skip
def test_the_state_of_other_settings_is_refused(settings, begun, tmp_path):
    folder = begun("features", tmp_path)
    clf, given = make_fit("features")
    with pytest.raises(InputError, match="other data or settings: remove it"):
        clf.set_params(**settings).fit(**given, checkpoint=folder)


def test_settings_that_do_not_show_in_a_name_tell_problems_apart():
    """As the repr of a term does not have all of them."""
    _, given = make_fit("softmax")
    nodes = NodeData(3, given["X"], given["y"], Graph(given["graph"]))
    terms = [Softmax(), Softmax(confidence=0.9), Softmax(sharpness=2.0), Softmax(folds=3)]
    bound = [term.bind(nodes) for term in terms]
    texts = {fingerprint(Problem(nodes.graph, [term], 3)) for term in bound}
    assert len(texts) == 4
    bound[0].first_sharpness  # noqa: B018  # what a term works out is not a setting
    assert fingerprint(Problem(nodes.graph, bound[:1], 3)) in texts
    problems = [Problem(nodes.graph, [], 3), Problem(nodes.graph, [], 3, trust=0.5)]
    problems += [Problem(nodes.graph, [], 4), Problem(None, bound[:1], 3)]
    assert len({fingerprint(problem) for problem in problems}) == 4


def test_one_entry_of_many_tells_problems_apart():
    """A label, a feature, a weight, a link, a row that a solve starts from."""
    n = 700_000
    ring = np.arange(n)
    links = sp.csr_array((np.full(n, 2.0), (ring, (ring + 1) % n)), shape=(n, n))
    links = sp.csr_array(links + links.T)
    X, y, start = np.zeros((n, 3)), np.zeros(n, dtype=np.int64), np.full((n, 2), 0.5)
    graph = Graph(links)

    def text() -> str:
        nodes = NodeData(2, X, y, graph)
        terms = [Gaussian().bind(nodes), Labels().bind(nodes)]
        return fingerprint(Problem(graph, terms, 2), start)

    texts = {text()}
    for array in (X.reshape(-1), y, start.reshape(-1), graph.weights, graph.indices):
        for entry in (0, len(array) // 3, len(array) // 3 + 1, len(array) - 1):
            array[entry] += 1
            texts.add(text())
            array[entry] -= 1
    assert len(texts) == 21


Side = Enum("Side", "LEFT RIGHT")


@dataclass(slots=True)
class Slotted:
    """An object without a dictionary."""

    number: int


def test_what_a_term_of_others_holds_tells_problems_apart():
    """However it is nested."""

    class Table(Labels):
        pass

    _, given = make_fit("links")
    nodes = NodeData(3, y=given["y"])
    texts = set()
    tables = [
        {"a": [np.zeros(3)]}, {"a": [np.ones(3)]}, {"b": [np.ones(3)]}, [1, {2}], np.sum, max, min,
        date(2020, 1, 1), date(2020, 1, 2), Path("a"), Path("b"), Slotted(1), Slotted(2),
        np.random.default_rng(1), np.random.default_rng(2), partial(max, 1), partial(max, 2),
        Side.LEFT, Side.RIGHT,
    ]  # fmt: skip
    for table in tables:
        term = Table().bind(nodes)
        term.table = table
        texts |= {fingerprint(Problem(Graph(given["graph"]), [term], 3)) for _ in range(2)}
    assert len(texts) == len(tables)


def test_hashing_that_takes_long_is_told(monkeypatch, caplog):
    monkeypatch.setattr("nodeproof.runtime.digests._LONG", -1.0)
    _, given = make_fit("links")
    with caplog.at_level("INFO", logger="nodeproof"):
        fingerprint(Problem(Graph(given["graph"]), [], 3))
    assert re.search(r"hashed [0-9.]+ kB of data in 0\.0 s", caplog.text)


@pytest.mark.parametrize("damage", ["empty", "text", "cut", "one byte", "another archive", "array"])
def test_a_damaged_state_is_refused(damage, begun, tmp_path):
    folder = begun("features", tmp_path)
    path = folder / "state.npz"
    content = path.read_bytes()
    if damage == "another archive":
        np.savez(path, W=np.zeros(3))
    elif damage == "array":
        with path.open("wb") as file:
            np.save(file, np.zeros(3))
    else:
        middle = len(content) // 2
        flipped = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
        contents = {"empty": b"", "text": b"PK, or so", "cut": content[:-40], "one byte": flipped}
        path.write_bytes(contents[damage])
    clf, given = make_fit("features")
    with pytest.raises(InputError, match="not a checkpoint that can be read: remove it"):
        clf.fit(**given, checkpoint=folder)


def test_a_state_that_lacks_something_is_refused(begun, tmp_path):
    folder = begun("features", tmp_path)
    with np.load(folder / "state.npz") as read:
        arrays = {name: read[name] for name in read.files if name != "now.0"}
    np.savez(folder / "state.npz", **arrays)
    clf, given = make_fit("features")
    with pytest.raises(InputError, match="not a checkpoint that can be read: remove it"):
        clf.fit(**given, checkpoint=folder)


@pytest.mark.parametrize(
    "wrong",
    [
        {"run_number": "x"},
        {"run_number": 10**6},
        {"run_number": -3},
        {"round_number": "q"},
        {"iteration": None},
        {"iteration": -(10**30)},
        {"starts": "abc"},
        {"starts": ["zz"] * 4},
        {"starts": [{}] * 4},
        {"rng_state": []},
        {"held": "yes"},
        {"begin": "x"},
        {"history": [1]},
        {"history": {"change": ["a"]}},
        {"models": {"terms": 0, "affinity": 1.0}},
        {"models": {"terms": "1", "affinity": 1.0}},
        {"models": {"terms": 1, "affinity": "s"}},
        {"done": [{"models": 3}]},
        {"done": 3},
    ],
    ids=str,
)
def test_a_state_that_no_solve_has_saved_is_refused(wrong, begun, tmp_path):
    folder = begun("features", tmp_path)
    tamper(folder / "state.npz", wrong)
    clf, given = make_fit("features")
    with pytest.raises(InputError, match="not a checkpoint that can be read: remove it") as caught:
        clf.fit(**given, checkpoint=folder)
    assert "\n" not in str(caught.value)


def test_proportions_that_are_no_numbers_are_refused(begun, tmp_path):
    folder = begun("features", tmp_path)
    tamper(folder / "state.npz", {}, "now.log_prior")
    clf, given = make_fit("features")
    with pytest.raises(InputError, match=r"now\.log_prior holds no proportions of classes"):
        clf.fit(**given, checkpoint=folder)


def test_a_result_that_is_none_is_refused(tmp_path):
    clf, given = make_fit("features")
    for number, (wrong, lost, why) in enumerate(
        [
            ({"done": []}, (), "its result"),
            ({"finished": 1}, (), "finished"),
            ({"finished": False}, (), "round_number"),
            ({}, ("done0.0",), "done0.0 holds numbers that are not finite"),
            ({}, ("done0.W",), "done0.W holds no probabilities"),
        ]
    ):
        folder = tmp_path / str(number)
        clf.fit(**given, checkpoint=folder)
        tamper(folder / "state.npz", wrong, *lost)
        with pytest.raises(InputError, match="not a checkpoint that can be read") as caught:
            clf.fit(**given, checkpoint=folder)
        assert why in str(caught.value)


def tamper(path, wrong, *lost):
    """Change entries of the header, and arrays to NaN, with a checksum that is right."""
    with np.load(path) as read:
        arrays = {name: read[name] for name in read.files}
    header = json.loads(arrays.pop("header").tobytes()) | wrong
    for name in lost:
        arrays[name] = np.full_like(arrays[name], np.nan)
    del header["checksum"]
    header["checksum"] = checkpoint._checksum(header, arrays)
    text = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    np.savez(path, header=text, **arrays)


def test_a_folder_that_cannot_be_used_shows_before_the_first_sweep(tmp_path):
    (tmp_path / "file").write_text("taken")

    def fail(progress):
        raise AssertionError("a sweep was done")

    clf, given = make_fit("links")
    clf.set_params(verbose=fail)
    for folder in (tmp_path / "file", tmp_path / "there" / "is" / "no" / "such"):
        with pytest.raises(InputError, match="checkpoints cannot be saved in the folder"):
            clf.fit(**given, checkpoint=folder)


@pytest.mark.parametrize("settings", [{"solver": "cado", "weights": "auto"}, {"n_classes": None}])
def test_checkpoints_are_for_block_cado_with_a_number_of_classes(settings, tmp_path):
    clf, given = make_fit("no labels")
    with pytest.raises(InputError, match="checkpoint needs the solver 'block'"):
        clf.set_params(**settings).fit(**given, checkpoint=tmp_path)


def test_a_solve_from_given_rows_goes_on_and_from_other_starts_does_not(tmp_path):
    _, given = make_fit("links")
    problem = Problem(Graph(given["graph"]), [Labels().bind(NodeData(3, y=given["y"]))], 3)
    start = np.random.default_rng(0).dirichlet(np.ones(3), size=problem.n_nodes)
    solver = BlockCADO(random_state=0, checkpoint=EverySweep(tmp_path))

    def stop(progress):
        return progress.iteration == 4

    solver.solve(problem, start, callback=stop)
    for other in (None, "labels", start[::-1]):
        with pytest.raises(InputError, match="other data or settings"):
            solver.solve(problem, other)
    resumed = solver.solve(problem, start)
    straight = BlockCADO(random_state=0).solve(problem, start)
    assert same_bits(resumed.W, straight.W)
    assert resumed.history == straight.history
