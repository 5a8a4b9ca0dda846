"""How choices are told."""

from typing import Any

__all__ = ["Choices"]

#: by what was chosen: its value and why
Choices = dict[str, dict[str, Any]]
