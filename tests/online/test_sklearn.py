"""Online learners: scikit-learn's estimator checks."""

from __future__ import annotations

import warnings

from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from tests.online.learners import VARIETY


@parametrize_with_checks(VARIETY)
def test_estimator_checks(estimator, check):
    with warnings.catch_warnings():
        # The data of some checks is not separable.
        warnings.simplefilter("ignore", ConvergenceWarning)
        check(estimator)
