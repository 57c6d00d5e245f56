"""The iterate of the interior point method."""

from __future__ import annotations

import numpy as np
import pytest

from tests.solvers.esvm.problems import states


def test_direction_that_follows_v_stays_inside_the_ball():
    state = states(2, 40, 3)[0]
    for level in (1e-15, 1e-3, 10.0):
        state.slide(level)
        np.testing.assert_allclose(2.0 * state.gamma * state.w, state.v, rtol=1e-12)
        assert 1.0 - state.w @ state.w > 0.0
    assert state.gamma * (1.0 - state.w @ state.w) == pytest.approx(10.0)
