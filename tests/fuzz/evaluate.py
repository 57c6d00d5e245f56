"""Fit a problem, and judge the model that comes out in long double.

A certificate says: the objective of this model is at most ``dual_gap_`` (relative) above the best
one. It is proved right by a dual point whose value is close enough, and proved wrong by a better
primal point; both come from the model's own coefficients or, if these do not decide, from
:func:`tests.fuzz.exact.solve`.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

import oblong
from tests.fuzz.exact import EPS, LD, MarginProblem, kernel_matrix, longdouble, solve
from tests.fuzz.exact import features as cholesky_features
from tests.fuzz.problems import Problem

# What can be wrong with a fit, and what is merely counted.
FAILURES = (
    "false",  # the true gap exceeds twice the certified one and 1e-6, or a hard bound is broken
    "objective",  # the reported objective is not that of the model
    "nan",  # attributes or outputs that are not finite
    "hang",  # no end within the limit on processor time
    "foreign",  # an exception that is not a ValueError, or a RuntimeWarning
    "refused",  # a ValueError for rows that the estimator should take
    "promise",  # converged_ although the gap is above the documented one
    "silent",  # not converged, and no ConvergenceWarning
    "precision",  # outputs for single-precision rows that differ from those in double
)
COUNTED = ("converged", "unconverged", "declined", "undecided", "unchecked")

# Relative gap that converged_ promises.
PROMISE = 1e-3
# Allowed beyond twice the certified gap, and share of a hard bound that may be exceeded.
SLACK = 1e-6
# Rows up to which a kernel matrix is factored in long double.
_MOST_ROWS = 300


@dataclass
class Outcome:
    """What was found: kinds of :data:`FAILURES` and :data:`COUNTED`, with one line about each."""

    found: dict[str, str] = field(default_factory=dict)

    def add(self, kind: str, text: str = "") -> None:
        """Note one kind; the first line about it is kept."""
        self.found.setdefault(kind, text)

    @property
    def failures(self) -> dict[str, str]:
        """Those that must not be."""
        return {kind: text for kind, text in self.found.items() if kind in FAILURES}


@dataclass
class Fitted:
    """A model, or the exception instead of it, and the warnings on the way."""

    model: Any = None
    error: BaseException | None = None
    warnings: list[Any] = field(default_factory=list)


def fit(problem: Problem) -> Fitted:
    """Fit, and catch everything."""
    make = getattr(oblong, problem.estimator)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            if problem.estimator == "relative_margin_path":
                model = make(problem.X, problem.y, **problem.params, **problem.fit_params)
            else:
                model = make(**problem.params)
                model.fit(problem.X, problem.y, **problem.fit_params)
        except Exception as error:
            return Fitted(error=error, warnings=caught)
    return Fitted(model, warnings=caught)


def judge(problem: Problem, fitted: Fitted) -> Outcome:
    """Judge what a fit gave."""
    outcome = Outcome()
    for warning in fitted.warnings:
        if issubclass(warning.category, RuntimeWarning):
            outcome.add("foreign", f"RuntimeWarning: {warning.message}")
    if fitted.error is not None:
        _judge_error(problem, fitted.error, outcome)
        return outcome
    model = fitted.model
    if problem.estimator == "RelativeMarginClassifierCV":
        model = model.best_estimator_
    warned = any(issubclass(w.category, ConvergenceWarning) for w in fitted.warnings)
    converged = getattr(model, "converged_", None)
    if problem.estimator == "relative_margin_path":
        converged = model.converged
    if not converged and not warned:
        outcome.add("silent", "converged_ is False without a ConvergenceWarning")
    outcome.add("converged" if converged else "unconverged")
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        if _finite(problem, model, outcome):
            _precision(problem, model, outcome)
            from tests.fuzz import families

            families.JUDGES[problem.estimator](problem, model, outcome, bool(converged))
    return outcome


def _judge_error(problem: Problem, error: BaseException, outcome: Outcome) -> None:
    text = f"{type(error).__name__}: {error}"
    if not isinstance(error, ValueError):
        outcome.add("foreign", text)
        return
    # By their formulas these kernels are positive semidefinite: it is rounding that is not.
    definite = problem.params.get("kernel", "linear") in ("linear", "rbf", "poly", "precomputed")
    if "semidefinite" in str(error) and definite:
        outcome.add("refused", text)
    elif any(word in str(error) for word in ("scale", "finite", "distinct", "same", "equal")):
        outcome.add("declined", text)
    else:
        outcome.add("refused", text)


def _finite(problem: Problem, model: Any, outcome: Outcome) -> bool:
    """Whether the attributes and the outputs are numbers."""
    outputs_of = getattr(model, "decision_function", None) or model.predict
    names = ("objective_", "dual_gap_", "intercept_", "coef_", "dual_coef_", "objective")
    names += ("dual_gap", "intercept", "coef", "gap_", "log_volume_", "center_", "factor_")
    indefinite = problem.params.get("kernel") == "sigmoid"
    for name in names:
        value = getattr(model, name, None)
        if value is None or callable(value):
            continue
        if name.startswith("dual_gap") and indefinite and not np.isfinite(value).all():
            outcome.add("unchecked", "the kernel is not positive semidefinite")
            return False
        if not np.isfinite(value).all():
            outcome.add("nan", f"{name} is not finite")
            return False
    try:
        outputs = outputs_of(problem.X)
    except ValueError as error:
        outcome.add("nan" if "finite" not in str(error) else "declined", f"predict: {error}")
        return False
    if not np.isfinite(outputs).all():
        outcome.add("nan", "the outputs are not finite")
        return False
    return True


def _precision(problem: Problem, model: Any, outcome: Outcome) -> None:
    """Outputs for the same rows in single and in double precision."""
    X = problem.X
    outputs_of = getattr(model, "decision_function", None) or model.predict
    single = X.astype(np.float32)
    values = single.data if sp.issparse(single) else single
    if not np.isfinite(values).all() or problem.params.get("kernel") == "precomputed":
        return
    try:
        low = np.asarray(outputs_of(single), dtype=np.float64)
        high = np.asarray(outputs_of(single.astype(np.float64)))
    except ValueError as error:
        outcome.add("declined", f"predict in single precision: {error}")
        return
    largest = np.abs(high).max(initial=0.0)
    allowed = 1e-6 * largest + 1e-30
    if getattr(model, "kernel", None) == "linear" and hasattr(model, "coef_"):
        # The digits that double precision has of a small difference of large numbers.
        sizes = abs(single.astype(np.float64)) @ np.abs(model.coef_).T
        allowed += 2.0**-50 * float(np.max(sizes, initial=0.0))
    worst = np.abs(low - high).max(initial=0.0)
    if not worst <= allowed:
        outcome.add("precision", f"outputs differ by {worst:.3g}, largest {largest:.3g}")


def certificate(
    outcome: Outcome,
    *,
    reported: float,
    gap: float,
    converged: bool,
    value: LD,
    own: LD | None,
    reference: Any,
    noise: float = 0.0,
    scale: float | None = None,
    promise: float = PROMISE,
) -> None:
    """Compare a certificate with the truth.

    Parameters
    ----------
    reported, gap : float
        The objective and the relative gap that the model reports.
    value : longdouble
        The objective of the model.
    own : longdouble or None
        A dual value from the model's own coefficients.
    reference : callable
        Gives a :class:`~tests.fuzz.exact.Reference`, or None where there is none.
    noise : float
        What long double cannot see.
    scale : float, default=None
        What the gap is relative to, if not the objective.
    """
    scale = abs(reported) if scale is None else scale
    allowed = (2 * gap + SLACK) * scale
    if converged and gap > promise * (1 + 1e-9):
        outcome.add("promise", f"converged_ with a gap of {gap:.3g}")
    if not noise <= 0.1 * SLACK * scale:
        outcome.add("unchecked", f"the objective is lost in rounding: {noise:.2g} of {scale:.2g}")
        return
    if not abs(float(value) - reported) <= max(allowed, SLACK * scale):
        outcome.add("objective", f"reported {reported:.9g}, true {float(value):.9g}, gap {gap:.3g}")
    if own is not None and value - own <= allowed:
        return
    found = reference()
    if found is None:
        outcome.add("undecided", "no reference")
    elif value - found.lower <= allowed:
        return
    elif value - found.upper > allowed:
        true = float((value - found.upper) / scale)
        outcome.add("false", f"certified {gap:.3g}, true gap {true:.3g} of {reported:.6g}")
    else:
        left = float((found.upper - found.lower) / scale)
        outcome.add("undecided", f"certified {gap:.3g}, reference within {left:.3g}")


@dataclass
class Pair:
    """One binary problem of a fit: its rows, labels and weights, in long double."""

    index: int
    rows: np.ndarray  # among the rows as given
    y: np.ndarray
    weights: np.ndarray
    penalties: np.ndarray  # weights times class weights


def pairs(problem: Problem, classes: np.ndarray, balanced: bool | None = None) -> list[Pair]:
    """Binary problems, one against one, as the estimators lay them out."""
    n = problem.X.shape[0]
    weights = np.asarray(problem.fit_params.get("sample_weight", np.ones(n)), dtype=np.float64)
    kept = np.flatnonzero(weights > 0)
    labels = np.searchsorted(classes, problem.y[kept])
    weights = weights[kept]
    factors = np.ones(len(classes))
    if problem.params.get("class_weight") == "balanced" if balanced is None else balanced:
        totals = np.bincount(labels, weights, minlength=len(classes))
        factors = totals.sum() / (len(classes) * totals)
    k = len(classes)
    order = [(1, 0)] if k == 2 else [(i, j) for i in range(k) for j in range(i + 1, k)]
    found = []
    for index, (positive, negative) in enumerate(order):
        own = np.flatnonzero((labels == positive) | (labels == negative))
        y = np.where(labels[own] == positive, 1.0, -1.0)
        penalties = weights[own] * factors[labels[own]]
        found.append(Pair(index, kept[own], *(v.astype(LD) for v in (y, weights[own], penalties))))
    return found


@dataclass
class KernelOf:
    """The kernel of a fitted model, in long double."""

    name: str
    gamma: float
    degree: int
    coef0: float
    shift: np.ndarray | None = None

    @classmethod
    def of(cls, model: Any, X: Any, centred: bool = True) -> KernelOf:
        """Read the kernel off a model; a linear one is centred, where nothing depends on it."""
        shift = None
        if model.kernel == "linear" and centred:
            shift = longdouble(X).mean(axis=0)
        return cls(model.kernel, model._gamma, model.degree, model.coef0, shift)

    def __call__(self, X: Any, Z: Any) -> np.ndarray:
        """Values between rows."""
        X, Z = longdouble(X), longdouble(Z)
        if self.shift is not None:
            X, Z = X - self.shift, Z - self.shift
        return kernel_matrix(self.name, X, Z, self.gamma, self.degree, self.coef0)

    def matrix(self, X: Any, rows: np.ndarray) -> np.ndarray:
        """Matrix of some rows; of a precomputed kernel, its symmetric part."""
        if self.name == "precomputed":
            K = longdouble(X[np.ix_(rows, rows)])
            return (K + K.T) / 2
        return self(X[rows], X[rows])

    def features(self, X: Any, rows: np.ndarray, K: np.ndarray | None) -> np.ndarray | None:
        """Features whose products are the kernel's, if they can be had."""
        if self.name == "linear":
            F = longdouble(X[rows])
            return F if self.shift is None else F - self.shift
        if K is None or len(K) > _MOST_ROWS:
            return None
        return cholesky_features(K)


def margin_certificate(
    outcome: Outcome,
    problem: MarginProblem,
    *,
    f: np.ndarray,
    half_norm: LD,
    c: np.ndarray | None,
    half_norm_of: Any,
    features: Any,
    noise: float,
    **claims: Any,
) -> None:
    """Judge one binary margin problem; ``half_norm_of(c)`` is ``½|Σ c_i φ_i|²``."""
    breach = problem.breach(f)
    if breach > SLACK:
        outcome.add("false", f"outputs exceed the bound {problem.B:.6g} by {breach:.3g} of it")
        return
    own = None
    if c is not None:
        c = problem.feasible(c)
        own = problem.dual(c, half_norm_of(c))

    def reference() -> Any:
        F = features()
        return None if F is None else solve(problem, F)

    value = problem.primal(f, half_norm)
    certificate(outcome, value=value, own=own, reference=reference, noise=noise, **claims)


def rounding(c: np.ndarray, K: np.ndarray, penalties: np.ndarray) -> float:
    """Error of an objective in long double, from outputs that are sums of large numbers."""
    sums = np.abs(K) @ np.abs(c)
    return 2 * EPS * float(np.abs(c) @ sums + penalties @ sums)
