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

from nodeproof.kernels.compiled import intrinsic_like

__all__ = ["meet"]

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
def _let_others(typingctx):
    """Let other threads have the processor."""

    def generate(context, builder, signature, arguments):
        if os.name == "posix":
            kind = ir.FunctionType(ir.IntType(32), [])
            builder.call(cgutils.get_or_insert_function(builder.module, kind, "sched_yield"), [])
        return context.get_dummy_value()

    return types.void(), generate


@njit(cache=True, nogil=True)
def meet(counter, arrivals):
    """Come to a meeting, and wait until as many `arrivals` have been counted in all."""
    _count_up(counter)
    looks = 0
    while _look(counter) < arrivals:
        looks += 1
        if looks > _PATIENCE:
            _let_others()
    return np.int64(looks)
