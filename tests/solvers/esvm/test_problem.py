"""The certificate of given weights."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from oblong.solvers.esvm.options import EsvmOptions
from oblong.solvers.esvm.problem import EsvmProblem, balanced
from tests.solvers.esvm.problems import TOL, coordinates, rows_of, soft


def test_certificate_of_many_columns_is_that_of_few():
    X, y = rows_of(15, 260)
    F = coordinates(X)
    problem = soft(F)
    stated_problem = EsvmProblem(F, y, problem["caps"], problem["pi"], 0.99, True, TOL, 100)
    alpha = 0.3 * problem["caps"]
    alpha[::3] = 0.0
    wide = stated_problem.certify(alpha)
    plain = replace(stated_problem, options=EsvmOptions(wide=10**6)).certify(alpha)
    assert wide.dual == pytest.approx(plain.dual, rel=1e-12)
    assert wide.gap == pytest.approx(plain.gap, rel=1e-9)
    np.testing.assert_allclose(wide.q, plain.q, rtol=1e-8)
    np.testing.assert_allclose(wide.G, plain.G, rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(np.triu(wide.G, 1), 0.0)


def test_balance():
    y = np.array([1.0, 1.0, -1.0])
    assert np.allclose(balanced(np.array([1.0, 3.0, 2.0]), y), [0.5, 1.5, 2.0])
    assert np.allclose(balanced(np.array([0.5, 0.5, 2.0]), y), [0.5, 0.5, 1.0])
    assert np.all(balanced(np.array([1.0, 1.0, 0.0]), y) == 0)
