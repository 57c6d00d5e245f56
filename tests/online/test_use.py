"""Learners in other people's hands: pickles, workers, chunks, shards, weights, long streams."""

from __future__ import annotations

import copy
import pickle
from itertools import pairwise

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import Ridge

from oblong import (
    AROWClassifier,
    ConfidenceWeightedClassifier,
    ImprovedEllipsoidClassifier,
    KernelConfidenceWeightedClassifier,
    NormalHerdClassifier,
    OnlineEllipsoidalSVC,
    SoftConfidenceWeightedClassifier,
)
from tests.online.learners import LEARNERS, SECOND_ORDER, clouds

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

MODELS = {
    **LEARNERS,
    **{
        f"{name}-{covariance}": clone(LEARNERS[name]).set_params(
            covariance=covariance, sketch_size=4
        )
        for name in ("AROW", "CW-Stdev", "IELLIP")
        for covariance in ("diag", "sketch")
    },
    "average": AROWClassifier(average=True),
    "kernel": KernelConfidenceWeightedClassifier(budget=20),
    "e-SVM": OnlineEllipsoidalSVC(),
}


# Pickles ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("classes", [2, 3])
def test_joblib(name, classes, tmp_path):
    """A stored learner goes on where it was, and predicts from a memory map."""
    X, y = clouds(120, classes=classes)
    model = clone(MODELS[name]).partial_fit(X[:60], y[:60], classes=range(classes))
    joblib.dump(model, tmp_path / "plain")
    joblib.dump(model, tmp_path / "small", compress=3)
    mapped = joblib.load(tmp_path / "plain", mmap_mode="r")
    np.testing.assert_array_equal(mapped.decision_function(X), model.decision_function(X))
    twin = joblib.load(tmp_path / "small")
    for learner in (model, twin):
        learner.partial_fit(X[60:], y[60:])
        learner.learn_one(X[0], int(y[0]))
    np.testing.assert_array_equal(twin.decision_function(X), model.decision_function(X))
    assert (twin.t_, twin.n_updates_, twin.n_mistakes_) == (
        121,
        model.n_updates_,
        model.n_mistakes_,
    )


# Chunks -------------------------------------------------------------------------------------------


class Incremental:
    """Learns blocks of an array in turn, and sends the model along."""

    def __init__(self, estimator):
        self.estimator = estimator

    def fit(self, blocks, **options):
        model = clone(self.estimator)
        for X, y in blocks:
            # Workers pass the model on as a pickle, and may keep a copy.
            model = pickle.loads(pickle.dumps(copy.deepcopy(model)))
            assert model.partial_fit(X(), y(), **options) is model
        self.estimator_ = model
        return self


@pytest.mark.parametrize("name", MODELS)
def test_blocks_in_turn(name):
    X, y = clouds(150, classes=3)
    bounds = [0, 1, 40, 41, 97, 150]
    blocks = [
        (lambda a=a, b=b: X[a:b].copy(), lambda a=a, b=b: y[a:b].copy())
        for a, b in pairwise(bounds)
    ]
    # A kernel width by the variance of the first block would differ.
    options = {"gamma": 0.5} if name == "kernel" else {}
    estimator = clone(MODELS[name]).set_params(**options)
    found = Incremental(estimator).fit(blocks, classes=[0, 1, 2]).estimator_
    whole = clone(estimator).partial_fit(X, y, classes=[0, 1, 2])
    assert found.n_mistakes_ == whole.n_mistakes_
    np.testing.assert_allclose(
        found.decision_function(X), whole.decision_function(X), rtol=1e-6, atol=1e-8
    )


@pytest.fixture(scope="module")
def cluster():
    """A scheduler and a worker of Dask in this process, which pickle what they exchange."""
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 1, "threads_per_worker": 2, "dashboard_address": None}
    with distributed.Client(processes=False, protocol="tcp://", **options) as client:
        yield client


def _learn_block(model, X, y):
    # Values that workers exchange may be kept and used again.
    return copy.deepcopy(model).partial_fit(X, y, classes=[0, 1])


def test_blocks_on_a_dask_cluster(cluster):
    array = pytest.importorskip("dask.array")
    X, y = clouds(200)
    rows = array.from_array(X, chunks=(50, 6)).to_delayed().ravel()
    labels = array.from_array(y, chunks=50).to_delayed()
    blocks = [cluster.compute(list(pair)) for pair in zip(rows, labels)]
    model = AROWClassifier()
    for block in blocks:
        model = cluster.submit(_learn_block, model, *block)
    whole = AROWClassifier().partial_fit(X, y, classes=[0, 1])
    np.testing.assert_allclose(model.result().coef_, whole.coef_, rtol=1e-9)


