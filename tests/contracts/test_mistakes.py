"""Mistakes in terms and solvers that users write: one error each, which names the method."""

from dataclasses import replace

import numpy as np
import pytest

from nodeproof import NodeClassifier
from nodeproof.datasets import make_planted
from nodeproof.errors import InputError
from nodeproof.solvers import CADO
from nodeproof.terms import Labels
from own_terms import Visits

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def data():
    return make_planted(cluster_size=20, p=0.4, label_ratio=0.3, random_state=0)


def refusal(data, terms, **settings) -> str:
    visits = np.random.default_rng(0).poisson(np.array([2, 8, 20])[data.y_true])[:, None]
    with pytest.raises(InputError) as error:
        NodeClassifier(terms=terms, random_state=0, **settings).fit(
            visits, data.y, graph=data.graph
        )
    told = str(error.value)
    assert "\n" not in told
    return told


# Terms. ---------------------------------------------------------------------------------


class Unbound(Visits):
    def bind(self, nodes):
        super().bind(nodes)


class Itself(Visits):
    def bind(self, nodes):
        self.X = nodes.X
        return self


class Sizeless(Visits):
    def bind(self, nodes):
        bound = type(self)()
        bound.X = nodes.X
        return bound


class Turned(Visits):
    def cost(self, models, lo, hi):
        return super().cost(models, lo, hi).T


class Undefined(Visits):
    def cost(self, models, lo, hi):
        return np.nan * super().cost(models, lo, hi)


class OneModel(Visits):
    def estimate_from(self, sums):
        return super().estimate_from(sums)[0]

    def refit(self, W):
        return super().refit(W).tolist()


class Endless(Visits):
    def estimate_from(self, sums):
        return np.inf * super().estimate_from(sums)


@pytest.mark.parametrize(
    ("term", "said"),
    [
        (Visits, "got the class Visits: write Visits()"),
        ("visits", "got 'visits': derive its class from nodeproof.terms.Term"),
        (Unbound(), "Unbound.bind must return a bound copy of the term, got None"),
        (Itself(), "Itself.bind must return a copy, not the term: use self.copy_for(nodes)"),
        (Sizeless(), "Sizeless.bind returned a term without n_nodes: begin with bound = self.copy"),
        (Turned(), "Turned.cost must return one cost per node and class, shape (60, 3), got shape"),
        (Undefined(), "Undefined.cost returned costs that are not numbers"),
        (OneModel(), "OneModel.estimate must return one model per class, shape (3, ...), got"),
        (Endless(), "Endless.estimate returned models that are not finite"),
    ],
    ids=str,
)
def test_a_mistake_in_a_term_is_told_by_its_name(data, term, said):
    assert said in refusal(data, [term, Labels()])


def test_a_term_outside_a_list_is_refused(data):
    assert "got Visits(): write terms=[Visits()]" in refusal(data, Visits())


def test_costs_of_a_second_term_are_checked_too(data):
    assert "Turned.cost must return" in refusal(data, [Labels(), Turned()])


def test_models_of_the_loss_are_checked_too(data):
    told = refusal(data, [OneModel()], weights=(1.0, 1.0, 13.0))
    assert "OneModel.refit must return one model per class, shape (3, ...), got list" in told


# Solvers. -------------------------------------------------------------------------------


class Own:
    """A solver whose results are changed."""

    def __init__(self, change):
        self.change = change

    def solve(self, problem, start=None, callback=None):
        return self.change(CADO(max_iter=2, random_state=0).solve(problem))


class Deaf:
    def solve(self, problem, start=None):
        raise AssertionError


@pytest.mark.parametrize(
    ("solver", "said"),
    [
        (Deaf, "got the class Deaf: write Deaf()"),
        (Deaf(), "Deaf.solve must take (problem, start=None, callback=None)"),
        (object(), "solver must be a name or have a method solve, got <object"),
        (Own(lambda result: result.W), "Own.solve must return a nodeproof.solvers.Result, got nda"),
        (
            Own(lambda result: replace(result, models=None)),
            "Own.solve returned no models: take",
        ),
        (Own(lambda result: replace(result, W=result.W.T)), "W of shape (60, 3), got (3, 60)"),
        (Own(lambda result: replace(result, W=2 * result.W)), "≥ 0 and sum to 1 per node"),
        (Own(lambda result: replace(result, W=np.nan * result.W)), "≥ 0 and sum to 1 per node"),
    ],
)
def test_a_mistake_in_a_solver_is_told_by_its_name(data, solver, said):
    assert said in refusal(data, [Visits()], solver=solver, weights=(1.0, 1.0, 13.0))
