"""CalibratedMarginClassifier among scikit-learn and the packages for uncertainty."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.calibration import CalibrationDisplay
from sklearn.datasets import load_iris, make_classification
from sklearn.ensemble import VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from oblong import (
    CalibratedMarginClassifier,
    LinearRelativeMarginClassifier,
    RelativeMarginClassifier,
)


@parametrize_with_checks(
    [
        # Weights are compared with copies to nine digits, so the solutions have to be that exact.
        CalibratedMarginClassifier(RelativeMarginClassifier(tol=1e-9), cv=2, fold_tol=1e-9),
        CalibratedMarginClassifier(LinearRelativeMarginClassifier(), cv=2, fold_tol=1e-9),
        CalibratedMarginClassifier(
            RelativeMarginClassifier(spread=1.0, tol=1e-9), cv=3, fold_tol=1e-9
        ),
    ]
)
def test_estimator_checks(estimator, check):
    check(estimator)


def test_signature_of_the_contract():
    expected = {"estimator": None, "cv": None, "fold_tol": 1e-2, "n_jobs": None, "verbose": 0}
    assert CalibratedMarginClassifier().get_params() == expected


def test_it_copies_and_pickles():
    X, y = load_iris(return_X_y=True)
    model = CalibratedMarginClassifier(RelativeMarginClassifier(C=3.0)).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(again.predict_p(X), model.predict_p(X))
    assert clone(model).estimator.C == 3.0


def test_searches_by_log_loss():
    X, y = load_iris(return_X_y=True)
    search = GridSearchCV(
        CalibratedMarginClassifier(RelativeMarginClassifier()),
        {"estimator__C": [0.1, 10.0]},
        scoring="neg_log_loss",
        cv=3,
    ).fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    auc = cross_val_score(CalibratedMarginClassifier(), X, y, scoring="roc_auc_ovr")
    assert auc.min() > 0.9


def test_soft_votes():
    X, y = load_iris(return_X_y=True)
    vote = VotingClassifier(
        [("margin", CalibratedMarginClassifier()), ("logistic", LogisticRegression(max_iter=500))],
        voting="soft",
    ).fit(X, y)
    assert vote.score(X, y) > 0.9
    assert roc_auc_score(y, vote.predict_proba(X), multi_class="ovr") > 0.95


def test_calibration_display():
    pytest.importorskip("matplotlib").use("agg")
    X, y = make_classification(300, 5, flip_y=0.2, random_state=0)
    display = CalibrationDisplay.from_estimator(CalibratedMarginClassifier().fit(X, y), X, y)
    assert display.prob_true.size > 1


def test_metadata_are_routed():
    X, y = make_classification(120, 5, random_state=0)
    weights = np.random.default_rng(0).random(120)
    groups = np.arange(120) // 4
    plain = CalibratedMarginClassifier(RelativeMarginClassifier(), cv=GroupKFold(3))
    plain.fit(X, y, sample_weight=weights, groups=groups)
    with config_context(enable_metadata_routing=True):
        inner = RelativeMarginClassifier().set_fit_request(sample_weight=True)
        routed = CalibratedMarginClassifier(inner, cv=GroupKFold(3))
        routed.fit(X, y, sample_weight=weights, groups=groups)
    np.testing.assert_array_equal(routed.predict_proba(X), plain.predict_proba(X))


def test_folds_at_once_are_the_same():
    X, y = make_classification(120, 5, random_state=0)
    one, two = (
        CalibratedMarginClassifier(LinearRelativeMarginClassifier(), n_jobs=jobs).fit(X, y)
        for jobs in (None, 2)
    )
    np.testing.assert_array_equal(one.outputs_, two.outputs_)
    three = make_classification(150, 6, n_informative=4, n_classes=3, random_state=0)
    one, two = (
        CalibratedMarginClassifier(RelativeMarginClassifier(n_jobs=jobs)).fit(*three)
        for jobs in (None, 2)
    )
    np.testing.assert_allclose(one.outputs_, two.outputs_, atol=1e-9)


# Other packages, in the extra "uncertainty" ------------------------------------------------------


@pytest.mark.parametrize("k", [2, 4])
def test_mapie(k):
    classification = pytest.importorskip("mapie.classification")
    X, y = make_classification(600, 6, n_informative=4, n_classes=k, random_state=0)
    ours = CalibratedMarginClassifier(RelativeMarginClassifier())
    split = classification.SplitConformalClassifier(
        ours, confidence_level=[0.8, 0.9], prefit=False, conformity_score="lac"
    )
    split.fit(X[:200], y[:200]).conformalize(X[200:400], y[200:400])
    labels, sets = split.predict_set(X[400:])
    np.testing.assert_array_equal(labels, ours.fit(X[:200], y[:200]).predict(X[400:]))
    assert sets.shape == (200, k, 2)
    cross = classification.CrossConformalClassifier(ours, confidence_level=0.9)
    _, sets = cross.fit_conformalize(X[:400], y[:400]).predict_set(X[400:])
    assert sets[np.arange(200), y[400:], 0].mean() > 0.8


@pytest.mark.parametrize("k", [2, 4])
def test_crepes(k):
    crepes = pytest.importorskip("crepes")
    X, y = make_classification(600, 6, n_informative=4, n_classes=k, random_state=0)
    wrapped = crepes.WrapClassifier(CalibratedMarginClassifier(RelativeMarginClassifier()))
    wrapped.fit(X[:200], y[:200])
    wrapped.calibrate(X[200:400], y[200:400], class_cond=True)
    sets = wrapped.predict_set(X[400:], confidence=0.9)
    assert np.mean([label in found for label, found in zip(y[400:], sets)]) > 0.8


@pytest.mark.parametrize("k", [2, 4])
def test_venn_abers(k):
    venn_abers = pytest.importorskip("venn_abers")
    X, y = make_classification(600, 6, n_informative=4, n_classes=k, random_state=0)
    calibrator = venn_abers.VennAbersCalibrator(
        estimator=CalibratedMarginClassifier(RelativeMarginClassifier()),
        inductive=True,
        cal_size=0.3,
        random_state=0,
    )
    calibrator.fit(X[:400], y[:400])
    P = calibrator.predict_proba(X[400:])
    np.testing.assert_allclose(P.sum(axis=1), 1.0, atol=1e-6)
    assert (P.argmax(axis=1) == y[400:]).mean() > 0.6


def test_the_default_estimator_takes_routed_weights():
    X, y = load_iris(return_X_y=True)
    weight = np.linspace(0.0, 2.0, len(y))
    expected = CalibratedMarginClassifier().fit(X, y, sample_weight=weight)
    with config_context(enable_metadata_routing=True):
        routed = CalibratedMarginClassifier().fit(X, y, sample_weight=weight)
    np.testing.assert_array_equal(routed.predict_proba(X), expected.predict_proba(X))
