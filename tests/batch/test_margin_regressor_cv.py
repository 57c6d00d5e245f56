"""MarginRegressorCV: the scores of a plain grid search, and a citizen of scikit-learn."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone, is_regressor
from sklearn.datasets import make_friedman1
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import make_scorer, mean_pinball_loss
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold
from sklearn.svm import SVR
from sklearn.utils.estimator_checks import parametrize_with_checks

import oblong.batch._search as search_module
from oblong import MarginRegressor, MarginRegressorCV
from oblong.persistence import load, save

GRID = {"Cs": (10.0, 0.3), "gammas": ("scale", 0.3), "epsilons": (0.0, 0.2)}


@parametrize_with_checks(
    [
        # Weights are compared with copies, so the solutions have to be exact.
        MarginRegressorCV(Cs=(0.1, 1.0), epsilons=(0.0, 0.1), cv=3, tol=1e-8),
        MarginRegressorCV(loss="quantile", Cs=(1.0,), cv=3, kernel="linear", tol=1e-8, n_jobs=2),
    ]
)
def test_estimator_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        check(estimator)


def friedman(n=120, seed=0):
    X, y = make_friedman1(n, 5, noise=1.0, random_state=seed)
    return X, (y - y.mean()) / y.std()


def plain(estimator, grid, **params):
    names = {"C": grid["Cs"], "gamma": grid["gammas"], "epsilon": grid.get("epsilons")}
    return GridSearchCV(estimator, {k: v for k, v in names.items() if v is not None}, **params)


def same_scores(ours, theirs, atol):
    ours, theirs = ours.cv_results_, theirs.cv_results_
    assert ours["params"] == theirs["params"]
    for key in theirs:
        if key.startswith(("split", "param_")) or key in ("mean_test_score", "std_test_score"):
            if key.startswith("param_"):
                assert list(ours[key]) == list(theirs[key])
            else:
                np.testing.assert_allclose(ours[key], theirs[key], rtol=0, atol=atol, err_msg=key)


@pytest.mark.parametrize(
    ("peer", "params"),
    [
        (SVR, {}),
        # LIBSVM keeps the kernel in single precision, which polynomials show.
        (MarginRegressor, {"kernel": "poly", "coef0": 1.0, "degree": 2}),
        (SVR, {"scoring": "neg_mean_absolute_error", "cv": KFold(3, shuffle=True, random_state=0)}),
    ],
)
def test_scores_are_those_of_a_plain_grid_search(peer, params):
    X, y = friedman()
    how = {"cv": 3, **{key: params.pop(key) for key in ("cv", "scoring") if key in params}}
    ours = MarginRegressorCV(**GRID, **params, **how, tol=1e-7).fit(X, y)
    theirs = plain(peer(**params, tol=1e-7), GRID, **how).fit(X, y)
    same_scores(ours, theirs, atol=1e-5)
    assert ours.best_params_ == theirs.best_params_
    assert ours.best_index_ == theirs.best_index_
    assert (ours.C_, ours.gamma_, ours.epsilon_) == tuple(
        theirs.best_params_[key] for key in ("C", "gamma", "epsilon")
    )
    assert ours.best_estimator_.converged_
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=0, atol=1e-4)
    assert ours.score(X, y) == pytest.approx(ours.best_estimator_.score(X, y))


def test_quantiles_are_scored_by_their_own_loss():
    X, y = friedman()
    grid = {"Cs": (0.3, 10.0), "gammas": ("scale", 0.3)}
    model = {"loss": "quantile", "quantile": 0.8, "bounds": (-4.0, 4.0), "tol": 1e-7}
    ours = MarginRegressorCV(**grid, **model, cv=3).fit(X, y)
    loss = make_scorer(mean_pinball_loss, greater_is_better=False, alpha=0.8)
    theirs = plain(MarginRegressor(**model), grid, cv=3, scoring=loss).fit(X, y)
    same_scores(ours, theirs, atol=1e-6)
    assert ours.best_params_ == theirs.best_params_
    assert ours.epsilon_ is None
    assert ours.best_estimator_.bounds == (-4.0, 4.0)


@pytest.mark.parametrize("loss", ["epsilon", "quantile"])
def test_linear_models_of_many_rows_need_no_kernel_matrix(loss, monkeypatch):
    """They are solved by weight vectors; the scores are those of the kernel solver."""
    X, y = friedman(1300)
    X[:, 2:] = 0.0
    params = {"loss": loss, "kernel": "linear", "quantile": 0.3, "tol": 1e-6}
    grid = {"Cs": (0.01, 1.0), "cv": 3}
    with monkeypatch.context() as patch:
        patch.setattr("oblong.batch.margin_regressor_cv.suits_linear_regression", lambda X: False)
        patch.setattr("oblong.batch.margin_regressor.suits_linear_regression", lambda X: False)
        slow = MarginRegressorCV(**params, **grid).fit(X, y)
    monkeypatch.setattr("oblong.batch.margin_regressor_cv.SearchKernel", None)
    for rows in (X, sp.csr_array(X)):
        fast = MarginRegressorCV(**params, **grid).fit(rows, y)
        np.testing.assert_allclose(
            fast.cv_results_["mean_test_score"], slow.cv_results_["mean_test_score"], atol=1e-5
        )
        np.testing.assert_allclose(fast.coef_, slow.coef_, atol=1e-5)


def test_weights_are_copies():
    X, y = friedman(60)
    folds = np.arange(60) % 3
    counts = np.random.default_rng(0).integers(0, 3, 60)
    splits = [(np.flatnonzero(folds != k), np.flatnonzero(folds == k)) for k in range(3)]
    copied = np.repeat(folds, counts)
    again = [(np.flatnonzero(copied != k), np.flatnonzero(copied == k)) for k in range(3)]
    model = MarginRegressorCV(**GRID, tol=1e-8)
    weighted = clone(model).set_params(cv=splits).fit(X, y, sample_weight=counts)
    other = clone(model).set_params(cv=again)
    other.fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    same_scores(weighted, other, atol=1e-6)


def test_precomputed_and_callable_kernels():
    X, y = friedman(80)
    grid = {**GRID, "gammas": (0.3,)}
    expected = MarginRegressorCV(**grid, tol=1e-7).fit(X, y)
    K = rbf_kernel(X, gamma=0.3)
    given = MarginRegressorCV(**grid, kernel="precomputed", tol=1e-7).fit(K, y)
    called = MarginRegressorCV(**grid, kernel=lambda A, B: rbf_kernel(A, B, gamma=0.3), tol=1e-7)
    same_scores(given, expected, atol=1e-6)
    same_scores(called.fit(X, y), expected, atol=1e-6)
    np.testing.assert_allclose(given.predict(K), expected.predict(X), atol=1e-5)


def test_groups_threads_and_reports(capsys):
    X, y = friedman(90)
    groups = np.arange(90) // 10
    one = MarginRegressorCV(**GRID, cv=GroupKFold(3), verbose=1).fit(X, y, groups=groups)
    two = MarginRegressorCV(**GRID, cv=GroupKFold(3), n_jobs=2).fit(X, y, groups=groups)
    same_scores(one, two, atol=0.0)
    assert one.n_splits_ == 3
    assert one.n_iter_ > 0
    assert capsys.readouterr().err.count("best score") == 6


def test_without_a_last_fit():
    X, y = friedman(60)
    model = MarginRegressorCV(refit=False, Cs=(1.0,)).fit(X, y)
    assert is_regressor(model)
    assert not hasattr(model, "predict")
    assert not hasattr(model, "coef_")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"Cs": (0.0,)}, "Cs must be finite numbers above 0"),
        ({"epsilons": (-0.1,)}, "epsilons must be finite numbers of at least 0"),
        ({"epsilons": ()}, "epsilons must be finite numbers"),
        ({"gammas": ("large",)}, "gammas must be"),
        ({"bounds": (0.0, 1.0)}, 'need loss="quantile"'),
        ({"loss": "quantile", "bounds": (0.0, 1.0)}, "contain all targets"),
        ({"loss": "quantile", "bounds": (-9, 9), "kernel": "sigmoid"}, "bounds have no solution"),
        ({"loss": "quantile", "quantile": (0.1, 0.9)}, "'quantile' parameter"),
        ({"cv": [([], [1, 2])]}, "every fold needs a row to train on"),
    ],
)
def test_bad_parameters_are_clear_errors(settings, message):
    X, y = friedman(50)
    model = MarginRegressorCV(**settings)
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_folds_that_do_not_converge_are_reported():
    X, y = friedman(80)
    with pytest.warns(ConvergenceWarning, match="in some folds"):
        MarginRegressorCV(Cs=(100.0,), max_iter=3, refit=False).fit(X, y)


def test_a_fit_that_fails_leaves_the_model_as_it_was(monkeypatch):
    X, y = friedman(50)
    model = MarginRegressorCV(Cs=(1.0,)).fit(X, y)
    before = model.predict(X)

    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(search_module, "_column", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y + 1.0)
    np.testing.assert_array_equal(model.predict(X), before)


def test_saved_and_loaded(tmp_path):
    X, y = friedman(50)
    model = MarginRegressorCV(Cs=(1.0,), cv=KFold(3)).fit(X, y)
    save(model, tmp_path / "model.oblong")
    other = load(tmp_path / "model.oblong")
    np.testing.assert_array_equal(other.predict(X), model.predict(X))
    assert other.best_params_ == model.best_params_
