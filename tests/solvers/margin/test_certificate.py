"""The certificate of a dual point, recomputed in long double."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oblong._native import margin as native
from oblong.solvers.margin.problem import Pieces, relaxed_margin_pieces
from tests.reference.margin import solve_pieces
from tests.solvers.margin.problems import make_problem, wide_losses, wide_terms


def _certify(
    pieces, c, K, *, split=None, sums=None, bias=(0.0, 0.0), promise=1e-3, error=0.0, norm_error=0.0
):
    """What the compiled function returns, by name."""
    n = len(c)
    split = n if split is None else split
    if sums is None:
        sums = np.array([c[:split].sum(), c[split:].sum()])
    u = K @ c
    bias, scale, objective, upper, dual, doubt = native.certify(
        *pieces, split, sums, c, u, np.full(n, error), float(c @ u), norm_error, False, bias,
        promise,
    )  # fmt: skip
    return bias, scale, objective, upper, dual, doubt


def _primal(pieces, c, K, split, sums, bias, scale):
    """The primal objective of the model by its formula, in long double."""
    u = K.astype(np.longdouble) @ c.astype(np.longdouble)
    n = len(c)
    both = np.where(np.arange(n) < split, bias[0], bias[1])
    f = scale * (u + both)
    linear = scale * (sums[0] * bias[0] + (sums[1] * bias[1] if split < n else 0.0))
    return float(scale**2 * (c * u).sum() / 2 + wide_losses(f, pieces).sum() + linear), f


@given(
    seed=st.integers(0, 10**6),
    size=st.floats(1e-3, 3.0),
    biases=st.tuples(st.floats(-3.0, 3.0), st.floats(-3.0, 3.0)),
    B=st.sampled_from([1.0, 1.5, np.inf]),
    groups=st.sampled_from([1, 2]),
    promise=st.sampled_from([0.0, 1e-3, np.inf]),
)
def test_certify__holds_for_any_point_inside(seed, size, biases, B, groups, promise):
    rng = np.random.default_rng(seed)
    problem = make_problem("rbf", 25, 2.0, B, seed=seed % 7)
    order = np.argsort(-problem.y, kind="stable")
    K, pieces = problem.K[np.ix_(order, order)], problem.pieces.take(order)
    p = np.clip(pieces.breakpoints, -5.0, 5.0)
    c = min(size, 1.0) * (p[:, 0] + rng.random(25) * (p[:, 3] - p[:, 0]))
    split = 25 if groups == 1 else int(rng.integers(1, 25))
    sums = np.array([c[:split].sum(), c[split:].sum()])
    found = _certify(pieces, c, K, split=split, sums=sums, bias=biases, promise=promise)
    bias, scale, objective, upper, dual, doubt = found
    # A bound that is not met asks for a factor; in the worst case it is zero.
    assert scale >= 0.0
    primal, f = _primal(pieces, c, K, split, sums, bias, scale)
    assert objective == pytest.approx(primal, rel=1e-12, abs=1e-12)
    assert primal <= upper + 1e-15 * abs(primal)
    assert np.abs(f).max() <= B * (1 + 1e-12)
    exact = float(wide_terms(c, pieces).sum() - c @ K @ c / 2)
    assert dual - doubt <= max(exact, 0.0 if not sums.any() else -np.inf) + 1e-12 * abs(exact)
    assert doubt >= 0.0
    # Weak duality, whatever the point.
    assert dual - doubt <= upper + 1e-12 * abs(upper)


@pytest.mark.parametrize("split", [12, 25])
@pytest.mark.parametrize("seed", range(4))
def test_certify__brackets_the_optimum(seed, split):
    rng = np.random.default_rng(seed)
    K = make_problem("rbf", 25, 1.0, np.inf, seed=seed).K
    y = np.where(np.arange(25) < 12, 1.0, -1.0)
    pieces = relaxed_margin_pieces(y, np.full(25, 2.0), 1.3, 0.5)
    c = pieces.breakpoints[:, 0] + rng.random(25) * np.ptp(pieces.breakpoints, axis=1)
    sums = np.array([c[:split].sum(), c[split:].sum()])
    totals = [(slice(0, split), sums[0]), (slice(split, 25), sums[1])][: 1 if split == 25 else 2]
    optimum = solve_pieces(K, *pieces, totals).objective
    _, _, _, upper, dual, doubt = _certify(pieces, c, K, split=split, sums=sums)
    assert dual - doubt <= optimum + 1e-8 * abs(optimum)
    assert optimum <= upper + 1e-8 * abs(optimum)


@pytest.mark.parametrize("B", [1.2, np.inf])
def test_certify__a_better_factor_and_bias_are_found_only_where_they_are_needed(B):
    problem = make_problem("rbf", 60, 1.0, B, seed=4)
    c = 0.3 * problem.y / (problem.y == problem.y[0]).sum()
    c -= c.mean()
    c = np.clip(c, problem.pieces.breakpoints[:, 1], problem.pieces.breakpoints[:, 2])
    c[problem.y > 0] *= -c[problem.y < 0].sum() / c[problem.y > 0].sum()
    plain = _certify(problem.pieces, c, problem.K, promise=np.inf)
    best = _certify(problem.pieces, c, problem.K, promise=0.0)
    assert plain[0] == (0.0, 0.0)
    assert plain[1] <= 1.0
    assert best[2] < plain[2]
    # Of all factors with that bias, and of all biases that make the losses least, the best.
    zeros = np.zeros(2)
    grid = [
        _primal(problem.pieces, c, problem.K, 60, zeros, best[0], k)[0]
        for k in np.linspace(0.0, best[1], 101)
    ]
    assert best[2] <= min(grid) * (1 + 1e-6)


def test_certify__a_sum_that_is_off_is_doubt():
    """It meets every bias."""
    problem = make_problem("rbf", 20, 1.0, np.inf, seed=1)
    c = 0.5 * problem.y
    c[problem.y > 0] *= (problem.y < 0).sum() / (problem.y > 0).sum()
    zeros = np.zeros(2)
    exact = _certify(problem.pieces, c, problem.K, sums=zeros, bias=(7.0, 0.0))
    c[np.flatnonzero(problem.y > 0)[0]] += 1e-3
    off = _certify(problem.pieces, c, problem.K, sums=zeros, bias=(7.0, 0.0), promise=np.inf)
    assert exact[-1] <= 1e-12
    assert off[-1] >= 7e-3


def test_certify__rounding_widens_both_sides():
    problem = make_problem("rbf", 30, 1.0, 1.5, seed=2)
    c = np.where(problem.y > 0, 1.0 / (problem.y > 0).sum(), -1.0 / (problem.y < 0).sum())
    exact = _certify(problem.pieces, c, problem.K, promise=np.inf)
    rough = _certify(problem.pieces, c, problem.K, promise=np.inf, error=0.01, norm_error=0.1)
    assert rough[3] - rough[2] > exact[3] - exact[2]
    # Every hinge that is felt may be larger by the error, and half of the squared norm by its own.
    felt = np.count_nonzero(problem.y * (problem.K @ c) < 1.0)
    assert rough[3] - rough[2] >= 0.01 * felt
    assert rough[-1] == pytest.approx(0.05 + exact[-1], rel=1e-9)
    assert rough[4] == exact[4]


def test_certify__a_dual_point_that_proves_nothing_is_answered_by_zero():
    problem = make_problem("rbf", 20, 1.0, 1.5, seed=1)
    c = 50.0 * (problem.y - problem.y.mean())
    found = _certify(problem.pieces, c, problem.K, sums=np.zeros(2))
    assert found[4:] == (0.0, 0.0)
    # The model is at least as good as one of zero outputs.
    assert found[2] <= problem.C.sum() * (1 + 1e-9)


def test_certify__where_the_sum_is_not_zero_zero_proves_nothing():
    """No coefficients are no dual point there: its objective stays below zero."""
    K = np.eye(3)
    pieces = Pieces(np.tile([0.0, 0.0, 2.0, 2.0], (3, 1)), np.zeros((3, 3)))
    c = np.array([1.0, 1.0, 0.0])
    *_, upper, dual, doubt = _certify(pieces, c, K, bias=(-1.0, 0.0))
    assert dual == -1.0
    optimum = solve_pieces(K, *pieces, [(slice(0, 3), 2.0)]).objective
    assert optimum == pytest.approx(-2.0 / 3.0)
    assert dual - doubt <= optimum <= upper


def test_certify__numbers_that_are_not_finite_prove_nothing():
    problem = make_problem("rbf", 10, 1.0, 1.5)
    for value in (np.nan, np.inf):
        c = np.zeros(10)
        u = np.full(10, value)
        *_, dual, doubt = native.certify(
            *problem.pieces, 10, np.zeros(2), c, u, np.zeros(10), value, 0.0, False, (0.0, 0.0),
            1e-3,
        )  # fmt: skip
        assert (dual, doubt) == (0.0, 0.0)
