"""Many rows: the smoothed problem, and working sets."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from oblong.solvers.esvm import many_rows, solve
from oblong.solvers.esvm.options import EsvmOptions
from oblong.solvers.esvm.solve import solve_ellipsoidal_svm
from oblong.solvers.logdet.options import LogDetOptions
from tests.solvers.esvm.problems import consistent, overlapping, separable
from tests.solvers.esvm.test_solve import hard


def test_many_rows_soft():
    F, y = overlapping(10, 30_000, 6)
    problem = {**consistent(F, 0.99, 0.2), "r": 0.99}
    newton = solve_ellipsoidal_svm(F, y, **problem)
    exact = solve_ellipsoidal_svm(F, y, **problem, solver="ipm")
    assert newton.status == exact.status == "converged"
    assert newton.objective == pytest.approx(exact.objective, abs=1e-5)
    assert np.allclose(newton.w, exact.w, atol=1e-3)
    again = solve_ellipsoidal_svm(F, y, **problem, start=newton)
    assert again.status == "converged"
    assert again.n_iter < newton.n_iter


def test_many_rows_from_a_sample():
    options = EsvmOptions(logdet=LogDetOptions(sample=1000))
    F, y = overlapping(11, 8000, 3)
    result = solve_ellipsoidal_svm(
        F, y, **consistent(F, 0.9, 0.1), r=0.9, solver="newton", options=options
    )
    assert result.status == "converged"
    exact = solve_ellipsoidal_svm(F, y, **consistent(F, 0.9, 0.1), r=0.9, solver="ipm")
    assert result.objective == pytest.approx(exact.objective, abs=1e-5)


@pytest.mark.parametrize("reason", ["stalled", "max_iter"])
def test_the_interior_point_takes_over_where_smoothing_stalls(reason, monkeypatch):
    F, y = overlapping(12, 3000, 3)
    problem = {**consistent(F, 0.9, 0.1), "r": 0.9}

    def stalled(problem, start=None):
        found, _ = many_rows.solve_by_newton(problem, start)
        # As much as the default allows.
        problem.n_iter = problem.max_iter
        return replace(found, gap=found.gap + 1.0, w=-found.w), reason

    exact = solve_ellipsoidal_svm(F, y, **problem, solver="ipm")
    monkeypatch.setattr(solve, "solve_by_newton", stalled)
    result = solve_ellipsoidal_svm(F, y, **problem, solver="newton")
    assert result.status == "converged"
    assert result.objective == pytest.approx(exact.objective, abs=1e-5)
    assert result.n_iter > EsvmOptions().iterations
    # Not with more numbers than memory may have room for.
    few = EsvmOptions(exact_values=1000)
    left = solve_ellipsoidal_svm(F, y, **problem, solver="newton", options=few)
    assert left.status == reason
    assert left.gap > 1e-3
    # Nor beyond a limit that was asked for.
    if reason == "max_iter":
        asked = solve_ellipsoidal_svm(F, y, **problem, solver="newton", max_iter=400)
        assert asked.status == reason
        assert asked.n_iter == 400


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize(("noise", "nu"), [(0.1, 0.2), (1.0, 0.02)])
def test_many_rows_and_columns(noise, nu, fit_intercept):
    # Without noise a sample tells the sides of most rows, with much of it too many are wrong.
    few, every = (EsvmOptions(sample_from=rows) for rows in (150, 10**9))
    F, y = overlapping(13, 900, 20, noise)
    problem = {**consistent(F, 0.9, nu), "r": 0.9, "fit_intercept": fit_intercept}
    found, exact = (solve_ellipsoidal_svm(F, y, **problem, options=o) for o in (few, every))
    assert found.status == exact.status == "converged"
    assert found.gap <= 1e-6
    assert found.objective == pytest.approx(exact.objective, abs=2e-6 * 0.9 * 20)
    assert np.allclose(found.w, exact.w, atol=1e-3)


def test_a_sample_spares_most_rows(monkeypatch):
    sizes = []
    solve_rows = many_rows.solve_rows

    def counted(problem, target, rows, *rest):
        sizes.append(len(rows))
        return solve_rows(problem, target, rows, *rest)

    monkeypatch.setattr(many_rows, "solve_rows", counted)
    F, y = overlapping(14, 900, 20, noise=0.1)
    options = EsvmOptions(sample_from=150)
    result = solve_ellipsoidal_svm(F, y, **consistent(F, 0.9, 0.2), r=0.9, options=options)
    assert result.status == "converged"
    assert 0 < max(sizes) < 450


def test_many_rows_hard():
    F, y = separable(12, 6000, 3)
    newton, exact = (hard(F, y, 0.9, solver=solver, tol=1e-8) for solver in ("newton", "ipm"))
    assert newton.status == exact.status == "converged"
    assert newton.objective == pytest.approx(exact.objective, abs=1e-6)
    assert np.allclose(newton.w, exact.w, atol=1e-4)
