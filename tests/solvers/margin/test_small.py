"""Problems of one block: shared matrices, pair steps with strides, and where the rounds begin."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from oblong import RelativeMarginClassifier
from oblong.linalg.kernel_matrix import KernelMatrix
from oblong.solvers.margin.block import DenseBlock, balance, solve_block
from oblong.solvers.margin.options import DEFAULTS
from oblong.solvers.margin.pair_steps import ascend
from oblong.solvers.margin.small import SharedColumns, ascend_whole, whole_block
from oblong.solvers.margin.solver import solve_margin
from tests.fuzz.problems import make
from tests.solvers.margin.problems import KERNELS, TOL, bias_interval, make_problem, solve

NO_LIMIT = 10**9


def _ascend(problem, *, steps, stride, tol=1e-9, dtype=np.float64):
    """Pair steps from zero; returns what they did and the state that they left."""
    block = DenseBlock(problem.K.astype(dtype))
    n = len(problem.y)
    c, u, right, left = np.zeros((4, n))
    taken, violation = ascend(
        block.K,
        block.diagonal,
        *problem.pieces,
        c,
        u,
        right,
        left,
        block.work,
        tol,
        block.tiny,
        1e-13,
        steps,
        stride,
    )
    return taken, violation, c, u, right, left


@pytest.mark.parametrize("B", [1.1, np.inf])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("stride", [1, 7, 40, 10**6])
def test_state_after_pair_steps_is_consistent(kernel, B, stride):
    """Image, slopes, sum and violation belong to the coefficients, however often it strides."""
    problem = make_problem(kernel, 60, 3.0, B, seed=2)
    for steps in (0, 1, 39, 300):
        taken, violation, c, u, right, left = _ascend(problem, steps=steps, stride=stride)
        assert taken <= steps
        scale = max(1.0, float(np.abs(problem.K).max() * np.abs(c).sum()))
        np.testing.assert_allclose(u, problem.K @ c, atol=1e-11 * scale)
        expected = problem.pieces.slopes_at(c)
        np.testing.assert_array_equal((right, left), expected)
        assert abs(c.sum()) <= 1e-9
        assert violation == pytest.approx((right - u).max() - (left - u).min(), abs=1e-10 * scale)


@pytest.mark.large
@pytest.mark.parametrize("B", [1.05, np.inf])
def test_strides_never_lose_and_save_steps(B):
    problem = make_problem("rbf", 150, 30.0, B, seed=5)
    plain = _ascend(problem, steps=NO_LIMIT, stride=NO_LIMIT, tol=1e-6)
    striding = _ascend(problem, steps=NO_LIMIT, stride=75, tol=1e-6)
    assert striding[1] <= 1e-6
    assert striding[0] < plain[0]
    for steps in (75, 150, 600):
        pairs, far = (
            _ascend(problem, steps=steps, stride=stride, tol=1e-9) for stride in (steps, steps - 1)
        )
        # One pair step less, but a stride: the dual is no worse than without that step.
        short = _ascend(problem, steps=steps - 1, stride=steps, tol=1e-9)
        dual = problem.pieces.dual
        assert dual(far[2], far[3]) >= dual(short[2], short[3]) - 1e-12
        assert pairs[0] == far[0]


@pytest.mark.parametrize("B", [1.02, 1.3, np.inf])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("polish", [False, True])
def test_shared_matrices_give_the_same_solutions(kernel, B, polish):
    problem = make_problem(kernel, 90, 5.0, B, seed=7)
    expected = solve(problem, tol=TOL)
    columns = SharedColumns(problem.K)
    for _ in range(2):
        result = solve_margin(columns, problem.pieces, tol=TOL, polish=polish)
        assert result.status == "converged"
        assert result.n_rounds == 1
        low, high = bias_interval(problem.K, problem.pieces, result.dual_coef)
        assert low - high <= 1.01 * TOL
        assert result.objective == pytest.approx(expected.objective, rel=1e-5)
        assert -1e-9 <= result.relative_gap <= 1e-4


def test_blocks_in_single_precision_are_for_the_rounds():
    problem = make_problem("rbf", 60, 1.0, 1.2)
    columns = SharedColumns(problem.K.astype(np.float32))
    assert columns.dense is None
    assert whole_block(columns) is None
    assert solve_margin(columns, problem.pieces).status == "converged"
    assert whole_block(KernelMatrix(problem.K)).K.shape == (60, 60)


def test_start_that_is_optimal_takes_nothing():
    problem = make_problem("rbf", 60, 10.0, 1.2)
    block = DenseBlock(problem.K)
    first = ascend_whole(block, problem.pieces, 1e-6, NO_LIMIT, None, None, True, DEFAULTS)
    again = ascend_whole(block, problem.pieces, 1e-3, NO_LIMIT, first.c, first.u, True, DEFAULTS)
    assert (again.steps, again.newton_steps, again.rounds) == (0, 0, 0)
    np.testing.assert_array_equal(again.c, first.c)
    # An image that is wrong is found out before anything is called optimal.
    wrong = np.where(first.right > first.u, first.u, first.right)
    fooled = ascend_whole(block, problem.pieces, 1e-3, NO_LIMIT, first.c, wrong, True, DEFAULTS)
    np.testing.assert_allclose(fooled.u, problem.K @ fooled.c, atol=1e-9)
    assert fooled.violation <= 1e-3


def test_rounds_that_rounding_makes_useless_end():
    # Products of rows a million deviations away have no digits left; a round there takes a step or
    # two, so that the limit on steps would allow for thousands of rounds.
    problem = make("RelativeMarginClassifier", 1301474)
    some = np.isin(problem.y, np.unique(problem.y)[[0, 6]])
    weights = problem.fit_params["sample_weight"][some]
    model = RelativeMarginClassifier(**problem.params)
    with pytest.warns(ConvergenceWarning):
        model.fit(problem.X[some], problem.y[some], sample_weight=weights)
    assert model.n_iter_.sum() < 10_000


def test_limit_is_kept_by_the_whole_problem():
    problem = make_problem("rbf", 60, 10.0, 1.2)
    for limit in (1, 17):
        result = solve_margin(SharedColumns(problem.K), problem.pieces, tol=1e-8, max_iter=limit)
        assert result.n_iter == limit
        assert result.status == "max_iter"


def test_block_that_is_whole_returns_the_image_of_its_coefficients():
    problem = make_problem("rbf", 60, 10.0, 1.2)
    for dtype, error in ((np.float64, 1e-10), (np.float32, 1e-3)):
        c = np.zeros(60)
        block = DenseBlock(problem.K.astype(dtype))
        outcome = solve_block(block, problem.pieces, c, c, 1e-2, 1e-2, NO_LIMIT, True, False)
        np.testing.assert_allclose(outcome.u, problem.K @ c, atol=error)


def test_balance_takes_from_the_largest_free_coefficient():
    c = np.array([2.0, -1.0, 5.0, -5.0])
    balance(c, np.array([1.0, 1.0, 0.0, 0.0]), np.array([1.0, 1.0, 1.0, 1.0]))
    np.testing.assert_array_equal(c, [1.0, -1.0, 5.0, -5.0])
    fixed = np.array([1.0, 2.0])
    balance(fixed, np.zeros(2), np.ones(2))
    np.testing.assert_array_equal(fixed, [1.0, 2.0])


@pytest.mark.parametrize("seed", range(5))
def test_indefinite_matrices_are_found_out(seed):
    """Without a maximum the dual rises beyond what the outputs zero would cost."""
    problem = make_problem("rbf", 40, 1.0, 1.2, seed=seed)
    v = np.random.default_rng(seed).normal(size=40)
    K = problem.K - 5.0 * np.outer(v, v) / (v @ v)
    for columns in (SharedColumns(K), KernelMatrix(K)):
        with pytest.raises(ValueError, match="not positive semidefinite"):
            solve_margin(columns, problem.pieces)
