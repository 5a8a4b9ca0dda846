"""The one validator of files that may hold anything: JSON and the layout of arrays.

Saved models, checkpoints, certificates and half-done conversions are read in the same three steps:

1. `parse_object` makes a dictionary of bytes, and refuses what is not JSON, too long or too deep.
2. `check_entries` compares it with a schema: a mapping from the name of each entry to a `Check`, a
   function that tells whether a value may stand there. `number`, `count`, `text` and others are
   checks; `or_none`, `list_of`, `entries` and others make new ones out of them.
3. `check_layout` compares the headers of arrays, before any is read, with the kinds and shapes that
   `Expected` gives, and makes sure that the shapes agree with each other.

Whatever is wrong is a ValueError that names the entry or the array; who reads the file adds its
name, and what to do.
"""

from __future__ import annotations

import json
import re
import reprlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from nodeproof.storage.npz import Header

__all__ = [
    "Check",
    "Expected",
    "any_number",
    "anything",
    "as_plain",
    "boolean",
    "check_entries",
    "check_layout",
    "checksum",
    "count",
    "dict_of",
    "either",
    "entries",
    "flag",
    "list_of",
    "number",
    "one_of",
    "or_none",
    "parse_object",
    "plain",
    "shown",
    "text",
    "whole",
]

#: tells whether a value of JSON is what it should be; never raises
Check = Callable[[Any], bool]

_HUGE = 1e308


