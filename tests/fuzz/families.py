"""What the models of each family are worth, in long double."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from tests.fuzz.ellipsoids import ellipsoid, ellipsoidal_svm, online_ellipsoidal_svm
from tests.fuzz.evaluate import (
    KernelOf,
    Outcome,
    Pair,
    certificate,
    margin_certificate,
    pairs,
    rounding,
)
from tests.fuzz.exact import (
    EPS,
    LD,
    MarginProblem,
    Reference,
    cholesky,
    longdouble,
    lower_solve,
    positive_solve,
)
from tests.fuzz.problems import Problem
from tests.fuzz.regression import regression


def dense_coefficients(model: Any) -> np.ndarray:
    """Coefficients of shape (n_pairs, n_SV) from scikit-learn's layout."""
    from oblong.batch._one_vs_one import unpack_coefficients

    return unpack_coefficients(model.dual_coef_, model.n_support_)


def stored_coefficients(model: Any, pair: Pair) -> np.ndarray:
    """Coefficients of the rows of a pair."""
    rows = pair.rows
    c = np.zeros(len(rows), dtype=LD)
    place = np.searchsorted(rows, model.support_)
    inside = (place < len(rows)) & (rows[np.minimum(place, len(rows) - 1)] == model.support_)
    c[place[inside]] = dense_coefficients(model)[pair.index][inside]
    return c


def stored_outputs(
    model: Any, problem: Problem, kernel: KernelOf, pair: Pair
) -> tuple[np.ndarray, LD, np.ndarray, np.ndarray, float]:
    """Outputs of the rows of a pair, ``½|w|²``, coefficients of these rows, K, and rounding."""
    X, rows = problem.X, pair.rows
    K = kernel.matrix(X, rows)
    c = stored_coefficients(model, pair)
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
    classifier = model._classifier
    kernel = KernelOf.of(classifier, problem.X[pair.rows])
    K = kernel.matrix(problem.X, pair.rows)
    for k, spread in enumerate(model.spreads):
        c = longdouble(model.coef[k])[pair.rows]
        f = K @ c + LD(model.intercept[k])
        half, noise = c @ K @ c / 2, rounding(c, K, pair.penalties)
        if kernel.name == "linear":
            w = longdouble(classifier.coef_[k])
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
    """Judge the support vector classifier with a Universum."""
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


def sigma(problem: Problem, model: Any, outcome: Outcome, converged: bool) -> None:
    """Judge the Σ-SVM, whose stored coefficients are those of the kernel itself."""
    D = LD(model.D)
    for pair in pairs(problem, model.classes_):
        kernel = KernelOf.of(model, problem.X[pair.rows])
        n, d = len(pair.rows), problem.X.shape[1]
        # Whitened rows are dense, so that a rank below the number of columns serves sparse ones.
        exact = (
            kernel.name == "linear"
            and d < n
            and not (sp.issparse(problem.X) and d > (model.rank or d))
        )
        if model.rank is not None and not exact:
            outcome.add("unchecked", "a low-rank approximation")
            return
        f, half, g, K, noise = stored_outputs(model, problem, kernel, pair)
        p = pair.weights / pair.weights.sum()
        spread = f - p @ f
        half = (1 - D) * half + D * (p @ spread**2) / 2
        F = kernel.features(problem.X, pair.rows, K)
        T = None if F is None else _whitened(F, p, D)
        margin_certificate(
            outcome,
            MarginProblem(pair.y, LD(model.C) * pair.penalties),
            f=f,
            half_norm=half,
            c=None if T is None else (1 - D) * g + D * p * spread,
            half_norm_of=lambda c, T=T: (T.T @ c) @ (T.T @ c) / 2,
            features=lambda T=T: T,
            noise=noise * model.C,
            reported=float(model.objective_[pair.index]),
            gap=float(model.dual_gap_[pair.index]),
            converged=converged,
        )


def _whitened(F: np.ndarray, p: np.ndarray, D: LD) -> np.ndarray | None:
    """Features in the metric ``(1-D)I + DΣ``."""
    Z = F - p @ F
    metric = D * (Z.T * p) @ Z
    metric[np.diag_indices(len(metric))] += 1 - D
    L = cholesky(metric)
    return None if L is None else lower_solve(L, Z.T).T


def kernel_fisher(problem: Problem, model: Any, outcome: Outcome, converged: bool) -> None:
    """Judge the Fisher discriminant as the regression that it is, with the best bias."""
    alpha = LD(model.alpha)
    for pair in pairs(problem, model.classes_):
        kernel = KernelOf.of(model, problem.X[pair.rows])
        f, half, _, K, noise = stored_outputs(model, problem, kernel, pair)
        v, positive = pair.weights, pair.y > 0
        total = v.sum()
        t = np.where(positive, total / v[positive].sum(), -total / v[~positive].sum())
        image = f - LD(model.intercept_[pair.index])

        def value(image: np.ndarray, half: LD, t=t, v=v, total=total) -> LD:
            r = t - image
            r = r - v @ r / total
            return half + (v @ r**2) / (2 * alpha)

        means = [v[own] @ f[own] / v[own].sum() for own in (positive, ~positive)]
        middle = float(abs(means[0] + means[1]) / 2)
        # Nobody can have a threshold with more digits than the outputs.
        digits = 2.0**-50 * float(_sums(model, problem, pair, K, kernel).max())
        if not middle <= 1e-6 * float(np.abs(f).max()) + digits:
            outcome.add("objective", f"the threshold is off by {middle:.3g}")

        def best(k=kernel, p=pair, K=K, t=t, v=v, total=total, value=value) -> Any:
            if k.name == "linear":
                Z = k.features(problem.X, p.rows, None)
                Z = Z - v @ Z / total
                A = (Z.T * v) @ Z
                A[np.diag_indices(len(A))] += alpha
                w = positive_solve(A, Z.T @ (v * t))
                return None if w is None else _exactly(value(Z @ w, w @ w / 2))
            if len(K) > 300:
                return None
            A = K.copy()
            A[np.diag_indices(len(A))] += alpha / v
            solved = positive_solve(A, np.column_stack([t, np.ones(len(t), dtype=LD)]))
            if solved is None:
                return None
            c = solved[:, 0] - solved[:, 0].sum() / solved[:, 1].sum() * solved[:, 1]
            return _exactly(value(K @ c, c @ K @ c / 2))

        certificate(
            outcome,
            value=value(image, half),
            own=None,
            reference=best,
            noise=noise * float(np.abs(t).max() / alpha),
            reported=float(model.objective_[pair.index]),
            gap=float(model.dual_gap_[pair.index]),
            converged=converged,
        )


