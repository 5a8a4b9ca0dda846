"""Numbers as people write them."""

from __future__ import annotations

import numpy as np

__all__ = ["number"]


def number(value: float) -> str:
    """Return a number as people write it: three digits, and never −0.

    Examples
    --------
    >>> from nodeproof.paper.theory.wording import number
    >>> number(0.12345), number(12345.6), number(-0.0), number(-0.5)
    ('0.123', '12,346', '0', '−0.5')
    """
    if not np.isfinite(value):
        return "−∞" if value < 0 else "∞"
    size = abs(float(value))
    text = f"{size:,.0f}" if size >= 1000 else f"{size:.3g}"
    return f"−{text}" if value < 0 and float(text.replace(",", "")) else text
