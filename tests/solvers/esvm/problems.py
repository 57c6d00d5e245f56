"""Problems of the ellipsoidal support vector machine, and iterates of its solver."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from oblong.linalg.low_rank import pivoted_cholesky
from oblong.solvers.esvm.kernel.state import KernelState
from oblong.solvers.esvm.options import EsvmOptions
from oblong.solvers.logdet.state import LogDetState

TOL = 1e-6


# The central path from the start.
NO_MODELS = EsvmOptions(models_from_limit=10**9)


# As many trial steps in the kernel form as in the explicit one.
SAME_TRIALS = EsvmOptions(kernel_halvings=6, kernel_last_halvings=30)


def rows_of(seed, n, d=4, noise=0.5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.where(X[:, 0] + noise * rng.normal(size=n) > 0, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    return X, y


def coordinates(X, width=1.0, rank=None):
    squares = ((X[:, None] - X) ** 2).sum(axis=2)
    K = np.exp(-width * squares / X.shape[1])
    factor = pivoted_cholesky(lambda rows: K[rows], K.diagonal(), rank or len(K))
    return np.ascontiguousarray(factor.features)


def soft(F, r=0.99, nu=0.2):
    n, p = F.shape
    length = np.linalg.norm(F, axis=1)
    return {"caps": r * p / (n * nu * length), "pi": 1.0 / length, "r": r}


def hard(F, r=1 - 1e-6):
    return soft(F, r) | {"caps": np.full(len(F), np.inf)}


def drawn(seed, n, p, hard=False):
    rng = np.random.default_rng(seed)
    F = rng.normal(size=(n, p))
    y = np.where(F[:, 0] + 0.4 * rng.normal(size=n) > 0, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    caps = np.full(n, np.inf) if hard else rng.uniform(0.5, 2.0, n)
    alpha = rng.uniform(0.1, 0.4, n)
    alpha[y > 0] *= alpha[y < 0].sum() / alpha[y > 0].sum()
    alpha *= 0.4 / alpha.max()
    return F, y, caps, rng.uniform(0.5, 2.0, n), alpha


def states(seed, n, p, hard=False, total=0.0, r=0.9):
    F, y, caps, pi, alpha = drawn(seed, n, p, hard)
    terms = {"r": r, "caps": caps, "signs": y, "total": total, "direction": True}
    part = SimpleNamespace(
        F=F, ridge=1.0 - r, pi=pi, problem=SimpleNamespace(options=SAME_TRIALS), terms=lambda: terms
    )
    M0 = (1.0 - r) * np.eye(p)
    return LogDetState(F, alpha, M0=M0, scale=pi, **terms), KernelState(part, alpha)


def separable(seed, n, d, room=0.3):
    F, y = overlapping(seed, n, d, noise=0.0)
    F[:, 0] += room * y
    return F, y


def overlapping(seed, n, d, noise=0.5, scale=1.0):
    rng = np.random.default_rng(seed)
    F = rng.normal(size=(n, d)) + 0.2
    y = np.where(F[:, 0] + noise * rng.normal(size=n) > 0.2, 1.0, -1.0)
    # Both classes, and still separable without noise.
    y[:2] = 1.0, -1.0
    F[:2, 0] = 1.0, -1.0
    return scale * F, y


def consistent(F, r, nu):
    """Prices and factors of the formulation that does not depend on the scale of the rows."""
    n, p = F.shape
    length = np.linalg.norm(F, axis=1)
    return {"caps": r * p / (n * nu * length), "pi": 1.0 / length}


def cosine(a, b):
    return a @ b / np.linalg.norm(a) / np.linalg.norm(b)
