"""RelativeMarginClassifier with a bound that it chooses itself, at a price (D) and relaxed (nu)."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from oblong import RelativeMarginClassifier
from tests.batch.data import clouds, fit, parallel_lines, real
from tests.reference.variable_bound import solve_variable_primal

FORMS = [{"D": 1.0}, {"D": 1.0, "nu": 5.0}]


@parametrize_with_checks(
    [
        RelativeMarginClassifier(D=1.0),
        RelativeMarginClassifier(D=1.0, nu=5.0),
        RelativeMarginClassifier(D=1.0, nu=5.0, kernel="linear", tol=1e-6),
    ]
)
def test_estimator_checks(estimator, check):
    check(estimator)


# The model ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("nu", [None, 5.0])
@pytest.mark.parametrize("D", [0.5, 5.0])
def test_against_the_reference(kernel, D, nu):
    X, y = clouds(70, seed=5)
    machine = fit(X, y, kernel=kernel, gamma=0.3, D=D, nu=nu, C=2.0)
    distance = ((X[:, None] - X[None]) ** 2).sum(-1)
    K = X @ X.T if kernel == "linear" else np.exp(-0.3 * distance)
    U = None if nu is None else np.full(70, D * nu / 70)
    expected = solve_variable_primal(K, 2.0 * y - 1.0, np.full(70, 2.0), D, U)
    assert machine.objective_[0] == pytest.approx(expected.objective, rel=1e-6)
    np.testing.assert_allclose(machine.decision_function(X), expected.outputs, atol=1e-4)
    assert -1e-9 <= machine.dual_gap_[0] <= 1e-6
    assert machine.B_[0] > 1.0


def test_price_zero_equals_svc():
    X, y = clouds(80, seed=1)
    machine = fit(X, y, D=0.0)
    svc = SVC(tol=1e-6).fit(X, y)
    np.testing.assert_allclose(machine.decision_function(X), svc.decision_function(X), atol=1e-4)
    assert machine.B_[0] == machine.theta_[0]


def test_high_price_equals_the_tightest_bound():
    X, y = clouds(80, seed=1)
    machine, tightest = fit(X, y, D=1e4), fit(X, y, B=1.0)
    assert machine.B_[0] <= 1.0 + 1e-9
    np.testing.assert_allclose(
        machine.decision_function(X), tightest.decision_function(X), atol=1e-4
    )
    # The objective has the price of the bound in it.
    assert machine.objective_[0] == pytest.approx(tightest.objective_[0] + 1e4, rel=1e-6)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_given_bound_and_its_price_are_one_machine(kernel):
    X, y = clouds(80, seed=2)
    priced = fit(X, y, kernel=kernel, D=1.0)
    bounded = fit(X, y, kernel=kernel, B=float(priced.B_[0]))
    np.testing.assert_allclose(priced.decision_function(X), bounded.decision_function(X), atol=1e-4)
    assert np.abs(priced.decision_function(X)).max() == pytest.approx(priced.B_[0], rel=1e-6)
    assert priced.relative_margin_[0] == pytest.approx(1.0 / priced.B_[0], rel=1e-6)


@pytest.mark.parametrize("nu", [1.5, 4.0, 20.0])
@pytest.mark.parametrize("name", ["breast_cancer", "wine"])
def test_share_of_rows_beyond_the_bound(name, nu):
    X, y = real(name, 150)
    machine = fit(X, y == 1, D=0.2, nu=nu, C=10.0)
    size = np.abs(machine.decision_function(X))
    t = machine.B_[0]
    assert t > 1.0
    assert np.mean(size > t * (1 + 1e-6)) <= 1.0 / nu <= np.mean(size >= t * (1 - 1e-6))


def test_price_takes_precedence_over_spread():
    X, y = clouds(60)
    one, other = fit(X, y, D=1.0, spread=0.0), fit(X, y, D=1.0, spread=1.0)
    assert np.array_equal(one.dual_coef_, other.dual_coef_)


def test_price_is_monotone_in_the_bound():
    X, y = clouds(80, seed=6)
    bounds = [fit(X, y, D=D).B_[0] for D in (0.0, 0.1, 1.0, 10.0, 100.0)]
    assert np.all(np.diff(bounds) <= 1e-9)
    assert bounds[0] > bounds[2] > bounds[-1]


def test_relaxed_bound_lets_an_outlier_go():
    """One far row of the right class holds the hard bound back, but hardly the relaxed one."""
    X, y = parallel_lines(1.0, n=60)
    far = X.copy()
    far[1] = [0.0, 30.0]
    params = {"kernel": "linear", "C": 10.0, "D": 1.0}
    change = {
        nu: np.abs(fit(far, y, nu=nu, **params).coef_ - fit(X, y, nu=nu, **params).coef_).max()
        for nu in (None, 5.0)
    }
    assert change[5.0] < 0.3 * change[None]


# Weights, classes, input ------------------------------------------------------------------------


@pytest.mark.parametrize("nu", [None, 4.5])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 2.0}])
def test_weights_equal_copies(classes, nu, class_weight):
    X, y = clouds(80, classes=classes, seed=2)
    counts = np.random.default_rng(2).integers(0, 4, size=80)
    params = {"gamma": 0.3, "class_weight": class_weight, "D": 2.0, "nu": nu}
    weighted = fit(X, y, counts.astype(float), **params)
    copies = fit(np.repeat(X, counts, axis=0), np.repeat(y, counts), **params)
    np.testing.assert_allclose(
        weighted.decision_function(X), copies.decision_function(X), atol=1e-4
    )
    np.testing.assert_allclose(weighted.objective_, copies.objective_, rtol=1e-6)
    np.testing.assert_allclose(weighted.B_, copies.B_, rtol=1e-4)
    assert np.any(weighted.B_ > 1.01)


def test_weights_scale_only_the_penalty():
    """The prices of the bound depend on the proportions of the weights."""
    X, y = clouds(60)
    params = {"gamma": 0.3, "D": 1.0, "nu": 4.5}
    one, other = fit(X, y, np.full(60, 2.5), **params), fit(X, y, C=2.5, **params)
    np.testing.assert_allclose(one.decision_function(X), other.decision_function(X), atol=1e-5)


def test_class_weight_leaves_the_price_of_the_bound_alone():
    X, y = clouds(60, seed=8)
    params = {"gamma": 0.3, "D": 1.0, "nu": 4.5}
    machine = fit(X, y, class_weight={0: 3.0, 1: 0.5}, **params)
    distance = ((X[:, None] - X[None]) ** 2).sum(-1)
    expected = solve_variable_primal(
        np.exp(-0.3 * distance),
        2.0 * y - 1.0,
        np.where(y == 0, 3.0, 0.5),
        1.0,
        np.full(60, 4.5 / 60),
    )
    assert machine.objective_[0] == pytest.approx(expected.objective, rel=1e-6)


@pytest.mark.parametrize("form", FORMS)
def test_each_pair_of_classes_has_its_bound(form):
    X, y = clouds(90, classes=3, distance=2.0)
    machine = fit(X, y, decision_function_shape="ovo", gamma=0.3, **form)
    outputs = machine.decision_function(X)
    for k, (i, j) in enumerate([(0, 1), (0, 2), (1, 2)]):
        rows = (y == i) | (y == j)
        pair = fit(X[rows], np.where(y[rows] == i, 1, 0), gamma=0.3, **form)
        np.testing.assert_allclose(outputs[rows, k], pair.decision_function(X[rows]), atol=1e-4)
        assert machine.objective_[k] == pytest.approx(pair.objective_[0], rel=1e-6)
    assert machine.B_.shape == machine.theta_.shape == (3,)
    assert machine.score(X, y) > 0.6


def test_labels_may_swap():
    X, y = clouds(60, seed=4)
    one, other = fit(X, y, D=1.0, nu=4.5), fit(X, 1 - y, D=1.0, nu=4.5)
    np.testing.assert_allclose(other.decision_function(X), -one.decision_function(X), atol=1e-5)


@pytest.mark.parametrize("form", FORMS)
def test_many_rows_in_blocks(form):
    X, y = clouds(2600, d=6, seed=13, distance=2.0)
    machine = RelativeMarginClassifier(gamma=0.1, **form).fit(X, y)
    assert machine.converged_
    assert -1e-9 <= machine.dual_gap_[0] <= 1e-3
    assert 1.0 < machine.B_[0] < machine.theta_[0]


@pytest.mark.parametrize("form", FORMS)
def test_limit_on_steps_warns_and_certifies(form):
    X, y = clouds(120, seed=3)
    exact = fit(X, y, C=100.0, **form)
    for max_iter in (0, 1, 20, 200):
        with pytest.warns(ConvergenceWarning, match="relative duality gap"):
            stopped = RelativeMarginClassifier(C=100.0, tol=1e-9, max_iter=max_iter, **form).fit(
                X, y
            )
        assert stopped.n_iter_[0] <= max_iter
        assert stopped.objective_[0] >= exact.objective_[0] * (1 - 1e-6)
        lower = stopped.objective_[0] * (1 - stopped.dual_gap_[0])
        assert lower <= exact.objective_[0] * (1 + 1e-6)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"nu": 2.0}, "nu=2.0 needs D"),
        ({"D": 1.0, "B": 1.5}, "set only one"),
        ({"D": -0.1}, "'D' parameter"),
        ({"D": np.inf}, "'D' parameter"),
        ({"D": "much"}, "'D' parameter"),
        ({"D": 1.0, "nu": 0.0}, "'nu' parameter"),
        ({"D": 1.0, "nu": -1.0}, "'nu' parameter"),
        ({"D": 1.0, "nu": np.nan}, "'nu' parameter"),
    ],
)
def test_bad_parameters(params, message):
    X, y = clouds(20)
    with pytest.raises(ValueError, match=message):
        RelativeMarginClassifier(**params).fit(X, y)


@pytest.mark.parametrize("form", [*FORMS, {"D": 1.0, "spread": 1.0}])
def test_indefinite_kernel_is_refused(form):
    X, y = clouds(40)
    machine = RelativeMarginClassifier(kernel="sigmoid", gamma=2.0, coef0=-1.0, **form)
    with pytest.raises(ValueError, match="not positive semidefinite"):
        machine.fit(X, y)


def test_theta_is_unknown_where_the_machine_was_not_needed():
    X, y = clouds(40)
    assert np.isnan(fit(X, y, D=1.0, nu=0.5).theta_[0])
    assert fit(X, y, D=1.0, nu=0.5).B_[0] == 1.0
    assert np.isfinite(fit(X, y, D=1.0).theta_[0])
