"""The online ellipsoidal support vector machine as a classifier."""

from __future__ import annotations

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning

from oblong import AROWClassifier, EllipsoidalSVC, OnlineEllipsoidalSVC
from oblong.solvers.esvm.online import passes
from tests.online.learners import clouds


def stream(model, X, y, size, weights=None):
    for start in range(0, X.shape[0], size):
        part = slice(start, start + size)
        weight = None if weights is None else weights[part]
        model.partial_fit(X[part], y[part], classes=np.unique(y), sample_weight=weight)
    return model


def assert_same(one, other, atol=1e-10):
    np.testing.assert_allclose(one.coef_, other.coef_, atol=atol)
    np.testing.assert_allclose(one.intercept_, other.intercept_, atol=atol)
    np.testing.assert_allclose(one.B_, other.B_, rtol=1e-7, atol=atol)
    assert (one.t_, one.n_updates_, one.n_mistakes_) == (
        other.t_,
        other.n_updates_,
        other.n_mistakes_,
    )


@pytest.mark.parametrize("r", [0.3, 0.7, 0.95])
@pytest.mark.parametrize("nu", [0.1, 0.5])
def test_reaches_the_batch_machine(r, nu):
    """With the trace that the batch machine has, the problem has the same solution."""
    X, y = clouds(300, d=4)
    batch = EllipsoidalSVC(nu=nu, r=r, kernel="linear", fit_intercept="augment").fit(X, y)
    trace = float(np.trace(batch.B_))
    model = OnlineEllipsoidalSVC(nu=nu, trace_bound=trace, tol=1e-3, random_state=0).fit(X, y)
    assert model.converged_
    assert 0.0 <= model.dual_gap_[0] <= 1e-3
    value = r * model.objective_[0] + (1 - r) * trace
    assert -1e-5 <= value - batch.objective_[0] <= 1e-3 * r * 5 + 1e-5
    w, v = np.append(model.coef_, model.intercept_), np.append(batch.coef_, batch.intercept_)
    assert w @ v > 0.999 * np.linalg.norm(w) * np.linalg.norm(v)
    np.testing.assert_allclose(model.B_, batch.B_, atol=0.1 * np.abs(batch.B_).max())


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("options", [{}, {"formulation": "paper", "batch_size": 3}])
def test_chunks_of_any_size_dense_or_sparse(classes, options):
    X, y = clouds(120, classes=classes)
    X[np.random.default_rng(0).random(X.shape) < 0.4] = 0.0
    whole = stream(OnlineEllipsoidalSVC(**options), X, y, 120)
    assert whole.n_updates_ > 20
    for size in (1, 7, 64):
        assert_same(stream(OnlineEllipsoidalSVC(**options), X, y, size), whole)
        assert_same(stream(OnlineEllipsoidalSVC(**options), sp.csr_matrix(X), y, size), whole)
    single = OnlineEllipsoidalSVC(**options).partial_fit(X[:1], y[:1], classes=range(classes))
    twin = clone(single).partial_fit(X[:1], y[:1], classes=range(classes))
    for row, label in zip(X[1:], y[1:]):
        single.learn_one(row, label)
        twin.learn_one({j: row[j] for j in np.flatnonzero(row)}, label)
    assert_same(single, whole)
    assert_same(twin, whole)
    assert [single.predict_one(row) for row in X] == whole.predict(X).tolist()
    rows = [{**dict(enumerate(row)), "unknown": 1.0} for row in X]
    assert [twin.predict_one(row) for row in rows] == whole.predict(X).tolist()


def test_weights_are_copies():
    X, y = clouds(100, classes=3)
    weights = np.random.default_rng(0).integers(0, 4, 100)
    copies = np.repeat(np.arange(100), weights)
    weighted = stream(OnlineEllipsoidalSVC(), X, y, 30, weights)
    assert_same(weighted, stream(OnlineEllipsoidalSVC(), X[copies], y[copies], 30))
    options = {"random_state": 0, "tol": 0.05}
    weighted = OnlineEllipsoidalSVC(**options).fit(X, y, sample_weight=weights)
    assert_same(weighted, OnlineEllipsoidalSVC(**options).fit(X[copies], y[copies]))
    halves = stream(OnlineEllipsoidalSVC(), X.repeat(2, axis=0), y.repeat(2), 9, np.full(200, 0.5))
    np.testing.assert_allclose(
        halves.coef_, stream(OnlineEllipsoidalSVC(), X, y, 9).coef_, atol=1e-10
    )


def test_lengths_of_rows_do_not_matter_to_the_consistent_problem():
    X, y = clouds(200)
    lengths = np.random.default_rng(0).uniform(0.1, 10.0, (200, 1))
    plain = stream(OnlineEllipsoidalSVC(fit_intercept=False), X, y, 50)
    scaled = stream(OnlineEllipsoidalSVC(fit_intercept=False), X * lengths, y, 50)
    np.testing.assert_allclose(scaled.coef_, plain.coef_, atol=1e-10)
    assert not plain.intercept_.any()
    assert plain.B_.shape == (6, 6)
    # That of the paper depends on lengths, but not on the unit.
    options = {"formulation": "paper", "fit_intercept": False}
    plain = stream(OnlineEllipsoidalSVC(**options), X, y, 50)
    scaled = stream(OnlineEllipsoidalSVC(**options), 8.0 * X, y, 50)
    np.testing.assert_allclose(scaled.coef_, plain.coef_, atol=1e-8)


