"""What a pass over rows is: blocks of rows, and who maps a pure function over them.

A task is a function of a block and of arguments, without state. The sums that it returns are added
in a binary tree by block number, so that the result does not depend on threads, workers or on what
was computed twice; rows come back in the order of the blocks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp

from oblong._core.threads import chunks, single_threaded_blas

# Numbers of a chunk in double precision, small enough for the second cache.
_CHUNK = 1 << 16


class Block(NamedTuple):
    """Rows as a source has them: labels may be of any type, and weights may be absent."""

    X: Any
    y: np.ndarray | None = None
    weight: np.ndarray | None = None


class Present(NamedTuple):
    """Rows of a block with a weight above zero, their weights and their numbers in the source."""

    X: Any
    y: np.ndarray | None
    weight: np.ndarray
    numbers: np.ndarray


class Place(NamedTuple):
    """Where a block lies: its name, the number of its first row there, and how many rows it has."""

    name: str
    first: int = 1
    length: int | None = None


class Part(NamedTuple):
    """What a task returns: arrays to add, arrays of which the largest counts, and rows."""

    sums: dict[Any, Any]
    largest: dict[Any, Any]
    rows: Any = None


Task = Callable[..., Part]


class RowSource(Protocol):
    """Rows in numbered blocks, the same at every call; it can be pickled.

    Attributes
    ----------
    n_features, n_blocks : int
        Number of columns and of blocks.
    lengths : sequence of int or None
        Rows of each block, None where they have not been counted.
    memory : float
        Bytes that may be used for rows that are kept between passes.
    """

    n_features: int
    n_blocks: int
    lengths: Sequence[int] | None
    memory: float

    def block(self, k: int) -> Block:
        """Read block `k`."""
        ...

    def place(self, k: int) -> Place:
        """Say where block `k` lies."""
        ...


class Passes(Protocol):
    """Who runs passes over a source: threads of this process, or a cluster."""

    n_passes: int
    source: RowSource

    def run(self, task: Task, *arguments: Any, only: int | None = None) -> Part:
        """Map ``task(rows, *arguments)`` over all blocks; ``rows`` is a list by block number.

        With `only`, the task sees that block alone, and this does not count as a pass.
        """
        ...


def hashed(numbers: np.ndarray) -> np.ndarray:
    """Numbers in [0, 1) that look random: splitmix64 of row numbers."""
    z = (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return (z >> np.uint64(11)).astype(np.float64) / 2.0**53


def combined(a: Part, b: Part) -> Part:
    """Add two parts, without their rows."""
    sums, largest = dict(a.sums), dict(a.largest)
    for key, value in b.sums.items():
        sums[key] = sums[key] + value if key in sums else value
    for key, value in b.largest.items():
        largest[key] = np.maximum(largest[key], value) if key in largest else value
    return Part(sums, largest)


class Tree:
    """Sum of parts in a binary tree by number, with few of them in memory."""

    def __init__(self) -> None:
        self._stack: list[tuple[int, Part]] = []

    def add(self, part: Part) -> None:
        """Add the next part."""
        level = 0
        while self._stack and self._stack[-1][0] == level:
            part, level = combined(self._stack.pop()[1], part), level + 1
        self._stack.append((level, part))

    def total(self) -> Part:
        """The sum; an odd part goes up unchanged."""
        *rest, (_, part) = self._stack or [(0, Part({}, {}))]
        for _, left in reversed(rest):
            part = combined(left, part)
        return part


def ask(task: Task, block: Block, place: Place, start: int, arguments: tuple[Any, ...]) -> Part:
    """Run a task on one block: the pure function that every provider maps.

    Raises
    ------
    ValueError
        With the name of the block, and the row if one is to blame.
    """
    X, y, weight = block
    n = X.shape[0]
    if place.length is not None and n != place.length:
        problem = f"{n} rows, {place.length} before: the data changed while it was read"
        raise ValueError(f"{place.name}: {problem}")
    for values, what in ((y, "labels"), (weight, "weights")):
        if values is not None and len(values) != n:
            raise ValueError(f"{place.name}: {n} rows, {len(values)} {what}")
    if task is count_rows:
        return Part({}, {}, n)
    numbers = np.arange(start, start + n)
    if weight is None:
        weight = np.ones(n)
    else:
        weight = np.asarray(weight, dtype=np.float64)
        wrong = np.flatnonzero(~((weight >= 0.0) & (weight < np.inf)))
        if wrong.size:
            raise ValueError(f"{_row(place, wrong[0])}: the weight is {weight[wrong[0]]:g}")
        if not weight.all():
            kept = np.flatnonzero(weight)
            X, weight, numbers = X[kept], weight[kept], numbers[kept]
            y = None if y is None else y[kept]
    try:
        with single_threaded_blas():
            return task(Present(X, y, weight, numbers), *arguments)
    except _BadRow as error:
        raise ValueError(f"{_row(place, error.number - start)}: {error}") from None


def _row(place: Place, row: int) -> str:
    return f"{place.name}, row {place.first + int(row):,}"


class _BadRow(ValueError):
    def __init__(self, number: int, problem: str) -> None:
        super().__init__(problem)
        self.number = number


def check_finite(rows: Present) -> None:
    """Check all numbers of a block."""
    values = rows.X.data if sp.issparse(rows.X) else rows.X
    with np.errstate(over="ignore", invalid="ignore"):
        # A sum of finite numbers that is not finite is none of the usual data.
        if np.isfinite(values.sum()):
            return
        each = abs(rows.X).max(axis=1)
        sizes = np.asarray(each.todense() if sp.issparse(each) else each).ravel()
    wrong = np.flatnonzero(~np.isfinite(sizes))
    if wrong.size:
        raise _BadRow(int(rows.numbers[wrong[0]]), "a number is missing or not finite")


def known_labels(rows: Present, labels: np.ndarray) -> np.ndarray:
    """Places of the labels of a block among all labels, which are sorted."""
    assert rows.y is not None
    codes = np.searchsorted(labels, rows.y).clip(max=len(labels) - 1)
    wrong = np.flatnonzero(labels[codes] != rows.y)
    if wrong.size:
        problem = f"the label {rows.y[wrong[0]]!r} was not there before: the data changed"
        raise _BadRow(int(rows.numbers[wrong[0]]), problem)
    return codes


def dense_chunks(X: Any) -> Iterator[tuple[slice, Any]]:
    """Some rows at a time in double precision; those of a sparse block all at once."""
    if sp.issparse(X):
        yield slice(0, X.shape[0]), X.astype(np.float64, copy=False)
        return
    for start, stop in chunks(X.shape[0], max(256, _CHUNK // max(1, X.shape[1]))):
        yield slice(start, stop), np.asarray(X[start:stop], dtype=np.float64, order="C")


def count_rows(rows: Present) -> Part:
    """Count the rows of a block: :func:`ask` does, so that those without weight are included."""
    raise NotImplementedError


def row_starts(lengths: Sequence[int]) -> np.ndarray:
    """Number of the first row of each block."""
    return np.concatenate([[0], np.cumsum(np.asarray(lengths, dtype=np.int64))])[:-1]


class ArrayRows:
    """Rows in memory, or of a memory map, as a source.

    Parameters
    ----------
    X : ndarray or CSR matrix
        The rows.
    y, weight : ndarray, optional
        Labels and weights.
    block_rows : int, default=131072
        Rows of a block.
    memory : float, default=inf
        See :class:`RowSource`.
    """

    def __init__(
        self,
        X: Any,
        y: np.ndarray | None = None,
        weight: np.ndarray | None = None,
        *,
        block_rows: int = 1 << 17,
        memory: float = np.inf,
    ) -> None:
        self.X, self.y, self.weight = X, y, weight
        self.feature_names: list[str] | None = None
        self.n_features, self.memory = X.shape[1], memory
        self._parts = list(chunks(X.shape[0], block_rows)) or [(0, 0)]
        self.n_blocks = len(self._parts)
        self.lengths: Sequence[int] | None = [stop - start for start, stop in self._parts]

    def block(self, k: int) -> Block:
        """Some rows."""
        part = slice(*self._parts[k])
        return Block(
            self.X[part],
            None if self.y is None else self.y[part],
            None if self.weight is None else self.weight[part],
        )

    def place(self, k: int) -> Place:
        """Where they are."""
        start, stop = self._parts[k]
        return Place("X", start, stop - start)


class LocalPasses:
    """Passes by threads of this process, with one block more than threads in memory.

    Parameters
    ----------
    source : RowSource
        The rows.
    threads : int, default=1
        Threads.
    """

    def __init__(self, source: RowSource, threads: int = 1) -> None:
        self.source, self.threads, self.n_passes = source, threads, 0
        if source.lengths is None:
            source.lengths = self.run(count_rows).rows

    def run(self, task: Task, *arguments: Any, only: int | None = None) -> Part:
        """Map a task over the blocks; see :class:`Passes`."""
        source = self.source
        known = source.lengths
        starts = np.zeros(source.n_blocks, int) if known is None else row_starts(known)

        def one(k: int) -> Part:
            return ask(task, source.block(k), source.place(k), int(starts[k]), arguments)

        if only is not None:
            return one(only)
        self.n_passes += 1
        tree, rows = Tree(), []
        # Held here and not block by block, which would wake up threads of BLAS that then spin.
        with single_threaded_blas():
            for part in in_order(one, range(source.n_blocks), self.threads):
                rows.append(part.rows)
                tree.add(part._replace(rows=None))
        return tree.total()._replace(rows=rows)


def in_order(task: Callable[[int], Any], numbers: Sequence[int], threads: int) -> Iterator[Any]:
    """Results of a task for each number, in their order, a few of them at a time."""
    if threads <= 1 or len(numbers) <= 1:
        yield from map(task, numbers)
        return
    with ThreadPoolExecutor(threads, thread_name_prefix="oblong-pass") as pool:
        waiting: deque[Any] = deque()
        try:
            for k in numbers:
                waiting.append(pool.submit(task, k))
                if len(waiting) > threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def together(passes: Passes, methods: Sequence[Any], task: Task, *arguments: Any) -> list[Any]:
    """Run methods that ask questions, one pass for the questions of all of them.

    A method is a generator: it yields a question, is sent the part that answers it, and returns its
    result. ``task(rows, questions, *arguments)`` returns the parts of all questions, with keys
    ``(method, key)`` and rows ``{method: rows}``.
    """
    results: list[Any] = [None] * len(methods)
    questions: dict[int, Any] = {}

    def go_on(j: int, answer: Part | None) -> None:
        try:
            questions[j] = methods[j].send(answer)
        except StopIteration as end:
            results[j] = end.value
            questions.pop(j, None)

    for j in range(len(methods)):
        go_on(j, None)
    while questions:
        found = passes.run(task, dict(questions), *arguments)
        for j in list(questions):
            sums = {key[1]: value for key, value in found.sums.items() if key[0] == j}
            largest = {key[1]: value for key, value in found.largest.items() if key[0] == j}
            go_on(j, Part(sums, largest, [rows[j] for rows in found.rows]))
    return results
