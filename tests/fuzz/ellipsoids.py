"""What ellipsoids and the ellipsoidal support vector machines are worth, in long double."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import gammaln

from tests.fuzz.evaluate import PROMISE, SLACK, KernelOf, Outcome, certificate
from tests.fuzz.exact import LD, Reference, cholesky, longdouble
from tests.fuzz.problems import Problem

_MOST_ROWS = 300


def log_det(A: np.ndarray) -> LD:
    """Logarithm of the determinant; minus infinity if the matrix is not positive definite."""
    if not len(A):
        return LD(0)
    scale = 1 / np.sqrt(np.maximum(np.diag(A), np.finfo(LD).tiny))
    L = cholesky(A * scale * scale[:, None])
    return LD(-np.inf) if L is None else 2 * (np.log(np.diag(L)) - np.log(scale)).sum()


def ellipsoid(problem: Problem, model: Any, outcome: Outcome, converged: bool) -> None:
    """Judge an ellipsoid by the soft problem that it solves, for rows in its own coordinates.

    In these it is the unit ball, and the bound from dual weights ``λ`` on ``½ ln|Σ| + E Σ ωτ`` is
    ``½ ln|2 Σ λ_i (t_i - t̄)(t_i - t̄)'| + k/2 - Σ λ``.
    """
    n = problem.X.shape[0]
    omega = longdouble(problem.fit_params.get("sample_weight", np.ones(n)))
    known = model._kernel_rows
    if known is None:
        points = longdouble(problem.X)
    elif known.kernel.name == "precomputed":
        points = longdouble(problem.X) - longdouble(known.basis.means)
        points = points @ longdouble(known.basis.directions)
    else:
        kernel = known.kernel
        shift = None if known.shift is None else longdouble(known.shift)
        K = KernelOf(kernel.name, kernel.gamma, kernel.degree, kernel.coef0, shift)
        points = K(problem.X, problem.X) - longdouble(known.basis.means)
        points = points @ longdouble(known.basis.directions)
    offsets = points - longdouble(model.center_)
    T = offsets @ longdouble(model.factor_)
    k, lift = T.shape[1], int(model.center)
    squares = np.einsum("ij,ij->i", T, T)
    # What the coordinates do not see: directions without extent.
    seen = T @ longdouble(model.inverse_factor_)
    lost = np.abs(offsets - seen)[omega > 0].max(axis=0)
    extent = np.abs(offsets)[omega > 0].max(axis=0)
    units = np.abs(points)[omega > 0].max(axis=0)
    # Rows in single precision tell no directions that are rounding there, and none tell those that
    # are thinner than the rounding of a column far from the origin.
    eps = float(np.finfo(problem.X.dtype).eps)
    spread = np.ptp(points[omega > 0], axis=0)
    thin = eps * (units[spread > 0] / spread[spread > 0]).sum()
    # The centre has no more digits than double precision: what its rounding does off the hull.
    step = np.spacing(np.abs(model.center_))
    step = step + step @ np.abs(model.factor_ @ model.inverse_factor_)
    if not (lost <= (1e-6 + thin) * extent + max(1e-9, 16 * eps) * units + 2 * step).all():
        worst = float((lost[extent > 0] / extent[extent > 0]).max(initial=0))
        outcome.add("objective", f"rows are off the hull by {worst:.3g} of their extent")
    if known is None:
        _judge_volume(model, outcome)
    if problem.params.get("coverage") == 0.0:
        return
    u = longdouble(model.weights_)
    hard = not np.isfinite(model.E_)
    if hard:
        # All rows have to be inside: enlarge the ball until they are.
        largest = squares[omega > 0].max()
        value = LD(k) / 2 * np.log(max(largest, LD(1e-300)))
        if converged and largest > max(1 + 1e-6, -model.offset_):
            outcome.add("false", f"a row is outside: squared distance {float(largest):.9g}")
        weights = u * (LD(k) / 2) / u.sum()
    else:
        E = LD(model.E_)
        value = E * (omega * np.maximum(squares - 1, 0)).sum()
        weights = np.minimum(u * LD(model._scale) / 2, E * omega)
    total = weights.sum()
    centre = weights @ T / total if lift else LD(0)
    Z = T - centre
    moment = 2 * (Z.T * weights) @ Z
    lower = log_det(moment) / 2 + LD(k) / 2 - total
    D = k + lift
    # Of ln|M|; the problem above has half of it.
    certificate(
        outcome,
        reported=float(value),
        gap=float(model.gap_),
        converged=converged,
        value=value,
        own=lower,
        reference=lambda: None,
        scale=D / 2,
        promise=max(model.tol, PROMISE),
    )


def _log_abs_det(F: np.ndarray) -> LD:
    """Logarithm of the absolute determinant, by elimination after the columns' units are gone."""
    units = np.abs(F).max(axis=0)
    A, total = F / units, np.log(units).sum()
    for k in range(len(A)):
        p = k + int(np.abs(A[k:, k]).argmax())
        A[[k, p]] = A[[p, k]]
        if A[k, k] == 0:
            return LD(-np.inf)
        A[k + 1 :, k:] -= np.outer(A[k + 1 :, k] / A[k, k], A[k, k:])
        total = total + np.log(np.abs(A[k, k]))
    return total


