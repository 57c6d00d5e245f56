"""LinearRelativeMarginClassifier: the model, its invariances, its input, and its memory."""

from __future__ import annotations

import pickle
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

import oblong.batch.linear_relative_margin as module
from oblong import (
    CalibratedMarginClassifier,
    LinearRelativeMarginClassifier,
    RelativeMarginClassifier,
)
from oblong.linalg.row_passes import ArrayRows
from tests.batch.data import clouds, real

FORMS = {
    "svm": {"spread": 1.0},
    "spread": {"spread": 0.3},
    "B": {"B": 1.2},
    "D": {"D": 2.0},
    "relaxed": {"D": 2.0, "nu": 4.0},
}
SOLVERS = ("interior-point", "descent")


def fit(X, y, weight=None, **params):
    """Fit tightly enough for two machines to be compared."""
    params = {"tol": 1e-9, "max_iter": 20_000, **params}
    return LinearRelativeMarginClassifier(**params).fit(X, y, sample_weight=weight)


@parametrize_with_checks(
    [
        LinearRelativeMarginClassifier(),
        LinearRelativeMarginClassifier(B=1.5),
        LinearRelativeMarginClassifier(D=2.0),
        LinearRelativeMarginClassifier(D=2.0, nu=3.0),
        # Weights are compared with copies to seven digits, so the solution has to be that exact.
        LinearRelativeMarginClassifier(solver="descent", tol=1e-13),
    ]
)
def test_estimator_checks(estimator, check):
    check(estimator)


def test_signature_of_the_contract():
    expected = {
        "C": 1.0,
        "B": None,
        "spread": 0.5,
        "D": None,
        "nu": None,
        "fit_intercept": True,
        "solver": "auto",
        "tol": 1e-4,
        "max_iter": 1000,
        "class_weight": None,
        "multi_class": "ovo",
        "decision_function_shape": "ovr",
        "break_ties": "first",
        "n_jobs": None,
        "verbose": 0,
        "random_state": None,
    }
    assert LinearRelativeMarginClassifier().get_params() == expected


# The model ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("form", ["svm", "spread", "B", "D", "relaxed"])
def test_same_as_the_kernel_machine(form, solver):
    X, y = real("breast_cancer", 120)
    X = X[:, :8]
    linear = fit(X, y, solver=solver, **FORMS[form])
    kernel = RelativeMarginClassifier(kernel="linear", tol=1e-7, **FORMS[form]).fit(X, y)
    assert linear.objective_[0] == pytest.approx(kernel.objective_[0], rel=1e-6)
    np.testing.assert_allclose(linear.coef_, kernel.coef_, atol=1e-4)
    np.testing.assert_allclose(linear.decision_function(X), kernel.decision_function(X), atol=1e-3)


@pytest.mark.parametrize("solver", SOLVERS)
def test_spread_one_is_the_support_vector_machine(solver):
    X, y = clouds(120, d=4)
    linear = fit(X, y, spread=1.0, solver=solver)
    svm = SVC(kernel="linear", tol=1e-6).fit(X, y)
    np.testing.assert_allclose(linear.coef_, svm.coef_, atol=1e-3)
    np.testing.assert_allclose(linear.intercept_, svm.intercept_, atol=1e-3)
    assert pytest.approx(linear.theta_) == linear.B_


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("solver", SOLVERS)
def test_attributes(form, solver):
    X, y = clouds(90, d=4, classes=3)
    machine = fit(X, y, tol=1e-5, solver=solver, **FORMS[form])
    assert machine.coef_.shape == (3, 4)
    for name in ("intercept_", "B_", "theta_", "relative_margin_", "dual_gap_", "objective_"):
        assert getattr(machine, name).shape == (3,), name
    assert np.all(machine.n_iter_ >= 1)
    assert machine.converged_ is True
    assert np.all(machine.dual_gap_ >= -1e-9)
    assert np.all(machine.dual_gap_ <= 1e-5)
    outputs = machine.set_params(decision_function_shape="ovo").decision_function(X)
    pairs = [(0, 1), (0, 2), (1, 2)]
    for k, (i, j) in enumerate(pairs):
        largest = np.abs(outputs[(y == i) | (y == j), k]).max()
        assert machine.relative_margin_[k] == pytest.approx(1 / largest, rel=1e-9)
        if form in ("spread", "B", "D"):
            assert largest <= machine.B_[k] * (1 + 1e-9)
    assert machine.score(X, y) > 0.5


