"""The networks and how they are trained. Needs torch and torch_geometric."""

from __future__ import annotations

import os
import time
import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F  # noqa: N812  (its usual name)
from scipy.special import softmax
from torch import Tensor, nn
from torch_geometric import nn as gnn

from peers.nets import Settings
from peers.registry import Data, Split, better, normalised

torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", torch.get_num_threads())))

#: features with a smaller share of non-zeros stay sparse
SPARSE = 0.03

# torch calls its sparse matrices a beta version in a warning.
warnings.filterwarnings("ignore", message="Sparse (CSR|invariant)")


class Features:
    """Features whose rows sum to one, dropped at random among those that are not zero.

    To drop zeros changes nothing, and drawing them is most of the time that training takes.
    Few non-zeros are multiplied as a sparse matrix, many as a dense one, whichever is faster.
    """

    def __init__(self, X: sp.csr_array) -> None:
        rows = _rows_sum_to_one(X)
        self.sparse = _csr(rows)
        self.full = self.sparse
        self.stays_sparse = rows.nnz < SPARSE * rows.shape[0] * rows.shape[1]
        if not self.stays_sparse:
            self.full = torch.from_numpy(rows.toarray())
            self.part = torch.zeros_like(self.full)
            where = rows.tocoo()
            places = where.row.astype(np.int64) * rows.shape[1] + where.col
            self.places = torch.from_numpy(places)

    def dropped(self, share: float, training: bool) -> Tensor:
        """Return the features, in training without a random share of them."""
        if not training:
            return self.full
        values = F.dropout(self.sparse.values(), share)
        if self.stays_sparse:
            crow, col = self.sparse.crow_indices(), self.sparse.col_indices()
            return torch.sparse_csr_tensor(crow, col, values, size=self.sparse.shape)
        self.part.view(-1)[self.places] = values
        return self.part


class Network(nn.Module):
    """A network, and in which form it takes the graph.

    Its `first` weights are those with the first of the two penalties.
    """

    #: whether it takes an edge_index in place of a sparse matrix
    edges = False


