"""Each claim of the paper, and each target of our own, as one named check over the results.

A new claim is one function with the decorator `claim`, in `paper` (Sections 4 and 5),
`appendix` (Appendix E) or `theorem_and_targets` (Theorem 1, and what is beyond the paper).
"""

from __future__ import annotations

from collections.abc import Iterable
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
from nodeproof.paper.experiments.methods import METHODS, READINGS
from nodeproof.paper.experiments.results import Results

__all__ = [
    "CLAIMS",
    "Claim",
    "Finding",
    "Look",
    "Verdict",
    "appendix",
    "as_published",
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
    method : str
        The same, as a name in `METHODS`.
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
    method: str
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
        entry.name, entry.text, entry.where, entry.criterion, title, solver, holds, by, exceptions
    )


def as_published(verdicts: Iterable[Verdict]) -> tuple[bool | None, list[Verdict]]:
    """Judge one claim for CADO as published, in the most charitable reading of the text.

    Parameters
    ----------
    verdicts : iterable of Verdict
        All of one claim.

    Returns
    -------
    holds : bool or None
        Whether it holds for one of the `READINGS` at least; None if none was run.
    readings : list of Verdict
        The readings that it holds for.
    """
    judged = [v for v in verdicts if v.method in READINGS and v.holds is not None]
    holding = [verdict for verdict in judged if verdict.holds]
    return (bool(holding) if judged else None), holding
