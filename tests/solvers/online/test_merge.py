"""Models put together, and models in the feature space of a kernel."""

from __future__ import annotations

import numpy as np
import pytest

from oblong.kernels import Kernel
from oblong.solvers.online.kernel import KernelState
from oblong.solvers.online.merge import merge_states
from oblong.solvers.online.passes import blocks
from oblong.solvers.online.rows import Rows
from oblong.solvers.online.rules import arow
from oblong.solvers.online.slots import DIAGONAL, EACH, FULL, NONE, SINGLE
from oblong.solvers.online.state import OnlineState


def shards(structure, n=120):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4))
    labels = (X[:, :1] > 0.2).astype(np.int32)
    prior = OnlineState.initial(arow(1.0), 4, 1, structure=structure, task=SINGLE)
    states = []
    for part in (slice(0, 40), slice(40, n)):
        state = prior.copy()
        state.learn(Rows.of(X[part].copy()), labels[part], np.ones(len(X[part])))
        states.append(state)
    return prior, states


@pytest.mark.parametrize("product", [True, False])
@pytest.mark.parametrize("structure", [DIAGONAL, FULL])
def test_natural_parameters_add_up(structure, product):
    prior, states = shards(structure)
    merged = merge_states(states, prior=prior, product=product)

    def natural(state):
        S = state.matrices()[0] if structure == FULL else np.diag(state.diagonal()[:, 0])
        precision = np.linalg.inv(S)
        return np.column_stack([precision, precision @ state.weights()[:, 0]])

    one, two = map(natural, states)
    wanted = one + two - natural(prior) if product else one / 3 + 2 * two / 3
    np.testing.assert_allclose(natural(merged), wanted, rtol=1e-8, atol=1e-9)
    assert merged.rounds == 120
    assert merged.updates == states[0].updates + states[1].updates


def test_weights_without_a_covariance_are_averaged():
    prior, states = shards(NONE)
    merged = merge_states(states, prior=prior, product=True)
    wanted = states[0].weights() / 3 + 2 * states[1].weights() / 3
    np.testing.assert_allclose(merged.weights(), wanted)


def test_a_linear_kernel_is_the_linear_learner():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(80, 5))
    labels = (X[:, :1] + 0.3 * rng.normal(size=(80, 1)) > 0).astype(np.int32)
    linear = OnlineState.initial(arow(1.0), 5, 1, structure=FULL, task=SINGLE)
    linear.learn(Rows.of(X), labels, np.ones(80))
    inner = OnlineState.initial(arow(1.0), 0, 1, structure=FULL, task=SINGLE)
    state = KernelState.initial(inner, Kernel("linear"), 100, 1e-12)
    state.learn(Rows.of(X), labels, np.ones(80))
    assert state.size == 5
    assert (state.updates, state.mistakes) == (linear.updates, linear.mistakes)
    np.testing.assert_allclose(state.scores(X), linear.scores(X), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(state.variances(X), linear.variances(X), rtol=1e-7)
    np.testing.assert_allclose(
        state.dual_coef()[0] @ state.dictionary, linear.weights()[1:, 0], rtol=1e-7, atol=1e-9
    )


def test_lines_of_a_block_go_to_the_updates_to_expect():
    """A row gets a line for each class whose margin is below the limit of the rule."""
    state = OnlineState.initial(arow(1.0), 2, 3, structure=FULL, task=EACH)
    scores = np.array([[2.0, 0.0, -2.0], [2.0, -2.0, -2.0], [0.5, -1.2, 0.0]])
    labels, slots = np.zeros((3, 1), dtype=np.int32), np.empty((3, 3), dtype=np.int64)
    progress = np.zeros(blocks.N_PROGRESS, dtype=np.int64)

    def lines(slack, weights):
        return blocks.expect(
            labels, weights, scores, slots, np.zeros(3), progress, np.zeros(3), slack, state.model
        )

    assert lines(0.0, np.ones(3)) == 3
    np.testing.assert_array_equal(slots, [[-1, -1, 0], [1, -1, -1], [-1, -1, 2]])
    assert lines(0.5, np.ones(3)) == 4
    assert lines(10.0, np.ones(3)) == 9
    assert lines(10.0, np.array([0.0, 1.0, 1.0])) == 6
