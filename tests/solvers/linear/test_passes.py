"""Rows in blocks: the same solution as in memory, and a certificate that can fail."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from oblong.linalg.first_pass import Metric, look
from oblong.linalg.row_passes import ArrayRows, LocalPasses, Part, Tree, combined
from oblong.solvers.linear.options import LinearOptions
from oblong.solvers.linear.passes import bands
from oblong.solvers.linear.passes.bands import BandQuestion, Point, answer_bands, near, pieces
from oblong.solvers.linear.passes.problem import PassProblem
from oblong.solvers.linear.passes.solve import first_look, solve_passes
from oblong.solvers.linear.passes.working_set import WorkingSet
from oblong.solvers.linear.relative import solve_linear_relative_margin

# Few rows are kept, so that small data needs several passes.
SMALL = LinearOptions(band_rows=15.0, band_least=300)
FORMS = {
    "svm": {"spread": 1.0},
    "B": {"B": 2.0},
    "spread": {"spread": 0.25},
    "D": {"D": 20.0},
    "nu": {"D": 100.0, "nu": 20.0},
}


def flips(n=8000, d=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) + 3.0
    y = np.where((X - 3.0) @ rng.standard_normal(d) + 0.3 > 0, 1, -1)
    y[rng.random(n) < 0.1] *= -1
    return X, y


def in_passes(
    X, y, form, *, weight=None, block_rows=1000, threads=1, tol=1e-9, options=SMALL, C=1.0
):
    source = ArrayRows(X, y, weight, block_rows=block_rows)
    passes = LocalPasses(source, threads)
    seen = first_look(passes, extremes=True, hold=False, options=options)
    problem = PassProblem((0, 1), (C, C), **form)
    return solve_passes(passes, [problem], seen, tol=tol, options=options)[0]


def in_memory(X, y, form, weight=None):
    form = dict(form)
    weight = np.ones(len(y)) if weight is None else weight
    nu = form.pop("nu", None)
    U = None if nu is None else form["D"] * nu * weight / weight.sum()
    return solve_linear_relative_margin(X, y.astype(float), weight, U=U, tol=1e-10, **form)


@pytest.mark.parametrize("form", FORMS)
def test_as_in_memory(form):
    X, y = flips()
    found, exact = in_passes(X, y, FORMS[form]), in_memory(X, y, FORMS[form])
    assert found.status == "converged"
    assert found.n_passes > 2
    assert found.working_rows < len(y)
    # The bound of a spread follows from another solution, itself known to the tolerance.
    tolerance = 1e-7 if form == "spread" else 1e-9
    assert found.objective == pytest.approx(exact.solution.objective, rel=tolerance)
    assert found.relative_gap <= 1e-9
    np.testing.assert_allclose(found.coef, exact.solution.coef, atol=1e-5)
    assert pytest.approx(exact.B, abs=1e-4) == found.B
    np.testing.assert_allclose(found.largest, np.abs(X @ found.coef + found.bias).max(), rtol=1e-9)


@pytest.mark.parametrize(
    "kind", ["heavy tails", "sorted by class", "constant column", "rare class"]
)
def test_awkward_rows(kind):
    X, y = flips(6000)
    if kind == "heavy tails":
        X = np.random.default_rng(1).standard_t(2, X.shape)
    elif kind == "sorted by class":
        order = np.argsort(y, kind="stable")
        X, y = X[order], y[order]
    elif kind == "constant column":
        X = np.column_stack([X, np.full(len(X), 7.0), X[:, 0]])
    else:
        kept = (y > 0) | (np.arange(len(y)) % 200 == 0)
        X, y = X[kept], y[kept]
    for form in ("svm", "B"):
        found, exact = in_passes(X, y, FORMS[form]), in_memory(X, y, FORMS[form])
        assert found.objective == pytest.approx(exact.solution.objective, rel=1e-8)


def test_blocks_and_threads_change_nothing():
    X, y = flips(3000)
    one = in_passes(X, y, FORMS["spread"], block_rows=3000)
    for rows in (429, 3):
        other = in_passes(X, y, FORMS["spread"], block_rows=rows)
        np.testing.assert_allclose(other.coef, one.coef, rtol=1e-9)
        assert other.n_passes == one.n_passes
        assert other.objective == pytest.approx(one.objective, rel=1e-12)
    alone = in_passes(X, y, FORMS["D"], block_rows=500)
    threads = in_passes(X, y, FORMS["D"], block_rows=500, threads=3)
    np.testing.assert_array_equal(alone.coef, threads.coef)
    assert alone.objective == threads.objective


@pytest.mark.parametrize("form", ["svm", "nu"])
def test_sparse_rows(form):
    X, y = flips(3000, 8)
    X = np.where(np.random.default_rng(2).random(X.shape) < 0.6, 0.0, X - 2.5)
    found = in_passes(sp.csr_matrix(X), y, FORMS[form])
    assert found.objective == pytest.approx(
        in_memory(X, y, FORMS[form]).solution.objective, rel=1e-9
    )


def test_sparse_rows_that_fit_are_kept():
    X = sp.random(3000, 50_000, 1e-4, format="csr", random_state=0)
    passes = LocalPasses(ArrayRows(X, np.arange(3000) % 2, memory=2e6, block_rows=500))
    assert first_look(passes, extremes=False, options=SMALL).whole


def test_weights_are_copies_and_zero_is_absence():
    X, y = flips(3000)
    weight = np.random.default_rng(3).integers(0, 3, len(y)).astype(float)
    weighted = in_passes(X, y, FORMS["nu"], weight=weight)
    copies = np.repeat(np.arange(len(y)), weight.astype(int))
    copied = in_memory(X[copies], y[copies], FORMS["nu"])
    assert weighted.objective == pytest.approx(copied.solution.objective, rel=1e-9)


def test_several_classes_share_their_passes():
    X, y = flips(6000)
    y = np.where(X[:, 1] > 3.5, 2, y)
    source = ArrayRows(X, y, block_rows=700)
    passes = LocalPasses(source)
    seen = first_look(passes, extremes=False, hold=False, options=SMALL)
    assert seen.labels.tolist() == [-1, 1, 2]
    problems = [PassProblem(pair, (1.0, 1.0), spread=1.0) for pair in ((0, 1), (0, 2), (1, 2))]
    found = solve_passes(passes, problems, seen, tol=1e-9, options=SMALL)
    assert passes.n_passes == max(result.n_passes for result in found)
    for result, pair in zip(found, ((-1, 1), (-1, 2), (1, 2))):
        mine = np.isin(y, pair)
        sides = np.where(y[mine] == pair[1], 1, -1)
        exact = in_memory(X[mine], sides, FORMS["svm"])
        assert result.objective == pytest.approx(exact.solution.objective, rel=1e-9)


def test_a_wrong_grouping_shows_in_the_gap(monkeypatch):
    """Rows that count as gathered and never were: closed, but not certified."""
    X, y = flips()
    right = bands.near

    def careless(f, y, q, point, hard):
        # The first point claims a band that is wider than the one that was gathered.
        wide = Point(point.w, point.b, point.T, 20.0 * point.delta, point.delta_t)
        return right(f, y, q, wide if careless.earlier else point, hard)

    plain = bands._chunk

    def chunk(question, *arguments):
        careless.earlier = len(question.points) > 1
        return plain(question, *arguments)

    monkeypatch.setattr(bands, "near", careless)
    monkeypatch.setattr(bands, "_chunk", chunk)
    found = in_passes(X, y, FORMS["svm"])
    exact = in_memory(X, y, FORMS["svm"]).solution.objective
    assert found.relative_gap > 1e-6
    assert found.status != "converged"
    assert found.dual_objective <= exact <= found.objective * (1 + 1e-12)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6), groups=st.integers(1, 30), form=st.sampled_from(["svm", "B", "D"])
)
def test_means_of_any_groups_are_a_lower_bound(seed, groups, form):
    rng = np.random.default_rng(seed)
    X, y = flips(60, 3, seed)
    if len(np.unique(y)) < 2:
        return
    C = rng.uniform(0.5, 2.0, len(y))
    place = rng.integers(0, groups, len(y)) * 2 + (y > 0)
    X_small, y_small, C_small = [], [], []
    for g in np.unique(place):
        mine = place == g
        X_small.append(C[mine] @ X[mine] / C[mine].sum())
        y_small.append(float(y[mine][0]))
        C_small.append(C[mine].sum())
    arguments = {k: v for k, v in FORMS[form].items() if k != "D"}
    if form == "D":
        arguments = {"D": 3.0}
    small = solve_linear_relative_margin(
        np.array(X_small), np.array(y_small), np.array(C_small), tol=1e-9, **arguments
    )
    every = solve_linear_relative_margin(X, y.astype(float), C, tol=1e-9, **arguments)
    best = small.solution
    assert best.dual_objective - best.rounding <= every.solution.objective * (1 + 1e-9)


def test_rows_outside_the_band_keep_their_piece():
    X, y = flips(2000, 4)
    seen = look(LocalPasses(ArrayRows(X, y)), 1.0)
    metric = Metric(seen.of([0, 1]))
    # The bound holds for rows whose factor was not clipped.
    q = metric.factors(X)
    assert (q < metric.most).all()
    rng = np.random.default_rng(4)
    w, b, T = rng.standard_normal(4), -1.0, 3.0
    point = Point(w, b, T, 0.3, 0.0)
    f = X @ w + b
    outside = ~near(f, y, q, point, True) & (np.abs(f) < T)
    assert 0 < outside.sum() < len(y)
    for _ in range(100):
        dw, db = rng.standard_normal(4), rng.standard_normal()
        scale = 0.3 / metric.length(dw, db) * rng.random()
        moved = X @ (w + scale * dw) + b + scale * db
        same = pieces(moved, y, T) == pieces(f, y, T)
        assert same[outside].all()


def test_scales_are_those_of_the_hinge():
    X, y = flips(500)
    point = Point(np.full(5, 0.7), -9.0, 1.5, 0.1, 0.0)
    metric = Metric(look(LocalPasses(ArrayRows(X, y)), 1.0).of([0, 1]))
    question = BandQuestion((0, 1), (1.0, 2.0), None, (point,), metric, scaled=True)
    passes = LocalPasses(ArrayRows(X, y))
    found = passes.run(answer_bands, {0: question}, np.array([-1, 1]))
    margins = y * (X @ point.w + point.b)
    C = np.where(y > 0, 2.0, 1.0)
    exact = [C @ np.maximum(1.0 - s * margins, 0.0) for s in bands.SCALES]
    np.testing.assert_allclose(found.sums[0, "loss"], exact, rtol=1e-12)


def test_the_tree_does_not_depend_on_how_parts_come():
    values = np.random.default_rng(5).standard_normal(11)
    tree = Tree()
    for value in values:
        tree.add(Part({"a": value}, {"b": value}))
    level = [Part({"a": v}, {"b": v}) for v in values]
    while len(level) > 1:
        pairs = [level[i : i + 2] for i in range(0, len(level), 2)]
        level = [combined(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
    assert tree.total() == level[0]
    assert tree.total().largest["b"] == values.max()


def test_rows_beyond_memory_go_to_a_file(tmp_path, monkeypatch):
    X, y = flips(4000)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    source = ArrayRows(X, y, block_rows=500, memory=20_000)
    passes = LocalPasses(source)
    seen = first_look(passes, extremes=False, options=SMALL)
    problem = PassProblem((0, 1), (1.0, 1.0), spread=1.0)
    with pytest.warns(UserWarning, match=r"more than memory=0 MB: they go to a scratch file"):
        found = solve_passes(passes, [problem], seen, tol=1e-9, options=SMALL)[0]
    assert found.objective == in_passes(X, y, FORMS["svm"], block_rows=500).objective
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    rows = np.zeros((10, 3))
    with WorkingSet(1.0) as kept:
        monkeypatch.setattr(
            "pathlib.Path.open", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left"))
        )
        columns = (np.ones(10), np.ones(10), np.ones(10))
        with (
            pytest.warns(UserWarning, match="scratch"),
            pytest.raises(OSError, match=r"No space left.*TMPDIR"),
        ):
            kept.add([(rows, *columns)])
        monkeypatch.undo()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("nan", r"X, row 1,003: a number is missing"),
        ("weight", r"X, row 7: the weight is -1"),
        ("labels", "some labels are words"),
        ("empty", "there are no rows"),
    ],
)
def test_bad_rows_are_named(change, message):
    X, y = flips(2000)
    weight = None
    if change == "nan":
        X[1003, 2] = np.nan
    elif change == "weight":
        weight = np.ones(2000)
        weight[7] = -1.0
    elif change == "labels":
        y = np.array([*y[:1000].tolist(), *map(str, y[1000:])], dtype=object)
    else:
        X, y = X[:0], y[:0]
    with pytest.raises(ValueError, match=message):
        first_look(LocalPasses(ArrayRows(X, y, weight, block_rows=500)), extremes=True)


def test_rows_that_change_are_noticed():
    X, y = flips(3000)
    source = ArrayRows(X, y, block_rows=1000)
    passes = LocalPasses(source)
    seen = first_look(passes, extremes=False, hold=False, options=SMALL)
    problem = PassProblem((0, 1), (1.0, 1.0), spread=1.0)
    source.y = np.where(np.arange(3000) == 2500, 5, y)
    with pytest.raises(ValueError, match=r"X, row 2,500: the label .*5.* was not there before"):
        solve_passes(passes, [problem], seen, options=SMALL)
    source.y, source.X = y, X[:2900]
    with pytest.raises(ValueError, match="900 rows, 1000 before"):
        solve_passes(passes, [problem], seen, options=SMALL)


def test_the_interior_point_gives_the_same_bits_on_threads():
    """Sums of Gram matrices are added by chunk number."""
    X, y = flips(60_000, 9)
    results = [
        solve_linear_relative_margin(X, y.astype(float), np.ones(len(y)), spread=1.0, threads=3)
        for _ in range(3)
    ]
    for result in results[1:]:
        np.testing.assert_array_equal(result.solution.coef, results[0].solution.coef)
