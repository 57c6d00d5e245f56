"""The paper's sequential algorithm."""

from __future__ import annotations

import numpy as np
import pytest

from oblong.solvers.esvm.options import EsvmOptions
from oblong.solvers.esvm.smo import _best_move, _slope
from oblong.solvers.esvm.solve import solve_ellipsoidal_svm
from tests.solvers.esvm.problems import consistent, drawn, overlapping


def test_sequential_solver_with_more_rows_than_steps_between_products():
    F, y, _, _, _ = drawn(0, 60, 3)
    length = np.linalg.norm(F, axis=1)
    # Prices so low that the weights determine the direction, which this solver needs.
    problem = {"caps": 0.9 * 3 / (60 * 0.5 * length), "pi": 1.0 / length, "r": 0.9}
    wanted = solve_ellipsoidal_svm(F, y, **problem)
    found = solve_ellipsoidal_svm(F, y, **problem, solver="smo", options=EsvmOptions(smo_refresh=7))
    assert found.status == "converged"
    assert found.objective == pytest.approx(wanted.objective, abs=1e-5)


@pytest.mark.parametrize("bound", [0.05, 10.0, -0.05, -10.0])
def test_the_best_move_of_a_pair(bound):
    """Along a pair the dual is ``r ln(1 + p1 s + p2 s²) - √(V + c1 s + c2 s²)``."""
    p1, p2, c1, c2, V, r = 0.8 * np.sign(bound), 0.3, 0.1 * np.sign(bound), 0.4, 1.0, 0.5

    def dual(s):
        return r * np.log(1.0 + p1 * s + p2 * s * s) - np.sqrt(V + c1 * s + c2 * s * s)

    step = 1e-6
    slope, _ = _slope(p1, p2, c1, c2, V, r, 0.3 * bound)
    numeric = (dual(0.3 * bound + step) - dual(0.3 * bound - step)) / (2 * step)
    assert slope == pytest.approx(numeric, rel=1e-6)
    s = _best_move(p1, p2, c1, c2, V, r, bound)
    grid = np.linspace(0.0, bound, 20_001)
    assert dual(s) >= dual(grid).max() - 1e-9


def test_sequential_solver_stalls_where_weights_do_not_determine_the_direction():
    F, y = overlapping(13, 60, 3, noise=1.0)
    problem = {**consistent(F, 0.9, 1e-3), "r": 0.9}
    best = solve_ellipsoidal_svm(F, y, **problem, tol=1e-9)
    assert np.linalg.norm(best.w) < 0.5
    result = solve_ellipsoidal_svm(F, y, **problem, solver="smo", max_iter=20_000)
    assert result.status in ("stalled", "max_iter")
    assert result.dual_objective <= best.objective + 1e-9
    with pytest.raises(ValueError, match="intercept"):
        solve_ellipsoidal_svm(F, y, **problem, solver="smo", fit_intercept=False)
