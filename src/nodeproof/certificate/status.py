"""What certificates say in one line: how far a labelling can be from the optimum."""

from __future__ import annotations

import math

__all__ = ["NO_PROOF", "gap_of", "nats", "percent", "status_of"]

#: a larger gap, relative to the objective, proves nothing worth a number
NO_PROOF = 0.1


def gap_of(objective: float, lower_bound: float, tolerance: float) -> float:
    """Return the gap relative to the size of the objective."""
    missing = objective - lower_bound
    if missing <= 0 or (missing <= tolerance and abs(objective) <= tolerance):
        return 0.0
    return missing / abs(objective) if objective else math.inf


def status_of(
    objective: float, lower_bound: float, tolerance: float, named: float | None = None
) -> str:
    """Return the status of a certificate.

    Parameters
    ----------
    named : float, optional
        The tolerance, where it is not the default and must be named.

    Examples
    --------
    >>> status_of(-1000.0, -1000.0, 1e-6), status_of(-1000.0, -1004.2, 1e-6)
    ('certified', 'gap ≤ 0.42 % (4.2 nats)')
    >>> status_of(-1000.0, -1500.0, 1e-6)
    'no proof'
    """
    missing = objective - lower_bound
    if missing <= tolerance:
        return "certified" if named is None else f"certified (tolerance {named:.3g})"
    gap = gap_of(objective, lower_bound, tolerance)
    if not gap <= NO_PROOF:
        return "no proof"
    return f"gap ≤ {percent(gap)} ({nats(missing)})"


def percent(share: float) -> str:
    """Return a share as a percentage, rounded up."""
    return f"{_rounded_up(100.0 * share)} %"


def nats(missing: float) -> str:
    """Return a difference of objectives, rounded up."""
    return f"{_rounded_up(missing)} nats"


def _rounded_up(value: float) -> str:
    """Return a number with two digits, or all before the point."""
    if value <= 0:
        return "0"
    digits = max(0, 1 - math.floor(math.log10(value)))
    if digits > 12:
        return f"{value:.1e}"
    scaled = value * 10**digits
    shown = math.ceil(scaled - 1e-9) / 10**digits
    return f"{shown:,.{digits}f}"
