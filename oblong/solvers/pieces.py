"""The concave piecewise-linear terms that tell one margin machine from another.

Each sample has a term ``g(c)`` of its signed coefficient ``c``: breakpoints
``p0 <= p1 <= p2 <= p3``, slopes ``s1 >= s2 >= s3`` between them, minus infinity outside
``[p0, p3]``, and ``g(0) = 0``. Its conjugate ``h(f) = max_c g(c) - c f`` is the loss that the
sample's output ``f`` pays in the primal problem.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

__all__ = ["Pieces", "relative_margin_pieces", "relaxed_margin_pieces", "svm_pieces"]


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
        """Right and left slopes at ``c``; infinite where ``c`` can go no further.

        The comparisons are exact: coefficients that reach a breakpoint are set to it.
        """
        p, s = self.breakpoints, self.slopes
        # Counting passed breakpoints numbers the piece to the right or left of c.
        padded = np.column_stack([np.full(len(c), np.inf), s, np.full(len(c), -np.inf)])
        every = np.arange(len(c))
        right = padded[every, (c[:, None] >= p).sum(axis=1)]
        left = padded[every, (c[:, None] > p).sum(axis=1)]
        return right, left

    def _values(self) -> tuple[np.ndarray, np.ndarray]:
        """Finite stand-ins for the breakpoints, and the values of ``g`` there."""
        p = np.where(np.isfinite(self.breakpoints), self.breakpoints, 0.0)
        p[:, 0] = np.where(np.isfinite(self.breakpoints[:, 0]), p[:, 0], self.breakpoints[:, 1])
        p[:, 3] = np.where(np.isfinite(self.breakpoints[:, 3]), p[:, 3], self.breakpoints[:, 2])
        return p, self.value(p)

    def value(self, c: np.ndarray) -> np.ndarray:
        """Terms ``g(c)`` for coefficients of shape (n,) or (n, k) inside the domain."""
        p, s = self.breakpoints, self.slopes
        flat = c.ndim == 1
        c = c[:, None] if flat else c
        total = np.zeros(c.shape)
        for k in range(3):
            low, high = p[:, k, None], p[:, k + 1, None]
            # The length of piece k that lies between 0 and c, with its sign.
            length = np.clip(c, low, high) - np.clip(0.0, low, high)
            total += s[:, k, None] * length
        return total[:, 0] if flat else total

    def loss(self, f: np.ndarray) -> np.ndarray:
        """Losses ``h(f) = max_c g(c) - c f`` for outputs inside the hard bounds."""
        p, values = self._values()
        return (values - p * f[:, None]).max(axis=1)

    def bound_scale(self, f: np.ndarray) -> float:
        """Largest factor of at most one that brings ``f`` inside every hard bound.

        An unbounded tail of ``g`` is a hard bound in the primal: ``f <= s1`` where ``p0`` is
        infinite, ``f >= s3`` where ``p3`` is.
        """
        excess = 1.0
        upper = np.isinf(self.breakpoints[:, 0])
        lower = np.isinf(self.breakpoints[:, 3])
        if upper.any():
            excess = max(excess, float((f[upper] / self.slopes[upper, 0]).max()))
        if lower.any():
            excess = max(excess, float((f[lower] / self.slopes[lower, 2]).max()))
        return 1.0 / excess


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
