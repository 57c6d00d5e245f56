"""What must not change a prediction: where the rows are, their unit, and a constant column.

The rows lie on a grid, so that a shift of up to 1e9 is exact and another data set is not the reason
for another prediction.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oblong import (
    EllipsoidalKernelClassifier,
    EllipsoidalSVC,
    KernelFisherClassifier,
    LinearRelativeMarginClassifier,
    MinimumVolumeEllipsoid,
    RelativeMarginClassifier,
    SigmaSVC,
    UniversumSVC,
)

TIGHT = {"tol": 1e-6}
# Estimators whose outputs do not change when all rows are shifted.
SHIFTED = {
    "bound, linear": lambda: RelativeMarginClassifier(kernel="linear", B=1.2, **TIGHT),
    "bound, rbf": lambda: RelativeMarginClassifier(B=1.2, gamma=0.1, **TIGHT),
    "spread, linear": lambda: RelativeMarginClassifier(kernel="linear", spread=0.3, **TIGHT),
    "SVM, linear": lambda: RelativeMarginClassifier(kernel="linear", spread=1.0, **TIGHT),
    "D, linear": lambda: RelativeMarginClassifier(kernel="linear", D=2.0, **TIGHT),
    "D and nu, rbf": lambda: RelativeMarginClassifier(D=2.0, nu=3.0, gamma=0.1, **TIGHT),
    "linear bound": lambda: LinearRelativeMarginClassifier(B=1.2, **TIGHT),
    "linear spread": lambda: LinearRelativeMarginClassifier(spread=0.3, **TIGHT),
    "linear D": lambda: LinearRelativeMarginClassifier(D=2.0, nu=3.0, **TIGHT),
    "sigma, linear": lambda: SigmaSVC(kernel="linear", D=0.7, **TIGHT),
    "sigma, rbf": lambda: SigmaSVC(D=0.7, gamma=0.1, **TIGHT),
    "universum, linear": lambda: UniversumSVC(kernel="linear", **TIGHT),
    "universum, rbf": lambda: UniversumSVC(gamma=0.1, **TIGHT),
    "fisher, linear": lambda: KernelFisherClassifier(kernel="linear"),
    "fisher, rbf": lambda: KernelFisherClassifier(gamma=0.1),
    "ellipsoid, linear": lambda: EllipsoidalKernelClassifier(kernel="linear", C=10.0, **TIGHT),
    "ellipsoid, rbf": lambda: EllipsoidalKernelClassifier(C=10.0, gamma=0.1, **TIGHT),
}
# Those whose outputs do not change when all rows are multiplied by s, given s; C goes along.
SCALED = {
    "bound, linear": lambda s: RelativeMarginClassifier(
        kernel="linear", B=1.2, C=1 / s**2, **TIGHT
    ),
    "spread, rbf": lambda s: RelativeMarginClassifier(spread=0.3, **TIGHT),
    "D, linear": lambda s: RelativeMarginClassifier(
        kernel="linear", D=2.0 / s**2, C=1 / s**2, **TIGHT
    ),
    "linear bound": lambda s: LinearRelativeMarginClassifier(B=1.2, C=1 / s**2, **TIGHT),
    "sigma, rbf": lambda s: SigmaSVC(D=0.7, **TIGHT),
    "universum, rbf": lambda s: UniversumSVC(**TIGHT),
    "fisher, linear": lambda s: KernelFisherClassifier(kernel="linear", alpha=s**2),
    "fisher, rbf": lambda s: KernelFisherClassifier(),
    "ellipsoid, linear": lambda s: EllipsoidalKernelClassifier(kernel="linear", C=10.0, **TIGHT),
    "ellipsoid, rbf": lambda s: EllipsoidalKernelClassifier(C=10.0, **TIGHT),
    "e-SVM, linear": lambda s: EllipsoidalSVC(kernel="linear", fit_intercept=False),
    "e-SVM, rbf": lambda s: EllipsoidalSVC(),
}


def rows(seed: int, n: int = 60) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows on a grid, their labels, and rows of no class."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    X = rng.normal(size=(n, 4)) + y[:, None] * [1.5, 0.5, 0.0, 0.0]
    # Of different extent, so that the columns do not look alike.
    X *= [1.0, 4.0, 0.25, 1.0]
    return np.round(64 * X) / 64, y, np.round(64 * rng.normal(size=(8, 4))) / 64


def outputs(model, X, y, universum, new):
    extra = {"X_universum": universum} if isinstance(model, UniversumSVC) else {}
    return model.fit(X, y, **extra).decision_function(new)


def assert_same(found, expected):
    """Outputs to three digits, and labels wherever these decide."""
    size = np.abs(expected).max()
    np.testing.assert_allclose(found, expected, atol=1e-3 * size)
    decided = np.abs(expected) > 1e-3 * size
    np.testing.assert_array_equal(found[decided] > 0, expected[decided] > 0)


offsets = st.lists(
    st.sampled_from([0, 1, -1000, 10**6, -(10**8), 10**9]), min_size=4, max_size=4
).map(np.array)
scales = st.integers(-8, 8).map(lambda power: 10.0**power)
dtypes = st.sampled_from([np.float64, np.float32])
few = settings(max_examples=12)


@pytest.mark.parametrize("name", SHIFTED)
@given(offset=offsets, seed=st.integers(0, 3))
@few
def test_shift(name, offset, seed):
    X, y, universum = rows(seed)
    new = X[:20] + 1.0 / 64
    expected = outputs(SHIFTED[name](), X, y, universum, new)
    found = outputs(SHIFTED[name](), X + offset, y, universum + offset, new + offset)
    assert_same(found, expected)


@pytest.mark.parametrize("name", SCALED)
@given(scale=scales, seed=st.integers(0, 3), dtype=dtypes)
@few
def test_scale(name, scale, seed, dtype):
    X, y, universum = (part.astype(dtype) for part in rows(seed))
    expected = outputs(SCALED[name](1.0), X, y, universum, X)
    larger = (X * dtype(scale), y, universum * dtype(scale), X * dtype(scale))
    found = outputs(SCALED[name](scale), *larger)
    # The weight vector of the e-SVM has length one whatever the unit, so its outputs have the unit.
    assert_same(found / scale if name == "e-SVM, linear" else found, expected)


@pytest.mark.parametrize("name", SHIFTED)
@given(constant=st.sampled_from([0.0, 1.0, -1e3, 1e6, 1e9]), seed=st.integers(0, 3))
@few
def test_constant_column(name, constant, seed):
    X, y, universum = rows(seed)
    expected = outputs(SHIFTED[name](), X, y, universum, X)
    wider = [np.insert(part, 2, constant, axis=1) for part in (X, universum)]
    assert_same(outputs(SHIFTED[name](), wider[0], y, wider[1], wider[0]), expected)


@given(offset=offsets, scale=scales, constant=st.booleans(), seed=st.integers(0, 3))
@few
def test_ellipsoid(offset, scale, constant, seed):
    X, _, _ = rows(seed)
    expected = MinimumVolumeEllipsoid(coverage=0.8).fit(X).mahalanobis(X)
    moved = (X + offset) * scale
    if constant:
        moved = np.insert(moved, 1, 1e9, axis=1)
    found = MinimumVolumeEllipsoid(coverage=0.8).fit(moved).mahalanobis(moved)
    np.testing.assert_allclose(found, expected, atol=1e-3)
