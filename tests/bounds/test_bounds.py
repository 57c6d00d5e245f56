"""The bounds on complexity and risk, and the margins of the three classes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oblong.bounds import (
    data_terms,
    margin_rmm,
    margin_sigma,
    margin_svm,
    rademacher_rmm,
    rademacher_sigma,
    rademacher_svm,
    risk_bound,
)
from oblong.datasets import make_bound_toys
from tests.reference import bounds as reference

FUNCTIONS = {
    "rademacher_sigma": lambda X, y, **options: rademacher_sigma(X, **options),
    "rademacher_rmm": lambda X, y, **options: rademacher_rmm(X, **options).value,
    "margin_sigma": lambda X, y, **options: margin_sigma(X, y, **options).value,
    "margin_rmm": lambda X, y, **options: margin_rmm(X, y, **options).value,
}


def street(n=30, d=3, seed=0, margin=0.5):
    """Draw two classes that a hyperplane through the origin separates."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.logspace(0.5, -0.5, d)
    sign = np.where(np.arange(n) % 2, 1.0, -1.0)
    X[:, -1] = sign * (margin + np.abs(X[:, -1]))
    return X, sign


def cloud(m, d, seed=1):
    return np.random.default_rng(seed).normal(size=(m, d))


# Table 1 ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("toy", "D", "sigma", "rmm"),
    [
        (1, 0.0, 0.643, 0.643),
        (2, 0.0, 0.643, 0.643),
        (1, 0.999, 0.859, 1.355),
        (2, 0.999, 0.281, 0.315),
    ],
)
def test_table_1(toy, D, sigma, rmm):
    terms = data_terms(*make_bound_toys(toy), D=D)
    assert terms.svm == pytest.approx(0.643, abs=5e-4)
    assert terms.sigma == pytest.approx(sigma, abs=5e-4)
    assert terms.rmm == pytest.approx(rmm, abs=5e-4)


# Complexity --------------------------------------------------------------------------------------


@pytest.mark.parametrize("E", [0.3, 4.0])
@pytest.mark.parametrize("D", [0.1, 0.9, 0.999])
@pytest.mark.parametrize("own", [True, False], ids=["own", "landmarks"])
def test_t2_agrees_with_a_semidefinite_program(own, D, E):
    X, _ = street(25, 4)
    V = X if own else cloud(12, 4)
    bound = rademacher_rmm(X, D=D, E=E, landmarks=None if own else V)
    assert bound.gap <= 1e-8
    assert bound.value == pytest.approx(reference.complexity_rmm(X, V, D, E), rel=1e-6)
    assert float(bound) == bound.value
    assert bound.weights.shape == (len(V),)


def test_closed_forms():
    X, _ = street(20, 3)
    V, D, E = cloud(9, 3), 0.8, 2.0
    M = (1 - D) * np.eye(3) + D / 9 * V.T @ V
    total = np.trace(X @ np.linalg.inv(M) @ X.T)
    assert rademacher_sigma(X, D=D, E=E, landmarks=V) == pytest.approx(np.sqrt(8 * E * total) / 20)
    assert rademacher_svm(X, E=E) == pytest.approx(np.sqrt(8 * E * np.sum(X**2)) / 20)
    assert rademacher_svm(X @ X.T, E=E, kernel="precomputed") == pytest.approx(
        rademacher_svm(X, E=E)
    )


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 12),
    d=st.integers(1, 5),
    m=st.integers(0, 8),
    D=st.floats(0.0, 0.9999),
)
def test_t2_is_at_most_t1(seed, n, d, m, D):
    X = cloud(n, d, seed)
    landmarks = cloud(m, d, seed + 1) if m else None
    rmm = rademacher_rmm(X, D=D, landmarks=landmarks)
    assert rmm.gap <= 1e-8
    assert rmm.value <= rademacher_sigma(X, D=D, landmarks=landmarks) * (1 + 1e-12)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_small_D_is_the_support_vector_machine(name):
    X, y = street()
    svm = rademacher_svm(X) if "rademacher" in name else margin_svm(X, y).value
    assert FUNCTIONS[name](X, y, D=0.0) == pytest.approx(svm, rel=1e-12)
    assert FUNCTIONS[name](X, y, D=1e-9) == pytest.approx(svm, rel=1e-7)
    assert FUNCTIONS[name](X, y, D=0.9) != pytest.approx(svm, rel=1e-2)


