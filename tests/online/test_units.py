"""Learners with ``normalize=True``: decisions do not depend on the units of the columns."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import oblong
from oblong import AROWClassifier
from oblong.solvers.online.options import OnlineOptions
from oblong.solvers.online.rows import Rows
from tests.online.learners import GAUSSIAN, LEARNERS, SECOND_ORDER, clouds

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

CASES = [
    (name, covariance)
    for name in LEARNERS
    for covariance in (["full", "diag", "sketch"] if name in SECOND_ORDER else [None])
]


def learner(name, covariance, **parameters):
    if covariance is not None:
        parameters["covariance"] = covariance
        if covariance == "sketch":
            parameters["sketch_size"] = 3
    return clone(LEARNERS[name]).set_params(normalize=True, **parameters)


def data(classes, sparse, seed=0, n=220, d=7):
    X, y = clouds(n=n, d=d, classes=classes, seed=seed)
    if sparse:
        X *= np.random.default_rng(seed).random(X.shape) < 0.4
    # Units of the columns.
    units = 10.0 ** np.random.default_rng(seed + 1).uniform(-6, 6, d)
    return X, y, units


def rows(X, sparse):
    return sp.csr_matrix(X) if sparse else X


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(("name", "covariance"), CASES)
def test_units_of_the_columns_have_no_say(name, covariance, classes, sparse):
    X, y, units = data(classes, sparse)
    models = [
        learner(name, covariance).partial_fit(rows(Z, sparse), y, classes=range(classes))
        for Z in (X, X * units)
    ]
    fresh = data(classes, sparse, seed=5)[0]
    found = [
        model.decision_function(rows(Z, sparse)) for model, Z in zip(models, (fresh, fresh * units))
    ]
    assert models[0].n_updates_ == models[1].n_updates_ > 0
    assert models[0].n_mistakes_ == models[1].n_mistakes_
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6, atol=1e-7 * np.abs(found[0]).max())
    np.testing.assert_allclose(
        models[1].coef_ * units, models[0].coef_, rtol=1e-6, atol=1e-7 * abs(models[0].coef_).max()
    )


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(("name", "covariance"), CASES)
def test_rows_one_by_one_and_saved_models_are_the_same(name, covariance, classes, sparse, tmp_path):
    X, y, units = data(classes, sparse, n=120)
    X = X * units
    whole = learner(name, covariance).partial_fit(rows(X, sparse), y, classes=range(classes))
    parts = learner(name, covariance).partial_fit(
        rows(X[:1], sparse), y[:1], classes=range(classes)
    )
    for i in range(1, 60):
        before = X[i].copy()
        x = {j: v for j, v in enumerate(X[i]) if v} if sparse else X[i]
        parts.learn_one(x, y[i])
        np.testing.assert_array_equal(X[i], before)
    oblong.save(parts, tmp_path / "model.oblong")
    parts = oblong.load(tmp_path / "model.oblong")
    assert parts.get_params() == whole.get_params()
    for part in np.split(np.arange(60, 120), [7, 31]):
        parts.partial_fit(rows(X[part], sparse), y[part])
    assert parts.n_updates_ == whole.n_updates_
    np.testing.assert_allclose(parts.coef_, whole.coef_, rtol=1e-8)
    np.testing.assert_allclose(
        parts.decision_function(rows(X, sparse)),
        whole.decision_function(rows(X, sparse)),
        rtol=1e-7,
    )
    for x in X[:5]:
        assert whole.predict_one(x) == whole.predict(rows(x[None], sparse))[0]


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("multi_class", ["top1", "ovr"])
def test_blocks_are_rows(sparse, multi_class):
    X, y, units = data(3 if multi_class == "ovr" else 2, sparse, n=400, d=20)
    X = X * units
    classes = np.unique(y)
    models = []
    for features in (2, 10_000):
        model = learner("AROW", "full", multi_class=multi_class)
        model.partial_fit(rows(X[:2], sparse), y[:2], classes=classes)
        options = OnlineOptions(block_features=features, block_features_one_vs_rest=features)
        labels = np.searchsorted(classes, y)[:, None].astype(np.int32)
        model._state.learn(Rows.of(rows(X, sparse)), labels, np.ones(len(y)), options=options)
        models.append(model)
    assert models[0].n_updates_ == models[1].n_updates_
    np.testing.assert_allclose(models[0].coef_, models[1].coef_, rtol=1e-7)


def reference_arow(X, y, r=1.0):
    """AROW with the largest square of a feature as its prior precision, in long double.

    The prior is centred at zero, so a tighter one moves the weights.
    """
    X = np.asarray(X, dtype=np.longdouble)
    d = X.shape[1]
    s, w, precision = np.zeros(d), np.zeros(d + 1, np.longdouble), np.eye(d + 1)
    margins = []
    for x, sign in zip(X, y):
        h = precision @ w
        for j in range(d):
            if abs(x[j]) > s[j]:
                precision[j, j] += x[j] ** 2 - s[j] ** 2 - (1.0 if s[j] == 0 else 0.0)
                s[j] = abs(x[j])
        z = np.append(x, 1.0)
        S = np.linalg.inv(precision.astype(np.float64))
        w = S @ h
        m, v = sign * (w @ z), z @ S @ z
        margins.append(float(m))
        if m < 1:
            w = w + (1 - m) / (v + r) * sign * (S @ z)
            precision = precision + np.outer(z, z).astype(np.float64) / r
    return w, np.array(margins)


def test_the_prior_is_the_largest_square():
    X, y, _ = data(2, False, n=150)
    w, _ = reference_arow(X, 2 * y - 1)
    model = AROWClassifier(normalize=True).partial_fit(X, y, classes=[0, 1])
    np.testing.assert_allclose(model.coef_[0], w[:-1].astype(float), rtol=1e-8)
    np.testing.assert_allclose(model.intercept_[0], float(w[-1]), rtol=1e-8)


@pytest.mark.parametrize("covariance", ["full", "diag", "sketch"])
@pytest.mark.parametrize("name", ["AROW", "NHERD", "CW-Stdev", "IELLIP", "CELLIP"])
@pytest.mark.parametrize("how", ["product", "mean"])
def test_merged_models_do_not_depend_on_units(name, covariance, how):
    X, y, units = data(2, False, n=240)
    found = []
    for Z in (X, X * units):
        parts = [
            learner(name, covariance).partial_fit(Z[i::3], y[i::3], classes=[0, 1])
            for i in range(3)
        ]
        merged = parts[0].merge(*parts[1:], how=how)
        merged.partial_fit(Z[:40], y[:40])
        found.append(merged.decision_function(Z))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6, atol=1e-7 * abs(found[0]).max())


def test_a_merge_is_the_ridge_regression_on_all_rows_of_the_updates():
    """Two shards, all of whose rows change the model: one prior, with the larger units."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(10, 4)) * 0.1
    X[:5] *= 30.0
    y = rng.integers(0, 2, 10)
    models = [AROWClassifier(normalize=True, r=50.0) for _ in range(2)]
    for model, part in zip(models, (slice(0, 5), slice(5, 10))):
        model.partial_fit(X[part], y[part], classes=[0, 1])
        assert model.n_updates_ == 5
    precisions = [np.linalg.inv(np.array(model._state.matrices()[0])) for model in models]
    units = [model._state.units[:5].copy() for model in models]
    merged = models[0].merge(models[1])
    largest = np.maximum(*units)
    expected = np.eye(5)
    for precision, own in zip(precisions, units):
        expected += np.outer(own, own) * (precision - np.eye(5)) / np.outer(largest, largest)
    found = np.linalg.inv(merged._state.matrices()[0])
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_features_and_classes_may_appear():
    X, y, units = data(3, True, n=150)
    found = []
    for Z in (X, X * units):
        model = AROWClassifier(normalize=True, allow_new_classes=True, average=True)
        for x, label in zip(Z, y):
            model.learn_one({f"f{j}": v for j, v in enumerate(x) if v}, int(label))
        found.append([model.predict_one({f"f{j}": v for j, v in enumerate(x) if v}) for x in Z])
    assert found[0] == found[1]


