"""Parts of the margin solver: Newton steps, the support vector machine."""

from __future__ import annotations

import numpy as np
import pytest

from oblong.linalg.kernel_matrix import KernelMatrix
from oblong.solvers.margin.block import DenseBlock
from oblong.solvers.margin.newton import newton_steps
from oblong.solvers.margin.options import MarginOptions
from oblong.solvers.margin.svm import solve_svm
from tests.solvers.margin.problems import KERNELS, make_problem


def test_one_newton_step_finds_the_optimum_of_free_coefficients():
    """Far from all breakpoints the dual is a quadratic with one constraint."""
    problem = make_problem("rbf", 20, 1e6, np.inf, seed=1)
    K = problem.K + 10.0 * np.eye(20)
    c = 0.5 * problem.y
    u, right, left = K @ c, *problem.pieces.slopes_at(c)
    np.testing.assert_array_equal(right, left)
    options = MarginOptions(newton_most=1)
    steps = newton_steps(DenseBlock(K), problem.pieces, c, u, right, left, 0.0, options)
    assert steps == 1
    # No coefficient meets zero on the way, so that y - Kc ends up the same for all rows.
    system = np.block([[K, np.ones((20, 1))], [np.ones((1, 20)), np.zeros((1, 1))]])
    exact = np.linalg.solve(system, np.append(problem.y, 0.0))[:20]
    assert np.all(problem.y * exact > 0)
    np.testing.assert_allclose(c, exact, rtol=1e-6)
    np.testing.assert_allclose(u, K @ c, rtol=1e-9)


@pytest.mark.parametrize("kernel", KERNELS)
def test_support_vector_machine(kernel):
    problem = make_problem(kernel, 60, 1.0, np.inf, seed=3)
    svm = pytest.importorskip("sklearn.svm")
    peer = svm.SVC(kernel="precomputed", C=1.0, tol=1e-8)
    peer.fit(problem.K, problem.y, sample_weight=problem.C)
    found = solve_svm(KernelMatrix(problem.K), problem.y, problem.C, tol=1e-8)
    np.testing.assert_allclose(found.outputs, peer.decision_function(problem.K), atol=1e-5)
