"""Learning block by block is learning row by row, up to rounding."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import ndtri

from oblong.solvers.online.options import OnlineOptions, suits_blocks
from oblong.solvers.online.passes import blocks
from oblong.solvers.online.passes.blocks import learn_blocks
from oblong.solvers.online.passes.general import learn_rows
from oblong.solvers.online.rows import Rows
from oblong.solvers.online.rules import (
    MISTAKE,
    arow,
    classical_ellipsoid,
    confidence_weighted,
    improved_ellipsoid,
    normal_herd,
    second_order_perceptron,
    soft_confidence_weighted,
)
from oblong.solvers.online.slots import (
    EACH,
    FULL,
    MEMORY,
    NOTHING,
    RANK,
    RESCALED,
    SINGLE,
    TOP,
    UNIT_OF_COVARIANCE,
    Batch,
)
from oblong.solvers.online.state import OnlineState

PHI = float(ndtri(0.9))
D = 30
RULES = {
    "AROW": arow(0.7),
    "SOP": second_order_perceptron(),
    "NHERD": normal_herd(0.4),
    "CW-Stdev": confidence_weighted(PHI, floor=1e-12),
    "CW-Var": confidence_weighted(PHI, of_variance=True),
    "SCW-I": soft_confidence_weighted(PHI, 0.2),
    "SCW-II": soft_confidence_weighted(PHI, 0.2, squared=True),
    "CELLIP": classical_ellipsoid(0.1, D + 1, limit=0.1),
    "CELLIP-minvol": classical_ellipsoid(0.1, D + 1, limit=MISTAKE, smallest=True),
    "IELLIP": improved_ellipsoid(0.1, 0.1, 0.3, limit=0.1),
    "IELLIP-b1": improved_ellipsoid(0.1, 0.05, 1.0, limit=0.1),
}
TASKS = {"single": (SINGLE, 2), "top": (TOP, 4), "kbest": (TOP, 4), "each": (EACH, 3)}


def stream(classes, n=400, d=D, seed=0, noise=0.3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) / np.sqrt(d)
    outputs = X @ rng.normal(size=(d, classes)) + noise * rng.normal(size=(n, classes)) / 3
    return X, outputs.argmax(axis=1).astype(np.int32)[:, None]


def model(rule, task="single", d=D, **options):
    kind, classes = TASKS[task]
    return OnlineState.initial(
        rule,
        d,
        1 if kind == SINGLE else classes,
        structure=FULL,
        task=kind,
        steps=3 if task == "kbest" else 1,
        **options,
    )


def by_rows(state, rows, labels, weights, order):
    """The general pass, which knows nothing of blocks."""
    batch = Batch(rows.data, rows.indices, rows.indptr, order, labels, weights, rows.dense)
    learn_rows(*batch, *state.model, NOTHING)


def assert_same(a, b, tol=1e-11):
    # Rounds, updates, mistakes, skipped, resets.
    np.testing.assert_array_equal(a.counters[:RESCALED], b.counters[:RESCALED])
    free = a.invariance == UNIT_OF_COVARIANCE
    unit = 1.0 if free else 2.0 ** (a.exponent - b.exponent)
    pairs = [(a.table, b.table * unit), (a.total, b.total * unit)]
    shapes = [model.covariance * model.sigma[:, None, None] for model in (a, b)]
    # The unit of a shape that may have any is that of its largest entry.
    units = [S.max(initial=1e-300) if free else 1.0 for S in shapes]
    pairs.append((shapes[0] / units[0], shapes[1] / units[1] * unit**2))
    for one, other in pairs:
        np.testing.assert_allclose(one, other, rtol=tol, atol=tol * np.abs(one).max(initial=0.0))
    np.testing.assert_allclose(a.scale[:, MEMORY], b.scale[:, MEMORY], rtol=1e-12)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", RULES)
def test_blocks_are_rows(name, task):
    X, labels = stream(TASKS[task][1])
    one, other = (model(RULES[name], task, average=True) for _ in range(2))
    order, weights = np.arange(len(X)), np.ones(len(X))
    by_rows(one, Rows.of(X), labels, weights, order)
    learn_blocks(other, Rows.of(X), labels, weights, order)
    assert one.updates > 20
    assert_same(one, other)
    assert np.array_equal(other.covariance, other.covariance.transpose(0, 2, 1))
    assert (weights == 1.0).all()


@pytest.mark.parametrize("name", ["AROW", "NHERD", "SCW-I", "SCW-II"])
@pytest.mark.parametrize("task", ["single", "kbest", "each"])
def test_weights_and_order(name, task):
    X, labels = stream(TASKS[task][1], n=200)
    rng = np.random.default_rng(1)
    weights = rng.choice([0.0, 0.5, 1.0, 2.0, 3.7], 200)
    order = rng.permutation(200)[:150]
    one, other = (model(RULES[name], task, average=True) for _ in range(2))
    by_rows(one, Rows.of(X), labels, weights, order)
    learn_blocks(other, Rows.of(X), labels, weights, order)
    assert_same(one, other)


@pytest.mark.parametrize("task", ["single", "each"])
def test_sparse_rows_and_single_precision(task):
    X, labels = stream(TASKS[task][1])
    X[np.random.default_rng(0).random(X.shape) < 0.7] = 0.0
    order, weights = np.arange(len(X)), np.ones(len(X))
    one, other = (model(RULES["AROW"], task) for _ in range(2))
    learn_blocks(one, Rows.of(X), labels, weights, order)
    learn_blocks(other, Rows.of(sp.csr_matrix(X)), labels, weights, order)
    assert_same(one, other)
    single = model(RULES["AROW"], task, dtype=np.float32)
    learn_blocks(single, Rows.of(X.astype(np.float32)), labels, weights, order)
    assert single.table.dtype == np.float32
    np.testing.assert_allclose(single.table, one.table, rtol=1e-3, atol=1e-4)


def test_label_sets():
    X, _ = stream(2)
    labels = (X @ np.random.default_rng(3).normal(size=(D, 4)) > 0).astype(np.int32)
    order, weights = np.arange(len(X)), np.ones(len(X))
    for task, outputs in ((EACH, 4), (RANK, 5)):
        one, other = (
            OnlineState.initial(RULES["IELLIP-b1"], D, outputs, structure=FULL, task=task)
            for _ in range(2)
        )
        by_rows(one, Rows.of(X), labels, weights, order)
        learn_blocks(other, Rows.of(X), labels, weights, order)
        assert_same(one, other)


def noise(n=600, d=5):
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, d)), rng.integers(0, 2, (n, 1)).astype(np.int32)


def test_resets_of_the_ellipsoid():
    """Noise leaves nothing of the ellipsoid now and then."""
    X, labels = noise()
    one, other = (model(RULES["CELLIP"], d=5) for _ in range(2))
    order, weights = np.arange(len(X)), np.ones(len(X))
    by_rows(one, Rows.of(X), labels, weights, order)
    learn_blocks(other, Rows.of(X), labels, weights, order)
    assert one.health.resets > 3
    assert_same(one, other, 1e-9)


def test_the_unit_changes_between_blocks():
    """Hard rules shrink the shape on noise without end."""
    X, labels = noise(3000)
    state = model(RULES["CW-Stdev"], d=5)
    learn_blocks(state, Rows.of(X), labels, np.ones(3000), np.arange(3000))
    assert state.health.rescaled > 2
    assert np.isfinite(state.table).all()
    assert (np.linalg.eigvalsh(state.covariance[0, :6, :6]) > 0).all()


def test_few_updates_make_long_blocks(monkeypatch):
    """Once few rows matter, a block looks at many of them."""
    X, labels = stream(2, n=3000, noise=0.0)
    state = model(RULES["SOP"])
    other = state.copy()
    seen = []
    real = blocks.replay

    def watched(*arguments):
        row, count = real(*arguments)
        seen.append((row, count))
        return row, count

    monkeypatch.setattr(blocks, "replay", watched)
    learn_blocks(state, Rows.of(X), labels, np.ones(3000), np.arange(3000))
    by_rows(other, Rows.of(X), labels, np.ones(3000), np.arange(3000))
    assert_same(other, state)
    assert len(seen) < state.updates
    assert max(row for row, _ in seen) > 150


def test_large_covariances_learn_in_blocks():
    d = 370
    X, labels = stream(2, n=60, d=d)
    state, other = model(RULES["AROW"], d=d), model(RULES["AROW"], d=d)
    assert suits_blocks(state, 60)
    assert not suits_blocks(state, 1)
    assert not suits_blocks(model(RULES["AROW"]), 60)
    assert not suits_blocks(model(RULES["AROW"], "top", d=d), 60)
    assert suits_blocks(model(RULES["AROW"], "each", d=170), 60)
    assert not suits_blocks(model(RULES["AROW"], d=170), 60)
    assert suits_blocks(model(RULES["AROW"], d=170), 60, OnlineOptions(block_features=100))
    state.learn(Rows.of(X), labels, np.ones(60))
    by_rows(other, Rows.of(X), labels, np.ones(60), np.arange(60))
    assert_same(other, state)
    # Room for features that have not occurred stays empty.
    assert not state.covariance[0, d + 1 :].any()
