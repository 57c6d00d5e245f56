"""The Newton systems of the log-determinant interior point method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from oblong.linalg.log_det import quadratic_features

if TYPE_CHECKING:
    from oblong.solvers._log_det_state import LogDetState

__all__ = ["NewtonStep", "NewtonSystem"]


@dataclass(frozen=True)
class NewtonStep:
    alpha: np.ndarray
    s: np.ndarray
    u: np.ndarray | float
    w: np.ndarray | float
    gamma: float
    b: float


class NewtonSystem:
    """The Newton system at an iterate, factored."""

    def __init__(self, state: LogDetState, diagonal: np.ndarray, ball: float) -> None:
        self.state, self.diagonal, self.ball = state, diagonal, ball
        Z, r = state.Z, state.r
        if state.dual_mode:
            N = Z.T @ Z
            np.multiply(N, N, out=N)
            if r != 1.0:
                N /= r
            N.flat[:: len(N) + 1] += diagonal
        else:
            self.U = quadratic_features(Z)
            if r != 1.0:
                self.U /= np.sqrt(r)
            N = (self.U / diagonal) @ self.U.T
            N.flat[:: len(N) + 1] += 1.0
        for power in range(-14, -4):
            self.L, info = dpotrf(N, lower=1, clean=0)
            if info == 0:
                break
            N.flat[:: len(N) + 1] *= 1.0 + 10.0**power
        self.good = info == 0 and bool(np.isfinite(self.L).all())
        if not self.good or state.border is None:
            return
        border = state.border
        self.solved = self.solve(border)
        schur = border.T @ self.solved
        self.T = np.zeros_like(schur)
        if state.direction:
            p, w, gamma = state.p, state.w, state.gamma
            self.T[:p, :p] = 2.0 * gamma * (np.eye(p) + (2.0 / ball) * np.outer(w, w))
        schur += self.T
        self.schur, info = dpotrf(schur, lower=1, clean=0)
        self.good = info == 0

    def solve(self, rhs: np.ndarray) -> np.ndarray:
        """Solve with ``Q∘Q / r`` plus the diagonal."""
        if self.state.dual_mode:
            return dpotrs(self.L, rhs, lower=1)[0]
        shape = (-1,) + (1,) * (rhs.ndim - 1)
        diagonal = self.diagonal.reshape(shape)

        def once(v: np.ndarray) -> np.ndarray:
            v = v / diagonal
            return v - (self.U.T @ dpotrs(self.L, self.U @ v, lower=1)[0]) / diagonal

        x = once(rhs)
        # The formula subtracts large numbers where the diagonal is small.
        for _ in range(2):
            x += once(rhs - diagonal * x - self.U.T @ (self.U @ x))
        return x

    def direction(self, target: float, second: tuple) -> NewtonStep:
        """Newton direction towards complementarity products of ``target``."""
        state = self.state
        alpha, s, u = state.alpha, state.s, state.u
        to_s = (target - second[0]) / alpha
        rhs = state.q - state.o - state.output() + to_s
        if state.caps is not None:
            room = state.room()
            to_u = np.where(state.finite, (target - second[1]) / room, 0.0)
            rhs -= to_u
        b, w, gamma = 0.0, 0.0, 0.0
        delta = self.solve(rhs)
        if state.border is not None:
            lower = state.border.T @ delta
            if state.direction:
                p = state.p
                kappa = target - second[2] - state.gamma * self.ball
                shift = state.v - 2.0 * state.gamma * state.w
                lower[:p] += shift - (2.0 * kappa / self.ball) * state.w
            if state.total is not None:
                signed = alpha.sum() if state.y is None else alpha @ state.y
                lower[-1] += signed - state.total
            lower = dpotrs(self.schur, lower, lower=1)[0]
            delta -= self.solved @ lower
            if state.direction:
                w = lower[: state.p]
                gamma = (kappa + 2.0 * state.gamma * float(state.w @ w)) / self.ball
            if state.total is not None:
                b = float(lower[-1])
        step_s = to_s - s - (s / alpha) * delta
        step_u = 0.0
        if state.caps is not None:
            step_u = np.where(state.finite, to_u - u + (u / room) * delta, 0.0)
        return NewtonStep(delta, step_s, step_u, w, gamma, b)
