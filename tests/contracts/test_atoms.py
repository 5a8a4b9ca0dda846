"""What every atomic set of arrays keeps to. A set added to ATOMS is covered."""

import copy
import inspect

import numpy as np
import pytest
from scipy.optimize import linprog

from nodeproof import atoms
from nodeproof.atoms import (
    AtomicSet,
    Calls,
    Counted,
    RankOne,
    SignedBasis,
    SymmetricPositive,
    SymmetricSigned,
    sets,
)
from nodeproof.errors import InputError
from nodeproof.sets import Simplex

pytestmark = pytest.mark.numeric

ATOMS = [
    SignedBasis(1),
    SignedBasis(6),
    RankOne(1, 1),
    RankOne(3, 5),
    RankOne(4, 2),
    SymmetricPositive(1),
    SymmetricPositive(4),
    SymmetricSigned(1),
    SymmetricSigned(4),
]
SCALES = (1e-3, 1.0, 30.0)

every_set = pytest.mark.parametrize("atomic", ATOMS, ids=repr)


def random_points(atomic: AtomicSet, count: int, seed: int, scale: float = 1.0) -> np.ndarray:
    points = scale * np.random.default_rng(seed).standard_normal((count, *atomic.shape))
    if isinstance(atomic, SymmetricSigned):  # the oracles' answers to others are tested apart
        points = points + points.swapaxes(1, 2)
    return points


def random_atoms(atomic: AtomicSet, count: int = 300, seed: int = 1) -> np.ndarray:
    """Return atoms by their definition, not by the oracle."""
    rng = np.random.default_rng(seed)

    def units(dim: int) -> np.ndarray:
        vectors = rng.standard_normal((count, dim))
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    signs = rng.choice([-1.0, 1.0], size=count)
    if isinstance(atomic, SignedBasis):
        return signs[:, None] * np.eye(*atomic.shape)[rng.integers(atomic.shape[0], size=count)]
    u = units(atomic.shape[0])
    if isinstance(atomic, RankOne):
        return u[:, :, None] * units(atomic.shape[1])[:, None]
    if isinstance(atomic, SymmetricPositive):
        return u[:, :, None] * u[:, None]
    return signs[:, None, None] * u[:, :, None] * u[:, None]


def random_sums(atomic: AtomicSet, count: int, seed: int) -> np.ndarray:
    """Return points of finite norm: nonnegative sums of a few atoms."""
    rng = np.random.default_rng(seed)
    own = random_atoms(atomic, seed=seed)
    return np.array(
        [
            np.tensordot(rng.exponential(size=m), own[rng.integers(len(own), size=m)], axes=1)
            for m in rng.integers(1, 6, size=count)
        ]
    )


def highest(atomic: AtomicSet, gradient: np.ndarray) -> float:
    """Return sup ⟨a, gradient⟩ over the atoms."""
    return float(np.vdot(atomic.lmo(-gradient), gradient))


def test_every_atomic_set_of_arrays_is_listed():
    kinds = [getattr(sets, name) for name in sets.__all__]
    public = [k for k in kinds if issubclass(k, AtomicSet) and not inspect.isabstract(k)]
    assert set(public) == {type(atomic) for atomic in ATOMS}
    assert all(getattr(atoms, kind.__name__) is kind for kind in public)


@every_set
@pytest.mark.parametrize("scale", SCALES)
def test_lmo_is_never_beaten_by_an_atom(atomic, scale):
    others = random_atoms(atomic, 1000)
    for gradient in random_points(atomic, 20, seed=2, scale=scale):
        best = np.tensordot(others, gradient, axes=gradient.ndim).min()
        assert np.vdot(atomic.lmo(gradient), gradient) <= best + 1e-12 * scale


@every_set
@pytest.mark.parametrize("sign", [-1.0, 0.0, 1.0])
def test_lmo_returns_an_atom_also_where_all_are_equal_or_of_one_sign(atomic, sign):
    for gradient in sign * random_sums(atomic, 10, seed=3):
        atom = atomic.lmo(gradient)
        assert atomic.norm(atom) == pytest.approx(1.0, abs=1e-12)
        assert np.linalg.norm(atom) == pytest.approx(1.0, abs=1e-12)
        if atom.ndim == 2:
            assert np.linalg.matrix_rank(atom) == 1


@every_set
def test_atoms_have_norm_one(atomic):
    norms = [atomic.norm(atom) for atom in random_atoms(atomic, 50)]
    np.testing.assert_allclose(norms, 1.0, atol=1e-12)