def test_votes_are_those_of_the_kernel_machine():
    X, y = real("wine", 150)
    linear = fit(X, y, spread=0.2)
    kernel = RelativeMarginClassifier(kernel="linear", spread=0.2, tol=1e-8).fit(X, y)
    assert np.array_equal(linear.predict(X), kernel.predict(X))
    np.testing.assert_allclose(linear.decision_function(X), kernel.decision_function(X), atol=1e-4)


def test_without_intercept():
    X, y = clouds(100, d=3)
    machine = fit(X, y, B=1.5, fit_intercept=False)
    assert machine.intercept_ == 0.0
    np.testing.assert_allclose(fit(-X, 1 - y, B=1.5, fit_intercept=False).coef_, machine.coef_)
    moved = fit(X + 1.0, y, B=1.5, fit_intercept=False)
    assert np.abs(moved.coef_ - machine.coef_).max() > 1e-2


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("nu", [60.0, 1e15])
def test_large_nu_is_the_hard_bound(solver, nu):
    X, y = clouds(60)
    hard, soft = fit(X, y, D=1.0, solver=solver), fit(X, y, D=1.0, nu=nu, solver=solver)
    np.testing.assert_allclose(soft.coef_, hard.coef_, atol=1e-4)
    np.testing.assert_allclose(soft.B_, hard.B_, rtol=1e-3)


def test_price_zero_is_the_support_vector_machine():
    X, y = clouds(60)
    free, svm = fit(X, y, D=0.0), fit(X, y, spread=1.0)
    np.testing.assert_allclose(free.coef_, svm.coef_)
    assert svm.theta_ == free.B_


# Invariances --------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("solver", SOLVERS)
def test_weights_are_copies(form, solver):
    X, y = clouds(50, d=4, seed=1)
    weight = np.random.default_rng(0).integers(0, 4, size=50)
    copies = np.repeat(np.arange(50), weight)
    weighted = fit(X, y, weight, solver=solver, **FORMS[form])
    copied = fit(X[copies], y[copies], solver=solver, **FORMS[form])
    np.testing.assert_allclose(weighted.coef_, copied.coef_, atol=2e-5)
    assert weighted.objective_ == pytest.approx(copied.objective_, rel=1e-8)


@pytest.mark.parametrize("form", FORMS)
def test_class_weights_multiply_the_penalties(form):
    X, y = clouds(60, seed=2)
    by_class = fit(X, y, class_weight={0: 1.0, 1: 5.0}, **FORMS[form])
    by_row = fit(X, y, np.where(y == 1, 5.0, 1.0), **FORMS[form])
    plain = fit(X, y, **FORMS[form])
    assert np.abs(by_class.coef_ - plain.coef_).max() > 1e-3
    if form != "relaxed":  # there, sample weights raise the prices of breaking the bound as well
        np.testing.assert_allclose(by_class.coef_, by_row.coef_, atol=1e-5)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("solver", SOLVERS)
def test_translations_move_only_the_bias(form, solver):
    X, y = clouds(60, d=3, seed=3)
    shift = np.array([10.0, -20.0, 5.0])
    still = fit(X, y, solver=solver, **FORMS[form])
    moved = fit(X + shift, y, solver=solver, **FORMS[form])
    np.testing.assert_allclose(moved.coef_, still.coef_, atol=1e-5)
    np.testing.assert_allclose(
        moved.decision_function(X + shift), still.decision_function(X), atol=1e-4
    )


