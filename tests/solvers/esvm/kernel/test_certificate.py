"""The certificate of kernel weights without the moments of the rows."""

from __future__ import annotations

import numpy as np
import pytest

import oblong.solvers.esvm.kernel.dual as models
from oblong.solvers.esvm.kernel.certificate import certify_by_kernel
from oblong.solvers.esvm.problem import EsvmProblem
from oblong.solvers.esvm.scaled_part import Part
from oblong.solvers.esvm.solve import moment_factor, solve_ellipsoidal_svm
from tests.solvers.esvm.problems import TOL, coordinates, rows_of, soft


def certificates(F, y, alpha, r=0.99, tol=TOL):
    """The certificate of weights by the rows and by the kernel matrix."""
    given_ = soft(F, r)
    problem = EsvmProblem(F, y, given_["caps"], given_["pi"], r, True, tol, 100)
    part = Part(problem, None, None)
    dual = models.KernelDual(problem, part, np.zeros(len(y)))
    by_kernel = certify_by_kernel(problem, part, dual.K, alpha, dual._space)
    return problem.certify(alpha), by_kernel


@pytest.mark.parametrize("r", [0.3, 0.99, 1 - 1e-4])
@pytest.mark.parametrize("width", [0.05, 2.0])
@pytest.mark.parametrize("step", [3, 40])
def test_certificate_by_the_kernel_is_that_by_the_rows(r, width, step):
    X, y = rows_of(16, 150)
    F = coordinates(X, width)
    alpha = 0.3 * soft(F, r)["caps"]
    # Many rows without a weight or few of them, and some with little.
    alpha[::step] = 0.0
    alpha[1::7] *= 1e-7
    by_rows, by_kernel = certificates(F, y, alpha, r)
    assert by_kernel.gap == pytest.approx(by_rows.gap, rel=1e-8)
    assert by_kernel.dual == pytest.approx(by_rows.dual, rel=1e-10)
    assert by_kernel.b == pytest.approx(by_rows.b, abs=1e-8)
    np.testing.assert_allclose(by_kernel.q, by_rows.q, rtol=1e-7)
    np.testing.assert_allclose(by_kernel.outputs, by_rows.outputs, atol=1e-8)
    np.testing.assert_allclose(by_kernel.w, by_rows.w, atol=1e-10)
    assert by_kernel.G is None
    np.testing.assert_allclose(moment_factor(F, by_kernel.alpha, soft(F, r)["pi"], r), by_rows.G)
    np.testing.assert_array_equal(by_kernel.alpha, by_rows.alpha)


def test_rounding_leaves_the_certificate_to_the_rows():
    X, y = rows_of(17, 120)
    F = coordinates(X)
    alpha = 0.3 * soft(F)["caps"]
    assert certificates(F, y, alpha)[1] is not None
    assert certificates(F, y, alpha, r=1 - 1e-9)[1] is None
    assert certificates(F, y, alpha, tol=1e-14)[1] is None
    assert certificates(F, y, np.zeros(120))[1] is None


def test_factor_that_was_not_needed_follows_from_the_weights():
    X, y = rows_of(18, 150)
    F = coordinates(X)
    found = solve_ellipsoidal_svm(F, y, **soft(F))
    assert found.factor is None
    G = moment_factor(F, found.alpha, soft(F)["pi"], 0.99)
    M = 0.01 * np.eye(F.shape[1]) + F.T @ ((found.alpha * soft(F)["pi"])[:, None] * F)
    np.testing.assert_allclose(G.T @ G @ M, np.eye(len(M)), atol=1e-7)
