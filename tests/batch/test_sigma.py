"""SigmaSVC: its special cases, invariances, input and life in scikit-learn."""

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
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from oblong import LinearRelativeMarginClassifier, MinimumVolumeEllipsoid, SigmaSVC
from oblong.io import open_rows
from oblong.solvers.covariance.options import CovarianceOptions
from tests.batch.data import clouds, parallel_lines, real


def fit(X, y, weight=None, **params) -> SigmaSVC:
    return SigmaSVC(**{"tol": 1e-7, **params}).fit(X, y, sample_weight=weight)


def whiten(X, D):
    """Rows in which the Σ-SVM is the plain one: z'z = (x - μ)' ((1-D)I + DΣ)^-1 (x - μ)."""
    metric = (1 - D) * np.eye(X.shape[1]) + D * np.cov(X.T, bias=True)
    values, vectors = np.linalg.eigh(metric)
    mean, root = X.mean(axis=0), vectors / np.sqrt(values)
    return lambda Z: (Z - mean) @ root


@parametrize_with_checks(
    [
        SigmaSVC(),
        SigmaSVC(kernel="linear", D=0.9, tol=1e-9),
        SigmaSVC(rank=30, tol=1e-9),
    ]
)
def test_estimator_checks(estimator, check):
    check(estimator)


def test_signature_of_the_contract():
    defaults = SigmaSVC().get_params()
    assert defaults["D"] == 0.5
    assert defaults["rank"] is None
    assert {"C", "kernel", "gamma", "tol", "class_weight", "n_jobs"} <= set(defaults)


# Special cases ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["iris", "breast_cancer"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_share_zero_is_the_svm(name, kernel):
    X, y = real(name, 150)
    ours = fit(X, y, D=0.0, kernel=kernel, decision_function_shape="ovo")
    theirs = SVC(kernel=kernel, tol=1e-7, decision_function_shape="ovo").fit(X, y)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-3)
    assert np.array_equal(ours.predict(X), theirs.predict(X))


