"""Each claim of the paper, and each target of our own, as one named check over the results.

A new claim is one function with the decorator `claim`, in `paper` (Sections 4 and 5),
`appendix` (Appendix E) or `theorem_and_targets` (Theorem 1, and what is beyond the paper).
"""

from __future__ import annotations

from dataclasses import dataclass

from nodeproof.paper.experiments.claims import appendix, paper, theorem_and_targets
from nodeproof.paper.experiments.claims.checks import (
    CLAIMS,
    Claim,
    Finding,
    Look,
    NotRunError,
    claim,
)
from nodeproof.paper.experiments.methods import METHODS
from nodeproof.paper.experiments.results import Results

__all__ = [
    "CLAIMS",
    "Claim",
    "Finding",
    "Look",
    "Verdict",
    "appendix",
    "check",
    "claim",
    "paper",
    "theorem_and_targets",
]


@dataclass(frozen=True)
class Verdict:
    """The verdict on one claim for one solver.

    Attributes
    ----------
    name, claim, where, criterion : str
        As in `Claim`; ``claim`` is its text.
    solver : str
        The solver, as in legends.
    holds : bool or None
        None if what the check needs was not run.
    by : str
        The figures behind it, or what was not run.
    exceptions : tuple of str
        Every grid point where it does not hold, for claims about all of them.
    """

    name: str
    claim: str
    where: str
    criterion: str
    solver: str
    holds: bool | None
    by: str
    exceptions: tuple[str, ...] = ()


def check(results: Results) -> list[Verdict]:
    """Check every claim, for each solver it is about.

    Parameters
    ----------
    results : Results
        Any panels, on any grid; a claim about what was not run is left open.

    Returns
    -------
    list of Verdict
        In the order of `CLAIMS`, and of the solvers of each.

    Examples
    --------
    >>> from nodeproof.paper.experiments import Results
    >>> from nodeproof.paper.experiments.claims import check
    >>> verdicts = check(Results([], {}, seeds=10))
    >>> verdicts[0].holds, verdicts[0].by
    (None, 'None of its panels was run: p, omega, labels.')
    """
    return [_judge(entry, solver, results) for entry in CLAIMS.values() for solver in entry.solvers]


def _judge(entry: Claim, solver: str, results: Results) -> Verdict:
    holds: bool | None = None
    exceptions: tuple[str, ...] = ()
    if not any(panel in results.panels for panel in entry.panels):
        by = f"None of its panels was run: {', '.join(entry.panels)}."
    else:
        try:
            found = entry.check(Look(results, solver))
            holds, by, exceptions = found.holds, found.by, found.exceptions
        except NotRunError as missing:
            by = f"Not run: {missing}."
    title = METHODS[solver].title
    return Verdict(
        entry.name, entry.text, entry.where, entry.criterion, title, holds, by, exceptions
    )
