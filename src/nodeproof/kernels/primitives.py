"""What kernels are built from: compilation, prefetches, thread barriers, fast exponentials."""

import os
import time
from collections.abc import Callable
from threading import Lock
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils, config
from numba.extending import intrinsic

__all__ = [
    "AHEAD",
    "always_inlined",
    "barrier",
    "compiled",
    "exp_rows",
    "inlined",
    "intrinsic_like",
    "least_of",
    "prefetch",
]


# Whether nothing is compiled.
_PLAIN = bool(config.DISABLE_JIT)  # type: ignore[attr-defined]


# For what Python calls, and for what such functions call. Wrappers take a fifth of the time of
# compilation: neither is called by C, and the latter not by Python; they need no file of their own.
_OPTIONS: dict[str, Any] = {"nogil": True, "no_cfunc_wrapper": True, "error_model": "numpy"}
_jit: Any = njit
compiled = _jit(cache=True, **_OPTIONS)
inlined = _jit(no_cpython_wrapper=True, **_OPTIONS)
# For what is called for every node: LLVM would not inline it where there are several calls.
always_inlined = _jit(no_cpython_wrapper=True, forceinline=True, **_OPTIONS)


def intrinsic_like(plain: Callable[..., Any]) -> Callable[[Callable[..., Any]], Any]:
    """Make an intrinsic of what is decorated; `plain` does the same in Python.

    It is used where a kernel runs as Python: numba's intrinsics cannot be called. With
    ``NUMBA_DISABLE_JIT=1`` all kernels do, for debuggers and coverage.
    """

    def made(typed: Callable[..., Any]) -> Any:
        if _PLAIN:
            return plain
        found: Any = intrinsic(typed)
        found.py_func = plain
        return found

    return made


# Rows are read in random order, and waiting for them is most of a sweep. They are prefetched this
# many links ahead: 2.5 times faster on a graph of 10⁷ links than without.
AHEAD = 16


@intrinsic_like(lambda array, position: None)
def prefetch(typingctx, array, position):
    """Prefetch ``array[position]`` (one axis) into the cache; reads nothing."""

    def generate(context, builder, signature, arguments):
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        offset = context.cast(builder, arguments[1], signature.args[1], types.intp)
        byte_pointer, int32 = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte_pointer, int32, int32, int32])
        call = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        address = builder.bitcast(builder.gep(data, [offset]), byte_pointer)
        read, keep, from_data = int32(0), int32(3), int32(1)
        builder.call(call, [address, read, keep, from_data])
        return context.get_dummy_value()

    return types.void(array, position), generate


# Threads that wait for each other: Python's ways to wake a thread take a tenth of a millisecond or
# more, which is as long as a batch of a small sweep. Here all threads stay in their kernels
# and count.

# So often the counter is looked at before others are let in.
_PATIENCE = 2000


_counting = Lock()


def _count_up_plainly(counter):
    with _counting:
        counter[0] += 1


@intrinsic_like(_count_up_plainly)
def _count_up(typingctx, counter):
    """Add one to ``counter[0]``, whole."""

    def generate(context, builder, signature, arguments):
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        builder.atomic_rmw("add", data, ir.Constant(ir.IntType(64), 1), "seq_cst")
        return context.get_dummy_value()

    return types.void(counter), generate


@intrinsic_like(lambda counter: counter[0])
def _look(typingctx, counter):
    """Return ``counter[0]`` as it is now."""

    def generate(context, builder, signature, arguments):
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        return builder.load_atomic(data, "seq_cst", 8)

    return types.int64(counter), generate


@intrinsic_like(lambda: time.sleep(0))
def _yield_processor(typingctx):
    """Yield the processor to other threads."""

    def generate(context, builder, signature, arguments):
        if os.name == "posix":
            kind = ir.FunctionType(ir.IntType(32), [])
            builder.call(cgutils.get_or_insert_function(builder.module, kind, "sched_yield"), [])
        return context.get_dummy_value()

    return types.void(), generate


