"""JSON for machines: one document, by the standard, and nothing else."""

from __future__ import annotations

import json
import math
from typing import Any

__all__ = ["as_text", "print_document"]


def print_document(document: Any) -> None:
    """Print a document to the standard output."""
    print(as_text(document, ascii_only=True), end="")


def as_text(document: Any, *, ascii_only: bool = False) -> str:
    r"""Return a document as JSON; numbers that are none are null, which the standard has.

    Examples
    --------
    >>> as_text({"gap": float("inf"), "moved": [1]})
    '{\n  "gap": null,\n  "moved": [\n    1\n  ]\n}\n'
    """
    return json.dumps(_plain(document), indent=2, ensure_ascii=ascii_only, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {name: _plain(found) for name, found in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
