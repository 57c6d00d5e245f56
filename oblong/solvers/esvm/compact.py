"""The interior point iterate where there are few columns: a whole step in compiled loops.

With few columns the Newton matrix in the entries of ``B``, ``w`` and ``b`` is so small that the
time goes into calls of library functions, not into arithmetic. The method is that of
:class:`~oblong.solvers.logdet.state.LogDetState`.
"""

from __future__ import annotations

from math import isfinite

import numpy as np
from scipy.linalg import LinAlgError

from oblong._core.compile import compiled
from oblong.solvers.esvm.small_matrices import newton_matrix, solve, whiten
from oblong.solvers.logdet.state import FAR, NEAR, LogDetState

__all__ = ["CompactState"]


class CompactState(LogDetState):
    """The iterate, advanced by compiled code."""

    def __init__(self, F, start, r, M0, caps, signs, total, v0, pi) -> None:
        n, p = F.shape
        self.intercept = total is not None
        size = p * (p + 1) // 2 + p + int(self.intercept)
        self.fixed = np.stack([signs, pi, caps, np.ones(n)])
        self.U, self.weighted = np.empty((2, n, size))
        self.S, self.work = np.empty((size, size)), np.empty((9, n))
        self.unknowns = np.empty((3, size))
        self.known_gap, self.known_at = np.inf, None
        super().__init__(F, start, r, M0, caps, signs, 0.0, total, True, v0, pi)
        self.fixed[3] = self.frozen

    def evaluate(self) -> None:
        n, p = self.F.shape
        self.G = np.empty((p, p))
        self.Z, self.q, self.v = np.empty((n, p)), np.empty(n), np.empty(p)
        good = whiten(
            self.F, self.fixed, self.M0, self.v0, self.r, self.alpha, self.G, self.Z, self.q, self.v
        )
        if not good:
            raise LinAlgError("the moment matrix is not positive definite")

    def gap(self) -> float:
        return self.known_gap if self.known_at is self.alpha else super().gap()

    def point(self) -> tuple[np.ndarray, ...]:
        """A copy of what changes in a step."""
        rows = np.stack((self.alpha, self.s, self.u, self.q))
        return rows, self.w.copy(), self.v.copy(), self.G.copy(), self.Z.copy()

    def advance(self) -> bool:
        return self.run(-np.inf, 1) == 1

    def run(self, target: float, limit: int) -> int:
        """Take steps down to a gap of ``target``, at most ``limit``; return their number."""
        n, p = self.F.shape
        steps, gamma, b, gap, now = _run(
            self.F,
            self.fixed,
            self.M0,
            self.v0,
            np.array([self.r, self.total or 0.0, self.pairs, self.gamma, self.b]),
            np.array([FAR if self.soft else np.inf, NEAR, target]),
            limit,
            self.intercept,
            self.point(),
            (np.empty((4, n)), np.empty(p), np.empty(p), np.empty((p, p)), np.empty((n, p))),
            (self.U, self.weighted, self.S, self.work, self.unknowns),
        )
        # Compiled code does not look for what is not a number.
        if not isfinite(gamma + now[0].sum()):
            return 0
        if steps:
            rows, self.w, self.v, self.G, self.Z = now
            self.alpha, self.s, self.u, self.q = rows
            self.gamma, self.b = gamma, b
            self.known_gap, self.known_at = gap, self.alpha
        return steps


@compiled
def _outputs(F, fixed, w, b, out):  # pragma: no cover - compiled
    """``y_i (φ_i'w + b)``."""
    n, p = F.shape
    y = fixed[0]
    for i in range(n):
        row, total = F[i], b
        for a in range(p):
            total += row[a] * w[a]
        out[i] = y[i] * total


@compiled
def _square(x):  # pragma: no cover - compiled
    total = 0.0
    for a in range(len(x)):
        total += x[a] * x[a]
    return total


@compiled
def _merit(fixed, alpha, s, u, q, out, w, v, gamma):  # pragma: no cover - compiled
    caps, frozen = fixed[2], fixed[3]
    total = (gamma * (1.0 - _square(w))) ** 2
    for i in range(len(alpha)):
        residual = frozen[i] * (q[i] - out[i] + s[i] - u[i])
        total += residual * residual + (alpha[i] * s[i]) ** 2
        if u[i] > 0.0:
            total += ((caps[i] - alpha[i]) * u[i]) ** 2
    for a in range(len(w)):
        total += (v[a] - 2.0 * gamma * w[a]) ** 2
    return total**0.5


