"""The hard margin with a kernel: Newton's method on the dual, begun at the analytic centre.

Without slack and with as many directions as rows, ``α_i q_i`` is almost ``r``, since ``ρ = 1 - r``
is small. With ``q_i = r / α_i`` the dual is ::

    max  r Σ ln α_i - |Σ α_i y_i φ_i|    s.t. Σ y_i α_i = 0

whose solution has ``α_i y_i (φ_i'w + b) = r``: the analytic centre of the version space, for one
factorisation per step. A few Newton steps on the dual itself lead from there to the solution
(Momma, Hatano and Nakayama, Ellipsoidal Support Vector Machines, ACML 2010, eq. 7).

Rows that others nearly determine have weights that are zero, or a million times the usual ones.
The kernel matrix has lost the digits that tell such rows apart, which the rows themselves have:
with the factor ``M = C C'`` of the moments the rows ``W = A^½ F C^-T`` have ``α_i q_i = r |W_i|²``
and ``A^½ Q A^½ = r W W'``. And ``v = Σ α_i y_i φ_i`` is a small difference of large numbers, so
that it moves by its own steps, and is not computed anew.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg.blas import dtrsm
from scipy.linalg.lapack import dpotrf, dpotrs, spotrf, spotrs
from scipy.optimize import brentq

from oblong.solvers.esvm.kernel.state import newton_matrix
from oblong.solvers.esvm.problem import Certified, EsvmProblem
from oblong.solvers.esvm.scaled_part import Part

# Rows of a block of matrices.
_BLOCK = 64


def solve_from_centre(problem: EsvmProblem) -> Certified | None:
    """Solve for hard margins; None where that leads nowhere, as it does if there is none."""
    options, dual = problem.options, CentredDual(problem)
    start = dual.part.ray()
    alpha, least = dual.centre(start), 1e-10 * float(np.median(start))
    problem.n_iter = dual.problem.n_iter
    if alpha is None:
        return None
    v, last, best, idle, decrement = (dual.y * alpha) @ dual.F, None, np.inf, 0, np.inf
    for _ in range(options.centre_evaluations):
        problem.n_iter += 1
        # Near the solution, changes of the value are rounding.
        found = last = dual.evaluate(alpha, v, last if decrement > options.centre_near else None)
        if found is None:
            return None
        problem.report(found.gap)
        step = dual.step(found, least)
        if step is None or idle > options.patience:
            return None
        move, decrement = step
        idle = 0 if decrement < 0.9 * best else idle + 1
        best = min(best, decrement)
        alpha, v = found.alpha * (1.0 + move), found.v + (dual.y * found.alpha * move) @ dual.F
        # A step leaves about the square of itself, and the worst row decides on the gap; what
        # tends to zero has no say.
        if float(np.max(np.abs(move[move > -0.5]), initial=0.0)) ** 2 <= problem.tol:
            weights, w = np.empty(problem.n), v[::-1] / np.linalg.norm(v)
            weights[dual.order] = np.where(alpha > 2.0 * least, alpha, 0.0) / dual.part.length
            certified = problem.certify(weights, w)
            if certified.gap <= problem.tol * problem.unit:
                return certified
    return None


@dataclass(frozen=True)
class _Evaluation:
    """The dual at given weights: ``v``, ``q``, the value, and the gap over ``r p``."""

    alpha: np.ndarray
    v: np.ndarray
    q: np.ndarray
    value: float
    gap: float


class CentredDual:
    """The dual of a hard margin, its rows in an order in which most blocks have zeros in front.

    Coordinates by a Cholesky factor of the kernel matrix are triangular in the order of its pivots,
    and the moments of their columns from the last to the first have a factor of the same form.
    """

    def __init__(self, problem: EsvmProblem) -> None:
        F = problem.F[:, ::-1]
        zeros = np.argmax(F != 0.0, axis=1)
        self.order = order = np.argsort(-zeros, kind="stable")
        F = np.ascontiguousarray(F[order])
        self.problem = replace(problem, F=F, y=problem.y[order], pi=problem.pi[order])
        self.part = Part(self.problem, None, None)
        self.F, self.y = self.part.F, self.problem.y
        n, p = problem.n, problem.p
        # Rows of a block with the zeros in front of all of them; columns with the rows above all
        # of which they have nothing but zeros.
        cuts = [slice(i, i + _BLOCK) for i in range(0, n, _BLOCK)]
        self._rows = [(rows, int(zeros[order[rows]][-1])) for rows in cuts]
        cuts = [slice(i, i + _BLOCK) for i in range(0, p, _BLOCK)]
        self._columns = [(part, int(np.sum(zeros >= min(part.stop, p)))) for part in cuts]
        self._K, self._P, self._N = (np.empty((n, n)) for _ in range(3))
        _products(self.F, self._rows, self._K)
        self._diagonal = self._K.diagonal().copy()
        self._damping, self._bias, self._single = 0.0, 0.0, True

    def evaluate(
        self, alpha: np.ndarray, v: np.ndarray, last: _Evaluation | None
    ) -> _Evaluation | None:
        """Evaluate the dual, half way back to the last weights until it is no worse than there.

        None if rounding leaves no factor, or ``v`` is too short to be followed.
        """
        problem, part, r = self.problem, self.part, self.problem.r
        p = problem.p
        for _ in range(8):
            T, M = self.F * np.sqrt(alpha * part.pi)[:, None], np.empty((p, p))
            _products(T.T, self._columns, M)
            M.flat[:: p + 1] += part.ridge
            C, info = dpotrf(M.T, lower=1, clean=0, overwrite_a=1)
            length = float(np.linalg.norm(v))
            if info != 0 or length <= problem.options.no_margin * float(alpha.sum()):
                return None
            value = 2.0 * r * float(np.log(C.diagonal()).sum()) - length
            if last is None or value >= last.value - 1e-9 * problem.unit:
                break
            alpha, v = 0.5 * (alpha + last.alpha), 0.5 * (v + last.v)
        else:
            return None
        for rows, first in self._rows:
            inside = C[first:, first:]
            T[rows, first:] = dtrsm(1.0, inside, T[rows, first:], side=1, lower=1, trans_a=1)
        _products(T, self._rows, self._P)
        q = r * np.einsum("ij,ij->i", T, T) / alpha
        # The problem as it was given has weights α / k, and q and outputs larger by k.
        k = part.length
        outputs = (self.F @ v) * (k / length)
        outputs += problem.biases(k * q, outputs)[-1]
        gap = problem.gap(alpha / k, k * q, outputs, length) / problem.unit
        return _Evaluation(alpha, v, q, value, gap)

    def centre(self, alpha: np.ndarray) -> np.ndarray | None:
        """Weights near the analytic centre, by Newton steps with a search along each."""
        problem, lengths = self.problem, np.sqrt(self._diagonal)
        for _ in range(problem.options.centre_steps):
            problem.n_iter += 1
            v = (self.y * alpha) @ self.F
            square = float(v @ v)
            if not square > (problem.options.no_margin * float(alpha @ lengths)) ** 2:
                return None
            step = self._step(alpha, v, problem.r / alpha, None)
            if step is None:
                return None
            move, decrement = step
            # Far away, half of the digits are enough.
            self._single = self._single and decrement > 2.0
            if decrement <= 0.1:
                return alpha * (1.0 + move)
            change = (self.y * alpha * move) @ self.F
            along = move, problem.r, square, float(change @ v), float(change @ change)
            high = 0.999 / max(float(np.max(-move)), 1e-3)
            rising = _slope(high, *along) > 0.0
            t = high if rising else brentq(_slope, 0.0, high, along, rtol=1e-3)
            alpha = alpha * (1.0 + t * move)
        return None

    def step(self, at: _Evaluation, least: float) -> tuple[np.ndarray, float] | None:
        """Relative moves of the weights, none of which falls below the least one; decrement."""
        return self._step(at.alpha, at.v, at.q, np.minimum(least / at.alpha - 1.0, 0.0))

    def _step(
        self, alpha: np.ndarray, v: np.ndarray, q: np.ndarray, low: np.ndarray | None
    ) -> tuple[np.ndarray, float] | None:
        """Moves down to their bounds; without bounds, those of the dual of the centre."""
        n, r, K = len(alpha), self.problem.r, self._K
        length, signed = float(np.linalg.norm(v)), self.y * alpha
        along = signed * (self.F @ v)
        right, bend = alpha * q - along / length, (alpha * q) ** 2 / r
        options, free, slack = self.problem.options, np.ones(n), np.zeros(n)
        if low is not None:
            # Curvature in the logarithms of weights, where it is larger: rows that say the same
            # share a weight. What is gone, and would fall further, stays where it is.
            slack = self._bias * signed - right
            free[(low > -0.5) & (slack > 0.0)] = 0.0
            slack[slack < options.centre_vanishing * bend] = 0.0
        right, signed, along = right * free, signed * free, along * free
        by, less = 1.0 / length, 1.0 / length**3
        own = by * alpha**2 * self._diagonal - less * along**2 + bend + slack
        own[free == 0.0] = 1.0
        scale = free * (0.0 if low is None else np.sqrt(r))
        dampings = [d for d in options.centre_dampings if d >= self._damping]
        for damping in dampings[:1] * self._single + dampings:
            kind, potrf = (np.float32, spotrf) if self._single else (np.float64, dpotrf)
            N = self._N.view(kind).ravel()[: n * n].reshape(n, n)
            newton_matrix(K, K if low is None else self._P, scale, signed, free, along, by, less, N)
            N.flat[:: n + 1] = own + damping * bend
            L, info = potrf(N.T, lower=1, clean=0, overwrite_a=1)
            if info == 0:
                break
            # Equal rows exchange their weights at no cost, and rounding gives that a sign.
            self._single = False
        else:
            return None
        self._damping = damping
        move = self._within(L, right, signed, np.full(n, -np.inf) if low is None else low)
        if move is None or not np.isfinite(move).all():
            return None
        return move, max(float(move @ right), 0.0) ** 0.5

    def _within(
        self, L: np.ndarray, right: np.ndarray, signed: np.ndarray, low: np.ndarray
    ) -> np.ndarray | None:
        """The maximum of a quadratic model within bounds, few of which matter.

        Rows below their bounds are put there, all at once, until no multiplier pulls the wrong way
        (block principal pivoting: Júdice and Pires, Computers & Operations Research 21, 1994).
        """
        m, potrs = int(self.problem.fit_intercept), spotrs if self._single else dpotrs
        start, sides = potrs(L, right, lower=1)[0], signed[:, None][:, :m]
        images = potrs(L, sides, lower=1)[0] if m else sides
        tried, held = np.empty(0, dtype=int), np.ones(m, dtype=bool)
        for _ in range(self.problem.options.centre_rounds):
            inner = np.vstack([sides.T @ images, images[tried]])[held][:, held]
            wanted = np.append(-sides.sum(axis=0) - sides.T @ start, low[tried] - start[tried])
            try:
                forces = np.linalg.solve(inner, wanted[held])
            except np.linalg.LinAlgError:
                # All of a class are at their bounds.
                return None
            move = start + images[:, held] @ forces
            held[held] = np.append(np.ones(m, dtype=bool), forces[m:] > 0.0)
            below = move < low - 1e-9
            pulls = len(forces) > held.sum()
            held[m:] |= below[tried]
            below[tried] = False
            new = np.flatnonzero(below)
            if not (pulls or len(new)):
                break
            unit = np.zeros((len(right), len(new)), order="F")
            unit[new, np.arange(len(new))] = 1.0
            images = np.column_stack([images, potrs(L, unit, lower=1)[0]])
            tried, held = np.append(tried, new), np.append(held, np.ones(len(new), dtype=bool))
        if m:
            self._bias = -float(forces[0])
        return np.maximum(move, low)


def _products(X: np.ndarray, blocks: list[tuple[slice, int]], out: np.ndarray) -> None:
    """Upper triangle of ``X X'``, where blocks of rows have zeros in front, the next ones fewer."""
    for rows, first in blocks:
        out[rows, rows.start :] = X[rows, first:] @ X[rows.start :, first:].T


def _slope(t: float, move: np.ndarray, r: float, square: float, c1: float, c2: float) -> float:
    """Slope of the centre's dual along a step, where ``|v|² = square + 2 c1 t + c2 t²``."""
    rest = max(square + t * (2.0 * c1 + c2 * t), np.finfo(float).tiny)
    return r * float(np.sum(move / (1.0 + t * move))) - (c1 + c2 * t) / np.sqrt(rest)
