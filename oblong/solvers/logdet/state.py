"""The iterate of the log-determinant interior point method: conditions, certificate, steps."""

from functools import cached_property

import numpy as np
from scipy.linalg import LinAlgError

from oblong.linalg.log_det import inverse_factor
from oblong.solvers.logdet.newton import DualSystem, NewtonStep, NewtonSystem, PrimalSystem
from oblong.solvers.logdet.options import LogDetOptions


class LogDetState:
    """The iterate, and what follows from it.

    Parameters
    ----------
    F : ndarray of shape (n, p)
        Vectors ``φ_i`` in rows, in double precision. Their scale should be near one.
    start : ndarray of shape (n,)
        Starting point, with ``0 < start < caps`` and ``M(start)`` positive definite.
    r : float, default=1.0
        Weight of the log-determinant.
    M0 : ndarray of shape (p, p), optional
        Constant part of ``M``; zero by default.
    caps : ndarray of shape (n,), optional
        Caps ``C_i``; infinite by default.
    signs : ndarray of shape (n,), optional
        Signs ``y_i``; one by default.
    offset : float or ndarray of shape (n,), default=0.0
        Offsets ``o_i``.
    total : float, optional
        The number ``t``; None for a problem without ``b``.
    direction : bool, default=False
        Whether the problem has ``w``.
    v0 : ndarray of shape (p,), optional
        Constant part of ``v``, from rows that are held at their caps.
    scale : ndarray of shape (n,), optional
        Factors ``π_i`` of ``φ_i φ_i'`` in ``M`` and of ``φ_i'B φ_i``; one by default.
    options : LogDetOptions, optional
        Settings of the method.
    """

    def __init__(
        self,
        F: np.ndarray,
        start: np.ndarray,
        *,
        r: float = 1.0,
        M0: np.ndarray | None = None,
        caps: np.ndarray | None = None,
        signs: np.ndarray | None = None,
        offset: float | np.ndarray = 0.0,
        total: float | None = None,
        direction: bool = False,
        v0: np.ndarray | None = None,
        scale: np.ndarray | None = None,
        options: LogDetOptions | None = None,
    ) -> None:
        n, p = F.shape
        self.options = options or LogDetOptions()
        self.F, self.r, self.M0 = F, r, M0
        self.scale = scale
        self.y = signs
        self.signed = F if signs is None else F * signs[:, None]
        self.o, self.total, self.direction = offset, total, direction
        self.v0 = np.zeros(p) if v0 is None else v0
        self.caps = caps
        self.finite = np.zeros(n, dtype=bool) if caps is None else np.isfinite(caps)
        if not self.finite.any():
            self.caps = None
        # Without slack the products would fall faster than the residual, which leads nowhere.
        self.soft = direction and bool(self.finite.all())
        self.alpha = np.array(start, dtype=np.float64)
        self.p, self.n = p, n
        self.w, self.v, self.gamma, self.b = np.zeros(p), np.zeros(p), 0.0, 0.0
        self.s = np.zeros(n)
        self.u = np.zeros(n)
        self.dual_mode = n <= self.options.dual_rows * p * (p + 1) / 2
        self._begin()

    @cached_property
    def root(self) -> np.ndarray:
        """Rows ``√π_i φ_i``."""
        return self.F if self.scale is None else self.F * np.sqrt(self.scale)[:, None]

    @cached_property
    def rows(self) -> np.ndarray:
        """The same, in columns."""
        return np.ascontiguousarray(self.root.T)

    @cached_property
    def border(self) -> np.ndarray | None:
        """Columns of ``w`` and ``b`` in the Newton system."""
        parts = [self.signed] if self.direction else []
        if self.total is not None:
            parts.append((np.ones(self.n) if self.y is None else self.y)[:, None])
        return np.hstack(parts) if parts else None

    def _begin(self) -> None:
        self.evaluate()
        if self.direction:
            length = float(np.linalg.norm(self.v))
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
            length = float(np.linalg.norm(self.v))
            self.gamma = max(self.level / (1.0 - float(self.w @ self.w)), 0.5 * length)
        self.last_merit = np.inf
        # What a residual costs: as much as the weight, now or later, but a cap is the most.
        self.frozen = np.maximum(self.alpha, self.level)
        if self.caps is not None:
            self.frozen = np.minimum(self.frozen, self.caps)
        self.pairs = self.n + int(self.finite.sum())
        self.pairs += int(self.direction)

    def keep(self) -> tuple:
        """What determines the iterate."""
        return (self.alpha, self.s, self.u, self.w, self.gamma, self.b)

    def restore(self, kept: tuple) -> None:
        """Go back to an iterate that was kept."""
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

    def system(self, diagonal: np.ndarray, ball: float) -> NewtonSystem:
        """The Newton system, in the form that costs least."""
        kind = DualSystem if self.dual_mode else PrimalSystem
        return kind(self, diagonal, ball)

    def output(self) -> np.ndarray | float:
        """``y_i (φ_i'w + b)``."""
        value = self.b if self.y is None else self.b * self.y
        return self.signed @ self.w + value if self.direction else value

    def room(self) -> np.ndarray:
        """Distances of the weights from their caps; one where there is none."""
        assert self.caps is not None
        return np.where(self.finite, self.caps - self.alpha, 1.0)

    def dual(self) -> float:
        """Value of the dual, constants included."""
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
        hard = ~self.finite
        if hard.any():
            ratio = side / np.maximum(q, np.finfo(float).tiny)
            shrink = float(np.min(ratio[hard]))
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
        """What the first optimality condition ``q - o - y (φ'w + b) + s - u = 0`` lacks."""
        return self.q - self.o - self.output() + self.s - self.u

    def merit(self) -> float:
        """Length of all residuals and products, in weights that do not change on the way."""
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
        if ball <= 0.0:
            # Rounding has put the direction on the sphere.
            return False
        mu = (mu + (self.gamma * ball if self.direction else 0.0)) / self.pairs
        diagonal = s / alpha
        if room is not None:
            diagonal = diagonal + u / room
        system = self.system(diagonal, ball)
        if not system.good:
            return False
        zero = (0.0, 0.0, 0.0)
        step = system.direction(0.0, zero)
        slides = self.soft and self.determined(mu, step)
        t = self.longest(step, room, slides)
        moved = float((alpha + t * step.alpha) @ (s + t * step.s))
        if room is not None:
            moved += float((room - t * step.alpha)[self.finite] @ (u + t * step.u)[self.finite])
        if self.direction and not slides:
            w = self.w + t * step.w
            moved += (self.gamma + t * step.gamma) * (1.0 - float(w @ w))
        sigma = float(np.clip((moved / self.pairs / mu) ** 3, 1e-5, 1.0))
        second = step.alpha * step.s, -step.alpha * step.u, 0.0
        if self.direction:
            bend = 2.0 * step.gamma * float(self.w @ step.w) + self.gamma * float(step.w @ step.w)
            second = second[0], second[1], -bend
        step = system.direction(sigma * mu, second)
        t = min(1.0, self.options.to_boundary * self.longest(step, room, slides))
        before = self.last_merit = self.merit()
        level = sigma * mu if slides else None
        if t >= 0.1 and self.attempt(step, t, before, self.options.halvings, level):
            return True
        if not self.dual_mode and self.n <= self.options.dual_digits:
            # The matrix in the weights has digits that the one in the entries of B has lost.
            self.dual_mode = True
            return self.advance()
        sigma = max(sigma, 0.3)
        step = system.direction(sigma * mu, zero)
        t = min(1.0, self.options.to_boundary * self.longest(step, room, False))
        return self.attempt(step, t, before, self.options.last_halvings, None)

    def longest(self, step: NewtonStep, room: np.ndarray | None, slides: bool) -> float:
        """Longest step, at most ``1 / 0.99``, that stays inside the bounds."""
        shrink = max(float(np.max(-step.alpha / self.alpha)), float(np.max(-step.s / self.s)))
        if room is not None:
            shrink = max(shrink, float(np.max((step.alpha / room)[self.finite])))
            shrink = max(shrink, float(np.max(-step.u[self.finite] / self.u[self.finite])))
        if self.direction and not slides:
            shrink = max(shrink, -step.gamma / self.gamma)
            a, c = float(step.w @ step.w), 1.0 - float(self.w @ self.w)
            half = float(self.w @ step.w)
            if a > 0.0:
                # |w + t Δw| = 1 at the positive root, written without cancellation.
                root = np.sqrt(half * half + a * c)
                reach = c / (half + root) if half > 0 else (root - half) / a
                shrink = max(shrink, 1.0 / reach)
        return 1.0 / max(shrink, self.options.to_boundary)

    def determined(self, mu: float, step: NewtonStep) -> bool:
        """Whether ``v`` determines ``w``, and is going to: then the sphere bounds no step."""
        now, then = self.v, self.v + step.alpha @ self.signed
        square = float(now @ now)
        length = np.sqrt(square)
        near, far = self.options.follow_until * length, length / self.options.follow_from
        return near < mu < far and float(then @ then) > 0.6 * square

    def slide(self, level: float) -> None:
        """Put ``w`` along ``v``, where ``v = 2 γ w`` and ``γ (1 - |w|²)`` is the level."""
        square = float(self.v @ self.v)
        level = max(level, 0.01 * self.options.follow_until * np.sqrt(square))
        self.gamma = 0.5 * (level + float(np.sqrt(level**2 + square)))
        self.w = self.v * (0.5 / self.gamma)

    def attempt(
        self, step: NewtonStep, t: float, before: float, halvings: int, level: float | None
    ) -> bool:
        """Move along the step, halving it until the merit falls; False restores the iterate.

        With a level the direction follows ``v`` instead of its own step.
        """
        kept = self.keep()
        product = self.gamma * (1.0 - float(self.w @ self.w))
        derived = self.G, self.log_det, self.Z, self.q, self.v
        for _ in range(halvings):
            self.alpha, self.s = kept[0] + t * step.alpha, kept[1] + t * step.s
            self.u = kept[2] if self.caps is None else kept[2] + t * step.u
            self.b = kept[5] + t * step.b
            if self.direction and level is None:
                self.w, self.gamma = kept[3] + t * step.w, kept[4] + t * step.gamma
            try:
                self.evaluate()
            except LinAlgError:
                t *= 0.5
                continue
            if level is not None:
                self.slide((1.0 - t) * product + t * level)
            after = self.merit()
            if after < before:
                return True
            t *= 0.5
        self.alpha, self.s, self.u, self.w, self.gamma, self.b = kept
        self.G, self.log_det, self.Z, self.q, self.v = derived
        return False