# One example at a time ----------------------------------------------------------------------------


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("options", [{}, {"budget": 8}, {"kernel": "poly", "degree": 2}])
def test_one_row_of_the_kernel_learner(classes, options):
    X, y = clouds(100, classes=classes)
    model = KernelConfidenceWeightedClassifier(gamma=0.3, **options)
    batch = clone(model).partial_fit(X, y, classes=range(classes))
    single = clone(model).partial_fit(X[:1], y[:1], classes=range(classes))
    weighted = clone(model).partial_fit(X[:1], y[:1], classes=range(classes))
    for row, label in zip(X[1:], y[1:]):
        assert single.learn_one(row, label) is single
        weighted.learn_one(row, label, sample_weight=2)
    assert single.t_ == batch.t_ == 100
    assert weighted.t_ == 199
    assert single.n_updates_ == batch.n_updates_
    assert single.n_mistakes_ == batch.n_mistakes_
    np.testing.assert_allclose(
        single.decision_function(X), batch.decision_function(X), rtol=1e-6, atol=1e-8
    )
    assert [single.predict_one(row) for row in X] == batch.predict(X).tolist()


# Shards -------------------------------------------------------------------------------------------


def noisy(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 20))
    y = (X @ rng.normal(size=20) > 0).astype(int)
    wrong = y ^ (rng.random(n) < 0.1)
    return X, wrong, y


@pytest.mark.parametrize(
    ("learner", "slack"),
    [
        (AROWClassifier(fit_intercept=False), 0.005),
        (SoftConfidenceWeightedClassifier(fit_intercept=False), 0.03),
        (AROWClassifier(covariance="diag", fit_intercept=False), 0.005),
    ],
)
def test_sixteen_shards(learner, slack):
    """One stream of 8,000 examples with one wrong label in ten, or sixteen put together."""
    errors = []
    for seed in range(3):
        X, y, truth = noisy(12_000, seed)
        stream, test = slice(0, 8000), slice(8000, None)
        single = clone(learner).partial_fit(X[stream], y[stream], classes=[0, 1])
        shards = [
            clone(learner).partial_fit(X[stream][i::16], y[stream][i::16], classes=[0, 1])
            for i in range(16)
        ]
        parts = np.mean([1 - shard.score(X[test], truth[test]) for shard in shards])
        merged = shards[0].merge(*shards[1:])
        errors.append(
            [1 - single.score(X[test], truth[test]), parts, 1 - merged.score(X[test], truth[test])]
        )
    single, part, merged = np.mean(errors, axis=0)
    assert merged <= single + slack
    assert merged < 0.6 * part


def test_a_product_of_shards_is_ridge_regression_on_their_active_rows():
    X, y = clouds(300)
    shards, active = [], []
    for i in range(3):
        shard, rows = AROWClassifier(r=0.7, fit_intercept=False), range(i, 300, 3)
        for row in rows:
            before = shard.n_updates_ if row >= 3 else 0
            shard.partial_fit(X[row : row + 1], y[row : row + 1], classes=[0, 1])
            active += [row] * (shard.n_updates_ - before)
        shards.append(shard)
    merged = shards[0].merge(*shards[1:])
    ridge = Ridge(alpha=0.7, fit_intercept=False, solver="cholesky")
    ridge.fit(X[active], np.where(y[active] == 1, 1.0, -1.0))
    np.testing.assert_allclose(merged.coef_[0], ridge.coef_, rtol=1e-9, atol=1e-11)


# Weights of classes -------------------------------------------------------------------------------


@pytest.mark.parametrize("learner", [AROWClassifier(), NormalHerdClassifier(C=0.3)])
def test_class_weights_are_weights_of_rows(learner):
    X, y = clouds(150, classes=3)
    factors = {0: 0.5, 1: 2.0}
    weights = np.array([0.5, 2.0, 1.0])[y]
    model = clone(learner).set_params(class_weight=factors, random_state=0)
    plain = clone(learner).set_params(random_state=0)
    given = np.random.default_rng(0).integers(0, 3, 150)
    np.testing.assert_array_equal(
        clone(model).fit(X, y, sample_weight=given).coef_,
        clone(plain).fit(X, y, sample_weight=given * weights).coef_,
    )
    batch = clone(plain).partial_fit(X, y, classes=[0, 1, 2], sample_weight=weights)
    found = clone(model).partial_fit(X, y, classes=[0, 1, 2])
    np.testing.assert_array_equal(found.coef_, batch.coef_)
    single = clone(model).partial_fit(X[:1], y[:1], classes=[0, 1, 2])
    for row, label in zip(X[1:], y[1:]):
        single.learn_one(row, label)
    np.testing.assert_allclose(single.coef_, batch.coef_, rtol=1e-9, atol=1e-12)
    counts = np.bincount(y, given, 3)
    balanced = clone(model).set_params(class_weight="balanced").fit(X, y, sample_weight=given)
    expected = clone(plain).fit(X, y, sample_weight=given * (given.sum() / (3 * counts))[y])
    np.testing.assert_allclose(balanced.coef_, expected.coef_, rtol=1e-12)


