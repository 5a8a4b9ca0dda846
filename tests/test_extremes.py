"""Inputs at the edge of what makes sense: what is expected of them, or how they are refused."""

from __future__ import annotations

import itertools
import json
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from cli_helpers import run
from nodeproof import NodeClassifier
from nodeproof.auto.settings import most_certain
from nodeproof.datasets import make_planted
from nodeproof.errors import InputError
from nodeproof.solvers import BlockCADO
from nodeproof.terms import Covariance, Gaussian, Labels, Softmax

pytestmark = [
    pytest.mark.filterwarnings("ignore:predict.X. classifies new nodes"),
    pytest.mark.filterwarnings("ignore:the data do not tell"),
]

SOURCES = ["".join(part) for k in (1, 2, 3) for part in itertools.combinations("GXY", k)]


@pytest.fixture(scope="module")
def data():
    return make_planted(3, 20, p=0.6, q=0.05, omega=0.1, label_ratio=0.3, random_state=0)


@pytest.fixture(scope="module")
def plain(data):
    """A fit of everything, with all settings as they come."""
    return fit(data.X, data.y, data.graph)


@pytest.fixture(scope="module")
def linked(data):
    """A fit of links and labels."""
    return fit(None, data.y, data.graph, weights="calibrated")


def fit(X=None, y=None, graph=None, **settings):
    """Fit quietly, and check what holds of every fit."""
    settings = {"random_state": 0, "n_jobs": 1, **settings}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)
        clf = NodeClassifier(**settings).fit(X, y, graph=graph)
    assert np.isfinite(clf.proba_).all()
    assert np.isfinite(clf.objective_)
    total = most_certain(clf.n_classes, clf.fitted_.given, len(clf.classes_))
    np.testing.assert_allclose(clf.proba_.sum(axis=1), total, atol=1e-5)
    assert (clf.labels_ == clf.classes_[clf.proba_.argmax(axis=1)]).all()
    return clf


