"""The largest margin in units that differ from row to row, with a certificate.

::

    max_{|w| <= 1, b}  min_i  y_i (w·φ_i + b) / s_i

With ``s = 1`` this is half the width of the widest street. In the ellipsoidal support vector
machine (Momma, Hatano and Nakayama, ACML 2010) with a hard margin, ``s_i = π_i |φ_i|²`` tells where
the ellipsoid is a ball: the margin ``ρ`` of the best direction makes it one for
``r <= ρ / (1 + ρ)``, and its solution is this one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from oblong.linalg.kernel_matrix import KernelMatrix
from oblong.solvers.margin.options import DEFAULTS, MarginOptions
from oblong.solvers.margin.problem import Pieces
from oblong.solvers.margin.solver import solve_margin


@dataclass(frozen=True)
class ScaledMarginResult:
    """The largest margin.

    Attributes
    ----------
    w : ndarray of shape (p,)
        Direction of length one.
    b : float
        Bias.
    margin : float
        Its margin, which is negative if no direction separates the rows.
    upper_bound : float
        No direction has a larger one.
    n_iter : int
        Steps.
    """

    w: np.ndarray
    b: float
    margin: float
    upper_bound: float
    n_iter: int


def solve_scaled_margin(
    F: np.ndarray,
    y: np.ndarray,
    sizes: np.ndarray,
    *,
    fit_intercept: bool = True,
    start: np.ndarray | None = None,
    weights: np.ndarray | None = None,
    tol: float = 1e-10,
    options: MarginOptions = DEFAULTS,
) -> ScaledMarginResult:
    """Find the direction with the largest margin.

    Parameters
    ----------
    F : ndarray of shape (n, p)
        Rows, which some direction separates.
    y : ndarray of shape (n,)
        Labels, -1 or +1.
    sizes : ndarray of shape (n,)
        The units ``s_i``, not negative.
    fit_intercept : bool, default=True
        Whether there is a ``b``.
    start : ndarray of shape (n,), optional
        Outputs of some direction, whose nearest rows are tried first.
    weights : ndarray of shape (n,), optional
        Dual weights of a direction that separates the rows, best of the analytic centre: where
        there are almost as many columns as rows, the way to the solution is short from there.
    tol : float, default=1e-10
        Largest violation of the optimality conditions.
    options : MarginOptions
        Tuning constants.

    Returns
    -------
    ScaledMarginResult
        The direction, with its certificate.

    Examples
    --------
    >>> import numpy as np
    >>> from oblong.solvers.margin.scaled import solve_scaled_margin
    >>> F, y = np.array([[1.0, 0.0], [-3.0, 0.0]]), np.array([1.0, -1.0])
    >>> result = solve_scaled_margin(F, y, np.array([1.0, 3.0]))
    >>> round(result.margin, 6), abs(float(result.b)) < 1e-6
    (1.0, True)
    """
    length = float(np.sqrt(np.einsum("ij,ij->i", F, F, dtype=np.float64).max())) or 1.0
    unit = float(np.median(sizes)) or 1.0
    sizes = np.asarray(sizes, dtype=np.float64)
    near = np.full(len(y), np.inf) if start is None else y * start / np.maximum(sizes, 1e-300)
    best = ScaledMarginResult(np.zeros(F.shape[1]), 0.0, -np.inf, np.inf, 0)
    if options.pivot_rows_per_column * F.shape[1] >= len(y) > options.pivot_from:
        scaled = F / length, y, sizes / unit
        pivoted = _by_pivoting(*scaled, fit_intercept, options)
        if pivoted is not None:
            best, _ = _better(best, F, y, sizes, np.arange(len(y)), pivoted[0], fit_intercept)
            if best.margin >= best.upper_bound * (1.0 - options.pivot_gap):
                return replace(best, n_iter=pivoted[1])
        if weights is not None:
            found = _by_interior_point(*scaled, weights, fit_intercept, options)
            if found is not None:
                factor = length / unit
                values = found.margin * factor, found.upper_bound * factor
                return ScaledMarginResult(found.w, found.b * length, *values, found.n_iter)
    chosen = np.sort(_first(near, y, options.scaled_rows))
    for _ in range(options.scaled_rounds):
        rows = F[chosen].astype(np.float64) / length
        units = sizes[chosen] / unit
        coef, n_iter = _coefficients(rows, y[chosen], units, fit_intercept, tol, options)
        best, ratios = _better(best, F, y, sizes, chosen, coef, fit_intercept)
        best = replace(best, n_iter=best.n_iter + n_iter)
        if best.margin >= best.upper_bound * (1.0 - 1e-9):
            break
        missing = np.setdiff1d(np.flatnonzero(ratios < best.upper_bound * (1.0 - 1e-12)), chosen)
        if missing.size == 0:
            break
        nearest = missing[np.argsort(ratios[missing])[: options.scaled_rows]]
        chosen = np.sort(np.append(chosen, nearest))
    return best


def _first(near: np.ndarray, y: np.ndarray, count: int) -> np.ndarray:
    """The nearest rows of either class."""
    if len(y) <= count:
        return np.arange(len(y))
    return np.concatenate(
        [
            rows[np.argsort(near[rows], kind="stable")[: count // 2]]
            for rows in (np.flatnonzero(y > 0), np.flatnonzero(y < 0))
        ]
    )


def _by_pivoting(
    rows: np.ndarray, y: np.ndarray, sizes: np.ndarray, fit_intercept: bool, options: MarginOptions
) -> tuple[np.ndarray, int] | None:
    """Signed coefficients as below, by linear systems; None where that goes round in circles.

    Of the rows that count, whose outputs are ``s_i``, those with a negative coefficient leave and
    those that are too near join, all at once (block principal pivoting: Júdice and Pires, Computers
    & Operations Research 21, 1994).
    """
    K, target = rows @ rows.T, y * sizes
    squares = K.diagonal()
    # One of equal rows is enough, and two have no factor.
    counts = np.array(
        [
            not np.any(squares[i] + squares[:i] - 2.0 * K[i, :i] < options.pivot_equal)
            for i in range(len(y))
        ]
    )
    distinct, fewest, idle, n_iter = counts.copy(), len(y) + 1, 0, 0
    while True:
        n_iter += 1
        used = np.flatnonzero(counts)
        L, info = dpotrf(K[np.ix_(used, used)].T, lower=1, clean=0, overwrite_a=1)
        if info != 0 or not len(used):
            return None
        right = np.column_stack([target[used], np.ones(len(used))])
        part, ones = dpotrs(L, right, lower=1)[0].T
        bias = float(part.sum() / ones.sum()) if fit_intercept else 0.0
        coef = np.zeros(len(y))
        coef[used] = part - bias * ones
        slack = y * (rows @ (coef @ rows) + bias) - sizes
        near = distinct & ~counts & (slack < -options.pivot_slack * sizes)
        wrong = np.flatnonzero(near | (y * coef < 0.0))
        if not len(wrong):
            return coef, n_iter
        idle = 0 if len(wrong) < fewest else idle + 1
        fewest = min(fewest, len(wrong))
        if idle > options.pivot_patience:
            return None
        counts[wrong] ^= True


def _by_interior_point(
    rows: np.ndarray,
    y: np.ndarray,
    sizes: np.ndarray,
    weights: np.ndarray,
    fit_intercept: bool,
    options: MarginOptions,
) -> ScaledMarginResult | None:
    """Direction and bias by Mehrotra's method, begun near its central path; None if that fails.

    For weights of an analytic centre, ``α_i`` times the output of row ``i`` is the same for all
    rows. The direction is a small difference of large numbers where rows nearly repeat each other:
    it is moved, and not computed from the coefficients.
    """
    n, K, c = len(y), rows @ rows.T, y * weights
    w = c @ rows
    outputs = rows @ w
    b = widest_bias(sizes, outputs, y) if fit_intercept else 0.0
    half = 0.5 * float(np.min(y * (outputs + b) / np.maximum(sizes, np.finfo(float).tiny)))
    if not 0.0 < half < np.inf:
        return None
    c, w, b = c / half, w / half, b / half
    z = y * (outputs / half + b) - sizes
    # Rows without a weight need some.
    level = float(weights @ z) / half / n
    c += y * 0.1 * level / z
    found, ones = ScaledMarginResult(w, b, -np.inf, np.inf, 0), np.ones(n)
    w = c @ rows
    for n_iter in range(1, options.scaled_steps + 1):
        side, a = y * (rows @ w + b), y * c
        length = float(np.linalg.norm(w))
        balanced = not fit_intercept or abs(c.sum()) <= 1e-9 * a.sum()
        bound = length / float(a @ sizes) if balanced else np.inf
        best_bias = widest_bias(sizes, y * side - b, y) if fit_intercept else 0.0
        margin = float(np.min((side + y * (best_bias - b)) / np.maximum(sizes, 1e-300))) / length
        better = margin > found.margin
        found = replace(found, upper_bound=min(bound, found.upper_bound), n_iter=n_iter)
        if better:
            found = replace(found, w=w / length, b=best_bias / length, margin=margin)
        if found.margin >= found.upper_bound * (1.0 - 1e-9):
            break
        N = K.copy()
        N.flat[:: n + 1] += z / a
        L, info = dpotrf(N.T, lower=1, clean=0, overwrite_a=1)
        if info != 0:
            break
        across = dpotrs(L, ones, lower=1)[0]
        level, second = 0.0, 0.0
        for _ in range(2):
            dc = dpotrs(L, y * (sizes - side + (level - second) / a), lower=1)[0]
            db = (dc.sum() + c.sum()) / across.sum() if fit_intercept else 0.0
            dc -= db * across
            dz = (level - second) / a - z - z / a * y * dc
            t = 1.0 / max(1.0, float(np.max(-y * dc / a)), float(np.max(-dz / z)))
            now, then = float(a @ z), float((a + t * y * dc) @ (z + t * dz))
            level, second = (then / now) ** 3 * now / n, y * dc * dz
        t = min(1.0, 0.99 * t) if t < 1.0 else 1.0
        c, w, b, z = c + t * dc, w + t * (dc @ rows), b + t * db, z + t * dz
    return found if found.margin >= found.upper_bound * (1.0 - options.pivot_gap) else None


def _coefficients(
    rows: np.ndarray,
    y: np.ndarray,
    sizes: np.ndarray,
    fit_intercept: bool,
    tol: float,
    options: MarginOptions,
) -> tuple[np.ndarray, int]:
    """Signed coefficients ``c`` of the nearest vector ``Σ c_i φ_i`` with outputs ``>= s_i``."""
    n = len(y)
    if not fit_intercept:
        # Rows together with their mirror images have a solution without bias.
        rows, y, sizes = np.vstack([rows, -rows]), np.append(y, -y), np.append(sizes, sizes)
    columns = KernelMatrix(rows @ rows.T)
    slopes = np.repeat((sizes * y)[:, None], 3, axis=1)
    coef: np.ndarray | None = None
    n_iter = 0
    for penalty in options.scaled_penalties:
        low, high = np.where(y > 0, 0.0, -penalty), np.where(y > 0, penalty, 0.0)
        pieces = Pieces(np.column_stack([low, low, high, high]), slopes)
        found = solve_margin(columns, pieces, tol=tol, start=coef, stage="margin", options=options)
        coef, n_iter = found.coef, n_iter + found.n_iter
        if np.abs(coef).max() < penalty:
            break
    assert coef is not None  # There is at least one penalty.
    return coef if fit_intercept else coef[:n] - coef[n:], n_iter


def _better(
    best: ScaledMarginResult,
    F: np.ndarray,
    y: np.ndarray,
    sizes: np.ndarray,
    chosen: np.ndarray,
    coef: np.ndarray,
    fit_intercept: bool,
) -> tuple[ScaledMarginResult, np.ndarray]:
    """Certify a direction on all rows; ``|Σ α y φ| / Σ α s`` bounds every margin."""
    v = coef @ F[chosen].astype(np.float64)
    length, total = float(np.linalg.norm(v)), float(np.abs(coef) @ sizes[chosen])
    if length == 0.0 or total == 0.0:
        return best, np.full(len(y), np.inf)
    w = v / length
    outputs = F @ w
    # Rows of next to no size: their ratios may be beyond all numbers.
    with np.errstate(over="ignore"):
        b = widest_bias(sizes, outputs, y) if fit_intercept else 0.0
        ratios = y * (outputs + b) / np.maximum(sizes, np.finfo(float).tiny)
    # A row at the origin only has to be on the right side.
    ratios = np.where((sizes == 0.0) & (y * (outputs + b) >= 0.0), np.inf, ratios)
    margin = float(ratios.min())
    bound = min(best.upper_bound, length / total)
    if margin > best.margin:
        return ScaledMarginResult(w, b, margin, bound, best.n_iter), ratios
    return replace(best, upper_bound=bound), ratios


def widest_bias(q: np.ndarray, g: np.ndarray, y: np.ndarray) -> float:
    """The bias with the largest ``min_i y_i (g_i + b) / q_i``.

    Two lines meet at the top of a concave piecewise linear function; each round adds the lines
    that are lowest where the last two met.
    """
    q = np.maximum(q, np.finfo(float).tiny)
    positive = y > 0
    above, below = (q[positive], g[positive]), (q[~positive], g[~positive])
    b = 0.5 * float(np.max(-above[1], initial=-np.inf) + np.min(-below[1], initial=np.inf))
    for _ in range(100):
        i = int(np.argmin((above[1] + b) / above[0]))
        j = int(np.argmin(-(below[1] + b) / below[0]))
        a, c = above[0][i], below[0][j]
        found = -(above[1][i] / a + below[1][j] / c) / (1.0 / a + 1.0 / c)
        if not np.isfinite(found) or found == b:
            break
        b = found
    return b
