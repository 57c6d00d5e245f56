"""Many rows: the smoothed problem, and working sets."""

from __future__ import annotations

import numpy as np
import pytest

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


def test_many_rows_hard():
    F, y = separable(12, 6000, 3)
    newton, exact = (hard(F, y, 0.9, solver=solver, tol=1e-8) for solver in ("newton", "ipm"))
    assert newton.status == exact.status == "converged"
    assert newton.objective == pytest.approx(exact.objective, abs=1e-6)
    assert np.allclose(newton.w, exact.w, atol=1e-4)
