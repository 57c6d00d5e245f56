"""Many linear problems at once, against independent solvers and against their own certificates."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from sklearn.svm import LinearSVC

from oblong.solvers.linear.batch import solve_linear_batch
from oblong.solvers.linear.batch_problem import LinearBatch
from oblong.solvers.linear.batch_rounds import _within_single

LOSSES = [False, True]
INTERCEPTS = ["none", "penalised", "free"]


def rows(seed, n=300, d=12, k=4, unit=True):
    rng = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(k), rng.integers(0, k, n - k)])
    X = rng.normal(size=(n, d)) + 1.2 * rng.normal(size=(k, d))[labels]
    if unit:
        X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, labels


def one_vs_rest(k):
    return [(positive, None) for positive in range(k)]


def long_objective(batch, k, w, b):
    """The objective of a model in long double, and its largest output."""
    X = batch.X.toarray() if sp.issparse(batch.X) else batch.X
    y, C = batch.problem(k)
    w = w.astype(np.longdouble)
    f = X.astype(np.longdouble) @ w + np.longdouble(b)
    loss = np.maximum(1 - y * f, 0)
    value = w @ w / 2 + C.astype(np.longdouble) @ (loss**2 if batch.squared else loss)
    if batch.intercept == "penalised":
        value += np.longdouble(b) ** 2 / (2 * batch.scale**2)
    return float(value), float(np.abs(f[C > 0]).max())


def check(batch, found, tol):
    """The certificate is true: what is claimed of the model holds in long double."""
    assert set(found.status) == {"converged"}
    assert (found.relative_gap <= tol).all()
    for k in range(len(batch.problems)):
        value, largest = long_objective(batch, k, found.coef[k], found.bias[k])
        assert value <= found.objective[k] * (1 + 1e-15)
        assert found.objective[k] <= value * (1 + 1e-9)
        assert largest <= found.B[k] * (1 + 1e-12)


def reference(batch, k, B=np.inf):
    """The least objective by the interior point solver of Clarabel."""
    cp = pytest.importorskip("cvxpy")
    X = batch.X.toarray() if sp.issparse(batch.X) else batch.X
    y, C = batch.problem(k)
    some = C > 0
    w, b = cp.Variable(X.shape[1]), cp.Variable()
    f = X[some].astype(float) @ w + b
    loss = cp.pos(1 - cp.multiply(y[some], f))
    value = cp.sum_squares(w) / 2 + C[some] @ (cp.square(loss) if batch.squared else loss)
    if batch.intercept == "penalised":
        value += cp.square(b) / (2 * batch.scale**2)
    constraints = [b == 0] if batch.intercept == "none" else []
    if np.isfinite(B):
        constraints += [f <= B, f >= -B]
    problem = cp.Problem(cp.Minimize(value), constraints)
    return problem.solve(solver="CLARABEL")


@pytest.mark.parametrize("squared", LOSSES)
@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("seed", range(3))
def test_solve_linear_batch__optimum(squared, intercept, seed):
    X, labels = rows(seed, n=80, d=5, k=3, unit=seed != 2)
    C = 10.0 ** np.random.default_rng(seed).uniform(-2, 1, 80)
    batch = LinearBatch(
        X, labels, C, one_vs_rest(3), np.array([1.0, 2.0, 0.5]), squared, intercept, scale=1.5
    )
    found = solve_linear_batch(batch, tol=1e-7, max_iter=10_000)
    check(batch, found, 1e-7)
    for k in range(3):
        best = reference(batch, k)
        assert found.dual_objective[k] <= best * (1 + 1e-6)
        assert found.objective[k] == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("problems", ["ovr", "ovo"])
@pytest.mark.parametrize("B", [1.0, 1.4])
def test_solve_linear_batch__bounded_optimum(intercept, problems, B):
    X, labels = rows(5, n=90, d=6, k=3)
    pairs = one_vs_rest(3) if problems == "ovr" else list(itertools.combinations(range(3), 2))
    C = np.random.default_rng(0).uniform(0.2, 3, 90)
    batch = LinearBatch(X, labels, C, pairs, intercept=intercept)
    found = solve_linear_batch(batch, B=B, tol=1e-6, max_iter=100_000)
    check(batch, found, 1e-6)
    for k in range(3):
        best = reference(batch, k, B)
        assert found.dual_objective[k] <= best * (1 + 1e-6)
        assert found.objective[k] == pytest.approx(best, rel=3e-6)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_solve_linear_batch__liblinear(loss):
    X, labels = rows(7, n=1500, d=30, k=5)
    batch = LinearBatch(
        X, labels, np.ones(1500), one_vs_rest(5), None, loss == "squared_hinge", "penalised"
    )
    found = solve_linear_batch(batch, tol=1e-8, max_iter=10_000)
    check(batch, found, 1e-8)
    theirs = LinearSVC(loss=loss, tol=1e-9, max_iter=10**6).fit(X, labels)
    np.testing.assert_allclose(found.coef, theirs.coef_, atol=2e-3)
    np.testing.assert_allclose(found.bias, theirs.intercept_, atol=2e-3)
    for k in range(5):
        value, _ = long_objective(batch, k, theirs.coef_[k], theirs.intercept_[k])
        assert found.dual_objective[k] <= value


@pytest.mark.parametrize("squared", LOSSES)
def test_solve_linear_batch__optimality_conditions(squared):
    """The weights are a combination of the rows with a loss, as a smooth solver finds it."""
    X, labels = rows(3, n=120, d=4, k=3)
    batch = LinearBatch(X, labels, np.ones(120), one_vs_rest(3), squared=squared)
    found = solve_linear_batch(batch, tol=1e-9, max_iter=10_000)
    y, C = batch.problem(1)

    def objective(v):
        loss = np.maximum(1 - y * (X @ v[:-1] + v[-1]), 0)
        return v[:-1] @ v[:-1] / 2 + C @ (loss**2 if squared else loss)

    start = np.append(found.coef[1], found.bias[1])
    better = minimize(objective, start, method="Nelder-Mead", options={"maxiter": 4000}).fun
    assert better >= found.objective[1] * (1 - 1e-8)


@pytest.mark.parametrize("tol", [1e-3, 1e-5, 1e-7])
@pytest.mark.parametrize("spread", [1.0, 0.5])
@pytest.mark.parametrize("kind", ["single", "double", "sparse", "sparse single"])
def test_solve_linear_batch__certificate_is_true(tol, spread, kind):
    X, labels = rows(11, n=700, d=37, k=6)
    if "sparse" in kind:
        X = np.where(np.abs(X) > 0.1, X, 0.0)
    X = X.astype(np.float32 if "single" in kind else np.float64)
    X = sp.csr_matrix(X) if "sparse" in kind else X
    batch = LinearBatch(X, labels, np.ones(700), one_vs_rest(6))
    found = solve_linear_batch(batch, spread=spread, tol=tol, max_iter=50_000)
    check(batch, found, tol)


def test_solve_linear_batch__forms_of_rows_agree():
    X, labels = rows(13, n=600, d=33, k=5)
    X = X.astype(np.float32)
    shared = (labels, np.ones(600), one_vs_rest(5))
    forms = [X, X.astype(np.float64), sp.csr_matrix(X), sp.csr_matrix(X.astype(np.float64))]
    found = [solve_linear_batch(LinearBatch(form, *shared), tol=1e-6) for form in forms]
    for one in found[1:]:
        np.testing.assert_allclose(one.objective, found[0].objective, rtol=2e-6)
        np.testing.assert_allclose(one.coef, found[0].coef, atol=2e-2)


def test_solve_linear_batch__threads_change_nothing():
    X, labels = rows(17, n=2000, d=20, k=7)
    batch = LinearBatch(X.astype(np.float32), labels, np.ones(2000), one_vs_rest(7))
    one, three = (solve_linear_batch(batch, spread=0.7, threads=t) for t in (1, 3))
    np.testing.assert_array_equal(one.coef, three.coef)
    np.testing.assert_array_equal(one.objective, three.objective)


def test_solve_linear_batch__order_of_rows_is_within_the_gap():
    X, labels = rows(19, n=500, d=10, k=4)
    order = np.random.default_rng(0).permutation(500)
    shared = (np.ones(500), one_vs_rest(4))
    ours = solve_linear_batch(LinearBatch(X, labels, *shared), tol=1e-7)
    theirs = solve_linear_batch(LinearBatch(X[order], labels[order], *shared), tol=1e-7)
    np.testing.assert_allclose(ours.objective, theirs.objective, rtol=1e-7)


@pytest.mark.parametrize("squared", LOSSES)
@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_solve_linear_batch__weights_are_copies(squared, intercept):
    X, labels = rows(23, n=60, d=5, k=3)
    counts = np.random.default_rng(1).integers(0, 4, 60)
    many = np.repeat(np.arange(60), counts)
    how = {"squared": squared, "intercept": intercept}
    weighted = LinearBatch(X, labels, counts.astype(float), one_vs_rest(3), **how)
    copied = LinearBatch(X[many], labels[many], np.ones(len(many)), one_vs_rest(3), **how)
    ours, theirs = (solve_linear_batch(b, tol=1e-8, max_iter=10**5) for b in (weighted, copied))
    np.testing.assert_allclose(ours.objective, theirs.objective, rtol=1e-7)


def degenerate():
    rng = np.random.default_rng(0)
    few = np.array([[1.0, 0.0], [-1.0, 0.5]])
    yield "two rows", few, np.array([0, 1])
    yield "one column", rng.normal(size=(40, 1)), rng.integers(0, 3, 40)
    yield "no columns", np.zeros((10, 0)), np.arange(10) % 2
    yield "more columns than rows", rng.normal(size=(12, 90)), np.arange(12) % 4
    yield "rows of zeros", np.vstack([np.zeros((5, 3)), rng.normal(size=(5, 3))]), np.arange(10) % 2
    yield "all rows alike", np.ones((20, 4)), np.arange(20) % 3
    yield "constant columns", np.c_[rng.normal(size=(30, 2)), np.full(30, 3.0)], np.arange(30) % 3
    yield "duplicates", np.repeat(rng.normal(size=(8, 3)), 5, axis=0), np.arange(40) // 5 % 3
    yield "one row a class", rng.normal(size=(15, 6)), np.arange(15)
    yield "long rows", 1e4 * rng.normal(size=(40, 5)), np.arange(40) % 3
    yield "short rows", 1e-4 * rng.normal(size=(40, 5)), np.arange(40) % 3


@pytest.mark.parametrize("case", list(degenerate()), ids=lambda case: case[0])
@pytest.mark.parametrize("squared", LOSSES)
@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("C", [1e-6, 1.0, 1e3])
def test_solve_linear_batch__degenerate_rows(case, squared, intercept, C):
    _, X, labels = case
    k = labels.max() + 1
    batch = LinearBatch(
        X, labels, np.full(len(X), C), one_vs_rest(k), squared=squared, intercept=intercept
    )
    found = solve_linear_batch(batch, max_iter=3000)
    assert np.isfinite(found.coef).all()
    assert np.isfinite(found.bias).all()
    for problem in range(k):
        value, _ = long_objective(batch, problem, found.coef[problem], found.bias[problem])
        # True whether it converged or not: the caller has another method for what crawls.
        assert value <= found.objective[problem] * (1 + 1e-14) + 1e-300
        assert found.dual_objective[problem] <= value * (1 + 1e-14) + 1e-300
        if X.size and C * max(1.0, np.square(X).sum(axis=1).max()) <= 100:
            assert found.status[problem] == "converged"


def test_solve_linear_batch__limit_of_epochs():
    X, labels = rows(29, n=400, d=30, k=4)
    batch = LinearBatch(X, labels, np.full(400, 100.0), one_vs_rest(4))
    found = solve_linear_batch(batch, tol=1e-9, max_iter=3)
    assert set(found.status) == {"max_iter"}
    assert found.n_iter.max() == 3
    assert (found.relative_gap > 1e-9).all()


def test_solve_linear_batch__interrupts_end_it():
    X, labels = rows(31)

    def interrupt(progress):
        raise KeyboardInterrupt

    batch = LinearBatch(X, labels, np.ones(300), one_vs_rest(4))
    with pytest.raises(KeyboardInterrupt):
        solve_linear_batch(batch, progress=interrupt)


def test_solve_linear_batch__entries_given_twice():
    X, labels = rows(37, n=100, d=6, k=3)
    once = sp.csr_matrix(X)
    parts = np.repeat(once.data, 2) * np.tile([0.25, 0.75], once.nnz)
    twice = sp.csr_matrix((parts, np.repeat(once.indices, 2), 2 * once.indptr), once.shape)
    ours, theirs = (
        solve_linear_batch(LinearBatch(each, labels, np.ones(100), one_vs_rest(3)), tol=1e-7)
        for each in (twice, once)
    )
    np.testing.assert_allclose(ours.objective, theirs.objective, rtol=1e-6)
    assert twice.nnz == 2 * once.nnz


@pytest.mark.parametrize(
    ("unit", "C", "single"), [(1.0, 1.0, True), (1e13, 1.0, False), (1.0, 1e13, False)]
)
def test_within_single__numbers_beyond_it_are_solved_in_double(unit, C, single):
    X = unit * np.eye(4, dtype=np.float32)
    labels = np.array([0, 1, 0, 1], dtype=np.int32)
    batch = LinearBatch(X, labels, np.full(4, C), [(1, 0)])
    assert bool(_within_single(batch)) is single
    assert np.isfinite(solve_linear_batch(batch, tol=1e-3).coef).all()
