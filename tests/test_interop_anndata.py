"""AnnData: connectivities in, columns out."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from interop_helpers import KINDS, assert_same, fit, kinds, names, planted, reference
from nodeproof import NodeClassifier
from nodeproof.errors import InputError
from nodeproof.interop import from_anndata, to_anndata

anndata = pytest.importorskip("anndata", reason="anndata is not installed")


@pytest.fixture
def adata():
    data = planted()
    obs = pd.DataFrame({"kind": pd.Categorical(kinds("Unknown"))}, index=list(names()))
    made = anndata.AnnData(X=sp.csr_matrix(np.abs(data.X)), obs=obs)
    made.obsm["X_pca"] = data.X
    made.obsp["connectivities"] = sp.csr_matrix(data.graph)
    return made


def test_the_default_is_the_graph_of_connectivities(adata):
    clf = NodeClassifier(n_classes=3, random_state=0).fit(graph=adata)
    plain = NodeClassifier(n_classes=3, random_state=0).fit(graph=planted().graph)
    np.testing.assert_array_equal(clf.proba_, plain.proba_)
    assert clf.node_ids_.tolist() == list(names())


def test_features_and_labels_can_be_passed_beside_it(adata):
    known = adata.obs["kind"].where(adata.obs["kind"] != "Unknown")
    assert_same(fit(adata.obsm["X_pca"], known, graph=adata), words=True)


def test_labels_and_features_are_taken_by_their_keys(adata):
    assert_same(fit(**from_anndata(adata, labels="kind", features="X_pca")), words=True)
    given = from_anndata(adata, features="X")
    np.testing.assert_array_equal(given["X"].toarray(), np.abs(planted().X))
    assert given["y"] is None


def test_another_graph_can_be_named(adata):
    adata.obsp["near"] = sp.csr_matrix(np.eye(120)[::-1])
    given = from_anndata(adata, graph="near")
    np.testing.assert_array_equal(given["graph"].matrix.toarray(), np.eye(120)[::-1])


@pytest.mark.parametrize("word", ["unknown", "Unassigned", "NA", "", "nan", None, np.nan, pd.NA])
def test_what_means_unknown_is_no_label(adata, word):
    adata.obs["kind"] = pd.Series(["ant", word, "bee"] * 40, index=adata.obs_names, dtype=object)
    y = from_anndata(adata, labels="kind")["y"]
    assert y[:3].tolist() == ["ant", None, "bee"]


def test_what_means_unknown_can_be_said(adata):
    y = from_anndata(adata, labels="kind", unknown=["bee"])["y"]
    assert "bee" not in y.tolist()
    assert "Unknown" in y.tolist()
    assert "bee" not in from_anndata(adata, labels="kind", unknown=["BEE"])["y"].tolist()
    with pytest.raises(InputError, match=r"a collection of labels, such as \['bee'\]"):
        from_anndata(adata, labels="kind", unknown="bee")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"labels": "sort"}, "obs has no column 'sort', only 'kind'"),
        ({"features": "X_umap"}, "obsm has no 'X_umap', only 'X_pca'; or give 'X'"),
        ({"graph": "distances"}, "obsp has no 'distances', only 'connectivities'"),
    ],
)
def test_a_key_that_is_not_there_is_named_with_those_that_are(adata, arguments, message):
    with pytest.raises(InputError, match=message):
        from_anndata(adata, **arguments)


def test_without_neighbours_the_fit_says_what_to_do(adata):
    del adata.obsp["connectivities"]
    with pytest.raises(InputError, match="only nothing; compute neighbours first"):
        fit(graph=adata)


def test_what_was_found_stands_in_columns(adata):
    clf = fit(**from_anndata(adata, labels="kind", features="X_pca"))
    assert to_anndata(clf, adata) is adata
    assert adata.obs["nodeproof"].cat.categories.tolist() == KINDS.tolist()
    np.testing.assert_array_equal(adata.obs["nodeproof"].astype(str), clf.labels_)
    np.testing.assert_array_equal(adata.obs["nodeproof_probability"], clf.proba_.max(axis=1))
    suspects = np.flatnonzero(adata.obs["nodeproof_suspect"])
    assert len(suspects)
    np.testing.assert_array_equal(suspects, np.sort(clf.suspects_.node))
    np.testing.assert_array_equal(adata.obsm["nodeproof_proba"], clf.proba_)


def test_a_file_of_it_reads_back(adata, tmp_path):
    clf = fit(**from_anndata(adata, labels="kind", features="X_pca"))
    to_anndata(clf, adata, key="found").write_h5ad(tmp_path / "cells.h5ad")
    read = anndata.read_h5ad(tmp_path / "cells.h5ad")
    np.testing.assert_array_equal(read.obs["found"].astype(str), clf.labels_)
    assert read.obs["found_suspect"].dtype == bool
    assert read.uns["found"]["classes"].tolist() == KINDS.tolist()
    assert read.uns["found"]["settings"]["random_state"] == 0
    assert read.uns["found"]["sources"] == pytest.approx(clf.sources_)
    assert_same(fit(**from_anndata(read, labels="kind", features="X_pca")), words=True)


def test_numbers_of_clusters_become_text(adata):
    to_anndata(reference(), adata)
    assert adata.obs["nodeproof"].cat.categories.tolist() == ["0", "1", "2"]


def test_a_view_is_read_in_its_order_and_not_written(adata):
    order = np.random.default_rng(0).permutation(120)
    view = adata[order]
    clf = fit(**from_anndata(view, labels="kind", features="X_pca"))
    assert clf.node_ids_.tolist() == view.obs_names.tolist()
    np.testing.assert_array_equal(clf.labels_, KINDS[planted().y_true[order]])
    with pytest.raises(InputError, match=r"view .* \.copy\(\)"):
        to_anndata(clf, view)
    assert view.is_view
    to_anndata(clf, view.copy())


def test_cells_are_found_by_name(adata):
    clf = fit(**from_anndata(adata, labels="kind"))
    turned = to_anndata(clf, adata[::-1].copy())
    assert turned.obs["nodeproof"].tolist() == clf.labels_[::-1].tolist()
    np.testing.assert_array_equal(turned.obsm["nodeproof_proba"], clf.proba_[::-1])
    with pytest.raises(
        InputError, match="adata has 60 nodes, but the classifier was fitted to 120"
    ):
        to_anndata(clf, adata[:60].copy())


def test_one_in_a_file_gives_its_graph_but_no_features_of_that_file(adata, tmp_path):
    adata.write_h5ad(tmp_path / "cells.h5ad")
    backed = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")
    try:
        assert_same(fit(**from_anndata(backed, labels="kind", features="X_pca")), words=True)
        with pytest.raises(InputError, match=r"adata.to_memory\(\)"):
            from_anndata(backed, features="X")
        to_anndata(reference(), backed)
        assert "nodeproof" in backed.obs
    finally:
        backed.file.close()


@pytest.mark.filterwarnings("ignore:Observation names are not unique")
def test_names_that_occur_twice_are_no_names(adata):
    adata.obs_names = ["cell"] * 120
    clf = fit(**from_anndata(adata, labels="kind", features="X_pca"))
    assert not hasattr(clf, "node_ids_")
    to_anndata(clf, adata)


def test_anything_else_is_refused():
    with pytest.raises(InputError, match="expected an AnnData, got dict"):
        from_anndata({})
    with pytest.raises(InputError, match="expected an AnnData, got dict"):
        to_anndata(reference(), {})
