"""What commands share: consoles, a progress line, notes instead of Python warnings."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar, Self

from rich.console import Console
from rich.status import Status
from rich.text import Text

from nodeproof.solvers import Progress
from nodeproof.solvers.needs import Needs

__all__ = [
    "LiveLine",
    "ProgressLine",
    "StageLine",
    "errors",
    "note",
    "notes_from_warnings",
    "screen",
]

#: results go to the standard output, everything else to the standard error stream; what looks
#: like markup or an emoji's code is part of a name or a path, and shown as it is
screen = Console(markup=False, emoji=False)
errors = Console(stderr=True, markup=False, emoji=False)

# Work that ends sooner needs no progress line.
_PATIENCE = 2.0

# What a fit needs is said from so many bytes or seconds on.
_MUCH_MEMORY, _MUCH_TIME = 2**30, 20.0


def note(text: str) -> None:
    """Print one line about the data or the fit."""
    errors.print(Text("note:", style="dim"), text, soft_wrap=True)


@contextmanager
def notes_from_warnings(collected: list[str]) -> Iterator[None]:
    """Collect the texts of warnings raised inside, each once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield
        finally:
            for warning in caught:
                if str(warning.message) not in collected:
                    collected.append(str(warning.message))


class LiveLine:
    """A live line on the terminal, once the work takes longer than two seconds."""

    def __init__(self, enabled: bool) -> None:
        self.enabled = enabled
        self.began = time.monotonic()
        self.line: Status | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.line is not None:
            self.line.stop()

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self.began

    def show(self, text: str) -> None:
        """Put this on the line."""
        if not self.enabled or self.seconds < _PATIENCE:
            return
        shown = Text(text)  # a string would be read as markup
        if self.line is None:
            self.line = errors.status(shown)
            self.line.start()
        self.line.update(shown)


class ProgressLine(LiveLine):
    """A solver's callback: shows how far it is, and stops it when its time is spent.

    Parameters
    ----------
    enabled : bool
        Whether anything is shown.
    budget : float, optional
        Seconds.
    """

    def __init__(self, enabled: bool, budget: float | None = None) -> None:
        super().__init__(enabled)
        self.budget, self.spent = budget, False

    def announce(self, needs: Needs) -> None:
        """Say what a fit needs, unless that is little."""
        if self.enabled and (needs.memory >= _MUCH_MEMORY or needs.seconds >= _MUCH_TIME):
            note(f"the fit {needs}")

    def __call__(self, progress: Progress) -> bool:
        """Show how far the solver is; tell it to stop when the time is spent."""
        self.show(
            f"start {progress.run} of {progress.n_runs}, sweep {progress.iteration}, "
            f"rows change by {progress.change:.1e} ({self.seconds:.0f} s; Ctrl-C stops and writes)"
        )
        self.spent = self.budget is not None and self.seconds >= self.budget
        return self.spent


class StageLine(LiveLine):
    """Shows how far a conversion of links, or a check of what it wrote, is."""

    stages: ClassVar[dict[str, str]] = {
        "columns": "looking at columns",
        "ids": "collecting ids",
        "links": "sorting links",
        "rows": "writing rows",
    }

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Show how much of a stage is done."""
        share = done / total if total else 1.0
        self.show(
            f"{self.stages.get(stage, f'checking {stage}')}: {share:.0%} ({self.seconds:.0f} s; "
            "after Ctrl-C the same command goes on)"
        )
