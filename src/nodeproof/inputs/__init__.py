"""What a user gives to `fit`, checked once and turned into arrays that the rest can trust.

Objects of other libraries become a graph (`graph_objects`), labels become class numbers
(`labels`), names of nodes bring all of it into one order (`node_names`, `unpacking`). The names
below are for everybody; take others from the modules. May import `errors`, `runtime`, `kernels`,
`csr` and `storage`.
"""

from nodeproof.inputs.features import Unit, check_features, check_reach, read_features
from nodeproof.inputs.labels import (
    EncodedLabels,
    check_distinct,
    check_validation,
    encode_labels,
    encode_names,
    encode_truth,
    warn_of_typos,
)

__all__ = [
    "EncodedLabels",
    "Unit",
    "check_distinct",
    "check_features",
    "check_reach",
    "check_validation",
    "encode_labels",
    "encode_names",
    "encode_truth",
    "read_features",
    "warn_of_typos",
]
