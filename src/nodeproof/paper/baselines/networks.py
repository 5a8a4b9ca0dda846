"""Graph neural networks, as PyTorch Geometric implements them."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodeproof.errors import InputError
from nodeproof.paper.baselines.evidence import (
    check_classes,
    check_links,
    check_points,
    check_some_given,
)

__all__ = ["NETWORKS", "check_torch", "graph_network"]

#: by name, the model in torch_geometric.nn and its own settings
NETWORKS: dict[str, tuple[str, dict[str, int]]] = {
    "gcn": ("GCN", {"hidden_channels": 16}),
    "graphsage": ("GraphSAGE", {"hidden_channels": 64}),
    "gat": ("GAT", {"hidden_channels": 64, "heads": 8}),
}
_DROPOUT, _RATE, _DECAY, _EPOCHS = 0.5, 0.01, 5e-4, 200


def check_torch() -> None:
    """Raise an error that says what to install unless torch and torch_geometric are there."""
    missing = [name for name in ("torch", "torch_geometric") if find_spec(name) is None]
    if missing:
        raise InputError(
            f"graph neural networks need {' and '.join(missing)}; "
            f"run: pip install {' '.join(missing)}"
        )


def graph_network(
    graph: Any, X: Any, y: Any, n_classes: int, kind: str = "gcn", *, random_state: int = 0
) -> NDArray[np.int64]:
    """Classify the nodes by a graph neural network of two layers.

    All have the usual settings: dropout 0.5, 200 epochs of Adam at rate 0.01, weight decay 5e-4;
    16 hidden units for the GCN, 64 for GraphSAGE, 8 heads of 8 for the GAT. Features are
    standardised. One thread, float32; the state of torch is left as it was.

    Parameters
    ----------
    graph : object
        Anything that :func:`nodeproof.inputs.graph_objects.check_adjacency` reads; weights do not
        count.
    X : array of shape (n, m)
        Features.
    y : array of shape (n,)
        Labels 0…K−1, −1 where unknown; at least one must be known.
    n_classes : int
        Number of classes K.
    kind : {"gcn", "graphsage", "gat"}
        The network.
    random_state : int
        Seed of the weights and of dropout.

    Returns
    -------
    ndarray of shape (n,)
        Predicted classes of all nodes, including the labelled ones.
    """
    check_torch()
    if kind not in NETWORKS:
        raise InputError(f"kind must be one of {', '.join(NETWORKS)}; got {kind!r}")
    adjacency, points = check_links(graph), check_points(X)
    n = len(points)
    if adjacency.shape[0] != n:
        raise InputError(f"the graph has {adjacency.shape[0]} nodes but X has {n} rows")
    K = check_classes(n_classes, n)
    labels = check_some_given(y, n, K)
    deviations = points.std(axis=0)
    points = (points - points.mean(axis=0)) / np.where(deviations > 0, deviations, 1.0)
    torch: Any = import_module("torch")
    models: Any = import_module("torch_geometric.nn")
    name, settings = NETWORKS[kind]
    inputs = torch.from_numpy(points.astype(np.float32))
    links = torch.from_numpy(np.stack(adjacency.nonzero()).astype(np.int64))
    known = torch.from_numpy(np.flatnonzero(labels >= 0))
    given = torch.from_numpy(labels)[known]
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(random_state)
            network = getattr(models, name)(
                points.shape[1], num_layers=2, out_channels=K, dropout=_DROPOUT, **settings
            )
            optimiser = torch.optim.Adam(network.parameters(), lr=_RATE, weight_decay=_DECAY)
            network.train()
            for _ in range(_EPOCHS):
                optimiser.zero_grad()
                loss = torch.nn.functional.cross_entropy(network(inputs, links)[known], given)
                loss.backward()
                optimiser.step()
            network.eval()
            with torch.no_grad():
                found = network(inputs, links).argmax(dim=1).numpy()
    finally:
        torch.set_num_threads(n_threads)
    return np.asarray(found, dtype=np.int64)