def _judge_volume(model: Any, outcome: Outcome) -> None:
    """Compare the reported volume with that of the stored matrix."""
    F = longdouble(model.inverse_factor_)
    k, d = F.shape
    if k < d and np.linalg.cond(model.inverse_factor_) > 1e7:
        return
    volume = float(_log_abs_det(F) if k == d else log_det(F @ F.T) / 2)
    expected = volume + 0.5 * k * np.log(np.pi) - float(gammaln(0.5 * k + 1))
    error = model.log_volume_ - expected
    if not abs(error) <= SLACK * max(1, k):
        outcome.add("objective", f"log_volume_ is off by {error:.3g}")


def ellipsoidal_svm(problem: Problem, model: Any, outcome: Outcome, converged: bool) -> None:
    """Judge the ellipsoidal support vector machine of two classes."""
    X, params = problem.X, problem.params
    n = X.shape[0]
    omega = longdouble(problem.fit_params.get("sample_weight", np.ones(n)))
    rows = np.flatnonzero(omega > 0)
    y = np.where(problem.y[rows] == model.classes_[1], LD(1), LD(-1))
    omega = omega[rows]
    penalties = omega.copy()
    if model.class_weight == "balanced":
        for own in (y > 0, y < 0):
            penalties[own] *= omega.sum() / (2 * omega[own].sum())
    kernel = KernelOf.of(model, X[rows], centred=False)
    K = kernel.matrix(X, rows)
    if len(K) > _MOST_ROWS:
        outcome.add("unchecked", "too many rows")
        return
    t = np.sqrt(np.maximum(np.diag(K), 0))
    if model.normalize:
        inverse = 1 / np.where(t > 0, t, LD(1))
        K = K * inverse * inverse[:, None]
        t = np.sqrt(np.maximum(np.diag(K), 0))
    if t.min() <= 1e-6 * t.max():
        outcome.add("unchecked", "rows of no length")
        return
    G = longdouble(model._factors[0])
    r, p = LD(model._r), len(G)
    rank = np.linalg.matrix_rank((K / np.outer(t, t)).astype(float), hermitian=True)
    if rank != p:
        outcome.add("unchecked", f"the rank is {rank} or {p}")
        return
    consistent = model.formulation == "consistent"
    pi = 1 / t if consistent else np.ones(len(t), dtype=LD)
    hard = model.margin == "hard" and not np.isnan(model.r_star_[0])
    nu = LD(1e-3) if model.margin == "hard" else LD(model.nu)
    caps = penalties / (nu * t**2)
    if consistent:
        # The dimension of the span, as far as the digits of the rows determine it.
        F = longdouble(X[rows])
        F = F / np.sqrt((F**2).sum(axis=1))[:, None] if model.normalize else F
        span = _span(F) if kernel.name == "linear" else p
        if span != p:
            outcome.add("unchecked", "the digits of the rows do not tell their rank")
            return
        caps = penalties * (r * span / (omega.sum() * nu)) / t
    caps = np.full(len(t), LD(np.inf)) if hard else caps
    # The model as its public methods give it.
    f = longdouble(model.decision_function(X.astype(np.float64)))[rows]
    if kernel.name == "linear":
        w = longdouble(model.coef_[0])
        scale = 1 / np.sqrt(np.einsum("ij,ij->i", longdouble(X[rows]), longdouble(X[rows])))
        f = longdouble(X[rows]) @ w * (scale if model.normalize else 1)
        f = f + LD(model.intercept_[0])
        if not np.sqrt(w @ w) <= 1 + SLACK:
            outcome.add("false", "the weight vector is longer than one")
    q = pi * longdouble(model.ellipsoid_norm(X.astype(np.float64)))[rows]
    volume = p * np.log(r) + 2 * np.log(np.abs(np.diag(G))).sum()
    trace = r * (G**2).sum()
    value = _esvm_primal(volume, trace, q, y * f, caps, r, p)
    if value is None:
        outcome.add("unchecked", "a hard margin that the model does not have")
        return
    reported, gap = float(model.objective_[0]), float(model.dual_gap_[0])

    def reference() -> Reference | None:
        alpha = _esvm_weights(K, y, caps, pi, float(r), p, params.get("fit_intercept", True))
        if alpha is None:
            return None
        return Reference(LD(np.inf), _esvm_dual(K, y, alpha, pi, r, p))

    certificate(
        outcome,
        reported=reported,
        gap=gap,
        converged=converged,
        value=value,
        own=None,
        reference=reference,
        scale=float(r * p),
        promise=max(model.tol, PROMISE),
    )


