"""Graph neural networks. Needs torch and torch_geometric."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F  # noqa: N812  (its usual name)
from torch import Tensor, nn
from torch_geometric import nn as gnn

from peers.registry import Data, standardised

#: features with a smaller share of non-zeros stay sparse
SPARSE = 0.03

# torch calls its sparse matrices a beta version in a warning.
warnings.filterwarnings("ignore", message="Sparse (CSR|invariant)")


class Features:
    """Features as networks take them, dropped at random among those that are not zero.

    To drop zeros changes nothing, and drawing them is most of the time that training takes.
    Few non-zeros are multiplied as a sparse matrix, many as a dense one, whichever is faster.
    """

    def __init__(self, rows: sp.csr_array) -> None:
        self.sparse = sparse_tensor(rows)
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


class TunedGCN(Network):
    """Convolutions with dropout and, if asked for, residual connections and layer norms.

    Luo, Shi and Wu (NeurIPS 2024): with these a GCN is level with what came after it.
    """

    def __init__(
        self, d: int, K: int, hidden: int, dropout: float, layers: int, residual: bool
    ) -> None:
        super().__init__()
        sizes = [d, *[hidden] * layers]
        pairs = list(itertools.pairwise(sizes))
        self.first = nn.ModuleList(gnn.GCNConv(*pair, cached=True) for pair in pairs)
        self.own = nn.ModuleList(nn.Linear(*pair) for pair in pairs if residual)
        self.norms = nn.ModuleList(nn.LayerNorm(hidden) for _ in pairs if residual)
        self.last = nn.Linear(hidden, K)
        self.dropout = dropout

    def forward(self, features: Features, graph: Tensor) -> Tensor:
        """Return the logits of all nodes."""
        x = features.dropped(self.dropout, self.training)
        for place, layer in enumerate(self.first):
            found = layer(x, graph)
            if self.own:
                found = self.norms[place](found + self.own[place](x))
            x = F.dropout(found.relu(), self.dropout, self.training)
        return self.last(x)


NETWORKS = {each.__name__: each for each in (GCN, SAGE, GAT, APPNP, GCNII, TunedGCN)}


def prepared(data: Data) -> sp.csr_array:
    """Return sparse features with rows that sum to one, as is usual; dense ones standardised."""
    if data.X is not None and not sp.issparse(data.X):
        return sp.csr_array(standardised(data.X), dtype=np.float32)
    X = data.features
    sums = np.asarray(X.sum(axis=1), dtype=np.float64)
    scale = np.divide(1.0, sums, out=np.zeros_like(sums), where=sums > 0)
    return sp.csr_array(sp.diags_array(scale) @ X, dtype=np.float32)


def edge_index(graph: sp.csr_array) -> Tensor:
    """Return the links as a tensor of shape (2, links)."""
    return torch.from_numpy(np.stack(graph.nonzero()).astype(np.int64))


def sparse_tensor(graph: sp.csr_array) -> Tensor:
    """Return a sparse matrix of torch."""
    return torch.sparse_csr_tensor(
        torch.from_numpy(graph.indptr.astype(np.int64)),
        torch.from_numpy(graph.indices.astype(np.int64)),
        torch.from_numpy(graph.data.astype(np.float32)),
        size=graph.shape,
    )
