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

from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from oblong.solvers.margin.options import DEFAULTS, MarginOptions
from oblong.solvers.margin.problem import Pieces

__all__ = ["interior_point"]

# Fraction of the way to the boundary that a step goes.
_TO_BOUNDARY = 0.995
# Relative difference of dual objectives that does not matter.
_RELATIVE = 1e-6
# Added to the diagonal of the system, relative to its mean.
_RIDGE = 1e-14


class _Piece(NamedTuple):
    """The variables of one kind of piece, for the rows that have it."""

    rows: np.ndarray
    # +1 where the coefficient grows with the variable, else -1.
    sign: float
    # Slope of the term along the coefficient, and upper bounds.
    slope: np.ndarray
    upper: np.ndarray


class _State:
    """Variables, multipliers and outputs."""

    def __init__(self, K: np.ndarray, pieces: Pieces, c: np.ndarray, u: np.ndarray) -> None:
        p, s = pieces
        self.K = K
        self.total = float(c.sum())
        self.outside = u - K @ c
        # Pieces of equal slope are one: split, they could grow against each other without end.
        low, high = s[:, 0] <= s[:, 1], s[:, 1] <= s[:, 2]
        self.base = np.where(low, p[:, 2], p[:, 1])
        none = np.zeros(len(c))
        kinds = (
            (1.0, s[:, 1], np.where(low | high, none, p[:, 2] - p[:, 1])),
            (-1.0, s[:, 0], np.where(low, p[:, 2] - p[:, 0], p[:, 1] - p[:, 0])),
            (1.0, s[:, 2], np.where(high & ~low, p[:, 3] - p[:, 1], p[:, 3] - p[:, 2])),
        )
        self.pieces = []
        for sign, slope, upper in kinds:
            rows = np.flatnonzero(upper > 0.0)
            self.pieces.append(_Piece(rows, sign, slope[rows], upper[rows]))
        self.movable = np.zeros(len(c), dtype=bool)
        for piece in self.pieces:
            self.movable[piece.rows] = True
        self._start(p)

    def _start(self, p: np.ndarray) -> None:
        """Begin near zero coefficients, scaled so that the outputs are of the order of one."""
        middle = 0.5 * (p[:, 1] + p[:, 2])
        size = max(float(np.abs(self.K @ middle).max()), 1.0)
        c = middle / size
        # Bounds that do not exist, and those far away, say nothing of the scale.
        scale = max(float(np.abs(c).max()), 1.0 / max(float(self.K.diagonal().max()), 1e-300))
        starts = (c - self.base, self.base - c, c - self.base)
        self.v = []
        for piece, start in zip(self.pieces, starts):
            # Bounds that do not exist leave nothing to stay away from.
            share = 1e-2 * np.minimum(piece.upper, scale)
            highest = np.where(np.isfinite(piece.upper), 0.999 * piece.upper, np.inf)
            self.v.append(np.clip(start[piece.rows], share, highest))
        self.b = 0.0
        self._evaluate()
        self.b = -0.5 * float(self.f.max() + self.f.min())
        self.f += self.b
        self.z, self.Z = [], []
        for piece, gradient in zip(self.pieces, self.gradients()):
            self.z.append(np.maximum(-gradient, 0.0) + 1.0)
            Z = np.maximum(gradient, 0.0) + 1.0
            self.Z.append(np.where(np.isfinite(piece.upper), Z, 0.0))

    @property
    def c(self) -> np.ndarray:
        c = self.base.copy()
        for piece, v in zip(self.pieces, self.v):
            c[piece.rows] += piece.sign * v
        return c

    @property
    def theta(self) -> np.ndarray:
        """How easily each coefficient moves."""
        theta = np.zeros(len(self.base))
        for piece, v, z, Z in zip(self.pieces, self.v, self.z, self.Z):
            theta[piece.rows] += 1.0 / (z / v + Z / (piece.upper - v))
        return theta

    def _evaluate(self) -> None:
        self.f = self.outside + self.K @ self.c + self.b

    def gradients(self) -> list[np.ndarray]:
        """Derivative of the dual by each variable, the bias as the multiplier of the sum."""
        return [piece.sign * (piece.slope - self.f[piece.rows]) for piece in self.pieces]

    def products(self) -> tuple[float, int]:
        """Sum of the complementarity products, and their number."""
        total, count = 0.0, 0
        for piece, v, z, Z in zip(self.pieces, self.v, self.z, self.Z):
            finite = np.isfinite(piece.upper)
            room = np.where(finite, piece.upper - v, 0.0)
            total += float(v @ z) + float(room @ Z)
            count += v.size + int(np.count_nonzero(finite))
        return total, max(count, 1)

    def doubt(self) -> float:
        """Duality gap, up to what the residuals hide: what all products and residuals are worth."""
        total, _ = self.products()
        for v, z, Z, gradient in zip(self.v, self.z, self.Z, self.gradients()):
            total += float(v @ np.abs(gradient + z - Z))
        return total + abs(self.total - float(self.c.sum())) * (1.0 + abs(self.b))

    def step(self, ridge: float, attempts: int) -> float:
        """Take one predictor and corrector step; return its length, zero if there is none."""
        factor = _Factor(self, ridge, attempts)
        if factor.L is None:
            return 0.0
        total, count = self.products()
        mu = total / count
        affine = factor.direction(0.0, None)
        length = factor.longest(affine)
        after = 0.0
        for piece, v, z, Z, (dv, dz, dZ) in zip(self.pieces, self.v, self.z, self.Z, affine.parts):
            finite = np.isfinite(piece.upper)
            room = np.where(finite, piece.upper - v - length * dv, 0.0)
            after += float((v + length * dv) @ (z + length * dz)) + float(room @ (Z + length * dZ))
        centring = (max(after, 0.0) / count / mu) ** 3 if mu > 0.0 else 0.0
        move = factor.direction(min(centring, 1.0) * mu, affine)
        length = min(1.0, _TO_BOUNDARY * factor.longest(move, beyond=True))
        for k, (dv, dz, dZ) in enumerate(move.parts):
            self.v[k] = self.v[k] + length * dv
            self.z[k] = self.z[k] + length * dz
            self.Z[k] = self.Z[k] + length * dZ
        self.b += length * move.bias
        self._evaluate()
        return length


