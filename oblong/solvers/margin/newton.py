"""Newton steps of the margin solver on the coefficients that lie inside a piece."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from oblong._core.compile import compiled
from oblong._core.threads import released_blas
from oblong.solvers.margin.options import MarginOptions
from oblong.solvers.margin.problem import Pieces, write_slopes

if TYPE_CHECKING:
    from oblong.solvers.margin.block import DenseBlock


def newton_steps(
    block: DenseBlock,
    pieces: Pieces,
    c: np.ndarray,
    u: np.ndarray,
    right: np.ndarray,
    left: np.ndarray,
    snap: float,
    options: MarginOptions,
) -> int:
    """Take Newton steps in succession while they meet kinks; return how many.

    Coefficients, image and slopes are updated in place.
    """
    # More rows may be free than the matrix has ranks. Along its null space every step then ends
    # where one of them meets its bound, and only a row of steps takes all that are too many: as
    # many as take about as long as the pair steps between them.
    free = max(1, int(np.count_nonzero(right == left)))
    cheap = min(options.newton_most, 100 * c.size**2 // free**3)
    for count in range(1, options.newton_most + 1):
        step = _newton_step(block, pieces, c, u, right, left, snap)
        if step is None:
            return count - 1
        enough = count >= options.newton_costly or step < options.newton_short
        if step == 1.0 or (count >= cheap and enough):
            return count
    return options.newton_most


def _newton_step(
    block: DenseBlock,
    pieces: Pieces,
    c: np.ndarray,
    u: np.ndarray,
    right: np.ndarray,
    left: np.ndarray,
    snap: float,
) -> float | None:
    """Jump to the optimum of the free coefficients, or as far towards it as pays.

    Solves ``K_FF d + β 1 = σ - u_F, 1'd = 0`` for the coefficients strictly inside a piece
    of slope ``σ`` and moves along ``d`` by an exact line search over the kinks on the way.

    Returns
    -------
    float or None
        Share of the way that was taken, one if no kink was met; None if no step was possible.
    """
    K = block.K
    is_free = right == left
    free = np.flatnonzero(is_free)
    if free.size < 2:
        return None
    target = right[free]
    target -= u[free]
    # The common part goes into the bias; left in, it swamps the rest when K_FF is singular.
    target -= target.sum() / free.size
    both = np.ones((2, free.size))
    both[0] = target
    if block.inverse is not None and 2 * free.size > c.size:
        solution = _solve_by_inverse(block, block.inverse, free, np.flatnonzero(~is_free), both)
    else:
        solution = _solve_by_factor(block, free, both)
    if solution is None:
        return None
    new, change = np.empty(free.size), np.zeros(c.size, dtype=K.dtype)
    rise, step = _walk(*pieces, c, free, target, solution, snap, new, change)
    if not rise > 0.0:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        image = K @ change
        curvature = float(change @ image)
    if not curvature <= 2.0 * step**2 * rise:
        # The curvature differs from the one that was factored: round-off spoilt the direction, or
        # it is beyond the numbers of single precision.
        return None
    u += image
    c[free] = new
    write_slopes(*pieces, c, right, left)
    return step


def _solve_by_factor(block: DenseBlock, free: np.ndarray, both: np.ndarray) -> np.ndarray | None:
    """Solve with the block of the free rows, for right-hand sides that are rows."""
    matrix = block.memory(free.size)
    diagonal = block.diagonal[free]
    mean = float(diagonal.sum()) / free.size
    if not mean > 0.0:
        return None
    # Single precision has fewer digits to lose.
    ridge = mean * (1e-10 if block.K.dtype == np.float64 else 1e-6)
    for _ in range(3):
        _gather(block.wide, free, matrix)
        diagonal += ridge
        matrix.reshape(-1)[:: free.size + 1] = diagonal
        solution = _solve_definite(matrix, both)
        if solution is not None:
            return solution
        ridge *= 100.0
    return None


def _solve_by_inverse(
    block: DenseBlock,
    inverse: np.ndarray,
    free: np.ndarray,
    fixed: np.ndarray,
    both: np.ndarray,
) -> np.ndarray | None:
    """Solve with the block of the free rows by the inverse of the whole matrix.

    With the inverse ``P``, ``K_FF⁻¹ = P_FF - P_FN P_NN⁻¹ P_NF`` for the other rows ``N``, which
    are the smaller block to factor when most rows are free.
    """
    padded = np.zeros((2, len(inverse)))
    padded[:, free] = both
    image = padded @ inverse
    if fixed.size:
        matrix = block.memory(fixed.size)
        _gather(inverse, fixed, matrix)
        rest = _solve_definite(matrix, image[:, fixed])
        if rest is None:
            return None
        padded[...] = 0.0
        padded[:, fixed] = rest
        image -= padded @ inverse
    return image[:, free]


def _solve_definite(matrix: np.ndarray, both: np.ndarray) -> np.ndarray | None:
    """Solve for right-hand sides that are rows; None if the matrix is not positive definite.

    The matrix is overwritten.
    """
    # LAPACK itself: the checks of SciPy's functions around it cost more than small blocks.
    with released_blas(len(matrix)):
        factor, failed = dpotrf(matrix.T, lower=True, clean=False, overwrite_a=True)
    return None if failed else dpotrs(factor, both.T, lower=True)[0].T


@compiled
def _gather(K, rows, out):
    """Copy the principal block of some rows."""
    for a in range(rows.size):
        row = K[rows[a]]
        into = out[a]
        for b in range(rows.size):
            into[b] = row[rows[b]]


@compiled
def _walk(p, s, c, free, target, solution, snap, new, change):
    """Move the free coefficients along the Newton direction by the exact line search.

    Writes the coefficients and their change; returns how steeply the dual rises along the
    direction, and the step.
    """
    first, second = solution
    total = weight = mean = rise = 0.0
    for a in range(free.size):
        total += first[a]
        weight += second[a]
    for a in range(free.size):
        first[a] -= total / weight * second[a]
        mean += first[a] / free.size
    for a in range(free.size):
        first[a] -= mean
        rise += first[a] * target[a]
    if not rise > 0.0:
        return rise, 0.0
    step, row, which = _line_search(p, s, c, free, first, rise)
    _move(p, c, free, first, step, row, which, snap, new, change)
    return rise, step


@compiled
def _move(p, c, free, direction, step, row, which, snap, new, change):
    """Write the coefficients after a step, with breakpoints met exactly, and their change."""
    for a in range(free.size):
        i = free[a]
        value = min(max(c[i] + step * direction[a], p[i, 0]), p[i, 3])
        nearest = p[i, 0]
        for k in range(1, 4):
            if abs(value - p[i, k]) < abs(value - nearest):
                nearest = p[i, k]
        if abs(value - nearest) <= snap:
            value = nearest
        if a == row:
            value = p[i, which]
        new[a] = value
        change[i] = value - c[i]


@compiled
def _line_search(p, s, c, free, direction, rise):
    """Exact maximiser along a Newton direction, whose curvature equals its ``rise``.

    The derivative at ``t`` is ``rise (1 - t)`` less the drops of slope at the kinks passed.

    Returns
    -------
    step : float
        The maximiser, at most one.
    row, which : int
        Free row and breakpoint on which the maximiser lies, or -1 twice.
    """
    times = np.empty(4 * free.size)
    drops = np.empty(4 * free.size)
    places = np.empty(4 * free.size, dtype=np.int64)
    count = 0
    for a in range(free.size):
        i = free[a]
        for k in range(4):
            time = (p[i, k] - c[i]) / direction[a]
            if 0.0 < time < 1.0:
                before = np.inf if k == 0 else s[i, k - 1]
                after = -np.inf if k == 3 else s[i, k]
                times[count] = time
                drops[count] = (before - after) * abs(direction[a])
                places[count] = 4 * a + k
                count += 1
    passed = 0.0
    # Few kinks are passed as a rule: looking for the next one beats sorting them all.
    for _ in range(count):
        k = 0
        for j in range(1, count):
            if times[j] < times[k]:
                k = j
        left = rise * (1.0 - times[k])
        if left <= passed:
            break
        if left <= passed + drops[k]:
            return times[k], places[k] // 4, places[k] % 4
        passed += drops[k]
        times[k] = 2.0
    return 1.0 - passed / rise, -1, -1
