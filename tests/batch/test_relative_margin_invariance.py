"""Changes to the data that must not change the machine, and data that leave little to learn."""

from __future__ import annotations

import numpy as np
import pytest

from tests.batch.data import clouds, fit

# Rows and weights -----------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("classes", [2, 3])
def test_row_order(kernel, classes):
    X, y = clouds(90, classes=classes)
    order = np.random.default_rng(1).permutation(90)
    one, other = fit(X, y, kernel=kernel), fit(X[order], y[order], kernel=kernel)
    np.testing.assert_allclose(other.decision_function(X), one.decision_function(X), atol=1e-4)
    np.testing.assert_allclose(other.B_, one.B_, rtol=1e-4)


@pytest.mark.parametrize("gamma", ["scale", 0.3])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 2.0}])
def test_weights_equal_copies(classes, gamma, class_weight):
    """A weight of k is the row k times, a weight of 0 is no row: also in gamma and "balanced"."""
    X, y = clouds(80, classes=classes, seed=2)
    counts = np.random.default_rng(2).integers(0, 4, size=80)
    params = {"gamma": gamma, "class_weight": class_weight}
    weighted = fit(X, y, counts.astype(float), **params)
    copies = fit(np.repeat(X, counts, axis=0), np.repeat(y, counts), **params)
    np.testing.assert_allclose(
        weighted.decision_function(X), copies.decision_function(X), atol=1e-4
    )
    np.testing.assert_allclose(weighted.objective_, copies.objective_, rtol=1e-5)


@pytest.mark.parametrize("spread", [0.0, 0.4, 1.0])
def test_rows_of_weight_zero_are_gone(spread):
    """Not even their outputs are bounded."""
    X, y = clouds(60, seed=3)
    X[:5] *= 20
    weight = np.ones(60)
    weight[:5] = 0
    params = {"kernel": "linear", "spread": spread}
    weighted, removed = fit(X, y, weight, **params), fit(X[5:], y[5:], **params)
    np.testing.assert_allclose(
        weighted.decision_function(X), removed.decision_function(X), atol=1e-5
    )
    assert np.all(weighted.support_ >= 5)
    assert np.array_equal(weighted.support_ - 5, removed.support_)
    assert np.abs(weighted.decision_function(X[:5])).max() > weighted.B_[0] + 0.1


def test_class_of_weight_zero_is_gone():
    X, y = clouds(60, classes=3, seed=3)
    try:
        machine = fit(X, y, (y != 1).astype(float))
    except ValueError as error:
        pytest.fail(f"two classes remain: {error}")
    assert set(machine.predict(X)) <= {0, 2}


def test_unit_weights_change_nothing():
    X, y = clouds(60)
    assert np.array_equal(fit(X, y).dual_coef_, fit(X, y, np.ones(60)).dual_coef_)


def test_weights_scale_the_penalty():
    X, y = clouds(60)
    one = fit(X, y, np.full(60, 2.5), gamma=0.3)
    other = fit(X, y, gamma=0.3, C=2.5)
    np.testing.assert_allclose(one.decision_function(X), other.decision_function(X), atol=1e-5)


# Space ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_translation(kernel):
    """The bias is not penalised, so the origin is nowhere special."""
    X, y = clouds(80)
    shift = np.array([5.0, -300.0, 1e4])
    params = {"kernel": kernel, "gamma": 0.3}
    one, other = fit(X, y, **params), fit(X + shift, y, **params)
    np.testing.assert_allclose(
        other.decision_function(X + shift), one.decision_function(X), atol=1e-3
    )


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf"])
def test_rotation(kernel):
    X, y = clouds(80)
    Q, _ = np.linalg.qr(np.random.default_rng(5).normal(size=(3, 3)))
    params = {"kernel": kernel, "gamma": 0.3, "coef0": 1.0}
    one, other = fit(X, y, **params), fit(X @ Q, y, **params)
    np.testing.assert_allclose(other.decision_function(X @ Q), one.decision_function(X), atol=1e-4)


@pytest.mark.parametrize("scale", [1e-150, 1e-6, 1e6, 1e100])
def test_scale_with_gamma_scale(scale):
    """``gamma="scale"`` takes the units of the data out."""
    X, y = clouds(60)
    one, other = fit(X, y), fit(X * scale, y)
    np.testing.assert_allclose(
        other.decision_function(X * scale), one.decision_function(X), atol=1e-4
    )


@pytest.mark.parametrize("scale", [1e-4, 1e4])
def test_linear_scale_against_penalty(scale):
    X, y = clouds(60)
    one = fit(X, y, kernel="linear")
    other = fit(X * scale, y, kernel="linear", C=1 / scale**2)
    np.testing.assert_allclose(
        other.decision_function(X * scale), one.decision_function(X), atol=1e-4
    )