@compiled
def _gap(fixed, r, total, alpha, q, out, w, v, v0, b):  # pragma: no cover - compiled
    """Primal minus dual value; infinite if no feasible point is near."""
    caps, p = fixed[2], len(w)
    shrink, mass = 1.0, 0.0
    for i in range(len(alpha)):
        mass += alpha[i] * q[i]
        if caps[i] == np.inf and out[i] < shrink * q[i]:
            shrink = out[i] / q[i]
    if shrink <= 0.0:
        return np.inf
    loss = total * b + _square(v) ** 0.5
    for a in range(p):
        loss -= v0[a] * w[a]
    for i in range(len(alpha)):
        excess = shrink * q[i] - out[i]
        if excess > 0.0 and caps[i] < np.inf:
            loss += caps[i] * excess
    return loss - r * p * np.log(shrink) + (shrink - 1.0) * (r * p - mass) - mass


@compiled
def _longest(alpha, s, u, w, gamma, work, dw, dgamma, slides):  # pragma: no cover - compiled
    """Longest step, at most ``1 / 0.99``, that stays inside the bounds."""
    d_alpha, d_s, d_u, inverse_room = work[4], work[5], work[6], work[8]
    shrink = 0.99
    for i in range(len(alpha)):
        shrink = max(shrink, -d_alpha[i] / alpha[i], -d_s[i] / s[i], d_alpha[i] * inverse_room[i])
        if u[i] > 0.0:
            shrink = max(shrink, -d_u[i] / u[i])
    if slides:
        return 1.0 / shrink
    shrink, half = max(shrink, -dgamma / gamma), 0.0
    for a in range(len(w)):
        half += w[a] * dw[a]
    square, room = _square(dw), 1.0 - _square(w)
    if square > 0.0:
        root = (half * half + square * room) ** 0.5
        reach = room / (half + root) if half > 0.0 else (root - half) / square
        shrink = max(shrink, 1.0 / reach)
    return 1.0 / shrink


@compiled
def _direction(alpha, s, u, q, w, v, numbers, target, bend, matrices):  # pragma: no cover
    """Newton direction; the steps go into rows of the work space, that of ``γ`` is returned."""
    U, _, S, work, unknowns = matrices
    missing, gamma = numbers[0], numbers[1]
    diagonal, out, c_s, c_u, inverse_room = work[0], work[1], work[2], work[3], work[8]
    d_alpha, d_s, d_u, right = work[4], work[5], work[6], work[7]
    n, p, size = len(alpha), len(w), len(S)
    P = p * (p + 1) // 2
    ball = 1.0 - _square(w)
    for i in range(n):
        to_s, to_u = (target - c_s[i]) / alpha[i], (target - c_u[i]) * inverse_room[i]
        right[i] = q[i] - out[i] + to_s - to_u
    kappa = target - bend - gamma * ball
    known, x = unknowns[0], unknowns[1]
    for k in range(size):
        known[k] = 0.0
    if size > P + p:
        known[size - 1] = missing
    below = known[P:]
    for a in range(p):
        below[a] = v[a] - 2.0 * (gamma + kappa / ball) * w[a]
    solve(U, S, diagonal, right, known, w, gamma, ball, x, unknowns[2], d_alpha)
    for i in range(n):
        to_s, to_u = (target - c_s[i]) / alpha[i], (target - c_u[i]) * inverse_room[i]
        d_s[i] = to_s - s[i] - s[i] / alpha[i] * d_alpha[i]
        d_u[i] = to_u - u[i] + u[i] * inverse_room[i] * d_alpha[i]
    along, dw = 0.0, x[P:]
    for a in range(p):
        along += w[a] * dw[a]
    return (kappa + 2.0 * gamma * along) / ball


@compiled
def _determined(F, fixed, v, d_alpha, least):  # pragma: no cover - compiled
    """Whether ``v`` determines ``w``, and is going to."""
    y, now = fixed[0], _square(v)
    then = v.copy()
    for i in range(len(d_alpha)):
        row, times = F[i], y[i] * d_alpha[i]
        for a in range(len(v)):
            then[a] += times * row[a]
    return now > least * least and _square(then) > 0.6 * now


@compiled
def _run(  # pragma: no cover - compiled
    F, fixed, M0, v0, numbers, rules, limit, intercept, point, spare, matrices
):
    """Steps taken, the last ``γ``, ``b`` and gap, and the point that they led to."""
    gap = np.inf
    for step in range(limit):
        good, gamma, b, now = _advance(
            F, fixed, M0, v0, numbers, rules, intercept, point, matrices, spare
        )
        if not good:
            return step, numbers[3], numbers[4], gap, point
        gap, numbers[3], numbers[4] = now, gamma, b
        point, spare = spare, point
        if gap <= rules[2]:
            return step + 1, gamma, b, gap, point
    return limit, numbers[3], numbers[4], gap, point


