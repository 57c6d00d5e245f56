"""Margin problems in long double: what a model is worth, and what the best one is worth.

Everything here is independent of the package. ``np.longdouble`` has 64 bits of mantissa on the
machines this is meant for, eleven more than a double; it has no linear algebra of its own, so the
factorisations are written out. The problem of all kernel models is (spec of the margin family) ::

    min_{w,b,t}  ½|w|² + Σ C_i [1 - y_i f_i]_+ + D t + Σ U_i [|f_i| - t]_+ + Σ_j V_j [|f_j| - ε]_+

with ``f = w·φ + b``. Without ``D`` the bound ``t`` is held at ``B``, and ``U`` is infinite; ``V``
belongs to Universum rows, whose ``C`` is zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

LD = np.longdouble
EPS = float(np.finfo(LD).eps)


def longdouble(values: object) -> np.ndarray:
    """Rows, dense or sparse, in long double."""
    dense = values.toarray() if hasattr(values, "toarray") else values
    return np.asarray(dense).astype(LD)


def kernel_matrix(
    name: str, X: np.ndarray, Z: np.ndarray, gamma: float, degree: int, coef0: float
) -> np.ndarray:
    """Kernel values by the formulas of scikit-learn, in long double."""
    if name == "rbf":
        squares = np.zeros((len(X), len(Z)), dtype=LD)
        for j in range(X.shape[1]):
            squares += (X[:, j, None] - Z[None, :, j]) ** 2
        return np.exp(-LD(gamma) * squares)
    products = X @ Z.T
    if name == "linear":
        return products
    argument = LD(gamma) * products + LD(coef0)
    return argument ** int(degree) if name == "poly" else np.tanh(argument)


def cholesky(A: np.ndarray) -> np.ndarray | None:
    """Lower factor of a positive definite matrix, or None."""
    L = np.array(A, dtype=LD)
    n = len(L)
    for k in range(n):
        pivot = L[k, k]
        if not pivot > 0:
            return None
        L[k:, k] /= np.sqrt(pivot)
        L[k + 1 :, k + 1 :] -= np.outer(L[k + 1 :, k], L[k + 1 :, k])
    return np.tril(L)


def lower_solve(L: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Solve ``L x = B``."""
    x = np.array(B, dtype=LD)
    for k in range(len(L)):
        x[k] = (x[k] - L[k, :k] @ x[:k]) / L[k, k]
    return x


