"""Fits that are killed and resumed end with the same bits; other states are refused."""

from __future__ import annotations

import json
import shutil
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from checkpoint_helpers import EverySweep, found, killer, make_fit
from cluster_helpers import FakeClient, same_bits, wait_for_fakes
from nodeproof import NodeClassifier, Problem
from nodeproof.affinity import Affinity
from nodeproof.digests import fingerprint
from nodeproof.engines.dask import DaskEngine
from nodeproof.errors import InputError
from nodeproof.graph import Graph
from nodeproof.problem import Models
from nodeproof.solvers import BlockCADO, Result, Status, checkpoint
from nodeproof.solvers.checkpoint import Checkpoint, Saved, Session
from nodeproof.terms import Covariance, Labels, NodeData, Softmax

# Where each fit is killed: in the first start before any round, unless something else is said.
KILLS = {
    "links": {"sweep": 3},
    "no labels": {"sweep": 2},
    "features": {"sweep": 4},
    "starts": {"run": 2, "sweep": 2},
    "softmax": {"round": 1, "sweep": 1},
    "words": {"sweep": 2},
    "matrix": {"sweep": 9},
    "hard": {"sweep": 1},
    "fixed": {"sweep": 5},
    "auto": {"sweep": 3},
}


@pytest.fixture(scope="module")
def unbroken():
    """Return what a fit finds that nobody kills."""
    known: dict[str, list] = {}

    def fit(case: str) -> list:
        if case not in known:
            clf, given = make_fit(case)
            known[case] = found(clf.fit(**given))
        return known[case]

    return fit


@pytest.fixture(scope="module")
def kill():
    """Return a function that lets a fit begin in another process, and be killed."""
    with killer() as ask:

        def run(case: str, folder: Path, moment: dict[str, int]) -> None:
            assert ask(case, folder, moment) == -9

        yield run


def resume(case: str, folder: Path) -> list:
    clf, given = make_fit(case)
    return found(clf.fit(**given, checkpoint=EverySweep(folder)))


@pytest.mark.parametrize("case", KILLS)
def test_a_fit_that_was_killed_ends_with_the_same_bits(case, kill, unbroken, tmp_path):
    kill(case, tmp_path / "state", KILLS[case])
    with np.load(tmp_path / "state" / "state.npz") as state:
        header = json.loads(state["header"].tobytes())
    assert header["iteration"] == KILLS[case]["sweep"]
    assert resume(case, tmp_path / "state") == unbroken(case)


def test_it_may_be_killed_after_any_sweep(kill, unbroken, tmp_path):
    sweeps = unbroken("features")[4]
    for sweep in range(1, sweeps):
        kill("features", tmp_path / str(sweep), {"sweep": sweep})
        assert resume("features", tmp_path / str(sweep)) == unbroken("features"), sweep


def test_it_may_be_killed_again_and_again(kill, unbroken, tmp_path):
    """In the same process, or in others: what was begun from a state is as good as any."""
    for moment in ({"sweep": 2}, {"sweep": 3}, {"run": 2, "sweep": 1}, {"run": 3, "sweep": 4}):
        kill("starts", tmp_path, moment)
    assert resume("starts", tmp_path) == unbroken("starts")


@pytest.mark.parametrize("size", [0, 100, 5000])
def test_a_state_is_never_half_written(size, kill, unbroken, tmp_path):
    kill("links", tmp_path, {"sweep": 3})
    whole = (tmp_path / "state.npz").read_bytes()
    kill("links", tmp_path, {"sweep": 5, "bytes": size})
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    left = {str(path.relative_to(tmp_path)): path.stat().st_size for path in files}
    # That of sweep 4, which was saved whole, and what was to replace it.
    assert left.pop("state.npz") == pytest.approx(len(whole), abs=200)
    assert left.pop("lock") > 0
    assert list(left.values()) == [size]
    assert resume("links", tmp_path) == unbroken("links")
    assert {path.name for path in tmp_path.iterdir()} == {"lock", "state.npz"}


def test_a_fit_on_a_cluster_goes_on_here_and_the_other_way(kill, unbroken, tmp_path, monkeypatch):
    monkeypatch.setattr(DaskEngine, "wait", wait_for_fakes)
    kill("features", tmp_path, {"sweep": 3})
    clf, given = make_fit("features")
    clf.set_params(engine=FakeClient(2), n_jobs=2)
    assert found(clf.fit(**given, checkpoint=EverySweep(tmp_path))) == unbroken("features")


def test_the_state_is_kept_where_a_fit_is_interrupted(unbroken, tmp_path):
    clf, given = make_fit("features")

    def interrupt(progress):
        if progress.iteration == 4:
            raise KeyboardInterrupt

    clf.set_params(verbose=interrupt)
    with pytest.raises(KeyboardInterrupt):
        clf.fit(**given, checkpoint=EverySweep(tmp_path))
    assert (tmp_path / "state.npz").exists()
    assert resume("features", tmp_path) == unbroken("features")


def test_starts_that_come_after_are_drawn_as_they_would_have_been(tmp_path):
    clf, given = make_fit("no labels")

    def fit(verbose, checkpoint=None):
        clf.set_params(n_init=5, verbose=verbose).fit(**given, checkpoint=checkpoint)
        return found(clf)

    def tell(steps):
        return lambda progress: steps.append((progress.run, progress.iteration, progress.change))

    def interrupt(progress):
        if progress.run == 3 and progress.iteration == 2:
            raise KeyboardInterrupt

    straight: list[tuple] = []
    resumed: list[tuple] = []
    expected = fit(tell(straight))
    with pytest.raises(KeyboardInterrupt):
        fit(interrupt, EverySweep(tmp_path))
    assert fit(tell(resumed), EverySweep(tmp_path)) == expected
    assert resumed[0][:2] == (3, 2)
    assert resumed == straight[-len(resumed) :]