@compiled
def _advance(F, fixed, M0, v0, numbers, rules, intercept, point, matrices, new):  # pragma: no cover
    """One step of Mehrotra's method: whether one could be taken, ``γ``, ``b`` and the gap."""
    old, w, v, _, Z = point
    alpha, s, u, q = old[0], old[1], old[2], old[3]
    U, weighted, S, work, unknowns = matrices
    rows, new_w, new_v, G, new_Z = new
    r, total, pairs, gamma, b = numbers
    far, near = rules[0], rules[1]
    y, caps = fixed[0], fixed[2]
    n, p = F.shape
    P = p * (p + 1) // 2
    dw = unknowns[1][P : P + p]
    ball, mu, signed = 1.0 - _square(w), 0.0, 0.0
    _outputs(F, fixed, w, b, work[1])
    for i in range(n):
        work[2, i] = work[3, i] = 0.0
        work[8, i] = 1.0 / (caps[i] - alpha[i])
        work[0, i] = s[i] / alpha[i] + u[i] * work[8, i]
        mu += alpha[i] * s[i]
        if u[i] > 0.0:
            mu += (caps[i] - alpha[i]) * u[i]
        signed += alpha[i] * y[i]
    mu = (mu + gamma * ball) / pairs
    before = _merit(fixed, alpha, s, u, q, work[1], w, v, gamma)
    if not newton_matrix(F, fixed, Z, r, work[0], w, gamma, ball, intercept, U, weighted, S):
        return False, gamma, b, np.inf
    state = np.array([signed - total, gamma])
    dgamma = _direction(alpha, s, u, q, w, v, state, 0.0, 0.0, matrices)
    slides = mu > near * _square(v) ** 0.5 and _determined(F, fixed, v, work[4], far * mu)
    t = _longest(alpha, s, u, w, gamma, work, dw, dgamma, slides)
    moved, along = 0.0, 0.0
    for i in range(n):
        moved += (alpha[i] + t * work[4, i]) * (s[i] + t * work[5, i])
        if u[i] > 0.0:
            moved += (caps[i] - alpha[i] - t * work[4, i]) * (u[i] + t * work[6, i])
        work[2, i] = work[4, i] * work[5, i]
        work[3, i] = -work[4, i] * work[6, i]
    for a in range(p):
        along += w[a] * dw[a]
    square = _square(dw)
    if not slides:
        moved += (gamma + t * dgamma) * (ball - t * (2.0 * along + t * square))
    sigma = min(max((moved / pairs / mu) ** 3, 1e-5), 1.0)
    bend = -2.0 * dgamma * along - gamma * square
    for attempt in range(2):
        if attempt:
            # Towards the middle, and without the second order.
            sigma, bend, slides = max(sigma, 0.3), 0.0, False
            for i in range(n):
                work[2, i] = work[3, i] = 0.0
        dgamma = _direction(alpha, s, u, q, w, v, state, sigma * mu, bend, matrices)
        db = unknowns[1, -1] if intercept else 0.0
        t = min(1.0, 0.99 * _longest(alpha, s, u, w, gamma, work, dw, dgamma, slides))
        if attempt == 0 and t < 0.1:
            continue
        for _ in range(30 if attempt else 6):
            for i in range(n):
                rows[0, i] = alpha[i] + t * work[4, i]
                rows[1, i] = s[i] + t * work[5, i]
                rows[2, i] = u[i] + t * work[6, i]
            if whiten(F, fixed, M0, v0, r, rows[0], G, new_Z, rows[3], new_v):
                new_gamma, new_b = gamma + t * dgamma, b + t * db
                if slides:
                    level = (1.0 - t) * gamma * ball + t * sigma * mu
                    level = max(level, 0.01 * near * _square(new_v) ** 0.5)
                    new_gamma = 0.5 * (level + (level * level + _square(new_v)) ** 0.5)
                for a in range(p):
                    new_w[a] = new_v[a] * (0.5 / new_gamma) if slides else w[a] + t * dw[a]
                out = work[7]
                _outputs(F, fixed, new_w, new_b, out)
                after = _merit(
                    fixed, rows[0], rows[1], rows[2], rows[3], out, new_w, new_v, new_gamma
                )
                if after < before:
                    gap = _gap(fixed, r, total, rows[0], rows[3], out, new_w, new_v, v0, new_b)
                    return True, new_gamma, new_b, gap
            t *= 0.5
    return False, gamma, b, np.inf
