"""One binary problem of the ellipsoidal SVM: its penalties, and its limit cases."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from oblong._core.progress import ProgressCallback
from oblong.linalg.feature_map import row_norms
from oblong.solvers.esvm.problem import best_bias
from oblong.solvers.esvm.solve import (
    EllipsoidalSVMResult,
    Evaluate,
    as_stored,
    solve_ellipsoidal_svm,
)
from oblong.solvers.margin.scaled import solve_scaled_margin

# The direction for overlapping classes no longer depends on nu where nu is as small as this.
_SMALL_NU = 1e-3
# Rows of length zero are given this fraction of the median length where they are divided by it.
_SHORT = 1e-6
# A direction that lowers the objective by less than this fraction of r p, or ten gaps, is none.
_NO_GAIN = 1e-9
# Up to this many rows a few more iterations cost nothing, and the last digits are worth having.
_SMALL_PROBLEM = 200
# What a general conic solver can do.
_CONIC_TOL = 1e-5

_INSEPARABLE = (
    'no hyperplane separates the classes, so margin="hard" has no solution; fitted the soft margin '
    f"with nu={_SMALL_NU:g} instead, which has the direction of the limit of small nu"
)
_ROUND = (
    "r={r:g} is not above r_star_={r_star:.3g}: the ellipsoid is a ball and does not determine "
    "the direction; fitted the one with the largest margin, which is the support vector machine"
)
_FLAT = (
    "no direction is better than a constant output, so a constant was fitted: the rows of the "
    "classes coincide, or cancel each other out"
)


@dataclass(frozen=True)
class EllipsoidalSetting:
    """What all binary problems share.

    Attributes
    ----------
    nu, r : float
        Parameters of the model.
    p : int
        Dimension of the span of the rows.
    hard, consistent, fit_intercept : bool
        Which of the models it is.
    solver : str
        How it is solved; ``"exact"`` stands for the second-order cone problem.
    tol : float
        Largest gap.
    max_iter : int or None
        Limit on iterations.
    progress : callable or None
        Where to report.
    """

    nu: float
    r: float
    p: int
    hard: bool
    consistent: bool
    fit_intercept: bool
    solver: str
    tol: float
    max_iter: int | None
    progress: ProgressCallback | None


@dataclass(frozen=True)
class BinarySolution:
    """One solved problem.

    Attributes
    ----------
    result : EllipsoidalSVMResult
        The solution.
    caps : ndarray of shape (n,)
        Upper bounds of its dual weights.
    pi : ndarray of shape (n,)
        Factors ``π_i`` of the quadratic forms.
    r_star : float
        The value of ``r`` up to which a hard margin is that of the support vector machine; nan
        for a soft margin, and where nothing separates the rows.
    messages : tuple of str
        What the user ought to know.
    rounded : bool
        Whether most of the gap is rounding.
    """

    result: EllipsoidalSVMResult
    caps: np.ndarray
    pi: np.ndarray
    r_star: float
    messages: tuple[str, ...]
    rounded: bool


def solve_binary(
    F: np.ndarray,
    y: np.ndarray,
    penalties: np.ndarray,
    weights: np.ndarray,
    setting: EllipsoidalSetting,
    evaluate: Evaluate,
    outside: np.ndarray | None = None,
    start: EllipsoidalSVMResult | None = None,
) -> BinarySolution:
    """Solve one binary problem; the certificate is that of the model as it is stored.

    Parameters
    ----------
    F : ndarray of shape (n, p)
        Feature vectors.
    y : ndarray of shape (n,)
        Labels, -1 or +1.
    penalties, weights : ndarray of shape (n,)
        Sample weights with and without those of the classes.
    setting : EllipsoidalSetting
        The model.
    evaluate : callable
        Gives the outputs of the stored model and their rounding errors.
    outside : ndarray of shape (n,), optional
        Squared lengths of the parts of the rows that the feature vectors leave out as rounding.
    start : EllipsoidalSVMResult, optional
        A solution to start from.
    """
    t = row_norms(F)
    lengths = np.maximum(t, _SHORT * _middle(t, weights))
    pi = 1.0 / lengths if setting.consistent else np.ones(len(t))

    def penalties_at(nu: float) -> np.ndarray:
        if setting.consistent:
            caps = penalties * (setting.r * setting.p / (weights.sum() * nu)) / lengths
        else:
            with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
                caps = penalties / (nu * lengths**2)
            if not np.isfinite(caps).all():
                raise ValueError("the penalties of such short rows overflow: scale the columns")
        return caps

    def lowered(caps: np.ndarray) -> np.ndarray:
        return _without_excess(caps, y, t, setting.fit_intercept)

    solve = _solver(F, y, pi, setting)
    whole = np.full(len(y), np.inf) if setting.hard else penalties_at(setting.nu)
    caps = whole if setting.hard else lowered(whole)
    result = solve(caps, start)
    r_star, messages = np.nan, []
    if setting.hard:
        outputs, error = evaluate(result.w, result.b)
        if result.status == "inseparable" or not np.all(y * outputs > error):
            messages.append(_INSEPARABLE)
            whole = penalties_at(_SMALL_NU)
            caps = lowered(whole)
            result = solve(caps, None)
        else:
            sizes = t if setting.solver == "exact" else pi * t**2
            result, r_star = _beyond_the_ball(F, y, sizes, result, setting)
            if r_star >= setting.r:
                messages.append(_ROUND.format(r=setting.r, r_star=r_star))
    if result.gap <= setting.tol and result.status != "converged":
        result = replace(result, status="converged")
    constant = _constant_output(y, caps, result, setting)
    if constant is not None:
        messages.append(_FLAT)
        result = replace(result, w=np.zeros_like(result.w), b=constant)
    if np.any(caps < whole):
        result = _at_penalties(whole, y, caps, result, setting)
    how = (pi, outside, setting.r, setting.tol)
    result, rounded = as_stored(F, y, whole, *how, result, evaluate)
    return BinarySolution(result, caps, pi, r_star, tuple(messages), rounded)


def _solver(
    F: np.ndarray, y: np.ndarray, pi: np.ndarray, setting: EllipsoidalSetting
) -> Callable[[np.ndarray, EllipsoidalSVMResult | None], EllipsoidalSVMResult]:
    task: dict[str, Any] = {"r": setting.r, "fit_intercept": setting.fit_intercept}
    if setting.solver == "exact":
        # The optional dependencies are only needed here.
        from oblong.solvers.esvm.exact import solve_exact_ellipsoidal_svm

        tol = max(setting.tol, _CONIC_TOL)
        return lambda caps, _: solve_exact_ellipsoidal_svm(F, y, caps=caps, tol=tol, **task)

    for name in ("solver", "tol", "max_iter", "progress"):
        task[name] = getattr(setting, name)
    small = len(y) <= _SMALL_PROBLEM and setting.max_iter is None

    def relaxed(caps: np.ndarray, start: EllipsoidalSVMResult | None) -> EllipsoidalSVMResult:
        # Asked for the last digits, some quotients have none left.
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            return solve_ellipsoidal_svm(F, y, caps=caps, pi=pi, polish=small, start=start, **task)

    return relaxed


def _beyond_the_ball(
    F: np.ndarray,
    y: np.ndarray,
    sizes: np.ndarray,
    result: EllipsoidalSVMResult,
    setting: EllipsoidalSetting,
) -> tuple[EllipsoidalSVMResult, float]:
    """Find ``r_star``; at or below it every direction with a margin that large is optimal."""
    widest = solve_scaled_margin(
        F,
        y,
        sizes,
        fit_intercept=setting.fit_intercept,
        start=result.outputs,
        weights=result.alpha,
    )
    r_star = max(0.0, widest.margin) / (1.0 + max(0.0, widest.margin))
    if r_star >= setting.r:
        result = replace(result, w=widest.w, b=widest.b)
    return result, r_star


def _constant_output(
    y: np.ndarray, caps: np.ndarray, result: EllipsoidalSVMResult, setting: EllipsoidalSetting
) -> float | None:
    """Return the output that does without a direction, if it is as good as the solution."""
    if not np.isfinite(caps).all() or result.status != "converged":
        return None
    # Where every row is there with either label, all short directions are equally good.
    b = best_bias(y * result.q, y, caps) if setting.fit_intercept else 0.0
    loss = float(caps @ np.maximum(result.q - y * result.outputs, 0.0))
    alone = float(caps @ np.maximum(result.q - y * b, 0.0))
    unit = setting.r * len(result.w)
    allowed = min(max(_NO_GAIN, 10.0 * result.gap), max(setting.tol - result.gap, 0.0)) * unit
    return b if alone - loss <= allowed else None


def _without_excess(
    caps: np.ndarray, y: np.ndarray, t: np.ndarray, fit_intercept: bool
) -> np.ndarray:
    """Lower penalties as far as they mean the same: very different sizes cost digits.

    With an intercept the weights of the two classes have the same sum, so that none exceeds what
    the other class can have. A row at the origin only pulls at the bias, and no harder than all
    others together need.
    """
    origin = t == 0.0
    if origin.any():
        most = 2.0 * float(caps[~origin].sum()) or 1.0
        caps = np.where(origin, np.minimum(caps, most), caps)
    if fit_intercept:
        above, below = float(caps[y > 0].sum()), float(caps[y < 0].sum())
        caps = np.minimum(caps, 2.0 * np.where(y > 0, below, above))
    return caps


def _at_penalties(
    whole: np.ndarray,
    y: np.ndarray,
    caps: np.ndarray,
    result: EllipsoidalSVMResult,
    setting: EllipsoidalSetting,
) -> EllipsoidalSVMResult:
    """A solution with lower penalties as one of the problem that was asked for.

    The optimum is the same, but not what is near it: there a row with a large penalty may still
    have some slack, which the best bias takes away.
    """
    q, outputs, b = result.q, result.outputs, result.b
    before = float(caps @ np.maximum(q - y * outputs, 0.0))
    if setting.fit_intercept:
        others = outputs - b
        b = best_bias(y * q - others, y, whole)
        kept, outputs = outputs, others + b
        if whole @ np.maximum(q - y * kept, 0.0) <= whole @ np.maximum(q - y * outputs, 0.0):
            b, outputs = result.b, kept
    more = float(whole @ np.maximum(q - y * outputs, 0.0)) - before
    return replace(result, b=b, outputs=outputs, objective=result.objective + more)


def _middle(t: np.ndarray, weights: np.ndarray) -> float:
    """Weighted median of the lengths; something above zero if there is any."""
    if t.min() > 0.0 and t.min() >= _SHORT * t.max():
        return 0.0
    order = np.argsort(t)
    total = np.cumsum(weights[order])
    middle = float(t[order[np.searchsorted(total, 0.5 * total[-1])]])
    return middle or float(t.max()) or 1.0
