"""Check what a user gives to `fit`, once, and turn it into arrays to be trusted.

Graphs, features, labels and node names may be numpy, scipy, pandas, NetworkX, PyTorch or igraph
objects; beyond this room they are arrays and CSR matrices. Take graphs and names from the modules;
labels and features are listed here. May import `storage`, `csr` and what is below them.
"""

from nodeproof.inputs.features import Unit, check_features, check_reach, read_features
from nodeproof.inputs.labels import (
    EncodedLabels,
    check_validation,
    encode_labels,
    encode_names,
    encode_truth,
    warn_of_typos,
)

__all__ = [
    "EncodedLabels",
    "Unit",
    "check_features",
    "check_reach",
    "check_validation",
    "encode_labels",
    "encode_names",
    "encode_truth",
    "read_features",
    "warn_of_typos",
]