# What is saved. -------------------------------------------------------------------------


def make_session(n: int = 5, K: int = 3) -> Session:
    """Return a session with everything in it."""
    rng = np.random.default_rng(0)

    def models(matrix: bool) -> Models:
        shape = (K, K) if matrix else (1, 1)
        affinity = Affinity(rng.standard_normal(shape), rng.standard_normal(shape), 0.1 + 0.2)
        terms = (rng.standard_normal((K, 2, 2)), np.asfortranarray(rng.standard_normal((K, 4))))
        return Models(affinity, terms, rng.standard_normal(K))

    def result(matrix: bool) -> Result:
        W = rng.dirichlet(np.ones(K), size=n).astype(np.float32)
        history = {"change": [1 / 3, 1e-300, 0.1], "ell": [float("inf")]}
        return Result(W, models(matrix), -1 / 7, Status.MAX_ITER, 17, history)

    generator = np.random.default_rng(5)
    generator.integers(10, dtype=np.int32)  # leaves half of a draw behind
    history = defaultdict(list, {"change": [0.3, 0.2]})
    begin = Affinity(np.array([[0.7]]), np.array([[0.01]]))
    rows = rng.dirichlet(np.ones(K), size=n).astype(np.float32)
    now = Saved(1, 12, models(True), True, begin, history, rows)
    starts = ["labels", "spectral", "random"]
    return Session(2, starts, generator.bit_generator.state, result(False), result(True), now)


def flat(thing) -> list:
    """Return all numbers, texts and bytes in it."""
    if isinstance(thing, np.ndarray):
        return [thing.dtype.str, thing.shape, thing.flags.f_contiguous, thing.tobytes()]
    if isinstance(thing, dict):
        return [(name, flat(thing[name])) for name in sorted(thing)]
    if isinstance(thing, list | tuple):
        return [flat(entry) for entry in thing]
    if hasattr(thing, "__dataclass_fields__"):
        return [flat(getattr(thing, name)) for name in thing.__dataclass_fields__]
    return [thing]


@pytest.mark.parametrize("whole", [True, False], ids=["all", "little"])
def test_a_session_comes_back_as_it_was(whole, tmp_path):
    session = make_session()
    if not whole:
        now = replace(session.now, begin=None, models=Models(None, (), np.zeros(3)), held=False)
        session = replace(session, run_number=1, best=None, before=None, starts=[None], now=now)
    Checkpoint(tmp_path).save(session)
    loaded = Checkpoint(tmp_path).load()
    assert flat(loaded) == flat(session)
    loaded.now.history["more"].append(1.0)  # a list where there was none, as in a solve
    generator = np.random.default_rng(0)
    generator.bit_generator.state = loaded.rng_state


def test_there_is_no_state_at_first_and_none_once_it_is_removed(tmp_path):
    checkpoint = Checkpoint(tmp_path / "state")
    assert checkpoint.load() is None
    checkpoint.save(make_session())
    assert checkpoint.load() is not None
    checkpoint.remove()
    checkpoint.remove()
    assert checkpoint.load() is None


def test_saving_takes_a_tenth_of_the_time_at_most(tmp_path, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("nodeproof.solvers.checkpoint.time.monotonic", lambda: clock[0])
    checkpoint = Checkpoint(tmp_path, every=60.0)
    monkeypatch.setattr(
        "nodeproof.solvers.checkpoint.write_npz",
        lambda *a, **k: clock.__setitem__(0, clock[0] + 20),
    )
    checkpoint.load()
    for now, due in [(0, False), (59, False), (60, True)]:
        clock[0] = now
        assert checkpoint.due() is due
    monkeypatch.setattr(
        "nodeproof.solvers.checkpoint.atomic_path", lambda path: (tmp_path / "x").open("wb")
    )
    monkeypatch.setattr("nodeproof.solvers.checkpoint.Path", lambda file: tmp_path / "y")
    checkpoint.save(make_session())  # from 60 to 80
    for now, due in [(140, False), (259, False), (260, True)]:
        clock[0] = now
        assert checkpoint.due() is due


# What is refused. -----------------------------------------------------------------------


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


def test_one_of_many_labels_tells_problems_apart():
    y = np.zeros(3_000_000, dtype=np.int64)
    texts = set()
    for node in (0, 1_234_567, 1_234_568, 2_999_999):
        y[node] = 1
        texts.add(fingerprint(Problem(None, [Labels().bind(NodeData(2, y=y))], 2)))
    assert len(texts) == 4


def test_a_generator_given_as_seed_is_taken_up_again(unbroken, tmp_path):
    def fit(checkpoint=None, verbose=False):
        clf, given = make_fit("starts")
        clf.set_params(random_state=np.random.RandomState(3), verbose=verbose)
        return found(clf.fit(**given, checkpoint=checkpoint))

    def interrupt(progress):
        if progress.run == 3 and progress.iteration == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(EverySweep(tmp_path), interrupt)
    assert fit(EverySweep(tmp_path)) == fit()


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
        {"best": {"models": 3}},
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


def test_states_without_purpose_are_not_those_of_a_classifier(tmp_path):
    Checkpoint(tmp_path).save(make_session())
    _, given = make_fit("links")
    with pytest.raises(InputError, match="other data or settings"):
        NodeClassifier().fit(**given, checkpoint=tmp_path)
