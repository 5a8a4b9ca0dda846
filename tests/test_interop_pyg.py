"""PyTorch tensors, and Data of PyTorch Geometric: in, and back with what was found."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import numpy as np
import pytest

from interop_helpers import KINDS, assert_same, fit, kinds, planted, reference
from nodeproof import NodeClassifier
from nodeproof.errors import InputError
from nodeproof.inputs.graph_objects import check_adjacency
from nodeproof.interop import from_pyg, to_pyg

torch = pytest.importorskip("torch", reason="torch is not installed")
pyg = pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")

pytestmark = pytest.mark.filterwarnings(
    "ignore:Sparse CSR tensor support", "ignore:Sparse invariant checks"
)


def edge_index():
    return torch.tensor(np.vstack(planted().graph.nonzero()))


def weighted() -> np.ndarray:
    """Return the graph with a weight at every link, the same both ways."""
    rows, columns = edge_index().numpy()
    graph = planted().graph.toarray()
    graph[rows, columns] = 1.0 + (rows + columns) % 3
    return graph


def weights():
    return torch.tensor(weighted()[tuple(edge_index().numpy())])


def data(**changes):
    """Return the planted data, with labels at all nodes; a change to None leaves a part out."""
    y = torch.tensor(np.where(planted().y < 0, planted().y_true, planted().y))
    parts = {
        "x": torch.tensor(planted().X),
        "edge_index": edge_index(),
        "y": y,
        "train_mask": torch.tensor(planted().y >= 0),
    }
    return pyg.data.Data(**{k: v for k, v in (parts | changes).items() if v is not None})


# In. ------------------------------------------------------------------------------------


def test_a_data_has_features_links_and_training_labels():
    assert_same(fit(graph=data()))
    assert_same(fit(**from_pyg(data())))


def test_labels_outside_the_mask_change_nothing():
    hidden = data()
    hidden.y[~hidden.train_mask] = 999
    assert_same(fit(graph=hidden))


def test_labels_without_a_mask_are_refused():
    with pytest.raises(InputError, match="test labels could leak"):
        fit(graph=data(train_mask=None))
    with pytest.raises(InputError, match="test labels could leak"):
        from_pyg(data(train_mask=None))
    assert_same(fit(y=planted().y, graph=data(train_mask=None)))


def test_without_labels_no_mask_is_needed():
    clf = NodeClassifier(n_classes=3, n_init=1, random_state=0)
    clf.fit(graph=data(y=None, train_mask=None))
    assert clf.fitted_.given is None


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (lambda mask: torch.stack([mask, mask], 1), r"2 columns, .*from_pyg\(data, split=0\)"),
        (lambda mask: torch.where(mask)[0], "one boolean per node, 120 in all; got int64"),
        (lambda mask: mask.double(), "one boolean per node"),
        (lambda mask: mask[:50], "has 50 entries, but y has 120"),
        (lambda mask: torch.zeros_like(mask), "False everywhere"),
        (lambda mask: mask[:, None, None], "one boolean per node, got shape"),
    ],
    ids=["splits", "positions", "floats", "short", "empty", "cube"],
)
def test_a_mask_that_does_not_say_whose_labels_count_is_refused(mask, message):
    with pytest.raises(InputError, match=message):
        fit(graph=data(train_mask=mask(data().train_mask)))


def test_masks_may_be_bytes_or_a_column():
    assert_same(fit(graph=data(train_mask=data().train_mask.byte())))
    assert_same(fit(graph=data(train_mask=data().train_mask[:, None])))
    assert_same(fit(graph=data(y=data().y[:, None])))


def test_a_split_is_chosen_by_its_number():
    mask = data().train_mask
    several = data(train_mask=torch.stack([~mask, mask], 1))
    assert_same(fit(**from_pyg(several, split=1)))
    with pytest.raises(InputError, match="split must be 0 to 1, got 2"):
        from_pyg(several, split=2)
    with pytest.raises(InputError, match="only one split"):
        from_pyg(data(), split=0)


def test_validation_labels_count_only_when_asked_for():
    val_mask = torch.tensor((planted().y < 0) & (np.arange(120) % 2 == 0))
    held = data(val_mask=val_mask)
    assert "validation" not in from_pyg(held)
    validation = from_pyg(held, validation=True)["validation"]
    np.testing.assert_array_equal(validation >= 0, val_mask)
    np.testing.assert_array_equal(validation[val_mask], planted().y_true[val_mask])
    with pytest.raises(InputError, match="no val_mask"):
        from_pyg(data(), validation=True)


def test_several_labels_per_node_are_refused():
    with pytest.raises(InputError, match=r"y has the shape \(120, 2\): a node can have only one"):
        fit(graph=data(y=torch.stack([data().y, data().y], 1)))


@pytest.mark.parametrize("shape", [(-1,), (-1, 1)])
@pytest.mark.parametrize("name", ["edge_weight", "edge_attr"])
def test_weights_are_taken_from_their_attribute(name, shape):
    held = data(**{name: weights().reshape(shape)})
    np.testing.assert_array_equal(check_adjacency(held).toarray(), weighted())


def test_the_attribute_with_weights_can_be_named():
    held = data(edge_weight=torch.ones(edge_index().shape[1]), strength=weights())
    matrix = from_pyg(held, weight="strength")["graph"].toarray()
    np.testing.assert_array_equal(matrix, weighted())
    plain = data(edge_attr=weights())
    matrix = from_pyg(plain, weight=None)["graph"].toarray()
    np.testing.assert_array_equal(matrix, planted().graph.toarray())
    with pytest.raises(InputError, match="no attribute 'mass'"):
        from_pyg(plain, weight="mass")


def test_edge_attributes_that_are_no_weights_are_left_out_in_a_word():
    held = data(edge_attr=torch.ones(edge_index().shape[1], 3))
    with pytest.warns(UserWarning, match="edge_attr has 3 columns"):
        matrix = check_adjacency(held)
    np.testing.assert_array_equal(matrix.toarray(), planted().graph.toarray())
    with pytest.raises(InputError, match=r"one number per link, got shape \(\d+, 3\)"):
        from_pyg(held, weight="edge_attr")


def test_nodes_without_links_at_the_end_are_counted_without_a_guess():
    held = data(x=None, edge_index=torch.tensor([[0, 1], [1, 0]]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert from_pyg(held)["graph"].shape == (120, 120)


@pytest.mark.parametrize("layout", ["sparse_coo", "sparse_csr"])
def test_a_matrix_may_stand_for_the_links(layout):
    transform = pyg.transforms.ToSparseTensor(layout=getattr(torch, layout))
    held = transform(data(edge_weight=weights()))
    assert held.edge_index is None
    np.testing.assert_array_equal(check_adjacency(held).toarray(), weighted())
    assert_same(fit(graph=transform(data())))


def test_what_has_no_links_says_so():
    with pytest.raises(InputError, match="neither edge_index nor adj_t"):
        fit(graph=data(edge_index=None))
    other = data(edge_index=None)
    other.adj_t = SimpleNamespace(to_scipy=None)
    with pytest.raises(InputError, match=r"SparseTensor .*to_scipy"):
        fit(graph=other)
    with pytest.raises(InputError, match=r"shape \(2, E\)"):
        fit(graph=data(edge_index=edge_index().T))


def test_one_direction_is_as_good_as_both():
    up = edge_index()[:, edge_index()[0] < edge_index()[1]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_same(fit(graph=data(edge_index=up)))


def test_other_kinds_of_data_are_refused_with_what_to_do():
    hetero = pyg.data.HeteroData()
    hetero["cell"].x = data().x
    hetero["cell", "near", "cell"].edge_index = edge_index()
    hetero["tissue"].x = data().x
    with pytest.raises(InputError, match=r"HeteroData .*to_homogeneous\(\)"):
        fit(graph=hetero)
    batch = pyg.data.Batch.from_data_list([data(), data()])
    with pytest.raises(InputError, match=r"batch of 2 graphs; .*to_data_list\(\)"):
        fit(graph=batch)
    for function in (from_pyg, lambda held: to_pyg(reference(), held)):
        with pytest.raises(InputError, match="batch of 2 graphs"):
            function(batch)
        with pytest.raises(InputError, match="got dict"):
            function({})


# Tensors. -------------------------------------------------------------------------------


def test_tensors_may_stand_for_arrays():
    X, y = torch.tensor(planted().X), torch.tensor(planted().y)
    assert_same(fit(X, y, graph=edge_index()))
    assert_same(fit(X, y, graph=pyg.EdgeIndex(edge_index())))
    assert_same(fit(X.T.contiguous().T, y, graph=torch.tensor(planted().graph.toarray())))


@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
def test_sparse_tensors_are_graphs(layout):
    dense = torch.tensor(weighted())
    matrix = check_adjacency(getattr(dense, f"to_sparse_{layout}")())
    np.testing.assert_array_equal(matrix.toarray(), weighted())


def test_sparse_blocks_are_graphs_and_entries_listed_twice_count_once():
    blocks = torch.tensor(weighted()).to_sparse_bsr((4, 4))
    np.testing.assert_array_equal(check_adjacency(blocks).toarray(), weighted())
    twice = torch.sparse_coo_tensor([[0, 0, 1], [1, 1, 0]], [1.0, 3.0, 3.0], (2, 2))
    with pytest.warns(UserWarning, match="1 entry repeats another"):
        np.testing.assert_array_equal(check_adjacency(twice).toarray(), [[0, 3], [3, 0]])


def test_gradients_are_left_behind():
    X = torch.tensor(planted().X, requires_grad=True)
    assert_same(fit(X, torch.tensor(planted().y), graph=edge_index()))
    assert_same(fit(graph=data(x=X)))
    assert_same(fit(graph=data(x=torch.nn.Parameter(torch.tensor(planted().X)))))
    heavy = weights().clone().requires_grad_()
    matrix = check_adjacency(data(edge_weight=heavy))
    np.testing.assert_array_equal(matrix.toarray(), weighted())
    assert X.requires_grad


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_features_of_less_precision_give_the_same_labels(dtype):
    clf = fit(graph=data(x=torch.tensor(planted().X).to(getattr(torch, dtype))))
    np.testing.assert_array_equal(clf.labels_, reference().labels_)


def test_a_tensor_without_numbers_is_refused():
    with pytest.raises(InputError, match="device 'meta'"):
        fit(torch.ones((120, 2), device="meta"), planted().y)


def test_a_sparse_tensor_with_a_row_an_entry_is_refused():
    hybrid = torch.sparse_coo_tensor([[0, 1]], torch.ones(2, 2), (2, 2))
    with pytest.raises(InputError, match="rows and columns"):
        check_adjacency(hybrid)


def test_new_nodes_may_be_tensors():
    links = torch.tensor([[0, 3], [0, 4], [1, 90]])
    X_new = torch.tensor(planted().X[:2] + 0.01, requires_grad=True)
    expected = reference().predict_proba(X_new.detach().numpy(), graph=links.numpy())
    np.testing.assert_array_equal(reference().predict_proba(X_new, graph=links), expected)
    matrix = torch.zeros((2, 120))
    matrix[links[:, 0], links[:, 1]] = 1.0
    found = reference().predict_proba(X_new, graph=matrix.to_sparse())
    np.testing.assert_array_equal(found, expected)


# Out. -----------------------------------------------------------------------------------


def test_what_was_found_is_written_in_the_users_own_coding():
    coded = data(y=data().y * 10 + 5)
    clf = fit(graph=coded)
    assert to_pyg(clf, coded) is coded
    assert coded.y_pred.dtype == torch.long
    np.testing.assert_array_equal(coded.y_pred, reference().labels_ * 10 + 5)
    assert coded.proba.dtype == torch.float32
    np.testing.assert_array_equal(coded.proba, reference().proba_)
    assert coded.suspect.dtype == torch.bool
    suspects = np.sort(reference().suspects_.node)
    assert len(suspects)
    np.testing.assert_array_equal(torch.where(coded.suspect)[0], suspects)
    coded.validate()
    assert_same(fit(graph=data(proba=coded.proba)))


def test_labels_that_are_words_are_written_by_their_class():
    clf = fit(y=kinds(), graph=data())
    held = to_pyg(clf, data())
    np.testing.assert_array_equal(clf.classes_[held.y_pred], KINDS[reference().labels_])


def test_a_data_with_a_matrix_can_be_written_to():
    held = pyg.transforms.ToSparseTensor(layout=torch.sparse_csr)(data())
    np.testing.assert_array_equal(to_pyg(reference(), held).y_pred, reference().labels_)


def test_a_data_of_another_size_is_refused():
    with pytest.raises(InputError, match="the Data has 60 nodes, but the classifier was fitted to"):
        to_pyg(reference(), data().subgraph(torch.arange(60)))


@pytest.mark.filterwarnings("ignore:the data do not tell")
def test_labels_of_a_data_may_be_a_list_of_texts():
    inside = torch.tensor([True, False, True])
    data = pyg.data.Data(edge_index=torch.tensor([[0, 1], [1, 2]]), train_mask=inside)
    data.y = ["a", "b", "b"]
    clf = NodeClassifier(random_state=0).fit(graph=data)
    assert clf.classes_.tolist() == ["a", "b"]
    assert clf.fitted_.given.tolist() == [0, -1, 1]


@pytest.mark.parametrize("split", [0.5, "a"])
def test_a_split_that_is_no_number_of_a_column_is_refused(split):
    masks = torch.ones((3, 2), dtype=torch.bool)
    data = pyg.data.Data(edge_index=torch.tensor([[0, 1], [1, 2]]), train_mask=masks)
    data.y = torch.tensor([0, 1, 1])
    with pytest.raises(InputError, match="split must be 0 to 1"):
        from_pyg(data, split=split)
