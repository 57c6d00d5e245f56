"""Covariances ``σ S`` whose two factors drift apart, or that leave the range of numbers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from oblong.solvers.online import slots
from oblong.solvers.online.structures.sketch import refactor, shrink

if TYPE_CHECKING:
    from oblong.solvers.online.state import OnlineState

# Powers of two that the middle of the variances may be away from one: of a diagonal, of a sketch.
_FAR, _SKETCH_FAR = 8, 20
# Precisions of features that never occur, relative to the largest: they would vanish otherwise.
_LEAST = 2.0**-200


def _middle(positive: np.ndarray) -> float:
    """Binary logarithm of the middle between the largest and the smallest number."""
    return 0.5 * (math.log2(float(positive.max())) + math.log2(float(positive.min())))


def rebalance(state: OnlineState) -> None:
    """Bring the variances of a diagonal covariance near one again, and the factor along.

    A rule that scales the covariance at every update does so in ``σ``, while the entries ``D``
    shrink in proportion: after some hundred updates they would be at their floor, and the
    covariance gone. Powers of two change no digit of the products.
    """
    if state.structure != slots.DIAGONAL:
        return
    n, outputs = state.n_features + 1, state.n_outputs
    for k in range(outputs):
        middle = round(_middle(state.table[:n, outputs + k]))
        if abs(middle) > _FAR:
            # In place, also in the room for more features.
            np.ldexp(state.table[:, outputs + k], -middle, out=state.table[:, outputs + k])
            state.scale[k, slots.SIGMA] = math.ldexp(state.scale[k, slots.SIGMA], middle)


def cut(state: OnlineState) -> None:
    """Cut sketches that are full to half their rows, and keep their precisions in range.

    The precisions of rules with a floor of the variances go down all together when the first
    variance is there, so that the sketch can still change its directions; none goes below
    its initial value. Rules that do not depend on the scale of the covariance have it in ``σ``.
    Between two cuts a precision grows by a bounded factor only, see
    :func:`~oblong.solvers.online.structures.sketch.sketch_update`.
    """
    width, outputs, steps = state.covariance.shape[2], state.n_outputs, state.steps
    scales, floor = state.invariance == slots.UNIT_OF_COVARIANCE, state.floor
    initial = 1.0 / state.initial_variance
    if state.forgetting < 1.0:
        _renew(state, initial)
    for k, rank in enumerate(state.ranks):
        if rank + steps > width:
            variances, precisions = _columns(state, k)
            keep = (width - steps) // 2
            state.scale[k, slots.DIRECTIONS] = shrink(
                state.covariance[k], variances, precisions, keep, 0.0 if scales else initial
            )
    known = state.table[: state.n_features + 1, 2 * outputs :]
    for k in range(outputs):
        largest = float(known[:, k].max())
        if scales:
            middle = _middle(known[:, k])
            if abs(middle) > _SKETCH_FAR:
                exponent = math.floor(0.5 * middle)
                _scale(state, k, exponent, math.ldexp(_LEAST * largest, -2 * exponent))
                state.scale[k, slots.SIGMA] = math.ldexp(state.scale[k, slots.SIGMA], -2 * exponent)
        elif floor * largest > 1.0:
            _scale(state, k, math.ceil(0.5 * math.log2(floor * largest)), initial)
            state.counters[slots.FLOORED] += 1
    largest = float(state.scale[:, slots.SIGMA].max())
    if scales and abs(math.log2(largest)) > 2 * _SKETCH_FAR:
        state.scale[:, slots.SIGMA] = np.ldexp(
            state.scale[:, slots.SIGMA], -math.floor(math.log2(largest))
        )


def _renew(state: OnlineState, least: float) -> None:
    """Put the factors of a model that forgets into its sketches, and renew the prior."""
    for k, sigma in enumerate(state.sigma.tolist()):
        variances, precisions = _columns(state, k)
        precisions /= sigma
        np.maximum(precisions, least, out=precisions)
        variances *= sigma
        np.minimum(variances, 1.0 / least, out=variances)
        state.covariance[k, : len(state.table)] /= math.sqrt(sigma)
        refactor(state.covariance[k], variances, state.ranks[k])
        state.scale[k, slots.SIGMA] = 1.0


def _columns(state: OnlineState, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Inverse of the diagonal, and diagonal of the precision, of a sketch."""
    return state.table[:, state.n_outputs + k], state.table[:, 2 * state.n_outputs + k]


def _scale(state: OnlineState, k: int, exponent: int, least: float) -> None:
    """Divide the precision of a sketch by a power of four, down to the least precision."""
    variances, precisions = _columns(state, k)
    np.ldexp(variances, 2 * exponent, out=variances)
    np.ldexp(precisions, -2 * exponent, out=precisions)
    rows = state.covariance[k, : len(state.table)]
    np.ldexp(rows, -exponent, out=rows)
    # The Cholesky factor stays as it is unless the diagonal changes otherwise.
    if variances.max() * least > 1.0:
        np.maximum(precisions, least, out=precisions)
        np.minimum(variances, 1.0 / least, out=variances)
        refactor(state.covariance[k], variances, state.ranks[k])
