"""The hard margin with a kernel: Newton's method on the dual, begun at the analytic centre.

Without slack and with as many directions as rows, ``A^½ Q A^½ = r (I - ρ H)`` is almost ``r I``,
since ``ρ = 1 - r`` is small. With ``q_i = r / α_i`` the dual is ::

    max  r Σ ln α_i - |Σ α_i y_i φ_i|    s.t. Σ y_i α_i = 0

whose solution has ``α_i y_i (φ_i'w + b) = r``: the analytic centre of the version space, for one
factorisation per step. A few Newton steps on the dual itself lead from there to the solution
(Momma, Hatano and Nakayama, Ellipsoidal Support Vector Machines, ACML 2010, eq. 7).
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.blas import dsymv
from scipy.linalg.lapack import dpotrf, dpotrs
from scipy.optimize import brentq

from oblong.solvers.esvm.kernel.dual import KernelDual
from oblong.solvers.esvm.kernel.state import newton_matrix
from oblong.solvers.esvm.problem import Certified, EsvmProblem
from oblong.solvers.esvm.scaled_part import Part


def solve_from_centre(problem: EsvmProblem, part: Part, start: np.ndarray) -> Certified | None:
    """Solve for hard margins; None where that leads nowhere, as it does if there is none."""
    options, k = problem.options, part.length
    dual = KernelDual(problem, part, np.full(problem.n, 1e-10 * float(np.median(start))))
    newton = _Newton(dual)
    begun, last, gap, decrement = newton.centre(start), None, np.inf, np.inf
    if begun is None:
        return None
    alpha, bias = begun
    for _ in range(options.evaluations):
        problem.n_iter += 1
        # Kernel matrices of rows that nearly repeat each other lose the last digits of ``q``,
        # which the rows themselves have; in the matrix of a small step they do not matter.
        if np.isinf(gap):
            # Near the solution, changes of the value are rounding; the decrement has to fall.
            found = last = dual.evaluate(
                alpha, True, last if decrement > options.centre_near else None
            )
            if found is None:
                return None
            problem.report(found.gap)
            alpha, q, g = found.alpha, found.q, found.g
        step = newton.step(alpha, g, q, dual.inverse, bias)
        if step is None or step[1] > max(decrement, options.centre_near):
            return None
        move, decrement, bias = step
        alpha = alpha * (1.0 + move * min(1.0, 0.9999 / max(float(np.max(-move)), 1e-3)))
        # A step leaves about the square of itself, and the worst row decides on the gap; what
        # tends to zero has no say.
        if float(np.max(np.abs(move[move > -0.5]), initial=0.0)) ** 2 <= problem.tol:
            certified = dual.certify(alpha)
            problem.report(certified.gap / problem.unit)
            if certified.gap <= problem.tol * problem.unit:
                return certified
            if certified.gap > 0.5 * gap:
                return None
            gap, alpha, q = certified.gap, k * certified.alpha, certified.q / k
            g = dsymv(1.0, dual.K, problem.y * alpha, lower=1)
    return None


class _Newton:
    """Newton steps over the logarithms of the weights, at the centre's dual or at the dual."""

    def __init__(self, dual: KernelDual) -> None:
        self.dual, self.space = dual, np.empty(dual.K.shape)
        self.damping = 0.0

    def centre(self, alpha: np.ndarray) -> tuple[np.ndarray, float] | None:
        """Weights and bias near the analytic centre, by Newton steps with a search along each."""
        dual, problem = self.dual, self.dual.problem
        y, r, lengths = problem.y, problem.r, np.sqrt(dual.diagonal)
        least = problem.options.no_margin**2
        for _ in range(problem.options.centre_steps):
            problem.n_iter += 1
            g = dsymv(1.0, dual.K, y * alpha, lower=1)
            square = float((y * alpha) @ g)
            if not square > least * float(alpha @ lengths) ** 2:
                return None
            step = self.step(alpha, g, r / alpha)
            if step is None:
                return None
            move, decrement, bias = step
            if decrement <= 0.1:
                return alpha * (1.0 + move), bias
            signed = y * alpha * move
            c1, c2 = float(signed @ g), float(signed @ dsymv(1.0, dual.K, signed, lower=1))
            high = 0.999 / max(float(np.max(-move)), 1e-3)
            along = move, r, square, c1, c2
            rising = _slope(high, *along) > 0.0
            t = high if rising else brentq(_slope, 0.0, high, along, rtol=1e-3)
            alpha = alpha * (1.0 + t * move)
        return None

    def step(
        self,
        alpha: np.ndarray,
        g: np.ndarray,
        q: np.ndarray,
        inverse: np.ndarray | None = None,
        bias: float = 0.0,
    ) -> tuple[np.ndarray, float, float] | None:
        """Relative moves of the weights, decrement and bias; without an inverse, to the centre."""
        dual, space, n = self.dual, self.space, len(alpha)
        y, r, options = dual.problem.y, dual.problem.r, dual.problem.options
        signed = y * alpha
        along = signed * g
        square = float(along.sum())
        length = np.sqrt(square)
        by, less = 1.0 / length, 1.0 / (length * square)
        bend = (alpha * q) ** 2 / r
        own = by * alpha**2 * dual.diagonal - less * along**2 + bend
        if inverse is not None:
            # Curvature in the logarithms of weights, where it is larger: rows that say the same
            # share a weight, and Newton's method in the weights would go far below zero.
            slack = alpha * (y * (g / length + bias) - q)
            own += np.where(slack > options.centre_vanishing * bend, slack, 0.0)
        own = np.where(alpha > 0.0, own, 1.0)
        scale = 0.0 if inverse is None else np.sqrt(r) * dual.part.ridge
        H = dual.K if inverse is None else inverse
        terms = np.full(n, scale), signed, np.ones(n), along, by, less
        for damping in options.centre_dampings:
            if damping < self.damping:
                continue
            newton_matrix(dual.K.T, H.T, *terms, space)
            space.flat[:: n + 1] = own + damping * bend
            L, info = dpotrf(space.T, lower=1, clean=0, overwrite_a=1)
            if info == 0:
                break
            # Equal rows exchange their weights at no cost, and rounding gives that a sign.
        else:
            return None
        self.damping = damping
        right = alpha * q - along / length
        step = dpotrs(L, right, lower=1)[0]
        bias = 0.0
        if dual.problem.fit_intercept:
            across = dpotrs(L, signed, lower=1)[0]
            bias = float(signed @ step) / float(signed @ across)
            step -= bias * across
        decrement = float(step @ right)
        return (step, np.sqrt(max(decrement, 0.0)), bias) if np.isfinite(decrement) else None


def _slope(t: float, move: np.ndarray, r: float, square: float, c1: float, c2: float) -> float:
    """Slope of the centre's dual along a step, where ``|v|² = square + 2 c1 t + c2 t²``."""
    rest = max(square + t * (2.0 * c1 + c2 * t), np.finfo(float).tiny)
    return r * float(np.sum(move / (1.0 + t * move))) - (c1 + c2 * t) / np.sqrt(rest)
