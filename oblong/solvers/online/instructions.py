"""LLVM instructions that Numba has no words for: prefetching, and vectors written out.

A row of a sparse batch looks up entries all over a large table. The processor does not know which
ones the next row needs, but we do.

The update and the product of a small symmetric matrix are short loops over several rows, and a
compiler must assume that the rows overlap. Written out, learning with 50 features and a full
covariance takes a fifth less time (``benchmarks/online_against_peers.py``, part *instructions*).
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from oblong.solvers.online.simd import LANES

# Rows at a time, each with a sum of its own, so that additions do not wait for each other.
_ROWS = 4

_FLAGS = ("nnan", "nsz", "contract")
_INT = ir.IntType(64)
_VECTOR = ir.VectorType(ir.DoubleType(), LANES)
_ZERO = ir.Constant(_VECTOR, [0.0] * LANES)


def _load(builder: Any, pointer: Any) -> Any:
    loaded = builder.load(builder.bitcast(pointer, _VECTOR.as_pointer()))
    loaded.align = 8
    return loaded


def _store(builder: Any, value: Any, pointer: Any) -> None:
    builder.store(value, builder.bitcast(pointer, _VECTOR.as_pointer())).align = 8


def _spread(builder: Any, pointer: Any) -> Any:
    """All lanes hold the number."""
    undefined = ir.Constant(_VECTOR, ir.Undefined)
    first = builder.insert_element(undefined, builder.load(pointer), ir.IntType(32)(0))
    places = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    return builder.shuffle_vector(first, undefined, places)


def _sweep(builder: Any, size: Any, S: Any, q: Any, x: Any, product: Any) -> None:
    """Go over the columns, a vector of them at a time, from the first row to the last.

    Without ``q`` the matrix stays what it is, without ``x`` there is no product.
    """
    sums = [cgutils.alloca_once(builder, _VECTOR) for _ in range(_ROWS)]
    whole = {"intp": _INT}
    with cgutils.for_range_slice(builder, _INT(0), size, _INT(LANES), **whole) as (column, _):
        across = _load(builder, builder.gep(q, [column])) if q is not None else None
        for part in sums:
            builder.store(_ZERO, part)
        with cgutils.for_range_slice(builder, _INT(0), size, _INT(_ROWS), **whole) as (top, _):
            for u, part in enumerate(sums):
                row = builder.add(top, _INT(u))
                place = builder.gep(S, [builder.add(builder.mul(row, size), column)])
                entries = _load(builder, place)
                if q is not None:
                    # The same product on both sides of the diagonal: S stays symmetric.
                    down = _spread(builder, builder.gep(q, [row]))
                    change = builder.fmul(down, across, flags=_FLAGS)
                    entries = builder.fsub(entries, change, flags=_FLAGS)
                    _store(builder, entries, place)
                if x is not None:
                    factor = _spread(builder, builder.gep(x, [row]))
                    term = builder.fmul(factor, entries, flags=_FLAGS)
                    builder.store(builder.fadd(builder.load(part), term, flags=_FLAGS), part)
        if x is not None:
            a, b, c, d = (builder.load(part) for part in sums)
            _store(
                builder,
                builder.fadd(builder.fadd(a, b), builder.fadd(c, d)),
                builder.gep(product, [column]),
            )


def _emitter(arrange: Callable) -> Callable:
    def emit(context, builder, signature, arguments):
        arrays = [
            context.make_array(kind)(context, builder, value)
            for kind, value in zip(signature.args, arguments)
        ]
        size = builder.extract_value(arrays[0].shape, 0)
        _sweep(builder, size, *arrange(*[array.data for array in arrays]))
        return context.get_dummy_value()

    return emit


@intrinsic
def fold(context, S, q, x, product):
    """``S -= q q'`` and ``product = S x`` in one sweep over ``S``."""
    return types.void(S, q, x, product), _emitter(lambda S, q, x, product: (S, q, x, product))


@intrinsic
def multiply(context, S, x, product):
    """``product = S x``."""
    return types.void(S, x, product), _emitter(lambda S, x, product: (S, None, x, product))


@intrinsic
def subtract(context, S, q):
    """``S -= q q'``."""
    return types.void(S, q), _emitter(lambda S, q: (S, q, None, None))


@intrinsic
def prefetch(context, table, j):
    """Tell the processor that row ``j`` of the table is needed soon."""

    def emit(context, builder, signature, arguments):
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        step = builder.extract_value(array.strides, 0)
        base = builder.ptrtoint(array.data, _INT)
        byte = ir.IntType(8).as_pointer()
        address = builder.inttoptr(builder.add(base, builder.mul(arguments[1], step)), byte)
        code = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, code, code, code])
        prefetch = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        # Data to be read, up to the second cache: more requests can be under way there than in
        # the first, and fetching a row is then a fifth faster.
        builder.call(prefetch, [address, code(0), code(2), code(1)])
        return context.get_dummy_value()

    return types.void(table, types.int64), emit
