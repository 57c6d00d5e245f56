"""relative_margin_path: the machines of RelativeMarginClassifier, all at once."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

from oblong import RelativeMarginClassifier, relative_margin_path
from tests.batch.data import clouds, real

SPREADS = (1.0, 0.4, 0.1, 0.0)
KERNELS = [
    {"kernel": "linear"},
    {"kernel": "rbf", "gamma": 0.4},
    {"kernel": "poly", "coef0": 1.0, "degree": 2},
    {"kernel": lambda A, B: rbf_kernel(A, B, gamma=0.2)},
]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: str(kernel["kernel"])[:8])
@pytest.mark.parametrize("weighted", [False, True])
def test_points_are_classifiers(kernel, weighted):
    X, y = clouds(70, d=4)
    X += 20.0 if kernel["kernel"] == "linear" else 0.0
    new, _ = clouds(30, d=4, seed=1)
    weights = np.random.default_rng(0).integers(0, 3, size=70) if weighted else None
    options = {"C": 3.0, "tol": 1e-7, "class_weight": {0: 2.0, 1: 1.0}, **kernel}
    path = relative_margin_path(X, y, spreads=SPREADS, sample_weight=weights, **options)
    decision, labels = path.decision_function(new), path.predict(new)
    for k, spread in enumerate(SPREADS):
        machine = RelativeMarginClassifier(spread=spread, **options)
        machine.fit(X, y, sample_weight=weights)
        np.testing.assert_allclose(decision[k], machine.decision_function(new), atol=1e-4)
        np.testing.assert_allclose(path.outputs[k], machine.decision_function(X), atol=1e-4)
        np.testing.assert_array_equal(labels[k], machine.predict(new))
        assert path.B[k] == pytest.approx(machine.B_[0], rel=1e-5)
        assert path.theta == pytest.approx(machine.theta_[0], rel=1e-5)
        assert path.relative_margin[k] == pytest.approx(machine.relative_margin_[0], rel=1e-4)
        assert path.objective[k] == pytest.approx(machine.objective_[0], rel=1e-5)
    assert path.converged
    assert (path.dual_gap < 1e-5).all()
    np.testing.assert_allclose(path.coef.sum(axis=1), 0.0, atol=1e-9)
    if weighted:
        assert (path.coef[:, weights == 0] == 0.0).all()


def test_precomputed_kernel():
    X, y = clouds(60)
    new, _ = clouds(20, seed=1)
    path = relative_margin_path(X, y, spreads=SPREADS, gamma=0.3, tol=1e-7)
    given = relative_margin_path(
        rbf_kernel(X, gamma=0.3), y, spreads=SPREADS, kernel="precomputed", tol=1e-7
    )
    np.testing.assert_allclose(
        given.decision_function(rbf_kernel(new, X, gamma=0.3)),
        path.decision_function(new),
        atol=1e-4,
    )


def test_sparse_rows_and_other_labels():
    X, y = clouds(60)
    X[np.abs(X) < 0.5] = 0.0
    words = np.where(y == 1, "yes", "no")
    dense = relative_margin_path(X, y, spreads=SPREADS, tol=1e-7)
    sparse = relative_margin_path(sp.csr_matrix(X), words, spreads=SPREADS, tol=1e-7)
    np.testing.assert_allclose(sparse.outputs, dense.outputs, atol=1e-4)
    np.testing.assert_array_equal(sparse.predict(sp.csr_matrix(X)) == "yes", dense.predict(X) == 1)
    assert list(sparse.classes) == ["no", "yes"]


def test_relative_margin_grows_to_one():
    path = relative_margin_path(*real("breast_cancer"))
    assert list(path.spreads) == [1.0, 0.5, 0.25, 0.1, 0.05, 0.02, 0.0]
    assert (np.diff(path.relative_margin) > 0).all()
    assert (np.diff(path.B) < 0).all()
    assert path.relative_margin[-1] == pytest.approx(1.0, abs=1e-3)
    assert (np.abs(path.outputs).max(axis=1) <= path.B + 1e-3).all()
    assert path.n_iter.sum() > 0


def test_result_is_frozen_and_small_in_print():
    path = relative_margin_path(*clouds(30))
    with pytest.raises(dataclasses.FrozenInstanceError):
        path.theta = 1.0
    assert "_classifier" not in repr(path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"spreads": (0.5, -0.1)}, "between 0 and 1"),
        ({"spreads": (0.5, 2.0)}, "between 0 and 1"),
        ({"spreads": ()}, "one or more numbers"),
        ({"spreads": (np.nan,)}, "between 0 and 1, got .nan"),
        ({"C": -1.0}, "'C' parameter"),
        ({"kernel": "sigmoid", "coef0": -2.0, "gamma": 3.0}, "positive semidefinite"),
    ],
)
def test_bad_arguments(arguments, message):
    X, y = clouds(40)
    with pytest.raises(ValueError, match=message):
        relative_margin_path(X, y, **arguments)


@pytest.mark.parametrize("classes", [1, 3])
def test_two_classes_only(classes):
    X, y = clouds(40, classes=classes)
    with pytest.raises(ValueError, match="two classes"):
        relative_margin_path(X, y)


def test_indefinite_kernel_without_a_bound():
    X, y = clouds(40)
    with pytest.warns(ConvergenceWarning, match="relative_margin_path .* semidefinite"):
        path = relative_margin_path(X, y, kernel="sigmoid", coef0=-2.0, gamma=3.0, spreads=(1.0,))
    assert not path.converged
    assert np.isinf(path.dual_gap).all()
    assert path.coef.shape == (1, 40)


def test_stopped_early_warns():
    X, y = clouds(60)
    with pytest.warns(ConvergenceWarning, match="max_iter=4 was reached"):
        path = relative_margin_path(X, y, C=10.0, max_iter=4)
    assert not path.converged


def test_support_vector_machine_stopped_early_warns():
    """The bounds are relative to a machine that is not a point of this path."""
    X, y = clouds(60)
    with pytest.warns(ConvergenceWarning, match="max_iter=70 was reached"):
        path = relative_margin_path(X, y, C=10.0, max_iter=70, spreads=(0.99,))
    assert not path.converged


def test_one_weight_for_all_rows():
    X, y = clouds(60)
    path = relative_margin_path(X, y, sample_weight=2.0, spreads=(1.0, 0.2))
    same = relative_margin_path(X, y, C=2.0, spreads=(1.0, 0.2))
    np.testing.assert_allclose(path.outputs, same.outputs, atol=1e-3)
