"""How many threads a fit takes, and how many BLAS has meanwhile."""

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.datasets import make_classification
from threadpoolctl import threadpool_limits

from oblong import LinearRelativeMarginClassifier, RelativeMarginClassifier
from oblong._core.threads import available_threads
from oblong.batch._workers import in_threads, threads_of


@pytest.mark.parametrize("limit", [1, 2])
def test_the_default_is_what_blas_may_use(limit):
    with threadpool_limits(limit, user_api="blas"):
        assert threads_of(None) == limit
        assert threads_of(1) == 1
        assert threads_of(3) == 3


def test_joblib_sets_the_default_too():
    with threadpool_limits(1, user_api="blas"), parallel_config("threading", n_jobs=3):
        assert threads_of(None) == 3


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_fit__leaves_the_threads_of_blas_as_they_were(classes, n_jobs):
    # Wide rows, whose products BLAS spreads over its threads.
    X, y = make_classification(
        90, 300, n_informative=10, n_classes=classes, random_state=0, n_redundant=0
    )
    model = RelativeMarginClassifier(n_jobs=n_jobs)
    with threadpool_limits(2, user_api="blas"):
        model.fit(X, y)
        assert available_threads() == 2
    assert np.all(model.dual_gap_ <= 1e-3)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_results_are_in_the_order_of_the_tasks_and_errors_get_out(n_jobs):
    with threadpool_limits(2, user_api="blas"):
        found = in_threads(lambda a, b: (a - b, available_threads()), [(3, 1), (5, 2)], n_jobs)
        assert [difference for difference, _ in found] == [2, 3]
        assert {threads for _, threads in found} == {2 // n_jobs}
        with pytest.raises(ZeroDivisionError):
            in_threads(lambda a: 1 // a, [(1,), (0,), (2,)], n_jobs)
        assert available_threads() == 2


@pytest.mark.parametrize("solver", ["interior-point", "descent"])
def test_a_linear_fit_does_not_depend_on_the_threads_of_blas(solver):
    X, y = make_classification(300, 30, random_state=0)
    found = []
    for limit in (1, 2):
        with threadpool_limits(limit, user_api="blas"):
            model = LinearRelativeMarginClassifier(solver=solver, random_state=0).fit(X, y)
        found.append(model.decision_function(X))
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)