@pytest.mark.parametrize("form", FORMS)
def test_rotations(form):
    X, y = clouds(60, d=4, seed=4)
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(4, 4)))[0]
    still, turned = fit(X, y, **FORMS[form]), fit(X @ turn, y, **FORMS[form])
    np.testing.assert_allclose(turned.coef_, still.coef_ @ turn, atol=1e-6)


@pytest.mark.parametrize("solver", ["auto", *SOLVERS])
def test_containers_agree(solver):
    X, y = clouds(80, d=6, seed=5)
    X[np.abs(X) < 0.7] = 0.0
    plain = fit(X, y, B=1.3, solver=solver)
    for other in (np.asfortranarray(X), sp.csr_matrix(X), sp.csc_array(X), X.tolist()):
        same = fit(other, y, B=1.3, solver=solver)
        np.testing.assert_allclose(same.coef_, plain.coef_, atol=1e-4)
        np.testing.assert_allclose(
            same.decision_function(other), plain.decision_function(X), atol=1e-4
        )
    single = fit(X.astype(np.float32), y, B=1.3, solver=solver)
    np.testing.assert_allclose(single.coef_, plain.coef_, atol=1e-4)


def test_pairs_in_parallel_are_the_same():
    X, y = clouds(120, d=4, classes=4)
    for solver in SOLVERS:
        one = fit(X, y, solver=solver, random_state=0)
        two = fit(X, y, solver=solver, random_state=0, n_jobs=2)
        np.testing.assert_allclose(one.coef_, two.coef_, atol=1e-12)


# Degenerate data ----------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("scale", [1e-8, 1e-3, 1e3, 1e8])
def test_scales(form, scale):
    """With C scaled against it, the scale of the data changes nothing but that of the weights."""
    X, y = clouds(60, d=3, seed=6)
    params = dict(FORMS[form])
    plain = fit(X, y, C=1.0, **params)
    if "D" in params:
        params["D"] /= scale**2
    scaled = fit(scale * X, y, C=1.0 / scale**2, **params)
    np.testing.assert_allclose(scale * scaled.coef_, plain.coef_, atol=1e-5)


@pytest.mark.parametrize("form", FORMS)
def test_constant_columns_and_duplicates(form):
    X, y = clouds(40, d=3, seed=7)
    plain = fit(X, y, **FORMS[form])
    padded = fit(np.column_stack([X, np.zeros(40), np.full(40, 1e4)]), y, **FORMS[form])
    np.testing.assert_allclose(padded.coef_[:, :3], plain.coef_, atol=1e-6)
    assert np.abs(padded.coef_[:, 3:]).max() < 1e-6


def test_two_rows():
    machine = fit([[0.0], [2.0]], ["b", "a"], C=10.0, spread=0.0)
    np.testing.assert_allclose(machine.decision_function([[0.0], [2.0]]), [1.0, -1.0], atol=1e-6)
    assert machine.relative_margin_ == pytest.approx(1.0)


def test_rows_that_are_all_the_same():
    machine = fit(np.ones((6, 2)), [0, 0, 0, 0, 1, 1], spread=0.3)
    np.testing.assert_allclose(machine.coef_, 0.0, atol=1e-9)
    assert np.all(machine.predict(np.ones((2, 2))) == 0)


# Input and convergence ----------------------------------------------------------------------------

X_SMALL, Y_SMALL = clouds(30)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"B": 0.9}, "B"),
        ({"spread": 1.1}, "spread"),
        ({"D": -1.0}, "D"),
        ({"D": 1.0, "nu": 0.0}, "nu"),
        ({"nu": 2.0}, "needs D"),
        ({"B": 1.5, "D": 1.0}, "one of them"),
        ({"solver": "newton"}, "solver"),
        ({"fit_intercept": 2}, "fit_intercept"),
        ({"C": 0.0}, "C"),
        ({"tol": 0.0}, "tol"),
        ({"max_iter": -2}, "max_iter"),
        ({"class_weight": {0: -1.0}}, "class_weight"),
    ],
)
def test_bad_parameters(monkeypatch, params, message):
    monkeypatch.setattr(
        module, "solve_linear_relative_margin", lambda *_, **__: pytest.fail("work was started")
    )
    with pytest.raises(ValueError, match=message):
        LinearRelativeMarginClassifier(**params).fit(X_SMALL, Y_SMALL)


