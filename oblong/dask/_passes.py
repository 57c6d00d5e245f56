"""Passes over rows that Dask has: the third provider, beside arrays and files."""

import ctypes
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, partial
from typing import Any

import dask
import dask.array as da
import numpy as np
import scipy.sparse as sp
from dask import delayed

from oblong._core.missing import check_present
from oblong.linalg.row_passes import (
    Block,
    Part,
    Place,
    RowSource,
    Task,
    Tree,
    ask,
    combined,
    count_rows,
    row_starts,
)

# Seconds without any worker after which a cluster counts as lost.
_PATIENCE = 30.0
# Seconds between two looks at the cluster.
_LOOK = 2.0
# Blocks, and numbers of their sums, up to which these are added in this process.
_FEW, _SMALL = 200, 8e6
# What glibc's malloc.h calls M_MMAP_THRESHOLD, and the bytes from which a worker maps an array.
_MMAP_THRESHOLD, _MAPPED = -3, 1 << 22


def find_client(client: Any) -> Any:
    """The client that is asked for, the current one, or None for the threads of this process."""
    if client is not None:
        return client
    try:
        from distributed import default_client

        return default_client()
    except (ImportError, ValueError):
        return None


def compute(client: Any, values: Sequence[Any], watched: int | None = None) -> list[Any]:
    """Compute delayed values, until one fails; nothing is left on the cluster.

    Only the first `watched` of them are waited for, if all others are done by then.
    """
    if client is None:
        return list(dask.compute(*values, scheduler="threads"))
    from distributed import wait

    futures: list[Any] = []
    try:
        futures = client.compute(list(values))
        waiting, seen = set(futures[:watched]), time.monotonic()
        while waiting:
            try:
                with client.as_current():
                    done = wait(list(waiting), timeout=_LOOK, return_when="FIRST_COMPLETED").done
                waiting -= done
                if any(future.status != "finished" for future in done):
                    break
            except TimeoutError:
                if _n_workers(client):
                    seen = time.monotonic()
                elif time.monotonic() - seen > _PATIENCE:
                    problem = f"the cluster has had no workers for {_PATIENCE:.0f} seconds"
                    raise ConnectionError(problem) from None
        return list(client.gather(futures))
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        # Futures that are cancelled with their cluster raise what is no Exception.
        if client.status != "running":
            raise ConnectionError("the connection to the cluster is lost") from error
        raise
    finally:
        if client.status == "running":
            client.cancel(futures)


def _n_workers(client: Any) -> int:
    return len(client.scheduler_info(n_workers=-1)["workers"])


def _rows_of(block: Any, name: str, n_features: int) -> Any:
    """Rows of a partition, as an array or a CSR matrix of floats."""
    values = block.tocsr() if sp.issparse(block) else np.asarray(block)
    if values.ndim != 2 or values.shape[1] != n_features:
        problem = f"rows of shape {values.shape}, but there are {n_features} columns"
        raise ValueError(f"{name}: {problem}")
    if values.dtype.kind == "c":
        raise ValueError(f"{name}: Complex data not supported")
    if values.dtype in (np.float32, np.float64):
        return values
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: {error}") from None


def _present(y: Any, name: str) -> np.ndarray:
    try:
        check_present(y)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    return np.asarray(y).reshape(-1)


def _as_block(name: str, n_features: int, X: Any, y: Any, weight: Any) -> Block:
    return Block(
        _rows_of(X, name, n_features),
        None if y is None else _present(y, name),
        None if weight is None else np.asarray(weight).reshape(-1),
    )


class CollectionRows:
    """Partitions of Dask collections as a row source.

    Parameters
    ----------
    X : dask.array.Array or dask.dataframe.DataFrame
        The rows.
    y, weight : Dask collections of the same partitions, optional
        Labels and weights.
    memory : float
        Bytes for rows that are kept between passes.
    """

    def __init__(self, X: Any, y: Any, weight: Any, memory: float) -> None:
        if not dask.is_dask_collection(X):
            raise TypeError(
                f"expected a Dask array or data frame, got {type(X).__name__}; the class without "
                f'"Dask" in its name takes rows in memory'
            )
        self.memory, self.labelled = memory, y is not None
        self.feature_names: list[str] | None = None
        if hasattr(X, "columns"):
            names = list(X.columns)
            self.n_features = len(names)
            self.feature_names = names if all(isinstance(name, str) for name in names) else None
        else:
            if X.ndim != 2:
                raise ValueError(f"expected rows of two dimensions, got {X.ndim}")
            if len(X.chunks[1]) != 1:
                raise ValueError(
                    f"the columns are in {len(X.chunks[1])} chunks: use X.rechunk({{1: -1}})"
                )
            self.n_features = int(X.shape[1])
        self._X = _partitions(X)
        self.n_blocks = len(self._X)
        sizes = _lengths(X)
        for name, other in (("y", y), ("sample_weight", weight)):
            if other is None:
                continue
            if not dask.is_dask_collection(other):
                raise TypeError(f"expected {name} as a Dask collection, as X is")
            own = _lengths(other)
            same = len(_partitions(other)) == self.n_blocks
            if not same or (sizes is not None and own is not None and sizes != own):
                raise ValueError(
                    f"X and {name} have different partitions: {_shown(sizes, self.n_blocks)} and "
                    f"{_shown(own, len(_partitions(other)))} rows"
                )
            sizes = own if sizes is None else sizes
        self._y = None if y is None else _partitions(y)
        self._weight = None if weight is None else _partitions(weight)
        self.lengths: Sequence[int] | None = sizes

    def task(self, k: int) -> Any:
        """A block, delayed."""
        y = None if self._y is None else self._y[k]
        weight = None if self._weight is None else self._weight[k]
        shape = _name(k), self.n_features
        return delayed(_as_block, pure=False)(*shape, self._X[k], y, weight)

    def block(self, k: int) -> Block:
        """A block in this process."""
        return self.task(k).compute()

    def place(self, k: int) -> Place:
        """Where a block lies."""
        return Place(_name(k), 0, None if self.lengths is None else self.lengths[k])


