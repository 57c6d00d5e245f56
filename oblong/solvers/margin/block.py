"""One block of the margin problem: pair steps with Newton steps between them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from oblong._core.compile import uncounted
from oblong.solvers.margin.interior_point import interior_point
from oblong.solvers.margin.newton import newton_steps
from oblong.solvers.margin.options import DEFAULTS, MarginOptions
from oblong.solvers.margin.pair_steps import ascend
from oblong.solvers.margin.problem import Pieces, write_slopes

_EPS = float(np.finfo(np.float64).eps)


class NoMaximum(Exception):
    """A block whose problem has no maximum: its matrix is indefinite, or not finite."""


class DenseBlock:
    """A principal block of the kernel matrix, with what follows from it alone.

    Parameters
    ----------
    K : ndarray of shape (q, q)
        The block.
    inverse : ndarray of shape (q, q), default=None
        Its inverse, if known.
    wide : ndarray of shape (q, q or more), default=None
        The memory that the block is the first columns of, for loops that need it in one piece.

    Attributes
    ----------
    diagonal : ndarray of shape (q,)
        Its diagonal in double precision.
    finite : bool
        Whether the diagonal is finite.
    tiny : float
        Curvature below which a pair has none.
    inverse : ndarray of shape (q, q) or None
        Inverse of ``K``, which makes Newton steps cheaper when most coefficients are free.
    work : tuple of ndarray
        Memory of the pair steps.
    """

    def __init__(
        self,
        K: np.ndarray,
        inverse: np.ndarray | None = None,
        wide: np.ndarray | None = None,
    ) -> None:
        self.K = K
        self.wide = K if wide is None else wide
        self.diagonal = K.diagonal().astype(np.float64)
        self.finite = bool(np.isfinite(self.diagonal).all())
        mean = float(np.abs(self.diagonal).mean())
        self.tiny = max(4.0 * float(np.finfo(K.dtype).eps) * mean, 1e-300)
        self.largest = max(float(self.diagonal.max(initial=0.0)), 1e-300)
        self.sizes = np.sqrt(np.abs(self.diagonal))
        self.inverse = inverse
        self.work = tuple(np.empty((5, len(K))))
        self._memory = np.empty(0)

    def rounding(self, c: np.ndarray) -> Any:
        """Bound on the error of ``K @ c`` for each row ``c``, if the block is the whole matrix."""
        return 4.0 * _EPS * self.largest**0.5 * (np.abs(c) @ self.sizes)

    def memory(self, size: int) -> np.ndarray:
        """Memory for a square matrix, overwritten by the next call."""
        if self._memory.size < size**2:
            self._memory = np.empty(size**2)
        return self._memory[: size**2].reshape(size, size)


class BlockOutcome(NamedTuple):
    """What changed besides the coefficients, which are updated in place."""

    u: np.ndarray
    right: np.ndarray
    left: np.ndarray
    steps: int
    newton_steps: int
    violation: float


def solve_block(
    block: DenseBlock,
    pieces: Pieces,
    c: np.ndarray,
    u: np.ndarray,
    tol: float,
    final_tol: float,
    budget: int,
    whole: bool,
    polish: bool = True,
    interior: bool = False,
    options: MarginOptions = DEFAULTS,
) -> BlockOutcome:
    """Solve the margin problem of one dense block to ``tol``.

    Parameters
    ----------
    block : DenseBlock
        The block of the kernel matrix.
    pieces : Pieces
        Terms of the block.
    c : ndarray of shape (q,)
        Coefficients, updated in place with their sum kept; zero if the block is whole.
    u : ndarray of shape (q,)
        Image of all coefficients, inside the block and outside, on the block's rows.
    tol : float
        Violation at which the block is solved.
    final_tol : float
        Violation at which the whole problem is; sets the scale below which a distance to a
        breakpoint is round-off.
    budget : int
        Most pair steps to take.
    whole : bool
        Whether the block is the whole problem. Only then is the image kept up to date to the
        end.
    polish : bool, default=True
        Whether to end the whole problem, if it is not a large one, with Newton steps, which make
        the solution exact once the pieces are right that its coefficients lie on.
    interior : bool, default=False
        Whether to begin with an interior point method, which costs some twenty Cholesky factors.
    options : MarginOptions
        Tuning constants.

    Returns
    -------
    BlockOutcome
        Slopes at the new coefficients, their image if the block is whole, and the work done.

    Raises
    ------
    NoMaximum
        If the block is indefinite and the problem unbounded, or values are not finite.
    """
    K = block.K
    u = np.array(u)
    origin = None if not whole or K.dtype == np.float64 else (c.copy(), u.copy())
    right, left = np.empty(len(c)), np.empty(len(c))
    # In double precision a fresh image of the whole problem is as cheap as an update.
    fresh = whole and K.dtype == np.float64
    snap = snap_distance(pieces.breakpoints, c, final_tol, block.largest)
    stretch = _stretch(len(c), fresh)
    steps = newton = since = 0
    stride = max(options.least_stride, min(len(c) // 2, 256 + len(c) // 8))
    if interior and not _begin_inside(block, pieces, c, u, 0.1 * tol, options):
        write_slopes(*pieces, c, right, left)
        highest, lowest = interval(right, left, u)
        return BlockOutcome(u, right, left, 0, 0, highest - lowest)
    if block.inverse is not None:
        # With the inverse at hand Newton steps are cheap, and the start is likely a good one.
        write_slopes(*pieces, c, right, left)
        newton += newton_steps(block, pieces, c, u, right, left, snap, options)
    for _ in range(options.stretches):
        allowed = min(stretch, budget - steps)
        point, limits = (c, u, right, left), (tol, block.tiny, snap, allowed, stride)
        taken, violation = ascend(block.wide, block.diagonal, *pieces, *point, block.work, *limits)
        steps += taken
        if np.isnan(violation):
            raise NoMaximum
        finished = violation <= tol or steps >= budget
        if fresh:
            balance(c, right, left)
            with np.errstate(over="ignore", invalid="ignore"):
                np.dot(K, c, out=u)
            check_definite(pieces, c, u, tol)
        if finished:
            break
        since += taken
        stretch = 0 if not fresh else _worth(right, left) - since
        if stretch <= 0:
            newton += newton_steps(block, pieces, c, u, right, left, snap, options)
            stretch, since = _stretch(len(c), fresh), 0
    if origin is not None:
        # Single precision may have moved the image away from that of the coefficients.
        change = c - origin[0]
        # In single precision, unless that has no numbers so large.
        short = np.abs(change).max(initial=0.0) < 1e30
        u[...] = origin[1] + K @ (change.astype(K.dtype) if short else change)
    if whole and polish and violation <= tol and len(c) <= options.polished:
        state = (c, u, right, left)
        before = [array.copy() for array in state]
        newton += newton_steps(block, pieces, c, u, right, left, snap, options)
        highest, lowest = interval(right, left, u)
        if highest - lowest > violation:
            for array, old in zip(state, before):
                array[...] = old
        else:
            violation = highest - lowest
    return BlockOutcome(u, right, left, steps, newton, violation)


def _begin_inside(
    block: DenseBlock,
    pieces: Pieces,
    c: np.ndarray,
    u: np.ndarray,
    tol: float,
    options: MarginOptions,
) -> bool:
    """Replace coefficients and image by those of the interior point method, if they are better.

    Returns False if they are inside all pieces, where pair steps and Newton steps get nowhere.
    """
    K = block.K.astype(np.float64, copy=False)
    found = interior_point(K, pieces, c, u, tol, options)
    if found is None:
        return True
    coef, on_breakpoints = found
    outside = u - K @ c
    image = outside + K @ coef
    # What is outside enters the dual objective of the block with all its weight. Where values are
    # so large that rounding swamps the objective, the violation tells.
    if not (
        pieces.dual(coef, image + outside) >= pieces.dual(c, u + outside)
        and _violation(pieces, coef, image) <= 100.0 * _violation(pieces, c, u)
    ):
        return True
    c[...], u[...] = coef, image
    return on_breakpoints


def _violation(pieces: Pieces, c: np.ndarray, u: np.ndarray) -> float:
    highest, lowest = interval(*pieces.slopes_at(c), u)
    return highest - lowest


def check_definite(pieces: Pieces, c: np.ndarray, u: np.ndarray, tol: float) -> None:
    """Notice when the problem has no maximum: the dual is above what the outputs zero cost.

    Raises
    ------
    NoMaximum
        If so, or if the coefficients have grown beyond all numbers.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        quadratic = float(c @ u)
    if quadratic >= 0.0:
        return
    if not quadratic > -np.inf:
        raise NoMaximum
    if pieces.bounded:
        ceiling = float(pieces.loss(np.zeros(len(c))).sum())
        if pieces.dual(c, u) > ceiling * (1.0 + 1e-6) + tol:
            raise NoMaximum


