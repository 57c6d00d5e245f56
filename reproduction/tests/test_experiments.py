"""Experiments of the ellipsoidal kernel and of the relative margin machine, digits apart."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits
from sklearn.multiclass import OneVsOneClassifier

from oblong import EllipsoidalKernelClassifier
from oblong.datasets import Dataset
from oblong_reproduction import Results, RunSettings, Sets, catalogue, find, run_experiment
from oblong_reproduction._data import KNOWN
from oblong_reproduction.ekm import table as ekm_table
from oblong_reproduction.rmm import _distributions, benchmarks, newsgroups, rivals, runtime

EXPERIMENTS = [e for e in catalogue().values() if e.name.startswith(("ekm", "rmm"))]
CLOSED_FORMS = {"ekm-fig1": "ratio-2", "rmm-fig1": None, "rmm-table1": None}
WITHOUT_DATA = [e for e in EXPERIMENTS if not e.data and e.name not in CLOSED_FORMS]


def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda e: e.name)
@pytest.mark.parametrize("quick", [False, True])
def test_cells_are_well_formed(experiment, quick):
    cells = experiment.cells(quick)
    names = [cell.name for cell in cells]
    assert len(set(names)) == len(names)
    for cell in cells:
        assert json.loads(json.dumps(dict(cell.parameters))) == dict(cell.parameters)
        assert set(cell.data) <= set(experiment.data) <= set(KNOWN)
    assert experiment.protocol
    assert experiment.title == experiment.title.strip(".")
    if quick and not experiment.quick:
        assert [c.parameters for c in cells] == [c.parameters for c in experiment.cells(False)]


@pytest.mark.parametrize("experiment", WITHOUT_DATA, ids=lambda e: e.name)
def test_experiments_without_data_run_end_to_end(experiment, tmp_path):
    first = experiment.cells(True)[0].name
    document = run_experiment(
        experiment, Sets(), RunSettings(quick=True, only=first), tmp_path / "one"
    )
    assert len(document["cells"]) == 1
    assert document["failed"] == {}


@pytest.mark.parametrize(("name", "only"), CLOSED_FORMS.items())
def test_closed_forms_and_toys_come_out_as_published(name, only, tmp_path):
    experiment = catalogue()[name]
    if only:
        # One cell of fewer starts of its search.
        (cell,) = [cell for cell in experiment.cells(False) if cell.name == only]
        cell = replace(cell, parameters={**cell.parameters, "starts": 10})
        experiment = replace(experiment, cells=lambda quick: [cell])
    document = run_experiment(experiment, Sets(), RunSettings(), tmp_path)
    assert document["complete"]
    assert {row["verdict"] for row in document["rows"]} <= {"agrees", "confirmed", "not comparable"}
    if name != "rmm-table1":
        assert (tmp_path / f"{name}.svg").read_text().startswith("<?xml")


def test_find_knows_names_methods_and_all():
    assert [e.name for e in find(["rmm-fig1", "ekm-fig2"])] == ["rmm-fig1", "ekm-fig2"]
    assert {e.name for e in find(["ekm"])} == {"ekm-fig1", "ekm-fig2", "ekm-table2", "ekm-fig3"}
    assert len(find(["all"])) == len(catalogue())
    with pytest.raises(ValueError, match="did you mean rmm-fig1"):
        find(["rmm-fig11x"])


def test_a_map_to_the_ball_and_a_linear_svm_are_the_ellipsoidal_machine():
    X, y = load_digits(n_class=2, return_X_y=True)
    X = X[:, [20, 28, 36, 42]] * [1.0, 10.0, 0.1, 3.0]
    (ellipsoid,) = ekm_table._maps((0.8,))["ekm"]
    T = ellipsoid.fit(X[:200]).transform(X)
    accuracy = ekm_table._correct(T[:200], y[:200], T[200:], y[200:], 8.0)
    model = EllipsoidalKernelClassifier(kernel="linear", coverage=0.8, C=8.0, tol=1e-6)
    assert accuracy == model.fit(X[:200], y[:200]).score(X[200:], y[200:])


def test_ekm_cell_on_small_data(fake_sets):
    X, y = load_digits(n_class=2, return_X_y=True)
    sets = fake_sets(Dataset(X[:120, [20, 28, 36]], y[:120], None, ("0", "1"), "fake"))
    options = {"inner": 2, "coverages": [1.0, 0.8], "penalties": [1.0, 100.0]}
    for setup in (1, 2):
        found = ekm_table._cell(sets, rng(), set="bupa", setup=setup, repetition=0, **options)
        assert found["test_rows"] == 12
        assert all(0.5 <= found[method] <= 1.0 for method in ("svm", "gaussian", "ekm"))


def test_figure_4_pairs_the_draws_that_both_sizes_have():
    def cells(n, number, gain, **fixed):
        return [
            {
                "n": n,
                "draw": i,
                "held": 200,
                "bayes": 0.8,
                "svm": 1.0 + gain * (1 + 0.1 * (i % 3)),
                "rmm": 1.0,
                **fixed,
            }
            for i in range(number)
        ]

    found = cells(25, 6, 0.5) + cells(12_800, 9, 0.1) + cells(12_800, 9, -0.1, fixed=100.0)
    rows = {row.what: row for row in catalogue()["rmm-fig4"].rows(Results(found))}
    assert rows["n = 12800: test error of RMM below SVM"].verdict == "confirmed"
    assert rows["n = 12800, C = 100: test error of RMM below SVM"].verdict == "contradicted"
    shrinks = rows["the advantage at n = 12800 below that at n = 25"]
    assert shrinks.verdict == "confirmed"
    assert "6 repetitions" in shrinks.why


def test_the_svm_for_every_c_says_where_the_printed_number_comes_out():
    options = {"set": "heart", "setup": 1, "penalties": [0.5, 2.0]}
    curves = [{**options, "curve": [0.83 + 0.01 * (i % 2), 0.6]} for i in range(6)]
    rows = {row.what: row for row in ekm_table._rows(Results(curves))}
    row = rows["setup 1, heart, SVM for C = 2^-1 to 2^1, none chosen"]
    assert row.verdict == "not comparable"
    assert "met at C = 2^-1;" in row.why
    worse = [{**cell, "curve": [0.6, 0.6]} for cell in curves]
    rows = {row.what: row for row in ekm_table._rows(Results(worse))}
    assert "met at no C;" in rows[row.what].why


def test_claims_of_the_ekm_are_counted_over_sets():
    # On one set the SVM is far ahead; on the others the EKM is, by little.
    names = ("heart", "pima", "ionosphere", "pendigits", "iris", "bupa", "segment", "sonar")
    cells = [
        {
            "set": name,
            "setup": 2,
            "repetition": i,
            "svm": 0.8 + 0.001 * i,
            "gaussian": 0.8 + 0.001 * i,
            "ekm": 0.8 + 0.0011 * i + (-0.2 if name == "sonar" else 0.01),
        }
        for i in range(10)
        for name in names
    ]
    rows = {row.what: row for row in ekm_table._rows(Results(cells))}
    count = rows["setup 2: sets on which EKM has a lower error than SVM"]
    assert (count.paper, count.ours) == ("6 of 8, 1 tied, 1 lost", "7 of 8, 0 tied, 1 lost")
    assert rows["setup 2: sets on which EKM has a lower error than Gaussian"].paper == count.paper
    # A test of all splits together would be sure of the opposite.
    means = rows["setup 2: error of EKM below that of SVM, means of the sets"]
    assert means.verdict == "not confirmed"
    assert "over 80 splits of these very sets, p = 0.0" in means.why
    assert rows["setup 2, heart: error of EKM below that of SVM"].verdict == "confirmed"
    # The paper has no lead there.
    assert "setup 2, sonar: error of EKM below that of SVM" not in rows


def test_newsgroups_cell(fake_sets):
    dense = np.random.default_rng(1).poisson(0.3, size=(700, 40)).astype(float)
    y = np.arange(700) % 2
    dense[y == 1, :5] += 1.0
    X = sp.csr_matrix(dense)
    sets = fake_sets(Dataset(X[:650], y[:650], None, ("a", "b"), "fake", "", X[650:], y[650:]))
    found = newsgroups._cell(
        sets, rng(), set="news20_bydate", pair=[0, 1], draws=2, penalties=[1.0, 100.0]
    )
    assert len(found["svm"]) == len(found["rmm"]) == 2
    assert max(found["svm"] + found["rmm"]) < 10.0
    results = Results([{"pair": [0, 1], **found}])
    assert len(list(newsgroups._rows(results))) == 3


def test_benchmark_choice_and_second_stage(fake_sets):
    X, y = load_digits(n_class=2, return_X_y=True)
    X = X[:100, [20, 28, 36]] + np.random.default_rng(2).standard_normal((100, 3)) * 4
    split = np.array([np.random.default_rng(k).permutation(100)[:60] for k in range(10)])
    sets = fake_sets(Dataset(X, y[:100], None, ("0", "1"), "fake"), train_idx=split)
    options = {"stage": "choice", "set": "heart", "folds": 3, "full": False}
    cells = [
        {"split": i, "method": method, **options}
        | benchmarks._choice_cell(sets, rng(), split=i, method=method, **options)
        for i in range(3)
        for method in ("svm", "kfda")
    ]
    cells += [{**cell, "method": m} for cell in cells[::2] for m in ("sigma", "rmm_tied", "rmm")]
    later = benchmarks._test_cells(True, Results(cells))
    tried = sorted((c for c in cells if c["method"] == "kfda"), key=lambda cell: cell["error"])
    chosen = later[0].parameters["chosen"]
    assert chosen["kfda"] == tried[1]["parameters"]
    assert chosen["svm"] == chosen["rmm"]
    grid = benchmarks._grid("rmm", True)
    assert [len(values) for values in grid.values()] == [7, 6, 4, 4]
    assert min(grid["ratio"]) > 0.0
    tested = {method: [15.0, 16.0, 17.0, 15.0, 16.0] for method in benchmarks._TITLES}
    found = Results([{"stage": "test", "set": "heart", **tested}])
    rows = {row.what: row for row in benchmarks._rows(found)}
    assert rows["heart, RMM"].verdict == "agrees"
    assert rows["heart: RMM below SVM"].verdict == "not confirmed"
    assert rows["banana, RMM"].verdict == "not run"


def test_runtime_cell_reports_times(fake_digits):
    found = runtime._cell(fake_digits, rng(), n=300, repetition=0)
    assert all(found[name] > 0 for name in ("svm", "B1", "B2", "B3"))
    assert found["theta"] > 1.0


def test_growth_exponent():
    cells = [{"n": n, "svm": 1e-6 * n**2.0} for n in (100, 200, 400)]
    assert runtime._slope(Results(cells), "svm") == pytest.approx(2.0)


@pytest.mark.parametrize("model", [_distributions.ODM(C=5.0), _distributions.LDM(C=2.0)])
def test_rivals_are_optimal(model):
    cp = pytest.importorskip("cvxpy")
    X, y = load_digits(n_class=2, return_X_y=True)
    X, y, n = X[:40] / 16.0, y[:40], 40
    sign, K = 2.0 * y - 1.0, model.set_params(gamma=0.3).fit(X, y)._kernel(X)
    w, root = cp.Variable(n), np.linalg.cholesky(K + 1e-10 * np.eye(n))

    def objective(m, norm, total, square, positive):
        if isinstance(model, _distributions.ODM):
            C, low = model.C / (1 - model.theta) ** 2, positive(1 - model.theta - m)
            return norm / 2 + C * (
                square(low) + model.upsilon * square(positive(m - 1 - model.theta))
            )
        variance = square(m - total(m) / n) / n
        hinge = model.C * total(positive(1 - m))
        return norm / 2 + 2 * model.lambda1 * variance - model.lambda2 * total(m) / n + hinge

    there = objective(
        cp.multiply(sign, root @ w), cp.sum_squares(w), cp.sum, cp.sum_squares, cp.pos
    )
    best = cp.Problem(cp.Minimize(there)).solve(solver=cp.CLARABEL)
    f = K @ model.coef_
    ours = objective(sign * f, model.coef_ @ f, np.sum, lambda v: v @ v, lambda v: np.maximum(v, 0))
    np.testing.assert_allclose(ours, best, rtol=1e-6)
    assert abs(model.dual_gap_) < 1e-8


@pytest.mark.parametrize("model", [_distributions.ODM(gamma=0.3), _distributions.LDM(gamma=0.3)])
def test_pairs_of_the_rivals_vote_as_those_of_scikit_learn(model):
    X, y = load_digits(n_class=5, return_X_y=True)
    X, T, y = X[:150] / 16.0, X[150:] / 16.0, y[:150]
    ours = _distributions.Pairs(model).fit(X, y)
    np.testing.assert_array_equal(ours.predict(T), OneVsOneClassifier(model).fit(X, y).predict(T))
    assert abs(ours.dual_gap_) < 1e-8


def test_coordinates_of_texts_keep_their_distances():
    A, B = (sp.random(n, 40, 0.2, format="csr", random_state=n) for n in (8, 15))
    # A row that occurs twice adds no dimension.
    A = sp.vstack([A, A[7]], format="csr")
    a, b = rivals._coordinates(A, B)
    assert a.shape == (9, 9)
    for M, m in ((A, a), (B, b)):
        np.testing.assert_allclose(cdist(m, a), cdist(M.toarray(), A.toarray()), atol=1e-7)


def test_sets_of_words_are_weighted_by_the_training_rows_alone():
    A = sp.csr_matrix([[1.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
    a, b = rivals._weighted(A, sp.csr_matrix([[1.0, 0.0, 1.0]]))
    np.testing.assert_allclose(np.linalg.norm(a.toarray(), axis=1), 1.0)
    assert a[0, 1] > a[0, 0]
    assert b[0, 2] > b[0, 0]
    counts, _ = rivals._weighted(2.0 * A, A)
    np.testing.assert_allclose(counts[0].toarray()[0], [0.5**0.5, 0.5**0.5, 0.0])


def test_rivals_have_as_many_candidates_each():
    found = {m: rivals._grid(m) for m in ("svm", *rivals._TITLES) if m != "trees"}
    numbers = {method: np.prod([len(v) for v in grid.values()]) for method, grid in found.items()}
    assert set(numbers.values()) == {60}
    for method, grid in found.items():
        own = grid.get("C", grid.get("alpha"))
        for values, beyond in ((own, rivals._BEYOND[method]), (grid["width"], (1 / 2048, 128.0))):
            assert min(beyond) < min(values) < max(values) < max(beyond)


def test_choices_of_the_rivals_at_the_ends_of_their_grids_are_known():
    chosen = {"svm": {"width": 0.125, "C": 1.0}, "kfda": {"width": 0.5, "alpha": 1000.0}}
    cell = {"widths": [0.125, 0.5, 2.0], "chosen": chosen, "validation": {"svm": 9.0, "kfda": 8.0}}
    found = list(rivals._choices(Results([cell])))
    assert [choice.edge for choice in found] == ["smallest", "", "", "largest"]
    assert [choice.further for choice in found] == [[1 / 2048, 1 / 512], [], [], [1e4, 1e5]]
    # No wider grid has fewer errors than none.
    again = {**cell, "validation": {"svm": 0.0, "kfda": 8.0}}
    ends = [choice.edge for choice in rivals._choices(Results([again]))]
    assert ends == ["natural", "", "", "largest"]


def test_rivals_keep_a_choice_that_no_further_value_improves(monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((90, 2)), np.arange(90) % 2
    X[:, 0] += 2.0 * y
    parts = (X[:60], X[60:], y[:60], y[60:], X[:60], X[60:])
    monkeypatch.setattr(rivals, "_drawn", lambda sets, name, rng: parts)
    options = {"set": "any", "split": 0, "folds": 3, "widths": [0.125, 2.0]}

    def run(**more):
        return rivals._cell(None, np.random.default_rng(1), **options, **more)

    first = run()
    assert first["validation"].keys() == first["chosen"].keys() == {"svm", *rivals._TITLES}
    # So flat a kernel tells nothing apart, while one more penalty may.
    flat = run(further={"rmm": {"width": [1e-12]}}, before=first)
    assert flat == {key: first[key] for key in ("chosen", "validation")}
    further = {"svm": {"width": [0.5]}, "odm": {"C": [1e4]}}
    again = run(further=further, before=first)
    for method in further:
        better = again["validation"][method] < first["validation"][method]
        assert better == (method in again)
        assert better or again["chosen"][method] == first["chosen"][method]
