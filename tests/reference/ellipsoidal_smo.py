"""The paper's sequential algorithm for the ellipsoidal support vector machine, misprints corrected.

Two weights at a time move along ``α += s (e_i - y_i y_j e_j)``, which keeps ``Σ y_i α_i``, to the
maximum of the dual (Momma, Hatano and Nakayama, Ellipsoidal Support Vector Machines, ACML 2010,
section 3.2). Along the pair, with ``Q_ij = √(π_i π_j) φ_i'B φ_j`` and ``ε = y_i y_j``, the dual
is ::

    r ln(1 + p1 s + p2 s²) - √(V + c1 s + c2 s²)
    p1 = (Q_ii - ε Q_jj) / r,  p2 = ε (Q_ij² - Q_ii Q_jj) / r²
    c1 = 2 y_i (g_i - g_j),    c2 = K_ii + K_jj - 2 K_ij,    g = K (y∘α),  V = |v|²

and ``Q`` changes by a matrix of rank two.
"""

from __future__ import annotations

import numpy as np

from oblong._core.compile import compiled
from oblong.linalg.log_det import inverse_factor
from oblong.solvers.esvm.problem import Certified, EsvmProblem, balanced

# Steps after which the products are computed anew, and after which the gap is.
REFRESH, SWEEP = 2000, 500
# Length of ``v`` over ``Σ α |φ|`` below which there is nothing to divide by.
VANISHES = 1e-9
# Sweeps without a better gap after which it stops.
PATIENCE = 100
STEPS_PER_ROW = 1000


def sequential_ellipsoidal_svm(
    F: np.ndarray,
    y: np.ndarray,
    caps: np.ndarray,
    pi: np.ndarray,
    r: float,
    tol: float = 1e-6,
    max_iter: int | None = None,
    refresh: int = REFRESH,
) -> tuple[Certified, str]:
    """The solution for rows of which every one has a cap, finite or not, and an intercept."""
    limit = STEPS_PER_ROW * len(F) if max_iter is None else max_iter
    return _solve(EsvmProblem(F, y, caps, pi, r, True, tol, limit), refresh)


def _solve(problem: EsvmProblem, refresh: int) -> tuple[Certified, str]:
    """Move pairs of weights.

    The weights must determine ``w``: where ``v`` tends to zero, the algorithm stalls.
    """
    F = np.asarray(problem.F, dtype=np.float64)
    K = F @ F.T
    y, caps = problem.y, problem.caps
    target = problem.tol * problem.unit
    alpha = _start(problem)
    lengths = np.sqrt(K.diagonal())
    fresh = max(refresh, problem.n)
    least, idle, since, Q = np.inf, 0, fresh, np.empty((0, 0))
    while True:
        if since >= fresh:
            Q, since = _products(problem, F, alpha), 0
        g = K @ (y * alpha)
        V = float((y * alpha) @ g)
        gap = _gap(problem, alpha, Q.diagonal(), g, V)
        problem.report(gap / problem.unit)
        idle = 0 if gap < least else idle + 1
        least = min(gap, least)
        status = ""
        if gap <= target:
            found = problem.certify(alpha)
            if found.gap <= target:
                return found, "converged"
            since = fresh
        elif idle >= PATIENCE or (np.sqrt(max(V, 0.0)) <= VANISHES * float(alpha @ lengths)):
            status = "stalled"
        if problem.n_iter >= problem.max_iter:
            status = "max_iter"
        if not status:
            steps = min(SWEEP, problem.max_iter - problem.n_iter)
            done = _sweep(K, Q, y, caps, alpha, g, V, problem.r, steps)
            problem.n_iter += done
            since += done
            status = "" if done else "stalled"
        if status:
            found = problem.certify(alpha)
            return found, "converged" if found.gap <= target else status


def _gap(problem: EsvmProblem, alpha: np.ndarray, q: np.ndarray, g: np.ndarray, V: float) -> float:
    """The gap by the products that are kept, at no cost."""
    if V <= 0.0:
        return np.inf
    length = float(np.sqrt(V))
    outputs = g / length
    outputs += problem.biases(q, outputs)[-1]
    return problem.gap(alpha, q, outputs, length)


def _start(problem: EsvmProblem) -> np.ndarray:
    """Equal weights well inside the caps, of the size that has ``Σ α q`` near ``r p / 2``."""
    y, caps = problem.y, problem.caps
    share = np.where(y > 0, 1.0 / np.sum(y > 0), 1.0 / np.sum(y < 0))
    squares = np.einsum("ij,ij->i", problem.F, problem.F, dtype=np.float64)
    trace = float(share @ (problem.pi * squares))
    size = problem.unit / max(trace, np.finfo(float).tiny)
    return balanced(np.minimum(size * share, 0.5 * caps), y)


