"""What every convex set keeps to. A set added to SETS is covered."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from nodeproof import sets
from nodeproof.errors import InputError
from nodeproof.sets import Box, ConvexSet, Product, Similarities, Simplex, SpectralBox

pytestmark = pytest.mark.numeric

SETS = [
    Box([-1.0, 0.0, 0.5, 2.0], [1.0, 0.1, 0.5, 7.0]),
    Box([[0.0, -2.0], [0.3, -1.0]], [[1.0, 2.0], [0.3, -0.5]]),
    Simplex(),
    Simplex(2),
    Simplex(7),
    Simplex(5, floor=0.03),
    SpectralBox(0.5, 2.0),
    SpectralBox(-1.0, 3.0, dim=3),
    SpectralBox(0.0, 1.0, dim=1),
    SpectralBox(2.0, 2.0, dim=2),
    Similarities(),
    Similarities(3),
    Product([Simplex(3), SpectralBox(0.5, 2.0, dim=2)]),
    Product([Simplex(2), Box([[0.0, -2.0, 1.0]], [[1.0, 2.0, 3.0]]), Simplex(3, floor=0.1)]),
]

N_MEMBERS = 1000
SCALES = (1e-3, 1.0, 30.0)

every_set = pytest.mark.parametrize("convex", SETS, ids=repr)


def point_shape(convex: ConvexSet) -> tuple[int, ...]:
    return (convex.dim or 4,) * convex.point_ndim


def random_points(convex: ConvexSet, count: int, seed: int, scale: float = 1.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return scale * rng.standard_normal((count, *point_shape(convex)))


def random_members(convex: ConvexSet, seed: int = 1) -> np.ndarray:
    """Return vertices, mixtures of vertices and points of the border, N_MEMBERS in all."""
    third = N_MEMBERS // 3
    vertices = convex.lmo(random_points(convex, third, seed))
    shares = np.random.default_rng(seed).dirichlet(np.full(third, 0.02), size=third)
    mixtures = np.tensordot(shares, vertices, axes=1)
    border = convex.project(random_points(convex, N_MEMBERS - 2 * third, seed + 1))
    return np.concatenate([vertices, mixtures, border])


def inner(convex: ConvexSet, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return np.sum(left * right, axis=tuple(range(-convex.point_ndim, 0)))


def test_every_public_set_is_listed():
    public = [getattr(sets, name) for name in sets.__all__]
    concrete = {c for c in public if issubclass(c, ConvexSet) and c is not ConvexSet}
    assert concrete == {type(convex) for convex in SETS}


@every_set
def test_random_members_are_contained(convex):
    assert convex.contains(random_members(convex)).all()


@every_set
@pytest.mark.parametrize("scale", SCALES)
def test_lmo_is_never_beaten_by_a_member(convex, scale):
    members = random_members(convex)
    for gradient in random_points(convex, 20, seed=2, scale=scale):
        vertex = convex.lmo(gradient)
        assert convex.contains(vertex)
        best = inner(convex, gradient, members).min()
        assert inner(convex, gradient, vertex) <= best + 1e-10 * scale


@every_set
def test_lmo_returns_a_vertex_which_no_segment_of_members_passes_through(convex):
    members = random_members(convex)
    for gradient in random_points(convex, 20, seed=3):
        vertex = convex.lmo(gradient)
        away = vertex - members
        length = np.sqrt(inner(convex, away, away))
        beyond = vertex + 1e-3 * away[length > 1e-6]
        assert not convex.contains(beyond, tol=1e-10).any()


@every_set
def test_lmo_of_a_zero_gradient_is_a_member(convex):
    assert convex.contains(convex.lmo(np.zeros(point_shape(convex))))


@every_set
@pytest.mark.parametrize("scale", SCALES)
def test_projection_is_a_member_and_stays_where_it_is(convex, scale):
    projected = convex.project(random_points(convex, 200, seed=4, scale=scale))
    assert convex.contains(projected).all()
    np.testing.assert_allclose(convex.project(projected), projected, atol=1e-12)


@every_set
def test_projection_leaves_members_alone(convex):
    members = random_members(convex)
    np.testing.assert_allclose(convex.project(members), members, atol=1e-12)


@every_set
@pytest.mark.parametrize("scale", SCALES)
def test_projection_meets_the_variational_inequality(convex, scale):
    """⟨x − Px, z − Px⟩ ≤ 0 for every member z, the worst of all (an LMO's) included."""
    members = random_members(convex)
    for point in random_points(convex, 20, seed=5, scale=scale):
        nearest = convex.project(point)
        residual = point - nearest
        tolerance = 1e-10 * (1.0 + scale**2)
        assert inner(convex, residual, members - nearest).max() <= tolerance
        assert inner(convex, residual, convex.lmo(-residual) - nearest) <= tolerance


@every_set
def test_contains_says_no_outside_and_yes_within_the_tolerance(convex):
    points = random_points(convex, 100, seed=6, scale=10.0)
    nearest = convex.project(points)
    residual = points - nearest
    distance = np.sqrt(inner(convex, residual, residual))
    far = distance > 1e-3
    assert far.sum() >= 50
    scale = 1e-5 / distance[far].reshape(-1, *[1] * convex.point_ndim)
    outside = nearest[far] + scale * residual[far]
    assert not convex.contains(outside).any()
    assert not convex.contains(outside, tol=1e-6).any()
    assert convex.contains(outside, tol=1e-4).all()
    assert (convex.violation(nearest) <= 1e-9).all()
    assert (convex.violation(points) >= 0).all()


@every_set
@pytest.mark.parametrize("method", ["lmo", "project", "violation", "contains"])
def test_a_batch_equals_a_loop(convex, method):
    batch = random_points(convex, 6, seed=7).reshape(2, 3, *point_shape(convex))
    together = getattr(convex, method)(batch)
    assert together.shape[:2] == (2, 3)
    for i in range(2):
        for j in range(3):
            alone = getattr(convex, method)(batch[i, j])
            np.testing.assert_allclose(together[i, j], alone, atol=1e-13)
    empty = getattr(convex, method)(batch[:0])
    assert len(empty) == 0


@every_set
def test_the_input_is_left_as_it_was(convex):
    points = random_points(convex, 5, seed=8)
    before = points.copy()
    for method in (convex.lmo, convex.project, convex.violation, convex.contains):
        method(points)
    np.testing.assert_array_equal(points, before)


@every_set
def test_whole_numbers_and_lists_are_read_as_float64(convex):
    ones = np.ones(point_shape(convex), dtype=np.int32)
    for method in (convex.lmo, convex.project):
        assert method(ones).dtype == np.float64
        np.testing.assert_array_equal(method(ones.tolist()), method(ones))


@every_set
def test_center_is_a_member(convex):
    dim = convex.dim or 4
    assert convex.center(dim).shape == (dim,) * convex.point_ndim
    assert convex.contains(convex.center(dim))


@every_set
@pytest.mark.parametrize("method", ["lmo", "project", "violation", "contains"])
def test_wrong_shapes_are_refused_and_named(convex, method):
    wrong = [np.float64(1.0)]
    if convex.point_ndim == 2:
        wrong += [np.ones(3), np.ones((2, 3))]
    if convex.dim is not None:
        wrong.append(np.ones((convex.dim + 1,) * convex.point_ndim))
    for array in wrong:
        with pytest.raises(InputError, match="takes arrays of shape") as caught:
            getattr(convex, method)(array)
        assert str(np.shape(array)) in str(caught.value)
        assert type(convex).__name__ in str(caught.value)


def test_the_simplex_lmo_is_the_unit_vector_at_the_first_smallest_entry():
    gradients = np.round(random_points(Simplex(7), 200, seed=9))
    vertices = Simplex(7).lmo(gradients)
    np.testing.assert_array_equal(vertices.sum(axis=1), 1.0)
    assert set(np.unique(vertices)) == {0.0, 1.0}
    np.testing.assert_array_equal(vertices.argmax(axis=1), gradients.argmin(axis=1))


def test_a_floor_holds_at_every_vertex_and_in_every_projection():
    simplex = Simplex(4, floor=0.05)
    gradients = random_points(simplex, 50, seed=13)
    np.testing.assert_allclose(np.sort(simplex.lmo(gradients))[:, :3], 0.05)
    np.testing.assert_array_equal(simplex.lmo(gradients).argmax(axis=1), gradients.argmin(axis=1))
    assert simplex.project(gradients).min() == pytest.approx(0.05)
    assert not simplex.contains([1.0, 0.0, 0.0, 0.0])


def test_a_box_of_unequal_sides_takes_its_own_shape_alone():
    box = Box(np.zeros((2, 3)), np.ones((2, 3)))
    points = random_points(box, 5, seed=14)[:, :2, :3]
    np.testing.assert_array_equal(box.project(points), points.clip(0.0, 1.0))
    assert box.center(3).shape == (2, 3)
    for wrong in (np.ones((3, 2)), np.ones((3, 3)), np.ones(3)):
        with pytest.raises(InputError, match=r"takes arrays of shape \(\.\.\., 2, 3\); got shape"):
            box.project(wrong)


@pytest.mark.parametrize("box", [s for s in SETS if isinstance(s, SpectralBox)], ids=repr)
def test_the_spectral_lmo_has_all_its_eigenvalues_at_the_ends(box):
    vertices = box.lmo(random_points(box, 100, seed=10))
    values = np.linalg.eigvalsh(vertices)
    at_an_end = np.minimum(np.abs(values - box.lo), np.abs(values - box.hi))
    assert at_an_end.max() < 1e-12 * (1 + abs(box.lo) + abs(box.hi))


@pytest.mark.parametrize("dim", [2, 5])
def test_the_simplex_projection_agrees_with_a_quadratic_program(dim):
    for point in random_points(Simplex(dim), 15, seed=11, scale=1.5):
        solution = minimize(
            lambda x, point=point: 0.5 * np.sum((x - point) ** 2),
            np.full(dim, 1.0 / dim),
            jac=lambda x, point=point: x - point,
            bounds=[(0.0, 1.0)] * dim,
            constraints={"type": "eq", "fun": lambda x: x.sum() - 1.0, "jac": np.ones_like},
            method="SLSQP",
            options={"ftol": 1e-14},
        )
        np.testing.assert_allclose(Simplex().project(point), solution.x, atol=1e-6)


def test_the_spectral_projection_agrees_with_a_numerical_search():
    """Every 2 × 2 member is a rotated diagonal: search over the angle and its two entries."""
    lo, hi = 0.5, 2.0

    def member(x):
        turn = np.array([[np.cos(x[0]), -np.sin(x[0])], [np.sin(x[0]), np.cos(x[0])]])
        return turn @ np.diag(x[1:]) @ turn.T

    for point in random_points(SpectralBox(lo, hi, dim=2), 15, seed=12, scale=2.0):
        found = [
            minimize(
                lambda x, point=point: np.sum((member(x) - point) ** 2),
                [angle, 1.0, 1.5],
                bounds=[(None, None), (lo, hi), (lo, hi)],
                method="L-BFGS-B",
                options={"ftol": 1e-15, "gtol": 1e-10},
            )
            for angle in (0.2, 1.0, 2.0, 2.8)
        ]
        best = min(found, key=lambda solution: solution.fun)
        nearest = SpectralBox(lo, hi).project(point)
        assert np.sum((nearest - point) ** 2) <= best.fun + 1e-9
        np.testing.assert_allclose(nearest, member(best.x), atol=1e-3)


def test_a_matrix_that_is_not_symmetric_is_outside_the_spectral_box():
    skewed = np.array([[1.0, 0.1], [0.0, 1.0]])
    assert not SpectralBox(0.5, 2.0).contains(skewed)
    assert SpectralBox(0.5, 2.0).contains(0.5 * (skewed + skewed.T))


def test_what_is_not_a_number_is_outside():
    assert not Simplex().contains([np.nan, 1.0])
    assert not Box([0.0, 0.0], [1.0, 1.0]).contains([np.nan, 1.0])
    assert not SpectralBox(0.5, 2.0).contains(np.full((2, 2), np.nan))


def test_larger_matrices_that_are_not_numbers_are_outside():
    assert not SpectralBox(0.5, 2.0).contains(np.full((3, 3), np.nan))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("size", [1e12, 1e17])
def test_the_simplex_projection_of_huge_points_is_a_member(size):
    points = size * np.array([[1.0, 0.5, 0.0], [1.0, 1.0, 0.0], [-1.0, -1.0, -1.0]])
    points[:, 1] += 0.3
    assert Simplex().contains(Simplex().project(points)).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Simplex(0), "at least one dimension, got 0"),
        (lambda: Simplex(4, floor=0.25), "floor < 1/dim, and a dim for it; got floor=0.25, dim=4"),
        (lambda: Simplex(4, floor=-0.1), "got floor=-0.1"),
        (lambda: Simplex(floor=0.1), "got floor=0.1, dim=None"),
        (lambda: Simplex(3, floor=math.nan), "got floor=nan"),
        (lambda: Box([0.0, 2.0], [1.0, 1.0]), r"lo ≤ hi, got lo=2.0, hi=1.0 at \(1,\)"),
        (lambda: Box([0.0], [math.inf]), "hi=inf"),
        (lambda: Box([0.0], [1.0, 2.0]), r"one shape, got \(1,\) and \(2,\)"),
        (lambda: Box(0.0, 1.0), "one shape"),
        (lambda: Box([], []), "one shape"),
        (lambda: SpectralBox(0.0, 1.0, dim=-2), "at least one dimension, got -2"),
        (lambda: SpectralBox(2.0, 1.0), "lo ≤ hi, got lo=2.0, hi=1.0"),
        (lambda: SpectralBox(0.0, math.inf), "hi=inf"),
        (lambda: SpectralBox(math.nan, 1.0), "lo=nan"),
    ],
)
def test_sets_that_cannot_be_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()
