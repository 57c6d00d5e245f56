"""The concave piecewise-linear terms in which one margin problem differs from another.

Each sample has a term ``g(c)`` of its signed coefficient ``c``: breakpoints
``p0 <= p1 <= p2 <= p3``, slopes ``s1 >= s2 >= s3`` between them, minus infinity outside
``[p0, p3]``, and ``g(0) = 0``. Its conjugate ``h(f) = max_c g(c) - c f`` is the loss that the
sample's output ``f`` pays in the primal problem.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from oblong._core.compile import compiled, uncounted


class Pieces(NamedTuple):
    """Breakpoints and slopes of one concave piecewise-linear term per row.

    Attributes
    ----------
    breakpoints : ndarray of shape (n, 4)
        Ascending; the first and last may be infinite.
    slopes : ndarray of shape (n, 3)
        Descending; slope ``k`` holds between breakpoints ``k`` and ``k + 1``.
    """

    breakpoints: np.ndarray
    slopes: np.ndarray

    def take(self, rows: np.ndarray | slice) -> Pieces:
        """Return the terms of a subset of the samples."""
        return Pieces(self.breakpoints[rows], self.slopes[rows])

    def slopes_at(self, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Right and left slopes at ``c``; infinite where ``c`` can go no further."""
        right, left = np.empty(len(c)), np.empty(len(c))
        write_slopes(*self, c, right, left)
        return right, left

    def value(self, c: np.ndarray) -> np.ndarray:
        """Terms ``g(c)`` for coefficients inside the domain."""
        out = np.empty(len(c))
        _write_values(*self, c, out)
        return out

    def loss(self, f: np.ndarray) -> np.ndarray:
        """Losses ``h(f) = max_c g(c) - c f`` for outputs inside the hard bounds."""
        out = np.empty(len(f))
        _write_losses(*self, f, out)
        return out

    def attained(self, f: np.ndarray) -> np.ndarray:
        """Coefficients on a breakpoint that attain the losses, ``g(c) - c f = h(f)``."""
        out = np.empty(len(f))
        _write_attained(*self, f, out)
        return out

    def dual(self, c: np.ndarray, u: np.ndarray) -> float:
        """Dual objective ``Σ g(c) - ½ c·u`` at coefficients with the image ``u``."""
        return dual_objective(*self, c, u)

    def bound_scale(self, f: np.ndarray) -> float:
        """Largest factor that brings ``f`` inside every hard bound.

        An unbounded tail of ``g`` is a hard bound in the primal: ``f <= s1`` where ``p0`` is
        infinite, ``f >= s3`` where ``p3`` is. Infinite if there is no such bound, or none in reach.
        """
        excess = _excess(*self, f)
        return 1.0 / excess if excess > 0.0 else np.inf

    @property
    def bounded(self) -> bool:
        """Whether some output has a hard bound."""
        return bool(np.isinf(self.breakpoints[:, [0, 3]]).any())


@uncounted
def write_slopes(p, s, c, right, left):
    """Write the right and left slopes at ``c``; infinite where ``c`` can go no further.

    The comparisons are exact: coefficients that reach a breakpoint are set to it.
    """
    for i in range(c.size):
        value = c[i]
        above = s[i, 0]
        below = s[i, 2]
        if value >= p[i, 1]:
            above = s[i, 1]
        if value >= p[i, 2]:
            above = s[i, 2]
        if value >= p[i, 3]:
            above = -np.inf
        if value <= p[i, 2]:
            below = s[i, 1]
        if value <= p[i, 1]:
            below = s[i, 0]
        if value <= p[i, 0]:
            below = np.inf
        right[i] = above
        left[i] = below


@uncounted
def term(p, s, i, c):
    """Term ``i``: the integral of its slope from 0 to ``c``."""
    row = np.uintp(i)
    total = 0.0
    for k in range(3):
        low, high = p[row, k], p[row, k + 1]
        total += s[row, k] * (min(max(c, low), high) - min(max(0.0, low), high))
    return total