@every_set
def test_the_norm_is_a_gauge(atomic):
    points = random_sums(atomic, 40, seed=4)
    assert atomic.norm(np.zeros(atomic.shape)) == 0.0
    for x, y in zip(points[::2], points[1::2], strict=True):
        assert 0 < atomic.norm(x) < np.inf
        for scale in (1e-6, 0.3, 2e5):
            assert atomic.norm(scale * x) == pytest.approx(scale * atomic.norm(x), rel=1e-12)
        assert atomic.norm(x + y) <= atomic.norm(x) + atomic.norm(y) + 1e-12


@every_set
def test_the_norm_is_bounded_by_the_weights_of_any_atoms_that_add_up_to_the_point(atomic):
    rng = np.random.default_rng(5)
    for seed in range(20):
        some, shares = random_atoms(atomic, 4, seed=seed), rng.exponential(size=4)
        assert atomic.norm(np.tensordot(shares, some, axes=1)) <= shares.sum() + 1e-12


@every_set
def test_the_norm_is_the_dual_of_the_oracle(atomic):
    """⟨x, g⟩ ≤ ‖x‖·sup_a ⟨a, g⟩ for every g, and some g attains it."""
    points = random_sums(atomic, 15, seed=6)
    gradients = [*random_points(atomic, 30, seed=7), *points]
    for x in points:
        for g in gradients:
            assert np.vdot(x, g) <= atomic.norm(x) * highest(atomic, g) + 1e-10
        g = attaining(atomic, x)
        assert highest(atomic, g) <= 1.0 + 1e-12
        assert np.vdot(x, g) == pytest.approx(atomic.norm(x), rel=1e-12)


def attaining(atomic: AtomicSet, x: np.ndarray) -> np.ndarray:
    """Return g with sup_a ⟨a, g⟩ ≤ 1 that shows the norm of x."""
    if isinstance(atomic, SignedBasis):
        return np.sign(x)
    if isinstance(atomic, SymmetricPositive):
        return np.eye(len(x))
    left, _, right = np.linalg.svd(x, full_matrices=False)
    return left @ right


def test_the_norm_of_a_vector_is_the_linear_program_of_the_definition():
    atomic, basis = SignedBasis(4), np.hstack([np.eye(4), -np.eye(4)])
    for x in random_points(atomic, 10, seed=8):
        least = linprog(np.ones(8), A_eq=basis, b_eq=x, bounds=(0, None))
        assert atomic.norm(x) == pytest.approx(least.fun, rel=1e-9)


@pytest.mark.parametrize("kind", [RankOne, SymmetricPositive, SymmetricSigned])
def test_the_norm_of_a_matrix_is_the_linear_program_over_a_net_of_atoms(kind):
    """A net of the circle gives at least the norm, and hardly more."""
    atomic = kind(2, 2) if kind is RankOne else kind(2)
    angles = np.pi * np.arange(180) / 180
    u = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    squares = (u[:, :, None] * u[:, None]).reshape(-1, 4)
    if kind is RankOne:
        some = u[::4]
        net = np.einsum("ai,bj->abij", np.vstack([some, -some]), some).reshape(-1, 4)
    else:
        net = squares if kind is SymmetricPositive else np.vstack([squares, -squares])
    for x in random_sums(atomic, 3, seed=9) + 0.1 * np.eye(2):
        least = linprog(np.ones(len(net)), A_eq=net.T, b_eq=x.ravel(), bounds=(0, None))
        assert atomic.norm(x) <= least.fun + 1e-7
        assert least.fun <= 1.01 * atomic.norm(x)


@every_set
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("radius", [0.0, 0.5, 3.0])
def test_projection_meets_the_variational_inequality(atomic, scale, radius):
    """⟨x − Px, z − Px⟩ ≤ 0 for every z of the ball: for radius·(the oracle's atom), and zero."""
    for point in random_points(atomic, 20, seed=10, scale=scale):
        nearest = atomic.project(point, radius)
        assert atomic.norm(nearest) <= radius + 1e-12 * (1.0 + scale)
        residual = point - nearest
        tolerance = 1e-12 * (1.0 + scale) ** 2
        assert radius * highest(atomic, residual) - np.vdot(residual, nearest) <= tolerance
        assert -np.vdot(residual, nearest) <= tolerance


@every_set
def test_projection_leaves_points_of_the_ball_alone(atomic):
    for point in random_sums(atomic, 20, seed=11):
        kept = atomic.project(point, radius=1.000001 * atomic.norm(point))
        np.testing.assert_allclose(kept, point, atol=1e-12)
        assert not np.shares_memory(kept, point)


