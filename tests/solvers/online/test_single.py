"""The passes for two classes do what the pass for any number of classes does."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from oblong.solvers.online.growth import grow
from oblong.solvers.online.passes.one_row import moderate
from oblong.solvers.online.passes.two_classes import learn_full, learn_table
from oblong.solvers.online.rows import Rows
from oblong.solvers.online.rules import passive_aggressive
from oblong.solvers.online.slots import DIAGONAL, FULL, NONE, RESETS, SINGLE
from oblong.solvers.online.state import OnlineState
from tests.solvers.online.test_blocks import RULES, D, assert_same, by_rows, noise, stream

CASES = [(name, structure) for name in RULES for structure in (FULL, DIAGONAL)]
HIGH_FLOOR = RULES["CW-Stdev"]._replace(floor=1e-3)


def model(rule, structure, d=D, **options):
    return OnlineState.initial(rule, d, 1, structure=structure, task=SINGLE, **options)


def both(rule, structure, X, labels, weights=None, tol=1e-11, **options):
    rows = Rows.of(X)
    weights = np.ones(X.shape[0]) if weights is None else weights
    one, other = (model(rule, structure, X.shape[1], **options) for _ in range(2))
    by_rows(one, rows, labels, weights, np.arange(X.shape[0]))
    assert other.one_pass is (learn_full if structure == FULL else learn_table)
    other.learn(rows, labels, weights)
    assert one.updates > 0
    assert_same(one, other, tol)
    assert one.health == other.health
    if structure == FULL:
        assert np.array_equal(other.covariance[0], other.covariance[0].T)
    return other


@pytest.mark.parametrize(("name", "structure"), CASES)
@pytest.mark.parametrize("sparse", [False, True])
def test_same_as_the_general_pass(name, structure, sparse):
    X, labels = stream(2)
    if sparse:
        X[np.random.default_rng(0).random(X.shape) < 0.6] = 0.0
        X = sp.csr_matrix(X)
    both(RULES[name], structure, X, labels, average=True)


@pytest.mark.parametrize("sparse", [False, True])
def test_without_a_shape(sparse):
    X, labels = stream(2)
    X = sp.csr_matrix(X) if sparse else X
    for rule in (passive_aggressive(), passive_aggressive(cap=0.3), passive_aggressive(ridge=2.0)):
        both(rule, NONE, X, labels, average=True)


@pytest.mark.parametrize("structure", [FULL, DIAGONAL, NONE])
def test_weights(structure):
    X, labels = stream(2, n=150)
    weights = np.random.default_rng(1).choice([0.0, 0.5, 1.0, 2.0, 3.7], 150)
    rule = passive_aggressive(ridge=2.0) if structure == NONE else RULES["AROW"]
    both(rule, structure, X, labels, weights, average=True)


def test_floor_is_counted():
    state = both(HIGH_FLOOR, DIAGONAL, *noise(400), tol=1e-9)
    assert state.health.floored > 0
    assert state.table[:, 1].min() == 1e-3


@pytest.mark.parametrize("structure", [FULL, DIAGONAL])
def test_resets(structure):
    X, labels = noise()
    state = both(RULES["CELLIP"], structure, X, labels, tol=1e-9)
    assert state.health.resets > 3


@pytest.mark.parametrize("d", [1, 2, 6, 7, 8, 23, 50])
def test_any_number_of_features(d):
    X, labels = stream(2, d=d)
    state = both(RULES["AROW"], FULL, X * 3.0, labels)
    # The columns beyond those of the features are there for whole vectors only.
    assert state.covariance.shape[1] % 8 == 0
    assert not state.covariance[0, d + 1 :].any()
    # The precision is the sum of what all updates added to it.
    S = state.covariance[0, : d + 1, : d + 1]
    assert np.linalg.eigvalsh(S).min() > 0


def test_a_full_covariance_by_its_definition():
    """AROW with numpy alone."""
    X, labels = stream(2, d=9)
    state = model(RULES["AROW"], FULL, 9)
    state.learn(Rows.of(X), labels, np.ones(len(X)))
    w, S, r = np.zeros(10), np.eye(10), RULES["AROW"].parameters[0]
    for x, label in zip(np.column_stack([np.ones(len(X)), X]), labels[:, 0]):
        y = 2 * label - 1
        m = y * (w @ x)
        if m < 1:
            s = S @ x
            w += (1 - m) / (x @ s + r) * y * s
            S -= np.outer(s, s) / (x @ s + r)
    np.testing.assert_allclose(state.table[:10, 0], w, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(state.covariance[0, :10, :10], S, rtol=1e-10, atol=1e-12)


def test_chunks_are_one_stream():
    """An update that waits at the end of a call is not lost."""
    X, labels = stream(2)
    for structure in (FULL, DIAGONAL):
        one, other = model(RULES["AROW"], structure), model(RULES["AROW"], structure)
        one.learn(Rows.of(X), labels, np.ones(len(X)))
        for start in range(0, len(X), 7):
            part = slice(start, start + 7)
            other.learn(Rows.of(X[part]), labels[part], np.ones(len(labels[part])))
        assert_same(one, other, 1e-13)


def test_features_that_appear():
    """Features that come into the room of a full shape have their variance, and no other."""
    X, labels = stream(2, d=12)
    late = X.copy()
    late[:200, 5:] = 0.0
    whole, grown = model(RULES["CW-Stdev"], FULL, 12), model(RULES["CW-Stdev"], FULL, 5)
    whole.learn(Rows.of(late), labels, np.ones(400))
    grown.learn(Rows.of(late[:200, :5].copy()), labels[:200], np.ones(200))
    for d in (6, 9, 12):
        grow(grown, d)
    grown.learn(Rows.of(late[200:]), labels[200:], np.ones(200))
    np.testing.assert_allclose(
        whole.weights() / 2.0**whole.exponent, grown.weights() / 2.0**grown.exponent, rtol=1e-8
    )
    np.testing.assert_array_equal(whole.counters[:RESETS], grown.counters[:RESETS])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e200])
def test_one_vector_that_is_not_moderate_is_left_to_the_caller(value):
    """Compiled code assumes that there is no NaN, and must still tell."""
    x = np.linspace(-1.0, 1.0, 7)
    assert moderate(x)
    assert moderate(np.array([0.0, -0.0, 5e-324, 1e140]))
    x[4] = value
    assert not moderate(x)
