"""Sketched covariances."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from oblong import AROWClassifier, ConfidenceWeightedClassifier, ImprovedEllipsoidClassifier
from tests.online.learners import SECOND_ORDER, clouds

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.mark.parametrize("name", SECOND_ORDER)
@pytest.mark.parametrize("classes", [2, 3])
def test_a_wide_sketch_is_exact(name, classes):
    """With as many directions as features nothing is ever lost."""
    X, y = clouds(150, classes=classes, noise=0.0, seed=2)
    full = clone(SECOND_ORDER[name]).partial_fit(X, y, classes=range(classes))
    sketch = clone(SECOND_ORDER[name]).set_params(covariance="sketch", sketch_size=7)
    sketch.partial_fit(X, y, classes=range(classes))
    if "IELLIP" not in name or classes == 2:
        assert sketch.n_updates_ == full.n_updates_
        np.testing.assert_allclose(sketch.coef_, full.coef_, rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(
            sketch.margin_variance(X), full.margin_variance(X), rtol=1e-4, atol=1e-9
        )
        diagonal = np.diagonal(full.covariance_, axis1=-2, axis2=-1)
        np.testing.assert_allclose(sketch.covariance_, diagonal, rtol=1e-4, atol=1e-9)


def test_the_diagonal_of_the_precision_is_exact():
    X, y = clouds(300, d=12)
    model = AROWClassifier(covariance="sketch", sketch_size=3, fit_intercept=False)
    exact = np.ones(12)
    for i in range(300):
        before = model.n_updates_ if i else 0
        model.partial_fit(X[i : i + 1], y[i : i + 1], classes=[0, 1])
        exact += (model.n_updates_ - before) * X[i] ** 2
    state = model._state
    B, rank = state.covariance[0, 1:13], state.ranks[0]
    assert 3 <= rank <= 7
    D = 1 / state.table[1:, 1]
    np.testing.assert_allclose(D + (B**2).sum(axis=1), exact, rtol=1e-10)
    assert (D >= 1 - 1e-12).all()
    S = np.linalg.inv(np.diag(D) + B @ B.T)
    np.testing.assert_allclose(model.covariance_, S.diagonal(), rtol=1e-9)
    np.testing.assert_allclose(model.margin_variance(X), np.einsum("ij,jk,ik->i", X, S, X))


def test_between_full_and_diagonal():
    """Few strong directions: a sketch of as many does nearly as well as the full shape."""
    errors = {}
    for seed in range(3):
        rng = np.random.default_rng(seed)
        F = rng.normal(size=(5, 80))
        X = rng.normal(size=(3000, 5)) @ F + 0.3 * rng.normal(size=(3000, 80))
        y = (X @ rng.normal(size=80) * 0.1 + X[:, 0] - X[:, 1] > 0).astype(int)
        for covariance in ("full", "sketch", "diag"):
            model = AROWClassifier(covariance=covariance, sketch_size=8)
            model.partial_fit(X[:1500], y[:1500], classes=[0, 1])
            errors.setdefault(covariance, []).append(1 - model.score(X[1500:], y[1500:]))
    mean = {k: np.mean(v) for k, v in errors.items()}
    assert mean["full"] <= mean["sketch"] + 0.005 <= mean["diag"] + 0.01


@pytest.mark.parametrize("classes", [2, 3])
def test_merged_sketches(classes):
    X, y = clouds(400, classes=classes)
    pair = {}
    for covariance in ("full", "sketch"):
        models = [
            AROWClassifier(covariance=covariance, sketch_size=7).partial_fit(
                X[i::4], y[i::4], classes=range(classes)
            )
            for i in range(4)
        ]
        pair[covariance] = models[0].merge(*models[1:])
    np.testing.assert_allclose(pair["sketch"].coef_, pair["full"].coef_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(
        pair["sketch"].margin_variance(X), pair["full"].margin_variance(X), rtol=1e-6
    )
    pair["sketch"].partial_fit(X, y)


# Noise --------------------------------------------------------------------------------------------


def noise(n, d=10, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, d))
    y = (Z @ rng.normal(size=(d, classes))).argmax(axis=1)
    wrong = rng.random(n) < 0.2
    y[wrong] = rng.integers(0, classes, wrong.sum())
    return Z * np.geomspace(1.0, 100.0, d), y


@pytest.mark.parametrize("name", SECOND_ORDER)
@pytest.mark.parametrize("classes", [2, 3])
def test_sketches_survive_noise(name, classes):
    X, y = noise(10_000, classes=classes)
    model = clone(SECOND_ORDER[name]).set_params(covariance="sketch", sketch_size=4)
    model.partial_fit(X, y, classes=range(classes))
    before = model.n_updates_
    model.partial_fit(X, y)
    # The learner still learns: hard rules change at more than half of the rows.
    assert model.n_updates_ - before > (5_000 if "CW-" in name and name[0] != "S" else 500)
    assert model.n_skipped_ == 0
    S = model.covariance_
    assert np.isfinite(S).all()
    assert np.isfinite(model.coef_).all()
    assert (S > 1e-30).all()
    assert (S < 1e30).all()
    assert (model.margin_variance(X[:50]) > 0.0).all()


def test_the_floor_of_a_sketch():
    """Precisions stay between the initial one and that of the floor, and it is said so."""
    X, y = noise(5_000)
    X[:, 3] = 0.0
    model = ConfidenceWeightedClassifier(covariance="sketch", sketch_size=4)
    with pytest.warns(ConvergenceWarning, match="separable"):
        model.partial_fit(X, y, classes=[0, 1])
    state = model._state
    precisions = state.table[:, 2]
    assert precisions[4] == 1.0
    assert state.table[4, 1] == 1.0
    assert precisions.min() >= 1.0
    # It is looked at when the sketch is full.
    assert 1e9 < precisions.max() < 1e14
    rank = state.ranks[0]
    B, D = state.covariance[0, :11, :rank], 1.0 / state.table[:11, 1]
    L = state.covariance[0, 11:][:rank, :rank]
    np.testing.assert_allclose(L @ L.T, np.eye(rank) + B.T @ (B / D[:, None]), rtol=1e-6)


def test_the_scale_of_a_sketch_is_free():
    """A constant c multiplies σ and the precision without end; nothing but their ratio counts."""
    X, y = noise(16_000, d=5)
    X[:, 2] = 0.0
    params = {"b": 1.0, "c": 0.1}
    full = ImprovedEllipsoidClassifier(**params).partial_fit(X, y, classes=[0, 1])
    sketch = ImprovedEllipsoidClassifier(covariance="sketch", sketch_size=6, **params)
    sketch.partial_fit(X, y, classes=[0, 1])
    # Without a change of the factors they would be at (1 - c)⁻ᵏ.
    assert full.n_updates_ * -np.log10(0.9) > 350
    state = sketch._state
    assert 1e-20 < state.scale[0, 0] < 1e20
    assert state.table[:, 2].min() > 1e-80
    assert state.table[:, 2].max() < 1e80
    assert abs(sketch.n_updates_ - full.n_updates_) < 0.01 * full.n_updates_
    seen = [0, 1, 3, 4]
    ratio = sketch.covariance_[seen] / full.covariance_.diagonal()[seen]
    # Which rows are updates depends on the last digits after so many.
    assert ratio.max() < 10.0 * ratio.min()
