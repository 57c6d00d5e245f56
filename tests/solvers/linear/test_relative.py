"""Which method solves the linear relative margin problem, and that they agree."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import oblong.solvers.linear.relative as relative
from oblong.solvers.linear.options import LinearOptions
from oblong.solvers.linear.relative import solve_linear_relative_margin


def rows_of(seed, n, d, far=0.0):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    X = rng.normal(size=(n, d)) + far
    X[:, 0] += 0.8 * y
    return X, y, rng.uniform(0.2, 3.0, n)


@pytest.mark.parametrize("bound", [{"spread": 0.5}, {"spread": 1.0}, {"B": 1.5}, {"D": 0.0}])
@pytest.mark.parametrize(("n", "d", "far"), [(20, 3, 0.0), (60, 100, 0.0), (150, 8, 50.0)])
def test_few_rows_by_their_products(monkeypatch, bound, n, d, far):
    X, y, C = rows_of(n, n, d, far)
    wanted = solve_linear_relative_margin(X, y, C, method="interior-point", **bound)
    monkeypatch.setattr(relative, "solve_interior_point", None)
    for rows in (X, sp.csr_matrix(X)):
        found = solve_linear_relative_margin(rows, y, C, **bound)
        assert found.solution.status == "converged"
        assert found.solution.relative_gap <= 1e-8
        assert pytest.approx(wanted.B, rel=1e-6) == found.B
        assert found.solution.objective == pytest.approx(wanted.solution.objective, rel=1e-8)
        np.testing.assert_allclose(found.solution.coef, wanted.solution.coef, atol=1e-5)
        assert np.abs(found.outputs).max() <= found.B * (1 + 1e-12)


@pytest.mark.parametrize(
    ("scale", "max_iter", "options"),
    [
        (1e6, 1000, LinearOptions()),
        (1.0, 60, LinearOptions()),
        (1.0, 1000, LinearOptions(kernel_steps=0)),
    ],
)
def test_else_the_interior_point_method_takes_over(scale, max_iter, options):
    X, y, C = rows_of(0, 40, 5)
    found = solve_linear_relative_margin(X, y, scale * C, max_iter=max_iter, options=options)
    wanted = solve_linear_relative_margin(X, y, scale * C, method="interior-point")
    assert found.n_iter == wanted.n_iter
    np.testing.assert_array_equal(found.solution.coef, wanted.solution.coef)
