"""The linear algebra of the compiled step; the step itself is tested with the interior point."""

from __future__ import annotations

import numpy as np

from oblong.solvers.linear.small_step import _factor, _refined


def test_a_system_is_solved_through_its_factor():
    rng = np.random.default_rng(0)
    half = rng.standard_normal((6, 9))
    scale = 10.0 ** np.arange(-3, 3)
    matrix = half @ half.T
    lower = np.zeros((6, 6))
    assert _factor(matrix, lower)
    np.testing.assert_allclose(lower @ lower.T, matrix, rtol=1e-12, atol=1e-12)
    # The upper triangle is not read.
    rhs = rng.standard_normal(6)
    x = _refined(np.tril(matrix), lower, scale, rhs)
    np.testing.assert_allclose((matrix / np.outer(scale, scale)) @ x, rhs, rtol=1e-9, atol=1e-9)


def test_an_indefinite_matrix_has_no_factor():
    assert not _factor(np.array([[1.0, 2.0], [2.0, 1.0]]), np.zeros((2, 2)))
