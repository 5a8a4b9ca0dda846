"""The limits of exact recovery, and the paper's two lemmas."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.stats import binom, norm

from nodeproof.datasets import make_planted
from nodeproof.errors import InputError
from nodeproof.paper import theory
from nodeproof.paper.theory.models import maximise
from nodeproof.sets import Simplex, SpectralBox

# The exponents. ---------------------------------------------------------------------------


def test_without_any_contrast_nothing_can_be_recovered():
    found = theory.exact_recovery([30, 30], 0.2, 0.2)
    assert found.exponent == 0
    assert found.expected_errors == 60
    assert not found.possible
    assert theory.chernoff_hellinger([30, 30], 0.2, 0.2)[0, 1] < 1e-12


def test_when_every_label_is_given_and_right_there_are_no_errors():
    found = theory.exact_recovery([30, 20], 0.2, 0.2, label_ratio=1.0)
    assert np.isinf(found.exponent)
    assert found.expected_errors == 0
    assert found.possible
    errors, _ = theory.genie_errors([30, 20], 0.2, 0.2, label_ratio=1.0, random_state=0)
    assert errors == 0


def test_links_that_never_fail_leave_no_errors():
    found = theory.exact_recovery([5, 5], 1.0, 0.0)
    assert np.isinf(found.exponent)
    # Only a node without links is in doubt, and then all of the other class would miss it.
    assert theory.exact_recovery([5, 5], 0.5, 0.0).exponent == pytest.approx(5 * np.log(2.0))


def test_every_source_helps():
    sizes, C = [40, 60], np.stack([np.eye(2), np.diag([1.0, 0.2])])
    base = {"p": 0.3, "q": 0.1, "label_ratio": 0.3, "label_accuracy": 0.9, "features": C}

    def exponent(**changed):
        return theory.exact_recovery(sizes, **{**base, **changed}).exponent

    rising = [exponent(p=p) for p in (0.1, 0.2, 0.3, 0.5, 0.9)]
    assert (np.diff(rising) > 0).all()
    assert exponent(q=0.05) > exponent()
    assert exponent(label_ratio=0.6) > exponent() > exponent(label_ratio=0.0)
    assert exponent(label_accuracy=1.0) > exponent() > exponent(label_accuracy=0.5)
    assert exponent(features=None) < exponent()
    assert exponent(features=np.stack([np.eye(2)] * 2)) == pytest.approx(exponent(features=None))


def test_exponents_are_chernoff_information_of_the_observations_themselves():
    """Links to two classes and one feature, by sums over all counts and quadrature."""
    p, q, sizes, deviations = 0.6, 0.3, (5, 4), (1.0, 0.5)
    found = theory.exact_recovery(
        sizes, p, q, features=np.array(deviations)[:, None, None] ** 2
    ).exponents
    for i, others in ((0, (4, 4)), (1, (5, 3))):
        own, other = ((p, q), (q, p))[:: 1 if i == 0 else -1]
        a, b = deviations[:: 1 if i == 0 else -1]

        def log_coefficient(s, own=own, other=other, others=others, a=a, b=b):
            total = 0.0
            for k, n in enumerate(others):
                counts = np.arange(n + 1)
                at = binom.pmf(counts, n, own[k]) ** (1 - s) * binom.pmf(counts, n, other[k]) ** s
                total += np.log(at.sum())
            mass, _ = quad(lambda x: norm.pdf(x, 0, a) ** (1 - s) * norm.pdf(x, 0, b) ** s, -20, 20)
            return total + np.log(mass)

        best = minimize_scalar(log_coefficient, bounds=(0, 1), method="bounded").fun
        assert found[i, 1 - i] == pytest.approx(-best, rel=1e-6)


def test_matrices_of_densities_say_the_same_as_p_and_q():
    sizes = [20, 30, 40]
    densities = np.where(np.eye(3, dtype=bool), 0.4, 0.1)
    one, other = theory.exact_recovery(sizes, 0.4, 0.1), theory.exact_recovery(sizes, densities)
    np.testing.assert_array_equal(one.exponents, other.exponents)
    assert one.expected_errors == other.expected_errors
    swapped = theory.exact_recovery(sizes, densities[::-1])  # classes 0 and 2 attract
    assert swapped.exponents[0, 2] > one.exponents[0, 2]


# What is known of their limits. -----------------------------------------------------------


def logarithmic(n, a, b):
    return a * np.log(n) / n, b * np.log(n) / n


def test_in_the_limit_exponents_are_the_chernoff_hellinger_divergence():
    n, a, b = 10**12, 9.0, 2.0
    p, q = logarithmic(n, a, b)
    limit = 0.5 * (np.sqrt(a) - np.sqrt(b)) ** 2
    for sizes in ([n // 2] * 2, [n // 4, n - n // 4]):
        divergence = theory.chernoff_hellinger(sizes, p, q)[0, 1]
        found = theory.exact_recovery(sizes, p, q).exponent / np.log(n)
        assert found == pytest.approx(divergence, rel=1e-4)
        assert (theory.exact_recovery(sizes, p, q).possible) == (divergence > 1)
    assert theory.chernoff_hellinger([n // 2] * 2, p, q)[0, 1] == pytest.approx(limit)


def limit_with_noisy_labels(a, b, beta):
    """Saad and Nosratinia's η/2: two equal classes, a share n^−β of the labels wrong."""
    T = np.log(a / b)
    if beta >= 0.5 * T * (a - b):
        return beta
    g = np.sqrt(beta**2 + a * b * T**2)
    return 0.5 * (a + b + beta - 2 * g / T + beta / T * np.log((g + beta) / (g - beta)))


