"""How networks are trained. Needs torch and torch_geometric."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F  # noqa: N812  (its usual name)
from scipy.special import softmax
from torch import Tensor, nn

from peers.choosing import with_validation
from peers.nets import Settings
from peers.networks import NETWORKS, Features, edge_index, prepared, sparse_tensor
from peers.registry import Data, Split, better, normalised

torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", torch.get_num_threads())))


def train(candidates: Sequence[Settings], data: Data, split: Split, seed: int, limit: float) -> Any:
    """Train networks and return the probabilities of the best epoch of the best of them.

    What is best is decided on the validation nodes, by accuracy. Where there are none, a fifth of
    the training labels serves for it if there is something to choose: between settings, or when to
    stop; these are few, so log-loss decides. If not, the last epoch counts.
    """
    few = len(split.validation) == 0
    if len(candidates) > 1 or candidates[0].patience:
        split = with_validation(split, seed)
    features = Features(prepared(data))
    judge = _Judge(split, by_loss=few)
    for settings in candidates:
        _train_one(settings, data, features, split, judge, seed, limit / len(candidates))
    return judge.best.double().softmax(dim=1).numpy()


def _train_one(
    settings: Settings, data: Data, features: Features, split: Split, judge: _Judge, seed: int,
    limit: float,
) -> None:  # fmt: skip
    began = time.perf_counter()
    torch.manual_seed(seed)
    kind = NETWORKS[settings.network]
    n = features.full.shape[0]
    links = sp.csr_array((n, n), dtype=np.float32) if data.graph is None else data.graph
    graph = edge_index(links) if kind.edges else sparse_tensor(links)
    network = kind(
        features.full.shape[1], data.n_classes, settings.hidden, settings.dropout, **settings.extra
    )
    optimiser = _optimiser(network, settings)
    nodes, labels = torch.from_numpy(split.train), torch.from_numpy(split.y[split.train])
    judge.start()
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

    The penalty and the epoch are chosen on the validation nodes; without these, on a fifth of
    the training labels.
    """
    few = len(split.validation) == 0
    split = with_validation(split, seed)
    X, adjacency = prepared(data), normalised(data.links)
    known = np.concatenate([split.train, split.validation])
    rows = sp.eye_array(len(split.y), dtype=np.float32, format="csr")[known]
    for _ in range(hops):
        rows = rows @ adjacency
    seen = torch.from_numpy((rows @ X).toarray())
    labels = torch.from_numpy(split.y[split.train])
    judge = _Judge(split, by_loss=few)
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
    """Keeps what belongs to the epoch that does best on the validation nodes, of all networks."""

    def __init__(self, split: Split, by_loss: bool) -> None:
        self.by_loss = by_loss
        self.nodes = torch.from_numpy(split.validation)
        self.labels = torch.from_numpy(split.validation_labels)
        self.best: Tensor = torch.empty(0)
        self.reached = (-np.inf, np.inf)
        self.start()

    def start(self) -> None:
        """Begin to count for another network how long its loss has not become less."""
        self.least, self.waited = np.inf, 0

    def see(self, seen: Tensor, kept: Tensor) -> None:
        """Judge an epoch by its logits at the validation nodes; keep what belongs to the best."""
        if len(self.nodes) == 0:
            self.best = kept
            return
        loss = float(F.cross_entropy(seen, self.labels))
        accuracy = float((seen.argmax(dim=1) == self.labels).float().mean())
        found = (0.0 if self.by_loss else accuracy, loss)
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
