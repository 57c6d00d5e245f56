"""The problem before its relaxation, by a conic solver."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import oblong.solvers.esvm.exact as exact_module
from oblong.solvers.esvm.exact import solve_exact_ellipsoidal_svm
from oblong.solvers.esvm.options import EsvmOptions
from oblong.solvers.esvm.solve import solve_ellipsoidal_svm
from tests.solvers.esvm.problems import cosine, overlapping, separable
from tests.solvers.esvm.test_solve import X, Y


@pytest.mark.parametrize("seed", range(6))
def test_exact_problem_is_above_its_relaxation(seed):
    F, y = overlapping(seed, 50, 1 + seed % 4, scale=3.0)
    length = np.linalg.norm(F, axis=1)
    caps = 0.9 * F.shape[1] / (50 * 0.3 * length)
    intercept = seed % 2 == 0
    exact = solve_exact_ellipsoidal_svm(F, y, caps=caps, r=0.9, fit_intercept=intercept)
    relaxed = solve_ellipsoidal_svm(F, y, caps=caps, pi=1 / length, r=0.9, fit_intercept=intercept)
    assert exact.status == "converged"
    assert -1e-9 <= exact.gap <= 1e-5
    assert relaxed.dual_objective <= exact.objective + 1e-9
    assert cosine(exact.w, relaxed.w) > 0.99
    # Nothing better next to it.
    assert exact.dual_objective <= exact.objective


@pytest.mark.parametrize("intercept", [True, False])
def test_exact_problem_of_many_rows_takes_those_that_matter(monkeypatch, intercept):
    F, y = overlapping(5, 120, 3, scale=2.0)
    caps = 0.9 * 3 / (120 * 0.1 * np.linalg.norm(F, axis=1))
    taken = []
    solve = exact_module._conic_solution
    monkeypatch.setattr(
        exact_module,
        "_conic_solution",
        lambda cp, task: taken.append(len(task.y)) or solve(cp, task),
    )
    whole = solve_exact_ellipsoidal_svm(F, y, caps=caps, r=0.9, fit_intercept=intercept)
    part = solve_exact_ellipsoidal_svm(
        F, y, caps=caps, r=0.9, fit_intercept=intercept, options=EsvmOptions(conic_rows=20)
    )
    assert taken[0] == 120 > max(taken[1:])
    assert whole.status == part.status == "converged"
    assert part.objective == pytest.approx(whole.objective, abs=1e-6)
    assert np.allclose(part.w, whole.w, atol=1e-4)
    # What the relaxed problem does not point to is found nevertheless.
    monkeypatch.setattr(exact_module, "_likely", lambda *_: np.arange(120) < 30)
    again = solve_exact_ellipsoidal_svm(F, y, caps=caps, r=0.9, fit_intercept=intercept)
    assert again.objective == pytest.approx(whole.objective, abs=1e-6)


def test_exact_problem_with_a_hard_margin_has_its_ellipsoid_inside():
    F, y = separable(3, 40, 3)
    exact = solve_exact_ellipsoidal_svm(F, y, caps=np.full(40, np.inf), r=0.9)
    assert exact.status == "converged"
    assert np.all(y * exact.outputs >= exact.q * (1 - 1e-3))
    F, y = overlapping(3, 40, 3, noise=2.0)
    assert solve_exact_ellipsoidal_svm(F, y, caps=np.full(40, np.inf), r=0.9).status == (
        "inseparable"
    )


def test_exact_problem_leaves_rows_out():
    F, y = overlapping(2, 30, 2)
    caps = np.full(30, 0.2)
    caps[20:] = 0.0
    some = solve_exact_ellipsoidal_svm(F, y, caps=caps, r=0.9)
    fewer = solve_exact_ellipsoidal_svm(F[:20], y[:20], caps=caps[:20], r=0.9)
    assert some.objective == pytest.approx(fewer.objective, abs=1e-6)
    assert len(some.outputs) == 30
    with pytest.raises(ValueError, match="both classes"):
        solve_exact_ellipsoidal_svm(F, np.ones(30), caps=caps, r=0.9)


def test_exact_problem_names_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cvxpy", None)
    with pytest.raises(ImportError, match=r"oblong\[conic\]"):
        solve_exact_ellipsoidal_svm(X, Y, caps=np.ones(8), r=0.9)