@pytest.mark.parametrize(("a", "b", "beta"), [(8, 2, 0.3), (6, 2, 0.9), (4, 1, 0.6), (3, 2, 0.8)])
def test_in_the_limit_noisy_labels_count_as_published(a, b, beta):
    n = 10**12
    found = theory.exact_recovery(
        [n // 2] * 2, *logarithmic(n, a, b), label_ratio=1.0, label_accuracy=1.0 - n**-beta
    )
    # A node errs with the right label or with the wrong one, equally often: a factor of two.
    expected = limit_with_noisy_labels(a, b, beta) - np.log(2.0) / np.log(n)
    assert found.exponent / np.log(n) == pytest.approx(expected, rel=2e-3)


def test_labels_of_all_but_a_few_add_their_rate_to_the_exponent():
    n, beta = 10**10, 0.4
    links = theory.exact_recovery([n // 2] * 2, *logarithmic(n, 6, 2))
    both = theory.exact_recovery([n // 2] * 2, *logarithmic(n, 6, 2), label_ratio=1 - n**-beta)
    assert both.exponent - links.exponent == pytest.approx(beta * np.log(n), rel=1e-4)


# Against simulation. ----------------------------------------------------------------------


@pytest.mark.parametrize("sources", ["G", "GF"])
def test_drawn_nodes_give_the_errors_of_the_genie_of_planted_data(sources):
    settings_ = {"p": 0.12, "q": 0.05, "n_features": 3, "n_noise": 1, "omega": 0.4}
    data = [
        make_planted(3, [20, 60, 160], label_ratio=0.0, random_state=seed, **settings_)
        for seed in range(30)
    ]
    wrong = [240 * (1 - each.genie_accuracy(sources)) for each in data]
    # Each draw has covariances of its own.
    drawn = [
        theory.genie_errors(
            [20, 60, 160],
            0.12,
            0.05,
            features=each.params["covariances"] if "F" in sources else None,
            n_draws=500,
            random_state=seed,
        )[0]
        for seed, each in enumerate(data)
    ]
    assert np.mean(drawn) == pytest.approx(np.mean(wrong), abs=5 * np.std(wrong) / np.sqrt(30))


@pytest.mark.parametrize("labels", [(0.0, 1.0), (0.6, 1.0), (0.8, 0.7)])
def test_the_bound_is_above_the_genies_errors_and_of_their_order(labels):
    C = np.stack([np.eye(2), np.diag([1.0, 0.3]), np.diag([0.3, 1.0])])
    for sizes in ([80, 80, 80], [30, 60, 150]):
        ratio, accuracy = labels
        model = (sizes, 0.25, 0.08, ratio, accuracy, C)
        errors, deviation = theory.genie_errors(*model, n_draws=20_000, random_state=0)
        bound = theory.exact_recovery(*model).expected_errors
        assert errors < bound + 3 * deviation
        assert bound < 20 * errors


def test_where_recovery_is_possible_the_genie_errs_nowhere():
    """On both sides of the limit, at n = 600."""
    for p, possible in ((0.16, False), (0.3, True)):
        sizes = [200, 200, 200]
        assert theory.exact_recovery(sizes, p, 0.08).possible == possible
        runs = [
            make_planted(3, 200, p=p, q=0.08, label_ratio=0.0, random_state=seed)
            for seed in range(6)
        ]
        perfect = [each.genie_accuracy("G") == 1.0 for each in runs]
        assert all(perfect) == possible
        assert any(perfect) == possible


def test_models_that_cannot_be_used_are_refused():
    for arguments, message in (
        (([3.5], 0.1, 0.1), "sizes"),
        (([3, 0], 0.1, 0.1), "sizes"),
        (([3, 3], 0.1), "give p and q"),
        (([3, 3], np.eye(2), 0.1), "give p and q"),
        (([3, 3], np.eye(3)), "symmetric"),
        (([3, 3], [[0.1, 0.2], [0.3, 0.1]]), "symmetric"),
        (([3, 3], 1.1, 0.1), "0…1"),
        (([3, 3], 0.2, 0.1, -0.1), "label_ratio"),
        (([3, 3], 0.2, 0.1, 0.1, 2.0), "label_accuracy"),
        (([3, 3], 0.2, 0.1, 0.1, 1.0, np.eye(2)), "covariance"),
        (([3, 3], 0.2, 0.1, 0.1, 1.0, -np.stack([np.eye(2)] * 2)), "positive definite"),
    ):
        with pytest.raises(InputError, match=message):
            theory.exact_recovery(*arguments)
        with pytest.raises(InputError, match=message):
            theory.genie_errors(*arguments)


@given(st.integers(0, 10_000))
@settings(max_examples=20, deadline=None)
def test_golden_sections_find_the_top_of_concave_functions(seed):
    rng = np.random.default_rng(seed)
    slopes, offsets = rng.normal(size=(2, 5, 4))
    points, values = maximise(lambda s: (slopes * s[:, None] + offsets).min(axis=1), (5,))
    grid = np.linspace(0, 1, 2001)
    best = (slopes[:, :, None] * grid + offsets[:, :, None]).min(axis=1).max(axis=1)
    assert (values >= best - 1e-12).all()
    np.testing.assert_allclose((slopes * points[:, None] + offsets).min(axis=1), values)


# The lemmas. ------------------------------------------------------------------------------


@given(st.integers(0, 10_000), st.integers(2, 8), st.integers(1, 6))
@settings(max_examples=40, deadline=None)
def test_atoms_with_a_unit_diagonal_meet_every_other_constraint(seed, n, r):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, r))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    lambdas = (rows**2).sum(axis=0)
    box = SpectralBox(0.5, 2.0, 2)
    thetas = box.project(rng.normal(size=(r, 2, 2)) * 3)
    found = theory.lemma_atoms(lambdas, rows / np.sqrt(lambdas), thetas, box)
    similarities = rows @ rows.T
    np.fill_diagonal(similarities, -np.inf)
    assert found.largest == pytest.approx(similarities.max())
    assert found.slack >= -1e-12
    assert found.violation < 1e-9
    assert found.total == pytest.approx(n)
    np.testing.assert_allclose(found.theta, np.einsum("va,aij->vij", rows**2, thetas), atol=1e-12)


def test_atoms_that_break_a_premise_are_refused():
    E, thetas = np.eye(3), np.eye(3)
    theory.lemma_atoms(np.ones(3), E, thetas, Simplex(3))
    for arguments, message in (
        ((np.ones(2), E, thetas), "takes r weights"),
        (([1.0, 1.0, -1.0], E, thetas), "atom 2 is -1"),
        ((np.ones(3), 2 * E, thetas), "length 1"),
        ((np.ones(3), E, 2 * thetas), "models in Θ"),
        (([1.0, 0.5, 1.0], E, thetas), "at node 1 it is 0.5"),
    ):
        with pytest.raises(InputError, match=message):
            theory.lemma_atoms(*arguments, Simplex(3))


@given(st.integers(0, 10_000), st.integers(2, 8), st.floats(0.0, 4.0))
@settings(max_examples=60, deadline=None)
def test_blocks_that_the_lemma_passes_are_positive_semidefinite(seed, n, lift):
    rng = np.random.default_rng(seed)
    D = rng.normal(size=(n, n))
    D = D + D.T + lift * np.eye(n) * np.sqrt(n)
    split = int(rng.integers(1, n))
    found = theory.lemma_blocks(D, split)
    least = np.linalg.eigvalsh(D)[0]
    assert found.least <= least + 1e-9
    assert found.implies_psd == (found.least >= 0)
    if found.implies_psd:
        assert least >= -1e-9


def test_the_lemma_of_blocks_is_sharp_and_checks_its_input():
    assert theory.lemma_blocks([[4.0, 2.0], [2.0, 1.0]], 1).slack == 0
    assert not theory.lemma_blocks([[4.0, 2.1], [2.1, 1.0]], 1).implies_psd
    assert theory.lemma_blocks([[-1.0, 0.0], [0.0, -2.0]], 1).slack == -2
    for D, split, message in (
        (np.ones((2, 3)), 1, "square"),
        (np.eye(2), 2, "split"),
        ([[1.0, 0.0], [0.5, 1.0]], 1, "symmetric"),
    ):
        with pytest.raises(InputError, match=message):
            theory.lemma_blocks(D, split)
