"""What the models of each family are worth, in long double."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.fuzz.evaluate import (
    KernelOf,
    Outcome,
    Pair,
    margin_certificate,
    pairs,
    rounding,
)
from tests.fuzz.exact import LD, MarginProblem, longdouble
from tests.fuzz.problems import Problem


def dense_coefficients(model: Any) -> np.ndarray:
    """Coefficients of shape (n_pairs, n_SV) from scikit-learn's layout."""
    from oblong.batch._one_vs_one import unpack_coefficients

    return unpack_coefficients(model.dual_coef_, model.n_support_)


def stored_outputs(
    model: Any, problem: Problem, kernel: KernelOf, pair: Pair
) -> tuple[np.ndarray, LD, np.ndarray, np.ndarray, float]:
    """Outputs of the rows of a pair, ``½|w|²``, coefficients of these rows, K, and rounding."""
    X, rows = problem.X, pair.rows
    K = kernel.matrix(X, rows)
    c = np.zeros(len(rows), dtype=LD)
    place = np.searchsorted(rows, model.support_)
    inside = (place < len(rows)) & (rows[np.minimum(place, len(rows) - 1)] == model.support_)
    c[place[inside]] = dense_coefficients(model)[pair.index][inside]
    bias = LD(model.intercept_[pair.index])
    if kernel.name == "linear":
        w = longdouble(model.coef_[pair.index])
        return longdouble(X[rows]) @ w + bias, (w @ w) / 2, c, K, 0.0
    return K @ c + bias, c @ K @ c / 2, c, K, rounding(c, K, pair.penalties)


def relative_margin(problem: Problem, model: Any, outcome: Outcome, converged: bool) -> None:
    """Judge the relative margin classifier in all its forms."""
    D = model.D
    for pair in pairs(problem, model.classes_, model.class_weight == "balanced"):
        kernel = KernelOf.of(model, problem.X[pair.rows])
        f, half, c, K, noise = stored_outputs(model, problem, kernel, pair)
        if kernel.name == "sigmoid" and np.linalg.eigvalsh(K.astype(float)).min() < -1e-12:
            outcome.add("unchecked", "the kernel is not positive semidefinite")
            continue
        U = None
        if D is not None and model.nu is not None:
            U = LD(D) * LD(model.nu) * pair.weights / pair.weights.sum()
        bound = np.inf
        if D is None and not (model.B is None and model.spread == 1.0):
            bound = float(model.B_[pair.index])
        task = MarginProblem(pair.y, LD(model.C) * pair.penalties, bound, D or None, U)
        margin_certificate(
            outcome,
            task,
            f=f,
            half_norm=half,
            c=c,
            half_norm_of=lambda c, K=K: c @ K @ c / 2,
            features=lambda k=kernel, p=pair, K=K: k.features(problem.X, p.rows, K),
            noise=noise * model.C,
            reported=float(model.objective_[pair.index]),
            gap=float(model.dual_gap_[pair.index]),
            converged=converged,
        )


def path(problem: Problem, model: Any, outcome: Outcome, converged: bool) -> None:
    """Judge every model of a path."""
    (pair,) = pairs(problem, model.classes)
    machine = model._machine
    kernel = KernelOf.of(machine, problem.X[pair.rows])
    K = kernel.matrix(problem.X, pair.rows)
    for k, spread in enumerate(model.spreads):
        c = longdouble(model.coef[k])[pair.rows]
        f = K @ c + LD(model.intercept[k])
        half, noise = c @ K @ c / 2, rounding(c, K, pair.penalties)
        if kernel.name == "linear":
            w = longdouble(machine.coef_[k])
            f = longdouble(problem.X[pair.rows]) @ w + LD(model.intercept[k])
            half, noise = (w @ w) / 2, 0.0
        bound = np.inf if spread == 1.0 else float(model.B[k])
        penalties = LD(problem.params["C"]) * pair.penalties
        margin_certificate(
            outcome,
            MarginProblem(pair.y, penalties, bound),
            f=f,
            half_norm=half,
            c=c,
            half_norm_of=lambda c: c @ K @ c / 2,
            features=lambda: kernel.features(problem.X, pair.rows, K),
            noise=noise * problem.params["C"],
            reported=float(model.objective[k]),
            gap=float(model.dual_gap[k]),
            converged=converged,
        )


