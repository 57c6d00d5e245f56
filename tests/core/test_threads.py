"""Chunks of work on several threads, and the threads of BLAS meanwhile."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from oblong import RelativeMarginClassifier
from oblong._core.threads import (
    available_threads,
    blas_for_systems,
    own_threads_only,
    released_blas,
    run_chunks,
    single_threaded_blas,
)

LARGE = 5000


def blas_threads() -> int:
    """That other libraries of a test, which come with a BLAS, have one thread does not matter."""
    return max(found["num_threads"] for found in threadpool_info() if found["user_api"] == "blas")


@contextmanager
def nested():
    with own_threads_only(), blas_for_systems(10):
        yield


@pytest.fixture
def three_threads():
    with threadpool_limits(3, user_api="blas"):
        yield


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize(("size", "length"), [(0, 3), (2, 3), (3, 3), (100, 7)])
def test_every_chunk_is_done_once(threads, size, length):
    done = np.zeros(size, dtype=np.intp)

    def task(start: int, stop: int) -> None:
        assert stop - start <= length
        done[start:stop] += 1

    run_chunks(task, size, length, threads)
    assert (done == 1).all()


def test_threads_work_at_the_same_time():
    meeting = threading.Barrier(2, timeout=30.0)
    run_chunks(lambda start, stop: meeting.wait(), 2, 1, 2)


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="no fork beside threads")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_has_helpers_of_its_own():
    run_chunks(lambda start, stop: None, 2, 1, 2)
    with ProcessPoolExecutor(1, mp_context=get_context("fork")) as pool:
        pool.submit(test_threads_work_at_the_same_time).result(timeout=60.0)


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="no fork beside threads")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_fork__no_child_waits_for_a_thread_of_its_parent(three_threads):
    X = np.random.default_rng(0).normal(size=(30, 2))
    y = (X[:, 0] > 0.0).astype(int)
    model = RelativeMarginClassifier(kernel="linear").fit(X, y)
    over = threading.Event()

    def hold() -> None:
        while not over.is_set():
            with single_threaded_blas():
                run_chunks(lambda start, stop: None, 4, 1, 2)

    def fit() -> None:
        while not over.is_set():
            model.fit(X, y)

    def child() -> int:
        if blas_threads() != 3:
            return 1
        with own_threads_only():
            run_chunks(lambda start, stop: None, 4, 1, 2)
            if blas_threads() != 1:
                return 2
        return 0 if blas_threads() == 3 else 3

    others = [threading.Thread(target=task) for task in (hold, fit)]
    for other in others:
        other.start()
    try:
        for _ in range(200):
            assert exit_code(child) == 0
    finally:
        over.set()
        for other in others:
            other.join()


def exit_code(work: Callable[[], int]) -> int:
    """What a forked process returns; -9 of one that does not end."""
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(work())
        finally:
            os._exit(99)
    end = time.monotonic() + 20.0
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(1e-3)
    os.kill(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="no fork beside threads")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_fork__the_thread_that_forks_keeps_what_it_holds(three_threads):
    def child() -> int:
        with released_blas(LARGE):
            if blas_threads() != 3:
                return 1
        return int(blas_threads() != 1)

    with own_threads_only():
        assert exit_code(child) == 0

    def leave() -> int:
        context.__exit__(None, None, None)
        return int(blas_threads() != 3)

    context = single_threaded_blas()
    context.__enter__()
    assert exit_code(leave) == 0
    context.__exit__(None, None, None)


def test_chunks_inside_of_chunks():
    done = np.zeros((4, 50))

    def outer(start: int, stop: int) -> None:
        def inner(first: int, last: int) -> None:
            done[start:stop, first:last] += 1

        run_chunks(inner, 50, 5, 4)

    run_chunks(outer, 4, 1, 4)
    assert (done == 1).all()


@pytest.mark.parametrize("where", ["here", "helper"])
def test_an_error_comes_out_and_ends_the_work(where):
    here, begun = threading.get_ident(), []
    both = threading.Barrier(2, timeout=30.0)

    def task(start: int, stop: int) -> None:
        begun.append(start)
        if start < 2:
            both.wait()
            if (threading.get_ident() == here) == (where == "here"):
                raise FloatingPointError(where)
        time.sleep(1e-3)

    with pytest.raises(FloatingPointError, match=where):
        run_chunks(task, 1000, 1, 2)
    if where == "here":
        assert len(begun) < 1000
    run_chunks(lambda start, stop: begun.clear(), 2, 1, 2)
    assert begun == []


def test_blas_is_held_while_chunks_run(three_threads):
    seen = []
    run_chunks(lambda start, stop: seen.append(blas_threads()), 4, 1, 2)
    assert seen == [1] * 4
    run_chunks(lambda start, stop: seen.append(blas_threads()), 4, 1, 2, blas=False)
    assert seen[4:] == [3] * 4
    assert blas_threads() == 3


def test_small_systems_hold_and_large_ones_release(three_threads):
    with blas_for_systems(10):
        assert blas_threads() == 1
    with blas_for_systems(LARGE):
        assert blas_threads() == 3
    for context in (own_threads_only, nested):
        with context():
            with released_blas(10):
                assert blas_threads() == 1
            with released_blas(LARGE):
                assert blas_threads() == 3
                with single_threaded_blas():
                    assert blas_threads() == 1
                assert blas_threads() == 3
            assert blas_threads() == 1
    with single_threaded_blas(), own_threads_only(), released_blas(LARGE):
        # Whoever holds it outside counts on it.
        assert blas_threads() == 1
    assert blas_threads() == 3


def test_threads_of_blas_and_our_own(three_threads):
    with own_threads_only():
        assert (available_threads(), blas_threads()) == (3, 1)
        with single_threaded_blas():
            assert available_threads() == 1
            with own_threads_only():
                assert available_threads() == 1
        assert available_threads() == 3
        seen = []
        run_chunks(lambda start, stop: seen.append(available_threads()), 4, 1, 2)
        assert seen == [1] * 4
    assert (available_threads(), blas_threads()) == (3, 3)


def test_one_thread_does_not_release_what_another_holds(three_threads):
    inside, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with single_threaded_blas():
            inside.set()
            leave.wait(30.0)

    other = threading.Thread(target=hold)
    other.start()
    assert inside.wait(30.0)
    with own_threads_only(), released_blas(LARGE):
        assert blas_threads() == 1
    leave.set()
    other.join()
    assert blas_threads() == 3
