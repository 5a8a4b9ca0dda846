"""Whether the loops are compiled, and have been on this machine before."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba.core import config
from numba.extending import intrinsic

__all__ = ["intrinsic_like", "is_compiled"]

# Whether nothing is compiled.
_PLAIN = bool(config.DISABLE_JIT)  # type: ignore[attr-defined]


def is_compiled() -> bool:
    """Tell whether a sweep from an earlier process is kept (of any version), or none is needed."""
    folder = Path(os.environ.get("NUMBA_CACHE_DIR") or Path(__file__).parent / "__pycache__")
    return _PLAIN or next(folder.rglob("rows.sweep_batches*.nbi"), None) is not None


def intrinsic_like(plain: Callable[..., Any]) -> Callable[[Callable[..., Any]], Any]:
    """Make an intrinsic of what is decorated; `plain` does the same in Python.

    It is used where nothing is compiled (``NUMBA_DISABLE_JIT=1``): kernels are then Python
    functions, for debuggers and coverage, and numba's intrinsics cannot be called.
    """
    return lambda typed: plain if _PLAIN else intrinsic(typed)
