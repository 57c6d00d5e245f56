from __future__ import annotations

import os
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from joblib import delayed
from sklearn.metrics import balanced_accuracy_score, roc_auc_score
from sklearn.model_selection import GridSearchCV, RepeatedStratifiedKFold, StratifiedKFold
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC

from oblong import AROWClassifier
from oblong.cli.comparison.models import Model, select
from oblong.cli.comparison.plan import Remaining
from oblong.cli.comparison.projection import MAX_POINTS, project
from oblong.cli.comparison.protocol import (
    choose,
    compare,
    evaluate,
    fit_with,
    in_parallel,
    make_scaler,
    width_unit,
)
from oblong.cli.comparison.results import Settings
from oblong.cli.shared.options import RunError
from oblong.datasets import DataFileError, Dataset, load, make_tilted_gaussians


def dataset(n=60, **changes):
    X, y = make_tilted_gaussians(n, random_state=0)
    fields = {
        "X": X,
        "y": np.where(y == 1, "near", "far"),
        "feature_names": ("u", "v"),
        "target_names": ("far", "near"),
        "name": "points",
    }
    return Dataset(**{**fields, **changes})


def test_probabilities_without_an_order_do_not_decide_the_auc():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 5))
    y = X[:, 0] + 0.5 * rng.normal(size=600) > 0
    train, test = np.arange(400), np.arange(400, 600)
    model = Model("sure", "Sure", lambda: AROWClassifier(max_iter=50, tol=None))
    found = evaluate(model, X, y, 0, (train, test), 1.0, Settings(), {})
    assert np.unique(found.estimator.predict_proba(X[test])[:, 1]).size < 200
    scores = found.estimator.decision_function(X[test])
    assert found.auc == pytest.approx(roc_auc_score(y[test], scores))


def small(name, **options):
    def factory():
        return SVC(kernel="linear", **options)

    return Model(name, name.upper(), factory, lambda unit: {"C": (0.01, 1.0)}, reference=True)


def test_nested_and_on_the_same_folds():
    data = dataset()
    settings = Settings(cv=3, repeats=2, seed=5)
    seen = []
    comparison = compare(data, [small("a"), small("b")], settings, seen.append)
    assert len(seen) == 12
    folds = list(
        RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=5).split(data.X, data.y)
    )
    for a, b, (train, test), kept in zip(
        comparison.results["a"], comparison.results["b"], folds, comparison.folds
    ):
        np.testing.assert_array_equal(kept[1], test)
        assert (a.fold, a.error, a.parameters) == (b.fold, b.error, b.parameters)
        # The parameters come from the training rows alone.
        rows, labels, model = data.X[train], data.y[train], small("a")
        chosen = choose(model, rows, labels, width_unit(data.X), settings, "here")
        assert a.parameters == chosen
        fitted = fit_with(model, rows, labels, chosen, settings, "here")
        assert a.error == np.mean(fitted.predict(data.X[test]) != data.y[test])
        scores = fitted.decision_function(data.X[test])
        assert a.auc == roc_auc_score(data.y[test] == "near", scores)
        assert a.balanced_error == 1 - balanced_accuracy_score(
            data.y[test], fitted.predict(data.X[test])
        )
    reference, other = comparison.summaries()
    assert reference.p_value is None
    assert (other.difference, other.p_value) == (0.0, 1.0)


@pytest.mark.parametrize("fold_by_fold", [False, True])
def test_models_that_are_compiled_come_first_once_and_then_last(fold_by_fold):
    ours = Model("ours", "Ours", lambda: AROWClassifier(max_iter=1))
    tasks = []
    compare(
        dataset(),
        [small("svm"), ours, small("other")],
        Settings(cv=3, jobs=1),
        lambda result: tasks.append((result.model, result.fold)),
        fold_by_fold=fold_by_fold,
    )
    in_turn = [(name, fold) for fold in range(3) for name in ("svm", "ours", "other")]
    others = [task for task in in_turn if task[0] != "ours"]
    split = [("ours", 0), *others, ("ours", 1), ("ours", 2)]
    assert tasks == (in_turn if fold_by_fold else split)


def test_a_fold_that_compiled_does_not_decide_the_time_left():
    remaining = Remaining(["ours"], folds=5, jobs=1)
    remaining.add(SimpleNamespace(model="ours", seconds=60.0))
    assert remaining.text() == "1 of 5 fits with search done, at most 4 min left"
    remaining.add(SimpleNamespace(model="ours", seconds=2.0))
    assert remaining.text() == "2 of 5 fits with search done, about 6 s left"


def test_a_search_that_shares_work_agrees_with_the_grid():
    wine = load("wine")
    rmm = select(["rmm"])[1]
    unit = width_unit(wine.X)
    found = choose(rmm, wine.X, wine.y, unit, Settings(seed=1), "here")
    folds = StratifiedKFold(5, shuffle=True, random_state=1)
    pipeline = Pipeline([("scale", make_scaler(wine.X)), ("model", rmm.factory())])
    grid = {f"model__{name}": list(values) for name, values in rmm.grid(unit).items()}
    search = GridSearchCV(pipeline, grid, cv=folds).fit(wine.X, wine.y)
    scores = dict(
        zip((str(p) for p in search.cv_results_["params"]), search.cv_results_["mean_test_score"])
    )
    # Scaling within the folds or before them may decide between near equals.
    own = scores[str({name: found[name.removeprefix("model__")] for name in grid})]
    assert own >= search.best_score_ - 0.006


