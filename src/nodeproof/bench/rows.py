"""One row of the tables, and how its figures are written."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["OWN", "Row", "in_units", "power_of_ten"]

#: the name of nodeproof among the methods
OWN = "nodeproof"


@dataclass(frozen=True)
class Row:
    """The figures of one method at one size; seconds unless said.

    Attributes
    ----------
    method, sources : str
        What was fitted to which sources.
    links, nodes : int
        Size of the graph.
    on_disk : bool
        Whether the graph stayed on disk.
    seconds : float or None
        The whole fit; None where it failed or was not run.
    product, index_pass : float or None
        One ``A @ M`` (float32, n×10) and one pass over the indices, in the same process.
    sweep : float or None
        The median sweep.
    fit_per_product, fit_per_pass, sweep_per_product, sweep_per_pass : float or None
        Ratios.
    sweep_per_link : float or None
        Nanoseconds.
    sweeps, starts : int or None
        How many sweeps the best start took, and how many starts there were.
    chosen : str
        What the fit chose on the way: at some sizes it does more than at others.
    accuracy, hidden, genie : float or None
        At all nodes, at those without a label, and the best possible at these.
    peak_mb, memory : float or None
        Peak anonymous memory above that before, and as a ratio to graph, features and W (where
        these have 16 MB or more: below, what the process does beside counts as much).
    compiled : float or None
        A first fit on a small graph, which is not counted.
    note : str
        What a reader has to know.
    """

    method: str
    sources: str
    links: int | None
    nodes: int | None = None
    on_disk: bool = False
    seconds: float | None = None
    product: float | None = None
    index_pass: float | None = None
    sweep: float | None = None
    fit_per_product: float | None = None
    fit_per_pass: float | None = None
    sweep_per_product: float | None = None
    sweep_per_pass: float | None = None
    sweep_per_link: float | None = None
    sweeps: int | None = None
    starts: int | None = None
    chosen: str = ""
    accuracy: float | None = None
    hidden: float | None = None
    genie: float | None = None
    peak_mb: float | None = None
    memory: float | None = None
    compiled: float | None = None
    note: str = ""

    @property
    def title(self) -> str:
        """The method, and that its time is extrapolated where it is."""
        return f"{self.method} (extrapolated)" if "extrapolated" in self.note else self.method


def in_units(seconds: float) -> str:
    """Write a time with two or three digits and its unit.

    Examples
    --------
    >>> from nodeproof.bench.rows import in_units
    >>> in_units(0.0000125), in_units(0.5), in_units(0.04), in_units(312.4)
    ('12 µs', '0.50 s', '40 ms', '312 s')
    """
    value, unit = seconds, "s"
    if seconds < 0.1:
        value, unit = (1e3 * seconds, "ms") if seconds >= 1e-4 else (1e6 * seconds, "µs")
    digits = 0 if value >= 10 else 1 if value >= 1 else 2
    return f"{value:.{digits}f} {unit}"


def power_of_ten(number: float) -> str:
    """Write a large number as a power of ten.

    Examples
    --------
    >>> from nodeproof.bench.rows import power_of_ten
    >>> power_of_ten(1e6), power_of_ten(2e8), power_of_ten(12_500)
    ('10⁶', '2·10⁸', '1.25·10⁴')
    """
    mantissa, power = f"{number:e}".split("e")
    digits = str(int(power)).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
    factor = f"{float(mantissa):g}"
    return f"10{digits}" if factor == "1" else f"{factor}·10{digits}"
