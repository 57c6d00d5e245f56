"""A model does not depend on whether rows are dense or sparse, nor on SciPy's integers."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import oblong
from oblong.svm import SVC, LinearSVC

RNG = np.random.default_rng(0)
X = RNG.integers(-4, 5, size=(40, 5)) / 2.0 + np.array([6.0, 0.0, 0.0, 0.0, 0.0])
X[RNG.random(X.shape) < 0.4] = 0.0
Y = np.array(["no", "yes"])[(X[:, 1] + 0.3 * RNG.normal(size=40) > 0).astype(int)]

MODELS = [
    oblong.BayesPointClassifier(),
    oblong.EllipsoidalKernelClassifier(),
    oblong.EllipsoidalSVC(),
    oblong.EllipsoidalSVC(normalize=True, kernel="poly", coef0=1.0, rank=10),
    oblong.KernelFisherClassifier(),
    oblong.RelativeMarginClassifier(),
    oblong.SigmaSVC(),
    oblong.UniversumSVC(),
    SVC(),
    LinearSVC(random_state=0),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_rows_of_the_other_kind_are_predicted(model):
    for rows, other in ((X, sp.csr_array(X)), (sp.csr_array(X), X)):
        model.fit(rows, Y)
        np.testing.assert_allclose(
            model.decision_function(other), model.decision_function(rows), rtol=1e-8, atol=1e-8
        )


def test_metric_between_dense_and_sparse_rows():
    model = oblong.EllipsoidalSVC(r=0.9).fit(X, Y)
    expected = model.metric(X[:9], X[9:20])
    for Z in (sp.csr_array(X[9:20]), X[9:20]):
        np.testing.assert_allclose(model.metric(sp.csr_array(X[:9]), Z), expected, atol=1e-8)


@pytest.mark.parametrize("model", MODELS[-5:], ids=lambda model: type(model).__name__)
def test_indices_of_64_bits(model):
    rows = sp.csr_array(X)
    wide = sp.csr_array(
        (rows.data, rows.indices.astype(np.int64), rows.indptr.astype(np.int64)), shape=X.shape
    )
    assert wide.indices.dtype == np.int64
    expected = model.fit(rows, Y).decision_function(rows)
    for given in (wide, wide.tocsc(), wide.tocoo()):
        np.testing.assert_array_equal(model.fit(given, Y).decision_function(given), expected)
