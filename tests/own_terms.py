"""The terms and the solver of docs/extend.md, from the files that the page shows; and yours.

``pytest --term package.module:Name`` runs the contract of terms on a term of your own.
"""

import sys
from pathlib import Path

import pytest

from nodeproof.terms import Term
from nodeproof.terms.registry import import_term

FOLDER = Path(__file__).parents[1] / "examples/terms"
sys.path[:0] = [str(FOLDER), str(FOLDER.parent / "solvers")]

from mean_field import MeanField  # noqa: E402
from visits import Visits  # noqa: E402
from waits import Waits  # noqa: E402

__all__ = ["FOLDER", "MeanField", "Visits", "Waits", "given_terms"]


def given_terms(config: pytest.Config) -> list[Term]:
    """Return the terms that the command line names; none where it does not."""
    return [import_term(place)() for place in config.getoption("--term")]
