"""Containers, precision, threads and memory must not change the machine."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from oblong import (
    KernelFisherClassifier,
    LinearRelativeMarginClassifier,
    RelativeMarginClassifier,
    SigmaSVC,
)
from tests.batch.data import clouds, fit


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf"])
@pytest.mark.parametrize("container", [sp.csr_matrix, sp.csr_array, sp.csc_matrix, sp.coo_matrix])
def test_sparse_equals_dense(kernel, container):
    X, y = clouds(80, d=6, classes=3)
    X[np.abs(X) < 0.6] = 0
    dense = fit(X, y, kernel=kernel, gamma=0.3)
    sparse = fit(container(X), y, kernel=kernel, gamma=0.3)
    expected = dense.decision_function(X)
    np.testing.assert_allclose(sparse.decision_function(container(X)), expected, atol=1e-5)
    np.testing.assert_allclose(sparse.decision_function(X), expected, atol=1e-5)
    np.testing.assert_allclose(dense.decision_function(container(X)), expected, atol=1e-5)
    assert sp.issparse(sparse.support_vectors_)
    np.testing.assert_allclose(
        sparse.support_vectors_.toarray(), X[sparse.support_], rtol=0, atol=0
    )


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_sparse_gamma_scale(kernel):
    X, y = clouds(60)
    dense, sparse = fit(X, y, kernel=kernel), fit(sp.csr_array(X), y, kernel=kernel)
    np.testing.assert_allclose(sparse.decision_function(X), dense.decision_function(X), atol=1e-5)


@pytest.mark.parametrize(
    "arrange",
    [
        np.asfortranarray,
        lambda X: np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3],
        lambda X: X[::-1].copy()[::-1],
        lambda X: X.tolist(),
    ],
    ids=["fortran", "strided", "reversed", "list"],
)
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_memory_order(kernel, arrange):
    X, y = clouds(60)
    one, other = fit(X, y, kernel=kernel), fit(arrange(X), y, kernel=kernel)
    assert np.array_equal(one.dual_coef_, other.dual_coef_)
    assert np.array_equal(one.decision_function(X), one.decision_function(arrange(X)))


def test_inputs_are_not_changed():
    X, y = clouds(60)
    weight = np.ones(60)
    before = X.copy(), y.copy()
    for array in (X, y, weight):
        array.setflags(write=False)
    fit(X, y, weight).predict(X)
    assert np.array_equal(X, before[0])
    assert np.array_equal(y, before[1])


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf"])
def test_single_precision(kernel):
    X, y = clouds(100, classes=3)
    exact = fit(X, y, kernel=kernel, tol=1e-4)
    single = fit(X.astype(np.float32), y, kernel=kernel, tol=1e-4)
    assert single.support_vectors_.dtype == np.float32
    scale = np.abs(exact.decision_function(X)).max()
    np.testing.assert_allclose(
        single.decision_function(X.astype(np.float32)),
        exact.decision_function(X),
        atol=2e-3 * scale,
    )
    single.set_params(decision_function_shape="ovo")
    assert single.decision_function(X.astype(np.float32)).dtype == np.float32


@pytest.mark.parametrize(
    "machine",
    [
        RelativeMarginClassifier(kernel="linear"),
        LinearRelativeMarginClassifier(),
        SigmaSVC(kernel="linear"),
        KernelFisherClassifier(kernel="linear"),
    ],
    ids=lambda machine: type(machine).__name__,
)
@pytest.mark.parametrize("d", [3, 60])
def test_single_precision_far_from_the_origin(machine, d):
    """Rows of single precision mean what they are, not what a rounded product makes of them."""
    X, y = clouds(40, d=d)
    far = (X + 1e5).astype(np.float32)
    outputs = clone(machine).fit(far, y).decision_function(far)
    assert outputs.dtype == np.float32
    double = far.astype(np.float64)
    expected = clone(machine).fit(double, y).decision_function(double)
    np.testing.assert_allclose(outputs, expected, atol=1e-3)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_frames(frame):
    X, y = clouds(60)
    names = ["length", "width", "height"]
    table = frame(dict(zip(names, X.T, strict=True)))
    machine = fit(table, y)
    assert list(machine.feature_names_in_) == names
    assert machine.n_features_in_ == 3
    assert np.array_equal(machine.decision_function(table), fit(X, y).decision_function(X))
    with pytest.warns(UserWarning, match="feature names"):
        machine.predict(X)
    with pytest.raises(ValueError, match="feature names"):
        machine.predict(table[["width", "length", "height"]])
    assert not hasattr(fit(X, y), "feature_names_in_")


def test_series_labels_and_weights():
    X, y = clouds(60)
    weight = np.linspace(0.5, 2, 60)
    machine = fit(
        pd.DataFrame(X, columns=list("abc")),
        pd.Series(y, index=np.arange(60) + 7),
        pd.Series(weight),
    )
    assert np.array_equal(machine.dual_coef_, fit(X, y, weight).dual_coef_)


# Threads, memory, repetition ----------------------------------------------------------------------


def test_jobs_give_the_same_machine():
    X, y = clouds(120, classes=4)
    one, two = fit(X, y, n_jobs=1), fit(X, y, n_jobs=2)
    assert np.array_equal(one.dual_coef_, two.dual_coef_)
    assert np.array_equal(one.intercept_, two.intercept_)
    assert np.array_equal(one.n_iter_, two.n_iter_)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_tiny_cache_gives_the_same_machine(kernel):
    X, y = clouds(300, seed=6)
    roomy, tiny = fit(X, y, kernel=kernel), fit(X, y, kernel=kernel, cache_size=0.05)
    np.testing.assert_allclose(tiny.decision_function(X), roomy.decision_function(X), atol=1e-4)


def test_repeated_fits_are_identical():
    X, y = clouds(120, classes=3)
    one, two = fit(X, y), fit(X, y)
    assert np.array_equal(one.dual_coef_, two.dual_coef_)
    assert np.array_equal(one.decision_function(X), two.decision_function(X))


def test_prediction_of_one_row_equals_that_of_many():
    X, y = clouds(80, classes=3)
    machine = fit(X, y)
    whole = machine.decision_function(X)
    np.testing.assert_allclose(
        np.vstack([machine.decision_function(row[None]) for row in X]), whole, atol=1e-10
    )
