"""Threads: how many there are, and chunks of work spread over them.

Compiled loops and NumPy release the GIL, so ordinary threads suffice. BLAS is held to one
thread while chunks run, because a chunk is a whole unit of work (product and pointwise map).
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache
from threading import Lock
from typing import Any

from threadpoolctl import ThreadpoolController

_SMALL_SYSTEM = 1024


@lru_cache(maxsize=1)
def _controller() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")


@lru_cache(maxsize=8)
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="oblong")


def available_threads() -> int:
    """Threads that BLAS may use now, so that every usual switch of it governs oblong too."""
    libraries = _controller().lib_controllers
    return max((library.num_threads for library in libraries), default=1)


_holding = 0
_limited: Any = None
_lock = Lock()


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Hold BLAS to one thread inside the context, which several threads may be in at a time."""
    global _holding, _limited
    with _lock:
        _holding += 1
        if _holding == 1:
            _limited = _controller().limit(limits=1)
    try:
        yield
    finally:
        with _lock:
            _holding -= 1
            if not _holding:
                _limited.restore_original_limits()


def blas_for_systems(size: int) -> AbstractContextManager[None]:
    """Hold BLAS to one thread where systems have at most so many unknowns that it is faster.

    NumPy and SciPy each bring a BLAS of their own. The threads of one wait for work in a loop and
    keep those of the other from the processors: with two of them, two threads took up to twenty
    times as long for factors of a few hundred rows as one.
    """
    return single_threaded_blas() if size <= _SMALL_SYSTEM else nullcontext()


def chunks(size: int, length: int) -> Iterator[tuple[int, int]]:
    """Cut ``range(size)`` into pieces of at most ``length``."""
    for start in range(0, size, max(1, length)):
        yield start, min(size, start + length)


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
    with single_threaded_blas() if blas else nullcontext():
        pool = _pool(threads)
        futures = [pool.submit(task, start, stop) for start, stop in chunks(size, length)]
        for future in futures:
            future.result()
