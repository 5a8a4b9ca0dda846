"""Joint atoms against brute force: their oracle, its bound, and projections by CoGEnT."""

import itertools

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from nodeproof.atoms import JointAtoms, SymmetricPositive
from nodeproof.atoms.cogent import Cogent
from nodeproof.atoms.joint import _proven
from nodeproof.errors import InputError
from nodeproof.sets import Box, Product, Simplex, SpectralBox

pytestmark = [pytest.mark.numeric, pytest.mark.usefixtures("one_thread")]

BOX = SpectralBox(0.3, 2.0, dim=2)

EXACT = [
    Product([]),
    Product([Simplex(1)]),
    Product([Simplex(3)]),
    Product([Simplex(2), Simplex(3, floor=0.1)]),
]
ALTERNATED = [
    Product([BOX]),
    Product([Simplex(2), BOX]),
    Product([BOX, SpectralBox(-1.0, 0.5, dim=2)]),
    Product([Box([0.0, -1.0, 0.5], [1.0, 2.0, 0.5])]),
    Product([Box([[-1.0], [0.0]], [[1.0], [0.3]]), Simplex(2)]),
    Product([Simplex(20), Simplex(15)]),
    Product([Simplex(300)]),
]
every_set = pytest.mark.parametrize("models_set", EXACT + ALTERNATED, ids=repr)


def draw(models_set: Product, n: int, seed: int, scale: float = 1.0):
    """Return a gradient: a symmetric matrix, and one vector a node."""
    rng = np.random.default_rng(seed)
    G = rng.normal(size=(n, n)) * rng.choice([0.1, 1.0, 3.0])
    return scale * (G + G.T), scale * rng.normal(size=(n, models_set.dim))


def least(G, g, theta):
    """Return the least value of an atom with this model."""
    return np.linalg.eigvalsh(G + np.diag(g @ theta))[0]


def corners(models_set: Product, fineness: int):
    """Yield extreme points of Θ: all of them, or of spectral boxes a fine net."""
    nets = []
    for part in models_set.sets:
        if isinstance(part, Simplex):
            nets.append(part.vertices())
        elif isinstance(part, Box):
            ends = zip(part.lo.ravel(), part.hi.ravel(), strict=True)
            nets.append(np.array(list(itertools.product(*ends))))
        else:
            angles = np.pi * np.arange(fineness) / fineness
            u = np.stack([np.cos(angles), np.sin(angles)], axis=1)
            turned = part.lo * np.eye(2) + (part.hi - part.lo) * u[:, :, None] * u[:, None]
            flat = [part.lo * np.eye(2), part.hi * np.eye(2), *turned]
            nets.append(np.stack(flat).reshape(-1, 4))
    for parts in itertools.product(*nets):
        yield np.concatenate([np.zeros(0), *parts])


def random_sum(atoms: JointAtoms, count: int, seed: int):
    """Return atoms' embeddings scaled by the roots of their weights, and models."""
    rng = np.random.default_rng(seed)
    E = rng.normal(size=(atoms.n_nodes, count))
    theta = atoms.models_set.project(rng.normal(size=(count, atoms.models_set.dim)))
    return E @ E.T, E**2 @ theta


def distance(one, two):
    return np.hypot(np.linalg.norm(one[0] - two[0]), np.linalg.norm(one[1] - two[1]))


# The oracle. ----------------------------------------------------------------------------


@pytest.mark.parametrize("models_set", EXACT, ids=repr)
@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_over_few_vertices_the_oracle_is_exact(models_set, scale):
    rng = np.random.default_rng(0)
    for seed, n in enumerate((1, 2, 5, 8)):
        G, g = draw(models_set, n, seed, scale)
        atoms = JointAtoms(n, models_set)
        assert atoms.exact
        L, theta = atoms.lmo((G, g))
        value = np.vdot(G, L) + np.vdot(g, theta)
        best = min(least(G, g, vertex) for vertex in models_set.vertices())
        assert value == pytest.approx(best, rel=1e-10, abs=1e-12 * scale)
        E = rng.normal(size=(n, 500))
        E /= np.linalg.norm(E, axis=0)
        inside = models_set.project(rng.normal(size=(500, models_set.dim)))
        others = np.einsum("va,vu,ua->a", E, G, E) + np.einsum("va,vd,ad->a", E**2, g, inside)
        assert value <= others.min() + 1e-10 * scale