def test_trace_bounds():
    X, y = clouds(300)
    traces = {}
    for bound in ("auto", 0.5, 3.0, None):
        model = OnlineEllipsoidalSVC(trace_bound=bound, random_state=0).fit(X, y)
        traces[bound] = np.trace(model.B_)
    assert traces["auto"] == pytest.approx(1.0, rel=1e-6)
    assert traces[0.5] == pytest.approx(0.5, rel=1e-6)
    assert traces[0.5] < traces["auto"] < traces[3.0] < traces[None]


def test_the_gap_is_warned_about_and_forgotten():
    X, y = clouds(200, classes=3)
    with pytest.warns(ConvergenceWarning, match=r"gap of .* above tol=1e-05"):
        model = OnlineEllipsoidalSVC(tol=1e-5, max_iter=3).fit(X, y)
    assert not model.converged_
    assert model.dual_gap_.shape == (3,)
    assert (model.dual_gap_ > 1e-5).any()
    model.partial_fit(X, y)
    assert not hasattr(model, "dual_gap_")
    flat = np.column_stack([X, np.zeros(200)])
    with pytest.warns(ConvergenceWarning, match="bound the trace"):
        model.set_params(trace_bound=None, tol=1e-2, max_iter=1000).fit(flat, y)
    assert model.n_iter_ < 100
    assert model.score(flat, y) > 0.7


def test_average_and_early_stopping():
    X, y = clouds(400, d=8)
    options = {"random_state": 0, "max_iter": 20, "tol": None}
    last = OnlineEllipsoidalSVC(average=False, **options).fit(X, y)
    mean = OnlineEllipsoidalSVC(**options).fit(X, y)
    assert max(mean.dual_gap_[0], last.dual_gap_[0]) < 0.02
    assert not np.allclose(mean.coef_, last.coef_, atol=1e-4)
    # The last step lies on the sphere, and a mean inside.
    ends = [np.append(m.coef_, m.intercept_) for m in (last, mean)]
    assert np.linalg.norm(ends[0]) == pytest.approx(1.0)
    assert 0.9 < np.linalg.norm(ends[1]) < 1.0
    stopped = OnlineEllipsoidalSVC(early_stopping=True, random_state=0, tol=1e-9).fit(X, y)
    assert stopped.n_iter_ < 100
    assert stopped.score(X, y) > 0.85


def test_three_classes():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    model = OnlineEllipsoidalSVC(random_state=0).fit(X - X.mean(axis=0), names)
    assert model.score(X - X.mean(axis=0), names) > 0.85
    np.testing.assert_allclose(
        np.linalg.norm(np.column_stack([model.coef_, model.intercept_]), axis=1), 1.0
    )


def test_bad_input_changes_nothing():
    X, y = clouds(60)
    fresh = OnlineEllipsoidalSVC()
    with pytest.raises(ValueError, match="partial_fit"):
        fresh.learn_one(X[0], 1)
    model = stream(OnlineEllipsoidalSVC(), X, y, 60)
    before = model.coef_.copy()
    for x, label in ((X[0], 7), (X[0, :3], 1), ({"strange": 1.0}, 1), (X[0] * np.nan, 1)):
        with pytest.raises(ValueError, match=r"\w"):
            model.learn_one(x, label)
    for bad in ({"nu": 0.0}, {"trace_bound": -1.0}, {"batch_size": 0}, {"formulation": "exact"}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            OnlineEllipsoidalSVC(**bad).fit(X, y)
    for other in (AROWClassifier().fit(X, y), stream(OnlineEllipsoidalSVC(nu=0.3), X, y, 60)):
        with pytest.raises(ValueError, match=r"[Mm]erge"):
            model.merge(other)
    np.testing.assert_array_equal(model.coef_, before)


def test_shards(tmp_path):
    X, y = clouds(900, noise=0.05)
    X, T, y, t = X[:600], X[600:], y[:600], y[600:]
    shards = [stream(OnlineEllipsoidalSVC(), X[i::4], y[i::4], 50) for i in range(4)]
    mean = np.mean([shard.score(T, t) for shard in shards])
    merged = shards[0].merge(*shards[1:])
    assert merged.t_ == 600
    assert merged.score(T, t) >= mean - 0.01
    joblib.dump(merged, tmp_path / "model")
    twin = joblib.load(tmp_path / "model")
    assert_same(stream(twin, X, y, 100), stream(merged, X, y, 100))


def test_learn_batches__more_than_a_batch_behind():
    """Several learners that were merged may have more rows behind them than a batch takes."""
    X = np.random.default_rng(0).normal(size=(40, 3))
    y = (X[:, 0] > 0).astype(int)
    parts = [
        OnlineEllipsoidalSVC(batch_size=10).partial_fit(X, y, classes=[0, 1]) for _ in range(3)
    ]
    for part in parts:
        part._state.numbers[passes.PENDING] = 9.0
    merged = parts[0].merge(*parts[1:])
    rounds, weight = merged.t_, merged._state.numbers[[passes.PENDING, passes.DONE]].sum()
    updates = merged.n_updates_
    merged.partial_fit(X[:1], y[:1])
    assert (merged.t_, merged.n_updates_) == (rounds + 1, updates + 1)
    assert merged._state.numbers[[passes.PENDING, passes.DONE]].sum() == weight + 1.0
