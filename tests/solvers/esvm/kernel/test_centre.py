"""Hard margins with a kernel: the way from the analytic centre ends where the central path does."""

from __future__ import annotations

import numpy as np
import pytest

import oblong.solvers.esvm.interior_point as interior
from oblong.solvers.esvm.kernel.centre import _Newton, solve_from_centre
from oblong.solvers.esvm.kernel.dual import KernelDual
from oblong.solvers.esvm.options import EsvmOptions
from oblong.solvers.esvm.problem import EsvmProblem
from oblong.solvers.esvm.scaled_part import Part
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
    part = Part(problem, None, None)
    alpha, bias = _Newton(KernelDual(problem, part, np.zeros(120))).centre(part.ray())
    w = (alpha * y) @ F
    outputs = F @ (w / np.linalg.norm(w)) / part.length + bias
    np.testing.assert_allclose(alpha * y * outputs, problem.r, rtol=0.05)


def test_no_margin_no_centre():
    X, y = rows_of(13, 120)
    F, y = coordinates(np.vstack([X, X[:1]])), np.append(y, -y[0])
    problem = problem_of(F, y)
    part = Part(problem, None, None)
    assert solve_from_centre(problem, part, part.ray()) is None
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
    undamped = problem_of(F, y, centre_dampings=(0.0,))
    part = Part(undamped, None, None)
    assert solve_from_centre(undamped, part, part.ray()) is None
