"""The Newton systems of the log-determinant interior point method."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from oblong._core.threads import released_blas
from oblong.linalg.gram import lower_gram
from oblong.linalg.log_det import quadratic_features

if TYPE_CHECKING:
    from oblong.solvers.logdet.state import LogDetState


@dataclass(frozen=True)
class NewtonStep:
    """Changes of the iterate; zero for parts that the problem does not have."""

    alpha: np.ndarray
    s: np.ndarray
    u: np.ndarray
    w: np.ndarray
    gamma: float
    b: float


class NewtonSystem(ABC):
    """The Newton system at an iterate, factored.

    ::

        (Q∘Q / r + D) Δα + Y F Δw + y Δb = rhs
        F'Y Δα - T Δw = -pull,   y'Δα = -missing,   T = 2 γ (I + 2 w w' / ω),  ω = 1 - |w|²

    where ``D`` is the diagonal of the bounds; without the last two lines and their columns where
    the problem has no ``w`` or no ``b``.
    """

    def __init__(self, state: LogDetState, diagonal: np.ndarray, ball: float) -> None:
        self.state, self.diagonal, self.ball = state, diagonal, ball
        self.good = self.factor()

    @abstractmethod
    def factor(self) -> bool:
        """Factor the matrix; False if that fails."""

    @abstractmethod
    def solve(
        self, rhs: np.ndarray, pull: np.ndarray | None, missing: float
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """Solve for ``Δα``, ``Δw`` and ``Δb``."""

    def direction(self, target: float, second: tuple) -> NewtonStep:
        """Newton direction towards complementarity products of ``target``."""
        state = self.state
        alpha, s, u, w, gamma = state.alpha, state.s, state.u, state.w, state.gamma
        to_s = (target - second[0]) / alpha
        rhs = state.q - state.o - state.output() + to_s
        room = to_u = np.zeros(state.n)
        if state.caps is not None:
            room = state.room()
            to_u = np.where(state.finite, (target - second[1]) / room, 0.0)
            rhs -= to_u
        pull, kappa, missing = None, 0.0, 0.0
        if state.direction:
            kappa = target - second[2] - gamma * self.ball
            pull = state.v - 2.0 * (gamma + kappa / self.ball) * w
        if state.total is not None:
            missing = float(alpha.sum() if state.y is None else alpha @ state.y) - state.total
        delta, dw, db = self.solve(rhs, pull, missing)
        dgamma = (kappa + 2.0 * gamma * float(w @ dw)) / self.ball if state.direction else 0.0
        step_s = to_s - s - (s / alpha) * delta
        step_u = np.zeros(state.n)
        if state.caps is not None:
            step_u = np.where(state.finite, to_u - u + (u / room) * delta, 0.0)
        return NewtonStep(delta, step_s, step_u, dw, dgamma, db)

    def bend(self) -> np.ndarray:
        """The block of ``w`` and ``b``: ``T``, and zero for ``b``."""
        state = self.state
        assert state.border is not None
        p = state.p if state.direction else 0
        T = np.zeros((state.border.shape[1],) * 2)
        if p:
            T[:p, :p] = (4.0 * state.gamma / self.ball) * np.outer(state.w, state.w)
            T.flat[: p * (len(T) + 1) : len(T) + 1] += 2.0 * state.gamma
        return T

    def lower(self, pull: np.ndarray | None, missing: float) -> np.ndarray:
        """Right sides of the lines of ``w`` and ``b``."""
        parts = [] if pull is None else [pull]
        return np.concatenate([*parts, [missing]]) if self.state.total is not None else parts[0]

    def split(self, x: np.ndarray) -> tuple[np.ndarray, float]:
        """``Δw`` and ``Δb``."""
        state = self.state
        w = x[: state.p] if state.direction else np.zeros(state.p)
        return w, float(x[-1]) if state.total is not None else 0.0


def _cholesky(N: np.ndarray) -> tuple[np.ndarray, bool]:
    """Factor a lower triangle, with more on the diagonal where rounding makes that necessary."""
    for power in range(-14, -4):
        with released_blas(len(N)):
            L, info = dpotrf(N, lower=1, clean=0)
        if info == 0:
            return L, bool(np.isfinite(L.diagonal()).all())
        N.flat[:: len(N) + 1] *= 1.0 + 10.0**power
    return L, False


class DualSystem(NewtonSystem):
    """Few rows: the matrix in the weights, and the Schur complement of ``w`` and ``b``."""

    def factor(self) -> bool:
        """Factor ``Q∘Q / r + D`` and the Schur complement."""
        state = self.state
        # By SciPy's BLAS, as the factor: the threads of NumPy's would be in the way of its own.
        with released_blas(state.n):
            N = lower_gram(state.Z.T)
        np.multiply(N, N, out=N)
        if state.r != 1.0:
            N /= state.r
        N.flat[:: len(N) + 1] += self.diagonal
        self.L, good = _cholesky(N)
        if not good or state.border is None:
            return good
        self.solved = dpotrs(self.L, state.border, lower=1)[0]
        schur = state.border.T @ self.solved
        schur += self.bend()
        self.schur, info = dpotrf(schur, lower=1, clean=0)
        return info == 0

    def solve(
        self, rhs: np.ndarray, pull: np.ndarray | None, missing: float
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """Solve by block elimination."""
        delta = dpotrs(self.L, rhs, lower=1)[0]
        border = self.state.border
        if border is None:
            return delta, np.zeros(self.state.p), 0.0
        x = dpotrs(self.schur, border.T @ delta + self.lower(pull, missing), lower=1)[0]
        delta -= self.solved @ x
        return delta, *self.split(x)


class PrimalSystem(NewtonSystem):
    """Many rows: the matrix in the entries of ``B``, ``w`` and ``b``.

    With the rows ``U_i = (svec(z_i z_i') / √r, y_i φ_i, y_i)`` it is ``U'D^-1 U`` plus the
    identity, ``T`` and zero.
    """

    def factor(self) -> bool:
        """Form the matrix from the rows, and factor it."""
        state = self.state
        P = state.p * (state.p + 1) // 2
        size = P + (0 if state.border is None else state.border.shape[1])
        self.U = np.empty((size, state.n))
        quadratic_features(state.Z, self.U[:P])
        if state.r != 1.0:
            self.U[:P] /= np.sqrt(state.r)
        if state.border is not None:
            self.U[P:] = state.border.T
        scaled = self.U / np.sqrt(self.diagonal)
        with released_blas(size):
            N = lower_gram(scaled)
        self.extra = np.zeros((size - P,) * 2) if state.border is None else self.bend()
        N.flat[: P * (size + 1) : size + 1] += 1.0
        N[P:, P:] += self.extra
        self.L, good = _cholesky(N)
        return good

    def solve(
        self, rhs: np.ndarray, pull: np.ndarray | None, missing: float
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """Solve, with refinement of the entries of ``B``."""
        state, U, diagonal = self.state, self.U, self.diagonal
        P = len(U) - len(self.extra)
        known = np.zeros(len(U))
        if state.border is not None:
            known[P:] = self.lower(pull, missing)
        x = dpotrs(self.L, known + U @ (rhs / diagonal), lower=1)[0]
        for _ in range(state.options.refinements):
            # The weights are small differences over small numbers.
            left = known + U @ ((rhs - x @ U) / diagonal)
            left[:P] -= x[:P]
            left[P:] -= self.extra @ x[P:]
            x += dpotrs(self.L, left, lower=1)[0]
        return (rhs - x @ U) / diagonal, *self.split(x[P:])