@pytest.mark.parametrize("solver", SOLVERS)
def test_rows_that_overflow(solver):
    with pytest.raises(ValueError, match=r"not finite.*scale"):
        LinearRelativeMarginClassifier(solver=solver).fit(X_SMALL * 1e160, Y_SMALL)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("limit", [1, 3])
def test_limit_warns_with_the_gap(solver, limit):
    X, y = clouds(200, d=5)
    machine = LinearRelativeMarginClassifier(B=1.1, C=10, solver=solver, max_iter=limit)
    with pytest.warns(ConvergenceWarning, match=rf"max_iter={limit} was reached.*gap reached"):
        machine.fit(X, y)
    assert machine.converged_ is False
    assert machine.n_iter_ == limit
    assert machine.dual_gap_ > 1e-4
    assert machine.objective_ >= fit(X, y, B=1.1, C=10).objective_


def test_interrupted_fit_leaves_no_half_state(monkeypatch):
    machine = LinearRelativeMarginClassifier().fit(X_SMALL, Y_SMALL)
    before = machine.decision_function(X_SMALL)

    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    other, labels = clouds(40, d=5, classes=3)
    with monkeypatch.context() as patch:
        patch.setattr(module, "solve_linear_batch", interrupted)
        with pytest.raises(KeyboardInterrupt):
            machine.fit(other, labels)
    assert np.array_equal(machine.decision_function(X_SMALL), before)
    with pytest.raises(NotFittedError):
        clone(machine).predict(X_SMALL)


def test_saving_and_searching():
    X, y = clouds(60, classes=3)
    machine = LinearRelativeMarginClassifier().fit(X, y)
    loaded = pickle.loads(pickle.dumps(machine))
    assert np.array_equal(loaded.decision_function(X), machine.decision_function(X))
    search = GridSearchCV(LinearRelativeMarginClassifier(), {"spread": [0.2, 1.0]}, cv=3)
    assert search.fit(X, y).best_score_ > 0.4


def test_talking(capfd):
    LinearRelativeMarginClassifier().fit(X_SMALL, Y_SMALL)
    captured = capfd.readouterr()
    assert captured.out == captured.err == ""
    for solver in SOLVERS:
        LinearRelativeMarginClassifier(verbose=1, solver=solver).fit(X_SMALL, Y_SMALL)
        assert "violation" in capfd.readouterr().err


# Memory -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_memory_is_linear_in_rows_and_has_no_copy_of_the_input(kind):
    """A double-precision copy of the rows alone would be twice the size of the input."""
    rng = np.random.default_rng(0)
    n, d = 10_000, 400
    if kind == "dense":
        X = rng.normal(size=(n, d)).astype(np.float32)
        size = X.nbytes
    else:
        indices = np.sort(rng.integers(0, 100, size=(n, d)) + 100 * np.arange(d), axis=1)
        data = rng.normal(size=indices.size).astype(np.float32)
        pointers = np.arange(0, indices.size + 1, d, dtype=np.int32)
        X = sp.csr_matrix((data, indices.ravel().astype(np.int32), pointers), shape=(n, 100 * d))
        size = X.data.nbytes
    y = np.asarray(X[:, :50].sum(axis=1)).ravel() > 0
    machine = LinearRelativeMarginClassifier(B=5.0, C=1e-3, tol=0.1)
    machine.fit(X, y)  # Compiles what it needs, which takes memory, too.
    tracemalloc.start()
    machine.fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < size


