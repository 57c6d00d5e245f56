"""The hard margin with a kernel: Newton's method on the dual, begun at the analytic centre.

Without slack and with as many directions as rows, ``A^½ Q A^½ = r (I - ρ H)`` is almost ``r I``,
since ``ρ = 1 - r`` is small. With ``q_i = r / α_i`` the dual is ::

    max  r Σ ln α_i - |Σ α_i y_i φ_i|    s.t. Σ y_i α_i = 0

whose solution has ``α_i y_i (φ_i'w + b) = r``: the analytic centre of the version space, at the
price of one factorisation per step. It is feasible for the hard margin, because ``q_i`` is at most
``r / α_i``, and a few Newton steps on the dual itself lead from there to the solution
(Momma, Hatano and Nakayama, Ellipsoidal Support Vector Machines, ACML 2010, eq. 7).
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.blas import dsymv
from scipy.linalg.lapack import dpotrf, dpotrs

from oblong.solvers.esvm.kernel.dual import KernelDual
from oblong.solvers.esvm.kernel.state import newton_matrix
from oblong.solvers.esvm.problem import Certified, EsvmProblem
from oblong.solvers.esvm.scaled_part import Part

__all__ = ["solve_from_centre"]

# Newton steps to the centre, and evaluations of the dual after that; more would be wasted where the
# interior point method has to start afresh.
_STEPS, _EVALUATIONS = 40, 9
# Certificates to try.
_CERTIFICATES = 4
# Newton decrement at which the centre is reached.
_CENTRED = 0.1
# What the diagonal of the Newton matrix may get where rounding makes that necessary.
_MORE = (0.0, 1e-12, 1e-10)
# Bound on the margin, in mean lengths of rows, below which there is none to be found here.
_NO_MARGIN = 1e-7
# Largest share of the Newton decrement that a step may leave.
_LEFT = 1.0
# Share of the way to zero that a weight may go.
_TO_ZERO = 0.9999
# Weights that count as zero, over the usual ones.
_NOTHING = 1e-10


def solve_from_centre(problem: EsvmProblem, part: Part, start: np.ndarray) -> Certified | None:
    """Solve for hard margins; None where that leads nowhere, as it does if there is none."""
    dual = KernelDual(problem, part, np.full(problem.n, _NOTHING * float(np.median(start))))
    space = np.empty((problem.n, problem.n))
    begun, last, decrement = _centre(dual, start, space), None, np.inf
    if begun is None:
        return None
    alpha, bias = begun
    for _ in range(_EVALUATIONS):
        if problem.n_iter >= problem.max_iter:
            return None
        problem.n_iter += 1
        found = dual.evaluate(alpha, True, last, _NO_MARGIN)
        if found is None:
            return None
        problem.report(found.gap)
        step = _newton(dual, found.alpha, found.g, dual.inverse, found.q, space, bias)
        if step is None or step[1] > _LEFT * decrement:
            return None
        move, decrement, bias = step
        alpha = _moved(found.alpha, move)
        # A step leaves about the square of itself, and the worst row decides on the gap; what
        # tends to zero has no say.
        if float(np.max(np.abs(move[move > -0.5]), initial=0.0)) ** 2 <= problem.tol:
            return _refined(dual, alpha, space, bias)
        last = found
    return None


def _refined(
    dual: KernelDual, alpha: np.ndarray, space: np.ndarray, bias: float
) -> Certified | None:
    """Certify, and correct by Newton steps with the precise ``q`` of the certificate.

    Kernel matrices of rows that nearly repeat each other lose the last digits, which the rows
    themselves still have; for the Newton matrix of a small step these do not matter.
    """
    problem, k = dual.problem, dual.part.length
    last = np.inf
    for _ in range(_CERTIFICATES):
        found = dual.certify(alpha)
        if found.gap <= problem.tol * problem.unit:
            return found
        if found.gap > 0.5 * last or problem.n_iter >= problem.max_iter:
            return None
        last = found.gap
        problem.n_iter += 1
        problem.report(last / problem.unit)
        alpha = k * found.alpha
        g = dsymv(1.0, dual.K, problem.y * alpha, lower=1)
        step = _newton(dual, alpha, g, dual.inverse, found.q / k, space, bias)
        if step is None:
            return None
        alpha, bias = _moved(alpha, step[0]), step[2]
    return None


def _moved(alpha: np.ndarray, move: np.ndarray) -> np.ndarray:
    """Weights after a step relative to them, all positive."""
    return alpha * (1.0 + move * min(1.0, _TO_ZERO / max(float(np.max(-move)), 1e-3)))


def _centre(
    dual: KernelDual, alpha: np.ndarray, space: np.ndarray
) -> tuple[np.ndarray, float] | None:
    """Weights and bias near the analytic centre, by Newton steps with a search along each."""
    problem = dual.problem
    y, lengths = problem.y, np.sqrt(dual.diagonal)
    for _ in range(_STEPS):
        if problem.n_iter >= problem.max_iter:
            return None
        problem.n_iter += 1
        g = dsymv(1.0, dual.K, y * alpha, lower=1)
        square = float((y * alpha) @ g)
        if not square > (_NO_MARGIN * float(alpha @ lengths)) ** 2:
            return None
        step = _newton(dual, alpha, g, None, problem.r / alpha, space)
        if step is None:
            return None
        move, decrement, bias = step
        t = 1.0
        if decrement > _CENTRED:
            t = _search(move, y * alpha * move, g, square, dual.K, problem.r)
        alpha = alpha * (1.0 + t * move)
        if decrement <= _CENTRED:
            return alpha, bias
    return None


def _newton(
    dual: KernelDual,
    alpha: np.ndarray,
    g: np.ndarray,
    inverse: np.ndarray | None,
    q: np.ndarray,
    space: np.ndarray,
    bias: float = 0.0,
) -> tuple[np.ndarray, float, float] | None:
    """The Newton step over the weights, its decrement and the next bias.

    Without the inverse, the step to the centre.
    """
    y, r, ridge = dual.problem.y, dual.problem.r, dual.part.ridge
    signed = y * alpha
    square = float(signed @ g)
    length = np.sqrt(square)
    along = signed * g
    n, by, less = len(alpha), 1.0 / length, 1.0 / (length * square)
    H = dual.K if inverse is None else inverse
    scale = np.full(n, 0.0 if inverse is None else np.sqrt(r) * ridge)
    own = by * alpha**2 * dual.diagonal - less * along**2
    if inverse is not None:
        # Curvature in the logarithms of weights, where it is larger: rows that say the same share
        # a weight, and Newton's method in the weights themselves would go far below zero.
        own += alpha * np.maximum(y * (g / length + bias) - q, 0.0)
    own = np.where(alpha > 0.0, own + (alpha * q) ** 2 / r, 1.0)
    for more in _MORE:
        newton_matrix(dual.K.T, H.T, scale, signed, np.ones(n), along, by, less, space)
        space.flat[:: n + 1] = own * (1.0 + more)
        L, info = dpotrf(space.T, lower=1, clean=0, overwrite_a=1)
        if info == 0:
            break
    else:
        return None
    right = alpha * q - along / length
    step, bias = dpotrs(L, right, lower=1)[0], 0.0
    if dual.problem.fit_intercept:
        across = dpotrs(L, signed, lower=1)[0]
        bias = float(signed @ step) / float(signed @ across)
        step -= bias * across
    decrement = float(step @ right)
    return (step, np.sqrt(max(decrement, 0.0)), bias) if np.isfinite(decrement) else None


def _search(
    move: np.ndarray, signed: np.ndarray, g: np.ndarray, square: float, K: np.ndarray, r: float
) -> float:
    """Maximise the dual of the centre along a step: bisection of its slope."""
    c1, c2 = 2.0 * float(signed @ g), float(signed @ dsymv(1.0, K, signed, lower=1))
    low, high = 0.0, 0.999 / max(float(np.max(-move)), 1e-3)

    def slope(t: float) -> float:
        rest = max(square + t * (c1 + c2 * t), np.finfo(float).tiny)
        return r * float(np.sum(move / (1.0 + t * move))) - (0.5 * c1 + c2 * t) / np.sqrt(rest)

    if slope(high) > 0.0:
        return high
    for _ in range(20):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if slope(middle) > 0.0 else (low, middle)
    return 0.5 * (low + high)
