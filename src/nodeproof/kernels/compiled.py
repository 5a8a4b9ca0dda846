"""Whether the loops have been compiled on this machine before."""

import os
from pathlib import Path

__all__ = ["is_compiled"]


def is_compiled() -> bool:
    """Tell whether there is a compiled sweep from an earlier process; of which version is open."""
    folder = Path(os.environ.get("NUMBA_CACHE_DIR") or Path(__file__).parent / "__pycache__")
    return next(folder.rglob("rows.sweep_batches*.nbi"), None) is not None
