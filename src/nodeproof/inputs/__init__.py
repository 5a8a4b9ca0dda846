"""Check what a user gives to `fit`, once, and turn it into arrays that the rest can trust."""

from nodeproof.inputs.features import Unit, check_features, check_reach, with_short_indices
from nodeproof.inputs.labels import (
    EncodedLabels,
    check_validation,
    encode_labels,
    encode_names,
    encode_truth,
    warn_of_typos,
)
from nodeproof.inputs.settings import check_candidates, check_settings, check_sizes

__all__ = [
    "EncodedLabels",
    "Unit",
    "check_candidates",
    "check_features",
    "check_reach",
    "check_settings",
    "check_sizes",
    "check_validation",
    "encode_labels",
    "encode_names",
    "encode_truth",
    "warn_of_typos",
    "with_short_indices",
]
