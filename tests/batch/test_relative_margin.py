"""The model of RelativeMarginClassifier: the SVM at one end, bounded outputs everywhere else."""

from __future__ import annotations

import itertools
from contextlib import nullcontext

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.svm import SVC

from oblong import RelativeMarginClassifier
from tests.batch.data import clouds, parallel_lines, real
from tests.reference.margin import solve_primal

TOL = 1e-6
KERNELS = {
    "linear": {},
    "poly": {"degree": 3, "coef0": 1.0},
    "rbf": {},
    "sigmoid": {"gamma": 0.01},
}


def _pair(kernel, **params):
    """Return our machine at spread 1 and scikit-learn's SVC with the same parameters."""
    params = {"tol": TOL, **KERNELS.get(kernel, {}), **params}
    ours = RelativeMarginClassifier(kernel=kernel, spread=1.0, **params)
    return ours, SVC(kernel=kernel, **params)


def _dense_dual(machine, n):
    dual = np.zeros((machine.dual_coef_.shape[0], n))
    dual[:, machine.support_] = machine.dual_coef_
    return dual


# Spread 1 is the support vector machine ------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", ["iris", "wine", "breast_cancer", "digits"])
def test_spread_one_equals_svc(name, kernel):
    X, y = real(name)
    train, test = slice(0, None, 2), slice(1, None, 2)
    ours, theirs = _pair(kernel)
    indefinite = kernel == "sigmoid"
    warns = pytest.warns(ConvergenceWarning, match="semidefinite") if indefinite else nullcontext()
    with warns:
        ours.fit(X[train], y[train])
    theirs.fit(X[train], y[train])
    # No duality holds for an indefinite kernel, and none is claimed.
    assert np.isinf(ours.dual_gap_).all() == indefinite
    assert ours.converged_ != indefinite

    # LIBSVM keeps kernel values in single precision.
    scale = np.abs(theirs.decision_function(X[train])).max()
    for rows in (train, test):
        np.testing.assert_allclose(
            ours.decision_function(X[rows]), theirs.decision_function(X[rows]), atol=1e-4 * scale
        )
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-4 * scale)
    assert np.mean(ours.predict(X[test]) == theirs.predict(X[test])) >= 0.99
    if kernel == "linear":
        np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)


@pytest.mark.parametrize("name", ["iris", "breast_cancer"])
def test_spread_one_has_the_support_of_svc(name):
    """The rbf kernel of distinct rows is definite, so its coefficients are unique."""
    X, y = real(name, 150)
    X = np.unique(X, axis=0, return_index=True)
    rows = np.sort(X[1])
    X, y = real(name, 150)[0][rows], y[rows]
    ours, theirs = _pair("rbf")
    ours.fit(X, y)
    theirs.fit(X, y)
    np.testing.assert_allclose(_dense_dual(ours, len(y)), _dense_dual(theirs, len(y)), atol=1e-3)
    certain = np.abs(_dense_dual(theirs, len(y))).max(axis=0) > 1e-3
    assert set(np.flatnonzero(certain)) <= set(ours.support_)
    # Classes come one after another in support_, rows ascending within each, as in SVC.
    expected = [i for k in ours.classes_ for i in np.sort(ours.support_[y[ours.support_] == k])]
    assert list(ours.support_) == expected
    assert np.array_equal(ours.n_support_, np.bincount(y[ours.support_]))
    np.testing.assert_array_equal(ours.support_vectors_, X[ours.support_])


@pytest.mark.parametrize("shape", ["ovo", "ovr"])
@pytest.mark.parametrize("classes", [2, 3, 5])
def test_decision_function_shapes_follow_svc(classes, shape):
    X, y = clouds(100, classes=classes, seed=classes)
    ours, theirs = _pair("rbf", decision_function_shape=shape, C=0.7)
    decision = ours.fit(X, y).decision_function(X)
    expected = theirs.fit(X, y).decision_function(X)
    assert decision.shape == expected.shape
    np.testing.assert_allclose(decision, expected, atol=1e-4)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(
    ("class_weight", "weighted"),
    # SVC counts rows and not their weights for "balanced", so the two together differ.
    [(None, True), ("balanced", False), ({0: 3.0, 1: 0.2}, False), ({0: 3.0}, True)],
)
def test_weights_enter_as_in_svc(kernel, classes, class_weight, weighted):
    X, y = clouds(90, classes=classes, seed=4)
    y = y * (np.arange(90) % 5 > 1)  # unequal classes, so that "balanced" does something
    weight = np.random.default_rng(4).uniform(0.2, 4.0, size=90) if weighted else None
    # LIBSVM crawls to tighter tolerances on the linear kernel.
    ours, theirs = _pair(kernel, gamma=0.3, class_weight=class_weight, tol=1e-4)
    decision = ours.fit(X, y, sample_weight=weight).decision_function(X)
    expected = theirs.fit(X, y, sample_weight=weight).decision_function(X)
    np.testing.assert_allclose(decision, expected, atol=2e-3)
    plain = _pair(kernel, gamma=0.3)[0].fit(X, y).decision_function(X)
    assert np.abs(decision - plain).max() > 1e-2


