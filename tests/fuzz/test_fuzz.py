"""A small part of ``make fuzz``: no certificate is false on some random problems."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.fuzz.evaluate import FAILURES, Fitted, fit, judge
from tests.fuzz.exact import LD, MarginProblem, cholesky, features, kernel_matrix, longdouble, solve
from tests.fuzz.problems import ESTIMATORS, make
from tests.fuzz.run import run, summary, table, tasks
from tests.reference.margin import solve_primal
from tests.reference.variable_bound import solve_variable_primal

COUNT = 150
# Rows up to which a problem is judged in a fraction of a second.
MOST_ROWS = 60
# Problems of a full run that were once wrong, and quick to look at.
ONCE_WRONG = [
    # A stall rule that a negative gap defeats; a bound that rounding breaks.
    ("RelativeMarginClassifier", 500438),
    ("RelativeMarginClassifier", 701831),
    ("relative_margin_path", 500232),
    ("LinearRelativeMarginClassifier", 107),
    ("LinearRelativeMarginClassifier", 427),
    ("SigmaSVC", 106),
    ("SigmaSVC", 118),
    ("KernelFisherClassifier", 108),
    ("EllipsoidalKernelClassifier", 1006),
    ("EllipsoidalKernelClassifier", 1133),
    ("MinimumVolumeEllipsoid", 115),
    ("MinimumVolumeEllipsoid", 1132),
    ("MinimumVolumeEllipsoid", 1188),
    # Objectives of limit cases; outputs as stored; what the pivots leave out; overflow.
    ("EllipsoidalSVC", 1013),
    ("EllipsoidalSVC", 1094),
    ("EllipsoidalSVC", 1121),
    ("EllipsoidalSVC", 20011),
    ("EllipsoidalSVC", 30044),
    # Votes of outputs that vanish in single precision, and scores that cancel.
    ("EllipsoidalKernelClassifier", 20028),
    ("KernelFisherClassifier", 5110),
    ("LinearRelativeMarginClassifier", 34),
    # Sparse rows far from the origin, in folds; kernel values that differ in the last digits.
    ("RelativeMarginClassifierCV", 30013),
    ("RelativeMarginClassifierCV", 30022),
    ("MinimumVolumeEllipsoid", 30090),
    # Rounding of kernel values in features; low ranks; coefficients beyond all numbers.
    ("EllipsoidalKernelClassifier", 100076),
    ("EllipsoidalKernelClassifier", 400150),
    ("EllipsoidalKernelClassifier", 400318),
    ("SigmaSVC", 400074),
    ("RelativeMarginClassifierCV", 400396),
    ("MinimumVolumeEllipsoid", 200139),
    ("EllipsoidalSVC", 200073),
    # Rounding of outputs in the objective; what a matrix near the limit makes of rounding.
    ("KernelFisherClassifier", 500076),
    ("EllipsoidalSVC", 500187),
    # Outputs in single precision.
    ("OnlineEllipsoidalSVC", 1200280),
    # A bias rounded once more by the shift of the rows; a centre far off, rounded.
    ("MarginRegressor", 1300004),
    ("MarginRegressor", 1300710),
    ("MinimumVolumeEllipsoid", 1300395),
    # Coefficients beyond all numbers on the way.
    ("RelativeMarginClassifierCV", 1600247),
    ("RelativeMarginClassifier", 1900861),
    ("KernelFisherClassifier", 2400713),
    ("EllipsoidalSVC", 2000654),
    # Tightened once too often, without an end; columns that add up their rounding.
    ("RelativeMarginClassifier", 1800387),
    ("MinimumVolumeEllipsoid", 1800580),
    ("MarginRegressor", 1800347),
    # Near rows far from the origin, rounded apart by a shift; the matrix as stored; thin directions
    # that a projection in the units of the data mixed into the others.
    ("SigmaSVC", 2000162),
    ("KernelFisherClassifier", 2100482),
    ("EllipsoidalSVC", 1900692),
    ("MinimumVolumeEllipsoid", 2000098),
    # A model whose rounding hid that it broke the bound.
    ("RelativeMarginClassifier", 4200074),
]


def test_random_problems():
    small = [
        task for task in tasks(ESTIMATORS, 0, 3 * COUNT) if make(*task).X.shape[0] <= MOST_ROWS
    ]
    results = list(run(small[:COUNT], jobs=1))
    assert len(results) == COUNT
    found = summary(results, 0, 30.0)
    assert not found["failed"], table(found)


@pytest.mark.parametrize(("estimator", "seed"), ONCE_WRONG)
def test_problems_that_were_once_wrong(estimator, seed):
    problem = make(estimator, seed)
    assert not judge(problem, fit(problem)).failures


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_problem_is_made_from_its_seed(estimator):
    first, again = make(estimator, 5), make(estimator, 5)
    assert str(first) == str(again)
    np.testing.assert_array_equal(longdouble(first.X), longdouble(again.X))
    assert str(first) != str(make(estimator, 6))


def small_model():
    problem = replace(make("LinearRelativeMarginClassifier", 1), params={"C": 1.0, "B": 1.5})
    rng = np.random.default_rng(0)
    problem.X = rng.normal(size=(40, 3))
    problem.y = (problem.X[:, 0] + 0.3 * rng.normal(size=40) > 0).astype(int)
    problem.fit_params = {}
    fitted = fit(problem)
    assert not judge(problem, fitted).failures
    return problem, fitted


@pytest.mark.parametrize(
    ("name", "change", "kind"),
    [
        ("coef_", lambda value: value * 0.99, "false"),
        ("coef_", lambda value: value * 2.0, "false"),
        ("intercept_", lambda value: value + 0.05, "false"),
        ("coef_", lambda value: value * np.nan, "nan"),
        ("objective_", lambda value: value * (1 - 1e-3), "objective"),
        ("dual_gap_", lambda value: value + 0.01, "promise"),
    ],
)
def test_a_model_that_is_not_what_it_says_is_found_out(name, change, kind):
    problem, fitted = small_model()
    setattr(fitted.model, name, change(getattr(fitted.model, name)))
    assert kind in judge(problem, fitted).failures


def test_other_kinds_of_failure_are_found():
    problem, fitted = small_model()
    fitted.model.converged_ = False
    assert "silent" in judge(problem, fitted).failures
    assert "foreign" in judge(problem, Fitted(error=ZeroDivisionError("x"))).failures
    refusal = Fitted(error=ValueError("the matrix is not positive semidefinite"))
    assert "refused" in judge(problem, refusal).failures
    assert set(judge(problem, Fitted(error=ValueError("scale the data"))).found) == {"declined"}


def test_a_fit_without_end_is_a_hang():
    name, seed = "RelativeMarginClassifierCV", 1
    (result,) = run([(name, seed)], jobs=1, limit=0.001)
    assert set(result["found"]) == {"hang"}
    assert set(result["found"]) <= set(FAILURES)


@pytest.mark.parametrize("C", [1e-3, 1.0, 1e4])
@pytest.mark.parametrize("form", ["svm", "B", "D", "nu"])
def test_the_reference_agrees_with_another(C, form):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(25, 3)) * [1, 10, 0.1]
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=25) > 0, 1.0, -1.0)
    rows = longdouble(X)
    K = kernel_matrix("rbf", rows, rows, 0.3, 3, 0.0)
    penalties = np.full(25, C)
    U = np.full(25, 0.4) if form == "nu" else None
    problem = MarginProblem(
        longdouble(y),
        longdouble(penalties),
        B=1.3 if form == "B" else np.inf,
        D=2.0 if form in ("D", "nu") else None,
        U=None if U is None else longdouble(U),
    )
    found = solve(problem, features(K))
    assert 0 <= float(found.upper - found.lower) <= 1e-9 * float(found.upper)
    double = K.astype(float)
    if problem.D is None:
        expected = solve_primal(double, y, penalties, problem.B).objective
    else:
        expected = solve_variable_primal(double, y, penalties, 2.0, U).objective
    assert float(found.upper) == pytest.approx(expected, rel=1e-7)


def test_factors_in_long_double():
    rng = np.random.default_rng(2)
    A = longdouble(rng.normal(size=(12, 8)))
    L = cholesky(A.T @ A)
    assert L.dtype == LD
    np.testing.assert_allclose((L @ L.T - A.T @ A).astype(float), 0, atol=1e-16)
    F = features(A @ A.T)
    assert F.shape == (12, 8)
    np.testing.assert_allclose((F @ F.T - A @ A.T).astype(float), 0, atol=1e-16)
    assert cholesky(-np.eye(3)) is None
