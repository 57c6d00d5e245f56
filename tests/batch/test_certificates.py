"""Certificates of the model that the user gets: single precision, raw units, large penalties."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

import oblong
from oblong import (
    EllipsoidalSVC,
    KernelFisherClassifier,
    LinearRelativeMarginClassifier,
    RelativeMarginClassifier,
    RelativeMarginClassifierCV,
    UniversumSVC,
)


def primal(model, X, y, C, kernel=None):
    """Objective of a fitted model of two classes in long double, and its largest output."""
    rows = np.asarray(X, dtype=np.longdouble)
    signs = np.where(y == model.classes_[1], 1.0, -1.0).astype(np.longdouble)
    if kernel is None:
        w = model.coef_[0].astype(np.longdouble)
        f = rows @ w + np.longdouble(model.intercept_[0])
        norm = w @ w
    else:
        c = np.zeros(len(y), dtype=np.longdouble)
        c[model.support_] = model.dual_coef_[0]
        K = kernel(rows)
        f = K @ c + np.longdouble(model.intercept_[0])
        norm = c @ K @ c
    return float(norm / 2 + C * np.maximum(0, 1 - signs * f).sum()), float(np.abs(f).max())


def raw(n=300, scales=(1e4, 1, 1, 1, 0.01, 1), seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 6)) * scales
    return X, (X[:, 1] + X[:, 2] + 0.5 * rng.normal(size=n) > 0).astype(int)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_raw_units_in_single_precision(dtype):
    X, y = raw()
    X = X.astype(dtype)
    model = RelativeMarginClassifier(kernel="linear", B=1.0).fit(X, y)
    assert model.converged_
    value, largest = primal(model, X, y, 1.0)
    assert model.objective_[0] == pytest.approx(value, rel=1e-9)
    assert largest <= 1.0 + 1e-9
    assert model.score(X, y) > 0.8
    other = LinearRelativeMarginClassifier(B=1.0, tol=1e-9).fit(X, y)
    assert value <= other.objective_[0] * (1 + 2 * model.dual_gap_[0] + 1e-6)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_a_real_table_in_raw_units(dtype):
    X, y = load_breast_cancer(return_X_y=True)
    X = X.astype(dtype)
    model = RelativeMarginClassifier(kernel="linear", B=1.0).fit(X, y)
    value, _ = primal(model, X, y, 1.0)
    assert model.converged_
    assert model.objective_[0] == pytest.approx(value, rel=1e-8)


@pytest.mark.large
def test_rows_beyond_single_precision_in_the_cache():
    """Above 2,048 rows columns are cached in single precision, which hides small units."""
    X, y = raw(2100, (1e3, 1, 1, 1, 0.01, 1))
    model = RelativeMarginClassifier(kernel="linear").fit(X, y)
    other = LinearRelativeMarginClassifier(B=model.B_[0], tol=1e-9).fit(X, y)
    assert model.converged_
    value, largest = primal(model, X, y, 1.0)
    assert largest <= model.B_[0] * (1 + 1e-9)
    assert value <= other.objective_[0] * (1 + 2 * model.dual_gap_[0] + 1e-6)


@pytest.mark.parametrize("container", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("far", [np.full(400, 1e9), np.full(400, 1e6), 1e7 + np.arange(400.0)])
def test_columns_far_from_the_origin(far, container):
    rng = np.random.default_rng(0)
    near = rng.normal(size=(400, 5))
    y = (near[:, 0] + 0.3 * rng.normal(size=400) > 0).astype(int)
    X = np.c_[near, far]
    model = RelativeMarginClassifier(kernel="linear", spread=1.0).fit(container(X), y)
    other = LinearRelativeMarginClassifier(spread=1.0, tol=1e-6).fit(X, y)
    assert model.converged_
    value, _ = primal(model, X, y, 1.0)
    assert model.objective_[0] == pytest.approx(value, rel=1e-5)
    assert model.objective_[0] <= other.objective_[0] * (1 + 2e-3)
    assert np.mean(model.predict(container(X)) == other.predict(X)) >= 0.99


def test_sparse_rbf_rows_far_from_the_origin():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 4)) + 1e7
    y = (X[:, 0] - 1e7 + 0.5 * rng.normal(size=120) > 0).astype(int)
    sparse = RelativeMarginClassifier(gamma=0.3).fit(sp.csr_matrix(X), y)
    dense = RelativeMarginClassifier(gamma=0.3).fit(X, y)
    np.testing.assert_allclose(sparse.objective_, dense.objective_, rtol=1e-3)
    np.testing.assert_allclose(
        sparse.decision_function(sp.csr_matrix(X)), dense.decision_function(X), atol=2e-2
    )

    def kernel(rows):
        return np.exp(-0.3 * ((rows[:, None] - rows[None]) ** 2).sum(axis=2))

    value, _ = primal(sparse, X, y, 1.0, kernel)
    assert sparse.objective_[0] == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize(
    ("estimator", "parameters"),
    [
        (RelativeMarginClassifier, {"kernel": "poly", "coef0": 1.0, "gamma": 1e-3, "spread": 1.0}),
        (RelativeMarginClassifier, {"kernel": "rbf", "gamma": 1e-5}),
        (RelativeMarginClassifier, {"kernel": "linear", "spread": 1.0, "C": 1e-3}),
        (KernelFisherClassifier, {"kernel": "poly", "coef0": 1.0, "gamma": 1e-3}),
    ],
)
def test_predictions_do_not_depend_on_the_precision_of_the_rows(estimator, parameters):
    X, y = load_breast_cancer(return_X_y=True)
    single = X.astype("f4")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = estimator(**parameters).fit(single, y)
    ours = model.decision_function(single)
    assert ours.dtype == np.float32
    exact = model.decision_function(single.astype("f8"))
    np.testing.assert_allclose(ours, exact, rtol=1e-5, atol=1e-5)
    assert np.array_equal(model.predict(single), model.predict(single.astype("f8")))


def test_decision_values_that_overflow_name_their_rows():
    X, y = raw(60, np.ones(6))
    model = RelativeMarginClassifier(kernel="poly", degree=5, gamma=1.0).fit(X, y)
    rows = X[:4].copy()
    rows[[1, 3]] *= 1e80
    with pytest.raises(ValueError, match=r"row 1, 3 is not finite: scale the columns"):
        model.predict(rows)


def test_large_penalties_prove_something():
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    for C in (100.0, 1e4):
        for spread in (1.0, 0.5, 0.1, 0.0):
            model = RelativeMarginClassifier(C=C, gamma=0.05, spread=spread).fit(X, y)
            assert model.converged_
            assert model.dual_gap_[0] <= 1e-3


def test_convergence_is_what_it_says():
    """An unmet promise warns with the gap, the reason and one thing to do."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(30, 4)) * [1e8, 1.0, 1e-4, 1e5]
    y = rng.integers(0, 2, 30)
    model = RelativeMarginClassifier(kernel="poly", degree=4, gamma=1.0, coef0=1.0, B=1.01)
    with pytest.warns(ConvergenceWarning, match=r"gap reached is .*[Ss]cale the columns"):
        model.fit(X, y)
    assert not model.converged_
    with pytest.warns(ConvergenceWarning, match=r"max_iter=3 was reached.*Increase max_iter"):
        RelativeMarginClassifier(max_iter=3).fit(*raw(80, np.ones(6)))


