"""Small matrices of the ellipsoidal support vector machine, in compiled loops."""

from __future__ import annotations

import numpy as np

from oblong._core.compile import compiled

__all__ = ["factor", "newton_matrix", "solve", "whiten"]


@compiled
def factor(A):  # pragma: no cover - compiled
    """Put ``R`` with ``A = R'R`` in the place of the upper triangle; False if there is none."""
    n = len(A)
    for k in range(n):
        top = A[k, k:]
        if top[0] <= 0.0:
            return False
        scale = top[0] ** -0.5
        for j in range(n - k):
            top[j] *= scale
        for i in range(n - k - 1):
            rest, target = top[i + 1 :], A[k + i + 1, k + i + 1 :]
            times = rest[0]
            for j in range(n - k - i - 1):
                target[j] -= times * rest[j]
    return True


@compiled
def _divide(R, x):  # pragma: no cover - compiled
    """Solve with ``R'R``, in place."""
    n = len(x)
    for k in range(n):
        top, rest = R[k, k:], x[k:]
        value = rest[0] / top[0]
        for j in range(n - k):
            rest[j] -= value * top[j]
        rest[0] = value
    for k in range(n):
        i = n - 1 - k
        top, rest = R[i, i + 1 :], x[i + 1 :]
        total = x[i]
        for j in range(k):
            total -= top[j] * rest[j]
        x[i] = total / R[i, i]


@compiled
def _invert(R, out):  # pragma: no cover - compiled
    """Write the inverse of an upper triangular matrix, a column at a time, from the bottom."""
    n = len(R)
    for j in range(n):
        for i in range(n):
            out[i, j] = 0.0
        out[j, j] = 1.0 / R[j, j]
        for k in range(j):
            i = j - 1 - k
            total = 0.0
            for m in range(k + 1):
                total -= R[i, i + 1 + m] * out[i + 1 + m, j]
            out[i, j] = total / R[i, i]


@compiled
def whiten(F, fixed, M0, v0, r, alpha, R, Z, q, v):  # pragma: no cover - compiled
    """Factor ``M = R'R``; write ``z_i = √(r π_i) R'^-1 φ_i``, ``q_i = |z_i|²`` and ``v``."""
    n, p = F.shape
    y, pi = fixed[0], fixed[1]
    for i in range(n):
        row, z, weight = F[i], Z[i], alpha[i] * pi[i]
        for a in range(p):
            z[a] = weight * row[a]
        q[i] = alpha[i] * y[i]
    np.dot(Z.T, F, R)
    np.dot(q, F, v)
    for a in range(p):
        v[a] += v0[a]
        for c in range(p):
            R[a, c] += M0[a, c]
    if not factor(R):
        return False
    inverse = np.empty((p, p))
    _invert(R, inverse)
    np.dot(F, inverse, Z)
    for i in range(n):
        z, weight, total = Z[i], (r * pi[i]) ** 0.5, 0.0
        for a in range(p):
            z[a] *= weight
            total += z[a] * z[a]
        q[i] = total
    return True


@compiled
def newton_matrix(
    F, fixed, Z, r, diagonal, w, gamma, ball, intercept, U, weighted, S
):  # pragma: no cover
    """Form ``U'D^-1 U`` plus the identity and the bend of the ball, and factor it."""
    n, p = F.shape
    y, size = fixed[0], len(S)
    P = p * (p + 1) // 2
    root = r**-0.5
    for i in range(n):
        u, z, row, scaled, weight = U[i], Z[i], F[i], weighted[i], 1.0 / diagonal[i]
        k = 0
        for a in range(p):
            rest, target = z[a:], u[k:]
            times = 2.0**0.5 * root * rest[0]
            for c in range(p - a):
                target[c] = times * rest[c]
            target[0] = root * rest[0] * rest[0]
            k += p - a
        signed = u[P:]
        for a in range(p):
            signed[a] = y[i] * row[a]
        if intercept:
            signed[p] = y[i]
        for k in range(size):
            scaled[k] = weight * u[k]
    np.dot(weighted.T, U, S)
    for a in range(P):
        S[a, a] += 1.0
    for a in range(p):
        target, times = S[P + a, P:], 4.0 * gamma / ball * w[a]
        for c in range(p):
            target[c] += times * w[c]
        target[a] += 2.0 * gamma
    return factor(S)


@compiled
def _weights(U, x, right, diagonal, out):  # pragma: no cover - compiled
    """``D^-1 (right - U x)``."""
    np.dot(U, x, out)
    for i in range(len(out)):
        out[i] = (right[i] - out[i]) / diagonal[i]


@compiled
def solve(U, S, diagonal, right, known, w, gamma, ball, x, left, out):  # pragma: no cover
    """Solve for ``Δα`` (``out``) and ``x``, the changes of ``B``, ``w`` and ``b``."""
    p, size = len(w), len(S)
    P = p * (p + 1) // 2
    for k in range(size):
        x[k] = 0.0
    for _ in range(3):
        # The weights are small differences over small numbers: two rounds of refinement.
        _weights(U, x, right, diagonal, out)
        np.dot(out, U, left)
        along, change = 0.0, x[P:]
        for a in range(p):
            along += w[a] * change[a]
        for k in range(size):
            left[k] += known[k]
        for k in range(P):
            left[k] -= x[k]
        below = left[P:]
        for a in range(p):
            below[a] -= 2.0 * gamma * (change[a] + 2.0 * along / ball * w[a])
        _divide(S, left)
        for k in range(size):
            x[k] += left[k]
    _weights(U, x, right, diagonal, out)
