"""Loops over rows, the start of the interior point method, and joint steps of the descent."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from oblong.solvers.linear.descent_state import DescentState
from oblong.solvers.linear.interior_point import middle
from oblong.solvers.linear.joint_step import joint_step
from oblong.solvers.linear.options import DEFAULTS, LinearOptions
from oblong.solvers.linear.problem import LinearRows
from oblong.solvers.linear.relative import choose_method
from oblong.solvers.linear.row_loops import add_rows, row_products
from tests.solvers.linear.problems import FORMS, cloud, dual_value, make


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_products_with_some_rows(sparse, dtype):
    rng = np.random.default_rng(0)
    X = np.where(rng.random((30, 11)) < 0.4, rng.normal(size=(30, 11)), 0.0).astype(dtype)
    whole = LinearRows(sp.csr_matrix(X) if sparse else X)
    arrays = whole.compressed()
    rows, w, c = np.array([3, 0, 29, 3]), rng.normal(size=11), np.array([1.5, 0.0, -2.0, 0.5])
    out, total = np.empty(4), np.ones(11)
    row_products(*arrays, rows, w, out)
    np.testing.assert_allclose(out, X[rows].astype(float) @ w, rtol=1e-12)
    add_rows(*arrays, rows, c, total)
    np.testing.assert_allclose(total, 1.0 + c @ X[rows].astype(float), rtol=1e-12)
    np.testing.assert_allclose(whole.squared_norms, (X.astype(float) ** 2).sum(axis=1), rtol=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_the_start_is_inside_all_inequalities(form):
    X, y = cloud(40, 3, positive=0.2)
    problem = make(X, y, 2.0, FORMS[form])
    t = 2.0 if problem.D is not None else min(problem.B, 5.0)
    kinds = middle(problem, t, DEFAULTS)
    if problem.D is not None:
        assert kinds.pop().s == t - 1.0
    assert len(kinds) == (3 if problem.bounded else 1)
    for kind in kinds:
        soft, ky, *_ = kind.head
        assert min(kind.a.min(), kind.s.min(), kind.v.min(), kind.e.min()) > 0.0
        if soft:
            # Outputs are zero: the slack of y f + ξ >= 1, or of t ± f + τ >= 0.
            np.testing.assert_allclose(kind.s, kind.e - 1.0 if ky else t + kind.e)
            limit = problem.C if ky else problem.U
            np.testing.assert_allclose(kind.a + kind.v, limit)
        else:
            np.testing.assert_allclose(kind.s, t)
    if problem.intercept:
        assert kinds[0].a @ y == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("form", ["svm", "B", "D", "relaxed"])
def test_joint_steps_raise_the_dual(form):
    """Without a bias the inner problem is the dual itself, for a fixed bound."""
    X, y = cloud(60, 8, shift=0.2, seed=3)
    problem = make(X, y, 1.0, {**FORMS[form], "intercept": False}, sparse=True)
    rng = np.random.default_rng(0)
    start = y * rng.uniform(0.0, 1.0, 60) * (rng.random(60) < 0.7)
    state = DescentState(problem, start, 0.0)
    joint_step(state, 100.0)
    assert np.any(state.c != start)
    np.testing.assert_allclose(state.w, state.c @ X, rtol=1e-9, atol=1e-9)
    assert dual_value(problem, X, state.c) > dual_value(problem, X, start)
    before = state.c.copy()
    joint_step(state, 100.0, LinearOptions(joint_least=10**9))
    np.testing.assert_array_equal(state.c, before)


def test_options_decide_the_method():
    X = sp.random(2000, 700, 0.01, random_state=0, format="csr")
    assert choose_method(X) == "descent"
    assert choose_method(X, LinearOptions(dense_work=10**6)) == "interior-point"
    assert (
        choose_method(X, LinearOptions(dense_work=10**6, most_columns=600, rotated=0)) == "descent"
    )
