"""The ellipsoidal support vector machine in its limits."""

from __future__ import annotations

import numpy as np
import pytest

from oblong.solvers.esvm.problem import EsvmProblem
from oblong.solvers.esvm.solve import solve_ellipsoidal_svm
from oblong.solvers.margin.hard import solve_hard_margin
from tests.solvers.esvm.problems import consistent, cosine, overlapping, separable
from tests.solvers.esvm.test_solve import X, Y, hard, shape


def test_overlapping_classes_and_dear_slack_leave_the_ball_inactive():
    F, y = overlapping(1, 150, 3, noise=1.0)
    found = [
        solve_ellipsoidal_svm(F, y, **consistent(F, 0.999, nu), r=0.999, tol=1e-9)
        for nu in (2e-3, 1e-3)
    ]
    lengths = [np.linalg.norm(result.w) for result in found]
    assert lengths[0] < 0.1
    assert lengths[0] / lengths[1] == pytest.approx(2, rel=0.02)
    assert cosine(found[0].w, found[1].w) > 0.99999
    assert found[0].b / lengths[0] == pytest.approx(found[1].b / lengths[1], abs=1e-3)
    for result in found:
        assert result.status == "converged"
        assert np.linalg.norm((result.alpha * y) @ F) <= 1e-6 * result.alpha.sum()


def test_small_r_has_no_weights_and_larger_ones_start_at_the_widest_street():
    F, y = separable(2, 40, 3)
    F /= np.linalg.norm(F, axis=1)[:, None]
    street = solve_hard_margin(F, y)
    margin = street.margin / 2
    limit = margin / (1 + margin)
    below = hard(F, y, 0.9 * limit)
    assert below.status == "converged"
    assert below.alpha.sum() <= 1e-5
    above = hard(F, y, limit + 1e-3, tol=1e-9)
    assert above.alpha.sum() > 1e-4
    assert cosine(above.w, street.coef) > 0.999


def test_large_r_with_a_nonsingular_kernel_is_the_analytic_centre():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(30, 3))
    y = np.where(rows[:, 0] > 0, 1.0, -1.0)
    squares = ((rows[:, None] - rows) ** 2).sum(axis=2)
    F = np.linalg.cholesky(np.exp(-squares))
    result = hard(F, y, 1 - 1e-9, fit_intercept=False, tol=1e-9)
    # Σ ln y_i f_i has the gradient F'(y / f), which is along w at the centre.
    gradient = F.T @ (1 / (F @ result.w))
    assert cosine(gradient, result.w) > 1 - 1e-7
    assert np.allclose(result.alpha * result.q, 1, atol=1e-5)


def test_slack_is_paid_by_a_share_of_the_rows():
    F, y = overlapping(3, 400, 4)
    r, nu = 0.999, 0.2
    problem = consistent(F, r, nu)
    result = solve_ellipsoidal_svm(F, y, **problem, r=r, fit_intercept=False, tol=1e-9)
    length = np.linalg.norm(F, axis=1)
    margins = result.q / length
    excess = result.q - y * result.outputs
    bound = nu * (result.alpha @ result.q / r) / 4
    # Sums of q over rows with slack, and over rows with weight, have the bound between them.
    low = np.mean(margins * (excess > 1e-7))
    high = np.mean(margins * (result.alpha > 1e-7))
    assert low - 1e-6 <= np.mean(result.alpha / problem["caps"] * margins) <= high + 1e-6
    assert np.mean(result.alpha / problem["caps"] * margins) == pytest.approx(bound)


def test_cheap_slack_without_intercept_is_the_centroid():
    F, y = overlapping(4, 60, 3)
    problem = consistent(F, 0.9999, 1.5)
    result = solve_ellipsoidal_svm(F, y, **problem, r=0.9999, fit_intercept=False, tol=1e-10)
    assert np.allclose(result.alpha, problem["caps"])
    assert cosine(result.w, (problem["caps"] * y) @ F) > 1 - 1e-12


@pytest.mark.parametrize("shape_", [(8, 2), (120, 3), (3000, 2), (150, 60)])
def test_no_hard_margin(shape_):
    n, d = shape_
    F, y = (X, Y) if n == 8 else overlapping(5, n, d, noise=1.0)
    if d > 10:
        F[:10] = F[10:20]
        y[:10] = -y[10:20]
    result = hard(F, y, 0.9, solver="newton" if n > 1000 else "ipm")
    assert result.status == "inseparable"
    assert result.gap == np.inf
    assert result.objective == np.inf
    # The proof: a margin is at most |v| / Σ α.
    bound = np.linalg.norm((result.alpha * y) @ F) / result.alpha.sum()
    assert bound <= 1e-4 * np.linalg.norm(F, axis=1).max()


def test_opposite_labels_at_one_place():
    F = np.array([[1.0, 0.5], [1.0, 0.5]])
    y = np.array([1.0, -1.0])
    result = solve_ellipsoidal_svm(F, y, caps=np.ones(2), pi=np.ones(2), r=0.9, tol=1e-9)
    assert result.status == "converged"
    assert np.allclose(result.outputs, 0, atol=1e-6)
    assert hard(F, y, 0.9).status == "inseparable"


def test_row_at_the_origin_and_columns_of_nothing():
    F, y = overlapping(6, 50, 3)
    F[0] = 0.0
    F = np.column_stack([F, np.zeros(50)])
    caps = np.full(50, 0.1)
    result = solve_ellipsoidal_svm(F, y, caps=caps, pi=np.ones(50), r=0.9)
    assert result.status == "converged"
    assert result.q[0] == 0
    assert result.w[3] == 0
    assert shape(result, 0.9)[3, 3] == pytest.approx(9)
    fewer = solve_ellipsoidal_svm(F[:, :3], y, caps=caps, pi=np.ones(50), r=0.9)
    assert np.allclose(fewer.w, result.w[:3], atol=1e-4)


def test_fewer_rows_than_columns_reduce_to_their_span():
    F, y = overlapping(7, 12, 30)
    problem = consistent(F, 0.9, 0.2)
    # Prices contain the number of columns: keep them.
    basis, coordinates = np.linalg.qr(F.T)
    whole = solve_ellipsoidal_svm(F, y, **problem, r=0.9, tol=1e-9)
    part = solve_ellipsoidal_svm(coordinates.T, y, **problem, r=0.9, tol=1e-9)
    assert np.allclose(whole.w, basis @ part.w, atol=1e-5)
    assert whole.b == pytest.approx(part.b, abs=1e-5)


def test_caps_of_very_different_sizes():
    F, y = overlapping(9, 800, 1, noise=1.0)
    caps = 1.0 / (1e-3 * F[:, 0] ** 2)
    result = solve_ellipsoidal_svm(F, y, caps=caps, pi=np.ones(800), r=1 - 1e-6)
    assert result.status == "converged"


def test_rows_with_and_without_slack():
    F, y = separable(14, 40, 2)
    caps = np.full(40, 0.2)
    caps[::2] = np.inf
    result = solve_ellipsoidal_svm(F, y, caps=caps, pi=np.ones(40), r=0.9, tol=1e-8)
    assert result.status == "converged"
    assert np.all((y * result.outputs)[::2] >= result.q[::2] * (1 - 1e-3))
    problem = EsvmProblem(F, y, caps, np.ones(40), 0.9, True, 1e-8, 1)
    assert problem.certify(result.alpha, result.w, result.b).gap <= 1e-7
