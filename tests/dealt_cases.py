"""Cases of parametrised tests, dealt out among runs that differ in the CPU alone.

With ``--deal 1/2`` and ``--deal 2/2`` every test is run twice, but each case of a test with several
is run once: `make test` has run all of them, and another CPU is about the test, not about the case.
In the contracts the cases are what is tested, so none of them is left out.
"""

from __future__ import annotations

from collections import defaultdict
from zlib import crc32

import pytest


def deal(items: list[pytest.Item], hand: int, hands: int) -> tuple[list[pytest.Item], set[str]]:
    """Return the tests of one hand (from 1), in their order, and the names of the others."""
    tests = defaultdict(list)
    for item in items:
        if "contracts" not in item.path.parts:
            tests[item.nodeid.split("[")[0]].append(item.nodeid)
    others = set()
    for test, cases in tests.items():
        # Not every test begins with the first hand: of a class of cases, each hand gets some.
        first = hand - 1 + crc32(test.encode())
        if len(cases) >= hands:
            others |= {case for k, case in enumerate(cases) if (k - first) % hands}
    return [item for item in items if item.nodeid not in others], others


def as_hand(text: str) -> tuple[int, int]:
    """Read ``1/2``."""
    hand, _, hands = text.partition("/")
    if not (hand.isdecimal() and hands.isdecimal() and 0 < int(hand) <= int(hands)):
        raise pytest.UsageError(f"--deal must be HAND/HANDS, such as 1/2, got {text!r}")
    return int(hand), int(hands)
