"""RelativeMarginClassifierCV: the scores of a plain grid search, and a citizen of scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import (
    GroupKFold,
    StratifiedKFold,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import oblong.batch._relative_margin_folds as folds_module
from oblong import RelativeMarginClassifier, RelativeMarginClassifierCV
from tests.batch.data import clouds, real
from tests.batch.searches import EXACT, GRID, plain_search, same_scores


@parametrize_with_checks(
    [
        RelativeMarginClassifierCV(Cs=(0.1, 1.0), spreads=(1.0, 0.2), cv=3),
        # Weights are compared with copies, so the solutions have to be exact.
        RelativeMarginClassifierCV(
            Cs=(1.0,), spreads=(0.5, 0.1), cv=3, kernel="linear", tol=1e-9, n_jobs=2, **EXACT
        ),
    ]
)
def test_estimator_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("data", ["two", "three", "breast_cancer", "wine"])
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"kernel": "poly", "coef0": 1.0, "degree": 5},
        {"kernel": "rbf", "class_weight": "balanced", "break_ties": "confidence"},
    ],
)
def test_scores_are_those_of_a_plain_grid_search(data, params):
    X, y = clouds(90, classes=2 if data == "two" else 3) if data[0] == "t" else real(data, 120)
    params = {"tol": 1e-6, "cv": 4, **params}
    ours = RelativeMarginClassifierCV(**GRID, **EXACT, **params).fit(X, y)
    theirs = plain_search(GRID, **params).fit(X, y)
    same_scores(ours, theirs)
    assert ours.best_score_ == pytest.approx(theirs.best_score_, abs=1e-12)
    np.testing.assert_array_equal(
        ours.cv_results_["rank_test_score"] == 1, theirs.cv_results_["rank_test_score"] == 1
    )


def test_gammas_from_an_array_are_plain_numbers():
    X, y = clouds(40)
    model = RelativeMarginClassifierCV(Cs=(1.0,), gammas=np.array([0.1, 1.0]), spreads=(0.5,))
    assert type(model.fit(X, y).gamma_) is float


def test_linear_kernel_has_one_gamma():
    X, y = clouds(80, distance=2.0)
    X += 100.0  # the bias of shifted rows has to come out right
    ours = RelativeMarginClassifierCV(**GRID, **EXACT, kernel="linear", tol=1e-7).fit(X, y)
    grid = {**GRID, "gammas": ("scale",)}
    theirs = plain_search(grid, kernel="linear", tol=1e-7).fit(X, y)
    same_scores(ours, theirs)


def test_ten_digits():
    X, y = load_digits(return_X_y=True)
    X, y = X[::3] / 16.0, y[::3]
    grid = {"Cs": (1.0, 10.0, 100.0), "gammas": ("scale",), "spreads": (1.0, 0.25, 0.05)}
    # At the default tolerance a row or two near a tie of votes change with the solution.
    ours = RelativeMarginClassifierCV(**grid, **EXACT, cv=3, tol=1e-5).fit(X, y)
    theirs = plain_search(grid, cv=3, tol=1e-5).fit(X, y)
    same_scores(ours, theirs)
    assert ours.best_params_ == theirs.best_params_


@pytest.mark.parametrize("data", ["overlapping", "apart", "three", "digits", "weighted"])
def test_fold_tol__loose_scores_choose_what_exact_ones_choose(data):
    weights = None
    if data == "digits":
        X, y = load_digits(return_X_y=True)
        X, y = X[::4] / 16.0, y[::4]
    else:
        X, y = clouds(
            200, classes=3 if data == "three" else 2, distance=3.0 if data == "apart" else 1
        )
        if data == "weighted":
            weights = np.random.default_rng(0).integers(0, 3, size=200).astype(float)
    params = {"Cs": (0.1, 1.0, 10.0), "gammas": ("scale", 1.0), "refit": False, "tol": 1e-5}
    loose = RelativeMarginClassifierCV(**params).fit(X, y, sample_weight=weights)
    full = RelativeMarginClassifierCV(**params, **EXACT).fit(X, y, sample_weight=weights)
    assert loose.best_params_ == full.best_params_
    assert loose.n_iter_ < full.n_iter_
    key = "mean_test_score"
    np.testing.assert_allclose(loose.cv_results_[key], full.cv_results_[key], atol=0.011)


@pytest.mark.parametrize("scoring", ["roc_auc", "balanced_accuracy", "f1"])
def test_other_scores(scoring):
    X, y = clouds(90, distance=0.8)
    params = {"tol": 1e-7, "scoring": scoring, "cv": 3}
    same_scores(
        RelativeMarginClassifierCV(**GRID, **EXACT, **params).fit(X, y),
        plain_search(GRID, **params).fit(X, y),
    )


def test_scorer_of_ones_own_sees_decision_values_of_all_classes():
    def scorer(estimator, X, y):
        values = estimator.decision_function(X)
        assert values.shape == (len(y), len(estimator.classes_))
        return float((estimator.classes_[values.argmax(axis=1)] == y).mean())

    X, y = clouds(90, classes=3)
    params = {"tol": 1e-6, "scoring": scorer, "cv": 3}
    same_scores(
        RelativeMarginClassifierCV(**GRID, **EXACT, **params).fit(X, y),
        plain_search(GRID, **params).fit(X, y),
    )


def test_scores_that_are_not_numbers_come_last():
    def scorer(machine, X, y):
        size = np.abs(machine.decision_function(X)).max()
        return machine.score(X, y) if size < 2.1 else float("nan")

    X, y = clouds(90)
    model = RelativeMarginClassifierCV(Cs=(10.0,), spreads=(1.0, 0.1, 0.0), cv=3, scoring=scorer)
    with pytest.warns(UserWarning, match="gives NaN for 1 of 3"):
        model.fit(X, y)
    results = model.cv_results_
    assert np.isnan(results["mean_test_score"][0])
    assert results["rank_test_score"][0] == 3
    assert model.best_score_ == np.nanmax(results["mean_test_score"])


def test_random_ties_are_those_of_the_classifier():
    X, y = clouds(120, classes=6, d=2)
    params = {"tol": 1e-6, "break_ties": "random", "random_state": 3, "cv": 3}
    same_scores(
        RelativeMarginClassifierCV(**GRID, **EXACT, **params).fit(X, y),
        plain_search(GRID, **params).fit(X, y),
    )


def test_kernels_that_are_not_formulas():
    X, y = clouds(80)
    K = rbf_kernel(X, gamma=0.3)
    grid = {**GRID, **EXACT, "gammas": (0.3,)}
    expected = RelativeMarginClassifierCV(**grid, tol=1e-7).fit(X, y)
    precomputed = RelativeMarginClassifierCV(**grid, tol=1e-7, kernel="precomputed").fit(K, y)
    called = RelativeMarginClassifierCV(
        **grid, tol=1e-7, kernel=lambda A, B: rbf_kernel(A, B, gamma=0.3)
    ).fit(X, y)
    for other, rows in ((precomputed, K), (called, X)):
        np.testing.assert_array_equal(
            other.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"]
        )
        np.testing.assert_allclose(
            other.decision_function(rows), expected.decision_function(X), atol=1e-5
        )


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
def test_sparse_rows_are_dense_rows(kernel):
    X, y = clouds(80)
    X[np.abs(X) < 0.6] = 0.0
    params = {**GRID, **EXACT, "kernel": kernel, "tol": 1e-7}
    dense = RelativeMarginClassifierCV(**params).fit(X, y)
    sparse = RelativeMarginClassifierCV(**params).fit(sp.csr_matrix(X), y)
    for key in ("mean_test_score", "mean_relative_margin"):
        np.testing.assert_allclose(sparse.cv_results_[key], dense.cv_results_[key], rtol=1e-5)


def test_ties_go_to_the_larger_spread_then_the_smaller_penalty():
    X = np.array([[-3.0], [-2.5], [-2.0], [-3.5], [3.0], [2.5], [2.0], [3.5]] * 2)
    y = np.array([0, 0, 0, 0, 1, 1, 1, 1] * 2)
    model = RelativeMarginClassifierCV(Cs=(10.0, 1.0), spreads=(0.1, 1.0, 0.5), cv=2).fit(X, y)
    assert np.ptp(model.cv_results_["mean_test_score"]) == 0.0
    assert model.best_params_ == {"C": 1.0, "gamma": "scale", "spread": 1.0}
    assert (model.C_, model.gamma_, model.spread_) == (1.0, "scale", 1.0)


def test_final_machine_is_the_classifier_with_the_best_parameters():
    X, y = real("wine")
    model = RelativeMarginClassifierCV(**GRID, tol=1e-6).fit(X, y)
    plain = RelativeMarginClassifier(**model.best_params_, tol=1e-6).fit(X, y)
    np.testing.assert_array_equal(model.decision_function(X), plain.decision_function(X))
    np.testing.assert_array_equal(model.predict(X), plain.predict(X))
    assert model.score(X, y) == plain.score(X, y)
    assert is_classifier(model)
    assert model.n_splits_ == 5


def test_relative_margin_grows_as_the_spread_falls():
    X, y = clouds(100)
    model = RelativeMarginClassifierCV(Cs=(10.0,), spreads=(1.0, 0.5, 0.1, 0.0), **EXACT).fit(X, y)
    margins = model.cv_results_["mean_relative_margin"]
    assert (np.diff(margins) > 0).all()
    assert margins[-1] == pytest.approx(1.0, abs=1e-3)


def test_integer_weights_are_copies():
    rng = np.random.default_rng(0)
    X, y = clouds(60, distance=0.8)
    weights = rng.integers(0, 3, size=60).astype(float)
    folds = rng.permutation(60) % 3
    splits = [(np.flatnonzero(folds != k), np.flatnonzero(folds == k)) for k in range(3)]
    copies = np.repeat(np.arange(60), weights.astype(int))
    repeated = [
        (np.flatnonzero(folds[copies] != k), np.flatnonzero(folds[copies] == k)) for k in range(3)
    ]
    params = {**GRID, **EXACT, "tol": 1e-8}
    weighted = RelativeMarginClassifierCV(**params, cv=splits)
    weighted.fit(X, y, sample_weight=weights)
    plain = RelativeMarginClassifierCV(**params, cv=repeated).fit(X[copies], y[copies])
    for key in ("mean_test_score", "std_test_score"):
        np.testing.assert_allclose(weighted.cv_results_[key], plain.cv_results_[key], atol=1e-12)
    assert weighted.best_params_ == plain.best_params_
    np.testing.assert_allclose(weighted.decision_function(X), plain.decision_function(X), atol=1e-5)


def test_groups_go_to_the_splitter():
    X, y = clouds(60)
    groups = np.arange(60) // 6
    model = RelativeMarginClassifierCV(Cs=(1.0,), spreads=(1.0,), cv=GroupKFold(5))
    model.fit(X, y, groups=groups)
    with pytest.raises(ValueError, match="groups"):
        clone(model).fit(X, y)


@pytest.mark.parametrize("jobs", [2, 3])
def test_threads_change_nothing(jobs):
    X, y = clouds(90, classes=3)
    one = RelativeMarginClassifierCV(**GRID).fit(X, y)
    many = RelativeMarginClassifierCV(**GRID, n_jobs=jobs).fit(X, y)
    np.testing.assert_array_equal(
        one.cv_results_["mean_test_score"], many.cv_results_["mean_test_score"]
    )


def test_single_and_double_precision_agree():
    """From 1,025 rows on kernel matrices are in single precision."""
    X, y = real("digits", 1025)
    grid = {"Cs": (1.0, 100.0), "spreads": (1.0, 0.1), **EXACT, "tol": 1e-3}
    cv = list(StratifiedKFold(2).split(X[:1024], y[:1024] % 3))
    double = RelativeMarginClassifierCV(**grid, cv=cv).fit(X[:1024], y[:1024] % 3)
    # The last row takes part in no fold.
    single = RelativeMarginClassifierCV(**grid, cv=cv).fit(X, y % 3)
    key = "mean_test_score"
    np.testing.assert_allclose(single.cv_results_[key], double.cv_results_[key], atol=2.5 / 1025)
    key = "mean_relative_margin"
    np.testing.assert_allclose(single.cv_results_[key], double.cv_results_[key], rtol=1e-3)


def test_large_pairs_have_all_threads():
    """Above 2,048 rows in a pair, threads solve one fold after the other."""
    X, y = clouds(2050)
    grid = {"Cs": (0.1, 1.0), "gammas": ("scale",), "spreads": (1.0, 0.5)}
    ours = RelativeMarginClassifierCV(**grid, cv=2, **EXACT).fit(X, y)
    same_scores(ours, plain_search(grid, cv=2).fit(X, y), slips=2.5 / 1025)


def test_outputs_in_small_chunks(monkeypatch):
    X, y = clouds(90, classes=3)
    grid = {"scoring": "balanced_accuracy", "break_ties": "random", "random_state": 0, **GRID}
    whole = RelativeMarginClassifierCV(**grid, cv=2).fit(X, y).cv_results_["mean_test_score"]
    monkeypatch.setattr(folds_module, "_OUTPUTS", 200)
    chunked = RelativeMarginClassifierCV(**grid, cv=2).fit(X, y).cv_results_["mean_test_score"]
    np.testing.assert_array_equal(whole, chunked)
    assert len(np.unique(whole)) > 1


def test_in_a_pipeline_with_words_for_labels():
    X, y = clouds(90, classes=3)
    words = np.array(["red", "green", "blue"])[y]
    model = make_pipeline(StandardScaler(), RelativeMarginClassifierCV(Cs=(1.0, 10.0), cv=3))
    model.fit(X, words)
    assert set(model.predict(X)) <= set(words)
    assert model.score(X, words) > 0.6


def test_without_refit():
    X, y = clouds(60)
    model = RelativeMarginClassifierCV(Cs=(1.0,), refit=False).fit(X, y)
    assert model.best_params_["C"] == 1.0
    assert not hasattr(model, "predict")
    assert not hasattr(model, "best_estimator_")


def test_class_missing_from_a_fold():
    X, y = clouds(61, classes=2)
    y[0] = 2
    model = RelativeMarginClassifierCV(Cs=(1.0,), spreads=(1.0, 0.5), cv=StratifiedKFold(3))
    with pytest.warns(UserWarning, match="least populated class"):
        model.fit(X, y)
    assert list(model.classes_) == [0, 1, 2]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"Cs": ()}, "Cs must be"),
        ({"Cs": (1.0, -1.0)}, "Cs must be"),
        ({"spreads": (0.5, 1.5)}, "spreads must be"),
        ({"gammas": ("wide",)}, "gammas must be"),
        ({"gammas": ()}, "at least one"),
        ({"scoring": "neg_log_loss"}, "needs probabilities"),
        ({"scoring": lambda machine, X, y: float("nan")}, "is NaN in some fold"),
        ({"kernel": "sigmoid", "coef0": -1.0, "gammas": (5.0,)}, "positive semidefinite"),
        ({"cv": [(np.arange(4), np.arange(4, 6))], "Cs": (1.0,)}, "two classes to train on"),
    ],
)
def test_bad_parameters(params, message):
    X, y = clouds(60)
    order = np.argsort(y, kind="stable")
    model = RelativeMarginClassifierCV(**params)
    with pytest.raises(ValueError, match=message):
        model.fit(X[order], y[order])
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_bad_rows():
    X, y = clouds(20)
    with pytest.raises(ValueError, match="square matrix"):
        RelativeMarginClassifierCV(kernel="precomputed").fit(X, y)
    with pytest.raises(ValueError, match="Negative values"):
        RelativeMarginClassifierCV().fit(X, y, sample_weight=-np.ones(20))
    with pytest.raises(ValueError, match="got 1 class"):
        RelativeMarginClassifierCV().fit(X, y, sample_weight=(y == 0).astype(float))


def test_failed_fit_leaves_the_old_one():
    X, y = clouds(60)
    model = RelativeMarginClassifierCV(Cs=(1.0,), spreads=(0.5,)).fit(X, y)
    before = model.decision_function(X)
    model.set_params(Cs=(-1.0,))
    with pytest.raises(ValueError, match="Cs must be"):
        model.fit(X, y)
    np.testing.assert_array_equal(model.decision_function(X), before)


def test_stopped_early_warns_with_the_gap():
    X, y = clouds(60)
    model = RelativeMarginClassifierCV(Cs=(10.0,), max_iter=3, refit=False)
    with pytest.warns(ConvergenceWarning, match="in some folds.*duality gap"):
        model.fit(X, y)


def test_verbose_reports_to_standard_error(capsys):
    X, y = clouds(60)
    RelativeMarginClassifierCV(Cs=(1.0,), cv=3, verbose=1, refit=False).fit(X, y)
    captured = capsys.readouterr()
    assert captured.err.count("best score") == 3
    assert captured.out == ""
