"""Blocks of Parquet, Arrow and NPY files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from oblong._core.text import quote
from oblong.io.arrow import arrow_labels, arrow_numbers
from oblong.io.errors import DataFileError
from oblong.io.labels import LabelCodes
from oblong.io.sources import source_name
from oblong.linalg.row_passes import Block

__all__ = ["arrow_block", "arrow_errors", "arrow_file", "open_npy", "parquet_file"]


def arrow_block(
    table: Any, features: Sequence[str], target: Any, weight: Any, path: str, first: int = 1
) -> Block:
    """Columns of an Arrow table as rows, whose first one is row `first` of the file."""
    from pyarrow import types

    source = source_name(path)
    plain = [types.is_floating, types.is_integer]

    def numbers(name: str) -> np.ndarray:
        column = table.column(name)
        if any(test(column.type) for test in plain):
            return column.to_numpy()
        return arrow_numbers(column, True, source, name)

    single = all(table.schema.field(name).type == "float" for name in features)
    X = np.empty((len(features), table.num_rows), np.float32 if single else np.float64).T
    y = weights = None
    try:
        for j, name in enumerate(features):
            X[:, j] = numbers(name)
        if target is not None:
            labels = LabelCodes(steady=True)
            codes = arrow_labels(table.column(target), labels, source, target)
            y = np.array(labels.values())[codes]
        if weight is not None:
            weights = numbers(weight)
    except DataFileError as error:
        row = None if error.row is None else error.row + first - 1
        raise DataFileError(source, error.problem, row=row, column=error.column) from None
    return Block(X, y, weights)


def open_npy(path: str) -> np.ndarray:
    """Map an NPY file of rows into memory."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        reason = (str(error).splitlines() or ["?"])[0][:100]
        raise DataFileError(source_name(path), f"damaged NPY file ({reason})") from None
    if array.ndim != 2 or array.dtype.kind not in "fiu":
        problem = f"expected rows of numbers, got shape {array.shape} of {array.dtype}"
        raise DataFileError(source_name(path), problem)
    return array


def parquet_file(path: str) -> Any:
    """Open a Parquet file."""
    import pyarrow.parquet as pq

    return pq.ParquetFile(path)


def arrow_file(path: str) -> Any:
    """Open an Arrow IPC file."""
    import pyarrow as pa

    return pa.ipc.open_file(pa.memory_map(path))


class arrow_errors:
    """Turn errors of Arrow into ours, with the name of the file."""

    def __init__(self, path: str) -> None:
        self.source = source_name(path)

    def __enter__(self) -> None:
        try:
            import pyarrow  # noqa: F401
        except ImportError:
            problem = 'this format needs pyarrow: pip install "oblong[cli]"'
            raise DataFileError(self.source, problem) from None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        import pyarrow as pa

        if isinstance(error, (pa.ArrowException, OSError)):
            reason = (str(error).strip() or type(error).__name__).splitlines()[0][:100]
            problem = f"damaged or unreadable ({quote(reason)})"
            raise DataFileError(self.source, problem) from None
