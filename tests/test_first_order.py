"""The ADMM and the projected gradient that the convex solvers share."""

import numpy as np
import pytest

from nodeproof.first_order import ADMM, projected_gradient
from nodeproof.sets import Simplex


class Nearest(ADMM):
    """The nearest member of a box to a point of the plane ``Σx = 1``, in two parts."""

    def __init__(self, goal, **settings):
        super().__init__((np.zeros(len(goal)), np.zeros(1)), **settings)
        self.goal = goal

    def x_step(self, target):
        # x and its sum are tied to z: (I + 11ᵀ) is inverted in closed form.
        n = len(self.goal)
        right = self.goal + self.rho * (target[0] + target[1])
        x = (right - self.rho * right.sum() / (1.0 + self.rho + self.rho * n)) / (1.0 + self.rho)
        return x, np.array([x.sum()])

    def z_step(self, target):
        return np.maximum(target[0], 0.0), np.ones(1)


@pytest.mark.parametrize("adaptive", [False, True])
@pytest.mark.parametrize("rho", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("relaxation", [1.0, 1.7])
def test_admm_finds_the_projection_on_the_simplex(rho, relaxation, adaptive):
    goal = np.array([0.9, 0.6, -0.4, 0.1])
    admm = Nearest(goal, rho=rho, relaxation=relaxation, adaptive=adaptive)
    for _ in range(5000):
        admm.step()
    np.testing.assert_allclose(admm.z[0], Simplex().project(goal), atol=1e-6)
    assert max(admm.residuals()) <= 1e-6
    assert adaptive or admm.rho == rho


def test_another_penalty_keeps_the_multipliers():
    admm = Nearest(np.array([0.9, 0.6]), rho=2.0)
    admm.step()
    before = [admm.rho * part for part in admm.u]
    admm.rescale(3.0)
    assert admm.rho == 6.0
    for old, new in zip(before, admm.u, strict=True):
        np.testing.assert_allclose(admm.rho * new, old)


@pytest.mark.parametrize("memory", [1, 8])
def test_projected_gradients_minimise_each_function(memory):
    rng = np.random.default_rng(0)
    scales, goals = 10.0 ** rng.uniform(-1, 3, (6, 4)), rng.normal(size=(6, 4))

    def value_gradient(x):
        off = x - goals
        return 0.5 * (scales * off**2).sum(axis=1), scales * off

    start = np.full((6, 4), 0.25)
    found, curvature = projected_gradient(
        value_gradient, Simplex().project, start, np.ones(6), tol=1e-12, memory=memory
    )
    gradient = value_gradient(found)[1]
    gaps = (gradient * found).sum(axis=1) - gradient.min(axis=1)  # zero at a minimum
    np.testing.assert_allclose(gaps, 0.0, atol=1e-6)
    assert ((curvature >= 1e-12) & (curvature <= scales.max() * (1 + 1e-9))).all()


def test_projected_gradients_stop_after_the_steps_allowed():
    def value_gradient(x):
        return 0.5 * (x**2).sum(axis=1), x

    start = np.ones((1, 1))
    stays, _ = projected_gradient(value_gradient, lambda x: x, start, np.full(1, 4.0), max_iter=0)
    moves, _ = projected_gradient(value_gradient, lambda x: x, start, np.full(1, 4.0), max_iter=1)
    assert (stays[0, 0], moves[0, 0]) == (1.0, 0.75)
