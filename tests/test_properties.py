"""What holds of any input: fits, tables and saved models under changes that should not matter."""

from __future__ import annotations

import csv
import io
import string
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from nodeproof import NodeClassifier
from nodeproof.tables.reading import read_tables
from nodeproof.terms import Covariance, Gaussian, Labels

few = settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
more = settings(max_examples=60, deadline=None)


# Fits. ----------------------------------------------------------------------------------


@st.composite
def inputs(draw, clear=True):
    """Return features, labels and links of two or three classes; clear ones can be told apart."""
    seed = draw(st.integers(0, 2**32 - 1))
    K = draw(st.integers(2, 3))
    n = K * draw(st.integers(5, 9))
    rng = np.random.default_rng(seed)
    z = np.arange(n) % K
    p, q = (0.8, 0.05) if clear else (0.5, 0.3)
    upper = np.triu(rng.random((n, n)) < np.where(np.equal.outer(z, z), p, q), 1)
    X = rng.standard_normal((n, 2)) + (4.0 if clear else 0.5) * np.eye(3)[z][:, :2]
    y = np.where(rng.random(n) < 0.5, z, -1)
    y[:K] = z[:K]
    return X, y, (upper + upper.T) * 1.0


SOURCES = st.sampled_from(["GY", "XY", "GXY"])
TERMS = st.sampled_from([Gaussian(), Gaussian("full"), Covariance(intercept=True)])


def fit(X=None, y=None, graph=None, **chosen):
    chosen = {"n_init": 1, "random_state": 0, "n_jobs": 1, "weights": "calibrated", **chosen}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return NodeClassifier(**chosen).fit(X, y, graph=graph)


def given_of(sources, X, y, A):
    return {
        "X": X if "X" in sources else None,
        "y": y if "Y" in sources else None,
        "graph": A if "G" in sources else None,
    }


def terms_of(sources, term):
    return [term, Labels()] if "X" in sources else [Labels()]


@few
@given(inputs(clear=False), SOURCES, TERMS, st.sampled_from([0.0, 1.0]))
def test_rows_are_probabilities_and_fits_repeat(data, sources, term, temperature):
    parts = given_of(sources, *data)
    chosen = {"terms": terms_of(sources, term), "temperature": temperature}
    one, two = fit(**parts, **chosen), fit(**parts, **{**chosen, "n_jobs": 2})
    assert (one.proba_ >= 0).all()
    np.testing.assert_allclose(one.proba_.sum(axis=1), 1.0, atol=1e-5)
    assert one.proba_.tobytes() == two.proba_.tobytes()
    assert one.objective_ == two.objective_


@few
@given(inputs(), SOURCES, TERMS, st.permutations("abc"))
def test_names_of_classes_mean_nothing(data, sources, term, names):
    X, y, A = data
    chosen = {"terms": terms_of(sources, term)}
    one = fit(**given_of(sources, X, y, A), **chosen)
    renamed = np.where(y >= 0, np.array(names)[y], "")
    two = fit(**given_of(sources, X, renamed, A), **chosen)
    assert (np.array(names)[one.labels_] == two.labels_).all()


@few
@given(inputs(), SOURCES, TERMS, st.randoms(use_true_random=False))
def test_the_order_of_nodes_means_nothing(data, sources, term, random):
    X, y, A = data
    order = np.array(random.sample(range(len(y)), len(y)))
    chosen = {"terms": terms_of(sources, term)}
    one = fit(**given_of(sources, X, y, A), **chosen)
    two = fit(**given_of(sources, X[order], y[order], A[order][:, order]), **chosen)
    assert (one.labels_[order] == two.labels_).all()


@few
@given(inputs(), st.integers(1, 3))
def test_nodes_without_links_change_nothing(data, extra):
    _, y, A = data
    n = len(y)
    wide = np.zeros((n + extra, n + extra))
    wide[:n, :n] = A
    one = fit(None, y, A)
    two = fit(None, np.r_[y, np.full(extra, -1)], wide)
    assert (one.labels_ == two.labels_[:n]).all()
    lone = two.proba_[n:]
    np.testing.assert_allclose(lone, lone[:1].repeat(extra, axis=0), atol=1e-6)


@few
@given(
    inputs(), TERMS, st.floats(-9, 9), st.floats(-1e3, 1e3), st.sampled_from([np.float64, object])
)
def test_unit_and_origin_of_features_mean_nothing(data, term, power, shift, kind):
    X, y, A = data
    moved = ((X + shift) * 10.0**power).astype(kind)
    chosen = {"terms": [term, Labels()]}
    assert (fit(X, y, A, **chosen).labels_ == fit(moved, y, A, **chosen).labels_).all()


@few
@given(inputs(), st.integers(2, 4), st.booleans())
def test_links_listed_again_mean_nothing(data, times, turned):
    _, y, A = data
    links = np.array(np.nonzero(np.triu(A)))
    again = np.concatenate([links[::-1] if turned and k else links for k in range(times)], axis=1)
    one, two = fit(None, y, A), fit(None, y, again)
    assert one.proba_.tobytes() == two.proba_.tobytes()


@few
@given(inputs(), st.floats(-12, 12))
def test_the_unit_of_weights_means_nothing(data, power):
    _, y, A = data
    weighted = A * (1.0 + np.add.outer(np.arange(len(y)), np.arange(len(y))) % 3)
    one, two = fit(None, y, weighted), fit(None, y, weighted * 10.0**power)
    assert (one.labels_ == two.labels_).all()


# Saved models. --------------------------------------------------------------------------