def _span(F: np.ndarray) -> int | None:
    """Dimension of the span of rows, whatever the columns' units; None if there is doubt."""
    lengths = np.sqrt((F**2).sum(axis=0))
    values = np.linalg.svd((F / np.where(lengths > 0, lengths, 1)).astype(float), compute_uv=False)
    sure, faint = ((values > share * values[0]).sum() for share in (1e-4, 1e-7))
    return max(1, int(sure)) if sure == faint else None


def _esvm_primal(volume, trace, q, side, caps, r, p) -> LD | None:
    """Objective; a hard margin shrinks the matrix until it holds."""
    if np.isfinite(caps.astype(float)).all():
        return -r * volume + (1 - r) * trace + (caps * np.maximum(q - side, 0)).sum()
    shrink = min(LD(1), (side / q).min())
    if shrink <= 0:
        return None
    return -r * (volume + p * np.log(shrink)) + (1 - r) * shrink * trace


def _esvm_dual(K, y, alpha, pi, r, p) -> LD:
    root = np.sqrt(alpha * pi)
    A = K * root * root[:, None] / (1 - r)
    A[np.diag_indices(len(A))] += 1
    length = np.sqrt(max(LD(0), (alpha * y) @ K @ (alpha * y)))
    return r * (log_det(A) + p * np.log((1 - r) / r)) + r * p - length


def _esvm_weights(K, y, caps, pi, r, p, intercept) -> np.ndarray | None:
    """Dual weights, from the library's own tight solution on features in double precision."""
    from oblong.solvers.esvm.solve import solve_ellipsoidal_svm
    from tests.fuzz.exact import features

    F = features(K).astype(np.float64)
    with np.errstate(all="ignore"):
        found = solve_ellipsoidal_svm(
            F,
            y.astype(np.float64),
            caps=caps.astype(np.float64),
            pi=pi.astype(np.float64),
            r=r,
            fit_intercept=bool(intercept),
            tol=1e-9,
            polish=True,
        )
    alpha = np.clip(longdouble(found.alpha), 0, caps)
    if not np.isfinite(alpha.astype(float)).all():
        return None
    if intercept:
        up, down = alpha[y > 0].sum(), alpha[y < 0].sum()
        if min(up, down) <= 0:
            return np.zeros_like(alpha)
        alpha = np.where(y > 0, alpha * min(LD(1), down / up), alpha * min(LD(1), up / down))
    return alpha


