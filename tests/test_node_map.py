import numpy as np
import pytest

from nodeproof.errors import InputError
from nodeproof.report.layout import map_nodes


def _random(n, K, sharpness=6.0, seed=0):
    scores = sharpness * np.random.default_rng(seed).normal(size=(n, K))
    P = np.exp(scores - scores.max(axis=1, keepdims=True))
    return P / P.sum(axis=1, keepdims=True)


def _sides(anchors):
    """The pairs of classes that are neighbours on the circle."""
    turn = np.argsort(np.arctan2(anchors[:, 1], anchors[:, 0]))
    return {frozenset((int(a), int(b))) for a, b in zip(turn, np.roll(turn, -1), strict=True)}


def test_nodes_undecided_between_two_lie_between_them():
    anchors, positions = map_nodes([[0.5, 0.5, 0.0], [0.6, 0.0, 0.4], [1 / 3, 1 / 3, 1 / 3]])
    np.testing.assert_allclose(positions[0], anchors[:2].mean(axis=0), atol=1e-9)
    np.testing.assert_allclose(positions[1], 0.6 * anchors[0] + 0.4 * anchors[2], atol=1e-9)
    np.testing.assert_allclose(positions[2], 0.0, atol=1e-9)


def test_sure_nodes_are_spread_round_their_corner_the_surest_in_the_middle():
    rng = np.random.default_rng(0)
    p = 1 - rng.uniform(0, 0.04, size=300)
    P = np.column_stack([p, (1 - p) / 2, (1 - p) / 2])
    anchors, positions = map_nodes(P)
    away = np.linalg.norm(positions - anchors[0], axis=1)
    assert np.array_equal(np.argsort(away, kind="stable"), np.argsort(-p, kind="stable"))
    gaps = np.linalg.norm(positions[:, None] - positions[None], axis=2)[np.triu_indices(300, 1)]
    assert gaps.min() > 0.5 * away.max() / np.sqrt(300)


def test_less_sure_nodes_keep_clear_of_the_pile_at_their_corner():
    P = np.vstack([np.tile([1.0, 0.0, 0.0], (500, 1)), [[0.9, 0.1, 0.0], [0.52, 0.48, 0.0]]])
    anchors, positions = map_nodes(P)
    away = np.linalg.norm(positions - anchors[0], axis=1)
    assert away[500] > away[:500].max()
    direction = (positions[500] - anchors[0]) @ (anchors[1] - anchors[0])
    assert direction > 0.99 * away[500] * np.linalg.norm(anchors[1] - anchors[0])
    middle = anchors[:2].mean(axis=0)
    assert np.linalg.norm(positions[501] - middle) < 0.1


def test_classes_that_are_confused_are_neighbours():
    # Class k is confused with the classes before and after it in a hidden circle.
    K = 12
    hidden = np.random.default_rng(3).permutation(K)
    P = np.zeros((K * 10, K))
    for k in range(K):
        rows = slice(10 * k, 10 * k + 10)
        P[rows, hidden[k]], P[rows, hidden[(k + 1) % K]] = 0.7, 0.3
    anchors, _ = map_nodes(P)
    wanted = {frozenset((int(hidden[k]), int(hidden[(k + 1) % K]))) for k in range(K)}
    assert _sides(anchors) == wanted


def test_a_greedy_chain_is_improved():
    # From class 0 the chain takes 1, then 2, and leaves the strong pair (3, 5) apart.
    confused = {(0, 1): 5, (1, 2): 4, (2, 3): 3, (3, 4): 2, (4, 5): 1, (3, 5): 2, (0, 4): 2}
    rows = []
    for (i, j), times in confused.items():
        row = np.zeros(6)
        row[[i, j]] = 0.5
        rows += [row] * times
    sides = _sides(map_nodes(np.array(rows))[0])
    assert sum(confused.get(tuple(sorted(side)), 0) for side in sides) == 17


@pytest.mark.parametrize(("n", "K"), [(1, 1), (7, 1), (5, 2), (200, 3), (300, 50), (40, 400)])
def test_every_number_of_classes_has_a_finite_map(n, K):
    P = _random(n, K)
    anchors, positions = map_nodes(P)
    assert anchors.shape == (K, 2)
    assert positions.shape == (n, 2)
    assert np.isfinite(positions).all()
    assert np.abs(positions).max() <= 1.35
    again = map_nodes(P.copy())
    assert np.array_equal(anchors, again[0])
    assert np.array_equal(positions, again[1])


def test_piles_of_neighbouring_corners_do_not_meet():
    P = np.tile(np.eye(50), (200, 1))
    anchors, positions = map_nodes(P)
    away = np.linalg.norm(positions - anchors[P.argmax(axis=1)], axis=1)
    assert away.max() < 0.5 * np.linalg.norm(anchors[0] - anchors[1], axis=0).max()
    side = min(np.linalg.norm(anchors[0] - anchors[k]) for k in range(1, 50))
    assert away.max() < 0.5 * side


def test_a_pile_in_the_middle_is_spread_too():
    _, positions = map_nodes(np.full((400, 4), 0.25, dtype=np.float32))
    assert len(np.unique(positions.round(6), axis=0)) == 400
    assert np.linalg.norm(positions, axis=1).max() < 0.35


def test_nodes_between_two_classes_stand_upright_on_the_line():
    p = np.repeat([0.5, 0.6], [40, 3])
    _, positions = map_nodes(np.column_stack([p, 1 - p]))
    np.testing.assert_allclose(positions[:, 0], np.repeat([0.0, -0.2], [40, 3]), atol=1e-9)
    assert len(np.unique(positions[:40, 1])) == 40
    assert np.abs(positions[:, 1]).max() <= 0.31


def test_a_large_map_takes_hard_rows_in_float32():
    P = np.eye(50, dtype=np.float32)[np.random.default_rng(0).integers(50, size=100_000)]
    _, positions = map_nodes(P)
    assert len(np.unique(positions.round(9), axis=0)) == 100_000


def test_some_nodes_are_placed_among_the_corners_of_all():
    P = _random(500, 8)
    nodes = np.array([3, 400, 77])
    anchors, positions = map_nodes(P, nodes)
    assert np.array_equal(anchors, map_nodes(P)[0])
    assert positions.shape == (3, 2)
    assert np.array_equal(map_nodes(P, nodes[::-1])[1], positions[::-1])


def test_no_nodes_and_no_classes():
    assert map_nodes(np.zeros((0, 3)))[1].shape == (0, 2)
    assert map_nodes(_random(4, 3), np.array([], dtype=int))[1].shape == (0, 2)
    with pytest.raises(InputError, match="must have shape"):
        map_nodes(np.zeros((3, 0)))
    with pytest.raises(InputError, match="must have shape"):
        map_nodes([0.5, 0.5])
