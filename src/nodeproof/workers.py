"""How a process that works for another one behaves."""

from __future__ import annotations

import os
import signal
import threading
import time
from functools import cache

__all__ = ["serve"]


@cache
def serve(parent: int) -> None:
    """Make this process a worker: Ctrl-C is for its parent, and it ends when that has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
