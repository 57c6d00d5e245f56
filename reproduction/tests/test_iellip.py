"""Experiments of the ellipsoid method: the rival learner, and rows from results."""

from __future__ import annotations

import numpy as np
import pytest

from oblong import ImprovedEllipsoidClassifier
from oblong_reproduction import Cell, Results
from oblong_reproduction.iellip import EXPERIMENTS, _runs
from oblong_reproduction.iellip._mira import Mira, _steps
from oblong_reproduction.iellip.comparison import FIGURE_1
from oblong_reproduction.iellip.memory import FIGURE_2


@pytest.mark.parametrize("seed", range(20))
def test_steps_of_mira_solve_its_problem(seed):
    cp = pytest.importorskip("cvxpy")
    rng = np.random.default_rng(seed)
    n_classes = int(rng.integers(2, 7))
    label = int(rng.integers(n_classes))
    W = rng.standard_normal((n_classes, 3)) * rng.choice([0.1, 1.0, 3.0])
    x, margin = rng.standard_normal(3), 0.1
    wrong = np.arange(n_classes) != label
    tau = cp.Variable(n_classes)
    square = float(x @ x)
    new = cp.sum_squares(np.sqrt(square) * tau + W @ x / np.sqrt(square))
    problem = cp.Problem(
        cp.Minimize(0.5 * new + margin * tau @ wrong), [tau <= ~wrong, cp.sum(tau) == 0]
    )
    problem.solve(solver="CLARABEL")
    model = Mira(n_classes, 3, margin)
    model.coef_ = W.copy()
    model.partial_fit(x[None], np.array([label]))
    expected = W + np.outer(tau.value, x)
    np.testing.assert_allclose(model.coef_, expected, atol=2e-4)


def test_steps_sum_to_zero_and_keep_their_bounds():
    rng = np.random.default_rng(0)
    for _ in range(200):
        B = rng.standard_normal(5) * 3.0
        step = _steps(B, 2)
        assert step.sum() == pytest.approx(0.0, abs=1e-12)
        assert step[2] <= 1.0 + 1e-12
        assert np.delete(step, 2).max() <= 0.0


def test_mira_with_enough_margin_does_not_change():
    model = Mira(2, 2, margin=0.1)
    model.coef_ = np.array([[1.0, 0.0], [-1.0, 0.0]])
    model.partial_fit(np.array([[1.0, 0.0], [0.0, 0.0]]), np.array([0, 1]))
    assert model.n_updates_ == 0


def test_cost_of_passive_learner_is_for_the_small_margin():
    # With the margin 0.1 the step is min(C, (0.1 - m) / |z|²) with |z|² = 2 |x|².
    X, y = np.array([[0.6, 0.8]]), np.array([1])
    for C, step in ((None, 0.1 / 4.0), (1.0, 0.1 / 4.0), (0.01, 0.01)):
        model = _runs.passive(C).partial_fit(X, y, classes=[0, 1, 2])
        # The constant feature counts: |x|² = 2.
        np.testing.assert_allclose(model.coef_[1] * _runs.MARGIN, step * X[0], rtol=1e-12)


class _Numbers:
    """Stands in for the sets."""

    def __init__(self, name, rows=60):
        rng = np.random.default_rng(1)
        n_features, n_classes = {"isolet": (617, 26), "letter": (16, 26)}.get(name, (9, 4))
        y = np.arange(rows * n_classes) % n_classes
        centres = rng.standard_normal((n_classes, n_features)) * 3.0
        self.X = centres[y] + rng.standard_normal((len(y), n_features))
        self.y = y
        self.X_test, self.y_test = (None, None) if name == "letter" else (1.1 * self.X[:50], y[:50])


class _Sets:
    def load(self, name):
        return _Numbers(name)


@pytest.mark.parametrize("name", ["isolet", "letter", "shuttle"])
def test_prepared_rows_have_unit_length_and_do_not_overlap(name):
    X, y, X_test, y_test = _runs.prepared(_Sets(), np.random.default_rng(0), name)
    np.testing.assert_allclose(np.linalg.norm(X, axis=1), 1.0)
    np.testing.assert_allclose(np.linalg.norm(X_test, axis=1), 1.0)
    if name == "isolet":
        assert X.shape[1] == 200
        assert set(y) == set(range(10))
    if name != "shuttle":
        assert len(y) == pytest.approx(4 * len(y_test), rel=0.05)
        rows = {row.tobytes() for row in X}
        assert not any(row.tobytes() in rows for row in X_test)


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda e: e.name)
def test_cells_run_and_become_rows(experiment):
    cells = [cell for cell in experiment.cells(True) if cell.parameters["set"] == "shuttle"]
    found = Results({**cell.parameters, **_run(cell, experiment.name, rows=60)} for cell in cells)
    rows = list(experiment.rows(found))
    judged = [row for row in rows if row.what.startswith("Shuttle")]
    assert len(judged) >= 4
    # Two permutations decide nothing.
    assert all(row.verdict == "too few runs" for row in judged)
    assert sum(row.verdict == "not run" for row in rows) == 3
    assert experiment.draw(found) is not None