@pytest.mark.parametrize("models_set", ALTERNATED[:5], ids=repr)
def test_elsewhere_the_oracle_is_hardly_ever_beaten(models_set):
    missed = 0
    for seed in range(8):
        G, g = draw(models_set, 5, seed)
        atoms = JointAtoms(5, models_set)
        assert not atoms.exact
        found = atoms.find(G, g)[2].min()
        best = min(least(G, g, theta) for theta in corners(models_set, 40))
        missed += found > best + 1e-9
    assert missed <= 1


def test_of_one_spectral_box_the_oracle_finds_the_optimum():
    """Extreme points in two dimensions are turns by one angle: a line search finds the best."""
    models_set = Product([BOX])
    for seed in range(12):
        n = 2 + seed % 5
        G, g = draw(models_set, n, 50 + seed)

        def at(angle, G=G, g=g):
            u = np.array([np.cos(angle), np.sin(angle)])
            R = BOX.lo * np.eye(2) + (BOX.hi - BOX.lo) * np.outer(u, u)
            return least(G, g, R.ravel())

        start = min(np.linspace(0, np.pi, 100), key=at)
        turned = minimize_scalar(at, bounds=(start - 0.05, start + 0.05), method="bounded").fun
        ends = [least(G, g, end * np.eye(2).ravel()) for end in (BOX.lo, BOX.hi)]
        found = JointAtoms(n, models_set).find(G, g)[2].min()
        assert found == pytest.approx(min(turned, *ends), abs=1e-6)


@every_set
def test_what_is_found_are_atoms_of_the_values_told(models_set):
    G, g = draw(models_set, 6, 1)
    starts = models_set.project(np.random.default_rng(0).normal(size=(3, models_set.dim)))
    E, theta, values = JointAtoms(6, models_set).find(G, g, starts=starts, n_starts=2, each=2)
    assert E.shape == (6, len(theta))
    np.testing.assert_allclose(np.linalg.norm(E, axis=0), 1.0, atol=1e-12)
    assert models_set.contains(theta, tol=1e-9).all()
    told = np.einsum("va,vu,ua->a", E, G, E) + np.einsum("va,vd,ad->a", E**2, g, theta)
    np.testing.assert_allclose(values, told, atol=1e-9)


@pytest.mark.parametrize("models_set", ALTERNATED[:2], ids=repr)
def test_given_starts_alone_are_improved(models_set):
    G, g = draw(models_set, 6, 2)
    starts = np.stack([models_set.center(), models_set.lmo(g[0])])
    values = JointAtoms(6, models_set).find(G, g, starts=starts, n_starts=0)[2]
    assert values.min() <= min(least(G, g, theta) for theta in starts) + 1e-12


def test_more_eigenvectors_than_nodes_are_not_asked_for():
    G, g = draw(EXACT[2], 2, 0)
    assert JointAtoms(2, EXACT[2]).find(G, g, each=8)[0].shape == (2, 6)


# The bound. -----------------------------------------------------------------------------


@every_set
@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_no_atom_undercuts_the_bound(models_set, scale):
    rng = np.random.default_rng(3)
    for seed, n in enumerate((1, 4)):
        G, g = draw(models_set, n, 10 + seed, scale)
        atoms = JointAtoms(n, models_set)
        bound = atoms.bound(G, g, n_iter=15)
        assert bound <= atoms.find(G, g)[2].min()
        drawn = models_set.project(3.0 * rng.normal(size=(40, models_set.dim)))
        outer = models_set.lmo(rng.normal(size=(40, models_set.dim)))
        for theta in (*drawn, *outer):
            assert bound <= least(G, g, theta)