@pytest.mark.parametrize("covariance", ["full", "diag", "sketch"])
def test_values_that_grow_beyond_all_bounds(covariance):
    X = np.array([[1e-300, 1.0], [1e140, -1.0], [-1e140, 1.0], [1e-320, 2.0]] * 3)
    model = learner("AROW", covariance).partial_fit(X, [0, 1, 0, 1] * 3, classes=[0, 1])
    assert np.isfinite(model.decision_function(X)).all()
    assert np.isfinite(model._state.table).all()


def test_weights_are_copies():
    X, y, units = data(2, False, n=80)
    X = X * units
    copies = np.random.default_rng(0).integers(0, 4, 80)
    for covariance in ("full", "diag", "sketch"):
        weighted = learner("AROW", covariance).partial_fit(
            X, y, classes=[0, 1], sample_weight=copies
        )
        plain = learner("AROW", covariance).partial_fit(
            np.repeat(X, copies, axis=0), np.repeat(y, copies), classes=[0, 1]
        )
        np.testing.assert_allclose(weighted.coef_, plain.coef_, rtol=1e-8)


@pytest.mark.parametrize("name", GAUSSIAN)
def test_a_column_of_time_does_not_stop_learning(name):
    """A column of 1e9 among numbers near one."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 5))
    y = (X[:, 0] > 0).astype(int)
    X[:, 4] = 1.6e9 + np.arange(2000.0)
    model = clone(GAUSSIAN[name]).set_params(normalize=True).partial_fit(X, y, classes=[0, 1])
    # Chance would be 1000.
    assert model.n_mistakes_ < 250


def test_the_warning_names_the_remedy():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 5))
    y = ((X[:, 0] > 0) ^ (rng.random(3000) < 0.1)).astype(int)
    X[:, 4] *= 1e9
    with pytest.warns(ConvergenceWarning, match="normalize=True") as found:
        AROWClassifier().partial_fit(X, y, classes=[0, 1])
    assert "AROWClassifier, SoftConf" not in str(found[0].message)