def _stretch(size: int, fresh: bool) -> int:
    """Pair steps to take before Newton steps are thought of."""
    # Newton steps cost the cube of the block; the square over 200 keeps the two in balance.
    return max(200, 4 * size, 0 if fresh else size**2 // 200)


def _worth(right: np.ndarray, left: np.ndarray) -> int:
    """Pair steps that take as long as some Newton steps on the free coefficients."""
    return int(np.count_nonzero(right == left)) ** 3 // (10 * len(right))


@uncounted
def snap_distance(p, c, tol, largest):
    """Distance to a breakpoint that is round-off: next to the coefficients, and to ``tol``.

    ``largest`` is the largest value of the diagonal of the matrix.
    """
    scale = 0.0
    for i in range(c.size):
        scale = max(scale, abs(c[i]), abs(p[i, 1]), abs(p[i, 2]))
    return min(1e-12 * scale, 1e-4 * tol / largest)


@uncounted
def interval(right, left, u):
    """Largest of ``right - u`` and least of ``left - u``."""
    highest = -np.inf
    lowest = np.inf
    for i in range(u.size):
        highest = max(highest, right[i] - u[i])
        lowest = min(lowest, left[i] - u[i])
    return highest, lowest


@uncounted
def balance(c, right, left):
    """Take the round-off of ``Σc`` from the largest coefficient inside a piece."""
    total = 0.0
    largest = -1
    for i in range(c.size):
        total += c[i]
        if right[i] == left[i] and (largest < 0 or abs(c[i]) > abs(c[largest])):
            largest = i
    if largest >= 0:
        c[largest] -= total
