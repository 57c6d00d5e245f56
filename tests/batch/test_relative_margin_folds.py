"""Folds of RelativeMarginClassifierCV: their kernel matrices and their scores."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.model_selection import (
    KFold,
    PredefinedSplit,
    RepeatedStratifiedKFold,
    StratifiedShuffleSplit,
    TimeSeriesSplit,
)

from oblong import RelativeMarginClassifierCV
from oblong.batch._search_kernel import SearchKernel
from oblong.kernels import Kernel
from tests.batch.data import clouds
from tests.batch.searches import EXACT, plain_search, same_scores


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    "kernel",
    [
        Kernel("linear"),
        Kernel("rbf", 0.7),
        Kernel("sigmoid", 0.2, coef0=-0.5),
        *(Kernel("poly", 0.3, degree, 0.5) for degree in range(8)),
    ],
)
def test_kernel_matrices_of_a_fold(kernel, sparse):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(14, 4))
    train, test = np.split(rng.permutation(14), [9])
    every = SearchKernel(kernel.name, sp.csr_matrix(X) if sparse else X)
    K, K_test = (every.matrix(kernel, part, train) for part in (train, test))
    if kernel.name == "linear" and not sparse:
        X = X - X.mean(axis=0)
    np.testing.assert_allclose(K, kernel(X[train]), atol=1e-12)
    np.testing.assert_allclose(K_test, kernel(X[test], X[train]), atol=1e-12)


SPLITTERS = {
    "in parts": KFold(4, shuffle=True, random_state=0),
    "in parts, some rows never tested": PredefinedSplit(np.arange(90) % 5 - 1),
    "one after the other": TimeSeriesSplit(3),
    "at random": StratifiedShuffleSplit(4, test_size=0.5, random_state=0),
    "in parts, twice": RepeatedStratifiedKFold(n_splits=4, n_repeats=2, random_state=0),
}


@pytest.mark.parametrize("name", SPLITTERS)
@pytest.mark.parametrize("jobs", [1, 2])
def test_folds_of_any_splitter_score_as_those_of_a_plain_search(name, jobs):
    splitter = SPLITTERS[name]
    X, y = clouds(90, classes=3)
    words = np.array(["red", "green", "blue"], dtype=object)[y]
    grid = {"Cs": (0.3, 30.0), "gammas": (0.3, "auto", 2.0), "spreads": (1.0, 0.3)}
    ours = RelativeMarginClassifierCV(**grid, **EXACT, cv=splitter, tol=1e-7, n_jobs=jobs)
    same_scores(ours.fit(X, words), plain_search(grid, cv=splitter, tol=1e-7).fit(X, words))


@pytest.mark.parametrize("classes", [2, 4])
def test_rows_without_weight_are_not_there(classes):
    X, y = clouds(120, classes=classes)
    weights = np.where(np.arange(120) % 7 == 3, 0.0, 1.0 + np.arange(120) % 3)
    kept = weights > 0
    cv = KFold(3, shuffle=True, random_state=1)
    splits = [
        tuple(np.flatnonzero(np.isin(np.flatnonzero(kept), part)) for part in split)
        for split in cv.split(X)
    ]
    grid = {"Cs": (0.3, 30.0), "gammas": (0.5,), "spreads": (1.0, 0.3)}
    params = {**grid, **EXACT, "tol": 1e-7}
    every = RelativeMarginClassifierCV(**params, cv=cv).fit(X, y, weights)
    some = RelativeMarginClassifierCV(**params, cv=splits).fit(X[kept], y[kept], weights[kept])
    same_scores(every, some)
