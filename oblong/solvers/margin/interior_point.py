"""Interior point steps for one block of the margin problem: the way out where pair steps crawl.

With large penalties or tight bounds pair steps zigzag for millions of steps, while an interior
point method takes ten to thirty Cholesky factors of the block, whatever the penalties.

Each coefficient is split at its breakpoints, ``c = p1 + α - β + δ``, with one variable per
piece: ``0 <= α <= p2 - p1``, ``0 <= β <= p1 - p0``, ``0 <= δ <= p3 - p2``. The term is then linear,
and the problem a quadratic program with simple bounds and one equation, solved by Mehrotra's
predictor and corrector. With the outputs ``f = u + b`` and the multipliers ``z`` and ``Z`` of the
lower and the upper bound of a variable ``v``, the reduced Newton system is ::

    (K + Θ⁻¹) Δc + Δb 1 = Θ⁻¹ ρ,    1'Δc = -(Σc - Σ),    Θ = Σ_v 1 / (z/v + Z/(U - v)).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from oblong._core.threads import released_blas
from oblong.solvers.margin.options import DEFAULTS, MarginOptions
from oblong.solvers.margin.problem import Pieces

# Fraction of the way to the boundary that a step goes.
_TO_BOUNDARY = 0.995
# Relative difference of dual objectives that does not matter.
_RELATIVE = 1e-6
# Added to the diagonal of the system, relative to its mean.
_RIDGE = 1e-14

# Changes of variables, and of the multipliers of their lower and upper bounds.
_Move = tuple[np.ndarray, np.ndarray, np.ndarray]


class _State:
    """Variables of all pieces one after the other, their multipliers, and the outputs."""

    def __init__(self, K: np.ndarray, pieces: Pieces, c: np.ndarray, u: np.ndarray) -> None:
        p, s = pieces
        self.K, self.total, self.outside = K, float(c.sum()), u - K @ c
        # Pieces of equal slope are one: split, they could grow against each other without end.
        low, high = s[:, 0] <= s[:, 1], s[:, 1] <= s[:, 2]
        self.base = np.where(low, p[:, 2], p[:, 1])
        lengths = np.array(
            [
                np.where(low | high, 0.0, p[:, 2] - p[:, 1]),
                np.where(low, p[:, 2] - p[:, 0], p[:, 1] - p[:, 0]),
                np.where(high & ~low, p[:, 3] - p[:, 1], p[:, 3] - p[:, 2]),
            ]
        )
        kind, self.rows = np.nonzero(lengths > 0.0)
        self.upper = lengths[kind, self.rows]
        self.finite = np.isfinite(self.upper)
        # +1 where the coefficient grows with the variable, else -1; slopes of the term along it.
        self.sign = np.array([1.0, -1.0, 1.0])[kind]
        self.slope = s[self.rows, np.array([1, 0, 2])[kind]]
        self.movable = np.zeros(len(c), dtype=bool)
        self.movable[self.rows] = True
        # Begin near zero coefficients, scaled so that the outputs are of the order of one.
        middle = 0.5 * (p[:, 1] + p[:, 2])
        c = middle / max(float(np.abs(K @ middle).max()), 1.0)
        # Bounds that do not exist, and those far away, say nothing of the scale, and leave nothing
        # to stay away from.
        scale = max(float(np.abs(c).max()), 1.0 / max(float(K.diagonal().max()), 1e-300))
        share = 1e-2 * np.minimum(self.upper, scale)
        highest = np.where(self.finite, 0.999 * self.upper, np.inf)
        self.v = np.clip(self.sign * (c - self.base)[self.rows], share, highest)
        self.b = 0.0
        self._evaluate()
        self.b = -0.5 * float(self.f.max() + self.f.min())
        self.f += self.b
        gradient = self.gradient()
        self.z = np.maximum(-gradient, 0.0) + 1.0
        self.Z = np.where(self.finite, np.maximum(gradient, 0.0) + 1.0, 0.0)

    def by_row(self, values: np.ndarray, start: np.ndarray | None = None) -> np.ndarray:
        """Sums of values of the variables, by row."""
        sums = np.zeros(len(self.base)) if start is None else start.copy()
        np.add.at(sums, self.rows, values)
        return sums

    @property
    def c(self) -> np.ndarray:
        return self.by_row(self.sign * self.v, self.base)

    @property
    def room(self) -> np.ndarray:
        """Distances from the upper bounds."""
        return self.upper - self.v

    @property
    def ease(self) -> np.ndarray:
        """How easily each variable moves."""
        return 1.0 / (self.z / self.v + self.Z / self.room)

    def _evaluate(self) -> None:
        self.f = self.outside + self.K @ self.c + self.b

    def gradient(self) -> np.ndarray:
        """Derivative of the dual by each variable, the bias as the multiplier of the sum."""
        return self.sign * (self.slope - self.f[self.rows])

    def products(self, step: float = 0.0, dv: Any = 0.0, dz: Any = 0.0, dZ: Any = 0.0) -> float:
        """Sum of the complementarity products after a step."""
        v = self.v + step * dv
        room = np.where(self.finite, self.upper - v, 0.0)
        return float(v @ (self.z + step * dz)) + float(room @ (self.Z + step * dZ))

    def doubt(self) -> float:
        """Duality gap, up to what the residuals hide: what all products and residuals are worth."""
        hidden = float(self.v @ np.abs(self.gradient() + self.z - self.Z))
        lost = abs(self.total - float(self.c.sum())) * (1.0 + abs(self.b))
        return self.products() + hidden + lost

    def step(self, ridge: float, attempts: int) -> float:
        """Take one predictor and corrector step; return its length, zero if there is none."""
        factor = _Factor(self, ridge, attempts)
        if factor.L is None:
            return 0.0
        total, count = self.products(), max(self.v.size + int(np.count_nonzero(self.finite)), 1)
        mu = total / count
        affine, _ = factor.direction(0.0, None)
        after = self.products(min(1.0, self.longest(affine)), *affine)
        centring = (max(after, 0.0) / count / mu) ** 3 if mu > 0.0 else 0.0
        move, bias = factor.direction(min(centring, 1.0) * mu, affine)
        length = min(1.0, _TO_BOUNDARY * self.longest(move))
        self.v, self.z, self.Z = (
            value + length * change for value, change in zip((self.v, self.z, self.Z), move)
        )
        self.b += length * bias
        self._evaluate()
        return length

    def longest(self, move: _Move) -> float:
        """Longest step that keeps all variables and multipliers positive."""
        dv, dz, dZ = move
        least = np.inf
        pairs = ((self.v, dv), (self.room, -dv), (self.z, dz), (self.Z, dZ))
        for value, change in pairs:
            falling = change < 0.0
            least = min(least, float((-value[falling] / change[falling]).min(initial=np.inf)))
        return least


class _Factor:
    """The factored system of one step."""

    def __init__(self, state: _State, ridge: float, attempts: int) -> None:
        self.state, self.ease, self.L = state, state.ease, None
        # Rows that cannot move have an endless curvature.
        theta = np.maximum(state.by_row(self.ease), 1e-300)
        self.inverse = np.where(state.movable, 1.0 / theta, 1e300)
        diagonal = state.K.diagonal()
        for _ in range(attempts):
            M = np.array(state.K, order="F")
            M.flat[:: len(M) + 1] = np.minimum(diagonal + self.inverse + ridge, 1e300)
            with released_blas(len(M)):
                L, failed = dpotrf(M, lower=True, clean=False, overwrite_a=True)
            if not failed:
                self.L = L
                self.ones = dpotrs(L, np.ones(len(M)), lower=True)[0]
                return
            ridge *= 100.0

    def direction(self, mu: float, affine: _Move | None) -> tuple[_Move, float]:
        """Changes of the variables, of their multipliers, and of the bias."""
        state = self.state
        low: float | np.ndarray = mu
        up: float | np.ndarray = mu
        if affine is not None:
            dv, dz, dZ = affine
            low, up = mu - dv * dz, mu + dv * dZ
        up = np.where(state.finite, up, 0.0)
        target = state.gradient() + low / state.v - up / state.room
        rho = state.by_row(state.sign * target * self.ease)
        missing = state.total - float(state.c.sum())
        first = dpotrs(self.L, rho * self.inverse * state.movable, lower=True)[0]
        bias = (float(first.sum()) - missing) / float(self.ones.sum())
        dc = np.where(state.movable, first - bias * self.ones, 0.0)
        # Equal to K Δc + Δb, but exact next to Δc where Θ is large.
        df = (rho - dc) * self.inverse
        dv = (target - state.sign * df[state.rows]) * self.ease
        dz = (low - state.z * dv) / state.v - state.z
        dZ = (up + state.Z * dv) / state.room - state.Z
        return (dv, dz, dZ), bias


def interior_point(
    K: np.ndarray,
    pieces: Pieces,
    c: np.ndarray,
    u: np.ndarray,
    tol: float,
    options: MarginOptions = DEFAULTS,
) -> tuple[np.ndarray, bool] | None:
    """Solve the problem of one block by an interior point method, and find its breakpoints.

    Parameters
    ----------
    K : ndarray of shape (q, q)
        The block, in double precision.
    pieces : Pieces
        Terms of the block.
    c : ndarray of shape (q,)
        Coefficients, whose sum the solution keeps.
    u : ndarray of shape (q,)
        Image of all coefficients, inside the block and outside, on the block's rows.
    tol : float
        Violation of the optimality conditions to reach.
    options : MarginOptions
        Tuning constants.

    Returns
    -------
    tuple of ndarray and bool, or None
        Coefficients of the least violation seen, on their breakpoints, and True; those of the
        largest dual objective, inside all pieces, and False, if that is larger; None if the block
        cannot be factored or the values overflow.
    """
    best = inside = None
    idle = 0
    least, highest, smallest_doubt = np.inf, -np.inf, np.inf
    with np.errstate(all="ignore"):
        state = _State(K, pieces, c, u)
        ridge = _RIDGE * float(np.abs(K.diagonal()).mean())
        for _ in range(options.interior_point_steps):
            length = state.step(ridge, options.factor_attempts)
            doubt = state.doubt()
            broken = not doubt < options.interior_point_breakdown * smallest_doubt
            if length == 0.0 or broken or idle == options.interior_point_patience:
                # The system has no digits left.
                break
            idle = 0 if doubt < 0.9 * smallest_doubt else idle + 1
            smallest_doubt = min(smallest_doubt, doubt)
            dual = pieces.dual(state.c, state.f - state.b + state.outside)
            if dual > highest:
                inside, highest = _with_sum(state, pieces, state.c, state.by_row(state.ease)), dual
            found = _on_breakpoints(state, pieces)
            if not _keeps_sum(state, found):
                continue
            image = state.outside + K @ found
            right, left = pieces.slopes_at(found)
            violation = float((right - image).max() - (left - image).min())
            if violation < least:
                best, least = found, violation
            if least <= tol:
                break
        value = -np.inf
        if best is not None:
            value = pieces.dual(best, 2.0 * state.outside + K @ best)
    # Where the breakpoints cannot be told, being on some is worth nothing.
    if inside is not None and least > tol and not value >= highest - _RELATIVE * abs(highest):
        return (inside, False) if _keeps_sum(state, inside) else None
    return None if best is None else (best, True)


def _on_breakpoints(state: _State, pieces: Pieces) -> np.ndarray:
    """Put coefficients on the breakpoints that they tend to, and restore their sum."""
    scale = max(float(np.abs(state.c).max()), 1e-300)
    v, room = state.v, state.room
    # Of a variable and its multiplier one tends to zero, whichever is smaller in its units.
    empty, full = v < scale * state.z, room < scale * state.Z
    empty &= ~full | (v <= room)
    full &= ~empty
    ends = np.where(empty, 0.0, np.where(full, state.upper, v))
    share = state.by_row(np.where(empty | full, 0.0, state.ease))
    return _with_sum(state, pieces, state.by_row(state.sign * ends, state.base), share)


def _with_sum(state: _State, pieces: Pieces, c: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Restore the sum of the coefficients by those that move most easily."""
    p = pieces.breakpoints
    missing = state.total - float(c.sum())
    if missing and share.any():
        c = np.clip(c + missing * share / float(share.sum()), p[:, 0], p[:, 3])
        largest = int(share.argmax())
        c[largest] += state.total - float(c.sum())
        c[largest] = min(max(c[largest], p[largest, 0]), p[largest, 3])
    return c


def _keeps_sum(state: _State, c: np.ndarray) -> bool:
    return abs(state.total - float(c.sum())) <= 1e-12 * float(np.abs(c).sum())
