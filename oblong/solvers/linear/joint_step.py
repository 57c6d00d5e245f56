"""Joint steps of coordinate descent: all free coefficients of a linear problem at once."""

from __future__ import annotations

import numpy as np

from oblong.solvers.linear.descent_state import DescentState
from oblong.solvers.linear.options import DEFAULTS, LinearOptions
from oblong.solvers.linear.row_loops import add_rows, row_products

# Values, columns and ends of the rows, and which rows are meant.
Arrays = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def joint_step(state: DescentState, patience: float, options: LinearOptions = DEFAULTS) -> None:
    """Move all free coefficients at once, up to the kinks on their way.

    Parameters
    ----------
    state : DescentState
        The state, updated in place.
    patience : float
        Products with all rows that the conjugate gradients may cost.
    options : LinearOptions
        Tuning constants.
    """
    problem = state.problem
    rows = state.free()
    effort = int(patience * problem.rows.n / max(1, rows.size))
    if rows.size < 2 or effort < options.joint_least:
        return
    y, C, U, c = problem.y[rows], problem.C[rows], state.U[rows], state.c[rows]
    beyond, below = y * c > C, y * c < 0.0
    low = y * np.where(below, -U, np.where(beyond, C, 0.0))
    high = y * np.where(below, 0.0, np.where(beyond, C + U, C))
    low, high = np.minimum(low, high), np.maximum(low, high)
    outward = y * (beyond.astype(float) - below)
    slope = y.copy()
    outside = beyond | below
    slope[outside] = -state.bound(state.excess) * outward[outside]
    output = np.empty(rows.size)
    arrays = (state.data, state.indices, state.indptr, rows)
    _outputs(state, arrays, state.w, state.total, output)
    residual = slope - output - state.bias - state.R * state.total
    effort = min(effort, options.joint_most)
    direction = _ascent_direction(state, arrays, residual, outward, effort)
    best = (_inner_dual(state, rows, c, state.w, state.total), c, state.w)
    trials = []
    if problem.D is None and problem.bounded:
        trials.append(_line_maximum(state, arrays, direction, float(residual @ direction)))
    for halvings in range(options.joint_halvings):
        # Snapping to the ends of its piece keeps a coefficient recognisable as not free.
        trials.append(np.clip(c + 0.5**halvings * direction, low, high))
        for new in trials:
            w = state.w.copy()
            add_rows(*arrays, new - c, w)
            value = _inner_dual(state, rows, new, w, float(state.total + (new - c).sum()))
            if value > best[0]:
                best = (value, new, w)
        if best[1] is not c:
            break
        trials = []
    _, new, w = best
    before = _own_excess(state, rows)
    state.total += (new - c).sum()
    state.c[rows], state.w, state.drift = new, w, float(w @ state.mean)
    state.excess += _own_excess(state, rows) - before


def _inner_dual(
    state: DescentState, rows: np.ndarray, c: np.ndarray, w: np.ndarray, total: float
) -> float:
    """Value of the inner problem as far as it depends on the coefficients of some rows.

    With ``D`` the excess of all other rows has to be known: they have what ``sums`` says
    beyond that of these rows.
    """
    y, C = state.problem.y[rows], state.problem.C[rows]
    a = y * c
    alpha = np.clip(a, 0.0, C)
    excess = float(np.abs(a - alpha).sum())
    w = w - total * state.mean
    value = alpha.sum() - 0.5 * (w @ w) - state.bias * total - 0.5 * state.R * total * total
    if state.rho > 0.0:
        everything = state.excess - _own_excess(state, rows) + excess
        reach = state.bound(everything) - 1.0
        return float(value - excess - 0.5 * reach * reach / state.rho)
    return float(value - state.t * excess if excess else value)


def _outputs(
    state: DescentState, arrays: Arrays, w: np.ndarray, total: float, out: np.ndarray
) -> None:
    """Products of centred rows with the centred combination ``w`` of sum ``total``."""
    w = w - total * state.mean
    row_products(*arrays, w, out)
    out -= w @ state.mean


def _own_excess(state: DescentState, rows: np.ndarray) -> float:
    a = state.problem.y[rows] * state.c[rows]
    return float(np.abs(a - np.clip(a, 0.0, state.problem.C[rows])).sum())


def _line_maximum(
    state: DescentState, arrays: Arrays, direction: np.ndarray, rise: float
) -> np.ndarray:
    """Maximise the dual along a direction, over all kinks on the way.

    Coefficients under a hard bound have no ends to stop at. ``rise`` is the derivative.
    """
    problem, rows = state.problem, arrays[-1]
    y, C, T = problem.y[rows], problem.C[rows], state.t
    change = np.zeros_like(state.w)
    add_rows(*arrays, direction, change)
    total = float(direction.sum())
    change -= total * state.mean
    curvature = float(change @ change) + state.R * total**2
    if not (rise > 0.0 and curvature > 0.0):
        return state.c[rows]
    a, speed = y * state.c[rows], y * direction
    with np.errstate(divide="ignore", invalid="ignore"):
        where = np.concatenate([-a / speed, (C - a) / speed])
    drops = np.concatenate([(T - 1.0) * np.abs(speed), (T + 1.0) * np.abs(speed)])
    ahead = np.flatnonzero(where > 0.0)
    ahead = ahead[np.argsort(where[ahead])]
    where, drops = where[ahead], np.cumsum(drops[ahead])
    step, landed = rise / curvature, -1
    past = rise - curvature * where - drops <= 0.0
    if past.any():
        first = int(np.argmax(past))
        before = drops[first - 1] if first else 0.0
        step = (rise - before) / curvature
        if step >= where[first]:
            step, landed = where[first], int(ahead[first])
    else:
        step = (rise - (drops[-1] if drops.size else 0.0)) / curvature
    new = state.c[rows] + step * direction
    if landed >= 0:
        place = landed % rows.size
        new[place] = 0.0 if landed < rows.size else y[place] * C[place]
    return new


def _ascent_direction(
    state: DescentState, arrays: Arrays, residual: np.ndarray, outward: np.ndarray, effort: int
) -> np.ndarray:
    """Conjugate gradients on the curvature of the free coefficients."""
    rows = arrays[-1]
    scale = 1.0 / (state.norms[rows] + state.R + state.rho * outward**2)
    direction = np.zeros(rows.size)
    image = np.empty(rows.size)
    descent = scale * residual
    conjugate = descent.copy()
    size = first = float(residual @ descent)
    for _ in range(min(effort, rows.size)):
        w = np.zeros_like(state.w)
        add_rows(*arrays, conjugate, w)
        total = float(conjugate.sum())
        _outputs(state, arrays, w, total, image)
        image += state.R * total + state.rho * (outward @ conjugate) * outward
        curvature = float(conjugate @ image)
        if not curvature > 0.0:
            break
        step = size / curvature
        direction += step * conjugate
        residual = residual - step * image
        descent = scale * residual
        size, before = float(residual @ descent), size
        if size <= 1e-6 * first:
            break
        conjugate = descent + (size / before) * conjugate
    return direction