def test_bands_of_so_few_rows_that_their_products_are_enough():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 4))
    y = X[:, 0] + 0.5 * rng.normal(size=80) > 0.0
    bands, other = (fit(X, y, solver=solver) for solver in ("bands", "interior-point"))
    assert bands.converged_
    assert pytest.approx(other.B_, rel=1e-6) == bands.B_
    np.testing.assert_allclose(bands.decision_function(X), other.decision_function(X), atol=1e-6)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("form", FORMS)
def test_one_class_against_the_rest(form, solver):
    """The model is that of two-class problems, one after the other."""
    X, y = clouds(90, d=4, classes=4)
    how = {"tol": 1e-6, "solver": solver, **FORMS[form]}
    machine = fit(X, y, multi_class="ovr", **how)
    assert machine.coef_.shape == (4, 4)
    scores = machine.decision_function(X)
    assert scores.shape == (90, 4)
    assert np.array_equal(machine.predict(X), machine.classes_[scores.argmax(axis=1)])
    for k in range(4):
        alone = fit(X, y == k, **how)
        assert machine.objective_[k] == pytest.approx(alone.objective_[0], rel=1e-4)
        np.testing.assert_allclose(scores[:, k], alone.decision_function(X), atol=0.03)
        assert machine.relative_margin_[k] == pytest.approx(
            1 / np.abs(scores[:, k]).max(), rel=1e-6
        )


@pytest.mark.parametrize("multi_class", ["ovr", "ovo"])
@pytest.mark.parametrize("form", ["svm", "spread", "B"])
def test_all_problems_at_once_and_one_by_one(multi_class, form):
    X, y = clouds(150, d=5, classes=4)
    weights = np.random.default_rng(0).uniform(0.0, 2.0, 150) * (np.arange(150) % 7 > 0)
    how = {**FORMS[form], "tol": 1e-6, "max_iter": 20_000, "multi_class": multi_class}
    how["class_weight"] = "balanced"
    together = LinearRelativeMarginClassifier(**how).fit(X, y, weights)
    alone = LinearRelativeMarginClassifier(solver="interior-point", **how).fit(X, y, weights)
    np.testing.assert_allclose(together.objective_, alone.objective_, rtol=1e-4)
    np.testing.assert_allclose(together.coef_, alone.coef_, atol=0.03)
    assert together.converged_


def test_one_class_against_the_rest_of_a_row_source():
    X, y = clouds(400, d=4, classes=4)
    how = {
        "spread": 0.5,
        "tol": 1e-5,
        "multi_class": "ovr",
    }
    how["class_weight"] = {0: 2.0, 1: 1.0, 2: 0.5, 3: 1.0}
    memory = LinearRelativeMarginClassifier(**how).fit(X, y)
    source = LinearRelativeMarginClassifier(**how).fit(ArrayRows(X, y))
    np.testing.assert_allclose(source.objective_, memory.objective_, rtol=1e-4)
    np.testing.assert_allclose(source.coef_, memory.coef_, atol=0.03)
    scores, same = source.decision_function(X), memory.decision_function(X)
    assert np.array_equal(source.predict(X), source.classes_[scores.argmax(axis=1)])
    # Solutions within the gap part only rows whose two largest outputs are nearly equal.
    clear = np.diff(np.sort(same, axis=1)[:, -2:], axis=1)[:, 0] > 2 * np.abs(scores - same).max()
    assert clear.mean() > 0.5
    assert np.array_equal(source.predict(X)[clear], memory.predict(X)[clear])


def test_one_class_against_the_rest_of_a_calibrated_and_a_saved_model():
    X, y = clouds(200, d=4, classes=4)
    inner = LinearRelativeMarginClassifier(multi_class="ovr")
    model = CalibratedMarginClassifier(inner, cv=3).fit(X, y)
    chances = model.predict_proba(X)
    assert chances.shape == (200, 4)
    assert np.array_equal(model.predict(X), model.classes_[chances.argmax(axis=1)])
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X), chances)
