"""The support vector machine in the unit ball of an ellipsoid, by kernel matrix and by weights."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.svm import SVC

from oblong.solvers.covariance.ellipsoidal_kernel import UnitBallRows, solve_ellipsoidal_kernel
from oblong.solvers.covariance.options import CovarianceOptions


def ball_rows(n=240, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) * [1.0, 5.0, 0.2] + 2.0
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=n) > 2.0, 1.0, -1.0)
    center, factor = X.mean(axis=0), np.diag([0.3, 0.06, 1.5])
    return X, y, UnitBallRows((X - center) @ factor, center, factor)


@pytest.mark.parametrize("linear_from", [10**6, 50])
def test_both_ways_agree_with_the_support_vector_machine(linear_from):
    X, y, rows = ball_rows()
    options = CovarianceOptions(linear_from=linear_from)
    found = solve_ellipsoidal_kernel(rows, y, np.full(len(y), 2.0), tol=1e-8, options=options)
    assert found.status == "converged"
    assert found.relative_gap <= 1e-6
    peer = SVC(kernel="linear", C=2.0, tol=1e-10).fit(rows.features, y)
    outputs = X @ found.direction + found.bias
    np.testing.assert_allclose(outputs, peer.decision_function(rows.features), atol=1e-4)
    np.testing.assert_allclose(found.coef @ rows.features, peer.coef_[0], atol=1e-4)


def test_some_rows():
    _, _, rows = ball_rows()
    part = rows.take(np.array([3, 1]))
    assert part.shape == (2, 3)
    np.testing.assert_array_equal(part.features, rows.features[[3, 1]])
