"""Check what a user gives to `fit`, once, and turn it into arrays that the rest can trust."""

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
