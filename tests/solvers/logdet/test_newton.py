"""Newton systems of the interior point method."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oblong.solvers.logdet.newton import DualSystem, PrimalSystem
from tests.solvers.esvm.problems import states


@given(seed=st.integers(0, 10**6), primal=st.booleans())
@settings(max_examples=20)
def test_a_newton_step_solves_the_linear_system(seed, primal):
    n, p = 14, 3
    state = states(seed, n, p)[0]
    room, ball = state.caps - state.alpha, 1.0 - state.w @ state.w
    diagonal = state.s / state.alpha + state.u / room
    system = (PrimalSystem if primal else DualSystem)(state, diagonal, ball)
    assert system.good
    rng = np.random.default_rng(seed)
    right, pull, missing = rng.normal(size=n), rng.normal(size=p), float(rng.normal())
    delta, dw, db = system.solve(right, pull, missing)
    Q = state.Z.T @ state.Z
    bend = 2.0 * state.gamma * (np.eye(p) + 2.0 / ball * np.outer(state.w, state.w))
    left = Q**2 @ delta / state.r + diagonal * delta + state.signed @ dw + state.y * db
    np.testing.assert_allclose(left, right, atol=1e-8)
    np.testing.assert_allclose(bend @ dw - state.signed.T @ delta, pull, atol=1e-8)
    assert -state.y @ delta == pytest.approx(missing, abs=1e-8)
