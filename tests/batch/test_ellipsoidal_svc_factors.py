"""The matrices of a kernel machine, which are computed when something asks for them."""

from __future__ import annotations

import copy
import io
import pickle
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pytest

import oblong
from oblong import EllipsoidalSVC


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(240, 3))
    return X, (X[:, 0] + 0.5 * rng.normal(size=240) > 0) + (X[:, 1] > 0.8)


def fitted(data, n_classes, **settings):
    X, y = data
    return EllipsoidalSVC(**settings).fit(X, np.minimum(y, n_classes - 1))


def waits(model):
    return "_factors" not in vars(model)


def dumped(model, tmp_path):
    return pickle.loads(pickle.dumps(model))


def with_joblib(model, tmp_path):
    file = io.BytesIO()
    joblib.dump(model, file)
    file.seek(0)
    return joblib.load(file)


def saved(model, tmp_path):
    oblong.save(model, tmp_path / "model.oblong")
    return oblong.load(tmp_path / "model.oblong")


def copied(model, tmp_path):
    return copy.deepcopy(model)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("way", [dumped, with_joblib, saved, copied])
def test_copies_have_the_matrices(data, tmp_path, way, n_classes):
    model = fitted(data, n_classes, warm_start=way is saved)
    assert waits(model)
    model.predict(data[0])
    assert waits(model)
    other = way(model, tmp_path)
    assert type(vars(other)["_factors"]) is list
    X = data[0][:20]
    np.testing.assert_array_equal(other.metric(X), model.metric(X))
    np.testing.assert_array_equal(other.ellipsoid_norm(X), model.ellipsoid_norm(X))
    np.testing.assert_array_equal(other.log_det(), model.log_det())


def test_matrices_are_those_of_the_solution(data):
    X, _ = data
    model = fitted(data, 2)
    assert waits(model)
    phi = model._map.transform(X)
    lengths = np.linalg.norm(phi, axis=1)
    norms = model.ellipsoid_norm(X)
    # The weights are known up to a factor, which the effective dimension tells.
    alpha = np.zeros(len(X))
    alpha[model.support_] = np.abs(model.dual_coef_[0])
    alpha *= model._r * model.effective_dim_[0] / (alpha @ (norms / lengths))
    M = phi.T @ ((alpha / lengths)[:, None] * phi)
    M += (1.0 - model._r) * np.eye(len(M))
    expected = model._r * np.einsum("ij,ji->i", phi, np.linalg.solve(M, phi.T))
    np.testing.assert_allclose(norms, expected, rtol=1e-5)


def test_many_threads_may_ask_at_once(data):
    model = fitted(data, 3)
    X = data[0][:5]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: model.metric(X), range(8)))
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], rtol=1e-12)
    assert not waits(model)


def test_matrices_that_are_known_do_not_wait(data):
    model = fitted(data, 2, kernel="linear")
    assert not waits(model)
    assert model.B_.shape == (3, 3)


def test_rows_of_the_user_may_change_after_a_fit():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(260, 250))
    y = X[:, 0] > 0
    model = EllipsoidalSVC(kernel="linear").fit(X, y)
    B = EllipsoidalSVC(kernel="linear").fit(X.copy(), y).B_
    X[:] = 0.0
    np.testing.assert_array_equal(model.B_, B)


def test_no_matrix_before_a_fit():
    assert not hasattr(EllipsoidalSVC(), "_factors")
    assert "_factors" not in vars(pickle.loads(pickle.dumps(EllipsoidalSVC())))
