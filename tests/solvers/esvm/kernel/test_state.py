"""The kernel form of the interior point method takes the steps of the explicit one."""

from __future__ import annotations

import numpy as np
import pytest

from oblong.solvers.esvm.kernel.state import scaled_kernel
from tests.solvers.esvm.problems import states


def same(one, other, tolerance=1e-7):
    for name in ("alpha", "s", "u", "w", "gamma", "b", "q", "v"):
        mine, its = getattr(one, name), getattr(other, name)
        assert np.allclose(mine, its, rtol=tolerance, atol=tolerance), name
    assert one.gap() == pytest.approx(other.gap(), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("total", [0.0, None])
@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize(("n", "p"), [(5, 1), (30, 2), (31, 5), (12, 8), (150, 6)])
def test_forms_take_the_same_steps(n, p, hard, total):
    plain, kernel = states(n + p, n, p, hard, total)
    for _ in range(4):
        assert plain.advance()
        assert kernel.advance()
        # The kernel form is for many rows.
        if n >= 12:
            same(plain, kernel, 1e-5)


def test_scaled_kernel_is_the_upper_triangle_of_a_product():
    rng = np.random.default_rng(0)
    F, root = rng.normal(size=(6, 4)), rng.uniform(0.5, 2.0, 6)
    K, out = F @ F.T, np.zeros((6, 6))
    scaled_kernel(K, root, 0.3, out)
    expected = np.triu(root[:, None] * K * root + 0.3 * np.eye(6))
    np.testing.assert_allclose(out, expected, atol=1e-14)
