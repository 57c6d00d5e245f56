"""The ellipsoidal support vector machine before its relaxation: a second-order cone problem.

::

    min  -r ln|E| + (1 - r) tr E + Σ C_i ξ_i
    s.t. y_i (φ_i'w + b) + ξ_i >= |E φ_i|,  ξ_i >= 0,  |w| <= 1,  E positive definite

(Momma, Hatano and Nakayama, Ellipsoidal Support Vector Machines, ACML 2010, eq. 5, where ``ξ_i`` is
written ``|φ_i|² ζ_i`` and ``C_i`` is ``1 / (ν |φ_i|²)``.) The ellipsoid ``{w + E u: |u| <= 1}``
then lies on the right side of every row without slack. It is solved by a general conic solver,
which the optional packages ``oblong[conic]`` bring; its answer is certified here. For weights
``α`` in ``[0, C]`` with ``Σ y_i α_i = 0`` and any vectors ``|u_i| <= 1``, no feasible point has a
smaller value than ::

    r ln|N| - r p ln r + r p - |Σ α_i y_i φ_i|,   N = (1 - r) I + ½ Σ α_i (φ_i u_i' + u_i φ_i')
"""

from __future__ import annotations

import warnings
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError

from oblong.linalg.log_det import inverse_factor
from oblong.solvers.esvm.options import EsvmOptions
from oblong.solvers.esvm.problem import balanced, smallest_ratio
from oblong.solvers.esvm.solve import (
    EllipsoidalSVMResult,
    moment_factor,
    solve_ellipsoidal_svm,
)


def solve_exact_ellipsoidal_svm(
    F: np.ndarray,
    y: np.ndarray,
    *,
    caps: np.ndarray,
    r: float,
    fit_intercept: bool = True,
    tol: float = 1e-5,
    options: EsvmOptions | None = None,
) -> EllipsoidalSVMResult:
    """Solve the ellipsoidal support vector machine without its relaxation.

    Parameters
    ----------
    F : ndarray of shape (n, p)
        Feature vectors ``φ_i`` in rows; a few thousand rows of thirty columns are feasible.
    y : ndarray of shape (n,)
        Labels, -1 or +1.
    caps : ndarray of shape (n,)
        Penalties ``C_i`` of slack; infinite for a hard margin. Rows with zero are left out.
    r : float
        Weight of the log-determinant, ``0 < r < 1``.
    fit_intercept : bool, default=True
        Whether there is a ``b``.
    tol : float, default=1e-5
        Gap up to which the solution counts as converged.
    options : EsvmOptions, default=None
        Settings of the solvers.

    Returns
    -------
    EllipsoidalSVMResult
        The solution with its gap. The half axes ``E`` of the ellipsoid take the place of ``B``, so
        that ``q_i`` is ``|E φ_i|`` and ``E = r G'G``.

    Raises
    ------
    ImportError
        If the conic solver is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> from oblong.solvers.esvm.exact import solve_exact_ellipsoidal_svm
    >>> X, y = np.array([[1.0, 0.0], [-1.0, 0.0]]), np.array([1.0, -1.0])
    >>> result = solve_exact_ellipsoidal_svm(X, y, caps=np.full(2, np.inf), r=0.9)
    >>> E = 0.9 * result.factor.T @ result.factor
    >>> result.w.round(3).tolist(), float(E[0, 0].round(3))
    ([1.0, 0.0], 1.0)
    """
    cp = _conic()
    options = options or EsvmOptions()
    F, y, caps = (np.asarray(a, dtype=np.float64) for a in (F, y, caps))
    given = _Problem(F, y, caps, r, fit_intercept, tol)
    used = caps > 0.0
    task = given.take(used)
    if not len(task.F) or task.y.min() == task.y.max():
        raise ValueError("rows of both classes with positive caps are needed")
    p = F.shape[1]
    if p == 1:
        # Numbers: |E φ| = E φ² / |φ|, so that the relaxed problem is the problem itself.
        found, pi = given.relaxed(0.1 * tol)
        G = moment_factor(F, found.alpha, pi, r) if found.factor is None else found.factor
        return _certified(given, (found.w, found.b, r * G.T @ G, found.alpha), found.n_iter)
    # Rows of length near one; E, w and the values stay, b, ξ and 1 / C shrink with the rows.
    length = float(np.sqrt(np.mean(_lengths(task.F) ** 2))) or 1.0
    task = task._replace(F=task.F / length, caps=task.caps * length)
    chosen = _likely(task, options)
    n_iter = 0
    while True:
        solved = _conic_solution(cp, task.take(chosen))
        if solved is None:
            status = "inseparable" if np.isinf(task.caps).any() else "stalled"
            zero, values = np.zeros(len(F)), (np.inf, -np.inf, np.inf)
            G = np.eye(p) / np.sqrt(r)
            return EllipsoidalSVMResult(np.zeros(p), 0.0, zero, zero, G, zero, *values, 0, status)
        (w, bias, E, weights), count = solved
        n_iter += count
        short = _lengths(task.F @ E) - task.y * (task.F @ w + bias)
        missed = ~chosen & (short > options.conic_missed)
        if not missed.any():
            break
        chosen |= missed
    places = np.flatnonzero(used)[chosen]
    alpha = np.zeros(len(F))
    alpha[places] = np.clip(weights / length, 0.0, caps[places])
    return _certified(given, (w, bias * length, E, alpha), n_iter)


