"""The concave piecewise-linear terms in which one margin problem differs from another.

Each sample has a term ``g(c)`` of its signed coefficient ``c``: breakpoints
``p0 <= p1 <= p2 <= p3``, slopes ``s1 >= s2 >= s3`` between them, minus infinity outside
``[p0, p3]``, and ``g(0) = 0``. Its conjugate ``h(f) = max_c g(c) - c f`` is the loss that the
sample's output ``f`` pays in the primal problem.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from oblong._native import margin as native


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
        native.write_slopes(*self, c, right, left)
        return right, left

    def value(self, c: np.ndarray) -> np.ndarray:
        """Terms ``g(c)`` for coefficients inside the domain."""
        out = np.empty(len(c))
        native.write_values(*self, c, out)
        return out

    def loss(self, f: np.ndarray) -> np.ndarray:
        """Losses ``h(f) = max_c g(c) - c f`` for outputs inside the hard bounds."""
        out = np.empty(len(f))
        native.write_losses(*self, f, out)
        return out

    def attained(self, f: np.ndarray) -> np.ndarray:
        """Coefficients on a breakpoint that attain the losses, ``g(c) - c f = h(f)``."""
        out = np.empty(len(f))
        native.write_attained(*self, f, out)
        return out

    def dual(self, c: np.ndarray, u: np.ndarray) -> float:
        """Dual objective ``Σ g(c) - ½ c·u`` at coefficients with the image ``u``."""
        return native.dual_objective(*self, c, u)

    def bound_scale(self, f: np.ndarray) -> float:
        """Largest factor that brings ``f`` inside every hard bound.

        An unbounded tail of ``g`` is a hard bound in the primal: ``f <= s1`` where ``p0`` is
        infinite, ``f >= s3`` where ``p3`` is. Infinite if there is no such bound, or none in reach.
        """
        p, s = self
        excess = 0.0
        # A hard bound of zero is met by outputs on the right side of it only, whatever the factor.
        with np.errstate(divide="ignore", invalid="ignore"):
            for end, slope, side in ((p[:, 0], s[:, 0], 1.0), (p[:, 3], s[:, 2], -1.0)):
                beyond = np.isinf(end) & (side * f > 0.0)
                bound = np.maximum(side * slope[beyond], 0.0)
                excess = max(excess, float((side * f[beyond] / bound).max(initial=0.0)))
        return 1.0 / excess if excess > 0.0 else np.inf

    @property
    def bounded(self) -> bool:
        """Whether some output has a hard bound."""
        return bool(np.isinf(self.breakpoints[:, [0, 3]]).any())


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