class GCN(Network):
    """Two graph convolutions."""

    def __init__(self, d: int, K: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.first = gnn.GCNConv(d, hidden, cached=True)
        self.second = gnn.GCNConv(hidden, K, cached=True)
        self.dropout = dropout

    def forward(self, features: Features, graph: Tensor) -> Tensor:
        """Return the logits of all nodes."""
        x = features.dropped(self.dropout, self.training)
        x = self.first(x, graph).relu()
        return self.second(F.dropout(x, self.dropout, self.training), graph)


class Mean(nn.Module):
    """A layer of GraphSAGE: a linear map of a node plus one of its neighbours' mean.

    The map is taken before the mean: the same function as `SAGEConv`, for less.
    """

    def __init__(self, d_in: int, d_out: int) -> None:
        super().__init__()
        self.own = nn.Linear(d_in, d_out)
        self.others = nn.Linear(d_in, d_out, bias=False)

    def forward(self, x: Tensor, graph: Tensor) -> Tensor:
        """Return the values of all nodes."""
        degrees = graph.crow_indices().diff().clamp(min=1)
        return self.own(x) + (graph @ self.others(x)) / degrees[:, None]


class SAGE(Network):
    """Two layers that take the mean over the neighbours."""

    def __init__(self, d: int, K: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.first = Mean(d, hidden)
        self.second = Mean(hidden, K)
        self.dropout = dropout

    def forward(self, features: Features, graph: Tensor) -> Tensor:
        """Return the logits of all nodes."""
        x = features.dropped(self.dropout, self.training)
        x = self.first(x, graph).relu()
        return self.second(F.dropout(x, self.dropout, self.training), graph)


class GAT(Network):
    """Two layers of attention, eight heads in the first."""

    edges = True

    def __init__(self, d: int, K: int, hidden: int, dropout: float, out_heads: int = 1) -> None:
        super().__init__()
        self.first = gnn.GATConv(d, hidden, heads=8, dropout=dropout)
        self.second = gnn.GATConv(8 * hidden, K, heads=out_heads, concat=False, dropout=dropout)
        self.dropout = dropout

    def forward(self, features: Features, graph: Tensor) -> Tensor:
        """Return the logits of all nodes."""
        x = features.dropped(self.dropout, self.training)
        x = F.elu(self.first(x, graph))
        return self.second(F.dropout(x, self.dropout, self.training), graph)


class APPNP(Network):
    """A perceptron whose logits are spread by personalised PageRank."""

    def __init__(self, d: int, K: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.first = nn.Linear(d, hidden)
        self.second = nn.Linear(hidden, K)
        self.spread = gnn.APPNP(K=10, alpha=0.1, dropout=0.0, cached=True)
        self.dropout = dropout

    def forward(self, features: Features, graph: Tensor) -> Tensor:
        """Return the logits of all nodes."""
        x = features.dropped(self.dropout, self.training)
        x = self.first(x).relu()
        x = self.second(F.dropout(x, self.dropout, self.training))
        return self.spread(x, graph)


class GCNII(Network):
    """Many convolutions, each with a share of the first layer and of the identity."""

    def __init__(
        self, d: int, K: int, hidden: int, dropout: float, layers: int, theta: float
    ) -> None:
        super().__init__()
        self.ends = nn.ModuleList([nn.Linear(d, hidden), nn.Linear(hidden, K)])
        self.layers = nn.ModuleList(
            gnn.GCN2Conv(hidden, alpha=0.1, theta=theta, layer=number + 1, cached=True)
            for number in range(layers)
        )
        self.dropout = dropout

    @property
    def first(self) -> nn.Module:
        """Both ends."""
        return self.ends

    def forward(self, features: Features, graph: Tensor) -> Tensor:
        """Return the logits of all nodes."""
        x = self.ends[0](features.dropped(self.dropout, self.training)).relu()
        start = x
        for layer in self.layers:
            x = layer(F.dropout(x, self.dropout, self.training), start, graph).relu()
        return self.ends[1](F.dropout(x, self.dropout, self.training))


NETWORKS = {each.__name__: each for each in (GCN, SAGE, GAT, APPNP, GCNII)}


def train(settings: Settings, data: Data, split: Split, seed: int, limit: float) -> Any:
    """Train a network and return the probabilities of its best epoch on the validation nodes.

    Without validation nodes the last epoch counts.
    """
    began = time.perf_counter()
    torch.manual_seed(seed)
    kind = NETWORKS[settings.network]
    features = Features(data.features)
    graph = _edges(data.graph) if kind.edges else _csr(data.graph)
    network = kind(
        data.features.shape[1], data.n_classes, settings.hidden, settings.dropout, **settings.extra
    )
    optimiser = _optimiser(network, settings)
    nodes, labels = torch.from_numpy(split.train), torch.from_numpy(split.y[split.train])
    judge = _Judge(split)
    for epoch in range(1, settings.epochs + 1):
        network.train()
        optimiser.zero_grad()
        F.cross_entropy(network(features, graph)[nodes], labels).backward()
        optimiser.step()
        late = time.perf_counter() - began > limit
        if len(split.validation) or late or epoch == settings.epochs:
            with torch.no_grad():
                logits = network.eval()(features, graph)
            judge.see(logits[judge.nodes], logits)
        if late and epoch < settings.epochs:
            warnings.warn(f"stopped after {epoch} of {settings.epochs} epochs", stacklevel=2)
        if late or (settings.patience and judge.waited >= settings.patience):
            break
    return judge.best.double().softmax(dim=1).numpy()


def train_linear(
    data: Data,
    split: Split,
    seed: int,
    *,
    hops: int,
    rate: float,
    decays: tuple[float, ...],
    epochs: int,
) -> Any:
    """Train a linear layer on smoothed features; of these only the labelled rows are formed.

    The penalty and the epoch are chosen on the validation nodes; without these, the first
    penalty and the last epoch count.
    """
    X, adjacency = _rows_sum_to_one(data.features), normalised(data.graph)
    known = np.concatenate([split.train, split.validation])
    rows = sp.eye_array(len(split.y), dtype=np.float32, format="csr")[known]
    for _ in range(hops):
        rows = rows @ adjacency
    seen = torch.from_numpy((rows @ X).toarray())
    labels = torch.from_numpy(split.y[split.train])
    judge = _Judge(split)
    for decay in decays if len(split.validation) else decays[:1]:
        torch.manual_seed(seed)
        layer = nn.Linear(X.shape[1], data.n_classes)
        optimiser = torch.optim.Adam(layer.parameters(), lr=rate, weight_decay=decay)
        for _ in range(epochs):
            optimiser.zero_grad()
            F.cross_entropy(layer(seen[: len(labels)]), labels).backward()
            optimiser.step()
            weights = torch.cat([layer.weight.detach(), layer.bias.detach()[:, None]], dim=1)
            judge.see(layer(seen[len(labels) :]).detach(), weights)
    scores = X @ judge.best[:, :-1].T.numpy()
    for _ in range(hops):
        scores = adjacency @ scores
    return softmax((scores + judge.best[:, -1].numpy()).astype(np.float64), axis=1)


class _Judge:
    """Keeps what belongs to the epoch that does best on the validation nodes."""

    def __init__(self, split: Split) -> None:
        self.nodes = torch.from_numpy(split.validation)
        self.labels = torch.from_numpy(split.validation_labels)
        self.best: Tensor = torch.empty(0)
        self.reached = (-np.inf, np.inf)
        self.least, self.waited = np.inf, 0

    def see(self, seen: Tensor, kept: Tensor) -> None:
        """Judge an epoch by its logits at the validation nodes; keep what belongs to the best."""
        if len(self.nodes) == 0:
            self.best = kept
            return
        loss = float(F.cross_entropy(seen, self.labels))
        found = (float((seen.argmax(dim=1) == self.labels).float().mean()), loss)
        if better(found, self.reached):
            self.best, self.reached = kept, found
        self.waited = 0 if loss < self.least else self.waited + 1
        self.least = min(self.least, loss)


def _optimiser(network: Any, settings: Settings) -> torch.optim.Optimizer:
    first = list(network.first.parameters())
    known = {id(each) for each in first}
    others = [each for each in network.parameters() if id(each) not in known]
    groups = [
        {"params": params, "weight_decay": decay}
        for params, decay in zip((first, others), settings.decay, strict=True)
        if params
    ]
    return torch.optim.Adam(groups, lr=settings.rate)


def _rows_sum_to_one(X: sp.csr_array) -> sp.csr_array:
    sums = np.asarray(X.sum(axis=1), dtype=np.float64)
    scale = np.divide(1.0, sums, out=np.zeros_like(sums), where=sums > 0)
    return sp.csr_array(sp.diags_array(scale) @ X, dtype=np.float32)


def _edges(graph: sp.csr_array) -> Tensor:
    return torch.from_numpy(np.stack(graph.nonzero()).astype(np.int64))


def _csr(graph: sp.csr_array) -> Tensor:
    return torch.sparse_csr_tensor(
        torch.from_numpy(graph.indptr.astype(np.int64)),
        torch.from_numpy(graph.indices.astype(np.int64)),
        torch.from_numpy(graph.data.astype(np.float32)),
        size=graph.shape,
    )
