"""Problems without some of their rows, next to the same problems solved from nothing."""

from __future__ import annotations

import numpy as np
import pytest

from oblong.kernels import Kernel
from oblong.linalg.kernel_matrix import KernelMatrix
from oblong.solvers.margin.batch.problem import RowTiles
from oblong.solvers.margin.batch.without import LeftOut, solve_all_without
from oblong.solvers.margin.batch.without_loops import UNCHANGED
from oblong.solvers.margin.problem import svm_pieces
from oblong.solvers.margin.solver import solve_margin


@pytest.mark.parametrize("folds", [5, 60])
def test_outputs_of_left_out_rows(folds):
    rng = np.random.default_rng(0)
    y = np.repeat([1.0, -1.0], 30)
    X = rng.normal(size=(60, 3)) + 0.7 * y[:, None]
    kernel, fold_of = Kernel("rbf", 0.3), rng.permutation(60) % folds
    K, pieces = kernel(X), svm_pieces(y, np.ones(60))
    full = solve_margin(KernelMatrix(K), pieces, tol=1e-9)
    found = solve_all_without(
        LeftOut(
            RowTiles(kernel, X), np.array([[[0, 30], [30, 60]]]), np.array([[1.0, -1.0]]), pieces,
            full.dual_coef, fold_of, keep=False, tol=1e-6,
        )
    )  # fmt: skip
    for fold in range(folds):
        out = fold_of == fold
        if found.status[0, fold] == UNCHANGED:
            assert not full.dual_coef[out].any()
            continue
        rows = np.flatnonzero(~out)
        own = svm_pieces(y[rows], np.ones(rows.size))
        alone = solve_margin(KernelMatrix(K[np.ix_(rows, rows)]), own, tol=1e-9)
        outputs = K[np.ix_(out, rows)] @ alone.coef + alone.bias
        np.testing.assert_allclose(found.outputs[out], outputs, atol=1e-4)
        assert found.objective[0, fold] == pytest.approx(alone.objective, rel=1e-5)
        assert found.relative_gap[0, fold] < 1e-3
