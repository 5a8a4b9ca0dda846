"""Consoles, progress lines, and notes in place of Python warnings."""

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

#: results go to standard output, everything else to standard error; what looks like markup or an
#: emoji code is part of a name or a path, and is shown as it is
screen = Console(markup=False, emoji=False)
errors = Console(stderr=True, markup=False, emoji=False)

# Work that ends sooner needs no progress line.
_PATIENCE = 2.0

# Needs of a fit are announced from this many bytes or seconds on.
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
    """A live line on the terminal, shown once the work takes longer than two seconds."""

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
        """Seconds since the start."""
        return time.monotonic() - self.began

    def show(self, text: str) -> None:
        """Show a text on the line."""
        if not self.enabled or self.seconds < _PATIENCE:
            return
        shown = Text(text)  # a string would be read as markup
        if self.line is None:
            self.line = errors.status(shown)
            self.line.start()
        self.line.update(shown)


class ProgressLine(LiveLine):
    """A solver's callback: shows its progress, and stops it when the time budget is spent.

    Parameters
    ----------
    enabled : bool
        Whether anything is shown.
    budget : float, optional
        Time budget in seconds.
    """

    def __init__(self, enabled: bool, budget: float | None = None) -> None:
        super().__init__(enabled)
        self.budget, self.spent = budget, False

    def announce(self, needs: Needs) -> None:
        """Announce what a fit needs, if it is a lot."""
        if self.enabled and (needs.memory >= _MUCH_MEMORY or needs.seconds >= _MUCH_TIME):
            note(f"the fit {needs}")

    def __call__(self, progress: Progress) -> bool:
        """Show the solver's progress; return True, to stop it, once the time is spent."""
        self.show(
            f"start {progress.run} of {progress.n_runs}, sweep {progress.iteration}, "
            f"mean change {progress.change:.1e} ({self.seconds:.0f} s; Ctrl-C stops and saves)"
        )
        self.spent = self.budget is not None and self.seconds >= self.budget
        return self.spent


class StageLine(LiveLine):
    """Shows the progress of a conversion of links, or of its verification."""

    stages: ClassVar[dict[str, str]] = {
        "columns": "inspecting columns",
        "ids": "collecting ids",
        "links": "sorting links",
        "rows": "writing rows",
    }

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Show the progress of a stage."""
        share = done / total if total else 1.0
        self.show(
            f"{self.stages.get(stage, f'checking {stage}')}: {share:.0%} ({self.seconds:.0f} s; "
            "after Ctrl-C the same command resumes)"
        )
