"""Probabilities and prediction sets that go with a classifier's own predictions."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_digits, load_wine, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import log_loss
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GroupKFold, KFold, LeaveOneOut, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import oblong.batch._relative_margin_without as module
from oblong import (
    BayesPointClassifier,
    CalibratedMarginClassifier,
    EllipsoidalKernelClassifier,
    EllipsoidalSVC,
    KernelFisherClassifier,
    LinearRelativeMarginClassifier,
    RelativeMarginClassifier,
    RelativeMarginClassifierCV,
    SigmaSVC,
    UniversumSVC,
)
from oblong.batch._calibration_folds import stratified
from oblong.batch._one_vs_one import pairs_of

ESTIMATORS = [
    RelativeMarginClassifier(spread=0.25),
    RelativeMarginClassifier(spread=1.0),
    RelativeMarginClassifier(D=5.0, nu=5.0),
    RelativeMarginClassifier(kernel="linear", break_ties="confidence"),
    RelativeMarginClassifierCV(Cs=[1.0], gammas=["scale"], spreads=[0.5, 1.0], cv=2),
    LinearRelativeMarginClassifier(decision_function_shape="ovo"),
    SigmaSVC(),
    UniversumSVC(n_averages=20, random_state=0),
    EllipsoidalKernelClassifier(),
    KernelFisherClassifier(),
    EllipsoidalSVC(kernel="linear"),
    BayesPointClassifier(soft=1.0),
    SVC(),
    SVC(decision_function_shape="ovo"),
    make_pipeline(StandardScaler(), RelativeMarginClassifier()),
    LogisticRegression(),
    # One that counts no iterations.
    RidgeClassifier(),
]


def rows(n=150, k=2, seed=0):
    X, y = make_classification(
        n, 5, n_informative=4, n_redundant=0, n_classes=k, flip_y=0.1, random_state=seed
    )
    return X, y


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_probabilities_agree_with_predictions(estimator, k):
    X, y = rows(k=k)
    names = np.array(["oak", "ash", "elm", "fir"])[y]
    model = CalibratedMarginClassifier(estimator, cv=3).fit(X, names)
    rng = np.random.default_rng(0)
    new = rng.normal(size=(3000, 5)) * rng.choice([0.1, 1.0, 5.0, 100.0], size=(3000, 1))
    for Z in (new, new.astype(np.float32)):
        P = model.predict_proba(Z)
        np.testing.assert_array_equal(model.classes_[P.argmax(axis=1)], model.predict(Z))
        np.testing.assert_allclose(P.sum(axis=1), 1.0, atol=1e-12)
        assert P.dtype == np.float64
        assert P.min() >= 0
    np.testing.assert_array_equal(model.predict(new), model.estimator_.predict(new))
    np.testing.assert_array_equal(
        model.decision_function(new), model.estimator_.decision_function(new)
    )
    p = model.predict_p(new[:50])
    counts = np.unique(names, return_counts=True)[1]
    assert (p >= 1 / (counts + 1)).all()
    assert (p <= 1).all()
    with np.errstate(divide="ignore"):
        np.testing.assert_array_equal(
            model.predict_log_proba(new), np.log(model.predict_proba(new))
        )


def test_no_contradiction_in_a_million_rows():
    X, y = rows(k=5, n=300)
    model = CalibratedMarginClassifier(LinearRelativeMarginClassifier(), cv=3).fit(X, y)
    new = np.random.default_rng(0).normal(size=(1_000_000, 5)) * 3
    assert (model.predict_proba(new).argmax(axis=1) == model.predict(new)).all()


@given(st.integers(0, 10_000), st.integers(2, 7), st.integers(2, 4))
def test_folds_are_those_of_scikit_learn(seed, n_folds, k):
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.r_[np.repeat(np.arange(k), n_folds), rng.integers(0, k, 30)])
    expected = [test for _, test in StratifiedKFold(n_folds).split(labels, labels)]
    for test, other in zip(stratified(labels, n_folds), expected, strict=True):
        np.testing.assert_array_equal(test, other)


@pytest.mark.parametrize("form", [{}, {"spread": 1.0}, {"D": 5.0}, {"B": 1.5}])
def test_linear_folds_hold_the_bounds(form):
    X, y = rows(k=3, n=240)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    linear = LinearRelativeMarginClassifier(class_weight="balanced", **form)
    model = CalibratedMarginClassifier(linear, cv=3, fold_tol=1e-9).fit(X, y, weights)
    full = model.estimator_
    totals = np.bincount(y, weights)
    penalties = weights * (totals.sum() / (3 * totals))[y]
    for g, pair in enumerate(pairs_of(3)):
        held = {"spread": 1.0} if form == {"spread": 1.0} else {"B": full.B_[g]}
        for fold in range(3):
            out = model.fold_of_ == fold
            kept = ~out & np.isin(y, pair)
            signs = np.where(y[kept] == pair[0], 1, -1)
            alone = LinearRelativeMarginClassifier(tol=1e-9, **held)
            alone.fit(X[kept], signs, penalties[kept])
            np.testing.assert_allclose(
                model.outputs_[out, g], alone.decision_function(X[out]), atol=1e-5
            )
    assert model.fold_gap_ < 1e-8


def test_linear_folds_stop_at_their_tolerance():
    X, y = rows(n=600)
    rough, exact = (
        CalibratedMarginClassifier(LinearRelativeMarginClassifier(), fold_tol=tol).fit(X, y)
        for tol in (1e-2, 1e-6)
    )
    assert exact.fold_gap_ < 1e-6 < rough.fold_gap_ < 1e-2
    assert rough.n_iter_ < 0.8 * exact.n_iter_
    assert np.abs(rough.predict_proba(X) - exact.predict_proba(X)).max() < 0.02


@given(st.integers(0, 10_000), st.integers(2, 4), st.integers(20, 60), st.floats(0.01, 100.0))
def test_any_small_problem(seed, k, n, C):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)).round(1)
    y = np.r_[np.arange(k), np.arange(k), rng.integers(0, k, n - 2 * k)]
    model = CalibratedMarginClassifier(RelativeMarginClassifier(C=C), cv=2, fold_tol=1e-3)
    model.fit(X, y)
    new = rng.normal(size=(200, 2)) * 3
    P = model.predict_proba(new)
    np.testing.assert_array_equal(model.classes_[P.argmax(axis=1)], model.predict(new))
    np.testing.assert_allclose(P.sum(axis=1), 1.0, atol=1e-12)


def test_ties_broken_at_random_attain_the_maximum():
    X, y = rows(k=4, n=200)
    model = CalibratedMarginClassifier(RelativeMarginClassifier(break_ties="random")).fit(X, y)
    new = np.random.default_rng(0).normal(size=(5000, 5)) * 3
    P = model.predict_proba(new)
    for _ in range(3):
        drawn = np.searchsorted(model.classes_, model.predict(new))
        np.testing.assert_array_equal(P[np.arange(5000), drawn], P.max(axis=1))


def test_probabilities_ascend_with_the_outputs():
    X, y = rows(300)
    model = CalibratedMarginClassifier().fit(X, y)
    new = np.random.default_rng(0).normal(size=(2000, 5))
    order = model.decision_function(new).argsort()
    assert (np.diff(model.predict_proba(new)[order, 1]) >= 0).all()


# The folds ---------------------------------------------------------------------------------------


def brute_force(estimator, X, y, folds):
    """Outputs of copies of the estimator that are fitted from the beginning."""
    model = type(estimator)(**{**estimator.get_params(), "tol": 1e-9})
    outputs = None
    for train, test in folds:
        found = model.fit(X[train], y[train])._outputs(X[test])
        outputs = np.empty((len(y), found.shape[1])) if outputs is None else outputs
        outputs[test] = found
    return outputs


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize(
    "estimator",
    [
        RelativeMarginClassifier(C=2.0, spread=1.0, gamma=0.3, tol=1e-9),
        RelativeMarginClassifier(C=2.0, B=1.3, gamma=0.3, tol=1e-9),
        RelativeMarginClassifier(C=2.0, B=1.3, kernel="linear", tol=1e-9),
    ],
)
def test_leave_one_out_is_exact(estimator, k):
    X, y = rows(60, k)
    X += 3.0
    model = CalibratedMarginClassifier(estimator, cv=LeaveOneOut(), fold_tol=1e-9).fit(X, y)
    expected = brute_force(estimator, X, y, LeaveOneOut().split(X))
    np.testing.assert_allclose(model.outputs_, expected, atol=1e-6)
    with pytest.raises(ValueError, match="at most 50 folds; cv made 60"):
        model.predict_set(X)
    assert model.predict_proba(X).shape == (60, k)


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("dense", [True, False])
def test_folds_from_the_full_solution_are_exact(k, dense):
    X, y = rows(90, k)
    estimator = RelativeMarginClassifier(C=2.0, B=1.3, gamma=0.3, tol=1e-9)
    folds = list(StratifiedKFold(3).split(X, y))
    expected = brute_force(estimator, X, y, folds)
    given = X if dense else sp.csr_matrix(X)
    model = CalibratedMarginClassifier(estimator, cv=3, fold_tol=1e-9).fit(given, y)
    np.testing.assert_allclose(model.outputs_, expected, atol=1e-6)
    assert model.fold_gap_ < 1e-6
    # New rows are scored by the same models.
    for fold, (train, _) in enumerate(folds):
        alone = RelativeMarginClassifier(**estimator.get_params()).fit(X[train], y[train])
        np.testing.assert_allclose(model._models[fold]._outputs(X), alone._outputs(X), atol=1e-6)


def test_rows_without_a_coefficient_cost_no_steps(monkeypatch):
    X, y = rows(80)
    solved = []
    solve = module.solve_grid

    def count(*args, **options):
        solved.append(solve(*args, **options))
        return solved[-1]

    monkeypatch.setattr(module, "solve_grid", count)
    model = CalibratedMarginClassifier(RelativeMarginClassifier(C=10.0), cv=LeaveOneOut())
    model.fit(X, y)
    values = np.concatenate([found.values[0, 1:] for found in solved])
    changed = values["source"] > 0
    np.testing.assert_array_equal(np.flatnonzero(changed), np.sort(model.estimator_.support_))
    assert not values["n_iter"][~changed].any()


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
def test_a_loose_tolerance_limits_how_far_outputs_are_off(kernel, k):
    X, y = rows(200, k)
    weights = np.random.default_rng(0).integers(0, 4, 200)
    model = CalibratedMarginClassifier(
        RelativeMarginClassifier(kernel=kernel, class_weight="balanced", B=2.0), fold_tol=1e-4
    )
    fine = model.fit(X, y, weights).outputs_
    single = model.fit(X.astype(np.float32), y, weights).outputs_
    np.testing.assert_allclose(fine, single, atol=1e-3)
    coarse = model.set_params(fold_tol=1e-2).fit(X, y, weights)
    assert coarse.fold_gap_ < 1e-2
    assert np.quantile(np.abs(coarse.outputs_ - fine), 0.99) < 0.1


@pytest.mark.parametrize("spread", [0.25, 1.0])
def test_held_bounds_and_loose_tolerance_change_little(spread):
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    estimator = RelativeMarginClassifier(spread=spread)
    model = CalibratedMarginClassifier(estimator).fit(X, y)
    expected = brute_force(estimator, X, y, StratifiedKFold(5).split(X, y))
    # gamma="scale" is held as well; the bound moves the outputs more than the tolerance does.
    assert np.abs(model.outputs_ - expected).max() < (0.1 if spread == 1.0 else 0.3)
    assert model.fold_gap_ < 0.1


@pytest.mark.parametrize("estimator", [RelativeMarginClassifier(gamma=0.3), SVC(gamma=0.3)])
@pytest.mark.parametrize("k", [2, 3])
def test_precomputed_kernels_are_the_kernels(estimator, k):
    X, y = rows(120, k)
    new = rows(40, k, seed=1)[0]
    direct = CalibratedMarginClassifier(estimator).fit(X, y)
    other = type(estimator)(**{**estimator.get_params(), "kernel": "precomputed"})
    values = CalibratedMarginClassifier(other).fit(rbf_kernel(X, gamma=0.3), y)
    K = rbf_kernel(new, X, gamma=0.3)
    np.testing.assert_allclose(values.outputs_, direct.outputs_, atol=1e-2)
    np.testing.assert_allclose(values.predict_proba(K), direct.predict_proba(new), atol=1e-2)
    np.testing.assert_allclose(values.predict_p(K), direct.predict_p(new), atol=0.1)


@pytest.mark.parametrize("estimator", [RelativeMarginClassifier(B=1.5, gamma=0.3), SVC(gamma=0.3)])
@pytest.mark.parametrize("k", [2, 3])
def test_weight_zero_is_removal_and_two_is_a_copy(estimator, k):
    estimator = type(estimator)(**{**estimator.get_params(), "tol": 1e-9})
    X, y = rows(90, k)
    fold = np.arange(90) % 3
    weights = np.ones(90)
    weights[:9], weights[9:30] = 0.0, 2.0

    def folds(of):
        return [(np.flatnonzero(of != q), np.flatnonzero(of == q)) for q in range(3)]

    weighted = CalibratedMarginClassifier(estimator, cv=folds(fold), fold_tol=1e-9)
    weighted.fit(X, y, sample_weight=weights)
    copies = np.r_[9:90, 9:30]
    plain = CalibratedMarginClassifier(estimator, cv=folds(fold[copies]), fold_tol=1e-9)
    plain.fit(X[copies], y[copies])
    np.testing.assert_allclose(weighted.outputs_, plain.outputs_[:81], atol=1e-6)
    if k == 2 or not isinstance(estimator, SVC):
        np.testing.assert_allclose(weighted.sigmoids_, plain.sigmoids_, rtol=1e-4, atol=1e-6)
    assert weighted.temperature_ == pytest.approx(plain.temperature_, rel=1e-5)
    np.testing.assert_allclose(weighted.predict_proba(X), plain.predict_proba(X), atol=1e-5)
    np.testing.assert_array_equal(weighted.fold_of_, fold[9:])


def test_a_search_is_not_repeated_in_the_folds():
    X, y = rows(120)
    search = RelativeMarginClassifierCV(Cs=[0.1, 1.0], gammas=[0.3], spreads=[1.0], cv=2)
    model = CalibratedMarginClassifier(search, cv=3).fit(X, y)
    best = model.estimator_.best_estimator_
    assert all(type(fold) is RelativeMarginClassifier for fold in model._models)
    assert {fold.C for fold in model._models} == {best.C}


def test_groups_and_universum_points():
    X, y = rows(120)
    groups = np.arange(120) // 4
    model = CalibratedMarginClassifier(cv=GroupKFold(3)).fit(X, y, groups=groups)
    for group in range(30):
        assert len(set(model.fold_of_[groups == group])) == 1
    # As many points as rows: they must not be taken for one per row.
    points = np.random.default_rng(0).normal(size=(120, 5))
    CalibratedMarginClassifier(UniversumSVC()).fit(X, y, X_universum=points)


# Quality -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("load", [load_breast_cancer, load_wine, load_digits])
def test_log_loss_is_that_of_the_usual_calibration_or_better(load):
    X, y = load(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    estimator = RelativeMarginClassifier(spread=1.0)
    ours, theirs = [], []
    for train, test in StratifiedKFold(3, shuffle=True, random_state=0).split(X, y):
        usual = CalibratedClassifierCV(estimator, ensemble=False).fit(X[train], y[train])
        model = CalibratedMarginClassifier(estimator).fit(X[train], y[train])
        ours.append(log_loss(y[test], model.predict_proba(X[test])))
        theirs.append(log_loss(y[test], usual.predict_proba(X[test])))
    assert np.mean(ours) < np.mean(theirs) + (0.002 if load is load_breast_cancer else 0.0)


@pytest.mark.parametrize("k", [2, 3])
def test_sets_cover_each_class(k):
    X, y = rows(20_000, k, seed=3)
    rng = np.random.default_rng(0)
    levels = [0.8, 0.9, 0.95]
    estimator = RelativeMarginClassifier(spread=0.25)
    covered = []
    for _ in range(20):
        order = rng.permutation(20_000)
        train, test = order[:300], order[300:1300]
        model = CalibratedMarginClassifier(estimator).fit(X[train], y[train])
        sets = model.predict_set(X[test], confidence=levels)
        assert sets.shape == (1000, k, 3)
        assert sets.dtype == bool
        np.testing.assert_array_equal(sets[:, :, 1], model.predict_set(X[test]))
        own = sets[np.arange(1000), y[test]]
        covered.append([own[y[test] == cls].mean(axis=0) for cls in range(k)])
    mean = np.mean(covered, axis=0)
    # Three standard errors over the splits, which contain those of the test rows.
    error = np.std(covered, axis=0) / np.sqrt(20)
    assert (mean >= np.array(levels) - 3 * error).all()
    # And the sets are not valid by being everything.
    assert (mean <= np.array(levels) + 0.06).all()


def test_fit__takes_as_many_folds_as_the_smallest_class_has_rows():
    X, y = rows(40)
    assert CalibratedMarginClassifier().fit(X, y).n_folds_ == 5
    for fewest in (2, 3, 4):
        few = np.arange(40) >= 40 - fewest
        model = CalibratedMarginClassifier().fit(X, few)
        assert model.n_folds_ == fewest
        np.testing.assert_array_equal(
            model.predict_proba(X),
            CalibratedMarginClassifier(cv=fewest).fit(X, few).predict_proba(X),
        )
    # Rows of weight zero take no part.
    weights = np.r_[np.ones(38), 0.0, 1.0]
    model = CalibratedMarginClassifier().fit(X, np.arange(40) >= 37, weights)
    assert model.n_folds_ == 2


# Bad input ---------------------------------------------------------------------------------------


def test_bad_input_is_refused():
    X, y = rows(40)
    few = np.r_[np.zeros(37, dtype=int), np.ones(3, dtype=int)]
    with pytest.raises(ValueError, match="the class 1 has only 3: use fewer folds"):
        CalibratedMarginClassifier(cv=5).fit(X, few)
    for cv in (None, 2):
        with pytest.raises(ValueError, match="two rows of every class, but the class 1 has only"):
            CalibratedMarginClassifier(cv=cv).fit(X, np.arange(40) // 39)
    with pytest.raises(ValueError, match="every row exactly once"):
        CalibratedMarginClassifier(cv=[(np.arange(20), np.arange(20, 40))]).fit(X, y)
    with pytest.raises(ValueError, match="use fewer folds, or stratified folds"):
        CalibratedMarginClassifier(cv=KFold(2)).fit(X, np.arange(40) // 20)
    with pytest.raises(ValueError, match="Negative values"):
        CalibratedMarginClassifier().fit(X, y, sample_weight=-np.ones(40))
    model = CalibratedMarginClassifier().fit(X, y)
    for confidence in (0.0, 1.0, -1.0, [0.5, 2.0], np.nan, [[0.5]]):
        with pytest.raises(ValueError, match="confidence"):
            model.predict_set(X, confidence=confidence)


def test_a_failed_fit_leaves_the_model_as_it_was(monkeypatch):
    X, y = rows(60)
    model = CalibratedMarginClassifier().fit(X, y)
    before = model.predict_proba(X)

    def interrupt(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "solve_grid", interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(2 * X, 1 - y)
    np.testing.assert_array_equal(model.predict_proba(X), before)


def test_folds_that_do_not_converge_are_reported():
    X, y = rows(200)
    estimator = RelativeMarginClassifier(C=100.0, max_iter=20)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        CalibratedMarginClassifier(estimator, fold_tol=1e-6).fit(X, y)
    own = [w for w in found if "a fold did not converge" in str(w.message)]
    assert len(own) == 1
    assert own[0].category is ConvergenceWarning
    assert own[0].filename == __file__


def test_an_estimator_without_weights_is_named():
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    X, y = rows(60)
    with pytest.warns(UserWarning, match="LinearDiscriminantAnalysis does not appear to accept"):
        CalibratedMarginClassifier(LinearDiscriminantAnalysis()).fit(X, y, np.ones(60))


def test_progress_is_reported_on_request(capsys):
    X, y = rows(60)
    CalibratedMarginClassifier().fit(X, y)
    assert not capsys.readouterr().err
    CalibratedMarginClassifier(verbose=1).fit(X, y)
    assert "5 folds" in capsys.readouterr().err


def test_pipelines_in_pipelines_are_one_pipeline():
    X, y = rows(k=3)
    inner = make_pipeline(StandardScaler(), RelativeMarginClassifier())
    flat, nested = (
        CalibratedMarginClassifier(model).fit(X, y) for model in (inner, make_pipeline(inner))
    )
    np.testing.assert_array_equal(nested.sigmoids_, flat.sigmoids_)
    np.testing.assert_array_equal(nested.predict_proba(X), flat.predict_proba(X))