def upper_solve(L: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Solve ``L' x = B``."""
    x = np.array(B, dtype=LD)
    for k in range(len(L) - 1, -1, -1):
        x[k] = (x[k] - L[k + 1 :, k] @ x[k + 1 :]) / L[k, k]
    return x


def positive_solve(A: np.ndarray, B: np.ndarray) -> np.ndarray | None:
    """Solve ``A x = B`` for a positive definite matrix, scaled to a unit diagonal first."""
    scale = 1 / np.sqrt(np.maximum(np.diag(A), np.finfo(LD).tiny))
    L = cholesky(A * scale * scale[:, None])
    if L is None:
        return None
    right = (B.T * scale).T
    return (upper_solve(L, lower_solve(L, right)).T * scale).T


def features(K: np.ndarray, tolerance: float = 64 * EPS) -> np.ndarray:
    """Pivoted Cholesky factor ``F`` with ``F F' = K`` but for rounding."""
    n = len(K)
    residual = np.diag(K).astype(LD).copy()
    floor = tolerance * float(residual.max(initial=0)) * n
    F = np.zeros((n, n), dtype=LD)
    for k in range(n):
        p = int(residual.argmax())
        if not residual[p] > floor:
            return F[:, : max(k, 1)]
        column = K[:, p] - F[:, :k] @ F[p, :k]
        F[:, k] = column / np.sqrt(residual[p])
        residual -= F[:, k] ** 2
        residual[p] = 0
    return F


@dataclass(frozen=True)
class MarginProblem:
    """One binary problem, in long double; see the module's formula."""

    y: np.ndarray
    C: np.ndarray
    B: float = np.inf
    D: float | None = None
    U: np.ndarray | None = None
    V: np.ndarray | None = None
    epsilon: float = 0.0
    intercept: bool = True

    def primal(self, f: np.ndarray, half_norm: np.ndarray) -> LD:
        """Objective at the outputs ``f``, for the best ``t``; breaches of ``B`` are not seen."""
        value = half_norm + (self.C * np.maximum(1 - self.y * f, 0)).sum()
        size = np.abs(f)
        if self.V is not None:
            value = value + (self.V * np.maximum(size - LD(self.epsilon), 0)).sum()
        if self.D is None:
            return value
        if self.U is None:
            return value + LD(self.D) * max(LD(1), size.max())
        order = np.argsort(-size)
        # The slope in t is D less the prices of the rows beyond it.
        beyond = np.cumsum(self.U[order])
        crossing = int(np.searchsorted(beyond, LD(self.D)))
        t = size[order[crossing]] if crossing < len(size) else LD(0)
        t = max(LD(1), t)
        return value + LD(self.D) * t + (self.U * np.maximum(size - t, 0)).sum()

    def breach(self, f: np.ndarray) -> float:
        """By how much the outputs break the hard bound, relative to it."""
        if self.D is not None or not np.isfinite(self.B):
            return 0.0
        return float(max(LD(0), np.abs(f).max() / LD(self.B) - 1))

    def feasible(self, c: np.ndarray) -> np.ndarray:
        """The nearest obvious point of the dual domain."""
        a = self.y * c
        low, high = self._limits()
        c = self.y * np.clip(a, low, high)
        if self.intercept:
            up, down = c[c > 0].sum(), -c[c < 0].sum()
            if up > down:
                c = np.where(c > 0, c * (down / up), c)
            elif down > up:
                c = np.where(c < 0, c * (up / down), c)
        if self.D is not None:
            total = self._excess(c).sum()
            if total > self.D:
                c = c * (LD(self.D) / total)
        return c

    def dual(self, c: np.ndarray, half_norm: np.ndarray) -> LD:
        """Dual objective at a feasible point, a lower bound of the primal ones."""
        alpha = np.clip(self.y * c, 0, self.C)
        excess = self._excess(c)
        value = alpha.sum() - half_norm
        if self.V is not None:
            return value - LD(self.epsilon) * (excess * (self.V > 0)).sum()
        if self.D is not None:
            return value + LD(self.D) - excess.sum()
        return value - LD(self.B) * excess.sum() if np.isfinite(self.B) else value

    def _excess(self, c: np.ndarray) -> np.ndarray:
        a = self.y * c
        return np.abs(a - np.clip(a, 0, self.C))

    def _limits(self) -> tuple[np.ndarray, np.ndarray]:
        if self.V is not None:
            return -self.V, self.C + self.V
        if self.D is not None and self.U is None:
            return np.full(len(self.C), -LD(self.D)), self.C + LD(self.D)
        if self.D is not None:
            return -self.U, self.C + self.U
        reach = LD(np.inf) if np.isfinite(self.B) else LD(0)
        return np.full(len(self.C), -reach), self.C + reach


@dataclass(frozen=True)
class Reference:
    """A primal value that is reached, and a dual one that bounds all of them from below."""

    upper: LD
    lower: LD


def solve(problem: MarginProblem, F: np.ndarray, target: float = 1e-9) -> Reference:
    """Solve a problem on features ``F`` by a primal-dual interior point, in long double.

    The first multipliers matter where columns have very different scales: several are tried.
    """
    best = Reference(LD(np.inf), LD(-np.inf))
    size = max(LD(1e-30), np.einsum("ij,ij->i", F, F).max())
    prices = problem.C if problem.V is None else problem.C + problem.V
    price = np.median(prices) if problem.D is None else min(np.median(prices), LD(problem.D))
    for level in (1 / size, price, np.sqrt(price / size), price / 1000):
        best = _interior_point(problem, F, LD(level), best, target)
        if best.upper - best.lower <= target * abs(best.upper):
            break
    return best


def _interior_point(
    problem: MarginProblem, F: np.ndarray, level: LD, best: Reference, target: float
) -> Reference:
    """Rows ``A z >= rho`` with penalties ``p`` (infinite for hard ones), ``z = (w, b, t)``."""
    A, rho, p, H, g, owner = _rows(problem, F)
    hard = ~np.isfinite(p.astype(float))
    z = np.zeros(len(H), dtype=LD)
    z[-1] = 2 if problem.D is not None else 0
    # Products of slacks and multipliers that are all about the same.
    a = np.where(hard, level, np.minimum(p / 2, level))
    s = np.ones(len(a), dtype=LD)
    e = np.where(hard, LD(0), a / np.where(hard, LD(1), p - a))
    for _ in range(100):
        best = _better(best, problem, F, z, a, A, owner)
        if best.upper - best.lower <= target * abs(best.upper):
            break
        v = np.where(hard, LD(1), p - a)
        pairs = len(s) + int((~hard).sum())
        mu = ((s * a).sum() + (e * v)[~hard].sum()) / pairs
        r_d = H * z + g - A.T @ a
        r_p = A @ z + e - rho - s
        delta = s / a + np.where(hard, LD(0), e / v)
        N = (A.T / delta) @ A
        N[np.diag_indices(len(H))] += H + LD(1e-30)
        scales = 1 / np.sqrt(np.diag(N))
        L = cholesky(N * scales * scales[:, None])
        if L is None:
            break

        point = (s, a, e, v, mu, r_d, r_p, delta, L, scales)
        dz, da, ds, de = _direction(A, hard, point, LD(0), LD(0), LD(0))
        step = _step(s, ds, a, da, e, de, v, hard)
        after = ((s + step * ds) * (a + step * da)).sum()
        after += ((e + step * de) * (v - step * da))[~hard].sum()
        sigma = max(LD(1e-6), (after / pairs / mu) ** 3)
        dz, da, ds, de = _direction(A, hard, point, sigma, ds * da, -de * da)
        step = min(LD(1), LD(0.995) * _step(s, ds, a, da, e, de, v, hard))
        if not np.isfinite(float(step)) or step < 1e-12:
            break
        z, a, s, e = z + step * dz, a + step * da, s + step * ds, e + step * de
    return best


def _rows(problem: MarginProblem, F: np.ndarray):
    """Rows of the quadratic program, and which coefficient each multiplier is part of."""
    n, r = F.shape
    one = np.full((n, 1), LD(problem.intercept))
    nothing, ones = np.zeros((n, 1), dtype=LD), np.ones((n, 1), dtype=LD)
    out = np.hstack([F, one])
    y = problem.y[:, None]
    blocks = [(np.hstack([y * out, nothing]), LD(1), problem.C, problem.y)]
    if problem.V is not None:
        for sign in (1, -1):
            rows = np.hstack([-sign * out, nothing])
            blocks.append((rows, -LD(problem.epsilon), problem.V, -sign * np.ones(n)))
    elif problem.D is not None:
        prices = np.full(n, LD(np.inf)) if problem.U is None else problem.U
        for sign in (1, -1):
            blocks.append((np.hstack([-sign * out, ones]), LD(0), prices, -sign * np.ones(n)))
    elif np.isfinite(problem.B):
        for sign in (1, -1):
            rows = np.hstack([-sign * out, nothing])
            blocks.append((rows, -LD(problem.B), np.full(n, LD(np.inf)), -sign * np.ones(n)))
    kept = [np.flatnonzero(penalty > 0) for _, _, penalty, _ in blocks]
    A = np.vstack([rows[k] for (rows, *_), k in zip(blocks, kept)])
    rho = np.concatenate([np.full(len(k), value) for (_, value, *_), k in zip(blocks, kept)])
    p = np.concatenate([penalty[k] for (_, _, penalty, _), k in zip(blocks, kept)])
    owner = [(k, sign[k]) for (*_, sign), k in zip(blocks, kept)]
    H = np.concatenate([np.ones(r, dtype=LD), np.zeros(2, dtype=LD)])
    g = np.zeros(r + 2, dtype=LD)
    if problem.D is not None:
        g[-1] = LD(problem.D)
        A = np.vstack([A, np.eye(1, r + 2, r + 1, dtype=LD)])
        rho, p = np.append(rho, LD(1)), np.append(p, LD(np.inf))
    return A, rho.astype(LD), p.astype(LD), H, g, owner


def _direction(A, hard, point, sigma, cs, ce):
    """Newton step towards products of ``sigma * mu``, with corrections of second order."""
    s, a, e, v, mu, r_d, r_p, delta, L, scales = point
    first = (sigma * mu - cs) / a - s
    second = np.where(hard, LD(0), (sigma * mu - ce) / v - e)
    q = first - second - r_p
    right = -r_d + A.T @ (q / delta)
    dz = scales * upper_solve(L, lower_solve(L, scales * right))
    da = (q - A @ dz) / delta
    return dz, da, first - (s / a) * da, np.where(hard, LD(0), second + (e / v) * da)


def _step(s, ds, a, da, e, de, v, hard) -> LD:
    """Largest step that keeps everything positive."""
    longest = LD(1)
    for value, change in ((s, ds), (a, da), (e[~hard], de[~hard]), (v[~hard], -da[~hard])):
        down = change < 0
        if down.any():
            longest = min(longest, (-value[down] / change[down]).min())
    return longest


def _better(best, problem, F, z, a, A, owner) -> Reference:
    w, b = z[: F.shape[1]], z[F.shape[1]] * problem.intercept
    f = F @ w + b
    upper = best.upper
    shrink = LD(1)
    if problem.D is None and np.isfinite(problem.B):
        shrink = min(LD(1), LD(problem.B) / max(np.abs(f).max(), LD(1e-300)))
    upper = min(upper, problem.primal(shrink * f, shrink**2 * (w @ w) / 2))
    c = np.zeros(len(F), dtype=LD)
    start = 0
    for index, sign in owner:
        c[index] += sign * a[start : start + len(index)]
        start += len(index)
    c = problem.feasible(c)
    w = F.T @ c
    return Reference(upper, max(best.lower, problem.dual(c, (w @ w) / 2)))