@pytest.mark.parametrize("D", [0.5, 0.99])
@pytest.mark.parametrize("own", [True, False], ids=["own", "landmarks"])
def test_they_bound_the_complexity(own, D):
    """The expectation over all signs, with the supremum of each class as a convex program."""
    n, E = 6, 1.5
    X = cloud(n, 2, seed=2)
    V = X if own else cloud(4, 2, seed=3)
    factor = np.linalg.cholesky((1 - D) * np.eye(2) + D / len(V) * V.T @ V)
    signs = [(1.0, *rest) for rest in itertools.product((-1.0, 1.0), repeat=n - 1)]
    sums = [np.array(sign) @ X for sign in signs]
    svm = np.mean([np.sqrt(2 * E) * np.linalg.norm(s) for s in sums])
    sigma = np.mean([np.sqrt(2 * E) * np.linalg.norm(np.linalg.solve(factor, s)) for s in sums])
    rmm = np.mean([reference.supremum(s, V, D, E) for s in sums])
    for exact, bound in (
        (svm, rademacher_svm(X, E=E)),
        (sigma, rademacher_sigma(X, D=D, E=E, landmarks=V)),
        (rmm, rademacher_rmm(X, D=D, E=E, landmarks=V).value),
    ):
        assert 0.7 * bound < 2 / n * exact <= bound


# Margins -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["sigma", "rmm"])
@pytest.mark.parametrize("D", [0.1, 0.9, 0.999])
@pytest.mark.parametrize("own", [True, False], ids=["own", "landmarks"])
def test_margins_agree_with_convex_programs(own, D, model):
    X, sign = street(25, 4)
    V, E = X if own else cloud(12, 4), 0.7
    expected = reference.margin(X, sign, V, D, E, model)
    compute = margin_sigma if model == "sigma" else margin_rmm
    margin = compute(X, sign, D=D, E=E, landmarks=None if own else V)
    assert margin.value == pytest.approx(expected, rel=1e-6)
    assert margin.gap <= 1e-9
    assert float(margin) == margin.value


def test_margin_of_the_support_vector_machine():
    X, sign = street()
    expected = reference.margin(X, sign, X, 0.0, 2.0, "sigma")
    assert margin_svm(X, sign, E=2.0).value == pytest.approx(expected, rel=1e-6)
    # The signed rows are (3, 4) and (6, 0); their segment passes the origin at 24/5.
    rows = np.array([[3.0, 4.0], [-3.0, -4.0], [6.0, 0.0]])
    assert margin_svm(rows, [1, 0, 1], E=0.5).value == pytest.approx(4.8, rel=1e-12)


@pytest.mark.parametrize("name", ["a", "b"])
def test_data_that_cannot_be_separated(name):
    X = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]) if name == "a" else cloud(60, 2)
    y = np.arange(len(X)) % 2
    for margin in (margin_svm(X, y), margin_sigma(X, y, D=0.9), margin_rmm(X, y, D=0.9)):
        assert (margin.value, margin.gap) == (0.0, 0.0)
    terms = data_terms(X, y, D=0.9)
    assert terms.svm == terms.sigma == terms.rmm == np.inf


# Invariance --------------------------------------------------------------------------------------


