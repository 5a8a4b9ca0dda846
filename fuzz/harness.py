"""What the targets share: how a run is set up, and which ends of a call are findings."""

from __future__ import annotations

import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterable
from hashlib import sha256
from pathlib import Path

import atheris

_SOURCE = Path(__file__).parent.parent / "src"

# Loops that numba compiles cannot be instrumented.
_COMPILED = [
    ".".join(file.relative_to(_SOURCE).with_suffix("").parts)
    for file in _SOURCE.rglob("*.py")
    if "njit" in file.read_text()
]

with atheris.instrument_imports(include=["nodeproof"], exclude=_COMPILED):
    import nodeproof
    import nodeproof.certificate
    import nodeproof.datasets
    import nodeproof.errors
    import nodeproof.saving.model
    import nodeproof.solvers.checkpoint
    import nodeproof.storage.graph_folder
    import nodeproof.tables.new_nodes

InputError = nodeproof.errors.InputError
MissingExtraError = nodeproof.errors.MissingExtraError

# With this set, findings are written there, one for each place, and the run goes on.
_FINDINGS = os.environ.get("FUZZ_FINDINGS")

# Seconds that a call may take once all that it needs is compiled.
_PATIENCE = 20.0

# Seconds that one call may take, bytes of an input, and no slow growth towards them.
_OPTIONS = {"timeout": 300, "max_len": 4096, "len_control": 0}


def is_documented(error: Exception) -> bool:
    """Tell whether this is an error that the documentation speaks of."""
    return isinstance(error, InputError | MissingExtraError) and bool(str(error))


def run(target: Callable[[bytes], None], name: str, seeds: Iterable[bytes] = ()) -> None:
    """Fuzz one function of bytes, with libFuzzer's options from the command line.

    Parameters
    ----------
    seeds : iterable of bytes
        Inputs to begin with.
    """
    corpus = Path(__file__).parent.parent / "build" / "fuzz" / name
    corpus.mkdir(parents=True, exist_ok=True)
    for seed in seeds:
        (corpus / f"seed-{sha256(seed).hexdigest()[:16]}").write_bytes(seed)
    given = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
    arguments = [*sys.argv, *([] if given else [str(corpus)])]
    if not any(argument.startswith("-artifact_prefix") for argument in arguments):
        arguments.append(f"-artifact_prefix={corpus.parent}/{name}-")
    for option, value in _OPTIONS.items():
        if not any(argument.startswith(f"-{option}=") for argument in arguments):
            arguments.append(f"-{option}={value}")

    def call(data: bytes) -> None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                warnings.filterwarnings("error", category=RuntimeWarning, module="nodeproof")
                began = time.process_time()
                target(data)
                if time.process_time() - began > _PATIENCE:
                    began = time.process_time()
                    target(data)
                    assert time.process_time() - began < _PATIENCE, "this takes too long"
        except Exception as error:
            if _FINDINGS is None:
                raise
            _write_down(error, data, name)

    atheris.Setup(arguments, call)
    atheris.Fuzz()


def _write_down(error: Exception, data: bytes, name: str) -> None:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "nodeproof" in f.filename]
    frames = frames or list(traceback.extract_tb(error.__traceback__))[-1:]
    place = f"{type(error).__name__} {frames[-1].filename}:{frames[-1].lineno}"
    if isinstance(error, AssertionError):
        place += f" {str(error)[:30]}"
    file = Path(str(_FINDINGS)) / f"{name}-{sha256(place.encode()).hexdigest()[:12]}"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        text = "".join(traceback.format_exception(error))
        file.with_name(file.name + ".txt").write_text(f"{place}\n{text}")


__all__ = ["is_documented", "nodeproof", "run"]
