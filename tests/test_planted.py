"""Planted data follow the law they state, and the genie is the exact conditional."""

import itertools
import time
import tracemalloc

import numpy as np
import pytest
from scipy.stats import binom, chi2, multivariate_normal

from nodeproof.datasets import make_planted
from nodeproof.datasets.planted import _bernoulli_positions, _triangle_pairs
from nodeproof.errors import InputError

STANDARD_ERRORS = 5.0


def standard_error_off(successes: int, trials: int, probability: float) -> float:
    spread = np.sqrt(trials * probability * (1 - probability))
    return abs(successes - trials * probability) / spread


def block_counts(data) -> tuple[np.ndarray, np.ndarray]:
    """Return links and pairs of nodes between each two classes, each pair counted once."""
    sizes = np.asarray(data.params["sizes"])
    one_hot = np.eye(len(sizes))[data.y_true]
    links = one_hot.T @ (data.graph @ one_hot)
    pairs = np.outer(sizes, sizes) - np.diag(sizes)
    halve = np.where(np.eye(len(sizes)) == 1, 2, 1)
    return links / halve, pairs / halve


# The graph. -----------------------------------------------------------------------------


def test_links_have_their_probability_inside_and_across_classes():
    p, q, repeats = 0.3, 0.1, 40
    links = pairs = 0
    statistic = cells = 0
    for seed in range(repeats):
        data = make_planted(3, [40, 25, 60], p=p, q=q, random_state=seed)
        found, possible = block_counts(data)
        links, pairs = links + found, pairs + possible
        wanted = np.where(np.eye(3) == 1, p, q)
        off = (found - possible * wanted) ** 2 / (possible * wanted * (1 - wanted))
        statistic += off[np.triu_indices(3)].sum()
        cells += 6
    for i, j in itertools.combinations_with_replacement(range(3), 2):
        off = standard_error_off(links[i, j], pairs[i, j], p if i == j else q)
        assert off < STANDARD_ERRORS, (i, j)
    # Not only the means: single draws spread as coin flips do.
    low, high = chi2.ppf([1e-6, 1 - 1e-6], cells)
    assert low < statistic < high


def test_every_pair_of_nodes_is_as_likely_as_any_other():
    repeats = 4000
    for cells, probability in ((30, 0.2), (7, 0.9), (200, 0.01)):
        rng = np.random.default_rng(0)
        drawn = np.zeros((repeats, cells))
        for hits in drawn:
            hits[_bernoulli_positions(cells, probability, rng)] = 1
        for hits in drawn.T:
            assert standard_error_off(hits.sum(), repeats, probability) < STANDARD_ERRORS
        neighbours = (drawn[:, :-1] * drawn[:, 1:]).sum()
        assert standard_error_off(neighbours, repeats * (cells - 1), probability**2) < 10
        counts = np.bincount(drawn.sum(axis=1).astype(int), minlength=cells + 1)
        expected = repeats * binom.pmf(np.arange(cells + 1), cells, probability)
        common = expected > 5
        distance = ((counts - expected)[common] ** 2 / expected[common]).sum()
        assert distance < chi2.ppf(1 - 1e-6, common.sum())


def test_positions_of_rare_links_never_overflow():
    rng = np.random.default_rng(0)
    for _ in range(50):
        positions = _bernoulli_positions(10**15, 1e-14, rng)
        assert (np.diff(positions) > 0).all()
        assert len(positions) == 0 or (positions[0] >= 0 and positions[-1] < 10**15)


def test_the_graph_is_simple_symmetric_and_unweighted():
    graph = make_planted(2, [30, 50], p=0.5, q=0.4, random_state=0).graph
    assert graph.shape == (80, 80)
    assert graph.has_canonical_format
    assert (graph.data == 1).all()
    assert (graph.diagonal() == 0).all()
    assert (graph != graph.T).nnz == 0


def test_certain_links_are_all_there_and_impossible_ones_are_not():
    data = make_planted(3, [4, 7, 1], p=1, q=0, random_state=0)
    same = data.y_true[:, None] == data.y_true
    np.testing.assert_array_equal(data.graph.toarray(), same & ~np.eye(12, dtype=bool))
    data = make_planted(3, [4, 7, 1], p=0, q=1, random_state=0)
    same = data.y_true[:, None] == data.y_true
    np.testing.assert_array_equal(data.graph.toarray(), ~same)
    assert make_planted(2, 5, p=0, q=0).graph.nnz == 0


