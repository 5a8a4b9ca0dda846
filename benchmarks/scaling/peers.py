"""Other methods that nodeproof is compared with.

A peer is one function from its input to the classes it finds; one line registers it. A peer whose
library is missing is listed with the command that installs it.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from scaling.data import Data

__all__ = ["PEERS", "Found", "Peer", "gcn", "label_propagation", "normalised"]

#: epochs that a network is trained, and after the first how many of them are timed
EPOCHS, TIMED = 200, 4


@dataclass(frozen=True)
class Found:
    """The result of a peer.

    Attributes
    ----------
    labels : ndarray of shape (n,), or None
        Classes; None if the peer was not run to its end.
    seconds : float, optional
        Extrapolated duration, if it was not run to its end.
    """

    labels: NDArray[Any] | None
    seconds: float | None = None


@dataclass(frozen=True)
class Peer:
    """A method.

    Attributes
    ----------
    name : str
        Name in the tables.
    sources : str
        "GL" (graph and labels) or "GFL" (features as well).
    fit : callable
        From `Data` to `Found`.
    modules : tuple of str
        Modules it needs beside the dependencies of nodeproof, and
    install : str
        the packages that contain them.
    note : str
        Remark on its figures.
    """

    name: str
    sources: str
    fit: Callable[[Data], Found]
    modules: tuple[str, ...] = ()
    install: str = ""
    note: str = ""

    @property
    def missing(self) -> str:
        """The command that installs what is missing; empty if nothing is."""
        if all(find_spec(module) for module in self.modules):
            return ""
        return f"not installed: pip install {self.install}"


def label_propagation(data: Data) -> Found:
    """Spread the labels in 50 steps, α = .9, symmetric normalisation (Zhou et al., NIPS 2003)."""
    adjacency = normalised(data.graph)
    given = np.zeros((len(data.y), data.n_classes), dtype=np.float32)
    known = np.flatnonzero(data.y >= 0)
    given[known, data.y[known]] = 1.0
    scores = given
    for _ in range(50):
        scores = np.float32(0.9) * (adjacency @ scores) + np.float32(0.1) * given
    return Found(scores.argmax(axis=1))


def sknetwork_propagation(data: Data) -> Found:
    """Let neighbours vote, in sweeps, as scikit-network does."""
    return _sknetwork("Propagation", data)


def sknetwork_diffusion(data: Data) -> Found:
    """Diffuse heat from the labels, as scikit-network does."""
    return _sknetwork("DiffusionClassifier", data)


def sgc(data: Data) -> Found:
    """Fit logistic regression to smoothed products of features (SGC; Wu et al., ICML 2019).

    The features themselves have mean zero in every class: smoothed, they would tell nothing.
    """
    assert data.X is not None
    adjacency = normalised(data.graph + sp.eye_array(len(data.y), dtype=np.float32, format="csr"))
    i, j = np.triu_indices(data.X.shape[1])
    products = adjacency @ (adjacency @ (data.X[:, i] * data.X[:, j]))
    known = np.flatnonzero(data.y >= 0)
    scale = StandardScaler().fit(products[known])
    # The best of nine penalties, .0003 … 100, on the hidden nodes of one graph of 10⁶ links: chosen
    # with the truth, which favours it.
    regression = LogisticRegression(C=0.003, max_iter=300)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        regression.fit(scale.transform(products[known]), data.y[known])
    return Found(regression.predict(scale.transform(products, copy=False)))


def gcn(data: Data) -> Found:
    """Train a graph convolutional network (Kipf and Welling, ICLR 2017) for a few epochs.

    Sixteen hidden units, dropout .5, Adam, as published. The first epoch prepares the graph; the
    median of the next few, times the rest, gives the seconds.
    """
    assert data.X is not None
    torch, functional = import_module("torch"), import_module("torch.nn.functional")
    layer = import_module("torch_geometric.nn").GCNConv
    began = time.perf_counter()
    torch.manual_seed(0)
    warnings.filterwarnings("ignore", message="Sparse (CSR|invariant)")
    graph = torch.sparse_csr_tensor(
        torch.from_numpy(data.graph.indptr.astype(np.int64)),
        torch.from_numpy(data.graph.indices.astype(np.int64)),
        torch.from_numpy(data.graph.data),
        size=data.graph.shape,
    )
    X = torch.from_numpy(data.X)
    known = torch.from_numpy(np.flatnonzero(data.y >= 0))
    labels = torch.from_numpy(data.y)[known]
    first = layer(X.shape[1], 16, cached=True)
    second = layer(16, data.n_classes, cached=True)
    groups = [
        {"params": list(first.parameters()), "weight_decay": 5e-4},
        {"params": list(second.parameters())},
    ]
    optimiser = torch.optim.Adam(groups, lr=0.01)
    ends = []
    for _ in range(1 + TIMED):
        optimiser.zero_grad()
        hidden = first(functional.dropout(X, 0.5), graph).relu()
        logits = second(functional.dropout(hidden, 0.5), graph)
        functional.cross_entropy(logits[known], labels).backward()
        optimiser.step()
        ends.append(time.perf_counter())
    rest = (EPOCHS - 1) * float(np.median(np.diff(ends)))
    return Found(None, ends[0] - began + rest)


def _sknetwork(name: str, data: Data) -> Found:
    classifier = getattr(import_module("sknetwork.classification"), name)()
    return Found(classifier.fit_predict(sp.csr_matrix(data.graph), data.y))


def normalised(graph: sp.csr_array) -> sp.csr_array:
    """Return D^(−1/2) A D^(−1/2) in float32; rows of nodes without a link are zero."""
    degrees = np.asarray(graph.sum(axis=1), dtype=np.float32)
    scale = np.divide(1, np.sqrt(degrees), out=np.zeros_like(degrees), where=degrees > 0)
    scaled = sp.diags_array(scale) @ graph @ sp.diags_array(scale)
    return sp.csr_array(scaled, dtype=np.float32)


_SKNETWORK: dict[str, Any] = {"modules": ("sknetwork",), "install": "scikit-network"}

#: in the order of the tables
PEERS: dict[str, Peer] = {
    peer.name: peer
    for peer in (
        Peer("label propagation", "GL", label_propagation, note="50 steps"),
        Peer("scikit-network Propagation", "GL", sknetwork_propagation, **_SKNETWORK),
        Peer("scikit-network Diffusion", "GL", sknetwork_diffusion, **_SKNETWORK),
        Peer("SGC + logistic regression", "GFL", sgc, note="2 hops, products of features"),
        Peer(
            "GCN",
            "GFL",
            gcn,
            modules=("torch", "torch_geometric"),
            install="torch torch_geometric",
            note=f"{EPOCHS} epochs, extrapolated from {1 + TIMED}",
        ),
    )
}