class _Move(NamedTuple):
    parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]]
    bias: float


class _Factor:
    """The factored system of one step."""

    def __init__(self, state: _State, ridge: float, attempts: int) -> None:
        self.state = state
        theta = np.zeros(len(state.f))
        self.curvatures, self.rooms = [], []
        for piece, v, z, Z in zip(state.pieces, state.v, state.z, state.Z):
            room = piece.upper - v
            curvature = z / v + Z / room
            self.curvatures.append(curvature)
            self.rooms.append(room)
            theta[piece.rows] += 1.0 / curvature
        # Rows that cannot move have an endless curvature.
        self.inverse = np.where(state.movable, 1.0 / np.maximum(theta, 1e-300), 1e300)
        self.theta = theta
        self.L = None
        diagonal = state.K.diagonal()
        for _ in range(attempts):
            M = np.array(state.K, order="F")
            M.flat[:: len(M) + 1] = np.minimum(diagonal + self.inverse + ridge, 1e300)
            L, failed = dpotrf(M, lower=True, clean=False, overwrite_a=True)
            if not failed:
                self.L = L
                self.ones = dpotrs(L, np.ones(len(M)), lower=True)[0]
                return
            ridge *= 100.0

    def direction(self, mu: float, affine: _Move | None) -> _Move:
        state = self.state
        rho = np.zeros(len(state.f))
        targets, corrections = [], []
        for k, (piece, gradient) in enumerate(zip(state.pieces, state.gradients())):
            low: float | np.ndarray = mu
            up: float | np.ndarray = mu
            if affine is not None:
                dv, dz, dZ = affine.parts[k]
                low, up = mu - dv * dz, mu + dv * dZ
            up = np.where(np.isfinite(piece.upper), up, 0.0)
            target = gradient + low / state.v[k] - up / self.rooms[k]
            targets.append(target)
            corrections.append((low, up))
            rho[piece.rows] += piece.sign * target / self.curvatures[k]
        missing = state.total - float(state.c.sum())
        first = dpotrs(self.L, rho * self.inverse * state.movable, lower=True)[0]
        bias = (float(first.sum()) - missing) / float(self.ones.sum())
        dc = np.where(state.movable, first - bias * self.ones, 0.0)
        # Equal to K Δc + Δb, but exact next to Δc where Θ is large.
        df = (rho - dc) * self.inverse
        parts = []
        for k, piece in enumerate(state.pieces):
            low, up = corrections[k]
            dv = (targets[k] - piece.sign * df[piece.rows]) / self.curvatures[k]
            dz = (low - state.z[k] * dv) / state.v[k] - state.z[k]
            dZ = (up + state.Z[k] * dv) / self.rooms[k] - state.Z[k]
            parts.append((dv, dz, dZ))
        return _Move(parts, bias)

    def longest(self, move: _Move, beyond: bool = False) -> float:
        """Longest step that keeps all variables and multipliers positive."""
        least = np.inf if beyond else 1.0
        state = self.state
        for k, (dv, dz, dZ) in enumerate(move.parts):
            for value, change in (
                (state.v[k], dv),
                (self.rooms[k], -dv),
                (state.z[k], dz),
                (state.Z[k], dZ),
            ):
                falling = change < 0.0
                if falling.any():
                    least = min(least, float((-value[falling] / change[falling]).min()))
        return least


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
                inside, highest = _with_sum(state, pieces, state.c, state.theta), dual
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
    result = state.base.copy()
    share = np.zeros(len(result))
    for piece, v, z, Z in zip(state.pieces, state.v, state.z, state.Z):
        room = piece.upper - v
        # Of a variable and its multiplier one tends to zero, whichever is smaller in its units.
        empty, full = v < scale * z, room < scale * Z
        empty &= ~full | (v <= room)
        full &= ~empty
        result[piece.rows] += piece.sign * np.where(empty, 0.0, np.where(full, piece.upper, v))
        share[piece.rows] += np.where(empty | full, 0.0, 1.0 / (z / v + Z / room))
    return _with_sum(state, pieces, result, share)


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
