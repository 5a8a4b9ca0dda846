"""Methods that node classification is benchmarked with, each one function in a registry.

A peer is a function ``fit(data, split, seed)`` that returns class probabilities of every node,
an array of shape (n, K), and is registered by ``@peer(name)``; see `peers.registry`. It never
sees the classes that it is judged by.
"""

from importlib import import_module

from peers.registry import PEERS, Data, Peer, Split

__all__ = ["PEERS", "Data", "Peer", "Split"]

# In the order of the tables.
for _module in ("own", "linear", "slimg", "trees", "propagation", "nets"):
    import_module(f"peers.{_module}")
