"""What compiled functions accept: arrays of exactly the right type, and nothing is copied."""

import os
import subprocess
import sys
import threading
from collections import namedtuple

import numpy as np
import pytest

from oblong._native import base

V = np.arange(6.0)
A = np.arange(12.0).reshape(4, 3)

Rows = namedtuple("Rows", "data starts scale")


@pytest.mark.parametrize(
    "values",
    [
        V.astype(np.int64),
        V.astype(np.float16),
        V.astype(complex),
        V.astype(object),
        V > 1,
        np.array(["a"]),
        [0.0, 1.0],
        1.0,
        None,
    ],
)
def test_dtype__must_be_one_of_the_signatures(values):
    with pytest.raises(TypeError, match=r"float32(.|\n)*float64"):
        base.extrema(values)


def test_dtype__chooses_the_overload():
    for dtype in (np.float32, np.float64):
        values = np.full(3, -1.0, dtype)
        base.raise_two(values)
        assert values.tolist() == [0.5] * 3
    with pytest.raises(TypeError):
        base.product(A, A.astype(np.float32), True, np.empty((4, 4)))


def test_dtype__of_the_other_byte_order_is_refused():
    with pytest.raises(ValueError, match="byte order"):
        base.extrema(V.astype(V.dtype.newbyteorder()))


def test_memory__that_is_not_aligned_is_refused():
    raw = np.zeros(6 * 8 + 1, np.uint8)[1:].view(np.float64)
    with pytest.raises(ValueError, match="aligned"):
        base.extrema(raw)


@pytest.mark.parametrize("values", [V[::2], V[::-1], np.broadcast_to(1.0, 5)])
def test_order__must_be_that_of_c(values):
    with pytest.raises(ValueError, match="not in C order"):
        base.extrema(values)


def test_order__of_matrices_must_be_that_of_c():
    rows = np.zeros(2, np.int32)
    assert base.take_rows(A, rows) == 2 * A[0].sum()
    for other in (A.T, A[:, :2], np.asfortranarray(A)):
        with pytest.raises(ValueError, match="not in C order"):
            base.take_rows(other, rows)


@pytest.mark.parametrize("values", [A, A[None], np.ones(())])
def test_dimensions__must_be_those_of_the_view(values):
    with pytest.raises(ValueError, match=f"has {values.ndim} dimensions where 1 are expected"):
        base.extrema(values)


def test_dimensions__three():
    cube = np.arange(24.0).reshape(2, 3, 4)
    assert base.sum(cube) == cube.sum()
    with pytest.raises(ValueError, match="has 2 dimensions where 3 are expected"):
        base.sum(A)


def test_read_only__arrays_are_read_and_not_written():
    values = -V.copy()
    values.flags.writeable = False
    assert base.extrema(values) == (-5.0, 0.0)
    with pytest.raises(ValueError, match="read-only"):
        base.raise_two(values)
    assert values.tolist() == (-V).tolist()


def test_booleans():
    assert base.count(V > 2) == 3
    with pytest.raises(TypeError):
        base.count(V.astype(np.uint8))


def test_empty_arrays():
    assert base.extrema(V[:0]) == (np.inf, -np.inf)
    assert base.sum(np.empty((0, 3, 4))) == 0.0
    assert base.take_rows(A, np.empty(0, np.int32)) == 0.0


def test_tuple__gives_its_fields():
    starts = np.array([0, 3])
    assert base.first_numbers(Rows(V, starts, 2.0)) == 6.0
    assert base.first_numbers((V, starts, 2)) == 6.0
    assert base.first_numbers((V, starts, np.float64(2.0))) == 6.0
    for wrong in (
        (V, starts),
        (V, starts, 1.0, 1.0),
        [V, starts, 1.0],
        (V, V, 1.0),
        (V, starts, ""),
    ):
        with pytest.raises(TypeError):
            base.first_numbers(wrong)


@pytest.mark.parametrize("index", [-1, 6, 2**62, -(2**63)])
def test_indices__out_of_range_are_refused_at_the_border(index):
    with pytest.raises(ValueError, match="outside the data"):
        base.first_numbers((V, np.array([0, index]), 1.0))


@pytest.mark.parametrize("index", [-1, 4, -(2**31), 2**31 - 1])
def test_indices__of_rows_out_of_range_are_refused_at_the_border(index):
    with pytest.raises(ValueError, match="out of range"):
        base.take_rows(A, np.array([0, index], np.int32))


@pytest.mark.skipif(not base.checked, reason="indices are not checked in this build")
@pytest.mark.parametrize("index", [-1, 6, 2**62])
def test_indices__are_checked_in_a_checked_build(index):
    with pytest.raises(IndexError, match="violated in C"):
        base.first_numbers_unchecked((V, np.array([index]), 1.0))


@pytest.mark.skipif(not hasattr(base, "read_beyond"), reason="not a sanitized build")
def test_memory__is_watched_in_a_sanitized_build():
    code = "import numpy as np; from oblong._native import base; base.read_beyond(np.ones(1000))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert found.returncode
    assert "heap-buffer-overflow" in found.stderr


def test_threads__get_the_same_results():
    values = np.random.default_rng(0).normal(size=100_000)
    found = []

    def work():
        for _ in range(20):
            found.append(base.extrema(values))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 80
    assert set(found) == {(values.min(), values.max())}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_fork__keeps_the_core():
    product = np.empty((4, 4))
    base.product(A, A, True, product)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            again = np.empty((4, 4))
            base.product(A, A, True, again)
            status = int(not np.array_equal(product, again))
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.skipif(
    getattr(sys, "_is_gil_enabled", lambda: True)(), reason="needs Python without a GIL"
)
def test_gil__stays_off():
    code = "import oblong._native, sys; print(sys._is_gil_enabled())"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "False"