def linear(problem: Problem, model: Any, outcome: Outcome, converged: bool) -> None:
    """Judge the linear relative margin classifier, which stores no dual coefficients."""
    D = model.D
    for pair in pairs(problem, model.classes_):
        X = longdouble(problem.X[pair.rows])
        w = longdouble(model.coef_[pair.index])
        f = X @ w + LD(model.intercept_[pair.index])
        U = None
        if D is not None and model.nu is not None:
            U = LD(D) * LD(model.nu) * pair.weights / pair.weights.sum()
        bound = np.inf
        if D is None and not (model.B is None and model.spread == 1.0):
            bound = float(model.B_[pair.index])
        task = MarginProblem(
            pair.y, LD(model.C) * pair.penalties, bound, D or None, U, intercept=model.fit_intercept
        )
        centre = X.mean(axis=0) if model.fit_intercept else LD(0)
        margin_certificate(
            outcome,
            task,
            f=f,
            half_norm=(w @ w) / 2,
            c=None,
            half_norm_of=None,
            features=lambda X=X, centre=centre: X - centre,
            noise=0.0,
            reported=float(model.objective_[pair.index]),
            gap=float(model.dual_gap_[pair.index]),
            converged=converged,
        )


def universum(problem: Problem, model: Any, outcome: Outcome, converged: bool) -> None:
    """Judge the support vector machine with a Universum."""
    U = problem.fit_params.get("X_universum")
    m = 0 if U is None else U.shape[0]
    for pair in pairs(problem, model.classes_):
        kernel = KernelOf.of(model, problem.X[pair.rows])
        f, half, c, K, noise = stored_outputs(model, problem, kernel, pair)
        if m:
            own = longdouble(problem.X[pair.rows])
            rows = np.vstack([own, longdouble(U)])
            K = kernel(rows, rows)
            c = np.concatenate([c, _universum_coefficients(model, pair.index, longdouble(U))])
            penalties = np.concatenate([pair.penalties, np.ones(m, dtype=LD)])
            noise = rounding(c, K, penalties)
            f, half = K @ c + LD(model.intercept_[pair.index]), c @ K @ c / 2
            if kernel.name == "linear":
                w = longdouble(model.coef_[pair.index])
                f, half, noise = rows @ w + LD(model.intercept_[pair.index]), (w @ w) / 2, 0.0
        else:
            rows = problem.X
        C = LD(model.C) * pair.penalties
        task = MarginProblem(
            np.concatenate([pair.y, np.ones(m, dtype=LD)]),
            np.concatenate([C, np.zeros(m, dtype=LD)]),
            V=np.concatenate([np.zeros(len(C), dtype=LD), np.full(m, LD(model.C_universum))]),
            epsilon=model.epsilon,
        )
        index = np.arange(len(c)) if m else pair.rows
        margin_certificate(
            outcome,
            task,
            f=f,
            half_norm=half,
            c=c,
            half_norm_of=lambda c, K=K: c @ K @ c / 2,
            features=lambda k=kernel, r=rows, i=index, K=K: k.features(r, i, K),
            noise=noise * max(model.C, model.C_universum),
            reported=float(model.objective_[pair.index]),
            gap=float(model.dual_gap_[pair.index]),
            converged=converged,
        )


def _universum_coefficients(model: Any, index: int, U: np.ndarray) -> np.ndarray:
    """Coefficients of all Universum rows, of which the model stores some."""
    c = np.zeros(len(U), dtype=LD)
    free = np.ones(len(U), dtype=bool)
    for row, value in zip(longdouble(model.universum_vectors_), model.universum_coef_[index]):
        place = int(np.flatnonzero(free & (row == U).all(axis=1))[0])
        free[place] = False
        c[place] = value
    return c


JUDGES = {
    "RelativeMarginClassifier": relative_margin,
    "RelativeMarginClassifierCV": relative_margin,
    "relative_margin_path": path,
    "LinearRelativeMarginClassifier": linear,
    "UniversumSVC": universum,
}
