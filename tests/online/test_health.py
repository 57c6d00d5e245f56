"""Long runs, noise, odd input, shards."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import Ridge

from oblong import (
    AROWClassifier,
    ClassicalEllipsoidClassifier,
    ConfidenceWeightedClassifier,
    ImprovedEllipsoidClassifier,
    PassiveAggressiveClassifier,
    SecondOrderPerceptron,
    SoftConfidenceWeightedClassifier,
)
from tests.online.learners import GAUSSIAN, LEARNERS, SECOND_ORDER, clouds

quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def noisy(n, d, spread, seed=0):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, d))
    y = (Z @ rng.normal(size=d) > 0).astype(int)
    y[rng.random(n) < 0.1] ^= 1
    return Z * np.geomspace(1.0, spread, d), y


# Long runs ----------------------------------------------------------------------------------------


@quiet
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("spread", [1.0, 1e3, 1e6])
@pytest.mark.parametrize("name", ["CW-Stdev", "AROW", "IELLIP-b1", "SCW-I"])
def test_many_updates_keep_the_shape_definite(name, spread, dtype):
    X, y = noisy(20_000, 10, spread)
    model = clone(LEARNERS[name])
    for _ in range(5):
        model.partial_fit(X.astype(dtype), y, classes=[0, 1])
        S = model.covariance_
        assert np.array_equal(S, S.T)
        scale = np.sqrt(S.diagonal())
        assert np.isfinite(scale).all()
        assert np.linalg.eigvalsh(S / np.outer(scale, scale)).min() > -1e-9
    assert np.isfinite(model.coef_).all()
    assert model.n_updates_ > 5_000
    assert model.n_skipped_ == 0


@quiet
@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("covariance", ["full", "diag"])
def test_nothing_breaks_on_noise(name, classes, covariance):
    X, _ = noisy(3_000, 6, 10.0)
    y = np.random.default_rng(1).integers(0, classes, 3_000)
    model = clone(LEARNERS[name])
    if name in SECOND_ORDER:
        model.set_params(covariance=covariance)
    for _ in range(3):
        model.partial_fit(X, y, classes=np.arange(classes))
    assert np.isfinite(model.coef_).all()
    assert np.isfinite(model.decision_function(X)).all()
    if hasattr(model, "predict_proba"):
        p = model.predict_proba(X)
        assert np.allclose(p.sum(axis=1), 1.0)
        assert (p >= 0.0).all()


def test_the_unit_changes_no_prediction():
    """Rescaling happens and the run is the one that exact arithmetic would give."""
    X, y = noisy(3000, 4, 1.0)
    with pytest.warns(ConvergenceWarning, match="separable"):
        model = ConfidenceWeightedClassifier(fit_intercept=False).partial_fit(X, y, classes=[0, 1])
    assert model._state.health.rescaled > 2
    w, S = np.zeros(4, np.longdouble), np.eye(4, dtype=np.longdouble)
    phi = model._rule(4).parameters[0]
    mistakes = 0
    for x, sign in zip(X.astype(np.longdouble), np.where(y == 1, 1, -1)):
        s = S @ x
        v, m = x @ s, sign * (w @ x)
        mistakes += m <= 0
        if m < phi * np.sqrt(v):
            q = phi * phi
            a = (-m * (1 + q / 2) + np.sqrt(m * m * q * q / 4 + v * q * (1 + q))) / (v * (1 + q))
            u = (-a * v * phi + np.sqrt(a * a * v * v * q + 4 * v)) ** 2 / 4
            w = w + a * sign * s
            S = S - a * phi / (np.sqrt(u) + v * a * phi) * np.outer(s, s)
    assert model.n_mistakes_ == mistakes
    np.testing.assert_allclose(model.coef_[0], w.astype(float), rtol=1e-6)


def test_the_floor_warns_once():
    X, y = noisy(4_000, 4, 1.0)
    model = ConfidenceWeightedClassifier(covariance="diag")
    with pytest.warns(ConvergenceWarning, match="separable"):
        model.partial_fit(X, y, classes=[0, 1])
    model.partial_fit(X, y)
    assert model.covariance_.min() >= 1e-12


# Equivalences -------------------------------------------------------------------------------------


@pytest.mark.parametrize("covariance", ["full", "diag"])
def test_second_order_perceptron_by_its_definition(covariance):
    X, y = clouds(300)
    model = SecondOrderPerceptron(a=0.5, covariance=covariance)
    model.partial_fit(X, y, classes=[0, 1])
    Z, mistakes = np.column_stack([X, np.ones(300)]), 0
    A, h = 0.5 * np.eye(7), np.zeros(7)
    for z, sign in zip(Z, np.where(y == 1, 1, -1)):
        M = A + (np.outer(z, z) if covariance == "full" else 0.0)
        if sign * (h @ np.linalg.solve(M, z)) <= 0:
            mistakes += 1
            if covariance == "full":
                A += np.outer(z, z)
                h += sign * z
            else:
                D = A.diagonal()
                w, v = h / D, (z * z / D).sum()
                w = w + (1 - sign * (w @ z)) / (v + 1) * sign * z / D
                A += np.diag(z * z)
                h = A.diagonal() * w
    assert model.n_mistakes_ == mistakes
    np.testing.assert_allclose(model.coef_[0], np.linalg.solve(A, h)[:-1], rtol=1e-9)


def test_arow_is_ridge_regression_on_its_active_rows():
    X, y = clouds(200)
    model, active = AROWClassifier(r=0.6, fit_intercept=False), []
    for i in range(200):
        before = model.n_updates_ if i else 0
        model.partial_fit(X[i : i + 1], y[i : i + 1], classes=[0, 1])
        active += [i] * (model.n_updates_ - before)
    ridge = Ridge(alpha=0.6, fit_intercept=False, solver="cholesky")
    ridge.fit(X[active], np.where(y[active] == 1, 1.0, -1.0))
    np.testing.assert_allclose(model.coef_[0], ridge.coef_, rtol=1e-10)
    S = np.linalg.inv(np.eye(6) + X[active].T @ X[active] / 0.6)
    np.testing.assert_allclose(model.covariance_, S, rtol=1e-9, atol=1e-13)


def test_many_classes_one_by_one_are_binary_models():
    X, y = clouds(200, classes=3)
    model = AROWClassifier(multi_class="ovr").partial_fit(X, y, classes=[0, 1, 2])
    for k in range(3):
        binary = AROWClassifier().partial_fit(X, y == k, classes=[False, True])
        np.testing.assert_allclose(model.coef_[k], binary.coef_[0], rtol=1e-10)
        np.testing.assert_allclose(model.covariance_[k], binary.covariance_, rtol=1e-8)


def test_mistake_bound_of_the_classical_ellipsoid():
    gamma, d = 0.1, 60
    for a in (0.5, 1.0):
        for seed in range(5):
            rng = np.random.default_rng(seed)
            u = rng.normal(size=d)
            u /= np.linalg.norm(u)
            X = rng.normal(size=(4000, d))
            X /= np.linalg.norm(X, axis=1, keepdims=True)
            X = X[abs(X @ u) >= gamma]
            y = X @ u > 0
            model = ClassicalEllipsoidClassifier(gamma=gamma, a=a, fit_intercept=False)
            model.partial_fit(X, y, classes=[False, True])
            assert model.n_infeasible_ == 0
            assert model.n_mistakes_ <= (1 + 2 * (1 - a) * gamma) / (a * gamma) ** 2


def test_infeasible_cuts():
    X, y = clouds(200)
    with pytest.warns(ConvergenceWarning, match="separable"):
        reset = ClassicalEllipsoidClassifier(gamma=0.5).partial_fit(X, y, classes=[0, 1])
    assert reset.n_infeasible_ > 0
    skip = ClassicalEllipsoidClassifier(gamma=0.5, on_infeasible="skip")
    with pytest.warns(ConvergenceWarning, match="separable"):
        skip.partial_fit(X, y, classes=[0, 1])
    assert skip.n_infeasible_ > reset.n_infeasible_
    strict = ClassicalEllipsoidClassifier(gamma=0.5, on_infeasible="raise")
    strict.partial_fit(X[:1], y[:1], classes=[0, 1])
    before = strict.coef_.copy()
    with pytest.raises(ValueError, match="separable"):
        strict.partial_fit(X, y)
    assert np.array_equal(strict.coef_, before)
    assert strict.t_ == 1


# Shards -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("covariance", ["full", "diag"])
@pytest.mark.parametrize("classes", [2, 3])
def test_merged_precisions_add_up(covariance, classes):
    X, y = clouds(300, classes=classes)
    models = [
        AROWClassifier(covariance=covariance).partial_fit(X[i::3], y[i::3], classes=range(classes))
        for i in range(3)
    ]
    if covariance == "diag":
        precisions = [1 / m.covariance_ for m in models]
        expected = 1 / (sum(precisions) - 2)
    else:
        # With the intercept, which has a row of its own in the matrix.
        shapes = [m._state.matrices() for m in models]
        total = sum(np.linalg.inv(S) for S in shapes) - 2 * np.eye(7)
        expected = np.linalg.inv(total)[:, 1:, 1:]
        expected = expected[0] if classes == 2 else expected
    counts = sum(m.n_updates_ for m in models)
    merged = models[0].merge(*models[1:])
    np.testing.assert_allclose(merged.covariance_, expected, rtol=1e-9, atol=1e-12)
    assert (merged.n_updates_, merged.t_) == (counts, 300)
    assert merged.score(X, y) > 0.75
    merged.partial_fit(X, y)


@quiet
@pytest.mark.parametrize("name", ["AROW", "SCW-I", "NHERD", "PA-I", "IELLIP", "CW-Stdev"])
def test_shards_reach_the_single_stream(name):
    X, y = noisy(6_000, 20, 1.0)
    X, y, T, t = X[:4000], y[:4000], X[4000:], y[4000:]
    model = clone(LEARNERS[name])
    single = clone(model).partial_fit(X, y, classes=[0, 1]).score(T, t)
    shards = [clone(model).partial_fit(X[i::8], y[i::8], classes=[0, 1]) for i in range(8)]
    mean = np.mean([shard.score(T, t) for shard in shards])
    merged = shards[0].merge(*shards[1:]).score(T, t)
    assert merged >= min(single, mean + 0.01) - 0.02


def test_a_common_start_counts_once():
    X, y = clouds(400)
    start = AROWClassifier().partial_fit(X[:200], y[:200], classes=[0, 1])
    twins = [clone(start), clone(start)]
    for i, twin in enumerate(twins):
        twin.partial_fit(X[:200], y[:200], classes=[0, 1])
        twin.partial_fit(X[200 + i :: 2], y[200 + i :: 2])
    merged = twins[0].merge(twins[1], prior=start)
    # The precision has grown by the updates of both since the start.
    grown = np.linalg.slogdet(merged.covariance_)[1]
    assert grown < np.linalg.slogdet(twins[1].covariance_)[1]
    again = clone(start).partial_fit(X[:200], y[:200], classes=[0, 1])
    np.testing.assert_allclose(again.merge(start, prior=start).coef_, start.coef_, rtol=1e-8)


def test_merge_of_strangers():
    X, y = clouds(50)
    model = AROWClassifier().fit(X, y)
    for other in (
        PassiveAggressiveClassifier().fit(X, y),
        AROWClassifier(r=2).fit(X, y),
        AROWClassifier().fit(X[:, :3], y),
        AROWClassifier(covariance="diag").fit(X, y),
    ):
        with pytest.raises(ValueError, match=r"[Mm]erge"):
            model.merge(other)


# Input --------------------------------------------------------------------------------------------


def test_bad_batches_change_nothing():
    X, y = clouds(60)
    model = AROWClassifier().partial_fit(X, y, classes=[0, 1])
    before, seen = model.coef_.copy(), model.t_
    bad = X.copy()
    bad[40, 2] = np.nan
    huge = X.copy()
    huge[3, 1] = -1e160
    for rows, labels, weights in [
        (bad, y, None),
        (huge, y, None),
        (X, y + 1, None),
        (X[:, :4], y, None),
        (X, y[:30], None),
        (X, y, -np.ones(60)),
        (X, y, np.full(60, np.inf)),
    ]:
        with pytest.raises(ValueError, match=r"\w"):
            model.partial_fit(rows, labels, sample_weight=weights)
    with pytest.raises(ValueError, match="differ"):
        model.partial_fit(X, y, classes=[0, 1, 2])
    for row in (bad[40], X[0, :3], {0: np.inf}, X):
        with pytest.raises(ValueError, match=r"\w"):
            model.learn_one(row, 1)
    with pytest.raises(ValueError, match=r"\w"):
        model.learn_one(X[0], 1, sample_weight=-1.0)
    assert np.array_equal(model.coef_, before)
    assert model.t_ == seen


@pytest.mark.parametrize(
    ("model", "params"),
    [
        (ConfidenceWeightedClassifier, {"confidence": 0.5}),
        (ConfidenceWeightedClassifier, {"confidence": 1.0}),
        (SoftConfidenceWeightedClassifier, {"variant": 3}),
        (AROWClassifier, {"r": 0.0}),
        (ClassicalEllipsoidClassifier, {"a": 0.0}),
        (ImprovedEllipsoidClassifier, {"c": 1.0}),
        (PassiveAggressiveClassifier, {"C": -1.0}),
    ],
)
def test_bad_parameters(model, params):
    with pytest.raises(ValueError, match=next(iter(params))):
        model(**params).fit(*clouds(20))


def test_too_wide_for_a_full_shape():
    X = sp.random(5, 200_000, density=1e-3, format="csr", random_state=0)
    with pytest.raises(ValueError, match="diag"):
        AROWClassifier(covariance="full").fit(X, [0, 1, 0, 1, 0])
    assert AROWClassifier(covariance="diag").fit(X, [0, 1, 0, 1, 0]).score(X, [0, 1, 0, 1, 0]) == 1


def test_first_call_needs_classes_and_one_row_a_model():
    X, y = clouds(20)
    with pytest.raises(ValueError, match="classes"):
        AROWClassifier().partial_fit(X, y)
    with pytest.raises(NotFittedError):
        AROWClassifier().predict_one(X[0])
    lonely = AROWClassifier().learn_one(X[0], "only")
    assert lonely.predict_one(X[1]) == "only"


def test_rows_of_zeros_are_rounds_and_mistakes():
    model = AROWClassifier(fit_intercept=False)
    model.partial_fit(np.zeros((3, 2)), [0, 1, 1], classes=[0, 1])
    assert (model.t_, model.n_mistakes_, model.n_updates_) == (3, 3, 0)


def test_duplicate_entries_are_summed():
    X, y = clouds(50)
    entries = [np.concatenate([X[i] - 1.0, np.ones(6)]) for i in range(50)]
    double = sp.csr_matrix(
        (np.concatenate(entries), np.tile(np.arange(6), 100), np.arange(51) * 12), shape=X.shape
    )
    for name in ("AROW", "PA-I"):
        one = clone(LEARNERS[name]).partial_fit(X, y, classes=[0, 1])
        other = clone(LEARNERS[name]).partial_fit(double, y, classes=[0, 1])
        np.testing.assert_allclose(other.coef_, one.coef_, rtol=1e-9)
    assert double.nnz == 600


# Passes -------------------------------------------------------------------------------------------


def test_passes_stop():
    X, y = clouds(200, noise=0.2)
    short = AROWClassifier(max_iter=50, n_iter_no_change=2, random_state=0).fit(X, y)
    assert 3 <= short.n_iter_ < 50
    assert AROWClassifier(max_iter=7, tol=None, random_state=0).fit(X, y).n_iter_ == 7
    held = AROWClassifier(max_iter=50, early_stopping=True, n_iter_no_change=3, random_state=0)
    held.fit(X, y)
    assert held.n_iter_ < 50
    assert held.t_ < 50 * 200 * 0.95


@pytest.mark.parametrize("name", GAUSSIAN)
@pytest.mark.parametrize("classes", [2, 3])
@quiet
def test_probabilities(name, classes):
    X, y = clouds(200, classes=classes)
    model = clone(GAUSSIAN[name]).partial_fit(X, y, classes=range(classes))
    p = model.predict_proba(X)
    np.testing.assert_array_equal(p.argmax(axis=1), model.predict(X))
    f, deviation = model.margin_mean_std(X)
    np.testing.assert_allclose(deviation**2, model.margin_variance(X))
    draws = np.random.default_rng(0).normal(size=(4000, *f.shape)) * deviation + f
    if classes == 2:
        np.testing.assert_allclose(p[:, 1], (draws > 0).mean(axis=0), atol=0.04)
        np.testing.assert_allclose(f, X @ model.coef_[0] + model.intercept_, rtol=1e-10)
    single = np.concatenate([model.margin_variance(X[i : i + 1]) for i in range(20)])
    np.testing.assert_allclose(single, model.margin_variance(X[:20]), rtol=1e-9)
    sparse = model.margin_variance(sp.csr_matrix(X))
    np.testing.assert_allclose(sparse, model.margin_variance(X), rtol=1e-7)
