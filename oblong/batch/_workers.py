"""Problems of one fit, worked on at once."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from joblib import effective_n_jobs

from oblong._core.threads import available_threads, single_threaded_blas

Result = TypeVar("Result")


def threads_of(n_jobs: int | None) -> int:
    """Threads of a fit: ``n_jobs``, or by default as many as BLAS may use now."""
    jobs = effective_n_jobs(n_jobs)
    return available_threads() if n_jobs is None and jobs == 1 else jobs


def in_threads(
    task: Callable[..., Result], items: Sequence[tuple[Any, ...]], n_jobs: int | None
) -> list[Result]:
    """Call a task with each of some arguments, in threads with a BLAS thread each if asked to."""
    jobs = min(len(items), effective_n_jobs(n_jobs))
    if jobs <= 1:
        return [task(*item) for item in items]
    # Joblib looks for results a hundred times a second, which is too rarely for small tasks.
    with single_threaded_blas(), ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(lambda item: task(*item), items))