def test_the_values_of_svc_are_known():
    X, y = raw(90, np.ones(6))
    y = y + (X[:, 3] > 1)
    first = RelativeMarginClassifier(break_ties=False, shrinking=False).fit(X, y)
    assert np.array_equal(first.predict(X), RelativeMarginClassifier().fit(X, y).predict(X))
    by_score = RelativeMarginClassifier(break_ties=True).fit(X, y)
    assert np.array_equal(by_score.predict(X), by_score.decision_function(X).argmax(axis=1))
    with pytest.raises(ValueError, match="CalibratedMarginClassifier"):
        RelativeMarginClassifier(probability=True).fit(X, y)


def test_the_search_has_the_weights_of_its_best_classifier():
    X, y = raw(80, np.ones(6))
    search = RelativeMarginClassifierCV(Cs=(1.0,), spreads=(0.5, 1.0), kernel="linear").fit(X, y)
    assert np.array_equal(search.coef_, search.best_estimator_.coef_)
    assert np.array_equal(search.intercept_, search.best_estimator_.intercept_)
    rbf = RelativeMarginClassifierCV(Cs=(1.0,), spreads=(1.0,)).fit(X, y)
    assert not hasattr(rbf, "coef_")
    assert not hasattr(RelativeMarginClassifierCV(), "coef_")


def test_universum_in_raw_units():
    X, y = raw()
    universum = 0.5 * (X[y == 0][:50] + X[y == 1][:50])
    model = UniversumSVC(kernel="linear").fit(X.astype("f4"), y, X_universum=universum)
    f = model.decision_function(X.astype("f4").astype("f8"))
    signs = np.where(y == 1, 1.0, -1.0)
    w = model.coef_[0]
    tube = np.maximum(
        0.0,
        np.abs(model.decision_function(universum.astype("f4").astype("f8"))) - model.epsilon,
    )
    value = w @ w / 2 + np.maximum(0, 1 - signs * f).sum() + model.C_universum * tube.sum()
    assert model.objective_[0] == pytest.approx(value, rel=1e-6)


def test_star_import_leaves_common_names_alone():
    assert "load" not in oblong.__all__
    assert "save" not in oblong.__all__
    assert callable(oblong.load)
    assert callable(oblong.save)


@pytest.mark.parametrize(
    ("estimator", "scale"),
    [
        (KernelFisherClassifier(kernel="linear"), [1e150, 1e150]),
        (KernelFisherClassifier(kernel="linear", alpha=1e-300), [1.0, 1.0]),
        (EllipsoidalSVC(kernel="linear"), [1.0, 1e300]),
    ],
)
def test_rows_whose_objective_overflows_are_refused(estimator, scale):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match="not finite: scale the data"):
            estimator.fit(X * scale, (X[:, 0] > 0).astype(int))