@few
@given(inputs(clear=False), SOURCES, TERMS, st.sampled_from([0.0, 1.0]), st.booleans())
def test_a_saved_model_is_the_same_model(data, sources, term, temperature, named):
    X, y, A = data
    if named:
        y = np.where(y >= 0, np.array(["ä b", '"', "-2"])[y], "")
    clf = fit(**given_of(sources, X, y, A), terms=terms_of(sources, term), temperature=temperature)
    with tempfile.TemporaryDirectory() as folder:
        clf.save(Path(folder, "model.npz"))
        loaded = NodeClassifier.load(Path(folder, "model.npz"))
    assert loaded.proba_.tobytes() == clf.proba_.tobytes()
    assert loaded.labels_.tolist() == clf.labels_.tolist()
    assert loaded.suspects_.tolist() == clf.suspects_.tolist()
    assert loaded.sources_ == clf.sources_
    new = {"X": X[:3] if "X" in sources else None, "graph": A[:3] if "G" in sources else None}
    assert loaded.predict_proba(**new).tobytes() == clf.predict_proba(**new).tobytes()


# Tables. --------------------------------------------------------------------------------

# Names may hold anything but line ends and what ends a string; white space around them is not
# theirs.
NAMES = st.text(
    st.characters(blacklist_categories=["Cs"], blacklist_characters="\r\n\0\x85\u2028\u2029"),
    min_size=1,
    max_size=6,
).filter(lambda name: name == name.strip() and not name.startswith("#"))

PLAIN = st.text(string.ascii_letters + "_", min_size=1, max_size=5)


def written(rows, separator):
    out = io.StringIO()
    csv.writer(out, delimiter=separator, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows(rows)
    return out.getvalue()


@st.composite
def links_of(draw, names):
    nodes = draw(st.lists(names, min_size=2, max_size=6, unique=True))
    ends = st.integers(0, len(nodes) - 1)
    pairs = draw(st.lists(st.tuples(ends, ends), min_size=1, max_size=9))
    return nodes, pairs


def read(text, **options):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "edges.csv")
        path.write_text(text, encoding="utf-8")
        return read_tables(path, **options)


@more
@given(links_of(NAMES), st.sampled_from(",\t;"))
@example((["a b", "c,d"], [(0, 1)]), ",")
@example((['"', '""'], [(0, 1)]), ";")
def test_any_name_is_read_back(linked, separator):
    nodes, pairs = linked
    rows = [(nodes[u], nodes[v]) for u, v in pairs]
    tables = read(written([("source", "target"), *rows], separator), header=True)
    asked = {frozenset(row) for row in rows if len(set(row)) == 2}
    if tables.ids.dtype.kind == "i":
        assume(all(name == str(int(name)) for row in rows for name in row))
    matrix = sp.coo_array(tables.graph)
    found = {
        frozenset((str(tables.ids[u]), str(tables.ids[v])))
        for u, v in zip(*matrix.coords, strict=True)
    }
    assert found == asked
    assert {str(name) for name in tables.ids} == {name for row in rows for name in row}


@more
@given(
    st.lists(PLAIN, min_size=2, max_size=5, unique_by=str.lower),
    st.data(),
    st.sampled_from(",\t; "),
)
def test_features_and_labels_are_read_back(nodes, data, separator):
    size = len(nodes)
    numbers = st.floats(allow_nan=False, allow_infinity=False, width=64)
    X = data.draw(st.lists(st.lists(numbers, min_size=2, max_size=2), min_size=size, max_size=size))
    labels = data.draw(st.lists(NAMES, min_size=size, max_size=size))
    ring = [(name, nodes[(k + 1) % size]) for k, name in enumerate(nodes)]
    with tempfile.TemporaryDirectory() as folder:
        texts = {
            "edges": written([("source", "target"), *ring], separator),
            "features": written(
                [("node", "x", "y"), *((v, *map(repr, x)) for v, x in zip(nodes, X, strict=True))],
                separator,
            ),
            "labels": written([("node", "label"), *zip(nodes, labels, strict=True)], separator),
        }
        for name, text in texts.items():
            Path(folder, f"{name}.csv").write_text(text, encoding="utf-8")
        paths = [Path(folder, f"{name}.csv") for name in texts]
        tables = read_tables(*paths, header=True, unknown=())
    place = {name: row for row, name in enumerate(tables.ids.tolist())}
    for name, x, label in zip(nodes, X, labels, strict=True):
        np.testing.assert_array_equal(tables.X[place[name]], x)
        assert tables.y[place[name]] == label


@pytest.mark.parametrize("separator", [",", " "])
@more
@given(links_of(PLAIN), st.data())
def test_numbers_of_any_size_are_weights(separator, linked, data):
    nodes, pairs = linked
    sizes = st.floats(min_value=1e-30, max_value=1e30)
    weights = data.draw(st.lists(sizes, min_size=len(pairs), max_size=len(pairs)))
    rows = [(nodes[u], nodes[v], repr(w)) for (u, v), w in zip(pairs, weights, strict=True)]
    tables = read(written([("source", "target", "weight"), *rows], separator), header=True)
    wanted: dict[frozenset[str], float] = {}
    for u, v, w in rows:
        pair = frozenset((u, v))
        wanted[pair] = max(float(w), wanted.get(pair, 0.0))
    place = {name: row for row, name in enumerate(tables.ids.tolist())}
    dense = tables.graph.toarray()
    for pair, w in wanted.items():
        if len(pair) == 2:
            u, v = (place[name] for name in pair)
            assert dense[u, v] == dense[v, u] == pytest.approx(w, rel=1e-6)
