"""Labellings from similarities: planted ones come back, and the best candidate is kept."""

import numpy as np
import pytest

from convex_helpers import best_labelling, labelled, small_problem
from nodeproof import Problem
from nodeproof.atoms import Decomposition
from nodeproof.convex.program import Program
from nodeproof.convex.results import _at_most, _candidates, _grow, round_point
from nodeproof.graph import Graph
from nodeproof.metrics import matched_accuracy

pytestmark = [pytest.mark.numeric, pytest.mark.usefixtures("one_thread")]


def graph_of(z) -> Problem:
    """Return a problem whose links are exactly the classes."""
    together = (z[:, None] == z) & ~np.eye(len(z), dtype=bool)
    return Problem(Graph(together.astype(float), "uniform"), [], int(z.max()) + 1, (1.0, 0.0, 0.0))


def rounded(problem, E, theta=None, seed=0):
    program = Program(problem)
    if theta is None:
        theta = np.tile(program.models_set.center(), (E.shape[1], 1))
    return round_point(program, Decomposition(E, theta), np.random.default_rng(seed))


@pytest.mark.parametrize("z", [[0, 0, 0], [0, 1, 0, 1, 2], [0, 1, 1, 1, 2, 2, 3, 3, 3, 3], [0]])
def test_planted_similarities_give_back_the_planted_classes(z):
    z = np.array(z)
    problem = graph_of(z)
    W, models, value = rounded(problem, np.eye(z.max() + 1)[z])
    assert matched_accuracy(z, W.argmax(axis=1)) == 1.0
    assert value == problem.value(W, models)
    assert W.dtype == np.float32


def test_noise_in_the_similarities_is_rounded_away():
    z = np.repeat([0, 1, 2], 6)
    rng = np.random.default_rng(0)
    E = np.hstack([np.eye(3)[z], 0.3 * rng.random((18, 4))])
    E /= np.linalg.norm(E, axis=1, keepdims=True)
    W = rounded(graph_of(z), E)[0]
    assert matched_accuracy(z, W.argmax(axis=1)) == 1.0


@pytest.mark.parametrize("n_classes", [1, 2, 3, 12])
def test_there_are_at_most_as_many_classes_as_allowed(n_classes):
    A = small_problem(n=8, sources="G", seed=1).graph.adjacency
    problem = Problem(Graph(A, "uniform"), [], n_classes, weights=(1.0, 0.0, 0.0))
    for E in (np.eye(8), np.ones((8, 1)), np.eye(8)[np.arange(8) % 5]):
        W, models, value = rounded(problem, E)
        assert W.shape == (8, n_classes)
        np.testing.assert_array_equal(W.sum(axis=1), 1.0)
        assert value == problem.value(W, models)


def test_the_value_is_the_least_of_all_candidates():
    for seed in range(6):
        problem = small_problem(n=7, K=3, seed=seed, son=0.05 * (seed == 5))
        program, rng = Program(problem), np.random.default_rng(seed)
        E = rng.random((7, 4))
        E /= np.linalg.norm(E, axis=1, keepdims=True)
        point = Decomposition(E, program.models_set.project(rng.normal(size=(4, 3))))
        value = round_point(program, point, np.random.default_rng(seed))[2]
        tried = []
        for z in _candidates(program, point, np.random.default_rng(seed)):
            rows = np.eye(3)[z]
            tried.append(problem.value(rows, problem.fit_models(rows)))
        assert value == pytest.approx(min(tried), rel=1e-6)
        leaning = np.eye(3)[point.models.argmax(axis=1)]
        assert value <= problem.value(leaning, problem.fit_models(leaning)) + 1e-9
        if not problem.son:
            assert value >= best_labelling(problem) - 1e-9


def test_what_the_models_lean_to_is_a_candidate_of_its_own():
    """Without links the similarities say nothing, and the labels all."""
    y = np.array([2, 0, 1, 0, 2, 1, 0, 1, 2])
    problem = labelled(y, K=3)
    W, _, value = rounded(problem, np.eye(9), np.eye(3)[y])
    np.testing.assert_array_equal(W.argmax(axis=1), y)
    assert value == -18.0


def test_chains_of_similar_nodes_are_a_block():
    z = np.repeat([0, 1], 4)
    program = Program(graph_of(z))
    E = np.hstack([np.sqrt(0.7) * np.eye(2)[z], np.sqrt(0.3) * np.eye(8)])
    point = Decomposition(E, np.zeros((10, 0)))
    first = next(_candidates(program, point, np.random.default_rng(0)))
    np.testing.assert_array_equal(first, z)


def test_classes_are_named_by_the_labels():
    problem = labelled([1, 1, -1, 0], np.kron(np.eye(2), [[0, 1], [1, 0]]))
    W = rounded(problem, np.eye(2)[[0, 0, 1, 1]])[0]
    np.testing.assert_array_equal(W.argmax(axis=1), [1, 1, 0, 0])


def test_the_same_generator_gives_the_same_rows():
    problem = small_problem(n=10, K=3, seed=2)
    E = np.random.default_rng(1).random((10, 5))
    E /= np.linalg.norm(E, axis=1, keepdims=True)
    one, two = (rounded(problem, E, seed=4)[0] for _ in range(2))
    assert one.tobytes() == two.tobytes()


def test_small_classes_join_those_they_are_most_similar_to():
    L = np.eye(6)
    L[:3, :3] = L[3:5, 3:5] = 1.0
    L[5, 3] = L[3, 5] = L[5, 4] = L[4, 5] = 0.4
    L[5, :3] = L[:3, 5] = 0.3
    joined = _at_most(np.array([2, 2, 2, 0, 0, 1]), L, 2)
    np.testing.assert_array_equal(joined, [0, 0, 0, 1, 1, 1])
    np.testing.assert_array_equal(_grow(L, 2), [0, 0, 0, 1, 1, 1])
    np.testing.assert_array_equal(_at_most(np.array([1, 0, 0]), np.eye(3), 5), [1, 0, 0])
