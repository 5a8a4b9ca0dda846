"""Whether there is room for what is about to be made."""

from __future__ import annotations

from nodeproof.errors import InputError

__all__ = ["check_free"]


def check_free(n_bytes: float, what: str, advice: str) -> None:
    """Refuse what would take more memory than there is, before any of it is taken.

    Parameters
    ----------
    n_bytes : float
        How much it would take.
    what, advice : str
        What takes it, and what to do instead.
    """
    from nodeproof.io.memory import available_memory, size_text

    free = available_memory()
    if n_bytes > free:
        raise InputError(
            f"{what} would take about {size_text(n_bytes)} of memory, and {size_text(free)} are "
            f"free: {advice}"
        )
