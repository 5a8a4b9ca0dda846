"""Past findings of the fuzzers, replayed: each is refused in a clear word, or works now.

Files lie in ``corpus/files``; what was given to `fit` is written out below.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from nodeproof import NodeClassifier
from nodeproof.auto.settings import most_certain
from nodeproof.certificate.labelling.instance import Instance
from nodeproof.datasets import read_graph
from nodeproof.errors import InputError
from nodeproof.solvers import BlockCADO
from nodeproof.solvers.checkpoint import Checkpoint
from nodeproof.solvers.semidefinite import positive_part
from nodeproof.storage.graph_folder import write_graph_folder
from nodeproof.tables.reading import read_tables
from nodeproof.terms import Covariance, Gaussian, Labels, Softmax

CORPUS = Path(__file__).parent / "corpus"

# Nothing else is read by `read_tables`.
TABLES = (".csv", ".tsv", ".txt", ".gz", ".parquet")


@pytest.mark.parametrize("path", sorted((CORPUS / "files").iterdir()), ids=lambda path: path.name)
def test_files_are_read_or_refused(path):
    for read in (read_graph, *([read_tables] if path.suffix in TABLES else [])):
        try:
            found = read(path)
        except InputError as error:
            said = str(error)
        else:
            said = str(path)
            assert abs(found.graph - found.graph.T).nnz == 0
        assert str(path) in said
        assert "\n" not in said


PAIR = np.array([[0.0, 1.0], [1.0, 0.0]])
SPREAD = np.array([[5.8e179, 2.8e137], [2.9e179, 9.1e137], [-7.6e179, 1.6e138], [1.1e180, -4e137]])
LARGEST = np.array([[2.0e307, -1.7e308], [-8.5e307, -8.2e307], [1.6e308, -1.1e307], [1.3e308, 0]])

FITS = {
    "links of another byte order": ({}, {"y": [0, 1], "graph": PAIR.astype(">f8")}, None),
    "halves of another byte order": ({}, {"y": [0, 1], "graph": PAIR.astype(">f2")}, None),
    "a fold without a label": (
        {"n_init": 1, "random_state": 1},
        {"y": [False, True, True, True], "graph": np.eye(4, k=1) + np.eye(4, k=-1)},
        None,
    ),
    "nothing but a sum of norms": (
        {"solver": "cado", "son": 1e12, "threshold": 0.0, "weights": (0, 0, 0), "max_iter": 5},
        {"X": np.array([[-2.0, 0], [-2, -2], [1, 0], [-1, 1]]), "y": [0, 1, -1, -1]},
        None,
    ),
    "covariances of columns of very different units": (
        {"n_classes": 2, "n_init": 2, "max_iter": 1, "random_state": 1},
        {"X": np.array([[2, -2e30, -2e30], [-1, 0, 0], [-1, 1e30, 0]]), "y": ["a", "a", "a"]},
        None,
    ),
    "links that are next to nothing": (
        {"n_classes": 2, "terms": []},
        {"graph": 1e-300 * PAIR},
        "give weights from",
    ),
    "links beyond float32": ({}, {"y": [0, 1], "graph": 1e300 * PAIR}, "give weights from"),
    "sparse features whose squares overflow": (
        {"weights": (1.0, 0.0, 1.0), "son": 10.0, "temperature": 0.0, "threshold": 0.0},
        {"X": sp.csr_array(SPREAD), "y": ["a", "", "", ""]},
        "too large to be squared",
    ),
    "shared covariances that overflow": (
        {"weights": (1.0, 0.0, 1.0), "terms": [Gaussian("shared"), Labels()], "n_classes": 3},
        {"X": SPREAD, "y": ["a", "", "", ""]},
        "too large to be squared",
    ),
    "full covariances that overflow": (
        {"solver": "cado", "terms": [Gaussian("full"), Labels()], "n_classes": 4},
        {"X": LARGEST, "y": [True, False, False, False]},
        "too large to be squared",
    ),
    "the largest floats": ({}, {"X": LARGEST, "y": [0, 1, 0, 1]}, None),
    "the largest floats, constant": (
        {
            "terms": [Covariance(), Labels()],
            "solver": BlockCADO(affinities="matrix", random_state=0),
        },
        {"X": np.full((9, 2), -7.7e307), "y": np.zeros(9, bool), "graph": np.eye(9, k=1)},
        None,
    ),
    "weights whose products overflow": (
        {"weights": (1e300, 1e300, 1e300), "son": 10.0, "threshold": 0.1, "n_classes": 2},
        {"X": np.array([[1.0, 2, -2], [-1, 0, -1], [2, -2, -2]])},
        "from 0 to 1e\\+30",
    ),
    "features with indices of 64 bits": (
        {"n_classes": 2},
        {
            "X": sp.csr_array(
                (np.ones(4), np.array([0, 1, 0, 1], np.int64), np.arange(5, dtype=np.int64)),
                shape=(4, 2),
            )
        },
        None,
    ),
    "float32 whose squares overflow": (
        {},
        {
            "X": np.array([[1e30, 0], [2e30, 1], [-1e30, 1], [-2e30, 0]], np.float32),
            "y": [0, 0, 1, 1],
        },
        None,
    ),
    "columns that are constant but for rounding": (
        {"random_state": 0},
        {"X": np.full((12, 2), 0.1), "y": [0, 1, 2] * 2 + [-1] * 6},
        None,
    ),
    "no columns": ({}, {"X": np.zeros((2, 0)), "y": [0, 1]}, r"0 feature\(s\)"),
    "labels in a matrix": ({}, {"X": np.eye(2), "y": np.eye(2)}, "one label per node"),
}


@pytest.mark.parametrize("case", FITS)
def test_fits_end_well_or_are_refused(case):
    settings, given, message = FITS[case]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)
        if message is not None:
            with pytest.raises(InputError, match=message):
                NodeClassifier(**settings).fit(**given)
            return
        clf = NodeClassifier(**settings).fit(**given)
    assert np.isfinite(clf.proba_).all()
    total = most_certain(clf.n_classes, clf.fitted_.given, len(clf.classes_))
    np.testing.assert_allclose(clf.proba_.sum(axis=1), total, atol=1e-5)
    assert np.isfinite(clf.objective_)


def test_columns_that_are_constant_but_for_rounding_tell_nothing():
    settings, given, _ = FITS["columns that are constant but for rounding"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        told = NodeClassifier(**settings).fit(**given)
        silent = NodeClassifier(**settings).fit(y=given["y"])
    # Features that are given, even constant ones, can say that labels are consistent with them.
    hidden = np.asarray(given["y"]) < 0
    np.testing.assert_allclose(told.proba_[hidden], silent.proba_[hidden], atol=1e-3)


def test_new_nodes_are_judged_at_any_temperature():
    X = np.array([[0.0], [1.0], [10.0], [11.0]])
    terms = [Gaussian(), Labels()]
    clf = NodeClassifier(temperature=1e-300, terms=terms, random_state=0).fit(X, [0, 0, 1, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        assert clf.predict_proba(X).tolist() == [[1, 0], [1, 0], [0, 1], [0, 1]]


def test_sparse_new_nodes_are_judged_by_features_alone():
    X = sp.csr_array(np.array([[3.0, 0], [2, 0], [0, 3], [0, 2]]))
    links = np.kron(np.eye(2), PAIR)
    clf = NodeClassifier(terms=[Softmax(hops=1), Labels()], random_state=0)
    clf.fit(X, [0, 0, 1, 1], graph=links)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert clf.predict(X).tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize("degree", [1e300, 1e20, 2.0, np.nan])
@pytest.mark.parametrize("weight", [1.0, 0.5])
def test_degrees_that_do_not_add_up_are_refused(tmp_path, weight, degree):
    write_graph_folder(tmp_path / "graph", weight * PAIR)
    path = tmp_path / "graph" / "degrees.npy"
    content = path.read_bytes()
    path.write_bytes(content[:-8] + np.float64(degree).tobytes())
    with pytest.raises(InputError, match=r"degrees\.npy"):
        NodeClassifier().fit(y=[0, 1], graph=tmp_path / "graph")


class EverySweep(Checkpoint):
    def due(self):
        return True


@pytest.mark.filterwarnings("ignore:the data do not tell")
@pytest.mark.parametrize("part", ["W", "now.0", "now.log_prior", "header"])
def test_states_that_were_changed_are_refused(tmp_path, part):
    def stop(progress):
        if progress.iteration == 3:
            raise KeyboardInterrupt

    clf = NodeClassifier(terms=[Labels()], weights="calibrated", tol=0.0, random_state=0)
    given = {"y": [0, 1, -1, -1], "graph": np.kron(np.eye(2), PAIR)}
    with pytest.raises(KeyboardInterrupt):
        clf.set_params(verbose=stop).fit(**given, checkpoint=EverySweep(tmp_path))
    with np.load(tmp_path / "state.npz") as state:
        arrays = dict(state)
    if part == "header":
        text = arrays[part].tobytes().replace(b'"iteration": ', b'"iteration": 1')
        arrays[part] = np.frombuffer(text, np.uint8)
    else:
        arrays[part] = arrays[part][::-1] + np.arange(len(arrays[part])).reshape(
            -1, *[1] * (arrays[part].ndim - 1)
        ).astype(arrays[part].dtype)
    np.savez(tmp_path / "state.npz", **arrays)
    with pytest.raises(InputError, match="not a checkpoint that can be read"):
        clf.set_params(verbose=False).fit(**given, checkpoint=EverySweep(tmp_path))


def test_rows_of_no_entries_are_looked_at_all_the_same(tmp_path):
    """scipy would read beyond the arrays: three entries in the first row, none in all."""
    nothing, indptr = np.zeros(0), np.array([0, 3, 0, 0])
    parts = {"data": nothing, "indices": np.zeros(0, np.int32), "indptr": indptr}
    archives = {
        "ours": {f"adj_{name}": part for name, part in parts.items()},
        "scipy's": {**parts, "shape": np.array([3, 3]), "format": np.array(b"csr")},
    }
    for arrays in archives.values():
        np.savez(tmp_path / "graph.npz", **arrays)
        with pytest.raises(InputError, match=r"graph\.npz"):
            read_graph(tmp_path / "graph.npz")
    pair = Instance(sp.csr_array(PAIR), np.ones(2), 1.0, 0.5, np.eye(2)).to_arrays()
    forged = {"indptr": np.array([0, 2, 0]), "indices": pair["indices"][:0]}
    with pytest.raises(ValueError, match="invalid CSR structure: indptr does not fit the rows"):
        Instance.from_arrays({**pair, **forged})


def test_eigenvalues_that_lie_together_do_not_stop_a_projection():
    matrix = np.load(CORPUS / "clustered-eigenvalues.npy", allow_pickle=False)
    np.testing.assert_allclose(positive_part(matrix[None])[0], matrix, atol=1e-25)  # is positive
    np.testing.assert_array_equal(positive_part(-matrix[None]), 0.0)
