"""Powers of two as instructions; see :mod:`oblong._core.exp2`."""

import math
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

_FLAGS = ("nnan", "nsz", "contract")
# Chebyshev interpolation of degree 6 in single precision: the rounding is larger than its error. In
# double precision Taylor's series of degree 12, for the same reason.
_SINGLE = (
    1.0,
    0.6931472067028326,
    0.24022650922288757,
    0.05550327226670303,
    0.009618056678524656,
    0.0013400428177615747,
    0.00015461444698564738,
)
_DOUBLE = tuple(math.log(2.0) ** k / math.factorial(k) for k in range(13))
# By precision: type, integer of its size, bits of the mantissa, bias of the exponent, polynomial.
_FORMATS: dict[Any, tuple] = {
    types.float32: (ir.FloatType(), ir.IntType(32), 23, 127, _SINGLE),
    types.float64: (ir.DoubleType(), ir.IntType(64), 52, 1023, _DOUBLE),
}


@intrinsic
def exp2(context: Any, t: Any) -> Any:
    """``2^t`` for ``t <= 0``, in the precision of ``t``."""
    kind, integer, shift, bias, polynomial = _FORMATS[t]

    def emit(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        number = arguments[0]
        for order, end in ((">", kind(0.0)), ("<", kind(-bias))):
            beyond = builder.fcmp_ordered(order, number, end, flags=_FLAGS)
            number = builder.select(beyond, end, number, flags=_FLAGS)
        # Conversion cuts towards zero: of t - ½ to the nearest whole number of t. All processors
        # convert many numbers to 32 bits at once, but not to 64.
        whole = builder.fptosi(builder.fadd(number, kind(-0.5)), ir.IntType(32))
        rest = builder.fsub(number, builder.sitofp(whole, kind))
        value = kind(polynomial[-1])
        for k in polynomial[-2::-1]:
            value = builder.fadd(builder.fmul(value, rest, flags=_FLAGS), kind(k), flags=_FLAGS)
        exponent = builder.add(whole, ir.IntType(32)(bias))
        if integer.width > 32:
            exponent = builder.zext(exponent, integer)
        power = builder.bitcast(builder.shl(exponent, integer(shift)), kind)
        return builder.fmul(value, power, flags=_FLAGS)

    return t(t), emit
