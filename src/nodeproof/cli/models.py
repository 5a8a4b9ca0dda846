"""Where the model that a command is given lies."""

from __future__ import annotations

from pathlib import Path

from nodeproof.errors import InputError

__all__ = ["find_model"]


def find_model(model: Path) -> Path:
    """Return the file of a model: the one given, or that of the folder given."""
    file = model / "model.npz" if model.is_dir() else model
    if not file.is_file():
        raise InputError(f"there is no model {file}; give the folder that `nodeproof fit` wrote")
    return file
