"""Prefetching and products of small matrices, as instructions where loops are compiled.

What is here is for debugging; compiled loops get :mod:`oblong.solvers.online.instructions`.
"""

from typing import Any

from oblong._core.compile import instruction

# Matrices have a multiple of so many columns.
LANES = 8


def _home() -> Any:
    from oblong.solvers.online import instructions

    return instructions


@instruction(_home)
def fold(S: Any, q: Any, x: Any, product: Any) -> Any:
    """``S -= q q'`` and ``product = S x`` in one sweep over ``S``."""
    subtract(S, q)
    multiply(S, x, product)


@instruction(_home)
def multiply(S: Any, x: Any, product: Any) -> Any:
    """``product = S x``."""
    product[:] = S @ x


@instruction(_home)
def subtract(S: Any, q: Any) -> Any:
    """``S -= q q'``."""
    S -= q[:, None] * q


@instruction(_home)
def prefetch(table: Any, j: int) -> Any:
    """Say that row ``j`` of the table is needed soon."""
