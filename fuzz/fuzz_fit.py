"""Fit small inputs of every kind, and check what a fit promises.

A fit ends with a documented error, or its rows are finite and sum to one, its labels are the
likeliest, its suspects are labelled, a second fit has the same bits, new nodes can be judged, a
saved model predicts the same, and what is certified is the best of all labellings.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import atheris
import numpy as np
import scipy.sparse as sp

from harness import is_documented, run
from nodeproof import NodeClassifier
from nodeproof.certificate.labelling.result import Certificate
from nodeproof.errors import InputError
from nodeproof.solvers import CADO, CANO, BlockADMM, BlockCADO
from nodeproof.terms import Covariance, Gaussian, Labels, Multinomial, Softmax

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from certificate_helpers import Tally, check_never_wrong

# So many labellings can be gone through.
_FEW = 3000

_SCALES = (1.0, 1.0, 1.0, 1e30, 1e-30, 1e12, 1e-12, 1e150, 1e-150, 1e300)
_ODD = (0.0, 1.0, -1.0, 0.5, 2.0, 1e30, -1e30, 1e-30, 1e38, 1e300, -1e300, 5e-324, 1e-12, 1e12)
_WEIGHTS = (1.0, 1.0, 2.0, 0.5, 1e-12, 1e12, 0.0, 3.0, 1e-30, 1e30, 1e-300, 1e300, 7.0)
_TYPES = (
    np.float64, np.float32, np.float16, np.int64, np.int8, np.uint8, bool, np.longdouble, object
)  # fmt: skip


class Draw(atheris.FuzzedDataProvider):
    """A few more ways to draw."""

    def one_of(self, values: Any) -> Any:
        return values[self.ConsumeIntInRange(0, len(values) - 1)]

    def chance(self, percent: int) -> bool:
        return self.ConsumeIntInRange(0, 99) < percent

    def numbers(self, count: int) -> np.ndarray:
        kind = self.ConsumeIntInRange(0, 4)
        if kind == 0:
            return np.array([float(self.ConsumeIntInRange(-2, 2)) for _ in range(count)])
        if kind == 1:
            return np.array([self.one_of(_ODD) for _ in range(count)])
        if kind == 2:
            return np.array([self.ConsumeFloat() for _ in range(count)])
        rng = np.random.default_rng(self.ConsumeIntInRange(0, 2**16))
        scale = self.one_of(_SCALES)
        return rng.standard_normal(count) * scale + (scale if kind == 4 else 0.0)


def draw_layout(draw: Draw, array: np.ndarray) -> np.ndarray:
    kind = draw.ConsumeIntInRange(0, 7)
    if kind == 0:
        array = np.asfortranarray(array)
    elif kind == 1:
        wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
        wide[..., ::2] = array
        array = wide[..., ::2]
    elif kind == 2:
        array = array[::-1]
    elif kind == 3:
        array = array.copy()
        array.setflags(write=False)
    elif kind == 4:
        array = array.astype(array.dtype.newbyteorder()) if array.dtype.kind != "O" else array
    return array


def draw_features(draw: Draw, n: int) -> Any:
    m = draw.one_of((1, 2, 2, 3, 4, 0, 7))
    X = draw.numbers(n * m).reshape(n, m)
    if draw.chance(25):
        X = X * np.array([draw.one_of(_SCALES) for _ in range(m)])
    if draw.chance(20) and n > 1:
        X[1:] = X[:1]
    if not draw.chance(5):
        X = np.nan_to_num(X, nan=0.0, posinf=1.0, neginf=-1.0)
    kind = draw.one_of(_TYPES)
    if kind in (np.int64, np.int8, np.uint8):
        X = np.clip(X, -100 * (kind is not np.uint8), 100)
    X = np.nan_to_num(X).astype(kind) if kind in (np.int64, np.int8, np.uint8) else X.astype(kind)
    if draw.chance(30) and kind not in (object, np.float16, np.longdouble):
        form = draw.one_of(
            (sp.csr_array, sp.csc_matrix, sp.coo_array, sp.csr_matrix, sp.lil_array, sp.dok_array)
        )
        return form(X)
    return draw_layout(draw, X)


def draw_labels(draw: Draw, n: int) -> Any:
    kinds = draw.ConsumeIntInRange(1, 4)
    codes = [draw.ConsumeIntInRange(-1, kinds - 1) for _ in range(n)]
    if draw.chance(15):
        codes = list(range(n))
    if draw.chance(10):
        codes = [0] + [-1] * (n - 1)
    if draw.chance(5):
        codes = codes[:-1]
    style = draw.ConsumeIntInRange(0, 8)
    if style == 0:
        return codes
    if style == 1:
        return np.array(codes, dtype=draw.one_of((np.int8, np.int32, np.int64, np.float32)))
    if style == 2:
        return np.array([chr(97 + c) if c >= 0 else "" for c in codes])
    if style == 3:
        return [None if c < 0 else f"c{c}" for c in codes]
    if style == 4:
        return np.array([np.nan if c < 0 else float(c) for c in codes])
    if style == 5:
        names = [draw.ConsumeUnicode(3) for _ in range(max(codes, default=0) + 2)]
        return np.array([names[c] for c in codes], dtype=object)
    if style == 6:
        return np.array([c > 0 for c in codes])
    if style == 7:
        return [draw.one_of((0, 1, -1, 10**12, 2**63 - 1, "a", None, 1.5, True)) for _ in codes]
    return np.array(codes)


def draw_graph(draw: Draw, n: int) -> Any:
    shape = draw.ConsumeIntInRange(0, 7)
    A = np.zeros((n, n))
    if shape == 0:
        A[0] = A[:, 0] = 1.0
    elif shape == 1:
        A[:] = 1.0
    elif shape == 2:
        A[np.arange(n - 1), np.arange(1, n)] = A[np.arange(1, n), np.arange(n - 1)] = 1.0
    elif shape == 3:
        half = n // 2
        A[:half, :half] = A[half:, half:] = 1.0
    elif shape > 4:
        for _ in range(draw.ConsumeIntInRange(0, 2 * n)):
            u, v = draw.ConsumeIntInRange(0, n - 1), draw.ConsumeIntInRange(0, n - 1)
            A[u, v] = A[v, u] = 1.0
            if draw.chance(5):
                A[u, v] = 0.0
    if draw.chance(50):
        np.fill_diagonal(A, 0.0)
    if draw.chance(35):
        scale = np.array([draw.one_of(_WEIGHTS) for _ in range(n)])
        A = A * np.minimum(scale[:, None], scale[None, :])
    if draw.chance(10):
        A = A * draw.one_of(_WEIGHTS)
    if draw.chance(3):
        A = A * draw.one_of((-1.0, np.nan, np.inf))
    form = draw.ConsumeIntInRange(0, 7)
    if form == 0:
        return draw_layout(draw, A)
    if form == 1:
        small = np.nan_to_num(np.clip(A, -9, 9))
        return draw_layout(draw, small.astype(draw.one_of((np.float16, np.int8, bool, np.uint8))))
    if form == 2:
        return np.array(np.nonzero(A))
    if form == 3:
        source, target = np.nonzero(A)
        table = {"source": source, "target": target, "weight": A[source, target]}
        if draw.chance(10):
            table["target"] = table["target"] + draw.ConsumeIntInRange(-2, 2)
        return table
    if form == 4:
        matrix = sp.coo_array(A)
        twice = [np.concatenate([part, part]) for part in (matrix.data, *matrix.coords)]
        return sp.coo_array((twice[0], (twice[1], twice[2])), shape=A.shape)
    kind = draw.one_of((sp.csr_array, sp.csr_matrix, sp.csc_array, sp.lil_matrix, sp.dia_array))
    return kind(A.astype(draw.one_of((np.float64, np.float32))))


def draw_terms(draw: Draw, X: Any, y: Any) -> Any:
    terms: list[Any] = []
    if X is not None:
        terms.append(
            draw.one_of(
                (
                    Covariance(intercept=True),
                    Covariance(),
                    Covariance(lo=0.1, hi=10.0),
                    Gaussian(),
                    Gaussian("full"),
                    Gaussian("shared"),
                    Multinomial(),
                    Softmax(hops=2),
                    Softmax(hops=0),
                    Softmax(of="links"),
                )
            )
        )
    if y is not None:
        terms.append(Labels())
    return terms


def draw_settings(draw: Draw, n: int, X: Any, y: Any) -> dict[str, Any]:
    settings: dict[str, Any] = {"random_state": draw.ConsumeIntInRange(0, 3)}
    settings["n_classes"] = draw.one_of((None, None, 1, 2, 2, 3, n, n + 1, 0))
    settings["n_init"] = draw.one_of(("auto", 1, 1, 2))
    settings["max_iter"] = draw.one_of((300, 30, 5, 1))
    settings["n_jobs"] = draw.one_of((None, 1, 2))
    if draw.chance(40):
        settings["null_model"] = draw.one_of(("uniform", "degree"))
    if draw.chance(30):
        settings["temperature"] = draw.one_of((0.0, 0.5, 2.0, 1e-6, 1e-300, 1e300))
    if draw.chance(35):
        settings["weights"] = draw.one_of(
            (
                "calibrated", (1.0, 2.5, 13.0), 0.0, 0.5, 1e12, (0.0, 0.0, 0.0), (1.0, 0.0, 1.0),
                (1e12, 1e-12, 1.0), (1e300, 1e300, 1e300),
            )
        )  # fmt: skip
        if isinstance(settings["weights"], tuple) and draw.chance(50):
            settings["threshold"] = draw.one_of((0.5, 0.1, 0.0, 1.0, -1.0, 1e12))
        if isinstance(settings["weights"], tuple) and draw.chance(25):
            settings["son"] = draw.one_of((0.0, 0.1, 10.0, 1e12))
    if draw.chance(35):
        settings["solver"] = draw.one_of(
            (
                "block",
                "cado",
                "admm",
                "cano",
                CADO(step="line-search", max_iter=20, random_state=0),
                BlockADMM(max_iter=50, random_state=0),
                CANO(max_iter=10, random_state=0),
                BlockCADO(affinities="matrix", random_state=0),
                BlockCADO(affinities="matrix", temperature=0.0, random_state=0),
            )
        )
    if draw.chance(40):
        settings["terms"] = draw_terms(draw, X, y)
    return settings


def sum_to_one(proba: Any) -> bool:
    """Tell whether rows are probabilities; labels of one class leave some for others."""
    total = proba.sum(axis=1)
    return bool(np.allclose(total, 1.0, atol=1e-4) or (proba.shape[1] == 1 and (total < 1).all()))


def check_fitted(clf: NodeClassifier, n: int) -> None:
    proba, K = clf.proba_, len(clf.classes_)
    assert proba.shape == (n, K), "shape"
    assert np.isfinite(proba).all(), "rows are not finite"
    assert (proba >= 0).all(), "rows are negative"
    assert sum_to_one(proba), "rows do not sum to one"
    assert (clf.labels_ == clf.classes_[proba.argmax(axis=1)]).all(), "labels are not likeliest"
    assert len(np.unique(clf.classes_)) == K, "class names repeat"
    assert np.isfinite(clf.objective_), "objective is not finite"
    shares = np.array(list(clf.sources_.values()))
    assert np.isfinite(shares).all(), "shares are not finite"
    assert (shares >= 0).all(), "shares are negative"
    assert not shares.any() or abs(shares.sum() - 1) < 1e-6, "shares do not sum to one"
    found = clf.suspects_
    assert (np.diff(found.p_wrong) <= 0).all(), "suspects are not ordered"
    if len(found):
        assert clf.fitted_.given is not None
        assert (clf.fitted_.given[found.node] >= 0).all(), "suspects without a label"
        assert (found.given == clf.classes_[clf.fitted_.given[found.node]]).all(), (
            "suspects' labels"
        )
        assert (found.suggested == clf.labels_[found.node]).all(), "suspects' suggestions"
        assert (found.given != found.suggested).all(), "suspects agree"
    if clf.lower_bound_ is not None:
        assert not np.isnan(clf.lower_bound_), "lower bound is no number"
        slack = 1e-6 * max(1.0, abs(clf.objective_))
        assert clf.lower_bound_ <= clf.objective_ + slack, "bound above objective"


def same(one: NodeClassifier, two: NodeClassifier) -> bool:
    return (
        one.proba_.tobytes() == two.proba_.tobytes()
        and one.objective_ == two.objective_
        and one.n_iter_ == two.n_iter_
    )


def check_certificate(proof: Certificate, n: int, K: int) -> None:
    assert len(proof.labels) == n
    assert not np.isnan(proof.gap) or not proof.certified, "gap is no number"
    if proof.instance is not None and K**n <= _FEW:
        check_never_wrong(proof, Tally())


def check_new_nodes(draw: Draw, clf: NodeClassifier, X: Any, n: int) -> None:
    links = None
    if clf.fitted_on_graph_ and draw.chance(50):
        links = np.array([[draw.one_of(_WEIGHTS) for _ in range(n)]])
        links = sp.csr_array(links) if draw.chance(50) else links
    rows = None if X is None else (X.tocsr() if sp.issparse(X) else X)[:1]
    if rows is None and links is None:
        return
    try:
        proba = clf.predict_proba(rows, graph=links)
    except Exception as error:
        if is_documented(error):
            return
        raise
    assert proba.shape == (1, len(clf.classes_))
    assert np.isfinite(proba).all(), "new rows are not finite"
    assert sum_to_one(proba), "new rows do not sum to one"


def check_saved(clf: NodeClassifier, X: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        try:
            clf.save(Path(folder, "model.npz"))
        except InputError:
            assert not any(Path(folder).iterdir()), "a file of a model that cannot be saved"
            return
        loaded = NodeClassifier.load(Path(folder, "model.npz"))
    assert loaded.proba_.tobytes() == clf.proba_.tobytes(), "saved rows differ"
    assert (loaded.labels_ == clf.labels_).all(), "saved labels differ"
    if X is not None:
        try:
            mine = clf.predict_proba(X)
        except Exception as error:
            if is_documented(error):
                return
            raise
        assert mine.tobytes() == loaded.predict_proba(X).tobytes(), "saved predictions differ"


def test_one(data: bytes) -> None:
    draw = Draw(data)
    n = draw.one_of((1, 2, 3, 4, 5, 6, 7, 9, 12))
    graph = draw_graph(draw, n) if draw.chance(70) else None
    X = draw_features(draw, n) if draw.chance(60) else None
    y = draw_labels(draw, n) if draw.chance(70) else None
    settings = draw_settings(draw, n, X, y)
    if draw.chance(4):
        n_other = n + draw.ConsumeIntInRange(-1, 2)
        graph = draw_graph(draw, max(n_other, 1))
    clf = NodeClassifier(**settings)
    try:
        clf.fit(X, y, graph=graph)
    except Exception as error:
        if is_documented(error):
            return
        raise
    if X is None:
        n = len(clf.labels_) if y is None else len(y)
    check_fitted(clf, n)
    step = draw.ConsumeIntInRange(0, 5)
    if step == 0:
        other = NodeClassifier(**{**settings, "n_jobs": 2}).fit(X, y, graph=graph)
        assert same(clf, other), "a second fit has other bits"
    elif step == 1:
        proof = clf.certify(time_budget=0.5)
        check_certificate(proof, n, len(clf.classes_))
    elif step == 2:
        check_new_nodes(draw, clf, X, n)
    elif step == 3:
        check_saved(clf, X)
    elif step == 4:
        asked = clf.query(draw.ConsumeIntInRange(1, 3))
        assert len(np.unique(asked)) == len(asked)
        assert clf.fitted_.given is None or (clf.fitted_.given[asked] < 0).all(), (
            "labelled nodes are asked for"
        )


def seeds() -> list[bytes]:
    """Return inputs long enough to draw everything from."""
    rng = np.random.default_rng(0)
    return [rng.bytes(600) for _ in range(200)]


if __name__ == "__main__":
    run(test_one, "fit", seeds())