@pytest.mark.parametrize("models_set", ALTERNATED[:3], ids=repr)
def test_no_extreme_point_undercuts_the_bound(models_set):
    for seed in range(3):
        G, g = draw(models_set, 4, 20 + seed)
        bound = JointAtoms(4, models_set).bound(G, g, n_iter=25)
        assert bound <= min(least(G, g, theta) for theta in corners(models_set, 25))


@pytest.mark.parametrize("definite", [True, False])
def test_any_matrix_at_all_proves_a_bound(definite):
    """Lifted to what it must satisfy, S may be whatever: too small, or not semidefinite."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        G, g = draw(Product([BOX]), 3, seed)
        Q = g.reshape(3, 2, 2)
        Q = 0.5 * (Q + Q.swapaxes(1, 2))
        base = G + BOX.lo * np.diag(np.trace(Q, axis1=1, axis2=2))
        S = rng.normal(size=(6, 6)) * rng.choice([0.1, 1.0])
        S = S @ S.T if definite else S + S.T
        bound = _proven(base, (BOX.hi - BOX.lo) * Q, S.reshape(3, 2, 3, 2))
        optimum = min(least(G, g, theta) for theta in corners(Product([BOX]), 40))
        assert bound <= optimum
    # Nothing is too little where the pull is negative: the lift alone must prove the bound.
    for m in (2, 3):
        steep = -np.tile(np.eye(m), (2, 1, 1))
        for share in (0.0, 0.9, -1.0):
            S = share * np.eye(2 * m).reshape(2, m, 2, m)
            assert _proven(np.zeros((2, 2)), steep, S) == pytest.approx(-m, abs=1e-9)
    # Where steep is positive, S must still be semidefinite.
    S = -np.eye(4).reshape(2, 2, 2, 2)
    assert _proven(np.zeros((2, 2)), 5.0 * np.tile(np.eye(2), (2, 1, 1)), S) <= 0.0


def test_the_bound_is_the_oracles_value_over_few_vertices():
    for models_set in EXACT:
        G, g = draw(models_set, 5, 4)
        atoms = JointAtoms(5, models_set)
        assert atoms.bound(G, g) == pytest.approx(atoms.find(G, g)[2].min(), abs=1e-11)


def test_the_bound_of_a_spectral_box_is_close_and_gets_closer():
    for seed in range(4):
        G, g = draw(Product([BOX]), 5, 30 + seed)
        atoms = JointAtoms(5, Product([BOX]))
        value = atoms.find(G, g)[2].min()
        apart = [value - atoms.bound(G, g, n_iter=n_iter) for n_iter in (0, 10, 60)]
        assert apart[0] >= apart[1] >= apart[2] >= 0
        assert apart[2] <= 0.02 * (1.0 + abs(value))


def test_where_all_nodes_pull_alike_the_bound_of_a_spectral_box_is_exact():
    G, g = draw(Product([BOX]), 5, 5)
    g[:] = g[0]
    atoms = JointAtoms(5, Product([BOX]))
    assert atoms.bound(G, g) == pytest.approx(atoms.find(G, g)[2].min(), abs=1e-6)


@pytest.mark.parametrize("lo_hi", [(0.7, 0.7), (-2.0, -1.0), (1e-9, 1e9)])
def test_extreme_boxes_are_bounded_too(lo_hi):
    models_set = Product([SpectralBox(*lo_hi, dim=2)])
    for G, g in (draw(models_set, 4, 6), (np.zeros((4, 4)), np.zeros((4, 4)))):
        atoms = JointAtoms(4, models_set)
        value = atoms.find(G, g)[2].min()
        assert -0.02 * (1 + abs(value)) <= atoms.bound(G, g) - value <= 0


def test_of_a_gradient_that_is_not_symmetric_the_symmetric_part_counts():
    for models_set in (EXACT[2], ALTERNATED[0]):
        G, g = draw(models_set, 4, 7)
        skew = np.triu(np.ones((4, 4)), 1)
        atoms = JointAtoms(4, models_set)
        expected = atoms.find(G + skew + skew.T, g)[2].min()
        assert atoms.find(G + 2 * skew, g)[2].min() == pytest.approx(expected, abs=1e-9)
        assert atoms.bound(G + 2 * skew, g) == pytest.approx(atoms.bound(G + skew + skew.T, g))


# Norms and projections. ------------------------------------------------------------------


@pytest.mark.parametrize("models_set", EXACT, ids=repr)
def test_a_sum_of_atoms_has_its_trace_for_a_norm(models_set):
    atoms = JointAtoms(4, models_set)
    point = tuple(1e-8 * part for part in random_sum(atoms, 3, 0))
    assert atoms.norm(point) == np.trace(point[0])
    near = atoms.project(random_sum(atoms, 1, 5), radius=100.0)
    assert distance(near, random_sum(atoms, 1, 5)) <= 1e-3 * np.trace(near[0])


def test_what_no_atoms_add_up_to_has_an_infinite_norm():
    atoms = JointAtoms(3, Product([Simplex(2)]))
    L, theta = random_sum(atoms, 2, 0)
    assert atoms.norm((1e-9 * L, 1e-9 * (theta + 0.01))) == np.inf
    near = L / np.trace(L), theta / np.trace(L) + 1e-3
    assert atoms.norm(near) == np.inf
    assert atoms.norm((0.0 * L, theta)) == np.inf
    assert atoms.norm((L - 0.5 * np.eye(3), theta)) == np.inf
    assert atoms.norm((L + np.triu(np.ones((3, 3)), 1), theta)) == np.inf
    assert atoms.norm((-L, theta)) == np.inf
    assert atoms.norm((np.zeros((3, 3)), np.zeros((3, 2)))) == 0.0


@pytest.mark.parametrize("models_set", [Product([]), Product([Box([0.0], [0.0])])], ids=repr)
@pytest.mark.parametrize("radius", [0.0, 0.7, 5.0])
def test_with_one_model_of_zeros_projection_is_that_on_semidefinite_matrices(models_set, radius):
    for seed in range(3):
        G, g = draw(models_set, 5, seed)
        near, models = JointAtoms(5, models_set).project((G, g), radius)
        expected = SymmetricPositive(5).project(G, radius)
        np.testing.assert_allclose(near, expected, atol=2e-4 * (1 + np.abs(G).max()))
        np.testing.assert_array_equal(models, 0.0)


@pytest.mark.parametrize("models_set", [*EXACT, ALTERNATED[1]], ids=repr)
def test_projection_meets_the_variational_inequality(models_set):
    """⟨x − Px, z − Px⟩ ≤ 0 for every z of the ball: for the oracle's atoms, and zero."""
    atoms = JointAtoms(4, models_set)
    for radius in (0.5, 4.0) if atoms.exact else (1.5,):
        point = draw(models_set, 4, 8)
        cogent = Cogent(atoms, radius, n_refit=100)
        cogent.project(*point, n_forward=60 if atoms.exact else 15, tol=1e-9)
        near = cogent.point()
        assert np.trace(near[0]) <= radius * (1 + 1e-9)
        assert np.linalg.eigvalsh(near[0])[0] >= -1e-9
        G, g = near[0] - point[0], near[1] - point[1]
        along = np.vdot(G, near[0]) + np.vdot(g, near[1])
        steepest = min(0.0, atoms.find(G, g)[2].min())
        tolerance = 1e-3 if not atoms.exact else 1e-7
        size = 1.0 + np.vdot(point[0], point[0]) + np.vdot(point[1], point[1])
        assert along - radius * steepest <= tolerance * size


