"""Whether the loops are compiled, and have been on this machine before."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils, config
from numba.extending import intrinsic

__all__ = [
    "AHEAD",
    "first_bad_weight",
    "inspect_links",
    "intrinsic_like",
    "is_compiled",
    "is_symmetric",
    "labelled_links",
    "prefetch",
    "reverse_links",
]


# Whether nothing is compiled.
_PLAIN = bool(config.DISABLE_JIT)  # type: ignore[attr-defined]


def is_compiled() -> bool:
    """Tell whether a sweep from an earlier process is kept (of any version), or none is needed."""
    folder = Path(os.environ.get("NUMBA_CACHE_DIR") or Path(__file__).parent / "__pycache__")
    return _PLAIN or next(folder.rglob("*.sweep_batches*.nbi"), None) is not None


def intrinsic_like(plain: Callable[..., Any]) -> Callable[[Callable[..., Any]], Any]:
    """Make an intrinsic of what is decorated; `plain` does the same in Python.

    It is used where nothing is compiled (``NUMBA_DISABLE_JIT=1``): kernels are then Python
    functions, for debuggers and coverage, and numba's intrinsics cannot be called.
    """
    return lambda typed: plain if _PLAIN else intrinsic(typed)


# ------------------------------------------------------------------------------
# Loops over the links of a graph, and the hint that makes such loops fast.


# Rows are read in random order, and waiting for them is most of a sweep. They are asked for so
# many links ahead: 2.5 times faster on a graph of 10⁷ links than without.
AHEAD = 16


@njit(cache=True, nogil=True)
def first_bad_weight(data):
    """Return the position of the first weight that is negative or not finite, or −1."""
    for e in range(len(data)):
        if not (data[e] >= 0.0 and data[e] < np.inf):
            return e
    return -1


@intrinsic_like(lambda array, position: None)
def prefetch(typingctx, array, position):
    """Ask the processor to bring ``array[position]`` (one axis) near; reads nothing."""

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


@njit(cache=True, nogil=True)
def inspect_links(lo, hi, indptr, indices, data, marks):
    """Look at rows lo…hi of a CSR matrix once.

    Returns how many entries lie on the diagonal; how many weights are zero, one, and negative
    or not finite; whether columns increase along the rows; and a sum of 64 bits in which an entry
    and its twin cancel.

    `marks` holds 64 random bits per node. Over all rows the sum is Σ_{u<v} d(u, v) m(u) m(v)
    modulo 2⁶⁴, where d is 1 or −1 for an entry without a twin and 0 elsewhere. It is zero if the
    positions are symmetric. If they are not, take two nodes with d(u, v) = ±1: whatever the
    marks of all others are, the sum is ±(m(u) + a) (m(v) + b) + c, and at most 33 · 2⁶⁴ of the
    2¹²⁸ pairs of marks make that zero. So marks that whoever made the matrix could not
    know miss an asymmetric one with a probability below 2⁻⁵⁸.
    """
    loops, zeros, ones, bad, ordered = 0, 0, 0, 0, True
    odd = np.uint64(0)
    end = len(indices) - 1
    for v in range(lo, hi):
        previous = -1
        lower, upper = np.uint64(0), np.uint64(0)
        for e in range(indptr[v], indptr[v + 1]):
            prefetch(marks, indices[min(e + AHEAD, end)])
            u = np.int64(indices[e])
            ordered &= u > previous
            previous = u
            w = data[e]
            ones += w == 1.0
            if w != 1.0:
                zeros += w == 0.0
                bad += not (w >= 0.0 and w < np.inf)
            if u < v:
                lower += marks[u]
            elif u > v:
                upper += marks[u]
            else:
                loops += 1
        odd += (lower - upper) * marks[v]
    return loops, zeros, ones, bad, ordered, odd


@njit(cache=True, nogil=True)
def is_symmetric(indptr, indices, weights):
    """Tell whether a CSR matrix with sorted rows equals its transpose, in one pass.

    Rows are visited in order, so the lower entries of a row are asked for in the order in
    which they are stored: one pointer a row suffices. No `weights` means all are one; weights
    that differ by rounding are equal.
    """
    n = len(indptr) - 1
    end = len(indices) - 1
    pointer = indptr[:n].copy()
    for v in range(n):
        # All lower entries of row v have been asked for by now, unless one has no partner.
        if pointer[v] < indptr[v + 1] and indices[pointer[v]] < v:
            return False
        for e in range(indptr[v], indptr[v + 1]):
            prefetch(pointer, indices[min(e + 2 * AHEAD, end)])
            prefetch(indices, pointer[indices[min(e + AHEAD, end)]])
            u = indices[e]
            if u > v:
                twin = pointer[u]
                if twin >= indptr[u + 1] or indices[twin] != v:
                    return False
                if len(weights) > 0 and abs(weights[twin] - weights[e]) > 1e-6 * weights[e]:
                    return False
                pointer[u] = twin + 1
    return True


@njit(cache=True, nogil=True)
def labelled_links(nodes, indptr, indices, weights, labels):
    """Return the weight of links from these labelled nodes to equal labels, and to any label."""
    equal = 0.0
    linked = 0.0
    for v in nodes:
        for e in range(indptr[v], indptr[v + 1]):
            label = labels[indices[e]]
            if label >= 0:
                w = np.float64(weights[e]) if len(weights) > 0 else 1.0
                linked += w
                if label == labels[v]:
                    equal += w
    return equal, linked


@njit(cache=True, nogil=True)
def reverse_links(indptr, indices):
    """Return, for each link of a symmetric CSR matrix with sorted rows, where its twin lies."""
    n = len(indptr) - 1
    pointer = indptr[:n].copy()
    twin = np.empty(len(indices), dtype=indptr.dtype)
    for v in range(n):
        for e in range(indptr[v], indptr[v + 1]):
            u = indices[e]
            twin[e] = pointer[u]
            pointer[u] += 1
    return twin