def _run(cell: Cell, name: str, **changed):
    return cell.run(_Sets(), cell.generator(name, 0), **{**cell.parameters, **changed})


def test_same_numbers_for_the_same_seed():
    cell = FIGURE_1.cells(True)[-1]
    assert _run(cell, "iellip-fig1", rows=60) == _run(cell, "iellip-fig1", rows=60)


def test_the_cost_is_chosen_on_held_out_rows_and_not_on_the_test():
    run = {"error": [9.0, 9.0, 9.0], "updates": [5, 6, 7], "last": 9.0}
    best = {"error": [9.0, 9.0, 1.0], "updates": [1, 2, 3], "last": 1.0}
    mira = {"error": [5.0, 5.0, 5.0], "updates": [9, 9, 9], "last": 5.0}
    cell = {"set": "usps", "iellip": best, "iellip-mistakes": run, "mira": mira, "pa": [run, best]}
    joint = {"set": "usps", "iellip-joint": best}

    def judged(choice):
        cells = [{**cell, "permutation": i, "pa_choice": choice} for i in range(5)]
        cells += [{**joint, "permutation": i} for i in range(5)]
        return {row.what: row for row in FIGURE_1.rows(Results(cells))}

    what = "USPS, IELLIP: mean test error of the third pass, not above that of "
    assert judged([3.0, 2.0])[f"{what}PA"].verdict == "agrees: no difference"
    # The held-out rows prefer the cost with more test errors.
    assert judged([2.0, 3.0])[f"{what}PA"].verdict == "confirmed"
    assert judged([2.0, 3.0])[f"{what}MIRA"].verdict == "confirmed"
    one = "USPS, IELLIP, one matrix: mean test error of the third pass, not above that of "
    assert judged([2.0, 3.0])[f"{one}MIRA"].verdict == "confirmed"
    mistakes = "USPS, IELLIP, mistakes only: mean test error of the third pass, not above that of "
    assert judged([3.0, 2.0])[f"{mistakes}MIRA"].verdict == "contradicted"


def test_one_matrix_for_two_classes_is_the_binary_learner():
    # With two classes z is x in one place and -x in the other: both halves of the weights mirror.
    rng = np.random.default_rng(4)
    X = np.hstack([rng.standard_normal((60, 3)), np.ones((60, 1))])
    y = (X[:, 0] > 0.3).astype(int)
    ours = _runs.Joint(2, 4, 0.6, 0.3).partial_fit(X, y)
    Z = np.hstack([-X, X]) * (2 * y - 1)[:, None]
    model = ImprovedEllipsoidClassifier(gamma=_runs.MARGIN, b=0.6, c=0.3, fit_intercept=False)
    model.partial_fit(Z, np.ones(60, dtype=int), classes=[0, 1])
    np.testing.assert_allclose(ours._weights.ravel(), model.coef_[0], rtol=1e-9, atol=1e-12)
    assert ours.n_updates_ == model.n_updates_
    np.testing.assert_array_equal(ours.predict(X), (Z * (2 * y - 1)[:, None]) @ model.coef_[0] > 0)


def test_held_out_rows_are_training_rows_that_are_not_learned_from():
    X, y = np.arange(50.0)[:, None], np.arange(50) % 3
    kept, _, held, labels = _runs.held_out(np.random.default_rng(0), (X, y, -X, -y))
    assert sorted([*kept[:, 0], *held[:, 0]]) == list(X[:, 0])
    assert len(held) == 10
    np.testing.assert_array_equal(labels, held[:, 0] % 3)


def test_without_results_nothing_is_judged():
    for experiment in (FIGURE_1, FIGURE_2):
        assert {row.verdict for row in experiment.rows(Results([]))} == {"not run"}
        assert experiment.draw(Results([])) is None
