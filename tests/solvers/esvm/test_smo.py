"""Pairs of dual weights: ours whatever the shape of the rows, and the paper's algorithm."""

from __future__ import annotations

import numpy as np
import pytest

from oblong.solvers.esvm.solve import solve_ellipsoidal_svm
from tests.reference.ellipsoidal_smo import _best_move, _slope, sequential_ellipsoidal_svm
from tests.solvers.esvm.problems import consistent, drawn, overlapping


def test_sequential_solver_with_more_rows_than_steps_between_products():
    F, y, _, _, _ = drawn(0, 60, 3)
    length = np.linalg.norm(F, axis=1)
    # Prices so low that the weights determine the direction, which this solver needs.
    problem = {"caps": 0.9 * 3 / (60 * 0.5 * length), "pi": 1.0 / length, "r": 0.9}
    wanted = solve_ellipsoidal_svm(F, y, **problem)
    found, status = sequential_ellipsoidal_svm(F, y, **problem, refresh=7)
    assert status == "converged"
    assert found.dual == pytest.approx(wanted.objective, abs=1e-5)


@pytest.mark.parametrize("shape", [(40, 3), (150, 150), (400, 4)])
def test_pairs_agree_with_the_sequential_algorithm(shape):
    F, y = overlapping(7, *shape)
    problem = {**consistent(F, 0.99, 0.3), "r": 0.99, "tol": 1e-7}
    wanted, status = sequential_ellipsoidal_svm(F, y, **problem)
    assert status == "converged"
    for solver in ("smo", "auto"):
        found = solve_ellipsoidal_svm(F, y, **problem, solver=solver)
        assert found.status == "converged"
        assert found.objective == pytest.approx(wanted.dual, rel=1e-6)
        assert np.allclose(found.w, wanted.w, atol=1e-3)


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
    result, status = sequential_ellipsoidal_svm(F, y, **problem, max_iter=20_000)
    assert status in ("stalled", "max_iter")
    assert result.dual <= best.objective + 1e-9
    # Models of the dual lead nowhere either, and the interior point method takes over.
    pairs = solve_ellipsoidal_svm(F, y, **problem, solver="smo")
    assert pairs.status == "converged"
    assert pairs.objective == pytest.approx(best.objective, abs=1e-4)
    with pytest.raises(ValueError, match="intercept"):
        solve_ellipsoidal_svm(F, y, **problem, solver="smo", fit_intercept=False)