def test_precomputed_and_callable_kernels_follow_svc():
    X, y = clouds(80, classes=3)
    X_train, X_test = X[:60], X[60:]

    def laplacian(A, B):
        return pairwise_kernels(A, B, metric="laplacian", gamma=0.4)

    expected = SVC(kernel=laplacian, tol=TOL).fit(X_train, y[:60]).decision_function(X_test)
    called = RelativeMarginClassifier(kernel=laplacian, spread=1, tol=TOL).fit(X_train, y[:60])
    np.testing.assert_allclose(called.decision_function(X_test), expected, atol=1e-4)
    given = RelativeMarginClassifier(kernel="precomputed", spread=1, tol=TOL)
    given.fit(laplacian(X_train, X_train), y[:60])
    decision = given.decision_function(laplacian(X_test, X_train))
    np.testing.assert_allclose(decision, expected, atol=1e-4)


def test_bound_beyond_theta_equals_svc():
    X, y = clouds(100, seed=1)
    svm = RelativeMarginClassifier(spread=1.0, tol=TOL).fit(X, y)
    loose = RelativeMarginClassifier(B=float(svm.theta_[0]) * 1.01, tol=TOL).fit(X, y)
    svc = SVC(tol=TOL).fit(X, y)
    np.testing.assert_allclose(loose.decision_function(X), svc.decision_function(X), atol=1e-4)


@pytest.mark.parametrize("kernel", ["rbf", "poly"])
def test_many_rows_in_blocks(kernel):
    """Beyond a couple of thousand rows the solver works in blocks and in single precision."""
    X, y = clouds(2600, d=6, seed=13, distance=2.0)
    params = {"kernel": kernel, "gamma": 0.1, "coef0": 1.0}
    ours = RelativeMarginClassifier(spread=1.0, **params).fit(X, y)
    theirs = SVC(**params).fit(X, y)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-2)
    bounded = RelativeMarginClassifier(spread=0.25, **params).fit(X, y)
    outputs = bounded.decision_function(X)
    assert np.abs(outputs).max() <= bounded.B_[0] + bounded.tol
    assert bounded.dual_gap_[0] <= 10 * bounded.tol
    sign = np.where(y == 1, 1, -1)
    K = pairwise_kernels(
        bounded.support_vectors_, metric=kernel, filter_params=True, gamma=0.1, coef0=1.0
    )
    weight = bounded.dual_coef_[0] @ K @ bounded.dual_coef_[0] / 2
    value = weight + np.maximum(1 - sign * outputs, 0).sum()
    assert bounded.objective_[0] == pytest.approx(value, rel=5e-3)


# The bound -------------------------------------------------------------------------------------


