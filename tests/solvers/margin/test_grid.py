"""Grids of margin problems against a general solver, their formulas, and themselves."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from oblong._core.progress import Progress
from oblong.kernels import Kernel
from oblong.linalg.kernel_matrix import KernelMatrix
from oblong.solvers.margin.grid import (
    GIVEN,
    LARGEST,
    SOLUTION,
    STATUS,
    Groups,
    single,
    solve_grid,
    terms_of,
    variants_of,
    without_folds,
)
from oblong.solvers.margin.problem import Pieces, relative_margin_pieces, svm_pieces
from oblong.solvers.margin.regression import epsilon_pieces
from tests.reference.margin import solve_pieces, solve_primal
from tests.solvers.margin.problems import bias_interval, check_certificate, make_problem

LINEAR, POLY, RBF = Kernel("linear"), Kernel("poly", 0.2, 3, 1.0), Kernel("rbf", 0.15)
KERNELS = (LINEAR, POLY, RBF)
PROMISE = 1e-3
# Rows of one kernel matrix in single precision, and of one in double.
SINGLE_ROWS = 1100


def named(kernel):
    return kernel.name


def wide_matrix(kernel, X):
    """The kernel matrix in long double, by its formula."""
    X = X.astype(np.longdouble)
    if kernel.name == "rbf":
        return np.exp(-np.longdouble(kernel.gamma) * ((X[:, None] - X) ** 2).sum(axis=2))
    products = X @ X.T
    if kernel.name == "linear":
        return products
    return (np.longdouble(kernel.gamma) * products + kernel.coef0) ** kernel.degree


def rows_of(kernel, X):
    """The rows of a linear kernel, whose models are weight vectors."""
    return X if kernel.name == "linear" else None


def classes(sizes, d=4, seed=0, distance=1.5):
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    X = rng.normal(size=(labels.size, d)) + distance * rng.normal(size=(len(sizes), d))[labels]
    return X, labels


def pairs_of(labels, C=1.0, folds=None):
    """Groups for all pairs of classes: their rows are shared."""
    count = labels.max() + 1
    members = [
        np.flatnonzero((labels == a) | (labels == b)) for a in range(count) for b in range(a)
    ]
    firsts = [a for a in range(count) for b in range(a)]
    y = [np.where(labels[rows] == a, 1.0, -1.0) for rows, a in zip(members, firsts)]
    pieces = svm_pieces(np.concatenate(y), np.full(sum(map(len, y)), C))
    return Groups.of(members, pieces, folds), y


def whole(y, C=1.0):
    return Groups.of([np.arange(len(y))], svm_pieces(y, np.full(len(y), C)))


def two_clouds(n, d=4, seed=0, distance=0.7):
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 2, 1.0, -1.0)
    return rng.normal(size=(n, d)) + distance * y[:, None], y


# Variants -------------------------------------------------------------------------------------


def test_variants_of__every_penalty_has_every_bound_and_tube():
    variants = variants_of([1.0, 2.0], tol=0.1, bounds=(3.0, 2.0), epsilons=(0.5, 0.2))
    asked = [tuple(row) for row in variants[["penalty", "bound", "epsilon"]].tolist()]
    expected = {(C, B, e) for C in (1.0, 2.0) for B in (3.0, 2.0) for e in (0.5, 0.2)}
    assert len(asked) == 8
    assert set(asked) == expected
    assert np.isnan(variants["spread"]).all()
    assert (variants["tol"] == 0.1).all()
    assert (variants["wanted"] == SOLUTION).all()


def test_variants_of__spreads_follow_the_machine_that_they_are_relative_to():
    variants = variants_of([1.0, 2.0, 4.0], tol=0.1, spreads=(0.5, 0.1))
    assert variants["reference"].tolist() == [-1, 0, 0, -1, 3, 3, -1, 6, 6]
    assert np.isnan(variants["spread"]).tolist() == [True, False, False] * 3
    assert variants["spread"][1::3].tolist() == [0.5] * 3
    # The machine itself is nobody's answer unless a spread of one is asked for.
    assert (variants["wanted"][::3] == LARGEST).all()
    assert (variants_of(tol=0.1, spreads=(1.0, 0.1))["wanted"] == SOLUTION).all()


@pytest.mark.parametrize("spreads", [None, (1.0,), (0.9, 0.3)])
@pytest.mark.parametrize("penalties", [(1.0,), (1.0, 2.0, 3.0)])
def test_variants_of__starts_are_variants_that_come_before(penalties, spreads):
    variants = variants_of(penalties, tol=0.1, spreads=spreads)
    before = np.arange(len(variants))
    for name in ("start", "other_start", "reference"):
        assert ((variants[name] >= -1) & (variants[name] < before)).all()
    assert variants["start"][0] == -1
    assert (variants["start"][1:] >= 0).all()


def test_variants_of__a_tube_is_not_relative_to_another():
    with pytest.raises(ValueError, match="spreads and epsilons"):
        variants_of(tol=0.1, spreads=(0.5, 0.2), epsilons=(0.1, 0.2))


def test_without_folds__begins_with_what_is_given():
    variants = without_folds(np.array([4, 0, 2]), tol=0.1)
    assert variants["without"].tolist() == [-1, 4, 0, 2]
    assert variants["start"].tolist() == [-1, 0, 0, 0]
    assert variants["wanted"].tolist() == [GIVEN, SOLUTION, SOLUTION, SOLUTION]


# Against a general solver ---------------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS, ids=named)
@pytest.mark.parametrize("C", [0.1, 30.0])
def test_solve_grid__pairs_penalties_and_spreads_are_optimal(kernel, C):
    X, labels = classes((9, 14, 1))
    groups, y = pairs_of(labels)
    spreads = (1.0, 0.4, 0.0)
    variants = variants_of((C, 2.0 * C), tol=1e-5, spreads=spreads)
    found = solve_grid(KernelMatrix.of_rows(kernel, X), groups, variants, promise=PROMISE)
    K = wide_matrix(kernel, X)
    for g in range(3):
        rows = groups.members[groups.part(g)]
        own = K[np.ix_(rows, rows)]
        theta = np.repeat(found.values["largest"][g, ::4], 4)
        for k, variant in enumerate(variants):
            B, penalties = found.values["bound"][g, k], np.full(rows.size, variant["penalty"])
            if not np.isnan(variant["spread"]):
                assert pytest.approx(max(1.0, 1.0 + variant["spread"] * (theta[k] - 1.0))) == B
            # A bound that is beyond the outputs is not felt: the terms of the machine are enough.
            felt = theta[k] > B
            optimum = solve_primal(own.astype(float), y[g], penalties, B if felt else np.inf)
            pieces = svm_pieces(y[g], penalties)
            if felt:
                pieces = relative_margin_pieces(y[g], penalties, B)
            check_certificate(
                found, own, pieces, g=g, k=k, rows=rows_of(kernel, X[rows]),
                optimum=optimum.objective,
            )  # fmt: skip
            assert found.relative_gap[g, k] <= PROMISE


def _sources():
    rows = lambda kernel: lambda X: KernelMatrix.of_rows(kernel, X)  # noqa: E731
    return {
        "precomputed double": (RBF, lambda X: KernelMatrix.of_rows(Kernel("precomputed"), RBF(X))),
        "precomputed single": (
            RBF, lambda X: KernelMatrix.of_rows(Kernel("precomputed"), RBF(X).astype(np.float32)),
        ),
        "explicit double": (POLY, lambda X: KernelMatrix(POLY(X))),
        "explicit single": (POLY, lambda X: KernelMatrix(POLY(X).astype(np.float32))),
        "explicit integers": (
            LINEAR, lambda X: KernelMatrix(np.rint(X).astype(int) @ np.rint(X).astype(int).T),
        ),
        "column major": (RBF, lambda X: KernelMatrix(np.asfortranarray(RBF(X)))),
        "callable": (RBF, rows(Kernel(lambda X, Z: np.exp(-0.15 * np.square(
            X[:, None] - Z).sum(axis=2))))),
        "sparse linear": (LINEAR, lambda X: KernelMatrix.of_rows(LINEAR, sp.csr_matrix(X))),
        "sparse rbf": (RBF, lambda X: KernelMatrix.of_rows(RBF, sp.csr_matrix(X))),
        "sparse poly": (POLY, lambda X: KernelMatrix.of_rows(POLY, sp.csr_matrix(X))),
        "single rows": (RBF, lambda X: KernelMatrix.of_rows(RBF, X.astype(np.float32))),
    }  # fmt: skip


@pytest.mark.parametrize("bound", [np.inf, 1.2])
@pytest.mark.parametrize("source", _sources())
def test_solve_grid__every_kind_of_matrix_has_the_solution(source, bound):
    kernel, make = _sources()[source]
    X, labels = classes((15, 18, 12), seed=3)
    X = X.astype(np.float32).astype(np.float64)
    groups, y = pairs_of(labels)
    columns = make(X)
    K = columns.values.astype(np.longdouble) if "explicit" in source else wide_matrix(kernel, X)
    if source == "precomputed single":
        K = RBF(X).astype(np.float32).astype(np.longdouble)
    found = solve_grid(columns, groups, variants_of(tol=1e-4, bounds=(bound,)), promise=PROMISE)
    for g in range(groups.n_groups):
        rows = groups.members[groups.part(g)]
        C = np.ones(rows.size)
        pieces = svm_pieces(y[g], C)
        if np.isfinite(bound):
            pieces = relative_margin_pieces(y[g], C, bound)
        own = K[np.ix_(rows, rows)]
        optimum = solve_primal(own.astype(float), y[g], C, bound).objective
        by_weights = X[rows] if source == "sparse linear" else None
        check_certificate(found, own, pieces, g=g, rows=by_weights, optimum=optimum)
        assert found.relative_gap[g, 0] <= PROMISE


def test_solve_grid__sigmoid_kernels_meet_the_optimality_conditions():
    X, y = two_clouds(60)
    kernel = Kernel("sigmoid", 0.05, coef0=-0.1)
    found = solve_grid(KernelMatrix.of_rows(kernel, X), whole(y), variants_of(tol=1e-6))
    low, high = bias_interval(kernel(X), svm_pieces(y, np.ones(60)), found.coefs[0][0])
    assert STATUS[found.values["status"][0, 0]] == "converged"
    assert low - high <= 2e-6


@pytest.mark.parametrize("kernel", KERNELS, ids=named)
def test_solve_grid__tubes_of_regression_are_optimal(kernel):
    X, _ = two_clouds(40)
    y = np.sin(X[:, 0]) + 0.2 * X[:, 1]
    groups = Groups.of([np.arange(40)], epsilon_pieces(y, np.ones(40), 0.0))
    variants = variants_of((0.5, 20.0), tol=1e-6, epsilons=(0.3, 0.05, 0.0))
    found = solve_grid(KernelMatrix.of_rows(kernel, X), groups, variants, promise=PROMISE)
    K = wide_matrix(kernel, X)
    for k, variant in enumerate(variants):
        pieces = epsilon_pieces(y, np.full(40, variant["penalty"]), variant["epsilon"])
        optimum = solve_pieces(K.astype(float), *pieces).objective
        check_certificate(found, K, pieces, k=k, rows=rows_of(kernel, X), optimum=optimum)


@pytest.mark.parametrize("seed", range(3))
def test_solve_grid__rows_without_terms_of_a_class(seed):
    """Pieces of any kind: fixed, endless, with and without a middle."""
    rng = np.random.default_rng(seed)
    n, K = 30, make_problem("rbf", 30, 1.0, np.inf, seed=seed).K
    points = np.sort(rng.uniform(-2, 2, size=(n, 4)), axis=1)
    points[:, 0], points[:, 3] = np.minimum(points[:, 0], 0), np.maximum(points[:, 3], 0)
    slopes = -np.sort(-rng.normal(size=(n, 3)), axis=1) + [1.0, 0.0, -1.0]
    points[:5], points[5:10, 1] = 0.0, points[5:10, 2]
    points[10:15, 0], points[10:15, 3] = -np.inf, np.inf
    slopes[10:15, 0], slopes[10:15, 2] = 3.0, -3.0
    pieces = Pieces(points, slopes)
    found = solve_grid(
        KernelMatrix(K), Groups.of([np.arange(n)], pieces), variants_of(tol=1e-6),
        promise=PROMISE,
    )  # fmt: skip
    check_certificate(found, K, pieces, optimum=solve_pieces(K, *pieces).objective)


# Several sums ---------------------------------------------------------------------------------


def grouped(pieces, split, start):
    """A group whose coefficients keep the sums of the start, before the split and behind it."""
    n = len(start)
    sums = np.array([[start[:split].sum(), start[split:].sum()]])
    return Groups.of([np.arange(n)], pieces)._replace(splits=np.array([split]), sums=sums)


def sums_of(groups):
    split, n = int(groups.splits[0]), groups.members.size
    totals = list(zip((slice(0, split), slice(split, n)), groups.sums[0]))
    return totals if split < n else totals[:1]


@pytest.mark.parametrize("polish", [False, True])
@pytest.mark.parametrize("share", [0.1, 0.4, 0.8])
@pytest.mark.parametrize("kernel", ["poly", "rbf"])
def test_solve_grid__two_sums_of_a_nu_machine(kernel, share, polish):
    """Each class has a fixed share of the weight: the dual of ν-SVC."""
    n, split = 50, 24
    y = np.where(np.arange(n) < split, 1.0, -1.0)
    X = np.random.default_rng(1).normal(size=(n, 3)) + 0.6 * y[:, None]
    of = RBF if kernel == "rbf" else POLY
    boxes = svm_pieces(y, np.ones(n))
    pieces = Pieces(boxes.breakpoints, np.zeros((n, 3)))
    start = share * split * np.where(y > 0, 1.0 / split, -1.0 / (n - split))
    groups = grouped(pieces, split, start)
    found = solve_grid(
        KernelMatrix.of_rows(of, X), groups, variants_of(tol=1e-6), promise=PROMISE, starts=start,
        polish=polish,
    )  # fmt: skip
    K = wide_matrix(of, X)
    optimum = solve_pieces(K.astype(float), *pieces, sums_of(groups))
    check_certificate(found, K, pieces, optimum=optimum.objective)
    assert found.values["dual_objective"][0, 0] == pytest.approx(optimum.objective, rel=1e-6)


@pytest.mark.parametrize("n", [40, 300])
@pytest.mark.parametrize("nu", [0.05, 0.5, 1.0])
@pytest.mark.parametrize("kernel", KERNELS, ids=named)
def test_solve_grid__a_sum_that_is_not_zero(kernel, nu, n):
    """One class: the coefficients of all rows sum to ν n, and the rows are not shifted."""
    # The origin is outside: the optimum is not zero.
    X = np.random.default_rng(2).normal(size=(n, 3)) + 4.0
    pieces = Pieces(np.tile([0.0, 0.0, 1.0, 1.0], (n, 1)), np.zeros((n, 3)))
    start = np.zeros(n)
    start[: int(nu * n)] = 1.0
    groups = grouped(pieces, n, start)
    found = solve_grid(
        KernelMatrix.of_rows(kernel, X),
        groups,
        variants_of(tol=1e-6),
        promise=PROMISE,
        starts=start,
    )
    K = wide_matrix(kernel, X)
    optimum = solve_pieces(K.astype(float), *pieces, sums_of(groups)).objective
    check_certificate(found, K, pieces, rows=rows_of(kernel, X), optimum=optimum)


@pytest.mark.parametrize("single_precision", [False, True])
@pytest.mark.parametrize("n", [30, 260])
@pytest.mark.parametrize("seed", range(4))
def test_solve_grid__two_sums_of_any_terms(seed, n, single_precision):
    rng = np.random.default_rng(seed)
    X, split = rng.normal(size=(n, 3)), int(rng.integers(1, n))
    points = np.sort(rng.uniform(-2, 2, size=(n, 4)), axis=1)
    points[:, 0], points[:, 3] = np.minimum(points[:, 0], 0), np.maximum(points[:, 3], 0)
    slopes = -np.sort(-rng.normal(size=(n, 3)), axis=1)
    pieces = Pieces(points, slopes)
    start = points[:, 0] + rng.random(n) * (points[:, 3] - points[:, 0])
    groups = grouped(pieces, split, start)
    K = RBF(X).astype(np.float32 if single_precision else np.float64)
    found = solve_grid(
        KernelMatrix(K), groups, variants_of(tol=1e-5), promise=PROMISE, starts=start
    )
    optimum = solve_pieces(K.astype(float), *pieces, sums_of(groups)).objective
    check_certificate(found, K.astype(np.longdouble), pieces, optimum=optimum)


@pytest.mark.parametrize("groups_of_rows", [1, 2])
@pytest.mark.parametrize(("scale", "C"), [(1e4, 1e9), (1.0, 1e6)])
def test_solve_grid__sums_stay_where_pair_steps_crawl(scale, C, groups_of_rows):
    """Large penalties on a matrix of low rank: an interior point method takes over."""
    n, rng = 60, np.random.default_rng(0)
    X = rng.normal(size=(n, 4))
    y = np.where(X[:, 0] * X[:, 1] > 0, 1.0, -1.0)
    order = np.argsort(-y, kind="stable")
    X, y = X[order], y[order]
    positive = int((y > 0).sum())
    K = scale * (X @ X.T) ** 2
    pieces = relative_margin_pieces(y, np.full(n, C), 1.0)
    share = 0.3 * C * min(positive, n - positive)
    start = np.where(y > 0, share / positive, -share / (n - positive))
    groups = grouped(pieces, positive if groups_of_rows == 2 else n, start)
    if groups_of_rows == 1:
        groups = groups._replace(sums=np.zeros((1, 2)))
    found = solve_grid(
        KernelMatrix(K), groups, variants_of(tol=1e-3), promise=PROMISE, starts=start
    )
    check_certificate(found, K, pieces, converged=False)
    coef = found.coefs[0][0]
    assert pieces.dual(coef, K @ coef) > pieces.dual(start, K @ start)


# Precision ------------------------------------------------------------------------------------


@pytest.mark.parametrize("C", [1e-2, 1.0, 100.0])
@pytest.mark.parametrize("kernel", KERNELS, ids=named)
def test_solve_grid__groups_of_few_of_many_rows(kernel, C):
    """A matrix of more rows than are held in double precision: rows are computed for each group."""
    X, y = two_clouds(SINGLE_ROWS)
    rng = np.random.default_rng(0)
    members = [rng.permutation(SINGLE_ROWS)[:size] for size in (40, 7, 60, 2, 40)]
    # Of a pair of rows, one of either class.
    members[3] = np.array([1, 0])
    flat = np.concatenate(members)
    groups = Groups.of(members, svm_pieces(y[flat], np.full(flat.size, C)))
    variants = variants_of(tol=1e-3, bounds=(np.inf, 1.3))
    found = solve_grid(KernelMatrix.of_rows(kernel, X), groups, variants, promise=PROMISE)
    for g, rows in enumerate(members):
        K = wide_matrix(kernel, X[rows])
        for k, B in enumerate((np.inf, 1.3)):
            penalties = np.full(rows.size, C)
            pieces = svm_pieces(y[rows], penalties)
            if k:
                pieces = relative_margin_pieces(y[rows], penalties, B)
            optimum = solve_primal(K.astype(float), y[rows], penalties, B).objective
            check_certificate(
                found, K, pieces, g=g, k=k, rows=rows_of(kernel, X[rows]), optimum=optimum
            )
            assert found.relative_gap[g, k] <= PROMISE


@pytest.mark.large
@pytest.mark.parametrize(("d", "shared"), [(4, False), (4, True), (240, True), (240, False)])
@pytest.mark.parametrize("kernel", KERNELS, ids=named)
def test_solve_grid__single_precision_is_certified_in_double(kernel, d, shared):
    """All rows, or groups large enough that their whole matrices are computed."""
    X, y = two_clouds(SINGLE_ROWS, d, distance=0.7 * np.sqrt(4 / d))
    kernel = Kernel(kernel.name, kernel.gamma * 4 / d, kernel.degree, kernel.coef0)
    members = [np.arange(SINGLE_ROWS)]
    if shared:
        members = [np.arange(0, SINGLE_ROWS, 2), np.arange(SINGLE_ROWS)[400:]]
        y[::4] = -y[::4]
    flat = np.concatenate(members)
    groups = Groups.of(members, svm_pieces(y[flat], np.ones(flat.size)))
    variants = variants_of(tol=1e-3, spreads=(0.5,))
    found = solve_grid(KernelMatrix.of_rows(kernel, X), groups, variants, promise=PROMISE)
    for g, rows in enumerate(members):
        exact = solve_grid(
            KernelMatrix(kernel(X[rows])), whole(y[rows]), variants_of(tol=1e-7, spreads=(0.5,)),
            promise=1e-6,
        )  # fmt: skip
        assert found.values["theta"][g, 1] == pytest.approx(exact.values["theta"][0, 1], abs=5e-3)
        B = float(found.values["bound"][g, 1])
        pieces = relative_margin_pieces(y[rows], np.ones(rows.size), B)
        K = kernel(X[rows]) if d > 100 else wide_matrix(kernel, X[rows])
        check_certificate(found, K, pieces, g=g, k=1, rows=rows_of(kernel, X[rows]))
        assert found.relative_gap[g, 1] <= PROMISE
        assert found.values["objective"][g, 1] == pytest.approx(
            exact.values["objective"][0, 1], rel=3e-3
        )


@pytest.mark.parametrize("kernel", KERNELS, ids=named)
def test_solve_grid__polished_solutions_have_their_last_digits(kernel):
    X, y = two_clouds(150, seed=5)
    columns = KernelMatrix.of_rows(kernel, X)
    variants = variants_of(tol=1e-3, bounds=(np.inf, 1.2))
    found = solve_grid(columns, whole(y), variants, promise=PROMISE, polish=True)
    K = wide_matrix(kernel, X)
    for k, B in enumerate((np.inf, 1.2)):
        pieces = svm_pieces(y, np.ones(150))
        if k:
            pieces = relative_margin_pieces(y, np.ones(150), B)
        check_certificate(found, K, pieces, k=k, rows=rows_of(kernel, X))
        assert found.values["violation"][0, k] <= 1e-9
        assert found.relative_gap[0, k] <= 1e-9


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_solve_grid__without_a_promise_the_tolerance_is_met(dtype):
    X, y = two_clouds(400, seed=8)
    K = RBF(X)
    found = solve_grid(KernelMatrix(K.astype(dtype)), whole(y, 5.0), variants_of(tol=1e-3))
    assert STATUS[found.values["status"][0, 0]] == "converged"
    low, high = bias_interval(K, svm_pieces(y, np.full(400, 5.0)), found.coefs[0][0])
    assert low - high <= 1e-3 + (1e-4 if dtype == np.float32 else 1e-9)
    bias = float(found.bias[0, 0])
    outputs = K @ found.coefs[0][0] + bias
    assert found.values["largest"][0, 0] == pytest.approx(np.abs(outputs).max(), abs=1e-3)


# Rows left out --------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [90, SINGLE_ROWS])
@pytest.mark.parametrize("kernel", KERNELS, ids=named)
def test_solve_grid__without_a_fold_is_the_problem_of_the_other_rows(kernel, rows):
    X, y = two_clouds(rows, seed=4)
    members = np.random.default_rng(0).permutation(rows)[:90]
    folds = np.arange(90) % 6
    columns = KernelMatrix.of_rows(kernel, X)
    pieces = svm_pieces(y[members], np.ones(90))
    groups = Groups.of([members], pieces, folds)
    full = solve_grid(columns, groups, variants_of(tol=1e-6), promise=PROMISE)
    found = solve_grid(
        columns, groups, without_folds(np.arange(6), tol=1e-5), promise=PROMISE,
        starts=full.coefs[0][0], start_images=full.images[0][0],
    )  # fmt: skip
    K = wide_matrix(kernel, X[members])
    np.testing.assert_array_equal(found.coefs[0][0], full.coefs[0][0])
    for k in range(1, 7):
        out, kept = folds == k - 1, np.flatnonzero(folds != k - 1)
        assert not found.coefs[0][k][out].any()
        own = K[np.ix_(kept, kept)].astype(float)
        optimum = solve_primal(own, y[members][kept], np.ones(kept.size), np.inf)
        points = pieces.breakpoints.copy()
        points[out] = 0.0
        check_certificate(
            found, K, Pieces(points, pieces.slopes), k=k, rows=rows_of(kernel, X[members]),
            optimum=optimum.objective,
        )  # fmt: skip
        # Rows that are left out have outputs all the same: a score out of sample.
        outputs = K[out].astype(float) @ found.coefs[0][k] + found.bias[0, k]
        # From the weights of the reference alone: w is unique, and so is its image.
        alone = solve_grid(
            KernelMatrix(own), whole(y[members][kept]), variants_of(tol=1e-8), promise=1e-7,
            polish=True,
        )  # fmt: skip
        expected = K[np.ix_(out, kept)].astype(float) @ alone.coefs[0][0] + alone.bias[0, 0]
        np.testing.assert_allclose(outputs, expected, atol=2e-2)


def test_solve_grid__without_rows_that_have_no_coefficient_nothing_changes():
    X, y = two_clouds(80, distance=2.0)
    columns = KernelMatrix.of_rows(RBF, X)
    groups = whole(y)
    full = solve_grid(columns, groups, variants_of(tol=1e-8), promise=PROMISE)
    idle = full.coefs[0][0] == 0.0
    groups = groups._replace(folds=np.where(idle, 0, 1))
    found = solve_grid(
        columns, groups, without_folds(np.array([0]), tol=1e-5), promise=PROMISE,
        starts=full.coefs[0][0],
    )  # fmt: skip
    assert idle.sum() > 10
    assert found.values["source"][0, 1] == 0
    np.testing.assert_array_equal(found.coefs[0][1], full.coefs[0][0])


@pytest.mark.parametrize("left", [1, 2])
def test_solve_grid__without_most_of_one_class(left):
    X, y = two_clouds(40)
    folds = np.zeros(40, dtype=int)
    # All of the negative class but one or two rows go.
    folds[np.flatnonzero(y < 0)[:-left]] = 1
    pieces = svm_pieces(y, np.full(40, 3.0))
    groups = Groups.of([np.arange(40)], pieces, folds)
    columns = KernelMatrix.of_rows(RBF, X)
    full = solve_grid(columns, groups, variants_of(tol=1e-6), promise=PROMISE)
    found = solve_grid(
        columns, groups, without_folds(np.array([1]), tol=1e-6), promise=PROMISE,
        starts=full.coefs[0][0],
    )  # fmt: skip
    kept = folds == 0
    K = RBF(X)
    optimum = solve_primal(K[np.ix_(kept, kept)], y[kept], np.full(kept.sum(), 3.0), np.inf)
    points = pieces.breakpoints.copy()
    points[~kept] = 0.0
    check_certificate(found, K, Pieces(points, pieces.slopes), k=1, optimum=optimum.objective)


def test_solve_grid__without_a_whole_class_nothing_is_left():
    X, y = two_clouds(30)
    groups = whole(y)._replace(folds=np.where(y > 0, 1, 0))
    columns = KernelMatrix.of_rows(RBF, X)
    full = solve_grid(columns, groups, variants_of(tol=1e-6))
    found = solve_grid(
        columns, groups, without_folds(np.array([0, 1]), tol=1e-6), starts=full.coefs[0][0]
    )
    for k in (1, 2):
        assert not found.coefs[0][k].any()
        assert STATUS[found.values["status"][0, k]] == "converged"


# Starts, limits, progress, threads ------------------------------------------------------------


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("kernel", KERNELS, ids=named)
def test_solve_grid__a_solution_is_a_start_that_takes_no_steps(kernel, known):
    X, labels = classes((30, 25, 20))
    groups, _ = pairs_of(labels)
    columns, variants = KernelMatrix.of_rows(kernel, X), variants_of(tol=1e-5)
    cold = solve_grid(columns, groups, variants, promise=PROMISE)
    coefs, images = (np.concatenate([row[0] for row in rows]) for rows in (cold.coefs, cold.images))
    loose = variants_of(tol=1e-4)
    warm = solve_grid(
        columns,
        groups,
        loose,
        promise=PROMISE,
        starts=coefs,
        start_images=images if known else None,
    )
    assert cold.values["n_iter"].min() > 2
    assert warm.values["n_iter"].max() <= 1
    np.testing.assert_allclose(warm.values["objective"], cold.values["objective"], rtol=1e-6)


def test_solve_grid__arguments_are_left_alone():
    X, y = two_clouds(40)
    K = RBF(X)
    groups, variants = whole(y), variants_of((1.0, 2.0), tol=1e-3)
    start = np.zeros(40)
    given = [K, start, variants, groups.members, *groups.pieces, groups.sums, groups.splits]
    copies = [array.tobytes() for array in given]
    for array in given:
        array.setflags(write=False)
    solve_grid(KernelMatrix(K), groups, variants, promise=PROMISE, starts=start)
    for array, copy in zip(given, copies):
        assert array.tobytes() == copy


@pytest.mark.parametrize("limit", [0, 1, 7, 60])
@pytest.mark.parametrize("kernel", KERNELS, ids=named)
def test_solve_grid__limits_hold_and_the_certificate_is_honest(kernel, limit):
    X, y = two_clouds(60, seed=1)
    variants = variants_of(tol=1e-9, bounds=(np.inf, 1.1))
    found = solve_grid(
        KernelMatrix.of_rows(kernel, X), whole(y, 10.0), variants, promise=PROMISE, max_iter=limit
    )
    K = wide_matrix(kernel, X)
    assert (found.values["n_iter"] <= limit).all()
    for k, B in enumerate((np.inf, 1.1)):
        pieces = svm_pieces(y, np.full(60, 10.0))
        if k:
            pieces = relative_margin_pieces(y, np.full(60, 10.0), B)
        optimum = solve_primal(K.astype(float), y, np.full(60, 10.0), B).objective
        assert STATUS[found.values["status"][0, k]] == "max_iter"
        check_certificate(
            found, K, pieces, k=k, rows=rows_of(kernel, X), optimum=optimum, converged=False
        )


def test_solve_grid__every_group_is_reported():
    X, labels = classes((12, 15, 10, 8))
    groups, _ = pairs_of(labels)
    seen: list[Progress] = []
    found = solve_grid(
        KernelMatrix.of_rows(RBF, X),
        groups,
        variants_of(tol=1e-3),
        progress=seen.append,
        stage="pairs",
    )
    assert [report.stage for report in seen] == ["pairs"] * 6
    assert [report.iteration for report in seen] == found.values["n_iter"].sum(axis=1).tolist()
    assert all(report.violation <= report.target == 1e-3 for report in seen)


def test_solve_grid__an_error_of_the_callback_comes_through():
    X, labels = classes((12, 15, 10))

    def stop(report):
        raise KeyboardInterrupt

    for threads in (1, 2):
        with pytest.raises(KeyboardInterrupt):
            solve_grid(
                KernelMatrix.of_rows(RBF, X),
                pairs_of(labels)[0],
                variants_of(tol=1e-3),
                progress=stop,
                threads=threads,
            )


@pytest.mark.parametrize("total", [75, SINGLE_ROWS])
@pytest.mark.parametrize("kernel", KERNELS, ids=named)
def test_solve_grid__threads_change_nothing(kernel, total):
    sizes = np.full(8, total // 8)
    X, labels = classes(sizes)
    groups, _ = pairs_of(labels)
    variants = variants_of((1.0, 20.0), tol=1e-3, spreads=(0.3,))
    one, two = (
        solve_grid(
            KernelMatrix.of_rows(kernel, X), groups, variants, promise=PROMISE, threads=threads
        )
        for threads in (1, 2)
    )
    np.testing.assert_array_equal(one.values, two.values)
    np.testing.assert_array_equal(one.weights, two.weights)
    for left, right in zip(one.coefs, two.coefs):
        np.testing.assert_array_equal(left, right)


# Whose solution it is -------------------------------------------------------------------------


def test_solve_grid__a_bound_that_is_not_felt_has_the_solution_of_the_machine():
    X, y = two_clouds(60)
    variants = variants_of((1e-3, 1.0), tol=1e-4, spreads=(1.0, 0.2))
    found = solve_grid(KernelMatrix.of_rows(RBF, X), whole(y), variants, promise=PROMISE)
    # With the small penalty no output reaches one, the least bound there is.
    assert found.values["largest"][0, 0] < 1.0
    assert found.values["source"][0].tolist() == [0, 0, 0, 3, 3, 5]
    for k in (1, 2, 4):
        source = found.values["source"][0, k]
        np.testing.assert_array_equal(found.coefs[0][k], found.coefs[0][source])
        assert found.values["n_iter"][0, k] == 0
        assert found.values["objective"][0, k] == found.values["objective"][0, source]
        assert found.bias[0, k] == found.bias[0, source]


def test_solve_grid__solutions_do_not_depend_on_the_company():
    X, labels = classes((20, 24, 30), seed=7)
    groups, y = pairs_of(labels)
    columns = KernelMatrix.of_rows(RBF, X)
    variants = variants_of((0.1, 1.0, 50.0), tol=1e-7, spreads=(0.6, 0.1))
    found = solve_grid(columns, groups, variants, promise=PROMISE)
    for g in range(3):
        rows = groups.members[groups.part(g)]
        for k, C in ((2, 0.1), (5, 1.0), (7, 50.0)):
            B = found.values["bound"][g, k]
            alone = solve_grid(
                KernelMatrix(RBF(X[rows])), whole(y[g], C), variants_of(tol=1e-7, bounds=(B,)),
                promise=PROMISE,
            )  # fmt: skip
            assert found.values["objective"][g, k] == pytest.approx(
                alone.values["objective"][0, 0], rel=1e-6
            )
            np.testing.assert_allclose(
                found.values["scale"][g, k] * found.images[g][k] + found.bias[g, k],
                alone.values["scale"][0, 0] * alone.images[0][0] + alone.bias[0, 0],
                atol=1e-4,
            )


@pytest.mark.parametrize("promise", [PROMISE, np.inf])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("n", [60, SINGLE_ROWS])
def test_solve_grid__weights_and_bias_are_those_for_the_rows_as_given(n, sparse, promise):
    X, y = two_clouds(n)
    X = X + 100.0
    members = [np.arange(60)[::-1].copy(), np.arange(20, 50)]
    flat = np.concatenate(members)
    groups = Groups.of(members, svm_pieces(y[flat], np.ones(flat.size)))
    columns = KernelMatrix.of_rows(LINEAR, sp.csr_matrix(X) if sparse else X)
    variants = variants_of(tol=1e-4, bounds=(np.inf, 1.5))
    found = solve_grid(columns, groups, variants, promise=promise)
    # From a start, which is a solution, the result is the same.
    start = np.concatenate([found.coefs[g][0] for g in range(2)])
    again = solve_grid(columns, groups, variants_of(tol=2e-4), promise=promise, starts=start)
    centred = X - X.mean(axis=0)
    for g, rows in enumerate(members):
        np.testing.assert_allclose(again.bias[g, 0], found.bias[g, 0], atol=1e-2)
        for k in range(2):
            model = found.values["scale"][g, k] * found.coefs[g][k] @ centred[rows]
            np.testing.assert_allclose(found.weights[g, k], model, atol=1e-9)
            outputs = X[rows] @ found.weights[g, k] + found.bias[g, k]
            own = found.values["scale"][g, k] * found.images[g][k] + found.values["bias"][g, k]
            np.testing.assert_allclose(outputs, own, atol=1e-9 if promise < np.inf else 1e-3)


# Hard problems --------------------------------------------------------------------------------


@pytest.mark.parametrize("C", [1e-8, 1e-4, 1e4, 1e10])
@pytest.mark.parametrize("bound", [np.inf, 1.0, 1.5])
@pytest.mark.parametrize("kernel", KERNELS, ids=named)
def test_solve_grid__penalties_of_any_size(kernel, bound, C):
    X, y = two_clouds(50, seed=9)
    penalties = np.full(50, C)
    found = solve_grid(
        KernelMatrix.of_rows(kernel, X), whole(y, C), variants_of(tol=1e-3, bounds=(bound,)),
        promise=PROMISE,
    )  # fmt: skip
    pieces = svm_pieces(y, penalties)
    if np.isfinite(bound):
        pieces = relative_margin_pieces(y, penalties, bound)
    done = STATUS[found.values["status"][0, 0]] == "converged"
    rows = rows_of(kernel, X)
    check_certificate(found, wide_matrix(kernel, X), pieces, rows=rows, converged=done)
    # Coefficients of 1e10 leave outputs few digits; then it says so.
    assert found.relative_gap[0, 0] <= PROMISE if done else C == 1e10


@pytest.mark.parametrize("bound", [np.inf, 1.5])
def test_solve_grid__rows_whose_weights_span_twelve_orders(bound):
    rng = np.random.default_rng(6)
    X, y = two_clouds(70, seed=6)
    C = 10.0 ** rng.uniform(-6, 6, size=70)
    groups = Groups.of([np.arange(70)], svm_pieces(y, C))
    found = solve_grid(
        KernelMatrix.of_rows(RBF, X),
        groups,
        variants_of(tol=1e-3, bounds=(bound,)),
        promise=PROMISE,
    )
    pieces = svm_pieces(y, C)
    if np.isfinite(bound):
        pieces = relative_margin_pieces(y, C, bound)
    optimum = solve_pieces(RBF(X), *pieces).objective
    check_certificate(found, wide_matrix(RBF, X), pieces, optimum=None)
    assert found.relative_gap[0, 0] <= PROMISE
    assert found.values["objective"][0, 0] == pytest.approx(optimum, rel=2e-3)


@pytest.mark.parametrize("bound", [np.inf, 1.5])
@pytest.mark.parametrize("kernel", KERNELS, ids=named)
def test_solve_grid__copies_of_rows_weigh_as_much_as_one(kernel, bound):
    X, y = two_clouds(24, seed=2)
    counts = np.random.default_rng(2).integers(1, 5, size=24)
    rows = np.repeat(np.arange(24), counts)
    variants = variants_of(tol=1e-6, bounds=(bound,))
    copies = solve_grid(
        KernelMatrix.of_rows(kernel, X[rows]), whole(y[rows]), variants, promise=PROMISE
    )
    once = Groups.of([np.arange(24)], svm_pieces(y, counts.astype(float)))
    heavier = solve_grid(KernelMatrix.of_rows(kernel, X), once, variants, promise=PROMISE)
    assert copies.values["objective"][0, 0] == pytest.approx(
        heavier.values["objective"][0, 0], rel=1e-5
    )
    # A member may also come twice.
    pieces = svm_pieces(y[rows], np.ones(rows.size))
    again = solve_grid(
        KernelMatrix.of_rows(kernel, X), Groups.of([rows], pieces), variants, promise=PROMISE
    )
    assert again.values["objective"][0, 0] == pytest.approx(
        heavier.values["objective"][0, 0], rel=1e-5
    )


@pytest.mark.parametrize("bound", [np.inf, 1.2])
@pytest.mark.parametrize("eps", [0.0, 1e-14, 1e-8])
def test_solve_grid__matrices_that_are_nearly_singular(eps, bound):
    rng = np.random.default_rng(3)
    F = rng.normal(size=(80, 2))
    y = np.where(F[:, 0] + rng.normal(size=80) > 0, 1.0, -1.0)
    K = F @ F.T + eps * np.eye(80)
    found = solve_grid(
        KernelMatrix(K), whole(y, 100.0), variants_of(tol=1e-4, bounds=(bound,)),
        promise=PROMISE,
    )  # fmt: skip
    pieces = svm_pieces(y, np.full(80, 100.0))
    if np.isfinite(bound):
        pieces = relative_margin_pieces(y, np.full(80, 100.0), bound)
    optimum = solve_primal(K, y, np.full(80, 100.0), bound).objective
    check_certificate(found, K, pieces, optimum=optimum)
    assert found.relative_gap[0, 0] <= PROMISE


@pytest.mark.parametrize("scale", [1e-200, 1e-30, 1e30, 1e200])
@pytest.mark.parametrize("kernel", [LINEAR, POLY], ids=named)
def test_solve_grid__units_do_not_matter(kernel, scale):
    """Also those that single precision cannot hold."""
    X, y = two_clouds(SINGLE_ROWS, seed=4)
    kernel = Kernel(kernel.name, 1.0, 2, 0.0)
    factor = np.sqrt(scale) if kernel.name == "linear" else scale**0.25
    members = [np.arange(50)]

    def solve(X, C):
        groups = Groups.of(members, svm_pieces(y[:50], np.full(50, C)))
        return solve_grid(
            KernelMatrix.of_rows(kernel, X), groups, variants_of(tol=1e-5), promise=PROMISE
        )

    plain, scaled = solve(X, 0.1), solve(factor * X, 0.1 / scale)
    assert STATUS[scaled.values["status"][0, 0]] == "converged"
    assert scaled.values["objective"][0, 0] * scale == pytest.approx(
        plain.values["objective"][0, 0], rel=2e-4
    )
    np.testing.assert_allclose(scaled.bias, plain.bias, atol=1e-3)


@pytest.mark.parametrize("seed", range(4))
def test_solve_grid__indefinite_matrices_with_a_bound_have_no_solution(seed):
    problem = make_problem("rbf", 40, 1.0, 1.2, seed=seed)
    v = np.random.default_rng(seed).normal(size=40)
    K = problem.K - 5.0 * np.outer(v, v) / (v @ v)
    groups = Groups.of([np.arange(40)], svm_pieces(problem.y, problem.C))
    for dtype in (np.float32, np.float64):
        with pytest.raises(ValueError, match="not positive semidefinite"):
            solve_grid(
                KernelMatrix(K.astype(dtype)), groups, variants_of(tol=1e-3, bounds=(1.2,)),
                promise=PROMISE,
            )  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_solve_grid__indefinite_matrices_without_a_bound_meet_the_conditions(seed):
    problem = make_problem("rbf", 40, 1.0, np.inf, seed=seed)
    v = np.random.default_rng(seed).normal(size=40)
    K = problem.K - 5.0 * np.outer(v, v) / (v @ v)
    groups = Groups.of([np.arange(40)], problem.pieces)
    found = solve_grid(KernelMatrix(K), groups, variants_of(tol=1e-4), promise=PROMISE)
    low, high = bias_interval(K, problem.pieces, found.coefs[0][0])
    # A stationary point, as LIBSVM finds one; there may be no gap to prove.
    assert low - high <= 1.1e-4
    assert np.isfinite(found.coefs[0][0]).all()
    assert STATUS[found.values["status"][0, 0]] in ("converged", "stalled")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [(3, 3), (3, 4), (39, 0)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("bound", [np.inf, 1.2])
@pytest.mark.parametrize("promise", [PROMISE, np.inf])
def test_solve_grid__values_that_are_not_finite_are_an_error(promise, bound, dtype, place, value):
    problem = make_problem("rbf", 40, 1.0, np.inf)
    K = problem.K.astype(dtype)
    K[place] = K[place[::-1]] = value
    groups = Groups.of([np.arange(40)], problem.pieces)
    with pytest.raises(ValueError, match="not finite"):
        solve_grid(KernelMatrix(K), groups, variants_of(tol=1e-3, bounds=(bound,)), promise=promise)


def test_solve_grid__kernels_that_overflow_are_an_error():
    X, y = two_clouds(40)
    kernel = Kernel("poly", 1.0, 9, 0.0)
    with pytest.raises(ValueError, match=r"finite|overflow|large"):
        solve_grid(
            KernelMatrix.of_rows(kernel, 1e40 * X), whole(y), variants_of(tol=1e-3), promise=PROMISE
        )


@pytest.mark.parametrize("bound", [1.0, np.inf])
def test_solve_grid__a_group_of_one_row_or_one_class(bound):
    K = np.eye(3)
    variants = variants_of(tol=1e-6, bounds=(bound,))
    y = np.ones(3)
    groups = Groups.of([np.array([1]), np.arange(3)], svm_pieces(np.ones(4), np.ones(4)))
    found = solve_grid(KernelMatrix(K), groups, variants, promise=PROMISE)
    for g, n in enumerate((1, 3)):
        assert not found.coefs[g].any()
        assert found.bias[g, 0] >= 1.0 - 1e-6
        pieces = svm_pieces(y[:n], y[:n])
        if np.isfinite(bound):
            pieces = relative_margin_pieces(y[:n], y[:n], bound)
        check_certificate(found, K[:n, :n], pieces, g=g, optimum=0.0)


# More rows than a matrix is held of -----------------------------------------------------------


@pytest.mark.large
@pytest.mark.parametrize("kernel", [LINEAR, RBF], ids=named)
def test_solve_grid__groups_too_large_for_a_matrix_of_their_own(kernel):
    """More than 4096 rows go to working sets; a small group beside them does not."""
    n = 4200
    X, y = two_clouds(n, 3, seed=1, distance=1.0)
    X, y = np.vstack([X, X[:10]]), np.append(y, y[:10])
    members = [np.arange(n), np.arange(n - 20, n + 10)]
    flat = np.concatenate(members)
    groups = Groups.of(members, svm_pieces(y[flat], np.ones(flat.size)))
    variants = variants_of((0.1, 1.0), tol=1e-3, bounds=(1.5,))
    found = solve_grid(KernelMatrix.of_rows(kernel, X), groups, variants, promise=PROMISE)
    for g, rows in enumerate(members):
        support = np.flatnonzero(found.coefs[g].any(axis=0))
        K = np.zeros((rows.size, rows.size))
        K[:, support] = kernel(X[rows], X[rows[support]])
        for k, C in enumerate((0.1, 1.0)):
            pieces = relative_margin_pieces(y[rows], np.full(rows.size, C), 1.5)
            check_certificate(found, K, pieces, g=g, k=k, rows=rows_of(kernel, X[rows]))
            assert found.relative_gap[g, k] <= PROMISE


@pytest.mark.large
def test_solve_grid__large_groups_with_sums_are_refused():
    """One class of 4200 rows: working sets know only coefficients that sum to zero."""
    n = 4200
    X = np.random.default_rng(2).normal(size=(n, 2))
    pieces = Pieces(np.tile([0.0, 0.0, 1.0, 1.0], (n, 1)), np.zeros((n, 3)))
    start = np.zeros(n)
    start[:: n // 42] = 1.0
    groups = grouped(pieces, n, start)
    with pytest.raises(ValueError, match="sum to zero"):
        solve_grid(
            KernelMatrix.of_rows(RBF, X),
            groups,
            variants_of(tol=1e-3),
            promise=PROMISE,
            starts=start,
        )


# What it returns ------------------------------------------------------------------------------


def test_single__is_one_problem_of_the_grid():
    X, labels = classes((20, 15, 18))
    groups, y = pairs_of(labels)
    variants = variants_of(tol=1e-6, bounds=(np.inf, 1.2))
    found = solve_grid(KernelMatrix.of_rows(LINEAR, X), groups, variants, promise=PROMISE)
    for g in range(3):
        rows = groups.members[groups.part(g)]
        one = single(found, g, 1)
        assert one.status == "converged"
        assert one.gap == pytest.approx(found.gap[g, 1])
        assert one.relative_gap == pytest.approx(found.relative_gap[g, 1])
        np.testing.assert_allclose(one.coef, one.scale * found.coefs[g][1])
        np.testing.assert_allclose(X[rows].T @ one.coef, one.direction, atol=1e-9)
        pieces = relative_margin_pieces(y[g], np.ones(rows.size), 1.2)
        low, high = bias_interval(X[rows] @ X[rows].T, pieces, one.dual_coef)
        assert one.bias_interval[0] - one.bias_interval[1] == pytest.approx(low - high, abs=1e-9)
        assert np.abs(one.outputs).max() <= 1.2 * (1 + 1e-12)


@pytest.mark.parametrize("bound", [np.inf, 1.3])
def test_terms_of__are_those_of_the_problem(bound):
    _, labels = classes((4, 5, 6))
    groups, y = pairs_of(labels, folds=np.arange(30) % 3)
    variant = variants_of([2.5], tol=0.1)
    pieces = terms_of(groups, 1, variant, bound)
    expected = svm_pieces(y[1], np.full(10, 2.5))
    if np.isfinite(bound):
        expected = relative_margin_pieces(y[1], np.full(10, 2.5), bound)
    np.testing.assert_array_equal(pieces.breakpoints, expected.breakpoints)
    np.testing.assert_array_equal(pieces.slopes, expected.slopes)
    variant["without"] = 2
    points = terms_of(groups, 1, variant, bound).breakpoints
    out = groups.folds[groups.part(1)] == 2
    assert not points[out].any()
    np.testing.assert_array_equal(points[~out], expected.breakpoints[~out])
    tube = variants_of([2.5], tol=0.1, epsilons=(0.25,))
    slopes = terms_of(groups, 1, tube, np.inf).slopes
    np.testing.assert_allclose(slopes - slopes[:, 1:2], np.tile([0.25, 0.0, -0.25], (10, 1)))
