"""What the searches share."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_iris

from oblong import MarginRegressorCV, RelativeMarginClassifierCV


@pytest.mark.parametrize(
    "model",
    [MarginRegressorCV(Cs=(1.0, 10.0)), RelativeMarginClassifierCV(Cs=(1.0,), spreads=(1, 0.2))],
    ids=lambda model: type(model).__name__,
)
def test_folds_are_masks_lists_or_numbers(model):
    X, y = load_iris(return_X_y=True)
    half = np.arange(150) % 2 == 0
    rows, others = np.flatnonzero(half), np.flatnonzero(~half)
    expected = model.set_params(cv=[(rows, others)]).fit(X, y).cv_results_
    for split in ((half, ~half), (rows.tolist(), others.tolist()), (rows - 150, others)):
        found = model.set_params(cv=[split]).fit(X, y).cv_results_
        np.testing.assert_array_equal(found["split0_test_score"], expected["split0_test_score"])
