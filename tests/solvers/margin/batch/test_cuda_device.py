"""The batch solver on a CUDA device, where there is one, against the cores."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import config_context
from sklearn.datasets import make_classification

from oblong import RelativeMarginClassifier, RelativeMarginClassifierCV
from oblong.kernels import Kernel
from oblong.solvers.margin.batch.problem import MarginBatch, RowTiles

numba_cuda = pytest.importorskip("numba.cuda")
if not numba_cuda.is_available():
    pytest.skip("no CUDA device", allow_module_level=True)

LIBRARIES = ["cupy", "torch"]


def on_device(library, X):
    module = pytest.importorskip(library)
    return module.asarray(X, device="cuda") if library == "torch" else module.asarray(X)


def problem(n=3000, classes=3):
    X, y = make_classification(
        n, 6, n_informative=4, n_classes=classes, class_sep=0.7, random_state=0
    )
    return X.astype(np.float32), y


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(
    ("kernel", "bound"),
    [
        ("rbf", {"spread": 1.0}),
        ("linear", {"spread": 0.2}),
        ("poly", {"B": 1.5}),
        ("precomputed", {"spread": 0.2}),
        ("rbf", {"D": 1.0}),
        ("linear", {"D": 5.0}),
        ("poly", {"D": 5.0, "nu": 20.0}),
        ("rbf", {"D": 1.0, "nu": 0.5}),
    ],
)
def test_a_fit_is_that_of_the_cores(library, kernel, bound, monkeypatch):
    X, y = problem()
    if kernel == "precomputed":
        X = Kernel("rbf", 0.1)(X.astype(float))
    settings = {"kernel": kernel, "coef0": 1.0, **bound}
    here = RelativeMarginClassifier(**settings).fit(X, y)
    rows = on_device(library, X)
    # The cores do not search for bounds in its place.
    monkeypatch.setattr("oblong.batch.relative_margin.solve_variable_bound", None)
    with config_context(array_api_dispatch=True):
        there = RelativeMarginClassifier(**settings).fit(rows, y)
        labels = there.predict(rows)
        assert type(labels).__module__.partition(".")[0] == library
        assert type(there.dual_coef_).__module__.partition(".")[0] == library
    gaps = np.array([float(gap) for gap in there.dual_gap_])
    objectives = np.array([float(value) for value in there.objective_])
    assert there.converged_
    assert (gaps <= 1e-3).all()
    np.testing.assert_allclose(objectives, here.objective_, rtol=2e-3)
    bounds = np.array([float(value) for value in there.B_])
    np.testing.assert_allclose(bounds, here.B_, rtol=2e-2)
    same = np.array([int(label) for label in labels]) == here.predict(X)
    assert same.mean() >= 0.998


@pytest.mark.parametrize("library", LIBRARIES)
def test_columns_that_do_not_fit_give_the_same_solution(library):
    from oblong.solvers.margin.batch.cuda import CudaOptions, solve_batch_on_device

    X, y = problem(classes=2)
    order = np.argsort(y, kind="stable")
    split = int((y == 0).sum())
    batch = MarginBatch(
        RowTiles(Kernel("rbf", 0.2), on_device(library, X[order])),
        np.array([[[0, split], [split, len(y)]]]), np.array([[-1.0, 1.0]]), np.ones(len(y)),
        np.array([1.0, 10.0]), np.array([0.3]), tol=1e-4,
    )  # fmt: skip
    whole = solve_batch_on_device(batch)
    small = CudaOptions(memory_share=1e-4, working_set=256, sample_above=1000)
    part = solve_batch_on_device(batch, device=small)
    assert (part.status == 0).all()
    np.testing.assert_allclose(part.dual_objective, whole.dual_objective, rtol=1e-4)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(
    "settings",
    [
        {"gammas": ("scale", 0.3), "spreads": (1.0, 0.3)},
        {"kernel": "linear", "spreads": (1.0,), "class_weight": "balanced"},
    ],
    ids=["rbf", "linear"],
)
def test_a_search_has_the_scores_of_the_cores(library, settings):
    X, y = problem()
    grid = {"Cs": (0.1, 1.0), "cv": 3, "fold_tol": 1e-3, **settings}
    here = RelativeMarginClassifierCV(**grid).fit(X, y)
    with config_context(array_api_dispatch=True):
        there = RelativeMarginClassifierCV(**grid).fit(on_device(library, X), y)
    for name in ("mean_test_score", "mean_relative_margin"):
        both = [model.cv_results_[name] for model in (here, there)]
        np.testing.assert_allclose(*both, atol=2e-3)


@pytest.mark.parametrize("library", LIBRARIES)
def test_without_dispatch_there_is_a_clear_error(library):
    X, y = problem(n=100)
    with pytest.raises(TypeError, match="array_api_dispatch"):
        RelativeMarginClassifier().fit(on_device(library, X), y)