def _name(k: int) -> str:
    return f"partition {k}"


def _partitions(collection: Any) -> list[Any]:
    if isinstance(collection, da.Array):
        return collection.to_delayed().reshape(-1).tolist()
    return list(collection.to_delayed())


def _lengths(collection: Any) -> list[int] | None:
    if not isinstance(collection, da.Array) or np.isnan(collection.chunks[0]).any():
        return None
    return [int(length) for length in collection.chunks[0]]


def _shown(lengths: list[int] | None, count: int) -> str:
    if lengths is None:
        return f"{count} of unknown"
    shown = ", ".join(map(str, lengths[:6])) + (", …" if len(lengths) > 6 else "")
    return f"({shown})"


def _sums(part: Part) -> Part:
    return part._replace(rows=None)


def _rows(part: Part) -> Any:
    return part.rows


@cache
def _reuse_memory() -> None:
    """Let a worker of glibc reuse the memory of arrays below some megabytes.

    Nannies set ``MALLOC_TRIM_THRESHOLD_``, after which glibc no longer adapts the size from which
    each array is mapped, and cleared page by page, anew: half of the time of a pass.
    """
    named = [f"MALLOC_{name}_THRESHOLD_" in os.environ for name in ("TRIM", "MMAP")]
    if sys.platform == "linux" and named == [True, False]:
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            mallopt(_MMAP_THRESHOLD, _MAPPED)


def _run(task: Task, place: Place, start: int, k: int, rows: Any, arguments: Any) -> Part:
    _reuse_memory()
    # A task reads a block of files and works on it, so that no block travels.
    block = rows if isinstance(rows, Block) else rows.block(k)
    return ask(task, block, place, start, arguments)


class DaskPasses:
    """Passes by tasks of Dask: many sums are added on the way, and rows are fetched by block.

    Parameters
    ----------
    source : CollectionRows or RowSource
        The rows; those of files are read by the workers.
    client : distributed.Client or None
        The cluster; None for the threads of this process.
    """

    def __init__(self, source: RowSource, client: Any) -> None:
        self.source, self.client, self.n_passes = source, client, 0
        if source.lengths is None:
            source.lengths = self.run(count_rows).rows

    def run(self, task: Task, *arguments: Any, only: int | None = None) -> Part:
        """Map a task over the blocks; see :class:`~oblong.linalg.row_passes.Passes`."""
        source, known = self.source, self.source.lengths
        starts = np.zeros(source.n_blocks, int) if known is None else row_starts(known)
        shared = delayed(arguments, traverse=False)
        files = None if isinstance(source, CollectionRows) else delayed(source, traverse=False)
        parts = []
        for k in range(source.n_blocks) if only is None else [only]:
            work = partial(_run, task, source.place(k), int(starts[k]), k)
            own = source.task(k) if isinstance(source, CollectionRows) else files
            parts.append(delayed(work, pure=False)(own, shared))
        if only is not None:
            return compute(self.client, parts)[0]
        self.n_passes += 1
        if len(parts) <= _FEW and len(parts) * source.n_features**2 <= _SMALL:
            # So little that it need not be added on the way.
            tree, gathered = Tree(), []
            for part in compute(self.client, parts):
                gathered.append(part.rows)
                tree.add(part._replace(rows=None))
            return tree.total()._replace(rows=gathered)
        level = [delayed(_sums, pure=False)(part) for part in parts]
        while len(level) > 1:
            pairs = [level[i : i + 2] for i in range(0, len(level), 2)]
            level = [
                delayed(combined, pure=False)(*pair) if len(pair) == 2 else pair[0]
                for pair in pairs
            ]
        rows = [delayed(_rows, pure=False)(part) for part in parts]
        total, *found = compute(self.client, [*level, *rows], watched=1)
        return total._replace(rows=found)


def blocks_of(source: RowSource, numbers: Iterable[int]) -> Iterator[Any]:
    """Blocks, delayed; those of files are read by the workers."""
    if isinstance(source, CollectionRows):
        yield from map(source.task, numbers)
        return
    files = delayed(source, traverse=False)
    for k in numbers:
        yield delayed(_read, pure=False)(files, k)


def _read(source: RowSource, k: int) -> Block:
    return source.block(k)
