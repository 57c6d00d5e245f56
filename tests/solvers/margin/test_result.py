"""The certificate: it holds for the model that is returned, whatever the dual point."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oblong.kernels import Kernel
from oblong.linalg.kernel_matrix import KernelMatrix
from oblong.solvers.margin.problem import Pieces, svm_pieces
from oblong.solvers.margin.result import certify, expand
from oblong.solvers.margin.solver import solve_margin
from tests.solvers.margin.problems import make_problem


def _objective(problem, coef, bias):
    """The primal objective from its formula."""
    f = problem.K @ coef + bias
    hinge = np.maximum(0.0, 1.0 - problem.y * f)
    return 0.5 * coef @ problem.K @ coef + problem.C @ hinge, np.abs(f).max()


@given(
    seed=st.integers(0, 1000),
    size=st.floats(1e-3, 10.0),
    bias=st.floats(-3.0, 3.0),
    B=st.sampled_from([1.0, 1.5, np.inf]),
)
@settings(max_examples=60, deadline=None)
def test_any_dual_point_gives_a_model_with_a_true_certificate(seed, size, bias, B):
    problem = make_problem("rbf", 30, 2.0, B, seed=seed % 7)
    rng = np.random.default_rng(seed)
    p = np.clip(problem.pieces.breakpoints, -5.0, 5.0)
    c = size * (p[:, 1] + rng.random(30) * (p[:, 2] - p[:, 1]))
    c = np.clip(c - c.mean(), p[:, 0], p[:, 3])
    # Where clipping has broken the sum, the largest coefficients give way.
    for _ in range(60):
        room = np.where(c > 0, c - p[:, 0], c - p[:, 3])
        excess = c.sum()
        if abs(excess) < 1e-12:
            break
        k = np.argmax(np.where(np.sign(c) == np.sign(excess), np.abs(room), 0.0))
        c[k] -= np.clip(excess, -abs(c[k]), abs(c[k]))
    columns = KernelMatrix(problem.K)
    expansion = expand(columns, problem.pieces, c, problem.K @ c, bias)
    found = certify(problem.pieces, c, expansion, (bias, bias), (0, 0, 0), "stalled", 1e-3)
    primal, largest = _objective(problem, found.coef, found.bias)
    assert found.objective == pytest.approx(primal, rel=1e-9, abs=1e-9)
    assert largest <= B * (1 + 1e-12)
    optimum = solve_margin(columns, problem.pieces, tol=1e-9)
    assert found.objective - found.gap <= optimum.objective * (1 + 1e-9)
    assert found.relative_gap <= 1.0 + 1e-9


def test_large_penalties_are_answered_by_a_factor():
    """A violation of tol on many rows costs much; a slightly larger model costs little."""
    problem = make_problem("rbf", 300, 1.0, np.inf, seed=4)
    loose = solve_margin(KernelMatrix(problem.K), problem.pieces, tol=1e-2, polish=False)
    c = 0.999 * loose.dual_coef
    pieces = Pieces(problem.pieces.breakpoints * 1.0, problem.pieces.slopes)
    columns = KernelMatrix(problem.K)
    expansion = expand(columns, pieces, c, problem.K @ c, loose.bias)
    plain = certify(pieces, c, expansion, (loose.bias, loose.bias), (0, 0, 0), "", np.inf)
    best = certify(pieces, c, expansion, (loose.bias, loose.bias), (0, 0, 0), "", 0.0)
    assert plain.scale == 1.0
    assert best.objective <= plain.objective
    grid = [_objective(problem, k * c, k * loose.bias)[0] for k in np.linspace(0.5, 1.5, 1001)]
    assert best.objective <= min(grid) * (1 + 1e-6)


def test_single_precision_columns_are_evaluated_in_double():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 5))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=400) > 0, 1.0, -1.0)
    kernel = Kernel("rbf", gamma=0.2)
    pieces = svm_pieces(y, np.ones(400))
    single = KernelMatrix.of_rows(kernel, X, dtype=np.float32)
    found = solve_margin(single, pieces)
    K = kernel(X)
    primal = (
        0.5 * found.coef @ K @ found.coef
        + np.maximum(0.0, 1.0 - y * (K @ found.coef + found.bias)).sum()
    )
    assert found.objective == pytest.approx(primal, rel=1e-12)


def test_an_endless_domain_with_a_bound_of_zero():
    """No factor brings an output below a bound of zero; only outputs of zero are inside."""
    pieces = Pieces(np.array([[-np.inf, 0.0, 1.0, 1.0]]), np.array([[0.0, 0.0, 0.0]]))
    assert pieces.bound_scale(np.array([0.5])) == 0.0
    assert pieces.bound_scale(np.array([-0.5])) == np.inf


def test_coefficients_that_mean_nothing_are_answered_by_zero():
    """A dual point below zero proves less than no coefficients at all."""
    problem = make_problem("rbf", 20, 1.0, 1.5, seed=1)
    c = 50.0 * (problem.y - problem.y.mean())
    assert problem.pieces.dual(c, problem.K @ c) < 0.0
    expansion = KernelMatrix(problem.K).expand(c, problem.K @ c, None)
    found = certify(problem.pieces, c, expansion, (0.0, 0.0), (0, 0, 0), "", 1e-3)
    assert found.dual_objective == 0.0
    assert found.relative_gap <= 1.0 + 1e-9
    # The model is at least as good as one of zero outputs.
    assert found.objective <= problem.C.sum() * (1 + 1e-9)
