"""Blank arrays, and decisions without learning."""

from __future__ import annotations

import numpy as np
import pytest
from numba.core.extending import _Intrinsic

from oblong import AROWClassifier
from oblong.solvers.online import instructions, simd
from oblong.solvers.online.arrays import initial_columns
from oblong.solvers.online.passes.predict import decide_rows
from oblong.solvers.online.rows import Rows
from oblong.solvers.online.slots import DIAGONAL, FULL, SKETCH


@pytest.mark.parametrize(("structure", "columns"), [(FULL, 1), (DIAGONAL, 2), (SKETCH, 3)])
def test_a_blank_model_has_zero_weights_and_the_initial_variance(structure, columns):
    values = initial_columns(structure, 4.0)
    assert len(values) == columns
    assert values[0] == 0.0
    assert values[1:] == [4.0, 0.25][: columns - 1]


@pytest.mark.parametrize("classes", [2, 3])
def test_decisions_without_learning_are_those_of_the_model(classes):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    y = np.digitize(X[:, 0] + 0.1 * X[:, 1], np.linspace(-0.5, 0.5, classes - 1))
    state = AROWClassifier(covariance="diag").fit(X, y)._state
    found = np.empty((60, state.n_outputs))
    numbers = (state.scale, state.settings, state.codes, state.units)
    decide_rows(*Rows.of(X)[:4], state.table[:5], *numbers, found)
    np.testing.assert_allclose(found, state.scores(X), rtol=1e-9, atol=1e-12)


def test_every_instruction_has_a_plain_stand_in():
    made = {name for name, value in vars(instructions).items() if isinstance(value, _Intrinsic)}
    assert made
    assert made <= vars(simd).keys()