@compiled
def _write_values(p, s, c, out):
    for i in range(c.size):
        out[i] = term(p, s, i, c[i])


@uncounted
def loss_and_slope(p, s, i, f):
    """Loss ``i`` and its derivative, which is minus the coefficient that attains it.

    That is the finite breakpoint nearest to where the slope of the term is ``f``.
    """
    row = np.uintp(i)
    if f > s[row, 1]:
        c = p[row, 0] if f > s[row, 0] and p[row, 0] > -np.inf else p[row, 1]
    else:
        c = p[row, 3] if f < s[row, 2] and p[row, 3] < np.inf else p[row, 2]
    # Most rows have no loss.
    return term(p, s, row, c) - c * f if c != 0.0 else 0.0, -c


@compiled
def _write_losses(p, s, f, out):
    for i in range(f.size):
        out[i] = loss_and_slope(p, s, i, f[i])[0]


@compiled
def _write_attained(p, s, f, out):
    for i in range(f.size):
        out[i] = -loss_and_slope(p, s, i, f[i])[1]


@uncounted
def _excess(p, s, f):
    """Largest ratio of an output to its hard bound; zero if there is none.

    A hard bound of zero is met by outputs on the right side of it only, whatever the factor.
    """
    excess = 0.0
    for i in range(f.size):
        if p[i, 0] == -np.inf and f[i] > 0.0:
            excess = max(excess, f[i] / s[i, 0] if s[i, 0] > 0.0 else np.inf)
        if p[i, 3] == np.inf and f[i] < 0.0:
            excess = max(excess, f[i] / s[i, 2] if s[i, 2] < 0.0 else np.inf)
    return excess


@uncounted
def dual_objective(p, s, c, u):
    """Dual objective ``Σ g(c) - ½ c·u``."""
    total = 0.0
    for i in range(c.size):
        total += term(p, s, i, c[i]) - 0.5 * c[i] * u[i]
    return total


def svm_pieces(y: np.ndarray, C: np.ndarray) -> Pieces:
    """Terms of the support vector machine: ``g(c) = y c`` for ``0 <= y c <= C``.

    The loss is ``C [1 - y f]_+``.
    """
    signs = np.where(y > 0, 1.0, -1.0)
    ends = signs * C
    breakpoints = np.empty((len(y), 4))
    breakpoints[:, :2] = np.minimum(ends, 0.0)[:, None]
    breakpoints[:, 2:] = np.maximum(ends, 0.0)[:, None]
    slopes = np.empty((len(y), 3))
    slopes[...] = signs[:, None]
    return Pieces(breakpoints, slopes)


def relative_margin_pieces(y: np.ndarray, C: np.ndarray, B: float) -> Pieces:
    """Terms of the relative margin machine with bound ``B >= 1``.

    With ``a = y c`` the term is ``g = clip(a, 0, C) - B ([-a]_+ + [a - C]_+)``: the SVM's
    term, continued beyond its ends with slopes ``B`` and ``-B``. The loss is the hinge
    ``C [1 - y f]_+`` under the hard bound ``|f| <= B``.
    """
    return relaxed_margin_pieces(y, C, B, np.inf)


def relaxed_margin_pieces(
    y: np.ndarray, C: np.ndarray, t: np.ndarray | float, U: np.ndarray | float
) -> Pieces:
    """Terms of the relative margin machine whose bound ``t >= 1`` may be exceeded.

    The terms of :func:`relative_margin_pieces` with ends: the outer pieces have length ``U``.
    The loss is ``C [1 - y f]_+ + U [|f| - t]_+``; an infinite ``U`` makes the bound hard.
    """
    breakpoints, slopes = svm_pieces(y, C)
    breakpoints[:, 0] -= U
    breakpoints[:, 3] += U
    slopes[:, 0] = t
    slopes[:, 2] = -t
    return Pieces(breakpoints, slopes)
