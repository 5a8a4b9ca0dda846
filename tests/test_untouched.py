"""What callers do to their arrays after a fit does not change what it says, or is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from nodeproof import NodeClassifier
from nodeproof.datasets import Planted
from nodeproof.errors import InputError
from nodeproof.inputs.untouched import checksum
from nodeproof.runtime.digests import digest
from nodeproof.terms import Labels, Multinomial


def fit(planted: Planted, weighted: bool = False, sparse: bool = False, table: bool = False):
    """Return a fitted classifier, and the arrays that it was given."""
    A, X, y = planted.graph.astype(np.float64), planted.X.copy(), planted.y.copy()
    if weighted:
        A = A * (A @ A) + A
        A.sort_indices()  # else it would be copied
    terms: object = "auto"
    given: object = X
    if sparse:
        X = given = sp.csr_array(np.round(np.abs(X)) + 1.0)
        terms = [Multinomial(), Labels()]
    if table:
        given = pd.DataFrame(X, copy=False)
    clf = NodeClassifier(terms=terms, weights="calibrated", random_state=0)
    return clf.fit(given, y, graph=A), A, X, y


def first_weight(A, X):
    A.data[:2] += 0.5


def one_link(A, X):
    A.indices[0] = (A.indices[0] + 1) % 60


def one_feature(A, X):
    (X.data if sp.issparse(X) else X).flat[-1] += 1.0


def two_features_swapped(A, X):
    X[[3, 4]] = X[[4, 3]]


USES = {
    "certify": lambda clf, path: clf.certify(time_budget=0.2),
    "save": lambda clf, path: clf.save(path / "model.npz"),
    "report": lambda clf, path: clf.report(path / "report.html"),
    "query": lambda clf, path: clf.query(2),
}


@pytest.mark.parametrize(
    ("change", "settings", "use"),
    [
        *((first_weight, {}, use) for use in USES),
        *((one_feature, {}, use) for use in USES),
        (first_weight, {"weighted": True}, "certify"),
        (one_link, {}, "save"),
        (two_features_swapped, {}, "report"),
        (one_feature, {"sparse": True}, "query"),
        (one_feature, {"table": True}, "save"),
    ],
)
def test_what_would_be_about_other_data_is_refused(planted, change, settings, use, tmp_path):
    clf, A, X, _ = fit(planted, **settings)
    change(A, X)
    what = "X" if "feature" in change.__name__ else "the graph"
    with pytest.raises(InputError, match=f"^{what} was changed in place after the fit: fit again"):
        USES[use](clf, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_arrays_that_take_the_place_of_others_do_not_matter(planted):
    """A matrix may get new arrays: the fit holds the old ones."""
    clf, A, _, _ = fit(planted)
    before = clf.certify(time_budget=0.2)
    A.data = 3.0 * A.data
    A.indices = A.indices[::-1].copy()
    assert clf.certify(time_budget=0.2).objective == before.objective


def test_new_nodes_are_judged_as_before(planted):
    clf, A, X, y = fit(planted)
    links = [(0, 1), (0, 2), (1, 40)]
    new = X[:2].copy()
    before = clf.predict_proba(new, graph=links), clf.predict_proba()
    A.data *= 5.0
    X[:] = 7.0
    y[:] = 0
    np.testing.assert_array_equal(clf.predict_proba(new, graph=links), before[0])
    np.testing.assert_array_equal(clf.predict_proba(), before[1])


def test_labels_may_be_changed(planted, tmp_path):
    clf, _, _, y = fit(planted)
    clf.save(tmp_path / "before.npz")
    y[:] = 0
    clf.fitted_ = replace(clf.fitted_)  # without what a report shows, found before
    clf.save(tmp_path / "after.npz")
    assert (tmp_path / "after.npz").read_bytes() == (tmp_path / "before.npz").read_bytes()


def test_what_needs_no_data_still_works(planted, tmp_path):
    clf, A, _, _ = fit(planted)
    A.data *= 2.0
    clf.save(tmp_path / "model.npz", certifiable=False)
    loaded = NodeClassifier.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(loaded.proba_, clf.proba_)
    assert len(clf.query(2, strategy="uncertainty")) == 2
    clf.fit(planted.X, planted.y, graph=A).certify(time_budget=0.2)  # of the data as they are now


def test_a_certificate_stays_what_it_was(planted, tmp_path):
    clf, A, _, _ = fit(planted)
    proof = clf.certify(time_budget=0.2)
    proof.save(tmp_path / "before.npz")
    A.data *= 3.0
    A.indices[:] = A.indices[::-1].copy()
    proof.save(tmp_path / "after.npz")
    assert (tmp_path / "after.npz").read_bytes() == (tmp_path / "before.npz").read_bytes()
    assert proof.verify()
    assert "the graph was changed in place" in proof.verify(clf).reason


@pytest.mark.parametrize("digest", [digest, checksum])
def test_a_digest_has_every_byte_in_it(digest):
    """However large: one bit in each of many chunks, and in the last entry."""
    array = np.zeros(3 << 20, dtype=np.float64)
    found = {digest(array)}
    for place in (0, 1, 524_287, 524_288, 1_500_000, len(array) - 1):
        array.view(np.uint8)[8 * place + 7] ^= 1
        found.add(digest(array))
        array.view(np.uint8)[8 * place + 7] ^= 1
    assert len(found) == 7
    shapes = [array, array.reshape(2, -1), array.view(np.int64), array[:-1], array[:0], array[::2]]
    assert len({digest(part) for part in shapes}) == len(shapes)
    assert digest(array[::2]) == digest(array[::2].copy())
