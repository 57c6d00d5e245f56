"""The concave piecewise-linear terms that tell one margin machine from another.

Each sample has a term ``g(c)`` of its signed coefficient ``c``: breakpoints
``p0 <= p1 <= p2 <= p3``, slopes ``s1 >= s2 >= s3`` between them, minus infinity outside
``[p0, p3]``, and ``g(0) = 0``. Its conjugate ``h(f) = max_c g(c) - c f`` is the loss that the
sample's output ``f`` pays in the primal problem.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from oblong._compile import compiled

__all__ = [
    "Pieces",
    "relative_margin_pieces",
    "relaxed_margin_pieces",
    "svm_pieces",
    "write_slopes",
]


class Pieces(NamedTuple):
    """Breakpoints and slopes of one concave piecewise-linear term a sample.

    Attributes
    ----------
    breakpoints : ndarray of shape (n, 4)
        Ascending; the first and last may be infinite.
    slopes : ndarray of shape (n, 3)
        Descending; slope ``k`` holds between breakpoints ``k`` and ``k + 1``.
    """

    breakpoints: np.ndarray
    slopes: np.ndarray

    def take(self, rows: np.ndarray) -> Pieces:
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

    def bound_scale(self, f: np.ndarray) -> float:
        """Largest factor of at most one that brings ``f`` inside every hard bound.

        An unbounded tail of ``g`` is a hard bound in the primal: ``f <= s1`` where ``p0`` is
        infinite, ``f >= s3`` where ``p3`` is.
        """
        return 1.0 / _excess(*self, f)


@compiled
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


@compiled
def _term(p, s, c):
    """One term: the integral of its slope from 0 to ``c``."""
    total = 0.0
    for k in range(3):
        total += s[k] * (min(max(c, p[k]), p[k + 1]) - min(max(0.0, p[k]), p[k + 1]))
    return total


@compiled
def _write_values(p, s, c, out):
    for i in range(c.size):
        out[i] = _term(p[i], s[i], c[i])


@compiled
def _write_losses(p, s, f, out):
    for i in range(f.size):
        best = -np.inf
        for k in range(4):
            corner = p[i, k]
            if abs(corner) < np.inf:
                best = max(best, _term(p[i], s[i], corner) - corner * f[i])
        out[i] = best


@compiled
def _excess(p, s, f):
    excess = 1.0
    for i in range(f.size):
        if p[i, 0] == -np.inf:
            excess = max(excess, f[i] / s[i, 0])
        if p[i, 3] == np.inf:
            excess = max(excess, f[i] / s[i, 2])
    return excess


def svm_pieces(y: np.ndarray, C: np.ndarray) -> Pieces:
    """Terms of the support vector machine: ``g(c) = y c`` for ``0 <= y c <= C``.

    The loss is ``C [1 - y f]_+``.
    """
    zero = np.zeros(len(y))
    positive = y > 0
    low = np.where(positive, zero, -C)
    high = np.where(positive, C, zero)
    slopes = np.repeat(np.where(positive, 1.0, -1.0)[:, None], 3, axis=1)
    return Pieces(np.column_stack([low, low, high, high]), slopes)


def relative_margin_pieces(y: np.ndarray, C: np.ndarray, B: float) -> Pieces:
    """Terms of the relative margin machine with bound ``B >= 1``.

    With ``a = y c`` the term is ``g = clip(a, 0, C) - B ([-a]_+ + [a - C]_+)``: the SVM's
    term, continued beyond its ends with slopes ``B`` and ``-B``. The loss is the hinge
    ``C [1 - y f]_+`` under the hard bound ``|f| <= B``.
    """
    svm = svm_pieces(y, C)
    breakpoints = svm.breakpoints.copy()
    breakpoints[:, 0] = -np.inf
    breakpoints[:, 3] = np.inf
    bound = np.full(len(y), float(B))
    return Pieces(breakpoints, np.column_stack([bound, svm.slopes[:, 1], -bound]))


def relaxed_margin_pieces(y: np.ndarray, C: np.ndarray, t: float, U: np.ndarray) -> Pieces:
    """Terms of the relative margin machine whose bound ``t >= 1`` may be broken at a price.

    The terms of :func:`relative_margin_pieces` with ends: the outer pieces have length ``U``.
    The loss is ``C [1 - y f]_+ + U [|f| - t]_+``; an infinite ``U`` makes the bound hard.
    """
    svm = svm_pieces(y, C)
    breakpoints = svm.breakpoints.copy()
    breakpoints[:, 0] -= U
    breakpoints[:, 3] += U
    bound = np.full(len(y), float(t))
    return Pieces(breakpoints, np.column_stack([bound, svm.slopes[:, 1], -bound]))