@pytest.mark.parametrize("models_set", [EXACT[2], EXACT[3]], ids=repr)
def test_projection_agrees_with_cvxpy(models_set):
    cp = pytest.importorskip("cvxpy")
    vertices = models_set.vertices()
    for seed in range(2):
        L, theta = draw(models_set, 4, 40 + seed)
        blocks = [cp.Variable((4, 4), PSD=True) for _ in vertices]
        models = sum(
            cp.reshape(cp.diag(block), (4, 1), order="F") @ vertex[None]
            for block, vertex in zip(blocks, vertices, strict=True)
        )
        apart = cp.sum_squares(sum(blocks) - L) + cp.sum_squares(models - theta)
        ball = [cp.trace(sum(blocks)) <= 2.0]
        cp.Problem(cp.Minimize(apart), ball).solve(solver=cp.CLARABEL)
        near = JointAtoms(4, models_set).project((L, theta), 2.0)
        assert distance(near, (sum(blocks).value, models.value)) <= 1e-3


@pytest.mark.parametrize("models_set", [EXACT[2], ALTERNATED[0]], ids=repr)
def test_cogent_comes_closer_with_every_step_and_goes_on_from_where_it_was(models_set):
    atoms = JointAtoms(5, models_set)
    point = draw(models_set, 5, 9)
    cogent, apart = Cogent(atoms, radius=5.0), []
    for _ in range(12):
        assert cogent.project(*point, n_forward=1) == 1
        apart.append(distance(cogent.point(), point))
    assert np.diff(apart).max() <= 1e-6
    again = Cogent(atoms, radius=5.0)
    again.project(*point, n_forward=12)
    assert distance(again.point(), point) == pytest.approx(apart[-1], rel=1e-3)