@inlined
def barrier(counter, arrivals):
    """Wait at a thread barrier until `arrivals` threads have been counted in all."""
    _count_up(counter)
    looks = 0
    while _look(counter) < arrivals:
        looks += 1
        if looks > _PATIENCE:
            _yield_processor()
    return np.int64(looks)


@inlined
def least_of(numbers):
    """Return the least of some numbers; numba takes half a second to compile its own."""
    least = numbers[0]
    for i in range(1, len(numbers)):
        least = min(least, numbers[i])
    return least


# Exponentials of eight numbers at once: LLVM would call a library for each of them.

_LANES = 8
_FLOATS = ir.VectorType(ir.FloatType(), _LANES)
_INTS = ir.VectorType(ir.IntType(32), _LANES)

# e^r for |r| ≤ ½ ln 2, to the precision of float32.
_SERIES = (1 / 720, 1 / 120, 1 / 24, 1 / 6, 0.5, 1.0, 1.0)

# Beyond 2²³ float32 holds integers only: adding this rounds, and leaves k in the low bits.
_ROUNDING = 1.5 * 2.0**23


def _all(value: float) -> ir.Constant:
    return ir.Constant(_FLOATS, [float(np.float32(value))] * _LANES)


def _exp_eight_plainly(numbers, position):
    single = np.float32
    small = numbers[position : position + _LANES] < single(-85.0)
    x = np.where(small, single(-85.0), numbers[position : position + _LANES])
    turned = x * single(np.log2(np.e)) + single(_ROUNDING)
    k = turned - single(_ROUNDING)
    r = x - k * single(0.693359375)
    r = r - k * single(np.log(2.0) - 0.693359375)
    p = np.full(_LANES, _SERIES[0], dtype=np.float32)
    for coefficient in _SERIES[1:]:
        p = p * r + single(coefficient)
    p = (p.view(np.int32) + (turned.view(np.int32) << 23)).view(np.float32)
    numbers[position : position + _LANES] = np.where(small, single(0.0), p)


@intrinsic_like(_exp_eight_plainly)
def _exp_eight(typingctx, numbers, position):
    """Replace eight numbers x ≤ 0 from a position on by e^x; 0 where it is below 1e-37."""

    def generate(context, builder, signature, arguments):
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        offset = context.cast(builder, arguments[1], signature.args[1], types.intp)
        address = builder.bitcast(builder.gep(data, [offset]), _FLOATS.as_pointer())
        x = builder.load(address, align=4)
        small = builder.fcmp_ordered("<", x, _all(-85.0))
        x = builder.select(small, _all(-85.0), x)
        turned = builder.fadd(builder.fmul(x, _all(np.log2(np.e))), _all(_ROUNDING))
        k = builder.fsub(turned, _all(_ROUNDING))
        # ln 2 in two parts: the first has few digits, so that its multiples are exact.
        r = builder.fsub(x, builder.fmul(k, _all(0.693359375)))
        r = builder.fsub(r, builder.fmul(k, _all(np.log(2.0) - 0.693359375)))
        p = _all(_SERIES[0])
        for coefficient in _SERIES[1:]:
            p = builder.fadd(builder.fmul(p, r), _all(coefficient))
        bits = builder.shl(builder.bitcast(turned, _INTS), ir.Constant(_INTS, [23] * _LANES))
        p = builder.bitcast(builder.add(builder.bitcast(p, _INTS), bits), _FLOATS)
        builder.store(builder.select(small, _all(0.0), p), address, align=4)
        return context.get_dummy_value()

    return types.void(numbers, position), generate


@inlined
def exp_rows(numbers):
    """Replace numbers x ≤ 0, float32 and a multiple of eight of them, by e^x."""
    for position in range(0, len(numbers), 8):
        _exp_eight(numbers, position)
