"""The lifted relaxation, as a solver, against all labellings."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from nodeproof import Problem, datasets, terms
from nodeproof.certificate.labelling.instance import Instance
from nodeproof.errors import InputError
from nodeproof.graph import Graph
from nodeproof.solvers import BlockADMM, BlockCADO, Status

pytestmark = pytest.mark.numeric


def price(B, costs, z):
    return -B[np.equal.outer(z, z)].sum() + costs[np.arange(len(z)), z].sum()


def best(B, costs):
    """Return the least objective of all labellings."""
    n, K = costs.shape
    return min(price(B, costs, np.array(z)) for z in itertools.product(range(K), repeat=n))


def labelling_costs(problem, models):
    """Return B and the costs."""
    costs = problem.costs(models, 0, problem.n_nodes) - models.log_prior
    return Instance.of(problem, models).dense(), costs


def planted(seed, size=4, K=2, calibrated=True, labels=True):
    data = datasets.make_planted(K, cluster_size=size, p=0.7, q=0.3, random_state=seed)
    nodes = terms.NodeData(K, X=data.X, y=data.y)
    bound = [terms.Covariance().bind(nodes)]
    bound += [terms.Labels().bind(nodes)] if labels else []
    weights = "calibrated" if calibrated else (1.0, 1.0, 2.0)
    problem = Problem(Graph(data.graph, "uniform"), bound, K, weights, threshold=0.5)
    return problem, np.eye(K)[data.y_true]


@pytest.mark.parametrize("calibrated", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_the_solver_finds_the_best_labelling_and_a_bound_below_it(calibrated, seed):
    problem, rows = planted(seed, calibrated=calibrated)
    result = BlockADMM(lifted=True, tol=1e-4, max_iter=3000).solve(problem, start=rows)
    B, costs = labelling_costs(problem, result.models)
    least = best(B, costs)
    assert result.lower_bound <= least
    assert result.value >= least - 1e-9 * abs(least)
    whole = result.dual.bound(Instance.of(problem, result.models)) + costs.min(axis=1).sum()
    assert whole == pytest.approx(result.lower_bound, rel=1e-9)
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