def test_bad_class_weights():
    X, y = clouds(40)
    for bad in ({0: -1.0}, {0: np.inf}, {5: 1.0, 0: 2.0}):
        with pytest.raises(ValueError, match="class_weight"):
            AROWClassifier(class_weight=bad).fit(X, y)
    balanced = AROWClassifier(class_weight="balanced")
    with pytest.raises(ValueError, match="balanced"):
        balanced.partial_fit(X, y, classes=[0, 1])
    assert not hasattr(balanced, "coef_")
    balanced.fit(X, y)
    with pytest.raises(ValueError, match="balanced"):
        balanced.learn_one(X[0], 1)


# Long streams -------------------------------------------------------------------------------------


def stream(rows, seed):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(rows, 8))
    y = (Z @ np.random.default_rng(0).normal(size=8) > 0) ^ (rng.random(rows) < 0.2)
    return Z * np.geomspace(1.0, 100.0, 8), y.astype(int)


@pytest.mark.parametrize("name", SECOND_ORDER)
def test_a_diagonal_after_many_updates(name):
    model = clone(SECOND_ORDER[name]).set_params(covariance="diag")
    for seed in range(4):
        model.partial_fit(*stream(50_000, seed), classes=[0, 1])
    assert model.n_updates_ > 20_000
    assert np.isfinite(model.coef_).all()
    assert np.isfinite(model.covariance_).all()
    assert model.covariance_.min() > 0.0
    assert model.n_skipped_ == 0


@pytest.mark.parametrize("name", ["AROW", "SOP", "NHERD", "SCW-I", "SCW-II", "CW-Var", "IELLIP"])
def test_a_sketch_after_many_updates(name):
    model = clone(SECOND_ORDER[name]).set_params(covariance="sketch", sketch_size=6)
    model.partial_fit(*stream(10_000, 0), classes=[0, 1])
    assert model.n_updates_ > 2_000
    assert np.isfinite(model.coef_).all()
    assert model.covariance_.min() > 0.0
    assert model.n_skipped_ == 0


@pytest.mark.parametrize("how", ["batch", "chunks", "one", "single precision"])
def test_a_diagonal_that_never_stops_to_change(how):
    """The improved ellipsoid with constant memory, and its definition with the scale left out."""
    c, gamma = 0.1, 0.1
    X, y = stream(3000, 0)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    w, D = np.zeros(8), np.ones(8)
    updates = 0
    for x, sign in zip(X, np.where(y == 1, 1.0, -1.0)):
        m, v = sign * (w @ x), (D * x * x).sum()
        if m < gamma:
            w = w + (gamma - m) / v * sign * D * x
            D = 1.0 / ((1.0 - c) / D + c * x * x / v)
            D /= D.max()
            updates += 1
    model = ImprovedEllipsoidClassifier(
        c=c, b=1.0, gamma=gamma, covariance="diag", fit_intercept=False
    )
    if how == "one":
        model.partial_fit(X[:1], y[:1], classes=[0, 1])
        for x, label in zip(X[1:], y[1:]):
            model.learn_one(x, label)
    elif how == "chunks":
        for rows in np.array_split(np.arange(3000), 77):
            model.partial_fit(X[rows], y[rows], classes=[0, 1])
    else:
        dtype = np.float32 if how == "single precision" else np.float64
        model.partial_fit(X.astype(dtype), y, classes=[0, 1])
    assert model.n_updates_ == pytest.approx(updates, abs=0 if how != "single precision" else 60)
    assert updates > 1000
    found = model.covariance_ / model.covariance_.max()
    assert found.min() < 0.05
    if how != "single precision":
        np.testing.assert_allclose(model.coef_[0], w, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(found, D, rtol=1e-6)


def test_an_ellipsoidal_machine_after_many_examples():
    model = OnlineEllipsoidalSVC()
    for seed in range(4):
        model.partial_fit(*stream(50_000, seed), classes=[0, 1])
    B = model.B_
    assert np.array_equal(B, B.T)
    assert np.linalg.eigvalsh(B).min() > 0.0
    assert np.trace(B) == pytest.approx(1.0, rel=1e-6)
    assert model.score(*stream(2000, 9)) > 0.75


def test_a_confident_learner_on_noise_is_no_worse_than_chance():
    """Its diagonal is at the floor, and yet it learns what there is to learn."""
    model = ConfidenceWeightedClassifier(covariance="diag")
    for seed in range(4):
        model.partial_fit(*stream(50_000, seed), classes=[0, 1])
    assert model.covariance_.min() >= 1e-12
    assert model.score(*stream(2000, 9)) > 0.55


@pytest.mark.parametrize("learner", [AROWClassifier(), AROWClassifier(covariance="diag")])
def test_one_bad_vector_changes_nothing(learner):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 5))
    model = clone(learner)
    for x in X:
        model.learn_one(x, bool(x[0] > 0))
    t, coef = model.t_, model.coef_.copy()
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError, match="NaN, infinity"):
            model.learn_one(np.where(np.arange(5) == 2, bad, X[0]), True)
    assert model.t_ == t
    assert np.array_equal(model.coef_, coef)
