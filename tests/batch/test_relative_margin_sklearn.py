"""RelativeMarginClassifier as a citizen of scikit-learn."""

from __future__ import annotations

import pickle

import joblib
import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import check_is_fitted

import oblong.batch.relative_margin as module
from oblong import RelativeMarginClassifier
from tests.batch.data import clouds


@parametrize_with_checks(
    [
        RelativeMarginClassifier(),
        # Weights are compared with copies to nine digits, so the solution has to be that exact.
        RelativeMarginClassifier(kernel="linear", spread=0.1, tol=1e-9),
        RelativeMarginClassifier(B=1.5, kernel="poly", gamma=1e-2, coef0=1.0, tol=1e-6),
        # A bound needs a positive semidefinite matrix, which the checks do not always pass.
        RelativeMarginClassifier(spread=1.0, kernel="precomputed"),
    ]
)
@pytest.mark.filterwarnings("ignore:.*not positive semidefinite")
def test_estimator_checks(estimator, check):
    check(estimator)


def test_signature_of_the_contract():
    expected = {
        "C": 1.0,
        "B": None,
        "spread": 0.5,
        "D": None,
        "nu": None,
        "kernel": "rbf",
        "gamma": "scale",
        "degree": 3,
        "coef0": 0.0,
        "tol": 1e-3,
        "max_iter": -1,
        "class_weight": None,
        "decision_function_shape": "ovr",
        "break_ties": "first",
        "n_jobs": None,
        "verbose": 0,
        "random_state": None,
        "shrinking": True,
        "probability": False,
    }
    defaults = RelativeMarginClassifier().get_params()
    assert defaults.pop("cache_size") > 0
    assert defaults == expected
    assert is_classifier(RelativeMarginClassifier())


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("through", ["pickle", "joblib"])
def test_saved_machine_predicts_the_same(tmp_path, through, kernel, classes):
    X, y = clouds(60, classes=classes)
    machine = RelativeMarginClassifier(kernel=kernel).fit(X, y)
    if through == "pickle":
        loaded = pickle.loads(pickle.dumps(machine))
    else:
        joblib.dump(machine, tmp_path / "machine.joblib")
        loaded = joblib.load(tmp_path / "machine.joblib")
    assert np.array_equal(loaded.decision_function(X), machine.decision_function(X))
    assert np.array_equal(loaded.predict(X), machine.predict(X))


def test_clone_is_unfitted_with_equal_parameters():
    X, y = clouds(40)
    machine = RelativeMarginClassifier(C=3.0, B=1.2, class_weight={0: 2.0}).fit(X, y)
    copy = clone(machine)
    assert copy.get_params() == machine.get_params()
    with pytest.raises(NotFittedError):
        check_is_fitted(copy)


def test_fit_leaves_the_parameters_alone():
    X, y = clouds(40)
    params = {"class_weight": {0: 2.0, 1: 1.0}, "B": None, "gamma": "scale"}
    machine = RelativeMarginClassifier(**params).fit(X, y)
    for name, value in params.items():
        assert getattr(machine, name) is value


def test_refit_forgets_the_first_fit():
    X, y = clouds(60, classes=3)
    other, labels = clouds(50, d=5, seed=3)
    machine = RelativeMarginClassifier(kernel="linear").fit(X, y)
    machine.fit(other, labels)
    fresh = RelativeMarginClassifier(kernel="linear").fit(other, labels)
    for name, value in vars(fresh).items():
        if name.endswith("_"):
            assert np.array_equal(getattr(machine, name), value), name
    assert set(vars(machine)) == set(vars(fresh))
    assert not hasattr(machine.set_params(kernel="rbf").fit(other, labels), "coef_")


def test_grid_search_in_a_pipeline():
    X, y = clouds(90, classes=3)
    names = np.array(["red", "green", "blue"])[y]
    search = GridSearchCV(
        make_pipeline(StandardScaler(), RelativeMarginClassifier()),
        {
            "relativemarginclassifier__C": [0.1, 1.0],
            "relativemarginclassifier__spread": [0.2, 1.0],
        },
        cv=3,
    ).fit(X, names)
    assert search.best_score_ > 0.5
    assert set(search.predict(X)) <= set(names)


def test_precomputed_kernel_is_cut_on_both_sides_in_cross_validation():
    X, y = clouds(80)
    given = cross_val_score(
        RelativeMarginClassifier(kernel="precomputed", spread=0.3),
        rbf_kernel(X, gamma=0.3),
        y,
        cv=4,
    )
    computed = cross_val_score(RelativeMarginClassifier(gamma=0.3, spread=0.3), X, y, cv=4)
    np.testing.assert_allclose(given, computed)


def test_sample_weight_is_routed():
    X, y = clouds(80, seed=5)
    weight = np.where(y == 1, 20.0, 1.0)
    with config_context(enable_metadata_routing=True):
        machine = RelativeMarginClassifier(gamma=0.3).set_fit_request(sample_weight=True)
        machine.set_score_request(sample_weight=False)
        search = GridSearchCV(machine, {"C": [0.5]}, cv=3).fit(X, y, sample_weight=weight)
        validated = cross_validate(
            machine, X, y, cv=3, params={"sample_weight": weight}, return_estimator=True
        )
    direct = RelativeMarginClassifier(gamma=0.3, C=0.5).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(
        search.best_estimator_.decision_function(X), direct.decision_function(X), atol=1e-10
    )
    plain = RelativeMarginClassifier(gamma=0.3, C=0.5).fit(X, y)
    assert np.abs(direct.decision_function(X) - plain.decision_function(X)).max() > 0.1
    for fitted in validated["estimator"]:
        assert fitted.predict(X).mean() > plain.predict(X).mean()


# Interruption -----------------------------------------------------------------------------------


def _interrupt_at(monkeypatch, call: int, error: type[BaseException]):
    """Let the solver run ``call`` times and then stop as Ctrl-C would."""
    calls = []
    solve = module.solve_variable_bound

    def interrupted(*args, **kwargs):
        calls.append(None)
        if len(calls) > call:
            raise error
        return solve(*args, **kwargs)

    monkeypatch.setattr(module, "solve_variable_bound", interrupted)


@pytest.mark.parametrize("call", [0, 1, 3])
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_interrupted_fit_leaves_no_half_state(monkeypatch, call, error):
    X, y = clouds(60, classes=3)
    fitted = RelativeMarginClassifier(D=1.0).fit(X, y)
    before = fitted.decision_function(X)
    unfitted = RelativeMarginClassifier(D=1.0)
    other, labels = clouds(50, d=5, classes=4, seed=3)
    with monkeypatch.context() as patch:
        _interrupt_at(patch, call, error)
        for machine in (unfitted, fitted):
            with pytest.raises(error):
                machine.fit(other, labels)
            patch.undo()
            _interrupt_at(patch, call, error)
    with pytest.raises(NotFittedError):
        unfitted.predict(X)
    assert np.array_equal(fitted.decision_function(X), before)
    assert fitted.n_features_in_ == 3
    assert len(fitted.classes_) == 3


# Talking ------------------------------------------------------------------------------------------


def test_silence_is_the_default(capfd):
    X, y = clouds(60)
    RelativeMarginClassifier().fit(X, y).predict(X)
    captured = capfd.readouterr()
    assert captured.out == captured.err == ""


def test_verbose_reports_on_standard_error(capfd):
    X, y = clouds(200)
    RelativeMarginClassifier(verbose=1, C=100, spread=0.01, tol=1e-6).fit(X, y)
    captured = capfd.readouterr()
    assert captured.out == ""
    assert "violation" in captured.err
