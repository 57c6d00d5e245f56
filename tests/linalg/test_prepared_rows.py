"""Tests of rows that are prepared once for several problems."""

from __future__ import annotations

import numpy as np
import pytest

from oblong.kernels import Kernel
from oblong.linalg.kernel_columns import KernelColumns
from oblong.linalg.prepared_rows import PreparedRows

KERNELS = [Kernel("rbf", 0.02), Kernel("poly", 0.1, 3, 1.0), Kernel("linear")]
SPANS = np.array([[20, 170], [300, 420]])


@pytest.fixture(scope="module")
def X():
    return 3.0 + np.random.default_rng(0).normal(size=(500, 65)).astype(np.float32)


def columns(kernel, X, threads=1):
    """Columns of a problem with some of the rows, and those rows."""
    order = np.random.default_rng(1).permutation(len(X))
    shared = PreparedRows.sorted(kernel, X, order, threads)
    some = np.concatenate([order[slice(*span)] for span in SPANS])
    found = KernelColumns(kernel, shared.spans(SPANS), direct_above=0, threads=threads)
    return found, X[some]


def centred(kernel, X, whole):
    """Kernel matrix in double precision; that of the linear kernel depends on the shift."""
    rows = X.astype(np.float64)
    return kernel(rows - whole.mean(axis=0, dtype=np.float64) if kernel.name == "linear" else rows)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_problems_that_share_rows_have_the_columns_of_their_own(kernel, X, threads):
    found, rows = columns(kernel, X, threads)
    K = centred(kernel, rows, X)
    size = np.abs(K).max()
    every = np.arange(len(rows))
    np.testing.assert_array_equal(found._X[every], rows)
    np.testing.assert_array_equal(found._X.given, rows)
    np.testing.assert_allclose(found.store[found.fetch(every[::7])], K[::7], atol=2e-6 * size)
    coef = np.random.default_rng(2).normal(size=40)
    some = np.random.default_rng(3).permutation(len(rows))[:40]
    np.testing.assert_allclose(found.image(every, some, coef), K[:, some] @ coef, rtol=1e-9)
    np.testing.assert_allclose(found.own_image(some, coef), K[np.ix_(some, some)] @ coef, rtol=1e-9)
    part = found.restricted(some)
    np.testing.assert_allclose(
        part.store[part.fetch(np.arange(40))], K[np.ix_(some, some)], atol=2e-6 * size
    )


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_a_few_new_coefficients_change_the_product_by_their_columns(kernel, X, monkeypatch):
    found, rows = columns(kernel, X)
    K = centred(kernel, rows, X)
    whole, asked = KernelColumns._own_image, []
    monkeypatch.setattr(
        KernelColumns, "_own_image", lambda *given: asked.append(1) or whole(*given)
    )
    rng = np.random.default_rng(4)
    some = np.sort(rng.permutation(len(rows))[:40])
    coef = rng.normal(size=40)

    def right():
        own = found.own_image(some, coef)
        np.testing.assert_allclose(own, K[np.ix_(some, some)] @ coef, rtol=1e-9)
        return len(asked)

    assert right() == 1
    # The same again; two that change; one that goes; one that comes; all of them.
    assert right() == 1
    coef[[3, 20]] += 1.0
    assert right() == 1
    some, coef = np.delete(some, 7), np.delete(coef, 7)
    assert right() == 1
    some = np.append(some, np.setdiff1d(np.arange(len(rows)), some)[2])
    coef = np.append(coef, 0.5)
    assert right() == 1
    coef = coef + 1.0
    assert right() == 2
    # What a large one that is gone has left behind is rounding, which its size would no longer say.
    coef[5] = 1e12
    assert right() == 2
    coef[5] = 1.0
    assert right() == 3


@pytest.mark.parametrize("room", [1.0, 0.05])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_columns_are_added_and_kept_in_one_go(kernel, X, room, monkeypatch):
    monkeypatch.setattr("oblong.linalg.kernel_columns._NEW_COLUMNS", 16)
    found, rows = columns(kernel, X)
    K = centred(kernel, rows, X)
    size = np.abs(K).max()
    found.capacity = int(room * found.n)
    image, expected = np.zeros(found.n), np.zeros(found.n)
    rng = np.random.default_rng(4)
    for _ in range(4):
        some, coef = rng.permutation(found.n)[:50], rng.normal(size=50)
        found.add(image, some, coef, rng.random(50) < 0.5)
        expected += K[:, some] @ coef
        np.testing.assert_allclose(image, expected, atol=1e-4 * size)
    held = np.flatnonzero(found._slot_of >= 0)
    assert held.size == found._filled > 10
    np.testing.assert_allclose(found.store[found._slot_of[held]], K[held], atol=2e-6 * size)
    np.testing.assert_array_equal(found._owner[found._slot_of[held]], held)


def test_memory_is_handed_on_if_it_is_large_enough(X):
    shared = PreparedRows.sorted(KERNELS[0], X, np.arange(len(X)), 1)
    first = KernelColumns(KERNELS[0], shared.spans(SPANS), direct_above=0)
    first.release()
    second = KernelColumns(KERNELS[0], shared.spans(SPANS + 5), direct_above=0)
    assert second._memory is first._memory
    third = KernelColumns(KERNELS[0], shared.spans(SPANS + 5), direct_above=0)
    assert third._memory is not first._memory
    second.release()
    larger = KernelColumns(KERNELS[0], shared.spans(np.array([[0, 500]])), direct_above=0)
    assert larger.capacity == 500


def test_spans_are_as_far_apart_as_their_middles(X):
    moved = X.copy()
    moved[300:420] += 2.0
    shared = PreparedRows.sorted(Kernel("linear"), moved, np.arange(len(X)), 1)
    near, far = shared.apart(np.array([[[0, 100], [100, 200]], [[0, 100], [300, 420]]]))
    middles = moved[:100].mean(axis=0) - moved[300:420].mean(axis=0)
    assert near < 0.2 * far
    assert far == pytest.approx(np.linalg.norm(middles), rel=1e-5)
