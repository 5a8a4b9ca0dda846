"""Measurements in fresh processes: how they are started, their peak memory, and the machine."""

from __future__ import annotations

import ctypes
import gc
import importlib.metadata
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Self

from nodeproof.runtime.threads import serve
from nodeproof.storage.journal import Record

__all__ = ["PeakMemory", "Tell", "answer", "machine", "run_process", "versions"]

#: called now and then with a short text on the progress
Tell = Callable[[str], None]

#: packages whose versions a measurement depends on
PACKAGES = (
    "nodeproof", "numpy", "scipy", "scikit-learn", "numba", "pyarrow", "duckdb", "scikit-network",
    "lightgbm", "torch", "torch_geometric",
)  # fmt: skip

_STATUS = Path("/proc/self/status")

# Seconds between two looks at the memory.
_EVERY = 0.003


def run_process(
    module: str,
    order: dict[str, Any],
    *,
    threads: int,
    tell: Tell = lambda text: None,
    timeout: float | None = None,
) -> Record:
    """Run a module of this folder in a new process; return its record, or an error in one line.

    Parameters
    ----------
    module : str
        Its main part calls `answer`.
    order : dict
        What to measure, ready for JSON.
    threads : int
        Threads that numerical libraries may use.
    tell : callable
        Called with the process's news.
    timeout : float, optional
        Seconds after which the process is killed.
    """
    command = [sys.executable, "-m", module, json.dumps({**order, "parent": os.getpid()})]
    names = ("OMP", "MKL", "OPENBLAS", "NUMBA")
    settings = {f"{name}_NUM_THREADS": str(threads) for name in names}
    record: Record | None = None
    with (
        tempfile.TemporaryFile() as printed,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=printed, env={**os.environ, **settings},
            cwd=Path(__file__).parent,
        ) as process,
    ):  # fmt: skip
        late = threading.Event()
        timer = threading.Timer(timeout or 0.0, lambda: (late.set(), process.kill()))
        if timeout is not None:
            timer.start()
        assert process.stdout is not None
        try:
            for line in process.stdout:
                news = json.loads(line)
                record = news.get("record", record)
                if "news" in news:
                    tell(news["news"])
            code = process.wait()
        except BaseException:
            process.kill()
            raise
        finally:
            timer.cancel()
        if late.is_set():
            return {"error": f"took more than {timeout:.0f} s"}
        if code or record is None:
            printed.seek(0)
            return {"error": _reason(code, printed.read().decode(errors="replace"))}
    return record


def answer(measure: Callable[[dict[str, Any], Tell], Record]) -> None:
    """Measure what `run_process` has asked this process for.

    The standard output has one line of JSON per piece of news, the last of them the record; what
    libraries print goes to the standard error stream.
    """
    order = json.loads(sys.argv[1])
    serve(order.pop("parent"))
    with os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1) as news:
        os.dup2(2, 1)
        record = measure(order, lambda text: print(json.dumps({"news": text}), file=news))
        print(json.dumps({"record": record}), file=news)


def _reason(code: int, printed: str) -> str:
    if code < 0:
        name = signal.Signals(-code).name
        return f"ended by {name}" + (" (out of memory?)" if -code == signal.SIGKILL else "")
    lines = printed.strip().splitlines()
    return lines[-1] if lines else f"ended with code {code} and without a message"


class PeakMemory:
    """Samples the anonymous memory of this process every few milliseconds.

    The peak that the system records (VmHWM) would not do: it includes pages of files that are
    read or mapped, which can be dropped at any time.

    Attributes
    ----------
    peak : int or None
        Highest number of bytes above those at the start; None if the system has no /proc.
    """

    def __init__(self) -> None:
        self.peak: int | None = None
        self._highest = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        _return_freed_memory()
        self._start = anonymous_bytes()
        if self._start is not None:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._start is None:
            return
        self._done.set()
        self._thread.join()
        self._look()
        self.peak = max(self._highest - self._start, 0)

    def _watch(self) -> None:
        while not self._done.wait(_EVERY):
            self._look()

    def _look(self) -> None:
        self._highest = max(self._highest, anonymous_bytes() or 0)


def anonymous_bytes() -> int | None:
    """Return the anonymous memory of this process, or None if the system does not report it."""
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return None
    return next((1024 * int(line.split()[1]) for line in lines if "RssAnon:" in line), None)


def _return_freed_memory() -> None:
    """Return freed memory to the system: used again, it would not show.

    A compiler leaves tens of megabytes of it.
    """
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError, TypeError):
        return  # not the GNU C library


@cache
def machine() -> dict[str, Any]:
    """Return what the figures were measured with."""
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "memory_gb": _memory_gb(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    """Return the versions of the packages that are installed."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.machine()


def _memory_gb() -> float | None:
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
    return round(total / 1e9, 1)