@pytest.mark.parametrize("D", [0.1, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("d", [3, 70])
def test_linear_kernel_equals_explicit_whitening(D, d):
    """By the d x d way and, with more features than rows, by the kernel's."""
    X, y = clouds(60, d=d)
    X = X * np.geomspace(0.3, 3.0, d) + 5.0
    new = clouds(30, d=d, seed=4)[0]
    z = whiten(X, D)
    expected = fit(z(X), y, D=0.0, kernel="linear", C=0.5).decision_function(z(new))
    machine = fit(X, y, D=D, kernel="linear", C=0.5)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(machine.decision_function(new), expected, atol=1e-5 * scale)
    np.testing.assert_allclose(
        new @ machine.coef_[0] + machine.intercept_, expected, atol=1e-5 * scale
    )


def test_two_ways_to_the_linear_machine():
    X, y = clouds(90, classes=3)
    direct = fit(X, y, kernel="linear", D=0.8)
    given = fit(X @ X.T, y, kernel="precomputed", D=0.8)
    np.testing.assert_allclose(
        direct.decision_function(X), given.decision_function(X @ X.T), atol=1e-5
    )
    np.testing.assert_allclose(direct.objective_, given.objective_, rtol=1e-6)


@pytest.mark.parametrize("stretch", [1.0, 100.0])
def test_stretching_does_not_turn_the_machine(stretch):
    X, y = parallel_lines(stretch)
    w = fit(X, y, kernel="linear", D=0.9999, C=100.0).coef_[0]
    # Along the stripes the outputs spread by the stretch, so the slope there has to vanish.
    assert abs(w[0]) * stretch < 0.3 * abs(w[1])


@pytest.mark.parametrize("D", [0.5, 0.99])
def test_covariance_shrinks_the_spread_of_the_outputs(D):
    """At equal hinge loss and length no machine has less of it: check optimality by force."""
    X, y = clouds(60)
    signs = np.where(y == 1, 1.0, -1.0)
    machine = fit(X, y, kernel="linear", D=D)

    def objective(w, b):
        f = X @ w + b
        spread = np.var(X @ w)
        return 0.5 * (1 - D) * w @ w + 0.5 * D * spread + np.maximum(1 - signs * f, 0).sum()

    w, b = machine.coef_[0], machine.intercept_[0]
    best = objective(w, b)
    assert machine.objective_[0] == pytest.approx(best, rel=1e-6)
    rng = np.random.default_rng(0)
    for _ in range(50):
        step = 1e-2 * rng.normal(size=4)
        assert objective(w + step[:3], b + step[3]) >= best - 1e-6


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("D", [0.0, 0.5, 1 - 1e-6])
def test_little_to_learn_from(kernel, D):
    """Two rows, rows that are all the same, and a constant feature."""
    pair = fit(np.array([[0.0, 1.0], [2.0, 1.0]]), [0, 1], kernel=kernel, D=D)
    np.testing.assert_array_equal(pair.predict([[-1.0, 1.0], [3.0, 1.0]]), [0, 1])
    same = fit(np.ones((6, 2)), [0, 1, 0, 1, 0, 0], kernel=kernel, D=D)
    assert np.isfinite(same.decision_function(np.ones((1, 2)))).all()
    without_support = fit(np.ones((6, 2)), [0, 1, 0, 1, 0, 0], kernel=kernel, D=D, rank=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_allclose(
            without_support.decision_function(np.ones((1, 2))),
            same.decision_function(np.ones((1, 2))),
        )
    X, y = clouds(40)
    constant = np.column_stack([X, np.full(40, 7.0)])
    one, other = (
        fit(X, y, kernel=kernel, D=D, gamma=1.0),
        fit(constant, y, kernel=kernel, D=D, gamma=1.0),
    )
    np.testing.assert_allclose(
        other.decision_function(constant), one.decision_function(X), atol=1e-4
    )


# Low rank -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["rbf", "poly", "precomputed", "callable"])
def test_full_rank_changes_nothing(kernel):
    X, y = clouds(60, classes=3)
    params = {"kernel": kernel, "coef0": 1.0, "gamma": 0.3, "decision_function_shape": "ovo"}
    if kernel == "callable":
        params["kernel"] = lambda A, B: rbf_kernel(A, B, gamma=0.3)
    rows = rbf_kernel(X, gamma=0.3) if kernel == "precomputed" else X
    exact, low = fit(rows, y, **params), fit(rows, y, rank=39, **params)
    np.testing.assert_allclose(
        low.decision_function(rows), exact.decision_function(rows), atol=1e-2
    )
    np.testing.assert_allclose(low.objective_, exact.objective_, rtol=1e-3)


def test_few_columns_give_few_support_vectors():
    X, y = real("digits", 300)
    binary = y % 2
    low, exact = fit(X, binary, rank=80, tol=1e-3), fit(X, binary, tol=1e-3)
    assert len(low.support_) <= 80 < len(exact.support_)
    assert low.score(X, binary) > 0.9
    assert 0 <= low.dual_gap_[0] < 1e-2


class SoonApproximated(SigmaSVC):
    _options = CovarianceOptions(largest_exact=100, default_rank=20)


def test_many_rows_are_approximated():
    def n_support(X, y, **params):
        return len(SoonApproximated(**params).fit(X, y).support_)

    X, y = clouds(150)
    assert n_support(X, y) == 20
    assert n_support(X[:90], y[:90]) == 90
    # Few features need no approximation, sparse rows of many features do.
    assert n_support(X, y, kernel="linear") == 150
    wide = sp.random(150, 120, density=0.2, format="csr", random_state=0)
    assert n_support(wide, y, kernel="linear", gamma=1.0) == 20


# Invariances --------------------------------------------------------------------------------------


@pytest.mark.parametrize("params", [{}, {"kernel": "linear"}, {"class_weight": "balanced"}])
@pytest.mark.parametrize("classes", [2, 3])
def test_weights_equal_copies(params, classes):
    X, y = clouds(80, classes=classes, seed=2)
    counts = np.random.default_rng(2).integers(0, 4, size=80)
    weighted = fit(X, y, counts.astype(float), **params)
    copies = fit(np.repeat(X, counts, axis=0), np.repeat(y, counts), **params)
    np.testing.assert_allclose(
        weighted.decision_function(X), copies.decision_function(X), atol=1e-4
    )
    np.testing.assert_allclose(weighted.objective_, copies.objective_, rtol=1e-5)
    assert not np.isin(weighted.support_, np.flatnonzero(counts == 0)).any()


def test_shift_and_rotation():
    X, y = clouds(60)
    Q = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    for kernel in ("linear", "rbf"):
        params = {"kernel": kernel, "gamma": 0.3}
        one, other = fit(X, y, **params), fit(X @ Q + 1e3, y, **params)
        np.testing.assert_allclose(
            other.decision_function(X @ Q + 1e3), one.decision_function(X), atol=1e-4
        )


@pytest.mark.parametrize("params", [{"kernel": "linear"}, {}, {"rank": 12, "gamma": 0.02}])
def test_single_precision(params):
    X, y = clouds(80)
    single = fit(X.astype(np.float32), y, **{**params, "tol": 1e-4})
    double = fit(X, y, **params)
    outputs = single.decision_function(X.astype(np.float32))
    np.testing.assert_allclose(outputs, double.decision_function(X), atol=2e-3)
    assert single.support_vectors_.dtype == np.float32


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
def test_sparse_rows(kernel):
    X, y = clouds(80, classes=3)
    X[np.abs(X) < 0.5] = 0.0
    dense, sparse = fit(X, y, kernel=kernel), fit(sp.csr_matrix(X), y, kernel=kernel)
    np.testing.assert_allclose(
        sparse.decision_function(sp.csr_matrix(X)), dense.decision_function(X), atol=1e-5
    )


def test_parallel_pairs():
    X, y = clouds(90, classes=4)
    np.testing.assert_allclose(
        fit(X, y, n_jobs=2).decision_function(X), fit(X, y).decision_function(X), atol=1e-8
    )


# Certificate, input, life -------------------------------------------------------------------------


@pytest.mark.parametrize("D", [0.0, 0.5, 0.99])
@pytest.mark.parametrize("params", [{}, {"kernel": "linear"}, {"rank": 10}])
def test_certificate(D, params):
    X, y = real("iris")
    machine = SigmaSVC(D=D, **params).fit(X, y)
    assert machine.converged_
    assert machine.dual_gap_.shape == machine.objective_.shape == (3,)
    assert (machine.dual_gap_ >= -1e-9).all()
    assert (machine.dual_gap_ <= 1e-2).all()


def test_limit_on_steps_warns_with_the_gap():
    X, y = clouds(200)
    with pytest.warns(ConvergenceWarning, match="gap reached"):
        machine = SigmaSVC(max_iter=1, C=100.0).fit(X, y)
    assert not machine.converged_


@pytest.mark.parametrize(
    ("params", "message"),
    [({"D": 1.0}, "D"), ({"D": -0.1}, "D"), ({"rank": 0}, "rank"), ({"C": 0.0}, "C")],
)
def test_bad_parameters(params, message):
    X, y = clouds(40)
    with pytest.raises(ValueError, match=f"'{message}' parameter"):
        SigmaSVC(**params).fit(X, y)


@pytest.mark.parametrize("rank", [None, 5])
def test_indefinite_kernel(rank):
    X, y = clouds(40)
    with pytest.raises(ValueError, match=r"not positive semidefinite.*no covariance"):
        SigmaSVC(kernel=lambda A, B: -A @ B.T, rank=rank).fit(X, y)


def test_saved_cloned_and_searched():
    X, y = clouds(90, classes=3)
    names = np.array(["red", "green", "blue"])[y]
    machine = SigmaSVC(D=0.3).fit(X, names)
    loaded = pickle.loads(pickle.dumps(machine))
    assert np.array_equal(loaded.predict(X), machine.predict(X))
    assert clone(machine).get_params() == machine.get_params()
    search = GridSearchCV(SigmaSVC(), {"D": [0.0, 0.9]}, cv=3).fit(X, names)
    assert search.best_score_ > 0.5


@pytest.mark.parametrize("unit", [1e8, 1e10])
@pytest.mark.parametrize("sparse", [False, True])
def test_columns_that_depend_on_others_in_large_units(unit, sparse):
    """The identity in the metric is less than the rounding of the covariance."""
    X, y = clouds(120, seed=3)
    X = np.c_[X, X[:, 0] - 3.0 * X[:, 1], X[:, 2], X.sum(axis=1), X[:, 0] - X[:, 2]]
    rows = unit * X
    model = SigmaSVC(kernel="linear").fit(sp.csr_matrix(rows) if sparse else rows, y)
    assert model.converged_
    assert model.dual_gap_[0] <= 1e-4
    # Next to this covariance the identity is small too.
    same = SigmaSVC(kernel="linear").fit(1e4 * X, y)
    np.testing.assert_allclose(
        model.decision_function(rows), same.decision_function(1e4 * X), atol=1e-4
    )


def test_a_singular_covariance_of_a_row_source_is_refused():
    X, y = clouds(120, seed=3)
    X = np.c_[X, X[:, 0] - 3.0 * X[:, 1], X[:, 2], X.sum(axis=1), X[:, 0] - X[:, 2]]
    source = open_rows(1e12 * X, target=y)
    with pytest.raises(ValueError, match="singular up to rounding: scale the columns"):
        SigmaSVC(kernel="linear").fit(source)


@pytest.mark.parametrize(
    "estimator",
    [SigmaSVC(kernel="linear"), LinearRelativeMarginClassifier(), MinimumVolumeEllipsoid()],
)
def test_squares_that_overflow_end_in_the_error_alone(estimator):
    X, y = clouds(60, seed=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match="not finite: scale the data"):
            estimator.fit(1e160 * X, y)