def _products(problem: EsvmProblem, F: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """``Q`` as the dot products of vectors, which keeps it positive semidefinite."""
    M, _ = problem.moments(alpha)
    G, _ = inverse_factor(M)
    Z = (F * np.sqrt(problem.r * problem.pi)[:, None]) @ G.T
    return Z @ Z.T


@compiled
def _slope(p1, p2, c1, c2, V, r, s):
    """First and second derivative of the dual along a pair; zero bend outside its domain."""
    inner = 1.0 + s * (p1 + p2 * s)
    square = V + s * (c1 + c2 * s)
    if inner <= 0.0 or square <= 0.0:
        return -s, 0.0
    root = square**0.5
    rise, fall = p1 + 2.0 * p2 * s, c1 + 2.0 * c2 * s
    slope = r * rise / inner - 0.5 * fall / root
    bend = r * (2.0 * p2 * inner - rise * rise) / inner**2
    return slope, bend - c2 / root + 0.25 * fall * fall / (root * square)


@compiled
def _best_move(p1, p2, c1, c2, V, r, bound):
    """Maximise the dual along a pair between zero and ``bound``: Newton steps inside a bracket."""
    low, high = 0.0, bound
    if abs(bound) < 1e300:
        slope, bend = _slope(p1, p2, c1, c2, V, r, bound)
        if slope * bound >= 0.0 and bend < 0.0:
            return bound
    s = 0.0
    for _ in range(80):
        slope, bend = _slope(p1, p2, c1, c2, V, r, s)
        if slope * bound > 0.0:
            low = s
        else:
            high = s
        step = s - slope / bend if bend < 0.0 else high
        if (step - low) * bound <= 0.0 or (high - step) * bound <= 0.0:
            step = 0.5 * (low + high) if abs(high) < 1e300 else 2.0 * s + (1 if bound > 0 else -1)
        if abs(step - s) <= 1e-12 * abs(step):
            return step
        s = step
    return s


@compiled
def _sweep(K, Q, y, caps, alpha, g, V, r, steps):
    """Move up to ``steps`` pairs; return how many were moved."""
    n = len(y)
    for step in range(steps):
        root = V**0.5
        i, j = -1, -1
        lowest, highest = np.inf, -np.inf
        for k in range(n):
            h = g[k] / root - y[k] * Q[k, k]
            rises, falls = alpha[k] < caps[k], alpha[k] > 0.0
            if (rises if y[k] > 0 else falls) and h < lowest:
                lowest, i = h, k
            if (falls if y[k] > 0 else rises) and h > highest:
                highest, j = h, k
        if i < 0 or j < 0 or highest <= lowest:
            return step
        sign = y[i] * y[j]
        p1 = (Q[i, i] - sign * Q[j, j]) / r
        p2 = sign * (Q[i, j] ** 2 - Q[i, i] * Q[j, j]) / r**2
        c1 = 2.0 * y[i] * (g[i] - g[j])
        c2 = K[i, i] + K[j, j] - 2.0 * K[i, j]
        # The dual rises with y_i s: to the first bound on the way, which is then met exactly.
        first_room = caps[i] - alpha[i] if y[i] > 0 else alpha[i]
        second_room = alpha[j] if y[j] > 0 else caps[j] - alpha[j]
        s = _best_move(p1, p2, c1, c2, V, r, y[i] * min(first_room, second_room))
        if s == 0.0:
            return step
        alpha[i] += s
        alpha[j] -= sign * s
        if abs(s) >= first_room:
            alpha[i] = caps[i] if y[i] > 0 else 0.0
        if abs(s) >= second_room:
            alpha[j] = 0.0 if y[j] > 0 else caps[j]
        # Q - Q_P (diag(r/s, -ε r/s) + Q_PP)^-1 Q_P'
        a, d, c = Q[i, i] + r / s, Q[j, j] - sign * r / s, Q[i, j]
        det = a * d - c * c
        a, d, c = d / det, a / det, -c / det
        first, second = Q[i].copy(), Q[j].copy()
        for k in range(n):
            left = a * first[k] + c * second[k]
            right = c * first[k] + d * second[k]
            row = Q[k]
            for m in range(n):
                row[m] -= left * first[m] + right * second[m]
        move = s * y[i]
        to, since = K[i], K[j]
        for k in range(n):
            g[k] += move * (to[k] - since[k])
        V += s * (c1 + c2 * s)
        if V <= 0.0:
            return step + 1
    return steps
