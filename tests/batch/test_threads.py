"""How many threads a fit takes, and how many BLAS has meanwhile."""

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.datasets import make_classification
from threadpoolctl import threadpool_limits

from oblong import RelativeMarginClassifier
from oblong._core.threads import available_threads
from oblong.batch._workers import threads_of


@pytest.mark.parametrize("limit", [1, 2])
def test_the_default_is_what_blas_may_use(limit):
    with threadpool_limits(limit, user_api="blas"):
        assert threads_of(None) == limit
        assert threads_of(1) == 1
        assert threads_of(3) == 3


def test_joblib_sets_the_default_too():
    with threadpool_limits(1, user_api="blas"), parallel_config("threading", n_jobs=3):
        assert threads_of(None) == 3


@pytest.mark.parametrize(
    ("classes", "n_jobs", "side_by_side", "blas"), [(2, 1, 1, 1), (2, 2, 1, 2), (3, 2, 2, 1)]
)
def test_threads_share_pairs_and_blas_has_the_others(
    classes, n_jobs, side_by_side, blas, monkeypatch
):
    # Wide rows, whose products BLAS spreads over its threads.
    X, y = make_classification(
        90, 300, n_informative=10, n_classes=classes, random_state=0, n_redundant=0
    )
    seen = []
    solve = RelativeMarginClassifier._solve_pair

    def spy(self, *given):
        seen.append(available_threads())
        return solve(self, *given)

    monkeypatch.setattr(RelativeMarginClassifier, "_solve_pair", spy)
    model = RelativeMarginClassifier(n_jobs=n_jobs)
    with threadpool_limits(2, user_api="blas"):
        model.fit(X, y)
        assert available_threads() == 2
        assert model._shared_threads(len(model.intercept_)) == (side_by_side, blas)
    assert seen == [blas] * len(model.intercept_)
    assert np.all(model.dual_gap_ <= 1e-3)
