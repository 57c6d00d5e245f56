"""Powers of two that loops compute many at a time.

``2^t = 2^n 2^r`` with a whole ``n`` and ``|r| <= ½``: a polynomial in ``r``, and ``n`` written into
the bits of the exponent. Written out as instructions, so that both precisions vectorise: 0.2 ns per
value in single precision and 0.5 ns in double, where ``np.exp`` takes 2 ns.
"""

import math
from typing import Any

import numpy as np

from oblong._core.compile import instruction

LOG2_E = math.log2(math.e)


def _powers() -> Any:
    from oblong._core import powers

    return powers


@instruction(_powers)
def exp2(t: float) -> float:
    """``2^t`` for ``t <= 0``, in the precision of ``t``; a positive ``t`` counts as zero.

    What would be less than the least normal number, in single precision 1e-38, is zero.
    """
    return np.exp2(min(t, 0.0))
