"""The iterate of the log-determinant interior point method: conditions, certificate, steps."""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError

from oblong.linalg.log_det import inverse_factor
from oblong.solvers._log_det_newton import NewtonStep, NewtonSystem

__all__ = ["LogDetState"]

# Share of the way to the boundary that a step goes.
_TO_BOUNDARY = 0.99
# Halvings of a step before the direction is given up.
_HALVINGS = 6


class LogDetState:
    """The iterate, and what follows from it."""

    def __init__(self, F, start, r, M0, caps, signs, offset, total, direction, v0, scale) -> None:
        n, p = F.shape
        self.F, self.r, self.M0 = F, r, M0
        self.root = F if scale is None else F * np.sqrt(scale)[:, None]
        self.rows = np.ascontiguousarray(self.root.T)
        self.y = signs
        self.signed = F if signs is None else F * signs[:, None]
        self.o, self.total, self.direction = offset, total, direction
        self.v0 = np.zeros(p) if v0 is None else v0
        self.caps = caps
        self.finite = None if caps is None else np.isfinite(caps)
        if self.finite is not None and not self.finite.any():
            self.caps = self.finite = None
        self.alpha = np.array(start, dtype=np.float64)
        self.p, self.n = p, n
        self.w, self.gamma, self.b = np.zeros(p), 0.0, 0.0
        self.s = np.zeros(n)
        self.u = np.zeros(n)
        self.dual_mode = n <= 1.5 * p * (p + 1) / 2
        border = []
        if direction:
            border.append(self.signed)
        if total is not None:
            border.append((np.ones(n) if signs is None else signs)[:, None])
        self.border = np.hstack(border) if border else None
        self._begin()

    def _begin(self) -> None:
        self.evaluate()
        if self.direction:
            length = np.linalg.norm(self.v)
            self.w = 0.9 * self.v / length if length > 0 else self.w
        if self.total is not None:
            # Half of the constraints hold.
            sides = self.q - self.o - self.signed @ self.w
            self.b = float(np.median(sides if self.y is None else self.y * sides))
        excess = self.q - self.o - self.output()
        self.level = float(np.mean(np.abs(excess) * self.alpha))
        self.level = max(self.level, 1e-3 * float(np.mean(self.q * self.alpha)))
        self.s = self.level / self.alpha
        if self.caps is not None:
            # With a cap, the excess can be taken up whole by one of the two multipliers.
            least = np.where(excess > 0.0, self.level / self.room(), self.s)
            taken = np.maximum(-excess, 0.0) + least
            self.s = np.where(self.finite, taken, self.s)
            self.u = np.where(self.finite, taken + excess, 0.0)
        if self.direction:
            self.gamma = max(self.level / (1.0 - self.w @ self.w), 0.5 * np.linalg.norm(self.v))
        self.last_merit = np.inf
        self.frozen = np.maximum(self.alpha, self.level)
        self.pairs = self.n + (0 if self.caps is None else int(self.finite.sum()))
        self.pairs += int(self.direction)

    def keep(self) -> tuple:
        return (self.alpha, self.s, self.u, self.w, self.gamma, self.b)

    def restore(self, kept: tuple) -> None:
        if kept[0] is self.alpha:
            return
        self.alpha, self.s, self.u, self.w, self.gamma, self.b = kept
        self.evaluate()

    def evaluate(self) -> None:
        """Factor ``M`` and compute what depends on ``α``."""
        M = (self.rows * self.alpha) @ self.root
        if self.M0 is not None:
            M += self.M0
        self.G, self.log_det = inverse_factor(M)
        # Columns are √r L^-1 φ_i, so that their dot products are Q.
        self.Z = self.G @ self.rows
        if self.r != 1.0:
            self.Z *= np.sqrt(self.r)
        self.q = np.einsum("ij,ij->j", self.Z, self.Z)
        if self.direction:
            self.v = self.v0 + self.alpha @ self.signed

    def output(self) -> np.ndarray | float:
        """``y_i (φ_i'w + b)``."""
        value = self.b if self.y is None else self.b * self.y
        return self.signed @ self.w + value if self.direction else value

    def room(self) -> np.ndarray:
        return np.where(self.finite, self.caps - self.alpha, 1.0)

    def dual(self) -> float:
        rp = self.r * self.p
        value = self.r * self.log_det + rp - rp * np.log(self.r)
        value -= float(np.sum(self.alpha * self.o))
        return value - (float(np.linalg.norm(self.v)) if self.direction else 0.0)

    def gap(self) -> float:
        """Primal minus dual value, at the best primal point that the iterate suggests."""
        alpha, q = self.alpha, self.q
        mass = float(alpha @ q)
        balance = float(np.sum(alpha * self.o))
        if self.direction:
            length = np.linalg.norm(self.w)
            balance += float(np.linalg.norm(self.v)) - float(self.v0 @ self.w)
            if length > 1.0:
                return np.inf
        side = self.o + self.output()
        b_term = 0.0 if self.total is None else self.total * self.b
        if self.caps is None and self.total is not None and self.y is None and not self.direction:
            # The threshold may rise until every row is inside.
            return float(self.total * np.max(q - self.o)) + balance - mass
        shrink, loss = 1.0, 0.0
        hard = None if self.caps is None else ~self.finite
        if hard is None or hard.any():
            ratio = side / np.maximum(q, np.finfo(float).tiny)
            ratio = ratio if hard is None else ratio[hard]
            shrink = float(np.min(ratio))
            if shrink <= 0.0:
                return np.inf
            if self.M0 is not None or self.direction or self.total is not None:
                shrink = min(1.0, shrink)
        if self.caps is not None:
            excess = np.maximum(shrink * q - side, 0.0)
            loss = float(self.caps[self.finite] @ excess[self.finite])
        rp = self.r * self.p
        trace = rp - mass
        return loss - rp * np.log(shrink) + (shrink - 1.0) * trace - mass + balance + b_term

    def residual(self) -> np.ndarray:
        return self.q - self.o - self.output() + self.s - self.u

    def merit(self) -> float:
        parts = np.sum((self.frozen * self.residual()) ** 2) + np.sum((self.alpha * self.s) ** 2)
        if self.caps is not None:
            parts += np.sum((self.room() * self.u) ** 2)
        if self.direction:
            parts += np.sum((self.v - 2.0 * self.gamma * self.w) ** 2)
            parts += (self.gamma * (1.0 - self.w @ self.w)) ** 2
        return float(np.sqrt(parts))

    def advance(self) -> bool:
        """Take one step; False if none could be taken."""
        alpha, s, u = self.alpha, self.s, self.u
        room = None if self.caps is None else self.room()
        mu = float(alpha @ s) + (0.0 if room is None else float(room @ u))
        ball = 1.0 - float(self.w @ self.w)
        mu = (mu + (self.gamma * ball if self.direction else 0.0)) / self.pairs
        diagonal = s / alpha
        if room is not None:
            diagonal = diagonal + u / room
        system = NewtonSystem(self, diagonal, ball)
        if not system.good:
            return False
        zero = (0.0, 0.0, 0.0)
        step = system.direction(0.0, zero)
        t = self.longest(step, room)
        moved = float((alpha + t * step.alpha) @ (s + t * step.s))
        if room is not None:
            moved += float((room - t * step.alpha)[self.finite] @ (u + t * step.u)[self.finite])
        if self.direction:
            w = self.w + t * step.w
            moved += (self.gamma + t * step.gamma) * (1.0 - float(w @ w))
        sigma = float(np.clip((moved / self.pairs / mu) ** 3, 1e-5, 1.0))
        second = step.alpha * step.s, -step.alpha * step.u, 0.0
        if self.direction:
            bend = 2.0 * step.gamma * float(self.w @ step.w) + self.gamma * float(step.w @ step.w)
            second = second[0], second[1], -bend
        step = system.direction(sigma * mu, second)
        t = min(1.0, _TO_BOUNDARY * self.longest(step, room))
        before = self.last_merit = self.merit()
        if t >= 0.1 and self.attempt(step, t, before, 1 if t < 1.0 else _HALVINGS):
            return True
        if t >= 0.1 and self.attempt(step, 0.5 * t, before, _HALVINGS - 1):
            return True
        step = system.direction(max(sigma, 0.3) * mu, zero)
        t = min(1.0, _TO_BOUNDARY * self.longest(step, room))
        return self.attempt(step, t, before, 30)

    def longest(self, step: NewtonStep, room: np.ndarray | None) -> float:
        """Longest step, at most ``1 / 0.99``, that stays inside the bounds."""
        shrink = max(float(np.max(-step.alpha / self.alpha)), float(np.max(-step.s / self.s)))
        if room is not None:
            shrink = max(shrink, float(np.max((step.alpha / room)[self.finite])))
            shrink = max(shrink, float(np.max(-step.u[self.finite] / self.u[self.finite])))
        if self.direction:
            shrink = max(shrink, -step.gamma / self.gamma)
            a, c = float(step.w @ step.w), 1.0 - float(self.w @ self.w)
            half = float(self.w @ step.w)
            if a > 0.0:
                # |w + t Δw| = 1 at the positive root, written without cancellation.
                root = np.sqrt(half * half + a * c)
                reach = c / (half + root) if half > 0 else (root - half) / a
                shrink = max(shrink, 1.0 / reach)
        return 1.0 / max(shrink, _TO_BOUNDARY)

    def attempt(self, step: NewtonStep, t: float, before: float, halvings: int) -> bool:
        """Move along the step, halving it until the merit falls; False restores the iterate."""
        kept = self.keep()
        derived = self.G, self.log_det, self.Z, self.q, getattr(self, "v", None)
        for _ in range(halvings):
            self.alpha, self.s = kept[0] + t * step.alpha, kept[1] + t * step.s
            self.u = kept[2] if self.caps is None else kept[2] + t * step.u
            self.b = kept[5] + t * step.b
            if self.direction:
                self.w, self.gamma = kept[3] + t * step.w, kept[4] + t * step.gamma
            try:
                self.evaluate()
            except LinAlgError:
                t *= 0.5
                continue
            after = self.merit()
            if after < before:
                return True
            t *= 0.5
        self.alpha, self.s, self.u, self.w, self.gamma, self.b = kept
        self.G, self.log_det, self.Z, self.q, self.v = derived
        return False
