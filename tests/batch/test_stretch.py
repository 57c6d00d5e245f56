"""Stretching data along the boundary turns the support vector machine and not the bounded one.

The risk is computed from the distribution itself, so that no test sample blurs it. The promise has
conditions. C must be large enough for the machine to fit the data as it is. A small ``spread``
gives a bound relative to the outputs of the support vector machine, which turns, so the bound moves
a little; a few hundred rows make up for that, and a bound ``B`` of its own does not move at all.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from oblong import LinearRelativeMarginClassifier, RelativeMarginClassifier
from oblong.datasets import make_parallel_lines, make_tilted_gaussians
from tests.fuzz.exact import LD, MarginProblem, longdouble, solve

MEANS = np.array([[19.0, 13.0], [1.0, 1.0]])
COVARIANCE = np.array([[17.0, 15.0], [15.0, 17.0]])
GAP, OFFSET = 0.5, -0.2
# Half a percentage point.
STEADY = 0.005


def gaussians_risk(w, b, stretch):
    """Error of sign(w·x + b) on the tilted Gaussians, by their distribution function."""
    normal = np.linalg.solve(COVARIANCE, MEANS[1] - MEANS[0])
    along = np.array([-normal[1], normal[0]]) / np.linalg.norm(normal)
    w = w + (stretch - 1) * (w @ along) * along
    deviation = np.sqrt(w @ COVARIANCE @ w)
    negative, positive = MEANS @ w + b
    return 0.5 * (norm.cdf(negative / deviation) + norm.cdf(-positive / deviation))


def lines_risk(w, b, stretch):
    """Error of sign(w·x + b) on the parallel lines, on a fine grid along them."""
    along = stretch * (OFFSET + np.linspace(0, 1, 20_001))
    outputs = w[0] * along + w[1] * GAP
    return 0.5 * (np.mean(outputs + b <= 0) + np.mean(b - outputs > 0))


def gaussians(stretch, seed):
    return make_tilted_gaussians(300, stretch=stretch, random_state=seed)


def lines(stretch, seed):
    return make_parallel_lines(100, gap=GAP, offset=OFFSET, stretch=stretch, random_state=seed)


# The data, its risk, and a penalty at which the machines fit it unstretched.
PROBLEMS = {"gaussians": (gaussians, gaussians_risk, 0.01), "lines": (lines, lines_risk, 0.03)}


def kernel_machine(**params):
    return RelativeMarginClassifier(kernel="linear", **params)


MACHINES = {"kernel": kernel_machine, "linear": LinearRelativeMarginClassifier}


def risk(problem, machine, stretch, seed, **params):
    make, measure, C = PROBLEMS[problem]
    model = MACHINES[machine](**({"C": C} | params)).fit(*make(stretch, seed))
    return measure(model.coef_.ravel(), float(np.ravel(model.intercept_)[0]), stretch)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("problem", PROBLEMS)
@settings(max_examples=20)
@given(
    seed=st.integers(0, 2**31),
    power=st.floats(0.0, 3.0),
    spread=st.sampled_from([0.0, 0.02, 0.05]),
)
def test_a_small_spread_is_steady(problem, machine, seed, power, spread):
    plain = risk(problem, machine, 1.0, seed, spread=spread)
    stretched = risk(problem, machine, 10.0**power, seed, spread=spread)
    assert abs(stretched - plain) <= STEADY


@pytest.mark.parametrize("machine", MACHINES)
@settings(max_examples=20)
@given(
    seed=st.integers(0, 2**31),
    power=st.floats(0.0, 3.0),
    B=st.sampled_from([1.0, 1.2, 1.5]),
)
def test_an_absolute_bound_is_steady(machine, seed, power, B):
    plain = risk("gaussians", machine, 1.0, seed, B=B, C=0.1)
    stretched = risk("gaussians", machine, 10.0**power, seed, B=B, C=0.1)
    assert abs(stretched - plain) <= 0.5 * STEADY


@pytest.mark.parametrize("C", [1.0, 100.0, 1e4])
@pytest.mark.parametrize("params", [{"spread": 0.0}, {"B": 1.5}])
def test_large_penalties(C, params):
    """Rows of length 10^4 and scores of order one: the linear machine keeps its digits."""
    for seed in range(3):
        plain, stretched = (
            risk("gaussians", "linear", stretch, seed, C=C, **params) for stretch in (1.0, 1000.0)
        )
        assert stretched == pytest.approx(plain, abs=1e-4)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    ("problem", "C", "grown"), [("gaussians", 0.003, 0.005), ("lines", 0.03, 0.05)]
)
def test_the_support_vector_machine_turns(problem, C, grown, machine):
    """On the average over draws, where the bounded machine stays at its low error."""
    svm, rmm = (
        np.array(
            [
                [risk(problem, machine, stretch, seed, spread=spread, C=C) for seed in range(8)]
                for stretch in (1, 10, 1000)
            ]
        ).mean(axis=1)
        for spread in (1.0, 0.02)
    )
    assert svm[0] + grown < svm[1] <= svm[2] + 1e-4
    np.testing.assert_allclose(rmm, rmm[0], rtol=0, atol=STEADY)
    assert np.all(rmm <= svm + 1e-9)
    assert rmm[2] + grown < svm[2]


@pytest.mark.parametrize("C", [0.1, 1.0])
def test_the_tightest_bound_does_not_see_the_stretch(C):
    """With spread=0 and C not too small the boundary itself stays, point by point."""
    X, y = gaussians(1.0, 3)
    plain = kernel_machine(C=C, spread=0.0, tol=1e-5).fit(X, y)
    far, _ = gaussians(100.0, 3)
    stretched = kernel_machine(C=C, spread=0.0, tol=1e-5).fit(far, y)
    np.testing.assert_allclose(
        stretched.decision_function(far), plain.decision_function(X), atol=1e-2
    )


def test_the_condition_on_the_penalty():
    """With a C too small to fit, a wide direction is cheap for every machine: not a promise."""
    changes = [
        risk("lines", "kernel", 1000.0, seed, C=0.01, spread=0.0)
        - risk("lines", "kernel", 1.0, seed, C=0.01, spread=0.0)
        for seed in range(4)
    ]
    assert min(changes) > STEADY


@pytest.mark.parametrize("machine", [kernel_machine, LinearRelativeMarginClassifier])
def test_rows_of_very_different_sizes_have_a_true_certificate(machine):
    """Kernel values near 1e8 leave few digits to sums over rows: judged in long double."""
    X, y = make_tilted_gaussians(100, stretch=1000, random_state=1)
    model = machine(C=100, spread=0).fit(X, y)
    assert model.converged_
    signs = np.where(y == model.classes_[1], 1.0, -1.0).astype(LD)
    rows, w = longdouble(X), longdouble(model.coef_[0])
    outputs = rows @ w + LD(model.intercept_[0])
    problem = MarginProblem(signs, np.full(len(y), LD(100)), B=float(model.B_[0]))
    value = problem.primal(outputs, (w @ w) / 2)
    best = solve(problem, rows - rows.mean(axis=0))
    assert problem.breach(outputs) <= 1e-9
    assert float(value) == pytest.approx(model.objective_[0], rel=1e-9)
    assert (value - best.lower) / value <= model.dual_gap_[0] + 1e-9
