"""Certificates of classifiers in the form in which they are stored."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from oblong.linalg.kernel_matrix import KernelMatrix
from oblong.solvers.covariance.certificate import StoredOutputs, certify_features
from oblong.solvers.margin.problem import svm_pieces
from oblong.solvers.margin.solver import solve_margin


def test_outputs_in_every_form():
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(20, 5)), rng.normal(size=5)
    wanted = X @ w + 0.5
    K, values = X @ X.T, rng.normal(size=(20, 7))
    g, coef = rng.normal(size=20), rng.normal(size=7)
    for found, exact in (
        (StoredOutputs.of_rows(X, w, 0.5), wanted),
        (StoredOutputs.of_rows(sp.csr_matrix(X), w, 0.5), wanted),
        (StoredOutputs.of_kernel(K, g, 0.5), K @ g + 0.5),
        (StoredOutputs.of_values(values, coef, 0.5), values @ coef + 0.5),
    ):
        np.testing.assert_allclose(found.f, exact, rtol=1e-12)
        assert (found.error > 0.0).all()
        assert found.error.max() < 1e-12
    y, C = np.sign(wanted), np.full(20, 2.0)
    value, rounding = StoredOutputs(wanted, np.full(20, 1e-3)).loss(y, C)
    assert value == pytest.approx(2.0 * np.maximum(1.0 - np.abs(wanted), 0.0).sum())
    near = np.count_nonzero(np.abs(wanted) < 1.0)
    assert 0.0 < rounding <= 2e-3 * (near + 1)


def test_gap_is_a_bound():
    rng = np.random.default_rng(1)
    y = np.where(np.arange(40) < 20, 1.0, -1.0)
    T = rng.normal(size=(40, 3)) + 0.6 * y[:, None]
    C = np.ones(40)
    best = solve_margin(KernelMatrix(T @ T.T), svm_pieces(y, C), tol=1e-10)
    w = best.coef @ T

    def certified(w, bias):
        outputs = StoredOutputs.of_rows(T, w, bias)
        return certify_features(T, outputs, w, best.dual_coef, bias, y=y, C=C)

    exact = certified(w, best.bias)
    assert exact.objective == pytest.approx(best.objective, rel=1e-9)
    assert exact.relative_gap < 1e-7
    assert exact.status("converged") == "converged"
    worse = certified(1.5 * w, best.bias + 0.2)
    assert worse.objective - best.objective <= worse.gap * (1 + 1e-9)
    assert worse.gap == pytest.approx(worse.objective - best.objective, rel=1e-3)
    assert worse.status("converged") == "stalled"
    assert worse.status("max_iter") == "max_iter"
