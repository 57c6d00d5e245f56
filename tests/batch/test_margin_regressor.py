"""MarginRegressor: against SVR and QuantileRegressor, invariances, inputs, checks."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone, is_regressor
from sklearn.datasets import load_diabetes, make_friedman1, make_regression
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import QuantileRegressor
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR
from sklearn.utils.estimator_checks import parametrize_with_checks

import oblong.batch.margin_regressor as module
from oblong import MarginRegressor


@parametrize_with_checks(
    [
        # Weights are compared with copies to seven digits, so the solution has to be that exact.
        MarginRegressor(tol=1e-8),
        MarginRegressor(kernel="linear", tol=1e-9),
        MarginRegressor(loss="quantile", quantile=0.3, tol=1e-8),
        MarginRegressor(kernel="precomputed"),
    ]
)
def test_estimator_checks(estimator, check):
    with warnings.catch_warnings():
        # Random numbers are no positive semidefinite matrix, and tol=1e-9 asks for much.
        warnings.simplefilter("ignore", ConvergenceWarning)
        check(estimator)


def friedman(n=200, seed=0):
    X, y = make_friedman1(n, noise=1.0, random_state=seed)
    return X, y


def dual_of_svr(model, K, y):
    """Dual objective of a fitted SVR, by the textbook formula."""
    c = np.zeros(len(y))
    c[model.support_] = model.dual_coef_[0]
    return y @ c - model.epsilon * np.abs(c).sum() - 0.5 * c @ K @ c


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf"])
@pytest.mark.parametrize("C", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0])
def test_equals_svr(kernel, C, epsilon):
    X, y = friedman()
    y = (y - y.mean()) / y.std()
    # LIBSVM keeps the kernel in single precision, which a large gamma would show.
    settings = {"kernel": kernel, "C": C, "epsilon": epsilon, "gamma": 0.1, "coef0": 1.0}
    model = MarginRegressor(**settings, tol=1e-7).fit(X, y)
    peer = SVR(**settings, tol=1e-7).fit(X, y)
    assert model.converged_
    K = {"linear": X @ X.T, "poly": (0.1 * X @ X.T + 1.0) ** 3, "rbf": rbf_kernel(X, gamma=0.1)}
    dual = dual_of_svr(peer, K[kernel], y)
    assert model.objective_ == pytest.approx(dual, rel=1e-6)
    assert model.objective_ * (1.0 - model.dual_gap_) == pytest.approx(dual, rel=1e-6)
    new = friedman(100, seed=1)[0]
    np.testing.assert_allclose(model.predict(new), peer.predict(new), rtol=0, atol=1e-4)
    assert model.n_support_.shape == (1,)
    assert model.dual_coef_.shape == (1, model.n_support_[0])


def test_many_rows_equal_svr():
    """More rows than one block holds, with the solution of a sample as the start."""
    X, y = friedman(5000)
    model = MarginRegressor(C=2.0, tol=1e-5).fit(X, y)
    peer = SVR(C=2.0, tol=1e-5).fit(X, y)
    assert model.converged_
    assert model.objective_ == pytest.approx(
        dual_of_svr(peer, rbf_kernel(X, gamma=peer._gamma), y), rel=1e-6
    )
    np.testing.assert_allclose(model.predict(X), peer.predict(X), rtol=0, atol=1e-4)


def pinball(y, f, quantile):
    return np.maximum(quantile * (y - f), (quantile - 1.0) * (y - f)).sum()


@pytest.mark.parametrize("quantile", [0.1, 0.5, 0.9])
def test_linear_quantiles_equal_those_of_scikit_learn(quantile):
    """With a large penalty of errors the norm no longer matters, in both penalties."""
    X, y = load_diabetes(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    y = (y - y.mean()) / y.std()
    model = MarginRegressor(loss="quantile", quantile=quantile, kernel="linear", C=1e4).fit(X, y)
    peer = QuantileRegressor(quantile=quantile, alpha=0.0).fit(X, y)
    assert model.converged_
    assert pinball(y, model.predict(X), quantile) == pytest.approx(
        pinball(y, peer.predict(X), quantile), rel=1e-3
    )


@pytest.mark.parametrize("quantile", [0.05, 0.3, 0.75])
def test_share_of_targets_below(quantile):
    X, y = friedman(400)
    model = MarginRegressor(loss="quantile", quantile=quantile, C=5.0, tol=1e-6).fit(X, y)
    f = model.predict(X)
    assert (y < f - 1e-6).mean() <= quantile <= (y <= f + 1e-6).mean()


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("n", [60, 1200])
def test_several_quantiles_never_cross(kernel, n):
    X, y = friedman(n)
    levels = (0.5, 0.45, 0.05, 0.55)
    settings = {"loss": "quantile", "kernel": kernel, "gamma": 0.2, "C": 30.0}
    model = MarginRegressor(**settings, quantile=levels).fit(X, y)
    alone = [MarginRegressor(**settings, quantile=level).fit(X, y) for level in levels]
    assert model.converged_
    assert model.objective_ == pytest.approx([one.objective_ for one in alone], rel=1e-12)
    assert model.dual_coef_.shape == (4, model.n_support_[0])
    new = friedman(500, seed=1)[0] * 3.0 - 1.0
    outputs = np.array([one.predict(new) for one in alone]).T
    ranks = np.argsort(levels)
    assert (np.diff(outputs[:, ranks], axis=1) < 0.0).any()
    found = model.predict(new)
    assert found.shape == (500, 4)
    assert (np.diff(found[:, ranks], axis=1) >= 0.0).all()
    np.testing.assert_allclose(np.sort(found, axis=1), np.sort(outputs, axis=1), atol=1e-10)


def test_linear_models_of_many_rows_are_those_of_the_kernel_solver(monkeypatch):
    X, y = friedman(1100)
    settings = {"kernel": "linear", "C": 2.0, "tol": 1e-7}
    fast = MarginRegressor(**settings).fit(X, y, sample_weight=np.arange(1100) % 3)
    monkeypatch.setattr(module, "suits_linear_regression", lambda X: False)
    slow = MarginRegressor(**settings).fit(X, y, sample_weight=np.arange(1100) % 3)
    assert fast.converged_
    assert fast.objective_ == pytest.approx(slow.objective_, rel=1e-8)
    np.testing.assert_allclose(fast.coef_, slow.coef_, atol=1e-5)
    np.testing.assert_array_equal(fast.support_, slow.support_)
    np.testing.assert_allclose(fast.dual_coef_, slow.dual_coef_, atol=1e-4)
    # The gap bounds how far the combination of the rows can be from the weights.
    off = fast.dual_coef_[0] @ fast.support_vectors_ - fast.coef_[0]
    assert 0.5 * off @ off <= fast.dual_gap_ * fast.objective_


def test_bounds_hold_on_the_training_rows():
    X, y = friedman()
    y = np.clip(y, 5.0, 18.0)
    settings = {"loss": "quantile", "kernel": "linear", "C": 10.0}
    free = MarginRegressor(**settings).fit(X, y).predict(X)
    assert free.max() > 18.0
    model = MarginRegressor(**settings, bounds=(5.0, 18.0)).fit(X, y)
    f = model.predict(X)
    assert model.converged_
    assert f.min() >= 5.0 - 1e-9
    assert f.max() <= 18.0 + 1e-9


@pytest.mark.parametrize("loss", ["epsilon", "quantile"])
def test_shift_of_the_targets_moves_only_the_intercept(loss):
    X, y = friedman()
    model = MarginRegressor(loss=loss, quantile=0.3, tol=1e-9)
    first, second = clone(model).fit(X, y), clone(model).fit(X, y + 1000.0)
    np.testing.assert_allclose(second.predict(X) - 1000.0, first.predict(X), rtol=0, atol=1e-8)
    assert second.intercept_[0] - 1000.0 == pytest.approx(first.intercept_[0], abs=1e-8)


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_scale_of_the_targets(scale):
    """Targets, tube and penalty in other units give the same model in these units."""
    X, y = friedman()
    first = MarginRegressor(C=2.0, epsilon=0.1, tol=1e-9).fit(X, y)
    second = MarginRegressor(C=2.0 * scale, epsilon=0.1 * scale, tol=1e-9 * scale)
    second.fit(X, scale * y)
    np.testing.assert_allclose(second.predict(X) / scale, first.predict(X), rtol=0, atol=1e-8)


@pytest.mark.parametrize("loss", ["epsilon", "quantile"])
def test_weights_are_copies(loss):
    X, y = friedman(60)
    counts = np.random.default_rng(0).integers(0, 3, 60)
    model = MarginRegressor(loss=loss, tol=1e-9)
    weighted = clone(model).fit(X, y, sample_weight=counts)
    copied = clone(model).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    np.testing.assert_allclose(weighted.predict(X), copied.predict(X), rtol=0, atol=1e-7)
    assert weighted.objective_ == pytest.approx(copied.objective_, rel=1e-8)
    assert (counts[weighted.support_] > 0).all()


@pytest.mark.parametrize("loss", ["epsilon", "quantile"])
def test_constant_targets(loss):
    X, _ = friedman(30)
    model = MarginRegressor(loss=loss).fit(X, np.full(30, 7.25))
    assert model.converged_
    assert model.n_support_[0] == 0
    np.testing.assert_array_equal(model.predict(X), 7.25)


def test_a_tube_around_everything():
    X, y = friedman(30)
    model = MarginRegressor(epsilon=100.0).fit(X, y)
    assert model.n_support_[0] == 0
    assert model.objective_ == 0.0
    np.testing.assert_allclose(model.predict(X), 0.5 * (y.min() + y.max()))


@pytest.mark.parametrize("loss", ["epsilon", "quantile"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_one_and_two_rows(loss, kernel):
    one = MarginRegressor(loss=loss, kernel=kernel).fit([[1.0, 2.0]], [3.0])
    assert one.predict([[5.0, 5.0]])[0] == 3.0
    X, y = [[0.0, 0.0], [1.0, 1.0]], [0.0, 1.0]
    two = MarginRegressor(loss=loss, kernel=kernel, C=100.0).fit(X, y)
    peer = SVR(kernel=kernel, C=100.0, epsilon=0.1 if loss == "epsilon" else 0.0).fit(X, y)
    np.testing.assert_allclose(two.predict(X), peer.predict(X), atol=1e-3)


def test_equal_rows_with_different_targets():
    X = np.zeros((5, 2))
    y = np.array([0.0, 1.0, 2.0, 10.0, 20.0])
    median = MarginRegressor(loss="quantile", kernel="rbf", gamma=1.0).fit(X, y)
    np.testing.assert_allclose(median.predict(X), 2.0, atol=1e-3)


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf"])
def test_containers(kernel):
    X, y = friedman(100)
    X[X < 0.5] = 0.0
    settings = {"kernel": kernel, "tol": 1e-8, "gamma": 0.5}
    dense = MarginRegressor(**settings).fit(X, y)
    sparse = MarginRegressor(**settings).fit(sp.csr_array(X), y)
    assert sp.issparse(sparse.support_vectors_)
    for rows in (X, sp.csr_array(X), sp.csc_matrix(X)):
        np.testing.assert_allclose(sparse.predict(rows), dense.predict(X), rtol=0, atol=1e-6)
    single = MarginRegressor(**settings).fit(X.astype(np.float32), y)
    assert single.predict(X.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(single.predict(X), dense.predict(X), rtol=0, atol=1e-4)


def test_precomputed_and_callable_kernels():
    X, y = friedman(80)
    new = friedman(20, seed=1)[0]
    model = MarginRegressor(gamma=0.5, tol=1e-8).fit(X, y)
    K = rbf_kernel(X, gamma=0.5)
    given = MarginRegressor(kernel="precomputed", tol=1e-8).fit(K, y)
    called = MarginRegressor(kernel=lambda A, B: rbf_kernel(A, B, gamma=0.5), tol=1e-8).fit(X, y)
    expected = model.predict(new)
    np.testing.assert_allclose(given.predict(rbf_kernel(new, X, gamma=0.5)), expected, atol=1e-6)
    np.testing.assert_allclose(called.predict(new), expected, atol=1e-6)
    assert given.support_vectors_.shape == (0, 0)


def test_linear_coefficients():
    X, y = friedman()
    model = MarginRegressor(kernel="linear").fit(X, y)
    np.testing.assert_allclose(
        model.predict(X), X @ model.coef_[0] + model.intercept_[0], rtol=1e-12
    )
    np.testing.assert_allclose(model.coef_, model.dual_coef_ @ model.support_vectors_, atol=1e-6)
    assert not hasattr(model.set_params(kernel="rbf").fit(X, y), "coef_")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"bounds": (0.0, 1.0)}, 'need loss="quantile"'),
        ({"loss": "quantile", "bounds": (1.0, 0.0)}, "low < high"),
        ({"loss": "quantile", "bounds": (0.0, np.inf)}, "two finite numbers"),
        ({"loss": "quantile", "bounds": (0.0, 1.0, 2.0)}, "two finite numbers"),
        ({"loss": "quantile", "bounds": (0.0, 1.0)}, "contain all targets"),
        ({"loss": "quantile", "quantile": 1.0}, "'quantile' parameter"),
        ({"loss": "quantile", "quantile": (0.1, 1.0)}, "between 0 and 1"),
        ({"loss": "quantile", "quantile": ()}, "between 0 and 1"),
        ({"loss": "squared"}, "'loss' parameter"),
        ({"epsilon": -0.1}, "'epsilon' parameter"),
        ({"C": 0.0}, "'C' parameter"),
        ({"loss": "quantile", "bounds": (-99, 99), "kernel": "sigmoid"}, "bounds have no solution"),
    ],
)
def test_bad_parameters_are_clear_errors(settings, message):
    X, y = friedman(50)
    model = MarginRegressor(**settings)
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_bad_weights_are_clear_errors():
    X, y = friedman(20)
    with pytest.raises(ValueError, match=r"weight above zero|at least one non-zero"):
        MarginRegressor().fit(X, y, sample_weight=np.zeros(20))
    with pytest.raises(ValueError, match="Negative values"):
        MarginRegressor().fit(X, y, sample_weight=np.full(20, -1.0))


def test_a_limit_of_steps_is_kept_and_reported():
    X, y = friedman(500)
    model = MarginRegressor(C=100.0, max_iter=3)
    with pytest.warns(ConvergenceWarning, match="max_iter=3"):
        model.fit(X, y)
    assert not model.converged_
    assert model.dual_gap_ > 1e-3


def test_an_indefinite_kernel_has_no_certificate():
    X, y = friedman(50)
    with pytest.warns(ConvergenceWarning, match="positive semidefinite"):
        model = MarginRegressor(kernel="sigmoid", gamma=1.0).fit(10.0 * (X - 0.5), y)
    assert model.dual_gap_ == np.inf
    assert np.isfinite(model.predict(X)).all()


def test_a_fit_that_fails_leaves_the_model_as_it_was(monkeypatch):
    X, y = friedman(50)
    model = MarginRegressor().fit(X, y)
    before = model.predict(X)

    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "solve_regressions", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y + 1.0)
    np.testing.assert_array_equal(model.predict(X), before)


def test_at_home_in_scikit_learn():
    X, y = friedman(80)
    assert is_regressor(MarginRegressor())
    pipeline = make_pipeline(StandardScaler(), MarginRegressor())
    search = GridSearchCV(pipeline, {"marginregressor__C": [1.0, 10.0]}, cv=3).fit(X, y)
    other = pickle.loads(pickle.dumps(search))
    np.testing.assert_array_equal(other.predict(X), search.predict(X))
    assert search.score(X, y) > 0.8


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    ("unit", "target", "C"), [(1.0, 1e-12, 1.0), (1e10, 1.0, 1.0), (1.0, 1.0, 1e8)]
)
@pytest.mark.parametrize("params", [{"loss": "quantile", "quantile": 0.3}, {"epsilon": 0.1}])
def test_small_linear_problems_in_any_units(params, unit, target, C, sparse):
    """Where the kernel solver stalls, the weights are found directly."""
    X, y = make_regression(150, 5, noise=1.0, random_state=0)
    y = target * (np.sin(y) + X[:, 0])
    params = {**params, "epsilon": target * params.get("epsilon", 0.0)}
    rows = unit * X
    model = MarginRegressor(kernel="linear", C=C, **params)
    model.fit(sp.csr_matrix(rows) if sparse else rows, y)
    assert model.converged_
    assert model.dual_gap_ <= 1e-3
    # The same problem in units of its own.
    scale = C * unit**2 / target
    params["epsilon"] /= target
    same = MarginRegressor(kernel="linear", C=1e3, **params).fit(X, y / target)
    assert scale >= 1e8
    np.testing.assert_allclose(model.predict(rows) / target, same.predict(X), atol=1e-2)


def test_the_remedy_names_the_targets():
    X, y = make_regression(60, 5, noise=1.0, random_state=0)
    with pytest.warns(ConvergenceWarning, match="the columns and the targets"):
        MarginRegressor(C=1e150).fit(X, y)