def use_everything(clf, X=None, graph=None):
    """Do all that can be done with a fitted model."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)
        proof = clf.certify(time_budget=0.1)
        asked = clf.query(2)
        new = None
        if X is not None or graph is not None:
            new = clf.predict_proba(X, graph=graph)
    assert len(proof.labels) == len(clf.labels_)
    assert proof.lower_bound <= proof.objective or proof.status == "not applicable"
    assert len(asked) <= 2
    if new is not None:
        assert np.isfinite(new).all()
        total = most_certain(clf.n_classes, clf.fitted_.given, len(clf.classes_))
        np.testing.assert_allclose(new.sum(axis=1), total, atol=1e-5)
    return proof


def agree(one, two):
    """Return the share of nodes that two fits put in the same class."""
    return float((one.labels_ == two.labels_).mean())


# Few nodes, few classes. ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("solver", "sources"),
    [
        *(("block", sources) for sources in SOURCES),
        *(("cado", sources) for sources in ("G", "X", "GXY")),
        *(("sdp", sources) for sources in ("Y", "GY", "GX")),
        *(("admm", sources) for sources in ("G", "GY", "XY")),
        *(("cano", sources) for sources in ("Y", "GXY")),
    ],
)
def test_one_node(solver, sources):
    given = {"graph": np.zeros((1, 1)), "X": np.array([[1.5, -2.0]]), "y": ["a"]}
    kept = {name: value for name, value in given.items() if name[0].upper() in sources}
    if "X" in sources and solver in ("sdp", "admm"):
        with pytest.raises(InputError, match="needs models in a polytope"):
            fit(**kept, n_classes=1, solver=solver)
        return
    clf = fit(**kept, n_classes=1, solver=solver)
    assert clf.proba_.tolist() == [[1.0]]
    if "Y" in sources:
        assert clf.labels_.tolist() == ["a"]
    proof = use_everything(clf, kept.get("X"))
    assert proof.certified


@pytest.mark.parametrize("sources", SOURCES)
def test_one_class(data, sources):
    given = {"G": {"graph": data.graph}, "X": {"X": data.X}, "Y": {"y": np.zeros(60, int)}}
    kept = {}
    for source in sources:
        kept |= given[source]
    clf = fit(**kept, n_classes=1)
    assert (clf.proba_ == 1.0).all()
    assert len(clf.suspects_) == 0
    assert use_everything(clf, kept.get("X")).certified


@pytest.mark.parametrize(
    ("sources", "temperature"),
    [*((sources, 1.0) for sources in SOURCES), ("X", 0.0), ("GY", 0.0), ("GXY", 0.0)],
)
def test_as_many_classes_as_nodes(sources, temperature):
    rng = np.random.default_rng(0)
    A = np.triu(rng.random((6, 6)) < 0.5, 1) * 1.0
    given = {
        "G": {"graph": A + A.T}, "X": {"X": rng.standard_normal((6, 2))}, "Y": {"y": np.arange(6)}
    }  # fmt: skip
    kept = {}
    for source in sources:
        kept |= given[source]
    clf = fit(**kept, n_classes=6, temperature=temperature)
    assert clf.proba_.shape == (6, 6)
    use_everything(clf, kept.get("X"))
    if sources == "Y":
        assert clf.labels_.tolist() == list(range(6))


# Labels. --------------------------------------------------------------------------------


@pytest.mark.parametrize("sources", ["GY", "XY", "GXY", "Y"])
def test_one_label_in_all_makes_one_class(data, sources):
    y = np.full(60, -1)
    y[7] = 4
    clf = fit(data.X if "X" in sources else None, y, data.graph if "G" in sources else None)
    assert clf.classes_.tolist() == [4]
    assert (clf.labels_ == 4).all()


@pytest.mark.parametrize("sources", ["GY", "GXY"])
def test_one_label_and_three_classes_name_one_of_three_clusters(data, sources):
    y = np.full(60, -1)
    y[7] = data.y_true[7]
    clf = fit(data.X if "X" in sources else None, y, data.graph, n_classes=3)
    assert clf.labels_[7] == y[7]
    same = clf.labels_ == y[7]
    assert (same == (data.y_true == y[7])).mean() > 0.95


@pytest.mark.parametrize("sources", ["GY", "XY", "GXY", "Y"])
def test_given_labels_are_kept_where_all_are_right(data, sources):
    clf = fit(
        data.X if "X" in sources else None, data.y_true, data.graph if "G" in sources else None
    )
    doubted = clf.suspects_.node
    kept = np.setdiff1d(np.arange(60), doubted)
    assert (clf.labels_[kept] == data.y_true[kept]).all()
    assert len(doubted) <= 1
    assert len(clf.query(3)) == 0


@pytest.mark.parametrize(
    ("settings", "y", "message"),
    [
        ({"n_classes": 2}, [0, 1, 2, -1], "name 3 classes .* n_classes=2"),
        ({}, [0, 1, 1], "X has 4, y has 3"),
        ({}, [0, 1, 1, 0, 1], "X has 4, y has 5"),
        ({}, [[0, 1], [1, 0], [0, 0], [1, 1]], "one label per node"),
        ({}, [0.5, 1.25, 0.5, 2.0], "Unknown label type"),
        ({}, [], "X has 4, y has 0"),
    ],
)
def test_labels_that_contradict_are_refused(settings, y, message):
    with pytest.raises(InputError, match=message):
        NodeClassifier(**settings).fit(np.eye(4), y)


# Features. ------------------------------------------------------------------------------


def test_features_without_columns_are_refused():
    for X in (np.zeros((4, 0)), sp.csr_array((4, 0))):
        with pytest.raises(InputError, match=r"0 feature\(s\)"):
            NodeClassifier().fit(X, [0, 1, -1, -1])


@pytest.mark.parametrize(
    ("form", "linked", "labelled"),
    [
        ("dense", True, True),
        ("dense", False, False),
        ("sparse", False, True),
        ("sparse", True, False),
    ],
)
def test_a_hundred_thousand_columns(form, linked, labelled):
    rng = np.random.default_rng(0)
    n, m = 20, 100_000
    z = np.arange(n) % 2
    if form == "dense":
        X = rng.standard_normal((n, m)).astype(np.float32) + 0.2 * z[:, None]
    else:
        rows = np.repeat(np.arange(n), 200)
        columns = rng.integers(m // 2, size=n * 200) + (m // 2) * np.repeat(z, 200)
        words = rng.integers(100, size=n * 200) + 100 * np.repeat(z, 200)
        columns[::2] = words[::2]
        X = sp.csr_array(sp.coo_array((np.ones(n * 200), (rows, columns)), shape=(n, m)))
    graph = np.equal.outer(z, z) * 1.0 if linked else None
    y = np.where(np.arange(n) < 10, z, -1) if labelled else None
    clf = fit(X, y, graph, n_classes=2)
    right = (clf.labels_ == z).mean()
    assert max(right, 0 if labelled else 1 - right) > 0.9
    use_everything(clf, X[:2])


@pytest.mark.parametrize(
    ("value", "with_links"),
    [(0.0, True), (-3.5, False), (0.1, True), (1 / 3, False), (1e30, True), (1e-30, False)],
)
def test_constant_features_tell_nothing(data, value, with_links):
    graph = data.graph if with_links else None
    X = np.full((60, 2), value)
    clf = fit(X, data.y, graph)
    without = fit(None, data.y, graph)
    hidden = data.y < 0
    np.testing.assert_allclose(clf.proba_[hidden], without.proba_[hidden], atol=0.02)
    use_everything(clf, X[:1])


TERMS = {
    "auto": "auto",
    "Covariance": [Covariance(intercept=True), Labels()],
    "Gaussian": [Gaussian(), Labels()],
    "shared": [Gaussian("shared"), Labels()],
    "full": [Gaussian("full"), Labels()],
    "Softmax": [Softmax(hops=2), Labels()],
}


@pytest.mark.parametrize(
    ("terms", "scale", "kind"),
    [
        ("auto", 1e30, np.float32),
        ("auto", 1e-30, np.float64),
        ("Covariance", 1e30, np.float32),
        ("Gaussian", 1e-30, np.float64),
        ("shared", 1e30, np.float32),
        ("full", 1e-30, np.float64),
        ("Softmax", 1e30, np.float32),
    ],
)
def test_the_unit_of_features_does_not_matter(data, terms, scale, kind):
    X = data.X.astype(kind)
    settings = {"terms": TERMS[terms]}
    plain = fit(X, data.y, data.graph, **settings)
    scaled = fit(X * kind(scale), data.y, data.graph, **settings)
    assert agree(plain, scaled) == 1.0
    np.testing.assert_allclose(plain.proba_, scaled.proba_, atol=0.02)
    np.testing.assert_array_equal(
        plain.predict(X[:9]), scaled.predict(X[:9] * kind(scale)), err_msg="new nodes"
    )
    use_everything(scaled, X[:2] * kind(scale))


@pytest.mark.parametrize("terms", TERMS)
def test_columns_may_have_units_of_their_own(data, terms):
    X = data.X * 10.0 ** np.linspace(-30, 30, data.X.shape[1])
    settings = {"terms": TERMS[terms]}
    mixed = fit(X, data.y, data.graph, **settings)
    assert agree(mixed, fit(data.X, data.y, data.graph, **settings)) > 0.98
    use_everything(mixed, X[:2])


@pytest.mark.parametrize("scale", [1e-300, 1e300, 1e-150, 1e150])
def test_dense_features_may_use_all_of_float64(data, plain, scale):
    scaled = fit(data.X * scale, data.y, data.graph)
    assert agree(plain, scaled) == 1.0


@pytest.mark.parametrize("settings", [{"weights": (1.0, 2.5, 13.0)}, {"solver": "cado"}])
def test_features_too_large_to_be_squared_are_refused(data, settings):
    with pytest.raises(InputError, match="too large to be squared"):
        fit(data.X * 1e200, data.y, data.graph, **settings)
    with pytest.raises(InputError, match="too large to be squared"):
        fit(sp.csr_array(np.abs(data.X) * 1e200), data.y, data.graph)


@pytest.mark.parametrize("terms", TERMS)
def test_new_nodes_may_lie_anywhere(data, terms):
    clf = fit(data.X, data.y, data.graph, terms=TERMS[terms])
    for far in (1e6, 1e30, -1e60):
        rows = clf.predict_proba(data.X[:3] * far)
        assert np.isfinite(rows).all()
    with pytest.raises(InputError, match="too large to be squared"):
        clf.predict(data.X[:3] * 1e200)


@pytest.fixture(scope="module")
def flags(data):
    """Features of zeros and ones, and a fit of them."""
    X = (np.abs(data.X) > 0.7) * 1.0
    return X, fit(X, data.y, data.graph, weights="calibrated")


@pytest.mark.parametrize(
    "kind", [bool, np.int8, np.uint8, np.int64, np.float16, np.float32, ">f8", "float128", object]
)
def test_types_of_features_do_not_matter(data, flags, kind):
    if kind == "float128" and not hasattr(np, "float128"):
        pytest.skip("no float128 here")
    X, one = flags
    two = fit(X.astype(kind), data.y, data.graph, weights="calibrated")
    assert agree(one, two) == 1.0
    np.testing.assert_allclose(one.proba_, two.proba_, atol=1e-4)


def test_halves_are_taken_for_what_they_are(data):
    half = data.X.astype(np.float16)
    one, two = fit(half, data.y, data.graph), fit(half.astype(np.float32), data.y, data.graph)
    np.testing.assert_array_equal(one.proba_, two.proba_)


def layouts(array):
    wide = np.zeros((array.shape[0], 2 * array.shape[1]), array.dtype)
    wide[:, ::2] = array
    frozen = array.copy()
    frozen.setflags(write=False)
    return {
        "Fortran": np.asfortranarray(array),
        "strided": wide[:, ::2],
        "backwards": array[::-1].copy()[::-1],
        "read-only": frozen,
    }


@pytest.mark.parametrize("layout", ["Fortran", "strided", "backwards", "read-only"])
def test_layouts_do_not_matter(data, plain, layout):
    X, A = layouts(data.X)[layout], layouts(data.graph.toarray())[layout]
    y = layouts(data.y[:, None])[layout][:, 0]
    other = fit(X, y, A)
    np.testing.assert_array_equal(plain.proba_, other.proba_)
    np.testing.assert_array_equal(plain.predict(data.X), other.predict(X))


def test_what_is_given_is_not_written_to(data):
    matrix = sp.csr_array(data.graph)
    parts = [data.X, data.y, matrix.data, matrix.indices, matrix.indptr]
    before = [part.copy() for part in parts]
    clf = fit(data.X, data.y, matrix)
    use_everything(clf, data.X[:1], matrix[:1])
    for part, copy in zip(parts, before, strict=True):
        np.testing.assert_array_equal(part, copy)


# Nodes that are alike. ------------------------------------------------------------------


def test_duplicates_get_the_same_label(data):
    A = data.graph.toarray()
    X, y = np.vstack([data.X, data.X]), np.r_[data.y, np.full(60, -1)]
    clf = fit(X, y, np.block([[A, A], [A, A]]))
    assert (clf.labels_[:60] == clf.labels_[60:]).mean() > 0.98
    bare = data.y < 0
    np.testing.assert_allclose(clf.proba_[:60][bare], clf.proba_[60:][bare], atol=0.02)


@pytest.mark.parametrize("terms", ["auto", "Covariance", "Gaussian", "shared", "full"])
def test_rows_that_repeat(terms):
    X = np.repeat([[0.0, 1.0], [5.0, -1.0]], 10, axis=0)
    y = np.full(20, -1)
    y[[0, 1, 10, 11]] = 0, 0, 1, 1
    clf = fit(X, y, terms=TERMS[terms])
    assert clf.labels_.tolist() == [0] * 10 + [1] * 10
    assert len(np.unique(clf.proba_[2:10], axis=0)) == 1
    use_everything(clf, X[:1])


# Graphs. --------------------------------------------------------------------------------


def star(n):
    A = np.zeros((n, n))
    A[0, 1:] = A[1:, 0] = 1.0
    return A


def path(n):
    return np.eye(n, k=1) + np.eye(n, k=-1)


def clique(n):
    return 1.0 - np.eye(n)


GRAPHS = {
    "star": star(12),
    "clique": clique(12),
    "path": path(12),
    "empty": np.zeros((12, 12)),
    "loops": np.eye(12),
    "two parts": np.kron(np.eye(2), clique(6)),
    "one link": np.eye(12, k=1) * (np.arange(12) == 0)[:, None],
}


SETTINGS = {
    "uniform": {"null_model": "uniform"},
    "degree": {"null_model": "degree"},
    "hard": {"temperature": 0.0},
    "matrix": {"solver": BlockCADO(affinities="matrix", random_state=0, n_jobs=1)},
    "fixed": {"weights": (1.0, 2.5, 13.0)},
    "cado": {"solver": "cado", "max_iter": 20},
}


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        *((name, settings) for name in GRAPHS for settings in ("uniform", "matrix")),
        *(
            (name, settings)
            for name in ("star", "empty")
            for settings in ("degree", "hard", "fixed", "cado")
        ),
    ],
)
def test_graphs_of_few_words(name, settings):
    chosen = {"n_classes": 2, "n_init": 1, "terms": [Labels()], **SETTINGS[settings]}
    y = np.full(12, -1)
    y[[1, 2, 10, 11]] = 0, 0, 1, 1
    clf = fit(None, y, GRAPHS[name], **chosen)
    links = np.zeros((1, 12))
    links[0, 3] = 1.0
    use_everything(clf, graph=links)
    fit(None, None, GRAPHS[name], **{**chosen, "terms": []})


@pytest.mark.parametrize("name", GRAPHS)
def test_classes_of_graphs_of_few_words_are_counted(name):
    clf = fit(None, None, GRAPHS[name])
    assert len(clf.classes_) == (2 if name == "two parts" else 1)


@pytest.mark.parametrize(
    ("name", "solver"),
    [
        *((name, "admm") for name in GRAPHS),
        *((name, solver) for name in ("path", "empty") for solver in ("sdp", "cano")),
    ],
)
def test_the_convex_program_of_graphs_of_few_words(name, solver):
    small = GRAPHS[name][:5, :5]
    clf = fit(None, [0, 1, -1, -1, 0], small, solver=solver)
    assert clf.lower_bound_ <= clf.objective_ + 1e-6
    assert clf.labels_[:2].tolist() == [0, 1]
    use_everything(clf)


def test_leaves_of_a_star_are_treated_alike():
    y = np.full(12, -1)
    y[:3] = 0, 0, 1
    for null_model in ("uniform", "degree"):
        clf = fit(None, y, star(12), null_model=null_model, weights="calibrated", tol=1e-6)
        np.testing.assert_allclose(clf.proba_[3:], clf.proba_[3:4].repeat(9, axis=0), atol=1e-4)


def test_a_clique_says_nothing():
    y = np.full(30, -1)
    y[:9] = [0] * 6 + [1] * 3
    with pytest.warns(UserWarning, match="do not tell the classes apart"):
        clf = NodeClassifier(random_state=0).fit(y=y, graph=clique(30))
    assert (clf.labels_[:9] == y[:9]).all()
    np.testing.assert_allclose(clf.proba_[9:], clf.proba_[9:10].repeat(21, axis=0), atol=1e-3)


def test_an_empty_graph_is_no_graph():
    y = np.full(30, -1)
    y[:9] = [0] * 6 + [1] * 3
    X = np.random.default_rng(0).standard_normal((30, 2)) + 4.0 * (np.arange(30) % 2)[:, None]
    one, two = fit(X, y, np.zeros((30, 30))), fit(X, y)
    np.testing.assert_allclose(one.proba_, two.proba_, atol=0.01)


def test_parts_that_are_not_linked(data):
    A = data.graph.toarray() * np.equal.outer(data.y_true, data.y_true)
    clf = fit(None, data.y, A)
    assert (clf.labels_ == data.y_true).all()


def test_loops_do_not_count(data, linked):
    looped = data.graph.tolil(copy=True)
    looped.setdiag(5.0)
    with_loops = fit(None, data.y, looped.tocsr(), weights="calibrated")
    np.testing.assert_array_equal(with_loops.proba_, linked.proba_)


def test_repeated_links_count_once_in_a_matrix_and_in_a_list(data, linked):
    matrix = sp.coo_array(data.graph)
    u, v = matrix.coords
    twice = (np.r_[u, u], np.r_[v, v])
    listed = fit(None, data.y, np.array(twice), weights="calibrated")
    np.testing.assert_array_equal(listed.proba_, linked.proba_)
    matrix_of_both = sp.coo_array((np.ones(2 * len(u)), twice), shape=matrix.shape)
    merged = fit(None, data.y, matrix_of_both, weights="calibrated")
    np.testing.assert_array_equal(merged.proba_, linked.proba_)


@pytest.mark.parametrize(
    ("sources", "scale", "null_model"),
    [
        ("GY", 1e-29, "uniform"),
        ("GY", 1e29, "degree"),
        ("GY", 1e12, "uniform"),
        ("GXY", 1e-29, "degree"),
        ("GXY", 1e29, "uniform"),
        ("GXY", 1e-12, "degree"),
    ],
)
def test_the_unit_of_weights_does_not_matter(data, sources, scale, null_model):
    X, y = data.X if "X" in sources else None, data.y if "Y" in sources else None
    rng = np.random.default_rng(0)
    A = sp.csr_array(sp.triu(data.graph))
    A.data = rng.uniform(0.5, 2.0, A.nnz)
    A = A + A.T
    settings = {"n_classes": 3, "null_model": null_model, "weights": "calibrated"}
    plain = fit(X, y, A, **settings)
    scaled = fit(X, y, A * scale, **settings)
    assert agree(plain, scaled) > 0.98
    new = (A[:2] * scale).toarray()
    use_everything(scaled, None if X is None else X[:2], new)


@pytest.mark.parametrize(
    ("sources", "kind"), [("GY", np.float64), ("GXY", np.float32), ("G", np.float32)]
)
def test_weights_may_differ_by_many_orders(data, sources, kind):
    X, y = data.X if "X" in sources else None, data.y if "Y" in sources else None
    A = sp.csr_array(sp.triu(data.graph), dtype=kind)
    A.data = 10.0 ** np.random.default_rng(0).uniform(-12, 12, A.nnz).astype(kind)
    A = A + A.T
    for null_model in ("uniform", "degree"):
        clf = fit(X, y, A, n_classes=3, null_model=null_model, weights="calibrated")
        use_everything(clf, None if X is None else X[:2], A[:2])


@pytest.mark.parametrize("weight", [1e-31, 1e31, 1e-300, 1e300])
def test_weights_beyond_single_precision_are_refused(weight):
    with pytest.raises(InputError, match=r"link \(0, 1\) is .*; give weights from 1e-30 to 1e\+30"):
        fit(None, [0, 1], np.array([[0, weight], [weight, 0]]))
    clf = fit(None, [0, 1], np.array([[0, 1.0], [1.0, 0]]))
    with pytest.raises(InputError, match="not from 1e-30 to"):
        clf.predict(graph=[[0.0, weight]])


@pytest.mark.parametrize("kind", [bool, np.int8, np.uint8, np.int64, np.float16, np.float32, ">f8"])
def test_types_of_links_do_not_matter(data, linked, kind):
    other = fit(None, data.y, data.graph.toarray().astype(kind), weights="calibrated")
    np.testing.assert_array_equal(other.proba_, linked.proba_)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"weights": (1e31, 1.0, 1.0)}, "from 0 to 1e\\+30"),
        ({"weights": 1e31}, "at most 1e\\+30"),
        ({"weights": (1.0, 1.0, 1.0), "son": 1e31}, "at most 1e\\+30"),
        ({"weights": (1.0, 1.0, 1.0), "threshold": 1e31}, "threshold must be"),
        ({"weights": (1.0, 1.0, 1.0), "threshold": None}, "threshold must be"),
    ],
)
def test_settings_out_of_all_proportion_are_refused(data, settings, message):
    with pytest.raises(InputError, match=message):
        fit(data.X, data.y, data.graph, **settings)


@pytest.mark.parametrize("temperature", [1e-300, 1e-12, 1e12, 1e300])
def test_any_temperature_is_a_temperature(data, temperature):
    clf = fit(data.X, data.y, data.graph, temperature=temperature)
    if temperature < 1:
        hard = fit(data.X, data.y, data.graph, temperature=0.0)
        assert agree(clf, hard) > 0.95
    use_everything(clf, data.X[:2])


# Files. ---------------------------------------------------------------------------------


def saved_and_loaded(clf, folder):
    clf.save(folder / "model.npz")
    loaded = NodeClassifier.load(folder / "model.npz")
    np.testing.assert_array_equal(loaded.proba_, clf.proba_)
    np.testing.assert_array_equal(loaded.labels_, clf.labels_)
    return loaded


@pytest.mark.parametrize(
    ("sources", "scale"),
    [
        *((sources, 1.0) for sources in SOURCES),
        *((sources, scale) for sources in ("X", "GXY") for scale in (1e30, 1e-300)),
    ],
)
def test_what_is_saved_predicts_the_same(data, sources, scale, tmp_path):
    X = data.X * scale if "X" in sources else None
    graph = data.graph if "G" in sources else None
    clf = fit(X, data.y if "Y" in sources else None, graph, n_classes=3)
    loaded = saved_and_loaded(clf, tmp_path)
    if X is not None:
        new = None if graph is None else graph[:3]
        np.testing.assert_array_equal(
            clf.predict_proba(X[:3], graph=new), loaded.predict_proba(X[:3], graph=new)
        )


@pytest.mark.parametrize("name", GRAPHS)
def test_graphs_of_few_words_are_saved(name, tmp_path):
    y = np.full(12, -1)
    y[[1, 11]] = 0, 1
    clf = fit(None, y, GRAPHS[name])
    loaded = saved_and_loaded(clf, tmp_path)
    assert loaded.certify(time_budget=0).objective == clf.certify(time_budget=0).objective


def run_fit(capsys, folder, edges, features=None, labels=None, *options):
    (folder / "edges.csv").write_text(edges)
    arguments = ["fit", folder / "edges.csv", "--out", folder / "out", "--json"]
    for name, text in (("features", features), ("labels", labels)):
        if text is not None:
            (folder / f"{name}.csv").write_text(text)
            arguments += [f"--{name}", folder / f"{name}.csv"]
    return run(capsys, *arguments, *options)


@pytest.mark.parametrize(
    ("edges", "features", "labels", "options"),
    [
        ("a,a\n", None, "a,x\n", ()),
        ("a,b\n", None, "a,x\n", ()),
        ("a,b\n", None, "a,x\nb,y\n", ()),
        ("a,b\nb,a\na,b\n", None, None, ("--classes", "1")),
        ("a,b,1e-12\nb,c,1e12\n", None, "a,x\nc,y\n", ()),
        ("a,b\nb,c\n", "a,1e30\nb,2e30\nc,-1e30\n", "a,x\nc,y\n", ()),
        ("a,b\nb,c\n", "a,0\nb,0\nc,0\n", "a,x\nb,y\nc,x\n", ()),
    ],
    ids=["loop", "pair", "K=n", "repeated", "weights", "huge", "zeros"],
)
def test_small_files_are_fitted(capsys, tmp_path, edges, features, labels, options):
    code, printed, errors = run_fit(capsys, tmp_path, edges, features, labels, *options)
    assert code == 0, errors
    json.loads(printed)


@pytest.mark.parametrize(
    ("edges", "features", "labels", "message"),
    [
        ("a,b,1e300\n", None, "a,x\n", "give weights from"),
        ("a,b,-1\n", None, "a,x\n", "negative"),
        ("a,b\n", "a,nan\nb,1\n", "a,x\n", "nan"),
        ("", None, "a,x\n", "empty"),
    ],
)
def test_files_out_of_all_proportion_are_refused(
    capsys, tmp_path, edges, features, labels, message
):
    code, _, errors = run_fit(capsys, tmp_path, edges, features, labels)
    assert code == 2
    assert message in errors
    assert len(errors.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()