@pytest.mark.parametrize("own", [True, False], ids=["own", "landmarks"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_kernel_matrix_equals_rows(name, own):
    X, y = street(20, 4)
    V = None if own else cloud(7, 4)
    pair = None if own else (X @ V.T, V @ V.T)
    rows = FUNCTIONS[name](X, y, D=0.95, landmarks=V)
    matrix = FUNCTIONS[name](X @ X.T, y, D=0.95, landmarks=pair, kernel="precomputed")
    assert matrix == pytest.approx(rows, rel=1e-8)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_kernel_of_full_rank(name):
    """More coordinates than the rows had; landmarks that are the rows give the same."""
    X, y = street(20, 2)
    K = np.exp(-0.5 * np.sum((X[:, None] - X) ** 2, axis=2))
    options = {"D": 0.9, "kernel": "precomputed"}
    value = FUNCTIONS[name](K, y, **options)
    assert np.isfinite(value)
    assert value > 0
    # Landmarks given twice carry the same information.
    same = FUNCTIONS[name](K, y, landmarks=(K, K), **options)
    assert same == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_rotation_padding_and_order(name):
    X, y = street(15, 3)
    value = FUNCTIONS[name](X, y, D=0.9)
    Q, _ = np.linalg.qr(cloud(40, 40))
    wide = np.column_stack([X, np.zeros((15, 37))]) @ Q
    assert FUNCTIONS[name](wide, y, D=0.9) == pytest.approx(value, rel=1e-8)
    order = np.random.default_rng(0).permutation(15)
    assert FUNCTIONS[name](X[order], y[order], D=0.9) == pytest.approx(value, rel=1e-8)
    single = FUNCTIONS[name](X.astype(np.float32), y, D=0.9)
    assert single == pytest.approx(value, rel=1e-5)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_size_of_the_class_is_a_factor(name):
    X, y = street(15, 3)
    one, nine = (FUNCTIONS[name](X, y, D=0.9, E=E) for E in (1.0, 9.0))
    assert nine == pytest.approx(3 * one, rel=1e-10)
    assert FUNCTIONS[name](X, y, D=0.9, E=0.0) == 0.0


@pytest.mark.parametrize("scale", [1e-4, 1e2, 1e4])
@pytest.mark.parametrize("own", [True, False], ids=["own", "landmarks"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_units(name, own, scale):
    """Rows in other units are the same rows under another balance of norm and spread."""
    X, y = street(25, 4)
    V, D = None if own else cloud(3, 4), 0.8
    factor = 1 / (D + (1 - D) / scale**2)
    value = FUNCTIONS[name](X * scale, y, D=D, landmarks=None if own else V * scale)
    same = FUNCTIONS[name](X, y, D=D * factor, E=factor, landmarks=V)
    # At the largest scale 1 - D of the other balance has eight digits.
    assert value == pytest.approx(same, rel=1e-6)


@pytest.mark.parametrize("D", [1 - 1e-6, 1 - 1e-9])
def test_hardly_any_norm(D):
    """The certificates keep their word where the problem is all but singular."""
    X, y = make_bound_toys(1)
    assert margin_rmm(X, y, D=D).gap <= 1e-9
    assert margin_rmm(X, y, D=D).value == pytest.approx(0.1760979, rel=1e-6)
    assert margin_sigma(X, y, D=D).gap <= 1e-9
    assert rademacher_rmm(X, D=D).gap <= 1e-9


def test_labels_of_any_kind():
    X, y = street(15, 3)
    names = np.where(y > 0, "yes", "no")
    assert data_terms(X, names, D=0.5) == data_terms(X, y, D=0.5)


# Degenerate data -------------------------------------------------------------------------------


def test_rows_of_zeros():
    X, y = np.zeros((4, 2)), [0, 1, 0, 1]
    assert rademacher_svm(X) == rademacher_sigma(X, D=0.5) == 0.0
    bound = rademacher_rmm(X, D=0.5)
    assert (bound.value, bound.gap) == (0.0, 0.0)
    assert rademacher_rmm(np.zeros((4, 4)), D=0.5, kernel="precomputed").value == 0.0
    assert margin_rmm(X, y, D=0.5).value == 0.0


def test_landmarks_of_zeros_leave_the_norm():
    X, y = street(15, 3)
    Z = np.zeros((2, 3))
    D = 0.75
    assert rademacher_rmm(X, D=D, landmarks=Z).value == pytest.approx(2 * rademacher_svm(X))
    assert rademacher_sigma(X, D=D, landmarks=Z) == pytest.approx(2 * rademacher_svm(X))
    assert margin_rmm(X, y, D=D, landmarks=Z).value == pytest.approx(2 * margin_svm(X, y).value)


def test_one_row():
    X = np.array([[3.0, 4.0]])
    D = 0.5
    # M = (1-D) I + D x x', so x'M^-1 x = |x|² / (1 - D + D |x|²).
    expected = np.sqrt(8 * 25 / (0.5 + 12.5))
    assert rademacher_rmm(X, D=D).value == pytest.approx(expected)
    assert rademacher_sigma(X, D=D) == pytest.approx(expected)


# The bound on the risk ---------------------------------------------------------------------------


def test_risk_bound():
    X, y = street(50, 3)
    w = np.array([0.1, 0.0, 1.0])
    bound = risk_bound(X, y, X @ w, E=0.6, gamma=0.8, delta=0.1)
    slack = np.mean(np.maximum(0.8 - y * (X @ w), 0)) / 0.8
    assert slack > 0.01
    assert bound.slack == pytest.approx(slack)
    assert bound.confidence == pytest.approx(3 * np.sqrt(np.log(20) / 100))
    assert bound.complexity == pytest.approx(4 * np.sqrt(1.2 * np.sum(X**2)) / (50 * 0.8))
    assert bound.value == bound.slack + bound.confidence + bound.complexity == float(bound)
    same = risk_bound(X @ X.T, y, X @ w, E=0.6, gamma=0.8, delta=0.1, kernel="precomputed")
    assert same.value == pytest.approx(bound.value)


def test_risk_bound_holds():
    """On data with label noise, for a function that was fixed beforehand."""
    rng = np.random.default_rng(0)
    y = np.where(rng.random(20_000) < 0.5, 1.0, -1.0)
    X = np.column_stack([y + 0.7 * rng.normal(size=len(y)), rng.normal(size=len(y))])
    outputs = X @ [1.0, 0.2]
    risk = np.mean(np.sign(outputs) != y)
    bounds = [
        risk_bound(X[part], y[part], outputs[part], E=0.52).value
        for part in np.arange(len(y)).reshape(40, -1)
    ]
    assert risk < min(bounds)


# Bad input ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"D": 1.0}, "D must be a number at least 0 and below 1, got 1.0"),
        ({"D": -0.1}, "D must be"),
        ({"D": "big"}, "D must be"),
        ({"D": np.nan}, "D must be"),
        ({"E": -1.0}, "E must be a number at least 0, got -1.0"),
        ({"E": np.inf}, "E must be"),
        ({"kernel": "rbf"}, 'kernel must be "linear" or "precomputed"'),
        ({"kernel": "precomputed"}, "a kernel matrix is square"),
        ({"landmarks": np.ones((2, 5))}, "X has 3 features, but the landmarks have 5"),
        ({"landmarks": np.full((2, 3), np.nan)}, "landmarks contains NaN"),
    ],
)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_bad_parameters(name, options, message):
    X, y = street(8, 3)
    with pytest.raises(ValueError, match=message):
        FUNCTIONS[name](X, y, **({"D": 0.5} | options))


@pytest.mark.parametrize(
    ("K", "landmarks", "message"),
    [
        (np.array([[1.0, 2.0], [0.0, 1.0]]), None, "not symmetric"),
        (np.array([[1.0, 2.0], [2.0, 1.0]]), None, "not positive semidefinite"),
        (np.eye(2), np.eye(3), "the landmarks are two matrices"),
        (np.eye(2), 5, "the landmarks are two matrices"),
        (np.eye(2), (np.ones((3, 2)), np.eye(2)), "between 2 rows and 2 landmarks"),
        (np.eye(2), (np.ones((2, 2)), np.ones((2, 3))), "a kernel matrix is square"),
        (np.eye(2), (np.full((2, 1), 5.0), np.eye(1)), "not positive semidefinite"),
    ],
)
def test_bad_matrices(K, landmarks, message):
    for compute in FUNCTIONS.values():
        with pytest.raises(ValueError, match=message):
            compute(K, [0, 1], D=0.5, landmarks=landmarks, kernel="precomputed")


def test_bad_rows_and_labels():
    X, y = street(8, 3)
    for compute in (margin_svm, lambda X, y: data_terms(X, y, D=0.5)):
        with pytest.raises(ValueError, match="two classes, got 1"):
            compute(X, np.ones(8))
        with pytest.raises(ValueError, match="two classes, got 8"):
            compute(X, np.arange(8))
        with pytest.raises(ValueError, match="8 rows, but y has 7 labels"):
            compute(X, y[:7])
    with pytest.raises(ValueError, match="NaN"):
        rademacher_svm([[np.nan]])
    with pytest.raises(ValueError, match="negative trace"):
        rademacher_svm(-np.eye(2), kernel="precomputed")
    for compute in (rademacher_svm, lambda X: rademacher_rmm(X, D=0.5)):
        with pytest.raises(ValueError, match="scale X"), np.errstate(over="ignore"):
            compute(X * 1e200)
    for bad in ({"gamma": 0.0}, {"delta": 0.0}, {"delta": 1.0}, {"E": -1.0}):
        with pytest.raises(ValueError, match="must be a number"):
            risk_bound(X, y, y, **({"E": 1.0} | bad))
    with pytest.raises(ValueError, match="8 labels and 3 outputs"):
        risk_bound(X, y, y[:3], E=1.0)