@pytest.mark.parametrize("spread", [0.0, 0.1, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf"])
def test_outputs_stay_inside_the_bound(kernel, spread):
    X, y = clouds(100, seed=2)
    machine = RelativeMarginClassifier(kernel=kernel, spread=spread, tol=TOL, C=2.0).fit(X, y)
    svc = SVC(kernel=kernel, tol=TOL, C=2.0).fit(X, y)
    theta = np.abs(svc.decision_function(X)).max()
    assert machine.theta_ == pytest.approx([theta], rel=1e-3)
    np.testing.assert_allclose(machine.B_, 1 + spread * (machine.theta_ - 1))
    peak = np.abs(machine.decision_function(X)).max()
    assert peak <= machine.B_[0] + 1e-5
    assert peak == pytest.approx(machine.B_[0], abs=1e-3), "the bound should be active"


@pytest.mark.parametrize("B", [1.0, 1.2, 2.0])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_absolute_bound_against_the_reference(kernel, B):
    X, y = clouds(70, seed=3)
    machine = RelativeMarginClassifier(kernel=kernel, B=B, C=3.0, gamma=0.4, tol=TOL).fit(X, y)
    K = pairwise_kernels(X, metric=kernel, filter_params=True, gamma=0.4)
    reference = solve_primal(K, np.where(y == 1, 1.0, -1.0), np.full(70, 3.0), B)
    np.testing.assert_allclose(machine.decision_function(X), reference.outputs, atol=1e-4)
    assert machine.objective_ == pytest.approx([reference.objective], rel=1e-5)
    assert list(machine.B_) == [B]


def test_absolute_bound_takes_precedence_over_spread():
    X, y = clouds(60)
    one = RelativeMarginClassifier(B=1.3, spread=0.1).fit(X, y)
    other = RelativeMarginClassifier(B=1.3, spread=0.9).fit(X, y)
    assert np.array_equal(one.dual_coef_, other.dual_coef_)


def test_each_pair_of_classes_has_its_own_bound():
    X, y = clouds(120, classes=3, seed=5)
    X[y == 2] *= 3
    machine = RelativeMarginClassifier(
        spread=0.3, gamma=0.2, tol=TOL, decision_function_shape="ovo"
    ).fit(X, y)
    outputs = machine.decision_function(X)
    for column, (i, j) in enumerate(itertools.combinations(range(3), 2)):
        rows = (y == i) | (y == j)
        peak = np.abs(outputs[rows, column]).max()
        assert peak == pytest.approx(machine.B_[column], abs=1e-3)
        pair = RelativeMarginClassifier(spread=0.3, gamma=0.2, tol=TOL).fit(X[rows], y[rows])
        assert machine.B_[column] == pytest.approx(pair.B_[0], rel=1e-4)
        assert machine.theta_[column] == pytest.approx(pair.theta_[0], rel=1e-4)
        # A binary machine is positive for its second class, a column of votes for its first.
        np.testing.assert_allclose(outputs[:, column], -pair.decision_function(X), atol=1e-3)
    assert np.ptp(machine.B_) > 1e-3


def test_tightening_the_bound_never_helps_the_objective():
    X, y = clouds(80, seed=6)
    spreads = (1.0, 0.8, 0.5, 0.2, 0.0)
    values = [RelativeMarginClassifier(spread=s, tol=TOL).fit(X, y).objective_[0] for s in spreads]
    assert values == sorted(values)
    assert values[-1] > values[0] * 1.01


def test_relative_margin_grows_as_the_bound_tightens():
    X, y = real("iris", 150)
    X, y = X[y != 2], y[y != 2]
    margins = []
    for spread in (1.0, 0.5, 0.0):
        machine = RelativeMarginClassifier(kernel="linear", C=100, spread=spread, tol=TOL).fit(X, y)
        signed = np.where(y == 1, 1, -1) * machine.decision_function(X)
        assert machine.relative_margin_ == pytest.approx([1 / np.abs(signed).max()], rel=1e-3)
        margins.append(machine.relative_margin_[0])
    assert margins == sorted(margins)
    assert margins[-1] > 1.2 * margins[0]


def test_stretching_turns_the_svm_but_not_the_relative_margin_machine():
    """Two stripes far longer than they are apart: only the bound sees which way they spread."""

    def tilt(spread, stretch):
        X, y = parallel_lines(stretch)
        w = RelativeMarginClassifier(kernel="linear", C=100.0, spread=spread).fit(X, y).coef_[0]
        return abs(w[0]) / np.hypot(*w) * stretch  # in units where a stripe has length one

    assert tilt(0.05, 20.0) < 0.5 * tilt(1.0, 20.0)


# The certificate ------------------------------------------------------------------------------


@pytest.mark.parametrize("spread", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("C", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf"])
def test_gap_is_small_and_not_negative(kernel, C, spread):
    X, y = clouds(90, classes=3, seed=7)
    machine = RelativeMarginClassifier(kernel=kernel, C=C, spread=spread).fit(X, y)
    assert machine.dual_gap_.shape == machine.objective_.shape == machine.n_iter_.shape == (3,)
    assert np.all(machine.dual_gap_ >= -1e-9)
    assert np.all(machine.dual_gap_ <= 10 * machine.tol)
    assert machine.converged_ is True or machine.converged_ is np.True_


def test_objective_is_the_primal_value():
    X, y = clouds(60, seed=8)
    machine = RelativeMarginClassifier(kernel="linear", B=1.5, C=2.0, tol=TOL).fit(X, y)
    sign = np.where(y == 1, 1, -1)
    hinge = np.maximum(1 - sign * machine.decision_function(X), 0).sum()
    value = machine.coef_[0] @ machine.coef_[0] / 2 + 2.0 * hinge
    assert machine.objective_ == pytest.approx([value], rel=1e-5)


def test_stopping_early_warns_with_the_gap():
    X, y = clouds(100, seed=9)
    machine = RelativeMarginClassifier(max_iter=3, C=10)
    with pytest.warns(ConvergenceWarning) as warnings:
        machine.fit(X, y)
    gap = machine.dual_gap_[0]
    assert gap > 1e-3
    text = str(warnings[0].message)
    assert "gap" in text
    assert f"{gap:.1e}" in text or f"{gap:.2g}" in text or f"{gap:.2e}" in text
    assert not machine.converged_
    assert machine.predict(X).shape == (100,)


def test_linear_coefficients_give_the_outputs():
    X, y = clouds(90, classes=3, seed=10)
    machine = RelativeMarginClassifier(kernel="linear", decision_function_shape="ovo").fit(X, y)
    assert machine.coef_.shape == (3, 3)
    np.testing.assert_allclose(
        machine.decision_function(X), X @ machine.coef_.T + machine.intercept_, atol=1e-8
    )
    curved = RelativeMarginClassifier(kernel="rbf").fit(X, y)
    assert not hasattr(curved, "coef_")


@pytest.mark.parametrize("spread", [0.3, 1.0])
@pytest.mark.parametrize("kernel", ["rbf", "poly"])
def test_attributes_give_the_outputs(kernel, spread):
    X, y = clouds(70, seed=11)
    machine = RelativeMarginClassifier(kernel=kernel, spread=spread, gamma=0.3, coef0=0.5).fit(X, y)
    K = pairwise_kernels(
        X, machine.support_vectors_, metric=kernel, filter_params=True, gamma=0.3, coef0=0.5
    )
    expected = K @ machine.dual_coef_[0] + machine.intercept_[0]
    np.testing.assert_allclose(machine.decision_function(X), expected, atol=1e-8)


# Votes ------------------------------------------------------------------------------------------


def _tied():
    """Return data whose votes tie on many rows."""
    X, _ = clouds(150, d=2, seed=12)
    return X, np.random.default_rng(12).integers(4, size=150)


def test_ties_go_to_the_first_class_as_in_svc():
    X, y = _tied()
    ours, theirs = _pair("rbf", gamma=2.0)
    assert np.mean(ours.fit(X, y).predict(X) == theirs.fit(X, y).predict(X)) >= 0.99


def test_ties_by_confidence_as_in_svc():
    X, y = _tied()
    ours = RelativeMarginClassifier(spread=1, gamma=2.0, tol=TOL, break_ties="confidence").fit(X, y)
    theirs = SVC(gamma=2.0, tol=TOL, break_ties=True).fit(X, y)
    assert np.array_equal(ours.predict(X), theirs.predict(X))
    first = RelativeMarginClassifier(spread=1, gamma=2.0, tol=TOL).fit(X, y)
    assert np.any(first.predict(X) != ours.predict(X)), "no ties: the test would see nothing"


def test_random_ties_stay_among_the_winners():
    X, y = _tied()
    params = {"spread": 1, "gamma": 2.0, "decision_function_shape": "ovo"}
    first = RelativeMarginClassifier(**params).fit(X, y)
    votes = np.zeros((len(X), 4), dtype=int)
    for column, (i, j) in zip(
        first.decision_function(X).T, itertools.combinations(range(4), 2), strict=True
    ):
        votes[column >= 0, i] += 1
        votes[column < 0, j] += 1
    winners = votes == votes.max(axis=1, keepdims=True)
    assert np.array_equal(first.predict(X), winners.argmax(axis=1))

    seen = set()
    for seed in range(5):
        machine = RelativeMarginClassifier(**params, break_ties="random", random_state=seed)
        chosen = machine.fit(X, y).predict(X)
        assert np.all(winners[np.arange(len(X)), chosen])
        assert np.array_equal(chosen, machine.predict(X)), "a seed fixes the draw"
        seen.add(tuple(chosen))
    assert len(seen) > 1
