"""Hard margins with a kernel: the way from the analytic centre ends where the central path does."""

from __future__ import annotations

import numpy as np
import pytest

import oblong.solvers.esvm.interior_point as interior
from oblong.solvers.esvm.kernel.centre import CentredDual, solve_from_centre
from oblong.solvers.esvm.options import EsvmOptions
from oblong.solvers.esvm.problem import EsvmProblem
from oblong.solvers.esvm.solve import solve_ellipsoidal_svm
from tests.solvers.esvm.problems import NO_MODELS, TOL, coordinates, hard, rows_of


@pytest.mark.parametrize("r", [0.9, 1 - 1e-6])
@pytest.mark.parametrize("intercept", [True, False])
def test_same_solution_as_the_central_path(monkeypatch, r, intercept):
    X, y = rows_of(11, 150, noise=0.5)
    F = coordinates(X, width=2.0)
    given = {**hard(F, r), "fit_intercept": intercept, "solver": "ipm"}
    with monkeypatch.context() as patch:
        patch.setattr(interior, "solve_rows", None)
        found = solve_ellipsoidal_svm(F, y, **given)
    wanted = solve_ellipsoidal_svm(F, y, **given, options=NO_MODELS)
    assert found.status == wanted.status == "converged"
    assert abs(found.dual_objective - wanted.dual_objective) <= 2.0 * TOL * r * F.shape[1]
    np.testing.assert_allclose(found.w, wanted.w, atol=1e-3)


def problem_of(F, y, **options):
    given, options = hard(F), EsvmOptions(**options)
    own = given["caps"], given["pi"], given["r"]
    return EsvmProblem(F, y, *own, True, TOL, 100, options=options)


def test_centre_has_equal_products():
    X, y = rows_of(14, 120, noise=0.0)
    F = coordinates(X, width=2.0)
    problem = problem_of(F, y)
    dual = CentredDual(problem)
    alpha, y = dual.centre(dual.part.ray()), y[dual.order]
    w = (alpha * y) @ dual.F
    outputs = dual.F @ (w / np.linalg.norm(w)) + dual._bias
    np.testing.assert_allclose(alpha * y * outputs, problem.r, rtol=0.05)


def test_no_margin_no_centre():
    X, y = rows_of(13, 120)
    F, y = coordinates(np.vstack([X, X[:1]])), np.append(y, -y[0])
    problem = problem_of(F, y)
    assert solve_from_centre(problem) is None
    assert solve_ellipsoidal_svm(F, y, **hard(F), solver="ipm").status == "inseparable"


@pytest.mark.parametrize("copies", [3, 50])
def test_rows_that_are_there_twice(monkeypatch, copies):
    """They exchange their weights at no cost, and rounding must not end the Newton steps."""
    X, y = rows_of(11, 150, noise=0.5)
    F = coordinates(np.vstack([X, X[:copies]]), width=2.0)
    y, given = np.append(y, y[:copies]), hard(F, 1 - 1e-6)
    with monkeypatch.context() as patch:
        patch.setattr(interior, "solve_rows", None)
        found = solve_ellipsoidal_svm(F, y, **given, solver="ipm")
    wanted = solve_ellipsoidal_svm(F, y, **given, solver="ipm", options=NO_MODELS)
    assert found.status == "converged"
    assert abs(found.dual_objective - wanted.dual_objective) <= 2.0 * TOL * F.shape[1]
    np.testing.assert_allclose(found.w, wanted.w, atol=1e-3)


def nearly_repeated(seed, n=260, near=40, far=(1.0, 5.2)):
    """Rows of which some are near others, alone or in groups of four, and have either label."""
    rng = np.random.default_rng(seed)
    X, y = rows_of(seed, n - near, d=6)
    base = rng.integers(0, n - near, size=near)
    if seed % 2:
        base = base[: near // 4].repeat(4)
    distances = 10.0 ** -rng.uniform(*far, size=(near, 1))
    X = np.vstack([X, X[base] + distances * rng.normal(size=(near, 6))])
    return coordinates(X, width=3.0), np.append(
        y, np.where(rng.random(near) < 0.3, -1, 1) * y[base]
    )


@pytest.mark.parametrize("far", [(1.0, 5.2), (2.0, 6.0)])
@pytest.mark.parametrize("seed", range(6))
def test_rows_that_others_nearly_determine(monkeypatch, seed, far):
    """Weights from zero to 1e7: the kernel matrix has lost the digits that tell the rows apart."""
    F, y = nearly_repeated(seed, far=far)
    monkeypatch.setattr(interior, "solve_rows", None)
    found = solve_ellipsoidal_svm(F, y, **hard(F), solver="ipm")
    assert found.status == "converged"
    assert found.n_iter <= 30
    assert found.alpha.max() > 1e4 * np.median(found.alpha)