def parse_object(data: bytes, most: int, what: str = "its header") -> dict[str, Any]:
    """Return the JSON object in UTF-8 that these bytes are.

    Parameters
    ----------
    data : bytes
        The text.
    most : int
        Longer ones are refused.
    what : str
        What to call it in messages.

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
        raise ValueError(f"{what} has {len(data):,} bytes")

    def no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise ValueError(f"{what} names an entry twice")
        return found

    try:
        found = json.loads(data.decode(), object_pairs_hook=no_repeats)
    except RecursionError:
        raise ValueError(f"{what} is nested too deeply") from None
    except UnicodeDecodeError:
        raise ValueError(f"{what} is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{what} is not JSON ({error})") from None
    if not isinstance(found, dict):
        raise ValueError(f"{what} is no JSON object")
    return found


def check_entries(
    found: Mapping[str, Any],
    checks: Mapping[str, Check],
    optional: Collection[str] = (),
    what: str = "its header",
) -> None:
    """Refuse a dictionary whose entries are unknown, of another kind or missing.

    Parameters
    ----------
    found : mapping of str
        What was read.
    checks : mapping of str to Check
        What may stand under each name.
    optional : collection of str
        Names that may be missing.
    what : str
        What to call it in messages.

    Raises
    ------
    ValueError
        That names the first entry that is wrong.

    Examples
    --------
    >>> check_entries({"n": 3}, {"n": count, "name": text}, optional=["name"])
    >>> check_entries({"n": "3"}, {"n": count})
    Traceback (most recent call last):
    ValueError: n in its header is '3'
    """
    for name, value in found.items():
        if name not in checks:
            raise ValueError(f"{what} has an entry {shown(name)}, which is unknown")
        if not checks[name](value):
            raise ValueError(f"{name} in {what} is {shown(value)}")
    for name in checks:
        if name not in found and name not in optional:
            raise ValueError(f"{what} has no entry {name}")


def shown(value: Any) -> str:
    """Return a value for a message: on one line, cut where it is long."""
    whole_text = reprlib.repr(value)
    return whole_text if len(whole_text) <= 80 else f"{whole_text[:77]}..."


def number(value: Any) -> bool:
    """Tell whether a value of JSON is a finite number."""
    # Integers may have any length; NaN is neither.
    return type(value) in (int, float) and -_HUGE < value < _HUGE


def any_number(value: Any) -> bool:
    """Tell whether a value of JSON is a number, infinite ones and NaN included."""
    return type(value) is float or number(value)


def whole(value: Any) -> bool:
    """Tell whether a value of JSON is a whole number ≥ 0, be it written as 3 or 3.0."""
    return number(value) and value == int(value) and 0 <= value < 2**62


def count(value: Any) -> bool:
    """Tell whether a value of JSON is an integer ≥ 0, written as one, that an index can hold."""
    return type(value) is int and 0 <= value < 2**62


def boolean(value: Any) -> bool:
    """Tell whether a value of JSON is true or false."""
    return type(value) is bool


def flag(value: Any) -> bool:
    """Tell whether a value of JSON is true or false, perhaps written as 1 or 0."""
    return type(value) is bool or (type(value) is int and value in (0, 1))


def text(value: Any) -> bool:
    """Tell whether a value of JSON is text."""
    return type(value) is str


def checksum(value: Any) -> bool:
    """Tell whether a value of JSON can be the CRC-32 of a file, as eight hexadecimal digits."""
    return type(value) is str and re.fullmatch("[0-9a-f]{8}", value) is not None


def anything(value: Any) -> bool:
    """Accept any value."""
    return True


def one_of(*words: str) -> Check:
    """Return a check for one of these words."""
    return lambda value: type(value) is str and value in words


def either(*checks: Check) -> Check:
    """Return a check that holds where any of these does."""
    return lambda value: any(check(value) for check in checks)


def or_none(check: Check) -> Check:
    """Return a check that also accepts null."""
    return lambda value: value is None or check(value)


def list_of(check: Check, most: int | None = None) -> Check:
    """Return a check for a list whose items pass, with at most so many of them."""
    return lambda value: (
        type(value) is list and (most is None or len(value) <= most) and all(map(check, value))
    )


def plain(value: Any) -> bool:
    """Tell whether a value of JSON is null, true, false, a number or text, or lists of such."""
    return _scalar(value) or list_of(either(_scalar, list_of(_scalar)))(value)


def as_plain(value: Any) -> Any:
    """Return numbers, text, flags, None, arrays and lists of such as JSON can hold them.

    Raises
    ------
    TypeError
        If it is anything else.
    """
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufU":
        return value.tolist()
    if isinstance(value, list | tuple):
        return [as_plain(item) for item in value]
    raise TypeError(f"{value!r} is neither a number nor text")


def _scalar(value: Any) -> bool:
    return value is None or flag(value) or number(value) or text(value)


def dict_of(check: Check) -> Check:
    """Return a check for an object whose values pass, whatever their names."""
    return lambda value: type(value) is dict and all(map(check, value.values()))


def entries(checks: Mapping[str, Check], optional: tuple[str, ...] = ()) -> Check:
    """Return a check for an object with these entries and no others, some of them optional."""

    def holds(value: Any) -> bool:
        return (
            type(value) is dict
            and set(checks) - set(optional) <= set(value) <= set(checks)
            and all(checks[name](found) for name, found in value.items())
        )

    return holds


@dataclass(frozen=True)
class Expected:
    """What an array must look like.

    Attributes
    ----------
    kinds : str
        Kinds of numpy types that it may have: "f", "iu", …
    shapes : str
        Shapes that it may have, such as ``"n K"`` or, one or the other, ``"n | 0"``. A side is a
        number, a letter that stands for the same number everywhere, perhaps with a number added
        (``"n+1"``), or ``"*"`` for any.
    required : bool
        Whether it must be there.
    infinite : bool
        Whether its numbers may be infinite.
    """

    kinds: str
    shapes: str
    required: bool = False
    infinite: bool = False


def check_layout(
    headers: Mapping[str, Header], layout: Mapping[str, Expected], **sizes: int
) -> dict[str, int]:
    """Return what the letters in shapes stand for; refuse arrays that do not fit together.

    Parameters
    ----------
    headers : mapping of str to Header
        Of the arrays there are.
    layout : mapping of str to Expected
        By name, or by a regular expression that names must match as a whole; ``{0}`` in shapes is
        its first group. Earlier entries settle letters for later ones.
    **sizes : int
        Letters that are settled already.

    Raises
    ------
    ValueError
        That names the array, and what was expected of it.

    Examples
    --------
    >>> import numpy as np
    >>> headers = {"rows": Header((5, 2), np.dtype(float), 128)}
    >>> check_layout(headers, {"rows": Expected("f", "n K")})
    {'n': 5, 'K': 2}
    """
    unknown = set(headers)
    for pattern, expected in layout.items():
        matches = {name: re.fullmatch(pattern, name) for name in headers}
        found = {name: match for name, match in matches.items() if match}
        if expected.required and not found:
            raise ValueError(f"it has no array {pattern}")
        for name, match in found.items():
            unknown.discard(name)
            _check(name, headers[name], expected, expected.shapes.format(*match.groups()), sizes)
    if unknown:
        raise ValueError(f"it holds an array {min(unknown)[:60]!r} that has no place in it")
    return sizes


def _check(
    name: str, header: Header, expected: Expected, shapes: str, sizes: dict[str, int]
) -> None:
    if header.dtype.kind not in expected.kinds:
        raise ValueError(f"{name} holds {header.dtype}")
    for sides in shapes.split("|"):
        settled = _settle(sides.split(), header.shape, sizes)
        if settled is not None:
            sizes.update(settled)
            return
    known = ", ".join(f"{letter} = {size}" for letter, size in sizes.items() if letter in shapes)
    wanted = " or ".join(f"({', '.join(sides.split())})" for sides in shapes.split("|"))
    raise ValueError(
        f"{name} has the shape {header.shape}, not {wanted}" + (f" with {known}" if known else "")
    )


def _settle(
    sides: list[str], shape: tuple[int, ...], sizes: dict[str, int]
) -> dict[str, int] | None:
    """Return the letters that this shape settles, or None where it does not fit."""
    if len(sides) != len(shape):
        return None
    settled: dict[str, int] = {}
    for side, size in zip(sides, shape, strict=True):
        letter, _, more = side.partition("+")
        rest = size - int(more or 0)
        if side == "*":
            continue
        wanted = int(side) if side.isdigit() else settled.get(letter, sizes.get(letter))
        if wanted is None:
            settled[letter] = wanted = rest
        if wanted != rest or rest < 0:
            return None
    return settled
