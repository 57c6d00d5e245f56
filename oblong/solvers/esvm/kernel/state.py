"""The interior point iterate where there are almost as many columns as rows, as with a kernel.

All matrices are ``n × n``. With ``S = A^½ K A^½`` and ``H = (ρ I + S)^-1``, where ``ρ I`` is the
constant part of the moments, ``A^½ Q A^½ = r (I - ρ H)``: one factorisation and one inversion give
``Q`` without a product of matrices (Momma, Hatano and Nakayama, Ellipsoidal Support Vector
Machines, ACML 2010, eq. 9), and eliminating ``w`` from the Newton system adds multiples of
``Y K Y`` and of a matrix of rank one. That is an eighth of the work with explicit columns.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.linalg import LinAlgError
from scipy.linalg.lapack import dlauum, dpotrf, dpotrs

from oblong._core.compile import compiled
from oblong.linalg.log_det import invert_triangle
from oblong.solvers.esvm.scaled_part import Part
from oblong.solvers.logdet.state import LogDetState, NewtonSystem


class KernelState(LogDetState):
    """The iterate in terms of the kernel matrix; ``ridge`` times the identity is ``M0``."""

    def __init__(self, part: Part, start: np.ndarray) -> None:
        self.ridge, self.pi = part.ridge, part.pi
        self.K = part.F @ part.F.T
        self.H = np.empty(self.K.shape, order="F")
        # The explicit form's; there is none here.
        self.G = self.Z = np.empty((0, 0))
        options = part.problem.options
        few, most = options.kernel_halvings, options.kernel_last_halvings
        trials = replace(options.logdet, halvings=few, last_halvings=most)
        super().__init__(part.F, start, options=trials, **part.terms())

    def evaluate(self) -> None:
        """Invert ``ρ I + S`` and compute what depends on ``α``."""
        alpha = self.alpha
        root = np.sqrt(alpha * self.pi)
        scaled_kernel(self.K, root, self.ridge, self.H.T)
        L, info = dpotrf(self.H, lower=1, clean=0, overwrite_a=1)
        if info != 0:
            raise LinAlgError("the moment matrix is not positive definite")
        self.log_det = 2.0 * float(np.log(L.diagonal()).sum())
        self.log_det += (self.p - self.n) * np.log(self.ridge)
        invert_triangle(L)
        self.H, _ = dlauum(L, lower=1, overwrite_c=1)
        self.q = products(self.K, self.H, alpha, self.pi, self.ridge, self.r)
        self.v = alpha @ self.signed
        # The system reads H, and a trial step overwrites it.
        self.fresh = alpha

    def system(self, diagonal: np.ndarray, ball: float) -> NewtonSystem:
        """The Newton system, ``w`` eliminated."""
        if self.fresh is not self.alpha:
            self.evaluate()
        return _KernelSystem(self, diagonal, ball)


class _KernelSystem(NewtonSystem):
    """The Newton system in the weights and the bias, ``w`` eliminated."""

    state: KernelState

    def factor(self) -> bool:
        """Factor the matrix in the weights."""
        state = self.state
        w, gamma = state.w, state.gamma
        self.shrink = 2.0 / (1.0 + float(w @ w))
        self.along = state.signed @ w
        N = np.empty((state.n, state.n), order="F")
        scale = np.sqrt(state.r) * state.ridge
        newton_matrix(
            state.K,
            state.H.T,
            scale / np.sqrt(state.alpha),
            state.y,
            1.0 / np.sqrt(state.alpha),
            self.along,
            0.5 / gamma,
            0.5 * self.shrink / gamma,
            N.T,
        )
        own = state.K.diagonal() - self.shrink * self.along**2
        N.flat[:: len(N) + 1] = state.q**2 / state.r + self.diagonal + own * (0.5 / gamma)
        self.L, info = dpotrf(N, lower=1, clean=0, overwrite_a=1)
        good = info == 0 and bool(np.isfinite(self.L.diagonal()).all())
        if good and state.total is not None:
            self.solved = dpotrs(self.L, state.y, lower=1)[0]
            self.schur = float(state.y @ self.solved)
        return good

    def inverse_bend(self, x: np.ndarray) -> np.ndarray:
        """Divide by the Hessian of the ball, ``2 γ (I + 2 w w' / ω)``."""
        state = self.state
        return (x - self.shrink * float(state.w @ x) * state.w) * (0.5 / state.gamma)

    def solve(
        self, rhs: np.ndarray, pull: np.ndarray | None, missing: float
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """Solve for the weights, then for ``w``."""
        state = self.state
        assert pull is not None
        delta = dpotrs(self.L, rhs - state.signed @ self.inverse_bend(pull), lower=1)[0]
        b = 0.0
        if state.total is not None:
            b = (float(state.y @ delta) + missing) / self.schur
            delta -= b * self.solved
        return delta, self.inverse_bend(delta @ state.signed + pull), b


def products(
    K: np.ndarray, H: np.ndarray, alpha: np.ndarray, pi: np.ndarray, ridge: float, r: float
) -> np.ndarray:
    """``q``, by the one of two formulas that is free of cancellation, from lower triangles."""
    q = r * (1.0 - ridge * H.diagonal().astype(np.float64)) / alpha
    small = np.flatnonzero(alpha * pi * K.diagonal() < ridge)
    if len(small):
        right = np.arange(len(alpha)) >= small[:, None]
        rows = np.where(right, H.T[small], H[small])
        kernel = np.where(right, K.T[small], K[small])
        q[small] = r * np.sqrt(pi / alpha)[small] * ((rows * kernel) @ np.sqrt(alpha * pi))
    return q


# What LAPACK takes for the lower triangle of a matrix is the upper one of its transpose here.


@compiled
def scaled_kernel(K, root, ridge, out):  # pragma: no cover - compiled
    """``root_i root_j K_ij``, plus the ridge on the diagonal."""
    n = len(root)
    for j in range(n):
        column, target, factor = K[j, j:], out[j, j:], root[j]
        below = root[j:]
        for i in range(n - j):
            target[i] = column[i] * below[i] * factor
        target[0] += ridge


@compiled
def newton_matrix(K, H, left, y, right, along, by, less, out):  # pragma: no cover - compiled
    """``(H_ij left_i right_j)² + by y_i y_j K_ij - less along_i along_j`` below the diagonal."""
    n = len(y)
    for j in range(n):
        kernel, inverse, target = K[j, j + 1 :], H[j, j + 1 :], out[j, j + 1 :]
        a, c, d = left[j + 1 :], y[j + 1 :], along[j + 1 :]
        e, f, g = right[j], by * y[j], less * along[j]
        for i in range(n - j - 1):
            q = inverse[i] * a[i] * e
            target[i] = q * q + f * c[i] * kernel[i] - g * d[i]