def test_models_that_meet_keep_the_weights_of_all():
    """Where Θ has corners, models slide into the same one."""
    models_set = Product([Box(np.zeros(2), np.ones(2))])
    cogent = Cogent(JointAtoms(5, models_set), radius=5.0)
    rng = np.random.default_rng(0)
    L = rng.normal(size=(5, 5))
    cogent.project(L + L.T, rng.normal(size=(5, 2)), n_forward=3)
    assert len(cogent.models) >= 2
    cogent.models[:] = 1.0
    before = cogent.point()
    cogent._add(np.zeros((5, 0)), np.zeros((0, 2)))
    assert len(cogent.models) == 1
    np.testing.assert_allclose(cogent.Q[0].T @ cogent.Q[0], np.eye(cogent.Q.shape[2]), atol=1e-12)
    for here, was in zip(cogent.point(), before, strict=True):
        np.testing.assert_allclose(here, was, atol=1e-7)


@pytest.mark.parametrize("models_set", [EXACT[2], ALTERNATED[0], ALTERNATED[1]], ids=repr)
def test_cogents_decomposition_is_its_point(models_set):
    cogent = Cogent(JointAtoms(5, models_set), radius=5.0)
    cogent.project(*draw(models_set, 5, 10), n_forward=8)
    parts, here = cogent.decomposition(), cogent.point()
    np.testing.assert_allclose(parts.L, here[0], atol=1e-10)
    np.testing.assert_allclose(parts.models, here[1], atol=1e-10)
    assert models_set.contains(parts.theta, tol=1e-9).all()
    assert (parts.E**2).sum() <= 5.0 * (1 + 1e-12)


def test_cogent_ends_where_the_gap_is_small_enough():
    atoms = JointAtoms(4, EXACT[2])
    cogent = Cogent(atoms, radius=4.0)
    asked = cogent.project(*draw(EXACT[2], 4, 11), n_forward=500, tol=1e-3)
    assert asked < 500
    assert np.isfinite(cogent.gap)


# What is refused. -----------------------------------------------------------------------


def test_wrong_shapes_and_numbers_are_refused_in_one_line():
    atoms = JointAtoms(3, Product([Simplex(2)]))
    G, g = np.eye(3), np.ones((3, 2))
    for method in (atoms.lmo, atoms.norm, atoms.project):
        for point in ((np.eye(2), g), (G, np.ones((3, 3))), (G, g[:2])):
            with pytest.raises(InputError, match="takes pairs of shapes") as error:
                method(point)
            assert "\n" not in str(error.value)
        for point in ((np.nan * G, g), (G, np.inf * g)):
            with pytest.raises(InputError, match="takes finite numbers"):
                method(point)
    for radius in (-1.0, np.nan, np.inf, "1"):
        with pytest.raises(InputError, match="radius must be a finite number ≥ 0"):
            atoms.project((G, g), radius)
