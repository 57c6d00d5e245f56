"""BayesPointClassifier in scikit-learn: its estimator checks."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from oblong import BayesPointClassifier


@parametrize_with_checks(
    [
        BayesPointClassifier(),
        BayesPointClassifier(soft=0.5),
        BayesPointClassifier(kernel="linear"),
    ]
)
def test_estimator_checks(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore:.*draws leave:sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    [
        BayesPointClassifier(method="sampling", n_samples=200, random_state=0),
        BayesPointClassifier(method="sampling", n_samples=200, random_state=0, soft=0.5),
    ]
)
def test_estimator_checks_of_the_sampler(estimator, check):
    check(estimator)