def _sums(model: Any, problem: Problem, pair: Pair, K: np.ndarray, kernel: KernelOf) -> np.ndarray:
    """Sums of the absolute terms of the outputs."""
    if kernel.name == "linear":
        return np.abs(longdouble(problem.X[pair.rows])) @ np.abs(
            longdouble(model.coef_[pair.index])
        )
    return np.abs(K) @ np.abs(stored_coefficients(model, pair))


def _exactly(value: LD) -> Reference:
    return Reference(value, value)


def ellipsoidal_kernel(problem: Problem, model: Any, outcome: Outcome, converged: bool) -> None:
    """Judge the support vector classifier in the geometry of the stored ellipsoid."""
    if model.ellipsoid_ is None:
        _plain(problem, model, outcome, converged)
        return
    known = model.ellipsoid_
    center, factor = longdouble(known.center_), longdouble(known.factor_)
    basis = model._basis()
    weights = problem.fit_params.get("sample_weight")
    kept = np.arange(problem.X.shape[0]) if weights is None else np.flatnonzero(weights > 0)
    kernel = KernelOf.of(model, problem.X[kept], centred=False)
    if basis is not None:
        shift = known._kernel_rows.shift
        kernel.shift = None if shift is None else longdouble(shift)
    for pair in pairs(problem, model.classes_):
        X = problem.X
        c = stored_coefficients(model, pair)
        bias = LD(model.intercept_[pair.index])
        if basis is None:
            rows = longdouble(X[pair.rows])
            T = (rows - center) @ factor
            w = longdouble(model.coef_[pair.index])
            f = rows @ w + bias
            image = longdouble(known.inverse_factor_) @ w
            half, noise = image @ image / 2, 0.0
        else:
            if kernel.name == "precomputed":
                K = longdouble(X[np.ix_(pair.rows, kept)])
            else:
                K = kernel(X[pair.rows], X[kept])
            T = ((K - longdouble(basis.means)) @ longdouble(basis.directions) - center) @ factor
            if kernel.name == "linear":
                f = longdouble(X[pair.rows]) @ longdouble(model.coef_[pair.index]) + bias
            else:
                f = K @ longdouble(model._kernel_coef[pair.index]) + bias
            image, noise = T.T @ c, 0.0
            if kernel.name != "linear":
                # By the weight vector that the stored coefficients are made from.
                directions = longdouble(basis.directions)
                stored = longdouble(model._kernel_coef[pair.index])
                w = positive_solve(directions.T @ directions, directions.T @ stored)
                image = longdouble(known.inverse_factor_) @ w
                sums = np.abs(K) @ np.abs(longdouble(model._kernel_coef[pair.index]))
                noise = 2 * EPS * float(pair.penalties @ sums)
            half = image @ image / 2
        margin_certificate(
            outcome,
            MarginProblem(pair.y, LD(model.C) * pair.penalties),
            f=f,
            half_norm=half,
            c=c,
            half_norm_of=lambda c, T=T: (T.T @ c) @ (T.T @ c) / 2,
            features=lambda T=T: T,
            noise=noise * model.C,
            reported=float(model.objective_[pair.index]),
            gap=float(model.dual_gap_[pair.index]),
            converged=converged,
        )


def _plain(problem: Problem, model: Any, outcome: Outcome, converged: bool) -> None:
    """Judge the support vector classifier without an ellipsoid."""
    for pair in pairs(problem, model.classes_):
        kernel = KernelOf.of(model, problem.X[pair.rows])
        f, half, c, K, noise = stored_outputs(model, problem, kernel, pair)
        margin_certificate(
            outcome,
            MarginProblem(pair.y, LD(model.C) * pair.penalties),
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


JUDGES = {
    "RelativeMarginClassifier": relative_margin,
    "RelativeMarginClassifierCV": relative_margin,
    "relative_margin_path": path,
    "LinearRelativeMarginClassifier": linear,
    "UniversumSVC": universum,
    "SigmaSVC": sigma,
    "KernelFisherClassifier": kernel_fisher,
    "EllipsoidalKernelClassifier": ellipsoidal_kernel,
    "MinimumVolumeEllipsoid": ellipsoid,
    "EllipsoidalSVC": ellipsoidal_svm,
    "OnlineEllipsoidalSVC": online_ellipsoidal_svm,
    "MarginRegressor": regression,
}
