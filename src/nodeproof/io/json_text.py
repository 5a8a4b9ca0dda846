"""JSON from files that may hold anything."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["parse_object"]


def parse_object(data: bytes, most: int) -> dict[str, Any]:
    """Return the JSON object in UTF-8 that these bytes are.

    Parameters
    ----------
    data : bytes
        The text.
    most : int
        Longer ones are refused.

    Raises
    ------
    ValueError
        If it is anything else, too long or too deep, or names an entry twice.

    Examples
    --------
    >>> parse_object(b'{"n": 3}', most=100)
    {'n': 3}
    """
    if len(data) > most:
        raise ValueError(f"its header has {len(data):,} bytes")
    try:
        found = json.loads(data.decode(), object_pairs_hook=_once)
    except RecursionError:
        raise ValueError("its header is nested too deeply") from None
    except UnicodeDecodeError:
        raise ValueError("its header is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"its header is not JSON ({error})") from None
    if not isinstance(found, dict):
        raise ValueError("its header is no JSON object")
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("its header names an entry twice")
    return found
