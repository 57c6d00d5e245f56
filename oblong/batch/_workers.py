"""Problems of one fit, worked on at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from joblib import Parallel, delayed, effective_n_jobs

from oblong._core.threads import single_threaded_blas

Result = TypeVar("Result")


def in_threads(
    task: Callable[..., Result], items: Sequence[tuple[Any, ...]], n_jobs: int | None
) -> list[Result]:
    """Call a task with each of some arguments, in threads with a BLAS thread each if asked to."""
    jobs = min(len(items), effective_n_jobs(n_jobs))
    if jobs <= 1:
        return [task(*item) for item in items]
    with single_threaded_blas():
        return Parallel(n_jobs=jobs, prefer="threads")(delayed(task)(*item) for item in items)
