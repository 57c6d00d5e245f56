"""Threads: how many there are, and chunks of work spread over them.

Compiled loops and NumPy release the GIL, so ordinary threads suffice. BLAS is held to one
thread while chunks run, because a chunk is a whole unit of work (product and pointwise map).
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache
from threading import RLock, local

from threadpoolctl import ThreadpoolController

# Unknowns up to which one thread of BLAS solves a system as fast as several.
_SMALL_SYSTEM = 1024
# Entries of a matrix that are worth another thread.
_WORTH = 1 << 18


@lru_cache(maxsize=1)
def _controller() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")


@lru_cache(maxsize=1)
def _helpers() -> ThreadPoolExecutor:
    """As many threads as may be of help to one, for all that ask."""
    from joblib import cpu_count

    return ThreadPoolExecutor(max(1, cpu_count() - 1), thread_name_prefix="oblong")


class _Own(local):
    """What a thread has for itself.

    Attributes
    ----------
    threads : int
        How many it may use though BLAS is held to one; 0 where that says it.
    holding : int
        Contexts in which it holds BLAS, and that :func:`released_blas` suspends.
    counted : tuple of int
        What it has added to the numbers of contexts that hold BLAS and that release it.
    """

    threads = holding = 0
    counted = (0, 0)


_own = _Own()


def available_threads() -> int:
    """Threads that BLAS may use now, so that every usual switch of it governs oblong too."""
    libraries = _controller().lib_controllers
    return _own.threads or max((library.num_threads for library in libraries), default=1)


_holding = _releasing = 0
_before: list[int] | None = None
_lock = RLock()


def _count(holding: int = 0, releasing: int = 0) -> None:
    """Hold BLAS to one thread as long as more contexts hold it than release it."""
    global _holding, _releasing, _before
    _own.counted = (_own.counted[0] + holding, _own.counted[1] + releasing)
    with _lock:
        _holding += holding
        _releasing += releasing
        if (_holding > _releasing) == (_before is not None):
            return
        libraries = _controller().lib_controllers
        if _before is None:
            _before = [library.num_threads for library in libraries]
            _set_threads([1] * len(_before), _before)
        else:
            _set_threads(_before, [1] * len(_before))
            _before = None


def _set_threads(numbers: list[int], present: list[int]) -> None:
    """Set the numbers of threads, which are the same for all threads of the program."""
    for library, number, old in zip(_controller().lib_controllers, numbers, present):
        if number != old:
            # Since threadpoolctl 3.8 only the first thread that ever set them would.
            free = getattr(library, "clear_controlling_thread", lambda **_: None)
            free(force=True)
            library.set_num_threads(number)
            free(force=True)


def _renew() -> None:
    """Make a forked process its own: it has only the thread that forked.

    What the others held they would never let go.
    """
    global _holding, _releasing, _before, _lock
    _helpers.cache_clear()
    _lock = RLock()
    _holding, _releasing = _own.counted
    if _before is not None and _holding <= _releasing:
        _set_threads(_before, [1] * len(_before))
        _before = None


if hasattr(os, "register_at_fork"):
    # Nor may a thread be about to set the threads of BLAS, which has a lock of its own.
    os.register_at_fork(
        before=lambda: _lock.acquire(),
        after_in_parent=lambda: _lock.release(),
        after_in_child=_renew,
    )


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Hold BLAS to one thread in the context, which several threads may be in at a time.

    NumPy and SciPy each bring a BLAS of their own. The threads of one wait for work in a loop and
    keep those of the other, and ours, from the processors: with two of them, two threads took up to
    twenty times as long for factors of a few hundred rows as one.
    """
    before = _own.threads
    _count(holding=1)
    try:
        _own.threads = 0
        yield
    finally:
        _own.threads = before
        _count(holding=-1)


@contextmanager
def own_threads_only() -> Iterator[None]:
    """Hold BLAS to one thread, but leave :func:`run_chunks` those that there are."""
    threads = available_threads()
    with single_threaded_blas():
        _own.threads = threads
        _own.holding += 1
        try:
            yield
        finally:
            _own.holding -= 1


def released_blas(size: int) -> AbstractContextManager[None]:
    """Inside :func:`own_threads_only`, give BLAS its threads for a system of many unknowns.

    Unless anyone else holds it, too.
    """
    return _released() if size > _SMALL_SYSTEM else nullcontext()


@contextmanager
def _released() -> Iterator[None]:
    releasing = _own.holding
    _count(releasing=releasing)
    try:
        yield
    finally:
        _count(releasing=-releasing)


def blas_for_systems(size: int) -> AbstractContextManager[None]:
    """Hold BLAS to one thread where systems have at most so many unknowns that it is faster."""
    return own_threads_only() if size <= _SMALL_SYSTEM else nullcontext()


def chunks(size: int, length: int) -> Iterator[tuple[int, int]]:
    """Cut ``range(size)`` into pieces of at most ``length``."""
    for start in range(0, size, max(1, length)):
        yield start, min(size, start + length)


def even_share(size: int, entries: int, threads: int) -> int:
    """Length of chunks, one for each thread; fewer, where rows have too few entries for that."""
    return max(-(-size // threads), -(-_WORTH // max(1, entries)))


def run_chunks(
    task: Callable[[int, int], object],
    size: int,
    length: int,
    threads: int = 1,
    *,
    blas: bool = True,
) -> None:
    """Call ``task(start, stop)`` for each chunk of ``range(size)``, on ``threads`` threads.

    ``blas`` says whether the tasks call BLAS, which is then held to one thread each.
    """
    if threads <= 1 or size <= length:
        for start, stop in chunks(size, length):
            task(start, stop)
        return
    left = list(chunks(size, length))
    count, waiting = min(threads, len(left)) - 1, iter(left)

    def work() -> None:
        for start, stop in waiting:
            task(start, stop)

    # This thread works too: to wake another one takes longer than many a chunk, and helpers may be
    # busy with the chunks of others.
    with single_threaded_blas() if blas else nullcontext():
        helpers = [_helpers().submit(work) for _ in range(count)]
        try:
            work()
        finally:
            # After an error nobody begins another chunk.
            left.clear()
            started = [helper for helper in helpers if not helper.cancel()]
            wait(started)
        for helper in started:
            helper.result()