class _Problem(NamedTuple):
    """Rows, labels and penalties, and the rest of the problem."""

    F: np.ndarray
    y: np.ndarray
    caps: np.ndarray
    r: float
    fit_intercept: bool
    tol: float

    def take(self, rows: np.ndarray) -> _Problem:
        """The problem of some rows."""
        return self._replace(F=self.F[rows], y=self.y[rows], caps=self.caps[rows])

    def relaxed(self, tol: float) -> tuple[EllipsoidalSVMResult, np.ndarray]:
        """Solution of the relaxed problem, and its factors ``π``."""
        F, y, caps, r, intercept, _ = self
        lengths = _lengths(F)
        pi = 1.0 / np.where(lengths > 0.0, lengths, 1.0)
        how: dict[str, Any] = {"r": r, "fit_intercept": intercept, "tol": tol}
        return solve_ellipsoidal_svm(F, y, caps=caps, pi=pi, **how), pi


def _lengths(rows: np.ndarray) -> np.ndarray:
    return np.sqrt(np.einsum("ij,ij->i", rows, rows))


def _likely(task: _Problem, options: EsvmOptions) -> np.ndarray:
    """Rows that the constraints are likely to touch, by the relaxed problem; all if they are few.

    The work grows with the rows, and the solver gets stuck where most of them say nothing.
    """
    everything = np.ones(len(task.F), dtype=bool)
    if len(task.F) <= options.conic_rows or np.isinf(task.caps).any():
        return everything
    relaxed, _ = task.relaxed(1e-4)
    if relaxed.status != "converged":
        return everything
    spare = task.y * relaxed.outputs - relaxed.q
    near = spare <= 0.25 * float(np.mean(np.maximum(spare, 0.0)))
    return near if len(np.unique(task.y[near])) == 2 else everything


def _conic_solution(
    cp: ModuleType, task: _Problem
) -> tuple[tuple[np.ndarray, float, np.ndarray, np.ndarray], int] | None:
    """``w``, ``b``, ``E`` and the dual weights, with the solver's iterations; None if it fails."""
    F, y, caps, r, fit_intercept, tol = task
    p = F.shape[1]
    E, w = cp.Variable((p, p), symmetric=True), cp.Variable(p)
    b = cp.Variable() if fit_intercept else cp.Constant(0.0)
    hard = ~np.isfinite(caps)
    xi = cp.Variable(len(F), nonneg=True)
    outside = cp.norm(F @ E, axis=1) <= cp.multiply(y, F @ w + b) + xi
    constraints = [outside, cp.norm(w) <= 1]
    if hard.any():
        constraints.append(xi[hard] == 0)
    objective = -r * cp.log_det(E) + (1 - r) * cp.trace(E) + np.where(hard, 0.0, caps) @ xi
    problem = cp.Problem(cp.Minimize(objective), constraints)
    # As accurately as the solver can; where it gets stuck, as the tolerance asks.
    rough = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), tol)
    for options in ({}, rough):
        try:
            with warnings.catch_warnings():
                # The certificate says how accurate the solution is.
                warnings.simplefilter("ignore", UserWarning)
                problem.solve(solver=cp.CLARABEL, **options)
        except cp.SolverError:
            continue
        break
    if E.value is None:
        return None
    bias = float(b.value)
    count = int(problem.solver_stats.num_iters or 0)
    return (w.value, bias, E.value, np.ravel(outside.dual_value)), count


def _conic() -> ModuleType:
    try:
        import clarabel  # noqa: F401
        import cvxpy
    except ImportError as error:
        raise ImportError(
            "the exact ellipsoidal problem needs a conic solver: pip install 'oblong[conic]'"
        ) from error
    return cvxpy


def _certified(
    problem: _Problem, point: tuple[np.ndarray, float, np.ndarray, np.ndarray], n_iter: int
) -> EllipsoidalSVMResult:
    """Value of the point, made feasible, and the bound that its weights give."""
    F, y, caps, r, fit_intercept, tol = problem
    w, b, E, alpha = point
    p = F.shape[1]
    w = w / max(1.0, float(np.linalg.norm(w)))
    E = 0.5 * (E + E.T)
    image = F @ E
    q = _lengths(image)
    outputs = F @ w + b
    side = y * outputs
    hard = np.isinf(caps)
    shrink = min(1.0, smallest_ratio(side[hard], q[hard])) if hard.any() else 1.0
    objective = np.inf
    if shrink > 0.0:
        sign, log_det = np.linalg.slogdet(shrink * E)
        soft = ~hard & (caps > 0.0)
        loss = float(caps[soft] @ np.maximum(shrink * q[soft] - side[soft], 0.0))
        if sign > 0:
            objective = -r * log_det + (1.0 - r) * shrink * float(np.trace(E)) + loss
    alpha = balanced(alpha, y) if fit_intercept else alpha
    directions = np.divide(image, q[:, None], out=np.zeros_like(image), where=q[:, None] > 0.0)
    half = (F.T * alpha) @ directions
    v = (alpha * y) @ F
    try:
        log_det = inverse_factor((1.0 - r) * np.eye(p) + 0.5 * (half + half.T))[1]
        dual = r * log_det + r * p * (1.0 - np.log(r)) - float(np.linalg.norm(v))
    except LinAlgError:
        dual = -np.inf
    gap = (objective - dual) / (r * p)
    status = "converged" if gap <= tol else "stalled"
    if objective == np.inf and hard.any():
        status = "inseparable"
    try:
        G, _ = inverse_factor(r * np.linalg.inv(E))
    except LinAlgError:
        # No ellipsoid, of a problem without a solution.
        G = np.zeros((p, p))
    return EllipsoidalSVMResult(w, b, alpha, q, G, outputs, objective, dual, gap, n_iter, status)
