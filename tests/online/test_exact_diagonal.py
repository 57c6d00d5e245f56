"""Confidence-weighted learning with the closest diagonal Gaussian."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import ndtri
from sklearn.base import clone

from oblong import ConfidenceWeightedClassifier
from oblong.solvers.online.exact_diagonal import ExactDiagonalState
from oblong.solvers.online.rules import CW_STDEV, CW_VAR, Rule
from oblong.solvers.online.state import DIAGONAL, SINGLE, TOP, Rows
from tests.online.learners import clouds

PHI = float(ndtri(0.9))
VARIANTS = {"stdev": CW_STDEV, "var": CW_VAR}

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def reference(w, D, z, variant):
    """The closest diagonal Gaussian whose margin ``z'w`` is sure, by a convex solver."""
    mu = cp.Variable(len(w))
    if variant == "stdev":
        # In the standard deviations, of which the constraint is convex.
        spread = cp.Variable(len(w), nonneg=True)
        cost = cp.sum_squares(spread / np.sqrt(D)) - 2 * cp.sum(cp.log(spread))
        constraint = z @ mu >= PHI * cp.norm(cp.multiply(z, spread))
    else:
        spread = cp.Variable(len(w), nonneg=True)
        cost = cp.sum(spread / D) - cp.sum(cp.log(spread))
        constraint = z @ mu >= PHI * ((z * z) @ spread)
    problem = cp.Problem(cp.Minimize(cost + cp.sum_squares((mu - w) / np.sqrt(D))), [constraint])
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    return mu.value, spread.value**2 if variant == "stdev" else spread.value


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("seed", range(10))
def test_against_a_convex_solver(variant, seed):
    rng = np.random.default_rng(seed)
    d = 5
    state = ExactDiagonalState.initial(
        Rule(VARIANTS[variant], np.inf, PHI), d, 1, structure=DIAGONAL, task=SINGLE, bias=0.0
    )
    state.table[1:, 0], state.table[1:, 1] = rng.normal(size=d), rng.uniform(0.2, 2.0, d)
    w, D = state.table[1:, 0].copy(), state.table[1:, 1].copy()
    x, y = rng.normal(size=d), rng.choice([-1, 1])
    mu, variances = reference(w, D, y * x, variant)
    state.learn(Rows.of(x[None]), np.array([[int(y > 0)]], dtype=np.int32), np.ones(1))
    np.testing.assert_allclose(state.table[1:, 0], mu, atol=2e-5)
    np.testing.assert_allclose(state.table[1:, 1], variances, atol=2e-4)
    if state.counters[1]:
        v = (x * x) @ state.table[1:, 1]
        wanted = PHI * (np.sqrt(v) if variant == "stdev" else v)
        assert y * (x @ state.table[1:, 0]) == pytest.approx(wanted, rel=1e-10)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("seed", range(3))
def test_two_of_three_classes_against_a_convex_solver(variant, seed):
    rng = np.random.default_rng(seed)
    d = 3
    state = ExactDiagonalState.initial(
        Rule(VARIANTS[variant], np.inf, PHI), d, 3, structure=DIAGONAL, task=TOP, bias=1.0
    )
    state.table[:, :3], state.table[:, 3:] = rng.normal(size=(4, 3)), rng.uniform(0.2, 2, (4, 3))
    before = state.table.copy()
    x = np.append(1.0, rng.normal(size=d))
    scores = x @ before[:, :3]
    label = int(scores.argmin())
    rival = int(scores.argmax())
    pair = [label, rival]
    w = before[:, pair].T.ravel()
    D = before[:, [3 + k for k in pair]].T.ravel()
    mu, variances = reference(w, D, np.concatenate([x, -x]), variant)
    state.learn(Rows.of(x[None, 1:]), np.array([[label]], dtype=np.int32), np.ones(1))
    np.testing.assert_allclose(state.table[:, pair].T.ravel(), mu, atol=2e-5)
    np.testing.assert_allclose(
        state.table[:, [3 + k for k in pair]].T.ravel(), variances, atol=2e-4
    )


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("multi_class", ["top1", "ovr", "kbest"])
def test_streams(variant, classes, multi_class):
    X, y = clouds(200, classes=classes, noise=0.0)
    X[np.random.default_rng(0).random(X.shape) < 0.3] = 0.0
    model = ConfidenceWeightedClassifier(
        covariance="diag", diag_update="exact", variant=variant, multi_class=multi_class
    )
    weights = np.random.default_rng(1).integers(0, 3, 200)
    whole = clone(model).partial_fit(X, y, classes=range(classes), sample_weight=weights)
    copies = np.repeat(np.arange(200), weights)
    parts = clone(model)
    for rows in np.array_split(copies, 9):
        parts.partial_fit(sp.csr_matrix(X[rows]), y[rows], classes=range(classes))
    single = clone(model).partial_fit(X[copies[:1]], y[copies[:1]], classes=range(classes))
    for i in copies[1:]:
        single.learn_one(X[i], y[i])
    for other in (parts, single):
        np.testing.assert_allclose(other.coef_, whole.coef_, rtol=1e-7, atol=1e-10)
        np.testing.assert_allclose(other.covariance_, whole.covariance_, rtol=1e-7)
        assert (other.t_, other.n_updates_, other.n_mistakes_) == (
            whole.t_,
            whole.n_updates_,
            whole.n_mistakes_,
        )


def test_fewer_updates_than_the_projected_precision():
    X, y = clouds(3000, d=20, noise=0.0)
    options = {"covariance": "diag", "confidence": 0.8}
    plain = ConfidenceWeightedClassifier(**options).partial_fit(X, y, classes=[0, 1])
    exact = ConfidenceWeightedClassifier(diag_update="exact", **options)
    exact.partial_fit(X, y, classes=[0, 1])
    assert exact.n_updates_ < plain.n_updates_
    # Without a diagonal shape there is nothing to choose.
    full = ConfidenceWeightedClassifier(diag_update="exact").partial_fit(X, y, classes=[0, 1])
    usual = ConfidenceWeightedClassifier().partial_fit(X, y, classes=[0, 1])
    np.testing.assert_array_equal(full.coef_, usual.coef_)


def test_long_noisy_streams():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50_000, 6)), rng.integers(0, 2, 50_000)
    for variant in VARIANTS:
        model = ConfidenceWeightedClassifier(
            covariance="diag", diag_update="exact", variant=variant
        ).partial_fit(X, y, classes=[0, 1])
        assert np.isfinite(model.coef_).all()
        assert model.covariance_.min() >= 1e-12
