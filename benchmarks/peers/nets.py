"""Graph neural networks (PyTorch Geometric) with the settings they were published with.

The settings are here, the networks in `peers.networks` and their training in `peers.training`,
which need torch.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from peers.registry import Data, Split, peer

#: seconds after which training stops (the best epoch so far counts), set by the benchmark
limit = float("inf")


@dataclass(frozen=True)
class Settings:
    """The settings of a network.

    Parameters
    ----------
    network : str
        Name of a class in `peers.networks`.
    hidden : int
        Units of the hidden layer (of each head).
    dropout : float
    rate : float
        Learning rate of Adam.
    decay : (float, float)
        L2 penalty of the first and of the other weights.
    epochs : int
        The most that are trained; with validation nodes the best one counts.
    patience : int or None
        Stop after so many epochs without a lower validation loss.
    extra : dict
        Further arguments of the network.
    published_for : dict
        Settings that differ for sets of these names.
    """

    network: str
    hidden: int
    dropout: float = 0.5
    rate: float = 0.01
    decay: tuple[float, float] = (5e-4, 0.0)
    epochs: int = 200
    patience: int | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    published_for: dict[str, dict[str, Any]] = field(default_factory=dict)


def net(name: str, *candidates: Settings, quick: bool = False) -> None:
    """Register a network; of several settings the best by validation is taken."""

    @peer(name, needs="torch", quick=quick)
    def fit(data: Data, split: Split, seed: int) -> Any:
        from peers.training import train

        chosen = [replace(each, **each.published_for.get(data.name, {})) for each in candidates]
        return train(chosen, data, split, seed, limit)


# Kipf and Welling, ICLR 2017; and wider, trained until it gains no more, as in later comparisons.
net("GCN", Settings("GCN", 16), quick=True)
net("GCN (64)", Settings("GCN", 64, epochs=1000, patience=100))
# Hamilton, Ying and Leskovec, NIPS 2017, full batch, mean.
net("GraphSAGE", Settings("SAGE", 64, decay=(5e-4, 5e-4)))
# Veličković et al., ICLR 2018.
net(
    "GAT",
    Settings(
        "GAT",
        8,
        dropout=0.6,
        rate=0.005,
        decay=(5e-4, 5e-4),
        published_for={"pubmed": {"rate": 0.01, "decay": (1e-3, 1e-3), "extra": {"out_heads": 8}}},
    ),
)
# Gasteiger, Bojchevski and Günnemann, ICLR 2019.
net("APPNP", Settings("APPNP", 64, decay=(5e-3, 0.0)))
# Chen et al., ICML 2020.
net(
    "GCNII",
    Settings(
        "GCNII",
        64,
        dropout=0.6,
        decay=(5e-4, 1e-2),
        epochs=1500,
        patience=100,
        extra={"layers": 64, "theta": 0.5},
        published_for={
            "citeseer": {"hidden": 256, "dropout": 0.7, "extra": {"layers": 32, "theta": 0.6}},
            "pubmed": {
                "hidden": 256,
                "decay": (5e-4, 5e-4),
                "dropout": 0.5,
                "extra": {"layers": 16, "theta": 0.4},
            },
        },
    ),
)
# Luo, Shi and Wu, NeurIPS 2024: a GCN with what later networks have; a part of their grid.
_TUNED = (
    {"dropout": 0.7, "extra": {"layers": 2, "residual": False}},
    {"dropout": 0.5, "extra": {"layers": 2, "residual": True}},
    {"dropout": 0.5, "extra": {"layers": 4, "residual": True}},
)
_tuned = Settings("TunedGCN", 64, rate=0.005, decay=(5e-4, 5e-4), epochs=500, patience=100)
net("GCN (tuned)", *(replace(_tuned, **each) for each in _TUNED))


@peer("SGC", needs="torch", quick=True)
def sgc(data: Data, split: Split, seed: int) -> Any:
    """Wu et al. (ICML 2019): a linear layer on features smoothed over two hops.

    The penalty is searched on the validation nodes, as they do.
    """
    from peers.training import train_linear

    return train_linear(data, split, seed, hops=2, rate=0.2, decays=(5e-6, 5e-5, 5e-4), epochs=100)
