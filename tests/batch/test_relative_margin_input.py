"""Input that cannot be used is refused, clearly and before any work."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning, NotFittedError

import oblong.batch.relative_margin as module
from oblong import RelativeMarginClassifier
from tests.batch.data import clouds

X, Y = clouds(30)


@pytest.fixture(autouse=True)
def no_solver(monkeypatch, request):
    """Fail if the solver is reached, unless the test asks for it."""
    if "uses_solver" in request.fixturenames:
        return

    def reached(*args, **kwargs):
        pytest.fail("the solver was started on input it should never see")

    monkeypatch.setattr(module, "solve_grid", reached)


@pytest.fixture
def uses_solver():
    """Mark a test that fits."""


def _with(value):
    bad = X.copy()
    bad[3, 1] = value
    return bad


@pytest.mark.parametrize(
    ("data", "labels", "message"),
    [
        (_with(np.nan), Y, "NaN"),
        (_with(np.inf), Y, "infinity"),
        (sp.csr_array(_with(np.nan)), Y, "NaN"),
        (X[:0], Y[:0], "0 sample"),
        (X[:, :0], Y, r"0 feature\(s\)"),
        (X, np.zeros(30), "class"),
        (X[:1], Y[:1], "class|sample"),
        (X, Y[:-1], "inconsistent numbers of samples"),
        (X, np.linspace(0, 1, 30), "Unknown label type"),
        (X, np.where(Y == 1, np.nan, 0.0), "missing value"),
        (X[0], Y[0:3], "Expected 2D array"),
        (X + 1j, Y, "[Cc]omplex"),
        (np.array([["a", "b", "c"]] * 30), Y, "could not convert|dtype"),
        (X, np.column_stack([Y, Y]), "y should be a 1d array|multilabel"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_data(data, labels, message):
    with pytest.raises(ValueError, match=message):
        RelativeMarginClassifier().fit(data, labels)


def test_missing_labels():
    with pytest.raises(ValueError, match="requires y to be passed"):
        RelativeMarginClassifier().fit(X, None)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("B", 0.99),
        ("B", 0.0),
        ("B", -2.0),
        ("B", np.nan),
        ("B", "two"),
        ("spread", -0.01),
        ("spread", 1.01),
        ("spread", np.nan),
        ("spread", None),
        ("C", 0.0),
        ("C", -1.0),
        ("C", np.nan),
        ("C", np.inf),
        ("C", "one"),
        ("kernel", "gaussian"),
        ("kernel", 3),
        ("gamma", "huge"),
        ("gamma", -0.1),
        ("gamma", np.nan),
        ("degree", -1),
        ("degree", 2.5),
        ("coef0", "zero"),
        ("tol", 0.0),
        ("tol", -1e-3),
        ("max_iter", -2),
        ("max_iter", 1.5),
        ("class_weight", "heavy"),
        ("class_weight", 2.0),
        ("cache_size", 0),
        ("cache_size", -1),
        ("decision_function_shape", "ovx"),
        ("break_ties", "last"),
        ("n_jobs", "all"),
        ("random_state", "seed"),
    ],
)
def test_parameters(name, value):
    with pytest.raises(ValueError, match=rf"'?{name}'?"):
        RelativeMarginClassifier(**{name: value}).fit(X, Y)


def test_parameters_are_keywords():
    with pytest.raises(TypeError):
        RelativeMarginClassifier(1.0)


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (-np.ones(30), "[Nn]egative"),
        (np.where(np.arange(30) == 4, -1e-9, 1.0), "[Nn]egative"),
        (np.zeros(30), "zero|positive"),
        ((Y == 1).astype(float), "class"),
        (np.ones(29), "sample_weight"),
        (np.ones((30, 2)), "1D|1-d|dimension"),
        (np.full(30, np.nan), "NaN"),
        (np.full(30, np.inf), "infinity"),
    ],
)
def test_weights(weight, message):
    with pytest.raises(ValueError, match=message):
        RelativeMarginClassifier().fit(X, Y, sample_weight=weight)


@pytest.mark.parametrize("value", [-1.0, 0.0, np.nan, np.inf])
def test_class_weights_that_are_not_weights(value):
    with pytest.raises(ValueError, match="class_weight"):
        RelativeMarginClassifier(class_weight={0: value, 1: 1.0}).fit(X, Y)


def test_class_weight_for_an_unknown_class():
    with pytest.raises(ValueError, match=r"\[0, 1\].* not in class_weight"):
        RelativeMarginClassifier(class_weight={7: 1.0}).fit(X, Y)


@pytest.mark.usefixtures("uses_solver")
def test_class_weight_may_name_absent_classes():
    """A fold of a cross-validation can lack a class that the dict names, as in SVC."""
    extra = RelativeMarginClassifier(class_weight={0: 1.0, 1: 2.0, 7: 3.0}).fit(X, Y)
    plain = RelativeMarginClassifier(class_weight={0: 1.0, 1: 2.0}).fit(X, Y)
    assert np.array_equal(extra.dual_coef_, plain.dual_coef_)


@pytest.mark.parametrize("shape", [(30, 29), (29, 30)])
def test_precomputed_kernel_must_be_square(shape):
    with pytest.raises(ValueError, match="square"):
        RelativeMarginClassifier(kernel="precomputed").fit(np.ones(shape), Y[: shape[0]])


def test_precomputed_kernel_must_be_symmetric():
    K = X @ X.T
    K[3, 4] += 1.0
    with pytest.raises(ValueError, match="symmetric"):
        RelativeMarginClassifier(kernel="precomputed").fit(K, Y)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.usefixtures("uses_solver")
@pytest.mark.parametrize("kernel", ["linear", "poly"])
def test_kernel_values_that_overflow(kernel):
    """Rows can be finite while their products are not."""
    with pytest.raises(ValueError, match=r"not finite.* scale"):
        RelativeMarginClassifier(kernel=kernel, gamma=1.0).fit(X * 1e170, Y)


@pytest.mark.parametrize("bound", [{"spread": 0.5}, {"spread": 0.0}, {"B": 1.5}])
def test_indefinite_kernels_cannot_be_bounded(bound):
    signs = np.where(np.arange(30) % 3 == 0, -1.0, 1.0)
    K = (X * [1.0, 1.0, -2.0]) @ X.T
    with pytest.raises(ValueError, match="definite"):
        RelativeMarginClassifier(kernel="precomputed", **bound).fit(K, Y)
    with pytest.raises(ValueError, match="definite"):
        RelativeMarginClassifier(kernel="precomputed", **bound).fit(np.diag(signs), Y)
    with pytest.raises(ValueError, match="definite"):
        RelativeMarginClassifier(kernel="sigmoid", gamma=1.0, coef0=-1.0, **bound).fit(X, Y)
    with pytest.raises(ValueError, match="definite"):
        RelativeMarginClassifier(kernel=lambda A, B: -A @ B.T, **bound).fit(X, Y)


@pytest.mark.usefixtures("uses_solver")
def test_indefinite_kernels_without_a_bound():
    """At spread 1 the box keeps the problem bounded, as in SVC; but nothing is certified."""
    machine = RelativeMarginClassifier(kernel="sigmoid", gamma=0.1, coef0=-1.0, spread=1)
    with pytest.warns(ConvergenceWarning, match="no gap can be proved"):
        machine.fit(X, Y)
    assert not machine.converged_
    assert np.all(np.isfinite(machine.decision_function(X)))


@pytest.mark.usefixtures("uses_solver")
def test_semidefinite_precomputed_kernel_passes_despite_rounding():
    """A low-rank Gram matrix has eigenvalues of either sign at the level of rounding."""
    wide, labels = clouds(60, d=2)
    K = wide @ wide.T
    assert np.linalg.eigvalsh(K).min() < 0
    machine = RelativeMarginClassifier(kernel="precomputed", spread=0.3).fit(K, labels)
    linear = RelativeMarginClassifier(kernel="linear", spread=0.3).fit(wide, labels)
    np.testing.assert_allclose(
        machine.decision_function(K), linear.decision_function(wide), atol=1e-2
    )


@pytest.mark.parametrize("method", ["predict", "decision_function"])
def test_unfitted(method):
    with pytest.raises(NotFittedError):
        getattr(RelativeMarginClassifier(), method)(X)


@pytest.mark.usefixtures("uses_solver")
@pytest.mark.parametrize("method", ["predict", "decision_function"])
@pytest.mark.parametrize(
    ("data", "message"),
    [(_with(np.nan), "NaN"), (X[:, :2], "2 features"), (X[:0], "0 sample"), (X[0], "2D")],
)
def test_prediction_data(method, data, message):
    machine = RelativeMarginClassifier().fit(X, Y)
    with pytest.raises(ValueError, match=message):
        getattr(machine, method)(data)
