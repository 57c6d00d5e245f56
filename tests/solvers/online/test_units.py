"""Units of features and forgetting, function by function."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from oblong.solvers.online.forgetting import hold
from oblong.solvers.online.slots import SIGMA
from oblong.solvers.online.units import divided, fits


def test_rows_in_units():
    # The first unit is that of the bias.
    units, scaled, none = np.array([1.0, 2.0, 4.0, 0.0]), np.empty(2), np.array([], dtype=int)
    for values, fine in (([-2.0, 0.5], True), ([-2.5, 0.5], False), ([2.0, 4.5], False)):
        values = np.array(values)
        assert fits(np.array([0, 1]), values, units, scaled, none) == fine
        np.testing.assert_array_equal(scaled, values / [2.0, 4.0])
    # A feature that has none yet.
    assert not fits(np.array([2]), np.array([1e-9]), units, scaled, none)
    units = units[:3]
    X = np.array([[2.0, 0.0], [0.0, 8.0]])
    np.testing.assert_array_equal(divided(X, units), [[1.0, 0.0], [0.0, 2.0]])
    np.testing.assert_array_equal(divided(sp.csr_matrix(X), units).toarray(), divided(X, units))


@pytest.mark.parametrize("sigma", [1.0, 4.0])
def test_variances_are_held_at_their_initial_value(sigma):
    scale = np.ones((1, SIGMA + 1))
    scale[0, SIGMA] = sigma
    # A weight and a variance for the bias and each of two features.
    table = np.array([[0.0, 3.0], [0.0, 0.5 / sigma], [0.0, 9.0]])
    hold(np.array([0]), table, scale, 0, 1.0)
    assert table[0, 1] == pytest.approx(1.0 / sigma)
    assert table[1, 1] == 0.5 / sigma
    # The second feature is not in the row, and waits until it is.
    assert table[2, 1] == 9.0
