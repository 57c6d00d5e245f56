"""EllipsoidalSVC: weights, classes, containers, degenerate data and life in scikit-learn."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

from oblong import EllipsoidalSVC
from tests.batch.data import clouds, real
from tests.batch.ellipsoidal import cosine, fit, separable


@parametrize_with_checks(
    [
        EllipsoidalSVC(),
        EllipsoidalSVC(kernel="linear", formulation="paper", warm_start=True),
        EllipsoidalSVC(kernel="linear", margin="hard"),
        EllipsoidalSVC(rank=8, fit_intercept="augment", normalize=True),
    ]
)
@pytest.mark.filterwarnings("ignore:EllipsoidalSVC")
def test_estimator_checks(estimator, check):
    check(estimator)


# Weights and classes ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"formulation": "paper", "nu": 2.0},
        {"fit_intercept": False},
        {"fit_intercept": "augment", "normalize": True},
        {"margin": "hard"},
        {"class_weight": "balanced"},
        {"kernel": "rbf"},
        {"kernel": "rbf", "rank": 6},
        {"kernel": "rbf", "margin": "hard"},
    ],
)
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.filterwarnings("ignore:EllipsoidalSVC")
def test_weights_equal_copies(params, classes):
    X, y = clouds(50, classes=classes, seed=2)
    counts = np.random.default_rng(2).integers(0, 4, size=50)
    weighted = fit(X, y, counts.astype(float), **params)
    order = np.random.default_rng(3).permutation(counts.sum())
    rows, labels = np.repeat(X, counts, axis=0)[order], np.repeat(y, counts)[order]
    copies = fit(rows, labels, **params)
    outputs = weighted.decision_function(X)
    scale = np.abs(outputs).max()
    np.testing.assert_allclose(copies.decision_function(X), outputs, atol=1e-5 * scale)
    np.testing.assert_allclose(weighted.objective_, copies.objective_, rtol=1e-5)
    np.testing.assert_allclose(
        weighted.metric(X[:5], X), copies.metric(X[:5], X), rtol=1e-3, atol=1e-6
    )
    assert not np.isin(weighted.support_, np.flatnonzero(counts == 0)).any()


def test_class_weights():
    X, y = clouds(80)
    plain, heavy = fit(X, y), fit(X, y, class_weight={0: 5.0, 1: 1.0})
    assert np.mean(heavy.predict(X) == 0) > np.mean(plain.predict(X) == 0)
    by_rows = fit(X, y, class_weight={0: 2.0, 1: 1.0})
    # The same with sample weights, but for the number of rows that these count.
    counted = fit(X, y, np.where(y == 0, 2.0, 1.0), nu=0.2 / 1.5)
    np.testing.assert_allclose(by_rows.coef_, counted.coef_, atol=1e-6)
    balanced = fit(X[20:], y[20:], class_weight="balanced")
    assert balanced.converged_


def test_one_machine_a_class():
    X, y = clouds(90, classes=3)
    names = np.array(["c", "a", "b"])[y]
    machine = fit(X, names)
    assert machine.classes_.tolist() == ["a", "b", "c"]
    assert machine.coef_.shape == (3, 3)
    outputs = machine.decision_function(X)
    for k, name in enumerate(machine.classes_):
        alone = fit(X, names == name)
        length = alone.weight_norm_[0]
        np.testing.assert_allclose(
            alone.decision_function(X) / length, outputs[:, k], atol=1e-6 / length
        )
        np.testing.assert_allclose(alone.B_, machine.B_[k], rtol=1e-4, atol=1e-8)
        assert machine.weight_norm_[k] == pytest.approx(length)
    np.testing.assert_array_equal(machine.classes_[outputs.argmax(axis=1)], machine.predict(X))
    np.testing.assert_allclose(np.linalg.norm(machine.coef_, axis=1), 1.0)
    threads = fit(X, names, n_jobs=2)
    np.testing.assert_allclose(threads.coef_, machine.coef_, atol=1e-9)


# Containers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "params",
    [{}, {"kernel": "rbf"}, {"kernel": "rbf", "rank": 9}, {"rank": 2}, {"normalize": True}],
)
@pytest.mark.parametrize("wide", [False, True])
def test_containers_and_precision(params, wide):
    X, y = clouds(24 if wide else 60, d=40 if wide else 3, classes=3)
    X[np.abs(X) < 0.3] = 0.0
    dense = fit(X, y, **params)
    outputs = dense.decision_function(X)
    for rows in (sp.csr_matrix(X), sp.csc_matrix(X), np.asfortranarray(X)):
        other = fit(rows, y, **params)
        if "rank" in params and sp.issparse(rows):
            # The first pivots are among many equals.
            assert other.decision_function(rows).shape == outputs.shape
            continue
        np.testing.assert_allclose(other.decision_function(rows), outputs, atol=1e-5)
        np.testing.assert_allclose(other.decision_function(X), outputs, atol=1e-5)
        np.testing.assert_allclose(
            other.metric(rows[:4]), dense.metric(X[:4]), rtol=1e-3, atol=1e-6
        )
    single = EllipsoidalSVC(**{"kernel": "linear", **params}).fit(X.astype(np.float32), y)
    assert single.support_vectors_.dtype == np.float32
    again = single.decision_function(X.astype(np.float32))
    assert again.dtype == np.float32
    if "rank" not in params:
        np.testing.assert_allclose(again, outputs, atol=0.02 * np.abs(outputs).max())


def test_precomputed_kernel():
    X, y = clouds(50, classes=3)
    weights = np.ones(50)
    weights[::7] = 0.0
    K = rbf_kernel(X, gamma=0.3)
    given = fit(K, y, weights, kernel="precomputed")
    own = fit(X, y, weights, kernel="rbf", gamma=0.3)
    new = clouds(10, seed=3)[0]
    values = rbf_kernel(new, X, gamma=0.3)
    np.testing.assert_allclose(
        given.decision_function(values), own.decision_function(new), atol=1e-6
    )
    kept = np.flatnonzero(weights)
    np.testing.assert_allclose(
        given.ellipsoid_norm(K[kept]), own.ellipsoid_norm(X[kept]), rtol=1e-4
    )
    np.testing.assert_allclose(
        given.metric(K[kept[:5]]), own.metric(X[kept[:5]]), rtol=1e-4, atol=1e-8
    )
    assert given.__sklearn_tags__().input_tags.pairwise


def test_rows_may_change_after_the_fit():
    X, y = clouds(40)
    machine = fit(X, y, kernel="rbf")
    new = clouds(10, seed=3)[0]
    before = machine.decision_function(new)
    X[:] = 0.0
    np.testing.assert_array_equal(machine.decision_function(new), before)


# Degenerate input ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_rows_with_both_labels(kernel):
    X = np.repeat(clouds(20, d=2)[0], 2, axis=0)
    with pytest.warns(UserWarning, match="constant output"):
        machine = fit(X, np.tile([0, 1], 20), kernel=kernel)
    assert machine.weight_norm_[0] == 0.0
    assert len(set(machine.predict(X))) == 1
    assert machine.dual_gap_[0] <= 1e-8


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_rows_that_are_all_the_same(kernel):
    with pytest.warns(UserWarning, match="constant output"):
        machine = fit(np.ones((6, 2)), [0, 1, 1, 0, 1, 1], kernel=kernel)
    assert set(machine.predict(np.ones((3, 2)))) == {1}


@pytest.mark.parametrize("margin", ["soft", "hard"])
@pytest.mark.parametrize("formulation", ["consistent", "paper"])
def test_a_row_at_the_origin(margin, formulation):
    """It has no length to be divided by, and only the bias knows it."""
    X, y = separable(20)
    plain = fit(X, y, margin=margin, formulation=formulation)
    place = 1 if plain.intercept_[0] > 0 else -1
    more = fit(
        np.vstack([X, np.zeros(3)]), np.append(y, place), margin=margin, formulation=formulation
    )
    assert np.isfinite(more.coef_).all()
    assert more.converged_
    assert cosine(more.coef_, plain.coef_) > 0.99
    if margin == "hard":
        assert place * more.decision_function(np.zeros((1, 3)))[0] >= -1e-6


@pytest.mark.filterwarnings("ignore:EllipsoidalSVC")
def test_rows_of_zeros():
    for normalize in (True, False):
        machine = fit(np.zeros((5, 2)), [0, 1, 1, 1, 1], normalize=normalize)
        assert len(set(machine.predict(np.zeros((4, 2))))) == 1


def test_r_up_to_one():
    X, y = clouds(40)
    one, near = fit(X, y, r=1.0), fit(X, y, r=1 - 1e-9)
    np.testing.assert_array_equal(one.coef_, near.coef_)
    assert one.converged_


@pytest.mark.filterwarnings("ignore:EllipsoidalSVC. no direction")
def test_a_price_beyond_reason_is_reported():
    X, y = clouds(30)
    with pytest.warns(ConvergenceWarning, match="relative duality gap"):
        assert not fit(X, y, nu=1e-300).converged_


def test_two_rows():
    for kernel in ("linear", "rbf"):
        machine = fit(np.array([[0.0, 1.0], [2.0, 1.0]]), ["x", "y"], kernel=kernel)
        assert machine.predict([[0.0, 1.0], [2.0, 1.0]]).tolist() == ["x", "y"]


@pytest.mark.parametrize(
    "params",
    [
        {"nu": 0.0},
        {"r": 0.0},
        {"r": 1.5},
        {"margin": "wide"},
        {"formulation": "printed"},
        {"fit_intercept": "scaled"},
        {"rank": 0},
        {"solver": "sgd"},
        {"tol": 0.0},
    ],
)
def test_bad_parameters(params):
    X, y = clouds(20)
    with pytest.raises(ValueError, match=next(iter(params))):
        fit(X, y, **params)


def test_bad_combinations():
    X, y = clouds(20)
    with pytest.raises(ValueError, match='kernel="linear"'):
        fit(X, y, kernel="rbf", formulation="exact")
    with pytest.raises(ValueError, match="normalize"):
        fit(X @ X.T, y, kernel="precomputed", normalize=True)
    with pytest.raises(ValueError, match="1 class"):
        fit(X, np.zeros(20))
    with pytest.raises(ValueError, match="NaN"):
        fit(np.where(X > 1, np.nan, X), y)


def test_kernels_that_are_not_definite():
    X, y = clouds(20)
    with pytest.raises(ValueError, match="not positive semidefinite"):
        fit(X, y, kernel="sigmoid", gamma=1.0, coef0=-1.0)
    K = rbf_kernel(X)
    with pytest.raises(ValueError, match="not symmetric"):
        fit(K + np.triu(np.ones((20, 20))), y, kernel="precomputed")
    with pytest.raises(ValueError, match="not positive semidefinite"):
        fit(K - 0.01 * np.eye(20) * np.linalg.eigvalsh(K)[-1], y, kernel="precomputed")
    # Round-off is no reason.
    assert fit(K - 1e-12 * np.eye(20), y, kernel="precomputed").converged_


def test_a_failed_fit_leaves_the_machine_as_it_was():
    X, y = clouds(40)
    machine = fit(X, y)
    before = machine.decision_function(X)
    with pytest.raises(ValueError, match="class"):
        machine.fit(X, np.zeros(40))
    np.testing.assert_array_equal(machine.decision_function(X), before)


# Work ---------------------------------------------------------------------------------------------


def test_steps_out_of_reach_are_reported():
    X, y = clouds(100)
    with pytest.warns(ConvergenceWarning, match="relative duality gap"):
        machine = fit(X, y, max_iter=2)
    assert not machine.converged_
    assert machine.dual_gap_[0] > 1e-9


def test_progress(capsys):
    X, y = clouds(60)
    fit(X, y, verbose=1)
    assert "ellipsoidal svm" in capsys.readouterr().err
    fit(X, y)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("solver", ["auto", "newton"])
def test_warm_start_along_nu(solver):
    X, y = clouds(400, d=3, classes=3)
    warm = EllipsoidalSVC(kernel="linear", solver=solver, warm_start=True)
    for nu in (0.7, 0.4, 0.2, 0.1):
        warm.set_params(nu=nu).fit(X, y)
        cold = EllipsoidalSVC(kernel="linear", solver=solver, nu=nu).fit(X, y)
        np.testing.assert_allclose(warm.objective_, cold.objective_, atol=1e-5)
        assert warm.converged_
    # Other rows, or other classes, start afresh.
    warm.fit(X[:, :2], y)
    warm.fit(X[:100], y[:100] > 0)
    np.testing.assert_allclose(warm.coef_, clone(warm).fit(X[:100], y[:100] > 0).coef_, atol=1e-3)


def test_refitting_with_another_kernel():
    X, y = clouds(40)
    machine = fit(X, y)
    machine.set_params(kernel="rbf").fit(X, y)
    assert not hasattr(machine, "coef_")
    assert not hasattr(machine, "B_")
    machine.set_params(kernel="linear").fit(X, y)
    np.testing.assert_array_equal(machine.coef_, fit(X, y).coef_)


def test_life_in_scikit_learn():
    X, y = real("iris", 120)
    search = GridSearchCV(EllipsoidalSVC(), {"nu": [0.1, 0.4], "r": [0.9, 0.99]}, cv=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        search.fit(X, y)
    assert search.best_score_ > 0.9
    machine = search.best_estimator_
    again = pickle.loads(pickle.dumps(machine))
    np.testing.assert_array_equal(again.predict(X), machine.predict(X))
    assert clone(machine).get_params() == machine.get_params()


@pytest.mark.parametrize("classes", [2, 3])
def test_margins_can_be_drawn(classes):
    """``B_`` is a matrix here, and not the bound of a relative margin machine."""
    pytest.importorskip("matplotlib").use("Agg")
    from oblong.display import MarginDisplay

    X, y = clouds(40, classes=classes)
    machine = fit(X, y)
    margins = MarginDisplay.from_estimator({"e-SVM": machine}, X, y).margins["e-SVM"]
    outputs = machine.decision_function(X)
    if classes == 3:
        rows = y < 2
        outputs, y = (outputs[:, 1] - outputs[:, 0])[rows], y[rows]
    np.testing.assert_allclose(margins, np.where(y == 1, outputs, -outputs))
