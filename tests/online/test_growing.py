"""Learners whose features appear as they learn, and the covariance that goes with it."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import oblong
from oblong import AROWClassifier, ImprovedEllipsoidClassifier
from oblong.online.growing import MOST_FULL, structure_of
from oblong.online.incremental import IncrementalLearner
from oblong.online.plain_learner import PlainLearner
from oblong.solvers.online.slots import DIAGONAL, FULL
from tests.online.learners import GAUSSIAN, SECOND_ORDER

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def widening(n=400, d=300, classes=2, seed=0):
    """Rows with entries in ever more columns, 300 in the end."""
    rng = np.random.default_rng(seed)
    X = np.zeros((n, d))
    for i in range(n):
        known = 5 + (d - 5) * i // (n - 1)
        columns = rng.choice(known, 5, replace=False)
        X[i, columns] = rng.normal(size=5)
    X[0, 4] = X[-1, d - 1] = 1.0
    scores = X @ rng.normal(size=(d, classes))
    return X, scores.argmax(axis=1)


def made(kind, **options):
    return clone(kind).set_params(**options)


def learned(model, X, y, size):
    """The model of a stream in batches of a size."""
    learner = IncrementalLearner(model)
    labels = list(range(int(y.max()) + 1))
    rows = sp.csr_matrix(X)
    for start in range(0, len(y), size):
        batch = rows[start : start + size]
        width = int(batch.indices.max()) + 1 if batch.nnz else 1
        learner.learn(batch[:, :width], y[start : start + size], labels)
    return model


def same(one, other, tolerance=1e-9):
    assert one._state.structure == other._state.structure
    np.testing.assert_allclose(one.coef_, other.coef_, rtol=tolerance, atol=1e-12)
    np.testing.assert_allclose(one.covariance_, other.covariance_, rtol=tolerance, atol=1e-12)


@pytest.mark.parametrize(("n", "structure"), [(1, FULL), (256, FULL), (257, DIAGONAL)])
def test_structure_of__goes_by_the_number_of_features(n, structure):
    assert structure_of("auto", n) == structure
    assert structure_of("full", n) == FULL
    assert structure_of("diag", n) == DIAGONAL


@pytest.mark.parametrize("kind", SECOND_ORDER.values(), ids=SECOND_ORDER)
@pytest.mark.parametrize(("n", "shape"), [(MOST_FULL, "full"), (MOST_FULL + 1, "diag")])
def test_fit__auto_is_one_of_the_two(kind, n, shape):
    rng = np.random.default_rng(0)
    X, y = sp.random(30, n, density=0.05, format="csr", rng=rng), np.arange(30) % 2
    for rows in (X, X.toarray()):
        auto = made(kind, max_iter=1, random_state=0).fit(rows, y)
        named = made(kind, max_iter=1, random_state=0, covariance=shape).fit(rows, y)
        np.testing.assert_array_equal(auto.coef_, named.coef_)
        np.testing.assert_array_equal(auto.covariance_, named.covariance_)


@pytest.mark.parametrize("kind", SECOND_ORDER.values(), ids=SECOND_ORDER)
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("options", [{}, {"normalize": True}, {"average": True}])
def test_add_features__the_batches_make_no_difference(kind, classes, options):
    X, y = widening(classes=classes)
    model = learned(made(kind, **options), X, y, 1)
    assert model._state.structure == DIAGONAL
    for size in (7, 64, 400):
        same(learned(made(kind, **options), X, y, size), model)


@pytest.mark.parametrize("kind", GAUSSIAN.values(), ids=GAUSSIAN)
def test_add_features__keeps_the_diagonal(kind):
    X, y = widening(d=400)
    model = made(kind)
    width = np.maximum.accumulate([np.flatnonzero(row)[-1] + 1 for row in X])
    before = int(np.flatnonzero(width > MOST_FULL)[0])
    learned(model, X[:before], y[:before], 50)
    assert model._state.structure == FULL
    rows = X[:before, : model.n_features_in_]
    outputs, variances = model.decision_function(rows), model.covariance_
    oblong.online.growing.add_features(model, 400)
    assert model.covariance_.shape == (400,)
    known = len(variances)
    np.testing.assert_array_equal(model.covariance_[:known], np.diag(variances))
    # New features start as those of a new model do, in its unit.
    fresh = made(kind, covariance="full")
    learned(fresh, X[:before], y[:before], 50)
    oblong.online.growing.add_features(fresh, 400)
    np.testing.assert_array_equal(model.covariance_, np.diag(fresh.covariance_))
    np.testing.assert_array_equal(model.coef_, fresh.coef_)
    assert outputs.shape == (before,)


@pytest.mark.parametrize("kind", SECOND_ORDER.values(), ids=SECOND_ORDER)
def test_learn_one__dicts_grow_as_matrices_do(kind):
    X, y = widening()
    one = made(kind, allow_new_classes=True)
    for row, label in zip(X, y):
        one.learn_one({int(j): row[j] for j in np.flatnonzero(row)}, int(label))
    assert one._state.structure == DIAGONAL
    # Names appear in another order than columns, which are known to be more.
    order = [one._vocabulary[j] for j in range(X.shape[1]) if j in one._vocabulary]
    columns = [j for j in range(X.shape[1]) if j in one._vocabulary]
    named = np.zeros((len(X), one.n_features_in_))
    named[:, order] = X[:, columns]
    same(learned(made(kind), named, y, 1), one)


def test_learn_one__an_array_and_then_dicts():
    rng = np.random.default_rng(0)
    model = AROWClassifier()
    for k in range(50):
        model.learn_one(rng.normal(size=250), k % 2)
    for k in range(50):
        model.learn_one({300 + k: 1.0, 3: rng.normal()}, k % 2)
    assert model.covariance_.shape == (300,)
    assert np.isfinite(model.predict_one({3: 1.0, 349: 1.0}))


def test_save__keeps_what_the_covariance_is(tmp_path):
    X, y = widening()
    for count in (100, 400):
        model = learned(AROWClassifier(), X[:count], y[:count], 50)
        oblong.save(model, tmp_path / "m.oblong")
        loaded = oblong.load(tmp_path / "m.oblong")
        assert loaded.covariance == "auto"
        assert loaded._state.structure == (FULL if count == 100 else DIAGONAL)
        rows = X[:, : model.n_features_in_]
        same(loaded.partial_fit(rows, y), model.partial_fit(rows, y))


def shard(kind, names, seed):
    rng = np.random.default_rng(seed)
    model = made(kind)
    for k in range(60):
        row = dict(zip(rng.choice(names, 4, replace=False).tolist(), rng.normal(size=4)))
        model.learn_one(row, ("no", "yes")[k % 2])
    return model


@pytest.mark.parametrize("kind", SECOND_ORDER.values(), ids=SECOND_ORDER)
def test_merge__of_features_that_are_too_many_together(kind):
    parts = [shard(kind, range(start, start + 200), start) for start in (0, 100, 200)]
    assert {part._state.structure for part in parts} == {FULL}
    merged = parts[0].merge(*parts[1:])
    assert merged._state.structure == DIAGONAL
    assert merged.n_features_in_ > MOST_FULL
    assert (merged.covariance_ > 0.0).all()
    assert np.isfinite(merged.coef_).all()


def test_merge__with_a_shard_that_has_grown_beyond():
    small = shard(AROWClassifier(), range(50), 0)
    large = AROWClassifier()
    for k in range(100):
        large.learn_one({f"{k} {j}": 1.0 for j in range(4)}, ("no", "yes")[k % 2])
    assert (small._state.structure, large._state.structure) == (FULL, DIAGONAL)
    assert large.merge(small)._state.structure == DIAGONAL


def test_merge__of_covariances_that_were_asked_for_differently():
    X, y = widening()
    auto = AROWClassifier().partial_fit(X[:, :100], y, classes=[0, 1])
    other = AROWClassifier(covariance="diag").partial_fit(X[:, :100], y, classes=[0, 1])
    with pytest.raises(ValueError, match='not "full" and "diag"'):
        auto.merge(other)


@pytest.mark.parametrize("name", ["AROWClassifier", "SecondOrderPerceptron"])
def test_plain_learner__grows_as_the_estimator_does(name):
    X, y = widening()
    plain = PlainLearner.by_name(name, {})
    learned(plain, X, y, 64)
    same(plain.estimator(), learned(getattr(oblong, name)(), X, y, 64))


def test_improved_ellipsoid__balances_a_diagonal_that_was_full():
    X, y = widening()
    models = [ImprovedEllipsoidClassifier(b=1.0, c=0.9) for _ in range(2)]
    for size, model in zip((1, 100), models):
        learned(model, X, y, size)
    same(*models)