def online_ellipsoidal_svm(problem: Problem, model: Any, outcome: Outcome, converged: bool) -> None:
    """Judge the online ellipsoidal support vector machine after a fit, for two classes."""
    n = problem.X.shape[0]
    omega = longdouble(problem.fit_params.get("sample_weight", np.ones(n)))
    rows = np.flatnonzero(omega > 0)
    omega = omega[rows] / omega[rows].sum()
    X = longdouble(problem.X[rows])
    w = longdouble(model.coef_[0])
    if model.fit_intercept:
        X = np.column_stack([X, np.ones(len(X), dtype=LD)])
        w = np.append(w, LD(model.intercept_[0]))
    y = np.where(problem.y[rows] == model.classes_[1], LD(1), LD(-1))
    t = np.sqrt(np.einsum("ij,ij->i", X, X))
    if t.min() <= 0:
        outcome.add("unchecked", "rows of no length")
        return
    u, size = X / t[:, None], X.shape[1]
    unit = model.formulation == "consistent"
    tau = np.ones(len(t), dtype=LD) if unit else t
    caps = LD(size if unit else 1) / LD(model.nu) * omega
    bound = 1 / tau.max()
    B = longdouble(model.B_)
    trace = np.trace(B)
    if not np.sqrt(w @ w) <= 1 + SLACK:
        outcome.add("false", "the weight vector is longer than one")
    B = B * min(LD(1), bound / trace)
    slack = np.maximum(tau * np.einsum("ij,jk,ik->i", u, B, u) - y * (u @ w), 0)
    value = -log_det(B) + caps @ slack
    U, tau64, y64 = u.astype(float), tau.astype(float), y.astype(float)
    top, T = caps.astype(float), float(bound)

    def negative(alpha: np.ndarray) -> tuple[float, np.ndarray]:
        M = (U.T * (alpha * tau64)) @ U
        theta = _theta(np.linalg.eigvalsh(M), T)
        inverse = np.linalg.inv(M + theta * np.eye(size))
        v = (alpha * y64) @ U
        length = np.linalg.norm(v)
        dual = np.linalg.slogdet(M + theta * np.eye(size))[1] - length - theta * T
        gradient = tau64 * np.einsum("ij,jk,ik->i", U, inverse, U)
        return -dual, -(gradient - y64 * (U @ v) / max(length, 1e-12))

    def reference() -> Reference:
        found = minimize(
            negative,
            0.5 * top,
            jac=True,
            method="L-BFGS-B",
            bounds=[(0.0, c) for c in top],
            options={"maxiter": 5000, "maxfun": 10000, "ftol": 1e-13, "gtol": 1e-9, "maxcor": 30},
        )
        alpha = np.clip(longdouble(found.x), 0, caps)
        M = (u.T * (alpha * tau)) @ u
        theta = LD(_theta(np.linalg.eigvalsh(M.astype(float)), T))
        v = (alpha * y) @ u
        M[np.diag_indices(size)] += theta
        return Reference(LD(np.inf), log_det(M) + size - np.sqrt(v @ v) - theta * bound)

    certificate(
        outcome,
        reported=float(model.objective_[0]),
        gap=float(model.dual_gap_[0]),
        converged=converged,
        value=value,
        own=None,
        reference=reference,
        scale=float(size),
        promise=max(model.tol, PROMISE),
    )


def _theta(values: np.ndarray, bound: float) -> float:
    """The root of ``Σ 1/(λ + θ) = bound``, or zero."""
    values = np.maximum(values, 0.0)
    if values[0] > 0 and (1 / values).sum() <= bound:
        return 0.0
    low, high = 0.0, len(values) / bound
    for _ in range(200):
        middle = 0.5 * (low + high)
        with np.errstate(divide="ignore"):
            above = (1 / (values + middle)).sum() > bound
        low, high = (middle, high) if above else (low, middle)
    return high
