"""Passes over a single vector that check its values themselves: a call less where calls count."""

from __future__ import annotations

import numpy as np

from oblong._core.compile import compiled
from oblong.solvers.online._single import learn_full, learn_table

__all__ = ["learn_one_full", "learn_one_table"]

# Bits of the exponent in double precision, and those of 2^480, whose square is far from infinite.
_EXPONENT = 0x7FF << 52
_LARGE = (1023 + 480) << 52


@compiled
def _moderate(values):
    """Whether values in double precision are numbers, and none is so large that squares overflow.

    Compiled arithmetic takes for granted that there is no NaN, so it is their bits that tell.
    """
    bits = values.view(np.int64)
    largest = 0
    for k in range(bits.size):
        largest = max(largest, bits[k] & _EXPONENT)
    return largest < _LARGE


@compiled
def learn_one_table(
    data,
    indices,
    indptr,
    order,
    labels,
    weights,
    table,
    shape,
    scale,
    total,
    counters,
    work,
    settings,
    codes,
):
    """Learn from one vector as :func:`learn_table` does; -1 if its values are not moderate."""
    if not _moderate(data):
        return -1
    return learn_table(
        data,
        indices,
        indptr,
        order,
        labels,
        weights,
        table,
        shape,
        scale,
        total,
        counters,
        work,
        settings,
        codes,
    )


@compiled
def learn_one_full(
    data,
    indices,
    indptr,
    order,
    labels,
    weights,
    table,
    shape,
    scale,
    total,
    counters,
    work,
    settings,
    codes,
):
    """Learn from one vector as :func:`learn_full` does; -1 if its values are not moderate."""
    if not _moderate(data):
        return -1
    return learn_full(
        data,
        indices,
        indptr,
        order,
        labels,
        weights,
        table,
        shape,
        scale,
        total,
        counters,
        work,
        settings,
        codes,
    )