def test_the_seed_alone_decides(extra_model):
    models = [small("a"), extra_model]

    def outcome(**settings):
        results = compare(dataset(), models, Settings(cv=3, **settings)).results
        return {
            name: [(r.fold, r.error, r.parameters, r.predicted.tolist()) for r in per_fold]
            for name, per_fold in results.items()
        }

    first = outcome(seed=1)
    assert outcome(seed=1) == first
    assert outcome(seed=1, jobs=2) == first
    assert outcome(seed=2) != first


def test_certificates_and_kept_models():
    models = select(["svm-linear", "rmm-linear", "logistic"])
    results = compare(dataset(), models, Settings(cv=2)).results
    assert all(fold.gap is None for fold in results["logistic"])
    for name in ("svm-linear", "rmm-linear"):
        assert all(-1e-9 <= fold.gap < 0.02 for fold in results[name])
    assert [fold.estimator is None for fold in results["rmm-linear"]] == [False, True]
    assert all(set(fold.parameters) == {"C", "spread"} for fold in results["rmm-linear"])


def test_early_stops_are_counted_not_shown(recwarn):
    model = small("a", max_iter=1)
    results = compare(dataset(), [model], Settings(cv=2)).results["a"]
    assert all(fold.stopped_early > 0 for fold in results)
    assert len(recwarn) == 0


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_failing_model_names_itself_and_the_fold(jobs):
    model = Model("a", "A", SVC, lambda unit: {"C": (-1.0,)}, reference=True)
    with pytest.raises(RunError, match=r"^A failed on fold [12]: .*'C'.*"):
        compare(dataset(), [model], Settings(cv=2, jobs=jobs))


def die():
    os._exit(9)


def test_a_killed_worker_is_told():
    with pytest.raises(RunError, match="worker process was killed"):
        list(in_parallel([delayed(die)(), delayed(die)()], jobs=2))


def labelled(*counts):
    y = np.repeat(np.arange(len(counts)), counts)
    return dataset(
        X=np.zeros((len(y), 2)), y=y, target_names=tuple(f"class {k}" for k in range(len(counts)))
    )


@pytest.mark.parametrize(
    ("counts", "cv", "message"),
    [
        ((20, 3), 5, r'class "class 1" has 3 rows, but --cv 5 needs 5 of every class; use --cv 3'),
        ((20, 1), 5, r'class "class 1" has 1 row, .*; add rows or leave the class out'),
        ((20, 3), 2, r"--cv 2 needs 4 of every class; use --cv 3"),
        ((1,) * 12, 5, r"expected class labels, got 12 different values in 12 rows; .*--target"),
    ],
)
def test_too_few_rows_of_a_class(counts, cv, message):
    with pytest.raises(DataFileError, match=message):
        compare(labelled(*counts), [small("a")], Settings(cv=cv))


@pytest.mark.parametrize(("fewest", "cv"), [(3, 3), (4, 2), (5, 5)])
def test_the_advice_works(fewest, cv):
    X, y = make_tilted_gaussians(40, random_state=0)
    rows = np.concatenate([np.flatnonzero(y == 0), np.flatnonzero(y == 1)[:fewest]])
    data = dataset(X=X[rows], y=y[rows])
    assert len(compare(data, [small("a")], Settings(cv=cv)).results["a"]) == cv


def test_sparse_data_stays_sparse():
    data = dataset(X=sp.csr_matrix(dataset().X))
    comparison = compare(data, [small("a")], Settings(cv=2))
    scaler = comparison.results["a"][0].estimator[0]
    assert type(scaler) is type(make_scaler(data.X))
    assert sp.issparse(scaler.transform(data.X))


def test_width_unit_is_that_of_scikit_learn():
    X = load("wine").X
    assert width_unit(X) == pytest.approx(1 / X.shape[1])
    sparse = sp.random(30, 8, density=0.4, format="csr", random_state=0)
    scaled = make_scaler(sparse).fit_transform(sparse).toarray()
    assert width_unit(sparse) == pytest.approx(1 / (8 * scaled.var()))
    assert width_unit(np.ones((5, 4))) == 0.25


def test_projection_of_wide_plane_and_narrow_data():
    wine = load("wine")
    wide = project(wine, [small("a")], Settings())
    assert wide.points.shape == (178, 2)
    assert 0.5 < wide.explained < 0.6
    assert wide.estimators["A"].score(wide.points, wide.y) > 0.9
    plane = project(dataset(), [small("a")], Settings())
    np.testing.assert_array_equal(plane.points, dataset().X)
    assert (plane.explained, plane.axis_labels) == (None, ("u", "v"))
    assert project(dataset(X=dataset().X[:, :1]), [small("a")], Settings()) is None
    sparse = project(
        dataset(X=sp.random(60, 9, density=0.5, format="csr", random_state=0)),
        [small("a")],
        Settings(),
    )
    assert sparse.points.shape == (60, 2)


def test_projection_samples_large_data_and_keeps_rare_classes():
    X, y = make_tilted_gaussians(3000, random_state=0)
    y[:3] = 7
    shown = project(dataset(X=X, y=y), [small("a")], Settings())
    labels, counts = np.unique(shown.y, return_counts=True)
    assert labels.tolist() == [0, 1, 7]
    assert counts[2] == 3
    assert len(shown.y) == pytest.approx(MAX_POINTS, abs=3)