@every_set
def test_projection_agrees_with_cvxpy(atomic):
    cp = pytest.importorskip("cvxpy")
    for point in random_points(atomic, 2, seed=12):
        x = cp.Variable(atomic.shape)
        if isinstance(atomic, SignedBasis):
            ball = [cp.norm1(x) <= 0.7]
        elif isinstance(atomic, SymmetricPositive):
            x = cp.Variable(atomic.shape, PSD=True)
            ball = [cp.trace(x) <= 0.7]
        elif isinstance(atomic, SymmetricSigned):
            x = cp.Variable(atomic.shape, symmetric=True)
            ball = [cp.normNuc(x) <= 0.7]
        else:
            ball = [cp.normNuc(x) <= 0.7]
        cp.Problem(cp.Minimize(cp.sum_squares(x - point)), ball).solve(solver=cp.CLARABEL)
        np.testing.assert_allclose(atomic.project(point, 0.7), x.value, atol=1e-5)


@every_set
def test_wrong_shapes_and_numbers_are_refused_in_one_line(atomic):
    wide = tuple(size + 1 for size in atomic.shape)
    for method in (atomic.lmo, atomic.norm, atomic.project):
        for shape in (wide, (2, *atomic.shape), ()):
            with pytest.raises(InputError, match="takes an array of shape") as error:
                method(np.zeros(shape))
            assert repr(atomic) in str(error.value)
            assert "\n" not in str(error.value)
        with pytest.raises(InputError, match="takes finite numbers; got nan at"):
            method(np.full(atomic.shape, np.nan))
    for radius in (-1.0, np.nan, np.inf, "1"):
        with pytest.raises(InputError, match="radius must be a finite number ≥ 0"):
            atomic.project(np.zeros(atomic.shape), radius)


@pytest.mark.parametrize("kind", [SignedBasis, SymmetricPositive, SymmetricSigned])
@pytest.mark.parametrize("size", [0, -3, 2.0, True])
def test_sizes_are_positive_integers(kind, size):
    with pytest.raises(InputError, match=f"{kind.__name__} needs positive sizes"):
        kind(size)


def test_the_norm_is_infinite_where_no_atoms_add_up():
    indefinite = np.diag([1.0, -1e-6])
    assert SymmetricPositive(2).norm(indefinite) == np.inf
    assert SymmetricSigned(2).norm(indefinite) == pytest.approx(1.0 + 1e-6)
    for kind in (SymmetricPositive, SymmetricSigned):
        assert kind(2).norm([[1.0, 1e-6], [0.0, 1.0]]) == np.inf


def test_the_norm_allows_for_rounding():
    rounded = np.array([[1.0, 1.0 + 1e-15], [1.0, 1.0]])
    assert SymmetricPositive(2).norm(rounded) == pytest.approx(2.0)
    assert SymmetricPositive(2).norm(1e-12 * rounded) == pytest.approx(2e-12)


@pytest.mark.parametrize("kind", [SymmetricPositive, SymmetricSigned])
def test_of_matrices_that_are_not_symmetric_the_symmetric_part_counts(kind):
    atomic, matrix = kind(3), np.random.default_rng(0).standard_normal((3, 3))
    symmetric = 0.5 * (matrix + matrix.T)
    np.testing.assert_array_equal(atomic.lmo(matrix), atomic.lmo(symmetric))
    np.testing.assert_array_equal(atomic.project(matrix), atomic.project(symmetric))


def test_calls_of_several_oracles_are_counted_together():
    calls = Calls()
    ball, simplex = Counted(SignedBasis(2), calls), Counted(Simplex(2), calls)
    shrink = Counted(lambda point, step: np.maximum(point - step, 0.0), calls)
    point = np.array([2.0, 0.5])
    np.testing.assert_array_equal(ball.lmo(point), SignedBasis(2).lmo(point))
    np.testing.assert_array_equal(ball.project(point, radius=1.0), [1.0, 0.0])
    np.testing.assert_array_equal(simplex.project([point, point]), [[1.0, 0.0]] * 2)
    np.testing.assert_array_equal(shrink(point, step=1.0), [1.0, 0.0])
    assert calls == Calls(lmo=1, prox=1, projection=2)
    assert calls.as_dict() == {"lmo": 1, "prox": 1, "projection": 2}


def test_a_prox_of_an_object_is_counted_and_all_else_passes_through():
    class Penalty:
        weight = 3.0

        def prox(self, point):
            return point / 2

    counted = Counted(Penalty())
    assert counted.prox(4.0) == 2.0
    assert counted.weight == 3.0
    assert counted.calls == Calls(prox=1)
    assert copy.deepcopy(counted).calls == Calls(prox=1)
    assert Counted(SignedBasis(2)).norm([1.0, -2.0]) == 3.0
    assert repr(Counted(SignedBasis(2))) == "Counted(SignedBasis(2))"


def test_calls_that_are_refused_do_not_count():
    counted = Counted(SignedBasis(2))
    with pytest.raises(InputError):
        counted.lmo([1.0])
    with pytest.raises(AttributeError):
        counted.prox([1.0, 2.0])
    assert counted.calls == Calls()
