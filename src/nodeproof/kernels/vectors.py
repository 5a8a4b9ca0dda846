"""Exponentials of eight numbers at once: LLVM would call a library for each of them."""

import numpy as np
from llvmlite import ir
from numba import njit, types

from nodeproof.kernels.compiled import intrinsic_like

__all__ = ["exp_rows", "padded"]

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
