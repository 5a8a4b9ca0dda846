"""The first-order search for dual variables: its gradient, by finite differences."""

from dataclasses import replace

import numpy as np
import pytest

from certificate_helpers import draw_instance
from nodeproof.certificate.labelling import improve
from nodeproof.certificate.labelling.dual import Factors
from nodeproof.certificate.labelling.families import FAMILIES
from nodeproof.certificate.labelling.improve import Ascent

pytestmark = pytest.mark.numeric

H = 1e-6


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", range(12))
def test_the_gradient_of_the_bound_is_right(family, seed, monkeypatch):
    monkeypatch.setattr(improve, "_SOFT", 1e-9)  # the lowest eigenvalue counts alone
    rng = np.random.default_rng([41, seed])
    instance = draw_instance(rng, "random")
    n, K = instance.n_nodes, instance.n_classes
    start = FAMILIES[family](instance, rng.integers(K, size=n))
    # Away from the family, where eigenvalues are apart and below zero.
    dual = replace(
        start,
        nu=start.nu + 1.0 + 0.1 * rng.normal(size=n),
        r=start.r + 0.1 * rng.normal(size=(K, n)),
        sigma=start.sigma + 0.1 * rng.normal(size=K),
    )
    if isinstance(dual.gamma, Factors):
        dual = replace(dual, gamma=replace(dual.gamma, a=dual.gamma.a + 0.3))
    search = Ascent(instance, dual)

    def look(at):
        vectors = [np.eye(n + 1)[:, :8] for _ in range(K)]
        return search._look(at, vectors, size=1.0, look=1)

    def moved(name, step):
        if name == "a":
            return replace(dual, gamma=replace(dual.gamma, a=dual.gamma.a + step))
        return replace(dual, **{name: getattr(dual, name) + step})

    _, gradients = look(dual)
    assert set(gradients) == {"nu", "r", "sigma"} | ({"a"} if dual.gamma is not None else set())
    for name, gradient in gradients.items():
        direction = rng.normal(size=gradient.shape)
        ahead, back = look(moved(name, H * direction)), look(moved(name, -H * direction))
        slope = (ahead[0] - back[0]) / (2 * H)
        assert np.vdot(gradient, direction) == pytest.approx(slope, rel=1e-5, abs=1e-5)
