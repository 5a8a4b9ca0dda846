"""The lifted relaxation against all labellings, and its bound for any dual variables."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from nodeproof import Problem, datasets, terms
from nodeproof.errors import InputError
from nodeproof.graph import Graph
from nodeproof.solvers import BlockADMM, BlockCADO, Status
from nodeproof.solvers.lifted import Dual, labelling_costs, lifted_bound


def drawn(n, K, seed, scale=1.0):
    rng = np.random.default_rng(seed)
    B = rng.normal(size=(n, n))
    B = scale * (B + B.T)
    np.fill_diagonal(B, 0.0)
    return B, scale * rng.normal(size=(n, K)), rng


def price(B, costs, z):
    return -B[np.equal.outer(z, z)].sum() + costs[np.arange(len(z)), z].sum()


def best(B, costs):
    """Return the least objective of all labellings."""
    n, K = costs.shape
    return min(price(B, costs, np.array(z)) for z in itertools.product(range(K), repeat=n))


def planted(seed, size=4, K=2, calibrated=True, labels=True):
    data = datasets.make_planted(K, cluster_size=size, p=0.7, q=0.3, random_state=seed)
    nodes = terms.NodeData(K, X=data.X, y=data.y)
    bound = [terms.Covariance().bind(nodes)]
    bound += [terms.Labels().bind(nodes)] if labels else []
    weights = "calibrated" if calibrated else (1.0, 1.0, 2.0)
    problem = Problem(Graph(data.graph, "uniform"), bound, K, weights, threshold=0.5)
    return problem, np.eye(K)[data.y_true]


@pytest.mark.parametrize("size", [0.0, 0.1, 1.0, 30.0])
@pytest.mark.parametrize(("n", "K"), [(1, 1), (1, 3), (2, 2), (4, 3), (5, 2)])
def test_no_dual_variables_prove_too_much(n, K, size):
    for seed in range(12):
        B, costs, rng = drawn(n, K, seed, scale=rng_scale(seed))
        dual = Dual(
            size * rng.normal(size=n),
            size * rng.normal(size=(K, n)),
            size * rng.normal(size=K),
            size * rng.normal(size=(K, n, n)),
        )
        assert lifted_bound(B, costs, dual) <= best(B, costs)


def rng_scale(seed):
    return (1.0, 1e-6, 1e6)[seed % 3]


def closed_form(B, costs, z):
    """Return dual variables whose bound is P(z) if they are feasible (family F)."""
    n, K = costs.shape
    members = np.eye(K)[z]
    H = B @ members
    own = H[np.arange(n), z]
    delta = costs - costs[np.arange(n), z][:, None]
    rival = np.where(members > 0, -np.inf, H - 0.5 * delta)
    tau = rival.max(axis=1)
    r = np.where(members > 0, tau[:, None], H).T
    sigma = -members.T @ tau
    nu = costs[np.arange(n), z] - own - tau
    return Dual(nu, r, sigma, np.zeros((K, n, n)))


def test_dual_variables_in_closed_form_prove_a_clear_labelling_best():
    z = np.repeat([0, 1], 4)
    B = np.where(np.equal.outer(z, z), 1.0, -1.0)
    np.fill_diagonal(B, 0.0)
    costs = -2.0 * np.eye(2)[z]
    bound = lifted_bound(B, costs, closed_form(B, costs, z))
    assert bound <= price(B, costs, z) == best(B, costs)
    assert bound == pytest.approx(price(B, costs, z), abs=1e-9)


@pytest.mark.parametrize("calibrated", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_the_solver_finds_the_best_labelling_and_a_bound_below_it(calibrated, seed):
    problem, rows = planted(seed, calibrated=calibrated)
    result = BlockADMM(lifted=True, tol=1e-4, max_iter=3000).solve(problem, start=rows)
    B, costs = labelling_costs(problem, result.models)
    least = best(B, costs)
    assert result.lower_bound <= least
    assert result.value >= least - 1e-9 * abs(least)
    assert lifted_bound(B, costs, result.dual) == result.lower_bound
    assert result.value == pytest.approx(price(B, costs, result.W.argmax(axis=1)), rel=1e-12)
    assert result.status is Status.CONVERGED
    assert result.gap <= 1e-4
    assert result.value == pytest.approx(least, rel=1e-9)


def test_a_bound_from_the_first_iterations_is_a_bound_too():
    for iterations in (1, 2, 5, 20):
        problem, rows = planted(5)
        result = BlockADMM(lifted=True, tol=0.0, max_iter=iterations).solve(problem, start=rows)
        assert result.lower_bound <= best(*labelling_costs(problem, result.models))


def test_objectives_differ_as_free_energies_do():
    """At temperature 0 and for the same models, up to what no labelling changes."""
    problem, rows = planted(1)
    models = problem.fit_models(rows)
    B, costs = labelling_costs(problem, models)
    rng = np.random.default_rng(0)
    off = [
        problem.free_energy(np.eye(2)[z], models, temperature=0.0) - price(B, costs, z)
        for z in rng.integers(2, size=(6, 8))
    ]
    np.testing.assert_allclose(off, off[0], rtol=1e-9)


def test_it_is_tighter_than_the_program():
    problem, rows = planted(2, size=6, calibrated=False, labels=False)
    no_terms = Problem(problem.graph, [], 2, (1.0, 0.0, 0.0), threshold=0.5)
    lifted = BlockADMM(lifted=True, tol=1e-5, max_iter=3000).solve(no_terms, start=rows)
    program = BlockADMM(tol=1e-5).solve(no_terms)
    assert lifted.lower_bound >= program.lower_bound - 1e-3


def test_what_it_cannot_take_is_refused_in_a_line():
    problem, rows = planted(0)
    solver = BlockADMM(lifted=True)
    with pytest.raises(InputError, match="needs a start"):
        solver.solve(problem)
    with pytest.raises(InputError, match=r"shape \(8, 2\), got \(3, 2\)"):
        solver.solve(problem, start=rows[:3])
    matrix = BlockCADO(affinities="matrix", random_state=0).solve(problem).models
    assert matrix.affinity.ell.shape == (2, 2)
    with pytest.raises(InputError, match="K × K"):
        labelling_costs(problem, matrix)
    assert labelling_costs(problem, replace(matrix, affinity=None))[0].max() == 0.0
    fixed, _ = planted(0, calibrated=False)
    fixed.son = 0.1
    with pytest.raises(InputError, match="leave son at 0"):
        solver.solve(fixed, start=rows)