def test_constant_columns_carry_nothing():
    X, y = clouds(60)
    wide = np.column_stack([np.full(60, 3.0), X, np.zeros(60)])
    for kernel in ("linear", "rbf"):
        one = fit(X, y, kernel=kernel, gamma=0.3)
        other = fit(wide, y, kernel=kernel, gamma=0.3)
        np.testing.assert_allclose(
            other.decision_function(wide), one.decision_function(X), atol=1e-5
        )


# Labels ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "names",
    [
        np.array([3, -7]),
        np.array([-1, 1]),
        np.array([False, True]),
        np.array(["spam", "ham"]),
        np.array(["spam", "ham"], dtype=object),
        np.array([1.0, 2.0]),
    ],
    ids=["ints", "signs", "bools", "strings", "objects", "floats"],
)
def test_label_names(names):
    X, y = clouds(60)
    named = fit(X, names[y])
    assert np.array_equal(named.classes_, np.unique(names))
    assert named.predict(X).dtype == named.classes_.dtype
    plain = fit(X, np.searchsorted(np.unique(names), names[y]))
    assert np.array_equal(named.dual_coef_, plain.dual_coef_)
    assert np.array_equal(named.predict(X), np.unique(names)[plain.predict(X)])


def test_renaming_three_classes_permutes_the_columns():
    X, y = clouds(90, classes=3)
    names = np.array(["c", "a", "b"])
    named, plain = fit(X, names[y]), fit(X, y)
    order = np.searchsorted(np.unique(names), names)
    np.testing.assert_allclose(
        named.decision_function(X)[:, order], plain.decision_function(X), atol=1e-4
    )


def test_swapping_two_classes_flips_the_sign():
    X, y = clouds(60)
    one, other = fit(X, y), fit(X, 1 - y)
    np.testing.assert_allclose(other.decision_function(X), -one.decision_function(X), atol=1e-5)


# Degenerate data ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf"])
@pytest.mark.parametrize("spread", [0.0, 0.5, 1.0])
def test_identical_rows_give_the_majority(kernel, spread):
    X = np.full((7, 2), 3.0)
    y = np.array([0, 0, 0, 0, 1, 1, 1])
    machine = fit(X, y, kernel=kernel, spread=spread)
    assert np.all(machine.predict(X) == 0)
    assert machine.decision_function(X) == pytest.approx(np.full(7, -1.0), abs=1e-4)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("B", [None, 1.0, 1.5])
def test_two_rows(kernel, B):
    machine = fit(np.array([[0.0], [2.0]]), ["a", "b"], kernel=kernel, B=B)
    assert list(machine.predict([[-1.0], [3.0]])) == ["a", "b"]
    assert machine.decision_function([[1.0]]) == pytest.approx([0.0], abs=1e-5)


def test_more_columns_than_rows():
    rng = np.random.default_rng(7)
    X, y = rng.normal(size=(20, 500)), np.arange(20) % 2
    for kernel in ("linear", "rbf"):
        machine = fit(X, y, kernel=kernel, C=10)
        assert machine.score(X, y) == 1.0
        assert np.abs(machine.decision_function(X)).max() <= machine.B_[0] + 1e-4


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf"])
def test_rank_deficient_data(kernel):
    X, y = clouds(60, d=1)
    flat = X @ np.array([[1.0, -2.0, 0.5, 0.0]])
    machine = fit(flat, y, kernel=kernel)
    assert machine.converged_
    assert np.abs(machine.decision_function(flat)).max() <= machine.B_[0] + 1e-4


def test_one_row_against_many():
    X, y = clouds(100)
    y = (np.arange(100) == 17).astype(int)
    machine = fit(X, y, class_weight="balanced", C=10)
    assert machine.predict(X[17:18])[0] == 1
    assert np.abs(machine.decision_function(X)).max() <= machine.B_[0] + 1e-4


@pytest.mark.parametrize("C", [1e-10, 1e-4, 1e6])
def test_extreme_penalties(C):
    X, y = clouds(60, seed=1)
    machine = fit(X, y, C=C, tol=1e-3)
    outputs = machine.decision_function(X)
    assert np.all(np.isfinite(outputs))
    assert np.abs(outputs).max() <= machine.B_[0] + 1e-2
    assert np.all(machine.dual_gap_ >= -1e-9)


def test_small_svm_outputs_leave_the_bound_at_one():
    """With a tiny C the SVM's outputs never reach one; B must not fall below one."""
    X, y = clouds(60)
    machine = fit(X, y, C=1e-4, spread=0.5)
    assert machine.theta_[0] <= 1.5
    assert machine.B_[0] >= 1.0
