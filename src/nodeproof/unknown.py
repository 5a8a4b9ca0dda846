"""What stands for "no label" where labels are text, or numbers of a type that has no −1."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodeproof.errors import InputError

__all__ = ["NO_LABEL", "UNKNOWN", "Unknown", "refuse_wrapped"]

#: texts that are never the name of a class, in arrays and in files: numpy and pandas write −1 and
#: NaN so where they make text of them
NO_LABEL = ("", "-1", "-1.0", "nan")

# Marks that programs write where they know nothing, and words that people do, in lower case.
_MARKS = (*NO_LABEL, "?", "#n/a", "<na>", "nat")
_WORDS = ("na", "n/a", "none", "null", "unassigned", "unknown", "unlabeled", "unlabelled")

#: what stands for no label in files, in whichever case
UNKNOWN = (*_MARKS, *_WORDS)


@dataclass(frozen=True)
class Unknown:
    """Texts that mean that there is no label; ``text in unknown`` tells.

    Attributes
    ----------
    tokens : frozenset of str, or None
        What the user says, exactly; None for `UNKNOWN`, in whichever case.
    """

    tokens: frozenset[str] | None = None

    @classmethod
    def of(cls, given: Collection[str] | None) -> Unknown:
        """Return what a user says, or the default; nothing at all never is a label.

        Examples
        --------
        >>> "None" in Unknown.of(None), "None" in Unknown.of("?"), "?" in Unknown.of(["?", "x"])
        (True, False, True)
        """
        if given is None:
            return cls()
        return cls(frozenset(["", given] if isinstance(given, str) else ["", *given]))

    def __contains__(self, text: object) -> bool:
        return str(text).lower() in UNKNOWN if self.tokens is None else text in self.tokens

    def is_doubtful(self, text: str) -> bool:
        """Tell whether a text is taken for no label although it may well name a class."""
        return self.tokens is None and text.lower() in _WORDS


def refuse_wrapped(values: NDArray[Any], nodes: NDArray[np.intp]) -> None:
    """Refuse the largest label of an unsigned type, which −1 becomes there.

    Parameters
    ----------
    values : ndarray of shape (known,)
        Labels.
    nodes : ndarray of shape (known,)
        Whose they are.
    """
    if values.dtype.kind != "u":
        return
    largest = np.iinfo(values.dtype).max
    if (values == largest).any():
        raise InputError(
            f"the label of node {nodes[(values == largest).argmax()]} is {largest}, which is what "
            f"-1 becomes in {values.dtype}: where it means unknown give "
            f"np.where(y == {largest}, -1, y.astype(int)), where it names a class y.astype(int)"
        )
