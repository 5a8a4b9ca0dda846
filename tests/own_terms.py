"""The terms of docs/extend.md, from the files that the page shows."""

import sys
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "examples/terms"
sys.path.insert(0, str(FOLDER))

from regression import Regression  # noqa: E402
from visits import Visits  # noqa: E402

__all__ = ["FOLDER", "Regression", "Visits"]