def test_positions_name_the_pairs_of_a_triangle():
    pairs = [(row, column) for row in range(60) for column in range(row)]
    rows, columns = _triangle_pairs(np.arange(len(pairs)))
    assert list(zip(rows.tolist(), columns.tolist(), strict=True)) == pairs


@pytest.mark.parametrize("row", [10**5, 1_414_214, 1_414_215, 2**21, 10**7, 10**8])
def test_positions_stay_exact_far_beyond_what_a_square_root_resolves(row):
    first = row * (row - 1) // 2
    offsets = [-2, -1, 0, 1, 2, row // 2, row - 1, row]
    rows, columns = _triangle_pairs(np.array([first + offset for offset in offsets]))
    assert rows.tolist() == [row - 1, row - 1, row, row, row, row, row, row + 1]
    assert columns.tolist() == [row - 3, row - 2, 0, 1, 2, row // 2, row - 1, 0]


@pytest.mark.parametrize("top", [10**6, 10**12, 10**15])
def test_every_position_names_one_pair(top):
    positions = np.random.default_rng(0).integers(0, top, size=10_000)
    rows, columns = _triangle_pairs(positions)
    assert ((columns >= 0) & (columns < rows)).all()
    np.testing.assert_array_equal(rows * (rows - 1) // 2 + columns, positions)


# Classes, labels, features. -------------------------------------------------------------


def test_classes_have_their_sizes():
    data = make_planted(4, [5, 1, 30, 12], random_state=0)
    assert np.bincount(data.y_true).tolist() == [5, 1, 30, 12]
    assert data.X.shape == (48, 6)
    data = make_planted(4, 9, random_state=0)
    assert np.bincount(data.y_true).tolist() == [9] * 4
    assert data.params["sizes"].tolist() == [9] * 4


def test_nodes_are_shuffled():
    y = make_planted(2, 2000, p=0, q=0, random_state=0).y_true
    alike = int((y[1:] == y[:-1]).sum())
    assert standard_error_off(alike, len(y) - 1, 0.5) < STANDARD_ERRORS


def test_each_class_has_its_share_of_labels():
    data = make_planted(3, [100, 50, 20], label_ratio=0.3, random_state=0)
    assert np.bincount(data.y_true[data.y >= 0]).tolist() == [30, 15, 6]
    assert (data.y[data.y >= 0] == data.y_true[data.y >= 0]).all()
    assert (make_planted(label_ratio=0, random_state=0).y == -1).all()
    data = make_planted(label_ratio=1, random_state=0)
    assert (data.y == data.y_true).all()


def test_labels_are_wrong_as_often_as_said_and_then_uniform_over_the_others():
    K, size = 4, 5000
    data = make_planted(K, size, p=0, q=0, label_ratio=1, label_accuracy=0.7, random_state=0)
    for i in range(K):
        given = np.bincount(data.y[data.y_true == i], minlength=K)
        assert standard_error_off(given[i], size, 0.7) < STANDARD_ERRORS
        wrong = np.delete(given, i)
        for count in wrong:
            assert standard_error_off(count, wrong.sum(), 1 / 3) < STANDARD_ERRORS
    never = make_planted(K, 50, label_ratio=1, label_accuracy=0, random_state=0)
    assert (never.y != never.y_true).all()


def test_covariances_have_the_stated_eigenvalues_and_a_basis_each():
    data = make_planted(3, 5, n_features=5, n_noise=3, omega=0.2, sigma=1.5, random_state=0)
    covariances = data.params["covariances"]
    assert covariances.shape == (3, 5, 5)
    for covariance in covariances:
        np.testing.assert_allclose(covariance, covariance.T, atol=1e-14)
        values = np.linalg.eigvalsh(covariance)
        np.testing.assert_allclose(values, [0.04] * 3 + [2.25] * 2, rtol=1e-10)
    for left, right in itertools.combinations(covariances, 2):
        assert np.abs(left - right).max() > 0.05


def test_features_have_the_covariance_of_their_class():
    size = 20_000
    data = make_planted(2, size, p=0, q=0, n_features=3, n_noise=1, omega=0.3, random_state=0)
    for i, C in enumerate(data.params["covariances"]):
        X = data.X[data.y_true == i]
        mean_error = np.sqrt(np.diag(C) / size)
        assert (np.abs(X.mean(axis=0)) < STANDARD_ERRORS * mean_error).all()
        error = np.sqrt((np.outer(np.diag(C), np.diag(C)) + C**2) / size)
        assert (np.abs(X.T @ X / size - C) < STANDARD_ERRORS * error).all()
        # And Gaussian: the squared Mahalanobis norm is chi-square, variance 2m.
        norms = np.einsum("vi,ij,vj->v", X, np.linalg.inv(C), X)
        assert abs(norms.var() - 6) < 0.5


def test_eigenbases_have_no_preferred_direction():
    noise = np.array(
        [
            np.linalg.eigh(
                make_planted(1, 1, n_features=2, n_noise=1, random_state=s).params["covariances"][0]
            )[1][:, 0]
            for s in range(400)
        ]
    )
    doubled = 2 * np.arctan2(noise[:, 1], noise[:, 0])
    assert abs(np.cos(doubled).mean()) < STANDARD_ERRORS / np.sqrt(2 * 400)
    assert abs(np.sin(doubled).mean()) < STANDARD_ERRORS / np.sqrt(2 * 400)


# Seeds and arguments. -------------------------------------------------------------------


def bits(data) -> tuple[bytes, ...]:
    arrays = (data.graph.indptr, data.graph.indices, data.graph.data, data.X, data.y, data.y_true)
    return tuple(array.tobytes() for array in arrays)


@pytest.mark.parametrize(
    "seed",
    [
        lambda value: value,
        np.int64,
        np.random.default_rng,
        np.random.RandomState,
    ],
    ids=["int", "numpy int", "Generator", "RandomState"],
)
def test_the_same_seed_gives_the_same_bits_and_another_does_not(seed):
    first = bits(make_planted(cluster_size=20, random_state=seed(7)))
    again = bits(make_planted(cluster_size=20, random_state=seed(7)))
    other = bits(make_planted(cluster_size=20, random_state=seed(8)))
    assert first == again
    assert all(
        one != two for one, two in zip(first[1:2] + first[3:], other[1:2] + other[3:], strict=True)
    )


def test_without_a_seed_every_draw_is_new():
    assert bits(make_planted(cluster_size=20)) != bits(make_planted(cluster_size=20))


BAD_ARGUMENTS = [
    ({"n_clusters": 0}, "n_clusters must be at least 1, got 0"),
    ({"cluster_size": [5, 5]}, "cluster_size lists 2 sizes for n_clusters=3"),
    ({"cluster_size": 0}, "every class needs at least one node, got cluster_size=0"),
    ({"cluster_size": [5, -1, 5]}, "every class needs at least one node"),
    ({"cluster_size": 2.5}, "must be an integer or a list of them, got 2.5"),
    ({"p": 1.5}, "p must lie in 0…1, got 1.5"),
    ({"q": -0.1}, "q must lie in 0…1, got -0.1"),
    ({"p": np.nan}, "p must lie in 0…1, got nan"),
    ({"label_ratio": 2}, "label_ratio must lie in 0…1, got 2"),
    ({"label_accuracy": -1}, "label_accuracy must lie in 0…1, got -1"),
    ({"n_noise": 7}, "n_noise must lie in 0…n_features=6, got 7"),
    ({"n_noise": -1}, "n_noise must lie in 0…n_features=6, got -1"),
    ({"omega": 0.0}, "omega and sigma must be positive, got 0.0 and 1.0"),
    ({"sigma": np.inf}, "omega and sigma must be positive, got 0.04 and inf"),
    ({"n_clusters": 1, "label_accuracy": 0.5}, "at least two classes"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD_ARGUMENTS, ids=str)
def test_every_bad_argument_has_its_own_message(arguments, message):
    with pytest.raises(InputError) as caught:
        make_planted(**arguments)
    assert message in str(caught.value)


def test_the_text_form_counts_nodes_edges_and_labels():
    data = make_planted(2, 10, p=1, q=0, label_ratio=0.5, random_state=0)
    assert repr(data) == "Planted(n=20, edges=90, n_features=6, n_clusters=2, labels=10)"


# The genie. -----------------------------------------------------------------------------


def joint_log_likelihood(data, z, sources: str) -> float:
    """Return log p(A, X, z) pair by pair and node by node, classes drawn independently."""
    p, q, sizes = data.params["p"], data.params["q"], data.params["sizes"]
    n, A = len(z), data.graph.toarray()
    total = sum(np.log(sizes[i] / n) for i in z)
    if "G" in sources:
        for u, v in itertools.combinations(range(n), 2):
            probability = p if z[u] == z[v] else q
            total += np.log(probability if A[u, v] else 1 - probability)
    if "F" in sources:
        for v in range(n):
            covariance = data.params["covariances"][z[v]]
            total += multivariate_normal(np.zeros(len(covariance)), covariance).logpdf(data.X[v])
    return total


@pytest.mark.parametrize("sources", ["G", "F", "GF", "FG", "GFL"])
def test_the_genie_is_the_exact_conditional(sources):
    data = make_planted(
        3, [3, 2, 3], p=0.6, q=0.3, n_features=2, n_noise=1, omega=0.5, random_state=1
    )
    proba = data.genie_proba(sources)
    assert proba.shape == (8, 3)
    for v in range(8):
        scores = []
        for i in range(3):
            z = data.y_true.copy()
            z[v] = i
            scores.append(joint_log_likelihood(data, z, sources))
        expected = np.exp(np.array(scores) - np.logaddexp.reduce(scores))
        np.testing.assert_allclose(proba[v], expected, rtol=1e-6, atol=1e-12)


def test_two_sources_tell_the_genie_more_than_one():
    draws = [
        make_planted(cluster_size=60, p=0.16, q=0.1, omega=0.4, random_state=seed)
        for seed in range(15)
    ]
    both, graph, features = (
        np.mean([data.genie_accuracy(sources) for data in draws]) for sources in ("GF", "G", "F")
    )
    assert both > max(graph, features) + 0.02
    assert min(graph, features) > 0.4


def test_the_genies_probabilities_come_true():
    data = make_planted(3, [600, 300, 200], p=0.02, q=0.01, omega=0.6, random_state=0)
    proba = data.genie_proba("GF")
    right = proba.argmax(axis=1) == data.y_true
    sure = proba.max(axis=1)
    spread = np.sqrt((sure * (1 - sure)).sum())
    assert abs(right.sum() - sure.sum()) < STANDARD_ERRORS * spread


def test_the_genie_is_asked_about_unlabelled_nodes_only():
    data = make_planted(cluster_size=40, p=0.2, q=0.1, label_ratio=0.5, random_state=0)
    right = data.genie_proba("GF").argmax(axis=1) == data.y_true
    assert data.genie_accuracy("GF") == right[data.y < 0].mean()
    full = make_planted(cluster_size=40, p=0.2, q=0.1, label_ratio=1, random_state=0)
    right = full.genie_proba("GF").argmax(axis=1) == full.y_true
    assert full.genie_accuracy("GF") == right.mean()


def test_the_genie_bears_certain_links():
    assert make_planted(cluster_size=10, p=1, q=0, random_state=0).genie_accuracy("G") == 1.0
    assert make_planted(cluster_size=10, p=0, q=1, random_state=0).genie_accuracy("G") == 1.0


@pytest.mark.parametrize("sources", ["L", "", "X", "gf", "GFX"])
def test_the_genie_needs_the_graph_or_features(sources):
    with pytest.raises(InputError, match="sources must hold G or F") as caught:
        make_planted(cluster_size=5, random_state=0).genie_accuracy(sources)
    assert repr(sources) in str(caught.value)


# Size. ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_million_nodes_and_ten_million_links_take_seconds_and_no_dense_matrix():
    n, K, p, q = 10**6, 10, 1e-4, 1.11e-5
    tracemalloc.start()
    begin = time.perf_counter()
    data = make_planted(K, n // K, p=p, q=q, n_features=2, n_noise=1, random_state=0)
    seconds = time.perf_counter() - begin
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    inside = K * (n // K) * (n // K - 1) // 2
    expected = inside * p + (n * (n - 1) // 2 - inside) * q
    assert abs(data.graph.nnz / 2 - expected) < STANDARD_ERRORS * np.sqrt(expected)
    assert expected == pytest.approx(1e7, rel=0.02)
    assert seconds < 60
    assert peak < 1e9
