"""The ellipsoidal support vector machine: closed forms, a reference, certificates, invariances."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oblong.solvers.esvm.problem import EsvmProblem
from oblong.solvers.esvm.solve import solve_ellipsoidal_svm
from tests.reference.ellipsoidal_svm import ellipsoidal_svm
from tests.solvers.esvm.problems import consistent, overlapping

X = np.array(
    [(2, 1), (1, 2), (1.5, 0.2), (-0.2, 0.4), (-1, -1), (-2, 0.5), (0.5, -1.5), (0.3, 0.6)]
)


Y = np.array([1.0, 1, 1, 1, -1, -1, -1, -1])


LENGTH = np.linalg.norm(X, axis=1)


def hard(rows, labels, r, **options):
    rows, labels = np.array(rows, dtype=float), np.array(labels, dtype=float)
    n = len(labels)
    # Weights have half the digits of the gap.
    options = {"tol": 1e-10} | options
    return solve_ellipsoidal_svm(
        rows, labels, caps=np.full(n, np.inf), pi=np.ones(n), r=r, **options
    )


def shape(result, r):
    return r * result.factor.T @ result.factor


def printed(F, nu):
    squares = np.einsum("ij,ij->i", F, F)
    return {"caps": 1.0 / (nu * squares), "pi": np.ones(len(F))}


@pytest.mark.parametrize("solver", ["ipm", "newton", "smo"])
@pytest.mark.parametrize("r", [0.6, 0.9, 0.99])
class TestTwoRows:
    def test_opposite(self, r, solver):
        result = hard([(1, 0), (-1, 0)], [1, -1], r, solver=solver)
        assert result.status == "converged"
        assert np.allclose(result.alpha, r - 0.5, atol=2e-6)
        assert np.allclose(result.w, [1, 0], atol=1e-5)
        assert abs(result.b) <= 1e-6
        assert np.allclose(result.q, 1, atol=2e-6)

    def test_orthogonal(self, r, solver):
        result = hard([(1, 0), (0, 1)], [1, -1], r, solver=solver)
        assert np.allclose(result.alpha, np.sqrt(2) * r - (1 - r), atol=2e-6)
        assert np.allclose(result.w, np.array([1, -1]) / np.sqrt(2), atol=1e-5)
        assert np.allclose(result.q, 1 / np.sqrt(2), atol=2e-6)

    def test_numbers(self, r, solver):
        result = hard([(2,), (1,)], [1, -1], r, solver=solver)
        assert np.allclose(result.alpha, r - (1 - r) / 5, atol=2e-6)
        assert result.w == pytest.approx(1)
        assert shape(result, r).item() == pytest.approx(0.2, abs=1e-6)
        assert result.b == pytest.approx(-1.2, abs=1e-6)


@pytest.mark.parametrize("solver", ["ipm", "newton"])
def test_direction_inside_the_ball(solver):
    result = solve_ellipsoidal_svm(X, Y, **printed(X, 0.5), r=0.9, solver=solver, tol=1e-10)
    assert result.objective == pytest.approx(4.6990279002, abs=1e-8)
    assert np.allclose(result.w, [0.25159552, 0.42827638], atol=1e-6)
    assert result.b == pytest.approx(-0.07422582, abs=1e-6)
    expected = [[0.17319142, -0.01690228], [-0.01690228, 0.23208504]]
    assert np.allclose(shape(result, 0.9), expected, atol=1e-6)
    # The weights say nothing about w here.
    assert np.linalg.norm((result.alpha * Y) @ X) <= 1e-6


@pytest.mark.parametrize("solver", ["ipm", "newton", "smo"])
def test_direction_on_the_sphere(solver):
    caps = 2 * 0.99 / (8 * 0.2 * LENGTH)
    result = solve_ellipsoidal_svm(X, Y, caps=caps, pi=np.ones(8), r=0.99, solver=solver, tol=1e-10)
    assert result.objective == pytest.approx(3.576101837, abs=1e-8)
    assert np.allclose(result.w, [0.64006311, 0.76832234], atol=1e-5)
    assert result.b == pytest.approx(-0.10665193, abs=1e-5)
    expected = [[0.34079848, 0.0316808], [0.0316808, 0.40063354]]
    B = 0.99 * np.linalg.inv(0.01 * np.eye(2) + (X.T * result.alpha) @ X)
    assert np.allclose(B, expected, atol=1e-5)
    # Where the kernel matrix was enough for the certificate, there is no factor of B.
    assert result.factor is None or np.allclose(shape(result, 0.99), expected, atol=1e-5)
    alpha = [0, 0.19725875, 0, 2.4620991, 0, 0.60027567, 0.2143261, 1.84475608]
    assert np.allclose(result.alpha, alpha, atol=1e-4)


def agree(F, y, r, caps, pi, fit_intercept=True):
    result = solve_ellipsoidal_svm(
        F, y, caps=caps, pi=pi, r=r, fit_intercept=fit_intercept, tol=1e-8
    )
    value, w, b, B = ellipsoidal_svm(F, y, caps, pi, r, fit_intercept)
    assert result.status == "converged"
    assert -1e-12 <= result.gap <= 1e-8
    assert result.objective == pytest.approx(value, abs=5e-6 * max(1.0, abs(value)))
    assert np.allclose(result.w, w, atol=5e-5)
    found = shape(result, r)
    assert np.linalg.norm(found - B) <= 5e-4 * np.linalg.norm(B)
    # Without a row between the classes the reference's bias is any of an interval.
    own = np.sum(caps * np.maximum(0, result.q - y * result.outputs))
    other = np.sum(caps * np.maximum(0, result.q - y * (F @ result.w + b)))
    assert own <= other + 1e-9 * max(1.0, other)


@pytest.mark.parametrize("nu", [1e-3, 0.03, 0.3, 3.0])
@pytest.mark.parametrize("r", [0.5, 0.9, 0.99, 0.999, 1 - 1e-6])
def test_agrees_with_a_conic_solver(r, nu):
    seed = int(1000 * nu + 100 * r)
    rng = np.random.default_rng(seed)
    F, y = overlapping(seed, int(rng.integers(20, 150)), int(rng.integers(2, 7)))
    agree(F, y, r, **consistent(F, r, nu))


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_agrees_with_a_conic_solver_as_printed(seed, fit_intercept):
    F, y = overlapping(seed, 60, 3, scale=2.0)
    agree(F, y, 0.9, **printed(F, 0.5), fit_intercept=fit_intercept)


@pytest.mark.parametrize("r", [0.5, 0.9, 0.99])
def test_hard_margin_agrees_with_a_conic_solver(r):
    F, y = overlapping(4, 40, 3, noise=0.0)
    F[:, 0] += 0.3 * y
    pi = 1 / np.linalg.norm(F, axis=1)
    result = solve_ellipsoidal_svm(F, y, caps=np.full(40, np.inf), pi=pi, r=r, tol=1e-8)
    value, w, b, _ = ellipsoidal_svm(F, y, np.full(40, np.inf), pi, r)
    assert result.objective == pytest.approx(value, abs=1e-6)
    assert np.allclose(result.w, w, atol=1e-4)
    assert result.b == pytest.approx(b, abs=1e-4)


@pytest.mark.parametrize("shape_", [(40, 3), (150, 150), (160, 60), (700, 4)])
@pytest.mark.parametrize("intercept", [True, False])
def test_solvers_agree(shape_, intercept):
    F, y = overlapping(7, *shape_)
    problem = {**consistent(F, 0.99, 0.3), "r": 0.99, "tol": 1e-8, "fit_intercept": intercept}
    first = solve_ellipsoidal_svm(F, y, solver="ipm", **problem)
    others = ["newton", "smo"] if intercept else ["newton"]
    for solver in others:
        other = solve_ellipsoidal_svm(F, y, solver=solver, **problem)
        assert other.status == "converged"
        assert other.objective == pytest.approx(first.objective, rel=1e-7)
        assert np.allclose(other.w, first.w, atol=1e-4)
        assert other.b == pytest.approx(first.b, abs=1e-4)


@pytest.mark.parametrize("limit", [1, 3, 5])
@pytest.mark.parametrize("solver", ["ipm", "newton", "smo"])
def test_certificate_is_honest_before_the_end(solver, limit):
    F, y = overlapping(3, 200, 4)
    problem = {**consistent(F, 0.9, 0.2), "r": 0.9}
    best = solve_ellipsoidal_svm(F, y, **problem, tol=1e-9).objective
    early = solve_ellipsoidal_svm(F, y, **problem, solver=solver, max_iter=limit)
    assert early.status == "max_iter"
    assert early.n_iter == limit
    assert early.gap > 1e-6
    assert early.dual_objective <= best + 1e-9
    assert early.objective >= best - 1e-8
    assert early.gap == pytest.approx((early.objective - early.dual_objective) / (0.9 * 4))
    check_values(F, y, 0.9, problem, early)


def check_values(F, y, r, problem, result):
    """The values of a result, from scratch."""
    caps, pi = problem["caps"], problem["pi"]
    p = F.shape[1]
    alpha = result.alpha
    assert np.all((alpha >= 0) & (alpha <= caps))
    assert abs(alpha @ y) <= 1e-12 * alpha.sum()
    M = (1 - r) * np.eye(p) + (F.T * (alpha * pi)) @ F
    assert np.allclose(result.factor.T @ result.factor @ M, np.eye(p), atol=1e-8)
    B = shape(result, r)
    q = pi * np.einsum("ij,jk,ik->i", F, B, F)
    assert np.allclose(result.q, q)
    assert np.allclose(result.outputs, F @ result.w + result.b)
    assert np.linalg.norm(result.w) <= 1 + 1e-12
    loss = caps @ np.maximum(0, q - y * result.outputs)
    primal = -r * np.linalg.slogdet(B)[1] + (1 - r) * np.trace(B) + loss
    v = (alpha * y) @ F
    dual = -r * np.linalg.slogdet(B)[1] + r * p - np.linalg.norm(v)
    assert result.objective == pytest.approx(primal, rel=1e-9)
    assert result.dual_objective == pytest.approx(dual, rel=1e-9)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 10_000),
    st.integers(4, 60),
    st.integers(1, 6),
    st.floats(-3, 0.5),
    st.sampled_from([0.3, 0.9, 0.99, 1 - 1e-6]),
)
def test_certificate_at_the_end(seed, n, d, log_nu, r):
    F, y = overlapping(seed, n, d)
    problem = consistent(F, r, 10.0**log_nu)
    result = solve_ellipsoidal_svm(F, y, **problem, r=r)
    assert result.status == "converged"
    assert -1e-10 <= result.gap <= 1e-6
    check_values(F, y, r, problem, result)
    # Effective dimension.
    assert result.alpha @ result.q / r <= min(n, d) + 1e-9


@pytest.mark.parametrize("factor", [1e-4, 0.1, 10.0, 1e4])
def test_scale_of_the_rows_does_not_matter(factor):
    F, y = overlapping(5, 100, 4)
    first = solve_ellipsoidal_svm(F, y, **consistent(F, 0.9, 0.2), r=0.9, tol=1e-9)
    other = solve_ellipsoidal_svm(
        factor * F, y, **consistent(factor * F, 0.9, 0.2), r=0.9, tol=1e-9
    )
    assert other.objective == pytest.approx(first.objective, abs=1e-7)
    assert np.allclose(other.w, first.w, atol=1e-5)
    assert other.b / factor == pytest.approx(first.b, abs=1e-5)
    assert np.allclose(shape(other, 0.9), shape(first, 0.9), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("solver", ["ipm", "newton"])
def test_weights_are_duplicates(solver):
    F, y = overlapping(6, 80, 3)
    caps, pi = consistent(F, 0.9, 0.2).values()
    copies = np.random.default_rng(0).integers(0, 4, 80)
    copies[:2] = 1
    weighted = solve_ellipsoidal_svm(
        F, y, caps=copies * caps, pi=pi, r=0.9, tol=1e-9, solver=solver
    )
    index = np.repeat(np.arange(80), copies)
    repeated = solve_ellipsoidal_svm(
        F[index], y[index], caps=caps[index], pi=pi[index], r=0.9, tol=1e-9, solver=solver
    )
    assert weighted.objective == pytest.approx(repeated.objective, abs=1e-8)
    assert np.allclose(weighted.w, repeated.w, atol=1e-5)
    assert np.all(weighted.alpha[copies == 0] == 0)
    # Rows without weight still get their outputs.
    assert np.allclose(weighted.outputs, F @ weighted.w + weighted.b)
    assert np.allclose(weighted.q, pi * np.sum((F @ weighted.factor.T) ** 2, axis=1) * 0.9)


def test_single_precision_is_not_copied_and_agrees():
    F, y = overlapping(8, 4000, 4)
    problem = consistent(F, 0.9, 0.2)
    double = solve_ellipsoidal_svm(F, y, **problem, r=0.9, solver="newton")
    single = solve_ellipsoidal_svm(F.astype(np.float32), y, **problem, r=0.9, solver="newton")
    assert single.status == "converged"
    assert np.allclose(single.w, double.w, atol=1e-4)
    whole = EsvmProblem(F.astype(np.float32), y, *problem.values(), 0.9, True, 1e-6, 1)
    assert whole.F.dtype == np.float32


def test_reports_progress():
    F, y = overlapping(8, 100, 3)
    seen = []
    result = solve_ellipsoidal_svm(
        F, y, **consistent(F, 0.9, 0.2), r=0.9, progress=seen.append, solver="ipm"
    )
    assert len(seen) == result.n_iter + 1
    assert seen[-1].violation <= 1e-6 < seen[0].violation


@pytest.mark.parametrize("change", [{"y": np.ones(8)}, {"caps": np.where(Y > 0, 1.0, 0.0)}])
def test_one_class(change):
    arguments = {"y": Y, "caps": np.ones(8), "pi": np.ones(8), "r": 0.9} | change
    with pytest.raises(ValueError, match="both classes"):
        solve_ellipsoidal_svm(X, **arguments)
