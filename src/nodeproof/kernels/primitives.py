"""Threads that wait for each other inside a kernel.

Python's ways to wake a thread take a tenth of a millisecond or more, which is as long as a
batch of a small sweep. Here all threads stay in their kernels and count.
"""

import os
import time
from threading import Lock

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils

from nodeproof.kernels.links import intrinsic_like

__all__ = ["barrier", "exp_rows", "padded"]


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


@njit(cache=True, nogil=True)
def barrier(counter, arrivals):
    """Wait at a thread barrier until `arrivals` threads have been counted in all."""
    _count_up(counter)
    looks = 0
    while _look(counter) < arrivals:
        looks += 1
        if looks > _PATIENCE:
            _yield_processor()
    return np.int64(looks)


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
    x = numbers[position : position + _LANES]
    x[:] = np.where(x < -85.0, 0.0, np.exp(x))


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


@njit(cache=True, nogil=True)
def padded(K):
    """Return the next multiple of eight."""
    return (K + 7) // 8 * 8


@njit(cache=True, nogil=True, inline="always")
def exp_rows(numbers):
    """Replace numbers x ≤ 0, float32 and a multiple of eight of them, by e^x."""
    for position in range(0, len(numbers), 8):
        _exp_eight(numbers, position)
