"""The data of a report: a fit with its findings and its certificate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from nodeproof.auto.held_out import CrossFitted
from nodeproof.errors import InputError
from nodeproof.metrics import FEWEST_JUDGED, ReliabilityCurve, reliability_curve
from nodeproof.runtime.caching import cached_property

if TYPE_CHECKING:
    from nodeproof.certificate import Certificate
    from nodeproof.findings import Findings
    from nodeproof.fitted import Fitted

__all__ = ["ReportData", "reliability_of"]


# The most classes in a matrix.
_MOST_CLASSES = 30


@dataclass
class ReportData:
    """The fit that a report is about, with its findings and its certificate."""

    fitted: Fitted
    findings: Findings
    certificate: Certificate | None
    judged_by: str

    @classmethod
    def of(cls, fitted: Fitted, certificate: Certificate | None) -> ReportData:
        """Return the data of a report; the certificate must be of as many nodes as the fit."""
        findings = fitted.findings
        if certificate is not None and len(certificate.labels) != len(fitted.proba):
            raise InputError(
                f"the certificate is for {len(certificate.labels)} nodes, but the model has "
                f"{len(fitted.proba)}"
            )
        judged_by = "held out" if findings.held_out else "own label removed"
        return cls(fitted, findings, certificate, judged_by)

    @property
    def n(self) -> int:
        """Number of nodes."""
        return len(self.fitted.proba)

    @property
    def K(self) -> int:
        """Number of classes."""
        return len(self.fitted.classes)

    @cached_property
    def n_labels(self) -> int:
        """Number of given labels."""
        return len(self.fitted.labelled)

    @cached_property
    def names(self) -> list[str]:
        """Names of the classes."""
        return [str(name) for name in self.fitted.classes.tolist()]

    @cached_property
    def codes(self) -> NDArray[np.int64]:
        """Class of each node, shape (n,)."""
        return self.fitted.codes

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Number of nodes of each class, shape (K,)."""
        return np.bincount(self.codes, minlength=self.K)

    def node_names(self, nodes: NDArray[np.int64]) -> list[str]:
        """Return the names of nodes."""
        return [str(name) for name in self.fitted.names[nodes].tolist()]

    @cached_property
    def shown_classes(self) -> NDArray[np.int64]:
        """Classes that matrices show: all, or the largest, in their order."""
        if self.K <= _MOST_CLASSES:
            return np.arange(self.K)
        return np.sort(np.argsort(-self.sizes, kind="stable")[:_MOST_CLASSES])


# Nodes per point of a drawn reliability curve, at least.
_PER_BIN = 20

# Below this contrast between right and wrong labels, nothing can be judged by them.
_LEAST_CONTRAST = 0.2


def reliability_of(
    judged: CrossFitted, strategy: Literal["uniform", "quantile"] = "uniform"
) -> ReliabilityCurve | None:
    """Return the reliability of probabilities, or None if labels are too few or too noisy.

    Bins of equal width tell how large the error is, as `expected_calibration_error` does; those
    of as many nodes each ("quantile") are drawn: none is of a few nodes alone.

    Examples
    --------
    >>> import numpy as np
    >>> proba = np.tile([0.8, 0.2], (50, 1))
    >>> found = reliability_of(CrossFitted(np.arange(50), np.repeat([0, 1], [40, 10]), proba, 0.0))
    >>> round(found.error, 3), found.counts.tolist()
    (0.0, [50])
    """
    n, K = judged.proba.shape
    if n < FEWEST_JUDGED or K < 2 or 1.0 - judged.noise * K / (K - 1) < _LEAST_CONTRAST:
        return None
    bins = 10 if strategy == "uniform" else int(np.clip(n // _PER_BIN, 3, 10))
    return reliability_curve(
        judged.codes, judged.proba, bins, noise=judged.noise, strategy=strategy
    )
