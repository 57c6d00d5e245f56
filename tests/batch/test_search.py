"""What the searches share."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_iris

from oblong import CalibratedMarginClassifier, MarginRegressorCV, RelativeMarginClassifierCV


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


def test_search__says_what_is_wrong_with_a_grid_or_folds():
    X, y = np.random.default_rng(0).normal(size=(20, 2)), np.arange(20) % 2
    for kind in (RelativeMarginClassifierCV, MarginRegressorCV):
        with pytest.raises(ValueError, match="cv gives no folds"):
            kind(cv=[]).fit(X, y)
        with pytest.raises(ValueError, match="gammas must be a list"):
            kind(gammas=np.array(1.0)).fit(X, y)
        with pytest.raises(ValueError, match="Cs must be a list of numbers"):
            kind(Cs=np.array(["a"])).fit(X, y)
    with pytest.raises(ValueError, match="cv gives no folds"):
        CalibratedMarginClassifier(cv=[]).fit(X, y)
